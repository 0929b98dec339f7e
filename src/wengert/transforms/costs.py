"""Cost model that decides ``mode="auto"`` and ``sparse="auto"``.

``python -m benchmarks.calibrate`` measures the constants and prints them next to the current ones.
"""

from __future__ import annotations

from typing import NamedTuple


class Costs:
    """Costs of dense derivatives, in evaluations of f."""

    record: float = 1.2  # one recorded evaluation of f
    sweep: float = 0.4  # one reverse sweep over the tape
    row: float = 0.05  # each cotangent of the sweep
    push: float = 1.5  # one evaluation of f with tangents
    column: float = 0.1  # each tangent of the evaluation


class SparseCosts:
    """Costs of sparse derivatives, which replay programs."""

    # in evaluations of f
    tangents: float = 1.0  # a replay with tangents
    tangent: float = 1.5  # each tangent of it
    cotangents: float = 0.8  # a replay with cotangents
    cotangent: float = 1.9  # each cotangent of it
    # in nanoseconds
    products: float = 15_000.0  # Python overhead of the products for one side (columns or rows) of a colouring
    read: float = 2.0  # each nonzero recovered from the products
    # in scalar operations of a program
    call: float = 50_000.0  # Python overhead of the products for one side of a colouring
    seed: float = 27.0  # each element of a seed vector
    nonzero: float = 1.7  # each nonzero recovered from the products
    array: float = 4_000.0  # creating a sparse array around its data
    zero: float = 0.8  # each element of a dense array


COSTS = Costs()
SPARSE_COSTS = SparseCosts()

#: colouring is preferred if it takes less than this fraction of the time of direct accumulation; the margin covers the
#: uncertainty of both estimates
MAX_COLOURED_TIME_RATIO = 0.8

#: an ndarray is preferred if it takes at most this multiple of the time of a sparse array, since it is easier to use
MAX_NDARRAY_COST_RATIO = 1.1

#: maximum number of tangents per evaluation of f
MAX_TANGENTS = 64


class Plan(NamedTuple):
    """How a derivative was computed; `explain` prints it."""

    mode: str  # "forward", "reverse" or "mixed"
    n: int  # elements of the inputs
    m: int  # elements of the outputs
    runs: int  # evaluations of f, recorded or with tangents
    sweeps: int  # reverse sweeps over the tape
    width: int  # directions per sweep or evaluation
    reason: str


def forward_cost(n: int, width: int = MAX_TANGENTS) -> float:
    """Cost of n columns in forward mode: one evaluation of f with tangents per block of `width` columns."""
    return COSTS.push * max(1, -(-n // width)) + COSTS.column * n


def reverse_cost(m: int, width: int = MAX_TANGENTS) -> float:
    """Cost of m rows in reverse mode: one sweep over an existing tape per block of `width` rows."""
    return COSTS.sweep * -(-m // width) + COSTS.row * m


def products_cost(columns: int, rows: int, shape: tuple[int, int], f: int) -> float:
    """Cost of products with `columns` and `rows` seed vectors, in scalar operations; f itself takes `f` operations."""
    c, (m, n) = SPARSE_COSTS, shape
    return (units_cost(columns, 0, f) + c.call + c.seed * n if columns else 0.0) + (
        units_cost(0, rows, f) + c.call + c.seed * m if rows else 0.0
    )


def units_cost(columns: int, rows: int, f: int) -> float:
    """Cost of a replay with `columns` tangents or, if there are none, with `rows` cotangents, in scalar operations."""
    c = SPARSE_COSTS
    return f * (c.tangents + c.tangent * columns if columns else c.cotangents + c.cotangent * rows)


def least_compressed_time(f: float, width: int, nnz: int) -> float:
    """Lower bound of the time of a compressed Jacobian in nanoseconds.

    f takes `f` nanoseconds and a row or column has up to `width` nonzeros. Each tangent is assumed to cost half an
    evaluation of f, since it multiplies and adds where f may evaluate a function.
    """
    return SPARSE_COSTS.products + SPARSE_COSTS.read * nnz + f * (1.0 + 0.5 * width)


def prefers_colouring(entries: float, colours: float) -> bool:
    """Return whether a colouring is faster than direct accumulation, given the time of both in nanoseconds."""
    return colours < MAX_COLOURED_TIME_RATIO * entries


def prefers_ndarray(sparse: float, ndarray: float) -> bool:
    """Return whether a derivative should be computed as an ndarray, given the costs of both."""
    return ndarray <= MAX_NDARRAY_COST_RATIO * (sparse + SPARSE_COSTS.array)


def is_forward_at_once(n: int, width: int = MAX_TANGENTS) -> bool:
    """Return whether forward mode costs less than recording and a single sweep, whatever the size of the output."""
    return forward_cost(n, width) <= COSTS.record + reverse_cost(1, 1)


def is_forward(n: int, m: int, width: int = MAX_TANGENTS, recorded: bool = False) -> bool:
    """Return whether n columns in forward mode cost less than m rows in reverse mode."""
    return forward_cost(n, width) < reverse_cost(m, width) + (0.0 if recorded else COSTS.record)
