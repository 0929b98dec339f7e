# Dead code elimination, and use counts; included by simplify.pyx.

def live(Listing code, bint and_guards=True):
    """Return the program without dead code; guards are kept, unless `and_guards` is False."""
    cdef bytearray needed = needed_for(code, code.inputs + code.outputs, and_guards)
    return filtered(code, needed, True)


cdef Listing eliminate_dead_in_place(Listing code):
    """Eliminate dead code and overwritten stores; `code` must have no other owner, and its memory is reused."""
    code = without_dead(code)
    return without_dead(code) if merge_stores(code) else code


cdef bint merge_stores(Listing code) except -1:
    """Merge stores into an array that only the next store reads with that store; return whether there are any.

    A PLACE overwrites an earlier one of the same view, and the scalars of consecutive PACKs become one PACK.
    """
    cdef Py_ssize_t i
    cdef int32_t base
    cdef Block block
    cdef int32_t *count = NULL
    cdef bint found = False
    for i in range(code.n - 1, -1, -1):
        base = code.as_[i] if code.ops[i] == PLACE or code.ops[i] == PACK else -1
        if base < 0 or code.ops[base] != code.ops[i] or code.kinds[base] != code.kinds[i]:
            continue
        if code.ops[i] == PLACE and code.bs[base] != code.bs[i]:
            continue
        if count == NULL:
            block = take(code.n * sizeof(int32_t))
            count = <int32_t *>block.data
            memset(count, 0, code.n * sizeof(int32_t))
            count_uses(code, count)
        if count[base] != 1 or count[i] == 0:
            continue
        found = True
        if code.ops[i] == PACK:
            merge_packs(code, i, count)
            continue
        while base >= 0 and count[base] == 1 and code.ops[base] == PLACE and code.bs[base] == code.bs[i]:
            count[base] = 0
            base = code.as_[base]
        code.as_[i] = base
    return found


cdef int merge_packs(Listing code, Py_ssize_t i, int32_t *count) except -1:
    """Merge PACK i with the PACKs before it that only the next one reads; they become dead."""
    cdef list chain = [i]
    cdef dict elements = {}
    cdef int32_t v = code.as_[i]
    while v >= 0 and code.ops[v] == PACK and count[v] == 1 and code.kinds[v] == code.kinds[i]:
        chain.append(v)
        count[v] = 0
        v = code.as_[v]
    for j in reversed(chain):
        offsets, values = code.packs[code.bs[<int32_t>j]]
        elements.update(zip(offsets.tolist(), values.tolist()))
    offsets = sorted(elements)
    code.packs.append((np.array(offsets, np.int32), np.array([elements[k] for k in offsets], np.int32)))
    code.as_[i], code.bs[i] = v, <int32_t>(len(code.packs) - 1)
    return 0


cdef Listing without_dead(Listing code):
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
    """Return an array, by value id, that marks some values and their transitive operands."""
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
        if not marks[i] and and_guards and (code.ops[i] == GUARD or (
                code.ops[i] == CALL and <bint>code.calls[code.as_[i]].checks)):     # runs even if its result is unused
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


cdef bint is_orphaned_guard(Listing code, Py_ssize_t i, const unsigned char *marks) except -1:
    """Return whether this is a guard that only the derivation of an unmarked value needs."""
    return code.ops[i] == GUARD and code.cs[i] >= 0 and not marks[code.cs[i]]


cdef int mark(Listing code, Py_ssize_t i, unsigned char *marks) except -1:
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


def uses(Listing code):
    """Count the uses of each value, by instructions and as an output."""
    cdef cnp.npy_intp n = code.n
    cdef cnp.ndarray found = cnp.PyArray_ZEROS(1, &n, cnp.NPY_INT32, 0)
    count_uses(code, <int32_t *>cnp.PyArray_DATA(found))
    return found.tolist()
