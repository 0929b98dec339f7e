# Derivative rules of calls, traced once at example operands; a sweep inlines the traced programs.
#
# Rules of pure functions are cached for all programs.

class Rule:
    """A derivative rule, traced at example operands into a program that a sweep inlines."""

    def __init__(self, code):
        self.code = code
        self.is_guarded = bool((code.op == GUARD).any())
        self.expects_finite = self.is_guarded and has_nan_guards_only(code)
        self.checks = 0
        self.guards = self.machine = None

    def holds(self, examples):
        """Return whether the guards of the trace hold at these operands."""
        if not self.is_guarded:
            return True
        if self.guards is None:
            self.guards = with_outputs_and_guards(self.code, [])
        self.checks += 1
        if self.machine is None and self.checks > MAX_INTERPRETED_CHECKS:
            self.machine = Machine(lowered(self.guards))
        with caught(Exception), np.errstate(all="ignore"):
            if self.machine is not None:
                return type(self.machine.attempt(examples)) is list
            evaluated(self.guards, examples)
            return True
        return False            # a guard fails, or the rule is undefined here: tracing reports that


cdef bint has_nan_guards_only(Listing code) except -1:
    """Return whether all guards of a rule are linked to products and hold where nothing is NaN."""
    cdef Py_ssize_t i
    for i in range(code.n):
        if code.ops[i] != GUARD:
            continue
        if code.cs[i] < 0 or code.kinds[code.as_[i]] not in (FLAG, SCALAR) or code.guards[code.bs[i]][0]:
            return False
    return True


def with_outputs_and_guards(Listing code, list outputs):
    """Return the program with other outputs, keeping every guard and the values it needs."""
    cdef Listing found = code.copy()
    cdef Py_ssize_t i
    found.outputs = outputs
    for i in range(found.n):
        if found.ops[i] == GUARD:
            found.cs[i] = -1            # the guard no longer depends on another value being live
    return live(found)


#: traced rules of pure functions, shared by all programs; the key is the function, the types and all static arguments.
#: The oldest keys are evicted first; a key holds one trace for each set of values that its guards accept
rule_cache = {}
MAX_RULE_KEYS = 256
MAX_RULES_PER_KEY = 4
#: minimum number of elements of all operands for a rule to be traced at small shapes
MIN_RESIZED_ELEMENTS = 4096
#: guard checks that are interpreted before the guards are compiled for the VM
cdef int MAX_INTERPRETED_CHECKS = 2
#: limit on the bytes of constants in a cached rule
cdef int MAX_RULE_CONSTANT_BYTES = 1 << 14


def forget_rules():
    """Clear the cache of traced rules."""
    rule_cache.clear()


cdef int remember_rule(key, rule) except -1:
    """Cache a rule for other programs, unless it is too large or its key already has too many rules."""
    rules = rule_cache.pop(key, ())
    if sum([array.nbytes for array in rule.code.arrays]) <= MAX_RULE_CONSTANT_BYTES and len(rules) < MAX_RULES_PER_KEY:
        rules = (*rules, rule)
    for oldest in list(rule_cache)[:max(0, len(rule_cache) - MAX_RULE_KEYS + 1)]:
        rule_cache.pop(oldest, None)       # another thread may have removed it
    if rules:
        rule_cache[key] = rules
    return 0


cdef object regular_example(tuple type):
    """Return ones of a type, with a larger diagonal in square matrices, so that they have inverses and factors."""
    dtype, shape, strides = type
    found = example_of(type)
    m, n = shape[len(shape) - 2:] if len(shape) > 1 else (0, 1)
    if m == n and dtype.kind in "fc" and (strides is None or not overlaps(shape, strides)):
        found += dtype.type(n) * np.eye(n, dtype=dtype)
    return found


cdef int link_nan_guards(Listing code) except -1:
    """Link each guard against NaN in a rule to the product it checks, so that both are eliminated together.

    Rules use such guards to detect 0 * inf. Guards of the user's code have no such link and always stay.
    """
    cdef Py_ssize_t i
    cdef int32_t v
    for i in range(code.n):
        if code.ops[i] == GUARD and code.ops[code.as_[i]] == ISNAN:
            v = code.as_[code.as_[i]]
            if code.ops[v] == CALL and code.calls[code.as_[v]].compute is np.vdot:
                one, other = code.calls[code.as_[v]].operands
                if one == other:
                    code.cs[i] = one
    return 0
