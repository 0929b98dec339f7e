"""Calls of ``scipy.special`` with exact derivatives: `CASES` is the table, ``data/special.json`` the values.

mpmath computes the values once: ``python tests/special_cases.py`` computes missing ones and drops unused ones;
with ``--all`` it computes all of them again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np
import scipy.special

DATA = Path(__file__).parent / "data" / "special.json"


@dataclass(frozen=True)
class Case:
    """A call: list operands are differentiated, and `part` selects one of several results.

    `f` is the function in mpmath; `rtol` and `second` bound the relative errors of first and second derivatives, and
    second derivatives are not compared if `second` is 0.
    `digits` is the precision of the reference, of which a difference with step 10**(-digits / 4) keeps half.
    """

    name: str
    f: Callable
    operands: tuple
    rtol: float = 2e-13
    second: float = 2e-11
    part: int | None = None
    digits: int = 80

    @property
    def label(self):
        return self.name if self.part is None else f"{self.name}[{self.part}]"

    @property
    def key(self):
        return f"{self.label}{self.operands}"

    @property
    def moving(self):
        return [i for i, x in enumerate(self.operands) if isinstance(x, list)]

    @property
    def points(self):
        """Return one row for each differentiated operand."""
        n = max(len(self.operands[i]) for i in self.moving)
        return np.array([np.resize(self.operands[i], n) for i in self.moving], dtype=float)

    def call(self, x):
        """Evaluate the function at the rows of `x`."""
        operands = list(self.operands)
        for row, i in enumerate(self.moving):
            operands[i] = x[row]
        y = getattr(scipy.special, self.name)(*operands)
        return y if self.part is None else y[self.part]

    def references(self):
        """Return first derivatives by row, and second ones by pair of rows, at each point, by high-precision steps."""
        first, second = [], []
        for at in self.points.T:
            with mp.workdps(self.digits):
                g, h = self._at([mp.mpf(x) for x in at])
            first.append(g)
            second.append(h)
        return {"first": np.moveaxis(first, 0, -1).tolist(), "second": np.moveaxis(second, 0, -1).tolist()}

    def _at(self, at):
        steps = [mp.mpf(10) ** (-self.digits // 4) * (abs(x) or 1) for x in at]

        @cache
        def f(*moves):
            operands = [
                int(x) if isinstance(x, int) else mp.mpf(x) if not isinstance(x, list) else x for x in self.operands
            ]
            for i, x, step, move in zip(self.moving, at, steps, moves):
                operands[i] = x + move * step
            return mp.re(self.f(*operands))

        m = len(at)

        def shifted(*signed):
            moves = [0] * m
            for i, sign in signed:
                moves[i] += sign
            return f(*moves)

        g = [float((shifted((i, 1)) - shifted((i, -1))) / (2 * steps[i])) for i in range(m)]
        h = np.empty((m, m))
        for i in range(m):
            h[i, i] = (shifted((i, 1)) - 2 * shifted() + shifted((i, -1))) / steps[i] ** 2
            for j in range(i):
                corners = sum(a * b * shifted((i, a), (j, b)) for a in (1, -1) for b in (1, -1))
                h[i, j] = h[j, i] = corners / (4 * steps[i] * steps[j])
        return g, h


def inverse(cdf, name, k=-1, p=-1):
    """Return SciPy's inverse function `name` in mpmath: `cdf` solved for argument k, starting at SciPy's result.

    In the call, operand p is the value of `cdf`; in `cdf`, operand k is the unknown.
    """

    def f(*operands):
        start = mp.mpf(float(getattr(scipy.special, name)(*[float(x) for x in operands])))
        rest = list(operands)
        value = rest.pop(p)
        position = len(operands) - 1 if k == -1 else k

        def equation(x):
            return cdf(*rest[:position], x, *rest[position:]) - value

        return mp.findroot(equation, (start, start * (1 + mp.mpf(10) ** -12)), tol=mp.mpf(10) ** (-1.8 * mp.mp.dps))

    return f


def ratio_of_gammas(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta_cdf(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def f_cdf(m, n, x):
    return beta_cdf(mp.mpf(m) / 2, mp.mpf(n) / 2, m * x / (m * x + n))


def chi_square(v, x):
    return ratio_of_gammas(v / 2, x / 2)


def gamma_cdf(a, b, x):
    return ratio_of_gammas(b, a * x)


def binomial_by_rgamma(n, k):
    return mp.gamma(n + 1) * mp.rgamma(k + 1) * mp.rgamma(n - k + 1)


def binomial_cdf(k, n, p):
    return beta_cdf(n - k, k + 1, 1 - p)


def negative_binomial_cdf(k, n, p):
    return beta_cdf(n, k + 1, p)


def noncentral_chi_square(x, v, c):
    terms = (mp.exp(-c / 2) * (c / 2) ** k / mp.factorial(k) * ratio_of_gammas(v / 2 + k, x / 2) for k in range(160))
    return mp.fsum(terms)


def kolmogorov(x):
    return 2 * mp.fsum((-1) ** (k + 1) * mp.exp(-2 * (k * x) ** 2) for k in range(1, int(16 / x) + 2))


def t_cdf(v, t):
    v = mp.mpf(v)
    tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
    return 1 - tail if t > 0 else mp.mpf(1) / 2 if t == 0 else tail


def integral(g):
    return lambda *x: mp.quad(lambda t: g(*x[:-1], t), [0, x[-1]])


def multigammaln(a, d):
    return d * (d - 1) / mp.mpf(4) * mp.log(mp.pi) + sum(mp.loggamma(a - j / mp.mpf(2)) for j in range(d))


def diric(x, n):
    return mp.sin(n * x / 2) / (n * mp.sin(x / 2))


def legendre_slope(n, m, z):
    """Return the m-th derivative of the Legendre polynomial of degree n, term by term."""
    total = mp.mpf(0)
    for k in range((n - m) // 2 + 1):
        factor = (-1) ** k * mp.binomial(n, k) * mp.binomial(2 * n - 2 * k, n) * mp.ff(n - 2 * k, m)
        total += factor * z ** (n - 2 * k - m)
    return total / 2**n


def assoc_legendre(n, m, z):
    return (-1) ** m * (1 - z * z) ** (mp.mpf(m) / 2) * legendre_slope(n, m, z)


def sph_legendre(n, m, theta):
    factor = mp.sqrt((2 * n + 1) / (4 * mp.pi) * mp.factorial(n - m) / mp.factorial(n + m))
    return factor * (-mp.sin(theta)) ** m * legendre_slope(n, m, mp.cos(theta))


def principal_rc(x, y):
    return mp.sqrt(x / (x - y)) * mp.elliprc(x - y, -y)


def voigt(x, sigma, gamma):
    z = (x + 1j * gamma) / (sigma * mp.sqrt(2))
    return mp.re(mp.exp(-z * z) * mp.erfc(-1j * z)) / (sigma * mp.sqrt(2 * mp.pi))


def bessel_moment(a, power, order):
    return mp.quad(lambda t: t**power * mp.besselj(order, 2 * a * t), [0, 0.25, 1])


def airy_scaled(f, derivative, sign):
    return lambda x: f(x, derivative=derivative) * mp.exp(sign * mp.mpf(2) / 3 * mp.sqrt(x) ** 3)


def tukey_quantile(p, shape):
    return (p**shape - (1 - p) ** shape) / shape


def smirnov(n, d):
    total = mp.mpf(0)
    for j in range(int(mp.floor(n * (1 - d))) + 1):
        t = mp.mpf(j) / n
        total += mp.binomial(n, j) * (d + t) ** (j - 1) * (1 - d - t) ** (n - j)
    return d * total


AIRY = [mp.airyai, mp.airybi, lambda t: mp.airyai(-t), lambda t: mp.airybi(-t)]
SCALED = [0.02, 0.9, 1.1, 7.0, 60.0, 400.0]
SPHERES = [0.02, 0.9, 3.3, 20.0]
AXIS = [-3.1, -0.6, 0.3, 1.7, 6.0]
RIGHT = [0.02, 0.3, 1.7, 6.0, 25.0]
BALL = [-0.9, -0.3, 0.1, 0.7, 0.95]
UNIT = [0.02, 0.3, 0.6, 0.97]
SHAPES = [0.3, 0.3, 2.5, 9.9, 10.1, 60.0]
TIMES = [0.02, 1.7, 2.4, 25.0, 0.3, 61.0]
MODULI = [-5.0, -0.41, -0.39, -1e-7, 1e-9, 0.39, 0.41, 0.9, 0.999]

CASES = [
    Case("sindg", lambda x: mp.sin(x * mp.pi / 180), (AXIS,)),
    Case("cosdg", lambda x: mp.cos(x * mp.pi / 180), (AXIS,)),
    Case("tandg", lambda x: mp.tan(x * mp.pi / 180), (AXIS,)),
    Case("cotdg", lambda x: mp.cot(x * mp.pi / 180), (AXIS,)),
    Case("radian", lambda d, m, s: (d + m / 60 + s / 3600) * mp.pi / 180, ([1.0, 30.0], [2.0, 5.0], [3.0, 4.0])),
    Case("sici", mp.si, (AXIS,), part=0),
    Case("sici", mp.ci, (RIGHT,), part=1),
    Case("shichi", mp.shi, (AXIS,), part=0),
    Case("shichi", mp.chi, (RIGHT,), part=1),
    Case("fresnel", mp.fresnels, (AXIS,), part=0),
    Case("fresnel", mp.fresnelc, (AXIS,), part=1),
    Case("expn", mp.expint, (3, RIGHT)),
    Case("expn", mp.expint, (1, RIGHT)),
    Case(
        "erfcx",
        lambda x: mp.exp(x * x) * mp.erfc(x),
        ([-5.0, -1.0, 0.0, 0.5, 1.9, 2.0, 2.5, 10.0, 1e3, 1e6],),
        1e-14,
        1e-12,
    ),
    Case("erfi", mp.erfi, ([-20.0, -1.0, 0.0, 1e-5, 3.0, 25.0],), 1e-15, 1e-13),
    Case(
        "dawsn",
        lambda x: mp.exp(-x * x) * mp.sqrt(mp.pi) / 2 * mp.erfi(x),
        ([-9.0, -0.4, 0.0, 0.5, 3.0, 6.9, 7.1, 30.0, 1e4],),
        5e-14,
        1e-10,
    ),
    Case(
        "exprel",
        lambda x: mp.expm1(x) / x,
        ([-30.0, -1.01, -0.99, -1e-8, 1e-12, 0.5, 0.99, 1.01, 30.0],),
        4e-15,
        1e-13,
    ),
    Case("ndtri_exp", inverse(lambda x: mp.log(mp.ncdf(x)), "ndtri_exp"), ([-500.0, -30.0, -3.0, -0.7, -0.01],), 1e-13),
    Case(
        "boxcox",
        lambda x, a: (mp.expm1(a * mp.log(x))) / a,
        ([0.1, 0.9, 1.3, 4.0, 9.0], [-2.0, -1e-9, 1e-5, 0.5, 2.0]),
        4e-15,
        1e-13,
    ),
    Case(
        "boxcox1p",
        lambda x, a: (mp.expm1(a * mp.log1p(x))) / a,
        ([-0.9, 1e-9, 1.3, 4.0, 9.0], [-2.0, -1e-9, 1e-5, 0.5, 2.0]),
        4e-15,
        1e-13,
    ),
    Case(
        "inv_boxcox",
        lambda z, a: mp.exp(mp.log1p(a * z) / a),
        ([0.2, 1.3, 3.0, 0.5], [-0.4, 1e-9, 0.2, 2.0]),
        1e-14,
        1e-12,
    ),
    Case(
        "inv_boxcox1p",
        lambda z, a: mp.exp(mp.log1p(a * z) / a) - 1,
        ([0.2, 1.3, 3.0, 0.5], [-0.4, 1e-9, 0.2, 2.0]),
        1e-14,
        1e-12,
    ),
    Case("powm1", lambda x, a: x**a - 1, ([0.2, 1.3, 1.00001, 5.0], [-0.4, 1e-9, 0.2, 2.0]), 1e-14, 1e-12),
    Case(
        "spence",
        lambda x: mp.polylog(2, 1 - x),
        ([1e-5, 0.3, 0.69, 0.71, 0.999999, 1.0000001, 1.31, 1.9],),
        1e-14,
        1e-12,
    ),
    Case("wrightomega", lambda x: mp.lambertw(mp.exp(x)), ([-30.0, -2.0, 0.0, 1.0, 50.0],), 1e-14, 1e-12),
    Case(
        "pseudo_huber",
        lambda d, r: d * d * (mp.sqrt(1 + (r / d) ** 2) - 1),
        ([1.0, 2.0, 0.5, 3.0], [1e-4, -1.0, 5.0, 1.0]),
        1e-14,
        1e-12,
    ),
    Case(
        "huber",
        lambda d, r: r * r / 2 if abs(r) <= d else d * (abs(r) - d / 2),
        ([1.0, 2.0, 0.5, 3.0], [0.4, -2.5, 5.0, 1.0]),
        1e-14,
    ),
    Case("rgamma", mp.rgamma, ([-3.0, -2.0, -1.999999, -0.5, 1e-9, 0.0, 0.49, 0.51, 1.4, 3.0, 30.0],), 1e-13, 1e-11),
    Case(
        "poch",
        lambda a, m: mp.gamma(a + m) / mp.gamma(a),
        ([0.1, 3.0, 50.0, 1e3], [1.5, 1e-8, 2.0, 0.5]),
        1e-12,
        1e-10,
    ),
    Case("binom", mp.binomial, ([5.0, 10.5, 40.0, 6.5, -33.4], [2.0, 3.3, 20.5, 1e-6, 1e-7]), 1e-12, 1e-9),
    Case("binom", binomial_by_rgamma, ([3.0, 2.0, 2.5, 2.5, 0.0], [5.0, 3.0, -1.0, 3.5, 3.0]), 1e-12, 1e-9),
    # distributions
    Case("gammainc", ratio_of_gammas, (SHAPES, TIMES), 1e-13),
    Case("gammainc", ratio_of_gammas, ([1e-6, 0.02, 0.7, 3.0], [0.58, 1e-8, 1e-3, 12.0]), 1e-13),
    Case("gammainc", ratio_of_gammas, (300.0, [200.0, 290.0, 300.0, 301.0, 400.0])),
    Case("gammaincc", upper, (SHAPES, TIMES), 1e-13),
    Case("gammaincinv", inverse(ratio_of_gammas, "gammaincinv"), ([0.3, 1.0, 2.5, 40.0], UNIT), 1e-12, 1e-9),
    Case("gammainccinv", inverse(upper, "gammainccinv"), ([0.3, 1.0, 2.5, 40.0], UNIT), 1e-12, 1e-9),
    Case("chdtr", chi_square, ([0.6, 5.0, 5.0, 40.0], [0.02, 1.7, 6.0, 45.0])),
    Case("chdtrc", lambda v, x: 1 - chi_square(v, x), ([0.6, 5.0, 5.0, 40.0], [0.02, 1.7, 6.0, 45.0])),
    Case("chdtri", inverse(lambda v, x: 1 - chi_square(v, x), "chdtri"), ([0.6, 2.0, 5.0, 40.0], UNIT), 1e-12, 1e-9),
    Case("chdtriv", inverse(chi_square, "chdtriv", 0, 0), ([0.2, 0.5, 0.9], [0.3, 4.0, 20.0]), 1e-11, 1e-8),
    Case("gdtr", gamma_cdf, ([0.5, 1.0, 2.0], [3.0, 0.4, 12.0], [1.0, 4.0, 2.0])),
    Case("gdtrc", lambda a, b, x: 1 - gamma_cdf(a, b, x), ([0.5, 1.0, 2.0], [3.0, 0.4, 12.0], [1.0, 4.0, 2.0])),
    Case("gdtrix", inverse(gamma_cdf, "gdtrix"), ([0.5, 1.0, 2.0], [3.0, 0.4, 12.0], [0.2, 0.5, 0.9]), 1e-11, 1e-8),
    Case(
        "gdtria", inverse(gamma_cdf, "gdtria", 0, 0), ([0.2, 0.5, 0.9], [3.0, 0.4, 12.0], [1.0, 4.0, 2.0]), 1e-11, 1e-8
    ),
    Case(
        "gdtrib", inverse(gamma_cdf, "gdtrib", 1, 1), ([0.5, 1.0, 2.0], [0.2, 0.5, 0.9], [1.0, 4.0, 2.0]), 1e-11, 1e-8
    ),
    Case("pdtr", lambda k, m: upper(k + 1, m), (4, RIGHT)),
    Case("pdtrc", lambda k, m: ratio_of_gammas(k + 1, m), (4, RIGHT)),
    Case("pdtri", inverse(lambda k, m: upper(k + 1, m), "pdtri"), (4, UNIT), 1e-11, 1e-9),
    Case(
        "pdtrik", inverse(lambda k, m: upper(k + 1, m), "pdtrik", 0, 0), ([0.5, 0.8, 0.9], [3.0, 4.0, 9.0]), 1e-11, 1e-8
    ),
    Case("betainc", beta_cdf, ([2.5, 0.3, 30.0, 0.02], [0.7, 4.0, 12.0, 0.1], [0.02, 0.3, 0.7, 0.97]), 1e-13),
    Case("betainc", beta_cdf, ([2.5, 1e-6, 200.0, 0.6], [0.7, 300.0, 100.5, 1e-4], [1e-9, 1e-3, 0.66, 0.999]), 1e-13),
    Case("betaincc", lambda a, b, x: 1 - beta_cdf(a, b, x), ([2.5, 0.3, 30.0], [3.0, 4.0, 12.0], [0.02, 0.3, 0.7])),
    Case(
        "betaincinv",
        inverse(beta_cdf, "betaincinv"),
        ([2.5, 0.3, 30.0], [1.7, 4.0, 12.0], [0.2, 0.3, 0.7]),
        1e-12,
        1e-9,
    ),
    Case(
        "betainccinv",
        inverse(lambda a, b, x: 1 - beta_cdf(a, b, x), "betainccinv"),
        ([2.5, 0.3, 30.0], [1.7, 4.0, 12.0], [0.2, 0.3, 0.7]),
        1e-12,
        1e-9,
    ),
    Case("btdtria", inverse(beta_cdf, "btdtria", 0, 0), ([0.2, 0.6], [1.7, 4.0], [0.2, 0.7]), 1e-11, 1e-8),
    Case("btdtrib", inverse(beta_cdf, "btdtrib", 1, 1), ([1.7, 4.0], [0.2, 0.6], [0.2, 0.7]), 1e-11, 1e-8),
    Case("fdtr", f_cdf, ([3.0, 1.0, 20.0], [7.0, 4.0, 15.0], [0.3, 1.7, 2.0]), 1e-12, 1e-10),
    Case(
        "fdtrc", lambda m, n, x: 1 - f_cdf(m, n, x), ([3.0, 1.0, 20.0], [7.0, 4.0, 15.0], [0.3, 1.7, 2.0]), 1e-12, 1e-10
    ),
    Case("fdtri", inverse(f_cdf, "fdtri"), ([3.0, 1.0, 20.0], [7.0, 4.0, 15.0], [0.2, 0.6, 0.9]), 1e-11, 1e-9),
    Case("fdtridfd", inverse(f_cdf, "fdtridfd", 1, 1), ([3.0, 20.0], [0.17, 0.85], [0.3, 2.0]), 1e-10, 1e-7),
    Case("stdtr", t_cdf, ([0.5, 4.5, 4.5, 40.0, 3.0], [-30.0, -1.0, 0.5, 2.0, 0.0]), 1e-12, 1e-9),
    Case("stdtrit", inverse(t_cdf, "stdtrit"), ([1.5, 4.5, 4.5, 40.0], [0.02, 0.3, 0.6, 0.97]), 1e-10, 1e-8),
    Case("stdtridf", inverse(t_cdf, "stdtridf", 0, 0), ([0.1, 0.749], [-1.8, 0.71]), 1e-9, 1e-6),
    Case("bdtr", binomial_cdf, (3.0, 8, UNIT)),
    Case("bdtrc", lambda k, n, p: beta_cdf(k + 1, n - k, p), (3.0, 8, UNIT)),
    Case("bdtri", inverse(binomial_cdf, "bdtri"), (3.0, 8, UNIT), 1e-11, 1e-9),
    Case("bdtrik", inverse(binomial_cdf, "bdtrik", 0, 0), ([0.4, 0.8], [8.0, 20.5], [0.3, 0.7]), 1e-11, 1e-8),
    Case("bdtrin", inverse(binomial_cdf, "bdtrin", 1, 1), ([2.0, 12.5], [0.4, 0.8], [0.3, 0.7]), 1e-11, 1e-8),
    Case("nbdtr", negative_binomial_cdf, (3, 4, UNIT)),
    Case("nbdtrc", lambda k, n, p: 1 - negative_binomial_cdf(k, n, p), (3, 4, UNIT)),
    Case("nbdtri", inverse(negative_binomial_cdf, "nbdtri"), (3, 4, UNIT), 1e-11, 1e-9),
    Case("nbdtrik", inverse(negative_binomial_cdf, "nbdtrik", 0, 0), ([0.4, 0.8], [3.0, 5.5], [0.3, 0.7]), 1e-11, 1e-8),
    Case("nbdtrin", inverse(negative_binomial_cdf, "nbdtrin", 1, 1), ([3.0, 5.5], [0.4, 0.8], [0.3, 0.7]), 1e-11, 1e-8),
    Case(
        "chndtr", noncentral_chi_square, ([0.3, 7.0, 60.0, 3.0], 2.5, [1.5, 1e-7, 40.0, 0.4]), 1e-12, 1e-10, digits=60
    ),
    Case("chndtr", noncentral_chi_square, ([0.3, 7.0, 30.0], 0.7, [1.5, 3.0, 10.0]), 1e-12, 1e-10, digits=60),
    Case(
        "chndtrix",
        inverse(noncentral_chi_square, "chndtrix", 0, 0),
        ([0.2, 0.7], 2.5, [1.5, 6.0]),
        1e-10,
        1e-7,
        digits=40,
    ),
    Case(
        "chndtrinc",
        inverse(noncentral_chi_square, "chndtrinc", 2, 2),
        ([3.0, 8.0], 2.5, [0.4, 0.3]),
        1e-10,
        1e-7,
        digits=40,
    ),
    Case("kolmogorov", kolmogorov, ([0.05, 0.2, 0.79, 0.81, 1.3, 4.0],)),
    Case("kolmogi", inverse(kolmogorov, "kolmogi"), ([1e-5, 0.2, 0.7, 0.99],), 1e-11, 1e-9),
    Case(
        "nrdtrimn",
        lambda p, s, x: x - s * mp.sqrt(2) * mp.erfinv(2 * p - 1),
        ([0.2, 0.9], [1.0, 2.0], [3.0, 4.0]),
        1e-12,
    ),
    Case(
        "nrdtrisd",
        lambda m, p, x: (x - m) / (mp.sqrt(2) * mp.erfinv(2 * p - 1)),
        ([0.2, 0.9], [0.2, 0.7], [3.0, 4.0]),
        1e-12,
    ),
    Case(
        "owens_t",
        lambda h, a: mp.quad(lambda t: mp.exp(-h * h / 2 * (1 + t * t)) / (1 + t * t), [0, a]) / (2 * mp.pi),
        ([0.3, 1.5, -2.0], [0.5, 2.0, 1.0]),
    ),
    # functions implemented in Python
    Case("polygamma", mp.polygamma, (0, [-2.3, 0.02, 1.7, 25.0])),
    Case("polygamma", mp.polygamma, (3, [-2.3, 0.02, 1.7, 25.0])),
    Case("zeta", mp.zeta, ([1.0001, 1.5, 3.0, 5.0, 30.0], [1.0, 0.3, 1e-3, 40.0, 2.0]), 1e-14, 1e-13),
    Case("zeta", mp.zeta, ([-7.5, -2.0, -0.3, 0.0, 0.5, 1.01, 4.0, 30.0],), 1e-13, 1e-12),
    Case("zetac", lambda x: mp.zeta(x) - 1, ([-7.5, -2.0, -0.3, 0.0, 0.5, 1.01, 4.0, 30.0],), 1e-13, 1e-12),
    Case("multigammaln", multigammaln, ([1.1, 2.7, 40.0], 3)),
    Case("comb", mp.binomial, ([5.0, 10.5, 40.0], [2.0, 3.3, 20.5]), 1e-12, 1e-9),
    Case("perm", lambda n, k: mp.rf(n - k + 1, k), ([5.0, 10.5, 40.0], [2.0, 3.3, 20.5]), 1e-12, 1e-9),
    Case("factorial", mp.factorial, ([0.0, 0.5, 4.0, 20.2],)),
    Case("diric", diric, ([-7.0, -0.3, 1e-9, 1e-4, 2.9, 6.2831, 40.0], 4), 1e-12, 1e-10),
    Case("diric", diric, ([-7.0, -0.3, 1e-9, 1e-4, 2.9, 6.2831, 40.0], 7), 1e-12, 1e-10),
    *(
        Case(f"spherical_{name}", lambda n, z, f=f: mp.sqrt(mp.pi / (2 * z)) * f(n + mp.mpf(1) / 2, z), (n, SPHERES))
        for name, f in (("jn", mp.besselj), ("yn", mp.bessely), ("in", mp.besseli), ("kn", mp.besselk))
        for n in (0, 1, 4)
    ),
    Case("legendre_p", mp.legendre, (5, [-1.0, -0.4, 0.0, 0.7, 1.0]), part=0),
    Case("assoc_legendre_p", assoc_legendre, (5, 2, [-0.9, -0.4, 0.0, 0.7]), part=0),
    Case("assoc_legendre_p", assoc_legendre, (4, 3, [-0.9, -0.4, 0.0, 0.7]), part=0),
    Case("sph_legendre_p", sph_legendre, (5, 2, [0.0, 1e-5, 0.4, 2.0, 3.0, 5.5, -0.3]), part=0),
    Case("sph_legendre_p", sph_legendre, (3, 3, [0.0, 1e-5, 0.4, 2.0, 3.0]), part=0),
    # solutions of second-order equations
    Case("airy", mp.airyai, (AXIS,), part=0),
    Case("airy", lambda x: mp.airyai(x, derivative=1), (AXIS,), part=1),
    Case("airy", mp.airybi, (AXIS,), part=2),
    Case("airy", lambda x: mp.airybi(x, derivative=1), (AXIS,), part=3),
    Case("pbdv", mp.pcfd, (1.5, [0.3, 1.7, 3.0]), 1e-12, 1e-10, part=0),
    *(
        Case(name, lambda x, name=name: getattr(mp, name)(0, x), ([0.1, 1.7, 5.0],), 1e-12, 1e-10)
        for name in ("ber", "bei", "ker", "kei")
    ),
    *(
        Case(name, lambda x, f=name[:3]: mp.diff(lambda t: getattr(mp, f)(0, t), x), ([0.1, 1.7, 5.0],), 1e-12, 1e-10)
        for name in ("berp", "beip", "kerp", "keip")
    ),
    # Bessel and Struve
    Case("jve", mp.besselj, (1.5, RIGHT)),
    Case("yve", mp.bessely, (1.5, RIGHT)),
    Case("kn", mp.besselk, (2, RIGHT)),
    Case("yn", mp.bessely, (2, RIGHT)),
    Case("ive", lambda v, x: mp.exp(-x) * mp.besseli(v, x), (2.5, [0.3, 5.0, 39.0, 41.0, 1e3, 1e6]), 3e-13, 1e-9),
    Case("kve", lambda v, x: mp.exp(x) * mp.besselk(v, x), (2.5, [0.3, 5.0, 39.0, 41.0, 1e3, 1e6]), 3e-13, 1e-9),
    Case(
        "i0e",
        lambda x: mp.exp(-abs(x)) * mp.besseli(0, x),
        ([-50.0, -3.0, 0.3, 5.0, 39.0, 41.0, 1e3, 1e6],),
        3e-13,
        1e-9,
    ),
    Case(
        "i1e",
        lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
        ([-50.0, -3.0, 0.3, 5.0, 39.0, 41.0, 1e3, 1e6],),
        3e-13,
        1e-9,
    ),
    Case("k0e", lambda x: mp.exp(x) * mp.besselk(0, x), ([0.3, 5.0, 39.0, 41.0, 1e3, 1e6],), 3e-13, 1e-9),
    Case("k1e", lambda x: mp.exp(x) * mp.besselk(1, x), ([0.3, 5.0, 39.0, 41.0, 1e3, 1e6],), 3e-13, 1e-9),
    Case(
        "kve",
        lambda v, x: mp.exp(x) * mp.besselk(v, x),
        ([1e-8, 0.3, -1.7, 20.0, 150.0, 2.5], [0.01, 1e-5, 3.0, 30.0, 3.0, 1e5]),
        1e-12,
        1e-11,
    ),
    Case("kv", mp.besselk, ([1e-8, 0.3, -1.7, 20.0, 2.5], [0.01, 1e-5, 3.0, 30.0, 300.0]), 1e-12, 1e-11),
    Case("struve", mp.struveh, (1.5, [0.3, 1.7, 6.0]), 1e-12, 1e-11),
    Case("modstruve", mp.struvel, (1.5, [0.3, 1.7, 6.0]), 1e-12, 1e-11),
    Case("itstruve0", integral(lambda t: mp.struveh(0, t)), ([0.3, 1.7, 6.0],), 1e-12),
    Case("itmodstruve0", integral(lambda t: mp.struvel(0, t)), ([0.3, 1.7, 6.0],), 1e-12),
    Case("iti0k0", integral(lambda t: mp.besseli(0, t)), (RIGHT,), part=0),
    Case("itj0y0", integral(lambda t: mp.besselj(0, t)), ([0.3, 1.7, 6.0],), part=0),
    # elliptic integrals and functions
    Case("ellipk", mp.ellipk, (MODULI,)),
    Case("ellipe", mp.ellipe, (MODULI,)),
    Case(
        "ellipkm1",
        lambda p: mp.ellipk(1 - p),
        ([1e-100, 1e-18, 1e-12, 0.3, 0.59, 0.61, 0.999999, 1.3, 4.0],),
        digits=320,
    ),
    Case("ellipj", lambda u, m: mp.ellipfun("sn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 1e-10, part=0),
    Case("ellipj", lambda u, m: mp.ellipfun("cn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 1e-10, part=1),
    Case("ellipj", lambda u, m: mp.ellipfun("dn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 1e-10, part=2),
    Case("ellipkinc", mp.ellipf, ([0.2, 1.3, 3.0, -9.0], [0.3, -2.0, 0.9, 1e-9]), 1e-13, 1e-10),
    Case("ellipeinc", mp.ellipe, ([0.2, 1.3, 3.0, -9.0], [0.3, -2.0, 0.9, 1e-9]), 1e-13, 1e-10),
    Case("elliprf", mp.elliprf, ([0.2, 1.3, 3.0], [0.3, 2.0, 3.0], [5.0, 0.4, 3.0]), 1e-14, 1e-10),
    Case("elliprc", mp.elliprc, ([0.2, 1.3, 3.0], [0.3, 2.0, 3.0]), 1e-14, 1e-10),
    Case("elliprc", principal_rc, ([1.3, 0.2, 5.0], [-2.0, -0.3, -1e-3]), 1e-13, 1e-11),
    Case("agm", mp.agm, ([1.0, 1e-6, 5.0, 1.0000001], [2.0, 1.0, 1e6, 1.0]), 1e-13, 1e-9),
    Case("elliprd", mp.elliprd, ([1e-10, 1.3, 2.0], [1e5, 2.0, 2.0], [0.3, 0.4, 2.0]), 1e-14, 1e-13),
    Case("elliprg", mp.elliprg, ([1e-10, 1.3, 2.0], [1e5, 2.0, 2.0], [0.3, 0.4, 2.0]), 1e-14, 1e-13),
    Case(
        "elliprj",
        mp.elliprj,
        ([1e-6, 1.3, 2.0], [1e3, 2.0, 2.0], [0.3, 0.4, 2.0], [1e4, 3.0, 2.0]),
        1e-14,
        1e-13,
    ),
    # integrals
    Case("voigt_profile", voigt, ([0.3, -3.0, 20.0, 8.0], [0.5, 0.2, 1.0, 2.0], [0.7, 1e-8, 0.3, 30.0]), 1e-13, 1e-11),
    *(Case("itairy", integral(f), ([-4.0, -1.2, 0.7, 3.0],), part=j, digits=40) for j, f in enumerate(AIRY)),
    Case("it2i0k0", integral(lambda t: (mp.besseli(0, t) - 1) / t), (SPHERES,), part=0, digits=40),
    Case("it2j0y0", integral(lambda t: (1 - mp.besselj(0, t)) / t), (SPHERES,), part=0, digits=40),
    Case("besselpoly", bessel_moment, ([0.4, 1.7, 3.0], 1.5, 0.0), 2e-12, 1e-10, digits=40),
    Case("besselpoly", bessel_moment, ([0.4, 1.7, 3.0], 0.5, 1.3), 2e-12, 1e-10, digits=40),
    Case("airye", airy_scaled(mp.airyai, 0, 1), (SCALED,), 1e-12, 1e-9, part=0),
    Case("airye", airy_scaled(mp.airyai, 1, 1), (SCALED,), 1e-12, 1e-9, part=1),
    Case("airye", airy_scaled(mp.airybi, 0, -1), (SCALED,), 1e-12, 1e-9, part=2),
    Case("airye", airy_scaled(mp.airybi, 1, -1), (SCALED,), 2e-12, 1e-9, part=3),
    Case("tklmbda", inverse(tukey_quantile, "tklmbda", 0, 0), ([0.3, -1.2, 1.1], [0.5, -0.5, 0.05]), 1e-12, 1e-10),
    Case("smirnov", smirnov, (5, [0.07, 0.3, 0.85]), 1e-12, 0),
    Case("smirnovi", inverse(smirnov, "smirnovi"), (5, [0.07, 0.3, 0.85]), 1e-12, 0),
    Case("lpmv", lambda m, v, x: assoc_legendre(v, m, x), (0, 3, BALL), 1e-12, 1e-10),
    Case("lpmv", lambda m, v, x: assoc_legendre(v, m, x), (2, 5, BALL), 1e-12, 1e-10),
    # hypergeometric
    Case("hyp0f1", mp.hyp0f1, (1.5, AXIS), 1e-12, 1e-11),
    Case("hyp1f1", mp.hyp1f1, (0.5, 1.5, AXIS), 1e-12, 1e-11),
    Case("hyp2f1", mp.hyp2f1, (0.5, 1.2, 2.3, [-3.0, -0.5, 0.1, 0.6]), 1e-12, 1e-11),
    *(Case("hyp0f1", mp.hyp0f1, ([0.3, 1.5, 6.0], z), 1e-12, 0) for z in (2.0, -9.0)),
    *(
        Case("hyp1f1", mp.hyp1f1, ([0.5, 1.2, 2.0], [1.5, 3.1, 2.5], z), 1e-12, 0)
        for z in (0.7, -4.0, 30.0, -30.0)
    ),
    *(
        Case("hyp2f1", mp.hyp2f1, ([0.5, 1.2, -1.5, 2.0], [0.7, 1.5, 0.3, -2.0], [2.3, 3.1, 1.2, 2.7], z), 1e-12, 0)
        for z in (0.3, -4.0, 0.9)
    ),
    Case("hyperu", mp.hyperu, (0.5, 1.2, [0.3, 1.7, 6.0]), 1e-11, 1e-9),
    # polynomials
    *(Case("eval_legendre", mp.legendre, (n, BALL), 1e-12, 1e-10) for n in (0, 1, 5, 40)),
    Case("eval_chebyt", mp.chebyt, (5, BALL)),
    Case("eval_chebyu", mp.chebyu, (5, BALL)),
    Case("eval_chebyc", lambda n, x: 2 * mp.chebyt(n, x / 2), (4, BALL)),
    Case("eval_chebys", lambda n, x: mp.chebyu(n, x / 2), (4, BALL)),
    Case("eval_sh_legendre", lambda n, x: mp.legendre(n, 2 * x - 1), (4, UNIT)),
    Case("eval_sh_chebyt", lambda n, x: mp.chebyt(n, 2 * x - 1), (4, UNIT)),
    Case("eval_sh_chebyu", lambda n, x: mp.chebyu(n, 2 * x - 1), (4, UNIT)),
    Case("eval_laguerre", lambda n, x: mp.laguerre(n, 0, x), (4, RIGHT)),
    Case("eval_genlaguerre", mp.laguerre, (4, 0.5, RIGHT)),
    Case("eval_gegenbauer", mp.gegenbauer, (4, 0.7, BALL)),
    Case("eval_jacobi", mp.jacobi, (4, 0.7, 1.5, BALL)),
    Case(
        "eval_sh_jacobi",
        lambda n, p, q, x: mp.jacobi(n, p - q, q - 1, 2 * x - 1) / mp.binomial(2 * n + p - 1, n),
        (4, 2.5, 1.5, UNIT),
    ),
    Case("eval_hermite", mp.hermite, (5, AXIS)),
    Case("eval_hermitenorm", lambda n, x: mp.hermite(n, x / mp.sqrt(2)) / mp.sqrt(2) ** n, (4, AXIS)),
]

VALUES = {form: getattr(scipy.special, f"{form}_cv")(1, 3, 1.3) for form in ("pro", "obl")}

#: functions missing from mpmath: operands, the last one differentiated, and the number of results
WAVES = [
    ("mathieu_cem", (2, 1.5, 30.0), 2),
    ("mathieu_sem", (3, 4.0, 100.0), 2),
    *((f"mathieu_mod{kind}", (2, 1.5, 0.7), 2) for kind in ("cem1", "cem2", "sem1", "sem2")),
    *((f"{form}1", (1, 3, 1.3, 0.4), 2) for form in ("pro_ang", "obl_ang")),
    *((form, (1, 3, 1.3, 1.7), 2) for form in ("pro_rad1", "pro_rad2", "obl_rad1", "obl_rad2")),
    *((f"{form}_ang1_cv", (1, 3, 1.3, VALUES[form], 0.4), 2) for form in VALUES),
    *((f"{form}_rad{kind}_cv", (1, 3, 1.3, VALUES[form], 1.7), 2) for form in VALUES for kind in (1, 2)),
    ("it2i0k0", (0.9,), 2),
    ("it2j0y0", (0.9,), 2),
]


def write(everything):
    """Compute missing values of the reference file."""
    known = {} if everything or not DATA.exists() else json.loads(DATA.read_text())
    found = {}
    for case in CASES:
        if case.key not in known:
            print(case.key, flush=True)
        found[case.key] = known.get(case.key) or case.references()
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in found.items()]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write("--all" in sys.argv)
