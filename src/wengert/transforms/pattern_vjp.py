"""Pullback of a function whose tangents come from opaque code, computed from columns of its Jacobian.

If the pattern of the Jacobian is known, columns without a common row share a direction, as in Curtis, Powell and Reid
(1974), On the estimation of sparse Jacobian matrices. doi:10.1093/imamat/13.1.117
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.operands import var
from wengert.registry import strong
from wengert.rules.shapes import unbroadcast


class DependencePattern:
    """Dependence pattern of a function's result on each argument: dense unless `sparsity` is given.

    The first pullback for an argument checks the pattern: the product of the compressed Jacobian with a random
    direction must equal the tangent along it.
    """

    def __init__(self, name: str, sparsity: Any = None):
        self.name = name
        self.is_elementwise = isinstance(sparsity, str)
        if self.is_elementwise and sparsity != "elementwise":
            raise ValueError(f"primitive({name}): sparsity must be 'elementwise' or a pattern, not {sparsity!r}")
        if self.is_elementwise or sparsity is None:
            self.patterns = None
        else:
            self.patterns = [_places(p) for p in (sparsity if isinstance(sparsity, tuple) else (sparsity,))]
        self._checked: set[int] = set()

    def cotangent(self, tangent: Callable, i: int, ybar, y, x):
        """Cotangent of `x`, the i-th argument; ``tangent(t)`` maps a tangent of `x` to the tangent of the result."""
        if self.is_elementwise:
            dy = tangent(np.ones(np.shape(x), dtype=x.dtype))
            self._check(i, tangent, x, lambda v: var.plain(dy) * v)
            return unbroadcast(strong(ybar, dy), x)
        groups = self._groups(i, np.size(y), np.size(x))
        columns = [tangent(_indicator(cols, x)) for _, cols in groups]
        if self.patterns is not None:
            self._check(i, tangent, x, lambda v: _times(groups, columns, v, np.shape(y)))
        parts = [np.ravel(strong(ybar, dy))[rows] for (rows, _), dy in zip(groups, columns)]
        if self.patterns is None:
            return np.reshape(np.stack([np.sum(part) for part in parts]), np.shape(x)) if parts else np.zeros_like(x)
        places = np.concatenate([cols for _, cols in groups])
        return np.reshape(np.bincount(places, np.concatenate(parts), np.size(x)), np.shape(x)).astype(x.dtype)

    def _groups(self, i, m, n):
        """For each direction, the rows and the columns of the nonzeros that it determines."""
        if self.patterns is None:
            return [(slice(None), np.array([j])) for j in range(n)]
        if i >= len(self.patterns) or self.patterns[i][0] != (m, n):
            given = self.patterns[i][0] if i < len(self.patterns) else None
            raise ValueError(
                f"primitive({self.name}): sparsity of argument {i} has shape {given}, its Jacobian has {m, n}"
            )
        return self.patterns[i][1]

    def _check(self, i, tangent, x, product):
        if i in self._checked:
            return
        v = np.random.default_rng(1964).uniform(0.5, 1.5, np.shape(x)).astype(x.dtype)
        whole, part = np.asarray(var.plain(tangent(v))), product(v)
        if np.isfinite(whole).all() and not np.allclose(whole, part, rtol=1e-4, atol=1e-6 * np.max(np.abs(whole))):
            raise ValueError(
                f"primitive({self.name}): sparsity lacks elements of the result that depend on argument {i}"
            )
        self._checked.add(i)


def _indicator(columns, x):
    t = np.zeros(np.size(x), dtype=x.dtype)
    t[columns] = 1
    return np.reshape(t, np.shape(x))[()]


def _times(groups, columns, v, shape):
    """Product of the Jacobian, given by its compressed columns, with a vector."""
    total = np.zeros(shape)
    for (rows, cols), dy in zip(groups, columns):
        np.ravel(total)[rows] += np.ravel(var.plain(dy))[rows] * np.ravel(v)[cols]
    return total


def _places(pattern):
    """Shape of a pattern and a greedy colouring of its columns: the rows and columns of the nonzeros of each colour."""
    if hasattr(pattern, "tocoo"):
        coo = pattern.tocoo()
        shape, rows, cols = coo.shape, coo.row, coo.col
    else:
        pattern = np.asarray(pattern)
        shape, (rows, cols) = pattern.shape, np.nonzero(np.atleast_2d(pattern))
    order = np.argsort(cols, kind="stable")
    rows, cols = rows[order], cols[order]
    taken: list[set] = []  # rows of each colour
    groups: list[list] = []
    for own, column in zip(np.split(rows, np.flatnonzero(np.diff(cols)) + 1), np.unique(cols)):
        free = next((g for g, used in enumerate(taken) if used.isdisjoint(own.tolist())), len(groups))
        if free == len(groups):
            groups.append([])
            taken.append(set())
        taken[free].update(own.tolist())
        groups[free].append((own, np.full(len(own), column)))
    return shape, [tuple(np.concatenate(parts) for parts in zip(*group)) for group in groups]
