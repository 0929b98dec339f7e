"""Great circles."""

import great_circle_calculator.great_circle_calculator as gcc
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "great-circle-calculator"
cases = Cases()


@cases([11.5, 48.1, 13.4, 52.5])
def distance(x):
    return gcc.distance_between_points((x[0], x[1]), (x[2], x[3]))


@cases([11.5, 48.1, 13.4, 52.5])
def bearings(x):
    return np.array([gcc.bearing_at_p1((x[0], x[1]), (x[2], x[3])), gcc.bearing_at_p2((x[0], x[1]), (x[2], x[3]))])


@cases([11.5, 48.1, 0.3])
def between(x):
    return np.array(gcc.intermediate_point((x[0], x[1]), (40.0, 30.0), x[2]))


@cases([11.5, 48.1, 40.0, 1e5])
def arrival(x):
    return np.array(gcc.point_given_start_and_bearing((x[0], x[1]), x[2], x[3]))
