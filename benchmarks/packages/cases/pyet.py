"""Potential evaporation of pandas and xarray series, or of numbers in its parts."""

from pyet import meteo_utils, rad_utils

from benchmarks.packages.cases import Cases

PACKAGE = "pyet"
cases = Cases()


@cases([20.0, 60.0])
def vapour_pressure(x):
    return meteo_utils.calc_es(tmean=x[0]) * x[1] / 100


@cases([100.0, 20.0])
def psychrometric(x):
    return meteo_utils.calc_psy(meteo_utils.calc_press(x[0])) + meteo_utils.calc_vpc(x[1])


@cases([0.4, 0.8])
def solar_geometry(x):
    return meteo_utils.sunset_angle(x[0], x[1])


@cases([100.0, 10.0])
def latent_heat(x):
    return meteo_utils.calc_lambda(x[1]) * meteo_utils.calc_press(x[0])


@cases([20.0, 1.5])
def cloudiness(x):
    return rad_utils.calc_rso(ra=x[0], elevation=100.0 * x[1])
