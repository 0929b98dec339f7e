"""Jacobians by central differences extrapolated to a step of zero.

References
----------
Ridders (1982), Accurate computation of F'(x) and F'(x)F''(x). Advances in Engineering Software 4(2).
"""

import numpy as np

SHRINK = 1.6  # factor between two steps
STEPS = 12


def jacobian(f, x, step):
    """Return the Jacobian of f at x, of shape ``f(x).shape + x.shape``, and an estimate of the error of each entry."""
    x = np.asarray(x, dtype=float)
    columns = [column(f, x, index, step) for index in np.ndindex(x.shape)]
    shape = columns[0][0].shape + x.shape
    return tuple(np.stack(part, axis=-1).reshape(shape) for part in zip(*columns))


def column(f, x, index, step):
    """Return the derivative with respect to one coordinate, and its error, by Neville's scheme in the squared step."""
    h = step * (abs(x[index]) or 1.0)
    best = error = None
    previous = []
    for _ in range(STEPS):
        current = [(moved(f, x, index, h) - moved(f, x, index, -h)) / (2 * h)]
        factor = 1.0
        for coarse in previous:
            factor *= SHRINK**2
            current.append(current[-1] + (current[-1] - coarse) / (factor - 1))
            spread = np.maximum(abs(current[-1] - current[-2]), abs(current[-1] - coarse))
            if error is None:
                best, error = current[-1], spread
            best = np.where(spread < error, current[-1], best)
            error = np.fmin(spread, error)
        previous, h = current, h / SHRINK
    return best, error


def moved(f, x, index, h):
    """Return f with one coordinate of x moved by h."""
    x = x.copy()
    x[index] += h
    return np.asarray(f(x if x.ndim else float(x)))
