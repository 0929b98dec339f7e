"""The LLVM tier computes the same as the VM.

Bits are equal, except for C library functions on arrays, where the VM's last elements may use other vector code.
"""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import scipy.special as special
from hypothesis import given, settings

import wengert as wg
from helpers import assert_same_bits, in_threads
from test_loop_recovery import stencil
from test_random_programs import PROGRAMS, deterministic, run
from test_vectorise import attraction, bratu_with_borders, lorenz, rosenbrock
from wengert.errors import GuardError
from wengert.program.codegen import disk_cache, llvm_jit, reroll, scalar_code
from wengert.program.passes import loop_recovery

pytest.importorskip("llvmlite")

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 30.0, -800.0, 1e-300, 5e-324, 1e300, np.inf, -np.inf, np.nan])


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def assert_same(program, *points, rtol=0.0):
    """Compare both tiers at tuples of arguments; return the report of the compiled one."""
    vm, llvm = program.tiered("vm"), program.tiered("llvm")
    for args in points:
        found, expected = llvm(*args), vm(*args)
        if type(expected) is not tuple:
            found, expected = (found,), (expected,)
        for one, other in zip(found, expected, strict=True):
            if rtol:
                scale = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
                np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * min(scale, 10.0))
            else:
                assert_same_bits(one, other)
    return llvm._vm.report


def functions(x):
    """Return all elementwise functions with VM kernels, except those that NumPy or SciPy runs."""
    y = np.abs(x) + 0.5
    found = [
        np.negative(x), np.abs(x), x * x, x**3, x**4, 1 / x, np.sqrt(x), np.exp(x), np.exp2(x), np.expm1(x), np.log(y),
        np.log2(y), np.log10(y), np.log1p(y), np.sin(x), np.cos(x), np.tan(x), np.arcsin(x), np.arccos(x), np.arctan(x),
        np.sinh(x), np.cosh(x), np.tanh(x), np.arcsinh(x), np.arccosh(y + 1), np.arctanh(x), np.cbrt(x), y**x,
        np.maximum(x, 0.3), np.minimum(x, y), np.fmax(x, 0.0), np.fmin(x, -0.0), np.hypot(x, y), np.deg2rad(x),
        special.erf(x), special.expit(x), np.where(x > 0.2, x * y, -x),
        np.where((x < 1) & ~(x == 0) | np.isnan(x), 1.0, x), x / y - 3.0,
    ]  # fmt: skip
    return found


def chain(x):
    """Views, a gather, sums along and across, and in-place writes, on arrays of any length."""
    n = x.size
    y = x * x + 0.5
    F = np.zeros(n)
    F[1:] = y[:-1] * x[1:]
    F[:-1] -= 0.3 * np.sqrt(y[1:])
    F[::2] += y[::-1][::2]
    return np.sum(F * x) + np.sum(y[::3]) + np.sum(x[(3 * np.arange(n)) % max(n, 1)] * F)


def sweep(x):
    """A Gauss-Seidel sweep: each scalar depends on the one before."""
    A = x.copy()
    for _ in range(2):
        for i in range(1, len(x) - 1):
            for j in range(1, len(x) - 1):
                A[i, j] = (A[i - 1, j] * A[i, j - 1] + np.sin(A[i + 1, j]) + A[i, j + 1]) * 0.2
    return np.sum(A**2)


def drifting(x):
    """Irregular iterations with many instructions; the last one reads a different element in each."""
    x, read = x.copy(), []
    functions = np.random.default_rng(0).choice([np.sin, np.cos, np.tanh], 60)
    for i in range(x.size):
        for k, function in enumerate(functions):
            x[k % x.size] = function(0.9 * x[k % x.size] + 0.1 * x[k % x.size - 1])
        read.append(np.exp(x[i]))
    return np.sum(np.array(read) * np.arange(x.size))


def branching(x):
    """Branch on each element of a recurrence."""
    s = x[0]
    for v in x[1:]:
        s = s * 0.5 + v * v if v > 0.0 else s - v
    return s


def with_constants(x):
    """Use constants that vary between iterations, and a power that does not."""
    s = t = x[0]
    for i in range(40):
        for j in range(4):
            s = 0.5 * s + np.sin(0.3 * i) * x[(5 * i + j) % x.size] ** 3
        t = s * 0.1 * i - t
    return t


def mixed(x):
    """Alternate scalars, arrays and calls."""
    s = np.exp(x[0]) * x[1]
    y = x * s
    m = np.linalg.solve(np.eye(3) * 4 + np.outer(y, y), x)
    return m * s, s, y > 0.5, np.floor(s), x[0] < x[1]


TABLE = {
    "numbers": (lambda x: x[0] * np.sin(x[1]) / x[2], RNG.random(3), ["grad", "hessian"], 0.0),
    "arrays": (lambda x: np.sum(np.exp(-x) * x), RNG.random(1001), ["grad"], 1e-14),
    "planes": (lambda x: x[:, ::-1].T * x.T - x[::-1, ::2].sum(), RNG.random((5, 19)), ["vjp"], 0.0),
    "rosenbrock": (rosenbrock, RNG.random(100), ["grad"], 0.0),
    "bratu": (bratu_with_borders, RNG.random(36), ["vjp"], 1e-14),
    "attraction": (attraction, RNG.random(15), ["vjp"], 1e-13),
    "lorenz": (lorenz, RNG.random(12), ["jvp"], 0.0),
    "sweep": (sweep, RNG.random((9, 9)), ["grad"], 0.0),
    "mixed": (mixed, RNG.random(3), [], 1e-14),
}


def test_both_tiers_agree():
    for name, (f, x, derivatives, rtol) in TABLE.items():
        program = wg.record(f, x)
        for made in (program, *[getattr(program, word)() for word in derivatives]):
            given = tuple(made._example)
            points = [given, tuple(1.1 * leaf for leaf in given)]
            if name != "mixed":
                points.append(tuple(np.resize(SPECIAL, np.shape(leaf)) if np.ndim(leaf) else leaf for leaf in given))
            assert assert_same(made, *points, rtol=rtol).compiled, name


def test_elementwise_functions_and_their_partials_equal_those_of_the_vm():
    x = np.concatenate([SPECIAL, RNG.uniform(-1.5, 1.5, 9)])
    program = wg.record(lambda x: np.stack(functions(x)), x)
    reports = [assert_same(program, (x,), rtol=1e-14), assert_same(program.jvp(), (x, np.ones(x.size)), rtol=1e-13)]
    if llvm_jit._address(llvm_jit._vector_name("tanh", llvm_jit.lanes())):
        assert [report.refused for report in reports] == [[], []]
    numbers = wg.record(lambda x: np.array([y for v in x for y in functions(v)]), x[::4])
    assert assert_same(numbers, (x[::4],)).refused == []
    jacobian = wg.record(lambda x: np.array(functions(x[0])), x[:1]).jacobian()
    assert_same(jacobian, *[(x[i : i + 1],) for i in range(23)], rtol=1e-14)


def test_conditions_select_the_right_elements_of_a_short_vector():
    def chosen(x):
        values, conditions = np.split(x, 2)
        return np.where(conditions > 0, values, 0.0)

    for n in range(1, 20):
        x = RNG.standard_normal(2 * n)
        assert assert_same(wg.record(chosen, x), (x,), (-x,), (x[::-1].copy(),)).compiled


def test_arrays_may_have_any_length():
    for n in (0, 1, 7, 8, 17, 40, 511, 512, 513):
        program = wg.record(chain, np.ones(n))
        assert_same(program, (RNG.normal(size=n),), (np.resize(SPECIAL, n),))
        if n in (1, 17, 513):
            assert_same(program.grad(), (RNG.normal(size=n),))


@settings(deterministic, max_examples=15)
@given(PROGRAMS)
def test_random_programs_equal_those_of_the_vm(drawn):
    x = np.array([0.4, -0.7, 1.2, 0.3])
    program = wg.record(lambda x: run(drawn, x), x)
    for made in (program, program.grad()) if program._output_shape == () else (program,):
        expected = np.asarray(made.tiered("vm")(x))
        np.testing.assert_allclose(made.tiered("llvm")(x), expected, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------------------------------- long code


def test_recurrence_is_rerolled_into_loop():
    found = []
    for f, x in ((sweep, RNG.random((14, 14))), (with_constants, RNG.random(203))):
        program = wg.record(f, x)
        for made in (program, program.grad()):
            found.append((len(made), assert_same(made, (x,)).emitted))
    assert [count > 8 * written for count, written in found] == [True] * 4, found


def test_iteration_may_read_result_of_another_instruction():
    program = wg.record(drifting, RNG.random(8))
    assert assert_same(program, (RNG.random(8),)).emitted < len(program) / 2
    assert_same(program.grad(), (RNG.random(8),))


def test_random_tapes_with_loops_are_rolled_losslessly():
    """Random periods with constants and strides between irregular code; the result is short and complete."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        items, place = [], 0
        for _ in range(rng.integers(1, 4)):
            keys, steps = rng.integers(0, 3, rng.integers(1, 6)), rng.integers(-3, 4, 6)
            for turn in range(rng.integers(2, 30)):
                for k, key in enumerate(keys):
                    items.append(reroll.Item((int(key),), [place, 5 + int(k + steps[k] * turn)], 1))
                    place += 1
            items.append(reroll.Item((9,), [place, int(rng.integers(99))], 1))
            place += 1
        assert unrolled(reroll.rolled(items)) == [(x.key, x.base) for x in items]


def unrolled(items):
    """Return the instructions of code with loops, in execution order."""
    found = []

    def append(key, base):
        if not isinstance(key, reroll.Loop):
            found.append((key, base))
            return
        for turn in range(key.times):
            moved = [b + turn * s for b, s in zip(base, key.steps)]
            ends = np.cumsum([0, *key.widths]).tolist()
            for inner, i, j in zip(key.keys, ends, ends[1:]):
                append(inner, moved[i:j])

    for item in items:
        append(item.key, item.base)
    return found


def test_guard_in_loop_fails():
    x = np.where(np.arange(600) % 3 == 0, -1.0, 1.0) * RNG.uniform(0.5, 1.0, 600)
    program = wg.record(branching, x)
    assert_same(program, (x,), (0.9 * x,))
    vm, llvm = program.tiered("vm"), program.tiered("llvm")
    for i in (1, 2, 300, 599):
        z = x.copy()
        z[i] *= -1.0
        assert llvm._try_execute([z]) == vm._try_execute([z]) >= 0
        with pytest.raises(GuardError):
            llvm(z)
    assert_same_bits(llvm(x), vm(x))


@pytest.mark.parametrize(("length", "is_refused"), [(2, True), (3, True), (4, False), (12, False)])
def test_functions_of_short_rows_are_left_to_the_vm(length, is_refused):
    factors = np.linspace(0.5, 1.5, length)
    program = wg.record(lambda x: np.sum(np.exp(x[:, None] * factors) ** 1.7), RNG.random(40))
    assert_same(program, (RNG.random(40),))
    report = assert_same(program.grad(), (RNG.random(40),))
    assert ["rows of two or three" in reason for reason in report.refused] == [True] * is_refused
    assert not assert_same(wg.record(lambda x: x[:, None] * factors, RNG.random(40)), (RNG.random(40),)).refused


def test_too_long_programs_are_left_to_the_vm(monkeypatch):
    monkeypatch.setattr(scalar_code, "MAX_STATEMENTS", 20)
    program = wg.record(sweep, RNG.random((7, 7))).tiered("llvm")
    assert_same_bits(program(np.ones((7, 7))), program.tiered("vm")(np.ones((7, 7))))
    assert "outside loops, limit 20" in str(program.explain()) and "llvm: " in str(program.explain())


def test_code_refused_late_keeps_scalars_visible_to_other_kernels(monkeypatch):
    address = llvm_jit._address
    monkeypatch.setattr(llvm_jit, "_address", lambda name: None if name == "sin" else address(name))
    for f, n in ((sweep, (9, 9)), (lambda x: np.sin(x[0]) * np.sum(x) * np.exp(x[0] * x[1]), 9)):
        x = RNG.random(n)
        program = wg.record(f, x)
        for made in (program, program.grad()):
            report = assert_same(made, (x,))
            assert report.refused == ["no sin in the C library"] and report.compiled


def test_matrix_products_stay_calls_between_compiled_kernels():
    """Compiled code before and after reads the results of array and scalar products."""

    def f(A):
        x, s = A[0] * 2.0, 1.0
        for k in range(4):
            y = A @ np.tanh(x * s)
            s = np.vdot(y, x) * 0.1 + np.vdot(y, y) + s * s
            x = (A.T @ (y + k)) @ A
        return np.sum(x) + s

    A = RNG.normal(size=(7, 7)) / 5.0
    program = wg.record(f, A)
    assert_same(program, (A,), (2.0 * A,), (A.T,), rtol=1e-14)
    assert_same(program.grad(), (A,), (2.0 * A,), rtol=1e-13)
    np.testing.assert_allclose(program.grad().tiered("llvm")(A), wg.grad(f)(A), rtol=1e-12)


def test_loop_bodies_are_compiled(monkeypatch):
    for name in ("_MIN_BYTES", "_MIN_BYTES_PER_STEP", "_MAX_FUSED_INSTRUCTIONS"):
        monkeypatch.setattr(loop_recovery, name, 0)
    x = RNG.random((6, 7))
    program = wg.record(stencil, x)
    for made in (program, program.grad()):
        assert_same(made, (x,), (0.9 * x,))
        llvm = made.tiered("llvm").explain().tier
        assert any(line.startswith("loop body: llvm: ") for line in llvm), llvm
        assert "loop body: vm" in made.tiered("vm").explain().tier


# ---------------------------------------------------------------------------------------------- calls


def test_threads_may_pass_their_own_out_arrays():
    x = [RNG.random((9, 9)) for _ in range(8)]
    program = wg.record(sweep, x[0]).grad()
    llvm, vm = program.tiered("llvm"), program.tiered("vm")
    expected = [vm(each) for each in x]

    def work(i):
        out = np.empty((9, 9))
        for _ in range(50):
            assert llvm(x[i], out=out) is out
            assert_same_bits(out, expected[i])

    in_threads(work, 8)


def test_tier_of_compile_applies_to_derivatives():
    f = wg.compile(rosenbrock, tier="llvm", recheck=None)
    x = RNG.random(50)
    g = wg.grad(f)
    assert f.tier == g.tier == g.fun.tier == pickle.loads(pickle.dumps(wg.compile(rosenbrock, tier="llvm"))).tier
    assert repr(g) == "compile(grad(rosenbrock), recheck=None, tier='llvm')"
    for _ in range(3):
        assert_same_bits(g(x), wg.grad(wg.compile(rosenbrock, tier="vm"))(x))
    with pytest.raises(ValueError, match="tier must be 'auto', 'vm' or 'llvm'"):
        wg.compile(rosenbrock, tier="gpu")


def test_tier_changes_when_it_pays():
    x = RNG.random(100_000)
    program = wg.record(lambda x: x * x * x * x * x * x * x + 1.0, x)
    machine = program._vm
    assert 10 < machine.due < 10_000
    first = program(x)
    assert f"llvm after {machine.due:.0e} runs" in str(program.explain())
    while machine.runs < machine.due - 1:
        program(x)
    assert machine.report is None
    for _ in range(2):
        assert_same_bits(program(x), first)
    assert machine.report.compiled == 1
    assert wg.record(rosenbrock, x[:9]).tiered("vm")._vm.due == 0
    exact = wg.record(rosenbrock, x[:9], exact=True)
    assert exact._vm.due == 0 and "exact" in str(exact.tiered("llvm").explain())


# ---------------------------------------------------------------------------------------------- on disk


def test_native_code_is_cached_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(tmp_path / "new"))
    program, x = wg.record(rosenbrock, np.ones(30)), RNG.random(30)
    expected = program(x)

    def made():
        again = program.tiered("llvm")
        assert_same_bits(again(x), expected)
        return again._vm.report.is_from_disk

    assert [made(), made()] == [False, True]
    (file,) = (tmp_path / "new").iterdir()
    for damaged in (b"", file.read_bytes()[:-9], b"{}\n" + bytes(99), b"[]\nx"):
        file.write_bytes(damaged)
        assert [made(), made()] == [False, True]
    monkeypatch.setenv("WENGERT_CACHE_DIR", str(file))  # not a writeable folder
    assert [made(), made()] == [False, False]
    monkeypatch.delenv("WENGERT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.folder() == tmp_path / "wengert"


def test_missing_llvmlite_is_named(monkeypatch):
    llvm_jit.llvm.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    try:
        with pytest.raises(ImportError, match=r"pip install wengert\[jit\]"):
            wg.compile(rosenbrock, tier="llvm")
        x = np.ones(200_000)
        program = wg.record(lambda x: x * x * x * x * x * x * x + 1.0, x)
        for _ in range(program._vm.due + 1):
            program(x)
        assert "pip install wengert[jit]" in str(program.explain())
    finally:
        llvm_jit.llvm.cache_clear()
