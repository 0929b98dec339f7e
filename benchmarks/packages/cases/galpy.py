"""Dynamics of galaxies."""

from galpy.potential import (
    HernquistPotential,
    LogarithmicHaloPotential,
    MiyamotoNagaiPotential,
    NFWPotential,
    evaluatePotentials,
    vcirc,
)
from galpy.util import coords

from benchmarks.packages.cases import Cases

PACKAGE = "galpy"
cases = Cases()


@cases([1.0, 0.1])
def disk_potential(x):
    return MiyamotoNagaiPotential(a=0.5, b=0.0375, normalize=1.0)(x[0], x[1])


@cases([1.0, 0.1])
def force_of_halo(x):
    halo = NFWPotential(a=4.5, normalize=0.35)
    return [halo.Rforce(x[0], x[1]), halo.zforce(x[0], x[1])]


@cases([1.2, 0.3, 0.9])
def logarithmic_halo(x):
    return LogarithmicHaloPotential(normalize=1.0, q=x[2])(x[0], x[1])


@cases([1.2, 0.5, 0.04])
def rotation_curve(x):
    return vcirc([MiyamotoNagaiPotential(a=x[1], b=x[2], normalize=0.6), NFWPotential(a=4.5, normalize=0.4)], x[0])


@cases([1.2, 0.1, 2.0])
def sum_of_potentials(x):
    potentials = HernquistPotential(amp=2.0, a=x[2]) + MiyamotoNagaiPotential(a=0.5, b=0.04)
    return evaluatePotentials(potentials, x[0], x[1])


@cases([1.0, 0.4, 0.2])
def cylindrical_coordinates(x):
    return coords.rect_to_cyl(x[0], x[1], x[2])


@cases([100.0, 30.0, 5.0])
def galactic_coordinates(x):
    return coords.lb_to_radec(x[0], x[1], degree=True)
