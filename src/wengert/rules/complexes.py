"""Complex operands: which rules hold for them unchanged, and separate rules where they do not.

A rule for real operands holds if the function is analytic in each operand and the rule compares no values, takes no
signs or absolute values, and is accurate off the real axis.
Rules of linear algebra that use conjugate transposes also hold unchanged (`complex_matrices`).
The tangent of a function that is not analytic is linear over the reals only: real and imaginary parts and conjugation
apply to the tangent, and the chain rule covers absolute values and angles.
Each such rule has a pullback next to it, its adjoint in the pairing Re(sum(conj(a) b)).
On a branch cut the derivative belongs to the side of the value, which the sign of a zero part selects.
"""

from __future__ import annotations

import numpy as np

from wengert.features import has_cumulative, has_matvec
from wengert.registry import analytic, composed, conjugated, elementwise, facts, on_complex, rows, strong, ufunc_methods
from wengert.rules import einsum, interpolation, kronecker, polynomials, reductions, shaping  # noqa: F401  (declares rows)
from wengert.rules.broadcasting import aligned, conjugate
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.elementwise import gap_of, gap_over_nan, power_wrt_base, power_wrt_exponent, sinc_partial, tie_share
from wengert.rules.histograms import weighted_counts
from wengert.rules.products import (
    push_vdot,
    push_vecdot,
    push_vecmat_matrix,
    push_vecmat_vector,
    vdot_wrt,
    vecdot_wrt,
    vecmat_wrt_matrix,
    vecmat_wrt_vector,
)
from wengert.rules.taylor import COEFFICIENTWISE
from wengert.rules.ufuncs import scatter_add, sums_of_segments

# ---- parts of complex scalars

facts(np.positive, complex_parts="same")
facts(np.negative, complex_parts="negative")
facts(np.conjugate, complex_parts="conjugate")
facts(np.add, complex_parts="sum")
facts(np.subtract, complex_parts="difference")
facts(np.multiply, complex_parts="product")
facts(np.divide, complex_parts="quotient")
facts(np.square, complex_parts="square")
facts(np.power, complex_parts="power")
facts(np.exp, complex_parts="exponential")
facts(np.absolute, complex_parts="absolute")

# ---- rules that hold unchanged

analytic(np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.reciprocal, np.square, np.where)
analytic(np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p)
analytic(np.sin, np.cos, np.sinh, np.cosh)
analytic(np.sum, np.mean, np.prod, np.cumsum, np.cumprod, np.diff, np.trace, np.linalg.trace)
analytic(np.matmul, np.dot, np.inner, np.outer, np.linalg.outer, np.tensordot, np.einsum, np.kron)
analytic(np.cross, np.linalg.cross)
analytic(np.concatenate, np.stack, np.append, np.insert, np.compress, np.extract, np.pad)
analytic(np.block, np.copyto, np.fill_diagonal, np.meshgrid, np.broadcast_arrays, np.select, np.polyval)
analytic(np.atleast_1d, np.atleast_2d, np.atleast_3d)
analytic(np.nansum, np.nanmean, np.nanprod, np.nancumsum, np.nancumprod, np.average, np.trapezoid)
analytic(scatter_add, sums_of_segments)
analytic(np.interp, np.convolve, np.gradient, np.ediff1d, np.piecewise, np.trim_zeros, np.cov, np.roots)
analytic(np.polyadd, np.polysub, np.polymul, np.polydiv, np.polyder, np.polyint, np.polyfit, np.vander)
# NumPy orders complex values by real part, then by imaginary part
analytic(np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin, np.ptp, np.median, np.nanmedian, np.clip)
analytic(np.sort, np.partition, np.unique, np.union1d)
analytic(np.nan_to_num, np.nanvar, np.nanstd, np.corrcoef, np.poly)
analytic(weighted_counts, np.histogram, np.histogram2d, np.histogramdd)
analytic(np.put, np.putmask, np.place, np.put_along_axis, np.choose, np.apply_along_axis, np.apply_over_axes)
analytic(*[body for body in ufunc_methods.values() if body in rows and rows[body].kind == "composed"])

if has_cumulative:
    analytic(np.cumulative_sum, np.cumulative_prod)
if np.linalg.tensordot is not np.tensordot:
    analytic(np.linalg.tensordot)
if np.linalg.matmul is not np.matmul:
    analytic(np.linalg.matmul)

# ---- analytic functions with separate partials off the real axis


def on_complex_by_partials(fun, *partials):
    """Declare the partials of an analytic function for complex operands, one per operand."""

    def push(i, partial):
        return lambda t, y, *args: strong(aligned(t, args[i], np.ndim(y)), partial(y, *args))

    def pull(partial):
        return lambda ybar, y, *args: strong(ybar, np.conj(partial(y, *args)))

    on_complex(fun, *[push(i, partial) for i, partial in enumerate(partials)], vjp=tuple(map(pull, partials)))


def inverse_square(z):
    """Return 1 / z^2, and 0 where z overflowed."""
    return np.where(np.isinf(z), 0, np.square(1 / z))


def one_minus(z):
    """Return 1 - z, with the correct sign of a zero imaginary part."""
    return -(z - 1)


def arcsin_slope(z):
    """1 / sqrt(1 - z^2) as 1 / (sqrt(1 - z) sqrt(1 + z)): each root is continuous off its own branch cut."""
    return 1 / (np.sqrt(one_minus(z)) * np.sqrt(one_minus(-z)))


def times_i(z):
    """Return i z without rounding."""
    w = np.empty_like(z)
    w.real, w.imag = -z.imag, z.real
    return w


on_complex_by_partials(np.tan, lambda y, x: inverse_square(np.cos(x)))
on_complex_by_partials(np.tanh, lambda y, x: inverse_square(np.cosh(x)))
on_complex_by_partials(np.arcsin, lambda y, x: arcsin_slope(x))
on_complex_by_partials(np.arccos, lambda y, x: -arcsin_slope(x))
on_complex_by_partials(np.arctan, lambda y, x: 1 / ((x - 1j) * (x + 1j)))
on_complex_by_partials(np.arcsinh, lambda y, x: arcsin_slope(times_i(x)))
on_complex_by_partials(np.arccosh, lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(one_minus(-x))))
on_complex_by_partials(np.arctanh, lambda y, x: 1 / (one_minus(x) * one_minus(-x)))


def as_complex(y, *operands):
    """Convert operands to the dtype of the result: a negative real base has a complex logarithm."""
    return [as_array(x).astype(y.dtype) for x in operands]


for fun in (np.power, np.float_power):
    on_complex_by_partials(
        fun,
        lambda y, a, b: power_wrt_base(y, *as_complex(y, a, b)),
        lambda y, a, b: power_wrt_exponent(y, *as_complex(y, a, b)),
    )


def lexicographic_gap(a, b):
    """Return a - b in the part that decides NumPy's order of complex values: real parts, in a tie imaginary parts."""
    a, b = as_array(a), as_array(b)
    return np.where(a.real == b.real, gap_of(a.imag, b.imag), gap_of(a.real, b.real))


def nan_where_nan(gap, a, b):
    """Return `gap`, and NaN where a real or imaginary part of an operand is NaN."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, gap)


for fun, gap in (
    (np.maximum, lambda a, b: nan_where_nan(lexicographic_gap(a, b), a, b)),
    (np.minimum, lambda a, b: nan_where_nan(lexicographic_gap(b, a), a, b)),
    (np.fmax, lambda a, b: gap_over_nan(lexicographic_gap(a, b), a, b)),
    (np.fmin, lambda a, b: gap_over_nan(lexicographic_gap(b, a), a, b)),
):
    on_complex_by_partials(
        fun, lambda y, a, b, gap=gap: tie_share(gap(a, b)), lambda y, a, b, gap=gap: 1 - tie_share(gap(a, b))
    )

on_complex_by_partials(np.sinc, lambda y, x: sinc_partial(y, x, lambda z: z.real**2 + z.imag**2))


# ---- rules with conjugates

conjugated(np.var, np.std)

# ---- functions that are linear over the reals only


def phase_of(y, x):
    """Return x / |x|, where y is |x|; 0 at the origin."""
    return np.where(y == 0, 0, x / y)


@dispatched
def unit(z):
    """``numpy.sign`` of complex arrays: z / |z|."""
    return np.sign(z)


def sign_angle_slope(y, z):
    """Return i y / |z|, the derivative of y = z / |z| in the angle, divided by |z|; 0 at the origin."""
    return np.where(z == 0, 0, 1j * y / np.where(z == 0, 1, np.abs(z)))


elementwise(unit, 0.0)
on_complex(
    unit,
    lambda t, y, z: strong(strong(t, np.conj(1j * y)).real, sign_angle_slope(y, z)),
    vjp=(lambda ybar, y, z: 1j * y * strong(ybar, np.conj(sign_angle_slope(y, z))).real,),
)
on_complex(np.conjugate, lambda t, y, x: np.conj(t), vjp=(lambda ybar, y, x: np.conj(ybar),))
on_complex(
    np.absolute,
    lambda t, y, x: strong(t, np.conj(phase_of(y, x))).real,
    vjp=(lambda ybar, y, x: strong(ybar, phase_of(y, x)),),
)
on_complex(
    np.vdot,
    lambda t, y, a, b: push_vdot(np.conj(t), a, b),
    lambda t, y, a, b: push_vdot(t, b, np.conj(a)),
    vjp=(lambda ybar, y, a, b: vdot_wrt(np.conj(ybar), a, b), lambda ybar, y, a, b: vdot_wrt(ybar, b, a)),
)
for fun in {np.vecdot, np.linalg.vecdot}:
    on_complex(
        fun,
        lambda t, y, x1, x2, *, axis=-1: push_vecdot(np.conj(t), y, x1, x2, axis),
        lambda t, y, x1, x2, *, axis=-1: push_vecdot(t, y, x2, np.conj(x1), axis),
        vjp=(
            lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(np.conj(ybar), y, x1, x2, axis),
            lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(ybar, y, x2, x1, axis),
        ),
    )
correlation = rows[np.correlate]
on_complex(  # linear in the first operand and in the conjugate of the second
    np.correlate,
    lambda t, y, a, v, mode="valid": correlation.jvps[0](t, y, a, conjugate(v), mode),
    lambda t, y, a, v, mode="valid": correlation.jvps[1](np.conj(t), y, a, v, mode),
    vjp=(
        lambda ybar, y, a, v, mode="valid": np.conj(correlation.vjps[0](np.conj(ybar), y, a, conjugate(v), mode)),
        lambda ybar, y, a, v, mode="valid": correlation.vjps[1](np.conj(ybar), y, a, v, mode),
    ),
)
if has_matvec:
    analytic(np.matvec)
    on_complex(
        np.vecmat,
        lambda t, y, v, a, out=None: push_vecmat_vector(np.conj(t), y, v, a),
        lambda t, y, v, a, out=None: push_vecmat_matrix(t, y, np.conj(v), a),
        vjp=(
            lambda ybar, y, v, a, out=None: vecmat_wrt_vector(np.conj(ybar), y, v, a),
            lambda ybar, y, v, a, out=None: vecmat_wrt_matrix(ybar, y, v, a),
        ),
    )


@locally_constant
def angle_of_reals(z, deg=False):
    """Return the angle of real values, 0 or pi: a separate function, as its derivative is zero."""
    return np.angle(z, deg)


@composed(np.angle)
def _angle(z, deg=False):
    z = as_array(z)
    if z.dtype.kind != "c":
        return angle_of_reals(z, deg)
    angle = np.arctan2(z.imag, z.real)
    return angle * (180 / np.pi) if deg else angle


@composed(np.real_if_close)
def _real_if_close(a, tol=100):
    a = as_array(a)
    if a.dtype.kind != "c":
        return a if np.ndim(a) or isinstance(a, np.ndarray) else np.copy(a)  # NumPy returns a 0-d array for a scalar
    tol = np.finfo(a.dtype).eps * tol if tol > 1 else tol
    return a.real if np.all(np.absolute(a.imag) < tol) else a


@composed(np.sort_complex)
def _sort_complex(a):
    a = np.sort(as_array(a))
    return a if a.dtype.kind == "c" else a.astype(complex)


composed(np.real, lambda val: as_array(val).real, taylor=COEFFICIENTWISE)
composed(np.imag, lambda val: as_array(val).imag, taylor=COEFFICIENTWISE)
analytic(np.real, np.imag, np.angle, np.real_if_close, np.sort_complex)
