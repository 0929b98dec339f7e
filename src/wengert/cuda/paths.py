"""`wengert.cuda.vmap`: batched evaluation on a GPU of functions with branches, one kernel per path.

A kernel implements one path through the function and reports for each point which guard failed there, if any.
Points without a failed guard are done. The function is recorded again at the first of the others, and the kernel of
that path runs on the remaining points, until all points are done or there are too many paths.
A result is kept only where the point takes the path that computed it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.cuda.arrays import Given
from wengert.cuda.batch import Kernel, device_of, first_of
from wengert.cuda.device import stream_of
from wengert.errors import GuardError
from wengert.program.record import record
from wengert.program.signature import refuse_traced
from wengert.program.specialise.compiled import Compiled
from wengert.program.tracing.pytree import key_of
from wengert.transforms.dense import Gradient, Jacobian
from wengert.transforms.operators import Operator
from wengert.transforms.second import HVP

#: maximum number of paths per call
MAX_PATHS = 16


def vmap(
    f: Callable,
    *,
    in_axes: Any = 0,
    dtype: Any = None,
    compile: str = "auto",
    chunk: int | str = "auto",
    debug: bool = False,
    target: str = "cuda",
) -> Callable:
    """Vectorise a function, or a derivative of one, over many points on a GPU.

    The function is recorded at the first point of the first call. If other points take another branch, it is recorded
    again and that branch runs for those points only.

    Parameters
    ----------
    f : callable
        Maps an array of shape S (and further arguments) to an array of shape T: a function that uses NumPy functions,
        or the result of `wengert.grad`, `wengert.value_and_grad`, `wengert.jacobian`, `wengert.hessian` or
        `wengert.hvp`.
    in_axes : 0 or tuple of 0 and None
        Which arguments have a leading batch axis: all of them, or those with a 0. Others are the same for all points.
    dtype : {None, "float64", "float32"}
        Precision of the computation; by default that of the first argument.
    compile : {"auto", "never"}
        "never" interprets the recording, which pays if it is used once.
    chunk : int or "auto"
        Number of points per kernel launch for host arrays; by default as many as fit.
    debug : bool
        Synchronise after each kernel, and raise `FloatingPointError` if results are not finite.
    target : {"cuda", "cpu"}
        Where to compute. "cpu" compiles the kernels for the CPU, for debugging; it requires numba.

    Returns
    -------
    callable
        Takes the arguments of `f`, and ``out=``. Arrays on the device are used without a copy, and results are arrays
        of the same library; NumPy arrays give NumPy arrays.

    Raises
    ------
    CudaUnavailable
        By a call, if there is no GPU; there is no fallback to the CPU.
    GuardError
        By a call, if the points take too many paths.
    NotDerivable, UnsupportedFunctionError
        By a call, if the recording contains an operation without a kernel.

    See Also
    --------
    wengert.vmap : Vectorisation on the CPU.

    Examples
    --------
    >>> import numpy as np, wengert as wg, wengert.cuda
    >>> def f(x):
    ...     return x[0] * x[1] if x[0] > 0 else x[1] ** 2
    >>> J = wengert.cuda.vmap(wg.grad(f))
    >>> X = np.array([[2.0, 3.0], [-1.0, 4.0]])
    >>> gradients = J(X) if wengert.cuda.is_available() else None
    """
    return Mapped(f, in_axes, {"dtype": dtype, "compile": compile, "chunk": chunk, "debug": debug, "target": target})


class Mapped:
    """A function vectorised by `vmap`."""

    def __init__(self, f: Callable, in_axes: Any, options: dict):
        f = f.f if isinstance(f, Compiled) else f
        if not callable(f):
            raise TypeError(f"vmap: expected a function, got {type(f).__name__}")
        is_tuple = isinstance(in_axes, tuple)
        if not (is_tuple and all(a in (0, None) for a in in_axes)) and (is_tuple or in_axes != 0):
            raise ValueError(f"vmap: in_axes must be 0 or a tuple of 0 and None, not {in_axes!r}")
        if is_tuple and 0 not in in_axes:
            raise ValueError("vmap: no argument has a batch axis: call the function itself")
        self.f = f
        self._in_axes = in_axes
        self._options = options
        self._inner, self._mode, self._pick = _split(f)
        self._kernels: dict[Any, tuple[Kernel, ...]] = {}
        self._lock = threading.Lock()

    def __repr__(self):
        name = repr(self.f) if isinstance(self.f, Operator) else getattr(self.f, "__qualname__", None) or repr(self.f)
        return f"vmap({name})"

    @property
    def paths(self) -> int:
        """Number of cached recordings."""
        return sum(map(len, self._kernels.values()))

    def __call__(self, *args: Any, out: Any = None) -> Any:
        axes = self._in_axes if isinstance(self._in_axes, tuple) else (0,) * len(args)
        if len(axes) != len(args):
            raise TypeError(f"{self!r}: in_axes has {len(axes)} entries, the call {len(args)} arguments")
        refuse_traced(repr(self), args, {})
        points = _Points(args, axes, repr(self), device_of(self._options["target"]))
        out = out if self._pick is None or out is None else tuple(out if i == self._pick else None for i in range(2))
        found = self._evaluate(points, out).returned()
        found = found if self._pick is None else found[self._pick : self._pick + 1]
        return found if len(found) > 1 else found[0]

    def _evaluate(self, points, out):
        """Evaluate all points, on as many paths as they take; return the run."""
        known = self._kernels.get(points.key, ())
        run, left = None, None  # left: points without a result; None: all points
        for i in range(MAX_PATHS):
            is_new = i >= len(known)
            kernel = self._record(points, 0 if left is None else left[0]) if is_new else known[i]
            part = kernel.attempt(self._mode, *((points.args, out) if left is None else (points.at(left),)))
            failed = part.failed
            if is_new and (failed is None or not failed.all()):
                with self._lock:
                    self._kernels[points.key] = (*self._kernels.get(points.key, ()), kernel)
            if is_new and failed is not None:
                failed[0] = 0  # at the recorded point a guard can fail only by rounding
            if run is None:
                run, left = part, np.arange(0 if failed is None else points.n)
            else:
                done = np.arange(len(left)) if failed is None else np.flatnonzero(failed == 0)
                run.put(left[done], part, done)
            left = left[:0] if failed is None else left[failed != 0]
            if not len(left):
                return run
        raise GuardError(
            f"{self!r}: at {len(left)} of {points.n} points the function takes none of the {MAX_PATHS} paths that "
            f"were recorded, for example at {first_of(left)}: write numpy.where for branches"
        )

    def _record(self, points, i):
        """Record the path taken at a point; return its kernel."""
        example = points.example(i)
        if self._mode == "hvp":
            example = (example[0], *example[2:])
        return Kernel(record(self._inner, example, {}, False), **self._options)


def _split(f):
    """Return the function to record, the kernel method, and the index of the requested result; None for all results."""
    if type(f) in _METHODS and not (f.has_aux or f.argnums != 0 or f.holomorphic or isinstance(f.f, Operator)):
        return f.f, _METHODS[type(f)], None if f.with_value else 1
    if type(f) is HVP and f.argnums == 0 and not isinstance(f.f, Operator):
        return f.f, "hvp", None
    return f, "value", None


_METHODS = {Gradient: "value_and_grad", Jacobian: "value_and_jacobian"}


class _Points:
    """The arguments of one call at `n` points.

    The cache key of their recordings, `key`, consists of shapes, dtypes, and constants.
    """

    def __init__(self, args, axes, name, device):
        self.args, self.device = args, device
        self.given = [
            Given(x, f"{name}: argument {i}") if axis == 0 or _is_array(x) else None
            for i, (x, axis) in enumerate(zip(args, axes))
        ]
        self.is_batched = [axis == 0 for axis in axes]
        first = next(given for given, axis in zip(self.given, axes) if axis == 0)
        if not first.ndim:
            raise ValueError(f"{name}: no argument has a batch axis: call the function itself")
        self.n = first.shape[0]
        if not self.n:
            raise ValueError(f"{name}: there are no points, but the function must be recorded at one")
        self.key = tuple(map(self._key, args, self.given, axes))

    def _key(self, x, given, axis):
        if given is None:
            return key_of(x, [], [])
        return given.dtype.str, given.shape[1:] if axis == 0 else given.shape, axis

    def example(self, i):
        """Return the arguments at one point, on the host, in double precision; kernels convert them."""
        return tuple(
            x if given is None else self._number_or_array(given, i if is_batched else None)
            for x, given, is_batched in zip(self.args, self.given, self.is_batched)
        )

    def _number_or_array(self, given, i):
        stream = stream_of(self.device, given.stream) if given.on_device else None
        if not given.on_device:
            found = given.value if i is None else given.value[i]
        elif i is None:
            found = self.device.on_host(given, stream)
        else:
            found = self.device.copied(self.device.taken(given, np.array([i]), stream), stream)[0]
        return np.array(found, np.float64)[()]

    def at(self, indices):
        return tuple(
            self._some(given, indices) if is_batched else x
            for x, given, is_batched in zip(self.args, self.given, self.is_batched)
        )

    def _some(self, given, indices):
        if not given.on_device:
            return given.value[indices]
        return self.device.taken(given, indices, stream_of(self.device, given.stream))


def _is_array(x):
    """Return whether an unbatched argument is an input of the recording rather than a constant."""
    if isinstance(x, (np.ndarray, np.generic)):
        return x.dtype.kind == "f"
    return isinstance(x, float) or hasattr(x, "__cuda_array_interface__") or hasattr(x, "__dlpack__")
