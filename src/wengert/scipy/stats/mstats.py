"""``scipy.stats.mstats``: functions of masked arrays, which have no derivative rules."""

import types as _types

import scipy.stats.mstats as _mstats

from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.stats.mstats")
_INSTEAD = "it masks elements; use the function of scipy.stats, or numpy.where"
for _name in _namespace.public_names(_mstats):
    if isinstance(getattr(_mstats, _name), _types.FunctionType) and getattr(_functions, _name) not in _registry.rows:
        _registry.refuse(getattr(_functions, _name), _INSTEAD)

_namespace.install("stats.mstats")
