"""`wengert.compile`: watched state, cache keys, specialisations, rechecks, and the eager fallback."""

import collections
import contextlib
import copy
import dataclasses
import functools
import gc
import inspect
import itertools
import logging
import math
import pickle
import threading
import types
import warnings
import weakref

import numpy as np
import pytest

import replica
import wengert as wg
from helpers import assert_same_bits, in_threads
from scenarios import TABLE
from wengert import features
from wengert.core import frames
from wengert.program.specialise import compiled as module
from wengert.program.specialise.compare import difference
from wengert.program.tracing.closure import Captures
from wengert.program.tracing.refusals import NotReplayable


def compiled(f, **options):
    """Compile without rechecks, so that changes are seen only by watching the state that f reads."""
    return wg.compile(f, recheck=None, **options)


x = np.array([1.0, 2.0, 3.0])

# ---- state read at each call

scale = 2.0
table = np.arange(3.0)
counts = np.array([1, 2, 3])
is_squared = True
power = 2
label = "sin"
nothing = None
weights = {"a": 1.0, "b": [2.0, 3]}
pair = (1.0, 2)
space = types.SimpleNamespace(k=2.0, n=1)
sub = types.ModuleType(__name__)
sub.__file__ = __file__
sub.depth = 4.0


class Model:
    shared = 5.0

    def __init__(self, rate=2.0):
        self.rate, self.order, self.grid, self.options = rate, 2, np.ones(3), {"shift": 1.0}

    def helper(self, u):
        return u * self.rate

    @property
    def doubled(self):
        return 2 * self.rate

    def rhs(self, u):
        return self.helper(u) ** self.order + self.grid + self.doubled + self.options["shift"] + self.shared

    def __call__(self, u):
        return self.rhs(u)


class Slotted:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 2.0

    def rhs(self, u):
        return u * self.rate


model = Model()
slotted = Slotted()


class Config:
    step = 0.5


def helper(u):
    return u * scale


def other_helper(u):
    return u - scale


def reads_globals(u):
    out = np.zeros(3)
    out[:] = helper(u) + table
    return out**2 if is_squared else out


def with_defaults(u, a=2.0, *, b=table):
    return u * a + b


def set_global(name, value):
    return lambda: globals().__setitem__(name, value)


CHANGES = {
    "float": (lambda u: u * scale, set_global("scale", 3.5)),
    "float becomes an int": (lambda u: u * scale, set_global("scale", 3)),
    "float becomes an array": (lambda u: u * scale, set_global("scale", np.array([1.0, 5.0, 7.0]))),
    "float becomes complex": (lambda u: u * scale, set_global("scale", 1j)),
    "float becomes a function": (lambda u: u * (scale() if callable(scale) else scale),
                                 set_global("scale", lambda: 9.0)),
    "in a followed function": (reads_globals, set_global("scale", 7.0)),
    "array in place": (reads_globals, lambda: table.__setitem__(1, 9.0)),
    "array replaced": (reads_globals, set_global("table", np.array([5.0, 5.0, 4.0]))),
    "array of another shape": (lambda u: u * table.sum(), set_global("table", np.ones(7))),
    "array of other strides": (lambda u: u * table, set_global("table", np.arange(6.0)[::2])),
    "array of integers in place": (lambda u: u * counts, lambda: counts.__setitem__(1, 9)),
    "flag": (reads_globals, set_global("is_squared", False)),
    "integer": (lambda u: u**power, set_global("power", 3)),
    "string": (lambda u: getattr(np, label)(u), set_global("label", "cos")),
    "None": (lambda u: u if nothing is None else nothing * u, set_global("nothing", 4.0)),
    "item of a dict": (lambda u: u * weights["a"], lambda: weights.__setitem__("a", 8.0)),
    "item of a list in a dict": (lambda u: u * weights["b"][1], lambda: weights["b"].__setitem__(1, 8)),
    "new item": (lambda u: u * weights.get("c", 2.0), lambda: weights.__setitem__("c", 8.0)),
    "tuple": (lambda u: u * pair[0] + pair[1], set_global("pair", (3.0, 5))),
    "namespace": (lambda u: u * space.k + space.n, lambda: setattr(space, "k", 4.0)),
    "attribute of a module": (lambda u: u * sub.depth, lambda: setattr(sub, "depth", 8.0)),
    "followed function": (reads_globals, set_global("helper", other_helper)),
    "code of a followed function": (reads_globals, lambda: setattr(helper, "__code__", other_helper.__code__)),
    "default": (with_defaults, lambda: setattr(with_defaults, "__defaults__", (4.0,))),
    "default array in place": (with_defaults, lambda: table.__setitem__(0, 4.0)),
    "keyword default": (with_defaults, lambda: with_defaults.__kwdefaults__.__setitem__("b", 1.0)),
    "attribute": (model.rhs, lambda: setattr(model, "rate", 3.0)),
    "attribute of a callable object": (model, lambda: setattr(model, "rate", 3.0)),
    "attribute of a global object": (lambda u: model.rhs(u), lambda: setattr(model, "rate", 3.0)),
    "integer attribute": (model.rhs, lambda: setattr(model, "order", 3)),
    "array attribute in place": (model.rhs, lambda: model.grid.__setitem__(0, 5.0)),
    "dict attribute": (model.rhs, lambda: model.options.__setitem__("shift", 5.0)),
    "attribute of the class": (model.rhs, lambda: setattr(Model, "shared", 6.0)),
    "attribute that hides the class's": (model.rhs, lambda: setattr(model, "shared", 7.0)),
    "method of the class": (model.rhs, lambda: setattr(Model, "helper", lambda self, u: u - self.rate)),
    "method of the object": (model.rhs, lambda: setattr(model, "helper", lambda u: u / 2)),
    "slot": (slotted.rhs, lambda: setattr(slotted, "rate", 5.0)),
    "namespace of a class": (lambda u: u * Config.step, lambda: setattr(Config, "step", 5.0)),
    "object replaced": (lambda u: model.rhs(u), set_global("model", Model(9.0))),
    "argument of a partial in place": (
        functools.partial(lambda a, u: a * u, table), lambda: table.__setitem__(1, 9.0)),
    "state of a partial's function": (functools.partial(lambda a, u: a * u * scale, 2.0), set_global("scale", 9.0)),
    "state of an inner derivative": (
        lambda u: u * wg.grad(lambda v: v**2 * scale)(1.0), set_global("scale", 9.0)),
}  # fmt: skip

NAMES = ("scale", "table", "counts", "is_squared", "power", "label", "nothing", "pair", "model", "helper")


@pytest.fixture
def unchanged():
    """Restore everything that the table of changes modifies."""
    here = globals()
    held = {name: here[name] for name in NAMES}
    arrays = [(array, array.copy()) for array in (table, counts, model.grid)]
    spaces = [(vars(owner), dict(vars(owner))) for owner in (model, space, sub)]
    classes = [(cls, name, vars(cls)[name]) for cls, name in
               ((Model, "shared"), (Model, "helper"), (Config, "step"))]  # fmt: skip
    saved = copy.deepcopy(weights)
    code, defaults, words = helper.__code__, with_defaults.__defaults__, dict(with_defaults.__kwdefaults__)
    yield
    here.update(held)
    for array, content in arrays:
        array[:] = content
    for owned, content in spaces:
        owned.clear()
        owned.update(content)
    model.options["shift"] = 1.0
    for cls, name, value in classes:
        setattr(cls, name, value)
    slotted.rate = 2.0
    weights.clear()
    weights.update(saved)
    helper.__code__, with_defaults.__defaults__ = code, defaults
    with_defaults.__kwdefaults__.update(words)


#: changed values that the rebound copy of f reads from its operands, so that no new recording is needed
INPUTS = {
    "float", "in a followed function", "array in place", "array replaced", "item of a dict", "namespace",
    "attribute of a module", "default array in place", "attribute", "attribute of a callable object",
    "attribute of a global object", "array attribute in place", "dict attribute", "argument of a partial in place",
    "state of a partial's function", "state of an inner derivative",
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed_state_is_seen_at_next_call(name, unchanged):
    f, change = CHANGES[name]
    g = compiled(f)
    before = g(x)
    np.testing.assert_allclose(before, f(x), rtol=1e-15, strict=True)
    assert g.paths == 1
    change()
    after = f(x)
    assert not np.array_equal(before, after)
    for _ in range(3):
        np.testing.assert_allclose(g(x), after, rtol=1e-15, strict=True)
    assert g._budget.recordings == (1 if name in INPUTS else 2)


class Named(dict):
    """A dict whose items are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Doubled:
    """A descriptor with user code."""

    def __get__(self, owner, cls):
        return self if owner is None else 2 * owner.rate


class Derived:
    double = Doubled()

    def __init__(self):
        self.rate, self.space = 2.0, {"a": 1.0}

    def __getattr__(self, name):
        if name == "tripled":
            return 3 * self.__dict__["rate"]
        raise AttributeError(name)


#: the state that a function reads, how it reads it, and a change of it
SHELVES = {
    "ordered": (collections.OrderedDict(a=1.0), lambda u, c: u * c["a"], lambda c: c.update(a=5.0)),
    "with a default": (collections.defaultdict(float), lambda u, c: u + c.get("a", 1.0), lambda c: c.update(a=5.0)),
    "counter": (collections.Counter("aab"), lambda u, c: u * c["a"], lambda c: c.update("a")),
    "attributes": (Named(a=1.0), lambda u, c: u * c.a, lambda c: c.update(a=5.0)),
    "array in it": (Named(a=np.ones(3)), lambda u, c: u * c.a, lambda c: c.a.__setitem__(1, 5.0)),
    "deque": (collections.deque([1.0, 2.0]), lambda u, c: u * c[0], lambda c: c.appendleft(5.0)),
    "set": ({1.0}, lambda u, c: u * sum(c), lambda c: c.add(5.0)),
    "descriptor": (Derived(), lambda u, c: u * c.double, lambda c: setattr(c, "rate", 5.0)),
    "attribute by a method": (Derived(), lambda u, c: u * c.tripled, lambda c: setattr(c, "rate", 5.0)),
    "namespace by name": (Derived(), lambda u, c: u * c.__dict__["rate"], lambda c: setattr(c, "rate", 5.0)),
}


@pytest.mark.parametrize("name", SHELVES)
def test_contents_of_containers_and_other_objects_are_watched(name):
    given, f, change = SHELVES[name]
    held = copy.deepcopy(given)
    as_argument, as_variable = compiled(f), compiled(lambda u: f(u, held))
    for _ in range(3):
        for _ in range(2):
            expected = f(x, held)
            np.testing.assert_array_equal(as_argument(x, held), expected)
            np.testing.assert_array_equal(as_variable(x), expected)
        change(held)


def test_variables_of_enclosing_function_are_watched():
    rate, grid = 2.0, np.ones(3)

    def set_rate(value):
        nonlocal rate
        rate = value

    g = compiled(lambda u: u * rate + grid)
    assert g(x).tolist() == [3, 5, 7]
    set_rate(10.0)
    grid[0] = 0.0
    assert g(x).tolist() == [10, 21, 31]
    assert g.paths == 1


def test_closures_made_in_a_loop_read_their_own_variables():
    made = [compiled(lambda u, i=i: u * i) for i in (1.0, 2.0, 3.0)]

    def bound_to(i):
        return compiled(lambda u: u * i)

    assert [f(2.0) for f in made] == [2, 4, 6]
    assert [f(2.0) for f in map(bound_to, (1.0, 2.0, 3.0))] == [2, 4, 6]


def test_name_defined_later_is_seen():
    g = compiled(lambda u: u * defined_later)  # noqa: F821
    with pytest.raises(NameError):
        g(2.0)
    globals()["defined_later"] = 3.0
    try:
        assert g(2.0) == 6.0
    finally:
        del globals()["defined_later"]
    with pytest.raises(NameError):
        g(2.0)


def test_functions_passed_as_arguments_are_watched(unchanged):
    g = compiled(lambda u, rhs, owner: rhs(u) + owner.helper(u))
    f = g.f
    owner = Model(3.0)
    for value in (2.0, 4.0, 6.0):
        globals()["scale"] = owner.rate = value
        np.testing.assert_array_equal(g(x, helper, owner), f(x, helper, owner))
        np.testing.assert_array_equal(g(x, rhs=other_helper, owner=owner), f(x, other_helper, owner))
    assert g.paths == 2


def test_functions_in_container_arguments_are_watched(unchanged):
    g = compiled(lambda u, parts: parts[0](u) + parts[1]["rhs"](u))
    owner = Model(3.0)
    for value in (2.0, 4.0, 6.0):
        globals()["scale"] = owner.rate = value
        parts = [helper, {"rhs": owner.rhs}]
        np.testing.assert_array_equal(g(x, parts), g.f(x, parts))
    assert g._budget.recordings == 1


def test_changes_of_state_in_any_order(unchanged):
    """One function reads all kinds of state; all changes are applied to it one after the other."""

    def f(u):
        y = reads_globals(u) + model(u) + with_defaults(u) + slotted.rhs(u) * Config.step + counts.sum()
        return y + u * weights["a"] * space.k * sub.depth * (scale() if callable(scale) else scale) ** power

    g = compiled(f)
    g(x)
    g._budget.recordings = -1000
    names = [name for name in CHANGES if name not in ("array of another shape", "float becomes complex")]
    for k in np.random.default_rng(1).permutation(len(names) * 3) % len(names):
        _, change = CHANGES[names[k]]
        change()
        if callable(scale):
            globals()["scale"] = 2.5
        np.testing.assert_array_equal(g(x), f(x), err_msg=names[k])


@pytest.mark.parametrize(("length", "paths"), [(20, 1), (5000, 0)])
def test_long_chains_of_objects_are_watched_up_to_a_limit(length, paths):
    chain = last = Model()
    for _ in range(length):
        last.next = Model()
        last = last.next
    g = compiled(lambda u: u * chain.next.next.rate)
    with contextlib.nullcontext() if paths else pytest.warns(wg.CompileWarning, match="more objects"):
        assert g(1.0) == 2.0
    chain.next.next.rate = 5.0
    assert g(1.0) == 5.0
    assert g.paths == paths


def test_operands_are_found_wherever_they_are_held(unchanged):
    """The rebound copy reads every value from the operands; the originals are unchanged."""

    def f(u):
        return reads_globals(u) + model.rhs(u) + with_defaults(u) + u * weights["a"] * space.k * sub.depth

    reading = Captures(f).read()
    zeros = [leaf * 0.0 for leaf in reading.leaves]
    expected = f(x)
    got = reading.bound(zeros)(x)
    np.testing.assert_array_equal(got, np.full(3, Model.shared))
    np.testing.assert_array_equal(reading.bound(reading.leaves)(x), expected)
    np.testing.assert_array_equal(f(x), expected)


WITH_EFFECTS = {
    "method with a helper that makes a buffer": "attribute 'calls'",
    "a closure over numbers, arrays and functions": "a list, dict",
    "a callable object that keeps its buffer": "attribute 'buffer'",
}


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.name)
def test_scenarios_run_with_state_as_operands(case):
    """The rebound copy, with the state as operands, returns what the function returns."""
    captures = Captures(case.f)
    assert captures.effect is None
    reading = captures.read()
    args = [case.x if case.containers else np.asarray(case.x, dtype=case.dtype), *case.args]
    run = reading.bound(copy.deepcopy(reading.leaves))
    if case.name in WITH_EFFECTS:
        with pytest.raises(NotReplayable, match=WITH_EFFECTS[case.name]):
            run(*copy.deepcopy(args))
    else:
        assert_same_bits(run(*copy.deepcopy(args)), case.f(*copy.deepcopy(args)), case.name)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_derivatives_with_other_rule_branches_fall_back_to_eager(bad):
    """Pullbacks of products branch on NaN: the recording fails there, and is valid again at other points."""
    matrix = np.arange(9.0).reshape(3, 3) + 4 * np.eye(3)

    def f(u):
        return np.sum(np.linalg.solve(matrix + np.outer(u, u), np.tanh(matrix @ u)) ** 2)

    compiled = wg.grad(wg.compile(f))
    point = np.array([0.1, bad, 0.3])
    with np.errstate(all="ignore"):
        for u in (x, point, x, point):
            np.testing.assert_allclose(compiled(u), wg.grad(f)(u), rtol=1e-13, equal_nan=True)


def test_growth_of_a_large_list_is_seen():
    notes = [0.0] * 1000

    def f(u):
        notes.append(1.0)
        return u * u

    with pytest.raises(NotReplayable, match="a list, dict"):
        Captures(f).read().bound([])(x)


def test_additions_to_nested_containers_are_seen():
    notes = collections.defaultdict(list, a=[])

    def f(u):
        notes["a"].append(1.0)
        return u * u

    with pytest.raises(NotReplayable, match="a list, dict"):
        Captures(f).read().bound([])(x)


def test_tracing_leaves_no_names_in_builtins():
    def names():
        gc.collect()
        return {name for name in vars(__import__("builtins")) if name.startswith("_wengert")}

    def fails(u):
        return reads_globals(u) * model.rhs(u) / undefined  # noqa: F821

    g = compiled(reads_globals)
    g(x)
    before = names()
    for _ in range(3):
        with pytest.raises(NameError):
            compiled(fails)(x)
        compiled(reads_globals)(x)
    assert len(names()) <= len(before) + 2  # rebinding keeps its names for functions of this module
    before = names()
    with pytest.raises(NameError):
        compiled(fails)(x)
    assert names() == before


# ---- cache keys and specialisations

CALLS = [
    ((1.0,), (np.float64(3.0),), 2),
    ((x,), (x + 1,), 1),
    ((x,), (np.ones(4),), 2),
    ((x,), (x.astype(np.float32),), 2),
    ((x,), (np.ones((3, 3))[:, 0],), 2),
    ((x,), (x.astype(int),), 2),
    ((x.astype(int),), (x.astype(int) + 1,), 2),
    ((1.0,), (1,), 2),
    ((1,), (True,), 2),
    ((2,), (3,), 2),
    ((1.0,), (1j,), 2),
    (([1.0, 2.0],), ([3.0, 4.0],), 1),
    (([1.0, 2.0],), ((3.0, 4.0),), 2),
    (([1.0, 2.0],), ([3.0, 4.0, 5.0],), 2),
    (({"a": 1.0},), ({"a": 2.0},), 1),
    (({"a": 1.0},), ({"b": 2.0},), 2),
    (({"a": 1.0, "n": 1},), ({"a": 2.0, "n": 2},), 2),
    ((x, "sum"), (x, "max"), 2),
    ((x, None), (x, 0.0), 2),
    ((types.SimpleNamespace(a=1.0),), (types.SimpleNamespace(a=2.0),), 1),
    ((slice(0, 2),), (slice(0, 3),), 2),
    (({1: 1.0},), ({True: 1.0},), 2),
    ((np.array(1.0),), (np.float64(1.0),), 2),
    ((np.int32(1),), (np.int64(1),), 2),
    ((np.sin,), (np.cos,), 2),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "paths"), CALLS)
def test_each_static_value_needs_its_own_recording(first, second, paths):
    g = compiled(lambda *args: args)
    for args in (first, second, first, second):
        for got, expected in zip(g(*args), args):
            np.testing.assert_equal(got, expected)
    assert g.paths == paths


def test_similar_calls_are_distinguished():
    """A call that resembles the previous one but differs must not reuse its program."""
    g = compiled(lambda *args: args)
    g(1.0)
    g._budget.recordings = -1000  # no limit on recordings
    pool = [args for first, second, _ in CALLS for args in (first, second)]
    for k in np.random.default_rng(0).integers(len(pool), size=400):
        for _ in range(2):
            got = g(*pool[k])
            for one, expected in zip(got, pool[k]):
                np.testing.assert_equal(one, expected)
                assert type(one) is type(expected) or isinstance(one, np.generic) or callable(one)


def test_keywords_and_defaults_act_as_in_plain_calls():
    def f(u, a=1.0, *, b=2.0):
        return u * a + b

    g = compiled(f)
    assert [g(1.0), g(1.0, 5.0), g(1.0, a=6.0), g(u=1.0, b=0.0)] == [3, 7, 8, 1]
    assert [g(2.0), g(2.0, 5.0), g(2.0, a=6.0), g(u=2.0, b=0.0)] == [4, 12, 14, 2]
    assert g.paths == 4


class Quantity(float):
    pass


@pytest.mark.parametrize("argument", [np.ma.masked_array([1.0], [True]), np.array([1.0], dtype=object),
                                      np.longdouble(2.0), iter([1.0, 2.0]), Quantity(2.0)])  # fmt: skip
def test_unsupported_arguments_fall_back_to_eager(argument):
    g = compiled(lambda u: u)
    assert g(argument) is argument
    assert g.paths == 0


def branching(u):
    if u > 1:
        return u**2
    if u > 0:
        return u
    return -u


def test_other_branch_selects_another_specialisation():
    g = compiled(branching)
    points = [3.0, 0.5, -1.0, 2.0, 0.25, -3.0, 4.0]
    assert [g(point) for point in points] == [branching(point) for point in points]
    assert g.paths == 3
    assert g._budget.recordings == 3


def test_most_recent_specialisation_is_tried_first(monkeypatch):
    tried = []

    class Noting(replica.Replica):
        def _execute(self, leaves):
            tried.append(len(self.lines))
            return super()._execute(leaves)

    monkeypatch.setattr(module.record, "trace", Noting)
    g = compiled(branching)
    for point in (-1.0, 0.5):
        g(point)
    tried.clear()
    for point in (-1.0, -1.0, -1.0, 0.5):
        g(point)
    assert len(tried) == 6


def test_too_many_specialisations_fall_back_to_eager():
    g = wg.compile(lambda u, n: u * n)
    with pytest.warns(UserWarning, match=r"recordings for .* replays.*as float") as caught:
        assert [g(2.0, n) for n in range(100)] == [2.0 * n for n in range(100)]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert g.paths <= 64
    paths = g.paths
    assert g(3.0, 1) == 3.0
    assert g.paths == paths


def test_recordings_that_no_call_replays_are_dropped():
    """Shapes that depend on the values: the guards of useless recordings would slow down each further call."""
    g = wg.compile(lambda u, level: np.sum(u[u > level] ** 2))
    u = np.linspace(0.0, 1.0, 200)
    levels = np.linspace(0.0, 0.9, 150)
    with pytest.warns(UserWarning, match=r"recordings for .* replays"):
        found = [g(u, level) for level in levels]
    np.testing.assert_allclose(found, [np.sum(u[u > level] ** 2) for level in levels], rtol=1e-14)
    assert g.paths == 0


def test_calls_that_all_differ_are_recorded_ever_more_rarely():
    g = wg.compile(lambda u, level: np.sum(u[u > level] ** 2))
    u, levels = np.linspace(0.0, 1.0, 200), np.linspace(0.0, 0.9, 40)

    def recordings_after(level):
        np.testing.assert_allclose(g(u, level), g.f(u, level), rtol=1e-14)
        return g._budget.recordings

    with pytest.warns(UserWarning, match=r"6 recordings for 0 replays"):
        found = [recordings_after(level) for level in levels]
    assert [found.index(k) for k in range(1, 9)] == [0, 1, 2, 3, 6, 11, 20, 37]
    assert recordings_after(levels[37]) == 8  # a replay ends the pause
    assert [recordings_after(level) for level in (0.05, 0.15, 0.25)] == [9, 10, 11]


@pytest.mark.parametrize("prepared", [lambda f: f, wg.grad])
def test_large_masks_that_vary_are_recorded_once_before_a_pause(prepared):
    def f(u, level):
        return np.sum(u[u > level] ** 2)

    g = prepared(wg.compile(f))
    u, levels = np.linspace(0.0, 1.0, 1000), np.linspace(0.0, 0.9, 12)

    def recordings_after(level):
        np.testing.assert_allclose(g(u, level), prepared(f)(u, level), rtol=1e-14)
        return g._budget.recordings

    with pytest.warns(wg.CompileWarning, match="3 recordings for 0 replays"):
        found = [recordings_after(level) for level in levels]
    assert found == [1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3]
    assert g.paths == 0


def test_large_masks_that_stay_are_replayed():
    g = wg.compile(lambda u, level: np.sum(u[u > level] ** 2))
    u = np.linspace(0.0, 1.0, 1000)
    for level in (0.5, 0.5, 0.2, 0.2, 0.7, 0.7):
        g(u, level)
    assert g._budget.recordings == 3


def test_limit_of_recordings_grows_with_replays():
    g = wg.compile(lambda u, n: u * n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(60):
            for _ in range(20):
                assert g(2.0, n) == 2.0 * n
    assert g.paths == 60


def test_complex_arguments_select_another_program():
    """NumPy's complex scalars are inputs; Python's follow other arithmetic, so they are constants."""
    g = compiled(lambda u: u * 2)
    numbers = [np.complex128(1j), 1.0, np.complex128(2j), 2.0]
    assert [g(u) for u in numbers] == [2j, 2.0, 4j, 4.0]
    assert g.paths == g._budget.recordings == 2
    assert [g(1j), g(2j), g(1j)] == [2j, 4j, 2j]
    assert type(g(1j)) is complex and g.paths == 4


# functions in it are not followed, nor are partials
fetched = types.MappingProxyType({"exp": functools.partial(math.exp), "sin": functools.partial(math.sin)})
NEEDS_PLAIN = {
    "C code": (lambda u: u * fetched["exp"](scale), set_global("scale", 3.0), (x,), 2),
    "math": (lambda u: u * math.exp(scale), set_global("scale", 3.0), (x,), 1),
    "C code and an array": (lambda u: u * fetched["exp"](scale) + table, lambda: table.__setitem__(0, 7.0), (x,), 1),
    "float of an element": (lambda u: u * float(table[0]), lambda: table.__setitem__(0, 7.0), (x,), 1),
    "float of an element, and a number": (lambda u: u * float(table[1]) * scale, set_global("scale", 3.0), (x,), 1),
    "C code on an argument": (lambda u, k: u * fetched["exp"](k) * scale, set_global("scale", 3.0), (x, 2.0), 2),
}


@pytest.mark.parametrize("name", NEEDS_PLAIN)
def test_scalars_needed_as_plain_values_are_part_of_cache_key(name, unchanged):
    f, change, args, paths = NEEDS_PLAIN[name]
    g = compiled(f)
    for _ in range(3):
        np.testing.assert_array_equal(g(*args), f(*args))
    assert g.paths == 1
    change()
    for _ in range(3):
        np.testing.assert_array_equal(g(*args), f(*args))
    assert g.paths == paths
    if len(args) == 2:
        for k in (1.0, 5.0, 1.0):
            np.testing.assert_array_equal(g(x, k), f(x, k))


@pytest.mark.parametrize(
    ("f", "word"), [(lambda u: fetched["sin"](u[0]) * u, "sin"), (lambda u: np.histogram(u, "auto")[0], "histogram")]
)
def test_unrecordable_function_falls_back_to_eager_without_derivative(f, word):
    g = wg.compile(f)
    with pytest.warns(wg.CompileWarning, match=word) as caught:
        found = [g(point) for point in (x, x + 1, x)]
    np.testing.assert_array_equal(found, [f(point) for point in (x, x + 1, x)])
    assert len(caught) == 1 and g.paths == 0
    with pytest.raises(TypeError, match=word):
        wg.jacobian(g)(x)


# ---- rechecks

library = {i: Model() for i in range(100)}  # more elements than are watched


@pytest.mark.parametrize(("recheck", "announced"), [("auto", 16), (1, 10), (7, 14), (10, 10)])
def test_unwatched_change_is_found_by_announced_recheck(recheck, announced, monkeypatch):
    g = wg.compile(lambda u: library[5].rate * u, recheck=recheck, constant="library")
    monkeypatch.setattr(library[5], "rate", 2.0)
    for call in range(1, 10):
        assert g(1.0) == 2.0, call
    library[5].rate = 3.0
    for call in range(10, announced):
        assert g(1.0) == 2.0, call
    with pytest.raises(wg.StaleProgramError, match=r"<lambda> now gives another value.*recheck=1"):
        g(1.0)
    assert [g(1.0) for _ in range(3)] == [3.0, 3.0, 3.0]


def test_without_recheck_nothing_runs_twice():
    runs = []

    class Counting:
        def __getattr__(self, name):
            runs.append(name)
            raise AttributeError

    g = wg.compile(lambda u: u, recheck=None)
    for _ in range(9):
        g(1.0)
    assert runs == []
    assert next(iter(next(iter(g._tables.values())).paths.values()))[0].calls == 8


@pytest.mark.parametrize("recheck", [0, -1, "often", 1.5, True])
def test_invalid_recheck_raises(recheck):
    with pytest.raises(ValueError, match="recheck"):
        wg.compile(abs, recheck=recheck)


def test_rounding_difference_is_not_a_change(monkeypatch):
    class Rounding(replica.Replica):
        def __init__(self, f, args, kwargs, reading, exact, disabled, defers=False, assumes_finite=False, widens=False):
            self.exact = exact
            super().__init__(f, args, kwargs, reading, exact, disabled)

        def _execute(self, leaves):
            (y,) = super()._execute(leaves)
            recordings.append(self.exact)
            return [y if self.exact else y * (1.0 + 1e-10)]

    recordings = []
    monkeypatch.setattr(module.record, "trace", Rounding)
    g = wg.compile(lambda u: u, recheck=1)
    for _ in range(5):
        np.testing.assert_allclose(g(x), x, rtol=1e-9)
    assert recordings.count(True) == 1  # the difference counts as rounding in later calls


def test_rounding_of_a_long_substitution_is_recognised_without_another_trace(monkeypatch):
    def substitute(L, b):
        x = np.zeros(b.size)
        for i in range(b.size):
            x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
        return np.sum(x * x)

    made, trace = [], module.record.trace
    monkeypatch.setattr(module.record, "trace", lambda *args: made.append(args) or trace(*args))
    n = 150
    L = np.fromfunction(lambda i, j: (i + n - j + 1) * 2 / n, (n, n))
    L, b = L * (1.0 + 1e-4 * np.random.default_rng(1).uniform(-1.0, 1.0, (n, n))), np.arange(n) / n
    found, expected = wg.compile(wg.grad(substitute))(L, b), wg.grad(substitute)(L, b)
    assert np.max(np.abs(found - expected)) > 512 * np.finfo(float).eps * np.max(np.abs(expected))
    assert len(made) == 1


def test_change_beyond_rounding_is_found(monkeypatch):
    def f(u):
        s = 0.0
        for i in range(u.size):
            s = s + u[i] * library[5].rate
        return s

    made, trace = [], module.record.trace
    monkeypatch.setattr(module.record, "trace", lambda *args: made.append(args) or trace(*args))
    monkeypatch.setattr(library[5], "rate", 2.0)
    u = 1e6 * np.random.default_rng(3).normal(size=1000)
    u = np.concatenate([u, -u[::-1] * (1.0 + 1e-9)])
    g = wg.compile(f, recheck=1, constant="library")
    for _ in range(2):
        g(u)
    count = len(made)
    for _ in range(3):
        np.testing.assert_allclose(g(u), f(u), rtol=1e-4)
    assert len(made) == count
    library[5].rate = 3.0
    with pytest.raises(wg.StaleProgramError):
        g(u)


def test_recording_that_differs_from_f(monkeypatch):
    class Wrong(replica.Replica):
        def _execute(self, leaves):
            return [super()._execute(leaves)[0] + 1.0]

    monkeypatch.setattr(module.record, "trace", Wrong)
    g = wg.compile(lambda u: u, recheck=None)
    with pytest.warns(wg.CompileWarning, match="another value") as caught:
        found = [g(x) for _ in range(3)]
    assert all(y is x for y in found)
    assert len(caught) == 1 and g.paths == 0


def test_result_that_only_an_exact_recording_could_confirm(monkeypatch):
    class Wrong(replica.Replica):
        def __init__(self, *args):
            if args[4]:  # exact
                raise NotReplayable("fsolve runs a solver, which a replay would skip")
            super().__init__(*args)

        def _execute(self, leaves):
            return [super()._execute(leaves)[0] + 1.0]

    monkeypatch.setattr(module.record, "trace", Wrong)
    g = wg.compile(lambda u: u)
    assert all(g(x) is x for _ in range(3)) and g.paths == 0


def test_wrong_recording_is_dropped(monkeypatch):
    class Turning(replica.Replica):
        def _execute(self, leaves):
            return [super()._execute(leaves)[0] + (leaves[0][0] > 1.0)]

    monkeypatch.setattr(module.record, "trace", Turning)
    g = wg.compile(lambda u: u, recheck=2)
    g(x)
    with pytest.raises(wg.ReplayMismatchError, match="test the type"):
        g(x + 1)
    assert g.paths == 0
    with pytest.warns(wg.CompileWarning, match="another value"):
        np.testing.assert_array_equal(g(x + 1), x + 1)


@pytest.mark.parametrize("exact", [False, True])
def test_nan_and_containers_are_compared(exact):
    g = wg.compile(lambda u: {"a": u / u, "b": [u, -u], "n": 3, "s": "text"}, exact=exact, recheck=1)
    for _ in range(4):
        with np.errstate(invalid="ignore"):
            got = g(np.array([0.0, 1.0]))
    np.testing.assert_array_equal(got["a"], [np.nan, 1.0])
    assert (got["n"], got["s"]) == (3, "text")


# ---- eager fallback

calls = 0
history = []


def assigns_global(u):
    global calls
    calls += 1
    return u


def assigns_in_helper(u):
    return assigns_global(u) * 2


class Counter:
    def __init__(self):
        self.n = 0

    def method(self, u):
        self.n += 1
        return u

    def __call__(self, u):
        return self.method(u)


def appends(u):
    history.append(1)
    return u


recent = collections.deque()
seen = collections.Counter()
numbers = itertools.count()


def pushes(u):
    recent.append(1)
    return u


def counts_calls(u):
    seen["calls"] += 1
    return u


def draws_the_next(u):
    return u + 0.0 * next(numbers)


def writes_its_argument(u):
    u[0] = 0.0
    return u


EFFECTS = {
    "global": (assigns_global, "calls", lambda: calls),
    "global of a followed function": (assigns_in_helper, "calls", lambda: calls),
    "list": (appends, "history", lambda: len(history)),
    "deque": (pushes, "deque", lambda: len(recent)),
    "counter": (counts_calls, "changes 'calls'", lambda: seen["calls"]),
    "iterator": (draws_the_next, r"iterator \(count\)", lambda: int(repr(numbers)[len("count(") : -1])),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_lasting_side_effects_happen_at_each_call(name):
    f, word, count = EFFECTS[name]
    g = wg.compile(f)
    start = count()
    with pytest.warns(UserWarning, match=word) as caught:
        assert [g(1.0) for _ in range(5)] == [f(1.0) for _ in range(5)]
    assert count() == start + 10
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert g.paths == 0


def test_side_effects_on_objects_happen_in_each_call():
    counter = Counter()
    for f in (counter.method, counter, lambda u: counter.method(u)):
        counter.n = 0
        g = wg.compile(f)
        with pytest.warns(UserWarning, match="it changes 'n'"):
            assert [g(u) for u in range(5)] == [0, 1, 2, 3, 4]
        assert counter.n == 5


def test_signs_of_zero_are_distinguished(unchanged):
    g = compiled(lambda u: u * math.copysign(1.0, scale))
    for value in (0.0, 0.0, 0.0, -0.0, -0.0, -0.0, 0.0):
        globals()["scale"] = value
        assert g(1.0) == math.copysign(1.0, value)


class Lazy:
    def __init__(self):
        self.rate, self.cache = 2.0, None

    @functools.cached_property
    def doubled(self):
        return 2 * self.rate

    def rhs(self, u):
        if self.cache is None:
            self.cache = np.full(3, self.rate)
        return u * self.doubled + self.cache


def test_caches_filled_once_are_accepted():
    lazy = Lazy()
    g = compiled(lazy.rhs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(5):
            np.testing.assert_array_equal(g(x), 4 * x + 2)
    assert g.paths == 1
    assert type(lazy.doubled) is float and type(lazy.cache) is np.ndarray


def test_side_effects_on_variables_and_arguments_happen_in_each_call():
    n = 0

    def f(u):
        nonlocal n
        n += 1
        return u

    g = wg.compile(f)
    with pytest.warns(UserWarning, match="'n'"):
        assert [g(1.0), g(2.0)] == [1.0, 2.0]
    assert n == 2
    g, u = wg.compile(writes_its_argument), x.copy()
    with pytest.warns(UserWarning, match="array that it was given"):
        assert [g(x.copy())[0] for _ in range(5)] == [0.0] * 5
    g(u)
    assert u[0] == 0.0


def test_objects_made_inside_may_be_written():
    def f(u):
        made = Model()
        made.rate = u
        items = [u]
        items.append(made.rate)
        return sum(items)

    g = compiled(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [g(1.0), g(2.0)] == [2.0, 4.0]
    assert g.paths == 1


# ---- kinds of functions


def test_decorator_works_with_and_without_arguments():
    @wg.compile
    def one(u, v=1.0):
        """Double the argument."""
        return 2 * u * v

    @wg.compile(exact=True, recheck=3)
    def two(u):
        return 2 * u

    assert [one(2.0), two(2.0)] == [4.0, 4.0]
    assert one.__name__ == "one"
    assert one.__doc__ == "Double the argument."
    assert str(inspect.signature(one)) == "(u, v=1.0)"
    assert repr(one).startswith("compile(test_decorator")
    assert repr(two).endswith("two, exact=True, recheck=3)")


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args):
        return 2 * f(*args)

    return wrapper


@doubled
def decorated(u):
    return u * scale


@wg.compile
def factorial(n, u):
    return u if n == 0 else n * factorial(n - 1, u)


def plain_factorial(n, u):
    return u if n == 0 else n * plain_factorial(n - 1, u)


class Solver:
    def __init__(self, rate):
        self.rate = rate

    @wg.compile
    def step(self, u):
        return u * self.rate

    @staticmethod
    @wg.compile
    def double(u):
        return 2 * u

    def two_steps(self, u):
        return self.step(self.step(u))


FORMS = {
    "lambda": (lambda u: u + 1, (2.0,)),
    "partial": (functools.partial(np.power, 2.0), (3.0,)),
    "partial with keywords": (functools.partial(with_defaults, b=4.0), (3.0,)),
    "decorated": (decorated, (2.0,)),
    "recursion": (plain_factorial, (4, 2.0)),
    "ufunc": (np.sin, (2.0,)),
    "builtin": (abs, (-2.0,)),
    "method": (model.helper, (x,)),
    "callable object": (model, (x,)),
    "static method": (staticmethod(helper), (x,)),
    "lru_cache": (functools.lru_cache(lambda n, u=2.0: n * u), (3,)),
    "import inside": (lambda u: __import__("numpy").sin(u), (2.0,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_functions_of_every_form_are_compiled(name):
    f, args = FORMS[name]
    g = wg.compile(f, recheck=1)
    for _ in range(3):
        np.testing.assert_array_equal(g(*args), f(*args))
    assert g.paths == 1


class Spring:
    def __init__(self, k, length):
        self.k, self.length = k, length

    def energy(self):
        return 0.5 * self.k * self.length**2

    def with_length(self, x):
        new = copy.copy(self)
        new.length = x
        return new

    def reset(self, x):
        new = type(self)(0.0, x)
        del new.k
        new.k = self.k
        return new


class Open(Spring):
    def __init__(self, k, length):
        self.__dict__.update(k=k, length=length)


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float
    length: float

    energy = Spring.energy


spring, opened, frozen = Spring(2.0, 1.0), Open(2.0, 1.0), Frozen(2.0, 1.0)

#: functions that make objects of the class of an object which they read, and an assignment to an attribute of that
MADE = {
    "type": lambda x: type(spring)(spring.k, x).energy() + spring.energy(),
    "__class__": lambda x: spring.__class__(**{**vars(spring), "length": x}).energy(),
    "copy": lambda x: spring.with_length(x).energy() * spring.energy(),
    "deleted attribute": lambda x: spring.reset(x).energy(),
    "__dict__": lambda x: type(opened)(opened.k, x).energy() + opened.energy(),
    "dataclass": lambda x: dataclasses.replace(frozen, length=x).energy() + frozen.energy(),
}


@pytest.mark.parametrize("name", MADE)
def test_objects_of_the_class_of_a_captured_object_are_compiled(name):
    f, held = MADE[name], {"dataclass": frozen, "__dict__": opened}.get(name, spring)
    g = wg.compile(f)
    slope = wg.grad(g)
    for k in (2.0, 2.5, 3.0, 3.5, 4.0, 4.5):
        object.__setattr__(held, "k", k)
        np.testing.assert_allclose(g(k), f(k))
        np.testing.assert_allclose(slope(k), wg.grad(f)(k))
    assert g.paths == 1 and slope.paths == 1


def test_recursion_through_the_compiled_name():
    assert [factorial(4, 2.0), factorial(4, 3.0), factorial(0, 3.0)] == [48.0, 72.0, 3.0]
    assert [factorial(4, 2.0) for _ in range(9)] == [48.0] * 9


def test_methods_are_compiled_per_object():
    one, two = Solver(2.0), Solver(3.0)
    assert [one.step(1.0), two.step(1.0), one.step(2.0)] == [2.0, 3.0, 4.0]
    assert one.step is one.step
    assert Solver.step(one, 1.0) == 2.0
    one.rate = 5.0
    assert one.step(1.0) == 5.0
    assert one.double(4.0) == 8.0
    g = compiled(one.two_steps)
    assert g(1.0) == 25.0
    one.rate = 2.0
    assert g(1.0) == 4.0
    assert g(1.0) == 4.0


@pytest.mark.parametrize("f", [3.0, "f", None.__class__])
def test_callable_instances_compile_and_other_objects_raise(f):
    if callable(f):
        assert wg.compile(f)() is None
    else:
        with pytest.raises(TypeError, match="expected a function"):
            wg.compile(f)


def test_generators_raise():
    def numbers(u):
        yield u

    with pytest.raises(TypeError, match="yield"):
        wg.compile(numbers)


def test_a_compiled_function_is_compiled_once():
    g = wg.compile(helper)
    again = wg.compile(g)
    assert again.f is helper


def test_attributes_are_those_of_f():
    def f(u):
        return u

    f.units = "m"
    g = wg.compile(f)
    assert g.units == "m"
    with pytest.raises(AttributeError):
        g.missing  # noqa: B018


# ---- exceptions, threads, memory, copies


def test_exceptions_of_f_propagate():
    def f(u):
        if u > 2:
            raise KeyError("too large")
        return u

    g = wg.compile(f)
    for _ in range(3):
        assert g(1.0) == 1.0
        with pytest.raises(KeyError, match="too large"):
            g(3.0)
    assert g.paths == 1


def test_concurrent_first_calls_record_once(unchanged):
    g = wg.compile(lambda u: model.rhs(u) * scale)
    expected = [g.f(x * i) for i in range(8)]

    def work(i):
        for _ in range(20):
            np.testing.assert_array_equal(g(x * i), expected[i])

    in_threads(work)
    assert g.paths == 1
    assert g._budget.recordings == 1


def test_threads_read_state_while_another_records(unchanged):
    """The operands of a recording are visible to its own thread only."""
    stop, seen = threading.Event(), set()

    def watch():
        while not stop.is_set():
            seen.add((type(scale), type(model.rate), type(with_defaults.__defaults__[0])))

    thread = threading.Thread(target=watch)
    thread.start()
    for _ in range(10):
        reading = Captures(lambda u: reads_globals(u) + model.rhs(u) + with_defaults(u)).read()
        reading.bound([np.float32(leaf) if np.ndim(leaf) == 0 else leaf for leaf in reading.leaves])(x)
    stop.set()
    thread.join()
    assert seen == {(float, float, float)}


def test_clear_caches_drops_recordings():
    g = wg.compile(helper)
    g(x)
    assert g.paths == 1
    wg.clear_caches()
    assert g.paths == 0
    np.testing.assert_array_equal(g(x), helper(x))


def test_nothing_is_kept_alive():
    def make():
        grid = np.ones(1000)
        f = wg.compile(lambda u: u * grid[0])
        f(1.0)
        return weakref.ref(f), weakref.ref(grid)

    refs = make()
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


module_function = wg.compile(reads_globals)


@wg.compile(exact=True)
def decorated_at_top(u):
    return u * 3


@pytest.mark.parametrize("make", [lambda g: pickle.loads(pickle.dumps(g)), copy.copy, copy.deepcopy])
def test_copies_record_again(make):
    g = make(module_function)
    np.testing.assert_array_equal(g(x), reads_globals(x))
    g = make(decorated_at_top)
    assert g(2.0) == 6.0
    assert g.exact
    bound = make(Solver(4.0).step)
    assert bound(2.0) == 8.0


# ---- derivatives


def energy(u, a=1.0):
    return np.sum(u**2) * scale * a


OPERATORS = {
    "grad": wg.grad,
    "value_and_grad": wg.value_and_grad,
    "jacobian": wg.jacobian,
    "hessian": wg.hessian,
    "jvp": wg.jvp,
    "hvp": wg.hvp,
    "grad of grad": lambda f: wg.jacobian(wg.grad(f)),
}


def vector(u, a=1.0):
    return np.sin(u) * scale * a


def of_dict(d):
    return np.sum(d["a"] ** 2) * d["b"] * scale


matrix = np.arange(1.0, 5.0).reshape(2, 2)
both = {"a": x, "b": 2.0}

#: operator with its options, function, arguments
OPTIONS = {
    "a list of integers": (wg.grad, energy, ([1, 2, 3],)),
    "an integer": (wg.grad, lambda u: u**3 * scale, (2,)),
    "a list of lists": (wg.jacobian, lambda u: u @ u * scale, ([[1, 2], [3, 4]],)),
    "a list of floats": (wg.hessian, energy, ([1.0, 2.0],)),
    "keywords": (wg.grad, lambda u, *, a=1.0: energy(u, a), (x,), {"a": 3.0}),
    "value": (lambda f: wg.grad(f, value=True), energy, (x,)),
    "value of a Hessian": (lambda f: wg.hessian(f, value=True), energy, (x,)),
    "aux": (lambda f: wg.grad(f, has_aux=True), lambda u: (energy(u), {"twice": u * 2}), (x,)),
    "another argument": (lambda f: wg.grad(f, argnums=1), energy, (x, 2.0)),
    "the last argument": (lambda f: wg.jacobian(f, argnums=-1), vector, (x, 2.0)),
    "two arguments": (lambda f: wg.grad(f, argnums=(0, 1)), energy, (x, 2)),
    "a slice": (lambda f: wg.jacobian(f, argnums=slice(1, None)), lambda u, a, b: vector(u * a + b), (x, 2.0, 1.0)),
    "blocks of a Hessian": (lambda f: wg.hessian(f, argnums=(0, 1)), energy, (x, 2.0)),
    "a dict": (wg.grad, of_dict, (both,)),
    "Hessian in a dict": (wg.hessian, of_dict, (both,)),
    "a dict as result": (wg.jacobian, lambda d: {"p": d["a"] * d["b"] * scale, "q": d["b"]}, (both,)),
    "a list as result": (wg.jacobian, lambda u: [u[0] * u[1] * scale, 2.0], (x,)),
    "a constant": (wg.jacobian, lambda u: np.ones(2) * scale, (x,)),
    "float32": (wg.jacobian, vector, (x.astype(np.float32),)),
    "Python float of a float32": (wg.jacobian, lambda u: math.exp(u) * scale, (np.float32(0.5),)),
    "float64 of float32": (wg.jacobian, lambda u: np.array([math.exp(u[0]) * scale, 1.0]), (x.astype(np.float32),)),
    "Fortran's order": (wg.jacobian, lambda u: u @ u * scale, (matrix.T,)),
    "an array without axes": (wg.jacobian, lambda u: u * x * scale, (np.array(2.0),)),
    "forward": (wg.jacfwd, vector, (x,)),
    "a direction": (wg.jvp, vector, ([1, 2, 3], [1, 0, 2])),
    "stacked directions": (wg.jvp, vector, (x, np.eye(3))),
    "directions of two arguments": (lambda f: wg.jvp(f, argnums=(0, 1)), vector, (x, (x, 1), 2.0)),
    "aux of a direction": (lambda f: wg.jvp(f, has_aux=True), lambda u: (vector(u), u), (x, x)),
    "stacked vectors": (wg.hvp, energy, (x, np.eye(3))),
    "vectors of another argument": (lambda f: wg.hvp(f, argnums=1), lambda u, v: energy(u * v), (x, x, x)),
    "third order": (lambda f: wg.derivative(f, order=3, value=True), vector, (x,)),
    "direction of a gradient": (lambda f: wg.jvp(wg.grad(f)), energy, (x, x)),
    "Jacobian of a Hessian": (lambda f: wg.jacobian(wg.hessian(f)), lambda u: np.sum(u**3) * scale, (x,)),
    "holomorphic": (lambda f: wg.grad(f, holomorphic=True), lambda u: u**3 * scale, (1 + 2j,)),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_of_derivatives_act_as_without_compilation(name, unchanged):
    operator, f, args, *kwargs = OPTIONS[name]
    kwargs = kwargs[0] if kwargs else {}
    plain = operator(f)
    for g in (operator(wg.compile(f, recheck=1)), wg.compile(plain, recheck=1)):
        for value in (2.0, 2.0, 5.0):
            globals()["scale"] = value
            expected = plain(*args, **kwargs)
            got = g(*args, **kwargs)
            assert type(got) is type(expected)
            assert getattr(got, "dtype", None) == getattr(expected, "dtype", None)
            assert difference(got, expected) <= 4
        assert g.paths == 1


@pytest.mark.parametrize("operator", [wg.grad, wg.jacobian, wg.hessian])
def test_each_branch_has_its_derivative(operator):
    g = operator(wg.compile(branching))
    for point in np.random.default_rng(3).uniform(-1, 2, 200):
        assert g(point) == operator(branching)(point)
    assert g.paths == 3


def test_results_of_other_shapes_select_another_specialisation():
    g = compiled(lambda u: u[u > 0] * 2)
    h = wg.jacobian(g)
    for point in np.random.default_rng(4).normal(size=(30, 3)):
        np.testing.assert_array_equal(g(point), g.f(point))
        np.testing.assert_array_equal(h(point), wg.jacobian(g.f)(point))
    assert g.paths <= 8


def test_errors_are_those_of_the_derivative():
    for operator, f, args, message in [
        (wg.grad, vector, (x,), "single number"),
        (wg.grad, energy, ("a",), "str"),
        (wg.jvp, vector, (x, np.ones(2)), "shape"),
        (wg.jacobian, vector, (), "positional argument"),
    ]:
        with pytest.raises((TypeError, ValueError), match=message):
            operator(wg.compile(f))(*args)


@pytest.mark.parametrize("name", OPERATORS)
def test_derivatives_of_compiled_functions_are_compiled(name, unchanged):
    operator = OPERATORS[name]
    args = (x, np.ones(3)) if name in ("jvp", "hvp") else (x,)
    plain = operator(energy)
    for g in (operator(wg.compile(energy)), wg.compile(operator(energy))):
        assert repr(g) == f"compile({plain!r})"
        for value in (2.0, 5.0):
            globals()["scale"] = value
            for got, expected in zip(g(*args), plain(*args)):
                np.testing.assert_array_equal(got, expected)
        assert g.paths == 1
    assert inspect.signature(wg.grad(wg.compile(energy))) == inspect.signature(energy)


def test_derivative_of_compiled_function_of_scalar():
    assert wg.derivative(wg.compile(np.sin), 0.0) == 1.0
    assert wg.compile(wg.derivative(lambda u: u**3, order=2))(2.0) == 12.0


def test_derivatives_are_recordings():
    _, pullback = wg.vjp(wg.compile(lambda u: u * scale), x)
    np.testing.assert_array_equal(pullback(np.ones(3)), np.full(3, scale))
    _, J = wg.linearize(wg.compile(lambda u: u * scale), x)
    np.testing.assert_array_equal(J @ np.ones(3), np.full(3, scale))


def test_explain_of_compiled_derivatives():
    explained = wg.explain(wg.jacobian(wg.compile(np.sin)), x)
    assert repr(explained) == repr(wg.explain(wg.jacobian(np.sin), x))


def test_derivative_as_class_attribute_is_not_a_method():
    class Problem:
        slope = wg.grad(wg.compile(lambda u: u**2))

    assert Problem().slope(3.0) == 6.0


def test_out_and_fun_act_as_without_compilation():
    J = wg.jacobian(wg.compile(lambda u: u**2))
    out = np.empty((3, 3))
    assert J(x, out=out) is out
    np.testing.assert_array_equal(out, np.diag(2 * x))
    np.testing.assert_array_equal(J.fun(x), x**2)
    with pytest.raises(AttributeError):
        J.fun.fun  # noqa: B018


# ---- inside derivatives


def _assembled(u):
    F = np.zeros(3)
    for i in range(3):
        F[i] = u[i] ** 2 * u[i - 1]
    return F


def _parted(u, k):
    return np.tanh(u) * k, np.sum(u**2), {"t": k + 1.0, "rest": [u[1:], 7]}


def _of_parts(g, u):
    v, s, others = g(u, 2.0)
    v, s, others = g(v * s, others["t"])
    assert others["rest"][1] == 7
    return math.exp(others["t"]) * v + s * others["rest"][0][0]


class _Model:
    def __init__(self):
        self.rate, self.matrix = 2.0, np.outer(np.arange(3.0), np.ones(3))

    def step(self, u):
        return self.matrix @ u * self.rate


#: a function that may be compiled, and a function of it that is differentiated
INSIDE = {
    "number": (lambda u: np.sum(u**2) * scale, lambda g, u: g(u) * u),
    "array": (lambda u: np.sin(u) * u, lambda g, u: g(g(u))),
    "of a scalar": (lambda t: np.exp(t), lambda g, u: g(u[0]) * u + g(2.0)),
    "containers": (_parted, _of_parts),
    "stores": (_assembled, lambda g, u: g(g(u))),
    "branches": (lambda u: u * u if u[0] > 0 else np.exp(u), lambda g, u: g(u) * g(-u)),
    "the argument itself": (lambda u: u, lambda g, u: g(u) * u),
    "constant": (lambda u: np.array([3.0, 4.0]), lambda g, u: np.sum(g(u)) * u),
    "discrete": (lambda u: np.argmax(u), lambda g, u: u * (2.0 + g(u))),
    "integer among the arguments": (lambda u, n: u**n, lambda g, u: g(u, 2) + g(u, 3) + g(u, n=2)),
    "untraced arguments": (lambda a, u: a @ u, lambda g, u: g(np.eye(3), u) + g(np.ones((3, 3)), np.ones(3)) * u),
    "stored into a result": (lambda u: np.zeros(3), lambda g, u: _stored(g(np.ones(3)), u)),
    "traced values of a closure": (None, lambda c, u: c(lambda v: np.sin(v) * u + np.sum(u))(u)),
    "method": (_Model().step, lambda g, u: g(g(u))),
    "rows of the registry": (lambda u: np.prod(u) * np.linalg.norm(u) + np.sort(u), lambda g, u: g(u) + g(u * 0.0 + 1)),
    "views of strides": (lambda u: np.sum(np.outer(u, u), axis=0), lambda g, u: g(u[::-1]) + g(np.repeat(u, 2)[::2])),
    "float32": (lambda u: u.astype(np.float32) * 2, lambda g, u: g(u).astype(float)),
    "compiled inside": (None, lambda c, u: c(lambda v, h=c(lambda w: w * w): h(v) + h(2 * v))(u)),
    "gradient inside": (lambda u: np.sum(np.sin(u)), lambda g, u: wg.grad(g)(u) * g(u)),
    "checkpoint": (lambda u: np.sin(u) * u, lambda g, u: wg.checkpoint(g)(u) * u),
}


def _stored(array, u):
    array[1:] = u[1:]
    return array * 2


@pytest.mark.parametrize("name", INSIDE)
def test_compiled_function_inside_derivatives_propagates_them(name):
    f, around = INSIDE[name]
    plain, compiled = (lambda g: g, wg.compile) if f is None else (f, wg.compile(f))
    for u in (np.array([0.3, -1.2, 0.7]), np.array([-0.3, 1.2, 2.0]), np.array([0.5, 0.0, 2.0])):
        for operator in (wg.jacfwd, wg.jacrev, lambda h, u: wg.hessian(lambda v: np.sum(h(v)), u)):
            expected = operator(lambda v: around(plain, v), u)
            np.testing.assert_allclose(operator(lambda v: around(compiled, v), u), expected, rtol=1e-13, atol=1e-15)
    assert f is None or compiled.paths


def test_compiled_function_inside_passive_block_is_constant():
    g = wg.compile(np.sin)

    def f(u):
        with wg.passive():
            s = g(u)
        return s * u

    assert wg.grad(f, 0.5) == pytest.approx(np.sin(0.5))


def test_compiled_function_inside_float_code_raises():
    g = wg.compile(lambda u: u * fetched["exp"](u))
    for _ in range(12):
        assert g(1.0) == pytest.approx(math.e)
        with pytest.raises(wg.TracedValueError, match="Python float"):
            wg.grad(lambda u: g(u), 1.0)
    h = wg.compile(lambda u: u * math.exp(scale))
    assert wg.grad(lambda u: h(u), 1.0) == pytest.approx(math.exp(scale))


def test_traced_values_in_large_containers_are_followed():
    def f(u, compiled):
        many = [u[0] * i for i in range(100)]
        g = (wg.compile if compiled else lambda g: g)(lambda v: v * many[3])
        return np.sum(g(u) + g(2 * u))

    u = np.array([0.3, -1.2])
    np.testing.assert_array_equal(wg.grad(f, u, args=(True,)), wg.grad(f, u, args=(False,)))


def test_containers_that_later_hold_traced_values_are_followed():
    held = {i: np.ones(2) for i in range(100)}
    g = wg.compile(lambda v: v * held[3])
    u = np.array([0.3, -1.2])
    for _ in range(12):
        g(u)

    def f(u):
        held[3] = u * u
        return np.sum(g(u))

    np.testing.assert_allclose(wg.grad(f, u), 3 * u**2)


def test_writes_inside_derivative_are_done_once():
    @wg.compile
    def g(u):
        if u[1] > 2:
            u[0] = 5.0
        return u * u

    def f(u):
        v = u * 1.0
        w = g(v)
        return np.sum(w * v)

    for u in ([1.0, 2.0], [1.0, 3.0], [1.0, 2.0], [1.0, 3.0]):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "compile.*writes into an array", UserWarning)
            assert wg.grad(f, u).tolist() == [0.0 if u[1] > 2 else 3.0, 3 * u[1] ** 2]


def test_each_specialisation_inside_derivative_is_recorded_once():
    g = wg.compile(lambda u: u * u if u > 0 else -u)
    slope = wg.grad(lambda u: g(u) * g(u - 1.0))
    for u in (0.5, 2.0, -1.0, 0.5, 2.0):
        assert slope(u) == pytest.approx(wg.grad(lambda u: g.f(u) * g.f(u - 1.0), u))
    assert g.paths == 2


def test_compiled_functions_may_call_compiled_functions(unchanged):
    inner = wg.compile(lambda u: u * scale)
    g = compiled(lambda u: inner(u) + 1)
    assert g(1.0) == 3.0
    globals()["scale"] = 5.0
    assert g(1.0) == 6.0
    assert g.paths == 1


# ---- ways to call


def product(x, k=2.0):
    return x * k


WAYS = {
    "by position": lambda f, x: f(x, 2.0),
    "by name": lambda f, x: f(x, k=2.0),
    "all by name": lambda f, x: f(x=x, k=2.0),
    "by a default": lambda f, x: f(x),
    "unpacked": lambda f, x: f(*(x, 2.0)),
    "unpacked names": lambda f, x: f(**{"x": x, "k": 2.0}),
    "mapped": lambda f, x: next(map(f, [x], [2.0])),
    "partial": lambda f, x: functools.partial(f, x)(2.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_arguments_may_be_passed_in_any_way_and_alternately(way):
    compiled = wg.compile(product)
    for n in (3, 3, 3, 4, 3, 3):
        x = np.arange(n) + 0.5
        np.testing.assert_array_equal(WAYS[way](compiled, x), 2 * x)
        np.testing.assert_array_equal(compiled(x, 3.0), 3 * x)


JACOBIANS = {
    "program": lambda f, x: wg.record(f, x).jacobian(),
    "compiled": lambda f, x: wg.jacobian(wg.compile(f, recheck=None)),
}


@pytest.mark.parametrize("kind", JACOBIANS)
def test_fast_path_reads_the_given_arguments(kind):
    x = np.array([1.0, 2.0])
    jacobian = JACOBIANS[kind](lambda x: np.array([x[0] * x[1], x[0] - x[1]]), x)
    for scale in (1.0, 2.0, 3.0, 4.0, 5.0):
        out = np.full((2, 2), np.nan)
        expected = [[2 * scale, scale], [1.0, -1.0]]
        assert jacobian(scale * x, out=out) is out
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(jacobian(scale * x), expected)
    with pytest.raises(ValueError, match="shape"):
        jacobian(x, out=np.empty((2, 3)))
    with pytest.raises((TypeError, ValueError)):
        jacobian(x, outside=out)
    with pytest.raises((TypeError, ValueError)):
        jacobian()
    np.testing.assert_array_equal(jacobian(x), [[2.0, 1.0], [1.0, -1.0]])


def test_subclass_of_program_keeps_its_call():
    class Twice(type(wg.record(np.sin, 1.0))):
        def __call__(self, x):
            return 2 * super().__call__(x)

    program = wg.record(np.sin, 1.0)
    own = Twice(*[getattr(program, f"_{name}") for name in ("name", "listing", "form", "result", "exact", "example")])
    for _ in range(3):
        assert own(0.5) == 2 * program(0.5)


#: a change of an integer or boolean array argument, and whether it creates another array
INDICES = {
    "the same": (lambda a: a, 1),
    "a copy": (lambda a: a.copy(), 1),
    "in place": (lambda a: a.__setitem__(0, 3) or a, 2),
    "replaced": (lambda a: a[::-1].copy(), 2),
    "backwards": (lambda a: a[::-1], 2),
    "of other strides": (lambda a: np.repeat(a, 2)[::2], 2),
    "longer": (lambda a: np.append(a, 1), 2),
    "of another type": (lambda a: a.astype(np.int32), 2),
    "of another byte order": (lambda a: a.astype(">i8"), 2),
    "flags": (lambda a: np.arange(4) > 1, 2),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("way", ["argument", "keyword", "in a tuple", "read from outside", "argument of a gradient"])
def test_integer_globals_are_watched(name, way):
    """Also on the fast path of repeated calls."""
    change, recordings = INDICES[name]
    held = {"at": np.array([2, 0, 0])}

    def read(u):
        return np.sum(u[held["at"]] ** 3)

    at = lambda u, at: np.sum(u[at] ** 3)
    inside = lambda u, pair: np.sum(u[pair[0]] ** 3) * pair[1]
    f, call = {
        "argument": (at, lambda g, u, a: g(u, a)),
        "keyword": (at, lambda g, u, a: g(u, at=a)),
        "in a tuple": (inside, lambda g, u, a: g(u, (a, 1.0))),
        "read from outside": (read, lambda g, u, a: held.update(at=a) or g(u)),
        "argument of a gradient": (wg.grad(at), lambda g, u, a: g(u, a)),
    }[way]
    g, a = compiled(f), held["at"]
    for step in range(12):
        u = np.array([1.0, 2.0, 3.0, 4.0]) + step
        np.testing.assert_allclose(call(g, u, a), call(f, u, a), rtol=1e-15)
    a = change(a)
    for step in range(12):
        u = np.array([1.0, 2.0, 3.0, 4.0]) - step
        np.testing.assert_allclose(call(g, u, a), call(f, u, a), rtol=1e-15)
    assert g.paths == recordings


@dataclasses.dataclass
class Spring:
    stiffness: float
    ends: tuple
    order: int = 2
    rest: np.ndarray = dataclasses.field(default_factory=lambda: np.array([0.5, 1.0]))


@dataclasses.dataclass(slots=True)
class Frame:
    springs: list


def attribute(name, value):
    return lambda frame: setattr(frame.springs[1], name, value)


#: a change of objects that are read or passed as arguments, and the number of recordings afterwards
OBJECTS = {
    "number": (attribute("stiffness", 3.0), 1),
    "array": (attribute("rest", np.array([2.0, 3.0])), 1),
    "number becomes an array": (attribute("stiffness", np.array([3.0, 4.0])), 2),
    "integer": (attribute("order", 3), 2),
    "integer of another type": (attribute("order", 2.0), 2),
    "tuple": (attribute("ends", (0, 2)), 2),
    "one more attribute": (attribute("label", "new"), 2),
    "one more object": (lambda frame: frame.springs.append(Spring(1.5, (0, 2))), 2),
    "another class": (
        lambda frame: frame.springs.__setitem__(
            1, types.SimpleNamespace(stiffness=1.0, ends=(1, 2), order=4, rest=np.ones(2))), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("is_argument", [True, False])
def test_attributes_of_objects_are_watched(name, is_argument):
    """Also on the fast path of repeated calls."""
    change, recordings = OBJECTS[name]
    frame = Frame([Spring(1.0, (0, 1)), Spring(2.0, (1, 2))])

    def energy(u, frame):
        return sum(np.sum(s.stiffness * (u[s.ends[1]] - u[s.ends[0]] - s.rest) ** s.order) for s in frame.springs)

    f = energy if is_argument else lambda u: energy(u, frame)
    g, more = compiled(f), (frame,) if is_argument else ()
    for step in range(24):
        if step == 12:
            change(frame)
        u = np.array([1.0, 4.0, 9.0]) + step
        np.testing.assert_allclose(g(u, *more), f(u, *more), rtol=1e-14)
    assert g.paths == recordings


def test_index_arrays_use_the_fast_path():
    x, index = np.linspace(0.5, 1.5, 5), np.array([3, 1, 4])
    for g, rest in (
        (wg.compile(lambda u: u[index] * 2.0), ()),
        (wg.compile(lambda u, i: u[i] * 2.0), (index,)),
    ):
        g(x, *rest)
        g(x, *rest)
        assert g._route is not None
        index[0] = 2
        assert np.array_equal(g(x, *rest), x[index] * 2.0)
        index[0] = 3


@pytest.mark.parametrize("derivative", ["grad", "jacobian", "hessian"])
def test_captured_complex_arrays_and_indices_are_constants_of_derivative(derivative):
    """The derivative's program is made from the function's, whose captured arrays are read again in each call."""
    factors = np.exp(1j * np.arange(16.0)).reshape(4, 4)
    twiddles, where = np.exp(-1j * np.arange(4.0))[:, None], np.array([2, 0, 3, 1])

    def spectrum(u):
        z = np.transpose(np.reshape(factors @ (u[where] + 0j)[:, None] * twiddles, (2, 2)))
        return np.abs(np.reshape(z, (4,))) ** 2 + np.real(np.reshape(z, (4,)))

    f = spectrum if derivative == "jacobian" else lambda u: np.sum(spectrum(u) * u)
    operator = getattr(wg, derivative)
    compiled, x = operator(wg.compile(f)), np.linspace(0.5, 1.5, 4)
    for _ in range(2):
        for _ in range(3):
            np.testing.assert_allclose(compiled(x), operator(f)(x), rtol=1e-11, atol=1e-11)
        factors *= 0.5 + 0.25j
        where[:2] = where[1::-1]


def test_lazy_imports_of_first_use_are_not_state_of_f():
    features.parameters_of.cache_clear()
    compiled = wg.compile(lambda x: np.stack([x[0], x[1], x[0] * x[1]]))
    np.testing.assert_array_equal(compiled(np.array([2.0, 3.0])), [2.0, 3.0, 6.0])


def test_class_with_annotations_made_in_the_function_keeps_its_fields():
    def f(x):
        @dataclasses.dataclass(frozen=True)
        class Point:
            a: float
            b: float = 2.0

        point = dataclasses.replace(Point(x[0]), b=x[1])
        return point.a * point.b

    g = wg.compile(f)
    derivative = wg.grad(lambda x: g(x) * 1.0)
    with pytest.warns(wg.CompileWarning, match="not analysed"):
        found = [derivative(np.array([0.7, 1.3])) for _ in range(3)]
    np.testing.assert_array_equal(found, [[1.3, 0.7]] * 3)


def imports_in_its_body(x):
    import scipy.special
    from scipy.special import erf

    return erf(x) + scipy.special.gamma(x)


def _with_signature_checked(f):
    def checked(*args):
        parameters = inspect.getfullargspec(f).args
        return f(*args) * len(parameters) * len(inspect.signature(f).parameters)

    return checked


@_with_signature_checked
def inspects_a_signature(x):
    return x * x


@pytest.mark.parametrize("f", [imports_in_its_body, inspects_a_signature])
def test_import_statement_and_inspection_are_compiled(f):
    compiled = wg.compile(f)  # a CompileWarning would fail the test
    for x in (0.5, 0.75, 0.75):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-15)
    assert compiled.paths == 1


settings, frame = np.geterr, inspect.currentframe


@pytest.mark.parametrize(
    ("f", "word"),
    [
        (lambda x: x * (2.0 if settings()["divide"] == "warn" else 3.0), "geterr"),
        (lambda x: x * (frame().f_lineno > 0), "_getframe"),
    ],
)
def test_function_that_reads_more_than_its_arguments_is_found_under_another_name(f, word):
    compiled = wg.compile(f)
    with pytest.warns(wg.CompileWarning, match=word):
        assert [compiled(1.0) for _ in range(2)] == [2.0 if word == "geterr" else 1.0] * 2
    with np.errstate(divide="ignore"):
        assert compiled(1.0) == f(1.0)


def test_compiled_code_of_other_packages_is_not_replayed(monkeypatch):
    monkeypatch.setattr(frames.solver, "__module__", "a_package_in_cython")
    solver = frames.solver
    compiled = wg.compile(lambda x: x * (2.0 if solver() is None else 1.0))
    with pytest.warns(wg.CompileWarning, match="not defined by a class statement"):
        assert compiled(1.0) == 2.0
    assert not compiled.paths


def test_logger_is_silent_below_its_level_and_writes_at_it(caplog):
    logger = logging.getLogger("a library.its module")

    def f(x):
        logger.debug("x is %s", x)
        return x * x

    compiled = wg.compile(f)  # a CompileWarning would fail the test
    assert [compiled(x) for x in (1.0, 2.0, 3.0)] == [1.0, 4.0, 9.0]
    assert compiled.paths == 1
    with caplog.at_level(logging.DEBUG, "a library"):
        with pytest.warns(wg.CompileWarning, match="it writes to a log"):
            assert [compiled(x) for x in (4.0, 5.0)] == [16.0, 25.0]
        assert caplog.messages == ["x is 4.0", "x is 5.0"]
    assert [compiled(x) for x in (1.0, 2.0)] == [1.0, 4.0]
    assert caplog.messages == ["x is 4.0", "x is 5.0"]


def test_code_that_cannot_be_replayed_keeps_its_value():
    def f(x):
        if module.is_observed():
            raise NotReplayable("it may not be observed")
        return 2.0 * x

    assert wg.compile(f)(3.0) == 6.0
    assert wg.compile(lambda x: f(x))(3.0) == 6.0
