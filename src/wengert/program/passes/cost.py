"""The cost model by which passes and the VM choose between equivalent forms of a program.

All machine-dependent costs are defined here, in nanoseconds on one core unless a comment says otherwise; the decision
records cited below hold the measurements. Only ratios matter.
`vectorise` and `scalarise` sum costs over instructions, `stencil_fusion` over the elements of regions, and the VM over
the instructions of a candidate for compilation.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from wengert.program.ir.call import Call, Operand, product_of
from wengert.program.ir.native_calls import native_call

_FLOAT = np.dtype(float)

# ---- VM instructions, see docs/explanation/decisions/0028-vectorisation.md and 0036-scalar-replacement.md

#: a scalar instruction: arithmetic, and a C math library function
SCALAR, SCALAR_FUNCTION = 1.8, 12.0
#: dispatch of a VM instruction, and of each array instruction fused into it
DISPATCH, FUSED_VECTOR = 25.0, 4.0
#: dispatch of an array instruction before fusion is known, on average
VECTOR = 20.0
#: arithmetic per element: in a fused instruction, and before fusion is known
FUSED_ELEMENT, ELEMENT = 0.3, 0.25
#: a C math library function per element
ELEMENT_FUNCTION = 2.5
#: moving an element, and setting it to zero
ELEMENT_MOVED, ELEMENT_ZEROED = 0.8, 0.05
#: a Python call, and a native call, without the work of the function
PYTHON_CALL, NATIVE_CALL = 700.0, 25.0
#: packing an element for a native call
PACKED = 0.6

# ---- work of NumPy and SciPy functions

#: a multiply-add of a matrix product
MULTIPLY_ADD = 0.06
#: reading or writing an element
CALL_ELEMENT = 0.6
#: a small matrix product, which the VM computes itself: fixed cost, with the checks of its derivative; cost of a
#: multiply-add; and limit on its multiply-adds
SMALL_PRODUCT, SMALL_MULTIPLY_ADD, MAX_SMALL_PRODUCT = 60.0, 0.1, 1 << 14
#: factoring a matrix: per matrix, per element, and per multiply-add
FACTORED, FACTORED_ELEMENT, FACTORED_MULTIPLY_ADD = 450.0, 2.0, 0.1
#: product with a sparse matrix: per call, and per nonzero and column of the other factor
SPARSE, SPARSE_NONZERO = 4000.0, 1.0


def of_call(call: Call, types: list, result: tuple) -> float:
    """Estimate the nanoseconds that a called function takes.

    Parameters
    ----------
    call : Call
        Call of a function, not of a loop.
    types : list of tuple
        Types of its operands.
    result : tuple
        Type of its result.
    """
    shapes, shape = [x[1] for x in types], result[1]
    is_product = product_of(call) is not None  # of matrices: the VM has an instruction, or calls BLAS
    if is_product and (work := _small_product(call, types, shape)) is not None:
        return work
    native = native_call(call, [x[:2] for x in types], *result[:2])
    if native is not None:
        elements = sum([math.prod(x.shape) for x in native.operands]) + math.prod(result[1])
        return NATIVE_CALL + native.work + PACKED * elements
    work = "product" if is_product else None if call.row is None else call.row.work
    sparse = [x for x in call.args if type(x) is not Operand and hasattr(x, "nnz")]
    given = tuple([shapes[x.position] if type(x) is Operand else _shape_of(x) for x in call.args])
    total = PYTHON_CALL + _of_call(work, given, tuple(shapes), shape)
    for x in sparse:
        total += SPARSE + SPARSE_NONZERO * x.nnz * max(1, math.prod(shape) // max(1, shape[0]))
    return total


def _small_product(call, types, shape):
    """Estimate the time of a product that is one instruction of the VM; None for others."""
    (left, first), (right, second) = [
        types[x.position][:2] if type(x) is Operand else (getattr(x, "dtype", None), _shape_of(x)) for x in call.args
    ]
    if left != _FLOAT or right != _FLOAT or not (1 <= len(first) <= 2 and 1 <= len(second) <= 2):
        return None
    count = math.prod(shape) * first[-1]
    if count > MAX_SMALL_PRODUCT:
        return None
    return SMALL_PRODUCT + SMALL_MULTIPLY_ADD * count + CALL_ELEMENT * math.prod(shape)


def _shape_of(x):
    return tuple(x.shape) if isinstance(x, np.ndarray) or hasattr(x, "nnz") else ()


@functools.lru_cache(1000)
def _of_call(work, given, shapes, shape):
    """Estimate the work of a function from its registry column ``work`` (or "product") and argument shapes."""
    size = math.prod(shape)
    total = CALL_ELEMENT * (size + sum(map(math.prod, shapes)))
    if not given:
        return total
    if work == "product":
        total += MULTIPLY_ADD * size * (given[0][-1] if given[0] else 1)
    elif work == "contraction":  # sqrt(mn * mk * kn) = mnk, the multiply-adds of an m x k by k x n product
        total += MULTIPLY_ADD * math.sqrt(size * math.prod(map(math.prod, given)))
    elif work == "factorisation" and len(given[0]) > 1:
        n = given[0][-1]
        total += math.prod(given[0][:-2]) * (FACTORED + FACTORED_ELEMENT * n**2 + FACTORED_MULTIPLY_ADD * n**3)
    return total


# ---- when a later form of a program pays: docs/explanation/decisions/0085-first-calls-of-loops.md

#: time that an unrolled iteration saves per run; cost of unrolling, per instruction on arrays and per other instruction
UNROLLED_ITERATION = 500.0
UNROLL_ARRAY, UNROLL_SCALAR = 1.2e4, 1e3
#: preparing a Hessian: cost per array instruction of the function and per other instruction; and the share that this
#: saves of the time of one Hessian-vector product per direction
HESSIAN_ARRAY, HESSIAN_SCALAR, SAVED_BY_HESSIAN = 2.5e6, 1e5, 0.75

# ---- stencil regions, see docs/explanation/decisions/0037-stencil-fusion.md


class RegionCosts(NamedTuple):
    """Costs of array code that runs region by region."""

    step: float  # dispatch of a VM instruction
    instruction: float  # an instruction that is fused into a VM instruction
    operation: float  # an addition per element; other functions take `operations` times as long, see the opcode table
    near: float  # storing an element and loading it again, in cache
    short: float  # the same in short rows, which the VM copies together
    far: float  # storing an element and loading it again, beyond the cache


REGIONS_ON_VM = RegionCosts(60.0, 12.0, 0.12, 0.25, 0.4, 1.0)
REGIONS_COMPILED = RegionCosts(20.0, 3.0, 0.03, 0.25, 0.25, 1.0)
#: bytes of an array that stays in cache
CACHE = 1 << 18
#: memory transfers (a store and a load) per element of an addition: one for the sum, half of one to load the addend
ADDITION_TRANSFERS = 1.5

# ---- LLVM back end, see docs/explanation/decisions/0029-tier.md

#: compiling a program (fixed cost), and compiling and tracing per statement
COMPILE, COMPILE_STATEMENT, TRACE_STATEMENT = 1e8, 3e5, 2e4
#: limit on the statements compiled for one VM instruction, since longer code is re-rolled
COMPILED_STATEMENTS = 1000.0
#: time that machine code saves per run: for a scalar instruction, an element, and an instruction on a chunk
SAVED_SCALAR, SAVED_ELEMENT, SAVED_CHUNK = 2.0, 0.1, 20.0
