"""A function and example arguments to a program."""

from __future__ import annotations

import numpy as np

from wengert.containers import split
from wengert.core.dispatch import holds_traced, plain
from wengert.core.rebind import rebound
from wengert.program import passes
from wengert.program.leaves import fill
from wengert.program.program import Constant, Form, Program, Result
from wengert.program.tracing import listed


def trace(f, args: tuple, kwargs: dict, exact: bool = False) -> Program:
    """The program of `f` at some arguments."""
    form = Form(args, kwargs)
    name = getattr(f, "__name__", None) or repr(f)
    ends = []

    def run(*operands):
        args_, kwargs_ = fill((args, kwargs), iter(operands))
        y = rebound(f)(*args_, **kwargs_)
        leaves, restore = split(y)
        ends.append(Result(None if len(leaves) == 1 and leaves[0] is y else restore, [_kind(y) for y in leaves]))
        return [y for y in leaves if holds_traced(y)]

    listing = passes.simplified(listed(run, form.leaves, name))
    return Program(name, listing, form, ends[0], exact, (), form.leaves)


def _kind(y):
    """How a leaf of the result is made of an output, if it is one."""
    if not holds_traced(y):
        return Constant(plain(y))
    return _from_line(type(y)) if type(y) in (list, tuple) else None


def _from_line(kind):
    return lambda x: kind(np.float64(item) for item in x)
