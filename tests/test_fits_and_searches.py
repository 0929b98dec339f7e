"""Derivatives of fits, global minimisers, assignments and elementwise solvers, against closed forms."""

import functools
import importlib.util
import inspect

import numpy as np
import pytest
import scipy.optimize

import wengert as wg
from wengert import features
from wengert.scipy import optimize

SEED = {"rng" if "rng" in inspect.signature(scipy.optimize.dual_annealing).parameters else "seed": 1}
TIGHT = {"xtol": 1e-14, "ftol": 1e-14}
HAS_ELEMENTWISE = importlib.util.find_spec("scipy.optimize.elementwise") is not None  # SciPy 1.15

T = np.array([0.0, 0.3, 1.0, 1.7, 2.0])
Y = np.array([1.0, 0.8, 0.3, 0.4, 0.1])
CORRELATED = 0.1 * np.eye(5) + 0.02 * (np.eye(5, k=1) + np.eye(5, k=-1))


# ---- fits


def line(t, a, b):
    return a + b * t


def line_by_formula(t, y, covariance, is_absolute):
    """Return the parameters of a straight line and their covariance, by generalised least squares."""
    X = np.stack([np.ones(t.size), t], axis=1)
    W = np.linalg.inv(covariance)
    C = np.linalg.inv(X.T @ W @ X)
    p = C @ (X.T @ W @ y)
    r = y - X @ p
    return p, C if is_absolute else C * (r @ W @ r) / (t.size - 2)


def packed(found):
    return np.concatenate([found[0], np.ravel(found[1])])


#: sigma from q, the covariance that it means, and whether it is absolute
SIGMAS = {
    "none": (lambda q: None, lambda q: np.eye(5), False),
    "scalar": (lambda q: 0.3 * q[0], lambda q: (0.3 * q[0]) ** 2 * np.eye(5), True),
    "vector": (lambda q: 0.1 * q[0] + T, lambda q: np.diag((0.1 * q[0] + T) ** 2), False),
    "absolute vector": (lambda q: 0.1 * q[0] + T, lambda q: np.diag((0.1 * q[0] + T) ** 2), True),
    "matrix": (lambda q: CORRELATED + np.diag(q[0] * T), lambda q: CORRELATED + np.diag(q[0] * T), False),
    "absolute matrix": (lambda q: CORRELATED + np.diag(q[0] * T), lambda q: CORRELATED + np.diag(q[0] * T), True),
}


@pytest.mark.parametrize(
    "solver", [optimize.curve_fit, lambda *args, **options: scipy.optimize.curve_fit(*args, **options)]
)
@pytest.mark.parametrize("method", ["lm", "trf", "dogbox"])
@pytest.mark.parametrize("name", SIGMAS)
def test_parameters_and_covariance_of_a_line_have_their_derivatives(name, method, solver):
    sigma, covariance, is_absolute = SIGMAS[name]

    def fitted(q):
        return packed(
            solver(line, T * q[1], Y + q[2] * T**2, sigma=sigma(q), absolute_sigma=is_absolute, method=method)
        )

    def expected(q):
        return packed(line_by_formula(T * q[1], Y + q[2] * T**2, covariance(q), is_absolute))

    q = np.array([1.1, 0.9, 0.2])
    assert np.allclose(fitted(q), expected(q), rtol=1e-5)
    for mode in ("forward", "reverse"):
        assert np.allclose(wg.jacobian(fitted, mode=mode)(q), wg.jacobian(expected)(q), rtol=1e-5, atol=1e-7)
    assert np.array_equal(wg.vjp(fitted, q)[0], fitted(q))


def decay(t, a, b):
    return a * np.exp(-b * t)


def fit_of_decay(q, **options):
    return optimize.curve_fit(lambda t, a, b: decay(t, a, b + 0.1 * q), T, Y, p0=[1.0, 1.0], **options)


def test_second_derivatives_of_a_fit():
    p, shift = fit_of_decay(0.0, **TIGHT)[0], np.array([0.0, -0.1])
    assert np.allclose(wg.jacobian(lambda q: fit_of_decay(q, **TIGHT)[0])(0.5), shift, atol=1e-12)
    hessian = wg.jacobian(wg.jacobian(lambda y: optimize.curve_fit(decay, T, y, p0=p, **TIGHT)[0]))(Y)
    assert hessian.shape == (2, 5, 5)

    def slopes(y):
        return wg.jacobian(lambda y: optimize.curve_fit(decay, T, y, p0=p, **TIGHT)[0])(y)

    step = 1e-4 * np.eye(5)[2]
    assert np.allclose(hessian[:, :, 2], (slopes(Y + step) - slopes(Y - step)) / 2e-4, rtol=1e-5, atol=1e-6)


def test_fit_at_an_active_bound_follows_the_bound():
    def fitted(upper):
        return optimize.curve_fit(decay, T, Y, bounds=(0.0, [upper, 9.0]), gtol=1e-14)[0]

    slopes = wg.jacobian(fitted)(0.8)
    assert slopes[0] == 1
    assert slopes[1] == pytest.approx((fitted(0.8 + 1e-5)[1] - fitted(0.8 - 1e-5)[1]) / 2e-5, rel=1e-4)


@pytest.mark.parametrize("sigma", [None, T + 0.5, CORRELATED])
def test_missing_data_are_left_out(sigma):
    def fitted(y, **options):
        return packed(optimize.curve_fit(line, T, y, sigma=sigma, nan_policy="omit", check_finite=False, **options))

    kept = np.array([0, 1, 3, 4])
    gaps = np.where(np.arange(5) == 2, np.nan, Y)
    if sigma is not None and not features.has_mirrors():
        pytest.skip("this release of SciPy keeps the deviations of missing data")
    found = wg.jacobian(lambda q: fitted(gaps + q * T))(0.1)
    weights = sigma if sigma is None else sigma[kept] if sigma.ndim == 1 else sigma[kept][:, kept]
    expected = wg.jacobian(lambda q: packed(optimize.curve_fit(line, T[kept], (Y + q * T)[kept], sigma=weights)))(0.1)
    assert np.allclose(found, expected, rtol=1e-9)


def cauchy(z):
    return np.stack([np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2])


@pytest.mark.parametrize("is_absolute", [True, False])
@pytest.mark.parametrize("loss", ["soft_l1", "huber", "cauchy", "arctan", cauchy])
def test_fit_with_a_loss_has_derivatives_of_parameters_and_covariance(loss, is_absolute):
    tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}

    def f(q):
        data = Y + q[0] * T**2
        p, covariance = optimize.curve_fit(
            decay, T, data, [1.0, 1.0], sigma=1 + 0.1 * T, absolute_sigma=is_absolute,
            method="trf", loss=loss, f_scale=q[1], **tight,
        )  # fmt: skip
        return np.concatenate([p, np.ravel(covariance)])

    q, steps = np.array([0.1, 0.05]), 1e-4 * np.eye(2)
    expected = np.stack([(f(q + step) - f(q - step)) / 2e-4 for step in steps], axis=1)
    np.testing.assert_allclose(wg.jacobian(f)(q), expected, rtol=1e-3, atol=1e-4 * np.max(np.abs(expected)))


@pytest.mark.parametrize("sigma", [None, T + 0.5, CORRELATED])
def test_residuals_in_the_full_output_of_a_fit_have_derivatives(sigma):
    def by_curve_fit(q):
        return optimize.curve_fit(line, T, Y + q * T**2, sigma=sigma, full_output=True)[2]["fvec"]

    def by_leastsq(q):
        return optimize.leastsq(lambda p: line(T, *p) - Y - q * T**2, [1.0, 1.0], full_output=True)[2]["fvec"]

    for f in (by_curve_fit, by_leastsq):
        expected = (f(0.1 + 1e-4) - f(0.1 - 1e-4)) / 2e-4
        np.testing.assert_allclose(wg.jacobian(f)(0.1), expected, rtol=1e-5, atol=1e-6)


def test_full_output_of_a_fit_has_plain_counts_and_no_stale_fields():
    def f(q, field="nfev"):
        p, covariance, info, message, status = fit_of_decay(q, full_output=True)
        assert isinstance(message, str) and status in (1, 2, 3, 4)
        return p[1] + covariance[0, 0] + np.sum(info[field])

    assert np.isfinite(wg.grad(f)(0.5))
    with pytest.raises(wg.TracedValueError, match="'fjac' of this result"):
        wg.grad(f)(0.5, "fjac")
    assert scipy.optimize.curve_fit(decay, T, Y)[0] == pytest.approx(optimize.curve_fit(decay, T, Y)[0])


def test_fits_without_traced_values_are_unchanged():
    def f(q):
        p, covariance = scipy.optimize.curve_fit(decay, T, Y)
        assert type(p) is np.ndarray and np.array_equal(covariance, scipy.optimize.curve_fit(decay, T, Y)[1])
        return q * p[0]

    assert wg.grad(f)(2.0) == scipy.optimize.curve_fit(decay, T, Y)[0][0]


@pytest.mark.filterwarnings("ignore:Covariance of the parameters could not be estimated", "ignore:Number of calls")
def test_fits_that_fail_raise():
    with pytest.raises(wg.ConvergenceError, match="curve_fit has not converged"):
        wg.grad(lambda q: fit_of_decay(q, maxfev=2)[0][0])(0.5)
    with pytest.raises(wg.SingularJacobianError):
        wg.grad(lambda q: optimize.curve_fit(lambda t, a, b: a + b + q * t, T, Y)[0][0])(0.5)
    with pytest.raises(ValueError, match="number of fit parameters"):
        wg.grad(lambda q: optimize.curve_fit(lambda *args: q * args[0], T, Y)[0][0])(0.5)
    with pytest.raises(wg.ConvergenceError):
        wg.grad(lambda q: optimize.leastsq(lambda p: decay(T, *p) - q * Y, [1.0, 1.0], maxfev=2)[0][0])(0.5)


@pytest.mark.parametrize("options", [{}, {"Dfun": wg.jacobian(line)}, {"col_deriv": True}])
def test_leastsq_has_the_derivatives_of_the_normal_equations(options):
    X = np.stack([np.ones(5), T], axis=1)
    if "Dfun" in options:
        options = {"Dfun": lambda p, *args: X}

    def fitted(y):
        p, covariance, info, _, _ = optimize.leastsq(
            lambda p, y: X @ p - y, [0.0, 0.0], args=(y,), full_output=True, **options
        )
        assert info["nfev"] > 1
        return packed((p, covariance))

    expected = np.concatenate([np.linalg.solve(X.T @ X, X.T), np.zeros((4, 5))])
    assert np.allclose(wg.jacobian(fitted)(Y), expected, atol=1e-12)
    assert np.array_equal(wg.vjp(fitted, Y)[0], fitted(Y))
    short = wg.jacobian(lambda y: optimize.leastsq(lambda p: X @ p - y, [0.0, 0.0])[0])(Y)
    assert np.allclose(short, expected[:2], atol=1e-12)


# ---- global minima: of (x - p)^2 + 3 (y - p^2)^2 + x p, at x = p / 2


def valley(x, p):
    return (x[0] - p) ** 2 + 3 * (x[1] - p**2) ** 2 + x[0] * p


def simplex(f, x, args=(), full_output=True, disp=False):
    return scipy.optimize.fmin(f, x, args, full_output=full_output, disp=False, **TIGHT)


BOX = [(-1.0, 2.0), (-1.0, 2.0)]
SEARCHES = {
    "differential_evolution": {"bounds": BOX, **SEED},
    "dual_annealing": {"bounds": BOX, "maxiter": 20, **SEED},
    "shgo": {"bounds": BOX},
    "basinhopping": {"x0": [0.0, 0.0], "niter": 3, **SEED},
    "direct": {"bounds": BOX, "len_tol": 1e-3},
    "brute": {"ranges": BOX, "finish": simplex},
}


def searched(name, own_name=False, **options):
    """Return a search as a function of p that returns x and the minimum value."""
    solver = functools.partial(getattr(scipy.optimize if own_name else optimize, name), **{**SEARCHES[name], **options})

    def run(p, f=valley):
        if name == "brute":
            x, value, _, _ = solver(lambda x: f(x, p), full_output=True)
            return np.concatenate([x, [value]])
        found = solver(lambda x: f(x, p))
        return np.concatenate([found.x, [found.fun]])

    return run


@pytest.mark.parametrize("name", SEARCHES)
def test_global_minimum_has_the_derivatives_of_the_local_one(name):
    search = searched(name)
    expected = np.array([0.5, 2 * 0.9, 1.5 * 0.9])
    for mode in ("forward", "reverse"):
        assert np.allclose(wg.jacobian(search, mode=mode)(0.9), expected, rtol=1e-9)
    assert np.allclose(wg.jacobian(wg.jacobian(search))(0.9), [0.0, 2.0, 1.5], atol=1e-6)
    assert np.array_equal(wg.vjp(search, 0.9)[0], search(0.9))


@pytest.mark.parametrize("name", SEARCHES)
def test_followed_code_calls_global_minimisers_under_their_own_names(name):
    options = SEARCHES[name]

    def search(p):
        found = getattr(scipy.optimize, name)(lambda x: valley(x, p), **options)
        return found[:2] if name == "brute" else found.x

    assert np.allclose(wg.jacobian(search)(0.9), [0.5, 1.8], rtol=1e-9)
    assert np.array_equal(wg.vjp(search, 0.9)[0], search(0.9))


@pytest.mark.parametrize("name", ["differential_evolution", "dual_annealing", "shgo", "direct"])
def test_global_minimum_at_a_traced_bound_follows_the_bound(name):
    def search(p, bounds=lambda p: [(-1.0, p), (-1.0, 2.0)]):
        found = getattr(optimize, name)(lambda x: valley(x, 1.0), **{**SEARCHES[name], "bounds": bounds(p)})
        return np.concatenate([found.x, [found.fun]])

    if name != "direct":  # which does not reach bounds
        assert np.allclose(wg.jacobian(search)(0.3), [1.0, 0.0, 2 * (0.3 - 1) + 1], atol=1e-9)
        as_object = functools.partial(search, bounds=lambda p: optimize.Bounds([-1.0, -1.0], [p, 2.0]))
        assert np.allclose(wg.jacobian(as_object)(0.3), [1.0, 0.0, 2 * (0.3 - 1) + 1], atol=1e-9)
    assert np.allclose(wg.jacobian(search)(0.9), 0.0)


def test_constraints_of_global_minimisers_are_differentiated():
    def by_shgo(p):
        return optimize.shgo(lambda x: valley(x, 1.0), BOX, constraints={"type": "ineq", "fun": lambda x: p - x[0]}).x

    def by_hopping(p):
        local = {"method": "SLSQP", "constraints": {"type": "ineq", "fun": lambda x: p - x[0]}, "bounds": BOX}
        return optimize.basinhopping(valley, [0.0, 0.0], niter=2, minimizer_kwargs={**local, "args": (1.0,)}, **SEED).x

    def by_evolution(p):
        linear = optimize.LinearConstraint(np.eye(1, 2), -np.inf, p)
        return optimize.differential_evolution(lambda x: valley(x, 1.0), BOX, constraints=linear, **SEED).x

    for search in (by_shgo, by_hopping, by_evolution):
        assert np.allclose(wg.jacobian(search)(0.3), [1.0, 0.0], atol=1e-6)


def test_options_of_global_minimisers_keep_derivatives():
    def vectorized(p):
        options = {"vectorized": True, "updating": "deferred", **SEED}
        return optimize.differential_evolution(valley, BOX, args=(p,), **options).x

    def with_integers(p):
        return optimize.differential_evolution(valley, BOX, args=(p,), integrality=[True, False], **SEED).x

    def with_gradient(p):
        local = {"args": (p,), "jac": True}
        return optimize.basinhopping(lambda x, p: (valley(x, p), slopes(x, p)), [0.0, 0.0], 2, minimizer_kwargs=local).x

    def slopes(x, p):
        return np.stack([2 * (x[0] - p) + p, 6 * (x[1] - p**2)])

    assert np.allclose(wg.jacobian(vectorized)(0.9), [0.5, 1.8])
    assert np.allclose(wg.jacobian(with_integers)(0.9), [0.0, 1.8])
    assert np.allclose(wg.jacobian(with_gradient)(0.9), [0.5, 1.8])


def test_points_that_are_no_minimum_raise():
    for call in (
        lambda p: optimize.brute(valley, BOX, args=(p,), finish=None)[0],
        lambda p: optimize.dual_annealing(valley, BOX, args=(p,), no_local_search=True, maxiter=2, **SEED).x[0],
        lambda p: optimize.direct(valley, BOX, args=(p,), maxfun=20).x[0],
        lambda p: optimize.differential_evolution(valley, BOX, args=(p,), maxiter=1, polish=False, **SEED).x[0],
    ):
        with pytest.raises(wg.ConvergenceError):
            wg.grad(call)(0.87)


def test_other_fields_of_searches_raise():
    def population(p):
        return optimize.differential_evolution(valley, BOX, args=(p,), **SEED).population

    def grid(p):
        return optimize.brute(valley, BOX, args=(p,), full_output=True, finish=simplex)[3]["Jout"]

    for call in (population, grid):
        with pytest.raises(wg.TracedValueError, match="not differentiated"):
            wg.jacobian(call)(0.9)


def test_brute_with_one_variable_keeps_its_shape():
    x = wg.vjp(lambda p: optimize.brute(lambda x: (x[0] - p) ** 2, [(-1.0, 2.0)], finish=simplex), 0.9)[0]
    assert x.shape == scipy.optimize.brute(lambda x: (x[0] - 0.9) ** 2, [(-1.0, 2.0)], finish=simplex).shape


# ---- assignments and isotonic regression

COSTS = np.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])


@pytest.mark.parametrize("own_name", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_cost_of_an_assignment_has_its_derivative(maximize, own_name):
    def cost(c):
        solve = scipy.optimize.linear_sum_assignment if own_name else optimize.linear_sum_assignment
        rows, columns = solve(c, maximize)
        assert rows.dtype == columns.dtype == np.intp
        return c[rows, columns].sum()

    expected = np.zeros((3, 3))
    expected[scipy.optimize.linear_sum_assignment(COSTS, maximize)] = 1
    assert np.array_equal(wg.grad(cost)(COSTS), expected)
    if not features.has_mirrors():  # older releases run it uncompiled, with a warning
        return
    compiled = wg.compile(cost)
    for c in (COSTS, COSTS[::-1].copy(), COSTS.T.copy()):
        assert compiled(c) == cost(c)
        assert np.array_equal(wg.grad(compiled)(c), wg.grad(cost)(c))


@pytest.mark.parametrize("method", ["faq", "2opt"])
def test_cost_of_a_quadratic_assignment_has_its_derivative(method):
    def solve(a, b, solver=optimize.quadratic_assignment):
        return solver(a, b, method=method, options={"rng": np.random.default_rng(1)})

    def cost(a, b):
        found = solve(a, b)
        assert found.col_ind.dtype.kind == "i"
        return found.fun

    order = solve(COSTS, COSTS.T, scipy.optimize.quadratic_assignment).col_ind
    by_a, by_b = wg.grad(cost, argnums=(0, 1))(COSTS, COSTS.T)
    assert np.array_equal(by_a, COSTS.T[order][:, order])
    inverse = np.argsort(order)
    assert np.array_equal(by_b, COSTS[inverse][:, inverse])
    assert wg.vjp(cost, COSTS, args=(COSTS.T,))[0] == cost(COSTS, COSTS.T)


@pytest.mark.parametrize("increasing", [True, False])
def test_isotonic_regression_averages_over_its_blocks(increasing):
    y, w = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 4.5]), np.array([1.0, 2.0, 0.5, 1.0, 1.0, 2.0])
    y, w = (y, w) if increasing else (y[::-1].copy(), w[::-1].copy())

    def fitted(y, w):
        found = optimize.isotonic_regression(y, weights=w, increasing=increasing)
        return np.concatenate([found.x, found.weights])

    def expected(y, w):
        blocks = [slice(0, 1), slice(1, 3), slice(3, 6)] if increasing else [slice(0, 3), slice(3, 5), slice(5, 6)]
        means = [np.full(w[b].size, 1.0) * np.sum((w * y)[b]) / np.sum(w[b]) for b in blocks]
        return np.concatenate([*means, np.stack([np.sum(w[b]) for b in blocks])])

    assert np.allclose(fitted(y, w), expected(y, w))
    for argnums in (0, 1):
        found = wg.jacobian(fitted, argnums=argnums)(y, w)
        assert np.allclose(found, wg.jacobian(expected, argnums=argnums)(y, w), rtol=1e-13)
    assert np.array_equal(wg.vjp(fitted, y, args=(w,))[0], fitted(y, w))
    unweighted = wg.jacobian(lambda y: scipy.optimize.isotonic_regression(y, increasing=increasing).x)(y)
    assert np.allclose(unweighted.sum(axis=1), 1.0)


# ---- many scalar equations at once


@pytest.mark.skipif(not HAS_ELEMENTWISE, reason="scipy.optimize.elementwise is new in SciPy 1.15")
def test_elementwise_roots_and_minima_have_elementwise_derivatives():
    from scipy.optimize import elementwise

    c = np.array([1.0, 2.0, 3.0])

    def roots(c, solve=optimize):
        return optimize.elementwise.find_root(lambda x, c: x**3 - c, (0.0, 5.0), args=(c,)).x

    def under_own_name(c):
        return elementwise.find_root(lambda x, c: x**3 - c, (0.0, 5.0), args=(c,)).x

    def closed_over(p):
        return elementwise.find_root(lambda x, c: x**3 - c * p, (0.0, 5.0), args=(c,)).x

    def minima(c):
        return elementwise.find_minimum(lambda x, c: np.exp(x) - c * x, (-5.0, 0.1, 5.0), args=(c,)).x

    def least(c):
        return elementwise.find_minimum(lambda x, c: np.exp(x) - c * x, (-5.0, 0.1, 5.0), args=(c,)).f_x

    def residual(c):
        return elementwise.find_root(lambda x, c: x**3 - c, (0.0, 5.0), args=(c,)).f_x

    expected = np.diag(c ** (-2 / 3) / 3)
    for find in (roots, under_own_name):
        assert np.allclose(wg.jacobian(find)(c), expected, rtol=1e-12)
        assert np.allclose(wg.derivative(find)(c), np.diag(expected), rtol=1e-12)
        assert np.array_equal(wg.vjp(find, c)[0], find(c))
    assert np.allclose(wg.jacobian(closed_over)(1.0), c ** (1 / 3) / 3, rtol=1e-12)
    assert np.allclose(wg.jacobian(minima)(c), np.diag(1 / c), rtol=1e-9)
    assert np.allclose(wg.jacobian(least)(c), np.diag(-np.log(c)), rtol=1e-9, atol=1e-9)
    assert np.array_equal(wg.vjp(least, c)[0], least(c)) and not wg.jacobian(residual)(c).any()
    with pytest.raises(wg.ConvergenceError, match="1 of 3 elements have not converged"):
        wg.jacobian(roots)(np.array([1.0, 2.0, 999.0]))
