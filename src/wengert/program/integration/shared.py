"""Shares systems among integrations with the same right-hand side, so that their programs are derived only once.

In eager mode a right-hand side is recorded at each call, mostly with the same IR as before.  The IR is brought to a
normal form, which does not depend on how the time, the state and the parameters are extracted from the input.  It is
looked up by everything that determines its values.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.program.integration import methods
from wengert.program.integration.calls import Integration
from wengert.program.integration.continuity import needed_values
from wengert.program.integration.system import System, parts_of
from wengert.program.ir.call import Operand, is_function
from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.program import Program

#: number of systems that are kept, and largest size of a key in bytes
MAX_SYSTEMS, MAX_KEY = 16, 1_000_000

#: the latest integrations, kept alive so that calls with the same system can reuse their results and steps
_recent: deque = deque(maxlen=2)

_systems: OrderedDict = OrderedDict()
_lock = threading.Lock()

_FLOAT = np.dtype(float)


def shared_system(program: Program, states: int, record: Callable | None = None) -> System:
    """Return the system of a right-hand side; an earlier one if it has the same program.

    A program with branches has a system of its own, to which further branches may be added: see `System.record`.
    """
    code, key = program._listing, None
    if all(map(is_function, code.calls)) and not (code.op == Op.GUARD).any():
        code = normal_form(code)
        key = _key(code, program, states)
    if key is None:
        made = System(program, states)
        made.record = record
        return made
    with _lock:
        found = _systems.get(key)
        if found is None:
            made = Program(program._name, code, program._form, program._result, program._exact, program._example)
            made._disabled, made._tier = program._disabled, program._tier
            found = _systems[key] = System(made, states)
        _systems.move_to_end(key)
        if len(_systems) > MAX_SYSTEMS:
            _systems.popitem(last=False)
    return found


def shared_integration(system: System, shapes: list, *options: Any) -> Integration:
    """Return the existing integration with these arguments if it is still in use, else a new one; see `Integration`."""
    method, settings, *others = options
    if method == methods.SWITCHING:  # which of its methods it uses depends on earlier calls
        return Integration(system, shapes, *options)
    own = [x.tobytes() if isinstance(x, np.ndarray) else repr(x) for x in settings.values()]
    key = *shapes, method, *settings, *own, *others
    with _lock:
        found = system.integrations.get(key)
        if found is None:
            found = system.integrations[key] = Integration(system, shapes, *options)
        if found not in _recent:
            _recent.append(found)
    return found


def forget() -> None:
    """Drop all systems."""
    with _lock:
        _systems.clear()
        _recent.clear()


def normal_form(code: Listing) -> Listing:
    """Return the IR of a function of one array without dead code, with parts of the input as views."""
    x = int(code.inputs[0])
    needed = needed_values(code, code.outputs)
    parts = parts_of(code, x, needed)
    rest = [v for v in needed if v != x and v not in parts]
    made, of = Listing(), np.full(len(code), -1, dtype=np.int32)
    of[x] = made.input(kind_of(code, x))
    for v in [*(w for u in rest for w in operands(code, u)), *code.outputs]:
        if of[v] < 0 and (view := parts.get(int(v))):
            of[v] = made.part(int(of[x]), view, _FLOAT)
    made.take(code, np.array(rest, dtype=np.int32), of)
    made.outputs = [int(of[v]) for v in code.outputs]
    return made


def _key(code, program, states):
    """Return a key of all that determines the values of a program; None if it is large or may not compare by value."""
    if sum(x.nbytes for x in code.arrays) + len(code) > MAX_KEY:
        return None
    own = states, program._exact, program._disabled, program._tier
    columns = [column.tobytes() for column in (code.op, code.a, code.b, code.c)]
    types, constants = [kind_of(code, v) for v in range(len(code))], np.array(code.constants).tobytes()
    packs = [tuple(map(tuple, map(np.ndarray.tolist, pack))) for pack in code.packs]
    calls = []
    for call in code.calls:
        given = _value(call.args), _value(call.kwargs)
        if None in given:
            return None
        calls.append((id(call.compute), id(call.row), given, tuple(call.operands)))
    parts = columns, types, code.views, packs, map(_value, code.arrays), calls, code.inputs, code.outputs
    return own, constants, *map(tuple, parts)


def _value(x):
    """Return an argument as an object that compares by type and value, or None if there is none."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return x.dtype, x.shape, x.tobytes()
    if type(x) is Operand:
        return Operand, x.position
    if type(x) is dict:
        return _value([(key, x[key]) for key in sorted(x)])
    if type(x) in (tuple, list):
        found = tuple(map(_value, x))
        return None if None in found else (type(x), *found)
    if x is None or type(x) in (bool, int, float, complex, str) or isinstance(x, np.dtype):
        return type(x), repr(x)
    return None
