"""Reruns derivatives in which a traced value met a plain array, with code that wraps all new arrays.

Code is prepared for what its text shows: arrays of creation functions, and results that are assigned to a variable into
which the same code stores.  Other arrays that code computes stay plain, and a store of a traced value into one raises.
Then the whole derivative runs once more, from code in which each result of a call, an operator, an index, an attribute
or an iterator is wrapped if it is a new array (`results`).  If that run succeeds, its result is that of the derivative,
and the lines on which the filled arrays were made are kept: later preparations wrap results on these lines only.  If it
fails, the first error is raised.

The same holds for lists and tuples with traced values that meet a plain array in an operator, where NumPy would make a
plain array of them: in a rerun, and on the lines kept, they become arrays before the operator.  So do masked arrays
without masked elements that are the left operand of a traced value.

Only the outermost derivative is rerun, from its plain arguments, so no traced value of the first run is met again.
Changes that the function made in the first run remain, as after any error.

Invariants
- Code is prepared without the rest of this module as long as no derivative has been rerun.
- A line, once kept, stays: its arrays are constants that record nothing until a traced value is stored into them.
"""

import contextlib
import functools
from _thread import allocate_lock  # `threading` takes 0.5 ms to import
from contextvars import ContextVar

from wengert.core import levels
from wengert.core.rebind import results
from wengert.core.rebind.bytecode import codes_in
from wengert.core.rebind.registration import forget_plans
from wengert.errors import TracedValueError

#: start of the message of the error for a traced value that is stored in a plain array
REFUSED = "a traced value cannot be stored in a plain NumPy array: "
#: parts of the messages of errors for series and batches that may be stored in a plain array
AS_ARRAY, AS_FLOAT = "code that makes a plain array of it", "code that makes a Python float of it"
AS_OUT = "is a plain array, which cannot hold"
#: part of the message of the error for an operator that would make a plain or masked array of traced values
AS_OPERAND = " as an operand"

_MAX_FAILURES = 3  # number of failed reruns at the same place after which its error is raised at once
_MAX_PLACES = 1000

_lines: dict = {}  # file -> lines on which new arrays are wrapped
_failures: dict = {}  # the lines that led to an error -> number of reruns that failed
_lock = allocate_lock()
_reruns: list = []  # one item for each rerun in progress, in all threads
_reruns_here: ContextVar = ContextVar("wengert_reruns_here", default=False)  # is this context in one of them?
_wrapped: set = set()  # places at which the reruns in progress wrapped arrays, and at which filled arrays were made
_filled: set = set()
_watch = [lambda places: None]


class _AllLines:
    """All lines of a file."""

    def __contains__(self, line):
        return True


ALL = _AllLines()


def set_watch(watch):
    """Set the function that adds the places of arrays that are filled to a set from now on, or ends that for None."""
    _watch[:] = [watch]


def wrapped_lines(code):
    """Return the lines on which results are wrapped in code from the file of this code object; None for no lines."""
    if not (_lines or _reruns):
        return None
    return ALL if _reruns else _lines.get(code.co_filename)


def wraps_results(code):
    """Return whether results are wrapped in a code object or in those nested in it."""
    lines = wrapped_lines(code)
    if lines is None or lines is ALL:
        return lines is ALL
    return any(line in lines for each in codes_in(code) for _, _, line in each.co_lines())


def rerun_if_refused(evaluate):
    """Decorate a function that evaluates a derivative from its plain arguments, such that it is rerun if necessary."""

    @functools.wraps(evaluate)
    def call(*args, **kwargs):
        try:
            return evaluate(*args, **kwargs)
        except TracedValueError as error:
            if not may_rerun(error):
                raise
            return rerun(error, evaluate, *args, **kwargs)

    return call


def may_rerun(error):
    """Return whether to rerun the derivative that ended with an error."""
    text = str(error)
    if not any(part in text for part in (REFUSED, AS_ARRAY, AS_FLOAT, AS_OUT, AS_OPERAND)):
        return False
    if _reruns_here.get() or not levels.is_outermost():
        return False
    return _failures.get(_place_of(error), 0) < _MAX_FAILURES


def rerun(error, evaluate, /, *args, **kwargs):
    """Return ``evaluate(*args, **kwargs)``, which raised `error`, from a rerun; raise the error if that fails."""
    if not _holds_iterator((args, kwargs)):
        with _rerunning(), contextlib.suppress(Exception):
            y = evaluate(*args, **kwargs)
            _keep_lines()
            return y
    if len(_failures) >= _MAX_PLACES:
        _failures.clear()
    place = _place_of(error)
    _failures[place] = _failures.get(place, 0) + 1
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _holds_iterator(value):
    """Return whether an iterator, which the first run may have advanced, is among these arguments."""
    if isinstance(value, (tuple, list)):
        return any(map(_holds_iterator, value))
    return any(map(_holds_iterator, value.values())) if isinstance(value, dict) else hasattr(type(value), "__next__")


def _place_of(error):
    """Return the message of an error and the lines from the derivative to the place at which it was raised."""
    found, at = [str(error)], error.__traceback__
    while at is not None:
        found.append((at.tb_frame.f_code.co_filename, at.tb_lineno))
        at = at.tb_next
    return tuple(found)


@contextlib.contextmanager
def _rerunning():
    """Block in which code is prepared anew, with all new arrays wrapped."""
    token = _reruns_here.set(True)
    with _lock:
        _reruns.append(token)
        if len(_reruns) == 1:
            _wrapped.clear()
            _filled.clear()
            _watch_places(_wrapped, _filled)
            forget_plans()
    try:
        yield
    finally:
        with _lock:
            _reruns.remove(token)
            if not _reruns:
                _watch_places(None, None)
                forget_plans()
        _reruns_here.reset(token)


def note_operand(frame):
    """In a rerun, note the line of a frame on which a list or tuple became an operand."""
    if _reruns:
        _filled.add((frame.f_code.co_filename, frame.f_lineno))


def _watch_places(wrapped, filled):
    results.note_places(wrapped)
    _watch[0](filled)


def _keep_lines():
    """From now on, wrap results on the lines that made the arrays which this rerun filled.

    If none of these lines is new, an array was made in a way that is not noted, so that all lines are kept.
    """
    with _lock:
        known = {(file, line) for file, lines in _lines.items() for line in lines}
        for file, line in _filled - known or _wrapped.copy():  # other threads add to it
            _lines[file] = _lines.get(file, frozenset()) | {line}
