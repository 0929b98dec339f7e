"""Rotations and projections."""

import numpy as np
import pyrr
from pyrr import Matrix44, Vector3

from benchmarks.packages.cases import Cases

PACKAGE = "pyrr"
cases = Cases()


@cases([0.1, 0.2, 0.3])
def matrix_of_angles(x):
    return pyrr.matrix44.create_from_eulers(x)


@cases(0.4)
def matrix_of_rotation(theta):
    return pyrr.matrix33.create_from_axis_rotation(np.array([1.0, 0.0, 0.0]), theta)


@cases([0.1, 0.2, 0.3, 0.9, 0.4])
def interpolated(x):
    return pyrr.quaternion.slerp(pyrr.quaternion.normalize(x[:4]), np.array([0.0, 0.0, 0.0, 1.0]), x[4])


@cases([0.1, 0.2, 0.3, 0.9])
def rotated(x):
    return pyrr.quaternion.apply_to_vector(pyrr.quaternion.normalize(x), np.array([1.0, 2.0, 3.0]))


@cases([0.3, 1.0])
def rotation_by_objects(x):
    return Matrix44.from_z_rotation(x[0]) * Vector3([x[1], 2.0, 3.0])


@cases([45.0, 1.5, 0.1, 100.0])
def perspective(x):
    return pyrr.matrix44.create_perspective_projection(x[0], x[1], x[2], x[3])
