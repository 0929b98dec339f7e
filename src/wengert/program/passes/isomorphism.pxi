# Isomorphism classes of scalars; included by vectorise.pyx.
#
# Value numbering (Click 1995) in program order, with classes instead of values: the class of a scalar is looked up by
# its opcode and the classes of its operands, in a hash table. Chains of additions become sums over classes of terms.


cdef bint is_computed(Vectoriser packer, Py_ssize_t i) noexcept:
    """Return whether a value is a scalar computed from scalars only."""
    cdef int op = packer.code.ops[i]
    if packer.code.kinds[i] > FLAG:
        return False
    if not has(op, IS_ELEMENTWISE):
        return False
    return ((packer.code.as_[i] < 0 or packer.code.kinds[packer.code.as_[i]] <= FLAG)
            and (packer.code.bs[i] < 0 or packer.code.kinds[packer.code.bs[i]] <= FLAG)
            and (packer.code.cs[i] < 0 or packer.code.kinds[packer.code.cs[i]] <= FLAG))


cdef bint is_swapped(Vectoriser packer, Py_ssize_t i) noexcept:
    """Return whether to exchange the operands of a commutative opcode, to order them by class."""
    cdef int op = packer.code.ops[i]
    return (has(op, IS_COMMUTATIVE)
            and packer.class_of[packer.code.as_[i]] > packer.class_of[packer.code.bs[i]])


cdef int32_t exponent(Vectoriser packer, Py_ssize_t i) except 0:
    """Return a key (below -1) for each constant exponent that makes a power cheap, else -1.

    Such powers get classes by exponent, because with an array of exponents they would need pow().
    """
    cdef int32_t b = packer.code.bs[i]
    if (packer.code.ops[i] != WG_POW and packer.code.ops[i] != POWER) or packer.code.ops[b] != CONST:
        return -1
    return -2 - <int32_t>CHEAP_EXPONENTS.get(packer.code.constants[packer.code.as_[b]], -1)


cdef int number_classes(Vectoriser packer) except -1:
    cdef Py_ssize_t i
    cdef int32_t a, b, c
    cdef int op
    cdef dict of_sums = {}
    cdef Block entries = take((packer.code.n + 1) * sizeof(IsoClass))
    cdef Block stamps = take((packer.code.n + 2 if packer.sums else 0) * sizeof(int32_t))
    memset(stamps.data, 0xff, (packer.code.n + 2 if packer.sums else 0) * sizeof(int32_t))
    packer.known = <IsoClass *>entries.data
    packer.table = None
    packer.class_count = 0
    new_class(packer, -1)
    for i in range(packer.code.n):
        op = packer.code.ops[i]
        if op == CONST:
            packer.class_of[i] = CONSTANTS
        elif packer.is_partial_sum[i]:
            packer.class_of[i] = -1
        elif packer.is_sum[i]:
            packer.class_of[i] = class_of_sum(packer, i, <int32_t *>stamps.data, of_sums)
        elif op == LOAD:
            a = packer.class_of[packer.code.as_[i]]
            packer.class_of[i] = find_or_add(packer, i, op, a, packer.code.kinds[i], -1, a)
        elif is_computed(packer, i):
            a, b, c = packer.operand(i, 0), packer.operand(i, 1), packer.operand(i, 2)
            a = -1 if a < 0 else packer.class_of[a]
            b = -1 if b < 0 else packer.class_of[b]
            c = exponent(packer, i) if c < 0 else packer.class_of[c]
            packer.class_of[i] = find_or_add(packer, i, op, a, b, c, max(CONSTANTS, a, b, c))
        else:
            packer.class_of[i] = new_class(packer, i)
    packer.known, packer.table = NULL, None
    return 0


cdef inline int32_t new_class(Vectoriser packer, Py_ssize_t i) noexcept:
    """Create a class whose first member is value i."""
    cdef IsoClass *new = packer.known + packer.class_count
    new.op = -1
    new.last = new.count = 0
    packer.first[packer.class_count] = <int32_t>i
    packer.class_count += 1
    return <int32_t>(packer.class_count - 1)


cdef int32_t find_or_add(Vectoriser packer, Py_ssize_t i, int op, int32_t a, int32_t b, int32_t c,
                         int32_t largest) except -1:
    """Return the class id of an expression: search the list of its largest operand class, then the hash table."""
    cdef IsoClass *known = packer.known
    cdef int32_t k = known[largest].last, found
    while k > 0:
        if known[k].op == op and known[k].a == a and known[k].b == b and known[k].c == c:
            return k
        k = known[k].next
    if known[largest].count == MAX_LINEAR:
        found = find_in_table(packer, op, a, b, c)
        if found >= 0:
            return found
    k = new_class(packer, i)
    known[k].op, known[k].a, known[k].b, known[k].c = op, a, b, c
    if known[largest].count < MAX_LINEAR:
        known[k].next = known[largest].last
        known[largest].last = k
        known[largest].count += 1
    return k


cdef int32_t find_in_table(Vectoriser packer, int op, int32_t a, int32_t b, int32_t c) except -2:
    """Return a class id from the hash table; if the class is new, enter the next free id and return -1."""
    cdef uint32_t h = <uint32_t>op, size = 1024
    cdef int32_t *table
    cdef IsoClass *known = packer.known
    cdef int32_t k
    while size < 2 * packer.code.n:
        size *= 2
    if packer.table is None:
        packer.table = take(size * sizeof(int32_t))
        memset(packer.table.data, 0, size * sizeof(int32_t))
    table = <int32_t *>packer.table.data
    h = (h ^ <uint32_t>a) * 0x9E3779B1u
    h = (h ^ (h >> 15) ^ <uint32_t>b) * 0x85EBCA77u
    h = (h ^ (h >> 13) ^ <uint32_t>c) * 0xC2B2AE3Du
    h = (h ^ (h >> 16)) & (size - 1)
    while table[h]:
        k = table[h]
        if known[k].op == op and known[k].a == a and known[k].b == b and known[k].c == c:
            return k
        h = (h + 1) & (size - 1)
    table[h] = <int32_t>packer.class_count
    return -1


cdef int find_sums(Vectoriser packer) except -1:
    """Find chains of additions whose partial sums have no other use."""
    cdef Block block = take(packer.code.n * sizeof(int32_t))
    cdef int32_t *length = <int32_t *>block.data
    cdef Py_ssize_t i, start, m = 0
    cdef int32_t v, before
    cdef int32_t[::1] terms
    cdef signed char[::1] signs
    cdef bint is_first, is_any = False
    for i in range(packer.code.n):
        before = chain_operand(packer, i, length)
        length[i] = 0 if before == -2 else 1 if before < 0 else length[before] + 1
        is_any |= length[i] >= MIN_MEMBERS - 1
    if not is_any:
        return 0
    packer.terms = int32s(2 * packer.code.n)
    packer.signs = np.empty(2 * packer.code.n, np.int8)
    terms, signs = packer.terms, packer.signs
    for i in range(packer.code.n - 1, -1, -1):
        if length[i] < MIN_MEMBERS - 1 or packer.is_partial_sum[i]:
            continue
        start, v = m, <int32_t>i
        while True:
            before = chain_operand(packer, v, length)
            signs[m] = -1 if packer.code.ops[v] == WG_SUBTRACT else 1
            if before < 0:
                terms[m], terms[m + 1], signs[m + 1] = packer.code.bs[v], packer.code.as_[v], 1
                m += 2
                break
            is_first = length[before] == 1 and m > start and packer.class_of[before] == packer.class_of[terms[start]]
            terms[m] = other_term(packer, v, before)
            m += 1
            if is_first:                                    # the first term is itself a sum of two values
                terms[m], signs[m] = before, 1
                m += 1
                break
            v = before
            packer.is_partial_sum[v] = 1
        if m - start >= MIN_MEMBERS:
            packer.sums[i] = start, m
            packer.is_sum[i] = 1
    return 0


cdef int32_t class_of_sum(Vectoriser packer, Py_ssize_t i, int32_t *stamps, dict known) except -1:
    """Return the class of a sum, determined by the set of its terms' classes, regardless of order and number.

    `known` holds the sums seen so far by hash; `stamps` the last sum in which each class was seen.
    """
    cdef Py_ssize_t j, start, stop
    cdef uint32_t s, hash = 0, count = 0
    start, stop = packer.sums[i]
    for j in range(start, stop):
        s = <uint32_t>(packer.class_of[packer.terms[j]] + 1)
        if stamps[s] != i:
            stamps[s] = <int32_t>i
            count += 1
            hash += (s ^ (s >> 15)) * 0x9E3779B1u
    equal_hash = known.setdefault((hash, count), [])
    for other in equal_hash:
        start, stop = packer.sums[other]
        for j in range(start, stop):
            if stamps[packer.class_of[packer.terms[j]] + 1] != i:
                break
        else:                   # equal number of classes, and all of them in this sum
            return packer.class_of[<Py_ssize_t>other]
    equal_hash.append(i)
    return new_class(packer, i)


cdef list terms_by_class(Vectoriser packer, list members):
    """Group the terms of some sums by sign and class, positive terms first; return (sign, terms, indices of sums)."""
    cdef Py_ssize_t j, start, stop, number
    cdef int32_t s, last = -2
    cdef int sign, last_sign = 0
    cdef dict groups = {}
    cdef list values = [], owners = []
    for number, i in enumerate(members):
        start, stop = packer.sums[i]
        for j in range(stop - 1, start - 1, -1):
            s, sign = packer.class_of[packer.terms[j]], packer.signs[j]
            if s != last or sign != last_sign:
                values, owners = groups.setdefault((sign, s), ([], []))
                last, last_sign = s, sign
            values.append(packer.terms[j])
            owners.append(number)
    return [(key[0], np.array(groups[key][0], np.int32), groups[key][1]) for key in sorted(groups, reverse=True)]


cdef int32_t chain_operand(Vectoriser packer, Py_ssize_t i, const int32_t *length) noexcept:
    """Return the partial sum to which a value adds a term; -1 if it starts a chain, -2 if it is not an addition."""
    cdef int op = packer.code.ops[i]
    cdef int32_t a = packer.code.as_[i], b = packer.code.bs[i]
    cdef bint left, right
    if (op != WG_ADD and op != WG_SUBTRACT) or packer.code.kinds[i] != SCALAR:
        return -2
    left = packer.uses[a] == 1 and length[a] > 0
    right = op == WG_ADD and packer.uses[b] == 1 and length[b] > 0
    if left and right:
        return a if length[a] >= length[b] else b
    return a if left else b if right else -1


cdef int group_members(Vectoriser packer) except -1:
    """Sort values by class and decide which classes become arrays."""
    cdef Py_ssize_t i, s
    cdef int32_t[::1] order
    cdef int32_t total = 0
    packer.order = int32s(packer.code.n)
    order = packer.order
    memset(packer.begin, 0, (packer.class_count + 1) * sizeof(int32_t))
    for i in range(packer.code.n):
        s = packer.class_of[i]
        if s >= 0:
            packer.place[i] = packer.begin[s + 1]
            packer.begin[s + 1] += 1
    for s in range(packer.class_count):
        packer.is_packed[s] = s != CONSTANTS and packer.begin[s + 1] >= MIN_MEMBERS and (
            is_computed(packer, packer.first[s]) or packer.is_sum[packer.first[s]])
        total += packer.begin[s + 1]
        packer.begin[s + 1] = total
    for i in range(packer.code.n):
        s = packer.class_of[i]
        if s >= 0:
            order[packer.begin[s] + packer.place[i]] = <int32_t>i
    return 0
