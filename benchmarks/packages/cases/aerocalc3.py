"""Standard atmosphere and airspeeds in aviation units."""

import numpy as np
from aerocalc3 import airspeed, std_atm

from benchmarks.packages.cases import Cases

PACKAGE = "aerocalc3"
cases = Cases()


@cases([12000.0, 45000.0])
def atmosphere(heights):
    return np.array([f(h) for h in heights for f in (std_atm.alt2press, std_atm.alt2temp, std_atm.alt2density)])


@cases([0.75, 0.25])
def altitude_of_density_ratio(x):
    return np.array([std_atm.density_ratio2alt(r) for r in x])


@cases([250.0, 12000.0])
def true_airspeed(x):
    return airspeed.cas2tas(x[0], x[1])


@cases([0.7, 1.4])
def pressure_of_mach(x):
    return np.array([airspeed.mach2dp_over_p(mach) for mach in x])


@cases([280.0, 20000.0])
def mach_of_airspeed(x):
    return airspeed.cas_alt2mach(x[0], x[1])
