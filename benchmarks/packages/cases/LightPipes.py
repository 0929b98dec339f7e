"""Propagation of light by Fourier methods."""

import LightPipes as lp

from benchmarks.packages.cases import Cases

PACKAGE = "LightPipes"
cases = Cases()


def start():
    return lp.Begin(5e-3, 500e-9, 32)


@cases(0.5)
def fresnel_propagation(z):
    return lp.Intensity(lp.Fresnel(z, lp.CircAperture(1e-3, 0.0, 0.0, start())))[14:18, 16]


@cases(1.2e-3)
def gaussian_aperture(width):
    return lp.Intensity(lp.GaussAperture(width, 0.0, 0.0, 1.0, start()))[14:18, 16]


@cases([0.7, 0.5])
def lens(x):
    field = lp.GaussAperture(1e-3, 0.0, 0.0, 1.0, start())
    return lp.Intensity(lp.Forvard(x[1], lp.Lens(x[0], 0.0, 0.0, field)))[14:18, 16]


@cases(1e-3)
def gaussian_beam(width):
    return lp.Power(lp.GaussBeam(start(), width))


@cases(0.4)
def phase_plate(tilt):
    return lp.Phase(lp.Tilt(tilt * 1e-4, 0.0, start()))[10:14, 3]
