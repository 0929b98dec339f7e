"""Wrappers of functions and methods: they run the replacement, and look like the original."""

import functools
import sys

from wengert.core.rebind.follow import MODULES_OF_KINDS, REGISTERED
from wengert.core.rebind.identity import class_key
from wengert.core.rebind.registration import as_plain, lookup, register_deferred, register_later, register_wrapper

_OPERATORS = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split()
#: reflected methods of operators, with the name of the method of the left operand
REFLECTED = {f"__r{name}__": f"__{name}__" for name in _OPERATORS}


def reflected(name, method):
    """Return a reflected method of a proxy class that gives precedence to the left operand where the original does.

    Python asks the right operand first if its class derives from the left operand's class and redefines the method, as
    a proxy class always does.
    """

    def run(self, other, *modulo):
        own, left = class_key(type(self)), class_key(type(other))
        if own is not left and getattr(own, name) is not getattr(left, name, None):
            return method(self, other, *modulo)
        forward = getattr(type(self) if own is left else type(other), REFLECTED[name], None)
        y = NotImplemented if forward is None else forward(other, self, *modulo)
        return method(self, other, *modulo) if y is NotImplemented and own is not left else y

    return like(method, run)


def seeing_replacement(method):
    """Return an ``__array_ufunc__`` that receives the replacement of a ufunc, so that followed code can compare it."""

    def run(self, ufunc, *args, **kwargs):
        _, ufunc, _ = REGISTERED.get(id(ufunc), (None, ufunc, None))
        return method(self, ufunc, *args, **kwargs)

    return like(method, run)


def like(f, run):
    """Return `run` with the name and the attributes of f."""
    run.__dict__ = f.__dict__
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run, name, getattr(f, name))
    return run


def seeing_arguments(f, seen):
    """Return a function with the signature of f, which others may inspect, that calls f with ``seen(argument)``."""
    code = f.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    flags = bool(code.co_flags & _VARARGS), bool(code.co_flags & _VARKEYWORDS)
    names = code.co_varnames[: count + sum(flags)]
    run = like(f, _caller(names, code.co_posonlyargcount, code.co_argcount, *flags)(f, seen))
    for name in _SIGNATURE:
        setattr(run, name, getattr(f, name))
    return run


_VARARGS, _VARKEYWORDS = 4, 8  # as in `inspect`, which takes 2 ms to import
#: attributes of a function that are part of its signature; annotations are computed at first access from Python 3.14 on
_SIGNATURE = "__defaults__", "__kwdefaults__", "__annotate__" if hasattr(like, "__annotate__") else "__annotations__"


@functools.cache
def _caller(names, only, count, has_args, has_keywords):
    """Factory of the function of `seeing_arguments`: `names` are its parameters, the first `only` positional-only."""
    names, keywords = [*names], [names[-1]] if has_keywords else []
    rest = [names[-1 - has_keywords]] if has_args else []
    named = names[count : len(names) - has_args - has_keywords]
    head = [*names[:only], *(["/"] if only else []), *names[only:count]]
    head += [f"*{name}" for name in rest] or (["*"] if named else [])
    head += [*named, *(f"**{name}" for name in keywords)]
    passed = [f"_wengert_seen({name})" for name in names[:count]] + [f"*map(_wengert_seen, {name})" for name in rest]
    passed += [f"{name}=_wengert_seen({name})" for name in named]
    passed += [f"**{{_name: _wengert_seen(_x) for _name, _x in {name}.items()}}" for name in keywords]
    source = f"lambda _wengert_f, _wengert_seen: lambda {', '.join(head)}: _wengert_f({', '.join(passed)})"
    return eval(compile(source, __file__, "eval"), globals())


def keeping_plain(f):
    """Wrap the function of a cached property, whose results outlive the derivative, to return constants as plain."""

    @functools.wraps(f)
    def run(self):
        return as_plain(f(self))

    return run


def partial_like(value, args, keywords):
    """Return a partial of the function ``args[0]`` with the other arguments, and with the attributes of `value`."""
    new = functools.partial(*args, **keywords)
    new.__dict__ = value.__dict__
    return new


def dispatching(f):
    """Return a function that calls the copy of the implementation that `f`, a `functools.singledispatch`, selects."""

    def run(*args, **kwargs):
        if not args:
            return f(**kwargs)  # raises
        return lookup.replaced(f.dispatch(args[0].__class__))(*args, **kwargs)

    return like(f, run)


class _DispatchingMethod:
    """Does for a method made by `functools.singledispatchmethod` what `dispatching` does for a function."""

    def __init__(self, method, _):
        self._wengert_of = method

    def __getattr__(self, name):
        return getattr(self._wengert_of, name)

    def __get__(self, owner, cls):
        dispatch = self._wengert_of.dispatcher.dispatch

        def run(*args, **kwargs):
            if not args:
                return self._wengert_of.__get__(owner, cls)(**kwargs)  # raises
            method = dispatch(args[0].__class__)
            if type(method) in (staticmethod, classmethod):
                method = type(method)(lookup.replaced(method.__func__))
            else:
                method = lookup.replaced(method)
            return method.__get__(owner, cls)(*args, **kwargs)

        return like(self._wengert_of.func, run)


register_wrapper(functools.singledispatchmethod, lambda method: method.dispatcher, _DispatchingMethod)


def _install_wrapt():
    """Register functions decorated by `wrapt`, whose C objects hold the function and the decorator's function."""
    wrapt = sys.modules["wrapt"]

    def make(value, copy):
        inner = value.__wrapped__
        if type(inner) in (staticmethod, classmethod):
            copy = type(inner)(lookup.replaced(inner.__func__))
        return wrapt.FunctionWrapper(copy, lookup.replaced(value._self_wrapper), value._self_enabled)

    def make_bound(value, copy):
        owner = getattr(copy, "__self__", None)
        return value if owner is None else lookup.replaced(value._self_parent).__get__(owner, type(owner))

    register_wrapper(wrapt.FunctionWrapper, lambda value: value.__wrapped__, make)
    register_wrapper(wrapt.BoundFunctionWrapper, lambda value: value.__wrapped__, make_bound)


register_later("wrapt", _install_wrapt)
for _name in ("_wrappers", "FunctionWrapper", "BoundFunctionWrapper"):  # the module in C; the classes of release 1
    MODULES_OF_KINDS[_name] = functools.partial(register_deferred, "wrapt")
