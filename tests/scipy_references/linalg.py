"""`scipy.linalg` in closed form, for matrices of order 2 and 3."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.linalg

from .engine import Row

la = scipy.linalg

P, Q, NEAR = [0.3, 0.4, 0.7], [0.3, -1.2, 0.7, 2.1, 0.4], [1e-9, 2e-9, 1e-9, -1e-9]


def square(p):
    """Return a matrix of order 2 with distinct positive eigenvalues."""
    return np.array([[2 + p[0], p[1]], [p[1] * p[2], 3 + p[0] * p[2]]])


def other(p):
    return np.array([[p[1], 1 - p[0]], [2 * p[2], p[0] - 4]])


def symmetric(p):
    return np.array([[2 + p[0], p[1]], [p[1], 3 + p[2]]])


def tall(p):
    return np.array([[1 + p[0], p[1]], [p[2], 2 - p[0]], [p[1] * p[2], 1 - p[2]]])


def near_two(p):
    """Return a matrix that has equal eigenvalues at 0."""
    return np.array([[2 + p[0], p[1]], [p[2], 2 + p[3]]])


def tridiagonal(p):
    return np.array([[4 + p[0], p[1], 0 * p[0]], [p[1], 3 + p[2], p[3]], [0 * p[0], p[3], 2 + p[4]]])


def banded(p):
    """Return the upper bands of the tridiagonal matrix."""
    return np.array([[0 * p[0], p[1], p[3]], [4 + p[0], 3 + p[2], 2 + p[4]]])


def matrix(a):
    return mp.matrix(np.array(a).tolist())


def array(a):
    return np.array(a.tolist())


def vector(x):
    return mp.matrix(list(x))


def solved(a, b):
    return matrix(a) ** -1 * matrix(b) if np.ndim(b) == 2 else mp.lu_solve(matrix(a), vector(b))


def linear_system(operator, right):
    """Solve operator(X) = right for a matrix X of order 2; the operator is linear."""
    units = [np.array([[mp.mpf(int(k == i)) for k in (0, 1)], [mp.mpf(int(k == i)) for k in (2, 3)]]) for i in range(4)]
    a = np.array([operator(unit).ravel() for unit in units]).T
    return solved(a, right.ravel())


def gram(a):
    return a.T @ a


def r_factor(a):
    """Return the factor of QR with positive diagonal."""
    return mp.cholesky(matrix(gram(a))).T


def rq_factor(a):
    return array(mp.cholesky(matrix((a @ a.T)[::-1, ::-1])))[::-1, ::-1]


def unsigned(factors):
    """Return R and Q, with the signs that make the diagonal of R positive."""
    q, r = factors
    signs = np.sign(np.diagonal(r))
    return q * signs, signs[:, None] * r


def values(a):
    """Return the eigenvalues of a matrix of order 2, which are real."""
    middle, product = (a[0, 0] + a[1, 1]) / 2, a[0, 0] * a[1, 1] - a[0, 1] * a[1, 0]
    radius = mp.sqrt(middle**2 - product)
    return middle - radius, middle + radius


def projector(a):
    """Return the projector onto the eigenvector of the smaller eigenvalue."""
    low, high = values(a)
    return (a - high * np.array([[1, 0], [0, 1]])) / (low - high)


def singular(a):
    return [mp.sqrt(x) for x in reversed(values(gram(a)))]


def inverse(a):
    return array(matrix(a) ** -1)


def exponential(a):
    return array(mp.expm(matrix(a)))


def hyperbolic(a):
    up, down = exponential(a), exponential(-a)
    return (up - down) / 2, (up + down) / 2


def root_of(a):
    return array(mp.sqrtm(matrix(a)))


def polar(a):
    p = root_of(gram(a))
    return a @ inverse(p), p


def outer(x):
    return x[:, None] * x


def toeplitz(c, r):
    n, m = len(c), len(r)
    return np.array([[c[i - j] if i >= j else r[j - i] for j in range(m)] for i in range(n)])


def lu(a):
    """Eliminate without exchanges of rows."""
    n, low, up = len(a), np.array(mp.eye(len(a)).tolist()), a.copy()
    for j in range(n):
        for i in range(j + 1, n):
            low[i, j] = up[i, j] / up[j, j]
            up[i] = up[i] - low[i, j] * up[j]
    return low, up


def dominant(p):
    return np.array([[4 + p[0], p[1], p[2]], [p[3], 5 - p[0], p[4]], [p[1] * p[2], 1 + p[3], 3 + p[2]]])


def care(a, b, q, r):
    """Solve the scalar equation 2 a x - b^2 x^2 / r + q = 0."""
    return (a + mp.sqrt(a * a + b * b * q / r)) * r / (b * b)


def dare(a, b, q, r):
    """Solve the scalar equation a^2 x - x - (a b x)^2 / (r + b^2 x) + q = 0."""
    middle = r * (1 - a * a) - q * b * b
    return (-middle + mp.sqrt(middle**2 + 4 * b * b * q * r)) / (2 * b * b)


def unit_angle(p):
    dot = mp.fsum(x * y for x, y in zip(p[:3], p[2:]))
    return mp.acos(abs(dot) / mp.sqrt(mp.fsum(x * x for x in p[:3]) * mp.fsum(x * x for x in p[2:])))


def of(fun, build, closed, point=P, **options):
    """Return the row of a function of one matrix."""
    return Row(lambda p: fun(build(p)), lambda *p: closed(build(p)), point, **options)


def everywhere(fun, closed):
    """Return rows for distinct, equal and nearly equal eigenvalues."""
    return {
        "": of(fun, square, closed),
        "equal eigenvalues": of(fun, near_two, closed, [0.0, 0.0, 0.0, 0.0], second=1e-12),
        "defective": of(fun, near_two, closed, [0.0, 0.7, 0.0, 0.0], second=1e-12),
        "nearly equal eigenvalues": of(fun, near_two, closed, NEAR, second=1e-12),
    }


CASES = {
    "block_diag": {
        "": Row(lambda p: la.block_diag(p[:2], p[2]), lambda *p: [p[0], p[1], 0, 0, 0, p[2]], P),
    },
    "cho_solve": {
        "": Row(
            lambda p: la.cho_solve(la.cho_factor(symmetric(p)), p[1:]), lambda *p: solved(symmetric(p), p[1:]), P
        ),
    },
    "cholesky": {
        "lower": of(lambda a: la.cholesky(a, lower=True), symmetric, lambda a: mp.cholesky(matrix(a))),
        "upper": of(la.cholesky, symmetric, lambda a: mp.cholesky(matrix(a)).T),
        "order 3": of(la.cholesky, tridiagonal, lambda a: mp.cholesky(matrix(a)).T, Q),
    },
    "cholesky_banded": {
        "": Row(
            lambda p: la.cholesky_banded(banded(p)),
            lambda *p: [
                [0, *(array(mp.cholesky(matrix(tridiagonal(p))))[i + 1, i] for i in (0, 1))],
                array(mp.cholesky(matrix(tridiagonal(p)))).diagonal(),
            ],
            Q,
        ),
    },
    "circulant": {"": of(la.circulant, np.array, lambda c: [[c[i - j] for j in range(3)] for i in range(3)])},
    "companion": {
        "": of(la.companion, np.array, lambda c: [[-c[1] / c[0], -c[2] / c[0]], [1, 0]]),
    },
    "convolution_matrix": {
        "": of(
            lambda c: la.convolution_matrix(c, 2),
            np.array,
            lambda c: [[c[0], 0], [c[1], c[0]], [c[2], c[1]], [0, c[2]]],
        ),
    },
    "coshm": {"": of(la.coshm, square, lambda a: hyperbolic(a)[1], value=1e-11)},
    "cosm": everywhere(la.cosm, lambda a: mp.cosm(matrix(a))),
    "det": {
        "": of(la.det, square, lambda a: mp.det(matrix(a))),
        "order 3": of(la.det, dominant, lambda a: mp.det(matrix(a)), Q),
    },
    "eig": {
        "values": of(lambda a: np.sort(np.real(la.eig(a)[0])), square, values),
        "projectors": of(lambda a: _projector(*la.eig(a)), square, projector),
    },
    "eig_banded": {
        "": Row(
            lambda p: la.eig_banded(banded(p), eigvals_only=True),
            lambda *p: mp.eigsy(matrix(tridiagonal(p)), eigvals_only=True),
            Q,
        ),
    },
    "eigh": {
        "values": of(lambda a: la.eigh(a)[0], symmetric, values),
        "projectors": of(lambda a: outer(la.eigh(a)[1][:, 0]), symmetric, projector),
        "generalised": Row(
            lambda p: la.eigh(other(p) + other(p).T, symmetric(p), eigvals_only=True),
            lambda *p: values(inverse(symmetric(p)) @ (other(p) + other(p).T)),
            P,
        ),
    },
    "eigh_tridiagonal": {
        "": Row(
            lambda p: la.eigh_tridiagonal(banded(p)[1], banded(p)[0, 1:], eigvals_only=True),
            lambda *p: mp.eigsy(matrix(tridiagonal(p)), eigvals_only=True),
            Q,
        ),
    },
    "eigvals": {"": of(lambda a: np.sort(np.real(la.eigvals(a))), square, values)},
    "eigvalsh": {"": of(la.eigvalsh, symmetric, values)},
    "expm": everywhere(la.expm, exponential),
    "expm_frechet": {
        "": Row(
            lambda p: la.expm_frechet(square(p), other(p)),
            lambda *p: _expm_frechet(square(p), other(p)),
            P,
            second=1e-12,
        ),
    },
    "fractional_matrix_power": {
        "": of(lambda a: la.fractional_matrix_power(a, 0.3), square, lambda a: mp.powm(matrix(a), mp.mpf(0.3))),
    },
    "funm": {
        "": of(lambda a: la.funm(a, lambda x: np.sin(x) * x), square, lambda a: a @ array(mp.sinm(matrix(a)))),
    },
    "hankel": {"": of(lambda c: la.hankel(c), np.array, lambda c: [[c[0], c[1], c[2]], [c[1], c[2], 0], [c[2], 0, 0]])},
    "inv": {
        "": of(la.inv, square, inverse),
        "order 3": of(la.inv, dominant, inverse, Q),
    },
    "khatri_rao": {
        "": Row(
            lambda p: la.khatri_rao(square(p), other(p)),
            lambda *p: [[square(p)[i, k] * other(p)[j, k] for k in (0, 1)] for i in (0, 1) for j in (0, 1)],
            P,
        ),
    },
    "ldl": {
        "": Row(
            lambda p: la.ldl(symmetric(p))[:2],
            lambda *p: [
                [1, 0, p[1] / (2 + p[0]), 1],
                [2 + p[0], 0, 0, 3 + p[2] - p[1] ** 2 / (2 + p[0])],
            ],
            P,
        ),
    },
    "leslie": {"": of(lambda p: la.leslie(p, p[1:]), np.array, lambda p: [p, [p[1], 0, 0], [0, p[2], 0]])},
    "logm": {
        "": of(la.logm, square, lambda a: mp.logm(matrix(a)), order=1),
        "nearly equal eigenvalues": of(la.logm, near_two, lambda a: mp.logm(matrix(a)), NEAR, order=1),
        "equal eigenvalues": of(la.logm, near_two, lambda a: mp.logm(matrix(a)), [0.0] * 4, order=1),
    },
    "lstsq": {
        "": Row(
            lambda p: la.lstsq(tall(p), p)[0],
            lambda *p: solved(gram(tall(p)), tall(p).T @ np.array(p)),
            P,
        ),
    },
    "lu": {"": of(lambda a: la.lu(a)[1:], dominant, lu, Q)},
    "lu_solve": {
        "": Row(lambda p: la.lu_solve(la.lu_factor(square(p)), p[1:]), lambda *p: solved(square(p), p[1:]), P),
        "transposed": Row(
            lambda p: la.lu_solve(la.lu_factor(square(p)), p[1:], trans=1), lambda *p: solved(square(p).T, p[1:]), P
        ),
    },
    "matmul_toeplitz": {
        "": Row(
            lambda p: la.matmul_toeplitz(p[:3], p[2:]), lambda *p: toeplitz(p[:3], p[:3]) @ np.array(p[2:]), Q
        ),
    },
    "norm": {
        "Frobenius": of(la.norm, square, lambda a: mp.sqrt(sum(a.ravel() ** 2))),
        "2": of(lambda a: la.norm(a, 2), square, lambda a: singular(a)[0]),
        "1": of(lambda a: la.norm(a, 1), square, lambda a: abs(a[0, 1]) + abs(a[1, 1])),
    },
    "null_space": {
        "": of(
            lambda a: _onto(la.null_space(a.T)),
            tall,
            lambda a: np.array(mp.eye(3).tolist()) - a @ inverse(gram(a)) @ a.T,
        ),
    },
    "orth": {"": of(lambda a: _onto(la.orth(a)), tall, lambda a: a @ inverse(gram(a)) @ a.T)},
    "orthogonal_procrustes": {
        "": Row(
            lambda p: la.orthogonal_procrustes(square(p), other(p)),
            lambda *p: _procrustes(square(p), other(p)),
            P,
        ),
    },
    "pinv": {"": of(la.pinv, tall, lambda a: inverse(gram(a)) @ a.T)},
    "pinvh": {"": of(la.pinvh, symmetric, inverse)},
    "polar": {
        "": of(la.polar, square, polar),
        "tall": of(la.polar, tall, polar),
        "left": of(lambda a: la.polar(a, side="left")[1], square, lambda a: root_of(a @ a.T)),
    },
    "qr": {
        "square": of(lambda a: unsigned(la.qr(a)), square, lambda a: (a @ inverse(array(r_factor(a))), r_factor(a))),
        "economic": of(
            lambda a: unsigned(la.qr(a, mode="economic")),
            tall,
            lambda a: (a @ inverse(array(r_factor(a))), r_factor(a)),
        ),
    },
    "rq": {"": of(lambda a: np.abs(la.rq(a, mode="r")), square, lambda a: abs(rq_factor(a)))},
    "schur": {
        "": of(
            lambda a: (np.sort(np.diagonal(la.schur(a)[0])), np.abs(la.schur(a)[0][0, 1])),
            square,
            lambda a: (values(a), abs(a[0, 1] - a[1, 0])),
        ),
    },
    "signm": {"": of(la.signm, other, lambda a: a @ inverse(root_of(a @ a)), value=1e-11)},
    "sinhm": {"": of(la.sinhm, square, lambda a: hyperbolic(a)[0], value=1e-11)},
    "sinm": everywhere(la.sinm, lambda a: mp.sinm(matrix(a))),
    "solve": {
        "": Row(lambda p: la.solve(square(p), p[1:]), lambda *p: solved(square(p), p[1:]), P),
        "order 3": Row(lambda p: la.solve(dominant(p), p[2:]), lambda *p: solved(dominant(p), p[2:]), Q),
        "symmetric": Row(
            lambda p: la.solve(symmetric(p), p[1:], assume_a="sym"), lambda *p: solved(symmetric(p), p[1:]), P
        ),
        "positive definite": Row(
            lambda p: la.solve(symmetric(p), p[1:], assume_a="pos"), lambda *p: solved(symmetric(p), p[1:]), P
        ),
        "transposed": Row(
            lambda p: la.solve(square(p), p[1:], transposed=True), lambda *p: solved(square(p).T, p[1:]), P
        ),
        "several right-hand sides": Row(
            lambda p: la.solve(square(p), other(p)), lambda *p: solved(square(p), other(p)), P
        ),
    },
    "solve_banded": {
        "": Row(
            lambda p: la.solve_banded((1, 1), np.stack([*banded(p), np.roll(banded(p)[0], -1)]), p[:3]),
            lambda *p: solved(tridiagonal(p), p[:3]),
            Q,
        ),
    },
    "solve_circulant": {
        "": Row(
            lambda p: la.solve_circulant(p[:3], p[2:]),
            lambda *p: solved([[p[(i - j) % 3] for j in range(3)] for i in range(3)], p[2:]),
            Q,
        ),
    },
    "solve_continuous_are": {
        "": Row(
            lambda p: la.solve_continuous_are(p[:1, None], p[1:2, None], p[2:3, None], p[3:4, None]),
            care,
            [0.3, 0.7, 1.2, 2.1],
        ),
    },
    "solve_continuous_lyapunov": {
        "": Row(
            lambda p: la.solve_continuous_lyapunov(square(p), other(p)),
            lambda *p: linear_system(lambda x: square(p) @ x + x @ square(p).T, other(p)),
            P,
        ),
    },
    "solve_discrete_are": {
        "": Row(
            lambda p: la.solve_discrete_are(p[:1, None], p[1:2, None], p[2:3, None], p[3:4, None]),
            dare,
            [0.3, 0.7, 1.2, 2.1],
        ),
    },
    "solve_discrete_lyapunov": {
        "": Row(
            lambda p: la.solve_discrete_lyapunov(square(p) / 5, other(p)),
            lambda *p: linear_system(lambda x: x - square(p) / 5 @ x @ square(p).T / 5, other(p)),
            P,
        ),
    },
    "solve_sylvester": {
        "": Row(
            lambda p: la.solve_sylvester(square(p), symmetric(p), other(p)),
            lambda *p: linear_system(lambda x: square(p) @ x + x @ symmetric(p), other(p)),
            P,
        ),
    },
    "solve_toeplitz": {
        "": Row(
            lambda p: la.solve_toeplitz((p[:3], p[[0, 3, 4]]), p[2:]),
            lambda *p: solved(toeplitz(p[:3], (p[0], p[3], p[4])), p[2:]),
            [3.3, -1.2, 0.7, 1.1, 0.4],
        ),
    },
    "solve_triangular": {
        "lower": Row(
            lambda p: la.solve_triangular(square(p), p[1:], lower=True),
            lambda *p: solved(square(p) * np.array([[1, 0], [1, 1]]), p[1:]),
            P,
        ),
        "unit, transposed": Row(
            lambda p: la.solve_triangular(square(p), p[1:], trans=1, unit_diagonal=True),
            lambda *p: solved([[1, 0], [p[1], 1]], p[1:]),
            P,
        ),
    },
    "solveh_banded": {
        "": Row(lambda p: la.solveh_banded(banded(p), p[:3]), lambda *p: solved(tridiagonal(p), p[:3]), Q),
    },
    "sqrtm": everywhere(la.sqrtm, root_of),
    "subspace_angles": {
        "": Row(lambda p: la.subspace_angles(p[:3, None], p[2:, None]), lambda *p: unit_angle(p), Q),
    },
    "svd": {
        "values": of(lambda a: la.svd(a)[1], square, singular),
        "projectors": of(lambda a: outer(la.svd(a)[0][:, 1]), square, lambda a: projector(a @ a.T)),
        "economic": of(lambda a: la.svd(a, full_matrices=False)[1], tall, singular),
    },
    "svdvals": {"": of(la.svdvals, tall, singular)},
    "tanhm": {"": of(la.tanhm, square, lambda a: inverse(hyperbolic(a)[1]) @ hyperbolic(a)[0], value=1e-11)},
    "tanm": {"": of(la.tanm, square, lambda a: inverse(array(mp.cosm(matrix(a)))) @ array(mp.sinm(matrix(a))))},
    "toeplitz": {"": Row(lambda p: la.toeplitz(p[:3], p[2:]), lambda *p: toeplitz(p[:3], p[2:]), Q)},
}


def _onto(basis):
    return basis @ basis.T


def _projector(eigenvalues, vectors):
    """Return the projector onto the eigenvector of the smaller eigenvalue."""
    i = int(np.argmin(np.real(eigenvalues)))
    vectors = np.real(vectors)
    return np.outer(vectors[:, i], np.linalg.inv(vectors)[i])


def _expm_frechet(a, e):
    """Use the exponential of a block matrix."""
    zero = 0 * a
    whole = exponential(np.block([[a, e], [zero, a]]))
    return whole[:2, :2], whole[:2, 2:]


def _procrustes(a, b):
    u, p = polar(a.T @ b)
    return u, p[0, 0] + p[1, 1]
