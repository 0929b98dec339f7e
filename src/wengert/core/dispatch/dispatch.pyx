# cython: language_level=3
"""NumPy's protocols to the registry: what happens when a traced value reaches a NumPy function.

The operators and the ufuncs with a kernel are recorded in ``var.pyx``; everything else comes by here.
A function with a row is called on the plain values, and one entry is appended to the tape.
A function without one is an error, always: a derivative is never dropped.
"""

from __future__ import annotations

import functools
import operator
import os
import sys

import numpy as np

from wengert.core.operands cimport var

from wengert import registry
from wengert.core import levels
from wengert.core.operands import var
from wengert.dependence import Elementwise
from wengert.core.tape.tape import holds_complex, strong_product
from wengert.core.operands.var import holds_traced, holds_var, observed, plain
from wengert.errors import NonSmoothError, TracedValueError, UnsupportedFunctionError
from wengert.features import is_assignment_code, is_attribute_assignment_code, is_operator_code
from wengert.features import parameters_of as signature

cdef dict _rows = registry.rows
cdef tuple _ARRAYS = (np.ndarray, np.generic)
cdef type _ndarray = np.ndarray

#: functions that make arrays, by the NumPy function they replace (filled by `wengert.numpy`)
creation: dict = {}

#: the row of ``x[...]`` with an advanced index, and that of calls whose result carries no derivative
getitem_row = registry.Primitive("indexing", "rearrangement", home=f"{__name__}.getitem_row")
constant_row = registry.Primitive("a constant", "constant", home=f"{__name__}.constant_row")

_PACKAGE = os.path.dirname(os.path.abspath(registry.__file__))


# ------------------------------------------------------------------------------------------ plain and traced values


cdef bint is_a(x, types):
    """Is it of a type, or an operand that stands for such a value?

    What stands for more than one array (`Lifted`) is not, though it says so to functions: it is told who asks by frames
    of Python, and this module has none.
    """
    return isinstance(x, types) and (type(x) is _ndarray or not hasattr(type(x), "_call"))


def kept(x):
    """A copy of a plain argument that a pullback may need: f may write into the original afterwards."""
    if is_a(x, np.ndarray):
        return x.copy(order="K") if type(x) is np.ndarray else np.copy(x)
    if type(x) in (list, tuple):
        return type(x)([kept(item) for item in x])
    return x


def clean(result):
    """A plain result as f should see it: floating arrays may receive traced values later."""
    if type(result) is np.ndarray and result.dtype.kind in "fc":
        return var.clean(result)
    if type(result) in (list, tuple):
        return type(result)([clean(item) for item in result])
    return result


def stacked(items):
    """An array made of a nested sequence in which some leaves are traced, as ``np.array(items)`` would be."""
    if var.scalar_list(items):
        return var.stack_scalars(items)
    if not holds_var(items):
        return np.asarray(items)
    if all(var.is_scalar(item) or is_a(item, (int, float, complex, np.number, np.bool)) for item in items):
        out = var.clean(np.empty(len(items), dtype=np.result_type(*map(_dtype, items))))
        for i, item in enumerate(items):
            out[i] = item
        return out
    parts = [stacked(item) if isinstance(item, (list, tuple)) else item for item in items]
    return function(np.stack, (parts,), {})


def _dtype(x):
    return np.asarray(plain(x)).dtype


# ------------------------------------------------------------------------------------------ ufuncs


def operate(fun, compute, left, right):
    """An operator without a kernel, such as ``%`` or ``@``."""
    for x in (left, right):
        if not (var.is_var(x) or is_a(x, (np.ndarray, np.generic, list, tuple, int, float, complex))):
            return matrices.operate(fun, left, right)
    return ufunc(fun, "__call__", (left, right), {}, compute)


def weak(x, dtype):
    """A traced Python float beside values of a dtype, in the precision that NumPy gives it there."""
    if dtype.kind not in "fc" or dtype.itemsize >= (8 if dtype.kind == "f" else 16):
        return x
    return _astype(x, np.finfo(dtype).dtype)


#: functions that take Python floats as ufuncs do
_WEAK = frozenset((np.where, np.clip))
_ASKED_FOR_TYPES = frozenset((np.result_type, np.can_cast))


def as_numpy_takes(fun, args, kwargs):
    """The arguments of a function with scalars in the place of traced Python floats."""
    held = (args, tuple(kwargs.values()))
    if not var.holds_float(held):
        return args, kwargs
    if fun in _ASKED_FOR_TYPES:
        return plain(args), _plain_keywords(kwargs)
    dtypes = [x.dtype for x in _leaves(held) if hasattr(x, "dtype")]
    dtype = np.result_type(*[dtype for dtype in dtypes if dtype.kind in "biufc"], 1.0)
    if weak(np.float64(0), dtype).dtype != np.float64 and not (isinstance(fun, np.ufunc) or fun in _WEAK):
        raise TracedValueError(
            f"{registry.dotted_name(fun)} takes a traced Python float among values of {dtype}{_at()}: make it a "
            f"numpy.{dtype} first"
        )
    return _taken(args, dtype), {name: _taken(value, dtype) for name, value in kwargs.items()}


def _taken(x, dtype):
    if type(x) in (list, tuple):
        return type(x)([_taken(item, dtype) for item in x]) if var.holds_float(x) else x
    return weak(var.as_numpy(x), dtype) if var.holds_float(x) else x


def unrecorded(reason, is_lasting=False):
    """End the recording that runs here; f runs as it is."""
    raise levels.unrecorded(f"{reason}{_at()}", is_lasting)


def noted(compute, args, kwargs):
    """Result of a call in a recording; an error that it raises for its values is noted, since f may catch it."""
    try:
        return compute(*args, **kwargs)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        levels.unrecorded(f"{registry.dotted_name(compute)} raised {error!r}{_at()}")
        raise


def ufunc(fun, method, inputs, kwargs, compute=None):
    """Answer NumPy's ufunc protocol. `compute` gives the value where an operator differs from the function."""
    if var.may_record():
        inputs, kwargs = as_numpy_takes(fun, inputs, kwargs)
    if method == "__call__":
        if kwargs and not kwargs.keys() <= _KNOWN_OPTIONS and holds_traced(inputs):
            return options.simplified(ufunc_call, fun, inputs, kwargs)
        return function(fun, inputs, kwargs, compute)
    if not holds_traced(inputs) and not holds_traced(kwargs.get("out") or ()):
        return clean(getattr(fun, method)(*plain(inputs), **{k: plain(v) for k, v in kwargs.items()}))
    if method == "outer" and len(inputs) == 2:
        left, right = inputs
        left = np.reshape(left, np.shape(left) + (1,) * np.ndim(right))
        return ufunc(fun, "__call__", (left, right), kwargs)
    target = registry.ufunc_methods.get((fun, method))
    if target is None and _all_passive((inputs, tuple(kwargs.values()))):
        return record_constant(constant_row, inputs, kwargs, getattr(fun, method))
    if target is None:
        raise UnsupportedFunctionError(
            f"numpy.{fun.__name__}.{method} has no derivative rule{_at()}: write it as a loop over "
            f"numpy.{fun.__name__}, or declare a rule with wengert.primitive"
        )
    if method == "at":
        _check_target(f"numpy.{fun.__name__}.at", inputs)
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


#: options that `function` takes apart, and those of methods in the order of NumPy's signatures
_KNOWN_OPTIONS = frozenset(("out", "where", "axis"))
_OPTIONS_OF_METHODS = ("axis", "dtype", "out", "keepdims", "initial", "where")


def ufunc_call(fun, inputs, kwargs):
    return ufunc(fun, "__call__", inputs, kwargs)


# ------------------------------------------------------------------------------------------ functions


def function(fun, args, kwargs, compute=None):
    """Call a NumPy function on operands: record it by its row, or raise."""
    if var.may_record():
        args, kwargs = as_numpy_takes(fun, args, kwargs)
    if fun in creation:
        kwargs.pop("like", None)
        return creation[fun](*args, **kwargs)
    out = kwargs.pop("out", None)
    if len(args) > 1 and out is None and len(args) > _out_position(fun):
        position = _out_position(fun)
        if isinstance(fun, np.ufunc):
            out = args[position:]
        else:
            names = [parameter.name for parameter in signature(fun) or ()]
            kwargs = {**kwargs, **dict(zip(names[position + 1 :], args[position + 1 :]))}
            out = args[position]
        args = args[:position]
    if out is not None:
        return _into(out, fun, args, kwargs, compute)
    if not var.holds_traced(args) and not var.holds_traced(tuple(kwargs.values())):
        return _on_constants(fun, args, kwargs, compute)
    if fun in _ASKED_BY_SOLVERS and (solver := _solver()) is not None:
        raise TracedValueError(_solver_message(solver))
    row = _rows.get(fun) or registry.lookup(fun)
    if row is None or row.kind == "refuse":
        if _all_passive((args, tuple(kwargs.values()))):
            return clean(fun(*observed(args), **_observed_keywords(kwargs)))
        raise refusal((args, tuple(kwargs.values())), _no_rule(fun, row), UnsupportedFunctionError)
    if row.condition is not None and _is_traced_number(*args[row.condition : row.condition + 1]):
        return function(fun, with_condition(row, args, np.not_equal(args[row.condition], 0)), kwargs, compute)
    if row.simpler is not None and (y := row.simpler(*args, **kwargs)) is not None:
        return y
    recording = var.may_record() and var.recording_level((args, tuple(kwargs.values()))) is not None
    if recording:
        args, kwargs = _as_the_rule_takes_them(row, fun, args, kwargs)
        if not var.holds_traced(args) and not var.holds_traced(tuple(kwargs.values())):
            return _on_constants(fun, args, kwargs, compute)
    if row.kind == "view" and not kwargs and var.is_traced(args[0]) and not var.is_scalar(args[0]):
        y = fun(var.value_of(args[0]), *args[1:])
        if type(y) is np.ndarray and var.shares_memory(args[0], y):
            return var.view_of(args[0], y)
        if type(y) is list and _all_share_memory(args[0], y):
            return [var.view_of(args[0], part) for part in y]
    if row.kind == "composed":
        if row.keywords is not None and not row.keywords.issuperset(kwargs):
            raise UnsupportedFunctionError(_not_understood(row, sorted(set(kwargs) - row.keywords)))
        if not row.on_complex and holds_complex(args):
            raise no_complex_rule(row)
        if fun in STORES:
            _check_target(row.name, args)
        return row.variadic(*args, **kwargs)
    if row.kind == "constant":
        if fun in WRITERS:
            spelled(args[0], "")
        if row.on_complex is not None and holds_complex(args):
            return row.on_complex(*args, **kwargs)
        if recording and not row.static:
            return record_constant(row, args, kwargs, compute or fun)
        if recording and fun in _OF_MEMORY:
            unrecorded(f"numpy.{fun.__name__} of arguments", True)
        return clean((compute or fun)(*plain(args), **_plain_keywords(kwargs)))
    if var.holds_traced(tuple(kwargs.values())):
        args, kwargs = _positional(fun, args, kwargs)
    return apply(row, fun, args, kwargs, compute)


cdef bint _all_share_memory(x, list parts) except -1:
    for part in parts:
        if not var.shares_memory(x, part):
            return False
    return True


def _is_traced_number(x=None):
    return var.is_traced(x) and x.dtype.kind in "fc"


def with_condition(row, args, condition):
    """The arguments with another condition."""
    return (*args[: row.condition], condition, *args[row.condition + 1 :])


def apply(row, fun, args, kwargs, compute=None):
    """Call a function on operands and record the call by its row, at the innermost level among them.

    The value is computed by the same call on what the operands are at the level around: numbers, or operands there.
    """
    args, traced = _operands(row, args)
    _check_call(row, args, kwargs, traced)
    level = var.innermost([x for _, _, x in traced])
    operands = [operand for operand in traced if var.level_of(operand[2]) is level]
    values = [var.lower(a, level) for a in args]
    if kwargs:
        kwargs = {name: kept(plain(value)) for name, value in kwargs.items() if name not in row.unheeded}
    y = noted(compute or fun, values, kwargs) if level.recording else (compute or fun)(*values, **kwargs)
    y = np.complex128(y) if type(y) is complex else y  # a Python number times a float64
    _check_complex(level, row, operands, y)
    if level.depth and levels.is_watched():
        nan_check.check_value(row, values, y)
    kind = row.kind
    if kind in ("view", "rearrangement") and not row.choices.issuperset([i for i, _, _ in operands]):
        return _rearranged(level, row, args, values, kwargs, operands, y)
    if not is_a(y, _ARRAYS):
        return _in_place_of(y, row, fun, args, kwargs)
    shared = _shared_view(y, operands)
    if shared is not None:
        return shared
    own = {item if kind == "custom" else i for i, item, _ in operands if item < 0 or kind == "custom"}
    if len(own) < len(values):
        values = [a if i in own else kept_operand(level, _number(row, i, a, y)) for i, a in enumerate(values)]
    return var.record(level, row, tuple(values), kwargs, operands, y, None, compute or fun)


def _in_place_of(y, row, fun, args, kwargs):
    """The result of a call that gave no array: by a value that stands for several, to which operands are constants."""
    found = [a for a in args if hasattr(a, "_call")]
    if found:
        return found[0]._call(fun, args, kwargs)
    raise UnsupportedFunctionError(f"{row.name} returned {type(y).__name__}{_at()}; its rule knows a single array only")


def _check_complex(level, row, operands, y):
    """Refuse complex values in recordings, and rows that were not verified for them."""
    if not holds_complex(y):
        for _, _, x in operands:
            if holds_complex(x):
                break
        else:
            return
    var.note_complex(level)
    if row.on_complex or row.adjoints or row.kind in ("view", "rearrangement"):
        if row.on_complex is not True or holds_complex(y):
            return
    raise no_complex_rule(row)


def kept_operand(level, a):
    """A constant as an entry refers to it; tangents are computed at once, from the constant itself."""
    if level.is_forward:
        return a
    return var.constant_copy(level, a) if type(a) is np.ndarray else kept(a)


def _number(row, i, a, y):
    """A constant operand in the dtype of the result: rules compute with it, and small integers would wrap around.

    Python's numbers have no dtype, and functions in Python may compute with them before others join.
    """
    differentiable = row.partials[i] is not None if row.kind == "elementwise" else i in row.vjps
    if not differentiable or not is_a(a, (np.ndarray, np.generic, bool, int, float)):
        return a
    if row.kind != "elementwise" and y.dtype.kind in "fc" and not is_a(a, (np.ndarray, np.generic)):
        return float(a)
    if (is_a(a, (np.ndarray, np.generic)) and a.dtype.kind not in "biu") or _has_integer_loop(row.fun, i):
        return a
    return a.astype(y.dtype) if var.is_var(a) else np.asarray(a).astype(y.dtype)[()]


@functools.cache
def _has_integer_loop(fun, i):
    """Has a ufunc a loop of integers at a position, and of floats at others: one of another formula?"""
    loops = [loop.partition("->")[0] for loop in getattr(fun, "types", ())]
    return any(np.dtype(loop[i]).kind in "iu" and any(np.dtype(t).kind == "f" for t in loop) for loop in loops)


def _on_constants(fun, args, kwargs, compute):
    """A call that touches clean arrays only: plain NumPy, and views of a clean array stay views of it."""
    result = (compute or fun)(*plain(args), **_plain_keywords(kwargs))
    owners = [x for x in _leaves(args) if var.is_var(x)]
    if isinstance(result, (list, tuple)):
        parts = [_view_of_any(owners, part) for part in result]
        return parts if isinstance(result, list) else _like_tuple(result, parts)
    return _view_of_any(owners, result)


def _like_tuple(result, parts):
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)


def _view_of_any(owners, part):
    if type(part) is np.ndarray and part.dtype.kind in "fc":
        for x in owners:
            if var.shares_memory(x, part):
                return var.view_of(x, part)
    return clean(part)


def _leaves(x):
    """Operands and arrays in nested lists and tuples."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


#: functions that write arrays as text
WRITERS = frozenset((np.array2string, np.array_repr, np.array_str))

#: functions that write into their first argument
STORES = frozenset((np.copyto, np.put, np.putmask, np.place, np.put_along_axis, np.fill_diagonal))


def _check_target(name, args):
    if is_a(args[0], np.ndarray) and not var.is_var(args[0]) and not _all_passive(args[1:]):
        raise TracedValueError(assignment_message(f"the first argument of {name}"))


def _into(out, fun, args, kwargs, compute):
    """A call with ``out=``: computed aside, then stored."""
    outs = out if isinstance(out, tuple) else (out,)
    if isinstance(fun, np.ufunc):
        outs += (None,) * (fun.nout - len(outs))
    if not any(var.is_var(y) for y in outs) and not holds_traced(args) and not holds_traced(tuple(kwargs.values())):
        return (compute or fun)(*plain(args), **_plain_keywords(kwargs), out=out)
    where = kwargs.pop("where", True) if isinstance(fun, np.ufunc) else True
    if not isinstance(fun, np.ufunc):
        args, kwargs = _as_wide_as(outs[0], fun, args, kwargs)
    if where is True:
        result = function(fun, args, kwargs, compute)
    elif fun.signature is None and fun.nout == 1 and outs[0] is not None:
        with np.errstate(all="ignore"):  # np.divide(a, b, out=..., where=b != 0): what is not taken may divide by 0
            result = function(fun, args, kwargs, compute)
        result = function(np.where, (where, result, outs[0]), {})
    else:
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} with where= and such an out={_at()}: write out[mask] = ..., or numpy.where"
        )
    if len(outs) == 1:
        return result if outs[0] is None else _stored(fun, outs[0], result)
    if not any(o is None for o in outs) and np.may_share_memory(*map(plain, outs)):
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} with out= arrays that share memory{_at()}: store the results one by one"
        )
    return tuple(part if o is None else _stored(fun, o, part) for o, part in zip(outs, result))


def _as_wide_as(out, fun, args, kwargs):
    """The call with ``dtype=`` of `out`, as NumPy's sums, products and folds have it where that is the wider one."""
    dtype, wide = (getattr(x, "dtype", None) for x in (args[0] if args else None, out))
    if dtype is None or wide is None or dtype.kind != "f" or wide.kind != "f" or dtype.itemsize >= wide.itemsize:
        return args, kwargs
    names = [parameter.name for parameter in signature(fun) or ()]
    at = names.index("dtype") if "dtype" in names else len(args)
    if kwargs.get("dtype", args[at] if at < len(args) else None) is not None:
        return args, kwargs
    if at < len(args):
        return (*args[:at], wide, *args[at + 1 :]), kwargs
    if "dtype" in names:
        return args, {**kwargs, "dtype": wide}
    is_fold = fun is np.ptp or fun in registry.ufunc_methods.values()
    return ((args[0].astype(wide), *args[1:]) if is_fold else args), kwargs


def _stored(fun, out, result):
    """Write one result into one array of ``out=``."""
    spread = isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1
    if not (_broadcasts(np.shape(result), np.shape(out)) if spread else np.shape(result) == np.shape(out)):
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


def _broadcasts(shape, target) -> bool:
    """Does a shape broadcast to another?"""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _plain_keywords(kwargs):
    return {name: plain(value) for name, value in kwargs.items()} if kwargs else kwargs


@functools.cache
def _out_position(fun) -> int:
    """Position of ``out`` in the signature of a function; a large number if it has none there."""
    if isinstance(fun, np.ufunc):
        return fun.nin
    for i, parameter in enumerate(signature(fun) or ()):
        if parameter.name == "out" and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            return i
    return 1 << 30


def _positional(fun, args, kwargs):
    """Move traced keyword arguments to their positions, where a rule looks for its operands."""
    args = list(args)
    kwargs = dict(kwargs)
    known = registry.positions.get(fun, {})
    parameters = signature(fun) or []
    order = {parameter.name: i for i, parameter in enumerate(parameters) if parameter.kind.name.startswith("POS")}
    order.update(known)
    traced = [name for name, value in kwargs.items() if holds_traced(value)]
    unknown = [name for name in traced if name not in order]
    if unknown:
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} has no derivative with respect to {unknown[0]}={_at()}: "
            "pass wengert.stop_gradient(value) if it is meant to be a constant"
        )
    last = max([order[name] for name in traced] + list(known.values()))
    for i in range(len(args), last + 1):
        given = [name for name, position in order.items() if position == i and name in kwargs]
        args.append(kwargs.pop(given[0]) if given else None if i in known.values() else parameters[i].default)
    return tuple(args), kwargs


def _operands(row, args):
    """Traced arguments as ``(position, item, operand)``; sequences of numbers become arrays."""
    operands: list = []
    args = list(args)
    if row.kind == "custom":
        return args, [(0, i, x) for i, x in enumerate(args) if var.is_traced(x)]
    if row.sequence and args and var.is_traced(args[0]):
        args[0] = list(args[0])  # an array in place of a sequence: its rows
    for i, argument in enumerate(args):
        if var.is_traced(argument):
            operands.append((i, -1, argument))
        elif isinstance(argument, (list, tuple)) and holds_traced(argument):
            if row.sequence and i == 0:
                argument = args[0] = [stacked(x) if isinstance(x, (list, tuple)) else x for x in argument]
                operands += [(0, j, x) for j, x in enumerate(argument) if var.is_traced(x)]
            else:
                args[i] = stacked(argument)
                operands.append((i, -1, args[i]))
        elif isinstance(argument, (list, tuple)) and (row.kind == "elementwise" or i in row.vjps):
            if not (row.sequence and i == 0):
                args[i] = np.asarray(plain(argument))
    return args, operands


def _check_call(row, args, kwargs, operands):
    """Refuse what the rule does not understand: an unknown option could change the derivative."""
    if row.kind == "elementwise":
        if kwargs:
            raise UnsupportedFunctionError(_not_understood(row, sorted(kwargs)))
        unknown = [(i, x) for i, _, x in operands if i >= len(row.partials) or row.partials[i] is None]
    elif row.kind in ("view", "rearrangement"):
        unknown = [(i, x) for i, _, x in operands if i != 0]
    else:
        if row.keywords is not None and not row.keywords.issuperset(kwargs):
            raise UnsupportedFunctionError(_not_understood(row, sorted(set(kwargs) - row.keywords)))
        if row.most is not None and len(args) > row.most:
            raise UnsupportedFunctionError(
                f"{row.name} was called with {len(args)} positional arguments, its rule knows {row.most}{_at()}"
            )
        unknown = [(i, x) for i, _, x in operands if row.variadic is None and i not in row.vjps]
        if signature(row.fun) is None:  # a clean array that no rule knows could be an out= given by position
            rest = [(i, x) for i, x in enumerate(args) if var.is_var(x)]
            unknown += [(i, x) for i, x in rest if row.variadic is None and i not in row.vjps]
    unknown = [i for i, x in unknown if not var.is_passive(x)]
    if unknown:
        raise UnsupportedFunctionError(
            f"{row.name} has no derivative with respect to argument {unknown[0]} (counted from 0){_at()}: "
            "pass wengert.stop_gradient(value) if it is meant to be a constant"
        )


def _not_understood(row, names):
    if row.kind == "elementwise" and "where" in names:
        return (
            f"{row.name} with where= and without out={_at()}: where the mask is false the result would hold whatever "
            "memory held; pass out=, or write numpy.where"
        )
    return (
        f"{row.name} has no derivative rule for the option {', '.join(names)}{_at()}: "
        "leave it out, or write the operation with other NumPy functions"
    )


def _shared_view(y, operands):
    """The view that a result is, if it lies in the memory of an operand: its elements are elements of that."""
    y = plain(y)
    if type(y) is _ndarray:
        for _, _, x in operands:
            if not var.is_scalar(x) and var.shares_memory(x, y):
                return var.view_of(x, y)
    return None


def _rearranged(level, row, args, lowered, kwargs, operands, y):
    """A result whose elements are elements of the operands: a view records nothing, a copy records where from."""
    values = [plain(a) if i == 0 else kept(plain(a)) for i, a in enumerate(args)]
    for i in row.choices:
        if level.depth and i < len(args) and var.is_traced(lowered[i]):
            values[i] = np.copy(lowered[i])  # on the recording tape around
    if isinstance(y, (list, tuple)):
        parts = [_rearranged_part(level, row, args, values, kwargs, operands, part, j) for j, part in enumerate(y)]
        return parts if isinstance(y, list) else _like_tuple(y, parts)
    return _rearranged_part(level, row, args, values, kwargs, operands, y, None)


def numbers_like(value, start):
    """Integers from `start` on in the shape and with the strides of an array: order="A" and "K" look at those."""
    if not value.size:
        return np.zeros(value.shape, dtype=np.intp)
    size = value.itemsize
    low, high = np.lib.array_utils.byte_bounds(value)
    strides = [stride // size * np.dtype(np.intp).itemsize for stride in value.strides]
    first = -sum((n - 1) * stride for n, stride in zip(value.shape, strides) if stride < 0)
    memory = np.zeros((high - low) // size + 1, dtype=np.intp)
    numbers = np.ndarray(value.shape, np.intp, memory, first, strides)
    numbers[...] = np.arange(start, start + value.size).reshape(value.shape)
    return numbers


def _rearranged_part(level, row, args, values, kwargs, operands, y, part):
    shared = _shared_view(y, operands)
    if shared is not None:
        return shared

    moved = [operand for operand in operands if operand[0] not in row.choices]

    def index_map(node):
        """Where each element of the result came from: 1, 2, ... in the order of the operands, 0 for nowhere."""
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
        if holds_var(numbered):  # np.take does not ask its indices
            found = function(row.fun, tuple(numbered), dict(kwargs))
        else:
            found = row.fun(*numbered, **kwargs)
        return found if part is None else found[part]

    if not level.recording:
        return var.record(level, row, (), {}, operands, y, index_map)
    compute = row.fun if part is None else Part(row.fun, part)
    return var.record(level, row, tuple(values), kwargs, operands, y, index_map, compute)


class Part:
    """One of the arrays that a function returns."""

    def __init__(self, fun, number):
        self.fun = fun
        self.number = number

    def __call__(self, *args, **kwargs):
        return self.fun(*args, **kwargs)[self.number]

    def __repr__(self):
        return f"{registry.dotted_name(self.fun)}[{self.number}]"


# ------------------------------------------------------------------------------------------ recordings to be replayed

_COMPARISONS = (
    (np.less, operator.lt),
    (np.less_equal, operator.le),
    (np.equal, operator.eq),
    (np.not_equal, operator.ne),
    (np.greater, operator.gt),
    (np.greater_equal, operator.ge),
)


@functools.cache
def comparison(op):
    """Row, function and operator of a comparison, numbered as CPython numbers them."""
    fun, compute = _COMPARISONS[op]
    return registry.lookup(fun), fun, compute


#: functions of which even the shape of the result depends on values: on which elements are other than 0
_PLACES = frozenset({np.nonzero, np.flatnonzero, np.argwhere})


def record_constant(row, args, kwargs, compute):
    """A call whose result carries no derivative, on a recording tape: an entry like any other.

    Python objects that it returns leave a guard.
    """
    if row.fun in _PLACES:
        mask = observed(np.not_equal(args[0], 0))
        return compute(mask, *observed(args[1:]), **_observed_keywords(kwargs))
    if row.fun is None:
        kwargs = _observed_keywords(kwargs)
    elif holds_traced(tuple(kwargs.values())):
        args, kwargs = _positional(row.fun, args, kwargs)
    args = [_flat_list(a) for a in var.grounded(tuple(args))]
    operands = []
    for i, a in enumerate(args):
        operands += [(i, j, x) for j, x in enumerate(a) if var.is_traced(x)] if isinstance(a, list) else []
        operands += [(i, -1, a)] if var.is_traced(a) else []
    values = plain(tuple(args))
    kwargs = _plain_keywords(kwargs)
    y = noted(compute, values, kwargs)
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


def _flat_list(a):
    """A list in which no lists hold operands."""
    if not isinstance(a, (list, tuple)) or not holds_traced(a):
        return a
    return [stacked(item) if isinstance(item, (list, tuple)) and holds_traced(item) else item for item in a]


def _all_passive(x) -> bool:
    """On a recording tape: does nothing in `x` carry a derivative?"""
    if var.recording_level(x) is None:
        return False
    return all(var.is_passive(item) for item in _leaves(x) if var.is_traced(item))


def _as_the_rule_takes_them(row, fun, args, kwargs):
    """Operands without derivative stay where the rule can take them; elsewhere Python code observes them."""
    if row.kind in ("constant", "composed", "custom") or row.variadic is not None:
        return args, kwargs
    chooses = row.choices and (row.fits is None or row.fits(*args, **kwargs))
    if kwargs and holds_traced(tuple(kwargs.values())):
        names = {parameter.name: i for i, parameter in enumerate(signature(fun) or ())}
        names.update(registry.positions.get(fun, {}))
        kwargs = {
            name: a if name in names and _is_taken(row, names[name], chooses) else observed_if_passive(a)
            for name, a in kwargs.items()
        }
    for i, a in enumerate(args):
        if not _is_taken(row, i, chooses):
            seen = observed_if_passive(a)
            if seen is not a:
                args = (*args[:i], seen, *args[i + 1 :])
    return args, kwargs


cdef bint _is_taken(row, i, chooses):
    """Can the rule take an operand at this position?"""
    if i in row.choices:
        return chooses
    if row.kind == "elementwise":
        return i < len(row.partials)
    return i == 0 if row.kind in ("view", "rearrangement") else i in row.vjps


def observed_if_passive(x):
    return observed(x) if holds_traced(x) and _all_passive(x) else x


def _observed_keywords(kwargs):
    return {name: observed(value) for name, value in kwargs.items()}


def stopped(x):
    """The value of an operand without its derivative: plain, or on a recording tape what changes from call to call."""
    if var.recording_level(x) is None:
        return var.value_of(x)
    return record_constant(constant_row, (x,), {}, unchanged)


def unchanged(x):
    """The same value, in memory of its own."""
    return x.copy(order="K") if is_a(x, np.ndarray) else x


# ------------------------------------------------------------------------------------------ attributes and methods

#: methods of arrays and scalars that are a NumPy function of the same arguments
METHODS = {
    name: getattr(np, name)
    for name in (
        "sum mean prod max min cumsum cumprod var std ptp ravel squeeze swapaxes repeat take dot trace "
        "diagonal round argmax argmin argsort any all nonzero searchsorted argpartition"
    ).split()
    if hasattr(np.ndarray, name)  # NumPy 2 has no method ptp
}

#: attributes that speak of the array, not of its values
METADATA = frozenset("nbytes itemsize strides flags device".split())

#: ways out on which the derivative would be lost
WAYS_OUT = frozenset(
    "as_integer_ratio hex tolist tobytes tostring tofile dump dumps data ctypes base".split()
)
INTERFACES = frozenset(("__array_interface__", "__array_struct__"))


#: what tells of the memory of an array: in a recording that is a copy's
_OF_MEMORY = frozenset(("base", "ctypes", "data", np.may_share_memory, np.shares_memory))


class Flags:
    """``x.flags`` in a recording: how elements are laid out holds for each call, whose memory it is does not."""

    _LAYOUT = frozenset(
        "c_contiguous f_contiguous contiguous fortran forc fnc C F FORC FNC "
        "C_CONTIGUOUS F_CONTIGUOUS CONTIGUOUS FORTRAN".split()
    )

    def __init__(self, flags):
        object.__setattr__(self, "_flags", flags)

    def __getattr__(self, name):
        if name not in self._LAYOUT:
            unrecorded(f"x.flags.{name} tells of the memory of an array", True)
        return getattr(self._flags, name)

    def __getitem__(self, name):
        if name not in self._LAYOUT:
            unrecorded(f"x.flags[{name!r}] tells of the memory of an array", True)
        return self._flags[name]

    def __setattr__(self, name, value):
        unrecorded(f"x.flags.{name} of an array is set", True)

    def __repr__(self):
        unrecorded("x.flags tells of the memory of an array", True)

    __class__ = property(lambda self: type(self._flags))


#: methods that have no derivative, and what to write instead
REFUSED_METHODS = {
    "resize": "make a new array with numpy.zeros and assign to a part of it",
    "byteswap": "only the bytes of plain arrays are exchanged: pass wengert.stop_gradient(array)",
    "getfield": "take x.real, x.imag or a slice",
    "setfield": "assign to x.real, x.imag or a slice",
    "setflags": "leave it out, or pass wengert.stop_gradient(array)",
}


def array_attribute(x, name):
    """Attribute of a traced or clean array that has no slot of its own."""
    value = var.value_of(x)
    if name in METHODS:
        fun = METHODS[name]
        return lambda *args, **kwargs: function(fun, (x, *args), kwargs)
    if name in _ARRAY_METHODS:
        method = _ARRAY_METHODS[name]
        return lambda *args, **kwargs: method(x, *args, **kwargs)
    if name in METADATA:
        return Flags(value.flags) if name == "flags" and var.recording_level(x) else getattr(value, name)
    if name in _OF_MEMORY and var.recording_level(x):
        unrecorded(f"x.{name} tells of the memory of an array", True)
    if name in INTERFACES:
        return _interface(x, name)
    if name == "mT":
        return np.swapaxes(x, -1, -2)
    if name.startswith("__") or not hasattr(np.ndarray, name):
        raise AttributeError(f"'numpy.ndarray' object has no attribute {name!r}")
    if not var.is_traced(x):
        return getattr(x.__array__(), name)
    if name in REFUSED_METHODS:
        raise refusal(
            x, f"ndarray.{name} has no derivative rule{_at()}: {REFUSED_METHODS[name]}", UnsupportedFunctionError
        )
    if var.is_passive(x):
        return getattr(observed(x), name)
    if name in WAYS_OUT:
        raise refusal(
            x,
            f"ndarray.{name} would lose the derivative of a traced array{_at()}: "
            "pass wengert.stop_gradient(array) where a constant is meant",
        )
    raise refusal(
        x,
        f"ndarray.{name} has no derivative rule{_at()}: write it with NumPy functions that have one",
        UnsupportedFunctionError,
    )


def _interface(x, name):
    """Array interface of `x`; refused wherever conversion to an array is refused.

    NumPy asks for it, too, and for an array afterwards.
    """
    if matrices.handed_over(x) is not None:
        raise AttributeError(name)
    return getattr(x.__array__(), name)


def scalar_attribute(x, name):
    """Attribute of a traced scalar that has no slot of its own."""
    if name in METHODS:
        fun = METHODS[name]
        return lambda *args, **kwargs: function(fun, (x, *args), kwargs)
    if name == "copy":
        return lambda: x
    if name in ("clip", "conj", "conjugate", "reshape", "astype", "flatten", "item", "transpose"):
        method = _ARRAY_METHODS[name]
        return lambda *args, **kwargs: method(x, *args, **kwargs)
    value = var.value_of(x)
    if name in METADATA:
        return getattr(value, name)
    if name in INTERFACES:
        return _interface(x, name)
    if name == "is_integer":
        if var.recording_level(x):
            return lambda: record_constant(constant_row, (x,), {}, operator.methodcaller(name))
        return getattr(value, name)
    if name == "imag":
        return np.float64(0.0)
    if name == "flat":
        return flat.Flat(np.copy(x))
    if name == "mT":
        return getattr(value, name)
    if name.startswith("__") or not hasattr(value, name):
        raise AttributeError(f"'numpy.{type(value).__name__}' object has no attribute {name!r}")
    if var.is_passive(x):
        return getattr(observed(x), name)
    if name in WAYS_OUT:
        raise refusal(
            x,
            f"float64.{name} would lose the derivative of a traced value{_at()}: "
            "pass wengert.stop_gradient(value) where a constant is meant",
        )
    raise refusal(
        x,
        f"float64.{name} has no derivative rule{_at()}: use NumPy functions that have one",
        UnsupportedFunctionError,
    )


def _reshape(x, *shape, **kwargs):
    return function(np.reshape, (x, shape[0] if len(shape) == 1 else shape), kwargs)


def _transpose(x, *axes):
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        axes = axes[0]
    return function(np.transpose, (x, axes or None), {})


def _flatten(x, order="C"):
    return function(np.copy, (function(np.ravel, (x,), {"order": order}),), {})


def _astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True):
    """Conversion: between floating types it is linear; to integers and bools the result is plain."""
    dtype = np.dtype(dtype)
    value = var.value_of(x)
    if casting != "unsafe":
        np.empty(0, value.dtype).astype(dtype, casting=casting)  # NumPy's own error
    if dtype.kind not in "biufc" and var.is_traced(x):
        raise dtype_error(_astype_row, dtype)
    if value.dtype.kind == "c" and dtype.kind not in "cb" and var.is_traced(x):
        raise TracedValueError(f"numpy.ndarray.astype would drop the imaginary part{_at()}: take x.real first")
    if dtype == value.dtype and var.is_traced(x):
        return function(np.copy, (x,), {}) if copy and not var.is_scalar(x) else x
    if (dtype.kind not in "fc" or value.dtype.kind in "biu") and var.recording_level(x):
        return record_constant(constant_row, (x, dtype), {}, converted)
    y = value.astype(dtype)
    if dtype.kind not in "fc" or not var.is_traced(x):
        return clean(y)
    level = var.level_of(x)
    below = var.lower(x, level)
    y = below.astype(dtype) if var.is_var(below) else y
    _check_complex(level, _astype_row, [], y)
    return var.record(level, _astype_row, (below, dtype), {}, [(0, -1, x)], y, None, converted)


def converted(x, dtype):
    """The method astype as a function."""
    return x.astype(dtype)


_astype_row = registry.Primitive(
    "numpy.ndarray.astype",
    "linear",
    vjps={0: lambda ybar, y, x, dtype: (ybar if x.dtype.kind == "c" else ybar.real).astype(x.dtype)},
    jvps={0: lambda t, y, x, dtype: t.astype(dtype)},
    home=f"{__name__}._astype_row",
    stacked=True,
    dependence=Elementwise(1),
    on_complex=True,
)


def _copy(x, order="C"):
    return x if var.is_scalar(x) else function(np.copy, (x,), {"order": order})


def _clip(x, min=None, max=None, out=None, **kwargs):
    return function(np.clip, (x, min, max), kwargs if out is None else {**kwargs, "out": out})


def conj(x, *out):
    """The method of arrays: real ones give themselves."""
    return function(np.conjugate, (x, *out), {}) if out or x.dtype.kind == "c" else x


def _compress(x, condition, axis=None, out=None):
    return function(np.compress, (condition, x), {"axis": axis, "out": out})


def _choose(x, *choices, out=None, mode="raise"):
    choices = choices[0] if len(choices) == 1 else choices
    return function(np.choose, (x, choices), {"out": out, "mode": mode})


def _put(x, indices, values, mode="raise"):
    function(np.put, (x, indices, values), {"mode": mode})


def _to_device(x, device, *, stream=None):
    np.empty(0).to_device(device, stream=stream)  # NumPy's own error
    return x


def _fill(x, value):
    x[...] = value


def _sort(x, axis=-1, kind=None, order=None, **options):
    kwargs = {"kind": kind, "order": order, **options}
    x[...] = function(np.sort, (x, axis), {name: option for name, option in kwargs.items() if option is not None})


def _partition(x, kth, axis=-1, kind="introselect", order=None):
    kwargs = {"kind": kind} if order is None else {"kind": kind, "order": order}
    x[...] = function(np.partition, (x, kth, axis), kwargs)


def _item(x, *index):
    if not var.is_traced(x) or var.is_passive(x):
        return observed(x).item(*index)
    raise TracedValueError(
        f"item() of a traced value would lose its derivative{_at()}: use the value as it is, or x[index], "
        "or wengert.stop_gradient(value) where a constant is meant"
    )


def _tolist(x):
    if not var.is_traced(x) or var.is_passive(x):
        return observed(x).tolist()
    return [_tolist(item) if np.ndim(item) else item for item in x]


def _view(x, *args, **kwargs):
    if args or kwargs:
        if var.is_passive(x):
            return observed(x).view(*args, **kwargs)
        value = var.value_of(x)
        y = value.view(*args, **kwargs)
        if type(y) is np.ndarray and y.dtype.kind in "fc" and y.real.dtype == value.real.dtype:
            return var.view_of(x, y)  # real numbers in pairs
        raise UnsupportedFunctionError(f"ndarray.view with another dtype has no derivative{_at()}: use astype")
    return var.view_of(x, var.value_of(x).view())


_ARRAY_METHODS = {
    "copy": _copy,
    "reshape": _reshape,
    "transpose": _transpose,
    "flatten": _flatten,
    "astype": _astype,
    "clip": _clip,
    "choose": _choose,
    "compress": _compress,
    "conj": conj,
    "conjugate": conj,
    "fill": _fill,
    "item": _item,
    "partition": _partition,
    "put": _put,
    "sort": _sort,
    "to_device": _to_device,
    "tolist": _tolist,
    "view": _view,
}


# ------------------------------------------------------------------------------------------ messages


def refusal(x, message: str, kind=TracedValueError):
    """The error of code that a traced value, or the values in a list or tuple, cannot go through.

    It is noted at the derivative of these too, which need not run where they are used: in another thread, say.
    """
    error = kind(message)
    found = [level for item in _leaves(x) if var.is_var(item) and (level := var.made_at(item)) is not None]
    if found:
        levels.remember(error, *found)
    return error


def spelled(x, text: str, spec: str = "") -> str:
    """The text of an operand."""
    level = var.made_at(x)
    if level is None or not var.is_traced(x) or x.dtype.kind not in "fc":
        return text
    return written(x, text, spec, level)


def written(x, text: str, spec: str = "", *holders) -> str:
    """The text of a value that has a derivative: to make a number of it again is refused where that is seen."""
    module = sys._getframe().f_globals.get("__name__", "")
    if module.startswith("wengert.") and module not in _OF_USERS or not spelling.is_whole(spec):  # a message of ours
        return text
    purpose = spelling.purpose(user_frame())
    if purpose == "read":
        raise refusal(
            x,
            f"a number made from the text of a traced value{_at()} has no derivative: use the value as it is, or "
            "wengert.stop_gradient(x) where a constant is meant",
        )
    if purpose == "unknown":
        levels.spell(*(file_and_line(caller()) if caller() else ("an unknown file", 0)), *holders)
    return text


#: our modules that write the user's values
_OF_USERS = frozenset(("wengert.numpy", "wengert.transforms.series"))


def is_tracing() -> bool:
    """Is a derivative being recorded in this context?"""
    running = levels.running.get()
    return bool(running) and (len(running) > 1 or type(running[0]) is not levels.Watch)


def is_asserted() -> bool:
    """Is a value asked for by an assertion of `numpy.testing` or a message of `logging`, which compute nothing?"""
    frame = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(("numpy.", "wengert.core.")):
            return module == "logging"
        if module.startswith("numpy.testing."):
            return True
        frame = frame.f_back
    return False


def caller():
    """Frame position of the user's code that led here: file, line, and the instruction at work."""
    frame = user_frame()
    return None if frame is None else (frame.f_code, frame.f_lasti)


#: which files of code are ours or NumPy's
_inside: dict[str, bool] = {}
_getframe = sys._getframe


def user_frame():
    """The innermost frame that is neither ours nor NumPy's."""
    frame = _getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        inside = _inside.get(file)
        if inside is None:
            name = frame.f_globals.get("__name__", "")
            inside = file.startswith(_PACKAGE) or name.partition(".")[0] in ("numpy", "scipy")
            if file.endswith(".py"):        # other names stand for code of any module
                _inside[file] = inside
        if not inside:
            return frame
        frame = frame.f_back
    return None


def where(position) -> str:
    """``file:line`` of a position that `caller` gave."""
    return "an unknown line" if position is None else "{}:{}".format(*file_and_line(position))


def file_and_line(position) -> tuple[str, int]:
    """File and line of a position that `caller` gave."""
    code, last = position
    line = code.co_firstlineno
    for begin, end, number in code.co_lines():
        if begin > last:
            break
        if last < end and number:
            line = number
    return code.co_filename, line


def _at() -> str:
    position = caller()
    return f" ({where(position)})" if position else ""


def check_row_store(x) -> None:
    """Refuse a row stored into its own array by compiled code: shuffling through views would duplicate rows."""
    if not _is_assignment():
        raise TracedValueError(
            f"rows of an array are exchanged by compiled code{_at()}, which would go through views and duplicate them: "
            "write x = x[rng.permutation(len(x))] in place of rng.shuffle(x)"
        )


def refuse_overlap(x, key, value, what) -> None:
    """Refuse a source that is overwritten before it is read: NumPy stores one element after the other here."""
    if not var.is_var(value) or not np.ndim(value) or not np.may_share_memory(*plain((x, value))):
        return
    written, read = _addresses(plain(x))[plain(key)], _addresses(plain(value))
    if not _broadcasts(read.shape, written.shape):  # through .flat
        read = np.resize(read, written.shape)
    read, written = np.broadcast_to(read, written.shape).ravel().tolist(), written.ravel().tolist()
    first = dict(zip(reversed(written), range(len(written) - 1, -1, -1)))
    if any(first.get(address, i) < i for i, address in enumerate(read)):
        raise UnsupportedFunctionError(
            f"{what} overwrites elements before it reads them{_at()}: NumPy's result depends on the order, "
            "store value.copy()"
        )


def _addresses(x):
    """Where in memory each element of an array is."""
    steps = [np.arange(n) * stride for n, stride in zip(x.shape, x.strides)]
    return x.__array_interface__["data"][0] + sum(np.ix_(*steps), np.zeros((), np.intp))


def _is_assignment() -> bool:
    """Is the user's instruction at work an assignment to an element or slice?"""
    position = caller()
    return position is not None and is_assignment_code(position[0].co_code, position[1])


def _is_attribute_assignment() -> bool:
    """Is the user's instruction at work an assignment to an attribute?"""
    position = caller()
    return position is not None and is_attribute_assignment_code(position[0].co_code, position[1])


def is_operator() -> bool:
    """Is the user's instruction at work an operator, and not a call?"""
    position = caller()
    return position is not None and is_operator_code(position[0].co_code, position[1])


def assignment_message(what: str) -> str:
    if (solver := _solver()) is not None:
        return _solver_message(solver)
    return (
        f"a traced value cannot be stored in a plain NumPy array: {what}{_at()}. "
        "The array was made where wengert does not see it, and the derivative would be lost. "
        "Make it with `import wengert.numpy as np`, or with np.zeros(n, like=x), or copy it with np.copy(a), or build "
        "a list and return it"
    )


#: functions of scipy.optimize that wengert.scipy.optimize has
MIRRORED = frozenset(
    "root fsolve root_scalar bisect brenth brentq ridder toms748 newton fixed_point least_squares minimize".split()
)

#: What SciPy's solvers call on values and iterates: where a loop in Python ends, and where compiled code will swallow
#: an error. Refused there, since what follows would be the derivative of the iteration, or an error that says nothing.
_ASKED_BY_SOLVERS = frozenset((np.isclose, np.isnan, np.atleast_1d))


def _solver() -> str | None:
    """The function of scipy.optimize whose own code is at work, if it has a mirror."""
    frame = sys._getframe()
    found = None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scipy.") and frame.f_code.co_name in MIRRORED:
            found = frame.f_code.co_name
        elif not module.startswith(("numpy.", "scipy.", "wengert.core.", "wengert.rules.")):
            break  # the user's, or a derivative that SciPy was given
        frame = frame.f_back
    return found


def _solver_message(name: str) -> str:
    return (
        f"a traced value cannot go through scipy.optimize.{name}{_at()}: its derivative would be lost. "
        f"Use wengert.scipy.optimize.{name}, whose solution has its derivative"
    )


def float_message() -> str:
    solver = _solver()
    if solver is not None:
        return _solver_message(solver)
    if _is_assignment():
        return assignment_message("element assignment")
    if advice.is_fill(user_frame()):
        return assignment_message("fill")
    return (
        f"a traced value cannot become a Python float{_at()}: its derivative would be lost. {advice.of(user_frame())}"
        "Use the NumPy function (np.sin(x) for math.sin(x)), or wengert.stop_gradient(x) where a constant is meant"
    )


def _sparse_solver() -> str | None:
    """The function of scipy.sparse.linalg that is at work."""
    frame = sys._getframe()
    found = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("numpy.", "scipy.", "wengert.core.")):
        if frame.f_globals["__name__"].startswith("scipy.sparse.linalg."):
            found = frame.f_code.co_name
        frame = frame.f_back
    return found


def sparse_message() -> str:
    solver = _sparse_solver()
    if solver is not None:
        return (
            f"a sparse array with traced entries cannot go through scipy.sparse.linalg.{solver}{_at()}: its derivative "
            "would be lost. Solve with numpy.linalg.solve(A.toarray(), b)"
        )
    return (
        f"a sparse array with traced entries cannot become a plain one{_at()}: its derivative would be lost. "
        "Use it as it is, in A @ x, sums and multiples, or make a traced array of it with A.toarray()"
    )


def array_message() -> str:
    solver = _solver()
    if solver is not None:
        return _solver_message(solver)
    solver = _sparse_solver()
    if solver is not None:
        return (
            f"a traced value cannot go through scipy.sparse.linalg.{solver}{_at()}: its derivative would be lost. "
            "Give the solution by a constant matrix a rule: "
            "wengert.primitive(lu.solve, jvp=lambda t, y, b: lu.solve(t), vjp=lambda ybar, y, b: lu.solve(ybar, 'T')) "
            "with lu = scipy.sparse.linalg.splu(A)"
        )
    if _is_assignment():
        return assignment_message("slice assignment")
    if _is_attribute_assignment():
        return assignment_message("assignment to an attribute, as y.flat")
    if (name := advice.library_call(user_frame())) is not None:
        return call_message(name)
    return (
        f"a traced value cannot become a plain NumPy array{_at()}: its derivative would be lost. "
        f"{advice.of(user_frame())}"
        "Use np.stack([...]) to join traced values and NumPy functions (np.linalg.solve) in place of SciPy's, "
        "or wengert.stop_gradient(x) where a constant is meant"
    )


def call_message(name: str) -> str:
    """The error to raise for a call of a function that takes plain values only."""
    return advice.through(name, _at())


def refuse_json(x) -> None:
    """Refuse what ``json`` asks for its class: it writes floats, which the class of a traced number is not."""
    if not is_tracing() or not var.is_traced(x) or var.is_passive(x) or not isinstance(var.value_of(x), float):
        return
    frame = user_frame()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "json":
        frame = frame.f_back
    place = f" ({where((frame.f_code, frame.f_lasti))})" if frame is not None else ""
    raise refusal(x, advice.through("json", place))


def hash_message(what: str) -> str:
    return (
        f"a traced {what} cannot be hashed{_at()}: a cache could return it after its derivative has ended. "
        "Use wengert.stop_gradient(x) as the key"
    )


def escaped_message(position) -> str:
    return (
        f"a traced value cannot be stored in this array{_at()}: at {where(position)} its memory was handed to code "
        "that wengert does not see, which would miss the derivative. Make a copy of the array there"
    )


def dtype_error(row, dtype) -> TracedValueError:
    """The error for values of a type that a derivative cannot carry."""
    return TracedValueError(
        f"{name_of(row)} gives values of type {dtype}{_at()}, and wengert differentiates floating values: write the "
        "computation with float64"
    )


def is_undefined(given, found):
    """Did a rule find no tangents where it was given numbers? Then it says so by NaN."""
    return np.isnan(var.plain(found)).any() and not any(np.isnan(var.plain(x)).any() for x in given)


def check_defined(row, found):
    """Raise if the derivative `found` has a NaN for tangents that `row` has not; None if all rows had theirs."""
    if row is not None and np.isnan(var.plain(found)).any():
        raise NonSmoothError(f"{row.name} has no derivative here: {row.undefined}")


def no_complex_rule(row) -> UnsupportedFunctionError:
    return UnsupportedFunctionError(
        f"{name_of(row)} has no derivative rule for complex values{_at()}: write it with functions that have one, "
        "or with real and imaginary parts, x.real and x.imag"
    )


def complex_store_message(dtype) -> str:
    return (
        f"a complex value cannot be stored in an array of {dtype}{_at()}: its imaginary part would be lost. "
        "Make the array with dtype=complex"
    )


def name_of(row) -> str:
    return row.name if row is not None else "this operation"


def _no_rule(fun, row) -> str:
    name = registry.dotted_name(fun)
    if row is not None:
        return f"{row.name} has no derivative: {row.reason}{_at()}"
    close = registry.nearest(fun)
    hint = f"did you mean {close}? Otherwise " if close and close != name else ""
    return (
        f"{name} has no derivative rule{_at()}: {hint}declare one with wengert.primitive(function, vjp=...), "
        "or pass wengert.stop_gradient(x) where a constant is meant"
    )


def _record_strong(cotangent, partial):
    if not var.may_record() or var.recording_level((cotangent, partial)) is None:
        return None
    return apply(_strong_row, registry.strong, (cotangent, partial), {})


_strong_row = registry.Primitive(
    registry.strong,
    "elementwise",
    partials=(lambda y, g, p: p, lambda y, g, p: g),
    curvature="cross",
    on_complex=True,
    home=f"{__name__}._strong_row",
)
registry.record_strong = _record_strong
registry.strong_product = strong_product
var.set_dispatch(sys.modules[__name__])

# they import this module; `tangents` is found here by var.pyx
from wengert.core.dispatch import advice, flat, matrices, nan_check, options, text as spelling
from wengert.core.modes import forward  # no-cython-lint
