"""Adaptive optics: turbulence, Zernike polynomials, centroids and propagation."""

import aotools
import numpy as np
from aotools import opticalpropagation
from aotools.functions import zernike
from aotools.image_processing import centroiders
from aotools.turbulence import atmos_conversions, phasescreen, slopecovariance, turb

from benchmarks.packages.cases import Cases

PACKAGE = "aotools"
cases = Cases()
IMAGE = np.random.default_rng(0).uniform(0.2, 1.0, (5, 5))


@cases([2.0, 3.0, 1.0])
def coherence(x):
    heights, winds = np.array([1e3, 5e3, 1e4]), np.array([5.0, 10.0, 20.0])
    cn2 = x * 1e-14
    return np.array([atmos_conversions.coherenceTime(cn2, winds), atmos_conversions.isoplanaticAngle(cn2, heights)])


@cases([0.15, 20.0])
def covariance(x):
    places = np.array([0.1, 0.5, 1.0])
    return turb.phase_covariance(places, x[0], x[1]) + slopecovariance.structure_function_vk(places, x[0], x[1])


@cases([0.15, 20.0])
def phase_screen(x):
    return phasescreen.ft_phase_screen(x[0], 6, 0.1, x[1], 0.01, seed=3)


@cases([0.3, 0.4, 0.5, 0.6])
def zernike_phase(x):
    return np.sum(zernike.phaseFromZernikes(x, 8) ** 3)


@cases(IMAGE)
def centroid(x):
    return np.array(centroiders.centre_of_gravity(x, threshold=0.1))


@cases([0.3, 1.1, 1.2])
def propagation(x):
    wave = np.exp(1j * x[0] * np.outer(np.arange(8.0), np.ones(8)))
    return np.sum(abs(opticalpropagation.angularSpectrum(wave, 1e-6, 1e-4, 1e-4 * x[1], 0.1 * x[2]))[2:5, 2] ** 2)


@cases([2.0, 1.5, 2.2])
def gaussian(x):
    return aotools.gaussian2d(6, x[0], x[1], (x[2], 2.5))
