"""A recording made reusable: a list of instructions with the form of its arguments and of its result."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from wengert.program import derive, passes
from wengert.program.leaves import key_of
from wengert.program.listing import printed
from wengert.program.vm import Machine
from wengert.transforms.costs import is_forward

#: of the pickled form; another one is refused with what to do
VERSION = 1

#: a Jacobian is written out element by element up to so many instructions, and so many for each of f's
_MOST = 20_000
_MOST_EACH = 64


class Form:
    """How arguments become the inputs of a list: their static part, and how many leaves each has."""

    def __init__(self, args: tuple, kwargs: dict):
        self.leaves: list = []
        self.others: list = []
        self.counts = []
        parts = []
        for x in args:
            before = len(self.leaves)
            parts.append(key_of(x, self.leaves, self.others))
            self.counts.append(len(self.leaves) - before)
        self.keywords = tuple(sorted((name, key_of(x, self.leaves, self.others)) for name, x in kwargs.items()))
        self.key = (tuple(parts), self.keywords)

    def with_argument(self, position: int, x) -> Form:
        """The form of a call with one more argument."""
        form = copy.copy(self)
        leaves: list = []
        parts, keywords = self.key
        form.key = ((*parts[:position], key_of(x, leaves, []), *parts[position:]), keywords)
        form.counts = [*self.counts[:position], len(leaves), *self.counts[position:]]
        return form

    def inputs_of(self, position: int) -> list[int]:
        """Numbers of the leaves of an argument."""
        start = sum(self.counts[:position])
        return list(range(start, start + self.counts[position]))


class Result:
    """How the outputs of a list become what f returned."""

    def __init__(self, restore, kinds: list):
        self.restore = restore
        self.kinds = kinds  # of each leaf: None for an array or number, list or tuple, or a constant in a `Constant`

    def __call__(self, found: list) -> Any:
        found = iter(found)
        leaves = [kind.value if type(kind) is Constant else _leaf(kind, next(found)) for kind in self.kinds]
        return leaves[0] if self.restore is None else self.restore(leaves)


class Constant:
    """A part of the result that is no array."""

    def __init__(self, value):
        self.value = value


def _leaf(kind, x):
    return x if kind is None else kind(x)


_ONE = Result(None, [None])


class Program:
    """A function as a list of instructions, to be run without Python, and to be differentiated as a list.

    Made by `wengert.record`.
    """

    def __init__(self, name, listing, form, result, exact, captured=(), example=()):
        self._name = name
        self._listing = listing
        self._form = form
        self._result = result
        self._exact = exact
        self._captured = captured
        self._example = list(example)
        self._machine = None
        self._expanded = None
        self._derived: dict = {}

    # ------------------------------------------------------------------------------------------ running

    def run(self, leaves: list) -> list:
        """Outputs at the leaves of the arguments and of what is captured."""
        return self.machine.run(leaves)

    @property
    def machine(self) -> Machine:
        """What runs the list, made at the first call."""
        if self._machine is None:
            code = passes.simplified(self._listing) if self._exact else self._listing
            self._machine = Machine(passes.lowered(code), self._exact)
        return self._machine

    def restore(self, found: list) -> Any:
        """What the function returns, of the outputs."""
        return self._result(found)

    def __call__(self, *args, out=None, **kwargs):
        form = Form(args, kwargs)
        if form.key != self._form.key:
            raise ValueError(_another(self, form))
        y = self._result(self.run([*form.leaves, *self._captured]))
        if out is None:
            return y
        out[...] = y
        return out

    # ------------------------------------------------------------------------------------------ derivatives

    def grad(self, argnums: int = 0) -> Program:
        """Program of the gradient in one argument."""
        return self._made(("grad", argnums), self._grad, argnums)

    def _grad(self, argnums):
        code = self._differentiable()
        (y,) = self._outputs("grad")
        if code.types[code.type[y]][1] != ():
            raise TypeError(f"grad({self._name}): the function must return a single number: use jacobian()")
        wrt = [code.inputs[i] for i in self._form.inputs_of(argnums)]
        return self._like("grad", derive.pulled_back(code, [(y, None)], wrt, self._example, self._exact), self._in_form(len(wrt)))

    def vjp(self, argnums: int = 0) -> Program:
        """Program of ``(x, cotangent, *args)`` that gives the value and the pullback of the cotangent."""
        return self._made(("vjp", argnums), self._vjp, argnums)

    def _vjp(self, argnums):
        code = self._differentiable()
        (y,) = self._outputs("vjp")
        wrt = [code.inputs[i] for i in self._form.inputs_of(argnums)]
        number = self._form.counts[0]
        return self._with_direction("vjp", derive.pulled_back(code, [(y, number)], wrt, self._example, self._exact), y, len(wrt))

    def jvp(self, argnums: int = 0) -> Program:
        """Program of ``(x, direction, *args)`` that gives the value and the derivative in the direction."""
        return self._made(("jvp", argnums), self._jvp, argnums)

    def _jvp(self, argnums):
        code = self._differentiable()
        (y,) = self._outputs("jvp")
        (x,) = [code.inputs[i] for i in self._form.inputs_of(argnums)]
        number = self._form.counts[0]
        return self._with_direction("jvp", derive.pushed_forward(code, [(x, number)], [y], self._example), y, 1)

    def _with_direction(self, word, longer, y, count):
        """The program of a value and a derivative in a direction, which is the second argument."""
        number = self._form.counts[0]
        direction = example_of(longer, longer.inputs[number])
        longer.outputs = [y, *longer.outputs]
        made = self._like(word, longer, Result(lambda found: (found[0], *found[1:]), [None] * (1 + count)))
        made._form = self._form.with_argument(1, direction)
        made._example.insert(number, direction)
        return made

    def hvp(self, argnums: int = 0) -> Program:
        """Program of ``(x, v, *args)`` that gives the product of the Hessian with `v`."""
        return self._made(("hvp", argnums), self._hvp, argnums)

    def _hvp(self, argnums):
        made = self.grad(argnums)._jvp(argnums)
        made._listing.outputs = made._listing.outputs[1:]
        made._listing = passes.simplified(made._listing)
        made._result = _ONE
        return made.with_name(f"hvp({self._name})")

    def jacobian(self, argnums: int = 0) -> Program:
        """Program of the Jacobian in one argument, of shape ``y.shape + x.shape``."""
        return self._made(("jacobian", argnums), self._jacobian, argnums, False)

    def hessian(self, argnums: int = 0) -> Program:
        """Program of the Hessian in one argument, exactly symmetric."""
        return self._made(("hessian", argnums), self._hessian, argnums)

    def _hessian(self, argnums):
        return self.grad(argnums)._jacobian(argnums, True, "hessian", self._name)

    def _jacobian(self, argnums, is_symmetric, word="jacobian", name=None):
        code = self._differentiable()
        (y,) = self._outputs(word)
        (x,) = [code.inputs[i] for i in self._form.inputs_of(argnums)]
        most = max(_MOST, _MOST_EACH * len(code))
        n, m = (math.prod(code.types[code.type[v]][1]) for v in (x, y))
        by_rows = not is_forward(n, m) if self._exact else m < n
        longer = derive.unrolled(code, x, y, is_symmetric, most, by_rows, self._exact)
        made = self._like(word, longer, _ONE) if longer is not None else Stacked(self, argnums, is_symmetric, by_rows)
        return made.with_name(f"{word}({name or self._name})")

    def _differentiable(self):
        if self._expanded is None:
            expanded = derive.expanded(self._listing)
            self._expanded = passes.live(expanded) if self._exact else passes.simplified(expanded)
        return self._expanded

    @property
    def is_single(self) -> bool:
        """Is the result one array or number, or a list of numbers?"""
        return len(self._listing.outputs) == len(self._result.kinds) == 1 and self._result.restore is None

    def _outputs(self, word):
        """The one output that is differentiated."""
        found = self._differentiable().outputs
        if len(found) != 1:
            raise TypeError(f"{word}({self._name}): the function must return one array or number")
        return found

    def _made(self, key, make, *args):
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = make(*args)
        return found

    def _in_form(self, count):
        return _ONE if count == 1 else Result(tuple, [None] * count)

    def _like(self, word, listing, result):
        listing = passes.live(listing) if self._exact else passes.simplified(listing)
        return Program(f"{word}({self._name})", listing, self._form, result, self._exact,
                       self._captured, self._example)

    def with_name(self, name: str) -> Program:
        self._name = name
        return self

    # ------------------------------------------------------------------------------------------ what it is

    def __len__(self):
        return len(self._listing)

    def __repr__(self):
        return f"<program of {self._name}: {len(self)} instructions>"

    def __str__(self):
        return printed(self._listing)


def example_of(code, v):
    """An array or number of the type of a value."""
    dtype, shape, _ = code.types[code.type[v]]
    return np.ones(shape, dtype) if shape else dtype.type(1.0)


class Stacked(Program):
    """A Jacobian as a loop over the program of one of its rows, or of its columns."""

    def __init__(self, program, argnums, is_symmetric, by_rows):
        code = program._differentiable()
        number = program._form.inputs_of(argnums)[0]
        self._x = code.types[code.type[code.inputs[number]]][1]
        self._y = code.types[code.type[code.outputs[0]]][1]
        self._by_rows = by_rows
        self._one = program.vjp(argnums) if self._by_rows else program.jvp(argnums)
        self._number = program._form.counts[0]
        self._is_symmetric = is_symmetric
        super().__init__("", self._one._listing, program._form, _ONE, program._exact, program._captured,
                         program._example)

    def run(self, leaves):
        shape = self._y if self._by_rows else self._x
        size = math.prod(shape)
        unit = np.zeros(size)
        found = np.empty((size, math.prod(self._x if self._by_rows else self._y)))
        for i in range(size):
            unit[i] = 1.0
            direction = unit.reshape(shape) if shape else np.float64(1.0)
            _, row = self._one.run([*leaves[: self._number], direction, *leaves[self._number :]])
            found[i] = np.ravel(row)
            unit[i] = 0.0
        found = found if self._by_rows else found.T
        if self._is_symmetric:
            found = 0.5 * (found + found.T)
        return [np.ascontiguousarray(found).reshape(self._y + self._x)[()]]


def _another(program, form):
    return (
        f"{program!r} was recorded for other arguments: their shapes, dtypes, strides and all that is no float must "
        "be the same. Record it again with these, or use wengert.compile, which does so by itself"
    )
