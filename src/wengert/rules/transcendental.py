"""Further functions of ``scipy.special``: Bessel, Airy, Kelvin and Struve functions, elliptic integrals,
hypergeometric functions, orthogonal polynomials, and integrals with elementary integrands.

Orders, degrees and parameters without a closed form of the derivative are refused one by one, by `unknown`.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from wengert.registry import analytic, composed, elementwise, refuse
from wengert.rules.composed import dispatched
from wengert.rules.special import between, row, sp, unknown


def rows_of_results(name, *results):
    """Declare a function with several results, by the partials of each result."""
    parts = []
    for j, partials in enumerate(results):
        part = component(name, j)
        elementwise(part, *[unknown(name, p) if isinstance(p, str) else p for p in partials])
        parts.append(part)
    composed(f"scipy.special.{name}", lambda *operands: tuple(part(*operands) for part in parts))


def component(name, j):
    """Return result j of a function with several, as a module-level function with a row, which can be pickled."""

    def part(*operands):
        return getattr(sp, name)(*operands)[j]

    part.__name__ = part.__qualname__ = f"{name}_{j}"
    globals()[part.__name__] = made = dispatched(part)
    return made


# ---- degrees

for name, slope in (
    ("sindg", lambda y, x: pi / 180 * sp.cosdg(x)),
    ("cosdg", lambda y, x: -pi / 180 * sp.sindg(x)),
    ("tandg", lambda y, x: pi / 180 * (1 + y * y)),
    ("cotdg", lambda y, x: -pi / 180 * (1 + y * y)),
):
    row(name, slope)
row("radian", pi / 180, pi / 10800, pi / 648000)

# ---- integrals: the derivative is the integrand


def sinhc(x):
    """Return sinh(x) / x, also accurate near 0."""
    return (sp.exprel(x) + sp.exprel(-x)) / 2


def fresnel_angle(x):
    """Return pi/2 x^2 modulo 2 pi: x = h + r, with h short enough that h^2 is exact."""
    head = np.rint(256 * x) / 256
    return pi / 2 * (np.remainder(head * head, 4.0) + (x - head) * (x + head))


rows_of_results("sici", (lambda y, x: np.sinc(x / pi),), (lambda y, x: np.cos(x) / x,))
rows_of_results("shichi", (lambda y, x: sinhc(x),), (lambda y, x: np.cosh(x) / x,))
rows_of_results("fresnel", (lambda y, x: np.sin(fresnel_angle(x)),), (lambda y, x: np.cos(fresnel_angle(x)),))
rows_of_results("iti0k0", (lambda y, x: sp.i0(x),), (lambda y, x: sp.k0(x),))
rows_of_results("itj0y0", (lambda y, x: sp.j0(x),), (lambda y, x: sp.y0(x),))
row("itstruve0", lambda y, x: sp.struve(0.0, x))
row("it2struve0", lambda y, x: -sp.struve(0.0, x) / x)
row("itmodstruve0", lambda y, x: sp.modstruve(0.0, x))


def expn_partial(y, n, x):
    """Return -E_(n-1)(x) (DLMF 8.19.13); E_(-1) is elementary."""
    return np.where(n >= 1, -sp.expn(np.maximum(n - 1, 0), x), -np.exp(-x) * (1 + 1 / x) / x)


row("expn", "order", expn_partial)
row(
    "owens_t",
    lambda y, h, a: -np.exp(-h * h / 2) * sp.erf(a * h / sqrt(2)) / sqrt(8 * pi),
    lambda y, h, a: np.exp(-h * h / 2 * (1 + a * a)) / (2 * pi * (1 + a * a)),
)

# ---- solutions of second-order equations, returned with their first derivatives

rows_of_results(
    "airy",
    (lambda y, x: airy_1(x),),  # noqa: F821
    (lambda y, x: x * airy_0(x),),  # noqa: F821
    (lambda y, x: airy_3(x),),  # noqa: F821
    (lambda y, x: x * airy_2(x),),  # noqa: F821
)
rows_of_results(
    "pbdv",
    ("order", lambda y, v, x: pbdv_1(v, x)),  # noqa: F821
    ("order", lambda y, v, x: (x * x / 4 - v - 0.5) * pbdv_0(v, x)),  # noqa: F821
)
rows_of_results(
    "pbvv",
    ("order", lambda y, v, x: pbvv_1(v, x)),  # noqa: F821
    ("order", lambda y, v, x: (x * x / 4 - v - 0.5) * pbvv_0(v, x)),  # noqa: F821
)
rows_of_results(
    "pbwa",
    ("parameter", lambda y, a, x: pbwa_1(a, x)),  # noqa: F821
    ("parameter", lambda y, a, x: (a - x * x / 4) * pbwa_0(a, x)),  # noqa: F821
)


def ratio_at_0(y, x, limit):
    """Return y / x, and its limit at 0."""
    return np.where(np.equal(x, 0), limit, y / x)


row("ber", lambda y, x: sp.berp(x))
row("bei", lambda y, x: sp.beip(x))
row("ker", lambda y, x: sp.kerp(x))
row("kei", lambda y, x: sp.keip(x))
row("berp", lambda y, x: -sp.bei(x) - ratio_at_0(y, x, 0.0))
row("beip", lambda y, x: sp.ber(x) - ratio_at_0(y, x, 0.5))
row("kerp", lambda y, x: -sp.kei(x) - y / x)
row("keip", lambda y, x: sp.ker(x) - y / x)

# ---- Bessel functions of integer order, and scaled ones


for name, below, above in (("jve", 1, -1), ("yve", 1, -1), ("kn", -1, -1), ("yn", 1, -1)):
    row(name, "order", between(name, below, above))


def scaled_slope(v, x, sign, terms=24):
    """Derivative at large x of exp(-sign x) times the growing (1) or decaying (-1) modified Bessel function.

    The function and its neighbours in order agree in their leading digits there, so their difference cancels.
    The terms of Hankel's expansion (DLMF 10.40) over sqrt(2 pi x) are differentiated instead.
    """
    total, term = 0.0, 1.0
    for k in range(terms):
        total = total - (k + 0.5) * term
        term = term * -sign * (4 * v * v - (2 * k + 1) ** 2) / (8 * (k + 1) * x)
    return total / (x * np.sqrt(2 * pi * x))


def is_far(v, x):
    return np.greater(np.abs(x), np.maximum(40.0, v * v))


def ive_partial(y, v, x):
    size = np.where(is_far(v, x), np.abs(x), 40.0)
    # for x < 0 it has parity (-1)^v at integer v, and is undefined otherwise
    far = np.where(x < 0, -1.0, 1.0) * np.cos(pi * np.where(x < 0, v, 0.0)) * scaled_slope(v, size, 1)
    near = (sp.ive(v - 1, x) + sp.ive(v + 1, x)) / 2 - np.sign(x) * y
    return np.where(is_far(v, x), far, near)


def kve_partial(y, v, x):
    size = np.where(is_far(v, x), x, 40.0)
    near = y - (sp.kve(v - 1, x) + sp.kve(v + 1, x)) / 2
    return np.where(is_far(v, x), pi * scaled_slope(v, size, -1), near)


row("ive", "order", ive_partial)
row("i0e", lambda y, x: ive_partial(y, 0.0, x))
row("i1e", lambda y, x: ive_partial(y, 1.0, x))
row("k0e", lambda y, x: kve_partial(y, 0.0, x))
row("k1e", lambda y, x: kve_partial(y, 1.0, x))


def struve_term(v, x):
    return np.power(x / 2, v) * sp.rgamma(v + 1.5) / sqrt(pi)


def struve_partial(name, sign):
    """Return the slope of a Struve function; that of order 0 needs no function of order -1, singular at 0."""

    def partial(y, v, x):
        fun, is_0, term = getattr(sp, name), np.equal(v, 0), struve_term(v, x)
        below = np.where(is_0, sign * fun(1.0, x), fun(np.where(is_0, 1.0, v) - 1, x) - term)
        return (below + sign * fun(v + 1, x)) / 2 + term

    return partial


row("struve", "order", struve_partial("struve", -1))
row("modstruve", "order", struve_partial("modstruve", 1))
row("wright_bessel", "parameter", "parameter", lambda y, a, b, x: sp.wright_bessel(a, a + b, x))
row("log_wright_bessel", "parameter", "parameter", lambda y, a, b, x: np.exp(sp.log_wright_bessel(a, a + b, x) - y))

# ---- elliptic integrals: series for small parameters, where the closed forms cancel


def is_small(m):
    return np.less(np.abs(m), 0.4)


def small_parameter(m):
    """Return the parameter where it is small, 0 elsewhere: the unused branch stays finite."""
    return np.where(is_small(m), m, 0.0)


def large_parameter(m):
    return np.where(is_small(m), 0.5, m)


def ellipk_partial(y, m):
    c = large_parameter(m)
    form = (sp.ellipe(c) - (1 - c) * sp.ellipk(c)) / (2 * c * (1 - c))
    return np.where(is_small(m), pi / 8 * sp.hyp2f1(1.5, 1.5, 2.0, small_parameter(m)), form)


def ellipe_partial(y, m):
    c = large_parameter(m)
    form = (sp.ellipe(c) - sp.ellipk(c)) / (2 * c)
    return np.where(is_small(m), -pi / 8 * sp.hyp2f1(0.5, 1.5, 2.0, small_parameter(m)), form)


@dispatched
def ellipe_of_rest(p):
    """Return ellipe(1 - p), whose derivative at small p needs p itself."""
    return sp.ellipe(1 - p)


def ellipe_of_rest_partial(y, p):
    form = (sp.ellipkm1(p) - y) / (2 * large_parameter(1 - p))
    return np.where(is_small(1 - p), -ellipe_partial(y, 1 - p), form)


elementwise(ellipe_of_rest, ellipe_of_rest_partial)


def ellipkm1_partial(y, p):
    c = np.where(is_small(1 - p), 0.5, p)
    form = (c * sp.ellipkm1(c) - ellipe_of_rest(c)) / (2 * c * (1 - c))
    return np.where(is_small(1 - p), -pi / 8 * sp.hyp2f1(1.5, 1.5, 2.0, small_parameter(1 - p)), form)


row("ellipk", ellipk_partial, replayed=True)
row("ellipe", ellipe_partial, replayed=True)
row("ellipkm1", ellipkm1_partial, replayed=True)


def half_turns(phi):
    """Return the number of half turns pi nearest to an amplitude."""
    return np.rint(phi / pi)


def ellipkinc_by_parameter(phi, m):
    n = half_turns(phi)
    s, c = np.sin(phi - n * pi), np.cos(phi - n * pi)
    return s**3 / 6 * sp.elliprd(c * c, 1.0, 1 - m * s * s) + half_turns_slope(n, ellipk_partial(None, m))


def ellipeinc_by_parameter(phi, m):
    n = half_turns(phi)
    s, c = np.sin(phi - n * pi), np.cos(phi - n * pi)
    return -(s**3) / 6 * sp.elliprd(c * c, 1 - m * s * s, 1.0) + half_turns_slope(n, ellipe_partial(None, m))


def half_turns_slope(n, slope):
    """Contribution of n half turns, 0 for n = 0, where `slope` may be infinite."""
    return np.where(np.equal(n, 0), 0.0, 2 * n * slope)


row(
    "ellipkinc",
    lambda y, phi, m: 1 / np.sqrt(1 - m * np.sin(phi) ** 2),
    lambda y, phi, m: ellipkinc_by_parameter(phi, m),
)
row("ellipeinc", lambda y, phi, m: np.sqrt(1 - m * np.sin(phi) ** 2), lambda y, phi, m: ellipeinc_by_parameter(phi, m))


def jacobi(u, m):
    """Return sn, cn, dn and the derivative of the amplitude in m."""
    sn, cn, dn, phi = (part(u, m) for part in (ellipj_0, ellipj_1, ellipj_2, ellipj_3))  # noqa: F821
    return sn, cn, dn, -dn * ellipkinc_by_parameter(phi, m)


def by_parameter(combine):
    return lambda y, u, m: combine(m, *jacobi(u, m))


rows_of_results(
    "ellipj",
    (
        lambda y, u, m: ellipj_1(u, m) * ellipj_2(u, m),  # noqa: F821
        by_parameter(lambda m, sn, cn, dn, turn: cn * turn),
    ),
    (
        lambda y, u, m: -ellipj_0(u, m) * ellipj_2(u, m),  # noqa: F821
        by_parameter(lambda m, sn, cn, dn, turn: -sn * turn),
    ),
    (
        lambda y, u, m: -m * ellipj_0(u, m) * ellipj_1(u, m),  # noqa: F821
        by_parameter(lambda m, sn, cn, dn, turn: -sn * (sn + 2 * m * cn * turn) / (2 * dn)),
    ),
    (lambda y, u, m: ellipj_2(u, m), by_parameter(lambda m, sn, cn, dn, turn: turn)),  # noqa: F821
)
row(
    "elliprf",
    lambda y, a, b, c: -sp.elliprd(b, c, a) / 6,
    lambda y, a, b, c: -sp.elliprd(c, a, b) / 6,
    lambda y, a, b, c: -sp.elliprd(a, b, c) / 6,
)


def elliprc_partials(a, b):
    """Partials of R_C; its principal value for b < 0 is sqrt(a / (a - b)) R_C(a - b, -b) (DLMF 19.2.20)."""
    is_principal = np.less(b, 0)
    x, y = np.where(is_principal, a - b, a), np.where(is_principal, -b, b)
    by_x, by_y = -sp.elliprd(y, y, x) / 6, -sp.elliprd(x, y, y) / 3
    root, value = np.sqrt(a / x), sp.elliprc(x, y)
    principal_by_a = root * (by_x - b / (2 * np.where(is_principal, a, 1.0) * x) * value)
    principal_by_b = root * (value / (2 * x) - by_x - by_y)
    return np.where(is_principal, principal_by_a, by_x), np.where(is_principal, principal_by_b, by_y)


row("elliprc", lambda y, a, b: elliprc_partials(a, b)[0], lambda y, a, b: elliprc_partials(a, b)[1])


def agm_partial(y, a, b, towards_a):
    """Differentiate the arithmetic-geometric mean iteration; all terms are positive, so nothing cancels."""
    ta, tb = towards_a, 1.0 - towards_a
    for _ in range(14):
        root = np.sqrt(a) * np.sqrt(b)
        a, b, ta, tb = (a + b) / 2, root, (ta + tb) / 2, (ta * root / a + tb * root / b) / 2
    return ta


row("agm", lambda y, a, b: agm_partial(y, a, b, 1.0), lambda y, a, b: agm_partial(y, a, b, 0.0))

# ---- confluent hypergeometric function U; for the others see `hypergeometric`

row("hyperu", "parameter", "parameter", lambda y, a, b, x: -a * sp.hyperu(a + 1, b + 1, x))

# ---- orthogonal polynomials (DLMF 18.9): the derivative is a polynomial of lower degree of a related family


def lower_degree(n, factor, value):
    """Return factor * value, and 0 for degree 0."""
    return np.where(np.equal(n, 0), 0.0, factor * value)


row("eval_legendre", "degree", lambda y, n, x: lower_degree(n, 1.0, sp.eval_gegenbauer(n - 1, 1.5, x)))
row("eval_chebyt", "degree", lambda y, n, x: lower_degree(n, n, sp.eval_chebyu(n - 1, x)))
row("eval_chebyu", "degree", lambda y, n, x: lower_degree(n, 2.0, sp.eval_gegenbauer(n - 1, 2.0, x)))
row("eval_chebyc", "degree", lambda y, n, x: lower_degree(n, n, sp.eval_chebys(n - 1, x)))
row("eval_chebys", "degree", lambda y, n, x: lower_degree(n, 1.0, sp.eval_gegenbauer(n - 1, 2.0, x / 2)))
row("eval_sh_legendre", "degree", lambda y, n, x: lower_degree(n, 2.0, sp.eval_gegenbauer(n - 1, 1.5, 2 * x - 1)))
row("eval_sh_chebyt", "degree", lambda y, n, x: lower_degree(n, 2.0 * n, sp.eval_chebyu(n - 1, 2 * x - 1)))
row("eval_sh_chebyu", "degree", lambda y, n, x: lower_degree(n, 4.0, sp.eval_gegenbauer(n - 1, 2.0, 2 * x - 1)))
row("eval_laguerre", "degree", lambda y, n, x: lower_degree(n, -1.0, sp.eval_genlaguerre(n - 1, 1.0, x)))
row(
    "eval_genlaguerre",
    "degree",
    "parameter",
    lambda y, n, a, x: lower_degree(n, -1.0, sp.eval_genlaguerre(n - 1, a + 1, x)),
)
row(
    "eval_gegenbauer",
    "degree",
    "parameter",
    lambda y, n, a, x: lower_degree(n, 2 * a, sp.eval_gegenbauer(n - 1, a + 1, x)),
)
row(
    "eval_jacobi",
    "degree",
    "parameter",
    "parameter",
    lambda y, n, a, b, x: lower_degree(n, (n + a + b + 1) / 2, sp.eval_jacobi(n - 1, a + 1, b + 1, x)),
)
row(
    "eval_sh_jacobi",
    "degree",
    "parameter",
    "parameter",
    lambda y, n, p, q, x: lower_degree(n, n, sp.eval_sh_jacobi(n - 1, p + 2, q + 1, x)),
)
row("eval_hermite", None, lambda y, n, x: lower_degree(n, 2.0 * n, sp.eval_hermite(np.maximum(n - 1, 0), x)))
row("eval_hermitenorm", None, lambda y, n, x: lower_degree(n, 1.0 * n, sp.eval_hermitenorm(np.maximum(n - 1, 0), x)))

# ---- complex-valued functions, also of real arguments

elementwise(
    "scipy.special._ufuncs._lambertw", lambda y, z, k, tol: 1 / (z + np.exp(y)), None, None
).name = "scipy.special.lambertw"
analytic("scipy.special._ufuncs._lambertw")

# ---- without a derivative in any argument

CHARACTERISTIC = "its derivative in the parameter is not known here; declare a rule with wengert.primitive"

for name in ("mathieu_a", "mathieu_b", "obl_cv", "pro_cv"):
    refuse(f"scipy.special.{name}", CHARACTERISTIC)
