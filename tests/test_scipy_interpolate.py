"""Splines, interpolants and piecewise polynomials of ``scipy.interpolate``."""

import numpy as np
import pytest
import scipy.interpolate as si
from scipy.sparse.linalg import spsolve

import wengert as wg
from helpers import parts
from scipy_cases import check
from wengert.errors import ConvergenceError, NonSmoothError, UnsupportedFunctionError

t = np.array([0.0, 0.7, 1.5, 2.1, 3.0, 4.2])
y = np.sin(t) + 0.3 * t + 0.1
q = np.array([0.3, 1.2, 2.9, 3.8, -0.2, 4.5])
qi = np.array([0.3, 1.2, 2.9, 3.8, 0.9, 4.0])
cs, ch, bs = si.CubicSpline(t, y), si.PchipInterpolator(t, y), si.make_interp_spline(t, y)
ti, us, tck = si.interp1d(t, y, fill_value="extrapolate"), si.InterpolatedUnivariateSpline(t, y), si.splrep(t, y)
gx = np.linspace(0, 1, 5)
G = np.outer(np.sin(gx), np.cos(gx)) + 0.5
rg, rb = si.RegularGridInterpolator((gx, gx), G), si.RectBivariateSpline(gx, gx, G)
P = np.random.default_rng(0).uniform(0.36, 0.64, (6, 2))
SQUARE = np.r_[[[0, 0], [0, 1], [1, 0], [1, 1.1]], np.random.default_rng(5).uniform(0.1, 0.9, (8, 2))]


class H:
    """An object that holds a spline."""

    def __init__(self):
        self.s = cs

    def __call__(self, x):
        return self.s(x) ** 2

LATTICE = np.repeat(np.arange(4.0), 4) / 4, np.tile(np.arange(4.0), 4) / 4

CASES = {
    "cs": (lambda x: cs(x), q),
    "cs nu": (lambda x: cs(x, 1), q),
    "cs attr": (H(), q),
    "cs deriv": (lambda x: cs.derivative()(x), q),
    "cs int": (lambda x: np.array(cs.integrate(x[0], x[1])), q),
    "cs anti": (lambda x: cs.antiderivative()(x), q),
    "CubicSpline y": (lambda y: si.CubicSpline(t, y)(q), y),
    "CubicSpline t": (lambda d: si.CubicSpline(np.cumsum(np.exp(d)), y)(q + 1), np.log(np.diff(t, prepend=-0.5))),
    "complex": (lambda y: parts(si.CubicSpline(t, y + 1j * y**2)(q)), y),
    "natural": (lambda y: si.CubicSpline(t, y, bc_type="natural")(q), y),
    "clamped": (lambda y: si.CubicSpline(t, y, bc_type="clamped")(q), y),
    "periodic": (lambda y: si.CubicSpline(t, np.append(y[:-1], y[0]), bc_type="periodic")(q), y),
    "bc values": (lambda y: si.CubicSpline(t, y, bc_type=((1, y[0]), (2, 0.0)))(q), y),
    "axis": (lambda y: si.CubicSpline(t, np.stack([y, 2 * y]), axis=1)(q), y),
    "pchip": (lambda y: si.PchipInterpolator(t, y)(q), y),
    "pchip q": (lambda x: ch(x), q),
    "pchip_interpolate": (lambda y: si.pchip_interpolate(t, y, q), y),
    "akima": (lambda y: si.Akima1DInterpolator(t, y)(qi), y),
    "makima": (lambda y: si.Akima1DInterpolator(t, y, method="makima")(qi), y),
    "hermite": (lambda y: si.CubicHermiteSpline(t, y, np.cos(y))(q), y),
    "krogh": (lambda y: si.KroghInterpolator(t, y)(q), y),
    "krogh_interp": (lambda y: si.krogh_interpolate(t, y, q), y),
    "bs q": (lambda x: bs(x), q),
    "bs nu": (lambda x: bs(x, 2), q),
    "make_interp y": (lambda y: si.make_interp_spline(t, y)(q), y),
    "make_interp t": (
        lambda d: si.make_interp_spline(np.cumsum(np.exp(d)), y)(q + 1),
        np.log(np.diff(t, prepend=-0.5)),
    ),
    "make_interp k1": (lambda y: si.make_interp_spline(t, y, k=1)(q), y),
    "make_interp k2": (lambda y: si.make_interp_spline(t, y, k=2)(q), y),
    "make_interp k5": (lambda y: si.make_interp_spline(t, y, k=5)(q), y),
    "make_interp bc": (lambda y: si.make_interp_spline(t, y, bc_type="natural")(q), y),
    "make_interp per": (lambda y: si.make_interp_spline(t, np.append(y[:-1], y[0]), bc_type="periodic")(q), y),
    "BSpline c": (lambda c: si.BSpline(bs.t, c, 3)(q), y),
    "bs deriv": (lambda c: si.BSpline(bs.t, c, 3).derivative()(q), y),
    "bs int": (lambda c: np.array(si.BSpline(bs.t, c, 3).integrate(0.3, c[0] + 2)), y),
    "bs anti": (lambda c: si.BSpline(bs.t, c, 3).antiderivative()(qi), y),
    "lsq": (lambda y: si.make_lsq_spline(t, y, np.r_[(0,) * 4, 2.0, (4.2,) * 4], 3)(q), y),
    "smooth": (lambda y: si.make_smoothing_spline(t, y, lam=0.1)(q), y),
    "splrep": (lambda y: si.splev(q, si.splrep(t, y)), y),
    "splev": (lambda x: si.splev(x, tck), q),
    "splev der": (lambda x: si.splev(x, tck, der=1), q),
    "splint": (lambda x: np.array(si.splint(x[0], x[1], tck)), q),
    "spalde": (lambda x: np.array(si.spalde(x[0], tck)), q),
    "splder": (lambda y: si.splev(qi, si.splder(si.splrep(t, y))), y),
    "splev ext": (lambda x: si.splev(x, tck, ext=3), q),
    "splantider": (lambda y: si.splev(qi, si.splantider(si.splrep(t, y))), y),
    "us": (lambda x: us(x), q),
    "us nu": (lambda x: us(x, 1), q),
    "us int": (lambda x: np.array(us.integral(x[0], x[1])), qi),
    "interp1d": (lambda y: si.interp1d(t, y)(qi), y),
    "interp1d q": (lambda x: ti(x), q),
    "interp1d cubic": (lambda y: si.interp1d(t, y, kind="cubic")(qi), y),
    "interp1d t": (lambda t: si.interp1d(t, y, fill_value="extrapolate")(q), t),
    "interp1d nearest": (lambda y: si.interp1d(t, y, kind="nearest")(qi), y),
    "interp1d prev": (lambda y: si.interp1d(t, y, kind="previous")(qi), y),
    "interp1d quad": (lambda y: si.interp1d(t, y, kind="quadratic")(qi), y),
    "interp1d fill": (lambda y: si.interp1d(t, y, bounds_error=False, fill_value=(y[0], y[1]))(q), y),
    "rgi q": (lambda p: rg(p), P),
    "rgi v": (lambda v: si.RegularGridInterpolator((gx, gx), v)(P), G),
    "rgi cubic q": (lambda p: si.RegularGridInterpolator((gx, gx), G, method="cubic")(p), P),
    "rgi pchip": (lambda p: si.RegularGridInterpolator((gx, gx), G, method="pchip")(p), P),
    "rgi slinear": (lambda p: si.RegularGridInterpolator((gx, gx), G, method="slinear")(p), P),
    "rgi nearest": (lambda v: si.RegularGridInterpolator((gx, gx), v, method="nearest")(P), G),
    "interpn": (lambda v: si.interpn((gx, gx), v, P), G),
    "interpn spline": (lambda p: si.interpn((gx, gx), G, p, method="splinef2d"), P),
    "rect q": (lambda p: rb(p[:, 0], p[:, 1], grid=False), P),
    "rect ev": (lambda p: rb.ev(p[:, 0], p[:, 1]), P),
    "rect grid": (lambda p: rb(np.sort(p[:, 0]), gx), P),
    "rect v": (lambda v: si.RectBivariateSpline(gx, gx, v).ev(P[:, 0], P[:, 1]), G),
    "rbf d": (lambda d: si.RBFInterpolator(P, d)(P + 0.01), y),
    "rbf q": (lambda p: si.RBFInterpolator(P, y)(p), P + 0.03),
    "ppoly": (lambda c: si.PPoly(c.reshape(2, 3), [0.0, 1, 2, 3])(qi[:3]), y),
    "bpoly": (lambda c: si.BPoly(c.reshape(2, 3), [0.0, 1, 2, 3])(qi[:3]), y),
    "linnd": (lambda v: si.LinearNDInterpolator(P, v)(P.mean(0)), y),
    "linnd q": (lambda p: si.LinearNDInterpolator(P, y)(p), P.mean(0)),
    "griddata": (lambda v: si.griddata(P, v, P.mean(0)[None]), y),
    "nearnd": (lambda v: si.NearestNDInterpolator(P, v)(P + 0.01), y),
    "bisplev": (lambda p: si.bisplev(0.3, p[0, 0], (rb.tck[0], rb.tck[1], rb.tck[2], 3, 3)), P),
    "roots": (lambda y: si.CubicSpline(t, y - 1).roots(extrapolate=False), y),
    "solve": (lambda v: cs.solve(v[0], extrapolate=False), np.array([0.8])),
    "roots in knots": (
        lambda d: si.CubicSpline(np.cumsum(np.exp(d)), y - 1).roots(extrapolate=False),
        np.log(np.diff(t, prepend=-0.5)),
    ),
    "sproot": (lambda y: si.sproot(si.splrep(t, y - 1)), y),
    "us roots": (lambda y: si.InterpolatedUnivariateSpline(t, y - 1).roots(), y),
    "splrep t": (
        lambda d: si.splev(2.1, si.splrep(np.cumsum(np.exp(d)), y)),
        np.log(np.diff(t, prepend=-0.5)),
    ),
    "splrep of a polynomial": (lambda y: si.splev(q, si.splrep(t, y, s=9.0)), y),
    "weights": (lambda w: si.splev(q, si.splrep(t, y, w=w, t=[2.0], k=2)), y + 1),
    "us of a polynomial": (lambda y: si.UnivariateSpline(t, y, s=9.0)(q), y),
    "us in x": (
        lambda d: si.InterpolatedUnivariateSpline(np.cumsum(np.exp(d)), y, k=2)(2.1),
        np.log(np.diff(t, prepend=-0.5)),
    ),
    "splprep": (lambda y: np.stack(si.splev([0.2, 0.7], si.splprep([t, y], s=0)[0])), y),
    "splprep u": (lambda y: si.splprep([t, y], s=0, k=2)[1], y),
    "ndppoly": (
        lambda p: si.NdPPoly(np.arange(24.0).reshape(3, 2, 2, 2), [[0, 0.4, 1.0], [0, 0.3, 1.0]])(p, nu=(1, 0)),
        P,
    ),
    "ndbspline": (lambda p: si.NdBSpline((np.arange(8.0), np.arange(8.0)), p[0, 0] * np.eye(4), 3)(p + 3), P),
    "rect integral": (lambda p: np.asarray(rb.integral(p[0, 0] - 0.2, p[1, 0], 0.1, p[1, 1])), P),
    "clough tocher": (lambda v: si.CloughTocher2DInterpolator(SQUARE, v, tol=1e-12)(P), np.sin(np.arange(12.0))),
    "clough tocher q": (lambda p: si.CloughTocher2DInterpolator(SQUARE, SQUARE[:, 0] ** 3)(p), P),
    "griddata cubic": (lambda p: si.griddata(SQUARE, SQUARE[:, 1] ** 3, p, method="cubic"), P),
    "rgi outside": (
        lambda p: si.RegularGridInterpolator((gx, gx), G, bounds_error=False, fill_value=None)(p + 0.7),
        P,
    ),
    "surface with weights": (
        lambda v: si.LSQBivariateSpline(*LATTICE, np.cos(v), [], [], 1 + LATTICE[0], kx=2, ky=2)([0.3, 0.7], 0.4),
        np.sin(np.arange(16.0)),
    ),
    "make_splprep": (lambda y: si.make_splprep([t, y])[0]([0.2, 0.7]), y),
    "Rbf": (lambda v: si.Rbf(P[:, 0], P[:, 1], v)(P[:, 0] + 0.01, P[:, 1]), y),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, x = CASES[name]
    check(f, x, order=1, batches=False, sparse=False)


SECOND = ["cs", "CubicSpline y", "CubicSpline t", "pchip q", "akima", "hermite", "bs q", "make_interp y", "BSpline c",
          "splev", "us", "rgi q", "rect ev", "rbf q", "ppoly", "bpoly", "cs int"]  # fmt: skip


@pytest.mark.parametrize("name", SECOND)
def test_functions_have_second_derivatives(name):
    f, x = CASES[name]
    check(lambda x: f(x) ** 2, x, compiled=False, batches=False, sparse=False)


def test_fit_through_a_spline():
    data = np.linspace(0.1, 4.1, 30)
    target = np.cos(data)

    def loss(y):
        return np.sum((si.CubicSpline(t, y)(data) - target) ** 2)

    v, h = np.cos(np.arange(6.0)), 1e-5
    np.testing.assert_allclose(wg.grad(loss)(y) @ v, (loss(y + h * v) - loss(y - h * v)) / (2 * h), rtol=1e-8)
    basis = si.CubicSpline(t, np.eye(6))(data)
    np.testing.assert_allclose(wg.hessian(loss)(y), 2 * basis.T @ basis, rtol=1e-9, atol=1e-12)


def test_barycentric_interpolation_is_that_of_the_same_polynomial():
    expected = wg.jacobian(lambda y: si.KroghInterpolator(t, y)(q))(y)
    for rng in (None, 1):
        found = wg.jacobian(lambda y: si.BarycentricInterpolator(t, y, rng=rng)(q))(y)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(wg.jacobian(lambda y: si.barycentric_interpolate(t, y, q))(y), expected, atol=1e-12)


RATIONAL = {
    "BarycentricInterpolator": si.BarycentricInterpolator,
    "FloaterHormannInterpolator": lambda x, y: si.FloaterHormannInterpolator(x, y, d=2),
    "barycentric_interpolate": lambda x, y: lambda at: si.barycentric_interpolate(x, y, at),
}


@pytest.mark.parametrize("name", RATIONAL)
@pytest.mark.parametrize("columns", [1, 2])
def test_barycentric_formulas_have_derivatives_at_the_nodes(name, columns):
    data = np.column_stack([y, y**2])[:, :columns]

    def f(x):
        return RATIONAL[name](x[:6], data)(x[6:].reshape(2, 2))

    x = np.concatenate([t, [t[1], 0.7, t[4], t[1]]])
    check(f, x, batches=False, sparse=False)
    step = 1e-4 * np.cos(np.arange(10.0))
    loss = lambda x: np.sum(f(x) ** 2)
    before, after = [wg.grad(loss)(x + k * step) @ step for k in (-1, 1)]
    np.testing.assert_allclose(wg.hvp(loss)(x, step) @ step, (after - before) / 2, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["gaussian", "multiquadric", "inverse_multiquadric", "inverse_quadratic", "quintic"])
def test_smooth_radial_functions_have_second_derivatives_at_the_data(kernel):
    f = si.RBFInterpolator(SQUARE, np.sin(SQUARE @ [1.0, 2.0]), kernel=kernel, epsilon=1.5, degree=2)
    loss = lambda x: np.sum(f(x.reshape(2, 2)))
    at, h = SQUARE[4:6].ravel(), 1e-4
    differences = [wg.grad(loss)(at + h * e) - wg.grad(loss)(at - h * e) for e in np.eye(4)]
    np.testing.assert_allclose(wg.hessian(loss)(at), np.array(differences) / (2 * h), rtol=1e-5, atol=1e-6)


ENDS = {
    "bbox": lambda t: si.InterpolatedUnivariateSpline(t, y, bbox=[-1, 5])(1.1),
    "xb": lambda t: si.splev(1.1, si.splrep(t, y, xb=-1)),
    "ub": lambda t: si.splprep([t, y], s=0, u=np.linspace(0, 1, 6), ub=-0.1)[0][1][0],
}


@pytest.mark.parametrize("name", ENDS)
def test_ends_beyond_the_points_are_refused(name):
    with pytest.raises(UnsupportedFunctionError, match="between the first and the last"):
        wg.grad(lambda t: np.sum(ENDS[name](t)))(t)


def test_splines_on_grids_need_an_exact_solver():
    def f(v, **options):
        return si.RegularGridInterpolator((gx, gx), v, method="cubic", **options)(P)

    with pytest.raises(ConvergenceError, match=r"solver=scipy\.sparse\.linalg\.spsolve"):
        wg.grad(lambda v: np.sum(f(v)))(G)
    check(lambda v: f(v, solver=spsolve), G, order=1, compiled=False, batches=False, sparse=False)


REFUSED = {
    "UnivariateSpline": (lambda y: si.UnivariateSpline(t, y, s=1e-3)(q), "make_smoothing_spline"),
    "make_smoothing_spline": (lambda y: si.make_smoothing_spline(t, y)(q), "lam"),
    "splrep": (lambda y: si.splev(q, si.splrep(t, y, s=1e-3)), "make_lsq_spline"),
    "splprep": (lambda y: si.splprep([t, y])[0][1][0], "make_lsq_spline"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_knots_chosen_by_iterations_are_refused(name):
    f, remedy = REFUSED[name]
    with pytest.raises(UnsupportedFunctionError, match=rf"scipy\.interpolate\.{name}.*{remedy}"):
        wg.grad(lambda y: np.sum(f(y)))(y)


def test_polynomial_does_not_lose_the_derivative_of_a_leading_zero():
    with pytest.raises(NonSmoothError, match="polyval"):
        wg.grad(lambda c: np.poly1d(c)(2.0))(np.array([0.0, 1.0]))
