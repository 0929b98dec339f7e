"""``scipy.ndimage`` with functions that accept traced values.

The functions are SciPy's Python code with formulas in place of the compiled functions.
"""

import types as _types

from wengert import numpy as _numpy
from wengert import registry as _registry
from wengert.rules.scipy import ndimage as _rules
from wengert.scipy import copies as _copies
from wengert.scipy import namespace as _namespace

_ndimage = _rules.ndimage


class _NumPy(_types.ModuleType):
    """`wengert.numpy` in which arrays never share memory, since formulas compute a result before they store it."""

    def __getattr__(self, name):
        return getattr(_numpy, name)

    def may_share_memory(self, a, b, max_work=None):
        return False


_options = {"_nd_image": _rules.Compiled, "_rank_filter_1d": _rules.Compiled, "np": _NumPy("numpy")}
_copies.second_copy("scipy.ndimage._ni_support")
_copies = [
    _copies.second_copy(f"scipy.ndimage.{name}", **_options)
    for name in ("_filters", "_fourier", "_interpolation", "_morphology", "_measurements")
]

for _name in _namespace.public_names(_namespace.importlib.import_module("scipy.ndimage")):
    if not _ndimage.has(_name) or not callable(getattr(_ndimage, _name)):
        continue
    _body = next((vars(copy)[_name] for copy in _copies if _name in vars(copy)), None)
    if _name in _rules.REFUSED:
        _registry.refuse(getattr(_ndimage, _name), _rules.REFUSED[_name])
    elif _rules.is_piecewise_constant(_name):
        _registry.constant(getattr(_ndimage, _name))
    elif _body is not None:
        # SciPy cannot call a function that reads traced values
        _declare = _registry.composed if _name in _rules.OF_FUNCTIONS else _registry.by_formula
        _declare(getattr(_ndimage, _name), _body, on_complex=True)

_namespace.install("ndimage")
