"""Captures the outside state that a function reads, and makes copies of the function that read operands instead.

`scan` finds everything that f can read.  Each *place* that holds data (scalars, arrays, small containers) is read at
every call; functions, classes and objects are compared by identity, other containers item by item, and a change
triggers a new scan.  While tracing, f runs as a copy whose places yield operands: globals get private names, cells and
defaults are copied, and attributes become descriptors of a proxy object.  A place that no copy can reach is
compared by value, as part of the cache key.
One observed run of f finds reads that the scan cannot watch; if there are any, f is not compiled.
After that run, the scan enters only the code that ran: as long as nothing that this code reads has changed, the same
code runs again.

Invariants
- The user's objects are only read, by any number of threads at once.
- While tracing, the copy of f reads the same values that the key was computed from.

Limitation: a function that changes globals, cells or attributes of objects that it did not create is not replayable.
"""

from __future__ import annotations

import collections
import copy
import dis
import functools
import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wengert.core import frames
from wengert.core.dispatch import cached
from wengert.core.rebind.follow import WRAPPERS
from wengert.core.rebind.rebind import rebound, with_own_copies
from wengert.core.rebind.registration import running_plan
from wengert.core.rebind.stubs import reaches_more_than
from wengert.program.ir.identity import Same
from wengert.program.tracing.environment import ABSENT, StateGuards
from wengert.program.tracing.observer import Observer, Watch
from wengert.program.tracing.operand_plan import OperandPlan, raise_not_seen, unchanged
from wengert.program.tracing.purity import is_seeding, reads_by_name, why_impure, writes_log
from wengert.program.tracing.pytree import (
    MAX_SMALL_ITEMS,
    UnsupportedValue,
    contents_key,
    fill,
    is_data,
    item_ids,
    key_of,
    lowered,
    mapped,
)
from wengert.program.tracing.refusals import NotReplayable, Uncopied
from wengert.program.tracing.scan import Scan, TooManyFunctions, UnknownCode, code_key, codes_of, effect, kept_by
from wengert.transforms.operators import Operator

__all__ = ["Captures", "Reading", "code_that_ran"]

_SHELVES = (dict, list, set, frozenset, collections.deque)
_HOLDERS = (dict, list, tuple, collections.deque, np.ndarray)  # not sets: traced values are unhashable


#: maximum number of functions scanned before f has run; large packages reach many more, most of which never run
MAX_UNSEEN_FUNCTIONS = 24

#: functions of importlib that run when a loaded module is imported again
_IMPORTING = {"_handle_fromlist", "_lock_unlock_module", "parent"}


def _impure_code(seen):
    """Return the impure code that ran, as tuples (code, code of its first caller, line)."""
    return [found for found in seen.codes.values() if found is not True]


def code_that_ran(seen: Observer) -> frozenset:
    """Return the keys of all impure code that ran in an observed call."""
    return frozenset([code_key(code) for code, _, _ in _impure_code(seen)])


def _is_import_system(code):
    return code.co_filename.startswith("<frozen importlib")


def _makes_lock(code):
    """Return whether code makes a lock, as `numpy.random.default_rng` does."""
    threading = sys.modules.get("threading")
    return threading is not None and code is threading.RLock.__code__


def _imports_again(code):
    """Return whether code belongs to an import of a module that is already loaded."""
    return _is_import_system(code) and code.co_name in _IMPORTING


def _inspects_callers(fun, code):
    """Return whether this is a call of `sys._getframe` from the `inspect` module."""
    return fun is sys._getframe and code.co_filename == inspect.currentframe.__code__.co_filename


def _is_same_leaf(now, then):
    return now is then or np.asarray(now).tobytes() == np.asarray(then).tobytes()


def _line(code, line):
    return f"{code.co_filename}:{line}"


def _first_load(code, name):
    """Return the line at which code loads a name, an attribute or a variable; None if it does not."""
    for each in dis.get_instructions(code):
        names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
        if name in names and each.opname.startswith(("LOAD_", "IMPORT_FROM")):
            return frames.file_and_line((code, each.offset))[1]
    return None


class Captures:
    """The state that `f` and the objects passed to it read from outside.

    Parameters
    ----------
    f : callable
    others : iterable
        Functions and objects passed to f, which are scanned too.
    in_derivative : bool
        Whether f may read operands of a derivative.
    constant : tuple
        Names and objects that are not scanned; see `wengert.compile`.
    ran : frozenset, optional
        Keys of the code that may run, see `code_that_ran`; by default all code that f reaches.
    limit : int
        Number of functions above which nothing is captured, and `is_cut` is set.
    pins : bool
        Whether all captured values are part of the key, because the trace treats some of them as constants.

    Attributes
    ----------
    effect : str or None
        Why f cannot be replayed, if its code shows that.
    doubts : list of scan.Doubt
        Reads that cannot be watched.
    is_whole : bool
        Whether the contents of all containers are scanned; otherwise some items may be operands of a derivative.
    ran : frozenset or None
        Keys of the code that may run; None if all code that f reaches is scanned, as with derivative rules.
    is_cut : bool
        Whether f reaches more functions than `limit`.
    is_bare : bool
        Whether f reads no data and reaches nothing that must be copied, so that f itself is traced.
    """

    def __init__(
        self,
        f: Callable,
        others: Iterable = (),
        in_derivative: bool = False,
        constant: tuple = (),
        ran: frozenset | None = None,
        limit: int = sys.maxsize,
        pins: bool = False,
    ):
        self.f, self.pins = f, pins
        self.others, self.constant = tuple(others), constant
        self.ran, self.is_cut = ran, False
        self.root = root = _root_of(f, self.others)
        self.effect = None
        self.live, self.static, self.around = [], [], StateGuards([], [], [], [], [])
        self.doubts, self.codes, self.is_dynamic = [], {}, False
        self.trusted: list = []
        self.steady: frozenset = frozenset()  # ids of cached functions whose results depend only on their arguments
        self.kept: list = []
        self.scanned: dict | None = None  # functions and objects in the places, by id, as the first reading finds them
        self.assigned: list = []  # pairs (namespace or cell, name) of the variables that the code assigns
        self.is_outdated = False  # has the run of f filled a cache with objects that were not scanned?
        self.reached: Any = None  # result of `Plan.reached`, until the first run
        self.shelves: list = []  # pairs (place, container) for containers that are not data
        self.is_whole, self.is_bare = True, False
        try:
            try:
                self.look(root, in_derivative, limit)
            except UnknownCode:
                self.ran = None
                self.look(root, in_derivative, sys.maxsize)
        except TooManyFunctions:
            self.is_cut = True
        except NotReplayable as reason:
            self.effect = str(reason)
        except Exception as error:  # raised by user-defined attribute access or comparison
            self.effect = f"the state that it reads cannot be determined ({type(error).__name__}: {error})"
        if self.effect or self.is_cut:
            self.reached = None

    def look(self, root, in_derivative, limit):
        if self.ran is None and limit < sys.maxsize and reaches_more_than(limit, root):
            raise TooManyFunctions
        self.reached = OperandPlan.reached(root, limit, self.may_run, self.ran is not None)
        if self.ran is None and self.reached[-1]:
            raise TooManyFunctions
        scan = Scan(
            root, self.reached[0], lowered if in_derivative else unchanged, self.constant, ran=self.ran, limit=limit
        )
        self.effect, self.doubts, self.codes, self.is_dynamic = scan.effect, scan.doubts, scan.codes, scan.is_dynamic
        self.trusted, self.kept, self.assigned = scan.trusted, scan.kept, [*scan.assigned.values()]
        self.steady = frozenset(key for key, (_, _, is_steady) in scan.cached.items() if is_steady)
        self.shelves = [pair for pair in scan.watched.values() if issubclass(type(pair[1]), _SHELVES)]
        held = [value for (_, name), (_, value) in scan.watched.items() if not str(name).startswith("__")]
        self.is_whole = not any(isinstance(value, _HOLDERS) for value in held)  # dunder names belong to classes
        used = set()
        if scan.places and not self.pins:
            data = {key: place.read() for key, place in scan.places.items()}
            used = OperandPlan(root, data, self.reached, True).used - scan.pinned
        self.live = [place for key, place in scan.places.items() if key in used]
        self.static = [place for key, place in scan.places.items() if key not in used]
        sizes = [*scan.sizes.values()]
        self.around = StateGuards([*scan.watched.values()], scan.functions, sizes, scan.objects, scan.contents)
        nodes, _, _, _, plain, lazy = self.reached
        self.is_bare = not (used or self.shelves or plain or lazy) and type(root) is types.FunctionType
        self.is_bare &= all(node is root for node in nodes)

    def may_run(self, f: types.FunctionType) -> bool:
        return self.ran is None or code_key(f.__code__) in self.ran

    def idle_code(self, ran: frozenset) -> int:
        """Return the number of scanned code objects that did not run."""
        return len(self.codes.keys() - ran)

    def changed(self, reading: Reading, seen: Observer) -> str | None:
        """Return an error text that names the captured state that a run of f changed; None if it changed none."""
        if any(_is_import_system(code) and not _imports_again(code) for code, _, _ in _impure_code(seen)):
            return "it imports a module"
        for f, kept in self.kept:
            if {*map(id, kept)} != {*map(id, kept_by(f))}:  # a call changes their order
                self.is_outdated = True
                return effect(f"it fills the cache of {f.__qualname__}")
        now = self.read(reading.in_derivative)
        if now is None:
            return effect(f"it changes {self.around.first_change() or 'state that it reads'}")
        if now.key == reading.key and all(map(_is_same_leaf, now.leaves, reading.leaves)):
            return None
        parts = zip((self.live, self.static), now.key, reading.key)
        changed = {place.name for places, *keys in parts for place, a, b in zip(places, *keys) if a != b}
        changed |= {place.name for place, a, b in zip(self.live, now.held, reading.held) if a is not b}
        return effect(f"it changes {', '.join(map(repr, sorted(changed, key=str)))}")

    def doubt(self, seen: Observer) -> str | None:
        """Describe a read of the observed run that cannot be watched, with its location; None if there is none."""
        ran = [found for found in _impure_code(seen) if not _imports_again(found[0]) and not _makes_lock(found[0])]
        trusted = self._trusted(ran)
        ran = [found for found in ran if code_key(found[0]) not in trusted]
        if (text := next((text for name, text in self.doubts if name is None), None)) is not None:
            return text
        if writes_log(seen.codes):
            return "it writes to a log"
        for code, caller, line in ran:
            if code_key(code) not in self.codes:
                where = _line(code, code.co_firstlineno) if caller is None else _line(caller, line)
                if is_seeding(code):
                    return f"it reads a seed of random numbers from the system ({where})"
                return f"it calls {code.co_qualname}, whose code is not analysed ({where})"
        for fun, by_pure, code, line in seen.calls.values():
            if code_key(code) in trusted or any(fun.__self__ is value or fun is value for value in self.trusted):
                continue
            if _imports_again(code):
                continue
            reason = why_impure(fun, by_pure and not _inspects_callers(fun, code))
            if reason is None and not by_pure and reads_by_name(fun) and not self.is_dynamic:
                reason = f"it calls {fun.__name__} under another name"
            if reason is not None:
                return f"{reason} ({_line(code, line)})"
        own = {code_key(code): code for code, _, _ in ran}
        for name, text in self.doubts:
            where = self._first(own, name)
            if where or name is None:
                of_name = "" if name is None else f", read as {name!r}"
                return f"{text}{of_name}" + (f" ({_line(*where)})" if where else "")
        return None

    def _trusted(self, ran):
        """Return keys of the code of objects declared constant, and of all code called from there."""
        found = {key for value in self.trusted for key in codes_of(value)}
        known = -1
        while found and known < len(found):
            known = len(found)
            found |= {code_key(code) for code, caller, _ in ran if caller is not None and code_key(caller) in found}
        return found - self.codes.keys()

    @staticmethod
    def _first(codes, name):
        """Return the first code object that loads a name, and the line."""
        found = ((code, _first_load(code, name)) for code in codes.values())
        return next(((code, line) for code, line in found if line is not None), None)

    def read(self, in_derivative: bool = False, is_new: bool = False) -> Reading | None:
        """Read the current values of the places; return None if `f` must be scanned again.

        With `in_derivative`, values may be operands.  `is_new` says that the scan is new, so its guards hold.
        """
        if self.is_outdated or not (is_new or self.around.hold()):
            return None
        leaves: list = []
        others: list = []
        held = [place.read() for place in self.live]
        values = [*map(lowered, held)] if in_derivative else held
        fixed = [place.read() for place in self.static]
        try:
            key = tuple([key_of(value, leaves, others) for value in values])
            static = tuple([contents_key(value, others) for value in fixed])
        except UnsupportedValue:
            return None
        if others and not all(map(is_data, (*values, *fixed))):
            return None
        if self.scanned is None:
            self.scanned = {id(each): each for each in others}
        elif not self.scanned.keys() >= {*map(id, others)}:  # objects that were put into a container since the scan
            return None
        return Reading(self, held, values, leaves, (key, static), in_derivative)


class Reading:
    """The captured values of a function at one moment.

    Attributes
    ----------
    leaves : list
        Floats, complex scalars and arrays of them: inputs of a program.
    key : tuple
        Everything else, hashable.
    held : list
        The contents of the places, whose leaves may be operands of a derivative.
    aliases : tuple of (int, int)
        Pairs of leaves that are the same array, and therefore the same operand.
    frozen : frozenset of int
        Indices of leaves, arguments first, whose plain values f needs, for example to pass them to a C function.
        These values are part of the key.
    """

    __slots__ = ("aliases", "captures", "frozen", "held", "in_derivative", "key", "leaves", "values")

    def __init__(self, captures, held, values, leaves, key, in_derivative):
        self.captures, self.held, self.values, self.leaves, self.key = captures, held, values, leaves, key
        self.in_derivative = in_derivative
        self.frozen: frozenset = frozenset()
        self.aliases: tuple = ()

    @property
    def is_plain(self) -> bool:
        """Whether f reads no operands."""
        return all(map(operator.is_, self.held, self.values))

    def operands(self, inputs: Iterable, leaves: Iterable) -> list:
        """Return the leaves passed to f, arguments first: the inputs, but plain values for frozen leaves."""
        return [leaf if i in self.frozen else x for i, (x, leaf) in enumerate(zip(inputs, leaves))]

    def without(self, leaves: range) -> Reading:
        """Return a reading for a call without these leaves of arguments; indices of frozen leaves after them shift."""
        new = copy.copy(self)
        new.frozen = frozenset(i if i < leaves.start else i - len(leaves) for i in self.frozen.difference(leaves))
        return new

    def bound(self, operands: Iterable) -> Any:
        """Return a copy of `f` that reads operands in place of `leaves`.

        Parameters
        ----------
        operands : iterable
            One for each of `leaves`, in order.

        Returns
        -------
        callable
            Has the signature of `f`, and NumPy's names rebound; for an operator such as ``wengert.grad(g)`` the same
            operator of a copy of `g`.  A call raises `NotReplayable` if it writes to an object that outlives it.
        """
        captures = self.captures
        if captures.is_bare:
            return _around(captures.f, _CheckedCall(captures, _BARE, [], []))
        operands = iter(operands)
        new = [fill(value, operands) for value in self.values]
        given = {place.key: value for place, value in zip(captures.live, new)}
        shelves = {id(value): copy.copy(value) for _, value in captures.shelves}
        given.update({place.key: shelves[id(value)] for place, value in captures.shelves})
        watched = [*shelves.values(), *[value for _, value in captures.shelves]]
        reached, captures.reached = captures.reached, None  # valid only for the first run, right after the scan
        reached = reached or OperandPlan.reached(captures.root, enters=captures.may_run)
        copies = OperandPlan(captures.root, given, reached, steady=captures.steady)
        return _around(captures.f, _CheckedCall(captures, copies, new, watched))


class _Bare:
    """Replaces the `OperandPlan` of a function that need not be copied; see `Captures.is_bare`."""

    originals: tuple = ()
    idle: dict = {}
    of_caches: dict = {}
    spaces: tuple = ()


_BARE = _Bare()


class _CheckedCall:
    """Calls a copy of f and checks that it changed no object that it did not create."""

    def __init__(self, captures, copies, new, shelves):
        f = captures.f
        while isinstance(f, Operator):
            f = f.f
        self.__name__ = self.__qualname__ = getattr(f, "__qualname__", type(f).__name__)
        self._copies = copies  # keeps private names alive
        self._originals = () if captures.pins else copies.originals
        self._new = new
        self._shelves = shelves
        self._assigned = captures.assigned
        self._f, self._swaps = captures.root if captures.is_bare else copies.run, {}
        if captures.others:
            self._f, others = copies.run.func, copies.run.args
            self._swaps = {Same(old): other for old, other in zip(captures.others, others) if old is not other}
        if self._f is captures.root:
            self._f = rebound(captures.root)
        self._original = captures.root.func if captures.others else captures.root

    def __call__(self, *args, **kwargs):
        if self._swaps:
            args, kwargs = mapped((args, kwargs), lambda x: self._swaps.get(Same(x), x))
        lent = (*self._new, *args, *kwargs.values())
        contents = [*map(_items, self._shelves)]
        assigned_before = [*map(_content_of, self._assigned)]
        forms = [*map(item_ids, lent)], [*map(_ids_of_items, contents)]
        copies, f = self._copies, self._f
        if len(args) + len(kwargs) > 1 or type(self._original) is not types.FunctionType:
            f = with_own_copies(self._original, f)
        token = running_plan.set(None if copies is _BARE else copies)
        try:
            if self._originals or copies.idle:
                with Watch(self._originals, copies.idle, raise_not_seen) as watch:
                    y = f(*args, **kwargs)
                if watch.found:
                    raise Uncopied("it runs a function that is not copied")
            else:
                y = f(*args, **kwargs)
        finally:
            running_plan.reset(token)
            names = self._put_back(assigned_before)
        if names:
            raise NotReplayable(effect(f"it assigns {', '.join(map(repr, names))}"))
        for space, held in copies.spaces:
            if space.keys() != held.keys() or any(space[name] is not held[name] for name in held):
                raise NotReplayable(effect("it sets attributes of an object that it did not create"))
        if (of := cached.changed(copies.of_caches)) is not None:
            raise NotReplayable(effect(f"it writes into an array in the cache of {of.__qualname__}"))
        if ([*map(item_ids, lent)], [_ids_of_items(_items(shelf)) for shelf in self._shelves]) != forms:
            raise NotReplayable(effect("it changes a list, dict or other container that it did not create"))
        return y

    def _put_back(self, values):
        """Give assigned variables the values that they had, since new ones may be traced; return the names of these."""
        changed = [i for i, place in enumerate(self._assigned) if _content_of(place) is not values[i]]
        for i in changed:
            holder, name = self._assigned[i]
            if type(holder) is types.CellType:
                _fill_cell(holder, values[i])
            elif values[i] is ABSENT:
                del holder[name]
            else:
                holder[name] = values[i]
        return [self._assigned[i][1] for i in changed]


def _content_of(place):
    """Return the value of a global or a cell, given as a pair of its holder and its name; `ABSENT` without one."""
    holder, name = place
    if type(holder) is not types.CellType:
        return holder.get(name, ABSENT)
    try:
        return holder.cell_contents
    except ValueError:
        return ABSENT


def _fill_cell(cell, value):
    if value is ABSENT:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def _items(shelf):
    """Return the items of a container; for a dict, its keys followed by its values."""
    return [*shelf, *shelf.values()] if isinstance(shelf, dict) else [*shelf]


def _ids_of_items(items):
    """Return the identities of items; if there are few, those of nested items too."""
    return [*map(item_ids if len(items) <= MAX_SMALL_ITEMS else id, items)]


def _root_of(f, others):
    """Return the root of the scan: the function inside operators, with the objects passed to it."""
    while isinstance(f, Operator):
        f = f.f
    if type(f) is staticmethod:
        f = f.__func__
    is_plain = type(f) is types.FunctionType or type(f) in WRAPPERS
    if not is_plain:
        call = next((vars(base)["__call__"] for base in type(f).__mro__ if "__call__" in vars(base)), None)
        is_plain = type(call) is types.FunctionType
        f = types.MethodType(call, f) if is_plain else f
    return f if is_plain and not others else functools.partial(f, *others)


def _around(f, run):
    """Wrap `run` in the operators that wrap the function in `f`."""
    if not isinstance(f, Operator):
        return run
    cls, (inner, *options) = f.__reduce__()
    return cls(_around(inner, run), *options)
