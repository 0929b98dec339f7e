"""Positions of the Sun, the Moon and the planets."""

import astronomy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "astronomy-engine"
cases = Cases()


@cases(9000.3, step=1e-5)
def moon(days):
    position = astronomy.GeoMoon(astronomy.Time(days))
    return np.array([position.x, position.y, position.z])


@cases(9000.3, step=1e-4)
def mars(days):
    position = astronomy.HelioVector(astronomy.Body.Mars, astronomy.Time(days))
    return np.array([position.x, position.y, position.z])


@cases([48.0, 11.0, 500.0])
def place(x):
    position = astronomy.ObserverVector(astronomy.Time(9000.3), astronomy.Observer(x[0], x[1], x[2]), True)
    return np.array([position.x, position.y, position.z])


@cases([5.2, 20.0])
def horizon(x):
    time, observer = astronomy.Time(9000.3), astronomy.Observer(48.0, 11.0, 500.0)
    found = astronomy.Horizon(time, observer, x[0], x[1], astronomy.Refraction.Normal)
    return np.array([found.azimuth, found.altitude])


@cases([45.0, 12000.0])
def gravity_and_air(x):
    return np.array([astronomy.ObserverGravity(x[0], x[1]), astronomy.Atmosphere(x[1]).density])


@cases(9000.3, step=1e-4)
def phase(days):
    return astronomy.MoonPhase(astronomy.Time(days))
