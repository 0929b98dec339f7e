"""``scipy.interpolate`` with functions and classes that accept traced values.

Classes are second copies of SciPy's, with formulas in place of the compiled functions.  Objects that were made outside
of a derivative are converted where followed code finds them.
"""

import importlib as _importlib
import inspect as _inspect

import numpy as _np

import wengert.numpy as _numpy
from wengert import registry as _registry
from wengert.core.dispatch import dispatch as _dispatch
from wengert.core.frames import at as _at
from wengert.core.operands import var as _var
from wengert.errors import ConvergenceError as _ConvergenceError
from wengert.errors import UnsupportedFunctionError as _UnsupportedFunctionError
from wengert.rules.scipy import interpolate as _rules
from wengert.rules.scipy import splines as _spline_rules
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import copies as _copies
from wengert.scipy import linalg as _linalg
from wengert.scipy import namespace as _namespace
from wengert.scipy import objects as _objects
from wengert.scipy.sparse import linalg as _sparse_solvers
from wengert.scipy.standin import StandIn as _StandIn

_interpolate = _Functions("scipy.interpolate")
_copy = _copies.second_copy


def _gbsv(kl, ku, ab, b, **options):
    """Solve a banded system in LAPACK's storage, which has `kl` additional rows."""
    return None, None, _linalg.solve_banded((kl, ku), ab[kl:], b), 0


def _lapack(names, arrays=(), **options):
    return (
        (_gbsv,)
        if tuple(names) == ("gbsv",)
        else _importlib.import_module("scipy.linalg").get_lapack_funcs(names, arrays, **options)
    )


def _fitpack(name):
    """Copy a module that calls FITPACK, which is in C since SciPy 1.18."""
    original = vars(_importlib.import_module(f"scipy.interpolate.{name}"))
    kinds = {"_fitpack": _spline_rules.Fitpack, "dfitpack": _spline_rules.FortranFitpack}
    if "dfitpack" in original:
        kinds["_fitpack"] = _spline_rules.FortranFitpack
    return _copy(f"scipy.interpolate.{name}", **{x: kind(original[x]) for x, kind in kinds.items() if x in original})


_fitpack("_fitpack_impl")


class _InOrder:
    """Replaces the random generator that permutes factors in `BarycentricInterpolator`, only to avoid overflow."""

    def permutation(self, n):
        return _np.arange(n)


def _random_order(rng):
    return _InOrder() if rng is None else _importlib.import_module("scipy._lib._util").check_random_state(rng)


_polyint = _copy("scipy.interpolate._polyint", check_random_state=_random_order)
_barycentric = _polyint.BarycentricInterpolator
_barycentric.__init__ = _inspect.unwrap(_barycentric.__init__)
_quotient = _barycentric._evaluate


def _through_nodes(y, x, nodes, weights, values):
    """Return the values y of a barycentric interpolant at x, with its derivative where x is a node.

    SciPy takes the data there, which do not depend on x. Numerator and denominator are multiplied by ``x - node``.
    """
    rows, columns = _np.nonzero(x[:, None] == nodes)
    if not rows.size:
        return y
    apart = x[rows] - nodes[columns]
    between = x[rows][:, None] - nodes
    is_node = _np.arange(len(nodes)) == columns[:, None]
    others = _np.where(is_node, 0.0, weights / _np.where(is_node, 1.0, between))
    above = weights[columns][:, None] * values[columns] + apart[:, None] * (others @ values)
    below = weights[columns] + apart * _np.sum(others, axis=1)
    y[rows] = _namespace.with_value(above / below[:, None], _var.plain(values[columns]))
    return y


def _barycentric_value(self, x):
    return _through_nodes(_quotient(self, x), x, self.xi, self.wi, self.yi)


_barycentric._evaluate = _barycentric_value
_bsplines = _copy("scipy.interpolate._bsplines", _dierckx=_spline_rules.Splines, get_lapack_funcs=_lapack)
_fitpack_py = _copy("scipy.interpolate._fitpack_py")
_pieces = _copy(
    "scipy.interpolate._interpolate",
    _ppoly=_rules.PiecewisePolynomials,
    _ndim_coords_from_arrays=_rules.points_of,
)
_cubic = _copy("scipy.interpolate._cubic")
_splines = _fitpack("_fitpack2")
_grids = _copy(
    "scipy.interpolate._rgi",
    find_indices=_rules.grid_places,
    evaluate_linear_2d=_rules.bilinear,
    _ndim_coords_from_arrays=_rules.points_of,
)
_rbf = _copy("scipy.interpolate._rbf")
_radial = _copy("scipy.interpolate._rbfinterp", is_numpy=lambda namespace: False)
_kernels = _copy("scipy.interpolate._rbfinterp_xp")

#: kernels that are smooth at distance 0, as functions of the square of the distance, which is smooth there as well
_OF_SQUARES = {
    "multiquadric": lambda square: -_np.sqrt(square + 1.0),
    "inverse_multiquadric": lambda square: 1.0 / _np.sqrt(square + 1.0),
    "inverse_quadratic": lambda square: 1.0 / (square + 1.0),
    "gaussian": lambda square: _np.exp(-square),
}
_coefficients = _kernels._build_evaluation_coefficients


def _evaluation_coefficients(x, y, kernel, epsilon, powers, shift, scale, xp):
    if kernel not in _OF_SQUARES:
        return _coefficients(x, y, kernel, epsilon, powers, shift, scale, xp)
    square = _np.sum((x[:, None, :] * epsilon - y[None, :, :] * epsilon) ** 2, axis=-1)
    monomials = _np.prod(((x - shift) / scale)[:, None, :] ** powers, axis=-1)
    return _np.concatenate([_OF_SQUARES[kernel](square), monomials], axis=-1)


_kernels._build_evaluation_coefficients = _evaluation_coefficients
_copies = [_polyint, _bsplines, _fitpack_py, _pieces, _cubic, _splines, _grids]


def _scipy(name):
    return getattr(_importlib.import_module("scipy.interpolate"), name)


# ---- splines through data


def _plain(x):
    return _var.plain(x) if not isinstance(x, (list, tuple)) else _var.plain(_dispatch.stacked(x))


def _make_lsq_spline(x, y, t, k=3, w=None, axis=0, check_finite=True, *, method="qr"):
    x, y, t = (_np.asarray(z) if not _var.is_traced(z) else z for z in (x, y, t))
    spline = _importlib.import_module("scipy.interpolate").make_lsq_spline(
        *map(_var.plain, (x, y, t)), k, None if w is None else _var.plain(w), axis
    )
    y = _np.moveaxis(y, axis, 0)
    a = _spline_rules.design(t, k, x)
    scaled, right = (a, y) if w is None else (a * w[:, None], y * _np.reshape(w, (-1,) + (1,) * (_np.ndim(y) - 1)))
    flat = _np.reshape(right, (_np.shape(y)[0], -1))
    c = _np.reshape(_np.linalg.solve(scaled.T @ scaled, scaled.T @ flat), (-1, *_np.shape(y)[1:]))
    return _bsplines.BSpline.construct_fast(t, _namespace.with_value(c, spline.c), k, axis=spline.axis)


def _make_smoothing_spline(x, y, w=None, lam=None, *, axis=0):
    if lam is None:
        raise _UnsupportedFunctionError(
            "scipy.interpolate.make_smoothing_spline chooses lam= by iterations: pass a value of lam"
        )
    return _bsplines.make_smoothing_spline(x, y, w, lam, axis=axis)


def _chosen_knots(name):
    return _UnsupportedFunctionError(
        f"scipy.interpolate.{name} chooses knots by iterations: pass s=0 to interpolate, or use make_lsq_spline with "
        "knots, or make_smoothing_spline with lam"
    )


def _knots_of(x, k, t):
    """Return the knots t of a spline that SciPy found, as a function of x; inner knots of a fit are constant."""
    if not _var.holds_traced(x):
        return t
    plain = _np.asarray(_var.plain(x))
    if t[0] != plain[0] or t[-1] != plain[-1]:
        raise _UnsupportedFunctionError(
            f"scipy.interpolate has a derivative in the points x of splines between the first and the last of them only"
            f"{_at()}: leave out bbox=, xb=, xe=, ub= and ue="
        )
    if len(t) == len(x) + k + 1:
        return _namespace.with_value(_spline_rules.interpolating_knots(x, k), t)
    return _np.concatenate([_np.repeat(x[:1], k + 1), t[k + 1 : -k - 1], _np.repeat(x[-1:], k + 1)])


def _splrep(x, y, w=None, xb=None, xe=None, k=3, task=0, s=None, t=None, full_output=0, per=0, quiet=1):
    x, y, w = (_dispatch.from_list(z) for z in (x, y, w))
    if per or full_output or task == 1 or _var.holds_traced(t):
        raise _chosen_knots("splrep")
    (knots, value, _), _, ier, _ = _scipy("splrep")(
        _var.plain(x), _var.plain(y), None if w is None else _var.plain(w), xb, xe, k, task, s, t, True
    )
    if t is None and ier not in (-1, -2):  # neither an interpolating spline nor a polynomial
        raise _chosen_knots("splrep")
    knots = _knots_of(x, k, knots)
    c = _np.concatenate([_spline_rules.fitted(x, y, w, knots, k), _np.zeros(k + 1)])
    return knots, _namespace.with_value(c, value), k


def _splprep(x, w=None, u=None, ub=None, ue=None, k=3, task=0, s=None, t=None, full_output=0, **options):
    if s != 0 or full_output or task != 0 or w is not None or t is not None or options.get("per"):
        raise _chosen_knots("splprep")
    _check_ends("splprep", ub, ue)
    x = _dispatch.stacked([*x])
    (knots, value, _), places = _scipy("splprep")(_var.plain(x), u=None if u is None else _var.plain(u), k=k, s=0)
    if u is None:
        u = _namespace.with_value(_part_of_length(x), places)
    knots = _knots_of(u, k, knots)
    fits = [_spline_rules.fitted(u, y, None, knots, k) for y in x]
    c = [_namespace.with_value(fit, of_y) for fit, of_y in zip(fits, value, strict=True)]
    return [knots, c, k], u


def _make_splrep(x, y, *, w=None, xb=None, xe=None, k=3, s=0, t=None, nest=None, bc_type=None):
    if s != 0 or t is not None or bc_type not in (None, "not-a-knot"):
        raise _chosen_knots("make_splrep")
    _check_ends("make_splrep", xb, xe)
    return _bsplines.make_interp_spline(x, y, k=k)


def _make_splprep(x, *, w=None, u=None, ub=None, ue=None, k=3, s=0, t=None, nest=None, bc_type=None):
    if s != 0 or t is not None or bc_type not in (None, "not-a-knot"):
        raise _chosen_knots("make_splprep")
    _check_ends("make_splprep", ub, ue)
    x = _dispatch.stacked([*x])
    u = _part_of_length(x) if u is None else u
    return _bsplines.make_interp_spline(u, x, k=k, axis=1), u


def _part_of_length(x):
    """Return the cumulative chord lengths of the points x, divided by the total length."""
    length = _np.cumsum(_np.sqrt(_np.sum(_np.diff(x) ** 2, axis=0)))
    return _np.concatenate([_np.zeros(1), length]) / length[-1]


def _check_ends(name, *ends):
    if any(end is not None for end in ends):
        raise _UnsupportedFunctionError(
            f"scipy.interpolate.{name} has a derivative between the first and the last point only{_at()}: leave out "
            "the ends of the interval"
        )


def _sproot(tck, mest=10):
    t, c, k = tck
    if k != 3:
        raise ValueError("sproot works only for cubic (k=3) splines")
    if isinstance(c, (list, tuple)):
        return [_sproot((t, of_y, k)) for of_y in c]
    found = PPoly.from_spline((t, c, k)).roots(discontinuity=False, extrapolate=False)
    value = _namespace.computed(lambda t, c: _scipy("sproot")((t, c, 3), mest), t, c)
    return _namespace.with_value(found, value) if _np.shape(found) == _np.shape(value) else found


def _lagrange(x, w):
    """``lagrange`` that keeps leading zero coefficients, unlike SciPy, since their derivatives may be nonzero."""
    x, w = (_dispatch.from_list(z) for z in (x, w))
    value = _scipy("lagrange")(_var.plain(x), _var.plain(w)).c
    found = _rules.lagrange_coefficients(x, w)
    rest = _np.zeros(len(found) - len(value))
    return _numpy.poly1d(_namespace.with_value(found, _np.concatenate([rest, value])))


_bodies = {
    "lagrange": _lagrange,
    "make_lsq_spline": _make_lsq_spline,
    "make_smoothing_spline": _make_smoothing_spline,
    "make_splprep": _make_splprep,
    "make_splrep": _make_splrep,
    "splprep": _splprep,
    "splrep": _splrep,
    "sproot": _sproot,
    **{
        name: _inspect.unwrap(getattr(next(copy for copy in _copies if hasattr(copy, name)), name))
        for name in (
            "approximate_taylor_polynomial barycentric_interpolate interpn krogh_interpolate "
            "make_interp_spline pchip_interpolate spalde splantider splder splev splint bisplev insert"
        ).split()
    },
}
for _name, _body in _bodies.items():
    if not _interpolate.has(_name):
        continue
    _registry.composed(getattr(_interpolate, _name), _body)

_KNOTS = "it chooses knots by iterations; use make_interp_spline, or make_lsq_spline with knots"
for _name in "bisplrep generate_knots".split():
    if _interpolate.has(_name):
        _registry.refuse(getattr(_interpolate, _name), _KNOTS)
_registry.composed(_interpolate.pade, _copy("scipy.interpolate._pade").pade)

# ---- classes


class NdBSpline(_StandIn):
    __doc__ = _scipy("NdBSpline").__doc__

    def __init__(self, t, c, k, *, extrapolate=None):
        c = _dispatch.from_list(c)
        self._fill(_scipy("NdBSpline")(t, _var.plain(c), k, extrapolate=extrapolate), c)

    def _fill(self, spline, c):
        self._plain, self.t, self.k, self.c = spline, spline.t, spline.k, c
        return self

    @classmethod
    def _of(cls, spline, c=None):
        """Return the differentiable version of a spline made by SciPy."""
        return object.__new__(cls)._fill(spline, spline.c if c is None else c)

    def __call__(self, xi, *, nu=None, extrapolate=None):
        xi = _rules.points_of(xi, len(self.t))
        orders = [0] * len(self.t) if nu is None else [int(n) for n in nu]
        flat = _np.reshape(xi, (-1, _np.shape(xi)[-1]))
        y = _spline_rules.tensor_values(self.t, self.k, self.c, flat, orders)
        y = _np.reshape(y, _np.shape(xi)[:-1] + _np.shape(y)[1:])

        def values(xi, c):
            spline = _scipy("NdBSpline")(self.t, c, self.k, extrapolate=self._plain.extrapolate)
            return spline(xi, nu=nu, extrapolate=extrapolate)

        value = _namespace.computed(values, xi, self.c)
        return _namespace.with_value(_np.where(_np.isnan(value), _np.nan, y), value)


def _make_ndbspl(points, values, k=3, **options):
    """Interpolate along each axis in turn; SciPy solves all equations at once, by default iteratively."""
    solver = options.get("solver")
    if solver is not None and solver is vars(_sparse_solvers).get(solver.__name__):
        options["solver"] = solver.__wrapped__  # SciPy compares it with its own function to choose further options
    made = _grids_of_scipy.make_ndbspl(points, _var.plain(values), k, **options)
    if not _var.is_traced(values):
        return NdBSpline._of(made)
    c = _spline_rules.tensor_coefficients(made.t, made.k, points, values)
    exact = _np.asarray(_var.plain(c))
    error = _np.max(_np.abs(made.c - exact)) / _np.max(_np.abs(exact))
    if error > 1e-10:  # SciPy's spline is another function of the values than the interpolating one
        raise _ConvergenceError(
            f"scipy.interpolate.RegularGridInterpolator solves for its spline iteratively, and the error {error:.0e} "
            f"has no derivative{_at()}: pass solver=scipy.sparse.linalg.spsolve"
        )
    return NdBSpline._of(made, _namespace.with_value(c, made.c))


def _find_out_of_bounds(self, xi):
    beyond = _np.zeros(_np.shape(xi)[1], dtype=bool)
    for x, grid in zip(xi, self._grid, strict=True):
        beyond = beyond | (x < grid[0]) | (x > grid[-1])
    return beyond


_grids.RegularGridInterpolator._find_out_of_bounds = _find_out_of_bounds
_grids_of_scipy = _importlib.import_module("scipy.interpolate._rgi")
if hasattr(_grids, "make_ndbspl"):
    _grids.make_ndbspl = _make_ndbspl
    _objects.register_conversion(_scipy("NdBSpline"), NdBSpline._of)


class InterpolatedUnivariateSpline(_splines.InterpolatedUnivariateSpline):
    __doc__ = _splines.InterpolatedUnivariateSpline.__doc__

    def __init__(self, x, y, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        _fill_spline(self, "InterpolatedUnivariateSpline", x, y, w, {"bbox": list(bbox), "k": k, "ext": ext})


class LSQUnivariateSpline(_splines.LSQUnivariateSpline):
    __doc__ = _splines.LSQUnivariateSpline.__doc__

    def __init__(self, x, y, t, w=None, bbox=(None, None), k=3, ext=0, check_finite=False):
        _fill_spline(self, "LSQUnivariateSpline", x, y, w, {"t": t, "bbox": list(bbox), "k": k, "ext": ext})


class UnivariateSpline(_splines.UnivariateSpline):
    __doc__ = _splines.UnivariateSpline.__doc__

    def __init__(self, x, y, w=None, bbox=(None, None), k=3, s=None, ext=0, check_finite=False):
        _fill_spline(self, "UnivariateSpline", x, y, w, {"bbox": list(bbox), "k": k, "s": s, "ext": ext})


def _fill_spline(spline, name, x, y, w, options):
    """Initialise a spline from SciPy's spline of the plain data; its knots and coefficients are traced."""
    x, y, w = (_dispatch.from_list(z) for z in (x, y, w))
    if _var.holds_traced(options.get("t")):
        raise _UnsupportedFunctionError(
            f"scipy.interpolate.{name} has no derivative in its knots: use make_lsq_spline(x, y, t)"
        )
    made = _scipy(name)(_var.plain(x), _var.plain(y), w=None if w is None else _var.plain(w), **options)
    vars(spline).update(vars(_objects.recast(made)))
    spline.__class__ = getattr(_splines, type(made).__name__)
    if _var.holds_traced((x, y, w)):
        t, c, k = made._eval_args
        if name == "UnivariateSpline" and made._data[-1] not in (-1, -2):
            raise _chosen_knots(name)
        t = _knots_of(x, k, t)
        found = _spline_rules.fitted(x, y, w, t, k)
        found = _namespace.with_value(_np.concatenate([found, _np.zeros(len(c) - len(found))]), c)
        spline._eval_args = t, found, k
        spline._data = (x, y, *spline._data[2:8], t, found, *spline._data[10:])


def _roots(self):
    if self._eval_args[2] != 3:
        raise NotImplementedError("finding roots unsupported for non-cubic splines")
    return _sproot(self._eval_args)


_splines.UnivariateSpline.roots = _roots


class RectBivariateSpline(_splines.RectBivariateSpline):
    __doc__ = _splines.RectBivariateSpline.__doc__

    def __init__(self, x, y, z, bbox=(None,) * 4, kx=3, ky=3, s=0, **options):
        if _var.holds_traced((x, y)) or (s != 0 and _var.is_traced(z)):
            raise _UnsupportedFunctionError(
                "scipy.interpolate.RectBivariateSpline has a derivative in the values z only, and with s=0"
            )
        made = _scipy("RectBivariateSpline")(x, y, _var.plain(z), list(bbox), kx, ky, s, **options)
        vars(self).update(vars(_objects.recast(made)))
        if _var.is_traced(z):
            tx, ty, c = made.tck
            found = _spline_rules.tensor_coefficients((tx, ty), made.degrees, (_np.asarray(x), _np.asarray(y)), z)
            self.tck = tx, ty, _namespace.with_value(_np.ravel(found), c)


_grids.RectBivariateSpline = RectBivariateSpline


class _FittedSurface:
    """A surface fitted by least squares, with plain points and knots."""

    def __init__(self, x, y, z, *args, **options):
        name = type(self).__name__
        w = _inspect.signature(_scipy(name)).bind(x, y, z, *args, **options).arguments.get("w")
        if _var.holds_traced((x, y, args, w)):
            raise _UnsupportedFunctionError(f"scipy.interpolate.{name} has a derivative in the values z only")
        z = _dispatch.from_list(z)
        made = _scipy(name)(x, y, _var.plain(z), *args, **options)
        vars(self).update(vars(_objects.recast(made)))
        if _var.is_traced(z):
            (tx, ty, c), (kx, ky) = made.tck, made.degrees
            if name == "SmoothBivariateSpline" and (len(tx), len(ty)) != (2 * kx + 2, 2 * ky + 2):
                raise _UnsupportedFunctionError(
                    f"scipy.interpolate.{name} chooses knots by iterations: use LSQBivariateSpline with knots, or "
                    "RBFInterpolator with smoothing="
                )
            parts = _spline_rules.design(tx, kx, _np.asarray(x)), _spline_rules.design(ty, ky, _np.asarray(y))
            a = _np.reshape(parts[0][:, :, None] * parts[1][:, None, :], (len(x), -1))
            a, z = (a, z) if w is None else (a * _np.asarray(w)[:, None], z * w)
            self.tck = tx, ty, _namespace.with_value(_np.linalg.pinv(a) @ z, c)


class LSQBivariateSpline(_FittedSurface, _splines.LSQBivariateSpline):
    __doc__ = _splines.LSQBivariateSpline.__doc__


class SmoothBivariateSpline(_FittedSurface, _splines.SmoothBivariateSpline):
    __doc__ = _splines.SmoothBivariateSpline.__doc__


for _name, _remedy in {
    "AAA": "it chooses support points one by one; use FloaterHormannInterpolator",
    "LSQSphereBivariateSpline": "use RBFInterpolator of points on the sphere",
    "RectSphereBivariateSpline": "use RectBivariateSpline of the grid, continued around the sphere",
    "SmoothSphereBivariateSpline": "use RBFInterpolator of points on the sphere",
}.items():
    if _interpolate.has(_name):
        globals()[_name] = _namespace.refusing_class(_scipy(_name), _remedy)


class RBFInterpolator(_radial.RBFInterpolator):
    __doc__ = _radial.RBFInterpolator.__doc__

    def __init__(self, y, d, neighbors=None, smoothing=0.0, kernel="thin_plate_spline", epsilon=None, degree=None):
        options = {"neighbors": neighbors, "kernel": kernel, "degree": degree}
        self._local = None
        if neighbors is not None:
            if _var.holds_traced(y):
                raise _UnsupportedFunctionError(
                    "scipy.interpolate.RBFInterpolator with neighbors= has no derivative in the points: leave it out"
                )
            own = {"kernel": kernel, "epsilon": epsilon, "degree": degree}
            self._local = y, _numpy.asarray(d), neighbors, own, smoothing
        else:
            with _np.errstate(divide="ignore", invalid="ignore"):  # logarithms at distance 0, which SciPy leaves out
                super().__init__(y, d, smoothing=smoothing, epsilon=epsilon, **options)
        plain = [_plain(z) for z in (y, d, smoothing, epsilon)]
        self._plain = _scipy("RBFInterpolator")(plain[0], plain[1], smoothing=plain[2], epsilon=plain[3], **options)

    def __call__(self, x):
        with _np.errstate(divide="ignore", invalid="ignore"):
            found = super().__call__(x) if self._local is None else self._from_neighbours(_numpy.asarray(x))
        return _namespace.with_value(found, self._plain(_plain(x)))

    def _from_neighbours(self, x):
        """Interpolate at each point from its nearest data points."""
        points, values, count, options, smoothing = self._local
        places = _namespace.computed(lambda x: self._plain._tree.query(x, count)[1], x)
        found = []
        for i, near in enumerate(_np.sort(_np.reshape(places, (-1, count)), axis=1)):
            own = smoothing if _np.ndim(smoothing) == 0 else smoothing[near]
            found.append(RBFInterpolator(points[near], values[near], None, own, **options)(x[i : i + 1]))
        return _np.concatenate(found)


def _radial_like(spline):
    """Convert an interpolator made by SciPy."""
    data = _np.reshape(spline.d, (-1, *spline.d_shape))
    degree = -1 if len(spline.powers) == 0 else int(_np.max(_np.sum(spline.powers, axis=1)))
    options = spline.neighbors, spline.smoothing, spline.kernel, spline.epsilon, degree
    return RBFInterpolator(spline.y, data, *options)


Rbf = _rbf.Rbf


class _Triangulated(_StandIn):
    """Interpolation in the simplices of plain points; a query outside of all gets the fill value."""

    def __init__(self, points, values, fill_value=_np.nan, rescale=False, **options):
        name = type(self).__name__
        if _var.holds_traced((points,)):
            raise _UnsupportedFunctionError(
                f"scipy.interpolate.{name} has a derivative in the values and in the query points only"
            )
        values = _dispatch.from_list(values)
        self.values, self.fill_value = values, fill_value
        self._plain = _scipy(name)(points, _var.plain(values), fill_value, rescale=rescale, **options)
        self.tri = self._plain.tri
        self._offset, self._scale = (self._plain.offset, self._plain.scale) if rescale else (0.0, 1.0)

    def __call__(self, *args):
        xi = _rules.points_of(args if len(args) > 1 else args[0], self.tri.points.shape[1])
        flat = (_np.reshape(xi, (-1, _np.shape(xi)[-1])) - self._offset) / self._scale
        simplex = _namespace.computed(self.tri.find_simplex, flat)
        n = self.tri.points.shape[1]
        transform = self.tri.transform[simplex]
        part = _np.sum(transform[:, :n] * (flat - transform[:, n])[:, None, :], axis=-1)
        weights = _np.concatenate([part, 1 - _np.sum(part, axis=-1, keepdims=True)], axis=-1)
        columns = _np.reshape(self.values, (_np.shape(self.values)[0], -1))
        y = self._within(simplex, weights, columns)
        y = _np.where((simplex < 0)[:, None], self.fill_value, y)
        y = _np.reshape(y, _np.shape(xi)[:-1] + _np.shape(self.values)[1:])
        return _namespace.with_value(y, self._plain(_var.plain(args if len(args) > 1 else args[0])))


class LinearNDInterpolator(_Triangulated):
    """``scipy.interpolate.LinearNDInterpolator`` of plain points."""

    def _within(self, simplex, weights, columns):
        return _np.sum(weights[:, :, None] * columns[self.tri.simplices[simplex]], axis=1)


class CloughTocher2DInterpolator(_Triangulated):
    """``scipy.interpolate.CloughTocher2DInterpolator`` of plain points; gradients solve linear equations."""

    def __init__(self, points, values, fill_value=_np.nan, tol=1e-6, maxiter=400, rescale=False):
        super().__init__(points, values, fill_value, rescale, tol=tol, maxiter=maxiter)
        columns = _np.reshape(self.values, (_np.shape(self.values)[0], -1))
        self._gradients = self._plain.grad
        if _var.holds_traced(self.values):
            found = _rules.gradients(self.tri.points, *self.tri.vertex_neighbor_vertices, columns)
            self._gradients = _namespace.with_value(found, self._plain.grad)

    def _within(self, simplex, weights, columns):
        corners = self.tri.simplices[simplex]
        places = _np.swapaxes(corners, 0, 1)
        points, ratios = self.tri.points[corners], _rules.ratios(self.tri, simplex)
        return _rules.clough_tocher(points, ratios, _np.transpose(weights), columns[places], self._gradients[places])


class NearestNDInterpolator(_StandIn):
    """``scipy.interpolate.NearestNDInterpolator``: the value at the nearest of plain points."""

    def __init__(self, x, y, rescale=False, tree_options=None):
        x, self.values = _dispatch.from_list(x), _dispatch.from_list(y)
        places = _np.arange(len(self.values))
        self._places = _scipy("NearestNDInterpolator")(_var.observed(x), places, rescale, tree_options)

    def __call__(self, *args, **options):
        found = _namespace.computed(lambda *args: self._places(*args, **options).astype(int), *args)
        return self.values[found]


def _griddata(points, values, xi, method="linear", fill_value=_np.nan, rescale=False):
    points = _rules.points_of(points)
    if _np.shape(points)[-1] == 1 and method in ("nearest", "linear", "cubic"):
        order = _np.argsort(points[:, 0])
        xi = xi[0] if isinstance(xi, tuple) else xi
        fill = {"fill_value": "extrapolate" if method == "nearest" else fill_value}
        return interp1d(points[order, 0], values[order], kind=method, axis=0, bounds_error=False, **fill)(xi)
    if method == "nearest":
        return NearestNDInterpolator(points, values, rescale)(xi)
    if method == "linear":
        return LinearNDInterpolator(points, values, fill_value, rescale)(xi)
    return CloughTocher2DInterpolator(points, values, fill_value, rescale=rescale)(xi)


_registry.composed(_interpolate.griddata, _griddata)
_objects.register_conversion(_scipy("RBFInterpolator"), _radial_like)


def _triangulated_like(x):
    """Convert an interpolator made by SciPy."""
    is_scaled = x.scale is not None
    points = x.tri.points * x.scale + x.offset if is_scaled else x.tri.points
    values = _np.reshape(x.values, (len(x.tri.points), *x.values_shape)) if hasattr(x, "values_shape") else x.values
    return globals()[type(x).__name__](points, values, x.fill_value, is_scaled)


_objects.register_conversion(_scipy("LinearNDInterpolator"), _triangulated_like)
_objects.register_conversion(_scipy("CloughTocher2DInterpolator"), _triangulated_like)


PPoly, BPoly, NdPPoly, interp1d = _pieces.PPoly, _pieces.BPoly, _pieces.NdPPoly, _pieces.interp1d
BSpline = _bsplines.BSpline
CubicSpline, CubicHermiteSpline = _cubic.CubicSpline, _cubic.CubicHermiteSpline
PchipInterpolator, Akima1DInterpolator = _cubic.PchipInterpolator, _cubic.Akima1DInterpolator
BarycentricInterpolator, KroghInterpolator = _polyint.BarycentricInterpolator, _polyint.KroghInterpolator
if _interpolate.has("FloaterHormannInterpolator"):
    FloaterHormannInterpolator = _copy("scipy.interpolate._bary_rational").FloaterHormannInterpolator
    _rational = FloaterHormannInterpolator.__call__

    def _rational_value(self, z):
        z = _numpy.asarray(z)
        y = _rational(self, z)
        y = _np.moveaxis(y, self._axis, 0) if z.ndim else y
        nodes, weights, values = self._support_points, self.weights, self._support_values
        flat, values = _np.reshape(y, (z.size, -1)), _np.reshape(values, (len(nodes), -1))
        y = _np.reshape(_through_nodes(flat, _np.ravel(z), nodes, weights, values), _np.shape(y))
        return _np.moveaxis(y, 0, self._axis) if z.ndim else y

    FloaterHormannInterpolator.__call__ = _rational_value
RegularGridInterpolator = _grids.RegularGridInterpolator

_objects.register_objects(
    *[
        f"scipy.interpolate.{name}"
        for name in (
            "PPoly BPoly NdPPoly interp1d BSpline CubicSpline CubicHermiteSpline PchipInterpolator Akima1DInterpolator "
            "BarycentricInterpolator KroghInterpolator RegularGridInterpolator UnivariateSpline "
            "InterpolatedUnivariateSpline LSQUnivariateSpline RectBivariateSpline SmoothBivariateSpline "
            "LSQBivariateSpline"
        ).split()
    ]
)

#: classes without a rule, which refuse traced data themselves
_PLAIN = frozenset("BivariateSpline interp2d".split())

_namespace.install("interpolate")
