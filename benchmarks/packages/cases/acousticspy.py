"""Simple computations of acoustics."""

import acousticspy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "acousticspy"
cases = Cases()
WAVE = np.sin(np.arange(16.0))


@cases([1000.0, 1.0, 20.0, 50.0])
def absorption_in_air(x):
    return acousticspy.get_alpha(x[0], x[1], x[2], x[3])


@cases([0.1, 2000.0])
def piston(x):
    return acousticspy.baffled_circular_piston_directivity(x[0], x[1], np.linspace(0.1, 1.2, 5))


@cases([60.0, 62.0, 55.0])
def sum_of_levels(levels):
    return acousticspy.add_decibels(levels)


@cases(WAVE)
def overall_level(wave):
    return acousticspy.get_oaspl(wave)


@cases(WAVE)
def spectrum(wave):
    return np.abs(acousticspy.get_fft(wave, 100.0)[0])[1:5]


@cases([0.0, 0.1, 0.5])
def field_of_two_sources(x):
    positions = np.array([[x[0], 0.0, 0.0], [x[1], x[2], 0.0]])
    points = np.array([[1.0, 1.0, 0.0], [2.0, 0.5, 0.0]])
    field = acousticspy.get_field(
        positions, np.full(2, 500.0), np.ones(2), np.ones(2), np.ones(2), np.zeros(2), points, 0.0, "Monopole Addition"
    )
    return np.abs(field)
