"""Solutions of initial value problems as IR instructions: a call that integrates, and calls for its derivatives.

An integration is ``y(times)`` for ``dy/dt = f(t, y, p)``.  Derivatives of any order are integrations too, whose steps
are controlled by the tangents as well:

- The tangent is the integration of the system together with its tangent (forward sensitivities).
- The adjoint F^T g is a call that integrates and then sweeps the steps backwards. The state and one tangent in a random
  direction control the steps, since the adjoint grows as such a tangent does. For few operands, the adjoint is computed
  as a product with their tangents instead.
- The tangent of the adjoint is the adjoint of the tangent: with the cotangents (g_dot, g) of the system and its
  tangent, the adjoint of y is F^T g_dot + (dF^T) g.
- The adjoint of the adjoint consists of the tangent and of the tangent of the adjoint.
- The derivative in an output time is the slope there.  The derivative in the start time is that in the initial state
  along minus the slope.  Both are of first order only; for few times, the caller composes them from integrations at
  fixed times (`wengert.scipy.recorded_integration`).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from wengert.errors import GuardError
from wengert.program.derivatives import NotDerivable
from wengert.program.integration import field, jumps, methods, sweeps
from wengert.program.integration.builder import Builder, adjoint_row, moved_row
from wengert.program.integration.continuity import has_fixed_jumps
from wengert.program.integration.report import FORWARD_MODE, Report, Taken
from wengert.program.integration.system import MissingBranch, System, WiderPattern
from wengert.program.ir.call import Call, Operand, called, perturbed
from wengert.program.ir.ir import Listing
from wengert.program.ir.verify import Verifier, check_fields, expect, is_a, is_count
from wengert.program.memo import memoised
from wengert.transforms.explain import remark

_FLOAT = np.dtype(float)

#: perturbation of results, relative to the tolerances; see `wengert.program.ir.call.perturbed`
PERTURBATION = 10.0

#: maximum numbers of operands for which products with tangents were measured to be faster than adjoints
MAX_FORWARD, MAX_FORWARD_IMPLICIT = 4, 1

#: maximum bytes of steps that are kept after an adjoint, for later adjoints at the same operands
MAX_KEPT = 16_000_000

#: further options of `odeint`
SOLVER_OPTIONS = {"h0", "hmax", "hmin", "ixpr", "mxstep", "mxhnil", "mxordn", "mxords"}

#: how adjoints are computed; see `wengert.scipy.integrate.solve_ivp`
_SWEEPS = {"forward": sweeps.Tangents, "discrete": sweeps.Steps, "adjoint": sweeps.Continuous}
SENSITIVITIES = ("auto", *_SWEEPS)


def _is_number(x):
    return type(x) in (bool, int, float)


class KinkError(GuardError):
    """A second derivative does not exist, or would lack a term."""


class Integration:
    """A call that integrates; its arguments are the times, then the initial states and the parameters of all copies.

    ``times`` are start, end, and output times. Initial states are arrays of shape (states,); parameters are scalars
    and arrays of the given shapes. None stands for zeros. The result has the shape (copies, len(times) - 2, states).

    Parameters
    ----------
    system : System
    shapes : list of tuple
        Shapes of the parameters of a copy.
    method : str
        Name of SciPy's class.
    options : dict
        See `wengert.program.integration.stepper.Stepper`.
    memory : float
        Limit on the bytes of steps stored for a reverse sweep.
    count : int
        Number of times.
    """

    def __init__(self, system: System, shapes: list, method: str, options: dict, memory: float, count: int):
        self.system, self.shapes, self.method = system, shapes, method
        self.options, self.memory, self.count = options, float(memory), count
        self.__name__ = self.__qualname__ = "solve_ivp"
        self._kept: list = []  # operands and steps of the last adjoint
        self._first: Any = ()  # operands and result of the first call; None after a call with other operands
        self._derived: dict[Any, Any] = {}

    def __getstate__(self):
        return {**self.__dict__, "_kept": [], "_first": (), "_derived": {}}

    # -- evaluation

    #: the result depends on tolerances
    is_approximate = True

    def __call__(self, times, *operands):
        start, parameters = self.packed(operands)
        if self._first is None:
            y = self.run(times, start, parameters, None)[1]
        else:
            y = self.first(np.ascontiguousarray(times), start, parameters)
        return self.perturbed(y) if perturbed.get() else y

    def first(self, times, start, parameters):
        """Return the result, cached while all calls have equal operands, as in a check of f against its program."""
        known, first = (times.tobytes(), start.tobytes(), parameters.tobytes()), self._first
        if first and first[:3] == known:
            return first[3].copy()
        y = self.run(times, start, parameters, None)[1]
        self._first = None if first != () or y.nbytes > MAX_KEPT else (*known, y.copy())
        return y

    def perturbed(self, y):
        """Return a result, changed at random by multiples of the tolerances."""
        largest = np.max(np.abs(y), initial=0.0)
        size = np.max(self.options["rtol"]) * largest + np.max(self.options["atol"])
        return y + PERTURBATION * size * np.random.default_rng(0).uniform(-1, 1, y.shape)

    def explore(self, times, *operands):
        """Integrate with a tangent in a random direction, which may take branches that the solution does not take.

        Raises
        ------
        MissingBranch
            If one of them has not been recorded.
        """
        start, parameters = (field.with_random_direction(x) for x in self.packed(operands))
        try:
            self.controlled().run(times, start, parameters, None)
        except MissingBranch:
            raise
        except (GuardError, NotDerivable):
            pass  # a derivative will raise it

    def packed(self, operands):
        """Return initial states and parameters as arrays with a row per copy."""
        system = self.system
        q, count = system.copies, len(self.shapes)
        if q == count == 1 and operands[0] is not None is not operands[1]:
            return np.array([operands[0]], dtype=float), np.array(operands[1], dtype=float).reshape(1, -1)
        start, parameters = np.zeros((q, system.states)), np.zeros((q, system.parameters))
        for k, y in enumerate(operands[:q]):
            if y is not None:
                start[k] = y
        places = self.places
        for k, p in enumerate(operands[q:]):
            if p is not None:
                place = places[k % count]
                parameters[k // count, place : place + np.size(p)] = np.ravel(p)
        return start, parameters

    @functools.cached_property
    def places(self):
        """Position of each parameter in a row."""
        return np.cumsum([0, *map(math.prod, self.shapes)]).tolist()

    def run(self, times, start, parameters, memory):
        """Integrate; return the stepper and the result. Steps are stored, in `memory` bytes, unless that is None."""
        if self.method != methods.SWITCHING:
            return self.run_by(self.method, times, start, parameters, memory)
        if not self._derived.get("is_stiff"):
            try:
                return self.run_by(self.method, times, start, parameters, memory)
            except MissingBranch:
                raise
            except GuardError:  # stiffness, or an explicit method that leaves the domain because of it
                self._derived["is_stiff"] = True
        return self.run_by(methods.of_tangents("Radau", self.system.states), times, start, parameters, memory)

    def run_by(self, method, times, start, parameters, memory, monitor=None):
        """Integrate by a method; see `run`. The monitor is called with each step; see `Stepper.watched`."""
        try:
            return self._run_by(method, times, start, parameters, memory, monitor)
        except WiderPattern:
            return self.run_by(method, times, start, parameters, memory, monitor)

    def _run_by(self, method, times, start, parameters, memory, monitor):
        system, primal = self.system, self.system.primal
        y = np.empty((system.copies, len(times) - 2, system.states))
        times, keeps = np.ascontiguousarray(times), memory is not None
        fields = [self.field(start, parameters)]
        options, may_bend = self.options_of(method), self.may_bend(keeps)
        options = options | {"may_jump": True} if may_bend else options
        stepper, is_implicit = methods.stepper(method, options, memory or 0.0)
        if is_implicit:
            fields.append(fields[0] if system.copies == 1 else field.bound(field.Field, primal, parameters[:1]))
            fields.append(field.bound(field.Jacobian, primal, parameters[:1]))
        if monitor is not None:
            stepper.monitor = monitor
        stepper.run(*fields, times, start, y, keeps)
        if monitor is not None:
            stepper.monitor = None
        if self.options["may_jump"] and system.copies > 1:
            self.check_jumps(stepper.doubtful, times[0], start, parameters)
        if may_bend:
            self.check_bends(stepper.doubtful, times[0], start, parameters)
        for each in {id(each): each for each in fields}.values():
            each.settle(keeps)
        self._derived["taken"] = Taken(method, stepper.steps, *((stepper.nbytes, stepper.stride) if keeps else ()))
        return stepper, y

    @memoised
    def options_of(self, method):
        """Return the options of a method, with its tolerances reduced where `methods.TOLERANCES` says so."""
        return methods.tightened(method, self.options)

    def check_jumps(self, steps, first, start, parameters):
        """Raise if the right-hand side jumps within a step, at a time that depends on differentiated values."""
        primal, p = self.system.primal, parameters[:1]
        own = field.bound(field.Field, primal, p)
        steep = [step for step in steps if own.is_steep(*step)]
        if not steep or not (start[1:].any() or parameters[1:].any()):
            own.settle()
            return
        changed = field.bound(field.Field, primal, np.where(parameters[1:].any(0), jumps.change(p), p))
        time = jumps.moving_jump(own.slope, changed.slope, steep, None if start[1:].any() else first)
        own.settle()
        changed.settle()
        if time is not None:
            raise GuardError(
                f"the right-hand side jumps at t = {time:.6g}, and the time of the jump depends on variables, which "
                "gives the derivative a further term: end the integration there by a terminal event, and continue "
                "from its state"
            )

    def may_bend(self, is_swept):
        """Return whether this computes second derivatives and the right-hand side's first derivatives may jump."""
        order = len(self.system.directions) + (is_swept and not self.options["is_rough"])
        return order > 1 and self.system.copies > 1 and not has_fixed_jumps(self.system.primal.pushed())

    def check_bends(self, steps, first, start, parameters):
        """Raise if a tangent of the right-hand side jumps in a step, at a time that depends on parameters or states."""
        primal, n = self.system.primal, self.system.states
        p = field.with_random_direction(parameters[:1])
        direction = field.with_random_direction(np.ones((1, n)))[1]
        moved = np.concatenate([jumps.change(p[:1]), p[1:]])
        bound = [field.bound(field.Field, primal.pushed(), np.ascontiguousarray(x)) for x in (p, moved)]

        def tangents(own):
            return lambda t, y: own.slope(t, np.concatenate([y, direction]))[n:]

        time = jumps.moving_jump(*map(tangents, bound), steps, None if start[1:].any() else first)
        for own in bound:
            own.settle()
        if time is not None:
            raise KinkError(
                f"the right-hand side has a kink at t = {time:.6g}, and the time of the kink depends on variables, "
                "which gives second derivatives a further term: end the integration there by a terminal event, and "
                "continue from its state"
            )

    def field(self, start, parameters):
        """Return the right-hand side, bound to these parameters."""
        system = self.system
        scales = field.scales_of(start, parameters, system.tangents[0]) if system.directions else None
        return field.bound(field.Field, system, parameters, scales)

    def adjoint_of(self, g, times, operands, active):
        """Return the adjoints of initial states and parameters; only those of `active` operands are computed."""
        start, parameters = self.packed(operands)
        known = (times.tobytes(), start.tobytes(), parameters.tobytes(), active)
        kept = self._kept.pop() if self._kept else None  # taken out, so that no other thread uses it
        if kept is None or kept[:4] != known:
            places = self.active_places(active)
            made = _SWEEPS[self.sensitivity(places.size)[0]](self, times, start, parameters, places)
            self._derived["swept", active] = made.taken
            kept = (*known, made)
        if kept[4].nbytes <= MAX_KEPT:
            self._kept[:] = [kept]
        remark(self.integration_report, active)
        return kept[4].adjoint(np.ascontiguousarray(g))

    @memoised
    def active_places(self, active):
        """Return the positions of active operands among all initial states and parameters."""
        sizes = [self.system.states, *map(math.prod, self.shapes)]
        return np.flatnonzero(np.repeat(active, sizes)) if self.system.copies == 1 else np.arange(self.size)

    def sensitivity(self, count: int) -> tuple[str, str]:
        """Return how adjoints of `count` scalars are computed (an item of `SENSITIVITIES`, not "auto"), and why."""
        asked, is_implicit = self.options["sensitivity"], self.method in methods.IMPLICIT
        if self.system.copies > 1:
            return "discrete", "a derivative of higher order"
        if asked != "auto":
            return asked, f"sensitivity={asked!r}"
        most = MAX_FORWARD_IMPLICIT if is_implicit else MAX_FORWARD
        kind = f"an {'implicit' if is_implicit else 'explicit'} method"
        if count <= most:
            return "forward", f"faster up to {most} by {kind}"
        return "discrete", f"faster for more than {most} by {kind}"

    def is_forward(self, count):
        """Return whether adjoints of `count` scalars are computed as products with their tangents."""
        return self.sensitivity(count)[0] == "forward"

    def integration_report(self, active: tuple | None = None) -> Report:
        """Return a report on the adjoint of `active` operands, or on the integration itself if that is None."""
        primal, count = self.system.primal, self.system.copies - 1
        kind, reason, key = ("forward", FORWARD_MODE, "taken") if count else ("none", "", "taken")
        if active is not None:
            count, key = self.active_places(active).size, ("swept", active)
            kind, reason = self.sensitivity(count)
        tiers = [self, *[x for known, x in self._derived.items() if known[0] == "tier"]]
        taken = next((x._derived[key] for x in tiers if x._derived.get(key)), None)
        return Report(self.__name__, kind, reason, primal.states, primal.parameters, count, taken)

    def slopes(self, times, states, parameters):
        """Return the slopes at these times; slopes and states have the shape (copies, len(times), states)."""
        slopes = field.bound(field.Field, self.system, parameters)
        found = slopes.at(np.array(times), np.ascontiguousarray(states))
        slopes.settle()
        return found

    @property
    def taken(self) -> Taken:
        """Report of the last integration: its steps and how they were stored."""
        return self._derived["taken"]

    # -- related calls

    def tiered(self, tier: str) -> Integration:
        """Return the call for a tier of the VM: its programs run on that tier too."""
        program = self.system.program
        if tier == program._tier:
            return self
        key = "tier", tier
        if key not in self._derived:
            options = self.method, self.options, self.memory, self.count
            self._derived[key] = Integration(self.system.tiered(tier), self.shapes, *options)
        return self._derived[key]

    def adjoint(self, active: tuple | None = None) -> Adjoint:
        """Return the call of the adjoint; see `Adjoint`."""
        active = (True,) * (1 + len(self.shapes)) if active is None else active
        return self._derived.setdefault(("adjoint", active), Adjoint(self, active))

    @memoised
    def pushed(self, count: int = 1) -> Integration:
        """Return the integration of the system with its tangents in `count` directions.

        Its method may be another one; see `methods.of_tangents`.
        """
        method = methods.of_tangents(self.method, self.system.states)
        return Integration(self.system.pushed(count), self.shapes, method, self.options, self.memory, self.count)

    def moved(self, what: str) -> Moved:
        """Return the call for derivatives in the times; see `Moved`."""
        return Moved(self, what)

    @memoised
    def controlled(self) -> Integration:
        """Return the integration of the system with one tangent that serves only for step-size control."""
        made = self.pushed()
        options = made.options | {"is_rough": True}
        return Integration(made.system, made.shapes, made.method, options, made.memory, made.count)

    @property
    def shape(self) -> tuple:
        """Shape of the result."""
        return self.system.copies, self.count - 2, self.system.states

    @property
    def size(self) -> int:
        """Number of initial states and parameters of all copies."""
        return self.system.copies * (self.system.states + self.system.parameters)

    # -- derivatives

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        made = Builder(self, call, 0)
        directions = [made.input_like(j) for j in moved]
        y = made.input(self.shape)
        made.take_operands()
        made.code.outputs = [made.tangent(dict(zip(moved, directions)), y)]
        return made.code

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        made = Builder(self, call, 0)
        g, y = made.input(self.shape), made.input(self.shape)
        made.take_operands()
        adjoint = self.adjoint(made.active(wanted))
        found = called(made.code, adjoint, [g, *made.arguments], (self.size,), adjoint_row)
        outputs = made.parts_of(found, wanted)
        if call.args[0] in map(Operand, wanted):
            given = [found, g, y, *made.arguments]
            times = called(made.code, self.moved("adjoint"), given, (self.count,), moved_row)
            outputs[wanted.index(call.args[0].position)] = times
        made.code.outputs = outputs
        return made.code

    def batched(self, call: Call, is_batched: list, count: int) -> Listing | None:
        """Return the IR of the results for `count` tangents, by one integration; see `passes.batching`."""
        m = len(self.shapes)
        of_tangent = {2, *range(3 + m, 3 + 2 * m)}  # positions of the tangent's arguments
        batched = {k for k, x in enumerate(call.args) if type(x) is Operand and is_batched[x.position]}
        if self.system.directions != (1,) or not batched <= of_tangent:
            return None
        made = Builder(self, call, 0)
        made.take_operands(is_batched, count)
        rows = {k: made.rows(k, count, k in batched) for k in of_tangent}
        arguments = [*made.arguments[:2], *rows[2], *made.arguments[3 : 3 + m]]
        arguments += [rows[3 + m + k][j] for j in range(count) for k in range(m)]
        own = Integration(self.system.primal, self.shapes, self.method, self.options, self.memory, self.count)
        made.code.outputs = [made.batch(own.pushed(count), arguments, count)]
        return made.code

    # -- verification

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        self.check_operands(call.args, types, verifier)
        expect(kind[:2] == (_FLOAT, self.shape), "returns a solution of another type")

    def check_operands(self, args: tuple, types: list, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the arguments are times, states and parameters."""
        fields = {
            "system": System,
            "shapes": list,
            "method": methods.NAMES.__contains__,
            "options": dict,
            "memory": float,
        }
        check_fields(self, fields | {"count": is_count, "_kept": list, "_first": lambda x: not x, "_derived": dict})
        self.system.check_parts(verifier)
        q, states = self.system.copies, self.system.states
        expect(sum(map(math.prod, self.shapes)) == self.system.parameters, "has other parameters than its system")
        options = self.options
        for key in ("rtol", "atol"):
            x = options.get(key)
            expect(type(x) is np.ndarray and x.dtype == _FLOAT and x.shape == (states,), f"has an invalid {key}")
            expect(x.flags.c_contiguous and (x >= 0).all(), f"has an invalid {key}")
        is_number = is_a(float, type(None))
        known = options.get("solver", {})
        expect(type(known) is dict and known.keys() <= SOLVER_OPTIONS and all(map(_is_number, known.values())),
               "has invalid options of the solver")
        expect(options.get("sensitivity") in SENSITIVITIES, "has an unknown way of computing derivatives")
        for key in ("stops_early", "is_rough", "may_jump"):
            expect(type(options.get(key)) is bool, f"has an invalid {key}")
        expect(type(options.get("is_complex")) is bool and not (options["is_complex"] and states % 2), "has odd states")
        expect(is_number(options.get("first_step")) and is_a(float)(options.get("max_step")), "has invalid step sizes")
        expected = [(self.count,), *q * [(states,)], *q * self.shapes]
        expect(len(args) == len(expected) and self.count >= 2, "has other arguments than its system")
        for x, shape in zip(args, expected):
            if x is not None:
                dtype, own = types[x.position][:2] if type(x) is Operand else (np.asarray(x).dtype, np.shape(x))
                expect((dtype, own) == (_FLOAT, shape), "has an argument of another type")
        expect(args[0] is not None, "has no times")


class Adjoint:
    """A call that returns F^T g, of shape (copies * (states + parameters),); its arguments are g and F's arguments.

    `active` flags which adjoints are used: that of the initial states, then that of each parameter.
    """

    def __init__(self, integration: Integration, active: tuple):
        self.integration, self.active = integration, active
        is_forward = integration.is_forward(integration.active_places(active).size)
        self.__name__ = self.__qualname__ = f"{'tangents' if is_forward else 'adjoint'} of solve_ivp"

    def tiered(self, tier: str) -> Adjoint:
        return self.integration.tiered(tier).adjoint(self.active)

    is_approximate = True

    def integration_report(self) -> Report:
        """Report how the adjoint is computed."""
        return self.integration.integration_report(self.active)

    def __call__(self, g, times, *operands):
        y = self.integration.adjoint_of(g, times, operands, self.active)
        return self.integration.perturbed(y) if perturbed.get() else y

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        made = Builder(self.integration, call, 1)
        made.refuse_times(moved)
        directions = dict(zip(moved, [made.input_like(j) for j in moved]))
        made.input((self.integration.size,))
        made.take_operands()
        g_dot = made.direction_of(0, directions)
        if g_dot is None:
            g_dot = made.code.filled(0.0, made.result)
        made.code.outputs = [made.mixed(g_dot, directions)]
        return made.code

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        made = Builder(self.integration, call, 1)
        made.refuse_times(wanted)
        w = made.input((self.integration.size,))
        made.input((self.integration.size,))
        made.take_operands()
        inner = [j for j, k in made.positions.items() if k > 1]
        directions = dict(zip(inner, made.parts_of(w, inner)))
        found = made.mixed(made.code.filled(0.0, made.result), directions)
        parts = dict(zip(wanted, made.parts_of(found, wanted)))
        for j in wanted:
            if call.args[0] == Operand(j):
                parts[j] = made.tangent(directions)
        made.code.outputs = [parts[j] for j in wanted]
        return made.code

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        check_fields(self, {"integration": Integration, "active": tuple})
        expect(len(self.active) == 1 + len(self.integration.shapes), "has other operands than its integration")
        expect(all(type(x) is bool for x in self.active), "has other operands than its integration")
        own, g = self.integration, call.args[0]
        own.check_operands(call.args[1:], types, verifier)
        shape = types[g.position][1] if type(g) is Operand else np.shape(g)
        expect(shape == own.shape, "has a cotangent of another shape")
        expect(kind[:2] == (_FLOAT, (own.size,)), "returns adjoints of another type")


class Moved:
    """A call for the derivatives in the times.

    Parameters
    ----------
    integration : Integration
    what : {"outputs", "start", "adjoint"}
        "outputs": tangent of the result, from the tangent of the times and the result. "start": tangent of the initial
        states, from the tangent of the times. "adjoint": adjoint of the times, from the adjoints of states and
        parameters, the adjoint of the result, and the result. These arguments precede those of the integration.
    """

    def __init__(self, integration: Integration, what: str):
        self.integration, self.what = integration, what
        self.__name__ = self.__qualname__ = f"times of solve_ivp ({what})"

    def tiered(self, tier: str) -> Moved:
        return Moved(self.integration.tiered(tier), self.what)

    def __call__(self, *arguments):
        count = _MOVED[self.what]
        given, (times, *operands) = arguments[:count], arguments[count:]
        own = self.integration
        start, parameters = own.packed(operands)
        if self.what == "outputs":
            return given[0][2:, None] * own.slopes(times[2:], given[1], parameters)
        first = own.slopes(times[:1], start[:, None], parameters)[:, 0]
        if self.what == "start":
            return -given[0][0] * first
        found = np.zeros(own.count)
        found[0] = -np.vdot(first, given[0][: start.size])
        found[2:] = np.einsum("qti,qti->t", given[1], own.slopes(times[2:], given[2], parameters))
        return found

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        check_fields(self, {"integration": Integration, "what": _MOVED.__contains__})
        own, count = self.integration, _MOVED[self.what]
        own.check_operands(call.args[count:], types, verifier)
        q, _, n = own.shape
        shapes = {
            "outputs": [(own.count,), own.shape],
            "start": [(own.count,)],
            "adjoint": [(own.size,), *2 * [own.shape]],
        }
        own_shape = {"outputs": own.shape, "start": (q, n), "adjoint": (own.count,)}[self.what]
        found = [types[x.position][:2] if type(x) is Operand else None for x in call.args[:count]]
        expect(found == [(_FLOAT, shape) for shape in shapes[self.what]], "has operands of another type")
        expect(kind[:2] == (_FLOAT, own_shape), "returns another type")


#: number of arguments of `Moved` before those of the integration
_MOVED = {"outputs": 2, "start": 1, "adjoint": 3}
