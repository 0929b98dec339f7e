"""Compares replays of a compiled function with the function itself, and tells rounding errors from stale programs."""

from __future__ import annotations

import numpy as np

from wengert.core.levels import Unrecorded
from wengert.errors import ReplayMismatchError, StaleProgramError
from wengert.program import record
from wengert.program.ir.call import perturbed
from wengert.program.specialise.compare import HessianProduct, difference, distance, is_unchanged
from wengert.program.specialise.fast_call import Caller
from wengert.program.tracing.pytree import fill
from wengert.program.tracing.refusals import NotReplayable
from wengert.transforms.operators import Operator

__all__ = ["Checked", "restored"]

#: difference of a replay from f, in ulps of the largest magnitude, above which f is traced again to find the reason
MAX_ULPS = 512
#: factor by which a difference attributed to rounding may grow before f is traced again
MAX_ROUNDING_GROWTH = 8

#: signs of these changes; a prime number of them, so that they do not repeat from row to row
_SIGNS = np.sign(np.sin(np.arange(1.0, 1022.0) ** 2))

#: a difference from f may be this multiple of the effect of perturbing integrations within their tolerances
MAX_PERTURBATIONS = 10


class Checked(Caller):
    """A compiled function whose results are compared with those of the original function at some calls."""

    def _matches_f(self, path, y, reading, args, kwargs, leaves):
        """Compare a result with that of f; return False to run f eagerly."""
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        before = [leaf.copy() for leaf in arrays]
        try:
            expected = self._eager_value(args, kwargs, reading, leaves)
        except NotReplayable:  # raised inside derivatives only
            self._scan_all()
            return False
        if not all(map(is_unchanged, arrays, before)):
            self._give_up("it writes into an array that it was given; copy it first")
            for leaf, old in zip(arrays, before):
                leaf[...] = old
            return False
        try:
            if self._agrees(path, y, expected, reading, args, kwargs, leaves, is_first=False):
                return True
        except (Unrecorded, NotReplayable):  # f now takes a branch that was not or cannot be traced
            self._drop_recordings()
            return False
        raise ReplayMismatchError(
            f"{self!r}: {self._name}, run uncompiled, gives another value than a recording made at the same point. "
            "Does it test the type of a value, or depend on more than its arguments? The recordings have been dropped"
        )

    def _agrees(self, path, y, expected, reading, args, kwargs, leaves, is_first=True):
        """Return whether a result differs from that of f only by rounding."""
        is_exact = self.exact and not isinstance(self.f, Operator)
        if type(expected) is HessianProduct:
            if difference(expected.with_matrix(y), expected.value) <= MAX_ULPS:
                return True
            expected = self.f(*args, **kwargs)
        apart = difference(y, expected)
        if apart <= (0 if is_exact else max(MAX_ULPS, MAX_ROUNDING_GROWTH * path.rounding)):
            return True
        if not is_exact and _is_within_tolerances(path.program, y, expected, leaves):
            return True
        if is_first and not is_exact and _is_within_rounding(path.program, y, expected, leaves):
            path.rounding = apart  # found without tracing again
            return True
        # A new trace shows whether captured state has changed, and an exact trace whether f amplifies rounding.
        with self._lock:
            again = y if is_first else self._retraced(args, kwargs, reading, self.exact, leaves)
            if difference(again, y):
                self._drop_recordings()
                raise StaleProgramError(
                    f"{self!r}: {self._name} now gives another value than its recording: it draws random numbers, "
                    "or a value has changed that is not checked at each call, such as one declared constant. Pass the "
                    "value as an argument, or store it in a global or an attribute; recheck=1 compares at each call. "
                    "The recordings have been dropped, so the next call is right"
                )
            exact = again if is_exact else self._retraced(args, kwargs, reading, True, leaves)
        amplified = 0 if is_exact else max(MAX_ULPS, 1000 * difference(exact, y))
        is_lost = not is_exact and amplified == np.inf  # a NaN or an infinity, which rounding does not make
        if (is_lost or difference(exact, expected) > amplified) and (
            is_exact or not _is_within_rounding(path.program, y, expected, leaves)
        ):
            if not is_first:
                self._drop_recordings()
            return False
        path.rounding = max(path.rounding, apart)
        return True

    def _retraced(self, args, kwargs, reading, exact, leaves):
        """Trace f again and return the result."""
        program = record.trace(self.f, args, kwargs, reading, exact, self._disabled)
        return restored(program, program._execute(leaves))

    def _eager_value(self, args, kwargs, reading, leaves):
        """Evaluate f with plain values in place of captured operands."""
        numbers = iter(leaves)
        args, kwargs = fill((args, kwargs), numbers)
        return (self.f if reading.is_plain else reading.bound(numbers))(*args, **kwargs)


def _is_within_tolerances(program, y, expected, leaves):
    """Return whether a result differs from that of f by no more than the tolerances of its integrations allow."""
    if not getattr(program, "_is_approximate", False):
        return False
    token = perturbed.set(True)
    try:
        moved = restored(program, program._execute(leaves))
    finally:
        perturbed.reset(token)
    return distance(y, expected) <= MAX_PERTURBATIONS * distance(y, moved)


def _is_within_rounding(program, y, expected, leaves):
    """Return whether a result differs from that of f by no more than the effect of changing the inputs by `MAX_ULPS`.

    This holds for results near 0 of functions that call compiled ones, whose rounding errors no trace repeats.
    """
    moved = [_moved(x, k) if np.isrealobj(x) else x for k, x in enumerate(leaves)]
    values = program._try_execute(moved)
    return type(values) is not int and distance(y, expected) <= distance(y, restored(program, values))


def _moved(x, k):
    """Return leaf number k changed up or down, element by element, by between one and two times `MAX_ULPS`.

    A common factor would cancel in quotients, such as solutions of linear systems. `np.spacing` would take ten times
    as long.
    """
    kind = getattr(x, "dtype", np.dtype(float)).type
    if not issubclass(kind, np.floating):
        return x
    signs = np.resize(np.roll(_SIGNS, k), np.shape(x)) if np.ndim(x) else _SIGNS[-k % _SIGNS.size]
    with np.errstate(all="ignore"):
        return x * (1.0 + signs * (MAX_ULPS * np.finfo(kind).eps)).astype(kind)


def restored(program, y):
    """Build the result of f from the program's outputs."""
    return y[0] if program._result_of_outputs is None else program._result_of_outputs(y)
