"""Advice for errors where a traced value reached compiled code: what to write instead of the call.

The call is parsed from the source of the user's line, and its function is looked up in the frame.
"""

from __future__ import annotations

import ast
import itertools
import linecache
import re
import sys
import textwrap
import types

import numpy as np

#: random draws, reparameterised as functions of draws without parameters
REPARAMETERISED = {
    "exponential": "scale * rng.standard_exponential(size)",
    "gumbel": "loc - scale * np.log(rng.standard_exponential(size))",
    "laplace": "loc + scale * rng.laplace(size=size)",
    "logistic": "loc + scale * rng.logistic(size=size)",
    "lognormal": "np.exp(mean + sigma * rng.standard_normal(size))",
    "multivariate_normal": "mean + np.linalg.cholesky(cov) @ rng.standard_normal(n)",
    "normal": "loc + scale * rng.standard_normal(size)",
    "pareto": "np.expm1(rng.standard_exponential(size) / a)",
    "power": "np.exp(-rng.standard_exponential(size) / a)",
    "rayleigh": "scale * np.sqrt(2 * rng.standard_exponential(size))",
    "uniform": "low + (high - low) * rng.random(size)",
    "weibull": "rng.standard_exponential(size) ** (1 / a)",
}
for name in ("gamma", "standard_gamma"):
    REPARAMETERISED[name] = "scale * rng.standard_gamma(shape, size), in which only the scale may vary"

#: draws of elements, written as draws of indices
OF_INDICES = {"choice": "x[rng.integers(len(x), size=size)]"}
for name in ("permutation", "permuted", "shuffle"):
    OF_INDICES[name] = "x[rng.permutation(len(x))]"

#: why functions and classes of the standard library that are written in C accept no traced value, by name
OF_PYTHON = {
    "Decimal": "decimal computes with decimal digits, which have no derivative",
    "memoryview": "NumPy's views, such as x[1:] and x.reshape(...), carry the derivative",
    "bytes": "memory as bytes has no derivative",
    "bytearray": "memory as bytes has no derivative",
    "pack": "numbers packed by struct have no derivative",
    "pack_into": "numbers packed by struct have no derivative",
    "timedelta": "spans of time are whole microseconds, which have no derivative",
    "json": "text has no derivative",
}
_USE_NUMPY = "NumPy functions, or wengert.stop_gradient(x) where a constant is meant"


def of(frame) -> str:
    """Advice for the call that a frame is executing; may be empty."""
    call = call_at(frame)
    fun = called(frame, call)
    name = getattr(fun, "__name__", "")
    if isinstance(fun, type) and issubclass(fun, np.generic):
        return f"Write x.astype(numpy.{name}) for numpy.{name}(x). "
    if call is not None and str(type(fun).__module__).startswith("numba."):
        return (
            f"{ast.unparse(call.func)} is compiled by Numba: call its Python function, py_func, or call it by a "
            "global name or an attribute of a module, where that function runs instead. "
        )
    if isinstance(getattr(call, "func", None), ast.Attribute) and call.func.attr == "dot" and fun is not np.dot:
        return "The method of a plain array accepts plain arrays only: write a @ x, or numpy.dot(a, x), for a.dot(x). "
    if isinstance(array := getattr(fun, "__self__", None), np.ndarray) and array.dtype.kind == "O":
        return "Convert an array of objects by numpy.array(a, dtype=float). "
    if isinstance(array, np.ndarray) and hasattr(np, name):
        return f"The method of a plain array accepts plain values only: write numpy.{name}(a, ...) for a.{name}(...). "
    if fun is None and call is not None and "numba" in sys.modules:
        return f"If {ast.unparse(call.func)} is compiled by Numba, call its Python function, py_func. "
    if name in OF_PYTHON and getattr(fun, "__module__", None) in ("_struct", "decimal", "builtins"):
        return f"{OF_PYTHON[name][0].upper()}{OF_PYTHON[name][1:]}. "
    if package_in_scipy(fun) is not None:
        return f"{ast.unparse(call.func)} accepts plain arrays only. "
    random = sys.modules.get("numpy.random")
    owner = getattr(fun, "__self__", None)
    if random is None or not isinstance(owner, (random.Generator, random.RandomState)):
        return ""
    if name in REPARAMETERISED:
        return f"Transform a draw without parameters: write {REPARAMETERISED[name]} for {name}(...). "
    if name in OF_INDICES:
        return f"Draw indices, not elements: write {OF_INDICES[name]} for {name}(...). "
    return f"Draws of {name} have no derivative: pass wengert.stop_gradient(...). "


def scalar_class(frame) -> type | None:
    """Return the subclass of Python's or NumPy's scalars that a frame is making an instance of; None for others."""
    call = call_at(frame)
    if call is None:
        return None
    is_new = isinstance(call.func, ast.Attribute) and call.func.attr == "__new__" and call.args
    kind = called(frame, ast.Call(call.args[0], [], []) if is_new else call)
    is_scalar = isinstance(kind, type) and issubclass(kind, (float, complex, np.inexact))
    return kind if is_scalar and kind.__module__ not in ("builtins", "numpy") else None


def package_in_scipy(fun) -> str | None:
    """Public package of a SciPy function, such as scipy.linalg; None for functions of other packages."""
    parts = str(getattr(fun, "__module__", "")).split(".")
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), parts)) if parts[0] == "scipy" else None


def of_error(error: Exception) -> str | None:
    """Message to replace an error of C code that mentions our operands; None for other errors."""
    if not isinstance(error, (TypeError, ValueError)) or not _OPERANDS.search(str(error)):
        return None
    frame, line = _user_frame_of(error)
    call = call_at(frame)
    if call is None:
        return None
    written = ast.unparse(call.func)
    name = written.rpartition(".")[2]
    place = f" ({frame.f_code.co_filename}:{line})"
    if name == "solve" and "must be numpy.ndarray" in str(error):
        remedy = (
            "Declare a rule for solving with a constant matrix: wengert.primitive(lu.solve, "
            "jvp=lambda t, y, b: lu.solve(t), vjp=lambda ybar, y, b: lu.solve(ybar, 'T')) "
            "with lu = scipy.sparse.linalg.splu(A)"
        )
    else:
        remedy = _remedy(name)
    said = _OPERANDS.sub(lambda found: _CALLED[found[1]], str(error)).replace("'a traced", "a traced")
    return f"a traced value cannot go through {written}{place}, which accepts plain values only ({said}). {remedy}"


def note_of(error: Exception, name: str) -> str | None:
    """Return a note on an error that traced values may have caused: place and remedy; None without source code."""
    frame, line = _user_frame_of(error)
    if frame is None:
        return None
    code = frame.f_code
    return (
        f"{name} ran {code.co_qualname} ({code.co_filename}:{line}) with traced values in place of numbers. If it does "
        "not raise this error with numbers, it needs plain ones: give the function that calls it a rule by "
        "wengert.primitive, or pass wengert.stop_gradient(x) where a constant is meant"
    )


def _remedy(name):
    """Advice for a call of the standard library that does not accept traced values."""
    known = OF_PYTHON.get(name)
    return f"{known[0].upper()}{known[1:]}: use {_USE_NUMPY}" if known else f"Use {_USE_NUMPY}"


def through(name: str, place: str) -> str:
    """Message for a call of a function that accepts plain values only."""
    return (
        f"a traced value cannot go through {name}{place}, which accepts plain values only. "
        f"{_remedy(name.rpartition('.')[2])}"
    )


def between(sign: str, kind: type, place: str) -> str:
    """Message for an operator between a traced value and a value of a type that no rule accepts."""
    is_number = hasattr(kind, "__float__")
    remedy = f"Convert the {kind.__name__} to a float first: float(c)" if is_number else _remedy(kind.__name__)
    return f"the operator {sign} of a traced value and a {kind.__name__} has no derivative{place}. {remedy}"


def library_call(frame) -> str | None:
    """Source of the called expression if a frame calls C code of the standard library; None for other calls."""
    call = call_at(frame)
    fun = called(frame, call)
    if not isinstance(fun, (type, types.BuiltinFunctionType)):
        return None
    owner = getattr(fun, "__self__", None)
    home = fun.__module__ if isinstance(fun, type) or owner is None else getattr(owner, "__name__", None)
    home = home if isinstance(home, str) else type(owner).__module__
    return ast.unparse(call.func) if home.partition(".")[0] in sys.stdlib_module_names else None


_OPERANDS = re.compile(r"'?(?:wengert\.core\.[\w.]+\.)?\b(FloatVar|ScalarVar|ScalarDual|ArrayVar|SparseVar)\b'?")
_CALLED = {
    "FloatVar": "a traced number",
    "ScalarVar": "a traced number",
    "ScalarDual": "a traced number",
    "ArrayVar": "a traced array",
    "SparseVar": "a sparse array with traced entries",
}


def _user_frame_of(error):
    """Innermost frame of user code in an error's traceback, and its line."""
    found = None, 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in ("numpy", "scipy", "wengert"):
            found = trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next
    return found


def calls_method(frame, name) -> bool:
    """Return whether a frame is calling a method of this name."""
    fun = getattr(call_at(frame), "func", None)
    return isinstance(fun, ast.Attribute) and fun.attr == name


def call_at(frame):
    """Syntax tree of the call that a frame is executing; None without a call or source."""
    tree = expression_at(frame)
    return tree if isinstance(tree, ast.Call) else None


def array_with_fields(frame):
    """Return the array with a structured dtype whose elements or fields a frame is storing into, or None."""
    tree = expression_at(frame)
    while isinstance(tree, (ast.Subscript, ast.Attribute)):
        tree = tree.value
        try:
            found = held_by(frame, tree)
        except (LookupError, AttributeError, ValueError):
            continue
        if isinstance(found, np.ndarray) and found.dtype.names:
            return found
    return None


def expression_at(frame):
    """Syntax tree of the expression that a frame is evaluating or storing into; None without source."""
    if frame is None:
        return None
    positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    line, end_line, start, end = next(positions, (None,) * 4)
    if None in (line, end_line, start, end):
        return None
    lines = [linecache.getline(frame.f_code.co_filename, n).encode() for n in range(line, end_line + 1)]
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][start:]
    try:
        return ast.parse(textwrap.dedent(b"".join(lines).decode()), mode="eval").body
    except (SyntaxError, ValueError):
        return None


def called(frame, call):
    """Function called by `call`; None if it is not reached through names, attributes and constant items."""
    try:
        return held_by(frame, call.func)
    except (LookupError, AttributeError, ValueError):
        return None


def held_by(frame, node):
    """Look up a name, an attribute or a constant item of a container; other expressions are not evaluated."""
    if isinstance(node, ast.Attribute):
        return getattr(held_by(frame, node.value), node.attr)
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        holder = held_by(frame, node.value)
        return holder[node.slice.value] if type(holder) in (dict, list, tuple, types.MappingProxyType) else None
    for space in (frame.f_locals, frame.f_globals):
        if node.id in space:
            return space[node.id]
    return frame.f_builtins[node.id]
