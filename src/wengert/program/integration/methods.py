"""Creates steppers by the names of SciPy's methods; SciPy's modules with the coefficients are imported when needed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: methods with a stepper, explicit and implicit
EXPLICIT = ("RK23", "RK45", "DOP853")
IMPLICIT = ("Radau", "BDF")
#: methods that SciPy itself runs; another method computes their tangents
FOREIGN = ("LSODA", "odeint")
#: replaces these methods for tangents: DOP853, followed by Radau once DOP853 finds the equations stiff
SWITCHING = "DOP853 or Radau"
#: replace explicit methods and, for few states, implicit methods when tangents are computed
ACCURATE, ACCURATE_IMPLICIT = "accurate DOP853", "accurate Radau"
NAMES = (*EXPLICIT, *IMPLICIT, *FOREIGN, SWITCHING, ACCURATE, ACCURATE_IMPLICIT)

#: tolerances of these three, relative to the given ones. They are tighter because tangents add up the errors of the
#: solution, DOP853 interpolates over long steps, and tangents that are large for a short time, as at a jump of a
#: relaxation oscillator, lose digits
TOLERANCES = {SWITCHING: 0.002, ACCURATE: 0.002, ACCURATE_IMPLICIT: 0.03}

#: relative tolerances are not reduced below this
MIN_TOLERANCE = 1e-13

#: maximum number of states for which Radau computes the derivatives of BDF. Its steps depend on no earlier ones; where
#: tangents are large for a short time, BDF loses more digits
MAX_COLLOCATED = 50

_ROOT = math.sqrt(6)

#: matrix of the Radau IIA method of order 5
RADAU = np.array(
    [
        [(88 - 7 * _ROOT) / 360, (296 - 169 * _ROOT) / 1800, (-2 + 3 * _ROOT) / 225],
        [(296 + 169 * _ROOT) / 1800, (88 + 7 * _ROOT) / 360, (-2 - 3 * _ROOT) / 225],
        [(16 - _ROOT) / 36, (16 + _ROOT) / 36, 1 / 9],
    ]
)


def of_tangents(name: str, states: int) -> str:
    """Return the method that computes tangents of solutions by method `name`, for this number of states."""
    if name in EXPLICIT:
        return ACCURATE
    if name in FOREIGN:
        return SWITCHING
    return ACCURATE_IMPLICIT if name in IMPLICIT and states <= MAX_COLLOCATED else name


def tightened(name: str, options: dict) -> dict:
    """Return the options with the tolerances reduced as `TOLERANCES` says for this method."""
    if name not in TOLERANCES:
        return options
    rtol, factor = options["rtol"], TOLERANCES[name]
    reduced = np.maximum(factor * rtol, np.minimum(rtol, MIN_TOLERANCE))
    return options | {"rtol": reduced, "atol": factor * options["atol"]}


def stepper(name: str, options: dict, memory: float) -> tuple[Any, bool]:
    """Return a stepper, given options from `tightened`, and whether its method is implicit."""
    if name in EXPLICIT or name in (SWITCHING, ACCURATE):
        from scipy.integrate._ivp import rk

        from wengert.program.integration.explicit import Explicit

        if name not in EXPLICIT:
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
