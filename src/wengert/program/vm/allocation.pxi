# Buffer allocation, included by machine.pyx: assigns memory to arrays and slots to scalars.
#
# A view shares the allocation of its array. An instruction that overwrites elements of an array reuses the allocation
# in place if nothing reads the array later, else copies the array. Offsets in the workspace are assigned by linear
# scan over live ranges (Poletto and Sarkar 1999, doi:10.1145/330249.330250) with one free list for each size.


cdef Allocation new_alloc(Lowering low, int kind, Py_ssize_t i, Py_ssize_t born, int which=0):
    cdef Allocation alloc = Allocation.__new__(Allocation)
    alloc.kind = kind
    alloc.number = len(low.allocs)
    alloc.which = which
    alloc.layout = low.layout(i)
    alloc.born = born
    alloc.last = max(low.last[i], born)
    alloc.arrays = []
    low.allocs.append(alloc)
    low.alloc_of[i] = alloc
    return alloc


cdef int reuse_or_copy(Lowering low, Py_ssize_t i, Py_ssize_t s) except -1:
    """Set the allocation of an array that results from a store: its base's, reused in place, or a copy."""
    cdef Py_ssize_t base = low.a[i]
    cdef Allocation alloc, fresh
    cdef Layout layout = low.layout(i)
    if base >= 0:
        alloc = low.alloc_of[low.under[base]]
        if low.step[base] == s or (         # this step already stored to other elements
                alloc.kind in (WORK, RESULT) and alloc.last <= s and low.is_whole(base) and layout == alloc.layout
                and count_uses(low, alloc, s, i) == 1):
            low.alloc_of[i] = alloc
            alloc.last = max(alloc.last, low.last[i])
            return 0
    fresh = new_alloc(low, WORK, i, s)
    if base < 0 and low.op[i] == Op.PLACE and layout.is_c and not is_zeros(low, i):
        pass                                # all elements are stored
    elif base < 0:
        low.emitted.append((WG_COPY, low.array_at(fresh, 0), -1, layout.span))
    elif layout.low == 0 and layout.span <= 2 * layout.size * layout.itemsize and low.layout(base) == layout:
        low.emitted.append((WG_COPY, low.array(i), low.array(base), layout.span))
    elif layout.kind == OTHER:
        emit_python_step(low, Op.PLACE, low.value(i), [low.value(base)])
    else:
        Chunks(low, layout.shape).copy(base, i)
    return 0


cdef bint is_zero(Lowering low, Py_ssize_t u):
    """Return whether a value is the constant 0.0, not -0.0."""
    return low.op[u] == Op.CONST and np.float64(low.listing.constants[low.a[u]]).tobytes() == bytes(8)


cdef bint is_zeros(Lowering low, Py_ssize_t i):
    """Return whether an instruction creates an array of zeros."""
    return low.op[i] == Op.PLACE and low.a[i] < 0 and is_zero(low, low.c[i])


cdef int count_uses(Lowering low, Allocation alloc, Py_ssize_t s, Py_ssize_t y) except -1:
    """Count a step's reads of an allocation, except elementwise reads of just those elements that `y` overwrites."""
    cdef int count = 0
    cdef Py_ssize_t written = y         # the instruction that computes the stored elements
    if low.op[y] == Op.PLACE and not low.is_scalar(low.c[y]) and low.step[low.c[y]] == s:
        written = low.c[y]
    for i in (<Step>low.steps[s]).listed():
        for u in low.operands(i):
            count += low.alloc_of.get(low.under[u]) is alloc and not (i <= written and is_placed_at(low, u, y))
    return count


cdef bint is_placed_at(Lowering low, Py_ssize_t u, Py_ssize_t y) except -1:
    """Return whether an operand views exactly the elements, in the same order, that PLACE `y` overwrites."""
    if low.op[y] != Op.PLACE or low.op[u] != Op.VIEW:
        return False
    offset, shape, strides = low.listing.views[low.b[y]]
    layout = low.layout(u)
    return (low.low[u] + (<Layout>layout).low == offset and (<Layout>layout).shape == shape
            and (<Layout>layout).strides == strides and not overlaps(shape, strides))


cdef int place_allocs(Lowering low) except -1:
    """Make outputs new arrays, and assign the other live ranges to offsets in the workspace."""
    cdef Allocation alloc
    cdef Py_ssize_t size, s
    cdef list ending = [[] for _ in range(len(low.steps) + 1)]
    cdef dict free = {}
    taken = set()
    for j, u in enumerate(low.listing.outputs):
        value = low.value(u)
        low.outputs.append(value)
        alloc = (<Value>value).alloc
        if alloc is not None and alloc.number not in taken and may_return(value):
            taken.add(alloc.number)
            (<Value>value).is_returned = alloc.kind in (WORK, RESULT)
            if alloc.kind == WORK:
                alloc.kind = FRESH
                alloc.which = j
                alloc.layout = (<Value>value).layout
    s = 0
    for alloc in sorted([alloc for alloc in low.allocs if (<Allocation>alloc).kind == WORK],
                        key=lambda alloc: (<Allocation>alloc).born):
        while s < alloc.born:
            for other in ending[s]:
                free.setdefault((<Allocation>other).layout.span, []).append((<Allocation>other).place)
            s += 1
        size = alloc.layout.span
        if free.get(size):
            alloc.place = free[size].pop()
        else:
            alloc.place = low.memory
            low.memory += (size + 127) // 64 * 64
        if alloc.last < len(low.steps):
            ending[alloc.last].append(alloc)
    return 0


cdef bint may_return(Value value):
    """Return whether an output covers its whole allocation, so that it can be returned without a copy."""
    cdef Layout layout = value.layout, own = value.alloc.layout
    return value.is_whole or (
        value.alloc.kind == WORK and layout.dtype == own.dtype and value.first == 0
        and layout.span == own.span == layout.size * layout.itemsize
        and not overlaps(layout.shape, layout.strides))


cdef int32_t slot_of_constant(Lowering low, double x) except -1:
    cdef bytes bits = (<char *>&x)[:sizeof(double)]
    found = low.constants.get(bits)
    if found is None:
        found = low.constants[bits] = low.slots
        low.slots += 1
    return found


cdef int32_t new_slot(Lowering low, Py_ssize_t i) except -1:
    if low.free:
        low.free -= 1
        low.slot[i] = low.free_slots[low.free]
    else:
        low.slot[i] = low.slots
        low.slots += 1
    return low.slot[i]


cdef inline int release_slot(Lowering low, Py_ssize_t u, Py_ssize_t position) except -1:
    """Free the slot of a scalar after its last use; constants keep their slots."""
    if low.is_scalar(u) and low.last[u] <= position and low.op[u] != Op.CONST:
        low.last[u] = END                  # so that it is freed only once
        if low.free == low.free_slots.shape[0]:
            low.free_slots = np.concatenate([low.free_slots, int32s(low.free)])
        low.free_slots[low.free] = low.slot[u]
        low.free += 1
    return 0


cdef inline int release_operands(Lowering low, Py_ssize_t i, Py_ssize_t position) except -1:
    cdef Py_ssize_t j
    cdef const int32_t *read = &low.read[0]
    for j in range(low.first[i], low.first[i + 1]):
        release_slot(low, read[j], position)
    return 0
