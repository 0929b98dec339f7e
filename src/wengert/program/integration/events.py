"""Events of an integration as IR instructions: a call that finds their times, and one that refuses second derivatives.

The times are roots of functions of time and state along the solution.  Their number is part of a recording: a program
fails where there are more or fewer.  The derivatives are composed of other instructions, see
`wengert.scipy.recorded_integration`; these are of first order.
"""

from __future__ import annotations

import numpy as np

from wengert import registry
from wengert.errors import GuardError
from wengert.program.derivatives import NotDerivable, program_row
from wengert.program.integration.calls import Integration
from wengert.program.ir.call import Call, Operand, perturbed
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect, is_a, is_shape
from wengert.program.program import Program

_FLOAT = np.dtype(float)
_TOLERANCE = 4 * float(np.finfo(float).eps)  # SciPy's, of the roots

#: change of an event function in a step by its rate at the event, relative to its values, below which it only touches 0
GRAZING = 1e-8


class Events:
    """Call that finds the events of an integration; its arguments are those of the integration.

    The result consists of the times of all events, one function after the other, followed by the rates at which the
    functions change there along the solution.

    Parameters
    ----------
    integration : Integration
        Without tangents.
    functions : list of Program
        Event functions of ``x = [t, y, p]``, with results of shape (1,).
    limits, directions : list of float
        SciPy's: the number of events after which the integration ends, or infinity; the sign of the rate, or 0.
    counts : list of int
        Numbers of events of each function. None in the first call, which sets them.
    taken : int
        Number of output times up to the end of the integration.
    """

    def __init__(self, integration: Integration, functions: list, limits: list, directions: list):
        self.integration, self.functions, self.limits, self.directions = integration, functions, limits, directions
        self.counts: list | None = None
        self.taken = 0
        self.__name__ = self.__qualname__ = "events of solve_ivp"

    #: it contains guards, and its result depends on tolerances
    checks = is_approximate = True

    def tiered(self, tier: str) -> Events:
        """Return the call for a tier of the VM."""
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
        """Raise `MalformedProgram` unless the call has valid operands and the type of the result; see `ir.verify`."""
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
            expect(isinstance(program, Program), "has an event that is no program")
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
        """Take a step into account; return whether an event ends the integration."""
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


class Once:
    """Call that returns its argument, of this shape, and has first derivatives only.

    Its derivative returns a direction, and has x as a second argument, so that no derivative in x passes it.
    """

    def __init__(self, shape: tuple, is_direction: bool = False):
        self.shape, self.is_direction = shape, is_direction
        self.__name__ = self.__qualname__ = "first order"

    def __call__(self, x, *at):
        return np.array(x)

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        """Return the IR of the tangent; see `wengert.program.ir.call.is_solution`."""
        if self.is_direction:
            raise NotDerivable("second derivatives of events of solve_ivp are not in programs")
        made = Listing()
        made.inputs = [made.add(Op.INPUT, (_FLOAT, self.shape, None), k) for k in range(3)]
        operands = [int(made.inputs[0]), int(made.inputs[2])]
        linear = Call(Once(self.shape, True), (Operand(0), Operand(1)), {}, operands, once_row)
        made.outputs = [int(made.add(Op.CALL, (_FLOAT, self.shape, None), made.call(linear)))]
        return made

    adjoints = tangent  # the map is symmetric

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the call has a valid operand and its type; see `ir.verify`."""
        check_fields(self, {"shape": is_shape, "is_direction": bool})
        expect(len(call.args) == 1 + self.is_direction and kind[:2] == (_FLOAT, self.shape), "has other operands")
        for x in call.args:
            own = types[x.position][:2] if type(x) is Operand else (np.asarray(x).dtype, np.shape(x))
            expect(own == (_FLOAT, self.shape), "has an operand of another type")


#: the times are found as constants; their derivatives are composed elsewhere
events_row = registry.Primitive("events", "constant", curvature="none", home=f"{__name__}.events_row")
once_row = program_row("once", f"{__name__}.once_row")
