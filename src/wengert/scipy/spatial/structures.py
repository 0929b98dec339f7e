"""Trees and convex hulls of points: the structure is plain, distances and volumes have derivatives."""

import importlib
import math

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError
from wengert.scipy import namespace, objects
from wengert.scipy.standin import StandIn

_scipy = importlib.import_module("scipy.spatial")


class cKDTree(StandIn, of=_scipy.cKDTree):
    """``scipy.spatial.cKDTree``; distances to neighbours are functions of the points and of the data."""

    _scipy_class = _scipy.cKDTree

    def __init__(self, data, *args, **options):
        self.data = dispatch.from_list(data)
        self._make = lambda data: self._scipy_class(data, *args, **options)
        self._plain = self._make(var.plain(self.data))

    def query(self, x, k=1, eps=0.0, p=2.0, distance_upper_bound=np.inf, workers=1):
        x = dispatch.from_list(x)
        if not var.holds_traced((x, self.data)):
            return self._plain.query(x, k, eps, p, distance_upper_bound, workers)

        def neighbours(x, data):
            tree = self._make(data) if var.is_traced(self.data) else self._plain
            return tree.query(x, k, eps, p, distance_upper_bound, workers)

        places = namespace.computed(lambda *args: neighbours(*args)[1], x, self.data)
        distances = neighbours(*var.plain((x, self.data)))[0]
        is_found = places < len(self.data)
        near = self.data[np.where(is_found, places, 0)]
        x = x if np.ndim(near) == np.ndim(x) else x[..., None, :]
        found = np.where(is_found, np.linalg.norm(x - near, ord=p, axis=-1), np.inf)
        return namespace.with_value(found, distances), places

    def __getattr__(self, name):
        value = getattr(object.__getattribute__(self, "_plain"), name)
        if name in _INDICES:
            return lambda *args, **options: self._indices(name, args, options)
        if callable(value) and var.is_traced(self.data):
            return _refusing(f"scipy.spatial.KDTree.{name}")
        return value

    def _indices(self, name, args, options):
        """Call a method of SciPy's tree that returns indices or counts of points."""
        if name == "count_neighbors" and var.holds_traced((args[3:4], options.get("weights"))):
            raise UnsupportedFunctionError(
                f"scipy.spatial.KDTree.count_neighbors has no derivative in weights{at()}: sum the weights of the "
                "pairs that query_ball_tree finds"
            )
        args, options = [*map(_observed, args)], {key: _observed(value) for key, value in options.items()}
        return getattr(_observed(self), name)(*args, **options)


class KDTree(cKDTree, of=_scipy.KDTree):
    """``scipy.spatial.KDTree``, as `cKDTree`."""

    _scipy_class = _scipy.KDTree


def _converted(tree):
    """Convert a tree made by SciPy, or of a class of the user that derives from SciPy's."""
    found = object.__new__(objects.derived(type(tree)))
    found.__dict__ |= {name: objects.recast(value) for name, value in getattr(tree, "__dict__", {}).items()}
    found.data, found._plain = tree.data, tree
    return found


#: methods of trees that return indices or numbers of points
_INDICES = {"count_neighbors", "query_ball_point", "query_ball_tree", "query_pairs"}


def _observed(x):
    """Return the plain value of an argument, on which the control flow of f may depend."""
    if isinstance(x, cKDTree):
        return x._make(var.observed(x.data)) if var.is_traced(x.data) else x._plain
    return var.observed(dispatch.from_list(x))


def _refusing(name):
    def refuse(*args, **options):
        raise UnsupportedFunctionError(f"{name} has no derivative{at()}: use query, or numpy.linalg.norm")

    return refuse


class ConvexHull(StandIn):
    """``scipy.spatial.ConvexHull``; volume and area are functions of the points on the hull."""

    def __init__(self, points, *args, **options):
        self.points = dispatch.from_list(points)
        self._plain = _scipy.ConvexHull(var.observed(self.points), *args, **options)

    @property
    def volume(self):
        corners = self.points[self._plain.simplices] - np.mean(self.points, axis=0)
        parts = np.abs(np.linalg.det(corners)) / math.factorial(np.shape(corners)[-1])
        return namespace.with_value(np.sum(parts), np.float64(self._plain.volume))

    @property
    def area(self):
        corners = self.points[self._plain.simplices]
        edges = corners[:, 1:] - corners[:, :1]
        gram = edges @ np.swapaxes(edges, -1, -2)
        parts = np.sqrt(np.linalg.det(gram)) / math.factorial(np.shape(edges)[-2])
        return namespace.with_value(np.sum(parts), np.float64(self._plain.area))

    def __getattr__(self, name):
        if name == "equations" and var.is_traced(self.points):
            raise UnsupportedFunctionError(
                f"scipy.spatial.ConvexHull.equations has no derivative{at()}: compute the planes from "
                "hull.points[hull.simplices]"
            )
        return getattr(object.__getattribute__(self, "_plain"), name)


class Delaunay(StandIn):
    """``scipy.spatial.Delaunay``: plain simplices of points, which may be traced."""

    def __init__(self, points, *args, **options):
        self.points = dispatch.from_list(points)
        self._plain = _scipy.Delaunay(var.observed(self.points), *args, **options)

    @classmethod
    def _like(cls, triangulation):
        found = object.__new__(cls)
        found.points, found._plain = triangulation.points, triangulation
        return found

    def find_simplex(self, xi, bruteforce=False, tol=None):
        return namespace.computed(lambda xi: self._plain.find_simplex(xi, bruteforce, tol), dispatch.from_list(xi))

    def __getattr__(self, name):
        if name in ("transform", "equations", "plane_distance", "lift_points", "paraboloid_scale") and var.is_traced(
            self.points
        ):
            raise UnsupportedFunctionError(
                f"scipy.spatial.Delaunay.{name} has no derivative{at()}: compute it from tri.points[tri.simplices]"
            )
        return getattr(object.__getattribute__(self, "_plain"), name)


objects.register_conversion(_scipy.Delaunay, Delaunay._like)
for _tree in (_scipy.KDTree, _scipy.cKDTree):
    objects.register_conversion(_tree, _converted, has_subclasses=True)
