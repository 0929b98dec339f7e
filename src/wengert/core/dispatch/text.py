"""Decides what the text of a traced value is used for; a number parsed from it would silently lose its derivative.

Formatting a value to display it is harmless. The source line that formats it shows whether the text is displayed
(``print``, logging, an exception), parsed back at once (``float(f"{x}")``), or neither, such as text kept for later.
Without source, the surrounding bytecode and the names used by the code object decide.
"""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import re
import weakref

from wengert.core.advice import held_by
from wengert.core.rebind.rename import public
from wengert.features import is_remainder_code

#: text with at least this many digits after the decimal point counts as precise enough to read the number back
MIN_PRECISE_DIGITS = 9

_PRECISION = re.compile(r"(?:.?[<>=^])?[ +-]?z?#?0?\d*[,_]?(?:\.(\d+))?([a-zA-Z%]?)$", re.DOTALL)

#: conversion of the operator % of text, with its precision
_PERCENT = re.compile(r"%(?:\(\w*\))?[ #0+-]*(?:\*|\d*)(?:\.(\*|\d*))?[hlL]?([a-zA-Z%])")

#: functions that parse numbers from text
PARSERS = frozenset(
    "float complex eval exec literal_eval Decimal Fraction mpf mpc sympify float64 float32 longdouble complex128 "
    "fromstring loadtxt genfromtxt array asarray asfarray loads strptime".split()
)

#: functions that display text
_DISPLAY_FUNCTIONS = frozenset(
    "print pprint pp debug info warning warn error critical exception log set_description set_postfix set_title fail "
    "skip echo".split()
)

#: functions and methods that return text, or containers of text
_TEXT_FUNCTIONS = frozenset(
    "str repr format __str__ __repr__ __format__ join strip lstrip rstrip removeprefix removesuffix ljust rjust center "
    "replace ascii dict list tuple splitlines split expandtabs zfill encode decode array2string array_repr array_str "
    "map sorted".split()
)

#: packages that display the values passed to them
_DISPLAY_MODULES = frozenset(
    "logging warnings pprint reprlib traceback _pytest pytest unittest pdb bdb IPython".split()
)

#: expressions that pass text on to the enclosing expression
_TRANSPARENT_NODES = (
    *(ast.JoinedStr, ast.FormattedValue, ast.BinOp, ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.keyword),
    *(ast.Subscript, ast.IfExp, ast.Attribute, ast.GeneratorExp, ast.ListComp, ast.Name, ast.Constant),
    ast.comprehension,
)


def keeps_all_digits(spec: str) -> bool:
    """Return whether a format specification keeps (nearly) all digits of a number."""
    found = _PRECISION.match(spec)
    if found is None:
        return True
    precision, kind = found.groups()
    if precision is None:
        return kind in ("", "s", "r")
    return int(precision) >= MIN_PRECISE_DIGITS


def is_shown_by_percent(frame) -> bool:
    """Return whether `frame` executes ``text % values`` for display, or with few digits."""
    if not is_remainder_code(frame.f_code.co_code, frame.f_lasti):
        return False
    text = _percent_text(frame)
    if text is None:
        return False
    precisions = [precision or "6" for precision, kind in _PERCENT.findall(text) if kind in "eEfFgG"]
    is_short = all(digits.isdigit() and int(digits) < MIN_PRECISE_DIGITS for digits in precisions)
    return is_short or purpose(frame) == "shown"


def _percent_text(frame):
    """Return the left operand of the operator that a frame executes if the source shows that it is text, else None."""
    node = next(reversed(_enclosing_nodes(frame)), None)
    left = node.left if isinstance(node, ast.BinOp) else node.target if isinstance(node, ast.AugAssign) else None
    try:
        text = left.value if isinstance(left, ast.Constant) else held_by(frame, left)
    except (LookupError, AttributeError, ValueError):
        return None
    return text if isinstance(text, str) else None


def purpose(frame) -> str:
    """Return what the text made in `frame` is used for: "shown" (or compared), "read" or "unknown"."""
    while frame is not None and (
        frame.f_code.co_name in ("__repr__", "__str__", "__format__")
        or frame.f_globals.get("__name__") in ("reprlib", "dataclasses")
    ):
        frame = frame.f_back
    if frame is None:
        return "unknown"
    if frame.f_globals.get("__name__", "").partition(".")[0] in _DISPLAY_MODULES:
        return "shown"
    known = _purposes.setdefault(frame.f_code, {})
    if frame.f_lasti not in known:
        known[frame.f_lasti] = (
            _purpose_from_source(frame)
            or _purpose_from_bytecode(frame.f_code, frame.f_lasti)
            or _purpose_from_names(frame.f_code)
        )
    return known[frame.f_lasti]


#: purpose by code object and instruction offset
_purposes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _purpose_from_source(frame):
    """Return the purpose according to the source, or None if there is no source or it does not decide."""
    if frame.f_code.co_filename == "<string>":  # code run by exec; since 3.13 linecache may hold another "<string>"
        return None
    for node in reversed(_enclosing_nodes(frame)):
        if isinstance(node, ast.Call):
            found = _purpose_of_call(getattr(node.func, "attr", getattr(node.func, "id", "")))
            if found == "shown" and _writes_to_file(node):
                return "unknown"
            if found == "unknown" and ast.unparse(node.func).endswith(("stdout.write", "stderr.write")):
                return "shown"
            if found is not None:
                return found
        elif isinstance(node, (ast.Expr, ast.Raise, ast.Assert, ast.Compare)):
            return "shown"
        elif not isinstance(node, _TRANSPARENT_NODES):
            return "unknown"
    return None


def _purpose_of_call(name):
    """Return the purpose for which a function of this name takes text, or None if it returns text itself."""
    if name in PARSERS:
        return "read"
    if name in _DISPLAY_FUNCTIONS or name.endswith(("Error", "Warning", "Exception")):
        return "shown"
    return None if name in _TEXT_FUNCTIONS else "unknown"


def _writes_to_file(call):
    """Return whether a call such as ``print(x, file=f)`` writes to a file that may be read again."""
    files = [ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == "file"]
    return any(not file.endswith(("stdout", "stderr")) for file in files)


def _enclosing_nodes(frame):
    """Return the syntax nodes that enclose what a frame is evaluating, the outermost first; none without source."""
    place = next(iter([*frame.f_code.co_positions()][frame.f_lasti // 2 :]), (None,) * 4)
    inner = _tree("".join(linecache.getlines(frame.f_code.co_filename, frame.f_globals)))
    found = []
    while inner is not None and None not in place:
        found.append(inner)
        inner = next((node for node in ast.iter_child_nodes(inner) if _covers(node, place)), None)
    return found


def _covers(node, place):
    """Return whether a node, or for a node without a position one of its children, covers a source range."""
    line, end_line, start, end = place
    if not hasattr(node, "lineno"):
        return any(_covers(child, place) for child in ast.iter_child_nodes(node))
    return (node.lineno, node.col_offset) <= (line, start) and (end_line, end) <= (node.end_lineno, node.end_col_offset)


@functools.lru_cache(maxsize=8)
def _tree(source):
    try:
        return ast.parse(source) if source else None
    except (SyntaxError, ValueError):
        return None


def _purpose_from_bytecode(code, last):
    """Return the purpose according to the calls and comparisons around an instruction, or None if undecided."""
    places = [*code.co_positions()]
    line, end_line, start, end = place = places[last // 2]
    if None in place:
        return None
    around, loads = [], []
    for step in dis.get_instructions(code):
        a, b, c, d = places[step.offset // 2]
        if None in (a, b, c, d):
            continue
        if step.opname.startswith("LOAD_"):
            loads.append(((a, c), (b, d), step.argval))
        elif step.opname.startswith(("CALL", "COMPARE_OP", "CONTAINS_OP")):
            if (a, c) <= (line, start) and (end_line, end) <= (b, d):
                around.append(((a, c), (b, d), step.opname))
    for first, behind, name in sorted(around, key=lambda each: ([-n for n in each[0]], each[1])):
        if not name.startswith("CALL"):
            return "shown"
        named = [load for load in loads if load[0] == first and load[1] < behind and isinstance(load[2], str)]
        found = _purpose_of_call(public(max(named, key=lambda load: load[1])[2]) if named else "")
        if found is not None:
            return found
    return None


def _purpose_from_names(code):
    """Return the purpose according to the names that the code uses."""
    names = {*code.co_names}
    return "shown" if names & _DISPLAY_FUNCTIONS and not names & PARSERS else "unknown"
