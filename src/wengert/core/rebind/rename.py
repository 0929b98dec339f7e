"""Copies code objects with some of their names replaced by private ones.

Method.  A code object refers to global names and imports by an index into its tuple of names.
A copy whose indices refer to other names, appended to that tuple, loads other objects and is otherwise the same code.
Private names live in `builtins` (for imports: in `sys.modules`), where the lookup of a global name ends.

Invariants
- Only name indices change: those of LOAD_GLOBAL, LOAD_NAME,
  LOAD_FROM_DICT_OR_GLOBALS and IMPORT_NAME, and those of attributes of a module that are called or read from, if the
  module has a replacement for that use (a class must stay itself in `isinstance`).  Lines, constants and cells are
  unchanged, and so are offsets unless an index needs more bytes than its instruction has (`relocate`).
- A name that the code itself assigns is never renamed where the assignment is visible.
- A private name exists as long as renamed code uses it and the object it replaces is alive.
"""

import bisect
import builtins
import dis
import functools
import itertools
import operator
import re
import sys
import types
import weakref

from wengert.core.rebind.bytecode import codes_in, decode, names_in, places, table_of
from wengert.core.rebind.relocate import relocated
from wengert.features import NAMING, null_is_first

_OWN = __name__.partition(".")[0]

BUILTINS = vars(builtins)
CALLED, READ = "_called_", "_read_"  # prefixes for attributes of a module that are called or that are read from
USED = "_used"  # suffix of a private name, for calls whose result is called or read from

IN_USE = {}  # private name of a module in imports -> (its proxy, private name of the variant with classes replaced)
_codes = {}  # id(code) -> Code
_aliases = weakref.WeakValueDictionary()  # id(followed object) -> Alias
_number = itertools.count()

_op = {name: dis.opmap.get(name, -1) for name in (
    "LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "IMPORT_NAME", "IMPORT_FROM", "EXTENDED_ARG",
    "LOAD_CONST", "LOAD_SMALL_INT", "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_GLOBAL",
    "DELETE_GLOBAL", "STORE_NAME", "STORE_DEREF", "DELETE_DEREF", "STORE_FAST", "PRECALL", "CALL", "SWAP",
    "POP_TOP", "PUSH_NULL", "RETURN_VALUE", "BUILD_TUPLE", "IS_OP", "CONTAINS_OP", "STORE_FAST_LOAD_FAST",
    "STORE_FAST_STORE_FAST", "CHECK_EXC_MATCH")}  # fmt: skip
_LOAD_GLOBAL, _IMPORT_NAME, _EXTENDED_ARG = _op["LOAD_GLOBAL"], _op["IMPORT_NAME"], _op["EXTENDED_ARG"]
_LOADS = {_op["LOAD_NAME"], _op["LOAD_FROM_DICT_OR_GLOBALS"]} - {-1}
_ATTRIBUTE = {_op["LOAD_ATTR"], _op["LOAD_METHOD"]}
_ATTRIBUTE_OF = {_LOAD_GLOBAL, *_ATTRIBUTE}
_ATTRIBUTE_SHIFT = NAMING["LOAD_ATTR"]
_STORE_NAME = _op["STORE_NAME"]
_LOAD_DEREF, _STORE_DEREF = dis.opmap["LOAD_DEREF"], dis.opmap["STORE_DEREF"]
_IS_OP, _CONTAINS_OP, _CONSTANTS = _op["IS_OP"], _op["CONTAINS_OP"], {_op["LOAD_CONST"], _op["LOAD_SMALL_INT"]}
_NAMING = {_LOAD_GLOBAL, _IMPORT_NAME, _IS_OP, _CONTAINS_OP, _STORE_NAME, *_LOADS, *_ATTRIBUTE}
_GLOBAL_STORES = {_op["STORE_GLOBAL"], _op["DELETE_GLOBAL"]}
_ATTRIBUTE_STORES = {dis.opmap["STORE_ATTR"], dis.opmap["DELETE_ATTR"]}
_CELL_STORES = {_op["STORE_DEREF"], _op["DELETE_DEREF"]}
#: opcodes that load by name, with the number of flag bits below the name index
_NAMED_LOADS = {dis.opmap[name]: bits for name, bits in NAMING.items()
                if name in dis.opmap and name.startswith(("LOAD_", "IMPORT_FROM"))}  # fmt: skip
_STORES = {_op["STORE_FAST"], _op["STORE_DEREF"]}
_ALL_STORES = _STORES | {_op["STORE_FAST_LOAD_FAST"], _op["STORE_FAST_STORE_FAST"]} - {-1}
_MAKING = {dis.opmap[name] for name in ("MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE") if name in dis.opmap}
_VARIABLE_LOADS = {dis.opmap[name] for name in (
    "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF", "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW") if name in dis.opmap}  # fmt: skip
#: instructions that act on two variables, whose indices are the halves of a byte
_PAIRS = {op for op in _VARIABLE_LOADS if dis.opname[op].count("_FAST") > 1}
#: (opcode, argument or None) of subscripts, and of all instructions whose result may be called at once
_SUBSCRIPTS = {(dis.opmap["BINARY_OP"], k) for k, (_, sign) in enumerate(dis._nb_ops) if sign == "[]"} | {
    (dis.opmap[name], None) for name in ("BINARY_SUBSCR",) if name in dis.opmap
}  # fmt: skip
_RESULTS = _SUBSCRIPTS | {(dis.opmap[name], None) for name in ("CALL", "CALL_KW") if name in dis.opmap}
_ITERATIONS = {dis.opmap[name] for name in ("GET_ITER", "LIST_EXTEND", "SET_UPDATE", "UNPACK_EX", "UNPACK_SEQUENCE")}
_MATCH_CLASS = dis.opmap["MATCH_CLASS"]
#: opcodes that `Code.read` looks at
_READ_OPS = {_LOAD_GLOBAL, _LOAD_DEREF, _IMPORT_NAME, _MATCH_CLASS, _op["LOAD_SUPER_ATTR"], *_NAMED_LOADS, *_LOADS,
             *_ATTRIBUTE, *_GLOBAL_STORES, *_ATTRIBUTE_STORES, *_CELL_STORES, _IS_OP, _CONTAINS_OP}  # fmt: skip
_READ_TABLE, _NAMING_TABLE, _STORE_TABLE = map(table_of, (_READ_OPS, _NAMING, _ALL_STORES))
_ASSIGNING_TABLE = table_of({_op["STORE_GLOBAL"]})
#: an access to an attribute, in the opcodes of a code object; NULL is after the value of `x.f(*args)`, or before x
_ATTRIBUTE_USES = re.compile(b"[%s](?:\0*(%s))?" % (
    re.escape(bytes(op for op in _ATTRIBUTE | _ATTRIBUTE_STORES if 0 <= op < 256)), re.escape(bytes([_op["PUSH_NULL"]]))
), re.DOTALL)  # fmt: skip
_NULL_TABLE = table_of({_op["PUSH_NULL"]})
_IMPORT_TAIL = {_op[name] for name in (
    "IMPORT_FROM", "SWAP", "POP_TOP", "STORE_FAST", "STORE_NAME", "STORE_DEREF", "STORE_GLOBAL")}  # fmt: skip
_INSPECTED = {"__bases__", "__class__", "__dict__", "__mro__", "__subclasses__", "mro"}  # differ in a proxy class
_IDENTITY = {"__code__", "__doc__", "__file__", "__module__", "__name__", "__qualname__"}  # differ in other stand-ins
_ERROR_TESTS = {"issubclass", "suppress", "assert_warns", "warns"}  # which may be passed a category of warnings
_ERROR_SWITCHES = {"errstate", "seterr", "seterrcall", "simplefilter", "filterwarnings"}
_ERROR_ACTIONS = {"raise", "call", "error"}


def forget(table, key, _):
    """Callback of a weak reference that removes an entry from a table."""
    table.pop(key, None)


# Private names ----------------------------------------------------------------------------------------------


def private(name):
    """Return a new private name."""
    return f"_wengert_{next(_number)}_{name.replace('.', '_')}"


def public(name):
    """Return the name in the user's code for a name in renamed code."""
    return _PRIVATE.sub("", name)


_PRIVATE = re.compile(rf"^(_wengert_\d+_|{CALLED}|{READ})")


#: names of the functions that return the operands of ``is`` and ``in`` as plain code sees them
COMPARED, CONTAINED = private("compared"), private("contained")
_PLAIN_OPERANDS = {_IS_OP: COMPARED, _CONTAINS_OP: CONTAINED}
CALLEE = private("callee")  # name of the function that replaces the value of a variable that is called
RESULT = private("result")  # name of the function that wraps a new array into which code stores
RESULTS = private("results")  # the same, also for arrays in new containers
SEEN = private("seen")  # name of the function that replaces any value
ATTRIBUTES = private("attributes")  # name of the class that replaces the attributes of a function
OPERANDS = private("operands")  # name of the function that makes arrays of lists and tuples with traced values
ASSIGNED = private("assigned")  # name of the function that is called when a global has been assigned
CELL_ASSIGNED = private("cell_assigned")  # the same for a variable of an enclosing function
RECEIVER = private("receiver")  # name of the function that replaces an array whose method accepts plain arrays only

_PLAIN_METHODS = frozenset(("choose", "dot", "searchsorted"))
_REDUCTIONS, _PLAIN_OPTIONS = frozenset("max mean min prod std sum var".split()), {"initial", "mean"}


def plain_methods(code):
    """Return the methods of arrays that accept plain arguments only, in the form in which this code may call them."""
    keywords = itertools.chain(*(const for const in code.co_consts if type(const) is tuple))
    return _PLAIN_METHODS if _PLAIN_OPTIONS.isdisjoint(keywords) else _PLAIN_METHODS | _REDUCTIONS


class Alias:
    """A private name in builtins for the replacement of a followed object.

    Renamed code keeps it alive, so that the name lasts while the code runs, even if another thread assigns the name in
    the user's code.  `users` are the `Code` objects that keep such code; they drop it when the object dies.
    """

    __slots__ = ("__weakref__", "name", "ref", "users")

    def __init__(self, value, name):
        self.name, self.users = private(name), set()
        try:
            self.ref = weakref.ref(value, functools.partial(self.end, id(value), self.users))
        except TypeError:  # a staticmethod in a global name
            self.ref = lambda: value

    @staticmethod
    def end(key, users, _, forget=_aliases.pop):  # bound here: globals may be gone at exit
        forget(key, None)
        for code in users:
            code.latest = None, None

    def __del__(self, pop=BUILTINS.pop):
        pop(self.name, None)


class LiveAlias(Alias):
    """A private name in builtins for reading attributes of the current value of a global name."""

    __slots__ = ()

    def __init__(self, space, name, seen):
        self.name, self.users = private(name), set()
        live = LiveValue(space, name, seen)
        self.ref = lambda: live


class LiveValue:
    """Reads attributes from ``seen(value)``, with `value` the current value of a global name."""

    __slots__ = ("_name", "_seen", "_space")

    def __init__(self, space, name, seen):
        self._space, self._name, self._seen = space, name, seen

    def __getattr__(self, attribute):
        return getattr(self._seen(self._space[self._name]), attribute)


def live_alias(space, name, seen):
    """Return the `LiveAlias` of a name in a namespace."""
    key = id(space), name, seen
    alias = _aliases.get(key)
    if alias is None:
        alias = _aliases[key] = LiveAlias(space, name, seen)
    return alias


def alias_of(value, name):
    """Return the alias of `value`; a new one has `name` in its private name."""
    alias = _aliases.get(id(value))
    if alias is None:
        alias = _aliases[id(value)] = Alias(value, name)
    return alias


def chain(alias, dotted, module):
    """Return a private name for `import a.b.c as m`, which reads attribute b of the imported module, and c of that."""
    alias = f"{alias}_as_{dotted.replace('.', '_')}"
    if alias not in sys.modules:
        for part in reversed(dotted.split(".")[1:]):
            holder = types.ModuleType(alias)
            setattr(holder, part, module)
            module = holder
        sys.modules[alias] = module
    return alias


# Reading ----------------------------------------------------------------------------------------------------


def _is_free(code, arg):
    """Name of the free variable that a cell instruction refers to; None for a cell variable."""
    plain = set(code.co_varnames)
    first = len(code.co_varnames) + sum(name not in plain for name in code.co_cellvars)
    return code.co_freevars[arg - first] if arg >= first else None


def _constant(code, instruction):
    """Return the constant that an instruction loads; ``...`` if it loads none."""
    _, op, arg, _ = instruction
    return code.co_consts[arg] if op == _op["LOAD_CONST"] else arg if op == _op["LOAD_SMALL_INT"] else ...


def _import_form(code, instructions, k):
    """Form ("from", "as" or "bare") and level of the import at instruction k; None if it must not be renamed."""
    level = _constant(code, instructions[k - 2]) if k > 1 else ...
    listed = _constant(code, instructions[k - 1])
    if listed is ... or type(level) is not int:
        return None
    following = instructions[k + 1 :]
    is_as = following[0][1] == _op["IMPORT_FROM"]
    form = "from" if listed else "as" if is_as else "bare"
    for _, op, arg, _ in following[:1] if form == "bare" else following:
        if op not in _IMPORT_TAIL:
            break
        # The replacement would stay in the user's namespace after the call.
        if op == _op["STORE_GLOBAL"] or (op == _op["STORE_DEREF"] and _is_free(code, arg)):
            return None
    return form, level


def _use(code, instructions, k):
    """Return the use of the attribute that instruction k reads (CALLED, READ or None) and its chain of names."""
    first = k - 1
    while instructions[first][1] in _ATTRIBUTE:
        first -= 1
    (_, before, held, _), (_, op, arg, _), (_, after, _, _) = instructions[first], *instructions[k : k + 2]
    if before != _LOAD_GLOBAL:
        return None
    path = code.co_names[held >> 1], *_path(code, instructions, first)[: k - first - 1]
    is_method = op == _op["LOAD_METHOD"] or (_ATTRIBUTE_SHIFT and arg & 1)
    if is_method or after == _op["PUSH_NULL"]:
        return CALLED, path
    if after in _ATTRIBUTE:
        return READ, path
    is_called = held & 1 or (first > 0 and _is_mapped(code, instructions[first - 1]))
    return (CALLED, path) if is_called else None


def _has_stand_in(module, use, name):
    """Return whether the proxy of a module has a stand-in for this use of an attribute.

    Of objects from other packages only `__dict__` is inspected: their `__getattr__` may run any code.
    """
    if (check := getattr(type(module), "_wengert_has", None)) is not None:
        return check(module, name)
    if type(module).__module__.partition(".")[0] == _OWN:
        return hasattr(module, use + name)
    return use + name in getattr(module, "__dict__", ())


def _holder(names, first, *path):
    """Return the proxy of the module to which a global name and a chain of attributes lead; None if there is none."""
    value = BUILTINS.get(names.get(first))
    for name in path:
        holds = getattr(type(value), "_wengert_holds", None)  # without running a `__getattr__` of the module
        is_held = holds(value, name) if holds else isinstance(value, types.ModuleType) and hasattr(value, name)
        if not is_held:
            return None
        value = getattr(value, name)
    return value


def _is_mapped(code, before):
    """Return whether the instruction after `before` loads the function in ``map(function, ...)``."""
    return _calls_first(code, before, ("map",))


def _calls_first(code, before, names):
    """Return whether `before` loads one of these functions, and the next instruction the first argument of its call."""
    return before[1] == _LOAD_GLOBAL and before[2] & 1 and code.co_names[before[2] >> 1] in names


_ITERATING = "enumerate", "iter", "list", "reversed", "set", "sorted", "tuple"


def _is_in_use(code, instructions, k, is_enumeration):
    """Return whether the value that instruction k loads is called, mapped or read from.

    An enumeration is also in use where code iterates over it or indexes it.  Other classes are not: ``C[T]`` makes a
    generic alias, which refers to the class itself.
    """
    before, (_, _, arg, _), (_, after, _, _), *rest = instructions[k - 1 : k + 3]
    if arg & 1 or after in _ATTRIBUTE or _is_mapped(code, before):
        return True
    if not is_enumeration:
        return False
    is_indexed = bool(rest) and not _SUBSCRIPTS.isdisjoint((rest[0][1:3], (rest[0][1], None)))
    return is_indexed or after in _ITERATIONS or _calls_first(code, before, _ITERATING)


def _needs_plain_operands(op, before):
    """Return whether ``is`` or ``in``, after the instruction `before`, may compare stand-ins of objects."""
    return op in _PLAIN_OPERANDS and before[1] not in _CONSTANTS and before[1] not in dis.hasjrel


def _reads_method(code, instructions, k, names, methods):
    """Return whether instruction k reads one of these methods of a value that may be an array."""
    first = k - 1
    if instructions[first][1] in dis.hasjrel or code.co_names[instructions[k][2] >> _ATTRIBUTE_SHIFT] not in methods:
        return False
    while instructions[first][1] in _ATTRIBUTE:
        first -= 1
    _, before, held, _ = instructions[first]
    path = _path(code, instructions, first)[: k - first - 1]
    is_global = before == _LOAD_GLOBAL
    return not (is_global and isinstance(_holder(names, code.co_names[held >> 1], *path), types.ModuleType))


def _is_made(code, before):
    """Return whether the instruction after `before` loads the class in ``object.__new__(cls)``."""
    return before[1] in _ATTRIBUTE and code.co_names[before[2] >> _ATTRIBUTE_SHIFT] == "__new__"


def _is_used(code, instructions, k):
    """Return whether the result of ``f(name)``, where instruction k loads f, is called or read from."""
    if null_is_first and instructions[k - 1][1] == _op["PUSH_NULL"]:
        return True
    call, after, *_ = [part for part in instructions[k + 2 : k + 5] if part[1] != _op["PRECALL"]] + [None] * 2
    if call is None or after is None or call[1] != _op["CALL"]:
        return False
    if after[1] in _ATTRIBUTE:
        return code.co_names[after[2] >> _ATTRIBUTE_SHIFT] not in _INSPECTED
    return not null_is_first and after[1] == _op["PUSH_NULL"]


def classes_read(code, module):
    """Return the names in code, nested code included, of classes that the proxy of a module or submodule replaces."""
    names = set(names_in(code))
    found, met, waiting = set(), set(), [module]
    while waiting:
        module = waiting.pop()
        met.add(getattr(module, "__name__", None))
        for name in names:
            if _has_stand_in(module, CALLED, name):
                found.add(name)
            elif hasattr(type(module), "_wengert_has") and (below := type(module)._wengert_below(module, name)):
                waiting += [below] if below.__name__ not in met else []
    return found


def uses_only(code, module):
    """Return whether the classes that the proxy of a module replaces are only called, mapped or read from."""
    attributes = classes_read(code, module)
    return all(_is_only_used(each, attributes, set()) for each in codes_in(code))


def _are_only_used(code, instructions, k, module):
    """Return whether the classes of a module that instruction k imports are only called, mapped or read from."""
    attributes = classes_read(code, module)
    variables, held = set(), (*code.co_varnames, *(c for c in code.co_cellvars if c not in code.co_varnames))
    for (_, op, arg, _), (_, after, place, _) in itertools.pairwise(instructions[k + 1 :]):
        if op not in _IMPORT_TAIL:
            break
        if op == _op["IMPORT_FROM"] and code.co_names[arg] in attributes:
            if after not in (_op["STORE_FAST"], _op["STORE_DEREF"]):
                return False
            variables.add(held[place])
    return all(_is_only_used(each, attributes, variables) for each in codes_in(code))


def _is_only_used(code, attributes, variables):
    """Return whether one code object only calls, maps or reads from these attributes and local variables."""
    if attributes.isdisjoint(code.co_names) and variables.isdisjoint(_variables(code)):
        return True
    steps = [*dis.get_instructions(code)]
    cells = {*code.co_cellvars, *code.co_freevars}
    for k, each in enumerate(steps):
        if each.opcode in _ATTRIBUTE:
            is_one, first = each.argval in attributes, steps[k - 2].argval if k > 1 else None
            is_called = each.opcode == _op["LOAD_METHOD"] or (_ATTRIBUTE_SHIFT and each.arg & 1)
        elif each.opname.startswith("LOAD_") and (each.opcode in dis.haslocal or each.opcode in dis.hasfree):
            is_cell = each.opcode in dis.haslocal or each.opname == "LOAD_CLOSURE"
            is_one = not variables.isdisjoint(each.argval if type(each.argval) is tuple else (each.argval,))
            is_one, first = is_one and not (is_cell and each.argval in cells), steps[k - 1].argval
            is_called = steps[k - 1].opname == "PUSH_NULL" and null_is_first
        else:
            continue
        if is_one and not (is_called or first == "map" or steps[k + 1].opcode in {*_ATTRIBUTE, _op["PUSH_NULL"]}):
            return False
    return True


def _path(code, instructions, k):
    """Chain of attributes read from the value that instruction k loads."""
    path, k = [], k + 1
    while instructions[k][1] in _ATTRIBUTE:  # code ends with a return, which ends this loop
        path.append(code.co_names[instructions[k][2] >> _ATTRIBUTE_SHIFT])
        k += 1
    return tuple(path)


def _reads_set_attribute(code, instruction):
    """Return whether an instruction reads an attribute that functions have only if it is set on them."""
    is_read = instruction[1] in _ATTRIBUTE
    return is_read and not hasattr(types.FunctionType, code.co_names[instruction[2] >> _ATTRIBUTE_SHIFT])


#: names of a class body that are bound without an instruction that stores them
_OF_CLASS = {"__annotations__"}


_attribute_uses = {}  # id(code) -> its weak reference and the result of `attribute_uses`


def attribute_uses(code):
    """Return the names of attributes that a code object and those nested in it assign, and of those that they may call.

    The bytes are read without decoding, since all methods of a class are asked.
    """
    known = _attribute_uses.get(id(code))
    if known is None:
        stored, called = set(), set()
        for each in codes_in(code):
            _add_attribute_uses(each, stored, called)
        ref = weakref.ref(code, functools.partial(forget, _attribute_uses, id(code)))
        known = _attribute_uses[id(code)] = ref, stored, called
    return known[1:]


def _add_attribute_uses(code, stored, called):
    ops, args, names = code.co_code[::2], code.co_code[1::2], code.co_names
    for found in _ATTRIBUTE_USES.finditer(ops):
        k = found.start()
        arg = args[k] | (args[k - 1] << 8 if ops[k - 1] == _EXTENDED_ARG else 0)
        is_method = ops[k] == _op["LOAD_METHOD"] or (_ATTRIBUTE_SHIFT and arg & 1)
        if ops[k] in _ATTRIBUTE_STORES:
            stored.add(names[arg])
        elif is_method or found[1] or ops[k - 2] == _op["PUSH_NULL"]:
            called.add(names[arg >> _ATTRIBUTE_SHIFT])


class Code:
    """How a code object, with those nested in it, uses names; and its latest renamed copy.

    names : global names read
    paths : attributes read from them, as (name, attribute, ...)
    bare : global names whose value is also used otherwise
    passed : global names whose value is used other than by a call
    assigned, written : assigned global names, assigned free variables
    held : assigned global names whose value is returned or read from, such as an object made at first use
    imports : imports that may be renamed, as (dotted name, form, level)
    mentioned : all names, including those of attributes
    methods : attributes of values other than globals
    owners : global names that attributes are read from
    loaded : names that are read: globals, attributes, names imported from a module
    modules : all imports, as (name, level)
    naming : the instructions, and indices of those that use names
    stored : names of attributes that are assigned or deleted
    strings : string constants
    cell_owners : free variables that attributes are read from, other than those of every function
    calls_variables : is the value of a variable called, other than a function made by the code itself?
    compares : does the code use ``is`` or ``in`` with operands that are not constant?
    fills_results : is something stored into a variable that holds the result of an operator?
    reads_methods : does the code read an attribute with the name of a method in `plain_methods`?
    uses : results of `_attribute_used`, by offset
    """

    __slots__ = ("assigned", "bare", "calls_variables", "cell_owners", "compares", "fills_results", "held", "imports",
                 "latest", "loaded", "mentioned", "methods", "modules", "names", "naming", "owners", "passed", "paths",
                 "reads_methods", "ref", "stored", "strings", "uses", "written")  # fmt: skip

    def __init__(self, code):
        self.names, self.assigned, self.written, self.imports = set(), set(), set(), set()
        self.bare, self.paths, self.mentioned, self.methods, self.latest = set(), set(), set(), set(), (None, None)
        self.loaded, self.modules, self.strings, self.passed, self.uses = set(), set(), set(), set(), {}
        self.ref = weakref.ref(code, functools.partial(forget, _codes, id(code)))
        self.calls_variables = self.compares = self.fills_results = self.reads_methods = False
        self.held, self.stored, self.cell_owners = set(), set(), set()
        self.naming = _named(self.read(code, set() if _may_call_variables(code) else None))
        self.names -= self.assigned
        self.held &= self.assigned
        self.paths = [path for path in self.paths if path[0] in self.names]
        self.owners = tuple({path[0] for path in self.paths})

    def read(self, code, made):
        self.mentioned.update(code.co_names)
        self.strings.update(const for const in code.co_consts if type(const) is str)
        self.reads_methods = self.reads_methods or not plain_methods(code).isdisjoint(code.co_names)
        instructions = decode(code)
        for k in places(instructions, _READ_TABLE):
            _, op, arg, _ = instructions[k]
            self.compares = self.compares or _needs_plain_operands(op, instructions[k - 1])
            if op in _NAMED_LOADS:
                self.loaded.add(code.co_names[arg >> _NAMED_LOADS[op]])
            elif op == _MATCH_CLASS:  # the attribute names of a pattern are a constant
                names = [each for each in code.co_consts if type(each) is tuple]
                self.loaded.update(name for each in names for name in each if type(name) is str)
            elif op == _IMPORT_NAME:
                level = _constant(code, instructions[k - 2])
                self.modules.add((code.co_names[arg], level if type(level) is int else 0))
            if op == _LOAD_GLOBAL or (op in _LOADS and code.co_names[arg] not in _OF_CLASS):
                name = code.co_names[arg >> (op == _LOAD_GLOBAL)]
                self.names.add(name)
                if _is_held(instructions, k):
                    self.held.add(name)
                if path := _path(code, instructions, k):
                    self.paths.add((name, *path))
                else:
                    self.bare.add(name)
                if path or op != _LOAD_GLOBAL or not arg & 1:
                    self.passed.add(name)
            elif op in _ATTRIBUTE:
                if instructions[k - 1][1] != _LOAD_GLOBAL:
                    self.methods.add(code.co_names[arg >> _ATTRIBUTE_SHIFT])
            elif op == _op["LOAD_SUPER_ATTR"]:
                self.methods.add(code.co_names[arg >> NAMING["LOAD_SUPER_ATTR"]])
            elif op in _GLOBAL_STORES:
                self.assigned.add(code.co_names[arg])
            elif op in _ATTRIBUTE_STORES:
                self.stored.add(code.co_names[arg])
            elif op in _CELL_STORES:
                self.written.add(_is_free(code, arg))
            elif op == _LOAD_DEREF and _reads_set_attribute(code, instructions[k + 1]):
                self.cell_owners.add(_is_free(code, arg))
            elif op == _IMPORT_NAME and (form := _import_form(code, instructions, k)):
                self.imports.add((code.co_names[arg], *form))
        results = _fresh_results(code, instructions)
        self.fills_results = self.fills_results or any(each[1:3] in _OPERATORS for each in results)
        if made is not None:
            made = _made(code, instructions, made)
            self.calls_variables = self.calls_variables or bool(_callees(code, instructions, made))
        for nested in code.co_consts:
            if type(nested) is types.CodeType:
                self.read(nested, made)
        return instructions

    @property
    def checks_float_errors(self):
        """Return whether the code turns floating-point warnings into exceptions, or catches or inspects them.

        It may name their category to ignore them, or to issue one.
        """
        if not (_ERROR_SWITCHES.isdisjoint(self.mentioned) or _ERROR_ACTIONS.isdisjoint(self.strings)):
            return True
        return "FloatingPointError" in self.names or ("RuntimeWarning" in self.names and self._handles_errors())

    def _handles_errors(self):
        codes = [*codes_in(self.ref())]
        words = {word for code in codes for each in code.co_consts if type(each) is tuple for word in each}
        catches = any(_op["CHECK_EXC_MATCH"] in code.co_code[::2] for code in codes)
        return catches or "record" in words or not _ERROR_TESTS.isdisjoint(self.mentioned)


def read(code):
    """Return the `Code` of `code`, from the cache if possible."""
    known = _codes.get(id(code))
    if known is None:
        known = _codes[id(code)] = Code(code)
    return known


def reads_for_use(code, offset, name):
    """Return whether the instruction at this offset reads the attribute `name` in order to call it or read from it."""
    uses = read(code).uses
    if offset not in uses:
        uses[offset] = _attribute_used(code, offset)
    return uses[offset] == name


def _attribute_used(code, offset):
    """Return the attribute that the instruction at this offset reads in order to call it or read from it; or None."""
    instructions, _ = _naming(code)
    k = bisect.bisect(instructions, offset, key=operator.itemgetter(0)) - 1  # in 3.12 it may be in its caches
    if instructions[k][1] not in _ATTRIBUTE:
        return None
    (_, op, arg, _), (_, after, place, _) = instructions[k : k + 2]
    is_called = op == _op["LOAD_METHOD"] or (_ATTRIBUTE_SHIFT and arg & 1) or after == _op["PUSH_NULL"]
    if null_is_first and after not in _ATTRIBUTE:  # NULL precedes the value of a chain that is called, as in a.b(*c)
        first = next(j for j in range(k - 1, -1, -1) if instructions[j][1] not in _ATTRIBUTE)
        is_called = is_called or (first > 0 and instructions[first - 1][1] == _op["PUSH_NULL"])
    is_read = after in _ATTRIBUTE and code.co_names[place >> _ATTRIBUTE_SHIFT] not in _INSPECTED
    return code.co_names[arg >> _ATTRIBUTE_SHIFT] if is_called or is_read else None


# Callees ----------------------------------------------------------------------------------------------------


def _probe(value):
    return seen(value)  # noqa: F821


def _unpacked(pair):
    a, b = pair
    return a, b


def _offsets(f, *names):
    """Offset of the first instruction of f whose name begins with each of the given prefixes."""
    return [next(i for i, op, _, _ in decode(f.__code__) if dis.opname[op].startswith(name)) for name in names]


def _bare():
    note()  # noqa: F821


_head, _middle, _end = _offsets(_probe, "LOAD_GLOBAL", "LOAD_FAST", "RETURN")
_CACHES_OF_GLOBAL = _probe.__code__.co_code[_head + 2 : _middle]
_CALL_NONE = _bare.__code__.co_code[_head + 2 + len(_CACHES_OF_GLOBAL) : _offsets(_bare, "POP_TOP")[0] + 2]
_CALL_ONE = _probe.__code__.co_code[_middle + 2 : _end]
#: code that reorders the value, the function and NULL on the stack, as loaded, into the order for a call
_REORDER = bytes((_op["SWAP"], 2, _op["SWAP"], 3))


def _seen_by(index):
    """Code that replaces the value on the stack by ``seen(value)``, with the global name of this index."""
    return _loaded(index) + _REORDER + _CALL_ONE


def _loaded(index):
    """Code that loads the global name of this index in order to call it."""
    arg = index << 1 | 1
    prefixes = [bytes((_EXTENDED_ARG, arg >> shift & 255)) for shift in (24, 16, 8) if arg >> shift]
    return b"".join(prefixes) + bytes((_LOAD_GLOBAL, arg & 255)) + _CACHES_OF_GLOBAL


#: code that packs the operands of an operator into a tuple, and code that unpacks a tuple, with the first item on top
_PAIR = bytes((_op["BUILD_TUPLE"], 2))
_UNPAIR = _unpacked.__code__.co_code[slice(*_offsets(_unpacked, "UNPACK_SEQUENCE", "STORE_FAST"))]


def _may_call_variables(code):
    """Return whether code, or code nested in it, may call a variable: a PUSH_NULL next to the load of a variable."""
    return any(_op["PUSH_NULL"] in each.co_code[::2] for each in codes_in(code))


def _is_held(instructions, k):
    """Return whether the value of the global name that instruction k loads is returned or read from."""
    (_, op, arg, _), (_, after, _, _) = instructions[k : k + 2]
    return op == _LOAD_GLOBAL and not arg & 1 and (after in _ATTRIBUTE or after == _op["RETURN_VALUE"])


def _made(code, instructions, outer):
    """Return the variables that hold only functions made by this code, or by the enclosing code (`outer`)."""
    held, made, others = _variables(code), {name for name in outer if name in code.co_freevars}, set()
    for k in places(instructions, _STORE_TABLE):
        _, op, arg, _ = instructions[k]
        for place in _stored(op, arg):
            (made if instructions[k - 1][1] in _MAKING else others).add(held[place])
    return made - others


def _fresh_results(code, instructions):
    """Return the operators and calls whose result is assigned to a variable with an array into which code stores."""
    if _KEYS.keys().isdisjoint(code.co_code[::2]):
        return []
    filled = {_filled(instructions, k) for k, (_, op, _, _) in enumerate(instructions) if op in _KEYS}
    return [
        instructions[k - 1]
        for k, (_, op, arg, _) in enumerate(instructions)
        if op in _SINGLE_STORES and not filled.isdisjoint(_stored(op, arg)) and _is_result(instructions[k - 1])
    ]


def _filled(instructions, k):
    """Return the index of the variable that holds the array into which instruction k stores; None if there is none."""
    left = _KEYS[instructions[k][1]]
    if instructions[k - 1][1] == _op["SWAP"]:  # ``a[i] += b``: the value is above the array and the key
        left += 1
    while k > 1 and left > 0:
        k -= 1
        _, op, arg, _ = instructions[k]
        left -= dis.stack_effect(op, arg if op >= dis.HAVE_ARGUMENT else None, jump=False)
    _, op, arg, _ = instructions[k if left else k - 1]  # a pair of loads may span the array and the key
    if op not in _VARIABLE_LOADS or (left and op not in _PAIRS):
        return None
    return arg >> 4 if left else arg & 15 if op in _PAIRS else arg


def _results_on(code, instructions, lines):
    """Return the offsets of instructions on these lines whose result may be a new array."""
    found = [instructions[k][0] for k in places(instructions, _NEW_TABLE) if not _reads_callee(instructions, k)]
    return _on_lines(code, found, lines)


def _operators_on(code, instructions, lines):
    """Return the offsets of instructions on these lines that come before an operator or a comparison."""
    found = []
    for k in places(instructions, _OPERATOR_TABLE):
        before, (_, op, arg, _) = instructions[k - 1], instructions[k]
        is_operator = (op, arg) not in _SUBSCRIPTS and before[1] not in _CONSTANTS and before[1] not in dis.hasjrel
        found += [before[0]] if is_operator else []
    return _on_lines(code, found, lines)


def _on_lines(code, found, lines):
    """Return those of some offsets of instructions that are on these lines."""
    starts = [start for start, _, line in code.co_lines() if line in lines]
    ends = [end for _, end, line in code.co_lines() if line in lines]
    return [i for i in found if bisect.bisect_right(starts, i) > bisect.bisect_right(ends, i)]


def _reads_callee(instructions, k):
    """Return whether instruction k reads an attribute that is called or read from."""
    (_, op, arg, _), (_, after, _, _) = instructions[k : k + 2]
    return op in _ATTRIBUTE and (bool(_ATTRIBUTE_SHIFT and arg & 1) or after in _ATTRIBUTE or after == _op["PUSH_NULL"])


def _is_result(instruction):
    return instruction[1:3] in _OPERATORS or instruction[1] in _CALLS


#: instructions that store into an array, and the number of values in their keys
_KEYS = {dis.opmap[name]: count for name, count in (("STORE_SUBSCR", 1), ("STORE_SLICE", 2)) if name in dis.opmap}
#: opcodes whose result may be a new array
_NEW_TABLE = table_of({dis.opmap[name] for name in (
    "CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_OP", "UNARY_NEGATIVE", "UNARY_POSITIVE", "CALL_INTRINSIC_1",
    "BINARY_SUBSCR", "BINARY_SLICE", "LOAD_ATTR", "FOR_ITER", "BEFORE_WITH") if name in dis.opmap})  # fmt: skip
_OPERATOR_TABLE = table_of({dis.opmap["BINARY_OP"], dis.opmap["COMPARE_OP"]})
_SINGLE_STORES = _ALL_STORES - {_op["STORE_FAST_STORE_FAST"]}
_CALLS = {dis.opmap[name] for name in ("CALL", "CALL_KW", "CALL_FUNCTION_EX") if name in dis.opmap}
#: operators that yield a new object, as (opcode, argument)
_OPERATORS = {
    (dis.opmap["BINARY_OP"], k)
    for k, (name, _) in enumerate(dis._nb_ops)
    if not name.startswith("NB_INPLACE") and name != "NB_SUBSCR"
} | {(dis.opmap["UNARY_NEGATIVE"], 0)}


def _stored(op, arg):
    """Indices of the variables that an instruction assigns."""
    if op in _STORES:
        return (arg,)
    if op == _op["STORE_FAST_LOAD_FAST"]:
        return (arg >> 4,)
    return (arg >> 4, arg & 15) if op == _op["STORE_FAST_STORE_FAST"] else ()


def _variables(code):
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    return *code.co_varnames, *cells, *code.co_freevars


def _callees(code, instructions, made):
    """Return the offsets of instructions that load a variable not in `made` in order to call it.

    Where NULL follows the callee on the stack, include subscripts and calls whose result is called.
    """
    held, found = _variables(code), []
    for null in places(instructions, _NULL_TABLE):
        k = null + 1 if null_is_first else null - 1
        i, op, arg, _ = instructions[k]
        if not null_is_first and ((op, None) in _RESULTS or (op, arg) in _RESULTS):
            found.append(i)
        elif op in _VARIABLE_LOADS and held[arg & 15 if op in _PAIRS else arg] not in made:
            if instructions[k + 1][1] not in _ATTRIBUTE:
                found.append(i)
    return found


def _at_cells(code, instructions, opcode, names):
    """Return the offsets of instructions that load or store free variables with these names."""
    if names.isdisjoint(code.co_freevars):
        return []
    return [i for i, op, arg, _ in instructions if op == opcode and _is_free(code, arg) in names]


def _owner_loads(code, instructions, names):
    """Return the offsets of instructions that load free variables with these names to read attributes set on them."""
    if names.isdisjoint(code.co_freevars):
        return []
    pairs = itertools.pairwise(instructions)
    return [i for (i, op, arg, _), after in pairs
            if op == _LOAD_DEREF and _is_free(code, arg) in names and _reads_set_attribute(code, after)]  # fmt: skip


def _naming(code):
    """Instructions of `code`, and the indices of those that use names."""
    info = _codes.get(id(code))
    return _named(decode(code)) if info is None else info.naming


def _named(instructions):
    return instructions, places(instructions, _NAMING_TABLE)


def _is_inspected(code, instruction):
    """Return whether an instruction reads an attribute that differs between an object and its stand-in."""
    if instruction[1] not in _ATTRIBUTE:
        return False
    name = code.co_names[instruction[2] >> _ATTRIBUTE_SHIFT]
    return name in _IDENTITY or name in _INSPECTED


def rename(code, names, sources, imports, held, owners, lines=None, kept=(), hidden=frozenset(), made=None, outer=None):
    """Return `code` with `names` and `imports` renamed, which keeps the objects in `kept` alive.

    A pair in `names` is a name with an attribute that is read from its value, which has a private name of its own.
    Names in `sources` are renamed only where `_is_in_use` holds, since a class must stay itself in `isinstance`,
    `except` and comparisons; the values of this dict say which are enumerations.  Code that replaces the value is
    inserted where the value of a global name in `held` is returned or read from and that of a free variable is loaded,
    where attributes are read from a free variable in `owners`, and for new arrays into which code stores; on `lines`,
    for all results that may be new arrays.
    `hidden` are names of a class body, which its annotation scopes see before globals.  `made` are names of functions
    that the enclosing code makes, or False if none of its variables is called.  `outer` are the free variables of the
    outermost code.
    """
    outer = frozenset(code.co_freevars) if outer is None else outer
    raw, added, wide, (instructions, naming) = bytearray(code.co_code), {}, {}, _naming(code)
    own = {code.co_names[instructions[k][2]] for k in naming if instructions[k][1] == _STORE_NAME}
    hidden = own | hidden | _OF_CLASS
    if made is None:
        made = set() if read(code).calls_variables else False
    if made is not False:
        made = _made(code, instructions, made)
    inserted, methods = {}, plain_methods(code)
    if lines is not None and (results := _results_on(code, instructions, lines)):
        inserted = dict.fromkeys(results, _seen_by(added.setdefault(RESULTS, len(code.co_names))))
    for offset in () if lines is None else _operators_on(code, instructions, lines):
        index = added.setdefault(OPERANDS, len(code.co_names) + len(added))
        inserted[offset] = inserted.get(offset, b"") + _PAIR + _seen_by(index) + _UNPAIR
    for k in places(instructions, _ASSIGNING_TABLE):
        index = added.setdefault(ASSIGNED, len(code.co_names) + len(added))
        inserted[instructions[k][0]] = _loaded(index) + _CALL_NONE
    for offset in _at_cells(code, instructions, _STORE_DEREF, outer):
        inserted[offset] = _loaded(added.setdefault(CELL_ASSIGNED, len(code.co_names) + len(added))) + _CALL_NONE
    for k in naming:
        before, (i, op, arg, width), shift = instructions[k - 1], instructions[k], 0
        if op in _ATTRIBUTE and _reads_method(code, instructions, k, names, methods):
            index = added.setdefault(RECEIVER, len(code.co_names) + len(added))
            inserted[before[0]] = inserted.get(before[0], b"") + _seen_by(index)
            continue
        if op == _LOAD_GLOBAL:
            shift = 1
            name = code.co_names[arg >> 1]
            following = instructions[k + 1]
            alias = None if _is_inspected(code, following) else names.get(name)
            if following[1] in _ATTRIBUTE:
                alias = names.get((name, code.co_names[following[2] >> _ATTRIBUTE_SHIFT]), alias)
            if name in held and _is_held(instructions, k):
                inserted[i] = _seen_by(added.setdefault(SEEN, len(code.co_names) + len(added)))
                continue
            if name in sources and not _is_in_use(code, instructions, k, sources[name]):
                if _is_made(code, before):
                    inserted[i] = _seen_by(added.setdefault(CALLEE, len(code.co_names) + len(added)))
                continue
        elif op in _LOADS:
            name = code.co_names[arg]
            alias = None if name in hidden or name in sources else names.get(name)
        elif op == _IMPORT_NAME:
            alias = imports.get((code.co_names[arg], *(_import_form(code, instructions, k) or ())))
            module, in_use = IN_USE.get(alias, (None, None))
            if module is not None and _are_only_used(code, instructions, k, module):
                alias = in_use
        elif op in _ATTRIBUTE and instructions[k - 1][1] in _ATTRIBUTE_OF and (use := _use(code, instructions, k)):
            shift = _ATTRIBUTE_SHIFT
            name = code.co_names[arg >> shift]
            holder = _holder(names, *use[1])
            alias = use[0] + name if _has_stand_in(holder, use[0], name) else None
        elif _needs_plain_operands(op, before):
            index = added.setdefault(_PLAIN_OPERANDS[op], len(code.co_names) + len(added))
            inserted[before[0]] = inserted.get(before[0], b"") + _PAIR + _seen_by(index) + _UNPAIR
            continue
        else:
            continue
        if alias is None:
            continue
        if op == _LOAD_GLOBAL and alias + USED in BUILTINS and _is_used(code, instructions, k):
            alias += USED
        arg = added.setdefault(alias, len(code.co_names) + len(added)) << shift | arg & shift
        if arg >> width:
            wide[i] = arg
            continue
        for back in range(width // 8):
            raw[i + 1 - 2 * back] = arg >> 8 * back & 255
    for offset, *_ in _fresh_results(code, instructions):
        inserted.setdefault(offset, _seen_by(added.setdefault(RESULT, len(code.co_names) + len(added))))
    calls = [] if made is False else _callees(code, instructions, made)
    if calls:
        inserted |= dict.fromkeys(calls, _seen_by(added.setdefault(CALLEE, len(code.co_names) + len(added))))
    for offset in _at_cells(code, instructions, _LOAD_DEREF, held):
        inserted[offset] = _seen_by(added.setdefault(SEEN, len(code.co_names) + len(added)))
    for offset in _owner_loads(code, instructions, owners):
        index = added.setdefault(ATTRIBUTES, len(code.co_names) + len(added))
        inserted[offset] = inserted.get(offset, b"") + _seen_by(index)
    context = names, sources, imports, held, owners, lines, kept, own, made, outer
    consts = tuple(
        rename(const, *context) if type(const) is types.CodeType else const for const in code.co_consts
    )
    if not added and all(map(lambda a, b: a is b, consts, code.co_consts)):
        return code
    renamed = code.replace(co_names=code.co_names + tuple(added), co_code=bytes(raw), co_consts=(*consts, *kept))
    if not (wide or inserted):
        return renamed
    if inserted:
        renamed = renamed.replace(co_stacksize=renamed.co_stacksize + 2)
    return relocated(renamed, wide, inserted)
