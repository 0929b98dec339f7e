"""Programs at many points: structure of arguments and results, devices, chunks, memory, guards.

Kernels run in their Python form, and NumPy replaces the driver.
"""

import sys
import types

import numpy as np
import pytest

import applications as app
import wengert as wg
from fake_cuda import DeviceArray, DriverError, at
from wengert.cuda import availability, device, interpreter, points, toolkit


def f(x):
    return np.sin(x[0]) * x[1] + x[2] ** 2


X = np.random.default_rng(0).normal(size=(300, 3))
GRADIENTS = np.stack([np.cos(X[:, 0]) * X[:, 1], np.sin(X[:, 0]), 2 * X[:, 2]], axis=1)
VALUES = np.sin(X[:, 0]) * X[:, 1] + X[:, 2] ** 2


def on(place, x):
    return DeviceArray(np.array(x)) if place == "cuda" else x


def back(x):
    return x.host if isinstance(x, DeviceArray) else x


def finished(cuda, *found):
    """Return results on the host after the work on the device has finished."""
    for stream in cuda.streams.values():
        stream.synchronize()
    return [back(x) for x in found]


# ---- arguments and results


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_value_gradient_and_product_have_leading_point_axis(place, cuda):
    g = wg.record(f, X[0]).to_cuda()
    y, gradient = g.value_and_grad(on(place, X))
    V = np.roll(X, 1, axis=1)
    product = g.hvp(on(place, X), on(place, V))
    again = g(on(place, X))
    assert all(isinstance(x, np.ndarray if place == "host" else DeviceArray) for x in (y, gradient, product, again))
    y, gradient, product, again = finished(cuda, y, gradient, product, again)
    np.testing.assert_allclose(y, VALUES, rtol=1e-14)
    np.testing.assert_array_equal(again, y)
    np.testing.assert_allclose(gradient, GRADIENTS, rtol=1e-14)
    exact = [wg.hvp(f, x, v) for x, v in zip(X, V)]
    np.testing.assert_allclose(product, exact, rtol=1e-14)


def test_greeks_of_options_agree_with_closed_forms(cuda):
    x, strike = app.some_options(200)
    errors = app.errors_of_greeks(app.greeks_by_kernel(x, strike), x, strike)
    assert max(errors.values()) <= 1e-13, errors


def test_a_jacobian_has_outputs_before_inputs(target):
    def h(x):
        return np.array([x[0] * x[1], np.exp(x[2])])

    y, J = wg.record(h, X[0]).to_cuda(target=target).value_and_jacobian(X)
    assert y.shape == (300, 2) and J.shape == (300, 2, 3)
    np.testing.assert_allclose(J, [wg.jacobian(h, x) for x in X], rtol=1e-14)


def test_points_may_be_scalars_and_matrices(target):
    square = wg.record(lambda x: x * x, 2.0).to_cuda(target=target)
    _, slope = square.value_and_grad(X[:, 0])
    np.testing.assert_array_equal(slope, 2 * X[:, 0])
    trace = wg.record(lambda a: np.sum(a * a.T), np.ones((2, 2))).to_cuda(target=target)
    A = X[:, [0, 1, 2, 0]].reshape(300, 2, 2)
    np.testing.assert_allclose(trace.value_and_grad(A)[1], 2 * A.transpose(0, 2, 1), rtol=1e-14)
    np.testing.assert_allclose(trace(A.transpose(0, 2, 1)), np.sum(A * A.transpose(0, 2, 1), axis=(1, 2)), rtol=1e-14)


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_further_arguments_are_shared_or_per_point(place, cuda):
    g = wg.record(lambda x, k, c: k * x[0] + np.sum(c * x), X[0], args=(2.0, np.ones(3))).to_cuda()
    C = X[::-1].copy()
    k = X[:, 1].copy()
    for given_k, given_c in ((3.0, X[5]), (k, X[5]), (3.0, C), (k, C)):
        (y,) = finished(cuda, g(on(place, X), on(place, given_k), on(place, given_c)))
        np.testing.assert_allclose(y, given_k * X[:, 0] + np.sum(given_c * X, axis=1), rtol=1e-12, atol=1e-12)
    y, gradient = g.value_and_grad(on(place, X[0]), on(place, k), on(place, C))  # the first may be shared as well
    (gradient,) = finished(cuda, gradient)
    np.testing.assert_allclose(gradient, C + k[:, None] * [1, 0, 0], rtol=1e-14)


def test_non_float_arguments_are_fixed_at_recording(target):
    g = wg.record(lambda x, n, word: x[0] ** n, X[0], args=(3, "a")).to_cuda(target=target)
    np.testing.assert_allclose(g(X, 3, "a"), X[:, 0] ** 3, rtol=1e-14)
    with pytest.raises(ValueError, match="argument 1 differs from the recorded value"):
        g(X, 4, "a")


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((), TypeError, "1 arguments expected, got 0"),
        ((X[0],), ValueError, "no argument has a batch axis"),
        ((X[:, :2],), ValueError, r"shape \(300, 2\): expected \(N, 3\)"),
        ((X > 0,), TypeError, "dtype bool"),
        ((X + 0j,), TypeError, "dtype complex128"),
    ],
)
def test_mismatched_arguments_raise(args, error, message, target):
    with pytest.raises(error, match=message):
        wg.record(f, X[0]).to_cuda(target=target)(*args)


def test_point_counts_must_agree(target):
    g = wg.record(lambda x, k: k * x[0], X[0], args=(1.0,)).to_cuda(target=target)
    with pytest.raises(ValueError, match="argument 0 has 300 points, argument 1 has 299"):
        g(X, X[1:, 0])


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: p.to_cuda(compile="always"), ValueError, "compile must be"),
        (lambda p: p.to_cuda(target="gpu"), ValueError, "target must be"),
        (lambda p: p.to_cuda("int32"), TypeError, "dtype must be float64 or float32"),
        (lambda p: p.to_cuda(chunk=0), ValueError, "chunk must be"),
        (lambda p: wg.record(lambda d: d["a"], {"a": X[0]}).to_cuda(), TypeError, "argument 0 is a container"),
        (lambda p: wg.record(lambda x: {"a": x}, X[0]).to_cuda(), TypeError, "must return one array or number"),
        (lambda p: wg.record(lambda x: x > 0, X[0]).to_cuda(), TypeError, "dtype bool"),
        (lambda p: wg.record(np.sort, X).jacobian().to_cuda(), TypeError, "a loop over the rows of a matrix"),
        (lambda p: wg.record(lambda n, x: x, X[0], args=(1.0,)).to_cuda(), None, ""),
        (lambda p: wg.record(lambda n, x: n * x, 3, args=(1.0,)).to_cuda(), None, ""),
        (lambda p: wg.record(lambda x, k=1.0: k * x, 3.0, kwargs={"k": 2.0}).to_cuda(), TypeError, "by position"),
        (lambda p: wg.record(lambda x: 2 * x, X[0]).to_cuda().hvp(X, X), TypeError, "single number"),
        (lambda p: wg.record(lambda x: 2 * x, X[0]).to_cuda().value_and_grad(X), TypeError, "use value_and_jacobian"),
    ],
)
def test_unsupported_programs_and_options_raise(make, error, message):
    program = wg.record(f, X[0])
    if error is None:
        make(program)
    else:
        with pytest.raises(error, match=message):
            make(program)


def test_traced_arguments_raise(target):
    g = wg.record(f, X[0]).to_cuda(target=target)
    with pytest.raises(wg.TracedValueError, match="takes plain numbers"):
        wg.grad(lambda x: np.sum(g(x)), X)


def test_repr_of_kernel_shows_its_arrays():
    g = wg.record(lambda x, k: k * x, X[0], args=(2.0,)).to_cuda()
    assert repr(g) == (
        "<kernel of test_repr_of_kernel_shows_its_arrays.<locals>.<lambda>: x float64[3], y float64, result float64[3]>"
    )


# ---- dtypes and devices


def test_computation_uses_dtype_of_first_argument_or_given_dtype(target):
    program = wg.record(f, X[0])
    single = X.astype(np.float32)
    for dtype, x, expected in (
        (None, X, np.float64),
        (None, single, np.float32),
        ("float32", X, np.float32),
        (np.float64, single, np.float64),
        (None, np.ones((4, 3), int), np.float64),
    ):
        y, gradient = program.to_cuda(dtype, target=target).value_and_grad(x)
        assert y.dtype == gradient.dtype == expected


def test_device_arrays_of_another_dtype_raise(cuda):
    g = wg.record(f, X[0]).to_cuda("float64")
    with pytest.raises(TypeError, match="is on the device as float32, but the computation is in float64"):
        g(DeviceArray(X.astype(np.float32)))


@pytest.mark.parametrize("layout", ["C", "F", "reversed", "every other", "read only"])
def test_device_arrays_are_read_in_place_or_copied_on_device(layout, cuda):
    x = {
        "C": X,
        "F": np.asfortranarray(X),
        "reversed": X[::-1, ::-1],
        "every other": X[::2],
        "read only": X,
    }[layout]
    given = DeviceArray(x, stream=7, is_read_only=layout == "read only")
    g = wg.record(f, X[0]).to_cuda()
    y, gradient = g.value_and_grad(given)
    copies = [size for kind, size in cuda.log if kind == "allocate"][2:]  # without those of the two results
    assert copies == ([x.nbytes] if layout in ("reversed", "every other") else [])
    assert list(cuda.streams) == [7]  # all work waits on the caller's stream
    y.host[...] = np.nan
    assert np.isnan(y.host).all()  # nothing has run yet
    y, gradient = finished(cuda, y, gradient)
    np.testing.assert_allclose(y, [f(point) for point in x], rtol=1e-14)


def test_streams_of_all_arrays_are_synchronised(cuda):
    g = wg.record(lambda x, k: k * x[0], X[0], args=(2.0,)).to_cuda()
    late = DeviceArray(np.full(300, np.nan), stream=9)
    cuda.external_stream(9).queue(lambda: np.copyto(late.host, X[:, 1]))
    y = g(DeviceArray(X, stream=7), late)
    cuda.external_stream(7).synchronize()
    np.testing.assert_array_equal(y.host, X[:, 0] * X[:, 1])
    assert y.stream == 7


def test_points_not_in_c_order_raise(cuda):
    g = wg.record(lambda a: np.sum(a), np.ones((2, 3))).to_cuda()
    with pytest.raises(ValueError, match="pass it in C order"):
        g(DeviceArray(np.ones((5, 3, 2)).transpose(0, 2, 1)))


def test_results_have_array_type_of_first_device_argument(cuda, monkeypatch):
    made = []
    library = types.ModuleType("torch")
    library.as_tensor = lambda array: made.append(array) or ("tensor", array)
    monkeypatch.setitem(sys.modules, "torch", library)

    class Tensor(DeviceArray):
        __module__ = "torch"

    g = wg.record(lambda x, k: k * x, 1.0, args=(1.0,)).to_cuda()
    word, y = g(2.0, Tensor(X[:, 0].copy()))
    assert word == "tensor" and made == [y]
    np.testing.assert_array_equal(finished(cuda, y)[0], 2 * X[:, 0])


def test_device_array_is_not_copied_to_cpu():
    with pytest.raises(TypeError, match="target='cpu'"):
        wg.record(f, X[0]).to_cuda(target="cpu")(DeviceArray(X))


def test_masked_arrays_raise(cuda):
    class Masked(DeviceArray):
        @property
        def __cuda_array_interface__(self):
            return {**super().__cuda_array_interface__, "mask": self}

    with pytest.raises(TypeError, match="masked"):
        wg.record(f, X[0]).to_cuda()(Masked(X))


class Exported:
    """An array that supports DLPack only."""

    def __init__(self, host, place=2):
        self.host, self.place = host, place

    def __dlpack_device__(self):
        return self.place, 0

    def __dlpack__(self, **options):
        return self.host.__dlpack__()


def test_dlpack_arrays_are_accepted(cuda, monkeypatch):
    def view(x, stream_ptr):
        steps = tuple(s // x.host.itemsize for s in x.host.strides)
        pointer = x.host.__array_interface__["data"][0]
        return types.SimpleNamespace(
            shape=x.host.shape, strides=steps, dtype=x.host.dtype, ptr=pointer, readonly=True, keeps=x
        )

    module = types.ModuleType("cuda.core.utils")
    module.StridedMemoryView = types.SimpleNamespace(from_dlpack=view)
    monkeypatch.setitem(sys.modules, "cuda.core.utils", module)
    g = wg.record(f, X[0]).to_cuda()
    given = Exported(np.asfortranarray(X))
    y = g(given)
    np.testing.assert_allclose(finished(cuda, y)[0], VALUES, rtol=1e-14)
    assert list(cuda.streams) == [1]
    np.testing.assert_allclose(g(Exported(X, place=1)), VALUES, rtol=1e-14)
    with pytest.raises(TypeError, match=r"not on an NVIDIA GPU \(DLPack device 10\)"):
        g(Exported(X, place=10))


# ---- out=


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_results_are_written_to_given_arrays(place, cuda):
    g = wg.record(f, X[0]).to_cuda()
    y, gradient = on(place, np.empty(300)), on(place, np.empty((300, 3)))
    found = g.value_and_grad(on(place, X), out=(y, gradient))
    assert found[0] is y and found[1] is gradient
    finished(cuda)
    np.testing.assert_allclose(back(gradient), GRADIENTS, rtol=1e-14)
    transposed = on(place, np.empty((3, 300)).T)
    assert g.value_and_grad(on(place, X), out=(None, transposed))[1] is transposed
    finished(cuda)
    np.testing.assert_array_equal(back(transposed), back(gradient))
    if place == "cuda":
        with pytest.raises(ValueError, match="in C order"):
            g(on(place, X), out=DeviceArray(np.empty(600)[::2]))


def test_out_overlapping_arguments_raises(cuda):
    g = wg.record(f, X[0]).to_cuda()
    given = DeviceArray(np.concatenate([X, X]))
    first, half = DeviceArray(given.host[:300]), DeviceArray(given.host[300:])
    for i in (0, 299):
        with pytest.raises(ValueError, match="shares memory with an argument"):
            g.value_and_grad(first, out=(None, DeviceArray(given.host[i : i + 300])))
    g.value_and_grad(first, out=(None, half))
    finished(cuda)
    np.testing.assert_allclose(half.host, GRADIENTS, rtol=1e-14)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (np.empty(299), ValueError, r"out= has shape \(299,\), the result has shape \(300,\)"),
        (np.empty(300, np.float32), TypeError, "out= must be a NumPy array, of dtype float64"),
        (DeviceArray(np.empty(300)), TypeError, "out= must be a NumPy array"),
        ((np.empty(300), np.empty(300)), TypeError, "out= must be one array"),
    ],
)
def test_mismatched_out_arrays_raise(out, error, message, cuda):
    with pytest.raises(error, match=message):
        wg.record(f, X[0]).to_cuda()(X, out=out)


def test_read_only_out_array_raises(cuda):
    g = wg.record(f, X[0]).to_cuda()
    with pytest.raises(ValueError, match="writeable"):
        g(DeviceArray(X), out=DeviceArray(np.empty(300), is_read_only=True))
    y = np.empty(300)
    y.flags.writeable = False
    with pytest.raises(ValueError, match="writeable"):
        g(X, out=y)


# ---- chunks and memory


@pytest.mark.parametrize("chunk", [1, 7, 150, 299, 300, 10**6, "auto"])
def test_chunks_give_same_result_as_whole(chunk, cuda, core):
    g = wg.record(f, X[0]).to_cuda(chunk=chunk)
    y, gradient = g.value_and_grad(X)
    np.testing.assert_allclose(y, VALUES, rtol=1e-14)
    np.testing.assert_allclose(gradient, GRADIENTS, rtol=1e-14)
    assert len(core.launches) == -(-300 // (300 if chunk == "auto" else min(chunk, 300)))


def test_chunks_fit_into_free_memory(cuda, core):
    each = 2 * ((3 + 1 + 3) * 8 + 4)  # two chunks at once
    cuda.memory = 50 * each / device.MAX_MEMORY_SHARE
    wg.record(f, X[0]).to_cuda().value_and_grad(X)
    assert core.launches == [50] * 6


def test_failed_allocation_is_retried_with_half_the_size(cuda, core):
    cuda.limit = 150 * 24
    g = wg.record(f, X[0]).to_cuda()
    np.testing.assert_allclose(g(X), VALUES, rtol=1e-14)
    assert core.launches == [150, 150]
    cuda.limit = 100
    with pytest.raises(MemoryError, match=r"needs .* GB on the GPU, .* GB are free: .* smaller chunk="):
        g(X)


def test_device_results_that_do_not_fit_state_required_size(cuda):
    cuda.limit, cuda.memory = 100, 5 * 10**9
    with pytest.raises(MemoryError, match=r"needs 3.6e-06 GB on the GPU, 5 GB are free: pass NumPy arrays"):
        wg.record(f, X[0]).to_cuda()(DeviceArray(X))


def test_zero_points_give_empty_results(target):
    y, gradient = wg.record(f, X[0]).to_cuda(target=target).value_and_grad(X[:0])
    assert y.shape == (0,) and gradient.shape == (0, 3)


@pytest.mark.parametrize(("n", "blocks"), [(1, 1), (128, 1), (129, 2), (10**7, 78125)])
def test_every_point_has_a_thread(n, blocks):
    assert device.grid_of(n) == (blocks, 128)


def test_point_that_exceeds_device_memory_raises():
    with pytest.raises(MemoryError, match="a single point needs 100 bytes on the GPU, 10 are free"):
        device.points_at_once(5, 100, 10)


# ---- the interpreter


def test_interpreter_has_memory_for_each_thread(cuda, core, monkeypatch):
    calls = []

    def kernel(n, threads, count, *pointers):
        """Record the arguments, and compute nothing."""
        code, _, places, _ = pointers
        calls.append((n, threads))
        assert at(code, np.int32, count, 5).shape == (count, 5)
        found = at(places, np.int64, 3, 3)
        np.testing.assert_array_equal(found[:, 1:], [[3, 1], [1, 1], [3, 1]])
        np.testing.assert_array_equal(at(int(found[0, 0]), float, 300, 3), X)

    code = types.SimpleNamespace(code=kernel, entry="interpreter")
    monkeypatch.setattr(interpreter, "binary", lambda dtype, cc: code)
    g = wg.record(f, X[0]).to_cuda(compile="never", chunk=300)
    g.value_and_grad(X)
    assert calls == [(300, 384)]
    cuda.memory = 10000
    with pytest.raises(MemoryError, match=r"needs .* GB on the GPU, 1e-05 GB are free"):
        g.value_and_grad(X)


# ---- guards and errors


def branching(x):
    return x[0] * x[1] if x[0] > 0 else x[2] * 3


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_points_on_another_branch_raise(place, cuda):
    g = wg.record(branching, [1.0, 1.0, 1.0]).to_cuda(chunk=7 if place == "host" else "auto")
    there = X[X[:, 0] > 0]
    (y,) = finished(cuda, g(on(place, there)))
    np.testing.assert_array_equal(y, there[:, 0] * there[:, 1])
    mixed = there.copy()
    mixed[[3, 17], 0] *= -1
    message = rf"at 2 of {len(mixed)} points .* first at .*test_batch.py:\d+, for example at points 3, 17: use "
    with pytest.raises(wg.GuardError, match=message):
        g(on(place, mixed))


def test_sticky_error_is_explained(cuda, core):
    core.error = DriverError("ILLEGAL_ADDRESS")
    with pytest.raises(RuntimeError, match=r"ILLEGAL_ADDRESS.*unusable in this process: start another.*debug=True"):
        wg.record(f, X[0]).to_cuda()(X)


def test_version_error_names_packages_to_install(cuda, core):
    core.error = DriverError("UNSUPPORTED_PTX_VERSION")
    with pytest.raises(wg.errors.CudaUnavailable, match="supports CUDA 13"):
        wg.record(f, X[0]).to_cuda()(X)


@pytest.mark.parametrize("place", ["host", "cuda"])
def test_debug_synchronises_and_checks_for_nonfinite_values(place, cuda):
    g = wg.record(lambda x: np.log(x[0]), [1.0, 2.0]).to_cuda(debug=True)
    x = np.ones((300, 2))
    np.testing.assert_array_equal(back(g(on(place, x))), 0)
    x[[40, 200]] = -1
    with np.errstate(invalid="ignore"), pytest.raises(FloatingPointError, match="at 2 points, first at point 40"):
        g(on(place, x))


def test_missing_gpu_raises(monkeypatch):
    missing = wg.errors.CudaUnavailable("no GPU", "buy one")
    monkeypatch.setattr(availability, "_obstacle", lambda: missing)
    g = wg.record(f, X[0]).to_cuda()
    for call in (lambda: g(X), lambda: g.value_and_grad(X), lambda: g.hvp(X, X)):
        with pytest.raises(wg.errors.CudaUnavailable, match="no GPU: buy one"):
            call()


# ---- reports


def test_report_needs_no_gpu():
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install '.[cuda]'")
    g = wg.record(f, X[0]).to_cuda()
    for mode in (None, "value", "value_and_grad", "value_and_jacobian", "hvp"):
        (found,) = g.report(mode, cc=(8, 0))
        assert 0 < found.registers <= 80 and found.spill_bytes == 0 and found.cc == (8, 0)
    (single,) = wg.record(f, X[0]).to_cuda("float32").report()
    assert single.dtype == "float32" and single.registers < found.registers


def test_report_without_numba_cuda_names_missing_package(monkeypatch):
    def missing():
        raise wg.errors.CudaUnavailable("numba-cuda is not installed", "install it")

    monkeypatch.setattr(toolkit, "numba_cuda", missing)
    with pytest.raises(wg.errors.CudaUnavailable, match="install it"):
        wg.record(f, X[0]).to_cuda().report()


# ---- kernels with a point index


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", points.SIGNATURES)
def test_kernels_with_point_index_assemble_without_stack(name, dtype):
    pytest.importorskip("numba_cuda", reason="numba-cuda is not installed: pip install '.[cuda]'")
    report = points.binary(name, dtype, (8, 0)).report
    assert report.registers <= 40 and report.stack_bytes == 0
