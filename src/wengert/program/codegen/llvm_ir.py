"""Converts formulas to statements and statements to LLVM IR, for GPU kernels and for the LLVM tier.

`Symbol`s are symbolic scalars; each operation on them, identified by its function's name, goes to their *builder*.
`Statements` is the builder for machine code: straight-line SSA form with common subexpressions merged.
`emit_statements` emits statements as LLVM IR, for scalars of either precision and for vectors.

llvmlite is imported only when code is generated.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np

from wengert.program.codegen import kernels
from wengert.program.ir.opcode_table import ROWS, opcodes
from wengert.program.ir.opcodes import Op

#: by opcode: name of the elementwise function in `kernels.ROWS`
NAMES = {
    op: ROWS[op].name if op < Op.PARTIAL else ROWS[op].function.rpartition(".")[2]
    for op in opcodes(lowering="elementwise")
    if ROWS[op].function
}


class Symbol:
    """A symbolic scalar or flag; `v` is its index in the builder `of`."""

    __slots__ = ("is_flag", "of", "v")
    __hash__ = object.__hash__

    def __init__(self, of, v, is_flag=False):
        self.of = of
        self.v = v
        self.is_flag = is_flag

    def __bool__(self):
        raise TypeError("the truth value of a scalar differs between points")

    def round(self, decimals=0, out=None):
        if decimals:
            raise TypeError("rounding to decimals is not supported")
        return self.of.apply("rint", self)

    @property
    def real(self):
        return self


def _operator(name, is_swapped=False):
    def method(self, other):
        if not isinstance(other, (Symbol, int, float, np.number, np.bool_)):
            return NotImplemented
        return self.of.apply(name, other, self) if is_swapped else self.of.apply(name, self, other)

    return method


def _function(name):
    return lambda self, *others: self.of.apply(name, self, *others)


for _sign, _name in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "**",
    "mod": "remainder",
    "floordiv": "floor_divide",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
}.items():
    setattr(Symbol, f"__{_sign}__", _operator(_name))
    setattr(Symbol, f"__r{_sign}__", _operator(_name, is_swapped=True))
for _sign, _name in {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}.items():
    setattr(Symbol, f"__{_sign}__", _operator(_name))
for _sign, _name in {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "logical_not"}.items():
    setattr(Symbol, f"__{_sign}__", _function(_name))
# methods that NumPy calls on the elements of object arrays
for _name in (
    "conjugate square reciprocal fabs sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan "
    "sinh cosh tanh arcsinh arccosh arctanh rint floor ceil trunc arctan2 hypot"
).split():
    setattr(Symbol, _name, _function(_name))


# ---------------------------------------------------------------------------------------------- builders

_TO_FLAGS = {"logical_not", "logical_and", "logical_or", "logical_xor"}


class Builder:
    """Converts functions of numbers to instructions; base of the builders for machine code and for GPU programs."""

    def as_symbol(self, x) -> Symbol:
        """Convert a Python scalar to a number of this builder."""
        return x if type(x) is Symbol else self.constant(float(x), isinstance(x, (bool, np.bool_)))

    def as_float(self, x) -> Symbol:
        x = self.as_symbol(x)
        return self.apply("where", x, 1.0, 0.0) if x.is_flag else x

    def as_flag(self, x) -> Symbol:
        x = self.as_symbol(x)
        return x if x.is_flag else self.apply("not_equal", x, 0.0)

    def apply(self, name: str, *operands) -> Symbol:
        """Append a function of numbers, by its name."""
        name = kernels.ALIASES.get(name, name)
        if name not in kernels.ROWS:
            raise TypeError(f"{name} has no formula")
        if name in _TO_FLAGS:
            return self.instruction(name, [self.as_flag(x) for x in operands])
        if name == "where":
            mask, *branches = map(self.as_symbol, operands)
            if branches[0].is_flag and branches[1].is_flag:
                mask = self.as_flag(mask)
                return (mask & branches[0]) | (~mask & branches[1])
            return self.instruction(name, [self.as_flag(mask), *map(self.as_float, branches)])
        return self.instruction(name, [self.as_float(x) for x in operands])


class Statements(Builder):
    """Statements in SSA form, on scalars of one dtype."""

    def __init__(self, dtype="float64"):
        self.dtype = np.dtype(dtype)
        self.tiny, self.huge = (1e-290, 1e290) if self.dtype == np.float64 else (1e-30, 1e30)
        self._statements: list = []
        self._numbers: dict = {}
        self.nothing = self._statement(("constant", 0.0), "nothing")  # zero without a sign, dropped from sums

    def _statement(self, statement, key=None, is_flag=False) -> Symbol:
        found = self._numbers.get(key or statement)
        if found is None:
            self._statements.append(statement)
            found = self._numbers[key or statement] = Symbol(self, len(self._statements) - 1, is_flag)
        return found

    def constant(self, x, is_flag=False):
        if is_flag:
            return self._statement(("flag", bool(x)), is_flag=True)
        x = float(x)
        return self._statement(("constant", x), struct.pack("d", x))

    def value(self, x: Symbol):
        """Return the value of a constant; None for other numbers."""
        name, *operands = self._statements[x.v]
        return operands[0] if name in ("constant", "flag") else None

    def partial(self, opcode, side, *operands):
        return self.as_symbol(kernels.ROWS[kernels.ALIASES.get(NAMES[opcode], NAMES[opcode])].partials[side](*operands))

    def instruction(self, name, operands):
        row = kernels.ROWS[name]
        found = self._known(name, operands)
        if found is not None:
            return found
        if not isinstance(row.value, kernels.Primitive):
            return self.as_symbol(row.value(*operands))
        if name in ("add", "multiply", "logical_and", "logical_or"):
            operands = sorted(operands, key=lambda x: x.v)
        return self._statement((name, *[x.v for x in operands]), is_flag=row.is_flag)

    def _known(self, name, operands):
        """Return the simplified value of a statement, or None.

        Signs of zeros are preserved, except where an operand is `nothing`, which stands for a zero derivative.
        """
        a, b = operands[0], operands[-1]
        x, y = self.value(a), self.value(b)
        nothing = self.nothing
        if name == "strong":
            if a is nothing or b is nothing:
                return nothing
            if any(c is not None and c != 0.0 and abs(c) < np.inf for c in (x, y)):
                return a * b
        elif name == "where":
            _, b, c = operands
            return b if x is True or b is c else c if x is False else None
        elif name == "add":
            return b if a is nothing else a if b is nothing else None
        elif name == "subtract":
            return a if b is nothing else -b if a is nothing else None
        elif name == "negative" and a is nothing:
            return nothing
        elif name == "negative" and x is not None:
            return self.constant(-x)
        elif name in ("multiply", "divide") and y == 1.0:
            return a
        elif name == "multiply" and x == 1.0:
            return b
        elif name == "logical_not" and x is not None:
            return self.constant(not x, True)
        elif name in ("logical_and", "logical_or") and (x is not None or y is not None):
            flag, other = (x, b) if x is not None else (y, a)
            return other if flag is (name == "logical_and") else self.constant(flag, True)
        return None

    @property
    def count(self) -> int:
        """Number of statements so far, dead ones included."""
        return len(self._statements)


# ---------------------------------------------------------------------------------------------- LLVM IR


def emit_statements(builder, order, found: dict, real, call: Callable) -> None:
    """Emit statements as LLVM IR.

    Parameters
    ----------
    builder : llvmlite.ir.IRBuilder
    order : iterable of (int, statement)
    found : dict
        LLVM values of the statements by index; must hold the inputs, and receives the others.
    real : llvmlite.ir.Type
        Type of numbers: double, float, or a vector of these.
    call : callable
        ``call(builder, name, operands)`` emits a call of a C library function.
    """
    from llvmlite import ir

    flag = ir.VectorType(ir.IntType(1), real.count) if isinstance(real, ir.VectorType) else ir.IntType(1)
    for v, (name, *operands) in order:
        if name == "constant":
            found[v] = ir.Constant(real, operands[0])
        elif name == "flag":
            found[v] = ir.Constant(flag, int(operands[0]))
        elif name in kernels.ROWS:
            found[v] = emit_statement(builder, kernels.ROWS[name].value, [found[x] for x in operands], real, call)


def emit_statement(builder, primitive, operands, real, call):
    """Emit one statement as LLVM IR and return its value."""
    from llvmlite import ir

    if primitive.c:
        return call(builder, primitive.c, operands)
    if primitive.ir == "fneg":  # libNVVM's dialect of LLVM IR has no fneg
        return builder.fsub(ir.Constant(real, -0.0), *operands)
    if primitive.ir == "fma":
        a, b, product = operands
        return intrinsic(builder, "fma", [a, b, builder.fsub(ir.Constant(real, -0.0), product)])
    if primitive.ir == "single":
        element = ir.FloatType()
        narrow = ir.VectorType(element, real.count) if isinstance(real, ir.VectorType) else element
        return operands[0] if narrow == real else builder.fpext(builder.fptrunc(operands[0], narrow), real)
    if primitive.ir == "strong":
        zero = ir.Constant(real, 0.0)
        is_zero = builder.or_(*[builder.fcmp_ordered("==", x, zero) for x in operands])
        return builder.select(is_zero, zero, builder.fmul(*operands))
    if primitive.ir == "!=":
        return builder.fcmp_unordered("!=", *operands)
    if primitive.ir in ("<", "<=", ">", ">=", "=="):
        return builder.fcmp_ordered(primitive.ir, *operands)
    return getattr(builder, primitive.ir)(*operands)


def intrinsic(builder, name: str, operands: list):
    kind = str(operands[0].type)
    element = "f64" if "double" in kind else "f32"
    return external(builder, f"llvm.{name}.{f'v{operands[0].type.count}' if '<' in kind else ''}{element}", operands)


def external(builder, name: str, operands: list):
    """Call an external function; its operands have the type of the result."""
    from llvmlite import ir

    kind = ir.FunctionType(operands[0].type, [x.type for x in operands])
    function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    return builder.call(function, operands)
