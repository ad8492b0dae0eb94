"""From plain formulas to compiled functions: the language that formulas are written in.

A formula is an ordinary Python function marked with :func:`kernel`. Nothing is compiled when a
module is imported; :func:`build` takes a function, follows every kernel that it names, binds the
open names of a template (``formula`` in a rule, say) and compiles the whole for one explicit
signature. With ``NUMBA_DISABLE_JIT=1`` it hands back the same source as plain Python. This file and
`machine_code` are the only ones that know Numba.

Every compiled function carries in its name a digest of all code and constants that it reaches:
other code is another name, so that the cache on disk cannot give back something else.
"""

import builtins
import ctypes
import functools
import hashlib
import math
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np

from . import machine_code

#: A formula or template, or what has been compiled from one.
Kernel = Callable[..., Any]
F = TypeVar("F", bound=Kernel)

#: Bumped when the meaning of a cached entry changes without its source changing.
_CACHE_FORMAT: Final = 1


def disabled() -> bool:
    """Whether compilation is off (``NUMBA_DISABLE_JIT=1``): formulas then run as plain Python."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


def kernel(function: F) -> F:
    """Mark a function as one that compiled code may call; called directly, it runs as plain Python.

    A kernel names only numbers, constant arrays, `math`, `numpy`, primitives and other kernels. Its
    plain form treats 1/0 and ln 0 as compiled code does: infinities and NaN, no errors.
    """
    if hasattr(function, "__kernel__"):
        return function
    if function.__defaults__ or function.__kwdefaults__:
        raise TypeError(f"kernel {function.__qualname__} must not have default arguments")
    if function.__closure__:
        raise TypeError(f"kernel {function.__qualname__} must not be a closure")

    @functools.wraps(function)
    def direct(*args: Any) -> Any:
        if all(isinstance(x, (int, float)) for x in args):
            args = tuple(np.float64(x) for x in args)
        with np.errstate(all="ignore"):
            return _unwrapped(function)(*args)

    direct.__kernel__ = function  # type: ignore[attr-defined]
    return direct  # type: ignore[return-value]


def routine(function: F) -> F:
    """A kernel that stays a function of its own in compiled code: for long ones, called seldom.

    Inlining those as well triples the time to compile the quadrature and gains nothing.
    """
    function.__routine__ = True  # type: ignore[attr-defined]
    return kernel(function)


def source(function: Kernel) -> types.FunctionType:
    """The function as it was written, without what `kernel` put around it."""
    written: types.FunctionType = getattr(function, "__kernel__", function)  # type: ignore[arg-type]
    return written


# --------------------------------------------------------------------------------------------------
# Primitives: operations that Python's own syntax cannot say in a way that LLVM vectorises.


class Primitive:
    """An operation with one meaning and two forms: plain Python, and an LLVM instruction."""

    def __init__(self, plain: Callable[..., Any], instruction: Callable[[], Any]) -> None:
        self.name = plain.__name__
        self.__doc__ = plain.__doc__
        self._plain = plain
        self._instruction = functools.cache(instruction)

    def __call__(self, *args: Any) -> Any:
        return self._plain(*args)

    def compiled(self) -> Any:
        return self._instruction()


def _fma_in_python() -> Callable[[float, float, float], float]:
    if hasattr(math, "fma"):  # Python 3.13
        return cast(Callable[[float, float, float], float], math.fma)
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    library.fma.restype = ctypes.c_double
    library.fma.argtypes = [ctypes.c_double] * 3
    return cast(Callable[[float, float, float], float], library.fma)


_fma_plain = _fma_in_python()


def _fma(x: float, y: float, z: float) -> np.float64:
    """x·y + z with a single rounding."""
    return np.float64(_fma_plain(x, y, z))


def _bits(x: float) -> np.int64:
    """The 64 bits of a double, as an integer."""
    return np.float64(x).view(np.int64)


def _double(bits: int) -> np.float64:
    """The double with these 64 bits."""
    return np.int64(bits).view(np.float64)


def _llvm_fma() -> Any:
    from numba.core import types as nbt
    from numba.extending import intrinsic

    # An explicit fused operation instead of fast-math's `contract`: the latter lets LLVM fuse one
    # copy of a formula and not another (the vector body and its scalar remainder), and then equal
    # arms get unequal bits and ties are broken by their position.
    @intrinsic  # type: ignore[untyped-decorator]
    def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            cast = [
                context.cast(builder, arg, given, nbt.float64)
                for arg, given in zip(args, signature.args, strict=True)
            ]
            return builder.fma(*cast)

        return nbt.float64(x, y, z), emit

    return fma


def _llvm_bitcast(source: str, target: str) -> Any:
    from numba.core import types as nbt
    from numba.extending import intrinsic

    from_type, to_type = getattr(nbt, source), getattr(nbt, target)

    @intrinsic  # type: ignore[untyped-decorator]
    def bitcast(typing: Any, x: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = context.cast(builder, args[0], signature.args[0], from_type)
            return builder.bitcast(value, context.get_value_type(to_type))

        return to_type(x), emit

    return bitcast


def _wide() -> None:
    """Loops of this function fill the widest registers that there are."""


def _llvm_wide() -> Any:
    from numba.core import types as nbt
    from numba.extending import intrinsic

    # LLVM keeps to half of an AVX-512 register unless told otherwise, for the sake of old
    # processors that slow down; a step of KL-MS takes a quarter longer then. llvmlite knows only
    # attributes without a value, hence the plain set.
    @intrinsic  # type: ignore[untyped-decorator]
    def wide(typing: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            set.add(builder.function.attributes, '"prefer-vector-width"="512"')
            return context.get_dummy_value()

        return nbt.none(), emit

    return wide


wide = Primitive(_wide, _llvm_wide)
fma = Primitive(_fma, _llvm_fma)
float_bits = Primitive(_bits, lambda: _llvm_bitcast("float64", "int64"))
bits_float = Primitive(_double, lambda: _llvm_bitcast("int64", "float64"))


# --------------------------------------------------------------------------------------------------
# Reach: what a function names, and the digest of all of it.


def _names(code: types.CodeType) -> set[str]:
    """Every global name that a code object, or one nested in it, may look up."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _reach(function: types.FunctionType, bindings: dict[str, Any]) -> dict[str, Any]:
    """The values of the global names that `function` uses; builtins and attributes are left out."""
    scope = {**function.__globals__, **bindings}
    return {name: scope[name] for name in sorted(_names(function.__code__)) if name in scope}


def _code_text(code: types.CodeType) -> str:
    """All of a code object that its meaning depends on, as one unambiguous text."""
    constants = [
        _code_text(constant) if isinstance(constant, types.CodeType) else repr(constant)
        for constant in code.co_consts
    ]
    variables = (code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars)
    return repr((code.co_code, code.co_argcount, variables, constants))


def _is_member(value: Any, module: types.ModuleType) -> bool:
    """Whether `value` is what `module` calls by the value's own name."""
    name = getattr(value, "__name__", None)
    return name is not None and getattr(module, name, None) is value


def _digest_value(name: str, value: Any, into: "hashlib._Hash") -> None:
    into.update(f"|{name}=".encode())
    if isinstance(value, types.FunctionType):
        if not hasattr(value, "__kernel__"):
            raise TypeError(f"compiled code names {name}, which is not marked @kernel")
        into.update(_digest(source(value), {}))
    elif isinstance(value, Primitive):
        into.update(f"primitive {value.name}".encode())
    elif value is np or value is math:  # what another module holds would escape the digest
        into.update(f"module {value.__name__}".encode())
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        into.update(f"array {value.dtype} {value.shape}".encode() + value.tobytes())
    elif isinstance(value, (bool, int, float, np.number)):
        into.update(f"{type(value).__name__} {value!r}".encode())
    elif isinstance(value, tuple) and all(isinstance(v, (bool, int, float)) for v in value):
        into.update(repr(value).encode())
    elif _is_member(value, np):
        into.update(f"numpy {value.__name__}".encode())
    elif _is_member(value, math):
        into.update(f"math {value.__name__}".encode())
    elif _is_member(value, builtins):
        into.update(f"builtin {value.__name__}".encode())
    else:
        raise TypeError(f"compiled code names {name}, a {type(value).__name__}: use a constant")


def _digest(function: types.FunctionType, bindings: dict[str, Any]) -> bytes:
    digest = hashlib.sha256(f"{_CACHE_FORMAT} {sys.version_info[:2]}".encode())
    digest.update(_code_text(function.__code__).encode())
    for name, value in _reach(function, bindings).items():
        _digest_value(name, value, digest)
    return digest.digest()


def fingerprint(function: Callable[..., Any], **bindings: Any) -> str:
    """A digest of the code and constants that `function` reaches, under the given bindings."""
    return _digest(source(function), bindings).hex()[:20]


# --------------------------------------------------------------------------------------------------
# Build


def _rebound(function: types.FunctionType, name: str, scope: dict[str, Any]) -> types.FunctionType:
    """The same code under another name and with other globals."""
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = types.FunctionType(
        code, {"__builtins__": builtins, "__name__": "maillard"} | scope, name
    )
    copy.__module__ = "maillard"
    copy.__doc__ = function.__doc__
    return copy


def _lowered(value: Any) -> Any:
    """What compiled code sees in place of `value`."""
    if isinstance(value, Primitive):
        return value.compiled()
    if isinstance(value, types.FunctionType):
        return _inner(source(value), fingerprint(value))
    return value


@functools.cache
def _inner(function: types.FunctionType, digest: str) -> Any:
    """A kernel as a function inlined into whatever calls it; a routine as one that is called."""
    scope = {name: _lowered(value) for name, value in _reach(function, {}).items()}
    copy = _rebound(function, f"{function.__name__}_{digest}", scope)
    return machine_code.compile_part(copy, inline=not hasattr(function, "__routine__"))


def bind(template: Kernel, **bindings: Any) -> Kernel:
    """The kernel that results when open names of a template get their values."""
    written = source(template)
    scope = {**written.__globals__, **bindings}
    bound = types.FunctionType(written.__code__, scope, written.__name__)
    bound.__module__, bound.__doc__ = written.__module__, written.__doc__
    return kernel(bound)


_built: dict[tuple[str, str], Callable[..., Any]] = {}


def build(function: Callable[..., Any], signature: str, **bindings: Any) -> Callable[..., Any]:
    """Compile `function` with everything that it reaches, for one signature; kept on disk.

    `signature` is Numba's notation, as ``"void(float64[:, ::1], int64)"``. `bindings` give open
    global names of a template their values: numbers or other kernels. The same source under the
    same bindings is compiled once in a process and once in the life of a cache.
    """
    digest = fingerprint(function, **bindings)
    key = (digest, signature)
    if key not in _built:
        make = _plain if disabled() else _machine_code
        _built[key] = make(source(function), signature, digest, bindings)
    return _built[key]


def _plain(
    function: types.FunctionType, signature: str, digest: str, bindings: dict[str, Any]
) -> Kernel:
    return kernel(source(bind(function, **bindings)))


def _machine_code(
    function: types.FunctionType, signature: str, digest: str, bindings: dict[str, Any]
) -> Callable[..., Any]:
    copy = _rebound(function, f"{function.__name__}_{digest}", {})

    def lower() -> None:
        for name, value in _reach(function, bindings).items():
            copy.__globals__[name] = _lowered(value)

    return machine_code.compile_entry(copy, signature, digest, lower)


@functools.cache
def _unwrapped(function: types.FunctionType) -> types.FunctionType:
    """A kernel as plain Python that calls other kernels as they were written."""
    scope = dict(function.__globals__)
    for name, value in _reach(function, {}).items():
        if hasattr(value, "__kernel__"):
            scope[name] = _unwrapped(source(value))
    return types.FunctionType(function.__code__, scope, function.__name__)


def vectorized(function: F) -> F:
    """Make a scalar kernel of 1-3 arguments act on numbers and arrays, with broadcasting.

    Compiled on first use. Numbers give a number, arrays give an array of their common shape.
    """
    arity = source(function).__code__.co_argcount
    templates: dict[int, Kernel] = {1: _map1, 2: _map2, 3: _map3}
    signature = f"void({', '.join(['float64[::1]'] * (arity + 1))})"

    @functools.wraps(function)
    def apply(*args: Any) -> Any:
        if len(args) != arity:
            raise TypeError(f"{function.__name__}() takes {arity} arguments, not {len(args)}")
        arrays = np.broadcast_arrays(*(np.asarray(arg, dtype=np.float64) for arg in args))
        out = np.empty(arrays[0].shape)
        loop = build(templates[arity], signature, formula=function)
        loop(*(np.array(a, dtype=np.float64).reshape(-1) for a in arrays), out.reshape(-1))
        return float(out) if out.ndim == 0 else out

    del apply.__kernel__  # type: ignore[attr-defined]  # came with the formula; this is none
    apply.scalar = function  # type: ignore[attr-defined]
    return apply  # type: ignore[return-value]


def formula(*args: float) -> float:
    """The open name of every template; `build` binds it to a kernel."""
    raise NotImplementedError("a template was called without its formula")


def _map1(x: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = formula(x[i])


def _map2(x: Any, y: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = formula(x[i], y[i])


def _map3(x: Any, y: Any, z: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = formula(x[i], y[i], z[i])
