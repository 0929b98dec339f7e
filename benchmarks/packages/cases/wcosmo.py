"""Distances in cosmology."""

import numpy as np
import wcosmo

from benchmarks.packages.cases import Cases

PACKAGE = "wcosmo"
cases = Cases()


@cases([0.5, 67.7, 0.31, -0.95])
def luminosity_distance(x):
    return wcosmo.luminosity_distance(x[0], x[1], x[2], x[3])


@cases([0.2, 0.8, 1.5])
def comoving_distances(z):
    return wcosmo.comoving_distance(z, 67.7, 0.31)


@cases([0.5, 67.7, 0.31, -0.95])
def volume(x):
    return wcosmo.differential_comoving_volume(x[0], x[1], x[2], x[3])


@cases([1.2, 67.7, 0.31])
def lookback_time(x):
    return wcosmo.lookback_time(x[0], x[1], x[2])


@cases([35.0, 30.0, 0.3, 67.7, 0.31])
def masses_in_the_detector(x):
    first, second, distance = wcosmo.source_to_detector_frame(x[0], x[1], x[2], x[3], x[4])
    return np.array([first, second, distance.value])


@cases([67.7, 0.31])
def distance_of_a_model(x):
    return wcosmo.FlatLambdaCDM(H0=x[0], Om0=x[1]).luminosity_distance(0.7)
