"""Scalarisation for the GPU: evaluates the IR with symbolic scalars, so that every array element becomes a scalar.

`interpreted` evaluates the IR on symbols, and on NumPy object arrays of symbols. Each operation on symbols is passed to
a *builder* by the name of its function: `Scalars` appends it to a new IR, and `wengert.cuda.codegen.Body` to a list of
statements.
Slices, transposes, sums, matrix products and other operations that NumPy supports for object arrays need no code here.
"""

from __future__ import annotations

import math
import operator

import numpy as np

from wengert import registry
from wengert.core.dispatch.methods import converted
from wengert.cuda import elimination
from wengert.errors import UnsupportedFunctionError
from wengert.features import fix
from wengert.program.codegen import kernels
from wengert.program.codegen.llvm_ir import NAMES, Builder, Symbol
from wengert.program.ir.call import Call, Operand
from wengert.program.ir.call_rules import filled, places
from wengert.program.ir.ir import restored
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import lines
from wengert.program.passes import simplify
from wengert.registry import strong

SCALAR, FLAG = 0, 1


# ---------------------------------------------------------------------------------------------- arrays of scalars


def size_of(kind) -> int:
    """Return the number of elements that the memory of a type spans."""
    dtype, shape, strides = kind
    if not isinstance(strides, tuple) or 0 in shape:
        return math.prod(shape)
    return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) // dtype.itemsize


def whole(kind) -> np.ndarray:
    """Return the offsets of the elements of an array in the memory of its type."""
    dtype, shape, strides = kind
    if not isinstance(strides, tuple):
        return np.arange(math.prod(shape)).reshape(shape)
    first = -sum((n - 1) * s for n, s in zip(shape, strides) if s < 0 and n > 0)
    return places((first, shape, strides), dtype)


def memory_of(x, kind):
    """Store an array of scalars in a 1-D buffer with the memory layout of a type; a scalar is returned unchanged."""
    if not kind[1]:
        return x.item() if isinstance(x, np.ndarray) else x
    line = np.empty(size_of(kind), object)
    line[whole(kind)] = x
    return line


def array_of(line, kind):
    """Return the array stored in a buffer."""
    return line[whole(kind)] if kind[1] else line


def each(of, name, *operands):
    """Apply a scalar function elementwise."""
    if not any(isinstance(x, np.ndarray) for x in operands):
        return of.apply(name, *operands)
    operands = np.broadcast_arrays(*operands)
    found = np.empty(operands[0].shape, object)
    found.reshape(-1)[:] = [of.apply(name, *given) for given in zip(*[x.flat for x in operands])]
    return found


def _reduction(name, start=None):
    """Return a reduction by a scalar function, for reductions in which NumPy would compare the symbols."""

    def reduced(of, x, axis=None, *, keepdims=False):
        def two(a, b):
            return of.apply(name, a, b)

        x = np.asarray(x, object)
        axes = tuple(range(x.ndim)) if axis is None else axis
        given = {} if start is None else {"initial": start}
        return np.frompyfunc(two, 2, 1, identity=start).reduce(x, axis=axes, keepdims=keepdims, **given)

    return reduced


def _clip(of, x, low=None, high=None, *, min=None, max=None):
    low, high = (min if low is None else low), (max if high is None else high)
    x = x if low is None else each(of, "maximum", x, low)
    return x if high is None else each(of, "minimum", x, high)


def _select(of, mask, *branches):
    if len(branches) != 2:
        raise TypeError("np.where with a mask alone returns indices, which differ between points")
    return each(of, "where", mask, *branches)


def _converted(of, x, dtype):
    kind = np.dtype(dtype).kind
    if kind == "f" and np.dtype(dtype) != np.float64:
        raise TypeError(f"all values of a kernel have the same dtype: omit the conversion to {dtype}, or choose dtype=")
    return each(of, {"f": "positive", "b": "not_equal"}.get(kind, "trunc"), x, *([0.0] if kind == "b" else []))


_ELEMENTWISE = {np.sinc: "sinc", np.isposinf: "isposinf", np.isneginf: "isneginf", operator.pow: "**"}
_ELEMENTWISE |= dict.fromkeys(fix, "trunc")

#: functions that NumPy cannot apply to object arrays
FUNCTIONS = {
    np.where: _select,
    np.clip: _clip,
    converted: _converted,
    strong: lambda of, a, b: each(of, "strong", a, b),
    **{fun: lambda of, *operands, name=name: each(of, name, *operands) for fun, name in _ELEMENTWISE.items()},
}

#: rules by the word in the column ``scalars`` of a row
BY_WORD = {
    "solve": elimination.solve,
    "inverse": elimination.inv,
    "determinant": elimination.det,
    "max": _reduction("maximum"),
    "min": _reduction("minimum"),
    "any": _reduction("logical_or", False),
    "all": _reduction("logical_and", True),
}


def called(of, call, operands):
    """Evaluate a call on scalars and arrays of scalars."""
    compute, kwargs = call.compute, call.kwargs
    args = [filled(argument, operands) for argument in call.args]
    rule = FUNCTIONS.get(compute)
    if rule is None and call.row is not None and call.row.fun is compute:
        rule = BY_WORD.get(call.row.scalars)
    if rule is not None:
        return rule(of, *args, **kwargs)
    if type(compute) is np.ufunc and compute.signature is None and not kwargs:
        return each(of, compute.__name__, *args)
    operands = [np.array(x, object) for x in operands]
    return compute(*[filled(argument, operands) for argument in call.args], **kwargs)


# ---------------------------------------------------------------------------------------------- evaluation


def interpreted(code, inputs: list, of) -> tuple[list, list]:
    """Evaluate the IR; return its outputs and its guards.

    Inputs and outputs are scalars or arrays of scalars. A guard is a pair of a flag that must be true and its location.
    """
    values: list = []
    guards: list = []
    kinds = [code.types[kind] for kind in code.type.tolist()]
    for op, a, b, c in zip(code.op.tolist(), code.a.tolist(), code.b.tolist(), code.c.tolist()):
        if op == Op.GUARD:
            expected, place = code.guards[b]
            guards.append((_is_same(of, array_of(values[a], kinds[a]), expected), place))
            values.append(None)
            continue
        try:
            found = _value(code, op, a, b, c, kinds, values, inputs, of)
        except (TypeError, ValueError, AttributeError, np.linalg.LinAlgError) as reason:
            raise unsupported(code, len(values), reason) from reason
        values.append(found)
    return [array_of(values[v], kinds[v]) for v in code.outputs], guards


def unsupported(code, i, reason):
    return UnsupportedFunctionError(
        f"{lines(code, [i])[0]}: this instruction has no GPU kernel ({reason}): write it with elementwise "
        "functions, sums and products of small arrays, or leave this function on the CPU, wengert.compile(f)"
    )


def _is_same(of, value, expected):
    """Return a flag: whether a value equals the recorded one."""
    flags = [
        of.apply("isnan", v) if e != e else of.apply("equal", v, e)
        for v, e in zip(np.ravel(np.asarray(value, object)), np.ravel(expected))
    ]
    found = flags[0] if flags else of.constant(1.0, True)
    for flag in flags[1:]:
        found = of.apply("logical_and", found, flag)
    return found


def _value(code, op, a, b, c, kinds, values, inputs, of):
    """Return the value of one instruction: a scalar, or the buffer of an array."""
    type_of = kinds.__getitem__
    kind = kinds[len(values)]
    if op in NAMES:
        given = [v for v in (a, b, c) if v >= 0]
        if not kind[1]:
            return of.apply(NAMES[op], *[values[v] for v in given])
        return memory_of(each(of, NAMES[op], *[array_of(values[v], type_of(v)) for v in given]), kind)
    if op < Op.INPUT:
        given = [array_of(values[v], type_of(v)) if v >= 0 else None for v in (a, b, c)]
        return memory_of(_partials(op, given, kind, of), kind)
    if op == Op.INPUT:
        return memory_of(inputs[a], kind)
    if op == Op.CONST:
        return of.constant(code.constants[a], kind[0].kind == "b")
    if op == Op.ARRAY:
        return memory_of(constants(code.arrays[a], of), kind)
    if op == Op.LOAD:
        return values[a][b] if type_of(a)[1] else values[a]
    if kind[0].kind == "c":
        raise TypeError("complex arrays are not supported")
    if op == Op.VIEW:
        source = values[a] if type_of(a)[1] else np.array([values[a]], object)
        return memory_of(source[places(code.views[b], type_of(a)[0])], kind)
    if op == Op.PACK:
        offsets, items = code.packs[b]
        return _written(values, a, kind, offsets, [values[v] for v in items.tolist()], of)
    if op == Op.PLACE:
        where = places(code.views[b], kind[0])
        value = array_of(values[c], type_of(c))
        if isinstance(value, np.ndarray) and value.ndim > where.ndim:
            value = value.reshape(value.shape[value.ndim - where.ndim :])
        return _written(values, a, kind, where, value, of)
    if op == Op.GATHER:
        return memory_of(values[a][code.arrays[code.a[b]]], kind)
    if op == Op.PUT:
        return _written(values, a, kind, code.arrays[code.a[b]], array_of(values[c], type_of(c)), of)
    if op == Op.SCATTER:
        return _added_up(array_of(values[a], type_of(a)), code.arrays[code.a[b]], kind, of)
    if op == Op.SUM:
        return np.sum(array_of(values[a], type_of(a)))
    if op == Op.STOP:
        return values[a]
    call = code.calls[a]
    found = called(of, call, [array_of(values[v], type_of(v)) for v in call.operands])
    return memory_of(constants(found, of), kind)


def _partials(op, given, kind, of):
    opcode, side = divmod(op - Op.PARTIAL, 2)
    if not kind[1]:
        return of.partial(opcode, side, *given)
    given = np.broadcast_arrays(*[np.array(x, object) for x in given])
    found = np.empty(kind[1], object)
    found.reshape(-1)[:] = [of.partial(opcode, side, *abc) for abc in zip(*[x.flat for x in given])]
    return found


def _written(values, base, kind, where, value, of):
    """Copy a buffer with some elements replaced."""
    if not kind[1]:
        return memory_of(np.asarray(value, object), kind)
    line = np.full(size_of(kind), of.constant(0.0), object) if base < 0 else values[base].copy()
    line[where] = value
    return line


def _added_up(x, places, kind, of):
    """Add scalars to the elements of a zero buffer."""
    line = np.full(size_of(kind), None, object)
    for place, item in zip(places.ravel().tolist(), x.ravel()):
        line[place] = item if line[place] is None else line[place] + item
    line[line == None] = of.constant(0.0)  # noqa: E711 (elementwise comparison)
    return line


def constants(x, of):
    """Convert plain numbers in an array to constants of a builder."""
    found = np.array(x, object)
    flat = found.reshape(-1)
    for i, item in enumerate(flat):
        if not isinstance(item, Symbol):
            flat[i] = of.constant(float(item), isinstance(item, (bool, np.bool_)))
    return flat.reshape(found.shape) if found.shape else flat[0]


# ---------------------------------------------------------------------------------------------- new IR

_OPCODES = {name: opcode for opcode, name in NAMES.items()}


class Scalars(Builder):
    """Builder that appends scalar instructions to a new IR."""

    def __init__(self):
        self.columns: list = []
        self.types = [(np.dtype(float), (), None), (np.dtype(bool), (), "flag")]
        self.constants: list = []
        self.calls: list = []
        self.packs: list = []
        self.guards: list = []
        self.inputs: list = []

    def emit(self, op, a=-1, b=-1, c=-1, kind=SCALAR) -> Symbol:
        self.columns.append((op, a, b, c, kind))
        return Symbol(self, len(self.columns) - 1, kind == FLAG)

    def constant(self, x, is_flag=False):
        self.constants.append(float(x))
        return self.emit(Op.CONST, len(self.constants) - 1, kind=FLAG if is_flag else SCALAR)

    def instruction(self, name, operands):
        kind = FLAG if kernels.ROWS[name].is_flag else SCALAR
        found = [x.v for x in operands]
        if name in _OPCODES:
            return self.emit(_OPCODES[name], *found, kind=kind)
        fun = _function_of(name)
        args = tuple(map(Operand, range(len(found))))
        self.calls.append(Call(fun, args, {}, found, registry.lookup(fun)))
        return self.emit(Op.CALL, len(self.calls) - 1, kind=kind)

    def partial(self, opcode, side, *operands):
        found = [-1 if x is None else self.as_float(x).v for x in operands]
        return self.emit(Op.PARTIAL + 2 * opcode + side, *found)

    def type_of(self, shape):
        kind = (np.dtype(float), shape, None)
        if kind not in self.types:
            self.types.append(kind)
        return self.types.index(kind)

    def input(self, number, shape):
        """Add an input; return it as a scalar or an array of scalars."""
        found = self.emit(Op.INPUT, number, kind=self.type_of(shape))
        self.inputs.append(found.v)
        if not shape:
            return found
        elements = np.empty(shape, object)
        elements.reshape(-1)[:] = [self.emit(Op.LOAD, found.v, i) for i in range(elements.size)]
        return elements

    def output(self, x):
        if not isinstance(x, np.ndarray):
            return self.as_float(x).v
        found = [self.as_float(item).v for item in x.flat]
        self.packs.append((np.arange(len(found), dtype=np.int32), np.array(found, dtype=np.int32)))
        return self.emit(Op.PACK, -1, len(self.packs) - 1, kind=self.type_of(x.shape)).v


def _function_of(name):
    if hasattr(np, name):
        return getattr(np, name)
    import scipy.special

    return getattr(scipy.special, name)


def scalarised(code):
    """Return the IR of the same function in which only inputs and outputs are arrays; all other values are scalars."""
    of = Scalars()
    inputs = [of.input(i, code.types[code.type[v]][1]) for i, v in enumerate(code.inputs)]
    outputs, guards = interpreted(code, inputs, of)
    outputs = [of.output(y) for y in outputs]
    for flag, place in guards:
        of.guards.append((np.True_, place))
        of.emit(Op.GUARD, flag.v, len(of.guards) - 1)
    columns = np.array(of.columns, dtype=np.int32).reshape(-1, 5).T
    return simplify.simplified(
        restored(*columns, of.types, of.constants, [], of.calls, [], of.packs, of.guards, of.inputs, outputs)
    )
