"""Adjoints of integrations: products with tangents, and sweeps back over steps that are kept."""

from __future__ import annotations

import numpy as np

from wengert.program.integration import field


class Tangents:
    """Tangents of an integration in some of its initial states and parameters, for adjoints."""

    def __init__(self, integration, times, start, parameters, places):
        count, n = places.size, integration.system.states
        states, others = np.zeros((1 + count, n)), np.zeros((1 + count, parameters.shape[1]))
        states[0], others[0] = start[0], parameters[0]
        for row, place in enumerate(places.tolist(), 1):
            if place < n:
                states[row, place] = 1.0
            else:
                others[row, place - n] = 1.0
        y = integration.pushed(count).run(times, states, others, None)[1] if count else np.zeros((1, 1))
        self.tangents, self.nbytes = y[1:].reshape(count, y[0].size), y.nbytes
        self.places, self.size = places, integration.size

    def adjoint(self, g):
        """Return the adjoints of initial states and parameters, given that of the result."""
        found = np.zeros(self.size)
        if self.places.size:
            found[self.places] = self.tangents @ g.reshape(-1)
        return found


class Steps:
    """Stored steps of an integration, for its adjoint.

    If the system has no tangents, one in a random direction takes part in the control of the steps.
    """

    def __init__(self, integration, times, start, parameters, places):
        self.system, self.parameters = integration.system, parameters
        if self.system.copies > 1:
            self.stepper, _ = integration.run(times, start, parameters, integration.memory)
            return
        mask, n = np.zeros(integration.size), self.system.states
        mask[places] = 1.0
        both = [field.with_random_direction(x) for x in (start, parameters)]
        for x, own in zip(both, (mask[:n], mask[n:])):
            x[1] *= own
        self.stepper, _ = integration.controlled().run(times, *both, integration.memory)
        self.stepper.narrow(field.bound(field.Field, self.system, parameters))

    @property
    def nbytes(self):
        """Bytes of the steps."""
        return self.stepper.nbytes

    def adjoint(self, g):
        """Return the adjoints of initial states and parameters, given that of the result."""
        pullback = field.bound(field.Pullback, self.system, self.parameters)
        found = np.concatenate([self.stepper.adjoint(pullback, g), pullback.parameters.ravel()])
        pullback.settle()
        return found
