"""Thermal comfort."""

from pythermalcomfort import models, psychrometrics

from benchmarks.packages.cases import Cases

PACKAGE = "pythermalcomfort"
cases = Cases()


@cases([25.0, 26.0, 0.15, 50.0, 1.2, 0.5])
def predicted_mean_vote(x):
    return models.pmv_ppd_iso(x[0], x[1], x[2], x[3], x[4], x[5], round_output=False, limit_inputs=False).pmv


@cases([25.0, 26.0, 1.5, 50.0])
def thermal_climate_index(x):
    return models.utci(x[0], x[1], x[2], x[3], round_output=False).utci


@cases([30.0, 60.0])
def heat_index(x):
    return models.heat_index_rothfusz(x[0], x[1], round_output=False).hi


@cases([25.0, 26.0, 0.15, 50.0, 1.2, 0.5])
def standard_effective_temperature(x):
    return models.set_tmp(x[0], x[1], x[2], x[3], x[4], x[5], round_output=False).set


@cases([25.0, 50.0])
def humidity_index(x):
    return models.humidex(x[0], x[1], round_output=False).humidex


@cases([25.0, 19.0, 32.0])
def wet_bulb_globe(x):
    return models.wbgt(x[1], x[2], tdb=x[0], with_solar_load=True, round_output=False).wbgt


@cases([25.0, 50.0])
def humid_air(x):
    air = psychrometrics.psy_ta_rh(x[0], x[1])
    return air.h


@cases(25.0)
def saturation_pressure(t):
    return psychrometrics.p_sat(t)


@cases([-5.0, 5.5])
def wind_chill(x):
    return models.wci(x[0], x[1], round_output=False).wci


@cases([28.0, 28.0, 0.15, 60.0, 1.2, 0.5])
def two_nodes(x):
    return models.two_nodes_gagge(x[0], x[1], x[2], x[3], x[4], x[5], round_output=False).t_core
