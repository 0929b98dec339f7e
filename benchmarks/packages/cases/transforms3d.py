"""Rotations, partly with functions of `math`."""

import numpy as np
import transforms3d as t3

from benchmarks.packages.cases import Cases

PACKAGE = "transforms3d"
cases = Cases()


@cases([0.1, 0.2, 0.3])
def euler_to_matrix(a):
    return t3.euler.euler2mat(a[0], a[1], a[2])


@cases([0.9, 0.1, 0.2, 0.3])
def quaternion_to_matrix(q):
    return t3.quaternions.quat2mat(q)


@cases([0.1, 0.2, 0.3])
def matrix_to_quaternion(a):
    return t3.quaternions.mat2quat(t3.euler.euler2mat(a[0], a[1], a[2]))


@cases([1.0, 2.0, 3.0, 0.4])
def axis_angle_to_matrix(x):
    return t3.axangles.axangle2mat(x[:3], x[3])


@cases([0.1, 0.2, 0.3, 1.0, 2.0, 3.0])
def affine(x):
    return t3.affines.compose(x[3:], t3.euler.euler2mat(x[0], x[1], x[2]), np.ones(3))
