"""Steppers by the names of SciPy's methods; SciPy's modules, whose coefficients they use, are imported when needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: SciPy's methods with a stepper, explicit and implicit
EXPLICIT = ("RK23", "RK45", "DOP853")
IMPLICIT = ("Radau", "BDF")
NAMES = EXPLICIT + IMPLICIT

_ROOT = math.sqrt(6)

#: matrix of the Radau IIA method of order 5
RADAU = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)


def stepper(name: str, options: dict, memory: float) -> tuple[Any, bool]:
    """Return a stepper, and whether its method is implicit."""
    if name in EXPLICIT:
        from scipy.integrate._ivp import rk

        from wengert.program.integration.explicit import Explicit

        return Explicit(getattr(rk, name), options, memory), False
    if name == "BDF":
        from wengert.program.integration.backward import Backward

        return Backward(options, memory), True
    from scipy.integrate._ivp import radau

    from wengert.program.integration.collocation import Collocation

    return Collocation(radau, RADAU, options, memory), True
