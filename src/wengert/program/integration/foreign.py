"""Integrates with SciPy's LSODA, which calls the program of the right-hand side."""

from __future__ import annotations

import numpy as np
import scipy.integrate

from wengert.errors import GuardError


class Foreign:
    """An integration without tangents by `scipy.integrate.solve_ivp` or `odeint`; it keeps no steps.

    Parameters
    ----------
    method : {"LSODA", "odeint"}
    options : dict
        See `wengert.program.integration.stepper.Stepper`; "solver" holds further arguments of `odeint`.
    """

    #: number of steps, unknown for SciPy's code; see `wengert.program.integration.stepper.Stepper`
    steps: int | None = None
    stride = 0

    def __init__(self, method: str, options: dict):
        self.method, self.options = method, options

    def run(self, field, times: np.ndarray, y0: np.ndarray, out: np.ndarray, keep: bool) -> None:
        tolerances = {key: self.options[key] for key in ("rtol", "atol")}
        start = y0.ravel()
        if self.method == "odeint":
            every = np.concatenate([times[:1], times[2:]])
            more = {"tfirst": True, "full_output": True, **self.options["solver"]}
            y, info = scipy.integrate.odeint(field.slope, start, every, **tolerances, **more)
            found, message = y[1:], info["message"]
            has_failed = not message.startswith("Integration successful")
        else:
            options = {key: self.options[key] for key in ("first_step", "max_step")}
            result = scipy.integrate.solve_ivp(
                field.slope, tuple(times[:2]), start, "LSODA", times[2:], **tolerances, **options
            )
            found, message, has_failed = result.y.T, result.message, result.status < 0
        if has_failed:
            raise GuardError(f"the integration fails: {message}")
        out[0] = found
