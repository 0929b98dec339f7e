"""Dense gradients and Jacobians: what `grad` and `jacobian` return, callables for any solver.

A Jacobian is made of rows: k cotangents are swept at once over one recording.
"""

from __future__ import annotations

import inspect
import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import plain_copy
from wengert.core.pullback import pull_back
from wengert.transforms.products import Pullback, Recording, assemble_inputs, record, shape_of

#: bytes of adjoints that one sweep of a Jacobian may take: about what stays in a second-level cache
_SWEEP_BYTES = 1 << 21

#: fewest directions swept at once, where there are that many: the pass over the list is paid once for all of them;
#: but their adjoints must not take more than so many bytes
_FEWEST = 16
_MOST_BYTES = 1 << 28


class Derivative:
    """A derivative of `f` as a callable with the signature of `f`."""

    word = "derivative"

    def __init__(self, f: Callable, argnums: Any = 0, value: bool = False, has_aux: bool = False):
        if not callable(f):
            raise TypeError(f"{self.word}: expected a function, got {type(f).__name__}")
        argnums = tuple(argnums) if isinstance(argnums, list) else argnums
        self.f = f
        self.argnums = argnums
        self.with_value = value
        self.has_aux = has_aux
        self.name = f"{self.word}({_name_of(f)})"
        self._single = isinstance(argnums, (int, np.integer))
        self._positions = (argnums,) if self._single else argnums
        if isinstance(argnums, bool) or not (
            self._single
            or isinstance(argnums, slice)
            or (isinstance(argnums, tuple) and all(isinstance(i, (int, np.integer)) for i in argnums))
        ):
            raise TypeError(f"{self.word}: argnums is an int, a tuple of ints or a slice, not {argnums!r}")
        self._bare = not (value or has_aux or isinstance(argnums, slice))
        self._shared: _Shared | None = None  # what `fun` left for the derivative
        self._lock = threading.Lock()
        self.__wrapped__ = f
        self.__doc__ = f"{self.name}\n\n{getattr(f, '__doc__', None) or ''}".rstrip()
        self.__name__ = self.__qualname__ = f"{self.word}_{_name_of(f)}"

    def __repr__(self):
        options = "" if self.argnums == 0 else f", argnums={self.argnums!r}"
        options += ", value=True" if self.with_value else ""
        options += ", has_aux=True" if self.has_aux else ""
        return f"{self.word}({_name_of(self.f)}{options})"

    @property
    def __signature__(self):
        return inspect.signature(self.f)

    def positions(self, args: tuple) -> tuple:
        """Positions of the differentiated arguments in the call."""
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
            raise ValueError(f"{self.name}: argnums={self.argnums!r} names one argument twice")
        return positions

    def __call__(self, *args, out=None, **kwargs):
        if out is None and self._bare and self._shared is None:  # the usual call, kept short
            run = record(self.f, args, kwargs, self.positions(args), False, self.name)
            try:
                return self.of(run)
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
            parts = (*parts[:position], _copied(out, parts[position], self.name), *parts[position + 1 :])
        return parts[0] if len(parts) == 1 else parts

    def _parts(self, run):
        """What the options ask for: value, derivative, aux."""
        result = self.of(run)
        if isinstance(self._positions, slice):
            result = self._stack(result)
        parts = (run.value(), result) if self.with_value else (result,)
        return (*parts, run.aux) if self.has_aux else parts

    def of(self, run: Recording) -> Any:
        """The derivative, from a recording."""
        raise NotImplementedError

    def _stack(self, parts):
        if any(isinstance(part, (dict, list, tuple)) for part in parts):
            raise TypeError(f"{self.name}: argnums={self.argnums!r} needs one array as output")
        return np.stack(parts, axis=-1)

    # -- one evaluation for the value and the derivative: SciPy asks for both at the same point

    @property
    def fun(self) -> Callable:
        """`f` through a one-entry cache, sharing its evaluation with the derivative.

        Called at a new point it records; the derivative asked for at that point then only sweeps.
        The point is compared by the bytes of the arguments: what else `f` reads must not change meanwhile.
        """
        return self._value

    def _value(self, *args, **kwargs):
        key = _key(args, kwargs)
        with self._lock:
            if self._shared is None or self._shared.key != key:
                if self._shared is not None:
                    self._shared.run.close()
                    self._shared = None
                self._shared = _Shared(key, self._record(args, kwargs))
            return plain_copy(self._shared.value)

    def _shared_parts(self, args, kwargs):
        """What `fun` has prepared at this point, or None."""
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

    def _record(self, args, kwargs):
        return record(self.f, args, kwargs, self.positions(args), self.has_aux, self.name)

    def __reduce__(self):
        return type(self), (self.f, self.argnums, self.with_value, self.has_aux)

    def __del__(self):
        if getattr(self, "_shared", None) is not None:
            self._shared.run.close()


class _Shared:
    """One point at which `fun` was called: the recording, its value, and the derivative once it was asked for."""

    def __init__(self, key, run):
        self.key = key
        self.run = run
        self.value = run.value()
        self.parts = None


def _key(args, kwargs):
    return tuple(_part(a) for a in args), tuple((name, _part(kwargs[name])) for name in sorted(kwargs))


def _part(x):
    """What an argument is compared by: the bytes of an array, the identity of anything but a number."""
    if isinstance(x, np.ndarray) and x.dtype != object:
        return x.dtype.str, x.shape, x.tobytes()
    if isinstance(x, (int, float, complex, str, bytes, np.generic)):
        return type(x), repr(x)
    if isinstance(x, (list, tuple)):
        return type(x), tuple(_part(item) for item in x)
    return _Same(x)


class _Same:
    """Equal only to itself around the same object, which it keeps alive; mutable objects never match."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return isinstance(other, _Same) and self.x is other.x and callable(self.x)

    __hash__ = None


def _name_of(f) -> str:
    return getattr(f, "__qualname__", None) or getattr(f, "__name__", None) or repr(f)


def _copied(out, result, name):
    if not isinstance(result, (np.ndarray, np.generic)):
        raise TypeError(f"{name}: out= needs a single array as result")
    if np.shape(out) != np.shape(result):
        raise ValueError(f"{name}: out= has shape {np.shape(out)}, the result has shape {np.shape(result)}")
    np.copyto(out, result)
    return out


def checked_chunk(word: str, chunk: Any) -> int | None:
    if chunk is not None and (not isinstance(chunk, (int, np.integer)) or chunk < 1):
        raise ValueError(f"{word}: chunk is the number of rows swept at once, at least 1, not {chunk!r}")
    return chunk


def check_single_number(run: Recording, instead: str) -> None:
    """Raise unless the function returned one number."""
    outputs = run.outputs
    if len(outputs) != 1 or shape_of(outputs[0]) != ():
        several = f"it returned a container of {len(outputs)} arrays"
        got = f"its output has shape {shape_of(outputs[0])}" if len(outputs) == 1 else several
        raise TypeError(f"{run.name}: the function must return a single number, {got}: use {instead}")


def directions_at_once(run: Recording, m: int) -> int:
    """How many of m directions are swept at once: as many as fit, since each sweep passes over the whole list."""
    row = 8 * (run.tape.size + run.tape.elements + 1)
    return m if m * row <= _SWEEP_BYTES else min(m, max(1, _SWEEP_BYTES // row, min(_FEWEST, _MOST_BYTES // row)))


class Gradient(Derivative):
    """Gradient of a function with one scalar output."""

    word = "grad"

    def of(self, run):
        check_single_number(run, "wengert.jacobian(f), or wengert.vjp(f, x) with a seed")
        found = pull_back(run.tape, run.inputs, run.outputs, [1.0], 1, False, True)
        return found[0] if run.restore_inputs is None and self._single else assemble_inputs(run, found, self._single)


class Jacobian(Derivative):
    """Jacobian by rows: k cotangents swept at once."""

    word = "jacobian"

    def __init__(self, f, argnums=0, value=False, has_aux=False, chunk=None):
        super().__init__(f, argnums, value, has_aux)
        self.chunk = checked_chunk(self.word, chunk)

    def __reduce__(self):
        return type(self), (self.f, self.argnums, self.with_value, self.has_aux, self.chunk)

    def of(self, run):
        if len(run.outputs) == 1:
            shape = shape_of(run.outputs[0])
            if len(shape) == 1 and run.restore_output is None and run.restore_inputs is None and self._single:
                return self._rows(run, shape[0])[0]
            rows = self._rows(run, math.prod(shape))
            block = self._block(run, rows, shape)
            return run.restore_output([block]) if run.restore_output else block
        shapes = [shape_of(y) for y in run.outputs]
        rows = self._rows(run, sum([math.prod(shape) for shape in shapes]))
        blocks = []
        first = 0
        for shape in shapes:
            last = first + math.prod(shape)
            blocks.append(self._block(run, [row[first:last] for row in rows], shape))
            first = last
        return run.restore_output(blocks)

    def _rows(self, run, m):
        """Derivatives of all m elements of the outputs, an array of shape (m, *S) for each input."""
        k = self.chunk or directions_at_once(run, m)
        if 0 < m <= k:
            return pull_back(run.tape, run.inputs, run.outputs, (0, m), m, True, True)
        rows = [np.empty((m, *x.shape), dtype=x.dtype) for x in run.inputs]
        for first in range(0, m, k or 1):
            last = min(first + k, m)
            found = pull_back(run.tape, run.inputs, run.outputs, (first, last), last - first, True, last == m)
            for whole, part in zip(rows, found):
                whole[first:last] = part
        return rows

    def _block(self, run, rows, shape):
        """Rows of one output, in its shape and in the form of the arguments."""
        if len(shape) != 1:
            rows = [row.reshape(shape + row.shape[1:]) for row in rows]
        rows = [row if row.ndim else row[()] for row in rows]      # as a function of numbers would give
        return assemble_inputs(run, rows, self._single)


class VJP:
    """``vjp(f)``: a callable that gives the value and the pullback at a point."""

    def __init__(self, f: Callable, argnums: Any = 0, has_aux: bool = False):
        self._recorder = Derivative(f, argnums, False, has_aux)
        self._recorder.name = f"vjp({_name_of(f)})"
        self.f = f

        self.__wrapped__ = f  # inspect.signature gives that of f

    def __reduce__(self):
        return type(self), (self.f, self._recorder.argnums, self._recorder.has_aux)

    def __repr__(self):
        return self._recorder.name

    def __call__(self, *args, **kwargs):
        run = self._recorder._record(args, kwargs)
        pullback = Pullback(run, self._recorder._single)
        if self._recorder.has_aux:
            return run.value(), pullback, run.aux
        return run.value(), pullback


