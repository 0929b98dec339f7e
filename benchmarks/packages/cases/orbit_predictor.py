"""Prediction of satellites."""

import numpy as np
from orbit_predictor import angles, coordinate_systems, utils
from orbit_predictor.keplerian import coe2rv, rv2coe

from benchmarks.packages.cases import Cases

PACKAGE = "orbit-predictor"
cases = Cases()


MU = 398600.4418


@cases([7000.0, 0.1, 0.5, 0.3, 0.7, 1.1])
def state_of_elements(x):
    position, velocity = coe2rv(MU, x[0], x[1], x[2], x[3], x[4], x[5])
    return np.concatenate([position, velocity])


@cases([7000.0, 100.0, 200.0, 0.1, 7.0, 2.5])
def elements_of_state(x):
    return rv2coe(MU, x[:3], x[3:])


@cases([1.1, 0.3], rtol=1e-5)
def true_anomaly(x):
    return angles.M_to_ta(x[0], x[1])


@cases([40.0, -80.0, 0.1])
def geodetic_to_ecef(x):
    return coordinate_systems.llh_to_ecef(x[0], x[1], x[2])


@cases([1000.0, -5000.0, 4000.0])
def ecef_to_geodetic(x):
    return coordinate_systems.ecef_to_llh(x)


@cases([1.0, 2.0, 3.0, 0.4])
def rotated(x):
    return utils.rotate(x[:3], 2, x[3])
