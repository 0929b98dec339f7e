"""Re-rolls repeated iterations in a trace into loops, whose body runs once per iteration.

Input: a program; output: the program with each recovered loop as one call, or the same program if there is none.

The trace of a loop repeats the same instructions with a period. An operand of the body is
- a value of the same iteration,
- a value of an earlier iteration, which the loop carries,
- a loop-invariant value, or
- a slice: a view whose offset is affine in the iteration, or a table with one constant per iteration.
Values of all iterations that are used after the loop are stacked.
Small iterations that depend on each other only through running sums become array expressions (`parallel_loops`).

Loops save memory rather than time, so only iterations on large arrays are rolled.

References
----------
Rocha, Petoumenos, Franke, Bhatotia and O'Boyle (2022), Loop rolling for code size reduction.
doi:10.1109/CGO53902.2022.9741256
"""

from __future__ import annotations

import collections
import functools
import math

import numpy as np

from wengert.program.ir.call import Operand, static
from wengert.program.ir.ir import Listing, columns_named, kind_of, operands, overlaps
from wengert.program.ir.opcode_table import ELEMENTWISE, OPCODES, marked, opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.passes import parallel_loops, simplify
from wengert.program.passes.loop import Loop, call_of, type_of_result

_FLOAT = np.dtype(float)
#: by opcode: which of the columns a, b and c hold value ids
VALUE_COLUMNS = np.array([columns_named(op) for op in range(Op.OPS)])
_HAS_LIST = marked(frozenset((Op.CALL, Op.PACK)))  # any number of operands
_IS_LEAF = marked(opcodes(access=""))[:-1]
_SUMS = OPCODES["add"], OPCODES["subtract"]
_DATA_MOVEMENT = (Op.LOAD, Op.VIEW, Op.PLACE, Op.PACK, Op.STOP)
_MOVES = _IS_LEAF | marked(frozenset(_DATA_MOVEMENT))[:-1]

#: type ids up to this one are scalar types
FLAG = 1
#: minimum number of iterations of a loop
_MIN_STEPS = 8
#: limit on the distance, in iterations, over which a value is carried
_MAX_CARRIED_DISTANCE = 4
#: minimum bytes of the arrays of a loop, about a last-level cache, and of one iteration: below these, rolling saves too
#: little memory
_MIN_BYTES = 4_000_000
_MIN_BYTES_PER_STEP = 16_000
#: limit on the instructions in a body
_MAX_BODY_LENGTH = 1000
#: instructions per window that is hashed to find repetitions
_WINDOW_LENGTH = 4
#: minimum number of equal windows for a search; the shortest loop, of one repeated instruction, has one more
_MIN_WINDOWS = _MIN_STEPS - _WINDOW_LENGTH
#: limit on candidate periods
_MAX_PERIODS = 6
#: loops over small arrays stay unrolled in programs with fewer instructions than this
_MIN_ROLLED_LENGTH = 200
#: limits of mostly scalar programs, whose loops stay unrolled: instructions; elements of an array that counts as a
#: scalar; and share of calls and of instructions on larger arrays
_MAX_SCALAR_LENGTH, _MAX_TINY, _MAX_HEAVY_SHARE = 1 << 17, 4, 0.05
#: up to this many elementwise instructions, unrolled code is faster: the VM fuses it into one pass over the elements
_MAX_FUSED_INSTRUCTIONS = 2000


def recover_small_loops(code, optimised, of_scalars=False):
    """Return the program with repeated iterations on small arrays rolled; `optimised` is applied to the bodies.

    Later passes take less time, because they process the body of a loop only once.
    Without `of_scalars`, code that is mostly scalar stays as it is: for a single derivative, rolling takes longer than
    the later passes save.
    """
    if len(code) < _MIN_ROLLED_LENGTH or not _repeats_arrays(code) or not _may_repeat(code):
        return code
    if not of_scalars and _is_mostly_scalar(code):
        return code
    found = _LoopSearch(code, optimised).loop()
    return code if found is None else recover_small_loops(simplify.live(found), optimised, of_scalars)


def recover_loops(code):
    """Return the program with repeated iterations rolled into loops; the same program if none is worthwhile."""
    if len(code) < 4 * _MIN_STEPS:
        return code
    sizes = np.array([type[0].itemsize * math.prod(type[1]) if k > FLAG else 0 for k, type in enumerate(code.types)])
    if np.bincount(code.type, minlength=len(sizes)) @ sizes < _MIN_BYTES or not _may_repeat(code):
        return code
    found = _LoopSearch(code).loop()
    return code if found is None else recover_loops(simplify.live(found))


def _is_mostly_scalar(code):
    """Return whether rolling would not pay, because the program is short and has few calls and few larger arrays.

    Other passes take 0.1 us per scalar instruction, less than the search for loops.
    """
    if len(code) > _MAX_SCALAR_LENGTH:
        return False
    sizes = np.array([math.prod(type[1]) if k > FLAG else 0 for k, type in enumerate(code.types)])
    heavy = (code.op == Op.CALL) | (_computes_arrays(code.op, code.type) & (sizes[code.type] > _MAX_TINY))
    return int(heavy.sum()) < _MAX_HEAVY_SHARE * len(code)


def _repeats_arrays(code):
    """Return whether some computation on arrays occurs often enough for a loop."""
    op, kind = code.op, code.type
    computes = _computes_arrays(op, kind)
    return _has_repeated(op[computes] * np.int64(1 + len(code.types)) + kind[computes], _MIN_STEPS)


def _computes_arrays(op, kind):
    """Return a mask of the instructions that compute arrays, rather than move or view elements."""
    return (kind > FLAG) & ~_MOVES[op]


def _may_repeat(code):
    """Return whether some window of instructions repeats often enough for a loop, comparing opcodes and types only."""
    op = code.op
    words = (op * np.int64(1 + len(code.types)) + code.type)[~_IS_LEAF[op]]
    # the shortest loop, with one instruction in its body, has this number of equal windows
    return _has_repetition(words, _MIN_STEPS - _WINDOW_LENGTH + 1)


class _LoopSearch:
    """Searches a program for one loop.

    A position is an index among the instructions that compute; inputs and constants have none.
    """

    def __init__(self, code, optimised=None):
        self.code, self.optimised, self.computes = code, optimised, {}
        self.op, self.kind = code.op.astype(np.int64), code.type.astype(np.int64)
        self.a, self.b, self.c = code.a, code.b, code.c  # kept, because each access copies the column
        self.is_fill = (self.op == Op.PLACE) & (self.a < 0)
        self.is_fill[self.is_fill] = self.op[self.c[self.is_fill]] == Op.CONST
        self.computing = np.flatnonzero(~_IS_LEAF[self.op] & ~self.is_fill)
        self.position = np.full(len(code), -1, dtype=np.int64)
        self.position[self.computing] = np.arange(len(self.computing))
        named = VALUE_COLUMNS[self.op]
        columns = ((1, code.a), (2, code.b), (4, code.c))
        self.read = np.array([np.where(named & bit, column, -1) for bit, column in columns], dtype=np.int64)
        self.read[:, _HAS_LIST[self.op]] = -1

    @functools.cached_property
    def long_operands(self):
        """The operands of calls and packs, which may have more than three."""
        many = np.flatnonzero(_HAS_LIST[self.op])
        return {i: np.array(operands(self.code, i), dtype=np.int64) for i in many.tolist()}

    @functools.cached_property
    def reads(self):
        """The positions of values that are read, in order, and the position of each reader, -1 for the caller."""
        readers = np.arange(len(self.code))
        long = self.long_operands.items()
        values = np.concatenate([*self.read, *[given for _, given in long], self.code.outputs]).astype(np.int64)
        by = [np.tile(readers, 3), *[np.full(len(given), i) for i, given in long]]
        by = np.concatenate([self.position[np.concatenate(by)], np.full(len(self.code.outputs), -1)])
        is_read = values >= 0
        is_read[is_read] = self.position[values[is_read]] >= 0
        read, by = self.position[values[is_read]], by[is_read]
        order = np.argsort(read, kind="stable")
        return read[order], by[order]

    def size(self, i):
        dtype, shape, _ = kind_of(self.code, i)
        return dtype.itemsize * math.prod(shape)

    # ------------------------------------------------------------------------------------------ the period

    def loop(self):
        """Return the program with the loop of most instructions, and others of its period, rolled; None without one."""
        if not _has_repetition(self._opcode_type_ids(), _MIN_WINDOWS):
            return None
        words = self._instruction_ids()
        for period, start, stop in self._candidates(words):
            longest = self._candidate(period, start, stop)
            if longest is None:
                continue
            runs = [run for run in _runs(words, period) if run != (start, stop)] if self.optimised is not None else []
            others = [self._candidate(period, *run) for run in runs]
            found = _rewritten(self, longest, [each for each in others if each is not None])
            if found is not None:
                return found
        return None

    def _candidate(self, period, start, stop):
        """Return the loop of a run of repeated instructions; None if there is none."""
        start = self._best_cut(period, start, stop)
        try:
            return _Candidate(self, period, start, (stop - start) // period)
        except _NotALoop:
            return None

    def _instruction_ids(self):
        """Return an id for each position; positions with equal ids may be the same instruction of two iterations."""
        at, coarse = self.computing, self._opcode_type_ids()
        more = np.zeros(len(at), dtype=np.int64)  # distinguishes instructions of equal opcode and type
        is_place = self.op[at] == Op.PLACE
        placed = at[is_place]
        layouts = _ids_of(view[1:] for view in self.code.views)
        more[is_place] = 2 * layouts[self.b[placed]] + (self.a[placed] < 0)
        others = np.flatnonzero(_HAS_LIST[self.op[at]] | (self.op[at] == Op.GUARD))
        more[others] = _ids_of(map(self._call_key, at[others].tolist()))
        return np.unique(coarse * (1 + more.max(initial=0)) + more, return_inverse=True)[1]

    def _opcode_type_ids(self):
        """Return an id for each position, determined by opcode and type only."""
        at = self.computing
        return self.op[at] * (1 + self.kind.max()) + self.kind[at]

    def _call_key(self, i):
        code, op, a, b = self.code, int(self.op[i]), int(self.a[i]), int(self.b[i])
        if op == Op.PACK:
            return code.packs[b][0].tobytes(), a < 0
        if op == Op.GUARD:
            return static(code.guards[b][0])
        call = code.calls[a]
        args = tuple([x.position if type(x) is Operand else static(x) for x in call.args])
        compute = self.computes.get(id(call.compute))
        if compute is None:
            compute = self.computes[id(call.compute)] = static(call.compute)
        return compute, args, static(call.kwargs) if call.kwargs else None, len(call.operands)

    def _candidates(self, words):
        """Return candidate loops as (period, start, stop) in positions, the longest first."""
        if not _has_repetition(words, _MIN_WINDOWS):
            return []
        hashed = _windows(words)
        order = np.argsort(hashed, kind="stable")
        gaps = np.diff(order)[hashed[order][1:] == hashed[order][:-1]]
        if not len(gaps):
            return []
        counts = np.bincount(gaps)
        periods = np.argsort(-counts * np.arange(len(counts)), kind="stable")[:_MAX_PERIODS]
        found = []
        for period in periods[(counts[periods] > 0) & (periods <= _MAX_BODY_LENGTH)].tolist():
            found += [(period, start, stop) for start, stop in _runs(words, period)]
        # among loops of similar length (within 5 %), prefer the shorter period
        return sorted(found, key=lambda run: (-round(20 * math.log(run[2] - run[1])), run[0]))[:_MAX_PERIODS]

    def _best_cut(self, period, start, stop):
        """Return the start of the first iteration, chosen within one period to minimise the bytes carried."""
        middle = start + (stop - start) // (2 * period) * period
        places = np.arange(middle - period, min(middle + 2 * period, stop))
        ids = self.computing[places]
        long = [(k, self.long_operands[i]) for k, i in enumerate(ids.tolist()) if i in self.long_operands]
        values = np.concatenate([self.read[:, ids].ravel(), *[given for _, given in long]])
        used = np.concatenate([np.tile(places, 3), *[np.full(len(given), places[k]) for k, given in long]])
        is_inside = values >= 0
        is_inside[is_inside] = self.position[values[is_inside]] >= start
        values, used = values[is_inside], used[is_inside]
        last = np.full(len(self.code), -1, dtype=np.int64)
        np.maximum.at(last, values, used)
        values = np.flatnonzero(last >= 0)
        first = np.maximum(self.position[values] + 1, middle) - middle
        end = np.minimum(last[values] + 1, middle + period) - middle
        sizes = np.array([dtype.itemsize * math.prod(shape) for dtype, shape, _ in self.code.types], dtype=np.int64)
        weights, is_carried = 8 + sizes[self.kind[values]], first < end
        cost = np.zeros(period + 1, dtype=np.int64)
        np.add.at(cost, first[is_carried], weights[is_carried])
        np.subtract.at(cost, end[is_carried], weights[is_carried])
        return start + int(np.argmin(np.cumsum(cost)[:period]))


def _runs(words, period):
    """Return the start and stop of each run of words that repeats with a period often enough for a loop."""
    same = np.concatenate([[False], words[period:] == words[:-period], [False]])
    edges = np.flatnonzero(same[1:] != same[:-1])
    runs = zip(edges[::2].tolist(), (edges[1::2] + period).tolist())
    return [(start, stop) for start, stop in runs if stop - start >= _MIN_STEPS * period]


def _rewritten(search, longest, others):
    """Return the program with the iterations of loops replaced; None if that of the longest one cannot be."""
    code = search.code
    new, of = Listing(), np.full(len(code), -1, dtype=np.int32)
    waiting = np.ones(len(code), dtype=bool)  # instructions that are not in the new program yet

    def take(which):
        ids = np.flatnonzero(which & waiting).astype(np.int32)
        new.take(code, ids, of)
        waiting[ids] = False

    take(search.position < 0)
    numbers = np.arange(len(code))
    for each in sorted([longest, *others], key=lambda candidate: candidate.start):
        if not waiting[each.at[0, 0]]:  # part of the loop before
            continue
        take(numbers < each.at[0, 0])
        try:
            each.rewrite(new, of)
        except _NotALoop:
            if each is longest:
                return None
            continue
        waiting[each.at] = False
    if waiting[longest.at[0, 0]]:
        return None
    take(waiting)
    new.inputs = of[code.inputs].tolist()
    new.outputs = of[code.outputs].tolist()
    return new


def _ids_of(keys):
    """Number the keys; equal keys get equal numbers."""
    known: dict = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], dtype=np.int64)


def _windows(words):
    """Return a hash of the window that starts at each position."""
    words, n = words.astype(np.uint64), len(words) - _WINDOW_LENGTH + 1
    hashed = np.zeros(n, dtype=np.uint64)
    for k in range(_WINDOW_LENGTH):
        hashed = hashed * np.uint64(0x9E3779B97F4A7C15) + words[k : k + n]
    return hashed


def _has_repetition(words, count):
    """Return whether a window of instructions occurs `count` times, in code that is long enough for a loop."""
    return len(words) - _WINDOW_LENGTH + 1 >= _MIN_STEPS and _has_repeated(_windows(words), count)


def _has_repeated(words, count):
    """Return whether one of the words occurs `count` times."""
    words = np.sort(words)
    return len(words) >= count and bool((words[count - 1 :] == words[: len(words) - count + 1]).any())


def _is_recurrence(body, carried):
    """Return whether any carried value is neither invariant nor a running sum.

    If not, iterations may be vectorised.
    """
    uses = simplify.uses(body)
    for v, y in zip(body.inputs[:carried], body.outputs[:carried]):
        terms = operands(body, y)
        is_sum = body.op[y] in _SUMS and terms.count(v) == 1 and (body.op[y] == _SUMS[0] or terms[0] == v)
        if not (v == y or (is_sum and uses[v] == 1)):
            return True
    return False


class _NotALoop(Exception):
    """The iterations do not form a loop, or not one worth rolling."""


class _Candidate:
    """The iterations of a candidate loop, and how each operand changes between iterations.

    ``at[j, q]`` is instruction q of iteration j.
    """

    def __init__(self, search, period, start, steps):
        self.search, self.code, self.period = search, search.code, period
        self.start, self.at = start, search.computing[start : start + steps * period].reshape(steps, period)
        first = self.at[0]
        if search.optimised is not None and not _computes_arrays(search.op[first], search.kind[first]).any():
            raise _NotALoop
        self._classify_operands()
        self._cut()
        self._check_profit()
        self.lasts, self.stacks = self._used_outside()

    # ------------------------------------------------------------------------------------------ operands

    def _classify_operands(self):
        """Classify each operand, keyed by (instruction of the body, operand number), by its values in all iterations.

        `back` maps an operand to its loop-carried distance: 0 if it is computed in the same iteration.
        """
        search = self.search
        self.given = {}
        read = np.ascontiguousarray(search.read[:, self.at].transpose(2, 0, 1))
        has_operand = (read[:, :, -1] >= 0).tolist()
        for q, i in enumerate(self.at[0].tolist()):
            columns, is_given = read[q], has_operand[q]
            if i in search.long_operands:
                columns = np.array([search.long_operands[i] for i in self.at[:, q].tolist()]).T
                is_given = (columns[:, -1] >= 0).tolist()
            for number in range(len(columns)):
                if is_given[number]:
                    self.given[q, number] = columns[number]
        keys, lines = list(self.given), np.array(list(self.given.values()), dtype=np.int64).reshape(-1, len(self.at))
        indices, middle = np.array([q for q, _ in keys], dtype=np.int64), len(self.at) // 2
        where, own = search.position[lines], search.position[self.at][:, indices].T
        away = (own - where)[:, middle]
        moves = (where >= 0) & (own - where == away[:, None])
        same = lines == lines[:, -1:]
        of_moves, of_same = moves.sum(axis=1), same.sum(axis=1)
        is_kept = of_same > np.maximum(of_moves, middle)
        is_moving = ~is_kept & (of_moves > middle)
        distances = -((indices - away) // self.period)
        if (distances[is_moving] > _MAX_CARRIED_DISTANCE).any():
            raise _NotALoop
        self.back = {keys[i]: int(distances[i]) for i in np.flatnonzero(is_moving).tolist()}
        broken = (~same[is_kept]).any(axis=0) | (~moves[is_moving & (distances == 0)]).any(axis=0)
        starts = (~moves[is_moving & (distances != 0)]).any(axis=0)
        for values in lines[~is_kept & ~is_moving]:
            broken |= ~self._is_table(values)
        self.broken, self.starts = broken, starts

    def _is_table(self, values):
        """Return a mask of the iterations in which an operand is a constant, of the same type as in the last one."""
        search = self.search
        op = search.op[values]
        is_constant = (op == Op.CONST) | (op == Op.ARRAY) | search.is_fill[values]
        return is_constant & (search.kind[values] == search.kind[values[-1]])

    def _cut(self):
        """Keep the longest run of iterations whose operands follow the same pattern."""
        edges = np.flatnonzero(np.diff(np.concatenate([[1], self.broken | self.starts, [1]])))
        runs = list(zip(edges[::2].tolist(), edges[1::2].tolist()))
        first, last = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
        distance = max(self.back.values(), default=0)
        if first and not self.broken[first - 1] and distance <= 1 and self._can_begin_at(first - 1):
            first -= 1
        self.at = self.at[first:last]
        self.start += first * self.period
        self.stop = self.start + self.at.size
        self.given = {key: values[first:last] for key, values in self.given.items()}
        if len(self.at) < _MIN_STEPS:
            raise _NotALoop
        lines = np.array(list(self.given.values()), dtype=np.int64).reshape(-1, len(self.at))
        is_same = (lines == lines[:, :1]).all(axis=1).tolist()
        self.invariant = {key for key, same in zip(self.given, is_same) if same}
        for key, values in self.given.items():
            if key not in self.back and key in self.invariant and self.search.position[values[0]] >= self.start:
                raise _NotALoop  # defined in one iteration and used in all later ones

    def _can_begin_at(self, first):
        """Return whether iteration `first` can be the first one.

        All reads of a carried value must agree on its initial value, which must have the value's type and precede
        the loop.
        """
        initial: dict = {}
        for (q, number), back in self.back.items():
            if back:
                values = self.given[q, number]
                v, made = int(values[first]), self.search.position[values[first + 1]]
                if initial.setdefault(int(made), v) != v or self.search.position[v] >= self.start + first * self.period:
                    return False
                if self.shape(v) != self.shape(values[first + 1]):
                    return False
        return True

    def shape(self, v):
        return kind_of(self.code, int(v))[:2]

    @staticmethod
    def is_same(values):
        return bool(values[0] == values[-1] and (values == values[0]).all())

    def _check_profit(self):
        """Raise `_NotALoop` unless the loop saves much memory and an iteration outweighs the loop overhead."""
        search = self.search
        if search.optimised is not None:
            return
        arrays = [i for i in self.at[0].tolist() if search.kind[i] > FLAG and search.op[i] != Op.VIEW]
        step = sum(map(search.size, arrays))
        if step < _MIN_BYTES_PER_STEP or len(self.at) * step < _MIN_BYTES:
            raise _NotALoop
        if all(search.op[i] in _DATA_MOVEMENT for i in self.at[0].tolist()):
            raise _NotALoop
        kinds = {(search.op[i] in ELEMENTWISE, self.shape(i)[1]) for i in self.at[0].tolist()}
        if len(kinds) == 1 and min(kinds)[0] and self.at.size < _MAX_FUSED_INSTRUCTIONS:
            raise _NotALoop  # elementwise: the VM fuses all iterations into one pass over the elements

    def _used_outside(self):
        """Return the body instructions of which later code reads only the last values, and those of which it reads all.

        The first result maps an instruction to the number of last iterations whose values are read.
        """
        read, by = self.search.reads
        inside = slice(*np.searchsorted(read, [self.start, self.stop]))
        read, by = read[inside], by[inside]
        places = np.unique(read[(by < self.start) | (by >= self.stop)]) - self.start
        lasts, stacks, depths = {}, [], self._depths()
        for q in np.unique(places % self.period).tolist():
            steps = places[places % self.period == q] // self.period
            depth = len(self.at) - int(steps.min())
            if depth <= max(1, depths.get(q, 0)):
                lasts[q] = depth
            else:
                stacks.append(q)
        return lasts, stacks

    def _depths(self):
        """Return the largest loop-carried distance at which each instruction is read, if it is carried at all."""
        found: dict[int, int] = {}
        for key, back in self.back.items():
            if back:
                q = self._defining(*key)
                found[q] = max(back, found.get(q, 0))
        return found

    def _defining(self, q, number):
        """Return the index of the body instruction that defines an operand."""
        return int(self.search.position[self.given[q, number][-1]] - self.start) % self.period

    # ------------------------------------------------------------------------------------------ the new program

    def rewrite(self, new, of):
        """Append a call of the loop, or the arrays of all its iterations, to the new program; `of` has its ids."""
        self.new, self.of = new, of
        self._write_body()
        values = [*self.carried.values(), *self.kept.values(), *self.slices]
        if self.is_parallel:
            first = len(self.carried), len(self.carried) + len(self.kept)
            self._read_result(parallel_loops.appended(new, self.body, len(self.at), *first, values))
            return
        loop = Loop(self.body, len(self.at), len(self.carried), len(self.kept), self.results)
        r = new.call(call_of(loop, values), type_of_result(loop))
        self._read_result(lambda word, number: (r, loop.view(word, number)))

    def _write_body(self):
        """Build the body from the instructions of one iteration, and collect its operands in the new program."""
        code = self.code
        self.body = body = Listing()
        self.body_id = np.full(len(code), -1, dtype=np.int32)  # id in the body of each value of the template iteration
        step = max([1, *self.back.values()])
        template = self.at[step]
        self.carried, self.kept, self.slices, self.body_inputs = {}, {}, [], []
        self._find_moving()
        depths = self._depths()
        for q in range(self.period):
            depth = 0 if q in self.trajectories else max(depths.get(q, 0), self.lasts.get(q, 0))
            for back in range(1, depth + 1):
                v = self._initial(q, back)
                self.carried[q, back] = self._initial_id(v, template[q])
                self.body_id[self.at[step - back, q]] = self._add_input(code, template[q], in_order=True)
        self._add_kept()
        tables, given = self._add_slices(), collections.defaultdict(list)
        for (q, number), table in tables.items():
            given[q].append((table, self.given[q, number]))
        waiting: list = []
        for q, i in enumerate(template.tolist()):
            if q in self.trajectories or q in self.moving:
                continue
            waiting.append(i)
            if q not in given:
                continue
            self._take(waiting[:-1])
            replaced = {}
            for table, values in given[q]:
                replaced[values[step]] = self.body_id[values[step]]
                self.body_id[values[step]] = table
            if len(replaced) > 1 or any(x >= 0 for x in replaced.values()):
                raise _NotALoop
            self._take([i])
            waiting = []
            for v, before in replaced.items():
                self.body_id[v] = before
        self._take(waiting)
        body.inputs = list(range(len(self.body_inputs)))
        ends = {q: int(self.body_id[i]) for q, i in enumerate(template.tolist())}
        body.outputs = [
            ends[q] if back == 1 else int(self.body_id[self.at[step - back + 1, q]]) for q, back in self.carried
        ]
        lasts = [("last", k) for k, (q, back) in enumerate(self.carried) if back <= self.lasts.get(q, 0)]
        stacks = [*self.stacks, *self.trajectories]
        sources = [ends[q] if q in self.stacks else int(self.body_id[self.given[q, 2][step]]) for q in stacks]
        self.stacked = {q: ("stack", len(body.outputs) + k) for k, q in enumerate(stacks)}
        body.outputs = body.outputs + sources
        for v in body.outputs:
            dtype, _, strides = kind_of(body, v)
            if dtype != _FLOAT or strides is not None:
                raise _NotALoop
        self.results = [*lasts, *self.stacked.values()]
        self.body, self.is_parallel = simplify.simplified(body, False), False
        if self.search.optimised is not None:
            self.is_parallel = not _is_recurrence(self.body, len(self.carried))
            if self.is_parallel and not parallel_loops.pays(self.body, len(self.at), len(self.carried)):
                raise _NotALoop
            self.body = self.body if self.is_parallel else self.search.optimised(self.body)

    def _take(self, ids):
        """Append instructions to the body."""
        if ids:
            self.body.take(self.code, np.array(ids, dtype=np.int32), self.body_id)

    def _initial(self, q, back):
        """Return the initial value that is carried into the first iteration, in the old program; -1 if none is read."""
        for (at, number), steps in self.back.items():
            if steps >= back and self._defining(at, number) == q:
                return int(self.given[at, number][steps - back])
        return -1

    def _initial_id(self, v, like):
        """Return the new id of an old value, which must have the C order that the body expects."""
        dtype, shape, strides = kind_of(self.code, int(like))
        if dtype != _FLOAT or strides is not None:
            raise _NotALoop
        if v < 0:
            return self.new.filled(0.0, shape)
        return int(self.of[v])

    def _add_input(self, code, v, in_order=False):
        """Add an input to the body, of the type of value `v`."""
        dtype, of_value, strides = kind_of(code, int(v))
        self.body_inputs.append(v)
        return self.body.add(Op.INPUT, (dtype, of_value, None if in_order else strides), len(self.body_inputs) - 1)

    def _add_kept(self):
        """Make loop invariants inputs of the body, except constants, which it contains itself."""
        for (q, number), values in self.given.items():
            if (q, number) in self.back or q in self.moving or (q, number) not in self.invariant:
                continue
            v = int(values[0])
            if self.body_id[v] >= 0 or self._is_constant(v):
                continue
            if q in self.trajectories and number == 0:
                continue
            dtype = kind_of(self.code, v)[0]
            if dtype.kind in "fc" and dtype != _FLOAT:
                raise _NotALoop  # its adjoint would be carried, but only float64 values can be
            self.kept[v] = int(self.of[v])
            self.body_id[v] = self._add_input(self.code, v)
        constants = {int(self.given[key][0]) for key in self.invariant}
        constants = set(filter(self._is_constant, constants))
        constants |= {int(self.search.c[v]) for v in constants if self.search.is_fill[v]}
        self.constants = np.array(sorted(constants), dtype=np.int32)

    def _is_constant(self, v):
        """Return whether a loop invariant is a constant, or an array filled with one, that the body can contain."""
        return bool(self.search.is_fill[v] or self.search.op[v] in (Op.CONST, Op.ARRAY))

    def _find_moving(self):
        """Find views and stores whose offset is affine in the iteration.

        A moving view of an invariant array becomes a slice. Stores to successive parts of one array become a stack,
        which is stored after the loop.
        """
        code, search = self.code, self.search
        self.moving, self.trajectories = {}, {}
        for q, op in enumerate(search.op[self.at[0]].tolist()):
            if op not in (Op.LOAD, Op.VIEW, Op.PLACE):
                continue
            ids = self.at[:, q]
            places = search.b[ids]
            if self.is_same(places):
                continue
            if op == Op.LOAD:
                offsets = 8 * places.astype(np.int64)
                dtype, shape, strides = _FLOAT, (), ()
            else:
                offsets = np.array([code.views[b][0] for b in places.tolist()])
                dtype, (_, shape, strides) = kind_of(code, ids[0])[0], code.views[int(places[0])]
            stride = int(offsets[1] - offsets[0])
            base = self.given.get((q, 0))
            if base is None or (np.diff(offsets) != stride).any() or dtype != _FLOAT:
                raise _NotALoop
            view = int(offsets[0]), (len(ids), *shape), (stride, *strides)
            if op != Op.PLACE:
                if (q, 0) in self.back or (q, 0) not in self.invariant or kind_of(code, int(base[0]))[0] != _FLOAT:
                    raise _NotALoop
                self.moving[q] = view
                continue
            readers = sum(self._defining(*key) == q for key in self.back)
            source = kind_of(code, int(self.given[q, 2][-1]))[1]
            if self.back.get((q, 0)) != 1 or self._defining(q, 0) != q or readers != 1 or source != shape:
                raise _NotALoop
            if self.lasts.get(q, 0) > 1 or q in self.stacks or overlaps(view[1], view[2]):
                raise _NotALoop
            if (q, 2) not in self.back:
                raise _NotALoop
            self.trajectories[q] = view

    def _add_slices(self):
        """Add an input for each slice and each table of constants; return the tables' inputs by operand."""
        code, new, tables = self.code, self.new, {}
        step = max([1, *self.back.values()])
        for q, view in self.moving.items():
            self.slices.append(new.part(int(self.of[self.given[q, 0][0]]), view, _FLOAT))
            self.body_id[self.at[step, q]] = self._add_input(code, self.at[step, q])
        known: dict = {}
        for key, values in self.given.items():
            if key in self.back or key in self.invariant or key[0] in self.moving:
                continue
            if values.tobytes() not in known:
                if kind_of(code, int(values[0]))[0] != _FLOAT:
                    raise _NotALoop
                table = np.array([self._constant(v) for v in values.tolist()])
                self.slices.append(new.constant_array(table))
                known[values.tobytes()] = self._add_input(code, values[0], in_order=True)
            tables[key] = known[values.tobytes()]
        self.body.take(code, self.constants, self.body_id)
        return tables

    def _constant(self, v):
        search, code = self.search, self.code
        if search.is_fill[v]:
            return np.full(self.shape(v)[1], self._constant(int(search.c[v])))
        return code.constants[search.a[v]] if search.op[v] == Op.CONST else code.arrays[search.a[v]]

    def _read_result(self, found):
        """Define the values that are used after the loop; ``found(word, number)`` is a value and the view of a part."""
        new = self.new
        for k, (q, back) in enumerate(self.carried):
            if back <= self.lasts.get(q, 0):
                r, view = found("last", k)
                self.of[self.at[-back, q]] = r if view is None else new.part(r, view, _FLOAT)
        for q in self.stacks:
            r, (offset, shape, strides) = found(*self.stacked[q])
            for j, i in enumerate(self.at[:, q].tolist()):
                self.of[i] = new.part(r, (offset + j * strides[0], shape[1:], strides[1:]), _FLOAT)
        for q, view in self.trajectories.items():
            stack = new.part(*found(*self.stacked[q]), _FLOAT)
            base = int(self.of[self.given[q, 0][0]])
            self.of[self.at[-1, q]] = new.place(base, view, stack, kind_of(self.code, int(self.at[-1, q])))
