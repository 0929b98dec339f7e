"""Propagation of radio waves."""

from itur.models import itu453, itu676, itu835, itu838

from benchmarks.packages.cases import Cases

PACKAGE = "itur"
cases = Cases()


@cases([22.0, 7.5, 15.0])
def gas_attenuation(x):
    return itu676.gammaw_exact(x[0], 1013.25, x[1], x[2] + 273.15).value


@cases([25.0, 20.0])
def rain(x):
    return itu838.rain_specific_attenuation(x[1], x[0], 30.0, 45.0).value


@cases([5.0, 15.0])
def temperature(h):
    return itu835.standard_temperature(h).value


@cases([280.0, 10.0])
def refractivity(x):
    return itu453.wet_term_radio_refractivity(x[1], x[0]).value


@cases([20.0, 1000.0])
def vapour_pressure(x):
    return itu453.saturation_vapour_pressure(x[0], x[1]).value
