"""Equations and their Jacobian as programs of one array, for Newton's method.

Input: the program of equations F(x, leaves).  Output: programs of the array ``z = [x, leaves]``: one of F, as a 1-D
array, and one of the nonzeros of its Jacobian in x; and the pattern of the Jacobian.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
from typing import Any

import numpy as np

from wengert.program.banded import MAX_BAND, MIN_SIZE
from wengert.program.derivatives import NotDerivable
from wengert.program.integration.pattern import Pattern
from wengert.program.ir.ir import Listing, kind_of, whole_view
from wengert.program.ir.opcodes import Op
from wengert.program.jacobian import accumulate
from wengert.program.jacobian.expand_calls import expand
from wengert.program.passes import pipeline, scalarise, simplify
from wengert.program.passes.batching import batch_program
from wengert.program.program import Program
from wengert.program.roots.lanes import Lanes
from wengert.program.roots.linear import Linear
from wengert.program.signature import Form, Result, Slot
from wengert.program.swept import Stacked

_FLOAT = np.dtype(float)
_SCALAR = _FLOAT, (), None

#: maximum number of unknowns if the Jacobian is neither banded nor sparse
MAX_DENSE_UNKNOWNS = 500

#: the pattern of a small Jacobian is used from this number of unknowns, and up to this part of all elements
MIN_PATTERNED_UNKNOWNS, MAX_PART = 8, 0.5

#: up to this bandwidth, banded factors are always faster than others
MAX_NARROW = 16

#: bands of up to this width are faster than dense factors, if the matrix has at least twice as many columns
MIN_NARROW = 4

#: sparse factors are faster than banded ones if they take at most this fraction of their multiplications
MAX_PART_OF_BAND = 0.25

#: maximum number of systems that one run of a program evaluates
MAX_LANES = 128

#: maximum number of unknowns of systems that are solved in parallel lanes: their Jacobians have to fit in a cache
MAX_LANE_UNKNOWNS = 16


class System:
    """The programs of equations and of their Jacobian.

    Parameters
    ----------
    program : Program
        Its inputs are the unknowns, an array or a scalar, and the leaves; its output has the shape of the unknowns.

    Attributes
    ----------
    size : int
        Number of unknowns and of elements of all leaves.
    nonzeros : Listing or None
        The IR of the nonzeros of the Jacobian; None if this takes several runs of a VM.
    linear : Linear
        Equations with the Jacobian.
    value, slopes : Program
        The programs of ``z`` for F and for the nonzeros; `slopes` is None if `nonzeros` is.
    """

    def __init__(self, program: Program):
        self.program = program
        code = program._listing
        self.shapes = [kind_of(code, v)[1] for v in code.inputs]
        self.size = sum(map(math.prod, self.shapes))
        self.nonzeros, self.linear = _nonzeros(program, math.prod(self.shapes[0]))
        self.value = self._joined("value", program._listing)
        self.slopes = None if self.nonzeros is None else self._joined("Jacobian", self.nonzeros)

    def _joined(self, word, code):
        """Return `code` as a program of ``z`` with a 1-D output."""
        made = Listing()
        z = made.input((_FLOAT, (self.size,), None))
        starts = itertools.accumulate(map(math.prod, self.shapes), initial=0)
        (y,) = _inlined(made, code, [made.block(z, start, shape) for start, shape in zip(starts, self.shapes)])
        shape = kind_of(made, y)[1]
        made.outputs = [made.place(-1, whole_view((_FLOAT, shape, None)), y, (_FLOAT, (math.prod(shape),), None))]
        return self._program(word, made, [np.concatenate([np.ravel(x) for x in self.program._example])])

    def _program(self, word, code, example):
        program = self.program
        name = f"{word} of {program._name}"
        found = Program(name, code, Form(tuple(example), {}), Result(Slot(0)), program._exact, example)
        found._disabled, found._tier, found._keeps_arrays = program._disabled, program._tier, program._keeps_arrays
        return found

    @property
    def is_small(self) -> bool:
        """Whether there are few equations, with a dense Jacobian, and the program is not an exact one."""
        return self.linear.is_dense and self.dense is not None

    @functools.cached_property
    def dense(self) -> tuple[Listing, Linear] | None:
        """The IR of all elements of the Jacobian and equations with them, for few equations that may be rounded."""
        n = self.linear.n
        if n > MAX_LANE_UNKNOWNS or self.program._exact or self.nonzeros is None:
            return None
        return (self.nonzeros, self.linear) if self.linear.is_dense else _dense(self.program, n)

    def lanes(self, differs: tuple, count: int, has_slopes: bool = True) -> Lanes | None:
        """Return lanes for systems whose leaves differ where `differs` is true; None for larger or unusual systems.

        Without `has_slopes` they compute no Jacobians.
        """
        n, width = self.linear.n, min(count, MAX_LANES)
        if self.dense is None:
            return None
        key = differs, width, has_slopes
        kept = self.program._memoised(("lanes", *key), list)
        if not kept:
            program = self.program._memoised(("many", *key), lambda: self._many(*key))
            return None if program is None else Lanes(program, n, width)
        return kept.pop()

    def give(self, lanes: Lanes, differs: tuple, has_slopes: bool = True) -> None:
        """Take back lanes that were used without an error."""
        if lanes.settle():
            self.program._memoised(("lanes", differs, lanes.width, has_slopes), list).append(lanes)

    def arranged(self, count: int, x: np.ndarray, leaves: tuple) -> tuple:
        """Return which leaves differ between systems, a row of x and these per system, and shared leaves or None."""
        differs = tuple(np.ndim(leaf) > len(shape) for leaf, shape in zip(leaves, self.shapes[1:]))
        columns = [np.reshape(x, (-1, self.linear.n))]
        columns += [np.reshape(leaf, (count, -1)) for leaf, each in zip(leaves, differs) if each]
        rows = np.empty((count, sum(column.shape[1] for column in columns)))
        place = 0
        for column in columns:
            rows[:, place : place + column.shape[1]] = column
            place += column.shape[1]
        shared = [np.ravel(leaf) for leaf, each in zip(leaves, differs) if not each]
        return differs, rows, np.concatenate(shared) if shared else None

    def _many(self, differs, width, has_slopes):
        """Return the batched program for `Lanes`; None if batching would take a call for each lane."""
        one, vectors = self._scalar_code(differs, has_slopes)
        k, options = vectors[0].size, pipeline.Options(disabled=self.program._disabled)
        examples = [*vectors[0], *vectors[1:]]
        many = batch_program(one, range(k), width, examples)
        if len(many.calls) > len(one.calls):
            return None
        made = Listing()
        vectors[0] = np.repeat(vectors[0][:, None], width, axis=1)
        first, *rest = [made.input((_FLOAT, x.shape, None)) for x in vectors]
        outputs = _inlined(made, many, [*[made.block(first, width * i, (width,)) for i in range(k)], *rest])
        kind = _FLOAT, (len(outputs), width), None
        found = made.constant_array(np.zeros(kind[1]))
        for i, y in enumerate(outputs):
            found = made.place(found, (8 * width * i, (width,), (8,)), y, kind)
        made.outputs = [found]
        made = pipeline.run("derivative", made, options).code
        return self._program("roots", made, vectors)

    def _scalar_code(self, differs, has_slopes):
        """Return the IR of the elements of F, and of J if `has_slopes`.

        They are functions of the scalars that differ and of a vector of the others.
        """
        is_shared = [False, *(not x for x in differs)]
        examples: list = [[], []]
        for shared, x in zip(is_shared, self.program._example):
            examples[shared].append(np.ravel(x))
        vectors = [np.concatenate(x) for x in examples if x]
        k, one = vectors[0].size, Listing()
        scalars = [one.input(_SCALAR) for _ in range(k)]
        rest = [one.input((_FLOAT, (x.size,), None)) for x in vectors[1:]]
        given, places = [], [0, 0]
        for shared, shape in zip(is_shared, self.shapes):
            size, place = math.prod(shape), places[shared]
            places[shared] += size
            if shared:
                given.append(one.block(rest[0], place, shape))
            elif not shape:
                given.append(scalars[place])
            else:
                given.append(one.block(_packed(one, scalars[place : place + size]), 0, shape))
        outputs = []
        for code in (self.program._listing, self.dense[0])[: 1 + has_slopes]:
            (y,) = _inlined(one, code, given)
            shape = kind_of(one, y)[1]
            outputs += [one.add(Op.LOAD, _SCALAR, y, i) for i in range(math.prod(shape))] if shape else [y]
        one.outputs = outputs
        one = simplify.simplified(scalarise.replace_small_arrays(expand(one)[0]), False)
        return one, vectors

    def inputs(self, z: np.ndarray) -> list[Any]:
        """Split the array ``z`` into the inputs of the program."""
        found, place = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            found.append(z[place : place + size].reshape(shape).copy() if shape else float(z[place]))
            place += size
        return found

    def dense_jacobian(self, z: np.ndarray) -> Any:
        """Return the elements of the Jacobian, or an int if a guard fails."""
        found = self.program.jacobian()._try_execute(self.inputs(z))
        return found if type(found) is int else np.ravel(found[0])


def _inlined(code, other, inputs):
    """Append a program with these inputs, which are arrays in C order, and return its outputs."""
    return code.inline(other, [code.in_layout(inputs[int(other.a[v])], kind_of(other, v)) for v in other.inputs])


def _nonzeros(program, n):
    """Return the IR of the nonzeros of the Jacobian, or None, and the `Linear` that solves with them."""
    if n >= MIN_SIZE and not program._exact and "accumulate" not in program._disabled:
        code, y = program._differentiable("jacobian")
        try:
            found = accumulate.entries(code, code.inputs[0], y, program._example)
        except accumulate.Refused:
            pass
        else:
            linear = _structured(n, np.repeat(np.arange(n), np.diff(found.indptr)), np.asarray(found.indices))
            if n <= MAX_DENSE_UNKNOWNS or linear.is_banded or linear.pattern is not None:
                return found.code, linear
    if n > MAX_DENSE_UNKNOWNS:
        raise NotDerivable(
            f"{n} equations whose Jacobian is not sparse: more than {MAX_DENSE_UNKNOWNS} are not solved within programs"
        )
    found = _dense(program, n) or (None, Linear(n))
    return found if found[0] is None or program._exact else _without_zeros(found[0], n) or found


def _dense(program, n):
    """Return the IR of all elements of the Jacobian and the `Linear` with them; None if this takes several runs."""
    jacobian = program.jacobian()
    return None if isinstance(jacobian, Stacked) else (jacobian._listing, Linear(n))


def _without_zeros(code, n):
    """Return the IR of the nonzeros and the `Linear` of a Jacobian that is packed from few scalars; otherwise None."""
    (y,) = code.outputs
    if n < MIN_PATTERNED_UNKNOWNS or code.op[y] != Op.PACK or code.a[y] >= 0:
        return None
    places, values = code.packs[int(code.b[y])]
    if len(places) > MAX_PART * n * n:
        return None
    order = np.argsort(places)
    scalars, made = copy.copy(code), Listing()
    scalars.outputs = values[order].tolist()
    found = made.inline(scalars, [made.input(kind_of(code, v)) for v in code.inputs])
    made.outputs = [_packed(made, found)]
    return made, _structured(n, *np.divmod(places[order], n))


def _packed(code, scalars):
    """Return an array of scalars."""
    code.packs.append((np.arange(len(scalars), dtype=np.int32), np.array(scalars, np.int32)))
    return code.add(Op.PACK, (_FLOAT, (len(scalars),), None), -1, len(code.packs) - 1)


def _structured(n, rows, columns):
    """Return the `Linear` of a pattern: banded, sparse or dense, whichever is estimated to be fastest."""
    below, above = int(np.max(rows - columns, initial=0)), int(np.max(columns - rows, initial=0))
    is_banded = below + above <= max(MAX_BAND * n, min(MIN_NARROW, n // 2))
    if is_banded and below + above <= MAX_NARROW:
        return Linear(n, rows, columns, True)
    pattern = Pattern(n, rows, columns)
    if is_banded:
        is_sparse = pattern.multiplications < MAX_PART_OF_BAND * n * below * (below + above)
    else:
        is_sparse = pattern.is_sparse
    return Linear(n, rows, columns, is_banded and not is_sparse, is_sparse)
