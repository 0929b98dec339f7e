"""Lorentz vectors of particle physics."""

import numpy as np
import vector

from benchmarks.packages.cases import Cases

PACKAGE = "vector"
cases = Cases()


@cases([30.0, 0.4, 1.2, 0.5])
def mass_of_pair(x):
    a = vector.obj(pt=x[0], phi=x[1], eta=x[2], mass=x[3])
    b = vector.obj(pt=25.0, phi=-2.0, eta=0.3, mass=0.1)
    return (a + b).mass


@cases([1.0, 2.0, 3.0, 5.0])
def boosted(x):
    v = vector.obj(x=x[0], y=x[1], z=x[2], t=x[3]).boostX(0.4)
    return np.array([v.t, v.rho, v.eta, v.phi])


@cases([1.0, 2.0, 3.0])
def rotated(x):
    v = vector.obj(x=x[0], y=x[1], z=x[2])
    w = v.rotate_axis(vector.obj(x=0.1, y=0.2, z=0.9), x[0])
    return np.array([w.x, w.theta, v.deltaR(w), v.cross(w).mag])


@cases([[1.0, 2.0], [0.3, 0.4]])
def arrays_of_vectors(x):
    v = vector.array({"px": x[0], "py": x[1], "pz": np.array([0.2, 0.5])})
    return np.stack([v.pt, v.eta, v.mag])
