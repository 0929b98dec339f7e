"""Find and replace traced values in functions: in closure cells and defaults, objects and containers.

`stripped` puts plain values in their place, which suffice for solver iterations and for the Jacobian at a solution.
If a traced value is held elsewhere, the function runs under the derivative, which is slower.
`Abstracted` makes the traced values arguments of the function, as closure conversion does.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import children_of, plain_copy
from wengert.core.levels import caught
from wengert.core.operands import var
from wengert.core.rebind.proxies import original
from wengert.core.rebind.registration import running_plan
from wengert.core.rebind.rename import public
from wengert.features import is_made_in_python
from wengert.transforms.operators import Operator

#: maximum number of items of a container, or attributes of an object, that are inspected
MAX_ITEMS = 64


def stripped(x: Any, memo: dict | None = None) -> Any:
    """Return `x` with plain values in place of traced ones; `x` itself if it holds none."""
    if var.is_var(x):
        if not var.is_traced(x):
            return x
        return memo.slot_of(x) if type(memo) is _Abstraction else plain_copy(x)
    memo = {} if memo is None else memo
    if id(x) not in memo:
        memo[id(x)] = x, x  # a cycle returns x unchanged; the tuple keeps x alive, so that its id stays unique
        memo[id(x)] = x, _rebuilt(x, memo)
    return memo[id(x)][1]


class Slot:
    """Placeholder for a traced value in a function."""

    __slots__ = ()


class _Abstraction(dict):
    """Memo of `stripped` that replaces each traced value by a slot; new slots are appended to `slots`.

    While a program is recorded, copies of functions run under names that exist only during the recording; here they get
    their original names back, so that a replay reads the current values. With `is_frozen`, functions get new cells, so
    that later changes of variables do not affect them.
    """

    def __init__(self, slots: list, values: list, is_frozen: bool):
        self.slots, self.values, self.is_frozen = slots, values, is_frozen
        self.cells: dict[int, tuple] = {}  # new cells by the identity of the old ones
        self.count = 0  # number of places that hold slots
        plan = running_plan.get()
        own = () if plan is None else (*plan.names.values(), *(alias.name for alias in plan.own.values()))
        self.names = {name: public(name) for name in own}

    def slot_of(self, x):
        self.count += 1
        for slot, value in zip(self.slots, self.values):
            if value is x:
                return slot
        self.slots.append(Slot())
        self.values.append(x)
        return self.slots[-1]

    def cell_of(self, cell, content):
        if id(cell) not in self.cells:
            self.cells[id(cell)] = cell, types.CellType(content)
        return self.cells[id(cell)][1]

    def code_of(self, f):
        """Return the code of a function, with the names of its source instead of those of a rebound copy."""
        return _renamed(f.__code__, self.names) if self.names else f.__code__


def _renamed(code, names):
    """Return code with these names replaced, also in nested functions; `code` itself if it uses none."""
    consts = [_renamed(const, names) if type(const) is types.CodeType else const for const in code.co_consts]
    if names.keys().isdisjoint(code.co_names) and all(new is old for new, old in zip(consts, code.co_consts)):
        return code
    own = tuple(names.get(name, name) for name in code.co_names)
    return code.replace(co_names=own, co_consts=tuple(consts))


class Abstracted:
    """A function and its arguments, with slots in place of the traced values that they hold.

    It refers to no traced value once `take` has cleared `values`, so it may be kept on the tape of these values. The
    template `live` shares its variables with f, which may change them; `frozen` keeps the values that f reads now.
    """

    def __init__(self, f: Callable, args: tuple):
        self.slots: list[Slot] = []
        self.values: list = []
        self.live = Template(f, args, _Abstraction(self.slots, self.values, False))
        self.frozen = self.live.frozen() or Template(f, args, _Abstraction(self.slots, self.values, True))

    def take(self) -> list:
        """Return the traced values, and drop them."""
        values, self.values = self.values, []
        return values


#: types of values that hold no functions and no traced values
_DATA = frozenset((Slot, bool, int, float, complex, str, type(None), np.float64, np.ndarray, types.ModuleType))


class Template:
    """A function and its arguments, with slots in place of traced values."""

    def __init__(self, f: Any, args: tuple, memo: Any):
        self.f, self.args, self.slots = stripped(f, memo), stripped(args, memo), memo.slots
        self.cells = getattr(self.f, "__closure__", None) or ()
        self.contents = [_EMPTY if cell == _EMPTY else cell.cell_contents for cell in self.cells]
        direct = [x for x in (*self.contents, *self.args) if type(x) is Slot]
        #: whether all slots are cells of the function or arguments
        self.is_direct = type(self.f) is types.FunctionType and len(direct) == memo.count

    def frozen(self) -> Template | None:
        """Return a template with cells of its own if no other functions have to be copied for it, else None."""
        if not self.is_direct or not all(type(x) in _DATA for x in (*self.contents, *(self.f.__defaults__ or ()))):
            return None
        made = copy.copy(self)
        made.cells = tuple(types.CellType(x) for x in self.contents)
        made.f = self._with(made.cells)
        return made

    def filled(self, values: list) -> tuple[Callable, tuple]:
        """Return the function and its arguments with values in place of the slots."""
        if not self.slots:
            return self.f, self.args
        found = {id(slot): (slot, value) for slot, value in zip(self.slots, values)}
        if not self.is_direct:
            return stripped(self.f, found), stripped(self.args, found)
        cells = [
            types.CellType(found[id(x)][1]) if type(x) is Slot else cell for cell, x in zip(self.cells, self.contents)
        ]
        return self._with(cells), tuple([found[id(x)][1] if type(x) is Slot else x for x in self.args])

    def _with(self, cells):
        f = self.f
        made = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells) or None)
        made.__kwdefaults__ = f.__kwdefaults__
        return made


def _rebuilt(x, memo):
    kind = type(x)
    if kind is types.FunctionType:
        return _function(x, memo)
    if kind is types.MethodType:
        parts = _changed([x.__func__, x.__self__], memo)
        return x if parts is None else types.MethodType(*parts)
    if kind is functools.partial:
        parts = _changed([x.func, x.args, x.keywords], memo)
        return x if parts is None else functools.partial(parts[0], *parts[1], **parts[2])
    if isinstance(x, Operator):
        made, (f, *options) = x.__reduce__()
        inner = stripped(f, memo)
        return x if inner is f else made(inner, *options)
    if hasattr(kind, "__wengert__"):  # compiled; compiling the stripped function again would not pay
        inner = stripped(x.f, memo)
        return x if inner is x.f else inner
    found = children_of(x)
    if found is not None or kind in (list, tuple):
        items, restore = found or (list(x), kind)
        items = _changed(items, memo)
        return x if items is None else restore(items)
    if is_made_in_python(kind) and not isinstance(x, type):
        return _object(x, memo)
    return x


def _changed(items, memo):
    """Return the items with plain values; None if no item changed, or if there are too many to inspect."""
    if len(items) > MAX_ITEMS and not (var.holds_traced(items) or any(type(item) is Slot for item in items)):
        return None
    found = [stripped(item, memo) for item in items]
    return found if any(new is not old for new, old in zip(found, items)) else None


def _function(f, memo):
    cells = [cell for cell in f.__closure__ or () if cell != _EMPTY]
    contents = [cell.cell_contents for cell in cells]
    parts = _changed([contents, f.__defaults__, f.__kwdefaults__], memo)
    is_abstracted = type(memo) is _Abstraction
    is_frozen = is_abstracted and memo.is_frozen and bool(cells)
    code = memo.code_of(f) if is_abstracted else f.__code__
    if parts is None:
        if code is f.__code__ and not is_frozen:
            return f
        parts = [contents, f.__defaults__, f.__kwdefaults__]
    held = {
        id(cell): memo.cell_of(cell, new) if is_frozen else types.CellType(new)
        for cell, old, new in zip(cells, contents, parts[0])
        if is_frozen or new is not old or old is f
    }
    closure = tuple(held.get(id(cell), cell) for cell in f.__closure__ or ())
    made = types.FunctionType(code, f.__globals__, f.__name__, parts[1], closure or None)
    made.__kwdefaults__ = parts[2]
    for cell in held.values():
        if cell.cell_contents is f:  # recursive function
            cell.cell_contents = made
    functools.update_wrapper(made, f)
    del made.__wrapped__  # would keep the traced values alive
    return made


_EMPTY = types.CellType()


def _object(x, memo):
    if type(memo) is _Abstraction and not (_slots(type(x)) and not hasattr(type(x), "_wengert_whole")):
        x = original(x)  # the object behind a proxy; an object with slots that f created is not a proxy
    space = getattr(x, "__dict__", {})
    slots = [name for name in _slots(type(x)) if hasattr(x, name)]
    values = _changed([*space.values(), *[getattr(x, name) for name in slots]], memo)
    if values is None:
        return x
    made = None
    with caught(Exception):  # an object that cannot be copied stays as it is
        made = copy.copy(x)
    if made is None:
        return x
    if space:
        made.__dict__.update(zip(space, values))
    for name, value in zip(slots, values[len(space) :]):
        object.__setattr__(made, name, value)
    return made


def _slots(kind):
    """Return the names of the ``__slots__`` attributes of a class and its bases."""
    return [
        name
        for base in kind.__mro__
        if "__slots__" in vars(base)
        for name, value in vars(base).items()
        if type(value) is types.MemberDescriptorType and not name.startswith("_wengert_")
    ]
