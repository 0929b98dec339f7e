# cython: language_level=3
"""Dispatch of NumPy calls on traced values to the rules in the registry.

Operators and ufuncs with a kernel are recorded in ``var.pyx``. Every other call arrives here through
``__array_ufunc__`` (`ufunc`), ``__array_function__`` (`function`) or a method of an operand.
A function with a row is called on the plain values, and one entry is appended to the tape.
A function without a row raises if any argument carries a derivative.
"""

from __future__ import annotations

import functools
import operator

import numpy as np

cimport numpy as cnp
from cpython.object cimport PyObject_TypeCheck, PyTypeObject
from libc.math cimport fabs, isfinite

from wengert.core.dispatch.arguments cimport is_a
cimport wengert.core.dispatch.direct as direct
cimport wengert.core.operands.var as var  # this form lets Cython track the dependency

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import direct, mixed, options, python_ufuncs, repeated
from wengert.core.dispatch.arguments import (
    Part, all_passive, as_result_dtype, broadcasts, call_on_constants, check_call, check_complex, check_target, clean,
    is_traced_condition, kept, kept_operand, like_tuple, numbers_like, observe_unsupported, observed_keywords,
    out_position, plain_keywords, positional, promote_python_floats, run_recorded, shared_view, unchanged,
    with_condition,
)
from wengert.core.dispatch.checks import note_match, note_member, note_rounding, operand_text, refusal, refuse_overlap
from wengert.core.frames import at, solver
from wengert.core.messages import (
    assignment_message, no_complex_rule, no_rule_message, option_message, solver_message,
)
from wengert.core.operands import var
from wengert.core.operands.var import holds_traced, holds_var, observed, plain
from wengert.core.tape.tape import holds_complex
from wengert.deferred import deferred
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.features import clip_ufunc
from wengert.features import parameters_of as signature

nan_check = deferred("wengert.core.dispatch.nan_check")

cdef dict _rows = registry.rows
cdef type _ndarray = np.ndarray
cdef tuple _ARRAYS = (np.ndarray, np.generic)

#: modules of `wengert.core.dispatch`, set by `wengert.core.hooks`
instances = subclasses = None

#: replacements of creation functions, by NumPy function (filled by `wengert.numpy`)
creation: dict = {}

#: rows of indexing with an advanced index, and of calls whose result carries no derivative
getitem_row = registry.Primitive("indexing", "rearrangement", home=f"{__name__}.getitem_row")
constant_row = registry.Primitive("a constant", "constant", home=f"{__name__}.constant_row")

#: options that `function` handles; below, options of ufunc methods in the order of NumPy's signatures
_KNOWN_OPTIONS = frozenset(("out", "where", "axis"))
_OPTIONS_OF_METHODS = ("axis", "dtype", "out", "keepdims", "initial", "where")


def ufunc(fun, method, inputs, kwargs, compute=None):
    """Handle NumPy's ufunc protocol. `compute`, if given, computes the value of an operator instead of the ufunc."""
    if var.may_hold_floats():
        inputs, kwargs = promote_python_floats(fun, inputs, kwargs)
    if var.may_hold_instances() and instances.holds_instance((inputs, tuple(kwargs.values()))):
        return subclasses.call_ufunc(fun, method, inputs, kwargs)
    if method == "__call__":
        if kwargs and not kwargs.keys() <= _KNOWN_OPTIONS and holds_traced(inputs):
            return options.simplified(ufunc, fun, inputs, kwargs)
        return function(fun, inputs, kwargs, compute)
    if not holds_traced(inputs) and not holds_traced(tuple(kwargs.values())):
        return clean(getattr(fun, method)(*plain(inputs), **{k: plain(v) for k, v in kwargs.items()}))
    if method == "outer" and len(inputs) == 2:
        left, right = inputs
        left = np.reshape(left, np.shape(left) + (1,) * np.ndim(right))
        return ufunc(fun, "__call__", (left, right), kwargs)
    target = registry.ufunc_methods.get((fun, method))
    if target is None and (f := python_ufuncs.function_of(fun)) is not None and method in python_ufuncs.METHODS:
        return python_ufuncs.METHODS[method](fun, f, *inputs, **kwargs)
    if target is None and all_passive((inputs, tuple(kwargs.values()))):
        return record_constant(constant_row, inputs, kwargs, getattr(fun, method))
    if target is None:
        raise UnsupportedFunctionError(
            f"numpy.{fun.__name__}.{method} has no derivative rule{at()}: write it as a loop over "
            f"numpy.{fun.__name__}, or declare a rule with wengert.primitive"
        )
    if method == "at":
        check_target(f"numpy.{fun.__name__}.at", inputs)
        if len(inputs) > 2:
            refuse_overlap(*inputs, f"numpy.{fun.__name__}.at")
        return function(target, inputs, kwargs)
    operands = 2 if method == "reduceat" else 1
    inputs, given = inputs[:operands], inputs[operands:]
    kwargs = {"axis": 0, **dict(zip(_OPTIONS_OF_METHODS, given)), **kwargs}
    kwargs = {name: value for name, value in kwargs.items() if name not in ("dtype", "out") or value is not None}
    if "dtype" in kwargs and "dtype" not in (registry.lookup(target).keywords or ()):
        inputs = (inputs[0].astype(kwargs.pop("dtype")), *inputs[1:])
    return function(target, inputs, kwargs)


#: Functions that SciPy's solvers call on values and iterates: in convergence tests, or before compiled code that
#: swallows errors. The solver is rejected at this point, since its result would have the derivative of the iteration.
_CALLED_BY_SOLVERS = frozenset((np.isclose, np.isnan, np.atleast_1d))


def function(fun, args, kwargs, compute=None):
    """Call a NumPy function on operands and record it by its row, or raise."""
    y = direct.recorded(fun, args, kwargs, compute)
    if y is not NotImplemented:
        return y
    if var.may_hold_floats():
        args, kwargs = promote_python_floats(fun, args, kwargs)
    if var.may_hold_instances() and instances.holds_instance((args, tuple(kwargs.values()))):
        return subclasses.call(fun, args, kwargs)
    if fun in creation:
        kwargs.pop("like", None)
        return creation[fun](*args, **kwargs)
    out = kwargs.pop("out", None)
    if len(args) > 1 and out is None and len(args) > out_position(fun):
        args, kwargs, out = _positional_out(fun, args, kwargs)
    if out is not None:
        return _call_with_out(out, fun, args, kwargs, compute)
    if not var.holds_traced(args) and not var.holds_traced(tuple(kwargs.values())):
        return call_on_constants(fun, args, kwargs, compute)
    if fun in _CALLED_BY_SOLVERS and (name := solver()) is not None:
        raise TracedValueError(solver_message(name))
    if has_subclass(args):
        if any([isinstance(x, np.ndarray) and x.dtype.kind == "O" for x in args]):
            message = f"an array of Python objects meets a traced array{at()}: use one array of floats for each"
            raise refusal(args, message)
        if subclasses.is_handled(args):
            return subclasses.call(fun, args, kwargs)
    row = _rows.get(fun) or registry.lookup(fun)
    if row is None and fun is clip_ufunc:       # called by the method of plain arrays
        return function(np.clip, args, kwargs, compute)
    if row is None and (f := python_ufuncs.function_of(fun)) is not None:
        return python_ufuncs.call(fun, f, args, **kwargs)
    if row is None or row.kind == "refuse":
        if all_passive((args, tuple(kwargs.values()))):
            return clean(fun(*observed(args), **observed_keywords(kwargs)))
        raise refusal((args, tuple(kwargs.values())), no_rule_message(fun, row), UnsupportedFunctionError)
    if row.condition is not None and is_traced_condition(*args[row.condition : row.condition + 1]):
        return function(fun, with_condition(row, args, np.not_equal(args[row.condition], 0)), kwargs, compute)
    if row.simpler is not None and (y := row.simpler(*args, **kwargs)) is not None:
        return y
    if row.options is not None and (name := _option(row, kwargs)) is not None:
        return _by_option(row, fun, args, kwargs, name)
    if row.kind == "rearrangement" and (dtype := kwargs.get("dtype")) is not None:
        casting = kwargs.get("casting", "same_kind")
        moved = function(fun, args, {name: x for name, x in kwargs.items() if name not in ("dtype", "casting")})
        return moved.astype(dtype, casting=casting)
    recording = var.may_record() and var.recording_level((args, tuple(kwargs.values()))) is not None
    if recording:
        args, kwargs = observe_unsupported(row, fun, args, kwargs)
        if not var.holds_traced(args) and not var.holds_traced(tuple(kwargs.values())):
            return call_on_constants(fun, args, kwargs, compute)
    if row.kind == "view" and not kwargs and var.is_traced(args[0]) and not var.is_scalar(args[0]):
        y = fun(var.value_of(args[0]), *args[1:])
        if type(y) is np.ndarray and var.shares_memory(args[0], y):
            return var.view_of(args[0], y)
        if type(y) is list and all([var.shares_memory(args[0], part) for part in y]):
            return [var.view_of(args[0], part) for part in y]
    if row.kind == "composed":
        if row.keywords is not None and not row.keywords.issuperset(kwargs):
            raise UnsupportedFunctionError(option_message(row, sorted(set(kwargs) - row.keywords)))
        if not row.on_complex and holds_complex(args):
            raise no_complex_rule(row)
        if row.watch == "store":
            check_target(row.name, args)
        if row.replayed and (y := repeated.replayed(row, fun, args, kwargs)) is not NotImplemented:
            return y
        y = row.variadic(*map(mixed.as_array_like, args), **kwargs)
        if row.is_formula and not recording:
            y = _with_value(y, _plain_call(fun, args, kwargs), row.name)
        return y
    if row.kind == "constant":
        if row.watch is not None:
            _watch(row.watch, args, kwargs, recording)
        if row.on_complex is not None and holds_complex(args):
            return row.on_complex(*args, **kwargs)
        if recording and not row.static:
            return record_constant(row, args, kwargs, compute or fun)
        if row.reason:
            raise refusal((args, tuple(kwargs.values())), row.reason, UnsupportedFunctionError)
        if recording and row.watch == "memory":
            levels.end_recording(f"numpy.{fun.__name__} of arguments", True)
        return clean((compute or fun)(*plain(args), **plain_keywords(kwargs)))
    if row.watch == "second sign" and len(args) > 1:
        var.watch_comparison(args[1], 0.0)
    if var.holds_traced(tuple(kwargs.values())):
        args, kwargs = positional(fun, args, kwargs)
    return apply(row, fun, args, kwargs, compute)


direct.set_special(_CALLED_BY_SOLVERS, creation)


cdef object _option(row, dict kwargs):
    """Return the keyword that a call passes and its row's `options` handle, or None."""
    for name in row.options:
        if name in kwargs and (var.holds_traced(kwargs[name]) or name not in row.keywords):
            return name
    return None


cdef bint _dispatches(fun, row):
    """Return whether `function` calls the function by this row, and not a replacement."""
    return _rows.get(fun) is row and not isinstance(fun, np.ufunc)


cdef object _by_option(row, fun, args, dict kwargs, name):
    """Compute a call by other functions, as the row's `options` says; the value is that of the function itself."""
    rest = {key: x for key, x in kwargs.items() if key != name}
    y = row.options[name](kwargs[name], *args, **rest)
    if var.may_record() and var.recording_level((args, tuple(kwargs.values()))) is not None:
        return y
    return _with_value(y, _plain_call(fun, args, kwargs), row.name)


cdef int _watch(str word, args, kwargs, bint recording) except -1:
    """Note what a call of a function without derivative tells about traced values; `word` is its row's `watch`."""
    if word == "sign":
        var.watch_comparison(args[0], args[1] if len(args) > 1 else 0.0)
    elif word == "equality" and len(args) > 1:
        note_match(args[0], args[1])
    elif word == "membership" and len(args) > 1:
        note_member(args[0], args[1])
    elif word == "rounding" and not recording:
        note_rounding(args[0], args[1] if len(args) > 1 else kwargs.get("decimals", 0))
    elif word == "text":
        operand_text(args[0], "")
    return 0


def _plain_call(fun, args, kwargs):
    """Call a function on the plain values of operands, or on copies if it may overwrite them."""
    args, kwargs = plain(args), plain_keywords(kwargs)
    if may_overwrite(fun):
        args = [np.copy(x, order="K") if type(x) is _ndarray else x for x in args]
        kwargs = {name: np.copy(x, order="K") if type(x) is _ndarray else x for name, x in kwargs.items()}
    y = fun(*args, **kwargs)
    if type(y) is _ndarray and any([type(x) is _ndarray and np.may_share_memory(x, y) for x in args]):
        return y.copy()  # a view of the primal of an operand
    return y


@functools.cache
def may_overwrite(fun):
    """Return whether a function has an option to overwrite operands."""
    return any(parameter.name.startswith("overwrite") for parameter in signature(fun) or ())


def _with_value(y, value, name=None):
    """Return `value`, the result of a function, with the derivative of the equivalent `y`; both may be tuples."""
    if isinstance(y, (tuple, list)):
        parts = [_with_value(a, b, name) for a, b in zip(y, value, strict=True)]
        return value._make(parts) if hasattr(value, "_make") else type(value)(parts)
    if not var.is_traced(y):
        return value
    _check_agreement(plain(y), value, name)
    return apply(_value_row, replaced_value, (y, value), {})


def _check_agreement(y, value, name):
    """Raise if a formula and the function it describes give different values: the formula may ignore an option."""
    y, value = np.asarray(y), np.asarray(value)
    if y.shape == value.shape:
        if y.dtype.kind not in "fc" or value.dtype.kind not in "fc":
            return
        dtype = np.complex128 if "c" in (y.dtype.kind, value.dtype.kind) else np.float64
        y, value = np.ascontiguousarray(y, dtype), np.ascontiguousarray(value, dtype)
        if is_near(<double *>cnp.PyArray_DATA(y), <double *>cnp.PyArray_DATA(value), y.nbytes // sizeof(double)):
            return
    raise UnsupportedFunctionError(
        f"{name or 'this function of SciPy'} has no derivative rule for these arguments{at()}: its formula gives "
        "another value. Leave out options, or write the function with NumPy"
    )


cdef bint is_near(const double *y, const double *value, Py_ssize_t n) noexcept:
    """Return whether finite elements agree within the rounding errors that a formula may have."""
    cdef double size = 0.0, difference = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        if isfinite(y[i]) and isfinite(value[i]):
            size = max(size, fabs(value[i]))
            difference = max(difference, fabs(y[i] - value[i]))
    return difference <= 1e-2 * size + 1e-6


def replaced_value(y, value):
    """Return `value`; its derivative is that of `y`."""
    return _with_value(y, np.float64(value) if type(value) is float else value)


_value_row = registry.Primitive(
    replaced_value,
    "elementwise",
    partials=(1.0, None),
    curvature="none",
    on_complex=True,
    home=f"{__name__}._value_row",
)


cpdef bint has_subclass(args) except -1:
    """Return whether an argument is an instance of a proper subclass of `ndarray`."""
    for x in args:
        if type(x) is not _ndarray and PyObject_TypeCheck(x, <PyTypeObject *>_ndarray):
            return True
    return False


def _positional_out(fun, args, kwargs):
    """Split at a positional ``out``: return the arguments before it, keywords with those after it, and ``out``."""
    position = out_position(fun)
    if isinstance(fun, np.ufunc):
        return args[:position], kwargs, args[position:]
    names = [parameter.name for parameter in signature(fun) or ()]
    kwargs = {**kwargs, **dict(zip(names[position + 1 :], args[position + 1 :]))}
    return args[:position], kwargs, args[position]


def _call_with_out(out, fun, args, kwargs, compute):
    """Handle ``out=``: compute the result, then store it."""
    outs = out if isinstance(out, tuple) else (out,)
    if isinstance(fun, np.ufunc):
        outs += (None,) * (fun.nout - len(outs))
    if not any(var.is_var(y) for y in outs) and not holds_traced(args) and not holds_traced(tuple(kwargs.values())):
        return (compute or fun)(*plain(args), **plain_keywords(kwargs), out=out)
    where = kwargs.pop("where", True) if isinstance(fun, np.ufunc) else True
    if not isinstance(fun, np.ufunc):
        args, kwargs = _with_dtype_of_out(outs[0], fun, args, kwargs)
    if where is True:
        result = function(fun, args, kwargs, compute)
    elif fun.signature is None and fun.nout == 1 and outs[0] is not None:
        with np.errstate(all="ignore"):  # np.divide(a, b, out=..., where=b != 0) divides by 0 too
            result = function(fun, args, kwargs, compute)
        result = function(np.where, (where, result, outs[0]), {})
    else:
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} with where= and this out= has no derivative rule{at()}: write "
            "out[mask] = ..., or numpy.where"
        )
    if len(outs) == 1:
        return result if outs[0] is None else _store_result(fun, outs[0], result)
    if not any(o is None for o in outs) and np.may_share_memory(*map(plain, outs)):
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} with out= arrays that share memory{at()}: assign the results one by one"
        )
    return tuple(part if o is None else _store_result(fun, o, part) for o, part in zip(outs, result))


def _with_dtype_of_out(out, fun, args, kwargs):
    """Add the dtype of a wider ``out=`` to the arguments, since NumPy's reductions accumulate in it."""
    dtype, wide = (getattr(x, "dtype", None) for x in (args[0] if args else None, out))
    if dtype is None or wide is None or dtype.kind != "f" or wide.kind != "f" or dtype.itemsize >= wide.itemsize:
        return args, kwargs
    names = [parameter.name for parameter in signature(fun) or ()]
    position = names.index("dtype") if "dtype" in names else len(args)
    if kwargs.get("dtype", args[position] if position < len(args) else None) is not None:
        return args, kwargs
    if position < len(args):
        return (*args[:position], wide, *args[position + 1 :]), kwargs
    if "dtype" in names:
        return args, {**kwargs, "dtype": wide}
    is_fold = fun is np.ptp or fun in registry.ufunc_methods.values()
    return ((args[0].astype(wide), *args[1:]) if is_fold else args), kwargs


def _store_result(fun, out, result):
    """Store one result into one array of ``out=``."""
    spread = isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1
    if not (broadcasts(np.shape(result), np.shape(out)) if spread else np.shape(result) == np.shape(out)):
        raise ValueError(
            f"{registry.dotted_name(fun)}: out= has shape {np.shape(out)}, the result has shape {np.shape(result)}"
        )
    if var.is_var(out):
        var.assign(out, result)
    elif holds_traced(result):
        raise TracedValueError(assignment_message(f"out= of {registry.dotted_name(fun)}"))
    else:
        np.copyto(out, plain(result))
    return out


def stacked(items):
    """Return ``np.array(items)`` for a nested sequence with traced leaves."""
    if var.may_hold_instances():
        items = instances.unwrapped(items)
    if var.scalar_list(items):
        return var.stack_scalars(items)
    if not holds_var(items):
        return np.asarray(items)
    if all(var.is_scalar(item) or is_a(item, (int, float, complex, np.number, np.bool)) for item in items):
        out = var.clean(np.empty(len(items), dtype=np.result_type(*[np.asarray(plain(item)).dtype for item in items])))
        for i, item in enumerate(items):
            out[i] = item
        return out
    parts = [from_list(item) for item in items]
    y = function(np.stack, (parts,), {})
    return y if np.ndim(y) < 3 or plain(y).flags.c_contiguous else function(np.copy, (y,), {"order": "C"})


def from_list(x):
    """Convert a list or tuple to an array (see `stacked`); return other values unchanged."""
    return stacked(x) if isinstance(x, (list, tuple)) else x


def apply(row, fun, args, kwargs, compute=None):
    """Call a function on operands and record the call by its row, at the innermost level among them.

    The value is computed by the same call on the operands lowered by one level: plain arrays, or operands of the
    enclosing level.
    """
    args, traced = _collect_operands(row, args)
    check_call(row, args, kwargs, traced)
    level = var.innermost([x for _, _, x in traced])
    operands = [operand for operand in traced if var.level_of(operand[2]) is level]
    values = [var.lower(a, level) for a in args]
    if kwargs:
        kwargs = {name: kept(plain(value)) for name, value in kwargs.items() if name not in row.unheeded}
    if level.recording:
        y = run_recorded(compute or fun, values, kwargs)
    elif level.depth and compute is None and _dispatches(fun, row) and holds_traced(values):
        y = function(fun, tuple(values), dict(kwargs))      # NumPy dispatches only on some arguments
    else:
        y = (compute or fun)(*values, **kwargs)
    y = np.complex128(y) if type(y) is complex else y  # Python complex times float64 gives a Python complex
    check_complex(level, row, operands, y)
    if level.depth and levels.is_watched():
        nan_check.check_value(row, values, y)
    kind = row.kind
    if kind in ("view", "rearrangement") and not row.choices.issuperset([i for i, _, _ in operands]):
        return _rearranged(level, row, args, values, kwargs, operands, y)
    if not is_a(y, _ARRAYS):
        return _call_lifted(y, row, fun, args, kwargs)
    shared = shared_view(y, operands)
    if shared is not None:
        return shared
    own = {item if kind == "custom" else i for i, item, _ in operands if item < 0 or kind == "custom"}
    if len(own) < len(values):
        values = [a if i in own else kept_operand(level, as_result_dtype(row, i, a, y)) for i, a in enumerate(values)]
    return var.record(level, row, tuple(values), kwargs, operands, y, None, compute or fun)


def _call_lifted(y, row, fun, args, kwargs):
    """Let the first `Lifted` argument handle a call that returned no array; raise if there is none."""
    found = [a for a in args if hasattr(a, "_call")]
    if found:
        return found[0]._call(fun, args, kwargs)
    raise UnsupportedFunctionError(f"{row.name} returned {type(y).__name__}{at()}: its rule supports a single array")


def _collect_operands(row, args):
    """Convert sequences among the arguments to arrays; list the traced ones as ``(position, item, operand)``."""
    operands: list = []
    args = list(args)
    if row.kind == "custom":
        return args, [(0, i, x) for i, x in enumerate(args) if var.is_traced(x)]
    if row.sequence and args and var.is_traced(args[0]):
        args[0] = list(args[0])  # an array passed as the sequence stands for its rows
    for i, argument in enumerate(args):
        if var.is_traced(argument):
            operands.append((i, -1, argument))
        elif isinstance(argument, (list, tuple)) and holds_traced(argument):
            if row.sequence and i == 0:
                argument = args[0] = [from_list(x) for x in argument]
                operands += [(0, j, x) for j, x in enumerate(argument) if var.is_traced(x)]
            else:
                args[i] = stacked(argument)
                operands.append((i, -1, args[i]))
        elif ((isinstance(argument, (list, tuple)) or mixed.is_array_like(type(argument)))
                and (row.kind == "elementwise" or i in row.vjps)):
            if not (row.sequence and i == 0):
                args[i] = np.asarray(plain(mixed.as_array_like(argument)))
    return args, operands


def _rearranged(level, row, args, lowered, kwargs, operands, y):
    """Record a rearrangement of the operands' elements: a view needs no entry, a copy needs an index map."""
    values = [plain(a) if i == 0 else kept(plain(a)) for i, a in enumerate(args)]
    for i in row.choices:
        if level.depth and i < len(args) and var.is_traced(lowered[i]):
            values[i] = np.copy(lowered[i])  # recorded on the enclosing tape
    if isinstance(y, (list, tuple)):
        parts = [_rearranged_part(level, row, args, values, kwargs, operands, part, j) for j, part in enumerate(y)]
        return parts if isinstance(y, list) else like_tuple(y, parts)
    return _rearranged_part(level, row, args, values, kwargs, operands, y, None)


def _rearranged_part(level, row, args, values, kwargs, operands, y, part):
    shared = shared_view(y, operands)
    if shared is not None:
        return shared

    moved = [operand for operand in operands if operand[0] not in row.choices]

    def index_map(node):
        """Map each element of the result to its source: 1, 2, ... in the order of the operands, 0 for a constant."""
        start = 1
        numbered = list(values)
        if row.sequence and not var.is_var(args[0]):
            numbered[0] = [np.zeros(np.shape(item), dtype=np.intp) for item in values[0]]
        for i, j, x in moved:
            value = np.asarray(var.value_of(x))
            numbers = numbers_like(value, start)
            start += value.size
            if j < 0:
                numbered[i] = numbers
            else:
                numbered[i][j] = numbers
        if holds_var(numbered):  # np.take does not dispatch on its indices
            found = function(row.fun, tuple(numbered), dict(kwargs))
        else:
            found = row.fun(*numbered, **kwargs)
        return found if part is None else found[part]

    if not level.recording:
        return var.record(level, row, (), {}, operands, y, index_map)
    compute = row.fun if part is None else Part(row.fun, part)
    return var.record(level, row, tuple(values), kwargs, operands, y, index_map, compute)


@functools.cache
def comparison(op):
    """Return row, function and operator of a comparison, by CPython's number (``Py_LT`` is 0)."""
    name, fun = [*mixed.COMPARISONS.items()][op]
    return registry.lookup(fun), fun, getattr(operator, name)


def record_constant(row, args, kwargs, compute):
    """Record a call without derivative on a recording tape.

    If its result is a Python object, leave a guard and return the object itself.
    """
    if row.watch == "shape":
        mask = observed(np.not_equal(args[0], 0))
        return compute(mask, *observed(args[1:]), **observed_keywords(kwargs))
    if row.fun is None:
        kwargs = observed_keywords(kwargs)
    elif holds_traced(tuple(kwargs.values())):
        args, kwargs = positional(row.fun, args, kwargs)
    args = [_stack_inner_lists(a) for a in var.grounded(tuple(args))]
    operands = []
    for i, a in enumerate(args):
        operands += [(i, j, x) for j, x in enumerate(a) if var.is_traced(x)] if isinstance(a, list) else []
        operands += [(i, -1, a)] if var.is_traced(a) else []
    values = plain(tuple(args))
    kwargs = plain_keywords(kwargs)
    y = run_recorded(compute, values, kwargs)
    if not is_a(y, (np.ndarray, np.generic, bool, int, float)):
        observed(args)
        return y
    level = var.innermost([x for _, _, x in operands])
    saved = [a if var.is_traced(args[i]) else kept_operand(level, a) for i, a in enumerate(values)]
    y_there = np.asarray(y)[()] if _is_python(y) else y
    found = var.record(level, row, tuple(saved), kwargs, operands, y_there, None, compute)
    return type(y)(observed(found)) if _is_python(y) else found


def _is_python(y):
    return not is_a(y, (np.ndarray, np.generic))


def _stack_inner_lists(a):
    """Convert nested lists that hold operands to arrays."""
    if not isinstance(a, (list, tuple)) or not holds_traced(a):
        return a
    return [stacked(item) if isinstance(item, (list, tuple)) and holds_traced(item) else item for item in a]


def stopped(x):
    """Return the value of an operand without its derivative: plain, or an operand on a recording tape."""
    if var.recording_level(x) is None:
        return var.value_of(x)
    return record_constant(constant_row, (x,), {}, unchanged)


def record_strong(cotangent, partial):
    if not var.may_record() or var.recording_level((cotangent, partial)) is None:
        return None
    return apply(_strong_row, registry.strong, (cotangent, partial), {})


_strong_row = registry.Primitive(
    registry.strong,
    "elementwise",
    partials=(lambda y, g, p: p, lambda y, g, p: g),
    curvature="cross",
    on_complex=True,
    native="strong",
    lowering="strong",
    home=f"{__name__}._strong_row",
)
