"""Distances on the earth."""

import numpy as np
from haversine import Unit, haversine, haversine_vector, inverse_haversine

from benchmarks.packages.cases import Cases

PACKAGE = "haversine"
cases = Cases()


@cases([45.75, 4.85, 48.86, 2.35])
def distance(x):
    return haversine((x[0], x[1]), (x[2], x[3]))


@cases([45.75, 4.85, 48.86, 2.35])
def distance_in_miles(x):
    return haversine(x[:2], x[2:], unit=Unit.MILES, normalize=True)


@cases([[45.75, 4.85], [48.86, 2.35]])
def distances(x):
    return haversine_vector(x, np.array([[45.0, 5.0], [48.0, 2.0]]))


@cases([45.75, 4.85, 32.0, 0.7])
def destination(x):
    return inverse_haversine((x[0], x[1]), x[2], x[3])
