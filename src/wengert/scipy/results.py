"""SciPy's result objects with a traced solution.

Fields that count or describe the run keep their plain values.
Other fields that depend on the solution, such as a Jacobian or a solver's approximation of it, would lose their
derivative silently; reading one raises an error that says what to write.
"""

from __future__ import annotations

from typing import Any

from scipy.optimize import OptimizeResult

from wengert.errors import TracedValueError

#: fields whose derivative is zero
_CONSTANT = ("success", "status", "message", "method", "nfev", "njev", "nhev", "nit", "optimality", "active_mask")

#: advice for other fields, by name
_INSTEAD = {
    **dict.fromkeys(
        ("jac", "grad", "hess", "hess_inv", "fjac", "cov_x", "lagrangian_grad"),
        "write wengert.jacobian(f)(x) or wengert.hessian(f)(x) at the solution x",
    ),
    **dict.fromkeys(("multipliers", "v"), "wengert.implicit.kkt returns multipliers with their derivatives"),
    "marginals": "they are not unique where more constraints meet than there are variables, where equations follow "
    "from others, and with integer variables",
}
_ELSE = "compute it from the solution x, which has its derivative"


class _TracedFields(dict):
    """Dictionary that knows which of its names were removed."""

    def __missing__(self, name):
        error = self.__dict__.get("_errors", {}).get(name)
        if error is not None:
            raise error
        refused = self.__dict__.get("_refused", ())
        if name in refused:
            raise TracedValueError(f"{name!r} of this result is not differentiated: {_INSTEAD.get(name, _ELSE)}")
        raise KeyError(name)


class TracedResult(_TracedFields, OptimizeResult):
    """`OptimizeResult` in a derivative, without the fields that are not differentiated."""


class TracedDict(_TracedFields):
    """Dictionary of results in a derivative, without the entries that are not differentiated."""


class NotDifferentiated:
    """Part of a result that has no derivative; using it raises."""

    def __init__(self, what: str, instead: str):
        self.__dict__["_message"] = f"{what} of this result are not differentiated: {instead}"

    def __getattr__(self, name):
        raise TracedValueError(self._message)

    __getitem__ = __getattr__


class RecordedResult(OptimizeResult):
    """`OptimizeResult` in a program, with only the fields that are the same in every replay."""

    def __missing__(self, name):
        from wengert.program.tracing.refusals import NotReplayable  # slow to import

        raise NotReplayable(f"it reads {name!r} of a solver's result, which may differ in each run")

    def __getattr__(self, name):
        return self[name]

    def _refuse(self, *args, **kwargs):
        self["its items"]

    __iter__ = __len__ = __repr__ = __str__ = __eq__ = __contains__ = __reduce_ex__ = _refuse
    get = keys = values = items = copy = pop = popitem = update = setdefault = __dir__ = __or__ = __ror__ = _refuse
    __hash__ = None


def recorded_result(**fields: Any) -> RecordedResult:
    """Result with the fields that are the same in every replay."""
    result = RecordedResult()
    for name, value in fields.items():
        dict.__setitem__(result, name, value)
    return result


def traced_result(found: dict, constant: tuple = (), **fields: Any) -> dict:
    """Return the constant fields of `found`, with the given traced or added fields."""
    kind = TracedResult if isinstance(found, OptimizeResult) else TracedDict
    result = kind({name: value for name, value in found.items() if name in (*_CONSTANT, *constant)})
    result.update(fields)
    result.__dict__["_refused"] = found.keys() - result.keys()
    return result


def without(result: dict, name: str, error: Exception) -> dict:
    """Remove a field that has no derivative from a result; reading it raises the error."""
    del result[name]
    result.__dict__["_errors"] = {name: error}
    return result
