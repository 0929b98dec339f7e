"""Physical units."""

import numpy as np
import pint

from benchmarks.packages.cases import Cases

PACKAGE = "Pint"
cases = Cases()


units = pint.UnitRegistry()


@cases([1.0, 2.0])
def speed(x):
    return ((x[0] * units.kilometer) / (x[1] * units.second)).to("m/s").magnitude


@cases([1.0, 2.0])
def of_array(x):
    return units.Quantity(x, "km").to("m").magnitude


@cases(20.0)
def of_temperature(x):
    return units.Quantity(x, "degC").to("kelvin").magnitude


@cases([1.0, 2.0])
def norm(x):
    return np.sqrt(np.sum((x * units.cm) ** 2)).to("m").magnitude


@cases([2.0, 3.0])
def in_base_units(x):
    force = x[0] * units.kilogram * (x[1] * units.foot) / units.second**2
    return force.to_base_units().m
