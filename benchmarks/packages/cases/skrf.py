"""Microwave networks, in complex NumPy."""

import numpy as np
import skrf

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-rf"
cases = Cases()


def symmetric(x):
    return np.array([[[x[0], x[1]], [x[1], x[0]]]])


@cases([0.1, 0.5])
def scattering_to_impedance(x):
    return skrf.network.s2z(symmetric(x)).real


@cases([0.1, 0.5])
def scattering_to_transfer(x):
    return skrf.network.s2t(symmetric(x)).real


@cases([50.0, 75.0])
def reflection(x):
    return skrf.tlineFunctions.zl_2_Gamma0(x[0], x[1]).real


@cases([1.0, 0.5])
def decibels(x):
    return skrf.mathFunctions.complex_2_db(x[0] + 1j * x[1])


@cases([0.1, 0.5])
def network_in_series(x):
    frequency = skrf.Frequency(1, 1, 1, "ghz")
    first = skrf.Network(frequency=frequency, s=symmetric(x))
    return (first**first).s.real
