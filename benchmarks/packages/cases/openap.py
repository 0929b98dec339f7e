"""Performance of aircraft."""

import numpy as np
from openap import Drag, FuelFlow, aero

from benchmarks.packages.cases import Cases

PACKAGE = "openap"
cases = Cases()


@cases(9000.0)
def atmosphere(h):
    return np.array(aero.atmos(h))


@cases([150.0, 9000.0])
def true_airspeed(x):
    return aero.cas2tas(x[0], x[1])


@cases([60000.0, 230.0, 30000.0])
def drag(x):
    return Drag(ac="A320").clean(mass=x[0], tas=x[1], alt=x[2])


@cases([60000.0, 230.0, 30000.0])
def fuel_flow(x):
    return FuelFlow(ac="A320", eng="CFM56-5B4").enroute(mass=x[0], tas=x[1], alt=x[2])
