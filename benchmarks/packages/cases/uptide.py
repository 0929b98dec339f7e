"""Tides."""

import datetime

import numpy as np
import uptide

from benchmarks.packages.cases import Cases

PACKAGE = "uptide"
cases = Cases()


def tides():
    found = uptide.Tides(["M2", "S2", "K1"])
    found.set_initial_time(datetime.datetime(2003, 1, 17, 19, 30))
    return found


@cases([1.2, 0.4, 0.3, 0.5, 1.0, 2.0])
def elevation(x):
    return tides().from_amplitude_phase(x[:3], x[3:], 36000.0)


@cases(36000.0)
def elevation_of_time(t):
    return tides().from_amplitude_phase(np.array([1.2, 0.4, 0.3]), np.array([0.5, 1.0, 2.0]), t)


@cases([1.2, 0.4, 0.3, 0.5, 1.0, 2.0])
def elevation_of_components(x):
    return tides().from_complex_components(x[:3], x[3:], 7200.0)


@cases([0.5, 0.4, 0.3])
def fitted(eta):
    times = np.array([0.0, 3600.0, 9000.0, 20000.0, 40000.0, 43000.0, 50000.0])
    values = np.concatenate([eta, [0.1, -0.2, 0.5, 0.3]])
    return np.array(uptide.harmonic_analysis(tides(), values, times)[0])
