# cython: language_level=3, boundscheck=False, wraparound=False
"""Counts repeated calls of formulas and pullbacks in gradients, and replaces them by programs.

A rule of many NumPy calls takes much longer than its arithmetic on arrays of a few elements, and tracing a formula
takes longer still. So a gradient runs it at its first `MIN_CALLS` calls only. Later calls with arguments of the same
structure run a program with the same bits (`wengert.program.specialise.formulas`); only adjoints to which several
calls contribute may be summed in another order.
The column `replayed` of the registry marks the functions for which this pays.
"""

cimport cython
cimport numpy as cnp

import sys

import numpy as np

cimport wengert.core.operands.var as var  # this form lets Cython track the dependency
from wengert.core.operands.var cimport ArrayVar, ScalarVar, active_level
from wengert.core.tape.memory cimport REVERSE, Level, is_double, is_vector

from wengert.core.levels import running
from wengert.core.operands import var

cdef type ndarray = np.ndarray, float64 = np.float64

#: calls of one structure that are traced; a program takes the time of 10 to 100 of them
cdef int MIN_CALLS = 32
#: such calls, of all functions, before the modules of programs are imported, which takes the time of about 700
cdef int MIN_CALLS_BEFORE_IMPORT = 1000
#: structures of arguments, of all functions, that are counted, and that have programs; the oldest is dropped first
cdef int MAX_KEYS = 256
#: elements of all arrays of a call; longer formulas spend their time in NumPy's loops
cdef Py_ssize_t MAX_ELEMENTS = 4096
#: elements of an array of integers or booleans, which is part of the structure
cdef Py_ssize_t MAX_STATIC = 64

cdef set OPTIONS = {bool, int, str, type(None), type(np._NoValue), np.bool, np.int64}

#: calls that were counted while the modules of programs were not imported
cdef int counted = 0


def new_replay(row, fun, args, kwargs, leaves, operands):
    """Return a replay of a call, or None if it has none (`wengert.api` supplies the implementation)."""
    raise NotImplementedError


#: calls so far, and replays of further calls or None, by row and structure of the arguments
cdef dict counts = {}, replays = {}


def clear_caches():
    """Forget all counts and replays."""
    counts.clear()
    replays.clear()


def new_pullback(row, position, given, kwargs, leaves):
    """Return a replay of a pullback, or None if it has none (`wengert.api` supplies the implementation)."""
    raise NotImplementedError


def set_min_calls(int calls):
    """Set how many calls of one structure run without a program, for tests; return the number before."""
    global MIN_CALLS
    before = MIN_CALLS
    MIN_CALLS = calls
    return before


def sizes():
    """Return how many structures are counted, and how many have replays."""
    return len(counts), len(replays)


@cython.final
cdef class Call:
    """Structure of one call: a key, the values of its float arrays and traced scalars, and the operands among them."""

    cdef Level level
    cdef list key, leaves, operands
    cdef Py_ssize_t size
    cdef bint is_scattered          # an array is not contiguous

    cdef bint take(self, x) except -1:
        """Add an argument; return whether a program may have such an argument."""
        cdef ArrayVar array
        cdef Level own
        if type(x) is ArrayVar:
            array = <ArrayVar>x
            if array.scalar or not is_double(array.v):
                return False
            own = None if array.buffer.level is None else active_level(array.buffer.level)
            return self.add(own, (<object>array.v).shape, array.v, x)
        if type(x) is ScalarVar:
            return self.add(active_level((<ScalarVar>x).tape.level), None, float64((<ScalarVar>x).v), x)
        if type(x) is ndarray:
            if is_double(<cnp.ndarray>x):
                return self.add(None, x.shape, x, x)
            if not (cnp.PyArray_ISINTEGER(<cnp.ndarray>x) or cnp.PyArray_ISBOOL(<cnp.ndarray>x)):
                return False
            self.key.append((x.dtype.str, x.shape, x.strides, x.tobytes()))
            return cnp.PyArray_SIZE(<cnp.ndarray>x) <= MAX_STATIC
        if type(x) is float or type(x) is float64:
            self.key.append((type(x), x.hex()))         # 0.0 and -0.0 differ
            return True
        if type(x) is tuple or type(x) is list:
            self.key.append((type(x), len(x)))
            for item in x:
                if not self.take(item):
                    return False
            return True
        self.key.append((type(x), x))                   # True is not 1
        return type(x) in OPTIONS

    cdef bint take_keywords(self, dict kwargs) except -1:
        """Add keyword arguments; return whether a program may have them."""
        for name, x in kwargs.items():
            self.key.append(name)
            if not self.take(x):
                return False
        return True

    cdef bint take_value(self, x) except -1:
        """Add an argument of a pullback, in which scalars are values."""
        return self.add(None, None, x, x) if type(x) is float64 else self.take(x)

    cdef bint add(self, Level own, shape, value, operand) except -1:
        self.key.append((own is not None, shape))
        self.leaves.append(value)
        self.operands.append(operand)
        if shape is not None:
            self.size += cnp.PyArray_SIZE(<cnp.ndarray>value)
            self.is_scattered |= not is_vector(<cnp.ndarray>value)
        if own is not None and self.level is None:
            self.level = own
        return (own is None or own is self.level) and self.size <= MAX_ELEMENTS

    cdef list contiguous(self):
        """Return the values, with arrays in C order."""
        if not self.is_scattered:
            return self.leaves
        return [x.copy() if type(x) is ndarray and not is_vector(<cnp.ndarray>x) else x for x in self.leaves]


cpdef object replayed(row, fun, args, dict kwargs):
    """Return the result of a call of a composed function by its program; `NotImplemented` if it is to be traced."""
    cdef Call call
    levels = running.get()
    if len(levels) != 1 or var.may_record() or row.watch is not None:
        return NotImplemented
    call = Call.__new__(Call)
    call.key, call.leaves, call.operands = [row], [], []
    for x in args:
        if not call.take(x):
            return NotImplemented
    if not call.take_keywords(kwargs):
        return NotImplemented
    if (call.level is None or call.level.kind != REVERSE or not call.level.is_gradient or call.level.order != 1
            or getattr(levels[0], "level", None) is not call.level):
        return NotImplemented
    key = tuple(call.key)
    found = replays.get(key, 0)
    if type(found) is int:
        if not is_due(key):
            return NotImplemented
        found = new_replay(row, fun, args, kwargs, call.contiguous(), call.operands)
        counts.pop(key, None)
        insert(replays, key, found)
    return NotImplemented if found is None else found(call.level, fun, args, kwargs, call.contiguous(), call.operands)


def pulled(row, int position, ybar, y, tuple args, dict kwargs):
    """Return the cotangent of an operand by a program; `NotImplemented` if the rule is to run."""
    cdef Call call = Call.__new__(Call)
    call.key, call.leaves, call.operands = [row, position], [], []
    given = ybar, y, *args
    for x in given:
        if not call.take_value(x):
            return NotImplemented
    if not call.take_keywords(kwargs):
        return NotImplemented
    key = tuple(call.key)
    found = replays.get(key, 0)
    if type(found) is int:
        if not is_due(key):
            return NotImplemented
        found = new_pullback(row, position, given, kwargs, call.contiguous())
        counts.pop(key, None)
        insert(replays, key, found)
    return NotImplemented if found is None else found(given, call.contiguous())


cdef bint is_due(tuple key) except -1:
    """Count a call; return whether it is time for a program."""
    global counted
    cdef int calls = counts.get(key, 0)
    if "wengert.program.record" not in sys.modules:
        counted += 1
        if counted < MIN_CALLS_BEFORE_IMPORT:
            calls = min(calls, MIN_CALLS - 1)
    if calls == 0:
        insert(counts, key, 1)
    else:
        counts[key] = calls + 1
    return calls >= MIN_CALLS


cdef int insert(dict table, tuple key, value) except -1:
    """Add an item, after dropping the oldest ones of a full table."""
    while len(table) >= MAX_KEYS:
        table.pop(next(iter(table)), None)          # another thread may have removed it
    table[key] = value
    return 0
