"""Replacement of the package ``scipy`` in functions under differentiation, with our own ``scipy.special``."""

from importlib import import_module
from types import ModuleType

import scipy

from wengert.core.rebind import follow, registration


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
