# All indices are computed here, not passed by users, and no division has a divisor from the user:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Index sets for sparsity detection: for each scalar of a program, the set of inputs that it may depend on.

Data
    Sets       stores all sets consecutively. A set has an integer id and is immutable; equal sets share an id if
               that is detected cheaply. Set 0 is empty, set j + 1 contains only column j. For second derivatives it
               also stores the pairs of sets whose members interact.
    Sweep      one forward pass over a program: the set of each scalar, and for each array a buffer with the set of each
               element, in memory order

A value that is moved, sliced or gathered is an array of set ids that is moved, sliced or gathered.
A scalar that is read only once is not given a set: the sets below it are united where they are needed, so that a
sum of n terms takes O(n) steps, not O(n**2).

Second derivatives are the pairs of inputs that interact in a nonlinear instruction (Walther 2008, Computing
sparse Hessians with automatic differentiation, doi:10.1145/1322436.1322439; Gower and Mello 2012,
doi:10.1080/10556788.2011.580098).
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

cdef int WG_POWER = (<Kernel>kernels[np.power]).opcode
cdef int32_t LAST_EPOCH = 0x7fffffff

cdef Py_ssize_t MIN_GC_MEMBERS = 1 << 24          # 64 MB of members; below, unreferenced sets are kept
cdef int64_t MAX_BLOCK_PARTNERS = 1 << 24         # bounds the work array of `unite_partners` to 64 MB

cdef enum:
    MAX_BUFFERS = 16            # buffers united in one pass
    RECENT_PAIRS = 1 << 14      # size of the table of recent pairs
    AA = 1                      # second partials of an elementwise function that may be nonzero
    AB = 2
    BB = 4


cdef void *reallocate(void *old, size_t size) except NULL:
    """Reallocate memory or raise MemoryError."""
    cdef void *found = PyMem_RawRealloc(old, size if size else 1)
    if found == NULL:
        raise MemoryError(f"no memory for {size} bytes of index sets")
    return found


cdef int ascending(const void *a, const void *b) noexcept nogil:
    cdef int32_t x = (<const int32_t *>a)[0], y = (<const int32_t *>b)[0]
    return (x > y) - (x < y)


cdef inline uint64_t hashed(uint64_t key) noexcept nogil:
    """Hash of an integer (the finaliser of MurmurHash3)."""
    key = (key ^ (key >> 33)) * 0xff51afd7ed558ccdu
    key = (key ^ (key >> 33)) * 0xc4ceb9fe1a85ec53u
    return key ^ (key >> 33)


cdef class Pairs:
    """Pairs of set ids, the smaller one first, in order of insertion.

    A table of recent pairs avoids most duplicates; the others are removed occasionally.
    """

    cdef uint64_t *keys
    cdef uint64_t *last
    cdef Py_ssize_t capacity, count, limit

    def __cinit__(self):
        self.limit = 1 << 22
        self.last = <uint64_t *>reallocate(NULL, RECENT_PAIRS * sizeof(uint64_t))
        memset(self.last, 0, RECENT_PAIRS * sizeof(uint64_t))

    def __dealloc__(self):
        PyMem_RawFree(self.keys)
        PyMem_RawFree(self.last)

    cdef int add(self, int32_t a, int32_t b) except -1:
        cdef uint64_t key
        cdef Py_ssize_t place
        if a == 0 or b == 0:            # the empty set does not interact
            return 0
        key = (<uint64_t>min(a, b) << 32) | <uint64_t>max(a, b)
        place = <Py_ssize_t>((key ^ (key >> 32) * 0x9E3779B1u) & <uint64_t>(RECENT_PAIRS - 1))
        if self.last[place] == key:
            return 0
        self.last[place] = key
        if self.count == self.capacity:
            if self.count >= self.limit:
                self.make_unique()
                self.limit = max(self.limit, 2 * self.count)
            self.capacity = max(1024, self.capacity if self.count < self.capacity else 2 * self.capacity)
            self.keys = <uint64_t *>reallocate(self.keys, self.capacity * sizeof(uint64_t))
        self.keys[self.count] = key
        self.count += 1
        return 0

    cdef int make_unique(self) except -1:
        cdef cnp.npy_intp n = self.count
        cdef cnp.ndarray found
        if n:
            found = np.unique(cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT64, self.keys))
            self.count = cnp.PyArray_SIZE(found)
            memcpy(self.keys, cnp.PyArray_DATA(found), self.count * sizeof(uint64_t))
        return 0


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
        for i in range(self.count - 1, -1, -1):         # replace dropped supersets by theirs
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
        """Some sets as the rows of a sparse matrix: indptr and indices."""
        cdef Py_ssize_t i, size = sets.shape[0]
        cdef int64_t total = 0
        for i in range(size):
            total += self.size(sets[i])
        cdef cnp.ndarray ends = np.zeros(size + 1, dtype=index_type(total))
        cdef cnp.ndarray indices = np.empty(total, dtype=ends.dtype)
        cdef const int32_t *first
        cdef Py_ssize_t k, length, place = 0
        cdef bint is_short = cnp.PyArray_ITEMSIZE(ends) == 4
        cdef int32_t *short_ends = <int32_t *>cnp.PyArray_DATA(ends)
        cdef int64_t *long_ends = <int64_t *>cnp.PyArray_DATA(ends)
        for i in range(size):
            first = self.members + self.starts[sets[i]]
            length = self.size(sets[i])
            if is_short:
                memcpy(<int32_t *>cnp.PyArray_DATA(indices) + place, first, length * sizeof(int32_t))
            else:
                for k in range(length):
                    (<int64_t *>cnp.PyArray_DATA(indices))[place + k] = first[k]
            place += length
            if is_short:
                short_ends[i + 1] = <int32_t>place
            else:
                long_ends[i + 1] = place
        return ends, indices

    def interact(self, const int32_t[::1] first, const int32_t[::1] second):
        """Record that the members of the sets of one buffer interact with those of another, element by element."""
        cdef Py_ssize_t i
        cdef int32_t a = -1, b = -1
        for i in range(first.shape[0]):
            if first[i] != a or second[i] != b:
                a, b = first[i], second[i]
                self.pairs.add(a, b)

    def interactions(self):
        """All interacting pairs of columns as the rows of a sparse matrix: indptr and indices."""
        cdef int64_t[::1] counts = np.zeros(self.n, dtype=np.int64)
        cdef int32_t[::1] rows = np.empty(self.n, dtype=np.int32)
        cdef Pairs pairs = self.needed_pairs()
        cdef Py_ssize_t i, low = 0, high
        cdef int64_t total
        cdef int32_t a, b
        for i in range(pairs.count):
            a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
            self.count_members(a, counts)
            if a != b:
                self.count_members(b, counts)
        self.second = False                     # sets made below are in no pair
        while low < self.n:                     # a block of columns whose partners fit in memory
            high, total = low, 0
            while high < self.n and (total < MAX_BLOCK_PARTNERS or high == low):
                total += counts[high]
                high += 1
            self.unite_partners(pairs, low, high, counts, rows)
            low = high
        return self.rows(rows)

    cdef int unite_partners(self, Pairs pairs, Py_ssize_t low, Py_ssize_t high, int64_t[::1] counts,
                            int32_t[::1] rows) except -1:
        """Rows of a block of columns: the unions of the sets that theirs are paired with."""
        cdef int64_t[::1] ends = np.zeros(high - low + 1, dtype=np.int64)
        cdef int32_t[::1] partners
        cdef int64_t end = 0
        cdef Py_ssize_t i
        cdef int32_t a, b
        for i in range(low, high):
            ends[i - low] = end
            end += counts[i]
        ends[high - low] = end
        partners = np.empty(max(1, end), dtype=np.int32)
        for i in range(pairs.count):
            a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
            self.enter(a, b, low, high, ends, partners)
            if a != b:
                self.enter(b, a, low, high, ends, partners)
        for i in range(low, high):
            end = ends[i - low] - counts[i]     # `enter` advanced it to the start of the next column
            rows[i] = self.union_of(&partners[end], self.drop_covered(&partners[end], counts[i])) if counts[i] else 0
        return 0

    cdef Py_ssize_t drop_covered(self, int32_t *sets, int64_t count) noexcept:
        """Remove sets whose known superset is also present; return the number left."""
        cdef int32_t epoch = self.next_epoch()
        cdef int64_t i
        cdef Py_ssize_t kept = 0
        cdef int32_t s
        for i in range(count):
            self.seen[sets[i]] = epoch
        for i in range(count):
            s = sets[i]
            if self.above[s] < 0 or self.seen[self.above[s]] != epoch:
                sets[kept] = s
                kept += 1
        return kept

    cdef void count_members(self, int32_t s, int64_t[::1] counts) noexcept:
        cdef int64_t i
        for i in range(self.starts[s], self.starts[s + 1]):
            counts[self.members[i]] += 1

    cdef void enter(self, int32_t s, int32_t partner, Py_ssize_t low, Py_ssize_t high, int64_t[::1] ends,
                    int32_t[::1] partners) noexcept:
        """Enter `partner` for the columns of a set between two bounds."""
        cdef int64_t first = self.starts[s], last = self.starts[s + 1], middle
        cdef int64_t stop = last
        cdef int32_t j
        while first < last:
            middle = (first + last) >> 1
            if self.members[middle] < low:
                first = middle + 1
            else:
                last = middle
        while first < stop and self.members[first] < high:
            j = self.members[first] - <int32_t>low
            partners[ends[j]] = partner
            ends[j] += 1
            first += 1

    cdef Pairs needed_pairs(self):
        """The pairs without those contained in others, and with one id for equal sets if that pays."""
        cdef Pairs found = Pairs(), pairs = self.pairs
        cdef int32_t[::1] cover = np.full(self.count, -1, dtype=np.int32)
        cdef Py_ssize_t i, size = 64
        cdef int32_t a, b, s
        cdef double work = 0
        cdef int32_t[::1] table
        for i in range(pairs.count):
            a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
            if a == b:
                cover[a] = a
            work += <double>self.size(a) * <double>self.size(b)
        for i in range(self.count - 1, 0, -1):          # find a superset all of whose members interact
            s = self.above[i]
            if s >= 0 and cover[s] >= 0:
                cover[i] = cover[s]
        if work < 32.0 * pairs.count:
            return pairs
        while size < 4 * pairs.count:
            size *= 2
        table = np.zeros(size, dtype=np.int32)
        for i in range(pairs.count):
            a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
            if cover[a] < 0 or cover[a] != cover[b] or (a == b and cover[a] == a):
                found.add(self.canonical(a, table), self.canonical(b, table))
        found.make_unique()
        return found

    cdef int32_t canonical(self, int32_t s, int32_t[::1] table) noexcept:
        """The id that represents all sets with these members."""
        cdef const int32_t *first = self.members + self.starts[s]
        cdef Py_ssize_t k, length = self.size(s)
        cdef uint64_t h = <uint64_t>length
        for k in range(length):
            h = hashed(h ^ <uint64_t>first[k]) + 1
        h &= <uint64_t>(table.shape[0] - 1)
        while table[h] != 0:
            if self.size(table[h]) == length and memcmp(self.members + self.starts[table[h]], first,
                                                        length * sizeof(int32_t)) == 0:
                return table[h]
            h = (h + 1) & <uint64_t>(table.shape[0] - 1)
        table[h] = s
        return s


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
    """Replace set ids in such lists by new ones; an array that occurs several times stays shared."""
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


def index_type(total):
    """Index dtype of a matrix with `total` entries."""
    return np.int32 if total <= 0x7fffffff else np.int64


# ---------------------------------------------------------------------------------------------- a pass over a program

cdef inline int differentiable(int op) noexcept:
    """Bit mask of the operand columns that the value of an instruction has a derivative by: 1 | 2 | 4."""
    if LESS <= op <= ISNAN or op == STOP or op == GUARD:
        return 0
    if op == SELECT:
        return 6
    if op == GATHER or op == SCATTER:
        return 1
    if op == PUT:
        return 5
    return names(op) & 7


def with_outputs(Listing code, list outputs):
    """Copy of the IR with other outputs."""
    cdef Listing found = code.copy()
    found.outputs = outputs
    return found


cdef class Sweep:
    """One forward pass over a program. A subclass implements array instructions in `array`."""

    cdef readonly Listing code
    cdef readonly Sets sets
    cdef public list values         # of arrays: None, a buffer, (buffers, set) for a deferred union, or False: released
    cdef const unsigned char[::1] curvature     # AA | AB | BB by opcode
    cdef const unsigned char[::1] sides         # operands that a select takes, by instruction; empty: all
    cdef int32_t *of                # sets of scalars; -1: union of the operands, computed on demand
    cdef int32_t *uses
    cdef int32_t *last              # last instruction that reads a scalar
    cdef Py_ssize_t done            # number of processed instructions
    cdef public list given          # sets of the inputs, in C order
    cdef int32_t *stack
    cdef int32_t *leaves
    cdef Py_ssize_t stacked, stack_room, leaves_room

    def __cinit__(self, Listing code, Sets sets, const unsigned char[::1] curvature, const unsigned char[::1] sides,
                  *args):
        cdef Py_ssize_t n = max(1, code.n)
        self.code, self.sets, self.curvature, self.sides = code, sets, curvature, sides
        self.values = [None] * code.n
        self.of = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        self.uses = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        memset(self.of, 0, n * sizeof(int32_t))
        memset(self.uses, 0, n * sizeof(int32_t))
        self.last = <int32_t *>reallocate(NULL, n * sizeof(int32_t))
        memset(self.last, 0xff, n * sizeof(int32_t))

    def __dealloc__(self):
        PyMem_RawFree(self.last)
        PyMem_RawFree(self.of)
        PyMem_RawFree(self.uses)
        PyMem_RawFree(self.stack)
        PyMem_RawFree(self.leaves)

    def run(self, list results):
        """Compute the sets of all values that the results have derivatives by."""
        cdef Py_ssize_t i
        self.find_uses(results)
        self.sets.frames.append(self)
        for i in range(self.code.n):
            if self.uses[i] == 0:
                continue
            self.done = i
            if self.code.kinds[i] > FLAG or not self.number(i):
                self.array(i)
                self.release(i)
            if self.sets.is_full():
                self.done = i + 1
                self.sets.compact()
        self.sets.frames.pop()

    def array(self, Py_ssize_t i):
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------ references

    cdef int mark_referenced(self, int32_t[::1] new) except -1:
        """Mark the sets that are read later, including those of operands of deferred scalars."""
        cdef Py_ssize_t i
        cdef int k, count
        cdef int32_t given[3]
        cdef unsigned char[::1] marked = np.zeros(max(1, self.done), dtype=np.uint8)
        mark_referenced([self.values, self.given], new)
        for i in range(self.done - 1, -1, -1):
            if self.code.kinds[i] > FLAG or not (marked[i] or self.last[i] >= self.done):
                continue
            if self.of[i] >= 0:
                new[self.of[i]] = 1
                continue
            count = self.operands(i, given)
            for k in range(count):
                marked[given[k]] = 1
        return 0

    cdef int renumber(self, int32_t[::1] new, dict known) except -1:
        cdef Py_ssize_t i
        renumber([self.values, self.given], np.asarray(new), known)
        for i in range(self.code.n):
            if self.of[i] > 0:
                self.of[i] = new[self.of[i]]
        return 0

    # ------------------------------------------------------------------------------------------ liveness

    cdef inline void use(self, int32_t v, Py_ssize_t i) noexcept:
        self.uses[v] += 1
        if self.last[v] < 0:
            self.last[v] = <int32_t>i

    cdef int find_uses(self, list results) except -1:
        """Count the reads of each value by what the results depend on; 0 for a value without reads or derivative."""
        cdef Py_ssize_t i, j
        cdef int32_t v
        cdef int op, columns
        cdef int32_t[::1] packed
        cdef unsigned char[::1] floats = np.array(
            [type[0].kind in "fc" and 0 not in type[1] for type in self.code.types], dtype=np.uint8)
        for v in results:
            self.use(v, self.code.n)
        for i in range(self.code.n - 1, -1, -1):
            if not floats[self.code.kinds[i]]:
                self.uses[i] = 0
            if self.uses[i] == 0:
                continue
            op = self.code.ops[i]
            columns = differentiable(op)
            if columns & 1 and self.code.as_[i] >= 0:
                self.use(self.code.as_[i], i)
            if columns & 2 and self.code.bs[i] >= 0:
                self.use(self.code.bs[i], i)
            if columns & 4 and self.code.cs[i] >= 0:
                self.use(self.code.cs[i], i)
            if op == PACK:
                packed = self.code.packs[self.code.bs[i]][1]
                for j in range(packed.shape[0]):
                    self.use(packed[j], i)
            elif op == CALL:
                call = self.code.calls[self.code.as_[i]]
                if call.row is not None and call.row.kind == "constant":
                    self.uses[i] = 0
                    continue
                for v in call.operands:
                    self.use(v, i)
        return 0

    cdef int release(self, Py_ssize_t i) except -1:
        """Release operands of an instruction after their last use."""
        cdef int columns = differentiable(self.code.ops[i])
        cdef int32_t v
        if columns & 1 and self.code.as_[i] >= 0:
            self.read(self.code.as_[i])
        if columns & 2 and self.code.bs[i] >= 0:
            self.read(self.code.bs[i])
        if columns & 4 and self.code.cs[i] >= 0:
            self.read(self.code.cs[i])
        if self.code.ops[i] == CALL:
            for v in self.code.calls[self.code.as_[i]].operands:
                self.read(v)
        return 0

    cdef int read(self, int32_t v) except -1:
        if self.code.kinds[v] > FLAG and self.uses[v] > 0:
            self.uses[v] -= 1
            if self.uses[v] == 0:
                self.values[v] = False
        return 0

    def is_shared(self, Py_ssize_t v):
        """Whether several instructions read a value."""
        return self.uses[v] > 1

    # ------------------------------------------------------------------------------------------ scalars

    cdef bint number(self, Py_ssize_t i) except -1:
        """Compute or defer the set of a scalar; False if it comes from arrays."""
        cdef int op = self.code.ops[i]
        cdef int32_t given[3]
        cdef int32_t a = self.code.as_[i]
        cdef cnp.ndarray buffer
        if op == CONST or op == STOP or LESS <= op <= ISNAN or op == GUARD:
            return True
        if op == LOAD:
            found = self.values[a]
            if type(found) is not cnp.ndarray:
                found = self.buffer(a)
            if found is not None:
                buffer = found
                self.of[i] = (<int32_t *>cnp.PyArray_DATA(buffer))[self.code.bs[i]]
            self.read(a)
            return True
        if op >= INPUT and op != SELECT and op != STRONG:
            return False
        if self.sets.second:
            self.bend(i)
        self.of[i] = -1
        if self.uses[i] > 1 or self.operands(i, given) == 0:
            self.set_of(<int32_t>i)
        return True

    cdef int operands(self, Py_ssize_t i, int32_t *found) noexcept:
        """The differentiable operands of a scalar instruction."""
        cdef int op = self.code.ops[i], count = 0, taken
        cdef int columns = differentiable(op)
        if op == WG_MULTIPLY or op == STRONG:       # a product with constant 0 depends on nothing
            if self.is_zero(self.code.as_[i]) or self.is_zero(self.code.bs[i]):
                return 0
        elif self.sides.shape[0]:
            taken = self.sides[i]
            columns &= taken << 1 if op == SELECT else taken | 4
        if columns & 1 and self.code.as_[i] >= 0:
            found[count] = self.code.as_[i]
            count += 1
        if columns & 2 and self.code.bs[i] >= 0:
            found[count] = self.code.bs[i]
            count += 1
        if columns & 4 and self.code.cs[i] >= 0:
            found[count] = self.code.cs[i]
            count += 1
        return count

    cdef bint is_zero(self, int32_t v) noexcept:
        return self.code.ops[v] == CONST and <double>self.code.constants[self.code.as_[v]] == 0.0

    cpdef int32_t set_of(self, int32_t v) except -1:
        """Set of a scalar."""
        cdef int32_t given[3]
        cdef int32_t u
        cdef int k, count
        cdef Py_ssize_t leaves = 0
        if self.of[v] >= 0:
            return self.of[v]
        self.stacked = 0
        self.push(v)
        while self.stacked:
            self.stacked -= 1
            count = self.operands(self.stack[self.stacked], given)
            for k in range(count):
                u = given[k]
                if self.of[u] < 0:
                    self.push(u)
                elif self.of[u] > 0:
                    if leaves == self.leaves_room:
                        self.leaves_room = max(64, 2 * leaves)
                        self.leaves = <int32_t *>reallocate(self.leaves, self.leaves_room * sizeof(int32_t))
                    self.leaves[leaves] = self.of[u]
                    leaves += 1
        self.of[v] = self.sets.union_of(self.leaves, leaves)
        return self.of[v]

    cdef int push(self, int32_t v) except -1:
        if self.stacked == self.stack_room:
            self.stack_room = max(64, 2 * self.stack_room)
            self.stack = <int32_t *>reallocate(self.stack, self.stack_room * sizeof(int32_t))
        self.stack[self.stacked] = v
        self.stacked += 1
        return 0

    cdef int bend(self, Py_ssize_t i) except -1:
        """Record the interactions of an elementwise scalar instruction."""
        cdef int bits = self.curvature_bits(i)
        cdef int32_t a, b
        if bits == 0:
            return 0
        if self.code.ops[i] < INPUT and PARTIAL <= self.code.ops[i]:
            self.of[i] = -1
            a = self.set_of(<int32_t>i)
            return self.sets.pairs.add(a, a)
        a = self.set_of(self.code.as_[i])
        if bits & AA:
            self.sets.pairs.add(a, a)
        if bits & (AB | BB):
            b = self.set_of(self.code.bs[i])
            if bits & AB:
                self.sets.pairs.add(a, b)
            if bits & BB:
                self.sets.pairs.add(b, b)
        return 0

    cpdef int curvature_bits(self, Py_ssize_t i) except -1:
        """Bit mask of the second partials of an elementwise instruction that may be nonzero."""
        cdef int op = self.code.ops[i]
        cdef double exponent
        if op == STRONG:
            return AB
        if PARTIAL <= op < INPUT:
            return AA | AB | BB
        if op >= INPUT:
            return 0
        if (op == WG_POW or op == WG_POWER) and self.code.ops[self.code.bs[i]] == CONST:
            exponent = self.code.constants[self.code.as_[self.code.bs[i]]]
            return 0 if exponent == 0.0 or exponent == 1.0 else AA
        return self.curvature[op]

    def assign(self, Py_ssize_t i, int32_t s):
        """Assign the set of a scalar."""
        self.of[i] = s

    def pack_scalars(self, int32_t[::1] buffer, const int32_t[::1] offsets, const int32_t[::1] values):
        """Write the sets of scalars into a buffer."""
        cdef Py_ssize_t k
        for k in range(values.shape[0]):
            buffer[offsets[k]] = self.set_of(values[k])

    def stored(self, Py_ssize_t v):
        """Stored sets of an array: None, a buffer, or a deferred union."""
        found = self.values[v]
        if found is False:
            raise RuntimeError(f"value {v} of a list was forgotten before it was read")
        return found

    def buffer(self, Py_ssize_t v):
        """Sets of the elements of an array in memory order; None if it does not depend on the inputs."""
        found = self.stored(v)
        if type(found) is tuple:
            found = self.values[v] = self.sets.united(*found)
        return found
