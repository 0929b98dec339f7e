# Lowers calls that only move elements, such as `np.roll` and indexing; included by ssa.pyx.
#
# Running the function on arrays of element indices shows where each element of the result comes from. If the result
# consists of a few strided pieces, they become views and placements; otherwise it becomes a GATHER.

#: limit on the strided views from which a moved array is assembled; beyond it a gather is emitted
cdef int MAX_VIEWS = 8


cdef list numbered(args, list arrays):
    """Replace operands in arguments by their index arrays; in sequences, replace other items by arrays of -1."""
    cdef list found = []
    for x in args:
        if type(x) is Operand:
            found.append(arrays[x.position])
        elif type(x) in (list, tuple) and any([type(item) is Operand for item in x]):
            found.append([arrays[item.position] if type(item) is Operand else np.full(np.shape(item), -1, dtype=np.intp)
                          for item in x])
        else:
            found.append(x)
    return found


cdef list regular_pieces(where, firsts):
    """Cut an array of element indices into rectangular pieces with constant strides.

    Each piece is a tuple: index of its source array, view of the source, and view of the result that it fills.
    Returns None if there are too many pieces, or elements that come from none of the arrays.
    """
    cdef list cuts = [], found = []
    least = where.min()
    if least > 0 and where.ndim == 1 and len(firsts) == 2:
        return regular_pieces_of_line(np.ascontiguousarray(where, np.intp))
    if least < 0 or not where.any() or (least > 0 and is_irregular(where)):
        return None
    inside = [np.flatnonzero((where > 0).any(axis=tuple([d for d in range(where.ndim) if d != axis])))
              for axis in range(where.ndim)]
    box = [(int(line.min()), int(line.max()) + 1) for line in inside]        # bounding box of the nonzero indices
    strides = c_strides(where.shape, sizeof(double))
    first_place = sum([low * s for (low, _), s in zip(box, strides)])
    where = where[tuple([slice(*ends) for ends in box])]
    if not where.all():
        return None
    owner = np.searchsorted(firsts, where, side="right") if len(firsts) > 2 else None
    for axis in range(where.ndim):
        steps = np.moveaxis(np.diff(where, axis=axis), axis, 0)
        is_break = steps != (np.sort(steps.reshape(len(steps), -1)[:, 0])[len(steps) // 2] if len(steps) else 0)
        if owner is not None:
            is_break |= np.moveaxis(np.diff(owner, axis=axis), axis, 0) != 0
        breaks = np.flatnonzero(is_break.any(axis=tuple(range(1, where.ndim))))
        cuts.append([0, *[int(b) + 1 for b in breaks[:MAX_VIEWS]], where.shape[axis]])
    if math.prod([len(cut) - 1 for cut in cuts]) > MAX_VIEWS:
        return None
    for bounds in itertools.product(*[list(zip(cut, cut[1:])) for cut in cuts]):
        part = where[tuple([slice(*ends) for ends in bounds])]
        first = int(part.flat[0])
        source = int(np.searchsorted(firsts, first, side="right")) - 1
        inner = [sizeof(double) * (int(part[tuple([int(d == axis) for d in range(part.ndim)])]) - first) if n > 1
                 else strides[axis] for axis, n in enumerate(part.shape)]
        view = (sizeof(double) * (first - int(firsts[source])), part.shape, tuple(inner))
        if 0 in inner or not (call_rules.places(view, DOUBLE) + int(firsts[source]) == part).all():
            return None
        place = first_place + sum([ends[0] * s for ends, s in zip(bounds, strides)])
        found.append((source, view, (place, part.shape, strides)))
    return found


cdef list regular_pieces_of_line(const Py_ssize_t[::1] where):
    """Return the same as `regular_pieces` for a 1-D array of indices into one array, all of them positive."""
    cdef Py_ssize_t i, first = 0, n = where.shape[0], stride = 1, itemsize = sizeof(double)
    cdef list found = []
    if n > 1:
        stride = np.sort(np.diff(where))[(n - 1) // 2]
    for i in range(1, n + 1):
        if i < n and where[i] - where[i - 1] == stride:
            continue
        if len(found) == MAX_VIEWS or (stride == 0 and i - first > 1):
            return None
        inner = (itemsize * stride if i - first > 1 else itemsize,)
        found.append((0, (itemsize * (where[first] - 1), (i - first,), inner),
                      (itemsize * first, (i - first,), (itemsize,))))
        first = i
    return found


cdef bint is_irregular(where) except -1:
    """Return whether the first column alone has too many pieces; a cheap test before the full one."""
    steps = np.diff(where.reshape(len(where), -1)[:, 0])
    return steps.size >= MAX_VIEWS and np.count_nonzero(steps != np.sort(steps)[len(steps) // 2]) >= MAX_VIEWS


cdef int32_t lower_index(Definitions ssa, Node node) except -1:
    """Emit indexing; the index may contain operands."""
    cdef list values = []
    key = node.key
    for position, item, buffer, view, slot in node.sources:
        values.append(ssa.of_slot[<int32_t>slot] if buffer is None else ssa.read(buffer, view))
        if position and type(key) is tuple:
            key = (*key[:item], Operand(len(values) - 1), *key[item + 1:])
        elif position:
            key = Operand(len(values) - 1)
    if len(values) == 1 and node.y is not None and not ssa.exact:
        view = node.sources[0][3]
        found = emit_moved(ssa, ("item", static(key), view.shape, view.strides),
                           lambda: numbers_like(view, 1)[key], values, node.y)
        if found >= 0:
            return found
    return emit_call(ssa, operator.getitem, getitem_row, (Operand(0), key), {}, values, node.y)


def lower_pad(Definitions ssa, list args, list values, Node node):
    """Lower ``np.pad`` if it only moves elements or adds zeros, else return -1."""
    kwargs = node.kwargs or {}
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
    if {*kwargs} - {"mode", "pad_width"} or mode not in ("constant", "edge", "wrap", "reflect", "symmetric"):
        return -1
    return lower_moved(ssa, args, values, node)


def lower_moved(Definitions ssa, list args, list values, Node node):
    """Lower a call whose result consists of elements of its operands; -1 if no instruction does this."""
    cdef list views = []
    if ssa.exact or node.y is None:
        return -1
    for position, _, buffer, view, _ in node.sources:
        if buffer is None or position in node.row.choices:
            return -1
        views.append(view)
    fun = node.compute or node.row.fun
    key = (static(fun), key_of_arguments(args), static(node.kwargs) if node.kwargs else None,
           tuple([((<object>view).shape, (<object>view).strides) for view in views]))

    def numbers():
        start, arrays = 1, []
        for view in views:
            arrays.append(numbers_like(view, start))
            start += view.size
        return fun(*numbered(args, arrays), **node.kwargs or {})

    return emit_moved(ssa, key, numbers, values, node.y)


cdef tuple key_of_arguments(args):
    """Return a hashable key of arguments, as `static` does, with a short path for operands and integers."""
    cdef list found = []
    for x in args:
        if type(x) is Operand:
            found.append((<object>x).position)
        elif type(x) is list or type(x) is tuple:
            found.append((type(x), key_of_arguments(x)))
        elif type(x) is int:
            found.append((int, x))
        else:
            found.append(static(x))
    return tuple(found)


cdef int32_t emit_moved(Definitions ssa, key, numbers, list values, y) except -2:
    """Emit an array that consists of elements of `values`; -1 if no instruction does this.

    `numbers` returns for each result element its 1-based index in the concatenated operands, or 0 for a zero.
    The indices are cached by `key`.  Few strided pieces become views and placements, other indices a gather.
    """
    cdef int32_t v, found, kind, index
    cdef tuple double = (DOUBLE, (<object>y).shape, None)
    for v in values:
        if ssa.code.types[ssa.code.kinds[v]][0] != DOUBLE or ssa.code.kinds[v] <= FLAG:
            return -1
    if (<object>y).dtype != DOUBLE or not (<object>y).flags.c_contiguous or not (<object>y).size or y.ndim == 0:
        return -1
    if key not in ssa.moves:
        where = numbers()
        sizes = [math.prod(ssa.code.types[ssa.code.kinds[<int32_t>v]][1]) for v in values]
        pieces = regular_pieces(where, [*itertools.accumulate(sizes, initial=1)])
        if pieces is None and len(values) == 1 and sizes[0] <= 0x7fffffff and where.min() > 0:
            pieces = ssa.constant_array(np.ascontiguousarray(where - 1, dtype=np.int32))
        if type(pieces) is list:        # intern the views once per key
            pieces = [(source, view, ssa.code.entry(ssa.code.views, "view", place)) for source, view, place in pieces]
        ssa.moves[key] = pieces
    pieces = ssa.moves[key]
    if pieces is None:
        return -1
    values = [in_c_order(ssa, v) for v in values]
    if type(pieces) is not list:
        return emit(ssa.code, GATHER, values[0], pieces, -1, ssa.code.type_of(double))
    kind = kind_of(ssa, y)
    is_whole = len(pieces) == 1 and ssa.code.views[<int>pieces[0][2]][1] == double[1]
    found = -1 if is_whole else ssa.filled(DOUBLE, double[1], ssa.code.constant(0.0))
    for source, view, index in pieces:
        found = emit(ssa.code, PLACE, found, index, ssa.code.view(values[source], view, DOUBLE), kind)
    return found


cdef int32_t in_c_order(Definitions ssa, int32_t value) except -1:
    """Return an array in C order, copied if necessary."""
    dtype, shape, strides = ssa.code.types[ssa.code.kinds[value]]
    return value if strides is None else ssa.code.in_layout(value, (dtype, shape, None))
