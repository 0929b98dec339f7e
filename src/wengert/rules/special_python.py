"""Functions of ``scipy.special`` written in Python, which do not dispatch on their operands.

In user code their names are therefore bound to proxies that do (`wengert.scipy.special`).
Values are SciPy's; parts that are not elementary are functions with rows of their own.
"""

from __future__ import annotations

import numpy as np

from wengert.dependence import Along, Reduced
from wengert.errors import UnsupportedFunctionError
from wengert.registry import analytic, composed, elementwise, facts, refuse, strong, structural
from wengert.rules.composed import as_array, as_dtype, dispatched, locally_constant
from wengert.rules.shapes import from_end
from wengert.rules.special import sp
from wengert.rules.transcendental import lower_degree

# ---- logarithms of sums of exponentials


@locally_constant
def peak(a, axis):
    """Return the maximum (0 if not finite) as a constant by which exponentials are scaled; it cancels in quotients."""
    top = np.max(a, axis=axis, keepdims=True, initial=-np.inf)
    return np.where(np.isfinite(top), top, 0.0)


facts(peak, scalars="finite maximum")


@dispatched
def log_sum(a, b, axis):
    """Return log(abs(sum(b * exp(a))))."""
    return sp.logsumexp(a, axis=axis, b=b, return_sign=True)[0]


@locally_constant
def sign_of_sum(a, b, axis):
    return sp.logsumexp(a, axis=axis, b=b, return_sign=True)[1]


def exponentials(a, b, axis):
    """Return exp(a) and the sum of b exp(a) along the axes, scaled by the maximum over elements with nonzero `b`."""
    e = np.exp(a - peak(np.where(np.equal(b, 0), -np.inf, a), axis))
    return e, np.sum(strong(b, e), axis=axis, keepdims=True)


def share(a, b, axis):
    e, total = exponentials(a, b, axis)
    return strong(b, e) / total


def share_by_factor(a, b, axis):
    e, total = exponentials(a, b, axis)
    return e / total


def log_sum_taylor(series, order, a, b, axis):
    total = exponentials(a, b, axis)[1]
    rest = np.log(np.abs(total)).c[1:] if series.is_series(total) else []
    y = log_sum(series.value(a), series.value(b), axis)
    return series([y, *[np.reshape(x, np.shape(y)) for x in rest]])


structural(
    log_sum,
    lambda ybar, y, a, b, axis: strong(np.expand_dims(ybar, axis), share(a, b, axis)),
    lambda ybar, y, a, b, axis: strong(np.expand_dims(ybar, axis), share_by_factor(a, b, axis)),
    jvp=(
        lambda t, y, a, b, axis: np.sum(strong(t, share(a, b, axis)), axis=axis),
        lambda t, y, a, b, axis: np.sum(strong(t, share_by_factor(a, b, axis)), axis=axis),
    ),
)
facts(log_sum, dependence=Reduced(2), scalars="log sum exp", taylor=log_sum_taylor)


@composed("scipy.special.logsumexp")
def _logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    a = as_array(a)
    is_positive = b is None and not np.iscomplexobj(a)
    a, b = np.broadcast_arrays(a, np.ones_like(a) if b is None else as_array(b))
    if np.ndim(a) == 0:  # SciPy reduces an array of one element
        a, b, axis = np.reshape(a, 1), np.reshape(b, 1), None
    axes = from_end(axis, np.ndim(a))
    parts = [log_sum(a, b, axes)]
    if return_sign:
        parts.append(sign_of_sum(a, b, axes))
    elif not is_positive:
        parts = [np.where(np.less(sign_of_sum(a, b, axes), 0), np.nan, *parts)]
    if keepdims:
        parts = [np.expand_dims(part, axes) for part in parts]
    return tuple(parts) if return_sign else parts[0][()]


@dispatched
def shares(x, axis):
    return sp.softmax(x, axis=axis)


@dispatched
def log_shares(x, axis):
    return sp.log_softmax(x, axis=axis)


def softmax_jacobian_product(t, y, axis):
    """Apply the Jacobian of softmax, diag(y) - y y^T, which is symmetric."""
    return strong(t - np.sum(strong(t, y), axis=axis, keepdims=True), y)


def shares_taylor(series, order, x, axis):
    e, total = exponentials(x, np.ones(()), axis)
    return series([shares(x.c[0], axis), *(e / total).c[1:]])


def log_shares_taylor(series, order, x, axis):
    y = x - np.log(exponentials(x, np.ones(()), axis)[1])
    return series([log_shares(x.c[0], axis), *y.c[1:]])


structural(
    shares,
    lambda ybar, y, x, axis: softmax_jacobian_product(ybar, y, axis),
    jvp=(lambda t, y, x, axis: softmax_jacobian_product(t, y, axis),),
)
structural(
    log_shares,
    lambda ybar, y, x, axis: ybar - strong(np.sum(ybar, axis=axis, keepdims=True), shares(x, axis)),
    jvp=(lambda t, y, x, axis: t - np.sum(strong(t, shares(x, axis)), axis=axis, keepdims=True),),
)
facts(shares, dependence=Along(1, None), scalars="softmax", taylor=shares_taylor)
facts(log_shares, dependence=Along(1, None), scalars="log softmax", taylor=log_shares_taylor)


def along(part):
    def body(x, axis=None):
        x = as_array(x)
        return part(x, from_end(axis, np.ndim(x)))

    return body


composed("scipy.special.softmax", along(shares))
composed("scipy.special.log_softmax", along(log_shares))

# ---- gamma functions, combinations and permutations


@dispatched
def polygamma(n, x):
    return sp.polygamma(n, x)


elementwise(
    polygamma, None, lambda y, n, x: np.where(np.equal(n % 2, 0), 1.0, -1.0) * sp.gamma(n + 2.0) * sp.zeta(n + 2.0, x)
)
composed("scipy.special.polygamma", lambda n, x: polygamma(n, as_array(x)))


@composed("scipy.special.multigammaln")
def _multigammaln(a, d):
    a, d = as_array(a), np.asarray(d)[()]
    if np.ndim(d) or np.floor(d) != d:
        raise ValueError("d should be a positive integer (dimension)")
    if np.any(a <= 0.5 * (d - 1)):
        raise ValueError(f"condition a > 0.5 * (d-1) = {0.5 * (d - 1)} not met")
    terms = np.stack([sp.gammaln(a - (j - 1.0) / 2) for j in range(1, int(d) + 1)])
    return (d * (d - 1) * 0.25) * np.log(np.pi) + np.sum(terms, axis=0)


EXACT = "exact=True counts integers, which have no derivative; omit it, or pass wengert.stop_gradient(x)"


def count_choices(body, n, k, exact):
    """Evaluate a count of choices of k from n by gamma functions; 0 outside 0 <= k <= n."""
    if exact:
        raise UnsupportedFunctionError(EXACT)
    inside = np.less_equal(k, n) & np.greater_equal(n, 0) & np.greater_equal(k, 0)
    return np.where(inside, body(n, k), 0.0)[()]


@composed("scipy.special.comb")
def _comb(N, k, *, exact=False, repetition=False):
    n, k = as_array(N), as_array(k)
    return count_choices(sp.binom, n + k - 1 if repetition else n, k, exact)


@composed("scipy.special.perm")
def _perm(N, k, exact=False):
    return count_choices(lambda n, k: sp.poch(n - k + 1, k), as_array(N), as_array(k), exact)


@composed("scipy.special.factorial")
def _factorial(n, exact=False, extend="zero"):
    if exact:
        raise UnsupportedFunctionError(EXACT)
    n = as_array(n)
    y = sp.gamma(n + 1)
    if extend != "zero":
        return y
    y = np.where(np.less(n, 0), 0.0, y)[()]
    return as_dtype(y, np.dtype(float)) if np.ndim(n) else y  # SciPy returns float64 for arrays


# ---- the periodic sinc function


@dispatched
def dirichlet(x, n, order):
    """Derivative `order` in x of ``diric(x, n)``, the mean of cos(m x) over m = -(n - 1) / 2, ..., (n - 1) / 2."""
    if order == 0:
        return sp.diric(x, n)
    total = 0.0
    for k in range(int(np.max(n, initial=0)) // 2):
        m = np.maximum((n - 1) / 2 - k, 0.0)
        total = total + m**order * np.cos(m * x + order * np.pi / 2)
    return 2 * total / n


elementwise(dirichlet, lambda y, x, n, order: dirichlet(x, n, order + 1), None, None)
composed("scipy.special.diric", lambda x, n: dirichlet(as_array(x), n, 0))

# ---- spherical Bessel functions (DLMF 10.51.2)


def spherical(name, below, above):
    """Declare a function of integer order with f_n' = (below n f_(n-1) + above (n + 1) f_(n+1)) / (2 n + 1)."""

    @dispatched
    def value(n, z):
        return getattr(sp, name)(n, z)

    @dispatched
    def slope(n, z):
        return getattr(sp, name)(n, z, True)

    def between(f):
        def partial(y, n, z):
            first = lower_degree(n, below * n, f(np.maximum(n - 1, 0), z))
            return (first + above * (n + 1) * f(n + 1, z)) / (2 * n + 1)

        return partial

    for f, kind in ((value, "value"), (slope, "slope")):
        f.__name__ = f.__qualname__ = f"{name}_{kind}"
        globals()[f.__name__] = f
        elementwise(f, None, between(f))
    composed(f"scipy.special.{name}", lambda n, z, derivative=False: (slope if derivative else value)(n, as_array(z)))


spherical("spherical_jn", 1, -1)
spherical("spherical_yn", 1, -1)
spherical("spherical_in", 1, 1)
spherical("spherical_kn", -1, -1)

# ---- Legendre functions: SciPy stacks the value and derivatives along a new first axis


@dispatched
def legendre(n, z, order):
    """Derivative `order` of a Legendre polynomial; above 2 by Gegenbauer polynomials (DLMF 18.9.19)."""
    if order <= 2:
        return sp.legendre_p(n, z, diff_n=order)[order]
    factor = np.prod(np.arange(1.0, 2 * order, 2))
    return np.where(np.less(n, order), 0.0, factor * sp.eval_gegenbauer(np.maximum(n - order, 0), order + 0.5, z))


elementwise(legendre, None, lambda y, n, z, order: legendre(n, z, order + 1), None)


@dispatched
def associated(n, m, z, branch_cut, norm, order):
    """Derivative of an associated Legendre function, of order 0, 1 or 2."""
    return sp.assoc_legendre_p(n, m, z, branch_cut=branch_cut, norm=norm, diff_n=order)[order]


def associated_partial(y, n, m, z, branch_cut, norm, order):
    """Return the next derivative; the third one by differentiating Legendre's equation."""
    if order < 2:
        return associated(n, m, z, branch_cut, norm, order + 1)
    p, slope = (associated(n, m, z, branch_cut, norm, k) for k in (0, 1))
    rest = 1 - z * z
    return (4 * z * y + (2 - n * (n + 1) + m * m / rest) * slope + 2 * z * (m / rest) ** 2 * p) / rest


elementwise(associated, None, None, associated_partial, None, None, None)


def theta_slope(up, down, n, m, theta):
    """Derivative in theta of a normalised function, from the functions of order m + 1 (`up`) and m - 1 (`down`).

    SciPy takes |sin(theta)|, so where sin(theta) is negative the neighbours have the other sign.
    """
    side = np.where(np.less(np.sin(theta), 0), -0.5, 0.5)
    return side * (np.sqrt((n - m) * (n + m + 1.0)) * up - np.sqrt((n + m) * (n - m + 1.0)) * down)


def neighbours(f, n, m):
    """Return the functions of orders m + 1 and m - 1; an order beyond n is replaced by m, as its weight is 0."""
    up, down = np.where(np.less(m, n), m + 1, m), np.where(np.greater(m, -n), m - 1, m)
    return f(up), f(down)


@dispatched
def spherical_legendre(n, m, theta):
    return sp.sph_legendre_p(n, m, theta)[0]


elementwise(
    spherical_legendre,
    None,
    None,
    lambda y, n, m, theta: theta_slope(*neighbours(lambda k: spherical_legendre(n, k, theta), n, m), n, m, theta),
)


@dispatched
def harmonic(n, m, theta, phi):
    return sp.sph_harm_y(n, m, theta, phi)


def harmonic_by_theta(y, n, m, theta, phi):
    up, down = neighbours(lambda k: harmonic(n, k, theta, phi), n, m)
    return theta_slope(np.exp(-1j * phi) * up, np.exp(1j * phi) * down, n, m, theta)


elementwise(harmonic, None, None, harmonic_by_theta, lambda y, n, m, theta, phi: 1j * m * y)
analytic(harmonic)


def orders(f, diff_n):
    return np.stack([f(order) for order in range(diff_n + 1)])


@composed("scipy.special.sph_legendre_p")
def _sph_legendre_p(n, m, theta, *, diff_n=0):
    if diff_n:
        raise UnsupportedFunctionError("scipy.special.sph_legendre_p with diff_n: differentiate the function itself")
    return np.expand_dims(spherical_legendre(n, m, as_array(theta)), 0)


@composed("scipy.special.sph_harm_y")
def _sph_harm_y(n, m, theta, phi, *, diff_n=0):
    if diff_n:
        raise UnsupportedFunctionError("scipy.special.sph_harm_y with diff_n: differentiate the function itself")
    return harmonic(n, m, as_array(theta), as_array(phi))


composed(
    "scipy.special.legendre_p", lambda n, z, *, diff_n=0: orders(lambda order: legendre(n, as_array(z), order), diff_n)
)
composed(
    "scipy.special.assoc_legendre_p",
    lambda n, m, z, *, branch_cut=2, norm=False, diff_n=0: orders(
        lambda order: associated(n, m, as_array(z), branch_cut, norm, order), diff_n
    ),
)

# ---- refused

TABLE = "SciPy fills a table in compiled code; "
LIST = "nodes and weights have no derivative in the parameters; pass plain parameters, or "
FAMILIES = ("gegenbauer", "genlaguerre", "jacobi", "sh_jacobi")
ELLIPSOIDAL = "no formula for ellipsoidal harmonics; declare a rule of your own with wengert.primitive"
SECOND_KIND = TABLE + "no formula for Legendre functions of the second kind; declare a rule with wengert.primitive"
MATHIEU = "Fourier coefficients of Mathieu functions have no derivative here"

for name, reason in {
    "assoc_legendre_p_all": TABLE + "write assoc_legendre_p for each degree and order",
    **dict.fromkeys(("ellip_harm", "ellip_harm_2", "ellip_normal"), ELLIPSOIDAL),
    "factorial2": "it is defined for integers; write 2**(n / 2) * scipy.special.gamma(n / 2 + 1)",
    "factorialk": "it is defined for integers; write it with scipy.special.gamma",
    "legendre_p_all": TABLE + "write scipy.special.eval_legendre for each degree",
    "lmbda": TABLE + "write scipy.special.gamma(v + 1) * (2 / x)**v * scipy.special.jv(v, x)",
    **dict.fromkeys(("lqmn", "lqn"), SECOND_KIND),
    **dict.fromkeys(("mathieu_even_coef", "mathieu_odd_coef"), MATHIEU),
    "obl_cv_seq": TABLE + "write scipy.special.obl_cv for each degree",
    "pbdn_seq": "its argument is complex; write scipy.special.pbdv for a real one",
    "pbdv_seq": TABLE + "write scipy.special.pbdv for each order",
    "pbvv_seq": TABLE + "write scipy.special.pbvv for each order",
    "pro_cv_seq": TABLE + "write scipy.special.pro_cv for each degree",
    "riccati_jn": TABLE + "write x * scipy.special.spherical_jn(n, x)",
    "riccati_yn": TABLE + "write x * scipy.special.spherical_yn(n, x)",
    **{f"roots_{name}": f"{LIST}use implicit.root with eval_{name}" for name in FAMILIES},
    "sph_harm_y_all": TABLE + "write scipy.special.sph_harm_y for each degree and order",
    "sph_legendre_p_all": TABLE + "write scipy.special.sph_legendre_p for each degree and order",
}.items():
    refuse(f"scipy.special.{name}", reason)
