"""The opcode table: one row per opcode, with everything that the compiler knows about it.

Input: the opcodes of ``opcodes.pxd`` and the function rows of ``core/tape/kernels.h``.
Output: `ROWS`, and the sets, masks and functions derived from it.
The verifier, the printer, the passes, the VM and the code generators look opcodes up here and keep no other lists.

Structural instructions are declared below. Elementwise functions and their partials are generated from ``kernels.h``,
so that adding a function takes one line there.
A row with a missing column or an unknown value raises TypeError when this module is imported.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.tape.tape import kernel_is_cheap, kernel_rows
from wengert.program.ir.opcodes import Op
from wengert.registry import Primitive, lookup

#: side tables of a program that an operand column may index
TABLES = ("constants", "arrays", "views", "packs", "calls", "guards")

#: the values that each column of the table may take
VOCABULARY = {
    "columns": (
        "",  # unused: -1
        "value",  # id of a value that is read
        "value?",  # id of a value that is read, or -1
        "about",  # id of a value that is referenced but not read, or -1
        "input",  # index of an input
        "offset",  # in elements, from the lowest address of an array
        *TABLES,  # an index into this table
    ),
    "result": (
        "elementwise",  # the shape of the operands, with scalars broadcast
        "flags",  # like "elementwise", with dtype bool
        "operand",  # the type of operand a
        "scalar",  # float64
        "element",  # a scalar of the dtype of array a
        "constant",  # float64 or bool
        "declared",  # the type stated by the instruction: an array, or the result of a call
        "input",  # any type
    ),
    "access": (
        "",  # reads no value
        "elements",  # reads arrays element by element, through any strides
        "memory",  # reads arrays by address, so their layout matters
        "overwrites",  # may reuse the memory of array a; reads c element by element
        "alias",  # identity of operand a
    ),
    "cost": (
        "free",  # no VM instruction
        "arithmetic",  # a few floating-point operations per element
        "function",  # a C math library call per element
        "sum",  # an addition per element of the operand
        "move",  # a load and a store per element
        "pack",  # a store per scalar operand
        "guard",  # a comparison
        "call",  # a Python call
    ),
    "lowering": (
        "",  # none: inputs, constants, views, and instructions that passes remove
        "elementwise",  # VM opcode of the same name, for scalars and for array chunks
        "scalar",  # VM opcode for scalars
        "vector",  # VM opcode for array chunks
        "pack",  # separate VM instruction that stores scalars
        "move",  # separate VM instruction that moves elements
        "call",  # Python call
    ),
    "own_slope": (
        "",  # the derivative of its value is not a simple multiple of the value
        "value",  # for the partial p of y = f(a): dp/da = -2 y p
        "operand",  # for the partial p of y = f(a): dp/da = -2 a p
    ),
}


class Row:
    """Properties of an opcode.

    Attributes
    ----------
    opcode : int
    name : str
        As printed in programs.
    function : str
        Dotted name of the function that computes it from its operands; "" if there is none.
    columns : tuple of str
        Contents of the columns a, b and c; for these and the next four fields see `VOCABULARY`.
    result : str
        Rule for the type of the result.
    access : str
        How array operands are read.
    cost : str
        Class in the cost model.
    operations : int
        Time per element, in additions; `stencil_fusion` chooses by it which values to store.
    lowering : str
        Form of its VM instruction.
    text : str
        Print format; its fields are those of `wengert.program.ir.printer`.
    own_slope : str
        For a partial: how its value appears in its own derivative.
    has_derivative : bool
        Whether derivatives propagate through it.
    is_commutative : bool
        Whether exchanging a and b leaves the result bit-identical.
    is_stored : bool
        Whether its value needs its own memory.
    """

    __slots__ = (
        *("opcode", "name", "function", "columns", "result", "access", "cost", "operations", "lowering", "text"),
        *("own_slope", "has_derivative", "is_commutative", "is_stored"),
    )

    def __init__(self, **columns: Any):
        for name, value in columns.items():
            setattr(self, name, value)

    @property
    def mask(self) -> int:
        """Which of the columns a, b and c hold ids of values that are read, as bits 1 | 2 | 4."""
        return sum([1 << k for k, holds in enumerate(self.columns) if holds in ("value", "value?")])

    @property
    def arity(self) -> int:
        """Number of columns that hold ids of values that are read."""
        return self.mask.bit_count()


ROWS: dict[int, Row] = {}
_COLUMNS = frozenset(Row.__slots__)
_KNOWN = {key: frozenset(values) for key, values in VOCABULARY.items()}
_WORDS = _KNOWN.keys() - {"columns"}
#: defaults of columns
_USUAL = {"function": "", "operations": 1, "own_slope": "", "text": "{name}({values})"}
_USUAL |= {"has_derivative": True, "is_commutative": False, "is_stored": True}


def row(opcode: int, name: str, *columns: str, **others: Any) -> Row:
    """Return a validated row of the table.

    Raises
    ------
    TypeError
        If a column is missing or unknown or has an unknown value, or if the opcode already has a row.
    """
    found = {"opcode": int(opcode), "name": name, "columns": columns, **_USUAL, **others}
    is_known = len(columns) == 3 and _KNOWN["columns"].issuperset(columns) and opcode not in ROWS
    if not is_known or found.keys() != _COLUMNS or not all(found[key] in _KNOWN[key] for key in _WORDS):
        raise TypeError(f"opcode table: the row of {name} {', '.join(_complaints(found))}")
    return Row(**found)


def _complaints(found: dict) -> list[str]:
    """List the errors in a row."""
    wrong = [f"has no column {key}" for key in sorted(_COLUMNS - found.keys())]
    wrong += [f"has the unknown column {key}" for key in found if key not in _COLUMNS]
    for key, known in VOCABULARY.items():
        given = found["columns"] if key == "columns" else [found[key]] if key in found else []
        wrong += [f"has {x!r} in {key}" for x in given if x not in known]
    wrong += ["does not have three operand columns"] * (len(found["columns"]) != 3)
    return wrong + ["is a duplicate"] * (found["opcode"] in ROWS)


def _add(opcode, *columns, **others):
    ROWS[int(opcode)] = row(opcode, opcode.name.lower(), *columns, **others)


# ---- inputs, constants, and array elements and views

_LEAF = {"access": "", "cost": "free", "lowering": "", "has_derivative": False}
_add(Op.INPUT, "input", "", "", result="input", text="input {a}", is_stored=False, **_LEAF)
_add(Op.CONST, "constants", "", "", result="constant", text="{constant}", **_LEAF)
_add(Op.ARRAY, "arrays", "", "", result="declared", text="constant {array}", is_stored=False, **_LEAF)
_add(Op.LOAD, "value", "offset", "", result="element", access="memory", cost="arithmetic", lowering="scalar",
     text="v{a}{element}")  # fmt: skip
_add(Op.VIEW, "value", "views", "", result="declared", access="memory", cost="free", lowering="", text="v{a}{part}",
     is_stored=False)  # fmt: skip
_add(Op.PACK, "value?", "packs", "", result="declared", access="memory", cost="pack", lowering="pack", text="{pack}")
_add(Op.PLACE, "value?", "views", "value", result="declared", access="overwrites", cost="move", lowering="vector",
     text="{place}")  # fmt: skip

# ---- select, comparisons and logic, on scalars and on arrays of equal shape

_SIMPLE = {"access": "elements", "cost": "arithmetic", "lowering": "elementwise"}
_FLAGS = {"result": "flags", "has_derivative": False, **_SIMPLE}
_add(Op.SELECT, "value", "value", "value", function="numpy.where", result="elementwise", **_SIMPLE)
for _comparison in (Op.LESS, Op.LESS_EQUAL, Op.GREATER, Op.GREATER_EQUAL, Op.EQUAL, Op.NOT_EQUAL):
    _add(_comparison, "value", "value", "", function=f"numpy.{_comparison.name.lower()}", **_FLAGS)
_add(Op.NOT, "value", "", "", function="numpy.logical_not", **_FLAGS)
_add(Op.AND, "value", "value", "", function="numpy.logical_and", **_FLAGS)
_add(Op.OR, "value", "value", "", function="numpy.logical_or", **_FLAGS)
_add(Op.ISNAN, "value", "", "", function="numpy.isnan", **_FLAGS)
_add(Op.STRONG, "value", "value", "", function="wengert.registry.strong", result="elementwise", is_commutative=True,
     **_SIMPLE)  # fmt: skip

# ---- reductions, calls, guards and data movement

_add(Op.SUM, "value", "", "", function="numpy.sum", result="scalar", access="elements", cost="sum", lowering="vector")
_add(Op.CALL, "calls", "", "", result="declared", access="memory", cost="call", lowering="call", text="{call}")
_add(Op.GUARD, "value", "guards", "about", result="scalar", access="memory", cost="guard", lowering="scalar",
     text="guard v{a} is {expected}    # {source}", has_derivative=False, is_stored=False)  # fmt: skip
_add(Op.STOP, "value", "", "", result="operand", access="alias", cost="arithmetic", lowering="", has_derivative=False)
_MOVE = {"result": "declared", "access": "memory", "cost": "move"}
_add(Op.GATHER, "value", "value", "", lowering="vector", **_MOVE)
_add(Op.PUT, "value?", "value", "value", lowering="move", **_MOVE)
_add(Op.SCATTER, "value", "value", "", lowering="move", **_MOVE)

# ---- elementwise functions and their partials

#: opcodes of the functions of ``kernels.h`` by name: bare for NumPy functions, dotted for others, "**" for the operator
OPCODES: dict[str, int] = {}

#: operations of cheap functions, and of partials that cost less than their function
_OPERATIONS = {
    "wengert.core.tape.kernel.single": 1,
    **dict.fromkeys(("negative", "positive", "absolute", "square", "add", "subtract", "multiply"), 1),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), 1),
    **dict.fromkeys(("reciprocal", "sqrt", "divide"), 5),
}
_PARTIAL_OPERATIONS = {"exp": 1, "log": 5}
_FUNCTION_OPERATIONS = 20
_OWN_SLOPES = {"tanh": "value", "scipy.special.erf": "operand", "scipy.special.erfc": "operand"}

for _name, _opcode, _arity, *_reads in kernel_rows():
    _short = (_name or "**").rpartition(".")[2]
    OPCODES[_name or "**"] = _opcode
    _operations = _OPERATIONS.get(_name, _FUNCTION_OPERATIONS)
    ROWS[_opcode] = row(
        _opcode,
        _short,
        *("value", "value" if _arity == 2 else "", ""),
        function=f"numpy.{_name}" if _name == _short else _name or "operator.pow",
        result="elementwise",
        access="elements",
        cost="arithmetic" if kernel_is_cheap(_opcode) else "function",
        operations=_operations,
        lowering="elementwise",
        is_commutative=_name in ("add", "multiply"),
    )
    for _side in range(_arity):
        _partial = int(Op.PARTIAL) + 2 * _opcode + _side
        # an operand that the partial does not read may still be given
        _columns = ["value" if _reads[_side] >> k & 1 else "value?" for k in range(3)]
        ROWS[_partial] = row(
            _partial,
            f"d{_short}/d{'ab'[_side]}",
            *_columns,
            result="elementwise",
            operations=_PARTIAL_OPERATIONS.get(_name, _operations),
            own_slope=_OWN_SLOPES.get(_name, ""),
            **_SIMPLE,
        )

_missing = [op.name for op in Op if op not in (Op.PARTIAL, Op.OPS) and op not in ROWS]
if _missing:
    raise TypeError(f"opcode table: no row for {', '.join(_missing)}")


# ---------------------------------------------------------------------------------------------- derived


def opcodes(**columns: Any) -> frozenset[int]:
    """Return the opcodes whose rows have these column values; a tuple matches any of its items."""
    tests = {key: x if type(x) is tuple else (x,) for key, x in columns.items()}
    return frozenset([op for op, row in ROWS.items() if all(getattr(row, key) in x for key, x in tests.items())])


def marked(found: frozenset[int]) -> np.ndarray:
    """Return a set of opcodes as a bool array indexed by opcode; index `Op.OPS` stands for invalid opcodes."""
    mask = np.zeros(Op.OPS + 1, bool)
    mask[[*found]] = True
    return mask


ELEMENTWISE = opcodes(result=("elementwise", "flags"))
FLAGS = opcodes(result="flags")


@functools.cache
def function(opcode: int) -> Callable:
    """Return the function that computes an opcode from its operands.

    Raises
    ------
    TypeError
        If there is none, as for partials, which only the C kernels compute, on float64.
    """
    row = ROWS[opcode]
    if not row.function:
        raise TypeError(f"{row.name} is computed on float64 values only")
    module, _, name = row.function.rpartition(".")
    return getattr(importlib.import_module(module), name)  # imports SciPy only if one of its functions is used


def primitive(opcode: int) -> Primitive:
    """Return the derivative rule of an elementwise function; ``**`` shares the rule of ``numpy.power``."""
    return lookup(np.power if opcode == OPCODES["**"] else function(opcode))
