"""State changes between two calls: a compiled function returns the new value, or falls back to eager and warns."""

import contextlib
import contextvars
import decimal
import functools
import math
import os
import statistics
import sys
import types
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import state_cases
import state_frameworks
import state_library
import wengert as wg
from helpers import fourth_order_difference
from state_cases import CHANGING, KEPT, UNDIFFERENTIATED
from state_routes import ROUTES
from wengert.program.specialise import compiled as compiled_module

CASES = state_cases.CASES | state_frameworks.CASES


@pytest.fixture(autouse=True)
def unchanged():
    """Restore the process state that the cases change."""
    path, argv, limit = os.getcwd(), [*sys.argv], sys.getrecursionlimit()
    names = {*sys.modules}
    with decimal.localcontext(), np.printoptions():
        yield
    os.chdir(path)
    sys.argv[:] = argv
    sys.setrecursionlimit(limit)
    os.environ.pop("STATE_CASE", None)
    for name in {name for name in sys.modules if name.startswith("state_case_")} - names:
        del sys.modules[name]


X = 1.5


@contextlib.contextmanager
def compile_warnings():
    """Collect warnings of eager fallbacks; every other warning is an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", wg.CompileWarning)
        yield caught


@pytest.mark.parametrize("recheck", [None, "auto", 1])
@pytest.mark.parametrize("name", CASES)
def test_changed_state_is_seen_at_next_call(name, recheck):
    f, change = CASES[name]()
    with compile_warnings() as caught:
        compiled = wg.compile(f, recheck=recheck)
        before = f(X)
        for _ in range(5):
            np.testing.assert_allclose(compiled(X), before, rtol=1e-14)
        change()
        after = f(X)
        assert (after == before) == (name in KEPT)
        for _ in range(3):
            np.testing.assert_allclose(compiled(X), after, rtol=1e-14)
    assert len(caught) <= 1
    assert compiled.paths or caught


#: limits with which f runs before its state is captured, and with which the state is captured anew after the first run
LIMITS = {"run first": {"MAX_UNSEEN_FUNCTIONS": 0}, "captured anew": {"MAX_IDLE_CODE": -1}}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", CASES)
def test_changed_state_is_seen_if_only_code_that_ran_is_analysed(name, limits, monkeypatch):
    for limit, value in LIMITS[limits].items():
        monkeypatch.setattr(compiled_module, limit, value)
    test_changed_state_is_seen_at_next_call(name, None)


def package_of_many_functions(body):
    """Make a module with more functions than are analysed before f has run, all reached by its function `f`."""
    module = types.ModuleType("state_case_many")
    names = [f"g{i}" for i in range(60)]
    code = "\n".join(f"def {name}(u):\n    return u * count" for name in names)
    exec(f"count, scale = 2.0, 3.0\n{code}\n{body}\nfunctions = [{', '.join(names)}]", vars(module))
    sys.modules[module.__name__] = module
    return module


def test_state_of_a_large_package_is_that_of_the_code_that_ran():
    module = package_of_many_functions("""
def f(u, k=0):
    if u > 4:
        return scale * u
    return functions[k](u)
""")
    compiled = wg.compile(module.f, recheck=None)
    with compile_warnings() as caught:
        assert [compiled(1.0), compiled(1.0), compiled(2.0)] == [2.0, 2.0, 4.0]
        assert compiled.paths == 1
        module.scale = 5.0  # read by code that did not run
        assert compiled(1.0) == 2.0
        assert [compiled(6.0) for _ in range(3)] == [30.0] * 3  # code of f itself: its state was analysed
        module.scale = 7.0
        assert [compiled(6.0), compiled(1.0)] == [42.0, 2.0]
        assert [compiled(1.0, 7) for _ in range(3)] == [2.0] * 3  # further code
        module.count = 4.0
        assert [compiled(1.0, 7), compiled(1.0), compiled(6.0)] == [4.0, 4.0, 42.0]
        module.g7 = module.functions[7] = lambda u: u - 1
        assert [compiled(3.0, 7), compiled(3.0, 7), compiled(3.0)] == [2.0, 2.0, 12.0]
        assert wg.grad(compiled)(3.0) == 4.0 and wg.grad(compiled)(6.0) == 7.0
        module.count = 5.0
        assert wg.grad(compiled)(3.0) == 5.0
    assert not caught


def test_state_of_derivative_rules_in_a_large_package_is_watched():
    module = package_of_many_functions("""
def f(u):
    return rule(functions[3](u))
""")
    module.rule = wg.primitive(lambda a: a * 1.0, vjp=lambda ybar, y, a: ybar * module.scale)
    compiled, derivative = wg.compile(module.f, recheck=None), wg.compile(wg.grad(module.f), recheck=None)
    for scale in (3.0, 4.0, 5.0):
        module.scale = scale
        for _ in range(3):
            assert compiled(1.5) == 3.0
            assert wg.grad(compiled)(1.5) == derivative(1.5) == 2.0 * scale


def test_side_effects_in_a_large_package_happen_once_in_each_call():
    module = package_of_many_functions("""
calls = []

def f(u):
    calls.append(u)
    return functions[3](u)
""")
    compiled = wg.compile(module.f)
    with compile_warnings() as caught:
        assert [compiled(u) for u in (1.0, 2.0, 3.0, 4.0, 5.0)] == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert module.calls == [1.0, 2.0, 3.0, 4.0, 5.0] and len(caught) == 1


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("operator", ["value", "gradient", "compiled gradient"])
def test_state_that_is_read_on_two_routes_is_watched(operator, route, monkeypatch):
    f = ROUTES[route]
    compiled, plain = {
        "value": (wg.compile(f, recheck=None), f),
        "gradient": (wg.grad(wg.compile(f, recheck=None)), wg.grad(f)),
        "compiled gradient": (wg.compile(wg.grad(f), recheck=None), wg.grad(f)),
    }[operator]
    with compile_warnings() as caught:
        for holder, name, value in (
            (state_library, "count", 2.0),
            (state_library, "count", 5.0),
            (state_library.Model, "rate", 4.0),
            (state_library, "count", 6.0),
        ):
            monkeypatch.setattr(holder, name, value)
            for _ in range(3):
                np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-14)
    assert not caught


DERIVATIVES = {"gradient": wg.grad, "Hessian": wg.hessian}


@pytest.mark.parametrize("operator", DERIVATIVES)
@pytest.mark.parametrize("name", [name for name in CASES if name not in UNDIFFERENTIATED])
def test_changed_state_is_seen_by_next_derivative(name, operator):
    f, change = CASES[name]()
    operator = DERIVATIVES[operator]

    def squared(u):
        return f(u) * u

    with compile_warnings():
        compiled = operator(wg.compile(squared, recheck=None))
        plain = operator(squared)
        for _ in range(3):
            np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-13)
        change()
        for _ in range(2):
            np.testing.assert_allclose(compiled(X), plain(X), rtol=1e-13)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in CASES if name not in UNDIFFERENTIATED])
def test_changed_state_is_seen_by_next_derivative_without_compilation(name):
    f, change = CASES[name]()
    for step in (lambda: None, change):
        step()
        for _ in range(2):
            np.testing.assert_allclose(wg.grad(f)(X), fourth_order_difference(f, X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("operator", [wg.jvp, wg.hvp])
def test_tolerance_of_a_solver_is_a_plain_value_in_directional_derivatives(operator):
    space = state_cases.source("""
from scipy.optimize import brentq

tolerance, weights, heights, places = 1e-12, [np.cos, 2.0], np.array([0.0, 1.0, 3.0]), np.array([0.0, 1.0, 2.0])

def height(u):
    return np.interp(u, places, heights)

def f(x):
    return (brentq(lambda z: z**3 + z - x[0], -3, 3, xtol=tolerance) + weights[1] * x[2] + height(x[1])) ** 2
""")
    x, v = np.array([0.3, 0.4, 0.6]), np.ones(3)
    with compile_warnings() as caught:
        compiled, plain = operator(wg.compile(space.f, recheck=None)), operator(space.f)
        for value in (1.0, 4.0, 7.0):
            space.heights[1] = value
            for got, expected in zip(compiled(x, v), plain(x, v)):
                np.testing.assert_allclose(got, expected, rtol=1e-12)
    assert not caught


def test_object_that_replaces_a_changed_one_is_seen():
    space = state_cases.source("""
class Model:
    def __init__(self, curve):
        self.curve = curve

    def __call__(self, u):
        return self.curve(u)

model = Model(np.sin)

def value(u):
    return model(u)

def f(u):
    return value(u)
""")
    derivative = wg.grad(space.f)
    assert derivative(X) == np.cos(X)
    for _ in range(3):
        space.model.curve = np.exp
        assert derivative(X) == np.exp(X)
        space.model = space.Model(np.square)  # the plan of `value` is made anew, and ends the one that kept the object
        assert derivative(X) == 2 * X
        space.model = None
        space.model = space.Model(np.sin)
        assert derivative(X) == np.cos(X)


def test_object_that_replaces_one_in_a_closure_is_seen():
    space = state_cases.source("""
class Rate:
    def __init__(self, k):
        self.k = k

    def __call__(self, u):
        new = np.zeros(1)
        new[0] = self.k * u
        return new[0]

def make(rate):
    def put(new):
        nonlocal rate
        rate = new

    return lambda u: rate(u), put

inner, put = make(Rate(1.0))

def value(u):
    return inner(u)

def f(u):
    return value(u)
""")
    derivative = wg.grad(space.f)
    for k in range(1, 5):
        space.put(space.Rate(float(k)))
        assert derivative(X) == k


@pytest.mark.parametrize("recheck", [None, "auto", 1])
@pytest.mark.parametrize("name", CHANGING)
def test_state_that_changes_in_each_call_is_not_compiled(name, recheck):
    compiled = wg.compile(CHANGING[name](), recheck=recheck)
    with compile_warnings() as caught:
        found = [compiled(X) for _ in range(6)]
    assert len({*map(float, found)}) == 6 - 3 * (name == "cycle in an object")
    assert len(caught) == 1 and not compiled.paths


# ---- eager fallback


def test_uncompiled_call_runs_once(capsys):
    f = wg.compile(lambda u: print(u) or u * 2)
    with compile_warnings() as caught:
        assert [f(u) for u in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert capsys.readouterr().out.split() == ["1.0", "2.0", "3.0"]
    assert len(caught) == 1 and not f.paths


def test_only_the_unwatchable_branch_falls_back_to_eager(capsys):
    def f(u):
        if u > 2:
            print(u)
        return u * 2

    compiled = wg.compile(f)
    with compile_warnings() as caught:
        assert [compiled(u) for u in (1.0, 3.0, 1.5, 4.0, 1.0)] == [2.0, 6.0, 3.0, 8.0, 2.0]
    assert capsys.readouterr().out.split() == ["3.0", "4.0"]
    assert len(caught) == 1 and compiled.paths == 1


def test_warning_names_line_and_remedy():
    rng = np.random.default_rng(0)

    def f(u):
        return u + rng.normal()

    with pytest.warns(wg.CompileWarning) as caught:
        wg.compile(f)(1.0)
    text = str(caught[0].message)
    assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in text
    assert "'rng'" in text and "constant=" in text
    assert caught[0].filename == __file__


rate = {"k": 2.0}


class Model:
    def __init__(self):
        self.rate = {"k": 2.0}

    def rhs(self, u):
        return u * self.rate["k"]


model = Model()
hidden = contextvars.ContextVar("hidden", default=2.0)

#: a function, the name of its constant, a change of the constant, and further arguments
CONSTANT = {
    "global": (lambda u: u * rate["k"], "rate", lambda: rate.update(k=5.0), ()),
    "attribute": (model.rhs, "rate", lambda: model.rate.update(k=5.0), ()),
    "object": (lambda u: u * rate["k"], (rate,), lambda: rate.update(k=5.0), ()),
    "owner": (lambda u: u * model.rate["k"], ("other", model), lambda: model.rate.update(k=5.0), ()),
    "parameter": (lambda u, m: m.rhs(u), "m", lambda: model.rate.update(k=5.0), (model,)),
    "unwatchable state": (lambda u: u * hidden.get(), "hidden", lambda: hidden.set(5.0), ()),
    "function of another package": (lambda u: u * os.getpid(), "getpid", lambda: None, ()),
    "environment": (lambda u: u * len(os.environ["HOME"]), "environ", lambda: None, ()),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_declared_constants_are_not_watched(name):
    f, constant, change, more = CONSTANT[name]
    rate["k"] = model.rate["k"] = 2.0
    compiled, checked = (wg.compile(f, recheck=recheck, constant=constant) for recheck in (None, 1))
    token = hidden.set(2.0)
    with compile_warnings() as caught:
        before = f(X, *more)
        assert [compiled(X, *more), compiled(X, *more), checked(X, *more)] == [before] * 3
        change()
        assert compiled(X, *more) == before
        if f(X, *more) != before:
            with pytest.raises(wg.StaleProgramError):
                checked(X, *more)
        assert checked(X, *more) == f(X, *more)
    hidden.reset(token)
    assert not caught and compiled.paths == 1
    assert repr(compiled).endswith(f"constant={compiled.constant!r})")


MATRIX = np.array([[0.0, 1.0], [2.0, 0.5]])

#: arguments that C code reads directly
IN_C = {
    "matrix_balance": lambda u, a: scipy.linalg.matrix_balance(a)[0] @ u,
    "qz": lambda u, a: u * scipy.linalg.qz(a, a)[0].sum(),
}


@pytest.mark.parametrize("name", IN_C)
def test_arguments_passed_to_c_code_are_part_of_cache_key(name):
    f = IN_C[name]
    compiled, u = wg.compile(f), np.array([1.0, 3.0])
    with compile_warnings() as caught:
        for scale in (1.0, 1.0, 2.0, 1.0):
            for step in (0.0, 1.0):
                given = u + step, scale * MATRIX
                np.testing.assert_allclose(compiled(*given), f(*given), rtol=1e-14)
                expected = wg.jacobian(f)(*given)
                np.testing.assert_allclose(wg.jacobian(compiled)(*given), expected, rtol=1e-13)
        assert compiled.paths == 2
    assert not caught
    with pytest.raises((TypeError, ValueError)):  # SciPy hides some errors behind its own
        wg.jacobian(compiled, argnums=1)(u, MATRIX)


METHODS = "".join(f"    def of{i}(self, x): return np.sin(x) * SCALE['k'] + {i}.0\n" for i in range(40))
CLASS_OF_MANY_METHODS = f"""
import numpy as np
SCALE = {{"k": 2.0}}
class Many:
{METHODS}
many = Many()
def by_flag(x, flag): return many.of7(x) if flag else x * 3.0
def by_value(x): return many.of7(x) if x[0] > 1 else x * 3.0
"""


def test_methods_that_did_not_run_before_read_their_state_when_they_do(monkeypatch):
    module = types.ModuleType("class_of_many_methods")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(CLASS_OF_MANY_METHODS, module.__dict__)
    f, g = wg.compile(module.by_flag), wg.compile(module.by_value)
    J = wg.jacobian(g)
    for k in (2.0, 5.0):
        module.SCALE["k"] = k
        for x in (np.array([0.5, 0.6]), np.array([0.7, 0.1]), np.array([1.5, 0.6]), np.array([1.2, 0.3])):
            for flag in (False, True, True):
                np.testing.assert_allclose(f(x, flag), k * np.sin(x) + 7 if flag else 3 * x)
            np.testing.assert_allclose(g(x), k * np.sin(x) + 7 if x[0] > 1 else 3 * x)
            np.testing.assert_allclose(J(x), np.diag(k * np.cos(x)) if x[0] > 1 else 3 * np.eye(2))


def test_plain_code_compiles_without_warning():
    grid, order, table = np.linspace(0.0, 1.0, 5), 2, {"a": [1.0, np.ones(5)]}
    models = [Model(), Model()]

    def f(u):
        y = np.zeros(5)
        for i in range(1, 5):
            y[i] = math.sqrt(2.0) * u[i] ** order - grid[i] * u[i - 1]
        return np.sum(sorted(models, key=lambda m: m.rate["k"])[0].rhs(y) * table["a"][1]) + statistics.mean([1.0, 2.0])

    compiled = wg.grad(wg.compile(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(4):
            np.testing.assert_allclose(compiled(grid + step), wg.grad(f)(grid + step), rtol=1e-12)
    assert compiled.paths == 1


def test_floating_point_errors_follow_numpy_errstate():
    f = wg.compile(lambda u: u / (u - 1.0))
    for _ in range(3):
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(f(np.array([2.0, 1.0])), [2.0, np.inf])
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            f(np.array([2.0, 1.0]))
    assert f.paths == 1



def ignores(x):
    warnings.simplefilter("ignore", category=RuntimeWarning)
    return np.sum(np.log(x))


def warns_if_negative(x):
    if x[0] < 0:
        warnings.warn("negative", RuntimeWarning, stacklevel=2)
    return np.sum(np.exp(x))


@pytest.mark.parametrize("action", ["default", "always", "ignore"])
def test_functions_that_warn_are_replayed(action):
    compiled = wg.compile(warns_if_negative)
    x = np.array([-1.0, 2.0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for shift in range(3):
            np.testing.assert_allclose(wg.grad(compiled)(x - shift), np.exp(x - shift))
    assert {str(each.message) for each in caught} == ({"negative"} if action != "ignore" else set())
    assert wg.grad(compiled).paths == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="negative"):
            wg.grad(wg.compile(warns_if_negative))(x)


class Kept:
    """Holds a table that a function makes at its first call."""

    __slots__ = "__dict__", "slot"

    def __init__(self):
        self.attribute = self.slot = None
        self.items, self.names, self.pair = [None] * 100, {}, ()

    def of_attribute(self):
        if self.attribute is None:
            self.attribute = np.linspace(0.0, 1.0, 3)
        return self.attribute

    def of_slot(self):
        if self.slot is None:
            self.slot = np.linspace(0.0, 1.0, 3)
        return self.slot

    def of_list(self):
        if self.items[50] is None:
            self.items[50] = np.linspace(0.0, 1.0, 3)
        return self.items[50]

    def of_dict(self):
        return self.names.setdefault("table", np.linspace(0.0, 1.0, 3))

    def of_tuple(self):
        if not self.pair:
            self.pair = 1, np.linspace(0.0, 1.0, 3)
        return self.pair[1]


table = scale = step = owner = None


def of_global():
    global table
    if table is None:
        table = np.linspace(0.0, 1.0, 3)
    return table


MADE_ONCE = [*(getattr(Kept(), name) for name in dir(Kept) if name.startswith("of_")), of_global]


@pytest.mark.parametrize("made", MADE_ONCE, ids=lambda made: made.__name__)
def test_arrays_made_at_the_first_call_are_watched(made):
    def f(x):
        return np.sum(made() * x**2)

    g, x = wg.grad(wg.compile(f)), np.array([1.0, 2.0, 3.0])
    for _ in range(3):
        np.testing.assert_allclose(g(x), 2.0 * np.linspace(0.0, 1.0, 3) * x)
    assert g.paths
    made()[:] = 5.0
    np.testing.assert_allclose(g(x), 10.0 * x)
    made()[1] = -1.0
    np.testing.assert_allclose(g(x), 2.0 * np.array([5.0, -1.0, 5.0]) * x)


class Gain:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * np.sum(x**2)


@pytest.mark.parametrize("kind", [list, tuple, lambda gains: dict(enumerate(gains))])
def test_objects_put_into_a_container_are_watched(kind):
    class Chain:
        gains = kind([Gain(2.0), Gain(3.0)])

    def f(x):
        gains = Chain.gains.values() if isinstance(Chain.gains, dict) else Chain.gains
        return sum([gain(x) for gain in gains])

    g, x = wg.grad(wg.compile(f)), np.array([1.0, 2.0])
    np.testing.assert_allclose([g(x), g(x)], [10.0 * x] * 2)
    new = Gain(4.0)
    Chain.gains = kind([new])
    np.testing.assert_allclose([g(x), g(x)], [8.0 * x] * 2)
    for new.factor in (5.0, 6.0):
        np.testing.assert_allclose([g(x), g(x)], [2.0 * new.factor * x] * 2)
    if isinstance(Chain.gains, list):
        Chain.gains[0] = other = Gain(7.0)
        np.testing.assert_allclose(g(x), 14.0 * x)
        other.factor = 8.0
        np.testing.assert_allclose(g(x), 16.0 * x)


def fills_once(x):
    global scale
    if scale is None:
        scale = 3.0
    return scale * np.sum(x**2)


def chooses(x):
    global step
    step = "small" if x.size < 5 else "large"
    return np.sum(x**2) * (2.0 if step == "small" else 3.0)


@pytest.mark.parametrize(("f", "factor"), [(fills_once, 6.0), (chooses, 4.0)])
def test_globals_that_keep_their_values_may_be_assigned(f, factor):
    g, x = wg.grad(wg.compile(f)), np.array([1.0, 2.0, 3.0])
    for _ in range(4):
        np.testing.assert_allclose(g(x), factor * x)
    assert g.paths == 1


def test_new_values_of_assigned_globals_are_used():
    global scale
    g, x = wg.grad(wg.compile(fills_once)), np.array([1.0, 2.0, 3.0])
    for value, factor in ((None, 6.0), (5.0, 10.0), (None, 6.0)):
        scale = value
        for _ in range(3):
            np.testing.assert_allclose(g(x), factor * x)


class Filling:
    scale = 3.0

    def scaled(self, x):
        y = np.zeros(len(x))
        y[:] = self.scale * x
        return y


def with_lazy_variables():
    """A function whose variables of the enclosing function are made at first use."""
    table = model = None

    def filled():
        nonlocal table
        if table is None:
            table = np.arange(3.0)
        return table

    def f(x):
        nonlocal model
        if model is None:
            model = Filling()
        return filled() @ model.scaled(x**2)

    def forget():
        nonlocal table
        table = np.ones(3)

    return f, forget


def test_functions_that_make_a_nonlocal_at_first_use_are_compiled():
    f, forget = with_lazy_variables()
    f(np.ones(3))
    for wrap in (wg.compile, lambda f: wg.grad(wg.compile(f)), lambda f: wg.compile(wg.grad(f))):
        g = wrap(f)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for x in (np.array([1.0, 2.0, 3.0]), np.ones(3)):
                for _ in range(3):
                    np.testing.assert_allclose(g(x), f(x) if g(x).ndim == 0 else wg.grad(f)(x))
        if hasattr(g, "paths"):
            assert g.paths == 1
        forget()
        np.testing.assert_allclose(g(x), f(x) if g(x).ndim == 0 else wg.grad(f)(x))
        f, forget = with_lazy_variables()
    cells = dict(zip(f.__code__.co_freevars, f.__closure__))
    f(x)
    assert type(cells["model"].cell_contents) is Filling


def with_items():
    items = []

    def f(x):
        items.append(len(items))
        return np.sum(x**2)

    return f


def with_result():
    last = None

    def f(x):
        nonlocal last
        last = 2 * x
        return np.sum(last**2)

    return f


@pytest.mark.parametrize(("f", "name"), [(with_items(), "items"), (with_result(), "last")])
def test_changes_of_variables_of_enclosing_functions_are_named(f, name):
    g, x = wg.compile(f), np.array([1.0, 2.0, 3.0])
    with pytest.warns(wg.CompileWarning, match=f"it changes '{name}', which a replay would skip"):
        assert [g(x) for _ in range(5)] == [f(x)] * 5
    assert g.paths == 0


def counts(x):
    global step
    step = (step if type(step) is int else 0) + 1
    return np.sum(x**2)


class Owner:
    scale = 3.0

    def sets_owner(self, x):
        global owner
        owner = self
        return self.scale * np.sum(x**2)


only = Owner()


@pytest.mark.parametrize("f", [counts, lambda x: only.sets_owner(x)], ids=["counts", "sets_owner"])
def test_functions_that_change_a_global_run_uncompiled(f):
    g, x = wg.compile(f), np.array([1.0, 2.0, 3.0])
    with pytest.warns(wg.CompileWarning, match="a replay would skip"):
        found = [g(x) for _ in range(5)]
    assert found == [f(x)] * 5
    assert g.paths == 0
    assert owner in (only, None)


def leaves(x):
    if x[0] > 1e6:
        exit(1)
    return np.sum(x * x)


def drawn_anew(seed):
    return np.random.RandomState(seed) if isinstance(seed, int) else seed


class Sampler:
    def __init__(self, seed):
        self.seed = seed

    def draws(self, n):
        return np.random.RandomState(seed=self.seed).standard_normal(n)


SAMPLER = Sampler(4)
OLD_GENERATORS = {
    "a constant": lambda x, seed: np.random.RandomState(3).rand(2) @ x,
    "an argument": lambda x, seed: drawn_anew(seed).rand(2) @ x,
    "an attribute": lambda x, seed: SAMPLER.draws(2) @ x,
    "several": lambda x, seed: (drawn_anew(seed).rand(2) * drawn_anew(seed + 1).rand(2) + SAMPLER.draws(2)) @ x,
}


@pytest.mark.parametrize("name", OLD_GENERATORS)
def test_generators_with_a_seed_of_their_own_are_compiled(name):
    f = OLD_GENERATORS[name]
    compiled = wg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in (1, 2, 1):
            for SAMPLER.seed in (4, 5):
                for x in (np.ones(2), 2 * np.ones(2)):
                    np.testing.assert_allclose(compiled(x, seed), f(x, seed))
                    np.testing.assert_allclose(wg.grad(compiled)(x, seed), wg.grad(f)(x, seed))
    assert compiled.paths > 0


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_seeds_from_the_system_are_named_with_line(make):
    def f(x):
        return x * make().random()

    with pytest.warns(wg.CompileWarning, match=rf"reads a seed of random numbers from the system \({__file__}:\d+\)"):
        wg.compile(f)(2.0)


@pytest.mark.parametrize("f", [ignores, warns_if_negative, leaves])
def test_functions_that_name_a_warning_or_exit_are_compiled(f):
    compiled = wg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (np.ones(2), 2 * np.ones(2)):
            np.testing.assert_allclose(wg.grad(compiled)(x), wg.grad(f)(x))
            np.testing.assert_allclose(compiled(x), f(x))
    assert compiled.paths == 1


def test_functions_chosen_by_singledispatch_are_compiled_and_checked():
    @functools.singledispatch
    def energy(model, x):
        return 0 * x

    energy.register(Model)(lambda model, x: model.rate["k"] * x * x)
    model = Model()
    compiled = wg.grad(wg.compile(lambda x: energy(model, x)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(2.0) == 4.0 * model.rate["k"]
        model.rate["k"] += 1.0
        assert compiled(2.0) == 4.0 * model.rate["k"]
        energy.register(Model)(lambda model, x: 7.0 * x)
        assert compiled(2.0) == 7.0
