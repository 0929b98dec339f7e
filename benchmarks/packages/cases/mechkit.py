"""Tensor notations and operators in mechanics."""

import mechkit
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "mechkit"
cases = Cases()


@cases([2e5, 0.3])
def isotropic_material(x):
    material = mechkit.material.Isotropic(E=x[0], nu=x[1])
    return np.array([material.K, material.G, material.la])


@cases([1.5e5, 8e4])
def stiffness_in_voigt_notation(x):
    return mechkit.material.Isotropic(K=x[0], G=x[1]).stiffness_voigt


@cases([[1.0, 0.3, 0.2], [0.3, 2.0, 0.1], [0.2, 0.1, 0.5]])
def mandel_notation(tensor):
    return mechkit.notation.Converter().to_mandel6((tensor + tensor.T) / 2)


@cases([[1.0, 0.3, 0.2], [0.3, 2.0, 0.1], [0.2, 0.1, 0.5]])
def deviator(tensor):
    return mechkit.operators.dev(tensor, order=2)


@cases([[1.0, 0.3, 0.2], [0.1, 1.0, 0.5]])
def orientations(directions):
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return mechkit.fabric_tensors.first_kind_discrete(unit, order=2)
