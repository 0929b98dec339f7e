"""``scipy.cluster.vq``: distances to the nearest of given centres."""

import importlib as _importlib

import numpy as _np

from wengert import registry as _registry
from wengert.core.dispatch import dispatch as _dispatch
from wengert.core.operands import var as _var
from wengert.rules.scipy.functions import Functions as _Functions
from wengert.scipy import namespace as _namespace

_functions = _Functions("scipy.cluster.vq")
_original = _importlib.import_module("scipy.cluster.vq")


def _vq(obs, code_book, check_finite=True):
    obs, code_book = _dispatch.from_list(obs), _dispatch.from_list(code_book)
    code = _namespace.computed(lambda *args: _original.vq(*args, check_finite)[0], obs, code_book)
    difference = obs - code_book[code]
    square = difference**2 if _np.ndim(obs) == 1 else _np.sum(difference**2, axis=1)
    return code, _namespace.with_value(_np.sqrt(square), _original.vq(_var.plain(obs), _var.plain(code_book))[1])


def _whiten(obs, check_finite=True):
    obs = _dispatch.from_list(obs)
    deviation = _np.std(obs, axis=0)
    deviation = _np.where(_np.equal(deviation, 0), 1.0, deviation)
    return _namespace.with_value(obs / deviation, _original.whiten(_var.plain(obs), check_finite))


_registry.composed(_functions.vq, _vq)
_registry.composed(_functions.py_vq, _vq)
_registry.composed(_functions.whiten, _whiten)
for _name in ("kmeans", "kmeans2"):
    _registry.refuse(
        getattr(_functions, _name),
        "it moves centres until convergence; pass wengert.stop_gradient(obs), and compute with its centres",
    )

_namespace.install("cluster.vq")
