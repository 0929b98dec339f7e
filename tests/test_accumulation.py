"""Jacobian accumulation without seed directions: through every kind of call, nonzeros equal the dense derivative."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.jacobian.csr import first_compatible, sort_by_rows

import wengert as wg
from wengert.program.ir import verify
from wengert.program.jacobian.accumulate import Refused, entries
from wengert.program.jacobian.expand_calls import expand, has_short_rows
from wengert.program.passes import vectorise
from wengert.program.report.schedule import operations

rng = np.random.default_rng(2008)
K = 7  # points with three coordinates
X = rng.normal(size=3 * K)
A, NARROW, TALL = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=(5, 3))
BATCH, WEIGHTS, INTEGERS = rng.normal(size=(K, 3, 3)), rng.normal(size=(K, 3)), np.array([1, 2, 3])
SPARSE = (sp.random(K, K, 0.2, random_state=3) + sp.eye(K)).tocsr()
WIDE = (sp.random(3 * K, 3 * K, 0.1, random_state=4) + sp.eye(3 * K)).tocsr()
FIRST, SECOND = np.array([0, 0, 1, 3, 6, 5]), np.array([1, 2, 4, 5, 2, 0])
TABLE = np.linspace(-4.0, 4.0, 17)
SQUARE = rng.normal(size=(80, 80))
MASK = rng.random((K, 1)) > 0.5


def points(x):
    return x.reshape(-1, 3)


def bonds(x):
    return points(x)[FIRST] - points(x)[SECOND]


def outer(x):
    """Return a well-conditioned matrix for each point."""
    return points(x)[:, :, None] * points(x)[:, None, :] + 4.0 * np.eye(3)


def rotated(x):
    c, s, zero = np.cos(points(x)[:, 0]), np.sin(points(x)[:, 0]), np.zeros(K)
    rows = [[c, -s, zero], [s, c, zero], [zero, zero, np.ones(K)]]
    rotation = np.stack([np.stack(row, -1) for row in rows], -2)
    return (rotation @ points(x)[:, :, None])[:, :, 0]


def added_at(x):
    out = np.ones((K, 3))
    np.add.at(out, FIRST, bonds(x) ** 2)
    return out


def stored_at(x):
    out = np.zeros(3 * K)
    out[[4, 1, 7]] = x[[0, 1, 2]] ** 2
    return out


def sums_stored_in_rows(x):
    """Store sums of two terms in whole rows, one of them broadcast over an axis that it lacks."""
    out = np.ones((2, 4, 3))
    out[:, 1:] = np.sum(points(x)[:3] ** 2, axis=1)[:, None]
    out[1, 0] = np.sum(x[:5])
    return out


def a_sum_stored_at(x):
    out = np.ones((4, 3))
    out[[2, 0]] = np.stack([np.sum(x[:2]), x[2], np.sum(x[4:6] ** 3)])
    return np.sin(out)


def angles(x):
    u, v = points(x)[:-2] - points(x)[1:-1], points(x)[2:] - points(x)[1:-1]
    cosine = np.sum(u * v, axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    return np.arccos(cosine)


def dihedral(x):
    steps = points(x)[1:] - points(x)[:-1]
    a, b, c = steps[:-2], steps[1:-1], steps[2:]
    n, m = np.cross(a, b), np.cross(b, c)
    unit = b / np.linalg.norm(b, axis=1, keepdims=True)
    return np.arctan2(np.sum(np.cross(n, m) * unit, axis=1), np.sum(n * m, axis=1))


JACOBIANS = {
    # products
    "rows by a matrix": lambda x: points(x) @ A,
    "rows by a matrix, curved": lambda x: np.sin(points(x) @ NARROW),
    "a matrix by columns": lambda x: TALL @ points(x).T,
    "rows by a vector": lambda x: points(x) @ A[0],
    "a batch of matrices": lambda x: BATCH @ points(x)[:, :, None],
    "a batch from the right": lambda x: np.matmul(points(x)[:, None, :], BATCH),
    "a wide matrix": lambda x: np.tanh(SQUARE @ np.tile(x, 4)[:80]),
    "live matrices and vectors": lambda x: outer(x) @ points(x)[:, :, None],
    "live matrices": lambda x: outer(x) @ np.sin(outer(x)),
    "rotations": rotated,
    "einsum with a batch": lambda x: np.einsum("kij,kj->ki", BATCH, points(x)),
    "einsum with a matrix": lambda x: np.einsum("ij,kj->ki", A, points(x)),
    "einsum element by element": lambda x: np.einsum("ki,ki->ki", points(x), np.sin(points(x))),
    "einsum of rows": lambda x: np.einsum("ki,ki->k", points(x), np.sin(points(x))),
    "einsum of one operand twice": lambda x: np.einsum("ki,kj->kij", points(x), points(x)),
    "einsum of three": lambda x: np.einsum("ki,kij,kj->k", points(x), BATCH, points(x)),
    "einsum with dots": lambda x: np.einsum("...i,ij->...j", points(x), A),
    "vecdot": lambda x: np.vecdot(points(x), points(x) ** 2) if hasattr(np, "vecdot") else points(x) @ A,
    "dot": lambda x: np.dot(points(x), A),
    "inner": lambda x: np.inner(points(x), A),
    "tensordot": lambda x: np.tensordot(points(x), A, axes=1),
    "multi_dot": lambda x: np.linalg.multi_dot([points(x), A, NARROW]),
    "outer": lambda x: np.outer(x[:4], x[4:9]),
    "kron": lambda x: np.kron(x[:3], x[3:7]),
    "cross with constants": lambda x: np.cross(points(x), WEIGHTS),
    "cross": lambda x: np.cross(points(x), np.sin(points(x)[::-1])),
    "sparse by a vector": lambda x: WIDE @ np.sin(x),
    "a vector by sparse": lambda x: x @ WIDE,
    "sparse in columns": lambda x: WIDE.tocsc().dot(x),
    "sparse in coordinates": lambda x: WIDE.T.tocoo() @ x**2,
    "sparse diagonals": lambda x: sp.diags_array([1.0, 2.0], offsets=[0, 1], shape=(3 * K, 3 * K)) @ x,
    "sparse by a matrix": lambda x: SPARSE @ points(x),
    "a matrix by sparse": lambda x: points(x).T @ SPARSE,
    "sparse and dense": lambda x: (SPARSE @ points(x)) @ A,
    "convolve": lambda x: np.convolve(x, [1.0, -2.0, 1.0], "same"),
    "convolve, valid": lambda x: np.convolve([0.5, 1.0], x, "valid"),
    "correlate": lambda x: np.correlate(x, [1.0, 2.0, 4.0]),
    # reductions
    "norm": lambda x: np.linalg.norm(points(x), axis=1),
    "norm, axes kept": lambda x: points(x) / np.linalg.norm(points(x), axis=1, keepdims=True),
    "norm of sums": lambda x: np.linalg.norm(points(x), 1, axis=1),
    "distances": lambda x: np.linalg.norm(bonds(x), axis=1),
    "sum": lambda x: (points(x) ** 2).sum(1),
    "sum of many": lambda x: np.sum(x.reshape(3, -1) ** 2, axis=1),
    "sums of segments": lambda x: np.add.reduceat(x**2, [1, 4, 5, 12]) * x[:4],
    "add.reduce": lambda x: np.add.reduce(points(x) ** 2),
    "mean": lambda x: points(x) - points(x).mean(axis=1, keepdims=True),
    "average": lambda x: np.average(points(x), axis=1, weights=[1.0, 2.0, 3.0]),
    "var": lambda x: np.var(points(x), axis=1),
    "std": lambda x: points(x).std(axis=1),
    "prod": lambda x: np.prod(points(x), axis=1),
    "prod of many elements": lambda x: np.prod(x[:20].reshape(2, 10), axis=1),
    "max": lambda x: np.max(points(x), axis=1),
    "ptp": lambda x: np.ptp(points(x), axis=1),
    "median": lambda x: np.median(points(x), axis=1),
    "nansum": lambda x: np.nansum(points(x) ** 2, axis=1),
    "logsumexp": lambda x: special.logsumexp(points(x), axis=1),
    "trapezoid": lambda x: np.trapezoid(points(x) ** 2, axis=1),
    "trace": lambda x: np.trace(outer(x), axis1=1, axis2=2),
    # functions along an axis
    "cumsum": lambda x: np.cumsum(points(x) ** 2, axis=1),
    "cumprod": lambda x: np.cumprod(points(x), axis=-1),
    "diff": lambda x: np.diff(points(x) ** 2, 2, axis=0),
    "diff between constants": lambda x: np.diff(points(x) ** 2, axis=1, prepend=0.5, append=np.ones((K, 2))),
    "diff between elements": lambda x: np.diff(x**2, 2, prepend=x[3], append=x[:2]),
    "gradient": lambda x: np.gradient(points(x))[1],
    "softmax": lambda x: special.softmax(points(x), axis=1),
    # elementwise
    "arctan2": lambda x: np.arctan2(x[1:], x[:-1]),
    "hypot of broadcast": lambda x: np.hypot(points(x), INTEGERS),
    "logaddexp": lambda x: np.logaddexp(x[1:], x[:-1]),
    "gammaln": lambda x: special.gammaln(x**2 + 1.0),
    "xlogy": lambda x: special.xlogy(x**2, x**2 + 1.0),
    "sinc": np.sinc,
    "heaviside": lambda x: np.heaviside(x, 0.5) * x,
    "copysign": lambda x: np.copysign(x, x[::-1]),
    "remainder": lambda x: np.fmod(x, 2.0) + np.mod(x, 1.5),
    "integers": lambda x: points(x) * INTEGERS + points(x) ** INTEGERS,
    "powers": lambda x: np.power(x, np.arange(3 * K) % 4),
    "clip": lambda x: np.clip(x**3, -0.5, 0.5),
    "clip by arrays": lambda x: np.clip(points(x), -INTEGERS, 1.0),
    "where, broadcast": lambda x: np.where(MASK, points(x) ** 2, np.sin(points(x))),
    "choose": lambda x: np.choose(np.arange(3 * K) % 2, [x, x**2]),
    "interp": lambda x: np.interp(x, TABLE, np.sin(TABLE)),
    "one with all": lambda x: np.hypot(x[0], x[1:]),
    # small matrices
    "solve": lambda x: np.linalg.solve(BATCH, points(x)[:, :, None]),
    "solve, live": lambda x: np.linalg.solve(outer(x), points(x)[:, :, None]),
    "inv": lambda x: np.linalg.inv(outer(x)),
    "det": lambda x: np.linalg.det(outer(x)),
    # data movement
    "stack": lambda x: np.stack([np.sin(x), np.ones(3 * K), x[::-1]], axis=1),
    "concatenate": lambda x: np.concatenate([x[:5] ** 2, np.arange(3.0), x[5:] * x[0]]),
    "hstack with integers": lambda x: np.hstack([points(x), np.arange(K)[:, None], points(x) ** 2]),
    "column_stack": lambda x: np.column_stack([x, x**2, np.ones(3 * K)]),
    "append": lambda x: np.append(x**2, x[:3]),
    "pad": lambda x: np.pad(points(x) ** 2, 1, mode="edge"),
    "diag": lambda x: np.diag(x[:5] ** 2),
    "tril": lambda x: np.tril(points(x) ** 2) @ A,
    "roll": lambda x: np.roll(points(x), 1, axis=0) * points(x),
    "a gather": lambda x: points(x)[FIRST] * points(x)[SECOND],
    "add.at": added_at,
    "stored at an index": stored_at,
    "sums in a view that repeats them": sums_stored_in_rows,
    "sums at an index": a_sum_stored_at,
    "bincount": lambda x: np.bincount(FIRST, np.sum(bonds(x) ** 2, axis=1), K),
    # chemical kinetics
    "angles": angles,
    "dihedral angles": dihedral,
}
HESSIANS = {
    "harmonic bonds": lambda x: np.sum((np.linalg.norm(bonds(x), axis=1) - 1.0) ** 2),
    "Lennard-Jones": lambda x: np.sum(1.0 / np.sum(bonds(x) ** 2, axis=1) ** 6),
    "angles": lambda x: np.sum((angles(x) - 1.9) ** 2),
    "dihedral angles": lambda x: np.sum(np.cos(dihedral(x))),
    "least squares of rotations": lambda x: np.sum((rotated(x) - WEIGHTS) ** 2),
    "a Lagrangian": lambda x: np.sum(x**4) + WEIGHTS[:, 0] @ np.linalg.norm(points(x), axis=1),
    "a Lagrangian with a sparse matrix": lambda x: np.sum(x**4) + WEIGHTS.ravel() @ (WIDE @ x**2),
    "cubes of rows by a matrix": lambda x: np.sum((points(x) @ A) ** 3),
    "einsum": lambda x: np.sum(np.einsum("ki,kij,kj->k", points(x), BATCH, points(x)) ** 2),
    "products": lambda x: np.sum(np.prod(points(x), axis=1)),
    "variances": lambda x: np.sum(np.var(points(x), axis=1) ** 2),
    "determinants": lambda x: np.sum(np.log(np.linalg.det(outer(x)))),
    "solutions": lambda x: np.sum(np.linalg.solve(outer(x), points(x)[:, :, None]) ** 2),
    "logsumexp": lambda x: np.sum(special.logsumexp(points(x), axis=1)),
    "logistic": lambda x: np.sum(np.logaddexp(0.0, x[1:] * x[:-1])),
    "arctan2": lambda x: np.sum(np.arctan2(x[1:], x[:-1])),
    "added up": lambda x: np.sum(added_at(x) ** 3),
    "convolve": lambda x: np.sum(np.convolve(x, [1.0, -2.0, 1.0], "valid") ** 4),
    "running sums": lambda x: np.sum(np.cumsum(points(x), axis=1) ** 3),
    "stacked": lambda x: np.sum(np.stack([x, x**2, x[::-1]]) ** 3),
}


@pytest.mark.parametrize(("order", "name"), [*[(1, name) for name in JACOBIANS], *[(2, name) for name in HESSIANS]])
def test_nonzeros_through_calls_equal_dense_derivative(order, name):
    f = (JACOBIANS if order == 1 else HESSIANS)[name]
    sparse, dense = [(wg.jacobian, wg.hessian)[order - 1](f, **options) for options in ({"sparse": True}, {})]
    for x in (X, 0.9 * X[::-1].copy()):
        found, expected = sparse(x), np.reshape(dense(x), (-1, X.size))
        assert sparse.mode == "direct", sparse.plan
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-9, atol=1e-11)
        assert found.has_canonical_format


@pytest.mark.parametrize("name", JACOBIANS)
def test_accumulation_code_is_well_formed(name):
    code, y, example = listed(JACOBIANS[name])
    verify.check(entries(code, code.inputs[0], y, example).code)
    verify.check(expand(code)[0])


def listed(f, x=X):
    program = wg.record(f, x)
    return *program._differentiable("jacobian"), program._example


#: patterns smaller than full dependence along an axis: constant zeros are not stored
SMALL = {
    "cross": (lambda x: np.cross(points(x), WEIGHTS), 6 * K),
    "running sums": (lambda x: np.cumsum(points(x), axis=1), 6 * K),
    "running products": (lambda x: np.cumprod(points(x), axis=1), 6 * K),
    "a triangle": (lambda x: points(x) @ np.tril(np.ones((3, 3))), 6 * K),
    "a row of zeros": (lambda x: np.einsum("ij,kj->ki", np.diag([1.0, 0.0, 2.0]), points(x)), 2 * K),
    "lengths of a mask": (lambda x: np.where(np.eye(3, dtype=bool)[np.arange(K) % 3], points(x), 0.0), K),
}


@pytest.mark.parametrize("name", SMALL)
def test_constant_zeros_are_not_stored(name):
    f, count = SMALL[name]
    code, y, example = listed(f)
    assert len(entries(code, code.inputs[0], y, example).indices) == count


def chained(x, n):
    """Store scalars one by one, each of which reads the three before it."""
    for k in range(n):
        x = x.copy()
        i = k % x.size
        x[i] = np.sin(x[i - 1] * x[i - 2]) + x[i - 5]
    return x


#: as many nonzeros as a dense matrix has, or unknown dependence between elements
REFUSED = {
    "a sort": np.sort,
    "long running sums": np.cumsum,
    "a long convolution": lambda x: np.convolve(x, np.arange(20.0)),
    "complex numbers": lambda x: np.abs(x + 1j * x[::-1]),
    "a large dense matrix": lambda x: np.tanh(rng.normal(size=(200, 200))) @ np.tile(x, 10)[:200],
    "a large inverse": lambda x: np.linalg.inv(x[:, None] * x + np.eye(3 * K)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_non_local_dependence_is_refused(name):
    code, y, example = listed(REFUSED[name])
    with pytest.raises(Refused):
        entries(code, code.inputs[0], y, example)


def test_fully_coupled_scalars_are_refused(monkeypatch):
    code, y, example = listed(lambda x: chained(x, 400))
    found = entries(code, code.inputs[0], y, example)
    assert len(found.indices) == 5 * 3 * K  # of the last five
    monkeypatch.setattr("wengert.program.jacobian.accumulate._SCALAR_TERM_FACTOR", 0)
    with pytest.raises(Refused, match="too many terms"):
        entries(code, code.inputs[0], y, example)


@pytest.mark.parametrize("name", ["numbers", "products with a matrix"])
def test_exceeding_operation_limit_is_refused(name):
    """The limit applies while entries are created, and a count equal to it is allowed."""
    W = rng.normal(size=(3 * K, 3 * K))
    f = {"numbers": lambda x: chained(x, 400), "products with a matrix": lambda x: W @ np.tanh(W @ x)}[name]
    code, y, example = listed(f)
    found = entries(code, code.inputs[0], y, example, dense=True).code
    count = sum(operations(found))
    again = entries(code, code.inputs[0], y, example, dense=True, most=count).code
    assert len(again) == len(found)
    with pytest.raises(Refused, match="operations"):
        entries(code, code.inputs[0], y, example, dense=True, most=count // 4)


def test_nonzeros_of_scalar_code_equal_dense_derivative():
    """Scalars depend on others in every way: constants, selections, a repeated operand, and elements of arrays."""

    def f(x):
        s = np.sum(x[:4]) * 2.0
        a, b = x[5], -x[6]
        low = np.where(a > b, a * b, s)
        flat = np.sign(a) * b - (3.0 - a)
        c = a * a - b - b + low / (1.0 + s * s) - flat
        d = np.maximum(c, x[7]) ** 3 + np.hypot(c, a) - 0.0 * x[8]
        e = np.where(d < 0.0, 2.0, d) + np.where(d > 5.0, np.exp(-d), 1.0)
        return np.array([c, d - c, d - d, e, np.sqrt(np.abs(e)) - a, x[9], 4.0 - x[9]])

    x = X + 0.1
    for point in (x, x[::-1].copy()):
        expected = wg.jacobian(f)(point)
        program = wg.record(f, point)
        code, y, example = listed(f, point)
        np.testing.assert_allclose(wg.jacobian(f, sparse=True)(point).toarray(), expected, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(program.jacobian()(point), expected, rtol=1e-13, atol=1e-15)
        found = entries(code, code.inputs[0], y, example, dense=True).code
        np.testing.assert_allclose(program._with_nonzeros("J", found)(point), expected, rtol=1e-13, atol=1e-15)


def test_zero_factor_is_strong_zero_in_scalar_code():
    def f(x):
        a, b = x[0] * 0.0, x[1]
        return np.array([a * np.log(b), np.where(b > 0, b, np.sqrt(b) * a), a / b])

    x = np.array([2.0, 0.0])
    with np.errstate(all="ignore"):
        code, y, example = listed(f, x)
        found = wg.record(f, x)._with_nonzeros("J", entries(code, code.inputs[0], y, example, dense=True).code)(x)
        expected = wg.jacobian(f)(x)
    np.testing.assert_array_equal(found[0], expected[0])


def test_kink_has_derivative_of_the_rule():
    """The norm of a zero vector has derivative 0, not NaN."""
    x = np.concatenate([np.zeros(3), X[3:]])
    J = wg.jacobian(lambda x: np.linalg.norm(points(x), axis=1), sparse=True)
    np.testing.assert_array_equal(J(x).toarray()[0], np.zeros(3 * K))
    assert J.mode == "direct"


VIEWS = [
    ((0, (4, 3), (24, 8)), False),  # one row
    ((0, (40,), (8,)), False),
    ((0, (40, 3), (24, 8)), False),
    ((0, (40, 3), (8, 0)), True),
    ((0, (40, 3), (0, 8)), True),
    ((0, (3, 40), (0, 8)), False),
    ((0, (40, 2), (24, 8)), True),
    ((0, (5, 2), (24, 8)), False),  # few elements
    ((0, (0, 2), (24, 8)), False),
    ((0, (40, 1, 1), (24, 0, 8)), False),
]


@pytest.mark.parametrize(("view", "expected"), VIEWS)
def test_views_with_short_rows_are_recognised(view, expected):
    assert has_short_rows(view) is expected


def test_operands_broadcast_along_short_axes_are_gathered():
    code, _, _ = listed(lambda x: x[:20, None] * x[None, :3])
    views = code.views
    assert any(has_short_rows(views[b]) for b in code.b[code.op == Op.VIEW].tolist())
    found, of = expand(code)
    assert not any(has_short_rows(found.views[b]) for b in found.b[found.op == Op.VIEW].tolist())
    assert kind_of(found, int(of[code.outputs[0]])) == kind_of(code, code.outputs[0])


#: slices of broadcast results, computed once and read several times
REPEATED = {
    "after new axes": lambda x: np.diff(np.broadcast_to(np.sin(x), (2, K, 3)), axis=1),
    "before new axes": lambda x: np.diff(np.broadcast_to(np.sin(x)[..., None], (K, 3, 2)), axis=0),
    "backwards": lambda x: np.diff(np.broadcast_to(np.sin(x)[::-1], (2, K, 3)), axis=2),
}


@pytest.mark.parametrize("name", REPEATED)
def test_slices_of_views_that_repeat_elements_have_derivatives(name):
    """Slices of a view with repeated elements become views of the array behind it."""
    f = lambda x: np.sum(np.cumsum(np.ravel(REPEATED[name](x))) ** 2)
    x = points(X)
    program = wg.record(f, x)
    expected, direction = wg.grad(f)(x), rng.normal(size=x.shape)
    np.testing.assert_allclose(program.grad()(x), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(program.jvp()(x, direction)[1], np.sum(expected * direction), rtol=1e-11)


def test_constants_in_concatenations_have_zero_derivative():
    """Integers and floats in a list of arrays are constants, not sizes."""
    for f in (lambda x: np.hstack([x, np.array([1, 2])]), lambda x: np.hstack([x, 1.0]), lambda x: np.hstack([1, x])):
        x = np.array([0.5, 2.0])
        program = wg.record(f, x)
        np.testing.assert_array_equal(program.jacobian()(x), wg.jacobian(f)(x))
        np.testing.assert_array_equal(
            program.vjp()(x, np.ones(program(x).shape))[1], wg.vjp(f, x)[1](np.ones(program(x).shape))
        )


def _by_slices(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _by_a_loop(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def _star(x):
    return np.sum(x[0] * x[1:] ** 2) + np.sum(x * x) + x[0] ** 3


def _tridiagonal(x):
    y = (3.0 - 2.0 * x) * x + 1.0
    y[1:] -= x[:-1]
    y[:-1] -= 2.0 * x[1:]
    return y


def _differences(x):
    return np.diff(x) * 2.0 - x[:-1]


DENSE = [(wg.hessian, f) for f in (_by_slices, _by_a_loop, _star)]
DENSE += [(wg.jacobian, f) for f in (_tridiagonal, _differences, lambda x: np.cumsum(np.sin(x)) * x[::-1])]


@pytest.mark.parametrize("n", [1, 2, 9, 33, 64, 200])
@pytest.mark.parametrize(("operator", "f"), DENSE)
def test_dense_derivatives_of_programs_equal_eager_ones(operator, f, n):
    x, z = np.linspace(-1.0, 1.2, n), np.linspace(0.3, 0.9, n)
    compiled = operator(wg.compile(f))
    for at in (x, z):
        found, expected = compiled(at), operator(f)(at)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        assert operator is wg.jacobian or (found == found.T).all()
        found[...] = np.nan


# ---- sorting by row

NO_ENTRIES = np.zeros(0, np.int32)


def of_random(seed, m, n, *counts):
    """Return slices of random entries, some of which occur twice."""
    rng = np.random.default_rng(seed)
    return [[rng.integers(size, size=count).astype(np.int32) for size in (m, n)] for count in counts]


def ints(*numbers):
    return np.array(numbers, np.int32)


PARTS = {
    "none": (3, []),
    "no entries": (2, [[NO_ENTRIES, NO_ENTRIES]]),
    "no rows": (0, [[None, NO_ENTRIES]]),
    "one in each row": (4, [[None, ints(3, 1, 2, 0)]]),
    "a band": (5, [[None, ints(*range(5))], [ints(*range(1, 5)), ints(*range(4))]]),
    "equal ones": (2, [[ints(1, 1, 0), ints(2, 2, 0)], [None, ints(0, 2)]]),
    "a long row": (2, [[np.ones(90, np.int32), ints(*range(90, 0, -1))], [None, ints(7, 7)]]),
    "random": (30, of_random(1, 30, 20, 40, 1, 60)),
    "random long rows": (3, of_random(2, 3, 10**6, 300, 200)),
}


@pytest.mark.parametrize("name", PARTS)
def test_nonzeros_are_sorted_by_row(name):
    m, parts = PARTS[name]
    entries_of = [list(zip(range(len(cols)) if rows is None else rows.tolist(), cols.tolist())) for rows, cols in parts]
    expected = sorted({entry for part in entries_of for entry in part})
    starts, columns, places, are_distinct = sort_by_rows([rows for rows, _ in parts], [cols for _, cols in parts], m)
    found = list(zip(np.repeat(np.arange(m), np.diff(starts)).tolist(), columns.tolist()))
    assert found == expected
    assert [[found[k] for k in where] for where in places] == entries_of
    assert are_distinct == (len(expected) == sum(map(len, entries_of)))
    assert {part.dtype for part in (starts, columns, *places)} == {np.dtype(np.int32)}


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        ([], [0, 1], 0),
        ([[0, 1], [2, 3]], [2, 3], 1),
        ([[0, 1], [2, 3]], [4, 3], 2),
        ([[0, -1], [-1, 3]], [-1, 1], 0),
        ([[0, -1, 4], [-1, 3, -1]], [5, -1, 6], 1),
        ([[-1]], [-1], 0),
        ([[]], [], 0),
    ],
)
def test_first_row_with_same_columns_is_found(lines, line, expected):
    assert first_compatible([np.array(other, np.int32) for other in lines], np.array(line, np.int32)) == expected


@pytest.mark.parametrize(
    ("where", "axes", "steps"),
    [
        (np.arange(12), (12,), (1,)),
        (3 + 4 * np.arange(3)[:, None] + np.arange(2), (3, 2), (4, 1)),
        (np.array([5]), (1,), (0,)),
        (np.array([0, 1, 3]), None, None),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_regular_offsets_form_a_view(where, axes, steps, dtype):
    where = where.ravel().astype(dtype)
    assert vectorise.lattice(where) == axes
    if axes is not None:
        assert vectorise.strides_in(where, axes) == steps


def padded(x):
    """Store shifted values into one side after the other of a constant array."""
    p = np.full((6, 6), 2.0)
    p[1:-1, 1:-1] = x.reshape(4, 4) ** 2
    p[0, 1:-1], p[1:-1, 0] = x[:4], 3.0 * x[4:8]
    return (np.roll(p, 1, 0) * p + np.roll(p, -1, 1)[::-1]).ravel()


def test_constants_stored_into_constants_have_no_entries():
    x = rng.normal(size=16)
    found = wg.jacobian(padded, sparse=True)
    np.testing.assert_allclose(found(x).toarray(), wg.jacobian(padded)(x), rtol=1e-13, atol=1e-13)
    assert found.mode == "direct"


def test_long_rows_are_joined():
    first, second = [np.random.default_rng(k).integers(K, size=30) for k in (3, 4)]
    f = lambda x: np.sum(np.linalg.norm(points(x)[first] - 2.0 * points(x)[second], axis=1) ** 3)
    found, exact = wg.hessian(f, sparse=True)(X), wg.hessian(f)(X)
    np.testing.assert_allclose(found.toarray(), exact, rtol=1e-11, atol=1e-11)
    assert found.has_canonical_format


SHEET = rng.uniform(0.5, 1.5, size=(4, 5))
#: arguments that are not contiguous
SPREAD = {
    "a column": SHEET[:, 2],
    "every third": SHEET.ravel()[::3],
    "every second element reversed": SHEET[3, ::-2],
    "a block": SHEET[1:3, 1:4],
    "columns": SHEET[:, ::2].T,
    "a diagonal": np.diagonal(SHEET),
}


@pytest.mark.parametrize("name", SPREAD)
def test_arguments_may_be_views(name):
    x = SPREAD[name]
    f = lambda x: np.sin(x) * np.sum(x, axis=0)
    energy = lambda x: np.sum(f(x) ** 2)
    for operator, g in ((wg.jacobian, f), (wg.hessian, energy)):
        expected = operator(g)(x.copy())
        D = operator(g, sparse=True)
        np.testing.assert_allclose(D(x).toarray(), expected.reshape(-1, x.size), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(operator(wg.compile(g))(x), expected, rtol=1e-11, atol=1e-11)
        assert D.mode == "direct"
