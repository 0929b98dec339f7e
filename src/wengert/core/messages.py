"""Error messages about traced values: what was refused, on which line, and what to write instead.

They name the user's line (`wengert.core.frames`) and add advice for it (`wengert.core.advice`).
No function here looks at a traced value.
"""

from __future__ import annotations

import sys

from wengert import features, registry
from wengert.core import frames, levels
from wengert.core.frames import at, solver, user_frame, where
from wengert.core.rebind.follow import FOREIGN, is_standard, top_package, why_unfollowed
from wengert.core.rebind.new_arrays import AS_OPERAND, REFUSED
from wengert.deferred import deferred
from wengert.errors import TracedValueError, UnsupportedFunctionError

advice = deferred("wengert.core.advice")


def name_of(row) -> str:
    return row.name if row is not None else "this operation"


def dtype_error(row, dtype) -> TracedValueError:
    """Error for a result whose dtype has no derivative."""
    return TracedValueError(
        f"{name_of(row)} returns values of type {dtype}{at()}, but wengert differentiates floating-point values only: "
        "compute with float64"
    )


def no_complex_rule(row) -> UnsupportedFunctionError:
    return UnsupportedFunctionError(
        f"{name_of(row)} has no derivative rule for complex values{at()}: write it with functions that have one, "
        "or with real and imaginary parts, x.real and x.imag"
    )


def complex_store_message(dtype) -> str:
    return (
        f"a complex value cannot be stored in an array of {dtype}{at()}: its imaginary part would be lost. "
        "Make the array with dtype=complex"
    )


def no_rule_message(fun, row) -> str:
    name = registry.dotted_name(fun)
    if row is not None:
        return f"{row.name} has no derivative: {row.reason}{at()}"
    close = registry.nearest(fun)
    hint = f"did you mean {close}? Otherwise " if close and close != name else ""
    return (
        f"{name} has no derivative rule{at()}: {hint}declare one with wengert.primitive(function, vjp=...), "
        "or pass wengert.stop_gradient(x) where a constant is meant"
    )


_INSTEAD_OF_MASK = "write numpy.where(mask, fill, x), or select the elements x[~mask]"
#: NumPy classes whose operators and functions differ in meaning from those of arrays, with the remedy
_OTHER_ARRAYS = {
    "MaskedArray": f"the derivative would ignore the mask. Instead, {_INSTEAD_OF_MASK}",
    "matrix": "its operators differ from those of arrays. Pass numpy.asarray(m), and write @ for products",
}


def subclass_message(cls: type) -> str | None:
    """Message for a call that combines a traced value with an array of this class; None if it counts as an array."""
    for base in cls.__mro__:
        if base.__name__ in _OTHER_ARRAYS and base.__module__.startswith("numpy"):
            name = "numpy.ma.MaskedArray" if base.__name__ == "MaskedArray" else "numpy.matrix"
            return f"a traced value cannot be combined with a {name}{at()}: {_OTHER_ARRAYS[base.__name__]}"
    return None


def option_message(row, names):
    if row.kind == "elementwise" and "where" in names:
        return (
            f"{row.name} with where= and without out={at()}: elements where the mask is false would be uninitialised; "
            "pass out=, or write numpy.where"
        )
    return (
        f"{row.name} has no derivative rule for the option {', '.join(names)}{at()}: "
        "leave it out, or write the operation with other NumPy functions"
    )


def hash_message(what: str) -> str:
    return (
        f"a traced {what} cannot be hashed{at()}: a cache could return it after its derivative has ended. "
        "Use wengert.stop_gradient(x) as the key"
    )


def escaped_message(position) -> str:
    return (
        f"a traced value cannot be stored in this array{at()}: at {where(position)} its memory was passed to "
        "code that wengert cannot trace, which would miss the derivative. Pass a copy of the array there"
    )


def assignment_message(what: str) -> str:
    if (name := solver()) is not None:
        return solver_message(name)
    if frames.is_sparse_method():
        return (
            f"a traced value cannot be stored in a plain sparse array{at()}: its derivative would be lost. Copy it "
            "with scipy.sparse.lil_array(A), or make it of entries and indices with scipy.sparse.coo_array"
        )
    if (array := advice.array_with_fields(user_frame())) is not None:
        return (
            f"a traced value cannot be stored in an array with fields, of dtype {array.dtype}{at()}: wengert "
            "differentiates arrays of numbers only. Keep an array of its own for each field, as in a dict of arrays"
        )
    return (
        f"{REFUSED}{what}{at()}. "
        "The array was made where wengert does not see it, and the derivative would be lost. "
        "Make it with `import wengert.numpy as np`, or with np.zeros(n, like=x), or copy it with np.copy(a), or build "
        f"a list and return it{_unfollowed()}"
    )


def _unfollowed() -> str:
    """Advice if the user's line is in a package that is not followed."""
    frame = user_frame()
    module = frame.f_globals.get("__name__") if frame is not None else None
    reason = why_unfollowed(module) if module else None
    package = top_package(module)
    if reason is None or package in FOREIGN or is_standard(package):
        return ""
    return f'. Code of {package} is not followed, since {reason}: wengert.follow("{package}") changes that'


def solver_message(name: str) -> str:
    for module, functions in frames.ITERATIVE.items():
        if name in functions:
            return (
                f"a traced value cannot go through {module}.{name}{at()}: it iterates to convergence, and its result "
                f"would have the derivative of the iteration. Instead, {functions[name]}"
            )
    return (
        f"a traced value cannot go through scipy.optimize.{name}{at()}, which is called where wengert does not see it: "
        f"its derivative would be lost. Use wengert.scipy.optimize.{name}, whose solution has its derivative"
    )


def float_message() -> str:
    if (name := solver()) is not None:
        return solver_message(name)
    if frames.is_assignment():
        return assignment_message("element assignment")
    if advice.calls_method(user_frame(), "fill"):
        return assignment_message("fill")
    if (kind := advice.scalar_class(user_frame())) is not None:
        return _scalar_class_message(kind)
    by_name = "Call float(x) or math.sin(x) by its name in the function itself, or the NumPy function np.sin(x). "
    return (
        f"a traced value cannot become a Python float{at()}: its derivative would be lost. "
        f"{advice.of(user_frame()) or by_name}"
        "Use wengert.stop_gradient(x) where a constant is meant"
        f"{_unfollowed()}"
    )


def _scalar_class_message(kind: type) -> str:
    base = next(base for base in kind.__mro__ if base.__module__ in ("builtins", "numpy"))
    return (
        f"a traced value cannot become a {kind.__module__}.{kind.__qualname__}{at()}: an instance of a subclass of "
        f"{base.__name__} holds a plain number, and its derivative would be lost. Pass the traced value itself to code "
        f"that accepts a {base.__name__}, or keep it in an attribute of a class that does not derive from "
        f"{base.__name__}; or use wengert.stop_gradient(x) where a constant is meant{_unfollowed()}"
    )


def calls_for_array() -> bool:
    """Return whether the user's code, rather than a C function, calls the method ``__array__`` of a value."""
    caller = sys._getframe(1)
    while caller is not None and top_package(caller.f_globals.get("__name__")) == "wengert":
        caller = caller.f_back
    return caller is user_frame() and advice.calls_method(caller, "__array__")


def array_message() -> str:
    if (name := solver()) is not None:
        return solver_message(name)
    if (name := frames.sparse_solver()) is not None:
        return (
            f"a traced value cannot go through scipy.sparse.linalg.{name}{at()}: its derivative would be lost. "
            "Declare a rule for solving with a constant matrix: "
            "wengert.primitive(lu.solve, jvp=lambda t, y, b: lu.solve(t), vjp=lambda ybar, y, b: lu.solve(ybar, 'T')) "
            "with lu = scipy.sparse.linalg.splu(A)"
        )
    position = frames.caller()
    is_operand = position is not None and features.takes_operands(position[0].co_code, position[1])
    as_operand = AS_OPERAND if is_operand else ""
    if frames.is_masked():
        return (
            f"a traced value cannot become a masked array{as_operand}{at()}: its derivative would be lost. "
            f"Masked arrays have no derivative: {_INSTEAD_OF_MASK}"
        )
    if frames.is_assignment():
        return assignment_message("slice assignment")
    if frames.is_attribute_assignment():
        return assignment_message("assignment to an attribute, such as y.flat")
    if (name := advice.library_call(user_frame())) is not None:
        return call_message(name)
    if (kind := advice.scalar_class(user_frame())) is not None:
        return _scalar_class_message(kind)
    return (
        f"a traced value cannot become a plain NumPy array{as_operand}{at()}: its derivative "
        "would be lost. "
        f"{advice.of(user_frame())}"
        "Use np.stack([...]) to join traced values and NumPy functions (those of np.linalg) in place of SciPy's"
        f"{'' if features.has_mirrors() else ' (which have derivatives with SciPy 1.17 or newer)'}, "
        f"or wengert.stop_gradient(x) where a constant is meant{_unfollowed()}"
    )


def sparse_message() -> str:
    if (name := frames.sparse_solver()) is not None:
        return (
            f"a sparse array with traced entries cannot go through scipy.sparse.linalg.{name}{at()}: its derivative "
            "would be lost. Solve with the dense array A.toarray() and numpy.linalg"
        )
    return (
        f"a sparse array with traced entries cannot become a plain one{at()}: its derivative would be lost. "
        "Use it as it is, in A @ x, sums and multiples, or make a traced array of it with A.toarray()"
    )


def call_message(name: str) -> str:
    """Message for a call of a function that accepts plain values only."""
    return advice.through(name, at())


def operator_message(sign: str, kind: type) -> str:
    """Message for an operator between a traced value and a value of a type that no rule accepts."""
    return advice.between(sign, kind, at())


#: advice in the error about a value that was kept after its step
STEP_REMEDY = "a value used after a step must be part of the state that the step returns"


def ended_message(level) -> str:
    """Message about a value of a derivative that has ended."""
    running = [recorder.level.name for recorder in levels.running.get() if type(recorder) is not levels.Watch]
    where = " inside of ".join(reversed(running)) if running else "another computation"
    remedy = level.remedy or "keep wengert.stop_gradient(value) instead of the traced value"
    return f"a value of {level.name}, which has ended, was used in {where}: {remedy}"


def outside_message(level) -> str:
    """Message about a step that writes to an array created outside the step."""
    return (
        f"{level.name} writes to a traced array created outside the step: an array that a step changes must be "
        "part of the state that it takes and returns"
    )


def gone_message(name) -> str:
    """Message about a step that reads a value recorded after it."""
    return (
        f"{name} reads a value that was computed after the loop: a variable that it uses was assigned again; "
        "give the new value another name"
    )
