"""Passes copies of the arrays that a function writes into, so that they can hold traced values.

The arguments that the code may write into are found by `wengert.core.rebind.stores`.
As for differentiated arguments, the caller's arrays stay as they were, and a warning says so once.
"""

import sys
import warnings
import weakref

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.dispatch.arguments import clean
from wengert.core.levels import lifted_by, running
from wengert.core.modes.pullback import was_written
from wengert.core.operands import var
from wengert.core.rebind.registration import lookup
from wengert.errors import MutatedInputWarning

_warned: weakref.WeakSet = weakref.WeakSet()


def with_own_copies(f, run, indices, bound=0):
    """Wrap `run`, a copy of the Python function `f`, so that it receives copies of the arguments at these indices.

    `bound` is the number of leading arguments that are already bound in `run`: 1 for a method.
    """
    code = f.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    positions = [i - bound for i in indices if bound <= i < code.co_argcount]
    first_of_rest = code.co_argcount - bound if code.co_flags & 4 and count in indices else sys.maxsize
    names = {code.co_varnames[i] for i in indices if i < count}
    takes_any = bool(code.co_flags & 8) and count + bool(code.co_flags & 4) in indices
    known = {*code.co_varnames[:count]}

    def enter(*args, **kwargs):
        own = _Copies((*args, *kwargs.values()))
        given = [*args]
        for i in (*positions, *range(first_of_rest, len(given))):
            if i < len(given):
                given[i] = own(given[i])
        for name in kwargs:
            if name in names or (takes_any and name not in known):
                kwargs[name] = own(kwargs[name])
        if own.made:  # an array may be passed twice
            given = [own.made.get(id(x), (x,))[0] for x in given]
            kwargs = {name: own.made.get(id(x), (x,))[0] for name, x in kwargs.items()}
        y = run(*given, **kwargs)
        own.check(f)
        return y

    return enter


class _Copies:
    """Copies of arrays among the arguments of one call, each made once."""

    def __init__(self, arguments):
        levels = running.get()
        self.level = levels[-1].level if levels else None
        self.arrays = [x for x in arguments if type(x) is np.ndarray]
        self.made = {}  # id of an array -> its copy and the array

    def __call__(self, value):
        kind = type(value)
        if getattr(kind, "_wengert_original", None) is np.ndarray:  # a view of a constant array
            return self(value.view(np.ndarray))
        if kind is np.ndarray:
            if value.dtype.kind not in "fc" or self.overlaps(value):
                return value
            return self.copied(value, _clean)
        if kind in (list, tuple):
            items = [*map(self, value)]
            return kind(items) if any(map(lambda a, b: a is not b, items, value)) else value
        if kind is dict:
            items = {key: self(item) for key, item in value.items()}
            return items if any(items[key] is not value[key] for key in value) else value
        if var.is_var(value) and not var.is_scalar(value) and var.level_of(value) is not self.level:
            return self.copied(value, _copied)
        return value

    def copied(self, value, copy):
        if id(value) not in self.made:
            self.made[id(value)] = copy(value), value
        return self.made[id(value)][0]

    def overlaps(self, value):
        """Return whether an array shares memory with another argument, which would miss writes to a copy."""
        return any(other is not value and np.may_share_memory(value, other) for other in self.arrays)

    def check(self, f):
        """Warn if f wrote into one of the copies."""
        for copy, value in self.made.values():
            if type(value) is np.ndarray and _differs(copy, value) and self.level is not None:
                warn_written(f, self.level.name)


def _clean(value):
    made, lift = value.copy("K"), lifted_by()
    return clean(made) if lift is None else lift.made(made)


def _copied(value):
    return dispatch.function(np.copy, (value,), {"order": "K"})


def _differs(copy, value):
    """Return whether an array that a function worked on differs from the original argument."""
    if not var.is_var(copy):
        return False
    return was_written(copy) or var.is_traced(copy) or not np.array_equal(var.plain(copy), value, equal_nan=True)


def warn_written(f, name: str) -> None:
    """Warn, once for each function, that it wrote into an argument."""
    try:
        if f in _warned:
            return
        _warned.add(f)
    except TypeError:  # f has no weak references: warn each time
        pass
    warnings.warn(
        f"{name}: the function wrote into its argument; the caller's array was left as it was. "
        "Write x = x.copy() first if the change is local",
        MutatedInputWarning,
        stacklevel=frames_inside(),
    )


def frames_inside() -> int:
    """Stack level, counted from the caller, of the first frame outside this package."""
    level = 1
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "wengert":
        frame = frame.f_back
        level += 1
    return level


lookup.with_own_copies = with_own_copies
