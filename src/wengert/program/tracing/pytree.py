"""Flattens arguments and captured values into dynamic leaves and a static, hashable key.

Floats, NumPy's complex scalars and arrays of them are *leaves*: their values may change between calls.
Integers, Python's complex numbers, flags, strings, None and the structure of containers are *static*: part of the key.
A Python float and a `numpy.float64` have different keys, since operators, ``type`` and ``isinstance`` distinguish them.
Functions and objects are compared by identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.containers import children_of, is_registered, rest_of
from wengert.core.operands.var import plain
from wengert.core.rebind.proxies import original
from wengert.program.ir.identity import Same

#: maximum number of items of a captured container that is compared item by item at each call
MAX_SMALL_ITEMS = 64


class UnsupportedValue(TypeError):
    """A value that cannot be an input of a program."""

    def __init__(self, what: str):
        super().__init__(f"{what} cannot be an argument of a program: pass numbers, arrays of floats, or containers")


def key_of(value: Any, leaves: list, others: list) -> Any:
    """Return the hashable key of a value; append its leaves to `leaves`, functions and objects to `others`."""
    find = _KEYS.get(type(value))
    return _key_of_other(value, leaves, others) if find is None else find(value, leaves, others)


def _key_of_array(value, leaves, others):
    dtype = value.dtype
    if dtype.char in "dfDF" and dtype.isnative:
        leaves.append(value)
        return dtype.char, value.shape, value.strides
    if dtype.kind not in "biuSUmM":
        raise UnsupportedValue(f"an array of dtype {dtype}")
    return dtype.str, value.shape, value.strides, value.tobytes()


def _key_of_scalar(kind):
    def key(value, leaves, others):
        leaves.append(value)
        return kind

    return key


def _key_of_constant(value, leaves, others):
    return type(value), value


def _key_of_list(value, leaves, others):
    return type(value), *[key_of(item, leaves, others) for item in value]


def _key_of_dict(value, leaves, others):
    parts = [(type(name), name, key_of(item, leaves, others)) for name, item in value.items()]
    for name in value:
        if type(name) not in _CONSTANTS:  # an object, whose state may matter too
            key_of(name, [], others)
    return dict, *parts


def _key_of_other(value, leaves, others):
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic, float, complex)):  # also true of traced values
        raise UnsupportedValue(f"a {kind.__module__}.{kind.__qualname__}")
    if hasattr(kind, "__next__"):
        raise UnsupportedValue(f"an iterator ({kind.__qualname__}), which each call would use up,")
    found = children_of(value) if not isinstance(value, dict) else None
    if found is None:
        others.append(value)
        return Same(value)
    rest = contents_key(rest_of(value), others)
    more = [contents_key(getattr(value, name), others) for name in extra_attributes(value)]
    return kind, rest, *more, *getattr(value, "__dict__", ()), *[key_of(item, leaves, others) for item in found[0]]


def extra_attributes(value: Any) -> list[str]:
    """Return the names of a dataclass instance's attributes that are not fields, such as cached properties."""
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is None or is_registered(value):
        return []
    return [name for name in getattr(value, "__dict__", ()) if name not in fields]


_CONSTANTS = frozenset((int, bool, str, bytes, type(None), float))

_KEYS: dict[type, Callable] = {
    np.ndarray: _key_of_array,
    float: _key_of_scalar(float),
    complex: lambda value, *_: (complex, value.real.hex(), value.imag.hex()),  # tells -0.0 from 0.0, and equates NaNs
    np.float64: _key_of_scalar("d"),
    np.complex128: _key_of_scalar("D"),
    np.float32: _key_of_scalar("f"),
    np.complex64: _key_of_scalar("F"),
    **dict.fromkeys((int, bool, str, bytes, range, type(None), type(...), np.bool_, np.str_), _key_of_constant),
    **dict.fromkeys({np.dtype(char).type for char in np.typecodes["AllInteger"]}, _key_of_constant),
    list: _key_of_list,
    tuple: _key_of_list,
    dict: _key_of_dict,
    slice: lambda value, *rest: (slice, *[key_of(part, *rest) for part in (value.start, value.stop, value.step)]),
}  # fmt: skip

_CONTAINERS = (list, tuple, dict)


def aliases_of(leaves: list) -> tuple:
    """Return pairs of leaf indices that are the same array: each repetition with the first occurrence."""
    first: dict[int, int] = {}
    found = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, np.ndarray) and first.setdefault(id(leaf), i) != i:
            found.append((i, first[id(leaf)]))
    return tuple(found)


def is_data(value: Any) -> bool:
    """Return whether a captured value is a scalar, a constant, an array, or a small container of these."""
    try:
        leaves: list = []
        others: list = []
        if type(value) in _CONTAINERS and _count(value) > MAX_SMALL_ITEMS:
            return False
        key_of(value, leaves, others)
    except (TypeError, RecursionError):  # not a possible input, or an unhashable key
        return False
    return type(value) in _KEYS or not others


def classes_of(value: Any) -> set[type]:
    """Return the user-defined container classes within a value: dataclasses, named tuples and registered ones."""
    kind = type(value)
    if kind in (list, tuple, dict):
        found, items = set(), value.values() if kind is dict else value
    else:
        parts = None if kind in _KEYS else children_of(value)
        found, items = (set(), ()) if parts is None else ({kind}, parts[0])
    for item in items:
        if type(item) not in _SCALARS and type(item) is not np.ndarray:
            found |= classes_of(item)
    return found


def others_of(value: Any) -> list:
    """Return the functions and objects within a value that is data."""
    others: list = []
    key_of(value, [], others)
    return others


def _count(value, found=0):
    """Count the items of nested containers, stopping once there are too many."""
    for item in value.values() if type(value) is dict else value:
        found += 1
        if found <= MAX_SMALL_ITEMS and type(item) in _CONTAINERS:
            found = _count(item, found)
        if found > MAX_SMALL_ITEMS:
            break
    return found


def contents_key(value: Any, others: list) -> Any:
    """Return a key of a value that includes the bytes of its leaves."""
    leaves: list = []
    key = key_of(value, leaves, others)
    return key, *[np.asarray(leaf).tobytes() for leaf in leaves]


def lowered(value: Any) -> Any:
    """Return the value with operands replaced by their plain values; containers are copied."""
    if type(value) not in _KEYS or type(value) in _CONTAINERS:
        return mapped(value, plain)
    return value


def operands_of(value: Any) -> list:
    """Return the leaves of a value, operands included, in the order of `key_of`."""
    found: list = []
    mapped(value, lambda x: found.append(x) if _is_leaf(plain(x)) else None)
    return found


def fill(value: Any, operands: Iterator) -> Any:
    """Copy a value with its leaves replaced by `operands`, in the order of `key_of`."""
    return mapped(value, lambda x: next(operands) if _is_leaf(x) else x)


def _is_leaf(x):
    return type(x) in _SCALARS or (type(x) is np.ndarray and x.dtype.char in "dfDF" and x.dtype.isnative)


def mapped(value: Any, change: Callable) -> Any:
    """Copy a value, replacing every item that is not a container by `change(item)`."""
    value = original(value)
    kind = type(value)
    if kind in (list, tuple):
        return kind([mapped(item, change) for item in value])
    if kind is dict:
        return {name: mapped(item, change) for name, item in value.items()}
    found = None if kind in _KEYS or isinstance(value, dict) else children_of(value)
    return change(value) if found is None else found[1]([mapped(item, change) for item in found[0]])


_SCALARS = frozenset((float, np.float64, np.complex128, np.float32, np.complex64))


def item_ids(value: Any) -> Any:
    """Return the nested identities of a container's items, to detect writes to it."""
    kind = type(value)
    if kind is dict:
        items = [*value, *value.values()]
    elif kind in (list, tuple):
        items = value
    else:
        found = None if kind in _KEYS or isinstance(value, dict) else children_of(value)
        items = () if found is None else found[0]
    return id(value), *[item_ids(item) for item in items]
