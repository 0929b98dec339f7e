"""Builds the IR of derivatives of integrations from calls of related integrations."""

from __future__ import annotations

import math

import numpy as np

from wengert.program.derivatives import NotDerivable, program_row
from wengert.program.ir.call import Operand, called
from wengert.program.ir.ir import Listing, c_strides
from wengert.program.ir.opcode_table import OPCODES

_FLOAT = np.dtype(float)


integration_row = program_row("solve_ivp", f"{__name__}.integration_row")
moved_row = program_row("times", f"{__name__}.moved_row")
adjoint_row = program_row("adjoint", f"{__name__}.adjoint_row")


class Builder:
    """Builds the IR of a derivative of `call`, whose first `first` arguments precede those of the integration."""

    def __init__(self, integration, call, first):
        self.integration, self.call, self.first, self.code = integration, call, first, Listing()
        self.positions = {x.position: k for k, x in enumerate(call.args) if type(x) is Operand}
        system = integration.system
        self.shapes = [*system.copies * [(system.states,)], *system.copies * integration.shapes]
        self.arguments: list = []
        self.result = integration.shape

    def shape(self, k):
        if k < self.first:
            return self.result
        return (self.integration.count,) if k == self.first else self.shapes[k - self.first - 1]

    def input(self, shape):
        return self.code.input((_FLOAT, shape, None))

    def input_like(self, j):
        return self.input(self.shape(self.positions[j]))

    def take_operands(self, is_batched=None, count=0):
        """Create the inputs of the operands, and set the arguments of the integration."""
        operands = []
        for j in range(len(self.positions)):
            shape = self.shape(self.positions[j])
            operands.append(self.input((count, *shape) if is_batched and is_batched[j] else shape))
        given = [operands[x.position] if type(x) is Operand else x for x in self.call.args]
        self.cotangent, self.arguments = given[: self.first], given[self.first :]

    def direction_of(self, k, directions):
        """Return the tangent of argument `k`, or None."""
        x = self.call.args[k]
        return directions.get(x.position) if type(x) is Operand else None

    def refuse_times(self, operands):
        if any(self.positions[j] == self.first for j in operands):
            raise NotDerivable("the second derivatives of a solution in its times are not in programs")

    def with_tangents(self, directions):
        """Return the arguments for integrating the system together with its tangent."""
        q = self.integration.system.copies
        own = [self.direction_of(k, directions) for k in range(self.first + 1, len(self.call.args))]
        times, *given = self.arguments
        return [times, *given[:q], *own[:q], *given[q:], *own[q:]]

    def active(self, wanted):
        """Return whether adjoints of initial states (also for the start time) and of each parameter are needed."""
        count, q = len(self.integration.shapes), self.integration.system.copies
        places = {self.positions[j] - self.first - 1 for j in wanted}
        start = any(k < q for k in places)
        return (start, *(any(q + row * count + k in places for row in range(q)) for k in range(count)))

    def tangent(self, directions, y=None):
        """Append the tangent of the integration, whose result is `y`."""
        q, T, n = self.result
        arguments, times = self.with_tangents(directions), self.direction_of(self.first, directions)
        if times is not None:
            start = called(self.code, self.integration.moved("start"), [times, *self.arguments], (q, n), moved_row)
            for k in range(q):
                shift = self.code.block(start, k * n, (n,))
                given = arguments[1 + q + k]
                arguments[1 + q + k] = shift if given is None else self.sum(shift, given, (n,))
        found = called(self.code, self.integration.pushed(), arguments, (2 * q, T, n), integration_row)
        found = self.code.block(found, q * T * n, self.result)
        if times is None:
            return found
        given = [times, y, *self.arguments]
        moved = called(self.code, self.integration.moved("outputs"), given, self.result, moved_row)
        return self.sum(found, moved, self.result)

    def sum(self, a, b, shape):
        return self.code.add(OPCODES["add"], (_FLOAT, shape, None), a, b)

    def mixed(self, g_dot, directions):
        """Append the tangent of the adjoint, F^T g_dot + (dF^T) g."""
        q, T, n = self.result
        pushed, (g,) = self.integration.pushed(), self.cotangent
        both = self.stacked([g_dot, g], [self.result, self.result], (2 * q, T, n))
        arguments = [both, *self.with_tangents(directions)]
        found = called(self.code, pushed.adjoint(), arguments, (pushed.size,), adjoint_row)
        m = self.integration.system.parameters
        of_states = self.code.block(found, 0, (q * n,))
        if not m:
            return of_states
        parts = [of_states, self.code.block(found, 2 * q * n, (q * m,))]
        return self.stacked(parts, [(q * n,), (q * m,)], (q * (n + m),))

    def stacked(self, values, shapes, shape):
        """Append an array that concatenates these values."""
        made, place = -1, 0
        for v, own in zip(values, shapes):
            v = self.code.constant_array(np.array(v)) if isinstance(v, np.ndarray) else v
            made = self.code.place(made, (8 * place, own, c_strides(own, 8)), v, (_FLOAT, shape, None))
            place += math.prod(own)
        return made

    def parts_of(self, v, wanted):
        """Return the adjoints of the operands `wanted` as parts of the adjoint `v` of all states and parameters."""
        system, count = self.integration.system, len(self.integration.shapes)
        copies = system.copies
        found = []
        for j in wanted:
            k = self.positions[j] - self.first - 1
            if k < 0:  # times, or a cotangent
                found.append(self.code.filled(0.0, self.shape(self.positions[j])))
                continue
            place = k * system.states
            if k >= copies:
                row, k = divmod(k - copies, count)
                place = copies * system.states + row * system.parameters + self.integration.places[k]
            found.append(self.code.block(v, place, self.shape(self.positions[j])))
        return found

    def rows(self, k, count, is_batched):
        v, shape = self.arguments[k], self.shape(k)
        if not is_batched:
            return count * [v]
        return [self.code.block(v, j * math.prod(shape), shape) for j in range(count)]

    def batch(self, pushed, arguments, count):
        """Append an integration with `count` tangents; return a batch that pairs the solution with each tangent."""
        _, T, n = self.result
        shape, alike = (count, T, n), (_FLOAT, (count, 2, T, n), None)
        found = called(self.code, pushed, arguments, pushed.shape, integration_row)
        primal, tangents = self.code.block(found, 0, (T, n)), self.code.block(found, T * n, shape)
        strides = (16 * T * n, 8 * n, 8)
        made = self.code.place(-1, (0, shape, strides), primal, alike)
        return self.code.place(made, (8 * T * n, shape, strides), tangents, alike)
