# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Guarded fast path from a call to its specialised program, in C.

Data
    Path       a program, with its call counters
    Route      an inline cache: the path of the last call, with guards on arguments and captured values
    Caller     a callable that tries its route first

A route only speeds up dispatch: a call that fails its guards is looked up by its key.
"""

cimport cython
from cpython.contextvars cimport PyContextVar_Get
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from cpython.tuple cimport PyTuple_GET_SIZE

import sys

import numpy as np

from wengert.program.tracing.arguments cimport Arguments, Template, is_array_of, is_same, snapshot_of, template_of
from wengert.program.tracing.environment cimport Place, StateGuards
from wengert.program.vm.runner cimport Run, Vectored, let_vector

from wengert.core.levels import running
from wengert.errors import GuardError
from wengert.program.tracing.pytree import aliases_of, lowered

cdef extern from "Python.h":
    PyObject **PySequence_Fast_ITEMS(object items)

#: a guard failed, or a NumPy call raised for these values; f may take another branch for them
FAILURES = (GuardError, ArithmeticError, np.linalg.LinAlgError)
cdef object float64 = np.float64
cdef Py_ssize_t NEVER = sys.maxsize


@cython.final
cdef class Path:
    """A specialised program, its number of replays, and the number of the call at which it is next compared with f.

    `switch` is the number of the call at which another form of the program takes over, see `replaced`.
    `failed` is the index of the guard that failed last, or -1.
    `rounding` is the largest difference from f, in units in the last place, that was identified as rounding.
    """

    cdef readonly object program
    cdef public Py_ssize_t calls, due, switch, failed
    cdef public double rounding

    def __init__(self, program, Py_ssize_t due):
        self.program, self.switch = program, NEVER if program._later is None else program._later[0]
        self.failed = -1
        self.set_due(due)

    def set_due(self, Py_ssize_t due):
        """Set the number of the next call that is compared with f; a switch happens at such a call, too."""
        self.due = min(due, self.switch)

    def replaced(self, list leaves):
        """Switch to the other form of the program and return its outputs; None if it does not run at this point."""
        if self.switch == NEVER:        # another thread has switched
            return None
        self.switch = NEVER
        try:
            program = self.program._later[1]()
            y = program._try_execute(leaves)
        except Exception:               # the first form is right; only its speed is at stake
            return None
        if type(y) is not list:
            return None
        self.program = program
        return y


@cython.final
cdef class Route:
    """The program of the last call, and the guards under which a later call may run it.

    `live` are templates of the `places` that hold inputs, `static` snapshots of the places in `fixed`, which are part
    of the key.  `pinned` are pairs (index, snapshot) of leaves that are part of the key too.  `arrays` are the indices
    of array leaves if there are at least two; `aliases` are pairs of them that are the same array.
    """

    cdef StateGuards around
    cdef Path path
    cdef object attempt, restore
    cdef bint is_float              # whether the result is one Python float
    cdef Run direct
    cdef tuple shape
    cdef Arguments arguments
    cdef list live, static, places, fixed, pinned, arrays
    cdef tuple aliases
    cdef bint is_whole

    @staticmethod
    def of(Path path, StateGuards around, tuple args, dict kwargs, positions, list live, list static, list leaves,
           list pinned, bint is_whole):
        """Return the route of a call that took `path`; None if a value has no template, see `Arguments.of`."""
        cdef Route route = Route.__new__(Route)
        route.path, route.around, route.is_whole = path, around, is_whole
        route.attempt, route.restore = path.program._try_execute, path.program._result_of_outputs
        route.is_float = path.program._returns_float
        route.direct = path.program._single_vm if route.restore is None or route.is_float else None
        route.shape = path.program._output_shape if route.restore is None or route.restore.keeps_out else None
        route.arguments = Arguments.of(args, kwargs, positions)
        route.places, route.live = live, [template_of(lowered((<Place>place).read())) for place in live]
        route.fixed, route.static = static, [snapshot_of((<Place>place).read()) for place in static]
        route.pinned = [(i, snapshot_of(leaf)) for i, leaf in pinned]
        route.aliases = aliases_of(leaves)
        route.arrays = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
        if len(route.arrays) < 2:
            route.arrays = []
        has_pinned_array = any([isinstance(leaf, np.ndarray) for _, leaf in pinned])    # f may read its flags
        return None if route.arguments is None or None in route.live or has_pinned_array else route

    cdef bint fits(self, tuple args, dict kwargs, list leaves, list operands) except -1:
        if not self.around.hold() or not self.arguments.take(args, kwargs, leaves, operands):
            return False
        return self.fits_places(leaves, operands)

    cdef bint fits_places(self, list leaves, list operands) except -1:
        """Return whether the captured values fit, and those that are part of the key are unchanged."""
        cdef Py_ssize_t i
        for i in range(len(self.places)):
            if not (<Template>self.live[i]).take((<Place>self.places[i]).read(), leaves, operands):
                return False
        for i in range(len(self.fixed)):
            if not is_same((<Place>self.fixed[i]).read(), self.static[i]):
                return False
        for i, x in self.pinned:
            if not is_same(leaves[i], x):
                return False
        return self.has_aliases(PySequence_Fast_ITEMS(leaves))

    cdef bint has_aliases(self, PyObject **leaves) except -1:
        """Return whether the pairs of leaves that are the same array are those in `aliases`."""
        cdef Py_ssize_t i, j, n = len(self.arrays), found = 0
        for i in range(n):
            for j in range(i):
                if leaves[<Py_ssize_t>self.arrays[i]] == leaves[<Py_ssize_t>self.arrays[j]]:
                    if (self.arrays[i], self.arrays[j]) not in self.aliases:
                        return False
                    found += 1
                    break
        return found == len(self.aliases)

    cdef object result_at(self, PyObject **args, Py_ssize_t count, out):
        """Return the result for arguments that are leaves; `NotImplemented` if a guard fails."""
        cdef Py_ssize_t i
        cdef list leaves
        if not self.around.hold() or not self.arguments.take_leaves(args, count):
            return NotImplemented
        if self.places or self.fixed or self.pinned:
            leaves = [<object>args[i] for i in range(count)]
            if not self.fits_places(leaves, None):
                return NotImplemented
            args, count = PySequence_Fast_ITEMS(leaves), len(leaves)
        elif self.arrays and not self.has_aliases(args):
            return NotImplemented
        try:
            y = self.direct.single(args, count, out)
        except FAILURES:
            return NotImplemented
        if self.is_float and type(y) is float64:
            return PyFloat_AS_DOUBLE(y)
        return NotImplemented if type(y) is int else y

    cdef object result(self, list leaves, out):
        """Return the program's result, or the index (an int) of a failed guard."""
        if self.direct is not None:
            try:
                y = self.direct.single(PySequence_Fast_ITEMS(leaves), len(leaves), out)
            except FAILURES:
                return -1
            return PyFloat_AS_DOUBLE(y) if self.is_float and type(y) is float64 else y
        try:
            y = self.attempt(leaves) if out is None else self.attempt(leaves, [out])
        except FAILURES:
            return -1
        if type(y) is int:
            return y
        return y[0] if self.restore is None else self.restore(y)

cdef class Caller(Vectored):
    """A callable that tries the route of its last call first, and otherwise calls ``_call``.

    ``_call`` takes the arguments, and the path whose guards have just failed, or None.
    """

    cdef public Route _route
    cdef public Py_ssize_t _replays
    cdef public bint _takes_out     # whether calls accept out=, as derivatives do

    def __call__(self, *args, **kwargs):
        cdef Route route = self._route
        cdef list leaves
        failed = out = None
        if route is not None and not is_running() and not raises_errors():
            leaves = []
            # A call that is compared with f goes through `_call`.
            if self._takes_out and "out" in kwargs:
                out = kwargs.pop("out")
            if (route.path.calls + 2 < route.path.due
                    and (out is None or route.shape is not None and is_array_of(out, route.shape))
                    and route.fits(args, kwargs, leaves, None)):
                y = route.result(leaves, out)
                if type(y) is not int:
                    route.path.calls += 1
                    self._replays += 1
                    return y
                failed = route.path  # a guard of the program failed
                failed.failed = y
            if out is not None:
                kwargs["out"] = out
        return self._call(args, kwargs, failed)

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        cdef Route route = self._route
        if (route is None or route.direct is None or route.path.calls + 2 >= route.path.due
                or not (out is None or self._takes_out and is_array_of(out, route.shape))
                or is_running() or raises_errors()):
            return NotImplemented
        y = route.result_at(args, count, out)
        if y is not NotImplemented:
            route.path.calls += 1
            self._replays += 1
        return y

    def follow(self, tuple args, dict kwargs):
        """Take the route inside a derivative; return program, leaves, operands and outputs, or None."""
        cdef Route route = self._route
        cdef list leaves = [], operands = []
        # Pinned leaves and unscanned containers could hold operands, whose derivative would be lost.
        if route is None or route.pinned or not route.is_whole or route.path.calls + 2 >= route.path.due:
            return None
        if not route.fits(args, kwargs, leaves, operands):
            return None
        try:
            outputs = route.attempt(leaves)
        except FAILURES:
            return None
        if type(outputs) is not list:
            return None
        route.path.calls += 1
        self._replays += 1
        return route.path.program, leaves, operands, outputs


let_vector(Caller)


# NumPy's context variable for floating-point error handling, and its latest state that raises nothing.
cdef object handling = getattr(np._core._multiarray_umath, "_extobj_contextvar", None), quiet = None


cpdef bint raises_errors() except -1:
    """Return whether NumPy raises an error or calls a function on floating-point errors; a replay does not."""
    global quiet
    cdef PyObject *found = NULL
    if handling is None:
        return False
    PyContextVar_Get(handling, NULL, &found)
    state = <object>found
    Py_DECREF(state)
    if state is quiet:
        return False
    if not {"raise", "call"}.isdisjoint(np.geterr().values()):
        return True
    quiet = state
    return False


cdef bint is_running() except -1:
    """Return whether a derivative is active."""
    cdef PyObject *found = NULL
    cdef bint is_one
    PyContextVar_Get(running, NULL, &found)
    is_one = PyTuple_GET_SIZE(<object>found) > 0
    Py_DECREF(<object>found)
    return is_one
