"""Keplerian orbits."""

from orbital import KeplerianElements, Maneuver, earth
from orbital.utilities import Position, Velocity, eccentric_anomaly_from_mean, elements_from_state_vector

from benchmarks.packages.cases import Cases

PACKAGE = "OrbitalPy"
cases = Cases()


@cases([0.3, 1.2])
def eccentric_anomaly(x):
    return eccentric_anomaly_from_mean(x[0], x[1])


@cases([8e6, 0.1, 0.5, 0.3, 0.7, 1.1])
def position(x):
    orbit = KeplerianElements(a=x[0], e=x[1], i=x[2], raan=x[3], arg_pe=x[4], M0=x[5], body=earth)
    return [orbit.r.x, orbit.r.y, orbit.r.z]


@cases([8e6, 0.1, 0.5])
def velocity_and_period(x):
    orbit = KeplerianElements(a=x[0], e=x[1], i=x[2], M0=0.4, body=earth)
    return [orbit.v.x, orbit.v.y, orbit.v.z, orbit.T]


@cases([7e6, 1e5, 2e5, 1e2, 7e3, 2.5e3])
def elements(x):
    found = elements_from_state_vector(Position(*x[:3]), Velocity(*x[3:]), earth.mu)
    return [found.a, found.e, found.i, found.raan, found.arg_pe, found.f]


@cases([6.7e6, 4.2e7])
def hohmann_transfer(x):
    orbit = KeplerianElements(a=x[0], body=earth)
    orbit.apply_maneuver(Maneuver.hohmann_transfer_to_radius(x[1]))
    return [orbit.a, orbit.v.x, orbit.v.y]


@cases([4e5, 8e5])
def apside_altitudes(x):
    orbit = KeplerianElements.with_apside_altitudes(x[0], x[1], body=earth)
    orbit.t += 600.0
    return [orbit.a, orbit.e, orbit.f]
