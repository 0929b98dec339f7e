"""Stencil fusion turns arrays accumulated slice by slice into one sum per region; constant results are cached."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.program.ir.printer import printed
from wengert.program.ir.verify import check
from wengert.program.passes import cost, simplify, stencil_fusion
from wengert.program.vm import machine as vm


@pytest.fixture
def always(monkeypatch):
    """Fuse sums wherever possible, however small the gain."""
    costs = cost.RegionCosts(1e9, 0.0, 0.1, 1.0, 1.0, 1.0)
    monkeypatch.setattr(cost, "REGIONS_ON_VM", costs)
    monkeypatch.setattr(cost, "REGIONS_COMPILED", costs)
    monkeypatch.setattr(stencil_fusion, "_MIN_SAVED_PER_SLICE", 0.0)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def curvature(x):
    return np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2 * np.exp(-(x[1:-1] ** 2)))


def burgers(u):
    u = u.copy()
    for _ in range(3):
        u[1:-1] = u[1:-1] - 0.1 * u[1:-1] * (u[2:] - u[:-2]) + 0.05 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u**2)


def strided(x):
    even, odd = x[::2], x[1::2]
    return np.sum((even[1:] - even[:-1]) ** 2) + np.sum(odd[::-1] * odd)


def masked(x):
    return np.sum(np.where(x[1:] > x[:-1], x[1:] * x[:-1], np.sin(x[:-1])))


def five_points(u):
    around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
    return np.sum((around - 4.0 * u[1:-1, 1:-1] + 0.1 * np.exp(u[1:-1, 1:-1])) ** 2)


def nine_points(u):
    n, m = u.shape
    near = [u[1 + i : n - 1 + i, 1 + j : m - 1 + j] for i in (-1, 0, 1) for j in (-1, 0, 1)]
    return np.sum(sum((k + 1.0) * part for k, part in enumerate(near)) ** 3)


def neumann(u):
    u = u.copy()
    for _ in range(2):
        c = u[1:-1, 1:-1]
        u[1:-1, 1:-1] = c + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * c) * c
        u[0, :], u[-1, :] = u[1, :], u[-2, :]
        u[:, 0], u[:, -1] = u[:, 1], u[:, -2]
    return np.sum(u**2)


def padded(x):
    u = np.zeros((x.shape[0] + 2, x.shape[1] + 2))
    u[1:-1, 1:-1] = x
    return np.sum((u[:-2, 1:-1] * u[2:, 1:-1] + u[1:-1, :-2] - u[1:-1, 2:].T.T) ** 2)


def transposed(u):
    return np.sum((u.T[1:] - u.T[:-1]) ** 2) + np.sum(u[1:] * u[:-1])


def cube(u):
    inner = slice(1, -1)
    return np.sum((u[2:, inner, inner] - u[:-2, inner, inner] + u[inner, 2:, inner] * u[inner, inner, :-2]) ** 2)


def rolled(x):
    return np.sum((np.roll(x, -1) + np.roll(x, 2)) * np.roll(x, 1) * x)


def rolled_planes(u):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return np.sum((around - 4.0 * u) ** 2 * np.cos(u))


LINES = [rosenbrock, curvature, burgers, strided, masked, rolled]
PLANES = [five_points, nine_points, neumann, padded, transposed, rolled_planes]
CASES = [(f, (n,)) for f in LINES for n in (3, 4, 5, 16, 511, 512, 513, 1100)]
CASES += [(f, shape) for f in PLANES for shape in ((3, 3), (4, 3), (6, 9), (34, 21), (67, 70))]
CASES += [(cube, shape) for shape in ((3, 3, 3), (6, 5, 7))]


def point(shape, seed=0):
    return np.random.default_rng(seed).uniform(-1.5, 1.5, shape)


@pytest.mark.parametrize(("f", "shape"), CASES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_gradients_equal_eager_mode_with_split_sums(f, shape, always):
    x = point(shape)
    program = wg.record(f, x).grad()
    for at in (x, point(shape, 1)):
        np.testing.assert_allclose(program(at), wg.grad(f)(at), rtol=1e-11, atol=1e-11)
    check(program._lowered_ir())


@pytest.mark.parametrize("f", [*LINES, *PLANES, cube], ids=lambda f: f.__name__)
def test_native_code_agrees_with_split_sums(f, always):
    pytest.importorskip("llvmlite")
    x = point((40,) if f in LINES else (9, 12) if f in PLANES else (5, 6, 7))
    program = wg.record(f, x).grad()
    np.testing.assert_allclose(program.tiered("llvm")(x), program(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_empty_slices_add_nothing(n, always):
    f = lambda x: np.sum(x[1:] * x[:-1]) + np.sum(x**2) + np.sum(x[3:] * x[:-3])
    x = point((n,))
    assert np.array_equal(wg.record(f, x).grad()(x), wg.grad(f)(x))


def slices_of(length, n):
    """Draw slices with a given number of elements along an axis of length n."""
    step = st.sampled_from([1, 1, 1, -1, 2])
    return step.flatmap(lambda k: first_of(length, n, k).map(lambda a: sliced(a, length, k)))


def first_of(length, n, step):
    span = (length - 1) * abs(step)
    if span >= n:
        return st.nothing()
    return st.integers(0, n - 1 - span) if step > 0 else st.integers(span, n - 1)


def sliced(first, length, step):
    stop = first + length * step
    return slice(first, None if stop < 0 else stop, step)


@st.composite
def functions(draw):
    """Draw a shape, and a function of an array of that shape: sums of products of slices, some overwritten."""
    shape = draw(st.sampled_from([(7,), (12,), (5, 6), (4, 9)]))
    terms = []
    for _ in range(draw(st.integers(1, 4))):
        lengths = [draw(st.integers(1, n // 2)) for n in shape]
        parts = [tuple([draw(slices_of(k, n)) for k, n in zip(lengths, shape)]) for _ in range(draw(st.integers(2, 3)))]
        terms.append((draw(st.sampled_from(["product", "sine", "write", "add"])), parts))

    def f(x):
        y, total = x * 1.0, 0.0
        for word, parts in terms:
            if word == "write":
                y[parts[0]] = y[parts[1]] * x[parts[0]]
            elif word == "add":
                y[parts[0]] += 0.5 * y[parts[1]]
            else:
                part = y[parts[0]] * y[parts[-1]]
                total = total + np.sum(np.sin(part) if word == "sine" else part * x[parts[1]])
        return total + np.sum(y**2)

    return shape, f


@settings(max_examples=120, deadline=None)
@given(functions())
def test_gradients_of_random_slices_equal_eager_mode(case):
    shape, f = case
    x = point(shape, 3)
    program = wg.record(f, x).grad()
    costs = cost.RegionCosts(1e9, 0.0, 0.1, 1.0, 1.0, 1.0)
    code = stencil_fusion._StencilFusion(simplify.lowered(program._vectorised_ir()), costs).run()
    check(code)
    expected = wg.grad(f)(x)
    (found,) = vm.Machine(code).run([x])
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(program(x), expected, rtol=1e-11, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_arrays_assigned_slice_by_slice_are_complete(data):
    shape = data.draw(st.sampled_from([(9,), (5, 6)]))
    cuts = [sorted({0, n, *data.draw(st.lists(st.integers(1, n - 1), max_size=2))}) for n in shape]
    parts = list(itertools.product(*[[slice(*pair) for pair in itertools.pairwise(ends)] for ends in cuts]))
    parts = data.draw(st.permutations(parts))[data.draw(st.integers(0, 1)) :]  # the whole array, or almost
    reads = data.draw(st.booleans())

    def f(x):
        y = np.zeros(shape)
        for k, part in enumerate(parts):
            y[part] = np.sin(x[part]) * (k + 1.0) + (np.sum(y) if reads and k == 2 else 0.0)
        return y

    x = point(shape)
    for exact in (False, True):
        np.testing.assert_allclose(wg.record(f, x, exact=exact)(x), f(x), rtol=1e-13, atol=1e-13)
    assert np.array_equal(wg.record(f, x, exact=True)(x), f(x))


def test_each_element_is_one_sum_without_zero_fill():
    x = point((200_000,))
    program = wg.record(rosenbrock, x).grad()
    kernels = program.explain().kernels
    assert [kernel.elements for kernel in kernels] == [x.size - 2, 1]
    assert (kernels[0].read, kernels[0].written) == (24, 8)  # three shifts of x
    assert "empty.at[" in str(program)  # differentiation uses the code without fusion


def test_short_arrays_are_fused_if_code_runs_often_per_call(monkeypatch):
    x = point((600,))
    code = simplify.lowered(wg.record(lambda x: burgers(burgers(x) * x), x).grad()._vectorised_ir())
    assert stencil_fusion.fuse_stencils(code, runs=100) is not code
    monkeypatch.setattr(stencil_fusion, "_StencilFusion", None)  # fusion is not attempted, despite the many slices
    assert stencil_fusion.fuse_stencils(code) is code


def test_expensive_subexpression_is_computed_once():
    x = point((200_000,))
    lines = printed(wg.record(curvature, x).grad()._lowered_ir(), max_lines=1000).splitlines()
    assert len([line for line in lines if "[199996]" in line and "= add" in line]) > 1
    assert len([line for line in lines if "= exp(" in line and "float64[1]" not in line]) == 1


def test_exact_program_sums_in_order_of_eager_sweep(always):
    x = point((513,))
    program = wg.record(rosenbrock, x, exact=True).grad()
    assert np.array_equal(program(x), wg.grad(rosenbrock)(x))


# ---------------------------------------------------------------------------------------------- cached results


class Linear:
    """A weighted sum of an array after two smoothing steps."""

    def __init__(self, shape):
        self.weights = point(shape, 5)
        self.factor = 0.25

    def loss(self, x):
        A = x.copy()
        for _ in range(2):
            A[1:-1] = self.factor * (A[:-2] + 2.0 * A[1:-1] + A[2:])
            for i in range(1, 5):
                A[i] = (A[i - 1] + A[i] + A[i + 1]) / 3.0
        return np.sum(self.weights * A)


def test_gradient_of_linear_function_follows_captured_state():
    model, x = Linear((40,)), point((40,))
    g = wg.grad(wg.compile(model.loss, recheck=None))
    for change in (None, "weights", None, "factor", "sign", None):
        if change == "weights":
            model.weights[3] += 1.0
        elif change == "factor":
            model.factor = 0.5
        elif change == "sign":
            model.weights[7] = -0.0
        for seed in range(3):
            at = point((40,), seed)
            found = g(at)
            np.testing.assert_allclose(found, wg.grad(model.loss)(at), rtol=1e-13)
            found[...] = np.nan  # the caller owns the result
            out = np.empty(40)
            assert g(at, out=out) is out
            np.testing.assert_allclose(out, wg.grad(model.loss)(x), rtol=1e-13)


def test_expensive_result_independent_of_some_inputs_is_cached():
    model, x = Linear((40,)), point((40,))
    linear, squared = wg.record(model.loss, x), wg.record(lambda x: model.loss(x) ** 2, x)
    assert linear.grad()._vm.keeps
    assert "result cached until" in repr(linear.grad().explain())
    assert not squared.grad()._vm.keeps
    assert not linear._vm.keeps
    assert not wg.record(lambda x: np.sum(2.0 * x), x).grad()._vm.keeps  # as cheap as comparing inputs


def test_result_that_changes_in_each_call_is_no_longer_cached():
    model, x = Linear((40,)), point((40,))
    machine = wg.record(lambda x, w: np.sum(w * model.loss(x)), x, args=(x,)).grad()._vm
    assert machine.keeps
    for seed in range(20):
        w = point((40,), seed)
        (found,) = machine.run([x, w])
        np.testing.assert_allclose(found, np.sum(w) * wg.grad(model.loss)(x), rtol=1e-12)
    assert not machine.keeps
