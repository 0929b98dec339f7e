# cython: language_level=3
"""Finds the arguments of a function that its code may write into, by abstract interpretation of the bytecode.

A derivative passes copies of these arrays that can hold traced values, so that the caller's arrays stay as they were.

Method.  Each value on the stack and in a local variable has a mask of the arguments whose memory it may share and, if
it is a function, the name or code by which it was loaded.  Instructions are read in order, and again while the values
at the target of a jump change.  A store into an item, an in-place operator, `out=`, and functions and methods that
write into their arguments mark the arguments in the mask of the target.  Python functions that f calls by name are
read in the same way.

Limits.  An argument that is marked needlessly is copied needlessly.  One that is missed is passed as it is, and a store
of a traced value into it raises.  Stores in exception handlers, through attributes of objects, and in functions that
are not called by name are missed.
"""

import builtins
import dis
import functools
import types
import weakref

import numpy as np

from wengert.core.rebind.follow import is_followed_function
from wengert.core.rebind.rename import decode, forget
from wengert.features import null_is_first

_ROUNDS = 8  # limit on the passes over code with loops; the result may not have converged by then
_MAX_DEPTH = 12  # maximum depth of calls that are read
_NONE = (0, None)

#: attributes that share no memory with their array; attributes and methods whose result may; and other methods
_APART = {"shape", "size", "ndim", "dtype", "nbytes", "itemsize", "strides", "flags"}
_VIEWS = {"T", "mT", "flat", "base", "real", "imag", "view", "reshape", "ravel", "transpose", "swapaxes", "squeeze",
          "diagonal", "data", "getfield"}
_OWN_METHODS = {name for name in dir(np.ndarray) if not name.startswith("_")} - _VIEWS
#: functions of NumPy whose result may share memory with their arguments
_VIEWING = _VIEWS | {
    "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite", "require",
    "moveaxis", "rollaxis", "expand_dims", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_to", "permute_dims",
    "broadcast_arrays", "split", "array_split", "hsplit", "vsplit", "dsplit", "unstack", "as_strided", "array",
    "sliding_window_view", "nditer", "ndenumerate", "matrix_transpose", "rot90", "flip", "flipud", "fliplr", "diag",
    "nan_to_num", "trim_zeros", "astype",
}
_ITERATORS = {"list", "tuple", "zip", "enumerate", "iter", "next", "reversed", "sorted", "map", "filter", "dict", "set",
              "getattr", "slice", "vars"}
#: functions that write into their first argument, and methods that write into their object
_WRITING = {"copyto", "put", "place", "putmask", "put_along_axis", "fill_diagonal", "at", "shuffle"}
_WRITING_METHODS = {"fill", "sort", "put", "partition", "itemset", "resize", "setfield", "byteswap", "clear", "update"}
_OPERATORS = [sign for _, sign in dis._nb_ops]  # of BINARY_OP
_IN_PLACE = {i for i, sign in enumerate(_OPERATORS) if sign.endswith("=")}
_SUBSCRIPT = _OPERATORS.index("[]") if "[]" in _OPERATORS else -1
_LEAVES = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
           "JUMP_BACKWARD_NO_INTERRUPT"}
_POPPING = "POP_", "END_FOR", "END_SEND"
_FRESH = {"COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "UNARY_POSITIVE",
          "TO_BOOL", "FORMAT_VALUE", "FORMAT_SIMPLE", "BUILD_STRING", "IMPORT_NAME", "IMPORT_FROM", "BUILD_SLICE",
          "LOAD_SMALL_INT", "LOAD_BUILD_CLASS", "LOAD_COMMON_CONSTANT"}
cdef list _NAMES = [*dis.opname]
cdef set _JUMPS = {op for op in (*dis.hasjrel, *dis.hasjabs) if op < 256}
#: code without any of these cannot write into an argument
_ACTING = {op for name, op in dis.opmap.items() if name.startswith(("CALL", "STORE_SUBSCR", "STORE_SLICE"))}
_ACTING.add(dis.opmap["BINARY_OP"])

_known: dict = {}  # id of a function -> weak reference to it, its code, and the result


def written_parameters(f):
    """Return the indices in `co_varnames` of the parameters into which a Python function may write.

    The names that it calls are looked up at the first call only.
    """
    code = f.__code__
    known = _known.get(id(f))
    if known is None or known[1] is not code:
        mask = _written(f, {}, 0)[0] if _parameter_count(code) > 1 else 0
        ref = weakref.ref(f, functools.partial(forget, _known, id(f)))
        known = _known[id(f)] = ref, code, tuple(i for i in range(_parameter_count(code)) if mask >> i & 1)
    return known[2]


def _parameter_count(code):
    kinds = bool(code.co_flags & 4) + bool(code.co_flags & 8)  # *args and **kwargs
    return code.co_argcount + code.co_kwonlyargcount + kinds


def _written(f, known, depth):
    """Return masks of the parameters that f may write into, and of those whose memory its result may share."""
    code = f.__code__
    if code not in known:
        known[code] = 0, (1 << _parameter_count(code)) - 1  # for recursive calls
        if depth < _MAX_DEPTH and not _ACTING.isdisjoint(code.co_code[::2]):
            cells = {name: (0, ("cell", name)) for name in code.co_freevars}
            reader = _Reader(f, code, known, depth, cells)
            known[code] = reader.run()
    return known[code]


cdef class _Reader:
    """Reads one code object; `cells` gives the values of its free variables."""

    cdef object f, code, keywords, written, returned
    cdef dict known, held, cells
    cdef list names, stack
    cdef int depth

    def __init__(self, f, code, dict known, int depth, cells):
        self.f, self.code, self.known, self.depth = f, code, known, depth
        cells_only = [n for n in code.co_cellvars if n not in code.co_varnames]
        self.names = [*code.co_varnames, *cells_only, *code.co_freevars]
        self.held = {i: (1 << i, None) for i in range(_parameter_count(code))}
        self.cells = {name: cells[name] for name in code.co_freevars if name in cells}
        if f.__code__ is not code:  # nested: its own parameters are not those of f
            self.held = dict.fromkeys(self.held, _NONE)
        self.stack, self.keywords = [], ()
        self.written = self.returned = 0

    def run(self):
        """Return the masks of the parameters that may be written and of the parameters that may be returned."""
        steps, waiting, first = decode(self.code), {}, self.held
        for _ in range(_ROUNDS):
            before, self.held = (dict(waiting), self.written), first
            self.pass_over(steps, waiting)
            if before == (waiting, self.written):
                break
        return self.written, self.returned

    cdef int pass_over(self, list steps, dict waiting) except -1:
        """Read all instructions once; `waiting` holds the values at the targets of jumps."""
        cdef Py_ssize_t i, count = len(steps), size = len(self.code.co_code), end
        cdef bint is_reached = True
        cdef int op
        self.stack = []
        starts = [offset - width // 4 + 2 for offset, _, _, width in steps]  # before prefixes of two bytes
        for i in range(count):
            _, op, arg, _ = steps[i]
            start = starts[i]
            if waiting and start in waiting:
                self.stack, self.held = _merged(waiting[start], (self.stack, self.held) if is_reached else None)
                is_reached = True
            if not is_reached:
                continue
            name = _NAMES[op]
            if op in _JUMPS:
                end = starts[i + 1] if i + 1 < count else size
                target = end + (-2 * arg if "BACKWARD" in name else 2 * arg)
                waiting[target] = _merged((self.after(op, arg, True), self.held), waiting.get(target))
            self.step(name, op, arg)
            is_reached = name not in _LEAVES
        return 0

    cdef list after(self, int op, arg, bint jumps):
        """Return the stack after an instruction of which only the effect on the stack's depth is known."""
        effect = dis.stack_effect(op, arg if op >= dis.HAVE_ARGUMENT else None, jump=jumps)
        if dis.opname[op].startswith(_POPPING):
            return self.stack[: len(self.stack) + effect]
        stack, mask = [*self.stack], 0
        if effect >= 0:
            return stack + [stack[-1] if stack else _NONE] * effect
        for _ in range(-effect):
            mask |= stack.pop()[0] if stack else 0
        if stack:
            stack[-1] = stack[-1][0] | mask, None
        return stack

    cdef int step(self, name, int op, arg) except -1:
        """Interpret one instruction."""
        run = _STEPS.get(name)
        if run is not None:
            run(self, name, arg)
            return 0
        self.stack = self.after(op, arg, False)
        if name in _FRESH and self.stack:
            self.stack[-1] = _NONE
        return 0

    cdef tuple pop(self):
        return self.stack.pop() if self.stack else _NONE

    cdef int push(self, mask, symbol=None) except -1:
        self.stack.append((mask, symbol))
        return 0

    cdef int load(self, int i) except -1:
        """Push a variable, by its index."""
        name = self.names[i]
        self.stack.append(self.cells[name] if name in self.cells else self.held.get(i, _NONE))
        return 0

    cdef int store(self, int i, value) except -1:
        self.held = {**self.held, i: value}
        return 0

    def call(self, arguments, keywords):
        """Push the result of a call; the function and the object of a method are below the arguments."""
        given = self.stack[len(self.stack) - arguments :] if arguments else []
        del self.stack[len(self.stack) - arguments :]
        first, second = self.pop(), self.pop()
        symbol = first[1] or second[1]
        owner = 0 if first[1] and second[1] else first[0] | second[0]
        masks = [mask for mask, _ in given]
        if owner and symbol and symbol[0] != "method":  # the first argument is where a method's object would be
            masks, owner = [owner, *masks], 0
        count = len(masks) - len(keywords)
        self.push(self.result(symbol, owner, masks[:count], dict(zip(keywords, masks[count:]))), None)

    def result(self, symbol, owner, masks, words):
        """Mark what a call writes into, and return the mask of its result."""
        together = owner
        for mask in (*masks, *words.values()):
            together |= mask
        kind, *path = symbol or (None,)
        if kind == "method":
            return self.method(path[0], owner, together, words)
        if kind == "code":
            self.nested(path[0], masks, words)
            return together
        value, last = self.resolved(kind, path)
        if isinstance(value, types.FunctionType) and is_followed_function(value):
            return self.function(value, masks, words, together)
        return self.foreign(value, last, masks, words, together)

    def nested(self, code, masks=(), words=None):
        """Mark what a call of a function made by this code writes into."""
        if self.depth >= _MAX_DEPTH:
            return
        cells = {name: self.load_cell(name) for name in code.co_freevars}
        reader = _Reader(self.f, code, self.known, self.depth + 1, cells)
        for i, mask in _parameters(code, masks, words or {}):
            reader.held[i] = reader.held.get(i, _NONE)[0] | mask, None
        self.written |= reader.run()[0]

    def method(self, name, owner, together, words):
        self.written |= words.get("out", 0)
        if name in _WRITING_METHODS:
            self.written |= owner
        if name in _WRITING:
            self.written |= together
        return words.get("out", 0) if name in _OWN_METHODS else together

    def function(self, f, masks, words, together):
        """Mark what a call of a followed Python function writes into, and return the mask of its result."""
        code = f.__code__
        written, returned = _written(f, self.known, self.depth + 1)
        given = 0
        for i, mask in _parameters(code, masks, words):
            self.written |= mask if written >> i & 1 else 0
            given |= mask if returned >> i & 1 else 0
        return given

    def foreign(self, value, last, masks, words, together):
        """Mark what a call of a NumPy, built-in or unknown function writes into, and return the mask of its result."""
        out = words.get("out", 0)
        if isinstance(value, np.ufunc) and last == value.__name__:
            for mask in masks[value.nin :]:
                out |= mask
        self.written |= out
        if last in _WRITING and masks:
            self.written |= masks[0]
        home = value if isinstance(value, type) else type(value)
        is_known = value is not None and home.__module__ in ("builtins", "numpy")
        return out if is_known and last not in _VIEWING and last not in _ITERATORS else together

    def resolved(self, kind, path):
        """The object that a chain of names leads to, or None, and the last name."""
        if kind == "cell":
            cells = dict(zip(self.f.__code__.co_freevars, self.f.__closure__ or ()))
            try:
                value = cells[path[0]].cell_contents
            except (KeyError, ValueError):
                return None, path[0]
        elif kind == "global":
            value = self.f.__globals__.get(path[0], vars(builtins).get(path[0]))
        else:
            return None, None
        for name in path[1:]:
            if isinstance(value, types.ModuleType):
                value = vars(value).get(name)
            elif not isinstance(value, np.ufunc):
                return None, None
        return value, path[-1]

    def load_cell(self, name):
        if name in self.cells:
            return self.cells[name]
        return self.held.get(self.names.index(name), _NONE) if name in self.names else _NONE


def _parameters(code, masks, words):
    """Pairs of the index of a parameter and the mask of an argument."""
    rest = code.co_argcount + code.co_kwonlyargcount
    last = rest + bool(code.co_flags & 4)
    names = code.co_varnames[:rest]
    for i, mask in enumerate(masks):
        yield (i if i < code.co_argcount else rest), mask
    for name, mask in words.items():
        yield (names.index(name) if name in names else last), mask


def _merged(a, b):
    """Union of two states, each a stack and a dict of variables."""
    stack, held = a
    if b is None:
        return [*stack], dict(held)
    depth = min(len(stack), len(b[0]))
    joined = [_union(x, y) for x, y in zip(stack[:depth], b[0][:depth])]
    return joined, {i: _union(held.get(i, _NONE), b[1].get(i, _NONE)) for i in held.keys() | b[1].keys()}


def _union(x, y):
    return x[0] | y[0], x[1] if x[1] == y[1] else None


# Instructions -----------------------------------------------------------------------------------------------


def _on_load(_Reader self, name, arg):
    self.load(arg)


def _on_load_pair(_Reader self, name, arg):
    self.load(arg >> 4)
    self.load(arg & 15)


def _on_store(_Reader self, name, arg):
    self.store(arg, self.pop())


def _on_store_pair(_Reader self, name, arg):
    self.store(arg >> 4, self.pop())
    self.store(arg & 15, self.pop())


def _on_store_load(_Reader self, name, arg):
    self.store(arg >> 4, self.pop())
    self.load(arg & 15)


def _on_constant(_Reader self, name, arg):
    value = self.code.co_consts[arg]
    kind = "code" if type(value) is types.CodeType else "names" if type(value) is tuple else None
    self.push(0, kind and (kind, value))


def _on_global(_Reader self, name, arg):
    index = arg >> 1 if name == "LOAD_GLOBAL" else arg
    found = [(0, ("global", self.code.co_names[index]))]
    if name == "LOAD_GLOBAL" and arg & 1:
        found.insert(0 if null_is_first else 1, _NONE)
    self.stack += found


def _on_attribute(_Reader self, name, arg):
    is_flagged = dis.stack_effect(dis.opmap["LOAD_ATTR"], 1) == 1
    is_method = name == "LOAD_METHOD" or (is_flagged and arg & 1)
    attribute = self.code.co_names[arg >> 1 if name == "LOAD_ATTR" and is_flagged else arg]
    mask, symbol = self.pop()
    if symbol is not None and symbol[0] in ("global", "cell"):
        self.push(mask, (*symbol, attribute))
        if is_method:
            self.push(0)
    elif is_method:
        self.push(0, ("method", attribute))
        self.push(mask)
    else:
        self.push(0 if attribute in _APART else mask)


def _on_subscript(_Reader self, name, arg):
    count = 2 if name == "BINARY_SLICE" else 1
    for _ in range(count):
        self.pop()
    self.push(self.pop()[0])


def _on_store_subscript(_Reader self, name, arg):
    for _ in range(2 if name == "STORE_SLICE" else 1):
        self.pop()
    self.written |= self.pop()[0]
    self.pop()


def _on_binary(_Reader self, name, arg):
    if arg == _SUBSCRIPT:
        _on_subscript(self, name, arg)
        return
    self.pop()
    mask = self.pop()[0]
    if arg in _IN_PLACE:
        self.written |= mask
    self.push(mask if arg in _IN_PLACE else 0)


def _on_swap(_Reader self, name, arg):
    if len(self.stack) >= arg:
        self.stack[-1], self.stack[-arg] = self.stack[-arg], self.stack[-1]


def _on_copy(_Reader self, name, arg):
    self.stack.append(self.stack[-arg] if len(self.stack) >= arg else _NONE)


def _on_keywords(_Reader self, name, arg):
    self.keywords = self.code.co_consts[arg]


def _on_call(_Reader self, name, arg):
    keywords, self.keywords = self.keywords, ()
    self.call(arg, keywords)


def _on_call_keywords(_Reader self, name, arg):
    symbol = self.pop()[1]
    self.call(arg, symbol[1] if symbol and symbol[0] == "names" else ())


def _on_call_unpacking(_Reader self, name, arg):
    """A call with `*` or `**`, which may pass any of the values to any parameter."""
    mask = self.pop()[0] | (self.pop()[0] if arg & 1 or not _has_flag_for_words else 0)
    first, second = self.pop(), self.pop()
    symbol = first[1] or second[1]
    value = self.resolved(symbol[0], symbol[1:])[0] if symbol and symbol[0] in ("global", "cell") else None
    if isinstance(value, types.FunctionType) and is_followed_function(value):
        self.written |= mask if _written(value, self.known, self.depth + 1)[0] else 0
    self.push(mask)


def _on_make(_Reader self, name, arg):
    code = self.pop()
    if dis.stack_effect(dis.opmap["MAKE_FUNCTION"], 1 if dis.opmap["MAKE_FUNCTION"] >= dis.HAVE_ARGUMENT else None):
        for _ in range((arg or 0).bit_count()):
            self.pop()
    if code[1]:  # it may be passed on and called elsewhere
        self.nested(code[1][1])
    self.stack.append(code)


def _on_attribute_of_function(_Reader self, name, arg):
    function = self.pop()
    self.pop()
    self.stack.append(function)


def _on_unpack(_Reader self, name, arg):
    self.stack += [(self.pop()[0], None)] * arg


def _on_build(_Reader self, name, arg):
    mask = 0
    for _ in range(2 * arg if name == "BUILD_MAP" else arg):
        mask |= self.pop()[0]
    self.push(mask)


def _on_iterate(_Reader self, name, arg):
    self.push(self.stack[-1][0] if self.stack else 0)


def _on_return(_Reader self, name, arg):
    self.returned |= self.pop()[0]


def _on_nothing(_Reader self, name, arg):
    pass


def _on_null(_Reader self, name, arg):
    self.push(0)


_has_flag_for_words = dis.stack_effect(dis.opmap["CALL_FUNCTION_EX"], 1) != dis.stack_effect(
    dis.opmap["CALL_FUNCTION_EX"], 0
)
cdef dict _STEPS = {
    name: run
    for run, names in {
        _on_load: "LOAD_FAST LOAD_FAST_CHECK LOAD_FAST_BORROW LOAD_FAST_AND_CLEAR LOAD_DEREF LOAD_CLOSURE",
        _on_load_pair: "LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        _on_store: "STORE_FAST STORE_DEREF",
        _on_store_pair: "STORE_FAST_STORE_FAST",
        _on_store_load: "STORE_FAST_LOAD_FAST",
        _on_constant: "LOAD_CONST LOAD_CONST_IMMORTAL",
        _on_global: "LOAD_GLOBAL LOAD_NAME",
        _on_attribute: "LOAD_ATTR LOAD_METHOD",
        _on_subscript: "BINARY_SUBSCR BINARY_SLICE",
        _on_store_subscript: "STORE_SUBSCR STORE_SLICE",
        _on_binary: "BINARY_OP",
        _on_swap: "SWAP",
        _on_copy: "COPY",
        _on_keywords: "KW_NAMES",
        _on_call: "CALL",
        _on_call_keywords: "CALL_KW",
        _on_call_unpacking: "CALL_FUNCTION_EX",
        _on_make: "MAKE_FUNCTION",
        _on_attribute_of_function: "SET_FUNCTION_ATTRIBUTE",
        _on_unpack: "UNPACK_SEQUENCE",
        _on_build: "BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP",
        _on_iterate: "FOR_ITER",
        _on_return: "RETURN_VALUE",
        _on_nothing: "GET_ITER PRECALL RESUME COPY_FREE_VARS MAKE_CELL NOP CACHE NOT_TAKEN",
        _on_null: "PUSH_NULL",
    }.items()
    for name in names.split()
}
