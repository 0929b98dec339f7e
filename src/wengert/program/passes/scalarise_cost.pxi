# Estimated run time of a program in the VM, in nanoseconds; included by scalarise.pyx.

cdef double DISPATCH_COST = cost.DISPATCH, SCALAR_COST = cost.SCALAR, FUNCTION_COST = cost.SCALAR_FUNCTION
cdef double VECTOR_COST = cost.FUSED_VECTOR
cdef double ELEMENT_COST = cost.FUSED_ELEMENT, FUNCTION_ELEMENT_COST = cost.ELEMENT_FUNCTION
cdef double MOVED_COST = cost.ELEMENT_MOVED, ZEROED_COST = cost.ELEMENT_ZEROED


cpdef double nanoseconds(Listing code) except -1.0:
    """Estimate the run time, assuming that consecutive instructions on one type share a VM dispatch."""
    cdef Py_ssize_t i
    cdef int op, before = -1, here
    cdef bint cheap
    cdef double total = 0.0
    cdef list sizes = [math.prod(type[1]) for type in code.types]
    for i in range(code.n):
        op = code.ops[i]
        if op == CONST or op == ARRAY or op == INPUT or op == VIEW:
            continue
        cheap = not has(op, IS_FUNCTION)
        here = code.kinds[code.as_[i]] if op == SUM else code.kinds[i]
        if op == CALL or (op == GUARD and here > FLAG):
            here = -1
            total += call_cost(code, code.calls[code.as_[i]], i) if op == CALL else guard_cost(code, i)
        elif here <= FLAG:
            here = SCALAR
            total += SCALAR_COST if cheap else FUNCTION_COST
        elif op == PACK:
            here = -1
            total += len(code.packs[code.bs[i]][0]) + (0.0 if code.as_[i] >= 0 else ZEROED_COST * <double>sizes[here])
        elif op == PLACE or op == PUT or op == GATHER or op == SCATTER:
            total += VECTOR_COST + move_cost(code, i, op, sizes)
        else:
            total += VECTOR_COST + (ELEMENT_COST if cheap else FUNCTION_ELEMENT_COST) * <double>sizes[here]
        if here != before or here < 0:
            total += DISPATCH_COST
        before = here
    return total


cdef double call_cost(Listing code, call, Py_ssize_t i) except -1.0:
    """Estimate the time of a called function or loop."""
    body = getattr(call.compute, "body", None)
    if isinstance(body, Listing):
        return cost.PYTHON_CALL + call.compute.steps * nanoseconds(body)
    types = [code.types[code.kinds[<int32_t>v]] for v in call.operands]
    return cost.of_call(call, types, code.types[code.kinds[i]])


cdef double guard_cost(Listing code, Py_ssize_t i) except -1.0:
    """Estimate the time of a guard on an array."""
    dtype, shape, _ = code.types[code.kinds[code.as_[i]]]
    found = native_guard(code.guards[code.bs[i]][0], dtype, shape)
    return cost.PYTHON_CALL if found is None else cost.NATIVE_CALL + found.work


cdef double move_cost(Listing code, Py_ssize_t i, int op, list sizes) except -1.0:
    """Estimate the time of a store, gather or scatter."""
    cdef bint is_new = op == SCATTER or op == PLACE and code.as_[i] < 0
    cdef double set_first = ZEROED_COST * <double>sizes[code.kinds[i]] if is_new else 0.0
    if op == PLACE:
        size = <double>math.prod(code.views[code.bs[i]][1])
        is_zero = code.ops[code.cs[i]] == CONST and code.constants[code.as_[code.cs[i]]] == 0.0
        return set_first if is_zero and is_new else set_first + ELEMENT_COST * size
    return set_first + MOVED_COST * <double>sizes[code.kinds[i if op == GATHER else code.bs[i]]]
