"""Derivatives of closed forms by mpmath, and the errors of wengert's derivatives relative to them.

The forms are computed with 100 digits, and their derivatives by central differences of step 1e-20, which keep 40.
"""

from __future__ import annotations

from typing import NamedTuple

import mpmath as mp
import numpy as np

import wengert as wg

DIGITS, STEP = 100, mp.mpf(10) ** -20


class Row(NamedTuple):
    """A function of an array, its closed form as a function of numbers, and a point.

    Functions return numbers, arrays, or tuples of them.  `value`, `first` and `second` limit relative errors.
    The result of an `inverse` function is the first argument of the form, and its first argument the form's result.
    """

    f: object
    form: object
    point: list
    first: float = 1e-13
    second: float = 1e-13
    value: float = 1e-12
    inverse: float | None = None  # a guess of the result
    order: int = 2


def elements(y):
    """Yield the numbers of nested sequences and matrices."""
    if isinstance(y, mp.matrix):
        y = y.tolist()
    if isinstance(y, (list, tuple, np.ndarray)):
        for part in y:
            yield from elements(part)
    else:
        yield y


def total(y):
    """Return a weighted sum of the elements, so that every function has a scalar value."""
    found = mp.fsum((k + 1) * value for k, value in enumerate(elements(y)))
    return found.real + 2 * found.imag


def weighted(y):
    flat = np.concatenate([np.ravel(part) for part in y]) if isinstance(y, (tuple, list)) else np.ravel(y)
    found = np.sum((np.arange(np.size(flat)) + 1) * flat)
    return np.real(found) + 2 * np.imag(found) if np.iscomplexobj(found) else found


def derivatives(form, x, order=2):
    """Return the value, the gradient and the Hessian as arrays of numbers of mpmath."""
    h, n = STEP, len(x)

    def at(*moves):
        z = list(x)
        for i, step in moves:
            z[i] += step
        return total(form(*z))

    y = at()
    ends = [(at((i, h)), at((i, -h))) for i in range(n)]
    gradient = np.array([(up - down) / (2 * h) for up, down in ends])
    hessian = np.array([[mp.mpf(0)] * n] * n)
    for i in range(n if order == 2 else 0):
        hessian[i, i] = (ends[i][0] - 2 * y + ends[i][1]) / h**2
        for j in range(i):
            both = at((i, h), (j, h)) - at((i, h), (j, -h)) - at((i, -h), (j, h)) + at((i, -h), (j, -h))
            hessian[i, j] = hessian[j, i] = both / (4 * h**2)
    return y, gradient, hessian


def inverse_derivatives(form, x, guess):
    """Differentiate the solution q of form(q, *x[1:]) = x[0] implicitly."""
    start = mp.mpf(guess)
    q = mp.findroot(lambda q: form(q, *x[1:]) - x[0], (start, start * (1 - mp.mpf(10) ** -15)))
    _, g, h = derivatives(form, [q, *x[1:]])
    in_x, mixed, curvature = g.copy(), h[0].copy(), h.copy()  # of form(q, *x[1:]) - x[0]
    in_x[0], mixed[0], curvature[0], curvature[:, 0] = -1, 0, 0, 0
    slope = -in_x / g[0]
    bend = curvature + np.outer(mixed, slope) + np.outer(slope, mixed) + h[0, 0] * np.outer(slope, slope)
    return q, slope, -bend / g[0]


def references(row):
    with mp.workdps(DIGITS):
        x = list(map(mp.mpf, row.point))
        if row.inverse is not None:
            found = inverse_derivatives(row.form, x, row.inverse)
        else:
            found = derivatives(row.form, x, row.order)
        return [np.array(part, dtype=float) for part in found]


def error(found, exact, floor):
    """Return the largest error relative to the elements, or to `floor` for those that are smaller."""
    return float(np.max(np.abs(found - exact) / np.maximum(np.abs(exact), floor), initial=0))


def errors(row):
    """Return the relative errors of the value, the gradient and the Hessian.

    Derivatives are with respect to relative changes of the operands, so that they have one scale; those below a
    thousandth of the largest one count relative to that.
    """
    function = row.f

    def f(x):
        return weighted(function(x))

    x, (y, first, second) = np.array(row.point, dtype=float), references(row)
    change = np.where(x == 0, 1.0, np.abs(x))
    changes = np.outer(change, change)
    largest = np.max(change * np.abs(first)) or max(abs(float(y)), 1e-300)
    value = error(f(x), y, 1e-3 * largest)
    gradient = error(change * wg.grad(f)(x), change * first, 1e-3 * largest)
    if row.order < 2:
        return value, gradient, np.nan
    largest = max(largest, np.max(changes * np.abs(second)))
    return value, gradient, error(changes * wg.hessian(f)(x), changes * second, 1e-3 * largest)


def limits(row, value):
    """Return the limits of errors of derivatives, which lose digits where SciPy's own value does."""
    return max(row.first, 1e3 * value), max(row.second, 1e4 * value)
