# Python steps, included by machine.pyx: calls, guards on arrays, and moves of elements of other dtypes.


cdef object filled(template, list values):
    """Return arguments with `Operand` placeholders replaced by values."""
    cdef list found = []
    for given in template:
        if type(given) is Operand:
            found.append(values[given.position])
        elif type(given) is list:
            found.append(filled(given, values))
        elif type(given) is tuple:
            found.append(tuple(filled(given, values)))
        else:
            found.append(given)
    return found


cdef bint agrees(value, expected):
    """Return whether a value equals what a guard expects; NaN equals NaN."""
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape:
        return False
    return bool(np.all((value == expected) | ((value != value) & (expected != expected))))


cdef int run_python(Machine vm, Workspace w, PythonStep step) except -2:
    """Run a Python step; return the index of a failed guard, or -1."""
    cdef list values = [operand(w, value) for value in step.operands]
    if step.op == Op.GUARD:
        return -1 if agrees(values[0], step.expected) else step.guard
    if step.op == Op.PLACE:
        array_at(w.space.where[step.y.where], step.y.layout, w)[...] = values[0]
    elif step.op == Op.PACK:
        array_at(w.space.where[step.y.where], step.y.layout, w)[step.args[0]] = values
    elif step.op == Op.PUT:
        array_at(w.space.where[step.y.where], step.y.layout, w)[values[0]] = values[1]
    else:
        arguments = filled(step.args, values)
        del values
        if step.takes_out:
            y = array_at(w.space.where[step.y.where], step.y.layout, w)
            step.compute(*arguments, out=y, **(step.kwargs or {}))
            return -1
        if step.kwargs is None:
            y = step.compute(*arguments)
        else:
            y = step.compute(*arguments, **step.kwargs)
        del arguments
        if step.y.is_scalar:
            w.space.slots[step.y.where] = y
        else:
            set_result(w, step, y)
    return -1


cdef int set_result(Workspace w, PythonStep step, y) except -1:
    """Store the result of a call; copy it if it may be visible elsewhere or must be in the workspace."""
    cdef Layout layout = step.y.layout
    cdef Allocation alloc = step.y.alloc
    cdef cnp.ndarray array
    cdef bint is_fit = type(y) is np.ndarray and fits(y, layout)
    if not is_fit and (np.shape(y) != layout.shape or np.asarray(y).dtype != layout.dtype):
        raise GuardError(f"{step.compute!r} returned {np.asarray(y).dtype} of shape {np.shape(y)}; "
                         f"the recorded path needs {layout.dtype} of shape {layout.shape}")
    if step.is_native:
        array_at(w.space.where[step.y.where], layout, w)[...] = y
        return 0
    if is_fit and owns_memory(y) and cnp.PyArray_ISWRITEABLE(y) and Py_REFCNT(y) == 1:
        array = y
    else:
        array = copied(y, layout)
    w.objects[alloc.number] = array
    put_alloc(w, alloc, bytes_of(array) - layout.low)
    return 0
