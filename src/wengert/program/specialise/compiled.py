"""Functions traced on first use and replayed: one program per cache key and sequence of branches.

Data
    Compiled   f, and a table for each set of functions and objects among its arguments
    Table      captured state of f; specialisations by key, most recently used first

A call splits its arguments and captured values into leaves and a static key.  The specialisations of that key are tried
until the guards of one hold; otherwise f is traced again.  Only tracing takes a lock.

Code that f could reach but does not run, such as most of a large package, is not analysed: the state that f reads is
determined from the code that ran in its observed calls.  A call that runs further code is not traced; the next one is,
with that code.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import sys
import types
import warnings
import weakref
from _thread import RLock  # `threading` takes 0.5 ms to import
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.levels import Unrecorded, caught, outside, running, unnoted
from wengert.core.operands.var import is_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import CompileWarning, GuardError, LevelError, NonSmoothError, PatternError
from wengert.program import record
from wengert.program.ir.identity import Same
from wengert.program.passes import pipeline
from wengert.program.passes.scalarise import INFINITE, SINGULAR
from wengert.program.program import checked_tier
from wengert.program.signature import as_floats
from wengert.program.specialise import as_primitive, freezing
from wengert.program.specialise.budget import Budget
from wengert.program.specialise.compare import HessianProduct, is_unchanged
from wengert.program.specialise.fast_call import FAILURES, Path, Route, raises_errors
from wengert.program.specialise.recheck import Checked, restored
from wengert.program.specialise.tables import MAX_KEYS, MAX_PATHS, MAX_TABLES, Table, insert
from wengert.program.tracing.closure import MAX_UNSEEN_FUNCTIONS, Captures, code_that_ran
from wengert.program.tracing.observer import Observer, is_observed
from wengert.program.tracing.purity import is_pure
from wengert.program.tracing.pytree import (
    UnsupportedValue,
    aliases_of,
    classes_of,
    fill,
    key_of,
    lowered,
    mapped,
    operands_of,
)
from wengert.program.tracing.refusals import NotHere, NotReplayable, NotSeen, Uncopied
from wengert.program.vm.runner import vectored
from wengert.transforms.batch import Mapped
from wengert.transforms.dense import JVP, VJP
from wengert.transforms.operators import Derivative, Operator
from wengert.transforms.second import HVP, Linearize

__all__ = ["Compiled", "alive"]

#: all live compiled functions, for `wengert.clear_caches`
alive: weakref.WeakSet = weakref.WeakSet()

#: after this many calls that write outer state, f runs uncompiled for good; a first call may only fill a cache
MAX_SIDE_EFFECTS = 3

#: if more scanned code objects than this did not run, the state of f is captured anew without them
MAX_IDLE_CODE = 8

_NONE: frozenset = frozenset()

_OTHER_BRANCH = (
    "its recording takes another branch when replayed at the same point: the function depends on more than its "
    "arguments, or tests the type of a value"
)
_OTHER_VALUE = (
    "its recording gives another value: the function depends on more than its arguments (random numbers?), or tests "
    "the type of a value"
)


#: elements of a mask or another array computed from the arguments that is unlikely to be the same at another call
MIN_VARYING_SIZE = 256

#: attributes that a compiled operator copies at once
_NAMES = "__module__", "__name__", "__qualname__"


class _Documentation:
    """`__doc__` of a compiled operator, computed when it is read."""

    def __init__(self, text):
        self.text = text

    def __get__(self, instance, owner):
        return self.text if instance is None else instance.f.__doc__


#: placeholder for the value of a derivative that is not evaluated eagerly; see also `HessianProduct`
UNKNOWN = object()


class _EagerResult:
    """The value of f itself, returned instead of a path because the call has already run f."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


class _Narrowed(_EagerResult):
    """An eager result of a run observed by `seen`; the state of f is captured anew, limited to what the run read."""

    __slots__ = ("seen",)

    def __init__(self, value, seen):
        self.value, self.seen = value, seen


@vectored
class Compiled(Checked):
    """The callable that `wengert.compile` returns."""

    def __init__(
        self,
        f: Callable,
        exact: bool = False,
        recheck: str | int | None = "auto",
        tier: str = "auto",
        constant: Any = (),
        disable: Any = (),
    ):
        if isinstance(f, Compiled):
            f = f.f
        if not callable(f):
            raise TypeError(f"compile: expected a function, got {type(f).__name__}")
        is_operator = isinstance(f, Operator)
        if not is_operator and (inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f)):
            raise TypeError(f"compile: {_name_of(f)} is a generator or coroutine (yield, await): return a value")
        is_count = isinstance(recheck, (int, np.integer)) and not isinstance(recheck, bool) and recheck > 0
        if not (recheck is None or recheck == "auto" or is_count):
            raise ValueError(f"compile: recheck must be 'auto', a number of calls, or None, not {recheck!r}")
        self.f = f
        self.exact = bool(exact)
        self._takes_out = isinstance(f, Derivative)
        self.recheck = recheck
        self.tier = checked_tier(tier, "compile")
        self.constant = tuple(constant) if type(constant) in (tuple, list) else (constant,)
        self.disable = (disable,) if isinstance(disable, str) else tuple(disable)
        self._disabled = pipeline.disabled_names(self.disable, "compile")
        self._name = _name_of(f)
        self._lock = RLock()
        self._tables: dict[Any, Table] = {}
        self._methods: dict[int, Compiled] = {}
        self._operators: dict[Any, Compiled] = {}  # derivatives and other operators of f
        self._budget = Budget()
        self._refusals = 0
        self._eager: str | None = None  # why f runs eagerly from now on
        self._ran: frozenset | None = None  # keys of the code that ran in observed calls; None until needed
        self._is_cut = False  # whether f must run once before its state is captured
        self._scans_all = False  # whether all code that f reaches is analysed
        self._pins = False  # whether all captured values are part of the keys
        self._warned = self._is_refused = False
        self.is_quiet = False  # whether calls run uncompiled without a warning, as the user did not ask for compilation
        self._constant_names = frozenset(each for each in self.constant if type(each) is str)
        self._parameters = _parameters_of(f) if self._constant_names else ()
        functools.update_wrapper(self, f, _NAMES if is_operator else functools.WRAPPER_ASSIGNMENTS, ())
        alive.add(self)

    # -- what it is

    def __repr__(self):
        options = ", exact=True" if self.exact else ""
        options += "" if self.recheck == "auto" else f", recheck={self.recheck}"
        options += "" if self.tier == "auto" else f", tier={self.tier!r}"
        options += f", constant={self.constant!r}" if self.constant else ""
        options += f", disable={self.disable!r}" if self.disable else ""
        return f"compile({self.f if isinstance(self.f, Operator) else self._name}{options})"

    def __dir__(self):
        public = {"clear", "paths", *(self.f.public if isinstance(self.f, Operator) else ())} - {"plan"}
        return [*(name for name in super().__dir__() if name.startswith("__")), *sorted(public)]

    def __getattr__(self, name):
        if name == "f" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.f, name)

    def __get__(self, owner, cls=None):
        """Bind as a method: one compiled function per object, for plain functions only."""
        if owner is None or type(self.f) is not types.FunctionType:
            return self
        found = self._methods.get(id(owner))
        if found is None:
            with self._lock:
                found = self._of(types.MethodType(self.f, owner))
                insert(self._methods, id(owner), found, MAX_TABLES)
        return found

    def __reduce__(self):
        place: Any = sys.modules.get(getattr(self, "__module__", None))
        name = getattr(self, "__qualname__", "")
        for part in name.split("."):
            place = getattr(place, part, None)
        return name if place is self else (Compiled, (self.f, *self._options))

    def __wengert__(self, operator: type, options: tuple) -> Callable:
        """Return the compiled operator of f; pullbacks and linear operators, which hold a trace, stay uncompiled."""
        if operator in (VJP, Linearize):
            return operator(self.f, *options)
        key = operator, repr(options)
        found = self._operators.get(key)
        if found is None:  # cached, so that a second `grad(compiled)` reuses its specialisations
            with self._lock:
                found = self._of(operator(self.f, *options), CompiledBatch if operator is Mapped else Compiled)
                insert(self._operators, key, found, MAX_TABLES)
        return found

    @property
    def _options(self):
        return self.exact, self.recheck, self.tier, self.constant, self.disable

    def _of(self, f, kind=None):
        """Return another function, which runs the same code as f, compiled with the same options."""
        new = (kind or Compiled)(f, *self._options)
        new._ran, new.is_quiet = self._ran, self.is_quiet
        return new

    @property
    def py_func(self):
        """The original function, through which name rebinding follows compiled functions."""
        if type(self.f) is not types.FunctionType:
            raise AttributeError("py_func")
        return self.f

    @property
    def fun(self) -> Compiled:
        """The compiled form of the function that this derivative differentiates."""
        if not isinstance(self.f, Derivative):
            raise AttributeError("fun")
        return self._of(self.f.f)

    @property
    def paths(self) -> int:
        """Number of cached specialisations."""
        return sum(len(paths) for table in [*self._tables.values()] for paths in [*table.paths.values()])

    @property
    def solves(self) -> bool:
        """Whether a cached specialisation calls a solver that can solve many equations at once."""
        paths = [path for table in [*self._tables.values()] for paths in [*table.paths.values()] for path in paths]
        return any(hasattr(call.compute, "many") for path in paths for call in path.program._listing.calls)

    def clear(self) -> None:
        """Drop all specialisations."""
        with self._lock:
            self._tables, self._methods, self._operators, self._route = {}, {}, {}, None
            self._budget.is_closed = False

    # -- calls

    def _call(self, args, kwargs, failed):
        if running.get():
            return self._in_derivative(args, kwargs)
        if self._eager or is_observed() or (raises_errors() and not isinstance(self.f, Operator)):
            return self.f(*args, **kwargs)
        out = kwargs.pop("out", None) if isinstance(self.f, Derivative) else None
        args = self._as_floats(args)
        leaves: list = []
        others: list = []
        pinned, fixed = self._declared_constant(args, kwargs) if self._parameters else (_NONE, [])
        try:
            key = key_of(args, leaves, others)
            if kwargs:
                key = key, key_of(kwargs, leaves, others)
            others += _user_classes(args, kwargs)
            table, reading, found = self._search(others, False, fixed, key, args, kwargs, leaves, failed, pinned)
        except (UnsupportedValue, RecursionError):
            found = None
        if found is None:
            y = self._run_first(args, kwargs, others, fixed) if self._is_cut else self.f(*args, **kwargs)
        elif isinstance(found, _EagerResult):
            y = found.value
        else:
            path, y = found
            y = restored(path.program, y)
            self._set_route(path, table, reading, args, kwargs, leaves)
        if out is None:
            return y
        out[...] = y
        return out

    def _in_derivative(self, args, kwargs):
        """Run the call as one tape entry of the enclosing derivative if that is of first order."""
        f = self.f
        is_python = type(f.f if type(f) is Mapped else f) in (types.FunctionType, types.MethodType)
        if is_python and not (self._eager or is_observed()) and as_primitive.takes_programs(running.get()):
            found = self.follow(args, kwargs)
            if found is None:
                with outside():
                    found = self._find(args, kwargs)
            outputs = None if found is None else as_primitive.entered(*found)
            if outputs is not None:
                return restored(found[0], outputs)
        return rebound(f)(*args, **kwargs)

    def _find(self, args, kwargs):
        """Return a call's program, leaves as plain values and as operands, and outputs; None to run f eagerly."""
        given, keywords = lowered(args), lowered(kwargs)
        leaves: list = []
        others: list = []
        pinned, fixed = self._declared_constant(given, keywords) if self._parameters else (_NONE, [])
        try:
            key = key_of(given, leaves, others), key_of(keywords, leaves, others)
            others += _user_classes(given, keywords)
            found = None
            with caught(LevelError):  # f reads traced values that were not captured, such as in a large container
                table, reading, found = self._search(others, True, fixed, key, given, keywords, leaves, None, pinned)
        except (UnsupportedValue, RecursionError):
            return None
        if found is None or isinstance(found, _EagerResult):
            return None
        path, outputs = found
        operands = [operand for part in (args, kwargs, *reading.held) for operand in operands_of(part)]
        if any(is_traced(operands[i]) for i in reading.frozen):  # f needs plain values, so it raises the proper error
            return None
        if not reading.frozen:
            self._set_route(path, table, reading, given, keywords, leaves)
        return path.program, leaves, operands, outputs

    def _set_route(self, path, table, reading, args, kwargs, leaves):
        """Make the path of this call the fast path of later calls."""
        captures, pinned = table.captures, [(i, leaves[i]) for i in reading.frozen]
        live, static = captures.live, captures.static
        positions = record.positions_of(self.f, args)
        self._route = None
        with contextlib.suppress(UnsupportedValue):  # this call has stored a traced value in the state that f reads
            self._route = Route.of(
                path, captures.around, args, kwargs, positions, live, static, leaves, pinned, captures.is_whole
            )

    def _as_floats(self, args):
        """Convert differentiated arguments to arrays and floats, so that integers do not become part of the key."""
        f = self.f
        if not isinstance(f, Operator):
            return args
        has_direction = isinstance(f, (JVP, HVP))
        given = [args[0], *args[2:]] if has_direction else [*args]
        try:
            for position in f.positions(tuple(given)):
                given[position] = as_floats(given[position], f.name)
            if has_direction:
                is_one = not isinstance(f.argnums, tuple)
                v = as_floats(args[1], f.name) if is_one else tuple([as_floats(part, f.name) for part in args[1]])
                given.insert(1, v)
        except (IndexError, TypeError, ValueError):  # the derivative raises its own error
            return args
        return tuple(given)

    def _declared_constant(self, args, kwargs):
        """Return the indices of the leaves of arguments declared constant, and the objects in these arguments."""
        named = [*zip(self._parameters, args), *((None, x) for x in args[len(self._parameters) :]), *kwargs.items()]
        leaves: list = []
        pinned: list = []
        fixed: list = []
        for name, value in named:
            first, others = len(leaves), []
            try:
                key_of(value, leaves, others)
            except (UnsupportedValue, RecursionError):
                return _NONE, []
            if name in self._constant_names:
                pinned += range(first, len(leaves))
                fixed += [*others, *_user_classes((value,), {})]
        return frozenset(pinned), fixed

    def _search(self, others, in_derivative, fixed, key, args, kwargs, leaves, failed, pinned):
        """Return the table and the captured values of a call, and a pair of its path and the outputs.

        Without a path, the last is None, or an `_EagerResult` with the value of f; see `_run`.
        """
        n, found = len(leaves), None
        while True:
            table, reading = self._read(others, in_derivative, fixed)
            if table is None or (in_derivative and not table.captures.is_whole):
                return None, None, found
            del leaves[n:]
            found = self._run(table, (key, reading.key), reading, args, kwargs, leaves, failed, pinned, found)
            if type(found) is not _Narrowed:
                return table, reading, found

    def _read(self, others, in_derivative=False, fixed=()):
        """Return the table for the functions and objects among the arguments, and the captured values."""
        key = tuple(map(Same, others))
        table = known = self._tables.get(key)
        reading = table.captures.read(in_derivative) if table else None
        if reading is None:
            if not self._may_record(in_derivative):
                return None, None
            watched = [value for value in others if not any(value is each for each in fixed)]
            captures = self._capture(watched, in_derivative, fixed)
            if captures is None:
                return None, None
            table = Table(captures)
            with self._lock:
                if self._tables.get(key) is known:
                    insert(self._tables, key, table, MAX_TABLES)
                else:  # another thread was faster
                    table = self._tables.setdefault(key, table)
            reading = table.captures.read(in_derivative)
            if table.captures.effect:
                self._give_up(table.captures.effect)
        return None if self._eager or reading is None else table, reading

    def _capture(self, others, in_derivative, fixed):
        """Return the captured state of f; None if f must run first, to show which of the code it reaches does run."""
        is_free = self._ran is None and not (in_derivative or self._scans_all)
        limit = MAX_UNSEEN_FUNCTIONS if is_free else sys.maxsize
        captures = Captures(self.f, others, in_derivative, (*self.constant, *fixed), self._ran, limit, self._pins)
        self._is_cut = captures.is_cut or (is_free and captures.effect is not None)
        self._scans_all |= self._ran is not None and captures.ran is None
        return None if self._is_cut else captures

    def _run_first(self, args, kwargs, others, fixed):
        """Return the value of f, and note which code runs."""
        y, seen = self._run_observed(args, kwargs, None, None)
        with self._lock:
            self._ran = code_that_ran(seen)
        with contextlib.suppress(UnsupportedValue, RecursionError):
            self._read(others, fixed=fixed)  # warns if f cannot be replayed
        return self.f(*args, **kwargs) if _is_unknown(y) else y

    def _drop_recordings(self):
        self._tables, self._route = {}, None

    def _scan_all(self):
        """Analyse all code that f reaches from now on."""
        self._ran, self._scans_all = None, True
        self._drop_recordings()

    def _pin_all(self):
        """Make all captured values part of the keys from now on."""
        self._pins = True
        self._drop_recordings()

    def _has_other_code(self, captures, ran, in_derivative):
        """Return whether code ran that was not analysed; if so, have it analysed from the next call on."""
        if captures.ran is None or ran <= captures.ran:
            return False
        if in_derivative:
            self._scan_all()
        else:
            self._ran = captures.ran | ran
            self._drop_recordings()
        return True

    def _run(self, table, key, reading, args, kwargs, leaves, failed, pinned, known=None):
        """Return the first path whose guards hold, or a new one, and its outputs; None to run f eagerly.

        `known` is a `_Narrowed` result if f has already run at this call; returning one means to start again.
        """
        n = len(leaves)
        leaves += reading.leaves
        reading.aliases = aliases_of(leaves)
        if reading.aliases:
            key = key, reading.aliases
        while True:
            reading.frozen = frozen = table.frozen.get(key, pinned)
            full = (key, *[freezing.frozen_key(leaves[i]) for i in frozen]) if frozen else key
            paths = table.paths.get(full, ())
            for path in paths:
                if path is failed:
                    continue
                try:
                    y = path.program._try_execute(leaves)
                except FAILURES:
                    continue
                if type(y) is not list:
                    path.failed = y  # the index of a guard
                    continue
                self._replays += 1
                path.calls += 1
                if path is not paths[0]:
                    self._move_to_front(table, full, path)
                number = path.calls + 1  # including the call that traced f
                if number >= path.due:
                    if number >= path.switch:
                        with self._lock:
                            y = path.replaced(leaves) or y
                    path.set_due(self._next_due(number))
                    if self.recheck is None:
                        return path, y
                    matches = self._matches_f(path, restored(path.program, y), reading, args, kwargs, leaves)
                    return (path, y) if matches else None
                return path, y
            with self._lock:
                if table.frozen.get(key, pinned) is not frozen or table.paths.get(full, ()) is not paths:
                    continue  # another thread changed the tables
                if full in table.refused:
                    return None
                if paths and _is_recorded_in_vain(paths[0]) and not reading.in_derivative:
                    self._budget.expect_no_replays()
                    table.paths[full] = paths = paths[1:]  # its guard would delay further calls
                    self._route = None
                if not self._may_record(reading.in_derivative):
                    if self._budget.is_low and not reading.in_derivative:
                        # paths that no call has taken only delay further calls by their guards
                        table.paths[full] = tuple(path for path in paths if path.calls)
                    return None
                if known is None:
                    expected, reason = self._observe(table, reading, args, kwargs, leaves)
                else:
                    expected, reason = known.value, table.captures.doubt(known.seen)
                if isinstance(reason, Observer):
                    return _Narrowed(expected, reason)
                found = reason
                if reason is None:
                    found = self._trace_and_check(expected, reading, args, kwargs, leaves, n)
                if isinstance(found, str):
                    if found:
                        insert(table.refused, full, None, MAX_KEYS)
                        self._refuse(found)
                    return None if _is_unknown(expected) else _EagerResult(expected)
                path, y = found
                if reading.frozen is not frozen:
                    insert(table.frozen, key, reading.frozen, MAX_KEYS)
                    full, paths = (key, *[freezing.frozen_key(leaves[i]) for i in reading.frozen]), ()
                kept = paths if reading.in_derivative else paths[: MAX_PATHS - 1]
                insert(table.paths, full, (path, *kept), MAX_KEYS)
                return path, y

    def _observe(self, table, reading, args, kwargs, leaves):
        """Run f once under observation; return its value, or `UNKNOWN`, and why it cannot be traced.

        The reason is None if it can be traced, and empty if it cannot now but perhaps at another call.
        If it is an observer, the state of f must be captured again, only as far as the code that ran reads it.
        """
        arrays = [leaf for leaf in leaves if isinstance(leaf, np.ndarray)]
        before = [leaf.copy() for leaf in arrays]
        try:
            y, seen = self._run_observed(args, kwargs, reading, leaves)
        except NotSeen:  # raised inside derivatives only
            self._scan_all()
            return UNKNOWN, ""
        except Uncopied:
            self._pin_all()
            return UNKNOWN, ""
        except NotReplayable as reason:
            return UNKNOWN, self._count_refusal(reason)
        if not all(map(is_unchanged, arrays, before)):
            self._give_up("it writes into an array that it was given; copy it first")
            return y, ""
        captures, ran = table.captures, code_that_ran(seen)
        if self._has_other_code(captures, ran, reading.in_derivative):
            return y, ""
        if effect := captures.changed(reading, seen):
            return y, self._count_refusal(effect)
        doubt = captures.doubt(seen)
        can_narrow = captures.ran is None and not (self._scans_all or reading.in_derivative)
        if not can_narrow or captures.idle_code(ran) <= (0 if doubt else MAX_IDLE_CODE):
            return y, doubt
        self._ran = ran
        self._drop_recordings()
        return y, seen

    def _run_observed(self, args, kwargs, reading, leaves):
        """Return the value of f and the observer. A derivative is evaluated before its function is observed.

        In the other order, caches that the function fills with plain values would lose the derivative.
        """
        f = self.f
        y = self._derivative(args, kwargs) if isinstance(f, Operator) else None
        while isinstance(f, Operator):
            args = f.first(args) if isinstance(f, Mapped) else args
            args = (args[0], *args[2:]) if isinstance(f, (JVP, HVP)) else args
            f = f.f
        is_plain = reading is None or reading.is_plain
        if is_plain and f is not self.f:
            args, kwargs = _own((args, kwargs))
        with Observer() as seen:
            value = f(*args, **kwargs) if is_plain else self._eager_value(args, kwargs, reading, leaves)
        return (value if f is self.f else y), seen

    def _derivative(self, args, kwargs):
        """Evaluate a derivative eagerly, a Hessian in one direction; subclasses may return `UNKNOWN`."""
        product = None if self.exact else HessianProduct.of(self.f, args, kwargs)
        return self.f(*args, **kwargs) if product is None else product

    def _count_refusal(self, reason):
        """Count a call that cannot be replayed, and give f up after `MAX_SIDE_EFFECTS` of them."""
        self._refusals += 1
        if self._refusals == MAX_SIDE_EFFECTS:
            self._give_up(str(reason))
        return ""

    def _trace_and_check(self, expected, reading, args, kwargs, leaves, n):
        """Return a new path and its outputs, or why there is none; the reason is empty if another call may work."""
        self._budget.count(self._replays)
        frozen, assumes_finite = reading.frozen, isinstance(self.f, Operator)
        while True:
            try:
                program = self._trace(reading, args, kwargs, leaves, n, assumes_finite)
                if isinstance(program, str):
                    return program
                y = self._first(program, leaves)
                break
            except GuardError as error:  # a derivative rule branches differently here, for example on NaN
                if not assumes_finite:
                    is_special = any(place in str(error) for place in (INFINITE, SINGULAR))
                    return "" if isinstance(self.f, Operator) or is_special else _OTHER_BRANCH
                reading.frozen, assumes_finite = frozen, False
        path = Path(program, self._next_due(1))
        try:
            matches = self._agrees(path, restored(program, y), expected, reading, args, kwargs, leaves)
        except (Unrecorded, NotReplayable):  # without an exact recording, nothing shows whether f amplifies rounding
            return ""
        return (path, y) if matches else _OTHER_VALUE

    def _first(self, program, leaves):
        """Run a program at the point at which it was traced."""
        return program._execute(leaves)

    def _trace(self, reading, args, kwargs, leaves, n, assumes_finite=False):
        """Return a new program, or why there is none; `assumes_finite` is as in `record.trace`."""
        known, errors = reading.frozen, []
        for frozen in itertools.chain((known,), freezing.candidates(self.f, args, kwargs, leaves, n)):
            if known.issubset(frozen):
                reading.frozen = known if frozen == known else frozen
                try:
                    with unnoted():
                        defers = self.tier == "auto"
                        options = self.exact, self._disabled, defers, assumes_finite, True
                        program = record.trace(self.f, args, kwargs, reading, *options)
                    return program if self.tier == "auto" else program.tiered(self.tier)
                except NotSeen:
                    self._scan_all()
                    return ""
                except Uncopied:
                    self._pin_all()
                    return ""
                except NotHere:
                    return ""
                except Unrecorded as reason:
                    return str(reason) if reason.is_lasting else ""
                except NotReplayable as reason:
                    return self._count_refusal(reason)
                except NonSmoothError:
                    return ""
                except GuardError:
                    if assumes_finite:
                        raise
                    return "" if isinstance(self.f, Operator) else _OTHER_BRANCH
                except PatternError:  # a user-supplied pattern is wrong
                    raise
                except Exception as error:  # raised by the trace only: f has just run without error
                    if getattr(error, "is_final", False):
                        raise
                    errors.append(error)
        if getattr(errors[0], "runs_as_it_is", False):
            self._give_up(str(errors[0]))
            return ""
        return f"it cannot be recorded ({type(errors[0]).__name__}: {errors[0]})"

    def _may_record(self, in_derivative):
        """Return whether another recording is expected to pay off."""
        budget = self._budget
        if budget.allows(self._replays, in_derivative):
            return True
        if budget.is_low and not self._warned:
            self._warned = True
            self._warn(
                f"{budget.recordings} recordings for {self._replays} replays: most calls that need more run "
                "uncompiled. Each value of an integer, a string or a flag, each shape, each function or object among "
                "the arguments and each combination of branches needs its own recording: pass varying values as "
                "floats, and write numpy.where instead of branches"
            )
        return False

    def _move_to_front(self, table, key, path):
        with self._lock:
            paths = table.paths.get(key, ())
            if path in paths:
                table.paths[key] = (path, *[other for other in paths if other is not path])

    def _next_due(self, number):
        """Return the number of the next call that is compared with f."""
        if self.recheck == "auto":
            return max(4, 1 << number.bit_length())
        return sys.maxsize if self.recheck is None else number + self.recheck - number % self.recheck

    def _give_up(self, reason):
        """Run f eagerly from now on."""
        self._eager, self._route = reason, None
        self._warn(f"{reason}: {self._name} runs uncompiled from now on")

    def _refuse(self, reason):
        """Warn once about calls that run uncompiled."""
        if not self._is_refused:
            self._is_refused = True
            self._warn(
                f"{reason}: such calls run uncompiled. Pass varying values as arguments, or store them as numbers or "
                "arrays in a global, an attribute or a variable; declare objects that never change with "
                "compile(f, constant=...)"
            )

    def _warn(self, text):
        if self.is_quiet:
            return
        warnings.warn(f"{self!r}: {text}", CompileWarning, stacklevel=_stacklevel())


class CompiledBatch(Compiled):
    """A compiled function that solves equations at many points at once; only the first point is compared with f."""

    def __init__(self, f, *options):
        super().__init__(f, *options)
        f._compiled = False  # calls that run uncompiled are not compiled again

    def _derivative(self, args, kwargs):
        return UNKNOWN

    def _eager_value(self, args, kwargs, reading, leaves):
        numbers = iter(leaves)
        args, kwargs = fill((args, kwargs), numbers)
        f = self.f if reading.is_plain else reading.bound(numbers)
        return f.f(*f.first(args), **kwargs)

    def _agrees(self, path, y, expected, reading, args, kwargs, leaves, is_first=True):
        if expected is UNKNOWN:
            expected = self._eager_value(args, kwargs, reading, leaves)
        return super()._agrees(path, _first_of(y), expected, reading, args, kwargs, leaves, is_first)

    def _retraced(self, args, kwargs, reading, exact, leaves):
        return _first_of(super()._retraced(args, kwargs, reading, False, leaves))


for _cls in (Compiled, CompiledBatch):
    _cls.__doc__ = _Documentation(_cls.__doc__)  # type: ignore[assignment]


def _is_recorded_in_vain(path):
    """Return whether a path has not been replayed, and expects a large array of discrete values, such as a mask."""
    return not path.calls and path.failed >= 0 and path.program._guard_size(path.failed) >= MIN_VARYING_SIZE


def _is_unknown(y):
    """Return whether a derivative has not been evaluated as a whole."""
    return y is UNKNOWN or type(y) is HessianProduct


def _first_of(y):
    """Return the first element of a batch of results."""
    return mapped(y, lambda leaf: leaf[0])


def _own(given):
    """Return arguments with copies of their arrays, since the differentiated function may write into them."""
    copies: dict = {}
    return mapped(given, lambda x: copies.setdefault(id(x), x.copy("K")) if type(x) is np.ndarray else x)


def _user_classes(args, kwargs):
    """Return user-defined classes among the containers in the arguments."""
    found = {cls for value in (*args, *kwargs.values()) for cls in classes_of(value)}
    return [cls for cls in found if not is_pure(cls.__module__) and cls is not types.SimpleNamespace]


def _parameters_of(f):
    """Return the names of the function's parameters, in order."""
    while isinstance(f, Operator):
        f = f.f
    try:
        return tuple(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return ()


def _stacklevel():
    """Return the stack level of the first frame outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("wengert."):
        level, frame = level + 1, frame.f_back
    return level


def _name_of(f):
    return getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)
