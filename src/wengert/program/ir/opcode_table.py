"""The opcode table: everything that is known of an opcode, one row each.

Input: the numbers of ``opcodes.pxd`` and the rows of ``core/tape/kernels.h``.
Output: `ROWS`, and sets, numbers and functions that are derived from it.
The verifier, the printer, the passes, the VM and the code generators look opcodes up here; none has a list of its own.

Instructions are stated below; elementwise functions and their partials are added from ``kernels.h``, so that a new
function needs one line there.
A row that lacks a column, or has a value in it that no stage knows, raises TypeError when this module is imported.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.tape.tape import kernel_is_cheap, kernel_rows
from wengert.program.ir.opcodes import Op
from wengert.registry import Primitive, lookup

#: tables of a listing into which a column may point
TABLES = ("constants", "arrays", "views", "packs", "calls", "guards")

#: what each column of the table may hold
VOCABULARY = {
    "columns": (
        "",  # nothing: -1
        "value",  # a value that is read
        "value?",  # a value that is read, or -1
        "about",  # a value that is named without being read, or -1
        "input",  # the number of an input
        "offset",  # elements from the lowest address of an array
        *TABLES,  # an index into this table
    ),
    "result": (
        "elementwise",  # the shape of the operands, scalars broadcast
        "flags",  # the same, of type bool
        "operand",  # the type of operand a
        "scalar",  # a double
        "element",  # a scalar of the dtype of array a
        "constant",  # a double or a bool
        "declared",  # an array, or what a call returns, of the type that the instruction states
        "input",  # any type
    ),
    "access": (
        "",  # reads no value
        "elements",  # reads arrays element by element, wherever they lie
        "memory",  # reads arrays at their places in memory
        "overwrites",  # reuses the memory of array a, reads c element by element
        "alias",  # is operand a
    ),
    "cost": (
        "free",  # no instruction of the VM
        "arithmetic",  # a few floating-point operations an element
        "function",  # a function of the C library an element
        "sum",  # an addition an element of the operand
        "move",  # a load and a store an element
        "pack",  # a store an element, of scalars
        "guard",  # a comparison
        "call",  # a call of Python
    ),
    "lowering": (
        "",  # none: inputs, constants, views, and what passes remove
        "elementwise",  # an opcode of the VM of the same name, for scalars and for chunks of arrays
        "scalar",  # an opcode of the VM for scalars
        "vector",  # an opcode of the VM for chunks of arrays
        "pack",  # a VM instruction of its own that stores scalars
        "move",  # a VM instruction of its own that moves elements
        "call",  # Python
    ),
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What is known of an opcode.

    Attributes
    ----------
    opcode : int
    name : str
        As programs print it.
    function : str
        Dotted name of the function that computes it from its operands; "" for others.
    columns : tuple of str
        What a, b and c hold: see `VOCABULARY`, as for the next four.
    result : str
        The rule for the type of its value.
    access : str
        How it reads arrays.
    cost : str
        Its class in the cost model.
    lowering : str
        What the VM makes of it.
    text : str
        How it prints; fields are those of `wengert.program.ir.printer`.
    has_derivative : bool
        Does a derivative pass from its value to its operands?
    is_commutative : bool
        Is the value the same, bit for bit, with a and b exchanged?
    is_stored : bool
        Does its value need memory of its own?
    """

    opcode: int
    name: str
    function: str
    columns: tuple
    result: str
    access: str
    cost: str
    lowering: str
    text: str
    has_derivative: bool
    is_commutative: bool
    is_stored: bool

    @property
    def mask(self) -> int:
        """Which of the columns a, b and c name values that are read: 1 | 2 | 4."""
        return sum([1 << k for k, holds in enumerate(self.columns) if holds in ("value", "value?")])

    @property
    def arity(self) -> int:
        """Number of columns that name values that are read."""
        return self.mask.bit_count()


ROWS: dict[int, Row] = {}
_COLUMNS = [field.name for field in dataclasses.fields(Row)]
#: columns that most rows have alike
_USUAL = {
    "function": "",
    "text": "{name}({values})",
    "has_derivative": True,
    "is_commutative": False,
    "is_stored": True,
}


def row(opcode: int, name: str, *columns: str, **others: Any) -> Row:
    """A row of the table, checked.

    Raises
    ------
    TypeError
        If a column is missing, unknown or has a value that no stage knows, or if the opcode has a row.
    """
    found = {"opcode": int(opcode), "name": name, "columns": columns, **_USUAL, **others}
    wrong = [f"has no column {key}" for key in _COLUMNS if key not in found]
    wrong += [f"has a column {key} that there is not" for key in found if key not in _COLUMNS]
    for key, known in VOCABULARY.items():
        given = columns if key == "columns" else [found[key]] if key in found else []
        wrong += [f"has {x!r} in {key}" for x in given if x not in known]
    wrong += ["states not three operand columns"] * (len(columns) != 3) + ["is there twice"] * (opcode in ROWS)
    if wrong:
        raise TypeError(f"opcode table: the row of {name} {', '.join(wrong)}")
    return Row(**found)


def _add(opcode, *columns, **others):
    ROWS[int(opcode)] = row(opcode, opcode.name.lower(), *columns, **others)


# ---- inputs, constants, and parts of arrays

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

# ---- choices, comparisons and logic, on scalars and on arrays of one shape

_SIMPLE = {"access": "elements", "cost": "arithmetic", "lowering": "elementwise"}
_FLAGS = {"result": "flags", "has_derivative": False, **_SIMPLE}
_add(Op.SELECT, "value", "value", "value", function="numpy.where", result="elementwise", **_SIMPLE)
_add(Op.LESS, "value", "value", "", function="numpy.less", **_FLAGS)
_add(Op.LESS_EQUAL, "value", "value", "", function="numpy.less_equal", **_FLAGS)
_add(Op.GREATER, "value", "value", "", function="numpy.greater", **_FLAGS)
_add(Op.GREATER_EQUAL, "value", "value", "", function="numpy.greater_equal", **_FLAGS)
_add(Op.EQUAL, "value", "value", "", function="numpy.equal", **_FLAGS)
_add(Op.NOT_EQUAL, "value", "value", "", function="numpy.not_equal", **_FLAGS)
_add(Op.NOT, "value", "", "", function="numpy.logical_not", **_FLAGS)
_add(Op.AND, "value", "value", "", function="numpy.logical_and", **_FLAGS)
_add(Op.OR, "value", "value", "", function="numpy.logical_or", **_FLAGS)
_add(Op.ISNAN, "value", "", "", function="numpy.isnan", **_FLAGS)
_add(Op.STRONG, "value", "value", "", function="wengert.registry.strong", result="elementwise", is_commutative=True,
     **_SIMPLE)  # fmt: skip

# ---- the others

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

#: opcodes of the functions of ``kernels.h`` by name: that in NumPy, dotted for others, "**" for the operator
OPCODES: dict[str, int] = {}

for _name, _opcode, _arity, *_reads in kernel_rows():
    _short = (_name or "**").rpartition(".")[2]
    OPCODES[_name or "**"] = _opcode
    ROWS[_opcode] = row(
        _opcode,
        _short,
        *("value", "value" if _arity == 2 else "", ""),
        function=f"numpy.{_name}" if _name == _short else _name or "operator.pow",
        result="elementwise",
        access="elements",
        cost="arithmetic" if kernel_is_cheap(_opcode) else "function",
        lowering="elementwise",
        is_commutative=_name in ("add", "multiply"),
    )
    for _side in range(_arity):
        _partial = int(Op.PARTIAL) + 2 * _opcode + _side
        # an operand that a partial does not read may be there all the same
        _columns = ["value" if _reads[_side] >> k & 1 else "value?" for k in range(3)]
        ROWS[_partial] = row(_partial, f"d{_short}/d{'ab'[_side]}", *_columns, result="elementwise", **_SIMPLE)

_missing = [op.name for op in Op if op not in (Op.PARTIAL, Op.OPS) and op not in ROWS]
if _missing:
    raise TypeError(f"opcode table: no row for {', '.join(_missing)}")


# ---------------------------------------------------------------------------------------------- derived


def opcodes(**columns: Any) -> frozenset[int]:
    """The opcodes whose rows have these values; a tuple stands for any of its items."""
    tests = {key: x if type(x) is tuple else (x,) for key, x in columns.items()}
    return frozenset([op for op, row in ROWS.items() if all(getattr(row, key) in x for key, x in tests.items())])


def marked(found: frozenset[int]) -> np.ndarray:
    """A set of opcodes as an array of bool, by opcode; the last opcode is that of no instruction."""
    mask = np.zeros(Op.OPS + 1, bool)
    mask[[*found]] = True
    return mask


ELEMENTWISE = opcodes(result=("elementwise", "flags"))
FLAGS = opcodes(result="flags")


@functools.cache
def function(opcode: int) -> Callable:
    """The function that computes an opcode from its operands.

    Raises
    ------
    TypeError
        If there is none: partials are computed on float64 values only.
    """
    row = ROWS[opcode]
    if not row.function:
        raise TypeError(f"{row.name} is computed on float64 values only")
    module, _, name = row.function.rpartition(".")
    return getattr(importlib.import_module(module), name)  # SciPy is imported when a function of it is met


def primitive(opcode: int) -> Primitive:
    """The rule of an elementwise function; that of ``**`` is the one of ``numpy.power``."""
    return lookup(np.power if opcode == OPCODES["**"] else function(opcode))
