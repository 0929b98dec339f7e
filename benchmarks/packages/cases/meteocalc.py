"""Weather indices of plain numbers; uses `math`."""

import meteocalc

from benchmarks.packages.cases import Cases

PACKAGE = "meteocalc"
cases = Cases()


@cases([25.0, 60.0])
def dew_point(x):
    return meteocalc.dew_point(temperature=x[0], humidity=x[1]).c


@cases([90.0, 60.0])
def heat_index(x):
    return meteocalc.heat_index(temperature=meteocalc.Temp(x[0], "f"), humidity=x[1]).f


@cases([25.0, 60.0])
def dew_point_in_fahrenheit(x):
    return meteocalc.dew_point(meteocalc.Temp(x[0], "c"), x[1]).f


@cases(25.0)
def temperature_units(t):
    return meteocalc.Temp(t, "c").k
