"""Adjoints of integrations: products with tangents, reverse sweeps over stored steps, and adjoint equations.

The method ``adjoint(g)`` of each class returns the adjoints of initial states and parameters, from that of the result.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.integrate

from wengert.errors import GuardError
from wengert.program.integration import field
from wengert.program.integration.methods import EXPLICIT, IMPLICIT
from wengert.program.integration.report import Taken

#: tolerance of adjoint equations and of the solution in them, relative to the given one, and its lower limit
CONTINUOUS_TOLERANCE, MIN_TOLERANCE = 0.03, 1e-13

#: arrays of states per step in a continuous solution of SciPy, by method; LSODA's number varies
ARRAYS_PER_STEP = {"RK23": 4, "RK45": 5, "DOP853": 8, "Radau": 4, "BDF": 7, "LSODA": 7}


class Tangents:
    """Adjoints from tangents of an integration in some of its initial states and parameters."""

    def __init__(self, integration, times, start, parameters, places):
        count, n = places.size, integration.system.states
        states, others = np.zeros((1 + count, n)), np.zeros((1 + count, parameters.shape[1]))
        states[0], others[0] = start[0], parameters[0]
        for row, place in enumerate(places.tolist(), 1):
            if place < n:
                states[row, place] = 1.0
            else:
                others[row, place - n] = 1.0
        y, self.taken = np.zeros((1, 1)), None
        if count:
            pushed = integration.pushed(count)
            y, self.taken = pushed.run(times, states, others, None)[1], pushed.taken
        self.tangents, self.nbytes = y[1:].reshape(count, y[0].size), y.nbytes
        self.places, self.size = places, integration.size

    def adjoint(self, g):
        found = np.zeros(self.size)
        if self.places.size:
            found[self.places] = self.tangents @ g.reshape(-1)
        return found


class Steps:
    """Stored steps of an integration, for its adjoint.

    If the system has no tangents, one in a random direction takes part in the step-size control.
    """

    def __init__(self, integration, times, start, parameters, places):
        self.system, self.parameters = integration.system, parameters
        if self.system.copies > 1:
            self.stepper, _ = integration.run(times, start, parameters, integration.memory)
            self.taken = integration.taken
            return
        mask, n = np.zeros(integration.size), self.system.states
        mask[places] = 1.0
        both = [field.with_random_direction(x) for x in (start, parameters)]
        for x, own in zip(both, (mask[:n], mask[n:])):
            x[1] *= own
        controlled = integration.controlled()
        self.stepper, _ = controlled.run(times, *both, integration.memory)
        self.stepper.narrow(field.bound(field.Field, self.system, parameters))
        self.taken = controlled.taken._replace(nbytes=self.nbytes)

    @property
    def nbytes(self):
        return self.stepper.nbytes

    def adjoint(self, g):
        pullback = field.bound(field.Pullback, self.system, self.parameters)
        found = np.concatenate([self.stepper.adjoint(pullback, g), pullback.parameters.ravel()])
        pullback.settle()
        return found


class Continuous:
    """A continuous solution, kept for the adjoint equation ``dw/dt = -f_y^T w``, which is solved by the same method.

    The adjoint of the parameters is the integral of ``f_p^T w``, by a quadrature with an error control of its own.

    References
    ----------
    Cao, Li, Petzold and Serban (2003), Adjoint sensitivity analysis for differential-algebraic equations.
    doi:10.1137/S1064827501380630
    """

    def __init__(self, integration, times, start, parameters, places):
        self.integration, self.times, self.parameters = integration, times, parameters
        system, options = integration.system, integration.options
        if options["may_jump"]:  # integrate once more, to examine the steps for jumps
            both = [field.with_random_direction(x) for x in (start, parameters)]
            integration.controlled().run(times, *both, None)
        self.slopes = field.bound(field.Field, system, parameters)
        self.jacobian = field.bound(field.Jacobian, system, parameters)
        self.pullback = field.bound(field.Pullback, system, parameters)
        self.rtol, self.nbytes = max(CONTINUOUS_TOLERANCE * options["rtol"].min(), MIN_TOLERANCE), 0
        self.solution = self.solved(
            self.slopes.slope, times[0], times[1], start[0], CONTINUOUS_TOLERANCE * options["atol"], self.matrix
        )
        self.nbytes = self.size_of(self.solution.ts.size - 1)
        self.taken = Taken(self.method, self.solution.ts.size - 1, self.nbytes)

    @property
    def method(self):
        """Name of SciPy's method."""
        method = self.integration.method
        return method if method in (*EXPLICIT, *IMPLICIT) else "LSODA"

    def size_of(self, steps):
        """Return the bytes that a continuous solution of this many steps takes."""
        return ARRAYS_PER_STEP[self.method] * 8 * steps * self.integration.system.states

    def solved(self, f, start, end, y, atol, jacobian, time=float):
        """Return SciPy's continuous solution of an equation; `time` converts the time in error messages."""
        options: dict = {"max_step": self.integration.options["max_step"]}
        if self.method in IMPLICIT:
            options["jac"] = jacobian
        steps = itertools.count()

        def check_memory(t, y):  # once in each step
            if self.nbytes + self.size_of(next(steps)) > self.integration.memory:
                raise GuardError("the continuous solution needs more memory: choose sensitivity='discrete'")
            return 1.0

        found = scipy.integrate.solve_ivp(
            f, (start, end), y, self.method, rtol=self.rtol, atol=atol, dense_output=True, events=check_memory,
            **options,
        )  # fmt: skip
        if found.status < 0:
            raise GuardError(f"the integration fails at t = {time(found.t[-1]):.6g}: {found.message}")
        return found.sol

    def matrix(self, t, y):
        """Return the Jacobian of the right-hand side."""
        from scipy.sparse import csc_array

        values, pattern, n = self.jacobian.nonzeros(t, y), self.jacobian.pattern, y.size
        if pattern.is_sparse:
            return csc_array((values, (pattern.rows, pattern.columns)), (n, n))
        found = np.zeros((n, n))
        found[pattern.rows, pattern.columns] = values
        return found

    def adjoint(self, g):
        n, begin, every = self.integration.system.states, self.times[0], self.times[2:]
        w, of_parameters = np.zeros(n), np.zeros(self.parameters.shape[1])
        g = g.reshape(every.size, n)
        stops = np.concatenate([[begin], every])
        order = np.argsort(np.abs(stops - begin), kind="stable")[::-1]
        for k, earlier in itertools.pairwise(order):
            w = w + (g[k - 1] if k else 0.0)
            if stops[k] != stops[earlier] and w.any():
                w, more = self.segment(stops[k], stops[earlier], w)
                of_parameters = of_parameters + more
        w = w + (g[order[-1] - 1] if order[-1] else 0.0)
        return np.concatenate([w, of_parameters])

    def segment(self, end, start, w):
        """Return the adjoint of the states at the start of a segment, and its contribution to that of the parameters.

        Time is counted from the end of the segment: first steps may be smaller than the spacing of floats there.
        """
        n, y, length = w.size, self.solution, abs(end - start)
        sign = 1.0 if start > end else -1.0

        def time(s):
            return end + sign * s

        def slope(s, w):
            return -sign * self.pullback.products(time(s), y(time(s)), w)[0, 1 : 1 + n]

        def jacobian(s, w):
            return -sign * self.matrix(time(s), y(time(s))).T

        found = self.solved(slope, 0.0, length, w, self.rtol * np.abs(w).max(), jacobian, time)
        more = 0.0
        if self.parameters.size:
            more, _ = scipy.integrate.quad_vec(
                lambda s: -sign * self.pullback.products(time(s), y(time(s)), found(s))[0, 1 + n :],
                0.0, length, epsrel=self.rtol, epsabs=0.0, norm="max", points=found.ts, quadrature="gk15",
            )  # fmt: skip
        return found(length), more
