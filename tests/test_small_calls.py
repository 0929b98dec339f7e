"""Calls of NumPy functions on small arrays: the direct path to the rules, products in C, and kept index maps."""

import numpy as np
import pytest

import wengert as wg
from wengert import registry
from wengert.core.tape import products
from wengert.rules import interpolation

A3, A4 = (np.random.default_rng(n).standard_normal((n, n)) + n * np.eye(n) for n in (3, 4))
TABLE = np.array([0.0, 0.5, 1.7, 2.2, 3.0, 4.5])
PLACES = np.array([3, 1, 4, 0, 2, 5])

#: functions of a vector of 12 elements
CALLS = {
    "dot": lambda x: np.dot(x, x[::-1]),
    "dot-matrix": lambda x: np.dot(A3, x[:3]),
    "vdot": lambda x: np.vdot(x.reshape(3, 4), x[::-1].reshape(3, 4)),
    "inner": lambda x: np.inner(x.reshape(3, 4), x[:4]),
    "inner-vectors": lambda x: np.inner(x, x[::-1]),
    "inner-matrix": lambda x: np.inner(x[:4], x.reshape(3, 4)),
    "inner-matrices": lambda x: np.inner(x.reshape(3, 4), x[:8].reshape(2, 4)),
    "ptp": lambda x: np.ptp(x),
    "ptp-axis": lambda x: np.ptp(x.reshape(3, 4), axis=1, keepdims=True),
    "flags": lambda x: (x > 0.5) * x + x * (PLACES[PLACES] > 1).repeat(2),
    "integers": lambda x: x.reshape(2, 6) * PLACES - PLACES / (2 + x.reshape(2, 6)),
    "outer": lambda x: np.outer(x[:3], x[3:7]),
    "matmul": lambda x: x.reshape(4, 3) @ A3,
    "matmul-both": lambda x: x.reshape(4, 3) @ x.reshape(4, 3).T,
    "matmul-vector": lambda x: x[:3] @ A3 @ x[3:6],
    "matmul-stack": lambda x: x.reshape(2, 2, 3) @ A3,
    "einsum": lambda x: np.einsum("i,ij,j->i", x[:3], A3, x[3:6]),
    "einsum-trace": lambda x: np.einsum("ii", x[:9].reshape(3, 3)),
    "sum": lambda x: np.sum(x.reshape(3, 4), axis=1),
    "mean": lambda x: np.mean(x.reshape(3, 4), axis=0),
    "mean-all": lambda x: np.mean(x),
    "var": lambda x: np.var(x, ddof=1),
    "std": lambda x: np.std(x.reshape(3, 4), axis=1),
    "std-all": lambda x: np.std(x),
    "prod": lambda x: np.prod(x),
    "prod-axis": lambda x: np.prod(x.reshape(3, 4), axis=0),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod": lambda x: np.cumprod(x),
    "cumprod-axis": lambda x: np.cumprod(x.reshape(3, 4), axis=0),
    "max": lambda x: np.max(x),
    "min-axis": lambda x: np.min(x.reshape(3, 4), axis=1, keepdims=True),
    "argmax": lambda x: x[np.argmax(x)],
    "sort": lambda x: np.sort(x),
    "sort-axis": lambda x: np.sort(x.reshape(3, 4), axis=0),
    "where": lambda x: np.where(x > 0.5, x * x, 2.0),
    "clip": lambda x: np.clip(x, 0.4, 0.9),
    "concatenate": lambda x: np.concatenate([x[:2], np.ones(2), x[5:]]),
    "concatenate-axis": lambda x: np.concatenate([x.reshape(3, 4), x[:3].reshape(3, 1)], axis=1),
    "stack": lambda x: np.stack([x[:4], x[4:8]], axis=1),
    "stack-rows": lambda x: np.stack(x.reshape(3, 4)),
    "vstack": lambda x: np.vstack([x[:4], x[4:8]]),
    "array": lambda x: np.array([x[0] * x[1], x[2], 1.0]),
    "reshape-copy": lambda x: np.reshape(x.reshape(3, 4).T, 12),
    "transpose": lambda x: np.transpose(x.reshape(3, 4)),
    "ravel": lambda x: np.ravel(x.reshape(3, 4).T),
    "roll": lambda x: np.roll(x, 2),
    "take": lambda x: np.take(x, PLACES),
    "tril": lambda x: np.tril(x[:9].reshape(3, 3)),
    "diag": lambda x: np.diag(x[:3]),
    "trace": lambda x: np.trace(x[:9].reshape(3, 3)),
    "norm": lambda x: np.linalg.norm(x),
    "norm-axis": lambda x: np.linalg.norm(x.reshape(3, 4), axis=1),
    "norm-1": lambda x: np.linalg.norm(x, 1),
    "solve": lambda x: np.linalg.solve(A3 + x[:9].reshape(3, 3), x[9:]),
    "inv": lambda x: np.linalg.inv(A3 + x[:9].reshape(3, 3)),
    "det": lambda x: np.linalg.det(x[:9].reshape(3, 3)),
    "slogdet": lambda x: np.linalg.slogdet(A3 + x[:9].reshape(3, 3))[1],
    "cholesky": lambda x: np.linalg.cholesky(A4 @ A4.T + np.diag(x[:4])),
    "cross": lambda x: np.cross(x[:3], x[3:6]),
    "diff": lambda x: np.diff(x),
    "diff-2": lambda x: np.diff(x.reshape(3, 4), 2, axis=0, append=x[:4].reshape(1, 4)),
    "trapezoid": lambda x: wg.numpy.sum((x[1:] + x[:-1]) / 2) if not hasattr(np, "trapezoid") else np.trapezoid(x),
    "interp": lambda x: np.interp(1.1, TABLE, x[:6]),
    "interp-many": lambda x: np.interp(np.array([-1.0, 0.2, 2.2, 9.0]), TABLE, x[:6]),
    "convolve": lambda x: np.convolve(x, x[:3]),
    "logaddexp": lambda x: np.logaddexp(x[:6], x[6:]),
    "arctan2": lambda x: np.arctan2(x[:6], x[6:]),
    "median": lambda x: np.median(x),
}

every_call = pytest.mark.parametrize("f", CALLS.values(), ids=CALLS)


def weighted(f):
    """Return a scalar function, nonlinear in the results of f."""

    def loss(x):
        y = f(x)
        return np.sum(np.sin(y) * (1.0 + np.arange(np.size(y)).reshape(np.shape(y))))

    return loss


@every_call
def test_values_have_the_bits_of_numpy(f):
    x = np.random.default_rng(0).uniform(0.2, 1.2, 12)
    found = []

    def looking(x):
        y = f(x)
        found.append(wg.stop_gradient(y))
        return np.sum(y)

    wg.grad(looking)(x)
    wg.jvp(looking, x, x)
    for y in found:
        assert np.asarray(y).tobytes() == np.asarray(f(x)).tobytes()


@every_call
def test_gradients_equal_those_of_recorded_programs_and_of_the_other_modes(f):
    loss = weighted(f)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x, v = rng.uniform(0.2, 1.2, 12), rng.standard_normal(12)
        g = wg.grad(loss)(x)
        scale = np.abs(g).max()
        np.testing.assert_allclose(wg.record(loss, x, exact=True).grad()(x), g, rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(wg.jvp(loss, x, v)[1], g @ v, rtol=1e-11, atol=1e-11 * scale)
        np.testing.assert_allclose(wg.jacobian(loss, mode="reverse")(x), g, rtol=1e-12, atol=1e-12 * scale)
        h = 1e-6
        differences = [(loss(x + h * e) - loss(x - h * e)) / (2 * h) for e in np.eye(12)]
        np.testing.assert_allclose(differences, g, rtol=1e-5, atol=1e-6 * max(1.0, scale))


@every_call
def test_reverse_jacobians_equal_forward_jacobians(f):
    x = np.random.default_rng(7).uniform(0.2, 1.2, 12)
    back, ahead = (wg.jacobian(f, x, mode=mode) for mode in ("reverse", "forward"))
    np.testing.assert_allclose(back, ahead, rtol=1e-11, atol=1e-12)


def test_index_maps_are_kept_for_equal_calls_only():
    x = np.arange(1.0, 7.0)
    for places in (PLACES, PLACES[::-1].copy(), PLACES % 3):
        for shift in (1, -2):
            found = wg.grad(lambda x: np.sum(np.roll(np.take(x, places), shift) * x))(x)
            jacobian = np.roll(np.eye(6)[places], shift, axis=0)
            np.testing.assert_allclose(found, jacobian @ x + jacobian.T @ x, rtol=1e-14)


def test_constants_of_calls_are_copied():
    def f(x):
        a = np.array([1.0, 2.0, 3.0])
        b = wg.stop_gradient(a)
        y = np.dot(b, x) + np.inner(a, x)
        b[:] = 0.0
        a[:] = 0.0
        return y

    np.testing.assert_array_equal(wg.grad(f)(np.ones(3)), [2.0, 4.0, 6.0])


def test_integers_and_floats_of_other_precisions_keep_numpys_dtype():
    x = np.ones(3, dtype=np.float32)
    assert wg.grad(lambda x: np.dot(x, x))(x).dtype == np.float32
    assert wg.grad(lambda x: np.sum(np.where([True, False, True], x, 0)))(np.ones(3)).tolist() == [1.0, 0.0, 1.0]
    np.testing.assert_array_equal(wg.grad(lambda x: np.dot(np.arange(3), x))(np.ones(3)), [0.0, 1.0, 2.0])


def test_complex_operands_of_calls_use_the_complex_rules():
    z = np.array([1.0 + 2.0j, -0.5j])
    np.testing.assert_allclose(wg.grad(lambda z: np.vdot(z, z).real)(z), 2 * z)


# ---- products


SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize(
    ("left", "right"),
    [((7,), ()), ((7, 1), (7,)), ((1, 7), (7, 1)), ((2, 1, 7), (7, 1)), ((7,), (7,)), ((1,), (3, 7)), ((), ())],
)
def test_strong_product_equals_its_definition(left, right):
    a, b = (np.resize(SPECIAL, shape) for shape in (left, right))
    b = b[::-1] if b.ndim else b[()]
    found = products.strong_product(a, b)
    with np.errstate(all="ignore"):
        expected = np.where((a == 0) | (b == 0), 0.0, a * b)
    np.testing.assert_array_equal(found, expected)
    assert np.shape(found) == np.shape(expected)


def test_strong_product_leaves_other_operands_to_numpy():
    large = np.full(2, 1e200)
    for a, b in [(np.ones(2, dtype=np.float32), 1.0), (large, 1j), (np.ones(2), np.ones(3)), ([1.0], 2.0)]:
        assert products.strong_product(a, b) is None


def test_strong_product_of_moderate_complex_arrays():
    z = np.array([1.0 + 2.0j, 0.0, -3.0])
    for a, b in [(z, z), (z, 2.0), (np.arange(3.0), z), (z[:, None], z), (np.ones(2), 1j)]:
        np.testing.assert_array_equal(products.strong_product(a, b), a * b)
    assert products.strong_product(z, np.array([1j, np.nan, np.inf])) is None


@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((1, 4), (4, 1)), ((30, 20), (20, 9))],
)
def test_strong_matmul_has_the_bits_of_matmul(left, right):
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal(left), rng.standard_normal(right)
    for x, y in [(a, b), (np.asfortranarray(a), b), (a, np.asfortranarray(b)), (a[..., ::-1], b[::-1])]:
        found = products.strong_matmul(x, y)
        assert np.asarray(found).tobytes() == np.asarray(np.matmul(x, y)).tobytes()
        assert type(found) is type(np.matmul(x, y))


def test_strong_matmul_of_infinite_elements():
    a, b = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([[np.inf, 1.0], [3.0, np.nan]])
    assert products.strong_matmul(a, b) is None
    with np.errstate(invalid="ignore"):  # as in a sweep
        np.testing.assert_array_equal(registry.strong_matmul(a, b), [[3.0, np.nan], [np.inf, 2.0]])
    nan = np.full((2, 2), 1e308)
    np.testing.assert_array_equal(products.strong_matmul(nan, nan), np.full((2, 2), np.inf))


@pytest.mark.parametrize("other", [np.array([True, False, True]), np.array([3, 1, 2], dtype=np.int8), np.arange(3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, complex])
@pytest.mark.parametrize("fun", [np.multiply, np.subtract, np.power, np.maximum])
def test_flags_and_integers_have_numpys_dtype_and_bits(fun, dtype, other):
    if fun is np.subtract and other.dtype == bool:
        other = other.astype(np.uint8)
    x = np.array([1.5, 2.5, 0.3]).astype(dtype)
    kept = []

    def f(x):
        kept[:] = fun(x, other), fun(other, x)
        return np.real(kept[0] + kept[1]).sum()

    wg.jvp(f, x, np.ones_like(x))
    for found, wanted in zip(kept, (fun(x, other), fun(other, x)), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(wg.stop_gradient(found), wanted)


# ---------------------------------------------------------------------------------------------- plain arrays in C


def strided(x):
    """Return an equal array that is not contiguous, so that the rule for all arrays is used."""
    return np.repeat(x, 2, axis=-1)[..., ::2]


TABLES = {
    "increasing": [-1.0, 0.0, 0.25, 2.0],
    "equal points": [0.0, 0.0, 1.0, 1.0],
    "infinite ends": [-np.inf, 0.0, 1.0, np.inf],
    "equal ends": [1.0, 1.0],
    "one point": [0.5],
    "nan": [0.0, np.nan, 1.0],
    "nan at the end": [0.0, 1.0, np.nan],
}
POINTS = {
    "vector": [-2.0, -1.0, 0.0, 0.1, 0.25, 1.0, 2.0, 3.0],
    "matrix": [[0.5, 1.0], [2.0, -0.0]],
    "not finite": [np.nan, np.inf, -np.inf, 0.5],
    "none": [],
    "scalar": 0.75,
    "scalar at a point": 0.0,
    "scalar beyond": 7.0,
    "scalar nan": np.nan,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("places", POINTS)
@pytest.mark.parametrize("table", TABLES)
def test_interpolation_of_plain_arrays_has_the_bits_of_the_general_rule(table, places):
    wg.grad(np.sum)(np.ones(2))  # loads the rules
    rows, pull = interpolation, interpolation.interp_wrt_values
    xp, x = np.array(TABLES[table]), np.asarray(POINTS[places])
    x = np.float64(x) if x.ndim == 0 else x
    fp = np.sin(np.arange(len(xp)) + 1.0)
    for ybar in (np.cos(np.arange(x.size) + 1.0).reshape(x.shape), np.zeros(x.shape), np.full(x.shape, np.inf)):
        g = np.float64(ybar) if ybar.ndim == 0 else ybar
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(pull(g, None, x, xp, fp), pull(g, None, x, strided(xp), fp))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(rows.slopes(x, xp, fp), rows.slopes(x, strided(xp), fp))


def test_interpolation_in_falling_points_raises():
    def f(x):
        return np.sum(np.interp(x, np.array([0.0, 2.0, 1.0]), np.arange(3.0)))

    with pytest.raises(wg.UnsupportedFunctionError, match="sort xp and fp"):
        wg.grad(f)(np.array([0.3, 0.4]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_interpolation_at_other_precisions_uses_the_general_rule(dtype):
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([1.0, 4.0, 2.0])
    slope = wg.grad(lambda x: np.sum(np.interp(x, xp, fp)))(np.array([0.5, 2.0, 5.0], dtype=dtype))
    np.testing.assert_array_equal(slope, [3.0, -1.0, 0.0])


#: subscripts, in both forms, and the shapes of the operands
CONTRACTIONS = [
    (("i,ij,j",), [(3,), (3, 4), (4,)]),
    ((" i , ij -> j ",), [(3,), (3, 4)]),
    (("ii->i",), [(3, 3)]),
    (("iij,jk->ik",), [(3, 3, 2), (2, 2)]),
    (("ij->j",), [(3, 2)]),
    (("...i,...i",), [(2, 3), (2, 3)]),
    (("i...,i",), [(3, 2), (3,)]),
    (("ij,jk,kl,l->i",), [(2, 3), (3, 2), (2, 3), (3,)]),
    (("ij,ij->",), [(1, 3), (2, 3)]),
    (([0, 1], [1, 2], [0, 2]), [(2, 3), (3, 2)]),
    (([0, 0],), [(3, 3)]),
    (("i,i->",), [(0,), (0,)]),
]


def contracted(form, operands):
    if isinstance(form[0], str):
        return np.einsum(form[0], *operands)
    labels = [item for pair in zip(operands, form) for item in pair]
    return np.einsum(*labels, *form[len(operands) :])


@pytest.mark.parametrize(("form", "shapes"), CONTRACTIONS)
def test_contractions_agree_in_both_modes_and_when_nested(form, shapes):
    rng = np.random.default_rng(91)
    given = [rng.normal(size=shape) for shape in shapes]
    for k, x in enumerate(given):

        def f(x, k=k):
            return np.sum(np.cos(contracted(form, [*given[:k], x, *given[k + 1 :]])))

        slope = wg.grad(f)(x)
        assert slope.shape == x.shape
        np.testing.assert_allclose(slope, wg.jacfwd(f)(x), rtol=1e-13, atol=1e-14)
        v = np.cos(np.arange(x.size) + 2.0).reshape(x.shape)
        products = np.tensordot(wg.jacfwd(wg.grad(f))(x), v, x.ndim)
        np.testing.assert_allclose(wg.hvp(f)(x, v), products, rtol=1e-12, atol=1e-13)


def test_contractions_of_infinite_and_complex_elements():
    A = np.array([[0.0, 1.0], [2.0, 3.0]])
    slope = wg.grad(lambda x: np.einsum("i,ij,j", x, A, np.array([0.0, 1.0])))(np.array([np.inf, 1.0]))
    np.testing.assert_array_equal(slope, [1.0, 3.0])
    z = np.array([1.0 + 2.0j, -0.5j])
    slope = wg.grad(lambda x: np.einsum("i,ij,j", x, A * z, x).imag)(np.array([0.3, 0.7]))
    np.testing.assert_allclose(slope, (((A * z) + (A * z).T) @ [0.3, 0.7]).imag, rtol=1e-14)
