"""Detects features of the installed Python, NumPy and SciPy, by behaviour and never by version number.

Comments name the first release that has a feature. Branches for older ones go once that release is the oldest
supported.
"""

import dis
import functools
import importlib
import inspect
import itertools
import sys
import types
import warnings

import numpy as np

# ---- NumPy

has_astype = hasattr(np, "astype")  # 2.1
has_unstack = hasattr(np, "unstack")  # 2.1
has_cumulative = hasattr(np, "cumulative_sum")  # 2.1, and cumulative_prod
fix = (np.fix,) if hasattr(np, "fix") else ()  # deprecated in 2.5
has_matvec = hasattr(np, "matvec")  # 2.2, and vecmat


def is_masked_array(cls: type) -> bool:
    """Return whether a class is `numpy.ma.MaskedArray`, without importing `numpy.ma`, which is slow."""
    module = sys.modules.get("numpy.ma")
    return module is not None and issubclass(cls, module.MaskedArray)


@functools.cache
def eig_is_complex() -> bool:
    """Return whether eigenvalues of a real matrix are complex numbers even if all of them are real."""
    return np.linalg.eigvals(np.eye(1)).dtype.kind == "c"


@functools.cache
def cond_is_real() -> bool:
    """Return whether the condition number of a complex matrix is real in every norm (since NumPy 2.3.3)."""
    return np.linalg.cond(np.ones((1, 1), complex), 1).dtype.kind == "f"


#: Python functions with the parameters of these C functions, which `inspect` reads slowly, and only since NumPy 2.4
_WRITTEN_AS = {
    np.bincount: lambda x, /, weights=None, minlength=0: None,
    np.concatenate: lambda arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind": None,
    np.copyto: lambda dst, src, casting="same_kind", where=True: None,
    np.dot: lambda a, b, out=None: None,
    np.lexsort: lambda keys, axis=-1: None,
    np.putmask: lambda a, /, mask, values: None,
    np.where: lambda condition, x=None, y=None, /: None,
}


#: whether `inspect` finds the parameters of ufuncs: since NumPy 2.4
has_ufunc_signatures = "__signature__" in vars(np.ufunc)


@functools.cache
def parameters_of(fun):
    """Return the parameters of a function, or None if `inspect` cannot determine them.

    This is a Python function because Cython functions have no frame: an observer of calls would attribute the call of
    `inspect` to the user's code. For the same reason it returns plain attributes, which `inspect` has as properties.
    """
    if type(fun) is np.ufunc and fun.signature is None:
        return _parameters_of_ufunc(fun.nin, fun.nout) if has_ufunc_signatures else None
    written = _WRITTEN_AS.get(fun) or _in_python(fun)
    if written is not None:
        return _parameters_in_python(written)
    try:
        found = inspect.signature(fun).parameters.values()
    except (ValueError, TypeError):
        return None
    return [Parameter(each.name, each.kind.name, each.default) for each in found]


@functools.cache
def _parameters_of_ufunc(nin, nout):
    """Return the parameters of a ufunc without a signature, for which `inspect` takes 0.1 ms."""
    names = ("x",) if nin == 1 else [f"x{i}" for i in range(1, nin + 1)]
    found = [Parameter(name, "POSITIONAL_ONLY", inspect.Parameter.empty) for name in names]
    found.append(Parameter("out", "POSITIONAL_OR_KEYWORD", None if nout == 1 else (None,) * nout))
    return found + [Parameter(name, "KEYWORD_ONLY", default) for name, default in _KEYWORDS_OF_UFUNCS.items()]


_KEYWORDS_OF_UFUNCS = {
    "where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True, "signature": None,
}  # fmt: skip


def _in_python(fun):
    """Unwrap `fun` to the Python function that defines its parameters; None if `inspect` must determine them."""
    while "__wrapped__" in getattr(fun, "__dict__", ()) and "__signature__" not in fun.__dict__:
        fun = fun.__wrapped__
    return fun if type(fun) is types.FunctionType and "__signature__" not in fun.__dict__ else None


def _parameters_in_python(fun):
    """Return the parameters of a Python function from its code object; `inspect` takes 0.1 ms."""
    code, given, named = fun.__code__, fun.__defaults__ or (), fun.__kwdefaults__ or {}
    count, first, flags = code.co_argcount, code.co_argcount - len(given), code.co_flags
    names, empty = code.co_varnames, inspect.Parameter.empty
    found = []
    for i, name in enumerate(names[:count]):
        kind = "POSITIONAL_ONLY" if i < code.co_posonlyargcount else "POSITIONAL_OR_KEYWORD"
        found.append(Parameter(name, kind, given[i - first] if i >= first else empty))
    last = count + code.co_kwonlyargcount
    if flags & inspect.CO_VARARGS:
        found.append(Parameter(names[last], "VAR_POSITIONAL", empty))
    found += [Parameter(name, "KEYWORD_ONLY", named.get(name, empty)) for name in names[count:last]]
    if flags & inspect.CO_VARKEYWORDS:
        found.append(Parameter(names[last + bool(flags & inspect.CO_VARARGS)], "VAR_KEYWORD", empty))
    return found


class Parameter:
    """Name, kind and default of a parameter, as in `inspect.Parameter`; the kind as a string."""

    __slots__ = ("default", "kind", "name")

    def __init__(self, name: str, kind: str, default: object):
        self.name, self.kind, self.default = name, kind, default


class _Entered:
    """Replaces NumPy's context variable by `numpy.errstate`; unlike the variable, a signal may interrupt it midway."""

    @staticmethod
    def set(errstate):
        errstate.__enter__()
        return errstate

    @staticmethod
    def reset(errstate):
        errstate.__exit__(None, None, None)


try:  # 2.0; private, so it may disappear
    from numpy._core.umath import _extobj_contextvar as float_errors
    from numpy._core.umath import _make_extobj as float_errors_with
except ImportError:
    float_errors, float_errors_with = _Entered, np.errstate


def quietly(f, *arguments):
    """Call f without floating-point warnings or errors; takes less time than a block of `numpy.errstate`."""
    token = float_errors.set(float_errors_with(all="ignore"))
    try:
        return f(*arguments)
    finally:
        float_errors.reset(token)


#: the ufunc behind `numpy.clip`; it is private, but passed to ``__array_ufunc__``
clip_ufunc = getattr(np._core.umath, "clip", None)


def array_methods() -> dict:
    """Return a dict from names of array methods to NumPy's Python functions that implement them by calling ufuncs."""
    from numpy._core import _methods  # private, but `ndarray` imports it by this name

    names = {name: f"_{name}" for name in "sum prod any all mean var std clip".split()}
    names |= {"max": "_amax", "min": "_amin"}
    return {name: getattr(_methods, own) for name, own in names.items()}


# ---- SciPy


@functools.cache
def modfresnelp_sign() -> str:
    """Return "p", or "m" if ``scipy.special.modfresnelp`` computes ``modfresnelm``, as it does until SciPy 1.13."""
    from scipy.special import modfresnelp

    return "p" if modfresnelp(0.5)[0].imag > 0 else "m"


#: whether the operator ** takes shortcuts for the exponents -1, 0.5 and 2 that `numpy.power` lacks, as in NumPy 2.0:
#: the power of -inf is inf, its square root NaN
with np.errstate(invalid="ignore"):
    power_is_operator_only = bool(np.isinf(np.power(np.array([-np.inf]), 0.5)[0]))

# ---- Python types


def is_made_in_python(cls: type) -> bool:
    """Return whether a class was created by a class statement or an equivalent call.

    A class made in C has slot descriptors of its own. The heap flag does not suffice: since 3.12 C types have it too.
    """
    space = vars(cls)
    return "__firstlineno__" in space or (  # since 3.13, of a class statement
        bool(cls.__flags__ & _ON_HEAP)
        and not any(type(value) in _MADE_IN_C and value.__objclass__ is cls for value in space.values())
    )


def home_of(cls: type) -> str:
    """Return the module of a class.

    A class statement run by `exec` in a namespace without ``__name__`` sets it to the module of the built-in types.
    """
    module = cls.__module__
    return "__main__" if module == "builtins" and cls is not object and is_made_in_python(cls) else module


_ON_HEAP = 1 << 9
_MADE_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType)


#: code that finds and loads a module on its first import; private, so it may disappear
import_code = getattr(getattr(importlib._bootstrap, "_find_and_load", None), "__code__", None)

#: code that shows a warning: it reads the source line and writes to a file. None if `warnings` is structured
#: differently
warning_code = getattr(getattr(warnings, "_showwarnmsg", None), "__code__", None)

# ---- Python bytecode

CACHE = 0  # inline cache of the preceding instruction, skipped in decoding

#: opcodes whose argument holds an index into the names of a code object, with the number of bits below that index;
#: opcodes from 256 on are internal to the bytecode compiler and occur in no code object
NAMING = {
    **dict.fromkeys("LOAD_NAME STORE_NAME STORE_GLOBAL STORE_ATTR DELETE_NAME DELETE_GLOBAL DELETE_ATTR".split(), 0),
    **dict.fromkeys(("IMPORT_NAME", "IMPORT_FROM"), 0),
    "LOAD_GLOBAL": 1,
    "LOAD_FROM_DICT_OR_GLOBALS": 0,  # 3.12
    "LOAD_ATTR": int(dis.opmap.get("LOAD_METHOD", 256) > 255),  # 3.12: the lowest bit requests a method
    "LOAD_METHOD": 0,  # until 3.11
    "LOAD_SUPER_ATTR": 2,  # 3.12
}

_opcodes = compile("f(x)(y)", "probe", "eval").co_code[::2]
#: whether PUSH_NULL precedes the load of the callee (until 3.12)
null_is_first = _opcodes.index(dis.opmap["PUSH_NULL"]) < _opcodes.index(dis.opmap["LOAD_NAME"])

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


#: bytecode magic numbers of CPython 3.11, 3.12 and 3.13: `decodes_probe`, which takes 3 ms, is known to hold for them
_KNOWN_BYTECODE = {3495, 3531, 3571}


@functools.cache
def knows_bytecode() -> bool:
    """Return whether this module decodes the interpreter's bytecode correctly.

    Otherwise no function is analysed, and features that need the analysis raise.
    """
    loader = getattr(importlib, "_bootstrap_external", None)  # `importlib.util` has the number too, and takes 0.3 ms
    magic = int.from_bytes(getattr(loader, "MAGIC_NUMBER", b"")[:2], "little")
    return sys.implementation.name == "cpython" and (magic in _KNOWN_BYTECODE or decodes_probe())


def decodes_probe() -> bool:
    """Return whether decoding agrees with `dis` on a probe function, and `NAMING` lists all opcodes with names."""
    names = {dis.opname[op] for op in dis.hasname if op < 256}
    if not names <= NAMING.keys():
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


def compares_names(f, is_replaced) -> bool:
    """Return whether a function compares by ``is``, ``==`` or ``in`` with a global that is replaced or a NumPy name."""
    steps = list(dis.get_instructions(f.__code__)) if hasattr(f, "__code__") else []
    for before, step in itertools.pairwise(steps):
        if step.opname in ("IS_OP", "CONTAINS_OP", "COMPARE_OP"):
            is_attribute = before.opname == "LOAD_ATTR" and callable(getattr(np, before.argval, None))
            if is_attribute or before.opname in ("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET"):
                return True
            if before.opname == "LOAD_GLOBAL" and is_replaced(f.__globals__.get(before.argval)):
                return True
    return False


def is_assignment_code(code: bytes, at: int) -> bool:
    """Return whether the instruction at offset `at` assigns to an element or a slice."""
    return dis.opname[code[at]] in ("STORE_SUBSCR", "STORE_SLICE")


def is_attribute_assignment_code(code: bytes, at: int) -> bool:
    """Return whether the instruction at offset `at` assigns to an attribute."""
    return dis.opname[code[at]] == "STORE_ATTR"


def is_operator_code(code: bytes, at: int) -> bool:
    """Return whether the instruction at `at` is a binary operator; since 3.14 a subscript is BINARY_OP 26."""
    return dis.opname[code[at]] == "BINARY_OP" and code[at + 1] < _OPERATORS


def takes_operands(code: bytes, at: int) -> bool:
    """Return whether the instruction at `at` is a binary operator or a comparison."""
    return is_operator_code(code, at) or dis.opname[code[at]] == "COMPARE_OP"


def is_remainder_code(code: bytes, at: int) -> bool:
    """Return whether the instruction at `at` is the operator ``%`` or ``%=``."""
    return is_operator_code(code, at) and code[at + 1] in _REMAINDERS


_REMAINDERS = (6, 19)  # arguments of BINARY_OP for % and %=, unchanged since 3.11
_OPERATORS = 26  # number of operators: + & // << @ * % | ** >> - / ^ and their in-place forms, unchanged since 3.11


@functools.cache
def has_mirrors() -> bool:
    """Return whether SciPy's Python code has the form that mirrors of its modules copy (since 1.17)."""
    import importlib.util

    return importlib.util.find_spec("scipy._lib._array_api_override") is not None


def lapack_loop(name):
    """Return the ufunc of LAPACK calls that a function of `numpy.linalg` wraps, or None; NumPy's module is private."""
    return getattr(_umath_linalg, name, None)


_umath_linalg = getattr(np.linalg, "_umath_linalg", None)
