"""Interpolation and quadrature rules of SciPy."""

import numpy as np
import scipy
import scipy.interpolate as si
from scipy import integrate, interpolate
from scipy.interpolate import (
    AAA,
    Akima1DInterpolator,
    BarycentricInterpolator,
    BPoly,
    BSpline,
    CloughTocher2DInterpolator,
    CubicHermiteSpline,
    CubicSpline,
    FloaterHormannInterpolator,
    InterpolatedUnivariateSpline,
    KroghInterpolator,
    LinearNDInterpolator,
    LSQUnivariateSpline,
    NdBSpline,
    PchipInterpolator,
    PPoly,
    Rbf,
    RBFInterpolator,
    RectBivariateSpline,
    RegularGridInterpolator,
    UnivariateSpline,
    griddata,
    interp1d,
    interpn,
    make_interp_spline,
    make_lsq_spline,
    make_smoothing_spline,
    splev,
    splrep,
)

from benchmarks.packages.cases import Cases

rng = np.random.default_rng(0)
T6 = np.array([0., 0.7, 1.5, 2.6, 3.4, 5.])
T5 = np.linspace(0, 4, 5)
Y6 = np.array([1., 2.3, 1.7, 0.4, 0.9, 2.])
Q = np.array([0.31, 1.13, 2.17, 3.05, 4.41])
PTS = rng.uniform(-1, 1, size=(14, 2))

# ---------------------------------------------------------------- cubic splines and friends


def cs_natural_accel(y):
    """Acceleration of a natural spline through recorded positions."""
    cs = CubicSpline(T6, y, bc_type="natural")
    return cs(Q, 2)


def cs_clamped_ends(p):
    """Trajectory through way-points with prescribed end velocities."""
    way = np.array([0., p[0], p[1], 1.])
    traj = CubicSpline([0., 1., 2.2, 3.], way, bc_type=((1, p[2]), (1, p[3])))
    t = np.linspace(0.1, 2.9, 7)
    return np.concatenate([traj(t), traj(t, nu=1)])


def cs_periodic_cam(r):
    """Cam profile: periodic radius, and its polar area."""
    ang = np.linspace(0, 2 * np.pi, len(r) + 1)
    prof = CubicSpline(ang, np.append(r, r[0]), bc_type="periodic")
    th = np.linspace(0, 2 * np.pi, 40)
    area = 0.5 * np.trapezoid(prof(th) ** 2, th)
    return np.append(prof([0.4, 2.0, 7.5, -1.0]), area)


def cs_move_knots(h):
    """The sample times, not the values, are uncertain."""
    t = np.concatenate([[0.], np.cumsum(h)])
    return CubicSpline(t, np.cos(t) + Y6[:len(t)], bc_type="clamped")([0.5, 1.9, 3.1])


def cs_integrate_dose(c):
    """Area under a log-interpolated concentration curve between two sampling times."""
    auc = CubicSpline(T6, np.log(c), bc_type="natural")
    return auc.integrate(0.4, 4.2)


def cs_integrate_limits(ab):
    return CubicSpline(T6, Y6).integrate(ab[0], ab[1])


def cs_antiderivative(v):
    """Distance from speed samples."""
    speed = CubicSpline(T6, v)
    dist = speed.antiderivative()
    return dist(Q) - dist(T6[0])


def cs_derivative_curvature(q):
    cs = CubicSpline(T6, Y6, bc_type=((2, 0.0), (2, 0.0)))
    d1, d2 = cs.derivative(), cs.derivative(2)
    return np.abs(d2(q)) / (1 + d1(q) ** 2) ** 1.5


def cs_roots(y):
    """Zero crossings of an interpolated signal."""
    return CubicSpline(T6, y).roots(extrapolate=False)


def cs_solve_level(y):
    """When does the rising calibration curve reach 1.2?"""
    return CubicSpline(T5, y).solve(1.2, extrapolate=False)


def cs_peak(y):
    """Refine a spectral peak: stationary point of the spline and its height."""
    cs = CubicSpline(np.arange(5.), y)
    loc = cs.derivative().roots(extrapolate=False)
    loc = loc[(loc > 1) & (loc < 3)]
    return np.concatenate([loc, cs(loc)])


def cs_planar_length(p):
    """Length of a planar path, vector-valued spline, axis=0."""
    pts = np.column_stack([p, np.array([0., 1., 0.5, 2.])])
    path = CubicSpline([0., 1., 2., 3.], pts, axis=0)
    u = np.linspace(0, 3, 41)
    return integrate.simpson(np.linalg.norm(path(u, 1), axis=1), x=u)


def hermite_orbit(s):
    """Position and velocity ephemeris, interpolated between epochs."""
    t = np.array([0., 1., 2.5])
    pos, vel = s[:3], s[3:]
    h = CubicHermiteSpline(t, pos, vel)
    return np.concatenate([h([0.4, 1.7]), h([0.4, 1.7], 1), [h.integrate(0.2, 2.3)]])


def pchip_cdf(w):
    """Monotone cdf from bin weights, and the density it implies."""
    edges = np.array([0., 1., 2., 3.5, 5., 7.])
    cdf = np.concatenate([[0.], np.cumsum(w) / np.sum(w)])
    F = PchipInterpolator(edges, cdf)
    pdf = F.derivative()
    q = np.array([0.6, 1.8, 4.1, 6.0])
    return np.concatenate([F(q), pdf(q)])


def pchip_integrated(y):
    p = PchipInterpolator(T6, y, extrapolate=True)
    return np.array([p.integrate(0.2, 4.6), float(p(5.3)), p.antiderivative()(2.0)])


def pchip_func_query(q):
    return si.pchip_interpolate(T6, Y6, q, der=1)


def akima_profile(y):
    """Akima through a terrain profile: height and slope."""
    ak = Akima1DInterpolator(T6, y)
    mak = Akima1DInterpolator(T6, y, method="makima", extrapolate=True)
    return np.r_[ak(Q), ak(Q, nu=1), mak(np.array([0.3, 2.2, 4.9, 5.2]))]


# ---------------------------------------------------------------- piecewise polynomials

def ppoly_from_coeffs(c):
    """Two-segment quadratic with breakpoint at 1."""
    pp = PPoly(c.reshape(3, 2), [0., 1., 2.])
    return np.array([pp(0.3), pp(1.6), pp.derivative()(1.6), pp.integrate(0.2, 1.9), pp.antiderivative()(1.7)]).ravel()


def ppoly_from_spline_energy(y):
    """Bending energy, int (s'')^2, from the PPoly coefficients."""
    pp = PPoly.from_spline(splrep(T6, y, k=3, s=0))
    d2 = pp.derivative(2)
    t = np.linspace(0, 5, 51)
    return integrate.trapezoid(d2(t) ** 2, t)


def bpoly_bezier(c):
    """Bezier curve from its control values."""
    bp = BPoly(c[:, None], [0., 1.])
    u = np.array([0.1, 0.35, 0.8])
    return np.concatenate([bp(u), bp.derivative()(u), [bp.integrate(0, 0.75)]])


def bpoly_from_derivatives(s):
    """Quintic motion profile with position, velocity, acceleration at both ends."""
    bp = BPoly.from_derivatives([0., 2.], [[s[0], s[1], s[2]], [s[3], s[4], 0.]])
    return bp(np.array([0.3, 1.0, 1.7]), nu=1)


# ---------------------------------------------------------------- B-splines

def bspline_coeffs(c):
    """A curve given by B-spline coefficients, value and slope."""
    t = np.r_[[0.] * 4, [1., 2.], [3.] * 4]
    b = BSpline(t, c, 3)
    u = np.array([0.25, 1.4, 2.8])
    return np.r_[b(u), b.derivative()(u), b.integrate(0.3, 2.6), b.antiderivative()(1.9)]


def bspline_inner_knots(k):
    """How a fitted calibration depends on the positions of its inner knots."""
    t = np.concatenate([np.zeros(4), k, np.full(4, 5.)])
    return BSpline(t, np.array([1., 0.2, 2., 1.5, -0.3, 0.8]), 3, extrapolate=False)(Q)


def bspline_basis_elem(q):
    b = BSpline.basis_element([0., 1., 2.5, 3., 4.5])
    return b(q) + 0.5 * b(q, nu=1)


def bspline_design_lsq(y):
    """Penalised least squares (P-spline) with the design matrix."""
    t = np.r_[[0.] * 4, 1.7, 3.3, [5.] * 4]
    x = np.linspace(0.1, 4.9, 8)
    B = BSpline.design_matrix(x, t, 3).toarray()
    D = np.diff(np.eye(6), n=2, axis=0)
    coef = np.linalg.solve(B.T @ B + 0.1 * D.T @ D, B.T @ y)
    return BSpline(t, coef, 3)(Q)


def bspline_insert_knot(c):
    t = np.r_[[0.] * 4, [1., 2.], [3.] * 4]
    return BSpline(t, c, 3).insert_knot(1.5).c

INTERPOLATION = [
    ("cs_natural_accel", cs_natural_accel, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("cs_clamped_ends", cs_clamped_ends, [0.7, 1.4, 0.2, -0.5]),
    ("cs_periodic_cam", cs_periodic_cam, [2., 2.4, 3.1, 2.7, 2.2]),
    ("cs_move_knots", cs_move_knots, [0.8, 0.9, 1.2, 0.7]),
    ("cs_integrate_dose", cs_integrate_dose, [9., 7.5, 4.8, 3.1, 2.2, 1.1]),
    ("cs_integrate_limits", cs_integrate_limits, [0.45, 3.9]),
    ("cs_antiderivative", cs_antiderivative, [0.5, 1.2, 2.5, 2.1, 1.4, 0.9]),
    ("cs_derivative_curvature", cs_derivative_curvature, [0.35, 1.15, 3.05, 4.3]),
    ("cs_roots", cs_roots, [1., 0.4, -0.8, -0.5, 0.7, 1.5]),
    ("cs_solve_level", cs_solve_level, [0.2, 0.9, 1.5, 2.4, 3.]),
    ("cs_peak", cs_peak, [0.2, 1.4, 3.2, 2.1, 0.5]),
    ("cs_planar_length", cs_planar_length, [0.1, 1.2, 1.9, 3.3]),
    ("hermite_orbit", hermite_orbit, [1., 0.4, -0.7, 0.2, -0.9, -0.3]),
    ("pchip_cdf", pchip_cdf, [1., 2.5, 4., 2.2, 0.8]),
    ("pchip_integrated", pchip_integrated, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("pchip_func_query", pchip_func_query, [0.35, 1.15, 3.05, 4.3]),
    ("akima_profile", akima_profile, [1., 2.3, 1.7, 0.4, 0.9, 2.9]),
    ("ppoly_from_coeffs", ppoly_from_coeffs, [1., -2., 0.5, 1.3, 2., 0.3]),
    ("ppoly_from_spline_energy", ppoly_from_spline_energy, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("bpoly_bezier", bpoly_bezier, [0.5, 2., -1., 1.5]),
    ("bpoly_from_derivatives", bpoly_from_derivatives, [0.1, 0.4, -0.2, 1.5, 0.3]),
    ("bspline_coeffs", bspline_coeffs, [1., 0.2, 2., 1.5, -0.3, 0.8]),
    ("bspline_inner_knots", bspline_inner_knots, [1.7, 3.4]),
    ("bspline_basis_elem", bspline_basis_elem, [0.6, 1.4, 2.7, 3.8]),
    ("bspline_design_lsq", bspline_design_lsq, [1., 1.5, 2.2, 1.9, 1.1, 0.6, 0.4, 0.9]),
    ("bspline_insert_knot", bspline_insert_knot, [1., 0.2, 2., 1.5, -0.3, 0.8]),
]

# ---------------------------------------------------------------- FITPACK interface


def splrep_splev_der(y):
    """Classic pair: interpolating tck, then values and slopes."""
    tck = splrep(T6, y, s=0)
    return np.r_[splev(Q, tck), splev(Q, tck, der=1), splev(5.4, tck, ext=0)]


def splrep_lsq_knots(y):
    """Weighted least-squares spline, interior knots chosen by hand."""
    x = np.linspace(0, 7, 8)
    w = 1 / np.array([0.1, 0.2, 0.1, 0.1, 0.3, 0.1, 0.2, 0.1])
    tck = interpolate.splrep(x, y, w=w, k=3, task=-1, t=[2.4, 4.6])
    return interpolate.splev(np.array([0.5, 2.2, 3.9, 6.4]), tck)


def splint_limits(p):
    """Heat content between two temperatures of a tabulated, scaled c_p."""
    temp = np.array([280., 300., 340., 400., 450., 500.])
    cp = p[2] * np.array([1.00, 1.01, 1.03, 1.08, 1.10, 1.15])
    return interpolate.splint(p[0], p[1], splrep(temp, cp))


def spalde_taylor(y):
    """All derivatives at one point of the interpolating cubic."""
    return np.asarray(interpolate.spalde(1.9, splrep(T6, y, s=0)))


def sproot_crossings(y):
    tck = interpolate.splrep(np.arange(8.), y, s=0)
    return interpolate.sproot(tck, mest=10)


def splder_splantider(y):
    """Displacement and jerk from a quartic spline of the acceleration."""
    tck = splrep(T6, y, k=4)
    disp = si.splantider(tck, n=2)
    jerk = si.splder(tck)
    return np.concatenate([splev(Q, disp), splev(Q, jerk)])


def fitpack_insert(p):
    """Refine the control polygon at a parametric place."""
    tck = splrep(T6, p[0] * np.sin(T6) + p[1] * T6)
    t, c, k = interpolate.insert(p[2], tck)
    return np.r_[t[4:-4], c[:len(t) - k - 1]]


def splprep_curve(p):
    """Parametric curve through digitised points, chord-length parameter."""
    x = np.array([p[0], 1., 2.2, p[1], 3.1, 2.0])
    y = np.array([0., 0.8, p[2], 1.9, p[3], 3.3])
    tck, u = interpolate.splprep([x, y], s=0)
    xs, ys = splev(np.linspace(0.05, 0.95, 4), tck)
    return np.concatenate([u[1:-1], xs, ys])


def univariate_methods(y):
    sp = UnivariateSpline(T6, y, k=3, s=0)
    return np.r_[sp(Q), sp.derivative()(2.0), sp.antiderivative()(4.0), sp.integral(0.5, 4.5), sp.derivatives(1.2)]


def fwhm_interpolated(p):
    """Full width at half maximum of an asymmetric line, the usual roots recipe."""
    x = np.linspace(-4, 4, 25)
    prof = p[0] * np.exp(-np.abs(x - 0.05) ** 2 / (2 * (p[1] + p[2] * np.tanh(x)) ** 2))
    sp = InterpolatedUnivariateSpline(x, prof - prof.max() / 2, k=3)
    r1, r2 = sp.roots()
    return r2 - r1


def lsq_univariate(y):
    """Continuum fit: quadratic spline with two interior knots and weights."""
    wave = np.array([0., 1., 2., 3., 4., 5., 6., 7.])
    cont = LSQUnivariateSpline(wave, y, t=[2.5, 4.5], w=np.linspace(1, 2, 8), k=2)
    return np.append(y / cont(wave), cont.get_coeffs())


def make_interp_axis(p):
    """Quintic interpolation of two channels at once, axis=1."""
    t = np.linspace(0, 5, 9)
    rec = np.stack([p[0] * np.cos(p[1] * t), np.exp(-p[2] * t)])
    b = make_interp_spline(t, rec, k=5, axis=1)
    return np.concatenate([b([0.4, 2.9, 4.7]), b([0.4, 2.9, 4.7], nu=2)]).ravel()


def make_interp_bc(p):
    """Cubic with prescribed slopes at both ends; sample positions also move."""
    x = np.array([0., p[0], p[0] + p[1], 4.])
    b = make_interp_spline(x, [0.2, 1., 0.6, p[2]], k=3, bc_type=([(1, p[3])], [(1, -p[3])]))
    return np.r_[b([0.4, 1.8, 3.3]), b.integrate(0.3, 3.5), b.c]


def make_lsq_weighted(y):
    x = np.linspace(0, 7, 8)
    t = np.r_[(0.,) * 4, 3.2, (7.,) * 4]
    fit = make_lsq_spline(x, y, t, k=3, w=np.array([1., 2., 1., 3., 1., 1., 2., 1.]))
    res = y - fit(x)
    return np.append(res, np.sum(res ** 2))


def make_smoothing_lam(p):
    """Smoothing spline whose penalty is a parameter."""
    x = np.linspace(0, 3, 9)
    y = np.sin(2 * x) + p[1] * np.cos(9 * x)
    sp = make_smoothing_spline(x, y, w=1 + 0.1 * x, lam=p[0])
    return np.r_[sp([0.2, 1.1, 2.6]), sp.derivative()([0.2, 1.1, 2.6])]


def make_splrep_splprep(y):
    """The newer constructors return BSpline objects."""
    b = interpolate.make_splrep(T6, y, k=3, s=0)
    curve, u = interpolate.make_splprep([T6, y], s=0)
    return np.concatenate([b(Q), b.derivative()(Q), u[1:-1], curve([0.2, 0.7]).ravel()])


# ---------------------------------------------------------------- interp1d and polynomials


def interp1d_linear(q):
    """Thermocouple table look-up, linear, with extrapolation."""
    mv = np.array([0., 0.39, 0.79, 1.61, 2.47, 3.36])
    degc = np.array([0., 10., 20., 40., 60., 80.])
    return interp1d(mv, degc, fill_value="extrapolate")(q) ** 1.01


def interp1d_cubic_axis(p):
    """Resample image rows on a stretched axis."""
    img = np.add.outer(p, np.sin(np.arange(6.))) ** 2
    f = interpolate.interp1d(np.arange(6.) * (1 + 0.1 * p[0]), img, kind="cubic", axis=1, bounds_error=False,
                             fill_value=0., assume_sorted=True)
    return f(np.array([0.5, 2.25, 4.4])).ravel()


def barycentric_function(y):
    """Degree 3 polynomial through four readings: value, slope and curvature."""
    x = [0., 1., 2.5, 4.]
    v = interpolate.barycentric_interpolate(x, y, [0.4, 1.7, 3.2], rng=0)
    return np.append(v, interpolate.barycentric_interpolate(x, y, 1.7, der=[1, 2], rng=0))


def barycentric_nodes(p):
    """Interpolation at Chebyshev points of a parametrised function, nodes scaled by the half width."""
    nodes = p[0] * np.cos(np.pi * (np.arange(7) + 0.5) / 7)
    b = BarycentricInterpolator(nodes, 1 / (1 + p[1] * nodes ** 2), rng=0)
    return np.append(b([-0.8, 0.1, 0.55]), b.derivative(0.3))


def krogh_hermite(y):
    """Krogh with repeated nodes (value and slope at 0), then derivatives."""
    k = KroghInterpolator([0., 0., 1., 2.2], y)
    whole = interpolate.krogh_interpolate([0., 1., 2., 3.], y ** 2, [1.3], der=1)
    return np.concatenate([k([0.5, 1.6]), k.derivatives(0.8, der=3), whole])


def floater_hormann(y):
    r = FloaterHormannInterpolator(T6, y, d=2)
    return r(Q)


def aaa_rational(p):
    """Rational approximation of a resonance curve."""
    z = np.linspace(-1, 1, 31)
    r = AAA(z, np.tan(p[0] * z) + p[1], rtol=1e-11)
    return r(np.array([-0.73, 0.22, 0.91]))


# ---------------------------------------------------------------- grids


def rgi_linear_track(p):
    """Wind along a straight flight track through a 3-D gridded model, out-of-range points filled."""
    x, y, z = np.linspace(0, 4, 5), np.linspace(0, 3, 4), np.linspace(0, 2, 3)
    wind = np.sin(x)[:, None, None] + 0.3 * y[None, :, None] * (1 + z ** 2)
    f = RegularGridInterpolator((x, y, z), wind, bounds_error=False, fill_value=None)
    s = np.linspace(0.1, 1, 5)
    track = np.column_stack([p[0] + p[1] * s, 0.3 + p[2] * s, 0.1 + p[3] * s ** 2])
    return f(track)


def rgi_cubic_table(c):
    """Aerodynamic table, cubic method for values and pchip at call time."""
    al, ma = np.linspace(-2, 10, 7), np.array([0.2, 0.4, 0.6, 0.75, 0.9])
    cl = c[0] + c[1] * al[:, None] / np.sqrt(1 - ma ** 2) - c[2] * (al[:, None] / 10) ** 3
    f = RegularGridInterpolator((al, ma), cl, method="cubic")
    q = np.array([[1.3, 0.51], [7.1, 0.83], [-0.7, 0.3]])
    return np.concatenate([f(q), f(q, method="pchip"), f(q, method="slinear")])


def interpn_methods(p):
    """Look-up of two points with interpn, grid values and place both traced."""
    g = (np.arange(6.), np.linspace(0, 2, 5))
    tab = np.exp(-p[0] * g[0][:, None]) * np.cos(p[1] * g[1])
    xi = np.array([[p[2], 0.7], [3.6, p[3]]])
    return np.concatenate([interpn(g, tab, xi), interpn(g, tab, xi, method="splinef2d"),
                           interpn(g, tab, xi, method="linear", bounds_error=False, fill_value=0.0)])


def rect_bivariate(p):
    """Smooth terrain: heights, gradient at a point and the volume under a patch."""
    x, y = np.linspace(0, 3, 6), np.linspace(0, 2, 5)
    s = RectBivariateSpline(x, y, p[0] * np.sin(x)[:, None] * np.cos(p[1] * y), kx=3, ky=3, s=0)
    at = p[2], p[3]
    return np.r_[s([0.4, 1.9], [0.3, 1.1]).ravel(), s.ev(*at), s.ev(*at, dx=1), s(*at, dy=1, grid=False),
                 s.integral(0.2, 2.2, 0.1, 1.4), s.partial_derivative(1, 0)(1.2, 0.9)[0, 0]]


def rect_sphere(p):
    """Global field on a colatitude-longitude grid, read at a moving place."""
    lat, lon = np.linspace(0.3, np.pi - 0.3, 7), np.linspace(0, 2 * np.pi, 9)[:-1]
    field = 1 + p[0] * np.cos(lat)[:, None] ** 2 + p[1] * np.sin(lat)[:, None] * np.cos(lon)
    s = si.RectSphereBivariateSpline(lat, lon, field, s=0.0)
    return np.append(s.ev(np.array([0.8, 1.9]), np.array([2.1, 4.0])), s.ev(p[2], p[3]))


def ndbspline_surface(c):
    """Tensor-product B-spline surface with a bump given by its coefficients."""
    t = np.r_[[0.] * 3, 1., [2.] * 3]
    b = NdBSpline((t, t), np.outer(c, np.array([1., 0.5, -0.3, 2.])), k=2)
    return np.r_[b([[0.3, 1.6], [1.2, 0.4]]), b([[0.3, 1.6]], nu=[1, 0])]


def lsq_surface(z):
    """Scattered heights: bivariate least squares without interior knots, and bisplrep/bisplev of the same."""
    px, py = PTS[:, 0], PTS[:, 1]
    h = z[0] * px ** 3 + z[1] * px * py + z[2] * np.cos(2 * py)
    lsq = si.LSQBivariateSpline(px, py, h, [], [], bbox=[-1, 1, -1, 1], kx=2, ky=2)
    tck = interpolate.bisplrep(px, py, h, xb=-1, xe=1, yb=-1, ye=1, kx=1, ky=1, s=100.)
    plane = interpolate.bisplev([-0.4, 0.2], [0.1, 0.6], tck)
    return np.append(lsq.ev(np.array([0.1, -0.5]), np.array([0.3, 0.4])), plane.ravel())


# ---------------------------------------------------------------- scattered data


def griddata_stations(v):
    """Station temperatures onto a small grid (linear); the same by LinearNDInterpolator at a moving place."""
    st = np.array([[0., 0.], [3., 0.2], [0.3, 2.8], [3.2, 3.1], [1.4, 1.7], [2.2, 0.9]])
    gx, gy = np.meshgrid([0.8, 1.9], [0.7, 1.5, 2.2])
    grid = griddata(st, v, (gx, gy), method="linear", rescale=True)
    lin = LinearNDInterpolator(st, v ** 2, fill_value=0.0)
    return np.append(grid.ravel(), lin(1.0 + 0.05 * v[0], 1.2))


def clough_tocher(p):
    """C1 surface through scattered heights."""
    h = p[0] * PTS[:, 0] ** 2 + np.sin(p[1] * PTS[:, 1])
    ct = CloughTocher2DInterpolator(PTS, h, tol=1e-13, maxiter=2000)
    return ct(np.array([[0.05, 0.1], [-0.2, 0.15], [p[2], 0.2]]))


def rbf_interpolator(p):
    """Gaussian kernel with shape parameter, and a smoothed thin-plate fit; the query point is moving."""
    d = np.hypot(PTS[:, 0] - p[0], PTS[:, 1])
    g = RBFInterpolator(PTS, d ** 2, kernel="gaussian", epsilon=p[1])
    tps = RBFInterpolator(PTS, np.exp(-d ** 2), smoothing=p[2], kernel="thin_plate_spline", degree=1)
    loc = RBFInterpolator(PTS, np.cos(p[0] * PTS[:, 1]), neighbors=8, kernel="cubic")
    q = np.array([[0.1, p[3]], [-0.3, 0.4]])
    return np.concatenate([g(q), tps(q), loc(q)])


def rbf_legacy(v):
    x = np.array([0., 1., 0.2, 1.3, 0.7, 2.])
    y = np.array([0., 0.1, 1., 1.2, 0.5, 0.4])
    f = Rbf(x, y, v, function="multiquadric", epsilon=0.8, smooth=0.01)
    return f(np.array([0.4, 1.1]), np.array([0.6, 0.3]))


# ---------------------------------------------------------------- scipy.integrate, fixed rules


def trapz_dx_axis(a):
    """Energy in each channel, samples along axis 0."""
    t = np.linspace(0, 1, 21)
    sig = np.exp(-a[None, :] * t[:, None]) * np.cos(6 * t)[:, None]
    return integrate.trapezoid(sig ** 2, dx=t[1] - t[0], axis=0)


def trapz_moving_x(x):
    """Work from force readings at measured positions."""
    return integrate.trapezoid(np.exp(-x) * x ** 2, x=x)


def simpson_uniform(p):
    """Mean of a Planck-like spectrum, odd number of samples."""
    nu = np.linspace(0.05, 12, 61)
    b = p[0] * nu ** 3 / np.expm1(nu / p[1])
    return integrate.simpson(b * nu, dx=nu[1] - nu[0]) / scipy.integrate.simpson(b, dx=nu[1] - nu[0])


def simpson_irregular_even(x):
    """Even number of unevenly spaced samples; the positions move."""
    return integrate.simpson(np.sqrt(1 + x ** 2), x=x)


def simpson_double(p):
    """Centre of pressure of a 2-D load: Simpson along one axis, then the other."""
    x, y = np.linspace(0, 2, 11), np.linspace(0, 1, 8)
    q = p[0] + p[1] * x[:, None] * np.exp(-p[2] * y)
    tot = integrate.simpson(integrate.simpson(q, x=y, axis=1), x=x)
    return integrate.simpson(integrate.simpson(q * x[:, None], x=x, axis=0), x=y) / tot


def cumtrapz_velocity(acc):
    """Strapdown: acceleration to velocity to position."""
    t = np.linspace(0, 1.4, len(acc))
    vel = integrate.cumulative_trapezoid(acc, t, initial=0)
    pos = integrate.cumulative_trapezoid(vel, x=t)
    return np.concatenate([vel, pos])


def cumtrapz_inverse_cdf(p):
    """Quantiles from a tabulated density by cumulative integration."""
    x = np.linspace(-5, 5, 51)
    pdf = np.stack([np.exp(-0.5 * (x / s) ** 2) for s in p])
    cdf = integrate.cumulative_trapezoid(pdf, dx=x[1] - x[0], axis=-1, initial=0)
    cdf = cdf / cdf[:, -1:]
    return np.array([np.interp(0.803, c, x) for c in cdf])


def cumsimpson_phase(p):
    """Comoving-distance style integral, cumulative Simpson on a uneven redshift table."""
    z = np.array([0., 0.1, 0.25, 0.4, 0.7, 1., 1.5, 2.])
    e = np.sqrt(p[0] * (1 + z) ** 3 + (1 - p[0]))
    d = 299792.458 / p[1] * integrate.cumulative_simpson(1 / e, x=z, initial=0)
    return 5 * np.log10((1 + z[1:]) * d[1:]) + 25


def cumsimpson_axis(a):
    f = np.outer(a, np.linspace(0, 1, 5)) ** 2 + a[:, None]
    return integrate.cumulative_simpson(f, dx=0.25, axis=1)[:, [0, 2, 3]].ravel()


def romb_moments(p):
    """Normalised second moment by Romberg on 2**5 + 1 samples."""
    u = np.linspace(0, p[1], 33)
    w = np.exp(-p[0] * u) * np.sin(u)
    return integrate.romb(w * u ** 2, dx=p[1] / 32) / integrate.romb(w, dx=p[1] / 32)


def fixed_quad_arc(p):
    """Gauss-Legendre: arc length of an ellipse between two eccentric angles."""
    def speed(t, a, b):
        return np.sqrt((a * np.sin(t)) ** 2 + (b * np.cos(t)) ** 2)
    length, _ = integrate.fixed_quad(speed, p[2], p[3], args=(p[0], p[1]), n=8)
    return length


def newton_cotes_rules(y):
    """Composite-free Boole rule with equal steps, and a custom rule on shifted sample positions."""
    an, bn = integrate.newton_cotes(4, 1)
    boole = 0.5 * np.sum(an * y)
    pos = np.array([0., 1.1 * y[0], 1.8, 1.5 * y[2], 4.])
    w, _ = integrate.newton_cotes(pos)
    return np.array([boole, 0.5 * (w @ np.exp(-y)), abs(bn) * 0.5 ** 7 * y[0]])


QUADRATURE = [
    ("splrep_splev_der", splrep_splev_der, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("splrep_lsq_knots", splrep_lsq_knots, [1., 1.5, 2.2, 1.9, 1.1, 0.6, 0.4, 0.9]),
    ("splint_limits", splint_limits, [310., 465., 1.02]),
    ("spalde_taylor", spalde_taylor, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("sproot_crossings", sproot_crossings, [1., 0.4, -0.8, -1.1, -0.5, 0.7, 1.5, 1.2]),
    ("splder_splantider", splder_splantider, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("fitpack_insert", fitpack_insert, [1.4, 0.3, 2.0]),
    ("splprep_curve", splprep_curve, [0.2, 2.9, 1.1, 2.6]),
    ("univariate_methods", univariate_methods, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("fwhm_interpolated", fwhm_interpolated, [2., 1.1, 0.2]),
    ("lsq_univariate", lsq_univariate, [1., 1.5, 2.2, 1.9, 1.1, 0.6, 0.4, 0.9]),
    ("make_interp_axis", make_interp_axis, [1.3, 0.9, 0.4]),
    ("make_interp_bc", make_interp_bc, [1.1, 1.4, 0.9, 0.7]),
    ("make_lsq_weighted", make_lsq_weighted, [1., 1.5, 2.2, 1.9, 1.1, 0.6, 0.4, 0.9]),
    ("make_smoothing_lam", make_smoothing_lam, [0.05, 0.2]),
    ("make_splrep_splprep", make_splrep_splprep, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("interp1d_linear", interp1d_linear, [0.2, 0.6, 1.2, 2.9, 3.8]),
    ("interp1d_cubic_axis", interp1d_cubic_axis, [0.5, 1.2, 0.8]),
    ("barycentric_function", barycentric_function, [1., 2.3, 0.7, 1.4]),
    ("barycentric_nodes", barycentric_nodes, [1.1, 1.7]),
    ("krogh_hermite", krogh_hermite, [1., 0.5, 1.8, 0.7]),
    ("floater_hormann", floater_hormann, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("aaa_rational", aaa_rational, [1.1, 0.4]),
    ("rgi_linear_track", rgi_linear_track, [0.4, 2.4, 1.9, 1.2]),
    ("rgi_cubic_table", rgi_cubic_table, [0.2, 0.1, 0.4]),
    ("interpn_methods", interpn_methods, [0.4, 0.9, 2.4, 1.2]),
    ("rect_bivariate", rect_bivariate, [1.4, 0.8, 1.1, 0.7]),
    ("rect_sphere", rect_sphere, [0.5, 0.8, 1.2, 2.7]),
    ("ndbspline_surface", ndbspline_surface, [1., 2.3, -0.7, 1.4]),
    ("lsq_surface", lsq_surface, [0.8, -1.2, 0.5]),
    ("griddata_stations", griddata_stations, [11., 12.5, 10.2, 14.1, 13., 12.]),
    ("clough_tocher", clough_tocher, [0.9, 1.7, 0.12]),
    ("rbf_interpolator", rbf_interpolator, [0.3, 1.2, 0.05, 0.25]),
    ("rbf_legacy", rbf_legacy, [1., 2.3, 1.7, 0.4, 0.9, 2.]),
    ("trapz_dx_axis", trapz_dx_axis, [0.5, 1.2, 3.]),
    ("trapz_moving_x", trapz_moving_x, [0.1, 0.5, 1.1, 1.8, 2.9, 3.6]),
    ("simpson_uniform", simpson_uniform, [1.5, 1.1]),
    ("simpson_irregular_even", simpson_irregular_even, [0.1, 0.5, 1.1, 1.8, 2.9, 3.6]),
    ("simpson_double", simpson_double, [1., 0.6, 0.9]),
    ("cumtrapz_velocity", cumtrapz_velocity, [0.2, 0.9, 1.4, 0.7, -0.3, -0.8, 0.1, 0.4]),
    ("cumtrapz_inverse_cdf", cumtrapz_inverse_cdf, [0.8, 1.3]),
    ("cumsimpson_phase", cumsimpson_phase, [0.3, 70.]),
    ("cumsimpson_axis", cumsimpson_axis, [0.5, 1.2, 3.]),
    ("romb_moments", romb_moments, [0.7, 2.8]),
    ("fixed_quad_arc", fixed_quad_arc, [2., 1.3, 0.2, 1.9]),
    ("newton_cotes_rules", newton_cotes_rules, [1., 1.6, 2.1, 1.4, 0.8]),
]

PACKAGE = "scipy"
cases = Cases()
for _, function, point in [*INTERPOLATION, *QUADRATURE]:
    cases(point)(function)
