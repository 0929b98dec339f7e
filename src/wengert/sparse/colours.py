"""Colourings: which columns, or rows, of a sparse matrix are found together by one product.

What a colouring must allow is its kind; which vertices it takes in which order is its method.
The methods are tried one after the other, cheapest first, until one reaches the lower bound or a budget is spent, and
the best is improved by single moves.
What counts is a number of visits of conflicting pairs, never time, so that results are the same everywhere.
No colouring leaves here that has not been checked.

References
----------
Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711
Curtis, Powell and Reid (1974), On the estimation of sparse Jacobian matrices. doi:10.1093/imamat/13.1.117
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from wengert.errors import PatternError
from wengert.sparse.greedy import Conflicts, shared_out, symmetric
from wengert.sparse.grids import acyclic_colours, lattice_colours
from wengert.sparse.recovery import alone, elimination, improper, off_diagonal
from wengert.sparse.structure import Structure, structure_of

KINDS = ("column", "row", "bidirectional", "star", "acyclic")

#: visits of each conflicting pair; in this order they are tried
METHODS = {
    "lattice": 0,
    "natural": 1,
    "largest_first": 2,
    "dsatur": 3,
    "smallest_last": 3,
    "incidence_degree": 3,
}

#: up to so many conflicting pairs the two that are best on irregular patterns are always tried
_FORCED, _ALWAYS = ("largest_first", "dsatur"), 5_000_000

#: visits that each colour less is worth, for each nonzero, and what that does not exceed while it is small
_WORTH, _ENOUGH = 10, 20_000_000

#: visits that take a while, and visits that no colouring is worth
_MANY, _TOO_MANY = 1_000_000, 400_000_000

#: most steps of a tabu search
_STEPS = 2_000_000_000

#: bytes that the colours seen by each vertex may take, if that is more than the pattern takes
_TABLE = 1 << 26


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Colouring:
    """Colours of the columns or rows of a pattern, of both, or of the vertices of a symmetric one.

    Attributes
    ----------
    kind : str
        What is recovered, and from what: see `wengert.colouring`.
    method : str
        How the colours were found.
    column_colours, row_colours : ndarray of int32, shape (n,) and (m,), or None
        Colours from 0 on; -1: uncoloured, because it holds no nonzero or because those it holds are found otherwise.
    lower_bound : int
        No colouring of this kind has fewer colours.
    structure : Structure
        The pattern.
    """

    kind: str
    method: str
    column_colours: np.ndarray | None
    row_colours: np.ndarray | None
    lower_bound: int
    structure: Structure

    @property
    def colours(self) -> Any:
        """Colours of the columns or of the rows; of both (rows, columns) if the kind is bidirectional."""
        if self.kind == "bidirectional":
            return self.row_colours, self.column_colours
        return self.row_colours if self.kind == "row" else self.column_colours

    @property
    def column_count(self) -> int:
        """Number of products with columns' seeds: tangents."""
        return _count(self.column_colours)

    @property
    def row_count(self) -> int:
        """Number of products with rows' seeds: cotangents."""
        return _count(self.row_colours)

    @property
    def count(self) -> int:
        """Number of colours, and of products."""
        return self.column_count + self.row_count

    @property
    def shape(self) -> tuple[int, int]:
        return self.structure.shape

    @property
    def pattern(self) -> sp.csr_array:
        """The pattern as a sparse array of booleans."""
        s = self.structure
        return sp.csr_array((np.ones(len(s), np.bool), s.idx.copy(), s.ptr.copy()), s.shape)

    def __repr__(self):
        m, n = self.shape
        what = {"row": _counted(m, "row"), "column": _counted(n, "column")}.get(self.kind, f"a pattern of {m} x {n}")
        colours = _counted(self.count, "colour")
        if self.kind == "bidirectional":
            colours = f"{self.row_count} row and {self.column_count} column colours"
        return f"<{self.kind} colouring: {colours} of {what}, at least {self.lower_bound} needed, by {self.method}>"

    def seeds(self, start: int = 0, stop: int | None = None, *, side: str | None = None, dtype: Any = float):
        """Directions of the products: seed c is 1 where the colour is c.

        Parameters
        ----------
        start, stop : int
            Colours; by default all.
        side : "column" or "row", optional
            Tangents, of n entries, or cotangents, of m; by default those of a row colouring are cotangents.
        dtype : dtype

        Returns
        -------
        seeds : ndarray, shape (stop - start, n) or (stop - start, m)
        """
        colours = self._side(side)
        stop = _count(colours) if stop is None else min(stop, _count(colours))
        places = np.flatnonzero((colours >= start) & (colours < stop))
        seeds = np.zeros((max(0, stop - start), len(colours)), dtype)
        seeds[colours[places] - start, places] = 1
        return seeds

    def chunks(self, size: int, *, side: str | None = None, dtype: Any = float) -> Iterator[np.ndarray]:
        """The seeds, `size` at a time."""
        for start in range(0, _count(self._side(side)), size):
            yield self.seeds(start, start + size, side=side, dtype=dtype)

    def _side(self, side):
        side = side or ("row" if self.kind == "row" else "column")
        if side not in ("column", "row"):
            raise ValueError(f'Colouring.seeds: side is "column" or "row", not {side!r}')
        colours = self.column_colours if side == "column" else self.row_colours
        if colours is None:
            raise ValueError(f"Colouring.seeds: a {self.kind} colouring has no {side} colours")
        return colours

    def check(self) -> None:
        """Goes through every nonzero and asks whether it can be recovered.

        Raises
        ------
        PatternError
            If one cannot; names it, and what it is confused with.
        """
        for name, colours, size in zip(("row", "column"), (self.row_colours, self.column_colours), self.shape):
            if colours is not None and np.shape(colours) != (size,):
                raise PatternError(f"a colouring of {size} {name}s has not the shape {np.shape(colours)}")
        if self.kind in ("star", "acyclic"):
            self.structure.require_symmetric(self.kind)
        complaint = _CHECKS[self.kind](self.structure, self.row_colours, self.column_colours)
        if complaint:
            raise PatternError(f"not a {self.kind} colouring: {complaint}")

    def plot(self, ax: Any = None) -> Any:
        """Draws the nonzeros, each in the colour of the product that gives it; those given by rows as rings.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Returns
        -------
        ax : matplotlib axes
        """
        import matplotlib.pyplot as plt

        ax = plt.figure().add_subplot() if ax is None else ax
        s = self.structure
        m, n = s.shape
        by_column = np.ones(len(s), bool)
        if self.row_colours is not None:
            by_column = np.zeros(len(s), bool)
            if self.column_colours is not None:
                by_column = alone(s.ptr, s.idx, self.column_colours, self.column_count).astype(bool)
        size = min(40.0, max(0.3, (260 / max(m, n, 1)) ** 2))
        for mark, colours, of in (("s", self.column_colours, s.idx), ("o", self.row_colours, s.rows)):
            mask = by_column if mark == "s" else ~by_column
            if colours is None or not mask.any():
                continue
            drawn = plt.get_cmap("turbo")((colours[of[mask]] + 0.5) / max(1, _count(colours)))
            paint = {"c": drawn} if mark == "s" else {"facecolors": "none", "edgecolors": drawn}
            ax.scatter(s.idx[mask], s.rows[mask], s=size, marker=mark, rasterized=len(s) > 10_000, **paint)
        ax.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), aspect="equal", title=f"{self.count} colours, {self.method}")
        return ax


def colouring(
    pattern: Any,
    *,
    kind: str = "column",
    method: str = "auto",
    shape: tuple[int, ...] | None = None,
    row_shape: tuple[int, ...] | None = None,
    budget: float | None = None,
) -> Colouring:
    """Few groups of columns, or rows, from whose sums every nonzero of a matrix with this pattern can be read.

    Parameters
    ----------
    pattern : sparse array, or ndarray of bool, shape (m, n)
        Where the matrix may be nonzero; explicitly stored zeros count.
    kind : {"column", "row", "bidirectional", "star", "acyclic"}
        - "column": products with tangents, J s; no two columns of one colour share a row.
        - "row": products with cotangents; no two rows of one colour share a column.
        - "bidirectional": each nonzero from one or the other, for patterns with a few long rows and columns.
        - "star": for symmetric patterns; each pair of nonzeros from one of its two rows.
        - "acyclic": for symmetric patterns; nonzeros by substitution, from fewer products still.
    method : {"auto", "lattice", "natural", "largest_first", "smallest_last", "incidence_degree", "dsatur"}
        "lattice" gives column i of a grid the colour ``a . i mod k``; the others are greedy, in that order.
        "auto" takes the best of them, and with what is left of the budget moves vertices until a colour is spare.
    shape : tuple of int, optional
        Shape of the array whose elements the columns are, as (2, N, N) for two species on a grid; without it the
        distances in the pattern suggest some.
    row_shape : tuple of int, optional
        The same of the rows; that of the columns if the pattern is square.
    budget : float, optional
        Visits of conflicting pairs that "auto" may spend; by default ten for each nonzero and each colour above the
        lower bound, at most twenty million or twenty for each nonzero. Largest first and DSATUR are tried up to five
        million pairs whatever the default is. Time is never measured.

    Returns
    -------
    Colouring
        `colours`, `count`, `lower_bound`, `method`, `check()`, `seeds()`, `plot()`.

    Raises
    ------
    PatternError
        If the pattern is not what the kind needs, or a lattice does not fit it.
    TypeError
        If the pattern is neither sparse nor an array of booleans.

    References
    ----------
    Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp, wengert as wg
    >>> second_difference = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(20, 20))
    >>> laplacian = sp.kronsum(second_difference, second_difference)
    >>> wg.colouring(laplacian, shape=(20, 20))
    <column colouring: 5 colours of 400 columns, at least 5 needed, by lattice>
    >>> wg.colouring(laplacian, kind="acyclic").count
    3
    """
    if kind not in KINDS:
        raise ValueError(f"colouring: kind is one of {', '.join(map(repr, KINDS))}, not {kind!r}")
    if method != "auto" and method not in METHODS:
        raise ValueError(f"colouring: method is one of {', '.join(map(repr, ('auto', *METHODS)))}, not {method!r}")
    s = structure_of(pattern)
    if kind in ("star", "acyclic"):
        s.require_symmetric(kind)
    shape = _shape_of("shape", "columns", shape, s.shape[1])
    row_shape = _shape_of("row_shape", "rows", row_shape, s.shape[0])
    if row_shape is None and s.shape[0] == s.shape[1]:
        row_shape = shape
    rows, columns, how, bound = _SEARCHES[kind](s, method, shape, row_shape, budget)
    found = Colouring(kind, how, columns, rows, bound, s)
    found.check()
    return found


def _shape_of(name, what, shape, size):
    if shape is None:
        return None
    shape = (shape,) if isinstance(shape, int) else tuple(map(int, shape))
    if np.prod(shape, dtype=object) != size:
        raise PatternError(f"colouring: {name}={shape} is not a shape of the {size} {what}")
    return shape


def _counted(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _count(colours):
    return int(colours.max(initial=-1)) + 1 if colours is not None else 0


def _settled(colours, used):
    """Colours of what is `used`, numbered without gaps; -1 of what is not."""
    colours = np.where(used, colours, np.int32(-1))
    present = np.bincount(colours[used], minlength=1) > 0
    names = np.append(np.cumsum(present) - 1, -1).astype(np.int32)
    return names[colours]


# ---- searches: each gives colours of rows, colours of columns, the method, and the lower bound


class _Problem:
    """Vertices to be coloured in one way; `run` gives colours below a limit, or None."""

    kind: str
    size: int
    used: np.ndarray  # vertices that need a colour
    bound: int
    enough: int  # colours of a lattice at which the search ends
    worth: int  # visits that one colour less may cost
    visits: int  # of pairs, by one pass over all vertices

    is_direct = True  # vertices in conflict may not have one colour, and that is all

    @functools.cached_property
    def conflicts(self) -> Conflicts:
        raise NotImplementedError

    def coloured(self, order: np.ndarray, limit: int) -> np.ndarray | None:
        raise NotImplementedError

    def lattice(self, limit: int) -> np.ndarray | None:
        return None

    @functools.cached_property
    def degree(self) -> np.ndarray:
        return self.conflicts.degrees()

    def worth_of(self, count):
        """Visits that a search for fewer colours than `count` may take."""
        return min(self.worth * (count - self.bound), max(_ENOUGH, 2 * self.worth))

    def is_small(self):
        """Whether there are so few conflicting pairs that the best methods are always tried."""
        if self.visits <= 2 * _ALWAYS:
            return True
        return self.visits <= _TOO_MANY and int(self.degree.sum(dtype=np.int64)) <= 2 * _ALWAYS

    def by_degree(self):
        return np.argsort(-self.degree, kind="stable").astype(np.int32)

    def run(self, method: str, limit: int) -> np.ndarray | None:
        if method == "lattice":
            return self.lattice(limit)
        if method == "natural":
            return self.coloured(np.arange(self.size, dtype=np.int32), limit)
        if method == "largest_first":
            return self.coloured(self.by_degree(), limit)
        if method == "smallest_last":
            return self.coloured(self.conflicts.smallest_last(self.degree), limit)
        if method == "incidence_degree":
            return self.coloured(self.conflicts.incidence_degree(self.by_degree()), limit)
        return self.dsatur(limit)

    @property
    def most(self) -> int:
        """Colours that no greedy colouring of the conflicts exceeds."""
        return int(self.degree.max(initial=0)) + 1

    def dsatur(self, limit):
        found = self.conflicts.dsatur(self.by_degree(), min(limit, self.most))
        return found and found[0]


def _search(problem, method, budget):
    """Colours and the method that found them: that asked for, or the best."""
    used = problem.used
    if not used.any():
        return np.full(problem.size, -1, np.int32), "natural" if method == "auto" else method
    if method != "auto":
        colours = problem.run(method, problem.size)
        if colours is None:
            raise PatternError(
                f'colouring: no lattice colouring of this {problem.kind} problem was found; write method="auto", or '
                "give the shape of the array whose elements are coloured"
            )
        return _settled(colours, used), method
    best, name, count, spent = None, "", problem.size + 1, 0.0
    for candidate, cost in METHODS.items():
        if best is not None:
            if count <= (problem.enough if name == "lattice" else problem.bound):
                break
            if candidate == "natural" and name == "lattice" and problem.visits > _MANY:
                continue  # largest first is as quick to be no better
            allowed = problem.worth_of(count) if budget is None else budget
            forced = budget is None and candidate in _FORCED and problem.is_small()
            if not forced and spent + cost * problem.visits > allowed:
                continue
            if candidate == "dsatur" and _is_large(problem, count):
                continue
        colours = problem.run(candidate, count - 1)
        spent += cost * problem.visits
        if colours is not None:
            best, name = _settled(colours, used), candidate
            count = _count(best)
    if not problem.is_direct or (name == "lattice" and count <= problem.enough):
        return best, name
    steps = problem.worth_of(count) if budget is None else budget - spent
    if budget is None and name == "lattice":  # single moves hardly ever mend what is regular
        steps /= 10
    fewer = _moved(problem, best, count, min(int(steps), _STEPS))
    return (best, name) if fewer is None else (_settled(fewer, used), "tabu_search")


def _moved(problem, colours, count, steps):
    """Fewer colours, as long as `steps` last, or None."""
    best = None
    while count > max(1, problem.bound) and steps > problem.visits and not _is_large(problem, 64 * count):
        sizes = np.bincount(colours[colours >= 0], minlength=count)
        names = np.empty(count, np.int32)
        names[np.argsort(-sizes, kind="stable")] = np.arange(count)  # the smallest class goes
        colours, steps = problem.conflicts.fewer(names[colours], count - 1, steps - problem.visits)
        if colours is None:
            break
        best, count = colours, count - 1
    return best


def _is_large(problem, bits):
    """Whether a table with so many bits for each vertex takes much more memory than the pattern."""
    return problem.size * bits // 8 > max(_TABLE, 8 * problem.worth)


class _Partial(_Problem):
    """Columns, no two of which have one colour where they share a row."""

    kind = "column"

    def __init__(self, s: Structure, shape):
        self.s, self.shape, self.size = s, shape, s.shape[1]
        self.used = s.used_columns
        sizes = np.diff(s.ptr)
        self.bound = self.enough = int(sizes.max(initial=0))
        self.worth = _WORTH * len(s)
        self.visits = int((sizes * sizes).sum())
        self.has_long_rows = self.visits > _TOO_MANY or 2 * self.bound**2 > self.visits > 100_000

    @functools.cached_property
    def conflicts(self):
        s = self.s
        return Conflicts(self.size, (s.t_ptr, s.t_idx, s.ptr, s.idx))

    def lattice(self, limit):
        return lattice_colours(self.s, self.shape, self.bound, min(limit, 2 * self.bound + 8) + 1)

    def coloured(self, order, limit):
        if self.has_long_rows:
            return self._long_rows_first(order)
        return self.conflicts.greedy(order, limit)

    def _long_rows_first(self, order):
        """Columns of rows that are too long to be gone through again and again have a colour each."""
        sizes = np.diff(self.s.ptr)
        by_size = np.sort(sizes)
        longest = by_size[np.searchsorted(np.cumsum(by_size * by_size), min(_TOO_MANY, self.visits // 2)) - 1]
        short = self.s.part((sizes <= longest)[self.s.rows])
        colours = np.full(self.size, -1, np.int32)
        apart = np.unique(self.s.idx[(sizes > longest)[self.s.rows]])
        colours[apart] = np.arange(len(apart))
        conflicts = Conflicts(self.size, (short.t_ptr, short.t_idx, short.ptr, short.idx))
        return conflicts.greedy(order, self.size, colours)


def _columns(s, method, shape, row_shape, budget):
    problem = _Partial(s, shape)
    colours, how = _search(problem, method, budget)
    return None, colours, how, problem.bound


def _rows(s, method, shape, row_shape, budget):
    _, colours, how, bound = _columns(s.transpose, method, row_shape, None, budget)
    return colours, None, how, bound


class _Side(_Problem):
    """Columns from which the nonzeros `mine` of `s` are read: no two share a row in which one of them has such."""

    kind = "bidirectional"

    def __init__(self, s: Structure, mine: np.ndarray):
        own = s.part(mine)
        self.used = own.used_columns
        s = s.part(self.used[s.idx])
        self.size = s.shape[1]
        self.bound = self.enough = int(np.diff(own.ptr).max(initial=0))
        self.worth = _WORTH * len(s)
        self.visits = 2 * int((np.diff(own.ptr) * np.diff(s.ptr)).sum())
        self.conflicts = Conflicts(
            self.size, (own.t_ptr, own.t_idx, s.ptr, s.idx), (s.t_ptr, s.t_idx, own.ptr, own.idx)
        )

    def is_small(self):
        return self.visits <= _ALWAYS // 2

    def coloured(self, order, limit):
        return self.conflicts.greedy(order, limit)


def _bidirectional(s, method, shape, row_shape, budget):
    m, n = s.shape
    bound = -(-len(s) // max(m, n, 1))  # each product gives so many numbers at most
    sides = [(int(np.diff(s.ptr).max(initial=0)), _columns), (int(np.diff(s.t_ptr).max(initial=0)), _rows)]
    sides.sort(key=lambda side: side[0])
    found: list = []

    def least():
        return min((_count(rows) + _count(columns) for rows, columns, _ in found), default=m + n + 1)

    def one_sided(most):
        while sides and sides[0][0] <= most and sides[0][0] < least() and least() > bound:
            found.append(sides.pop(0)[1](s, method, shape, row_shape, budget)[:3])

    def shared(by_columns, method):
        columns, how = _search(_Side(s, by_columns), method, budget)
        rows, _ = _search(_Side(s.transpose, ~by_columns[s.t_place]), method, budget)
        return (*_pruned(s, rows, columns), how)

    one_sided(2 * bound)  # as on grids; what has long rows is better shared out before
    if method != "lattice" and least() > bound:
        masks = [mask for mask in _partitions(s) if mask.any() and not mask.all()]
        quick = "natural" if method == "auto" else method
        tried = [shared(mask, quick) for mask in masks]
        counts = [_count(rows) + _count(columns) for rows, columns, _ in tried]
        found += tried
        if method == "auto" and tried and bound < min(counts) < 1.5 * least():
            found.append(shared(masks[int(np.argmin(counts))], "auto"))
    one_sided(max(m, n))
    rows, columns, how = min(found, key=lambda item: _count(item[0]) + _count(item[1]))
    nothing = [np.full(size, -1, np.int32) for size in s.shape]
    return nothing[0] if rows is None else rows, nothing[1] if columns is None else columns, how, bound


def _partitions(s):
    """Nonzeros that columns shall give, as masks: in the order of fewest nonzeros, and without the longest lines."""
    if len(s):
        yield shared_out(s.ptr, s.idx, s.t_ptr, s.t_idx, s.t_place).astype(bool)
        yield ~_of_long_rows(s)
        mask = np.empty(len(s), bool)
        mask[s.t_place] = _of_long_rows(s.transpose)
        yield mask


def _of_long_rows(s):
    """Nonzeros of the longest rows, as many as make the next row and the longest column in them short together."""
    sizes = np.diff(s.ptr)
    rank = np.empty(s.shape[0], np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(s.shape[0])
    order = np.lexsort((rank[s.rows], s.idx))
    nth = np.empty(len(s), np.int64)  # nonzero of its column, in longer rows first
    nth[order] = np.arange(len(s)) - s.t_ptr[:-1][s.idx[order]] + 1
    tallest = np.zeros(s.shape[0] + 1, np.int64)
    np.maximum.at(tallest, rank[s.rows] + 1, nth)
    products = np.append(-np.sort(-sizes), 0) + np.maximum.accumulate(tallest)
    return (rank < np.argmin(products))[s.rows]


def _pruned(s, rows, columns):
    """The colours without those that give nothing which others do not; one after the other, the smallest first."""
    colours = [columns, rows]
    ends = [s.idx, s.rows]
    while True:
        read = _read(s, *colours[::-1])
        for k in (0, 1):
            count = _count(colours[k])
            alone_here = np.bincount(colours[k][ends[k]][read[k] & ~read[1 - k]], minlength=count)
            spare = np.flatnonzero(alone_here == 0)
            if len(spare):
                kept = colours[k] != spare[0]
                colours[k] = _settled(colours[k], kept & (colours[k] >= 0))
                break
        else:
            return colours[1], colours[0]


def _read(s, rows, columns):
    """Nonzeros that products with columns' seeds give, and those that products with rows' seeds give."""
    by_column = alone(s.ptr, s.idx, columns, _count(columns)).astype(bool)
    by_row = np.empty(len(s), bool)
    by_row[s.t_place] = alone(s.t_ptr, s.t_idx, rows, _count(rows))
    return by_column, by_row


class _Symmetric(_Problem):
    """Vertices of a symmetric pattern, in a star or an acyclic colouring."""

    is_direct = False

    def __init__(self, s: Structure, kind: str, shape):
        self.s, self.kind, self.shape, self.size = s, kind, shape, s.shape[0]
        sizes = np.diff(s.ptr)
        self.used = sizes > 0
        self.bound = self.enough = _symmetric_bound(s, kind)
        if kind == "star":  # the bound is loose, and what fits a grid as well as columns do is not beaten
            self.enough = max(self.bound, int(sizes.max(initial=0)))
        self.worth = _WORTH * len(s)
        self.visits = int((sizes * np.minimum(sizes, 64)).sum())
        self.conflicts = Conflicts(self.size, (s.ptr, s.idx))

    def coloured(self, order, limit):
        return symmetric(self.s.ptr, self.s.idx, order, limit, self.kind == "star")

    def dsatur(self, limit):
        found = self.conflicts.dsatur(self.by_degree(), self.most)
        return self.coloured(found[1], limit)

    def lattice(self, limit):
        limit = min(limit, 2 * self.bound + 8)
        if self.kind == "star":
            least = int(np.diff(self.s.ptr).max(initial=0))
            return lattice_colours(self.s.with_diagonal(), self.shape, least, limit + 1)
        valid = lambda colours: not _acyclic_complaint(self.s, None, colours)
        return acyclic_colours(self.s, self.shape, self.bound, limit + 1, valid)


def _symmetric_search(s, method, shape, row_shape, budget, kind):
    problem = _Symmetric(s, kind, shape)
    colours, how = _search(problem, method, budget)
    return None, colours, how, problem.bound


def _star(*args):
    return _symmetric_search(*args, "star")


def _acyclic(*args):
    return _symmetric_search(*args, "acyclic")


def _symmetric_bound(s, kind):
    """Fewest colours by the number of nonzeros: two of k colours with p and q vertices share p + q - 1 of them at most.

    Summed over all pairs, (k - 1) n - k (k - 1) / 2 in each connected part of n vertices.
    """
    degree = off_diagonal(s.ptr, s.idx)
    if not degree.any():
        return int(len(s) > 0)
    graph = sp.csr_array((np.ones(len(s), np.int8), s.idx, s.ptr), s.shape)
    parts, part = connected_components(graph, connection="strong")  # "weak" would transpose it
    vertices = np.bincount(part, minlength=parts)
    edges = np.bincount(part, degree, parts).astype(np.int64) // 2
    k = np.ones(parts, np.int64)
    while (few := 2 * (k - 1) * vertices - k * (k - 1) < 2 * edges).any():
        k[few] += 1
    bound = int(k.max())
    if kind == "star":
        highest = np.zeros(parts, np.int64)
        np.maximum.at(highest, part, degree)
        if (highest < vertices - 1).any() or (edges > vertices - 1).any():  # a path of four, or a triangle
            bound = max(bound, 3)
    return bound


_SEARCHES = {"column": _columns, "row": _rows, "bidirectional": _bidirectional, "star": _star, "acyclic": _acyclic}


# ---- checks: what cannot be recovered, in words, or None


def _column_complaint(s, rows, columns, name="column", other="row"):
    lost = np.flatnonzero(alone(s.ptr, s.idx, columns, _count(columns)) == 0)
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    if columns[j] < 0:
        return f"{name} {j} has no colour, and {other} {i} holds a nonzero of it"
    beside = s.idx[s.ptr[i] : s.ptr[i + 1]]
    j2 = int(beside[(columns[beside] == columns[j]) & (beside != j)][0])
    return f"{name}s {min(j, j2)} and {max(j, j2)} have colour {columns[j]}, and {other} {i} holds both"


def _row_complaint(s, rows, columns):
    return _column_complaint(s.transpose, None, rows, "row", "column")


def _bidirectional_complaint(s, rows, columns):
    lost = np.flatnonzero(~np.logical_or(*_read(s, rows, columns)))
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    reasons = []
    for name, of, colours, line in (
        ("column", j, columns, s.idx[s.ptr[i] : s.ptr[i + 1]]),
        ("row", i, rows, s.t_idx[s.t_ptr[j] : s.t_ptr[j + 1]]),
    ):
        same = line[(colours[line] == colours[of]) & (line != of)]
        reasons.append(f"{name} {of} has " + ("no colour" if colours[of] < 0 else f"the colour of {name} {same[0]}"))
    return f"the nonzero ({i}, {j}) is not found: {' and '.join(reasons)}"


def _improper_complaint(s, columns):
    """Vertices without a colour, and neighbours of one colour."""
    p = improper(s.ptr, s.idx, columns)
    if p < 0:
        return None
    i, j = int(s.rows[p]), int(s.idx[p])
    if columns[i] < 0:
        return f"vertex {i} has no colour, and its row holds nonzeros"
    return f"vertices {i} and {j} have colour {columns[i]}, and ({i}, {j}) is a nonzero"


def _star_complaint(s, rows, columns):
    complaint = _improper_complaint(s, columns)
    if complaint:
        return complaint
    read = alone(s.ptr, s.idx, columns, _count(columns))
    lost = np.flatnonzero((read | read[s.t_place]) == 0)
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    ends = []
    for v, w in ((i, j), (j, i)):
        beside = s.idx[s.ptr[v] : s.ptr[v + 1]]
        ends.append(int(beside[(columns[beside] == columns[w]) & (beside != w)][0]))
    return f"{ends[0]} - {i} - {j} - {ends[1]} is a path of four vertices in colours {columns[j]} and {columns[i]}"


def _acyclic_complaint(s, rows, columns):
    complaint = _improper_complaint(s, columns)
    if complaint:
        return complaint
    _, left = elimination(s.ptr, s.idx, s.t_place, columns, _count(columns))
    lost = np.flatnonzero(left)
    if not len(lost):
        return None
    i, j = s.rows[lost[0]], s.idx[lost[0]]
    return f"the nonzero ({i}, {j}) is on a cycle of vertices in colours {columns[i]} and {columns[j]}"


_CHECKS = {
    "column": _column_complaint,
    "row": _row_complaint,
    "bidirectional": _bidirectional_complaint,
    "star": _star_complaint,
    "acyclic": _acyclic_complaint,
}
