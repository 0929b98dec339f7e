"""Integrated optics: multilayers, ring resonators and couplers."""

import EMpy
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "ElectroMagneticPython"
cases = Cases()


def isotropic(n, name):
    return EMpy.materials.IsotropicMaterial(name, n0=EMpy.materials.RefractiveIndex(n0_const=n))


@cases([1.45, 2.0, 3e-7, 0.2])
def reflectance(x):
    stack = EMpy.utils.Multilayer([
        EMpy.utils.Layer(isotropic(1.0, "air"), np.inf),
        EMpy.utils.Layer(isotropic(x[1], "film"), x[2]),
        EMpy.utils.Layer(isotropic(x[0], "glass"), np.inf),
    ])
    solution = EMpy.transfer_matrix.IsotropicTransferMatrix(stack, x[3]).solve(np.array([1.5e-6]))
    return np.concatenate([solution.Rs, solution.Tp])


@cases([0.3, 0.9])
def coupler(x):
    solved = EMpy.devices.Coupler(np.array([1.5e-6]), np.sqrt(x[0]), x[1]).solve()
    return np.abs(np.concatenate([solved.THRU, solved.DROP])) ** 2


@cases([0.3, 2.4, 5e-6])
def ring_resonator(x):
    wavelengths = np.array([1.55e-6, 1.551e-6])
    coupler = EMpy.devices.Coupler(wavelengths, np.sqrt(x[0]), 1.0)
    ring = EMpy.devices.SRR(coupler, coupler, x[1] * np.ones(2), x[2], x[2]).solve()
    return np.abs(np.concatenate([ring.THRU, ring.DROP]))


@cases([1.5e-6, 1.6e-6])
def dispersion(wavelengths):
    material = EMpy.materials.IsotropicMaterial(
        "glass", n0=EMpy.materials.RefractiveIndex(n0_smcoeffs=[1.04, 0.232, 1.01, 6e-15, 2e-14, 1e-10])
    )
    return np.ravel(material.n(wavelengths))


@cases([1.5, 310.0])
def thermo_optic_index(x):
    material = EMpy.materials.IsotropicMaterial(
        "glass",
        n0=EMpy.materials.RefractiveIndex(n0_const=x[0]),
        toc=EMpy.materials.ThermalOpticCoefficient([1e-5, 1e-7]),
    )
    return np.ravel(material.n(1.5e-6, T=x[1]))
