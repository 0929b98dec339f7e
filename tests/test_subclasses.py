"""Traced values as instances of user-defined subclasses of `numpy.ndarray`.

Each program runs plain, in every mode, compiled and in a batch; references are derivatives of the same mathematics
written with plain arrays.
"""

import warnings

import numpy as np
import pytest
from scipy.spatial import cKDTree

import wengert as wg


class Info(np.ndarray):
    """The example of NumPy's documentation."""

    def __new__(cls, array, info=None):
        new = np.asarray(array).view(cls)
        new.info = info
        return new

    def __array_finalize__(self, other):
        if other is not None:
            self.info = getattr(other, "info", None)


class Low(Info):
    __array_priority__ = -10.0


class Sub(Info):
    def scaled(self):
        return super().__mul__(2.0)

    def __getitem__(self, key):
        return super().__getitem__(key)


class Filled(np.ndarray):
    """Made by `ndarray.__new__`, from a buffer and empty."""

    def __new__(cls, array, fills=False):
        if not fills:
            return super().__new__(cls, array.shape, float, array)
        new = super().__new__(cls, array.shape)
        new[:] = array
        return new


class Wrapping(Info):
    """Results of ufuncs are plain arrays."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array) + 0.0


class Unit(np.ndarray):
    """Multiplies a factor, by `__array_ufunc__` and `super()`."""

    def __new__(cls, array, factor=1.0):
        new = np.array(array, dtype=float).view(cls)
        new.factor = factor
        return new

    def __array_finalize__(self, other):
        if other is not None:
            self.factor = getattr(other, "factor", 1.0)

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if ufunc not in (np.add, np.multiply) or out is not None:
            return NotImplemented
        factors = [x.factor if isinstance(x, Unit) else 1.0 for x in inputs]
        values = [x.view(np.ndarray) if isinstance(x, Unit) else x for x in inputs]
        if ufunc is np.add and len(values) == 2:
            values = [x * f / factors[0] for x, f in zip(values, factors)]
        y = super().__array_ufunc__(ufunc, method, *values, **kwargs)
        if y is NotImplemented:
            return NotImplemented
        return Unit(y, factors[0] if ufunc is np.add else np.prod(factors))


class Functions(Info):
    """Redefines one function of NumPy."""

    def __array_function__(self, function, types, args, kwargs):
        if function is np.median:
            return np.float64(3.0) * np.sum(args[0].view(np.ndarray))
        if function is np.ptp or is_maximum(function):
            return np.float64(1.0)
        return super().__array_function__(function, types, args, kwargs)


def is_maximum(function):
    return function in (np.max, np.nanmax)


class Operators(np.ndarray):
    """Redefines operators, as quaternions do."""

    def __new__(cls, array):
        return np.asarray(array).view(cls)

    def __mul__(self, other):
        return Operators(np.asarray(self)[::-1] * np.asarray(other))

    def __rmul__(self, other):
        return Operators(np.asarray(other) * np.asarray(self) + 1.0)

    def __sub__(self, other):
        return Operators(np.asarray(self) - 2.0 * np.asarray(other))


constant = Info([2.0, 3.0, 5.0], "constant")


def metadata(x):
    y = Info(x, "m")
    z = np.sin(y[1:] * 2.0)
    assert type(z) is Info and z.info == "m" and isinstance(z, np.ndarray) and z.__class__ is Info
    return np.sum(z) * y[0]


def total(x):
    y = Info(x, "m").sum()
    assert type(y) is Info and y.shape == () and y.info == "m"
    return y


def item_assignment(x):
    y = Info(x.copy(), "m")
    y[0] = x[1] * x[2]
    y[1:] *= 2.0
    y += x
    assert y.info == "m"
    return np.asarray(y) @ np.arange(1.0, 4.0)


def of_a_constant(x):
    y = constant * x + x * constant
    assert type(y) is Info and y.info == "constant"
    return y.sum() + np.sum(constant[1:] * x[:2])


def methods(x):
    y = Info(x, 1)
    for z in (y.T, y.copy(), y.reshape(3, 1), y.ravel(), y.astype(float), y.clip(0.0, 9.0), y.cumsum(),
              y.take([0, 1]), y.repeat(2), y.round(), -y, abs(y), y**2, y % 2.0, np.sort(y), y.real):  # fmt: skip
        assert type(z) is Info and z.info == 1, z
    total = y.mean() + y.std() * y.max() + np.mean(y.reshape(3, 1) ** 2)
    return total + y.cumprod()[-1] + y.dot(y) + (y @ y)


def classes_of_results(x):
    y, z = Info(x, "y"), Info(x, "z")
    for r, kind, info in [
        (y + z, Info, "y"), (x + z, Info, "z"), (np.where(y > z, y, z), np.ndarray, None),
        (np.outer(y, z), np.ndarray, None),
        (np.stack([y, z]), np.ndarray, None), (np.zeros_like(y), Info, "y"), (np.roll(y, 1), Info, "y"),
        (Low(x, "n") + x, np.ndarray, None), (y + Low(x, "n"), Info, "y"), (np.atleast_2d(y), Info, "y"),
        (y < 2.0, Info, "y"), (np.asanyarray(y), Info, "y"), (np.array(y), np.ndarray, None),
        (np.array(y, subok=True), Info, "y"), (y[0], np.float64, None), (y[...], Info, "y"), (y.argsort(), Info, "y"),
    ]:  # fmt: skip
        assert type(r) is kind and getattr(r, "info", None) == info, (r, kind, info)
    joined = np.sum(np.concatenate([y, x])) + np.interp(1.0, [0.0, 2.0], y[:2])
    return joined + np.linalg.norm(z) + np.einsum("i,i", y, z)


def inherited_super(x):
    y = Sub(x, 2).scaled()
    assert type(y) is Sub and y.info == 2
    return sum(v * v for v in y)


def new_over_buffer(x):
    y = Filled(x * 1.0)
    assert type(y) is Filled and y.__class__ is Filled
    return (y * y).sum()


def new_then_filled(x):
    return (Filled(x, True) * x).sum()


def array_wrap(x):
    y = Wrapping(x, 1)
    z = y * 2.0
    assert type(z) is np.ndarray and type(y[1:]) is Wrapping
    return np.sum(z * x)


def array_ufunc(x):
    y = Unit(x, 1000.0) + Unit(x[::-1], 10.0)
    z = (y * y).sum()
    assert type(z) is Unit and z.factor == 1e6
    return z


def array_function(x):
    return np.median(Functions(x)) + np.sum(Functions(x)) + np.max(Functions(x)) * np.ptp(Functions(x))


def operators(x):
    y = Operators(x)
    return np.sum((y * x) - (x * y)) + np.sum(2.0 * y)


def view_back(x):
    y = Info(x, 1).view(np.ndarray)
    assert type(y) is np.ndarray
    return y @ y


def attributes_that_are_traced(x):
    y = Info(x, x[0] * 3.0)
    return np.sum((y * 2.0)[1:].info * y)


def converted(x):
    y = Info(x, 1)
    return float(y[0]) * y.item(1) + float(y.sum()) + sum(y.tolist())


PROGRAMS = {
    "metadata": (metadata, lambda x: np.sum(np.sin(2.0 * x[1:])) * x[0]),
    "0-d result": (total, np.sum),
    "item assignment": (
        item_assignment,
        lambda x: np.stack([x[1] * x[2] + x[0], 3.0 * x[1], 3.0 * x[2]]) @ np.arange(1.0, 4.0),
    ),
    "constant instance": (
        of_a_constant,
        lambda x: 2.0 * np.sum(np.array([2.0, 3.0, 5.0]) * x) + 3.0 * x[0] + 5.0 * x[1],
    ),
    "methods": (
        methods,
        lambda x: np.mean(x) + np.std(x) * np.max(x) + np.mean(x**2) + x[0] * x[1] * x[2] + 2.0 * (x @ x),
    ),
    "classes of results": (
        classes_of_results,
        lambda x: 2.0 * np.sum(x) + np.linalg.norm(x) + x @ x + 0.5 * (x[0] + x[1]),
    ),
    "inherited, super()": (inherited_super, lambda x: 4.0 * (x @ x)),
    "ndarray.__new__ over a buffer": (new_over_buffer, lambda x: x @ x),
    "ndarray.__new__, then filled": (new_then_filled, lambda x: x @ x),
    "__array_wrap__": (array_wrap, lambda x: 2.0 * (x @ x)),
    "__array_ufunc__": (array_ufunc, lambda x: np.sum((x + x[::-1] / 100.0) ** 2)),
    "__array_function__": (array_function, lambda x: 4.0 * np.sum(x) + 1.0),
    "operators": (operators, lambda x: np.sum(x[::-1] * x) - 2.0 * np.sum(x * x + 1.0) + 2.0 * np.sum(x) + 3.0),
    "view as ndarray": (view_back, lambda x: x @ x),
    "traced attributes": (attributes_that_are_traced, lambda x: 3.0 * x[0] * np.sum(x)),
    "conversions": (converted, lambda x: x[0] * x[1] + 2.0 * np.sum(x)),
}

x0 = np.array([1.3, 0.7, 2.1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_are_those_of_plain_arrays(name):
    f, reference = PROGRAMS[name]
    plain = np.asarray(f(x0))
    np.testing.assert_allclose(plain, reference(x0), rtol=1e-14)
    wanted, bent = wg.grad(reference, x0), wg.hessian(reference, x0)
    y, g = wg.grad(f, x0, value=True)
    assert np.array_equal(y, plain)
    np.testing.assert_allclose(g, wanted, rtol=1e-13)
    np.testing.assert_allclose(wg.jacobian(f, x0, mode="forward"), wanted, rtol=1e-13)
    np.testing.assert_allclose(wg.jacobian(f, x0, mode="reverse"), wanted, rtol=1e-13)
    np.testing.assert_allclose(wg.hessian(f, x0), bent, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(wg.jacobian(wg.grad(f), x0), bent, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_functions_return_the_subclass(name):
    f, reference = PROGRAMS[name]
    gradient, value = wg.grad(wg.compile(f)), wg.compile(f)
    for x in (x0, 1.1 * x0, 0.9 * x0, x0 + 0.1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wg.errors.CompileWarning)
            np.testing.assert_allclose(gradient(x), wg.grad(reference, x), rtol=1e-12)
            y = value(x)
        plain = f(x)
        assert type(y) is type(plain) and getattr(y, "info", None) == getattr(plain, "info", None)
        np.testing.assert_allclose(np.asarray(y), np.asarray(plain), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_equal_single_calls(name):
    f, _ = PROGRAMS[name]
    batch = np.stack([x0, 1.1 * x0])
    np.testing.assert_allclose(wg.vmap(f)(batch), [np.asarray(f(x)) for x in batch], rtol=1e-13)


def test_programs_replay_without_python():
    wanted = wg.grad(PROGRAMS["metadata"][1], 2.0 * x0)
    np.testing.assert_allclose(wg.record(metadata, x0).grad()(2.0 * x0), wanted, rtol=1e-12)


def test_stop_gradient_is_a_plain_instance():
    def f(x):
        y = wg.stop_gradient(Info(x, "m"))
        assert type(y) is Info and y.info == "m"
        return np.sum(y * x)

    np.testing.assert_array_equal(wg.grad(f, x0), x0)


def test_classes_are_left_as_they_are():
    before = {cls: (dict(vars(cls)), cls.__bases__) for cls in (Info, Sub, Unit, Operators)}
    for f, _ in PROGRAMS.values():
        wg.grad(f, x0)
    assert before == {cls: (dict(vars(cls)), cls.__bases__) for cls in before}
    assert vars(constant) == {"info": "constant"}


def test_finalize_runs_as_often_as_in_plain_code():
    seen = []

    class Counted(np.ndarray):
        def __array_finalize__(self, other):
            seen.append((type(self).__name__, type(other).__name__))

    def f(x):
        y = (np.asarray(x).view(Counted)[1:] * 2.0).reshape(2, 1)
        seen.append("compare")
        mask = y > 1.0
        return np.sum(np.asarray(y)) + mask.sum() * 0.0

    f(x0)
    plain, seen[:] = list(seen), []
    wg.grad(f, x0)
    assert seen[:4] == plain[:4] and len(seen) <= len(plain)


class Asked(Info):
    """Compares functions in another method than ``__array_function__``."""

    def is_sum(self, function):
        return function is np.sum

    def __array_function__(self, function, types, args, kwargs):
        return 1.0 if self.is_sum(function) else super().__array_function__(function, types, args, kwargs)


class Reading(Info):
    """Changes what `numpy.insert` reads."""

    def __getitem__(self, key):
        return 2.0 * np.asarray(self)[key]


class Components(np.ndarray):
    """An array of objects, whose components may have any shape."""

    def __new__(cls, components):
        made = np.ndarray.__new__(cls, len(components), dtype=object)
        made[:] = components
        return made


REFUSED = {
    "an array of objects": (lambda x: (Components([1.0, 2.0, 3.0][: len(x)]) - x).sum(), "array of Python objects"),
    "a masked array": (lambda x: x.view(np.ma.MaskedArray).sum(), "mask"),
    "a matrix": (lambda x: x.view(np.matrix).sum(), "numpy.matrix"),
    "a record array": (lambda x: x.view(np.recarray).sum(), "recarray"),
    "compiled code": (lambda x: cKDTree(Info(x).reshape(3, 1)).data.sum(), "plain NumPy array|Python float"),
    "in place, with __array_ufunc__": (lambda x: _added_in_place(x), "x = x \\+ y"),
    "functions compared in a method": (lambda x: np.sum(Asked(x)), "compares functions by name"),
    "a redefined method in NumPy's code": (
        lambda x: np.asarray(np.insert(Reading(x), 1, 0.0)).sum(), "redefines|plain NumPy"
    ),
    "pickle": (lambda x: __import__("pickle").dumps(Info(x)), "pickled"),
    "float of C code": (lambda x: __import__("struct").pack("d", Info(x).sum()), "float"),
}  # fmt: skip


def _added_in_place(x):
    y = x.copy()
    y += Unit(x, 2.0)
    return y.sum()


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_uses_are_refused(name):
    f, message = REFUSED[name]
    with pytest.raises(TypeError, match=message):
        wg.grad(f, x0)


def test_memory_never_yields_numbers():
    def f(x):
        y = Info(x)
        found = []
        for read in (memoryview, lambda y: np.ndarray.__array__.__get__(y), np.frombuffer):
            try:
                found.append(np.asarray(read(y), dtype=float))
            except Exception:
                pass
        assert not found
        return x.sum()

    with pytest.raises(TypeError):
        wg.grad(f, x0)


class FirstField(np.ndarray):
    """An array with fields, whose ufuncs compute with the first one."""

    def __array_ufunc__(self, fun, method, *inputs, **options):
        inputs = [x["a"].view(np.ndarray) if isinstance(x, FirstField) else x for x in inputs]
        return getattr(fun, method)(*inputs, **options)


class WithFields(np.ndarray):
    pass


PAIRS = np.array([(1.0, 2.0), (3.0, 4.0)], dtype=[("a", float), ("b", float)])
WITH_FIELDS = {
    "left": lambda x: PAIRS.view(WithFields) * x,
    "right": lambda x: x * PAIRS.view(WithFields),
    "scalar": lambda x: x[0] * PAIRS.view(WithFields),
    "ufunc": lambda x: np.multiply(x, PAIRS.view(WithFields)),
    "function": lambda x: np.dot(x, PAIRS.view(WithFields)),
}


@pytest.mark.parametrize("f", WITH_FIELDS.values(), ids=WITH_FIELDS)
def test_subclass_with_fields_raises_as_in_plain_code(f):
    x = np.array([0.3, 0.4])
    with pytest.raises(TypeError):
        f(x)
    with pytest.raises(TypeError):
        wg.jacobian(f)(x)


def test_subclass_with_fields_that_computes_with_one_has_the_derivative():
    pairs = PAIRS.view(FirstField)
    np.testing.assert_array_equal(wg.jacobian(lambda x: pairs * x)(np.array([0.3, 0.4])), np.diag([1.0, 3.0]))
