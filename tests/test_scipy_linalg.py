"""``scipy.linalg``: systems, factorisations, spectra, functions of matrices, structured matrices."""

import warnings

import numpy as np
import pytest
import scipy.linalg as la
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

import wengert as wg
from helpers import central_differences, parts
from scipy_cases import check
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.testing import check_derivatives

RNG = np.random.default_rng(3)
M = RNG.uniform(-1, 1, (4, 4)) + 2 * np.eye(4)
B = RNG.uniform(-1, 1, (4, 2))
V = B[:, 0].copy()
LARGE, COLUMNS = RNG.uniform(-0.2, 0.2, (17, 17)) + 3 * np.eye(17), RNG.uniform(-1, 1, (17, 2))
TALL, WIDE = RNG.uniform(-1, 1, (5, 3)), RNG.uniform(-1, 1, (3, 5))
BANDS = RNG.uniform(0.1, 0.5, (4, 6)) + np.array([[0.0], [0.0], [3.0], [0.0]])
UPPER_BANDS = np.array([[0.3, 0.2, 0.4, 0.1, 0.2], [3.0, 2.5, 4.0, 3.5, 3.0]])
R = RNG.uniform(-1, 1, 6)


def positive(m):
    return m @ m.T + np.eye(len(m))


def fixed(v):
    """Eigenvectors without their signs, which differ between points."""
    return v * np.sign(v[0])


def likelihood(theta, x=np.linspace(0, 1, 7)):
    k = theta[0] * np.exp(-((x[:, None] - x) ** 2) / theta[1]) + 0.1 * np.eye(len(x))
    factor = cho_factor(k, lower=True)
    y = np.sin(3 * x)
    return -0.5 * y @ cho_solve(factor, y) - np.sum(np.log(np.diag(factor[0])))


SYSTEMS = {
    "solve": (la.solve, M, B),
    "solve a vector": (la.solve, M, V),
    "solve transposed": (lambda a, b: la.solve(a, b, transposed=True), M, B),
    "solve symmetric": (lambda a, b: la.solve(a + a.T, b, assume_a="sym"), M, B),
    "solve positive definite": (lambda a, b: la.solve(positive(a), b, assume_a="pos"), M, V),
    "solve lower": (lambda a, b: la.solve(positive(a), b, lower=True, assume_a="pos"), M, V),
    "solve tridiagonal": (lambda a, b: la.solve(a, b, assume_a="tridiagonal"), M, B),  # SciPy reads three diagonals
    "solve_triangular": (la.solve_triangular, M, B),
    "solve_triangular lower": (lambda a, b: la.solve_triangular(a, b, lower=True, trans="T"), M, V),
    "solve_triangular with unit diagonal": (lambda a, b: la.solve_triangular(a, b, unit_diagonal=True), M, V),
    "larger triangle": (lambda a, b: la.solve_triangular(a, b, lower=True), LARGE, COLUMNS),
    "larger triangle transposed": (lambda a, b: la.solve_triangular(a, b, trans=1), LARGE, COLUMNS[:, 0].copy()),
    "larger unit triangle": (lambda a, b: la.solve_triangular(a, b, trans="C", unit_diagonal=True), LARGE / 9, COLUMNS),
    "larger Cholesky factor": (lambda a, b: cho_solve(cho_factor(positive(a)), b), LARGE, COLUMNS[:, 0].copy()),
    "larger LU factors": (lambda a, b: lu_solve(lu_factor(a), b, trans=1), LARGE, COLUMNS[:, 0].copy()),
    "solve_banded": (lambda ab, b: la.solve_banded((1, 2), ab, b), BANDS, R),
    "solve_banded for columns": (lambda ab, b: la.solve_banded((1, 2), ab, b), BANDS, np.outer(R, [1.0, 2.0])),
    "solveh_banded": (la.solveh_banded, UPPER_BANDS, R[:5]),
    "solveh_banded lower": (lambda ab, b: la.solveh_banded(ab[::-1], b, lower=True), UPPER_BANDS, R[:5]),
    "solve_toeplitz": (lambda c, b: la.solve_toeplitz((c, c[::-1]), b), np.array([4.0, 1.0, 0.5]), R[:3]),
    "solve_toeplitz symmetric": (la.solve_toeplitz, np.array([4.0, 1.0, 0.5]), R[:3]),
    "solve_circulant": (la.solve_circulant, np.array([4.0, 1.0, 0.5]), R[:3]),
    "matmul_toeplitz": (lambda c, x: la.matmul_toeplitz((c, c), x), R[:3], B[:3]),
    "inv": (la.inv, M),
    "pinv": (la.pinv, TALL),
    "pinvh": (lambda a: la.pinvh(positive(a)), M),
    "det": (la.det, M),
    "norm": (la.norm, M),
    "norm of a vector": (lambda v: la.norm(v, 3), V),
    "norm along an axis": (lambda a: la.norm(a, axis=1, keepdims=True), M),
    "nuclear norm": (lambda a: la.norm(a, "nuc"), M),
    "lstsq": (lambda a, b: la.lstsq(a, b)[0], TALL, R[:5]),
    "residual of lstsq": (lambda a, b: la.lstsq(a, b)[1], TALL, np.outer(R[:5], [1.0, 2.0])),
    "cho_factor and cho_solve": (lambda a, b: cho_solve(cho_factor(positive(a)), b), M, B),
    "all of cho_factor": (lambda a: cho_factor(positive(a))[0], M),
    "lu_factor and lu_solve": (lambda a, b: lu_solve(lu_factor(a), b), M[::-1].copy(), B),
    "lu_solve transposed": (lambda a, b: lu_solve(lu_factor(a), b, trans=1), M[::-1].copy(), V),
    "all of lu_factor": (lambda a: lu_factor(a)[0], M[::-1].copy()),
    "cholesky_banded": (la.cholesky_banded, UPPER_BANDS),
    "cho_solve_banded": (lambda ab, b: la.cho_solve_banded((la.cholesky_banded(ab), False), b), UPPER_BANDS, R[:5]),
    "likelihood of a Gaussian process": (likelihood, np.array([1.2, 0.3])),
}
FACTORS = {
    "cholesky": (lambda a: la.cholesky(positive(a)), M),
    "cholesky lower": (lambda a: la.cholesky(positive(a), lower=True), M),
    "lower factor": (lambda a: la.lu(a)[1], M[::-1].copy()),
    "upper factor": (lambda a: la.lu(a)[2], M[::-1].copy()),
    "permuted lower factor": (lambda a: la.lu(a, permute_l=True)[0], TALL),
    "upper factor of a wide matrix": (lambda a: la.lu(a)[2], WIDE),
    "product of the factors": (lambda a: (la.lu(a)[0] @ la.lu(a)[1] @ la.lu(a)[2]) ** 2, M[[2, 0, 3, 1]]),
    "q": (lambda a: la.qr(a)[0] ** 2, M),
    "r": (lambda a: la.qr(a, mode="r")[0], TALL),
    "economic qr": (lambda a: la.qr(a, mode="economic")[0], TALL),
    "qr with pivots": (lambda a: la.qr(a, mode="economic", pivoting=True)[1], TALL),
    "rq": (lambda a: la.rq(a)[0], M),
    "q of rq": (lambda a: la.rq(a, mode="economic")[1], WIDE),
    "svd": (lambda a: la.svd(a, full_matrices=False)[0], TALL),
    "right vectors": (lambda a: la.svd(a)[2], M),
    "singular values": (lambda a: la.svd(a, compute_uv=False), TALL),
    "svdvals": (la.svdvals, WIDE),
    "diagsvd": (lambda s: la.diagsvd(s, 3, 5), R[:3]),
    "orth": (la.orth, TALL),
    "polar": (lambda a: la.polar(a)[0], M),
    "left polar": (lambda a: la.polar(a, side="left")[1], M),
    "left polar of more rows": (lambda a: la.polar(a, side="left")[1], M[:, :3]),
    "right polar of more columns": (lambda a: la.polar(a)[1], M[:2]),
    "orthogonal_procrustes": (lambda a, b: la.orthogonal_procrustes(a, b)[0], TALL, TALL[::-1].copy() + 0.3),
    "subspace_angles": (la.subspace_angles, TALL, TALL[::-1, :2].copy()),
    "eigh": (lambda a: fixed(la.eigh(a + a.T)[1]), M),
    "eigenvalues of eigh": (lambda a: la.eigh(a + a.T)[0], M),
    "eigh by index": (lambda a: fixed(la.eigh(a + a.T, subset_by_index=[1, 2])[1]), M),
    "eigh by value": (lambda a: la.eigh(a + a.T, subset_by_value=[-10, 100])[0], M),
    "generalised eigh": (lambda a, b: fixed(la.eigh(a + a.T, positive(b))[1]), M, M[::-1].copy()),
    "generalised eigvalsh": (lambda a, b: la.eigvalsh(a + a.T, positive(b)), M, M[::-1].copy()),
    "eigvalsh": (lambda a: la.eigvalsh(a + a.T, subset_by_index=[0, 1]), M),
    "eigh_tridiagonal": (lambda d, e: la.eigh_tridiagonal(d, e)[1], np.array([1.0, 2.5, 4.0]), R[:2]),
    "eigvalsh_tridiagonal": (la.eigvalsh_tridiagonal, np.array([1.0, 2.5, 4.0]), R[:2]),
    "eig_banded": (lambda ab: la.eig_banded(ab, select="i", select_range=(0, 2))[1], UPPER_BANDS),
    "eigvals_banded": (la.eigvals_banded, UPPER_BANDS),
    "eigenvalues of eig": (lambda a: np.abs(la.eig(a)[0]), M),
    "eig": (lambda a: np.abs(la.eig(a)[1]), np.diag([1.0, 2.0, 4.0]) + 0.1 * M[:3, :3]),
    "eigvals": (lambda a: np.sort(la.eigvals(a).real), np.diag([1.0, 2.0, 4.0]) + 0.1 * M[:3, :3]),
}
DISTINCT = np.diag([1.0, 2.0, 4.0, 7.0]) + 0.1 * M
INDEFINITE, APART = M - 2.5 * np.eye(4), np.diag([-9.0, 1.0, 12.0, 80.0]) + 0.1 * M
REDUCTIONS = {
    "factor of ldl": (lambda a: la.ldl(a)[0], M),
    "d of ldl": (lambda a: la.ldl(a, lower=False)[1], M),
    "d of ldl in blocks": (lambda a: la.ldl(a + a.T)[1], INDEFINITE),
    "factor of ldl in blocks": (lambda a: la.ldl(a + a.T, lower=False)[0], INDEFINITE),
    "hessenberg": (la.hessenberg, M),
    "q of hessenberg": (lambda a: la.hessenberg(a, calc_q=True)[1], M),
    "schur": (lambda a: la.schur(a)[0], DISTINCT),
    "z of schur": (lambda a: la.schur(a)[1], DISTINCT),
    "schur of a symmetric matrix": (lambda a: np.diag(la.schur(a + a.T)[0]), M),
    "null_space": (la.null_space, M[:3].copy()),
    "left eigenvectors": (lambda a: la.eig(a, left=True, right=False)[1], DISTINCT),
    "left and right": (lambda a: np.abs(np.real(la.eig(a, left=True)[1] * la.eig(a, left=True)[2])), DISTINCT),
    "eigenvalues of a pencil": (lambda a, b: la.eig(a, b)[0].real, APART, np.eye(4) + 0.1 * M.T),
    "eigenvectors of a pencil": (lambda a, b: la.eig(a, b)[1], APART, np.eye(4) + 0.1 * M.T),
    "qr_multiply": (lambda a, c: la.qr_multiply(a, c)[0], TALL + 3 * np.eye(5, 3), WIDE),
    "left qr_multiply": (lambda a, c: la.qr_multiply(a, c, "left")[0], TALL + 3 * np.eye(5, 3), M[:3, :2].copy()),
}
FUNCTIONS = {
    "expm": (la.expm, M),
    "expm of a stack": (lambda a: la.expm(np.stack([a, 2 * a])), M[:2, :2]),
    "expm_frechet": (lambda a, e: la.expm_frechet(a, e)[1], M, M[::-1].copy()),
    "sqrtm": (lambda a: la.sqrtm(positive(a)), M),
    "logm": (lambda a: la.logm(positive(a)), M),
    "cosm": (la.cosm, M),
    "sinm": (la.sinm, M),
    "tanm": (la.tanm, 0.2 * M),
    "sinhm": (la.sinhm, M),
    "coshm": (la.coshm, M),
    "tanhm": (la.tanhm, 0.3 * M),
    "fractional_matrix_power": (lambda a: la.fractional_matrix_power(positive(a), 0.3), M),
    "solve_sylvester": (la.solve_sylvester, M, M[:3, :3].copy(), WIDE.T[:4]),
    "solve_continuous_lyapunov": (la.solve_continuous_lyapunov, M, M[::-1].copy()),
    "solve_discrete_lyapunov": (la.solve_discrete_lyapunov, 0.3 * M, M[::-1].copy()),
    "solve_continuous_are": (
        lambda a, b, q, r: la.solve_continuous_are(a, b, positive(q), positive(r)),
        M[:3, :3].copy(),
        B[:3].copy(),
        M[1:, 1:].copy(),
        M[:2, :2].copy(),
    ),
    "solve_discrete_are": (
        lambda a, b, q, r: la.solve_discrete_are(a, b, positive(q), positive(r)),
        0.5 * M[:3, :3],
        B[:3].copy(),
        M[1:, 1:].copy(),
        M[:2, :2].copy(),
    ),
}
MATRICES = {
    "toeplitz": (la.toeplitz, R[:3], R[2:5]),
    "symmetric toeplitz": (la.toeplitz, R[:3]),
    "circulant": (la.circulant, R[:4]),
    "hankel": (la.hankel, R[:3], R[2:5]),
    "companion": (la.companion, np.array([2.0, 1.0, 0.5])),
    "leslie": (la.leslie, R[:3], R[:2]),
    "fiedler": (la.fiedler, np.array([1.0, 3.0, 0.5])),
    "convolution_matrix": (lambda a: la.convolution_matrix(a, 4, mode="same"), R[:3]),
    "block_diag": (lambda a, b: la.block_diag(a, b, [[1.0]]), M, B),
    "khatri_rao": (la.khatri_rao, TALL, WIDE.T[:4, :3].copy()),
}
CASES = SYSTEMS | FACTORS | REDUCTIONS | FUNCTIONS | MATRICES
if not hasattr(la, "fiedler_companion"):
    del CASES["fiedler"]


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands)


ROTATING = np.array([[-1.0, 2.0, 0.3], [-1.5, 0.4, 0.2], [0.1, 0.7, -2.0]])  # one negative and two complex eigenvalues
INDEFINITE = ROTATING + ROTATING.T
BEYOND_A_CUT = {
    "sqrtm": la.sqrtm,
    "logm": la.logm,
    "power": lambda a: la.fractional_matrix_power(a, 0.3),
}


@pytest.mark.parametrize("matrix", [ROTATING, INDEFINITE], ids=["general", "symmetric"])
@pytest.mark.parametrize("name", BEYOND_A_CUT)
def test_real_matrices_with_negative_eigenvalues_have_complex_functions(name, matrix):
    def f(a):
        return parts(BEYOND_A_CUT[name](a))

    assert np.any(f(matrix)[1])
    check_derivatives(f, matrix, 2, atol=1e-10)


def turning(m):
    return m + 0.5j * m[::-1]


def hermitian(m):
    return m + m.T + 1j * (m @ M[:3, :3] - (m @ M[:3, :3]).T)


def without_sign(v):
    return v * np.sign(v[0].real)


COMPLEX = {
    "solve_banded": lambda m: la.solve_banded((1, 1), turning(m) + [[0], [4], [0]], m[0]),
    "solve_banded for columns": lambda m: la.solve_banded((1, 1), turning(m) + [[0], [4], [0]], m + 1j),
    "solveh_banded": lambda m: la.solveh_banded([[0, 0.3j * m[0, 1], m[0, 2]], [4, 5, 6 + m[0, 0]]], m[1]),
    "solve_sylvester": lambda m: la.solve_sylvester(turning(m) + 4 * np.eye(3), 1j * m, turning(m.T)),
    "solve_continuous_lyapunov": lambda m: la.solve_continuous_lyapunov(turning(m) + 4 * np.eye(3), 1j * m),
    "solve_discrete_lyapunov": lambda m: la.solve_discrete_lyapunov(turning(m) / 9, 1j * m),
    "eigh": lambda m: without_sign(la.eigh(hermitian(m))[1]),
    "eigh of the upper triangle": lambda m: without_sign(la.eigh(hermitian(m), lower=False)[1]),
    "eigh, one vector": lambda m: without_sign(la.eigh(hermitian(m), subset_by_index=[1, 1])[1]),
    "svd": lambda m: la.svd(turning(m))[0] * la.svd(turning(m))[1],
    "expm": lambda m: la.expm(-1j * hermitian(m)),
    "inv": lambda m: la.inv(turning(m)),
    "lu": lambda m: la.lu_solve(la.lu_factor(turning(m)), m[0]),
    "cho_solve": lambda m: la.cho_solve(la.cho_factor(hermitian(m) @ hermitian(m) + np.eye(3)), m[0]),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_matrices_have_derivatives(name):
    check_derivatives(lambda m: parts(COMPLEX[name](m)), ROTATING, 2, atol=1e-9)


REFUSED = {
    "qz": (lambda a: la.qz(a, a)[0], r"qz .*eig"),
    "complex schur": (lambda a: la.schur(a, output="complex")[0].real, r"schur with complex .*eig"),
    "raw qr": (lambda a: la.qr(a, mode="raw")[0][0], r"scipy\.linalg\.qr with mode='raw'"),
}


STACK = np.stack([B, 2 * B[::-1]])
STACKS = {
    "lstsq": lambda b: la.lstsq(M, b)[0],
    "solve_banded": lambda b: la.solve_banded((1, 1), M[:3], b),
    "solveh_banded": lambda b: la.solveh_banded(M[:2] + [[0], [9]], b),
    "cho_solve_banded": lambda b: la.cho_solve_banded((M[:2] + [[0], [9]], False), b),
    "rq": lambda b: la.rq(np.swapaxes(b, -1, -2) @ b)[0],
}


def takes_stacks(f):
    """Return whether the installed SciPy accepts a stack of systems."""
    try:
        f(STACK)
    except (ValueError, np.linalg.LinAlgError):
        return False
    return True


@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_systems_are_refused_by_name(name):
    if takes_stacks(STACKS[name]):
        with pytest.raises(UnsupportedFunctionError, match=f"scipy.linalg.{name} with a stack of"):
            wg.jacobian(STACKS[name], STACK)


@pytest.mark.parametrize("trans", [0, 1])
def test_lu_solve_of_a_stack_solves_each(trans):
    def f(b):
        return lu_solve(lu_factor(M[::-1]), b, trans)

    if takes_stacks(f):
        found = wg.jacobian(f, STACK)
        for k in range(2):
            np.testing.assert_allclose(found[k, :, :, k], wg.jacobian(f, STACK[k]), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_rule_are_refused_by_name(name):
    f, message = REFUSED[name]
    with pytest.raises(UnsupportedFunctionError, match=message):
        wg.grad(lambda a: np.sum(f(a)))(M)


def test_function_of_a_matrix_has_derivatives():
    """Values of `funm` come from eigenvectors, not from SciPy's recurrence."""

    def f(a, t):
        return np.sum(M * la.funm(a, lambda z: 1 / (t + z**2)))

    def expected(a, t):
        return np.sum(M * la.inv(t * np.eye(4) + a @ a))

    gradients = [wg.grad(g, argnums=(0, 1))(DISTINCT, 2.0) for g in (f, expected)]
    for found, known in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, known, rtol=1e-11, atol=1e-12)
    found, known = (wg.hvp(lambda a: g(a, 2.0), DISTINCT, M) for g in (f, expected))
    np.testing.assert_allclose(found, known, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("fun", [la.logm, la.sqrtm])
def test_compiling_functions_of_regular_matrices_does_not_warn(fun):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        grad = wg.compile(wg.grad(lambda a: fun(positive(a)).sum()))
        np.testing.assert_allclose(grad(M), wg.grad(lambda a: fun(positive(a)).sum())(M), rtol=1e-12)
    assert not seen


def test_null_space_has_a_derivative_as_a_subspace():
    def projector(a):
        z = la.null_space(a)
        return z @ z.T

    def expected(a):
        return np.eye(4) - np.linalg.pinv(a) @ a

    np.testing.assert_allclose(wg.jacrev(projector)(M[:2]), wg.jacrev(expected)(M[:2]), atol=1e-12)
    with pytest.raises(NonSmoothError, match="null space"):
        wg.grad(lambda a: la.null_space(a)[0, 0])(M[:2])


def test_vectors_of_complex_eigenvalues_have_the_signs_of_scipy():
    """The signs of SciPy's vectors differ from NumPy's at some of these points."""
    for a in ROTATING + 0.1 * np.random.default_rng(1).normal(size=(30, 3, 3)):
        found = wg.jacobian(lambda a: la.eig(a)[1].real)(a)
        assert np.allclose(found, central_differences(lambda a: la.eig(a)[1].real, a), rtol=1e-5, atol=1e-6)


def test_equal_eigenvalues_have_no_eigenvectors_to_differentiate():
    with pytest.raises(NonSmoothError, match="equal"):
        wg.grad(lambda a: la.eigh(a)[1][0, 1])(np.eye(3))


def test_symmetric_matrix_read_in_one_triangle_has_a_symmetric_gradient():
    k = positive(M)
    found = wg.grad(lambda k: 2 * np.sum(np.log(np.diag(cho_factor(k)[0]))))(k)
    np.testing.assert_allclose(found, np.linalg.inv(k), rtol=1e-12)


@pytest.mark.parametrize("trans", ["N", "T", "C"])
def test_complex_triangular_systems_have_derivatives(trans):
    a = LARGE + 0.3j * LARGE.T

    def f(t):
        return np.abs(np.sum(COLUMNS * la.solve_triangular(a * (1 + 1j * t), t * COLUMNS + 1j, trans))) ** 2

    h = 1e-6
    slope = (f(0.8 + h) - f(0.8 - h)) / (2 * h)
    np.testing.assert_allclose([wg.grad(f)(0.8), wg.jvp(f, 0.8, 1.0)[1]], [slope, slope], rtol=1e-7)


def test_complex_systems_have_derivatives():
    a = M + 0.3j * M[::-1]

    def f(t):
        return np.abs(np.sum(la.solve(a * t, B + 1j * B) + la.expm(0.1 * t * a)[:, :2])) ** 2

    h = 1e-6
    np.testing.assert_allclose(wg.grad(f)(0.8), (f(0.8 + h) - f(0.8 - h)) / (2 * h), rtol=1e-7)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_factors_of_a_matrix_whose_last_pivot_is_zero_have_derivatives(mode):
    def f(a):
        return lu_factor(np.column_stack([a, -a.sum(1)]))[0][:, :3] ** 2

    J = wg.jacobian(f, mode=mode)(M[:, :3])
    np.testing.assert_allclose(J, wg.jacobian(lambda a: lu_factor(a)[0] ** 2)(M[:, :3]), rtol=1e-10, atol=1e-10)
    last = wg.jacobian(lambda a: lu_factor(np.column_stack([a, -a.sum(1)]))[0][:, 3], mode=mode)(M[:, :3])
    upper = wg.jacobian(lambda a: -np.triu(lu_factor(a)[0]).sum(1))(M[:, :3])
    np.testing.assert_allclose(last, upper, rtol=1e-10, atol=1e-10)
    assert np.all(np.isfinite(wg.hessian(lambda a: np.sum(f(a)))(M[:, :3])))
