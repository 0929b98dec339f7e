"""vmap is a loop over the batch, run as one call if that is equivalent; axes, containers, derivatives."""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebval
from numpy.polynomial.polynomial import polygrid2d

import wengert as wg
from helpers import assert_rounding, assert_same_bits, rows_of_numpy

RNG = np.random.default_rng(62)
P = RNG.uniform(0.5, 1.5, (4, 3))
A = RNG.standard_normal((4, 3, 3)) + 4 * np.eye(3)
C = RNG.standard_normal((3, 3))


def branching(x):
    return np.sum(x**2) if x[0] > 1 else np.prod(x)


def writing(x):
    x[0] = 2 * x[1]
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] * x[i - 1]
    return out


def views(a):
    b = a.T.reshape(-1)  # a copy
    c = a.reshape(9)  # a view
    b[0] = 7.0
    c[1:4] *= a[0, 0]
    a[..., 2] += c[::4]
    return a + b[:3]


def layouts(a):
    """Write through views that exist only for the memory layout that NumPy gives each array."""
    total = 0.0
    for y in (
        a.T.copy(), a.copy("F"), a.T.astype(float, "C"), np.asarray(a.T, order="C"), np.zeros_like(a.T) + a,
        np.array([a.T, a.T]), 2 * a.T, a.T.astype(np.float32),
    ):
        y.reshape(-1)[0] = 7 * a[0, 1]
        total = total + y
    return total


#: functions that return views, which are written through
VIEWS = {
    "real part": lambda a: a.real,
    "function of the real part": np.real,
    "one axis more": np.atleast_3d,
    "diagonal": lambda a: np.einsum("ii->i", a),
    "transposed": lambda a: np.einsum("ij->ji", a),
    "trimmed": lambda a: np.trim_zeros(a[0]),
    "without NaN": lambda a: np.nan_to_num(a, copy=False),
    "rows of a transposed copy": lambda a: a.T[[0, 1]].reshape(-1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_writes_through_views(name):
    def f(a):
        a = 2 * a
        y = VIEWS[name](a)
        y[..., 0] = 7 * a[1, 2]
        return a + np.sum(y)

    assert_rounding(wg.vmap(f)(A), looped(f, (A,), 0))
    assert_rounding(wg.jacobian(wg.vmap(f), A[:1])[0][:, :, 0], wg.jacobian(f, A[0]))


#: cases in which elements take different branches
APART = {"a branch", "indices"}

#: function, arguments, in_axes: each is compared with a loop in plain NumPy
CASES = {
    "elementwise": (lambda x: np.sin(x) * x, (P,), 0),
    "a number": (lambda x: np.sum(np.exp(x)), (P,), 0),
    "of numbers": (lambda x: x * x + 1, (P[:, 0],), 0),
    "a branch": (branching, (P,), 0),
    "writes": (writing, (P,), 0),
    "product": (lambda a, x: a @ x, (A, P), 0),
    "one matrix": (lambda a, x: a @ x, (C, P), (None, 0)),
    "solve": (lambda a, x: np.linalg.solve(a, x), (A, P), 0),
    "factors": (lambda a: np.linalg.eigvalsh(a + a.T), (A,), 0),
    "reductions": (lambda a: np.stack([a.max(), a.mean(), np.median(a)]), (A,), 0),
    "along axes": (lambda a: np.cumsum(a.sum(axis=0)) - a.max(axis=-1), (A,), 0),
    "shapes": (lambda a: np.concatenate([a.T.reshape(-1)[:4], np.ravel(a[1:, :2])]), (A,), 0),
    "other axes": (lambda a, x: a @ x, (np.moveaxis(A, 0, 2), P.T), (2, -1)),
    "broadcasting": (lambda x, c: x + c, (P, C), (0, None)),
    "outer": (lambda x, y: np.outer(x, y), (P, P[::-1]), 0),
    "einsum": (lambda a, x: np.einsum("ij,j->i", a, x), (A, P), 0),
    "where": (lambda x: np.where(x > 1, x, -(x**3)), (P,), 0),
    "indices": (lambda x, i: x[i] * x[0], (P, np.array([2, 0, 1, 1])), 0),
    "a list of numbers": (lambda x: [x[0], x[1] * x[2]], (P,), 0),
    "a power of the axis": (lambda x: np.reshape(np.transpose(x[:, None] * x), 9), (P,), 0),
    "clipped": (lambda a: np.clip(a, 0.0, 1.0) - np.linalg.norm(a) + np.linalg.det(a), (A,), 0),
    "axes swapped": (lambda a: np.swapaxes(a, 0, -1)[:, [2, 0]] * a[1, 0], (A,), 0),
    "through views": (views, (A,), 0),
    "memory layouts": (layouts, (A,), 0),
    "joined": (lambda x: np.array([x[0], 1.0, x[1] * x[2]]) + np.full(3, x[0]), (P,), 0),
    "several axes": (lambda a: a.mean(axis=(0, 1), keepdims=True) + np.var(a, axis=1, ddof=1), (A,), 0),
    "complex norm": (lambda x: np.linalg.norm(np.exp(1j * x) * x), (P,), 0),
    "complex spread": (lambda x: np.std(np.exp(1j * x)) * np.var(1j * x), (P,), 0),
    "float32": (lambda x: np.exp(x), (P.astype(np.float32),), 0),
    "polynomials": (lambda x: polygrid2d(x[:2], x[1:], np.outer(x, x)) + chebval(x[:2], C[:2, :2] * x[0]), (P,), 0),
}


#: further arguments and keywords with which functions of one matrix accept a stack of matrices
AT_ONCE = {
    **{fun: [((), {}), ((1,), {}), ((), {"axis": -2})] for fun in (
        np.sum, np.prod, np.mean, np.max, np.min, np.amax, np.amin, np.any, np.all, np.std, np.var, np.median,
        np.argmax, np.argmin, np.cumsum, np.cumprod, np.sort, np.argsort)},
    **{fun: [((), {}), ((4, 0), {}), ((), {"n": 2, "axis": -2, "norm": "ortho"})] for fun in (
        np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft)},
    **{fun: [((), {})] for fun in (np.linalg.inv, np.linalg.det, np.linalg.eigvalsh, np.copy, np.linalg.norm)},
    np.linalg.cholesky: [((), {})],
    np.linalg.solve: [((P[0],), {}), ((C,), {})],
    np.matmul: [((P[0],), {}), ((C,), {})],
    np.linalg.matmul: [((P[0],), {}), ((C,), {})],
    np.dot: [((P[0],), {}), ((C,), {})],
    np.vdot: [((C,), {})],
    np.where: [((2.0, C), {})],
    np.clip: [((0.5, C + 4), {}), ((), {"max": C})],
    np.reshape: [((9,), {}), (((-1, 1),), {})],
    np.ravel: [((), {})],
    np.transpose: [((), {}), (((1, 0),), {})],
    np.swapaxes: [((0, -1), {})],
    np.expand_dims: [((-1,), {}), ((), {"axis": 1})],
    np.broadcast_to: [(((2, 3, 3),), {})],
    np.concatenate: [((), {}), ((1,), {})],
    np.stack: [((), {}), ((-1,), {})],
}  # fmt: skip


@pytest.mark.parametrize("fun", AT_ONCE, ids=lambda fun: fun.__name__)
def test_function_with_batching_rule_is_called_once(fun):
    def operand(a):
        return [a, C] if fun in (np.concatenate, np.stack) else a @ a.T if fun is np.linalg.cholesky else a

    for args, kwargs in AT_ONCE[fun]:
        f = lambda a: fun(operand(a), *args, **kwargs) * 1.0
        mapped = wg.vmap(f)
        np.testing.assert_allclose(mapped(A), looped(f, (A,), 0), rtol=1e-13, atol=1e-13)
        assert not mapped._loops


def test_every_function_with_batching_rule_is_tested():
    assert {fun for fun, row in rows_of_numpy().items() if row.batching is not None} == set(AT_ONCE)


def looped(f, args, in_axes):
    """Evaluate vmap by its definition, a loop."""
    axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
    n = next(np.shape(x)[axis] for x, axis in zip(args, axes) if axis is not None)
    rows = []
    for i in range(n):
        row = [x if axis is None else np.take(x, i, axis) for x, axis in zip(args, axes)]
        rows.append(np.asarray(f(*[r.copy() if isinstance(r, np.ndarray) else r for r in row])))
    return np.stack(rows)


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_equal_a_loop(name):
    f, args, in_axes = CASES[name]
    mapped = wg.vmap(f, in_axes)
    expected = looped(f, args, in_axes)
    found = mapped(*args)
    assert found.dtype == expected.dtype
    assert_rounding(found, expected, found.dtype)
    assert mapped._loops == (name in APART)
    if name == "factors":  # accepts one matrix at a time
        return

    def loop(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        n = next(np.shape(x)[axis] for x, axis in zip(args, axes) if axis is not None)
        found = []
        for i in range(n):
            row = [x if axis is None else np.moveaxis(x, axis, 0)[i] for x, axis in zip(args, axes)]
            y = f(*[np.copy(r) if np.ndim(r) else r for r in row])
            found.append(np.stack(y) if isinstance(y, list) else y)
        return np.stack(found)

    expected = wg.jacobian(loop, args[0], args=args[1:])
    for mode in ("forward", "reverse"):
        got = wg.jacobian(mapped, args[0], args=args[1:], mode=mode)
        assert_rounding(got, expected, found.dtype)


def test_vmap_accepts_functions_that_take_derivatives():
    def f(x, k):
        return k * np.sum(np.sin(x) * x[::-1])

    ks = np.array([1.0, 2.0, 3.0, 4.0])
    assert_rounding(wg.vmap(wg.grad(f))(P, ks), np.stack([wg.grad(f)(x, k) for x, k in zip(P, ks)]))
    assert_rounding(wg.vmap(wg.hessian(f), (0, None))(P, 2.0), np.stack([wg.hessian(f)(x, 2.0) for x in P]))
    y, dy = wg.vmap(wg.jvp(f))(P, P, ks)
    assert_rounding(y, [f(x, k) for x, k in zip(P, ks)])
    assert_rounding(dy, [wg.jvp(f, x, x, args=(k,))[1] for x, k in zip(P, ks)])
    nested = wg.jacobian(lambda P: wg.vmap(wg.grad(f), (0, None))(P, 1.0), P)
    for i in range(4):
        assert_rounding(nested[i, :, i], wg.hessian(f, P[i], args=(1.0,)))
    second = wg.hessian(lambda x: np.sum(wg.vmap(f, (None, 0))(x, ks)), P[0])
    assert_rounding(second, 10 * wg.hessian(f, P[0], args=(1.0,)))


def test_vmap_accepts_vmap_and_compiled_functions():
    def f(x, y):
        return np.exp(x) * y

    table = wg.vmap(wg.vmap(f, (None, 0)), (0, None))
    assert_rounding(table(P[0], P[1]), np.exp(P[0])[:, None] * P[1])
    assert_rounding(wg.jacobian(table, P[0], args=(P[1],)), np.einsum("ij,j,k->ikj", np.eye(3), np.exp(P[0]), P[1]))
    program = wg.record(table, P[0], args=(P[1],))
    assert_rounding(program(P[2], P[1]), table(P[2], P[1]))
    assert_rounding(wg.vmap(wg.compile(np.sin))(P), np.sin(P))


def test_nested_batches_are_distinguished():
    x, y = P[0], P[1]
    table = wg.vmap(lambda a: wg.vmap(lambda b: a * b + np.sin(a))(y))(x)
    assert_rounding(table, np.outer(x, y) + np.sin(x)[:, None])
    J = wg.jacobian(lambda x: wg.vmap(lambda a: np.sum(wg.vmap(lambda b: a * b)(x)))(x), x)
    assert_rounding(J, np.eye(3) * np.sum(x) + np.outer(x, np.ones(3)))
    series = wg.vmap(lambda a: wg.taylor(lambda t: np.exp(a * t), 0.0, 1.0, 2))(x)
    assert_rounding(series, np.stack([np.ones(3), x, x**2 / 2], 1))
    with pytest.raises(wg.UnsupportedFunctionError, match="inside another Taylor series"):
        wg.taylor(lambda x: wg.taylor(lambda t: t * x, 0.0, 1.0, 1)[1], 1.0, 1.0, 2)
    assert_rounding(wg.taylor(lambda x: wg.vmap(np.sin)(x * np.ones(2)), 0.0, 1.0, 1), [[0, 0], [1, 1]])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * (2.0 if isinstance(x, np.ndarray) else 3.0),
        lambda x: x * (2.0 if float(x[0]) > 1 else 3.0),
        lambda x: x * {True: 2.0, False: 3.0}[bool(np.all(x > 1))],
        lambda x: x[np.argsort(x)],
        lambda x: x * (2.0 if np.isscalar(x[0]) else 3.0),
        lambda x: np.asarray([float(v) for v in x]),
        lambda x: np.atleast_2d(x)[0] * len(x),
        lambda x: x[x > 1].sum(),
    ],
)
def test_function_that_branches_is_called_per_element(f):
    assert_rounding(wg.vmap(f)(P), np.stack([f(x) for x in P]))


rate = 2.0


def scaled(x):
    return rate * np.sum(x**2)


def test_compiled_vmap_watches_state_read_by_function():
    global rate
    f = wg.compile(wg.grad(lambda P: np.sum(wg.vmap(scaled)(P))))
    g = wg.compile(wg.vmap(scaled))
    for rate in (2.0, 3.0):
        assert_rounding(g(P), rate * np.sum(P**2, axis=1))
        assert_rounding(wg.jacobian(g)(P)[0, 0], 2 * rate * P[0])
        if rate == 2.0:
            assert_rounding(f(P), 2 * rate * P)


@dataclass
class Ball:
    place: np.ndarray
    mass: float


def test_leaves_of_containers_have_separate_axes():
    def f(ball, shift):
        return {"moved": Ball(ball.place + shift["by"], ball.mass), "energy": ball.mass * np.sum(ball.place**2)}

    balls = Ball(P, np.arange(1.0, 5.0))
    out = wg.vmap(f, (0, None))(balls, {"by": np.ones(3)})
    assert_rounding(out["moved"].place, P + 1)
    assert_rounding(out["energy"], balls.mass * np.sum(P**2, axis=1))
    out = wg.vmap(f, in_axes=(Ball(1, None), {"by": 0}), out_axes={"moved": Ball(1, 0), "energy": 0})(
        Ball(P.T, 2.0), {"by": P}
    )
    assert_rounding(out["moved"].place, 2 * P.T)
    assert_same_bits(out["moved"].mass, np.full(4, 2.0))
    found = wg.grad(lambda b: np.sum(wg.vmap(lambda b: b.mass * np.sum(b.place**2))(b)), balls)
    assert_rounding(found.place, 2 * balls.mass[:, None] * P)
    assert_rounding(found.mass, np.sum(P**2, axis=1))


def test_out_axes_give_the_position_of_the_batch_axis():
    for axis in (0, 1, -1, 2):
        y = wg.vmap(lambda x: np.outer(x, x), out_axes=axis)(P)
        assert_rounding(y, np.stack([np.outer(x, x) for x in P], axis))
    first, second = wg.vmap(lambda x: (x, np.outer(x, x)), out_axes=(1, -1))(P)
    assert first.shape == (3, 4) and second.shape == (3, 3, 4)


def test_arguments_are_unchanged_and_results_may_be_integers():
    x = P.copy()
    wg.vmap(writing)(x)
    assert_same_bits(x, P)
    assert_same_bits(wg.vmap(lambda x: np.argmax(x))(P), np.argmax(P, axis=1))
    assert_same_bits(wg.vmap(lambda x: x > 1)(P), P > 1)
    assert np.array_equal(wg.vmap(lambda x: x * 1j)(P), P * 1j)
    assert np.array_equal(wg.vmap(lambda x, n=1: n * x)([1.0, 2.0], n=3), [3, 6])


def test_vmap_has_a_repr_and_pickles():
    mapped = wg.vmap(np.dot, in_axes=(0, None))
    assert repr(mapped) == "vmap(dot, in_axes=(0, None))"
    assert_rounding(pickle.loads(pickle.dumps(mapped))(P, P[0]), P @ P[0])


WRONG = {
    "lengths": (lambda: wg.vmap(np.dot)(P, P[:3]), ValueError, "4 in argument 0, 3 in argument 1"),
    "a number": (lambda: wg.vmap(np.dot)(P, 2.0), ValueError, "in_axes of argument 1: axis 0 is out of bounds"),
    "an axis": (lambda: wg.vmap(np.sum, 2)(P), ValueError, "axis 2 is out of bounds for an array with 2 axes"),
    "None for all": (lambda: wg.vmap(np.sum, (None,))(P), ValueError, "None for all"),
    "entries": (lambda: wg.vmap(np.dot, (0,))(P, P), ValueError, "1 entries, and there are 2"),
    "form": (lambda: wg.vmap(len, ({"a": 0},))({"b": P}), ValueError, "does not match the dict"),
    "form of an array": (lambda: wg.vmap(np.sum, ((0, 1),))(P), ValueError, "a single array"),
    "empty": (lambda: wg.vmap(np.sum)(P[:0]), ValueError, "empty"),
    "shapes of results": (lambda: wg.vmap(lambda x: x[x > 1])(P), ValueError, "different shapes"),
    "forms of results": (lambda: wg.vmap(lambda x: {"a": x} if x[0] > 1 else [x])(P), ValueError, "different struct"),
    "no number": (lambda: wg.vmap(lambda x: None)(P), TypeError, "neither a number"),
    "a tuple": (lambda: wg.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(P), ValueError, "3 entries, a result has 2"),
    "out_axes": (lambda: wg.vmap(np.sum, out_axes=1)(P), ValueError, "out_axes: axis 1"),
    "no axes": (lambda: wg.vmap(np.sum, in_axes="0"), TypeError, "in_axes is an int"),
    "no function": (lambda: wg.vmap(3.0), TypeError, "expected a function"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_arguments_raise(name):
    call, error, message = WRONG[name]
    with pytest.raises(error, match=message):
        call()


#: functions along an axis of an array, which raise for an invalid one
ALONG = {
    "sum": lambda x, axis: np.sum(x, axis=axis),
    "sums": lambda x, axis: np.sum(x, axis=(axis,)),
    "max": lambda x, axis: x.max(axis),
    "var": lambda x, axis: np.var(x, axis=axis),
    "reduce": lambda x, axis: np.add.reduce(x, axis=axis),
    "cumsum": lambda x, axis: np.cumsum(x, axis=axis),
    "sort": lambda x, axis: np.sort(x, axis=axis),
    "swapaxes": lambda x, axis: np.swapaxes(x, 0, axis),
    "transpose": lambda x, axis: np.transpose(x, (axis,)),
    "expand_dims": lambda x, axis: np.expand_dims(x, axis - 1 if axis < 0 else axis + 1),
    "concatenate": lambda x, axis: np.concatenate([x, x], axis=axis),
    "stack": lambda x, axis: np.stack([x, x], axis=axis - 1 if axis < 0 else axis + 1),
    "rfft": lambda x, axis: np.fft.rfft(x, axis=axis).real,
    "gradient": lambda x, axis: np.gradient(x, axis=axis),
    "apply_along_axis": lambda x, axis: np.apply_along_axis(np.sum, axis, x),
}


@pytest.mark.parametrize("name", ALONG)
def test_function_does_not_see_the_batch_axis(name):
    f = ALONG[name]
    for axis in (0, -1):
        expected = np.stack([f(x, axis) for x in P])
        assert_rounding(wg.vmap(lambda x: f(x, axis))(P), expected)
        assert_rounding(wg.jvp(wg.vmap(lambda x: f(x, axis)), P, P)[0], expected)
    for axis in (1, -2):
        for call in (wg.vmap(lambda x: f(x, axis)), wg.compile(wg.vmap(lambda x: f(x, axis))),
                     lambda P: wg.grad(lambda P: np.sum(wg.vmap(lambda x: f(x, axis))(P)), P),
                     lambda P: wg.grad(lambda x: np.sum(f(x, axis)), P[0])):  # fmt: skip
            with pytest.raises(IndexError):
                call(P)


def exchange(x):
    y = 2 * x
    y[0], y[1] = y[1], y[0]
    return y[0] - 3 * y[1]


def overwrite(x):
    y = 2 * x
    first, last = y[0], y[-1, ...]
    y *= x
    return first + 3 * last


@pytest.mark.parametrize("f", [exchange, overwrite])
def test_scalar_read_keeps_its_value_and_a_view_follows_writes(f):
    points = np.array([[0.5, 2.0], [3.0, -4.0]])
    assert np.array_equal(wg.vmap(f)(points), [f(x) for x in points])
    assert np.array_equal(wg.vmap(wg.grad(f))(points), [wg.grad(f, x) for x in points])
    assert np.array_equal(wg.jacobian(wg.vmap(f), points).sum(1), [wg.grad(f, x) for x in points])


@pytest.mark.parametrize("operator", [wg.grad, wg.hessian, lambda f: wg.jvp(f)])
def test_compiled_batch_of_derivatives_of_an_unbatchable_function(operator):
    """A compiled function runs f once as it is, on an element of the batch."""

    def f(x, a):
        u, v = x  # fails for a batch
        return u * np.sin(a * v)

    points, others = np.arange(6.0).reshape(3, 2), np.array([0.5, 1.0, 2.0])
    is_jvp = operator not in (wg.grad, wg.hessian)
    args = (points, np.ones((3, 2)), others) if is_jvp else (points, others)
    compiled = wg.compile(wg.vmap(operator(f)))
    for _ in range(3):
        found = compiled(*args)
        expected = wg.vmap(operator(f))(*args)
        np.testing.assert_allclose(found[1] if is_jvp else found, expected[1] if is_jvp else expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["mean", "maximum", "linear_ramp", "reflect"])
def test_padding_computed_from_elements_has_derivatives_inside_a_batch(mode):
    def padded(x):
        options = {"reflect_type": "odd"} if mode == "reflect" else {}
        return np.pad(np.outer(x, x[:2]), ((1, 2), (2, 0)), mode, **options)

    assert_rounding(wg.jacobian(wg.vmap(padded))(P)[1, ..., 1, :], wg.jacobian(padded)(P[1]))
    models = {np.pad}  # found there, it is NumPy's own function
    assert_rounding(wg.jacobian(lambda x: next(iter(models))(x, 2, "mean"))(P[0])[0], np.full(3, 1 / 3))
