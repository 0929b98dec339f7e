"""Closed forms of `scipy.sparse.linalg` and `scipy.spatial`."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.spatial.transform

from .engine import Row
from .linalg import matrix, tridiagonal, vector
from .transforms import P4, P5

sparse, distance, Rotation = scipy.sparse, scipy.spatial.distance, scipy.spatial.transform.Rotation

OTHER = (1.1, 0.7, -0.4)


# ---- sparse systems


def sparse_tridiagonal(p):
    return sparse.diags_array([[p[1], p[3]], [4 + p[0], 3 + p[2], 2 + p[4]], [p[1], p[3]]], offsets=[-1, 0, 1]).tocsc()


def solver_row(fun, **options):
    return Row(
        lambda p: fun(sparse_tridiagonal(p), p[:3] ** 2),
        lambda *p: mp.lu_solve(matrix(tridiagonal(p)), vector(x * x for x in p[:3])),
        P5,
        **options,
    )


sl = sparse.linalg

SPARSE = {
    "spsolve": {"": solver_row(lambda a, b: sl.spsolve(a, b))},
    "splu": {"": solver_row(lambda a, b: sl.splu(a).solve(b))},
    "factorized": {"": solver_row(lambda a, b: sl.factorized(a)(b))},
    "cg": {"": solver_row(lambda a, b: sl.cg(a, b, rtol=1e-15)[0], first=1e-12, second=1e-11)},
    "gmres": {"": solver_row(lambda a, b: sl.gmres(a, b, rtol=1e-15)[0], first=1e-12, second=1e-11)},
    "expm": {
        "": Row(
            lambda p: sl.expm(sparse_tridiagonal(p)).toarray(),
            lambda *p: mp.expm(matrix(tridiagonal(p))),
            P5,
            value=1e-11,
        )
    },
    "inv": {"": Row(lambda p: sl.inv(sparse_tridiagonal(p)).toarray(), lambda *p: matrix(tridiagonal(p)) ** -1, P5)},
    "expm_multiply": {
        "": Row(
            lambda p: sl.expm_multiply(sparse_tridiagonal(p) / 4, p[:3]),
            lambda *p: mp.expm(matrix(tridiagonal(p)) / 4) * vector(p[:3]),
            P5,
            first=1e-12,
            second=1e-11,
        )
    },
    "eigsh": {
        "": Row(
            lambda p: sl.eigsh(sparse_tridiagonal(p), k=2, v0=np.ones(3), return_eigenvectors=False),
            lambda *p: sorted(mp.eigsy(matrix(tridiagonal(p)), eigvals_only=True))[1:],
            P5,
            first=1e-12,
            second=1e-11,
        )
    },
    "norm": {
        "": Row(
            lambda p: sl.norm(sparse_tridiagonal(p)),
            lambda *p: mp.sqrt(mp.fsum(x * x for x in matrix(tridiagonal(p)))),
            P5,
        )
    },
}


# ---- space


def rotated(r, v):
    """Rotate v about the axis r by its length (Rodrigues)."""
    angle = mp.sqrt(mp.fsum(x * x for x in r))
    k = [x / angle for x in r]
    cross = [k[1] * v[2] - k[2] * v[1], k[2] * v[0] - k[0] * v[2], k[0] * v[1] - k[1] * v[0]]
    dot = mp.fsum(a * b for a, b in zip(k, v))
    c, s = mp.cos(angle), mp.sin(angle)
    return [a * c + b * s + d * dot * (1 - c) for a, b, d in zip(v, cross, k)]


def rotation_matrix(r):
    return [list(row) for row in zip(*(rotated(r, [mp.mpf(int(i == j)) for j in range(3)]) for i in range(3)))]


def quaternion(r):
    angle = mp.sqrt(mp.fsum(x * x for x in r))
    return [*(mp.sin(angle / 2) / angle * x for x in r), mp.cos(angle / 2)]


def from_quaternion(x, y, z, w):
    n = x * x + y * y + z * z + w * w
    return [
        [1 - 2 * (y * y + z * z) / n, 2 * (x * y - z * w) / n, 2 * (x * z + y * w) / n],
        [2 * (x * y + z * w) / n, 1 - 2 * (x * x + z * z) / n, 2 * (y * z - x * w) / n],
        [2 * (x * z - y * w) / n, 2 * (y * z + x * w) / n, 1 - 2 * (x * x + y * y) / n],
    ]


def turn(axis, angle):
    return matrix(rotation_matrix([angle * (i == axis) or mp.mpf(0) for i in range(3)])) if angle else mp.eye(3)


def total_of(f, u, v):
    return mp.fsum(f(a, b) for a, b in zip(u, v))


def cosine(u, v):
    return 1 - total_of(mp.fmul, u, v) / mp.sqrt(total_of(mp.fmul, u, u) * total_of(mp.fmul, v, v))


def centred(u):
    return [x - mp.fsum(u) / len(u) for x in u]


METRICS = {
    "euclidean": lambda u, v: mp.sqrt(total_of(lambda a, b: (a - b) ** 2, u, v)),
    "sqeuclidean": lambda u, v: total_of(lambda a, b: (a - b) ** 2, u, v),
    "cityblock": lambda u, v: total_of(lambda a, b: abs(a - b), u, v),
    "chebyshev": lambda u, v: max(abs(a - b) for a, b in zip(u, v)),
    "canberra": lambda u, v: total_of(lambda a, b: abs(a - b) / (abs(a) + abs(b)), u, v),
    "braycurtis": lambda u, v: total_of(lambda a, b: abs(a - b), u, v) / total_of(lambda a, b: abs(a + b), u, v),
    "cosine": cosine,
    "correlation": lambda u, v: cosine(centred(u), centred(v)),
}
PAIR = [0.3, -1.2, 0.7, 1.1, 0.6, -0.4]


def relative_entropy(p, m):
    return total_of(lambda a, b: a * mp.log(a / b), p, m)


def jensen_shannon(u, v):
    u, v = ([x / mp.fsum(w) for x in w] for w in (u, v))
    m = [(a + b) / 2 for a, b in zip(u, v)]
    return mp.sqrt((relative_entropy(u, m) + relative_entropy(v, m)) / 2)


def minkowski(u, v):
    return mp.cbrt(total_of(lambda a, b: abs(a - b) ** 3, u, v))


def slerp(p, t):
    """Rotate by the fraction t of the rotation vector."""
    return rotation_matrix([t * x for x in p])


SPATIAL = {
    **{
        f"distance.{name}": {
            "": Row(
                lambda p, name=name: getattr(distance, name)(p[:3], p[3:]),
                lambda *p, form=form: form(p[:3], p[3:]),
                PAIR,
            )
        }
        for name, form in METRICS.items()
    },
    "distance.minkowski": {
        "": Row(lambda p: distance.minkowski(p[:3], p[3:], 3), lambda *p: minkowski(p[:3], p[3:]), PAIR)
    },
    "distance.jensenshannon": {
        "": Row(
            lambda p: distance.jensenshannon(p[:3], p[3:]),
            lambda *p: jensen_shannon(p[:3], p[3:]),
            [0.3, 1.2, 0.7, 1.1, 0.6, 0.4],
            second=1e-12,
        )
    },
    "distance.cdist": {
        name: Row(
            lambda p, name=name: distance.cdist(p[None, :3], p[None, 3:], name)[0, 0],
            lambda *p, form=form: form(p[:3], p[3:]),
            PAIR,
        )
        for name, form in METRICS.items()
    },
    "distance.pdist": {
        name: Row(
            lambda p, name=name: distance.pdist(p.reshape(2, 3), name)[0],
            lambda *p, form=form: form(p[:3], p[3:]),
            PAIR,
        )
        for name, form in METRICS.items()
    },
    "distance.mahalanobis": {
        "": Row(
            lambda p: distance.mahalanobis(p[:2], p[2:4], np.stack([p[4:6], p[5:7]])),
            lambda *p: mp.sqrt(
                p[4] * (p[0] - p[2]) ** 2
                + 2 * p[5] * (p[0] - p[2]) * (p[1] - p[3])
                + p[6] * (p[1] - p[3]) ** 2
            ),
            [0.3, -1.2, 0.7, 0.4, 2.0, 0.3, 1.5],
        )
    },
    "transform.Rotation": {
        "from_rotvec": Row(lambda p: Rotation.from_rotvec(p).as_matrix(), lambda *p: rotation_matrix(p), P4[:3]),
        "from_rotvec, small": Row(
            lambda p: Rotation.from_rotvec(p).as_matrix(),
            lambda *p: rotation_matrix(p),
            [1e-5, -2e-5, 1e-5],
            second=1e-11,
        ),
        "from_rotvec, as_quat": Row(lambda p: Rotation.from_rotvec(p).as_quat(), lambda *p: quaternion(p), P4[:3]),
        "from_quat": Row(lambda p: Rotation.from_quat(p).as_matrix(), lambda *p: from_quaternion(*p), P4),
        "as_rotvec": Row(
            lambda p: Rotation.from_matrix(Rotation.from_rotvec(p).as_matrix()).as_rotvec() ** 2,
            lambda *p: [x * x for x in p],
            P4[:3],
            first=1e-12,
            second=1e-12,
        ),
        "apply": Row(
            lambda p: Rotation.from_rotvec(p[:3]).apply(p[3:]), lambda *p: rotated(p[:3], p[3:]), [*P4[:3], *OTHER]
        ),
        "inv": Row(
            lambda p: Rotation.from_rotvec(p).inv().as_matrix(), lambda *p: rotation_matrix([-x for x in p]), P4[:3]
        ),
        "from_euler": Row(
            lambda p: Rotation.from_euler("ZYX", p).as_matrix(),
            lambda *p: turn(2, p[0]) * turn(1, p[1]) * turn(0, p[2]),
            P4[:3],
        ),
        "as_euler": Row(
            lambda p: Rotation.from_euler("ZYX", p).as_euler("ZYX") ** 2,
            lambda *p: [x * x for x in p],
            P4[:3],
            second=1e-12,
        ),
        "magnitude": Row(
            lambda p: Rotation.from_rotvec(p).magnitude(), lambda *p: mp.sqrt(mp.fsum(x * x for x in p)), P4[:3]
        ),
        "as_mrp": Row(
            lambda p: Rotation.from_rotvec(p).as_mrp(),
            lambda *p: [x / (1 + quaternion(p)[3]) for x in quaternion(p)[:3]],
            P4[:3],
        ),
        "power": Row(
            lambda p: (Rotation.from_rotvec(p[:3]) ** p[3]).as_matrix(), lambda *p: slerp(p[:3], p[3]), [*P4[:3], 0.3]
        ),
    },
    "transform.Slerp": {
        "": Row(
            lambda p: scipy.spatial.transform.Slerp(
                [0.0, 1.0], Rotation.from_rotvec(np.stack([0 * p[:3], p[:3]]))
            )(p[3]).as_matrix(),
            lambda *p: slerp(p[:3], p[3]),
            [*P4[:3], 0.3],
            first=1e-12,
            second=1e-11,
        )
    },
}
