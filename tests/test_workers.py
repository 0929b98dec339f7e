"""``workers=`` of jacobian, hessian and vmap: the same values, plans, and errors."""

import concurrent.futures
import functools
import multiprocessing
import pickle

import numpy as np
import pytest

import distributed_functions as functions
import wengert as wg
from helpers import assert_rounding
from wengert.distributed import operators
from wengert.scipy import optimize

X = np.linspace(-1.0, 1.0, 130)


@pytest.fixture(scope="module")
def pool():
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def threads():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def always(monkeypatch):
    """Workers are used whatever they cost."""
    monkeypatch.setattr(operators, "MAX_RELATIVE_TIME", np.inf)


@pytest.fixture
def slow_to_start(monkeypatch):
    """A task costs a minute, so that no delay on a busy machine makes workers worthwhile for small work."""
    monkeypatch.setattr(operators, "IN_THREAD", 60.0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("options", [{}, {"mode": "forward"}, {"mode": "reverse"}, {"chunk": 7}, {"value": True}])
@pytest.mark.parametrize("compiled", [False, True])
def test_jacobian_on_workers_is_the_jacobian(threads, options, compiled):
    f = wg.compile(functions.wide) if compiled else functions.wide
    J = wg.jacobian(f, workers=threads, **options)
    found, expected = J(X), wg.jacobian(functions.wide, X)
    if options.get("value"):
        assert_rounding(found[0], functions.wide(X))
        found = found[1]
    assert_rounding(found, expected)
    assert J.plan.blocks > 1
    assert J.plan.workers == (0 if compiled and J.plan.mode == "reverse" else 2)


@pytest.mark.usefixtures("always")
def test_bits_do_not_depend_on_the_workers(pool, threads):
    for op, f in ((wg.jacobian, functions.wide), (wg.hessian, functions.curved)):
        with concurrent.futures.ThreadPoolExecutor(4) as four:
            found = {op(f, X, workers=each).tobytes() for each in (pool, threads, four, pool.map)}
        assert len(found) == 1


@pytest.mark.usefixtures("always")
def test_hessian_on_workers_is_the_hessian(threads):
    for f in (functions.curved, wg.compile(functions.curved)):
        H = wg.hessian(f, workers=threads)
        found = H(X)
        assert H.plan.workers == 2 and np.array_equal(found, found.T)
        assert_rounding(found, wg.hessian(functions.curved, X))
    out = np.zeros((130, 130))
    assert H(X, out=out) is out and np.array_equal(out, found)
    with pytest.raises(ValueError, match="out= has shape"):
        H(X, out=np.zeros(3))
    with pytest.raises(TypeError, match="single number"):
        wg.hessian(functions.wide, X, workers=threads)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("options", [{"mode": "forward"}, {"mode": "reverse"}, {"mode": "mixed"}, {"value": True}])
def test_sparse_jacobian_on_workers_is_the_sparse_jacobian(threads, pool, options):
    f = functools.partial(functions.banded, width=12)
    J, plain = wg.jacobian(f, sparse=True, workers=threads, **options), wg.jacobian(f, sparse=True, **options)
    for x in (X, X + 0.5, X - 0.5):
        found, expected = J(x), plain(x)
        if options.get("value"):
            assert_rounding(found[0], expected[0])
            found, expected = found[1], expected[1]
        assert_rounding(found.toarray(), expected.toarray())
    if J.plan.colours is None:
        assert J.divisions == [] and "no products to divide" in repr(wg.explain(J, X))
        return
    assert J.divisions[0].workers == 2 and J.divisions[0].blocks > 1
    assert "blocks in 2 workers" in repr(wg.explain(J, X))
    others = [wg.jacobian(f, sparse=True, workers=each, **options) for each in (pool, pool.map, 3)]
    for other in others:
        assert all(np.array_equal(other(X).data, J(X).data) for _ in range(3))
    others[-1].close()
    assert_rounding(pickle.loads(pickle.dumps(J))(X).toarray(), plain(X).toarray())


@pytest.mark.usefixtures("always")
def test_sparse_hessian_on_workers_and_guards_that_fail(threads):
    given = wg.hessian(functions.switched, sparse=True)(X).astype(bool)
    H = wg.hessian(functions.switched, sparse=wg.colouring(given, kind="star"), workers=threads)
    plain = wg.hessian(functions.switched)
    for x in (X, X + 0.1, X + 0.2, X - 3.0, X - 3.1, X - 3.2, X + 5.0, X):  # the branch changes
        assert_rounding(H(x).toarray(), plain(x))
    assert H.divisions[0].workers == 2


@pytest.mark.usefixtures("always")
def test_jacobians_on_workers_accept_all_shapes_and_arguments(threads):
    x = np.linspace(0.0, 1.0, 80).reshape(40, 2)
    J = wg.jacobian(functions.in_two_axes, workers=threads, chunk=9)
    assert J(x).shape == (3, 40, 40, 2)
    assert_rounding(J(x), wg.jacobian(functions.in_two_axes, x))

    def f(t, x, rate):
        return np.sin(rate * x) * t

    found = wg.jacobian(f, argnums=1, workers=threads, chunk=9)(2.0, X, rate=3.0)
    assert_rounding(found, wg.jacobian(f, argnums=1)(2.0, X, rate=3.0))
    assert_rounding(wg.jacobian(f, argnums=0, workers=threads)(2.0, X, rate=3.0), np.sin(3.0 * X))
    assert_rounding(wg.jacobian(f, argnums=-1, workers=threads)(2.0, X, rate=3.0), found)
    assert_rounding(
        wg.jacobian(lambda x, c: x * c[0][0], X, args=([[2.0], [1.0, 3.0]],), workers=threads), 2 * np.eye(130)
    )


@pytest.mark.usefixtures("always")
def test_number_of_workers_is_threads_for_compiled_functions():
    J = wg.jacobian(wg.compile(functions.wide), workers=2, mode="forward")
    assert isinstance(J.engine, operators.Threads)
    for _ in range(2):
        assert_rounding(J(X), wg.jacobian(functions.wide, X))
        J.close()
    assert J.plan.workers == 2
    assert not isinstance(wg.jacobian(functions.wide, workers=2).engine, operators.Threads)


@pytest.mark.usefixtures("slow_to_start")
def test_small_work_stays_in_the_calling_thread(threads):
    J = wg.jacobian(np.sin, workers=threads)
    assert_rounding(J(X), np.diag(np.cos(X)))
    assert J.plan.workers == 0 and J.plan.seconds_here < J.plan.seconds_there
    assert "this thread" in repr(wg.explain(J, X)) and "workers would not be faster" in repr(wg.explain(J, X))
    J = wg.jacobian(np.sin, workers=1)
    assert_rounding(J(X), np.diag(np.cos(X)))
    assert J.plan.reason == "no workers"


def test_large_work_goes_to_the_workers(threads):
    J = wg.jacobian(functions.slow_and_wide, workers=threads, mode="forward")
    assert "5 blocks in 2 workers" in repr(wg.explain(J, X))
    assert J.plan.seconds_there < J.plan.seconds_here


@pytest.mark.usefixtures("always")
def test_within_other_derivatives_there_are_no_workers(threads):
    J = wg.jacobian(lambda x: x**3, workers=threads, chunk=1)
    x = np.array([1.0, 2.0, 3.0])
    assert_rounding(wg.jacobian(J, x), wg.jacobian(wg.jacobian(lambda x: x**3), x))
    assert_rounding(wg.compile(J)(x), np.diag(3 * x**2))
    assert_rounding(pickle.loads(pickle.dumps(wg.jacobian(np.sin, workers=threads)))(x), np.diag(np.cos(x)))


def test_options_that_workers_do_not_take(threads):
    for options in ({"has_aux": True}, {"argnums": (0, 1)}, {"holomorphic": True}):
        with pytest.raises(ValueError, match="workers= needs a single argnums"):
            wg.jacobian(np.sin, workers=threads, **options)
    with pytest.raises(ValueError, match="mode is 'auto' or 'mixed'"):
        wg.hessian(np.sin, workers=threads, mode="forward")
    with pytest.raises(TypeError, match=r"wengert\.ravel"):
        wg.jacobian(lambda p: p["a"], workers=threads)({"a": X})
    with pytest.raises(TypeError, match="array as result"):
        wg.jacobian(lambda x: {"a": x}, workers=threads)(X)


# ---- vmap


@pytest.mark.usefixtures("always")
def test_batch_on_workers_is_the_batch(pool, threads):
    points = np.random.default_rng(0).normal(size=(37, 5))
    axes = {"y": 1, "n": 0}
    expected = wg.vmap(functions.start_dependent, in_axes=(0, None), out_axes=axes)(points, 2.0)
    for workers in (pool, threads, pool.map):
        f = wg.vmap(functions.start_dependent, in_axes=(0, None), out_axes=axes, workers=workers)
        found = f(points, 2.0)
        assert found["y"].shape == (5, 37) and np.array_equal(found["y"], expected["y"])
        assert np.array_equal(found["n"], expected["n"])
        assert f.plan.workers > 0
    gradients = wg.vmap(wg.grad(np.prod), workers=threads)
    assert np.array_equal(gradients(points), wg.vmap(wg.grad(np.prod))(points))
    assert_rounding(wg.jacobian(lambda p: gradients(p), points[:3]), wg.jacobian(wg.vmap(wg.grad(np.prod)), points[:3]))


def test_workers_run_batches_of_a_compiled_solver(threads):
    from wengert.scipy.optimize import root

    solve = wg.compile(lambda a: root(lambda x: x**3 + x - a, np.ones(2), method="newton").x)
    points = np.linspace(1.0, 2.0, 6).reshape(3, 2)
    found = wg.vmap(solve, workers=threads)
    for some in (points, points[:1]):
        x = found(some)
        assert_rounding(x**3 + x, some)
    assert wg.jacobian(found, points).shape == (3, 2, 3, 2)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_starts_of_a_solver_on_workers(threads, always, is_compiled):
    """Many starts and parameters at once, a batch in each block; the errors name elements of the whole batch."""

    def root(start, p):
        return optimize.root(lambda x: x**2 - p, start, method="newton").x

    starts, p = np.linspace(1.0, 3.0, 640)[:, None], np.linspace(2.0, 5.0, 640)
    found = wg.vmap(wg.compile(root) if is_compiled else root, workers=threads)
    np.testing.assert_allclose(found(starts, p)[:, 0], p**0.5, rtol=1e-12)
    assert found.plan.workers == 2
    p[[7, 300, 301]] = -1.0
    if not is_compiled:
        assert np.abs(found(starts, p)[[8, 299], 0] - p[[8, 299]] ** 0.5).max() < 1e-9
        return
    with pytest.raises(wg.ConvergenceError, match="element 7 of a batch of 80"):
        found(starts, p)
    p[7] = 2.0
    with pytest.raises(wg.ConvergenceError, match=r"from 240 on.*elements 60, 61 of a batch of 80") as caught:
        found(starts, p)
    assert caught.value.elements.tolist() == [300, 301]


@pytest.mark.usefixtures("slow_to_start")
def test_small_batch_stays_in_the_calling_thread(threads):
    f = wg.vmap(np.sum, workers=threads)
    points = np.arange(300.0).reshape(100, 3)
    assert np.array_equal(f(points), np.sum(points, axis=1))
    assert f.plan.workers == 0 and "this thread" in repr(wg.explain(f, points))
    assert f(points[:1]).shape == (1,)
