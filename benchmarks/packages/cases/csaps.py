"""Smoothing splines."""

import numpy as np
from csaps import CubicSmoothingSpline, csaps

from benchmarks.packages.cases import Cases

PACKAGE = "csaps"
cases = Cases()
X = np.linspace(0.0, 3.0, 8)
Y = np.sin(X) + 0.1 * np.cos(7 * X)
POINTS = np.array([0.2, 1.1, 2.6])


@cases(Y)
def values(y):
    return csaps(X, y, POINTS, smooth=0.8)


@cases(0.8)
def smoothing(smooth):
    return csaps(X, Y, POINTS, smooth=smooth)


@cases(POINTS)
def places(points):
    return CubicSmoothingSpline(X, Y, smooth=0.9)(points)


@cases([1.0, 2.0, 1.0, 0.5, 1.0, 1.0, 3.0, 1.0])
def weights(w):
    return csaps(X, Y, POINTS, weights=w, smooth=0.8)


@cases(Y)
def slopes(y):
    return CubicSmoothingSpline(X, y, smooth=0.9)(POINTS, nu=1)
