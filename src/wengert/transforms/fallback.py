"""Tangents of an opaque function by finite differences, for ``primitive(f, jvp="fd")``."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from wengert import registry
from wengert.core import frames
from wengert.errors import FiniteDifferenceWarning, UnsupportedFunctionError
from wengert.transforms.slopes import Slopes

#: the step is relative to the magnitude of an argument, but at least to this bound. The second bound, practically none,
#: is tried if the first gives a large error, for example close to a singularity
_SCALE_FLOORS = (0.01, 1e-300)

#: estimated relative error above which the second bound is tried
_RETRY_ERROR = 1e-4


class Slope:
    """Tangent of `f` as a function of tangents and arguments: ``(*t, *args, **kwargs)``."""

    def __init__(self, f: Callable):
        self.f = f
        self.name = self.__name__ = registry.dotted_name(f)
        self._reported_error = 0.0  # the largest relative error that a warning reported

    def __call__(self, *given, **kwargs):
        tangents, args = given[: len(given) // 2], list(given[len(given) // 2 :])
        moving = [i for i, t in enumerate(tangents) if np.any(t)]
        if not moving:
            return np.zeros(np.shape(self.f(*args, **kwargs)))
        ends = np.cumsum([0, *[np.size(args[i]) for i in moving]])

        def function(point):
            for i, a, b in zip(moving, ends, ends[1:]):
                args[i] = np.reshape(point[a:b], shapes[i]).astype(dtypes[i])[()]
            return np.ravel(np.asarray(self.f(*args, **kwargs), dtype=float))

        shapes = {i: np.shape(args[i]) for i in moving}
        dtypes = {i: np.asarray(args[i]).dtype for i in moving}
        point, direction = (np.concatenate([np.ravel(x[i]) for i in moving]).astype(float) for x in (args, tangents))
        y = np.asarray(self.f(*args, **kwargs))
        eps = max(np.finfo(x).eps for x in (*dtypes.values(), y.dtype if y.dtype.kind == "f" else np.dtype(float)))
        values, errors = np.full(y.size, np.nan), np.full(y.size, np.inf)
        for small in _SCALE_FLOORS:
            scale = np.max(np.abs(direction) / np.maximum(np.abs(point), small))
            found = Slopes(function, point, [direction / scale], eps)
            better = ~(found.errors[0] * scale >= errors)
            values = np.where(better, found.values[0] * scale, values)
            errors = np.where(better, found.errors[0] * scale, errors)
            if np.all(errors <= _RETRY_ERROR * np.max(np.abs(values), initial=0.0)):
                break
        self._warn(values, errors)
        return np.reshape(values, y.shape)

    def _warn(self, values, errors):
        """Warn once, and again if the error becomes 100 times larger."""
        size = np.max(np.abs(values), initial=0.0)
        error = np.max(errors, initial=0.0) / (size if size > 0 else 1.0)
        if self._reported_error and not error > 100 * self._reported_error:
            return
        self._reported_error = max(error, 1e-16)
        file, line = frames.file_and_line(frames.caller() or (self.__call__.__code__, 0))
        warnings.warn_explicit(
            f"the derivative of {self.name} is a finite difference with a relative error of about {error:.0e}",
            FiniteDifferenceWarning,
            file,
            line,
        )

    def refuse(self, *args, **kwargs):
        """Raise, as the derivative rule of this tangent: finite differences are not differentiated again."""
        raise UnsupportedFunctionError(
            f"{self.name} has first derivatives only, since they are finite differences: pass its rule as jvp= or "
            "vjp= of wengert.primitive for higher derivatives"
        )
