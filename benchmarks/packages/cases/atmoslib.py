"""Thermodynamics of the atmosphere."""

import numpy as np
from atmoslib import attenuation, thermodynamics

from benchmarks.packages.cases import Cases

PACKAGE = "atmoslib"
cases = Cases()


@cases([280.0, 290.0, 270.0])
def saturation_pressure(x):
    return thermodynamics.saturation_vapor_pressure(x)


@cases([285.0, 9e4, 6e-3])
def moist_air(x):
    temperature, pressure, humidity = x
    vapour = thermodynamics.vapor_pressure(pressure, humidity)
    return np.array([
        thermodynamics.air_density(temperature, pressure, humidity),
        thermodynamics.absolute_humidity(temperature, vapour),
        thermodynamics.equivalent_potential_temperature(temperature, pressure, humidity),
    ])  # fmt: skip


@cases([285.0, 0.7])
def dew_point(x):
    return thermodynamics.dew_point_temperature(x[0], x[1])


@cases([280.0, 9e4])
def water_gradient(x):
    return thermodynamics.adiabatic_lwc_gradient(x[0], x[1])


@cases([9e4, 280.0, 800.0])
def attenuation_by_gas(x):
    return attenuation.gas_specific_attenuation(x[1], x[0], x[2], 35.0)
