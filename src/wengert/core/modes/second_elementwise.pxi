# Elementwise entries of the second-order sweep: contiguous arrays in C loops of ``second_sweep.c``, others in NumPy.
# The five partials of a row of ``kernels.h`` are its *columns*.

cdef extern from "second_sweep.h" nogil:
    enum:
        WG_PA, WG_PB, WG_PAA, WG_PAB, WG_PBB

    void wg_column(int form, int op, int column, Py_ssize_t n, const double *a, const double *b, const double *y,
                   double *out)
    bint wg_is_zero(int op, int column)
    bint wg_is_costly(int op)


cdef enum:
    MAX_VECTORS = 24        # vectors in the scratch memory: enough for one entry's partials, weights and constants
    MIN_SHARED_DIRECTIONS = 8   # with fewer directions tangents do not share memory


cdef int reads[256][5]                  # operands that each column of a row reads: WG_A | WG_B | WG_Y
memset(reads, 0, sizeof(reads))

for _, _op, _, _a, _b in kernel_rows():
    reads[_op][WG_PA] = reads[_op][WG_PAA] = _a
    reads[_op][WG_PB] = reads[_op][WG_PBB] = _b
    reads[_op][WG_PAB] = _a | _b
reads[WG_MULTIPLY][WG_PAB] = 0          # d2(ab)/dadb is the constant 1


cdef struct Operands:               # of an elementwise entry with contiguous arrays of equal shape
    const double *sides[2]
    const double *y
    double scalars[2]               # values of scalar operands
    int form                        # VECTORS, SCALAR_RIGHT or SCALAR_LEFT
    int which                       # which operands are scalars: WG_A | WG_B
    Py_ssize_t n
    double *scratch                 # memory for vectors of length n, `used` of them taken
    int used


cdef struct Factor:                 # factor of a term: the vector p, or the scalar c if p is NULL
    const double *p
    double c
    bint is_zero


cdef bint find_operands(Second sweep, Node node, Operands *o) except -1:
    """Find the operands of an elementwise entry; False unless its arrays are contiguous and of equal shape."""
    cdef cnp.ndarray y = node.y
    cdef size_t size
    cdef bint fits = is_vector(y)
    if fits:
        fits, o.form = kernel_operands(sweep.tape, node, y, o.scalars, o.sides)
    if not fits:
        return False
    o.n = cnp.PyArray_SIZE(y)
    size = max(1, MAX_VECTORS * o.n) * sizeof(double)
    if sweep.scratch is None or sweep.scratch.size < size:
        sweep.scratch = take(size)
    o.scratch = <double *>sweep.scratch.data
    o.used = 1                      # the first vector is a placeholder for view descriptors, which are not read
    o.y = o.scratch if node.descriptors & WG_Y else <double *>cnp.PyArray_DATA(y)
    if node.descriptors & WG_A:
        o.sides[0] = o.scratch
    if node.descriptors & (WG_A if node.opcode < WG_ADD else WG_B):
        o.sides[1] = o.scratch
    o.which = (WG_A if node.a is None else 0) | (WG_B if node.b is None and node.opcode >= WG_ADD else 0)
    return True


cdef int find_slope(Second sweep, Node node, int side, Operands *o, Factor *f) except -1:
    """Partial in one operand; the forward sweep saves a costly one for the reverse sweep."""
    cdef int column = WG_PB if side else WG_PA
    cdef Block slope = None
    cdef Jet jet = <Jet>node.out.jet
    if sweep.rows.second == NULL or not wg_is_costly(node.opcode):
        return find_factor(node.opcode, column, o, f, NULL)
    if jet is not None:
        slope = jet.slope_b if side else jet.slope_a
    if slope is not None:
        f.p = <double *>slope.data
        f.is_zero = False
        return 0
    slope = take(max(1, o.n) * sizeof(double))
    find_factor(node.opcode, column, o, f, <double *>slope.data)
    if f.p == <double *>slope.data:
        jet = jet_of(node.out)
        if side:
            jet.slope_b = slope
        else:
            jet.slope_a = slope
    return 0


cdef int find_factor(int op, int column, Operands *o, Factor *f, double *out) except -1:
    """Evaluate a column of the row of `op`: a scalar if it reads only scalar operands, else a vector.

    A vector is computed into `out`, or into scratch if that is NULL.
    """
    f.p = NULL
    f.is_zero = wg_is_zero(op, column)
    if f.is_zero:
        return 0
    if reads[op][column] & ~o.which == 0:
        wg_column(VECTORS, op, column, 1, &o.scalars[0], &o.scalars[1], &o.scalars[0], &f.c)
        f.is_zero = f.c == 0.0
    elif op == WG_MULTIPLY:
        f.p = o.sides[1 if column == WG_PA else 0]
    else:
        if out == NULL:
            out = o.scratch + o.used * o.n
            o.used += 1
        f.p = out
        wg_column(o.form, op, column, o.n, o.sides[0], o.sides[1], o.y, out)
    return 0


cdef int add_term(Second sweep, Node node, int side, Operands *o, Factor *f, wg_term *terms, int count) except -1:
    """Append a term, `f` times the tangents of an operand, and return the number of terms."""
    cdef Buffer buffer = buffer_of(node, side)
    cdef int32_t slot = slot_of(node, side)
    cdef wg_term *term = &terms[count]
    cdef Jet jet
    cdef double *ones
    cdef Py_ssize_t e
    if f.is_zero:
        return count
    if buffer is not None:
        jet = <Jet>buffer.jet
        if jet is None or jet.tangent is None:
            return count
        term.x = doubles(jet.tangent, buffer, view_of(node, side))
        term.x_step = step(buffer)
        term.p = weighted(doubles(jet.weights, buffer, view_of(node, side)), f, o)
        term.c = &f.c
        term.c_step = 0
        return count + 1
    if slot < 0 or not sweep.is_moving(slot):
        return count
    term.c = wg_whole(sweep.rows.tangent, sweep.rows.tangents, slot, sweep.k)
    term.c_step = 1
    term.p = NULL
    term.x = f.p
    term.x_step = 0
    if f.p == NULL:
        ones = o.scratch + o.used * o.n
        o.used += 1
        for e in range(o.n):
            ones[e] = f.c
        term.x = ones
    return count + 1


cdef const double *weighted(const double *weights, Factor *f, Operands *o):
    """Vector of a factor times `weights`, which may be NULL; NULL if the result is a scalar."""
    cdef wg_term term
    cdef double *w
    if weights == NULL:
        return f.p
    if f.p == NULL and f.c == 1.0:
        return weights
    w = o.scratch + o.used * o.n
    o.used += 1
    term = times_factor(weights, 0, f)
    wg_combine(1, o.n, &term, 1, False, w, 0)
    return w


cdef Block shared_of(Second sweep, Node node, wg_term *terms, int count):
    """Return the block of which all terms are elementwise multiples, with the same factors in all directions, or None.

    The sum of the terms is then stored as this block and one vector of factors; the k directions are multiplied only
    when they are read.
    """
    cdef Buffer buffer
    cdef Jet jet = <Jet>node.out.jet
    cdef int m, side
    if sweep.k < MIN_SHARED_DIRECTIONS:
        return None
    for m in range(count):
        if terms[m].x != terms[0].x or terms[m].x_step == 0:
            return None
    if jet is not None and jet.second_weights is not None and <double *>jet.second.data == terms[0].x:
        return jet.second
    for side in range(2):
        buffer = buffer_of(node, side)
        jet = None if buffer is None else <Jet>buffer.jet
        if (jet is not None and jet.tangent is not None and <double *>jet.tangent.data == terms[0].x
                and not buffer.written and is_whole(buffer, view_of(node, side))):
            return jet.tangent
    return None


cdef int push_elementwise(Second sweep, Node node) except -1:
    """Compute the tangent of the result: the sum of partial times tangent over the operands."""
    cdef Jet jet
    cdef Block shared
    cdef Operands o
    cdef Factor factors[2]
    cdef wg_term terms[2]
    cdef int side, count = 0
    if not find_operands(sweep, node, &o):
        total = None
        for side in range(2):
            t = side_tangent(sweep, node, side)
            if t is not None:
                total = plus(total, product(t, column_values(sweep, node, WG_PB if side else WG_PA)))
        return 0 if total is None else sweep.put(node.out, node.y, -1, total)
    for side in range(2):
        if has_tangent(sweep, node, side):
            find_slope(sweep, node, side, &o, &factors[side])
            count = add_term(sweep, node, side, &o, &factors[side], terms, count)
    if not count:
        return 0
    shared = shared_of(sweep, node, terms, count) if is_whole(node.out, node.y) else None
    if shared is None:
        wg_combine(sweep.k, o.n, terms, count, False, <double *>sweep.fresh(node.out), step(node.out))
        return 0
    jet = jet_of(node.out)
    jet.tangent = shared
    jet.weights = take(max(1, node.out.span))
    add_weights(o.n, terms, count, False, <double *>jet.weights.data)
    return 0


cdef bint has_tangent(Second sweep, Node node, int side) except -1:
    cdef Buffer buffer = buffer_of(node, side)
    cdef int32_t slot = slot_of(node, side)
    if buffer is not None:
        return buffer.jet is not None and (<Jet>buffer.jet).tangent is not None
    return slot >= 0 and sweep.is_moving(slot)


cdef object side_tangent(Second sweep, Node node, int side):
    """Tangents of an operand, reshaped to as many axes as the result has; None if they are 0."""
    if not has_tangent(sweep, node, side):
        return None
    t = sweep.tangent_of(buffer_of(node, side), view_of(node, side), slot_of(node, side))
    return aligned(t, cnp.PyArray_NDIM(node.y))


cdef object column_values(Second sweep, Node node, int column):
    """Evaluate a column of a row of kernels.h at operands of any layout: a scalar or an array."""
    cdef cnp.ndarray out, a, b, y
    cdef int need = reads[node.opcode][column]
    cdef double c, nothing = 0.0
    if need == 0:
        wg_column(VECTORS, node.opcode, column, 1, &nothing, &nothing, &nothing, &c)
        return c
    out = <cnp.ndarray>np.zeros((<object>node.y).shape)
    a = broadcast(operand_value(sweep.tape, node, 0), out) if need & WG_A else out
    b = broadcast(operand_value(sweep.tape, node, 1), out) if need & WG_B else out
    y = broadcast(node.y, out) if need & WG_Y else out
    wg_column(VECTORS, node.opcode, column, cnp.PyArray_SIZE(out), <double *>cnp.PyArray_DATA(a),
              <double *>cnp.PyArray_DATA(b), <double *>cnp.PyArray_DATA(y), <double *>cnp.PyArray_DATA(out))
    return out


cdef int pull_elementwise(Second sweep, Node node) except -1:
    """Add adjoint * partial to the adjoint of each operand, and to its second:
    second * partial + adjoint * (own second partial * tangent + mixed second partial * other tangent)."""
    cdef Operands o
    cdef Factor first[2]
    cdef Factor second[3]           # adjoint times second partial: in a twice, mixed, in b twice
    cdef wg_term terms[3]
    cdef wg_term weight
    cdef Jet jet = <Jet>node.out.jet
    cdef Block dual = jet.second if jet is not None else None
    cdef double *g = NULL
    cdef double *w
    cdef int side, m, count
    cdef bint is_last
    if not find_operands(sweep, node, &o):
        pull_broadcast(sweep, node)
        return pull_node(sweep.tape, node, -1)
    for m in range(3):
        second[m].is_zero = True
    if node.out.shadow is not None:
        g = doubles(node.out.shadow, node.out, node.y)
        for m in range(3):
            if not (m < 2 and has_tangent(sweep, node, 0) and has_operand(node, m)
                    or m > 0 and has_tangent(sweep, node, 1) and has_operand(node, m - 1)):
                continue
            find_factor(node.opcode, WG_PAA + m, &o, &second[m], NULL)
            if second[m].is_zero:
                continue
            if second[m].p == NULL and second[m].c == 1.0:
                second[m].p = g
                continue
            weight = times_factor(g, 0, &second[m])
            w = o.scratch + o.used * o.n
            o.used += 1
            wg_combine(1, o.n, &weight, 1, False, w, 0)
            second[m].p = w
    for side in range(1, -1, -1):
        if not has_operand(node, side):
            continue
        count = 0
        is_last = side == 0 or not has_operand(node, 0)
        find_slope(sweep, node, side, &o, &first[side])
        if dual is not None and not first[side].is_zero:
            terms[0] = times_factor(doubles(dual, node.out, node.y), step(node.out), &first[side])
            terms[0].p = weighted(doubles(jet.second_weights, node.out, node.y), &first[side], &o)
            count = 1
        count = add_term(sweep, node, side, &o, &second[2 if side else 0], terms, count)
        count = add_term(sweep, node, 1 - side, &o, &second[1], terms, count)
        if count:
            add_terms(sweep, node, side, &o, terms, count, is_last and dual is not None
                      and jet.second_weights is None and not first[side].is_zero)
    if g != NULL:       # last, since the adjoint is dead after it and its memory may be reused
        for side in range(1, -1, -1):
            if has_operand(node, side) and not first[side].is_zero:
                add_adjoint(sweep, node, side, &o, times_factor(g, 0, &first[side]),
                            side == 0 or not has_operand(node, 0))
    return sweep.tape.drop_shadow(node.out)


cdef int add_adjoint(Second sweep, Node node, int side, Operands *o, wg_term term, bint give) except -1:
    """Add adjoint of the result * partial to the adjoint of an operand; `give` as in `add_terms`."""
    cdef Buffer buffer = buffer_of(node, side)
    cdef char *adjoint
    cdef double *w
    cdef bint add
    if sweep.tape.is_unneeded(buffer):
        return 0
    if buffer is None:
        w = o.scratch + o.used * o.n
        wg_combine(1, o.n, &term, 1, False, w, 0)
        wg_add_sums(1, o.n, w, 0, NULL, sweep.rows.adjoint + slot_of(node, side))
        return 0
    give = give and buffer.span == node.out.span
    add = sweep.tape.target(buffer, view_of(node, side), node.out.shadow if give else None, &adjoint)
    wg_combine(1, o.n, &term, 1, add, <double *>adjoint, 0)
    return 0


cdef int add_terms(Second sweep, Node node, int side, Operands *o, wg_term *terms, int count, bint give) except -1:
    """Add terms to the second of an operand; for a scalar operand sum them over all elements.

    `give`: the first term is the second of the result, which is dead afterwards, so its memory may be reused.
    """
    cdef Buffer buffer = buffer_of(node, side)
    cdef cnp.ndarray view = view_of(node, side)
    cdef int32_t slot = slot_of(node, side)
    cdef Block block, shared
    cdef Jet jet
    cdef bint is_fresh
    if buffer is None:
        block = take(max(1, sweep.k * o.n) * sizeof(double))
        wg_combine(sweep.k, o.n, terms, count, False, <double *>block.data, o.n)
        wg_add_sums(sweep.k, o.n, <double *>block.data, o.n, NULL,
                    wg_whole(sweep.rows.second, sweep.rows.seconds, slot, sweep.k))
        return 0
    jet = jet_of(buffer)
    if is_whole(buffer, view) and (jet.second is None or jet.second_weights is not None):
        shared = shared_of(sweep, node, terms, count)
        if shared is not None and (jet.second is None or jet.second.data == shared.data):
            is_fresh = jet.second is None
            if is_fresh:
                jet.second = shared
                jet.second_weights = take(max(1, buffer.span))
            add_weights(o.n, terms, count, not is_fresh, <double *>jet.second_weights.data)
            return 0
    sweep.own_second(buffer, jet)
    is_fresh = (jet.second is None and <char *>cnp.PyArray_DATA(view) == buffer.low
                and buffer.span == <Py_ssize_t>cnp.PyArray_NBYTES(view))
    if is_fresh and give and buffer.span == node.out.span:
        jet.second = (<Jet>node.out.jet).second     # elementwise, so it may overwrite its operand
    elif is_fresh:
        jet.second = take(max(1, sweep.k * buffer.span))
    elif jet.second is None:
        jet.second = sweep.zeros(buffer)
    wg_combine(sweep.k, o.n, terms, count, not is_fresh, doubles(jet.second, buffer, view), step(buffer))
    return 0


cdef int pull_broadcast(Second sweep, Node node) except -1:
    """Add to the seconds of the operands in NumPy, if operands broadcast or are not contiguous."""
    cdef int side
    cdef Buffer buffer
    g = dual = None
    if node.out.shadow is not None:
        g = sweep.tape.adjoint_view(node.out, node.y)
    if node.out.jet is not None and (<Jet>node.out.jet).second is not None:
        dual = sweep.second_of(node)
    for side in range(1, -1, -1):       # the left operand comes last: it may reuse the memory of the second
        if not has_operand(node, side):
            continue
        total = None
        if dual is not None:
            total = product(dual, column_values(sweep, node, WG_PB if side else WG_PA))
        if g is not None:
            for own, t in ((True, side_tangent(sweep, node, side)), (False, side_tangent(sweep, node, 1 - side))):
                column = (WG_PBB if side else WG_PAA) if own else WG_PAB
                if t is not None and not wg_is_zero(node.opcode, column):
                    total = plus(total, strong(t, product(g, column_values(sweep, node, column))))
        if total is None:
            continue
        buffer = buffer_of(node, side)
        if total is dual and side == 0 and is_whole(buffer, node.a) and is_whole(node.out, node.y) \
                and same_shape(node.a, node.y) and jet_of(buffer).second is None:
            jet_of(buffer).second = (<Jet>node.out.jet).second
        else:
            sweep.accumulate(buffer, view_of(node, side), slot_of(node, side), total, True)
    return 0


cdef inline wg_term times_factor(const double *x, Py_ssize_t x_step, Factor *f) noexcept:
    cdef wg_term term = whole_term(x, x_step, f.p)
    term.c = &f.c
    return term


cdef void add_weights(Py_ssize_t n, const wg_term *terms, int count, bint add, double *out) noexcept:
    """out (+)= the sum of the factors of the terms."""
    cdef int m
    cdef Py_ssize_t i
    for m in range(count):
        for i in range(n):
            out[i] = (out[i] if add or m else 0.0) + (terms[m].c[0] if terms[m].p == NULL else terms[m].p[i])


cdef inline Buffer buffer_of(Node node, int side):
    return node.bbuf if side else node.abuf


cdef inline cnp.ndarray view_of(Node node, int side):
    return node.b if side else node.a


cdef inline int32_t slot_of(Node node, int side) noexcept:
    return node.bslot if side else node.aslot


cdef inline bint has_operand(Node node, int side):
    return buffer_of(node, side) is not None or slot_of(node, side) >= 0


cdef object plus(object total, object term):
    return term if total is None else total + term


cdef cnp.ndarray broadcast(object x, cnp.ndarray like):
    return <cnp.ndarray>np.ascontiguousarray(np.broadcast_to(x, (<object>like).shape))
