"""Recording of a function on traced arguments, and its pullback.

`record` evaluates the function; all other reverse-mode code starts from the `Recording` it returns.
"""

from __future__ import annotations

import math
from _thread import allocate_lock  # `threading` takes 0.5 ms to import
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert.numpy  # noqa: F401  (registers NumPy's functions for the rebinding of code)
from wengert.containers import input_leaf, leaves_like, lowered, output_leaf, split
from wengert.core.dispatch.dispatch import from_list, stacked
from wengert.core.levels import check_end, explain, is_watched, note_stop, recording, running, stops
from wengert.core.modes.own_copies import frames_inside as frames_inside
from wengert.core.modes.own_copies import warn_written
from wengert.core.modes.pullback import (
    carried,
    check_searches,
    has_stores,
    independent,
    is_output,
    pull_back,
    was_written,
)
from wengert.core.operands.var import as_numpy, holds_traced, is_traced, level_of, tangents_of
from wengert.core.rebind.new_arrays import rerun_if_refused
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.memory import Level
from wengert.core.tape.tape import Tape, holds_complex
from wengert.deferred import deferred
from wengert.errors import ComplexValueError

custom = deferred("wengert.transforms.custom")
lost = deferred("wengert.transforms.lost")
nan_check = deferred("wengert.core.dispatch.nan_check")
nested = deferred("wengert.core.modes.nested")
second = deferred("wengert.core.modes.second")


class Recording:
    """One evaluation of a function on traced arguments: its tape, inputs and outputs."""

    name: str
    tape: Any  # a `Tape`; a `List` within another derivative; the `Level` itself in forward mode
    level: Level
    inputs: list  # traced leaves of the arguments
    outputs: list  # leaves of the result: traced values, lists of scalars, plain arrays
    restore_inputs: list | None = None  # (function that rebuilds an argument from leaves, count); None: one array
    restore_output: Callable | None = None  # rebuilds the result from leaves; None: one array
    template: Any = None  # the result as f returned it
    matrices: list | None = None  # in forward mode: the Jacobian of each output, as a matrix
    aux: Any = None
    stops: int | None = None  # value of `levels.stops` when the evaluation began, if known

    def value(self) -> Any:
        """Return the result of the function as plain values that own their memory."""
        leaves = [lowered(y, self.level) for y in self.outputs]
        leaves = [np.array(y) if isinstance(y, (list, tuple)) else y for y in leaves]
        return self.restore_output(leaves) if self.restore_output else leaves[0]

    def close(self) -> None:
        """End the derivative and free the tape."""
        self.tape.close()


@rerun_if_refused
def record(
    f: Callable, args: tuple, kwargs: dict, positions: tuple, has_aux: bool, name: str, order: int = 1,
    takes_complex: bool = False, is_gradient: bool = False,
) -> Recording:
    """Evaluate `f` with the arguments at `positions` traced, so that its outputs can be pulled back.

    `order` is the order of the derivatives that sweeps over the tape compute; with `takes_complex` arguments may be
    complex; `is_gradient`: whether the outputs are pulled back once. An exception in `f` propagates unchanged, and the
    tape is closed.
    """
    run = Recording()
    run.name = name
    around = running.get()
    run.tape = tape = nested.NestedTape(name, len(around)) if around else Tape(name)
    run.level = tape.level
    run.level.order = order
    if not around:
        run.level.is_gradient = is_gradient
    traced = list(args)
    x = args[positions[0]] if len(positions) == 1 else None
    if type(x) is np.ndarray and x.dtype == np.float64 and x.dtype.isnative:
        traced[positions[0]] = x = independent(tape, x)
        run.inputs = [x]
    else:
        _trace_leaves(run, traced, positions, lambda leaf, _: independent(tape, leaf), takes_complex)
    _run(run, f, traced, kwargs, has_aux, around)
    if has_stores(tape) and any(was_written(x) for x in run.inputs):
        warn_written(f, name)
    if not all(map(_is_traced, run.outputs)):
        lost.check(run, f, args, kwargs, positions, has_aux)
    return run


@rerun_if_refused
def push(
    f: Callable, args: tuple, kwargs: dict, positions: tuple, has_aux: bool, name: str, k: int, trace: Callable,
    takes_complex: bool = False,
) -> Recording:
    """Evaluate `f` with k tangents; ``trace(level, x, i)`` returns the traced value of input leaf i.

    If f is run again, `trace` is called again from the first leaf on.
    """
    run = Recording()
    run.name = name
    around = running.get()
    run.tape = run.level = Level(name, len(around), k)
    traced = list(args)
    x = args[positions[0]] if len(positions) == 1 else None
    if type(x) is np.ndarray and x.dtype == np.float64 and x.dtype.isnative:
        traced[positions[0]] = x = trace(run.level, x, 0)
        run.inputs = [x]
    else:
        _trace_leaves(run, traced, positions, lambda leaf, i: trace(run.level, leaf, i), takes_complex)
    _run(run, f, traced, kwargs, has_aux, around)
    if any(was_written(x) for x in run.inputs):
        warn_written(f, name)
    if not all(map(_is_traced, run.outputs)):
        lost.check(run, f, args, kwargs, positions, has_aux)
    return run


def resumed(f: Callable, tape, x, y, name: str, args: tuple, kwargs: dict, positions: tuple) -> Recording:
    """Return the recording of an evaluation that the fast path `quick` began and could not finish."""
    run = Recording()
    run.name = name
    run.tape = tape
    run.level = tape.level
    run.inputs = [x]
    try:
        with recording(tape):
            _flatten_result(run, y)
    except BaseException:
        tape.close()
        raise
    if was_written(x):
        warn_written(f, name)
    if not all(map(_is_traced, run.outputs)):
        lost.check(run, f, args, kwargs, positions, False)
    return run


def _is_traced(y) -> bool:
    """Return whether every element of a leaf of the result carries a derivative."""
    return all(map(is_traced, y)) if isinstance(y, list) else is_traced(y)


def _run(run: Recording, f: Callable, traced: list, kwargs: dict, has_aux: bool, around: tuple) -> None:
    """Call `f` on traced arguments and flatten its result."""
    if around:
        note_stop()
    run.stops = stops()
    token = running.set((*around, run.tape))
    try:
        if around and is_watched():
            nan_check.check_inputs(run.name, run.level, run.inputs)
        y = rebound(f, True, len(traced) + len(kwargs))(*traced, **kwargs)
        if has_aux:
            y, run.aux = _pair(y, run.level, run.name)
        if run.level.refused is not None or run.level.spelled is not None:
            check_end(run.level)
        _flatten_result(run, y)
    except BaseException as error:
        run.tape.close()
        explain(run.level, error)
        raise
    finally:
        running.reset(token)
    try:
        check_searches(run.tape, run.inputs)
    except BaseException:
        run.tape.close()
        raise


def _flatten_result(run: Recording, y) -> None:
    """Flatten the result of the function into `run.outputs`."""
    y = as_numpy(y)
    if is_output(run.level, y):
        run.outputs = [list(map(as_numpy, y)) if isinstance(y, (list, tuple)) else y]
        return
    leaves, run.restore_output = split(y)
    run.template = y
    run.outputs = [output_leaf(leaf, run.name, True) for leaf in leaves]
    for leaf in run.outputs:
        is_output(run.level, leaf)


def _trace_leaves(run: Recording, traced: list, positions: tuple, trace: Callable, takes_complex: bool) -> None:
    """Trace arguments that are scalars, lists or containers, or several of them; ``trace(leaf, i)`` traces a leaf."""
    run.inputs = []
    run.restore_inputs = []
    try:
        for position in positions:
            leaves, restore = split(traced[position])
            leaves = [input_leaf(leaf, run.name, takes_complex) for leaf in leaves]
            leaves = [trace(leaf, len(run.inputs) + i) for i, leaf in enumerate(leaves)]
            run.inputs += leaves
            run.restore_inputs.append((restore, len(leaves)))
            traced[position] = restore(leaves)
    except BaseException:
        run.tape.close()
        raise


def _pair(y, level, name):
    if not isinstance(y, tuple) or len(y) != 2:
        kind = y.__class__.__name__
        raise TypeError(f"{name}: with has_aux=True the function must return a pair (y, aux), not {kind}")
    return y[0], lowered(y[1], level)


class Pullback:
    """Multiplies a cotangent of shape T by J^T and returns an array of shape S; any number of times, from any thread.

    `wengert.vjp` returns it.
    """

    def __init__(self, run: Recording, single: bool):
        self._run = run
        self._single = single
        self._lock = allocate_lock()
        self._shapes = [shape_of(y) for y in run.outputs]

    def __call__(self, cotangent):
        run = self._run
        seeds = [cotangent] if run.restore_output is None else leaves_like(run.template, cotangent, run.name)
        kinds = "biufc" if any(map(holds_complex, run.outputs)) else "biuf"
        seeds, k, stacked = as_directions(seeds, self._shapes, run.name, "cotangent", "the output's shape", kinds)
        for y, seed in zip(run.outputs, seeds):
            if holds_complex(seed) and not holds_complex(y):
                raise ValueError(f"{run.name}: the cotangent has dtype {seed.dtype}, expected real numbers")
        if k == 0:
            return assemble_inputs(run, [np.empty((0, *x.shape), dtype=x.dtype) for x in run.inputs], self._single)
        if run.level.depth == 0 and holds_traced(seeds):
            if run.tape.has_complex:
                raise ComplexValueError(
                    f"{run.name}: a pullback of complex values does not accept traced cotangents: call wengert.vjp "
                    "inside "
                    "the derivative"
                )
            found = self._as_function(seeds, k, stacked)
        else:
            with self._lock:
                found = pull_back(run.tape, run.inputs, run.outputs, seeds, k, stacked, False)
        return assemble_inputs(run, found, self._single)

    def _as_function(self, seeds, k, stacked):
        """Apply the pullback to cotangents of another derivative, as a linear function whose transpose is J."""
        run = self._run
        inputs = [x.shape for x in run.inputs]

        def backward(rows):
            with self._lock:
                found = pull_back(run.tape, run.inputs, run.outputs, leaves_of_rows(rows, self._shapes), len(rows),
                                  True, False)
            return side_by_side(found, len(rows))

        def forward(rows):
            with self._lock:
                found = second.push_forward(run.tape, run.inputs, run.outputs, leaves_of_rows(rows, inputs), len(rows))
            return side_by_side(found, len(rows))

        pullback = custom.LinearMap(backward, forward, f"the pullback of {run.name}")
        found = leaves_of_rows(pullback(side_by_side(seeds, k)), inputs)
        return found if stacked else [part[0] for part in found]

    def __del__(self):
        self._run.close()

    def __repr__(self):
        return f"<pullback of {self._run.name}>"


def side_by_side(parts: list, k: int) -> np.ndarray:
    """Flatten arrays with a leading axis of length k and concatenate them into k rows."""
    flat = [part.reshape((k, -1)) for part in parts]
    return flat[0] if len(flat) == 1 else np.concatenate(flat, axis=1)


def leaves_of_rows(rows: np.ndarray, shapes: list) -> list:
    """Split k rows into arrays of the given shapes; inverse of `side_by_side`."""
    ends = np.cumsum([0, *map(math.prod, shapes)])
    return [np.reshape(rows[:, a:b], (len(rows), *shape)) for a, b, shape in zip(ends, ends[1:], shapes)]


def as_directions(
    seeds: list, shapes: list, name: str, word: str, whose: str, kinds: str = "biuf"
) -> tuple[list, int, bool]:
    """Seeds as arrays, the number of directions, and whether they are stacked along a leading axis."""
    seeds = [_as_array(seed) for seed in seeds]
    is_stacked = seeds[0].ndim == len(shapes[0]) + 1
    k = len(seeds[0]) if is_stacked else 1
    for seed, shape in zip(seeds, shapes):
        if seed.shape != ((k, *shape) if is_stacked else shape):
            stack = "(k, " + ", ".join(map(str, shape)) + ")" if shape else "(k,)"
            raise ValueError(
                f"{name}: the {word} has shape {seed.shape}, expected {whose} {shape}, or {stack} for k directions"
            )
        if seed.dtype.kind not in kinds:
            raise ValueError(f"{name}: the {word} has dtype {seed.dtype}, expected real numbers")
    return seeds, k, is_stacked


def _as_array(x):
    if not holds_traced(x):
        return np.asarray(x)
    return from_list(x)


def shape_of(y) -> tuple:
    """Shape of an output; a list of scalars is a 1-D array."""
    return y.shape if not isinstance(y, (list, tuple)) else (len(y),)


def assemble_inputs(run: Recording, leaves: list, alone: bool) -> Any:
    """Rebuild the arguments from leaves: one argument if `alone`, otherwise a tuple."""
    if run.restore_inputs is None:
        return leaves[0] if alone else (leaves[0],)
    made = []
    start = 0
    for restore, count in run.restore_inputs:
        made.append(restore(leaves[start : start + count]))
        start += count
    return made[0] if alone else tuple(made)


def tangents(run: Recording, y):
    """Tangents of an output of a forward-mode evaluation, of shape (k, *T)."""
    if isinstance(y, (list, tuple)):
        y = stacked(y)
    if level_of(y) is run.level:
        return tangents_of(y)
    return np.zeros((run.level.k, *np.shape(y)), dtype=getattr(y, "dtype", float))


def size_of_inputs(args: tuple, positions: tuple) -> int:
    """Number of elements of the differentiated arguments."""
    if len(positions) == 1 and type(args[positions[0]]) is np.ndarray:
        return args[positions[0]].size
    return sum(_size(leaf) for position in positions for leaf in split(args[position])[0])


def _size(x) -> int:
    return sum(map(_size, x)) if isinstance(x, (list, tuple)) else np.size(x)


class Directions:
    """Directions given by the user: with the shapes of the arguments, or stacked along a leading axis."""

    def __init__(self, args, positions, v, single, name):
        x = args[positions[0]]
        if single and type(x) is np.ndarray and type(v) is np.ndarray and v.dtype == np.float64 and v.shape == x.shape:
            self.leaves, self.stacked, self.k = [v], False, 1  # fast path for one array
            return
        points = [leaf for position in positions for leaf in split(args[position])[0]]
        if not single and (not isinstance(v, (tuple, list)) or len(v) != len(positions)):
            raise TypeError(f"{name}: expected a tuple of {len(positions)} directions, one per argument")
        parts = (v,) if single else v
        found = [leaf for p, part in zip(positions, parts) for leaf in leaves_like(args[p], part, name)]
        shapes = [np.shape(point) for point in points]
        kinds = "biufc" if any(map(holds_complex, points)) else "biuf"
        self.leaves, self.k, self.stacked = as_directions(
            found, shapes, name, "direction", "the argument's shape", kinds
        )
        for point, t in zip(points, self.leaves):
            if holds_complex(t) and not holds_complex(point):
                raise ValueError(
                    f"{name}: the direction has dtype {t.dtype}, expected real numbers for a real argument"
                )

    def __call__(self, level, leaf, i):
        t = self.leaves[i]
        if not self.k:  # no directions: the value still needs a tangent
            return carried(level, leaf, np.zeros((1, *np.shape(leaf))))
        return carried(level, leaf, t if self.stacked else np.reshape(t, (1, *np.shape(t))))
