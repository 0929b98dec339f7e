# Interactions: the pairs of inputs whose second derivative may be nonzero, from pairs of index sets.
#
# A nonlinear instruction makes the members of its operands' sets interact (Walther 2008, Computing sparse Hessians with
# automatic differentiation, doi:10.1145/1322436.1322439; Gower and Mello 2012, doi:10.1080/10556788.2011.580098).

cdef int64_t MAX_BLOCK_PARTNERS = 1 << 24         # bounds the work array of `unite_partners` to 64 MB

cdef enum:
    RECENT_PAIRS = 1 << 14      # size of the table of recent pairs


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


def interactions(Sets sets):
    """All interacting pairs of columns as the rows of a sparse matrix: indptr and indices."""
    cdef int64_t[::1] counts = np.zeros(sets.n, dtype=np.int64)
    cdef int32_t[::1] rows = np.empty(sets.n, dtype=np.int32)
    cdef Pairs pairs = needed_pairs(sets)
    cdef Py_ssize_t i, low = 0, high
    cdef int64_t total
    cdef int32_t a, b
    for i in range(pairs.count):
        a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
        count_members(sets, a, counts)
        if a != b:
            count_members(sets, b, counts)
    sets.second = False                     # sets made below are in no pair
    while low < sets.n:                     # a block of columns whose partners fit in memory
        high, total = low, 0
        while high < sets.n and (total < MAX_BLOCK_PARTNERS or high == low):
            total += counts[high]
            high += 1
        unite_partners(sets, pairs, low, high, counts, rows)
        low = high
    return sets.rows(rows)


cdef int unite_partners(Sets sets, Pairs pairs, Py_ssize_t low, Py_ssize_t high, int64_t[::1] counts,
                        int32_t[::1] rows) except -1:
    """Set `rows` for a block of columns: the union of all sets that are paired with a set containing the column."""
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
        enter_partner(sets, a, b, low, high, ends, partners)
        if a != b:
            enter_partner(sets, b, a, low, high, ends, partners)
    for i in range(low, high):
        end = ends[i - low] - counts[i]     # `enter_partner` advanced it to the start of the next column
        rows[i] = sets.union_of(&partners[end], drop_covered(sets, &partners[end], counts[i])) if counts[i] else 0
    return 0


cdef Py_ssize_t drop_covered(Sets sets, int32_t *ids, int64_t count) noexcept:
    """Remove sets whose known superset is also present; return the number left."""
    cdef int32_t epoch = sets.next_epoch()
    cdef int64_t i
    cdef Py_ssize_t kept = 0
    cdef int32_t s
    for i in range(count):
        sets.seen[ids[i]] = epoch
    for i in range(count):
        s = ids[i]
        if sets.above[s] < 0 or sets.seen[sets.above[s]] != epoch:
            ids[kept] = s
            kept += 1
    return kept


cdef void count_members(Sets sets, int32_t s, int64_t[::1] counts) noexcept:
    cdef int64_t i
    for i in range(sets.starts[s], sets.starts[s + 1]):
        counts[sets.members[i]] += 1


cdef void enter_partner(Sets sets, int32_t s, int32_t partner, Py_ssize_t low, Py_ssize_t high, int64_t[::1] ends,
                        int32_t[::1] partners) noexcept:
    """Enter `partner` at each column of set `s` from `low` to `high` - 1."""
    cdef int64_t first = sets.starts[s], last = sets.starts[s + 1], middle
    cdef int64_t stop = last
    cdef int32_t j
    while first < last:
        middle = (first + last) >> 1
        if sets.members[middle] < low:
            first = middle + 1
        else:
            last = middle
    while first < stop and sets.members[first] < high:
        j = sets.members[first] - <int32_t>low
        partners[ends[j]] = partner
        ends[j] += 1
        first += 1


cdef Pairs needed_pairs(Sets sets):
    """Return the pairs without those contained in others; equal sets get one id if that pays."""
    cdef Pairs found = Pairs(), pairs = sets.pairs
    cdef int32_t[::1] cover = np.full(sets.count, -1, dtype=np.int32)
    cdef Py_ssize_t i, size = 64
    cdef int32_t a, b, s
    cdef double work = 0
    cdef int32_t[::1] table
    for i in range(pairs.count):
        a, b = <int32_t>(pairs.keys[i] >> 32), <int32_t>(pairs.keys[i] & 0xffffffffu)
        if a == b:
            cover[a] = a
        work += <double>sets.size(a) * <double>sets.size(b)
    for i in range(sets.count - 1, 0, -1):          # find a superset all of whose members interact
        s = sets.above[i]
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
            found.add(canonical(sets, a, table), canonical(sets, b, table))
    found.make_unique()
    return found


cdef int32_t canonical(Sets sets, int32_t s, int32_t[::1] table) noexcept:
    """The id that represents all sets with these members."""
    cdef const int32_t *first = sets.members + sets.starts[s]
    cdef Py_ssize_t k, length = sets.size(s)
    cdef uint64_t h = <uint64_t>length
    for k in range(length):
        h = hashed(h ^ <uint64_t>first[k]) + 1
    h &= <uint64_t>(table.shape[0] - 1)
    while table[h] != 0:
        if sets.size(table[h]) == length and memcmp(sets.members + sets.starts[table[h]], first,
                                                    length * sizeof(int32_t)) == 0:
            return table[h]
        h = (h + 1) & <uint64_t>(table.shape[0] - 1)
    table[h] = s
    return s
