# Indices are made here, never by a user, and no division by a user's number happens in Cython code:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Packs isomorphic scalar expressions into array instructions (superword-level parallelism).

Input: a program with scalar code, as an unrolled loop leaves it; output: one with arrays where that is faster.
Two scalars are in the same isomorphism class, called `shape` below, if the same function computes them from scalars of
the same classes; constants form one class, and so do the elements of an array.
No scalar depends on another of its class, so that a class becomes one elementwise instruction on arrays.
Each operand of a class lies in one array: an array of the program, or another class.
Positions that are regular in up to four axes are a view of it; others are gathered.
A long sum, ``s = s + term``, becomes a sum over the class of its terms.

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
    FLAG, IS_COMMUTATIVE, IS_ELEMENTWISE, IS_FUNCTION, SCALAR, Listing, copied, emit, has, names, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.program.ir.opcode_table import OPCODES
from wengert.program.passes import cost as model
from wengert.program.passes.simplify import live, needed_for

cdef enum:
    CONSTANTS = 0       # the isomorphism class of constants; -1: of values that are no scalars
    MIN_MEMBERS = 8     # scalars of a class that become an array, and terms of a sum
    MAX_AXES = 4        # of a view
    MAX_LINEAR = 8      # classes that are searched one by one; more by their hash

#: members of a class, and instructions of a program, from which it is vectorised
FEWEST, SHORTEST = MIN_MEMBERS, 4 * MIN_MEMBERS

# nanoseconds
cdef double NUMBER = model.SCALAR, FUNCTION = model.SCALAR_FUNCTION, VECTOR = model.VECTOR, ELEMENT = model.ELEMENT
cdef double FUNCTION_ELEMENT = model.ELEMENT_FUNCTION, MOVED_ELEMENT = model.ELEMENT_MOVED
#: share of the time of scalar code that array code may take
cdef double GAIN = 0.9

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)
cdef int POWER = OPCODES["power"]

#: exponents with which a power is a multiplication or two, or a root, in the machine
cdef dict EXPONENTS = {power: i for i, power in enumerate((-1.0, 0.5, 1.0, 2.0, 3.0, 4.0))}


def rolled(Listing code, double gain=GAIN):
    """The list with arrays in place of numbers that one expression computes.

    The same list if there are none, or if the new one is thought to take more than `gain` of the time.
    """
    cdef Roll roll
    if code.n < SHORTEST:
        return code
    total = cost(code)
    most = gain * total
    roll = Roll(code)
    if total - roll.greatest_gain() > 1.001 * most:
        return code
    roll.find_classes()
    if not roll.has_arrays() or roll.least_cost() > 1.001 * most:
        return code
    found = live(roll.run())
    return found if cost(found) < most else code


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


cdef inline double number_cost(int op) noexcept:
    """Nanoseconds of an instruction on numbers."""
    return FUNCTION if has(op, IS_FUNCTION) else NUMBER


cdef double cost_of(Listing code, Py_ssize_t i, list sizes) except -1.0:
    cdef int op = code.ops[i]
    if op == CONST or op == ARRAY or op == INPUT or op == VIEW:
        return 0.0
    if op == SUM:
        return VECTOR + ELEMENT * <double>sizes[code.kinds[code.as_[i]]]
    if op == PACK:
        return VECTOR + len(code.packs[code.bs[i]][0])
    if code.kinds[i] <= FLAG:
        return number_cost(op)
    if op == GATHER or op == SCATTER:
        return VECTOR + MOVED_ELEMENT * <double>sizes[code.kinds[code.as_[i] if op == SCATTER else i]]
    return VECTOR + (ELEMENT if number_cost(op) == NUMBER else FUNCTION_ELEMENT) * <double>sizes[code.kinds[i]]


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
    cdef Listing made
    roll.find_classes()
    made = roll.run()
    kept = np.frombuffer(needed_for(made, made.inputs + made.outputs, True), np.uint8)
    numbers = np.where(kept, np.cumsum(kept, dtype=np.int64) - 1, -1)  # its own dtype is unsigned
    in_sums = np.array([roll.inner[i] != 0 for i in range(code.n)])
    in_sums[list(roll.sums)] = True
    found = []
    for s in range(1, roll.shapes):
        if roll.wide[s]:
            found.append((roll.members(s), int(numbers[<int32_t>roll.made[s][0]])))
        elif roll.is_computed(roll.first[s]) and not in_sums[roll.first[s]]:
            found.append((roll.members(s), -1))
    return live(made), found, in_sums


cdef struct Shape:
    int32_t op, a, b, c         # of its members, and the shapes of their operands
    int32_t next                # one more of which the largest of a, b and c is the same, 0: none
    int32_t last                # of those of which it is the largest: the one entered last
    int32_t count               # and how many there are


@cython.final
cdef class Roll:
    cdef Listing code, found
    cdef list rooms
    cdef int32_t *shape         # number of the shape of each value
    cdef int32_t *place         # of a value among the members of its shape
    cdef int32_t *uses
    cdef int32_t *of            # the value in the new list, -1: not there
    cdef char *inner            # is it within a sum?
    cdef dict sums              # of the last value of a sum: where its terms begin and end
    cdef char *is_sum           # is it one of these?
    cdef int32_t[::1] terms     # of all sums, those of each from the last to the first
    cdef signed char[::1] signs
    cdef Shape *known           # while shapes are numbered: all of them,
    cdef Block table             # and those that are found by a hash
    cdef dict maps              # constant arrays of places in the new list
    cdef Py_ssize_t shapes
    cdef int32_t *first         # of each shape: a member, -1 for constants
    cdef int32_t *begin         # of each shape: where its members begin in `order`
    cdef char *wide             # of each shape: is it an array in the new list?
    cdef object order           # values by shape, each in the order of the list
    cdef dict made              # of a shape: its array in the new list and the axes of that

    def __cinit__(self, Listing code):
        self.code = code
        self.rooms = [take((code.n + 2) * sizeof(int32_t)) for _ in range(6)]
        self.shape = <int32_t *>(<Block>self.rooms[0]).data
        self.place = <int32_t *>(<Block>self.rooms[1]).data
        self.uses = <int32_t *>(<Block>self.rooms[2]).data
        self.of = <int32_t *>(<Block>self.rooms[3]).data
        self.first = <int32_t *>(<Block>self.rooms[4]).data
        self.begin = <int32_t *>(<Block>self.rooms[5]).data
        self.rooms += [take(code.n + 2) for _ in range(3)]
        self.inner = <char *>(<Block>self.rooms[6]).data
        self.wide = <char *>(<Block>self.rooms[7]).data
        self.is_sum = <char *>(<Block>self.rooms[8]).data
        memset(self.inner, 0, code.n)
        memset(self.is_sum, 0, code.n)
        memset(self.uses, 0, code.n * sizeof(int32_t))
        memset(self.of, 0xff, code.n * sizeof(int32_t))
        self.sums = {}
        self.made = {}
        self.maps = {}
        self.count_uses()

    cdef int find_classes(self) except -1:
        self.number()
        self.find_sums()
        if self.sums:
            self.number()
        return self.group()

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
        if not has(op, IS_ELEMENTWISE):
            return False
        return ((self.code.as_[i] < 0 or self.code.kinds[self.code.as_[i]] <= FLAG)
                and (self.code.bs[i] < 0 or self.code.kinds[self.code.bs[i]] <= FLAG)
                and (self.code.cs[i] < 0 or self.code.kinds[self.code.cs[i]] <= FLAG))

    cdef bint is_turned(self, Py_ssize_t i) noexcept:
        """Are the operands of a sum or product exchanged, so that their shapes are in order?"""
        cdef int op = self.code.ops[i]
        return (has(op, IS_COMMUTATIVE)
                and self.shape[self.code.as_[i]] > self.shape[self.code.bs[i]])

    cdef int32_t exponent(self, Py_ssize_t i) except 0:
        """A negative number for each exponent that makes a power cheap: beside others it would be an array."""
        cdef int32_t b = self.code.bs[i]
        if (self.code.ops[i] != WG_POW and self.code.ops[i] != POWER) or self.code.ops[b] != CONST:
            return -1
        return -2 - <int32_t>EXPONENTS.get(self.code.constants[self.code.as_[b]], -1)

    cdef int32_t operand(self, Py_ssize_t i, int side) noexcept:
        if side < 2 and self.is_turned(i):
            side = 1 - side
        return self.code.as_[i] if side == 0 else self.code.bs[i] if side == 1 else self.code.cs[i]

    cdef int number(self) except -1:
        """Give each number its shape."""
        cdef Py_ssize_t i
        cdef int32_t a, b, c
        cdef int op
        cdef dict of_sums = {}
        cdef Block entries = take((self.code.n + 1) * sizeof(Shape))
        cdef Block stamps = take((self.code.n + 2 if self.sums else 0) * sizeof(int32_t))
        memset(stamps.data, 0xff, (self.code.n + 2 if self.sums else 0) * sizeof(int32_t))
        self.known = <Shape *>entries.data
        self.table = None
        self.shapes = 0
        self.new_shape(-1)
        for i in range(self.code.n):
            op = self.code.ops[i]
            if op == CONST:
                self.shape[i] = CONSTANTS
            elif self.inner[i]:
                self.shape[i] = -1
            elif self.is_sum[i]:
                self.shape[i] = self.shape_of_sum(i, <int32_t *>stamps.data, of_sums)
            elif op == LOAD:
                a = self.shape[self.code.as_[i]]
                self.shape[i] = self.entered(i, op, a, self.code.kinds[i], -1, a)
            elif self.is_computed(i):
                a, b, c = self.operand(i, 0), self.operand(i, 1), self.operand(i, 2)
                a = -1 if a < 0 else self.shape[a]
                b = -1 if b < 0 else self.shape[b]
                c = self.exponent(i) if c < 0 else self.shape[c]
                self.shape[i] = self.entered(i, op, a, b, c, max(CONSTANTS, a, b, c))
            else:
                self.shape[i] = self.new_shape(i)
        self.known, self.table = NULL, None
        return 0

    cdef inline int32_t new_shape(self, Py_ssize_t i) noexcept:
        """A shape whose first member is this value."""
        cdef Shape *new = self.known + self.shapes
        new.op = -1
        new.last = new.count = 0
        self.first[self.shapes] = <int32_t>i
        self.shapes += 1
        return <int32_t>(self.shapes - 1)

    cdef int32_t entered(self, Py_ssize_t i, int op, int32_t a, int32_t b, int32_t c, int32_t largest) except -1:
        """The number of a shape: of what is computed of the newest shape there is little, of others there is a table.
        """
        cdef Shape *known = self.known
        cdef int32_t k = known[largest].last, found
        while k > 0:
            if known[k].op == op and known[k].a == a and known[k].b == b and known[k].c == c:
                return k
            k = known[k].next
        if known[largest].count == MAX_LINEAR:
            found = self.in_table(op, a, b, c)
            if found >= 0:
                return found
        k = self.new_shape(i)
        known[k].op, known[k].a, known[k].b, known[k].c = op, a, b, c
        if known[largest].count < MAX_LINEAR:
            known[k].next = known[largest].last
            known[largest].last = k
            known[largest].count += 1
        return k

    cdef int32_t in_table(self, int op, int32_t a, int32_t b, int32_t c) except -2:
        """The number of a shape in the table; -1: it is new, and is now there."""
        cdef uint32_t h = <uint32_t>op, size = 1024
        cdef int32_t *table
        cdef Shape *known = self.known
        cdef int32_t k
        while size < 2 * self.code.n:
            size *= 2
        if self.table is None:
            self.table = take(size * sizeof(int32_t))
            memset(self.table.data, 0, size * sizeof(int32_t))
        table = <int32_t *>self.table.data
        h = (h ^ <uint32_t>a) * 0x9E3779B1u
        h = (h ^ (h >> 15) ^ <uint32_t>b) * 0x85EBCA77u
        h = (h ^ (h >> 13) ^ <uint32_t>c) * 0xC2B2AE3Du
        h = (h ^ (h >> 16)) & (size - 1)
        while table[h]:
            k = table[h]
            if known[k].op == op and known[k].a == a and known[k].b == b and known[k].c == c:
                return k
            h = (h + 1) & (size - 1)
        table[h] = <int32_t>self.shapes
        return -1

    cdef int find_sums(self) except -1:
        """Sums of many terms, each of which is used for the next one only."""
        cdef Block room = take(self.code.n * sizeof(int32_t))
        cdef int32_t *length = <int32_t *>room.data
        cdef Py_ssize_t i, start, m = 0
        cdef int32_t v, before
        cdef int32_t[::1] terms
        cdef signed char[::1] signs
        cdef bint is_first, is_any = False
        for i in range(self.code.n):
            before = self.before(i, length)
            length[i] = 0 if before == -2 else 1 if before < 0 else length[before] + 1
            is_any |= length[i] >= MIN_MEMBERS - 1
        if not is_any:
            return 0
        self.terms = int32s(2 * self.code.n)
        self.signs = np.empty(2 * self.code.n, np.int8)
        terms, signs = self.terms, self.signs
        for i in range(self.code.n - 1, -1, -1):
            if length[i] < MIN_MEMBERS - 1 or self.inner[i]:
                continue
            start, v = m, <int32_t>i
            while True:
                before = self.before(v, length)
                signs[m] = -1 if self.code.ops[v] == WG_SUBTRACT else 1
                if before < 0:
                    terms[m], terms[m + 1], signs[m + 1] = self.code.bs[v], self.code.as_[v], 1
                    m += 2
                    break
                is_first = length[before] == 1 and m > start and self.shape[before] == self.shape[terms[start]]
                terms[m] = self.other_term(v, before)
                m += 1
                if is_first:                                    # the first term is a sum of two itself
                    terms[m], signs[m] = before, 1
                    m += 1
                    break
                v = before
                self.inner[v] = 1
            if m - start >= MIN_MEMBERS:
                self.sums[i] = start, m
                self.is_sum[i] = 1
        return 0

    cdef int32_t shape_of_sum(self, Py_ssize_t i, int32_t *stamps, dict known) except -1:
        """The shape of sums whose terms have these shapes, in whatever order and number.

        `known` are those met so far, by a hash; `stamps` says of each shape in which sum it was met last.
        """
        cdef Py_ssize_t j, start, stop
        cdef uint32_t s, hash = 0, count = 0
        start, stop = self.sums[i]
        for j in range(start, stop):
            s = <uint32_t>(self.shape[self.terms[j]] + 1)
            if stamps[s] != i:
                stamps[s] = <int32_t>i
                count += 1
                hash += (s ^ (s >> 15)) * 0x9E3779B1u
        alike = known.setdefault((hash, count), [])
        for other in alike:
            start, stop = self.sums[other]
            for j in range(start, stop):
                if stamps[self.shape[self.terms[j]] + 1] != i:
                    break
            else:                   # as many shapes, and all of them here
                return self.shape[<Py_ssize_t>other]
        alike.append(i)
        return self.new_shape(i)

    cdef list alike(self, list members):
        """The terms of some sums by sign and shape, what is added first: the sign, the terms, the numbers of the sums.
        """
        cdef Py_ssize_t j, start, stop, number
        cdef int32_t s, last = -2
        cdef int sign, last_sign = 0
        cdef dict groups = {}
        cdef list values = [], owners = []
        for number, i in enumerate(members):
            start, stop = self.sums[i]
            for j in range(stop - 1, start - 1, -1):
                s, sign = self.shape[self.terms[j]], self.signs[j]
                if s != last or sign != last_sign:
                    values, owners = groups.setdefault((sign, s), ([], []))
                    last, last_sign = s, sign
                values.append(self.terms[j])
                owners.append(number)
        return [(key[0], np.array(groups[key][0], np.int32), groups[key][1]) for key in sorted(groups, reverse=True)]

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
        cdef Py_ssize_t i, s
        cdef int32_t[::1] order
        cdef int32_t total = 0
        self.order = int32s(self.code.n)
        order = self.order
        memset(self.begin, 0, (self.shapes + 1) * sizeof(int32_t))
        for i in range(self.code.n):
            s = self.shape[i]
            if s >= 0:
                self.place[i] = self.begin[s + 1]
                self.begin[s + 1] += 1
        for s in range(self.shapes):
            self.wide[s] = s != CONSTANTS and self.begin[s + 1] >= MIN_MEMBERS and (
                self.is_computed(self.first[s]) or self.is_sum[self.first[s]])
            total += self.begin[s + 1]
            self.begin[s + 1] = total
        for i in range(self.code.n):
            s = self.shape[i]
            if s >= 0:
                order[self.begin[s] + self.place[i]] = <int32_t>i
        return 0

    cdef object members(self, Py_ssize_t s):
        """The values of a shape."""
        return self.order[self.begin[s]:self.begin[s + 1]]

    cdef inline bint is_array(self, int32_t s) noexcept:
        """Is a shape an array in the new list?"""
        return s >= 0 and self.wide[s]

    cdef bint has_arrays(self) noexcept:
        cdef Py_ssize_t s
        for s in range(self.shapes):
            if self.wide[s]:
                return True
        return False

    cdef double greatest_gain(self) noexcept:
        """What arrays save at most, told before there are shapes: numbers of one shape lie at one depth.

        A sum lies right above its terms, and takes no time where these are many.
        """
        cdef Py_ssize_t i
        cdef int32_t *depth = self.shape
        cdef int32_t *length = self.begin
        cdef int32_t *count = self.place        # of numbers at a depth, and of terms
        cdef int32_t before, term
        cdef double total = 0.0
        memset(count, 0, (self.code.n + 2) * sizeof(int32_t))
        for i in range(self.code.n):
            length[i] = depth[i] = 0
            if not self.is_computed(i):
                continue
            before = self.before(i, length)
            length[i] = 0 if before == -2 else 1 if before < 0 else length[before] + 1
            if length[i] < MIN_MEMBERS:
                depth[i] = 1 + max(self.depth_of(self.code.as_[i]), self.depth_of(self.code.bs[i]),
                                   self.depth_of(self.code.cs[i]))
                count[depth[i]] += 1
            else:
                depth[i] = max(depth[before], 1 + depth[self.other_term(i, before)])
        count[0] = MIN_MEMBERS                        # of what is not computed: elements of arrays
        for i in range(self.code.n):
            term = <int32_t>i if length[i] < MIN_MEMBERS else self.other_term(i, self.before(i, length))
            if depth[i] and count[depth[term]] >= MIN_MEMBERS:
                total += number_cost(self.code.ops[i])
        return total

    cdef inline int32_t other_term(self, Py_ssize_t i, int32_t before) noexcept:
        return self.code.bs[i] if before == self.code.as_[i] else self.code.as_[i]

    cdef inline int32_t depth_of(self, int32_t v) noexcept:
        return 0 if v < 0 else self.shape[v]

    cdef double least_cost(self) except -1.0:
        """What the new list takes at least: its classes, the numbers that stay and their loads; not how classes are
        read."""
        cdef Py_ssize_t i, s
        cdef int side
        cdef int32_t v
        cdef double total = 0.0
        cdef bytearray needed = needed_for(self.code, self.code.inputs + self.code.outputs, True)
        cdef bytearray read_alone = bytearray(self.code.n)
        cdef unsigned char *marks = needed
        cdef unsigned char *alone = read_alone
        cdef bint cheap
        cdef Block counts = take(self.shapes * sizeof(int32_t))
        memset(counts.data, 0, self.shapes * sizeof(int32_t))
        for i in range(self.code.n):
            s = self.shape[i]
            if s < 0 or not marks[i] or not self.is_computed(i):
                continue
            cheap = number_cost(self.code.ops[i]) == NUMBER
            if self.is_sum[i]:
                total += 0.0 if self.wide[s] else NUMBER * self.least_additions(i, <int32_t *>counts.data, alone)
            elif not self.wide[s]:
                total += NUMBER if cheap else FUNCTION
                for side in range(3):
                    v = self.operand(i, side)
                    if v >= 0:
                        alone[v] = 1
            elif self.first[s] == i:
                total += VECTOR + (ELEMENT if cheap else FUNCTION_ELEMENT) * (self.begin[s + 1] - self.begin[s])
        for i in range(self.code.n):
            if alone[i] and (self.code.ops[i] == LOAD or self.is_array(self.shape[i])):
                total += NUMBER
        return total

    cdef Py_ssize_t least_additions(self, Py_ssize_t i, int32_t *counts, unsigned char *alone) except -1:
        """Additions of a sum, of which terms of one shape may be one if there are enough, else are read `alone`.

        All `counts` are 0.
        """
        cdef Py_ssize_t j, start, stop, parts = 0
        cdef int32_t v
        start, stop = self.sums[i]
        for j in range(start, stop):
            v = self.terms[j]
            if self.shape[v] >= 0:
                counts[self.shape[v]] += 1
        for j in range(start, stop):
            v = self.terms[j]
            if self.shape[v] >= 0 and 0 < counts[self.shape[v]] < MIN_MEMBERS:
                alone[v] = 1
                parts += 1
            elif self.shape[v] >= 0 and counts[self.shape[v]] > 0:
                counts[self.shape[v]] = 0
                parts += 1
        for j in range(start, stop):
            v = self.terms[j]
            if self.shape[v] >= 0:
                counts[self.shape[v]] = 0
        return max(0, parts - 1)

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
                if i == self.first[s]:
                    self.make(s)
            elif self.is_sum[i]:
                self.of[i] = self.sum(i)
            elif self.code.ops[i] == PACK:
                self.of[i] = self.pack(i)
            elif self.code.ops[i] != LOAD:          # made where they are read
                self.carry(i)
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
                self.carry(v)
        return self.of[v]

    cdef int32_t element(self, int32_t s, int32_t place, int32_t kind) except -1:
        return emit(self.found, LOAD, self.made[s][0], place, -1, kind)

    cdef int carry(self, Py_ssize_t i) except -1:
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
        members = self.members(s)
        if self.is_sum[self.first[s]]:
            self.made[s] = self.make_sums(members.tolist()), (len(members),)
            return 0
        cdef list sides = [self.reading(members, side) for side in range(3)]
        cdef int32_t kind = self.code.kinds[self.first[s]]
        axes = self.axes_of(sides, len(members))
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
        cdef int32_t total = -1, part, kind = self.found.type_of((FLOAT, (len(members),), None))
        for sign, values, owners in self.alike(members):
            part = self.added_up(values, np.array(owners, np.int32), kind, len(members))
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

    cdef int32_t sum(self, Py_ssize_t i) except -1:
        """A sum over the classes of its terms."""
        cdef int32_t total = -1, part
        for sign, values, _ in self.alike([i]):
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
        if side[0] == "places" and len(values) >= MIN_MEMBERS:
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
        if n % run or len(axes) == MAX_AXES:
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
