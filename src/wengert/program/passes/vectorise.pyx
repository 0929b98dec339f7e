# Indices come from wengert, never from a user, and no division here has a user's divisor:
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
    FLAG, IS_COMMUTATIVE, IS_ELEMENTWISE, IS_FUNCTION, SCALAR, Listing, copied, emit, has, names, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.program.ir.opcode_table import OPCODES
from wengert.program.passes import cost as model
from wengert.program.passes.simplify import live, needed_for

cdef enum:
    CONSTANTS = 0       # class id of constants; values without a class have -1
    MIN_MEMBERS = 8     # scalars of a class that becomes an array, and terms of a sum
    MAX_AXES = 4        # axes of a view
    MAX_LINEAR = 8      # classes per operand class that are searched linearly; more go to the hash table

#: minimum size of a class, and minimum length of a program, for vectorisation
MIN_CLASS_SIZE, MIN_INSTRUCTIONS = MIN_MEMBERS, 4 * MIN_MEMBERS

# in nanoseconds
cdef double SCALAR_COST = model.SCALAR, FUNCTION_COST = model.SCALAR_FUNCTION
cdef double VECTOR_COST = model.VECTOR, ELEMENT_COST = model.ELEMENT
cdef double FUNCTION_ELEMENT_COST = model.ELEMENT_FUNCTION, MOVED_ELEMENT_COST = model.ELEMENT_MOVED
#: array code must take less than this fraction of the time of scalar code
cdef double MAX_COST_RATIO = 0.9

cdef object FLOAT = np.dtype(float), BOOL = np.dtype(bool)
cdef int POWER = OPCODES["power"]

#: exponents for which the VM computes a power without pow(), by multiplication, division or sqrt
cdef dict CHEAP_EXPONENTS = {power: i for i, power in enumerate((-1.0, 0.5, 1.0, 2.0, 3.0, 4.0))}


def vectorise_scalars(Listing code, double gain=MAX_COST_RATIO):
    """Return the program with isomorphic scalar expressions packed into arrays.

    The same program is returned unless the new one is estimated to take less than `gain` of its time.
    """
    cdef Vectoriser vectoriser
    if code.n < MIN_INSTRUCTIONS:
        return code
    total = cost(code)
    max_cost = gain * total
    vectoriser = Vectoriser(code)
    if total - vectoriser.max_gain() > 1.001 * max_cost:
        return code
    vectoriser.find_classes()
    if not vectoriser.has_arrays() or vectoriser.min_cost() > 1.001 * max_cost:
        return code
    found = live(vectoriser.run())
    return found if cost(found) < max_cost else code


cdef double cost(Listing code) except -1.0:
    """Estimate the run time in nanoseconds, leaving out what vectorisation does not change."""
    cdef Py_ssize_t i
    cdef double total = 0.0
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    for i in range(code.n):
        total += cost_of(code, i, sizes)
    return total


def costs(Listing code):
    """Return the share of each instruction in that estimate."""
    cdef Py_ssize_t i
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    return [cost_of(code, i, sizes) for i in range(code.n)]


cdef inline double scalar_cost(int op) noexcept:
    """Return the nanoseconds of a scalar instruction."""
    return FUNCTION_COST if has(op, IS_FUNCTION) else SCALAR_COST


cdef inline double element_cost(int op) noexcept:
    """Return the nanoseconds per element of an elementwise array instruction."""
    return FUNCTION_ELEMENT_COST if has(op, IS_FUNCTION) else ELEMENT_COST


cdef double cost_of(Listing code, Py_ssize_t i, list sizes) except -1.0:
    cdef int op = code.ops[i]
    if op == CONST or op == ARRAY or op == INPUT or op == VIEW:
        return 0.0
    if op == SUM:
        return VECTOR_COST + ELEMENT_COST * <double>sizes[code.kinds[code.as_[i]]]
    if op == PACK:
        return VECTOR_COST + len(code.packs[code.bs[i]][0])
    if code.kinds[i] <= FLAG:
        return scalar_cost(op)
    if op == GATHER or op == SCATTER:
        return VECTOR_COST + MOVED_ELEMENT_COST * <double>sizes[code.kinds[code.as_[i] if op == SCATTER else i]]
    return VECTOR_COST + element_cost(op) * <double>sizes[code.kinds[i]]


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
    numbers = np.where(kept, np.cumsum(kept, dtype=np.int64) - 1, -1)  # its own dtype is unsigned
    in_sums = np.array([vectoriser.is_partial_sum[i] != 0 for i in range(code.n)])
    in_sums[list(vectoriser.sums)] = True
    found = []
    for s in range(1, vectoriser.class_count):
        if vectoriser.is_packed[s]:
            found.append((vectoriser.members(s), int(numbers[<int32_t>vectoriser.arrays[s][0]])))
        elif vectoriser.is_computed(vectoriser.first[s]) and not in_sums[vectoriser.first[s]]:
            found.append((vectoriser.members(s), -1))
    return live(made), found, in_sums


cdef struct IsoClass:
    int32_t op, a, b, c         # opcode of the members, and classes of their operands
    int32_t next                # list link: the next older class with the same largest operand class, 0: none
    int32_t last                # newest class whose largest operand class is this one
    int32_t count               # length of that list


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
    cdef IsoClass *known        # all classes, while they are numbered,
    cdef Block table            # and a hash table of those not in the lists
    cdef dict maps              # hash-consed index arrays of the new program
    cdef Py_ssize_t class_count
    cdef int32_t *first         # first member of each class, -1 for constants
    cdef int32_t *begin         # start of the members of each class in `order`
    cdef char *is_packed        # whether a class becomes an array
    cdef object order           # values sorted by class, then by id
    cdef dict arrays            # for each packed class: its array in the new program and the axes of that

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
        self.sums = {}
        self.arrays = {}
        self.maps = {}
        self.count_uses()

    cdef int find_classes(self) except -1:
        self.number_classes()
        self.find_sums()
        if self.sums:
            self.number_classes()
        return self.group()

    # ------------------------------------------------------------------------------------------ classes

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
        """Return whether a value is a scalar computed from scalars only."""
        cdef int op = self.code.ops[i]
        if self.code.kinds[i] > FLAG:
            return False
        if not has(op, IS_ELEMENTWISE):
            return False
        return ((self.code.as_[i] < 0 or self.code.kinds[self.code.as_[i]] <= FLAG)
                and (self.code.bs[i] < 0 or self.code.kinds[self.code.bs[i]] <= FLAG)
                and (self.code.cs[i] < 0 or self.code.kinds[self.code.cs[i]] <= FLAG))

    cdef bint is_swapped(self, Py_ssize_t i) noexcept:
        """Return whether to exchange the operands of a commutative opcode, to order them by class."""
        cdef int op = self.code.ops[i]
        return (has(op, IS_COMMUTATIVE)
                and self.class_of[self.code.as_[i]] > self.class_of[self.code.bs[i]])

    cdef int32_t exponent(self, Py_ssize_t i) except 0:
        """Return a key (below -1) for each constant exponent that makes a power cheap, else -1.

        Such powers get classes by exponent, because with an array of exponents they would need pow().
        """
        cdef int32_t b = self.code.bs[i]
        if (self.code.ops[i] != WG_POW and self.code.ops[i] != POWER) or self.code.ops[b] != CONST:
            return -1
        return -2 - <int32_t>CHEAP_EXPONENTS.get(self.code.constants[self.code.as_[b]], -1)

    cdef int32_t operand(self, Py_ssize_t i, int side) noexcept:
        if side < 2 and self.is_swapped(i):
            side = 1 - side
        return self.code.as_[i] if side == 0 else self.code.bs[i] if side == 1 else self.code.cs[i]

    cdef int number_classes(self) except -1:
        """Number the isomorphism classes."""
        cdef Py_ssize_t i
        cdef int32_t a, b, c
        cdef int op
        cdef dict of_sums = {}
        cdef Block entries = take((self.code.n + 1) * sizeof(IsoClass))
        cdef Block stamps = take((self.code.n + 2 if self.sums else 0) * sizeof(int32_t))
        memset(stamps.data, 0xff, (self.code.n + 2 if self.sums else 0) * sizeof(int32_t))
        self.known = <IsoClass *>entries.data
        self.table = None
        self.class_count = 0
        self.new_class(-1)
        for i in range(self.code.n):
            op = self.code.ops[i]
            if op == CONST:
                self.class_of[i] = CONSTANTS
            elif self.is_partial_sum[i]:
                self.class_of[i] = -1
            elif self.is_sum[i]:
                self.class_of[i] = self.class_of_sum(i, <int32_t *>stamps.data, of_sums)
            elif op == LOAD:
                a = self.class_of[self.code.as_[i]]
                self.class_of[i] = self.find_or_add(i, op, a, self.code.kinds[i], -1, a)
            elif self.is_computed(i):
                a, b, c = self.operand(i, 0), self.operand(i, 1), self.operand(i, 2)
                a = -1 if a < 0 else self.class_of[a]
                b = -1 if b < 0 else self.class_of[b]
                c = self.exponent(i) if c < 0 else self.class_of[c]
                self.class_of[i] = self.find_or_add(i, op, a, b, c, max(CONSTANTS, a, b, c))
            else:
                self.class_of[i] = self.new_class(i)
        self.known, self.table = NULL, None
        return 0

    cdef inline int32_t new_class(self, Py_ssize_t i) noexcept:
        """Create a class whose first member is value i."""
        cdef IsoClass *new = self.known + self.class_count
        new.op = -1
        new.last = new.count = 0
        self.first[self.class_count] = <int32_t>i
        self.class_count += 1
        return <int32_t>(self.class_count - 1)

    cdef int32_t find_or_add(self, Py_ssize_t i, int op, int32_t a, int32_t b, int32_t c, int32_t largest) except -1:
        """Return the class id of an expression: search the list of its largest operand class, then the hash table."""
        cdef IsoClass *known = self.known
        cdef int32_t k = known[largest].last, found
        while k > 0:
            if known[k].op == op and known[k].a == a and known[k].b == b and known[k].c == c:
                return k
            k = known[k].next
        if known[largest].count == MAX_LINEAR:
            found = self.find_in_table(op, a, b, c)
            if found >= 0:
                return found
        k = self.new_class(i)
        known[k].op, known[k].a, known[k].b, known[k].c = op, a, b, c
        if known[largest].count < MAX_LINEAR:
            known[k].next = known[largest].last
            known[largest].last = k
            known[largest].count += 1
        return k

    cdef int32_t find_in_table(self, int op, int32_t a, int32_t b, int32_t c) except -2:
        """Return a class id from the hash table; -1 if the class is new, and enter the next new id."""
        cdef uint32_t h = <uint32_t>op, size = 1024
        cdef int32_t *table
        cdef IsoClass *known = self.known
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
        table[h] = <int32_t>self.class_count
        return -1

    cdef int find_sums(self) except -1:
        """Find chains of additions whose partial sums have no other use."""
        cdef Block block = take(self.code.n * sizeof(int32_t))
        cdef int32_t *length = <int32_t *>block.data
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
            if length[i] < MIN_MEMBERS - 1 or self.is_partial_sum[i]:
                continue
            start, v = m, <int32_t>i
            while True:
                before = self.before(v, length)
                signs[m] = -1 if self.code.ops[v] == WG_SUBTRACT else 1
                if before < 0:
                    terms[m], terms[m + 1], signs[m + 1] = self.code.bs[v], self.code.as_[v], 1
                    m += 2
                    break
                is_first = length[before] == 1 and m > start and self.class_of[before] == self.class_of[terms[start]]
                terms[m] = self.other_term(v, before)
                m += 1
                if is_first:                                    # the first term is itself a sum of two values
                    terms[m], signs[m] = before, 1
                    m += 1
                    break
                v = before
                self.is_partial_sum[v] = 1
            if m - start >= MIN_MEMBERS:
                self.sums[i] = start, m
                self.is_sum[i] = 1
        return 0

    cdef int32_t class_of_sum(self, Py_ssize_t i, int32_t *stamps, dict known) except -1:
        """Return the class of a sum, determined by the set of its terms' classes, regardless of order and number.

        `known` holds the sums seen so far by hash; `stamps` the last sum in which each class was seen.
        """
        cdef Py_ssize_t j, start, stop
        cdef uint32_t s, hash = 0, count = 0
        start, stop = self.sums[i]
        for j in range(start, stop):
            s = <uint32_t>(self.class_of[self.terms[j]] + 1)
            if stamps[s] != i:
                stamps[s] = <int32_t>i
                count += 1
                hash += (s ^ (s >> 15)) * 0x9E3779B1u
        equal_hash = known.setdefault((hash, count), [])
        for other in equal_hash:
            start, stop = self.sums[other]
            for j in range(start, stop):
                if stamps[self.class_of[self.terms[j]] + 1] != i:
                    break
            else:                   # equal number of classes, and all of them in this sum
                return self.class_of[<Py_ssize_t>other]
        equal_hash.append(i)
        return self.new_class(i)

    cdef list terms_by_class(self, list members):
        """Group the terms of some sums by sign and class, positive terms first: (sign, terms, index of their sum)."""
        cdef Py_ssize_t j, start, stop, number
        cdef int32_t s, last = -2
        cdef int sign, last_sign = 0
        cdef dict groups = {}
        cdef list values = [], owners = []
        for number, i in enumerate(members):
            start, stop = self.sums[i]
            for j in range(stop - 1, start - 1, -1):
                s, sign = self.class_of[self.terms[j]], self.signs[j]
                if s != last or sign != last_sign:
                    values, owners = groups.setdefault((sign, s), ([], []))
                    last, last_sign = s, sign
                values.append(self.terms[j])
                owners.append(number)
        return [(key[0], np.array(groups[key][0], np.int32), groups[key][1]) for key in sorted(groups, reverse=True)]

    cdef int32_t before(self, Py_ssize_t i, const int32_t *length) noexcept:
        """Return the partial sum to which a value adds a term; -1: it starts a chain, -2: it is no addition."""
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
        """Sort values by class and decide which classes become arrays."""
        cdef Py_ssize_t i, s
        cdef int32_t[::1] order
        cdef int32_t total = 0
        self.order = int32s(self.code.n)
        order = self.order
        memset(self.begin, 0, (self.class_count + 1) * sizeof(int32_t))
        for i in range(self.code.n):
            s = self.class_of[i]
            if s >= 0:
                self.place[i] = self.begin[s + 1]
                self.begin[s + 1] += 1
        for s in range(self.class_count):
            self.is_packed[s] = s != CONSTANTS and self.begin[s + 1] >= MIN_MEMBERS and (
                self.is_computed(self.first[s]) or self.is_sum[self.first[s]])
            total += self.begin[s + 1]
            self.begin[s + 1] = total
        for i in range(self.code.n):
            s = self.class_of[i]
            if s >= 0:
                order[self.begin[s] + self.place[i]] = <int32_t>i
        return 0

    cdef object members(self, Py_ssize_t s):
        """Return the members of a class."""
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

    cdef double max_gain(self) noexcept:
        """Return an upper bound on the time saved, before classes are known: members of a class have equal depth.

        The depth of a sum is that of its terms plus one, and a SUM of many terms costs nothing.
        """
        cdef Py_ssize_t i
        cdef int32_t *depth = self.class_of
        cdef int32_t *length = self.begin
        cdef int32_t *count = self.place        # scalars, and terms of sums, at each depth
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
        count[0] = MIN_MEMBERS                        # depth 0 holds array elements, which always form a class
        for i in range(self.code.n):
            term = <int32_t>i if length[i] < MIN_MEMBERS else self.other_term(i, self.before(i, length))
            if depth[i] and count[depth[term]] >= MIN_MEMBERS:
                total += scalar_cost(self.code.ops[i])
        return total

    cdef inline int32_t other_term(self, Py_ssize_t i, int32_t before) noexcept:
        return self.code.bs[i] if before == self.code.as_[i] else self.code.as_[i]

    cdef inline int32_t depth_of(self, int32_t v) noexcept:
        return 0 if v < 0 else self.class_of[v]

    cdef double min_cost(self) except -1.0:
        """Return a lower bound on the cost of the new program: classes, remaining scalars and their loads.

        The cost of reading the operands of classes is left out.
        """
        cdef Py_ssize_t i, s
        cdef int side
        cdef int32_t v
        cdef double total = 0.0
        cdef bytearray needed = needed_for(self.code, self.code.inputs + self.code.outputs, True)
        cdef bytearray read_alone = bytearray(self.code.n)
        cdef unsigned char *marks = needed
        cdef unsigned char *alone = read_alone
        cdef Block counts = take(self.class_count * sizeof(int32_t))
        memset(counts.data, 0, self.class_count * sizeof(int32_t))
        for i in range(self.code.n):
            s = self.class_of[i]
            if s < 0 or not marks[i] or not self.is_computed(i):
                continue
            if self.is_sum[i]:
                if not self.is_packed[s]:
                    total += SCALAR_COST * self.min_additions(i, <int32_t *>counts.data, alone)
            elif not self.is_packed[s]:
                total += scalar_cost(self.code.ops[i])
                for side in range(3):
                    v = self.operand(i, side)
                    if v >= 0:
                        alone[v] = 1
            elif self.first[s] == i:
                total += VECTOR_COST + element_cost(self.code.ops[i]) * (self.begin[s + 1] - self.begin[s])
        for i in range(self.code.n):
            if alone[i] and (self.code.ops[i] == LOAD or self.is_array(self.class_of[i])):
                total += SCALAR_COST
        return total

    cdef Py_ssize_t min_additions(self, Py_ssize_t i, int32_t *counts, unsigned char *alone) except -1:
        """Return a lower bound on the additions left of a sum; mark terms in `alone` that are read as scalars.

        At least `MIN_MEMBERS` terms of one class may become one SUM. `counts` must be zero, and is zero again after.
        """
        cdef Py_ssize_t j, start, stop, parts = 0
        cdef int32_t v
        start, stop = self.sums[i]
        for j in range(start, stop):
            v = self.terms[j]
            if self.class_of[v] >= 0:
                counts[self.class_of[v]] += 1
        for j in range(start, stop):
            v = self.terms[j]
            if self.class_of[v] >= 0 and 0 < counts[self.class_of[v]] < MIN_MEMBERS:
                alone[v] = 1
                parts += 1
            elif self.class_of[v] >= 0 and counts[self.class_of[v]] > 0:
                counts[self.class_of[v]] = 0
                parts += 1
        for j in range(start, stop):
            v = self.terms[j]
            if self.class_of[v] >= 0:
                counts[self.class_of[v]] = 0
        return max(0, parts - 1)

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
        """Describe operand `side` of a class, as `places` does; None if there is none."""
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
        """Describe how values of one class are read.

        One of ("number", value) for a single value, ("numbers", values) for scalars that are in no array, and
        ("places", array, positions, axes of the array or None).
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
        for sign, values, owners in self.terms_by_class(members):
            part = self.sums_by_owner(values, np.array(owners, np.int32), kind, len(members))
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, kind)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, kind)
        return total

    cdef int32_t sums_by_owner(self, values, owners, int32_t kind, Py_ssize_t count) except -1:
        """Emit the sums, by owner, of values of one class."""
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
        for sign, values, _ in self.terms_by_class([i]):
            part = self.sum_of(values)
            if total < 0:
                total = part if sign > 0 else emit(self.found, WG_NEGATIVE, part, -1, -1, SCALAR)
            else:
                total = emit(self.found, WG_ADD if sign > 0 else WG_SUBTRACT, total, part, -1, SCALAR)
        return total

    cdef int32_t sum_of(self, values) except -1:
        """Emit the sum of values of one class."""
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


# ---------------------------------------------------------------------------------------------- affine positions

ctypedef fused place:
    int32_t
    int64_t


def lattice(where):
    """Return the lengths of axes in which positions are affine; None if that takes more than `MAX_AXES`."""
    where = np.ascontiguousarray(where)
    return axes_of[int32_t](where) if where.dtype == np.int32 else axes_of[int64_t](where.astype(np.int64, copy=False))


cdef axes_of(const place[::1] at):
    cdef Py_ssize_t n = at.shape[0], apart = 1, run, line, i
    cdef int64_t step
    cdef list axes = []
    while n > 1:  # innermost axis first; the starts of its rows, `apart` from each other, span the remaining axes
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
    """Return the strides of positions along the axes; None if the positions are not affine in them."""
    where = np.ravel(where)
    return steps_of[int32_t](where, axes) if where.dtype == np.int32 else steps_of[int64_t](
        where.astype(np.int64, copy=False), axes)


cdef steps_of(const place[::1] at, axes):
    cdef Py_ssize_t n, inner = at.shape[0], block, i, j
    cdef int64_t step
    cdef list steps = []
    for n in axes:  # blocks along an axis must be shifts of the first one
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
    """Return whether these are all positions of an array, in order."""
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
    """Return whether these are all positions of an array, in any order."""
    return len(where) == np.prod(axes) and (np.bincount(where, minlength=len(where)) == 1).all()


cdef span_of(shape, strides, itemsize):
    """Return the number of elements that an array spans in memory, gaps included."""
    if strides is None:
        return int(np.prod(shape, dtype=np.int64))
    return 1 + sum([(n - 1) * abs(step) for n, step in zip(shape, strides)]) // itemsize
