# Bounds checks are off, since index arrays are validated before they reach this module; loops release the GIL:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Greedy colourings, vertex orderings and tabu search.

A vertex gets the smallest colour that no conflicting vertex has, so the number of colours depends on the order.
`Conflicts` is an implicit graph: neighbours are found by walking from a vertex to rows and from rows to vertices, so
memory is linear in the number of nonzeros and time in the sum of squared degrees.
Star and acyclic colourings look one edge further. They keep one *slot* per vertex and colour among its neighbours, so
the cost of an edge is the number of these colours, not of the neighbours.

A limit on the number of colours stops a colouring that cannot improve on the best one; it then returns None.

References
----------
Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711
Gebremedhin, Tarafdar, Manne and Pothen (2007), New acyclic and star coloring algorithms with application to computing
Hessians, algorithms 3.1 and 4.1. doi:10.1137/050639879
Brelaz (1979), New methods to color the vertices of a graph. doi:10.1145/359094.359101
"""

from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np


def transposed(const int64_t[::1] ptr, const int32_t[::1] idx, Py_ssize_t n):
    """Return the pattern of the transpose, and the position of each of its entries in the given pattern."""
    cdef Py_ssize_t i, p, m = ptr.shape[0] - 1
    out_ptr = np.zeros(n + 1, np.int64)
    out_idx = np.empty(idx.shape[0], np.int32)
    places = np.empty(idx.shape[0], np.int64)
    cdef int64_t[::1] start = out_ptr, place = places, at = np.empty(n, np.int64)
    cdef int32_t[::1] rows = out_idx
    with nogil:
        for p in range(idx.shape[0]):
            start[idx[p] + 1] += 1
        for i in range(n):
            start[i + 1] += start[i]
            at[i] = start[i]
        for i in range(m):
            for p in range(ptr[i], ptr[i + 1]):
                rows[at[idx[p]]] = <int32_t>i
                place[at[idx[p]]] = p
                at[idx[p]] += 1
    return out_ptr, out_idx, places


cdef struct Walk:
    const int64_t *to_ptr               # rows of a vertex
    const int32_t *to
    const int64_t *from_ptr             # vertices of a row; NULL if `to` holds the neighbours themselves
    const int32_t *back


cdef class Conflicts:
    """Implicit conflict graph: two vertices are adjacent if a walk leads from one to the other.

    A walk is given by four arrays, rows of each vertex and vertices of each row, each as pointers and indices; or by
    two, the neighbours of each vertex.
    """

    cdef readonly Py_ssize_t size
    cdef object arrays                  # keeps the memory of the walks alive
    cdef Walk walks[2]
    cdef int walk_count
    cdef int32_t[::1] mark, found       # work arrays of `near`
    cdef int32_t stamp

    def __init__(self, Py_ssize_t size, *walks):
        cdef const int64_t[::1] ptr
        cdef const int32_t[::1] idx
        self.size = size
        self.arrays = walks
        self.walk_count = len(walks)
        for k, walk in enumerate(walks):
            ptr, idx = walk[0], walk[1]
            self.walks[k].to_ptr, self.walks[k].to = &ptr[0], (&idx[0] if idx.shape[0] else NULL)
            self.walks[k].from_ptr, self.walks[k].back = NULL, NULL
            if len(walk) == 4:
                ptr, idx = walk[2], walk[3]
                self.walks[k].from_ptr, self.walks[k].back = &ptr[0], (&idx[0] if idx.shape[0] else NULL)
        self.mark = np.zeros(size, np.int32)
        self.found = np.empty(size, np.int32)
        self.stamp = 0

    cdef Py_ssize_t near(self, int32_t v) noexcept nogil:
        """Write the neighbours of v, each once, into `found`; return their number."""
        cdef Py_ssize_t count = 0, p, q
        cdef int32_t w, row
        cdef int k
        cdef Walk *walk
        self.stamp += 1
        self.mark[v] = self.stamp
        for k in range(self.walk_count):
            walk = &self.walks[k]
            for p in range(walk.to_ptr[v], walk.to_ptr[v + 1]):
                row = walk.to[p]
                if walk.from_ptr == NULL:
                    if self.mark[row] != self.stamp:
                        self.mark[row] = self.stamp
                        self.found[count] = row
                        count += 1
                    continue
                for q in range(walk.from_ptr[row], walk.from_ptr[row + 1]):
                    w = walk.back[q]
                    if self.mark[w] != self.stamp:
                        self.mark[w] = self.stamp
                        self.found[count] = w
                        count += 1
        return count

    cdef void restart(self):
        """Clear the stamps of earlier passes."""
        self.stamp = 0
        self.mark[:] = 0

    def degrees(self):
        """Number of neighbours of each vertex."""
        result = np.empty(self.size, np.int32)
        cdef int32_t[::1] degree = result
        cdef int32_t v
        self.restart()
        with nogil:
            for v in range(<int32_t>self.size):
                degree[v] = <int32_t>self.near(v)
        return result

    def greedy(self, const int32_t[::1] order, Py_ssize_t limit, colours=None):
        """Greedy colouring in `order` with colours below `limit`; vertices already in `colours` keep theirs."""
        result = np.full(self.size, -1, np.int32) if colours is None else colours
        cdef int32_t[::1] colour = result
        cdef int32_t[::1] forbidden = np.full(limit + 1, -1, np.int32)
        cdef Py_ssize_t i, p, q
        cdef int32_t v, c, other, row
        cdef int k
        cdef Walk *walk
        cdef bint done = True
        with nogil:
            for i in range(order.shape[0]):
                v = order[i]
                if colour[v] >= 0:
                    continue
                for k in range(self.walk_count):
                    walk = &self.walks[k]
                    for p in range(walk.to_ptr[v], walk.to_ptr[v + 1]):
                        row = walk.to[p]
                        if walk.from_ptr == NULL:
                            other = colour[row]
                            if other >= 0:
                                forbidden[other] = v
                            continue
                        for q in range(walk.from_ptr[row], walk.from_ptr[row + 1]):
                            other = colour[walk.back[q]]
                            if other >= 0:
                                forbidden[other] = v
                c = 0
                while c < limit and forbidden[c] == v:
                    c += 1
                if c == limit:
                    done = False
                    break
                colour[v] = c
        return result if done else None

    cdef object ordered(self, const int32_t[::1] first, const int32_t[::1] keys, int32_t step):
        """Take the vertices one by one, and add `step` to the keys of the neighbours of each.

        For `step` -1 the next vertex has the lowest key, for 1 the highest. Ties are broken by `first`.
        """
        result = np.empty(self.size, np.int32)
        cdef int32_t[::1] order = result, workspace = np.empty(5 * self.size + 1, np.int32)
        cdef Buckets buckets
        cdef Py_ssize_t n = self.size, i, j, count
        cdef int32_t v, w, level = 0
        self.restart()
        with nogil:
            open_buckets(&buckets, n, &workspace[0])
            for i in range(n - 1, -1, -1):
                put(&buckets, first[i], keys[first[i]])
            for i in range(n):
                while buckets.head[level] < 0:
                    level -= step
                v = buckets.head[level]
                take(&buckets, v)
                order[i] = v
                count = self.near(v)
                for j in range(count):
                    w = self.found[j]
                    if buckets.key[w] >= 0:
                        move(&buckets, w, buckets.key[w] + step)
                        if step > 0:
                            level = max(level, buckets.key[w])
                if step < 0 and level > 0:
                    level -= 1
        return result

    def smallest_last(self, degree):
        """Smallest-last ordering: each vertex has the fewest neighbours in the subgraph of itself and its predecessors.

        Matula and Beck (1983). doi:10.1145/2402.322385
        """
        first = np.arange(self.size - 1, -1, -1, dtype=np.int32)
        return np.ascontiguousarray(self.ordered(first, degree, -1)[::-1])

    def incidence_degree(self, first):
        """Incidence-degree ordering: the next vertex has the most neighbours before it; ties are broken by `first`."""
        return self.ordered(first, np.zeros(self.size, np.int32), 1)

    def dsatur(self, const int32_t[::1] first, Py_ssize_t limit):
        """DSATUR colouring with colours below `limit`, and its order: next is the vertex that sees the most colours.

        Ties are broken by `first`.
        The colours that a vertex sees are a bit set of `limit` bits.
        """
        cdef Py_ssize_t n = self.size, words = (limit + 63) // 64, left = n, j, count
        result, sequence = np.full(n, -1, np.int32), np.empty(n, np.int32)
        cdef int32_t[::1] colour = result, order = sequence
        cdef int32_t[::1] rank = np.empty(n, np.int32), seen = np.zeros(n, np.int32)
        cdef int32_t[::1] heap = np.arange(n, dtype=np.int32), place = np.arange(n, dtype=np.int32)
        cdef uint64_t *sees = <uint64_t *>calloc(max(1, n * words), sizeof(uint64_t))
        cdef uint64_t *word
        cdef int32_t v, w, c
        cdef bint done = True
        if sees == NULL:
            raise MemoryError()
        self.restart()
        try:
            with nogil:
                for j in range(n):
                    rank[first[j]] = <int32_t>j
                while left > 0:
                    v = first[heap[0]]
                    left -= 1
                    heap[0] = heap[left]
                    place[heap[0]] = 0
                    sift_down(&heap[0], &place[0], &seen[0], left)
                    c = lowest_zero(sees + v * words, limit)
                    if c == limit:
                        done = False
                        break
                    colour[v] = c
                    order[n - 1 - left] = v
                    count = self.near(v)
                    for j in range(count):
                        w = self.found[j]
                        word = sees + w * words + (c >> 6)
                        if colour[w] >= 0 or (word[0] >> (c & 63)) & 1:
                            continue
                        word[0] |= <uint64_t>1 << (c & 63)
                        seen[rank[w]] += 1
                        sift_up(&heap[0], &place[0], &seen[0], place[rank[w]])
        finally:
            free(sees)
        return (result, sequence) if done else None

    cdef int64_t reduce(self, int32_t[::1] colour, int32_t[:, ::1] near_of, int32_t k) noexcept nogil:
        """Recolour vertices of colours >= k with the fewest conflicts; count neighbours by colour; return conflicts."""
        cdef Py_ssize_t j, count
        cdef int32_t v, w, c
        cdef int64_t conflicts = 0
        for v in range(<int32_t>self.size):
            if colour[v] >= k:
                colour[v] = -1
        for v in range(<int32_t>self.size):
            if colour[v] < 0:
                continue
            count = self.near(v)
            for j in range(count):
                near_of[self.found[j], colour[v]] += 1
        for v in range(<int32_t>self.size):
            if colour[v] >= 0:
                continue
            c = 0
            for w in range(1, k):
                if near_of[v, w] < near_of[v, c]:
                    c = w
            colour[v] = c
            conflicts += near_of[v, c]
            count = self.near(v)
            for j in range(count):
                near_of[self.found[j], c] += 1
        return conflicts

    def fewer(self, const int32_t[::1] start, Py_ssize_t limit, int64_t steps):
        """Search for colours below `limit`, from the colouring `start` with more; return them or None, and steps left.

        Vertices of the eliminated colours get others, with conflicts. Then tabu search repeatedly makes the move that
        leaves the fewest conflicts; a vertex may not return to a colour that it recently gave up.
        Hertz and de Werra (1987), Using tabu search techniques for graph coloring. doi:10.1007/BF02239976
        """
        cdef Py_ssize_t n = self.size, i, j, count, trouble = 0
        cdef int32_t k = <int32_t>limit, v, w, c, old
        cdef int64_t conflicts = 0, best, turn = 0, delta, least
        cdef uint64_t chance = 1
        result = np.array(start, np.int32)
        cdef int32_t[::1] colour = result
        cdef int32_t[:, ::1] near_of = np.zeros((n, k), np.int32)      # number of neighbours of a vertex by colour
        cdef int32_t[:, ::1] until = np.zeros((n, k), np.int32)        # first turn at which a vertex may take a colour
        cdef int32_t[::1] queue = np.empty(n + 1, np.int32), place = np.full(n, -1, np.int32)
        self.restart()
        with nogil:
            conflicts = self.reduce(colour, near_of, k)
            for v in range(<int32_t>n):
                if near_of[v, colour[v]] > 0:
                    place[v] = <int32_t>trouble
                    queue[trouble] = v
                    trouble += 1
            best = conflicts
            while conflicts > 0 and steps > 0:
                turn += 1
                steps -= trouble * k
                least = n
                w, old = -1, -1                     # best move: vertex and new colour
                count = 0                           # number of equally good moves
                for i in range(trouble):
                    v = queue[i]
                    for c in range(k):
                        delta = near_of[v, c] - near_of[v, colour[v]]
                        if delta > least or c == colour[v]:
                            continue
                        if until[v, c] > turn and conflicts + delta >= best:
                            continue
                        if delta < least:
                            least, count = delta, 0
                        count += 1
                        chance = chance * <uint64_t>6364136223846793005 + <uint64_t>1442695040888963407
                        if count == 1 or (chance >> 33) % <uint64_t>count == 0:
                            w, old = v, c
                if w < 0:
                    continue
                v, c, old = w, old, colour[w]
                colour[v] = c
                conflicts += least
                best = min(best, conflicts)
                until[v, old] = <int32_t>(turn + trouble * 3 // 5 + <int64_t>((chance >> 40) % 10) + 1)
                count = self.near(v)
                steps -= 2 * count
                for j in range(count):
                    w = self.found[j]
                    near_of[w, old] -= 1
                    near_of[w, c] += 1
                    if colour[w] == old or colour[w] == c:
                        keep(&queue[0], &place[0], w, near_of[w, colour[w]] > 0, &trouble)
                keep(&queue[0], &place[0], v, near_of[v, c] > 0, &trouble)
        return (result if conflicts == 0 else None), steps


cdef inline void keep(int32_t *queue, int32_t *place, int32_t v, bint wanted, Py_ssize_t *size) noexcept nogil:
    """Insert v into the queue if `wanted`, otherwise remove it."""
    if wanted and place[v] < 0:
        place[v] = <int32_t>size[0]
        queue[size[0]] = v
        size[0] += 1
    elif not wanted and place[v] >= 0:
        size[0] -= 1
        queue[place[v]] = queue[size[0]]
        place[queue[size[0]]] = place[v]
        place[v] = -1


cdef inline int32_t lowest_zero(const uint64_t *bits, Py_ssize_t limit) noexcept nogil:
    cdef int32_t c = 0
    while c < limit and bits[c >> 6] == ~<uint64_t>0:
        c += 64
    while c < limit and (bits[c >> 6] >> (c & 63)) & 1:
        c += 1
    return c if c < limit else <int32_t>limit


# ---- a heap of ranks, ordered by the number of seen colours, then by rank

cdef inline bint before(int32_t r, int32_t s, const int32_t *seen) noexcept nogil:
    return seen[r] > seen[s] or (seen[r] == seen[s] and r < s)


cdef inline void sift_up(int32_t *heap, int32_t *place, const int32_t *seen, Py_ssize_t i) noexcept nogil:
    cdef int32_t r = heap[i]
    cdef Py_ssize_t parent
    while i > 0:
        parent = (i - 1) >> 1
        if not before(r, heap[parent], seen):
            break
        heap[i] = heap[parent]
        place[heap[i]] = <int32_t>i
        i = parent
    heap[i] = r
    place[r] = <int32_t>i


cdef inline void sift_down(int32_t *heap, int32_t *place, const int32_t *seen, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 0, child = 1
    cdef int32_t r = heap[0]
    while child < n:
        if child + 1 < n and before(heap[child + 1], heap[child], seen):
            child += 1
        if not before(heap[child], r, seen):
            break
        heap[i] = heap[child]
        place[heap[i]] = <int32_t>i
        i = child
        child = 2 * i + 1
    heap[i] = r
    place[r] = <int32_t>i


# ---- bucket queue: doubly linked lists of vertices by a small integer key, last in, first out

cdef struct Buckets:
    int32_t *head
    int32_t *next
    int32_t *prev                       # -1 - key at the head of a list
    int32_t *key                        # -1: removed


cdef inline void open_buckets(Buckets *b, Py_ssize_t n, int32_t *workspace) noexcept nogil:
    cdef Py_ssize_t i
    b.next, b.prev, b.key, b.head = workspace, workspace + n, workspace + 2 * n, workspace + 3 * n
    for i in range(n + 1):
        b.head[i] = -1


cdef inline void put(Buckets *b, int32_t v, int32_t key) noexcept nogil:
    cdef int32_t old = b.head[key]
    b.key[v], b.next[v], b.prev[v], b.head[key] = key, old, -1, v
    if old >= 0:
        b.prev[old] = v


cdef inline void take(Buckets *b, int32_t v) noexcept nogil:
    if b.prev[v] >= 0:
        b.next[b.prev[v]] = b.next[v]
    else:
        b.head[b.key[v]] = b.next[v]
    if b.next[v] >= 0:
        b.prev[b.next[v]] = b.prev[v]
    b.key[v] = -1


cdef inline void move(Buckets *b, int32_t v, int32_t key) noexcept nogil:
    take(b, v)
    put(b, v, key)


# ---- symmetric colourings

def off_diagonal(const int64_t[::1] ptr, const int32_t[::1] idx):
    """Number of off-diagonal nonzeros of each row."""
    cdef Py_ssize_t v, p
    result = np.diff(ptr)
    cdef int64_t[::1] degree = result
    with nogil:
        for v in range(degree.shape[0]):
            for p in range(ptr[v], ptr[v + 1]):
                if idx[p] == v:
                    degree[v] -= 1
    return result


def components(const int64_t[::1] ptr, const int32_t[::1] idx):
    """Connected component of each vertex of a symmetric pattern, and the number of components."""
    cdef Py_ssize_t n = ptr.shape[0] - 1, p, size
    cdef int32_t v, w, count = 0
    result = np.full(n, -1, np.int32)
    cdef int32_t[::1] part = result, stack = np.empty(n + 1, np.int32)
    with nogil:
        for v in range(<int32_t>n):
            if part[v] >= 0:
                continue
            part[v], stack[0], size = count, v, 1
            while size > 0:
                size -= 1
                w = stack[size]
                for p in range(ptr[w], ptr[w + 1]):
                    if part[idx[p]] < 0:
                        part[idx[p]] = count
                        stack[size] = idx[p]
                        size += 1
            count += 1
    return result, count


# The slots of vertex w start at ptr[w]; there is one for each colour among its coloured neighbours.
cdef struct Slots:
    const int64_t *ptr
    int32_t *used                       # number of slots of each vertex
    int32_t *colour
    int64_t *link                       # star: slot at the only neighbour; acyclic: parent in the union-find forest
    unsigned char *many                 # whether several neighbours have this colour


cdef inline int64_t slot_of(Slots *s, int32_t w, int32_t c) noexcept nogil:
    """Return the slot of colour c at w, creating it if necessary."""
    cdef int64_t t, end = s.ptr[w] + s.used[w]
    for t in range(s.ptr[w], end):
        if s.colour[t] == c:
            s.many[t] = 1
            return t
    s.colour[end], s.link[end], s.many[end] = c, end, 0
    s.used[w] += 1
    return end


cdef inline int64_t root_of(int64_t *parent, int64_t t) noexcept nogil:
    while parent[t] != t:
        parent[t] = parent[parent[t]]
        t = parent[t]
    return t


def symmetric(const int64_t[::1] ptr, const int32_t[::1] idx, const int32_t[::1] order, Py_ssize_t limit, bint star):
    """Star or acyclic colouring of a symmetric pattern in `order`, with colours below `limit`.

    Star: v may not take colour c if that creates a path of four vertices in two colours.
    This happens if a neighbour w sees c once, at x, and x sees the colour of w several times (x is the hub of a star);
    or if v has two neighbours of one colour, one of which sees c.
    Acyclic: v may not take c if two of its neighbours are in the same tree of their colour and c.
    """
    cdef Py_ssize_t n = ptr.shape[0] - 1, i, p
    result = np.full(n, -1, np.int32)
    cdef int32_t[::1] colour = result
    cdef int32_t[::1] forbidden = np.full(limit + 1, -1, np.int32)
    cdef int64_t[::1] own = np.zeros(limit + 1, np.int64)       # slot of each colour at v
    cdef Slots s
    cdef int32_t v, w, c
    cdef int64_t t
    cdef bint done = True
    cdef Py_ssize_t nnz = max(1, idx.shape[0])
    tables = [np.zeros(n, np.int32), np.empty(nnz, np.int32), np.empty(nnz, np.int64), np.zeros(nnz, np.uint8)]
    cdef int32_t[::1] used = tables[0], colours = tables[1]
    cdef int64_t[::1] links = tables[2]
    cdef unsigned char[::1] many = tables[3]
    # for each tree: the vertex that visited it last, and the neighbour through which it did
    visits = np.full((0 if star else nnz, 2), -1, np.int32)
    cdef int32_t[:, ::1] visit = visits
    s.ptr, s.used, s.colour, s.link, s.many = &ptr[0], &used[0], &colours[0], &links[0], &many[0]
    with nogil:
        for i in range(order.shape[0]):
            v = order[i]
            for t in range(ptr[v], ptr[v] + s.used[v]):
                own[s.colour[t]] = t
                forbidden[s.colour[t]] = v
            for p in range(ptr[v], ptr[v + 1]):
                w = idx[p]
                if w != v and colour[w] >= 0:
                    if star:
                        forbid_paths(&s, v, w, s.many[own[colour[w]]], &forbidden[0])
                    else:
                        forbid_cycles(&s, v, w, &forbidden[0], &visit[0, 0])
            c = 0
            while c < limit and forbidden[c] == v:
                c += 1
            if c == limit:
                done = False
                break
            colour[v] = c
            for p in range(ptr[v], ptr[v + 1]):
                w = idx[p]
                if w == v:
                    continue
                t = slot_of(&s, w, c)
                if colour[w] < 0:
                    continue
                if star:
                    if not s.many[t]:
                        s.link[t] = own[colour[w]]
                    if not s.many[own[colour[w]]]:
                        s.link[own[colour[w]]] = t
                else:
                    s.link[root_of(s.link, t)] = root_of(s.link, own[colour[w]])
    return result if done else None


cdef inline void forbid_paths(Slots *s, int32_t v, int32_t w, bint several, int32_t *forbidden) noexcept nogil:
    """Forbid colours that create a path of four through v and w; `several`: v has more neighbours of w's colour."""
    cdef int64_t t
    for t in range(s.ptr[w], s.ptr[w] + s.used[w]):
        if several or (not s.many[t] and s.many[s.link[t]]):
            forbidden[s.colour[t]] = v


cdef inline void forbid_cycles(Slots *s, int32_t v, int32_t w, int32_t *forbidden, int32_t *visit) noexcept nogil:
    """Forbid colours whose tree at w was reached from another neighbour of v."""
    cdef int64_t t, tree
    for t in range(s.ptr[w], s.ptr[w] + s.used[w]):
        tree = root_of(s.link, t)
        if visit[2 * tree] != v:
            visit[2 * tree], visit[2 * tree + 1] = v, w
        elif visit[2 * tree + 1] != w:
            forbidden[s.colour[t]] = v


# ---- partition of the nonzeros between column and row products

def partition_nonzeros(
    const int64_t[::1] ptr, const int32_t[::1] idx,
    const int64_t[::1] t_ptr, const int32_t[::1] t_idx, const int64_t[::1] t_place,
):
    """For each nonzero: 1 if a column product determines it, 0 if a row product does.

    Repeatedly assigns the nonzeros left in the shortest row or the shortest column, whichever increases the longest
    assigned row or column less. Hossain and Steihaug (1998), doi:10.1080/10556789808805700, and Coleman and Verma
    (1998), doi:10.1137/S1064827595295349, describe such partitions; this is the latter's minimum nonzero count.
    """
    cdef Py_ssize_t m = ptr.shape[0] - 1, n = t_ptr.shape[0] - 1, nnz = idx.shape[0], left = nnz, p, q
    result = np.full(nnz, 2, np.uint8)                  # 2: not assigned yet
    cdef unsigned char[::1] side = result
    cdef int32_t[::1] row_room = np.empty(4 * m + n + 2, np.int32), column_room = np.empty(4 * n + m + 2, np.int32)
    cdef Buckets rows, columns
    cdef int32_t i, j, low_row = 1, low_column = 1, longest_row = 0, longest_column = 0
    with nogil:
        open_by_count(&rows, &ptr[0], m, n, &row_room[0])
        open_by_count(&columns, &t_ptr[0], n, m, &column_room[0])
        while left > 0:
            while rows.head[low_row] < 0:
                low_row += 1
            while columns.head[low_column] < 0:
                low_column += 1
            if max(0, low_row - longest_row) <= max(0, low_column - longest_column):
                i = rows.head[low_row]
                longest_row = max(longest_row, low_row)
                take(&rows, i)
                for p in range(ptr[i], ptr[i + 1]):
                    if side[p] == 2:
                        side[p] = 1
                        left -= 1
                        move(&columns, idx[p], columns.key[idx[p]] - 1)
                low_column = max(1, low_column - 1)
            else:
                j = columns.head[low_column]
                longest_column = max(longest_column, low_column)
                take(&columns, j)
                for q in range(t_ptr[j], t_ptr[j + 1]):
                    if side[t_place[q]] == 2:
                        side[t_place[q]] = 0
                        left -= 1
                        move(&rows, t_idx[q], rows.key[t_idx[q]] - 1)
                low_row = max(1, low_row - 1)
    return result


cdef void open_by_count(Buckets *b, const int64_t *ptr, Py_ssize_t n, Py_ssize_t longest,
                        int32_t *workspace) noexcept nogil:
    """Fill a bucket queue with rows or columns by their number of nonzeros, which is at most `longest`."""
    cdef Py_ssize_t i
    b.next, b.prev, b.key, b.head = workspace, workspace + n, workspace + 2 * n, workspace + 3 * n
    for i in range(longest + 1):
        b.head[i] = -1
    for i in range(n - 1, -1, -1):
        put(b, <int32_t>i, <int32_t>(ptr[i + 1] - ptr[i]))
