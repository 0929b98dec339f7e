"""Result objects of SciPy's around a traced solution.

Fields that count or describe the run keep their plain values.
What else depends on the solution, such as a Jacobian there or a solver's own approximation of one, would lose its
derivative silently: asking for it raises and says what to write.
"""

from __future__ import annotations

from typing import Any

from scipy.optimize import OptimizeResult

from wengert.containers import plain_copy
from wengert.errors import TracedValueError
from wengert.program.tracing.closure import NotReplayable

#: fields whose derivative is zero
_CONSTANT = ("success", "status", "message", "method", "nfev", "njev", "nhev", "nit", "optimality", "active_mask")

_INSTEAD = "write wengert.jacobian(f)(x) or wengert.hessian(f)(x) at the solution x"


class _Followed(dict):
    """A dictionary that knows which names were taken out of it."""

    def __missing__(self, name):
        refused = self.__dict__.get("_refused", ())
        if name in refused:
            raise TracedValueError(f"{name!r} of this result is not followed in a derivative: {_INSTEAD}")
        raise KeyError(name)


class TracedResult(_Followed, OptimizeResult):
    """An `OptimizeResult` in a derivative, without the fields that are not followed."""


class TracedDict(_Followed):
    """A dictionary of results in a derivative, without the entries that are not followed."""


class RecordedResult(OptimizeResult):
    """An `OptimizeResult` in a program: what else it tells changes from one replay to the next."""

    def __missing__(self, name):
        raise NotReplayable(f"it reads {name!r} of the result of a solver, which each run gives anew")

    def __getattr__(self, name):
        return self[name]

    def _refuse(self, *args, **kwargs):
        self["its items"]

    __iter__ = __len__ = __repr__ = __str__ = __eq__ = __contains__ = __reduce_ex__ = _refuse
    get = keys = values = items = copy = pop = popitem = update = setdefault = __dir__ = __or__ = __ror__ = _refuse
    __hash__ = None


def recorded_result(**fields: Any) -> RecordedResult:
    """The solution with what a program is sure of."""
    result = RecordedResult()
    for name, value in fields.items():
        dict.__setitem__(result, name, value)
    return result


def followed(found: dict, constant: tuple = (), **fields: Any) -> dict:
    """`found` with the fields that are traced or added, and of the others those that are constants."""
    kind = TracedResult if isinstance(found, OptimizeResult) else TracedDict
    result = kind({name: value for name, value in found.items() if name in (*_CONSTANT, *constant)})
    result.update(fields)
    result.__dict__["_refused"] = found.keys() - result.keys()
    return result


def with_bits(value: Any, traced: Any) -> Any:
    """SciPy's `value` with the derivative of `traced`, which is the same number to rounding."""
    return value - (plain_copy(traced) - traced)  # of -0.0 too
