"""Moist air by functions of `math`, as psychrolib is where Numba is not installed."""

import sys

sys.modules["numba"] = None  # its import fails
import psychrolib  # noqa: E402

from benchmarks.packages.cases import Cases  # noqa: E402

PACKAGE = "PsychroLib"
cases = Cases()
psychrolib.SetUnitSystem(psychrolib.SI)


@cases(25.0)
def saturation_pressure(t):
    return psychrolib.GetSatVapPres(t)


@cases([25.0, 0.6, 101325.0])
def humidity_ratio(x):
    return psychrolib.GetHumRatioFromRelHum(x[0], x[1], x[2])


@cases([25.0, 0.01])
def enthalpy(x):
    return psychrolib.GetMoistAirEnthalpy(x[0], x[1])


@cases([25.0, 0.6], rtol=1e-3)
def dew_point(x):
    return psychrolib.GetTDewPointFromRelHum(x[0], x[1])


@cases([25.0, 0.01, 101325.0])
def density(x):
    return psychrolib.GetMoistAirDensity(x[0], x[1], x[2])


@cases([25.0, 18.0, 101325.0])
def humidity_from_wet_bulb(x):
    return psychrolib.GetHumRatioFromTWetBulb(x[0], x[1], x[2])
