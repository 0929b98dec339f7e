"""Base classes of operators on functions, such as `grad` and `jacobian`.

`Operator` holds a function and the positions of its differentiated arguments.
`Derivative` adds `fun`, which caches its last evaluation of the function, so that the derivative there needs no other.
"""

from __future__ import annotations

import inspect
from _thread import allocate_lock  # `threading` takes 0.5 ms to import
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from wengert.containers import plain_copy
from wengert.core.levels import running
from wengert.core.modes.pullback import quick
from wengert.core.rebind.new_arrays import may_rerun, rerun
from wengert.core.rebind.rebind import rebound
from wengert.errors import TracedValueError
from wengert.transforms.products import Recording, record, resumed

#: unused recordings of `fun` after which it evaluates f without recording
MAX_UNUSED_RECORDINGS = 2
_FLOATS = (float, np.float64, np.ndarray)


class _Documentation:
    """`__doc__` of operators: the text of the class; for an instance also the function and its documentation."""

    def __init__(self, text: str | None):
        self.text = text

    def __get__(self, instance: Any, owner: type) -> str | None:
        if instance is None:
            return self.text
        doc = getattr(instance.f, "__doc__", None)
        of_f = f"\n\n{name_of(instance.f)}:\n\n{inspect.cleandoc(doc)}" if isinstance(doc, str) else ""
        return f"{instance!r}\n\n{inspect.cleandoc(self.text or '')}{of_f}"


class Operator:
    """A function and the positions of its differentiated arguments; base of all operators on functions."""

    word = "operator"
    public: tuple = ()  # attributes that `dir` shows
    options: tuple = ("argnums", "has_aux")  # attributes that the class takes as arguments after `f`
    directions: tuple = ()  # names of the parameters that follow the first one of `f`
    sweeps = 1  # order of the derivatives that sweeps over the tape compute
    takes_complex = False  # whether arguments may be complex
    is_gradient = False  # whether the tape is swept once, with one cotangent
    is_derivative = True  # whether it is a derivative of `f` and can be derived from the program of `f`

    def __init__(self, f: Callable, argnums: Any = 0, has_aux: bool = False):
        if not callable(f):
            raise TypeError(f"{self.word}: expected a function, got {type(f).__name__}")
        argnums = tuple(argnums) if isinstance(argnums, list) else argnums
        self.f = f
        self.argnums = argnums
        self.has_aux = has_aux
        self.name = f"{self.word}({name_of(f)})"
        self._single = isinstance(argnums, (int, np.integer))
        self._positions = (argnums,) if self._single else argnums
        self._bare = not (has_aux or isinstance(argnums, slice))
        if isinstance(argnums, bool) or not (
            self._single
            or isinstance(argnums, slice)
            or (isinstance(argnums, tuple) and all(isinstance(i, (int, np.integer)) for i in argnums))
        ):
            raise TypeError(f"{self.word}: argnums must be an int, a tuple of ints or a slice, not {argnums!r}")

    def __init_subclass__(cls):
        cls.__doc__ = _Documentation(cls.__doc__)  # type: ignore[assignment]

    def __dir__(self):
        return [*(name for name in super().__dir__() if name.startswith("__")), *self.public]

    @property
    def __signature__(self):
        signature = inspect.signature(self.f)
        first, *others = [*signature.parameters.values()] or [None]
        if first is None or not self.directions or first.kind > first.POSITIONAL_OR_KEYWORD:
            return signature
        added = [inspect.Parameter(name, first.kind) for name in self.directions]
        return signature.replace(parameters=[first.replace(default=first.empty), *added, *others])

    def __repr__(self):
        options = "" if self.argnums == 0 else f", argnums={self.argnums!r}"
        options += ", has_aux=True" if self.has_aux else ""
        return f"{self.word}({name_of(self.f)}{options})"

    def __reduce__(self):
        return type(self), (self.f, *(getattr(self, name) for name in self.options))

    def positions(self, args: tuple) -> tuple:
        """Positions of the differentiated arguments in a call."""
        positions = self._positions
        if self._single and 0 <= positions[0] < len(args):
            return positions
        if isinstance(positions, slice):
            chosen = tuple(range(*positions.indices(len(args))))
            if not chosen:
                raise TypeError(f"{self.name}: argnums={positions} selects none of {len(args)} arguments")
            return chosen
        for position in positions:
            if not -len(args) <= position < len(args):
                raise TypeError(
                    f"{self.name}: argnums={self.argnums!r}, but the call has {len(args)} positional argument"
                    f"{'' if len(args) == 1 else 's'}: differentiated arguments are passed by position"
                )
        if len({position % len(args) for position in positions}) < len(positions):
            raise ValueError(f"{self.name}: argnums={self.argnums!r} contains an argument twice")
        return positions

    def _record(self, args, kwargs):
        positions = self.positions(args)
        options = self.sweeps, self.takes_complex, self.is_gradient
        return record(self.f, args, kwargs, positions, self.has_aux, self.name, *options)


class Derivative(Operator):
    """Base class of derivatives of `f` that are callables with the signature of `f`."""

    word = "derivative"
    public = ("fun",)
    options = ("argnums", "with_value", "has_aux")
    usual: ClassVar[dict] = {}  # defaults of options; the repr shows an option that differs from its default
    holomorphic = False

    def __init__(self, f: Callable, argnums: Any = 0, value: bool = False, has_aux: bool = False):
        super().__init__(f, argnums, has_aux)
        self.with_value = value
        self._bare = self._bare and not value
        self._shared: _Shared | None = None  # last evaluation by `fun`
        self._unused = 0  # recordings by `fun` that no derivative used, minus 2 for each one that a derivative lacked
        self._lock = allocate_lock()
        self._n = self._size = -1  # input and output size for which `quick` was accepted; -1: unknown
        self.__wrapped__ = f
        self.__name__ = self.__qualname__ = f"{self.word}_{name_of(f)}"

    def __repr__(self):
        options = ", value=True" if self.with_value else ""
        options += ", holomorphic=True" if self.holomorphic else ""
        for name, usual in self.usual.items():
            options += f", {name}={value!r}" if (value := getattr(self, name)) != usual else ""
        return super().__repr__()[:-1] + options + ")"

    def __call__(self, *args, out=None, **kwargs):
        if self._unused > MAX_UNUSED_RECORDINGS and not running.get():
            self._unused -= 2
        if out is None and self._bare and self._shared is None:  # fast path
            run = None
            if self._single and (self._size >= 0 or self._may_use_quick(args)):
                f = rebound(self.f, True, len(args) + len(kwargs))
                try:
                    found = quick(f, self.name, args, kwargs, self.argnums, self._n, self._size, self._accept)
                except TracedValueError as error:
                    if not may_rerun(error):
                        raise
                    return rerun(error, self, *args, **kwargs)
                if type(found) is tuple:
                    run = resumed(self.f, *found, self.name, args, kwargs, (self.argnums,))
                    run = self._in_cheaper_mode(run, args, kwargs)
                elif found is not None:
                    return found
            if run is None:
                run = self._record(args, kwargs)
            try:
                return self.from_recording(run)
            finally:
                run.tape.close()
        parts = self._shared_parts(args, kwargs) if self._shared is not None else None
        if parts is None:
            run = self._record(args, kwargs)
            try:
                parts = self._parts(run)
            finally:
                run.tape.close()
        if out is not None:
            position = 1 if self.with_value else 0
            parts = (*parts[:position], _copy_into(out, parts[position], self.name), *parts[position + 1 :])
        return parts[0] if len(parts) == 1 else parts

    def _may_use_quick(self, args):
        """Return whether a call may try the fast path, see `wengert.core.modes.pullback.quick`."""
        return False

    def _accept(self, n, m, size):
        """Return whether m rows should be swept at once over a tape of this size."""
        raise NotImplementedError

    def _in_cheaper_mode(self, run, args, kwargs):
        """Return the recording, or an evaluation in the mode that is cheaper now that the shapes are known."""
        return run

    def _parts(self, run):
        """Value, derivative and aux, as the options request them."""
        result = self.from_recording(run)
        if isinstance(self._positions, slice):
            result = self._stack(result)
        parts = (run.value(), result) if self.with_value else (result,)
        return (*parts, run.aux) if self.has_aux else parts

    def from_recording(self, run: Recording) -> Any:
        """Compute the derivative from a recording."""
        raise NotImplementedError

    def _stack(self, parts):
        if any(isinstance(part, (dict, list, tuple)) for part in parts):
            raise TypeError(f"{self.name}: argnums={self.argnums!r} requires a single output array")
        return np.stack(parts, axis=-1)

    # -- one evaluation for value and derivative, which SciPy requests at the same point

    @property
    def fun(self) -> Callable:
        """`f` through a one-entry cache that the derivative shares.

        A call at a new point records `f`; the derivative at that point then only sweeps the tape.
        After several unused recordings in a row, `f` is called without recording until derivatives are requested again.
        Points are compared by the bytes of the arguments; anything else that `f` reads must not change in between.
        """
        return self._value

    def _value(self, *args, **kwargs):
        if running.get():  # traced values cannot be compared
            return rebound(self.f)(*args, **kwargs)
        key = _key(args, kwargs)
        with self._lock:
            if self._shared is None or self._shared.key != key:
                if self._shared is not None:
                    self._unused = max(0, self._unused + (1 if self._shared.parts is None else -1))
                    self._shared.run.close()
                    self._shared = None
                if self._unused > MAX_UNUSED_RECORDINGS:
                    y = self._value_unrecorded(args, kwargs)
                    if y is not None:
                        return y
                self._shared = _Shared(key, self._record(args, kwargs))
            return plain_copy(self._shared.value)

    def _value_unrecorded(self, args, kwargs):
        """Value of `f` at float64 arguments, if it is float64; otherwise None."""
        if self.has_aux or not all(type(args[i]) in _FLOATS and _is_double(args[i]) for i in self.positions(args)):
            return None
        y = self.f(*(np.copy(x) if type(x) is np.ndarray else x for x in args), **kwargs)
        return np.copy(y)[()] if type(y) in _FLOATS and _is_double(y) else None

    def _shared_parts(self, args, kwargs):
        """Results for the point of the last call of `fun`, or None at another point."""
        if running.get():
            return None
        key = _key(args, kwargs)
        with self._lock:
            shared = self._shared
            if shared is None or shared.key != key:
                return None
            if shared.parts is None:
                try:
                    shared.parts = self._parts(shared.run)
                finally:
                    shared.run.close()
            return tuple(plain_copy(part) for part in shared.parts)

    def __del__(self):
        if getattr(self, "_shared", None) is not None:
            self._shared.run.close()


class _Shared:
    """Results at the last point of `fun`: its recording, its value, and its derivative if one was requested."""

    def __init__(self, key, run):
        self.key = key
        self.run = run
        self.value = run.value()
        self.parts = None


def _is_double(x):
    return type(x) is float or x.dtype == np.float64


def _key(args, kwargs):
    return tuple(_key_of(a) for a in args), tuple((name, _key_of(kwargs[name])) for name in sorted(kwargs))


def _key_of(x):
    """Cache key of an argument: the bytes of an array, the text of a scalar, the identity of other objects."""
    if isinstance(x, np.ndarray) and x.dtype != object:
        return x.dtype.str, x.shape, x.tobytes()
    if isinstance(x, (int, float, complex, str, bytes, np.generic)):
        return type(x), repr(x)
    if isinstance(x, (list, tuple)):
        return type(x), tuple(_key_of(item) for item in x)
    return _ById(x)


class _ById:
    """Compares an object by identity, and keeps it alive; only callables are equal, since others may change."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, _ById) and self.x is other.x and callable(self.x)

    __hash__ = None


def name_of(f) -> str:
    return getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)


def _copy_into(out, result, name):
    if not isinstance(result, (np.ndarray, np.generic)):
        raise TypeError(f"{name}: out= needs a single array as result")
    if np.shape(out) != np.shape(result):
        raise ValueError(f"{name}: out= has shape {np.shape(out)}, the result has shape {np.shape(result)}")
    np.copyto(out, result)
    return out


def checked_chunk(word: str, chunk: Any) -> int | None:
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or chunk < 1):
        raise ValueError(f"{word}: chunk must be a positive number of directions, not {chunk!r}")
    return chunk
