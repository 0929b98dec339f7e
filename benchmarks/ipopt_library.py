"""IPOPT in a shared library, called by its C interface with the callbacks of `wengert.nlp`.

Wheels contain different builds of IPOPT, whose linear solvers take different times: `solve` runs the library that
another package loads, so that both packages are compared with the same solver.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_bool, c_double, c_int, c_void_p
from typing import Any

import numpy as np

_REALS, _INTEGERS = POINTER(c_double), POINTER(c_int)
_POINT = (c_int, _REALS, c_bool)
_VALUE = ctypes.CFUNCTYPE(c_bool, *_POINT, _REALS, c_void_p)
_CONSTRAINTS = ctypes.CFUNCTYPE(c_bool, *_POINT, c_int, _REALS, c_void_p)
_JACOBIAN = ctypes.CFUNCTYPE(c_bool, *_POINT, c_int, c_int, _INTEGERS, _INTEGERS, _REALS, c_void_p)
_HESSIAN = ctypes.CFUNCTYPE(
    c_bool, *_POINT, c_double, c_int, _REALS, c_bool, c_int, _INTEGERS, _INTEGERS, _REALS, c_void_p
)

#: bounds beyond this are infinite to IPOPT
INFINITE = 2e19


def solve(path: str, program: Any, options: dict) -> tuple[np.ndarray, float, int]:
    """Minimise a `NonlinearProgram` by the library at `path`; return the solution, its value and IPOPT's status."""
    library = ctypes.CDLL(path)
    library.CreateIpoptProblem.restype = c_void_p
    callbacks = _callbacks(program)
    limits = (program.low, program.high, program.constraint_low, program.constraint_high)
    low, high, below, above = (np.clip(end, -INFINITE, INFINITE).astype(float) for end in limits)
    x, value = program.x0.copy(), c_double()
    counts = (c_int(len(structure()[0])) for structure in (program.jacobianstructure, program.hessianstructure))
    at = (c_int(program.n), _pointer(low), _pointer(high), c_int(program.m), _pointer(below), _pointer(above))
    problem = c_void_p(library.CreateIpoptProblem(*at, *counts, c_int(0), *callbacks))
    add = {
        str: lambda key, y: library.AddIpoptStrOption(problem, key, y.encode()),
        int: lambda key, y: library.AddIpoptIntOption(problem, key, c_int(y)),
        float: lambda key, y: library.AddIpoptNumOption(problem, key, c_double(y)),
    }
    for name, given in options.items():
        add[type(given)](name.encode(), given)
    status = library.IpoptSolve(problem, _pointer(x), None, ctypes.byref(value), None, None, None, None)
    library.FreeIpoptProblem(problem)
    return x, value.value, status


def _pointer(array):
    return array.ctypes.data_as(_REALS)


def _array(pointer, n):
    return np.ctypeslib.as_array(pointer, (n,)) if n else np.zeros(0)


def _callbacks(program):
    """Return the five callbacks in the order of the C interface."""

    def objective(n, x, is_new, value, data):
        value[0] = program.objective(_array(x, n))
        return True

    def gradient(n, x, is_new, values, data):
        _array(values, n)[:] = program.gradient(_array(x, n))
        return True

    def constraints(n, x, is_new, m, values, data):
        _array(values, m)[:] = program.constraints(_array(x, n))
        return True

    def jacobian(n, x, is_new, m, count, rows, columns, values, data):
        if not values:
            _array(rows, count)[:], _array(columns, count)[:] = program.jacobianstructure()
        elif count:
            _array(values, count)[:] = program.jacobian(_array(x, n))
        return True

    def hessian(n, x, is_new, factor, m, multipliers, is_new_too, count, rows, columns, values, data):
        if not values:
            _array(rows, count)[:], _array(columns, count)[:] = program.hessianstructure()
        else:
            _array(values, count)[:] = program.hessian(_array(x, n), _array(multipliers, m), factor)
        return True

    return _VALUE(objective), _CONSTRAINTS(constraints), _VALUE(gradient), _JACOBIAN(jacobian), _HESSIAN(hessian)
