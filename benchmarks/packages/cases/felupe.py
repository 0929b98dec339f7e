"""Finite elements: solids with large deformations."""

import felupe
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "felupe"
cases = Cases()

GRADIENT = np.array([[1.2, 0.1, 0.0], [0.05, 0.9, 0.02], [0.0, 0.1, 1.1]])[..., None, None]
MESH = felupe.Rectangle(n=3)
REGION = felupe.RegionQuad(MESH)


@cases([[1.2, 0.1, 0.0], [0.05, 0.9, 0.02], [0.0, 0.1, 1.1]])
def neo_hookean_stress(gradient):
    return felupe.NeoHooke(mu=1.0, bulk=2.0).gradient([gradient[..., None, None], None])[0][..., 0, 0]


@cases([1.0, 2.0])
def neo_hookean_energy(x):
    return felupe.NeoHooke(mu=x[0], bulk=x[1]).function([GRADIENT, None])[0][0, 0]


@cases([[1.2, 0.1, 0.0], [0.05, 0.9, 0.02], [0.0, 0.1, 1.1]])
def determinant_and_inverse(gradient):
    return felupe.math.inv(gradient[..., None, None])[..., 0, 0] * felupe.math.det(gradient[..., None, None])


@cases(np.linspace(0.0, 0.17, 18).reshape(9, 2))
def internal_forces(displacements):
    field = felupe.FieldContainer([felupe.FieldPlaneStrain(REGION, dim=2, values=displacements)])
    solid = felupe.SolidBody(felupe.NeoHooke(mu=1.0, bulk=2.0), field)
    return solid.assemble.vector(field).toarray()[:, 0]


@cases([1.0, 0.3])
def stiffness_matrix(x):
    field = felupe.FieldContainer([felupe.FieldPlaneStrain(REGION, dim=2)])
    solid = felupe.SolidBody(felupe.LinearElastic(E=x[0], nu=x[1]), field)
    return solid.assemble.matrix(field).toarray()


@cases(np.array(MESH.points))
def volumes_of_quadrature_points(points):
    return felupe.RegionQuad(felupe.Mesh(points, MESH.cells, "quad")).dV
