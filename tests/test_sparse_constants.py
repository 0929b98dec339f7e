"""SciPy sparse arrays as constants: derivatives equal those with dense arrays, in every mode."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import wengert as wg
from helpers import assert_rounding, assert_same_bits, central_differences

RNG = np.random.default_rng(61)
DENSE = RNG.standard_normal((6, 4)) * (RNG.random((6, 4)) < 0.6)
FORMATS = [f"{fmt}_{kind}" for fmt in ("csr", "csc", "coo", "bsr", "dia", "dok", "lil") for kind in ("array", "matrix")]
FOUR, SIX = RNG.standard_normal(4), RNG.standard_normal(6)
FOURS, SIXES, WHOLE = (RNG.standard_normal(shape) for shape in ((4, 3), (3, 6), (6, 4)))


def dense(made):
    """Convert sparse results to arrays; return dense ones unchanged."""
    return made.toarray() if hasattr(made, "toarray") else made


#: a function of (A, x), the same with a dense A, and a point
PROGRAMS = {
    "A @ x": (lambda A, x: A @ x, lambda A, x: A @ x, FOUR),
    "A @ X": (lambda A, x: A @ x, lambda A, x: A @ x, FOURS),
    "x @ A": (lambda A, x: x @ A, lambda A, x: x @ A, SIX),
    "X @ A": (lambda A, x: x @ A, lambda A, x: x @ A, SIXES),
    "A.dot(x)": (lambda A, x: A.dot(x), lambda A, x: A @ x, FOUR),
    "A.T @ x": (lambda A, x: A.T @ x, lambda A, x: A.T @ x, SIX),
    "A.multiply(x)": (lambda A, x: dense(A.multiply(x)), lambda A, x: A * x, FOUR),
    "A.multiply(column)": (lambda A, x: dense(A.multiply(x[:, None])), lambda A, x: A * x[:, None], SIX),
    "A.multiply(X)": (lambda A, x: dense(A.multiply(x)), lambda A, x: A * x, WHOLE),
    "A.multiply(number)": (lambda A, x: dense(A.multiply(x[0])), lambda A, x: A * x[0], FOUR),
    "A * number": (lambda A, x: dense(A * x[0]), lambda A, x: A * x[0], FOUR),
    "number * A @ x": (lambda A, x: (x[0] * A) @ x, lambda A, x: (x[0] * A) @ x, FOUR),
    "A.multiply(x) @ x": (lambda A, x: A.multiply(x) @ x, lambda A, x: (A * x) @ x, FOUR),
    "x @ A.multiply(x).T": (lambda A, x: x @ A.multiply(x).T, lambda A, x: x @ (A * x).T, FOUR),
    "A.multiply(x).sum()": (lambda A, x: A.multiply(x).sum(), lambda A, x: np.sum(A * x), FOUR),
    "A / number": (lambda A, x: dense(A / x[0]), lambda A, x: A / x[0], FOUR),
    "normal equations": (lambda A, x: A.T @ (A @ np.exp(x)) + x, lambda A, x: A.T @ (A @ np.exp(x)) + x, FOUR),
}
#: sparse arrays only: for sparse matrices the same code means a product or returns numpy.matrix
ELEMENTWISE = {
    "A * x": (lambda A, x: (A * x).toarray(), lambda A, x: A * x, FOUR),
    "x * A": (lambda A, x: (x * A).toarray(), lambda A, x: x * A, FOUR),
    "A / x": (lambda A, x: (A / x).toarray(), lambda A, x: A / x, FOUR),
    "A.maximum(X)": (lambda A, x: A.maximum(x), lambda A, x: np.maximum(A, x), WHOLE),
    "A + X": (lambda A, x: A + x, lambda A, x: A + x, WHOLE),
    "X - A": (lambda A, x: x - A, lambda A, x: x - A, WHOLE),
    "sums of entries": (lambda A, x: (A * x - 2 * A).sum(axis=1), lambda A, x: np.sum(A * x - 2 * A, axis=1), FOUR),
    "sums of columns": (lambda A, x: (-(A * x) + A).sum(axis=0), lambda A, x: np.sum(A - A * x, axis=0), FOUR),
    "diagonal": (lambda A, x: (A * x).diagonal(), lambda A, x: np.diagonal(A * x), FOUR),
}
OF_MATRICES = {
    "A * x": (lambda A, x: A * x, lambda A, x: A @ x, FOUR),
    "x * A": (lambda A, x: x * A, lambda A, x: x @ A, SIX),
}


#: formats that SciPy converts to the above, or that share their methods
FEW = ("A @ x", "A @ X", "x @ A", "X @ A", "A.dot(x)", "A.multiply(x)", "A.multiply(X)", "A * number", "A / number")


def cases():
    for fmt in FORMATS:
        table = PROGRAMS | (ELEMENTWISE if fmt.endswith("array") else OF_MATRICES)
        for name, case in table.items():
            if not fmt.startswith(("csr", "coo")) and name in PROGRAMS and name not in FEW:
                continue
            yield pytest.param(fmt, *case, id=f"{fmt}-{name}")


def sparse(fmt, values=DENSE):
    return getattr(sp, fmt)(values)


@pytest.mark.parametrize(("fmt", "program", "same", "x"), [*cases()])
def test_derivatives_equal_dense_matrix(fmt, program, same, x):
    A = sparse(fmt)

    def f(x):
        return program(A, x)

    def g(x):
        return same(DENSE, x)

    expected = wg.jacobian(g, x)
    assert_rounding(wg.vjp(f, x)[0], g(x))
    assert_rounding(wg.jacfwd(f, x), expected)
    assert_rounding(wg.jacrev(f, x), expected)


@pytest.mark.parametrize("fmt", ["csr_array", "dia_matrix"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_nested_ones_and_programs(fmt, name):
    program, same, x = PROGRAMS[name]
    A = sparse(fmt)

    def f(x):
        return np.sum(np.sin(program(A, x)))

    def g(x):
        return np.sum(np.sin(same(DENSE, x)))

    expected = wg.hessian(g, x)
    for mode in ("mixed", "forward", "reverse"):
        assert_rounding(wg.hessian(f, x, mode=mode), expected)
    recorded = wg.record(f, x)
    other = 0.7 * x
    assert_rounding(recorded(other), g(other))
    assert_rounding(recorded.grad()(other), wg.grad(g, other))
    assert_rounding(recorded.hessian()(other), wg.hessian(g, other))
    assert_rounding(wg.compile(wg.grad(f))(other), wg.grad(g, other))
    assert_rounding(pickle.loads(pickle.dumps(recorded))(other), g(other))


def test_values_are_bit_identical_to_scipy():
    for fmt in FORMATS:
        A = sparse(fmt)
        for x in (FOUR, FOURS):
            assert_same_bits(wg.vjp(lambda x: A @ x, x)[0], A @ x)
        assert_same_bits(wg.vjp(lambda x: x @ A, SIX)[0], SIX @ A)


@pytest.mark.parametrize("program", [lambda a, x: a @ x, lambda a, x: x @ a[:4]], ids=["a @ X", "X @ a"])
def test_sparse_vector_is_accepted(program):
    a = sp.coo_array(np.array([1.0, 0.0, 2.0, 3.0]))
    if program(np.ones(4), np.eye(4)).shape != (4,):
        pytest.fail("shapes")
    x = RNG.standard_normal((4, 4))
    dense_one = a.toarray()
    assert_rounding(wg.jacobian(lambda x: a @ x, x), wg.jacobian(lambda x: dense_one @ x, x))
    assert_rounding(wg.jacobian(lambda x: x @ a, x), wg.jacobian(lambda x: x @ dense_one, x))
    assert_rounding(wg.grad(lambda x: a @ x, FOUR), dense_one)


@pytest.mark.parametrize("fmt", FORMATS)
def test_constant_may_have_one_row_or_one_column(fmt):
    A = sparse(fmt, DENSE[:1])
    for derivative in (wg.jacfwd, wg.jacrev):
        assert_rounding(derivative(lambda x: np.reshape(A @ x, -1), FOUR), DENSE[:1])
        assert_rounding(derivative(lambda x: A.T @ x, np.ones(1)), DENSE[:1].T)


def test_pullback_uses_matrix_as_it_was_at_the_call():
    A = sp.csr_array(DENSE)
    pullback = wg.vjp(lambda x: A @ x, FOUR)[1]
    A.data[:] = 0
    assert_rounding(pullback(np.ones(6)), DENSE.sum(axis=0))


def test_result_may_be_overwritten_afterwards():
    A = sp.csr_array(DENSE)

    def f(x):
        u = np.zeros(4)
        start = A @ u  # still a constant, which exports no memory
        u[1] = x
        return start + A @ u

    assert_rounding(wg.jacobian(f, 2.0), DENSE[:, 1])


def test_zero_factor_is_strong_zero():
    A = sp.csr_array(np.array([[np.inf, 1.0], [0.0, 2.0]]))
    assert np.array_equal(wg.jacfwd(lambda x: A @ (x * np.array([0.0, 1.0])), np.ones(2))[:, 1], [1, 2])
    _, pullback = wg.vjp(lambda x: A @ x, np.ones(2))
    assert np.array_equal(pullback(np.array([0.0, 1.0])), [0, 2])
    B = sp.csr_array(([0.0, 1.0], ([0, 0], [0, 1])), shape=(1, 2))  # an explicit zero
    with np.errstate(divide="ignore"):
        assert wg.jacobian(lambda x: B @ np.sqrt(x), np.array([0.0, 4.0])).tolist() == [[0, 0.25]]


def test_constants_may_be_complex_or_single_precision():
    C = sp.csr_array(DENSE + 1j * DENSE[::-1])
    expected = wg.jacobian(lambda x: np.abs(C.toarray() @ x) ** 2, FOUR)
    assert_rounding(wg.jacobian(lambda x: np.abs(C @ x) ** 2, FOUR), expected)
    z = FOUR + 1j * FOUR[::-1]
    w = SIX * (1 - 2j)
    np.testing.assert_allclose(wg.vjp(lambda x: C @ x, z)[1](w), wg.vjp(lambda x: C.toarray() @ x, z)[1](w))
    A = sp.csr_array(DENSE.astype(np.float32))
    J = wg.jacobian(lambda x: A @ x, FOUR.astype(np.float32))
    assert J.dtype == np.float32
    assert np.array_equal(J, DENSE.astype(np.float32))


REFUSED = {
    "an attribute": (lambda A, x: (A * x[0]).argmax(), "toarray"),
    "storage of blocks": (lambda A, x: (A * x[0]).tobsr().data, "tocsr"),
    "a power": (lambda A, x: A ** x[0], "plain NumPy array"),
    "matrix plus dense": (lambda A, x: sp.csr_matrix(A) + np.outer(A @ x, x), "toarray"),
    "too many axes": (lambda A, x: A @ np.reshape(x, (1, 4, 1)), "toarray"),
    "broadcasts beyond": (lambda A, x: A[[0]].multiply(x[:, None]), "toarray"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_operations_without_rule_raise(name):
    program, message = REFUSED[name]
    A = sp.csr_array(DENSE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for derivative in (wg.jacfwd, wg.jacrev):
            with pytest.raises((TypeError, NotImplementedError), match=message):
                derivative(lambda x: program(A, x), FOUR)


def test_large_matrices_are_not_densified():
    A = sp.diags_array(np.arange(1.0, 100001.0))
    x = np.ones(100000)
    assert np.array_equal(wg.grad(lambda x: (A * x).sum(), x), np.arange(1.0, 100001.0))
    with pytest.raises(wg.UnsupportedFunctionError, match=r"csr_array\(A\) \* x"):
        wg.grad(lambda x: A.multiply(x).sum(), x)


KINDS = {
    "by a vector": lambda A, x: A.multiply(x),
    "by a column": lambda A, x: A.multiply(x[:2].reshape(2, 1)),
    "by a matrix": lambda A, x: A.multiply(np.outer(x[:2], x)),
    "scaled": lambda A, x: x[0] * A,
    "divided": lambda A, x: A / x[0],
    "negative": lambda A, x: -(A * x[0]),
    "transposed": lambda A, x: (A * x[0]).T,
    "sum": lambda A, x: A * x[0] + A,
    "sum after": lambda A, x: A + A.multiply(x),
    "difference": lambda A, x: A - A * x[0],
    "difference after": lambda A, x: A.multiply(x) - A,
    "csc": lambda A, x: A.multiply(x).tocsc(),
    "by a sparse array": lambda A, x: (A * x[0]).multiply(A),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("cls", ["csr_array", "csc_matrix", "coo_array", "bsr_array"])
def test_proxy_is_an_instance_of_its_sparse_type(cls, name):
    make, x = KINDS[name], np.array([1.0, 2.0, 3.0])
    A = getattr(sp, cls)(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]))

    def asked(S):
        is_array, is_matrix = isinstance(S, sp.sparray), sp.isspmatrix(S)
        return type(S), S.__class__, S.format, sp.issparse(S), isinstance(S, type(S)), is_array, is_matrix

    def f(x):
        S = make(A, x)
        seen.append(asked(S))
        return np.sum((S @ np.ones(S.shape[1])) ** 2) if sp.issparse(S) else 0 * x[0]

    seen = []
    expected = f(x)
    gradient = central_differences(f, x)
    seen[1:] = []
    np.testing.assert_allclose(wg.grad(f, x), gradient, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.jvp(f, x, x)[1], gradient @ x, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.compile(f)(x), expected, rtol=1e-14)
    assert len(seen) >= 4 and set(seen) == {asked(make(A, x))}
