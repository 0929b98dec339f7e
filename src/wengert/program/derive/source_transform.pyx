# All indices are computed internally, and no Cython code divides by a number that the user gives:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Source transformation: appends a forward or reverse sweep to a program (Griewank and Walther 2008, chapter 6).

The result holds the instructions of the original program, followed by those of its tangents or adjoints.
Elementwise instructions are differentiated here; their partials, defined in ``kernels.h``, are instructions too.
The derivative rules of all other functions come from the registry: they are traced on example operands and inlined.
An adjoint that is the same everywhere is kept as a scalar.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t
from libc.string cimport memset

import dataclasses
import math

import numpy as np

from wengert.core.tape.memory cimport Block, take
from wengert.core.tape.tape cimport WG_ADD, WG_MULTIPLY, WG_NEGATIVE, WG_POSITIVE, WG_POW, WG_SUBTRACT
from wengert.program.ir.ir cimport (
    FLAG, HAS_DERIVATIVE, SCALAR, Listing, copied, emit, has, names, overlaps, parted, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.core import frames
from wengert.core.levels import caught
from wengert.errors import NonSmoothError
from wengert.program.ir import call_rules
from wengert.program.ir.call import is_function, is_solution, is_told, known_solutions, static
from wengert.program.ir.reference import evaluated, example_of, of_type
from wengert.program.ir.identity import Same
from wengert.program.ir.ir import operands
from wengert.program.ir.opcode_table import OPCODES, ROWS, primitive
from wengert.program.passes.loop_recovery import Loop, call_of, is_loop, type_of_result
from wengert.program.passes.simplify import folded, live, lowered, needed_for, simplified
from wengert.program.tracing.trace import listed
from wengert.program.vm.machine import Machine

cnp.import_array()

cdef int WG_POWER = OPCODES["power"]
cdef int WG_TANH = OPCODES["tanh"]

cdef int reads[256][2]              # values that a row's partial in either operand reads: bits A 1, B 2, Y 4
memset(reads, 0, sizeof(reads))
for _opcode in OPCODES.values():
    for _side in range(ROWS[_opcode].arity):
        _columns = ROWS[PARTIAL + 2 * _opcode + _side].columns
        reads[_opcode][_side] = sum([1 << k for k, holds in enumerate(_columns) if holds == "value"])


class Rule:
    """A derivative rule, traced at example operands into a program that a sweep inlines."""

    def __init__(self, code):
        self.code = code
        self.is_guarded = bool((code.op == GUARD).any())
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
#: guard checks that are interpreted before the guards are compiled for the VM
cdef int MAX_INTERPRETED_CHECKS = 2
#: bytes of constants in a rule that may be cached
cdef int MAX_RULE_CONSTANT_BYTES = 1 << 14


def forget_rules():
    """Clear the cache of traced rules."""
    rule_cache.clear()


cdef int remember_rule(key, rule) except -1:
    """Cache a rule for other programs, unless it is too large or its key has too many."""
    rules = rule_cache.pop(key, ())
    if sum([array.nbytes for array in rule.code.arrays]) <= MAX_RULE_CONSTANT_BYTES and len(rules) < MAX_RULES_PER_KEY:
        rules = (*rules, rule)
    for oldest in list(rule_cache)[:max(0, len(rule_cache) - MAX_RULE_KEYS + 1)]:
        rule_cache.pop(oldest, None)       # another thread may have removed it
    if rules:
        rule_cache[key] = rules
    return 0


cdef class Sweep:
    """A copy of a program to which the derivatives of its first `size` values are appended."""

    cdef readonly Listing code
    cdef readonly Py_ssize_t size       # of the original program, whose values keep their indices
    cdef int32_t *derivative            # adjoint or tangent of each original value; -1: zero
    cdef unsigned char *active          # does the value depend on the differentiation variables?
    cdef tuple buffers                  # owners of the memory of `derivative` and `active`
    cdef dict call_values               # operands and results of calls at the example; None: not computed yet
    cdef list values                    # of all instructions at the example, computed only if `call_values` lacks one
    cdef object example
    cdef dict rules                     # of the calls met so far, by what they depend on
    cdef dict rule_types                # type ids of an inlined rule in this program, by rule
    cdef str user_line                  # source line of the user's code, for guards in rules
    cdef dict solutions                 # see `known_solutions`; made at the first solution
    cdef bint exact                     # sum in the order of the eager sweep, and with its partials
    cdef bint is_guarded                # does the original program have guards?

    def __cinit__(self, Listing code, example, exact=False):
        self.code = code.copy()
        self.is_guarded = bool((code.op == GUARD).any())
        self.size = code.n
        self.exact = exact
        self.example = example
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
        self.example = [*self.example[:number], self.example_like(v), *self.example[number:]]
        return v

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
            elif op == CALL and self.code.types[self.code.kinds[i]][0].kind in "fc":
                call = self.code.calls[self.code.as_[i]]
                if call.row is None or call.row.kind != "constant":
                    for v in call.operands:
                        if self.active[v]:
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

    cdef int32_t inline_function(self, key, function, int32_t v) except -1:
        """Inline a function of one value, traced once for each type; `key` identifies the function."""
        key = (key, self.code.types[self.code.kinds[v]])
        rules = rule_cache.get(key)
        if rules is None:
            rules = (Rule(self.traced(function, self.of_types([self.example_like(v)], [v]))),)
            remember_rule(key, rules[0])
        return self.inline(rules[0], [v])[0]

    cdef list of_types(self, list examples, list values):
        """Convert examples to the types of these values."""
        return [of_type(x, self.code.types[self.code.kinds[<int32_t>v]]) for x, v in zip(examples, values)]

    cdef Listing traced(self, function, list examples):
        cdef Listing found
        with np.errstate(all="ignore"):     # derivatives never warn
            found = listed(function, examples, "a derivative")
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
        if self.is_guarded and self.call_values is None:
            self.call_values = self.evaluate_calls()             # fails if a guard does not hold
        rules = self.rules.get(key)
        if rules is None and is_function(call) and is_told(call.args) and is_told(call.kwargs):
            types = tuple([self.code.types[self.code.kinds[<int32_t>v]] for v in values])
            shared_key = (type(self), what, types, call.row, call.compute, *key[4:])
            rules = self.rules[key] = rule_cache.get(shared_key)
        if rules and not rules[0].is_guarded:
            return self.inline(rules[0], values)
        rule = self.traced_at_ones(call, function, values) if not rules and self.call_values is None else None
        if rule is None or rule.is_guarded:
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

    cdef object traced_at_ones(self, call, function, list values):
        """Trace the rule of a function at ones, which needs no example values; None if that fails."""
        cdef int32_t v
        if not is_function(call):
            return None
        with caught(Exception):         # the rule may be undefined at ones
            return Rule(self.traced(function, self.of_types([self.example_like(v) for v in values], values)))
        return None

    cdef object example_like(self, int32_t g):
        """Return an example of the type of a value."""
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
        """Return the partial of an elementwise row, or of a partial that `expanded` keeps, in one operand."""
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], y = i
        cdef int wanted
        if op >= PARTIAL:
            if flat_slopes[op]:
                return self.code.constant(0.0)
            return self.strong_product(i, self.own_slope_factor(i), self.code.kinds[i])
        wanted = read_by(op, side)
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
        """Return the factor of partial i in its own derivative, for the partials in `own_slopes`.

        It is -2 tanh(a) for tanh and -2 a for erf and erfc, so the derivative reuses the computed partial.
        """
        cdef int32_t kind = self.code.kinds[i], a = self.code.as_[i]
        if self.code.ops[i] == PARTIAL + 2 * WG_TANH:
            a = emit(self.code, WG_TANH, a, -1, -1, kind)
        return self.elementwise(WG_MULTIPLY, self.code.constant(-2.0), a, kind)

    cdef value(self, int32_t v):
        """Return a value at the example."""
        if self.call_values is None:
            self.call_values = self.evaluate_calls()
        if v in self.call_values:
            return self.call_values[v]
        if v >= len(self.values):
            evaluated(self.code, self.example, max(self.size, v + 1), self.values)
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
            found = Machine(lowered(with_outputs_and_guards(self.code, outputs)), self.exact).run(self.example)
        return dict(zip(outputs, found))

    cdef list reusable_values(self, call):
        """Return the values that the derivative of this solution can reuse."""
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


@cython.final
cdef class Reverse(Sweep):
    """Reverse sweep: the adjoints of all values of a program."""

    cdef dict elements                  # by array: adjoints of single elements, by offset

    def __init__(self, code, example, exact=False):
        self.elements = {}

    # ------------------------------------------------------------------------------------------ adjoints

    cpdef int accumulate(self, int32_t v, int32_t g) except -1:
        """Add g to the adjoint of v."""
        if not self.active[v]:
            return 0
        g = self.as_precise(g, v)
        if self.exact and v in self.elements:
            self.adjoint(v)
        if self.derivative[v] >= 0:
            g = self.elementwise(WG_ADD, self.derivative[v], g, self.code.kinds[v])
        self.derivative[v] = g
        return 0

    cdef int accumulate_element(self, int32_t v, int32_t offset, int32_t g) except -1:
        cdef int32_t whole
        if not self.active[v]:
            return 0
        if self.exact and self.derivative[v] >= 0:
            whole = self.in_layout(self.derivative[v], v)
            g = self.elementwise(WG_ADD, emit(self.code, LOAD, whole, offset, -1, SCALAR), g, SCALAR)
            self.derivative[v] = self.packed(whole, np.array([offset], dtype=np.int32), [g], self.code.kinds[v])
            return 0
        elements = self.elements.get(v)
        if elements is None:
            elements = self.elements[v] = {}
        found = elements.get(offset)
        elements[offset] = g if found is None else self.elementwise(WG_ADD, found, g, SCALAR)
        return 0

    cpdef int32_t adjoint(self, int32_t v) except -2:
        """Return the adjoint of a value, with the adjoints of its elements merged in; -1: zero."""
        cdef int32_t g = self.derivative[v], part
        elements = self.elements.pop(v, None) if self.code.kinds[v] > FLAG else None
        if elements:
            offsets = np.array(sorted(elements), dtype=np.int32)
            part = self.packed(-1, offsets, [elements[offset] for offset in offsets.tolist()], self.code.kinds[v])
            g = part if g < 0 else self.elementwise(WG_ADD, self.in_layout(g, v), part, self.code.kinds[v])
            self.derivative[v] = g
        return g

    # ------------------------------------------------------------------------------------------ the sweep

    def sweep(self):
        """Propagate adjoints from results to operands, last instruction first."""
        cdef Py_ssize_t i
        for i in range(self.size - 1, -1, -1):
            if self.active[i] and (self.derivative[i] >= 0 or (self.code.kinds[i] > FLAG and i in self.elements)):
                self.pull(<int32_t>i)

    cdef int pull(self, int32_t i) except -1:
        cdef int op = self.code.ops[i]
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], c = self.code.cs[i], kind = self.code.kinds[i], g
        if op == PACK:
            return self.pull_pack(i)
        if op == INPUT:
            return 0
        g = self.adjoint(i)
        if op < PARTIAL:
            if op >= WG_ADD and kind > FLAG:        # arrays: right operand first, as in the eager sweep
                self.pull_operand(i, op, 1, b, g)
            self.pull_operand(i, op, 0, a, g)
            if op >= WG_ADD and kind <= FLAG:
                self.pull_operand(i, op, 1, b, g)
        elif op < INPUT:
            if not flat_slopes[op]:
                g = self.strong_product(g, i, kind)
                self.contribute(a, i, self.strong_product(g, self.own_slope_factor(i), kind))
        elif op == STRONG:
            self.contribute(a, i, self.strong_product(g, b, kind))
            self.contribute(b, i, self.strong_product(g, a, kind))
        elif op == LOAD:
            self.accumulate_element(a, b, g)
        elif op == SUM:
            self.accumulate(a, g)
        elif op == SELECT:
            zero = self.code.constant(0.0)
            if self.active[b]:
                self.contribute(b, i, self.select(a, g, zero, kind))
            if self.active[c]:
                self.contribute(c, i, self.select(a, zero, g, kind))
        elif op == VIEW:
            self.pull_view(i, g if self.is_in_order(g, i) and not self.exact else self.in_layout(g, i))
        elif op == PLACE:
            self.pull_place(i, g)
        elif op == GATHER:
            self.accumulate(a, emit(self.code, SCATTER, self.in_layout(g, i), b, -1, self.code.kinds[a]))
        elif op == PUT:
            g = self.in_layout(g, i)
            self.accumulate(c, emit(self.code, GATHER, g, b, -1, self.in_order(c)))
            if a >= 0 and self.active[a]:
                self.accumulate(a, emit(self.code, PUT, g, b, self.zeros(self.in_order(c)), kind))
        elif op == SCATTER:
            self.accumulate(a, emit(self.code, GATHER, self.in_layout(g, i), b, -1, self.code.kinds[a]))
        elif op == CALL:
            self.pull_call(i, g)
        else:
            raise NotImplementedError(f"the derivative of instruction {op}")
        return 0

    cdef int pull_operand(self, int32_t i, int op, int side, int32_t v, int32_t g) except -1:
        """Add the contribution of an elementwise row to the adjoint of one operand."""
        cdef int32_t p
        if not self.active[v]:
            return 0
        if op == WG_ADD or op == WG_POSITIVE or (op == WG_SUBTRACT and side == 0):
            return self.contribute(v, i, g)
        if op == WG_NEGATIVE or op == WG_SUBTRACT:
            return self.contribute(v, i, emit(self.code, WG_NEGATIVE, g, -1, -1, self.code.kinds[g]))
        if op == WG_MULTIPLY:
            p = self.code.as_[i] if side else self.code.bs[i]
            return self.contribute(v, i, self.strong_product(g, p, self.code.kinds[i]))
        p = self.partial(i, op, side)
        return self.contribute(v, i, self.strong_product(g, p, self.code.kinds[i]))

    cdef int contribute(self, int32_t v, int32_t i, int32_t g) except -1:
        """Add to the adjoint of an operand of instruction i; sum if the operand was a broadcast scalar."""
        if not self.active[v]:
            return 0
        if self.code.kinds[v] <= FLAG and self.code.kinds[i] > FLAG:
            g = self.sum_over(g, self.code.kinds[i])
        return self.accumulate(v, g)

    cdef int pull_pack(self, int32_t i) except -1:
        """Pass element adjoints to the packed scalars, and the rest to the base array."""
        cdef int32_t base = self.code.as_[i], whole = self.derivative[i], v, g
        offsets, values = self.code.packs[self.code.bs[i]]
        elements = self.elements.pop(i, {})
        if whole >= 0:
            whole = self.in_layout(whole, i)
        for offset, v in zip(offsets.tolist(), values.tolist()):
            found = elements.pop(offset, None)
            if not self.active[v]:
                continue
            g = -1 if found is None else found
            if whole >= 0:
                part = emit(self.code, LOAD, whole, offset, -1, SCALAR)
                g = part if g < 0 else self.elementwise(WG_ADD, part, g, SCALAR)
            if g >= 0:
                self.accumulate(v, g)
        if base >= 0 and self.active[base]:
            for offset, found in elements.items():
                self.accumulate_element(base, offset, found)
            if whole >= 0:
                zero = self.code.constant(0.0)
                self.accumulate(base, self.packed(whole, offsets, [zero] * len(offsets), self.code.kinds[i]))
        return 0

    cdef int pull_view(self, int32_t i, int32_t g) except -1:
        """Scatter the adjoint of a view into the adjoint of its array."""
        cdef int32_t a = self.code.as_[i], kind = self.code.kinds[a]
        dtype, shape, _ = self.code.types[kind]
        view = self.code.views[self.code.bs[i]]
        size = math.prod(shape)
        if dtype != self.code.types[self.code.kinds[i]][0]:         # complex array seen as real pairs, or vice versa
            return self.accumulate(a, self.code.as_type(g, self.code.types[kind]))
        if overlaps(view[1], view[2]) and not self.exact:
            g, view = self.summed_over(g, view)
        if overlaps(view[1], view[2]):
            places = call_rules.places(view, dtype)
            if np.unique(places).size < places.size:
                key = "scattered", view, size
                g = self.inline_function(key, lambda g: [call_rules.scattered(g, places, size)], g)
                return self.accumulate(a, self.code.view(g, whole_view(self.code.types[kind]), dtype))
        if math.prod(view[1]) == size:
            return self.accumulate(a, self.placed(-1, view, g, kind))
        if self.exact or self.derivative[a] < 0 or not self.active[a]:
            return self.accumulate(a, self.placed(self.zeros(kind), view, g, kind))
        # accumulate into the existing adjoint; the VM does this in place
        whole = self.in_layout(self.derivative[a], a)
        index = self.code.entry(self.code.views, "view", view)
        if self.code.ops[whole] == PLACE and self.code.bs[whole] == index and self.is_zero(self.code.cs[whole]):
            self.derivative[a] = self.placed(self.code.as_[whole], view, g, self.code.kinds[whole])
            return 0
        part = self.code.view(whole, view, dtype)
        part = self.elementwise(WG_ADD, part, g, self.code.kinds[g])
        self.derivative[a] = self.placed(whole, view, part, self.code.kinds[whole])
        return 0

    cdef tuple summed_over(self, int32_t g, tuple view):
        """Sum an adjoint over the broadcast axes of its view (stride 0); return it and the view without them."""
        offset, shape, strides = view
        repeated = tuple([d for d, (n, s) in enumerate(zip(shape, strides)) if s == 0 and n > 1])
        if not repeated:
            return g, view
        kept = [d for d in range(len(shape)) if d not in repeated]
        g = self.inline_function(("sum", repeated), lambda g: [np.sum(g, axis=repeated)], g)
        return g, (offset, tuple([shape[d] for d in kept]), tuple([strides[d] for d in kept]))

    cdef bint is_zero(self, int32_t v) except -1:
        return self.code.ops[v] == CONST and self.code.constants[self.code.as_[v]] == 0.0

    cdef int pull_place(self, int32_t i, int32_t g) except -1:
        cdef int32_t base = self.code.as_[i], index = self.code.bs[i], source = self.code.cs[i], part
        cdef int32_t kind = self.code.kinds[i]
        view = self.code.views[index]
        dtype = self.code.types[kind][0]
        if self.active[source]:
            if self.code.kinds[g] <= FLAG:
                part = g
            else:
                part = self.code.view(self.in_layout(g, i), view, dtype)
            self.accumulate(source, self.summed_to(part, view[1], source))
        if base >= 0 and self.active[base]:
            self.accumulate(base, self.placed(self.in_layout(g, i), view, self.code.constant(0.0), kind))
        return 0

    cdef int32_t summed_to(self, int32_t g, shape, int32_t v) except -1:
        """Reduce the adjoint of a broadcast result to the shape of v."""
        cdef int32_t kind = self.code.kinds[v]
        _, wanted, _ = self.code.types[kind]
        g = self.real_part(g, v)
        if shape == wanted:
            return g
        if (kind <= FLAG or not wanted) and self.code.types[kind][0].kind != "c":
            if self.code.kinds[g] > FLAG:
                return emit(self.code, SUM, g, -1, -1, SCALAR)
            return self.elementwise(WG_MULTIPLY, g, self.code.constant(math.prod(shape)), SCALAR)
        if self.code.kinds[g] <= FLAG:
            factor = math.prod(shape) // max(1, math.prod(wanted))
            return self.elementwise(WG_MULTIPLY, g, self.code.constant(factor), SCALAR)
        return self.inline_function(("summed to", wanted), lambda g: [call_rules.summed_to(g, wanted)], g)

    # ------------------------------------------------------------------------------------------ rows

    cdef int pull_call(self, int32_t i, int32_t g) except -1:
        """Inline the pullback of a call."""
        cdef int32_t v
        call = self.code.calls[self.code.as_[i]]
        g = self.in_layout(g, i)
        if is_loop(call):
            return self.pull_loop(i, call, g)
        wanted = [j for j, v in enumerate(call.operands) if self.active[v]]
        if is_solution(call):
            known = self.reusable_values(call)
            found = self.inline(Rule(call.compute.adjoints(call, wanted, known)), [g, i, *call.operands, *known])
        else:
            with caught(NonSmoothError) as failure:
                found = self.run_pullback(call, wanted, g, i, False)
            if failure.error is not None:       # not smooth for a cotangent of ones; the actual one may be fine
                found = self.run_pullback(call, wanted, g, i, True)
        for j, part in zip(wanted, found):
            self.accumulate(call.operands[j], part)
        return 0

    cdef int pull_loop(self, int32_t i, call, int32_t g) except -1:
        """Append the reverse loop. The forward loop stacks its carried values, and each step is recomputed."""
        cdef int32_t r, v
        cdef Listing code = self.code
        loop = call.compute
        examples = loop.example([self.value(v) for v in call.operands]) if has_calls(loop.body) else None
        back = pulled_loop(loop, tuple([self.active[v] != 0 for v in call.operands]), examples)
        saving = loop.with_entries(back.entries)
        if saving is not loop:
            code.calls[code.as_[i]] = call_of(saving, call.operands)
            code.kinds[i] = code.type_of(type_of_result(saving))
            del self.values[i:]                     # the result at the example has become longer
        values = []
        for source, word, number in back.given:
            if source == "operand":
                values.append(call.operands[number])
            elif source == "value":
                values.append(code.part(i, saving.view(word, number), FLOAT))
            elif source == "adjoint":
                values.append(code.part(g, loop.view(word, number), FLOAT))
            else:
                values.append(code.filled(0.0, loop.type_of("last", number)[1] if word == "last" else
                                          code.types[code.kinds[<int32_t>call.operands[number]]][1]))
        r = code.add(CALL, type_of_result(back.loop), code.call(call_of(back.loop, values)))
        for number, (word, k) in back.adjoints:
            self.accumulate(call.operands[number], code.part(r, back.loop.view(word, k), FLOAT))
        return 0

    cdef list run_pullback(self, call, list wanted, int32_t g, int32_t i, bint by_value):
        """Inline the pullback; with `by_value`, trace it at the actual cotangent in place of ones."""
        return self.run_rule(
            call, tuple(wanted), lambda *operands: call_rules.pullback(call, wanted, *operands), [g, i, *call.operands],
            lambda: [self.value(g) if by_value else self.example_like(g), self.value(i),
                     *[self.value(v) for v in call.operands]])


@cython.final
cdef class Forward(Sweep):
    """Forward sweep: the tangents in one direction, as far as the results need them."""

    cdef bytearray needed

    def need(self, results):
        """Restrict the sweep to values that these results depend on; others may serve guards only."""
        self.needed = needed_for(self.code, results)

    cpdef int set_tangent(self, int32_t v, int32_t t) except -1:
        self.derivative[v] = t
        return 0

    cpdef int32_t tangent(self, int32_t v) except -2:
        return self.derivative[v] if v < self.size else -1

    def sweep(self):
        """Propagate tangents from operands to results, first instruction first."""
        cdef Py_ssize_t i
        cdef int32_t t
        for i in range(self.size):
            if self.active[i] and self.derivative[i] < 0 and self.needed[i]:
                t = self.push(<int32_t>i)
                self.derivative[i] = t if t < 0 else self.as_precise(t, <int32_t>i)

    cdef int32_t plus(self, int32_t s, int32_t t, int32_t kind) except -2:
        """Add two tangents, either of which may be zero (-1)."""
        if s < 0 or t < 0:
            return max(s, t)
        return self.elementwise(WG_ADD, s, t, kind)

    cdef int32_t push(self, int32_t i) except -2:
        """Return the tangent of result i; -1: zero."""
        cdef int op = self.code.ops[i]
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], c = self.code.cs[i], kind = self.code.kinds[i]
        cdef int32_t t = self.derivative[a] if names(op) & 1 and a >= 0 else -1, s
        if op < PARTIAL:
            t = self.contribution(i, op, 0, a)
            return t if op < WG_ADD else self.plus(t, self.contribution(i, op, 1, b), kind)
        if op < INPUT:
            if t < 0 or flat_slopes[op]:
                return -1
            return self.strong_product(self.strong_product(t, i, kind), self.own_slope_factor(i), kind)
        if op == STRONG:
            t = -1 if t < 0 else self.strong_product(t, b, kind)
            s = self.derivative[b]
            return self.plus(t, -1 if s < 0 else self.strong_product(s, a, kind), kind)
        if op == SELECT:
            s, t = self.derivative[b], self.derivative[c]
            if s < 0 and t < 0:
                return -1
            zero = self.code.constant(0.0)
            return self.select(a, s if s >= 0 else zero, t if t >= 0 else zero, kind)
        if op == PACK:
            return self.push_pack(i)
        if op == PLACE:
            s = self.derivative[c]
            if t < 0 and s < 0:
                return -1
            base = -1 if a < 0 else self.in_layout(t, a) if t >= 0 else self.zeros(kind)
            return emit(self.code, PLACE, base, b, s if s >= 0 else self.code.constant(0.0), kind)
        if op == PUT:
            s = self.derivative[c]
            if t < 0 and s < 0:
                return -1
            s = self.zeros(self.in_order(c)) if s < 0 else self.in_layout(s, c)
            return emit(self.code, PUT, self.in_layout(t, a) if t >= 0 else -1, b, s, kind)
        if op == CALL:
            return self.push_call(i)
        if op == INPUT or t < 0:
            return -1
        if op == LOAD:
            return emit(self.code, LOAD, self.in_layout(t, a), b, -1, SCALAR)
        if op == VIEW:
            return t if self.code.kinds[t] <= FLAG else emit(self.code, VIEW, self.in_layout(t, a), b, -1, kind)
        if op == SUM:
            return self.sum_over(t, self.code.kinds[a])
        if op == GATHER or op == SCATTER:
            return emit(self.code, op, self.in_layout(t, a), b, -1, kind)
        raise NotImplementedError(f"the derivative of instruction {op}")

    cdef int32_t contribution(self, int32_t i, int op, int side, int32_t v) except -2:
        """Return the contribution of one operand of an elementwise row to the tangent; -1: zero."""
        cdef int32_t t = self.derivative[v]
        if t < 0 or op == WG_ADD or op == WG_POSITIVE or (op == WG_SUBTRACT and side == 0):
            return t
        if op == WG_NEGATIVE or op == WG_SUBTRACT:
            return emit(self.code, WG_NEGATIVE, t, -1, -1, self.code.kinds[t])
        if op == WG_MULTIPLY:
            return self.strong_product(t, self.code.as_[i] if side else self.code.bs[i], self.code.kinds[i])
        return self.strong_product(t, self.partial(i, op, side), self.code.kinds[i])

    cdef int32_t push_pack(self, int32_t i) except -2:
        cdef int32_t base = self.code.as_[i], kind = self.code.kinds[i], v
        offsets, values = self.code.packs[self.code.bs[i]]
        found = [self.derivative[<int32_t>v] for v in values]
        t = -1 if base < 0 else self.derivative[base]
        if t >= 0:
            zero = self.code.constant(0.0)
            return self.packed(self.in_layout(t, base), offsets, [v if v >= 0 else zero for v in found], kind)
        kept = [j for j, v in enumerate(found) if v >= 0]
        return self.packed(-1, offsets[kept], [found[j] for j in kept], kind) if kept else -1

    cdef int32_t push_call(self, int32_t i) except -2:
        """Inline the pushforward of a call; -1: zero."""
        cdef int32_t v
        call = self.code.calls[self.code.as_[i]]
        moved = [j for j, v in enumerate(call.operands) if self.derivative[v] >= 0]
        if not moved:
            return -1
        if is_loop(call):
            return self.push_loop(call, moved)
        directions = [self.in_layout(self.derivative[<int32_t>call.operands[j]], call.operands[j]) for j in moved]
        count = len(moved)
        if is_solution(call):
            known = self.reusable_values(call)
            t, = self.inline(Rule(call.compute.tangent(call, moved, known)), [*directions, i, *call.operands, *known])
            return t
        t, = self.run_rule(
            call, tuple(moved), lambda *x: [call_rules.pushforward(call, moved, x[:count], x[count], x[count + 1:])],
            [*directions, i, *call.operands],
            lambda: [*[self.example_like(v) for v in directions], self.value(i),
                     *[self.value(v) for v in call.operands]])
        return t

    cdef int32_t push_loop(self, call, list moved) except -2:
        """Append a loop that carries tangents along with values; return the tangent of the result."""
        cdef int32_t v
        cdef Listing code = self.code
        loop = call.compute
        examples = loop.example([self.value(v) for v in call.operands]) if has_calls(loop.body) else None
        ahead = pushed_loop(loop, tuple([j in moved for j in range(len(call.operands))]), examples)
        values = []
        for is_tangent, j in ahead.given:
            v = call.operands[j]
            if is_tangent and j in moved:
                v = self.in_layout(self.derivative[v], v)
            elif is_tangent:
                v = code.filled(0.0, code.types[code.kinds[v]][1])
            values.append(v)
        return code.add(CALL, type_of_result(ahead.loop), code.call(call_of(ahead.loop, values)))


# ---------------------------------------------------------------------------------------------- loops

cdef object FLOAT = np.dtype(float)


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


cdef int read_by(int op, int side) except -1:
    """Return which values a partial reads, by its row of ``kernels.h`` or by its rule, which later derivatives use."""
    if reads[op][side] < 8:
        reads[op][side] |= 8 | template_of(op, side)[1]
    return reads[op][side]


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


def depends(Listing code, list inputs):
    """Return for each value whether it depends on one of these inputs."""
    cdef Sweep sweep = Sweep(code, [])
    cdef Py_ssize_t i
    sweep.mark(inputs)
    return [sweep.active[i] != 0 for i in range(sweep.size)]


def pulled_back(Listing code, list seeds, list wrt, example, bint exact=False):
    """Return the program of the adjoints of the values `wrt` (reverse mode).

    `seeds` are pairs of an output and the position of the input that holds its cotangent; None: the cotangent is 1.
    """
    cdef Reverse sweep = Reverse(code, example, exact)
    cdef Listing derived = sweep.code
    cdef int32_t v, g
    sweep.mark(wrt)
    for v, seed in seeds:
        g = derived.constant(1.0) if seed is None else sweep.insert_input(seed, derived.kinds[v])
        if v < sweep.size:
            sweep.accumulate(v, g)
    sweep.sweep()
    derived.outputs = []
    for v in wrt:
        g = sweep.adjoint(v)
        g = sweep.in_layout(g if g >= 0 else derived.constant(0.0), v)
        derived.outputs.append(sweep.as_output(g))
    return derived


def pushed_forward(Listing code, list seeds, list results, example):
    """Return the program of the tangents of `results` (forward mode).

    `seeds` are pairs of an input and the position of the input that holds its tangent.
    """
    cdef Forward sweep = Forward(code, example)
    cdef Listing derived = sweep.code
    cdef int32_t v, t
    sweep.mark([v for v, _ in seeds])
    sweep.need(results)
    for v, seed in seeds:
        sweep.set_tangent(v, sweep.insert_input(seed, derived.kinds[v]))
    sweep.sweep()
    derived.outputs = []
    for v in results:
        t = sweep.tangent(v)
        derived.outputs.append(sweep.in_layout(t if t >= 0 else derived.constant(0.0), v))
    return derived


def unrolled(Listing code, int32_t wrt, int32_t result, bint is_symmetric, Py_ssize_t most, bint by_rows, bint exact):
    """Return a straight-line program of a Jacobian of scalar code, with separate instructions for each entry.

    None if `elementary` fails, or if there would be more than `most` instructions.
    A symmetric Jacobian is computed on one side of the diagonal and mirrored.
    """
    cdef Listing derived
    cdef dict entries
    _, shape, strides = code.types[code.kinds[wrt]]
    _, lines, line_strides = code.types[code.kinds[result]]
    if strides is not None or line_strides is not None or not elementary(code, wrt, result):
        return None
    offsets, results = code.packs[code.bs[result]] if code.ops[result] == PACK else (np.zeros(1, np.int32), [result])
    pairs = list(zip(offsets.tolist(), [int(v) for v in results]))
    if by_rows:
        derived, entries = unrolled_rows(code, wrt, pairs, is_symmetric, most, exact)
    else:
        derived, entries = unrolled_columns(code, wrt, pairs, is_symmetric, most)
    if derived is None:
        return None
    n = math.prod(shape)
    if is_symmetric:
        entries.update({(j, i): v for (i, j), v in list(entries.items())})
    kind = derived.type_of((np.dtype(float), lines + shape, None))
    order = sorted(entries)
    if kind == SCALAR:
        derived.outputs = [entries[order[0]] if order else derived.constant(0.0)]
    else:
        derived.packs.append((np.array([i * n + j for i, j in order], dtype=np.int32),
                              np.array([entries[place] for place in order], dtype=np.int32)))
        derived.outputs = [emit(derived, PACK, -1, len(derived.packs) - 1, -1, kind)]
    return derived


cdef tuple unrolled_columns(Listing code, int32_t wrt, list pairs, bint is_symmetric, Py_ssize_t most):
    """Run one forward sweep for each element of x that is read; return the entries by (row, column)."""
    cdef Forward sweep = Forward(code, None)
    cdef Listing derived = sweep.code
    cdef Py_ssize_t i
    cdef int32_t v, one = derived.constant(1.0)
    cdef dict loads = {}, entries = {}
    if code.kinds[wrt] == SCALAR:
        loads[0] = [wrt]
    for i in range(code.n):
        if code.ops[i] == LOAD and code.as_[i] == wrt:
            loads.setdefault(code.bs[i], []).append(<int32_t>i)
    sweep.mark([wrt])
    sweep.need([v for _, v in pairs])
    for column, readings in loads.items():
        sweep.clear()
        for v in readings:
            sweep.derivative[v] = one
        sweep.sweep()
        for row, v in pairs:
            if sweep.derivative[v] >= 0 and (not is_symmetric or row <= column):
                entries[row, column] = sweep.derivative[v]
        if derived.n > most:
            return None, None
    return derived, entries


cdef tuple unrolled_rows(Listing code, int32_t wrt, list pairs, bint is_symmetric, Py_ssize_t most, bint exact):
    """Run one reverse sweep for each element of the result; return the entries by (row, column)."""
    cdef Reverse sweep = Reverse(code, None, exact)
    cdef Listing derived = sweep.code
    cdef int32_t v, one = derived.constant(1.0)
    cdef dict entries = {}
    sweep.mark([wrt])
    for row, v in pairs:
        sweep.clear()
        sweep.elements = {}
        sweep.accumulate(v, one)
        sweep.sweep()
        found = {0: sweep.derivative[wrt]} if code.kinds[wrt] == SCALAR else sweep.elements.get(wrt, {})
        for column, g in found.items():
            if g >= 0 and (not is_symmetric or column <= row):
                entries[row, column] = g
        if derived.n > most:
            return None, None
    return derived, entries


cpdef bint elementary(Listing code, int32_t wrt, int32_t result) except -1:
    """Return whether x is only read by element, and no array but the result depends on it."""
    cdef Py_ssize_t i
    cdef Sweep sweep = Sweep(code, None)
    sweep.mark([wrt])
    for i in range(code.n):
        if sweep.active[i] and code.kinds[i] > FLAG and i != wrt and i != result:
            return False
        if (code.ops[i] == CALL or code.ops[i] == SUM) and sweep.active[i]:
            return False
    if code.ops[result] == PACK:
        return code.as_[result] < 0 or not sweep.active[code.as_[result]]
    return code.kinds[result] == SCALAR


# ---------------------------------------------------------------------------------------------- partials of partials

cdef dict templates = {}        # traced partials of elementwise rows, by opcode and side


cdef tuple template_of(int op, int side):
    """Trace a partial, a function of a, b and y; return the program and a bit mask of what it reads."""
    cdef Listing code
    found = templates.get((op, side))
    if found is None:
        row = primitive(op)
        rule = row.partials[side]
        code = live(folded(listed(lambda a, b, y: [rule(y, a) if op < WG_ADD else rule(y, a, b)]
                                  if callable(rule) else [np.float64(rule)],
                                  [np.float64(0.75), np.float64(0.625), np.float64(0.5)], row.name)))
        mask = 0
        for i in range(code.n):
            for v in operands(code, i):
                if code.ops[<int32_t>v] == INPUT:
                    mask |= 1 << code.as_[<int32_t>v]
        for v in code.outputs:
            if code.ops[<int32_t>v] == INPUT:
                mask |= 1 << code.as_[<int32_t>v]
        found = templates[op, side] = code, mask
    return found


cdef frozenset own_slopes = frozenset([
    PARTIAL + 2 * <int>OPCODES[_name] for _name in ("tanh", "scipy.special.erf", "scipy.special.erfc")])
cdef bint flat_slopes[INPUT]            # partials whose derivative is zero
for _name, _opcode in OPCODES.items():
    flat_slopes[PARTIAL + 2 * <int>_opcode] = _name in ("maximum", "minimum", "fmax", "fmin")
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
            of[i] = instantiated(template_of((op - PARTIAL) // 2, (op - PARTIAL) % 2)[0], found, code.kinds[i],
                                 [of[v] if v >= 0 else -1 for v in (code.as_[i], code.bs[i], code.cs[i])])
        else:
            of[i] = copied(code, i, of, found)
        if code.kinds[i] > FLAG and found.kinds[of[i]] <= FLAG:         # a partial that is constant over the array
            of[i] = emit(found, PLACE, -1, found.entry(found.views, "view", whole_view(code.types[code.kinds[i]])),
                         of[i], code.kinds[i])
    found.inputs = [of[<int32_t>v] for v in code.inputs]
    found.outputs = [of[<int32_t>v] for v in code.outputs]
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
