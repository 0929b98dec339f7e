"""US standard atmosphere 1976, returned as xarray data sets."""

from ussa1976 import core

from benchmarks.packages.cases import Cases

PACKAGE = "ussa1976"
cases = Cases()


@cases([5e3, 2e4])
def temperature_of_heights(h):
    return core.compute_temperature_low_altitude(h, *core.compute_levels_temperature_and_pressure_low_altitude()[:1])


@cases([5e3, 2e4])
def pressure_of_heights(h):
    return core.compute_pressure_low_altitude(h, *core.compute_levels_temperature_and_pressure_low_altitude()[::-1])


@cases([9e4, 2e5])
def temperature_of_high_altitudes(z):
    return core.compute_temperature_high_altitude(z)


@cases([5e3, 2e4])
def gravity(z):
    return core.compute_gravity(z)


@cases([9e4, 1e5])
def eddy_diffusion(z):
    return core.eddy_diffusion_coefficient(z)


@cases([5e3, 2e4])
def profile(z):
    return core.compute(z)["t"].to_numpy()
