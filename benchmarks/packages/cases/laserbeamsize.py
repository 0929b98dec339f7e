"""Beams of lasers."""

import laserbeamsize as lbs
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "laserbeamsize"
cases = Cases()


@cases([0.3e-3, 1.2])
def gaussian_beam(x):
    return np.array([lbs.z_rayleigh(x[0], 633e-9, x[1]), lbs.beam_radius(x[0], 633e-9, 0.4, M2=x[1])])


@cases([0.3e-3, 0.4])
def focused(x):
    return np.array([lbs.image_distance(x[0], 633e-9, x[1], 0.1), lbs.magnification(x[0], 633e-9, x[1], 0.1)])


@cases(0.2)
def wavefront(z):
    return np.array([lbs.curvature(0.3e-3, 633e-9, z), lbs.gouy_phase(0.3e-3, 633e-9, z)])


Y, X = np.mgrid[0:24, 0:30]


@cases([14.0, 11.0, 8.0])
def size_of_image(x):
    image = np.exp(-8 * ((X - x[0]) ** 2 + (Y - x[1]) ** 2) / x[2] ** 2)
    return np.array(lbs.basic_beam_size(image))[:4]
