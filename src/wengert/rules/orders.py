"""Derivatives of the modified Bessel function K in its order, by an integral representation."""

from __future__ import annotations

import numpy as np

from wengert.registry import elementwise
from wengert.rules.composed import dispatched
from wengert.rules.special import between
from wengert.rules.transcendental import kve_partial


@dispatched
def kve_by_order(order, power, v, x):
    """Derivative `order` in v and `power` in x of ``kve``, by the trapezoidal rule.

    kve(v, x) is the integral over t > 0 of exp(-2 x sinh(t / 2)^2) cosh(v t) (DLMF 10.32.9, scaled by exp(x)).
    """
    operands = np.broadcast_arrays(np.asarray(v, dtype=float), np.asarray(x, dtype=float))
    shape = operands[0].shape
    v, x = (np.reshape(a, (-1, 1)) for a in operands)
    with np.errstate(all="ignore"):
        last = np.arccosh(1 + 40 / x) + np.arcsinh(np.abs(v) / x)
        last = last + 40 / np.maximum(x * np.sinh(last) - np.abs(v), 1.0)
        count = last / np.minimum(1 / 16, 1 / (4 * np.sqrt(x)))
        count = int(np.max(np.where(np.isfinite(count), count, 0.0), initial=0.0)) + 2
        t = last / count * np.arange(count + 1)
        rate = -2 * np.sinh(t / 2) ** 2
        rising, falling = np.exp(v * t + rate * x) / 2, np.exp(-v * t + rate * x) / 2
        if order % 2:
            wave = np.where(np.abs(v) * t < 1, np.sinh(v * t) * np.exp(rate * x), rising - falling)
        else:
            wave = rising + falling
        terms = t**order * rate**power * wave
        terms[:, 0] /= 2
        found = np.where(x > 0, np.sum(terms, axis=1, keepdims=True) * last / count, np.nan)
        found = np.where(np.isposinf(x), 0.0, found)
    return np.reshape(found, shape)[()]


elementwise(
    kve_by_order,
    None,
    None,
    lambda y, order, power, v, x: kve_by_order(order + 1, power, v, x),
    lambda y, order, power, v, x: kve_by_order(order, power + 1, v, x),
)
elementwise("scipy.special.kve", lambda y, v, x: kve_by_order(1, 0, v, x), kve_partial)
elementwise("scipy.special.kv", lambda y, v, x: np.exp(-x) * kve_by_order(1, 0, v, x), between("kv", -1, -1))
