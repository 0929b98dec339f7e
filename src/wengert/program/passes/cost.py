"""The cost model: the times by which passes and the VM choose between forms of a program.

Every constant that is a cost of the machine stands here, in nanoseconds of one core unless its comment says otherwise;
the decisions that are named beside them have the measurements. A choice depends on their ratios only.
`vectorise` and `scalarise` add them up over instructions, `stencil_fusion` over the elements of regions, and the VM
over its instructions before it has them compiled.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from wengert.program.ir.call import Call, Operand

# ---- instructions of the VM, see docs/explanation/decisions/0028-rolling.md and 0036-elements.md

#: an instruction on scalars: arithmetic, or a function of the C library
SCALAR, SCALAR_FUNCTION = 1.8, 12.0
#: a VM instruction that begins, and an array instruction fused into it
STEP, FUSED_VECTOR = 25.0, 4.0
#: an array instruction with its share of a step, where it is not known yet which are fused
VECTOR = 20.0
#: an element of a fused array instruction, and of one of which that is not known: arithmetic
FUSED_ELEMENT, ELEMENT = 0.3, 0.25
#: an element of a function of the C library
ELEMENT_FUNCTION = 2.5
#: an element that is moved, or set to zero
ELEMENT_MOVED, ELEMENT_ZEROED = 0.8, 0.05
#: a call of Python, without what the function computes
PYTHON_CALL = 700.0

# ---- what NumPy and SciPy compute within a call

#: a multiplication and addition of a product
MULTIPLY_ADD = 0.06
#: an element that is read or written
CALL_ELEMENT = 0.6
#: a matrix that is factored, each of its elements, and a multiplication and addition there
FACTORED, FACTORED_ELEMENT, FACTORED_MULTIPLY_ADD = 450.0, 2.0, 0.1
#: a sparse matrix, and each of its nonzeros for each column that it is multiplied by
SPARSE, SPARSE_NONZERO = 4000.0, 1.0

_PRODUCTS = {f"numpy.{name}" for name in ("matmul", "dot", "inner", "vecdot", "vdot")}
_CONTRACTIONS = {"numpy.einsum", "numpy.tensordot"}
#: modules whose functions factor matrices
_FACTORING = ("numpy.linalg.", "wengert.rules.linalg.")


def of_call(call: Call, shapes: list, shape: tuple) -> float:
    """Nanoseconds of what a function computes in a call of it, without `PYTHON_CALL`.

    Parameters
    ----------
    call : Call
        Of a function, not of a loop.
    shapes : list of tuple
        Of its operands.
    shape : tuple
        Of its result.
    """
    name = "" if call.row is None else call.row.name
    sparse = [x for x in call.args if type(x) is not Operand and hasattr(x, "nnz")]
    given = tuple([shapes[x.position] if type(x) is Operand else _shape_of(x) for x in call.args])
    total = _of_call(name, given, tuple(shapes), shape)
    for x in sparse:
        total += SPARSE + SPARSE_NONZERO * x.nnz * max(1, math.prod(shape) // max(1, shape[0]))
    return total


def _shape_of(x):
    return tuple(x.shape) if isinstance(x, np.ndarray) or hasattr(x, "nnz") else ()


@functools.lru_cache(1000)
def _of_call(name, given, shapes, shape):
    """The same for a function that is known by name, by the shapes of its arguments."""
    size = math.prod(shape)
    total = CALL_ELEMENT * (size + sum(map(math.prod, shapes)))
    if not given:
        return total
    if name in _PRODUCTS:
        total += MULTIPLY_ADD * size * (given[0][-1] if given[0] else 1)
    elif name in _CONTRACTIONS:  # a product of matrices m x k and k x n has as many as this root
        total += MULTIPLY_ADD * math.sqrt(size * math.prod(map(math.prod, given)))
    elif name.startswith(_FACTORING) and len(given[0]) > 1:
        n = given[0][-1]
        total += math.prod(given[0][:-2]) * (FACTORED + FACTORED_ELEMENT * n**2 + FACTORED_MULTIPLY_ADD * n**3)
    return total


# ---- regions of arrays, see docs/explanation/decisions/0037-shifts.md


class RegionCosts(NamedTuple):
    """Costs of array code that is run region by region."""

    step: float  # a VM instruction that begins
    instruction: float  # an instruction fused into it
    operation: float  # an operation on an element: see `OPERATIONS`
    near: float  # an element that is written and read again in the cache,
    short: float  # in the cache, in short rows, which the VM copies together,
    far: float  # or beyond the cache


REGIONS_ON_VM = RegionCosts(60.0, 12.0, 0.12, 0.25, 0.4, 1.0)
REGIONS_COMPILED = RegionCosts(20.0, 3.0, 0.03, 0.25, 0.25, 1.0)
#: bytes of an array that stays in the cache
CACHE = 1 << 18
#: transfers of an element by an addition, which reads and writes the sum, and half of the time reads what is added
ADDITION_TRANSFERS = 1.5
#: operations of an elementwise function, by name, and of all others
OPERATIONS = {
    **dict.fromkeys(("add", "subtract", "multiply", "negative", "positive", "square", "absolute"), 1),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin", "sign"), 1),
    **dict.fromkeys(("divide", "reciprocal", "sqrt"), 5),
}
FUNCTION_OPERATIONS = 20
#: the function whose operations the partial of another one has, where these are not its own
PARTIAL_OPERATIONS = {"exp": "add", "log": "divide"}

# ---- the LLVM tier, see docs/explanation/decisions/0029-tier.md

#: compiling a program at all, and compiling and tracing each statement
COMPILE, COMPILE_STATEMENT, TRACE_STATEMENT = 1e8, 3e5, 2e4
#: statements of one VM instruction that are compiled at most, as longer code is re-rolled
COMPILED_STATEMENTS = 1000.0
#: what machine code saves a run: of a scalar instruction, of an element, and of an instruction on a chunk
SAVED_SCALAR, SAVED_ELEMENT, SAVED_CHUNK = 2.0, 0.1, 20.0
