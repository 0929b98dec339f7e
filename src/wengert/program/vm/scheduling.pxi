# Scheduling, included by machine.pyx: groups IR instructions into steps and finds the last use of each value.
#
# The first pass, in program order, adds scalar instructions to scalar steps and elementwise array instructions to
# vector steps of the same shape, if their operands are available there; any other instruction is a step of its own.
# A second pass sinks instructions into the only step that reads them, so that their value is never stored.


cdef int assign_steps(Lowering low) except -1:
    cdef Py_ssize_t i, j, s, numbers = -1
    cdef int op, need
    cdef list operands
    cdef Layout layout
    cdef int32_t[::1] member = int32s(low.n, -1), order, end
    cdef const int16_t *ops = &low.op[0]
    cdef const int32_t *first = &low.first[0]
    cdef const int32_t *read = &low.read[0]
    cdef int32_t *step = &low.step[0]
    low.steps = []
    low.latest = {}
    for i in range(low.n):
        op = ops[i]
        if op == Op.VIEW:
            layout = low.layout(i)
            low.under[i] = low.under[low.a[i]]
            low.low[i] = low.low[low.a[i]] + low.listing.views[low.b[i]][0] - layout.low
            low.step[i] = low.step[low.under[i]]
            continue
        if op == Op.INPUT or op == Op.CONST or op == Op.ARRAY or (not low.count[i] and i in low.fills):
            continue
        if is_scalar_code(low, i):
            need = -1
            for j in range(first[i], first[i + 1]):
                need = max(need, step[read[j]])
            if numbers < 0 or numbers < need:
                numbers = new_step(low, NUMBERS, None)
            s = numbers
        else:
            operands = low.operands(i)
            if is_vector_code(low, i, operands):
                s = vector_step(low, i, operands)
            else:
                s = new_step(low, kind_of_step(low, i), None)
        step[i] = member[i] = <int32_t>s
    if not low.exact and len(low.steps) > 1:
        sink_instructions(low, member)
    order, end = int32s(low.n), np.zeros(len(low.steps) + 1, np.int32)
    for i in range(low.n):
        if member[i] >= 0:
            end[member[i] + 1] += 1
    for s in range(len(low.steps)):
        end[s + 1] += end[s]
        (<Step>low.steps[s]).members = order[end[s]:end[s + 1]]
    for i in range(low.n):
        if member[i] >= 0:
            order[end[member[i]]] = <int32_t>i
            end[member[i]] += 1
    return 0


cdef Py_ssize_t new_step(Lowering low, int kind, tuple shape) except -1:
    cdef Step step = Step.__new__(Step)
    step.kind = kind
    step.shape = shape
    low.steps.append(step)
    return len(low.steps) - 1


cdef bint is_scalar_code(Lowering low, Py_ssize_t i) except -1:
    cdef int op = low.op[i]
    cdef Py_ssize_t j
    cdef const int32_t *types = &low.type[0]
    cdef const int32_t *read = &low.read[0]
    if op == Op.LOAD:
        return low.layout(low.a[i]).kind != OTHER
    if op == Op.GUARD:
        expected = low.listing.guards[low.b[i]][0]      # a double must represent it exactly
        return low.is_scalar(low.a[i]) and (
            isinstance(expected, float) or isinstance(expected, (int, np.bool)) and abs(expected) <= 1 << 53)
    if types[i] > 1 or machine_op[op] < 0:
        return False
    for j in range(low.first[i], low.first[i + 1]):
        if types[read[j]] > 1:
            return False
    return not low.in_loop(op, True) or low.has_loop(op)


cdef bint is_vector_code(Lowering low, Py_ssize_t i, list operands):
    cdef int op = low.op[i]
    cdef Layout layout
    if op == Op.SUM:
        return not low.exact and low.layout(low.a[i]).kind == DOUBLES
    if i in low.folds:
        return True
    if low.is_scalar(i):
        return False
    if op == Op.PLACE:
        if low.layout(i).kind == OTHER:
            return False
        return low.is_scalar(low.c[i]) or low.layout(low.c[i]).kind != OTHER
    layout = low.layout(i)
    if op == Op.GATHER:
        return layout.kind == DOUBLES and low.layout(low.a[i]).kind == DOUBLES
    if machine_op[op] < 0 or layout.kind == OTHER:
        return False
    if layout.kind == BOOLS and (op < Op.INPUT or op == Op.STRONG):
        return False
    for u in operands:
        if not low.is_scalar(u) and (low.layout(u).kind == OTHER or low.layout(u).shape != layout.shape):
            return False
    if low.in_loop(op, False):
        # chunks are in ascending order, and ufunc loops may round differently for negative strides
        return op != WG_POW and low.has_loop(op) and not (
            low.exact and any([low.layout(u).low > 0 for u in operands if not low.is_scalar(u)]))
    return True


cdef bint is_row_of(Lowering low, Py_ssize_t u, tuple shape) except -1:
    """Return whether a value is a reduction over the last axis, broadcast back, with rows that fit in a chunk."""
    cdef Layout layout
    if u in low.folds or low.is_scalar(u):
        return False
    layout = low.layout(u)
    steps = low.folds[low.under[u]][1]
    return (layout.shape == shape == low.layout(low.read[low.first[low.under[u]]]).shape
            and 1 < shape[-1] <= WG_CHUNK and steps[-1] == 0 and low.low[u] == 0 and layout.strides == steps
            and all([n == 1 or step for n, step in zip(shape[:-1], steps)]))


cdef int kind_of_step(Lowering low, Py_ssize_t i) except -1:
    """Return the kind of step for an instruction that is neither scalar nor vector code."""
    if low.op[i] == Op.PACK and low.layout(i).kind == DOUBLES:
        return PACKING
    if i in low.natives or is_small_product(low, i):
        return NATIVE
    cdef Py_ssize_t source = low.c[i] if low.op[i] == Op.PUT else low.a[i]
    if low.op[i] == Op.SCATTER or low.op[i] == Op.PUT:
        if low.layout(i).kind == low.layout(source).kind == DOUBLES and low.layout(source).is_c:
            return MOVING
    return NATIVE if is_native_function(low, i) else PYTHON


cdef Py_ssize_t vector_step(Lowering low, Py_ssize_t i, list operands) except -1:
    """Return the latest vector step of this shape if the operands are available there, else a new one."""
    cdef int op = low.op[i]
    cdef Py_ssize_t u
    if op == Op.PLACE:
        shape = tuple(low.listing.views[low.b[i]][1])
    else:
        shape = low.layout(operands[0] if op == Op.SUM or op == Op.CALL else i).shape
    cdef Py_ssize_t s = low.latest.get(shape, -1)
    for u in operands:
        if s < low.step[u]:
            s = -1
        elif s == low.step[u]:
            # defined in the same step: usable only element by element, or as reductions of the same rows
            if (op == Op.PLACE or op == Op.GATHER) and u == low.a[i]:
                s = s if op == Op.PLACE and stores_beside(low, i, s) else -1
            elif low.under[u] in low.folds:
                if not is_row_of(low, u, shape):
                    s = -1
            elif (low.is_scalar(u) or low.under[u] != u or low.op[u] == Op.PLACE
                    or low.layout(u).shape != shape):
                s = -1
    if s < 0:
        s = low.latest[shape] = new_step(low, VECTOR, shape)
    return s


cdef bint stores_beside(Lowering low, Py_ssize_t i, Py_ssize_t s) except -1:
    """Return whether store `i` is disjoint from all stores of step `s` to the same array."""
    cdef Py_ssize_t base = low.a[i], parts = 0
    cdef tuple view = low.listing.views[low.b[i]]
    if overlaps(view[1], view[2]) or low.is_scalar(low.c[i]):
        return False
    while base >= 0 and low.step[base] == s:
        parts += 1
        if (parts > MAX_STORES or low.op[base] != Op.PLACE or low.count[base] != 1
                or low.type[base] != low.type[i]
                or not disjoint(view, low.listing.views[low.b[base]], low.layout(i).itemsize)):
            return False
        base = low.a[base]
    return True


cdef int sink_instructions(Lowering low, int32_t[::1] member) except -1:
    """Sink instructions that read at most one large array into the only step that uses them, to avoid a store."""
    cdef int32_t[::1] readers = int32s(low.n, -1)
    cdef int32_t *reader = &readers[0]              # the only step that reads a value; -1: none, -2: not sinkable
    cdef const int32_t *read = &low.read[0]
    cdef Py_ssize_t i, j, u
    cdef int32_t here
    cdef int op
    for u in low.listing.outputs:
        reader[u] = -2
    for i in range(low.n - 1, -1, -1):
        op, here = low.op[i], member[i]
        if reader[i] > here >= 0 and may_sink(low, i, here, reader[i], reader):
            low.step[i] = member[i] = here = reader[i]
        for j in range(low.first[i], low.first[i + 1]):
            u = read[j]
            if op == Op.VIEW or (op == Op.PLACE or op == Op.GATHER) and u == low.a[i]:
                reader[u] = -2
            elif reader[u] != here:
                reader[u] = here if reader[u] == -1 else -2
    return 0


cdef bint may_sink(Lowering low, Py_ssize_t i, Py_ssize_t s, Py_ssize_t t, const int32_t *reader) except -1:
    """Return whether an instruction may move from vector step `s` to `t` and add at most one array that `t` reads.

    Instructions of step `s` that only it reads move with it.
    """
    cdef Step here = low.steps[s], there = low.steps[t]
    if here.kind != VECTOR or there.kind != VECTOR or here.shape != there.shape:
        return False
    return array_read(low, i, s, math.prod(here.shape), reader, NO_ARRAY, MAX_SUNK) >= SMALL_ARRAYS


cdef Py_ssize_t array_read(Lowering low, Py_ssize_t i, Py_ssize_t s, Py_ssize_t size, const int32_t *reader,
                           Py_ssize_t found, int depth) except? -1:
    """Return the only large array read by an instruction of step `s` and by its operands that would move with it.

    Returns SMALL_ARRAYS if they read only small broadcast arrays, which stay in the cache, NO_ARRAY if they read no
    arrays, and MANY_ARRAYS if they read several large ones or cannot move.
    """
    cdef Py_ssize_t j, u
    if machine_op[low.op[i]] < 0 or depth == 0:
        return MANY_ARRAYS
    for j in range(low.first[i], low.first[i + 1]):
        u = low.read[j]
        if low.is_scalar(u):
            continue
        if low.step[u] == s and low.under[u] == u and low.count[u] == 1 and reader[u] != -2:
            found = array_read(low, u, s, size, reader, found, depth - 1)
        elif low.step[u] >= s:
            return MANY_ARRAYS
        elif MIN_BROADCAST * math.prod(low.layout(low.under[u]).shape) <= size:
            found = max(found, SMALL_ARRAYS)
        elif found >= 0 and found != low.under[u]:
            return MANY_ARRAYS
        else:
            found = low.under[u]
        if found == MANY_ARRAYS:
            return MANY_ARRAYS
    return found


cdef int find_last_uses(Lowering low) except -1:
    cdef Py_ssize_t s, i, j, m, u, position = 0
    cdef Step step
    cdef int32_t *last
    cdef const int32_t *read = &low.read[0]
    cdef const int32_t *types = &low.type[0]
    low.last = int32s(low.n, -1)
    last = &low.last[0]
    low.needed = np.zeros(low.n, np.int8)
    for s in range(len(low.steps)):
        step = low.steps[s]
        if step.kind != NUMBERS:
            position += 1
        for m in range(step.members.shape[0]):
            i = step.members[m]
            if step.kind == NUMBERS:
                position += 1
            for j in range(low.first[i], low.first[i + 1]):
                u = read[j]
                if types[u] <= 1:
                    last[u] = <int32_t>position         # positions ascend
                else:
                    extend_life(low, u, s, position)
    for u in low.listing.outputs:
        extend_life(low, u, END, END)
    return 0


cdef int extend_life(Lowering low, Py_ssize_t u, Py_ssize_t s, Py_ssize_t position) except -1:
    cdef Py_ssize_t w = low.under[u]
    if low.is_scalar(u):
        low.last[u] = max(low.last[u], <int32_t>position)
        return 0
    low.last[w] = max(low.last[w], <int32_t>s)
    if w != u or s != low.step[w]:
        low.needed[w] = 1
    return 0
