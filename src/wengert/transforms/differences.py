"""Exact derivatives and complex steps of a function whose arguments and results are flattened into vectors."""

from __future__ import annotations

import math
import warnings

import numpy as np

from wengert.containers import input_leaf, split
from wengert.transforms.dense import JVP, VJP, Gradient


class Subject:
    """A function at a point, with its differentiated arguments and its results flattened into vectors."""

    def __init__(self, f, x, args, kwargs, argnums=0):
        self.f = f
        self.args = (x, *args)
        self.kwargs = kwargs
        self.argnums = argnums
        self.name = getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)
        self.is_single = not isinstance(argnums, tuple)
        self.positions = (argnums,) if self.is_single else argnums
        parts = [split(self.args[i]) for i in self.positions]
        self.restores = [(restore, len(leaves)) for leaves, restore in parts]
        leaves = [input_leaf(leaf, "check_derivatives") for found, _ in parts for leaf in found]
        self.shapes = [np.shape(leaf) for leaf in leaves]
        self.dtypes = [leaf.dtype for leaf in leaves]
        self.point = joined(leaves)
        self.n = self.point.size

    def of(self, f):
        """Return another function of the same arguments at the same point."""
        return Subject(f, self.args[0], self.args[1:], self.kwargs, self.argnums)

    # -- the function itself

    def arguments(self, point=None):
        """Return the arguments of f at a point, in the dtype of the point; if that is None, the given arguments."""
        if point is None:
            leaves = [part.astype(dtype) for part, dtype in zip(parted(self.point, self.shapes), self.dtypes)]
        else:
            leaves = [part.copy() for part in parted(point, self.shapes)]
        found = list(self.args)
        for i, part in zip(self.positions, self.packed([leaf[()] for leaf in leaves])):
            found[i] = part
        return found

    def packed(self, leaves):
        """Rebuild the differentiated arguments from their leaves."""
        found = []
        start = 0
        for restore, count in self.restores:
            found.append(restore(leaves[start : start + count]))
            start += count
        return found

    def leaves(self, point=None):
        """Leaves of the result of f at a point, without derivatives."""
        y = self.f(*self.arguments(point), **self.kwargs)
        return [np.asarray(leaf) for leaf in split(y)[0]]

    def value(self, point):
        """Result of f at a point as one vector."""
        return joined(self.leaves(point))

    # -- exact derivatives

    def direction(self, v):
        """Convert a vector, or k of them, to the structure of the differentiated arguments."""
        parts = [part.astype(dtype)[()] for part, dtype in zip(parted(v, self.shapes), self.dtypes)]
        packed = self.packed(parts)
        return packed[0] if self.is_single else tuple(packed)

    def forward(self, directions):
        """Return the value and the product of J with k directions, of shape (k, m)."""
        x, *rest = self.arguments()
        y, dy = JVP(self.f, self.argnums)(x, self.direction(directions), *rest, **self.kwargs)
        return split(y)[0], joined(split(dy)[0], 1)

    def reverse(self, cotangents):
        """Return the value and the product of k cotangents with J, of shape (k, n)."""
        y, pullback = VJP(self.f, self.argnums)(*self.arguments(), **self.kwargs)
        leaves, restore = split(y)
        parts = [part.astype(leaf.dtype) for part, leaf in zip(parted(cotangents, map(np.shape, leaves)), leaves)]
        return leaves, joined(self.differentiated(pullback(restore(parts))), 1)

    def gradient(self, point=None):
        """Gradient at a point, for scalar-valued f."""
        return joined(self.differentiated(Gradient(self.f, self.argnums)(*self.arguments(point), **self.kwargs)))

    def differentiated(self, found):
        """Leaves of a result with the structure of the differentiated arguments."""
        return [leaf for part in ([found] if self.is_single else found) for leaf in split(part)[0]]


def joined(leaves, lead=0):
    """Flatten and concatenate arrays into a vector of doubles; the first `lead` axes of each array are kept."""
    dtype = complex if any(np.iscomplexobj(leaf) for leaf in leaves) else float
    parts = [np.reshape(np.asarray(leaf, dtype=dtype), (*np.shape(leaf)[:lead], -1)) for leaf in leaves]
    return np.concatenate(parts, axis=-1) if parts else np.zeros(0)


def parted(vector, shapes):
    """Split a vector, or k stacked vectors, into arrays of the given shapes; inverse of `joined`."""
    shapes = list(shapes)
    ends = np.cumsum([0, *map(math.prod, shapes)])
    lead = vector.shape[:-1]
    return [vector[..., a:b].reshape((*lead, *shape)) for a, b, shape in zip(ends, ends[1:], shapes)]


# ---- reference values for exact derivatives


class ComplexSteps:
    """Derivatives by complex steps, exact to rounding; they must agree with the differences in `slopes`.

    Reference: Squire and Trapp (1998), Using complex variables to estimate derivatives of real functions.
    doi:10.1137/S003614459631241X
    """

    name = "complex step"

    def __init__(self, function, point, directions, slopes):
        with warnings.catch_warnings(action="error"):  # a cast to real values loses the derivative
            found = [function(point + 1e-150j * v) for v in directions]
        if not all(np.iscomplexobj(y) for y in found):
            raise TypeError("the function returns real values for complex arguments")
        self.values = np.stack([y.imag for y in found]) / 1e-150
        self.errors = np.zeros(self.values.shape)
        self.jumps = slopes.jumps
        self.noise = 100 * np.finfo(float).eps * np.abs(found[0].real) + 1e-100
        scale = np.abs(self.values).max(axis=0)
        if not (np.abs(self.values - slopes.values) <= 100 * slopes.errors + slopes.noise + 1e-6 * scale).all():
            raise ValueError("complex steps disagree with differences: the function is not analytic")
