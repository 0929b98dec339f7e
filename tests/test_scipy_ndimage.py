"""Filters, interpolation and measurements of ``scipy.ndimage``."""

import numpy as np
import pytest
import scipy.ndimage as nd

import wengert as wg
from scipy_cases import check
from wengert.errors import UnsupportedFunctionError
from wengert.rules.scipy.ndimage import evaluated

RNG = np.random.default_rng(11)
X, T = RNG.uniform(-1, 1, 9), RNG.uniform(-1, 1, (5, 6))
W = np.array([0.2, 0.5, -0.3])
MODES = "reflect constant nearest mirror wrap".split()
LABELS = np.array([0, 1, 1, 2, 2, 2, 1, 0, 2])
PLACES = RNG.uniform(0.3, 3.7, (2, 7))

CASES = {
    **{f"correlate1d {m}": (lambda x, w, m=m: nd.correlate1d(x, w, mode=m, cval=0.3), X, W) for m in MODES},
    **{f"gaussian_filter {m}": (lambda x, m=m: nd.gaussian_filter(x, 1.0, mode=m), T) for m in MODES},
    **{f"convolve {m}": (lambda x, w, m=m: nd.convolve(x, w, mode=m), T, T[:3, :2].copy()) for m in MODES},
    "convolve1d with an origin": (lambda x, w: nd.convolve1d(x, w, axis=0, origin=1), T, W),
    "correlate with origins": (lambda x, w: nd.correlate(x, w, origin=(0, 1)), T, T[:2, :3].copy()),
    "gaussian_filter1d": (lambda x: nd.gaussian_filter1d(x, 0.7, order=1), X),
    "uniform_filter": (lambda x: nd.uniform_filter(x, (3, 2)), T),
    "uniform_filter1d": (lambda x: nd.uniform_filter1d(x, 4, origin=-1), X),
    "sobel": (lambda x: nd.sobel(x, axis=0), T),
    "prewitt": (nd.prewitt, T),
    "laplace": (nd.laplace, T),
    "gaussian_laplace": (lambda x: nd.gaussian_laplace(x, 0.8), T),
    "gaussian_gradient_magnitude": (lambda x: nd.gaussian_gradient_magnitude(x, 0.8), T),
    "median_filter": (lambda x: nd.median_filter(x, 3), T),
    "median_filter of a line": (lambda x: nd.median_filter(x, 3), X),
    "percentile_filter": (lambda x: nd.percentile_filter(x, 30, size=3), T),
    "rank_filter": (lambda x: nd.rank_filter(x, 1, footprint=[[1, 0, 1], [1, 1, 0]]), T),
    "minimum_filter": (lambda x: nd.minimum_filter(x, 3), T),
    "maximum_filter": (lambda x: nd.maximum_filter(x, footprint=[[1, 0, 1], [1, 1, 0]]), T),
    "maximum_filter1d": (lambda x: nd.maximum_filter1d(x, 3), X),
    "grey_dilation": (lambda x: nd.grey_dilation(x, structure=[[0.1, 0.2], [0.0, 0.3]]), T),
    "grey_erosion": (lambda x: nd.grey_erosion(x, structure=[[0.1, 0.2], [0.0, 0.3]]), T),
    "white_tophat": (lambda x: nd.white_tophat(x, 3), T),
    "fourier_gaussian": (lambda x: nd.fourier_gaussian(np.fft.fft2(x), 1.0).real, T),
    "fourier_shift": (lambda x: np.fft.ifft2(nd.fourier_shift(np.fft.fft2(x), (0.4, -1.2))).real, T),
    "spline_filter": (lambda x: nd.spline_filter(x, 3), T),
    **{
        f"map_coordinates {m} {order}": (
            lambda x, c, m=m, o=order: nd.map_coordinates(x, c, order=o, mode=m, cval=0.2),
            T,
            PLACES,
        )
        for m in [*MODES, "grid-wrap", "grid-constant"]
        for order in (1, 2, 3, 5)
    },
    "map_coordinates outside": (lambda x, c: nd.map_coordinates(x, c, mode="nearest"), T, 2 * PLACES - 2.21),
    "map_coordinates reflected": (lambda x, c: nd.map_coordinates(x, c, mode="reflect"), T, 2 * PLACES - 2.21),
    "map_coordinates mirrored": (lambda x, c: nd.map_coordinates(x, c, mode="mirror"), T, 2 * PLACES - 2.21),
    "map_coordinates wrapped": (lambda x, c: nd.map_coordinates(x, c, mode="grid-wrap"), T, 2 * PLACES - 2.21),
    "shift": (lambda x, s: nd.shift(x, s), T, np.array([0.31, -1.27])),
    "zoom": (lambda x: nd.zoom(x, 1.7), T),
    "zoom of a grid": (lambda x: nd.zoom(x, 1.4, grid_mode=True, mode="nearest"), T),
    "rotate": (lambda x: nd.rotate(x, 20.0, reshape=False), T),
    "affine_transform": (
        lambda x, m, b: nd.affine_transform(x, m, b, mode="nearest"),
        T,
        np.array([[0.9, 0.13], [-0.17, 1.08]]),
        np.array([0.21, 0.43]),
    ),
    "gaussian_filter in sigma": (lambda x, s: nd.gaussian_filter(x, s), T, np.array(0.8)),
    "gaussian_laplace in sigma": (lambda x, s: nd.gaussian_laplace(x, s), T, np.array(0.8)),
    "fourier_gaussian in sigma": (lambda x, s: nd.fourier_gaussian(np.fft.fft2(x), s).real, T, np.array(0.8)),
    "fourier_uniform in size": (lambda s: nd.fourier_uniform(np.fft.rfft2(T), s, n=6).imag, np.array(0.8)),
    "fourier_ellipsoid": (lambda x: nd.fourier_ellipsoid(np.fft.fft2(x), 2.0).real, T),
    "sum_labels": (lambda x: nd.sum_labels(x, LABELS, [1, 2]), X),
    "mean": (lambda x: nd.mean(x, LABELS, [1, 2]), X),
    "variance": (lambda x: nd.variance(x, LABELS, [1, 2]), X),
    "standard_deviation": (lambda x: nd.standard_deviation(x, LABELS, [1, 2]), X),
    "maximum": (lambda x: nd.maximum(x, LABELS, [1, 2]), X),
    "center_of_mass": (lambda x: np.array(nd.center_of_mass(x)), T + 2),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands)


def test_masks_and_labels_are_constant():
    y, slope = wg.value_and_grad(lambda x: np.sum(nd.label(x > 0)[0]) + np.sum(x))(T)
    assert y == np.sum(nd.label(T > 0)[0]) + np.sum(T)
    np.testing.assert_array_equal(slope, np.ones_like(T))


def lines(a):
    def sums(line, out):
        out[...] = line[:-2] + a * line[1:-1] ** 2

    return sums


OF_FUNCTIONS = {
    "generic_filter": lambda x, a: nd.generic_filter(x, lambda w: a * np.sum(w**2), footprint=[[1, 1], [0, 1]]),
    "generic_filter1d": lambda x, a: nd.generic_filter1d(x, lines(a), 3, axis=0),
    "vectorized_filter": lambda x, a: nd.vectorized_filter(x, np.mean, size=(3, 2)) * a,
    "labeled_comprehension": lambda x, a: nd.labeled_comprehension(x[0], LABELS[:6], [1, 2], np.ptp, float, 0) * a,
    "geometric_transform": lambda x, a: nd.geometric_transform(x, lambda i: (i[0] * a + 0.013, i[1] + 0.3)),
    "generic_laplace": lambda x, a: nd.generic_laplace(
        x, lambda x, axis, out, mode, cval: nd.correlate1d(x, np.stack([a, -2 * a, a]), axis, out, mode, cval)
    ),
}


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_functions_of_the_user_may_read_traced_values(name):
    f, a, h = OF_FUNCTIONS[name], 0.81, 1e-6
    v = np.cos(np.arange(30.0)).reshape(T.shape)
    np.testing.assert_allclose(wg.vjp(f, T, args=(a,))[0], f(T, a), rtol=1e-13, atol=1e-14)
    along = (f(T + h * v, a + h) - f(T - h * v, a - h)) / (2 * h)
    np.testing.assert_allclose(wg.jvp(lambda p: f(*p), (T, a), (v, 1.0))[1], along, rtol=1e-7, atol=1e-9)
    of_x, of_a = wg.grad(lambda x, a: np.sum(f(x, a) ** 2), argnums=(0, 1))(T, a)
    np.testing.assert_allclose(np.sum(of_x * v) + of_a, np.sum(2 * f(T, a) * along), rtol=1e-7)


def test_distances_to_the_background_are_refused():
    with pytest.raises(UnsupportedFunctionError, match="boolean array"):
        wg.grad(lambda x: np.sum(nd.distance_transform_edt(x)))(T)


NAMES = "nearest wrap reflect mirror constant grid-wrap grid-constant".split()  # by their numbers


@pytest.mark.parametrize("order", range(6))
@pytest.mark.parametrize("mode", range(7), ids=NAMES)
@pytest.mark.parametrize("shape", [(9,), (7, 6)], ids=str)
def test_splines_far_outside_agree_with_scipy(shape, mode, order):
    """Compare the formula itself, since calls in derivatives return SciPy's value."""
    x = np.random.default_rng(3).normal(size=shape)
    rng = np.random.default_rng(4)
    places = np.stack([np.append(rng.uniform(-4 * n, 5 * n, 200), [0, n - 1, 1e6 + 0.3, -1e6 - 0.3]) for n in shape])
    found = evaluated(x, list(places), order, mode, 0.7, 0)
    expected = nd.map_coordinates(x, places, order=order, mode=NAMES[mode], cval=0.7, prefilter=False)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_coordinates_that_are_not_numbers():
    x = np.random.default_rng(3).normal(size=9)
    y = evaluated(x, [np.array([np.nan, 2.5])], 3, 3, 0.0, 0)
    assert np.isnan(y[0]) and np.isfinite(y[1])
