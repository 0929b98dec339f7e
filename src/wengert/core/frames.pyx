# cython: language_level=3
"""Inspects the Python stack: which line of the user's code is running, and which library function it called.

Errors, warnings and guards name the user's line.
Cython functions have no frames, so a walk up the stack sees Python code only: it skips frames of this package, NumPy
and SciPy, and the first remaining one is the user's.
"""

from __future__ import annotations

import os
import sys

from wengert import errors
from wengert.features import is_assignment_code, is_attribute_assignment_code, is_operator_code

_PACKAGE = os.path.dirname(os.path.abspath(errors.__file__))
_getframe = sys._getframe

#: source file -> does it belong to this package, NumPy or SciPy?
_inside: dict[str, bool] = {}


def user_frame():
    """Return the innermost frame outside this package, NumPy, SciPy, Numba and functools, or None."""
    frame = _getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        inside = _inside.get(file)
        if inside is None:
            name = frame.f_globals.get("__name__", "")
            inside = file.startswith(_PACKAGE) or name.partition(".")[0] in ("functools", "numba", "numpy", "scipy")
            if file.endswith(".py"):        # names like <string> are shared by code of several modules
                _inside[file] = inside
        if not inside:
            return frame
        frame = frame.f_back
    return None


def caller():
    """Position of the running user code: its code object and the offset of the current instruction; or None."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lasti)


def where(position) -> str:
    """``file:line`` of a position returned by `caller`."""
    return "an unknown line" if position is None else "{}:{}".format(*file_and_line(position))


def file_and_line(position) -> tuple[str, int]:
    """File and line of a position returned by `caller`."""
    code, last = position
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin > last:
            break
        if last < end and number:
            line = number
    return code.co_filename, line


def at() -> str:
    """`` (file:line)`` of the running user code, to append to a clause; empty if there is none."""
    position = caller()
    return f" ({where(position)})" if position else ""


def is_operator() -> bool:
    """Return whether the user's current instruction is an operator rather than a call."""
    position = caller()
    return position is not None and is_operator_code(position[0].co_code, position[1])


def is_assignment() -> bool:
    """Return whether the user's current instruction assigns to an element or slice."""
    position = caller()
    return position is not None and is_assignment_code(position[0].co_code, position[1])


def is_attribute_assignment() -> bool:
    """Return whether the user's current instruction assigns to an attribute."""
    position = caller()
    return position is not None and is_attribute_assignment_code(position[0].co_code, position[1])


def is_asserted() -> bool:
    """Return whether the caller is an assertion of `numpy.testing`, `logging`, or a line that formats text by ``%``.

    These only check or show a value.
    """
    for frame, module in _stack():
        if not module.startswith(("numpy.", "wengert.core.")):
            return module == "logging" or shows_text(frame)
        if module.startswith("numpy.testing."):
            return True
    return False


def _stack():
    """Yield the running frames, from the innermost one, and the names of their modules."""
    frame = sys._getframe()
    while frame is not None:
        yield frame, frame.f_globals.get("__name__", "")
        frame = frame.f_back


#: tells whether the current instruction of a frame formats text by ``%`` to show it; set by `wengert.core.hooks`
shows_text = None


#: functions of scipy.optimize that wengert.scipy.optimize replaces
MIRRORED = frozenset(
    "root fsolve root_scalar bisect brenth brentq ridder toms748 newton fixed_point least_squares leastsq curve_fit "
    "minimize lsq_linear nnls linprog milp minimize_scalar quadratic_assignment isotonic_regression "
    "basinhopping brute differential_evolution direct dual_annealing shgo anderson broyden1 broyden2 diagbroyden "
    "excitingmixing linearmixing newton_krylov fmin fmin_bfgs fmin_cg fmin_l_bfgs_b fmin_ncg fmin_powell fmin_slsqp "
    "fmin_tnc fmin_cobyla brent golden fminbound".split()
)


_SOLUTION = "use wengert.scipy.optimize.{}, whose solution has its derivative"
_INTEGRALS = "cubature", "dblquad", "nquad", "quad", "quad_vec", "tanhsinh", "tplquad"
#: what to write instead of other SciPy functions that iterate to convergence on traced values, by module
ITERATIVE = {
    "scipy.optimize": {
        "bracket": _SOLUTION.format("minimize_scalar"),
        "line_search": "write the step as a function of the point, or pass wengert.stop_gradient(step)",
    },
    "scipy.optimize.elementwise": {
        "bracket_root": _SOLUTION.format("root_scalar"),
        "bracket_minimum": _SOLUTION.format("minimize"),
    },
    "scipy.integrate": {
        **{name: f"use wengert.scipy.integrate.{name}, whose result has its derivative" for name in _INTEGRALS},
        "nsum": "write a sum over as many terms as needed",
    },
    "scipy.differentiate": {name: f"use wengert.{name}" for name in ("derivative", "hessian", "jacobian")},
}
#: the SciPy package of each solver; a function of that name elsewhere, such as scipy.stats.anderson, is not a solver
_SOLVERS = {
    **dict.fromkeys(MIRRORED, "scipy.optimize"),
    **{name: ".".join(place.split(".")[:2]) for place, names in ITERATIVE.items() for name in names},
}


def solver() -> str | None:
    """Name of the function in `MIRRORED` or `ITERATIVE` that SciPy is running, or None."""
    found = None
    for frame, module in _stack():
        home = _SOLVERS.get(frame.f_code.co_name)
        if home is not None and module.startswith(home):
            found = frame.f_code.co_name
        elif not module.startswith(("numpy.", "scipy.", "wengert.core.", "wengert.rules.")):
            break  # the user's code, or a derivative passed to SciPy
    return found


def sparse_solver() -> str | None:
    """Name of the function of scipy.sparse.linalg that is running, or None."""
    found = None
    for frame, module in _stack():
        if not module.startswith(("numpy.", "scipy.", "wengert.core.")):
            break
        if module.startswith("scipy.sparse.linalg."):
            found = frame.f_code.co_name
    return found


def is_sparse_method() -> bool:
    """Return whether the caller is a method of SciPy's sparse arrays."""
    callers = (module for _, module in _stack() if not module.startswith(("numpy.", "wengert.core.")))
    return next(callers, "").startswith("scipy.sparse._")


def is_numba() -> bool:
    """Return whether the caller is Python code of Numba."""
    return sys._getframe().f_globals.get("__name__", "").startswith("numba.")


def is_masked() -> bool:
    """Return whether a function of `numpy.ma` is running."""
    for _, module in _stack():
        if module.startswith("numpy.ma."):
            return True
        if not module.startswith(("numpy.", "wengert.")):
            break
    return False
