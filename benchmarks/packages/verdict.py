"""Compare the derivative of a case with differences, and say why it was refused."""

import linecache
import math
import re
import sys
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

import wengert as wg
from benchmarks.packages import differences

VERDICTS = ("right", "wrong", "nan", "warned", "refused", "error", "crash", "slow", "unchecked")
WENGERT = str(Path(wg.__file__).parent)
LOSSES = (wg.RootFindingWarning, wg.TextWarning, wg.CachedValueWarning, wg.RoundingWarning)
HERE = str(Path(__file__).parent)
CASES = str(Path(__file__).parent / "cases")
MAX_ERROR = 1e-3  # of differences, relative to the largest entry of a row; typical ones have 1e-10
SAFETY = 4  # the error of differences is an estimate
#: by order of precedence: reason, pattern of the message, pattern of the source line
REASONS = (
    ("in-place fill of a plain array", r"cannot be stored", r""),
    ("array API", r"", r"\bxp\.|array_namespace"),
    ("operator of an object, such as a unit", r"the operator", r""),
    ("solver or integrator of SciPy", r"through scipy\.|\bodeint\b|solve_ivp|\bquad\b", r""),
    ("function without a rule", r"has no derivative", r""),
    ("np.asarray and the like", r"plain NumPy array|go through", r"array\b|atleast_|copyto|float64"),
    ("float()", r"Python float", r"\bfloat\("),
    ("int()", r"Python int|an integer", r""),
    ("complex()", r"Python complex", r""),
    ("math", r"Python float", r"\b(" + "|".join(name for name in dir(math) if name[0] != "_") + r")\("),
    ("compiled code", r"Python float", r""),
    ("other conversion to a plain array", r"plain NumPy array", r""),
)


class Outcome(NamedTuple):
    """The verdict on one derivative of a case."""

    verdict: str
    reason: str = ""
    where: str = ""  # file, line and function of the package
    line: str = ""  # its source
    message: str = ""


def judge(case, compiled):
    """Return the outcome of the Jacobian of a case, eager or compiled."""
    if case.undefined is None:
        try:
            with warnings.catch_warnings(action="ignore"):
                expected, error = differences.jacobian(case.f, case.point, case.step)
        except Exception as problem:
            return failure(problem)._replace(verdict="unchecked")
        scale = row_scale(expected, np.ndim(case.point))
        if not np.all(error <= MAX_ERROR * scale):
            return Outcome("unchecked", message=f"differences have an error of {np.max(error / scale):.1e}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = derivative(case, compiled)
        except Exception as problem:
            outcome = failure(problem)
            expected_refusal = case.undefined is not None and outcome.verdict == "refused"
            return outcome._replace(verdict="right", reason=case.undefined) if expected_refusal else outcome
    if case.undefined is not None:
        return Outcome("wrong", message=f"no error, although {case.undefined}")
    if found.shape != expected.shape:
        return Outcome("wrong", message=f"shape {found.shape}, expected {expected.shape}")
    excess = abs(found - expected) - (case.rtol * scale + SAFETY * error)
    if np.all(excess <= 0):
        ours = [w for w in caught if w.category.__module__ == wg.errors.__name__]
        kinds = sorted({w.category.__name__ for w in ours})
        return Outcome("right", ", ".join(kinds), message=" ".join(str(w.message) for w in ours))
    warned = [w.message for w in caught if w.category in LOSSES]
    worst = np.unravel_index(np.argmax(np.nan_to_num(excess, nan=np.inf)), excess.shape)
    message = f"entry {tuple(map(int, worst))}: {found[worst]:.12g}, differences give {expected[worst]:.12g}"
    message = f"{message} with an error of {error[worst]:.0e}"
    if warned:
        return Outcome("warned", type(warned[0]).__name__, message=f"{message}. {warned[0]}")
    has_numbers_only_where_right = np.all(excess[np.isfinite(found)] <= 0)
    return Outcome("nan" if has_numbers_only_where_right else "wrong", message=message)


def derivative(case, compiled):
    """Return the Jacobian, in the layout of `differences.jacobian`.

    A compiled function is called twice, because its first call runs the Python code and only the second replays it.
    """
    if not compiled:
        return np.asarray(wg.jacobian(case.f)(case.point))
    J = wg.jacobian(wg.compile(case.f))
    J(case.point * (1 + 1e-9))
    return np.asarray(J(case.point))


def row_scale(matrix, ndim):
    """Return the largest magnitude in each row of a Jacobian, broadcast to its entries, or 1 in a row of zeros."""
    axes = tuple(range(matrix.ndim - ndim, matrix.ndim))
    scale = np.max(abs(matrix), axis=axes, keepdims=True) if axes else abs(matrix)
    return np.where(scale > 0, scale, 1.0) + np.zeros(matrix.shape)


def failure(problem):
    """Return the outcome of an exception."""
    path, number, function = source(problem)
    line = linecache.getline(path, number).strip()
    where = f"{short(path)}:{number} {function}".strip() if path else ""
    message = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    if not isinstance(problem, wg.errors.Refusal) and type(problem).__module__ != wg.errors.__name__:
        reason = "type check" if "wengert" in message else type(problem).__name__
        return Outcome("error", reason, where, line, message)
    if "numba/" in path or calls_numba(path, line):
        return Outcome("refused", "Numba", where, line, message)
    for reason, said, written in REASONS:
        if re.search(said, message) and re.search(written, line):
            return Outcome("refused", reason, where, line, message)
    return Outcome("refused", type(problem).__name__, where, line, message)


def source(problem):
    """Return path, line number and function of the innermost frame outside wengert.

    An error that compiled code caught has no such frame: then the place is the one in its message.
    """
    frames = [(frame.f_code, number) for frame, number in traceback.walk_tb(problem.__traceback__)]
    frames = [(code, number) for code, number in frames if not is_ours(code.co_filename)]
    if frames:
        code, number = frames[-1]
        return code.co_filename, number, code.co_qualname
    place = re.search(r"\((\S+):(\d+)\)", str(problem))
    return (place[1], int(place[2]), "") if place else ("", 0, "")


def is_ours(path):
    """Return whether a frame belongs to wengert (Cython gives paths relative to the source tree) or to this folder."""
    return path.startswith((WENGERT, "src/wengert")) or (path.startswith(HERE) and not path.startswith(CASES))


def short(path):
    """Return a path relative to the installed packages, or the name of a file elsewhere."""
    return path.rpartition("site-packages/")[2] if "site-packages/" in path else "/".join(Path(path).parts[-2:])


def calls_numba(path, line):
    """Return whether a name in a source line is a function compiled by Numba."""
    modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == path]
    called = re.findall(r"(\w+)\(", line)
    found = [getattr(module, name, None) for module in modules for name in called]
    return any(type(value).__module__.startswith("numba.") for value in found)
