"""Linear operators for geophysics."""

import numpy as np
import pylops

from benchmarks.packages.cases import Cases

PACKAGE = "pylops"
cases = Cases()
X = np.sin(np.arange(8.0))


@cases(X)
def first_derivative(x):
    return pylops.FirstDerivative(8, sampling=0.5) @ x


@cases(X)
def squared_roughness(x):
    y = pylops.SecondDerivative(8, sampling=0.5) @ x
    return y @ y


@cases([2.0, 3.0, 1.0])
def diagonal(d):
    return pylops.Diagonal(d) @ np.array([1.0, 2.0, 3.0])


@cases([[1.0, 2.0], [0.5, 1.5], [2.0, 0.3]])
def matrix(A):
    return pylops.MatrixMult(A).rmatvec(np.array([1.0, -1.0, 2.0]))


@cases([0.2, 0.5])
def reflections(theta):
    return np.stack(pylops.avo.avo.akirichards(10 * theta, 0.5, n=1))


@cases([2.0, 1.0, 2.2, 2.5, 1.2, 2.3])
def zoeppritz(x):
    return pylops.avo.avo.approx_zoeppritz_pp(x[0], x[1], x[2], x[3], x[4], x[5], np.array([10.0, 20.0]))


@cases(20.0)
def ricker(frequency):
    return pylops.utils.wavelets.ricker(np.arange(0, 0.05, 0.01), f0=frequency)[0]
