"""Functions with a user-defined derivative rule: the implementation of `wengert.primitive`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import registry
from wengert.containers import plain_copy
from wengert.core import levels
from wengert.core.dispatch import dispatch
from wengert.core.modes import nested
from wengert.core.operands import var
from wengert.transforms.fallback import Slope
from wengert.transforms.pattern_vjp import DependencePattern


def primitive(f: Callable, jvp: Callable | str | None, vjp: Callable | None, sparsity: Any = None) -> Callable:
    """Wrap `f` as an opaque function with a `jvp` rule, a `vjp` rule, or both."""
    if vjp is None and jvp is None:
        raise TypeError(
            f"primitive({getattr(f, '__name__', f)}): give its rule as vjp= or jvp=, or jvp='fd' for differences"
        )
    pattern = DependencePattern(registry.dotted_name(f), sparsity)
    is_opaque = sparsity is not None or isinstance(jvp, str)
    if isinstance(jvp, str):
        jvp = _by_differences(f, jvp)
    pushes = {0: _one_direction_at_a_time(f, jvp)} if jvp is not None else {}
    pullback = _checked_pullback(f, vjp if vjp is not None else _transpose_of(f, jvp, pattern, is_opaque))
    row = registry.Primitive(f, "custom", vjps={0: pullback}, jvps=pushes, sequence=True)
    row.sparsity = sparsity

    @functools.wraps(f)
    def call(*args, **kwargs):
        if var.holds_traced(tuple(kwargs.values())):
            raise TypeError(
                f"{row.name}: pass traced values by position, since its rule returns cotangents by position"
            )
        if not var.holds_traced(args):
            return f(*var.plain(args), **kwargs)
        if any(var.holds_traced(x) for x in args if not var.is_var(x)):
            raise TypeError(f"{row.name}: pass arrays, not lists of traced values; write numpy.stack(values)")
        return dispatch.apply(row, f, args, kwargs, evaluate)

    def evaluate(*values, **kwargs):
        """Return the value of f as floats; for arguments traced by an enclosing derivative, a traced value."""
        if var.holds_traced(values):
            return call(*values, **kwargs)
        y = f(*[plain_copy(x) for x in values], **kwargs)
        if not isinstance(y, (float, int, np.ndarray, np.generic)):
            raise TypeError(f"{row.name} returned {type(y).__name__}: a primitive must return one number or array")
        dtype = np.asarray(y).dtype
        y = np.array(y, dtype=np.result_type(dtype, np.float32 if dtype.kind == "f" else np.float64))
        return y if y.ndim else y[()]

    return call


def _checked_pullback(f, vjp):
    """Adapt a vjp rule to the registry: return a list of cotangents for all arguments, with shapes checked."""

    row_name = registry.dotted_name(f)

    def pullback(ybar, y, *args, **kwargs):
        cotangents = vjp(ybar, y, *args, **kwargs)
        if len(args) == 1 and not isinstance(cotangents, (tuple, list)):
            cotangents = (cotangents,)
        if not isinstance(cotangents, (tuple, list)) or len(cotangents) != len(args):
            raise TypeError(f"the rule of {row_name} must return {len(args)} cotangents, one per argument")
        checked = []
        for i, (cotangent, x) in enumerate(zip(cotangents, args)):
            if cotangent is None:
                cotangent = _MissingCotangent(f, i)
            elif np.shape(cotangent) != np.shape(x):
                raise ValueError(
                    f"the rule of {row_name} returned a cotangent of shape {np.shape(cotangent)} "
                    f"for argument {i}, which has shape {np.shape(x)}"
                )
            checked.append(cotangent)
        return checked

    return pullback


def _one_direction_at_a_time(f, jvp):
    """Adapt a jvp rule to the registry: tangents have a leading axis of directions."""

    def push(tangents, y, *args, **kwargs):
        rows = [tuple(tangent[j] for tangent in tangents) for j in range(len(tangents[0]))]
        return np.stack([_tangent(f, jvp, t, y, args, kwargs) for t in rows])

    return push


def _tangent(f, jvp, t, y, args, kwargs):
    """Apply a jvp rule to one direction and check the shape."""
    dy = jvp(t[0] if len(args) == 1 else t, y, *args, **kwargs)
    if np.shape(dy) != np.shape(y):
        raise ValueError(
            f"the rule of {registry.dotted_name(f)} returned a tangent of shape {np.shape(dy)} "
            f"for a result of shape {np.shape(y)}"
        )
    return dy


def _by_differences(f, jvp):
    """Rule for tangents by finite differences, itself a primitive so that it can be recorded."""
    if jvp != "fd":
        raise ValueError(f"primitive({getattr(f, '__name__', f)}): jvp is a function or 'fd', not {jvp!r}")
    rule = Slope(f)
    slope = primitive(rule, rule.refuse, rule.refuse)

    def push(t, y, *args, **kwargs):
        return slope(*(t if len(args) > 1 else (t,)), *args, **kwargs)

    return push


def _transpose_of(f, jvp, pattern, is_opaque):
    """Pullback as the transpose of a jvp rule, which is linear in its tangents."""

    def vjp(ybar, y, *args, **kwargs):
        return [_transposed_cotangent(f, jvp, pattern, is_opaque, i, ybar, y, args, kwargs) for i in range(len(args))]

    return vjp


def _transposed_cotangent(f, jvp, pattern, is_opaque, i, ybar, y, args, kwargs):
    if getattr(args[i], "dtype", np.dtype(object)).kind != "f":
        return None

    def tangent(t):
        given = tuple(t if j == i else np.zeros(np.shape(x)) for j, x in enumerate(args))
        return _tangent(f, jvp, given, y, args, kwargs)

    if not is_opaque:
        row = np.reshape(ybar, (1, *np.shape(ybar)))
        values = (row, y, args, tuple(kwargs.values()))
        with levels.caught(*() if var.holds_traced(values) else (TypeError,)):  # the rule may call compiled code
            return nested.transposed(tangent, registry.dotted_name(f), args[i], row, values)[0]
    return pattern.cotangent(tangent, i, ybar, y, args[i])


class _MissingCotangent:
    """Placeholder for a cotangent that a rule does not give; raises as soon as it is used."""

    def __init__(self, f, i):
        self.f = f
        self.i = i

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"the rule of {registry.dotted_name(self.f)} returns no cotangent for argument {self.i}, which is traced: "
            "pass wengert.stop_gradient(value) if it is meant to be a constant"
        )


class LinearMap:
    """Linear map along the last axis, given by two functions on the rows of a matrix: the map and its transpose.

    It is differentiable in every mode, also in nested derivatives, and maps all directions of a sweep at once.
    """

    def __init__(self, forward: Callable, backward: Callable, name: str):
        self.forward = forward
        self.backward = backward
        self.name = name

    @property
    def transpose(self) -> LinearMap:
        return LinearMap(self.backward, self.forward, self.name)

    def __call__(self, x):
        if var.holds_traced(x):
            return dispatch.apply(self._row(), self, (x,), {})
        x = var.plain(x)
        y = self.forward(np.reshape(x, (-1, x.shape[-1])))
        return np.reshape(y, x.shape[:-1] + y.shape[1:])

    def _row(self):
        return registry.Primitive(
            self.name,
            "linear",
            vjps={0: lambda ybar, y, x: self.transpose(ybar)},
            jvps={0: lambda t, y, x: self(t)},
            stacked=True,
            curvature="none",
        )
