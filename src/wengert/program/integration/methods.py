"""Steppers by the names of SciPy's methods; SciPy's modules, whose coefficients they use, are imported when needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: methods with a stepper, explicit and implicit
EXPLICIT = ("RK23", "RK45", "DOP853")
IMPLICIT = ("Radau", "BDF")
#: methods that are SciPy's own; tangents are by another one
FOREIGN = ("LSODA", "odeint")
#: takes the place of those: DOP853, and Radau from where that finds the equations stiff
SWITCHING = "DOP853 or Radau"
#: takes the place of explicit methods for tangents
ACCURATE = "accurate DOP853"
NAMES = (*EXPLICIT, *IMPLICIT, *FOREIGN, SWITCHING, ACCURATE)

#: maximum number of states for which derivatives of BDF are by Radau, whose steps depend on no earlier ones: where
#: tangents are large for a short time, as at a jump of a relaxation oscillator, those of BDF lose their digits
MAX_COLLOCATED = 50

#: tolerances of the last two relative to the given ones: tangents add up the errors of the solution, and DOP853
#: interpolates over long steps
TOLERANCE = 0.1

_ROOT = math.sqrt(6)
_EPS = float(np.finfo(float).eps)

#: matrix of the Radau IIA method of order 5
RADAU = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)


def of_tangents(name: str, states: int) -> str:
    """Return the method for the tangents of a solution by a method, with this number of states."""
    if name in EXPLICIT:
        return ACCURATE
    if name in FOREIGN:
        return SWITCHING
    return "Radau" if name == "BDF" and states <= MAX_COLLOCATED else name


def stepper(name: str, options: dict, memory: float) -> tuple[Any, bool]:
    """Return a stepper, and whether its method is implicit."""
    if name in EXPLICIT or name in (SWITCHING, ACCURATE):
        from scipy.integrate._ivp import rk

        from wengert.program.integration.explicit import Explicit

        if name not in EXPLICIT:
            options = options | {key: np.maximum(TOLERANCE * options[key], _EPS) for key in ("rtol", "atol")}
            return Explicit(rk.DOP853, options, memory, name == SWITCHING), False
        return Explicit(getattr(rk, name), options, memory), False
    if name in FOREIGN:
        from wengert.program.integration.foreign import Foreign

        return Foreign(name, options), False
    if name == "BDF":
        from wengert.program.integration.backward import Backward

        return Backward(options, memory), True
    from scipy.integrate._ivp import radau

    from wengert.program.integration.collocation import Collocation

    return Collocation(radau, RADAU, options, memory), True
