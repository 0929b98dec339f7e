"""Geometry."""

import numpy as np
from skspatial.objects import Line, Plane, Point, Sphere, Triangle, Vector

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-spatial"
cases = Cases()


@cases([1.0, 2.0, 3.0])
def distance_to_plane(x):
    return Plane(point=[0.0, 0.0, 1.0], normal=[1.0, 1.0, 2.0]).distance_point(x)


@cases([1.0, 2.0, 3.0])
def projection_onto_line(x):
    return Line(point=[0.0, 0.0, 1.0], direction=[1.0, 1.0, 2.0]).project_point(x)


@cases([1.0, 2.0, 3.0])
def angle_between_vectors(x):
    return Vector(x).angle_between(Vector([1.0, 0.5, -1.0]))


@cases([0.0, 0.1, 2.0, 0.3, 0.4, 1.5])
def area_of_triangle(x):
    return Triangle(x[:2], x[2:4], x[4:]).area()


@cases([0.1, 0.2, 1.0])
def intersection_of_line_and_sphere(x):
    first, second = Sphere([0.0, 0.0, 0.0], 2.0).intersect_line(Line(x, [1.0, 0.2, 0.1]))
    return np.concatenate([first, second])


@cases([1.0, 2.0, 3.0])
def distance_of_points(x):
    return Point(x).distance_point([0.5, 0.5, 0.5])
