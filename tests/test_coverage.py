"""Each public function has a rule, is constant or raises; no derivative is ever lost silently.

The first part assigns every NumPy name to one group, so that a new name fails until it is assigned.
The second part calls all of them with traced arrays: the result has the derivative by differences, or
wengert raises one of its own errors.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import wengert as wg
import wengert.numpy
from wengert import registry
from wengert.core.dispatch import dispatch, methods
from wengert.errors import TracedValueError, UnsupportedFunctionError

# ---- groups

#: functions that NumPy implements by others, which have rules
THROUGH = {"numpy.row_stack", "numpy.in1d", "numpy.trapz", "numpy.fft.fftfreq", "numpy.fft.rfftfreq"}

#: constructors of objects that hold no traced values
MAKERS = {"numpy.frompyfunc", "numpy.fromstring", "numpy.asmatrix", "numpy.bmat"}

#: functions that never receive floating-point arrays: types, files, settings, shapes, text
NO_OPERANDS = {
    f"numpy.{name}"
    for name in (
        "show_config base_repr binary_repr datetime_as_string datetime_data "
        "format_float_positional format_float_scientific from_dlpack fromfile get_printoptions "
        "getbufsize geterr geterrcall isdtype isfortran issubdtype nested_iters "
        "printoptions promote_types set_printoptions setbufsize seterr seterrcall iterable "
        "diag_indices ix_ ravel_multi_index unravel_index fromregex load save savetxt savez "
        "savez_compressed broadcast_shapes mask_indices tril_indices triu_indices mintypecode "
        "typename get_include info show_runtime test linalg.test fft.test"
    ).split()
}


def public(module):
    """Return the public callables of a module by name, without types."""
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and not isinstance(value, type)
    }


PUBLIC = {
    f"{module.__name__}.{name}": fun
    for module in (np, np.linalg, np.fft, np.emath)
    for name, fun in public(module).items()
}


def groups_of(name, fun):
    found = []
    if (row := registry.lookup(fun)) is not None:
        found.append(row.kind)
    elif fun in dispatch.creation:
        found.append("creation")
    named = {"no operands": NO_OPERANDS, "through": THROUGH, "maker": MAKERS}
    return found + [group for group, names in named.items() if name in names]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_numpy_function_is_in_one_group(name):
    assert len(groups_of(name, PUBLIC[name])) == 1


#: the share of functions without a derivative is limited among those that return floating-point arrays
WITH_DERIVATIVE = {"elementwise", "linear", "structural", "view", "rearrangement", "composed", "creation", "through"}


def test_few_numpy_functions_are_unsupported():
    groups = [groups_of(name, fun)[0] for name, fun in PUBLIC.items()]
    refused = groups.count("refuse")
    assert refused <= 0.08 * (refused + sum(group in WITH_DERIVATIVE for group in groups))


#: ufuncs whose reductions have no rule: constants, matrix products, and those that round otherwise when reduced
WITHOUT_REDUCTION = set("nextafter divmod floor_divide ldexp matmul vecdot matvec vecmat".split())
WITHOUT_REDUCTION |= set("arctan2 atan2 power pow float_power".split())


def test_every_binary_ufunc_has_reductions_or_is_listed_without():
    ufuncs = {name: f for name, f in vars(np).items() if isinstance(f, np.ufunc) and f.nin == 2 and "dd->d" in f.types}
    for name, ufunc in ufuncs.items():
        known = {method for method in ("reduce", "accumulate") if (ufunc, method) in registry.ufunc_methods}
        assert known == (set() if name in WITHOUT_REDUCTION else {"reduce", "accumulate"}), name


#: array attributes that traced arrays define as slots, and those that they lack
SLOTS = set("T mT dtype shape ndim size real imag flat".split())


def array_groups(name):
    groups = {
        "function": methods.METHODS,
        "method": methods.ARRAY_METHODS,
        "metadata": methods.METADATA,
        "slot": SLOTS,
        "way out": methods.LOSES_DERIVATIVE - set(methods.ARRAY_METHODS),
        "refused": methods.REFUSED_METHODS,
    }
    return [group for group, names in groups.items() if name in names]


#: removed names that are still listed and raise AttributeError
ARRAY_ATTRIBUTES = [name for name in dir(np.ndarray) if not name.startswith("_") and hasattr(np.zeros((1, 1)), name)]


@pytest.mark.parametrize("name", sorted(ARRAY_ATTRIBUTES))
def test_every_array_attribute_is_in_one_group(name):
    assert len(array_groups(name)) == 1


def test_every_rule_is_declared_once_and_completely():
    registry.declare_loaded()
    for fun, row in registry.rows.items():
        assert row.fun is fun
        assert row.kind in "elementwise linear structural view rearrangement composed constant refuse".split()
        assert row.kind in ("refuse", "constant") if row.reason else row.kind != "refuse"
        assert bool(row.vjps or row.variadic) == (row.kind in ("linear", "structural", "composed"))


# ---- every function, called

#: names that return uninitialised memory, write files, change settings, run tests or take minutes
LEFT_ALONE = set(
    (
        "empty empty_like ndarray recarray save savetxt savez savez_compressed load loadtxt "
        "genfromtxt fromfile fromregex memmap info test show_config show_runtime set_printoptions "
        "setbufsize seterr seterrcall printoptions errstate get_include nested_iters"
    ).split()
)



def fixes_in_place():
    """Return whether ``numpy.fix(y, y)`` rounds toward zero; some releases read values already rounded up."""
    y = np.array([0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.fix(y, y)
    return y[0] == 0.0


if hasattr(np, "fix") and not fixes_in_place():
    LEFT_ALONE.add("fix")


RNG = np.random.default_rng(20)
POINTS = {
    "number": np.float64(0.7),
    "0-d": np.array(0.7),
    "vector": np.array([0.3, 1.7, 0.6, 1.1]),
    "matrix": np.array([[0.913, 0.317, 0.223], [0.271, 1.319, 0.419], [0.119, 0.367, 0.811]]),
    "stack": RNG.uniform(0.2, 0.8, (2, 2, 3)),
}

INDICES = np.array([1, 0])

#: ways to pass an operand to a call
FORMS = {
    "f(x)": lambda fun, x: fun(x),
    "f(x, x)": lambda fun, x: fun(x, x),
    "f(x, plain)": lambda fun, x: fun(x, np.full(np.shape(x), 0.3)),
    "f(plain, x)": lambda fun, x: fun(np.full(np.shape(x), 0.3), x),
    "f(x, 1)": lambda fun, x: fun(x, 1),
    "f(1, x)": lambda fun, x: fun(1, x),
    "f(x, 0.5)": lambda fun, x: fun(x, 0.5),
    "f(x, 0, 1)": lambda fun, x: fun(x, 0, 1),
    "f([x, x])": lambda fun, x: fun([x, x]),
    "f((x, 2 x))": lambda fun, x: fun((x, 2 * x)),
    "f(x, indices)": lambda fun, x: fun(x, INDICES),
    "f(x, indices, x)": lambda fun, x: fun(x, INDICES, x[:2] if np.ndim(x) else x),
    "f(x, mask)": lambda fun, x: fun(x, np.asarray(wg.stop_gradient(x)) > 0.5),
    "f(mask, x)": lambda fun, x: fun(np.asarray(wg.stop_gradient(x)) > 0.5, x),
    "f(mask, x, 2 x)": lambda fun, x: fun(np.asarray(wg.stop_gradient(x)) > 0.5, x, 2 * x),
    "f(x, plain, plain)": lambda fun, x: fun(x, np.linspace(0, 2, 5), np.linspace(1, 3, 5) ** 2),
    "f(0.4, plain, x)": lambda fun, x: fun(0.4, np.arange(np.size(x)) * 0.31, x),
    "f(x, x, x)": lambda fun, x: fun(x, x, x),
    "f(x[0], x[1], 5)": lambda fun, x: fun(x[0], x[1], 5),
    "f(axis=0)": lambda fun, x: fun(x, axis=0),
    "f(axis=-1)": lambda fun, x: fun(x, axis=-1),
    "f([x[0], x[1]])": lambda fun, x: fun([x[0], x[1]]),
    "f([[x, x], [x, x]])": lambda fun, x: fun([[x, x], [x, x]]),
    "f(2, fill)": lambda fun, x: fun(2, x),
    "f(function, x)": lambda fun, x: fun(as_callback(fun, lambda v: v * v), x),
    "f(function, 0, x)": lambda fun, x: fun(as_callback(fun, lambda v: np.sum(v * v)), 0, x),
    "f(labels, x)": lambda fun, x: fun("i,i", x, x),
    "f(weights=x)": lambda fun, x: fun(np.arange(np.size(x)), weights=x),
    "f(x, out)": lambda fun, x: into(fun, x),
}


def as_callback(fun, argument):
    """Return a function argument, unless `fun` is a ufunc, which would treat it as a Python object."""
    if isinstance(fun, np.ufunc):
        raise TypeError
    return argument


def into(fun, x):
    if "cum" in getattr(fun, "__name__", "") and np.ndim(x) != 1:
        raise TypeError("some versions of NumPy crash here")
    out = np.zeros(np.shape(x))
    fun(x, out=out)
    return out


def numbers_in(result):
    """Return everything numeric in a result as a flat list of arrays; other objects are skipped."""
    if isinstance(result, (np.nditer, np.ndenumerate, np.flatiter)):
        result = [item for item, _ in zip(result, range(20))]
    if isinstance(result, np.poly1d):
        result = result.coeffs
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [part for item in result for part in numbers_in(item)]
    if (
        isinstance(result, (bool, int, float, np.number, np.bool, np.ndarray))
        and np.asarray(plain(result)).dtype.kind in "biuf"
    ):
        return [result]
    if isinstance(result, complex) or getattr(getattr(result, "dtype", None), "kind", "") == "c":
        return [np.real(result), np.imag(result)]
    return []


def plain(x):
    return wg.stop_gradient(x)


def outcome(fun, form):
    """Express the call as a function of x that returns all numeric results, and the operand after the call."""

    def f(x):
        x = x * 1.0
        parts = [*numbers_in(form(fun, x)), x]
        return np.concatenate([np.ravel(part) * 1.0 for part in parts])

    return f


OURS = (UnsupportedFunctionError, TracedValueError)

#: errors of NumPy that an unusual call may raise; no derivative is lost
LOUD = (TypeError, ValueError)


def differences(f, x, h=1e-5):
    columns = []
    for i in range(np.size(x)):
        step = np.zeros(np.shape(x))
        step.flat[i] = h
        columns.append((f(x + step) - f(x - step)) / (2 * h))
    return np.stack(columns, axis=-1).reshape(-1, *np.shape(x))


#: conversions to lower precision: step and tolerance of the differences
COARSE = {np.single: (0.125, 1e-5), np.complex64: (0.125, 1e-5), np.half: (0.125, 2e-2)}

#: axes are ordered differently in some releases, so that values differ by rounding
ROUNDED = {np.fft.rfftn, np.fft.rfft2}


def check(fun, forms, points=POINTS):
    """Check every form and shape of a function; return how often it was differentiated and refused."""
    passed, refused, odd = 0, 0, []
    h, tolerance = COARSE.get(fun, (1e-5, 1e-5))
    for (how, form), (shape, x) in itertools.product(forms.items(), points.items()):
        f = outcome(fun, form)
        try:
            y = f(x)
            wanted = differences(f, x, h)
        except Exception:  # NumPy does not support this call
            continue
        try:
            got, found = wg.jacobian(f, x, value=True)
        except OURS:
            refused += 1
            continue
        except LOUD:
            refused += 1
            continue
        except Exception as error:
            odd.append(f"{how} of {shape}: {type(error).__name__}: {error}")
            continue
        passed += 1
        is_same = np.allclose if fun in ROUNDED else np.array_equal
        if got.shape != y.shape or not is_same(got, y, equal_nan=True):
            odd.append(f"{how} of {shape}: value {got}, NumPy gives {y}")
            continue
        if fun in (np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh):  # both triangles share the derivative
            continue
        known = np.isfinite(wanted) & np.isfinite(found) & (np.abs(wanted) < 1e4)
        if not np.allclose(found[known], wanted[known], rtol=tolerance, atol=tolerance):
            odd.append(f"{how} of {shape}: derivative {found.tolist()}, differences {wanted.tolist()}")
    return passed, refused, odd


CALLABLES = {
    f"{module.__name__}.{name}": value
    for module in (np, np.linalg, np.fft, np.emath)
    for name, value in vars(module).items()
    if callable(value) and not name.startswith("_") and name not in LEFT_ALONE
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_no_numpy_function_loses_a_derivative(name):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, _, odd = check(CALLABLES[name], FORMS)
    assert not odd, "\n".join(odd)


# ---- methods of arrays and scalars

METHOD_FORMS = {
    "x.m": lambda name: lambda x: getattr(x, name),
    "x.m()": lambda name: lambda x: getattr(x, name)(),
    "x.m(0)": lambda name: lambda x: getattr(x, name)(0),
    "x.m(1)": lambda name: lambda x: getattr(x, name)(1),
    "x.m(x)": lambda name: lambda x: getattr(x, name)(x),
    "x.m(axis=0)": lambda name: lambda x: getattr(x, name)(axis=0),
    "x.m(indices)": lambda name: lambda x: getattr(x, name)(INDICES),
    "x.m(indices, x)": lambda name: lambda x: getattr(x, name)(INDICES, x[:2]),
    "x.m(plain)": lambda name: lambda x: getattr(x, name)(np.full(np.shape(x), 0.305)),
    "x.m(-1)": lambda name: lambda x: getattr(x, name)(-1),
    "x.m(0.5, 1)": lambda name: lambda x: getattr(x, name)(0.5, 1),
    "x.m(0, 1)": lambda name: lambda x: getattr(x, name)(0, 1),
    "x.m(float)": lambda name: lambda x: getattr(x, name)(float),
    "x.m(int)": lambda name: lambda x: getattr(x, name)(int),
    "x.m(mask)": lambda name: lambda x: getattr(x, name)(np.asarray(plain(x)) > 0.5),
    # "F" is a memory order; astype would read it as complex64, which is too coarse for differences
    "x.m('F')": lambda name: lambda x: getattr(x, name)("D" if name == "astype" else "F"),
    "x.m(out)": lambda name: lambda x: method_into(x, name),
    "x.m = x": lambda name: lambda x: assigned(x, name),
}

#: attributes that are not values of the array: memory, type, text
NOT_VALUES = {
    "data",
    "ctypes",
    "tofile",
    "dump",
    "dumps",
    "__array_interface__",
    "__array_struct__",
    "setflags",
}


def method_into(x, name):
    if "cum" in name:
        raise TypeError("some versions of NumPy crash here")
    out = np.zeros(np.shape(x))
    getattr(x, name)(out=out)
    return out


def assigned(x, name):
    """Set an attribute to a multiple of its value, as in ``x.flat = ...`` and ``x.real *= 2``."""
    setattr(x, name, getattr(x, name) * 2.0)
    return x


ATTRIBUTES = sorted(
    name
    for name in {*dir(np.ndarray), *dir(np.float64)}
    if name not in NOT_VALUES
    and (not name.startswith("__") or name in "__abs__ __pos__ __neg__ __divmod__ __rpow__".split())
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_no_method_loses_a_derivative(name):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forms = {how: (lambda _, x, call=make(name): call(x)) for how, make in METHOD_FORMS.items()}
        _, _, odd = check(name, forms)
    assert not odd, "\n".join(odd)


# ---- other libraries that use NumPy's protocols


def special_functions():
    scipy_special = pytest.importorskip("scipy.special")
    return {name: f for name, f in vars(scipy_special).items() if isinstance(f, np.ufunc)}


SPECIAL_POINTS = {name: POINTS[name] for name in ("number", "vector")}


#: SciPy's values have six correct digits, too few for differences: `test_special.py` compares with mpmath
NOISY = {"itairy"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(special_functions().keys() - NOISY))
def test_no_special_function_loses_a_derivative(name):
    fun = special_functions()[name]
    forms = {
        f"operand {i}": (lambda f, x, i=i: f(*[x if k == i else 1.5 for k in range(f.nin)]))
        for i in range(fun.nin)
    }
    with np.errstate(all="ignore"):
        passed, _, odd = check(fun, forms, SPECIAL_POINTS)
    assert not odd, "\n".join(odd)
    row = registry.lookup(fun)
    if row is None and fun.types[0].partition("->")[0].strip("fd") == "":
        assert not passed


def test_numpy_version_is_available_to_traced_code():
    assert wengert.numpy.__version__ == np.__version__
