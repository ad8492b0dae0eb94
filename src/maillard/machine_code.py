"""Numba: from a function to machine code, and safely back from disk; quick to start either way.

Three traps of Numba's own on-disk cache give wrong probabilities without an error: a changed helper
in another file leaves old machine code in use; caches written by two processes can link one policy
to another's kernel; function arguments and closures never hit the cache and grow it for ever. Here
every compiled function carries in its name a digest of all code and constants that it reaches, and
that digest is also the cache's stamp: other code is another name. A damaged, missing or unwritable
cache entry is a miss, never an error.
"""

import contextlib
import functools
import gc
import hashlib
import importlib.util
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def compile_entry(
    function: types.FunctionType, signature: str, digest: str, lower: Callable[[], None]
) -> Callable[..., Any]:
    """Machine code that Python can call, from the cache or made now.

    `lower` puts what compiled code sees into the function's globals; it is called where something
    has to be compiled.
    """
    with _collector_at_rest():
        from numba import njit

        # Else a first call imports it, which adds to a table that another thread may be going
        # through for its own first call.
        from numba.experimental import function_type  # noqa: F401

        dispatcher = njit(error_model="numpy", nogil=True)(function)

        def on_miss() -> None:
            _load_without_scipy()
            lower()

        cache = _disk_cache(function, digest, on_miss)
        if cache is None:
            on_miss()
        else:
            dispatcher._cache = cache
        dispatcher.compile(signature)
        _know_environments(dispatcher)
        _know_functions(dispatcher)
    dispatcher.disable_compile()
    return dispatcher  # type: ignore[no-any-return]


def compile_part(function: types.FunctionType, inline: bool) -> Any:
    """A function that only compiled code calls: it becomes part of every entry that reaches it."""
    from numba import njit

    # Inlined: otherwise Numba counts array references atomically at each call (twice the
    # time of a KL-MS step), and a call left standing keeps LLVM from vectorising the loop.
    # No wrappers: Python never calls it.
    options: dict[str, Any] = {"no_cfunc_wrapper": True, "no_cpython_wrapper": True}
    options |= {"forceinline": inline, "pipeline_class": _draft_compiler()}
    return njit(error_model="numpy", **options)(function)


# --------------------------------------------------------------------------------------------------
# Quickly


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """No search for garbage meanwhile.

    Of the many objects that Numba makes when it is imported, loads or compiles, hardly one is
    garbage before the end; looking for some takes a tenth of a compilation, and a third of an
    import.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@functools.cache
def _load_without_scipy() -> None:
    """Load Numba's array functions without SciPy, which they import only to see that it is there.

    That is a quarter of the time in which a first policy is ready. Numba asks again, and then does
    import it, where somebody's compiled code uses linear algebra.
    """
    if "numba.np.arraymath" in sys.modules or importlib.util.find_spec("scipy") is None:
        return
    from numba.np import linalg

    asked = getattr(linalg, "ensure_blas", None)
    if asked is None:  # another version of Numba, which may not ask
        return
    linalg.ensure_blas = lambda: None
    try:
        from numba.np import arraymath

        arraymath.ensure_blas = asked
    finally:
        linalg.ensure_blas = asked


@functools.cache
def _draft_compiler() -> Any:
    """A compiler that leaves its code as a draft: no optimisation and no machine code of its own.

    Numba finishes every function that it compiles, though what is inlined is optimised once more
    where it ends up, and never runs by itself: a third of the time to compile.
    """
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    class NoEnvironments:
        @staticmethod
        def set_env(name: str, environment: Any) -> None:
            """Put off until there is machine code: see `_know_environments`."""

    class Draft(JITCodeLibrary):  # type: ignore[misc]
        def finalize(self) -> None:
            self._raise_if_finalized()
            for library in dict.fromkeys(self._linking_libraries):
                self._reload_init.update(library._reload_init)
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            return 0

        @property
        def codegen(self) -> Any:
            return NoEnvironments

    class DraftCompiler(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Any:
            codegen = self.state.targetctx.codegen()
            self.state.library = Draft(codegen, self.state.func_id.func_qualname)
            self.state.library.enable_object_caching()
            return super().define_pipelines()

    return DraftCompiler


def _know_environments(dispatcher: Any) -> None:
    """Tell machine code where the environments of its parts are, which were drafts before it."""
    for result in dispatcher.overloads.values():
        for environment in result._find_referenced_environments():
            result.codegen.set_env(environment.env_name, environment)


def _know_functions(dispatcher: Any) -> None:
    """Tell the types of functions that are passed in without a look into Numba's table of types.

    Whoever compiles something for the first time adds to that table, maybe in another thread.
    """
    looked_up = dispatcher.typeof_pyval

    def typeof_pyval(value: Any) -> Any:
        return value._numba_type_ if isinstance(value, type(dispatcher)) else looked_up(value)

    dispatcher.typeof_pyval = typeof_pyval


# --------------------------------------------------------------------------------------------------
# The cache on disk


def cache_directory() -> Path:
    """Where machine code is kept: ``$MAILLARD_CACHE_DIR``, else the user's cache directory."""
    chosen = os.environ.get("MAILLARD_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "maillard"


def _disk_cache(function: types.FunctionType, digest: str, on_miss: Callable[[], None]) -> Any:
    """A cache for one function, or None where nothing can be written."""
    try:
        directory = cache_directory()
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    if not os.access(directory, os.W_OK | os.X_OK):
        return None
    return _cache_class()(function, str(directory), digest, on_miss)


@functools.cache
def _cache_class() -> Any:
    import numba
    from numba.core import caching
    from numba.core.runtime import rtsys

    class Files:
        """One file for each function, signature, processor and version of Numba.

        Numba keeps an index of numbered files instead; processes that write at the same time can
        leave it pointing at each other's file. Here a name says all, so there is nothing to agree
        on, and a checksum keeps machine code with one flipped bit from being run.
        """

        def __init__(self, stem: Path) -> None:
            self._stem = stem

        def _path(self, key: Any) -> Path:
            variant = hashlib.sha256(repr((numba.__version__, key)).encode()).hexdigest()[:20]
            return self._stem.with_name(f"{self._stem.name}.{variant}.nbc")

        def load(self, key: Any) -> Any:
            stored = self._path(key).read_bytes()
            if hashlib.sha256(stored[32:]).digest() != stored[:32]:
                raise OSError("damaged cache entry")
            return caching.pickle.loads(stored[32:])

        def save(self, key: Any, data: Any) -> None:
            payload, path = caching.dumps(data), self._path(key)
            beside = path.with_name(f"{path.name}.{os.getpid()}-{time.monotonic_ns()}")
            try:
                beside.write_bytes(hashlib.sha256(payload).digest() + payload)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def __init__(self, directory: str, digest: str) -> None:
            self._directory, self._digest = directory, digest

        def get_cache_path(self) -> str:
            return self._directory

        def get_source_stamp(self) -> str:
            return self._digest

        def get_disambiguator(self) -> str:
            return ""

    class Implementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
        def __init__(self, function: types.FunctionType, locator: Locator) -> None:
            self._lineno = 0
            self._locator = locator
            self._filename_base = function.__name__

    class DigestCache(caching.FunctionCache):  # type: ignore[misc]
        def __init__(
            self,
            function: types.FunctionType,
            directory: str,
            digest: str,
            on_miss: Callable[[], None],
        ) -> None:
            self._on_miss = on_miss
            self._name = function.__name__
            self._py_func = function
            self._impl = Implementation(function, Locator(directory, digest))
            self._cache_path = directory
            self._cache_file = Files(Path(directory, self._impl.filename_base))
            self.enable()

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            # Without all that Numba can compile, which it would register here: what is asked for
            # is compiled already.
            try:
                rtsys.initialize(target_context)
                found = self._load_overload(sig, target_context)
            except Exception:  # no file, a damaged or unreadable one: all are a miss
                found = None
            if found is None:
                self._on_miss()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except Exception:  # a full or read-only disk costs time, not the result
                return

    return DigestCache
