# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Index sets for sparsity detection: for each scalar of a program, the set of inputs that it may depend on.

Data
    Sets       stores all sets consecutively. A set has an integer id and is immutable; equal sets share an id where
               that is cheap to detect. Set 0 is empty, set j + 1 contains only column j. For second derivatives it
               also stores the pairs of sets whose members interact.
    Sweep      one forward pass over a program: the set of each scalar, and for each array a buffer with the set of each
               element, in memory order

Moving, slicing or gathering an array moves, slices or gathers its set ids in the same way.
"""

cimport numpy as cnp
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memmove, memset

import numpy as np

from wengert.core.tape.kernel cimport Kernel, kernels
from wengert.core.tape.tape cimport WG_MULTIPLY, WG_POW
from wengert.program.ir.ir cimport FLAG, Listing, names
from wengert.program.ir.opcodes cimport *

cnp.import_array()

cdef int32_t LAST_EPOCH = 0x7fffffff

cdef Py_ssize_t MIN_GC_MEMBERS = 1 << 24          # 64 MB of members; below, unreferenced sets are kept

cdef enum:
    MAX_BUFFERS = 16            # buffers united in one pass


cdef void *reallocate(void *old, size_t size) except NULL:
    """Reallocate memory or raise MemoryError."""
    cdef void *found = PyMem_RawRealloc(old, size if size else 1)
    if found == NULL:
        raise MemoryError(f"no memory for {size} bytes of index sets")
    return found


cdef int ascending(const void *a, const void *b) noexcept nogil:
    cdef int32_t x = (<const int32_t *>a)[0], y = (<const int32_t *>b)[0]
    return (x > y) - (x < y)


cdef class Pairs
cdef class Sweep


cdef class Sets:
    """Storage of index sets by id."""

    cdef readonly Py_ssize_t n      # number of columns
    cdef readonly bint second       # whether interactions are recorded
    cdef readonly Py_ssize_t count  # number of sets
    cdef public Py_ssize_t limit    # number of members at which unreferenced sets are dropped
    cdef public list frames         # owners of references: sweeps, and lists of arrays
    cdef Py_ssize_t capacity, space
    cdef int32_t *members           # members of all sets, ascending in each
    cdef int64_t *starts            # set s is members[starts[s]:starts[s + 1]]
    cdef int32_t *above             # a later set that contains this one; -1: unknown
    cdef int32_t *seen              # epoch of the last union that visited a set
    cdef int32_t *mark              # epoch of the last union that visited a column
    cdef int32_t *found             # columns of a union
    cdef int32_t epoch
    cdef Pairs pairs

    def __cinit__(self, Py_ssize_t n, bint second=False):
        cdef Py_ssize_t j
        if n > 0x3fffffff:
            raise MemoryError(f"a pattern of {n} columns")
        self.n, self.second = n, second
        self.limit, self.frames = MIN_GC_MEMBERS, []
        self.pairs = Pairs()
        self.mark = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        self.found = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        memset(self.mark, 0, n * sizeof(int32_t))
        self.reserve(2 * n + 64, 4 * n + 64)
        self.starts[0] = self.starts[1] = 0
        for j in range(n):
            self.members[j] = <int32_t>j
            self.starts[j + 2] = j + 1
        self.count = n + 1

    def __dealloc__(self):
        PyMem_RawFree(self.members)
        PyMem_RawFree(self.starts)
        PyMem_RawFree(self.above)
        PyMem_RawFree(self.seen)
        PyMem_RawFree(self.mark)
        PyMem_RawFree(self.found)

    cdef int reserve(self, Py_ssize_t capacity, Py_ssize_t space) except -1:
        """Allocate memory for this many sets and members."""
        cdef Py_ssize_t before = self.capacity
        if capacity > before:
            if capacity > 0x7ffffffe:
                raise MemoryError("a pattern of more than 2**31 index sets")
            self.starts = <int64_t *>reallocate(self.starts, (capacity + 1) * sizeof(int64_t))
            self.above = <int32_t *>reallocate(self.above, capacity * sizeof(int32_t))
            self.seen = <int32_t *>reallocate(self.seen, capacity * sizeof(int32_t))
            memset(self.above + before, 0xff, (capacity - before) * sizeof(int32_t))
            memset(self.seen + before, 0, (capacity - before) * sizeof(int32_t))
            self.capacity = capacity
        if space > self.space:
            self.members = <int32_t *>reallocate(self.members, space * sizeof(int32_t))
            self.space = space
        return 0

    cdef inline Py_ssize_t size(self, int32_t s) noexcept:
        return <Py_ssize_t>(self.starts[s + 1] - self.starts[s])

    # ------------------------------------------------------------------------------------------ unions

    cdef int32_t next_epoch(self) noexcept:
        if self.epoch == LAST_EPOCH:
            memset(self.mark, 0, self.n * sizeof(int32_t))
            memset(self.seen, 0, self.capacity * sizeof(int32_t))
            self.epoch = 0
        self.epoch += 1
        return self.epoch

    cdef int32_t union_of(self, const int32_t *sets, Py_ssize_t count) except -1:
        """Union of some sets; returns an existing set if it equals the union."""
        cdef Py_ssize_t k, length = 0, distinct = 0
        cdef int64_t i
        cdef int32_t s, j, epoch, largest = 0, other = 0, made
        if count == 1 or (count == 2 and (sets[1] == 0 or sets[0] == sets[1])):
            return sets[0]
        epoch = self.next_epoch()
        for k in range(count):
            s = sets[k]
            if s == 0 or self.seen[s] == epoch:
                continue
            self.seen[s] = epoch
            distinct += 1
            if self.size(s) > self.size(largest):
                other, largest = largest, s
            else:
                other = s
        if distinct <= 1:
            return largest
        if distinct == 2:
            length = self.merge(largest, other)
        else:
            for k in range(count):
                s = sets[k]
                if self.seen[s] != epoch or s == 0:
                    continue
                self.seen[s] = 0
                for i in range(self.starts[s], self.starts[s + 1]):
                    j = self.members[i]
                    if self.mark[j] != epoch:
                        self.mark[j] = epoch
                        self.found[length] = j
                        length += 1
                if length == self.n:
                    break
            if length > self.size(largest):
                self.sort(length, epoch)
        made = largest if length == self.size(largest) else self.append(length)
        if self.second:
            for k in range(count):
                if sets[k] and sets[k] < made:
                    self.above[sets[k]] = made
        return made

    cdef Py_ssize_t merge(self, int32_t s, int32_t t) noexcept:
        """Merge the members of two sets in order; return their number."""
        cdef const int32_t *a = self.members + self.starts[s]
        cdef const int32_t *b = self.members + self.starts[t]
        cdef const int32_t *a_end = self.members + self.starts[s + 1]
        cdef const int32_t *b_end = self.members + self.starts[t + 1]
        cdef int32_t *to = self.found
        while a < a_end and b < b_end:
            if a[0] < b[0]:
                to[0] = a[0]
                a += 1
            elif b[0] < a[0]:
                to[0] = b[0]
                b += 1
            else:
                to[0] = a[0]
                a += 1
                b += 1
            to += 1
        memcpy(to, a, (a_end - a) * sizeof(int32_t))
        to += a_end - a
        memcpy(to, b, (b_end - b) * sizeof(int32_t))
        to += b_end - b
        return to - self.found

    cdef void sort(self, Py_ssize_t length, int32_t epoch) noexcept:
        """Sort the columns in `found`."""
        cdef Py_ssize_t i, k, low, high
        cdef int32_t j
        cdef int32_t *found = self.found
        if length <= 32:
            for i in range(1, length):
                j = found[i]
                k = i
                while k > 0 and found[k - 1] > j:
                    found[k] = found[k - 1]
                    k -= 1
                found[k] = j
            return
        low = high = found[0]
        for i in range(1, length):
            low = min(low, <Py_ssize_t>found[i])
            high = max(high, <Py_ssize_t>found[i])
        if high - low > 16 * length:
            qsort(found, length, sizeof(int32_t), ascending)
            return
        k = 0
        for i in range(low, high + 1):
            if self.mark[i] == epoch:
                found[k] = <int32_t>i
                k += 1

    cdef int32_t append(self, Py_ssize_t length) except -1:
        """Append a set of the columns in `found`; return the last set if it is equal."""
        cdef int32_t last = <int32_t>(self.count - 1)
        cdef int64_t end = self.starts[self.count]
        cdef const int32_t *before = self.members + self.starts[last]
        if self.size(last) == length and before[0] == self.found[0] and memcmp(
                before, self.found, length * sizeof(int32_t)) == 0:
            return last
        if self.count == self.capacity or end + length > self.space:
            self.reserve(self.capacity if self.count < self.capacity else 2 * self.capacity,
                         self.space if end + length <= self.space else 2 * self.space + length)
        memcpy(self.members + end, self.found, length * sizeof(int32_t))
        self.count += 1
        self.starts[self.count] = end + length
        return last + 1

    def united(self, list buffers, int32_t common=0):
        """Elementwise union of buffers of equal length, and of one more set."""
        cdef const int32_t *buffer[MAX_BUFFERS]
        cdef int32_t here[MAX_BUFFERS + 1]
        cdef int32_t before[MAX_BUFFERS + 1]
        cdef Py_ssize_t i, k, count = len(buffers), size = len(buffers[0])
        cdef int32_t last = 0
        cdef bint is_new
        cdef cnp.ndarray one
        cdef cnp.ndarray found = np.empty(size, dtype=np.int32)
        cdef int32_t *to = <int32_t *>cnp.PyArray_DATA(found)
        if count > MAX_BUFFERS:
            return self.united([self.united(buffers[:MAX_BUFFERS]), *buffers[MAX_BUFFERS:]], common)
        for k in range(count):
            one = buffers[k]
            buffer[k] = <const int32_t *>cnp.PyArray_DATA(one)
        here[count] = common
        memset(before, 0xff, sizeof(before))
        for i in range(size):
            is_new = False
            for k in range(count):
                here[k] = buffer[k][i]
                is_new |= here[k] != before[k]
            if is_new:
                last = self.union_of(here, count + (common != 0))
                memcpy(before, here, sizeof(before))
            to[i] = last
        return found

    def groups(self, const int64_t[::1] ends, const int32_t[::1] sets):
        """The unions of sets[ends[i]:ends[i + 1]]."""
        cdef Py_ssize_t i, size = ends.shape[0] - 1
        cdef cnp.ndarray found = np.empty(size, dtype=np.int32)
        cdef int32_t *to = <int32_t *>cnp.PyArray_DATA(found)
        cdef const int32_t *first = &sets[0] if sets.shape[0] else NULL
        for i in range(size):
            to[i] = self.union_of(first + ends[i], <Py_ssize_t>(ends[i + 1] - ends[i])) if ends[i + 1] > ends[i] else 0
        return found

    def running(self, const int32_t[:, ::1] rows):
        """Cumulative unions along each row."""
        cdef Py_ssize_t i, k
        cdef int32_t both[2]
        cdef int32_t[:, ::1] found = np.empty((rows.shape[0], rows.shape[1]), dtype=np.int32)
        for i in range(rows.shape[0]):
            both[0] = 0
            for k in range(rows.shape[1]):
                both[1] = rows[i, k]
                found[i, k] = both[0] = self.union_of(both, 2)
        return np.asarray(found)

    def total(self, list buffers, int32_t common=0):
        """Union of all sets in some buffers."""
        cdef const int32_t[::1] buffer
        cdef int32_t both[2]
        both[0] = common
        for buffer in buffers:
            if buffer.shape[0]:
                both[1] = self.union_of(&buffer[0], buffer.shape[0])
                both[0] = self.union_of(both, 2)
        return both[0]

    # ------------------------------------------------------------------------------------------ garbage collection

    cdef bint is_full(self) noexcept:
        return self.starts[self.count] > self.limit

    def compact(self):
        """Drop unreferenced sets; the others get new ids, in the same order."""
        cdef int32_t[::1] new = np.zeros(self.count, dtype=np.int32)
        cdef Py_ssize_t i, kept = 0
        cdef int64_t end = 0, length
        cdef int32_t s
        for i in range(self.n + 1):
            new[i] = 1
        for frame in self.frames:
            (<Sweep>frame).mark_referenced(new) if isinstance(frame, Sweep) else mark_referenced(frame, new)
        for i in range(self.pairs.count):
            new[<int32_t>(self.pairs.keys[i] >> 32)] = new[<int32_t>(self.pairs.keys[i] & 0xffffffffu)] = 1
        for i in range(self.count - 1, -1, -1):         # replace a dropped superset by its own superset
            s = self.above[i]
            if s >= 0 and not new[s]:
                self.above[i] = self.above[s]
        for i in range(self.count):
            if new[i]:
                length = self.starts[i + 1] - self.starts[i]
                memmove(self.members + end, self.members + self.starts[i], length * sizeof(int32_t))
                self.starts[kept] = end
                self.above[kept] = self.above[i]
                end += length
                new[i] = <int32_t>kept
                kept += 1
        self.starts[kept] = end
        for i in range(kept):
            if self.above[i] >= 0:
                self.above[i] = new[self.above[i]]
        memset(self.above + kept, 0xff, (self.capacity - kept) * sizeof(int32_t))
        memset(self.seen, 0, self.capacity * sizeof(int32_t))
        self.count = kept
        self.limit = max(self.limit, 3 * end)
        for i in range(self.pairs.count):
            self.pairs.keys[i] = ((<uint64_t>new[<int32_t>(self.pairs.keys[i] >> 32)] << 32)
                                  | <uint64_t>new[<int32_t>(self.pairs.keys[i] & 0xffffffffu)])
        memset(self.pairs.last, 0, RECENT_PAIRS * sizeof(uint64_t))
        numbers, known = np.asarray(new), {}
        for frame in self.frames:
            (<Sweep>frame).renumber(new, known) if isinstance(frame, Sweep) else renumber(frame, numbers, known)

    # ------------------------------------------------------------------------------------------ results

    def rows(self, const int32_t[::1] sets):
        """Return indptr and indices of a sparse matrix whose rows are the given sets."""
        cdef Py_ssize_t i, size = sets.shape[0]
        cdef int64_t[::1] ends = np.zeros(size + 1, dtype=np.int64)
        for i in range(size):
            ends[i + 1] = ends[i] + self.size(sets[i])
        cdef cnp.ndarray indices = np.empty(ends[size], dtype=np.int32)
        cdef int32_t *to = <int32_t *>cnp.PyArray_DATA(indices)
        for i in range(size):
            memcpy(to + ends[i], self.members + self.starts[sets[i]], (ends[i + 1] - ends[i]) * sizeof(int32_t))
        dtype = np.int32 if ends[size] <= 0x7fffffff else np.int64
        return np.asarray(ends).astype(dtype), (<object>indices).astype(dtype, copy=False)

    def interact(self, const int32_t[::1] first, const int32_t[::1] second):
        """Record that the members of corresponding sets in two buffers interact."""
        cdef Py_ssize_t i
        cdef int32_t a = -1, b = -1
        for i in range(first.shape[0]):
            if first[i] != a or second[i] != b:
                a, b = first[i], second[i]
                self.pairs.add(a, b)


def mark_referenced(lists, new):
    """Mark the sets referenced by lists of arrays, None, and pairs of buffers and a set."""
    for items in lists:
        for item in items:
            if type(item) is tuple:
                mark_referenced(item[:1], new)
                new[item[1]] = 1
            elif type(item) is np.ndarray:
                np.asarray(new)[item] = 1


def renumber(lists, new, known):
    """Replace set ids in lists of arrays by new ones; an array that occurs several times stays shared."""
    for items in lists:
        for k, item in enumerate(items):
            if type(item) is tuple:
                buffers = list(item[0])
                renumber([buffers], new, known)
                items[k] = buffers, int(new[item[1]])
            elif type(item) is np.ndarray:
                if id(item) not in known:
                    known[id(item)] = np.asarray(new[item]), item       # keeps the array alive and its id unique
                items[k] = known[id(item)][0]


include "interactions.pxi"
include "dependency_sweep.pxi"
