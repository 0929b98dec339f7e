"""`wengert.vmap`: evaluates a function of one element on a batch of them.

The function is called once on `Batch` objects (`wengert.transforms.stacked`). If it needs the value of a single
element, for example in a branch, a loop calls it once per element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import children_of, split
from wengert.core import levels
from wengert.core.dispatch import dispatch, instances
from wengert.core.dispatch.lifted import Lifted, holds_lifted
from wengert.core.levels import running
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.deferred import deferred
from wengert.transforms.dense import JVP
from wengert.transforms.operators import Operator

second = deferred("wengert.transforms.second")
stacked = deferred("wengert.transforms.stacked")

#: minimum batch size for compiling a function that solves equations: compilation takes about as long as 64 solves
MIN_COMPILED = 64


class Mapped(Operator):
    """A function vectorised over a batch axis; takes the arguments of the function, stacked along that axis."""

    word = "vmap"
    options = ("in_axes", "out_axes")
    is_derivative = False

    def __init__(self, f: Callable, in_axes: Any = 0, out_axes: Any = 0):
        super().__init__(f)
        for word, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
            if axes is None or isinstance(axes, bool) or not isinstance(axes, (int, np.integer, list, tuple, dict)):
                raise TypeError(f"{self.name}: {word} is an int, or a list, tuple or dict of them, not {axes!r}")
        self.in_axes = in_axes
        self.out_axes = out_axes
        self._loops = False  # whether a call found that f must be called once per element
        self._compiled: Any = None  # this function compiled, if f solves equations; False if it does not
        self._solve_together: Any = None  # function for f that solves equations, see `Maker.solve_together`
        self.__wrapped__ = f
        self.__name__ = self.__qualname__ = f"vmap_{getattr(f, '__name__', type(f).__name__)}"

    def __repr__(self):
        options = [f", {word}={axes!r}" for word in self.options if (axes := getattr(self, word)) != 0]
        return f"{super().__repr__()[:-1]}{''.join(options)})"

    def __call__(self, *args, **kwargs):
        elements = Elements(self, args)
        if hasattr(type(self.f), "__wengert__") and levels.lifted_around() is None:
            if self._compiled is None and not running.get():
                self.f(*elements.arguments(0), **kwargs)
                options = self.in_axes, self.out_axes
                self._compiled = getattr(self.f, "solves", False) and self.f.__wengert__(type(self), options)
            if self._compiled:
                return self._compiled(*args, **kwargs)
        if not self._loops and levels.lifted_around() is None and self._may_gain(elements):
            with levels.caught(stacked.NotBatchable, Exception):  # the loop repeats the error, if f itself raises one
                return self._at_once(elements, kwargs)
            self._loops = True
        if self._solve_together is not None and self._compiled is not False and levels.lifted_around() is None:
            found = self._solve_together(self, elements, args, kwargs)
            if found is not None:
                return found[0]
        f = rebound(self.f) if running.get() else self.f
        return self._stacked([f(*elements.arguments(i), **kwargs) for i in range(elements.size)], self.out_axes)

    def _may_gain(self, elements):
        """Return whether to try one call on the whole batch; for a derivative it fails, but detects solver calls."""
        is_derivative = isinstance(self.f, Operator) and self.f.is_derivative
        return not is_derivative or elements.size >= MIN_COMPILED or bool(running.get())

    def joined(self, results: list) -> Any:
        """Concatenate the results for parts of a batch along their batch axes."""
        parts = [split(y) for y in results]
        axes = spread(self.out_axes, results[0], f"{self.name}: out_axes")
        columns = zip(zip(*(leaves for leaves, _ in parts)), axes)
        return parts[0][1]([np.concatenate(c, normal(axis, np.ndim(c[0]), self.name)) for c, axis in columns])

    def first(self, args: tuple) -> tuple:
        """Return the arguments of the first element of a batch, or `args` if there is none."""
        elements = Elements(self, args)
        return tuple(elements.arguments(0)) if elements.size else args

    def _at_once(self, elements, kwargs):
        """Call the function once on the whole batch."""
        maker = stacked.Maker(elements.size)
        f, args = self.f, elements.together()
        try:
            with levels.lifting(maker):
                while isinstance(f, Operator) and f.is_derivative:  # a derivative refuses batches, unlike its function
                    args = [args[0], *args[2:]] if isinstance(f, (JVP, second.HVP)) else args
                    f = f.f
                y = rebound(f)(*args, **kwargs)
        finally:
            self._solve_together = maker.solve_together
        if f is not self.f or maker.is_unbatchable:
            raise stacked.NotBatchable
        levels.check_end(maker, self.name)
        return self._unbatched(y, self.out_axes, maker)

    def _unbatched(self, y, axes, maker):
        if type(y) is tuple:
            axes = axes if isinstance(axes, (list, tuple)) else [axes] * len(y)
            return tuple(self._unbatched(part, axis, maker) for part, axis in zip(y, axes, strict=True))
        leaves, restore = split(y)
        found = []
        for leaf, axis in zip(leaves, spread(axes, y, self.name)):
            leaf = instances.unwrapped(leaf) if var.may_hold_instances() else leaf
            leaf = maker.array(leaf) if isinstance(leaf, (list, tuple)) and holds_lifted(leaf) else leaf
            if isinstance(leaf, stacked.Batch):
                found.append(np.copy(np.moveaxis(leaf.v, 0, normal(axis, leaf.ndim + 1, self.name))))
            else:  # a constant, equal for all batch elements
                found.append(self._joined([leaf] * maker.size, axis))
        return restore(found)

    def _stacked(self, results, axes):
        """Stack the results of the elements, with the structure of the first; a tuple of scalars stays a tuple."""
        if all(type(y) is tuple for y in results) and len({len(y) for y in results}) == 1:
            axes = axes if isinstance(axes, (list, tuple)) else [axes] * len(results[0])
            if len(axes) != len(results[0]):
                raise ValueError(f"{self.name}: out_axes has {len(axes)} entries, a result has {len(results[0])}")
            return tuple(self._stacked(list(column), axis) for column, axis in zip(zip(*results), axes))
        parts = [split(y) for y in results]
        counts = {len(leaves) for leaves, _ in parts}
        kinds = {y.__class__ for y in results} if children_of(results[0]) is not None else set()
        if len(counts) > 1 or len(kinds) > 1:
            raise ValueError(f"{self.name}: the function returned containers of different structures")
        axes = spread(axes, results[0], f"{self.name}: out_axes")
        leaves = [self._joined(list(items), axis) for items, axis in zip(zip(*(p for p, _ in parts)), axes)]
        return parts[0][1](leaves)

    def _joined(self, items, axis):
        if axis is None:
            raise ValueError(f"{self.name}: out_axes is None, but every result has a batch axis")
        items = [_as_array(item) for item in items]
        for item in items:
            if isinstance(item, np.ndarray) and item.dtype.kind not in "biufc":
                raise TypeError(
                    f"{self.name}: the function returned {item[()]!r}, which is neither a number nor an array"
                )
        shapes = {np.shape(item) for item in items}
        if len(shapes) > 1:
            raise ValueError(f"{self.name}: the function returned arrays of different shapes: {sorted(shapes)}")
        return np.stack(items, normal(axis, len(shapes.pop()) + 1, f"{self.name}: out_axes"))


class Elements:
    """Arguments of a batched call, split into batch elements on demand."""

    def __init__(self, mapped: Mapped, args: tuple):
        name = mapped.name
        axes = mapped.in_axes
        if not isinstance(axes, (list, tuple)):
            axes = [axes] * len(args)
        if len(axes) != len(args):
            raise ValueError(f"{name}: in_axes has {len(axes)} entries, and there are {len(args)} arguments")
        self.parts = []
        sizes = {}
        for number, (spec, x) in enumerate(zip(axes, args)):
            leaves, restore = split(x)
            found = spread(spec, x, f"{name}: in_axes of argument {number}")
            settled = []
            for leaf, axis in zip(leaves, found):
                if axis is None:
                    settled.append((leaf, None))
                    continue
                leaf = _as_array(leaf)
                axis = normal(axis, np.ndim(leaf), f"{name}: in_axes of argument {number}")
                sizes.setdefault(np.shape(leaf)[axis], number)
                settled.append((leaf, axis))
            self.parts.append((settled, restore))
        if not sizes:
            raise ValueError(f"{name}: no argument has a batch axis: in_axes is None for all of them")
        if len(sizes) > 1:
            listed = ", ".join(f"{size} in argument {number}" for size, number in sizes.items())
            raise ValueError(f"{name}: the batch axes have different lengths: {listed}")
        (self.size,) = sizes
        if not self.size:
            raise ValueError(f"{name}: the batch is empty, so the shape of the result is unknown")

    def together(self):
        """Arguments of one call on the whole batch, copied."""
        make = stacked.Batch
        return [
            restore([leaf if axis is None else make(np.copy(np.moveaxis(leaf, axis, 0))) for leaf, axis in leaves])
            for leaves, restore in self.parts
        ]

    def part(self, first: int, last: int) -> tuple:
        """Arguments of a call for the elements `first` to `last`: views, with their batch axes."""
        return tuple(
            restore([leaf if axis is None else leaf[(slice(None),) * axis + (slice(first, last),)] for leaf, axis in x])
            for x, restore in self.parts
        )

    def arguments(self, i):
        """Arguments of the call for element i, copied."""
        return [restore([_element(leaf, axis, i) for leaf, axis in leaves]) for leaves, restore in self.parts]


def _element(leaf, axis, i):
    if axis is None:
        return leaf
    found = leaf[(slice(None),) * axis + (i,)]
    return np.copy(found) if np.ndim(found) else found


def _as_array(x):
    if var.may_hold_instances():
        x = instances.unwrapped(x)
    if isinstance(x, (list, tuple)) and var.holds_var(x):
        return dispatch.stacked(x)
    if holds_lifted(x):
        return x if isinstance(x, Lifted) else np.stack(x)
    if isinstance(x, np.ndarray) and instances.is_subclass(type(x)):
        return np.asarray(x)  # as in a call on the whole batch
    return x if var.is_var(x) or isinstance(x, np.ndarray) else np.asarray(x)


def normal(axis: int, ndim: int, name: str) -> int:
    """Normalise an axis to a nonnegative index."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"{name}: axis {axis} is out of bounds for an array with {ndim} axes")
    return axis % ndim


def spread(axes: Any, x: Any, name: str) -> list:
    """Return the axis of each leaf of a container; `axes` is one axis for all, or a container of the same structure."""
    if axes is None or isinstance(axes, (int, np.integer)):
        return [axes] * len(split(x)[0])
    found = children_of(x)
    if found is None:
        raise ValueError(f"{name} is {axes!r}, but the argument is a single array")
    items = found[0]
    if isinstance(axes, dict) and isinstance(x, dict) and set(axes) == set(x):
        specs = [axes[key] for key in x]
    else:
        specs = list(axes) if isinstance(axes, (list, tuple)) else (children_of(axes) or [None])[0]
        if isinstance(axes, dict) or specs is None or len(specs) != len(items):
            raise ValueError(f"{name}: {axes!r} does not match the {type(x).__name__} with {len(items)} items")
    return [axis for spec, item in zip(specs, items) for axis in spread(spec, item, name)]
