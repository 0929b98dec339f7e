"""Joins products of vectors with parts of one matrix into one product of matrices.

Input: a program; output: an equivalent one up to rounding, or the same one.
A loop over rows that multiplies a row or column of one array with columns of another one, as in

    for i in range(m):
        C[i, i:] = X[:, i] @ X[:, i:]

reads memory once for each row, and so does each of its adjoints.
The rows are independent, since their operands are parts of the same two values; so they are parts of one product,
``X.T @ X``, whose derivatives are two products of matrices.

Products are joined if the vectors are evenly spaced, and the joined product has at most `MAX_GROWTH` times their
multiplications.  Elements that no row reads only cost time, since their adjoints are zero.  Each element sums the same
products in another order, so the rounding error is bounded as for any implementation of the product.

References
----------
Dongarra, Du Croz, Hammarling and Duff (1990), A set of level 3 basic linear algebra subprograms.
doi:10.1145/77626.79170
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from wengert.program.ir.call import Call, Operand, product_of
from wengert.program.ir.ir import Listing, c_strides, kind_of, replaced
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify

MIN_PRODUCTS = 8  # minimum number of rows for which one product outweighs the memory of its unread elements
MIN_ELEMENTS = 512  # minimum size of a part of the matrix, on average: small products are expanded into scalar code
MAX_GROWTH = 3

_FLOAT = np.dtype(float)
_TWO_OPERANDS = (Operand(0), Operand(1))


class _Row(NamedTuple):
    """A product ``vector @ matrix``: byte offsets of both in the arrays that contain them."""

    at: int  # number of the instruction
    vector: int  # offset
    matrix: int  # offset
    columns: int


def join_products(code: Listing) -> Listing:
    """Return the program with products joined; the same program if there are none."""
    if not any(len(shape) == 2 and math.prod(shape) >= MIN_ELEMENTS for _, shape, _ in code.types):
        return code
    places = np.flatnonzero(code.op == Op.CALL)
    if len(places) < MIN_PRODUCTS:
        return code
    groups: dict[tuple, list[_Row]] = {}
    for i, number in zip(places.tolist(), code.a[places].tolist()):
        found = _row(code, i, code.calls[number])
        if found is not None:
            groups.setdefault(found[0], []).append(found[1])
    joined = [made for key, rows in groups.items() if (made := _joined(key, rows)) is not None]
    return _rewritten(code, joined) if joined else code


def _row(code, i, call) -> tuple[tuple, _Row] | None:
    """Return the key that products must share to be joined, and the row of product i; None for other calls."""
    if product_of(call) not in ("matmul", "dot") or [type(x) for x in call.args] != [Operand, Operand]:
        return None
    if call.args != _TWO_OPERANDS:
        return None
    parts = [_part(code, v) for v in call.operands]
    if None in parts:
        return None
    (left, right), is_left = parts, len(parts[0][2]) == 1
    vector, matrix = (left, right) if is_left else (right, left)
    if len(vector[2]) != 1 or len(matrix[2]) != 2:
        return None
    (k, n), (along, across) = (matrix[2:] if is_left else (matrix[2][::-1], matrix[3][::-1]))
    if k < 2 or n < 1 or min(along, across, vector[3][0]) <= 0:
        return None
    key = vector[0], vector[3][0], matrix[0], along, across, k
    return key, _Row(i, vector[1], matrix[1], n)


def _part(code, v) -> tuple[int, int, tuple, tuple] | None:
    """Return the array that v is a part of, with offset, shape and strides of v; None if it is not of float64."""
    dtype, shape, strides = kind_of(code, v)
    if dtype != _FLOAT or not shape:
        return None
    if code.op[v] == Op.VIEW:
        base = int(code.a[v])
        kind = kind_of(code, base)
        return (base, *code.views[code.b[v]]) if kind[0] == _FLOAT and kind[2] is None else None
    return (int(v), 0, shape, c_strides(shape, 8)) if strides is None else None


class _Joined(NamedTuple):
    """The rows of one joined product, in the order of their vectors, and the views that are its factors."""

    rows: list[_Row]
    sources: tuple[int, int]
    factors: tuple[Any, Any]


def _joined(key, rows) -> _Joined | None:
    """Return the product of the rows of a group, if they are evenly spaced and it pays."""
    vector, along_vector, matrix, along, across, k = key
    rows = sorted(rows, key=lambda row: row.vector)
    if len(rows) < MIN_PRODUCTS:
        return None
    steps = {after.vector - before.vector for before, after in itertools.pairwise(rows)}
    start = min(row.matrix for row in rows)
    if len(steps) != 1 or 0 in steps or any((row.matrix - start) % across for row in rows):
        return None
    columns = max((row.matrix - start) // across + row.columns for row in rows)
    if across < along < columns * across:  # parts of different rows of the array
        return None
    used = sum(row.columns for row in rows)
    if len(rows) * columns > MAX_GROWTH * used or k * used < MIN_ELEMENTS * len(rows):
        return None
    left = rows[0].vector, (len(rows), k), (steps.pop(), along_vector)
    return _Joined(rows, (vector, matrix), (left, (start, (k, columns), (along, across))))


def _rewritten(code, joined):
    """Return the program that computes each joined product at the position of its first row."""
    places = {row.at: (number, j) for number, each in enumerate(joined) for j, row in enumerate(each.rows)}
    products: dict[int, int] = {}

    def part(new, of, i):
        number, j = places[i]
        each = joined[number]
        if number not in products:
            products[number] = _product(code, new, of, each, i)
        row, (_, (_, columns), (_, across)) = each.rows[j], each.factors[1]
        offset = 8 * (j * columns + (row.matrix - each.factors[1][0]) // across)
        return new.part(products[number], (offset, (row.columns,), (8,)), _FLOAT)

    return simplify.live(replaced(code, sorted(places), part))


def _product(code, new, of, each, i):
    """Append the product of the factors, by the function that instruction i called."""
    factors = [new.part(int(of[v]), view, _FLOAT) for v, view in zip(each.sources, each.factors)]
    like = code.calls[code.a[i]]
    shape = each.factors[0][1][0], each.factors[1][1][1]
    return new.call(Call(like.compute, _TWO_OPERANDS, {}, factors, like.row), (_FLOAT, shape, None))
