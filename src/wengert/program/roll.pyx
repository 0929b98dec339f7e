# Indices are made here, never by a user, and no division by a user's number happens in Cython code:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Loops found again: numbers that the same expression computes for many elements become one array.

Two numbers have the same *shape* if the same function computes them from numbers of the same shapes; constants have one
shape, and so have the elements of an array.
So none depends on another of its shape, and the members of a class, the numbers of one shape, are one elementwise
instruction on arrays.
What a class reads lies in one array for each operand: an array of the list, or another class.
Places that are regular, in up to four axes, are a view of it; others are gathered.
Long sums, ``s = s + term``, are sums of what the terms are in their class.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memset

import math

import numpy as np

from wengert.core.tape cimport WG_ADD, WG_MULTIPLY, WG_NEGATIVE, WG_SUBTRACT, is_cheap
from wengert.program.listing cimport FLAG, SCALAR, Listing, Room, copied, emit, names, whole_view
from wengert.program.opcodes cimport *

from wengert.program.passes import live, needed_for

cdef enum:
    CONSTANTS = 0       # the shape of constants; -1: of what is no number
    LEAST = 8           # members of a class that is worth an array, and terms of a sum
    AXES = 4            # of a view

#: so many members a class has at least, and so many instructions a list that is rolled
FEWEST, SHORTEST = LEAST, 4 * LEAST

#: nanoseconds of the machine: of an instruction on numbers, cheap or not, of one on arrays, and of each element
cdef double NUMBER = 1.8, FUNCTION = 12.0, VECTOR = 20.0, ELEMENT = 0.25, FUNCTION_ELEMENT = 2.5, MOVED_ELEMENT = 0.8
#: of the time of the list of numbers that one of arrays may take
cdef double GAIN = 0.9

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)


def rolled(Listing code, double gain=GAIN):
    """The list with arrays in place of numbers that one expression computes.

    The same list if there are none, or if the new one is thought to take more than `gain` of the time.
    """
    cdef Roll roll
    if code.n < SHORTEST:
        return code
    roll = Roll(code)
    if not roll.has_arrays():
        return code
    found = live(roll.run())
    return found if cost(found) < gain * cost(code) else code


cdef double cost(Listing code) except -1.0:
    """An estimate of the time of a run, in nanoseconds; what both lists have counts alike."""
    cdef Py_ssize_t i
    cdef double total = 0.0
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    for i in range(code.n):
        total += cost_of(code, i, sizes)
    return total


def costs(Listing code):
    """The part of each instruction in that estimate."""
    cdef Py_ssize_t i
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    return [cost_of(code, i, sizes) for i in range(code.n)]


cdef double cost_of(Listing code, Py_ssize_t i, list sizes) except -1.0:
    cdef int op = code.ops[i]
    cdef bint cheap = op >= PARTIAL or is_cheap(op, 1 << 20)
    if op == CONST or op == ARRAY or op == INPUT or op == VIEW:
        return 0.0
    if op == SUM:
        return VECTOR + ELEMENT * <double>sizes[code.kinds[code.as_[i]]]
    if op == PACK:
        return VECTOR + len(code.packs[code.bs[i]][0])
    if code.kinds[i] <= FLAG:
        return NUMBER if cheap else FUNCTION
    if op == GATHER or op == SCATTER:
        return VECTOR + MOVED_ELEMENT * <double>sizes[code.kinds[code.as_[i] if op == SCATTER else i]]
    return VECTOR + (ELEMENT if cheap else FUNCTION_ELEMENT) * <double>sizes[code.kinds[i]]


def classes(Listing code):
    """What is alike in a list, however little arrays would gain.

    Returns
    -------
    listing : Listing
        The list with arrays.
    found : list of (ndarray, int)
        The numbers of each class, and their array in the new list; -1 for those that stay numbers.
    in_sums : ndarray of bool
        Which values long sums give, one term after another.
    """
    cdef Roll roll = Roll(code)
    cdef Py_ssize_t i, s
    cdef Listing made = roll.run()
    kept = np.frombuffer(needed_for(made, made.inputs + made.outputs, True), np.uint8)
    numbers = np.where(kept, np.cumsum(kept) - 1, -1)
    in_sums = np.array([roll.inner[i] or i in roll.sums for i in range(code.n)], bool)
    found = []
    for s in range(1, roll.shapes):
        if roll.wide[s]:
            found.append((roll.members[s], int(numbers[<int32_t>roll.made[s][0]])))
        elif roll.is_computed(roll.first[s]) and not in_sums[roll.first[s]]:
            found.append((roll.members[s], -1))
    return live(made), found, in_sums


cdef struct Shape:
    int32_t number              # -1: no entry
    int32_t op, a, b, c         # of its members, and the shapes of their operands


@cython.final
cdef class Roll:
    cdef Listing code, found
    cdef list rooms
    cdef int32_t *shape         # number of the shape of each value
    cdef int32_t *place         # of a value among the members of its shape
    cdef int32_t *uses
    cdef int32_t *of            # the value in the new list, -1: not there
    cdef char *inner            # is it within a sum?
    cdef dict sums              # of the last value of a sum: its terms, as pairs (sign, value)
    cdef dict maps              # constant arrays of places in the new list
    cdef list members           # of each shape: an array of values
    cdef Py_ssize_t shapes
    cdef int32_t *first         # of each shape: a member, -1 for constants
    cdef char *wide             # of each shape: is it an array in the new list?
    cdef list made              # of each shape: its array in the new list and the axes of that; None: not made

    def __cinit__(self, Listing code):
        self.code = code
        self.rooms = [Room((code.n + 2) * sizeof(int32_t)) for _ in range(7)]
        self.shape = <int32_t *>(<Room>self.rooms[0]).data
        self.place = <int32_t *>(<Room>self.rooms[1]).data
        self.uses = <int32_t *>(<Room>self.rooms[2]).data
        self.of = <int32_t *>(<Room>self.rooms[3]).data
        self.inner = <char *>(<Room>self.rooms[4]).data
        self.first = <int32_t *>(<Room>self.rooms[5]).data
        self.wide = <char *>(<Room>self.rooms[6]).data
        memset(self.inner, 0, code.n)
        memset(self.uses, 0, code.n * sizeof(int32_t))
        memset(self.of, 0xff, code.n * sizeof(int32_t))
        self.sums = {}
        self.maps = {}
        self.count_uses()
        self.number()
        self.find_sums()
        if self.sums:
            self.number()
        self.group()

    # ------------------------------------------------------------------------------------------ shapes

    cdef int count_uses(self) except -1:
        cdef Py_ssize_t i
        cdef int32_t v
        cdef int columns
        for i in range(self.code.n):
            columns = names(self.code.ops[i])
            if columns & 1 and self.code.as_[i] >= 0:
                self.uses[self.code.as_[i]] += 1
            if columns & 2 and self.code.bs[i] >= 0:
                self.uses[self.code.bs[i]] += 1
            if columns & 4 and self.code.cs[i] >= 0:
                self.uses[self.code.cs[i]] += 1
            if self.code.ops[i] == PACK:
                for v in self.code.packs[self.code.bs[i]][1].tolist():
                    self.uses[v] += 1
            elif self.code.ops[i] == CALL:
                for v in self.code.calls[self.code.as_[i]].operands:
                    self.uses[v] += 1
        for v in self.code.outputs:
            self.uses[v] += 1
        return 0

    cdef bint is_computed(self, Py_ssize_t i) noexcept:
        """Is a number computed from numbers alone?"""
        cdef int op = self.code.ops[i]
        if self.code.kinds[i] > FLAG:
            return False
        if not (op < INPUT or op == SELECT or op == STRONG or (LESS <= op <= ISNAN)):
            return False
        return ((self.code.as_[i] < 0 or self.code.kinds[self.code.as_[i]] <= FLAG)
                and (self.code.bs[i] < 0 or self.code.kinds[self.code.bs[i]] <= FLAG)
                and (self.code.cs[i] < 0 or self.code.kinds[self.code.cs[i]] <= FLAG))

    cdef bint is_turned(self, Py_ssize_t i) noexcept:
        """Are the operands of a sum or product exchanged, so that their shapes are in order?"""
        cdef int op = self.code.ops[i]
        return ((op == WG_ADD or op == WG_MULTIPLY or op == STRONG)
                and self.shape[self.code.as_[i]] > self.shape[self.code.bs[i]])

    cdef int32_t operand(self, Py_ssize_t i, int side) noexcept:
        if side < 2 and self.is_turned(i):
            side = 1 - side
        return self.code.as_[i] if side == 0 else self.code.bs[i] if side == 1 else self.code.cs[i]

    cdef int number(self) except -1:
        """Give each number its shape."""
        cdef Py_ssize_t i, size = 1024
        cdef int32_t a, b, c
        cdef int op
        cdef Room room
        cdef dict of_sums = {}
        while size < 2 * self.code.n:
            size *= 2
        room = Room(size * sizeof(Shape))
        memset(room.data, 0xff, size * sizeof(Shape))
        self.shapes = 1
        self.first[CONSTANTS] = -1
        for i in range(self.code.n):
            op = self.code.ops[i]
            if op == CONST:
                self.shape[i] = CONSTANTS
            elif self.inner[i]:
                self.shape[i] = -1
            elif self.sums and i in self.sums:
                key = frozenset([self.shape[<int32_t>v] for _, v in self.sums[i]])
                found = of_sums.get(key)
                self.shape[i] = of_sums[key] = self.new_shape(i) if found is None else found
            elif op == LOAD:
                self.shape[i] = self.entered(<Shape *>room.data, size, i, op, self.code.as_[i], self.code.kinds[i], -1)
            elif self.is_computed(i):
                a, b, c = self.operand(i, 0), self.operand(i, 1), self.operand(i, 2)
                self.shape[i] = self.entered(<Shape *>room.data, size, i, op, -1 if a < 0 else self.shape[a],
                                             -1 if b < 0 else self.shape[b], -1 if c < 0 else self.shape[c])
            else:
                self.shape[i] = self.new_shape(i)
        return 0

    cdef inline int32_t new_shape(self, Py_ssize_t i) noexcept:
        """A shape whose first member is this value."""
        self.first[self.shapes] = <int32_t>i
        self.shapes += 1
        return <int32_t>(self.shapes - 1)

    cdef int32_t entered(self, Shape *table, Py_ssize_t size, Py_ssize_t i, int op, int32_t a, int32_t b,
                         int32_t c) noexcept:
        """The number of a shape in the table."""
        cdef uint32_t h = <uint32_t>op
        h = (h ^ <uint32_t>a) * 0x9E3779B1u
        h = (h ^ (h >> 15) ^ <uint32_t>b) * 0x85EBCA77u
        h = (h ^ (h >> 13) ^ <uint32_t>c) * 0xC2B2AE3Du
        h = (h ^ (h >> 16)) & <uint32_t>(size - 1)
        while table[h].number >= 0:
            if table[h].op == op and table[h].a == a and table[h].b == b and table[h].c == c:
                return table[h].number
            h = (h + 1) & <uint32_t>(size - 1)
        table[h] = Shape(self.new_shape(i), op, a, b, c)
        return table[h].number

    cdef int find_sums(self) except -1:
        """Sums of many terms, each of which is used for the next one only."""
        cdef Room room = Room(self.code.n * sizeof(int32_t))
        cdef int32_t *length = <int32_t *>room.data
        cdef Py_ssize_t i
        cdef int32_t v, before
        cdef list terms
        for i in range(self.code.n):
            before = self.before(i, length)
            length[i] = 0 if before == -2 else 1 if before < 0 else length[before] + 1
        for i in range(self.code.n - 1, -1, -1):
            if length[i] < LEAST - 1 or self.inner[i]:
                continue
            terms = []
            v = <int32_t>i
            while True:
                before = self.before(v, length)
                sign = -1 if self.code.ops[v] == WG_SUBTRACT else 1
                if before < 0:
                    terms += [(sign, self.code.bs[v]), (1, self.code.as_[v])]
                    break
                is_first = length[before] == 1 and terms and self.shape[before] == self.shape[<int32_t>terms[0][1]]
                terms.append((sign, self.code.bs[v] if before == self.code.as_[v] else self.code.as_[v]))
                if is_first:                                    # the first term is a sum of two itself
                    terms.append((1, before))
                    break
                v = before
                self.inner[v] = 1
            if len(terms) >= LEAST:
                self.sums[i] = terms[::-1]
        return 0

    cdef int32_t before(self, Py_ssize_t i, const int32_t *length) noexcept:
        """The sum to which a number adds a term; -1: it is the first, -2: it is no sum."""
        cdef int op = self.code.ops[i]
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i]
        cdef bint left, right
        if (op != WG_ADD and op != WG_SUBTRACT) or self.code.kinds[i] != SCALAR:
            return -2
        left = self.uses[a] == 1 and length[a] > 0
        right = op == WG_ADD and self.uses[b] == 1 and length[b] > 0
        if left and right:
            return a if length[a] >= length[b] else b
        return a if left else b if right else -1

    cdef int group(self) except -1:
        """The members of each shape, in the order of the list."""
        cdef int32_t[::1] shapes = <int32_t[:self.code.n]>self.shape
        numbers = np.asarray(shapes)
        order = np.argsort(numbers, kind="stable").astype(np.int32)
        in_order = numbers[order]
        bounds = np.searchsorted(in_order, np.arange(self.shapes + 1)).tolist()
        self.members = [order[a:b] for a, b in zip(bounds, bounds[1:])]
        places = np.empty(self.code.n, np.int32)
        places[order] = np.arange(self.code.n) - np.searchsorted(in_order, in_order)
        cdef const int32_t[::1] given = places
        cdef Py_ssize_t i
        for i in range(self.code.n):
            self.place[i] = given[i]
        self.made = [None] * self.shapes
        for i in range(self.shapes):
            self.wide[i] = i != CONSTANTS and len(self.members[i]) >= LEAST and (
                self.is_computed(self.first[i]) or self.first[i] in self.sums)
        return 0

    cdef inline bint is_array(self, int32_t s) noexcept:
        """Is a shape an array in the new list?"""
        return s >= 0 and self.wide[s]

    cdef bint has_arrays(self) noexcept:
        cdef Py_ssize_t s
        for s in range(self.shapes):
            if self.wide[s]:
                return True
        return False

    # ------------------------------------------------------------------------------------------ the new list

    def run(self):
        cdef Py_ssize_t i
        cdef int32_t v, s
        self.found = self.code.successor()
        for i in range(self.code.n):
            s = self.shape[i]
            if self.inner[i]:
                continue
            if self.is_array(s):
                if self.made[s] is None:
                    self.make(s)
            elif i in self.sums:
                self.of[i] = self.sum(self.sums[i])
            elif self.code.ops[i] == PACK:
                self.of[i] = self.pack(i)
            elif self.code.ops[i] != LOAD:          # made where they are read
                self.take(i)
        self.found.inputs = [self.of[<int32_t>v] for v in self.code.inputs]
        self.found.outputs = [self.value(v) for v in self.code.outputs]
        return self.found

    cdef int32_t value(self, int32_t v) except -1:
        """A value in the new list; a member of a class is an element of its array."""
        cdef int32_t s = self.shape[v]
        if self.of[v] < 0:
            if self.is_array(s):
                self.of[v] = self.element(s, self.place[v], self.code.kinds[v])
            else:
                self.take(v)
        return self.of[v]

    cdef int32_t element(self, int32_t s, int32_t place, int32_t kind) except -1:
        return emit(self.found, LOAD, self.made[s][0], place, -1, kind)

    cdef int take(self, Py_ssize_t i) except -1:
        """Copy an instruction."""
        cdef int columns = names(self.code.ops[i])
        cdef int32_t v
        if columns & 1 and self.code.as_[i] >= 0:
            self.value(self.code.as_[i])
        if columns & 2 and self.code.bs[i] >= 0:
            self.value(self.code.bs[i])
        if columns & 4 and self.code.cs[i] >= 0:
            self.value(self.code.cs[i])
        if self.code.ops[i] == PACK:
            for v in self.code.packs[self.code.bs[i]][1].tolist():
                self.value(v)
        elif self.code.ops[i] == CALL:
            for v in self.code.calls[self.code.as_[i]].operands:
                self.value(v)
        self.of[i] = copied(self.code, i, self.of, self.found)
        return 0

    # ------------------------------------------------------------------------------------------ classes

    cdef int make(self, int32_t s) except -1:
        """The array of a class."""
        if self.first[s] in self.sums:
            self.made[s] = self.make_sums(self.members[s].tolist()), (len(self.members[s]),)
            return 0
        cdef list sides = [self.reading(self.members[s], side) for side in range(3)]
        cdef int32_t kind = self.code.kinds[<int32_t>self.members[s][0]]
        axes = self.axes_of(sides, len(self.members[s]))
        given = [-1 if side is None else self.read(side, axes) for side in sides]
        self.made[s] = emit(self.found, self.code.ops[self.first[s]], given[0], given[1], given[2],
                            self.found.type_of((BOOL if kind == FLAG else FLOAT, axes, None))), axes
        return 0

    cdef tuple reading(self, members, int side):
        """What an operand of the members of a class is: ("number", value), ("numbers", values), ("places", ...)."""
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
        """Where values of one shape lie."""
        cdef Py_ssize_t j, n = values.shape[0]
        cdef int32_t first = values[0], s = self.shape[first]
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
            array, axes = self.made[s]
            return "places", array, np.asarray(where), axes
        return "numbers", np.asarray(values)

    cdef tuple axes_of(self, list sides, Py_ssize_t n):
        """The axes of a class: those along which what it reads is regular."""
        for side in sides:
            if side is not None and side[0] == "places":
                if side[3] is not None and len(side[3]) > 1 and is_whole(side[2], side[3]):
                    return side[3]
                found = lattice(side[2])
                if found is not None and len(found) > 1:
                    return found
        return (n,)

    cdef int32_t read(self, tuple side, tuple axes) except -1:
        """An operand as a number, or as an array with these axes."""
        if side[0] == "number":
            return self.value(side[1])
        if side[0] == "numbers":
            return self.listed(side[1], axes)
        _, array, where, own = side
        if own == axes and is_whole(where, axes):
            return array
        steps = strides_in(where, axes)
        dtype = self.found.types[self.found.kinds[<int32_t>array]][0]
        if steps is not None:
            size = dtype.itemsize
            return self.found.view(array, (int(where[0]) * size, axes, tuple([step * size for step in steps])), dtype)
        return self.gathered(array, where.reshape(axes))

    cdef int32_t listed(self, values, tuple axes) except -1:
        """An array of numbers that are no class, or of constants."""
        cdef int32_t v
        if self.code.ops[<int32_t>values[0]] == CONST:
            given = np.array([self.code.constants[self.code.as_[v]] for v in values.tolist()]).reshape(axes)
            return self.constant_array(given)
        numbers = np.array([self.value(v) for v in values.tolist()], np.int32)
        self.found.packs.append((np.arange(len(numbers), dtype=np.int32), numbers))
        return emit(self.found, PACK, -1, len(self.found.packs) - 1, -1, self.found.type_of((FLOAT, axes, None)))

    cdef int32_t gathered(self, int32_t array, where) except -1:
        """Elements of an array at any places of its memory."""
        dtype = self.found.types[self.found.kinds[array]][0]
        return emit(self.found, GATHER, array, self.constant(where), -1,
                    self.found.type_of((dtype, where.shape, None)))

    cdef int32_t constant(self, where) except -1:
        """Places as a constant of the list."""
        where = np.ascontiguousarray(where, np.int32)
        key = where.shape, where.tobytes()
        if key not in self.maps:
            self.found.arrays.append(where)
            self.maps[key] = emit(self.found, ARRAY, len(self.found.arrays) - 1, -1, -1,
                                  self.found.type_of((where.dtype, where.shape, None)))
        return self.maps[key]

    # ------------------------------------------------------------------------------------------ sums and packs

    cdef int32_t make_sums(self, list members) except -1:
        """Sums over terms of the same shapes, each of as many as it has."""
        cdef dict groups = {}
        cdef int32_t total = -1, part, kind = self.found.type_of((FLOAT, (len(members),), None))
        for number, i in enumerate(members):
            for sign, v in self.sums[i]:
                values, owners = groups.setdefault((sign, self.shape[<int32_t>v]), ([], []))
                values.append(v)
                owners.append(number)
        for (sign, s), (values, owners) in sorted(groups.items(), key=lambda item: item[0], reverse=True):
            part = self.added_up(np.array(values, dtype=np.int32), np.array(owners, dtype=np.int32), kind, len(members))
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, kind)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, kind)
        return total

    cdef int32_t added_up(self, values, owners, int32_t kind, Py_ssize_t count) except -1:
        """Values of one shape, those of each owner added up."""
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

    cdef int32_t sum(self, list terms) except -1:
        """A sum over the classes of its terms."""
        cdef dict groups = {}
        cdef int32_t total = -1, part
        for sign, v in terms:
            groups.setdefault((sign, self.shape[<int32_t>v]), []).append(v)
        for sign, s in sorted(groups, reverse=True):        # what is added comes first
            values = np.array(groups[sign, s], dtype=np.int32)
            part = self.sum_of(values)
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, SCALAR)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, SCALAR)
        return total

    cdef int32_t sum_of(self, values) except -1:
        """The sum of numbers of one shape."""
        cdef int32_t total = -1, v
        side = self.places(values)
        if side[0] == "places" and len(values) >= LEAST:
            found = lattice(side[2])
            axes = (len(values),) if found is None else found
            return emit(self.found, SUM, self.read(side, axes), -1, -1, SCALAR)
        for v in values.tolist():
            v = self.value(v)
            total = v if total < 0 else emit(self.found, WG_ADD, total, v, -1, SCALAR)
        return total

    cdef int32_t pack(self, Py_ssize_t i) except -1:
        """Elements put into an array, class by class."""
        cdef int32_t base = self.code.as_[i], s, v, kind = self.code.kinds[i]
        cdef dict groups = {}
        cdef list rest = []
        offsets, values = self.code.packs[self.code.bs[i]]
        dtype, shape, strides = self.code.types[kind]
        size = memory_of(shape, strides, dtype.itemsize)
        base = -1 if base < 0 else self.value(base)
        if dtype != FLOAT:
            self.found.packs.append((offsets, np.array([self.value(v) for v in values.tolist()], np.int32)))
            return emit(self.found, PACK, base, len(self.found.packs) - 1, -1, kind)
        for place, v in enumerate(values.tolist()):
            groups.setdefault(self.shape[v] if self.code.ops[v] == LOAD or self.is_array(self.shape[v]) else -1,
                              []).append(place)
        written = []
        for s, places in groups.items():
            if s < 0 or len(places) < LEAST:
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
        """Axes along which both what is written and where it is written are regular."""
        if side[0] != "places":
            return lattice(where)
        for axes in (lattice(where), lattice(side[2])):
            if axes is not None and strides_in(where, axes) is not None:
                return axes
        return None


# ---------------------------------------------------------------------------------------------- regular places

ctypedef fused place:
    int32_t
    int64_t


def lattice(where):
    """Axes along which places go on regularly; None if there are too many."""
    where = np.ascontiguousarray(where)
    return axes_of[int32_t](where) if where.dtype == np.int32 else axes_of[int64_t](where.astype(np.int64, copy=False))


cdef axes_of(const place[::1] at):
    cdef Py_ssize_t n = at.shape[0], apart = 1, run, line, i
    cdef int64_t step
    cdef list axes = []
    while n > 1:  # the first place of each line is a place of the next axis: these are `apart`
        step, run = at[apart] - at[0], 2
        while run < n and at[run * apart] - at[(run - 1) * apart] == step:
            run += 1
        if n % run or len(axes) == AXES:
            return None
        for line in range(run, n, run):
            for i in range(1, run):
                if at[(line + i) * apart] - at[line * apart] != i * step:
                    return None
        axes.insert(0, run)
        n //= run
        apart *= run
    return tuple(axes) or (1,)


def strides_in(where, axes):
    """Steps along the axes, None if the places are not regular there."""
    where = np.ravel(where)
    return steps_of[int32_t](where, axes) if where.dtype == np.int32 else steps_of[int64_t](
        where.astype(np.int64, copy=False), axes)


cdef steps_of(const place[::1] at, axes):
    cdef Py_ssize_t n, inner = at.shape[0], block, i, j
    cdef int64_t step
    cdef list steps = []
    for n in axes:  # blocks along an axis are the first one, moved
        block = inner // n
        step = at[block] - at[0] if n > 1 else 0
        for i in range(1, n):
            for j in range(block):
                if at[i * block + j] - at[j] != i * step:
                    return None
        steps.append(step)
        inner = block
    return tuple(steps)


cdef bint is_whole(where, tuple axes) except -1:
    """Are these all places of an array in order?"""
    cdef const int64_t[::1] at = np.ascontiguousarray(where, np.int64)
    cdef Py_ssize_t n = 1, i
    for m in axes:
        n *= m
    if at.shape[0] != n:
        return False
    for i in range(n):
        if at[i] != i:
            return False
    return True


cdef bint is_permutation(where, tuple axes) except -1:
    """Are these all places of an array, in any order?"""
    return len(where) == np.prod(axes) and (np.bincount(where, minlength=len(where)) == 1).all()


cdef memory_of(shape, strides, itemsize):
    """Elements of the memory of an array, gaps included."""
    if strides is None:
        return int(np.prod(shape, dtype=np.int64))
    return 1 + sum([(n - 1) * abs(step) for n, step in zip(shape, strides)]) // itemsize
