"""Loops of products of vectors with a matrix become one product; stores of rows are forwarded across long loops."""

import numpy as np
import pytest
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.view_overlap import disjoint

import wengert as wg

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 20))


def triangle(x):
    c = np.zeros((20, 20))
    for i in range(20):
        c[i:, i] = c[i, i:] = x[:, i] @ x[:, i:]
    return c


def strict_triangle(x):
    c = np.eye(20)
    for i in range(19):
        c[i + 1 :, i] = c[i, i + 1 :] = x[:, i] @ x[:, i + 1 :]
    return c


def other_matrix(x):
    y = np.sin(x)
    return np.stack([np.dot(x[:, i], y) for i in range(0, 20, 2)])


def downwards(x):
    y = np.sin(x)
    return np.stack([x[:, i] @ y for i in range(19, -1, -1)])


def matrix_times_rows(x):
    y = np.sin(x)
    return np.concatenate([x[5 * (i % 3) :] @ y[i] for i in range(20)])


def overwritten(x):
    y, c, x = np.sin(x), np.zeros((20, 20)), np.copy(x)
    for i in range(20):
        c[i] = x[:, i] @ y
        x[i] = c[i]
    return c


def unevenly(x):
    y = np.sin(x)
    return np.stack([x[:, i * i] @ y for i in range(5)] + [y[:, 19 - i * i] @ x for i in range(4)])


def short_parts(x):
    y = np.sin(x)
    return np.concatenate([x[:, i] @ y[:, i : i + 1] for i in range(20)])


def triangular_product(x):
    """Multiply in place by a triangular matrix, element by element."""
    a, b = 0.05 * (x @ x.T), np.copy(x)
    for i in range(40):
        for j in range(20):
            b[i, j] += np.dot(a[i + 1 :, i], b[i + 1 :, j])
    return b


def product_of_elements(x):
    y, c = np.sin(x), np.zeros((20, 20))
    for i in range(20):
        for j in range(20):
            c[i, j] = x[:, i] @ y[:, j]
    return c


def backwards_along_rows(x):
    c = np.zeros(60)
    for i in range(59, -1, -1):
        c[i] = np.inner(x[i], x[0, ::-1]) * c[i - 1]
    return c


def stores_into_the_parts(x):
    """Each product reads an element that the one before has stored."""
    y = np.copy(x)
    for j in range(19):
        y[3, j + 1] = y[:, 0] @ y[:, j]
    return y


def sliding_windows(x):
    """Parts that overlap, as in a convolution."""
    y = np.ravel(x)
    return np.stack([y[i : i + 40] @ y[200:240] for i in range(60)])


def two_vectors(x):
    y = np.sin(x)
    return np.stack([x[:, i % 2] @ y[:, i] for i in range(20)])


def count(f, x=X):
    program = wg.record(f, x)
    return sum(call.row is not None and call.row.fun in (np.matmul, np.dot) for call in program._lowered_ir().calls)


@pytest.mark.parametrize(
    ("f", "products"),
    [
        (triangle, 1), (strict_triangle, 1), (other_matrix, 1), (downwards, 1), (matrix_times_rows, 1),
        (overwritten, 20), (unevenly, 9), (short_parts, 20), (product_of_elements, 1), (backwards_along_rows, 1),
        (triangular_product, 35), (stores_into_the_parts, 0), (sliding_windows, 0), (two_vectors, 2),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_products_are_joined_if_they_are_independent(f, products):
    assert count(f) == products
    assert np.allclose(wg.record(f, X)(X), f(X), rtol=1e-13, atol=1e-13)
    weights = RNG.uniform(-1, 1, f(X).shape)

    def loss(x):
        return np.sum(weights * f(x) ** 2)

    expected = wg.grad(loss)(X)
    for tier in ("vm", "auto"):
        found = wg.grad(wg.compile(loss, tier=tier))
        for scale in (1.0, 0.5):
            assert np.allclose(found(scale * X), wg.grad(loss)(scale * X), rtol=1e-11, atol=1e-12)
    assert np.allclose(wg.record(loss, X).jvp()(X, X)[1], np.sum(expected * X), rtol=1e-11)


def test_exact_programs_keep_the_order_of_products():
    program = wg.record(triangle, X, exact=True)
    assert program(X).tobytes() == triangle(X).tobytes()


def test_infinite_elements_that_no_row_reads_have_no_effect():
    x = np.abs(X)
    x[3, 0] = np.nan
    f = wg.record(lambda x: np.stack([x[:, i] @ x[:, 1:] for i in range(1, 20)]), X)
    assert np.allclose(f(x), x[:, 1:].T @ x[:, 1:])


def filled(x):
    c = np.zeros((300, 150))
    for i in range(300):
        c[i] = x[i % 10] * i
    return c


def test_adjoint_of_many_stored_rows_keeps_no_copies():
    x = RNG.uniform(-1, 1, (10, 150))
    program = wg.record(lambda x: np.sum(filled(x) ** 2), x).grad()
    assert np.allclose(program(x), wg.grad(lambda x: np.sum(filled(x) ** 2))(x), rtol=1e-12)
    assert program._machine.bytes < 20 * 8 * 300 * 150


def test_products_with_constant_vectors_are_not_joined():
    rows = RNG.uniform(-1, 1, (40, 40))

    def f(x):
        y = np.zeros(40)
        for i in range(40):
            y[i] = x[i] - rows[i, :i] @ y[:i]
        return y

    x = RNG.uniform(-1, 1, 40)
    assert np.allclose(wg.record(f, x)(x), f(x))


def test_products_with_constant_matrices_are_not_joined():
    matrix = RNG.uniform(-1, 1, (40, 40))

    def f(x):
        return np.stack([matrix @ x[k] for k in range(40)])

    x = RNG.uniform(-1, 1, (40, 40))
    assert np.allclose(wg.record(f, x)(x), f(x))


@pytest.mark.parametrize("product", [np.matmul, np.dot])
def test_products_of_a_stack_with_one_matrix_are_one_product(product):
    stack, matrix = RNG.normal(size=(3, 4, 1, 5)), RNG.normal(size=(5, 6))

    def f(a, b):
        return np.sum(np.sin(product(a, b)))

    program = wg.record(f, stack, args=(matrix,))
    (call,) = [call for call in program._listing.calls if call.row.name == f"numpy.{product.__name__}"]
    assert [kind_of(program._listing, v)[1] for v in call.operands] == [(12, 5), (5, 6)]
    for argnums in (0, 1):
        got = wg.grad(wg.compile(f), argnums=argnums)(stack, matrix)
        assert np.allclose(got, wg.grad(f, argnums=argnums)(stack, matrix), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("stack", [RNG.normal(size=(5, 2, 3)).T, RNG.normal(size=(3, 0, 5)), RNG.normal(size=(4, 5))])
def test_other_products_of_a_stack_stay_as_they_are(stack):
    matrix = RNG.normal(size=(5, 6)) if stack.shape[-1] == 5 else RNG.normal(size=(2, 5, 6))
    program = wg.record(lambda a: a @ matrix, stack)
    assert np.allclose(program(stack), stack @ matrix)


def test_lines_of_an_array_are_disjoint_if_they_share_no_element():
    def line():
        step = int(RNG.choice([-24, -8, 8, 16, 40, 56]))
        return 240 + 8 * int(RNG.integers(30)), (int(RNG.integers(1, 7)),), (step,)

    def places(view):
        first, (n,), (step,) = view
        return {first + k * step for k in range(n)}

    found = [(disjoint(a, b, 8), places(a).isdisjoint(places(b))) for a, b in ((line(), line()) for _ in range(3000))]
    assert not any(claimed and not true for claimed, true in found)
    assert sum(claimed for claimed, _ in found) > 0.9 * sum(true for _, true in found)


def test_adjoints_of_rows_and_columns_are_read_before_all_stores():
    program = wg.grad(wg.compile(lambda x: np.sum(np.sin(strict_triangle(x)))))
    program(X)
    (path,) = [path for table in program._tables.values() for paths in table.paths.values() for path in paths]
    code = path.program._lowered_ir()
    stores = [int(v) for v in np.flatnonzero(code.op == Op.PLACE) if code.a[v] >= 0]
    copied = [v for v in stores if any(code.op[u] == Op.VIEW and code.a[u] == code.a[v] for u in range(v, len(code)))]
    assert len(copied) <= 2
