# Guards against NaN, included by simplify.pyx.
#
# Rules check products for NaN, since 0 times infinity is 0 for a derivative. If each NaN in a product makes an element
# of another checked value NaN, one of the two checks is enough.

def without_implied_guards(Listing code, ends=()):
    """Return the program without guards against NaN that others imply, or the same program if there are none.

    The caller checks the values `ends` itself.
    """
    cdef bytearray is_implied = bytearray(max(1, code.n))
    spoilers(code, ends, is_implied)
    return live(filtered(code, is_implied, False)) if any(is_implied) else code


def checked_at_the_end(Listing body, Py_ssize_t carried):
    """Return the carried values of a loop body that need a check only after the loop, because a NaN never disappears.

    Return None if no guard in the body checks a value for NaN.
    """
    cdef set found = {k for k in range(carried) if body.types[body.kinds[<int32_t>body.outputs[k]]][0].kind in "fc"}
    cdef bytearray reached
    if not checked_values(body):
        return None
    while True:
        reached = spoilers(body, [body.outputs[k] for k in found], None)
        kept = {k for k in found if reached[<int32_t>body.inputs[k]]}
        if kept == found:
            return sorted(found)
        found = kept


cdef dict checked_values(Listing code):
    """Return the guards that check a value for NaN, by value."""
    cdef Py_ssize_t i
    cdef int32_t v, m
    cdef dict found = {}
    for i in range(code.n):
        if code.ops[i] != GUARD or code.ops[code.as_[i]] != ISNAN:
            continue
        v = code.as_[code.as_[i]]
        if code.kinds[v] != SCALAR or code.guards[code.bs[i]][0] != 0:
            continue
        if code.ops[v] == SUM and code.ops[code.as_[v]] == WG_MULTIPLY:
            m = code.as_[v]
            v = code.as_[m] if code.as_[m] == code.bs[m] else v
        elif code.ops[v] == CALL and code.calls[code.as_[v]].compute is np.vdot:
            one, other = code.calls[code.as_[v]].operands if len(code.calls[code.as_[v]].operands) == 2 else (v, -1)
            v = one if one == other else v
        found.setdefault(v, []).append(i)
    return found


cdef bytearray spoilers(Listing code, ends, bytearray is_implied):
    """Mark values whose NaNs always fail a guard or reach a value in `ends`, and mark the guards that are implied."""
    cdef bytearray reached = bytearray(max(1, code.n))
    cdef unsigned char *marks = reached
    cdef dict checks = checked_values(code)
    cdef Py_ssize_t i
    cdef int32_t v
    if not checks:
        return reached
    for v in ends:
        marks[v] = 1
    for i in range(code.n - 1, -1, -1):
        guards = checks.get(i)
        if guards is not None:
            if is_implied is not None:
                for j in guards if marks[i] else guards[1:]:
                    is_implied[j] = 1
            marks[i] = 1
        if marks[i]:
            spread(code, i, marks)
    return reached


cdef int spread(Listing code, Py_ssize_t i, unsigned char *marks) except -1:
    """Mark the operands whose NaNs always propagate to an element of result i."""
    cdef int op = code.ops[i]
    cdef int32_t a = code.as_[i], b = code.bs[i], v
    cdef tuple type = code.types[code.kinds[i]], source
    if type[0].kind not in "fc" or (code.kinds[i] > FLAG and 0 in type[1]):
        return 0
    if op == WG_ADD or op == WG_SUBTRACT or op == WG_MULTIPLY or op == WG_DIVIDE:
        marks[a] = marks[b] = 1
    elif op == WG_NEGATIVE or op == WG_POSITIVE or op == SUM:
        marks[a] = 1
    elif op == VIEW:
        source = code.types[code.kinds[a]]
        if source[0] == type[0] and math.prod(source[1]) == math.prod(
                [n for n, s in zip(*code.views[b][1:]) if s != 0]) and (source[2] is None or 0 not in source[2]):
            marks[a] = 1
    elif op == PLACE:
        marks[code.cs[i]] = 1
    elif op == PACK:
        for v in code.packs[b][1]:
            marks[v] = 1
    elif op == CALL:
        call = code.calls[a]
        if product_of(call) is not None:
            for v in call.operands:
                marks[v] = 1
    return 0


def with_one_guard(Listing code):
    """Return the program with all checks of sums of squares for NaN merged into one guard; the same if there is one.

    Sums of squares are not negative, so that their total is NaN only if one of them is.
    """
    cdef Listing found
    cdef Py_ssize_t i
    cdef int32_t v, total = -1
    cdef Block block
    cdef int32_t *of
    cdef list guards = []
    cdef bytearray is_merged = bytearray(max(1, code.n))
    cdef unsigned char *merged = is_merged
    for i in range(code.n):
        if is_check_of_squares(code, i):
            guards.append(i)
            merged[i] = 1
    if len(guards) < 2:
        return code
    found = code.successor()
    block = take(code.n * sizeof(int32_t))
    of = <int32_t *>block.data
    for i in range(code.n):
        of[i] = -1 if merged[i] else copied(code, i, of, found)
    for v in {code.as_[code.as_[<int32_t>i]]: None for i in guards}:
        total = of[v] if total < 0 else emit(found, WG_ADD, total, of[v], -1, SCALAR)
    found.guard(emit(found, ISNAN, total, -1, -1, FLAG), *code.guards[code.bs[<int32_t>guards[0]]])
    set_ends(code, of, found)
    return live(found)


cdef bint is_check_of_squares(Listing code, Py_ssize_t i) except -1:
    """Return whether an instruction is a guard that a sum of squares is not NaN."""
    cdef int32_t v
    if code.ops[i] != GUARD or code.ops[code.as_[i]] != ISNAN:
        return False
    v = code.as_[code.as_[i]]
    if code.ops[v] != CALL or code.kinds[v] != SCALAR or code.guards[code.bs[i]][0] != 0:
        return False
    call = code.calls[code.as_[v]]
    return call.compute is np.vdot and len(call.operands) == 2 and call.operands[0] == call.operands[1]
