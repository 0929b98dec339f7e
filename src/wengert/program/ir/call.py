"""A call of a Python function in a listing: plain, picklable data."""

from __future__ import annotations

import numpy as np

from wengert.program.ir.identity import Same
from wengert.program.ir.opcodes import Op

#: where functions are that do nothing but to compute
_FUNCTIONS = ("_operator.", "numpy.", "scipy.", "wengert.program.ir.call_rules.", "wengert.rules.")

#: elements of an array that are shown, and arguments of a call
_MAX_SHOWN = 8


class Operand:
    """Stands in `Call.args` for a value: operand number `position` of the call."""

    __slots__ = ("position",)

    def __init__(self, position):
        self.position = position

    def __repr__(self):
        return f"%{self.position}"

    def __eq__(self, other):
        return type(other) is Operand and other.position == self.position

    def __hash__(self):
        return hash((Operand, self.position))


class Call:
    """``compute(*args, **kwargs)``, an `Operand` in args, or in a list or tuple there, replaced by its value.

    `operands` are the ids of these values, `row` the registry's row of what was called.
    """

    __slots__ = ("args", "compute", "kwargs", "operands", "row")

    def __init__(self, compute, args, kwargs, operands, row=None):
        self.compute = compute
        self.args = args
        self.kwargs = kwargs
        self.operands = operands
        self.row = row

    def on(self, operands):
        """The same call of other values."""
        return Call(self.compute, self.args, self.kwargs, operands, self.row)

    def __repr__(self):
        given = [self._shown(value) for value in self.args]
        if len(given) > _MAX_SHOWN:
            given[_MAX_SHOWN // 2 : -1] = ["..."]
        given += [f"{key}={self._shown(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"

    @property
    def checks(self):
        """Must it be run even where nothing needs its result, since it holds guards?"""
        return getattr(self.compute, "checks", False)

    @property
    def name(self):
        """Of what is called."""
        return getattr(self.compute, "__qualname__", None) or getattr(self.compute, "__name__", repr(self.compute))

    def _shown(self, value):
        if type(value) is Operand:
            return f"v{self.operands[value.position]}"
        if type(value) in (list, tuple):
            items = ", ".join(map(self._shown, value))
            return f"[{items}]" if type(value) is list else f"({items}{',' if len(value) == 1 else ''})"
        if type(value) is np.ndarray and value.size > _MAX_SHOWN:
            return f"{value.dtype}{list(value.shape)}"
        return repr(value)


def is_function(call) -> bool:
    """Is a call one of NumPy, SciPy or the rules: has it the same result whenever its operands are the same?"""
    return call.row is not None and call.row.name.startswith(_FUNCTIONS)


def is_solution(call) -> bool:
    """Is what is called defined by equations, so that it gives the lists of its derivatives itself?

    ``compute.tangent(call, moved, known)`` is the list of the tangent of the result, of the tangents of the operands
    `moved`, the result, the operands, and `known` values of the list around, see `known_solutions`;
    ``compute.adjoints(call, wanted, known)`` that of the adjoints of the operands `wanted`, of the adjoint of the
    result and the same.
    """
    return hasattr(call.compute, "adjoints")


def known_solutions(code) -> dict[int, list]:
    """What a list has of derivatives of its solutions, by identity: for those that it calls once, what they look for.

    ``compute.parts`` are other functions, of which it is the values.
    """
    called = [(v, code.calls[a].compute) for v, a in zip(*_calls_of(code))]
    values: dict[int, list] = {}
    for v, compute in called:
        values.setdefault(id(compute), []).append(v)
    found = {}
    for _, compute in called:
        parts = [values.get(id(part), []) for part in getattr(compute, "parts", ())]
        if len(values[id(compute)]) == 1 and parts and all(len(part) == 1 for part in parts):
            found[id(compute)] = [part[0] for part in parts]
    return found


def _calls_of(code):
    places = np.flatnonzero(code.op == Op.CALL)
    return places.tolist(), code.a[places].tolist()


def static(x):
    """What tells arguments apart that are no values; what cannot be told is equal to nothing."""
    if isinstance(x, (tuple, list)):
        return type(x).__name__, *map(static, x)
    if isinstance(x, dict):
        return tuple((key, static(value)) for key, value in x.items())
    if isinstance(x, slice):
        return "slice", static(x.start), static(x.stop), static(x.step)
    if isinstance(x, np.ndarray):  # `Same` keeps it: another array cannot have its identity as long as the key is known
        return x.dtype.str, x.shape, x.tobytes() if _by_content(x) else Same(x)
    if isinstance(x, (float, np.floating)):
        return type(x).__name__, float(x).hex()
    if isinstance(x, (complex, np.complexfloating)):
        return type(x).__name__, float(x.real).hex(), float(x.imag).hex()
    try:
        hash(x)
    except TypeError:
        return object()
    return type(x).__name__, x


def _by_content(x):
    """Are two such arrays told apart by what they hold, not by which they are?"""
    return x.size < 64 and x.dtype != object


def is_told(x) -> bool:
    """Does `static` tell these arguments from all others, whatever becomes of them?"""
    if isinstance(x, dict):
        return all(map(is_told, x.values()))
    if isinstance(x, (tuple, list)):
        return all(map(is_told, x))
    if isinstance(x, np.ndarray):
        return _by_content(x)
    return x is None or x is np._NoValue or isinstance(x, (Operand, str, bool, int, float, complex, np.generic))
