"""Proxies for the package ``scipy`` and for its classes, in functions under differentiation.

The proxy of the package has `wengert.scipy.special` as its ``special``.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import scipy

from wengert.core.rebind import follow, registration, rename

#: original classes, SciPy's or the user's, by their stand-in classes
ORIGINALS: dict[Any, type] = {}


class StandIn:
    """Base of classes whose instances report in ``__class__`` the class that they stand for, for code that tests it.

    A subclass names that class by ``of=``. Where code calls ``x.__class__`` or reads from it, it gets our class.
    Instances of subclasses that the user derives from ours report their own class.
    """

    __slots__ = ()
    _wengert_reports_class = True  # `type(x)` in followed code is `x.__class__`

    def __init_subclass__(cls, of=None, **options):
        super().__init_subclass__(**options)
        if of is not None:
            ORIGINALS[cls] = of

    @property
    def __class__(self):
        kind, frame = type(self), sys._getframe(1)
        if rename.reads_for_use(frame.f_code, frame.f_lasti, "__class__"):
            return kind
        return next((ORIGINALS[cls] for cls in _own_bases(kind) if cls in ORIGINALS), kind)

    @__class__.setter
    def __class__(self, kind):
        vars(object)["__class__"].__set__(self, kind)


def is_stand_in(value: Any) -> bool:
    """Return whether a value is a class whose instances report another one."""
    return isinstance(value, type) and issubclass(value, StandIn)


def _own_bases(cls):
    """Return a class and its bases, up to the first one that is not ours."""
    is_ours = [base in ORIGINALS or base.__module__.startswith("wengert.") for base in cls.__mro__]
    return cls.__mro__[: (*is_ours, False).index(False)]


class Package(ModuleType):
    """``scipy`` except for the modules that wengert replaces."""

    def __getattr__(self, name):
        value = import_module("wengert.scipy.special") if name == "special" else getattr(scipy, name)
        return follow.REGISTERED[id(value)][1] if registration.is_registered(value) else value

    def __setattr__(self, name, value):
        setattr(scipy, name, value)

    def __dir__(self):
        return dir(scipy)


registration.register(scipy, Package("scipy"))
