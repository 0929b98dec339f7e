"""Reference ellipsoids and their gravity, in NumPy."""

import boule

from benchmarks.packages.cases import Cases

PACKAGE = "boule"
cases = Cases()


@cases([0.0, 45.0, 100.0])
def normal_gravity(x):
    return boule.WGS84.normal_gravity((x[0], x[1], x[2]))


@cases([10.0, 45.0, 100.0])
def spherical(x):
    return boule.WGS84.geodetic_to_spherical((x[0], x[1], x[2]))


@cases(0.7)
def prime_vertical_radius(sine):
    return boule.WGS84.prime_vertical_radius(sine)


@cases(45.0)
def gravity_on_the_ellipsoid(latitude):
    return boule.WGS84.normal_gravity_potential((0.0, latitude, 0.0))
