"""Events of an integration as IR calls: one finds the times of the events, the other limits derivatives.

The times are roots of functions of time and state along the solution.  Their number is fixed when recorded: a program
fails if there are more or fewer.  The derivatives, of first and second order, are composed of other instructions; see
`wengert.scipy.recorded_integration`.
"""

from __future__ import annotations

import functools

import numpy as np

from wengert import registry
from wengert.errors import GuardError
from wengert.program.derivatives import NotDerivable, program_row
from wengert.program.integration.calls import Integration
from wengert.program.ir.call import Call, Operand, called, perturbed
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.verify import Verifier, check_fields, expect, is_a, is_count, is_shape
from wengert.program.program import Program

_FLOAT = np.dtype(float)
_TOLERANCE = 4 * float(np.finfo(float).eps)  # SciPy's tolerance of the roots

#: if an event function's rate times the step is below this, relative to its values, it only touches zero
GRAZING = 1e-8


class Events:
    """A call that finds the events of an integration; its arguments are those of the integration.

    The result consists of the times of all events, one function after the other, followed by the rates at which the
    functions change there along the solution.

    Parameters
    ----------
    integration : Integration
        Without tangents.
    functions : list of Program
        Event functions of ``x = [t, y, p]``, with results of shape (1,).
    limits, directions : list of float
        As in SciPy: number of events after which the integration ends, or infinity; required sign of the rate, or 0.
    counts : list of int
        Number of events of each function; None until the first call sets them.
    taken : int
        Number of output times up to the end of the integration.
    """

    def __init__(self, integration: Integration, functions: list, limits: list, directions: list):
        self.integration, self.functions, self.limits, self.directions = integration, functions, limits, directions
        self.counts: list | None = None
        self.taken = 0
        self.__name__ = self.__qualname__ = "events of solve_ivp"

    #: the call contains guards, and its result depends on tolerances
    checks = is_approximate = True

    def tiered(self, tier: str) -> Events:
        functions = [program.tiered(tier) for program in self.functions]
        made = Events(self.integration.tiered(tier), functions, self.limits, self.directions)
        made.counts, made.taken = self.counts, self.taken
        return made

    def __call__(self, times, *operands):
        start, parameters = self.integration.packed(operands)
        watch = _Watch(self, times[0], start[0], parameters[0])
        self.integration.run_by(self.integration.method, np.array(times[:2]), start, parameters, None, watch)
        watch.field.settle()
        counts = [len(found) for found in watch.times]
        taken = int(np.count_nonzero(np.sign(times[1] - times[0]) * (times[2:] - watch.end) <= 0))
        if self.counts is None:
            self.counts, self.taken = counts, taken
        elif (counts, taken) != (self.counts, self.taken):
            raise GuardError("there are other events than in the recording")
        y = np.concatenate([*watch.times, *watch.rates])
        return self.integration.perturbed(y) if perturbed.get() else y

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        fields = {"integration": Integration, "functions": list, "limits": list, "directions": list, "counts": list}
        check_fields(self, {**fields, "taken": is_a(int)})
        own = self.integration
        own.check_operands(call.args, types, verifier)
        expect(not own.system.directions, "has tangents")
        alike = {len(x) for x in (self.functions, self.limits, self.directions, self.counts)}
        expect(len(alike) == 1, "has another number of events")
        expect(all(type(x) in (int, float) for x in (*self.limits, *self.directions)), "has invalid events")
        expect(all(type(x) is int and x >= 0 for x in self.counts), "has invalid events")
        expect(0 <= self.taken <= own.count - 2, "has an invalid number of output times")
        for program in self.functions:
            expect(isinstance(program, Program), "has an event that is not a program")
            verifier.check(program)
            code = program._listing
            expect(len(code.inputs) == len(code.outputs) == 1, "has an event of another structure")
            expect(program._example[0].size == 1 + own.system.states + own.system.parameters, "has another event")
        expect(kind[:2] == (_FLOAT, (2 * sum(self.counts),)), "returns another type")


class _Watch:
    """Finds events while a stepper runs; see `Stepper.watched`."""

    def __init__(self, events, t, y, parameters):
        self.events, self.x = events, np.concatenate([[t], y, parameters])
        self.states, self.end = y.size, np.inf
        self.times: list = [[] for _ in events.functions]
        self.rates: list = [[] for _ in events.functions]
        self.field = events.integration.field(y[None], parameters[None])
        self.g = self.values(t, y)

    def point(self, t, y):
        """Return x at a time and state."""
        self.x[0], self.x[1 : 1 + self.states] = t, y
        return self.x

    def value(self, program, t, y):
        found = program._try_execute([self.point(t, y)])
        if type(found) is int:
            raise GuardError("an event function takes a branch that was not recorded")
        return float(found[0][0])

    def values(self, t, y):
        return [self.value(program, t, y) for program in self.events.functions]

    def __call__(self, stepper, t, new, y):
        """Find the events within a step; return whether one of them ends the integration."""
        before, self.g = self.g, self.values(new, y)
        self.end = new
        roots = []
        for k, (old, now, sign) in enumerate(zip(before, self.g, self.events.directions)):
            rises, falls = old <= 0 <= now, old >= 0 >= now
            if (rises and sign >= 0) or (falls and sign <= 0):
                roots.append((self.root(stepper, k, t, new), k, max(abs(old), abs(now))))
        roots.sort(reverse=new < t)
        for time, k, size in roots:
            self.times[k].append(time)
            self.rates[k].append(self.rate(stepper.at(time), k, time, (new - t), size))
            if len(self.times[k]) >= self.events.limits[k]:
                self.end = time
                return True
        return False

    def root(self, stepper, k, t, new):
        from scipy.optimize import brentq

        program = self.events.functions[k]
        return brentq(lambda x: self.value(program, x, stepper.at(x)), t, new, xtol=_TOLERANCE, rtol=_TOLERANCE)

    def rate(self, y, k, time, h, size):
        """Return the rate of an event function along the solution."""
        slopes = self.events.functions[k]._memoised("gradient", lambda: self.events.functions[k].vjp())
        gradient = slopes(self.point(time, y), np.ones(1))[1]
        rate = float(gradient[0] + gradient[1 : 1 + self.states] @ self.field.slope(time, y))
        if not abs(rate * h) > GRAZING * size:
            raise GuardError(f"the event at t = {time:.6g} only touches zero")
        return rate


class Limited:
    """A call that returns its argument x, of this shape, and has derivatives only up to the order `highest`.

    Its derivative of order k is a call with k directions before x that returns the direction if k = 1, else zeros.
    Thus a derivative of higher order cannot pass through it without an error.
    """

    def __init__(self, shape: tuple, highest: int, order: int = 0):
        self.shape, self.highest, self.order = shape, highest, order
        self.__name__ = self.__qualname__ = f"order {highest}"

    def __call__(self, *given):
        return np.array(given[0]) if self.order < 2 else np.zeros(self.shape)

    def _begin(self, call, count):
        """Return IR whose inputs are directions, result and operands; its directions; and the call's arguments."""
        made = Listing()
        total = count + 1 + sum(type(x) is Operand for x in call.args)
        inputs = [made.input((_FLOAT, self.shape, None)) for _ in range(total)]
        operands = inputs[count + 1 :]
        return made, inputs[:count], [operands[x.position] if type(x) is Operand else x for x in call.args]

    def _along(self, made, place, direction, arguments):
        """Append the derivative in the argument at position `place` along a direction; return None if it is zero."""
        *directions, x = arguments
        order = self.order
        if place == order:
            directions, order = [*directions, direction], order + 1
        elif order == 1:
            directions = [direction]
        else:
            return None
        if order > self.highest:
            raise NotDerivable(f"derivatives of solve_ivp in times above order {self.highest} are not in programs")
        return called(made, Limited(self.shape, self.highest, order), [*directions, x], self.shape, limited_row)

    def _sum(self, made, terms):
        terms = [v for v in terms if v is not None]
        if not terms:
            return made.filled(0.0, self.shape)
        return functools.reduce(lambda a, b: made.add(OPCODES["add"], (_FLOAT, self.shape, None), a, b), terms)

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        made, directions, arguments = self._begin(call, len(moved))
        along = dict(zip(moved, directions))
        terms = [
            self._along(made, k, along[x.position], arguments)
            for k, x in enumerate(call.args)
            if type(x) is Operand and x.position in along
        ]
        made.outputs = [self._sum(made, terms)]
        return made

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        """Return the IR of the adjoints, which are symmetric; see `wengert.program.ir.call.is_solution`."""
        made, (g,), arguments = self._begin(call, 1)
        made.outputs = [
            self._sum(made, [self._along(made, k, g, arguments) for k, x in enumerate(call.args) if x == Operand(j)])
            for j in wanted
        ]
        return made

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        check_fields(self, {"shape": is_shape, "highest": is_count, "order": is_count})
        expect(self.order <= self.highest, "has an order above the highest that it supports")
        expect(len(call.args) == 1 + self.order and kind[:2] == (_FLOAT, self.shape), "has other operands")
        for x in call.args:
            own = types[x.position][:2] if type(x) is Operand else (np.asarray(x).dtype, np.shape(x))
            expect(own == (_FLOAT, self.shape), "has an operand of another type")


#: the times count as constants here; their derivatives are composed elsewhere
events_row = registry.Primitive("events", "constant", curvature="none", home=f"{__name__}.events_row")
limited_row = program_row("limited", f"{__name__}.limited_row")
