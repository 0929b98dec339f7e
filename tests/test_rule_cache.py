"""Cached derivative rules of calls in programs: traced once for isomorphic calls, and again where they differ."""

import inspect

import numpy as np
import pytest

import wengert as wg
from wengert.errors import GuardError
from wengert.program import record
from wengert.program.derive import source_transform


@pytest.fixture
def traces(monkeypatch):
    """Return the names of traced rules, starting from an empty cache."""
    found, listed = [], source_transform.listed

    def counted(function, examples, name, *rest, **options):
        found.append(name)
        return listed(function, examples, name, *rest, **options)

    monkeypatch.setattr(source_transform, "listed", counted)
    wg.clear_caches()
    yield found
    wg.clear_caches()


def regular(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, n)) + 3.0 * np.eye(n)


def powers(count):
    """Return the trace of a product of inverses, and its gradient in the matrix."""

    def f(x):
        y = np.eye(len(x))
        for _ in range(count):
            y = np.linalg.inv(x) @ y
        return np.trace(y)

    return f, lambda x: -count * np.linalg.matrix_power(np.linalg.inv(x), count + 1).T


def determinants(count):
    """Return a product of determinants; the derivative of each branches on its value."""

    def f(x):
        y = 1.0
        for k in range(count):
            y = y * np.linalg.det(x + k * np.eye(len(x)))
        return y

    def gradient(x):
        shifted = [x + k * np.eye(len(x)) for k in range(count)]
        product = np.prod([np.linalg.det(a) for a in shifted])
        return product * sum(np.linalg.inv(a).T for a in shifted)

    return f, gradient


def spread(count):
    """Return sums over an axis; the gradient is broadcast along it and summed again."""

    def f(x):
        y = x
        for _ in range(count):
            y = np.cos(y + np.sum(y, axis=0))
        return np.sum(y)

    return f, wg.grad(f)


def with_a_constant(count):
    """Use a constant matrix of more than a few elements, transposed again in each step."""
    matrix = regular(9, 5)

    def f(x):
        y = x
        for _ in range(count):
            y = matrix.T @ y @ matrix
        return np.sum(y)

    def gradient(x):
        line = np.linalg.matrix_power(matrix, count) @ np.ones(9)
        return np.outer(line, line)

    return f, gradient


ALIKE = {
    "inverses": powers,
    "determinants": determinants,
    "sums over an axis": spread,
    "with a constant": with_a_constant,
}


@pytest.mark.parametrize("name", ALIKE)
def test_isomorphic_calls_share_one_trace(name, traces):
    x = regular(9)
    counts = []
    for count in (3, 6):
        f, gradient = ALIKE[name](count)
        traces.clear()
        derived = wg.record(f, x).grad()
        counts.append(len(traces))
        np.testing.assert_allclose(derived(x), gradient(x), rtol=1e-9)
        wg.clear_caches()
    assert counts[0] >= counts[1] > 0


def test_traced_rules_are_shared_between_programs(traces):
    x, z = regular(8), regular(8, 1)
    f, _ = determinants(3)
    wg.record(f, x).grad()
    assert traces
    traces.clear()
    derived = wg.record(lambda x: np.linalg.det(2.0 * x), z).grad()
    assert not traces
    np.testing.assert_allclose(derived(z), 2.0**8 * np.linalg.det(z) * np.linalg.inv(z).T, rtol=1e-11)
    wg.clear_caches()
    wg.record(f, x).grad()
    assert traces


def cofactors(a):
    (p, q), (r, s) = a
    return np.array([[s, -r], [-q, p]])


SINGULAR, REGULAR = np.array([[2.0, 4.0], [1.0, 2.0]]), np.array([[2.0, 1.0], [0.5, 3.0]])


@pytest.mark.parametrize("order", [(0, 1, 0, 1), (1, 0, 0), (1, 1, 0), (0, 0)])
def test_rule_is_traced_again_if_its_guards_fail(order, traces):
    """For a singular matrix the cofactors are not det(a) a^-T."""
    x = np.stack([(REGULAR, SINGULAR)[k] for k in order])
    program = wg.record(lambda x: sum(np.linalg.det(np.exp(x[k])) for k in range(len(order))), np.log(x))
    expected = np.stack([cofactors(a) * a for a in x])
    np.testing.assert_allclose(program.grad()(np.log(x)), expected, rtol=1e-12)
    assert len(traces) <= 2 + 2 * len(set(order))


def test_traced_rule_is_not_reused_for_other_shapes_types_or_options():
    x = np.random.default_rng(2).normal(size=(4, 4))
    for make in (lambda a: a, lambda a: a.T, lambda a: a[:3], lambda a: a.astype(np.float32), lambda a: a[:, ::2]):
        for axis in (0, 1):
            for keepdims in (False, True):
                for reduce in (np.mean, np.std, np.max, np.prod):

                    def f(x, axis=axis, keepdims=keepdims, reduce=reduce, make=make):
                        return np.sum(reduce(make(x) * 2.0, axis=axis, keepdims=keepdims) ** 2)

                    found = wg.record(f, x).grad()(x)
                    np.testing.assert_allclose(found, wg.grad(f)(x), rtol=1e-5)


def test_constant_arguments_distinguish_calls():
    x = np.linspace(0.5, 2.0, 5)
    small, large = np.random.default_rng(3).normal(size=(2, 5, 5)), np.random.default_rng(4).normal(size=(2, 40, 5))
    for matrices in (small, large):
        for a in matrices:
            b = a.copy()
            program = wg.record(lambda x, b=b: np.sum((b @ x) ** 2), x)
            np.testing.assert_allclose(program.grad()(x), 2.0 * a.T @ (a @ x), rtol=1e-12)
            del b


@pytest.mark.parametrize("n", [4, 12, 40])
def test_changed_constant_is_another_constant(n):
    first = regular(n, 6)
    x = np.linspace(0.5, 2.0, n)

    def f(x):
        a = first.copy()
        y = np.sum(a @ x)
        a *= 2.0
        return y * np.sum(a @ x)

    line = np.ones(n) @ first
    np.testing.assert_allclose(wg.record(f, x).grad()(x), 4.0 * (line @ x) * line, rtol=1e-12)


def test_user_rules_are_traced_at_actual_values():
    seen = []

    def vjp(ybar, y, x):
        seen.append(float(np.asarray(wg.stop_gradient(x).shape[0])))
        return ybar * (2.0 if x[0] > 3.0 else 5.0) * x

    half = wg.primitive(lambda x: x * x, vjp=vjp)
    at = {4.0: 2.0, 2.0: 5.0}
    for first, factor in at.items():
        x = np.array([first, 1.0, -2.0])
        np.testing.assert_allclose(wg.record(lambda x: np.sum(half(x)), x).grad()(x), factor * x)
    assert len(seen) == len(at)  # once each: no other values are tried


def test_guards_of_cached_rules_name_the_line_of_the_derivative():
    x = np.linspace(1.0, 2.0, 5)
    finite = np.random.default_rng(1).normal(size=(5, 5))
    endless = finite.copy()
    endless[0, 0] = np.inf
    for _ in range(2):
        program = wg.record(lambda x, a: np.sum((a @ x)[1:] ** 2) + np.sum(x), x, args=(finite,))
        derived = program.grad()
        line = inspect.currentframe().f_lineno - 1
        with pytest.raises(GuardError, match=f"test_rule_cache.py:{line}: the recorded path needs np.False_ here"):
            with np.errstate(invalid="ignore"):
                derived(x, endless)


def test_number_of_cached_rules_is_limited(monkeypatch, traces):
    monkeypatch.setattr(source_transform, "MAX_RULE_KEYS", 5)
    for n in range(2, 12):
        wg.record(lambda x: np.sum(np.mean(x, axis=0) ** 2), np.ones((n, n))).grad()
        assert len(source_transform.rule_cache) <= 5
    traces.clear()
    wg.record(lambda x: np.sum(np.mean(x, axis=0) ** 2), np.ones((11, 11))).grad()
    assert not traces


def test_guards_are_checked_before_differentiation():
    """A product that a derivative does not need may hold NaN, which only its guard detects."""
    matrix = np.random.default_rng(1).normal(size=(40, 40))
    matrix[0, 0] = np.inf
    f = wg.compile(lambda x: np.sum((matrix @ x)[1:] ** 2) + np.sum(x))
    for x in (np.linspace(1.0, 2.0, 40), np.linspace(-1.0, 0.5, 40)):
        with np.errstate(invalid="ignore"):
            found = wg.hessian(f)(x)
        np.testing.assert_allclose(found, 2.0 * matrix[1:].T @ matrix[1:], rtol=1e-12)


def grown(*shape):
    return np.random.default_rng(7).uniform(0.5, 1.5, shape)


WIDE, LINE, CUBE = grown(60, 80), grown(80), grown(3, 40, 50)
SQUARE = grown(70, 70) + 70.0 * np.eye(70)

#: functions whose rules are traced at small shapes
RESIZED = {
    "matrices": (lambda x: np.sum((x @ x.T) ** 2), WIDE),
    "matrix and vector": (lambda x: np.sum((x @ x[0]) ** 2), WIDE),
    "vector and matrix": (lambda x: np.sum((np.sum(x, axis=1) @ x) ** 2), WIDE),
    "transposed": (lambda x: np.sum((x.T @ (2.0 * x)) ** 2), WIDE),
    "column": (lambda x: np.sum((x @ x[:1].T) ** 2), WIDE),
    "stack": (lambda x: np.sum((np.swapaxes(x, 1, 2) @ x) ** 2), CUBE),
    "dot": (lambda x: np.sum(np.dot(x.T, x) ** 2), WIDE),
    "sums": (lambda x: np.sum(np.sum(x, axis=0) ** 2) + np.sum(np.sum(x, axis=1, keepdims=True) ** 2), WIDE),
    "sums of a stack": (lambda x: np.sum(np.sum(x, axis=(0, 2)) ** 2) + np.sum(np.sum(x, axis=-2) ** 3), CUBE),
    "maxima": (lambda x: np.sum(np.max(x, axis=1) * np.min(x, axis=1)), WIDE),
    "linear equations": (lambda x: np.sum(np.linalg.solve(x, x[0]) ** 2), SQUARE),
}

#: functions whose rules refer to lengths or to elements
NOT_RESIZED = {
    "mean": (lambda x: np.sum(np.mean(x, axis=0) ** 2), WIDE),
    "standard deviation": (lambda x: np.sum(np.std(x, axis=1) ** 2), WIDE),
    "indices": (lambda x: np.sum(x[np.arange(60), np.arange(60)] ** 2), WIDE),
    "parts": (lambda x: np.sum(np.concatenate([x, x[:, 1:]], axis=1) ** 2), WIDE),
    "repeated": (lambda x: np.sum(np.repeat(x, 17, axis=0) ** 2), WIDE),
    "shifted": (lambda x: np.sum(np.roll(x, 17, axis=1) * x), WIDE),
    "differences": (lambda x: np.sum(np.diff(x, axis=0) ** 2), WIDE),
    "cumulative sums": (lambda x: np.sum(np.cumsum(x, axis=1) ** 2), WIDE),
    "products": (lambda x: np.sum(np.prod(x[:, :5], axis=1)), WIDE),
    "triangles": (lambda x: np.sum(np.tril(x) ** 2) + np.sum(np.diag(x) ** 3), SQUARE),
    "factor": (lambda x: np.sum(np.linalg.cholesky(x @ x.T)), SQUARE),
    "sorted": (lambda x: np.sum(np.sort(x, axis=1)[:, ::2] ** 2), WIDE),
    "constants": (lambda x: np.sum((x @ WIDE.T) ** 2), WIDE),
    "outer": (lambda x: np.sum(np.outer(x, LINE) ** 2), LINE),
    "pairs": (lambda x: np.sum((x[:, None] - x[None, :]) ** 4), LINE),
    "reshaped": (lambda x: np.sum((x.reshape(80, 60) @ x) ** 2), WIDE),
    "contraction": (lambda x: np.sum(np.einsum("ij,kj,j->ik", x, x, LINE) ** 2), WIDE),
}


@pytest.mark.parametrize("word", ["grad", "hvp"])
@pytest.mark.parametrize("name", [*RESIZED, *NOT_RESIZED])
def test_rules_traced_at_small_shapes_are_those_at_full_shapes(name, word, monkeypatch):
    f, x = (RESIZED | NOT_RESIZED)[name]
    sizes, listed = [], source_transform.listed

    def measured(function, examples, *rest, **options):
        sizes.append(sum(map(np.size, examples)))
        return listed(function, examples, *rest, **options)

    monkeypatch.setattr(source_transform, "listed", measured)
    made = []
    for limit in (source_transform.MIN_RESIZED_ELEMENTS, np.inf):
        monkeypatch.setattr(source_transform, "MIN_RESIZED_ELEMENTS", limit)
        wg.clear_caches()
        made.append(getattr(wg.record(f, x), word)())
        assert (max(sizes, default=0) < x.size) == (limit is not np.inf) or name in NOT_RESIZED or word == "hvp"
    assert str(made[0]) == str(made[1])
    assert made[0]._listing.types == made[1]._listing.types
    wg.clear_caches()


@pytest.mark.parametrize("transform", [wg.grad, wg.value_and_grad, wg.hvp])
def test_derivative_is_made_again_where_its_guards_against_nan_fail(transform, monkeypatch):
    """The adjoint of a product meets 0 times infinity, in rows that the function does not use."""
    matrix = np.random.default_rng(1).normal(size=(40, 40))
    matrix[:2, 0] = np.inf, -np.inf
    x, v = np.linspace(1.0, 2.0, 40), np.linspace(-1.0, 1.0, 40)

    def f(x, a):
        return np.sum((a @ x)[2:] ** 3)

    tried, trace = [], record.trace
    monkeypatch.setattr(record, "trace", lambda *args: tried.append(args[7]) or trace(*args))
    g = transform(wg.compile(f, tier="vm"))
    for scale in (1.0, 0.5):
        given = (scale * x, v, matrix) if transform is wg.hvp else (scale * x, matrix)
        with np.errstate(invalid="ignore"):
            found, expected = g(*given), transform(f)(*given)
        np.testing.assert_allclose(wg.ravel(found)[0], wg.ravel(expected)[0], rtol=1e-12)
    assert tried == [True, False]  # assumes_finite
    assert g.paths == 1


ASKED = (np.shape, np.ndim, np.size)


@pytest.mark.parametrize("transform", [wg.grad, wg.jacfwd, wg.hessian, wg.record])
@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_queries_on_operands_answer_for_their_values(ask, transform):
    x = np.ones((3, 2))

    def f(x):
        for part in (lambda x: x, lambda x: x[0], lambda x: x[0, 0], lambda x: [x, 2.0 * x], lambda x: x[:0]):
            assert ask(part(x)) == ask(part(np.ones((3, 2))))
        return np.sum(x * x)

    assert transform(f, x) is not None
