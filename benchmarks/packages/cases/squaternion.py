"""Quaternions."""

from squaternion import Quaternion

from benchmarks.packages.cases import Cases

PACKAGE = "squaternion"
cases = Cases()


@cases([0.1, 0.2, 0.3])
def of_angles(x):
    q = Quaternion.from_euler(x[0], x[1], x[2])
    return [q.w, q.x, q.y, q.z]


@cases([0.9, 0.1, 0.2, 0.3])
def angles(x):
    return Quaternion(x[0], x[1], x[2], x[3]).normalize.to_euler()


@cases([0.9, 0.1, 0.2, 0.3])
def product(x):
    q = Quaternion(*x) * Quaternion(0.5, 0.5, 0.5, 0.5)
    return [q.w, q.x, q.y, q.z]


@cases(2.5)
def multiple(factor):
    q = factor * Quaternion(0.9, 0.1, 0.2, 0.3)
    return [q.w, q.x, q.y, q.z]


@cases([0.9, 0.1, 0.2, 0.3])
def rotation_matrix(x):
    return Quaternion(*x).normalize.to_rot()
