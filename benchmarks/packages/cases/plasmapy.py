"""Plasma physics."""

from plasmapy.formulary import frequencies, speeds

from benchmarks.packages.cases import Cases

PACKAGE = "plasmapy"
cases = Cases()


@cases([1e18, 1e19])
def plasma_frequency(n):
    return frequencies.plasma_frequency_lite(n, 9.109e-31, 1.0)


@cases([1e6, 2e6])
def thermal_speed(t):
    return speeds.thermal_speed_lite(t, 1.67e-27, 2.0)
