"""Meshes, and transformations of points."""

import numpy as np
import trimesh
from trimesh import transformations as tf

from benchmarks.packages.cases import Cases

PACKAGE = "trimesh"
cases = Cases()
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
CORNERS = [[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.0, 1.2, 0.1], [0.2, 0.1, 0.9]]


@cases(CORNERS)
def areas_of_triangles(corners):
    return trimesh.triangles.area(corners[FACES])


@cases(CORNERS)
def normals(corners):
    return trimesh.triangles.normals(corners[FACES])[0]


@cases(CORNERS)
def volume_of_triangles(corners):
    return trimesh.triangles.mass_properties(corners[FACES])["volume"]


@cases(CORNERS)
def volume_of_mesh(corners):
    return trimesh.Trimesh(vertices=corners, faces=FACES, process=False).volume


@cases([0.3, 1.0, 0.5, 0.2])
def rotation(x):
    return tf.rotation_matrix(x[0], x[1:])


@cases([0.3, 0.2, 0.5])
def euler_angles(x):
    return np.array(tf.euler_from_matrix(tf.euler_matrix(*x)))


@cases([0.9, 0.2, 0.3, 0.1])
def slerp(q):
    return tf.quaternion_slerp(q, [1.0, 0.0, 0.0, 0.0], 0.4)


@cases([1.0, 0.2, 0.3])
def spherical(v):
    return trimesh.util.vector_to_spherical(v[np.newaxis])[0]
