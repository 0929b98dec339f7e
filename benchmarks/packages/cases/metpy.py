"""Meteorology, with units."""

import metpy.calc
import numpy as np
from metpy.units import units

from benchmarks.packages.cases import Cases

PACKAGE = "MetPy"
cases = Cases()


@cases(300.0)
def saturation_pressure(t):
    return metpy.calc.saturation_vapor_pressure(t * units.K).magnitude


@cases([900.0, 295.0])
def potential_temperature(x):
    return metpy.calc.potential_temperature(x[0] * units.hPa, x[1] * units.K).magnitude


@cases([295.0, 0.6])
def dewpoint(x):
    return metpy.calc.dewpoint_from_relative_humidity(x[0] * units.K, x[1]).magnitude


@cases([3.0, 4.0])
def wind_speed(x):
    return metpy.calc.wind_speed(x[0] * units("m/s"), x[1] * units("m/s")).magnitude


@cases([1.0, 2.0, 4.0, 7.0, 3.0])
def first_derivative(y):
    return metpy.calc.first_derivative(y, delta=np.full(4, 0.5))
