"""Builds the programs of derivatives: gradients, products with vectors, and dense Jacobians.

Input: a program and the position of an argument; output: a program.
A dense Jacobian is unrolled to scalars or accumulated entry by entry, whichever is estimated faster. If it is too large
for both, its program runs one sweep per row or column (`program.swept`).
"""

from __future__ import annotations

import math

import numpy as np

from wengert.deferred import deferred
from wengert.program import backends
from wengert.program.derive import source_transform
from wengert.program.ir.ir import kind_of
from wengert.program.ir.reference import example_of
from wengert.program.passes.cost import HESSIAN_ARRAY, HESSIAN_SCALAR, SAVED_BY_HESSIAN
from wengert.program.passes.scalarise import nanoseconds
from wengert.program.passes.unroll_loops import unrolled_size
from wengert.program.signature import Result, Slot, as_inputs
from wengert.registry import Primitive
from wengert.transforms.costs import is_forward

accumulate = deferred("wengert.program.jacobian.accumulate")
schedule = deferred("wengert.program.report.schedule")

#: Limits on the scalar instructions of an unrolled Jacobian; the larger one applies.
MAX_UNROLLED = 20_000
MAX_UNROLLED_PER_INSTRUCTION = 64

#: Try entry-wise accumulation first if vectorising shortens the scalar IR by at least this factor.
MIN_SHORTENING = 4
#: Lower bound on the time of a scalar Jacobian, relative to that of the scalar function, which it evaluates too.
MIN_RELATIVE_TIME = 1.5

#: The Hessian of a function with at least this many instructions, vectorised and with its loops unrolled, is first
#: computed direction by direction.
MIN_SWEPT_LENGTH = 200
#: Minimum number of calls for which computing a Hessian direction by direction must pay off.
MIN_SWEPT_CALLS = 8

DOUBLE = {np.dtype(float)}
FIRST_OUTPUT = Result(Slot(0))

_NO_GRADIENT = (
    "the function returns a complex number, which has no gradient: return its real or imaginary part, or use jacobian()"
)
_NO_JACOBIAN = (
    "the argument is complex: record the derivative function instead, "
    "wengert.record(wengert.jacobian(f, holomorphic=True), x)"
)


class NotDerivable(TypeError):
    """This program has no derivative program; the message gives the reason."""


def program_row(name: str, home: str) -> Primitive:
    """Return the registry row of a callee without rules, which supplies the IR of its derivatives itself."""

    def refuse(*args, **kwargs):
        raise NotDerivable(f"{name}: solutions of equations are differentiated only as programs")

    return Primitive(name, "custom", vjps={0: refuse}, jvps={0: refuse}, sequence=True, home=home)


def grad(program, argnums):
    return _grad_of(program, *program._differentiable("grad"), argnums)


def value_and_grad(program, argnums):
    return _grad_of(program, *program._differentiable("grad"), argnums, True)


def _grad_of(program, code, y, argnums, with_value=False):
    dtype, shape, _ = kind_of(code, y)
    if shape != ():
        raise NotDerivable(f"grad({program._name}): the function must return a single number: use jacobian()")
    if dtype.kind == "c":
        raise NotDerivable(f"grad({program._name}): {_NO_GRADIENT}")
    wrt = program._inputs("grad", argnums)
    inputs = [code.inputs[i] for i in wrt]
    longer = _pulled_back(program, code, [(y, None)], inputs)
    template = program._argument_template(argnums, int(with_value))
    if with_value:
        longer.outputs = [y, *longer.outputs]
        template = program._result.template, template
    return program._like(f"grad({program._name})", longer, Result(template))


def _pulled_back(program, code, seeds, wrt):
    return source_transform.pulled_back(code, seeds, wrt, program._example, program._exact, program._assumes_finite)


def vjp(program, argnums):
    code, y = program._differentiable("vjp")
    wrt = program._inputs("vjp", argnums)
    seed = (y, program._form.direction)
    longer = _pulled_back(program, code, [seed], [code.inputs[i] for i in wrt])
    return _with_direction(program, "vjp", longer, y, program._argument_template(argnums, 1))


def jvp(program, argnums):
    code, y = program._differentiable("jvp")
    x = code.inputs[program._input("jvp", argnums)]
    seeds, finite = [(x, program._form.direction)], program._assumes_finite
    longer = source_transform.pushed_forward(code, seeds, [y], program._example, finite)
    return _with_direction(program, "jvp", longer, y, Slot(1))


def _with_direction(program, word, longer, y, template):
    """Return the program of a value and a derivative, with the tangent or cotangent as second argument."""
    number = program._form.direction
    direction = example_of(kind_of(longer, longer.inputs[number]))
    longer.outputs = [y, *longer.outputs]
    made = program._like(f"{word}({program._name})", longer, Result((Slot(0), template)))
    made._form = program._form.with_direction(as_inputs(direction, word))
    made._example.insert(number, direction)
    made._floats += 1
    return made


def hvp(program, argnums):
    made = jvp(program.grad(argnums), argnums)
    longer = made._listing
    longer.outputs = longer.outputs[1:]
    hvp = made._like(f"hvp({program._name})", longer, FIRST_OUTPUT)
    hvp._form = made._form
    return hvp


def jacobian(program, argnums):
    return _unrolled(program, f"jacobian({program._name})", argnums, False)


def hessian(program, argnums):
    gradient = _grad_of(program, *program._scalar_code("hessian"), argnums)
    return _unrolled(gradient, f"hessian({program._name})", argnums, True)


def first_hessian(program, argnums):
    """Return a program of the Hessian by one forward sweep of the gradient per direction, which keeps its loops.

    It takes a small part of the time that `hessian` takes to prepare; the program of `hessian` is its `_later`.
    Returns None for short programs, and if it would pay for a few calls only.
    """
    if program._exact or len(program._listing) < MIN_SWEPT_LENGTH:
        return None
    program._input("hessian", argnums)
    rolled = program._with_loops(of_scalars=True)
    length, arrays = unrolled_size(rolled._vectorised_ir())
    if length < MIN_SWEPT_LENGTH:
        return None
    gradient = rolled.grad(argnums)
    made = backends.stacked_jacobian(gradient, argnums, True, f"hessian({program._name})", False, 1)
    cost = HESSIAN_ARRAY * arrays + HESSIAN_SCALAR * (length - arrays)
    saved = SAVED_BY_HESSIAN * made._runs_per_call * nanoseconds(made._listing)
    made._gathers = False  # stencil fusion takes longer than it saves
    made._later = 1 + int(cost / saved), lambda: program.hessian(argnums)
    return made if made._later[0] >= MIN_SWEPT_CALLS else None


def _unrolled(program, name, argnums, is_symmetric):
    program._differentiable("jacobian")
    code, y = program._scalar_code("jacobian")
    x = code.inputs[program._input("jacobian", argnums)]
    n, m = (math.prod(kind_of(code, v)[1]) for v in (x, y))
    by_rows = not is_forward(n, m) if program._exact else m < n  # exact programs follow the mode of the eager drivers
    if kind_of(code, x)[0].kind == "c":
        raise NotDerivable(f"jacobian({program._name}): {_NO_JACOBIAN}")
    by_rows = by_rows and kind_of(code, y)[0].kind == "f"  # a pullback differentiates one real function of y
    is_double = {kind_of(code, v)[0] for v in (x, y)} == DOUBLE
    lines = min(m, n) if by_rows else n
    found = None
    if is_double:
        found = _unrolled_or_accumulated(program, code, (x, y), argnums, is_symmetric, by_rows, lines)
    if found is None:
        return backends.stacked_jacobian(program, argnums, is_symmetric, name, by_rows)
    return program._like(name, found, FIRST_OUTPUT)


def _unrolled_or_accumulated(program, code, ends, argnums, is_symmetric, by_rows, lines):
    """Return the IR of a Jacobian, unrolled to scalars or accumulated entry-wise, whichever is estimated faster.

    Returns None if neither applies.
    """

    def of_entries():
        is_off = program._exact or "accumulate" in program._disabled
        return None if is_off else _accumulated(program, argnums, is_symmetric, lines)

    rolled, y = program._differentiable("jacobian")
    is_rolled = MIN_SHORTENING * len(rolled) < len(code)
    found = of_entries() if is_rolled else None
    # The scalar Jacobian evaluates the scalar function too, which bounds its time from below.
    if found is not None and nanoseconds(found) < MIN_RELATIVE_TIME * nanoseconds(code):
        return found
    most = max(MAX_UNROLLED, MAX_UNROLLED_PER_INSTRUCTION * len(code))
    numbers = None
    if "unroll" not in program._disabled:
        numbers = source_transform.unrolled(code, *ends, is_symmetric, most, by_rows, program._exact)
    if numbers is None:  # accumulation on elementary code would exceed the limit as well
        is_elementary = source_transform.elementary(rolled, rolled.inputs[program._input("jacobian", argnums)], y)
        return found if is_rolled or is_elementary else of_entries()
    return found if found is not None and nanoseconds(found) < nanoseconds(numbers) else numbers


def _accumulated(program, argnums, is_symmetric, lines):
    """Return the IR that accumulates a Jacobian entry by entry; None if seed directions are cheaper."""
    code, y = program._differentiable("jacobian")
    x = code.inputs[program._input("jacobian", argnums)]
    size = math.prod(kind_of(code, x)[1] + kind_of(code, y)[1])
    most = 2 * sum(schedule.operations(code)) * lines + size  # cost of one sweep per seed direction, and of storing J
    try:
        found = accumulate.entries(code, x, y, program._example, is_symmetric, True, most=most).code
    except accumulate.Refused:
        return None
    return found if sum(schedule.operations(found)) <= most else None


#: builders by the names of `Program`'s methods
BUILDERS = {fun.__name__: fun for fun in (grad, value_and_grad, vjp, jvp, hvp, jacobian, hessian)}
