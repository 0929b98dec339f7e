"""Flattens containers into array leaves and rebuilds them, like a JAX pytree.

A rectangular list or tuple of scalars, nested or not, is one array, as in SciPy.
Dicts, named tuples, dataclasses, `types.SimpleNamespace` and registered classes are containers.
So are lists and tuples that are ragged or hold an array or a container.
The leaves of a container are differentiated separately, and results have its structure.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from wengert.core.dispatch import dispatch, instances
from wengert.core.dispatch.lifted import Lifted
from wengert.core.dispatch.traced_matrix import TracedMatrix
from wengert.core.operands import var
from wengert.core.rebind.proxies import original
from wengert.core.tape.tape import holds_complex
from wengert.deferred import deferred
from wengert.errors import ComplexValueError
from wengert.features import is_masked_array

copy = deferred("copy")
dataclasses = deferred("dataclasses")

T = TypeVar("T")

_registered: dict[type, _Registered] = {}


class _Registered:
    """Flattens and rebuilds objects of a registered class."""

    def __init__(self, cls, flatten, restore):
        self.cls = cls
        self.flatten = flatten
        self.make = restore
        self.has_rest = _needs_two(restore)

    def parts(self, x):
        """Return the items of an object and its constant rest."""
        found, rest = self.flatten(x), ()
        if self.has_rest:
            if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[0], (list, tuple))):
                raise TypeError(
                    f"register_container({self.cls.__name__}): restore takes two arguments, so flatten must return "
                    "(parts, rest) with a list of parts"
                )
            found, rest = found
        if not isinstance(found, (list, tuple)):
            raise TypeError(
                f"register_container({self.cls.__name__}): flatten must return a list of parts, not {found!r}"
            )
        return list(found), rest

    def restore(self, items, rest):
        return self.make(items, rest) if self.has_rest else self.make(items)


def _needs_two(restore):
    """Return whether a function has two required positional arguments."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(restore).parameters.values()
    return sum(p.kind in kinds and p.default is p.empty for p in parameters) == 2


def register_container(cls: type[T], flatten: Callable[[T], Any], restore: Callable[..., T]) -> type[T]:
    """Register a class as a container, like ``jax.tree_util.register_pytree_node``.

    Its objects may then be arguments, results, directions, loop states and parts of other containers.
    Dataclasses, named tuples and dicts are containers already.

    Parameters
    ----------
    cls : type
        The class; its subclasses are not registered.
    flatten : callable
        ``flatten(x)`` returns the parts of an object as a list: arrays, scalars, containers. It may return a pair
        ``(parts, rest)``; `rest` is constant, and part of the cache key of compiled functions.
    restore : callable
        ``restore(parts)``, or ``restore(parts, rest)``, returns an object with these parts. They may be of any type:
        traced arrays, blocks of a Jacobian.

    Returns
    -------
    type
        The class.

    Raises
    ------
    TypeError
        If `cls` is not a class, or is a subclass of list, tuple, dict, a scalar type or ndarray.
        When the class is used, if `flatten` does not return a list.

    See Also
    --------
    grad : Accepts containers as arguments.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> class Beam:
    ...     def __init__(self, length, loads):
    ...         self.length, self.loads = length, loads
    >>> _ = wg.register_container(Beam, lambda b: [b.length, b.loads], lambda parts: Beam(*parts))
    >>> slope = wg.grad(lambda b: b.length**3 * np.sum(b.loads), Beam(2.0, np.array([1.0, 3.0])))
    >>> slope.length, slope.loads
    (np.float64(48.0), array([8., 8.]))
    """
    if not isinstance(cls, type):
        raise TypeError(f"register_container: expected a class, got {cls!r}")
    if issubclass(cls, (list, tuple, dict, np.ndarray, np.generic, int, float, complex, str)):
        raise TypeError(f"register_container: {cls.__name__} already has a structure of its own")
    _registered[cls] = _Registered(cls, flatten, restore)
    return cls


def is_registered(x: Any) -> bool:
    """Return whether `x` is an object of a class registered by `register_container`."""
    return _row_of(x) is not None


def _row_of(x):
    """Return the registration of the class of `x`; ``__class__`` sees through proxies made within a derivative."""
    return _registered.get(x.__class__) if _registered else None


def rest_of(x: Any) -> Any:
    """Return the constant rest of an object of a registered class; () if there is none."""
    row = _row_of(x)
    return () if row is None else row.parts(x)[1]


#: types whose values are not containers and cannot be registered
_LEAVES = frozenset((np.ndarray, np.float64, float, int, bool, complex, str, type(None)))


def children_of(x: Any) -> tuple[list, Callable[[list], Any]] | None:
    """Return the items of a container and a function that rebuilds it from other items; None for a non-container."""
    if type(x) in _LEAVES or isinstance(x, Lifted):
        return None
    row = _row_of(x)
    if row is not None:
        parts, rest = row.parts(x)
        return parts, lambda items: row.restore(list(items), rest)
    if isinstance(x, dict):
        keys = list(x)

        def restore_dict(items):
            if type(x) is dict:
                return dict(zip(keys, items))
            new = copy.copy(x)
            new.update(zip(keys, items))
            return new

        return [x[key] for key in keys], restore_dict

    def restore_list(items):
        new = copy.copy(x)
        new[:] = items
        return new

    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return list(x), lambda items: type(x)(*items)
    if isinstance(x, (list, tuple)):
        restore = type(x) if type(x) is list or isinstance(x, tuple) else restore_list
        is_template = type(x) not in (list, tuple) and _holds_placeholders(x)
        return (list(x), restore) if is_template or _holds_arrays(x) else None
    names = fields_of(x)
    if names is None:
        return None

    def restore_object(items):
        if isinstance(x, types.SimpleNamespace):
            return types.SimpleNamespace(**dict(zip(names, items)))
        new = copy.copy(x)
        held = getattr(new, "__dict__", {})
        for name, item in zip(names, items):
            if name in held:  # a descriptor of the class may refuse a second assignment
                held[name] = item
            else:
                object.__setattr__(new, name, item)
        return new

    return [getattr(x, name) for name in names], restore_object


def fields_of(x: Any) -> list[str] | None:
    """Return the attribute names of a namespace or a dataclass; None for other objects.

    A dataclass that is being initialised lacks some of its fields.
    """
    if isinstance(x, types.SimpleNamespace):
        return list(vars(x))
    if hasattr(type(x), "__dataclass_fields__"):
        return [field.name for field in dataclasses.fields(x) if hasattr(x, field.name)]
    return None


class Placeholder:
    """Stands for an array in the template of a container."""

    __slots__ = ()


def _holds_placeholders(x):
    return isinstance(x, Placeholder) or (isinstance(x, (list, tuple)) and any(map(_holds_placeholders, x)))


def _holds_arrays(x: list | tuple) -> bool:
    """Return whether a list or tuple is ragged, or holds a container or an array with at least one axis."""
    is_nested = False
    for item in x:
        if isinstance(item, (np.ndarray, Lifted)) and item.ndim >= 1:
            return True
        if isinstance(item, (list, tuple)):
            if hasattr(item, "_fields") or _holds_arrays(item):
                return True
            is_nested = True
        elif children_of(item) is not None:
            return True
    return is_nested and len({_shape(item) for item in x}) > 1


def _shape(x) -> tuple:
    """Return the shape of rectangular nested lists."""
    return (len(x), *(_shape(x[0]) if x else ())) if isinstance(x, (list, tuple)) else ()


def split(x: Any) -> tuple[list, Callable[[list], Any]]:
    """Return the leaves of a container, in order, and a function that rebuilds the container from other leaves."""
    found = children_of(x)
    if found is None:
        return [x], lambda leaves: leaves[0]
    items, restore = found
    parts = [split(item) for item in items]
    counts = [len(leaves) for leaves, _ in parts]

    def assemble(leaves):
        start = 0
        made = []
        for count, (_, build) in zip(counts, parts):
            made.append(build(leaves[start : start + count]))
            start += count
        return restore(made)

    return [leaf for leaves, _ in parts for leaf in leaves], assemble


def ravel(tree: T) -> tuple[np.ndarray, Callable[[Any], T]]:
    """Put all numbers of a container into one vector, for solvers that take a vector of unknowns.

    Parameters
    ----------
    tree : container, array or scalar
        Dicts, lists, tuples, dataclasses and registered classes, nested or not, of real numbers and arrays.

    Returns
    -------
    vector : ndarray
        The leaves in order, each in C order. Its dtype is the common dtype of the leaves; integers and booleans count
        as float64.
    restore : callable
        ``restore(vector)`` returns a container like `tree`. Its leaves are copies with the shapes of the leaves of
        `tree` and the dtype of the vector passed. Derivatives pass through it.

    Raises
    ------
    TypeError
        If a leaf is not a real number or an array of them.
    ValueError
        When `restore` is called, if its argument is not a vector of the same size.

    See Also
    --------
    register_container : Makes a class usable as a container.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from scipy.optimize import minimize
    >>> t = np.linspace(0, 1, 20)
    >>> y = 2 * np.exp(-3 * t) + 1
    >>> def loss(vector):
    ...     p = restore(vector)
    ...     return np.sum((p["size"] * np.exp(-p["rate"] * t) + p["offset"] - y) ** 2)
    >>> start, restore = wg.ravel({"size": 1.0, "rate": 1.0, "offset": 0.0})
    >>> fit = restore(minimize(loss, start, jac=wg.grad(loss), tol=1e-9).x)
    >>> {name: round(float(value), 4) for name, value in fit.items()}
    {'size': 2.0, 'rate': 3.0, 'offset': 1.0}
    """
    leaves, assemble = split(tree)
    leaves = [input_leaf(leaf, "ravel") for leaf in leaves]
    shapes = [np.shape(leaf) for leaf in leaves]
    is_scalar = [isinstance(leaf, np.generic) or var.is_scalar(leaf) for leaf in leaves]
    ends = np.cumsum([0, *(np.size(leaf) for leaf in leaves)], dtype=int).tolist()

    def restore(vector):
        vector = input_leaf(vector, "restore")
        if np.shape(vector) != (ends[-1],):
            raise ValueError(
                f"restore: expected a vector of {ends[-1]} numbers, got an array of shape {np.shape(vector)}"
            )
        return assemble(
            [
                vector[start] if scalar else np.copy(np.reshape(vector[start:end], shape))
                for start, end, shape, scalar in zip(ends, ends[1:], shapes, is_scalar)
            ]
        )

    return np.concatenate([np.reshape(leaf, -1) for leaf in leaves]) if leaves else np.zeros(0), restore


def leaves_like(template: Any, x: Any, name: str) -> list:
    """Return the leaves of `x`, which must have the structure of `template`; dicts are matched by key."""
    found = children_of(template)
    if found is None:
        return [x]
    if isinstance(template, dict):
        if not isinstance(x, dict) or set(x) != set(template):
            got = sorted(map(str, x)) if isinstance(x, dict) else type(x).__name__
            raise ValueError(f"{name}: expected a dict with the keys {sorted(map(str, template))}, got {got}")
        pairs = [(template[key], x[key]) for key in template]
    else:
        other = children_of(x)
        items = other[0] if other is not None else list(x) if isinstance(x, (list, tuple)) else None
        if items is None or len(items) != len(found[0]):
            raise ValueError(f"{name}: expected a {type(template).__name__} of {len(found[0])} arrays, got {x!r}")
        pairs = list(zip(found[0], items))
    return [leaf for inner, item in pairs for leaf in leaves_like(inner, item, name)]


def input_leaf(x: Any, name: str, takes_complex: bool = False) -> Any:
    """Convert an input leaf to a float array or a NumPy scalar, or raise a TypeError that says what to pass."""
    if type(x) is np.ndarray and x.dtype == np.float64:
        return x
    if type(x) is float or (type(x) is int and not isinstance(x, bool)):
        return np.float64(x)
    if var.holds_traced(x):
        x = dispatch.from_list(x)
        if not takes_complex and holds_complex(x):
            raise TypeError(complex_input_message(name))
        return var.as_numpy(x)
    x = var.plain(x)
    kind = type(x)
    if kind.__module__.partition(".")[0] in ("pandas", "xarray", "polars"):
        raise TypeError(
            f"{name}: cannot differentiate with respect to a {kind.__module__}.{kind.__name__}: pass .to_numpy()"
        )
    if is_masked_array(kind):
        raise TypeError(f"{name}: cannot differentiate with respect to a masked array: pass .filled(value)")
    if isinstance(x, np.matrix):
        raise TypeError(f"{name}: cannot differentiate with respect to a numpy.matrix: pass numpy.asarray(x)")
    scalar = not isinstance(x, (np.ndarray, list, tuple))
    if not isinstance(x, (np.ndarray, np.generic, list, tuple, bool, int, float, complex)):
        raise TypeError(
            f"{name}: cannot differentiate with respect to a {kind.__module__}.{kind.__name__}: "
            "pass a number, an array, or a dict, list or dataclass of arrays; register your own class with "
            "wengert.register_container"
        )
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name}: the argument is a ragged nested list") from error
    if array.dtype.kind in "biu":
        array = array.astype(np.float64)
    if array.dtype.kind == "c" and not takes_complex:
        raise TypeError(complex_input_message(name))
    if array.dtype.kind not in "fc" or array.dtype.itemsize > (16 if array.dtype.kind == "c" else 8):
        raise TypeError(
            f"{name}: cannot differentiate with respect to an array of dtype {array.dtype}: pass float64 or float32"
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return array[()] if scalar else array


def complex_input_message(name: str) -> str:
    return (
        f"{name}: complex input is supported by wengert.jvp and wengert.vjp, by wengert.grad and wengert.hvp for a "
        "real "
        "function, and with holomorphic=True by grad, jacobian and derivative for a holomorphic one; "
        "elsewhere pass real and imaginary parts"
    )


def output_leaf(y: Any, name: str, takes_complex: bool = False) -> Any:
    """Convert an output leaf to a traced value or a plain float array, or raise a TypeError."""
    if var.may_hold_instances():
        y = instances.unwrapped(y)
    if type(y) is TracedMatrix:
        y = y.A
    if var.is_var(y):
        y = var.as_numpy(y)
        if np.dtype(y.dtype).kind == "c" and not takes_complex:
            raise ComplexValueError(complex_output_message(name))
        return y
    if isinstance(y, (list, tuple)):
        try:
            return output_leaf(dispatch.stacked(y), name, takes_complex)
        except ValueError as error:
            raise TypeError(
                f"{name}: the function returned a ragged nested list: "
                "return an array, or a dict or list of arrays"
            ) from error
    if isinstance(y, np.ndarray) and y.dtype == object:
        if any(var.is_var(item) for item in y.flat):
            return np.reshape(dispatch.stacked(list(y.flat)), y.shape) if y.size else y
    if isinstance(y, (bool, int, float, complex, np.ndarray, np.generic)):
        array = np.asarray(y)
        if array.dtype.kind in "biu":
            array = array.astype(np.float64)
        if array.dtype.kind == "c" and not takes_complex:
            raise ComplexValueError(complex_output_message(name))
        if array.dtype.kind in "fc":
            return array if isinstance(y, np.ndarray) else array[()]
    raise TypeError(
        f"{name}: the function returned {type(y).__name__}, which is neither a number nor an array; "
        "return numbers, arrays, or a dict, list or dataclass of arrays"
    )


def complex_output_message(name: str) -> str:
    return (
        f"{name}: complex output is supported by wengert.jvp, wengert.vjp, wengert.derivative and wengert.jacobian; "
        "elsewhere return real and imaginary parts"
    )


def plain_copy(x: Any) -> Any:
    """Copy `x` so that its arrays are plain and own their memory."""
    return _mapped(x, var.value_of)


def stopped(x: Any) -> Any:
    """Copy `x` without derivatives: plain values, except that within a trace they stay inputs of the trace."""
    return _mapped(x, dispatch.stopped)


def _mapped(x: Any, value_of: Callable[[Any], Any]) -> Any:
    """Copy `x` with `value_of` applied to every traced value; plain arrays are copied."""
    x = original(x)
    if isinstance(x, instances.SubclassVar):
        return instances.plain(x, value_of)
    if var.is_var(x) or type(x) is np.ndarray:
        value = value_of(x)
        return value.copy(order="K") if type(value) is np.ndarray else value
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)([_mapped(item, value_of) for item in x])
    found = children_of(x)
    if found is None:
        return x
    items, restore = found
    return restore([_mapped(item, value_of) for item in items])


def lowered(x: Any, level) -> Any:
    """Copy `x` at the level that encloses `level`: plain arrays, or values traced there."""

    def lower(leaf):
        below = var.lower(leaf, level)
        return np.copy(below) if var.is_var(below) and not var.is_scalar(below) else below

    return _mapped(x, lower)
