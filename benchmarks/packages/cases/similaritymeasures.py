"""Differences of curves."""

import numpy as np
import similaritymeasures

from benchmarks.packages.cases import Cases

PACKAGE = "similaritymeasures"
cases = Cases()
TIME = np.linspace(0.0, 2.0, 12)


def curves(x):
    return np.column_stack([TIME, np.sin(x[0] * TIME)]), np.column_stack([TIME, x[1] * np.cos(TIME)])


@cases([1.3, 0.8])
def area(x):
    return similaritymeasures.area_between_two_curves(*curves(x))


@cases([1.3, 0.8])
def frechet_distance(x):
    return similaritymeasures.frechet_dist(*curves(x))


@cases([1.3, 0.8])
def time_warping(x):
    return similaritymeasures.dtw(*curves(x))[0]


@cases([1.3, 0.8])
def partial_curve_mapping(x):
    return similaritymeasures.pcm(*curves(x))


@cases([1.3, 0.8])
def lengths(x):
    return similaritymeasures.curve_length_measure(*curves(x))
