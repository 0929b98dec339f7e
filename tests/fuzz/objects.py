"""Trees of objects in containers, and random changes of them: compiled functions must see every change.

`draw` makes a tree, whose `value` reads all of it, and `change` one change: of a number, an array in place, an option,
a function, an object in a container, or a container.
"""

from __future__ import annotations

import collections
import types

import numpy as np

FUNCTIONS = [np.sin, np.exp, np.tanh, lambda t: t * t]


class Wave:
    """Branches on an option."""

    def __init__(self, rng):
        self.shift, self.rates, self.kind = rng.uniform(0.5, 2.0), rng.uniform(0.5, 2.0, 2), str(rng.choice(["s", "c"]))

    def value(self, x):
        t = self.rates[0] * x[0] + self.shift * x[1]
        return np.sin(t) if self.kind == "s" else np.cos(t)

    def change(self, rng):
        match rng.integers(4):
            case 0:
                self.shift = rng.uniform(0.5, 2.0)
            case 1:
                self.rates[0] = rng.uniform(0.5, 2.0)
            case 2:
                self.rates = rng.uniform(0.5, 2.0, 2)
            case 3:
                self.kind = "c" if self.kind == "s" else "s"


class Table:
    """Makes an array when it is first needed."""

    def __init__(self, rng):
        self.known, self.size, self.scale = None, int(rng.integers(2, 5)), rng.uniform(0.5, 2.0)

    def entries(self):
        if self.known is None:
            self.known = np.linspace(0.5, 1.0, self.size) * self.scale
        return self.known

    def value(self, x):
        return np.sum(self.entries()) * x[0] ** 2

    def change(self, rng):
        if self.known is not None and rng.integers(2):
            self.known[0] = rng.uniform(1.0, 3.0)
        else:
            self.known, self.size, self.scale = None, int(rng.integers(2, 5)), rng.uniform(0.5, 2.0)


class Gain:
    """Is called, reads a dictionary, and an attribute of its class unless the object has its own."""

    scale = 1.5

    def __init__(self, rng):
        self.factors = {"gain": rng.uniform(0.5, 2.0)}

    def __call__(self, x):
        return self.factors["gain"] * x[1] * self.scale

    value = __call__

    def change(self, rng):
        match rng.integers(3):
            case 0:
                self.factors["gain"] = rng.uniform(0.5, 2.0)
            case 1:
                self.factors = {"gain": rng.uniform(0.5, 2.0)}
            case 2:
                self.scale = rng.uniform(0.5, 2.0)


class Applied:
    """Holds a function."""

    def __init__(self, rng):
        self.f, self.factors = FUNCTIONS[rng.integers(len(FUNCTIONS))], [rng.uniform(0.5, 2.0)]

    def value(self, x):
        return self.f(x[0] * self.factors[0])

    def change(self, rng):
        if rng.integers(2):
            self.f = FUNCTIONS[rng.integers(len(FUNCTIONS))]
        else:
            self.factors[0] = rng.uniform(0.5, 2.0)


LEAVES = [Wave, Table, Gain, Applied]
CONTAINERS = [
    list,
    tuple,
    collections.deque,
    lambda items: dict(enumerate(items)),
    lambda items: collections.OrderedDict(enumerate(items)),
    lambda items: types.SimpleNamespace(items=items),
]


class Sum:
    """Adds up the values of the objects in a container."""

    def __init__(self, rng, depth):
        self.make = CONTAINERS[rng.integers(len(CONTAINERS))]
        self.terms = self.make([draw(rng, depth - 1) for _ in range(rng.integers(1, 4))])
        self.weight = rng.uniform(0.5, 2.0)

    def items(self):
        if isinstance(self.terms, dict):
            return self.terms.values()
        return self.terms.items if isinstance(self.terms, types.SimpleNamespace) else self.terms

    def value(self, x):
        total = 0.0
        for term in self.items():
            total = total + term.value(x)
        return total * self.weight

    def change(self, rng):
        if rng.integers(4) == 0:
            self.weight = rng.uniform(0.5, 2.0)
            return
        new, items = draw(rng, int(rng.integers(2))), [*self.items()]
        k = int(rng.integers(len(items)))
        if rng.integers(2) or isinstance(self.terms, tuple):
            self.terms = self.make([*items[:k], new, *items[k + 1 :]])
        elif isinstance(self.terms, dict):
            self.terms[next(key for i, key in enumerate(self.terms) if i == k)] = new
        elif rng.integers(2):
            self.items()[k] = new
        else:
            self.items().append(new)


def draw(rng, depth):
    """Return a random tree of at most this depth."""
    if depth <= 0 or rng.random() < 0.2:
        return LEAVES[rng.integers(len(LEAVES))](rng)
    return Sum(rng, depth)


def nodes(tree):
    """Return all objects of a tree."""
    return [tree, *[node for term in (tree.items() if isinstance(tree, Sum) else ()) for node in nodes(term)]]


def change(rng, tree):
    """Change one object of a tree."""
    found = nodes(tree)
    found[rng.integers(len(found))].change(rng)
