"""What the installed Python, NumPy and SciPy offer, decided here alone, by feature and never by version number.

A comment names the first release that has a feature, so that a branch goes when that release is the oldest supported.
"""

import dis
import functools
import importlib
import inspect
import sys
import types

import numpy as np

# ---- NumPy

has_astype = hasattr(np, "astype")  # 2.1
has_unstack = hasattr(np, "unstack")  # 2.1
has_cumulative = hasattr(np, "cumulative_sum")  # 2.1, and cumulative_prod
fix = (np.fix,) if hasattr(np, "fix") else ()  # deprecated in 2.5
has_matvec = hasattr(np, "matvec")  # 2.2, and vecmat


@functools.cache
def cond_is_real() -> bool:
    """Is the condition number of a complex matrix real in every norm?  2.3.3"""
    return np.linalg.cond(np.ones((1, 1), complex), 1).dtype.kind == "f"


def _has_signature(fun) -> bool:
    try:
        inspect.signature(fun)
    except ValueError:
        return False
    return True


#: functions written in C whose parameters Python cannot tell, with functions of the same parameters; 2.4 tells them all
written_as = {
    fun: like
    for fun, like in (
        (np.bincount, lambda x, /, weights=None, minlength=0: None),
        (np.concatenate, lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None),
        (np.copyto, lambda dst, src, casting="same_kind", where=True: None),
        (np.dot, lambda a, b, out=None: None),
        (np.lexsort, lambda keys, axis=-1: None),
        (np.putmask, lambda a, /, mask, values: None),
        (np.where, lambda condition, x=None, y=None, /: None),
    )
    if not _has_signature(fun)
}


@functools.cache
def parameters_of(fun):
    """Parameters of a function; None where Python cannot tell them.

    This is a Python function because Cython functions have no frame: an observer of calls would attribute the call of
    `inspect` to the user's code.
    """
    try:
        return list(inspect.signature(written_as.get(fun, fun)).parameters.values())
    except (ValueError, TypeError):
        return None


class _Entered:
    """`numpy.errstate`, entered and left: what a signal may interrupt half-way."""

    @staticmethod
    def set(errstate):
        errstate.__enter__()
        return errstate

    @staticmethod
    def reset(errstate):
        errstate.__exit__(None, None, None)


try:  # 2.0; private, so it may go
    from numpy._core.umath import _extobj_contextvar as float_errors
    from numpy._core.umath import _make_extobj as float_errors_with
except ImportError:
    float_errors, float_errors_with = _Entered, np.errstate


# ---- SciPy


@functools.cache
def modfresnelp_sign() -> str:
    """Which integrals ``scipy.special.modfresnelp`` gives: until 1.13 those of ``modfresnelm``."""
    from scipy.special import modfresnelp

    return "p" if modfresnelp(0.5)[0].imag > 0 else "m"


# ---- types of Python


def is_made_in_python(cls: type) -> bool:
    """Was a class made by a class statement, or by what does the same?

    One that is made in C has slots filled there.  Its flags do not tell: from 3.12 on many are on the heap too.
    """
    return bool(cls.__flags__ & _ON_HEAP) and not any(
        type(value) in _MADE_IN_C and value.__objclass__ is cls for value in vars(cls).values()
    )


_ON_HEAP = 1 << 9
_MADE_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


#: code that finds and loads a module which is not there yet; private, so it may go
import_code = getattr(getattr(importlib._bootstrap, "_find_and_load", None), "__code__", None)

# ---- bytecode of Python

CACHE = 0  # what is no instruction, but room for the interpreter's notes on one

#: opcodes whose argument is an index into the names of a code object, with the bits below that index; the compiler's
#: own, which no code object holds, have numbers from 256 on
NAMING = {
    "LOAD_GLOBAL": 1,
    "LOAD_NAME": 0,
    "LOAD_FROM_DICT_OR_GLOBALS": 0,  # 3.12
    "LOAD_ATTR": int(dis.opmap.get("LOAD_METHOD", 256) > 255),  # 3.12: by its low bit it loads a method too
    "LOAD_METHOD": 0,  # until 3.11
    "LOAD_SUPER_ATTR": 2,  # 3.12
    "STORE_NAME": 0,
    "STORE_GLOBAL": 0,
    "STORE_ATTR": 0,
    "DELETE_NAME": 0,
    "DELETE_GLOBAL": 0,
    "DELETE_ATTR": 0,
    "IMPORT_NAME": 0,
    "IMPORT_FROM": 0,
}

_ops = [each.opname for each in dis.get_instructions(compile("f(x)(y)", "probe", "eval"))]
#: does the NULL of a call come before what is called? until 3.12
null_is_first = _ops.index("PUSH_NULL") < _ops.index("LOAD_NAME")

_PROBE = """
def probe(x, y):
    global made
    import a.b as c
    from d import e
    made = f(x)
    del made
    z = [g.h for i in x for x in y if i.j(l.m(x))]
    class K(n.o):
        p: q = r
        def s(self: t):
            return super().u(v, self.w)
    z.aa = bb.cc[dd:ee]
    del z.ff
    return z
"""


@functools.cache
def knows_bytecode() -> bool:
    """Is the bytecode of this interpreter read right: as its own disassembler reads it, and do we know all that names?

    Where it is not, no function is followed, and what following would have carried is refused by name.
    """
    names = {dis.opname[op] for op in dis.hasname if op < 256}
    if sys.implementation.name != "cpython" or not names <= NAMING.keys():
        return False
    codes = [compile(_PROBE, "probe", "exec")]
    for code in codes:
        codes += [part for part in code.co_consts if hasattr(part, "co_code")]
        found = {each.offset: each for each in dis.get_instructions(code)}
        for at in range(0, len(code.co_code), 2):
            if (code.co_code[at] != CACHE) != (at in found):
                return False
        for each in found.values():
            if each.opname in names and code.co_names[each.arg >> NAMING[each.opname] :][:1] != (each.argval,):
                return False
    return True


def is_assignment_code(code: bytes, at: int) -> bool:
    """Is the instruction at this place an assignment to an element or a slice?"""
    return dis.opname[code[at]] in ("STORE_SUBSCR", "STORE_SLICE")


def is_attribute_assignment_code(code: bytes, at: int) -> bool:
    """Is the instruction at this place an assignment to an attribute?"""
    return dis.opname[code[at]] == "STORE_ATTR"


def is_operator_code(code: bytes, at: int) -> bool:
    """Is the instruction at this place a binary operator?  From 3.14 on a subscript is a BINARY_OP too, of code 26."""
    return dis.opname[code[at]] == "BINARY_OP" and code[at + 1] < _OPERATORS


_OPERATORS = 26  # + & // << @ * % | ** >> - / ^, and each in place: the same numbers since 3.11
