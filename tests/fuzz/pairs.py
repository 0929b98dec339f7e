"""Complex values in a twin: pairs of real and imaginary part, each continued to complex arguments.

The twin's imaginary unit is that of the step or of Cauchy's circle; the program's is `I`.
"""

from __future__ import annotations

import numpy as np

SCALARS = (int, float, complex, np.number)


class Pair(np.lib.mixins.NDArrayOperatorsMixin):
    """A complex scalar or array as two arrays, whose elements are written and viewed together.

    The two are adjacent in memory unless they are views: a view of a complex array is a view of its twin.
    """

    def __init__(self, real, imag, views=False):
        if isinstance(real, np.ndarray) and not views:
            order = np.argsort([-abs(stride) for stride in real.strides], kind="stable")
            memory = np.stack([np.transpose(part, order) for part in (real, imag)], axis=-1)
            real, imag = (np.transpose(memory[..., k], np.argsort(order)) for k in (0, 1))
        self.real, self.imag = real, imag

    shape = property(lambda self: np.shape(self.real))
    ndim = property(lambda self: np.ndim(self.real))
    size = property(lambda self: np.size(self.real))
    T = property(lambda self: self.each(np.transpose))

    def each(self, fun, *args, **kwargs):
        """Apply a function that moves elements to both parts."""
        return Pair(fun(self.real, *args, **kwargs), fun(self.imag, *args, **kwargs), views=True)

    def __len__(self):
        return len(self.real)

    def __getitem__(self, key):
        return Pair(self.real[key], self.imag[key], views=True)

    def __setitem__(self, key, value):
        value = pair(value)
        self.real[key], self.imag[key] = value.real, value.imag

    def conj(self):
        return Pair(self.real * 1.0, -self.imag)

    def copy(self):
        return Pair(self.real, self.imag)

    def reshape(self, *shape):
        return self.each(np.reshape, shape)

    def ravel(self):
        return self.each(np.ravel)

    def perturbed(self, size, rng, of=lambda moduli: moduli):
        """Add noise relative to the modulus, or to that of the tangent; in place for arrays."""
        for turn, part_of in ((1.0, np.real), (1j, np.imag)):
            scale = size * of(np.hypot(part_of(self.real), part_of(self.imag)))
            changes = [turn * scale * rng.uniform(-1, 1, self.shape) for _ in range(2)]
            if isinstance(self.real, np.ndarray):
                for part, change in zip((self.real, self.imag), changes, strict=True):
                    if part.flags.writeable:
                        part += change
            else:
                self.real, self.imag = self.real + changes[0], self.imag + changes[1]
        return self

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), where=True):
        if method == "at":
            target, index, value = inputs
            value = pair(value)
            ufunc.at(target.real, index, value.real)
            return ufunc.at(target.imag, index, value.imag)
        y = UFUNCS[ufunc.__name__](*map(pair, inputs))
        if not out or not isinstance(out[0].real, np.ndarray):  # ``z[0] += 1`` writes no scalar in place
            return y
        out[0][where if where is not True else ...] = y[where] if where is not True else y
        return out[0]

    def __array_function__(self, fun, types, args, kwargs):
        return FUNCTIONS[fun.__name__](fun, *args, **kwargs)


def pair(z):
    """Return a pair with imaginary part 0 for a real scalar or array."""
    return z if isinstance(z, Pair) else Pair(z, np.zeros(np.shape(z), dtype=complex)[()])


def zeros(shape):
    return Pair(np.zeros(shape, dtype=complex), np.zeros(shape, dtype=complex))


I = Pair(np.complex128(0), np.complex128(1))

# ---------------------------------------------------------------------------- elementwise functions


def times(z, w):
    return Pair(z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real)


def reciprocal(z):
    square = z.real * z.real + z.imag * z.imag
    return Pair(z.real / square, -z.imag / square)


def divide(z, w):
    return times(z, reciprocal(w))


def modulus(z):
    return np.sqrt(z.real * z.real + z.imag * z.imag)


def argument(z):
    from .twins import arctan2

    return arctan2(z.imag, z.real)


def exp(z):
    return Pair(np.exp(z.real) * np.cos(z.imag), np.exp(z.real) * np.sin(z.imag))


def log(z):
    return Pair(np.log(modulus(z)), argument(z))


def sin(z):
    return Pair(np.sin(z.real) * np.cosh(z.imag), np.cos(z.real) * np.sinh(z.imag))


def cos(z):
    return Pair(np.cos(z.real) * np.cosh(z.imag), -np.sin(z.real) * np.sinh(z.imag))


def sinh(z):
    return Pair(np.sinh(z.real) * np.cos(z.imag), np.cosh(z.real) * np.sin(z.imag))


def cosh(z):
    return Pair(np.cosh(z.real) * np.cos(z.imag), np.sinh(z.real) * np.sin(z.imag))


def power(z, w):
    """Compute integer powers by products, others by the logarithm."""
    exponent = w.real
    if np.ndim(exponent) == 0 and not np.any(w.imag) and exponent in (1, 2, 3):
        y = z
        for _ in range(int(np.real(exponent)) - 1):
            y = times(y, z)
        return y
    return exp(times(w, log(z)))


UFUNCS = {
    "add": lambda z, w: Pair(z.real + w.real, z.imag + w.imag),
    "subtract": lambda z, w: Pair(z.real - w.real, z.imag - w.imag),
    "multiply": times,
    "divide": divide,
    "power": power,
    "negative": lambda z: Pair(-z.real, -z.imag),
    "positive": lambda z: z.copy(),
    "conjugate": Pair.conj,
    "reciprocal": reciprocal,
    "square": lambda z: times(z, z),
    "absolute": modulus,
    "exp": exp,
    "log": log,
    "sqrt": lambda z: exp(times(pair(0.5), log(z))),
    "sin": sin,
    "cos": cos,
    "tan": lambda z: divide(sin(z), cos(z)),
    "sinh": sinh,
    "cosh": cosh,
    "tanh": lambda z: divide(sinh(z), cosh(z)),
    "matmul": lambda z, w: bilinear(np.matmul, z, w),
    "vecdot": lambda z, w: bilinear(np.vecdot, z, w),
}

# ---------------------------------------------------------------------------- functions linear over the real numbers


def part(tree, imaginary):
    """Return the complex numbers of values or of tangents; constants have no tangent."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(part(branch, imaginary) for branch in tree)
    if isinstance(tree, Pair):
        part_of = np.imag if imaginary else np.real
        return part_of(tree.real) + 1j * part_of(tree.imag)
    if np.iscomplexobj(tree):
        return np.imag(tree) if imaginary else np.real(tree)
    if imaginary and (isinstance(tree, float) or getattr(tree, "dtype", np.dtype(int)).kind == "f"):
        return np.zeros(np.shape(tree))[()]
    return tree


def joined(y, t):
    """Combine values and tangents: a pair, or a complex number of the twin if the values are real."""
    if np.iscomplexobj(y):
        return Pair(y.real + 1j * t.real, y.imag + 1j * t.imag)
    return y + 1j * t


def linear(fun, *args, **kwargs):
    """Apply a function that is linear in all operands jointly."""
    return joined(fun(*part(args, False), **kwargs), fun(*part(args, True), **kwargs))


def bilinear(fun, a, b, **kwargs):
    """Apply a function that is linear in each of two operands."""
    a, s, b, t = part(a, False), part(a, True), part(b, False), part(b, True)
    return joined(fun(a, b, **kwargs) - fun(s, t, **kwargs), fun(s, b, **kwargs) + fun(a, t, **kwargs))


def einsum(fun, subscripts, a, b):
    return bilinear(lambda a, b: np.einsum(subscripts, a, b), a, b)


def solve(fun, a, b):
    """Solve one system for values and tangents."""
    a, s, b, t = part(a, False), part(a, True), part(b, False), part(b, True)
    whole = np.linalg.solve(np.block([[a, -s], [s, a]]), np.concatenate([b, t]))
    return joined(whole[: len(b)], whole[len(b) :])


def norm(fun, z):
    return np.sqrt(np.sum(z.real * z.real + z.imag * z.imag))


def copyto(fun, target, z, where=True):
    target[...] = np.where(where, z, target) if where is not True else z


FUNCTIONS = {
    **dict.fromkeys("sum mean cumsum diff trace ravel reshape transpose roll flip take where".split(), linear),
    **dict.fromkeys("concatenate stack repeat tile broadcast_to squeeze expand_dims diagonal".split(), linear),
    **dict.fromkeys("dot vdot inner outer convolve kron".split(), bilinear),
    "einsum": einsum,
    "solve": solve,
    "norm": norm,
    "copyto": copyto,
    "real": lambda fun, z: z.real,
    "imag": lambda fun, z: z.imag,
    "angle": lambda fun, z: argument(z),
    "shape": lambda fun, z: z.shape,
    "ndim": lambda fun, z: z.ndim,
    "size": lambda fun, z: z.size,
}
