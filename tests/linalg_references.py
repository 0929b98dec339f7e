"""Calls of ``scipy.linalg`` with closed forms in mpmath: `CASES` has a function, its form and a point for each name."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.linalg as la

from reference_forms import square, square_array, symmetric, symmetric_array, total, weighted

P3, P4 = [0.3, 0.4, 0.7], [0.3, -1.2, 0.7, 2.1]


def tall(p):
    return mp.matrix([[2 + p[0], p[1]], [p[1] * p[2], 3 + p[0] * p[2]], [p[2], 1 - p[0]]])


def tall_array(p):
    return np.stack(
        [np.stack([2 + p[0], p[1]]), np.stack([p[1] * p[2], 3 + p[0] * p[2]]), np.stack([p[2], 1 - p[0]])]
    )


def triple(p):
    """Return a matrix of order 3, diagonally dominant."""
    return mp.matrix([[4 + p[0], p[1], p[2]], [p[2] * p[0], 5 + p[1], p[0]], [p[1], p[0] * p[1], 6 - p[2]]])


def triple_array(p):
    return np.stack(
        [
            np.stack([4 + p[0], p[1], p[2]]),
            np.stack([p[2] * p[0], 5 + p[1], p[0]]),
            np.stack([p[1], p[0] * p[1], 6 - p[2]]),
        ]
    )


def positive(p):
    a = triple(p)
    return a.T * a


def positive_array(p):
    a = triple_array(p)
    return a.T @ a


def eigenvalues(a):
    return sorted((mp.re(x) for x in mp.eig(a, left=False, right=False)), key=float)


def of_matrix(f, a):
    """Return a function of a matrix with distinct real eigenvalues."""
    values, vectors = mp.eig(a)
    return (vectors * mp.diag([f(x) for x in values]) * mp.inverse(vectors)).apply(mp.re)


def solved(a, b):
    return list(mp.lu_solve(a, mp.matrix(b)))


def triangular_factor(a):
    """Return R of a QR factorisation, by a Cholesky factorisation, with a positive diagonal."""
    return mp.cholesky(a.T * a).T


def inverse_of_exchange(a):
    """Reverse rows and columns."""
    n = a.rows
    return mp.matrix([[a[n - 1 - i, n - 1 - j] for j in range(a.cols)] for i in range(n)])


def flat(a):
    return [a[i, j] for i in range(a.rows) for j in range(a.cols)]


def toeplitz(c, r):
    n = len(c)
    return mp.matrix([[c[i - j] if i >= j else r[j - i] for j in range(len(r))] for i in range(n)])


def banded(p):
    return mp.matrix([[4, p[0], 0], [p[1], 5, p[2]], [0, p[0] * p[1], 6]])


def bands(p):
    zero = 0 * p[0]
    return np.stack(
        [np.stack([zero, p[0], p[2]]), np.array([4.0, 5.0, 6.0]), np.stack([p[1], p[0] * p[1], zero])]
    )


def symmetric_banded(p):
    return mp.matrix([[4, p[0], 0], [p[0], 5, p[1]], [0, p[1], 6 + p[2]]])


def symmetric_bands(p):
    return np.stack([np.stack([0 * p[0], p[0], p[1]]), np.stack([4 + 0 * p[0], 5 + 0 * p[0], 6 + p[2]])])


def kronecker_solution(matrix, q):
    """Solve a linear matrix equation whose matrix acts on the rows of the unknown in order."""
    return list(mp.lu_solve(matrix, mp.matrix(flat(q))))


def kron(a, b):
    m = mp.zeros(a.rows * b.rows, a.cols * b.cols)
    for i in range(m.rows):
        for j in range(m.cols):
            m[i, j] = a[i // b.rows, j // b.cols] * b[i % b.rows, j % b.cols]
    return m


def hessenberg(a):
    v = [a[1, 0], a[2, 0]]
    size = mp.sqrt(v[0] ** 2 + v[1] ** 2)
    q = mp.matrix([[1, 0, 0], [0, v[0] / size, v[1] / size], [0, v[1] / size, -v[0] / size]])
    return (q * a * q.T).apply(abs)


def matrix_row(function, form):
    return lambda p: weighted(function(square_array(p))), lambda *p: total(flat(form(square(p)))), P3


CASES = {
    **{
        f"solve {kind}": (
            lambda p, kind=kind: weighted(la.solve(positive_array(p), p, assume_a=kind)),
            lambda *p: total(solved(positive(p), p)),
            P3,
        )
        for kind in ("pos", "sym", "gen")
    },
    "solve_triangular": (
        lambda p: weighted(la.solve_triangular(triple_array(p), p, lower=True)),
        lambda *p: total(
            solved(mp.matrix([[triple(p)[i, j] if i >= j else 0 for j in range(3)] for i in range(3)]), p)
        ),
        P3,
    ),
    "solve_banded": (
        lambda p: weighted(la.solve_banded((1, 1), bands(p), p)),
        lambda *p: total(solved(banded(p), p)),
        P3,
    ),
    "solveh_banded": (
        lambda p: weighted(la.solveh_banded(symmetric_bands(p), p)),
        lambda *p: total(solved(symmetric_banded(p), p)),
        P3,
    ),
    "solve_toeplitz": (
        lambda p: weighted(la.solve_toeplitz((p[:3] + 3, p[:3] * p[1]), p[1:])),
        lambda *p: total(
            solved(toeplitz([p[0] + 3, p[1] + 3, p[2] + 3], [None, p[1] * p[1], p[2] * p[1]]), p[1:])
        ),
        P4,
    ),
    "solve_circulant": (
        lambda p: weighted(la.solve_circulant(np.stack([4 + p[0], p[1], p[2]]), p)),
        lambda *p: total(solved(toeplitz([4 + p[0], p[1], p[2]], [None, p[2], p[1]]), p)),
        P3,
    ),
    "lu": (
        lambda p: weighted(la.lu(square_array(p))[1]) + weighted(la.lu(square_array(p))[2]),
        lambda *p: total([1, 0, square(p)[1, 0] / square(p)[0, 0], 1])
        + total([square(p)[0, 0], square(p)[0, 1], 0, mp.det(square(p)) / square(p)[0, 0]]),
        P3,
    ),
    "lu_solve": (
        lambda p: weighted(la.lu_solve(la.lu_factor(triple_array(p)), p)),
        lambda *p: total(solved(triple(p), p)),
        P3,
    ),
    "cho_solve": (
        lambda p: weighted(la.cho_solve(la.cho_factor(positive_array(p)), p)),
        lambda *p: total(solved(positive(p), p)),
        P3,
    ),
    "cholesky_banded": (
        lambda p: weighted(la.cholesky_banded(symmetric_bands(p))[1]),
        lambda *p: total(mp.cholesky(symmetric_banded(p))[i, i] for i in range(3)),
        P3,
    ),
    "cho_solve_banded": (
        lambda p: weighted(la.cho_solve_banded((la.cholesky_banded(symmetric_bands(p)), False), p)),
        lambda *p: total(solved(symmetric_banded(p), p)),
        P3,
    ),
    "ldl": (
        lambda p: weighted(la.ldl(symmetric_array(p))[0]) + weighted(la.ldl(symmetric_array(p))[1]),
        lambda *p: total([1, 0, p[1] / (2 + p[0]), 1]) + total([2 + p[0], 0, 0, 3 + p[2] - p[1] ** 2 / (2 + p[0])]),
        P3,
    ),
    "qr": (
        lambda p: weighted(np.abs(la.qr(triple_array(p))[1])),
        lambda *p: total(map(abs, flat(triangular_factor(triple(p))))),
        P3,
    ),
    "rq": (
        lambda p: weighted(np.abs(la.rq(triple_array(p))[0])),
        lambda *p: total(
            map(abs, flat(inverse_of_exchange(triangular_factor(inverse_of_exchange(triple(p)).T).T)))
        ),
        P3,
    ),
    "svdvals": (
        lambda p: weighted(la.svdvals(triple_array(p))),
        lambda *p: total(mp.sqrt(x) for x in reversed(eigenvalues(positive(p)))),
        P3,
    ),
    "svd": (
        lambda p: weighted((lambda u, s, v: (u * s**2) @ u.T)(*la.svd(triple_array(p)))),
        lambda *p: total(flat(triple(p) * triple(p).T)),
        P3,
    ),
    "polar": (
        lambda p: weighted(la.polar(triple_array(p))[0]) + weighted(la.polar(triple_array(p))[1]),
        lambda *p: (lambda root: total(flat(triple(p) * mp.inverse(root))) + total(flat(root)))(
            of_matrix(mp.sqrt, positive(p))
        ),
        P3,
    ),
    "schur": (
        lambda p: weighted(np.sort(np.diag(la.schur(triple_array(p))[0]))),
        lambda *p: total(eigenvalues(triple(p))),
        P3,
    ),
    "hessenberg": (
        lambda p: weighted(np.abs(la.hessenberg(triple_array(p)))),
        lambda *p: total(flat(hessenberg(triple(p)))),
        P3,
    ),
    "eigvals": (
        lambda p: weighted(np.sort(la.eigvals(triple_array(p)).real)),
        lambda *p: total(eigenvalues(triple(p))),
        P3,
    ),
    "eig": (
        lambda p: weighted((lambda w, v: (v * w**3) @ la.inv(v))(*la.eig(triple_array(p))).real),
        lambda *p: total(flat(triple(p) ** 3)),
        P3,
    ),
    "eigh generalised": (
        lambda p: weighted(la.eigh(symmetric_array(p), positive_array(p)[:2, :2], eigvals_only=True)),
        lambda *p: total(
            eigenvalues(mp.inverse(mp.matrix([[positive(p)[i, j] for j in range(2)] for i in range(2)])) * symmetric(p))
        ),
        P3,
    ),
    "eigvalsh_tridiagonal": (
        lambda p: weighted(la.eigvalsh_tridiagonal(np.array([1.0, 2.0, 4.0]) + p, p[:2])),
        lambda *p: total(
            eigenvalues(mp.matrix([[1 + p[0], p[0], 0], [p[0], 2 + p[1], p[1]], [0, p[1], 4 + p[2]]]))
        ),
        P3,
    ),
    "eigvals_banded": (
        lambda p: weighted(la.eigvals_banded(symmetric_bands(p))),
        lambda *p: total(eigenvalues(symmetric_banded(p))),
        P3,
    ),
    "pinv": (
        lambda p: weighted(la.pinv(tall_array(p))),
        lambda *p: total(flat(mp.inverse(tall(p).T * tall(p)) * tall(p).T)),
        P3,
    ),
    "pinvh": (
        lambda p: weighted(la.pinvh(symmetric_array(p))),
        lambda *p: total(flat(mp.inverse(symmetric(p)))),
        P3,
    ),
    "lstsq": (
        lambda p: weighted(la.lstsq(tall_array(p), p)[0]),
        lambda *p: total(solved(tall(p).T * tall(p), tall(p).T * mp.matrix(p))),
        P3,
    ),
    "orth": (
        lambda p: weighted((lambda q: q @ q.T)(la.orth(tall_array(p)))),
        lambda *p: total(flat(tall(p) * mp.inverse(tall(p).T * tall(p)) * tall(p).T)),
        P3,
    ),
    "null_space": (
        lambda p: weighted((lambda n: n @ n.T)(la.null_space(tall_array(p).T))),
        lambda *p: total(flat(mp.eye(3) - tall(p) * mp.inverse(tall(p).T * tall(p)) * tall(p).T)),
        P3,
    ),
    "norm": (
        lambda p: la.norm(triple_array(p)) + la.norm(triple_array(p), 2) + la.norm(triple_array(p), "nuc"),
        lambda *p: mp.sqrt(mp.fsum(x * x for x in flat(triple(p))))
        + mp.sqrt(eigenvalues(positive(p))[-1])
        + mp.fsum(mp.sqrt(x) for x in eigenvalues(positive(p))),
        P3,
    ),
    "fractional_matrix_power": matrix_row(
        lambda a: la.fractional_matrix_power(a, 0.3), lambda a: of_matrix(lambda x: x ** mp.mpf(0.3), a)
    ),
    **{
        name: matrix_row(getattr(la, name), lambda a, f=f: of_matrix(f, a))
        for name, f in {
            "cosm": mp.cos,
            "sinm": mp.sin,
            "tanm": mp.tan,
            "coshm": mp.cosh,
            "sinhm": mp.sinh,
            "tanhm": mp.tanh,
        }.items()
    },
    "signm": matrix_row(
        lambda a: la.signm(a - 2.6 * np.eye(2)), lambda a: of_matrix(mp.sign, a - mp.mpf(2.6) * mp.eye(2))
    ),
    "funm": matrix_row(lambda a: la.funm(a, lambda x: np.exp(-x)), lambda a: of_matrix(lambda x: mp.exp(-x), a)),
    "kron": (
        lambda p: weighted(np.kron(square_array(p), symmetric_array(p))),
        lambda *p: total(flat(kron(square(p), symmetric(p)))),
        P3,
    ),
    "khatri_rao": (
        lambda p: weighted(la.khatri_rao(square_array(p), symmetric_array(p))),
        lambda *p: total(
            square(p)[i, k] * symmetric(p)[j, k] for i in range(2) for j in range(2) for k in range(2)
        ),
        P3,
    ),
    "block_diag": (
        lambda p: la.det(la.block_diag(square_array(p), symmetric_array(p))),
        lambda *p: mp.det(square(p)) * mp.det(symmetric(p)),
        P3,
    ),
    "companion": (
        lambda p: weighted(la.companion(np.stack([2 + p[0], p[1], p[2]]))),
        lambda *p: total([-p[1] / (2 + p[0]), -p[2] / (2 + p[0]), 1, 0]),
        P3,
    ),
    "hankel": (
        lambda p: weighted(la.hankel(p, p[::-1] * p) ** 2),
        lambda *p: total(
            ([*p, p[1] * p[1], p[0] * p[2]])[i + j] ** 2 for i in range(3) for j in range(3)
        ),
        P3,
    ),
    "matmul_toeplitz": (
        lambda p: weighted(la.matmul_toeplitz((p, p * p), p + 1)),
        lambda *p: total(toeplitz(p, [None, p[1] ** 2, p[2] ** 2]) * mp.matrix([x + 1 for x in p])),
        P3,
    ),
    "solve_sylvester": (
        lambda p: weighted(la.solve_sylvester(square_array(p), symmetric_array(p), square_array(p[::-1]))),
        lambda *p: total(
            kronecker_solution(kron(square(p), mp.eye(2)) + kron(mp.eye(2), symmetric(p).T), square(p[::-1]))
        ),
        P3,
    ),
    "solve_continuous_lyapunov": (
        lambda p: weighted(la.solve_continuous_lyapunov(square_array(p), symmetric_array(p))),
        lambda *p: total(
            kronecker_solution(kron(square(p), mp.eye(2)) + kron(mp.eye(2), square(p)), symmetric(p))
        ),
        P3,
    ),
    "solve_discrete_lyapunov": (
        lambda p: weighted(la.solve_discrete_lyapunov(square_array(p) / 8, symmetric_array(p))),
        lambda *p: total(kronecker_solution(mp.eye(4) - kron(square(p) / 8, square(p) / 8), symmetric(p))),
        P3,
    ),
    "solve_continuous_are": (
        lambda p: la.solve_continuous_are(p[:1, None], p[1:2, None], p[2:3, None], p[3:, None])[0, 0],
        lambda a, b, q, r: (a + mp.sqrt(a * a + b * b * q / r)) * r / b**2,
        [0.3, 1.2, 0.7, 2.1],
    ),
    "solve_discrete_are": (
        lambda p: la.solve_discrete_are(p[:1, None], p[1:2, None], p[2:3, None], p[3:, None])[0, 0],
        lambda a, b, q, r: (lambda h: (-h + mp.sqrt(h * h + 4 * b * b * q * r)) / (2 * b * b))(
            r - a * a * r - b * b * q
        ),
        [0.3, 1.2, 0.7, 2.1],
    ),
    "subspace_angles": (
        lambda p: la.subspace_angles(p[:, None], (p**2 + 1)[:, None])[0],
        lambda *p: mp.acos(
            mp.fsum(x * (x * x + 1) for x in p)
            / mp.sqrt(mp.fsum(x * x for x in p) * mp.fsum((x * x + 1) ** 2 for x in p))
        ),
        P3,
    ),
}
