# Adjoint rules of array entries: each takes the adjoint of an entry's result and adds to the adjoints of its operands.
# Elementwise entries multiply by their partial: in the C kernels of ``sweep.c`` where the layout allows it, else in
# NumPy. Calls run the pullback of their registry row (Griewank and Walther 2008, section 3.2).

cdef extern from "sweep.h" nogil:
    void wg_pull(int form, int op, int side, int add, Py_ssize_t n, const double *g, const double *a, const double *b,
                 const double *y, double *adjoint)
    void wg_multiply_add(int add, Py_ssize_t n, const double *g, const double *p, double *adjoint)
    void wg_add_scalar(int add, Py_ssize_t n, double g, double *adjoint)
    void wg_strong(Py_ssize_t n, const double *g, const double *p, int step, double *y)
    void wg_rank_one(int add, Py_ssize_t m, Py_ssize_t n, const double *u, const double *v, double *adjoint,
                     Py_ssize_t step)

cdef object np_add_at = np.add.at

cdef enum:
    COTANGENT, ADJOINT, OF_A, OF_B, OF_Y

cdef enum:
    MIN_RANK_ONE = 256      # elements; a rank-one cotangent is added to a matrix of this size without a temporary

cdef struct Rows:                       # current row of each array that a kernel uses
    char *at[5]                         # address of its first element
    const cnp.npy_intp *steps[5]        # strides; NULL: a scalar
    cnp.npy_intp index[64]


cdef int pull_node(Tape tape, Node node, Py_ssize_t i) except -1:
    """Reverse one array entry, then drop the adjoint of its result."""
    cdef Py_ssize_t j
    cdef double *row
    if node.kind == STORE:
        return pull_store(tape, node)
    if node.kind == LOOP:
        return pull_loop(tape, node, i)
    if node.out is None:
        row = wg_whole(tape.adjoint, tape.ranges, i, tape.width)
        for j in range(tape.k):
            if row[j] != 0.0:
                break
        else:
            return 0
    elif node.out.shadow is None:
        return 0
    if node.kind == ELEMENTWISE:
        pull_elementwise(tape, node)
    elif node.kind == SUM:
        pull_sum(tape, node, i)
    else:
        pull_call(tape, node, i)
    tape.drop_shadow(node.out)
    return 0


cdef int pull_elementwise(Tape tape, Node node) except -1:
    """Add cotangent * partial to the adjoint of each operand."""
    cdef bint left = node.abuf is not None or node.aslot >= 0
    cdef bint right = node.bbuf is not None or node.bslot >= 0
    cdef char *g = NULL
    if node.out is not None:
        g = node.out.shadow.data + (<char *>cnp.PyArray_DATA(node.y) - node.out.low)
    # The left operand comes last: then the cotangent is no longer needed, and its memory may become the new adjoint.
    if right:
        pull_operand(tape, node, 1, g, node.out.span, not left)
    if left:
        pull_operand(tape, node, 0, g, node.out.span, True)
    return 0


cdef int pull_operand(Tape tape, Node node, int side, char *g, Py_ssize_t gspan, bint last) except -1:
    cdef Buffer buffer = node.bbuf if side else node.abuf
    cdef cnp.ndarray view = node.b if side else node.a, p, y = node.y
    cdef int32_t slot = node.bslot if side else node.aslot
    cdef Py_ssize_t n = cnp.PyArray_SIZE(y), j
    cdef bint add, fast, give
    cdef double scalars[2]
    cdef const double *operands[2]
    cdef const double *yv
    cdef char *adjoint
    cdef int form = VECTORS
    if tape.is_unneeded(buffer):
        return 0
    fast = buffer is not None and is_vector(y) and is_vector(view) and same_shape(view, y)
    if fast and (node.opcode < WG_ADD or opcode_reads[node.opcode][side]):
        fast, form = kernel_operands(tape, node, y, scalars, operands)
    else:
        operands[0] = operands[1] = <double *>g     # the partial is constant: any readable memory will do
    # The kernel does not read operands that are kept only as view descriptors: any readable memory will do.
    yv = <double *>g if node.descriptors & WG_Y else <double *>cnp.PyArray_DATA(y)
    if node.descriptors & WG_A:
        operands[0] = <double *>g
    if node.descriptors & WG_B:
        operands[1] = <double *>g
    if fast:
        give = last and gspan == buffer.span and node.out.shadow.data == g
        add = tape.target(buffer, view, node.out.shadow if give else None, &adjoint)
        if not is_cheap(node.opcode, n):
            p = rule_partial(tape, node, side)
            if is_vector(p) and same_shape(p, y):
                for j in range(tape.k):
                    wg_multiply_add(add, n, <double *>(g + j * gspan), <double *>cnp.PyArray_DATA(p),
                                    <double *>(adjoint + j * buffer.span))
                return 0
        for j in range(tape.k):
            times_partial(form, node.opcode, side, add, n, <double *>(g + j * gspan), operands[0], operands[1], yv,
                          <double *>(adjoint + j * buffer.span))
        return 0
    if not pull_rows(tape, node, side, g, gspan):
        c = product(tape.adjoint_view(node.out, y), rule_partial(tape, node, side))
        tape.accumulate(buffer, view, slot, c, True)
    return 0


cdef bint pull_rows(Tape tape, Node node, int side, char *g, Py_ssize_t gspan) except -1:
    """Run the kernel of an operand row by row if the last axis is contiguous; return False if it is not."""
    cdef Buffer buffer = node.bbuf if side else node.abuf
    cdef cnp.ndarray view = node.b if side else node.a, y = node.y
    cdef int reads = opcode_reads[node.opcode][side] & ~node.descriptors, form = VECTORS
    cdef Py_ssize_t j, n = cnp.PyArray_SIZE(y)
    cdef double scalars[2]
    cdef Rows rows
    if (buffer is None or n == 0 or cnp.PyArray_NDIM(y) < 2 or not is_cheap(node.opcode, n)
            or not has_rows(y, y) or not has_rows(view, y) or overlaps_itself(view)):
        return False
    for j in range(5):                  # default for operands that the kernel ignores: any readable memory
        rows.at[j], rows.steps[j] = g, cnp.PyArray_STRIDES(y)
    if not find_rows(tape, node, 0, reads, &rows, scalars) or not find_rows(tape, node, 1, reads, &rows, scalars):
        return False
    if node.opcode < WG_ADD:
        rows.at[OF_B], rows.steps[OF_B] = rows.at[OF_A], rows.steps[OF_A]
    if reads & WG_Y:
        rows.at[OF_Y] = cnp.PyArray_BYTES(y)
    rows.at[ADJOINT] = tape.shadow_of(buffer) + (cnp.PyArray_BYTES(view) - buffer.low)
    rows.steps[ADJOINT] = cnp.PyArray_STRIDES(view)
    if rows.steps[OF_A] == NULL or rows.steps[OF_B] == NULL:
        form = SCALAR_LEFT if rows.steps[OF_A] == NULL else SCALAR_RIGHT
    n = cnp.PyArray_DIM(y, cnp.PyArray_NDIM(y) - 1)
    memset(rows.index, 0, sizeof(rows.index))
    while True:
        for j in range(tape.k):
            times_partial(form, node.opcode, side, True, n, <double *>(rows.at[COTANGENT] + j * gspan),
                          <double *>rows.at[OF_A], <double *>rows.at[OF_B], <double *>rows.at[OF_Y],
                          <double *>(rows.at[ADJOINT] + j * buffer.span))
        if not next_row(&rows, y):
            return True


cdef bint find_rows(Tape tape, Node node, int side, int reads, Rows *rows, double *scalars):
    """Set the address of an array or scalar that the partial reads; return False if its rows are not contiguous."""
    cdef cnp.ndarray array = node.b if side else node.a
    if not reads & (WG_B if side else WG_A):
        return True
    if array is None:
        scalars[side] = scalar_operand(tape, node, side)
        rows.at[OF_A + side], rows.steps[OF_A + side] = <char *>&scalars[side], NULL
        return True
    rows.at[OF_A + side], rows.steps[OF_A + side] = cnp.PyArray_BYTES(array), cnp.PyArray_STRIDES(array)
    return has_rows(array, node.y)


cdef int pull_sum(Tape tape, Node node, Py_ssize_t i) except -1:
    """Reverse a sum: add its cotangent to the adjoint of every element."""
    cdef char *adjoint
    cdef Py_ssize_t j, n = cnp.PyArray_SIZE(node.a)
    cdef bint add
    if tape.is_unneeded(node.abuf):
        return 0
    if not is_vector(node.a):
        return tape.accumulate(node.abuf, node.a, -1, np.reshape(
            tape.cotangent_of(node, i), (tape.k,) + (1,) * cnp.PyArray_NDIM(node.a) if tape.stacked else ()))
    add = tape.target(node.abuf, node.a, None, &adjoint)
    for j in range(tape.k):
        wg_add_scalar(add, n, tape.adjoint[i * tape.width + j], <double *>(adjoint + j * node.abuf.span))
    return 0


cdef (bint, int) kernel_operands(Tape tape, Node node, cnp.ndarray y, double *scalars, const double **operands):
    """Find the operands of a kernel, each a scalar or an array like y; (False, 0) if the layouts differ.

    A unary kernel gets its operand twice.
    """
    cdef cnp.ndarray array
    cdef int side
    for side in range(1 if node.opcode < WG_ADD else 2):
        array = node.b if side else node.a
        if array is None:
            scalars[side] = scalar_operand(tape, node, side)
            operands[side] = &scalars[side]
        elif is_vector(array) and same_shape(array, y):
            operands[side] = <double *>cnp.PyArray_DATA(array)
        else:
            return False, 0
    if node.opcode < WG_ADD:
        operands[1] = operands[0]
        return True, VECTORS
    return True, (SCALAR_LEFT if node.a is None else SCALAR_RIGHT if node.b is None else VECTORS)


cdef inline double scalar_operand(Tape tape, Node node, int side) noexcept:
    cdef int32_t slot = node.bslot if side else node.aslot
    return tape.entries.v[slot] if slot >= 0 else node.bc if side else node.ac


cdef object operand_value(Tape tape, Node node, int side):
    cdef cnp.ndarray array = node.b if side else node.a
    if node.descriptors & (WG_B if side else WG_A):
        return None
    return array if array is not None else np.float64(scalar_operand(tape, node, side))


cdef object rule_partial(Tape tape, Node node, int side):
    """Partial of an elementwise entry by its NumPy rule: a scalar or an array."""
    partial = node.row.partials[side]
    tape.ignore_float_errors()
    if not callable(partial):
        return partial
    y = None if node.descriptors & WG_Y else node.y
    if node.opcode < WG_ADD:
        return partial(y, operand_value(tape, node, 0))
    return partial(y, operand_value(tape, node, 0), operand_value(tape, node, 1))


cdef int pull_call(Tape tape, Node node, Py_ssize_t i) except -1:
    cdef object ybar, row = node.row, y = node.y
    cdef object shared = None, c
    cdef int position, shared_position = -1
    cdef Py_ssize_t d
    cdef Buffer buffer
    tape.ignore_float_errors()
    ybar = tape.cotangent_of(node, i)
    if node.kind == GATHER:
        return pull_gather(tape, node, ybar)
    if node.kind == REARRANGE:
        return pull_rearrangement(tape, node, ybar)
    if y is None:
        y = np.float64(tape.entries.v[i])
    if tape.has_complex and holds_complex((y, node.args)):
        return pull_complex(tape, node, ybar, y)
    for source in node.sources:
        position = source[0]
        buffer = source[2]
        if tape.is_unneeded(buffer):
            continue
        if (row.rank_one is not None and buffer is not None
                and add_rank_one(tape, node, position, buffer, source[3], ybar)):
            continue
        c = NotImplemented
        if row.replayed and tape.level.is_gradient and not tape.stacked and source[1] < 0:
            c = repeated_pullback(row, position, ybar, y, node.args, node.kwargs)
        if c is not NotImplemented:
            pass
        elif row.kind == "elementwise":
            c = row.partials[position]
            c = product(ybar, c(y, *node.args) if callable(c) else c)
        else:
            if position != shared_position:         # one pullback gives the cotangents of all items of a sequence
                shared_position = position
                if not tape.stacked or row.stacked:
                    shared = pullback_of(row, position, ybar, y, node)
                else:
                    shared = [pullback_of(row, position, ybar[d], y, node) for d in range(tape.k)]
            c = shared
            if source[1] >= 0:
                c = ([item[source[1]] for item in shared] if tape.stacked and not row.stacked
                     else shared[source[1]])
            if tape.stacked and not row.stacked:
                c = np.stack([np.broadcast_to(item, np.shape(source[3]) if buffer is not None else ())
                              if np.ndim(item) < (source[3].ndim if buffer is not None else 0) else item
                              for item in c])
        # c is owned if its only references are `c` and, when it is the same object, `shared`
        tape.accumulate(buffer, source[3], source[4], c,
                        Py_REFCNT(c) <= (2 if c is shared else 1) and c is not ybar)
    return 0


cdef bint add_rank_one(Tape tape, Node node, int position, Buffer buffer, cnp.ndarray view, object ybar) except -1:
    """Add the cotangent u v^T of a matrix to its adjoint, without a temporary; False if it has no such form."""
    cdef Py_ssize_t rows, columns, step
    cdef char *place
    cdef bint add = True
    if (tape.stacked or node.kwargs or not is_double(view) or cnp.PyArray_NDIM(view) != 2
            or cnp.PyArray_SIZE(view) < MIN_RANK_ONE):
        return False
    pair = node.row.rank_one(position, ybar, *node.args)
    if pair is None:
        return False
    if cnp.PyArray_STRIDE(view, 1) != 8 and cnp.PyArray_STRIDE(view, 0) == 8:
        rows, columns, step = cnp.PyArray_DIM(view, 1), cnp.PyArray_DIM(view, 0), cnp.PyArray_STRIDE(view, 1)
        v, u = pair
    else:
        rows, columns, step = cnp.PyArray_DIM(view, 0), cnp.PyArray_DIM(view, 1), cnp.PyArray_STRIDE(view, 0)
        u, v = pair
        if cnp.PyArray_STRIDE(view, 1) != 8:
            return False
    if step < 8 * columns or step % 8 or not (is_row(u, rows) and is_row(v, columns)):
        return False
    u, v = np.ascontiguousarray(u), np.ascontiguousarray(v)
    if is_vector(view):
        add = tape.target(buffer, view, None, &place)
    else:
        place = tape.shadow_of(buffer) + (<char *>cnp.PyArray_DATA(view) - buffer.low)
    wg_rank_one(add, rows, columns, <double *>cnp.PyArray_DATA(<cnp.ndarray>u),
                <double *>cnp.PyArray_DATA(<cnp.ndarray>v), <double *>place, step // 8)
    return True


cdef bint is_row(object x, Py_ssize_t n) except -1:
    """Return whether `x` is a 1-D array of n doubles."""
    return (type(x) is ndarray and is_double(<cnp.ndarray>x) and cnp.PyArray_NDIM(<cnp.ndarray>x) == 1
            and cnp.PyArray_SIZE(<cnp.ndarray>x) == n)


cdef int pull_complex(Tape tape, Node node, object ybar, object y) except -1:
    """Reverse a call with complex values."""
    adjoints = Adjoints(node.row, ybar if tape.stacked else ybar[None], y, node.args, node.kwargs)
    for source in node.sources:
        if not tape.is_unneeded(source[2]):
            shape = np.shape(source[3]) if source[2] is not None else ()
            c = adjoints.of(source[0], source[1], shape)
            tape.accumulate(source[2], source[3], source[4], c if tape.stacked else c[0])
    return 0


cdef object pullback_of(object row, int position, object ybar, object y, Node node):
    if row.variadic is not None:
        return row.variadic(position, ybar, y, *node.args, **node.kwargs)
    return row.vjps[position](ybar, y, *node.args, **node.kwargs)


cdef int pull_gather(Tape tape, Node node, object ybar) except -1:
    """adjoint[key] += cotangent, repeated indices included."""
    cdef Py_ssize_t j
    source = node.sources[0]
    if tape.is_unneeded(source[2]):
        return 0
    target = tape.adjoint_view(source[2], source[3])
    if not tape.stacked:
        np_add_at(target, node.key, ybar)
        return 0
    for j in range(tape.k):     # one direction at a time: a leading axis would move the axes of some keys
        np_add_at(target[j, ...], node.key, ybar[j])
    return 0


cdef object source_indices(Node node):
    """Source index of each element of a rearrangement, computed by the first sweep of the tape."""
    if node.key is None:
        node.key = np.ravel(node.saved(node))
    return node.key


cdef int pull_rearrangement(Tape tape, Node node, object ybar) except -1:
    """Scatter the cotangent to the source elements."""
    cdef cnp.ndarray flat, stacked, indices
    cdef Py_ssize_t j, count = 1
    where = source_indices(node)
    for source in node.sources:
        count += np.size(source[3]) if source[2] is not None else 1
    flat = <cnp.ndarray>np.zeros((tape.k, count), dtype=np.asarray(ybar).dtype)
    stacked = <cnp.ndarray>np.reshape(ybar, (tape.k, -1))
    indices = <cnp.ndarray>where
    if is_vector(flat) and is_vector(stacked) and cnp.PyArray_TYPE(indices) == cnp.NPY_INTP:
        add_at(flat, <cnp.ndarray>np.ascontiguousarray(indices), stacked, tape.k, count)
    else:
        for j in range(tape.k):
            np_add_at(flat[j], where, stacked[j])
    start = 1
    for source in node.sources:
        if source[2] is None:
            part = flat[:, start]
            start += 1
        else:
            size = cnp.PyArray_SIZE(<cnp.ndarray>source[3])
            part = flat[:, start:start + size].reshape((tape.k, *source[3].shape))
            start += size
        tape.accumulate(source[2], source[3], source[4], part if tape.stacked else part[0])
    return 0


cdef int add_at(cnp.ndarray flat, cnp.ndarray where, cnp.ndarray values, Py_ssize_t k, Py_ssize_t count) except -1:
    """Add the values of each direction at their indices, in order, as ``numpy.add.at`` does."""
    cdef const cnp.npy_intp *index = <cnp.npy_intp *>cnp.PyArray_DATA(where)
    cdef Py_ssize_t i, j, n = cnp.PyArray_SIZE(where)
    cdef double *target
    cdef const double *source
    for j in range(k):
        target = <double *>cnp.PyArray_DATA(flat) + j * count
        source = <double *>cnp.PyArray_DATA(values) + j * n
        for i in range(n):
            target[index[i]] += source[i]
    return 0


cdef int pull_store(Tape tape, Node node) except -1:
    """Reverse a store: move the adjoint of the target to the stored value and restore what was overwritten."""
    move_adjoint(tape, node)
    if node.is_first:
        tape.drop_shadow(node.out)
    return swap(node)


cdef int move_adjoint(Tape tape, Node node) except -1:
    cdef Py_ssize_t j
    if node.out.shadow is None:
        return 0
    target = tape.adjoint_view(node.out, node.y)
    if node.key is None:
        cotangent = target.copy() if node.sources else None
        target[...] = 0
    else:
        cotangent = (np.stack([move_out(target[j, ...], node) for j in range(tape.k)]) if tape.stacked
                     else move_out(target, node))
    if node.sources:
        source = node.sources[0]
        tape.accumulate(source[2], source[3], source[4], cotangent)
    return 0


cdef int pull_loop(Tape tape, Node node, Py_ssize_t i) except -1:
    """Reverse a loop: record its steps again and pull back the cotangents of its results."""
    cdef list seeds = [cotangent_at(tape, buffer, view, slot) for buffer, view, slot in node.args]
    if all([seed is None for seed in seeds]):
        return 0
    values = [np.float64(tape.entries.v[slot]) if buffer is None else view for buffer, view, slot in node.args]
    for source, c in zip(node.sources, node.compute(tape, i, seeds, values)):
        if c is not None:
            tape.accumulate(source[2], source[3], source[4], c)
    return 0


cdef object cotangent_at(Tape tape, Buffer buffer, cnp.ndarray view, int32_t slot):
    """Return a copy of the cotangent of a loop's result, or None if it is 0; drop the adjoint of an array."""
    cdef double *row
    cdef cnp.ndarray c
    if buffer is not None:
        if buffer.shadow is None:
            return None
        c = tape.adjoint_view(buffer, view).copy()
        tape.drop_shadow(buffer)
    else:
        row = wg_whole(tape.adjoint, tape.ranges, slot, tape.width)
        c = <cnp.ndarray>np.empty(tape.k)
        memcpy(cnp.PyArray_DATA(c), row, tape.k * sizeof(double))
        if not tape.stacked:
            c = <cnp.ndarray>c.reshape(())
    return c if np.any(c) else None


cdef int times_partial(int form, int op, int side, bint add, Py_ssize_t n, const double *g, const double *a,
                       const double *b, const double *y, double *out) noexcept nogil:
    wg_pull(form, op, side, add, n, g, a, b, y, out)
    return 0


cdef int times_array(bint add, Py_ssize_t n, const double *g, const double *p, double *out) noexcept:
    wg_multiply_add(add, n, g, p, out)
    return 0


cdef object product(object cotangent, object partial):
    """Cotangent times partial, where 0 times inf is 0; the cotangent itself where the partial is the float 1.0."""
    if type(partial) is float and partial == 1.0:
        return cotangent
    return strong(cotangent, partial)


cdef int strong_times(Py_ssize_t n, const double *g, const double *p, int step, double *y) noexcept:
    wg_strong(n, g, p, step, y)
    return 0


cdef bint is_cheap(int op, Py_ssize_t n) noexcept:
    return n <= 256 or opcode_cheap[op]


cdef object move_out(object target, Node node):
    """Return the adjoint at an advanced index and set it to 0; of a repeated index only the last write gets it."""
    cotangent = target[node.key]
    target[node.key] = 0
    return cotangent if node.args is None else np.where(node.args[0], cotangent, 0)


cdef int swap(Node node) except -1:
    """Exchange the values that a store wrote with those it overwrote."""
    place = node.y
    key = Ellipsis if node.key is None else node.key
    other = place[key].copy()
    place[key] = node.saved
    node.saved = other
    return 0


cdef inline bint has_rows(cnp.ndarray x, cnp.ndarray y):
    """Return whether `x` holds doubles, has the shape of `y`, and is contiguous along the last axis."""
    return (is_double(x) and same_shape(x, y)
            and cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - 1) == sizeof(double))


cdef bint next_row(Rows *rows, cnp.ndarray y) noexcept:
    """Advance to the next row of arrays with the shape of y; False after the last one."""
    cdef int d, m
    for d in range(cnp.PyArray_NDIM(y) - 2, -1, -1):
        rows.index[d] += 1
        for m in range(5):
            if rows.steps[m] != NULL:
                rows.at[m] += rows.steps[m][d]
        if rows.index[d] < cnp.PyArray_DIM(y, d):
            return True
        for m in range(5):
            if rows.steps[m] != NULL:
                rows.at[m] -= rows.steps[m][d] * rows.index[d]
        rows.index[d] = 0
    return False
