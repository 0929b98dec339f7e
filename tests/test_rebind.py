"""Rebinding: a function runs as a copy whose names for NumPy hold a replacement.

A stand-in for `wengert.numpy` is registered, whose `zeros` returns a marked list.  The module is loaded by its
path, so that these tests run without building the package.
"""

import abc
import argparse
import asyncio
import builtins
import contextlib
import copy
import dataclasses
import dis
import functools
import gc
import importlib
import importlib.util
import inspect
import itertools
import os
import subprocess
import sys
import textwrap
import threading
import traceback
import types
import weakref
from pathlib import Path

import numpy as np
import numpy.linalg as la
import pytest
from numpy import sin, zeros
from wengert.core.rebind.bytecode import codes_in, decode, names_in, places, table_of
from wengert.core.rebind.relocate import relocated

import wengert as wg
from wengert.features import NAMING

pytestmark = pytest.mark.filterwarnings("error")

SRC = Path(__file__).resolve().parents[1] / "src"


def load(name):
    """Load a private copy of a module of `wengert.core`, invisible to other tests."""
    path = SRC / "wengert" / "core" / "rebind" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"wengert.core.rebind.{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def loaded(name):
    """Load a private copy that the private copies loaded after it import."""
    module = load(name)
    context.setitem(sys.modules, module.__name__, module)
    context.setattr(sys.modules["wengert.core.rebind"], name, module)  # for `from wengert.core.rebind import follow`
    return module


rename = load("rename")
FIRST_NUMBER = 1_000_000  # of private names, distinct from wengert's own, which are kept in builtins and sys.modules
rename._number = itertools.count(FIRST_NUMBER)
rename.CALLEE, rename.CONSTANT, rename.SEEN = map(rename.private, ("callee", "constant", "seen"))
with pytest.MonkeyPatch.context() as context:
    context.setitem(sys.modules, "wengert.core.rebind.rename", rename)
    loaded("tables")
    follow = loaded("follow")
    registration, proxies, modules, stubs, inspected, plan, rebind = (
        loaded(name) for name in ("registration", "proxies", "modules", "stubs", "inspected", "plan", "rebind")
    )
rebound = rebind.rebound
registration.register_wrapper(follow.LRU, lambda f: f.__wrapped__, lambda f, copy: copy)


class Marked(list):
    """Returned by the stand-in's `zeros`."""


fake = types.ModuleType("fake_numpy")
fake.__getattr__ = lambda name: getattr(np, name)
fake.zeros = lambda n: Marked([0.0] * n)
fake._called_ndarray = lambda n, dtype=float: Marked([0.0] * n)
fake_linalg = types.ModuleType("fake_linalg")
fake_linalg.__getattr__ = lambda name: getattr(la, name)
fake_linalg.marked = Marked()


def is_own(name):
    """Return whether a private name is one of this file's copies of the engine."""
    return name.startswith("_wengert_") and int(name.split("_")[2]) >= FIRST_NUMBER


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Register NumPy, its `linalg`, `zeros` and the ufunc `sin` during a test."""
    spaces = (vars(builtins), sys.modules)
    before = [{name: space[name] for name in space if name.startswith("_wengert_")} for space in spaces]
    for table, empty in (("REGISTERED", {}), ("plans", {}), ("FOREIGN", {"wengert"})):
        for module in (follow, registration, proxies, modules, inspected, plan, rebind, stubs):
            if hasattr(module, table):
                monkeypatch.setattr(module, table, empty)
    monkeypatch.setattr(rename, "_codes", {})
    registration.register(np, fake)
    registration.register(la, fake_linalg)
    registration.register(np.zeros, fake.zeros)
    registration.register(np.sin, "our sine")
    yield
    for space, own in zip(spaces, before):
        for name in [name for name in space if is_own(name) and name not in own]:
            space.pop(name, None)  # it may have ended with one before it
        # Those of a plan that died meanwhile are gone.
        assert all(space.get(name, value) is value for name, value in own.items()), "names of wengert's own were taken"


def private_names():
    return [name for name in vars(builtins) if name.startswith("_wengert_")]


def is_marked(value):
    return type(value) is Marked


def namespace(source, name="user_module", **names):
    """Return the globals of a module made from `source`, which is not entered in sys.modules."""
    held = {"__name__": name, "np": np, **names}
    exec(compile(textwrap.dedent(source), f"<{name}>", "exec"), held)
    return held


# Names ------------------------------------------------------------------------------------------------------

alpha = 1.0
count = 0


def test_globals_holding_module_function_or_ufunc_are_replaced():
    def f():
        return np.zeros(2), zeros(2), sin, la.marked

    module, function, ufunc, submodule = rebound(f)()
    assert is_marked(module) and is_marked(function) and ufunc == "our sine" and is_marked(submodule)


def test_class_called_under_another_name_is_replaced():
    def f():
        made = np.ndarray(2), np.ndarray(2, dtype=int), [np.ndarray(n) for n in (1, 2)]
        return *made, np.ndarray, isinstance(np.ones(2), np.ndarray), np.ndarray.sum(np.ones(2)), np.ndarray.__name__

    one, two, several, *rest = rebound(f)()
    assert all(map(is_marked, (one, two, *several)))
    assert rest == [np.ndarray, True, 2.0, "ndarray"]


def test_original_function_is_unchanged():
    def f():
        return np.zeros(2)

    rebound(f)()
    assert type(f()) is np.ndarray


def test_function_without_replaceable_names_is_returned_unchanged():
    def plain(x):
        return len(x) + alpha

    class Thing:
        def method(self):
            return alpha

        def __call__(self):
            return alpha

    thing = Thing()
    bound = thing.method
    for f in (plain, len, np.zeros, np.sin, Thing, thing, bound, 3, rebound):
        assert rebound(f) is f


def test_names_are_recognised_by_value_not_by_spelling():
    held = namespace(
        """
        def f(): return np.zeros(1)
        def g(): return other.zeros(1)
        """,
        np=types.SimpleNamespace(zeros=lambda n: "mine"),
        other=np,
    )
    assert rebound(held["f"]) is held["f"]
    assert is_marked(rebound(held["g"])())


def test_lambdas_comprehensions_nested_functions_and_class_bodies_are_rebound():
    def f():
        class K:
            z = np.zeros(1)
            rows = [np.zeros(1) for _ in range(2)]

            def m(self):
                return np.zeros(1)

        return [K.z, *K.rows, K().m(), (lambda: np.zeros(1))(), *[np.zeros(i) for i in range(2)]]

    assert all(map(is_marked, rebound(f)()))


def test_name_assigned_in_class_body_is_not_replaced_there():
    def f():
        class K:
            if alpha > 2:
                np = None
            before = np.zeros(1)
            np = types.SimpleNamespace(zeros=lambda n: "mine")
            z = np.zeros(1)

        return K.z, np.zeros(1)

    mine, other = rebound(f)()
    assert mine == "mine" and is_marked(other)


def test_imports_inside_a_function_yield_the_replacement():
    def f():
        import numpy
        import numpy as n
        import numpy.linalg
        import numpy.linalg as m
        from numpy import zeros as z
        from numpy.linalg import marked

        return numpy.zeros(1), n.zeros(1), z(1), m.marked, marked

    assert all(map(is_marked, rebound(f)()))


#: functions of a module `part` and its function `fun`, by their source or as objects
MEETINGS = {
    "a function": "def f(n): return fun(n)",
    "a module": "def f(n): return part.fun(n)",
    "an import of names": "def f(n):\n    from {0}.part import fun\n    return fun(n)",
    "an import by another name": "def f(n):\n    import {0}.part as other\n    return other.fun(n)",
    "an argument of a partial": lambda fun: functools.partial(lambda g, n: g(n), fun),
    "the function that is run": lambda fun: fun,
}


def test_package_registers_its_functions_at_first_use(monkeypatch):
    for k, way in enumerate(MEETINGS.values()):
        package, installed = f"late{k}", []
        part, ours = types.ModuleType(f"{package}.part"), types.ModuleType("ours")
        exec("def fun(n): return [0.0] * n", vars(part))
        ours.fun = fake.zeros
        monkeypatch.setitem(sys.modules, package, types.ModuleType(package))
        monkeypatch.setitem(sys.modules, f"{package}.part", part)

        def install(part=part, ours=ours, installed=installed):
            installed.append(part)
            registration.register(part, ours)
            registration.register(part.fun, ours.fun)

        registration.register_later(f"{package}.part", install)
        rebound(lambda: np.zeros(1))
        assert not installed
        f = way(part.fun) if callable(way) else namespace(way.format(package), part=part, fun=part.fun)["f"]
        assert is_marked(rebound(f)(2)) and is_marked(rebound(f)(2))
        assert installed == [part]


def test_unregistered_submodules_and_relative_imports_pass_through():
    import numpy.fft

    def f():
        import numpy.fft as fft
        from numpy.fft import rfft

        return fft, rfft

    assert rebound(f)() == (numpy.fft, numpy.fft.rfft)
    held = namespace("def f():\n    from .numpy import zeros\n    return zeros", name="pkg.module")
    held["__package__"] = "pkg"
    with pytest.raises(ModuleNotFoundError, match="'pkg'"):
        rebound(held["f"])()


def test_import_into_global_or_nonlocal_name_binds_users_module():
    held = namespace("def f():\n    global lazy\n    import numpy as lazy\n    return np.zeros(1)")
    assert is_marked(rebound(held["f"])())
    assert held["lazy"] is np
    outer = None

    def g():
        nonlocal outer
        import numpy as outer

        return np.zeros(1)

    assert is_marked(rebound(g)())
    assert outer is np


def test_only_name_indices_change_and_new_names_are_appended():
    def f(x):
        import numpy as n

        return np.zeros(1), n, x.np, len(x)

    old, new = f.__code__, rebound(f).__code__
    assert new.co_names[: len(old.co_names)] == old.co_names
    assert len(new.co_names) == len(old.co_names) + 1
    assert (new.co_filename, new.co_firstlineno, new.co_linetable) == (
        old.co_filename, old.co_firstlineno, old.co_linetable,
    )  # fmt: skip
    assert new.co_consts == old.co_consts and new.co_exceptiontable == old.co_exceptiontable
    pairs = list(zip(dis.get_instructions(old), dis.get_instructions(new), strict=True))
    changed = [(a, b) for a, b in pairs if (a.opcode, a.arg) != (b.opcode, b.arg)]
    assert {a.opname for a, _ in changed} == {"LOAD_GLOBAL", "IMPORT_NAME"}
    assert all(a.opcode == b.opcode and a.argval in ("np", "numpy") for a, b in changed)


def test_extended_arguments_are_honoured():
    many = ", ".join(f"n{i}" for i in range(300))
    held = namespace(f"def f(x=0):\n  if x: {many}\n  import numpy as n\n  return np.zeros(1), n.zeros(1)")
    assert all(map(is_marked, rebound(held["f"])()))


@pytest.mark.parametrize("n", [125, 126, 127, 300])
def test_function_in_which_new_index_needs_more_bytes_is_renamed(n):
    many = ", ".join(f"n{i}" for i in range(n))
    held = namespace(
        f"def f(x=0):\n    z = np.zeros(1)\n    for k in range(3):\n        try:\n            if x: {many}\n"
        "            if k == 2: raise LookupError(z)\n        except LookupError as error:\n            return error"
    )
    error = rebound(held["f"])()
    assert is_marked(error.args[0]) and error.__traceback__.tb_lineno == 6
    with pytest.raises(NameError, match="n0"):
        rebound(held["f"])(1)


def _pairs(code):
    """Instructions but for prefixes, with jumps as numbers of instructions, and ranges of the exception table."""
    kept, number, starts = [], {}, []
    for each in dis.get_instructions(code):
        starts.append(each.offset)
        if each.opname != "EXTENDED_ARG":
            number.update(dict.fromkeys(starts, len(kept)))
            kept.append(each)
            starts.clear()
    jumps = [number[each.argval] if each.opcode in dis.hasjrel else each.argval for each in kept]
    ranges = [(number[e.start], number[e.target], e.depth) for e in dis._parse_exception_table(code)]
    return [(each.opname, jump, tuple(each.positions)) for each, jump in zip(kept, jumps)], ranges


@pytest.mark.parametrize("module", [argparse, contextlib, dis, asyncio.base_events, inspect])
def test_code_whose_arguments_grow_keeps_jumps_ranges_and_positions(module):
    codes = [f.__code__ for f in _functions_of(module)]
    assert len(codes) > 10
    for code in codes:
        names = code.co_names + ("",) * 300 + code.co_names
        arguments = {}
        for i, op, arg, _ in rename.decode(code):
            shift = NAMING.get(dis.opname[op])
            if shift is not None:
                arguments[i] = arg + (len(names) - len(code.co_names) << shift)
        new = relocated(code.replace(co_names=names), arguments, {})
        assert _pairs(new) == _pairs(code)
        same = relocated(code, {}, {})
        assert same.co_code == code.co_code and same.co_exceptiontable == code.co_exceptiontable
        assert [*same.co_positions()] == [*code.co_positions()]


def _functions_of(module):
    held = [*vars(module).values()]
    held += [part for cls in held if isinstance(cls, type) for part in vars(cls).values()]
    return [f for f in held if isinstance(f, types.FunctionType) and f.__code__.co_names]


# The original function --------------------------------------------------------------------------------------


def test_global_reads_are_live_and_writes_to_globals_and_cells_persist():
    global alpha, count
    total = 0

    def f():
        global count
        nonlocal total
        count += 1
        total += 1
        return np.zeros(1), alpha, total

    alpha, count = 1.0, 0
    g = rebound(f)
    assert g()[1:] == (1.0, 1)
    alpha, total = 2.0, 5
    assert g()[1:] == (2.0, 6)
    assert count == 2 and total == 6
    alpha = 1.0


def test_registered_object_in_cell_is_replaced_unless_assigned():
    module = np
    switch = np

    def f():
        return module.zeros(1)

    def g():
        nonlocal switch
        switch = types.SimpleNamespace(zeros=lambda n: "mine")
        return np.zeros(1)

    assert is_marked(rebound(f)())
    rebound(g)()
    assert switch.zeros(1) == "mine"


def test_signature_attributes_and_names_are_kept():
    def f(a: float, b=2, *, c: "int" = 3) -> None:
        """Doc."""
        return np.zeros(1), a, b, c

    f.note = []
    g = rebound(f)
    assert g is not f and inspect.signature(g) == inspect.signature(f)
    assert g.__annotations__ == f.__annotations__
    assert g.__dict__ is f.__dict__ and g.__globals__ is f.__globals__
    assert (g.__name__, g.__qualname__, g.__module__, g.__doc__) == (
        f.__name__, f.__qualname__, f.__module__, f.__doc__,
    )  # fmt: skip
    assert g.__defaults__ is f.__defaults__ and g.__kwdefaults__ is f.__kwdefaults__
    f.__defaults__, f.__kwdefaults__ = (7,), {"c": 8}
    assert rebound(f)(1)[1:] == (1, 7, 8)


def test_tracebacks_show_the_function():
    def f():
        np.zeros(1)
        raise LookupError("here")

    with pytest.raises(LookupError) as caught:
        rebound(f)()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert frame.filename == __file__ and frame.name == "f" and frame.line == 'raise LookupError("here")'


# Cache hits and changes -------------------------------------------------------------------------------------


def test_module_level_function_is_rebound_once():
    assert rebound(uses_helper) is rebound(uses_helper)


def test_changed_global_is_rebound():
    held = namespace("def f(): return make(1)", make=lambda n: "mine")
    f = held["f"]
    assert rebound(f) is f
    held["make"] = np.zeros
    assert is_marked(rebound(f)())
    held["make"] = lambda n: "other"
    assert rebound(f)() == "other"
    del held["make"]
    vars(builtins)["make"] = np.zeros
    try:
        assert is_marked(rebound(f)())
    finally:
        del vars(builtins)["make"]


def test_changes_in_rebound_callees_are_seen():
    held = namespace(
        """
        xp = None
        def leaf(n=1): return xp.zeros(n)
        def middle(): return leaf()
        def f(): return middle()
        """
    )
    f = held["f"]
    assert rebound(f) is f
    held["xp"] = np
    assert is_marked(rebound(f)())
    held["leaf"].__defaults__ = (3,)
    assert len(rebound(f)()) == 3
    held["leaf"].__code__ = namespace("def leaf(n): return 'new', xp.zeros(n)")["leaf"].__code__
    assert rebound(f)()[0] == "new" and is_marked(rebound(f)()[1])
    held["leaf"] = lambda: "replaced"
    assert rebound(f)() == "replaced"


def test_changed_cell_of_callee_is_seen():
    held = namespace(
        """
        def make():
            def first(): return 1, np.zeros(1)
            def second(): return 2, np.zeros(1)
            h = first
            def g(): return h()
            def swap():
                nonlocal h
                h = second
            return g, swap
        g, swap = make()
        def f(): return g()
        """
    )
    f = held["f"]
    assert rebound(f)()[0] == 1 and is_marked(rebound(f)()[1])
    held["swap"]()
    assert rebound(f)()[0] == 2 and is_marked(rebound(f)()[1])


def test_changed_cell_of_function_is_seen():
    def h():
        return 1, np.zeros(1)

    def f():
        return h()

    assert rebound(f)()[0] == 1
    old = h

    def h():
        return 2, old()

    two, (one, z) = rebound(f)()
    assert (two, one) == (2, 1) and is_marked(z)


# Callees ----------------------------------------------------------------------------------------------------


def helper(n):
    return np.zeros(n)


def uses_helper():
    return helper(2)


def even(n):
    return np.zeros(1) if n == 0 else odd(n - 1)


def odd(n):
    return None if n == 0 else even(n - 1)


def recursive(n):
    return [] if n == 0 else [np.zeros(1), *recursive(n - 1)]


def pure(n):
    return 1 if n == 0 else n * pure(n - 1)


def test_functions_in_globals_are_rebound_through_recursion():
    assert is_marked(rebound(uses_helper)())
    assert is_marked(rebound(even)(4)) and is_marked(rebound(odd)(3))
    assert all(map(is_marked, rebound(recursive)(3)))
    assert rebound(pure) is pure


def test_functions_in_cells_are_rebound_through_recursion():
    def local(n):
        return [] if n == 0 else [np.zeros(1), *local(n - 1)]

    def ping(n):
        return pong(n - 1) if n else np.zeros(1)

    def pong(n):
        return ping(n - 1) if n else None

    assert all(map(is_marked, rebound(local)(3)))
    assert is_marked(rebound(pong)(3))
    assert all(map(is_marked, rebound(lambda: local(2) + [ping(0)])()))


def test_code_of_all_packages_is_rebound_except_of_those_on_the_list():
    inner = namespace("def make(): return np.zeros(1)", name="elsewhere.inner")
    other = namespace("def make(): return np.zeros(1)", name="pytest.inner")
    names = {"mine": inner["make"], "theirs": other["make"]}
    for home in ("pkg.outer", "pytest.outer"):
        held = namespace("def f(): return mine(), theirs()", home, **names)
        mine, theirs = rebound(held["f"])()
        assert is_marked(mine) and type(theirs) is np.ndarray
    bare = {"np": np}
    exec("def make(): return np.zeros(1)", bare)
    made = bare["make"]
    assert is_marked(rebound(lambda: made())())


def test_functions_sharing_the_globals_are_rebound_in_any_module():
    held = namespace("def h(): return np.zeros(1)\ndef f(): return h()")
    held["h"].__module__ = "elsewhere"
    assert is_marked(rebound(held["f"])())
    bare = {"np": np}
    exec("def h(): return np.zeros(1)\ndef f(): return h()", bare)
    assert is_marked(rebound(bare["f"])())


TABLE = {"helper": helper}


def test_values_of_defaults_are_replaced():
    held = namespace(
        """
        def make(n): return np.zeros(n)
        def f(n, of=make, kind=list, *, xp=np): return of(n), xp.zeros(n), kind is list
        """
    )
    f = held["f"]
    first, second, kept = rebound(f)(2)
    assert is_marked(first) and is_marked(second) and kept
    assert f.__defaults__ == (held["make"], list) and f.__kwdefaults__ == {"xp": np}
    assert rebound(f)(2, float, xp=types.SimpleNamespace(zeros=int))[:2] == (2.0, 2)
    f.__defaults__ = (lambda n: n, list)
    assert rebound(f)(2)[0] == 2
    f.__kwdefaults__ = None
    with pytest.raises(TypeError, match="xp"):
        rebound(f)(2)
    assert is_marked(rebound(lambda n, of=held["make"]: of(n))(2))


def test_functions_fetched_from_a_dict_are_rebound():
    def f():
        return TABLE["helper"](1), np.zeros(1)

    left, right = rebound(f)()
    assert is_marked(left) and is_marked(right)


partial_helper = functools.partial(helper, 2)
partial_zeros = functools.partial(np.zeros, 2)


@functools.lru_cache
def cached(n):
    return n, alpha


@functools.wraps(helper)
def wrapper(*args):
    return wrapper.__wrapped__(*args), helper(*args)


def decorate(f):
    @functools.wraps(f)
    def run(*args):
        return f(*args)

    return run


decorated = decorate(helper)
static = staticmethod(helper)


def apply(*functions, f=None):
    n = functions[-1]
    return [g(n) for g in (*functions[:-1], f)]



class Dispatcher:
    def __init__(self, f):
        self.py_func = f

    def __call__(self, *args):
        raise AssertionError("compiled code was run")


jitted = Dispatcher(helper)


def test_partials_wrappers_caches_and_compiled_functions_are_rebound():
    cached.cache_clear()
    for f in (partial_helper, lambda: partial_helper(), lambda: partial_zeros()):
        assert is_marked(rebound(f)())
    for f in (decorated, jitted, lambda n: decorated(n), lambda n: jitted(n), staticmethod(helper)):
        assert is_marked(rebound(f)(1))
    assert rebound(cached) is cached.__wrapped__
    assert rebound(lambda: cached(3))() == (3, alpha)
    assert cached.cache_info().currsize == 0
    assert is_marked(rebound(lambda: wrapper(1))()[1])
    local = functools.partial(helper, 2)
    assert is_marked(rebound(lambda: local())())
    assert all(map(is_marked, rebound(functools.partial(apply, helper, f=np.zeros))(1)))
    assert is_marked(rebound(lambda: static(1))())


def test_generators_and_coroutines_are_rebound():
    def generate():
        yield np.zeros(1)
        yield from (np.zeros(1) for _ in range(2))

    async def run():
        async def inner():
            return np.zeros(1)

        return await inner(), await asynchronous()

    assert all(map(is_marked, rebound(generate)()))
    assert all(map(is_marked, asyncio.run(rebound(run)())))


async def asynchronous():
    return np.zeros(1)


# Proxies ----------------------------------------------------------------------------------------------------


class Base:
    def __init__(self):
        self.calls = 0

    def residual(self):
        return ["base", np.zeros(1)]


class Left(Base):
    def residual(self):
        return ["left", np.zeros(1), *super().residual()]


class Right(Base):
    def residual(self):
        return ["right", np.zeros(1), *super().residual()]


class Model(Left, Right):
    made = 0

    def helper(self):
        self.calls += 1
        return np.zeros(1)

    def residual(self):
        return [self.helper(), *super().residual()]

    @property
    def prop(self):
        return np.zeros(1)

    @staticmethod
    def static():
        return np.zeros(1)

    @classmethod
    def make(cls):
        cls.made += 1
        return cls, np.zeros(1)

    @functools.lru_cache  # noqa: B019
    def cached(self):
        return np.zeros(1)

    @functools.cached_property
    def lazy(self):
        return np.zeros(1)

    def everything(self):
        kin = isinstance(self, Model) and isinstance(self, Base) and self.__class__ is Model
        return kin, type(self).__name__, self.prop, self.static(), self.make()[1], self.cached(), self.lazy

    def __call__(self):
        return self.helper()


model = Model()


def marks(values):
    return [value for value in values if isinstance(value, list)]


def test_bound_method_runs_on_proxy_sharing_state():
    it = Model()
    out = rebound(it.residual)()
    assert [value for value in out if isinstance(value, str)] == ["left", "right", "base"]
    assert len(marks(out)) == 4 and all(map(is_marked, marks(out)))
    assert it.calls == 1 and type(it) is Model


def test_proxy_supports_isinstance_properties_and_class_and_static_methods():
    it = Model()
    made = Model.made
    kin, name, *rest = rebound(it.everything)()
    assert kin and name == "Model" and len(rest) == 5 and all(map(is_marked, rest))
    assert Model.made == made + 1
    twin = rebound(it.everything).__self__
    assert type(twin).__qualname__ == Model.__qualname__ and type(twin).__module__ == Model.__module__
    assert isinstance(it, type(twin)) and issubclass(Model, type(twin))


def test_callable_objects_and_class_methods_are_rebound():
    assert is_marked(rebound(Model())())
    assert is_marked(rebound(Model.make)()[1])
    assert is_marked(rebound(Model.static)())


def test_instance_in_global_or_cell_is_replaced_by_proxy():
    local = Model()
    calls = model.calls
    for f in (lambda: model.residual(), lambda: local.residual()):
        out = rebound(f)()
        assert len(marks(out)) == 4 and all(map(is_marked, marks(out)))
    assert model.calls == calls + 1 and local.calls == 1


def test_methods_whose_cells_hold_instances_are_rebound():
    def make():
        class A:
            def residual(self):
                return np.zeros(1), b.residual()

        class B:
            def residual(self):
                return a.helper(), self.helper()

            def helper(self):
                return np.zeros(1)

        class C(A):
            def helper(self):
                return np.zeros(1)

        a, b = C(), B()
        return a

    one, (two, three) = rebound(make().residual)()
    assert is_marked(one) and is_marked(two) and is_marked(three)


def test_replaced_or_changed_instance_is_seen():
    held = namespace(
        """
        class Model:
            def __init__(self, k): self.k = k
            def residual(self): return self.k, np.zeros(1)
        model = Model(1)
        def f(): return model.residual()
        """
    )
    f = held["f"]
    assert rebound(f)()[0] == 1
    for k in range(5):
        del held["model"]  # so that the next object may reuse the address
        held["model"] = held["Model"](k)
        assert rebound(f)()[0] == k and is_marked(rebound(f)()[1])
    held["model"].__dict__ = {"k": "new"}
    assert rebound(f)()[0] == "new"
    held["Model"].residual = lambda self: ("other", np.zeros(1))
    assert rebound(f)()[0] == "other" and rebound(held["model"].residual)()[0] == "other"


CURVE = np.polynomial.Polynomial([1.0, 2.0])


class Slotted:
    __slots__ = ("curve",)


slotted = Slotted()
slotted.curve = CURVE


class Curves:
    curve = CURVE
    listed, named, plain = [CURVE], {"a": CURVE}, types.SimpleNamespace(curve=CURVE)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: CURVE(float(x)),
        lambda x: Curves.curve(float(x)),
        lambda x: slotted.curve(float(x)),
        lambda x: Curves.listed[0](float(x)),
        lambda x: Curves.named["a"](float(x)),
        lambda x: Curves.plain.curve(float(x)),
    ],
)
def test_polynomial_is_converted_wherever_it_is_held(f):
    assert wg.grad(f)(0.5) == 2.0


def test_class_is_replaced_only_if_called_or_read_from():
    def f():
        it = Model()
        is_kin = isinstance(model, Model), isinstance(it, Model), type(model), Model is original
        return *is_kin, Model.static(), *it.residual()

    original = Model
    first, second, kind, same, *rest = rebound(f)()
    assert first and second and same and issubclass(kind, Model)
    assert len(marks(rest)) == 5 and all(map(is_marked, marks(rest)))


class Failure(Exception):
    def text(self):
        return np.zeros(1)


def test_exception_classes_are_not_replaced():
    def f():
        try:
            raise Failure("x")
        except Failure as error:
            return type(error), np.zeros(1)

    kind, z = rebound(f)()
    assert kind is Failure and is_marked(z)


class Slotted:
    __slots__ = ("k",)

    def helper(self):
        return np.zeros(1)

    def residual(self):
        return np.zeros(1), self.helper()

    def __call__(self):
        return np.zeros(1)


class Registering:
    known = []

    def __init_subclass__(cls):
        Registering.known.append(cls)

    def residual(self):
        return np.zeros(1), self


class Meta(type):
    pass


class WithMeta(metaclass=Meta):
    def residual(self):
        return np.zeros(1), self


class Closing:
    closed = 0

    def __del__(self):
        type(self).closed += 1

    def residual(self):
        return np.zeros(1), self


class Items(set):
    def residual(self):
        return np.zeros(1), self


@pytest.mark.parametrize("cls", [Closing, Items])
def test_only_the_method_is_rebound_if_no_proxy_is_possible(cls):
    it = cls()
    z, _ = rebound(it.residual)()
    assert is_marked(z) and rebound(it.residual).__self__ is it


@pytest.mark.parametrize("cls", [Slotted, Registering, WithMeta])
def test_proxies_of_objects_with_slots_hooks_or_metaclasses_have_no_side_effects(cls):
    it = cls()
    z, _ = rebound(it.residual)()
    twin = rebound(it.residual).__self__
    assert is_marked(z) and twin is not it and isinstance(twin, cls) and twin.__class__ is cls
    assert Registering.known == []
    assert is_marked(rebound(Slotted())())


def test_slots_are_read_and_written_through_a_proxy():
    it = Slotted()
    twin = rebound(it.residual).__self__
    twin.k = 1
    copied = copy.copy(twin)
    copied.k = 2
    assert it.k == twin.k == 1 and copied.k == 2
    it.k = 3
    assert twin.k == 3
    del twin.k
    assert not hasattr(it, "k")


def test_abstract_and_data_classes_have_proxies():
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def residual(self): ...

        def helper(self):
            return np.zeros(1)

    @dataclasses.dataclass
    class Concrete(Abstract):
        k: float = 1.0
        other: object = None

        def residual(self):
            return self.helper(), self == self.other, self.other == self, self.k

    it = Concrete(other=Concrete(2.0))
    it.other.other = it.other.k
    z, *rest = rebound(it.residual)()
    assert is_marked(z) and rest == [False, False, 1.0]
    it = Concrete()
    assert rebound(lambda: it == Concrete())()
    with pytest.raises(TypeError, match="abstract"):
        Abstract()


def test_user_object_is_not_modified():
    def f():
        return model.residual()

    before = set(vars(Model)), set(vars(f)), set(vars(model))
    rebound(f)()
    rebound(model.residual)()
    assert (set(vars(Model)), set(vars(f)), set(vars(model))) == before


# Attributes -------------------------------------------------------------------------------------------------


class Counted:
    def __init__(self, f):
        self.f = f
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.f(*args)


class Holder:
    law = "of the class"

    def __init__(self, **held):
        vars(self).update(held)

    def stress(self, *args):
        return self.law(*args)

    def same(self):
        return self.part is self.part, self.part.whole is self

    def swap(self, new):
        before, self.law = self.law, new
        return before(1), self.law(1), self.law is new

    def keep(self):
        self.law = self.law
        return self.law(1)

    def drop(self):
        del self.law
        with pytest.raises(AttributeError):
            del self.law
        return self.law, type(self).law

    def __getattr__(self, name):
        return f"no {name}"


def test_function_held_by_attribute_is_rebound():
    it = Counted(helper)
    assert is_marked(rebound(it)(2)) and is_marked(rebound(lambda: it(2))())
    assert it.calls == 2 and vars(it) == {"f": helper, "calls": 2}
    it.f = lambda n: ("other", np.zeros(n))
    assert rebound(it)(2)[0] == "other" and is_marked(rebound(it)(2)[1])
    it.f = pure
    assert rebound(it) is it
    it.f = functools.partial(helper, 3)
    assert len(rebound(it)()) == 3 and is_marked(rebound(it)())
    assert is_marked(rebound(Counted(Counted(helper)))(1))
    assert is_marked(rebound(Counted(Model()))())
    assert is_marked(rebound(Counted(Model().helper))())
    assert is_marked(rebound(Counted(np.zeros))(1))


def test_objects_and_modules_held_by_attributes_are_rebound():
    it = Holder(law=Holder(law=helper).stress, xp=np, other=Counted(pure))
    assert is_marked(rebound(it.stress)(2))
    twin = rebound(it.stress).__self__
    assert twin.xp is fake and twin.other is it.other and twin.missing == "no missing"
    it.law = Holder(law=zeros)
    assert is_marked(rebound(it.law.stress)(2))
    assert type(rebound(Holder.stress)(it.law, 2)) is np.ndarray


def test_mutually_referencing_objects_get_one_proxy_each():
    it = Holder(law=helper)
    it.part = Holder(law=helper, whole=it)
    assert rebound(it.same)() == (True, True)
    ref = weakref.ref(it)
    del it
    gc.collect()
    assert ref() is None


def test_attribute_writes_and_deletes_reach_the_object_and_reads_are_live():
    it = Holder(law=helper)
    old, new, _ = rebound(it.swap)(recursive)
    assert is_marked(old) and all(map(is_marked, new)) and vars(it) == {"law": recursive}
    it = Holder(law=helper)
    assert is_marked(rebound(it.keep)()) and vars(it) == {"law": helper}
    assert rebound(it.drop)() == ("of the class", "of the class") and vars(it) == {}


def test_property_named_like_an_attribute_keeps_its_meaning():
    class Guarded:
        @property
        def law(self):
            return self.__dict__["law"], "read"

        @law.setter
        def law(self, value):
            self.__dict__["law"] = value

        def run(self):
            return self.law[1], self.__dict__["law"], np.zeros(1)

    it = Guarded()
    it.law = helper
    word, law, z = rebound(it.run)()
    assert word == "read" and law is helper and is_marked(z)


def test_super_isinstance_and_copies_work_on_objects_with_such_attributes():
    class Outer(Model):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def residual(self):
            return isinstance(self, Outer), self.__class__ is Outer, self.f(1), *super().residual()

    it = Outer(helper)
    first, second, z, *rest = rebound(it.residual)()
    assert first and second and is_marked(z) and len(marks(rest)) == 4 and all(map(is_marked, marks(rest)))
    assert it.calls == 1
    twin = rebound(it.residual).__self__
    for copied in (copy.copy(twin), copy.deepcopy(twin)):
        assert is_marked(copied.f(1)) and copied.calls == 1 and vars(copied) is not vars(it)


def test_long_chain_of_objects_is_rebound_up_to_a_limit():
    first = it = Holder(law=helper)
    for _ in range(5000):
        it.part = Holder(law=helper)
        it = it.part
    assert is_marked(rebound(first.stress)(1)) and is_marked(rebound(first.part.part.stress)(1))


# Modules ----------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Make a directory with a sibling module of f's module, and a package."""
    sources = {
        "beside.py": """
            import numpy as np
            from types import SimpleNamespace
            scale, written, table = 2.0, None, [1]
            def residual(n): return np.zeros(n)
            def plain(n): return n * scale
            class Thing:
                def residual(self): return np.zeros(1)
            thing = Thing()
            def __getattr__(name):
                if name == "lazy": return "lazily"
                raise AttributeError(name)
            """,
        "main_module.py": """
            import numpy as np
            import beside, pkg.deep, json, installed
            def f(): return beside.residual(2), beside.scale, beside.lazy, beside.thing.residual()
            def g(): return beside.plain(2)
            def h(): return beside.np.zeros(1), beside is original, json.dumps([])
            def w():
                beside.written = beside.residual(1)
                beside.table[0] += 1
                return installed.residual(1), type(beside.Thing()), pkg.deep.residual(1)
            original = beside
            """,
        "site-packages/installed.py": "import numpy as np\ndef residual(n): return np.zeros(n)",
        "pkg/__init__.py": "",
        "pkg/deep.py": "import numpy as np\ndef residual(n): return np.zeros(n)\ndef other(n): return n",
        "pkg/late.py": """
            import numpy as np
            class Late:
                def __init__(self, n=1): self.n = n
                def residual(self): return np.zeros(self.n)
                @staticmethod
                def make(): return np.zeros(1)
            """,
        "pkg/user.py": """
            import pkg.late
            from pkg import deep
            def f(n=1): return deep.residual(n), pkg.deep.residual(n), deep.other(n)
            def fail():
                deep.residual(1)
                return deep.missing
            def made():
                return pkg.late.Late().residual(), pkg.late.Late.make(), [*map(pkg.late.Late, [1])][0].residual()
            def held(): return pkg.late.Late is original, issubclass(type(pkg.late.Late()), original)
            def imports():
                import pkg.late
                import pkg.late as other
                from pkg.late import Late
                from .late import Late as relative
                from . import late
                return [Late().residual(), relative().residual(), other.Late().residual(), late.Late().residual(),
                        pkg.late.Late().residual()]
            def kept():
                import pkg.late
                from .late import Late
                return Late is original, pkg.late.Late is original
            original = pkg.late.Late
            def write():
                pkg.deep.count = len(deep.residual(3))
                return vars(pkg.deep)["count"], pkg.deep.__name__, repr(pkg.deep) == repr(deep)
            """,
    }
    for name, source in sources.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if not name.startswith("_wengert_"):
            del sys.modules[name]


def test_functions_of_sibling_module_are_rebound(project):
    main = project("main_module")
    one, scale, lazy, two = rebound(main.f)()
    assert is_marked(one) and is_marked(two) and (scale, lazy) == (2.0, "lazily")
    assert rebound(main.g) is main.g
    z, is_same, text = rebound(main.h)()
    assert is_marked(z) and is_same and text == "[]"


def test_writes_to_a_module_persist_and_installed_modules_are_rebound(project):
    main = project("main_module")
    theirs, kind, deep = rebound(main.w)()
    assert is_marked(main.beside.written) and main.beside.table == [2] and is_marked(deep)
    assert is_marked(theirs) and issubclass(kind, main.beside.Thing)


def test_modules_of_one_package_are_rebound_through_attributes(project):
    user = project("pkg.user")
    deep, dotted, plain = rebound(user.f)(2)
    assert is_marked(deep) and is_marked(dotted) and plain == 2
    assert rebound(user.write)() == (3, "pkg.deep", True) and user.deep.count == 3
    with pytest.raises(AttributeError, match=r"'pkg\.deep' has no attribute 'missing'"):
        rebound(user.fail)()


def test_classes_of_modules_are_rebound_where_they_are_called_or_read_from(project):
    user = project("pkg.user")
    assert all(map(is_marked, rebound(user.made)()))
    assert rebound(user.held)() == (True, True)


def test_imports_of_modules_inside_functions_are_rebound(project):
    user = project("pkg.user")
    assert all(map(is_marked, rebound(user.imports)()))
    assert rebound(user.kept)() == (True, True)


def test_replaced_function_of_a_module_is_seen(project):
    user = project("pkg.user")
    rebound(user.f)()
    user.deep.residual = lambda n: "new"
    assert rebound(user.f)() == ("new", "new", 1)
    user.deep.residual = np.zeros
    assert is_marked(rebound(user.f)()[0])


def test_no_message_at_exit_if_wengert_is_unloaded_first(tmp_path):
    pytest.importorskip("wengert.core.tape.tape", reason="the package is not built", exc_type=ImportError)
    source = """
        import numpy as np
        import wengert as wg
        def g(u):
            t = np.zeros(2)
            t[0] = u[0]
            return t
        def f(u): return g(u)
        def test(): wg.jacobian(f, np.ones(2))
        """
    (tmp_path / "test_exit.py").write_text(textwrap.dedent(source))
    run = [sys.executable, "-m", "pytest", "--import-mode=importlib", "-p", "no:cacheprovider", tmp_path]
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path, env=paths)
    assert "1 passed" in done.stdout and done.stderr == ""


# Lifetime and threads ---------------------------------------------------------------------------------------


def test_ten_thousand_fresh_functions_leave_builtins_flat():
    def make(k):
        def inner():
            return np.zeros(k), helper(1)

        return lambda: inner()

    def fresh():
        return eval("lambda: (helper(1), model.residual(), Model)", globals())

    rebound(make(1))()
    kept = rebound(fresh())  # with the names of what it reaches, which others may hold or not
    before = len(vars(builtins))
    for k in range(10_000):
        rebound(make(k % 3))
    for _ in range(100):
        kept = rebound(fresh())
    gc.collect()
    assert kept is not None and len(vars(builtins)) <= before + 2
    assert len(registration.plans) < 300 and len(rename._codes) < 300


def test_private_names_of_rebound_function_are_removed_with_it():
    held = namespace("def h(): return np.zeros(1)\ndef f(): return h()")
    before = set(private_names())
    assert is_marked(rebound(held["f"])())
    assert len(set(private_names()) - before) == 1
    del held["h"]
    assert set(private_names()) == before


def test_functions_objects_and_cell_contents_are_not_kept_alive():
    class Payload:
        def residual(self):
            return np.zeros(1)

    def make():
        payload = Payload()

        def recursive(n):
            return [payload.residual()] if n == 0 else recursive(n - 1)

        payload.f = recursive
        return recursive, lambda: (payload, np.zeros(1)), payload

    recursive, f, payload = make()
    assert all(map(is_marked, rebound(recursive)(2))) and is_marked(rebound(f)()[1])
    assert is_marked(rebound(payload.residual)())
    dead = [weakref.ref(each) for each in (recursive, f, payload)]
    del recursive, f, payload
    gc.collect()
    assert [ref() for ref in dead] == [None, None, None]


def test_closure_is_freed_immediately():
    class Array:
        pass

    array = Array()
    f = (lambda a: lambda: (a, np.zeros(1)))(array)
    gc.disable()
    try:
        rebound(f)()
        ref = weakref.ref(array)
        del f, array
        assert ref() is None
    finally:
        gc.enable()


def test_number_of_cached_exec_namespaces_is_bounded(monkeypatch):
    monkeypatch.setattr(plan, "_MAX_PINNED", 5)
    refs = []
    for _ in range(20):
        held = namespace("def h(): return np.zeros(1)\ndef f(): return h()")
        assert is_marked(rebound(held["f"])())
        refs.append(weakref.ref(held["f"]))
        del held
    gc.collect()
    assert sum(ref() is not None for ref in refs) <= 6


def test_threads_rebind_and_run_concurrently():
    failures = []

    def work(k):
        local = Model()
        for i in range(200):
            f = (lambda j: lambda: [helper(j), *local.residual(), *recursive(2)])(i)
            out = marks(rebound(f)())
            if len(out) != 7 or not all(map(is_marked, out)):
                failures.append((k, i, out))
            if k == 0 and i % 20 == 0:
                registration.plans.clear()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_registered_packages_and_wengert_are_not_rebound():
    held = namespace("def f(): return np.zeros(1)", name="wengert.api")
    assert rebound(held["f"]) is held["f"]
    held = namespace("def f(): return np.zeros(1)", name="numpy.lib.anything")
    assert rebound(held["f"]) is held["f"]


def test_custom_builtins_and_internal_errors_leave_the_function_unchanged(monkeypatch):
    held = {"__builtins__": {"len": len}, "np": np}
    exec("def f(): return np.zeros(1)", held)
    assert rebound(held["f"]) is held["f"]

    def fail(self, root):
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(plan.Plan, "__init__", fail)
    f = eval("lambda: np.zeros(1)", globals())
    assert rebound(f) is f


def five_names(x):
    return np, zeros, alpha, len(x), sin


def test_a_cache_hit_takes_few_calls():
    copy, calls = rebound(five_names), []
    sys.setprofile(lambda frame, event, arg: calls.append(event))
    try:
        hit = rebound(five_names)
    finally:
        sys.setprofile(None)
    assert hit is copy
    assert calls.count("call") <= 10  # 5 in Python 3.13, whatever the number of names


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of 3.12")
def test_annotation_scopes_and_type_parameters_are_rebound():
    held = namespace(
        """
        def f():
            class K:
                type Row = np.zeros(1)
            def g[T: np.zeros(2)](x: T): return T
            return K.Row.__value__, g(1).__bound__
        def h():
            class K:
                np = made
                type Row = np.zeros(1)
            return K.Row.__value__, np.zeros(1)
        """,
        made=types.SimpleNamespace(zeros=lambda n: "mine"),
    )
    assert all(map(is_marked, rebound(held["f"])()))
    mine, z = rebound(held["h"])()
    assert mine == "mine" and is_marked(z)


def nested_names(x):
    def inner(y):
        return la.norm(y) + sum(z for z in abs(y))

    return inner(x) + np.cos(x)


def test_names_of_nested_code_are_found():
    codes = codes_in(nested_names.__code__)
    assert [code.co_name for code in codes] == ["nested_names", "inner", "<genexpr>"]
    assert names_in(nested_names.__code__) == [name for code in codes for name in code.co_names]
    assert {"np", "cos", "la", "norm", "sum", "abs"} <= {*names_in(nested_names.__code__)}


def test_instructions_are_chosen_by_opcode():
    instructions = decode(nested_names.__code__)
    chosen = {dis.opmap["LOAD_GLOBAL"], dis.opmap["RETURN_VALUE"]}
    expected = [k for k, (_, op, _, _) in enumerate(instructions) if op in chosen]
    assert places(instructions, table_of(chosen)) == expected != []
