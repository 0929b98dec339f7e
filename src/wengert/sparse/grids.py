"""Lattice colourings: column i of a grid has colour a . i modulo k, where i is a multi-index.

Input: a pattern and optionally the shape of the grid. Output: colours, or None.

On a grid the conflicts of a column are the same few offset vectors everywhere. The linear form a . i mod k is valid if
it maps none of them to 0.
It colours every stencil with as many colours as the stencil has points, where greedy colourings need more: 6 for the
Brusselator (a = 3, 1, 2 for two species), 7 for the seven-point stencil in 3-D.
Species are an additional axis, first or last. Vectors that wrap around are treated like others, so periodic grids need
no special case.

A periodic band has no such form with few colours if their number does not divide its length. Its circle is cut into
arcs of nearly equal length, each of which uses all colours once, in the same order.

In a symmetric pattern with neighbours at offsets d, -d, the form is acyclic if no vertex has more than two neighbours
of one colour: two form a path that never closes, three a hexagon.
This needs half as many colours as direct recovery.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.sparse.lattice import coefficients, differences
from wengert.sparse.structure import Structure

#: limits of the search: conflict vectors, axes, guessed shapes, and tests of a vector; beyond them, no grid is found
MAX_VECTORS, MAX_AXES, MAX_SHAPES, MAX_STEPS = 500, 6, 6, 3_000_000

#: maximum number of forms that are checked for two-coloured cycles
MAX_FORMS = 24


def lattice_colours(s: Structure, shape: tuple | None, least: int, most: int) -> np.ndarray | None:
    """Colours of the columns by the form with the fewest colours, over `shape` or guessed shapes, if below `most`."""
    best = None
    for axes in _shapes(s, shape):
        vectors = conflict_vectors(s, axes)
        if vectors is None:
            continue
        found = _form(vectors, least, most)
        if found is not None:
            most = found[0]
            best = axes, found
        if most <= least:
            break
    arcs = _arcs(s, most) if most > least else None
    if arcs is not None or best is None:
        return arcs
    axes, (k, a) = best
    return _colours(axes, a, k)


def _arcs(s, most):
    """Colours of positions on a circle, cut into as many arcs as possible; None if they need `most` or more.

    The lengths of the arcs differ by at most one, and the shortest exceeds the distance of any two columns in a row.
    """
    n = s.shape[1]
    distances = differences(s.ptr, s.idx, np.arange(n, dtype=np.int64), MAX_VECTORS)
    if distances is None or not distances.size:
        return None
    count = n // (int(np.minimum(distances, n - distances).max()) + 1)
    if -(-n // count) >= most:
        return None
    starts = np.arange(count + 1) * n // count
    return (np.arange(n) - np.repeat(starts[:-1], np.diff(starts))).astype(np.int32)


def acyclic_colours(
    s: Structure, shape: tuple | None, least: int, most: int, is_valid: Callable[[np.ndarray], bool]
) -> np.ndarray | None:
    """Acyclic colours of a symmetric pattern, fewer than `most`, or None; `is_valid` checks the borders of the grid."""
    best = None
    tries = MAX_FORMS
    for axes in _shapes(s, shape):
        vectors = conflict_vectors(s, axes, neighbours=True)
        if vectors is None or not len(vectors):
            continue
        row = _longest_row(s, axes)
        forms = ((k, a) for k in range(least, most) for a in _acyclic_coefficients(vectors, row, k))
        for k, a in forms:
            colours = _colours(axes, a, k)
            tries -= 1
            if is_valid(colours):
                best, most = colours, k
                break
            if tries <= 0:
                return best
        if most <= least:
            break
    return best


def _acyclic_coefficients(vectors, row, k):
    """Yield all a that map no vector to 0 and no three neighbours in `row` to one residue; only one of a and -a."""
    n = vectors.shape[1]
    if k**n > 200_000:
        return
    forms = np.indices((k,) * n).reshape(n, -1).T
    forms = forms[forms[:, 0] <= k // 2]
    forms = forms[((forms @ vectors.T) % k != 0).all(axis=1)]
    residues = np.sort((forms @ row.T) % k, axis=1)
    yield from forms[(residues[:, 2:] != residues[:, :-2]).all(axis=1)]


def _longest_row(s, axes):
    """Offsets of the neighbours of a vertex with the most neighbours, far from the borders."""
    sizes = np.diff(s.ptr)
    rows = np.flatnonzero(sizes == sizes.max())
    i = int(rows[len(rows) // 2])
    neighbours = s.idx[s.ptr[i] : s.ptr[i + 1]]
    return np.array(np.unravel_index(neighbours[neighbours != i], axes)).T - np.array(np.unravel_index(i, axes))


def conflict_vectors(s: Structure, axes: tuple, neighbours: bool = False) -> np.ndarray | None:
    """Distinct differences between the positions of two columns in one row, up to sign; None if there are too many.

    With `neighbours`, differences between the positions of a row and its columns.
    """
    radices = [2 * size - 1 for size in axes]
    weights = [math.prod(radices[t + 1 :]) for t in range(len(axes))]
    code: Any = sum(weight * places for weight, places in zip(weights, np.ix_(*map(_range, axes))))
    code = code.ravel()
    found = differences(s.ptr, s.idx, code, MAX_VECTORS, neighbours)
    if found is None:
        return None
    # a difference is a mixed-radix number with digits from 1 - size to size - 1
    shift = sum(weight * (size - 1) for weight, size in zip(weights, axes))
    digits = np.array(np.unravel_index(found + shift, radices), np.int64).reshape(len(axes), -1)
    return np.ascontiguousarray(digits.T - (np.array(axes, np.int64) - 1))


def _range(size):
    return np.arange(size, dtype=np.int64)


def _form(vectors, least, most) -> tuple[int, np.ndarray] | None:
    """Smallest k from `least` to below `most`, and coefficients that map no vector to 0."""
    n = vectors.shape[1]
    last = np.array([np.flatnonzero(vector).max() for vector in vectors], int)
    vectors = vectors[np.argsort(last, kind="stable")]
    ends = np.cumsum(np.bincount(last, minlength=n)).astype(np.int64)
    steps = MAX_STEPS
    for k in range(max(least, 1), most):
        a, steps = coefficients(vectors, ends, k, steps)
        if a is not None:
            return k, a
        if steps <= 0:
            break
    return None


def _colours(axes, a, k):
    """a . i modulo k for every position i."""
    form: Any = sum(int(c) * places % k for c, places in zip(a, np.ix_(*map(_range, axes))))
    return (form % k).astype(np.int32).ravel()


def _shapes(s, shape):
    """Shapes to try: the given one, and those that the distances in the pattern suggest."""
    n = s.shape[1]
    given = tuple(size for size in shape or () if size != 1)
    if len(given) > MAX_AXES:
        given = ()
    if given:
        yield given
    for axes in _guessed(s, n):
        if axes != given:
            yield axes


def _guessed(s, n) -> Iterator[tuple]:
    """Shapes of n positions whose strides are distances in the pattern, starting with the most compact one."""
    flat = differences(s.ptr, s.idx, np.arange(n, dtype=np.int64), MAX_VECTORS)
    if flat is None:
        return
    strides = [int(d) for d in flat if d > 1 and d < n and n % d == 0][:20]
    chains = [
        chain
        for count in range(4)
        for chain in itertools.combinations(strides, count)
        if all(big % small == 0 for small, big in itertools.pairwise(chain))
    ]
    chains = sorted(chains, key=lambda chain: (_spread(flat, chain), len(chain)))[:MAX_SHAPES]
    for chain in chains:
        steps = (1, *chain, n)
        yield tuple(big // small for small, big in itertools.pairwise(steps))[::-1]


def _spread(flat, chain):
    """Sum of the 1-norms of the differences, written as vectors over axes with these strides."""
    total, rest = 0, flat
    for stride in chain[::-1]:
        digit = (2 * rest + stride) // (2 * stride)
        total += int(np.abs(digit).sum())
        rest = rest - digit * stride
    return total + int(np.abs(rest).sum())
