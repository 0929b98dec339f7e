"""Moist air; its functions are compiled by Numba where that is installed."""

import psychrolib

from benchmarks.packages.cases import Cases

PACKAGE = "PsychroLib"
cases = Cases()
psychrolib.SetUnitSystem(psychrolib.SI)


@cases(25.0)
def saturation_pressure(t):
    return psychrolib.GetSatVapPres(t)


@cases([25.0, 0.6, 101325.0])
def humidity_ratio(x):
    return psychrolib.GetHumRatioFromRelHum(x[0], x[1], x[2])
