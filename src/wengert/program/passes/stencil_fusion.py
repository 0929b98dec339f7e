"""Fuses chains of slice additions (adjoints of stencils) into one expression per region.

The adjoint of a function of ``x[1:]`` and ``x[:-1]`` is a new array to which one vector is added at ``[1:]`` and
another at ``[:-1]``. Each such addition reads and writes the whole array.
The pass cuts the array at the bounds of all slices. Within a region between cuts, every element sums the same vectors
at fixed shifts, so that it is computed and written once:

    g = zeros;  g[1:] += a;  g[:-1] += b        becomes     g[0] = b[0];  g[1:-1] = a[:-1] + b[1:];  g[-1] = a[-1]

A vector that is cheap to compute is recomputed at each shift instead of being stored.
The terms of each element keep their order; initial zeros are dropped.

References
----------
Hückelheim, Kukreja, Narayanan, Luporini, Gorman and Hovland (2019), Automatic differentiation for adjoint stencil
loops. doi:10.1145/3337821.3337906
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import math
from operator import itemgetter

import numpy as np

from wengert.program.ir.ir import Listing, c_strides, columns_named, kind_of, operands, replaced, whole_view
from wengert.program.ir.opcode_table import ELEMENTWISE, OPCODES, ROWS, marked, opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.ir.view_overlap import Boxes
from wengert.program.memo import memoised
from wengert.program.passes import cost, simplify

_FLOAT = np.dtype(float)
_POWERS = [OPCODES["**"], OPCODES["power"]]
_POWERS += [Op.PARTIAL + 2 * opcode + side for opcode in _POWERS for side in (0, 1)]
_ADD = OPCODES["add"]
_STORES_OR_ADDS = marked(frozenset((Op.PLACE, _ADD)))
#: opcodes that read arrays by address, and thus cannot be fused into one pass over chunks with their producers
_READS_BY_ADDRESS = marked(opcodes(access="memory"))

#: limit on the boxes into which an array is cut, and on the instructions of an expression recomputed at each shift
_MAX_BOXES = 64
_MAX_EXPRESSION = 64
#: limit on slice additions per array, which bounds recursion
_MAX_SLICES = 24
#: fraction of the array that its slices must cover on average
_MIN_COVERAGE = 0.3
#: nanoseconds that fusion must be able to save per call for the search to pay
_MIN_SAVED_PER_CALL = 1500.0
#: nanoseconds that fusion must be able to save per slice: finding boxes takes about 100 us per slice
_MIN_SAVED_PER_SLICE = 300.0
#: limit on the elements of a short row; the VM copies short rows together
_MAX_SHORT_ROW = 66
#: kinds of nodes that hold an array, and kinds that add
_ARRAY_WORDS, _ADDERS = ("set", "add", "array"), ("add", "sum")
#: limit on instructions times candidates for the greedy search of vectors to store
_MAX_SEARCH_SIZE = 400


def fuse_stencils(code: Listing, is_compiled: bool = False, runs: int = 1) -> Listing:
    """Return the program with slice additions fused into sums of shifted arrays where that is estimated to be faster.

    Parameters
    ----------
    code : Listing
        Program at the last stage before the VM; returned unchanged if nothing is gained.
    is_compiled : bool
        Whether LLVM compiles the program, where arithmetic is cheaper relative to memory than in the VM.
    runs : int
        Runs of the program per call; the search takes about a millisecond and must pay off.
    """
    if not simplify.contains(code, Op.PLACE):
        return code
    op, a, b, c = code.op, code.a, code.b, code.c
    is_part = (op == Op.PLACE) & (a >= 0)
    placed, added = np.flatnonzero(is_part), np.flatnonzero(op == _ADD)
    placed = placed[op[c[placed]] == _ADD]
    added = added[is_part[a[added]] | is_part[b[added]]]
    costs = cost.REGIONS_COMPILED if is_compiled else cost.REGIONS_ON_VM
    sizes = [math.prod(code.views[k][1]) for k in b[placed].tolist()]
    sizes += [math.prod(kind_of(code, i)[1]) for i in added.tolist()]
    saved = runs * (cost.ADDITION_TRANSFERS * costs.near * sum(sizes) + costs.step * len(placed))
    min_size = 0.0 if is_compiled else _MIN_SAVED_PER_SLICE / (cost.ADDITION_TRANSFERS * costs.near * runs)
    if not sum(sizes) or max(sizes) < min_size or (saved < _MIN_SAVED_PER_CALL and not is_compiled):
        return code
    return _StencilFusion(code, costs, min_size).run()


class _Node:
    """How an array is made: a fill, another array, an array with a box set or added to, or a sum of two arrays."""

    __slots__ = ("adds", "box", "first", "second", "value", "word")

    def __init__(self, word, value=-1, first=None, second=None, box=None):
        self.word, self.value, self.first, self.second, self.box = word, value, first, second, box
        self.adds = (word in _ADDERS) + sum(node.adds for node in (first, second) if node is not None)

    def nodes(self):
        """Return this node and all its descendants."""
        return [self, *[node for part in (self.first, self.second) if part is not None for node in part.nodes()]]


class _Box:
    """Position of a view in the grid: start and length along each grid axis, and the view's axis there (-1: none)."""

    __slots__ = ("axes", "lengths", "starts")

    def __init__(self, starts, lengths, axes):
        self.starts, self.lengths, self.axes = starts, lengths, axes


class _StencilFusion:
    """Finds and rewrites sums in a program; slice additions must reach `min_size` elements on average per array."""

    def __init__(self, code, costs, min_size=0.0):
        self.code, self.costs, self.min_size = code, costs, min_size
        self.op, self.a, self.b, self.c = (getattr(code, name).tolist() for name in ("op", "a", "b", "c"))
        self.kind = code.type.tolist()
        self.uses, self.boxes = simplify.uses(code), Boxes(code)
        self._derived: dict = {}  # results of memoised methods
        self.known: dict = {}  # isomorphism class -> its first sum and the values read; unrolled loops repeat sums

    # ------------------------------------------------------------------------------------------ finding sums

    def run(self):
        """Return the new program; the same one if nothing is gained."""
        sums, seen = {}, set()
        for i in self._starts():
            if i not in seen:
                node = self._node(i, seen, _MAX_SLICES)
                if node.adds and self._is_large(i, node):
                    key, values = self._isomorphism_class(i, node)
                    first, known = self.known.setdefault(key, (None, values))
                    if first is None:
                        found = _Sum(self, i, node)
                        self.known[key] = found, values
                    else:
                        found = first.renamed(i, dict(zip(known, values)))
                    if found.is_profitable:
                        sums[i] = found
        if not sums:
            return self.code
        new = replaced(self.code, sorted(sums), lambda new, of, i: sums[i].emit(new, of))
        return simplify.live(simplify.shared(new))

    def _isomorphism_class(self, v, node):
        """Return a key that determines the layout of a sum, and the values to which the sum refers, in order."""
        numbers: dict = {}
        nodes = node.nodes()
        parts = []
        for part in nodes:
            u = part.value
            if u < 0:
                parts.append((part.word, part.box))
                continue
            is_zero = self.op[u] == Op.CONST and self.code.constants[self.a[u]] == 0.0
            number = numbers.setdefault(u, len(numbers)), numbers.setdefault(self.same(u), len(numbers))
            parts.append((part.word, part.box, number, self.kind[u] > 1, is_zero, self.own_reads[u]))
        own = set().union(*[self.expression(self.same(part.value)) for part in nodes if part.value >= 0])
        terms, todo = [], [*numbers]
        for u in todo:
            if u in own:
                read = [numbers.setdefault(w, len(numbers)) for w in self.operands(u)]
                todo += [*numbers][len(todo) :]
                terms.append((self.weight(u), self.reads[u], *read))
            else:
                terms.append(self.reads[u])
        return (kind_of(self.code, v)[1], v in self.in_memory, *parts, *terms), [*numbers]

    def _starts(self):
        """Return the candidates for sums, last first.

        At least one slice addition of a sum must reach the required average size.
        """
        has_large, op, a = set(), self.op, self.a
        lengths = [math.prod(view[1]) for view in self.code.views]
        sizes = [_MIN_COVERAGE * math.prod(type[1]) for type in self.code.types]
        for i in np.flatnonzero(_STORES_OR_ADDS[self.code.op]).tolist():
            if self._is_whole(i):
                if op[i] == _ADD:
                    is_large = op[a[i]] == Op.PLACE or op[self.b[i]] == Op.PLACE
                    is_large = is_large or a[i] in has_large or self.b[i] in has_large
                else:
                    min_size = max(sizes[self.kind[i]], self.min_size)
                    is_large = a[i] in has_large or (op[self.c[i]] == _ADD and lengths[self.b[i]] >= min_size)
                if is_large:
                    has_large.add(i)
        return sorted(has_large, reverse=True)

    def _is_whole(self, v):
        """Return whether a value is a float64 array in C order."""
        dtype, shape, strides = kind_of(self.code, v)
        return self.kind[v] > 1 and dtype == _FLOAT and strides is None and len(shape) > 0

    def _is_large(self, v, node):
        """Return whether the additions cover enough of the array for a search of its boxes to pay."""
        size = math.prod(kind_of(self.code, v)[1])
        sizes = [
            size if part.word == "sum" else math.prod(part.box[1]) for part in node.nodes() if part.word in _ADDERS
        ]
        return sum(sizes) >= max(_MIN_COVERAGE * size, self.min_size) * len(sizes)

    def _node(self, v, seen, depth):
        """Return the expression tree of a value, down to values with other uses; add its instructions to `seen`."""
        op, a, c = self.op[v], self.a[v], self.c[v]
        if op == Op.PLACE and a < 0 and self.kind[c] <= 1:
            return _Node("fill", c)
        if op == Op.PLACE and a >= 0 and self.kind[a] == self.kind[v] and self._fits(v):
            seen.add(v)
            added = self.added(v)
            is_fill = self.op[a] == Op.PLACE and self.a[a] < 0 and self.kind[self.c[a]] <= 1
            is_inner = is_fill or (depth > 0 and self._is_inner(a))
            first = self._node(a, seen, depth - 1) if is_inner else _Node("array", a)
            word, value = ("set", c) if added is None else ("add", added)
            return _Node(word, value, first, box=self.code.views[self.b[v]])
        if op == _ADD and depth > 0 and self._is_whole(self.a[v]) and self._is_whole(self.b[v]):
            inner = [self._is_inner(u) and self.op[u] in (Op.PLACE, _ADD) for u in (self.a[v], self.b[v])]
            inner = [is_inner and (self.op[u] == _ADD or self.a[u] >= 0) for is_inner, u in zip(inner, (a, self.b[v]))]
            if any(inner):
                seen.add(v)
                first, second = [
                    self._node(u, seen, depth // 2) if is_inner else _Node("array", u)
                    for u, is_inner in zip((self.a[v], self.b[v]), inner)
                ]
                return _Node("sum", first=first, second=second)
        return _Node("array", v)

    def _is_inner(self, v):
        """Return whether only the next array of the chain uses an array, apart from reads that add to its elements."""
        return self.uses[v] == 1 + self.own_reads[v]

    def _fits(self, v):
        """Return whether a stored value has the shape of the view, so that it needs no broadcasting."""
        c = self.c[v]
        return self.kind[c] <= 1 or kind_of(self.code, c)[:2] == (_FLOAT, tuple(self.code.views[self.b[v]][1]))

    def added(self, v):
        """Return the value that a PLACE adds to the elements it overwrites; None if it does not add."""
        return self.additions[v][0] if v in self.additions else None

    @functools.cached_property
    def additions(self):
        """Map each PLACE that adds to old elements to a pair: the addend, and the view of the old elements."""
        found = {}
        for v in np.flatnonzero(np.equal(self.op, Op.PLACE)).tolist():
            c = self.c[v]
            if self.a[v] >= 0 and self.op[c] == _ADD and self.uses[c] == 1:
                for old, new in ((self.a[c], self.b[c]), (self.b[c], self.a[c])):
                    is_old = self.op[old] == Op.VIEW and self.b[old] == self.b[v] and self.uses[old] == 1
                    # the view may be of an earlier array, whose elements there must equal those that v overwrites
                    if is_old and new != old and simplify.holds(
                        self.code, self.boxes, self.a[v], self.a[old], self.b[v], _MAX_SLICES
                    ):
                        found[v] = new, old
                        break
        return found

    @functools.cached_property
    def own_reads(self):
        """For each array, the number of reads that only serve to add to its own elements."""
        return collections.Counter(self.a[view] for _, view in self.additions.values())

    # ------------------------------------------------------------------------------------------ expressions

    def is_computed(self, v):
        """Return whether a value is an elementwise result that is never read by address."""
        return self.op[v] in ELEMENTWISE and self.kind[v] > 1 and v not in self.in_memory

    @functools.cached_property
    def in_memory(self):
        """Values that must be stored, because they are outputs or are read by address."""
        found = set(self.code.outputs)
        own = {view for _, view in self.additions.values()}
        for i in np.flatnonzero(_READS_BY_ADDRESS[self.op]).tolist():
            if i not in own:
                found.update(operands(self.code, i))
        return found

    def same(self, v):
        """Return the original if v is an element-by-element copy of another value, else v."""
        while self.op[v] == Op.PLACE and self.a[v] < 0:
            c = self.c[v]
            shape = kind_of(self.code, v)[1]
            offset, placed, strides = self.code.views[self.b[v]]
            is_copy = self._is_whole(v) and offset == 0 and placed == shape and strides == c_strides(shape, 8)
            if not is_copy or self.kind[c] <= 1 or kind_of(self.code, c)[:2] != (_FLOAT, shape):
                break
            v = c
        return v

    @memoised
    def expression(self, v):
        """Return the instructions that compute a value from stored ones; empty if there are too many."""
        if self.depths[v] > _MAX_EXPRESSION:
            return set()
        found, todo = set(), [v]
        while todo:
            u = todo.pop()
            if u not in found and self.is_computed(u):
                found.add(u)
                todo += self.operands(u)
                if len(found) > _MAX_EXPRESSION:
                    return set()
        return found

    @functools.cached_property
    def depths(self):
        """Return the length of the longest chain of computed operands of each value; long chains are not fused."""
        found = []
        for v in range(len(self.op)):
            inner = [found[u] for u in self.operands(v)] if self.is_computed(v) else [-1]
            found.append(1 + max(inner, default=0))
        return found

    @memoised
    def operands(self, v):
        """Return the operands of an elementwise instruction, looking through copies."""
        return [self.same(u) for u in operands(self.code, v)]

    @memoised
    def weight(self, v):
        """Return the nanoseconds per element of an instruction."""
        op = self.op[v]
        operations = ROWS[op].operations
        if op in _POWERS and self.op[self.b[v]] == Op.CONST:
            is_product = self.code.constants[self.a[self.b[v]]] in (0.5, 1.0, 2.0, 3.0, 4.0)
            operations = 2 if is_product else operations
        return self.costs.operation * operations

    def is_function(self, v):
        """Return whether an instruction costs more than arithmetic."""
        return self.weight(v) > 2 * self.costs.operation

    @functools.cached_property
    def reads(self):
        """Number of uses of each value, including those of its copies."""
        found = list(self.uses)
        for i in np.flatnonzero(np.equal(self.op, Op.PLACE)).tolist():
            if self.same(i) != i:
                found[self.same(i)] += self.uses[i] - 1
        return found


class _Sum:
    """One fused sum: an array cut into boxes, each with its terms (value, box of the value)."""

    def __init__(self, fusion, v, node):
        self.fusion, self.code, self.v = fusion, fusion.code, v
        self.shape = kind_of(self.code, v)[1]
        self.nodes = node.nodes()
        self.parts = [node for node in self.nodes if node.box is not None]
        self.is_profitable = self._find_grid() and self._find_boxes(node) and self._saves()

    def renamed(self, v, values):
        """Return this sum with its values replaced, by a dict from old to new values."""
        found = copy.copy(self)
        found.v = v
        if self.is_profitable:
            found.kept = {values[u] for u in self.kept}
            found.boxes = {
                starts: (stops, tuple([(values[u], box) for u, box in terms]))
                for starts, (stops, terms) in self.boxes.items()
            }
        return found

    # ------------------------------------------------------------------------------------------ boxes

    def _find_grid(self):
        """Find grid axes along which all slices are boxes: the array's axes, or those of the views of a 1-D array."""
        strides = c_strides(self.shape, 8)
        if len(self.shape) == 1:
            found = {s for node in self.parts for n, s in zip(node.box[1], node.box[2]) if n > 1}
            strides = tuple(sorted(found | {8}, reverse=True))
        size = 8 * math.prod(self.shape)
        before = (size, *strides)
        if size == 0 or any(s <= 0 or t % s for t, s in zip(before, strides)):
            return False
        self.strides, self.dims = strides, [t // s for t, s in zip(before, strides)]
        own = tuple(self.dims) == self.shape
        self.whole = _Box([0] * len(self.dims), self.dims, [*range(len(self.dims))]) if own else None
        for node in self.parts:
            node.box = self._box(node.box)
        return None not in [node.box for node in self.parts]

    def _box(self, view):
        offset, shape, strides = view
        axes = {}
        for d, (n, s) in enumerate(zip(shape, strides)):
            if n > 1 and (s not in self.strides or s in axes):
                return None
            if n > 1:
                axes[s] = d
        starts = []
        for s in self.strides:
            starts.append(offset // s)
            offset %= s
        lengths = [shape[axes[s]] if s in axes else min(1, math.prod(shape)) for s in self.strides]
        if offset or any(a + n > m for a, n, m in zip(starts, lengths, self.dims)):
            return None
        return _Box(starts, lengths, [axes.get(s, -1) for s in self.strides])

    def _find_boxes(self, node):
        """Cut at the bounds of all slices, then merge adjacent boxes with equal terms."""
        cuts = []
        for k, n in enumerate(self.dims):
            ends = {0, n}
            for part in self.parts:
                if part.box.lengths[k]:
                    ends.update((part.box.starts[k], part.box.starts[k] + part.box.lengths[k]))
            cuts.append(sorted(ends))
        if math.prod(len(ends) - 1 for ends in cuts) > 8 * _MAX_BOXES:
            return False
        boxes = {}
        for places in itertools.product(*[range(len(ends) - 1) for ends in cuts]):
            starts = tuple(ends[p] for ends, p in zip(cuts, places))
            stops = tuple(ends[p + 1] for ends, p in zip(cuts, places))
            boxes[starts] = stops, tuple(self._terms(node, starts))
        for k in reversed(range(len(self.dims))):
            boxes = _merged(boxes, k)
        self.boxes = boxes
        return len(boxes) <= _MAX_BOXES

    def _terms(self, node, place):
        """Return the terms of the element at `place`, as pairs of a value and its box (None: the whole array)."""
        if node.word == "sum":
            return self._terms(node.first, place) + self._terms(node.second, place)
        if node.word in ("fill", "array"):
            return [] if self._is_zero(node) else [(node.value, self.whole)]
        box = node.box
        is_inside = all(a <= p < a + n for a, n, p in zip(box.starts, box.lengths, place))
        if not is_inside:
            return self._terms(node.first, place)
        own = [] if self._is_zero(node) else [(node.value, box)]
        return own if node.word == "set" else self._terms(node.first, place) + own

    def _is_zero(self, node):
        v = node.value
        return self.fusion.op[v] == Op.CONST and self.code.constants[self.fusion.a[v]] == 0.0

    # ------------------------------------------------------------------------------------------ costs

    def _saves(self):
        """Choose which vectors to store, and return whether the fused form is estimated to be faster."""
        fusion, size = self.fusion, math.prod(self.shape)
        costs = fusion.costs
        is_short = len(self.dims) > 1 and self.dims[-1] <= _MAX_SHORT_ROW
        over = costs.far if 8 * size > cost.CACHE else costs.short if is_short else costs.near
        nodes = [node for node in self.nodes if node.word in _ARRAY_WORDS and fusion.kind[node.value] > 1]
        shifted = {(fusion.same(node.value), None if node.box is None else tuple(node.box.starts)) for node in nodes}
        own = set().union(*[fusion.expression(v) for v, _ in shifted])
        elsewhere = self._read_elsewhere(own)
        kept, min_cost = self._choice(shifted, own, elsewhere, over)
        self.kept = kept
        spent = min_cost * size
        # the largest box costs as much as before, except for memory traffic; in small boxes, dispatch dominates
        largest = max(_size_of(starts, stops) for starts, (stops, _) in self.boxes.items())
        for starts, (stops, terms) in self.boxes.items():
            if _size_of(starts, stops) < largest:
                spent += costs.instruction * (2 + sum(self._instructions(v) for v, _ in terms))
        added = sum(math.prod(node.box.lengths) for node in self.parts if node.word == "add")
        saved = cost.ADDITION_TRANSFERS * over * added
        # the operands of a sum of two arrays had to be stored; the sum itself may have been fused
        of_sums = [part for node in self.nodes if node.word == "sum" for part in (node.first, node.second)]
        saved += over * size * sum(part.word in ("set", "add") for part in of_sums)
        spent += over * size if of_sums and self.v not in fusion.in_memory else 0.0
        return spent < saved + size * sum(map(fusion.weight, own)) + costs.step * len(self.parts)

    def _read_elsewhere(self, own):
        """Return the instructions of terms that also have uses outside the sum."""
        fusion = self.fusion
        counts = collections.Counter(u for v in own for u in fusion.operands(v))
        for node in self.nodes:
            if node.word in _ARRAY_WORDS:
                counts[fusion.same(node.value)] += 1 + (fusion.own_reads[node.value] if node.word == "array" else 0)
        return {v for v in own if fusion.reads[v] > counts[v]}

    def _choice(self, shifted, own, elsewhere, over):
        """Choose the vectors to store; all others are recomputed at each shift. Also return nanoseconds per element."""
        fusion = self.fusion
        terms = {v for v, _ in shifted}
        candidates = {v for v in own if v in terms or fusion.is_function(v)}

        def spent_with(kept):
            again, todo = set(), [*shifted]
            while todo:
                v, shift = todo.pop()
                if v in own and v not in kept and (v, shift) not in again:
                    again.add((v, shift))
                    todo += [(u, shift) for u in fusion.operands(v)]
            once = set().union(*[fusion.expression(v) for v in kept | elsewhere])
            return over * len(kept) + sum(fusion.weight(v) for v, _ in again) + sum(map(fusion.weight, once))

        choices = [frozenset(), frozenset(terms & own)]
        min_cost, kept = min([(spent_with(choice), choice) for choice in choices], key=itemgetter(0))
        for choice in choices[: 1 if len(own) * len(candidates) < _MAX_SEARCH_SIZE else 0]:
            best = spent_with(choice)
            while candidates - choice:
                less, more = min(
                    [(spent_with(choice | {v}), choice | {v}) for v in candidates - choice], key=itemgetter(0)
                )
                if less >= best:
                    break
                best, choice = less, more
            if best < min_cost:
                min_cost, kept = best, choice
        return kept, min_cost

    def _instructions(self, v):
        """Return the instruction count of a term, including loads."""
        same = self.fusion.same(v)
        return 2 + (0 if same in self.kept else 2 * len(self.fusion.expression(same)))

    # ------------------------------------------------------------------------------------------ the new program

    def emit(self, new, of):
        """Append the boxes, largest first, and return the id of the whole array."""
        type = kind_of(self.code, self.v)
        self.new, self.of, self.known = new, of, {}
        whole = -1
        by_shape = sorted(self.boxes.items(), key=lambda item: [-(b - a) for a, b in zip(item[0], item[1][0])])
        if len(by_shape) > 1:
            whole = new.place(-1, (0, self.shape, c_strides(self.shape, 8)), new.filled(0.0, ()), type)
        for starts, (stops, terms) in by_shape:
            lengths = tuple(b - a for a, b in zip(starts, stops))
            value = self._total(starts, lengths, terms)
            view = sum(a * s for a, s in zip(starts, self.strides)), lengths, self.strides
            whole = new.place(whole, view, value, type)
        return whole

    def _total(self, starts, lengths, terms):
        found = -1
        for v, box in terms:
            term = self._term(v, box, starts, lengths)
            found = term if found < 0 else self._elementwise(_ADD, _FLOAT, lengths, found, term)
        return found if found >= 0 else self.new.filled(0.0, ())

    def _elementwise(self, op, dtype, lengths, a, b=-1, c=-1):
        is_number = all(v < 0 or kind_of(self.new, v)[1] == () for v in (a, b, c))
        type = (dtype, (), None if dtype == _FLOAT else "flag") if is_number else (dtype, lengths, None)
        return self.new.add(op, type, a, b, c)

    def _term(self, v, box, starts, lengths):
        """Return the elements of a value that lie in a box of the array."""
        if self.fusion.kind[v] <= 1:
            return int(self.of[v])
        if box is None:  # an array of the shape of the sum
            view = sum(a * s for a, s in zip(starts, self.strides)), lengths, self.strides
            return self.new.part(int(self.of[v]), view, _FLOAT)
        inside = tuple([(a - b, axis) for a, b, axis in zip(starts, box.starts, box.axes)])
        return self._at(self.fusion.same(v), inside, lengths)

    def _at(self, v, inside, lengths):
        """Return a box of a value, given (start, axis of the value) for each grid axis."""
        fusion = self.fusion
        if fusion.kind[v] <= 1:
            return int(self.of[v])
        key = v, inside, lengths
        if key not in self.known:
            if v in self.kept or not fusion.expression(v):
                self.known[key] = self._read(v, inside, lengths)
            else:
                read = columns_named(fusion.op[v])
                columns = zip((1, 2, 4), (fusion.a[v], fusion.b[v], fusion.c[v]))
                given = [self._at(fusion.same(u), inside, lengths) if read & k and u >= 0 else -1 for k, u in columns]
                self.known[key] = self._elementwise(fusion.op[v], kind_of(self.code, v)[0], lengths, *given)
        return self.known[key]

    def _read(self, v, inside, lengths):
        """Return a box of a stored value as a view; the arguments are those of `_at`."""
        dtype, shape, strides = kind_of(self.code, v)
        source = int(self.of[v])
        if self.fusion.op[v] == Op.VIEW:
            source = int(self.of[self.fusion.a[v]])
            offset, shape, strides = self.code.views[self.fusion.b[v]]
        else:
            offset, shape, strides = whole_view((dtype, shape, strides))
        offset += sum(start * strides[axis] for start, axis in inside if axis >= 0)
        steps = [strides[axis] if axis >= 0 else dtype.itemsize for _, axis in inside]
        return self.new.part(source, (offset, lengths, tuple(steps)), dtype)


def _size_of(starts, stops):
    """Return the element count of a box."""
    return math.prod(b - a for a, b in zip(starts, stops))


def _merged(boxes, k):
    """Merge boxes that are adjacent along axis k and have equal terms."""
    found = {}
    for starts in sorted(boxes, key=lambda starts: (starts[:k], starts[k + 1 :], starts[k])):
        stops, terms = boxes[starts]
        if found:
            last = next(reversed(found))
            ends, before = found[last]
            is_next = last[:k] + last[k + 1 :] == starts[:k] + starts[k + 1 :] and ends[k] == starts[k]
            if is_next and ends[:k] + ends[k + 1 :] == stops[:k] + stops[k + 1 :] and before == terms:
                found[last] = (*ends[:k], stops[k], *ends[k + 1 :]), terms
                continue
        found[starts] = stops, terms
    return found
