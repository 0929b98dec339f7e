"""Solutions of differential equations and their derivatives to 20 digits, for `benchmarks.integration_accuracy`.

Steps are those of the Radau IIA collocation methods, which are L-stable and, with s stages, of
order 2 s - 1.  Numbers are double-doubles, with 31 digits, and carry their tangents in parameters and initial states.
The equations of a step are solved by Newton's method with factors in ordinary numbers, whose errors are those of the
directions only.  A step is accepted if the last Legendre coefficients of the slopes in it are negligible.

References
----------
Hairer and Wanner (1996), Solving Ordinary Differential Equations II, section IV.5.
Dekker (1971), A floating-point technique for extending the available precision. doi:10.1007/BF01397083
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import mpmath
import numpy as np
from scipy.linalg import lu_factor, lu_solve

SPLIT = 2.0**27 + 1.0  # Dekker's constant

#: largest accepted last coefficients of the slopes, relative to the state; relative change at which iterations end, and
#: below which they end if it stagnates
TOLERANCE, CONVERGED, NEARLY = 1e-21, 1e-27, 1e-23

MAX_ITERATIONS = 12


# ---- double-doubles


def exact_sum(a, b):
    """Return the rounded sum and its error."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def exact_product(a, b):
    """Return the rounded product and its error."""
    p = a * b
    x, y = SPLIT * a, SPLIT * b
    a1, b1 = x - (x - a), y - (y - b)
    a2, b2 = a - a1, b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def added(a, b):
    """Return the sum of two pairs."""
    s, e = exact_sum(a[0], b[0])
    t, f = exact_sum(a[1], b[1])
    s, e = exact_sum(s, e + t)
    return exact_sum(s, e + f)


def multiplied(a, b):
    """Return the product of two pairs."""
    p, e = exact_product(a[0], b[0])
    return exact_sum(p, e + (a[0] * b[1] + a[1] * b[0]))


def pair(x) -> tuple:
    """Return the pair of a number of mpmath."""
    high = float(x)
    return high, float(x - high)


class Jet:
    """Double-doubles with tangents; the leading axes of the parts are the value with its tangents, and the stages.

    Functions and indices apply to the other axes, so that functions written for arrays take these in their place.
    """

    __array_ufunc__ = None

    def __init__(self, high, low):
        self.parts = high, low

    @classmethod
    def of(cls, x):
        """Return a constant; other than a jet, a number or an array."""
        x = np.asarray(x, dtype=float)[None, None]
        return cls(x, np.zeros_like(x))

    def map(self, f: Callable) -> Jet:
        """Apply a function to both parts."""
        return Jet(*map(f, self.parts))

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        return self.map(lambda x: x[(slice(None), slice(None), *key)])

    def __len__(self):
        return self.parts[0].shape[2]

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    @property
    def size(self):
        return int(np.prod(self.parts[0].shape[2:]))

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        return self.map(lambda x: x.reshape(*x.shape[:2], *shape))

    def ravel(self):
        return self.reshape(-1)

    def __neg__(self):
        return self.map(np.negative)

    def __add__(self, other):
        return Jet(*added(*aligned(self, other, True)))

    def __sub__(self, other):
        return self + -other

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        if not isinstance(other, Jet):
            return Jet(*multiplied(*aligned(self, other)))
        x, y = aligned(self, other)
        found = multiplied([part[:1] for part in x], y)
        if len(x[0]) > 1:
            more = multiplied([part[1:] for part in x], [part[:1] for part in y])
            rest = added([part[1:] for part in found], more) if len(y[0]) > 1 else more
            found = [np.concatenate([part[:1], each]) for part, each in zip(found, rest)]
        return Jet(*found)

    __radd__, __rmul__ = __add__, __mul__

    def seeded(self) -> Jet:
        """Return the value with tangents in its own elements, whose axis is the last one."""
        high, low = self.parts
        n = high.shape[-1]
        tangents = np.broadcast_to(np.eye(n)[:, None], (n, *high.shape[1:]))
        return Jet(np.concatenate([high[:1], tangents]), np.concatenate([low[:1], np.zeros_like(tangents)]))

    def inverse(self) -> Jet:
        """Return the reciprocal, by Newton's method; each iteration doubles the digits, also of the tangents."""
        x = Jet(1.0 / self.parts[0][:1], np.zeros_like(self.parts[0][:1]))
        for _ in range(4):
            x = x * (2.0 - self * x)
        return x

    def sqrt(self) -> Jet:
        """Return the square root."""
        x = Jet(1.0 / np.sqrt(self.parts[0][:1]), np.zeros_like(self.parts[0][:1]))
        for _ in range(4):
            x = x * (1.5 - 0.5 * (self * x * x))
        return self * x

    def __truediv__(self, other):
        return self * (other.inverse() if isinstance(other, Jet) else Jet.of(other).inverse())

    def __rtruediv__(self, other):
        return self.inverse() * other

    def __pow__(self, n):
        if n == 1.5:
            return self * self.sqrt()
        return functools.reduce(Jet.__mul__, [self] * n)

    def __array_function__(self, f, types, args, kwargs):
        first, *rest = args
        if f is np.roll:
            shift, axis = rest
            return self.map(lambda x: np.roll(x, shift, axis + 2))
        if f not in (np.stack, np.concatenate):
            return NotImplemented
        shapes = [x.parts[0].shape[:2] for x in first]
        lead = tuple(map(max, zip(*shapes)))
        return Jet(*[
            f([np.concatenate([x.parts[k], np.zeros((lead[0] - len(x.parts[k]), *x.parts[k].shape[1:]))])
               for x in first], axis=2)
            for k in (0, 1)
        ])  # fmt: skip


def aligned(x, y, adds=False):
    """Return the parts of both operands, with equal numbers of axes; a sum needs the tangents of constants too."""
    y = y if isinstance(y, Jet) else Jet.of(y)
    ndim = max(x.parts[0].ndim, y.parts[0].ndim)
    rows = max(len(x.parts[0]), len(y.parts[0]))

    def like(part):
        part = part.reshape(*part.shape[:2], *[1] * (ndim - part.ndim), *part.shape[2:])
        if len(part) < rows and (adds or len(part) > 1):
            part = np.concatenate([part, np.zeros((rows - len(part), *part.shape[1:]))])
        return part

    return [[like(part) for part in each.parts] for each in (x, y)]


# ---- the method


@functools.cache
def coefficients(s: int) -> tuple:
    """Return the matrix and the weights of the last two Legendre coefficients of the method with `s` stages, as pairs.

    The pairs are along the last axis.
    """
    with mpmath.workdps(60):
        roots = np.polynomial.legendre.Legendre([0.0] * (s - 1) + [-1.0, 1.0]).roots().real
        nodes = [mpmath.findroot(functools.partial(nodal, s), mpmath.mpf(float(x))) for x in sorted(roots)[:-1]]
        nodes.append(mpmath.mpf(1))
        vander = mpmath.matrix(s, s)
        integrals = mpmath.matrix(s, s)
        for i, x in enumerate(nodes):
            for k in range(s):
                vander[i, k] = mpmath.legendre(k, x)
                below = mpmath.legendre(k - 1, x) if k else -1  # the integral of P_0 is x + 1
                integrals[i, k] = (mpmath.legendre(k + 1, x) - below) / (2 * k + 1) / 2
        inverse = vander**-1
        matrix = integrals * inverse
        last = [[pair(inverse[k, j]) for j in range(s)] for k in (s - 2, s - 1)]
        return np.array([[pair(matrix[i, j]) for j in range(s)] for i in range(s)]), np.array(last)


def nodal(s, x):
    """Return the polynomial whose zeros on [-1, 1] are the nodes, of which 1 is one."""
    return mpmath.legendre(s, x) - mpmath.legendre(s - 1, x)


def contracted(weights, x: Jet) -> Jet:
    """Return the product of a matrix of pairs with the axis of stages."""
    found = None
    for j in range(weights.shape[1]):
        w = [weights[None, :, j, k].reshape(1, -1, *[1] * (x.parts[0].ndim - 2)) for k in (0, 1)]
        term = multiplied(w, [part[:, j : j + 1] for part in x.parts])
        found = term if found is None else added(found, term)
    return Jet(*found)


def solution(rate: Callable, p: np.ndarray, start: np.ndarray, end: float, s: int = 20) -> tuple:
    """Return the final state and its Jacobian in parameters and initial state, as pairs of arrays; and the steps.

    Parameters
    ----------
    rate : callable
        ``rate(t, y, p)``, which must not depend on the time, for jets in place of arrays.
    p, start : ndarray
        Parameters and initial state.
    end : float
        The time; the start is 0.
    s : int
        Number of stages.
    """
    count = p.size + start.size
    x = np.concatenate([np.concatenate([p, start])[None], np.eye(count)])[:, None]
    parameters, y = (Jet(part, np.zeros_like(part)) for part in (x[..., : p.size], x[..., p.size :]))
    matrix, last = coefficients(s)
    largest = np.abs(y.parts[0])
    t, h, steps = (0.0, 0.0), 1e-6 * end, 0
    while True:
        rest = added((end, 0.0), (-t[0], -t[1]))
        is_last = h >= rest[0]
        size = rest if is_last else (h, 0.0)
        found, error = stages(rate, parameters, y, size, matrix), np.inf
        if found is not None:
            new = found[0].map(lambda part: part[:, -1:].copy())
            now = np.maximum(largest, np.abs(new.parts[0]))
            scale = np.maximum(now, 1e-6 * now.max(axis=2, keepdims=True))
            error = size[0] * np.max(np.abs(contracted(last, found[1]).parts[0]) / np.where(scale > 0.0, scale, 1.0))
        if error <= TOLERANCE:
            t, y, largest, steps = added(t, size), new, now, steps + 1
            if is_last:
                break
        h = size[0] * float(np.clip(0.8 * (TOLERANCE / max(error, 1e-300)) ** (1.0 / s), 0.3, 2.0))
    value, tangents = ([part[rows, 0] for part in y.parts] for rows in (0, slice(1, None)))
    return value, [part.T for part in tangents], steps


def stages(rate, parameters, y, size, matrix):
    """Return the states and slopes at the stages of a step, or None if the iterations do not converge.

    The stages are solved first; the tangents then reuse the last factorisation.
    """
    s, n = len(matrix), len(y)
    plain, value = (x.map(lambda part: part[:1]) for x in (parameters, y))

    def residual(state):
        rows = len(state.parts[0])
        slopes = rate(None, state, parameters if rows > 1 else plain)
        moved = multiplied(contracted(matrix, slopes).parts, [np.array(part) for part in size])
        return slopes, (y if rows > 1 else value) + Jet(*moved) - state

    def factors(state):
        jacobians = np.moveaxis(rate(None, state.seeded(), plain).parts[0][1:], 0, -1)  # stages, rows, columns
        blocks = np.eye(s * n).reshape(s, n, s, n) - size[0] * np.einsum("ij,jab->iajb", matrix[..., 0], jacobians)
        return lu_factor(blocks.reshape(s * n, s * n))

    state = value.map(lambda part: np.repeat(part, s, axis=1))
    for makes_factors in (True, False):
        change = np.inf
        for _ in range(MAX_ITERATIONS):
            before, (_, r) = change, residual(state)
            if makes_factors:
                lu = factors(state)
            d = lu_solve(lu, np.moveaxis(r.parts[0].reshape(-1, s * n), 0, -1)).T.reshape(-1, s, n)
            if not np.isfinite(d).all():
                return None
            state, change = state + Jet(d, np.zeros_like(d)), largest_ratio(d, state)
            if change <= CONVERGED or (change < NEARLY and change > 0.1 * before):
                break
        else:
            return None
        if makes_factors:
            tangents = y.map(lambda part: np.repeat(part[1:], s, axis=1))
            state = Jet(*[np.concatenate(parts) for parts in zip(state.parts, tangents.parts)])
    return state, residual(state)[0]


def largest_ratio(d, state):
    """Return the largest of changes relative to the magnitudes of states and tangents, or to those of the largest."""
    scale = np.abs(state.parts[0]).max(axis=1, keepdims=True)
    scale = np.maximum(scale, 1e-12 * scale.max(axis=2, keepdims=True))
    return np.max(np.abs(d) / np.where(scale > 0.0, scale, 1.0))
