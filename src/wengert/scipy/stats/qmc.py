"""``scipy.stats.qmc``: points of plain sequences, scaled to traced bounds."""

import scipy.stats.qmc as _qmc

import wengert.numpy as _numpy
from wengert import registry as _registry
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.stats.qmc")


def _scale(sample, l_bounds, u_bounds, *, reverse=False):
    sample, low, high = (_numpy.asarray(x) for x in (sample, l_bounds, u_bounds))
    return (sample - low) / (high - low) if reverse else sample * (high - low) + low


_registry.composed(_functions.scale, _scale)
for _name in ("discrepancy", "geometric_discrepancy", "update_discrepancy"):
    if _functions.has(_name):
        _registry.refuse(getattr(_functions, _name), "it compares points pair by pair; write it with NumPy functions")

#: sequences of plain points
_PLAIN = frozenset(_namespace.public_names(_qmc)) - {"scale"}

_namespace.install("stats.qmc")
