"""What the modes cost: the one table by which ``mode="auto"`` and ``sparse="auto"`` choose.

``python -m benchmarks.calibrate`` measures the constants anew and prints them beside these.
"""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Constants of the cost model, in evaluations of f."""

    record: float = 1.2  # one run of f that is recorded
    sweep: float = 0.4  # one pass backwards over the list,
    row: float = 0.05  # and each direction it carries
    push: float = 1.5  # one run of f with tangents,
    column: float = 0.1  # and each direction it carries


class SparseCosts(NamedTuple):
    """Constants of the plans of sparse derivatives, which are replayed."""

    # in evaluations of f
    tangents: float = 1.0  # products with seeds of columns,
    tangent: float = 1.5  # and each
    cotangents: float = 0.8  # the same of rows
    cotangent: float = 1.9
    # in nanoseconds
    products: float = 15_000.0  # Python's part of products with the seeds of a colouring, on one side,
    read: float = 2.0  # and each nonzero that is read from them
    # in numbers that a program computes
    call: float = 50_000.0  # Python's part of products with the seeds of a colouring, on one side,
    seed: float = 27.0  # and each element of a seed
    nonzero: float = 1.7  # read from products
    array: float = 4_000.0  # a sparse array, made around its data
    zero: float = 0.8  # of an ndarray


COSTS = Costs()
SPARSE_COSTS = SparseCosts()

#: products may take this part of the time of entries: what is estimated is not known better
COLOURED = 0.8

#: an ndarray may take so many times as long as a sparse array: what is done with it next is easier
NDARRAY = 1.1

#: most tangents carried through f at once
WIDEST = 64


class Plan(NamedTuple):
    """How a derivative was computed: what `explain` prints."""

    mode: str  # "forward", "reverse" or "mixed"
    n: int  # elements of the inputs
    m: int  # elements of the outputs
    runs: int  # evaluations of f, recorded or with tangents
    sweeps: int  # passes over the list
    width: int  # directions carried at once
    reason: str


def forward_cost(n: int, width: int = WIDEST) -> float:
    """Columns by tangents: f is run anew for each `width` of them, nothing is recorded."""
    return COSTS.push * max(1, -(-n // width)) + COSTS.column * n


def reverse_cost(m: int, width: int = WIDEST) -> float:
    """Rows by sweeps, `width` at once, over a list that is recorded already."""
    return COSTS.sweep * -(-m // width) + COSTS.row * m


def products_cost(columns: int, rows: int, shape: tuple[int, int], f: int) -> float:
    """Products with seeds of columns, rows or both, in numbers computed, of which f computes `f`."""
    c, (m, n) = SPARSE_COSTS, shape
    return (units_cost(columns, 0, f) + c.call + c.seed * n if columns else 0.0) + (
        units_cost(0, rows, f) + c.call + c.seed * m if rows else 0.0
    )


def units_cost(columns: int, rows: int, f: int) -> float:
    """The same with units for seeds, all columns or all rows."""
    c = SPARSE_COSTS
    return f * (c.tangents + c.tangent * columns if columns else c.cotangents + c.cotangent * rows)


def least_by_colours(f: float, width: int, nnz: int) -> float:
    """What products take at least, in nanoseconds, if f takes `f` and a row or column has up to `width` nonzeros.

    Arithmetic on tangents is a product and a sum where f may compute a function.
    """
    return SPARSE_COSTS.products + SPARSE_COSTS.read * nnz + f * (1.0 + 0.5 * width)


def is_coloured(entries: float, colours: float) -> bool:
    """Are products with the seeds of a colouring faster than entries, by nanoseconds of both?"""
    return colours < COLOURED * entries


def is_ndarray(sparse: float, ndarray: float) -> bool:
    """Is a derivative better made as an ndarray, by the costs of both?"""
    return ndarray <= NDARRAY * (sparse + SPARSE_COSTS.array)


def is_forward_at_once(n: int, width: int = WIDEST) -> bool:
    """Are there so few variables that tangents cost less than recording and a single sweep?"""
    return forward_cost(n, width) <= COSTS.record + reverse_cost(1, 1)


def is_forward(n: int, m: int, width: int = WIDEST, recorded: bool = False) -> bool:
    """Do n columns cost less than m rows?"""
    return forward_cost(n, width) < reverse_cost(m, width) + (0.0 if recorded else COSTS.record)
