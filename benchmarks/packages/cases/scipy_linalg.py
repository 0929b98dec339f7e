"""Linear algebra and Fourier transforms of SciPy."""

import numpy as np
import scipy
import scipy.fft as sfft
import scipy.linalg as la
from scipy import fft, linalg
from scipy.fft import dct, dctn, dst, fftfreq, fftshift, idct, idctn, irfft, next_fast_len, rfft, rfftfreq
from scipy.linalg import (
    block_diag,
    cho_factor,
    cho_solve,
    cholesky,
    circulant,
    eigh,
    expm,
    hankel,
    logm,
    lstsq,
    lu_factor,
    lu_solve,
    norm,
    pinv,
    qr,
    solve,
    solve_banded,
    solve_triangular,
    solveh_banded,
    sqrtm,
    svd,
    toeplitz,
)

from benchmarks.packages.cases import Cases

rng = np.random.default_rng(0)
R44 = rng.normal(size=(4, 4))
R53 = rng.normal(size=(5, 3))
R63 = rng.normal(size=(6, 3))
Y6 = rng.normal(size=6)
SPD4 = R44 @ R44.T + 4 * np.eye(4)
XG = np.linspace(0.0, 1.0, 7)
W8 = rng.normal(size=8)
T16 = np.arange(16) / 16.0
T32 = np.arange(32) / 32.0
rng_image = rng.uniform(size=(6, 5))


# ---------------------------------------------------------------- linear systems

def truss_displacements(k):
    """Three springs in series, fixed at one end, pulled at the other."""
    K = np.array([[k[0] + k[1], -k[1], 0.0], [-k[1], k[1] + k[2], -k[2]], [0.0, -k[2], k[2]]])
    return la.solve(K, np.array([0.0, 1.0, 2.0]), assume_a="pos")


def circuit_nodes(r):
    g = 1.0 / r
    G = np.array([[g[0] + g[1] + g[2], -g[2]], [-g[2], g[2] + g[3]]])
    v = solve(G, [5.0 * g[0], 0.0], assume_a="sym", lower=True, check_finite=False)
    return v[0] - v[1]


def solve_transposed(x):
    A = R44 + np.diag(x) + 4 * np.eye(4)
    return linalg.solve(A, x[::-1], transposed=True)


def ac_impedance(p):
    """Series R-L against shunt C: phasor solution at a frequency."""
    R, L, C, w = p
    Z = np.array([[R + 1j * w * L, -1.0], [1.0, 1j * w * C]])
    s = la.solve(Z, np.array([0.0 + 0j, 1.0]))
    return np.abs(s)


def solve_matrix_rhs(x):
    B = np.outer(x, [1.0, -0.5, 2.0]) + R44[:, :3]
    return la.solve(SPD4, B, assume_a="pos", overwrite_b=True)


def beam_banded(ei):
    """Poisson-like bar with varying stiffness, tridiagonal solve."""
    n = len(ei) - 1
    main = ei[:-1] + ei[1:]
    off = -ei[1:-1]
    ab = np.vstack([np.concatenate([[0.0], off]), main, np.concatenate([off, [0.0]])])
    return solve_banded((1, 1), ab, np.ones(n) / n ** 2)


def banded_pentadiagonal(x):
    n = 8
    A = np.zeros((4, n))
    A[0, 2:] = 0.3
    A[1, 1:] = -1.0
    A[2] = 6.0
    A[3, :-1] = -0.7
    ab = A * (1 + 0.1 * np.sin(x[0] * np.arange(n)))
    return solve_banded((1, 2), ab, x[1] * W8 + x[2], overwrite_ab=True, overwrite_b=True)


def crank_nicolson_step(p):
    D, dt, u0 = p
    n = 9
    dx = 1.0 / (n + 1)
    r = D * dt / (2 * dx ** 2)
    xg = np.linspace(dx, 1 - dx, n)
    u = u0 * np.sin(np.pi * xg) + 0.1 * xg
    rhs = u + r * (np.append(u[1:], 0) - 2 * u + np.append(0, u[:-1]))
    ab = np.array([np.full(n, 1.0) * -r, np.full(n, 1.0) * (1 + 2 * r), np.full(n, 1.0) * -r])
    return la.solve_banded((1, 1), ab, rhs)


def whittaker_smooth(y):
    """Penalised second differences, upper banded form."""
    n = len(y)
    D = np.diff(np.eye(n), 2, axis=0)
    A = np.eye(n) + 10.0 * D.T @ D
    ab = np.zeros((3, n))
    for k in range(3):
        ab[2 - k, k:] = np.diag(A, k)
    return solveh_banded(ab, y)


def smooth_penalty_strength(p):
    y = np.cos(5 * XG) + 0.1 * np.sin(31 * XG)
    lam = np.exp(p[0])
    main = 1 + lam * np.array([1, 2, 2, 2, 2, 2, 1.0])
    off = -lam * np.ones(7)
    return la.solveh_banded(np.stack([main, off]), y * p[1], lower=True)


def forward_substitution(x):
    L = np.tril(R44) + 3 * np.eye(4)
    return solve_triangular(L, x, lower=True)


def back_substitution_trans(x):
    L = np.array([[x[0], 0, 0], [x[1], x[2], 0], [x[3], x[4], x[5]]])
    return la.solve_triangular(L, np.array([1.0, 2.0, -1.0]), trans="T", lower=True)


def unit_triangular(x):
    U = np.triu(R44, 1) * x[0] + np.eye(4)
    return la.solve_triangular(U, x, unit_diagonal=True, check_finite=False)


def triangular_of_complex(x):
    L = np.array([[2.0 + 1j * x[0], 0], [x[1], x[2] - 0.5j]])
    z = solve_triangular(L, np.array([1.0, 1j]), lower=True, trans="C")
    return np.concatenate([z.real, z.imag])


def toeplitz_yule_walker(y):
    """AR(2) coefficients from samples through the autocorrelation."""
    n = len(y)
    z = y - y.mean()
    r = np.array([z[: n - k] @ z[k:] for k in range(3)]) / n
    return la.solve_toeplitz(r[:2], r[1:3])


def wiener_filter_toeplitz(p):
    """Wiener taps for an exponentially correlated signal plus noise."""
    rho, s2 = p
    k = np.arange(6)
    rx = rho ** k
    ry = rx + s2 * (k == 0)
    return linalg.solve_toeplitz(ry, np.roll(rx, 1))


def toeplitz_nonsym_solve(x):
    c = np.concatenate([[4.0], x[:3]])
    r = np.concatenate([[4.0], x[3:]])
    return la.solve_toeplitz((c, r), np.array([1.0, -1.0, 2.0, 0.5]), check_finite=True)


def circulant_deblur(x):
    c = np.array([1.0, 0.4, 0.1, 0.0, 0.1, 0.4]) * np.exp(-0.05 * np.arange(6)) + 0.5 * (np.arange(6) == 0)
    return la.solve_circulant(c, x)


def circulant_kernel_width(p):
    d = np.minimum(np.arange(8), 8 - np.arange(8))
    c = np.exp(-0.5 * (d / p[0]) ** 2) + p[1] * (d == 0)
    return la.solve_circulant(c, W8, singular="raise")


# ---------------------------------------------------------------- inverses, determinants, norms

def inv_covariance(t):
    K = np.exp(-np.abs(XG[:, None] - XG) / t[0]) + t[1] * np.eye(7)
    return np.diag(linalg.inv(K))


def inv_rotation_scale(p):
    c, s = np.cos(p[0]), np.sin(p[0])
    A = np.array([[p[1] * c, -s], [s, p[2] * c]])
    return la.inv(A, overwrite_a=True, check_finite=False)


def det_jacobian_polar(q):
    r, th, ph = q
    J = np.array([
        [np.sin(th) * np.cos(ph), r * np.cos(th) * np.cos(ph), -r * np.sin(th) * np.sin(ph)],
        [np.sin(th) * np.sin(ph), r * np.cos(th) * np.sin(ph), r * np.sin(th) * np.cos(ph)],
        [np.cos(th), -r * np.sin(th), 0.0]])
    return la.det(J)


def det_stack(x):
    A = R44[None] + x[:, None, None] * np.eye(4)
    return la.det(A)


def pinv_calibration(x):
    """Least squares gain and offset from readings."""
    A = np.column_stack([x, np.ones_like(x)])
    return pinv(A) @ np.array([0.1, 1.2, 1.9, 3.2, 3.9])


def pinv_wide(x):
    J = np.array([[-np.sin(x[0]), -np.sin(x[0] + x[1]), 0.2], [np.cos(x[0]), np.cos(x[0] + x[1]), x[2]]])
    return la.pinv(J, rtol=1e-10)


def pinvh_laplacian(w):
    """Effective resistance between two nodes of a weighted graph."""
    B = np.array([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1], [1, 0, 0, -1], [1, 0, -1, 0.0]])
    L = B.T @ np.diag(w) @ B
    P = la.pinvh(L, rtol=1e-9)
    return P[0, 0] + P[2, 2] - 2 * P[0, 2]


def pinvh_rank(x):
    A = SPD4 + np.outer(x, x)
    P, rank = linalg.pinvh(A, return_rank=True)
    return np.trace(P) * rank


def norms_of_matrix(x):
    A = x.reshape(2, 3)
    return np.array([la.norm(A), la.norm(A, "nuc"), la.norm(A, 2), la.norm(A, 1), la.norm(A, np.inf)])


def norm_rows(x):
    A = x.reshape(3, 2)
    return A / la.norm(A, axis=1, keepdims=True)


def norm_vector_orders(x):
    return np.array([norm(x, 1), norm(x, 3), norm(x, ord=2), norm(x - 1.0)])


def norm_axis_pair(x):
    A = np.stack([np.outer(x, x), np.outer(x, x ** 2) + np.eye(3)])
    return la.norm(A, "fro", axis=(1, 2))


def lstsq_polyfit(t):
    """Quadratic through noisy points, abscissae uncertain."""
    A = t[:, None] ** np.arange(3)
    coef, _res, _rank, _sv = lstsq(A, np.sin(np.arange(6.0)))
    return coef


def lstsq_residual(y):
    A = np.vander(np.linspace(0, 1, 7), 3)
    _p, res, _rnk, _s = la.lstsq(A, y)
    return res


def lstsq_gelsy(y):
    c = linalg.lstsq(R63, y, lapack_driver="gelsy")[0]
    return np.sum(c ** 2)


def lstsq_underdetermined(x):
    A = np.array([[x[0], 1.0, 2.0, -1.0], [0.5, x[1], -1.0, x[2]]])
    return la.lstsq(A, [1.0, 2.0], cond=1e-12)[0]


def lstsq_multi_rhs(p):
    B = np.column_stack([np.exp(-p[0] * np.arange(6)), np.cos(p[1] * np.arange(6))])
    x, *_ = la.lstsq(R63, B, lapack_driver="gelsd")
    return x


# ---------------------------------------------------------------- factorisations

def cholesky_correlate(p):
    """Correlated shocks from three correlations."""
    C = np.array([[1, p[0], p[1]], [p[0], 1, p[2]], [p[1], p[2], 1]])
    L = cholesky(C, lower=True)
    return L @ np.array([0.3, -1.1, 0.7])


def cholesky_upper_logdet(t):
    d2 = (XG[:, None] - XG) ** 2
    K = t[0] ** 2 / (1 + d2 / t[1] ** 2) + 1e-2 * np.eye(7)
    U = la.cholesky(K, check_finite=False)
    return 2 * np.log(U.diagonal()).sum()


def gp_predict(t):
    X = np.linspace(0, 1, 6)
    Xs = np.array([0.15, 0.55, 0.93])
    k = lambda a, b: t[0] ** 2 * np.exp(-0.5 * (a[:, None] - b) ** 2 / t[1] ** 2)
    c, low = cho_factor(k(X, X) + t[2] ** 2 * np.eye(6))
    Ks = k(X, Xs)
    mean = Ks.T @ cho_solve((c, low), np.sin(4 * X))
    var = t[0] ** 2 - np.sum(Ks * cho_solve((c, low), Ks), axis=0)
    return np.concatenate([mean, var])


def mvn_logpdf_chol(y):
    L = la.cholesky(SPD4, lower=True)
    z = la.solve_triangular(L, y, lower=True)
    return -0.5 * z @ z - np.log(np.diag(L)).sum() - 2 * np.log(2 * np.pi)


def banded_cholesky_diag(x):
    ab = np.array([np.r_[0.0, x[1:]], 3.0 + x ** 2])
    c = la.cholesky_banded(ab)
    return c[1]


def ar1_precision_solve(p):
    """AR(1) precision matrix in lower banded form."""
    phi, s = p
    n = 6
    d = np.concatenate([[1.0], np.ones(n - 2) * (1 + phi ** 2), [1.0]]) / s ** 2
    o = np.concatenate([-phi * np.ones(n - 1), [0.0]]) / s ** 2
    cb = la.cholesky_banded(np.array([d, o]), lower=True)
    return la.cho_solve_banded((cb, True), Y6)


def lu_reuse(x):
    A = R44 + np.diag(x) + 3 * np.eye(4)
    lu, piv = lu_factor(A)
    a = lu_solve((lu, piv), np.ones(4))
    b = lu_solve((lu, piv), a, trans=1)
    return np.concatenate([a, b])


def lu_logdet(x):
    A = np.array([[4.0, x[0], 1.0], [x[1], 3.0, x[2]], [0.5, 1.0, x[3]]])
    lu, _piv = la.lu_factor(A, check_finite=False)
    return np.sum(np.log(np.abs(np.diag(lu))))


def lu_pieces(x):
    A = np.array([[1.0, x[0], 2.0], [5.0, 1.0, x[1]], [x[2], 3.0, 1.0]])
    _P, L, U = la.lu(A)
    return np.concatenate([L[np.tril_indices(3, -1)], U[np.triu_indices(3)]])


def lu_permute_l(x):
    PL, _U = linalg.lu(R53 + np.outer(np.arange(5), x) * 0.2, permute_l=True)
    return PL


def lu_p_indices(x):
    A = np.array([[0.2, x[0]], [x[1], 3.0], [7.0, x[0] * x[1]]])
    p, L, U = la.lu(A, p_indices=True)
    return L[p, :] @ U + np.sum(L[p])


def ldl_inertia(x):
    A = np.array([[4.0, x[0], x[1]], [x[0], 5.0, x[2]], [x[1], x[2], 6.0]])
    L, D, perm = la.ldl(A)
    return np.concatenate([np.diag(D), L[perm][np.tril_indices(3, -1)]])


def ldl_upper(x):
    A = SPD4 + np.diag(x)
    _U, D, _p = la.ldl(A, lower=False)
    return np.log(np.diag(D))


def qr_least_squares(x):
    A = np.column_stack([np.ones(6), x, np.exp(-x)])
    Q, R = qr(A, mode="economic")
    return solve_triangular(R, Q.T @ Y6)


def qr_full_r(x):
    R, = la.qr(x.reshape(4, 2), mode="r")
    return np.abs(R[:2])


def qr_pivoted(x):
    A = R53 * x
    _Q, R, _P = la.qr(A, pivoting=True, mode="economic")
    return np.abs(np.diag(R))


def qr_projector(x):
    A = R53 + 0.3 * np.outer(np.linspace(-1, 1, 5), x)
    Q = la.qr(A, mode="economic")[0]
    return (Q @ Q.T)[0]


def gram_schmidt_frame(v):
    """Orthonormal frame whose first axis lies along a direction."""
    M = np.column_stack([v, [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    Q, R = la.qr(M)
    return Q * np.sign(np.diag(R))


def rq_camera(x):
    """Intrinsics from a projection matrix, K up to scale."""
    M = np.array([[800.0, x[0], 320.0], [x[1], 780.0, 240.0], [0.01, x[2], 1.0]])
    K, _Rm = la.rq(M)
    D = np.diag(np.sign(np.diag(K)))
    K = K @ D
    return (K / K[2, 2])[np.triu_indices(3)] / 100


def rq_economic(x):
    R, _Q = linalg.rq(x.reshape(2, 3), mode="economic")
    return np.abs(R[np.triu_indices(2)])


def qr_multiply_rhs(x):
    A = np.column_stack([np.ones(5), x])
    cQ, R = la.qr_multiply(A, np.array([1.0, 2.0, 1.5, 0.5, -1.0]), mode="right")
    return la.solve_triangular(R, cQ)


def svd_condition(x):
    A = np.array([[1.0, x[0], x[1]], [x[2], 2.0, 0.5]])
    s = svd(A, compute_uv=False)
    return s[0] / s[-1]


def svd_lowrank(x):
    """Best rank one approximation of a small table."""
    U, s, Vt = svd(x.reshape(2, 4), full_matrices=False)
    return s[0] * np.outer(U[:, 0], Vt[0])


def svd_truncated_solve(y):
    """Tikhonov filter factors."""
    A = la.hilbert(5) + 0.1 * np.eye(5)
    U, s, Vh = la.svd(A)
    f = s ** 2 / (s ** 2 + 0.05 ** 2)
    return Vh.T @ (f * (U.T @ y) / s)


def tikhonov_parameter(p):
    t = np.linspace(0, 1, 6)
    A = np.exp(-p[1] * (t[:, None] - t) ** 2)
    U, s, Vt = linalg.svd(A, lapack_driver="gesvd")
    return Vt.T @ (s / (s ** 2 + p[0] ** 2) * (U.T @ np.cos(3 * t)))


def pca_explained(x):
    X = np.column_stack([x, x ** 2, np.sin(np.arange(6))])
    X = X - X.mean(axis=0)
    s = la.svdvals(X)
    return s ** 2 / np.sum(s ** 2)


def diagsvd_rebuild(x):
    U, s, Vh = la.svd(R53)
    S = la.diagsvd(s * x, 5, 3)
    return (U @ S @ Vh).ravel()


def svd_nullvector(x):
    """Direct linear transform: last right singular vector."""
    A = np.array([[x[0], 1.0, 0.5], [x[1], -0.3, 2.0], [1.0, x[2], x[3]], [0.2, x[0] * x[3], 1.0]])
    v = la.svd(A)[2][-1]
    return v / v[-1]


def orth_projector(x):
    A = np.column_stack([np.ones(4), x])
    Q = la.orth(A)
    return Q @ Q.T


def null_space_projector(x):
    A = np.array([[x[0], x[1], 1.0, 0.0], [0.0, x[2], 1.0, x[3]]])
    N = la.null_space(A, rcond=1e-10)
    return N @ N.T


def polar_rotation(F):
    """Right polar decomposition of a deformation gradient."""
    U, P = la.polar(F.reshape(2, 2))
    return np.concatenate([U.ravel(), P.ravel()])


def polar_left_stretch(x):
    F = np.eye(3) + np.array([[0.1, x[0], 0], [x[1], -0.1, x[2]], [0, 0.05, x[3]]])
    _R, V = linalg.polar(F, side="left")
    return V


def schur_form(x):
    A = np.array([[x[0], 1.0, 2.0], [0.3, x[1], 1.0], [0.1, 0.2, x[2]]])
    T, _Z = la.schur(A)
    return np.sort(np.diag(T))


def schur_trace_product(x):
    T, _Z = la.schur(R44 + np.diag(x), output="complex")
    return np.abs(np.prod(np.diag(T)))


def hessenberg_reduce(x):
    H, _Q = la.hessenberg(R44 + np.diag(x), calc_q=True)
    return np.abs(np.diag(H, -1))


def matrix_h_only(x):
    H = la.hessenberg(x[0] * R44 + np.outer(x, np.ones(4)))
    return np.diag(H)


def procrustes_align(a):
    """Rotation that turns measured points to reference points."""
    ref = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 1.0]])
    R, sc = la.orthogonal_procrustes(a.reshape(4, 2), ref)
    return np.append(R.ravel(), sc)


def subspace_angle_pair(x):
    A = np.column_stack([[1.0, 0, 0, 0], [0, 1.0, 0, 0]])
    B = np.column_stack([[1.0, x[0], x[1], 0.2], [0.1, 1.0, x[2], x[3]]])
    return la.subspace_angles(A, B)


# ---------------------------------------------------------------- eigenproblems

def vibration_modes(p):
    """Natural frequencies of a three mass chain."""
    m, k = p[:3], p[3:]
    K = np.array([[k[0] + k[1], -k[1], 0], [-k[1], k[1] + k[2], -k[2]], [0, -k[2], k[2]]])
    w2 = eigh(K, np.diag(m), eigvals_only=True)
    return np.sqrt(w2) / (2 * np.pi)


def lowest_mode_shape(k):
    K = np.array([[k[0] + k[1], -k[1], 0, 0], [-k[1], k[1] + k[2], -k[2], 0],
                  [0, -k[2], k[2] + k[3], -k[3]], [0, 0, -k[3], k[3]]])
    w, v = eigh(K, subset_by_index=[0, 1])
    return np.concatenate([w, v[:, 0] / v[-1, 0]])


def principal_stresses(s):
    """Voigt stress to principal stresses, largest first, and Tresca."""
    S = np.array([[s[0], s[3], s[5]], [s[3], s[1], s[4]], [s[5], s[4], s[2]]])
    p = la.eigvalsh(S)[::-1]
    return np.append(p, 0.5 * (p[0] - p[2]))


def huckel_energy(b):
    """Butadiene-like ring with bond alternation; only the lower triangle is stored."""
    H = np.zeros((4, 4))
    H = H + np.diag(-b[:3], -1) + np.diag([0.0, 0.1, 0.25, 0.6])
    e, c = la.eigh(H, lower=True, driver="evd")
    return 2 * e[:2].sum() + np.sum(c[:, 0] ** 4)


def generalized_buckling(p):
    A = SPD4 + np.diag(p)
    B = np.eye(4) + 0.1 * np.outer(p, p)
    return la.eigvalsh(A, B, type=1, check_finite=False)


def growth_rate(p):
    """Dominant eigenvalue of an age structured population."""
    L = la.leslie(p[:3], p[3:])
    return np.max(np.abs(la.eigvals(L)))


def damping_ratios(p):
    m, c, k1, k2 = p
    A = np.array([[0, 0, 1, 0], [0, 0, 0, 1],
                  [-(k1 + k2) / m, k2 / m, -c / m, 0], [k2 / m, -k2 / m, 0, -2 * c / m]])
    lam = la.eigvals(A)
    lam = lam[lam.imag > 0]
    lam = lam[np.argsort(np.abs(lam))]
    return -lam.real / np.abs(lam)


def stationary_left_vector(p):
    P = np.array([[1 - p[0] - p[1], p[0], p[1]], [p[2], 1 - p[2] - p[3], p[3]], [0.2, 0.3, 0.5]])
    w, vl, _vr = la.eig(P, left=True, right=True)
    v = np.real(vl[:, np.argmax(w.real)])
    return v / v.sum()


def generalized_eig_real(x):
    A = np.array([[2.0, x[0]], [x[1], 5.0]])
    B = np.array([[1.0, 0.2], [x[2], 1.5]])
    w = linalg.eig(A, B, right=False)
    return np.sort(w.real)


def eig_reconstruct_power(x):
    A = np.array([[0.9, x[0], 0.1], [x[1], 0.6, 0.2], [0.05, x[2], 0.3]])
    w, V = la.eig(A)
    return (V @ np.diag(w ** 5) @ la.inv(V)).real


def banded_eig_lowest(x):
    ab = np.array([2.0 + x ** 2, np.append(-np.ones(5), 0.0), np.append(0.2 * np.ones(4), [0.0, 0.0])])
    w, v = la.eig_banded(ab, lower=True, select="i", select_range=(0, 1))
    return np.append(w, v[:, 0] ** 2)


def banded_eigvals(p):
    main = np.full(6, 2.0) + p[0] * np.arange(6)
    off = np.r_[0.0, np.full(5, -1.0) * p[1]]
    return la.eigvals_banded(np.vstack([off, main]))


def particle_in_well(p):
    """Finite difference Schroedinger equation, oscillator with quartic term."""
    xg = np.linspace(-4, 4, 41)
    h = xg[1] - xg[0]
    d = 1 / h ** 2 + 0.5 * p[0] * xg ** 2 + p[1] * xg ** 4
    e = -0.5 / h ** 2 * np.ones(40)
    w, v = la.eigh_tridiagonal(d, e, select="i", select_range=(0, 2))
    return np.append(w, (v[:, 0] ** 2) @ xg ** 2)


def gauss_nodes_from_recurrence(b):
    """Golub-Welsch nodes and weights."""
    x, V = la.eigh_tridiagonal(np.array([0.1, -0.05, 0.2, 0.0, 0.05]), np.sqrt(b))
    return np.concatenate([x, 2 * V[0] ** 2])


def tridiag_levels(x):
    return la.eigvalsh_tridiagonal(x[:4], x[4:], lapack_driver="stemr")


# ---------------------------------------------------------------- matrix functions

def rotation_expm(w):
    K = np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])
    return expm(K) @ np.array([1.0, 2.0, 3.0])


def jukes_markov(p):
    """Transition probabilities of a rate matrix after some time."""
    a, b, c, t = p
    Q = np.array([[-(a + b), a, b], [c, -(c + a), a], [b, c, -(b + c)]])
    return la.expm(Q * t)


def expm_stack_times(t):
    A = np.array([[0.0, 1.0], [-4.0, -0.3]])
    return linalg.expm(t[:, None, None] * A)[:, 0, :]


def quantum_propagator(p):
    H = np.array([[p[0], p[1] - 0.3j], [p[1] + 0.3j, -p[0]]])
    U = expm(-1j * H * p[2])
    return np.abs(U @ np.array([1.0, 0.0])) ** 2


def van_loan_zoh(p):
    """Zero order hold through the block exponential."""
    A = np.array([[0.0, 1.0], [-p[0], -p[1]]])
    M = np.block([[A, np.array([[0.0], [1.0]])], [np.zeros((1, 3))]])
    return expm(M * p[2])[:2]


def expm_sensitivity(x):
    A = np.array([[0.1, x[0]], [x[1], -0.4]])
    E = np.array([[0.0, 1.0], [x[2], 0.5]])
    e, f = la.expm_frechet(A, E)
    return np.concatenate([e.ravel(), f.ravel()])


def expm_direction(x):
    return la.expm_frechet(R44 * 0.3, np.diag(x), compute_expm=False, method="SPS")


def hencky_strain(x):
    """Logarithmic strain from a deformation gradient."""
    F = np.eye(2) + x.reshape(2, 2)
    return 0.5 * la.logm(F.T @ F)


def generator_from_transition(p):
    P = np.array([[1 - p[0] - p[1], p[0], p[1]], [p[2], 1 - p[2] - p[3], p[3]], [0.1, 0.2, 0.7]])
    return logm(P)


def bures_distance(x):
    A = np.array([[x[0], x[1]], [x[1], x[2]]])
    B = np.array([[1.0, 0.2], [0.2, 0.5]])
    sB = sqrtm(B)
    return np.trace(A + B - 2 * sqrtm(sB @ A @ sB))


def sqrtm_general(x):
    return la.sqrtm(np.array([[4.0, x[0], 0.1], [x[1], 3.0, x[2]], [0.3, 0.2, 2.0]]))


def whitening_power(x):
    C = np.array([[2.0, x[0], 0.1], [x[0], 1.5, x[1]], [0.1, x[1], 1.0]])
    return la.fractional_matrix_power(C, -0.5)


def fractional_transition(p):
    """Monthly matrix from a yearly one."""
    P = np.array([[1 - p[0], p[0]], [p[1], 1 - p[1]]])
    return linalg.fractional_matrix_power(P, 1 / 12)


def trig_of_matrix(x):
    A = np.array([[x[0], 0.4], [x[1], x[2]]])
    return np.stack([la.cosm(A), la.sinm(A)])


def tanm_matrix(x):
    return la.tanm(np.array([[0.3, x[0]], [x[1], 0.1]]))


def hyperbolic_of_matrix(x):
    """Fin array: cosh and sinh of a coupling matrix times length."""
    A = la.sqrtm(np.array([[2.0 + x[0], -x[0]], [-x[0], 1.0 + x[0]]])) * x[1]
    return la.coshm(A) + la.sinhm(A) @ np.array([[0.5, 0.0], [0.0, 0.25]])


def tanhm_matrix(x):
    return la.tanhm(x.reshape(2, 2))


def sign_projector(x):
    A = np.array([[2.0, x[0], 0.3], [x[1], -1.5, x[2]], [0.1, 0.4, 1.0]])
    return 0.5 * (np.eye(3) + la.signm(A))


def funm_lambda(x):
    A = np.array([[1.0, x[0]], [x[1], 2.5]])
    return la.funm(A, lambda z: np.exp(-z) / (1 + z)).real


# ---------------------------------------------------------------- control and matrix equations

def sylvester_observer(x):
    A = np.array([[1.0, x[0]], [0.2, 2.0]])
    B = np.array([[3.0, 0.5, 0.0], [x[1], 4.0, 0.1], [0.0, 0.2, 5.0]])
    return la.solve_sylvester(A, B, np.ones((2, 3)) * x[2])


def lyapunov_h2_norm(p):
    wn, zeta, g = p
    A = np.array([[0.0, 1.0], [-wn ** 2, -2 * zeta * wn]])
    B = np.array([[0.0], [g]])
    P = la.solve_continuous_lyapunov(A, -B @ B.T)
    return np.sqrt(P[0, 0])


def discrete_lyapunov_cov(x):
    A = np.array([[x[0], 0.2], [-0.3, x[1]]])
    return la.solve_discrete_lyapunov(A, np.diag([1.0, x[2]]))


def discrete_lyapunov_bilinear(x):
    A = 0.2 * R44 + 0.1 * np.outer(x, x)
    return np.diag(la.solve_discrete_lyapunov(A, np.eye(4), method="bilinear"))


def lqr_gain(p):
    """Continuous LQR for a cart with drag."""
    m, c, q, r = p
    A = np.array([[0.0, 1.0], [0.0, -c / m]])
    B = np.array([[0.0], [1.0 / m]])
    R = np.array([[r]])
    X = la.solve_continuous_are(A, B, np.diag([q, 1.0]), R)
    return la.solve(R, B.T @ X)


def care_cross_term(p):
    A = np.array([[0.5, p[0]], [-1.0, -0.2]])
    B = np.eye(2) * p[1]
    return linalg.solve_continuous_are(A, B, np.eye(2), 2 * np.eye(2), s=0.1 * np.ones((2, 2)))


def steady_kalman_gain(p):
    """Constant velocity tracker, steady state gain."""
    dt, q, r = p
    F = np.array([[1.0, dt], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = q * np.array([[dt ** 3 / 3, dt ** 2 / 2], [dt ** 2 / 2, dt]])
    P = la.solve_discrete_are(F.T, H.T, Q, np.array([[r]]))
    S = H @ P @ H.T + r
    return (P @ H.T @ la.inv(S)).ravel()


def dare_value(x):
    A = np.array([[1.0, 0.1], [x[0], 0.9]])
    B = np.array([[0.0], [x[1]]])
    return la.solve_discrete_are(A, B, np.diag(x[2:]), np.array([[1.0]]))


# ---------------------------------------------------------------- special matrices

def toeplitz_ar_covariance(p):
    C = toeplitz(p[1] * p[0] ** np.arange(5))
    return np.linalg.slogdet(C)[1] + Y6[:5] @ la.solve(C, Y6[:5], assume_a="pos")


def toeplitz_rect_filter(h):
    T = la.toeplitz(np.r_[h, np.zeros(3)], np.r_[h[0], np.zeros(3)])
    return T @ np.array([1.0, 2.0, 0.5, -1.0])


def toeplitz_product(x):
    return la.matmul_toeplitz((x[:4], np.r_[x[0], x[4:]]), W8[:4])


def convolution_matrix_modes(h):
    A = la.convolution_matrix(h, 6, mode="same")
    return A @ Y6 + la.convolution_matrix(h, 6, "full")[:6, :] @ Y6


def circulant_eigen(x):
    return np.abs(la.eigvals(circulant(x))).sum() + la.det(circulant(x))


def hankel_singular_values(h):
    """Impulse response samples to Hankel singular values."""
    H = hankel(h[:4], h[3:])
    return la.svdvals(H)


def companion_roots(c):
    r = la.eigvals(la.companion(np.r_[1.0, c]))
    return np.sort(r.real)


def fiedler_poly_norm(c):
    F = la.fiedler_companion(np.concatenate([[1.0], c]))
    return np.trace(F @ F @ F)


def fiedler_distance(x):
    return la.det(la.fiedler(x))


def block_diag_transform(x):
    rot = lambda a: np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    B = block_diag(rot(x[0]), x[2], rot(x[1]))
    return B @ np.arange(1.0, 6.0)


def khatri_rao_unfold(x):
    A = x.reshape(2, 3)
    B = np.array([[1.0, 0.5, -1.0], [0.2, 2.0, 0.3], [1.0, 1.0, 1.0]])
    return la.khatri_rao(A, B)


def leslie_projection(p):
    L = la.leslie(np.array([0.1, p[0], p[1], 0.2]), p[2:])
    return np.linalg.matrix_power(L, 3) @ np.array([100.0, 50.0, 20.0, 5.0])


def dft_matrix_power(y):
    F = la.dft(len(y), scale="sqrtn")
    return np.abs(F @ y) ** 2


def helmert_ilr(c):
    """Isometric log-ratio coordinates of a composition."""
    return la.helmert(len(c)) @ np.log(c / c.sum())


def hilbert_and_pascal(x):
    return np.concatenate([la.hilbert(3) @ x, la.invhilbert(3) @ x / 100, la.pascal(3, kind="lower") @ x,
                           la.hadamard(4)[:, :3] @ x])


# ---------------------------------------------------------------- rarer decompositions

def qz_product(x):
    A = np.array([[1.0, x[0]], [0.3, 2.0]])
    B = np.array([[2.0, 0.1], [x[1], 1.0]])
    AA, BB, _Q, _Z = la.qz(A, B)
    return np.sort(np.diag(AA) / np.diag(BB))


def rsf2csf_magnitudes(x):
    T, Z = la.schur(np.array([[0.0, x[0], 0.2], [-x[1], 0.1, 0.5], [0.3, 0.0, x[2]]]))
    T2, _Z2 = la.rsf2csf(T, Z)
    return np.sort(np.diag(T2).real)[-1] + np.abs(np.prod(np.diag(T2)))


def cdf2rdf_blocks(x):
    A = np.array([[0.1, x[0], 0.0], [-x[1], 0.2, 0.3], [0.0, 0.1, x[2]]])
    w, v = la.eig(A)
    wr, vr = la.cdf2rdf(w, v)
    return vr @ wr @ wr @ la.inv(vr)


def cossin_angles(w):
    K = np.array([[0, -w[0], w[1], -0.2], [w[0], 0, -w[2], 0.5], [-w[1], w[2], 0, -w[3]], [0.2, -0.5, w[3], 0]])
    (_u1, _u2), theta, (_v1, _v2) = la.cossin(la.expm(K), p=2, q=2, separate=True)
    return theta


def qr_update_rank_one(x):
    Q, R = la.qr(R53)
    _Q1, R1 = la.qr_update(Q, R, x, np.array([1.0, 0.5, -0.5]))
    return np.abs(np.diag(R1))


def qr_insert_row(x):
    Q, R = la.qr(R53)
    _Q1, R1 = la.qr_insert(Q, R, x, 2, which="row")
    return (R1.T @ R1)[np.triu_indices(3)]


def qr_delete_row(x):
    Q, R = la.qr(R53 * np.exp(0.1 * x)[:, None])
    _Q1, R1 = la.qr_delete(Q, R, 1, 1, "row")
    return np.abs(np.diag(R1))


def balance_then_trace(x):
    A = np.array([[1.0, 300.0 * x[0], 1e4], [0.004, x[1], 90.0], [1e-4, 0.02 * x[2], 1.0]])
    B, _T = la.matrix_balance(A, permute=False)
    return np.append(np.diag(B), la.norm(B))


def mahalanobis_stack(x):
    """Batched solve over a stack of matrices."""
    A = SPD4[None] * np.array([1.0, 2.0, 0.5])[:, None, None] + x[:, None, None] * np.eye(4)
    b = np.ones((3, 4, 1))
    z = la.solve(A, b, assume_a="pos")
    return np.sum(z[..., 0], axis=1)


# ---------------------------------------------------------------- scipy.fft

def fft_power_spectrum(p):
    y = p[0] * np.sin(2 * np.pi * 3.3 * T16 + p[1]) + p[2]
    return np.abs(fft.fft(y)[:8]) ** 2


def fft_zero_padded_phase(y):
    Y = fft.fft(y, n=16, norm="ortho")
    return np.concatenate([Y.real[1:5], Y.imag[1:5]])


def ifft_shift_signal(p):
    """Fractional delay by a phase ramp."""
    y = np.exp(-60 * (T16 - 0.5) ** 2)
    f = fftfreq(16)
    return sfft.ifft(sfft.fft(y * p[1]) * np.exp(-2j * np.pi * f * p[0])).real


def rfft_amplitude_at(p):
    """Windowed amplitude spectrum near a line."""
    f0, a = p
    y = a * np.cos(2 * np.pi * f0 * T32) * np.hanning(32)
    S = 2 * np.abs(rfft(y)) / 16
    return S[4:7]


def irfft_lowpass(p):
    y = np.sign(T32 - 0.45) + 0.2 * np.sin(60 * T32)
    f = rfftfreq(32, d=1 / 32)
    H = 1 / (1 + (f / p[0]) ** (2 * p[1]))
    return irfft(rfft(y) * H, n=32)[::2]


def spectral_derivative(a):
    xg = 2 * np.pi * T16
    u = a[0] * np.sin(xg) + a[1] * np.cos(2 * xg) + np.exp(a[2] * np.cos(xg))
    return sfft.irfft(1j * np.arange(9) * sfft.rfft(u), 16)


def fast_convolution(x):
    n = next_fast_len(len(x) + 4, real=True)
    k = np.array([0.2, 0.5, 0.2, 0.1, -0.1])
    return irfft(rfft(x, n) * rfft(k, n), n)[: len(x) + 4]


def autocorrelation_fft(y):
    z = y - np.mean(y)
    F = scipy.fft.fft(z, n=2 * len(y))
    ac = scipy.fft.ifft(F * np.conj(F)).real[: len(y)]
    return ac / ac[0]


def fft2_image_power(p):
    yy, xx = np.mgrid[:6, :6]
    im = np.exp(-((xx - p[0]) ** 2 + (yy - p[1]) ** 2) / (2 * p[2] ** 2))
    return np.abs(fftshift(sfft.fft2(im)))[2:5, 2:5]


def blur_image_rfft2(p):
    im = rng_image
    ky = fftfreq(6)[:, None]
    kx = rfftfreq(5)[None, :]
    H = np.exp(-2 * np.pi ** 2 * p[0] ** 2 * (kx ** 2 + p[1] * ky ** 2))
    return fft.irfft2(fft.rfft2(im) * H, s=im.shape)


def poisson_periodic_fftn(p):
    n = 5
    g = 2 * np.pi * np.arange(n) / n
    f = p[0] * np.sin(g)[:, None] * np.cos(g) + p[1] * np.cos(2 * g)[None, :] + 0 * g[:, None]
    k = fftfreq(n, 1 / n)
    k2 = k[:, None] ** 2 + k ** 2 + p[2]
    return sfft.ifftn(-sfft.fftn(f) / k2).real


def rfftn_energy(x):
    A = x.reshape(2, 2, 2)
    F = sfft.rfftn(A, axes=(0, 2), norm="forward")
    return np.abs(F) ** 2


def fftn_axes_phase(x):
    F = fft.fftn(x.reshape(2, 4), s=(4, 4), axes=(0, 1), workers=1)
    return F.real[:, 1] + F.imag[1]


def fft_along_axis(x):
    A = np.outer(x, [1.0, 2.0, 0.5]) + np.arange(3)
    return np.abs(fft.fft(A, axis=0, norm="backward")) ** 2 / len(x)


def hfft_roundtrip(x):
    s = sfft.hfft(x, 8)
    return s + sfft.ihfft(s ** 2).real.sum()


def dct_cosine_coefs(y):
    return dct(y, type=2, norm="ortho")


def dct_smoother(p):
    """Garcia's smoother with penalty in the DCT domain."""
    y = np.cos(5 * XG) + 0.1 * np.sin(31 * XG) + p[1] * XG ** 2
    lam = -2 + 2 * np.cos(np.pi * np.arange(7) / 7)
    return idct(dct(y, norm="ortho") / (1 + p[0] * lam ** 2), norm="ortho")


def dct_types(x):
    return np.concatenate([fft.dct(x, type=1), fft.dct(x, 3, n=6), fft.dct(x, type=4, norm="forward"),
                           fft.idct(x, type=3, orthogonalize=True, norm="ortho")])


def chebyshev_coefs_dct(p):
    t = np.cos(np.pi * np.arange(9) / 8)
    c = fft.dct(np.exp(p[0] * t) / (p[1] + t ** 2), type=1) / 8
    return c[1:8]


def dst_poisson_dirichlet(f):
    """1-D Poisson equation with fixed ends by a sine transform."""
    n = len(f)
    h = 1 / (n + 1)
    lam = (2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))) / h ** 2
    return fft.idst(dst(f, type=1) / lam, type=1)


def dst_types(x):
    return np.concatenate([dst(x, type=2, norm="ortho"), dst(x, type=3), fft.idst(x, type=4)])


def dctn_compress(p):
    yy, xx = np.mgrid[:5, :5] / 5.0
    im = np.sin(p[0] * xx + p[1] * yy)
    C = dctn(im, norm="ortho")
    m = np.zeros((5, 5))
    m[:3, :3] = 1
    return idctn(C * m, norm="ortho")


def dstn_heat(p):
    u0 = np.outer([1.0, 2.0, 1.5, 0.5], [0.3, 1.0, 0.8, 0.2]) * p[1]
    k = np.arange(1, 5)
    d = np.exp(-p[0] * (k[:, None] ** 2 + k ** 2))
    return sfft.idstn(sfft.dstn(u0, type=1) * d, type=1)


def hankel_transform_log(p):
    """FFTLog of r^(mu+1) exp(-r^2/2 s^2)."""
    mu, n = 0.5, 16
    r = np.logspace(-2, 1.5, n)
    dln = np.log(r[1] / r[0])
    off = fft.fhtoffset(dln, mu, initial=0.0)
    a = p[1] * r ** (mu + 1) * np.exp(-r ** 2 / (2 * p[0] ** 2))
    return fft.fht(a, dln, mu, offset=off)


def hankel_inverse_biased(x):
    return fft.ifht(x, 0.4, mu=1.0, bias=-0.2)


def complex_analytic_envelope(p):
    """Hilbert transform by zeroing negative frequencies."""
    y = (1 + p[0] * np.cos(2 * np.pi * T32)) * np.cos(2 * np.pi * 8 * T32 + p[1])
    h = np.zeros(32)
    h[0] = h[16] = 1
    h[1:16] = 2
    z = sfft.ifft(sfft.fft(y) * h)
    return np.abs(z)[:16]


def fresnel_propagate(p):
    """Angular spectrum propagation of a Gaussian beam."""
    xg = np.linspace(-4, 4, 24, endpoint=False)
    u = np.exp(-xg ** 2 / p[0] ** 2 + 0.5j * xg)
    k = 2 * np.pi * fft.fftfreq(24, d=xg[1] - xg[0])
    out = fft.ifft(fft.fft(u) * np.exp(-0.5j * k ** 2 * p[1]))
    return np.abs(fft.ifftshift(out)) ** 2


RARER = [
    ("diagsvd_rebuild", diagsvd_rebuild, [0.8, 1.2, 0.4]),
    ("solve_transposed", solve_transposed, [0.5, 1.2, -0.3, 0.8]),
    ("solve_matrix_rhs", solve_matrix_rhs, [1.0, -0.5, 0.3, 2.0]),
    ("banded_pentadiagonal", banded_pentadiagonal, [0.7, 1.2, 0.4]),
    ("crank_nicolson_step", crank_nicolson_step, [0.3, 0.02, 1.5]),
    ("smooth_penalty_strength", smooth_penalty_strength, [0.5, 1.2]),
    ("forward_substitution", forward_substitution, [1.0, 0.5, -0.2, 0.7]),
    ("unit_triangular", unit_triangular, [0.6, 1.1, -0.4, 0.9]),
    ("triangular_of_complex", triangular_of_complex, [0.5, 1.2, 1.7]),
    ("wiener_filter_toeplitz", wiener_filter_toeplitz, [0.7, 0.3]),
    ("circulant_deblur", circulant_deblur, [1.0, 0.3, -0.5, 0.8, 0.1, 0.6]),
    ("inv_rotation_scale", inv_rotation_scale, [0.6, 1.5, 0.8]),
    ("det_stack", det_stack, [0.5, 1.5, -0.7]),
    ("pinv_wide", pinv_wide, [0.4, 0.9, 0.3]),
    ("pinvh_rank", pinvh_rank, [0.5, 1.0, -0.6, 0.2]),
    ("norm_vector_orders", norm_vector_orders, [0.5, -1.5, 2.0]),
    ("norm_axis_pair", norm_axis_pair, [0.5, 1.2, -0.8]),
    ("lstsq_residual", lstsq_residual, [1.0, 0.6, 0.9, 1.4, 1.1, 2.2, 2.9]),
    ("lstsq_gelsy", lstsq_gelsy, [0.3, 1.0, -0.5, 0.8, 0.2, -1.1]),
    ("lstsq_underdetermined", lstsq_underdetermined, [0.8, 1.4, 0.3]),
    ("lstsq_multi_rhs", lstsq_multi_rhs, [0.4, 0.7]),
    ("cholesky_upper_logdet", cholesky_upper_logdet, [1.2, 0.5]),
    ("mvn_logpdf_chol", mvn_logpdf_chol, [0.5, -1.0, 0.8, 0.1]),
    ("banded_cholesky_diag", banded_cholesky_diag, [0.4, 0.8, -0.5, 1.1, 0.6]),
    ("lu_logdet", lu_logdet, [1.0, 0.7, -0.4, 2.5]),
    ("lu_permute_l", lu_permute_l, [0.5, -0.4, 0.9]),
    ("lu_p_indices", lu_p_indices, [1.3, 2.0]),
    ("ldl_upper", ldl_upper, [0.5, 1.0, 0.2, 0.8]),
    ("qr_full_r", qr_full_r, [1.0, 0.5, -0.7, 2.0, 0.3, 1.1, 0.9, -0.4]),
    ("qr_projector", qr_projector, [0.4, 1.0, -0.7]),
    ("gram_schmidt_frame", gram_schmidt_frame, [1.0, 0.5, -0.3]),
    ("rq_economic", rq_economic, [1.0, 0.4, -0.6, 0.3, 1.5, 0.9]),
    ("qr_multiply_rhs", qr_multiply_rhs, [0.2, 0.7, 1.8, 2.5, 3.1]),
    ("svd_condition", svd_condition, [0.5, -0.7, 0.9]),
    ("svd_truncated_solve", svd_truncated_solve, [1.0, 0.5, 0.3, 0.8, -0.2]),
    ("tikhonov_parameter", tikhonov_parameter, [0.3, 4.0]),
    ("svd_nullvector", svd_nullvector, [0.7, 1.3, -0.6, 0.4]),
    ("polar_left_stretch", polar_left_stretch, [0.2, -0.1, 0.3, 0.15]),
    ("schur_trace_product", schur_trace_product, [1.0, -0.5, 2.0, 0.6]),
    ("matrix_h_only", matrix_h_only, [0.7, 0.3, -0.5, 1.0]),
    ("huckel_energy", huckel_energy, [1.0, 0.8, 1.2]),
    ("generalized_buckling", generalized_buckling, [0.5, 1.5, -0.7, 1.1]),
    ("damping_ratios", damping_ratios, [1.0, 0.3, 9.0, 4.0]),
    ("generalized_eig_real", generalized_eig_real, [0.7, 0.4, 0.1]),
    ("eig_reconstruct_power", eig_reconstruct_power, [0.2, 0.15, 0.1]),
    ("banded_eigvals", banded_eigvals, [0.3, 0.8]),
    ("tridiag_levels", tridiag_levels, [1.0, 2.2, 3.1, 0.4, 0.5, -0.6, 0.8]),
    ("expm_stack_times", expm_stack_times, [0.1, 0.5, 1.3, 2.0]),
    ("quantum_propagator", quantum_propagator, [0.8, 0.5, 1.2]),
    ("van_loan_zoh", van_loan_zoh, [2.0, 0.4, 0.3]),
    ("expm_direction", expm_direction, [0.4, 1.0, -0.6, 0.2]),
    ("generator_from_transition", generator_from_transition, [0.1, 0.05, 0.08, 0.12]),
    ("sqrtm_general", sqrtm_general, [0.5, 0.2, 0.7]),
    ("whitening_power", whitening_power, [0.5, 0.3]),
    ("tanm_matrix", tanm_matrix, [0.4, 0.6]),
    ("tanhm_matrix", tanhm_matrix, [0.5, 0.2, -0.3, 0.9]),
    ("discrete_lyapunov_bilinear", discrete_lyapunov_bilinear, [0.5, 0.8, -0.6, 0.3]),
    ("care_cross_term", care_cross_term, [1.2, 0.8]),
    ("dare_value", dare_value, [0.3, 0.6, 1.0, 2.0]),
    ("toeplitz_rect_filter", toeplitz_rect_filter, [0.5, 1.0, -0.3]),
    ("fiedler_poly_norm", fiedler_poly_norm, [-2.0, 0.7, 1.4, 0.3]),
    ("fiedler_distance", fiedler_distance, [1.0, 2.3, 4.1, 5.0]),
    ("leslie_projection", leslie_projection, [1.2, 0.9, 0.5, 0.6, 0.3]),
    ("qz_product", qz_product, [0.5, 0.3]),
    ("rsf2csf_magnitudes", rsf2csf_magnitudes, [1.0, 1.4, 0.8]),
    ("cossin_angles", cossin_angles, [0.3, 0.7, -0.4, 0.6]),
    ("qr_update_rank_one", qr_update_rank_one, [0.5, 1.0, -0.3, 0.8, 0.2]),
    ("qr_delete_row", qr_delete_row, [0.5, 0.2, -0.6, 1.0, 0.3]),
    ("balance_then_trace", balance_then_trace, [1.1, 2.0, 0.9]),
    ("mahalanobis_stack", mahalanobis_stack, [0.5, 1.0, 1.8]),
    ("fft_zero_padded_phase", fft_zero_padded_phase, [0.3, 1.0, -0.5, 0.8, 0.1, 0.6]),
    ("rfft_amplitude_at", rfft_amplitude_at, [5.2, 1.1]),
    ("fftn_axes_phase", fftn_axes_phase, [0.5, 1.0, -0.7, 0.2, 0.9, 1.4, 0.1, -0.3]),
    ("chebyshev_coefs_dct", chebyshev_coefs_dct, [0.8, 1.5]),
    ("dst_types", dst_types, [0.8, -0.3, 1.2, 0.5]),
    ("complex_analytic_envelope", complex_analytic_envelope, [0.4, 0.7]),
    ("fresnel_propagate", fresnel_propagate, [0.9, 0.5]),
]

# 70 for scipy.linalg, then 20 for scipy.fft
CASES = [
    ("truss_displacements", truss_displacements, [2.0, 1.5, 3.0]),
    ("circuit_nodes", circuit_nodes, [1.0, 2.2, 3.3, 4.7]),
    ("ac_impedance", ac_impedance, [10.0, 0.5, 0.02, 8.0]),
    ("beam_banded", beam_banded, [1.0, 1.3, 0.8, 1.1, 0.9, 1.4]),
    ("whittaker_smooth", whittaker_smooth, [1.0, 1.4, 0.7, 0.9, 1.8, 2.2, 1.9, 2.5]),
    ("back_substitution_trans", back_substitution_trans, [2.0, 0.3, 1.5, -0.4, 0.8, 1.2]),
    ("toeplitz_yule_walker", toeplitz_yule_walker, [0.2, 1.1, 0.8, -0.3, -1.2, -0.5, 0.4, 0.9]),
    ("toeplitz_nonsym_solve", toeplitz_nonsym_solve, [1.0, 0.5, 0.2, -0.8, 0.3, 0.1]),
    ("circulant_kernel_width", circulant_kernel_width, [1.1, 0.4]),
    ("inv_covariance", inv_covariance, [0.4, 0.2]),
    ("det_jacobian_polar", det_jacobian_polar, [1.5, 0.8, 0.4]),
    ("pinv_calibration", pinv_calibration, [0.0, 1.1, 2.0, 2.9, 4.2]),
    ("pinvh_laplacian", pinvh_laplacian, [1.0, 2.0, 1.5, 0.7, 0.4]),
    ("norms_of_matrix", norms_of_matrix, [1.0, -2.0, 0.5, 0.7, 1.2, 3.0]),
    ("norm_rows", norm_rows, [1.0, 0.4, -0.6, 2.0, 0.3, 0.9]),
    ("lstsq_polyfit", lstsq_polyfit, [0.0, 0.9, 2.1, 3.0, 4.2, 4.9]),
    ("cholesky_correlate", cholesky_correlate, [0.3, -0.2, 0.5]),
    ("gp_predict", gp_predict, [1.1, 0.4, 0.2]),
    ("ar1_precision_solve", ar1_precision_solve, [0.6, 0.8]),
    ("lu_reuse", lu_reuse, [0.3, -0.6, 1.1, 0.5]),
    ("lu_pieces", lu_pieces, [2.0, 0.7, 1.3]),
    ("ldl_inertia", ldl_inertia, [0.6, 0.3, -0.9]),
    ("qr_least_squares", qr_least_squares, [0.1, 0.8, 1.3, 2.2, 2.9, 3.7]),
    ("qr_pivoted", qr_pivoted, [0.6, 1.7, 3.5]),
    ("rq_camera", rq_camera, [2.0, 1.0, 0.02]),
    ("svd_lowrank", svd_lowrank, [1.0, 2.0, 3.1, 0.5, 0.9, 2.2, 2.7, -0.6]),
    ("pca_explained", pca_explained, [0.5, 1.2, -0.7, 0.3, 2.0, 1.1]),
    ("orth_projector", orth_projector, [0.2, 1.1, -0.7, 2.0]),
    ("null_space_projector", null_space_projector, [0.6, -0.9, 1.4, 0.5]),
    ("polar_rotation", polar_rotation, [1.1, 0.3, -0.2, 0.9]),
    ("schur_form", schur_form, [1.0, 2.5, 4.0]),
    ("hessenberg_reduce", hessenberg_reduce, [0.4, 1.0, -0.8, 1.5]),
    ("procrustes_align", procrustes_align, [0.1, -0.1, 0.9, 0.4, 0.5, 2.2, -0.4, 1.1]),
    ("subspace_angle_pair", subspace_angle_pair, [0.3, 0.5, -0.4, 0.8]),
    ("vibration_modes", vibration_modes, [1.0, 1.5, 0.8, 30.0, 20.0, 25.0]),
    ("lowest_mode_shape", lowest_mode_shape, [3.0, 2.0, 2.5, 1.2]),
    ("principal_stresses", principal_stresses, [50.0, -20.0, 10.0, 15.0, 8.0, -12.0]),
    ("growth_rate", growth_rate, [0.4, 1.6, 1.1, 0.6, 0.5]),
    ("stationary_left_vector", stationary_left_vector, [0.2, 0.1, 0.3, 0.15]),
    ("banded_eig_lowest", banded_eig_lowest, [0.3, 0.9, 0.5, 1.2, 0.2, 0.7]),
    ("particle_in_well", particle_in_well, [1.2, 0.1]),
    ("gauss_nodes_from_recurrence", gauss_nodes_from_recurrence, [0.33, 0.27, 0.26, 0.25]),
    ("rotation_expm", rotation_expm, [0.4, -0.7, 1.1]),
    ("jukes_markov", jukes_markov, [0.3, 0.2, 0.5, 1.4]),
    ("expm_sensitivity", expm_sensitivity, [0.6, -0.3, 0.8]),
    ("hencky_strain", hencky_strain, [0.1, 0.3, -0.2, 0.15]),
    ("bures_distance", bures_distance, [1.5, 0.3, 0.8]),
    ("fractional_transition", fractional_transition, [0.2, 0.1]),
    ("trig_of_matrix", trig_of_matrix, [0.5, -0.8, 1.1]),
    ("hyperbolic_of_matrix", hyperbolic_of_matrix, [0.6, 0.8]),
    ("sign_projector", sign_projector, [0.4, 0.7, -0.5]),
    ("funm_lambda", funm_lambda, [0.5, 0.3]),
    ("sylvester_observer", sylvester_observer, [0.5, 0.8, 1.3]),
    ("lyapunov_h2_norm", lyapunov_h2_norm, [2.0, 0.3, 1.5]),
    ("discrete_lyapunov_cov", discrete_lyapunov_cov, [0.7, 0.5, 2.0]),
    ("lqr_gain", lqr_gain, [1.5, 0.4, 3.0, 0.7]),
    ("steady_kalman_gain", steady_kalman_gain, [0.5, 1.2, 0.8]),
    ("toeplitz_ar_covariance", toeplitz_ar_covariance, [0.6, 1.4]),
    ("toeplitz_product", toeplitz_product, [2.0, 0.5, -0.4, 0.3, 1.1, 0.7, -0.2]),
    ("convolution_matrix_modes", convolution_matrix_modes, [0.25, 0.6, 0.15]),
    ("circulant_eigen", circulant_eigen, [3.0, 0.5, -0.4, 0.8]),
    ("hankel_singular_values", hankel_singular_values, [2.0, 0.3, 1.1, 0.2, 0.9, -0.4, 0.7]),
    ("companion_roots", companion_roots, [-2.0, -11.0, 12.0]),
    ("block_diag_transform", block_diag_transform, [0.4, -0.9, 1.7]),
    ("khatri_rao_unfold", khatri_rao_unfold, [1.0, 0.5, -0.7, 0.3, 2.0, 1.1]),
    ("dft_matrix_power", dft_matrix_power, [1.0, 0.3, -0.8, 0.5, 1.4]),
    ("helmert_ilr", helmert_ilr, [0.2, 0.5, 0.1, 0.35]),
    ("hilbert_and_pascal", hilbert_and_pascal, [0.4, -0.7, 1.2]),
    ("cdf2rdf_blocks", cdf2rdf_blocks, [1.1, 0.9, -0.5]),
    ("qr_insert_row", qr_insert_row, [0.7, -0.4, 1.1]),
    ("fft_power_spectrum", fft_power_spectrum, [1.2, 0.4, 0.5]),
    ("ifft_shift_signal", ifft_shift_signal, [0.7, 1.3]),
    ("irfft_lowpass", irfft_lowpass, [5.0, 2.0]),
    ("spectral_derivative", spectral_derivative, [0.8, 0.4, 0.6]),
    ("fast_convolution", fast_convolution, [1.0, 0.5, -0.3, 0.8, 1.7]),
    ("autocorrelation_fft", autocorrelation_fft, [0.2, 1.1, 0.8, -0.3, -1.2, -0.5, 0.4]),
    ("fft2_image_power", fft2_image_power, [2.3, 3.1, 1.2]),
    ("blur_image_rfft2", blur_image_rfft2, [0.8, 1.5]),
    ("poisson_periodic_fftn", poisson_periodic_fftn, [1.0, 0.6, 0.5]),
    ("rfftn_energy", rfftn_energy, [0.2, 1.1, 0.8, -0.3, -1.2, -0.5, 0.4, 0.9]),
    ("fft_along_axis", fft_along_axis, [0.6, 1.5, -0.4, 0.9]),
    ("hfft_roundtrip", hfft_roundtrip, [1.0, 0.4, -0.6, 0.3, 0.7]),
    ("dct_cosine_coefs", dct_cosine_coefs, [1.0, 0.4, -0.6, 0.3, 0.7]),
    ("dct_smoother", dct_smoother, [1.5, 0.7]),
    ("dct_types", dct_types, [0.8, -0.3, 1.2, 0.5]),
    ("dst_poisson_dirichlet", dst_poisson_dirichlet, [1.0, 0.5, 2.0, 1.5, -0.5, 0.3]),
    ("dctn_compress", dctn_compress, [2.0, 3.0]),
    ("dstn_heat", dstn_heat, [0.05, 1.2]),
    ("hankel_transform_log", hankel_transform_log, [0.8, 1.3]),
    ("hankel_inverse_biased", hankel_inverse_biased, [0.5, 1.0, 0.8, 0.3, 0.1, 0.05]),
]

PACKAGE = "scipy"
cases = Cases()
for _, function, point in [*CASES, *RARER]:
    cases(point)(function)
