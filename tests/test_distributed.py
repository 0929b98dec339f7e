"""Sums over chunks: derivatives of every order, the same bits for any engine, errors, lost workers, bounded memory."""

import concurrent.futures
import contextlib
import functools
import gc
import itertools
import math
import multiprocessing
import multiprocessing.pool
import os
import shutil
import signal
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest

import distributed_functions as functions
import wengert as wg
from wengert.distributed import simulate, split_rows, sum_over
from wengert.distributed.blas import one_blas_thread
from wengert.distributed.reduction import PairwiseSum

RANDOM = np.random.default_rng(76)
X = RANDOM.normal(size=(203, 5))
Y = (RANDOM.random(203) < 0.5) * 1.0
THETA = RANDOM.normal(size=5) * 0.3
CHUNKS = split_rows(X, Y, rows=20)
TREE = {"weights": THETA, "offset": 0.5}


def assert_rounding(got, expected):
    """Compare up to the rounding errors of sums of some hundred terms."""
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13 * np.max(np.abs(expected), initial=1e-300))


def added_up(f, chunks=CHUNKS):
    """The sum as ordinary code."""

    def total(theta):
        first, *others = [f(theta, chunk) for chunk in chunks]
        return functools.reduce(lambda a, b: a + b, others, first)

    return total


@pytest.fixture(scope="module")
def pool():
    """Two processes, shared by the tests."""
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        yield pool


# ---- derivatives

OPERATIONS = {
    "value": lambda f: f(THETA),
    "grad": lambda f: wg.grad(f, THETA),
    "value_and_grad": lambda f: np.append(*wg.value_and_grad(f, THETA)),
    "hessian": lambda f: wg.hessian(f, THETA),
    "hessian, forward": lambda f: wg.hessian(f, THETA, mode="forward"),
    "hessian, reverse": lambda f: wg.hessian(f, THETA, mode="reverse"),
    "hvp": lambda f: wg.hvp(f, THETA, np.arange(10.0).reshape(2, 5)),
    "jvp": lambda f: wg.jvp(f, THETA, np.ones(5))[1],
    "vjp": lambda f: wg.vjp(f, THETA)[1](2.0),
    "linearize": lambda f: wg.linearize(f, THETA)[1] @ np.ones(5),
    "third": lambda f: wg.jacobian(wg.hessian(f), THETA),
    "within": lambda f: wg.hessian(lambda t: np.exp(-f(np.sin(t) * 0.1)) * t[0], THETA),
    "twice": lambda f: wg.grad(lambda t: f(t) * f(2.0 * t), THETA),
}
VECTOR_OPERATIONS = {
    "value": lambda f: f(THETA),
    "jacobian": lambda f: wg.jacobian(f, THETA),
    "jacobian, forward": lambda f: wg.jacobian(f, THETA, mode="forward"),
    "jacobian, reverse": lambda f: wg.jacobian(f, THETA, mode="reverse"),
    "vjp": lambda f: wg.vjp(f, THETA)[1](np.ones(3)),
    "jvp": lambda f: wg.jvp(f, THETA, np.ones((2, 5)))[1],
    "second": lambda f: wg.jacobian(wg.jacobian(f, mode="reverse"), THETA, mode="reverse"),
    "residual": lambda f: wg.hessian(lambda t: np.sum(f(t) ** 2), THETA),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("f", [functions.logistic, functions.by_element])
def test_derivatives_are_those_of_ordinary_code(f, operation, compiled):
    apply = OPERATIONS[operation]
    loss = sum_over(wg.compile(f) if compiled else f, CHUNKS)
    assert_rounding(apply(loss), apply(added_up(f)))


@pytest.mark.parametrize("operation", VECTOR_OPERATIONS)
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_of_vector_sums(operation, compiled):
    apply, f = VECTOR_OPERATIONS[operation], functions.features
    loss = sum_over(wg.compile(f) if compiled else f, CHUNKS)
    assert_rounding(apply(loss), apply(added_up(f)))


def test_results_keep_shapes_and_structure():
    loss = sum_over(functions.array_valued, CHUNKS)
    assert loss(THETA).shape == (5, 5) and wg.jacobian(loss, THETA).shape == (5, 5, 5)
    assert_rounding(wg.jacobian(loss, THETA), wg.jacobian(added_up(functions.array_valued), THETA))
    found = sum_over(functions.likelihood, CHUNKS)(TREE)
    assert {name: np.shape(x) for name, x in found.items()} == {"fit": (), "shrunk": (5,)}
    total = wg.grad(lambda tree: sum_over(functions.likelihood, CHUNKS)(tree)["fit"], TREE)
    expected = wg.grad(added_up(lambda tree, chunk: functions.likelihood(tree, chunk)["fit"]), TREE)
    assert_rounding(total["weights"], expected["weights"])
    assert_rounding(total["offset"], expected["offset"])
    assert sum_over(functions.logistic, CHUNKS)(THETA.astype(np.float32)).dtype == np.float64
    single = sum_over(lambda t, c: t * np.float32(2), [1, 2, 3])(np.float32(1.5))
    assert type(single) is np.float32 and single == 9


def test_constant_parts_of_containers_count():
    class Scaled(dict):
        pass

    loss = sum_over(lambda p, c: p.scale * p["x"] * c, [1.0, 2.0])
    for scale in (1.0, 2.0, 5.0):
        theta = Scaled(x=3.0)
        theta.scale = scale
        assert loss(theta) == 9.0 * scale
        assert wg.grad(loss, theta)["x"] == 3.0 * scale


def test_zero_cotangent_times_infinite_slope_is_zero():
    loss = sum_over(lambda t, c: np.sqrt(t[0]) + t[1], [0, 1])
    assert np.array_equal(wg.grad(lambda t: np.where(t[0] > 0, loss(t), t[1]), [0.0, 1.0]), [0.0, 1.0])


def test_one_pass_for_value_and_gradient_and_one_more_for_the_hessian():
    passes = []

    def chunks():
        passes.append(1)
        return iter([1.0, 2.0])

    loss = sum_over(lambda t, c: np.sum(np.sin(c * t)), chunks)
    for apply, count in ((loss, 1), (wg.value_and_grad(loss), 1), (wg.hessian(loss), 2)):
        passes.clear()
        apply(THETA)
        assert len(passes) == count
    passes.clear()
    wg.hvp(loss, THETA, THETA)
    assert len(passes) == 2


def test_state_that_changes_between_calls_is_seen():
    scale = 1.0

    def f(theta, chunk):
        return scale * theta * chunk

    for loss in (sum_over(f, [1.0, 2.0]), sum_over(wg.compile(f), [1.0, 2.0])):
        for scale in (1.0, 3.0, 5.0):
            assert wg.grad(loss, 2.0) == 3 * scale


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("f", functions.FOLLOWED, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_plain_code_of_scipy_is_followed_in_summands(f, compiled, pool):
    """Functions, methods, objects and partial functions that call functions of SciPy that are no ufuncs."""
    theta, chunks = np.array([0.3, 0.4]), [1.0, 2.0, 0.5]
    total = added_up(f, chunks)
    for workers in (None, pool):
        loss = sum_over(wg.compile(f) if compiled else f, chunks, workers=workers)
        for op in (wg.grad, wg.hessian):
            np.testing.assert_allclose(op(loss, theta), op(total, theta), rtol=1e-9)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_chunk_is_evaluated_once_in_a_pass(compiled):
    seen = []

    def load(i):
        seen.append(i)
        return float(i)

    chunks = [functools.partial(load, i) for i in range(3)]
    calls = []

    def f(theta, chunk):
        if not compiled:
            calls.append(chunk)
        return np.sum(np.sin(theta * chunk))

    wg.value_and_grad(sum_over(wg.compile(f) if compiled else f, chunks), THETA)
    assert seen == [0, 1, 2]
    if not compiled:
        assert calls == [0.0, 1.0, 2.0]


def test_solver_takes_the_sum():
    from scipy.optimize import minimize

    loss = sum_over(functions.logistic, CHUNKS)
    found = minimize(loss, np.zeros(5), jac=wg.grad(loss), hessp=wg.hvp(loss), method="trust-ncg", tol=1e-8)
    plain = minimize(lambda t: functions.logistic(t, (X, Y)), np.zeros(5), method="BFGS", tol=1e-8)
    np.testing.assert_allclose(found.x, plain.x, atol=1e-4)
    J = wg.value_and_grad(loss)
    assert minimize(J, np.zeros(5), jac=True).success


def test_program_is_sent_instead_of_code(pool):
    program = wg.record(lambda t, c: np.sum(np.logaddexp(0.0, c[0] @ t) - c[1] * (c[0] @ t)), THETA, args=(CHUNKS[0],))
    even = split_rows(X[:200], Y[:200], rows=20)
    here, there = sum_over(program, even), sum_over(program, even, workers=pool)
    for operation in ("value", "grad", "hessian", "hvp", "jvp"):
        apply = OPERATIONS[operation]
        assert_rounding(apply(sum_over(program, even)), apply(here))
        assert np.array_equal(apply(here), apply(there))
        assert_rounding(apply(here), apply(added_up(functions.logistic, even)))
    with pytest.raises(TypeError, match="pass the function itself"):
        OPERATIONS["third"](here)
    with pytest.raises(ValueError, match="recorded for other arguments") as caught:
        sum_over(program, CHUNKS)(THETA)
    assert "chunk 10" in caught.value.__notes__[0]


# ---- the same bits


def bits(loss):
    operations = ("value", "value_and_grad", "hessian", "jvp", "third")
    return [np.asarray(OPERATIONS[name](loss)).tobytes() for name in operations]


def engines(pool, threads):
    yield "processes", pool
    yield "threads", threads
    yield "4 own processes", 4


def more_engines(pool, threads):
    yield "map", map
    yield "map of processes", pool.map
    yield "map of threads", threads.map
    with multiprocessing.pool.ThreadPool(2) as several:
        yield "map of ThreadPool", several.map
        yield "imap of ThreadPool", several.imap
    yield "1 own process", 1
    yield "2 own processes", 2


@pytest.mark.parametrize("compiled", [False, True])
def test_bits_are_the_same_for_any_engine(pool, threads, compiled):
    f = wg.compile(functions.logistic) if compiled else functions.logistic
    expected = bits(sum_over(f, CHUNKS))
    others = () if compiled else more_engines(pool, threads)
    for name, workers in itertools.chain(engines(pool, threads), others):
        with sum_over(f, CHUNKS, workers=workers) as loss:
            assert bits(loss) == expected, name
            assert bits(loss) == expected, f"{name}, second time"


def test_bits_do_not_depend_on_the_number_of_chunks_in_a_task(pool):
    expected = bits(sum_over(functions.logistic, CHUNKS))
    for count in (1, 2, 3, 8, 1000):
        loss = sum_over(functions.logistic, CHUNKS, workers=pool)
        loss.pace.chunks_per_task = count
        assert bits(loss) == expected


def test_bits_do_not_depend_on_the_layout_of_chunks(pool):
    wide = np.asfortranarray(RANDOM.normal(size=(5, 406)))
    chunks = [(wide[:, i : i + 60 : 2].T, Y[:30]) for i in range(0, 300, 60)]
    assert bits(sum_over(functions.logistic, chunks)) == bits(sum_over(functions.logistic, chunks, workers=pool))


def test_large_products_do_not_depend_on_blas_threads():
    x = RANDOM.normal(size=(4000, 300))
    theta = RANDOM.normal(size=300)
    with one_blas_thread():
        expected = wg.grad(lambda t: np.sum(np.tanh(x @ t)), theta)
    loss = sum_over(lambda t, c: np.sum(np.tanh(c @ t)), [x])
    assert np.array_equal(wg.grad(loss, theta), expected)


def test_pairwise_sum_depends_on_the_number_of_summands_alone():
    for n in (1, 2, 3, 7, 64, 100, 1023):
        terms = RANDOM.normal(size=(n, 2)) * 10.0 ** RANDOM.integers(-8, 8, (n, 1))
        found = set()
        for seed in range(4):
            total = PairwiseSum()
            for i in np.random.default_rng(seed).permutation(n) if seed else range(n):
                total.add(0, int(i), terms[i].copy())
            found.add(total.total().tobytes())
            assert seed or total.max_nodes <= n.bit_length() + 1
        assert len(found) == 1
        exact = np.array([math.fsum(column) for column in terms.T])
        bound = 1.1e-16 * n.bit_length() * np.abs(terms).sum(axis=0)
        assert np.all(np.abs(np.frombuffer(found.pop()) - exact) <= bound)


# ---- engines that are not ours


def loky_executor():
    loky = pytest.importorskip("loky", reason="loky is not installed")
    return loky.get_reusable_executor(max_workers=2)


@contextlib.contextmanager
def dask_client():
    dask = pytest.importorskip("distributed", reason="dask.distributed is not installed")
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        client.run(sys.path.append, os.path.dirname(__file__))
        yield client


def test_loky_workers_give_the_same_bits():
    executor = loky_executor()
    try:
        expected = bits(sum_over(functions.logistic, CHUNKS))
        assert bits(sum_over(functions.logistic, CHUNKS, workers=executor)) == expected
    finally:
        executor.shutdown(wait=True)


@pytest.mark.filterwarnings("default")  # of Dask itself
def test_dask_workers_give_the_same_bits():
    with dask_client() as client:
        expected = bits(sum_over(functions.logistic, CHUNKS))
        for workers in (client, client.get_executor()):
            assert bits(sum_over(functions.logistic, CHUNKS, workers=workers)) == expected
        with pytest.raises(ValueError, match="no data") as caught:
            sum_over(functions.fails_late, list(range(9)), workers=client)(1.0)
        assert "chunk 5" in caught.value.__notes__[0]
        persisted = pytest.importorskip("dask.array").from_array(X, chunks=(50, 5)).persist()
        for chunks in (client.scatter([X[:50], X[50:]]), split_rows(persisted, rows=50)):
            with pytest.raises(TypeError, match="a future of Dask, which tasks cannot read"):
                sum_over(functions.column_sum, chunks, workers=client)(THETA)
            assert_rounding(sum_over(functions.column_sum, chunks)(THETA), functions.column_sum(THETA, X))


EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(__file__)), "examples", "distributed")


def run_script(*command):
    """Run a script with the interpreter of the tests; Open MPI refuses root and a second rank on one core."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def mpiexec():
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    folders = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    found = shutil.which("mpiexec", path=folders)
    if found is None:
        pytest.skip("there is no mpiexec")
    return found


MPI_SCRIPT = """
import sys
import numpy as np
from mpi4py.futures import MPIPoolExecutor
sys.path.insert(0, {folder!r})
import test_distributed as tests, distributed_functions as functions
from wengert.distributed import sum_over
if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        found = tests.bits(sum_over(functions.logistic, tests.CHUNKS, workers=executor))
    assert found == tests.bits(sum_over(functions.logistic, tests.CHUNKS))
    print("the same bits")
"""


def test_mpi_workers_give_the_same_bits(tmp_path):
    script = tmp_path / "sums.py"
    script.write_text(MPI_SCRIPT.format(folder=os.path.dirname(__file__)))
    assert "the same bits" in run_script(mpiexec(), "-n", "2", sys.executable, "-m", "mpi4py.futures", str(script))


def test_mpi_example_runs():
    script = os.path.join(EXAMPLES, "mpi_sum.py")
    assert "loss 0.0" in run_script(mpiexec(), "-n", "2", sys.executable, "-m", "mpi4py.futures", script)


def test_dask_example_runs():
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    assert "error bars" in run_script(sys.executable, os.path.join(EXAMPLES, "dask_sum.py"))


# ---- where chunks come from


def test_files_callables_and_mapped_arrays_are_loaded_by_workers(pool, tmp_path):
    expected = wg.grad(added_up(functions.logistic, [each() for each in map(functions.Generated, range(6))]), THETA)
    callables = [functions.Generated(seed) for seed in range(6)]
    files = []
    for i, each in enumerate(callables):
        np.savez(tmp_path / f"{i}.npz", **dict(zip("xy", each())))
        files.append(tmp_path / f"{i}.npz")
    for workers in (None, pool):
        assert_rounding(wg.grad(sum_over(functions.logistic, callables, workers=workers), THETA), expected)
        by_name = sum_over(named, files, workers=workers) if workers is None else None
        if by_name is not None:
            assert_rounding(wg.grad(by_name, THETA), expected)
    with pytest.raises(ValueError, match=r"functools.partial\(load"):
        sum_over(functions.logistic, ["data.csv"])(THETA)


def test_chunks_are_read_only(pool):
    chunks = [np.ones(3), np.ones(3)]
    for workers, op in itertools.product((None, pool), (lambda f: f(np.ones(3)), lambda f: wg.grad(f, np.ones(3)))):
        with pytest.raises(ValueError, match="read-only") as caught:
            op(sum_over(functions.doubles_its_chunk, chunks, workers=workers))
        assert "copy an array before changing it" in "".join(caught.value.__notes__)
    made = sum_over(functions.doubles_its_chunk, [functools.partial(functions.copied_when_called, chunks[0])] * 2)
    with pytest.raises(ValueError, match="read-only"):
        made(np.ones(3))
    assert np.array_equal(chunks, np.ones((2, 3)))


@pytest.mark.parametrize("workers", [None, "pool"])
def test_arrays_stored_in_pieces_are_read_by_workers(workers, request):
    workers = request.getfixturevalue(workers) if workers else None
    stored = functions.Stored(X)
    loss = sum_over(functions.logistic, split_rows(stored, Y, rows=20), workers=workers)
    assert bits(loss) == bits(sum_over(functions.logistic, CHUNKS))
    assert stored.is_unread == (workers is not None)
    whole = sum_over(lambda t, c: np.sum(np.tanh(c @ t)), [functions.Stored(X)], workers=workers)
    assert_rounding(wg.grad(whole, THETA), wg.grad(lambda t: np.sum(np.tanh(X @ t)), THETA))


@pytest.mark.parametrize("workers", [None, "pool"])
def test_collections_of_dask_are_computed_by_workers(workers, request):
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    workers = request.getfixturevalue(workers) if workers else None
    x = dask.from_array(X, chunks=(29, 5)) * 2.0
    expected = bits(sum_over(functions.logistic, split_rows(2.0 * X, Y, rows=29)))
    loss = sum_over(functions.logistic, split_rows(x, Y, rows=29), workers=workers)
    assert bits(loss) == expected
    delayed = list(zip(x.to_delayed().ravel(), split_rows(Y, rows=29)))
    assert bits(sum_over(functions.logistic, delayed, workers=workers)) == expected


def test_slices_of_a_dask_array_are_sent_without_the_rest():
    dask = pytest.importorskip("dask.array", reason="dask is not installed")
    from wengert.distributed.chunks import sendable
    from wengert.distributed.workers import dumped

    x = dask.from_array(np.zeros((100_000, 5)), chunks=(1000, 5))
    assert len(dumped(sendable(split_rows(x, rows=1000)[3]), "chunk")) < 100_000


def test_chunks_may_be_files_of_other_packages(tmp_path, pool):
    expected = bits(sum_over(functions.logistic, [(X, Y)]))
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    arrow = pytest.importorskip("pyarrow")
    parquet.write_table(arrow.table({"y": Y, **{f"x{i}": X[:, i] for i in range(5)}}), tmp_path / "data.parquet")
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    group = zarr.open_group(tmp_path / "data.zarr", mode="w")
    for name, value in (("x", X), ("y", Y)):
        group.create_array(name, data=value)
    for workers in (None, pool):
        for summand, file in ((functions.of_columns, "data.parquet"), (functions.of_names, "data.zarr")):
            assert bits(sum_over(summand, [tmp_path / file], workers=workers)) == expected


def named(theta, chunk):
    return functions.logistic(theta, (chunk["x"], chunk["y"]))


@pytest.mark.parametrize("offset", [0, 16])
def test_arrays_mapped_to_a_file_are_not_sent(pool, tmp_path, offset):
    from wengert.distributed.workers import dumped

    path = tmp_path / "x.bin"
    with open(path, "wb") as file:
        file.write(b"0" * offset)
        file.write(X.tobytes())
    mapped = np.memmap(path, float, "r", offset, X.shape)
    assert len(dumped(mapped[100:], "chunk")) < 1000
    chunks = [(x, y) for x, y in split_rows(mapped, Y, rows=20)]
    assert bits(sum_over(functions.logistic, chunks, workers=pool)) == bits(sum_over(functions.logistic, CHUNKS))
    changed = np.memmap(path, float, "c", offset, X.shape)
    changed += 1.0  # in memory only
    chunks = split_rows(changed, Y, rows=20)
    expected = bits(sum_over(functions.logistic, split_rows(X + 1.0, Y, rows=20)))
    assert bits(sum_over(functions.logistic, chunks, workers=pool)) == expected


def test_mapped_array_may_exceed_memory(tmp_path):
    """Values and gradients over a file take memory for a chunk, not for the file."""
    rows, path = 400_000, tmp_path / "x.npy"
    x = np.lib.format.open_memmap(path, "w+", float, (rows, 5))
    for i in range(0, rows, 20_000):
        x[i : i + 20_000] = np.random.default_rng(i).normal(size=(20_000, 5))
    x.flush()
    mapped = np.load(path, mmap_mode="r")
    loss = sum_over(lambda t, c: np.sum(np.logaddexp(0.0, c @ t)), split_rows(mapped, rows=4000))
    gradient = wg.value_and_grad(loss)
    gradient(THETA)
    tracemalloc.start()
    y, _ = gradient(THETA)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < mapped.nbytes / 10
    assert_rounding(y, np.sum(np.logaddexp(0.0, np.load(path) @ THETA)))


def test_memory_of_the_driver_does_not_depend_on_the_number_of_chunks(threads):
    def peak(count, size=2000):
        loss = sum_over(lambda t, c: t * c, functools.partial(map, float, range(count)), workers=threads)
        loss(np.ones(size))
        gc.collect()
        tracemalloc.start()
        loss(np.ones(size))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found / (8 * size)

    assert peak(6400) < peak(400) + 150  # arrays of the size of theta: log2 of the number for each task in flight


def test_chunks_are_read_as_they_are_needed(threads):
    started = []

    def chunks():
        for i in range(200):
            started.append(i)
            yield float(i)

    def f(theta, chunk):
        assert len(started) <= chunk + 2 * 2 * 3 * 70
        return theta * chunk

    loss = sum_over(f, chunks, workers=threads)
    assert loss(1.0) == 199 * 100


# ---- errors


def test_errors_name_the_chunk(pool, threads):
    for workers in (None, threads, pool, pool.map):
        with pytest.raises(ValueError, match="no data") as caught:
            sum_over(functions.fails_late, range(20), workers=workers)(1.0)
        assert any("chunk 5 of sum_over(fails_late)" in note for note in caught.value.__notes__)
    # a worker in which tblib is active can send the error itself
    with pytest.raises((RuntimeError, functions.Unpicklable), match="a b") as caught:
        sum_over(functions.fails_with_an_error_that_does_not_pickle, [1], workers=pool)(1.0)
    assert "chunk 0" in caught.value.__notes__[0]
    with pytest.raises(FileNotFoundError) as caught:
        sum_over(functions.logistic, ["missing.npy"], workers=pool)(THETA)
    assert "chunk 0" in caught.value.__notes__[0]


def test_results_of_another_shape_are_refused(pool):
    for workers in (None, pool):
        for apply in (lambda f: f(THETA), lambda f: wg.jacobian(f, THETA, mode="reverse")):
            with pytest.raises(ValueError, match=r"shape"):
                apply(sum_over(functions.other_shape, range(6), workers=workers))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, [1]), TypeError, "expected a function"),
        ((np.dot, iter([1])), TypeError, "more than once"),
        ((np.dot, 3), TypeError, "more than once"),
        ((np.dot, "data.npy"), TypeError, r"such as \['data.npy'\]"),
        ((np.dot, [1], 0), ValueError, "positive number"),
        ((np.dot, [1], True), TypeError, "executor with submit"),
        ((np.dot, [1], "all"), TypeError, "executor with submit"),
    ],
)
def test_wrong_arguments_raise(arguments, error, message):
    f, chunks, *workers = arguments
    with pytest.raises(error, match=message):
        sum_over(f, chunks, workers=workers[0] if workers else None)


def test_wrong_values_raise():
    with pytest.raises(ValueError, match="there are no chunks"):
        sum_over(np.multiply, [])(1.0)
    with pytest.raises(TypeError, match="real and imaginary parts"):
        sum_over(np.multiply, [1.0])(1j)
    with pytest.raises(TypeError, match="real and imaginary parts"):
        sum_over(lambda t, c: t * 1j, [1.0])(1.0)
    with pytest.raises(ValueError, match="of one length"):
        split_rows(X, Y[:-1], rows=2)


def test_functions_that_do_not_pickle(monkeypatch, pool):
    from wengert.distributed import workers

    monkeypatch.setattr(workers, "_cloudpickle", lambda: None)
    with pytest.raises(TypeError, match="install cloudpickle"):
        sum_over(lambda t, c: t, [1], workers=pool)
    with pytest.raises(TypeError, match=r"chunk 0 .* a function that loads it"):
        sum_over(functions.fails_late, [threading.Lock()], workers=pool)(1.0)


def test_sums_within_sums(pool):
    inner = sum_over(functions.logistic, [*CHUNKS][:3], workers=2)
    outer = sum_over(functools.partial(functions.scaled, inner), [1.0, 2.0, 4.0], workers=pool)
    assert_rounding(wg.hessian(outer, THETA), 7.0 * wg.hessian(inner, THETA))
    inner.close()


def test_other_version_in_a_worker_is_an_error():
    from wengert.distributed import workers

    parcel = workers.packed(functions.Stored(X), "f")
    with pytest.raises(RuntimeError, match=r"driver has version 0\.0\.1: install the same one"):
        workers.held(parcel._replace(key="another", version="0.0.1"))
    assert isinstance(workers.held(parcel), functions.Stored)


def test_mapped_file_that_a_worker_does_not_find(tmp_path, pool):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    loss = sum_over(functions.logistic, [*split_rows(mapped, Y, rows=20)], workers=pool)
    (tmp_path / "x.npy").rename(tmp_path / "moved.npy")
    with pytest.raises(FileNotFoundError) as caught:
        loss(THETA)
    assert "task that starts at" in caught.value.__notes__[0]


def test_lambdas_are_sent_by_cloudpickle(pool):
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    scale = 3.0
    loss = sum_over(lambda t, c: scale * np.sum(t * c), [lambda: 1.0, lambda: 2.0], workers=pool)
    assert np.array_equal(wg.grad(loss, THETA), np.full(5, 9.0))


def test_derivative_of_what_f_reads_from_outside_is_refused(threads):
    sums = {
        "read": lambda a, workers: sum_over(lambda t, c: a * t * c, [1.0, 2.0], workers=workers)(2.0),
        "read, and passed": lambda a, workers: sum_over(lambda t, c: a * t * c, [1.0], workers=workers)(a),
        "in chunks": lambda a, workers: sum_over(lambda t, c: t * c, [a, a], workers=workers)(2.0),
    }
    for outer, workers in itertools.product(sums.values(), (None, threads)):
        for op in (wg.grad, functools.partial(wg.jacobian, mode="forward")):
            with pytest.raises((TypeError, wg.LevelError)) as caught:
                op(functools.partial(outer, workers=workers), 3.0)
            assert "with respect to theta alone" in str([caught.value, getattr(caught.value, "__notes__", "")])


def test_traced_value_is_refused_after_calls_without_one():
    held = [1.0]
    loss = sum_over(lambda t, c: held[0] * np.sum(t * c), [1.0])

    def outer(a):
        held[0] = a
        return loss(a * THETA)

    wg.grad(loss, THETA)
    for op in (wg.grad, wg.hessian, functools.partial(wg.jacobian, mode="forward")):
        with pytest.raises((TypeError, wg.LevelError), match=r"traced value|another derivative"):
            op(outer, 3.0)


def test_compiled_functions_run_the_sum_eagerly_and_say_so():
    loss = sum_over(functions.logistic, CHUNKS)
    for f, expected in ((wg.grad(loss), wg.grad(loss, THETA)), (lambda t: 2.0 * loss(t), 2.0 * loss(THETA))):
        compiled = wg.compile(f)
        with pytest.warns(wg.CompileWarning, match="uncompiled"):
            found = [compiled(THETA) for _ in range(5)]
        assert all(np.array_equal(each, expected) for each in found)
    with pytest.raises(TypeError, match="compile the summand instead"):
        wg.record(loss, THETA)
    with pytest.raises(TypeError, match="compile the summand instead"):
        wg.sparsity(loss, THETA)
    assert_rounding(wg.jacobian(loss, THETA, sparse=True).toarray(), wg.grad(loss, THETA)[None])


def test_series_are_refused_and_batches_are_loops():
    loss = sum_over(functions.logistic, CHUNKS)
    points = np.stack([THETA, 2 * THETA])
    assert_rounding(wg.vmap(loss)(points), [loss(each) for each in points])
    assert_rounding(wg.vmap(wg.grad(loss))(points), [wg.grad(loss, each) for each in points])
    with pytest.raises(TypeError, match="sum the series of the summand"):
        wg.taylor(loss, THETA, THETA, 2)
    series = sum_over(lambda x, chunk: wg.taylor(functions.logistic, x, THETA, 2, args=(chunk,)), CHUNKS)(THETA)
    assert_rounding(series[2], 0.5 * THETA @ wg.hessian(loss, THETA) @ THETA)


# ---- lost workers


def test_sum_goes_on_after_a_worker_is_killed(tmp_path):
    def chunks(name):
        return [(i, str(tmp_path / name)) for i in range(12)]

    (tmp_path / "done").touch()
    expected = sum_over(functions.dies_once, chunks("done"))(THETA)
    with sum_over(functions.dies_once, chunks("first"), workers=2) as loss:
        assert np.array_equal(loss(THETA), expected)
    assert (tmp_path / "first").exists()


def test_loky_goes_on_after_a_worker_is_killed(tmp_path):
    loky = pytest.importorskip("loky", reason="loky is not installed")

    def chunks(name):
        return [(i, str(tmp_path / name)) for i in range(12)]

    (tmp_path / "done").touch()
    expected = sum_over(functions.dies_once, chunks("done"))(THETA)
    loss = sum_over(functions.dies_once, chunks("first"), workers=loky.get_reusable_executor(2, initializer=int))
    assert np.array_equal(loss(THETA), expected) and np.array_equal(loss(THETA), expected)
    executor = loky.get_reusable_executor(reuse=True)
    assert executor is loss._engine.executor and executor._initializer is int
    with pytest.raises(concurrent.futures.BrokenExecutor, match=r"ended 4 times"):
        sum_over(functions.dies, [1.0], workers=executor)(1.0)
    loky.get_reusable_executor(2).shutdown(kill_workers=True)


def test_executor_that_cannot_be_started_again_says_so():
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        with pytest.raises(concurrent.futures.BrokenExecutor) as caught:
            sum_over(functions.dies, [1.0, 2.0], workers=executor)(1.0)
        assert "workers= as a number" in caught.value.__notes__[0]


def test_workers_that_always_die_are_an_error():
    with (
        sum_over(functions.dies, [1.0, 2.0], workers=2) as loss,
        pytest.raises(concurrent.futures.BrokenExecutor, match=r"ended 4 times.*start at 0"),
    ):
        loss(1.0)


def test_processes_are_kept_between_calls_and_end_with_the_sum():
    before = multiprocessing.active_children()
    with sum_over(functions.process_of, range(8), workers=2) as loss:
        first, second = loss([0.0]), loss([0.0])
        assert len(first) == len(second) == 2
        children = [each for each in multiprocessing.active_children() if each not in before]
        assert len(children) == 2
    for process in children:
        process.join(20)
        assert not process.is_alive()


INTERRUPTED = """
import os, signal, sys, threading, time, _thread
sys.path.insert(0, {folder!r})
import multiprocessing, distributed_functions as functions
from wengert.distributed import sum_over
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore interrupts of jobs in the background

    def interrupt():
        while not os.path.exists({started!r}):
            time.sleep(0.1)
        time.sleep(1.0)
        _thread.interrupt_main()

    loss = sum_over(functions.slow, [dict(started={started!r})] * 8, workers=2)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        loss(1.0)
    except KeyboardInterrupt:
        print("interrupted", len(multiprocessing.active_children()), flush=True)
"""


def test_interrupt_leaves_no_worker_busy(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED.format(folder=os.path.dirname(__file__), started=str(tmp_path / "started")))
    # a worker would sleep for two minutes
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.split() == ["interrupted", "0"], done.stderr


KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
import multiprocessing, distributed_functions as functions
from wengert.distributed import sum_over
if __name__ == "__main__":
    loss = sum_over(functions.process_of, range(8), workers=2)
    loss([0.0])
    print(*(each.pid for each in multiprocessing.active_children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_workers_end_with_a_driver_that_is_killed(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(KILLED.format(folder=os.path.dirname(__file__)))
    # workers hold the other end of the pipe, so this ends with them
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    assert len(done.stdout.split()) == 2, done.stderr


def test_interrupt_while_a_task_is_submitted_leaves_no_worker_busy(monkeypatch):
    before, submit = multiprocessing.active_children(), concurrent.futures.ProcessPoolExecutor.submit

    def interrupted(self, *args):
        submit(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.ProcessPoolExecutor, "submit", interrupted)
    loss = sum_over(functions.slow, range(8), workers=2)
    with pytest.raises(KeyboardInterrupt):
        loss(1.0)
    assert not [each for each in multiprocessing.active_children() if each not in before]


def test_progress_counts_chunks(capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    sum_over(functions.logistic, CHUNKS, progress=True)(THETA)
    assert "11/11" in capsys.readouterr().err


# ---- plans


def test_simulation_agrees_with_closed_forms():
    one = simulate(64, 1, seconds=1.0, size=0, latency=0.0)
    assert one.seconds == 64 and one.efficiency == 1 and one.depth == 6
    assert simulate(64, 64, seconds=1.0, size=0, latency=0.0).seconds == 1
    assert simulate(65, 64, seconds=1.0, size=0, latency=0.0).seconds == 2
    bound = simulate(1000, 100, seconds=0.0, size=1000, latency=1e-3, bandwidth=1e6)
    assert bound.seconds == pytest.approx(1000 * (1e-3 + 2e-3))  # the driver alone
    assert bound.sent == bound.received == 1_000_000
    with pytest.raises(ValueError, match="power of 2"):
        simulate(10, 1, seconds=1.0, size=1, per_task=3)


def test_plan_of_a_billion_rows_is_efficient():
    """10^9 rows in chunks of 10^5: the driver's time limits the workers unless workers add up their chunks."""
    chunks, size = 10_000, 8 * 10_001
    plans = {k: simulate(chunks, 1000, seconds=1.0, size=size, per_task=k, jitter=0.2) for k in (1, 4)}
    assert plans[1].efficiency > 0.7 and plans[1].depth == 14
    assert plans[4].received < plans[1].received / 3.9
    assert max(plan.max_nodes for plan in plans.values()) < 2000
    small = {n: simulate(chunks, n, seconds=0.02, size=size).efficiency for n in (1, 10, 1000)}
    assert small[1] > 0.9 and small[10] > 0.8 and small[1000] < 0.05
