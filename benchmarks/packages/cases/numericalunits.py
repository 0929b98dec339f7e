"""Units represented by floats."""

import numericalunits as nu

from benchmarks.packages.cases import Cases

PACKAGE = "numericalunits"
cases = Cases()
nu.reset_units("SI")


@cases([30.0, 2.5])
def speed(x):
    return (x[0] * nu.km / (x[1] * nu.hour)) / (nu.m / nu.s)


@cases([500.0])
def energy_of_photon(x):
    return nu.hPlanck * nu.c0 / (x[0] * nu.nm) / nu.eV


@cases([300.0, 2.0])
def thermal_voltage(x):
    return nu.kB * (x[0] * nu.K) / (x[1] * nu.e) / nu.mV


@cases([1.0, 0.2, 2.0])
def electric_force(x):
    charges = (x[0] * nu.uC) * (x[2] * nu.uC)
    return charges / (4 * 3.141592653589793 * nu.eps0 * (x[1] * nu.m) ** 2) / nu.N
