"""The three traps of a cache of machine code, damaged caches, and what compiled code may name."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maillard
from maillard import compiled, divergence
from maillard.compiled import build, fingerprint, kernel, vectorized

SOURCE = Path(maillard.__file__).parents[1]

needs_compiler = pytest.mark.skipif(compiled.disabled(), reason="about compilation, which is off")


def in_new_process(code: str, folder: Path, **environment: str) -> str:
    """What a fresh interpreter prints; modules come from `folder`, machine code from its cache."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MAILLARD", "NUMBA"))}
    given = {
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(folder)]),
        "PYTHONDONTWRITEBYTECODE": "1",  # a stale .pyc would hide an edit within the same second
        "MAILLARD_CACHE_DIR": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        env=inherited | given | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def write(path: Path, code: str) -> None:
    path.write_text(textwrap.dedent(code))


def contents(cache: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of a cache: when it was written, and what is in it."""
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in cache.iterdir()}


# --------------------------------------------------------------------------------------------------
# The three traps


@needs_compiler
def test_a_changed_helper_in_another_file_changes_the_result(tmp_path: Path) -> None:
    helper = """
        from maillard.compiled import kernel

        @kernel
        def twist(x):
            return {factor} * x
        """
    write(
        tmp_path / "caller.py",
        """
        import helper
        from helper import twist
        from maillard.compiled import build, kernel

        @kernel
        def outer(x):
            return twist(x) + 1.0

        print(build(outer, "float64(float64)")(10.0))
        """,
    )
    write(tmp_path / "helper.py", helper.format(factor=2.0))
    assert in_new_process("import caller", tmp_path) == "21.0"
    write(tmp_path / "helper.py", helper.format(factor=3.0))
    assert in_new_process("import caller", tmp_path) == "31.0"
    write(tmp_path / "helper.py", helper.format(factor=2.0))  # and back, from the cache
    before = contents(tmp_path / "cache")
    assert in_new_process("import caller", tmp_path) == "21.0"
    assert contents(tmp_path / "cache") == before


@needs_compiler
def test_caches_of_two_processes_do_not_mix_formulas(tmp_path: Path) -> None:
    write(
        tmp_path / "policies.py",
        """
        from maillard.compiled import build, kernel

        def formula(x):
            raise NotImplementedError

        @kernel
        def first(x):
            return x + 1.0

        @kernel
        def second(x):
            return 100.0 * x

        def template(x, out):
            for i in range(out.size):
                out[i] = formula(x[i])

        def show(*formulas):
            import numpy
            for name in formulas:
                run = build(template, "void(float64[::1], float64[::1])", formula=globals()[name])
                out = numpy.zeros(2)
                run(numpy.array([1.0, 2.0]), out)
                print(name, out.tolist(), "hits", sum(run.stats.cache_hits.values()))
        """,
    )
    alone = {
        name: in_new_process(f"import policies; policies.show('{name}')", tmp_path)
        for name in ("first", "second")
    }
    assert alone["first"] == "first [2.0, 3.0] hits 0"
    assert alone["second"] == "second [100.0, 200.0] hits 0"
    before = contents(tmp_path / "cache")
    # A third process compiles nothing, mixes nothing up, and leaves the cache as it was.
    for names in (("first", "second"), ("second", "first")):
        together = in_new_process(f"import policies; policies.show{names}", tmp_path)
        expected = [alone[name].replace("hits 0", "hits 1") for name in names]
        assert together.splitlines() == expected
    assert contents(tmp_path / "cache") == before


@needs_compiler
def test_a_second_process_compiles_nothing_anew(tmp_path: Path) -> None:
    code = """
        import numpy as np
        from maillard import divergence
        from maillard.compiled import vectorized
        print(vectorized(divergence.kl)(np.array([0.1, 0.5]), 0.3).tolist())
        print(vectorized(divergence.kl_poisson)(0.1, 0.3))
        """
    printed = in_new_process(code, tmp_path)
    before = contents(tmp_path / "cache")
    assert len(before) == 2
    for seed in ("0", "1"):
        assert in_new_process(code, tmp_path, PYTHONHASHSEED=seed) == printed
        assert contents(tmp_path / "cache") == before


# --------------------------------------------------------------------------------------------------
# A cache that is damaged, or cannot be


@kernel
def cubed_plus_one(x: float) -> float:
    return x * x * x + 1.0


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, as a new process would find it."""
    monkeypatch.setenv("MAILLARD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_built", {})
    return tmp_path / "cache"


def build_again(monkeypatch: pytest.MonkeyPatch, signature: str = "float64(float64)") -> Any:
    monkeypatch.setattr(compiled, "_built", {})
    return build(cubed_plus_one, signature)


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def _flip(position: float) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(position * (len(data) - 1))] ^= 0x10
        path.write_bytes(data)

    return damage


def _replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: path.write_bytes(b""),
    "a few bytes": lambda path: path.write_bytes(path.read_bytes()[:20]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "last byte missing": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "byte flipped in the checksum": _flip(0.0),
    "byte flipped in the middle": _flip(0.5),
    "byte flipped at the end": _flip(1.0),
    "another file's content": lambda path: path.write_bytes(b"\x80\x04N."),
    "a directory": _replace_by_directory,
}


@needs_compiler
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_entry_is_a_miss(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    assert hits(build_again(monkeypatch)) == 0
    assert hits(build_again(monkeypatch)) == 1
    (entry,) = fresh.iterdir()
    damage(entry)
    rebuilt = build_again(monkeypatch)
    assert hits(rebuilt) == 0
    assert rebuilt(2.0) == 9.0
    again = build_again(monkeypatch)
    assert again(2.0) == 9.0
    assert hits(again) == (0 if entry.is_dir() else 1)  # repaired where that is possible
    assert list(fresh.iterdir()) == [entry]  # and nothing left lying about


@needs_compiler
def test_signatures_do_not_share_an_entry(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_again(monkeypatch)
    build_again(monkeypatch, "float32(float32)")
    assert len(list(fresh.iterdir())) == 2
    wide, narrow = build_again(monkeypatch), build_again(monkeypatch, "float32(float32)")
    assert (hits(wide), hits(narrow)) == (1, 1)
    assert wide(0.1) != narrow(0.1)


@needs_compiler
def test_a_cache_that_cannot_be_written_costs_time_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    for impossible in (file, file / "below"):
        monkeypatch.setenv("MAILLARD_CACHE_DIR", str(impossible))
        assert build_again(monkeypatch)(2.0) == 9.0
    assert file.read_text() == "not a directory"


@needs_compiler
def test_a_cache_that_vanishes_is_made_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_again(monkeypatch)
    (entry,) = fresh.iterdir()
    entry.unlink()
    fresh.rmdir()
    assert build_again(monkeypatch)(2.0) == 9.0
    assert list(fresh.iterdir()) == [entry]


# --------------------------------------------------------------------------------------------------
# What compiled code may name


def function_from(code: str, **names: Any) -> Any:
    """The function f that `code` defines, with these globals."""
    scope: dict[str, Any] = dict(names)
    exec(textwrap.dedent(code), scope)
    return scope["f"]


def test_a_kernel_has_no_defaults_and_closes_over_nothing() -> None:
    factor = 2.0
    with pytest.raises(TypeError, match="must not have default arguments"):
        kernel(lambda x, y=1.0: x * y)
    with pytest.raises(TypeError, match="must not have default arguments"):
        kernel(function_from("def f(x, *, y=1.0): return x * y"))
    with pytest.raises(TypeError, match="must not be a closure"):
        kernel(lambda x: x * factor)


@pytest.mark.parametrize(
    "value",
    [[1.0], {"a": 1.0}, {1.0}, None, "text", (1.0, [2.0]), np.array([None]), os, object()],
    ids=lambda value: type(value).__name__,
)
def test_what_the_digest_cannot_see_through_is_refused(value: Any) -> None:
    f = function_from("def f(x): return x if thing else x", thing=value)
    with pytest.raises(TypeError, match=r"compiled code names thing, a .*: use a constant"):
        build(f, "float64(float64)")


def test_helpers_must_be_kernels() -> None:
    def helper(x: float) -> float:
        return x

    code = "def f(x): return helper(x)"
    with pytest.raises(TypeError, match="names helper, which is not marked @kernel"):
        build(function_from(code, helper=helper), "float64(float64)")
    with pytest.raises(TypeError, match="names helper, which is not marked @kernel"):
        build(function_from(code, helper=vectorized(cubed_plus_one)), "float64(float64)")
    # Also one hidden in a kernel, and a template's name that nothing was bound to.
    hidden = kernel(function_from(code, helper=helper))
    with pytest.raises(TypeError, match="names helper, which is not marked @kernel"):
        build(function_from("def f(x): return inner(x)", inner=hidden), "float64(float64)")
    with pytest.raises(TypeError, match="names formula, which is not marked @kernel"):
        build(compiled._map1, "void(float64[::1], float64[::1])")


PLAIN = "def f(x): return 2.0 * x + 1.0"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PLAIN, "def f(x): return 2.0 * x + 1.5"),
        (PLAIN, "def f(x): return 2.0 * x - 1.0"),
        (PLAIN, "def f(x): return 2 * x + 1.0"),
        # Constants whose texts run together to the same.
        ("def f(x): return 1.5 * x + 21.0", "def f(x): return 1.52 * x + 1.0"),
        ("def f(x): return x * 0.0", "def f(x): return x * -0.0"),
        ("def f(x): return x in (1.0, 2.0)", "def f(x): return x in (1.0, 3.0)"),
        ("def f(x): return abs(x)", "def f(x): return bool(x)"),
        ("def f(x): return np.rint(x)", "def f(x): return np.ceil(x)"),
        # Inside a nested function.
        (
            "def f(x):\n def g(y): return 2.0 * y\n return g(x)",
            "def f(x):\n def g(y): return 3.0 * y\n return g(x)",
        ),
    ],
)
def test_the_digest_sees_every_change_of_code(one: str, other: str) -> None:
    assert fingerprint(function_from(one, np=np)) == fingerprint(function_from(one, np=np))
    assert fingerprint(function_from(one, np=np)) != fingerprint(function_from(other, np=np))


def test_the_digest_sees_every_value_that_is_named() -> None:
    def digest(value: Any) -> str:
        return fingerprint(function_from("def f(x): return thing + x", thing=value))

    values = [
        *(1, 1.0, True, 2.0, np.float64(1.0), np.float32(1.0), -0.0, 0.0, float("nan")),
        *((1.0, 2.0), (1.0, 3.0), (2.0, 1.0), np.sin, np.cos, np, abs, max),
        *(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([[1.0, 2.0]])),
        *(np.array([1, 2]), np.array([1.0, 2.0], dtype=np.float32), compiled.fma),
    ]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(np.array([1.0, 2.0])) == digest(np.array([1.0, 2.0]))


def test_the_digest_reaches_through_helpers_and_bindings() -> None:
    def digest(innermost: str) -> str:
        inner = kernel(function_from(innermost))
        middle = kernel(function_from("def f(x): return inner(x)", inner=inner))
        return fingerprint(function_from("def f(x): return middle(x)", middle=middle))

    assert digest(PLAIN) == digest(PLAIN)
    assert digest(PLAIN) != digest("def f(x): return 2.0 * x + 3.0")
    bound = [
        fingerprint(compiled._map1, formula=kernel(function_from(code)))
        for code in (PLAIN, "def f(x): return 2.0 * x + 3.0")
    ]
    assert bound[0] != bound[1]


def test_the_digest_is_the_same_in_every_process(tmp_path: Path) -> None:
    code = """
        from maillard import compiled, divergence
        print(compiled.fingerprint(compiled._map2, formula=divergence.kl_upper))
        """
    printed = {in_new_process(code, tmp_path, PYTHONHASHSEED=seed) for seed in ("0", "1", "77")}
    assert printed == {fingerprint(compiled._map2, formula=divergence.kl_upper)}


def test_where_a_function_stands_does_not_matter() -> None:
    assert fingerprint(function_from(PLAIN)) == fingerprint(function_from("\n\n\n" + PLAIN))


# --------------------------------------------------------------------------------------------------
# Without a compiler, and the public face


def test_importing_the_numeric_core_does_not_import_numba(tmp_path: Path) -> None:
    code = """
        import sys
        import maillard.compiled, maillard.numeric, maillard.divergence
        print("numba" in sys.modules, "llvmlite" in sys.modules)
        """
    assert in_new_process(code, tmp_path) == "False False"


def test_without_compilation_the_same_source_runs_as_python(tmp_path: Path) -> None:
    code = """
        import sys
        import numpy as np
        from maillard import compiled, divergence
        from maillard.compiled import build, vectorized
        assert compiled.disabled()
        a = np.array([0.0, 0.1, 1.0])
        print(vectorized(divergence.kl)(a, 0.3).tobytes().hex())
        print(vectorized(divergence.kl_upper)(a, 0.3).tobytes().hex())
        print("numba" in sys.modules)
        """
    kl, upper, imported = in_new_process(code, tmp_path, NUMBA_DISABLE_JIT="1").split()
    a = np.array([0.0, 0.1, 1.0])
    assert kl == vectorized(divergence.kl)(a, 0.3).tobytes().hex()
    assert upper == vectorized(divergence.kl_upper)(a, 0.3).tobytes().hex()
    assert imported == "False"
    assert not (tmp_path / "cache").exists()


def test_primitives_mean_the_same_compiled_and_not() -> None:
    @kernel
    def residue(x: float, y: float) -> float:
        return compiled_fma(x, y, -(x * y))

    @kernel
    def exponent(x: float) -> float:
        return compiled_bits(x) >> 52

    @kernel
    def doubled(x: float) -> float:
        return compiled_double(compiled_bits(x) + (1 << 52))

    x = np.array([0.1, 1.0, 3.7e200, 5e-310])
    # x·y − fl(x·y), of which only a fused operation sees anything.
    exact = [float(_exact_product_error(xi, 0.3)) for xi in x]
    assert vectorized(residue)(x, 0.3).tolist() == exact
    assert vectorized(exponent)(x).tolist() == [np.float64(xi).view(np.int64) >> 52 for xi in x]
    assert vectorized(doubled)(x[:3]).tolist() == (2 * x[:3]).tolist()


def _exact_product_error(x: float, y: float) -> Any:
    return Fraction(x) * Fraction(y) - Fraction(float(x) * y)


compiled_fma, compiled_bits, compiled_double = (
    compiled.fma,
    compiled.float_bits,
    compiled.bits_float,
)


def test_vectorized_takes_numbers_and_arrays() -> None:
    kl = vectorized(divergence.kl)
    assert type(kl(0.5, 1)) is float
    assert kl([0.5, 0.0], [[0.5], [1.0]]).shape == (2, 2)
    assert kl(np.zeros((0, 3)), 0.5).shape == (0, 3)
    assert kl(np.array([0.25, 0.5])[::-1], 0.5)[0] == 0.0
    frozen = np.array([0.5])
    frozen.flags.writeable = False
    assert kl(frozen, frozen)[0] == 0.0
    with pytest.raises(TypeError, match=r"kl\(\) takes 2 arguments, not 1"):
        kl(0.5)
    assert kl.scalar is divergence.kl


@pytest.mark.slow
@pytest.mark.skipif(compiled.disabled(), reason="nothing is compiled")
def test_scipy_is_left_to_those_who_need_it() -> None:
    code = (
        "import sys, numba, numpy as np, maillard as mb\n"
        "mb.simulate('ms', mb.Bernoulli([0.2, 0.4]), horizon=5, trials=1)\n"
        "assert 'scipy.linalg' not in sys.modules\n"
        "dot = numba.njit(lambda a, b: np.dot(a, b))\n"
        "assert dot(np.eye(2), np.ones((2, 2))).tolist() == [[1.0, 1.0], [1.0, 1.0]]\n"
        "assert 'scipy.linalg' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
@pytest.mark.skipif(compiled.disabled(), reason="nothing is compiled")
def test_a_first_call_adds_nothing_to_the_table_of_types() -> None:
    """Another thread may be going through Numba's table for a first call of its own."""
    compile_it = (
        "import maillard as mb\n"
        "from maillard.simulation import engine\n"
        "program = engine.program(mb.policy('ms', arms=2), mb.Bernoulli([0.2, 0.4])).compile()\n"
    )
    code = compile_it + (
        "from numba.core.typing.typeof import typeof_impl\n"
        "before = set(typeof_impl.registry)\n"
        "program.run(5, [5])\n"
        "assert set(typeof_impl.registry) == before"
    )
    # What is compiled anew fills the table; the second time it comes from the cache.
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code], check=True)
