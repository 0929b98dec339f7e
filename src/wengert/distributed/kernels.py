"""Evaluates a function of parameters and a chunk, and its derivatives, in a worker, as functions between vectors.

A kernel K maps a point (a vector) and a chunk to a vector. Its derivatives are kernels too, with longer points:

    push    (x, tangents of x)        ->  tangents of K(x)      k directions at once
    pull    (x, cotangents of K(x))   ->  cotangents of x       k directions at once

so derivatives of every order are sequences of these steps, and each is a sum over chunks if K is.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.containers import input_leaf, output_leaf, split
from wengert.core.levels import running
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.distributed.blas import one_blas_thread
from wengert.distributed.chunks import loaded
from wengert.distributed.reduction import PairwiseSum
from wengert.errors import LevelError, TracedValueError
from wengert.program.program import Program
from wengert.program.specialise.compiled import Compiled
from wengert.transforms.dense import JVP, VJP, Gradient
from wengert.transforms.second import HVP

#: steps from K to one of its derivatives: name, number of directions, and elements of the result before the step
Steps = tuple[tuple[str, int, int], ...]

#: step of a first evaluation in reverse mode: the value and, if it is a scalar, the gradient
WITH_GRADIENT: Steps = (("value and gradient", 1, 0),)


THETA_ALONE = "derivatives are taken with respect to theta alone, so pass the value as a part of theta"


class Structure:
    """Structure of a container; builds a container from a vector of all its scalars.

    `leaf_of` converts a leaf to a traced value, an array, or a NumPy scalar.
    """

    def __init__(self, tree: Any, leaf_of: Callable[[Any], Any]):
        leaves, assemble = split(tree)
        leaves = [leaf_of(leaf) for leaf in leaves]
        self.key = tuple(np.shape(leaf) for leaf in leaves)
        self.is_scalar = [isinstance(leaf, np.generic) or var.is_scalar(leaf) for leaf in leaves]
        # placeholders that assemble to the same container as the leaves, without their elements
        self.tree = assemble([np.zeros(0) if np.ndim(x) else _zero(s) for x, s in zip(leaves, self.is_scalar)])

    @property
    def size(self) -> int:
        """Number of scalars in the container."""
        return sum(map(math.prod, self.key))

    @property
    def content(self) -> bytes | None:
        """Bytes that identify the structure, constant parts of containers included; None if it cannot be pickled."""
        try:
            return pickle.dumps((self.key, self.is_scalar, self.tree))
        except Exception:  # classes may raise anything
            return None

    def restore(self, vector: Any) -> Any:
        """Return a container with the elements of `vector`; derivatives pass through."""
        found, start = [], 0
        for shape, is_scalar in zip(self.key, self.is_scalar):
            end = start + math.prod(shape)
            found.append(vector[start] if is_scalar else np.copy(np.reshape(vector[start:end], shape)))
            start = end
        return split(self.tree)[1](found)


def _zero(is_scalar):
    return np.float64(0.0) if is_scalar else np.zeros(())


def flattened(tree: Any, name: str, leaf_of: Callable) -> Any:
    """Return all scalars of a container as a vector."""
    leaves = [np.reshape(leaf_of(leaf, name), -1) for leaf in split(tree)[0]]
    return leaves[0] if len(leaves) == 1 else np.concatenate(leaves) if leaves else np.zeros(0)


class _SeveralNumbersError(ValueError):
    """Raised by a gradient if f returns more than one number."""


class Sum(NamedTuple):
    """Result of a task: partial sums, and what the driver must know about the summands."""

    nodes: list  # level, index and vector, see `reduction.PairwiseSum`
    structure: Structure | None  # of the results of f; None for derivatives
    size: int  # elements of the value, before a gradient that may follow

    @property
    def key(self) -> tuple:
        """Structure and sizes of the results, which must be the same for all chunks."""
        return self.structure and self.structure.key, self.size, self.nodes[0][2].size


class Kernel:
    """A function of parameters and a chunk, in a worker, that returns an array, a scalar or a container of them.

    `name` names the function in messages, and `template` is the structure of the parameters. With `is_compiled`,
    programs of `f` are recorded and replayed.
    """

    def __init__(self, f: Callable, name: str, template: Structure, is_compiled: bool):
        self.f, self.name, self.template, self.is_compiled = f, name, template, is_compiled
        self._forget()

    def _forget(self):
        self.structure: Structure | None = None  # of the result; None before the first call
        self._made: dict[Any, Callable] = {}

    def __getstate__(self):
        return self.f, self.name, self.template, self.is_compiled

    def __setstate__(self, state):
        self.f, self.name, self.template, self.is_compiled = state
        self._forget()

    # -- a task

    def run(self, steps: Steps, point: np.ndarray, first: int, chunks: list) -> Sum:
        """Return the sum over consecutive chunks, the first of which has the number `first`."""
        total, reference = PairwiseSum(), None
        with one_blas_thread():
            for number, chunk in enumerate(chunks, first):
                try:
                    found = self._evaluated(steps, point, loaded(chunk), number)
                    reference = reference or found
                    check_alike(self.name, first, reference, number, found)
                except Exception as error:
                    error.add_note(f"wengert.distributed: this is chunk {number} of {self.name}")
                    if isinstance(error, ValueError) and "read-only" in str(error):
                        error.add_note("chunks are read-only: copy an array before changing it")
                    elif isinstance(error, LevelError):
                        error.add_note(THETA_ALONE)
                    raise
                total.add(*found.nodes[0])
        return reference._replace(nodes=total.nodes())

    def _evaluated(self, steps, point, chunk, number):
        """Return the sum over a single chunk."""
        if self.structure is None and (self.is_compiled or isinstance(self.f, Program)):  # before a recording needs it
            self.structure = self._structure_of(self._tree(point, chunk))
        if steps == WITH_GRADIENT and (self.structure is None or self.structure.size == 1):
            try:
                y, gradient = self._function(steps)(point, chunk)
            except _SeveralNumbersError:
                if self.structure is not None:
                    raise
                steps = ()
            else:
                vector = own(np.concatenate([np.reshape(y, 1), gradient]), self.name)
                return Sum([(0, number, vector)], self.structure, 1)
        if steps in ((), WITH_GRADIENT):
            y = self._function(())(point, chunk)
            structure = self._structure_of(y)
            vector = own(flattened(y, self.name, output_leaf), self.name)
            self.structure = self.structure or structure
            return Sum([(0, number, vector)], structure, vector.size)
        vector = own(np.reshape(self._function(steps)(point, chunk), -1), self.name)
        return Sum([(0, number, vector)], None, vector.size)

    # -- derivatives

    def _function(self, steps):
        """Return the function of a point and a chunk that results from these steps, built on first use."""
        made = self._made.get(steps)
        if made is None:
            make = self._of_program if isinstance(self.f, Program) else self._of_function
            made = self._made[steps] = make(steps)
        return made

    def _tree(self, point, chunk):
        f = rebound(self.f) if running.get() else self.f
        return f(self.template.restore(point), chunk)

    def _vector(self, point, chunk):
        return flattened(self._tree(point, chunk), self.name, output_leaf)

    def _number(self, point, chunk):
        tree = self._tree(point, chunk)
        vector = flattened(tree, self.name, output_leaf)
        if np.shape(vector) != (1,):
            raise _SeveralNumbersError(f"f returned {np.size(vector)} numbers, and one number for another chunk")
        if self.structure is None:
            self.structure = self._structure_of(tree)
        return vector[0]

    def _structure_of(self, tree):
        return Structure(tree, lambda leaf: output_leaf(leaf, self.name))

    def _named(self, method):
        """Return a function that calls a method, and has the name of the sum in messages."""

        def summand(point, chunk):
            return method(point, chunk)

        summand.__name__ = summand.__qualname__ = self.name
        return summand

    def _compiled(self, method):
        """Return a method as a function, compiled if that was requested.

        Values and gradients of exact programs have the bits of eager evaluation, so that they do not depend on what a
        worker has recorded. Other derivatives lack this property, so they are evaluated eagerly.
        """
        f = self._named(method)
        return Compiled(f, exact=True) if self.is_compiled else f

    def _gradient(self, with_value):
        f = self._compiled(self._number)
        return f.__wengert__(Gradient, (0, with_value)) if self.is_compiled else Gradient(f, 0, with_value)

    def _of_function(self, steps):
        if not steps:
            return self._compiled(self._tree)
        if steps == WITH_GRADIENT:
            return self._gradient(True)
        words = [(name, m) for name, _, m in steps]
        if words == [("pull", 1)]:
            gradient = self._gradient(False)
            return lambda point, chunk: np.outer(point[-steps[0][1] :], gradient(point[: -steps[0][1]], chunk))
        if _is_hessian(steps):
            parts = HVP(self._named(self._number)), self._gradient(False)
            return lambda point, chunk: _curved(*parts, point, chunk, steps[1][1])
        f = self._named(self._vector)
        for name, k, m in steps:
            f = _push(f, k) if name == "push" else _pull(f, k, m)
        return f

    def _of_program(self, steps):
        """Return the function that results from these steps for a program, whose derivatives are programs too."""
        program, restore = self.f, self.template.restore
        if not steps:
            return lambda point, chunk: program(restore(point), chunk)
        if steps == WITH_GRADIENT:
            gradient = program.grad()
            return lambda point, chunk: (program(restore(point), chunk), _flat(gradient(restore(point), chunk)))
        names, is_one = [name for name, _, _ in steps], len(self.template.key) == 1
        if names == ["pull"]:
            return _each_pulled(program.vjp(), program._output_shape, restore, steps[0][1:])
        if names == ["push"] and is_one:
            return _each_pushed(program.jvp(), restore, steps[0][1])
        if _is_hessian(steps) and is_one:
            products, gradient = program.hvp(), program.grad()
            return lambda point, chunk: _curved(
                lambda x, v, chunk: np.stack([_flat(products(restore(x), restore(each), chunk)) for each in v]),
                lambda x, chunk: _flat(gradient(restore(x), chunk)),
                point,
                chunk,
                steps[1][1],
            )
        raise TypeError(
            f"{self.name}: a Program gives gradients, and Jacobians and Hessians in one array; pass the function "
            "itself for other derivatives"
        )


def check_alike(name: str, first: int, reference: Sum, number: int, found: Sum) -> None:
    """Raise unless the results of f for two chunks have the same shapes."""
    if found.key != reference.key:
        raise ValueError(
            f"{name}: f returned {_shapes(found)} for chunk {number}, and {_shapes(reference)} for chunk {first}: "
            "results must have the same shapes"
        )


def _shapes(found):
    shapes = [(found.size,)] if found.structure is None else found.structure.key
    return f"shape {shapes[0]}" if len(shapes) == 1 else f"{len(shapes)} arrays of shapes {', '.join(map(str, shapes))}"


def own(vector: Any, name: str) -> np.ndarray:
    """Return a plain copy of a vector; raise an error if it holds traced values."""
    if var.holds_traced(vector):
        raise TracedValueError(f"{name}: f or a chunk holds a traced value: {THETA_ALONE}")
    return np.array(vector, copy=True)


def _push(f, k):
    def push(point, chunk):
        n = np.size(point) // (1 + k)
        return np.reshape(JVP(f)(point[:n], np.reshape(point[n:], (k, n)), chunk)[1], -1)

    return push


def _pull(f, k, m):
    def pull(point, chunk):
        n = np.size(point) - k * m
        _, pullback = VJP(f)(point[:n], chunk)
        return np.reshape(pullback(np.reshape(point[n:], (k, m))), -1)

    return pull


def _curved(products, gradient, point, chunk, k):
    """Return tangents of the cotangent of x; `point` joins x, the cotangent of the result, and the tangents of both."""
    n = point.size // (1 + k) - 1
    x, scale, tangents = point[:n], point[n], np.reshape(point[n + 1 :], (k, n + 1))
    found = scale * products(x, np.copy(tangents[:, :n]), chunk)
    if np.any(tangents[:, n]):
        found += np.outer(tangents[:, n], gradient(x, chunk))
    return found


def _is_hessian(steps):
    """Return whether the steps give products with the Hessian of a scalar function."""
    return [name for name, _, _ in steps] == ["pull", "push"] and steps[0][1:] == (1, 1)


def _each_pulled(vjp, shape, restore, directions):
    k, m = directions

    def pull(point, chunk):
        x, cotangents = restore(point[: -k * m]), np.reshape(point[-k * m :], (k, *shape))
        return np.stack([_flat(vjp(x, each, chunk)[1]) for each in cotangents])

    return pull


def _each_pushed(jvp, restore, k):
    def push(point, chunk):
        x, *tangents = np.reshape(point, (1 + k, -1))
        return np.stack([_flat(jvp(restore(x), restore(each), chunk)[1]) for each in tangents])

    return push


def _flat(tree):
    return flattened(tree, "sum_over", input_leaf)
