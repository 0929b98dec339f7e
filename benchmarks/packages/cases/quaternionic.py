"""Arrays of quaternions."""

import numpy as np
import quaternionic

from benchmarks.packages.cases import Cases

PACKAGE = "quaternionic"
cases = Cases()


@cases([0.9, 0.1, 0.2, 0.3])
def product(x):
    return (quaternionic.array(x) * quaternionic.array([0.5, 0.5, 0.5, 0.5])).ndarray


@cases([0.9, 0.1, 0.2, 0.3])
def rotated(x):
    return quaternionic.array(x).normalized.rotate(np.array([1.0, 2.0, 3.0]))


@cases([0.1, 0.2, 0.3])
def matrix_of_angles(x):
    return quaternionic.array.from_euler_angles(x[0], x[1], x[2]).to_rotation_matrix


@cases([0.1, 0.2, 0.3])
def of_axis_angle(x):
    return quaternionic.array.from_axis_angle(x).ndarray
