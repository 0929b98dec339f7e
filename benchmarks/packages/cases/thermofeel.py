"""Thermal comfort indices for weather models."""

import thermofeel

from benchmarks.packages.cases import Cases

PACKAGE = "thermofeel"
cases = Cases()


@cases([300.0, 290.0])
def relative_humidity(x):
    return thermofeel.calculate_relative_humidity_percent(x[0], x[1])


@cases([300.0, 290.0])
def humidity_index(x):
    return thermofeel.calculate_humidex(x[0], x[1])


@cases([[300.0, 305.0], [2.0, 3.0], [310.0, 312.0], [18.0, 20.0]])
def thermal_climate_index(x):
    return thermofeel.calculate_utci(t2_k=x[0], va=x[1], mrt=x[2], ehPa=x[3])


@cases([300.0, 60.0])
def wet_bulb(x):
    return thermofeel.calculate_wbt(x[0], x[1])


@cases([[300.0, 305.0], [310.0, 312.0], [2.0, 3.0]])
def globe_temperature(x):
    return thermofeel.calculate_bgt(x[0], x[1], x[2])


@cases([[305.0, 308.0], [297.0, 299.0]])
def adjusted_heat_index(x):
    return thermofeel.calculate_heat_index_adjusted(x[0], x[1])


@cases([265.0, 5.0])
def wind_chill(x):
    return thermofeel.calculate_wind_chill(x[0], x[1])
