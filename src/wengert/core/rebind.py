"""Functions run with NumPy's names renamed, so that `np.zeros(n)` in plain code can hold traced numbers.

Idea.  A function is copied with another code object, in which each name that *holds* a registered object
(by identity: the module numpy, numpy.zeros, a ufunc) has become a private name that holds its replacement.
Private names live in `builtins` (imports: in `sys.modules`), where a global name is looked up last.
Functions reached by a global name or a closure cell are followed: replaced by copies of their own.  Methods
are reached by attribute, so an object is replaced by its *twin*: an instance, sharing `__dict__`, of a
subclass whose methods are copies.

Invariants
- Of the bytecode only the name index of LOAD_GLOBAL, LOAD_NAME, LOAD_FROM_DICT_OR_GLOBALS and IMPORT_NAME
  changes, within the width it has; new names are appended.  Offsets, lines, constants and cells keep their
  place.
- Globals, defaults, `__dict__` and every cell that holds nothing renamed are f's own: reads are live, writes
  land.  A name or a cell that the code itself assigns is never renamed.
- A copy is used while all that was looked at to make it is unchanged: what names and cells hold, code and
  defaults of followed functions, methods of followed classes.  Otherwise it is made anew.
- No user object is written to, and none is kept alive: the tables have weak keys, and the plans that may
  reach their own key (those with twin classes or of namespaces made by `exec`) are bounded in number.

Given up.  Not followed: other packages, C functions, defaults, classes in cells, functions fetched at run
time from a dict, from a module's or an object's attributes or by `eval`.  No twins for objects whose state
is not all in `__dict__`, nor for classes with a metaclass (but ABCMeta), `__init_subclass__` or `__del__`.
`is`, identity hashes and `type(x) is C` tell twins and copies from originals.  A replaced cell is no longer
shared with functions that are not followed.  What a callee or another thread rebinds *during* a call is
seen at the next call.
"""

import abc
import builtins
import collections
import dis
import functools
import itertools
import sys
import threading
import types
import weakref

__all__ = ["rebound", "register"]

_BUILTINS = vars(builtins)
_OWN = __name__.partition(".")[0]
_PINNED = 256  # plans that may keep their own key alive

_registry = {}  # id(original) -> (original, replacement, private name)
_plans = {}  # id(function or class) -> _Plan
_codes = {}  # id(code) -> _Code
_aliases = weakref.WeakValueDictionary()  # id(followed object) -> _Alias
_twins = weakref.WeakValueDictionary()  # id(class) -> its twin
_pinned = collections.deque()
_lock = threading.RLock()
_number = itertools.count()
_packages = {_OWN}  # not followed: ourselves and the packages of registered modules

_op = {name: dis.opmap.get(name, -1) for name in (
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "IMPORT_NAME", "IMPORT_FROM", "EXTENDED_ARG",
    "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_ATTR", "LOAD_METHOD", "STORE_GLOBAL", "DELETE_GLOBAL", "STORE_NAME",
    "STORE_DEREF", "DELETE_DEREF", "STORE_FAST", "SWAP", "POP_TOP")}  # fmt: skip
_LOAD_GLOBAL, _IMPORT_NAME, _EXTENDED_ARG = _op["LOAD_GLOBAL"], _op["IMPORT_NAME"], _op["EXTENDED_ARG"]
_LOADS = {_op["LOAD_NAME"], _op["LOAD_FROM_DICT_OR_GLOBALS"]} - {-1}
_ATTRIBUTE = {_op["LOAD_ATTR"], _op["LOAD_METHOD"]}
_GLOBAL_STORES = {_op["STORE_GLOBAL"], _op["DELETE_GLOBAL"]}
_CELL_STORES = {_op["STORE_DEREF"], _op["DELETE_DEREF"]}
_IMPORT_TAIL = {_op[name] for name in (
    "IMPORT_FROM", "SWAP", "POP_TOP", "STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")}  # fmt: skip
# 3.15 packs flags into IMPORT_NAME's argument; a bytecode we have not read is left alone.
_KNOWN = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info < (3, 15)


class _TooWide(Exception):
    """A new name index does not fit the width of its instruction."""


class _Alias:
    """A private name in builtins; it lasts while a renamed code uses it and what it stands for lives."""

    __slots__ = ("__weakref__", "name", "ref")

    def __init__(self, value, name):
        self.name = _private(name)
        try:
            self.ref = weakref.ref(value, functools.partial(self.end, id(value), self.name))
        except TypeError:  # a staticmethod, held by a global name
            self.ref = lambda: value

    @staticmethod
    def end(key, name, _, forget=_aliases.pop, pop=_BUILTINS.pop):  # bound here: globals may be gone at exit
        forget(key, None)
        pop(name, None)

    def __del__(self, pop=_BUILTINS.pop):
        pop(self.name, None)


def _private(name):
    return f"_wengert_{next(_number)}_{name.replace('.', '_')}"


# Code objects -----------------------------------------------------------------------------------------------


def _decode(code):
    """Instructions of `code` as (offset, opcode, argument, width of the argument in bits), without caches."""
    raw, out, arg, width = code.co_code, [], 0, 8
    for i in range(0, len(raw), 2):
        op = raw[i]
        if op == 0:  # CACHE
            continue
        arg |= raw[i + 1]
        if op == _EXTENDED_ARG:
            arg, width = arg << 8, width + 8
            continue
        out.append((i, op, arg, width))
        arg, width = 0, 8
    return out


def _is_free(code, arg):
    """Name of the free variable that a cell instruction's argument means; None for a cell of its own."""
    plain = set(code.co_varnames)
    first = len(code.co_varnames) + sum(name not in plain for name in code.co_cellvars)
    return code.co_freevars[arg - first] if arg >= first else None


def _import_form(code, instructions, k):
    """Form of the import at instruction k: "from", "as" or "bare"; None where it must stay as it is."""

    def constant(instruction):
        _, op, arg, _ = instruction
        return code.co_consts[arg] if op == _op["LOAD_CONST"] else arg if op == _op["LOAD_SMALL_INT"] else ...

    if k < 2 or constant(instructions[k - 2]) != 0:  # a relative import
        return None
    fromlist = constant(instructions[k - 1])
    following = instructions[k + 1 :]
    form = "from" if fromlist else "as" if following[0][1] == _op["IMPORT_FROM"] else "bare"
    for _, op, arg, _ in following[:1] if form == "bare" else following:
        if op not in _IMPORT_TAIL:
            break
        # The replacement would stay in the user's namespace after the call.
        if op == _op["STORE_GLOBAL"] or (op == _op["STORE_DEREF"] and _is_free(code, arg)):
            return None
    return form


class _Code:
    """What a code object and those nested in it do with names, and its latest renamed copy."""

    __slots__ = ("assigned", "imports", "latest", "names", "ref", "written")

    def __init__(self, code):
        self.names, self.assigned, self.written, self.imports = set(), set(), set(), set()
        self.latest = (None, None)
        self.ref = weakref.ref(code, functools.partial(_forget, _codes, id(code)))
        self.read(code)

    def read(self, code):
        instructions = _decode(code)
        for k, (_, op, arg, _) in enumerate(instructions):
            if op == _LOAD_GLOBAL:
                self.names.add(code.co_names[arg >> 1])
            elif op in _LOADS:
                self.names.add(code.co_names[arg])
            elif op in _GLOBAL_STORES:
                self.assigned.add(code.co_names[arg])
            elif op in _CELL_STORES:
                self.written.add(_is_free(code, arg))
            elif op == _IMPORT_NAME and (form := _import_form(code, instructions, k)):
                self.imports.add((code.co_names[arg], form))
        for nested in code.co_consts:
            if type(nested) is types.CodeType:
                self.read(nested)
        self.names -= self.assigned


def _forget(table, key, _):
    table.pop(key, None)


def _read(code):
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = _Code(code)
    return known


def _rename(code, names, classes, imports, hidden=frozenset()):
    """`code` with `names` and `imports` renamed; names in `classes` only where they are called or read from.

    A class must stay itself in `isinstance`, `except` and comparisons.  `hidden` are names of a class body,
    which its annotation scopes see before globals.
    """
    raw, added, instructions = bytearray(code.co_code), {}, _decode(code)
    own = {code.co_names[arg] for _, op, arg, _ in instructions if op == _op["STORE_NAME"]}
    hidden = own | hidden
    for k, (i, op, arg, width) in enumerate(instructions):
        shift = 0
        if op == _LOAD_GLOBAL:
            shift = 1
            name = code.co_names[arg >> 1]
            alias = names.get(name)
            if name in classes and not (arg & 1 or instructions[k + 1][1] in _ATTRIBUTE):
                continue
        elif op in _LOADS:
            name = code.co_names[arg]
            alias = None if name in hidden or name in classes else names.get(name)
        elif op == _IMPORT_NAME:
            alias = imports.get((code.co_names[arg], _import_form(code, instructions, k)))
        else:
            continue
        if alias is None:
            continue
        arg = added.setdefault(alias, len(code.co_names) + len(added)) << shift | arg & shift
        if arg >> width:
            raise _TooWide
        for back in range(width // 8):
            raw[i + 1 - 2 * back] = arg >> 8 * back & 255
    consts = tuple(
        _rename(nested, names, classes, imports, own) if type(nested) is types.CodeType else nested
        for nested in code.co_consts
    )
    if not added and all(map(lambda a, b: a is b, consts, code.co_consts)):
        return code
    return code.replace(co_names=code.co_names + tuple(added), co_code=bytes(raw), co_consts=consts)


def _import_alias(dotted, form):
    """Private name of the module that an import of `dotted` in this form should give, or None."""
    top = dotted.partition(".")[0]
    # A submodule not loaded yet is loaded by the statement itself, so that must stay.
    if dotted not in sys.modules:
        return None
    known = _registry.get(id(sys.modules.get(top if form == "bare" else dotted)))
    if known is None or form != "as":
        return known and known[2]
    # `import a.b.c as m` takes attribute b of what is imported, and c of that: a chain of holders.
    alias, module = f"{known[2]}_as_{dotted.replace('.', '_')}", known[1]
    if alias not in sys.modules:
        for part in reversed(dotted.split(".")[1:]):
            holder = types.ModuleType(alias)
            setattr(holder, part, module)
            module = holder
        sys.modules[alias] = module
    return alias


# What is followed -------------------------------------------------------------------------------------------

_LRU = type(functools.lru_cache(abs))
_METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property, _LRU)
_KEPT = {types.ModuleType, types.BuiltinFunctionType, type(None), bool, int, float, complex, str}
_WRAPPERS = (functools.partial, types.MethodType, *_METHODS[1:])


class _Plain:
    pass


def _top(module):
    return module.partition(".")[0] if isinstance(module, str) else None


def _can_copy(f):
    return _KNOWN and f.__builtins__ is _BUILTINS and _top(f.__globals__.get("__name__")) not in _packages


def _can_twin(cls):
    """Whether all state of instances is in `__dict__` and a subclass can be made without side effects."""
    return (
        type(cls) in (type, abc.ABCMeta)
        and cls.__basicsize__ == _Plain.__basicsize__  # no slots, no built-in layout
        and cls.__dictoffset__ == _Plain.__dictoffset__
        and not isinstance(cls.__init_subclass__, types.MethodType)
        and not hasattr(cls, "__del__")
        and _top(cls.__module__) not in _packages
    )


def _py_func(value):
    """The Python function of a just-in-time compiled one (numba), or None; never runs a `__getattr__`."""
    kind = type(value)
    if getattr(kind, "__dictoffset__", 0) or any("py_func" in vars(base) for base in kind.__mro__):
        try:
            f = object.__getattribute__(value, "py_func")
        except (AttributeError, TypeError):
            return None
        return f if type(f) is types.FunctionType else None
    return None


def _is_followed(value, home):
    """Whether `value`, met in code of `home` = (top-level package, globals), may be replaced."""
    kind = type(value)
    if kind is types.FunctionType:
        top, namespace = home
        related = value.__globals__ is namespace or (top is not None and _top(value.__module__) == top)
        return related and _can_copy(value)
    if kind is _LRU:
        return type(value.__wrapped__) is types.FunctionType and _is_followed(value.__wrapped__, home)
    if kind in _WRAPPERS:
        return True
    if (f := _py_func(value)) is not None:
        return _is_followed(f, home)
    cls = value if isinstance(value, type) else kind
    return home[0] is not None and _top(cls.__module__) == home[0] and _can_twin(cls)


def _parts(value):
    """What `value` is made of and may have to be replaced in it."""
    kind = type(value)
    if kind is types.FunctionType:
        held = value.__globals__
        names = _read(value.__code__).names
        return [held[name] if name in held else _BUILTINS.get(name) for name in names] + _contents(value)
    if kind is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is types.MethodType:
        return [value.__func__, value.__self__]
    if kind in (staticmethod, classmethod):
        return [value.__func__]
    if kind is property:
        return [value.fget, value.fset, value.fdel]
    if kind is functools.cached_property:
        return [value.func]
    if kind is _LRU:
        return [value.__wrapped__]
    if isinstance(value, type):
        return [*value.__bases__, *(v for v in vars(value).values() if type(v) in _METHODS)]
    return [_py_func(value) or kind]


def _contents(f):
    """Contents of the cells of f; None for those that stay: empty, assigned by f, or holding a class."""
    held = []
    if f.__closure__:
        written = _read(f.__code__).written
        for name, cell in zip(f.__code__.co_freevars, f.__closure__):
            try:
                content = None if name in written else cell.cell_contents
            except ValueError:
                content = None
            held.append(None if isinstance(content, type) else content)
    return held


def _state(value):
    """Identities that decide how `value` is replaced."""
    held = _parts(value)
    if type(value) is types.FunctionType:
        held += value.__code__, value.__defaults__, value.__kwdefaults__
    elif not isinstance(value, type) and _can_twin(type(value)):
        held.append(vars(value))
    return [*map(id, held)]


# Plans ------------------------------------------------------------------------------------------------------


class _TwinType(type):
    """Class of twin classes: assignments and questions of kinship go to the original."""

    def __setattr__(cls, name, value):
        if name.startswith(("__", "_abc_")):  # ABCMeta's own bookkeeping on the new class
            type.__setattr__(cls, name, value)
        else:
            setattr(cls._wengert_original, name, value)

    def __delattr__(cls, name):
        delattr(cls._wengert_original, name)

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls._wengert_original)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, cls._wengert_original)


class _AbstractTwinType(_TwinType, abc.ABCMeta):
    pass


class _Plan:
    """How a function runs, or a class is replaced: what was looked at, and what becomes of it.

    `changed` maps the id of each object to be replaced to its renamed code (functions), its twin (classes) or
    True; `run` is that of the root.  `fixed` and `idents` are global names with what they held: itself where
    keeping it alive does no harm (comparing is faster), else its id.  `functions` and `others` are followed
    objects with their state.  The death of any of them ends the plan: no reused id is taken for an old one.
    """

    __slots__ = ("aliases", "anchor", "cells", "changed", "code", "copy", "fixed", "functions", "idents",
                 "is_loose", "others", "recipes", "refs", "run")  # fmt: skip

    def __init__(self, root):
        self.aliases, self.changed, self.recipes, self.copy = [], {}, {}, None
        nodes = self.explore(root)
        self.watch(root, nodes)
        for value in nodes:
            if type(value) is types.FunctionType and id(value) in self.changed:
                self.rename(value)
        fresh, memo = [], {}
        for value in nodes:
            if isinstance(value, type):
                self.twin_class(value, fresh)
        for cls in fresh:  # all twins exist now, so that methods may hold instances of any
            self.fill(cls, memo)
        for alias in self.aliases:
            _BUILTINS[alias.name] = self.build(alias.ref(), memo)
        self.run = self.changed.get(id(root))
        if type(root) is types.FunctionType and not root.__closure__:
            if self.run is root.__code__:
                self.run = None
            # Kept only where it can reach no more than a module does: it would keep its own key alive.
            elif self.run and _is_module(root.__globals__):
                self.copy = self.build(root, {})
        if any(isinstance(new, type) for new in self.changed.values()) or (
            self.aliases and not _is_module(root.__globals__)
        ):
            _pinned.append(id(root))
            while len(_pinned) > _PINNED:
                _plans.pop(_pinned.popleft(), None)

    def explore(self, root):
        """All objects reached from `root`; those that reach a registered one are entered in `changed`."""
        nodes, homes, users, seeds = [], {}, {}, []

        def enter(value, home):
            kind = type(value)
            if kind is types.FunctionType:
                home = (_top(value.__module__), value.__globals__)
            elif isinstance(value, type):
                home = (_top(value.__module__), None)
            elif kind is _LRU or (kind not in _WRAPPERS and _py_func(value)):
                seeds.append(id(value))  # the Python function runs instead, renamed or not
            homes[id(value)] = home
            nodes.append(value)

        if type(root) is not types.FunctionType or _can_copy(root):
            enter(root, None)
        for value in nodes:
            key, home = id(value), homes[id(value)]
            if type(value) is types.FunctionType and self.imports(value):
                seeds.append(key)
            for part in _parts(value):
                if id(part) in _registry:
                    seeds.append(key)
                    continue
                if id(part) not in homes:
                    if not _is_followed(part, home):
                        continue
                    enter(part, home)
                users.setdefault(id(part), []).append(key)
        while seeds:
            key = seeds.pop()
            if key not in self.changed:
                self.changed[key] = True
                seeds += users.get(key, ())
        return nodes

    @staticmethod
    def imports(f):
        found = ((key, _import_alias(*key)) for key in _read(f.__code__).imports)
        return {key: alias for key, alias in found if alias}

    def watch(self, root, nodes):
        """Note what `holds` compares."""
        functions = [value for value in nodes if type(value) is types.FunctionType]
        anchor = root if type(root) is types.FunctionType else functions[0] if functions else None
        self.anchor = anchor and weakref.ref(anchor)
        self.code = getattr(root, "__code__", None)
        self.cells = [*map(id, _contents(root))] if self.code and root.__closure__ else None
        self.functions, self.others, names = [], [], set()
        forget = functools.partial(_forget, _plans, id(root))
        self.refs = [weakref.ref(root, forget)]
        for value in nodes:
            try:
                ref = weakref.ref(value, forget)
            except TypeError:  # a property or the like: its class and its function are watched
                continue
            self.refs.append(ref)
            if type(value) is types.FunctionType:
                self.refs.append(weakref.ref(value.__code__, forget))
                simple = not value.__closure__ or value.__code__.co_freevars == ("__class__",)
                if value.__globals__ is anchor.__globals__ and (simple or value is root):
                    names |= _read(value.__code__).names
                    if value is not root:
                        self.functions.append((ref, id(value.__code__), id(value.__defaults__)))
                    continue
            if value is not root or self.code is None:
                self.others.append((ref, _state(value)))
        held = [(name, anchor.__globals__.get(name)) for name in names]
        keep = [id(value) in _registry or type(value) in _KEPT for _, value in held]
        self.fixed = (*itertools.compress(held, keep),)
        self.idents = tuple((name, id(value)) for (name, value), kept in zip(held, keep) if not kept)
        self.is_loose = bool(self.idents or self.functions or self.others or self.cells)

    def holds(self, f):
        """Whether all but `fixed` is as it was looked at; f is the function bound or the anchor."""
        get = f.__globals__.get
        for name, i in self.idents:
            if id(get(name)) != i:
                return False
        for ref, code, defaults in self.functions:
            value = ref()
            if value is None or id(value.__code__) != code or id(value.__defaults__) != defaults:
                return False
        for ref, state in self.others:
            value = ref()
            if value is None or _state(value) != state:
                return False
        return self.cells is None or [*map(id, _contents(f))] == self.cells

    def rename(self, f):
        held, names, classes = f.__globals__, {}, set()
        known, imports, aliases = _read(f.__code__), self.imports(f), []
        for name in known.names:
            value = held[name] if name in held else _BUILTINS.get(name)
            if id(value) in _registry:
                names[name] = _registry[id(value)][2]
            elif id(value) in self.changed:
                alias = _aliases.get(id(value))
                if alias is None:
                    alias = _aliases[id(value)] = _Alias(value, name)
                aliases.append(alias)
                names[name] = alias.name
                if isinstance(value, type):
                    classes.add(name)
        key = (names, classes, imports)
        if known.latest[0] != key:
            try:
                # The aliases stay with a module's code, so that fresh functions of one lambda use the same.
                kept = aliases if _is_module(held) else []
                known.latest = (key, _rename(f.__code__, *key), kept)
            except _TooWide:
                known.latest = (key, None, [])
        self.aliases += aliases
        if known.latest[1] is None:
            del self.changed[id(f)]
        else:
            self.changed[id(f)] = known.latest[1]

    def twin_class(self, cls, fresh):
        """Enter the twin of `cls`, if it is to have one; new ones, still without methods, go to `fresh` too.

        Its bases are `cls` and the twins of its bases.  So each twin stands directly before its original in
        the MRO, where `super()` in the class above finds it.
        """
        if self.changed.get(id(cls)) is not True:
            return
        for base in cls.__bases__:
            self.twin_class(base, fresh)
        bases = [cls, *(self.changed[id(base)] for base in cls.__bases__ if id(base) in self.changed)]
        recipe = [bases]
        for name, value in self.methods(cls):
            codes = [self.changed.get(id(part)) for part in _parts(value)]
            recipe.append((name, id(value), self.changed[id(value)], codes))
        twin = _twins.get(id(cls))
        if twin is None or twin._wengert_recipe != recipe:
            body = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
            body["__class__"] = property(lambda self: cls)  # `self.__class__ is Model` holds
            body |= {"_wengert_original": cls, "_wengert_recipe": recipe}
            kind = _TwinType if type(cls) is type else _AbstractTwinType
            try:
                twin = kind(cls.__name__, tuple(bases), body)
            except TypeError:  # bases that cannot be ordered
                del self.changed[id(cls)]
                return
            fresh.append(cls)
        self.changed[id(cls)] = twin

    def methods(self, cls):
        """Names and values in the body of `cls` that are to be replaced."""
        return [
            (name, value)
            for name, value in vars(cls).items()
            if id(value) in self.changed and type(value) in _METHODS
        ]

    def fill(self, cls, memo):
        for name, value in self.methods(cls):
            method = self.build(value, memo)
            type.__setattr__(self.changed[id(cls)], name, method)
            if type(method) is functools.cached_property:
                method.__set_name__(cls, name)
        _twins[id(cls)] = self.changed[id(cls)]

    def build(self, value, memo):
        """The replacement of `value`, or `value`; `memo` closes cycles through cells."""
        key = id(value)
        if key in _registry:
            return _registry[key][1]
        new = self.changed.get(key)
        if new is None:
            return value
        if key in memo:
            return memo[key]
        kind = type(value)
        if kind is types.FunctionType:
            return self.copy_function(value, new, memo)
        if kind is functools.partial:
            args = [self.build(arg, memo) for arg in (value.func, *value.args)]
            return kind(*args, **{name: self.build(arg, memo) for name, arg in value.keywords.items()})
        if kind is property:
            return kind(*(self.build(part, memo) for part in _parts(value)), value.__doc__)
        if kind in _WRAPPERS and kind is not _LRU:
            return kind(*(self.build(part, memo) for part in _parts(value)))
        if isinstance(value, type):
            return new if isinstance(new, type) else value
        part = self.build(_parts(value)[0], memo)
        return part if kind is _LRU or type(part) is types.FunctionType else _twin(value, part)

    def copy_function(self, f, code, memo):
        swaps, dress = self.recipes.get(id(f)) or self.recipe(f)
        cells = f.__closure__
        if swaps:
            cells = [*cells]
            for k in swaps:
                # Functions that shared a cell share its copy.
                cells[k] = memo.setdefault(id(cells[k]), types.CellType())
            cells = tuple(cells)
        copy = memo[id(f)] = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, cells)
        copy.__dict__ = f.__dict__
        for name in dress:
            setattr(copy, name, getattr(f, name))
        for k in swaps:
            cells[k].cell_contents = self.build(f.__closure__[k].cell_contents, memo)
        return copy

    def recipe(self, f):
        """Indices of the cells of f to be replaced, and the attributes that its code alone does not give."""
        contents = [*map(id, _contents(f))]
        swaps = [k for k, key in enumerate(contents) if key in _registry or key in self.changed]
        bare = types.FunctionType(f.__code__, f.__globals__, f.__name__, None, f.__closure__)
        dress = [name for name in _ATTRIBUTES if getattr(f, name) != getattr(bare, name)]
        self.recipes[id(f)] = swaps, dress
        return swaps, dress


# From 3.14 annotations are computed when asked for.
_ATTRIBUTES = ["__kwdefaults__", "__module__", "__qualname__", "__doc__"] + [
    name
    for name in ("__annotate__" if hasattr(_top, "__annotate__") else "__annotations__", "__type_params__")
    if hasattr(_top, name)
]


def _is_module(namespace):
    module = sys.modules.get(namespace.get("__name__"))
    return module is not None and getattr(module, "__dict__", None) is namespace


def _twin(value, cls):
    if not isinstance(cls, type) or cls is type(value):
        return value
    twin = object.__new__(cls)
    object.__setattr__(twin, "__dict__", object.__getattribute__(value, "__dict__"))
    return twin


# The interface ----------------------------------------------------------------------------------------------


def register(original, replacement):
    """Let names that hold `original` yield `replacement` in functions made by `rebound`.

    Parameters
    ----------
    original : object
        Recognised by identity: a module, a function, a ufunc.
    replacement : object
        For a module, a module too: imports inside a function give it, by a private name in `sys.modules`.
    """
    with _lock:
        name = _private(getattr(original, "__name__", type(original).__name__))
        _BUILTINS[name] = replacement
        if isinstance(original, types.ModuleType):
            sys.modules[name] = replacement
            _packages.add(_top(original.__name__))
        _registry[id(original)] = (original, replacement, name)
        _plans.clear()


def rebound(f):
    """`f` with registered objects replaced wherever its names, or those of functions it follows, hold them.

    Parameters
    ----------
    f : callable

    Returns
    -------
    callable
        A copy of `f`, or `f` itself when there is nothing to rename or it is no Python code.
    """
    if type(f) is not types.FunctionType:
        return _rebound_object(f)
    plan = _plans.get(id(f))
    if plan is None or f.__code__ is not plan.code:
        plan = _bind(f)
    else:  # here and not in `holds`: a call less in the common case
        get = f.__globals__.get
        for name, value in plan.fixed:
            if get(name) is not value:
                plan = _bind(f)
                break
        else:
            if plan.is_loose and not plan.holds(f):
                plan = _bind(f)
    if plan is None or plan.run is None:
        return f
    copy = plan.copy
    if copy is not None and copy.__defaults__ is f.__defaults__ and copy.__kwdefaults__ is f.__kwdefaults__:
        return copy
    copy = plan.copy_function(f, plan.run, {})
    return f if copy.__closure__ == f.__closure__ and plan.run is f.__code__ else copy


def _bind(root):
    """A new plan for `root`, or None where something surprises us."""
    with _lock:
        try:
            plan = _plans[id(root)] = _Plan(root)
        except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
            plan = _plans.pop(id(root), None) and None
    return plan


def _twin_of(owner):
    """The twin of an object or class, or `owner`."""
    cls = owner if isinstance(owner, type) else type(owner)
    plan = _plans.get(id(cls))
    anchor = plan and plan.anchor and plan.anchor()
    if (
        anchor is None
        or any(anchor.__globals__.get(name) is not value for name, value in plan.fixed)
        or not plan.holds(anchor)
    ):
        plan = _bind(cls) if _can_twin(cls) else None
    twin = plan and plan.run
    return owner if twin is None else twin if owner is cls else _twin(owner, twin)


def _rebound_object(f):
    kind = type(f)
    if kind is types.MethodType:
        func, owner = f.__func__, f.__self__
        twin = _twin_of(owner)
        name = getattr(func, "__name__", "")
        if twin is not owner and not isinstance(owner, type) and getattr(type(owner), name, None) is func:
            return types.MethodType(getattr(type(twin), name), twin)
        copy = rebound(func)
        return f if copy is func and twin is owner else types.MethodType(copy, twin)
    if kind is functools.partial:
        home = _top(getattr(f.func, "__module__", None)), getattr(f.func, "__globals__", None)
        args = [_argument(arg, home) for arg in f.args]
        return kind(rebound(f.func), *args, **{k: _argument(arg, home) for k, arg in f.keywords.items()})
    if kind is staticmethod:
        return rebound(f.__func__)
    if kind is _LRU:
        return rebound(f.__wrapped__)
    if isinstance(f, type):
        return f
    if (func := _py_func(f)) is not None:
        return rebound(func)
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if type(call) is not types.FunctionType:
        return f
    twin = _twin_of(f)
    copy = call if twin is not f else rebound(call)
    return twin if copy is call else types.MethodType(copy, f)


def _argument(value, home):
    """What stands for an argument of a partial, which is followed like a name."""
    if id(value) in _registry:
        return _registry[id(value)][1]
    if isinstance(value, type) or not _is_followed(value, home):
        return value
    return rebound(value) if type(value) in (types.FunctionType, *_WRAPPERS) else _twin_of(value)
