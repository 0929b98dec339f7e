"""Agrometeorology: radiation, evapotranspiration, water balance."""

import numpy as np
from agrometeorologiapy import en as agro

from benchmarks.packages.cases import Cases

PACKAGE = "agrometeorologiapy"
cases = Cases()
RAIN = np.array([200, 190, 190, 120, 15, 5, 2, 5, 20, 100, 220, 230.0])
DEMAND = np.linspace(105.0, 116.0, 12)


@cases([-22.7, 100.0])
def extraterrestrial_radiation(x):
    declination = agro.solar_declination(x[1])
    hours = agro.sunset_hour_angle(x[0], declination)
    return agro.extraterrestrial_radiation(x[0], declination, hours, agro.inverse_relative_distance(x[1]))


@cases([30.0, 18.0, 1.9, 20.0])
def penman_monteith(x):
    mean = agro.mean_temperature(x[0], x[1])
    es = agro.saturation_vapour_pressure(mean)
    net = agro.net_shortwave_radiation(x[3]) - agro.net_longwave_radiation(x[0], x[1], x[2], x[3], 25.0)
    slope = agro.slope_vapour_pressure_curve(mean)
    gamma = agro.psychrometric_constant(agro.atmospheric_pressure(500.0))
    return agro.eto_penman_monteith(net, 0.0, mean, 2.0, es, x[2], slope, gamma)


@cases(RAIN)
def water_balance(rain):
    balance = agro.climatic_water_balance_grid(rain, DEMAND, AWC=100.0, cyclic=False)
    return balance["ETa"] + 2 * balance["STO"]


@cases([25.0, 0.6])
def productivity(x):
    clear = agro.temperature_correction_clear(x[0], "C4")
    overcast = agro.temperature_correction_overcast(x[0], "C4")
    return agro.gross_potential_productivity(40.0, x[1], clear, overcast)


@cases([-22.7, 100.0])
def zenith_and_azimuth(x):
    declination = agro.solar_declination(x[1])
    zenith = agro.solar_zenith_angle(x[0], declination)
    return agro.shadow_length(2.0, zenith)


@cases(1.9)
def dewpoint(pressure):
    return agro.dewpoint_temperature(pressure)
