"""Closed forms of `scipy.ndimage`."""

from __future__ import annotations

import mpmath as mp
import scipy.ndimage
from numpy.lib import NumpyVersion

from .engine import Row
from .linalg import vector
from .transforms import P4, P5

ndimage = scipy.ndimage


def reflected(x, weights):
    """Correlate with weights of offsets, with reflection at the ends."""
    n = len(x)
    source = [*range(n), *reversed(range(n))]
    return [mp.fsum(w * x[source[(i + k) % (2 * n)]] for k, w in weights.items()) for i in range(n)]


def gaussian_weights(sigma):
    weights = {k: mp.exp(-mp.mpf(k * k) / (2 * sigma**2)) for k in range(-4, 5)}
    whole = mp.fsum(weights.values())
    return {k: w / whole for k, w in weights.items()}


def extended(x, i, mode):
    n = len(x)
    if mode in ("constant", "grid-constant"):
        return x[i] if 0 <= i < n else mp.mpf(0)
    if mode == "nearest":
        return x[min(max(i, 0), n - 1)]
    if mode == "reflect":
        return x[[*range(n), *reversed(range(n))][i % (2 * n)]]
    if mode == "mirror":
        return x[[*range(n), *range(n - 2, 0, -1)][i % (2 * n - 2)]]
    return x[i % n]


def b_weights(k, u):
    """Return the centred B-spline of degree 2 or 3 at u."""
    u = abs(u)
    if k == 2:
        return mp.mpf(3) / 4 - u * u if u < 0.5 else (mp.mpf(3) / 2 - u) ** 2 / 2 if u < 1.5 else mp.mpf(0)
    return mp.mpf(2) / 3 - u * u * (2 - u) / 2 if u < 1 else (2 - u) ** 3 / 6 if u < 2 else mp.mpf(0)


def mapped(x, at, k, mode):
    """Interpolate by the spline of degree 1, 2 or 3 whose coefficients continue as `mode` says."""
    n = len(x)
    if k == 1:
        i = int(mp.floor(at))
        return (1 - at + i) * extended(x, i, mode) + (at - i) * extended(x, i + 1, mode)
    a = mp.zeros(n)
    for i in range(n):
        for j in range(i - 2, i + 3):
            unit = [mp.mpf(int(m == extended(range(n), j, mode))) for m in range(n)]
            for m in range(n):
                a[i, m] += unit[m] * b_weights(k, mp.mpf(i - j))
    c = list(mp.lu_solve(a, vector(x)))
    middle = int(mp.floor(at))
    return mp.fsum(extended(c, j, mode) * b_weights(k, at - j) for j in range(middle - 2, middle + 4))


def modes(k):
    """Return the boundary modes with closed forms for splines of degree k."""
    if k == 1:
        return ["mirror", "grid-wrap", "reflect", "constant", "grid-constant"]
    if NumpyVersion(scipy.__version__) < "1.18.0":  # spline coefficients of mode reflect are approximate
        return ["mirror", "grid-wrap"]
    return ["mirror", "grid-wrap", "reflect"]


def map_row(k, mode, at=1.3):
    return Row(
        lambda p: ndimage.map_coordinates(p[:4], p[None, 4:], order=k, mode=mode)[0],
        lambda *p: mapped(p[:4], p[4], k, mode),
        [*P4, at],
        second=1e-12,
    )


def along(fun, form, point=P5, **options):
    """Return the row of the squares of a filtered sequence."""
    return Row(lambda p: fun(p) ** 2, lambda *p: [y * y for y in form(p)], point, **options)


NDIMAGE = {
    "gaussian_filter1d": {
        "": Row(
            lambda p: ndimage.gaussian_filter1d(p[:5], p[5], radius=4),
            lambda *p: reflected(p[:5], gaussian_weights(p[5])),
            [*P5, 0.9],
        ),
    },
    "gaussian_filter": {
        "": Row(
            lambda p: ndimage.gaussian_filter(p[:5], p[5], radius=4),
            lambda *p: reflected(p[:5], gaussian_weights(p[5])),
            [*P5, 0.9],
        ),
    },
    "uniform_filter1d": {
        "": along(
            lambda p: ndimage.uniform_filter1d(p, 3), lambda x: [y / 3 for y in reflected(x, {-1: 1, 0: 1, 1: 1})]
        )
    },
    "laplace": {"": along(ndimage.laplace, lambda x: reflected(x, {-1: 1, 0: -2, 1: 1}))},
    "sobel": {"": along(ndimage.sobel, lambda x: reflected(x, {-1: -1, 1: 1}))},
    "prewitt": {"": along(ndimage.prewitt, lambda x: reflected(x, {-1: -1, 1: 1}))},
    "correlate1d": {
        mode: Row(
            lambda p, mode=mode: ndimage.correlate1d(p[:5], p[5:], mode=mode),
            lambda *p, mode=mode: [
                mp.fsum(p[5 + k] * extended(p[:5], i + k - 1, mode) for k in range(3)) for i in range(5)
            ],
            [*P5, 0.9, -0.4, 1.7],
        )
        for mode in ("reflect", "constant", "nearest", "mirror", "wrap")
    },
    "convolve1d": {
        "": Row(
            lambda p: ndimage.convolve1d(p[:5], p[5:]),
            lambda *p: reflected(p[:5], {1: p[5], 0: p[6], -1: p[7]}),
            [*P5, 0.9, -0.4, 1.7],
        )
    },
    "map_coordinates": {
        f"order {k}, {mode}": map_row(k, mode)
        for k in (1, 2, 3)
        for mode in modes(k)
    }
    | {
        f"order {k}, {mode}, outside": map_row(k, mode, -0.3)
        for k in (1, 3)
        for mode in modes(k)
        if mode != "constant"
    },
    "spline_filter1d": {
        f"{k}": Row(
            lambda p, k=k: ndimage.map_coordinates(
                ndimage.spline_filter1d(p[:4], order=k), p[None, 4:], order=k, mode="mirror", prefilter=False
            )[0],
            lambda *p, k=k: mapped(p[:4], p[4], k, "mirror"),
            [*P4, 1.3],
            second=1e-12,
        )
        for k in (2, 3)
    },
    "mean": {"": Row(lambda p: ndimage.mean(p**2), lambda *p: mp.fsum(x * x for x in p) / 5, P5)},
    "center_of_mass": {
        "": Row(
            lambda p: ndimage.center_of_mass(p**2)[0],
            lambda *p: mp.fsum(i * x * x for i, x in enumerate(p)) / mp.fsum(x * x for x in p),
            P5,
        )
    },
    "variance": {
        "": Row(lambda p: ndimage.variance(p), lambda *p: mp.fsum(x * x for x in p) / 5 - (mp.fsum(p) / 5) ** 2, P5)
    },
    "shift": {
        "": Row(
            lambda p: ndimage.shift(p[:4], p[4], order=1, mode="grid-wrap"),
            lambda *p: [mapped(p[:4], i - p[4], 1, "grid-wrap") for i in range(4)],
            [*P4, 0.3],
        )
    },
}
