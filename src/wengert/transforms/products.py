"""Products with derivatives: f recorded once on traced arguments, and its pullback.

`record` runs the function; everything else that differentiates in reverse starts from the `Recording` it returns.
"""

from __future__ import annotations

import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert.numpy  # noqa: F401  (makes NumPy's functions known to the rebinding of code)
from wengert.containers import input_leaf, leaves_like, output_leaf, plain_copy, split
from wengert.core.levels import running
from wengert.core.pullback import has_stores, independent, is_output, pull_back, was_written
from wengert.core.rebind import rebound
from wengert.core.tape import Tape
from wengert.core.var import holds_traced
from wengert.errors import LevelError, MutatedInputWarning

_warned: weakref.WeakSet = weakref.WeakSet()


class Recording:
    """One run of a function on traced arguments: its tape, the traced inputs, and what it returned."""

    name: str
    tape: Tape
    inputs: list  # traced leaves of the arguments
    outputs: list  # leaves of what was returned: operands, lists of scalars, plain arrays
    restore_inputs: list | None = None  # (function that puts leaves into a container, how many); None: one array
    restore_output: Callable | None = None  # None: one array
    template: Any = None  # the container that was returned
    aux: Any = None

    def value(self) -> Any:
        """What the function returned, as plain values of their own."""
        leaves = [np.array(plain_copy(y)) if isinstance(y, (list, tuple)) else plain_copy(y) for y in self.outputs]
        return self.restore_output(leaves) if self.restore_output else leaves[0]

    def close(self) -> None:
        """End the derivative and free the tape."""
        self.tape.close()


def record(f: Callable, args: tuple, kwargs: dict, positions: tuple, has_aux: bool, name: str) -> Recording:
    """Run `f` with the arguments at `positions` traced.

    An exception in `f` surfaces unchanged, with the tape closed.
    """
    run = Recording()
    run.name = name
    run.tape = tape = Tape(name)
    traced = list(args)
    x = args[positions[0]] if len(positions) == 1 else None
    if type(x) is np.ndarray and x.dtype == np.float64 and x.dtype.isnative:
        traced[positions[0]] = x = independent(tape, x)
        run.inputs = [x]
    else:
        _trace_leaves(run, traced, positions)
    token = running.set(tape)
    try:
        y = rebound(f)(*traced, **kwargs)
        if has_aux:
            y, run.aux = _pair(y, tape, name)
        if is_output(tape, y):
            run.outputs = [y]
        else:
            leaves, run.restore_output = split(y)
            run.template = y
            run.outputs = [output_leaf(leaf, name) for leaf in leaves]
            for leaf in run.outputs:
                is_output(tape, leaf)
    except BaseException:
        tape.close()
        raise
    finally:
        running.reset(token)
    if has_stores(tape) and any(was_written(x) for x in run.inputs):
        _warn_once(f, name)
    return run


def _trace_leaves(run: Recording, traced: list, positions: tuple) -> None:
    """Trace arguments that are numbers, lists, containers, or several."""
    run.inputs = []
    run.restore_inputs = []
    try:
        for position in positions:
            leaves, restore = split(traced[position])
            leaves = [independent(run.tape, input_leaf(leaf, run.name)) for leaf in leaves]
            run.inputs += leaves
            run.restore_inputs.append((restore, len(leaves)))
            traced[position] = restore(leaves)
    except BaseException:
        run.tape.close()
        raise


def _pair(y, tape, name):
    if not isinstance(y, tuple) or len(y) != 2:
        kind = y.__class__.__name__
        raise TypeError(f"{name}: with has_aux=True the function must return a pair (y, aux), not {kind}")
    return y[0], plain_copy(y[1], lambda x: is_output(tape, x))


def _warn_once(f, name):
    try:
        if f in _warned:
            return
        _warned.add(f)
    except TypeError:  # no weak reference to it: warn each time
        pass
    warnings.warn(
        f"{name}: the function wrote into its argument; the caller's array was left as it was. "
        "Write x = x.copy() first if the change is local",
        MutatedInputWarning,
        stacklevel=_outside(),
    )


def _outside() -> int:
    """Stack level, counted from the caller, of the first frame that is not in this package."""
    level = 1
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "wengert":
        frame = frame.f_back
        level += 1
    return level


class Pullback:
    """Maps a cotangent of shape T to J^T times it, of shape S; any number of times, from any thread.

    Made by `wengert.vjp`.
    """

    def __init__(self, run: Recording, single: bool):
        self._run = run
        self._single = single
        self._lock = threading.Lock()
        self._shapes = [shape_of(y) for y in run.outputs]

    def __call__(self, cotangent):
        run = self._run
        seeds = [cotangent] if run.restore_output is None else leaves_like(run.template, cotangent, run.name)
        seeds, k, stacked = as_directions(seeds, self._shapes, run.name, "cotangent", "the output's shape")
        if k == 0:
            return assemble_inputs(run, [np.empty((0, *x.shape), dtype=x.dtype) for x in run.inputs], self._single)
        with self._lock:
            found = pull_back(run.tape, run.inputs, run.outputs, seeds, k, stacked, False)
        return assemble_inputs(run, found, self._single)

    def __del__(self):
        self._run.close()

    def __repr__(self):
        return f"<pullback of {self._run.name}>"


def as_directions(seeds: list, shapes: list, name: str, word: str, whose: str) -> tuple[list, int, bool]:
    """Seeds as arrays, how many directions they are, and whether they are stacked: those have one axis more."""
    if any(holds_traced(seed) for seed in seeds):
        raise LevelError(
            f"{name}: the {word} is traced by another derivative that is running; "
            "derivatives of derivatives are not available in this version"
        )
    seeds = [np.asarray(seed) for seed in seeds]
    stacked = seeds[0].ndim == len(shapes[0]) + 1
    k = len(seeds[0]) if stacked else 1
    for seed, shape in zip(seeds, shapes):
        if seed.shape != ((k, *shape) if stacked else shape):
            stack = "(k, " + ", ".join(map(str, shape)) + ")" if shape else "(k,)"
            raise ValueError(
                f"{name}: the {word} has shape {seed.shape}, expected {whose} {shape}, or {stack} for k directions"
            )
        if seed.dtype.kind not in "biuf":
            raise ValueError(f"{name}: the {word} has dtype {seed.dtype}, expected real numbers")
    return seeds, k, stacked


def shape_of(y) -> tuple:
    """Shape of an output; a list of scalars is an array of one axis."""
    return y.shape if not isinstance(y, (list, tuple)) else (len(y),)


def assemble_inputs(run: Recording, leaves: list, alone: bool) -> Any:
    """Leaves put back into the form of the arguments: one of them, or a tuple."""
    if run.restore_inputs is None:
        return leaves[0] if alone else (leaves[0],)
    made = []
    start = 0
    for restore, count in run.restore_inputs:
        made.append(restore(leaves[start : start + count]))
        start += count
    return made[0] if alone else tuple(made)
