"""Analytic continuation of NumPy: a program runs with it on complex arguments for its complex-step derivative.

`numpy` here replaces NumPy in a program's twin. Functions that NumPy itself continues analytically are NumPy's own;
the others have a formula below, or use the derivative of the real function: by the partials in mpmath if
`primitive_cases` has them, else by differences of high order. Nothing of wengert is used.

To measure the error of such differences and the rounding of every statement, a twin is run again with
*noise*: each value and each tangent is changed randomly by that amount.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import types

import mpmath as mp
import numpy as np
import scipy.special

from . import pairs

#: smaller imaginary parts are directions, propagated to first order
TINY = 1e-12

#: noise of this size is that of single precision
SINGLE = 1e-9

#: relative accuracy of ``scipy.special`` slopes: integrals and inverses have fewer correct digits than float64
SPECIAL_ACCURACY = 1e-10

#: coefficients of the central difference of order 8
STENCIL = ((1, 4 / 5), (2, -1 / 5), (3, 4 / 105), (4, -1 / 280))


class NotContinued(Exception):
    """A function continued to first order only was called further from the real axis."""


def bessel_slopes(name):
    """Return derivatives of the Bessel functions of order 0 and 1 in terms of SciPy's."""
    letter, order = name
    zero, one = (getattr(scipy.special, f"{letter}{n}") for n in (0, 1))
    if order == "0":
        return one if letter == "i" else lambda x: -one(x)
    before, after = {"i": (1, 1), "k": (-1, -1)}.get(letter, (1, -1))
    return lambda x: (before * zero(x) + after * getattr(scipy.special, f"{letter}v")(2, x)) / 2


class Noise:
    """Random relative changes as large as rounding errors; off by default."""

    def __init__(self):
        self.size = 0.0
        self.rng = np.random.default_rng(0)

    @contextlib.contextmanager
    def __call__(self, size, seed):
        self.size, self.rng = size, np.random.default_rng(seed)
        try:
            yield
        finally:
            self.size = 0.0

    def perturb(self, z):
        """Return `z` with noise, or write noise into an array, so that its views see it; never for real values."""
        if isinstance(z, pairs.Pair):
            return z.perturbed(self.size, self.rng) if self.size else z
        if isinstance(z, (np.ndarray, np.floating)) and z.dtype.kind == "f":
            z = z.astype(complex)
        if not self.size or not isinstance(z, (np.ndarray, np.complexfloating)) or z.dtype.kind != "c":
            return z
        changes = 1 + self.size * self.rng.uniform(-1, 1, (2, *np.shape(z)))
        if not isinstance(z, np.ndarray):
            return np.complex128(complex(z.real * changes[0], z.imag * changes[1]))
        if is_writeable(z):
            z.real *= changes[0]
            z.imag *= changes[1]
        return z


noise = Noise()


def is_writeable(z):
    """Return whether it can be written into without NumPy's warning about results of `broadcast_arrays`."""
    warns = 1 << 31
    return not z.flags.num & warns and z.flags.writeable


def is_tiny(z):
    return not np.size(z) or np.max(np.abs(np.imag(z))) < TINY


def real(z):
    return np.real(z) if np.iscomplexobj(z) else z


# ---------------------------------------------------------------------------- to first order


def leaves_of(tree):
    if isinstance(tree, (list, tuple)):
        return [leaf for branch in tree for leaf in leaves_of(branch)]
    return [tree] if np.iscomplexobj(tree) else []


def moved(tree, step):
    """Return the real parts of all complex leaves plus `step` times their imaginary parts."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(moved(branch, step) for branch in tree)
    if not np.iscomplexobj(tree):
        return tree
    return np.real(tree) + step * np.imag(tree) if step else np.real(tree).copy("K")


def mapped(fun, *trees):
    if isinstance(trees[0], (list, tuple)):
        return tuple(mapped(fun, *branches) for branches in zip(*trees, strict=True))
    return fun(*trees)


def continued(fun, analytic=None, accuracy=0.0):
    """Continue `fun` to first order: its real value, and the directional derivative by differences of order 8.

    `analytic` is used further from the real axis. The relative accuracy of slopes is at best `accuracy`.
    """

    @functools.wraps(fun)
    def twin(*args, **kwargs):
        leaves = leaves_of(args) + leaves_of(tuple(kwargs.values()))
        size = max((np.max(np.abs(z.imag), initial=0.0) for z in leaves), default=0.0)
        if size > TINY:
            if analytic is None:
                raise NotContinued(fun.__name__)
            return analytic(*args, **kwargs)

        def at(step):
            step = step / size if step else 0.0
            return fun(*moved(args, step), **{key: moved(value, step) for key, value in kwargs.items()})

        y = at(0)
        if not size:
            return mapped(to_complex, y)
        slopes = []
        for h in (0.03, 0.01, 0.003, 0.001, 0.0003):
            with contextlib.suppress(ValueError):  # SciPy raises outside the domain
                values = [at(sign * k * h) for k, _ in STENCIL for sign in (1, -1)]
                slopes.append(mapped(lambda *ys, h=h: slope(ys, h), *values))
        if len(slopes) < 3:
            raise NotContinued(fun.__name__)  # the domain ends nearby
        return mapped(lambda y, *slopes: joined(y, slopes, size, accuracy), y, *slopes)

    return twin


def to_complex(y):
    return np.asarray(y).astype(complex)[()] if np.asarray(y).dtype.kind == "f" else y


def slope(ys, h):
    if np.asarray(ys[0]).dtype.kind != "f":
        return ys[0]
    return sum(c * (ahead - behind) for (_, c), ahead, behind in zip(STENCIL, ys[::2], ys[1::2], strict=True)) / h


def joined(y, slopes, size, accuracy):
    """Combine value and best slope, with noise as large as its difference from the neighbouring slopes."""
    if np.asarray(y).dtype.kind != "f":
        return y
    steps = [np.max(np.abs(a - b), initial=0.0) for a, b in itertools.pairwise(slopes)]  # NaN outside the domain
    errors = np.nan_to_num(np.maximum(steps[:-1], steps[1:]), nan=np.inf)
    if not np.isfinite(errors).any():
        raise NotContinued
    best = slopes[1 + errors.argmin()]
    error = np.maximum(errors.min(), accuracy * np.abs(best))
    if noise.size:
        best = best + error * noise.rng.uniform(-1, 1, np.shape(best))
    found = np.asarray(y + 1j * size * best)
    if found.size and not (np.asarray(y).flags.forc):  # such as the real part of complex eigenvalues
        found = np.stack([found, found], axis=-1)[..., 0]
    return found[()]


def mp_value(fun, *numbers):
    with mp.workdps(25):
        return float(mp.re(fun(*map(mp.mpf, numbers))))


#: computed mpmath partials, by operands rounded to twelve digits
known = {}


def slope_at(partial, *numbers):
    """Return a partial; with noise, reuse one known nearby and change it randomly."""
    near = (partial, *(f"{x:.11e}" for x in numbers))
    if noise.size and near in known:
        return known[near] * (1 + 8 * noise.size * noise.rng.uniform(-1, 1))
    if len(known) > 100_000:
        known.clear()
    known[near] = mp_value(partial, *numbers)
    return known[near]


def is_costly(partial):
    """Return whether it is a numerical derivative in mpmath."""
    return "diff" in getattr(getattr(partial, "__code__", None), "co_names", ())


def by_partials(fun, partials, analytic=None):
    """Continue an elementwise function by its mpmath partials; `analytic` is used further from the real axis."""
    by_differences = continued(fun, analytic, SPECIAL_ACCURACY)
    if any(map(is_costly, partials)):
        return by_differences

    def twin(*operands, **kwargs):
        if noise.size > SINGLE:
            return by_differences(*operands)
        if not all(map(is_tiny, operands)):
            if analytic is None:
                raise NotContinued(fun.__name__)
            return analytic(*operands)
        values = [real(z) for z in operands]
        y = fun(*values)
        if not any(np.iscomplexobj(z) for z in operands):
            return y
        total = np.zeros_like(y, dtype=float)  # with the layout of y, because views of it are views of its twin
        columns = [np.broadcast_to(np.asarray(v, dtype=float), np.shape(y)).ravel().tolist() for v in values]
        for z, partial in zip(operands, partials, strict=True):
            if np.iscomplexobj(z) and np.any(np.imag(z)):
                slopes = np.reshape([slope_at(partial, *numbers) for numbers in zip(*columns)], np.shape(y))
                total[...] += slopes * np.imag(z)
        return np.asarray(y + 1j * total)[()]

    return twin


# ---------------------------------------------------------------------------- elementwise functions


def absolute(z):
    return z * np.sign(real(z))


def arctan2(a, b):
    """Return the angle by whichever quotient is small, to first order."""
    a, b = np.broadcast_arrays(a, b)
    steep = np.abs(real(a)) > np.abs(real(b))
    above, below = np.where(steep, -b, a), np.where(steep, a, b)
    angle = np.arctan(above / np.where(below == 0, 1, below))
    return angle + np.round((np.arctan2(real(a), real(b)) - real(angle)) / (np.pi / 2)) * (np.pi / 2)


def larger(a, b):
    return tied(a, b, np.sign(real(a) - real(b)))


def smaller(a, b):
    return tied(a, b, np.sign(real(b) - real(a)))


def tied(a, b, sign):
    return a * ((1 + sign) / 2) + b * ((1 - sign) / 2)


def logaddexp(a, b):
    top = np.maximum(real(a), real(b))
    return top + np.log(np.exp(a - top) + np.exp(b - top))


def modf(z):
    return z - np.trunc(real(z)), np.trunc(real(z))


def remainder(a, b):
    return a - b * np.floor(real(a) / real(b))


def frexp(z):
    e = np.frexp(real(z))[1]
    return z * 2.0**-e, e


def on_real(fun):
    """Continue a locally constant function."""
    return lambda *args, **kwargs: to_complex(fun(*(real(a) for a in args), **kwargs))


# ---------------------------------------------------------------------------- shapes and sums


def var(z, axis=None, dtype=None, out=None, ddof=0, keepdims=False, correction=None, where=True, **kwargs):
    ddof = ddof if correction is None else correction
    mean = np.mean(z, axis=axis, keepdims=True, where=where)
    if noise.size:  # the rounded mean of equal numbers differs from them, and the deviations then do not sum to 0
        mean = np.real(noise.perturb(mean + 0j))
    centred = z - mean
    count = np.sum(np.broadcast_to(where, np.shape(z)), axis=axis, keepdims=keepdims)
    return np.asarray(np.sum(centred * centred, axis=axis, keepdims=keepdims, where=where) / (count - ddof))[()]


def std(z, *args, **kwargs):
    return np.sqrt(var(z, *args, **kwargs))


def median(z, axis=None, keepdims=False):
    """Return the mean of the two middle elements, which differences would cross."""
    axes = range(np.ndim(z)) if axis is None else np.atleast_1d(axis)
    last = np.moveaxis(z, axes, range(-len(axes), 0))
    line = np.sort(np.reshape(last, (*np.shape(last)[: np.ndim(z) - len(axes)], -1)), axis=-1)
    n = np.shape(line)[-1]
    found = (line[..., (n - 1) // 2] + line[..., n // 2]) / 2
    return np.reshape(found, np.shape(np.sum(z, axis=axis, keepdims=keepdims)))[()]


def norm(z, ord=None, axis=None, keepdims=False):
    if ord is None or (ord == 2 and np.ndim(z) == 1):
        return np.sqrt(np.sum(z * z, axis=axis, keepdims=keepdims))
    return continued(np.linalg.norm)(z, ord, axis, keepdims)


def cholesky(a, upper=False):
    """Factorise by columns, from the triangle that NumPy reads; a complex symmetric matrix is not Hermitian."""
    a = np.swapaxes(a, -1, -2) if upper else np.asarray(a)
    L = np.zeros(a.shape, dtype=complex)
    for j in range(a.shape[-1]):
        L[..., j, j] = np.sqrt(a[..., j, j] - np.sum(L[..., j, :j] ** 2, axis=-1))
        for i in range(j + 1, a.shape[-1]):
            L[..., i, j] = (a[..., i, j] - np.sum(L[..., i, :j] * L[..., j, :j], axis=-1)) / L[..., j, j]
    return np.swapaxes(L, -1, -2) if upper else L


def slogdet(a):
    sign, logabs = np.linalg.slogdet(real(a))
    return sign, logabs + np.log(np.linalg.det(a) / np.linalg.det(real(a)))


def vecdot(a, b, axis=-1):
    return np.sum(np.moveaxis(a, axis, -1) * np.moveaxis(b, axis, -1), axis=-1)


def full_like(a, value, dtype=None, **kwargs):
    return np.full_like(a, value, dtype=complex, **kwargs)


def complex_dtype(maker):
    return lambda *args, dtype=None, **kwargs: maker(*args, dtype=complex if is_float(dtype) else dtype, **kwargs)


def is_float(dtype):
    return dtype is None or np.dtype(dtype).kind in "fc"


def array(z, dtype=None, **kwargs):
    """Like numpy.array, but complex if the dtype is real, because complex values will be stored."""
    made = np.array(z, dtype=None if is_float(dtype) else dtype, **kwargs)
    return made.astype(complex) if made.dtype.kind == "f" else made


def nan_to_num(z, copy=True, nan=0.0, posinf=None, neginf=None):
    bad = ~np.isfinite(real(z))
    filled = np.where(bad, np.nan_to_num(real(z), nan=nan, posinf=posinf, neginf=neginf), z)
    if copy:
        return filled
    z[...] = filled
    return z


def shifted(fun):
    """Return a function that adds a locally constant part."""
    return lambda z, *args, **kwargs: z + (fun(real(z), *args, **kwargs) - real(z))


#: functions that NumPy continues to complex arguments, up to the order of numbers with equal real parts
SAME = """
add subtract multiply divide true_divide negative positive reciprocal square power float_power pow sqrt exp exp2 expm1
log log2 log10 log1p sin cos tan arcsin arccos arctan asin acos atan sinc sinh cosh tanh arcsinh arccosh arctanh
where clip sum mean prod max min amax amin ptp nansum nanmean nanprod nanmax nanmin average cumsum cumprod
cumulative_sum cumulative_prod nancumsum nancumprod diff ediff1d trapezoid gradient
reshape ravel squeeze expand_dims transpose matrix_transpose swapaxes moveaxis rollaxis flip fliplr flipud rot90
diagonal broadcast_to broadcast_arrays split array_split hsplit vsplit dsplit unstack copy roll tile repeat resize
delete take take_along_axis tril triu diag diagflat vstack hstack dstack column_stack concatenate stack append insert
compress extract sort pad block meshgrid select choose piecewise apply_along_axis apply_over_axes atleast_1d
atleast_2d atleast_3d matmul dot inner outer tensordot einsum kron cross trace matvec
polyval polyadd polysub polymul polydiv polyder polyint vander trim_zeros
linalg.matmul linalg.outer linalg.tensordot linalg.cross linalg.trace linalg.diagonal linalg.matrix_transpose
linalg.matrix_power linalg.multi_dot linalg.solve linalg.inv linalg.det linalg.tensorsolve linalg.tensorinv
copyto put place putmask put_along_axis fill_diagonal ascontiguousarray asfortranarray
shape size ndim empty_like zeros_like ones_like isnan isfinite isinf arange argsort nonzero
""".split()

FORMULAS = {
    "absolute": absolute,
    "abs": absolute,
    "fabs": absolute,
    "arctan2": arctan2,
    "atan2": arctan2,
    "maximum": larger,
    "fmax": larger,
    "minimum": smaller,
    "fmin": smaller,
    "logaddexp": logaddexp,
    "logaddexp2": lambda a, b: logaddexp(a * np.log(2), b * np.log(2)) / np.log(2),
    "hypot": lambda a, b: np.sqrt(a * a + b * b),
    "cbrt": lambda z: np.sign(real(z)) * (z * np.sign(real(z))) ** (1 / 3),
    "copysign": lambda a, b: a * np.sign(real(a)) * np.copysign(1, real(b)),
    "ldexp": lambda z, n: z * 2.0**n,
    "modf": modf,
    "frexp": frexp,
    "remainder": remainder,
    "mod": remainder,
    "fmod": lambda a, b: a - b * np.trunc(real(a) / real(b)),
    "divmod": lambda a, b: (np.floor(real(a) / real(b)), remainder(a, b)),
    "degrees": lambda z: z * (180 / np.pi),
    "rad2deg": lambda z: z * (180 / np.pi),
    "radians": lambda z: z * (np.pi / 180),
    "deg2rad": lambda z: z * (np.pi / 180),
    "i0": by_partials(np.i0, (lambda x: mp.besseli(1, x),), lambda z: scipy.special.iv(0, z)),
    "conjugate": lambda z: z * 1.0,
    "conj": lambda z: z * 1.0,
    "angle": on_real(np.angle),
    "real": lambda z: z,
    "real_if_close": lambda z, tol=100: z,
    "imag": lambda z: np.zeros(np.shape(z), dtype=complex),
    "heaviside": lambda z, half: np.where(real(z) == 0, half, np.heaviside(real(z), 0.5)).astype(complex)[()],
    "var": var,
    "std": std,
    "median": median,
    "unwrap": shifted(np.unwrap),
    "nan_to_num": nan_to_num,
    "vdot": lambda a, b: np.sum(np.ravel(a) * np.ravel(b)),
    "vecdot": vecdot,
    "linalg.vecdot": vecdot,
    "vecmat": lambda x, a: np.matmul(x[..., None, :], a)[..., 0, :],
    "convolve": lambda a, b, mode="full": np.convolve(a, b, mode),
    "correlate": lambda a, b, mode="valid": np.correlate(a, np.conj(b), mode),
    "full": complex_dtype(np.full),
    "full_like": full_like,
    "linalg.norm": norm,
    "linalg.cholesky": cholesky,
    "linalg.slogdet": slogdet,
    "array": array,
    "asarray": array,
    "astype": lambda z, dtype, **kwargs: z.astype(complex),
    "zeros": complex_dtype(np.zeros),
    "empty": complex_dtype(np.zeros),
    "ones": complex_dtype(np.ones),
    "eye": complex_dtype(np.eye),
    "float32": np.complex128,
    "float64": np.complex128,
    **{name: on_real(getattr(np, name)) for name in "sign floor ceil trunc rint floor_divide argmax argmin".split()},
}

#: functions of scipy.special that accept complex arguments, so mpmath is not used
COMPLEX_SPECIAL = """
erf erfc gamma loggamma digamma exp1 expi jv yv iv kv expm1 log1p xlogy xlog1py ndtr log_ndtr
""".split()

BESSEL = [letter + order for letter in "jyik" for order in "01"]

SPECIAL_FORMULAS = {
    "cbrt": FORMULAS["cbrt"],
    "exp2": np.exp2,
    "exp10": lambda z: np.exp(z * np.log(10)),
    "expm1": np.expm1,
    "log1p": np.log1p,
    "cosm1": lambda z: -2 * np.sin(z / 2) ** 2,
    "expit": lambda z: 1 / (1 + np.exp(-z)),
    "logit": lambda z: np.log(z / (1 - z)),
    "log_expit": lambda z: -np.log1p(np.exp(-z)),
    "xlogy": lambda a, b: a * np.log(b),
    "xlog1py": lambda a, b: a * np.log1p(b),
    "entr": lambda z: -z * np.log(z),
    "rel_entr": lambda a, b: a * np.log(a / b),
    "kl_div": lambda a, b: a * np.log(a / b) - a + b,
}


def partials_by_name():
    from primitive_cases import ELEMENTWISE

    return {
        case.fun.rpartition(".")[2]: case.partials
        for case in ELEMENTWISE
        if isinstance(case.fun, str) and case.fun.startswith("scipy.special.")
    }


def special_twins():
    partials = partials_by_name()

    def find(name):
        fun = getattr(scipy.special, name)
        if name in SPECIAL_FORMULAS:
            return SPECIAL_FORMULAS[name]
        if name in BESSEL:
            slope = bessel_slopes(name)
            analytic = functools.partial(getattr(scipy.special, name[0] + "v"), int(name[1]))
            return lambda z: fun(real(z)) + slope(real(z)) * (z - real(z)) if is_tiny(z) else analytic(z)
        if name in partials:
            return by_partials(fun, partials[name], fun if name in COMPLEX_SPECIAL else None)
        return continued(fun, fun if name in COMPLEX_SPECIAL else None, SPECIAL_ACCURACY)

    return Module(find)


class Module(types.SimpleNamespace):
    """A module whose functions are looked up at first use."""

    def __init__(self, find, **given):
        super().__init__(**given)
        self._find = find

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = self._find(name)
        setattr(self, name, found)
        return found


def also_of_pairs(fun, formula):
    """Return a formula that uses the pairs' own version of the function for pairs."""

    def twin(*args, **kwargs):
        return (fun if any(isinstance(z, pairs.Pair) for z in args) else formula)(*args, **kwargs)

    return twin


def transform(name):
    """Return a transform of ``numpy.fft``, which rounds relative to the largest element."""
    fun = getattr(np.fft, name)

    def twin(z, *args, **kwargs):
        y = pairs.linear(lambda z: fun(z, *args, **kwargs), z)
        if name.endswith("shift") or not noise.size:
            return y
        return y.perturbed(noise.size, noise.rng, np.max) if isinstance(y, pairs.Pair) else blurred(y)

    return twin


def blurred(y):
    """Add noise relative to the largest value and to the largest tangent."""
    sizes = [noise.size * np.max(np.abs(part), initial=0.0) for part in (y.real, y.imag)]
    real, imag = (size * noise.rng.uniform(-1, 1, np.shape(y)) for size in sizes)
    return y + real + 1j * imag


def numpy_twin(name, prefix="", module=np):
    dotted = prefix + name
    if dotted in FORMULAS:
        of_pairs = name in pairs.UFUNCS or name in pairs.FUNCTIONS or name in ("abs", "conj")
        return also_of_pairs(getattr(module, name), FORMULAS[dotted]) if of_pairs else FORMULAS[dotted]
    fun = getattr(module, name)
    if dotted in SAME or not callable(fun) or isinstance(fun, type):
        return fun
    return continued(fun)


numpy = Module(
    numpy_twin,
    linalg=Module(lambda name: numpy_twin(name, "linalg.", np.linalg)),
    fft=Module(transform),
    lib=np.lib,
)
special = special_twins()
