# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Packs isomorphic scalar expressions into array instructions (superword-level parallelism).

Input: a program with scalar code, such as an unrolled loop; output: a program with array code, or the same one if that
is not estimated to be faster.
Two scalars are in the same isomorphism class if the same opcode computes them from operands of the same classes;
constants form one class, and so do the elements of an array.
A scalar never depends on another of its class, so that a class becomes one elementwise instruction on arrays.
Each operand of a class reads one array: an array of the program, or another class.
If the positions read are affine in up to four axes, the operand is a view, otherwise a gather.
A long chain of additions, ``s = s + term``, becomes a SUM over the class of its terms.

References
----------
Larsen and Amarasinghe (2000), Exploiting superword level parallelism with multimedia instruction sets.
doi:10.1145/349299.349320
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

import math

import numpy as np

from wengert.core.tape.memory cimport Block, int32s, take
from wengert.core.tape.tape cimport WG_ADD, WG_MULTIPLY, WG_NEGATIVE, WG_POW, WG_SUBTRACT
from wengert.program.ir.ir cimport (
    FLAG, IS_COMMUTATIVE, IS_ELEMENTWISE, IS_FUNCTION, SCALAR, Listing, column_operands, copied, count_uses, emit,
    has, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.program.ir.opcode_table import OPCODES
from wengert.program.passes import cost as model
from wengert.program.passes.simplify import live, needed_for

cdef enum:
    CONSTANTS = 0       # class id of constants; values without a class have -1
    MIN_MEMBERS = 8     # minimum scalars of a class that becomes an array, and minimum terms of a sum
    MAX_AXES = 4        # limit on the axes of a view
    MAX_LINEAR = 8      # classes per operand class that are searched linearly; more go to the hash table

#: minimum size of a class, and minimum length of a program, for vectorisation
MIN_CLASS_SIZE, MIN_INSTRUCTIONS = MIN_MEMBERS, 4 * MIN_MEMBERS

#: array code must take less than this fraction of the time of scalar code
cdef double MAX_COST_RATIO = 0.9

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)
cdef int POWER = OPCODES["power"]

#: exponents for which the VM computes a power without pow(), by multiplication, division or sqrt
cdef dict CHEAP_EXPONENTS = {power: i for i, power in enumerate((-1.0, 0.5, 1.0, 2.0, 3.0, 4.0))}


def vectorise_scalars(Listing code, double gain=MAX_COST_RATIO):
    """Return the program with isomorphic scalar expressions packed into arrays.

    The same program is returned unless the new one is estimated to take less than the fraction `gain` of its time.
    """
    cdef Vectoriser vectoriser
    if code.n < MIN_INSTRUCTIONS:
        return code
    total = cost(code)
    max_cost = gain * total
    vectoriser = Vectoriser(code)
    if total - max_gain(vectoriser) > 1.001 * max_cost:
        return code
    vectoriser.find_classes()
    if not vectoriser.has_arrays() or min_cost(vectoriser) > 1.001 * max_cost:
        return code
    found = live(vectoriser.run())
    return found if cost(found) < max_cost else code


def classes(Listing code):
    """Return the isomorphism classes of a program, without regard to cost.

    Returns
    -------
    listing : Listing
        The vectorised program.
    found : list of (ndarray, int)
        The value ids of each class, and the id of its array in the new program; -1 if the class stays scalar.
    in_sums : ndarray of bool
        Which values are partial sums or results of SUMs.
    """
    cdef Vectoriser vectoriser = Vectoriser(code)
    cdef Py_ssize_t i, s
    cdef Listing made
    vectoriser.find_classes()
    made = vectoriser.run()
    kept = np.frombuffer(needed_for(made, made.inputs + made.outputs, True), np.uint8)
    numbers = np.where(kept, np.cumsum(kept, dtype=np.int64) - 1, -1)  # int64, because sums of uint8 are unsigned
    in_sums = np.array([vectoriser.is_partial_sum[i] != 0 for i in range(code.n)])
    in_sums[list(vectoriser.sums)] = True
    found = []
    for s in range(1, vectoriser.class_count):
        if vectoriser.is_packed[s]:
            found.append((vectoriser.members(s), int(numbers[<int32_t>vectoriser.arrays[s][0]])))
        elif is_computed(vectoriser, vectoriser.first[s]) and not in_sums[vectoriser.first[s]]:
            found.append((vectoriser.members(s), -1))
    return live(made), found, in_sums


cdef struct IsoClass:
    int32_t op, a, b, c         # opcode of the members, and classes of their operands
    int32_t next                # list link: the next older class with the same largest operand class, 0: none
    int32_t last                # newest class whose largest operand class is this one
    int32_t count               # length of the list of classes whose largest operand class is this one


@cython.final
cdef class Vectoriser:
    cdef Listing code, found
    cdef list blocks
    cdef int32_t *class_of      # class id of each value
    cdef int32_t *place         # position of a value among the members of its class
    cdef int32_t *uses
    cdef int32_t *of            # id in the new program, -1: none yet
    cdef char *is_partial_sum   # whether a value is a partial sum inside a SUM
    cdef dict sums              # for the result of each SUM: the range of its terms in `terms`
    cdef char *is_sum           # whether a value is a key of `sums`
    cdef int32_t[::1] terms     # terms of all sums, each from the last to the first
    cdef signed char[::1] signs
    cdef IsoClass *known        # all classes, during numbering only
    cdef Block table            # hash table of the classes that are in no list, during numbering only
    cdef dict maps              # hash-consed index arrays of the new program
    cdef Py_ssize_t class_count
    cdef int32_t *first         # first member of each class, -1 for constants
    cdef int32_t *begin         # start of the members of each class in `order`
    cdef char *is_packed        # whether a class becomes an array
    cdef object order           # values sorted by class, then by id
    cdef dict arrays            # by packed class: its array in the new program, and the axes of the array

    def __cinit__(self, Listing code):
        self.code = code
        self.blocks = [take((code.n + 2) * sizeof(int32_t)) for _ in range(6)]
        self.class_of = <int32_t *>(<Block>self.blocks[0]).data
        self.place = <int32_t *>(<Block>self.blocks[1]).data
        self.uses = <int32_t *>(<Block>self.blocks[2]).data
        self.of = <int32_t *>(<Block>self.blocks[3]).data
        self.first = <int32_t *>(<Block>self.blocks[4]).data
        self.begin = <int32_t *>(<Block>self.blocks[5]).data
        self.blocks += [take(code.n + 2) for _ in range(3)]
        self.is_partial_sum = <char *>(<Block>self.blocks[6]).data
        self.is_packed = <char *>(<Block>self.blocks[7]).data
        self.is_sum = <char *>(<Block>self.blocks[8]).data
        memset(self.is_partial_sum, 0, code.n)
        memset(self.is_sum, 0, code.n)
        memset(self.uses, 0, code.n * sizeof(int32_t))
        memset(self.of, 0xff, code.n * sizeof(int32_t))
        self.sums, self.arrays, self.maps = {}, {}, {}
        count_uses(code, self.uses)

    cdef int find_classes(self) except -1:
        number_classes(self)
        find_sums(self)
        if self.sums:
            number_classes(self)
        return group_members(self)

    cdef int32_t operand(self, Py_ssize_t i, int side) noexcept:
        if side < 2 and is_swapped(self, i):
            side = 1 - side
        return self.code.as_[i] if side == 0 else self.code.bs[i] if side == 1 else self.code.cs[i]

    cdef object members(self, Py_ssize_t s):
        return self.order[self.begin[s]:self.begin[s + 1]]

    cdef inline bint is_array(self, int32_t s) noexcept:
        """Return whether a class becomes an array."""
        return s >= 0 and self.is_packed[s]

    cdef bint has_arrays(self) noexcept:
        cdef Py_ssize_t s
        for s in range(self.class_count):
            if self.is_packed[s]:
                return True
        return False

    # ------------------------------------------------------------------------------------------ the new program

    def run(self):
        cdef Py_ssize_t i
        cdef int32_t v, s
        self.found = self.code.successor()
        for i in range(self.code.n):
            s = self.class_of[i]
            if self.is_partial_sum[i]:
                continue
            if self.is_array(s):
                if i == self.first[s]:
                    self.make(s)
            elif self.is_sum[i]:
                self.of[i] = self.sum(i)
            elif self.code.ops[i] == PACK:
                self.of[i] = self.pack(i)
            elif self.code.ops[i] != LOAD:          # loads are emitted at their uses
                self.copy(i)
        self.found.inputs = [self.of[<int32_t>v] for v in self.code.inputs]
        self.found.outputs = [self.value(v) for v in self.code.outputs]
        return self.found

    cdef int32_t value(self, int32_t v) except -1:
        """Return the new id of a value; a member of a class becomes a LOAD from its array."""
        cdef int32_t s = self.class_of[v]
        if self.of[v] < 0:
            if self.is_array(s):
                self.of[v] = self.element(s, self.place[v], self.code.kinds[v])
            else:
                self.copy(v)
        return self.of[v]

    cdef int32_t element(self, int32_t s, int32_t place, int32_t kind) except -1:
        return emit(self.found, LOAD, self.arrays[s][0], place, -1, kind)

    cdef int copy(self, Py_ssize_t i) except -1:
        """Copy an instruction, after the loads of its operands."""
        cdef int32_t[3] column
        cdef int32_t v
        cdef int k
        for k in range(column_operands(self.code, i, column)):
            self.value(column[k])
        if self.code.ops[i] == PACK:
            for v in self.code.packs[self.code.bs[i]][1].tolist():
                self.value(v)
        elif self.code.ops[i] == CALL:
            for v in self.code.calls[self.code.as_[i]].operands:
                self.value(v)
        self.of[i] = copied(self.code, i, self.of, self.found)
        return 0

    # ------------------------------------------------------------------------------------------ packing classes

    cdef int make(self, int32_t s) except -1:
        """Emit the array of a class."""
        members = self.members(s)
        if self.is_sum[self.first[s]]:
            self.arrays[s] = self.make_sums(members.tolist()), (len(members),)
            return 0
        cdef list sides = [self.reading(members, side) for side in range(3)]
        cdef int32_t kind = self.code.kinds[self.first[s]]
        axes = self.axes_of(sides, len(members))
        given = [-1 if side is None else self.read(side, axes) for side in sides]
        self.arrays[s] = emit(self.found, self.code.ops[self.first[s]], given[0], given[1], given[2],
                              self.found.type_of((BOOL if kind == FLAG else FLOAT, axes, None))), axes
        return 0

    cdef tuple reading(self, members, int side):
        """Return how operand `side` of a class is read (see `places`); None if there is no such operand."""
        cdef const int32_t[::1] given = members
        cdef int32_t first = self.operand(given[0], side)
        cdef Py_ssize_t j, n = given.shape[0]
        cdef int32_t[::1] values
        if first < 0:
            return None
        values = np.empty(n, np.int32)
        for j in range(n):
            values[j] = self.operand(given[j], side)
        return self.places(values)

    cdef tuple places(self, int32_t[::1] values):
        """Return how values of one class are read.

        This is ("number", value) for a single value, ("numbers", values) for scalars that are in no array, or
        ("places", array, positions, axes of the array or None) for elements of an array.
        """
        cdef Py_ssize_t j, n = values.shape[0]
        cdef int32_t first = values[0], s = self.class_of[first]
        cdef int32_t[::1] where
        cdef bint is_one = True
        for j in range(n):
            if values[j] != first:
                is_one = False
                break
        if is_one:
            return "number", first
        where = np.empty(n, np.int32)
        if self.code.ops[first] == LOAD:
            for j in range(n):
                where[j] = self.code.bs[values[j]]
            return "places", self.value(self.code.as_[first]), np.asarray(where), None
        if self.is_array(s):
            for j in range(n):
                where[j] = self.place[values[j]]
            array, axes = self.arrays[s]
            return "places", array, np.asarray(where), axes
        return "numbers", np.asarray(values)

    cdef tuple axes_of(self, list sides, Py_ssize_t n):
        """Choose the axes of a class: those in which the positions of an operand are affine."""
        for side in sides:
            if side is not None and side[0] == "places":
                if side[3] is not None and len(side[3]) > 1 and is_whole(side[2], side[3]):
                    return side[3]
                found = lattice(side[2])
                if found is not None and len(found) > 1:
                    return found
        return (n,)

    cdef int32_t read(self, tuple side, tuple axes) except -1:
        """Emit an operand as a scalar, or as an array with these axes."""
        if side[0] == "number":
            return self.value(side[1])
        if side[0] == "numbers":
            return self.array_of(side[1], axes)
        _, array, where, own = side
        if own == axes and is_whole(where, axes):
            return array
        steps = strides_in(where, axes)
        dtype = self.found.types[self.found.kinds[<int32_t>array]][0]
        if steps is not None:
            size = dtype.itemsize
            return self.found.view(array, (int(where[0]) * size, axes, tuple([step * size for step in steps])), dtype)
        return self.gathered(array, where.reshape(axes))

    cdef int32_t array_of(self, values, tuple axes) except -1:
        """Emit an array of constants, or of scalars that are in no array."""
        cdef int32_t v
        if self.code.ops[<int32_t>values[0]] == CONST:
            given = np.array([self.code.constants[self.code.as_[v]] for v in values.tolist()]).reshape(axes)
            return self.constant_array(given)
        numbers = np.array([self.value(v) for v in values.tolist()], np.int32)
        self.found.packs.append((np.arange(len(numbers), dtype=np.int32), numbers))
        return emit(self.found, PACK, -1, len(self.found.packs) - 1, -1, self.found.type_of((FLOAT, axes, None)))

    cdef int32_t gathered(self, int32_t array, where) except -1:
        """Emit a gather from arbitrary positions of an array."""
        dtype = self.found.types[self.found.kinds[array]][0]
        return emit(self.found, GATHER, array, self.constant(where), -1,
                    self.found.type_of((dtype, where.shape, None)))

    cdef int32_t constant(self, where) except -1:
        """Emit an index array as a constant."""
        where = np.ascontiguousarray(where, np.int32)
        key = where.shape, where.tobytes()
        if key not in self.maps:
            self.found.arrays.append(where)
            self.maps[key] = emit(self.found, ARRAY, len(self.found.arrays) - 1, -1, -1,
                                  self.found.type_of((where.dtype, where.shape, None)))
        return self.maps[key]

    # ------------------------------------------------------------------------------------------ sums and packs

    cdef int32_t make_sums(self, list members) except -1:
        """Emit a class of sums, whose terms have the same classes but may differ in number."""
        cdef int32_t total = -1, part, kind = self.found.type_of((FLOAT, (len(members),), None))
        for sign, values, owners in terms_by_class(self, members):
            part = self.sums_by_owner(values, np.array(owners, np.int32), kind, len(members))
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, kind)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, kind)
        return total

    cdef int32_t sums_by_owner(self, values, owners, int32_t kind, Py_ssize_t count) except -1:
        """Emit an array with the sum of the values of each owner; all values are of one class."""
        side = self.places(values)
        if self.code.ops[<int32_t>values[0]] == CONST:
            given = np.bincount(owners, [self.code.constants[self.code.as_[<int32_t>v]] for v in values], count)
            if (given == given[0]).all():
                return self.found.constant(given[0])
            return self.constant_array(given)
        if side[0] == "number":
            times = self.constant_array(np.bincount(owners, minlength=count).astype(float))
            return emit(self.found, WG_MULTIPLY, self.value(side[1]), times, -1, kind)
        if side[0] == "places" and side[3] is not None and is_permutation(side[2], side[3]):
            where = np.empty(len(owners), np.int32)
            where[side[2]] = owners
            return emit(self.found, SCATTER, side[1], self.constant(where.reshape(side[3])), -1, kind)
        return emit(self.found, SCATTER, self.read(side, (len(values),)), self.constant(owners), -1, kind)

    cdef int32_t constant_array(self, given) except -1:
        self.found.arrays.append(given)
        return emit(self.found, ARRAY, len(self.found.arrays) - 1, -1, -1,
                    self.found.type_of((FLOAT, given.shape, None)))

    cdef int32_t sum(self, Py_ssize_t i) except -1:
        """Emit one sum, as a SUM over each class of its terms."""
        cdef int32_t total = -1, part
        for sign, values, _ in terms_by_class(self, [i]):
            part = self.sum_of(values)
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, SCALAR)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, SCALAR)
        return total

    cdef int32_t sum_of(self, values) except -1:
        cdef int32_t total = -1, v
        side = self.places(values)
        if side[0] == "places" and len(values) >= MIN_MEMBERS:
            found = lattice(side[2])
            axes = (len(values),) if found is None else found
            return emit(self.found, SUM, self.read(side, axes), -1, -1, SCALAR)
        for v in values.tolist():
            v = self.value(v)
            total = v if total < 0 else emit(self.found, WG_ADD, total, v, -1, SCALAR)
        return total

    cdef int32_t pack(self, Py_ssize_t i) except -1:
        """Emit a PACK as one store for each class of its elements."""
        cdef int32_t base = self.code.as_[i], s, v, kind = self.code.kinds[i]
        cdef dict groups = {}
        cdef list rest = []
        offsets, values = self.code.packs[self.code.bs[i]]
        dtype, shape, strides = self.code.types[kind]
        size = span_of(shape, strides, dtype.itemsize)
        base = -1 if base < 0 else self.value(base)
        if dtype != FLOAT:
            self.found.packs.append((offsets, np.array([self.value(v) for v in values.tolist()], np.int32)))
            return emit(self.found, PACK, base, len(self.found.packs) - 1, -1, kind)
        for place, v in enumerate(values.tolist()):
            groups.setdefault(self.class_of[v] if self.code.ops[v] == LOAD or self.is_array(self.class_of[v]) else -1,
                              []).append(place)
        written = []
        for s, places in groups.items():
            if s < 0 or len(places) < MIN_MEMBERS:
                rest += places
                continue
            where = offsets[places]
            side = self.places(np.ascontiguousarray(values[places]))
            axes = self.axes_to_place(side, where)
            steps = None if axes is None else strides_in(where, axes)
            view = None
            if steps is not None:
                view = int(where[0]) * 8, axes, tuple([8 * step for step in steps])
            elif side[0] != "places":
                rest += places
                continue
            else:
                axes = (len(places),)
            written.append((side, axes, where, view))
        if base < 0 and not (len(written) == 1 and not rest and len(offsets) == size and written[0][3] is not None):
            base = emit(self.found, PLACE, -1, self.found.entry(self.found.views, "view", whole_view(
                self.code.types[kind])), self.found.constant(0.0), kind)
        for side, axes, where, view in written:
            if view is None:
                base = emit(self.found, PUT, base, self.constant(where), self.read(side, axes), kind)
            else:
                base = emit(self.found, PLACE, base, self.found.entry(self.found.views, "view", view),
                            self.read(side, axes), kind)
        if rest:
            rest.sort()
            numbers = np.array([self.value(v) for v in values[rest].tolist()], np.int32)
            self.found.packs.append((np.ascontiguousarray(offsets[rest]), numbers))
            base = emit(self.found, PACK, base, len(self.found.packs) - 1, -1, kind)
        return base

    cdef tuple axes_to_place(self, tuple side, where):
        """Return axes in which both the positions read and the positions written are affine."""
        if side[0] != "places":
            return lattice(where)
        for axes in (lattice(where), lattice(side[2])):
            if axes is not None and strides_in(where, axes) is not None:
                return axes
        return None


include "isomorphism.pxi"
include "vectorise_cost.pxi"
include "index_patterns.pxi"
