"""`scipy.integrate.solve_ivp` in programs: one instruction that integrates without Python.

The right-hand side is traced at unknown time and state, within the recording of the function that integrates; what it
reads from there are its parameters (see `wengert.implicit.recorded`).
The steps are SciPy's up to rounding.
A program cannot hold results whose shape depends on values, or right-hand sides whose jumps have to be searched for
along the steps; the function then runs eagerly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.operands.var import holds_traced, is_traced
from wengert.errors import GuardError, UnsupportedFunctionError
from wengert.implicit.recorded import Part, sliced
from wengert.program.derivatives import NotDerivable
from wengert.program.integration.calls import Integration, integration_row
from wengert.program.integration.methods import EXPLICIT
from wengert.program.integration.system import MissingBranch, System
from wengert.program.ir.call import FOLDS, PRODUCTS, Operand
from wengert.program.ir.call import Call as ProgramCall
from wengert.program.ir.ir import c_strides, kind_of, operands
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.passes import pipeline
from wengert.program.program import Program
from wengert.program.signature import Form, Result, Slot
from wengert.program.tracing.closure import NotHere, NotReplayable
from wengert.program.tracing.trace import recording
from wengert.scipy.results import recorded_result

#: maximum number of states for implicit methods, which factorise dense matrices
MAX_STATES = 500

#: options of SciPy's methods
OPTIONS = {"rtol", "atol", "first_step", "max_step"}

#: instructions without a jump: continuous functions, and those that move elements
CONTINUOUS = {
    *map(int, OPCODES.values()),
    *map(int, (Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.PUT, Op.SUM)),
    *map(int, (Op.GATHER, Op.SCATTER)),
}

_EPS = np.finfo(float).eps


def has_fixed_jumps(system: System) -> bool:
    """Return whether a right-hand side can only jump at fixed times, which have no derivatives.

    Such jumps are where a function of nothing but the time jumps, and where a branch depends on nothing but the time.
    Other branches are guards: the program fails where another one is taken, so it does not pass a jump there.
    """
    has_branches = len(system.others) > 0
    return all(_has_fixed_jumps(each.program._listing, has_branches) for each in (system, *system.others))


def _has_fixed_jumps(code, has_branches):
    guarded = [int(code.a[v]) for v in np.flatnonzero(code.op == Op.GUARD)] if has_branches else []
    needed: set = set()
    todo = [*code.outputs, *guarded]
    while todo:
        v = todo.pop()
        if v not in needed:
            needed.add(v)
            todo += operands(code, v)
    of_time = _functions_of_time(code, sorted(needed))
    return all(v in of_time for v in guarded) and all(v in of_time or _is_continuous(code, v, of_time) for v in needed)


def _functions_of_time(code, values):
    """Return which values depend on no other element of x than the first one, given the values in their order."""
    found: set = set()
    starting = set(code.inputs)  # x, and views that start as x does
    for v in values:
        given = operands(code, v)
        if v in starting or code.op[v] == Op.VIEW and given[0] in starting and _is_start(code, v):
            starting.add(v)
        if v not in code.inputs and all(w in found or w in starting and _is_first(code, v) for w in given):
            found.add(v)
    return found


def _is_start(code, v):
    """Return whether a view starts as what it views."""
    offset, shape, strides = code.views[code.b[v]]
    return offset == 0 and len(shape) == 1 and strides == (8,)


def _is_first(code, v):
    """Return whether an instruction that reads an array reads its first element."""
    if code.op[v] == Op.LOAD:
        return code.b[v] == 0
    return code.op[v] == Op.VIEW and code.views[code.b[v]][0] == 0 and math.prod(code.views[code.b[v]][1]) == 1


def _is_continuous(code, v, of_time):
    op = code.op[v]
    if op == Op.SELECT:
        return code.a[v] in of_time
    if op != Op.CALL:
        return int(op) in CONTINUOUS
    call = code.calls[code.a[v]]
    return call.row is not None and (
        call.row.scalars in PRODUCTS | FOLDS or call.row.is_continuous(call.args, call.kwargs)
    )


def recorded_solution(name: str, f: Callable, span: tuple, y0: Any, method: str, call: dict, memory: float) -> Any:
    """Append an integration to the recording, and return its result, of SciPy's form.

    Parameters
    ----------
    name : str
        Name of the function, for error messages.
    f : callable
        The right-hand side as a function of time and state, on traced values.
    span, y0, method : tuple, ndarray, str
        Ends of the interval, initial state of shape (n,), and the name of the method.
    call : dict
        The other arguments of SciPy's function.
    memory : float
        Bytes for the steps in a reverse sweep.

    Raises
    ------
    NotReplayable
        If a program can't hold the integration.
    """
    around, is_complex = recording.get(), y0.dtype.kind == "c"
    times, is_last = call["t_eval"], call["t_eval"] is None
    if is_last:
        times = wnp.reshape(span[1], (1,)) if is_traced(span[1]) else np.array([float(span[1])])
    _refuse(name, y0, times, method, call)
    options = stepper_options(name, call, np.size(y0), is_complex)
    start, rate = (pairs(y0), on_pairs(f)) if is_complex else (y0, f)
    times = times if is_traced(times) else np.asarray(times, dtype=float).reshape(-1)
    if any(map(is_traced, (*span, times))):
        every = wnp.concatenate([wnp.stack([x if is_traced(x) else float(x) for x in span]), times])
    else:
        every = np.array([*span, *times], dtype=float)
    y = _integrated(around, name, rate, every, start, method, options, memory)
    y = from_pairs(y) if is_complex else y
    message = "The solver successfully reached the end of the integration interval."
    fields = {"sol": None, "t_events": None, "y_events": None, "status": 0, "message": message, "success": True}
    if is_last:
        return recorded_result(t=Last(name, times[0]), y=Last(name, y[0]), **fields)
    return recorded_result(t=times, y=y.T, **fields)


def pairs(x: Any) -> Any:
    """Return the real and imaginary parts of complex numbers in turn, as an array with one axis."""
    return wnp.reshape(wnp.stack([wnp.real(x), wnp.imag(x)], axis=-1), (-1,))


def from_pairs(x: Any) -> Any:
    """Return complex numbers, given their real and imaginary parts in turn along the last axis."""
    return x[..., 0::2] + 1j * x[..., 1::2]


def on_pairs(f: Callable) -> Callable:
    """Return a complex right-hand side as a function of real and imaginary parts."""
    return lambda t, y: pairs(f(t, from_pairs(y)))


class Last:
    """Stands for an array whose last axis, of all steps, has an unknown length: only the last items can be read.

    Parameters
    ----------
    name : str
        Name of the function, for error messages.
    items : ndarray or scalar
        The last items, possibly traced.
    is_transposed : bool
        Whether that axis is the first one.
    """

    def __init__(self, name: str, items: Any, is_transposed: bool = False):
        self._name, self._items, self._is_transposed = name, items, is_transposed

    def __getitem__(self, key: Any) -> Any:
        """Return items at index -1 of the last axis, or a part of the others."""
        keys = key if type(key) is tuple else (key,)
        ndim = np.ndim(self._items)
        if len(keys) == 2 and keys[0] is Ellipsis:
            keys = (*[slice(None)] * (0 if self._is_transposed else ndim), keys[1])
        last, others = (keys[0], keys[1:]) if self._is_transposed else (keys[-1], keys[:-1])
        if len(others) == ndim - 1 and len(keys) == ndim and not self._is_transposed:
            return Last(self._name, self._items[key])  # rows of all steps
        if not isinstance(last, (int, np.integer)) or last != -1 or len(others) > ndim:
            return self._refuse()
        return self._items[others] if others else self._items if self._is_transposed or not ndim else self._refuse()

    def __iter__(self) -> Iterator:
        if self._is_transposed or not np.ndim(self._items):
            self._refuse()
        return iter([self[k] for k in range(len(self._items))])

    @property
    def T(self) -> Last:
        """The transposed array."""
        return Last(self._name, self._items, not self._is_transposed) if np.ndim(self._items) else self

    def _refuse(self) -> NoReturn:
        raise NotReplayable(
            f"{self._name}: the number of steps depends on values: pass t_eval, or read only the last state, y[:, -1]"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name != "__array__":
            raise AttributeError(name)
        return self._refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        return self._refuse()

    def __len__(self) -> NoReturn:
        return self._refuse()


#: arguments of SciPy's function that are not options of its method
_PLAIN = ("t_eval", "dense_output", "events", "vectorized", "args", "jac", "jac_sparsity", "lband", "uband")


def _refuse(name, y0, times, method, call):
    if method not in EXPLICIT and (np.size(y0) > MAX_STATES or np.ndim(call.get("rtol", 0.0))):
        raise NotReplayable(f"{name}: more than {MAX_STATES} states by an implicit method cannot be recorded")
    if call["events"] is not None or call["dense_output"]:
        raise NotReplayable(f"{name} with events or dense output cannot be recorded")
    if y0.dtype not in (np.float64, np.complex128) or not 0 < np.size(times):
        raise NotReplayable(f"{name} of {y0.dtype} states, or without output times, cannot be recorded")
    if y0.dtype == np.complex128 and method not in (*EXPLICIT, "BDF"):
        raise NotReplayable(f"{name} of complex states by {method} cannot be recorded")


def stepper_options(name: str, call: dict, n: int, is_complex: bool) -> dict:
    """Return the options of a stepper, from the arguments of SciPy's function, for `n` states.

    Raises
    ------
    NotReplayable
        If SciPy would warn of them or raise, or if the steppers do not know them.
    """
    options = {key: x for key, x in call.items() if key not in _PLAIN}
    solver, sensitivity = options.pop("solver", {}), options.pop("sensitivity", "auto")
    if holds_traced(options) or not options.keys() <= OPTIONS:
        raise NotReplayable(f"{name} has options that cannot be recorded")
    rtol, atol = (np.asarray(options.get(key, default), dtype=float) for key, default in _TOLERANCES)
    if rtol.shape not in ((), (n,)) or atol.shape not in ((), (n,)) or (rtol < 100 * _EPS).any() or (atol < 0).any():
        raise NotReplayable(f"{name} has tolerances of which SciPy warns")
    first, most = options.get("first_step"), options.get("max_step", np.inf)
    if not most > 0 or not (first is None or first > 0):
        raise NotReplayable(f"{name} has a step size that is not positive")
    each = 2 if is_complex else 1
    tolerances = {"rtol": np.repeat(np.broadcast_to(rtol, n), each)}
    tolerances["atol"] = np.repeat(np.broadcast_to(atol, n), each)
    sizes = {"first_step": None if first is None else float(first), "max_step": float(most)}
    return {**tolerances, **sizes, "solver": solver, "is_complex": is_complex, "sensitivity": sensitivity}


_TOLERANCES = (("rtol", 1e-3), ("atol", 1e-6))


def _integrated(around, name, f, times, y0, method, options, memory):
    """Append the call, and return its result of shape (T, n)."""
    code, n = around.code, np.size(y0)
    plain = [np.ascontiguousarray(plain_copy(x), dtype=float) for x in (times, y0)]
    x = np.concatenate([plain[0][:1], plain[1]])
    parts = [sliced(around, lambda z: f(z[0], z[1:]), x, (n,), name, True)]
    found = None
    while found is None:
        leaves = [*dict.fromkeys(v for part in parts for v in part.leaves)]
        values = [_floats(plain_copy(around.value(v))) for v in leaves]
        system, *others = (_system(around, name, part, leaves, [x, *values], n) for part in parts)
        system.others = others
        if others and not has_fixed_jumps(system):
            raise NotReplayable(f"{name}: the right-hand side branches on its state, so that it may jump")
        call = Integration(system, [np.shape(v) for v in values], method, options, memory, plain[0].size)
        try:
            found = call(plain[0], plain[1], *values)
        except MissingBranch as missing:
            parts.append(sliced(around, lambda z: f(z[0], z[1:]), missing.x[: 1 + n], (n,), name, True))
        except GuardError as error:
            raise NotHere(f"{name}: {error}") from None
    args: list = []
    operands: list = []
    code.run()
    for value, given in zip(plain, (times, y0)):
        args.append(Operand(len(operands)) if is_traced(given) else value)
        operands += [code.output(given)] if is_traced(given) else []
    args += [Operand(len(operands) + k) for k in range(len(leaves))]
    operands += [_as_floats(code.listing, v) for v in leaves]
    if not operands:
        return found[0]
    made = ProgramCall(call, tuple(args), {}, operands, integration_row)
    return around.called(made, (np.dtype(float), call.shape, None), found)[0]


def _floats(x):
    """Return a copy of a scalar or array in C order, of complex numbers with a last axis of length 2."""
    x = np.array(x, order="C")
    return x.astype(float) if x.dtype.kind != "c" else x.reshape(*x.shape, 1).view(float)


def _as_floats(code, v):
    """Return the value of such numbers."""
    dtype, shape, strides = kind_of(code, v)
    if dtype.kind != "c":
        return v
    strides = c_strides(shape, 16) if strides is None else strides
    low = sum(-(n - 1) * s for n, s in zip(shape, strides) if s < 0)
    return int(code.part(v, (low, (*shape, 2), (*strides, 8)), np.dtype(float)))


def _system(around, name, part: Part, leaves, values, n):
    """Return the right-hand side as a system, given its parameters."""
    listing = part.joined(around.code.listing, leaves)
    exact, disabled = around.exact, around.disabled
    listing = pipeline.run("trace", listing, pipeline.Options(exact, disabled=disabled)).code
    example = np.concatenate([np.ravel(x) for x in values])
    made = Program(f"{name}: right-hand side", listing, Form((example,), {}), Result(Slot(0)), exact, [example])
    made._disabled = disabled
    system = System(made, n)
    if not has_fixed_jumps(system):
        raise NotReplayable(f"{name}: the right-hand side may jump, so that its steps have to be checked")
    return system
