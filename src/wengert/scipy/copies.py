"""Second copies of SciPy's Python code, which compute with traced values.

A second copy is made by executing the source of a module once more, with proxies for functions that have a rule, other
second copies and `wengert.numpy` in place of what the module imports.
"""

from __future__ import annotations

import abc
import ast
import builtins
import functools
import hashlib
import importlib
import importlib.util
import inspect
import marshal
import pathlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert.numpy
from wengert.core.operands import var
from wengert.core.rebind import follow, registration
from wengert.program.codegen import disk_cache
from wengert.rules.scipy import functions
from wengert.rules.scipy.functions import with_rule
from wengert.scipy.standin import ORIGINALS, StandIn

_copies: dict[str, types.ModuleType] = {}
#: names of copies whose source is still being executed, by the thread that holds `registration.lock`
_unfinished: set[str] = set()
#: modules that are copied when they are first used, with further replacements of names in them
_planned: dict[str, dict[str, Any]] = {}


def copy_later(name: str, **names: Any) -> None:
    """Make a second copy of a module when one of its functions, classes or objects is first used."""
    _planned[name] = names


def copy_of(name: str) -> types.ModuleType | None:
    """Return the second copy of a module, if there is one or one is planned."""
    found = _copies.get(name)
    if found is None:
        return second_copy(name) if name in _planned else None
    if name in _unfinished:
        with registration.lock:  # held by the thread that makes it
            return _copies.get(name)
    return found


def is_planned(name: str) -> bool:
    """Return whether a module has a second copy, or gets one when it is used."""
    return name in _planned or name in _copies


def copied(value: Any) -> Any:
    """Return the counterpart of a SciPy function or class in the second copy of its module, or `value` if none."""
    found = copy_of(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return value if found is None else found


def followed(fun: Callable) -> Callable:
    """Return a function that calls the second copy of `fun`, which is made by the first call."""
    original = inspect.unwrap(fun)

    @functools.wraps(fun)
    def body(*args, **options):
        return copied(original)(*args, **options)

    return body


class LazyClass:
    """Proxy for a class of a second copy, which is made when the class is first used."""

    def __init__(self, cls):
        self._wengert_of = cls
        self.__name__, self.__doc__ = cls.__name__, cls.__doc__

    def __call__(self, *args, **options):
        return copied(self._wengert_of)(*args, **options)

    def __getattr__(self, name):
        return getattr(copied(self._wengert_of), name)

    def __instancecheck__(self, x):
        return isinstance(x, (self._wengert_of, copied(self._wengert_of)))

    def __mro_entries__(self, bases):
        return (copied(self._wengert_of),)


def second_copy(name: str, **names: Any) -> types.ModuleType:
    """Execute the source of a SciPy module once more, with differentiable functions in place of registered ones.

    The module must be written in Python, as is ``"scipy.signal._signaltools"``; `names` replaces further names in it.
    Imports in the copy, including those inside functions, yield `wengert.numpy` for NumPy, proxies for functions
    with a rule, the classes of mirrors, and other second copies where they exist. Helpers for the array API are copied
    automatically, with `wengert.numpy` as the namespace of traced arrays.
    """
    with registration.lock:
        if name not in _copies:
            _unfinished.add(name)
            try:
                _execute(name, _planned.get(name, {}) | names)
            except BaseException:
                _copies.pop(name, None)
                raise
            finally:
                _unfinished.discard(name)
        return _copies[name]


def _execute(name, names):
    """Execute the source of a module in a new module, then replace names in it."""
    original = importlib.import_module(name)
    copy = _copies[name] = types.ModuleType(original.__name__)
    space = vars(copy)
    space |= {key: vars(original)[key] for key in ("__file__", "__package__", "__spec__", "__doc__")}
    build = functools.partial(_build_class, original)
    space["__builtins__"] = {**vars(builtins), "__import__": _import, "__build_class__": build}
    space |= {_DIFFERS: _differs, _METHOD: _method_of_array, _CLASS: _own_class}
    space |= {_PRIVATE + name: follow.REGISTERED[id(called)][1] for name, called in _calls().items()}
    space[_GIVEN] = names
    exec(_code_of(pathlib.Path(original.__file__)), space)
    space.update({name: ours for name, ours in _HELPERS.items() if name in space}, **names)
    functions.copied.update(x for x in space.values() if isinstance(x, type) and x.__module__ == name)


def _build_class(module, body, name, *bases, **options):
    """``__build_class__`` for second copies: instances report the original class in ``__class__``."""
    original = vars(module).get(body.__qualname__)
    if type(original) not in (type, abc.ABCMeta) or issubclass(original, (tuple, BaseException)):
        return builtins.__build_class__(body, name, *bases, **options)
    new = builtins.__build_class__(body, name, *bases, StandIn, **options)
    ORIGINALS[new] = original
    return new


def _code_of(path):
    """Return the bytecode of a rewritten module, from the on-disk cache if it is there."""
    source = path.read_bytes()
    inputs = importlib.util.MAGIC_NUMBER, _OWN_SOURCE.read_bytes(), repr((str(path), sorted(_calls()))).encode(), source
    key = hashlib.sha256(b"".join(hashlib.sha256(x).digest() for x in inputs)).hexdigest()
    if (found := disk_cache.read(f"{key}.bytecode")) is not None:
        return marshal.loads(found[1])
    code = compile(_made_differentiable(ast.parse(source)), path, "exec", dont_inherit=True)
    disk_cache.write(f"{key}.bytecode", {}, marshal.dumps(code))
    return code


_OWN_SOURCE = pathlib.Path(__file__)
_PRIVATE = "_wengert_"


def _calls():
    """Return by name the objects that are replaced only in calls, since elsewhere they may be dtypes."""
    found = {name: vars(builtins)[name] for name in ("complex", "float", "hasattr", "sum")} | _SCALARS
    return {name: called for name, called in found.items() if registration.is_registered(called)}


_SCALARS = {kind.__name__: kind for kind in (np.float32, np.float64, np.complex64, np.complex128)}


_DIFFERS = f"{_PRIVATE}differs"


def _differs(x, constant):
    """``x != constant`` in tests that skip an operation, such as a division by 1; a traced x never skips it."""
    return True if var.is_traced(x) else x != constant


_CLASS = f"{_PRIVATE}class"


def _own_class(x):
    """``x.__class__``, except that an instance of a class of a second copy yields that class."""
    return type(x) if issubclass(type(x), StandIn) else x.__class__


_GIVEN = f"{_PRIVATE}given"  # dict of replacements, by name
_METHOD = f"{_PRIVATE}method"


def _method_of_array(name, x, *args):
    """``x.dot(y)`` or ``x.searchsorted(v)``; these methods of plain arrays take no traced values."""
    is_plain = type(x) is np.ndarray and var.holds_traced(args)
    return getattr(np, name)(x, *args) if is_plain else getattr(x, name)(*args)


#: types of AST nodes that contain no further code
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.alias)
_FIELDS = {
    kind: tuple(name for name in kind._fields if name not in ("ctx", "op", "ops", "name", "id", "attr", "type_comment"))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST) and not issubclass(kind, _LEAVES)
}


def _made_differentiable(tree):
    """Rewrite the syntax tree of a module in place.

    Builtins and classes of NumPy's scalars are renamed where they are called, and ``if x != 1``, ``a.dot(b)`` and
    ``x.__class__`` are replaced by calls of `_differs`, `_method_of_array` and `_own_class`.  Arrays count as
    writeable, since compiled functions that write are replaced.
    """
    calls, nodes = frozenset(_calls()), [tree]
    while nodes:
        node = nodes.pop()
        for name in _FIELDS[type(node)]:
            child = getattr(node, name)
            if type(child) is list:
                for k, item in enumerate(child):
                    if type(item) in _FIELDS:
                        child[k] = item = _rewritten(item, calls)
                        if type(item) in _FIELDS:
                            nodes.append(item)
            elif type(child) in _FIELDS:
                child = _rewritten(child, calls)
                setattr(node, name, child)
                if type(child) in _FIELDS:
                    nodes.append(child)
    return tree


def _rewritten(node, calls):
    """Rewrite one node as described in `_made_differentiable`, but not its children."""
    kind = type(node)
    if kind is ast.Call:
        fun = node.func
        if type(fun) is ast.Name:
            if fun.id in calls:
                fun.id = _PRIVATE + fun.id
        elif type(fun) is ast.Attribute and fun.attr in _SCALARS and fun.attr in calls:
            node.func = _name_like(_PRIVATE + fun.attr, fun)
        elif type(fun) is ast.Attribute and fun.attr in _METHODS and not node.keywords:
            parts = [ast.copy_location(ast.Constant(fun.attr), node), fun.value, *node.args]
            return ast.copy_location(ast.Call(_name_like(_METHOD, node), parts, []), node)
    elif kind is ast.If:
        match node.test:
            case ast.Compare(left, [ast.NotEq()], [ast.Constant(int() | float()) as constant]):
                call = ast.Call(_name_like(_DIFFERS, node.test), [left, constant], [])
                node.test = ast.copy_location(call, node.test)
    elif kind is ast.Attribute and node.attr == "__class__" and type(node.ctx) is ast.Load:
        return ast.copy_location(ast.Call(_name_like(_CLASS, node), [node.value], []), node)
    elif kind is ast.Attribute and node.attr == "writeable":
        match node:
            case ast.Attribute(ast.Attribute(_, "flags"), _, ast.Load()):
                return ast.copy_location(ast.Constant(True), node)
    return node


_METHODS = ("dot", "searchsorted")


def _name_like(name, node):
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def _import(name, space=None, local=None, fromlist=(), level=0):
    """``__import__`` for second copies; nothing is loaded for names that are replaced."""
    given = space.get(_GIVEN, {}) if space and fromlist else {}
    if given and given.keys() >= {*fromlist}:
        return types.SimpleNamespace(**{word: given[word] for word in fromlist})
    return replaced(builtins.__import__(name, space, local, fromlist, level))


class _Replaced(types.ModuleType):
    """A module as second copies see it: registered objects and copied modules are replaced."""

    __slots__ = ("_wengert_of",)

    def __init__(self, module):
        _of.__set__(self, module)

    def __getattribute__(self, name):
        module = _of.__get__(self)
        if (copy := copy_of(module.__name__)) is not None and name in vars(copy) and name != "__dict__":
            return vars(copy)[name]
        return replaced(getattr(module, name))


_of = _Replaced._wengert_of


def replaced(value: Any) -> Any:
    """Return what second copies see in place of an object."""
    if type(value) in follow.INERT:
        return value
    if (proxy := with_rule(value)) is not None:  # also if its mirror is not installed yet
        return proxy
    if isinstance(value, types.ModuleType):
        return replaced_module(value)
    if type(value) is types.FunctionType and registration.is_deferred(value):
        return _replaced_later(value)
    if registration.is_registered(value):
        return follow.REGISTERED[id(value)][1]
    home = getattr(value, "__module__", None)
    if isinstance(value, (types.FunctionType, type)) and isinstance(home, str):
        if "array_api_compat.numpy" in home:
            return getattr(wengert.numpy, value.__name__, value)
        if home.startswith("scipy._") and value.__name__ in _HELPERS:
            return _HELPERS[value.__name__]
        if _is_array_api(home):
            second_copy(home)
        if is_planned(home):
            return copied(value)
    return value


def _replaced_later(fun):
    """Return a function that loads the mirror of a module of SciPy when it is first called."""

    @functools.wraps(fun)
    def body(*args, **options):
        registration.is_registered(fun)
        return replaced(fun)(*args, **options)

    return body


def replaced_module(module):
    """Return what second copies see in place of a module; the mirror of a module of SciPy is loaded once it is used."""
    name = module.__name__
    if name.endswith("array_api_compat.numpy"):
        return wengert.numpy
    is_scipy = name.partition(".")[0] == "scipy"
    loads = not is_scipy or name == "scipy.special"
    is_known = registration.is_registered(module) if loads else id(module) in follow.REGISTERED
    if is_known and name != "scipy":
        return follow.REGISTERED[id(module)][1]
    return _Replaced(module) if is_scipy else module


# ---- the array API


def _is_array_api(name):
    """Return whether a module is one of SciPy's array-API helper modules."""
    return name.startswith("scipy._") and (
        "array_api_extra._lib." in name or name in ("scipy._lib._array_api", "scipy._lib._array_api_override")
    )


def _apply_where(cond, args, f1, f2=None, /, *, fill_value=None, kwargs=None, xp=None):
    """``array_api_extra.apply_where`` that evaluates all elements, so that a program can contain it."""
    args = args if isinstance(args, tuple) else (args,)
    with np.errstate(all="ignore"):
        return np.where(cond, f1(*args, **kwargs or {}), fill_value if f2 is None else f2(*args, **kwargs or {}))


def _asarray_validated(a, check_finite=True, sparse_ok=False, objects_ok=False, mask_ok=False, as_inexact=False):
    a = wengert.numpy.asarray_chkfinite(a) if check_finite else wengert.numpy.asarray(a)
    return a.astype(np.float64) if as_inexact and a.dtype.kind not in "fc" else a


def _lazyselect(condlist, choicelist, arrays, default=0):
    """``scipy._lib._util._lazyselect``, with the functions evaluated everywhere."""
    arrays = wengert.numpy.broadcast_arrays(*arrays)
    shape = np.shape(arrays[0])
    arrays = [np.atleast_1d(x) for x in arrays]  # some choices store into slices
    y = np.full(np.shape(arrays[0]), default, dtype=float)
    with np.errstate(all="ignore"):
        for cond, choice in zip(reversed(condlist), reversed(choicelist)):
            y = np.where(cond, choice(*arrays), y)
    return np.reshape(y, shape)


def _contains_nan(a, nan_policy="propagate", **options):
    """Return whether an array contains NaN; raise if the policy says so."""
    if nan_policy not in ("propagate", "raise", "omit"):
        raise ValueError(f"nan_policy must be one of ['omit', 'propagate', 'raise'], not {nan_policy!r}.")
    found = bool(np.any(np.isnan(a)))
    if found and nan_policy == "raise":
        raise ValueError("The input contains nan values")
    return found


class _At:
    """``array_api_extra.at`` of arrays that can be written to."""

    def __init__(self, x, idx=None):
        self.x, self.idx = x, idx

    def __getitem__(self, idx):
        return _At(self.x, idx)

    def set(self, y, /, copy=None, xp=None):
        if np.ndim(self.x) == 0:
            return np.where(self.idx, y, self.x)[()]
        x = np.copy(self.x) if copy else self.x
        x[self.idx] = y
        return x

    def __getattr__(self, name):
        if name not in _UPDATES:
            raise AttributeError(name)
        return lambda y, /, copy=None, xp=None: self.set(_UPDATES[name](self.x[self.idx], y), copy)


_UPDATES = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power}
_UPDATES |= {"min": np.minimum, "max": np.maximum}
#: replacements of helper functions that SciPy's modules define or import
_HELPERS = dict.fromkeys(("is_numpy", "is_numpy_namespace"), lambda namespace: namespace is wengert.numpy)
_HELPERS["array_namespace"] = lambda *arrays, **options: wengert.numpy
_HELPERS["_get_nan"] = lambda *data, **options: np.float64(np.nan)
_HELPERS |= {"apply_where": _apply_where, "at": _At, "_asarray_validated": _asarray_validated}
_HELPERS["xp_capabilities"] = lambda *args, **options: lambda fun: fun  # it only adds documentation
_HELPERS["sinc"] = lambda x, /, *, xp=None: np.sinc(x)
_HELPERS |= {"_contains_nan": _contains_nan, "_lazyselect": _lazyselect}
