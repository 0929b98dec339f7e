"""Search for colourings with few colours: which methods are tried, in which order, and at what cost.

Methods are tried from the cheapest on until one reaches the lower bound or the budget is spent; a tabu search then
improves the best.
The cost is a number of visits of conflicting pairs, never time, so results are reproducible.

References
----------
Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711
"""

from __future__ import annotations

import functools

import numpy as np

from wengert.errors import PatternError
from wengert.sparse.greedy import Conflicts, components, off_diagonal, partition_nonzeros, symmetric
from wengert.sparse.grids import acyclic_colours, lattice_colours
from wengert.sparse.structure import Structure
from wengert.sparse.validity import acyclic_complaint, count_of, read_by

#: methods in the order in which they are tried, with their cost in visits per conflicting pair
METHODS = {"lattice": 0, "natural": 1, "largest_first": 2, "dsatur": 3, "smallest_last": 3, "incidence_degree": 3}

#: the two best methods for irregular patterns, and the number of conflicting pairs up to which both are always tried
_ALWAYS_TRIED, MAX_ALWAYS_VISITS = ("largest_first", "dsatur"), 5_000_000

#: visits per nonzero that saving one colour is worth, and the smallest limit on all visits
VISITS_PER_COLOUR, MIN_VISIT_LIMIT = 10, 20_000_000

#: number of visits that takes noticeable time, and number above which no colouring is worth its time
SLOW_VISITS, MAX_VISITS = 1_000_000, 400_000_000

#: maximum number of steps of the tabu search
MAX_TABU_STEPS = 2_000_000_000

#: maximum number of bytes for the table of colours seen by each vertex, unless the pattern is larger
MAX_TABLE_BYTES = 1 << 26


def _renumbered(colours, used):
    """Renumber the colours of `used` vertices without gaps; others get -1."""
    colours = np.where(used, colours, np.int32(-1))
    present = np.bincount(colours[used], minlength=1) > 0
    names = np.append(np.cumsum(present) - 1, -1).astype(np.int32)
    return names[colours]


class _Problem:
    """A colouring problem; `run` returns colours below a limit, or None."""

    kind: str
    size: int
    used: np.ndarray  # mask of vertices that need a colour
    bound: int
    enough: int  # number of colours of a lattice colouring at which the search ends
    worth: int  # visits that one colour less may cost
    visits: int  # visits of pairs in one pass over all vertices

    conflicts: Conflicts
    is_direct = True  # whether the only condition is that conflicting vertices differ in colour

    def coloured(self, order: np.ndarray, limit: int) -> np.ndarray | None:
        return self.conflicts.greedy(order, limit)

    def lattice(self, limit: int) -> np.ndarray | None:
        return None

    @functools.cached_property
    def degree(self) -> np.ndarray:
        return self.conflicts.degrees()

    def worth_of(self, count):
        """Number of visits that a search for fewer colours than `count` may take."""
        return min(self.worth * (count - self.bound), max(MIN_VISIT_LIMIT, 2 * self.worth))

    def is_small(self):
        """Return whether there are so few conflicting pairs that the best methods are always tried."""
        if self.visits <= 2 * MAX_ALWAYS_VISITS:
            return True
        return self.visits <= MAX_VISITS and int(self.degree.sum(dtype=np.int64)) <= 2 * MAX_ALWAYS_VISITS

    def by_degree(self):
        return np.argsort(-self.degree, kind="stable").astype(np.int32)

    def run(self, method: str, limit: int) -> np.ndarray | None:
        if method in ("lattice", "dsatur"):
            return getattr(self, method)(limit)
        order = {
            "natural": lambda: np.arange(self.size, dtype=np.int32),
            "largest_first": self.by_degree,
            "smallest_last": lambda: self.conflicts.smallest_last(self.degree),
            "incidence_degree": lambda: self.conflicts.incidence_degree(self.by_degree()),
        }[method]()
        return self.coloured(order, limit)

    @property
    def most(self) -> int:
        """Upper bound on the number of colours of any greedy colouring."""
        return int(self.degree.max(initial=0)) + 1

    def dsatur(self, limit):
        found = self.conflicts.dsatur(self.by_degree(), min(limit, self.most))
        return found and found[0]


def _search(problem, method, budget):
    """Return colours and the method that found them: the given method, or the best one."""
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
        return _renumbered(colours, used), method
    best, name, count, spent = None, "", problem.size + 1, 0.0
    for candidate, cost in METHODS.items():
        if best is not None:
            if count <= (problem.enough if name == "lattice" else problem.bound):
                break
            if candidate == "natural" and name == "lattice" and problem.visits > SLOW_VISITS:
                continue  # largest first costs little more
            allowed = problem.worth_of(count) if budget is None else budget
            forced = budget is None and candidate in _ALWAYS_TRIED and problem.is_small()
            if not forced and spent + cost * problem.visits > allowed:
                continue
            if candidate == "dsatur" and _is_large(problem, count):
                continue
        colours = problem.run(candidate, count - 1)
        spent += cost * problem.visits
        if colours is not None:
            best, name = _renumbered(colours, used), candidate
            count = count_of(best)
    if not problem.is_direct or (name == "lattice" and count <= problem.enough):
        return best, name
    steps = problem.worth_of(count) if budget is None else budget - spent
    if budget is None and name == "lattice":  # tabu search rarely improves regular colourings
        steps /= 10
    fewer = _tabu_search(problem, best, count, min(int(steps), MAX_TABU_STEPS))
    return (best, name) if fewer is None else (_renumbered(fewer, used), "tabu_search")


def _tabu_search(problem, colours, count, steps):
    """Tabu search for fewer colours while `steps` last; None if it fails."""
    best = None
    while count > max(1, problem.bound) and steps > problem.visits and not _is_large(problem, 64 * count):
        sizes = np.bincount(colours[colours >= 0], minlength=count)
        names = np.empty(count, np.int32)
        names[np.argsort(-sizes, kind="stable")] = np.arange(count)  # the smallest colour class is eliminated
        colours, steps = problem.conflicts.fewer(names[colours], count - 1, steps - problem.visits)
        if colours is None:
            break
        best, count = colours, count - 1
    return best


def _is_large(problem, bits):
    """Return whether a table with `bits` bits per vertex takes much more memory than the pattern."""
    return problem.size * bits // 8 > max(MAX_TABLE_BYTES, 8 * problem.worth)


class _Partial(_Problem):
    """Partial distance-2 colouring: columns that share a row differ in colour."""

    kind = "column"

    def __init__(self, s: Structure, shape):
        self.s, self.shape, self.size = s, shape, s.shape[1]
        self.used = s.used_columns
        sizes = np.diff(s.ptr)
        self.bound = self.enough = int(sizes.max(initial=0))
        self.worth = VISITS_PER_COLOUR * len(s)
        self.visits = int((sizes * sizes).sum())
        self.has_long_rows = self.visits > MAX_VISITS or 2 * self.bound**2 > self.visits > 100_000

    @functools.cached_property
    def conflicts(self):
        s = self.s
        return Conflicts(self.size, (s.t_ptr, s.t_idx, s.ptr, s.idx))

    def lattice(self, limit):
        return lattice_colours(self.s, self.shape, self.bound, min(limit, 2 * self.bound + 8) + 1)

    def coloured(self, order, limit):
        return self._long_rows_first(order) if self.has_long_rows else super().coloured(order, limit)

    def _long_rows_first(self, order):
        """Give each column of very long rows a unique colour, since visiting these rows costs too much."""
        sizes = np.diff(self.s.ptr)
        by_size = np.sort(sizes)
        longest = by_size[np.searchsorted(np.cumsum(by_size * by_size), min(MAX_VISITS, self.visits // 2)) - 1]
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
    """Columns that determine the nonzeros `mine`: two conflict if they share a row where either has one of these."""

    kind = "bidirectional"

    def __init__(self, s: Structure, mine: np.ndarray):
        own = s.part(mine)
        self.used = own.used_columns
        s = s.part(self.used[s.idx])
        self.size = s.shape[1]
        self.bound = self.enough = int(np.diff(own.ptr).max(initial=0))
        self.worth = VISITS_PER_COLOUR * len(s)
        self.visits = 2 * int((np.diff(own.ptr) * np.diff(s.ptr)).sum())
        self.conflicts = Conflicts(
            self.size, (own.t_ptr, own.t_idx, s.ptr, s.idx), (s.t_ptr, s.t_idx, own.ptr, own.idx)
        )

    def is_small(self):
        return self.visits <= MAX_ALWAYS_VISITS // 2


def _bidirectional(s, method, shape, row_shape, budget):
    m, n = s.shape
    bound = -(-len(s) // max(m, n, 1))  # each product determines at most this many nonzeros
    sides = [(int(np.diff(s.ptr).max(initial=0)), _columns), (int(np.diff(s.t_ptr).max(initial=0)), _rows)]
    sides.sort(key=lambda side: side[0])
    found: list = []

    def least():
        return min((count_of(rows) + count_of(columns) for rows, columns, _ in found), default=m + n + 1)

    def one_sided(most):
        while sides and sides[0][0] <= most and sides[0][0] < least() and least() > bound:
            found.append(sides.pop(0)[1](s, method, shape, row_shape, budget)[:3])

    def shared(by_columns, method):
        columns, how = _search(_Side(s, by_columns), method, budget)
        rows, _ = _search(_Side(s.transpose, ~by_columns[s.t_place]), method, budget)
        return (*_pruned(s, rows, columns), how)

    one_sided(2 * bound)  # suffices on grids; patterns with long rows are partitioned first
    if method != "lattice" and least() > bound:
        masks = [mask for mask in _partitions(s) if mask.any() and not mask.all()]
        quick = "natural" if method == "auto" else method
        tried = [shared(mask, quick) for mask in masks]
        counts = [count_of(rows) + count_of(columns) for rows, columns, _ in tried]
        found += tried
        if method == "auto" and tried and bound < min(counts) < 1.5 * least():
            found.append(shared(masks[int(np.argmin(counts))], "auto"))
    one_sided(max(m, n))
    rows, columns, how = min(found, key=lambda item: count_of(item[0]) + count_of(item[1]))
    nothing = [np.full(size, -1, np.int32) for size in s.shape]
    return nothing[0] if rows is None else rows, nothing[1] if columns is None else columns, how, bound


def _partitions(s):
    """Masks of the nonzeros assigned to columns: by minimum nonzero count, and without the longest rows or columns."""
    if len(s):
        yield partition_nonzeros(s.ptr, s.idx, s.t_ptr, s.t_idx, s.t_place).astype(bool)
        yield ~_of_long_rows(s)
        mask = np.empty(len(s), bool)
        mask[s.t_place] = _of_long_rows(s.transpose)
        yield mask


def _of_long_rows(s):
    """Mask of the nonzeros in the k longest rows.

    k minimises the number of products: length of the next row plus length of the longest column within the k rows.
    """
    sizes = np.diff(s.ptr)
    rank = np.empty(s.shape[0], np.int64)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(s.shape[0])
    order = np.lexsort((rank[s.rows], s.idx))
    nth = np.empty(len(s), np.int64)  # rank of each nonzero in its column, longer rows first
    nth[order] = np.arange(len(s)) - s.t_ptr[:-1][s.idx[order]] + 1
    tallest = np.zeros(s.shape[0] + 1, np.int64)
    np.maximum.at(tallest, rank[s.rows] + 1, nth)
    products = np.append(-np.sort(-sizes), 0) + np.maximum.accumulate(tallest)
    return (rank < np.argmin(products))[s.rows]


def _pruned(s, rows, columns):
    """Remove colours one by one, in ascending order, if other products determine their nonzeros too."""
    colours = [columns, rows]
    ends = [s.idx, s.rows]
    while True:
        read = read_by(s, *colours[::-1])
        for k in (0, 1):
            count = count_of(colours[k])
            alone_here = np.bincount(colours[k][ends[k]][read[k] & ~read[1 - k]], minlength=count)
            spare = np.flatnonzero(alone_here == 0)
            if len(spare):
                kept = colours[k] != spare[0]
                colours[k] = _renumbered(colours[k], kept & (colours[k] >= 0))
                break
        else:
            return colours[1], colours[0]


class _Symmetric(_Problem):
    """Star or acyclic colouring of a symmetric pattern."""

    is_direct = False

    def __init__(self, s: Structure, kind: str, shape):
        self.s, self.kind, self.shape, self.size = s, kind, shape, s.shape[0]
        sizes = np.diff(s.ptr)
        self.used = sizes > 0
        self.bound = self.enough = _symmetric_bound(s, kind)
        if kind == "star":  # the bound is loose, and a lattice with as many colours as kind="column" is rarely improved
            self.enough = max(self.bound, int(sizes.max(initial=0)))
        self.worth = VISITS_PER_COLOUR * len(s)
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
        valid = lambda colours: not acyclic_complaint(self.s, None, colours)
        return acyclic_colours(self.s, self.shape, self.bound, limit + 1, valid)


def _symmetric(kind, s, method, shape, row_shape, budget):
    problem = _Symmetric(s, kind, shape)
    colours, how = _search(problem, method, budget)
    return None, colours, how, problem.bound


def _symmetric_bound(s, kind):
    """Lower bound from the number of nonzeros: two colour classes of p and q vertices share at most p + q - 1 edges.

    The sum over all pairs of k colours is (k - 1) n - k (k - 1) / 2 in each connected component of n vertices.
    """
    degree = off_diagonal(s.ptr, s.idx)
    if not degree.any():
        return int(len(s) > 0)
    part, parts = components(s.ptr, s.idx)
    vertices = np.bincount(part, minlength=parts)
    edges = np.bincount(part, degree, parts).astype(np.int64) // 2
    k = np.ones(parts, np.int64)
    while (few := 2 * (k - 1) * vertices - k * (k - 1) < 2 * edges).any():
        k[few] += 1
    bound = int(k.max())
    if kind == "star":
        highest = np.zeros(parts, np.int64)
        np.maximum.at(highest, part, degree)
        if (highest < vertices - 1).any() or (edges > vertices - 1).any():  # a path of four vertices, or a triangle
            bound = max(bound, 3)
    return bound


#: search functions by kind; each returns row colours, column colours, the method, and the lower bound
SEARCHES = {
    "column": _columns,
    "row": _rows,
    "bidirectional": _bidirectional,
    "star": functools.partial(_symmetric, "star"),
    "acyclic": functools.partial(_symmetric, "acyclic"),
}
