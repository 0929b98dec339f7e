"""``scipy.spatial.transform`` with rotations that hold traced values.

The class is SciPy's Python code with its own back end in the array API; the values are those of the compiled back end.
"""

import importlib as _importlib

import numpy as _np

import wengert.numpy as _numpy
from wengert.core.operands import var as _var
from wengert.scipy import copies as _copies
from wengert.scipy import linalg as _linalg  # noqa: F401  (copies use its rules)
from wengert.scipy import namespace as _namespace
from wengert.scipy import objects as _objects


class _Backend:
    """Computes derivatives with SciPy's Python back end, and values with the back end that SciPy selects."""

    def __init__(self, plain):
        self._plain = plain

    def __getattr__(self, name):
        plain, traced = getattr(self._plain, name), getattr(_python, name)

        def call(*args, **options):
            value = plain(*map(_plain_value, args), **{key: _plain_value(x) for key, x in options.items()})
            if not _var.holds_traced((args, tuple(options.values()))):
                return value
            found = traced(*args, **options)
            if isinstance(value, tuple):
                pairs = zip(found, map(_array_or_none, value), strict=True)
                return tuple(y if v is None else _namespace.with_value(y, v) for y, v in pairs)
            return _namespace.with_value(found, value if isinstance(value, float) else _np.asarray(value))

        return call


def _array_or_none(x):
    """Convert a memory view to an array."""
    return x if x is None or isinstance(x, float) else _np.asarray(x)


def _plain_value(x):
    return _np if x is _numpy else _var.plain(x)


def _select_backend(xp, cython_compatible):
    return _Backend(_scipy.select_backend(_scipy.array_namespace(), cython_compatible))


def _converted(rotation):
    """Convert a rotation that was made outside of a derivative."""
    found = object.__new__(Rotation)
    found._quat, found._single = rotation._quat, rotation._single
    found._xp, found._backend = _numpy, _Backend(rotation._backend)
    return found


_PLAIN = frozenset(("RigidTransform",))
_scipy = _importlib.import_module("scipy.spatial.transform._rotation")
_python = _copies.second_copy("scipy.spatial.transform._rotation_xp")


def _series(x, *factors):
    """Return the power series whose coefficients are cumulative products of 1 and the factors."""
    y = 1.0
    for factor in factors[::-1]:
        y = 1.0 + factor * x * y
    return y


_TERMS = range(1, 10)


def _from_rotvec(rotvec, degrees=False):
    """Compute SciPy's formula from the square of the angle: the angle has no second derivative at 0."""
    rotvec = rotvec * (_np.pi / 180) if degrees else rotvec
    square = _np.sum(rotvec**2, axis=-1, keepdims=True)
    is_small = square <= 1.0
    angle = _np.sqrt(_np.where(is_small, 1.0, square))
    near = _series(square, *[-0.25 / (2 * k * (2 * k + 1)) for k in _TERMS]) / 2
    scale = _np.where(is_small, near, _np.sin(angle / 2) / angle)
    cosine = _series(square, *[-0.25 / (2 * k * (2 * k - 1)) for k in _TERMS])
    return _np.concatenate([rotvec * scale, _np.where(is_small, cosine, _np.cos(angle / 2))], axis=-1)


def _as_rotvec(quat, degrees=False):
    """Compute SciPy's formula from the square of the vector: its length has no second derivative at 0."""
    quat = _python._quat_canonical(quat)
    vector, w = quat[..., :3], quat[..., 3:]
    square = _np.sum(vector**2, axis=-1, keepdims=True)
    is_small = square <= 0.01 * w**2
    sine = _np.sqrt(_np.where(is_small, 1.0, square))
    w_or_1 = _np.where(is_small, w, 1.0)
    near = _series(square / w_or_1**2, *[-(2 * k - 1) / (2 * k + 1) for k in _TERMS]) / w_or_1
    rotvec = 2 * _np.where(is_small, near, _np.arctan2(sine, w) / sine) * vector
    return rotvec * (180 / _np.pi) if degrees else rotvec


def _from_copy(matrix, assume_valid=False):
    return _from_matrix(_np.copy(matrix), assume_valid)  # SciPy's Python code writes into matrices


_from_matrix, _python.from_matrix = _python.from_matrix, _from_copy
_python.from_rotvec, _python.as_rotvec = _from_rotvec, _as_rotvec
_copy = _copies.second_copy("scipy.spatial.transform._rotation", select_backend=_select_backend)
Rotation, Slerp = _copy.Rotation, _copy.Slerp
RotationSpline = _copies.second_copy("scipy.spatial.transform._rotation_spline").RotationSpline
_objects.register_conversion(_scipy.Rotation, _converted)

_namespace.install("spatial.transform")
