"""Scalarisation of small arrays: same values and derivatives, and code without arrays."""

import warnings

import numpy as np
import pytest
from scipy import special
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op

import wengert as wg
import wengert.viz
from helpers import assert_rounding, assert_same_bits
from wengert.program.ir.verify import check
from wengert.program.passes import cost, pipeline, scalarise

X = np.array([0.7, -1.3, 0.4, 1.9, 0.2, 0.8])
MATRIX = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 0.3], [2.0, 0.1, 1.0]])


def rate(y):
    return np.array([-y[0] * y[1], y[0] * y[1] - y[2], y[2] ** 2])


def runge_kutta(x):
    y = x[:3]
    for _ in range(3):
        first = rate(y)
        second = rate(y + 0.05 * first)
        y = y + 0.1 * second
    return np.sum(y**2)


def pairs(x):
    q, energy = x.reshape(3, 2), 0.0
    for i in range(3):
        for j in range(i):
            d = q[i] - q[j]
            energy = energy + 1.0 / np.sqrt(d @ d + 0.1) + np.linalg.norm(d)
    return energy


def rotations(x):
    P = MATRIX
    for angle in x[:4]:
        c, s = np.cos(angle), np.sin(angle)
        P = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) @ P
    return np.sum(P**2 * MATRIX)


def assembled(x):
    F = np.zeros(20)
    for e in range(19):
        u = np.sin(e * x[1:3])
        F[e : e + 2] += u[0] * np.array([-1.0, 1.0]) * u
    return np.sum(F**2)


def views(x):
    A = x.reshape(2, 3)
    B = A.T[::-1, 1:] * 2.0
    c = A[:, 2].copy()
    c[:1] = B[0] * A[1, 1]
    A = A * 1.0
    A[:, 1] = c
    A[1] = 3.0
    return np.sum(A[:, ::2] ** 2) + np.sum(B * c[0])


def choices(x):
    a, b = x[:3], x[3:]
    mask = (a > 0) & (b < 1.0)
    return np.sum(np.where(mask, a * b, a**2)) + np.sum(np.where(~mask, np.exp(b), 0.0))


def joined(x):
    y = np.concatenate([x[:2], [1.5], x[4:]])
    z = np.stack([y[:2], np.array([1.0, 2.0]), y[2:4]])
    return np.sum(np.cross(y[:3], x[3:]) * z[:, 0]) + np.sum(np.sum(z * z, axis=0) * y[-2:])


def repacked(x):
    """Scalars become arrays again if a function needs an array."""
    total = 0.0
    for k in range(4):
        v = x[:3] * (k + 1.0) + x[3:]
        total = total + np.prod(np.sort(v * v)) + np.linalg.det(MATRIX + np.outer(v, v))
    return total


def products(x):
    A, v = x.reshape(3, 2), x[:2]
    w = A @ v
    return w @ A @ np.dot(v, A.T @ A) + np.inner(w, w) + np.vdot(x, x) + (w @ MATRIX)[1]


def forward(x):
    """Return the log-likelihood of the observations under a hidden Markov chain with two states."""
    A, here = np.exp(x[:4].reshape(2, 2)), np.log(x[4:] ** 2)
    for k in range(6):
        top = np.max(here)
        here = np.log(np.exp(here - top) @ A) + top + np.sin(k * x[:2])
    return np.max(here) + np.log(np.sum(np.exp(here - here.max())))


def folds(x):
    A = np.sin(x).reshape(2, 3)
    y = np.prod(A, axis=1, keepdims=True) * np.mean(A, axis=(0, 1)) + np.mean(A, axis=0) * np.max(A, axis=0)
    return np.sum(y * y) + np.min(y) * np.max(A, keepdims=True)[0, 0] + np.prod(x[:2]) + np.min(A[:, 0]) + np.max(x)


def stored_into_large_array(x):
    """Write elements of a large array at constant indices: repeated, negative, and one scalar for all."""
    y = np.zeros(40)
    B = np.ones((6, 7))
    for nodes in ([3, 7, 1], [7, -1, 7], [0, 1, 39], [-40, 2, 3]):
        u = x[np.abs(nodes) % 6]
        y[nodes] += u * u[0] + x[0]
        B[[0, -1, 2], np.array(nodes) % 7] *= u
        y[np.array(nodes)[1:]] = x[2] ** 2
    y[[4, 5]] = np.sin(x[:2])
    B[1, [2, 3]] = 2.0
    return np.sum(y**2) + np.sum(B * B) + y[7] * B[0, 3]


def moved(x):
    A = np.tile(x[:2], (2, 1)) * np.flip(x[2:]).reshape(2, 2)
    y = np.repeat(A[0], 2) + np.roll(x[:4], 1) + np.ravel(A.T) + np.pad(A[1], 1, mode="edge")
    return np.sum(y * y[::-1]) + np.sum(np.swapaxes(A, 0, 1) * np.expand_dims(y[:2], 1)) + np.trace(A @ np.diag(y[:2]))


CASES = (
    runge_kutta, pairs, rotations, assembled, views, choices, joined, repacked, products, forward, folds, moved,
    stored_into_large_array,
)


@pytest.fixture
def always(monkeypatch):
    """Scalarise every program, whatever the estimated cost."""
    monkeypatch.setattr(pipeline, "SCALAR_GAIN", np.inf)


@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_scalarised_program_has_derivatives_of_function(f, always):
    made, v = wg.record(f, X), np.cos(np.arange(6.0))
    check(scalarise.replace_small_arrays(made._listing))
    assert_rounding(made(X), f(X))
    assert_rounding(made.grad()(X), wg.grad(f)(X))
    assert_rounding(made.hessian()(X), wg.hessian(f)(X), scale=10)
    assert_rounding(made.hvp()(X, v), wg.hvp(f)(X, v), scale=10)
    assert_rounding(made.jvp()(X, v)[1], wg.jvp(f, X, v)[1])
    for x in (X[::-1].copy(), -X):
        assert_rounding(made.grad()(x), wg.grad(f)(x))


@pytest.mark.parametrize("f", [runge_kutta, pairs, rotations, products], ids=lambda f: f.__name__)
def test_no_small_array_remains(f):
    code = scalarise.replace_small_arrays(wg.record(f, X)._listing)
    arrays = [i for i in range(len(code)) if kind_of(code, i)[1] != ()]
    assert [code.op[i] for i in arrays] == [Op.INPUT]


@pytest.mark.parametrize("f", [runge_kutta, pairs, rotations], ids=lambda f: f.__name__)
def test_the_list_of_numbers_is_taken_where_it_costs_less(f):
    assert not {Op.CALL, Op.PACK} & set(wg.record(f, X)._vectorised_ir().op.tolist())


def test_few_array_instructions_are_kept():
    def f(x):
        return np.sum(np.exp(x) * np.sin(x) + x)

    code = wg.record(f, X)._vectorised_ir()
    assert Op.LOAD not in code.op


def test_jacobian_of_small_arrays_is_scalarised():
    made = wg.record(lambda y: rate(y + 0.1 * rate(y)), X[:3]).jacobian()
    assert_rounding(made(X[:3]), wg.jacobian(lambda y: rate(y + 0.1 * rate(y)))(X[:3]))
    assert set(made._listing.op.tolist()) <= {*range(Op.PARTIAL), Op.INPUT, Op.CONST, Op.LOAD, Op.PACK, Op.STRONG}


def test_norm_at_zero_has_derivative_of_function(always):
    def f(x):
        a, b = x[:2] - x[2:4], x[1:3] * 2.0
        return np.linalg.norm(a) + np.linalg.norm(b) * np.sum(a * b)

    x = np.array([1.0, 2.0, 1.0, 2.0])
    assert_rounding(wg.record(f, x).grad()(x), wg.grad(f)(x))
    assert_rounding(wg.record(f, x).hessian()(x), wg.hessian(f)(x))


@pytest.mark.parametrize(
    "values", [[1, 1, 1, 1, 1, 1], [0, 2, 2, 2, 1, 0], [3, 3, 0, 0, 3, 3], [np.inf, 1, np.inf, 0, 0, np.inf]]
)
def test_tied_maxima_share_the_derivative(values, always):
    def f(x):
        y = x * 1.0
        for _ in range(3):
            y = y + np.max(y) + np.min(y[:2]) * 0.5 + np.max(y.reshape(2, 3), axis=0)[1]
        return np.sum(y * np.arange(6.0)) + np.max(y[:2]) - np.max(x, axis=0)

    x = np.array(values, dtype=float)
    with np.errstate(invalid="ignore"):
        for made in (wg.record(f, X), wg.record(f, x)):
            assert_same_bits(made(x), f(x))
            np.testing.assert_allclose(made.grad()(x), wg.grad(f)(x), rtol=1e-13)
            np.testing.assert_allclose(made.grad()(X), wg.grad(f)(X), rtol=1e-13)


LOG_SUMS = {
    "logsumexp": lambda x: special.logsumexp(x.reshape(2, 3), axis=1),
    "of all": lambda x: special.logsumexp(x),
    "of pairs": lambda x: special.logsumexp(x.reshape(2, 3), axis=0, keepdims=True)[0],
    "along two axes": lambda x: special.logsumexp(x.reshape(1, 2, 3), axis=(0, 2)),
    "logaddexp": lambda x: np.logaddexp(x.reshape(2, 3), x[:3]),
    "reduce": lambda x: np.logaddexp.reduce(x.reshape(2, 3), axis=1),
    "softmax": lambda x: special.softmax(x.reshape(2, 3), axis=0),
    "log_softmax": lambda x: special.log_softmax(x.reshape(2, 3), axis=1),
}
SPECIAL_POINTS = {
    "ordinary": X,
    "large": 300.0 * X,
    "equal": np.full(6, 0.3),
    "one dominant term": np.array([0.0, -40.0, -50.0, 1e-20, -80.0, -3.0]),
    "zeros": np.array([1.0, 2.0, -np.inf, 3.0, -np.inf, 4.0]),
    "infinite": np.array([1.0, 2.0, np.inf, 3.0, 5.0, 4.0]),
    "nan": np.array([1.0, 2.0, np.nan, 3.0, 5.0, 4.0]),
    "zeros alone": np.full(6, -np.inf),
}


@pytest.mark.parametrize("point", SPECIAL_POINTS)
@pytest.mark.parametrize("name", LOG_SUMS)
def test_logsumexp_of_small_arrays_is_scalarised(name, point):
    log_sum = LOG_SUMS[name]

    def f(x):
        y = 0.0
        for k in range(4):
            y = y + log_sum(x * 0.75**k)
        return y

    x, made = SPECIAL_POINTS[point], wg.record(f, X)
    check(made._lowered_ir())
    assert not any(map(scalarise.is_expanded_late, made._lowered_ir().calls))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(made(x), f(x), rtol=4e-15)
        np.testing.assert_allclose(made.jacobian()(x), wg.jacobian(f)(x), rtol=1e-12, atol=1e-13)
        if np.isfinite(x).all():
            total = wg.record(lambda x: np.sum(np.sin(f(x))), X)
            np.testing.assert_allclose(
                total.hessian()(x), wg.hessian(lambda x: np.sum(np.sin(f(x))))(x), rtol=1e-12, atol=1e-12
            )


LINEAR = {
    "solve": lambda a, b: np.linalg.solve(a, b),
    "columns": lambda a, b: np.linalg.solve(a, np.outer(b, b + 1.0))[:, 0],
    "inv": lambda a, b: np.linalg.inv(a) @ b,
    "det": lambda a, b: np.linalg.det(a) * b,
    "slogdet": lambda a, b: np.linalg.slogdet(a)[1] * b + np.linalg.slogdet(a)[0],
}
MATRICES = {
    "a number": [[-0.3]],
    "two": [[2.0, 0.5], [0.25, -1.0]],
    "exchanged": [[0.0, 2.0], [3.0, 1.0]],
    "three": [[1.0, 2.0, 0.5], [0.0, -1.0, 0.3], [2.0, 0.1, 1.0]],
    "a permutation": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
    "mixed magnitudes": [[1e-8, 1.0, 3.0], [1.0, 1e6, 2.0], [5.0, 3.0, 1e-3]],
}


def function_of_matrices(name, n):
    """Return a function that reads matrices and vectors from one array, and loops over the results."""
    linear = LINEAR[name]

    def f(x):
        a, b = x[: n * n].reshape(n, n), x[n * n :]
        for k in range(3):
            b = linear(a * 1.5**k, b) + b * 0.5
        return np.sum(b * b)

    return f


@pytest.fixture
def slow_calls(monkeypatch):
    """Expand whatever can be, as if native calls were slow."""
    monkeypatch.setattr(cost, "NATIVE_CALL", 1e6)


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", LINEAR)
def test_small_linear_systems_are_scalarised(name, matrix, slow_calls):
    matrix = np.array(MATRICES[matrix])
    n = len(matrix)
    x = np.concatenate([matrix.ravel(), np.linspace(0.5, 1.0, n)])
    f = function_of_matrices(name, n)
    made = wg.record(f, np.concatenate([(np.eye(n) + 0.1).ravel(), np.ones(n)]))
    for program_of_f in (made, made.grad(), made.hvp()):
        check(program_of_f._lowered_ir())
        assert not any(map(scalarise.is_expanded_late, program_of_f._lowered_ir().calls))
    np.testing.assert_allclose(made(x), f(x), rtol=1e-13)
    expected = wg.grad(f)(x)
    np.testing.assert_allclose(made.grad()(x), expected, rtol=1e-12, atol=1e-13 * np.max(np.abs(expected)))
    expected = wg.hessian(f)(x)
    np.testing.assert_allclose(made.hessian()(x), expected, rtol=1e-11, atol=1e-12 * np.max(np.abs(expected)))


@pytest.mark.parametrize("hole", range(4))
@pytest.mark.parametrize("name", ["det", "slogdet"])
def test_nan_in_small_matrix_propagates(name, hole):
    f, x = function_of_matrices(name, 2), np.array([0.0, 1.0, 0.0, 3.0, 0.5, 0.25])
    made = wg.record(f, np.array([2.0, 1.0, 1.0, 3.0, 0.5, 0.25]))
    x[hole] = np.nan
    assert np.isnan(made(x))  # LAPACK stops at a zero pivot, where NumPy's determinant is 0 despite the NaN


@pytest.mark.parametrize("name", ["solve", "columns", "inv"])
def test_singular_matrix_raises_numpy_error_in_compiled_function(name):
    f = function_of_matrices(name, 2)
    g, x = wg.compile(wg.grad(f)), np.array([2.0, 1.0, 1.0, 3.0, 0.5, 0.25])
    np.testing.assert_allclose(g(x), wg.grad(f)(x), rtol=1e-13)
    with pytest.raises(np.linalg.LinAlgError):
        g(np.array([1.0, 2.0, 2.0, 4.0, 0.5, 0.25]))
    np.testing.assert_allclose(g(2 * x), wg.grad(f)(2 * x), rtol=1e-13)


def test_nearly_singular_matrix_is_left_to_numpy():
    """An expanded elimination may meet a zero pivot where LAPACK does not: then f runs eagerly."""
    f, regular = function_of_matrices("solve", 2), np.array([2.0, 1.0, 1.0, 3.0, 0.5, 0.25])
    made, g = wg.record(f, regular), wg.compile(f)
    for a, b, c in np.random.default_rng(0).integers(1, 10, (300, 3)) / 10.0:
        x = np.array([a, b, c, b * c / a, 0.5, 0.25])
        try:
            expected = f(x)
            made(x)
        except np.linalg.LinAlgError:
            continue
        except wg.GuardError:
            g(regular)  # its replays allow further recordings
            assert g(x) == expected


def test_derivative_of_singular_determinant_is_cofactors():
    f, x = function_of_matrices("det", 2), np.array([1.0, 2.0, 2.0, 4.0, 0.5, 0.25])
    np.testing.assert_allclose(wg.compile(wg.grad(f))(x), wg.grad(f)(x), atol=1e-13)
    made = wg.compile(wg.grad(f))
    for point in (x + np.array([1.0, 0, 0, 0, 0, 0]), x, x * 0.0):
        np.testing.assert_allclose(made(point), wg.grad(f)(point), atol=1e-13)


@pytest.mark.parametrize("f", [forward, folds, stored_into_large_array], ids=lambda f: f.__name__)
def test_lowered_code_has_no_calls_on_small_arrays(f):
    made = wg.record(f, X)
    for program_of_f in (made, made.grad(), made.hvp()):
        assert not program_of_f._lowered_ir().calls


def test_masks_are_scalarised(always):
    def f(x):
        y = np.concatenate([x, x * 2.0])
        mask = np.isnan(y) | (y > 1.0)
        return np.sum(y[:3] * np.any(mask)) + np.sum(y * np.sort(mask))

    made = wg.record(f, X)
    check(made._vectorised_ir())
    assert_rounding(made(X), f(X))
    assert_rounding(made.grad()(X), wg.grad(f)(X))


def test_scipy_functions_of_constant_elements_have_derivatives(always):
    def f(x):
        return np.sum(special.expit(np.pad(x, 1)) * 2.0) + np.sum(special.xlogy(np.pad(x**2, 1), 2.0))

    made = wg.record(f, X)
    assert_rounding(made.grad()(X), wg.grad(f)(X))


@pytest.mark.parametrize("order", "CF")
def test_arrays_may_have_any_memory_order(order, always):
    def f(A):
        B = A * 2.0
        C = B.T + np.array([[1.0, 2.0], [3.0, 4.0]])
        return np.sum(C[0] * C[:, 1]) + np.sum(np.sort(B, axis=None)[:2] * B[1])

    A = np.array([[0.3, 0.9], [0.5, 0.1]], order=order)
    made = wg.record(f, A)
    assert_rounding(made(A), f(A))
    assert_rounding(made.grad()(A), wg.grad(f)(A))


@pytest.mark.parametrize("reorder", [lambda A: A.transpose(2, 0, 1), lambda A: np.rollaxis(A, 1), lambda A: A.T[::-1]])
@pytest.mark.parametrize(
    "store",
    [
        lambda A, y: np.put(A, [8], y[:1]),
        lambda A, y: np.put(A, [1, 7, 1], y[:3]),
        lambda A, y: A.__setitem__(([0, -1], [1, 0], [1, 1]), y[2:4]),
    ],
)
def test_stores_at_indices_into_arrays_of_any_memory_order(store, reorder):
    def f(x):
        x = x * 1.0
        A = np.resize(x, (2, 3, 4)) + 0.0
        y = 0.1 + 1.0 * np.sin(np.resize(x, (3, 4)))
        store(reorder(A), y[0])
        return A

    made = wg.record(f, X)
    assert_rounding(made(X), f(X))
    assert_rounding(made.jacobian()(X), wg.jacobian(f)(X))


def test_exact_programs_are_unchanged():
    made = wg.record(runge_kutta, X, exact=True)
    assert Op.PACK in made._lowered_ir().op


def test_explain_reports_scalarisation():
    text = str(wg.record(rotations, X).explain())
    assert "small arrays scalarised" in text
    scalars = wg.viz.passes(rotations, X)
    assert scalars["scalarise"].listing is not scalars["simplify 2"].listing
    arrays = wg.viz.passes(lambda x: np.sum(np.exp(x) * np.sin(x)), X)
    assert arrays["scalarise"].listing is arrays["simplify 2"].listing


CALLS = {
    "a product of matrices": (lambda n: np.ones((n, n)), lambda A: A @ A, 3.0),
    "a system of equations": (lambda n: np.eye(n), lambda A: np.linalg.solve(A, A), 3.0),
    "many systems of equations": (lambda n: np.tile(np.eye(2), (n, 1, 1)), np.linalg.inv, 1.0),
    "a sum": (lambda n: np.ones((n, n)), lambda A: np.sum(np.sort(A, axis=0), axis=1), 2.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_cost_estimate_of_calls_grows_with_work(name):
    made, f, power = CALLS[name]
    few, many = (wg.record(f, made(n))._estimated_time for n in (500, 1000))
    assert 0.75 * 2.0**power < many / few < 1.1 * 2.0**power


def test_cost_estimate_of_loop_is_proportional_to_steps():
    def steps(x, count):
        for _ in range(count):
            x = x + 0.1 * np.sin(x)
        return x

    x = np.ones(2000)
    few, many = (wg.record(lambda x, count=count: steps(x, count), x)._estimated_time for count in (200, 400))
    assert 1.8 < many / few < 2.2


#: functions whose calls on small arrays become scalars even where a program consists of nothing else
SHORT = {
    "norm": lambda x: np.linalg.norm(x),
    "mean": lambda x: np.mean(x),
    "var": lambda x: np.var(x),
    "std with ddof": lambda x: np.std(x, ddof=1) if x.size > 1 else np.std(x),
    "var along an axis": lambda x: np.sum(np.var(np.stack([x, x**2]), axis=1) * [1.0, -2.0]),
    "prod": lambda x: np.prod(x),
    "max": lambda x: np.max(x) * np.min(x),
    "cumsum": lambda x: np.sum(np.cumsum(x)[: x.size // 2 + 1] ** 2),
    "cumprod along an axis": lambda x: np.sum(np.cumprod(np.stack([x, x + 1.0]), axis=0)[1] ** 2),
    "clip": lambda x: np.sum(np.clip(x, 0.8, 1.5) * x),
    "einsum": lambda x: np.einsum("i,i->", x, x),
    "einsum without arrow": lambda x: np.einsum("i,j,ij", x, x[::-1], np.outer(np.arange(x.size) + 1.0, x)),
    "cross": lambda x: np.sum(np.cross(x[:3], x[-3:]) * [1.0, 2.0, 3.0]),
    "trace": lambda x: np.trace(np.outer(x, x)),
    "interp": lambda x: np.interp(x[0], np.arange(x.size) / 2.0, x**2),
    "interp at several points": lambda x: np.sum(np.interp(x[:3], [0.5, 1.0, 1.4, 2.5], [1.0, 3.0, -1.0, 2.0])),
}


@pytest.mark.parametrize("n", [3, 5, 7])
@pytest.mark.parametrize("name", SHORT)
def test_short_programs_of_small_arrays_have_no_calls(name, n, slow_calls):
    f, x = SHORT[name], np.cos(np.arange(float(n))) + 1.3
    program = wg.record(f, x)
    for at in (x, x[::-1].copy()):
        np.testing.assert_allclose(program(at), f(at), rtol=1e-12)
        np.testing.assert_allclose(program.grad()(at), wg.grad(f, at), rtol=1e-11, atol=1e-13)
    assert Op.CALL not in program._lowered_ir().op
    assert Op.CALL not in program.grad()._lowered_ir().op


@pytest.mark.parametrize("name", ["norm", "mean", "var", "std with ddof", "prod", "max"])
def test_reductions_of_up_to_64_elements_have_no_calls(name, slow_calls):
    f = SHORT[name]
    for n in (40, 64):
        x = np.cos(np.arange(float(n))) + 1.3
        program = wg.record(f, x)
        np.testing.assert_allclose(program(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(program.grad()(x), wg.grad(f, x), rtol=1e-11, atol=1e-13)
        assert Op.CALL not in program._lowered_ir().op


def test_einsum_broadcasts_lengths_of_one():
    A, x = np.ones((1, 3)), np.array([1.0, 2.0, 4.0])
    program = wg.record(lambda x: np.sum(np.einsum("ij,ik->jk", A, x[:, None])), x)
    assert program(x) == 21.0
    np.testing.assert_array_equal(program.grad()(x), np.full(3, 3.0))


def test_variance_without_degrees_of_freedom_is_infinite():
    x = np.array([1.0, 2.0])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert wg.record(lambda x: np.var(x, ddof=2), x)(x) == np.var(x, ddof=2) == np.inf
