"""Light transport in slabs by adding and doubling."""

import iadpython
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "iadpython"
cases = Cases()


@cases([0.8, 1.2])
def reflection_of_slab(x):
    return np.array(iadpython.Sample(a=x[0], b=x[1], g=0.5).rt())


@cases([0.9, 2.0])
def slab_with_boundaries(x):
    return np.array(iadpython.Sample(a=x[0], b=x[1], g=0.8, n=1.4).rt())


@cases([1.4, 1.5])
def fresnel_of_glass(x):
    return np.array(iadpython.specular_rt(1.0, x[0], 1.0, 1.0, 0.9))


@cases([0.2, 1.0])
def scattered_coefficients(x):
    sample = iadpython.Sample(a=0.7, b=x[1], g=x[0])
    return np.array([sample.mu_s(), sample.mu_sp(), sample.a_delta_M(), sample.b_delta_M()])
