"""A function and example arguments to a program."""

from __future__ import annotations

import numpy as np

from wengert.containers import split
from wengert.core.dispatch import holds_traced, plain
from wengert.core.pullback import was_written
from wengert.errors import ComplexValueError
from wengert.program import passes
from wengert.program.capture import NotReplayable, capture
from wengert.program.leaves import fill
from wengert.program.program import Constant, Form, Program, Result
from wengert.program.tracing import listed
from wengert.transforms.dense import JVP, Gradient, Jacobian, Operator
from wengert.transforms.second import HVP, Hessian


def record(f, args: tuple, kwargs: dict, exact: bool) -> Program:
    """The program of `f` at some arguments, with what it reads from outside as it is now."""
    form = Form(args, kwargs)
    captures = capture(f, form.others)
    if captures.effect:
        raise NotReplayable(captures.effect)
    return trace(f, args, kwargs, captures.read(), exact)


def trace(f, args: tuple, kwargs: dict, reading, exact: bool = False) -> Program:
    """The program of `f` at some arguments; `reading` is what it reads from outside.

    Its inputs are the leaves of the arguments, and after them those of `reading`.
    """
    derive = _derivation(f, args)
    if derive is not None:
        given = (args[0], *args[2:]) if type(f) in (JVP, HVP) else args
        program = _traced(_inner, f, given, kwargs, reading, exact)
        if program.is_single:
            return derive(program)
    return _traced(lambda bound: bound, f, args, kwargs, reading, exact)


def _inner(bound):
    """The function under derivatives."""
    while isinstance(bound, Operator):
        bound = bound.f
    return bound


def _derivation(f, args):
    """How the program of a derivative is made of that of its function; None: by recording the derivative as it runs."""
    if not isinstance(f, Operator) or f.has_aux or not isinstance(f.argnums, int) or f.argnums < 0:
        return None
    if getattr(f, "with_value", False) or getattr(f, "holomorphic", False):
        return None
    if f.argnums >= len(args) or not isinstance(args[f.argnums], (np.ndarray, float)):
        return None
    make = _PROGRAMS.get(type(f))
    if make is None or (type(f) in (JVP, HVP) and f.argnums):
        return None
    if not isinstance(f.f, Operator):
        return lambda program: make(program, f.argnums)
    below = _derivation(f.f, args)
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


def _traced(inner, f, args, kwargs, reading, exact):
    form = Form(args, kwargs)
    count = len(form.leaves)
    leaves = [*form.leaves, *reading.leaves]
    if any(np.asarray(leaf).dtype.kind == "c" for leaf in leaves):
        raise ComplexValueError(f"{_name(f)}: programs are recorded of real values only")
    ends: list = []

    def run(*inputs):
        operands = reading.operands(inputs, leaves)
        given, keywords = fill((args, kwargs), iter(operands[:count]))
        y = inner(reading.bound(operands[count:]))(*given, **keywords)
        found, restore = split(y)
        ends.append(Result(None if len(found) == 1 and found[0] is y else restore, [_kind(leaf) for leaf in found]))
        if any(map(was_written, inputs)):
            raise NotReplayable(f"{_name(f)} wrote into its argument: write x = x.copy() first")
        return [leaf for leaf in found if holds_traced(leaf)]

    listing = listed(run, leaves, _name(inner(f)), exact)
    if not exact:
        listing = passes.simplified(listing)
    return Program(_name(inner(f)), listing, form, ends[0], exact, reading.leaves, leaves)


def _name(f):
    return getattr(f, "name", None) or getattr(f, "__qualname__", None) or repr(f)


def _kind(y):
    """How a leaf of the result is made of an output, if it is one."""
    if not holds_traced(y):
        return Constant(plain(y))
    return Line(type(y)) if type(y) in (list, tuple) else None


class Line:
    """A list of numbers, which is one array inside."""

    def __init__(self, kind):
        self.kind = kind

    def __call__(self, x):
        return self.kind(x)
