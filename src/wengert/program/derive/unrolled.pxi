# Jacobians of scalar code as straight-line programs, one sweep for each column or row.

def unrolled(Listing code, int32_t wrt, int32_t result, bint is_symmetric, Py_ssize_t most, bint by_rows, bint exact):
    """Return a straight-line program of a Jacobian of scalar code, with separate instructions for each entry.

    Return None if the code is not `elementary`, or if there would be more than `most` instructions.
    A symmetric Jacobian is computed on one side of the diagonal and mirrored.
    """
    cdef Listing derived
    cdef dict entries
    _, shape, strides = code.types[code.kinds[wrt]]
    _, lines, line_strides = code.types[code.kinds[result]]
    if strides is not None or line_strides is not None or not elementary(code, wrt, result):
        return None
    offsets, results = code.packs[code.bs[result]] if code.ops[result] == PACK else (np.zeros(1, np.int32), [result])
    pairs = list(zip(offsets.tolist(), [int(v) for v in results]))
    if by_rows:
        derived, entries = unrolled_rows(code, wrt, pairs, is_symmetric, most, exact)
    else:
        derived, entries = unrolled_columns(code, wrt, pairs, is_symmetric, most)
    if derived is None:
        return None
    n = math.prod(shape)
    if is_symmetric:
        entries.update({(j, i): v for (i, j), v in list(entries.items())})
    kind = derived.type_of((np.dtype(float), lines + shape, None))
    order = sorted(entries)
    if kind == SCALAR:
        derived.outputs = [entries[order[0]] if order else derived.constant(0.0)]
    else:
        derived.packs.append((np.array([i * n + j for i, j in order], dtype=np.int32),
                              np.array([entries[place] for place in order], dtype=np.int32)))
        derived.outputs = [emit(derived, PACK, -1, len(derived.packs) - 1, -1, kind)]
    return derived


cdef tuple unrolled_columns(Listing code, int32_t wrt, list pairs, bint is_symmetric, Py_ssize_t most):
    """Run one forward sweep for each element of `wrt` that is read; return the entries by (row, column)."""
    cdef Forward sweep = Forward(code, None)
    cdef Listing derived = sweep.code
    cdef Py_ssize_t i
    cdef int32_t v, one = derived.constant(1.0)
    cdef dict loads = {}, entries = {}
    if code.kinds[wrt] == SCALAR:
        loads[0] = [wrt]
    for i in range(code.n):
        if code.ops[i] == LOAD and code.as_[i] == wrt:
            loads.setdefault(code.bs[i], []).append(<int32_t>i)
    sweep.mark([wrt])
    sweep.need([v for _, v in pairs])
    for column, readings in loads.items():
        sweep.clear()
        for v in readings:
            sweep.derivative[v] = one
        sweep.sweep()
        for row, v in pairs:
            if sweep.derivative[v] >= 0 and (not is_symmetric or row <= column):
                entries[row, column] = sweep.derivative[v]
        if derived.n > most:
            return None, None
    return derived, entries


cdef tuple unrolled_rows(Listing code, int32_t wrt, list pairs, bint is_symmetric, Py_ssize_t most, bint exact):
    """Run one reverse sweep for each element of the result; return the entries by (row, column)."""
    cdef Reverse sweep = Reverse(code, None, exact)
    cdef Listing derived = sweep.code
    cdef int32_t v, one = derived.constant(1.0)
    cdef dict entries = {}
    sweep.mark([wrt])
    for row, v in pairs:
        sweep.clear()
        sweep.elements = {}
        sweep.accumulate(v, one)
        sweep.sweep()
        found = {0: sweep.derivative[wrt]} if code.kinds[wrt] == SCALAR else sweep.elements.get(wrt, {})
        for column, g in found.items():
            if g >= 0 and (not is_symmetric or column <= row):
                entries[row, column] = g
        if derived.n > most:
            return None, None
    return derived, entries


cpdef bint elementary(Listing code, int32_t wrt, int32_t result) except -1:
    """Return whether `wrt` is read only element by element, and no array except the result depends on it."""
    cdef Py_ssize_t i
    cdef Sweep sweep = Sweep(code, None)
    sweep.mark([wrt])
    for i in range(code.n):
        if sweep.active[i] and code.kinds[i] > FLAG and i != wrt and i != result:
            return False
        if (code.ops[i] == CALL or code.ops[i] == SUM) and sweep.active[i]:
            return False
    if code.ops[result] == PACK:
        return code.as_[result] < 0 or not sweep.active[code.as_[result]]
    return code.kinds[result] == SCALAR
