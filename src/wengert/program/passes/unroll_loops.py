"""Unrolls loops with short bodies, before a program is run.

Input: a program; output: the program without such loops, or the same one if there are none.
`loop_recovery` rolls a trace so that other passes and differentiation see each body once.
A short body, such as scalar code, runs faster unrolled: there is no bookkeeping per iteration, and value numbering
reuses values of the forward loop that a reverse loop would recompute.
The time to build the VM is proportional to the length of the program, and much shorter for scalars than for arrays;
long bodies therefore stay in loops.

References
----------
Muchnick (1997), Advanced compiler design and implementation, section 17.4.3 (loop unrolling).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wengert.program.ir.ir import Listing, c_strides, kind_of, operands, whole_view
from wengert.program.ir.opcode_table import marked
from wengert.program.ir.opcodes import Op
from wengert.program.passes import cost
from wengert.program.passes.loop import Loop, is_loop
from wengert.program.passes.loop_recovery import FLAG, VALUE_COLUMNS

_FLOAT = np.dtype(float)
#: instructions that cost little to lower
_FREE = marked(frozenset((Op.INPUT, Op.CONST, Op.ARRAY, Op.VIEW, Op.PACK)))
#: limits on the instructions of unrolled loops: all; those with arrays; and those with arrays in mostly scalar loops
_MAX_LENGTH, _MAX_ARRAYS, _MAX_ARRAYS_AMONG_SCALARS = 1 << 17, 2000, 4000
#: limit on the share of instructions with arrays in mostly scalar code
_MAX_SHARE = 0.1


def unroll_short_loops(code: Listing, optimised: Callable[[Listing], Listing] = lambda body: body) -> Listing:
    """Return the program with its short loops unrolled; the same program if there are none.

    `optimised` is applied to the bodies first.
    """
    chosen = _short_loops(code)[0]
    return _Unroller(code, {id(loop): optimised(loop.body) for loop in chosen}).run() if chosen else code


def runs_to_pay(code: Listing) -> int:
    """Return the number of runs after which the time saved by unrolling exceeds its cost; 0 if no loop is unrolled."""
    chosen, length, arrays = _short_loops(code)
    saved = cost.UNROLLED_ITERATION * sum(loop.steps for loop in chosen)
    return 1 + int((cost.UNROLL_ARRAY * arrays + cost.UNROLL_SCALAR * length) / saved) if chosen else 0


def unrolled_size(code: Listing) -> tuple[int, int]:
    """Return how many instructions a program has with all loops unrolled, and how many of them have arrays."""
    loops, length, arrays = _sizes(code)
    return len(code) - len(loops) + length, _array_count(code) - len(loops) + arrays


def _sizes(code):
    """Return the loops, the instruction count of all their iterations, and that of their instructions with arrays."""
    loops = [call.compute for call in code.calls if is_loop(call)]
    length = sum(loop.steps * len(loop.body) for loop in loops)
    return loops, length, sum(loop.steps * _array_count(loop.body) for loop in loops)


def _short_loops(code):
    """Return the same as `_sizes`, but no loops if they are too long to unroll."""
    chosen, length, arrays = _sizes(code)
    most = _MAX_ARRAYS_AMONG_SCALARS if arrays < _MAX_SHARE * length else _MAX_ARRAYS
    return [] if length > _MAX_LENGTH or arrays > most else chosen, length, arrays


def _array_count(body):
    """Return the number of instructions that the VM lowers one at a time: calls, and those with arrays."""
    return int((((body.type > FLAG) & ~_FREE[body.op]) | (body.op == Op.CALL)).sum())


class _Unroller:
    """Replaces loops by their iterations, in one traversal of a program.

    `of` maps values to ids in the new program. `results` maps the result of an unrolled loop to the values of its
    parts. `stacks` maps an array of the values of all iterations to the list of these values; the array is built only
    when an instruction needs it.
    """

    def __init__(self, code, bodies):
        self.code, self.bodies = code, bodies
        self.made = code.successor()
        self.of = np.full(len(code), -1, dtype=np.int32)
        self.results: dict[int, tuple[Loop, dict]] = {}
        self.stacks: dict[int, list] = {}

    def run(self):
        code, op, a, b = self.code, self.code.op, self.code.a, self.code.b
        done = 0
        for i in self._readers(op):
            self._take(np.arange(done, i, dtype=np.int32))
            done = i + 1
            if op[i] == Op.CALL and id(code.calls[a[i]].compute) in self.bodies:
                self._unroll(i, code.calls[a[i]])
            elif op[i] in (Op.VIEW, Op.LOAD) and int(a[i]) in self.results and self._read(i, int(a[i]), int(b[i])):
                pass
            else:
                for v in operands(code, i):
                    self._value(v)
                self._take(np.array([i], dtype=np.int32))
        self._take(np.arange(done, len(code), dtype=np.int32))
        self.made.inputs = self.of[code.inputs].tolist()
        self.made.outputs = [self._value(v) for v in code.outputs]
        return self.made

    def _readers(self, op):
        """Return the loops, and the instructions that read their results or parts of results, in order."""
        code, columns = self.code, (self.code.a, self.code.b, self.code.c)
        long = np.flatnonzero((op == Op.CALL) | (op == Op.PACK)).tolist()
        is_part, found = np.zeros(len(code), dtype=bool), np.zeros(len(code), dtype=bool)
        calls, reads = np.flatnonzero(op == Op.CALL), np.flatnonzero((op == Op.VIEW) | (op == Op.LOAD))
        loops = [i for i in calls.tolist() if id(code.calls[columns[0][i]].compute) in self.bodies]
        is_part[loops] = True
        is_part[reads] = is_part[columns[0][reads]]
        for k, column in enumerate(columns):
            named = np.flatnonzero((VALUE_COLUMNS[op] >> k & 1).astype(bool) & (column >= 0))
            found[named] |= is_part[column[named]]
        found[long] = [i in loops or bool(is_part[operands(code, i)].any()) for i in long]
        return np.flatnonzero(found).tolist()

    def _take(self, ids):
        if len(ids):
            self.made.take(self.code, ids, self.of)

    def _value(self, v):
        """Return the new id of a value, storing its parts in a new array if only these have ids."""
        if self.of[v] < 0:
            if v in self.stacks:
                self.of[v] = self._stored(self.stacks[v], kind_of(self.code, v))
            else:
                loop, parts = self.results[v]
                lines = [self._flat(parts[each], loop, each) for each in loop.results]
                self.of[v] = self._joined(lines, kind_of(self.code, v))
        return int(self.of[v])

    def _stored(self, values, type):
        """Store values of equal shape in an array."""
        made, (_, shape, _) = self.made, type
        if len(shape) == 1:
            made.packs.append((np.arange(len(values), dtype=np.int32), np.array(values, dtype=np.int32)))
            return made.add(Op.PACK, type, -1, len(made.packs) - 1)
        strides, found = c_strides(shape, 8), -1
        for j, v in enumerate(values):
            found = made.place(found, (j * strides[0], shape[1:], strides[1:]), v, type)
        return found

    def _flat(self, values, loop, part):
        """Return the values of one part of a result as a list, the shape of each, and the part's element count."""
        shape = () if part[0] == "zeros" else loop.type_of(*part)[1]
        return values if isinstance(values, list) else [values], shape, loop.length(*part)

    def _joined(self, lines, type):
        """Store the parts of a loop's result in one array."""
        made, found, place = self.made, -1, 0
        for values, shape, length in lines:
            size = math.prod(shape)
            for j, v in enumerate(values):
                if v >= 0:
                    found = made.place(found, (8 * (place + j * size), shape, c_strides(shape, 8)), v, type)
            place += length
        return made.filled(0.0, type[1]) if found < 0 else found

    # ------------------------------------------------------------------------------------------ reading results

    def _read(self, i, r, b):
        """Resolve a view or an element of a result; return False if it is not one value or one stack."""
        code, (loop, parts) = self.code, self.results[r]
        is_load = code.op[i] == Op.LOAD
        offset, shape, strides = (8 * b, (), ()) if is_load else code.views[b]
        for part in loop.results:
            word, number = part
            place, length = loop.place(word, number), 8 * loop.length(word, number)
            if word == "zeros" or not place <= offset < place + max(length, 1):
                continue
            values, own = parts[part], loop.type_of(word, number)[1]
            if word != "last" and (offset, shape, strides) == loop.view(word, number):
                self.stacks[i] = values
                return True
            size = 8 * math.prod(own)
            if not size:
                return False
            j, rest = divmod(offset - place, size)
            v = values if word == "last" else values[j]
            if (rest, shape, strides) == (0, own, c_strides(own, 8)):
                self.of[i] = v
            elif is_load:
                self.of[i] = self.made.part(v, (rest, (), ()), _FLOAT)
            return self.of[i] >= 0
        return False

    # ------------------------------------------------------------------------------------------ iterations

    def _unroll(self, i, call):
        loop, made, body = call.compute, self.made, self.bodies[id(call.compute)]
        carried, first = loop.carried, loop.carried + loop.kept
        values = list(call.operands)
        current = [made.in_layout(self._value(v), kind_of(body, u)) for v, u in zip(values[:carried], body.inputs)]
        of = np.full(len(body), -1, dtype=np.int32)
        for v, u in zip(values[carried:first], body.inputs[carried:first]):
            of[u] = made.in_layout(self._value(v), kind_of(body, u))
        op = body.op
        leaves = (op == Op.CONST) | (op == Op.ARRAY)
        made.take(body, np.flatnonzero(leaves).astype(np.int32), of)
        rest = np.flatnonzero(~leaves & (op != Op.INPUT)).astype(np.int32)
        parts = {each: [-1] * loop.steps for each in loop.results}
        for j in reversed(range(loop.steps)) if loop.backward else range(loop.steps):
            of[body.inputs[:carried]] = current
            for v, u in zip(values[first:], body.inputs[first:]):
                of[u] = self._slice(v, j, kind_of(body, u))
            made.take(body, rest, of)
            for word, number in loop.results:
                if word == "entry":
                    parts[word, number][j] = current[number]
                elif word == "stack":
                    parts[word, number][j] = int(of[body.outputs[number]])
            current = [int(of[v]) for v in body.outputs[:carried]]
        for word, number in loop.results:
            if word in ("last", "zeros"):
                parts[word, number] = current[number] if word == "last" else -1
        self.results[i] = loop, parts

    def _slice(self, v, j, type):
        """Return the value of a stacked operand in iteration j."""
        if v in self.stacks:
            return self.made.in_layout(self.stacks[v][j], type)
        low, shape, strides = whole_view(kind_of(self.code, v))
        view = low + j * strides[0], shape[1:], strides[1:]
        return self.made.in_layout(self.made.part(self._value(v), view, kind_of(self.code, v)[0]), type)
