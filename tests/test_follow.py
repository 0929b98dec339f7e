"""Code of installed packages is followed like f itself, except of packages on a list and of those the user excludes."""

import concurrent.futures
import functools
import importlib
import itertools
import pickle
import subprocess
import sys
import textwrap
import threading
import types
import typing
import warnings

import numpy as np
import pytest

import wengert as wg
from wengert.core.rebind import identity, plan, rebind, registration, stubs, tables
from wengert.core.rebind.choose import survey
from wengert.core.rebind.follow import CHOSEN, UNFOLLOWED, py_func_of
from wengert.errors import TracedValueError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that writes modules into a folder `site-packages` and imports the first."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)

    def make(**sources):
        for name, source in sources.items():
            *parents, last = name.split("__")
            place = folder.joinpath(*parents)
            place.mkdir(parents=True, exist_ok=True)
            for k in range(len(parents)):
                folder.joinpath(*parents[: k + 1], "__init__.py").touch()
            place.joinpath("__init__.py" if last == "init" else f"{last}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return importlib.import_module(next(iter(sources)).replace("__", ".").removesuffix(".init"))

    yield make
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


#: `filled(x, n)` stores traced values in a new array: without following it raises
FILLED = """
import numpy as np

def filled(x, n=3):
    w = np.zeros(n)
    for i in range(n):
        w[i] = x * (i + 1)
    return w.sum()
"""

#: code of an installed module after `FILLED`, whose ``fun(x)`` is ``6 * x``
FEATURES = {
    "method": """
        class Model:
            def __init__(self, n): self.n = n
            def run(self, x): return filled(x, self.n)
        def fun(x): return Model(3).run(x)
        """,
    "method of an object in a module": """
        class Model:
            def run(self, x): return self.step(x)
            def step(self, x): return filled(x)
        model = Model()
        def fun(x): return model.run(x)
        """,
    "property": """
        class Model:
            def __init__(self, x): self.x = x
            @property
            def total(self): return filled(self.x)
        def fun(x): return Model(x).total
        """,
    "__call__": """
        class Model:
            def __call__(self, x): return filled(x)
        model = Model()
        def fun(x): return model(x)
        """,
    "class method": """
        class Model:
            @classmethod
            def run(cls, x): return cls().step(x)
            def step(self, x): return filled(x)
        def fun(x): return Model.run(x)
        """,
    "static method": """
        class Model:
            @staticmethod
            def run(x): return filled(x)
        def fun(x): return Model.run(x)
        """,
    "functools.partial": """
        import functools
        of_three = functools.partial(filled, n=3)
        def fun(x): return of_three(x)
        """,
    "functools.wraps": """
        import functools
        def twice(f):
            @functools.wraps(f)
            def run(*args): return 2.0 * f(*args)
            return run
        @twice
        def half(x): return filled(x) / 2.0
        def fun(x): return half(x)
        """,
    "decorator with arguments": """
        def times(k):
            def decorate(f):
                def run(x): return k * f(x)
                return run
            return decorate
        @times(2.0)
        def half(x): return filled(x / 2.0)
        def fun(x): return half(x)
        """,
    "decorator class": """
        class Counted:
            def __init__(self, f): self.f, self.calls = f, 0
            def __call__(self, x):
                self.calls += 1
                return self.f(x)
        @Counted
        def fun(x): return filled(x)
        """,
    "functools.lru_cache": """
        import functools
        @functools.lru_cache(maxsize=None)
        def cached(x): return filled(x)
        def fun(x): return cached(x)
        """,
    "functools.lru_cache of a constant": """
        import functools
        @functools.lru_cache
        def grid(n):
            g = np.zeros(n)
            g[:] = np.arange(n) + 1.0
            return g
        def fun(x): return filled(x) * grid(3).sum() / 6.0
        """,
    "functools.cached_property": """
        import functools
        class Model:
            def __init__(self, x): self.x = x
            @functools.cached_property
            def total(self): return filled(self.x)
        def fun(x):
            model = Model(x)
            return (model.total + model.total) / 2.0
        """,
    "functools.partialmethod": """
        import functools
        class Model:
            def run(self, x, n): return filled(x, n)
            of_three = functools.partialmethod(run, n=3)
        model = Model()
        def fun(x): return (model.of_three(x) + Model().of_three(x)) / 2.0
        """,
    "typing.NamedTuple": """
        import typing
        class Model(typing.NamedTuple):
            n: int
            def run(self, x): return self.step(x)
            def step(self, x): return filled(x, self.n)
        model = Model(3)
        def fun(x):
            n, = model
            return (model.run(x) + Model(n).run(x)) / 2.0
        """,
    "metaclass of singletons": """
        class Meta(type):
            instances = {}
            def __call__(cls, *args):
                if cls not in cls.instances:
                    cls.instances[cls] = super().__call__(*args)
                return cls.instances[cls]
        class Model(metaclass=Meta):
            def __init__(self): self.n = 3
            def run(self, x): return filled(x, self.n)
        def fun(x):
            total = Model().run(x)
            assert [key is Model for key in Meta.instances] == [True]
            return total
        """,
    "class in an attribute of an object that f makes": """
        class Sum:
            def __init__(self, x): self.x = x
            def total(self): return filled(self.x)
        class Model:
            def __init__(self, kind): self.kind = kind
            def run(self, x): return self.kind(x).total()
            def drop(self):
                del self.kind
                return hasattr(self, "kind")
        def fun(x):
            model = Model(Sum)
            total = model.run(x)
            assert model.kind is Sum and vars(model) == {"kind": Sum} and not model.drop()
            return total
        """,
    "class that a property imports": """
        import sys, types
        class Sum:
            def __init__(self, x): self.x = x
            def total(self): return filled(self.x)
        sys.modules["holds_sum"] = module = types.ModuleType("holds_sum")
        module.Sum = Sum
        class Classes:
            __slots__ = ["_sum"]
            def __init__(self): self._sum = None
            @property
            def sum(self):
                if self._sum is None:
                    from holds_sum import Sum
                    self._sum = Sum
                return self._sum
        classes = Classes()
        def fun(x):
            assert classes.sum is Sum and isinstance(classes.sum(x), classes.sum)
            return classes.sum(x).total()
        """,
    "class that a property returns": """
        class Sum:
            def __init__(self, x): self.x = x
            def total(self): return filled(self.x)
        class Model:
            def __init__(self, kind): self.kind = kind
            @property
            def kind(self): return self._kind
            @kind.setter
            def kind(self, kind): self._kind = kind
            def run(self, x): return self.kind(x).total()
        def fun(x):
            model = Model(None)
            model.kind = Sum
            assert model.kind is Sum
            return model.run(x)
        """,
    "metaclass that calls a method of the new object": """
        class Meta(type):
            def __call__(cls, *args, **options):
                new = super().__call__(*args, **options)
                new.prepare()
                return new
        class Base(metaclass=Meta):
            def __init__(self, x): self.x = float(x)
            def prepare(self): self.total = filled(self.x)
        class Model(Base): pass
        def fun(x): return Model(x).total
        """,
    "metaclass with a property that a class redefines": """
        class Meta(type):
            @property
            def total(cls): return "of the class"
        class Model(metaclass=Meta):
            def __init__(self, x): self.x = x
            def run(self): return filled(self.x)
            @property
            def total(self): return np.sum(np.ones(6) * self.x)
        def fun(x):
            assert Model.total == "of the class"
            return (Model(x).run() + Model(x).total) / 2.0
        """,
    "class in a module reached through its package": """
        import other
        def fun(x): return other.Model().run(x)
        """,
    "object with locks and properties set in __init__": """
        import threading
        class Model:
            def __init__(self): self.lock, self.n = threading.Lock(), 3
            def run(self, x):
                with self.lock: return filled(x, self.n)
        model = Model()
        def fun(x): return model.run(x)
        """,
    "arrays in a container and in a module": """
        import other
        MIXED = (filled, np.ones(3))
        def fun(x):
            run, ones = MIXED
            return (run(x) + 2.0 * np.full_like(ones, x).sum() + 6.0 * np.full_like(other.ONE, x)[0]) / 3.0
        """,
    "generator": """
        def steps(x):
            w = np.zeros(1)
            w[0] = filled(x)
            yield w[0]
        def fun(x): return sum(steps(x))
        """,
    "comprehension": """
        def fun(x): return sum([filled(y) for y in (x / 2.0, x / 2.0)])
        """,
    "contextlib.contextmanager": """
        import contextlib
        @contextlib.contextmanager
        def total(x): yield filled(x)
        def fun(x):
            with total(x) as y: return y
        """,
    "context manager": """
        class Total:
            def __init__(self, x): self.x = x
            def __enter__(self): return filled(self.x)
            def __exit__(self, *error): return False
        def fun(x):
            with Total(x) as y: return y
        """,
    "dataclass": """
        import dataclasses
        @dataclasses.dataclass
        class Model:
            n: int = 3
            def run(self, x): return filled(x, self.n)
        model = Model()
        def fun(x): return (model.run(x) + Model(3).run(x)) / 2.0
        """,
    "frozen dataclass with slots": """
        import dataclasses
        @dataclasses.dataclass(frozen=True, slots=True)
        class Model:
            n: int = 3
            def run(self, x): return self.step(x)
            def step(self, x): return filled(x, self.n)
        model = Model()
        def fun(x): return (model.run(x) + Model(3).run(x)) / 2.0
        """,
    "__slots__": """
        class Base:
            __slots__ = ("n",)
            def step(self, x): return filled(x, self.n)
        class Model(Base):
            __slots__ = ("calls",)
            def __init__(self): self.n, self.calls = 3, 0
            def run(self, x):
                self.calls += 1
                return self.step(x)
        model = Model()
        def fun(x): return (model.run(x) + Model().run(x)) / 2.0
        """,
    "typing.Generic": """
        import typing
        T = typing.TypeVar("T")
        class Model(typing.Generic[T]):
            def run(self, x: T): return self.step(x)
            def step(self, x: T): return filled(x)
        model = Model[float]()
        def fun(x): return (model.run(x) + Model().run(x)) / 2.0
        """,
    "metaclass": """
        class Meta(type):
            known = []
            def __new__(mcs, name, bases, body):
                cls = super().__new__(mcs, name, bases, body)
                mcs.known.append(name)
                return cls
        class Model(metaclass=Meta):
            def run(self, x): return self.step(x)
            def step(self, x): return filled(x)
        model = Model()
        def fun(x):
            assert Meta.known == ["Model"]
            return (model.run(x) + Model().run(x)) / 2.0
        """,
    "metaclass of two, one of which a base has": """
        import abc, numbers
        class Meta(type):
            @property
            def unit(cls): return 1.0
        class Printed(metaclass=Meta): pass
        class MetaOfNumbers(Meta, abc.ABCMeta): pass
        class Model(Printed, numbers.Number, metaclass=MetaOfNumbers):
            def run(self, x): return filled(x) * type(self).unit
        model = Model()
        def fun(x):
            assert isinstance(model, numbers.Number)
            return (model.run(x) + Model().run(x)) / 2.0
        """,
    "__init_subclass__": """
        class Base:
            known = []
            def __init_subclass__(cls, **options): Base.known.append(cls.__name__)
        class Model(Base):
            def run(self, x): return self.step(x)
            def step(self, x): return filled(x)
        model = Model()
        def fun(x):
            assert Base.known == ["Model"]
            return (model.run(x) + Model().run(x)) / 2.0
        """,
    "abstract class": """
        import abc
        class Base(abc.ABC):
            @abc.abstractmethod
            def step(self, x): ...
            def run(self, x): return self.step(x)
        class Model(Base):
            def step(self, x): return filled(x)
        def fun(x): return Model().run(x)
        """,
    "super()": """
        class Base:
            def run(self, x): return filled(x) / 2.0
        class Model(Base):
            def run(self, x): return 2.0 * super().run(x)
        def fun(x): return Model().run(x)
        """,
    "array subclass with metadata": """
        class Field(np.ndarray):
            def __array_finalize__(self, other): self.unit = getattr(other, "unit", "m")
            def total(self, x): return filled(x) * self[0] + (self.unit == "s")
        field = np.ones(3).view(Field)
        def fun(x): return field.total(x)
        """,
    "recursion": """
        def fun(x, n=3): return filled(x) if n == 0 else fun(x, n - 1)
        """,
    "functions in a dict": """
        TABLE = {"filled": filled, "other": abs}
        def fun(x): return TABLE["filled"](x)
        """,
    "functions in a list": """
        def half(x): return filled(x) / 2.0
        STEPS = [half, half]
        def fun(x): return sum(step(x) for step in STEPS)
        """,
    "functions in a tuple": """
        PAIR = (filled, abs)
        def fun(x):
            run, _ = PAIR
            return run(x)
        """,
    "registry filled by a decorator": """
        REGISTRY = {}
        def register(name):
            def add(f):
                REGISTRY[name] = f
                return f
            return add
        @register("filled")
        def run(x): return filled(x)
        def fun(x): return REGISTRY.get("filled")(x)
        """,
    "registry of classes": """
        class Model:
            def run(self, x): return filled(x)
        KINDS = {"model": Model}
        def fun(x): return KINDS["model"]().run(x)
        """,
    "objects in a list": """
        class Model:
            def run(self, x): return filled(x) / 2.0
        MODELS = [Model(), Model()]
        def fun(x): return sum(model.run(x) for model in MODELS)
        """,
    "functions in a dict of a class": """
        class Model:
            def __init__(self): self.steps = [self.step]
            table = {"filled": filled}
            def step(self, x): return self.table["filled"](x)
            def run(self, x): return self.steps[0](x)
        model = Model()
        def fun(x): return (model.run(x) + Model().run(x)) / 2.0
        """,
    "import in the function": """
        def fun(x):
            from other import filled as of_other
            import other
            return (of_other(x) + other.filled(x)) / 2.0
        """,
    "import of the package in the function": """
        def fun(x):
            import numpy as np
            w = np.zeros(1)
            w[0] = 6.0 * x
            return w[0]
        """,
    "class attribute as cache": """
        class Model:
            cache = {}
            def run(self, n):
                if n not in self.cache:
                    self.cache[n] = np.arange(n) + 1.0
                return self.cache[n]
        model = Model()
        def fun(x): return filled(x) * model.run(3).sum() / 6.0
        """,
    "memoised property": """
        class Model:
            _grid = None
            @property
            def grid(self):
                if self._grid is None: self._grid = np.arange(3) + 1.0
                return self._grid
        model = Model()
        def fun(x): return filled(x) * model.grid.sum() / 6.0
        """,
    "self.__class__": """
        class Model:
            def __init__(self, n): self.n = n
            def run(self, x): return 0.5 * (self.__class__(3).step(x) + self.__class__(**{"n": 3}).step(x))
            def step(self, x): return filled(x, self.n)
        model = Model(2)
        def fun(x):
            assert model.__class__ is Model and type(model) is Model and model.__class__ in {Model: 1}
            return model.run(x)
        """,
    "class in a variable": """
        class Model:
            def run(self, x): return filled(x)
        def choose(): return Model
        def fun(x, kinds=frozenset([Model])):
            kind, = kinds
            chosen = choose()
            assert kind is Model and chosen is Model
            return (kind().run(x) + chosen().run(x)) / 2.0
        """,
    "class in a closure": """
        def maker(cls):
            def make(*args): return cls(*args)
            return make
        @maker
        class Model:
            def run(self, x): return filled(x)
        def fun(x): return Model().run(x)
        """,
    "class in an attribute": """
        class Part:
            def run(self, x): return filled(x) / 2.0
        class Model:
            kind = Part
            def __init__(self): self.other = Part
            def run(self, x):
                assert self.kind is Part and self.other is Part
                return self.kind().run(x) + self.other().run(x)
        model = Model()
        def fun(x): return model.run(x)
        """,
    "function in a set": """
        STEPS = {filled}
        def fun(x):
            for step in STEPS: return step(x)
        """,
    "object in a class attribute": """
        class Part:
            def run(self, x): return filled(x)
        class Model:
            part = Part()
            def run(self, x): return self.part.run(x)
            @classmethod
            def replace(cls): cls.part = Part()
        def fun(x):
            first = Model().run(x)
            Model.replace()
            return (first + Model().run(x)) / 2.0
        """,
    "descriptor of the package": """
        class Total:
            def __get__(self, model, cls): return self if model is None else filled(model.x)
            def __set__(self, model, x): model.x = x * np.zeros(1).size
        class Model:
            total = Total()
            def __init__(self, x): self.total = x
        def fun(x): return Model(x).total
        """,
    "registered function in a class attribute": """
        import math
        class Model:
            law = math.exp
            def run(self, x): return filled(x) * self.law(0.0 * x)
        def fun(x): return Model().run(x)
        """,
    "module in an attribute of an object": """
        import other
        class Api:
            def __init__(self, module): self.module = module
            def __getattr__(self, name): return getattr(self.module, name)
        api = Api(other)
        def fun(x): return api.filled(x)
        """,
    "slots and __init_subclass__": """
        class Base:
            __slots__ = ()
            known = []
            def __init_subclass__(cls, **options): Base.known.append(cls.__name__)
        class Model(Base):
            __slots__ = ("n",)
            def __init__(self): self.n = 3
            def run(self, x): return filled(x, self.n)
        model = Model()
        def fun(x):
            assert Base.known == ["Model"]
            return (model.run(x) + Model().run(x)) / 2.0
        """,
    "copies of objects that hold functions": """
        import copy, dataclasses, pickle
        @dataclasses.dataclass(frozen=True)
        class Model:
            law: object
            def run(self, x): return self.law(x)
        model = Model(filled)
        def fun(x):
            assert type(pickle.loads(pickle.dumps(model))) is Model
            return (copy.deepcopy(model).run(x) + copy.copy(model).run(x)) / 2.0
        """,
    "singletons by class": """
        class Model:
            known = {}
            def __new__(cls):
                if cls not in Model.known: Model.known[cls] = super().__new__(cls)
                return Model.known[cls]
            def run(self, x): return filled(x)
        model = Model()
        def fun(x):
            total = Model().run(x)
            assert len(Model.known) == 1
            return total
        """,
    "class derived from one by type(self)": """
        class Model:
            def run(self, x): return filled(x)
            def other(self, x):
                derived = type("Derived", (type(self).__mro__[0],), {})
                assert derived is not Model and derived != Model and derived not in {Model: 1}
                return derived().run(x)
        model = Model()
        def fun(x): return model.other(x)
        """,
    "class imported where it is called": """
        def fun(x):
            from late import Late
            late = Late(other=x)
            return late.step(late.x)
        """,
    "function with many names": """
        def fun(x):
            if x is None: return (NAMES)
            return filled(x) * float(np.exp(0.0 * x))
        """.replace("NAMES", ", ".join(f"name{k}" for k in range(200))),
    "error that plain code raises and catches": """
        def checked(x):
            if x > 0: raise ValueError("positive")
            return filled(x)
        def fun(x):
            try: return checked(x)
            except ValueError: return filled(x)
        """,
}


@pytest.mark.parametrize("name", FEATURES)
def test_feature_of_python_in_an_installed_package_is_followed(install, name):
    other = FILLED + "ONE = np.ones(1)\nclass Model:\n    def run(self, x): return filled(x)\n"
    late = FILLED + "class Late:\n    def __init__(self, other): self.x = other\n    step = lambda self, x: filled(x)"
    module = install(installed=FILLED + textwrap.dedent(FEATURES[name]), other=other, late=late)

    def f(x):
        return module.fun(x)

    from installed import fun

    plain = float(fun(2.0))
    for g in (f, fun, lambda x: fun(x)):
        assert wg.grad(g, 2.0) == 6.0 and wg.grad(g, 3.0) == 6.0
        assert wg.value_and_grad(g, 2.0)[0] == plain
    assert wg.jvp(f, 2.0, 1.0)[1] == 6.0 and wg.hessian(f, 2.0) == 0.0
    with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
        compiled = wg.compile(wg.grad(f))
        assert [compiled(x) for x in (2.0, 3.0, 2.0)] == [6.0, 6.0, 6.0]
    after = fun(2.0)
    assert after == plain and type(after) in (float, np.float64)


def test_modules_and_objects_are_unchanged_after_derivatives_errors_and_threads(install):
    source = FILLED + """
class Model:
    def __init__(self): self.calls, self.steps = 0, [self.step]
    def step(self, x):
        self.calls += 1
        return filled(x)
    def run(self, x): return self.steps[0](x) + TABLE["filled"](x)
model = Model()
TABLE = {"filled": filled}
LIST = [filled]
def fun(x): return model.run(x) + LIST[0](x)
def fail(x):
    fun(x)
    raise LookupError("here")
"""
    module = install(installed=source)
    before, attributes = dict(vars(module)), dict(vars(module.model))
    failures = []

    def work():
        for _ in range(20):
            if wg.grad(module.fun, 2.0) != 18.0:
                failures.append("derivative")
            with pytest.raises(LookupError, match="here"):
                wg.grad(module.fail, 2.0)
            if module.fun(2.0) != 36.0:
                failures.append("value")

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert vars(module) == before and all(value is before[name] for name, value in vars(module).items())
    assert type(module.TABLE) is dict and module.TABLE == {"filled": module.filled} and module.LIST == [module.filled]
    assert {**vars(module.model), "calls": 0} == attributes and type(module.model) is module.Model


def test_modules_of_a_package_are_followed_through_attributes_and_circular_imports(install):
    package = install(
        pkg__init="from pkg import one, two\n",
        pkg__one="import pkg.two\ndef even(x, n): return x if n == 0 else pkg.two.odd(x, n - 1)\n",
        pkg__two=FILLED + "from pkg import one\ndef odd(x, n): return filled(x) + one.even(x, n - 1)\n"
        "class Model:\n    def run(self, x): return odd(x, 1)\n",
        pkg__late=FILLED + "class Late:\n    def run(self, x): return filled(x)\n",
    )

    def f(x):
        return package.one.even(x, 2)

    def made(x):
        return package.two.Model().run(x)

    def imports(x):
        import pkg.two as other
        from pkg.late import Late

        return other.odd(x, 1) + Late().run(x)

    source = "def g(x):\n    from .late import Late\n    from . import two\n    return Late().run(x) + two.filled(x)"
    relative = {"__name__": "pkg.user", "__package__": "pkg"}
    exec(source, relative)
    chain = eval("lambda x: pkg.two.Model().run(x) + pkg.two.filled(x)", {"__name__": "user", "pkg": package})
    for g, expected in ((f, 7.0), (made, 7.0), (imports, 13.0), (relative["g"], 12.0), (chain, 13.0)):
        assert wg.grad(g, 2.0) == expected and g(1.0) == expected


def test_import_errors_inside_the_function_are_those_of_plain_code():
    def f(x):
        try:
            import no_such_module
        except ImportError:
            no_such_module = None
        try:
            from no_such_package.inner import name
        except ImportError:
            name = None
        return x if no_such_module is None and name is None else 2.0 * x

    assert wg.grad(f, 2.0) == 1.0


STORING = "def fun(x):\n    w = np.zeros(1)\n    w[0] = x\n    return w[0]\n"


@pytest.mark.parametrize("name", ["autograd", "casadi", "jax", "pandas", "sympy", "tensorflow", "torch", "tqdm"])
def test_code_of_packages_on_the_list_is_not_followed_and_the_error_says_why(install, monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)
    module = install(**{name: f"import numpy as np\n{STORING}"})

    def f(x):
        return module.fun(x)

    with pytest.raises(TracedValueError, match=rf'Code of {name} is not followed.*wengert\.follow\("{name}"\)'):
        wg.grad(f, 2.0)
    assert repr(survey(f)[1]) == repr({name: UNFOLLOWED[name]})
    with wg.follow(name):
        assert wg.grad(f, 2.0) == 1.0
    with pytest.raises(TracedValueError):
        wg.grad(f, 2.0)


def test_choice_lasts_until_the_end_of_its_block_or_until_the_next_one(install, monkeypatch):
    monkeypatch.setattr("wengert.core.rebind.follow.CHOSEN", CHOSEN)
    module = install(pkg__part=FILLED)

    def is_followed():
        try:
            return wg.grad(lambda x: module.filled(x), 2.0) == 6.0
        except TracedValueError:
            return False

    assert is_followed()
    with wg.follow("pkg", False) as outer:
        assert not is_followed() and repr(outer) == "wengert.follow('pkg', False)"
        with wg.follow("pkg.part"):
            assert is_followed()
        try:
            with wg.follow(module, on=True):
                assert is_followed()
                raise LookupError
        except LookupError:
            pass
        assert not is_followed()
    assert is_followed()
    try:
        wg.follow("pkg", False)
        assert not is_followed()
        with wg.follow("pkg"):
            assert is_followed()
        assert not is_followed()
        wg.follow("pkg", True)
        assert is_followed()
    finally:
        del CHOSEN["pkg"]


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        (("numpy",), ValueError, "numpy cannot be followed"),
        (("scipy.optimize", True), ValueError, "by rules"),
        ((3,), TypeError, "name of a package"),
        (("a b",), TypeError, "name of a package"),
        (("a", "b"), TypeError, "True or False"),
    ],
)
def test_wrong_choices_raise(args, kind, text):
    before = dict(CHOSEN)
    with pytest.raises(kind, match=text):
        wg.follow(*args)
    assert before == CHOSEN


def test_caught_refusal_of_code_that_is_not_followed_is_raised_again(install):
    module = install(
        installed="import pandas\ndef fun(x):\n    try: return pandas.fun(x)\n    except Exception: return 0.0 * x\n",
        pandas=f"import numpy as np\n{STORING}",
    )
    with pytest.raises(TracedValueError, match="caught an error that only traced values raise"):
        wg.grad(lambda x: module.fun(x), 2.0)


def test_state_that_keeps_a_value_of_an_ended_derivative_raises(install):
    source = FILLED + """
CACHE = {}
def fun(x, key):
    if key not in CACHE: CACHE[key] = filled(x)
    return CACHE[key]
"""
    module = install(installed=source)

    def f(x):
        return module.fun(x, "a")

    assert wg.grad(f, 2.0) == 6.0
    with pytest.raises(wg.LevelError, match="has ended"):
        wg.grad(f, 3.0)


def test_cached_property_of_constants_holds_a_plain_array_after_a_derivative(install):
    source = """
import functools
import numpy as np
class Model:
    def __init__(self): self.x = None
    @functools.cached_property
    def matrix(self):
        m = np.zeros(2)
        m[0] = 3.0
        return m
    @functools.cached_property
    def twice(self): return 2.0 * self.x
model = Model()
def fun(x): return x * model.matrix[0]
def stale(x):
    model.x = x
    return model.twice
"""
    module = install(installed=source)
    assert wg.grad(module.fun, 2.0) == 3.0 and wg.grad(module.fun, 5.0) == 3.0
    assert type(module.model.matrix) is np.ndarray and module.model.matrix.tolist() == [3.0, 0.0]
    assert wg.grad(module.stale, 2.0) == 2.0
    with pytest.raises(wg.LevelError, match="has ended"):
        wg.grad(module.stale, 3.0)


def test_container_of_data_is_watched_for_functions_and_may_grow_without_new_plans(install):
    module = install(installed=f"{FILLED}TABLE, SEEN = {{}}, []\ndef fun(x):\n    SEEN.append(1)\n"
                               "    return TABLE['f'](x) if TABLE else x\n")  # fmt: skip
    assert wg.grad(module.fun, 2.0) == 1.0
    plan = registration.plans[id(module.fun)]
    assert wg.grad(module.fun, 2.0) == 1.0 and module.SEEN == [1, 1]
    assert registration.plans[id(module.fun)] is plan
    module.TABLE["f"] = module.filled
    assert wg.grad(module.fun, 2.0) == 6.0


def test_functions_beyond_the_limit_are_followed_when_they_are_called(install, monkeypatch):
    names = [f"fun{k}" for k in range(300)]
    chain = "".join(f"def {a}(x): return {b}(x)\n" for a, b in itertools.pairwise(names))
    module = install(installed=f"{FILLED}{chain}def fun299(x): return filled(x)\n")
    assert wg.grad(module.fun0, 2.0) == 6.0
    module.fun299 = lambda x: 2.0 * module.filled(x)
    assert wg.grad(module.fun0, 2.0) == 12.0


def test_report_lists_followed_packages_and_others_with_the_reason(install):
    module = install(installed=f"{FILLED}import pandas\ndef fun(x): return filled(x) if x > 0 else pandas.fun(x)\n",
                     pandas=STORING)  # fmt: skip
    f = eval("lambda x: installed.fun(x)", {"__name__": "user", "installed": module})
    report = wg.explain(wg.grad(f), 2.0)
    assert report.followed == {"user": 1, "installed": 2} and [*report.unfollowed] == ["pandas"]
    assert "follows user, 1 function\n" in repr(report) and "not pandas: its tables hold plain" in repr(report)
    assert wg.explain(wg.compile(f), 2.0).followed == report.followed
    for program in (wg.record(f, 2.0), wg.record(f, 2.0).grad()):
        assert program.explain().followed == report.followed and "not pandas: its tables" in repr(program.explain())
        assert pickle.loads(pickle.dumps(program)).explain().followed == {}
    assert "follows" not in repr(wg.explain(np.sin, 2.0))


#: operations on a container of functions as followed code sees it: the result in plain code, also in a derivative
CONTAINERS = {
    "list": "len(L), L[-1] is L[1], [*L] == L[:], f in L, L.index(f), L.count(f), tuple(L) == T, isinstance(L, list)",
    "tuple": "len(T), T[0] in T, f in T, [*T] == [*L], T.index(f), T + (1,) == (*T, 1), isinstance(T, tuple)",
    "dict": "len(D), 'a' in D, [*D], D.get('c', 3), [*D.keys()], {**D}.keys() == D.keys(), isinstance(D, dict)",
    "items": "[k for k, _ in D.items()], len([*D.values()]), D['a'] in D.values(), dict(D) == D.copy()",
    "changes": "L.append(1), L.pop(), D.setdefault('z', 1), D.pop('z'), D.update(y=2), D.pop('y'), L.reverse()",
    "removal": "L.insert(0, g), L.remove(g), L.extend([g]), L.pop() is None, L.sort(key=str)",
    "default": "len(E), E['new'], 'new' in E, E.pop('new')",
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_container_of_functions_behaves_like_the_original(install, name):
    source = (
        f"{FILLED}import collections\ndef f(x): return filled(x)\ndef g(x): return f(x)\nL = [f, g]\nT = (f, g)\n"
        "D = {'a': f, 'b': g}\nE = collections.defaultdict(list, a=f)\nseen = []\n"
        f"def look(): return ({CONTAINERS[name]})\ndef fun(x):\n    seen.append(look())\n    return x"
    )
    module = install(installed=source)
    plain = module.look()
    assert wg.grad(module.fun, 2.0) == 1.0
    assert module.seen == [plain] and module.look() == plain


class Backend:
    """Names of an array library, read through an attribute."""

    def __init__(self, library):
        self.library = library

    def __getattr__(self, name):
        return getattr(self.library, name)


backend = Backend(np)


def rotated(angle):
    c, s = backend.cos(angle), backend.sin(angle)
    return backend.array([[c, -s], [s, c]])[0, 1]


@pytest.mark.parametrize("run", [wg.grad, lambda f: wg.grad(wg.compile(f)), lambda f: wg.record(f, 0.5).grad()])
def test_numpy_in_an_attribute_of_a_backend_object(run):
    assert run(rotated)(0.3) == pytest.approx(-np.cos(0.3), rel=1e-15)


#: state that outlives a call, as (source, call, change of state): plain, derivative and compiled values must agree
STATE = {
    "class in a variable": (
        "class Model:\n    scale = 1.0\n    def run(self, x): return self.scale * filled(x)\n"
        "KINDS = frozenset([Model])\ndef fun(x):\n    for kind in KINDS: return kind().run(x)",
        "Model.scale = 2.0",
    ),
    "object in a class attribute": (
        "class Part:\n    def __init__(self, k): self.k = k\n    def run(self, x): return self.k * filled(x)\n"
        "class Model:\n    part = Part(1.0)\n    def run(self, x): return self.part.run(x)\n"
        "model = Model()\ndef fun(x): return model.run(x)",
        "Model.part = Part(2.0)",
    ),
    "attribute of an object in a class attribute": (
        "class Part:\n    k = 1.0\n    def run(self, x): return self.k * filled(x)\n"
        "class Model:\n    part = Part()\n    def run(self, x): return self.part.run(x)\n"
        "model = Model()\ndef fun(x): return model.run(x)",
        "Model.part.k = 2.0",
    ),
    "class attribute that holds a class": (
        "class One:\n    def run(self, x): return filled(x)\nclass Two:\n    def run(self, x): return 2.0 * filled(x)\n"
        "class Model:\n    kind = One\n    def run(self, x): return self.kind().run(x)\n"
        "model = Model()\ndef fun(x): return model.run(x)",
        "Model.kind = Two",
    ),
    "attribute that holds a class": (
        "class One:\n    def run(self, x): return filled(x)\nclass Two:\n    def run(self, x): return 2.0 * filled(x)\n"
        "class Model:\n    def __init__(self): self.kind = One\n    def run(self, x): return self.kind().run(x)\n"
        "model = Model()\ndef fun(x): return model.run(x)",
        "model.kind = Two",
    ),
    "module in an attribute": (
        "import sys\nclass Api: pass\napi = Api()\napi.module = sys.modules[__name__]\nscale = 1.0\n"
        "def inner(x): return scale * filled(x)\ndef fun(x): return api.module.inner(x)",
        "globals().update(scale=2.0)",
    ),
    "memoised property of a constant": (
        "class Model:\n    scale, _grid = 1.0, None\n    @property\n    def grid(self):\n"
        "        if self._grid is None: self._grid = self.scale * np.ones(1)\n        return self._grid[0]\n"
        "model = Model()\ndef fun(x): return model.grid * filled(x)",
        "model.scale, model._grid = 2.0, None",
    ),
    "cache of a constant in lru_cache": (
        "import functools\nscale = 1.0\n@functools.lru_cache\ndef grid(k): return k * np.ones(1)\n"
        "def fun(x): return grid(scale)[0] * filled(x)",
        "globals().update(scale=2.0)",
    ),
    "registry by class": (
        "class Model: pass\nKNOWN = {Model: lambda x: filled(x)}\nmodel = Model()\n"
        "def fun(x): return KNOWN[type(model)](x) + 0.0 * KNOWN[model.__class__](x)",
        "KNOWN[Model] = lambda x: 2.0 * filled(x)",
    ),
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", STATE)
def test_state_of_followed_code_is_read_at_each_call(install, name, is_compiled):
    source, change = STATE[name]
    module = install(installed=f"{FILLED}{source}\n")

    def f(x):
        return module.fun(x)

    gradient = wg.grad(wg.compile(f)) if is_compiled else wg.grad(f)
    with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
        assert [gradient(2.0), gradient(3.0), f(2.0)] == [6.0, 6.0, 12.0]
        exec(change, vars(module))
        assert [gradient(2.0), gradient(3.0), f(2.0)] == [12.0, 12.0, 24.0]


#: functions that keep a value of a derivative: the next derivative raises, or computes anew
KEEPING = {
    "memoised property": "class Model:\n    x, _v = None, None\n    @property\n    def v(self):\n"
    "        if self._v is None: self._v = filled(self.x)\n        return self._v\n"
    "model = Model()\ndef fun(x):\n    model.x = x\n    return model.v",
    "cache in a class attribute": "class Model:\n    cache = {}\n    def run(self, x):\n"
    "        if 1 not in self.cache: self.cache[1] = filled(x)\n        return self.cache[1]\n"
    "model = Model()\ndef fun(x): return model.run(x)",
    "class attribute": "class Model:\n    last = None\n    @classmethod\n    def run(cls, x):\n"
    "        if cls.last is None: cls.last = filled(x)\n        return cls.last\ndef fun(x): return Model.run(x)",
    "object in a class attribute": "class Part:\n    v = None\nclass Model:\n    part = Part()\n    def run(self, x):\n"
    "        if self.part.v is None: self.part.v = filled(x)\n        return self.part.v\n"
    "def fun(x): return Model().run(x)",
    "swallowed error": "KNOWN = []\ndef fun(x):\n    try: return KNOWN[0]\n    except Exception:\n"
    "        KNOWN.append(filled(x))\n        return KNOWN[0]",
    "lru_cache": "import functools\n@functools.lru_cache\ndef total(x): return filled(x)\ndef fun(x): return total(x)",
}


@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("name", KEEPING)
def test_value_that_outlives_its_derivative_is_never_used_silently(install, name, is_compiled):
    module = install(installed=f"{FILLED}{KEEPING[name]}\n")

    def f(x):
        return module.fun(x)

    gradient = wg.grad(wg.compile(f)) if is_compiled else wg.grad(f)
    for x in (2.0, 3.0, 4.0):
        try:
            with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
                assert gradient(x) == 6.0
        except (wg.LevelError, TracedValueError):
            assert x > 2.0


def test_objects_without_a_dictionary_are_no_compiled_functions():
    assert py_func_of(typing.TypeVar("T")) is None


class Lazy:
    """An object that computes its attributes, and fails for those that nobody defines, as lazy importers do."""

    asked: list[str] = []

    def __getattr__(self, name):
        self.asked.append(name)
        assert name == "scale", name
        return lambda x: x * np.full(1, 3.0)[0]


lazy_module = types.ModuleType("lazy_module")
exec("import numpy as np\ndef filled(x):\n    return np.full(1, x)[0]", vars(lazy_module))
lazy_module.lazy = Lazy()


def test_objects_are_asked_only_for_attributes_that_the_code_reads():
    Lazy.asked.clear()
    assert wg.grad(lambda x: lazy_module.filled(x) + lazy_module.lazy.scale(x))(2.0) == 4.0
    assert set(Lazy.asked) == {"scale"}


class _Unreadable(type):
    def __getattribute__(cls, name):
        if name == "py_func":
            raise ValueError("no such attribute")
        return super().__getattribute__(name)


class _Square(metaclass=_Unreadable):
    def __call__(self, x):
        return x**2


def test_explain_lists_a_function_whose_inspection_raises_in_code_of_the_user():
    square = _Square()

    def f(x):
        return square(x)

    assert wg.jacobian(f)(np.array([1.0, 3.0])).tolist() == [[2.0, 0.0], [0.0, 6.0]]
    name = f"{__name__}.{f.__qualname__}"
    assert wg.explain(f, np.ones(2)).unfollowed == {name: "inspecting it raised ValueError: no such attribute"}


@pytest.mark.parametrize(("name", "error"), [("parts_of", TypeError), ("weakref", AttributeError)])
def test_an_error_of_the_package_itself_while_inspecting_shows(name, error, monkeypatch):
    monkeypatch.setattr(plan, name, None)
    with pytest.raises(error, match="NoneType"):
        wg.grad(lambda x: np.sum(x**2))(np.ones(2))


@functools.singledispatch
def spread(x):
    return x


@spread.register(np.ndarray)
@spread.register(tuple)
def _(x):
    w = np.zeros(2)
    w[0], w[1] = 3 * x[0], x[1] ** 2
    return w


class Spreading:
    scale = 2.0

    @functools.singledispatchmethod
    def of(self, x):
        return x

    @of.register(np.ndarray)
    def _(self, x):
        return self.scale * spread(x)

    @functools.singledispatchmethod
    @classmethod
    def by_class(cls, x):
        return x

    @by_class.register(np.ndarray)
    @classmethod
    def _(cls, x):
        return cls.scale * spread(x)

    @functools.singledispatchmethod
    @staticmethod
    def static(x):
        return x

    @static.register(np.ndarray)
    @staticmethod
    def _(x):
        return 2.0 * spread(x)


spreading = Spreading()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 2.0 * spread(x),
        lambda x: 2.0 * spread((x[0], x[1])),
        lambda x: 2.0 * {"a": spread}["a"](x),
        lambda x: spreading.of(x),
        lambda x: Spreading().of(x),
        lambda x: Spreading.by_class(x),
        lambda x: spreading.static(x),
    ],
)
@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_function_chosen_by_singledispatch_is_followed(f, mode):
    assert wg.jacobian(f, mode=mode)(np.array([1.0, 3.0])).tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_function_registered_later_with_singledispatch_is_followed():
    @functools.singledispatch
    def g(x):
        return x

    jacobian = wg.jacobian(lambda x: g(x))
    assert jacobian(np.ones(2)).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    g.register(np.ndarray, spread)
    assert jacobian(np.ones(2)).tolist() == [[3.0, 0.0], [0.0, 2.0]]
    assert g.dispatch(np.ndarray) is spread


@pytest.mark.parametrize("before", [0, 150, 1000])
@pytest.mark.parametrize("after", [0, 50])
@pytest.mark.parametrize("kind", [list, tuple, lambda items: dict(enumerate(items))])
def test_function_near_an_end_of_a_long_container_is_followed(before, after, kind):
    held = kind([1.0] * before + [spread] + [1.0] * after)
    assert wg.jacobian(lambda x: held[before](x))(np.ones(2)).tolist() == [[3.0, 0.0], [0.0, 2.0]]


#: classes derived from containers in C, whose methods need to be followed
DERIVED = """
import collections
import math

class Vector(list):
    def norm(self):
        return math.sqrt(sum(float(value) ** 2 for value in self))

class Parameters(dict):
    def add(self, **values):
        self.update(values)

    def values_of(self, *names):
        return [float(self[name]) for name in names]

class Counts(collections.defaultdict):
    def total(self):
        return math.fsum(self.values())

fixed = Vector([3.0, 4.0])
kept = []

def f(x):
    v = Vector([x[0], x[1]])
    p = Parameters()
    p.add(a=x[0], b=2.0 * x[1])
    c = Counts(float)
    c["only"] += x[0] * x[1]
    assert type(v) is Vector and isinstance(p, dict) and c.__class__ is Counts
    a, b = p.values_of("a", "b")
    return v.norm() * fixed.norm() + a * b + c.total()

def keep(x):
    kept.append(Vector([1.0, 2.0]))
    return Vector([x]).norm()
"""


@pytest.mark.parametrize("transform", [lambda g: g, wg.compile], ids=["eager", "compiled"])
def test_methods_of_classes_derived_from_containers_are_followed(install, transform):
    module = install(vectors=DERIVED)
    x = np.array([3.0, 4.0])
    gradient = transform(wg.grad(module.f))
    for scale in (1.0, 2.0, 2.0):
        slope = 5.0 * x / 5.0 + 3.0 * scale * x[::-1]
        np.testing.assert_allclose(gradient(scale * x), slope, rtol=1e-14)
    assert type(module.fixed) is module.Vector and module.fixed == [3.0, 4.0]


def test_container_that_followed_code_keeps_is_pickled_as_its_class(install):
    module = install(vectors=DERIVED)
    assert wg.grad(module.keep)(2.0) == 1.0
    copy = pickle.loads(pickle.dumps(module.kept[0]))
    assert type(copy) is module.Vector and copy == [1.0, 2.0] and copy.norm() == np.sqrt(5.0)


#: a module whose attribute is an object that asks for that attribute
BACKEND = """
import numpy

import backend

class Backend:
    def __init__(self, of):
        self.of = of

    def __getattr__(self, name):
        return getattr(vars(self)["of"], name)

    def current(self):
        return backend.np.of.numpy()

    def numpy(self):
        return self.of

np = Backend(Backend(numpy))

def f(x):
    return backend.np.current().sin(x) * backend.np.of.numpy().cos(x)
"""


def test_object_in_a_module_that_asks_for_itself(install):
    module = install(backend=BACKEND)
    np.testing.assert_allclose(wg.grad(module.f)(0.3), np.cos(0.6), rtol=1e-14)


def first_system(x):
    return np.sum(x + x * np.zeros(1))


def second_system(x):
    return np.sum(x + x * np.zeros(1))


def test_functions_with_equal_code_compare_what_their_cells_hold():
    """The function in a cell must be the one that a global name refers to, also for a plan that is made again."""

    def around(f):
        return lambda x: f(x)

    def made(system):
        return (lambda x: 2.0 * x[1] if system is second_system else x[0]), (lambda x: system(x))

    x, found = np.ones(2), []
    for system in (first_system, second_system, second_system, first_system, second_system):
        compared, called = made(system)
        found.append(wg.grad(compared)(x)[1])
        wg.grad(called)(x)
        wg.hessian(around(compared))(x)
    assert found == [0.0, 2.0, 2.0, 0.0, 2.0]


# Functions and classes that are inspected when they are used -------------------------------------------------

STAGES = """
import inspect
import numpy as np

SCALE, HOOK, FACTOR = 2.0, None, 1.0

def outer(x, use=True):
    return middle(x) if use else never(x)

def middle(x):
    y = np.zeros(1)
    y[0] = inner(x) * FACTOR
    return y.sum()

def inner(x, power=2):
    return SCALE * x**power if HOOK is None else hooked(x)

def hooked(x):
    return HOOK(x)

def cube(x):
    y = np.zeros(1)
    y[0] = x**3
    return y[0]

def never(x):
    from no_such_module import f
    return f(x)

class Base:
    hook = None

    def value(self, x):
        return self.part(x) if self.hook is None else type(self).hook(x)

    def part(self, x):
        y = np.zeros(1)
        y[0] = x
        return y[0]

class Derived(Base):
    def part(self, x):
        return 5.0 * super().part(x)

def of_object(x):
    return Derived().value(x)

def is_cube(f):
    return f is cube

def compares(x):
    return cube(x) if is_cube(cube) else x

def shows(x):
    return chosen(cube, x)

def chosen(f, x):
    return f(x) if list(inspect.signature(f).parameters) == ["x"] else 0.0 * x

def deep(x, n):
    return x if n == 0 else np.sin(deep(x, n - 1))
"""


def _sets(name, value):
    return lambda module: setattr(module, name, value)


def _sets_code(module):
    module.inner.__code__ = module.cube.__code__


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_sets("SCALE", 3.0), 6.0),
        (_sets("FACTOR", 10.0), 40.0),
        (lambda module: setattr(module, "HOOK", module.cube), 3.0),
        (_sets("inner", lambda x: 7.0 * x), 7.0),
        (lambda module: setattr(module.inner, "__defaults__", (3,)), 6.0),
        (_sets_code, 3.0),
        (lambda module: setattr(module, "middle", module.cube), 3.0),
    ],
)
def test_changes_of_functions_that_are_used_later_take_effect(install, change, expected):
    module = install(stages=STAGES)
    df = wg.grad(module.outer)
    assert df(1.0) == 4.0 and df(1.0) == 4.0
    change(module)
    assert df(1.0) == expected and df(1.0) == expected
    assert wg.grad(lambda x: module.outer(x))(1.0) == expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda module: setattr(module.Base, "part", lambda self, x: 3.0 * x), 15.0),
        (lambda module: setattr(module.Derived, "part", lambda self, x: 4.0 * x), 4.0),
        (lambda module: delattr(module.Derived, "part"), 1.0),
        (lambda module: setattr(module.Base, "hook", staticmethod(module.cube)), 3.0),
        (lambda module: setattr(module.Derived, "value", lambda self, x: module.cube(x) / 3.0), 1.0),
        (lambda module: setattr(module, "Derived", module.Base), 1.0),
    ],
)
def test_changes_of_classes_that_are_used_later_take_effect(install, change, expected):
    module = install(stages=STAGES)
    df = wg.grad(module.of_object)
    assert df(1.0) == 5.0 and df(1.0) == 5.0
    change(module)
    assert df(1.0) == expected and df(1.0) == expected


def test_functions_passed_on_keep_identity_and_signature(install):
    module = install(stages=STAGES)
    for f in (module.compares, module.shows, module.compares):
        assert wg.grad(f)(1.0) == 3.0
    assert wg.grad(lambda x: module.compares(x) + module.shows(x))(1.0) == 6.0


def test_threads_that_use_functions_for_the_first_time_at_once(install):
    module = install(stages=STAGES)
    barrier, found = threading.Barrier(8), []

    def run():
        barrier.wait()
        found.append([wg.grad(f)(1.0) for f in (module.outer, module.of_object, module.compares)])

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[4.0, 5.0, 3.0]] * 8


def test_threads_wait_until_functions_that_are_passed_on_are_replaced(install, monkeypatch):
    module, resolved = install(stages=STAGES), rebind._resolved
    is_resolving, found = threading.Event(), []

    def slowly(value):
        is_resolving.set()
        thread.join(timeout=0.2)
        return resolved(value)

    def run():
        is_resolving.wait()
        found.append(wg.grad(module.compares)(1.0))

    monkeypatch.setattr(rebind, "_resolved", slowly)
    thread = threading.Thread(target=run)
    thread.start()
    found.append(wg.grad(module.compares)(1.0))
    thread.join()
    assert found == [3.0, 3.0]


def in_thread(fun):
    """Call a function in another thread, and return its result."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(fun).result()


def test_threads_do_not_rely_on_plans_that_another_thread_is_checking(install, monkeypatch):
    module, holds, found = install(stages=STAGES), plan.Plan.holds, []
    assert wg.grad(module.outer)(1.0) == 4.0

    def slowly(self, root):
        if root is module.inner and not found:
            found.append(None)
            found.append(in_thread(lambda: rebind._rebound(module.outer)(2.0)))
        return holds(self, root)

    module.HOOK = module.cube
    monkeypatch.setattr(plan.Plan, "holds", slowly)
    assert wg.grad(module.outer)(2.0) == 12.0 and found == [None, 8.0]


def test_threads_make_one_plan(install, monkeypatch):
    module, new_plan, made = install(stages=STAGES), rebind._new_plan, []

    def slowly(root):
        made.append(root)
        if root is module.outer:
            thread.start()
            thread.join(timeout=0.1)
        return new_plan(root)

    monkeypatch.setattr(rebind, "_new_plan", slowly)
    thread = threading.Thread(target=lambda: wg.grad(module.outer)(1.0))
    assert wg.grad(module.outer)(1.0) == 4.0
    thread.join()
    assert made.count(module.outer) == 1


def test_attributes_that_another_thread_sets_while_an_object_is_inspected(install, monkeypatch):
    source = """
        import numpy as np

        class Model:
            def __init__(self):
                self.parts = [np.zeros]

            def value(self, x):
                y = self.parts[0](1)
                y[0] = x
                return y.sum()

        model = Model()

        def f(x):
            return model.value(x)
    """
    module, is_held_live = install(sets_attributes=source), plan.is_held_live

    def late(value):
        setattr(module.model, f"late_{len(vars(module.model))}", 1.0)
        return is_held_live(value)

    monkeypatch.setattr(plan, "is_held_live", late)
    assert wg.grad(module.f)(1.0) == 1.0


def test_objects_that_another_thread_replaces_while_code_uses_them(install):
    source = """
        import numpy as np

        class Model:
            def value(self, x):
                y = np.zeros(1)
                y[0] = x
                return y.sum()

        model, hooks = Model(), []

        def f(x):
            y = model.value(x)
            for hook in hooks[:]:
                hook()
            return y + model.value(x)
    """
    module = install(replaces_objects=source)
    assert wg.grad(module.f)(1.0) == 2.0

    def replace():
        module.hooks.clear()
        module.model = module.Model()
        assert in_thread(lambda: wg.grad(module.f)(1.0)) == 2.0

    module.hooks.append(functools.partial(next, (replace() for _ in "x")))  # code in C calls it
    assert wg.grad(module.f)(1.0) == 2.0


def test_threads_register_one_stand_in_of_a_subclass(install, monkeypatch):
    module, made = install(subclasses="class Base: pass\nclass Derived(Base): pass"), []

    def stand_in(cls):
        made.append(cls)
        if len(made) == 1:
            thread.start()
            thread.join(timeout=0.1)
        return object()

    def register(cls, new):
        monkeypatch.setitem(registration.REGISTERED, id(cls), (cls, new, ""))

    monkeypatch.setattr(registration, "register_class", register)
    monkeypatch.setitem(registration._of_subclass, id(module.Base), stand_in)
    thread = threading.Thread(target=registration.is_registered, args=(module.Derived,))
    assert registration.is_registered(module.Derived)
    thread.join()
    assert made == [module.Derived]


def test_stand_ins_of_dictionaries_are_never_empty_for_other_threads():
    class Read(dict):
        def __iter__(self):
            return dict.__iter__(self)

        def keys(self):
            found.append([*dict.keys(stand_in)])
            return dict.keys(self)

    found, held = [], Read(f=len, g=abs)
    stand_in = tables._STAND_INS[dict]({}, lambda item: item)
    stand_in._wengert_of = held
    stand_in._wengert_renew()
    del held["g"], found[:]
    stand_in._wengert_renew()
    assert found[0] == ["f", "g"] and [*dict.keys(stand_in)] == ["f"]


def test_stubs_compare_as_the_functions_that_they_stand_for(install):
    cube = install(stages=STAGES).cube
    assert identity.compared((stubs.stub_of(None, cube), cube)) == (cube, cube)


def test_deep_recursion_needs_no_more_frames(install):
    deep = install(stages=STAGES).deep
    n = sys.getrecursionlimit() - 200
    x, slope = 0.5, 1.0
    for _ in range(n):
        slope *= np.cos(x)
        x = np.sin(x)
    np.testing.assert_allclose(wg.grad(deep)(0.5, n), slope, rtol=1e-10)


def test_packages_that_only_code_that_does_not_run_uses_are_not_loaded(tmp_path):
    """The rules of SciPy's modules take up to a second to load."""
    (tmp_path / "uses_solver.py").write_text(
        "from scipy.optimize import brentq\n"
        "def f(x, solves=False): return solved(x) if solves else 2.0 * x * one()\n"
        "def one(): return 1.0\n"
        "def solved(x): return brentq(lambda y: y - x, -9.0, 9.0)\n"
        "class Solver:\n"
        "    def run(self, x): return brentq(lambda y: y - x, -9.0, 9.0)\n"
        "    def twice(self, x): return 2.0 * x * one()\n"
        "def of_class(x): return Solver().twice(x)\n"
    )
    script = (
        "import sys, wengert as wg, uses_solver\n"
        "name = 'wengert.scipy.optimize'\n"
        "assert wg.grad(uses_solver.of_class)(3.0) == 2.0\n"
        "assert wg.grad(uses_solver.f)(3.0) == 2.0 and name not in sys.modules\n"
        "assert wg.grad(uses_solver.f)(3.0, True) == 1.0 and name in sys.modules\n"
        "assert wg.grad(uses_solver.f)(3.0) == 2.0 and wg.grad(uses_solver.Solver().run)(3.0) == 1.0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)


COPIED = """
import numpy as np

class State:
    def __init__(self):
        self.start = np.zeros(3)

    @property
    def beginning(self):
        return self.start

state = State()

def f(x):
    return below(state, x)

def below(held, x):
    return lowest(held, x)

def lowest(held, x):
    u = held.beginning.copy()
    u[1] = x
    return u @ u
"""


def test_arrays_of_objects_are_copied_in_functions_that_are_used_later(install):
    module = install(copied=COPIED)
    assert wg.grad(module.f)(3.0) == 6.0 and not module.state.start.any()


DECORATED = """
import functools
import numpy as np

def doubled(f):
    calls = []

    @functools.wraps(f)
    def call(*args):
        calls.append(f.__name__)
        return 2.0 * f(*args)

    call.calls = calls
    return call

@doubled
def filled(x):
    y = np.zeros(1)
    y[0] = x
    return y[0]

class Thing:
    @doubled
    def filled(self, x):
        return filled(x)

def f(x):
    return filled(x) + Thing().filled(x)
"""


def test_decorated_functions_and_methods_are_inspected_when_they_are_used(install):
    module = install(decorated=DECORATED)
    df = wg.grad(module.f)
    assert df(1.0) == 6.0 and df(1.0) == 6.0
    assert module.filled.calls == ["filled"] * 4 and module.Thing.filled.calls == ["filled"] * 2
    module.filled = module.doubled(module.filled)
    assert df(1.0) == 12.0
