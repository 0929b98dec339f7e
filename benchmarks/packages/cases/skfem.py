"""Finite elements."""

import numpy as np
import skfem
from skfem.helpers import dot, grad
from skfem.models.poisson import laplace, unit_load

from benchmarks.packages.cases import Cases

PACKAGE = "scikit-fem"
cases = Cases()
mesh = skfem.MeshTri().refined(2)
basis = skfem.Basis(mesh, skfem.ElementTriP1())
stiffness, load = laplace.assemble(basis), unit_load.assemble(basis)
state = np.sin(np.arange(basis.N))


@skfem.Functional
def dirichlet(w):
    return 0.5 * dot(grad(w["u"]), grad(w["u"])) - w["u"]


@skfem.LinearForm
def residual(v, w):
    return (1.0 + w["u"] ** 2) * dot(grad(w["u"]), grad(v)) - v


@cases(state)
def quadratic_energy(u):
    return 0.5 * u @ (stiffness @ u) - load @ u


@cases(state)
def energy(u):
    return dirichlet.assemble(basis, u=basis.interpolate(u))


@cases(state)
def nonlinear_residual(u):
    return residual.assemble(basis, u=basis.interpolate(u))
