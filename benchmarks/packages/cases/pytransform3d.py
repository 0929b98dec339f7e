"""Rigid transformations, in NumPy."""

import numpy as np
import pytransform3d.rotations as pr
import pytransform3d.transformations as pt

from benchmarks.packages.cases import Cases

PACKAGE = "pytransform3d"
cases = Cases()


@cases([0.9, 0.1, 0.2, 0.3])
def matrix_of_quaternion(q):
    return pr.matrix_from_quaternion(q)


@cases([0.2, 0.3, 0.4, 0.3])
def matrix_of_axis_angle(a):
    return pr.matrix_from_axis_angle(a)


@cases([0.1, 0.2, 0.3])
def matrix_of_euler_angles(angles):
    return pr.matrix_from_euler(angles, 0, 1, 2, True)


@cases([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
def exponential(x):
    return pt.transform_from_exponential_coordinates(x)


@cases([0.9, 0.1, 0.2, 0.3])
def rotate_by_quaternion(q):
    return pr.q_prod_vector(q, np.array([1.0, 2.0, 3.0]))


@cases([0.1, 0.2, 0.3])
def logarithm(v):
    return pr.compact_axis_angle_from_matrix(pr.matrix_from_compact_axis_angle(v))
