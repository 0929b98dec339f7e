"""Propagation of index sets through the instructions of a program: which inputs each value depends on.

`indexsets` implements sets, scalars and unions, this module operations on arrays, and `dependency_rules` the functions
that a program calls.

A set may have too many elements, never too few. Static data reduce it: zeros of a constant matrix, a constant mask or
index. Data computed from the inputs do not: without known values, a set includes both branches of a select, and all
elements that a computed index could pick.

References
----------
Griewank and Walther (2008), Evaluating Derivatives, section 7.1. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from wengert.program.ir.opcode_table import OPCODES, primitive
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify
from wengert.program.passes.loop import is_loop
from wengert.program.vm.machine import Machine
from wengert.registry import lookup
from wengert.sparse.dependency_rules import (
    AA,
    AB,
    BB,
    CURVATURE,
    CallDependence,
    by_offset,
    second_partials,
    sets_of_call,
)
from wengert.sparse.indexsets import Sweep, with_outputs

#: largest type id of scalars
FLAG = 1

#: maximum number of index arrays kept for a deferred union
MAX_DEFERRED_BUFFERS = 8

_MULTIPLY = OPCODES["multiply"]

#: bits of the operands that a select takes
_FIRST, _SECOND, _BOTH = 1, 2, 3


@functools.cache
def curvature() -> bytes:
    """Bit mask of the nonzero second partials of each elementwise opcode."""
    found = bytearray(256)
    for name, opcode in OPCODES.items():  # those of scipy.special are all nonlinear; looking them up would import it
        found[opcode] = CURVATURE["full"] if "." in name else second_partials(primitive(opcode))
    return bytes(found)


# ---------------------------------------------------------------------------------------------- selects


#: by opcode of a select: function that returns the masks of elements taken from each operand
_SELECTS = {
    opcode: row.selects
    for name, opcode in OPCODES.items()
    if "." not in name and (row := primitive(opcode)).selects is not None
}
_SELECTS[Op.SELECT] = lookup(np.where).selects


class KnownValues:
    """Known values for selects: constant masks and indices, and for a local pattern their values at the point."""

    def __init__(self, code, leaves):
        self.code = code
        self.ops, self.places = code.op, code.a
        self.values: dict[int, Any] = {}
        self.sides = b""
        if leaves is not None:
            self._evaluate(leaves)

    def constant(self, v):
        """Value of a constant operand; None if it is not constant."""
        if self.ops[v] == Op.ARRAY:
            return self.code.arrays[self.places[v]]
        return self.code.constants[self.places[v]] if self.ops[v] == Op.CONST else None

    def value(self, v):
        """Value of an operand if it is constant or known; otherwise None."""
        return self.values[v] if v in self.values else self.constant(v)

    def _evaluate(self, leaves):
        code = self.code
        columns = [column.tolist() for column in (code.op, code.a, code.b, code.type)]
        wanted = set()
        scalars = []
        for i, (op, a, b, kind) in enumerate(zip(*columns)):
            if op in _SELECTS:
                wanted.update([a] if op == Op.SELECT else [a, b])
                if kind <= FLAG:
                    scalars.append((i, op, a, b))
            elif op == Op.CALL and not is_loop(code.calls[a]):
                wanted.update(code.calls[a].operands)
        wanted = sorted(wanted)
        if not wanted:
            return
        machine = Machine(simplify.lowered(with_outputs(code, wanted)))
        self.values = dict(zip(wanted, machine.run(list(leaves))))
        sides = bytearray([_BOTH]) * len(code)
        for i, op, a, b in scalars:
            masks = _SELECTS[op](*[self.values[v] for v in ([a] if op == Op.SELECT else [a, b])])
            sides[i] = sum(bit for bit, mask in zip((_FIRST, _SECOND), masks) if mask)
        self.sides = bytes(sides)


# ---------------------------------------------------------------------------------------------- arrays


def _span(type):
    """Number of elements in the memory of a type, from its lowest address on."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return math.prod(shape)
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) // dtype.itemsize


def _as_array(buffer, type):
    """A 1-D buffer as an array with the layout of a type."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return buffer.reshape(shape)
    first = -sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    return _view(buffer, (first, shape, strides), dtype)


def _view(buffer, view, dtype):
    offset, shape, strides = view
    size = dtype.itemsize
    return np.ndarray(shape, np.int32, buffer, 4 * (offset // size), tuple(4 * (s // size) for s in strides))


def _as_buffer(ids, type):
    """Store an array of set ids in a buffer with the memory layout of a type."""
    if type[2] is None or type[2] == "flag":
        return np.ascontiguousarray(ids, dtype=np.int32).reshape(-1)
    buffer = np.zeros(_span(type), np.int32)
    _as_array(buffer, type)[...] = ids
    return buffer


def _are_complex(*types):
    """Return whether any of these types is complex."""
    return any(dtype.kind == "c" for dtype, *_ in types)


class Propagation(Sweep):
    """Propagation of index sets through array instructions."""

    def __init__(self, code, sets, curvature, sides, known_values, given):
        self.known_values = known_values
        self.inputs = {v: place for place, v in enumerate(given)}
        self.given = list(given.values())
        self.table = [column.tolist() for column in (code.op, code.a, code.b, code.c, code.type)]

    def type_of(self, v):
        return self.code.types[self.table[4][v]]

    def is_scalar(self, v):
        return self.table[4][v] <= FLAG

    def ids(self, v):
        """Set ids of the elements of a value, as an array with its shape and layout."""
        if self.is_scalar(v):
            return np.array(self.set_of(v), dtype=np.int32)
        buffer = self.buffer(v)
        return np.zeros(self.type_of(v)[1], np.int32) if buffer is None else _as_array(buffer, self.type_of(v))

    def ids_or_none(self, v):
        """Like `ids`; None for a value that does not depend on the inputs."""
        if self.is_scalar(v):
            s = self.set_of(v)
            return np.array(s, dtype=np.int32) if s else None
        return None if self.buffer(v) is None else self.ids(v)

    def array(self, i):
        """Process an instruction whose result is an array, or a scalar computed from arrays."""
        op, a, b, c, _ = [column[i] for column in self.table]
        if op < Op.INPUT or op == Op.STRONG or op == Op.SELECT:
            self._elementwise(i, op, a, b, c)
        else:
            RULES[op](self, i, a, b, c)

    def _store(self, i, buffer):
        """Set the buffer, or the set id, of a value."""
        if self.is_scalar(i):
            self.assign(i, 0 if buffer is None else int(buffer[0]))
        else:
            self.values[i] = buffer

    def _store_array(self, i, ids):
        self._store(i, _as_buffer(ids, self.type_of(i)))

    # ------------------------------------------------------------------------------------------ elementwise

    def _elementwise(self, i, op, a, b, c):
        type = self.type_of(i)
        if self.sets.second:
            self._record_interactions(i, op, a, b, c, type)
        chosen = self._selected(op, a, b, c, type)
        if chosen is None:
            names = (b, c) if op == Op.SELECT else (a, b, c)
            parts = [self._buffers(v, type) for v in names if v >= 0]
            if op in (_MULTIPLY, Op.STRONG):
                parts = self._without_zeros(parts, a, b, type)
        else:
            parts = [([buffer], 0) for buffer in chosen]
        buffers = list({id(buffer): buffer for part, _ in parts for buffer in part}.values())
        common = self.sets.total([np.array([s for _, s in parts], np.int32)])
        if not buffers:
            self.values[i] = np.full(_span(type), common, np.int32) if common else None
        elif len(buffers) == 1 and not common:
            self.values[i] = buffers[0]
        elif len(buffers) <= MAX_DEFERRED_BUFFERS and not self.is_shared(i):
            self.values[i] = buffers, common
        else:
            self.values[i] = self.sets.united(buffers, common)

    def _buffers(self, v, type):
        """Buffers in the layout of a type, and one common set, whose elementwise union gives the sets of an operand."""
        if self.is_scalar(v):
            return [], self.set_of(v)
        given, own = self.stored(v), self.type_of(v)
        if given is None:
            return [], 0
        if own[1:] == type[1:] and (own[2] is None or own[0] == type[0]):
            return given if isinstance(given, tuple) else ([given], 0)
        return [_as_buffer(np.broadcast_to(self.ids(v), type[1]), type)], 0

    def _buffer(self, v, type):
        """Sets of an operand as one buffer in the layout of a type."""
        buffers, common = self._buffers(v, type)
        if not buffers:
            return np.full(_span(type), common, np.int32)
        return buffers[0] if len(buffers) == 1 and not common else self.sets.united(buffers, common)

    def _record_interactions(self, i, op, a, b, c, type):
        """Record the nonlinear interactions of an instruction."""
        bits = self.curvature_bits(i)
        if op < Op.PARTIAL and _are_complex(type, self.type_of(a)):
            bits = second_partials(primitive(op), True)
        if not bits:
            return
        if Op.PARTIAL <= op < Op.INPUT:
            buffer = self.sets.united([self._buffer(v, type) for v in (a, b, c) if v >= 0])
            self.sets.interact(buffer, buffer)
            return
        first = self._buffer(a, type)
        if bits & AA:
            self.sets.interact(first, first)
        if b >= 0 and bits & (AB | BB):
            second = self._buffer(b, type)
            if bits & AB:
                self.sets.interact(first, second)
            if bits & BB:
                self.sets.interact(second, second)

    def _selected(self, op, a, b, c, type):
        """Buffers of the operands that a select takes; None if the instruction is no select or its mask is unknown."""
        if op not in _SELECTS:
            return None
        asked, sides = ([a], (b, c)) if op == Op.SELECT else ([a, b], (a, b))
        values = [self.known_values.value(v) for v in asked]
        if any(value is None for value in values):
            return None
        found = []
        for mask, v in zip(_SELECTS[op](*values), sides):
            ids = _as_array(self._buffer(v, type), type)
            found.append(_as_buffer(np.where(np.broadcast_to(mask, type[1]), ids, 0), type))
        return found

    def _without_zeros(self, parts, a, b, type):
        """Factors of a product, without elements that are multiplied by a constant 0."""
        for position, other in ((0, b), (1, a)):
            mask = self.known_values.constant(other)
            if mask is not None and (parts[position][0] or parts[position][1]) and not np.all(mask):
                ids = _as_array(self._buffer((a, b)[position], type), type)
                parts[position] = [_as_buffer(np.where(mask, ids, 0), type)], 0
        return parts

    # ------------------------------------------------------------------------------------------ memory

    def _input(self, i, a, b, c):
        if i in self.inputs:
            self._store_array(i, self.given[self.inputs[i]].reshape(self.type_of(i)[1]))

    def _constant(self, i, a, b, c):
        """A value that does not depend on the inputs."""

    def _sum(self, i, a, b, c):
        given = self.stored(a)
        if isinstance(given, tuple):
            self.assign(i, self.sets.total(*given))
        elif given is not None:
            self.assign(i, self.sets.total([given]))

    def _take_view(self, i, a, b, c):
        buffer = self.buffer(a)
        if buffer is None:
            return
        dtype, of_source = self.type_of(i)[0], self.type_of(a)[0]
        if dtype.itemsize > of_source.itemsize:  # view of pairs of real numbers as complex
            halves = [np.ascontiguousarray(buffer[: len(buffer) // 2 * 2][k::2]) for k in (0, 1)]
            buffer = self.sets.united(halves)
        elif dtype.itemsize < of_source.itemsize:
            buffer = np.repeat(buffer, 2)
        self._store_array(i, _view(buffer, self.code.views[b], dtype))

    def _base(self, i, a):
        """Copy of the buffer that is overwritten."""
        buffer = self.buffer(a) if a >= 0 else None
        if buffer is None:
            return np.zeros(_span(self.type_of(i)), np.int32)
        return _as_buffer(_as_array(buffer, self.type_of(a)), self.type_of(i)).copy()

    def _pack(self, i, a, b, c):
        buffer = self._base(i, a)
        offsets, values = self.code.packs[b]
        self.pack_scalars(buffer, offsets, values)
        self.values[i] = buffer

    def _place(self, i, a, b, c):
        buffer = self._base(i, a)
        target = _view(buffer, self.code.views[b], self.type_of(i)[0])
        value = self.ids(c)
        target[...] = value.reshape(value.shape[max(0, value.ndim - target.ndim) :])
        self.values[i] = buffer

    def _gather(self, i, a, b, c):
        buffer = self.buffer(a)
        if buffer is not None:
            self._store_array(i, buffer[self.known_values.value(b)])

    def _put(self, i, a, b, c):
        buffer = self._base(i, a)
        buffer[self.known_values.value(b)] = self.ids(c)
        self.values[i] = buffer

    def _scatter(self, i, a, b, c):
        ids = self.ids_or_none(a)
        if ids is not None:
            places = np.ravel(self.known_values.value(b))
            self.values[i] = by_offset(self.sets, np.ravel(ids), places, _span(self.type_of(i)))

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, i, a, b, c):
        call = self.code.calls[a]
        if is_loop(call):
            self._store(i, self._loop(call))
            return
        given = [self.ids_or_none(v) if self.type_of(v)[0].kind in "fc" else None for v in call.operands]
        if all(ids is None for ids in given):
            return
        shapes = [self.type_of(v)[1] for v in call.operands]
        values = [self.known_values.value(v) for v in call.operands]
        is_complex = _are_complex(*[self.type_of(v) for v in (*call.operands, i)])
        with np.errstate(all="ignore"):
            self._store_array(
                i, sets_of_call(CallDependence(self.sets, call, self.type_of(i)[1], given, shapes, values, is_complex))
            )

    def _loop(self, call):
        """Propagate through a loop, running its body for each step until the carried sets no longer change."""
        loop, body = call.compute, call.compute.body
        given = [None if ids is None else np.array(ids) for ids in map(self.ids_or_none, call.operands)]
        first = loop.carried + loop.kept
        carried, kept, slices = given[: loop.carried], given[loop.carried : first], given[first:]
        stacks = {k: [] for word, k in loop.results if word == "stack"}
        entries = {k: [] for word, k in loop.results if word == "entry"}
        results = [*range(loop.carried), *sorted({*stacks})]
        inputs, outputs, known = [], [], None
        frame = [carried, kept, slices, inputs, outputs, *stacks.values(), *entries.values()]
        self.sets.frames.append(frame)
        for j in reversed(range(loop.steps)) if loop.backward else range(loop.steps):
            now = [*carried, *kept, *[None if part is None else part[j] for part in slices]]
            for k in entries:
                entries[k].append(carried[k])
            if known is None or not _are_equal(inputs, now):  # otherwise the step repeats the one before
                inputs[:], known = now, True
                outputs[:] = self._body(body, inputs, [body.outputs[k] for k in results])
            carried[:] = outputs[: loop.carried]
            for k, ids in zip(results, outputs):
                if k in stacks:
                    stacks[k].append(ids)
        self.sets.frames.pop()
        parts = []
        for word, k in loop.results:
            shape = loop.view(word, k)[1] if word != "zeros" else (loop.length(word, k),)
            if word == "last":
                buffers = [carried[k]]
            else:
                buffers = [] if word == "zeros" else (stacks if word == "stack" else entries)[k]
                buffers = buffers[::-1] if loop.backward else buffers
            part = np.zeros(shape, np.int32)
            for place, ids in enumerate(buffers):
                if ids is not None:
                    (part if word == "last" else part[place])[...] = ids
            parts.append(part.reshape(-1))
        return np.concatenate(parts) if parts else None

    def _body(self, body, inputs, results):
        given = {v: ids for v, ids in zip(body.inputs, inputs) if ids is not None}
        found = Propagation(body, self.sets, curvature(), b"", KnownValues(body, None), given)
        found.run(results)
        return [None if (ids := found.ids_or_none(v)) is None else np.array(ids) for v in results]


def _are_equal(before, now):
    return all(a is b if a is None or b is None else np.array_equal(a, b) for a, b in zip(before, now))


RULES = {
    Op.INPUT: Propagation._input,
    Op.CONST: Propagation._constant,
    Op.ARRAY: Propagation._constant,
    Op.STOP: Propagation._constant,
    Op.SUM: Propagation._sum,
    Op.VIEW: Propagation._take_view,
    Op.PACK: Propagation._pack,
    Op.PLACE: Propagation._place,
    Op.GATHER: Propagation._gather,
    Op.PUT: Propagation._put,
    Op.SCATTER: Propagation._scatter,
    Op.CALL: Propagation._call,
}
