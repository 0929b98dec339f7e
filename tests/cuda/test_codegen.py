"""The emitter: each function and partial, whole programs and random ones, as NumPy code and as native code.

The statements of a kernel body run on NumPy arrays everywhere, and as LLVM IR on the CPU if Numba is installed.
"""

import functools
import math
import operator
import warnings

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from wengert.core.tape.tape import kernel_partials, kernel_rows

import wengert as wg
from helpers import assert_rounding
from scenarios import TABLE
from test_random_programs import POINTS, PROGRAMS, deterministic, drawn_evenly, plain, run
from wengert.cuda import kernels
from wengert.cuda.codegen import Body, product_error
from wengert.program.codegen import kernels as formulas

try:
    import numba_cuda  # noqa: F401

    REASON = ""
except ImportError:
    REASON = "numba-cuda is not installed: pip install 'wengert[cuda]'"
with_numba = pytest.param("cpu", marks=pytest.mark.skipif(bool(REASON), reason=REASON))
targets = pytest.mark.parametrize("target", ["python", with_numba])

SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    0.3,
    -2.7,
    7.5,
    1e-8,
    -1e-8,
    25.0,
    -25.0,
    709.0,
    -746.0,
    1e3,
]
EXTREME = [1e-300, -1e-300, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan]
POINTS_OF_ONE = np.array([*SPECIAL, *EXTREME, *np.random.default_rng(0).uniform(-4, 4, 60)])
POINTS_OF_TWO = np.array([(a, b) for a in [*SPECIAL, *EXTREME] for b in [*SPECIAL, *EXTREME]])

#: rules that are not NumPy or SciPy functions, as functions that are
BY_HAND = {
    "**": operator.pow,
    "pow function": np.power,
    "strong": lambda a, b: np.where((a == 0) | (b == 0), 0.0, a * b),
}
#: beyond these libraries disagree: argument reduction, poles
LIMITS = {
    "sin": 1e6,
    "cos": 1e6,
    "tan": 1e6,
    "sinc": 1e3,
    "gamma": 170,
    "gammaln": 1e6,
    "j0": 50,
    "j1": 50,
    "y0": 50,
    "y1": 50,
}
#: functions whose relative error near a zero is that of their argument, as in SciPy
ABSOLUTE = {"j0", "j1", "y0", "y1", "sinc", "gammaln", "gamma", "ndtr", "logit", "log_expit", "logaddexp2", "exp10"}


def function_of(name):
    if name in BY_HAND:
        return BY_HAND[name]
    return getattr(np, name, None) or getattr(scipy.special, name)


def arity_of(name):
    value = formulas.ROWS[name].value
    if type(value) is formulas.Formula:
        return getattr(function_of(name), "nin", 2)
    return value.python.count("{}") if type(value) is formulas.Primitive else value.__code__.co_argcount


def evaluated(body, columns, target, dtype=np.float64):
    """Return the outputs of a body, one column per element."""
    n = len(columns)
    columns = np.ascontiguousarray(columns, dtype=dtype).reshape(n, -1)
    outputs = [np.full((n, math.prod(shape)), -7.0, dtype) for shape in body.outputs]
    status = [np.full(n, -7, np.int32)] if body.guards else []
    with np.errstate(all="ignore"):
        kernels.kernel(body, target=target)(n, columns, *outputs, *status)
    return outputs + status


NAMES = [name for name in formulas.ROWS if name not in ("product error", "where")]


@targets
def test_every_function_equals_numpy_or_scipy_at_special_points(target):
    for arity, points in ((1, POINTS_OF_ONE[:, None]), (2, POINTS_OF_TWO)):
        names = [name for name in NAMES if arity_of(name) == arity]
        body = Body("functions")
        x = body.input((arity,))
        body.output(np.array([body.apply(name, *x) for name in names], object))
        (found,) = evaluated(body, points, target)
        for name, y in zip(names, found.T):
            given = points
            if name.startswith("logical"):
                given = points != 0.0
            with np.errstate(all="ignore"):
                expected = np.asarray(function_of(name)(*given.T), float)
            kept = (np.abs(points) <= LIMITS.get(name, np.inf)).all(axis=1)
            kept &= (np.abs(points) > 1e-300).all(axis=1) | (name not in LIMITS)
            kept |= ~np.isfinite(points).all(axis=1) & (name not in LIMITS)
            atol = 1e-14 if name in ABSOLUTE else 0.0
            np.testing.assert_allclose(y[kept], expected[kept], rtol=4e-15, atol=atol, err_msg=name)
            if name in ("remainder", "floor_divide", "copysign", "negative", "rint", "fmod", "trunc", "**"):
                zero = kept & (y == 0)
                differ = np.signbit(y[zero]) != np.signbit(expected[zero])
                assert not differ.any(), (name, points[zero][differ])


@targets
def test_every_partial_equals_eager_sweep_at_special_points(target):
    for arity, points in ((1, POINTS_OF_ONE[:, None]), (2, POINTS_OF_TWO)):
        rows = [(name, opcode) for name, opcode, count, *_ in kernel_rows() if count == arity]
        body = Body("partials")
        x = body.input((arity,))
        found = []
        for name, opcode in rows:
            y = body.apply((name or "**").rpartition(".")[2], *x)
            found += [body.partial(opcode, side, *x, *[None] * (2 - arity), y) for side in range(arity)]
            body.output(np.array([y, *found[-arity:]], object))
        values = evaluated(body, points, target)
        for (name, opcode), columns in zip(rows, values):
            expected = [
                kernel_partials(opcode, *[*point, 0.0][:2], y)[:arity] for point, y in zip(points, columns[:, 0])
            ]
            np.testing.assert_allclose(columns[:, 1:], expected, rtol=2e-14, atol=1e-300, err_msg=name)


@targets
def test_powers_with_constant_exponent_equal_numpy_and_eager_sweep(target):
    exponents = [0.0, 0.5, 1.0, -1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, -2.0, -3.0, 1.5, 0.1, -0.7, 1e-3, 2.5, -0.5]
    opcode = next(opcode for name, opcode, *_ in kernel_rows() if name == "power")
    body = Body("powers")
    (x,) = body.input((1,))
    pairs = []
    for exponent in exponents:
        b = body.constant(exponent)
        y = x**exponent
        pairs += [y, body.partial(opcode, 0, x, b, y)]
    body.output(np.array(pairs, object))
    points = POINTS_OF_ONE[np.abs(POINTS_OF_ONE) > 1e-200]
    (found,) = evaluated(body, points, target)
    with np.errstate(all="ignore"):
        for i, exponent in enumerate(exponents):
            expected = [x**exponent for x in points]  # np.power computes roots of -inf differently
            np.testing.assert_allclose(found[:, 2 * i], expected, rtol=4e-15, atol=1e-307)
            expected = [kernel_partials(opcode, x, exponent, y)[0] for x, y in zip(points, found[:, 2 * i])]
            np.testing.assert_allclose(found[:, 2 * i + 1], expected, rtol=2e-13, atol=1e-300, err_msg=f"**{exponent}")


def test_rounding_error_of_product_is_exact():
    a, b = np.random.default_rng(3).normal(size=(2, 50))
    from fractions import Fraction

    for x, y, rest in zip(a, b, product_error(a, b, a * b)):
        assert Fraction(x) * Fraction(y) == Fraction(x * y) + Fraction(rest)
    a, b = a.astype(np.float32), b.astype(np.float32)
    assert product_error(a, b, a * b).dtype == np.float32
    assert all(float(x) * float(y) == float(x * y) + float(r) for x, y, r in zip(a, b, product_error(a, b, a * b)))


# ---------------------------------------------------------------------------------------------- programs


def replayed(program, mode, inputs, target, dtype="float64"):
    """Return the outputs of a mode at some points, computed by all of its bodies, and the status of each point."""
    bodies = kernels.bodies(program, mode, dtype=dtype)
    n = len(inputs[0])
    inputs = [np.ascontiguousarray(np.reshape(x, (n, -1)), dtype=dtype) for x in inputs]
    arrays = {f"x{i}": x for i, x in enumerate(inputs)}
    arrays |= {f"y{i}": np.full((n, math.prod(s)), np.nan, dtype) for i, s in enumerate(bodies[0].outputs)}
    arrays["status"] = np.full(n, -1, np.int32)
    with np.errstate(all="ignore"):
        for body in bodies:
            kernels.kernel(body, target=target)(n, *[arrays[name] for name in body.arrays()])
    outputs = [arrays[f"y{i}"].reshape(n, *s) for i, s in enumerate(bodies[0].outputs)]
    return outputs, arrays["status"] if any(body.guards for body in bodies) else np.zeros(n, np.int32)


#: scenarios that keep state or write into their argument, and so are not recorded, or that compare to pivot
OTHERS = {
    "a callable object that keeps its buffer",
    "a closure over numbers, arrays and functions",
    "method with a helper that makes a buffer",
    "argument written by the program",
    "gaussian elimination in place",
}
SMALL = [
    s for s in TABLE
    if not s.containers and s.dtype == np.float64 and np.size(s.x) <= 64 and s.name not in OTHERS
]  # fmt: skip


@pytest.mark.parametrize("s", SMALL, ids=[s.name.replace(" ", "_") for s in SMALL])
def test_generated_code_passes_the_scenario_table(s):
    program = wg.record(s.f, s.x, args=s.args)
    inputs = [np.stack([x, x]) for x in program._example]
    (value, J), status = replayed(program, "jacobian", inputs, "python")
    assert_rounding(value[1], np.asarray(program(s.x, *s.args)))
    assert_rounding(J[0], s.exact())
    assert not status.any()


FORTY = next(s for s in TABLE if s.name == "forty operations on six numbers")


@targets
def test_forty_operations_agree_with_numpy_to_the_last_digits(target):
    X = np.random.default_rng(1).uniform(0.3, 1.5, (300, 6))
    program = wg.record(FORTY.f, FORTY.x)
    assert program.explain().instructions["elementwise"] == 40
    (value, gradient), _ = replayed(program, "grad", [X], target)
    assert np.abs(value - [FORTY.f(x) for x in X]).max() < 4e-15
    assert np.abs(gradient - [FORTY.jacobian(x) for x in X]).max() < 4e-15
    V = np.random.default_rng(2).uniform(-1, 1, (300, 6))
    (product,), _ = replayed(program, "hvp", [X, V], target)
    expected = [wg.hvp(FORTY.f, x, v) for x, v in zip(X[:20], V)]
    np.testing.assert_allclose(product[:20], expected, rtol=1e-12, atol=1e-13)


@targets
def test_single_precision_is_kept_throughout(target):
    X = np.random.default_rng(1).uniform(0.3, 1.5, (200, 6)).astype(np.float32)
    (value, gradient), _ = replayed(wg.record(FORTY.f, FORTY.x), "grad", [X], target, "float32")
    assert value.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(value, [FORTY.f(x) for x in X.astype(float)], atol=4e-6)
    np.testing.assert_allclose(gradient, [FORTY.jacobian(x) for x in X.astype(float)], atol=2e-5)


def vector_valued(x, a):
    y = np.empty(3)
    y[0] = x[0] * np.sin(x[1]) * a
    y[1:] = np.exp(-x[:2]) + x[2]
    return y


@targets
@pytest.mark.parametrize("mode", ["value", "jacobian", "jvp", "vjp"])
def test_all_modes_agree_for_array_and_scalar_arguments(mode, target):
    rng = np.random.default_rng(5)
    X, a, v = rng.uniform(0.5, 1.5, (20, 3)), rng.uniform(1, 2, 20), rng.normal(size=(20, 3))
    program = wg.record(vector_valued, X[0], args=(a[0],))
    inputs = [X, v, a] if mode in ("jvp", "vjp") else [X, a]
    (value, *derivative), _ = replayed(program, mode, inputs, target)
    assert_rounding(value, np.array([vector_valued(x, c) for x, c in zip(X, a)]))
    if mode == "jacobian":
        assert_rounding(derivative[0], np.array([wg.jacobian(vector_valued, x, args=(c,)) for x, c in zip(X, a)]))
    elif mode == "jvp":
        expected = [wg.jvp(vector_valued, x, d, args=(c,))[1] for x, c, d in zip(X, a, v)]
        assert_rounding(derivative[0], np.array(expected))
    elif mode == "vjp":
        expected = [wg.vjp(vector_valued, x, args=(c,))[1](d) for x, c, d in zip(X, a, v)]
        assert_rounding(derivative[0], np.array(expected))


def mean_and_parts(x):
    return x.mean(), {"rest": x[1:], "zero": 0.0}


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: x > 0, [[1.0, 0.0, 1.0]]),
        (lambda x: (x > 0).sum() * x, [[1.0, -3.0, 4.0]]),
        (lambda x: np.sign(x).astype(int) + (x > 1).astype(float), [[1.0, -1.0, 2.0]]),
        (lambda x: np.where(np.isfinite(1 / (x - x)), x, -x), [[-0.5, 1.5, -2.0]]),
        (mean_and_parts, [1 / 3, [-1.5, 2.0]]),
        (lambda x: x[:0], [[]]),
        (lambda x: np.clip(x, -1.0, 1.0).reshape(3, 1).T, [[[0.5, -1.0, 1.0]]]),
        (lambda x: np.max(x) - np.min(x) * np.any(x > 3), [2.0]),
    ],
)
def test_results_have_the_structure_of_the_function(f, expected):
    x = np.array([0.5, -1.5, 2.0])
    with np.errstate(all="ignore"):
        program = wg.record(f, x)
    outputs, _ = replayed(program, "value", [x[None]], "python")
    assert len(outputs) == len(expected)
    for y, value in zip(outputs, expected):
        assert_rounding(y[0], np.array(value))


def test_arguments_may_have_any_structure():
    rng = np.random.default_rng(8)
    A, B = np.asfortranarray(rng.normal(size=(2, 2, 3))), rng.normal(size=(5, 2, 3))
    f = lambda p, A, c: np.sum(A * p["a"]) * p["b"] + np.sum(A[::-1, 1:]) * c
    p, c = {"a": rng.normal(size=3), "b": 2.0}, rng.normal(size=5)
    program = wg.record(f, p, args=(A[0], 0.5))
    a, b = rng.normal(size=(5, 3)), rng.normal(size=5)
    (value, *gradient), _ = replayed(program, "grad", [a, b, B, c], "python")
    assert_rounding(value, np.array([f({"a": a[i], "b": b[i]}, B[i], c[i]) for i in range(5)]))
    assert_rounding(gradient[0], B.sum(axis=1) * b[:, None])
    assert_rounding(gradient[1], (B.sum(axis=1) * a).sum(axis=1))


@pytest.mark.parametrize("s", [s for s in TABLE if s.dtype == np.float32], ids=lambda s: s.name.replace(" ", "_"))
def test_programs_recorded_in_single_precision(s):
    program = wg.record(s.f, s.x)
    for dtype in ("float32", "float64"):
        (_, J), _ = replayed(program, "jacobian", [s.x[None]], "python", dtype)
        assert_rounding(J[0], s.exact(), s.dtype)


def test_linear_systems_are_expanded_to_scalars():
    def f(x):
        A = np.outer(x, x[::-1]) + np.diag(np.sin(7 * x)) - np.eye(4)[::-1]
        return np.linalg.solve(A, x) * np.linalg.det(A) + np.linalg.inv(A)[1] @ np.linalg.solve(A.T, A)

    X = np.random.default_rng(11).normal(size=(30, 4))
    (value, J), _ = replayed(wg.record(f, X[0]), "jacobian", [X], "python")
    for x, y, slope in zip(X, value, J):
        assert_rounding(y, f(x))
        np.testing.assert_allclose(slope, wg.jacobian(f, x), rtol=1e-9, atol=1e-9 * np.abs(slope).max())


def test_exact_programs_have_kernels():
    f = lambda x: np.sum(np.sin(x) ** 2 * x[::-1])
    X = np.random.default_rng(9).normal(size=(3, 4))
    (_, gradient), _ = replayed(wg.record(f, X[0], exact=True), "grad", [X], "python")
    assert_rounding(gradient, np.array([wg.grad(f, x) for x in X]))


@pytest.mark.parametrize("most", [130, 20, 5])
def test_jacobian_in_several_kernels_is_the_same(monkeypatch, most):
    rng = np.random.default_rng(6)
    A, X = rng.normal(size=(8, 8)), rng.normal(size=(10, 8))
    f = lambda x: np.tanh(A @ np.sin(A @ x))
    monkeypatch.setitem(kernels.MAX_LIVE_VALUES, np.dtype(float), most)
    program = wg.record(f, X[0])
    (value, J), _ = replayed(program, "jacobian", [X], "python")
    assert_rounding(value, np.array([f(x) for x in X]))
    assert_rounding(J, np.array([wg.jacobian(f, x) for x in X]))
    assert (len(kernels.bodies(program, "jacobian")) > 1) == (most < 130)


@targets
def test_failed_guard_is_reported_for_its_points(target):
    def f(x):
        if x[0] > 1.0:
            return x[0] * x[1]
        return np.sin(x[1]) * int(x[0] + 3)

    program = wg.record(f, [0.5, 2.0])
    X = np.array([[0.5, 1.0], [1.5, 2.0], [0.1, 3.0], [-0.9, 1.0], [np.nan, 1.0]])
    (value, gradient), status = replayed(program, "grad", [X], target)
    assert status.tolist() == [0, 1, 0, 2, 2]
    good = status == 0
    assert_rounding(value[good], np.array([f(x) for x in X[good]]))
    assert_rounding(gradient[good], np.array([wg.grad(f, x) for x in X[good]]))
    (body,) = kernels.bodies(program, "grad")
    assert len(body.guards) == 2 and all("test_codegen.py" in place for place in body.guards)


@targets
def test_untaken_branch_contributes_nothing(target):
    f = lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)) + np.prod(np.maximum(x, 0.5))
    X = np.array([[0.0, 4.0], [1.0, 0.0], [0.25, 9.0]])
    (_, gradient), _ = replayed(wg.record(f, X[2]), "grad", [X], target)
    assert_rounding(gradient, np.array([wg.grad(f, x) for x in X]))


@targets
def test_complex_values_are_pairs_of_real_values(target):
    def f(x):
        z = x[0] + 1j * x[1]
        for _ in range(3):
            z = z * z / (z + 2j) + np.exp(1j * x[0])
        return np.abs(z) * z.imag

    X = np.random.default_rng(2).uniform(0.3, 1.5, (20, 2))
    (value, gradient), _ = replayed(wg.record(f, X[0]), "grad", [X], target)
    assert_rounding(value, np.array([f(x) for x in X]))
    np.testing.assert_allclose(gradient, np.array([wg.grad(f, x) for x in X]), rtol=1e-13, atol=1e-13)


def test_operation_without_kernel_is_named():
    for f, name in (
        (lambda x: np.linalg.eigvalsh(np.outer(x, x)), "eigvalsh"),
        (lambda x: np.linalg.inv(np.diag(np.repeat(x, 6))), "inv"),
        (lambda x: np.sort(x), "sort"),
        (lambda x: scipy.special.digamma(x), "psi"),
        (lambda x: scipy.special.jv(0.5, x), "jv"),
        (lambda x: x.astype(np.float32) * x, "converted"),
        (lambda x: x[np.argmax(x)], "argmax"),
        (lambda x: np.abs(np.fft.fft(x)), "fft"),
    ):
        with pytest.raises(
            wg.UnsupportedFunctionError, match=rf"v\d+.* = {name}\(.*this instruction has no GPU kernel"
        ):
            kernels.bodies(wg.record(f, np.ones(3)), "value")


def check(instructions, x, target):
    """Compare value and Jacobian with the eager engine; return False if the values are too large to compare."""
    y = plain(instructions, x.copy())
    if not np.all(np.abs(y) < 1e6):
        return False
    f = functools.partial(run, instructions)
    program = wg.record(f, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        value, J = wg.jacobian(f, x, value=True)
    if not np.all(np.abs(J) < 1e8):
        return False
    found, status = replayed(program, "jacobian", [x[None]], target)
    assert not status.any()
    scale = max(1.0, np.abs(J).max())
    np.testing.assert_allclose(found[0][0], value, rtol=1e-11, atol=1e-11 * max(1.0, np.abs(y).max()))
    np.testing.assert_allclose(found[1][0], J, rtol=1e-9, atol=1e-10 * scale)
    return True


def test_uniformly_drawn_programs_equal_eager_engine():
    checked = 0
    for seed in range(100):
        program = drawn_evenly(seed, 1 + seed % 16)
        try:
            checked += check(program, np.array([0.3, -0.8, 1.1, 0.6]), "python")
        except Exception as error:
            raise AssertionError(f"seed {seed}: {program}") from error
    assert checked > 50


@settings(deterministic, max_examples=60)
@given(PROGRAMS, POINTS)
def test_random_programs_equal_eager_engine(program, x):
    check(program, x, "python")


@pytest.mark.skipif(bool(REASON), reason=REASON)
def test_native_code_equals_uniformly_drawn_programs():
    assert sum(check(drawn_evenly(seed, 6), np.array([0.3, -0.8, 1.1, 0.6]), "cpu") for seed in range(500, 512)) > 4
