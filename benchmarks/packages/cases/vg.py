"""Vectors in space."""

import numpy as np
import vg

from benchmarks.packages.cases import Cases

PACKAGE = "vg"
cases = Cases()
OTHER = np.array([0.3, -0.4, 1.2])


@cases([1.0, 0.5, -0.3])
def normalised(x):
    return vg.normalize(x)


@cases([1.0, 0.5, -0.3])
def angle(x):
    return vg.angle(x, OTHER)


@cases([1.0, 0.5, -0.3, 25.0])
def rotated(x):
    return vg.rotate(x[:3], around_axis=OTHER, angle=x[3])


@cases([1.0, 0.5, -0.3])
def rejected(x):
    return vg.reject(x, from_v=OTHER) + vg.perpendicular(x, OTHER)
