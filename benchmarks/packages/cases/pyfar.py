"""Acoustics: properties of air and signals."""

import numpy as np
import pyfar

from benchmarks.packages.cases import Cases

PACKAGE = "pyfar"
cases = Cases()


@cases([20.0, 0.5])
def speed_of_sound(x):
    return pyfar.constants.speed_of_sound_cramer(*x)


@cases([20.0, 0.5, 101325.0])
def speed_of_sound_of_ideal_gas(x):
    return pyfar.constants.speed_of_sound_ideal_gas(*x)


@cases([20.0, 0.5, 101325.0])
def density_of_air(x):
    return pyfar.constants.density_of_air(*x)


@cases(20.0)
def saturation_pressure(temperature):
    return pyfar.constants.saturation_vapor_pressure_magnus(temperature)


@cases(np.linspace(0.1, 0.9, 8))
def spectrum_of_signal(x):
    return np.abs(pyfar.Signal(x, 44100).freq[0])
