"""Patterns: where a Jacobian or a Hessian may be other than zero, found from the list that a function is recorded as.

Each instruction carries the index sets of its operands on: `indexsets` holds the sets, numbers and unions, this module
what instructions do with arrays, `sites` the functions that a list calls.

A pattern may be too large, never too small.  What is static is heeded: zeros of a constant matrix, a constant mask or
index.  What is computed from the inputs is not: a global pattern has both sides of a choice, and of an index that is
computed, all that it could pick.

The pattern of second derivatives is that of the nonlinear interactions over the same list, not that of the gradient's
Jacobian: it needs no derivative to be made, it is symmetric as it comes, and no tighter one follows from a gradient,
whose adjoints depend on exactly what interacts further on.

References
----------
Griewank and Walther (2008), Evaluating Derivatives, section 7.1. doi:10.1137/1.9780898717761
Walther (2008), Computing sparse Hessians with automatic differentiation. doi:10.1145/1322436.1322439
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.tape.tape import kernel_rows
from wengert.errors import GuardError, PatternError
from wengert.program.derive import source_transform
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify
from wengert.program.passes.loop_recovery import is_loop
from wengert.program.program import NotDerivable, Program
from wengert.program.record import record
from wengert.program.signature import Form, as_inputs
from wengert.program.vm.machine import Machine
from wengert.registry import lookup
from wengert.sparse.dependency_rules import AA, AB, BB, BENDS, Site, bends, by_place, of_call, taken
from wengert.sparse.indexsets import Sets, Sweep, with_outputs
from wengert.sparse.recovery import differing, direction

#: the types of numbers end with this one
FLAG = 1

#: lines that are kept to be united later, together
_MOST_LINES = 8

#: points nearby at which rounding errors are told from entries, and how much of itself what is no such changes there
_NEARBY, _STEADY = 16, 0.03

_MULTIPLY = next(opcode for name, opcode, *_ in kernel_rows() if name == "multiply")

#: bits of the operands that a choice takes
_FIRST, _SECOND, _BOTH = 1, 2, 3


# ---------------------------------------------------------------------------------------------- what users call


def sparsity(f: Callable, x: Any, order: int, kind: str, args: tuple, kwargs: dict | None, argnums: int) -> Any:
    """The pattern of the first or second derivatives of `f`: see `wengert.sparsity`."""
    if order not in (1, 2):
        raise ValueError(f"sparsity: order is 1 for a Jacobian or 2 for a Hessian, not {order!r}")
    if kind not in ("global", "local"):
        raise ValueError(f"sparsity: kind is 'global' or 'local', not {kind!r}")
    kwargs = kwargs or {}
    given = (x, *args)
    if isinstance(argnums, (int, np.integer)) and -len(given) <= argnums < 0:
        argnums += len(given)
    if isinstance(f, Program):
        program = f
        form = Form((as_inputs(x, repr(f)), *args), kwargs)
        if [np.shape(leaf) for leaf in form.leaves] != [np.shape(leaf) for leaf in program._form.leaves]:
            raise ValueError(f"sparsity: {program!r} was recorded for arguments of other shapes: record it for these")
        leaves = form.leaves
    else:
        program = program_of(f, given, kwargs)
        leaves = program._example
    return pattern_of(program, argnums, order, None if kind == "global" else leaves)


def program_of(f: Callable, args: tuple, kwargs: dict) -> Program:
    """The program of a function at some arguments; what a compiled one reads from outside is an input of it."""
    is_compiled = hasattr(type(f), "__wengert__")
    inner = f.f if is_compiled else f
    found = record(inner, args, kwargs, False, is_live=is_compiled)
    if type(found) is not Program:  # a loop over rows of a matrix: the derivative as it is computed without programs
        found = record(lambda *args, **kwargs: inner(*args, **kwargs), args, kwargs, False)
    return found


def pattern_of(program: Program, argnums: int = 0, order: int = 1, leaves: list | None = None) -> Any:
    """The pattern of a program's derivatives in one argument.

    Parameters
    ----------
    program : Program
        With one array or number as result.
    argnums : int
        Position of the argument, an array or number.
    order : {1, 2}
    leaves : list, optional
        The inputs of the program at a point: the pattern is that of the branches taken there.

    Returns
    -------
    scipy.sparse.csr_array of bool
        Shape ``(y.size, x.size)``, for order 2 ``(x.size, x.size)`` and symmetric; indices are sorted.
    """
    if type(program) is not Program:
        program._differentiable("sparsity")
    code = program._one_array("sparsity")
    dtype = kind_of(code, code.outputs[0])[0]
    if dtype.kind == "O":
        raise NotDerivable(f"sparsity({program._name}): the result is of dtype {dtype}: return floats")
    x = code.inputs[program._input("sparsity", argnums)]
    return pattern_of_list(code, x, code.outputs[0], order, leaves)


def pattern_of_list(code: Any, x: int, y: int, order: int = 1, leaves: list | None = None) -> Any:
    """The same of a list, for its input `x` and its value `y`."""
    n = math.prod(kind_of(code, x)[1])
    sets = Sets(n, order == 2)
    choices = _Choices(code, leaves)
    found = _Propagation(code, sets, curvature(), choices.sides, choices, {x: _columns(n)})
    found.run([y])
    if order == 2:
        return _matrix(*sets.interactions(), (n, n))
    ids = np.ascontiguousarray(found.ids(y)).reshape(-1)
    return _matrix(*sets.rows(ids), (ids.size, n))


def _columns(n):
    return np.arange(1, n + 1, dtype=np.int32)


def _matrix(ends, indices, shape):
    from scipy.sparse import csr_array  # SciPy is imported where it is needed

    found = csr_array((np.ones(len(indices), dtype=bool), indices, ends), shape=shape)
    found.has_sorted_indices = found.has_canonical_format = True
    return found


@functools.cache
def curvature() -> bytes:
    """Which second partials of each elementwise opcode may be other than 0."""
    found = bytearray(256)
    for name, opcode, *_ in kernel_rows():  # those of scipy.special are all curved, and asking would import it
        found[opcode] = BENDS["full"] if "." in name else bends(lookup(source_transform.function_of(opcode)))
    return bytes(found)


# ---------------------------------------------------------------------------------------------- a check at first use


def check(
    matrix: Any,
    jvp: Callable,
    name: str = "f",
    f: Callable | None = None,
    rtol: float = 1e-6,
    nearby: Callable | None = None,
) -> None:
    """Compare a sparse Jacobian with the derivative in one direction, which needs no pattern.

    The direction has random signs and sizes between 1/2 and 1, divided by the largest entry of each column, so that
    large columns do not hide small ones. In a Jacobian that was recovered from sums of columns, an entry that the
    pattern lacks stands in another column: with signs alone half of such columns would agree.

    Where the terms of a derivative cancel, both sides are nothing but rounding errors. Those are others in a direction
    a little shorter, at a point a few units in the last place away; what an entry makes of them is not.

    Parameters
    ----------
    matrix : sparse array, shape (m, n)
        The Jacobian, or Hessian, as it was found with the help of a pattern.
    jvp : callable
        Maps a direction of shape (n,) to the derivative in it, of m elements.
    name : str
        Of the function, for the message.
    f : callable, optional
        The function, whose file and line are named.
    rtol : float
        Of the sum of magnitudes in a row.
    nearby : callable, optional
        Maps a generator of random numbers to the same two at a point close by: ``(matrix, jvp)``.

    Raises
    ------
    PatternError
        If they differ: the pattern lacks an entry in a row.

    References
    ----------
    Vignes (2004), Discrete stochastic arithmetic for validating results of numerical software.
    doi:10.1023/B:NUMA.0000049483.75679.ce
    """
    csr = matrix.tocsr()
    data = np.ascontiguousarray(csr.data, float)
    v = direction(csr.indices, data, csr.shape[1])
    exact = _product(jvp, v)
    wrong, row, _ = differing(csr.indptr, csr.indices, data, v, exact, rtol)
    if wrong:
        rows = _steady_rows(csr, jvp, v, exact, rtol, nearby)
        wrong, row = len(rows), int(rows[0]) if len(rows) else -1
    if wrong:
        raise PatternError(
            f"{name}{place_of(f)}: row {row} of the derivative by its sparsity pattern is not that of the function in "
            f"a random direction, {(csr @ v)[row]:.6g} in the place of {exact[row]:.6g} "
            f"({wrong} of {len(exact)} rows): {LEFT_OUT}"
        )


def _product(jvp, v):
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(jvp(v), float).reshape(-1)


def _steady_rows(csr, jvp, v, exact, rtol, nearby):
    """Rows in which a product differs from the exact one by more than rounding errors, which come and go."""
    rng = np.random.default_rng(1964)
    with np.errstate(all="ignore"):
        missing = csr @ v - exact
        is_wrong = np.abs(missing) > rtol * np.maximum(abs(csr) @ np.abs(v), np.abs(exact))
        is_wrong &= np.isfinite(missing)
        for _ in range(_NEARBY):
            if not is_wrong.any():
                break
            length = rng.uniform(0.5, 1.0)
            try:
                matrix, product = (csr, jvp) if nearby is None else nearby(rng)
                found = matrix @ (length * v) - _product(product, length * v)
            except GuardError:  # another branch begins here
                found = csr @ (length * v) - _product(jvp, length * v)
            is_wrong &= ~(np.abs(found / length - missing) > _STEADY * np.abs(missing))
    return np.flatnonzero(is_wrong)


#: what is wrong where a pattern has not all entries
LEFT_OUT = "the pattern that was given, or a primitive's sparsity=, leaves out entries; see wengert.sparsity"


def place_of(f: Any) -> str:
    """Where a function stands, for a message."""
    inner = next((part for part in (getattr(f, word, None) for word in _AROUND) if callable(part)), f)
    if inner is not f:
        return place_of(inner)
    code = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    return "" if code is None else f" ({code.co_filename}:{code.co_firstlineno})"


#: names of the function in what is made around one
_AROUND = ("py_func", "f", "func", "__wrapped__")


# ---------------------------------------------------------------------------------------------- choices


class _Choices:
    """What is known of choices: constant masks and indices, and of a pattern at a point, their values there."""

    NAMES = {opcode: name for name, opcode, *_ in kernel_rows() if name in ("maximum", "minimum", "fmax", "fmin")}

    def __init__(self, code, leaves):
        self.code = code
        self.ops, self.places = code.op, code.a
        self.values: dict[int, Any] = {}
        self.sides = b""
        if leaves is not None:
            self._evaluate(leaves)

    def constant(self, v):
        """The value of a constant operand; None: it is none."""
        if self.ops[v] == Op.ARRAY:
            return self.code.arrays[self.places[v]]
        return self.code.constants[self.places[v]] if self.ops[v] == Op.CONST else None

    def value(self, v):
        """The value of an operand, if it is constant or known."""
        return self.values[v] if v in self.values else self.constant(v)

    def _evaluate(self, leaves):
        code = self.code
        columns = [column.tolist() for column in (code.op, code.a, code.b, code.type)]
        wanted = set()
        numbers = []
        for i, (op, a, b, kind) in enumerate(zip(*columns)):
            if op == Op.SELECT or op in self.NAMES:
                wanted.update([a] if op == Op.SELECT else [a, b])
                if kind <= FLAG:
                    numbers.append((i, op, a, b))
            elif op == Op.CALL and not is_loop(code.calls[a]):
                wanted.update(code.calls[a].operands)
        wanted = sorted(wanted)
        if not wanted:
            return
        machine = Machine(simplify.lowered(with_outputs(code, wanted)))
        self.values = dict(zip(wanted, machine.run(list(leaves))))
        sides = bytearray([_BOTH]) * len(code)
        for i, op, a, b in numbers:
            masks = taken(self.NAMES.get(op, "where"), [self.values[v] for v in ([a] if op == Op.SELECT else [a, b])])
            sides[i] = sum(bit for bit, mask in zip((_FIRST, _SECOND), masks) if mask)
        self.sides = bytes(sides)


# ---------------------------------------------------------------------------------------------- arrays


def _span(type):
    """Elements of the memory of a type, from its lowest address on."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return math.prod(shape)
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) // dtype.itemsize


def _as_array(line, type):
    """A line as an array in the layout of a type."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return line.reshape(shape)
    first = -sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    return _view(line, (first, shape, strides), dtype)


def _view(line, view, dtype):
    offset, shape, strides = view
    size = dtype.itemsize
    return np.ndarray(shape, np.int32, line, 4 * (offset // size), tuple(4 * (s // size) for s in strides))


def _as_line(ids, type):
    """An array of numbers of sets in the memory of a type."""
    if type[2] is None or type[2] == "flag":
        return np.ascontiguousarray(ids, dtype=np.int32).reshape(-1)
    line = np.zeros(_span(type), np.int32)
    _as_array(line, type)[...] = ids
    return line


def _are_complex(*types):
    """Is one of these types complex?"""
    return any(dtype.kind == "c" for dtype, *_ in types)


class _Propagation(Sweep):
    """What instructions do with the sets of arrays."""

    def __init__(self, code, sets, curvature, sides, choices, given):
        self.choices = choices
        self.inputs = {v: place for place, v in enumerate(given)}
        self.given = list(given.values())
        self.table = [column.tolist() for column in (code.op, code.a, code.b, code.c, code.type)]

    def type_of(self, v):
        return self.code.types[self.table[4][v]]

    def is_number(self, v):
        return self.table[4][v] <= FLAG

    def ids(self, v):
        """Sets of the elements of any value, as an array of its shape and layout."""
        if self.is_number(v):
            return np.array(self.set_of(v), dtype=np.int32)
        line = self.line(v)
        return np.zeros(self.type_of(v)[1], np.int32) if line is None else _as_array(line, self.type_of(v))

    def ids_or_none(self, v):
        """The same; None where it depends on nothing."""
        if self.is_number(v):
            s = self.set_of(v)
            return np.array(s, dtype=np.int32) if s else None
        return None if self.line(v) is None else self.ids(v)

    def array(self, i):
        """An instruction that makes an array, or a number of arrays."""
        op, a, b, c, _ = [column[i] for column in self.table]
        if op < Op.INPUT or op == Op.STRONG or op == Op.SELECT:
            self._elementwise(i, op, a, b, c)
        else:
            _RULES[op](self, i, a, b, c)

    def _keep(self, i, line):
        """A value has this line, or number."""
        if self.is_number(i):
            self.give(i, 0 if line is None else int(line[0]))
        else:
            self.values[i] = line

    def _put(self, i, ids):
        self._keep(i, _as_line(ids, self.type_of(i)))

    # ------------------------------------------------------------------------------------------ elementwise

    def _elementwise(self, i, op, a, b, c):
        type = self.type_of(i)
        if self.sets.second:
            self._bend(i, op, a, b, c, type)
        chosen = self._chosen(op, a, b, c, type)
        if chosen is None:
            names = (b, c) if op == Op.SELECT else (a, b, c)
            parts = [self._lines(v, type) for v in names if v >= 0]
            if op in (_MULTIPLY, Op.STRONG):
                parts = self._without_zeros(parts, a, b, type)
        else:
            parts = [([line], 0) for line in chosen]
        lines = list({id(line): line for part, _ in parts for line in part}.values())
        number = self.sets.total([np.array([s for _, s in parts], np.int32)])
        if not lines:
            self.values[i] = np.full(_span(type), number, np.int32) if number else None
        elif len(lines) == 1 and not number:
            self.values[i] = lines[0]
        elif len(lines) <= _MOST_LINES and not self.is_shared(i):
            self.values[i] = lines, number
        else:
            self.values[i] = self.sets.united(lines, number)

    def _lines(self, v, type):
        """Lines in the layout of a type whose union the sets of an operand are, and one set that all have."""
        if self.is_number(v):
            return [], self.set_of(v)
        given, own = self.held(v), self.type_of(v)
        if given is None:
            return [], 0
        if own[1:] == type[1:] and (own[2] is None or own[0] == type[0]):
            return given if isinstance(given, tuple) else ([given], 0)
        return [_as_line(np.broadcast_to(self.ids(v), type[1]), type)], 0

    def _line(self, v, type):
        """The sets of an operand as one line, in the layout of a type."""
        lines, number = self._lines(v, type)
        if not lines:
            return np.full(_span(type), number, np.int32)
        return lines[0] if len(lines) == 1 and not number else self.sets.united(lines, number)

    def _bend(self, i, op, a, b, c, type):
        """Enter the interactions of an instruction."""
        bits = self.bends(i)
        if op < Op.PARTIAL and _are_complex(type, self.type_of(a)):
            bits = bends(lookup(source_transform.function_of(op)), True)
        if not bits:
            return
        if Op.PARTIAL <= op < Op.INPUT:
            line = self.sets.united([self._line(v, type) for v in (a, b, c) if v >= 0])
            self.sets.interact(line, line)
            return
        first = self._line(a, type)
        if bits & AA:
            self.sets.interact(first, first)
        if b >= 0 and bits & (AB | BB):
            second = self._line(b, type)
            if bits & AB:
                self.sets.interact(first, second)
            if bits & BB:
                self.sets.interact(second, second)

    def _chosen(self, op, a, b, c, type):
        """Lines of the operands that a choice takes; None: it is none, or not known."""
        if op == Op.SELECT:
            asked, sides, name = [a], (b, c), "where"
        elif op in _Choices.NAMES:
            asked, sides, name = [a, b], (a, b), _Choices.NAMES[op]
        else:
            return None
        values = [self.choices.value(v) for v in asked]
        if any(value is None for value in values):
            return None
        found = []
        for mask, v in zip(taken(name, values), sides):
            ids = _as_array(self._line(v, type), type)
            found.append(_as_line(np.where(np.broadcast_to(mask, type[1]), ids, 0), type))
        return found

    def _without_zeros(self, parts, a, b, type):
        """The factors, none where the other one is a constant 0."""
        for number, other in ((0, b), (1, a)):
            mask = self.choices.constant(other)
            if mask is not None and (parts[number][0] or parts[number][1]) and not np.all(mask):
                ids = _as_array(self._line((a, b)[number], type), type)
                parts[number] = [_as_line(np.where(mask, ids, 0), type)], 0
        return parts

    # ------------------------------------------------------------------------------------------ memory

    def _input(self, i, a, b, c):
        if i in self.inputs:
            self._put(i, self.given[self.inputs[i]].reshape(self.type_of(i)[1]))

    def _nothing(self, i, a, b, c):
        """Its value depends on no input."""

    def _sum(self, i, a, b, c):
        given = self.held(a)
        if isinstance(given, tuple):
            self.give(i, self.sets.total(*given))
        elif given is not None:
            self.give(i, self.sets.total([given]))

    def _take_view(self, i, a, b, c):
        line = self.line(a)
        if line is None:
            return
        dtype, of_source = self.type_of(i)[0], self.type_of(a)[0]
        if dtype.itemsize > of_source.itemsize:  # pairs of real numbers as complex ones
            halves = [np.ascontiguousarray(line[: len(line) // 2 * 2][k::2]) for k in (0, 1)]
            line = self.sets.united(halves)
        elif dtype.itemsize < of_source.itemsize:
            line = np.repeat(line, 2)
        self._put(i, _view(line, self.code.views[b], dtype))

    def _base(self, i, a):
        """A copy of the line of what is overwritten."""
        line = self.line(a) if a >= 0 else None
        if line is None:
            return np.zeros(_span(self.type_of(i)), np.int32)
        return _as_line(_as_array(line, self.type_of(a)), self.type_of(i)).copy()

    def _pack(self, i, a, b, c):
        line = self._base(i, a)
        offsets, values = self.code.packs[b]
        self.packed(line, offsets, values)
        self.values[i] = line

    def _place(self, i, a, b, c):
        line = self._base(i, a)
        target = _view(line, self.code.views[b], self.type_of(i)[0])
        value = self.ids(c)
        target[...] = value.reshape(value.shape[max(0, value.ndim - target.ndim) :])
        self.values[i] = line

    def _gather(self, i, a, b, c):
        line = self.line(a)
        if line is not None:
            self._put(i, line[self.choices.value(b)])

    def _put_places(self, i, a, b, c):
        line = self._base(i, a)
        line[self.choices.value(b)] = self.ids(c)
        self.values[i] = line

    def _scatter(self, i, a, b, c):
        ids = self.ids_or_none(a)
        if ids is not None:
            places = np.ravel(self.choices.value(b))
            self.values[i] = by_place(self.sets, np.ravel(ids), places, _span(self.type_of(i)))

    # ------------------------------------------------------------------------------------------ calls

    def _call(self, i, a, b, c):
        call = self.code.calls[a]
        if is_loop(call):
            self._keep(i, self._loop(call))
            return
        given = [self.ids_or_none(v) if self.type_of(v)[0].kind in "fc" else None for v in call.operands]
        if all(ids is None for ids in given):
            return
        shapes = [self.type_of(v)[1] for v in call.operands]
        values = [self.choices.value(v) for v in call.operands]
        is_complex = _are_complex(*[self.type_of(v) for v in (*call.operands, i)])
        with np.errstate(all="ignore"):
            self._put(i, of_call(Site(self.sets, call, self.type_of(i)[1], given, shapes, values, is_complex)))

    def _loop(self, call):
        """A loop: its body once for each step, as long as what is carried changes."""
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
            if known is None or not _same(inputs, now):  # else the step is that before it
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
                lines = [carried[k]]
            else:
                lines = [] if word == "zeros" else (stacks if word == "stack" else entries)[k]
                lines = lines[::-1] if loop.backward else lines
            part = np.zeros(shape, np.int32)
            for place, ids in enumerate(lines):
                if ids is not None:
                    (part if word == "last" else part[place])[...] = ids
            parts.append(part.reshape(-1))
        return np.concatenate(parts) if parts else None

    def _body(self, body, inputs, results):
        given = {v: ids for v, ids in zip(body.inputs, inputs) if ids is not None}
        found = _Propagation(body, self.sets, curvature(), b"", _Choices(body, None), given)
        found.run(results)
        return [None if (ids := found.ids_or_none(v)) is None else np.array(ids) for v in results]


def _same(before, now):
    return all(
        (a is None and b is None) or (a is not None and b is not None and np.array_equal(a, b))
        for a, b in zip(before, now)
    )


_RULES = {
    Op.INPUT: _Propagation._input,
    Op.CONST: _Propagation._nothing,
    Op.ARRAY: _Propagation._nothing,
    Op.STOP: _Propagation._nothing,
    Op.SUM: _Propagation._sum,
    Op.VIEW: _Propagation._take_view,
    Op.PACK: _Propagation._pack,
    Op.PLACE: _Propagation._place,
    Op.GATHER: _Propagation._gather,
    Op.PUT: _Propagation._put_places,
    Op.SCATTER: _Propagation._scatter,
    Op.CALL: _Propagation._call,
}
