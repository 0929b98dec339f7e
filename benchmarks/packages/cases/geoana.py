"""Fields of geophysics."""

import numpy as np
from geoana import gravity, spatial
from geoana.em import fdem, static, tdem

from benchmarks.packages.cases import Cases

PACKAGE = "geoana"
cases = Cases()
POINTS = np.array([[1.0, 2.0, -3.0], [4.0, -1.0, -2.0], [0.5, 0.3, -6.0]])


@cases([2.0, 10.0, 0.1])
def sphere_in_a_field(x):
    sphere = static.ElectrostaticSphere(x[0], x[1], x[2])
    return np.concatenate(sphere.electric_field(POINTS))


@cases([100.0, 1.5])
def point_current(x):
    return static.PointCurrentHalfSpace(x[0], current=x[1], location=np.array([0.0, 0.0, -1.0])).potential(POINTS)


@cases(POINTS)
def gravity_of_a_point(points):
    mass = gravity.PointMass(mass=1e9, location=np.zeros(3))
    return np.append(mass.gravitational_potential(points), mass.gravitational_field(points))


@cases([1000.0, 0.01])
def skin_depth(x):
    return np.array([fdem.skin_depth(x[0], x[1], quasistatic=False), np.abs(fdem.wavenumber(x[0], x[1]))])


@cases([0.05, 1e-3])
def transient_dipole(x):
    dipole = tdem.ElectricDipoleWholeSpace(np.array([x[1]]), sigma=x[0], current=1.0, location=np.zeros(3))
    return dipole.electric_field(POINTS).ravel()


@cases([1.0, 0.2, 0.3, 0.1, 0.9, -0.4])
def rotated_points(x):
    first, second = x[:3] / np.linalg.norm(x[:3]), x[3:] / np.linalg.norm(x[3:])
    return spatial.rotate_points_from_normals(POINTS, first, second).ravel()
