"""The objects that were inspected to make a plan, and the check that they have not changed."""

import functools
import sys
import types
import weakref

from wengert.core.rebind import follow
from wengert.core.rebind.bytecode import names_in
from wengert.core.rebind.follow import REGISTERED, held_by, space_of
from wengert.core.rebind.registration import is_simple, plans
from wengert.core.rebind.rename import forget, read
from wengert.core.rebind.tables import TABLES

_GROWING = TABLES - {tuple}
_NEVER = ((bool, None, None),)  # an entry of `fixed` that no check accepts, since bool(None) is not None


def when_part_dies(root):
    """Return a callback of weak references to objects that the plan of `root` inspected, which ends the plan.

    The plan of a function or class of a module stays, but no longer holds: a new one takes over its copy, to which
    copies of other functions may refer.
    """
    is_of_module = type(root) is types.FunctionType and follow.is_module_namespace(root.__globals__)
    may_be_used = isinstance(root, type) or is_of_module
    return functools.partial(_expire if may_be_used else forget, plans, id(root))


def _expire(table, key, ref):
    plan = table.get(key)
    if plan is not None and any(each is ref for each in plan.refs):  # or the reference is one of an older plan
        plan.fixed, plan.checked = _NEVER, None


class Inspected:
    """The objects that were inspected to decide how a function runs, or how a class or object is replaced.

    Objects that a module holds anyway are compared by identity: `fixed` holds names with their values, as
    (get, name, value), and `codes` holds functions.  Of the values of names in `kinds`, only the types are compared.
    `sizes` and `orders` detect new methods and bases, and `data` new functions in containers of data.  All other
    objects are known by id: `cells` of the root, `holders` (objects with their attributes), and `loose`.  The death of
    any of them ends the plan, so that a reused id is never mistaken for an old one.

    `live` holds weak references to stand-ins of containers, which are renewed for C code when the plan is checked.

    Functions and classes of modules, in `lazy`, have plans of their own, which are made when they are used (`stubs`).
    """

    __slots__ = ("cells", "code", "codes", "data", "defaults", "fixed", "holders", "is_plain", "kinds", "lazy",
                 "live", "loose", "orders", "refs", "sizes")  # fmt: skip

    def watch(self, root, nodes, objects, plain):
        """Save everything that `holds` compares."""
        met, fixed, kinds = {*map(id, nodes), *map(id, plain), *self.lazy}, {}, {}
        codes, sizes, holders, data, self.loose = [], {}, [], {}, []
        end = when_part_dies(root)
        self.refs = [weakref.ref(root, functools.partial(forget, plans, id(root)))]
        self.code = root.__code__ if type(root) is types.FunctionType else None
        self.defaults = self.code and follow.signature_of(root)
        self.cells = ()
        if self.code and root.__closure__:
            cells = enumerate(zip(follow.marks_of(map(follow.content_of, root.__closure__)), self.code.co_freevars))
            self.cells = tuple((k, mark) for k, (mark, name) in cells if name not in read(self.code).written)

        def note(space, name):
            value = space.get(name)
            if type(value) in _GROWING and not follow.is_table(value):
                data[id(space), name] = space.get, name
            if type(value) in follow.SPECIAL or id(value) in met or id(value) in REGISTERED:
                fixed[id(space), name] = space.get, name, value
            else:
                kinds[id(space), name] = space.get, name, type(value)

        for f in plain:
            codes.append((f, f.__code__, f.__defaults__))
            for name in names_in(f.__code__):
                note(f.__globals__, name)
        for value in nodes:
            is_root, is_function = value is root and self.code is not None, type(value) is types.FunctionType
            has_names = is_function and not value.__kwdefaults__ and follow.is_module_namespace(value.__globals__)
            state = follow.own_state_of if has_names else follow.state_of
            if has_names or (is_function and is_simple(value, is_root)):
                for name in read(value.__code__).names:
                    note(value.__globals__, name)
                for _, module, name, _ in follow.module_reads(value):
                    note(vars(module), name)
                for name, form, level in read(value.__code__).imports:
                    if form != "from" and not level:
                        kinds[None, name] = sys.modules.get, name, type(sys.modules.get(name))
            if is_function and is_simple(value, is_root):
                if not is_root:
                    codes.append((value, value.__code__, value.__defaults__))
                if is_root or not value.__kwdefaults__:
                    continue
            elif isinstance(value, type) and is_simple(value):
                space = vars(value)
                for name, part in space.copy().items():
                    if type(part) in follow.METHOD_TYPES:
                        fixed[id(value), name] = space.get, name, part
                    elif not name.startswith("__"):
                        kinds[id(value), name] = space.get, name, type(part)
                sizes[value] = space, len(space)
                continue
            if type(value) in TABLES:  # read live by their stand-ins
                continue
            try:
                ref = weakref.ref(value, end)
            except TypeError:  # a property or similar: its class and its function are watched
                continue
            self.refs.append(ref)
            if type(value) is types.FunctionType:
                self.refs.append(weakref.ref(value.__code__, end))
            parts = space_of(value).copy().values() if id(value) in objects else follow.parts_of(value)
            for part in parts:
                follow.is_inert(part)  # notes its type, on which the following depends
            if id(value) in objects:
                holders.append((ref, id(type(value)), id(space_of(value)), held_by(space_of(value))))
            else:
                self.loose.append((ref, state(value), state))
        self.fixed, self.kinds = tuple(fixed.values()), tuple(kinds.values())
        self.data = tuple(data.values())
        self.codes, self.sizes = tuple(codes), tuple(sizes.values())
        bases = {base for cls in sizes for base in cls.__mro__[1:]}
        self.orders = tuple((cls, cls.__mro__) for cls in sizes if cls not in bases)
        self.holders = tuple(holders)
        has_defaults = self.code and (root.__defaults__ or root.__kwdefaults__)
        parts = has_defaults, data, codes, sizes, self.orders, self.cells, holders, self.loose
        self.is_plain = not any(parts)

    def holds(self, root):
        """Return whether all that was inspected to make the plan is unchanged."""
        if self.code is not None and root.__code__ is not self.code:
            return False
        for get, name, value in self.fixed:
            if get(name) is not value:
                return False
        for get, name, kind in self.kinds:
            if type(get(name)) is not kind:
                return False
        for ref in self.live:
            if (stand_in := ref()) is not None:
                stand_in._wengert_renew()
        if not self.is_plain:
            return self.rest_holds(root)
        return self.code is None or not (root.__defaults__ or root.__kwdefaults__)

    def rest_holds(self, root):
        """Check the parts that most plans do not have."""
        if self.code and follow.signature_of(root) != self.defaults:
            return False
        for get, name in self.data:
            if follow.ends_in_code(get(name)):
                return False
        for f, code, defaults in self.codes:
            if f.__code__ is not code or f.__defaults__ is not defaults:
                return False
        for space, size in self.sizes:
            if len(space) != size:
                return False
        for cls, mro in self.orders:
            if cls.__mro__ is not mro:
                return False
        if self.cells:
            cells = root.__closure__
            for k, mark in self.cells:
                try:
                    value = cells[k].cell_contents
                except ValueError:
                    value = None
                if type(value) is not mark and id(value) != mark:
                    return False
        for ref, kind, space, held in self.holders:
            value = ref()
            if value is None or id(type(value)) != kind or id(space_of(value)) != space:
                return False
            if held_by(space_of(value)) != held:
                return False
        for ref, known, state_now in self.loose:
            value = ref()
            if value is None or state_now(value) != known:
                return False
        return True
