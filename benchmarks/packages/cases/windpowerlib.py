"""Wind power plants."""

import numpy as np
from windpowerlib import density, power_output, temperature, wind_speed

from benchmarks.packages.cases import Cases

PACKAGE = "windpowerlib"
cases = Cases()

SPEEDS = np.array([0.0, 3.0, 5.0, 10.0, 15.0, 25.0])
POWERS = np.array([0.0, 0.0, 180e3, 1000e3, 1500e3, 1500e3])


@cases([5.0, 0.15])
def speed_at_hub_by_logarithm(x):
    return wind_speed.logarithmic_profile(x[0], 10, 100, x[1])


@cases([5.0, 0.15])
def speed_at_hub_by_power_law(x):
    return wind_speed.hellman(x[0], 10, 100, roughness_length=x[1])


@cases([101325.0, 280.0])
def air_density(x):
    return density.barometric(x[0], 10, 100, x[1])


@cases([101325.0, 280.0])
def ideal_gas_density(x):
    return density.ideal_gas(x[0], 10, 100, temperature.linear_gradient(x[1], 2, 100))


@cases([4.0, 6.5, 8.0])
def power(speeds):
    return power_output.power_curve(speeds, SPEEDS, POWERS)


@cases([4.0, 6.5, 8.0])
def power_by_coefficients(speeds):
    return power_output.power_coefficient_curve(speeds, SPEEDS, POWERS / 3e6, 80.0, np.full(3, 1.2))


@cases([1.1, 1.2])
def power_corrected_by_density(rho):
    return power_output.power_curve(np.array([6.5, 8.0]), SPEEDS, POWERS, density=rho, density_correction=True)
