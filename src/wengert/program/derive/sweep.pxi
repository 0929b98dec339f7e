# The common part of both sweeps: a copy of a program, and the instructions that a sweep appends to it.

cdef class Sweep:
    """A copy of a program to which the derivatives of its first `size` values are appended."""

    cdef readonly Listing code
    cdef readonly Py_ssize_t size       # length of the original program, whose values keep their indices
    cdef int32_t *derivative            # adjoint or tangent of each original value; -1: zero
    cdef unsigned char *active          # does the value depend on the differentiation variables?
    cdef tuple buffers                  # owners of the memory of `derivative` and `active`
    cdef dict call_values               # operands and results of calls at the example; None: not computed yet
    cdef list values                    # values of all instructions at the example, computed if `call_values` lacks one
    cdef object example                 # values of the inputs, or a function that returns them
    cdef list inserted                  # positions and values of inputs that `example` lacks
    cdef dict rules                     # rules of the calls met so far, by everything that they depend on
    cdef dict rule_types                # by inlined rule: its type ids in this program
    cdef str user_line                  # source line of the user's code, for guards in rules
    cdef dict solutions                 # see `known_solutions`; None: not computed yet
    cdef bint exact                     # sum in the order of the eager sweep, and use its partials?
    cdef bint is_guarded                # does the original program have guards?
    cdef bint assumes_finite            # assume that guards of rules against NaN hold at the example?

    def __cinit__(self, Listing code, example, exact=False, assumes_finite=False):
        self.code = code.copy()
        self.is_guarded = bool((code.op == GUARD).any())
        self.size = code.n
        self.exact, self.assumes_finite = exact, assumes_finite
        self.example, self.inserted = example, []
        self.call_values, self.values, self.rules, self.rule_types = None, [], {}, {}
        self.buffers = take(code.n * sizeof(int32_t)), take(code.n)
        self.derivative = <int32_t *>(<Block>self.buffers[0]).data
        self.active = <unsigned char *>(<Block>self.buffers[1]).data
        self.clear()
        memset(self.active, 0, code.n)

    cdef int32_t insert_input(self, Py_ssize_t number, int32_t kind) except -1:
        """Insert an input at a position; later inputs move up by one."""
        cdef int32_t v
        dtype, shape, strides = self.code.types[kind]
        if strides is not None:
            kind = self.code.type_of((dtype, shape, None))
        for v in self.code.inputs[number:]:
            self.code.as_[v] += 1
        v = emit(self.code, INPUT, number, -1, -1, kind)
        self.code.inputs.insert(number, v)
        self.inserted.append((number, self.example_like(v)))
        return v

    cdef list inputs_at_example(self):
        if callable(self.example):
            self.example = self.example()
        for number, x in self.inserted:
            self.example = [*self.example[:number], x, *self.example[number:]]
        self.inserted = []
        return self.example

    cdef int clear(self) except -1:
        """Start a new sweep: all adjoints or tangents are zero."""
        memset(self.derivative, 0xff, self.size * sizeof(int32_t))
        return 0

    def mark(self, inputs):
        """Mark the values that depend on these inputs as active."""
        cdef Py_ssize_t i
        cdef int32_t v
        cdef int32_t[::1] packed
        cdef int op, columns
        cdef set empty = {kind for kind, type in enumerate(self.code.types) if 0 in type[1]}
        for v in inputs:
            self.active[v] = 1
        for i in range(self.size):
            op = self.code.ops[i]
            columns = names(op)
            if not has(op, HAS_DERIVATIVE) or (empty and self.code.kinds[i] in empty):
                continue
            if ((columns & 1 and self.code.as_[i] >= 0 and self.active[self.code.as_[i]])
                    or (columns & 2 and self.code.bs[i] >= 0 and self.active[self.code.bs[i]])
                    or (columns & 4 and self.code.cs[i] >= 0 and self.active[self.code.cs[i]])):
                self.active[i] = 1
            elif op == PACK:
                packed = self.code.packs[self.code.bs[i]][1]
                for v in packed:
                    if self.active[v]:
                        self.active[i] = 1
                        break
            elif op == CALL:
                call = self.code.calls[self.code.as_[i]]
                is_constant = call.row is not None and call.row.kind == "constant"
                if call.row.reason if is_constant else self.code.types[self.code.kinds[i]][0].kind in "fc":
                    for v in call.operands:
                        if self.active[v]:
                            if is_constant:
                                raise UnsupportedFunctionError(call.row.reason)
                            self.active[i] = 1

    # ------------------------------------------------------------------------------------------ instructions

    cdef int32_t elementwise(self, int op, int32_t a, int32_t b, int32_t kind) except -1:
        """Append an elementwise instruction; its result is a scalar if both operands are."""
        if self.code.kinds[a] <= FLAG and self.code.kinds[b] <= FLAG:
            return emit(self.code, op, a, b, -1, SCALAR)
        dtype, shape, strides = self.code.types[kind]
        if strides is not None and overlaps(shape, strides):    # elements share memory, their adjoints must not
            kind = self.code.type_of((dtype, shape, None))
        return emit(self.code, op, a, b, -1, kind)

    cdef int32_t packed(self, int32_t base, offsets, list values, int32_t kind) except -1:
        self.code.packs.append((offsets, np.array(values, dtype=np.int32)))
        return emit(self.code, PACK, base, len(self.code.packs) - 1, -1, kind)

    cdef int32_t placed(self, int32_t base, tuple view, int32_t value, int32_t kind) except -1:
        cdef tuple type = self.code.types[kind]
        if base < 0 and not self.exact and self.code.kinds[value] > FLAG and type[2] is None:
            # same elements in the same order: a reshape
            if self.code.types[self.code.kinds[value]] == (type[0], view[1], None) and view == whole_view(
                    (type[0], view[1], None)) and math.prod(view[1]) == math.prod(type[1]):
                return self.code.as_type(value, type)
        return emit(self.code, PLACE, base, self.code.entry(self.code.views, "view", view), value, kind)

    cdef int32_t as_output(self, int32_t g) except -1:
        """Return an output, with a reshape replaced by a PLACE, which writes straight into the output."""
        cdef int32_t kind = self.code.kinds[g], a = self.code.as_[g]
        if self.code.ops[g] != VIEW or self.code.types[kind][2] is not None:
            return g
        dtype, shape, strides = self.code.types[self.code.kinds[a]]
        if dtype != self.code.types[kind][0] or strides is not None or math.prod(shape) != math.prod(
                self.code.types[kind][1]):
            return g
        return self.code.place(-1, whole_view((dtype, shape, None)), a, self.code.types[kind])

    cdef int32_t zeros(self, int32_t kind) except -1:
        return self.placed(-1, whole_view(self.code.types[kind]), self.code.constant(0.0), kind)

    cdef int32_t in_order(self, int32_t v) except -1:
        """Return the C-order type of a value."""
        dtype, shape, _ = self.code.types[self.code.kinds[v]]
        return self.code.type_of((dtype, shape, None))

    cdef int32_t sum_over(self, int32_t g, int32_t kind) except -1:
        """Sum an adjoint over an array of the given type; a scalar adjoint is multiplied by the size."""
        if self.code.kinds[g] > FLAG:
            return emit(self.code, SUM, g, -1, -1, SCALAR)
        size = math.prod(self.code.types[kind][1])
        return self.elementwise(WG_MULTIPLY, g, self.code.constant(size), SCALAR)

    cdef int32_t inline_function(self, key, function, int32_t v, bint is_sizeless=False) except -1:
        """Inline a function of one value, traced once for each type; `key` identifies the function.

        `is_sizeless`: the function does not depend on the shape.
        """
        type = self.code.types[self.code.kinds[v]]
        rules = rule_cache.get((key, type))
        if rules is None:
            code = self.traced_small(None, function, (key,), (), [type]) if is_sizeless else None
            if code is None:
                code = self.traced(function, self.of_types([self.example_like(v)], [v]))
            rules = (Rule(code),)
            remember_rule((key, type), rules[0])
        return self.inline(rules[0], [v])[0]

    cdef list of_types(self, list examples, list values):
        return [of_type(x, self.code.types[self.code.kinds[<int32_t>v]]) for x, v in zip(examples, values)]

    cdef Listing traced(self, function, list examples):
        cdef Listing found
        with np.errstate(all="ignore"):     # derivatives never warn
            found = listed(function, examples, "a derivative", warns=False)
        link_nan_guards(found)
        return found

    cdef list run_rule(self, call, what, function, list values, examples):
        """Inline the rule of a call, traced once for all calls with equal static arguments and types.

        `examples` returns example operands; it is called only if they are needed.
        A rule that branches on values has guards, and is traced again where they fail.
        """
        cdef tuple types
        key = (what, tuple([self.code.kinds[<int32_t>v] for v in values]), Same(call.row), Same(call.compute),
               static(call.args), static(call.kwargs))
        shared_key = None
        if self.is_guarded and self.call_values is None and not self.assumes_finite:
            self.call_values = self.evaluate_calls()             # fails if a guard does not hold
        rules = self.rules.get(key)
        if rules is None and is_function(call) and is_told(call.args) and is_told(call.kwargs):
            types = tuple([self.code.types[self.code.kinds[<int32_t>v]] for v in values])
            shared_key = (type(self), what, types, call.row, call.compute, *key[4:])
            rules = self.rules[key] = rule_cache.get(shared_key)
        for known in rules or ():
            if self.needs_no_example(known):
                return self.inline(known, values)
        rule = None if rules else self.traced_at_ones(call, function, values, shared_key)
        if rule is None or not self.needs_no_example(rule):
            given = examples()
            for known in rules or ():
                if known.holds(given):
                    return self.inline(known, values)
            if rule is None or not rule.holds(given):
                rule = Rule(self.traced(function, self.of_types(given, values)))
        if not any([is_loop(c) or is_solution(c) for c in rule.code.calls]):
            self.rules[key] = (*(rules or ()), rule)
            if shared_key is not None:
                remember_rule(shared_key, rule)
        return self.inline(rule, values)

    cdef bint needs_no_example(self, rule) except -1:
        """Return whether a rule can be inlined without evaluating its guards at the example."""
        return not rule.is_guarded or (self.assumes_finite and rule.expects_finite)

    cdef object traced_at_ones(self, call, function, list values, shared_key):
        """Trace the rule of a function at ones and regular matrices, without an example; None if that fails.

        If the operands are large, a trace at small operands is resized; all shapes of a class share this trace.
        """
        if not is_function(call):
            return None
        types = [self.code.types[self.code.kinds[<int32_t>v]] for v in values]
        with caught(Exception):         # the rule may be undefined at ones
            if shared_key is not None:
                code = self.traced_small(call, function, shared_key[:2], shared_key[3:], types)
                if code is not None:
                    return Rule(code)
        if self.call_values is not None:        # known values are better examples
            return None
        with caught(Exception):
            return Rule(self.traced(function, [of_type(regular_example(type), type) for type in types]))
        return None

    cdef traced_small(self, call, function, tuple before, tuple after, list types):
        """Trace a rule at small operands, and resize it; None if it depends on lengths.

        The key of the trace, which all types of a class share, is `before`, the small types and `after`.
        """
        if sum([math.prod(shape) for _, shape, _ in types]) < MIN_RESIZED_ELEMENTS:
            return None
        small = resize.StandIns.of(call, types)
        if small is None:
            return None
        key = (*before, small.types[0] if call is None else tuple(small.types), *after)
        known = rule_cache.get(key)
        if known is None:
            known = (Rule(self.traced(function, [regular_example(type) for type in small.types])),)
            remember_rule(key, known[0])
        return small.resized(known[0].code)

    cdef object example_like(self, int32_t g):
        return example_of(self.code.types[self.code.kinds[g]])

    cdef int32_t in_layout(self, int32_t g, int32_t v) except -1:
        """Convert an adjoint to the layout of its value: broadcast a scalar, copy other strides.

        If elements of the value share memory, the layout is C order.
        """
        cdef int32_t kind = self.code.kinds[v]
        dtype, shape, strides = self.code.types[kind]
        if strides is not None and overlaps(shape, strides):
            kind = self.code.type_of((dtype, shape, None))
        if self.code.kinds[g] == kind:
            return g
        return self.placed(-1, whole_view(self.code.types[kind]), g, kind)

    cdef bint is_in_order(self, int32_t g, int32_t v) except -1:
        """Return whether an adjoint has the shape and dtype of its value and is C-contiguous."""
        cdef tuple given = self.code.types[self.code.kinds[g]], own = self.code.types[self.code.kinds[v]]
        return self.code.kinds[g] > FLAG and given[2] is None and given[:2] == own[:2]

    cdef int32_t as_precise(self, int32_t g, int32_t v) except -1:
        """Cast a tangent or adjoint to the dtype of its value; a real value takes the real part."""
        cdef int32_t kind = self.code.kinds[v], given = self.code.kinds[g]
        if kind == given:
            return g
        g = self.real_part(g, v)
        given = self.code.kinds[g]
        if kind == given or (self.code.types[kind][0] == self.code.types[given][0] and (kind > FLAG or given <= FLAG)):
            return g
        if kind > FLAG:
            return self.in_layout(g, v)
        kind = self.code.type_of((self.code.types[kind][0], (1,), None))
        return emit(self.code, LOAD, self.placed(-1, whole_view(self.code.types[kind]), g, kind), 0, -1, SCALAR)

    cdef int32_t real_part(self, int32_t g, int32_t v) except -1:
        """Take the real part of a complex adjoint if its value is real."""
        cdef tuple type = self.code.types[self.code.kinds[g]], pairs
        cdef int32_t in_order
        if type[0] is FLOAT or type[0].kind != "c" or self.code.types[self.code.kinds[v]][0].kind == "c":
            return g
        type = (type[0], type[1], None)
        in_order = self.code.type_of(type)
        if self.code.kinds[g] != in_order:
            g = self.placed(-1, whole_view(type), g, in_order)
        pairs = parted(type)
        return self.code.view(self.code.as_type(g, pairs), (0, type[1], whole_view(type)[2]), pairs[0])

    cdef int32_t select(self, int32_t mask, int32_t b, int32_t c, int32_t kind) except -1:
        if self.code.kinds[mask] == FLAG and self.code.kinds[b] == SCALAR and self.code.kinds[c] == SCALAR:
            kind = SCALAR
        return emit(self.code, SELECT, mask, b, c, kind)

    cdef int32_t strong_product(self, int32_t g, int32_t p, int32_t kind) except -1:
        return self.elementwise(STRONG, g, p, kind)

    cpdef int32_t partial(self, int32_t i, int op, int side) except -1:
        """Return the partial, in one operand, of an elementwise function or of a partial that `expanded` keeps."""
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], y = i
        cdef int wanted
        if op >= PARTIAL:
            if flat_slopes[op]:
                return self.code.constant(0.0)
            return self.strong_product(i, self.own_slope_factor(i), self.code.kinds[i])
        wanted = reads[op][side]
        if (op == WG_POW or op == WG_POWER) and side == 0 and self.code.ops[b] == CONST and not self.exact:
            return of_constant_power(self.code, a, b, self.code.kinds[i])
        a = a if wanted & 1 else -1
        b = b if wanted & 2 else -1
        y = y if wanted & 4 else -1
        kind = SCALAR
        for x in (a, b, y):
            if x >= 0 and self.code.kinds[<int32_t>x] > FLAG:
                kind = self.code.kinds[i]
        return emit(self.code, PARTIAL + 2 * op + side, a, b, y, kind)

    cdef int32_t own_slope_factor(self, int32_t i) except -1:
        """Return the ratio of the derivative of partial i to partial i, for the partials in `own_slopes`.

        It is -2 tanh(a) for tanh and -2 a for erf and erfc, so the derivative reuses the computed partial.
        """
        cdef int op = self.code.ops[i]
        cdef int32_t kind = self.code.kinds[i], a = self.code.as_[i]
        if own_slopes[op] == "value":
            a = emit(self.code, (op - PARTIAL) // 2, a, -1, -1, kind)
        return self.elementwise(WG_MULTIPLY, self.code.constant(-2.0), a, kind)

    cdef value(self, int32_t v):
        if self.call_values is None:
            self.call_values = self.evaluate_calls()
        if v in self.call_values:
            return self.call_values[v]
        if v >= len(self.values):
            evaluated(self.code, self.inputs_at_example(), max(self.size, v + 1), self.values)
        return self.values[v]

    cdef dict evaluate_calls(self):
        """Return operands and results of the active calls at the example; raise if a guard fails there."""
        cdef Py_ssize_t i
        cdef set wanted = set()
        for i in range(self.size):
            if self.code.ops[i] == CALL and self.active[i]:
                wanted.add(<int32_t>i)
                wanted.update(self.code.calls[self.code.as_[i]].operands)
        outputs = sorted(wanted)
        with np.errstate(all="ignore"):
            found = Machine(lowered(with_outputs_and_guards(self.code, outputs)), self.exact).run(
                self.inputs_at_example())
        return dict(zip(outputs, found))

    cdef list reusable_values(self, call):
        """Return the values of the program that the derivative of an implicit function can reuse."""
        if self.solutions is None:
            self.solutions = known_solutions(self.code)
        return self.solutions.get(id(call.compute), [])

    cdef list inline(self, rule, list values):
        """Append the program of a rule, applied to `values`; return its outputs."""
        cdef Listing traced = rule.code
        cdef Block buffer = take(traced.n * sizeof(int32_t))
        cdef int32_t *of = <int32_t *>buffer.data
        cdef const int32_t *kinds
        cdef cnp.ndarray table
        cdef Py_ssize_t i
        table = self.rule_types.get(rule)
        if table is None:
            table = self.rule_types[rule] = self.code.kinds_of(traced)
        kinds = <const int32_t *>cnp.PyArray_DATA(table)
        for i in range(traced.n):
            if traced.ops[i] == INPUT:
                of[i] = self.in_type(values[traced.as_[i]], kinds[traced.kinds[i]])
            else:
                of[i] = self.code.adopt(traced, i, of, kinds)
                if traced.ops[i] == GUARD:
                    self.code.guards[self.code.bs[of[i]]] = (traced.guards[traced.bs[i]][0], self.location())
        return [of[<int32_t>v] for v in traced.outputs]

    cdef int check_after_loop(self, int32_t r, derived) except -1:
        """Append checks for NaN of carried values of a loop's derivative, whose result is r."""
        cdef Listing code = self.code
        cdef int32_t v
        for k in derived.checked:
            v = code.part(r, derived.loop.view("last", k), FLOAT)
            if code.kinds[v] > FLAG:
                call = Call(np.vdot, (Operand(0), Operand(1)), {}, [v, v], lookup(np.vdot))
                v = code.call(call, code.types[SCALAR])
            code.guard(emit(code, ISNAN, v, -1, -1, FLAG), False, self.location(), r)
        return 0

    cdef str location(self):
        """Return the location of the user's call, for messages of guards."""
        if self.user_line is None:
            self.user_line = frames.where(frames.caller())
        return self.user_line

    cdef int32_t in_type(self, int32_t v, int32_t kind) except -1:
        """Return a value in the layout the rule was traced with; traces have no strided inputs."""
        if self.code.kinds[v] == kind or kind <= FLAG:
            return v
        return self.placed(-1, whole_view(self.code.types[kind]), v, kind)
