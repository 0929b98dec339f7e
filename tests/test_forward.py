"""Forward mode: programs and primitives against reverse mode and plain NumPy, directions, drivers, memory."""

import copy
import tracemalloc
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import wengert as wg
from array_programs import PROGRAMS, X
from helpers import assert_rounding, assert_same_bits, complex_step
from primitive_cases import ELEMENTWISE, resolve
from scenarios import TABLE
from test_primitives import (
    as_function,
    directions_for,
    every_case,
    is_several,
    laid_out,
    like,
    numbers_for,
    paired,
    vjp_of,
)
from test_scenarios import named, plain
from wengert.containers import split

ARRAYS = [s for s in TABLE if not s.containers]
every_program = pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS.keys())


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.MutatedInputWarning)
        yield


def forward(f, **options):
    return wg.jacobian(f, mode="forward", **options)


def jvp_of(f, leaves, directions):
    return wg.jvp(f, leaves[0], tuple(directions), args=tuple(leaves[1:]), argnums=tuple(range(len(leaves))))


# ---- programs


@named(ARRAYS)
def test_forward_mode_jacobian_is_exact(s):
    for chunk in (None, 1, 3):
        J = forward(s.f, chunk=chunk)(s.x, *s.args)
        assert_rounding(J, s.exact(), s.dtype)
        assert np.asarray(J).dtype == s.dtype


@named(TABLE)
def test_primal_values_equal_plain_numpy(s):
    y, _ = forward(s.f, value=True)(s.x, *s.args)
    assert_same_bits(y, plain(s))
    assert_same_bits(forward(s.f).fun(s.x, *s.args), plain(s))


@named(ARRAYS)
def test_tangent_is_jacobian_times_direction(s):
    v = np.random.default_rng(7).uniform(-1, 1, (2, *np.shape(s.x)))
    exact = s.exact()
    y, rows = wg.jvp(s.f, s.x, v, args=s.args)
    assert_same_bits(y, plain(s))
    for direction, row in zip(v, rows, strict=True):
        expected = np.tensordot(exact, direction, axes=np.ndim(s.x))
        assert_rounding(row, expected, s.dtype, scale=max(1e-300, np.abs(exact).max()))
        alone = wg.jvp(s.f, s.x, direction, args=s.args)[1]
        assert_rounding(alone, row, s.dtype, scale=max(1e-300, np.abs(exact).max()))


@named([s for s in TABLE if s.containers])
def test_columns_of_containers_have_the_same_structure(s):
    found = forward(s.f)(s.x, *s.args)
    assert type(found) is type(s.exact())
    for block, exact in zip(split(found)[0], split(s.exact())[0], strict=True):
        assert_rounding(block, exact)


@named(TABLE)
def test_argument_is_unchanged(s):
    x = copy.deepcopy(s.x)
    forward(s.f)(x, *s.args)
    for before, after in zip(split(s.x)[0], split(x)[0]):
        assert_same_bits(after, before)


@every_program
def test_programs_that_write_in_place(f):
    exact = complex_step(f, X)
    for chunk in (None, 1, 2):
        y, J = forward(f, value=True, chunk=chunk)(X)
        assert_same_bits(y, np.asarray(f(X.copy())))
        assert_rounding(J, exact)
    v = np.array([[0.7, -0.2, 0.4], [0.0, 0.0, 0.0], [1.0, 2.0, -1.0]])
    assert_rounding(wg.jvp(f, X, v)[1], np.moveaxis(exact @ v.T, -1, 0))


# ---- primitives


@every_case
def test_tangent_of_call_is_adjoint_to_pullback(case):
    f, leaves = as_function(case), numbers_for(case)
    rng = np.random.default_rng(4)
    v = directions_for(leaves, rng)
    y, dy = jvp_of(f, leaves, v)
    expected = f(*leaves)
    assert_same_bits(y, expected)
    assert type(y) is type(expected)
    ybar = like(expected, lambda shape: rng.uniform(-1, 1, shape))
    xbar = vjp_of(f, leaves)[1](ybar)
    np.testing.assert_allclose(paired(dy, ybar), paired(xbar, v), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("layout", ["negative strides", "Fortran order", "strided", "0-d arrays"])
@every_case
def test_tangents_of_operands_in_other_layouts(case, layout):
    f, leaves = as_function(case), numbers_for(case)
    v = directions_for(leaves, np.random.default_rng(4))
    views = [laid_out(x, layout) for x in leaves]
    y, dy = jvp_of(f, views, v)
    assert_same_bits(y, f(*views))
    for got, wanted in zip(flat_parts(dy), flat_parts(jvp_of(f, leaves, v)[1]), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


def flat_parts(y):
    return [leaf for part in y for leaf in flat_parts(part)] if is_several(y) else [y]


@every_case
def test_stacked_directions_equal_a_loop(case):
    f, leaves = as_function(case), numbers_for(case)
    rng = np.random.default_rng(4)
    several = [directions_for(leaves, rng) for _ in range(3)]
    together = flat_parts(jvp_of(f, leaves, [np.stack(parts) for parts in zip(*several)])[1])
    for j, v in enumerate(several):
        for got, wanted in zip(together, flat_parts(jvp_of(f, leaves, v)[1]), strict=True):
            np.testing.assert_allclose(got[j], wanted, rtol=1e-12, atol=1e-13)


@every_case
def test_forward_and_reverse_jacobians_agree(case):
    f, leaves = as_function(case), numbers_for(case)
    wrt, args = tuple(range(len(leaves))), tuple(leaves[1:])
    columns = wg.jacobian(f, leaves[0], args=args, argnums=wrt, mode="forward")
    rows = wg.jacobian(f, leaves[0], args=args, argnums=wrt, mode="reverse")
    for got, wanted in zip(flat_parts(columns), flat_parts(rows), strict=True):
        assert np.shape(got) == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


@every_case
def test_tangents_have_the_dtype_of_the_value(case):
    f, leaves = as_function(case), [np.float32(x) for x in numbers_for(case)]
    v = [np.float32(d) for d in directions_for(leaves, np.random.default_rng(4))]
    y, dy = jvp_of(f, leaves, v)
    double = jvp_of(f, [np.asarray(x, float) for x in leaves], v)[1]
    for value, got, wanted in zip(flat_parts(y), flat_parts(dy), flat_parts(double), strict=True):
        assert got.dtype == value.dtype
        scale = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * scale)


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[e.name for e in ELEMENTWISE])
def test_tangents_of_scalars_arrays_and_elements_agree(case):
    fun = resolve(case.fun)
    for at in case.smooth_at:
        point = np.array(at)
        v = np.linspace(0.5, -0.7, len(at))
        programs = {
            "elements": lambda x: fun(*x),
            "arrays": lambda x: fun(*[np.stack([a, a]) for a in x])[1],
            "views": lambda x: fun(*[x[i : i + 1] for i in range(len(at))])[0],
        }
        rows = wg.grad(programs["elements"])(point) @ v
        for name, f in programs.items():
            y, dy = wg.jvp(f, point, v)
            np.testing.assert_allclose(dy, rows, rtol=1e-14, atol=1e-300, err_msg=name)
            assert_same_bits(y, f(point), name)


@every_case
def test_zero_tangent_times_infinite_partial_is_zero(case):
    leaves = numbers_for(case)
    # LAPACK may not terminate on singular values of infinite matrices
    has_svd = any(word in case.fun.__name__ for word in ("svd", "pinv", "lstsq", "norm"))
    for value in (np.nan,) if has_svd else (np.inf, np.nan):
        at = [np.where(np.arange(np.size(x)).reshape(np.shape(x)) == 1, value, x) for x in leaves]
        try:
            _, dy = jvp_of(as_function(case), at, [np.zeros(np.shape(x)) for x in at])
        except (ValueError, TypeError):
            continue
        for part in flat_parts(dy):
            assert not part.any()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.dot(np.log(x), x), [-np.inf, 1 + np.log(2)]),
        (lambda x: np.log(x) @ x, [-np.inf, 1 + np.log(2)]),
        (lambda x: np.einsum("i,i", np.log(x), x), [-np.inf, 1 + np.log(2)]),
        (lambda x: np.sum(np.log(x) * x), [-np.inf, 1 + np.log(2)]),
        (lambda x: np.array([np.inf, 1.0]) @ (x * np.array([0.0, 1.0])), [0.0, 1.0]),
    ],
    ids=["dot", "matmul", "einsum", "sum", "constant"],
)
def test_infinite_factor_affects_its_own_element_only(f, expected, mode):
    np.testing.assert_allclose(wg.jacobian(f, np.array([0.0, 2.0]), mode=mode), expected)


# ---- drivers

CUBES = {"a": 2.0, "b": X}


def cubes(p):
    return p["a"] ** 2 * np.sum(p["b"] ** 3)


DRIVERS = {
    "dict in": (lambda: forward(cubes)(CUBES), {"a": 4 * np.sum(X**3), "b": 12 * X**2}),
    "dict out": (
        lambda: forward(lambda x: {"p": x * x, "c": 3.0, "n": SimpleNamespace(q=np.sum(x))})(X),
        {"p": np.diag(2 * X), "c": np.zeros(3), "n": SimpleNamespace(q=np.ones(3))},
    ),
    "views of one buffer out": (
        lambda: forward(lambda x: (lambda F: [F, F[1:], F[::-1]])(np.array(x)))(X),
        [np.eye(3), np.eye(3)[1:], np.eye(3)[::-1]],
    ),
    "argnums": (lambda: forward(lambda a, b, c: a * b * c, argnums=(0, -1))(2.0, X, 4.0), (4 * X, 2 * X)),
    "argnums slice": (
        lambda: forward(lambda t, a, b: a * np.exp(b * t), argnums=slice(1, None))(X, 2.0, 0.5),
        np.stack([np.exp(0.5 * X), 2 * X * np.exp(0.5 * X)], axis=-1),
    ),
    "value and aux": (
        lambda: forward(lambda x: (x * x, {"n": np.sum(x)}), value=True, has_aux=True)(X),
        (X * X, np.diag(2 * X), {"n": np.sum(X)}),
    ),
    "out": (lambda: forward(lambda x: x * x)(X, out=np.empty((3, 3))), np.diag(2 * X)),
    "constant": (lambda: forward(lambda x: np.ones(2))(X), np.zeros((2, 3))),
    "a plain number": (lambda: forward(lambda x: 3.0)(X), np.zeros(3)),
    "the argument": (lambda: forward(lambda x: x)(X), np.eye(3)),
    "empty argument": (lambda: forward(lambda x: x * 2)(np.zeros(0)), np.zeros((0, 0))),
    "empty argument, sum": (lambda: forward(np.sum)(np.zeros(0)), np.zeros(0)),
    "empty argument, product": (lambda: forward(np.cumprod)(np.zeros(0)), np.zeros((0, 0))),
    "empty argument, axes": (
        lambda: forward(lambda x: np.sum(x, axis=1))(np.ones((2, 0, 3))),
        np.zeros((2, 3, 2, 0, 3)),
    ),
    "empty result": (lambda: forward(lambda x: x[:0])(X), np.zeros((0, 3))),
    "jvp, stacked": (lambda: wg.jvp(lambda x: x * x, X, np.eye(3)), (X * X, np.diag(2 * X))),
    "jvp, no direction": (lambda: wg.jvp(lambda x: x * x, X, np.zeros((0, 3))), (X * X, np.zeros((0, 3)))),
    "jvp, many directions of a number": (
        lambda: wg.jvp(lambda x: np.sin(x) * x, 2.0, np.arange(20.0)),
        (np.sin(2) * 2, np.arange(20.0) * (np.cos(2) * 2 + np.sin(2))),
    ),
    "jvp, arguments": (lambda: wg.jvp(lambda a, b: a * b, 2.0, (1.0, 0.5), args=(3.0,), argnums=(0, 1)), (6.0, 4.0)),
    "jvp, dict": (lambda: wg.jvp(cubes, CUBES, {"a": 1.0, "b": 0 * X}), (4 * np.sum(X**3), 4 * np.sum(X**3))),
    "jvp, aux": (lambda: wg.jvp(lambda x: (x * x, x + 1), 2.0, 1.0, has_aux=True), (4.0, 4.0, 3.0)),
    "jvp, callable": (lambda: wg.jvp(lambda x, k: k * x * x)(2.0, 1.0, 3.0), (12.0, 12.0)),
    "jvp, integers": (lambda: wg.jvp(lambda x: x**2, [1, 2], [1, 0]), (np.array([1.0, 4.0]), np.array([2.0, 0.0]))),
    "derivative": (lambda: wg.derivative(lambda x: x**3, X, order=2), 6 * X),
    "derivative, value and aux": (
        lambda: wg.derivative(lambda x: (x**4, {"k": x}), 2.0, value=True, has_aux=True, order=3),
        (16.0, 48.0, {"k": 2.0}),
    ),
    "derivative, argnums": (lambda: wg.derivative(lambda a, x: a * x**3, 1.0, args=(2.0,), argnums=1, order=2), 12.0),
    "derivative, array of a number": (lambda: wg.derivative(lambda x: np.array([x, x * x]), 2.0, order=2), [0.0, 2.0]),
}


@pytest.mark.parametrize(("run", "expected"), DRIVERS.values(), ids=DRIVERS.keys())
def test_drivers_match_closed_forms(run, expected):
    found = run()
    if isinstance(expected, (dict, tuple)):
        assert type(found) is type(expected)
    for got, wanted in zip(split(found)[0], split(expected)[0], strict=True):
        assert np.shape(got) == np.shape(wanted)
        np.testing.assert_allclose(got, wanted, rtol=1e-13)


def test_direction_and_results_share_no_memory():
    def f(x):
        x *= 2
        x[0] = x[1]
        return {"whole": x, "reversed": x[::-1]}

    for v in (np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0, 3.0]])):
        given = v.copy()
        y, dy = wg.jvp(f, X, v)
        np.testing.assert_array_equal(v, given)
        for part in (*y.values(), *dy.values()):
            before = copy.deepcopy((y, dy, v))
            part += 1.0
            changed = [not np.array_equal(a, b) for a, b in zip(leaves_of_all(before), leaves_of_all((y, dy, v)))]
            assert sum(changed) == 1


def leaves_of_all(results):
    y, dy, v = results
    return [*y.values(), *dy.values(), v]


NOT_ELEMENTWISE = {
    "reversed": lambda x: x[::-1],
    "rolled": lambda x: np.roll(x, 1),
    "one element for all": lambda x: x[0] * np.ones(len(x)),
    "summed": lambda x: np.sum(x) * np.ones(len(x)),
    "of another shape": lambda x: x[:1],
}


@pytest.mark.parametrize("f", NOT_ELEMENTWISE.values(), ids=NOT_ELEMENTWISE.keys())
@pytest.mark.parametrize("n", range(2, 10))
def test_functions_that_mix_elements_have_no_elementwise_derivative(f, n):
    with pytest.raises(ValueError, match="is not elementwise"):
        wg.derivative(f, np.linspace(0.1, 0.9, n))


# ---- user rules, constants


@wg.primitive(vjp=lambda ybar, y, a, b: (ybar * b, None))
def product_with_a_constant(a, b):
    return a * b


def test_rule_without_cotangent_is_not_zero():
    assert forward(lambda x: product_with_a_constant(x, 2.0))(3.0) == 2.0
    with pytest.raises(TypeError, match="returns no cotangent for argument 1"):
        forward(lambda x: product_with_a_constant(2.0, x))(3.0)


def paused(x):
    F = np.zeros(3)
    F[0] = x[0]
    with wg.passive():
        F[1] = x[1] * x[0]
        F[0] *= 2
        a = np.concatenate([x, x])[[0, 1, 2]]
        s = np.sum(x)
    F[2] = F[1] * x[2]
    return F * x[0] + a * s * x


def test_values_of_passive_blocks_are_constants():
    a, s = X, np.sum(X)
    F = np.array([2 * X[0], X[0] * X[1], X[0] * X[1] * X[2]])
    expected = np.diag(a * s)
    expected[:, 0] += F
    expected[2, 2] += X[0] * X[0] * X[1]
    for mode in ("forward", "reverse"):
        assert_rounding(wg.jacobian(paused, X, mode=mode), expected)
        assert_rounding(wg.jacobian(lambda x: x * wg.stop_gradient(x), X, mode=mode), np.diag(X))


# ---- memory


def long_program(n):
    def f(x):
        F = np.zeros(4)
        s = x[0]
        for i in range(n):
            s = s * 0.5 + x[1]
            F[i % 4] = F[(i - 1) % 4] * 0.5 + s
        return F

    return f


def test_memory_is_independent_of_program_length():
    x = np.array([0.3, 0.5])

    def peak(n):
        tracemalloc.start()
        try:
            forward(long_program(n))(x)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)
    assert peak(20_000) < peak(100) + 20_000


def test_element_read_in_passive_block_is_constant():
    def f(x):
        with wg.passive():
            a = x[0]
        return a * x[1]

    for mode in ("forward", "reverse"):
        assert wg.jacobian(f, [2.0, 3.0], mode=mode).tolist() == [0.0, 2.0]
