"""Functions compiled by Numba are differentiated through their Python functions."""

import types

import numpy as np
import pytest

import wengert as wg

nb = pytest.importorskip("numba")

X = np.array([0.5, 1.5, 2.5, 0.25])


@nb.njit
def bent(a):
    return a * a + np.sin(a)


@nb.njit
def total(x):
    s = 0.0
    for i in range(x.size):
        s += bent(x[i])
    return s


@nb.njit(parallel=True)
def filled(x):
    out = np.empty(x.size)
    for i in nb.prange(x.size):
        out[i] = 2 * bent(x[i])
    return out


@nb.njit
def store(x, out):
    for i in range(x.size):
        out[i] = x[i] * x[0]


@nb.njit
def closing(x):
    def inner(a):
        return a * a * x[1]

    return inner(x[0])


@nb.vectorize
def mixed(a, b):
    if a > 1:
        return a * b
    return a + np.sin(b)


@nb.vectorize(["float64(float64)"])
def squared(a):
    return a * a


@nb.vectorize
def clipped(a):
    return a if a > 9 else 9.0


@nb.guvectorize(["void(float64[:], float64[:])"], "(n)->()")
def norm(x, out):
    out[0] = 0.0
    for i in range(x.shape[0]):
        out[0] += x[i] ** 2


@nb.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n),()->(n)")
def spread(x, c, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * c[0]


@nb.guvectorize("(n),()->(n)")
def untyped(x, c, out):
    for i in range(x.shape[0]):
        out[i] = x[i] * c


@nb.guvectorize(["void(float64[:], float64[:], float64[:])"], "(n)->(),()")
def ends(x, first, last):
    first[0], last[0] = x[0], x[-1] ** 2


class Model:
    def __init__(self):
        self.law = total

    def energy(self, x):
        return self.law(x) * x[0]


model, by_name = Model(), types.MappingProxyType({"total": total})


def into(fun, *shape):
    """Return a function that passes an array for the result, and sums it."""

    def f(x):
        out = np.zeros(shape)
        fun(x, out)
        return (out * np.arange(1.0, out.size + 1)).sum()

    return f


WORKS = {
    "njit": lambda x: total(x) * total(x[:2]),
    "of a scalar": lambda x: bent(x[0]) * x[1],
    "that fills an array": lambda x: filled(x) @ x,
    "that stores": into(store, 4),
    "with a closure": closing,
    "of constants": lambda x: bent(2.0) * x[0],
    "in an attribute": model.energy,
    "in map": lambda x: sum(map(bent, x)),
    "vectorize": lambda x: (mixed(x, x[:, None]) @ x).sum(),
    "vectorize of scalars": lambda x: mixed(x[0], 2.0) * mixed(x[1], x[2]),
    "vectorize with a type": lambda x: squared(x) @ x,
    "vectorize into an array": lambda x: into(lambda y, out: squared(y, out=out), 4)(x),
    "vectorize with constant results": lambda x: np.sqrt(clipped(x)) @ x,
    "guvectorize": lambda x: norm(x.reshape(2, 2)) @ x[:2] * norm(x),
    "guvectorize that broadcasts": lambda x: (spread(x, x[:2]) @ x).sum() + spread([x[0], 1.0], 2.0).sum(),
    "guvectorize into an array": into(lambda x, out: norm(x.reshape(2, 2), out), 2),
    "guvectorize without types": into(lambda x, out: untyped(x, x[0], out), 4),
    "guvectorize of two results": lambda x: ends(x.reshape(2, 2))[0] @ ends(x.reshape(2, 2))[1],
    "guvectorize of constants": lambda x: norm(np.ones(3)) * x[0],
}


@pytest.mark.parametrize("name", WORKS)
def test_derivatives_in_each_mode_are_those_of_the_compiled_function(name):
    f, h = WORKS[name], 1e-6
    y, expected = f(X.copy()), [(f(X + e) - f(X - e)) / (2 * h) for e in np.eye(4) * h]
    value, found = wg.grad(f, X, value=True)
    np.testing.assert_allclose(value, y, rtol=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.jacobian(f, X, mode="forward"), found, rtol=1e-13)
    compiled = wg.compile(f)
    np.testing.assert_allclose(compiled(X), y, rtol=1e-14)
    np.testing.assert_allclose(wg.grad(compiled)(X), found, rtol=1e-13)


@nb.njit
def printing(x):
    print("value", x[0])
    return x[0] ** 2


def test_compiled_call_of_a_function_that_prints_runs_uncompiled(capfd):
    compiled = wg.compile(lambda x: printing(x))
    with pytest.warns(wg.CompileWarning, match="printing calls print"):
        compiled(X)
    assert compiled(X) == 0.25
    assert capfd.readouterr().out == "value 0.5\n" * 2


@nb.stencil
def stencil(a):
    return a[-1] + a[1]


REFUSED = {
    "by an item": (lambda x: by_name["total"](x), r"by_name\['total'\] is compiled by Numba: .*py_func"),
    "made inside": (lambda x: nb.njit(lambda a: a * a)(x[0]), r"If nb\.njit\(.*\) is compiled by Numba, .*py_func"),
    "a stencil": (lambda x: stencil(x).sum(), "stencil is compiled by Numba"),
    "a typed list": (lambda x: nb.typed.List(x)[0], "a traced value cannot become a"),
    "a ufunc's reduce": (lambda x: squared.outer(x, x).sum(), "has no derivative rule|binary"),
    "of a shape that does not match": (lambda x: spread(x, x, x[:2]), "mismatch in its core dimension"),
    "with an option": (lambda x: norm(x.reshape(2, 2), axis=0).sum(), "no option but out="),
    "into a plain array": (lambda x: norm(x, X[:1].reshape(())), "make the array with numpy.empty"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_wengert_cannot_follow_are_refused_with_a_remedy(name):
    f, message = REFUSED[name]
    for mode in ("forward", "reverse"):
        with pytest.raises((TypeError, ValueError), match=message):
            wg.jacobian(f, X, mode=mode)
