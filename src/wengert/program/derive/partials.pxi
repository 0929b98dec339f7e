# Partials of elementwise functions as instructions, and their expansion for derivatives of derivatives.
#
# The rule of a partial, a function of the operands a and b and the value y, is traced once into a template.

# By opcode and side: the values that a partial and its rule read, as bits: operand a 1, operand b 2, result y 4.
cdef int reads[256][2]
memset(reads, 0, sizeof(reads))
for _opcode in OPCODES.values():
    for _side in range(ROWS[_opcode].arity):
        _columns = ROWS[PARTIAL + 2 * _opcode + _side].columns
        reads[_opcode][_side] = sum([1 << k for k, holds in enumerate(_columns) if holds == "value"])


cdef dict templates = {}        # traced partials of elementwise functions, by opcode and side


cdef Listing template_of(int op, int side):
    """Trace the rule of a partial, a function of a, b and y."""
    found = templates.get((op, side))
    if found is None:
        row = primitive(op)
        rule = row.partials[side]
        found = templates[op, side] = live(folded(listed(
            lambda a, b, y: [rule(y, a) if op < WG_ADD else rule(y, a, b)] if callable(rule) else [np.float64(rule)],
            [np.float64(0.75), np.float64(0.625), np.float64(0.5)], row.name)))
    return found


cdef dict own_slopes = {op: row.own_slope for op, row in ROWS.items() if row.own_slope}
cdef bint flat_slopes[INPUT]            # partials whose derivative is zero
for _name, _opcode in OPCODES.items():
    flat_slopes[PARTIAL + 2 * <int>_opcode] = "." not in _name and primitive(_opcode).curvature == "none"
    flat_slopes[PARTIAL + 2 * <int>_opcode + 1] = flat_slopes[PARTIAL + 2 * <int>_opcode]


def expanded(Listing code, bint exact=False):
    """Replace each partial by its rule, so that it can be differentiated again.

    Unless `exact`, two sorts of partials stay: those whose derivative is zero, and those that are a factor of their
    own derivative, see `Sweep.own_slope_factor`.
    """
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef int op
    cdef int32_t v
    cdef Block buffer = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>buffer.data
    if not ((PARTIAL <= code.op) & (code.op < INPUT)).any():
        return code
    for i in range(code.n):
        op = code.ops[i]
        if (op == PARTIAL + 2 * WG_POW or op == PARTIAL + 2 * WG_POWER) and code.ops[code.bs[i]] == CONST:
            of[i] = of_constant_power(found, of[code.as_[i]], of[code.bs[i]], code.kinds[i])
        elif PARTIAL <= op < INPUT and (exact or not flat_slopes[op] and op not in own_slopes):
            of[i] = instantiated(template_of((op - PARTIAL) // 2, (op - PARTIAL) % 2), found, code.kinds[i],
                                 [of[v] if v >= 0 else -1 for v in (code.as_[i], code.bs[i], code.cs[i])])
        else:
            of[i] = copied(code, i, of, found)
        if code.kinds[i] > FLAG and found.kinds[of[i]] <= FLAG:         # a partial that is constant over the array
            of[i] = emit(found, PLACE, -1, found.entry(found.views, "view", whole_view(code.types[code.kinds[i]])),
                         of[i], code.kinds[i])
    set_ends(code, of, found)
    return found


cdef int32_t of_constant_power(Listing code, int32_t a, int32_t b, int32_t kind) except -1:
    """Return the partial b a**(b - 1) of a power with constant exponent b."""
    cdef double c = code.constants[code.as_[b]]
    if c == 0.0 or c == 1.0:
        return code.constant(c)
    if c != 2.0:
        a = emit(code, WG_POW if kind == SCALAR else WG_POWER, a, code.constant(c - 1.0), -1, kind)
    return emit(code, WG_MULTIPLY, a, b, -1, kind)


cdef int32_t instantiated(Listing template, Listing target, int32_t kind, list values) except -1:
    """Append a traced partial for operands that may be arrays; results that depend on an array become arrays."""
    cdef Py_ssize_t i
    cdef int32_t v
    cdef Block buffer = take(template.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>buffer.data
    _, shape, _ = target.types[kind]
    flags = target.type_of((np.dtype(bool), shape, None)) if shape else FLAG
    for i in range(template.n):
        if template.ops[i] == INPUT:
            of[i] = values[template.as_[i]]
            continue
        v = of[i] = target.adopt(template, i, of)
        for x in operands(target, v):
            if target.kinds[<int32_t>x] > FLAG:
                target.kinds[v] = flags if template.types[template.kinds[i]][0] == bool else kind
                break
    return of[<int32_t>template.outputs[0]]
