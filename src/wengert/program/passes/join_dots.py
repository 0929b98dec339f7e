"""Joins products of one vector with evenly spaced parts of an array into a product of a matrix and the vector.

Input: a program; output: an equivalent one up to rounding, or the same one.
A loop over the elements of a row, as in

    for j in range(n):
        B[i, j] += A[i + 1 :, i] @ B[i + 1 :, j]

makes a product for each element, although all of them together are one product with the matrix ``B[i + 1 :]``.
The stores between them, of other elements, do not matter: all products read their parts in the array before the stores.
`join_products` joins the products of several rows further.

References
----------
Dongarra, Du Croz, Hammarling and Duff (1990), A set of level 3 basic linear algebra subprograms.
doi:10.1145/77626.79170
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wengert.program.ir.call import Call, Operand, product_of
from wengert.program.ir.ir import Listing, kind_of, overlaps, replaced
from wengert.program.ir.opcodes import Op
from wengert.program.ir.view_overlap import disjoint
from wengert.program.passes import simplify
from wengert.registry import lookup

#: minimum number of products, and of their multiplications in all: fewer are expanded into scalar code
MIN_PRODUCTS, MIN_ELEMENTS = 8, 512
#: limit on the stores between two products
MAX_STORES = 64

_FLOAT = np.dtype(float)
_TWO_OPERANDS = (Operand(0), Operand(1))


class _Dot(NamedTuple):
    """A product of two vectors: its instruction, the array that contains the second vector, and its byte offset."""

    at: int
    base: int
    offset: int


class _Run:
    """Products of one vector with parts of one array, in program order, and the stores since the first."""

    def __init__(self, code, key, first):
        self.code, (self.vector, self.length, self.stride), self.dots = code, key, [first]
        self.step = 0
        self.packed: list = []  # byte offsets of elements that were stored
        self.placed: list = []  # views that were stored

    def take(self, dot) -> bool:
        """Add a product if it belongs to the run; return whether it does."""
        last = self.dots[-1]
        step = dot.offset - last.offset
        if step == 0 or (self.step and step != self.step) or not self._follow(last.base, dot.base):
            return False
        if not self._is_untouched(dot.offset):
            return False
        self.step = step
        self.dots.append(dot)
        return True

    def _follow(self, base, v):
        """Collect the stores between two versions of an array; return whether nothing else lies between them."""
        code, op, a, b = self.code, self.code.op, self.code.a, self.code.b
        packed, placed = [], []
        for _ in range(MAX_STORES):
            if v == base:
                self.packed += packed
                self.placed += placed
                return True
            if v < base or op[v] not in (Op.PACK, Op.PLACE) or a[v] < 0:
                return False
            if op[v] == Op.PACK:
                packed.append(8 * code.packs[b[v]][0].astype(np.int64))
            else:
                placed.append(code.views[b[v]])
            v = a[v]
        return False

    def _is_untouched(self, offset):
        """Return whether no store since the first product changed the part at an offset."""
        if self.packed:
            if len(self.packed) > 1:
                self.packed = [np.concatenate(self.packed)]
            away = self.packed[0] - offset
            if ((away % self.stride == 0) & (away >= 0) & (away < self.stride * self.length)).any():
                return False
        part = offset, (self.length,), (self.stride,)
        return all(disjoint(part, view, 8) for view in self.placed)

    def view(self):
        """Return the matrix whose rows are the parts, as a view of the array before the stores."""
        first = min(self.dots[0].offset, self.dots[-1].offset)
        return first, (len(self.dots), self.length), (abs(self.step), self.stride)

    def pays(self):
        size = len(self.dots) * self.length
        return len(self.dots) >= MIN_PRODUCTS and size >= MIN_ELEMENTS and not overlaps(*self.view()[1:])


def join_dots(code: Listing) -> Listing:
    """Return the program with products of vectors joined; the same program if there are none."""
    places = np.flatnonzero((code.op == Op.CALL) & (code.type == 0))
    if len(places) < MIN_PRODUCTS:
        return code
    columns = _Columns(code)
    runs: list[_Run] = []
    latest: dict[tuple, _Run] = {}
    for i in places.tolist():
        for key, dot in _dots(columns, i, code.calls[columns.a[i]]):
            run = latest.get(key)
            if run is None or not run.take(dot):
                latest[key] = run = _Run(columns, key, dot)
                runs.append(run)
    places = _chosen(runs)
    return simplify.live(replaced(code, sorted(places), _Joiner(places))) if places else code


class _Columns:
    """The columns and tables of a program, of which a listing makes a copy at each access."""

    def __init__(self, code):
        self.listing = code
        self.op, self.a, self.b = code.op.tolist(), code.a.tolist(), code.b.tolist()
        self.packs, self.views = code.packs, code.views


def _dots(code, i, call):
    """Yield a key that products of one run share, and the product, for each operand that may be the common vector."""
    if product_of(call) is None or [*map(type, call.args)] != [Operand, Operand]:
        return  # before a comparison of arrays
    if call.args != _TWO_OPERANDS or call.operands[0] == call.operands[1]:
        return
    for fixed, moving in (call.operands, call.operands[::-1]):
        if code.op[moving] != Op.VIEW:
            continue
        base = code.a[moving]
        offset, shape, strides = code.views[code.b[moving]]
        kind, own = kind_of(code.listing, base), kind_of(code.listing, fixed)
        if len(shape) == 1 and own[:2] == (_FLOAT, shape) and kind[0] == _FLOAT and kind[2] is None and strides[0] > 0:
            yield (fixed, shape[0], strides[0]), _Dot(i, base, offset)


def _chosen(runs):
    """Return the run and the row of each product that is joined; no product is in two runs."""
    found: dict[int, tuple[_Run, int]] = {}
    for run in sorted(filter(_Run.pays, runs), key=lambda run: -len(run.dots)):
        if not any(dot.at in found for dot in run.dots):
            found.update((dot.at, (run, j)) for j, dot in enumerate(run.dots))
    return found


class _Joiner:
    """Replaces each product by an element of the joined one, which is computed at the position of the first."""

    def __init__(self, places):
        self.places = places
        self.products: dict[int, int] = {}

    def __call__(self, new, of, i):
        run, j = self.places[i]
        rows = len(run.dots)
        if id(run) not in self.products:
            matrix = new.part(int(of[run.dots[0].base]), run.view(), _FLOAT)
            call = Call(np.matmul, _TWO_OPERANDS, {}, [matrix, int(of[run.vector])], lookup(np.matmul))
            self.products[id(run)] = new.call(call, (_FLOAT, (rows,), None))
        return new.part(self.products[id(run)], (8 * (j if run.step > 0 else rows - 1 - j), (), ()), _FLOAT)
