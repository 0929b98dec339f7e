"""Loops over small arrays: rolled before other passes, differentiated as loops, and unrolled again if short."""

import numpy as np
import pytest
from wengert.program.ir.opcodes import Op

import wengert as wg
from helpers import loops_of
from wengert.errors import GuardError
from wengert.program.ir import verify
from wengert.program.specialise.compare import HessianProduct, difference

RNG = np.random.default_rng(11)
INPUTS = RNG.normal(size=(40, 8))
MEASURED = RNG.normal(size=(40, 2))
OBSERVED = RNG.normal(size=(2, 4))
PROBABILITY = RNG.uniform(0.1, 1.0, size=(40, 8))


def recurrent(w):
    h = np.zeros(8)
    for u in INPUTS:
        u = u * w[0, 0]
        z = 1 / (1 + np.exp(-(w[0] @ u + w[1] @ h)))
        h = (1 - z) * h + z * np.tanh(w[2] @ u + w[3] @ (z * h))
    return np.sum(h * h)


def reservoir(w):
    x, loss = np.zeros(8), 0.0
    for u in INPUTS:
        x = np.tanh(w @ x + u)
        loss = loss + np.sum((x - u) ** 2)
    return loss


def kalman(a):
    x, p, total = np.zeros(4), np.eye(4), 0.0
    for y in MEASURED:
        x, p = a @ x, a @ p @ a.T + 0.1 * np.eye(4)
        s = OBSERVED @ p @ OBSERVED.T + 0.5 * np.eye(2)
        gain = np.linalg.solve(s, OBSERVED @ p).T
        e = y - OBSERVED @ x
        x, p = x + gain @ e, p - gain @ OBSERVED @ p
        total = total - np.log(np.linalg.det(s)) - e @ np.linalg.solve(s, e)
    return total


def riccati(a):
    p = np.eye(4)
    for _ in range(30):
        s = np.eye(2) + OBSERVED @ p @ OBSERVED.T
        p = np.eye(4) + a.T @ p @ (a - OBSERVED.T @ np.linalg.solve(s, OBSERVED @ p @ a))
    return np.trace(p)


def forward_algorithm(logits):
    t = np.exp(logits)
    t, a, total = t / t.sum(axis=1, keepdims=True), np.ones(8) / 8, 0.0
    for p in PROBABILITY:
        a = (a @ t) * p
        c = np.sum(a)
        a, total = a / c, total + np.log(c)
    return total


def lattice(s):
    energy = 0.0
    for _ in range(20):
        near = np.roll(s, 1, 0) + np.roll(s, -1, 0) + np.roll(s, 1, 1) + np.roll(s, -1, 1)
        s = np.tanh(0.4 * near + 0.1 * s)
        energy = energy - np.sum(s * near)
    return energy


def right_side(y, p):
    return np.array([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


def runge_kutta(p):
    y, h = np.array([1.0, 1.0, 1.0]), 0.01
    for _ in range(30):
        k1 = right_side(y, p)
        k2 = right_side(y + h / 2 * k1, p)
        y = y + h / 2 * (k1 + right_side(y + h * k2, p))
    return np.sum(y * y)


#: points, and whether the derivative runs as loops
CASES = {
    recurrent: (0.3 * RNG.normal(size=(4, 8, 8)), True),
    reservoir: (0.3 * RNG.normal(size=(8, 8)), False),
    kalman: (0.9 * np.eye(4) + 0.02 * RNG.normal(size=(4, 4)), True),
    riccati: (np.eye(4) + 0.05 * RNG.normal(size=(4, 4)), False),
    forward_algorithm: (RNG.normal(size=(8, 8)), False),
    lattice: (RNG.normal(size=(6, 6)), False),
    runge_kutta: (np.array([10.0, 28.0, 8 / 3]), False),
}
ALL = pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)


def rolled_gradient(f, x):
    return wg.record(f, x)._with_loops(of_scalars=True).grad()


@ALL
def test_derivatives_are_those_of_the_unrolled_program(f):
    x, runs_as_loops = CASES[f]
    program = wg.record(f, x)
    made = program._with_loops(of_scalars=True).grad()
    assert [loop.backward for loop in loops_of(made._listing)] == [False, True]
    for loop in loops_of(made._listing):
        verify.check(loop.body)
    assert bool(loops_of(made._lowered_ir())) is runs_as_loops
    verify.check(made._lowered_ir())
    v = RNG.normal(size=x.shape)
    compiled, second = wg.compile(wg.grad(f)), wg.compile(wg.hvp(f))
    tangent, both = wg.compile(wg.jvp(f)), wg.compile(wg.value_and_grad(f))
    for at in (x, 0.97 * x):
        expected = program.grad()(at)
        scale = np.max(np.abs(expected))
        np.testing.assert_allclose(made(at), expected, rtol=1e-9, atol=1e-11 * scale)
        np.testing.assert_allclose(compiled(at), expected, rtol=1e-9, atol=1e-11 * scale)
        value, slope = both(at)
        np.testing.assert_allclose(value, f(at), rtol=1e-12)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11 * scale)
        np.testing.assert_allclose(tangent(at, v)[1], np.sum(expected * v), rtol=1e-8, atol=1e-10 * scale)
        twice = wg.hvp(f, at, v)
        np.testing.assert_allclose(second(at, v), twice, rtol=1e-7, atol=1e-9 * np.max(np.abs(twice)))


@ALL
def test_disabled_pass_leaves_no_loops(f):
    x, _ = CASES[f]
    program = wg.record(f, x, disable="loop_recovery")._with_loops(of_scalars=True)
    assert not loops_of(program.grad()._listing)


# ---------------------------------------------------------------------------------------------- independent iterations

MATRIX = RNG.normal(size=(60, 50))


def symmetric_product(a):
    """Add up the lower triangle of a product of matrices row by row."""
    c = np.ones((24, 24))
    for i in range(24):
        c[i, : i + 1] *= 0.5
        for k in range(20):
            c[i, : i + 1] += 1.5 * a[i, k] * a[: i + 1, k]
    return np.sum(np.sin(c))


def differences(a):
    s = np.zeros(50)
    for k in range(60):
        s -= np.exp(a[k]) * MATRIX[k] - a[k]
    return np.sum(s * s)


def columns(a):
    """Read columns, and a scalar of each, in iterations that also add up a scalar."""
    s, total = np.zeros(60), 0.0
    for k in range(50):
        s = s + a[:, k] * a[3, k]
        total = total + np.sum(a[:, k] ** 2) * a[k, 1]
    return np.sum(s**3) + total


def rows_of_results(a):
    """Use the arrays of all iterations after the loop."""
    y, s = np.zeros((60, 50)), np.zeros(50)
    for k in range(60):
        t = np.tanh(a[k]) * 2.0
        y[k] = t * a[k]
        s = s + t
    return np.sum(y**2) + np.sum(s)


def running_sum_that_is_read(a):
    s, total = np.zeros(50), 0.0
    for k in range(60):
        s = s + a[k] * MATRIX[k]
        total = total + np.sum(s * s)
    return total


def two_running_sums(a):
    s, t = np.zeros(50), np.ones(50)
    for k in range(60):
        s = s + a[k] * MATRIX[k]
        t = t + s * a[k]
    return np.sum(s * t)


INDEPENDENT = [symmetric_product, differences, columns, rows_of_results]
DEPENDENT = [running_sum_that_is_read, two_running_sums]


@pytest.mark.parametrize("f", [*INDEPENDENT, *DEPENDENT], ids=lambda f: f.__name__)
def test_independent_iterations_become_array_expressions(f):
    made = rolled_gradient(f, MATRIX)
    unrolled = len(wg.record(f, MATRIX).grad()._listing)
    verify.check(made._listing)
    verify.check(made._lowered_ir())
    if f in INDEPENDENT:
        assert not loops_of(made._listing)
        assert len(made._listing) < 0.2 * unrolled
    compiled, second = wg.compile(wg.grad(f)), wg.compile(wg.hvp(f))
    for at in (MATRIX, 0.3 * MATRIX[::-1]):
        expected = wg.grad(f, at)
        for found in (made(at), compiled(at)):
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12 * np.max(np.abs(expected)))
        twice = wg.hvp(f, at, MATRIX)
        np.testing.assert_allclose(second(at, MATRIX), twice, rtol=1e-9, atol=1e-11 * np.max(np.abs(twice)))


def test_nan_and_infinity_in_independent_iterations_are_as_in_eager_mode():
    a = MATRIX.copy()
    compiled = wg.compile(wg.grad(differences))
    compiled(a)
    for special in (np.nan, np.inf, -np.inf):
        a[5, 3] = special
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(a), wg.grad(differences, a), rtol=1e-10)


def test_iterations_that_only_add_stay_unrolled():
    """They may be vectorised over all iterations."""
    centres = RNG.normal(size=(50, 3))

    def potential(x):
        total = 0.0
        for c in centres:
            d = x - c
            total = total + 1 / np.sqrt(np.sum(d * d) + 0.1)
        return total

    x = RNG.normal(size=3)
    made = rolled_gradient(potential, x)
    assert not loops_of(made._listing)
    np.testing.assert_allclose(made(x), wg.grad(potential, x), rtol=1e-11)


def test_loops_of_mostly_scalar_code_stay_unrolled():
    """Passes over scalars take less time than the search for loops, and the program is faster."""
    x, _ = CASES[runge_kutta]
    compiled = wg.compile(wg.grad(runge_kutta))
    compiled(x)
    program = path_of(compiled).program
    assert not loops_of(program._listing) and program._later is None
    for at in (x, 1.1 * x):
        np.testing.assert_allclose(compiled(at), wg.grad(runge_kutta, at), rtol=1e-10)


def test_functions_in_a_step_are_expanded_before_it_is_unrolled():
    """Calls in a loop body are expanded once for all iterations; code between the loops reads their results."""

    def f(x):
        y, z = x, 2.0 * x
        for u in INPUTS:
            y = np.tanh(u * y) + np.max(y[:3])
        for u in INPUTS:
            z = np.sin(z * u) + np.mean(y) * np.sort(z)[2]
        return np.sum(z * y[::-1]) + np.median(y[:5])

    x = np.linspace(0.5, 1.5, 8)
    compiled = wg.compile(wg.grad(f), tier="vm")
    for at in (x, 0.9 * x):
        np.testing.assert_allclose(compiled(at), wg.grad(f, at), rtol=1e-9)
    program = path_of(compiled).program
    assert loops_of(program._listing) and not loops_of(program._lowered_ir())


def test_derivative_that_no_argument_affects_runs_as_loops():
    """Later calls return its outputs, unless a captured value changes."""
    weights = np.linspace(0.5, 1.5, 200)

    def f(x):
        for _ in range(20):
            x = x.copy()
            x[1:-1] = weights[0] * x[:-2] + weights[1:-1] * x[1:-1] + 0.3 * x[2:]
        return np.sum(x)

    x = RNG.normal(size=200)
    compiled = wg.compile(wg.grad(f), tier="vm")
    for scale in (1.0, 1.0, 0.5, 0.5):
        weights *= scale
        for at in (x, 2 * x):
            np.testing.assert_allclose(compiled(at), wg.grad(f, at), rtol=1e-11)
    program = path_of(compiled).program
    assert loops_of(program._lowered_ir()) and program._vm.keeps
    both = wg.compile(wg.value_and_grad(f), tier="vm")
    np.testing.assert_allclose(both(x)[0], f(x), rtol=1e-11)
    assert not loops_of(path_of(both).program._lowered_ir())


def test_nan_in_a_step_of_the_derivative_fails_a_guard():
    """A factor that is exactly 0 hides an infinite partial; the rules find it by a check of the product for NaN."""

    def f(x):
        y = x
        for u in INPUTS:
            y = np.tanh(np.outer(x, y) @ y) + u
        return np.sum(y[1:])

    x = np.linspace(0.5, 1.0, 8)
    made = rolled_gradient(f, x)
    assert len(loops_of(made._listing)) == 2
    np.testing.assert_allclose(made(x), wg.grad(f, x), rtol=1e-10)
    spoiled = x.copy()
    spoiled[0] = np.inf
    with np.errstate(invalid="ignore"), pytest.raises(GuardError, match=r"test_small_loops\.py:\d+"):
        made(spoiled)
    compiled = wg.compile(wg.grad(f))
    compiled(x)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(compiled(spoiled), wg.grad(f, spoiled))


def test_one_check_after_a_loop_replaces_those_of_its_steps():
    x, _ = CASES[riccati]
    _, back = loops_of(rolled_gradient(riccati, x)._listing)
    assert (back.body.op == Op.ISNAN).sum() <= 2


def path_of(compiled):
    """Return the only specialisation of a compiled function."""
    (table,) = compiled._tables.values()
    ((path,),) = table.paths.values()
    return path


@pytest.mark.parametrize("f", [f for f in CASES if f is not runge_kutta], ids=lambda f: f.__name__)
@pytest.mark.parametrize("recheck", ["auto", None])
def test_short_loops_are_unrolled_when_that_pays(f, recheck):
    x, runs_as_loops = CASES[f]
    compiled = wg.compile(wg.grad(f), recheck=recheck)
    compiled(x)
    path = path_of(compiled)
    first = path.program
    assert loops_of(first._lowered_ir())
    assert (first._later is None) is runs_as_loops
    if not runs_as_loops:
        path.switch = path.due = 5  # rather than hundreds of calls
    for k in range(8):
        at = (1 - 0.01 * k) * x
        expected = wg.grad(f, at)
        np.testing.assert_allclose(compiled(at), expected, rtol=1e-9, atol=1e-11 * np.max(np.abs(expected)))
    assert path_of(compiled) is path
    assert (path.program is first) is runs_as_loops
    assert bool(loops_of(path.program._lowered_ir())) is runs_as_loops


def test_a_form_that_cannot_be_built_leaves_the_first_one():
    def build():
        raise MemoryError

    x, _ = CASES[reservoir]
    compiled = wg.compile(wg.grad(reservoir), recheck=None)
    compiled(x)
    path = path_of(compiled)
    first, first._later = path.program, (3, build)
    path.switch = path.due = 3
    for _ in range(5):
        np.testing.assert_allclose(compiled(x), wg.grad(reservoir, x), rtol=1e-9)
    assert path.program is first


def vector(f):
    """Return the function of a short vector that scales a case's argument."""
    x, _ = CASES[f]
    return lambda s: f(x * s[0] + 0.1 * s[1] * np.sin(x) + 0.05 * s[2] * s[3] * x)


@pytest.mark.parametrize("recheck", ["auto", None])
@pytest.mark.parametrize("f", [kalman, riccati, lattice, runge_kutta], ids=lambda f: f.__name__)
def test_hessian_runs_by_direction_until_accumulation_pays(f, recheck):
    f = vector(f)
    s = np.array([1.0, 0.1, 0.2, 0.3])
    compiled = wg.compile(wg.hessian(f), recheck=recheck)
    compiled(s)
    path = path_of(compiled)
    first = path.program
    assert loops_of(first._lowered_ir()) and first._runs_per_call == 4
    path.switch = path.due = 4
    for k in range(6):
        expected = wg.hessian(f, (1 + 0.01 * k) * s)
        found = compiled((1 + 0.01 * k) * s)
        np.testing.assert_array_equal(found, found.T)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9 * np.max(np.abs(expected)))
    assert path.program is not first and path.program._runs_per_call == 1


def test_hessian_is_checked_in_one_direction():
    f = vector(riccati)
    s = np.array([1.0, 0.1, 0.2, 0.3])
    matrix = wg.hessian(f, s)
    product = HessianProduct.of(wg.hessian(f), (s,), {})
    np.testing.assert_allclose(product.value, matrix @ product.direction, rtol=1e-10)
    assert difference(product.with_matrix(matrix), product.value) < 512
    for i in range(4):
        wrong = matrix.copy()
        wrong[i, 0] += 1e-9 * np.max(np.abs(matrix))
        assert difference(product.with_matrix(wrong), product.value) > 512
    assert product.with_matrix(matrix[:3]) is None
    for other in (wg.grad(f), wg.jacobian(wg.grad(f)), wg.hessian(f, value=True), wg.hessian(wg.compile(f))):
        assert HessianProduct.of(other, (s,), {}) is None
    assert HessianProduct.of(wg.hessian(f), ({"s": s},), {}) is None


def test_hessian_of_state_that_differs_between_calls_is_not_replayed():
    drawn = iter(np.linspace(1.0, 2.0, 100))

    def f(x):
        y = x
        for u in INPUTS:
            y = np.tanh(y * u) + next(drawn, 3.0) * x
        return np.sum(y * y)

    x = np.linspace(0.1, 0.8, 8)
    with pytest.warns(wg.errors.CompileWarning):
        wg.compile(wg.hessian(f))(x)
