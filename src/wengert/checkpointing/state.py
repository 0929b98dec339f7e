"""Loop states: flattening into leaves, rebuilding, comparison; and snapshots of random generators.

Every list and tuple is a container here. Leaves are arrays, scalars and any other objects, which are kept unchanged.
Each array leaf is copied at the beginning of every step, so steps may work in place.
"""

from __future__ import annotations

import functools
import hashlib
import random
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import children_of, rest_of
from wengert.core.operands import var
from wengert.program.tracing.pytree import contents_key


class Form:
    """Structure of a state: `restore` rebuilds a state from leaves, `names` describes their positions."""

    def __init__(self, state):
        self.names: list[str] = []
        self._shape, self._build = self._flatten(state, "")

    def _flatten(self, x, name):
        found = _children(x)
        if found is None:
            self.names.append(name or "the state")
            return None, None
        items, restore, keys = found
        parts = [self._flatten(item, f"{name}[{key!r}]") for key, item in zip(keys, items)]
        return (x.__class__, tuple(keys), tuple(shape for shape, _ in parts)), (restore, [build for _, build in parts])

    def restore(self, leaves: list) -> Any:
        return self._rebuild(self._build, iter(leaves))

    def _rebuild(self, build, leaves):
        if build is None:
            return next(leaves)
        restore, parts = build
        return restore([self._rebuild(part, leaves) for part in parts])

    def leaves(self, x: Any) -> list | None:
        """Return the leaves of a container of this structure; None if the structure differs."""
        found: list = []
        return found if _collect(x, self._shape, found) else None


def _collect(x, shape, found):
    children = _children(x)
    if children is None or shape is None:
        found.append(x)
        return children is None and shape is None
    kind, keys, parts = shape
    items, _, others = children
    if x.__class__ is not kind or tuple(others) != keys:  # `__class__` also matches the proxy of a class
        return False
    return all(_collect(item, part, found) for item, part in zip(items, parts))


def _children(x) -> tuple[list, Callable, Any] | None:
    if var.is_var(x):
        return None
    if type(x) in (list, tuple):
        return list(x), type(x), range(len(x))
    found = children_of(x)
    if found is None:
        return None
    items, restore = found
    rest = rest_of(x)
    names = list(x) if isinstance(x, dict) else range(len(items))
    return items, restore, [*names, contents_key(rest, [])] if rest != () else names


def is_number(x: Any) -> bool:
    """Return whether a leaf is an array or a scalar."""
    return isinstance(x, (np.ndarray, np.generic, bool, int, float, complex))


def is_inexact(x: Any) -> bool:
    """Return whether a leaf can carry a derivative."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np.dtype(x.dtype).kind in "fc"
    return isinstance(x, (float, complex))


def as_numpy(x: Any) -> Any:
    return np.float64(x) if type(x) is float else np.complex128(x) if type(x) is complex else x


def own(x: Any) -> Any:
    """Copy a leaf; if it is traced, the copy is traced too."""
    if var.is_var(x):
        x = var.as_numpy(x)
        return +x if np.dtype(x.dtype).kind != "b" else np.copy(x)
    return x.copy(order="K") if isinstance(x, np.ndarray) else x


def check_same(names: list, before: list, after: list, name: str) -> None:
    """Raise unless two states have leaves of the same shapes."""
    for where, old, new in zip(names, before, after):
        if is_number(old) and not is_number(new):
            raise ValueError(f"{name}: the step returned {type(new).__name__} where {where} was a number or an array")
        shapes = getattr(old, "shape", ()), getattr(new, "shape", ())
        if shapes[0] != shapes[1] and is_number(old) and is_number(new):
            raise ValueError(
                f"{name}: {where} has shape {shapes[1]} after the step and {shapes[0]} before it: "
                "the shapes of a state may not change"
            )


def are_equal(one: list, other: list) -> bool:
    """Return whether the numeric leaves of two states are equal."""
    return all(
        np.array_equal(var.plain(a), var.plain(b), equal_nan=is_inexact(a))
        for a, b in zip(one, other)
        if is_number(a) and is_number(b)
    )


def digest(leaves: list) -> int:
    """Return a hash of the bytes of a state's numeric leaves."""
    found = hashlib.blake2b(digest_size=8)
    for leaf in leaves:
        if is_number(leaf):
            found.update(np.ascontiguousarray(var.plain(leaf)).tobytes())
    return int.from_bytes(found.digest(), "little")


def size_of(leaves: list, directions: int) -> int:
    """Return the bytes of a stored state with tangents in `directions` directions."""
    return sum(
        (np.size(x) * np.dtype(getattr(x, "dtype", float)).itemsize * (1 + directions) + 200) if is_number(x) else 200
        for x in leaves
    )


# ---- random generators


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


def generators_of(step: Callable, others: list) -> list:
    """Return the random generators in arguments of a step and in variables, defaults and attributes that it reads."""
    found: dict[int, Any] = {}

    def look(x, depth):
        if isinstance(x, _GENERATORS):
            found[id(x)] = x
            return
        children = _children(x) if depth else None
        for item in children[0] if children else ():
            look(item, depth - 1)

    for x in [*others, *_read_by(step)]:
        look(x, 3)
    return list(found.values())


def _read_by(step):
    """Return objects that a function, a method, a partial or a callable object reads from outside."""
    if isinstance(step, functools.partial):
        return [*step.args, *step.keywords.values(), *_read_by(step.func)]
    if isinstance(step, types.MethodType):
        return [*vars(step.__self__).values(), *_read_by(step.__func__)] if hasattr(step.__self__, "__dict__") else []
    step = getattr(step, "__wrapped__", step)
    if not isinstance(step, types.FunctionType):
        return list(vars(step).values()) if hasattr(step, "__dict__") else []
    cells = []
    for cell in step.__closure__ or ():
        try:
            cells.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    names = [step.__globals__.get(name) for name in step.__code__.co_names]
    return [*cells, *(step.__defaults__ or ()), *(step.__kwdefaults__ or {}).values(), *names]


def snapshot(generators: list) -> list:
    return [_state_of(generator) for generator in generators]


def rewind(generators: list, states: list) -> None:
    for generator, state in zip(generators, states):
        if isinstance(generator, np.random.Generator):
            generator.bit_generator.state = state
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(state)
        else:
            generator.setstate(state)


def _state_of(generator):
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state() if isinstance(generator, np.random.RandomState) else generator.getstate()


def global_generator() -> np.random.RandomState:
    """Return NumPy's global generator, used by ``np.random.rand`` and similar functions."""
    return np.random.mtrand._rand


def global_rng_state() -> tuple:
    """Return the state of NumPy's global generator in a comparable form."""
    _, keys, position, has_gauss, gauss = global_generator().get_state()
    return keys.tobytes(), position, has_gauss, gauss
