"""Builds a `Program` from a function and example arguments."""

from __future__ import annotations

import contextlib
import functools
import gc
import types
import weakref

import numpy as np

from wengert.core.dispatch import instances
from wengert.core.levels import Unrecorded
from wengert.core.modes.pullback import was_written
from wengert.core.operands.var import as_numpy, given_float, holds_traced, is_scalar, is_var, plain
from wengert.deferred import deferred
from wengert.errors import TracedValueError
from wengert.program.derivatives import NotDerivable, first_hessian
from wengert.program.passes import pipeline
from wengert.program.program import Program
from wengert.program.signature import Form, Result, Slot, as_inputs, refuse_traced
from wengert.program.tracing.closure import Captures
from wengert.program.tracing.pytree import aliases_of, fill, mapped
from wengert.program.tracing.refusals import NotReplayable, Uncopied
from wengert.program.tracing.trace import listed, searches_of
from wengert.transforms.batch import Mapped
from wengert.transforms.dense import JVP, Elementwise, Gradient, Jacobian
from wengert.transforms.operators import Operator
from wengert.transforms.second import HVP, Hessian

elements = deferred("wengert.program.elements")
single_precision = deferred("wengert.program.single_precision")


def record(f, args: tuple, kwargs: dict, exact: bool, is_live: bool = False, disable=()) -> Program:
    """Return the program of `f` at these arguments. Captured values become constants, or inputs if `is_live`."""
    disabled = pipeline.disabled_names(disable, "record")
    name = _name(f)
    refuse_traced(f"record({name})", args, kwargs)
    args = (as_inputs(args[0], name), *args[1:])
    others = Form(args, kwargs).others
    try:
        try:
            return _recorded(Captures(f, others), f, args, kwargs, exact, is_live, disabled)
        except Uncopied:
            return _recorded(Captures(f, others, pins=True), f, args, kwargs, exact, is_live, disabled)
    except (NotReplayable, Unrecorded) as reason:
        raise TracedValueError(f"record({name}): {reason}") from None


def _recorded(captures, f, args, kwargs, exact, is_live, disabled):
    if captures.effect:
        raise NotReplayable(captures.effect)
    reading = captures.read(is_new=True)
    if reading is None:
        raise NotReplayable("the values that it reads from outside cannot be determined")
    captures.pins |= not is_live  # captured values are constants anyway

    def bind():
        return reading.bound([leaf.copy("K") if isinstance(leaf, np.ndarray) else leaf for leaf in reading.leaves])

    return trace(f, args, kwargs, reading if is_live else _Constants(bind), exact, disabled)


class _Constants:
    """Captured values of a function, as constants of its program; `bind` returns the function with them."""

    leaves = aliases = ()

    def __init__(self, bind):
        self._bind = bind

    def operands(self, inputs, leaves):
        return list(inputs)

    def without(self, leaves):
        return self

    def bound(self, operands):
        return self._bind()


def trace_alone(f, args, exact: bool = False) -> Program:
    """Return the program of `f` at these arguments, in which everything that `f` captures is constant."""
    return trace(f, tuple(args), {}, _Constants(lambda: f), exact)


def trace(
    f,
    args: tuple,
    kwargs: dict,
    reading,
    exact: bool = False,
    disabled: frozenset = frozenset(),
    defers: bool = False,
    assumes_finite: bool = False,
    widens: bool = False,
) -> Program:
    """Return the program of `f` at these arguments; `reading` holds captured values, `disabled` names of passes.

    With `defers`, return a form that takes less time to prepare if the final form, its `_later`, takes much longer.
    With `assumes_finite`, do not check guards against NaN of a derivative; they may fail at these arguments.
    With `widens`, derivatives of functions with float32 values are computed in double precision.
    Its inputs are the leaves of the arguments, followed by those of `reading`.
    The program of a derivative is made from that of its function if possible, and otherwise traced itself.
    """
    if type(f) is Mapped and not exact:
        found = elements.of_elements(trace, f, args, kwargs, reading, disabled)
        if found is not None:
            return found
    derive, reason = _derivation(f), "it is the derivative of a function that cannot be recorded"
    if derive is not None:
        with_direction = type(f) in (JVP, HVP)
        if not with_direction or _is_single_direction(*args[:2]):
            given, read = args, reading
            if with_direction:
                first, last = (len(Form(args[:k], {}).leaves) for k in (1, 2))
                given, read = (args[0], *args[2:]), reading.without(range(first, last))
            program = _traced(_innermost_function, f, given, kwargs, read, exact, disabled)
            program._assumes_finite = assumes_finite
            try:
                made = functools.partial(_first_form, f=f, derive=derive) if defers else derive
                if widens and not exact and (found := _in_double_precision(program, f, made)) is not None:
                    return found
                if program._is_float64:
                    return made(program)
                reason = "it takes or returns values that are not float64"
            except NotDerivable as error:
                reason = str(error)
    if isinstance(f, Operator) and hasattr(f, "of_program"):  # cannot be traced: its result is a sparse matrix
        raise NotReplayable(reason)
    try:
        return _traced(lambda bound: bound, f, args, kwargs, reading, exact, disabled)
    except NotReplayable:  # for example, a derivative calls a solver, which only programs support
        if type(f) is not Elementwise or not _is_of_scalar(f, args):
            raise
        program = _traced(_innermost_function, f, args, kwargs, reading, exact, disabled)
        try:
            return _differentiated(program, f)
        except NotDerivable:
            pass
        raise


def _is_of_scalar(f, args):
    """Return whether `f` is a function of a float, so that the program of `derivative(f)` follows from that of `f`."""
    x = args[f.argnums] if -len(args) <= f.argnums < len(args) else None
    is_plain = not (f.with_value or f.has_aux or f.holomorphic or isinstance(f.f, Operator))
    return is_plain and f.argnums >= 0 and (isinstance(x, float) or (np.ndim(x) == 0 and isinstance(x, np.ndarray)))


def _differentiated(program, f):
    """Return the program of `derivative(f)`, given the program of the function of one float."""
    if not program._is_float64:
        raise NotDerivable("it takes or returns values that are not float64")
    for _ in range(f.order):
        program = program.jacobian(f.argnums) if program._output_shape else program.grad(f.argnums)
    return program


def _in_double_precision(program, f, derive):
    """Return the program of a derivative of a function with float32 values; None for other functions."""
    if hasattr(f, "of_program") or not any(dtype == np.float32 for dtype, *_ in program._listing.types):
        return None
    with_value = type(f) is JVP or getattr(f, "with_value", False)
    with contextlib.suppress(NotDerivable):
        return single_precision.in_double_precision(program, derive, f.argnums, with_value)
    return None


def _first_form(program, f, derive):
    """Return a derivative's program in the form that takes the least time to prepare."""
    is_hessian = type(f) is Hessian and not isinstance(f.f, Operator)
    found = first_hessian(program, f.argnums) if is_hessian else None
    return derive(program)._first_form() if found is None else found


def _is_single_direction(x, v):
    """Return whether `x` is an array or a float and `v` a single direction of the same shape."""
    return all(isinstance(leaf, (float, np.ndarray)) for leaf in (x, v)) and np.shape(x) == np.shape(v)


def _innermost_function(bound):
    """Return the function below nested derivative operators."""
    while isinstance(bound, Operator) and bound.is_derivative:
        bound = bound.f
    return bound


def _derivation(f, rolls=True):
    """Return the function that makes a derivative's program from its function's; None if it must be traced.

    `rolls`: whether loops over small arrays are rolled if the derivative takes one sweep.
    """
    if not isinstance(f, Operator) or f.has_aux or not isinstance(f.argnums, int) or f.argnums < 0:
        return None
    is_sparse = hasattr(f, "of_program")
    if not is_sparse and getattr(f, "with_value", False):
        is_direct = type(f) is Gradient and not isinstance(f.f, Operator)
        return (lambda program: program._with_loops()._made("value_and_grad", f.argnums)) if is_direct else None
    if not is_sparse and getattr(f, "holomorphic", False):
        return None
    make = (lambda program, _: f.of_program(program)) if is_sparse else _PROGRAMS.get(type(f))
    if make is None or (type(f) in (JVP, HVP) and f.argnums):
        return None
    if not isinstance(f.f, Operator) or not f.f.is_derivative:
        rolls = rolls and not is_sparse and make not in (Program.jacobian, Program.hessian)
        return lambda program: make(program._with_loops() if rolls else program, f.argnums)
    below = _derivation(f.f, rolls=False)
    if below is None or type(f.f) in (JVP, HVP):
        return None
    return lambda program: make(below(program), f.argnums)


_PROGRAMS = {
    Gradient: Program.grad,
    Jacobian: Program.jacobian,
    Hessian: Program.hessian,
    JVP: Program.jvp,
    HVP: Program.hvp,
}


def _traced(inner, f, args, kwargs, reading, exact, disabled):
    name = _name(inner(f))
    form = Form(args, kwargs)
    count = len(form.leaves)
    leaves = [*form.leaves, *reading.leaves]
    own = form.inputs_at(f.positions(args) if inner is _innermost_function else positions_of(f, args))
    aliases = aliases_of([None if i in own else leaf for i, leaf in enumerate(leaves)]) if reading.aliases else ()
    ends: list = []

    def run(*inputs):
        operands = [
            given_float(x) if type(leaf) is float and is_var(x) else x
            for x, leaf in zip(reading.operands(inputs, leaves), leaves)
        ]
        for i, j in aliases:
            operands[i] = operands[j]
        given, keywords = fill((args, kwargs), iter(operands[:count]))
        y = inner(reading.bound(operands[count:]))(*given, **keywords)
        own_count = count if inner is _innermost_function else 0  # a derivative works on copies of its arguments
        if any(map(was_written, inputs[own_count:])):
            raise NotReplayable(f"{name} writes into an array that it was given: write x = x.copy() first")
        found, template = _split_result(y, name)
        ends.append(Result(template))
        return found

    contracted: list = []
    listing = listed(run, leaves, name, exact, disabled, lambda: contracted.append(True))
    result = ends[-1]  # of the last run, if there were several
    searches = searches_of(run, leaves, count, name) if contracted else ()
    made = pipeline.run("trace", listing, pipeline.Options(exact, disabled=disabled))
    program = Program(name, made.code, form, result, exact, leaves)
    program._disabled, program._history, program._searches = disabled, tuple(made.log), searches
    if inner is not _innermost_function and isinstance(f, Operator) and f.is_derivative:
        program._warn_about_searches()
    if type(source := inner(f)) is types.FunctionType:
        program._source = weakref.ref(source)
    return program


def positions_of(f, args: tuple) -> tuple:
    """Return the positions of differentiated arguments and directions; none of these may alias another argument."""
    if not isinstance(f, Operator):
        return ()
    if not isinstance(f, (JVP, HVP)):
        return f.positions(args)
    return (*[position + (position > 0) for position in f.positions((args[0], *args[2:]))], 1)


def _split_result(y, name):
    """Split a result into its traced leaves and a template with slots in their place."""
    found = []

    def part(leaf):
        if is_var(leaf):
            found.append(as_numpy(leaf))
            return Slot(len(found) - 1, _conversion_of(leaf))
        if isinstance(leaf, instances.SubclassVar) and not any(map(holds_traced, vars(leaf).values())):
            found.append(as_numpy(instances.operand_of(leaf)))
            return Slot(len(found) - 1, instances.Restored(leaf))
        if _may_hide_traced(leaf):
            kind = type(leaf)
            raise NotReplayable(
                f"{name} returns a {kind.__module__}.{kind.__qualname__} that hides traced values: return arrays, or "
                "dicts, lists or dataclasses of arrays"
            )
        return plain(leaf)

    template = mapped(y, part)
    return found, template


def _conversion_of(leaf):
    """Return the conversion for a scalar leaf of a result: `float`, `np.asarray` for 0-d arrays, or None."""
    if as_numpy(leaf) is not leaf:
        return float
    return None if is_scalar(leaf) or np.ndim(leaf) else np.asarray


def _may_hide_traced(x):
    """Return whether an object, closure or iterator may hold traced values that the template cannot see."""
    if hasattr(type(x), "__next__"):
        return True
    seen, waiting = {}, [x, *(vars(x).values() if isinstance(x, type) else ())]
    while waiting:
        part = waiting.pop()
        if is_var(part) or isinstance(part, instances.SubclassVar):
            return True
        if id(part) in seen or isinstance(part, _OPAQUE):
            continue
        if len(seen) == MAX_PARTS:
            return True
        seen[id(part)] = part
        if isinstance(part, types.FunctionType):  # not its globals
            waiting += (part.__defaults__, part.__kwdefaults__, part.__closure__, vars(part))
        else:
            waiting += part.flat if isinstance(part, np.ndarray) and part.dtype == object else gc.get_referents(part)
    return False


#: maximum number of objects within one that a result contains; beyond it, f runs uncompiled
MAX_PARTS = 100_000

#: objects that hold no results of f
_OPAQUE = (
    types.NoneType, type, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType, str, bytes,
    bool, int, float, complex,
)  # fmt: skip


def _name(f):
    names = (getattr(f, word, None) for word in ("name", "__qualname__"))
    return next((name for name in names if name and isinstance(name, str)), None) or repr(f)
