"""Positional astronomy, in NumPy."""

import numpy as np
from skyfield.api import EarthSatellite, load
from skyfield.earthlib import earth_rotation_angle, refraction, terra
from skyfield.functions import angle_between, from_spherical, length_of, to_spherical
from skyfield.keplerlib import propagate
from skyfield.precessionlib import compute_precession

from benchmarks.packages.cases import Cases

PACKAGE = "skyfield"
cases = Cases()
timescale = load.timescale(builtin=True)
LINES = (
    "1 25544U 98067A   19343.69339541  .00001764  00000-0  38792-4 0  9991",
    "2 25544  51.6439 211.2001 0007417  17.6667  85.6398 15.50103472202482",
)


@cases([1.0, 2.0, 3.0])
def length(x):
    return length_of(x)


@cases([1.0, 2.0, 3.0])
def spherical(x):
    return to_spherical(x)


@cases([1.0, 0.4, 0.3])
def cartesian(x):
    return from_spherical(x[0], x[1], x[2])


@cases([1.0, 2.0, 3.0, 0.5, -0.2, 0.7])
def angle(x):
    return angle_between(x[:3], x[3:])


@cases([20.0, 10.0, 1010.0])
def atmospheric_refraction(x):
    return refraction(x[0], x[1], x[2])


@cases([0.7, 0.2, 0.1, 3.0])
def ground_station(x):
    return terra(x[0], x[1], x[2], x[3])[0]


@cases(2458826.5, step=1e-8)
def rotation_of_the_earth(jd):
    return earth_rotation_angle(jd)


@cases(2458826.5, step=1e-3)
def precession(jd):
    return compute_precession(jd)


@cases([1.0, 0.1, 0.05, 0.001, 0.017, 0.002], step=1e-3)
def kepler_orbit(x):
    position, velocity = propagate(x[:3], x[3:], np.float64(0.0), np.float64(30.0), np.float64(2.959e-4))
    return np.concatenate([position, velocity])


@cases(2458826.6, step=1e-9, rtol=1e-4)
def satellite(jd):
    return EarthSatellite(*LINES).at(timescale.tt_jd(jd)).position.km
