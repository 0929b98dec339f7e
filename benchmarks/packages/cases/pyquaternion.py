"""Quaternions as objects."""

import numpy as np
from pyquaternion import Quaternion

from benchmarks.packages.cases import Cases

PACKAGE = "pyquaternion"
cases = Cases()


@cases(0.3)
def rotate_about_axis(angle):
    return Quaternion(axis=[1.0, 0.0, 0.0], angle=angle).rotate(np.array([1.0, 2.0, 3.0]))


@cases([0.9, 0.1, 0.2, 0.3])
def rotation_matrix(q):
    return Quaternion(q).rotation_matrix


@cases([0.9, 0.1, 0.2, 0.3])
def exponential(q):
    return Quaternion.exp(Quaternion(q[0], q[1], q[2], q[3])).elements
