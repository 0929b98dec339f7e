# Derivatives of recorded loops, which are loops themselves: a backward loop of adjoints, a forward loop with tangents.

def has_calls(Listing code):
    """Return whether a program calls functions, whose rules are traced at an example."""
    return bool((code.op == CALL).any())


@dataclasses.dataclass
class BackwardLoop:
    """A loop that carries adjoints, and how to call it.

    Attributes
    ----------
    loop : Loop
    given : list of tuple
        Source of each operand: ("operand", None, k) of the forward call, ("value" or "adjoint", word, k) of its
        result, or ("zeros", ...).
    adjoints : list of tuple
        Pairs of an operand of the forward call and the result that is its adjoint.
    entries : list of int
        Carried values that the forward loop must stack.
    """

    loop: object
    given: list
    adjoints: list
    entries: list


@dataclasses.dataclass
class ForwardLoop:
    """A loop of values and tangents; `given` describes its operands: (is it a tangent?, operand of the call)."""

    loop: object
    given: list


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


def pulled_loop(loop, tuple active, example):
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
                        example)
    found.outputs = [in_order(found, v) for v in found.outputs]
    sources = [("value", "entry", k) if k < carried else ("operand", None, k) for k in range(count)]
    sources += [source for _, source in seeds]
    moving = count + len(of_carried) + len(of_kept)
    read = needed_for(found, found.outputs)
    is_read = [read[<int32_t>v] != 0 for v in found.inputs]
    order = [j for j in range(count, moving)]
    kept = [j for j in range(carried, first) if is_read[j]]
    slices = [j for j in (*range(carried), *range(first, count), *range(moving, len(sources))) if is_read[j]]
    found = reordered(found, [*order, *kept, *slices])
    sums = len(of_carried) + len(of_kept)
    results = [("last", k) for k in range(sums)] + [("stack", k) for k in range(sums, len(wrt))]
    has_last = {k for word, k in loop.results if word == "last"}
    given = [("zeros", "last", source[2]) if source[1] == "last" and source[2] not in has_last else source
             for source in [sources[j] for j in (*order, *kept, *slices)]]
    made = Loop(found, loop.steps, sums, len(kept), results, not loop.backward)
    return BackwardLoop(made, given, list(zip(wrt, results)), [j for j in slices if j < carried])


def pushed_loop(loop, tuple moved, example):
    """Return the loop of values and tangents of a loop, for the operands with a tangent."""
    cdef Listing body = expanded_and_simplified(loop.body), found
    carried, first = loop.carried, loop.carried + loop.kept
    count = len(body.inputs)
    flags, dependent = active_inputs(body, carried, moved)
    wrt = [k for k in range(count) if flags[k]]
    of_carried = [k for k in wrt if k < carried]
    stacked = [k for word, k in loop.results if word == "stack" and dependent[<int32_t>body.outputs[k]]]
    results = [body.outputs[k] for k in (*of_carried, *stacked)]
    example = [example_of(body.types[body.kinds[<int32_t>v]]) for v in body.inputs] if example is None else example
    found = pushed_forward(body, [(body.inputs[k], count + j) for j, k in enumerate(wrt)], results, example)
    found.outputs = [*body.outputs[:carried], *found.outputs]
    tangent = {k: count + j for j, k in enumerate(wrt)}
    sources = [(False, k) for k in range(count)] + [(True, k) for k in wrt]
    order = [*range(carried), *[tangent[k] for k in of_carried]]
    kept = [*range(carried, first), *[tangent[k] for k in wrt if carried <= k < first]]
    slices = [*range(first, count), *[tangent[k] for k in wrt if k >= first]]
    place = {k: carried + j for j, k in enumerate((*of_carried, *stacked))}
    # the tangent has the layout of the result of the original loop
    in_layout = []
    for word, k in loop.results:
        has_tangent = k in place if word != "zeros" else False
        in_layout.append((word, place[k]) if has_tangent else ("zeros", 8 * loop.length(word, k)))
    made = Loop(reordered(found, [*order, *kept, *slices]), loop.steps, len(order), len(kept), in_layout, loop.backward)
    return ForwardLoop(made, [sources[j] for j in (*order, *kept, *slices)])


cdef int32_t in_order(Listing code, int32_t v) except -1:
    """Copy an array to C order, as the results of a loop are."""
    dtype, shape, strides = code.types[code.kinds[v]]
    if code.kinds[v] <= FLAG or strides is None:
        return v
    kind = (dtype, shape, None)
    return code.place(-1, whole_view(kind), v, kind)


cdef Listing expanded_and_simplified(Listing code):
    """Expand the partials of a program and simplify it; return it unchanged if it has none."""
    cdef Listing found = expanded(code)
    return code if found is code else simplified(found, False)


cdef Listing reordered(Listing code, list order):
    """Return the program without guards and with these inputs, in this order."""
    cdef Listing found = code.copy()
    cdef Py_ssize_t i
    cdef int32_t v
    inputs = [found.inputs[j] for j in order]
    for i, v in enumerate(inputs):
        found.as_[v] = <int32_t>i
    found.inputs = inputs
    return simplified(live(found, False), False)        # exact programs have no loops
