"""IR of the derivatives of integrations, composed of calls for related integrations."""

from __future__ import annotations

import math

import numpy as np

from wengert.program.derivatives import NotDerivable, program_row
from wengert.program.ir.call import Call, Operand
from wengert.program.ir.ir import Listing, c_strides
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op

_FLOAT = np.dtype(float)


integration_row = program_row("solve_ivp", f"{__name__}.integration_row")
moved_row = program_row("times", f"{__name__}.moved_row")
adjoint_row = program_row("adjoint", f"{__name__}.adjoint_row")


class Builder:
    """Builds the IR of a derivative of a call; the first `first` arguments come before those of the integration."""

    def __init__(self, integration, call, first):
        self.integration, self.call, self.first, self.code = integration, call, first, Listing()
        self.positions = {x.position: k for k, x in enumerate(call.args) if type(x) is Operand}
        system = integration.system
        self.shapes = [*system.copies * [(system.states,)], *system.copies * integration.shapes]
        self.arguments: list = []
        self.result = integration.shape

    def shape(self, k):
        """Return the shape of argument `k`."""
        if k < self.first:
            return self.result
        return (self.integration.count,) if k == self.first else self.shapes[k - self.first - 1]

    def input(self, shape):
        v = self.code.add(Op.INPUT, (_FLOAT, shape, None), len(self.code.inputs))
        self.code.inputs = [*self.code.inputs, v]
        return v

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

    def called(self, compute, arguments, row, shape):
        """Append a call; arguments that are ints are values."""
        values = [x for x in arguments if type(x) is int]
        count = iter(range(len(values)))
        args = tuple(Operand(next(count)) if type(x) is int else x for x in arguments)
        v = self.code.add(Op.CALL, (_FLOAT, shape, None), self.code.call(Call(compute, args, {}, values, row)))
        return int(v)

    def refuse_times(self, operands):
        """Raise if the times are among these operands."""
        if any(self.positions[j] == self.first for j in operands):
            raise NotDerivable("the second derivatives of a solution in its times are not in programs")

    def with_tangents(self, directions):
        """Return the arguments of the integration of the system with its tangent."""
        q = self.integration.system.copies
        own = [self.direction_of(k, directions) for k in range(self.first + 1, len(self.call.args))]
        times, *given = self.arguments
        return [times, *given[:q], *own[:q], *given[q:], *own[q:]]

    def active(self, wanted):
        """Return which of initial states and parameters are differentiated; the start of the interval needs states."""
        count, q = len(self.integration.shapes), self.integration.system.copies
        places = {self.positions[j] - self.first - 1 for j in wanted}
        start = any(k < q for k in places)
        return (start, *(any(q + row * count + k in places for row in range(q)) for k in range(count)))

    def tangent(self, directions, y=None):
        """Append the tangent of the integration, whose result is `y`."""
        q, T, n = self.result
        arguments, times = self.with_tangents(directions), self.direction_of(self.first, directions)
        if times is not None:
            start = self.called(self.integration.moved("start"), [times, *self.arguments], moved_row, (q, n))
            for k in range(q):
                shift = int(self.code.part(start, (8 * k * n, (n,), (8,)), _FLOAT))
                given = arguments[1 + q + k]
                arguments[1 + q + k] = shift if given is None else self.sum(shift, given, (n,))
        found = self.called(self.integration.pushed(), arguments, integration_row, (2 * q, T, n))
        found = int(self.code.part(found, (8 * q * T * n, self.result, c_strides(self.result, 8)), _FLOAT))
        if times is None:
            return found
        moved = self.called(self.integration.moved("outputs"), [times, y, *self.arguments], moved_row, self.result)
        return self.sum(found, moved, self.result)

    def sum(self, a, b, shape):
        return int(self.code.add(OPCODES["add"], (_FLOAT, shape, None), a, b))

    def mixed(self, g_dot, directions):
        """Append F^T g_dot + (dF^T) g."""
        q, T, n = self.result
        pushed, (g,) = self.integration.pushed(), self.cotangent
        both = self.stacked([g_dot, g], [self.result, self.result], (2 * q, T, n))
        arguments = [both, *self.with_tangents(directions)]
        found = self.called(pushed.adjoint(), arguments, adjoint_row, (pushed.size,))
        m = self.integration.system.parameters
        parts = [self.vector(found, 0, q * n), self.vector(found, 2 * q * n, q * m)]
        return self.stacked(parts, [(q * n,), (q * m,)], (q * (n + m),)) if m else parts[0]

    def vector(self, v, start, size):
        return int(self.code.part(v, (8 * start, (size,), (8,)), _FLOAT)) if size else None

    def stacked(self, values, shapes, shape):
        """Append an array with these values one after the other."""
        made, place = -1, 0
        for v, own in zip(values, shapes):
            v = self.code.constant_array(np.array(v)) if isinstance(v, np.ndarray) else v
            made = self.code.place(made, (8 * place, own, c_strides(own, 8)), v, (_FLOAT, shape, None))
            place += math.prod(own)
        return int(made)

    def parts_of(self, v, wanted):
        """Return the adjoints of these operands from those of all states and parameters."""
        system, count = self.integration.system, len(self.integration.shapes)
        copies = system.copies
        found = []
        for j in wanted:
            k = self.positions[j] - self.first - 1
            if k < 0:  # times, or a cotangent
                found.append(int(self.code.filled(0.0, self.shape(self.positions[j]))))
                continue
            place = k * system.states
            if k >= copies:
                row, k = divmod(k - copies, count)
                place = copies * system.states + row * system.parameters + self.integration.places[k]
            shape = self.shape(self.positions[j])
            found.append(int(self.code.part(v, (8 * place, shape, c_strides(shape, 8)), _FLOAT)))
        return found

    def rows(self, k, count, is_batched):
        """Return the values of argument `k` at each point of a batch."""
        v, shape = self.arguments[k], self.shape(k)
        if not is_batched:
            return count * [v]
        size = 8 * math.prod(shape)
        return [int(self.code.part(v, (j * size, shape, c_strides(shape, 8)), _FLOAT)) for j in range(count)]

    def batch(self, pushed, arguments, count):
        """Append an integration with `count` tangents; return the solution with each tangent as a batch."""
        _, T, n = self.result
        shape, alike = (count, T, n), (_FLOAT, (count, 2, T, n), None)
        found = self.called(pushed, arguments, integration_row, pushed.shape)
        primal = self.code.part(found, (0, (T, n), (8 * n, 8)), _FLOAT)
        tangents = self.code.part(found, (8 * T * n, shape, c_strides(shape, 8)), _FLOAT)
        strides = (16 * T * n, 8 * n, 8)
        made = self.code.place(-1, (0, shape, strides), primal, alike)
        return self.code.place(made, (8 * T * n, shape, strides), tangents, alike)

    def finish(self, outputs):
        self.code.outputs = [int(v) for v in outputs]
