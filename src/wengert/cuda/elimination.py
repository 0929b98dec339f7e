"""Small linear systems as scalar code: Gaussian elimination with partial pivoting; rows are swapped by selects.

Differentiating the algorithm is exact: where two pivots tie, both choices give the same function.
A singular matrix gives non-finite results, since a thread cannot raise an exception.
"""

import math

import numpy as np

#: maximum number of rows; larger matrices would give programs of many thousands of instructions
MAX_ROWS = 16


def solve(of, a, b):
    x = _solved(of, a, b[:, None] if np.ndim(b) == 1 else b)[0]
    return x[:, 0] if np.ndim(b) == 1 else x


def inv(of, a):
    return _solved(of, a, np.eye(len(a)))[0]


def det(of, a):
    _, upper, sign = _solved(of, a, np.zeros((len(a), 0)))
    return math.prod(np.diag(upper).tolist(), start=sign)


def _solved(of, a, b):
    """Return the solution, the upper triangular factor, and the sign of the permutation."""
    if np.ndim(a) != 2 or np.ndim(b) != 2 or len(a) > MAX_ROWS:
        raise TypeError(f"only single matrices of at most {MAX_ROWS} rows are supported")
    n = len(a)
    rows = np.concatenate([a, b], axis=1, dtype=object)
    sign = of.as_symbol(1.0)
    for k in range(n):
        for i in range(k + 1, n):
            is_larger = of.apply("greater", of.apply("absolute", rows[i, k]), of.apply("absolute", rows[k, k]))
            upper, lower = rows[k, k:].copy(), rows[i, k:].copy()
            rows[k, k:] = [of.apply("where", is_larger, y, x) for x, y in zip(upper, lower)]
            rows[i, k:] = [of.apply("where", is_larger, x, y) for x, y in zip(upper, lower)]
            sign = of.apply("where", is_larger, -sign, sign)
        for i in range(k + 1, n):
            factor = rows[i, k] / rows[k, k]
            rows[i, k + 1 :] -= factor * rows[k, k + 1 :]
    x = rows[:, n:]
    for k in reversed(range(n)):
        x[k] = (x[k] - rows[k, k + 1 : n] @ x[k + 1 :]) / rows[k, k] if k < n - 1 else x[k] / rows[k, k]
    return x, rows[:, :n], sign
