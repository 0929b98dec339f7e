"""Every program of the scenario table through every driver: values bit for bit, derivatives to rounding."""

import copy
import warnings

import numpy as np
import pytest

import wengert as wg
from helpers import assert_rounding, assert_same_bits
from scenarios import BRUSSELATOR, TABLE, Accumulator, Brusselator
from wengert.containers import split

ARRAYS = [s for s in TABLE if not s.containers]


def named(table):
    return pytest.mark.parametrize("s", table, ids=[s.name.replace(" ", "_") for s in table])


@pytest.fixture(autouse=True)
def _input_may_be_written():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.MutatedInputWarning)
        yield


def plain(s):
    """Return the value of the program on plain NumPy."""
    x = copy.deepcopy(s.x)
    if isinstance(x, list) and not s.containers:
        x = np.array(x, dtype=float)
    elif isinstance(x, float):
        x = np.float64(x)
    return s.f(x, *s.args)


def cotangents(shape, count=3):
    return np.random.default_rng(40).uniform(-1, 1, (count, *shape))


def contracted(cotangent, jacobian, shape):
    """Return J^T cotangent for a Jacobian of shape ``T + S``."""
    return np.tensordot(cotangent, jacobian, axes=len(shape))


@named(ARRAYS)
def test_jacobian_is_exact(s):
    J = wg.jacobian(s.f, s.x, args=s.args)
    assert_rounding(J, s.exact(), s.dtype)
    assert np.asarray(J).dtype == s.dtype


@named([s for s in ARRAYS if np.shape(plain(s)) == ()])
def test_gradient_is_exact(s):
    g = wg.grad(s.f, s.x, args=s.args)
    assert_rounding(g, s.exact(), s.dtype)
    assert np.asarray(g).dtype == s.dtype


@named([s for s in ARRAYS if np.shape(plain(s)) != ()])
def test_gradient_of_array_output_raises(s):
    with pytest.raises(TypeError, match="must return a single number"):
        wg.grad(s.f, s.x, args=s.args)


@named(TABLE)
def test_values_are_bit_identical_to_plain_numpy(s):
    expected = plain(s)
    y, _ = wg.vjp(s.f, s.x, args=s.args)
    assert_same_bits(y, expected, "vjp")
    y, _ = wg.jacobian(s.f, s.x, args=s.args, value=True)
    assert_same_bits(y, expected, "jacobian")
    assert_same_bits(wg.jacobian(s.f).fun(s.x, *s.args), expected, "fun")
    if not isinstance(expected, (dict, list)) and np.shape(expected) == ():
        y, _ = wg.value_and_grad(s.f, s.x, args=s.args)
        assert_same_bits(y, expected, "value_and_grad")


@named(ARRAYS)
def test_pullback_is_reproducible(s):
    y, pullback = wg.vjp(s.f, s.x, args=s.args)
    seed = cotangents(np.shape(y), 1)[0].astype(s.dtype)
    first = pullback(seed)
    assert_rounding(first, contracted(seed, s.exact(), np.shape(y)), s.dtype, scale=np.abs(s.exact()).max())
    for _ in range(2):
        assert_same_bits(pullback(seed), first)
    assert_same_bits(y, plain(s), "value after the sweeps")


@named(ARRAYS)
def test_stacked_cotangents_are_pulled_back_row_by_row(s):
    y, pullback = wg.vjp(s.f, s.x, args=s.args)
    seeds = cotangents(np.shape(y), 3).astype(s.dtype)
    seeds[1] = 0
    rows = pullback(seeds)
    assert np.shape(rows) == (3, *np.shape(s.x))
    exact = s.exact()
    for seed, row in zip(seeds, rows):
        assert_rounding(row, contracted(seed, exact, np.shape(y)), s.dtype, scale=np.abs(exact).max())
        assert_rounding(row, pullback(seed), s.dtype, scale=np.abs(exact).max())
    np.testing.assert_array_equal(rows[1], 0)


@named(ARRAYS)
def test_jacobian_does_not_depend_on_chunk_size(s):
    whole = wg.jacobian(s.f, s.x, args=s.args)
    for chunk in (1, 2, 1000):
        assert_rounding(wg.jacobian(s.f, s.x, args=s.args, chunk=chunk), whole, s.dtype)


@named(TABLE)
def test_argument_is_unchanged(s):
    x = copy.deepcopy(s.x)
    J = wg.jacobian(s.f)
    J(x, *s.args)
    J.fun(x, *s.args)
    _, pullback = wg.vjp(s.f, x, args=s.args)
    del pullback
    for before, after in zip(split(s.x)[0], split(x)[0]):
        assert_same_bits(after, before)


@named([s for s in TABLE if s.containers])
def test_derivatives_of_containers_have_their_structure(s):
    found, shape = split(wg.jacobian(s.f, s.x, args=s.args)), split(s.exact())
    assert len(found[0]) == len(shape[0])
    for block, exact in zip(found[0], shape[0]):
        assert_rounding(block, exact)
    tree = wg.jacobian(s.f, s.x, args=s.args)
    assert type(tree) is type(s.exact())


@named([s for s in TABLE if s.containers])
def test_pullbacks_of_containers_accept_and_return_containers(s):
    y, pullback = wg.vjp(s.f, s.x, args=s.args)
    parts, restore = split(y)
    seeds = [np.random.default_rng(i).uniform(-1, 1, np.shape(part)) for i, part in enumerate(parts)]
    x_bar = pullback(restore(seeds) if len(parts) > 1 else seeds[0])
    assert type(x_bar) is type(s.x)
    exact = split(s.exact())[0]
    count = len(split(s.x)[0])
    for j, leaf in enumerate(split(x_bar)[0]):
        expected = sum(contracted(seed, exact[i * count + j], np.shape(seed)) for i, seed in enumerate(seeds))
        assert_rounding(leaf, expected, scale=1.0)
    again = split(pullback(restore(seeds) if len(parts) > 1 else seeds[0]))[0]
    for leaf, other in zip(split(x_bar)[0], again):
        assert_same_bits(other, leaf)


@named([s for s in TABLE if s.writes_input])
def test_function_that_writes_into_its_argument_warns(s):
    def f(x, *args):
        return s.f(x, *args)

    with pytest.warns(wg.MutatedInputWarning, match="wrote into its argument"):
        wg.jacobian(f, s.x, args=s.args)


# ---- state kept by programs


def test_method_counts_its_calls():
    model = Brusselator(4)
    z = np.linspace(0.5, 1.5, 8)
    wg.jacobian(model.residual, z)
    assert model.calls == 1
    wg.vjp(model.residual, z)[1](np.ones(8))
    assert model.calls == 2
    assert vars(model).keys() == vars(BRUSSELATOR).keys()


def grad_of_a_sum(f, x):
    return wg.grad(lambda x: np.sum(f(x)), x)


def drivers():
    """Return drivers for a vector function of a vector, as functions of ``(f, x)``."""
    return {
        "jacobian": lambda f, x: wg.jacobian(f, x),
        "jacobian in chunks": lambda f, x: wg.jacobian(f, x, chunk=1),
        "value and jacobian": lambda f, x: wg.jacobian(f, x, value=True),
        "vjp": lambda f, x: wg.vjp(f, x)[1](np.ones(3)),
        "vjp twice": lambda f, x: (lambda pullback: (pullback(np.ones(3)), pullback(np.ones((2, 3)))))(
            wg.vjp(f, x)[1]
        ),
        "vjp unused": lambda f, x: wg.vjp(f, x),
        "grad of a sum": grad_of_a_sum,
        "fun": lambda f, x: wg.jacobian(f).fun(x),
    }


def keeping_program(kept):
    """Return in-place code that appends its buffers, views of them and intermediate values to `kept`."""

    def f(x):
        F = np.zeros(4)
        e = np.exp(x)
        kept.update(buffer=F, view=F[1:3], exponential=e, number=x[0] * x[1], backwards=F[::-1])
        F[0] = x[0]
        kept["view"][:] += x[:2]
        F[1:] = F[:-1]
        F *= x[2]
        e[1] = 0.0
        e[2] *= F[3]
        return F[1:]

    return f


@pytest.mark.parametrize("driver", drivers().values(), ids=drivers().keys())
def test_state_kept_by_closure_equals_plain_numpy(driver):
    x = np.array([0.3, 1.2, -0.7])
    expected, kept = {}, {}
    keeping_program(expected)(x.copy())
    driver(keeping_program(kept), x)
    assert list(kept) == list(expected)
    for name, value in expected.items():
        assert_same_bits(wg.stop_gradient(kept[name]), value, name)
        if np.ndim(value):
            assert_same_bits(np.asarray(kept[name]), value, name)


@pytest.mark.parametrize("driver", drivers().values(), ids=drivers().keys())
def test_state_kept_by_object_equals_plain_numpy(driver):
    x = np.array([0.3, 1.2, -0.7])
    expected, model = Accumulator(), Accumulator()
    expected(x.copy())
    driver(model, x)
    assert_same_bits(wg.stop_gradient(model.buffer), expected.buffer)
    assert model.history == [0]


def test_aux_and_views_returned_equal_plain_numpy_after_each_driver():
    def f(x):
        F = np.zeros(4)
        F[1:] = x * x
        view = F[1:3]
        before = {"view": view, "buffer": F, "number": x[0], "list": [F[0], 2.0]}
        F[2] *= x[0]
        y = F[1:]
        return y, before

    x = np.array([0.3, 1.2, -0.7])
    y, aux = f(x)
    for result in (
        wg.jacobian(f, x, has_aux=True, value=True),
        wg.jacobian(f, x, has_aux=True, value=True, chunk=1),
        wg.vjp(f, x, has_aux=True),
    ):
        if callable(result[1]):
            result[1](np.ones(3))
            result[1](np.ones(3))
        assert_same_bits(result[0], y)
        assert_same_bits(result[2]["view"], aux["view"])
        assert_same_bits(result[2]["buffer"], aux["buffer"])
        assert_same_bits(result[2]["number"], aux["number"])
        assert result[2]["list"] == aux["list"]


def test_value_returned_by_vjp_owns_its_memory():
    y, pullback = wg.vjp(lambda x: np.exp(x), np.array([0.0, 1.0]))
    first = pullback(np.ones(2))
    y[:] = -1.0
    assert_same_bits(pullback(np.ones(2)), first)
    first[:] = 7.0
    np.testing.assert_array_equal(pullback(np.ones(2)), np.exp([0.0, 1.0]))


def test_object_held_by_a_global_name_is_traced():
    model = Brusselator(4)
    z = np.linspace(0.5, 1.5, 8)
    expected = 2 * model.residual(z) @ model.matrix(z)
    assert_rounding(wg.grad(lambda z: np.sum(model.residual(z) ** 2), z), expected)
    assert_rounding(wg.grad(lambda z: np.sum(BRUSSELATOR.residual(np.append(z, z[:2])) ** 2), z).shape, (8,))
