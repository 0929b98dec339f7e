"""The same on a GPU, if present: launches, streams, arrays of other libraries, guards, the interpreter."""

import importlib
import threading

import numpy as np
import pytest

import applications as app
import wengert as wg
import wengert.cuda
from scenarios import TABLE

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not wengert.cuda.is_available(), reason=f"no GPU: {wengert.cuda.why_not()}"),
]

FORTY = next(s for s in TABLE if s.name == "forty operations on six numbers")
X = np.random.default_rng(3).uniform(0.3, 1.5, (1000, 6))


def tolerance(dtype):
    return {"rtol": 1e-12, "atol": 1e-13} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def expected():
    """Return value, gradient and the product of the Hessian with the point itself."""
    return [np.array([op(x) for x in X]) for op in (FORTY.f, wg.grad(FORTY.f), lambda x: wg.hvp(FORTY.f, x, x))]


@pytest.mark.parametrize("compile", ["auto", "never"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("chunk", ["auto", 97])
def test_value_gradient_and_product_equal_exact_ones(dtype, compile, chunk, expected):
    g = wg.record(FORTY.f, FORTY.x).to_cuda(dtype, compile=compile, chunk=chunk)
    y, gradient = g.value_and_grad(X)
    assert y.dtype == gradient.dtype == dtype
    for found, exact in zip((y, gradient, g.hvp(X, X), g(X)), (*expected, expected[0])):
        np.testing.assert_allclose(found, exact, **tolerance(dtype))


def test_large_jacobian_takes_several_kernels():
    def f(x):
        return np.array([np.exp(x[i] * x[j]) * np.sin(x[j]) for i in range(6) for j in range(6)])

    g = wg.record(f, X[0]).to_cuda()
    y, J = g.value_and_jacobian(X)
    np.testing.assert_allclose(y, [f(x) for x in X], rtol=1e-12)
    np.testing.assert_allclose(J, [wg.jacobian(f, x) for x in X], rtol=1e-11, atol=1e-13)


def test_greeks_of_options_agree_with_closed_forms():
    x, strike = app.some_options(50_000)
    errors = app.errors_of_greeks(app.greeks_by_kernel(x, strike), x, strike)
    assert max(errors.values()) <= 1e-13, errors


def branching(x, k):
    y = x[0] * k if x[1] > 1 else x[2] ** 2
    return y * x[3] if x[4] > k else y + x[5]


@pytest.mark.parametrize("compile", ["auto", "never"])
def test_points_take_separate_branches(compile):
    from numba import cuda

    mapped = wengert.cuda.vmap(wg.grad(branching), in_axes=(0, None), compile=compile)
    exact = np.array([wg.grad(branching, x, args=(0.9,)) for x in X])
    np.testing.assert_allclose(mapped(X, 0.9), exact, rtol=1e-13)
    np.testing.assert_allclose(mapped(cuda.to_device(X), 0.9).copy_to_host(), exact, rtol=1e-13)
    assert mapped.paths == 4
    with pytest.raises(wg.GuardError, match="of 1000 points"):
        wg.record(branching, X[0], args=(0.9,)).to_cuda()(X, 0.9)


@pytest.mark.parametrize("layout", ["C", "F", "every other", "reversed"])
def test_arrays_on_the_device_may_have_any_order(layout, expected):
    from numba import cuda

    given = cuda.to_device(np.asfortranarray(X) if layout == "F" else X)
    step = {"every other": 2, "reversed": -1}.get(layout, 1)
    if step == 2:
        given = given[::2]
    elif step == -1:
        described = dict(given.__cuda_array_interface__, strides=(-48, 8))
        described["data"] = (described["data"][0] + 48 * 999, False)
        owner = given
        given = type("Reversed", (), {"__cuda_array_interface__": described, "owner": owner})()
    y, gradient = wg.record(FORTY.f, FORTY.x).to_cuda().value_and_grad(given)
    np.testing.assert_allclose(y.copy_to_host(), expected[0][::step], **tolerance(np.float64))
    np.testing.assert_allclose(gradient.copy_to_host(), expected[1][::step], **tolerance(np.float64))


def test_results_are_written_to_given_arrays(expected):
    from numba import cuda

    y, gradient = cuda.device_array(1000), cuda.device_array((1000, 6))
    found = wg.record(FORTY.f, FORTY.x).to_cuda().value_and_grad(cuda.to_device(X), out=(y, gradient))
    assert found[0] is y and found[1] is gradient
    np.testing.assert_allclose(gradient.copy_to_host(), expected[1], **tolerance(np.float64))


def test_work_is_queued_on_the_callers_stream(expected):
    from numba import cuda

    stream = cuda.stream()
    given = cuda.to_device(X, stream=stream)
    y = wg.record(FORTY.f, FORTY.x).to_cuda()(given)
    assert y.__cuda_array_interface__["stream"] == int(stream)
    found = y.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_allclose(found, expected[0], **tolerance(np.float64))


LIBRARIES = {
    "cupy": (lambda m, x: m.asarray(x), lambda m, x: m.asnumpy(x)),
    "torch": (lambda m, x: m.as_tensor(x, device="cuda"), lambda m, x: x.cpu().numpy()),
    "jax.numpy": (lambda m, x: m.asarray(x), lambda m, x: np.asarray(x)),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_results_have_array_type_of_the_arguments(name, expected):
    module = pytest.importorskip(name)
    if name == "jax.numpy":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    make, back = LIBRARIES[name]
    given = make(module, X)
    y, gradient = wg.record(FORTY.f, FORTY.x).to_cuda().value_and_grad(given)
    assert type(y) is type(given)
    np.testing.assert_allclose(back(module, y), expected[0], **tolerance(np.float64))
    np.testing.assert_allclose(back(module, gradient), expected[1], **tolerance(np.float64))


def test_results_are_bit_reproducible_in_any_thread():
    g = wg.record(FORTY.f, FORTY.x).to_cuda()
    first = g.value_and_grad(X)[1]
    found = []
    threads = [threading.Thread(target=lambda: found.append(g.value_and_grad(X)[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [x.tobytes() for x in found] == [first.tobytes()] * 4


def test_debug_finds_nonfinite_values():
    g = wg.record(lambda x: np.log(x[0]), [1.0, 2.0]).to_cuda(debug=True)
    with pytest.raises(FloatingPointError, match="at 1 points, first at point 2"):
        g(np.array([[1.0, 0], [2.0, 0], [-1.0, 0], [3.0, 0]]))


def test_exceeding_device_memory_states_required_size():
    from numba import cuda

    free = cuda.current_context().get_memory_info().free
    n = int(0.5 * free) // 48
    given = cuda.device_array((n, 6))
    with pytest.raises(MemoryError, match=r"needs .* GB on the GPU"):
        wg.record(FORTY.f, FORTY.x).to_cuda().value_and_grad(given)
