"""Raises, or warns, for uses of traced values that would lose a derivative: text, JSON, caches, overlapping memory.

Each error is also noted at the derivatives involved, which raise it again if the function catches it.
"""

from __future__ import annotations

import math
import sys

import numpy as np

from wengert.core import levels
from wengert.core.dispatch.arguments import broadcasts, leaves
from wengert.core.frames import at, caller, file_and_line, is_assignment, user_frame, where
from wengert.core.operands import var
from wengert.core.operands.var import plain
from wengert.deferred import deferred
from wengert.errors import NonSmoothError, TracedValueError, UnsupportedFunctionError

advice = deferred("wengert.core.advice")
spelling = deferred("wengert.core.dispatch.text")


def refusal(x, message: str, kind=TracedValueError):
    """Return the error for using a traced value, or the traced values in a list or tuple.

    The error is also noted at their derivatives, which may run in another thread.
    """
    error = kind(message)
    found = [level for item in leaves(x) if var.is_var(item) and (level := var.made_at(item)) is not None]
    if found:
        levels.remember(error, *found)
    return error


def operand_text(x, text: str, spec: str = "") -> str:
    """Return `text`, the formatted operand; raises as `written` does."""
    level = var.made_at(x)
    if level is None or not var.is_traced(x) or x.dtype.kind not in "fc":
        return text
    return _written(sys._getframe(1), x, text, spec, level)


#: modules of this package that format values for the user
_OF_USERS = frozenset(("wengert.numpy", "wengert.transforms.series"))


def written(x, text: str, spec: str = "") -> str:
    """Return `text`, a formatted value that has a derivative; raise if the user's line parses a number in it."""
    return _written(sys._getframe(1), x, text, spec)


def _written(frame, x, text, spec, *holders):
    module = frame.f_globals.get("__name__", "")
    is_ours = module.startswith("wengert.") and module not in _OF_USERS  # an error message is being formatted
    if is_ours or not spelling.keeps_all_digits(spec):
        return text
    purpose = spelling.purpose(user_frame())
    if purpose == "read":
        raise refusal(
            x,
            f"a number made from the text of a traced value{at()} has no derivative: use the value as it is, or "
            "wengert.stop_gradient(x) where a constant is meant",
        )
    if purpose == "unknown":
        levels.spell(*(file_and_line(caller()) if caller() else ("an unknown file", 0)), *holders)
    return text


def note_match(x, y) -> None:
    """Warn if a traced array equals a plain one other than zero: a cache may return what a plain call computed."""
    if var.is_traced(x) == var.is_traced(y):
        return
    x, y = (x, plain(y)) if var.is_traced(x) else (y, plain(x))
    if isinstance(y, (float, np.ndarray)) and np.ndim(y) == np.ndim(x) == 0:
        if plain(x) == y:
            note_scalar_match(x, float(y))
        return
    if not issubclass(type(y), np.ndarray) or y.dtype.kind != "f" or not y.ndim or var.is_passive(x):
        return
    if np.array_equal(plain(x), y) and y.any() and _is_compared_by_user(sys._getframe(1)):
        levels.warn_match(*file_and_line(caller()))


def note_scalar_match(x, y) -> None:
    """Warn if a traced scalar equals a plain one that has too many digits to be a constant of a formula."""
    if not var.is_traced(y) and is_long(float(plain(y))) and not var.is_passive(x):
        if _is_compared_by_user(sys._getframe(1)):
            levels.warn_match(*file_and_line(caller()))


def note_member(x, keys) -> None:
    """Warn if a traced value is among plain ones, as `note_scalar_match` does."""
    if var.is_traced(keys) and not var.is_traced(x):
        x, keys = keys, x
    if var.is_traced(x) and not var.holds_traced([keys]):
        values = np.ravel(plain(x))
        for y in values[np.isin(values, keys)][:1]:
            note_scalar_match(x, float(y))


def note_rounding(x, decimals) -> None:
    """Warn if rounding hardly changes a traced value: the result, which may be a key, counts as a constant."""
    decimals = plain(decimals)
    if isinstance(decimals, int) and decimals > 0 and not var.is_passive(x) and _is_compared_by_user(sys._getframe(1)):
        value = np.asarray(plain(x))
        if value.any() and np.all(abs(np.round(value, decimals) - value) <= MAX_ROUNDING * abs(value)):
            levels.warn_rounding(decimals, *file_and_line(caller()))


#: relative change up to which rounding counts as a matter of presentation, not as part of the formula
MAX_ROUNDING = 1e-2


def is_long(y: float) -> bool:
    """Return whether a number has more digits than a literal usually has and is no simple multiple of pi."""
    digits = repr(y).partition("e")[0].replace(".", "").strip("-0")
    return len(digits) > MAX_WRITTEN_DIGITS and not (MULTIPLES_OF_PI * y / math.pi).is_integer()


#: significant digits of numbers in formulas; a number from an earlier computation usually has 16
MAX_WRITTEN_DIGITS = 10
MULTIPLES_OF_PI = 180


#: modules of this package that replace others in the user's code
_STAND_INS = frozenset(("wengert.numpy", "wengert.standard_library", "wengert.standard_statistics"))


def _is_compared_by_user(frame):
    """Return whether the code that compares is the user's: not SciPy, a rule, or an assertion of `numpy.testing`."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("numpy.testing."):
            return False
        package = name.partition(".")[0]
        if package != "numpy" and name not in _STAND_INS and not name.startswith("wengert.core."):
            return package not in ("wengert", "scipy")
        frame = frame.f_back
    return False


def refuse_json(x) -> None:
    """Raise if ``json`` tests the class of a traced float, since it would write the plain value."""
    if not levels.is_tracing() or not var.is_traced(x) or var.is_passive(x) or not isinstance(var.value_of(x), float):
        return
    frame = user_frame()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "json":
        frame = frame.f_back
    place = f" ({where((frame.f_code, frame.f_lasti))})" if frame is not None else ""
    raise refusal(x, advice.through("json", place))


def check_row_store(x) -> None:
    """Raise if compiled code stores into a row of an array: a shuffle that swaps views would duplicate rows."""
    if not is_assignment():
        raise TracedValueError(
            f"compiled code swaps rows of a traced array{at()}, which would duplicate rows as they are views: write "
            "x = x[rng.permutation(len(x))] instead of rng.shuffle(x)"
        )


def refuse_overlap(x, key, value, what) -> None:
    """Raise if a store would overwrite elements of its source before reading them, storing element by element."""
    if not var.is_var(value) or not np.ndim(value) or not np.may_share_memory(*plain((x, value))):
        return
    written, read = _addresses(plain(x))[plain(key)], _addresses(plain(value))
    if not broadcasts(read.shape, written.shape):  # a store through .flat
        read = np.resize(read, written.shape)
    read, written = np.broadcast_to(read, written.shape).ravel().tolist(), written.ravel().tolist()
    first = dict(zip(reversed(written), range(len(written) - 1, -1, -1)))
    if any(first.get(address, i) < i for i, address in enumerate(read)):
        raise UnsupportedFunctionError(
            f"{what} overwrites elements before it reads them{at()}, so NumPy's result depends on the order of the "
            "stores: store value.copy()"
        )


def _addresses(x):
    """Return the memory address of each element of an array."""
    offsets = [np.arange(n) * stride for n, stride in zip(x.shape, x.strides)]
    return x.__array_interface__["data"][0] + sum(np.ix_(*offsets), np.zeros((), np.intp))


def is_undefined(given, found):
    """Return whether a rule produced NaN from inputs without NaN: rules return NaN where no derivative exists."""
    return np.isnan(var.plain(found)).any() and not any(np.isnan(var.plain(x)).any() for x in given)


def check_defined(row, found):
    """Raise if the derivative `found` contains NaN; `row` is the registry row without a derivative there, or None."""
    if row is not None and np.isnan(var.plain(found)).any():
        raise NonSmoothError(f"{row.name} has no derivative here: {row.undefined}")
