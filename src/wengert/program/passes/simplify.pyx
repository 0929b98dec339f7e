# Indices come from wengert, never from a user, and no division here has a user's divisor:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Constant folding, algebraic simplification, CSE, DCE and store-to-load forwarding.

Each function takes a program and returns an equivalent new one, built in one forward traversal.
`folded` folds constants, removes identities and forwards stores; `shared` eliminates common subexpressions by local
value numbering (Cocke and Schwartz 1970; straight-line code has one block); `live` eliminates dead code, keeping
guards; `simplified` combines them.
"""

cimport numpy as cnp
from libc.stdint cimport int32_t, uint32_t
from libc.string cimport memchr, memcpy, memset

import math

import numpy as np

from wengert.core.tape.kernel cimport Kernel, by_opcode
from wengert.core.tape.memory cimport Block, take
from wengert.core.tape.tape cimport (
    WG_ADD, WG_DIVIDE, WG_MULTIPLY, WG_NEGATIVE, WG_POSITIVE, WG_POW, WG_SUBTRACT,
)
from wengert.program.ir.ir cimport (
    FLAG, IS_COMMUTATIVE, IS_ELEMENTWISE, READS_ELEMENTS, SCALAR, Listing, copied, emit, has, names, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.core.tape.tape import kernel_partials
from wengert.program.ir.call import is_function, product_of, static
from wengert.program.ir.opcode_table import function

cnp.import_array()


def simplified(Listing code, bint exact=True, bint fold=True, bint cse=True, bint dce=True):
    """Return the program after constant folding, CSE and DCE, or some of them; `exact` keeps the sign of zeros."""
    if not (fold or cse):
        return live(code) if dce else code
    cdef Listing found = fold_and_number(code, fold, cse, exact)
    return eliminate_dead_in_place(found) if dce else found


def folded(Listing code, bint exact=True):
    """Return the program after constant folding, algebraic simplification and store-to-load forwarding."""
    return fold_and_number(code, True, False, exact)


def shared(Listing code):
    """Return the program after common-subexpression elimination."""
    return fold_and_number(code, False, True, True)


cdef Listing fold_and_number(Listing code, bint to_fold, bint to_number, bint exact):
    """Fold and number values in one traversal: each instruction maps to an existing value or to one new one."""
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef int32_t v, n
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    cdef ValueTable known = ValueTable(found, code.n if to_number else 0)
    cdef StoredElements contents = StoredElements(found)
    cdef Boxes boxes = Boxes(found)
    cdef bytearray in_memory = layout_matters(code) if to_fold and not exact else None
    for i in range(code.n):
        n = <int32_t>found.n
        v = copied(code, i, of, found)
        if to_fold and code.ops[i] == VIEW and found.ops[v] == VIEW:
            v = forward_to_view(found, v, exact or in_memory[i], boxes)
        elif to_fold:
            v = fold_one(found, v, exact, contents)
        if to_number and v == n:
            v = number_one(found, v, known)
        of[i] = v
    set_ends(code, of, found)
    return found


cpdef bint contains(Listing code, int op) noexcept:
    """Return whether a program contains an instruction with this opcode."""
    cdef Py_ssize_t i
    for i in range(code.n):
        if code.ops[i] == op:
            return True
    return False


def lowered(Listing code):
    """Return the program without STOP marks, which only source transformation needs."""
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    if not (contains(code, STOP) or contains(code, ISNAN)):
        return code
    for i in range(code.n):
        of[i] = of[code.as_[i]] if code.ops[i] == STOP else copied(code, i, of, found)
        if code.ops[i] == VIEW:
            of[i] = hoist_isnan(found, of[i])
    set_ends(code, of, found)
    return eliminate_dead_in_place(found)


cdef int32_t hoist_isnan(Listing code, int32_t i) except -1:
    """Rewrite a broadcast of ``isnan(x)`` as ``isnan`` of a broadcast of x, which the VM can fuse into chunks."""
    cdef int32_t a = code.as_[i], source = code.as_[a]
    if code.ops[a] != ISNAN or code.kinds[a] <= FLAG or code.types[code.kinds[a]][2] is not None:
        return i
    offset, shape, strides = code.views[code.bs[i]]
    dtype, _, own_strides = code.types[code.kinds[source]]
    if 0 not in strides or dtype != np.float64 or own_strides is not None:
        return i
    code.n = i
    size = dtype.itemsize
    source = code.view(source, (offset * size, shape, tuple([size * s for s in strides])), dtype)
    return emit(code, ISNAN, source, -1, -1, code.type_of((np.dtype(bool), shape, None)))


# ---------------------------------------------------------------------------------------------- dead code

def live(Listing code, bint and_guards=True):
    """Return the program without dead code; guards are kept, unless `and_guards` is False."""
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef bytearray needed = needed_for(code, code.inputs + code.outputs, and_guards)
    cdef unsigned char *marks = needed
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    for i in range(code.n):
        if marks[i]:
            of[i] = copied(code, i, of, found)
    set_ends(code, of, found)
    return found


cdef Listing eliminate_dead_in_place(Listing code):
    """Eliminate dead code in place: the result reuses the memory of `code`, which must have no other owner."""
    cdef bytearray needed = needed_for(code, code.inputs + code.outputs, True)
    cdef const unsigned char *marks = needed
    cdef const void *dead = memchr(marks, 0, code.n)
    cdef Py_ssize_t i, first
    cdef Block block
    cdef int32_t *of
    cdef Listing found
    if dead == NULL:
        return code
    first = <const unsigned char *>dead - marks
    block = take(code.n * sizeof(int32_t))
    of = <int32_t *>block.data
    found = code.shortened(first)
    for i in range(first):
        of[i] = <int32_t>i
    for i in range(first, code.n):
        if marks[i]:
            of[i] = copied(code, i, of, found)
    set_ends(code, of, found)
    return found


def needed_for(Listing code, list values, bint and_guards=False):
    """Mark the transitive operands of some values, and these values, in an array by value id."""
    cdef bytearray needed = bytearray(max(1, code.n))
    cdef unsigned char *marks = needed
    cdef int32_t v
    for v in values:
        marks[v] = 1
    while mark_needed(code, marks, and_guards):
        pass                    # repeat if a guard became live whose operand no marked value reads
    return needed


cdef bint mark_needed(Listing code, unsigned char *marks, bint and_guards) except -1:
    """Mark operands of marked values, last to first; return True if a skipped guard turned out to be live."""
    cdef Py_ssize_t i
    cdef Py_ssize_t skipped = 0
    for i in range(code.n - 1, -1, -1):
        if not marks[i] and and_guards and must_run(code, i):
            if is_orphaned_guard(code, i, marks):
                skipped += 1
            else:
                marks[i] = 1
        if marks[i]:
            mark(code, i, marks)
    for i in range(code.n if skipped else 0):
        if code.ops[i] == GUARD and not marks[i] and not is_orphaned_guard(code, i, marks):
            return True
    return False


cdef bint must_run(Listing code, Py_ssize_t i) except -1:
    """Return whether an instruction must run even if its result is unused: a guard, or a call with guards."""
    return code.ops[i] == GUARD or (code.ops[i] == CALL and code.calls[code.as_[i]].checks)


cdef bint is_orphaned_guard(Listing code, Py_ssize_t i, const unsigned char *marks) except -1:
    """Return whether this is a guard on the derivation of a value that is not marked."""
    return code.ops[i] == GUARD and code.cs[i] >= 0 and not marks[code.cs[i]]


cdef int mark(Listing code, Py_ssize_t i, unsigned char *marks) except -1:
    """Mark the operands of an instruction."""
    cdef int op = code.ops[i], columns = names(op)
    cdef int32_t v
    cdef cnp.ndarray packed
    cdef Py_ssize_t j
    if columns & 1 and code.as_[i] >= 0:
        marks[code.as_[i]] = 1
    if columns & 2 and code.bs[i] >= 0:
        marks[code.bs[i]] = 1
    if columns & 4 and code.cs[i] >= 0:
        marks[code.cs[i]] = 1
    if op == PACK:
        packed = code.packs[code.bs[i]][1]
        for j in range(cnp.PyArray_SIZE(packed)):
            marks[(<int32_t *>cnp.PyArray_DATA(packed))[j]] = 1
    elif op == CALL:
        for v in code.calls[code.as_[i]].operands:
            marks[v] = 1
    return 0


cdef int set_ends(Listing code, const int32_t *of, Listing found) except -1:
    """Set the inputs and outputs of the new program."""
    found.inputs = [of[<int32_t>v] for v in code.inputs]
    found.outputs = [of[<int32_t>v] for v in code.outputs]
    return 0


# ---------------------------------------------------------------------------------------------- value numbering

cdef enum:
    MAX_LINEAR = 8   # instructions per last operand that are searched linearly; more go to the hash table
    MAX_STORES = 64  # stores to an array that a load is moved across
    MAX_FAR_STORES = 4096       # stores across which the stored value, or the array before all of them, is looked for
    MAX_STEPS = 1 << 22         # stores that are looked at for that in one traversal
    MAX_AXES = 8     # axes of views that are tested for overlap


cdef struct User:
    int32_t last        # newest instruction whose last operand is this value, -1: none
    int32_t next        # list link: the next older instruction with the same last operand as this one
    int32_t count       # length of the list


cdef struct Entry:
    int32_t value
    uint32_t hash


cdef class ValueTable:
    """The expressions seen so far: short lists by last operand, which stay in cache, then one hash table."""

    cdef Listing code
    cdef Block users, entries
    cdef Py_ssize_t size, used      # entries of the hash table, and how many are in use
    cdef dict calls     # by function, type and operands

    def __cinit__(self, Listing code, Py_ssize_t n):
        self.code, self.calls = code, {}
        self.users = take(n * sizeof(User))

    cdef inline int reset_users(self, int32_t i) noexcept:
        """Register an instruction that is not subject to CSE."""
        cdef User *users = <User *>self.users.data
        users[i].last, users[i].next, users[i].count = -1, -1, 0
        return 0

    cdef int32_t find_or_add(self, int32_t i) except -1:
        """Return the first instruction that is equal to this one."""
        cdef User *users = <User *>self.users.data
        cdef int32_t last = last_operand(self.code, i), v
        self.reset_users(i)
        if last < 0:
            return self.find_in_table(i)
        v = users[last].last
        while v >= 0:
            if is_equal(self.code, v, i):
                return v
            v = users[v].next
        if users[last].count == MAX_LINEAR:
            return self.find_in_table(i)
        users[i].next, users[last].last = users[last].last, i
        users[last].count += 1
        return i

    cdef int32_t find_in_table(self, int32_t i) except -1:
        cdef Entry *table
        cdef uint32_t hash = hash_of(self.code, i), h
        if 2 * self.used >= self.size:
            self.enlarge()
        table = <Entry *>self.entries.data
        h = hash & <uint32_t>(self.size - 1)
        while table[h].value >= 0 and not (table[h].hash == hash and is_equal(self.code, table[h].value, i)):
            h = (h + 1) & <uint32_t>(self.size - 1)
        if table[h].value < 0:
            table[h].value, table[h].hash = i, hash
            self.used += 1
        return table[h].value

    cdef int enlarge(self) except -1:
        """Make the hash table four times as large; it is at most half full, and most values are not in it."""
        cdef Py_ssize_t size = max(1024, 4 * self.size), k
        cdef Block block = take(size * sizeof(Entry))
        cdef Entry *table = <Entry *>block.data
        cdef Entry *former = NULL if self.entries is None else <Entry *>self.entries.data
        cdef uint32_t h
        memset(table, 0xff, size * sizeof(Entry))
        for k in range(self.size):
            if former[k].value >= 0:
                h = former[k].hash & <uint32_t>(size - 1)
                while table[h].value >= 0:
                    h = (h + 1) & <uint32_t>(size - 1)
                table[h] = former[k]
        self.entries, self.size = block, size
        return 0

    cdef int32_t find_call(self, int32_t i) except -1:
        """Return the first call that is equal to this one, the newest; drop this one from the table if it is found."""
        cdef list known
        call = self.code.calls[len(self.code.calls) - 1]
        self.reset_users(i)
        if not is_function(call):
            return i
        known = self.calls.setdefault((id(call.compute), self.code.kinds[i], *call.operands), [])
        for v, other in known:
            if other.row is call.row and static((other.args, other.kwargs)) == static((call.args, call.kwargs)):
                self.code.calls.pop()
                return v
        known.append((i, call))
        return i


cdef int32_t number_one(Listing code, int32_t v, ValueTable known) except -1:
    """Return the first value equal to v, the newest, which is removed if another is found."""
    cdef int32_t first = v
    if code.ops[v] == CALL:
        first = known.find_call(v)
    elif is_numbered(code.ops[v]):
        sort_operands(code, v)
        first = known.find_or_add(v)
    else:
        known.reset_users(v)
    if first != v:
        code.n = v              # drop the duplicate
    return first


cdef inline int32_t last_operand(Listing code, Py_ssize_t i) noexcept:
    """Return the largest value id that an instruction reads; -1 if it reads none."""
    cdef int columns = names(code.ops[i])
    cdef int32_t last = code.as_[i] if columns & 1 else -1
    if columns & 2 and code.bs[i] > last:
        last = code.bs[i]
    if columns & 4 and code.cs[i] > last:
        last = code.cs[i]
    return last


cdef inline bint is_numbered(int op) noexcept:
    return op != PACK and op != INPUT and op != GUARD


cdef inline int sort_operands(Listing code, int32_t i) noexcept:
    """Canonicalise the operand order of commutative opcodes, which does not change a bit of the result."""
    if has(code.ops[i], IS_COMMUTATIVE) and code.as_[i] > code.bs[i]:
        code.as_[i], code.bs[i] = code.bs[i], code.as_[i]
    return 0


cdef inline uint32_t hash_of(Listing code, int32_t i) noexcept:
    cdef uint32_t h = <uint32_t>code.ops[i]
    h = (h ^ <uint32_t>code.as_[i]) * 0x9E3779B1u
    h = (h ^ (h >> 15) ^ <uint32_t>code.bs[i]) * 0x85EBCA77u
    h = (h ^ (h >> 13) ^ <uint32_t>code.cs[i]) * 0xC2B2AE3Du
    h = (h ^ (h >> 16) ^ <uint32_t>code.kinds[i]) * 0x27D4EB2Fu
    return h ^ (h >> 15)


cdef inline bint is_equal(Listing code, int32_t i, int32_t j) noexcept:
    return (code.ops[i] == code.ops[j] and code.as_[i] == code.as_[j] and code.bs[i] == code.bs[j]
            and code.cs[i] == code.cs[j] and code.kinds[i] == code.kinds[j])


# ---------------------------------------------------------------------------------------------- folding

cdef int32_t fold_one(Listing code, int32_t v, bint exact, StoredElements contents) except -1:
    """Return a simpler value equal to v, the newest, or v."""
    if code.ops[v] == LOAD:
        return forward_to_load(code, v, contents)
    if code.kinds[v] <= FLAG or code.ops[v] == SELECT or code.ops[v] == STRONG:
        return fold_elementwise(code, v, exact)
    if code.ops[v] == WG_ADD and not exact:
        return fold_add_zeros(code, v)
    if code.ops[v] == CALL:
        return fold_expand_dims(code, v) if exact else fold_call_add_zeros(code, fold_expand_dims(code, v))
    return v


cdef int32_t forward_to_load(Listing code, int32_t i, StoredElements contents) except -1:
    """Forward the store of an element to a LOAD, through PACK and fill."""
    cdef int32_t a = code.as_[i]
    if code.ops[a] == PACK:
        value = contents.element(a, code.bs[i])
        if value is not None:
            code.n = i
            return value
        a = contents.base
    if a < 0:
        code.n = i
        return code.constant(0.0)
    if code.ops[a] == PLACE and code.as_[a] < 0 and code.kinds[code.cs[a]] == SCALAR:     # filled with a scalar
        code.n = i
        return code.cs[a]
    code.as_[i] = a
    return i


cdef class StoredElements:
    """The scalars stored into arrays by chains of PACK, for store-to-load forwarding.

    A loop that fills an array makes a chain and mostly reads its newest array. The elements of a chain therefore are
    one dict, which moves to the newest array.
    """

    cdef Listing code
    cdef dict newest        # newest array of each chain: (elements of the chain, base of its first array)
    cdef dict own           # older arrays: elements stored by their PACK alone, None until needed
    cdef int32_t base       # base of the chain of the latest query, which holds all other elements; -1: zeros

    def __cinit__(self, Listing code):
        self.code, self.newest, self.own = code, {}, {}

    cdef object element(self, int32_t a, int32_t offset):
        """Return the last value stored at an offset of an array; None if there is none."""
        cdef dict elements
        cdef list line = []
        cdef int32_t v = a
        while v >= 0 and self.code.ops[v] == PACK and v not in self.newest:
            if v in self.own:
                return self.older(a, offset)
            line.append(v)
            v = self.code.as_[v]
        elements, self.base = self.newest.pop(v, None) or ({}, v)
        while line:
            v = line.pop()
            elements.update(self.put(v))
            self.own[v] = None
        self.newest[a] = elements, self.base
        return elements.get(offset)

    cdef object older(self, int32_t a, int32_t offset):
        """As `element`, for any array of a chain; walks the chain."""
        cdef dict elements
        while a >= 0 and self.code.ops[a] == PACK:
            elements = self.own.get(a)
            if elements is None:
                elements = self.own[a] = self.put(a)
            value = elements.get(offset)
            if value is not None:
                return value
            a = self.code.as_[a]
        self.base = a
        return None

    cdef dict put(self, int32_t a):
        """Return the values that a PACK stores, by offset."""
        offsets, values = self.code.packs[self.code.bs[a]]
        return dict(zip(offsets.tolist(), values.tolist()))


cdef int32_t forward_to_view(Listing code, int32_t i, bint keep_layout, Boxes boxes) except -1:
    """Forward a store to a view of the same part, or move the view before stores that it does not overlap.

    `keep_layout`: the memory layout of the view matters to its users, so that the stored value must have the same.
    A view that is moved far back keeps an array alive that would be overwritten in place otherwise. So it is moved far
    only to the array before all stores, which all such views share.
    """
    cdef int32_t a = code.as_[i], base
    cdef int steps = 0
    cdef tuple type = code.types[code.kinds[i]], other
    dtype = type[0]
    cdef Py_ssize_t itemsize = dtype.itemsize
    while True:
        base = code.as_[a]
        if code.ops[a] != PLACE or (code.kinds[a] != code.kinds[i] and code.types[code.kinds[a]][0] != dtype):
            break
        if code.bs[a] == code.bs[i]:
            other = code.types[code.kinds[code.cs[a]]]
            if other == type or (not keep_layout and code.kinds[code.cs[a]] > FLAG and other[:2] == type[:2]):
                code.n = i
                return code.cs[a]
        if base < 0 or code.kinds[base] != code.kinds[a]:
            break
        if not are_disjoint(boxes.of(code.bs[i]), boxes.of(code.bs[a]), itemsize):
            if steps >= MAX_STORES:
                return i
            break
        steps += 1
        boxes.steps += 1
        if steps == MAX_FAR_STORES or (steps == MAX_STORES and boxes.steps > MAX_STEPS):
            return i
        a = base
    code.as_[i] = a
    return i


cdef bytearray layout_matters(Listing code):
    """Mark arrays whose layout matters: outputs, and arrays read by address."""
    cdef bytearray found = bytearray(max(1, code.n))
    cdef unsigned char *marks = found
    cdef Py_ssize_t i
    cdef int32_t v
    for i in range(code.n):
        if code.ops[i] == CALL:
            if code.calls[code.as_[i]].row is None:     # a loop body was typed with the layouts of these operands
                for v in code.calls[code.as_[i]].operands:
                    marks[v] = 1
            continue
        if code.ops[i] == PUT:
            marks[code.cs[i]] = 1
        if names(code.ops[i]) & 1 and code.as_[i] >= 0 and not has(code.ops[i], READS_ELEMENTS):
            marks[code.as_[i]] = 1
    for v in code.outputs:
        marks[v] = 1
    return found


cdef struct Box:
    Py_ssize_t offset       # view descriptor, in bytes
    Py_ssize_t shape[MAX_AXES]
    Py_ssize_t strides[MAX_AXES]
    Py_ssize_t low          # offsets of the elements at the lowest and highest address
    Py_ssize_t high
    Py_ssize_t step         # gcd of the strides: elements lie on a lattice of this step; 0 for a single element
    int axes                # -1: not computed yet; above MAX_AXES: unknown
    bint is_empty


cdef class Boxes:
    """Caches the extents of a program's views."""

    cdef Listing code
    cdef Block block
    cdef Py_ssize_t n
    cdef Py_ssize_t steps           # stores that views were moved across

    def __cinit__(self, Listing code):
        self.code, self.n, self.steps = code, 0, 0

    cdef const Box *of(self, int32_t view) except NULL:
        cdef Block block
        cdef Box *box
        cdef Py_ssize_t i
        if view >= self.n:
            block = take(2 * len(self.code.views) * sizeof(Box))
            if self.n:
                memcpy(block.data, self.block.data, self.n * sizeof(Box))
            for i in range(self.n, 2 * len(self.code.views)):
                (<Box *>block.data)[i].axes = -1
            self.block, self.n = block, 2 * len(self.code.views)
        box = <Box *>self.block.data + view
        if box.axes < 0:
            measure(box, self.code.views[view])
        return box


def holds(Listing code, Boxes boxes, int32_t v, int32_t u, int32_t view, int max_stores):
    """Return whether a view of array v equals that of u: v must be u after at most `max_stores` stores outside it."""
    cdef int _
    for _ in range(max_stores):
        if v == u:
            return True
        if code.ops[v] != PLACE or code.as_[v] < 0 or code.kinds[v] != code.kinds[u]:
            return False
        if not are_disjoint(boxes.of(view), boxes.of(code.bs[v]), code.types[code.kinds[v]][0].itemsize):
            return False
        v = code.as_[v]
    return False


def uses(Listing code):
    """Count the uses of each value, by instructions and as an output."""
    cdef cnp.npy_intp n = code.n
    cdef cnp.ndarray found = cnp.PyArray_ZEROS(1, &n, cnp.NPY_INT32, 0)
    cdef int32_t *counts = <int32_t *>cnp.PyArray_DATA(found)
    cdef cnp.ndarray packed
    cdef Py_ssize_t i, j
    cdef int32_t v
    cdef int columns
    for i in range(code.n):
        columns = names(code.ops[i])
        if columns & 1 and code.as_[i] >= 0:
            counts[code.as_[i]] += 1
        if columns & 2 and code.bs[i] >= 0:
            counts[code.bs[i]] += 1
        if columns & 4 and code.cs[i] >= 0:
            counts[code.cs[i]] += 1
        if code.ops[i] == PACK:
            packed = code.packs[code.bs[i]][1]
            for j in range(cnp.PyArray_SIZE(packed)):
                counts[(<int32_t *>cnp.PyArray_DATA(packed))[j]] += 1
        elif code.ops[i] == CALL:
            for v in code.calls[code.as_[i]].operands:
                counts[v] += 1
    for v in code.outputs:
        counts[v] += 1
    return found.tolist()


cdef int measure(Box *box, tuple view) except -1:
    cdef Py_ssize_t n, stride
    cdef int k
    cdef tuple shape = view[1], strides = view[2]
    box.offset = box.low = box.high = view[0]
    box.is_empty, box.step = 0 in shape, 0
    box.axes = <int>min(len(shape), MAX_AXES + 1)
    for k in range(min(box.axes, MAX_AXES)):
        n, stride = shape[k], strides[k]
        box.shape[k], box.strides[k] = n, stride
        box.step = gcd(box.step, abs(stride))
        if stride < 0:
            box.low += (n - 1) * stride
        else:
            box.high += (n - 1) * stride
    return 0


cdef inline Py_ssize_t gcd(Py_ssize_t a, Py_ssize_t b) noexcept:
    """Return the greatest common divisor."""
    while b:
        a, b = b, a % b
    return a


def apart(tuple a, tuple b, Py_ssize_t itemsize):
    """Return whether two views of an array are disjoint; False if unknown."""
    cdef Box first, second
    measure(&first, a)
    measure(&second, b)
    return are_disjoint(&first, &second, itemsize)


cdef bint are_disjoint(const Box *a, const Box *b, Py_ssize_t itemsize) noexcept:
    cdef Py_ssize_t step, between
    if a.is_empty or b.is_empty:
        return True
    if a.axes > MAX_AXES or b.axes > MAX_AXES:
        return False
    if have_equal_strides(a, b) and boxes_disjoint(a, b):
        return True
    if a.high < b.low or b.high < a.low:
        return True
    step = gcd(a.step, b.step)      # both views lie on lattices of this step
    if step == 0:
        return False
    between = (b.offset - a.offset) % step
    between += step if between < 0 else 0
    return itemsize <= between <= step - itemsize


cdef inline bint have_equal_strides(const Box *a, const Box *b) noexcept:
    cdef int k
    if a.axes != b.axes:
        return False
    for k in range(a.axes):
        if a.strides[k] != b.strides[k]:
            return False
    return True


cdef bint boxes_disjoint(const Box *a, const Box *b) noexcept:
    """As `are_apart`, for boxes of an array in C order, which have its strides; False if unknown."""
    cdef Py_ssize_t i = a.offset, j = b.offset, stride, before = 0
    cdef int k
    cdef bint found = False
    for k in range(a.axes):
        stride = a.strides[k]
        if stride <= 0 or (k and before % stride):
            return False
        # a box must not cross the end of a row; the first axis has no such end
        if k and (i // stride + a.shape[k] > before // stride or j // stride + b.shape[k] > before // stride):
            return False
        found |= i // stride + a.shape[k] <= j // stride or j // stride + b.shape[k] <= i // stride
        i, j, before = i % stride, j % stride, stride
    return found and i == j


cdef int32_t fold_elementwise(Listing code, int32_t i, bint exact) except -1:
    """Simplify an elementwise instruction by identities and constant folding."""
    cdef int op = code.ops[i]
    cdef int32_t a = code.as_[i], b = code.bs[i]
    cdef double x = 0.0, y = 0.0
    cdef bint left, right
    if op == SELECT:
        if is_constant(code, a, &x) and code.kinds[code.cs[i] if x == 0.0 else b] == code.kinds[i]:
            code.n = i
            return code.cs[i] if x == 0.0 else b
        return i
    if PARTIAL <= op < INPUT:
        return fold_partial(code, i)
    if not has(op, IS_ELEMENTWISE) or a < 0:
        return i
    left = is_constant(code, a, &x)
    right = b >= 0 and is_constant(code, b, &y)
    if op == STRONG or op == WG_MULTIPLY:
        if left and x == 1.0 and code.kinds[b] == code.kinds[i]:
            code.n = i
            return b
        if right and y == 1.0 and code.kinds[a] == code.kinds[i]:
            code.n = i
            return a
        if not exact and left != right:
            return fold_scale(code, i, b if left else a, x if left else y)
    if op == WG_POSITIVE or (op == WG_DIVIDE and right and y == 1.0 and code.kinds[a] == code.kinds[i]):
        code.n = i
        return a
    if op == WG_NEGATIVE and code.ops[a] == WG_NEGATIVE:
        code.n = i
        return code.as_[a]
    if code.kinds[i] > FLAG or not left or (b >= 0 and not right):
        return i
    if op == STRONG:
        value = 0.0 if x == 0.0 or y == 0.0 else x * y
    elif op >= LESS:
        code.n = i
        i = code.constant(function(op)(x, y) if b >= 0 else function(op)(x))
        code.kinds[i] = FLAG
        return i
    elif by_opcode[op] is None:             # not a NumPy function: no scalar kernel
        return i
    elif op < WG_ADD:
        value = (<Kernel>by_opcode[op]).value1(x)
    elif op == WG_POW:
        value = float(np.float64(x) ** y)
    else:
        value = (<Kernel>by_opcode[op]).value2(x, y)
    code.n = i
    return code.constant(value)


cdef int32_t fold_add_zeros(Listing code, int32_t i) except -1:
    """Simplify ``a + b`` to one operand if the other is an array of zeros, or a view of one."""
    cdef int32_t a = code.as_[i], b = code.bs[i]
    if is_zeros(code, b) and code.kinds[a] == code.kinds[i]:
        code.n = i
        return a
    if is_zeros(code, a) and code.kinds[b] == code.kinds[i]:
        code.n = i
        return b
    return i


cdef int32_t fold_expand_dims(Listing code, int32_t i) except -1:
    """Rewrite ``expand_dims`` of a scalar as an array filled with it."""
    cdef tuple type = code.types[code.kinds[i]]
    call = code.calls[code.as_[i]]
    if call.compute is not np.expand_dims or len(call.operands) != 1 or type[0] != np.float64 or type[2] is not None:
        return i
    if code.kinds[<int32_t>call.operands[0]] != SCALAR:
        return i
    code.calls.pop()
    code.n = i
    return code.place(-1, whole_view(type), call.operands[0], type)


cdef int32_t fold_call_add_zeros(Listing code, int32_t i) except -1:
    """Remove a call that adds constant zeros, with which adjoints of dtypes other than float64 start."""
    cdef int32_t v
    if code.ops[i] != CALL:
        return i
    call = code.calls[code.as_[i]]
    if call.row is None or call.row.fun is not np.add or len(call.operands) != 1 or len(call.args) != 2 or call.kwargs:
        return i
    v = call.operands[0]
    zeros = call.args[0] if isinstance(call.args[0], np.ndarray) else call.args[1]
    if code.kinds[v] != code.kinds[i] or not isinstance(zeros, np.ndarray) or zeros.any():
        return i
    code.calls.pop()
    code.n = i
    return v


cdef bint is_zeros(Listing code, int32_t v) except -1:
    cdef double value = 1.0
    if code.ops[v] == VIEW:
        v = code.as_[v]
    return code.ops[v] == PLACE and code.as_[v] < 0 and is_constant(code, code.cs[v], &value) and value == 0.0


cdef int32_t fold_partial(Listing code, int32_t i) except -1:
    """Fold a partial at constants, if it is finite."""
    cdef int opcode = (code.ops[i] - PARTIAL) // 2
    cdef double x[3]
    cdef int k
    cdef int32_t v
    if by_opcode[opcode] is None:           # not a NumPy function: no scalar kernel
        return i
    for k, v in enumerate((code.as_[i], code.bs[i], code.cs[i])):
        x[k] = 0.0
        if v >= 0 and not is_constant(code, v, &x[k]):
            return i
    value = kernel_partials(opcode, x[0], x[1], x[2])[(code.ops[i] - PARTIAL) % 2]
    if not math.isfinite(value):
        return i
    code.n = i
    return code.constant(value)


cdef int32_t fold_scale(Listing code, int32_t i, int32_t v, double x) except -1:
    """Simplify a product with a constant: times -1 is NEGATIVE; strong zero is not needed for a finite nonzero one."""
    if x == -1.0 and code.kinds[v] == code.kinds[i]:
        code.ops[i], code.as_[i], code.bs[i] = WG_NEGATIVE, v, -1
        if code.ops[v] == WG_NEGATIVE:
            code.n = i
            return code.as_[v]
    elif x != 0.0 and math.isfinite(x):     # 0 times such a constant is 0 anyway
        code.ops[i] = WG_MULTIPLY
    return i


cdef inline bint is_constant(Listing code, int32_t v, double *value) except -1:
    if v < 0 or code.ops[v] != CONST:
        return False
    value[0] = code.constants[code.as_[v]]
    return True


include "nan_guards.pxi"
