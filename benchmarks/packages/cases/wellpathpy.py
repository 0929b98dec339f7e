"""Paths of wells."""

import numpy as np
import wellpathpy

from benchmarks.packages.cases import Cases

PACKAGE = "wellpathpy"
cases = Cases()
DEPTHS = np.array([0.0, 100.0, 200.0, 300.0])
ANGLES = [5.0, 10.0, 20.0, 30.0, 40.0, 45.0, 50.0, 60.0]


def survey(x):
    return wellpathpy.deviation(md=DEPTHS, inc=x[:4], azi=x[4:])


@cases(ANGLES)
def minimum_curvature(x):
    path = survey(x).minimum_curvature()
    return np.array([path.depth, path.northing, path.easting])


@cases(ANGLES)
def radius_of_curvature(x):
    path = survey(x).radius_curvature()
    return np.array([path.depth, path.northing, path.easting])


@cases(ANGLES)
def resampled(x):
    return survey(x).minimum_curvature().resample(np.array([0.0, 50.0, 150.0, 250.0])).northing


@cases(ANGLES)
def angles_of_the_path(x):
    found = survey(x).minimum_curvature().deviation()
    return np.array([found.inc, found.azi])
