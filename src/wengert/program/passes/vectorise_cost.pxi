# Cost estimates for packing scalars into arrays, in nanoseconds; included by vectorise.pyx.
#
# Two bounds are tested before the packed program is built: the largest possible gain, and then the least possible cost.

# in nanoseconds
cdef double SCALAR_COST = model.SCALAR, FUNCTION_COST = model.SCALAR_FUNCTION
cdef double VECTOR_COST = model.VECTOR, ELEMENT_COST = model.ELEMENT
cdef double FUNCTION_ELEMENT_COST = model.ELEMENT_FUNCTION, MOVED_ELEMENT_COST = model.ELEMENT_MOVED


cdef double cost(Listing code) except -1.0:
    """Estimate the run time in nanoseconds, leaving out what vectorisation does not change."""
    cdef Py_ssize_t i
    cdef double total = 0.0
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    for i in range(code.n):
        total += cost_of(code, i, sizes)
    return total


def costs(Listing code):
    """Return the contribution of each instruction to the estimate of `cost`."""
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


cdef double max_gain(Vectoriser packer) noexcept:
    """Return an upper bound on the time saved, before classes are known, as if all values of equal depth were a class.

    The depth of a sum is one more than that of its terms, and a SUM of many terms is taken to cost nothing.
    """
    cdef Py_ssize_t i
    cdef int32_t *depth = packer.class_of
    cdef int32_t *length = packer.begin
    cdef int32_t *count = packer.place        # scalars, and terms of sums, at each depth
    cdef int32_t before, term
    cdef double total = 0.0
    memset(count, 0, (packer.code.n + 2) * sizeof(int32_t))
    for i in range(packer.code.n):
        length[i] = depth[i] = 0
        if not is_computed(packer, i):
            continue
        before = chain_operand(packer, i, length)
        length[i] = 0 if before == -2 else 1 if before < 0 else length[before] + 1
        if length[i] < MIN_MEMBERS:
            depth[i] = 1 + max(depth_of(packer, packer.code.as_[i]), depth_of(packer, packer.code.bs[i]),
                               depth_of(packer, packer.code.cs[i]))
            count[depth[i]] += 1
        else:
            depth[i] = max(depth[before], 1 + depth[other_term(packer, i, before)])
    count[0] = MIN_MEMBERS                        # depth 0 holds array elements, which always form a class
    for i in range(packer.code.n):
        term = <int32_t>i if length[i] < MIN_MEMBERS else other_term(packer, i, chain_operand(packer, i, length))
        if depth[i] and count[depth[term]] >= MIN_MEMBERS:
            total += scalar_cost(packer.code.ops[i])
    return total


cdef inline int32_t other_term(Vectoriser packer, Py_ssize_t i, int32_t before) noexcept:
    return packer.code.bs[i] if before == packer.code.as_[i] else packer.code.as_[i]


cdef inline int32_t depth_of(Vectoriser packer, int32_t v) noexcept:
    return 0 if v < 0 else packer.class_of[v]


cdef double min_cost(Vectoriser packer) except -1.0:
    """Return a lower bound on the cost of the new program: classes, remaining scalars and their loads.

    The cost of reading the operands of classes is left out.
    """
    cdef Py_ssize_t i, s
    cdef int side
    cdef int32_t v
    cdef double total = 0.0
    cdef bytearray needed = needed_for(packer.code, packer.code.inputs + packer.code.outputs, True)
    cdef bytearray read_alone = bytearray(packer.code.n)
    cdef unsigned char *marks = needed
    cdef unsigned char *alone = read_alone
    cdef Block counts = take(packer.class_count * sizeof(int32_t))
    memset(counts.data, 0, packer.class_count * sizeof(int32_t))
    for i in range(packer.code.n):
        s = packer.class_of[i]
        if s < 0 or not marks[i] or not is_computed(packer, i):
            continue
        if packer.is_sum[i]:
            if not packer.is_packed[s]:
                total += SCALAR_COST * min_additions(packer, i, <int32_t *>counts.data, alone)
        elif not packer.is_packed[s]:
            total += scalar_cost(packer.code.ops[i])
            for side in range(3):
                v = packer.operand(i, side)
                if v >= 0:
                    alone[v] = 1
        elif packer.first[s] == i:
            total += VECTOR_COST + element_cost(packer.code.ops[i]) * (packer.begin[s + 1] - packer.begin[s])
    for i in range(packer.code.n):
        if alone[i] and (packer.code.ops[i] == LOAD or packer.is_array(packer.class_of[i])):
            total += SCALAR_COST
    return total


cdef Py_ssize_t min_additions(Vectoriser packer, Py_ssize_t i, int32_t *counts, unsigned char *alone) except -1:
    """Return a lower bound on the scalar additions left in a sum; mark in `alone` the terms that are read as scalars.

    `MIN_MEMBERS` or more terms of one class may become one SUM. `counts` must be zero, and is zero again on return.
    """
    cdef Py_ssize_t j, start, stop, parts = 0
    cdef int32_t v
    start, stop = packer.sums[i]
    for j in range(start, stop):
        v = packer.terms[j]
        if packer.class_of[v] >= 0:
            counts[packer.class_of[v]] += 1
    for j in range(start, stop):
        v = packer.terms[j]
        if packer.class_of[v] >= 0 and 0 < counts[packer.class_of[v]] < MIN_MEMBERS:
            alone[v] = 1
            parts += 1
        elif packer.class_of[v] >= 0 and counts[packer.class_of[v]] > 0:
            counts[packer.class_of[v]] = 0
            parts += 1
    for j in range(start, stop):
        v = packer.terms[j]
        if packer.class_of[v] >= 0:
            counts[packer.class_of[v]] = 0
    return max(0, parts - 1)
