"""Derivatives of functions with float32 values, as programs in double precision.

Input: the program of a function with float32 values; output: the program of its derivative, which converts float32
inputs to float64, and the results back if the differentiated argument is float32.
Only operations on float64 are fused, compiled and differentiated as instructions; others are calls of NumPy.
So each operation on float32 becomes the same operation on float64 and a rounding to float32.
For sums, differences, products, quotients and square roots this gives the bits of the float32 operation (Figueroa 1995,
When is double rounding innocuous? doi:10.1145/221332.221334), and for other functions differences as small as
those between implementations; overflow and comparisons are those of float32.
Adjoints and tangents are not rounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.tape.kernel import single
from wengert.program.derivatives import NotDerivable
from wengert.program.ir import call_rules
from wengert.program.ir.call import is_function, static
from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import evaluating
from wengert.program.passes import pipeline
from wengert.program.program import Program
from wengert.program.tracing.trace import listed

_FLOAT, _SINGLE = np.dtype(float), np.dtype(np.float32)
_SINGLE_OP = OPCODES["wengert.core.tape.kernel.single"]

#: approximate times in nanoseconds: of a multiplication and addition in a product of matrices, in double rather than
#: single precision; of converting an element of an input; of an element of other results, and of a call, in NumPy
_PRODUCT, _INPUT, _ELEMENT, _CALL = 0.06, 0.7, 2.0, 8000.0

#: products of matrices, whose multiplications are the square root of the product of the sizes of operands and result
_PRODUCTS = frozenset((np.matmul, np.dot, np.vdot, np.inner, np.einsum, np.tensordot))

#: functions that depend on the precision of their arguments
_OF_PRECISION = frozenset((np.spacing, np.nextafter, np.linalg.pinv, np.linalg.lstsq, np.linalg.matrix_rank))

#: instructions whose operands may be float32, besides calls
_CONVERTED = frozenset((Op.INPUT, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.GATHER, Op.STOP))


def in_double_precision(
    program: Program, derive: Callable[[Program], Program], argnums: int, with_value: bool
) -> Narrowed:
    """Return the program of a function's derivative with respect to one argument.

    Parameters
    ----------
    program : Program
        The function.
    derive : callable
        Makes the program of the derivative from that of a float64 function.
    with_value : bool
        Whether the function's value or a tangent of it is a result, which then has to have the dtype of the argument.

    Raises
    ------
    NotDerivable
        If values have other dtypes, an instruction cannot be converted, or NumPy takes less time with float32.
    """
    code = program._listing
    arguments = {kind_of(code, code.inputs[k])[0] for k in program._inputs("derivative", argnums)}
    results = {kind_of(code, v)[0] for v in code.outputs}
    if len(arguments) != 1 or not arguments | results <= (arguments if with_value else {_SINGLE, _FLOAT}):
        raise NotDerivable("it takes or returns values that are neither float64 nor float32")
    example = [_double(x) for x in program._example]
    conversion = _Conversion(program)
    if not conversion.pays:
        raise NotDerivable("its products of matrices take less time in single precision")
    try:
        listing = conversion.run()
    except Exception as error:  # a function that is not made for float64 here; float32 calls of NumPy still work
        raise NotDerivable(f"it cannot be computed in double precision: {error}") from error
    listing = pipeline.run("trace", listing, pipeline.Options(disabled=program._disabled)).code
    wide = Program(program._name, listing, program._form, program._result, False, example)
    for name in ("_disabled", "_searches", "_source", "_assumes_finite"):
        setattr(wide, name, getattr(program, name))
    return Narrowed(derive(wide), arguments == {_SINGLE})


class Narrowed:
    """A program in double precision that takes float32 inputs; otherwise like `inner`.

    `returns_single`: whether it returns float32.
    """

    _single_vm = None  # a call is not one run of a VM: it also converts

    def __init__(self, inner: Program, returns_single: bool):
        self.inner, self.returns_single = inner, returns_single

    def __getattr__(self, name):
        if name == "inner":  # not set yet, as in copies
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def _later(self):
        later = self.inner._later
        return None if later is None else (later[0], lambda: Narrowed(later[1](), self.returns_single))

    def tiered(self, tier):
        return Narrowed(self.inner.tiered(tier), self.returns_single)

    def _execute(self, leaves, out=None):
        return self._converted(self.inner._execute, leaves, out)

    def _try_execute(self, leaves, out=None):
        return self._converted(self.inner._try_execute, leaves, out)

    def _converted(self, run, leaves, out):
        leaves = [_double(x) for x in leaves]
        if not self.returns_single:
            return run(leaves) if out is None else run(leaves, out)
        found = run(leaves)
        if type(found) is int:  # the index of a failed guard
            return found
        with np.errstate(over="ignore"):
            found = [np.asarray(y, dtype=_SINGLE)[()] for y in found]
        if out is None:
            return found
        for array, y in zip(out, found):
            array[...] = y
        return out


def _double(x: Any) -> Any:
    """Convert float32 to float64 and keep other values."""
    if type(x) is np.float32:
        return np.float64(x)
    return x.astype(float, order="C")[()] if type(x) is np.ndarray and x.dtype == _SINGLE else x


class _Conversion:
    """Converts the instructions of a program one by one."""

    def __init__(self, program: Program):
        self.program, self.code, self.made = program, program._listing, Listing()
        self.of = np.full(len(self.code), -1, np.int32)
        self.values: list = []  # at the example, as far as they are read by instructions to come
        self.traced: dict = {}  # converted calls
        self.inputs: dict = {}  # inputs that are converted

    @property
    def pays(self) -> bool:
        """Whether fused operations save more time than products of matrices in double precision cost."""
        saved, lost = 0.0, _INPUT * sum(math.prod(kind_of(self.code, v)[1]) for v in self.code.inputs)
        for v in np.flatnonzero(self.code.op == Op.CALL).tolist():
            call, size = self.code.calls[self.code.a[v]], math.prod(kind_of(self.code, v)[1])
            if call.compute in _PRODUCTS:
                sizes = [math.prod(kind_of(self.code, u)[1]) for u in call.operands]
                sizes += [x.size for x in call.args if isinstance(x, np.ndarray)]
                lost += _PRODUCT * math.sqrt(math.prod(sizes) * max(1, size))
            else:
                saved += _ELEMENT * size
            saved += _CALL
        return saved > lost

    def run(self) -> Listing:
        """Return the program in double precision."""
        code, made = self.code, self.made
        self.kinds = [kind_of(code, v) for v in range(len(code))]
        if any(dtype.kind == "c" for dtype, *_ in self.kinds):
            raise NotDerivable("complex numbers beside float32")
        reads = [operands(code, v) for v in range(len(code))]
        last = {u: v for v, read in enumerate(reads) for u in read}
        columns = [column.tolist() for column in (code.op, code.a, code.b, code.c)]
        with np.errstate(all="ignore"):
            for v, _ in enumerate(evaluating(code, self.program._example, self.values)):
                self.of[v] = self.converted(v, reads[v], *[column[v] for column in columns])
                for u in (u for u in reads[v] if last[u] == v):
                    self.values[u] = None
        made.inputs = [self.inputs[v] if v in self.inputs else int(self.of[v]) for v in code.inputs]
        made.outputs = [int(self.of[v]) for v in code.outputs]
        return made

    def is_single(self, v):
        return self.kinds[v][0] == _SINGLE

    def converted(self, v, reads, op, a, b, c):
        """Append an instruction; return its value."""
        if not (self.is_single(v) or any(map(self.is_single, reads))):
            self.made.take(self.code, np.array([v], np.int32), self.of)
            return self.of[v]
        if op == Op.CALL:
            return self.call(v, self.code.calls[a])
        if op == Op.GUARD:
            return self.guard(a, b, c)
        if op in _CONVERTED:
            return self.moved(v, op, a, b, c)
        raise NotDerivable(f"instruction {Op(op).name} on float32")

    def guard(self, a, b, c):
        expected, place = self.code.guards[b]
        return self.made.guard(int(self.of[a]), _constant(expected), place, int(self.of[c]) if c >= 0 else -1)

    # ------------------------------------------------------------------------------------------ moved elements

    def moved(self, v, op, a, b, c):
        """Append an instruction that only moves elements; return its value."""
        made, kind = self.made, self.kinds[v]
        wide = _wide(kind)
        if op == Op.INPUT:
            self.inputs[v] = found = made.add(op, (_FLOAT, kind[1], None), a)
            return made.in_layout(found, wide)
        if op == Op.ARRAY:
            return made.in_layout(made.constant_array(np.ascontiguousarray(self.code.arrays[a], float)), wide)
        base = int(self.of[a]) if a >= 0 else -1
        if op == Op.LOAD:
            return made.add(op, wide, base, b)
        if op == Op.VIEW and self.is_single(a) and self.is_single(v):
            return made.part(base, _wide_view(self.code.views[b]), _FLOAT)
        if op == Op.PACK and kind[1]:
            offsets, values = self.code.packs[b]
            values = [self.rounded(u) if self.is_single(v) else int(self.of[u]) for u in values.tolist()]
            made.packs.append((offsets, np.array(values, np.int32)))
            return made.add(op, wide, base, len(made.packs) - 1)
        if op == Op.PLACE and kind[1]:
            if self.is_single(v):
                return made.place(base, _wide_view(self.code.views[b]), self.rounded(c), wide)
            return made.place(base, self.code.views[b], int(self.of[c]), kind)
        if op in (Op.GATHER, Op.STOP):
            return made.add(op, wide, base, int(self.of[b]) if op == Op.GATHER else -1)
        raise NotDerivable(f"instruction {Op(op).name} on float32")

    def rounded(self, v):
        """Return a value that becomes float32: an operand beside float32, or one that is stored to a float32 array."""
        found, dtype = int(self.of[v]), self.kinds[v][0]
        if dtype == _FLOAT:
            return self.made.add(_SINGLE_OP, kind_of(self.made, found), found)
        if dtype.kind in "iu":
            raise NotDerivable("integers that become float32")
        return found

    # ------------------------------------------------------------------------------------------ calls

    def call(self, v, call):
        """Append the instructions of a call on float64 values; return its result, rounded if it is float32."""
        kind, dtypes = self.kinds[v], [self.kinds[u][0] for u in call.operands]
        if not (is_function(call) and call.row.kind != "custom") or call.compute in _OF_PRECISION:
            raise NotDerivable(f"a call of {call.name} with float32")
        if kind[0].kind != "f" and _FLOAT in dtypes:  # such as a comparison: a float may have been converted, or not
            raise NotDerivable(f"a call of {call.name} with float32 and float64")
        weak = self.is_single(v) or kind[0].kind != "f"  # whether Python floats become float32
        args = tuple(_constant(x, weak) for x in call.args)
        kwargs = {name: _constant(x, weak) for name, x in call.kwargs.items()}
        key = call.compute, static(args), static(kwargs), tuple(self.kinds[u] for u in call.operands)
        if key not in self.traced:
            self.traced[key] = self.of_doubles(call, args, kwargs, self.is_single(v) and not _moves(call))
        traced = self.traced[key]
        becomes_single = self.is_single(v) and _FLOAT in dtypes
        given = [self.rounded(u) if becomes_single else int(self.of[u]) for u in call.operands]
        given = [self.made.in_layout(x, kind_of(traced, u)) for x, u in zip(given, traced.inputs)]
        (found,) = self.made.inline(traced, given)
        if kind_of(self.made, found)[:2] != _wide(kind)[:2]:
            raise NotDerivable(f"a call of {call.name}, whose result depends on the precision")
        return self.made.in_layout(found, _wide(kind))

    def of_doubles(self, call, args, kwargs, rounds):
        """Trace a call on float64 values."""

        def run(*inputs):
            y = call.compute(*[call_rules.filled(x, inputs) for x in args], **kwargs)
            return [single(y) if rounds else y]

        examples = [_double(self.values[u]) for u in call.operands]
        with np.errstate(all="ignore"):
            return listed(run, examples, call.name, disabled=self.program._disabled, warns=False)


def _moves(call):
    """Return whether the result needs no rounding: its elements are the operands', up to their sign, or integers."""
    return call.row.kind in ("view", "rearrangement") or call.compute in _MOVING


_MOVING = frozenset((
    operator.getitem, call_rules.placed, np.where, np.copy, np.max, np.min, np.maximum, np.minimum, np.fmax, np.fmin,
    np.negative, np.positive, np.absolute, np.fabs, np.sign, np.floor, np.ceil, np.trunc, np.rint, np.sort, np.copysign,
))  # fmt: skip


def _constant(x: Any, weak: bool = True) -> Any:
    """Convert an argument that is no operand; with `weak`, Python floats are rounded to float32."""
    if type(x) is float:
        return float(np.float32(x)) if weak else x
    if type(x) is np.float32 or (type(x) is np.ndarray and x.dtype == _SINGLE):
        return x.astype(float)
    if x is np.float32 or (isinstance(x, np.dtype) and x == _SINGLE):
        return _FLOAT
    if type(x) in (list, tuple):
        return type(x)([_constant(item, weak) for item in x])
    return x


def _wide(kind: tuple) -> tuple:
    """Return the float64 type for a type."""
    dtype, shape, strides = kind
    if dtype != _SINGLE:
        return kind
    return _FLOAT, shape, None if strides is None else tuple(2 * step for step in strides)


def _wide_view(view: tuple) -> tuple:
    first, shape, strides = view
    return 2 * first, shape, tuple(2 * step for step in strides)
