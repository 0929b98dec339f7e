"""`ravel`: containers as vectors for solvers, and back."""

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize

import wengert as wg


@dataclasses.dataclass
class Layer:
    weight: np.ndarray
    bias: float


TREE = {
    "layers": [Layer(np.arange(6.0).reshape(2, 3), 7), Layer(np.ones((1, 2), order="F"), 8.0)],
    "scale": (9.0, [1, 2]),
}


def test_leaves_keep_order_shape_and_value():
    vector, restore = wg.ravel(TREE)
    np.testing.assert_array_equal(vector, [0, 1, 2, 3, 4, 5, 7, 1, 1, 8, 9, 1, 2])
    assert vector.dtype == np.float64
    back = restore(vector)
    np.testing.assert_array_equal(back["layers"][0].weight, TREE["layers"][0].weight)
    assert type(back["layers"][0].bias) is np.float64 and back["layers"][0].bias == 7
    assert back["layers"][1].weight.shape == (1, 2)
    np.testing.assert_array_equal(back["scale"][1], [1, 2])


def test_restored_arrays_do_not_share_memory():
    vector, restore = wg.ravel([np.ones(2), np.zeros(1)])
    part = restore(vector)[0]
    vector[:] = 5
    np.testing.assert_array_equal(part, [1, 1])


def test_dtype_is_the_common_one():
    assert wg.ravel([np.ones(2, np.float32), np.float32(1)])[0].dtype == np.float32
    assert wg.ravel([np.ones(2, np.float32), np.ones(1)])[0].dtype == np.float64


def test_ravel_accepts_an_array_and_an_empty_container():
    vector, restore = wg.ravel(np.arange(4.0).reshape(2, 2))
    np.testing.assert_array_equal(restore(vector * 2), [[0, 2], [4, 6]])
    vector, restore = wg.ravel({})
    assert vector.shape == (0,) and restore(vector) == {}


@pytest.mark.parametrize("compiled", [False, True])
def test_gradient_passes_through_restore(compiled):
    start, restore = wg.ravel({"a": 2.0, "b": np.array([[1.0, 3.0]])})

    def f(vector):
        p = restore(vector)
        return p["a"] ** 2 * np.sum(p["b"] ** 2)

    gradient = wg.grad(wg.compile(f) if compiled else f)
    for _ in range(3):
        np.testing.assert_allclose(gradient(start), [40.0, 8.0, 24.0], rtol=1e-14)
    np.testing.assert_allclose(wg.hessian(f, start), [[20, 8, 24], [8, 8, 0], [24, 0, 8]], rtol=1e-14)


def test_jacobian_passes_through_ravel():
    J = wg.jacobian(lambda x: wg.ravel({"a": x[0] * x[1], "b": x**2})[0], np.array([2.0, 3.0]))
    np.testing.assert_allclose(J, [[3, 2], [4, 0], [0, 6]], rtol=1e-15)


def test_fit_of_a_dict():
    t = np.linspace(0, 1, 20)
    y = 2 * np.exp(-3 * t) + 1
    start, restore = wg.ravel({"size": 1.0, "rate": 1.0, "offset": np.zeros(1)})

    def loss(vector):
        p = restore(vector)
        return np.sum((p["size"] * np.exp(-p["rate"] * t) + p["offset"] - y) ** 2)

    fit = restore(minimize(loss, start, jac=wg.grad(loss), tol=1e-9).x)
    np.testing.assert_allclose([fit["size"], fit["rate"], fit["offset"][0]], [2, 3, 1], atol=1e-6)


@pytest.mark.parametrize("leaf", ["name", None, 1j, np.array(["a"]), np.array([None])])
def test_other_leaves_are_refused(leaf):
    with pytest.raises(TypeError, match="ravel"):
        wg.ravel({"a": np.ones(2), "b": leaf})


@pytest.mark.parametrize("vector", [np.ones(2), np.ones((3, 1)), 1.0])
def test_restore_checks_the_shape(vector):
    _, restore = wg.ravel([1.0, np.ones(2)])
    with pytest.raises(ValueError, match="expected a vector of 3 numbers"):
        restore(vector)
