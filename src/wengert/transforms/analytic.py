"""Derivatives with respect to complex arguments, from two tangents per element: along 1 and along i.

A function is holomorphic where the second tangent is i times the first (Cauchy-Riemann equations).
Reverse mode uses two cotangents per element; for a holomorphic function their pullbacks are conjugated rows of J.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.core.modes.pullback import carried, columns, pull_back
from wengert.core.operands.var import plain
from wengert.core.tape.tape import holds_complex
from wengert.transforms.products import Recording, push, shape_of, side_by_side, size_of_inputs

#: maximum number of elements per evaluation, each with two tangents
MAX_COMPLEX_ELEMENTS = 32


def push_complex(derivative, args: tuple, kwargs: dict, chunk: int | None = None) -> Recording:
    """Evaluate f with both tangents of a block of elements at a time; the first evaluation gives value and aux.

    ``matrices`` of the result holds a pair for each output: the columns along 1 and those along i.
    """
    positions = derivative.positions(args)
    n = size_of_inputs(args, positions)
    kept, parts = None, []
    for first in range(0, max(n, 1), chunk or MAX_COMPLEX_ELEMENTS):
        width = min(chunk or MAX_COMPLEX_ELEMENTS, n - first)
        trace = _ComplexIdentity(first, width, derivative)
        options = (derivative.has_aux, derivative.name, 2 * width, trace, True)
        run = push(derivative.f, args, kwargs, positions, *options)
        found = [columns(run.level, y) for y in run.outputs]
        parts.append([(matrix[:, :width], matrix[:, width:]) for matrix in found])
        if kept is None:
            kept = run
        else:
            run.close()
    kept.matrices = [tuple(np.concatenate(side, axis=1) for side in zip(*pairs)) for pairs in zip(*parts)]
    return kept


class _ComplexIdentity:
    """Seeds inputs with rows of the identity, starting at row `first`; complex inputs also with i times these rows."""

    def __init__(self, first, width, derivative):
        self._first = self._next = first
        self._width = width
        self._derivative = derivative

    def __call__(self, level, leaf, i):
        if self._derivative.holomorphic:
            check_complex_leaf(self._derivative.name, leaf)
        first = self._first if i == 0 else self._next  # f may be run again
        self._next = first - np.size(leaf)
        ones = np.eye(self._width, np.size(leaf), first, dtype=leaf.dtype)
        other = 1j * ones if leaf.dtype.kind == "c" else np.zeros_like(ones)
        return carried(level, leaf, np.reshape(np.concatenate([ones, other]), (level.k, *np.shape(leaf))))


def check_complex_leaf(name: str, leaf) -> None:
    """Raise if an argument is real, since f would be called with a dtype that the user did not pass."""
    if leaf.dtype.kind != "c":
        raise TypeError(
            f"{name}: holomorphic=True requires complex arguments, got dtype {leaf.dtype}: pass x + 0j"
        )


def check_analytic(name: str, along, across) -> None:
    """Raise unless tangents along i equal i times those along 1, up to rounding relative to the row."""
    is_known = np.isfinite(along) & np.isfinite(across)
    gap = np.where(is_known, np.abs(across - 1j * along), 0)
    size = np.where(is_known, np.abs(along) + np.abs(across), 0)
    tolerance = float(np.finfo(along.dtype).eps) ** 0.6
    if np.any(gap > tolerance * np.max(size, axis=1, keepdims=True, initial=0)):
        raise ValueError(
            f"{name}: the function is not holomorphic here: its derivative along i is not i times the one along 1. "
            "wengert.jvp gives its derivative in a direction, wengert.grad the gradient of a real function"
        )


def holomorphic_jacobians(run: Recording) -> list:
    """Complex Jacobian of each output of a holomorphic function, as a matrix."""
    for along, across in run.matrices:
        check_analytic(run.name, plain(along), plain(across))
    return [along for along, _ in run.matrices]


def rows_along_both(run: Recording, first: int, last: int, consume: bool) -> tuple[list, list]:
    """Pull back unit vectors of output elements `first` to `last`: along 1, and along i for complex outputs."""
    k = last - first
    along = pull_back(run.tape, run.inputs, run.outputs, (first, last), k, True, False)
    seeds, offset = [], 0
    for y in run.outputs:
        size = math.prod(shape_of(y))
        rows = 1j * np.eye(k, size, first - offset)
        seeds.append(np.reshape(rows, (k, *shape_of(y))) if holds_complex(y) else None)
        offset += size
    return along, pull_back(run.tape, run.inputs, run.outputs, seeds, k, True, consume)


def complex_rows(run: Recording, first: int, last: int, consume: bool) -> list:
    """Rows of the Jacobian of complex outputs with respect to real inputs, an array for each input."""
    return [real + 1j * imag for real, imag in zip(*rows_along_both(run, first, last, consume))]


def holomorphic_rows(run: Recording, first: int, last: int, consume: bool) -> list:
    """Rows of the complex Jacobian of a holomorphic function, an array for each input."""
    for x in run.inputs:
        check_complex_leaf(run.name, x)
    along, across = rows_along_both(run, first, last, consume)
    k = last - first
    check_analytic(run.name, *[side_by_side([plain(x) for x in side], k) for side in (along, across)])
    return [np.conj(x) for x in along]
