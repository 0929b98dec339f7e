# cython: language_level=3
"""Checks and converts the arguments and results of NumPy calls on operands.

The registry row of a function says which arguments its rule differentiates, which options it supports and whether it
supports complex values. Any other call raises.
Constants that a pullback may need are copied, since f may overwrite the original before the pullback runs.
"""

from __future__ import annotations

import functools

import numpy as np

cimport wengert.core.operands.var as var  # this form lets Cython track the dependency

from wengert import registry
from wengert.core import levels
from wengert.core.frames import at
from wengert.core.messages import assignment_message, no_complex_rule, option_message
from wengert.core.operands import var
from wengert.core.operands.var import holds_traced, observed, plain
from wengert.core.tape.tape import holds_complex
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.features import parameters_of as signature

cdef type _ndarray = np.ndarray


cdef bint is_a(x, types):
    """Return whether `x` is an instance of one of `types`, or an operand whose ``__class__`` is.

    A `Lifted` value is never one: its ``__class__`` depends on the caller's Python frame, and Cython code has none.
    """
    return isinstance(x, types) and (type(x) is _ndarray or not hasattr(type(x), "_call"))


def leaves(x):
    """Yield the items of nested lists and tuples."""
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from leaves(item)
    else:
        yield x


def kept(x):
    """Copy a plain argument that a pullback may need; f may overwrite the original."""
    if is_a(x, np.ndarray):
        return x.copy(order="K") if type(x) is np.ndarray else np.copy(x)
    if type(x) in (list, tuple):
        return type(x)([kept(item) for item in x])
    return x


def clean(result):
    """Wrap plain floating arrays of a result as clean operands, which can receive traced values later."""
    if type(result) is np.ndarray and result.dtype.kind in "fc":
        return var.clean(result)
    if type(result) in (list, tuple):
        return type(result)([clean(item) for item in result])
    return result


def unchanged(x):
    """Copy an array; return other values as they are."""
    return x.copy(order="K") if is_a(x, np.ndarray) else x


#: functions that, like ufuncs, treat a Python float as weakly typed (NEP 50)
_WEAKLY_TYPED = frozenset((np.where, np.clip))

#: functions that depend only on dtypes
_DTYPE_FUNCTIONS = frozenset((np.result_type, np.can_cast))


def promote_python_floats(fun, args, kwargs):
    """Replace traced Python floats among the arguments by NumPy scalars, following NumPy's promotion rules."""
    held = (args, tuple(kwargs.values()))
    if not var.holds_float(held):
        return args, kwargs
    if fun in _DTYPE_FUNCTIONS:
        return plain(args), plain_keywords(kwargs)
    dtypes = [x.dtype for x in leaves(held) if hasattr(x, "dtype")]
    dtype = np.result_type(*[dtype for dtype in dtypes if dtype.kind in "biufc"], 1.0)
    is_double = promoted_float(np.float64(0), dtype).dtype == np.float64
    if not (is_double or isinstance(fun, np.ufunc) or fun in _WEAKLY_TYPED):
        raise TracedValueError(
            f"{registry.dotted_name(fun)} combines a traced Python float with values of {dtype}{at()}: convert it with "
            f"numpy.{dtype}(x) first"
        )
    return _promoted(args, dtype), {name: _promoted(value, dtype) for name, value in kwargs.items()}


def _promoted(x, dtype):
    if type(x) in (list, tuple):
        return type(x)([_promoted(item, dtype) for item in x]) if var.holds_float(x) else x
    return promoted_float(var.as_numpy(x), dtype) if var.holds_float(x) else x


def promoted_float(x, dtype):
    """Convert a traced Python float to the precision that promotion with `dtype` gives it."""
    if dtype.kind not in "fc" or dtype.itemsize >= (8 if dtype.kind == "f" else 16):
        return x
    return x.astype(np.finfo(dtype).dtype)


def plain_keywords(kwargs):
    return {name: plain(value) for name, value in kwargs.items()} if kwargs else kwargs


def broadcasts(shape, target) -> bool:
    """Return whether `shape` broadcasts to `target`."""
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


@functools.cache
def out_position(fun) -> int:
    """Return the position of ``out`` in the signature of a function, or 1 << 30 if it cannot be positional."""
    if isinstance(fun, np.ufunc):
        return fun.nin
    for i, parameter in enumerate(signature(fun) or ()):
        if parameter.name == "out" and parameter.kind == "POSITIONAL_OR_KEYWORD":
            return i
    return 1 << 30


def positional(fun, args, kwargs):
    """Move traced keyword arguments to their positions, where rules look for operands."""
    args = list(args)
    kwargs = dict(kwargs)
    known = registry.positions.get(fun, {})
    parameters = signature(fun) or []
    order = {parameter.name: i for i, parameter in enumerate(parameters) if parameter.kind.startswith("POS")}
    order.update(known)
    traced = [name for name, value in kwargs.items() if holds_traced(value)]
    unknown = [name for name in traced if name not in order]
    if unknown:
        raise UnsupportedFunctionError(
            f"{registry.dotted_name(fun)} has no derivative with respect to {unknown[0]}={at()}: "
            "pass wengert.stop_gradient(value) if it is meant to be a constant"
        )
    last = max([order[name] for name in traced] + list(known.values()))
    for i in range(len(args), last + 1):
        given = [name for name, position in order.items() if position == i and name in kwargs]
        args.append(kwargs.pop(given[0]) if given else None if i in known.values() else parameters[i].default)
    return tuple(args), kwargs


def with_condition(row, args, condition):
    """Replace the argument that the row names as its condition."""
    return (*args[: row.condition], condition, *args[row.condition + 1 :])


def is_traced_condition(x=None):
    return var.is_traced(x) and x.dtype.kind in "fc"


def check_call(row, args, kwargs, operands):
    """Raise for options and operands that the rule does not support, since they could change the derivative."""
    if row.kind == "elementwise":
        if kwargs:
            raise UnsupportedFunctionError(option_message(row, sorted(kwargs)))
        unknown = [(i, x) for i, _, x in operands if i >= len(row.partials) or row.partials[i] is None]
    elif row.kind in ("view", "rearrangement"):
        unknown = [(i, x) for i, _, x in operands if i != 0]
    else:
        if row.keywords is not None and not row.keywords.issuperset(kwargs):
            raise UnsupportedFunctionError(option_message(row, sorted(set(kwargs) - row.keywords)))
        if row.most is not None and len(args) > row.most:
            raise UnsupportedFunctionError(
                f"{row.name} was called with {len(args)} positional arguments{at()}: its rule supports {row.most}"
            )
        unknown = [(i, x) for i, _, x in operands if row.variadic is None and i not in row.vjps]
        if signature(row.fun) is None:  # an unsupported clean array could be a positional out=
            rest = [(i, x) for i, x in enumerate(args) if var.is_var(x)]
            unknown += [(i, x) for i, x in rest if row.variadic is None and i not in row.vjps]
    unknown = [i for i, x in unknown if not var.is_passive(x)]
    if unknown:
        raise UnsupportedFunctionError(
            f"{row.name} has no derivative with respect to argument {unknown[0]} (counted from 0){at()}: "
            "pass wengert.stop_gradient(value) if it is meant to be a constant"
        )


def check_target(name, args):
    """Raise if a function would store traced values into a plain array, its first argument."""
    if is_a(args[0], np.ndarray) and not var.is_var(args[0]) and not all_passive(args[1:]):
        raise TracedValueError(assignment_message(f"the first argument of {name}"))


def check_complex(level, row, operands, y):
    """Note at the level that complex values occur; raise if the row does not support them."""
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
    """Return a constant operand for a tape entry: a copy, except in forward mode, which uses it at once."""
    if level.is_forward:
        return a
    return var.constant_copy(level, a) if type(a) is np.ndarray else kept(a)


def as_result_dtype(row, i, a, y):
    """Convert a constant operand to the result's dtype: rules compute with it, and small integers would overflow.

    A Python integer becomes a float: it has no dtype, and a rule may combine it with other Python integers.
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
    """Return whether a ufunc loop takes an integer at position `i` together with floats, as ``ldexp`` does."""
    loops = [loop.partition("->")[0] for loop in getattr(fun, "types", ())]
    return any(np.dtype(loop[i]).kind in "iu" and any(np.dtype(t).kind == "f" for t in loop) for loop in loops)


def call_on_constants(fun, args, kwargs, compute):
    """Call a function on constants; results that are views of clean arrays stay views."""
    result = (compute or fun)(*plain(args), **plain_keywords(kwargs))
    owners = [x for x in leaves(args) if var.is_var(x)]
    if isinstance(result, (list, tuple)):
        parts = [_view_of_any(owners, part) for part in result]
        return parts if isinstance(result, list) else like_tuple(result, parts)
    return _view_of_any(owners, result)


def like_tuple(result, parts):
    return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)


def _view_of_any(owners, part):
    if type(part) is np.ndarray and part.dtype.kind in "fc":
        for x in owners:
            if var.shares_memory(x, part):
                return var.view_of(x, part)
    return clean(part)


def shared_view(y, operands):
    """Return the result as a view of the operand whose memory it shares, or None if there is none."""
    y = plain(y)
    if type(y) is _ndarray:
        for _, _, x in operands:
            if not var.is_scalar(x) and var.shares_memory(x, y):
                return var.view_of(x, y)
    return None


def numbers_like(value, start):
    """Number the elements from `start`, in an array with the strides of `value`: order="A" and "K" depend on them."""
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


class Part:
    """A function that returns one of several results of another function."""

    def __init__(self, fun, number):
        self.fun = fun
        self.number = number

    def __call__(self, *args, **kwargs):
        return self.fun(*args, **kwargs)[self.number]

    def __repr__(self):
        return f"{registry.dotted_name(self.fun)}[{self.number}]"


def all_passive(x) -> bool:
    """Return whether a recording tape holds values of `x` and none of them carries a derivative."""
    if var.recording_level(x) is None:
        return False
    return all(var.is_passive(item) for item in leaves(x) if var.is_traced(item))


def observe_unsupported(row, fun, args, kwargs):
    """Replace passive operands by their observed values wherever the rule does not accept an operand."""
    if row.kind in ("constant", "composed", "custom") or row.variadic is not None:
        return args, kwargs
    chooses = row.choices and (row.fits is None or row.fits(*args, **kwargs))
    if kwargs and holds_traced(tuple(kwargs.values())):
        names = {parameter.name: i for i, parameter in enumerate(signature(fun) or ())}
        names.update(registry.positions.get(fun, {}))
        kwargs = {
            name: a if name in names and _accepts_operand(row, names[name], chooses) else observed_if_passive(a)
            for name, a in kwargs.items()
        }
    for i, a in enumerate(args):
        if not _accepts_operand(row, i, chooses):
            seen = observed_if_passive(a)
            if seen is not a:
                args = (*args[:i], seen, *args[i + 1 :])
    return args, kwargs


cdef bint _accepts_operand(row, i, chooses):
    """Return whether the rule accepts an operand at this position."""
    if i in row.choices:
        return chooses
    if row.kind == "elementwise":
        return i < len(row.partials)
    return i == 0 if row.kind in ("view", "rearrangement") else i in row.vjps


def observed_if_passive(x):
    return observed(x) if holds_traced(x) and all_passive(x) else x


def observed_keywords(kwargs):
    return {name: observed(value) for name, value in kwargs.items()}


def run_recorded(compute, args, kwargs):
    """Call a function in a recording; errors that depend on values end the recording, because f may catch them."""
    try:
        return compute(*args, **kwargs)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        levels.unrecorded(f"{registry.dotted_name(compute)} raised {error!r}{at()}")
        raise
