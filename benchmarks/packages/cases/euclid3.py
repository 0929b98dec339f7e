"""Vectors, matrices and quaternions of games."""

import euclid3
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "euclid3"
cases = Cases()


@cases([1.0, 0.5, -0.3, 0.4])
def rotated(x):
    found = euclid3.Vector3(x[0], x[1], x[2]).rotate_around(euclid3.Vector3(0.0, 0.6, 0.8), x[3])
    return np.array([found.x, found.y, found.z])


@cases([0.3, 0.2, 0.5])
def rotated_by_quaternion(x):
    found = euclid3.Quaternion.new_rotate_euler(x[0], x[1], x[2]) * euclid3.Vector3(1.0, 2.0, 3.0)
    return np.array([found.x, found.y, found.z])


@cases([0.3, 0.2, 0.5])
def transformed(x):
    matrix = euclid3.Matrix4.new_translate(x[0], 1.0, x[1]) * euclid3.Matrix4.new_rotatez(x[2])
    found = matrix.inverse() * euclid3.Point3(1.0, 2.0, 3.0)
    return np.array([found.x, found.y, found.z])


@cases([1.0, 0.5, 2.0, 3.0])
def distance_from_sphere(x):
    sphere = euclid3.Sphere(euclid3.Point3(x[0], x[1], 0.0), 0.5)
    return sphere.connect(euclid3.Point3(x[2], x[3], 1.0)).length
