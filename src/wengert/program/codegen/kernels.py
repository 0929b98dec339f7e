"""Formulas of elementwise functions for the code generators: one row per function, by its NumPy or SciPy name.

Formulas take `Symbol`s, or plain floats, which adopt the dtype of the kernel, and append operations to their builder.
A row is either a primitive operation (`Primitive`) or a formula in terms of other rows; operators are rows too: `a * b`
is `multiply`.
Functions of ``kernels.h`` are translated from their C expressions, values and partials alike (`Formula`), as are the C
functions of ``helpers.h`` that these call. Both may use the names in `C_NAMES`.
Conditional formulas evaluate every branch and select, as ``np.where`` does, since the threads of a GPU warp diverge at
branches.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from math import inf, log, nan, pi, sqrt
from typing import Any, NamedTuple

from wengert.core.tape.tape import kernel_formulas, kernel_helpers
from wengert.program.ir import opcode_table


class Primitive(NamedTuple):
    """An operation that is primitive on every target.

    `python` is the expression in NumPy.
    `ir` is the LLVM instruction; otherwise `c` is the name in the C library.
    Its name in libdevice is `c` with the prefix ``__nv_``, and the suffix ``f`` in single precision.
    `cost` is the approximate number of floating-point instructions.
    """

    python: str
    ir: str = ""
    c: str = ""
    cost: int = 1


class Row(NamedTuple):
    value: Primitive | Callable
    partials: tuple = ()
    is_flag: bool = False


ROWS: dict[str, Row] = {}

#: synonyms of functions
ALIASES = {
    "pow": "**",
    "power": "**",
    "float_power": "**",
    "abs": "absolute",
    "true_divide": "divide",
    "mod": "remainder",
    "conjugate": "positive",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "invert": "logical_not",
    "round": "rint",
}


def row(name, value, is_flag=False):
    ROWS[name] = Row(value, (), is_flag)


def flag(name, value):
    row(name, value, is_flag=True)


def library(words, cost, module="np"):
    """Add rows for functions of the C library, given NumPy's or SciPy's names."""
    for name in words.split():
        c = {"gamma": "tgamma", "gammaln": "lgamma"}.get(name, name.replace("arc", "a"))
        given = "{}, {}" if name in ("arctan2", "hypot", "fmod", "copysign") else "{}"
        row(name, Primitive(f"{module}.{name}({given})", c=c, cost=cost))


def _of(name):
    """Return the row `name` as a function of numbers, at least one of which must be a `Symbol`."""
    return lambda *x: next(v for v in x if not isinstance(v, float)).of.apply(name, *x)


def where(mask, a, b):
    return mask.of.apply("where", mask, a, b)


exp, log_, sqrt_, sin, cos, sinh, cosh = map(_of, ("exp", "log", "sqrt", "sin", "cos", "sinh", "cosh"))
expm1, log1p, hypot, erf, erfc, rint, fmod = map(_of, ("expm1", "log1p", "hypot", "erf", "erfc", "rint", "fmod"))
floor, copysign, isnan, isinf, maximum = map(_of, ("floor", "copysign", "isnan", "isinf", "maximum"))
exp2, arctan2, signbit = map(_of, ("exp2", "arctan2", "signbit"))
product_error = _of("product error")

LN2, LN10 = log(2.0), log(10.0)

# ---- arithmetic

row("add", Primitive("{} + {}", ir="fadd"))
row("subtract", Primitive("{} - {}", ir="fsub"))
row("multiply", Primitive("{} * {}", ir="fmul"))
row("divide", Primitive("{} / {}", ir="fdiv", cost=10))
row("negative", Primitive("-{}", ir="fneg", cost=0))
row("absolute", Primitive("np.abs({})", c="fabs", cost=0))
row("single", Primitive("np.float64(np.float32({}))", ir="single"))
# the rounding error of a product, given a, b and the rounded product
row("product error", Primitive("product_error({}, {}, {})", ir="fma"))
# a factor that is exactly 0 gives 0
row("strong", Primitive("strong({}, {})", ir="strong", cost=2))

# ---- comparisons and choices

for _name, _sign in {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "=="}.items():
    flag(_name, Primitive(f"{{}} {_sign} {{}}", ir=_sign))
flag("not_equal", Primitive("{} != {}", ir="!="))
flag("logical_not", Primitive("np.logical_not({})", ir="not_", cost=0))
flag("logical_and", Primitive("{} & {}", ir="and_", cost=0))
flag("logical_or", Primitive("{} | {}", ir="or_", cost=0))
flag("logical_xor", Primitive("{} ^ {}", ir="xor", cost=0))
flag("isnan", lambda a: a != a)
flag("isinf", lambda a: abs(a) == inf)
flag("isfinite", lambda a: abs(a) < inf)
flag("isposinf", lambda a: a == inf)
flag("isneginf", lambda a: a == -inf)
flag("signbit", lambda a: copysign(1.0, a) < 0.0)
row("where", Primitive("np.where({}, {}, {})[()]", ir="select", cost=0))

# ---- powers and roots


def power(a, b):
    """Return a**b; small integer exponents use multiplications, within 4 ulp, as programs do."""
    exponent = b.of.value(b)
    if exponent in _POWERS:
        return _POWERS[exponent](a)
    return a.of.apply("pow function", a, b)


def _fourth_power(a):
    return (a * a) * (a * a)


_POWERS = {
    0.0: lambda a: 1.0,
    0.5: lambda a: where(a == -inf, inf, sqrt_(a) + 0.0),
    1.0: lambda a: a,
    -1.0: lambda a: 1.0 / a,
    2.0: lambda a: a * a,
    3.0: lambda a: a * a * a,
    4.0: _fourth_power,
    5.0: lambda a: _fourth_power(a) * a,
    6.0: lambda a: (a * a * a) * (a * a * a),
    8.0: lambda a: _fourth_power(a) * _fourth_power(a),
}


def pow_a(a, b, y):
    """Return the partial b a**(b - 1): as b * (y / a), except where a is 0 or y is near overflow or underflow."""
    exponent = b.of.value(b)
    if exponent in (0.0, 1.0):
        return exponent
    if exponent is not None and (exponent - 1.0) + 1.0 == exponent:
        return exponent * power(a, b.of.constant(exponent - 1.0))
    is_midsize = (a != 0.0) & (abs(y) > a.of.tiny) & (abs(y) < a.of.huge)
    found = where(is_midsize, b * (y / a), b * a.of.apply("pow function", a, b - 1.0))
    return where(b == 0.0, 0.0, found)


row("pow function", Primitive("np.power({}, {})", c="pow", cost=90))
row("sqrt", Primitive("np.sqrt({})", c="sqrt", cost=12))
library("cbrt hypot", 25)

# ---- exponentials and logarithms

library("exp exp2", 20)
library("expm1 log log2 log10 log1p", 25)
row("exp10", lambda a: a.of.apply("pow function", 10.0, a))  # not every C library has exp10


def log_of_sum(a, b, exp, log1p, of_two):
    """Return log(exp(a) + exp(b)); infinities are handled."""
    return where(a == b, a + of_two, maximum(a, b) + log1p(exp(-abs(a - b))))


row("logaddexp", lambda a, b: log_of_sum(a, b, exp, log1p, LN2))
row("logaddexp2", lambda a, b: log_of_sum(a, b, exp2, lambda t: log1p(t) * (1.0 / LN2), 1.0))

# ---- angles

library("sin cos", 35)
library("tan", 45)
library("arcsin arccos arctan", 30)
library("arctan2", 45)


def sinc(x):
    z = pi * where(x == 0.0, 1e-20, x)
    return sin(z) / z


row("sinc", sinc)

# ---- hyperbolic functions

library("sinh cosh", 40)
library("tanh", 35)
library("arcsinh arccosh arctanh", 40)

# ---- piecewise functions

library("floor ceil trunc rint copysign", 1)
library("fmod", 60)
row("sign", lambda a: where(a > 0.0, 1.0, where(a < 0.0, -1.0, where(a == 0.0, 0.0, a))))


def remainder(a, b):
    """Return a modulo b, with the sign of b."""
    rest = fmod(a, b)
    return where(rest == 0.0, copysign(0.0, b), where((b < 0.0) ^ (rest < 0.0), rest + b, rest))


def floor_divide(a, b):
    """Return the integer quotient that matches `remainder`; a / b if b is 0."""
    rest = fmod(a, b)
    ratio = (a - rest) / b
    ratio = where((rest != 0.0) & ((b < 0.0) ^ (rest < 0.0)), ratio - 1.0, ratio)
    whole = floor(ratio)
    whole = where(ratio == 0.0, copysign(0.0, a / b), where(ratio - whole > 0.5, whole + 1.0, whole))
    return where(b == 0.0, a / b, whole)


row("remainder", remainder)
row("floor_divide", floor_divide)
row("heaviside", lambda a, b: where(a > 0.0, 1.0, where(a < 0.0, 0.0, where(a == 0.0, b, a))))


# ---- scipy.special


def gauss(a):
    """Return exp(-a*a), corrected for the rounding error of a*a, which would cost a*a ulp."""
    s = a * a
    found = exp(-s) * (1.0 - product_error(a, a, s))
    return where(s < 800.0, found, where(isnan(a), a, 0.0))


library("erf", 45, "special")
library("erfc", 60, "special")
library("gamma", 90, "special")
library("gammaln j0 j1 y0 y1", 120, "special")
row("log_expit", lambda a: where(a < 0.0, a, 0.0) - log1p(exp(-abs(a))))
row("logit", lambda a: log_(a / (1.0 - a)))
row("ndtr", lambda a: 0.5 * erfc(-sqrt(0.5) * a))
row("xlogy", lambda a, b: where((a == 0.0) & (b == b), 0.0, a * log_(b)))
row("xlog1py", lambda a, b: where((a == 0.0) & (b == b), 0.0, a * log1p(b)))
row("entr", lambda a: where(a == 0.0, 0.0, where(a < 0.0, -inf, -a * log_(a))))

#: the rows that are primitive operations, in order
PRIMITIVES = [name for name, found in ROWS.items() if isinstance(found.value, Primitive)]

# ---- functions of kernels.h

#: names allowed in C expressions: C library functions, constants, and functions of helpers.h that are replaced here
C_NAMES: dict[str, Any] = {
    **{ROWS[name].value.c: _of(name) for name in PRIMITIVES if ROWS[name].value.c},
    "pow": power,
    "single": _of("single"),
    "WG_LN2": LN2,
    "WG_LN10": LN10,
    "WG_DEGREE": pi / 180,
    "WG_RADIAN": 180 / pi,
    "WG_2_SQRTPI": 2 / sqrt(pi),
    "NAN": nan,
    "wg_pow_a": pow_a,
    "wg_gauss": gauss,
}


class Formula:
    """A C expression in a, b and y as a function of `Symbol`s, translated on first use."""

    def __init__(self, text: str):
        self.text = text

    @functools.cached_property
    def function(self) -> Callable:
        return eval(f"lambda a, b, y: {translated(self.text)}", names())

    def __call__(self, a, b=None, y=None):
        return self.function(a, b, y)


@functools.cache
def names() -> dict[str, Any]:
    """Return the names that C expressions may use: `C_NAMES`, and the functions of ``helpers.h``."""
    found = {"where": where, **C_NAMES}
    exec("".join(map(function_translated, kernel_helpers())), found)
    found.update(C_NAMES)
    return found


def function_translated(text: str) -> str:
    """Translate a C function to Python; every branch is evaluated."""
    head, _, body = text.rstrip("} ").partition("{")
    name, *parameters = re.findall(r"(?:double|int) (\w+)", head)
    lines, result, depth = [], "", 0
    for statement in map(str.strip, body.split(";")):
        condition, is_branch, value = statement.removeprefix("if (").partition(") return ")
        if is_branch:
            result, depth = f"{result}where({translated(condition)}, {translated(value)}, ", depth + 1
        elif statement.startswith("return "):
            result += translated(statement.removeprefix("return ")) + ")" * depth
        else:
            rest = statement.removeprefix("const ").removeprefix("double ")
            while rest:
                item, rest = _split(rest, ",")
                variable, is_assigned, value = item.strip().partition(" = ")
                lines += [f"    {variable} = {translated(value)}\n"] if is_assigned else []
    return f"def {name}({', '.join(parameters)}):\n{''.join(lines)}    return {result}\n"


def translated(text: str) -> str:
    """Translate a C expression to Python; conditionals become calls of `where`.

    Parameters
    ----------
    text : str
        C expression with the operators ``?:``, ``||`` and ``&&`` only outside parentheses; of casts, only the
        rounding ``(double)(float)(x)``.
    """
    condition, rest = _split(text, "?")
    if rest:
        return f"where({', '.join(map(translated, (condition, *_split(rest, ':'))))})"
    for sign, python in (("||", "|"), ("&&", "&")):
        left, right = _split(text, sign)
        if right:
            return f"({translated(left)}) {python} ({translated(right)})"
    return text.strip().replace("(double)(float)", "single")


def _split(text, sign):
    """Split text at the first `sign` outside parentheses; return the whole text and "" if there is none."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if not depth and text.startswith(sign, i):
            return text[:i], text[i + len(sign) :]
    return text, ""


for _opcode, (_value, *_partials) in kernel_formulas().items():
    _name = opcode_table.ROWS[_opcode].name
    if _name not in ALIASES:
        _known = ROWS[_name].value if _name in ROWS else Formula(_value)
        ROWS[_name] = Row(_known, tuple(map(Formula, _partials)))
