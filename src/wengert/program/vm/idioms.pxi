# Idiom recognition, included by machine.pyx: finds instructions that the VM can execute in a cheaper form.
#
# Programs with `exact=True` keep powers and reductions as NumPy computes them.

POWERS = {1.0: WG_POSITIVE, 2.0: WG_SQUARE, 3.0: CUBE, 4.0: FOURTH, 0.5: ROOT, -1.0: WG_RECIPROCAL}

#: reductions over axes, and their codes in WG_M_FOLD
cdef dict FOLD_CODES = {"sum": 0, "max": 1, "min": 2}

cdef int MAX_STORES = 64            # maximum number of consecutive stores to one array that are compared for overlap


cdef int find_powers(Lowering low) except -1:
    """Replace constant powers by multiplications or square roots."""
    cdef Py_ssize_t i
    cdef int op
    for i in range(low.n):
        op = low.op[i]
        if (op != WG_POW and op != WG_POWER and op != <int>Op.PARTIAL + 2 * WG_POW
                and op != <int>Op.PARTIAL + 2 * WG_POWER or low.b[i] < 0 or low.op[low.b[i]] != Op.CONST):
            continue
        power = low.listing.constants[low.a[low.b[i]]]
        if op == WG_POW or op == WG_POWER:
            found = POWERS.get(power)
            if found is not None and (low.is_scalar(i) or low.layout(i).kind == DOUBLES):
                # NumPy's loops use sqrt for 0.5, but libm's pow differs from it at -inf and -0.0
                is_root = found == ROOT and not (low.is_scalar(i) and op == WG_POW)
                low.own_columns()
                low.op[i] = WG_SQRT if is_root else found
        elif power == 2.0:
            low.own_columns()
            low.op[i] = <int>Op.PARTIAL + 2 * WG_SQUARE
            low.b[i] = low.c[i] = -1
    return 0


cdef int find_folds(Lowering low) except -1:
    """Find calls that reduce axes of an array: sums, maxima and minima."""
    cdef Py_ssize_t i
    for i in range(low.n):
        if low.op[i] == Op.CALL:
            found = reduction_of(low, i)
            if found is not None:
                low.folds[i] = found


cdef tuple reduction_of(Lowering low, Py_ssize_t i):
    """Return the function of a reduction and the strides of its result along the operand's axes; else None."""
    cdef Layout x, y
    call = low.listing.calls[low.a[i]]
    fold = FOLD_CODES.get(fold_of(call))
    given = {**dict(zip(("a", "axis"), call.args)), **call.kwargs}
    if fold is None or len(call.args) > 2 or len(call.operands) != 1 or type(given.pop("a", None)) is not Operand:
        return None
    u = call.operands[0]
    axes, keeps, dtype = given.pop("axis", None), given.pop("keepdims", False), given.pop("dtype", None)
    if low.is_scalar(u) or low.is_scalar(i) or given or not (dtype is None or np.dtype(dtype) == np.float64):
        return None
    x, y = low.layout(u), low.layout(i)
    if not (x.kind == DOUBLES or x.kind == BOOLS and fold == 0) or y.kind != DOUBLES or not (x.size and y.is_c):
        return None
    axes = range(x.ndim) if axes is None else axes if type(axes) is tuple else (axes,)
    axes = {operator.index(axis) % x.ndim for axis in axes}
    kept = [n for d, n in enumerate(x.shape) if keeps or d not in axes]
    if y.shape != tuple([1 if keeps and d in axes else n for d, n in enumerate(kept)]):
        return None
    left = iter(y.strides)
    steps = [next(left) if keeps or d not in axes else 0 for d in range(x.ndim)]
    return fold, tuple([0 if d in axes else step for d, step in enumerate(steps)])


cdef bint drop_covered_fills(Lowering low) except -1:
    """Drop fills of arrays whose elements are all stored later; return whether there are any."""
    cdef Py_ssize_t i, base
    cdef bint found = False
    cdef int32_t[::1] reader
    cdef char[::1] is_fill = np.zeros(low.n, np.int8)
    for i in range(low.n):
        if low.op[i] == Op.PLACE and low.a[i] < 0 and low.is_scalar(low.c[i]):
            is_fill[i] = found = True
    if not found:
        return False
    found = False
    reader = int32s(low.n, -1)
    for i in range(low.n):
        if low.op[i] == Op.PLACE and low.a[i] >= 0:
            reader[low.a[i]] = <int32_t>i
    for i in range(low.n):
        base = low.a[i] if low.op[i] == Op.PLACE else -1
        if base >= 0 and is_fill[base] and is_covered(low, i, reader):
            low.own_columns()
            low.a[i] = -1
            low.fills.add(base)
            found = True
    return found


cdef bint is_covered(Lowering low, Py_ssize_t i, int32_t[::1] reader) except -1:
    """Return whether this store and the next ones cover the whole array before anything else reads it."""
    cdef Layout layout = low.layout(i)
    cdef Py_ssize_t left = layout.size
    cdef list views = []
    cdef tuple view
    while layout.is_c and len(views) < MAX_STORES:
        view = low.listing.views[low.b[i]]
        if overlaps(view[1], view[2]) or not all([disjoint(view, other, layout.itemsize) for other in views]):
            return False
        views.append(view)
        left -= math.prod(view[1])
        if left == 0:
            return True
        if low.count[i] != 1 or reader[i] < 0 or low.type[reader[i]] != low.type[i]:
            return False
        i = reader[i]
    return False
