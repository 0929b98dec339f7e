"""Signatures of programs: flattens arguments into inputs, and builds the result of the function from outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import Placeholder, input_leaf, split
from wengert.core.operands.var import holds_traced, is_var
from wengert.errors import TracedValueError
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.tracing.pytree import fill, key_of, mapped


class Slot(Placeholder):
    """Placeholder of a leaf in a template: its index, and an optional conversion for a scalar of a result."""

    __slots__ = ("make", "number")

    def __init__(self, number: int, make: Callable | None = None):
        self.number, self.make = number, make

    def fill(self, found: list) -> Any:
        """Return this leaf, converted, from the list of all leaves."""
        y = found[self.number]
        return y if self.make is None or not isinstance(y, np.generic) or is_var(y) else self.make(y)


def refuse_traced(name: str, args: tuple, kwargs: dict) -> None:
    """Raise `TracedValueError` if an argument is traced, since a program would drop its derivative."""
    if holds_traced((*args, *kwargs.values())):
        raise TracedValueError(
            f"{name}: an argument is traced, but a program takes plain numbers and arrays: inside a derivative, call "
            "the function itself, or wengert.compile(f)"
        )


def as_floats(x: Any, name: str) -> Any:
    """Convert an argument as derivatives do: sequences of numbers to arrays, integers to floats."""
    leaves, restore = split(x)
    return restore([input_leaf(leaf, name, True) for leaf in leaves])


def as_inputs(x: Any, name: str) -> Any:
    """Convert an argument as programs do: like `as_floats`, with arrays in C order."""
    leaves, restore = split(as_floats(x, name))
    return restore([np.asarray(leaf, order="C") if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


class Form:
    """The arguments of a program: a static key, and for each argument a template with a `Slot` per leaf."""

    def __init__(self, args: tuple, kwargs: dict):
        self.leaves: list = []
        self.others: list = []
        self.templates = []
        parts = []
        for x in args:
            first = len(self.leaves)
            parts.append(key_of(x, self.leaves, self.others))
            self.templates.append(fill(x, map(Slot, range(first, len(self.leaves)))))
        self.keywords = tuple(sorted((name, key_of(x, self.leaves, self.others)) for name, x in kwargs.items()))
        self.key = _of_numbers((tuple(parts), self.keywords))
        self.count = len(self.leaves)

    def with_direction(self, direction) -> Form:
        """Return the form with a direction inserted as second argument."""
        form = copy.copy(self)
        leaves: list = []
        parts, keywords = self.key
        number = self.direction
        form.key = ((parts[0], key_of(direction, leaves, []), *parts[1:]), keywords)
        form.count = self.count + 1
        form.templates = [self.templates[0], Slot(number), *[shifted(x, 1) for x in self.templates[1:]]]
        return form

    @property
    def direction(self) -> int:
        """Index of a direction among the leaves, if it is inserted as second argument."""
        return len(_slots_of(self.templates[0])) if self.templates else 0

    def inputs_of(self, position: int) -> list[int]:
        """Return the indices of an argument's leaves."""
        return _slots_of(self.templates[position])

    def inputs_at(self, positions: tuple) -> set[int]:
        """Return the indices of the leaves of several arguments."""
        return {i for position in positions for i in self.inputs_of(position)}

    def check_parts(self, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless key and templates agree; see `wengert.program.ir.verify`."""
        check_fields(self, {"templates": list, "count": is_count, "key": tuple})
        parts, keywords = self.key
        expect(len(parts) == len(self.templates) and type(keywords) is tuple, "its key does not match its arguments")
        hash(self.key)
        found = [number for template in self.templates for number in _slots_within(template, self.count)]
        expect(found == list(range(len(found))), "the leaves of its arguments are not numbered consecutively")


def _of_numbers(key):
    """Return the key with Python floats and `numpy.float64` unified, which a program treats equally."""
    if type(key) is tuple:
        return tuple(map(_of_numbers, key))
    return "d" if key is float else key


def _slots_of(template):
    found: list = []
    mapped(template, lambda x: found.append(x.number) if type(x) is Slot else None)
    return found


def _slots_within(template, count):
    """Return the indices of a template's slots; raise `MalformedProgram` if one is not below `count`."""
    found: list = []

    def see(x):
        if type(x) is Slot:
            right = is_count(x.number) and x.number < count and (x.make is None or callable(x.make))
            expect(right, f"it refers to leaf {x.number}, but has {count} leaves")
            found.append(x.number)

    mapped(template, see)
    return found


def shifted(template, by):
    """Return a template whose leaf indices are shifted by `by`."""
    return mapped(template, lambda x: Slot(x.number + by) if type(x) is Slot else x)


class Result:
    """The result of a program: a template of the returned value, with a `Slot` per output."""

    keeps_out = False  # whether the result contains the first output itself, so that out= may supply its array

    def __init__(self, template: Any):
        self.template = template

    def __call__(self, found: list) -> Any:
        return mapped(self.template, lambda x: x.fill(found) if type(x) is Slot else _own(x))

    def check_parts(self, program: Any, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless its slots are outputs of the program; see `wengert.program.ir.verify`."""
        _slots_within(self.template, len(program._listing.outputs))


def _own(x):
    return x.copy() if type(x) is np.ndarray else x


def without_strides(key):
    """Return a key without array strides: values agree for other layouts up to rounding."""
    if type(key) is not tuple:
        return key
    if len(key) == 3 and type(key[0]) is str and type(key[1]) is type(key[2]) is tuple:
        return key[:2]
    return tuple(map(without_strides, key))
