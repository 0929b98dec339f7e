"""Rows of ``scipy.special``: against mpmath at 30 digits, in both modes, twice, and as Programs.

`CASES` gives a function, itself in mpmath, and for each operand the points; those of operands that have no derivative
are numbers.
Functions of one and two operands whose partials are known to a few ulp are in `primitive_cases.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
import scipy.special

import wengert as wg


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@dataclass(frozen=True)
class Case:
    """A call: operands that are lists are differentiated in, `part` picks one of several results."""

    name: str
    f: Callable
    operands: tuple
    rtol: float = 2e-13
    second: float = 2e-11
    part: int | None = None

    @property
    def moving(self):
        return [i for i, x in enumerate(self.operands) if isinstance(x, list)]

    def call(self, *operands):
        y = getattr(scipy.special, self.name)(*operands)
        return y if self.part is None else y[self.part]

    def exact(self, i, order=1):
        """Derivatives in operand i at the points, by mpmath."""
        n = len(self.operands[i])
        columns = [np.resize(x, n) if isinstance(x, list) else [x] * n for x in self.operands]
        with mp.workdps(34):
            found = []
            for at in zip(*columns):
                at = [mp.mpf(float(x)) if not isinstance(x, (int, np.integer)) else int(x) for x in at]
                h = mp.mpf(10) ** -12 * (abs(at[i]) or 1)  # three points, in 34 + 24 digits
                with mp.workdps(70):
                    ahead, here, behind = (self.f(*at[:i], at[i] + k * h, *at[i + 1 :]) for k in (1, 0, -1))
                    difference = (ahead - behind) / (2 * h) if order == 1 else (ahead - 2 * here + behind) / h**2
                found.append(float(mp.re(difference)))
        return np.array(found)

    def of(self, i):
        """The call as a function of operand i, and its points."""
        n = len(self.operands[i])
        fixed = [np.resize(x, n) if isinstance(x, list) else x for x in self.operands]
        return (lambda x: self.call(*fixed[:i], x, *fixed[i + 1 :])), np.array(self.operands[i])


def inverse(cdf, name, i=-1):
    """The inverse of `cdf` in its last operand; starts where SciPy ends."""

    def f(*operands):
        start = getattr(scipy.special, name)(*[float(x) for x in operands])
        x = mp.mpf(float(start))
        for _ in range(5):
            x -= (cdf(*operands[:-1], x) - operands[-1]) / mp.diff(lambda t: cdf(*operands[:-1], t), x)
        return x

    return f


def ratio_of_gammas(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta_cdf(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def f_cdf(m, n, x):
    return beta_cdf(mp.mpf(m) / 2, mp.mpf(n) / 2, m * x / (m * x + n))


def t_cdf(v, t):
    v = mp.mpf(v)
    tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
    return 1 - tail if t > 0 else tail


def integral(g):
    return lambda *x: mp.quad(lambda t: g(*x[:-1], t), [0, x[-1]])


AXIS = [-3.1, -0.6, 0.3, 1.7, 6.0]
RIGHT = [0.02, 0.3, 1.7, 6.0, 25.0]
BALL = [-0.9, -0.3, 0.1, 0.7, 0.95]
UNIT = [0.02, 0.3, 0.6, 0.97]
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
    Case("binom", mp.binomial, ([5.0, 10.5, 40.0, 6.5], [2.0, 3.3, 20.5, 1e-6]), 1e-12, 1e-9),
    # distributions
    Case("gammainc", ratio_of_gammas, (0.3, RIGHT)),
    Case("gammainc", ratio_of_gammas, (9.9, RIGHT)),
    Case("gammainc", ratio_of_gammas, (300.0, [200.0, 290.0, 300.0, 301.0, 400.0])),
    Case("gammaincc", upper, (2.5, RIGHT)),
    Case("gammaincinv", inverse(ratio_of_gammas, "gammaincinv"), (2.5, UNIT), 1e-12),
    Case("gammainccinv", inverse(upper, "gammainccinv"), (2.5, UNIT), 1e-12),
    Case("chdtr", lambda v, x: ratio_of_gammas(v / 2, x / 2), (5.0, RIGHT)),
    Case("chdtrc", lambda v, x: upper(v / 2, x / 2), (40.0, RIGHT)),
    Case("chdtri", inverse(lambda v, x: upper(v / 2, x / 2), "chdtri"), (5.0, UNIT), 1e-12),
    Case("gdtr", lambda a, b, x: ratio_of_gammas(b, a * x), ([0.5, 1.0, 2.0], 3.0, [1.0, 4.0, 2.0])),
    Case("gdtrc", lambda a, b, x: upper(b, a * x), ([0.5, 1.0, 2.0], 3.0, [1.0, 4.0, 2.0])),
    Case(
        "gdtrix",
        inverse(lambda a, b, x: ratio_of_gammas(b, a * x), "gdtrix"),
        ([0.5, 1.0, 2.0], 3.0, [0.2, 0.5, 0.9]),
        1e-11,
        1e-9,
    ),
    Case("pdtr", lambda k, m: upper(k + 1, m), (4, RIGHT)),
    Case("pdtrc", lambda k, m: ratio_of_gammas(k + 1, m), (4, RIGHT)),
    Case("betainc", beta_cdf, (2.5, 0.7, UNIT)),
    Case("betainc", beta_cdf, (200.0, 100.5, [0.5, 0.66, 0.7])),
    Case("betaincc", lambda a, b, x: 1 - beta_cdf(a, b, x), (2.5, 3.0, UNIT)),
    Case("betaincinv", inverse(beta_cdf, "betaincinv"), (2.5, 1.7, UNIT), 1e-12),
    Case("betainccinv", inverse(lambda a, b, x: 1 - beta_cdf(a, b, x), "betainccinv"), (2.5, 1.7, UNIT), 1e-12),
    Case("fdtr", f_cdf, (3.0, 7.0, RIGHT)),
    Case("fdtrc", lambda m, n, x: 1 - f_cdf(m, n, x), (3.0, 7.0, RIGHT)),
    Case("fdtri", inverse(f_cdf, "fdtri"), (3.0, 7.0, UNIT), 1e-12),
    Case("stdtr", t_cdf, (4.5, [-30.0, -1.0, 0.5, 3.0])),
    Case("stdtrit", inverse(t_cdf, "stdtrit"), (4.5, UNIT), 1e-11, 1e-10),
    Case("bdtr", lambda k, n, p: beta_cdf(n - k, k + 1, 1 - p), (3.0, 8, UNIT)),
    Case("bdtrc", lambda k, n, p: beta_cdf(k + 1, n - k, p), (3.0, 8, UNIT)),
    Case("nbdtr", lambda k, n, p: beta_cdf(n, k + 1, p), (3, 4, UNIT)),
    Case("nbdtrc", lambda k, n, p: 1 - beta_cdf(n, k + 1, p), (3, 4, UNIT)),
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
    # second-order equations
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
    Case("struve", mp.struveh, (1.5, [0.3, 1.7, 6.0]), 1e-12, 1e-11),
    Case("modstruve", mp.struvel, (1.5, [0.3, 1.7, 6.0]), 1e-12, 1e-11),
    Case("itstruve0", integral(lambda t: mp.struveh(0, t)), ([0.3, 1.7, 6.0],), 1e-12),
    Case("itmodstruve0", integral(lambda t: mp.struvel(0, t)), ([0.3, 1.7, 6.0],), 1e-12),
    Case("iti0k0", integral(lambda t: mp.besseli(0, t)), (RIGHT,), part=0),
    Case("itj0y0", integral(lambda t: mp.besselj(0, t)), ([0.3, 1.7, 6.0],), part=0),
    # elliptic
    Case("ellipk", mp.ellipk, (MODULI,)),
    Case("ellipe", mp.ellipe, (MODULI,)),
    Case("ellipkm1", lambda p: mp.ellipk(1 - p), ([1e-12, 1e-9, 0.3, 0.59, 0.61, 0.999999, 1.3, 4.0],)),
    Case("ellipj", lambda u, m: mp.ellipfun("sn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 0, part=0),
    Case("ellipj", lambda u, m: mp.ellipfun("cn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 0, part=1),
    Case("ellipj", lambda u, m: mp.ellipfun("dn", u, m=m), ([0.2, 1.3, 3.0], [0.3, 0.6, 0.9]), 1e-12, 0, part=2),
    Case("ellipkinc", mp.ellipf, ([0.2, 1.3, 3.0, -9.0], [0.3, -2.0, 0.9, 1e-9]), 1e-13, 0),
    Case("ellipeinc", mp.ellipe, ([0.2, 1.3, 3.0, -9.0], [0.3, -2.0, 0.9, 1e-9]), 1e-13, 0),
    Case("elliprf", mp.elliprf, ([0.2, 1.3, 3.0], [0.3, 2.0, 3.0], [5.0, 0.4, 3.0]), 1e-14, 0),
    Case("elliprc", mp.elliprc, ([0.2, 1.3, 3.0], [0.3, 2.0, 3.0]), 1e-14, 0),
    Case("agm", mp.agm, ([1.0, 1e-6, 5.0, 1.0000001], [2.0, 1.0, 1e6, 1.0]), 1e-13, 1e-9),
    # hypergeometric
    Case("hyp0f1", mp.hyp0f1, (1.5, AXIS), 1e-12, 1e-11),
    Case("hyp1f1", mp.hyp1f1, (0.5, 1.5, AXIS), 1e-12, 1e-11),
    Case("hyp2f1", mp.hyp2f1, (0.5, 1.2, 2.3, [-3.0, -0.5, 0.1, 0.6]), 1e-12, 1e-11),
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


def label(case):
    return case.name if case.part is None else f"{case.name}[{case.part}]"


every_case = pytest.mark.parametrize("case", CASES, ids=label)


@every_case
def test_both_modes_give_the_derivative(case):
    for i in case.moving:
        f, x = case.of(i)
        exact = case.exact(i)
        scale = np.abs(exact).max() * 1e-3  # near a zero of the derivative the error is that of its terms
        reverse = wg.grad(lambda x: np.sum(f(x)))(x)
        forward = wg.jvp(f, x, np.ones_like(x))[1]
        np.testing.assert_allclose(reverse, exact, rtol=case.rtol, atol=case.rtol * min(scale, 1e-3))
        np.testing.assert_allclose(forward, reverse, rtol=1e-15)


@pytest.mark.parametrize("case", [case for case in CASES if case.second], ids=label)
def test_the_second_derivative_follows_from_the_row(case):
    for i in case.moving:
        f, x = case.of(i)
        exact = case.exact(i, order=2)
        found = wg.jvp(wg.grad(lambda x: np.sum(f(x))), x, np.ones_like(x))[1]
        np.testing.assert_allclose(found, exact, rtol=case.second, atol=case.second)


@every_case
def test_a_program_gives_what_eager_gives(case):
    for i in case.moving:
        f, x = case.of(i)
        program = wg.record(lambda x: np.sum(f(x)), x)
        at = x * (1 - 1e-3)
        np.testing.assert_allclose(program(at), np.sum(f(at)), rtol=1e-13)
        np.testing.assert_allclose(program.grad()(at), wg.grad(lambda x: np.sum(f(x)))(at), rtol=1e-13)
