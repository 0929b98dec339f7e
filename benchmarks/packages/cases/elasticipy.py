"""Elastic and plastic solids."""

import numpy as np
from elasticipy.plasticity import JohnsonCook
from elasticipy.tensors.elasticity import StiffnessTensor
from elasticipy.tensors.stress_strain import StressTensor
from elasticipy.yield_criteria import DruckerPrager, MohrCoulomb

from benchmarks.packages.cases import Cases

PACKAGE = "elasticipy"
cases = Cases()


@cases([168.0, 121.0, 75.0])
def anisotropy_of_cubic_crystal(c):
    stiffness = StiffnessTensor.cubic(C11=c[0], C12=c[1], C44=c[2])
    return np.array([stiffness.Zener_ratio(), stiffness.universal_anisotropy, stiffness.bulk_modulus])


@cases([210.0, 0.3])
def lame_constants(x):
    stiffness = StiffnessTensor.isotropic(E=x[0], nu=x[1])
    return np.array([stiffness.lame1, stiffness.lame2])


@cases([168.0, 121.0, 75.0])
def average_of_hill(c):
    return StiffnessTensor.cubic(C11=c[0], C12=c[1], C44=c[2]).Hill_average().matrix()[0]


@cases([[100.0, 20.0, 0.0], [20.0, 50.0, 10.0], [0.0, 10.0, -30.0]])
def von_mises(stress):
    return StressTensor((stress + stress.T) / 2).vonMises()


@cases([0.3, 0.001, 300.0])
def flow_stress(x):
    return JohnsonCook(A=363, B=792.7, n=0.57, C=0.01, m=1.0, T0=25, Tm=1500).flow_stress(x[0], eps_dot=x[1], T=x[2])


@cases([0.2, 30.0])
def drucker_prager(x):
    stress = StressTensor([[100.0, 20.0, 0.0], [20.0, 50.0, 10.0], [0.0, 10.0, -30.0]])
    return DruckerPrager(alpha=x[0], k=x[1]).yield_function(stress)


@cases([10.0, 30.0])
def mohr_coulomb(x):
    stress = StressTensor([[100.0, 20.0, 0.0], [20.0, 50.0, 10.0], [0.0, 10.0, -30.0]])
    return MohrCoulomb(c=x[0], phi=x[1]).yield_function(stress)
