"""Derivatives of any order of the incomplete gamma and beta functions in their parameters.

The derivative of a density in a parameter is the density times a polynomial in logarithms (a Bell polynomial of the
cumulants), and the derivative of the distribution function is its integral.
The integral is taken over the side of the argument on which the first derivative has one sign, so nothing cancels.
The integrals use the double exponential formula of Takahasi and Mori (1974) in the logarithm or logit of the argument,
where the density is smooth and decays exponentially.
The derivatives are therefore as accurate as the density.
"""

from __future__ import annotations

from itertools import accumulate
from math import comb, pi
from operator import truediv

import numpy as np

from wengert.registry import elementwise, facts
from wengert.rules.composed import dispatched
from wengert.rules.shapes import reshaped, shape_of
from wengert.rules.special import DIGAMMA_SERIES, digamma_rise, series, sp

#: nodes and weights of the double exponential formula over (0, inf), in units of the integrand's decay length
_STEP = 1 / 16
_ABSCISSAE = np.arange(-60, 76) * _STEP
_NODES = np.exp(_ABSCISSAE - np.exp(-_ABSCISSAE))
_WEIGHTS = _STEP * _NODES * (1 + np.exp(-_ABSCISSAE))


# ---- densities

#: coefficients of Stirling's series of log(gamma(a)) in powers of 1 / a^2 (DLMF 5.11.1)
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]


def deviance(x, a):
    """Return t - log(1 + t) at t = x / a - 1, without cancellation where x is near `a` (about t^2 / 2)."""
    t = (x - a) / a
    small = np.less(np.abs(t), 0.3)
    inner, quotient = np.where(small, t, 0.0), np.where(small, 2.0, x / a)
    r = inner / (2 + inner)
    near = r * inner - 2 * r**3 * series(r * r, [1 / (2 * k + 3) for k in range(12)])
    return np.where(small, near, quotient - 1 - np.log(quotient))


def gamma_density(a, x):
    """Return x^(a - 1) exp(-x) / gamma(a)."""
    large = np.greater_equal(a, 10.0)
    big, low = np.where(large, a, 10.0), np.where(large, 1.0, a)
    at = np.where(large, x, 10.0)
    stirling = series(1 / (big * big), _STIRLING) / big
    far = np.exp(-stirling - big * deviance(at, big)) * np.sqrt(big / (2 * pi)) / np.where(np.equal(at, 0), 1.0, at)
    return np.where(large, far, np.power(x, low - 1) * np.exp(-x) * sp.rgamma(low))


def beta_density(a, b, x, rest):
    """Return x^(a - 1) (1 - x)^(b - 1) / beta(a, b) as a ratio of gamma densities; `rest` is 1 - x."""
    n = a + b
    return n * gamma_density(a, n * x) * gamma_density(b, n * rest) / gamma_density(n, n)


# ---- cumulants and Bell polynomials


def polygamma(n, x):
    """Derivative n > 0 of digamma (DLMF 25.11.12)."""
    return (-1) ** (n + 1) * sp.gamma(n + 1.0) * sp.zeta(n + 1.0, x)


def bell(n, cumulants):
    """Return the complete Bell polynomial, exp(-f) d^n exp(f); `cumulants` are the derivatives 1, ..., n of f."""
    found = [1.0]
    for k in range(n):
        found.append(sum(comb(k, i) * found[k - i] * cumulants[i] for i in range(k + 1)))
    return found[n]


def log_over_digamma(x, a):
    """Return log(x) - digamma(a), also where `a` is large and both are close."""
    large = np.greater(a, 10.0)
    big = np.where(large, a, 10.0)
    gap = series(1 / (big * big), DIGAMMA_SERIES) / (big * big) + 1 / (2 * big)
    near = large & np.less(np.abs(x - a), 0.5 * a)
    ratio = np.where(near, np.log1p(np.where(near, (x - a) / big, 0.0)), np.log(x) - np.log(big))
    return np.where(large, ratio + gap, np.log(x) - sp.digamma(np.where(large, 1.0, a)))


def node_columns(*operands):
    """Broadcast operands to arrays with a trailing axis for the nodes; also return the shape of the result."""
    operands = np.broadcast_arrays(*(np.multiply(x, 1.0) for x in operands))
    return [reshaped(x, (-1, 1)) for x in operands], shape_of(operands[0])


# ---- the gamma distribution


def gamma_density_slope(order, a, x):
    """Derivative `order` of x^(a - 1) exp(-x) / gamma(a) in `a`."""
    return gamma_density(a, x) * bell(order, [log_over_digamma(x, a), *(-polygamma(n, a) for n in range(1, order))])


def gamma_factor(order, a, logs, slopes):
    """Derivative in `a` of t^(a - 1) / gamma(a), divided by t^(a - 1) / gamma(a + 1), which is regular at small `a`.

    `logs` is log(t) - digamma(a + 1), and `slopes` are its further derivatives in `a`.
    """
    parts = [logs, *slopes]
    return a * bell(order, parts) + (order * bell(order - 1, parts) if order else 0.0)


@dispatched
def gammainc_by_parameter(order, a, x):
    """Derivative of ``gammainc`` in its parameter; `order` >= 1."""
    (a, x), shape = node_columns(a, x)
    with np.errstate(all="ignore"):
        is_lower = np.less(log_over_digamma(x, a + 1), 0)
        up = is_lower & np.less(a, 1.0)  # P(a, x) = P(a + 1, x) + x^a exp(-x) / gamma(a + 1)
        here = np.where(up, a + 1, a)
        step = np.where(up, x * gamma_density_over(order, a, x), 0.0)
        lower, upper = np.where(is_lower, x, here / 2), np.where(is_lower, here + 1, x)
        slopes = [-polygamma(n, here + 1) for n in range(1, order)]
        side, gap = np.where(is_lower, lower, upper), np.where(is_lower, here - lower, upper - here)
        logs = log_over_digamma(side, here + 1)
        scale = 1 / (np.maximum(gap, 0) + np.sqrt(side))
        u = scale * _NODES
        signed = np.where(is_lower, -u, u)
        size = np.exp(-gap * u - side * exponential_rest(signed))
        factor = gamma_factor(order, here, logs + signed, slopes)
        total = scale * np.sum(_WEIGHTS * np.where(size > 0, size * factor, 0.0), axis=1, keepdims=True)
        found = step + np.where(is_lower, 1, -1) * total * x * gamma_density(here, x) / here
        found = np.where((x == 0) & (a > 0), 0.0, np.where((x > 0) & (a > 0), found, np.nan))
    return np.reshape(np.where(np.isposinf(x), 0.0, found), shape)[()]


def gamma_density_over(order, a, x):
    """Derivative `order` of x^(a - 1) exp(-x) / gamma(a + 1) in `a`."""
    return (
        gamma_density(a + 1, x)
        / x
        * bell(order, [log_over_digamma(x, a + 1), *(-polygamma(n, a + 1) for n in range(1, order))])
    )


def exponential_rest(u):
    """Return exp(u) - 1 - u without cancellation."""
    small = np.less(np.abs(u), 0.5)
    inner = np.where(small, u, 0.0)
    near = inner * inner * series(inner, _REST)
    return np.where(small, near, np.expm1(u) - u)


_REST = [*accumulate(range(3, 18), truediv, initial=0.5)]  # 1 / k! for k = 2, 3, ...

elementwise(
    gammainc_by_parameter,
    None,
    lambda y, order, a, x: gammainc_by_parameter(order + 1, a, x),
    lambda y, order, a, x: gamma_density_slope(order, a, x),
    body=gammainc_by_parameter.__wrapped__,
)

# ---- the beta distribution

#: exponent of 1 - t from which nodes for an exponentially decaying integrand are accurate.
#: It is below 1/2, the exponent of one degree of freedom, so that programs recorded there are valid around it.
MIN_DECAY = 0.49


def beta_terms(i, j, a, b, logs, logs_rest, first=None):
    """Derivative (i, j) of t^a (1 - t)^b / beta(a, b) in (a, b), divided by the function.

    `logs` is log(t) - digamma(a) + digamma(a + b), and `logs_rest` the same for 1 - t and b.
    If 1 / gamma(a + 1) replaces the factor 1 / gamma(a), `first` is a + 1.
    """
    found = {(0, 0): 1.0}
    first = a if first is None else first

    def cumulant(p, q):
        if p + q == 1:
            return logs if p else logs_rest
        both = polygamma(p + q - 1, a + b)
        return both - polygamma(p - 1, first) if q == 0 else both - polygamma(q - 1, b) if p == 0 else both

    def moment(p, q):
        if (p, q) not in found:
            if p:  # one more derivative in a than (p - 1, q)
                terms = [
                    comb(p - 1, r) * comb(q, s) * moment(p - 1 - r, q - s) * cumulant(r + 1, s)
                    for r in range(p)
                    for s in range(q + 1)
                ]
            else:
                terms = [comb(q - 1, s) * moment(0, q - 1 - s) * cumulant(0, s + 1) for s in range(q)]
            found[p, q] = sum(terms)
        return found[p, q]

    return moment(i, j)


def beta_density_slope(i, j, a, b, x, rest):
    """Derivative (i, j) of the beta density in (a, b)."""
    logs, logs_rest = log_of(x, rest) + digamma_rise(a, b), log_of(rest, x) + digamma_rise(b, a)
    return beta_density(a, b, x, rest) * beta_terms(i, j, a, b, logs, logs_rest)


def log_of(x, rest):
    """Return log(x), where `rest` is 1 - x."""
    return np.where(np.less(x, 0.5), np.log(x), np.log1p(-rest))


def beta_slope(i, j, a, b, x, rest):
    """Derivative (i, j), i > 0, of ``betainc`` in (a, b) without loss of digits; `rest` is 1 - x."""
    columns, shape = node_columns(a, b, x, rest)
    is_wide = np.less(columns[1], MIN_DECAY)[:, 0]
    found = np.empty_like(columns[0])
    for some in (is_wide, ~is_wide):
        if some.any():
            found[some] = beta_integral(i, j, *(z[some] for z in columns), some is is_wide)
    return np.reshape(found, shape)[()]


@dispatched
def narrow_beta_slope(i, j, a, b, x, rest):
    """Compute `beta_slope` for b >= `MIN_DECAY`, without a branch."""
    columns, shape = node_columns(a, b, x, rest)
    return reshaped(beta_integral(i, j, *columns, False), shape)[()]


def beta_integral(i, j, a, b, x, rest, is_wide):
    with np.errstate(all="ignore"):
        found = _beta_integral(i, j, a, b, x, rest, is_wide)
        found = np.where((x == 0) | (rest == 0), 0.0, found)
        return np.where((a > 0) & (b > 0) & (x >= 0) & (rest >= 0), found, np.nan)


def _beta_integral(i, j, a, b, x, rest, is_wide):
    # the sign of the integrand changes at log(t) = digamma(a) - digamma(a + b)
    logs = log_of(x, rest)
    up = np.less(a, 1.0) & np.less(logs + digamma_rise(a + 1, b), 0)
    step = 0.0 if type(up) is np.ndarray and not up.any() else np.where(up, beta_step(i, j, a, b, x, rest), 0.0)
    a = np.where(up, a + 1, a)  # I(a, b) = I(a + 1, b) + x^a (1 - x)^b / (a beta(a, b))
    is_lower = np.less(logs + digamma_rise(a, b), 0)
    near, far = np.where(is_lower, x, rest), np.where(is_lower, rest, x)
    power, other = np.where(is_lower, a, b), np.where(is_lower, b, a) - 1
    # substitute near exp(-u) for the near side: the integrand decays like exp(-power u)
    if is_wide:
        u, weights = _wide_nodes(power, far)
    else:
        scale = 1 / (np.maximum(power - other * near / far, 0) + np.sqrt(np.maximum(other, 0) * near) / far)
        u, weights = scale * _NODES, scale * _WEIGHTS
    size = np.exp(-power * u + other * np.log1p(-near * np.expm1(-u) / far))
    fallen, risen = log_of(near, far) - u, np.log1p(-near * np.exp(-u))
    logs = np.where(is_lower, fallen, risen) + digamma_rise(a, b)
    logs_rest = np.where(is_lower, risen, fallen) + digamma_rise(b, a)
    factor = np.where(size > 0, beta_terms(i, j, a, b, logs, logs_rest), 0.0)
    total = np.sum(weights * size * factor, axis=1, keepdims=True)
    return step + np.where(is_lower, 1, -1) * total * beta_density(a, b, x, rest) * near


def _wide_nodes(power, far, count=400):
    """Nodes evenly spaced in log(u): the integrand has features on all scales down to `far`."""
    low, high = np.log(1e-17 * np.minimum(far, 1) / np.maximum(power, 1)), np.log(60 / power)
    step = (high - low) / count
    u = np.exp(low + step * np.arange(count))
    return u, step * u


def beta_step(i, j, a, b, x, rest):
    """Derivative (i, j) of x^a (1 - x)^b gamma(a + b) / (gamma(a + 1) gamma(b)) in (a, b)."""
    logs = log_of(x, rest) + digamma_rise(a + 1, b) - 1 / (a + b)
    logs_rest = log_of(rest, x) + digamma_rise(b, a)
    size = beta_density(a + 1, b, x, rest) * rest / (a + b)
    return size * beta_terms(i, j, a, b, logs, logs_rest, a + 1)


@dispatched
def betainc_by_parameters(i, j, a, b, x, rest):
    """Derivative (i, j) of ``betainc`` in its parameters, i + j >= 1; `rest` is 1 - x."""
    return beta_slope(i, j, a, b, x, rest) if i else -beta_slope(j, 0, b, a, rest, x)


def beta_slope_by_parameters(i, j, a, b, x, rest):
    """Compute `betainc_by_parameters`, by a function that programs can inline if the parameters permit it."""
    if np.any(np.less(b if i else a, MIN_DECAY)):
        return betainc_by_parameters(i, j, a, b, x, rest)
    return narrow_beta_slope(i, j, a, b, x, rest) if i else -narrow_beta_slope(j, 0, b, a, rest, x)


for fun in (betainc_by_parameters, narrow_beta_slope):
    elementwise(
        fun,
        None,
        None,
        lambda y, i, j, a, b, x, rest: beta_slope_by_parameters(i + 1, j, a, b, x, rest),
        lambda y, i, j, a, b, x, rest: beta_slope_by_parameters(i, j + 1, a, b, x, rest),
        lambda y, i, j, a, b, x, rest: beta_density_slope(i, j, a, b, x, rest),
        0.0,  # `rest` is 1 - x: the partial in x accounts for it
    )
facts(narrow_beta_slope, body=narrow_beta_slope.__wrapped__)
