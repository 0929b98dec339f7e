"""Linear algebra beyond the tables: tangents, symmetric matrices, equal eigenvalues, rank loss, rules of rules."""

from __future__ import annotations

import re

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
from primitive_cases import CALLS, SYMMETRIC, arr, call, positive_definite, val
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.registry import lookup
from wengert.rules import linalg
from wengert.rules.factors import cholesky_adjoint
from wengert.rules.spectra import packed_eigh, pseudo_inverse

inf = np.inf
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def derivative(f, x, v, h=2e-3):
    """Return the derivative of f along v by central differences of sixth order."""
    weights = {1: 45 / 60, 2: -9 / 60, 3: 1 / 60}
    return sum(w * (np.asarray(f(x + i * h * v)) - np.asarray(f(x - i * h * v))) for i, w in weights.items()) / h


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


# ---- functions of symmetric matrices, of which NumPy reads one triangle

def steady(case, y):
    """Fix the signs of a result: LAPACK's eigenvectors may change sign from one call to the next."""
    if case.fun is not packed_eigh:
        return np.ones_like(wg.stop_gradient(y))
    w, v = linalg.unpacked(wg.stop_gradient(y), *(np.shape(case.draw()[0])[:i] for i in (-1, None)))
    return linalg.packed(np.ones_like(w), np.broadcast_to(np.sign(v[..., :1, :]), v.shape))


@pytest.mark.parametrize("case", SYMMETRIC, ids=lambda case: case.name)
def test_symmetric_matrix_splits_derivative_between_triangles(case):
    a, *rest = case.draw()
    v, weights = random(*a.shape), random(*np.shape(case(a, *rest)), seed=1)
    v = v + np.swapaxes(v, -1, -2)

    def f(a):
        y = case(a, *rest)
        return np.sum(weights * steady(case, y) * y)

    found = wg.grad(f, a)
    np.testing.assert_allclose(found, np.swapaxes(found, -1, -2), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(np.sum(found * v), derivative(f, a, v), rtol=1e-8)


# ---- tangents


@pytest.mark.filterwarnings("ignore:.*run uncompiled")  # a case can draw its numbers
def test_triangle_read_by_numpy_has_derivative_for_nonsymmetric_matrix():
    """Code may fill one triangle only."""
    for case in SYMMETRIC:
        a, *rest = case.draw()
        for part in (np.tril, np.triu):
            b, v = part(a) + 0.1 * random(*a.shape), random(*a.shape, seed=1)
            if not np.all(np.isfinite(case(b, *rest))):
                continue
            weights = random(*np.shape(case(b, *rest)), seed=2)

            def f(a):
                y = case(a, *rest)
                return np.sum(weights * steady(case, y) * y)

            found = [np.sum(wg.grad(g, b) * v) for g in (f, wg.compile(f))] + [wg.jvp(f, b, v)[1]]
            np.testing.assert_allclose(found, derivative(f, b, v), rtol=1e-7, err_msg=case.name)


def test_every_function_slow_to_transpose_has_a_tangent_rule():
    names = "solve inv det cholesky eigvalsh svdvals matrix_power multi_dot norm vector_norm matrix_norm".split()
    for name in names:
        assert 0 in lookup(getattr(np.linalg, name)).jvps, name


def test_multi_dot_skips_missing_tangents():
    a, b = random(2, 3), random(3, 4)
    t = random(1, 3, 4)
    found = lookup(np.linalg.multi_dot).jvps[0]([None, t], a @ b, [a, b])
    np.testing.assert_allclose(found, a @ t)


# ---- against other arithmetic

A, B = positive_definite(4) + random(4, 4, seed=3), random(4, 2, seed=4)

COMPLEX_STEP = {
    "solve": lambda a: np.linalg.solve(a, B),
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "matrix_power": lambda a: np.linalg.matrix_power(a, 5),
    "negative power": lambda a: np.linalg.matrix_power(a, -3),
    "multi_dot": lambda a: np.linalg.multi_dot([a, B, B.T, a]),
    "tensorinv": lambda a: np.linalg.tensorinv(a.reshape(2, 2, 4)),
    "tensorsolve": lambda a: np.linalg.tensorsolve(a.reshape(2, 2, 4), B[:, 0].reshape(2, 2)),
    "kron": lambda a: np.kron(a, B * a[:, :2]),
}


@pytest.mark.parametrize("name", COMPLEX_STEP)
def test_derivatives_equal_complex_step(name):
    f, v = COMPLEX_STEP[name], random(4, 4, seed=5)
    expected = np.imag(f(A + 1e-30j * v)) / 1e-30
    np.testing.assert_allclose(np.sum(wg.jacobian(f, A) * v, axis=(-2, -1)), expected, rtol=1e-11, atol=1e-13)


def test_eigenvalue_derivatives_equal_mpmath():
    a, v = positive_definite(3), random(3, 3)
    v = v + v.T
    with mp.workdps(40):
        for i in range(3):
            path = lambda t, i=i: mp.eigsy(mp.matrix(a.tolist()) + t * mp.matrix(v.tolist()), eigvals_only=True)[i]
            expected = float(mp.diff(path, 0))
            for f in (np.linalg.eigvalsh, lambda a: np.linalg.eigh(a).eigenvalues):
                np.testing.assert_allclose(np.sum(wg.grad(lambda a, f=f: f(a)[i], a) * v), expected, rtol=1e-12)


def test_singular_value_derivatives_equal_mpmath():
    a, v = random(4, 3), random(4, 3, seed=1)
    with mp.workdps(40):
        for i in range(3):
            path = lambda t, i=i: mp.svd(mp.matrix(a.tolist()) + t * mp.matrix(v.tolist()), compute_uv=False)[i]
            expected = float(mp.diff(path, 0))
            for f in (np.linalg.svdvals, lambda a: np.linalg.svd(a).S):
                np.testing.assert_allclose(np.sum(wg.grad(lambda a, f=f: f(a)[i], a) * v), expected, rtol=1e-12)


#: functions of the factors that do not depend on their signs, and their closed forms
CLOSED = {
    "eigh": (lambda a: (r := np.linalg.eigh(a + a.T)).eigenvectors * r.eigenvalues**2 @ r.eigenvectors.T,
             lambda a: (a + a.T) @ (a + a.T)),
    "svd": (lambda a: (r := np.linalg.svd(a, full_matrices=False)).U * r.S**3 @ r.Vh, lambda a: a @ a.T @ a),
    "full svd": (lambda a: np.linalg.svd(a[:3]).Vh[3:].T @ np.linalg.svd(a[:3]).Vh[3:],
                 lambda a: np.eye(4) - a[:3].T @ np.linalg.inv(a[:3] @ a[:3].T) @ a[:3]),
    "qr": (lambda a: (r := np.linalg.qr(a)).Q @ r.R, lambda a: 1.0 * a),
    "r": (lambda a: (r := np.linalg.qr(a, "r")).T @ r, lambda a: a.T @ a),
    "wide qr": (lambda a: (r := np.linalg.qr(a[:2])).Q @ r.R * r.R, lambda a: a[:2] * np.linalg.qr(a[:2]).R),
    "cholesky": (lambda a: (r := np.linalg.cholesky(a @ a.T)) @ r.T, lambda a: a @ a.T),
    "pinv": (lambda a: np.linalg.pinv(a[:, :2]), lambda a: np.linalg.inv(a[:, :2].T @ a[:, :2]) @ a[:, :2].T),
    "lstsq": (lambda a: np.linalg.lstsq(a[:, :2], a[:, 2])[0],
              lambda a: np.linalg.solve(a[:, :2].T @ a[:, :2], a[:, :2].T @ a[:, 2])),
    "residuals": (lambda a: np.linalg.lstsq(a[:, :2], a[:, 2:])[1],
                  lambda a: np.sum((a[:, 2:] - a[:, :2] @ np.linalg.pinv(a[:, :2]) @ a[:, 2:]) ** 2, axis=0)),
    "singular values": (lambda a: np.linalg.lstsq(a, a[0])[3], np.linalg.svdvals),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSED)
def test_functions_of_factors_have_closed_form_derivatives(name):
    f, closed = CLOSED[name]
    np.testing.assert_allclose(wg.jacobian(f, A), wg.jacobian(closed, A), rtol=1e-9, atol=1e-10)


def test_results_have_numpy_types():
    def f(a):
        for got, fun in (
            (np.linalg.eigh(a), np.linalg.eigh),
            (np.linalg.svd(a), np.linalg.svd),
            (np.linalg.qr(a), np.linalg.qr),
            (np.linalg.slogdet(a), np.linalg.slogdet),
        ):
            assert type(got) is type(fun(A))
            for part, plain in zip(got, fun(A)):
                np.testing.assert_array_equal(wg.stop_gradient(part), plain)
        rank = np.linalg.lstsq(a, a[0])[2]
        assert rank == 4
        assert rank.dtype == np.linalg.lstsq(A, A[0])[2].dtype
        return np.sum(a)

    wg.grad(f, A)


# ---- rules of rules

AGAIN = [
    call(np.linalg.solve, val(A), arr(4, 2)),
    call(np.linalg.inv, val(A)),
    call(np.linalg.det, val(A)),
    call(linalg.packed_slogdet, val(A)),
    call(pseudo_inverse, arr(4, 3), 1e-15, np._NoValue),
    call(np.linalg.norm, arr(4, 3), "nuc"),
    call(np.linalg.norm, arr(4, 3), 2),
    call(np.linalg.svdvals, arr(4, 3)),
    call(np.linalg.matrix_power, arr(3, 3), 5),
    *(case for case in CALLS if case.fun.__name__ in ("packed_svd", "packed_qr", "packed_lstsq")),
    *(case for case in SYMMETRIC if case.label != "blocks"),
]


@pytest.mark.parametrize("case", AGAIN, ids=lambda case: f"{case.fun.__module__}.{case.name}")
def test_pullback_is_differentiable(case):
    args, row = case.draw(), lookup(case.fun)
    w = random(*np.shape(case(*args)), seed=6)
    for i in case.wrt:

        def pulled(x, i=i):
            given = [x if j == i else a for j, a in enumerate(args)]
            y = row.fun(*given, **case.kwargs)
            return row.vjps[i](w * steady(case, y), y, *given, **case.kwargs)

        v, weights = random(*np.shape(args[i])), random(*np.shape(args[i]), seed=1)
        if any(case is one for one in SYMMETRIC):
            v = v + np.swapaxes(v, -1, -2)
        found = np.sum(wg.grad(lambda x: np.sum(weights * pulled(x)), args[i]) * v)
        np.testing.assert_allclose(found, np.sum(weights * derivative(pulled, args[i], v)), rtol=1e-6, atol=1e-8)


# ---- equal eigenvalues and singular values

Q = np.linalg.qr(random(4, 4, seed=8)).Q
PAIR = Q * [1.0, 2.0, 2.0, 5.0] @ Q.T  # a matrix with two equal eigenvalues


def test_sums_of_equal_eigenvalues_and_projectors_on_their_vectors_have_derivatives():
    v = random(4, 4)
    v = v + v.T
    np.testing.assert_allclose(wg.grad(lambda a: np.sum(np.linalg.eigvalsh(a) ** 2), PAIR), 2 * PAIR, atol=1e-13)
    np.testing.assert_allclose(wg.grad(lambda a: np.sum(np.linalg.eigh(a)[0]), PAIR), np.eye(4), atol=1e-13)

    def projector(a):
        pair = np.linalg.eigh(a).eigenvectors[:, 1:3]
        return np.sum(pair @ pair.T * Q)

    for f in (projector, lambda a: np.linalg.eigh(a)[1][0, 0] ** 2):
        np.testing.assert_allclose(np.sum(wg.grad(f, PAIR) * v), derivative(f, PAIR, v), rtol=1e-8)


EQUAL = {
    "one vector": lambda a: np.linalg.eigh(a)[1][0, 1],
    "one value": lambda a: np.linalg.eigh(a)[0][1],
    "matrix function": lambda a: np.sum(Q * ((r := np.linalg.eigh(a))[1] * np.exp(r[0]) @ r[1].T)),
    "one singular vector": lambda a: np.linalg.svd(a)[0][2, 1],
    "one singular value": lambda a: np.linalg.svd(a)[1][1],
}


@pytest.mark.parametrize("name", EQUAL)
def test_dependence_on_one_of_two_equal_eigenvalues_raises(name):
    with pytest.raises(NonSmoothError, match=r"numpy.linalg.(eigh|svd) has no derivative here: two of the .* equal"):
        wg.grad(EQUAL[name], PAIR)


def test_eigenvalues_without_vectors_follow_the_sorted_branch():
    np.testing.assert_allclose(wg.jacobian(np.linalg.eigvalsh, np.eye(2)), [[[1, 0], [0, 0]], [[0, 0], [0, 1]]])
    np.testing.assert_allclose(np.abs(wg.jacobian(np.linalg.svdvals, np.eye(2))), [[[1, 0], [0, 0]], [[0, 0], [0, 1]]])


def test_only_tangents_of_eigenvectors_of_equal_eigenvalues_are_nan():
    t = random(1, 4, 4)
    y = packed_eigh(PAIR, "L")
    pushed = lookup(packed_eigh).jvps[0](t, y, PAIR, "L")
    dw, dv = linalg.unpacked(pushed, (4,), (4, 4))
    assert np.isfinite(dw).all()
    np.testing.assert_array_equal(np.isnan(dv[0]), np.tile([False, True, True, False], (4, 1)))


@pytest.mark.parametrize("full", [False, True])
def test_only_null_space_vectors_have_no_tangents(full):
    """Vectors of a zero singular value are null-space vectors, even if the rank is constant."""
    a, t = np.outer([1.0, 2.0], [1.0, 2.0, 3.0, 4.0]), np.outer([1.0, 2.0], [1.0, 0.0, 0.0, 0.0])
    _, dv = wg.jvp(lambda a: np.linalg.svd(a, full).Vh[0], a, t)
    v = np.array([1.0, 2.0, 3.0, 4.0]) / np.sqrt(30)
    along = (t[0] - v * (v @ t[0])) / np.sqrt(30)
    np.testing.assert_allclose(dv * np.sign(np.linalg.svd(a).Vh[0, 0]), along, rtol=1e-12)
    with pytest.raises(NonSmoothError, match="or of a null space"):
        wg.jvp(lambda a: np.linalg.svd(a, full).Vh[1], a, t)


V = random(4, 4, seed=3)
FORWARD = {
    "jvp": lambda f, a: wg.jvp(f, a, V)[1],
    "two directions": lambda f, a: wg.jvp(f, a, np.stack([V, Q]))[1][0],
    "jacobian": lambda f, a: np.sum(wg.jacobian(f, a, mode="forward") * V),
    "columns of a list": lambda f, a: np.sum(wg.jacobian(lambda a: [f(a), 1.0], a, mode="forward")[0] * V),
    "linearize": lambda f, a: (wg.linearize(f, a)[1] @ V.ravel())[0],
    "inside another derivative": lambda f, a: wg.derivative(lambda t: wg.jvp(f, a, t * V)[1], 1.0),
    "of a number": lambda f, a: wg.derivative(lambda t: f(a + t * V), 0.0),
}


@pytest.mark.parametrize("along", FORWARD.values(), ids=FORWARD)
@pytest.mark.parametrize("name", ["eigh", "svd"])
def test_forward_mode_raises_only_for_vectors_of_equal_values(name, along):
    values, vectors = (0, 1) if name == "eigh" else (1, 0)
    decomposed = getattr(np.linalg, name)
    for f in (
        lambda a: decomposed(a)[values][0] ** 2,
        lambda a: np.sum(decomposed(a)[values] ** 3),
        lambda a: decomposed(a)[vectors][1, 3] ** 2,
    ):
        np.testing.assert_allclose(along(f, PAIR), np.sum(wg.grad(f, PAIR) * V), rtol=1e-9)
    with pytest.raises(NonSmoothError, match=rf"numpy.linalg.{name} has no derivative here: .*(eigvalsh|svdvals)"):
        along(lambda a: decomposed(a)[vectors][1, 1] ** 2, PAIR)


@pytest.mark.parametrize("mode", ["mixed", "forward", "reverse"])
def test_second_derivatives_at_equal_eigenvalues_are_correct_or_raise(mode):
    f = lambda a: np.linalg.eigvalsh(a)[0]
    step = 1e-4
    slope = lambda h: wg.grad(f, PAIR + h * (V + V.T))
    second = np.tensordot(wg.hessian(f, PAIR, mode=mode), V + V.T)
    np.testing.assert_allclose(second, (slope(step) - slope(-step)) / (2 * step), rtol=1e-5, atol=1e-7)
    for values in (np.linalg.eigvalsh, np.linalg.svdvals):
        with pytest.raises(NonSmoothError, match=r"numpy.linalg.(eigh|svd) has no derivative here"):
            wg.hessian(lambda a: np.sum(values(a) ** 2), PAIR, mode=mode)


def test_nan_of_another_function_is_not_blamed_on_eigenvectors():
    f = lambda a: np.linalg.eigh(a)[1][0, 1] * np.nan
    assert np.isnan(wg.jvp(f, np.diag([1.0, 2.0]), np.ones((2, 2)))[1])


def test_null_space_vectors_have_derivative_only_as_a_subspace():
    a = random(4, 2)
    with pytest.raises(NonSmoothError, match="vectors of a null space are an arbitrary basis: use full_matrices=False"):
        wg.grad(lambda a: np.linalg.svd(a).U[0, 2], a)
    f = lambda a: np.sum((n := np.linalg.svd(a).U[:, 2:]) @ n.T * Q)
    v = random(4, 2, seed=1)
    np.testing.assert_allclose(np.sum(wg.grad(f, a) * v), derivative(f, a, v), rtol=1e-8)


def test_zero_singular_value_does_not_affect_other_vectors():
    a = np.outer(random(4), random(3, seed=1))
    with pytest.raises(NonSmoothError, match=r"has no derivative here"):
        wg.grad(lambda a: np.linalg.svd(a, False).U[0, 1], a)
    f = lambda a: (r := np.linalg.svd(a, False)).U[0, 0] * r.Vh[0, 1] * r.S[0]
    v = random(4, 3, seed=2)
    np.testing.assert_allclose(np.sum(wg.grad(f, a) * v), derivative(f, a, v), rtol=1e-8)


# ---- rank loss


def test_qr_of_linearly_dependent_columns_raises():
    a = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])
    with pytest.raises(NonSmoothError, match=r"numpy.linalg.qr has no derivative here: the columns of the matrix are"):
        wg.grad(lambda a: np.linalg.qr(a).R[0, 1], a)
    with pytest.raises(NonSmoothError, match=r"an arbitrary basis of the null space: use q\[:, :n\]"):
        wg.grad(lambda a: np.linalg.qr(a, "complete").Q[0, 2], random(3, 2))
    with pytest.raises(UnsupportedFunctionError, match=r"numpy.linalg.qr with mode='raw' has no derivative"):
        wg.grad(lambda a: np.sum(np.linalg.qr(a, "raw")[0]), a)


def test_rank_deficient_pinv_is_differentiated_at_constant_rank():
    u, v = random(4, 2), random(2, 3, seed=1)
    for f in (
        lambda u: np.sum(np.linalg.pinv(u @ v, rcond=1e-10) ** 2),
        lambda u: np.sum(np.linalg.lstsq(u @ v, Q[0], 1e-10)[0] ** 2),
    ):
        t = random(4, 2, seed=2)
        np.testing.assert_allclose(np.sum(wg.grad(f, u) * t), derivative(f, u, t), rtol=1e-7)


@pytest.mark.parametrize("f", [
    lambda a: np.sum(np.linalg.pinv(a, rcond=0.1)),
    lambda a: np.sum(np.linalg.lstsq(a, np.ones(3), 0.1)[0]),
])  # fmt: skip
def test_nonzero_singular_values_below_cutoff_raise(f):
    with pytest.raises(NonSmoothError, match="rcond discards singular values that are not 0"):
        wg.vjp(f, np.diag([1.0, 0.5, 0.01]))
    with pytest.raises(NonSmoothError, match="rcond discards singular values that are not 0"):
        wg.jvp(f, np.diag([1.0, 0.5, 0.01]), np.eye(3))


def test_condition_number_of_singular_matrix_raises():
    for p in (None, -2):
        with pytest.raises(NonSmoothError, match=r"numpy.linalg.cond has no derivative here: the matrix is singular"):
            wg.grad(lambda a, p=p: np.linalg.cond(a, p), np.diag([1.0, 2.0, 0.0]))


# ---- kinks of norms

TIES = [
    (1, [[1.0, -2.0], [3.0, 2.0]], [[0.5, -0.5], [0.5, 0.5]]),
    (inf, [[1.0, -3.0], [2.0, 2.0]], [[0.5, -0.5], [0.5, 0.5]]),
    (-1, [[1.0, -2.0], [3.0, 5.0]], [[1, 0], [1, 0]]),
    (2, [[1.0, 0.0], [0.0, 1.0]], [[0.5, 0], [0, 0.5]]),
    (-2, [[1.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
    ("nuc", [[2.0, 0.0], [0.0, 0.0]], [[1, 0], [0, 0]]),
    ("nuc", [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
    (2, [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
    (None, [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
]


@pytest.mark.parametrize(("order", "at", "expected"), TIES)
def test_matrix_norm_shares_derivative_at_ties_and_is_zero_at_origin(order, at, expected):
    np.testing.assert_allclose(wg.grad(lambda x: np.linalg.norm(x, order), np.array(at)), expected, atol=1e-15)


@pytest.mark.parametrize("order", [None, "nuc", 1, 2, inf, -1, -2, -inf])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0), (0, 0)])
def test_norm_of_empty_matrix_is_differentiated_where_numpy_returns_a_number(order, shape):
    x = np.zeros(shape)
    for f in (lambda x: np.linalg.norm(x, order), lambda x: np.linalg.norm(x, order) + np.sum(x)):
        try:
            f(x)
        except ValueError:
            with pytest.raises(ValueError, match="zero-size"):
                wg.grad(f, x)
        else:
            assert wg.grad(f, x).shape == shape


@pytest.mark.parametrize("order", [None, 0.5, 1, 2, 3, inf, -inf, -1])
def test_vector_norms_have_zero_derivative_at_origin(order):
    np.testing.assert_array_equal(wg.grad(lambda x: np.linalg.norm(x, order), np.zeros(3)), np.zeros(3))


@pytest.mark.parametrize("at", [[inf, 1.0], [1.0, -inf, 2.0], [inf, -inf]])
def test_compiled_norm_of_an_infinite_vector_has_the_derivative_of_its_rule(at):
    """It is expanded to a square root, whose derivative is 0 there, while that of the norm is NaN."""
    at = np.array(at)
    norm, v = np.linalg.norm, np.ones_like(at)
    gradient, tangent = wg.grad(wg.compile(norm)), wg.jvp(wg.compile(norm))
    with np.errstate(invalid="ignore"):
        for x in (v, at, 2.0 * v):
            np.testing.assert_allclose(gradient(x), wg.grad(norm, x), rtol=1e-14)
            np.testing.assert_allclose(tangent(x, v), wg.jvp(norm, x, v), rtol=1e-14)
        assert wg.compile(lambda x: np.linalg.norm(x))(at) == inf


# ---- products of vectors in the plane


@pytest.mark.filterwarnings("ignore:.*2-dimensional vectors:DeprecationWarning")
@pytest.mark.parametrize(("shape", "other"), [((2,), (2,)), ((3,), (2,)), ((4, 2), (3,)), ((4, 1, 2), (3, 2))])
def test_cross_products_of_plane_vectors_have_derivatives(shape, other):
    a, b = random(*shape), random(*other, seed=1)
    for i, x in enumerate((a, b)):
        f = lambda x, i=i: np.cross(x, b) if i == 0 else np.cross(a, x)
        try:
            f(x)
        except ValueError as error:  # from NumPy 2.5 on
            with pytest.raises(ValueError, match=re.escape(str(error))):
                wg.jacobian(f, x)
            continue
        v = random(*x.shape, seed=2)
        found = np.sum(wg.jacobian(f, x) * v, axis=tuple(range(-v.ndim, 0)))
        np.testing.assert_allclose(found, derivative(f, x, v), rtol=1e-9, atol=1e-12)


# ---- work that is done once, and how


def test_pullbacks_of_solve_share_one_solution(monkeypatch):
    calls = []
    solve = linalg.solution
    monkeypatch.setattr(linalg, "solution", lambda a, b: calls.append(1) or solve(a, b))
    y, pullback = wg.vjp(lambda a, b: np.linalg.solve(a, b), A, args=(B,), argnums=(0, 1))
    abar, bbar = pullback(np.ones_like(y))
    assert len(calls) == 1
    np.testing.assert_allclose(abar, -bbar @ y.T)
    pullback(2 * np.ones_like(y))
    assert len(calls) == 2


@pytest.mark.parametrize("lower", [True, False])
def test_triangular_matrix_is_not_factorised_again(monkeypatch, lower):
    a = np.tril(random(150, 150)) + 10 * np.eye(150)
    a = a if lower else a.T
    b = random(150, seed=1)
    y, pullback = wg.vjp(lambda a: np.linalg.solve(a, b), a)
    sizes, solve = [], np.linalg.solve
    monkeypatch.setattr(np.linalg, "solve", lambda a, b: sizes.append(len(a)) or solve(a, b))
    found = pullback(b)
    assert max(sizes) <= linalg.MIN_SPLIT_ORDER
    np.testing.assert_allclose(found, -np.outer(solve(a.T, b), y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 129, 250])
def test_blocked_cholesky_cotangent_equals_closed_form(n):
    factor, g = np.linalg.cholesky(positive_definite(n)), random(n, n)
    inner = np.tril(factor.T @ np.tril(g))
    inverse = np.linalg.inv(factor)
    z = inverse.T @ (inner - np.diag(np.diag(inner)) / 2) @ inverse
    np.testing.assert_allclose(cholesky_adjoint(factor, g), (z + z.T) / 2, rtol=1e-10, atol=1e-13)
    full = factor + np.triu(random(n, n), 1)
    np.testing.assert_allclose(cholesky_adjoint(full, g), cholesky_adjoint(factor, np.tril(g)), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("n", [1, 64, 65, 128, 129, 300])
def test_is_lower_checks_every_element_above_the_diagonal(n):
    a = np.tril(random(n, n)) + 2 * np.eye(n)
    assert linalg.is_lower(a) and linalg.is_lower(a.copy(order="F")) and linalg.is_lower(np.stack([a, a]))
    for i, j in {(0, n - 1), (n // 2, n - 1), (n - 2, n - 1), (0, 1)} if n > 1 else ():
        b = a.copy()
        b[i, j] = 1e-300
        assert not linalg.is_lower(b) and not linalg.is_lower(np.stack([a, b]))


# ---- eigenvalues of nonsymmetric matrices; complex ones are in test_complex

LINES = np.array([[2.0, 0.3, -0.1], [0.2, 4.0, 0.5], [-0.4, 0.1, 7.0]])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_sums_of_eigenvalue_powers_equal_traces_of_matrix_powers(mode):
    for power in (1, 2, 3):
        found = wg.jacobian(lambda a: np.sum(np.linalg.eigvals(a) ** power), LINES, mode=mode)
        wanted = power * np.linalg.matrix_power(LINES, power - 1).T
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_matrix_function_by_eigenvectors_has_correct_derivative(mode):
    def cube(a):
        w, v = np.linalg.eig(a)
        return ((v * w**3) @ np.linalg.inv(v)).real

    found, wanted = (wg.jacobian(f, LINES, mode=mode) for f in (cube, lambda a: a @ a @ a))
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)
    second = wg.hessian(lambda a: np.sum(cube(a)), LINES)
    np.testing.assert_allclose(second, wg.hessian(lambda a: np.sum(a @ a @ a), LINES), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("f", [np.linalg.eigvals, lambda a: np.linalg.eig(a)[0], lambda a: np.linalg.eig(a)[1]])
def test_equal_eigenvalues_raise(f):
    for mode in ("forward", "reverse"):
        with pytest.raises(NonSmoothError, match="two of the eigenvalues are equal"):
            wg.jacobian(f, np.eye(2), mode=mode)


def test_systems_without_unknowns_have_empty_derivatives():
    cases = [
        (lambda x: np.linalg.solve(np.ones((0, 0)), x), (0,)),
        (lambda x: np.linalg.solve(x, np.ones((0, 2))), (0, 0)),
        (lambda x: np.linalg.qr(x).R, (3, 0)),
        (lambda x: np.linalg.inv(x), (2, 0, 0)),
    ]
    for f, shape in cases:
        y, pullback = wg.vjp(f, np.zeros(shape))
        assert pullback(np.ones((2, *y.shape))).shape == (2, *shape)
        for mode in ("forward", "reverse"):
            assert wg.jacobian(f, np.zeros(shape), mode=mode).shape == y.shape + shape
