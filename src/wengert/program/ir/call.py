"""Opaque calls of Python functions in a program, as plain picklable data."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np

from wengert.program.ir.identity import Same
from wengert.program.ir.opcodes import Op

#: modules whose functions have no side effects and depend only on their arguments
_FUNCTIONS = ("_operator.", "numpy.", "scipy.", "wengert.program.ir.call_rules.", "wengert.rules.")

#: values of the registry column `scalars` for products of two arrays, and for reductions with a VM kernel
PRODUCTS = frozenset(("matmul", "dot", "inner", "vdot", "vecdot"))
FOLDS = frozenset(("sum", "max", "min"))

#: limit on printed array elements and call arguments
_MAX_SHOWN = 8


#: whether calls with tolerances (``compute.is_approximate``) return results that are perturbed within them
perturbed: ContextVar[bool] = ContextVar("wengert_perturbed", default=False)


class Operand:
    """Placeholder in `Call.args` for operand number `position` of the call."""

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
    """``compute(*args, **kwargs)``, with each `Operand` in args, or in a list or tuple there, replaced by its value.

    `operands` holds the value ids, `row` the registry row of the called function.
    """

    __slots__ = ("args", "compute", "kwargs", "operands", "row")

    def __init__(self, compute, args, kwargs, operands, row=None):
        self.compute = compute
        self.args = args
        self.kwargs = kwargs
        self.operands = operands
        self.row = row

    def on(self, operands):
        """Return this call with other operands."""
        return Call(self.compute, self.args, self.kwargs, operands, self.row)

    def __repr__(self):
        given = [self._shown(value) for value in self.args]
        if len(given) > _MAX_SHOWN:
            given[_MAX_SHOWN // 2 : -1] = ["..."]
        given += [f"{key}={self._shown(value)}" for key, value in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"

    @property
    def checks(self):
        """Whether the call contains guards, so that it is not dead code even if its result is unused."""
        return getattr(self.compute, "checks", False)

    @property
    def name(self):
        """Name of the called function."""
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


def called(code, compute, arguments, shape: tuple, row) -> int:
    """Append a call that returns float64 of this shape; arguments that are ints are values, others are constants."""
    values = [x for x in arguments if type(x) is int]
    count = iter(range(len(values)))
    args = tuple(Operand(next(count)) if type(x) is int else x for x in arguments)
    return code.call(Call(compute, args, {}, values, row), (np.dtype(float), shape, None))


def is_function(call) -> bool:
    """Return whether a call is pure: a function of NumPy, SciPy or the rules, determined by its operands."""
    return call.row is not None and call.row.name.startswith(_FUNCTIONS)


def is_solution(call) -> bool:
    """Return whether the callee is an implicit function, which supplies the programs of its derivatives itself.

    ``compute.tangent(call, moved, known)`` returns the program of the result's tangent. Its inputs are the tangents of
    the operands `moved`, the result, the operands, and the values `known` of the calling program (`known_solutions`).
    ``compute.adjoints(call, wanted, known)`` returns the program of the adjoints of the operands `wanted`. Its inputs
    are the adjoint of the result, the result, the operands, and the values `known`.
    """
    return hasattr(call.compute, "adjoints")


def known_solutions(code) -> dict[int, list]:
    """Map ids of implicit functions to values in the program that their derivatives can reuse.

    These are the results of the functions ``compute.parts``, if the program calls the implicit function and each part
    exactly once.
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
    """Return a hashable key of static arguments; for an unhashable argument, one that equals no other key."""
    if isinstance(x, (tuple, list)):
        return type(x).__name__, *map(static, x)
    if isinstance(x, dict):
        return tuple((key, static(value)) for key, value in x.items())
    if isinstance(x, slice):
        return "slice", static(x.start), static(x.stop), static(x.step)
    if isinstance(x, np.ndarray):  # `Same` holds a reference, so that the id is not reused while the key exists
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
    """Return whether `static` compares an array by content rather than by identity."""
    return x.size < 64 and x.dtype != object


def is_told(x) -> bool:
    """Return whether the `static` key of these arguments is by value, hence stable if objects are mutated."""
    if isinstance(x, dict):
        return all(map(is_told, x.values()))
    if isinstance(x, (tuple, list)):
        return all(map(is_told, x))
    if isinstance(x, np.ndarray):
        return _by_content(x)
    return x is None or x is np._NoValue or isinstance(x, (Operand, str, bool, int, float, complex, np.generic))


def product_of(call):
    """Return which product, one of `PRODUCTS`, a call without keywords computes; None for other calls."""
    if call.row is None or call.row.scalars not in PRODUCTS or len(call.args) != 2 or call.kwargs:
        return None
    return call.row.scalars


def fold_of(call):
    """Return which reduction of axes a call computes, one of `FOLDS`; None for other calls."""
    row = call.row
    return row.scalars if row is not None and call.compute is row.fun and row.scalars in FOLDS else None
