"""Acoustics: levels, weightings, attenuation in air, directivity."""

import numpy as np
from acoustic_toolbox import cepstrum, descriptors, directivity, doppler, power
from acoustic_toolbox.standards import iec_61672_1_2013, iso_9613_1_1993, iso_tr_25417_2007

from benchmarks.packages.cases import Cases

PACKAGE = "acoustic-toolbox"
cases = Cases()
FREQUENCIES = np.array([125.0, 1000.0, 4000.0])
SIGNAL = np.sin(np.arange(64.0) ** 1.1)


@cases([293.15, 101.325, 50.0])
def attenuation_in_air(x):
    saturation = iso_9613_1_1993.saturation_pressure(x[0])
    water = iso_9613_1_1993.molar_concentration_water_vapour(x[2], saturation, x[1])
    oxygen = iso_9613_1_1993.relaxation_frequency_oxygen(x[1], water)
    nitrogen = iso_9613_1_1993.relaxation_frequency_nitrogen(x[1], x[0], water)
    return iso_9613_1_1993.attenuation_coefficient(
        x[1], x[0], 101.325, 293.15, nitrogen, oxygen, FREQUENCIES
    )


@cases(SIGNAL[:12])
def exposure_level(pressure):
    return iso_tr_25417_2007.sound_exposure_level(pressure, 1000.0)


@cases(SIGNAL[:16])
def time_weighted_level(pressure):
    return iec_61672_1_2013.time_weighted_level(pressure, 8.0, "fast", 0.5)[1]


@cases([60.0, 58.0, 50.0])
def day_evening_night(levels):
    return descriptors.lden(levels[:1], levels[1:2], levels[2:])


@cases([80.0, 82.0, 79.0, 10.0])
def power_of_a_machine(x):
    return power.lw_iso3746(x[:3], np.full(3, 60.0), x[3], np.array([0.1, 0.2]), np.array([50.0, 30.0]))


@cases([0.3, 0.5])
def pressure_of_a_dipole(x):
    spherical = directivity.cartesian_to_spherical(x[0], x[1], 0.7)
    return directivity.FigureEight().using_spherical(spherical[1], spherical[2])


@cases(SIGNAL[:16])
def real_cepstrum(signal):
    return cepstrum.real_cepstrum(signal)


@cases([440.0, 30.0, -10.0])
def doppler_shift(x):
    return doppler.frequency_shift(x[0], x[1], x[2])
