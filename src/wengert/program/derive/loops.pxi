# Derivatives of recorded loops, which are loops themselves: a backward loop of adjoints, a forward loop with tangents.

def has_calls(Listing code):
    """Return whether a program calls functions, so that an example is needed to trace their rules."""
    return bool((code.op == CALL).any())


class BackwardLoop(collections.namedtuple("BackwardLoop", "loop given adjoints saving checked")):
    """A loop that carries adjoints, and how to call it.

    Attributes
    ----------
    loop : Loop
    given : list of tuple
        Source of each operand: ("operand", None, k) of the forward call, ("value" or "adjoint", word, k) of its
        result, or ("zeros", ...).
    adjoints : list of tuple
        Pairs of an operand of the forward call and the result that is its adjoint.
    saving : Loop
        The forward loop, extended to stack the values that `loop` reads.
    checked : list of int
        Carried values that the caller must check for NaN after the loop.
    """


class ForwardLoop(collections.namedtuple("ForwardLoop", "loop given checked")):
    """A loop of values and tangents; `given` lists its operands as (is it a tangent?, operand of the forward call).

    `checked` is as in `BackwardLoop`.
    """


def active_inputs(Listing body, Py_ssize_t carried, active):
    """Return which inputs of a loop body are active after any number of steps, and which values depend on them."""
    active = list(active)
    while True:
        dependent = depends(body, [v for v, is_active in zip(body.inputs, active) if is_active])
        found = [is_active or (k < carried and dependent[<int32_t>body.outputs[k]])
                 for k, is_active in enumerate(active)]
        if found == active:
            return active, dependent
        active = found


def pulled_loop(loop, tuple active, example, bint assumes_finite=False):
    """Return the reverse loop of a loop, for its active operands."""
    cdef Listing body = expanded_and_simplified(loop.body), found
    carried, first = loop.carried, loop.carried + loop.kept
    count = len(body.inputs)
    flags, dependent = active_inputs(body, carried, active)
    wrt = [k for k in range(count) if flags[k]]
    of_carried = [k for k in wrt if k < carried]
    of_kept = [k for k in wrt if carried <= k < first]
    # seeds: adjoints of carried values; sums over the steps for loop-invariant values; adjoints of stacks
    seeds = [(body.outputs[k], ("adjoint", "last", k)) for k in of_carried]
    seeds += [(body.inputs[k], ("zeros", "operand", k)) for k in of_kept]
    for word, k in loop.results:
        v = body.inputs[k] if word == "entry" else body.outputs[k] if word == "stack" else -1
        if v >= 0 and dependent[<int32_t>v]:
            seeds.append((v, ("adjoint", word, k)))
    example = [example_of(body.types[body.kinds[<int32_t>v]]) for v in body.inputs] if example is None else example
    found = pulled_back(body, [(v, count + j) for j, (v, _) in enumerate(seeds)], [body.inputs[k] for k in wrt],
                        example, False, assumes_finite)
    found.outputs = [found.in_layout(v, (*found.types[found.kinds[<int32_t>v]][:2], None)) for v in found.outputs]
    found, stored = with_stored_values(found, body, loop.steps)
    found = without_first_guards(found, body.n)         # the forward loop checks them
    saving = loop if not stored else with_stacks(loop, body, stored)
    sources = [("value", "entry", k) if k < carried else ("operand", None, k) for k in range(count)]
    sources += [source for _, source in seeds]
    sources += [("value", "stack", len(body.outputs) + j) for j in range(len(stored))]
    sums = len(of_carried) + len(of_kept)
    moving = count + sums
    read = needed_for(found, found.outputs, True)
    is_read = [read[<int32_t>v] != 0 for v in found.inputs]
    order = range(count, moving)
    kept = [j for j in range(carried, first) if is_read[j]]
    slices = [j for j in (*range(carried), *range(first, count), *range(moving, len(sources))) if is_read[j]]
    found = reordered(found, [*order, *kept, *slices])
    results = [("last", k) for k in range(sums)] + [("stack", k) for k in range(sums, len(wrt))]
    has_last = {k for word, k in loop.results if word == "last"}
    given = [("zeros", "last", source[2]) if source[1] == "last" and source[2] not in has_last else source
             for source in [sources[j] for j in (*order, *kept, *slices)]]
    found, checked = with_guards_at_the_end(found, sums)
    made = Loop(found, loop.steps, sums, len(kept), results, not loop.backward)
    saving = saving.with_entries([j for j in slices if j < carried])
    return BackwardLoop(made, given, list(zip(wrt, results)), saving, checked)


cdef enum:
    MAX_STORED_BYTES = 1 << 20      # limit on the stored values of all iterations: about a second-level cache


cdef tuple with_stored_values(Listing code, Listing body, Py_ssize_t steps):
    """Turn values of the forward body that adjoints read into inputs of the reverse body, if storing them pays.

    Return the new program, whose new inputs come last, and the values. Views, elements and cheap scalars are recomputed
    from stored values.
    """
    cdef Listing found
    cdef Py_ssize_t i
    cdef int32_t v
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    cdef bytearray read = needed_for(code, code.outputs)
    cdef set wanted = {v for v in code.outputs if v < body.n}
    cdef list stored = []
    cdef Py_ssize_t nbytes = 0
    for i in range(body.n, code.n):
        if read[i] or code.ops[i] == GUARD:
            wanted.update([v for v in operands(code, i) if v < body.n])
    for i in range(body.n - 1, -1, -1):
        if i not in wanted or code.ops[i] == INPUT or code.ops[i] == CONST or code.ops[i] == ARRAY:
            continue
        if is_stored(code, i):
            stored.append(<int32_t>i)
            nbytes += 8 * math.prod(code.types[code.kinds[i]][1])
        else:
            wanted.update(operands(code, i))
    if nbytes * steps > MAX_STORED_BYTES:
        return code, []
    stored.reverse()
    found = code.successor()
    places = {v: len(code.inputs) + k for k, v in enumerate(stored)}
    for i in range(code.n):
        if i in places:
            of[i] = emit(found, INPUT, places[i], -1, -1, code.kinds[i])
        else:
            of[i] = copied(code, i, of, found)
    set_ends(code, of, found)
    found.inputs += [of[<int32_t>v] for v in stored]
    return found, stored


cdef Listing without_first_guards(Listing code, Py_ssize_t n):
    """Return the program without the guards among its first `n` instructions."""
    cdef bytearray is_first = bytearray(max(1, code.n))
    cdef Py_ssize_t i
    for i in range(n):
        if code.ops[i] == GUARD:
            is_first[i] = 1
    return filtered(code, is_first, False)


cdef bint is_stored(Listing code, Py_ssize_t i) except -1:
    """Return whether storing a value of a loop body costs less than recomputing it."""
    cdef int op = code.ops[i]
    dtype, _, strides = code.types[code.kinds[i]]
    if op == VIEW or op == LOAD or op == STOP or strides is not None or dtype != FLOAT:
        return False
    return code.kinds[i] > FLAG or has(op, IS_FUNCTION) or op == CALL or op == SUM


cdef object with_stacks(loop, Listing body, list values):
    """Return the loop with the values of its body in all iterations appended to its results."""
    cdef Listing code = body.copy()
    count = len(code.outputs)
    code.outputs = code.outputs + values
    results = (*loop.results, *[("stack", count + k) for k in range(len(values))])
    return Loop(code, loop.steps, loop.carried, loop.kept, results, loop.backward)


def pushed_loop(loop, tuple moved, example, bint assumes_finite=False):
    """Return the forward-mode loop of a loop, for the operands that have a tangent."""
    cdef Listing body = expanded_and_simplified(loop.body), found
    carried, first = loop.carried, loop.carried + loop.kept
    count = len(body.inputs)
    flags, dependent = active_inputs(body, carried, moved)
    wrt = [k for k in range(count) if flags[k]]
    of_carried = [k for k in wrt if k < carried]
    stacked = [k for word, k in loop.results if word == "stack" and dependent[<int32_t>body.outputs[k]]]
    results = [body.outputs[k] for k in (*of_carried, *stacked)]
    example = [example_of(body.types[body.kinds[<int32_t>v]]) for v in body.inputs] if example is None else example
    found = pushed_forward(body, [(body.inputs[k], count + j) for j, k in enumerate(wrt)], results, example,
                           assumes_finite)
    found.outputs = [*body.outputs[:carried], *found.outputs]
    found = without_first_guards(found, body.n)
    tangent = {k: count + j for j, k in enumerate(wrt)}
    sources = [(False, k) for k in range(count)] + [(True, k) for k in wrt]
    order = [*range(carried), *[tangent[k] for k in of_carried]]
    kept = [*range(carried, first), *[tangent[k] for k in wrt if carried <= k < first]]
    slices = [*range(first, count), *[tangent[k] for k in wrt if k >= first]]
    place = {k: carried + j for j, k in enumerate((*of_carried, *stacked))}
    # the tangent has the layout of the result of the original loop
    in_layout = []
    for word, k in loop.results:
        has_tangent = word != "zeros" and k in place
        in_layout.append((word, place[k]) if has_tangent else ("zeros", 8 * loop.length(word, k)))
    found, checked = with_guards_at_the_end(reordered(found, [*order, *kept, *slices]), len(order))
    has_last = {k for word, k in in_layout if word == "last"}
    in_layout += [("last", k) for k in checked if k not in has_last]
    made = Loop(found, loop.steps, len(order), len(kept), in_layout, loop.backward)
    return ForwardLoop(made, [sources[j] for j in (*order, *kept, *slices)], checked)


cdef tuple with_guards_at_the_end(Listing body, Py_ssize_t carried):
    """Remove guards against NaN from a loop body; return it and the carried values to check after the loop instead."""
    checked = checked_at_the_end(body, carried)
    if checked is None:
        return body, []
    return without_implied_guards(body, [body.outputs[k] for k in checked]), checked


cdef Listing expanded_and_simplified(Listing code):
    """Expand the partials of a program and simplify it; return it unchanged if it has none."""
    cdef Listing found = expanded(code)
    return code if found is code else simplified(found, False)


cdef Listing reordered(Listing code, list order):
    """Return the program with only the inputs numbered in `order`, in this order."""
    cdef Listing found = code.copy()
    cdef Py_ssize_t i
    cdef int32_t v
    inputs = [found.inputs[j] for j in order]
    for i, v in enumerate(inputs):
        found.as_[v] = <int32_t>i
    found.inputs = inputs
    return simplified(found, False)         # exact programs have no loops
