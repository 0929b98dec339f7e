"""Second derivatives of calls, from the registry's rows: tangents of results, and tangents of pullbacks.

Tangents carry k directions along a leading axis.
`operands` lists the traced arguments as ``(position, item)``, `tangents` their tangents in the same order, None for 0.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from wengert.core.levels import check_end, recording
from wengert.core.modes.forward import argument, place, replaced, tangent
from wengert.core.modes.pullback import independent
from wengert.core.tape.local_derivatives import pullback
from wengert.core.tape.memory import empty
from wengert.core.tape.tape import Tape
from wengert.registry import strong_matmul


def tangent_of_call(row, args, kwargs, operands, tangents, y):
    """Tangents of the result of a call, summed over operands that have tangents; None if they are 0."""
    sources = [(*operand, t) for operand, t in zip(operands, tangents) if t is not None]
    return tangent(row, len(sources[0][2]), args, kwargs, sources, y) if sources else None


# ---- functions that are linear in each operand


def pull_cross(row, args, kwargs, operands, tangents, g, y):
    """For each operand, sum the pullbacks of `g` in which one of the other operands is replaced by its tangent."""
    totals = []
    for own in operands:
        total = None
        for other, t in zip(operands, tangents):
            if t is not None and other != own:
                part = _pulled(row, args, kwargs, own, other, t, g, y)
                total = part if total is None else total + part
        totals.append(total)
    return totals


def _pulled(row, args, kwargs, own, other, t, g, y):
    position, item = own
    if is_matmul(row, args):
        return _matmul_pulled(*args[:2], position, t, g)
    parts = [pullback(row, position, g, y, replaced(args, other, direction), kwargs) for direction in t]
    return np.stack(parts if item < 0 else [part[item] for part in parts])


# ---- matrix products: one product for all directions


#: values of the registry column ``scalars`` for products that sum over the last axis but one of the second operand
_PRODUCTS = ("matmul", "dot")


def is_matmul(row, args):
    """Return whether this is a product of matrices or vectors, without batch axes."""
    return row.scalars in _PRODUCTS and all(1 <= np.ndim(x) <= 2 for x in args[:2])


def is_matrix_product(row, args):
    """Return whether this is a product of two matrices."""
    if row.scalars not in _PRODUCTS:
        return False
    a, b = args[:2]
    return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.ndim == b.ndim == 2


def push_matrices(args, positions, tangents):
    """Tangents of a @ b: t_a @ b + a @ t_b."""
    a, b = args[:2]
    return _sum_of_products(
        [(t, b) if position == 0 else (a, t) for position, t in zip(positions, tangents) if t is not None]
    )


def pull_matrices(args, position, tangents, g, second):
    """Second of one operand of a @ b, from the second of the result and the adjoint g; None if it is 0.

    With the adjoint as `second`, and no tangents, it returns the adjoint of the operand.
    """
    other, t = args[1 - position], tangents[1 - position]
    factors = [(z, _transposed(x)) for z, x in ((second, other), (g, t)) if z is not None and x is not None]
    return _sum_of_products(factors if position == 0 else [(x, z) for z, x in factors])


def _transposed(x):
    return x.swapaxes(-1, -2)


def _sum_of_products(pairs):
    """Sum of matrix products, some with a leading axis of directions; 0 times inf is 0."""
    total = None
    for a, b in pairs:
        part = _product(a, b)
        total = part if total is None else np.add(total, part, out=total)
    if total is not None:
        square = np.vdot(total, total)
        if square != square:  # NaN if an element is
            return reduce(np.add, [strong_matmul(a, b) for a, b in pairs])
    return total


def _product(a, b):
    if a.shape[-1] == 1:  # outer product: slow in BLAS
        return a * b
    shape = (*(a.shape[:-2] or b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = empty(shape) if a.dtype == b.dtype == np.float64 else np.empty(shape, np.result_type(a, b))
    if a.ndim == 2 or len(a) == 1 or not a.flags.c_contiguous:
        return np.matmul(a, b, out=out)
    k, m, n = a.shape  # one product for all directions
    np.matmul(a.reshape(k * m, n), b, out=out.reshape(k * m, b.shape[-1]))
    return out


def _matmul_pulled(a, b, position, t, g):
    """Pullback of `g` with the other operand replaced by its tangents, whose directions are a batch axis."""
    column, line = np.ndim(b) == 1, np.ndim(a) == 1
    g = np.reshape(g, (1 if line else len(a), 1 if column else np.shape(b)[1]))
    if position == 0:
        z = strong_matmul(g, np.swapaxes(t[..., None] if column else t, -1, -2))
        return z[:, 0] if line else z
    z = strong_matmul(np.swapaxes(t[:, None, :] if line else t, -1, -2), g)
    return z[..., 0] if column else z


# ---- any rule, recorded on a separate tape


def recorded_pullbacks(row, args, kwargs, operands, tangents, g, y, y_tangent):
    """Record the pullbacks of `g` in the values with tangents; return tape, inputs, their tangents, and cotangents."""
    tape = Tape(f"the second derivative of {row.name}")
    inputs = []
    moving = []

    def traced(value, t):
        if t is None:
            return value
        inputs.append(independent(tape, value))
        moving.append(t)
        return inputs[-1]

    y = traced(y, y_tangent)
    for operand, t in zip(operands, tangents):
        if t is not None:
            where = place(row, operand)
            args = replaced(args, where, traced(argument(args, where), t))
    try:
        found = {}
        outputs = []
        with recording(tape):  # a rule may itself take a derivative, which is then nested in this one
            for position, item in operands:
                if position not in found:
                    found[position] = pullback(row, position, g, y, args, kwargs)
                outputs.append(found[position] if item < 0 else found[position][item])
        check_end(tape.level)
    except BaseException:
        tape.close()
        raise
    return tape, inputs, moving, outputs
