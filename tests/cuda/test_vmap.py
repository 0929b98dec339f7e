"""Functions at many points at once: each point gets the result of its own branch, or an error is raised."""

import numpy as np
import pytest

import wengert as wg
from fake_cuda import DeviceArray
from wengert.cuda import paths, vmap

X = np.random.default_rng(1).normal(size=(200, 3))


def on(place, x):
    return DeviceArray(np.array(x), stream=5) if place == "device" else np.array(x)


def back(cuda, x):
    for stream in cuda.streams.values():
        stream.synchronize()
    return x.host if isinstance(x, DeviceArray) else x


@pytest.fixture(params=["host", "device"])
def place(request):
    return request.param


def smooth(x):
    return np.exp(x[0]) * np.sin(x[1]) + x[2] ** 3


def branches(x):
    """Four branches."""
    y = x[0] * x[1] if x[0] > 0 else x[2] ** 2
    return y * np.exp(x[1]) if x[1] > 0.5 else y + x[0] ** 3


@pytest.mark.parametrize("f", [smooth, branches])
@pytest.mark.parametrize(
    "operator", [lambda f: f, wg.grad, wg.jacobian, wg.hessian, lambda f: wg.compile(wg.grad(f)), wg.jacfwd]
)
def test_values_equal_function_at_every_point(f, operator, cuda, place):
    op = operator(f)
    mapped = vmap(op)
    found = back(cuda, mapped(on(place, X)))
    np.testing.assert_allclose(found, [op(x) for x in X], rtol=1e-12, atol=1e-13)
    assert mapped.paths == (1 if f is smooth else 4)
    again = back(cuda, mapped(on(place, X[::-1])))
    np.testing.assert_array_equal(again, found[::-1])
    assert mapped.paths == (1 if f is smooth else 4)


def test_value_and_gradient_in_one_call(cuda, place):
    y, gradient = vmap(wg.value_and_grad(branches))(on(place, X))
    np.testing.assert_allclose(back(cuda, y), [branches(x) for x in X], rtol=1e-14)
    np.testing.assert_allclose(back(cuda, gradient), [wg.grad(branches, x) for x in X], rtol=1e-13)


def test_products_take_one_vector_per_point(cuda, place):
    V = X[::-1].copy()
    found = back(cuda, vmap(wg.hvp(branches))(on(place, X), on(place, V)))
    np.testing.assert_allclose(found, [wg.hvp(branches, x, v) for x, v in zip(X, V)], rtol=1e-12, atol=1e-13)


def test_arguments_may_be_shared_by_all_points(cuda, place):
    def f(x, k, c, n):
        return np.sum(c * x**n) * k if x[0] > k else k * x[1]

    c, k = np.arange(3.0), X[:, 1].copy()
    mapped = vmap(wg.grad(f), in_axes=(0, 0, None, None))
    found = back(cuda, mapped(on(place, X), on(place, k), on(place, c), 2))
    np.testing.assert_allclose(found, [wg.grad(f, x, args=(q, c, 2)) for x, q in zip(X, k)], rtol=1e-13)
    assert mapped.paths == 2
    back(cuda, mapped(on(place, X), on(place, k), on(place, c), 3))  # another integer is recorded separately
    assert mapped.paths == 4


def test_other_shape_or_dtype_is_recorded_separately(cuda):
    mapped = vmap(lambda x: np.sum(x * x))
    assert mapped(X).dtype == np.float64
    assert mapped(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(mapped(X[:, :2]), np.sum(X[:, :2] ** 2, axis=1))
    assert mapped.paths == 3
    assert vmap(lambda x: np.sum(x * x), dtype="float32")(X).dtype == np.float32


def test_results_are_written_to_given_array(cuda, place):
    out = on(place, np.empty((200, 3)))
    assert vmap(wg.grad(branches))(on(place, X), out=out) is out
    np.testing.assert_allclose(back(cuda, out), [wg.grad(branches, x) for x in X], rtol=1e-13)


def many_paths(x):
    """One branch for each integer."""
    n = 0
    while n < x[0]:
        n += 1
    return n * x[1]


def test_too_many_branches_raise_and_name_the_points(cuda, place):
    points = np.stack([np.arange(40.0) + 0.5, np.ones(40)], axis=1)
    few = vmap(many_paths)
    few(on(place, points[:16]))
    assert few.paths == 16
    with pytest.raises(
        wg.GuardError, match=r"at 24 of 40 points .* none of the 16 paths .* at points 16, 17, 18, 19, 20, \.\.\.:"
    ):
        vmap(many_paths)(on(place, points))


def test_each_point_gets_result_of_its_own_branch(cuda, place, monkeypatch):
    monkeypatch.setattr(paths, "MAX_PATHS", 2)
    with pytest.raises(wg.GuardError, match="none of the 2 paths"):
        vmap(branches)(on(place, X))


def test_chunks_and_branches_combine(cuda):
    found = vmap(wg.grad(branches), chunk=13)(X)
    np.testing.assert_allclose(found, [wg.grad(branches, x) for x in X], rtol=1e-13)


def test_branch_decided_by_rounding_is_that_recorded_at_the_point(cuda, place):
    """In single precision 1 + x equals 1, in double precision it does not."""
    x = np.array([0.5, 1e-9, -1e-9, -0.5, 2e-9], np.float32)
    mapped = vmap(wg.value_and_grad(lambda x: 3 * x if 1 + x > 1 else 2 * x if 1 + x < 1 else x))
    y, slope = mapped(on(place, x))
    np.testing.assert_array_equal(back(cuda, slope), [3, 3, 2, 2, 3])
    np.testing.assert_array_equal(back(cuda, y), x * slope.__array__())
    assert mapped.paths == 2


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: vmap(3), TypeError, "expected a function, got int"),
        (lambda: vmap(smooth, in_axes=1), ValueError, "in_axes must be 0 or a tuple"),
        (lambda: vmap(smooth, in_axes=(0, 1)), ValueError, "in_axes must be 0 or a tuple"),
        (lambda: vmap(smooth, in_axes=(None,)), ValueError, "no argument has a batch axis"),
        (lambda: vmap(smooth)(X, X), TypeError, "positional argument"),
        (lambda: vmap(smooth, in_axes=(0, None))(X), TypeError, "in_axes has 2 entries, the call 1"),
        (lambda: vmap(smooth)(3.0), ValueError, "no argument has a batch axis"),
        (lambda: vmap(smooth)(X[:0]), ValueError, "there are no points"),
        (lambda: vmap(lambda x: {"a": x})(X), TypeError, "must return one array or number"),
        (lambda: vmap(np.sort)(X), TypeError, "sort"),
        (lambda: vmap(wg.grad(lambda x: 2 * x))(X), TypeError, "single number"),
    ],
)
def test_invalid_arguments_raise(make, error, message, cuda):
    with pytest.raises(error, match=message):
        make()


def test_traced_arguments_raise(cuda):
    with pytest.raises(wg.TracedValueError, match="takes plain numbers"):
        wg.grad(lambda x: np.sum(vmap(smooth)(x)), X)


def test_repr_of_vmap_shows_the_function():
    assert repr(vmap(smooth)) == "vmap(smooth)"
    assert repr(vmap(wg.jacobian(smooth))) == "vmap(jacobian(smooth))"


@pytest.mark.parametrize("compile", ["auto", "never"])
def test_cpu_target_computes_the_same_gradients(compile):
    pytest.importorskip("numba", reason="numba is not installed: pip install '.[cuda]'")
    found = vmap(wg.grad(branches), target="cpu", compile=compile)(X)
    np.testing.assert_allclose(found, [wg.grad(branches, x) for x in X], rtol=1e-13)
