"""Runs functions with names bound to differentiable replacements, so that plain `np.zeros(n)` can hold traced values.

Method.  A function is copied with a code object in which each name that *holds* a registered object (compared by
identity: the module numpy, numpy.zeros, a ufunc) is replaced by a private name of its replacement (`rename`).
Functions reached through a global name, a closure cell or an attribute of a module are followed, that is, copied too,
whatever package they belong to (`follow`).  Methods are reached by attribute, so an object is replaced by a *proxy*: an
instance of a subclass whose methods are copies, sharing the object's `__dict__`, slots or memory.  Attributes with
values to be replaced are descriptors of that subclass, which return the replacement and write to the object.  Modules,
imports and containers of functions are replaced by stand-ins that replace what is read from them (`modules`, `tables`).

The package, from below: `rename` renames code; `follow` decides which code is followed; `tables` holds containers of
functions;
`registration` holds the stand-ins; `proxies` and `modules` make proxies; `plan` decides for one function or object and
keeps the result; this module looks plans up, or makes them.

Invariants
- Globals, `__dict__`, defaults, and cells that hold nothing to be replaced are shared with f: copies see changes, and
  writes take effect.  A name or a cell that the code itself assigns is never renamed.
- A copy is reused while everything inspected to build it is unchanged: values of names, cells and attributes, code
  and defaults of followed functions, methods of followed classes.  Otherwise it is rebuilt.  Values of a type that is
  never followed are compared by type only.
- No user object is written to, and none is kept alive except those that a module holds: the tables have weak keys,
  and the number of plans that may keep their own key alive (those with classes or of namespaces made by `exec`) is
  bounded.

Cost.  A plan explores f, the functions made inside of it, and the objects that it holds.  Functions and classes of
modules have plans of their own, which are made when they are first called (`stubs`), so that only code that runs is
inspected.  A call from outside checks the plans of all functions that f has used so far; each function has one copy,
which others hold, and which is updated in place if its plan is made anew.

Classes stay themselves, so that identity and `isinstance` hold, and are replaced where they are called or read from:
by a global name, an attribute of a module, a variable (`rename` inserts a call of `_callee`), and an attribute of a
class or of an object that is reached before the call; enumerations also where code iterates over a global name or
indexes it.  Proxy classes are equal to their originals as keys.

Limits.  Not followed: C functions, the packages that `follow` excludes, methods of classes in attributes of objects
that f makes itself, functions that C code calls or, before Python 3.13, returns to be called at once, functions in
the middle of a long container, and attributes of objects beyond the first hundred objects.  No proxies for objects
with state in C other than that of an array, a tuple, a dictionary or a list, such as subclasses of set, nor for classes
with `__del__`. `is`, hashes by identity and `type(x) is C` distinguish proxies and copies from originals. A
replaced cell is no longer shared with functions that are not followed. A name that a callee or another thread rebinds
*during* a call takes effect at the next call; attributes of objects and modules take effect at once.
"""

import functools
import operator
import types
from _thread import get_ident  # `threading` takes 0.5 ms to import

from wengert.core.rebind import follow, registration
from wengert.core.rebind.assigned import note_assignment, note_cell_assignment
from wengert.core.rebind.follow import REGISTERED, is_differentiated, is_followed, is_followed_function
from wengert.core.rebind.identity import compared, contained
from wengert.core.rebind.modules import ModuleInUse, module_proxy
from wengert.core.rebind.plan import Plan
from wengert.core.rebind.proxies import share, share_tuple
from wengert.core.rebind.registration import is_constant, is_registered, lookup, passed, plans, running_plan, state
from wengert.core.rebind.rename import ASSIGNED, BUILTINS, CALLEE, CELL_ASSIGNED, COMPARED, CONTAINED, SEEN
from wengert.core.rebind.stores import written_parameters
from wengert.core.rebind.stubs import stub_of
from wengert.core.rebind.tables import TABLES
from wengert.core.rebind.wrappers import dispatching, partial_like

_OWN = __name__.partition(".")[0]
_MAX_ATTEMPTS = 8  # number of plans made for a function whose surroundings other threads keep changing

#: name of a function or class -> why it is not followed, if user code raised when it was inspected
unplanned = {}


def in_use(value):
    """Replacement of a value that is called or read from."""
    plan = running_plan.get()
    if plan is not None and id(value) in plan.changed:
        return plan.build(value, plan.memo)
    if isinstance(value, type):
        if is_registered(value):
            return REGISTERED[id(value)][1]
        return _proxy_of(value, _plan_of(value)) if is_followed(value) else value
    if is_constant(value):
        return value
    return ModuleInUse(value) if follow.is_followed_module(value) else _replaced(value)


def rebound(f, is_root=False, count=2):
    """Return `f` with registered objects replaced in its names and in those of the functions that it reaches.

    Parameters
    ----------
    f : callable
    is_root : bool
        Whether f is the function of a derivative, which works on copies of the arrays that it writes into.
    count : int
        Number of arguments of the call; a single one holds traced values, so that it needs no copy.

    Returns
    -------
    callable
        A copy of `f`, or `f` itself if there is nothing to rename or it is not Python code.
    """
    state.now = object()
    return _rebound(f, is_root and (count > 1 or type(f) is not types.FunctionType))


def _rebound(f, is_root=False):
    """Return `rebound(f)`; calls from renamed code rely on the checks made since the last call from outside."""
    if type(f) is not types.FunctionType:
        follow.is_inert(f)  # registers wrappers in C when one is first met
        return _rebound_root(f) if is_root else _rebound_object(f)
    plan = _current_plan(f)
    if plan is None:
        if follow.is_dispatcher(f):
            return dispatching(f)
        plan = _plan_for(f)
    if plan is None:
        return REGISTERED[id(f)][1] if id(f) in REGISTERED else f
    if is_root and plan.stores != ():
        if plan.stores is None:
            plan.stores = written_parameters(f)
        if plan.stores:
            return with_own_copies(f, _rebound(f))
    if plan.run is None:
        return f
    copy = plan.copy
    if copy is None:
        copy = plan.copy_function(f, plan.run, {})
    if not plan.copying:
        return copy
    run = plan.copies.get(id(f)) if copy is plan.copy else None
    if run is None:
        run = plan.wrap_copy(f, copy)
        if copy is plan.copy:
            plan.copies[id(f)] = run
    return run


def _current_plan(root):
    """Return the plan of `root`; None if there is none, or if the objects it was made from have changed.

    Plans of the functions and classes that it uses are made anew if necessary, except while this thread makes plans.
    """
    plan, now = plans.get(id(root)), state.now
    if plan is not None and (passed or state.is_settling):
        _settle()
    if plan is None or plan.checked is now:
        return plan
    if not plan.holds(root):
        return None
    if state.maker == get_ident():
        return plan  # checked with all that it uses when code is about to run
    met, waiting = {plan}, [*plan.current_use()] if plan.lazy else ()
    for value in waiting:
        used = plans.get(id(value))
        if used is None or used.checked is now or used in met:
            continue
        if not used.holds(value) and (used := _bind(value)) is None:
            registration.forget_plans()
            return None
        met.add(used)
        waiting += used.current_use()
    if plans.get(id(root)) is not plan:  # all plans were dropped
        return None
    for used in met:  # only now, since other threads rely on it
        used.checked = now
    return plan


def _plan_for(root):
    """Return a plan for `root`, made anew if necessary; None if there is none, see `_bind`."""
    for _ in range(_MAX_ATTEMPTS):
        plan = _current_plan(root)
        if plan is not None:
            break
        plan = _bind(root)
        if plan is None or state.maker == get_ident():
            break
    return plan


def _bind(root):
    """Make and return a plan for `root`.

    Return None if `root` is registered, or if inspecting it runs user code that raises (see `unplanned`).
    """
    with registration.lock:
        if is_registered(root):
            return None
        plan = plans.get(id(root))
        if plan is not None and (id(root) in state.making or plan.holds(root)):
            return plan  # another thread, or this one, has made it, or is making it
        was_maker, state.maker = state.maker, get_ident()
        state.making.add(id(root))
        try:
            plan = _new_plan(root)
        except Exception as error:
            note_unplanned(root, error)
            return None
        finally:
            state.making.discard(id(root))
            state.maker = was_maker
        plans[id(root)] = plan
        if isinstance(root, (type, types.FunctionType)) and registration.is_simple(root):
            state.use += 1
        _settle()
    return plan


def _settle():
    """Replace the stubs of functions that code passes on; wait for another thread that does so."""
    with registration.lock:
        was_settling, state.is_settling = state.is_settling, True
        try:
            while passed and not state.making:
                name, value = passed.pop()
                BUILTINS[name] = _resolved(value)
        finally:
            state.is_settling = was_settling


def _new_plan(root):
    known = registration.templates.get(root.__code__) if type(root) is types.FunctionType else None
    plan, old = (known and known.of_function(root)) or Plan(root), plans.get(id(root))
    if old is None or plan.takes_over(old, root):
        return plan
    registration.retire_plans()  # others hold the replacement by the old plan
    return Plan(root)


def _resolved(value):
    """Return the replacement of a function or a class by its own plan; a stub while that plan is being made."""
    with registration.lock:  # another thread may be making it
        if id(value) in state.making:
            return stub_of(None, value)
    return _rebound(value) if type(value) is types.FunctionType else _proxy_of(value, _plan_of(value))


def _is_own(error):
    """Return whether this package raised an error, rather than user code that ran while an object was inspected."""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return follow.top_package(last.tb_frame.f_globals.get("__name__")) == _OWN


def note_unplanned(root, error):
    """Note for `explain` that user code raised when `root` was inspected; re-raise any other error."""
    if _is_own(error):
        raise error
    unplanned[full_name(root)] = f"inspecting it raised {type(error).__name__}: {error}"


def full_name(value):
    """Module and name of a function or a class, or of the class of an object."""
    owner = value if isinstance(value, (type, types.FunctionType)) else type(value)
    return f"{owner.__module__}.{owner.__qualname__}"


def _plan_of(owner):
    """Return the plan of a class or object; an object that holds nothing to be replaced has the plan of its class."""
    root = cls = owner if isinstance(owner, type) else type(owner)
    has_own = owner is not cls and cls.__dictoffset__ and not follow.holds_member_values(cls)
    if has_own:
        kinds = {*map(type, owner.__dict__.copy().values())}
        if not kinds <= follow.INERT or (not kinds.isdisjoint(TABLES) and follow.tables_of(owner)):
            root = owner
    plan = _current_plan(root)
    if plan is None and (follow.can_have_proxy if owner is cls else follow.can_share)(cls):
        plan = _plan_for(root)
    return plan


def _proxy_of(owner, plan):
    """Return the proxy of a class or object, or the class or object itself if it needs no proxy."""
    if isinstance(owner, tuple) and plan is not None and not isinstance(plan.run, type):
        new = share_tuple(owner, type(owner))  # no method of its class is replaced
        return owner if all(map(operator.is_, tuple.__iter__(new), tuple.__iter__(owner))) else new
    if plan is None or plan.run is None:
        return owner
    if isinstance(owner, type):
        return plan.run
    if plan.run is True:
        return plan.object_proxy(owner, {})
    if not plan.copying:
        return share(owner, plan.run)
    proxy = plan.object_proxy(owner, {})
    plan.recipes.pop(id(owner), None)  # the plan belongs to the class and may outlive this object
    return proxy


def _rebound_root(f):
    """Return the replacement of the function of a derivative that is not a plain function."""
    kind, run = type(f), _rebound_object(f)
    if kind is functools.partial:
        return partial_like(f, [_rebound(f.func, True), *run.args], run.keywords)
    return run if is_differentiated(f) else with_own_copies(f, run)


def with_own_copies(f, run):
    """Wrap `run`, the replacement of a differentiated function, to pass copies of the arguments that it writes into."""
    kind, bound = type(f), 0
    if kind is functools.partial:
        return partial_like(run, [with_own_copies(f.func, run.func), *run.args], run.keywords)
    if kind is not types.FunctionType:
        is_special = kind in follow.SPECIAL
        method = f if kind is types.MethodType else None if is_special else getattr(f, "__call__", None)  # noqa: B004
        f, bound = getattr(method, "__func__", None), 1
        if type(f) is not types.FunctionType or not is_followed_function(f):
            return run
    indices = written_parameters(f)
    return lookup.with_own_copies(f, run, indices, bound) if indices and indices[-1] >= bound else run


def _rebound_object(f):
    kind = type(f)
    if kind is types.MethodType:
        func, owner = f.__func__, f.__self__
        plan = _plan_of(owner)
        proxy = _proxy_of(owner, plan)
        if proxy is owner:
            copy = _rebound(func)
            return f if copy is func else types.MethodType(copy, owner)
        method = plan.methods.get(func) if type(func) is types.FunctionType else None
        if method is None:
            name = getattr(func, "__name__", "")
            if isinstance(owner, type) or getattr(type(owner), name, None) is not func:
                return types.MethodType(_rebound(func), proxy)
            method = plan.methods[func] = getattr(type(proxy), name)
        return types.MethodType(method, proxy)
    if kind is functools.partial:
        args = [*map(_replaced, f.args)]
        keywords = {name: _replaced(arg) for name, arg in f.keywords.items()}
        return partial_like(f, [_rebound(f.func), *args], keywords)
    if kind in follow.MAKERS:
        inner, make = follow.MAKERS[kind]
        wrapped = inner(f)
        return make(f, in_use(wrapped) if isinstance(wrapped, type) else _rebound(wrapped))
    if kind is staticmethod:
        return _rebound(f.__func__)
    if isinstance(f, type) or is_differentiated(f):
        return f
    if (func := follow.py_func_of(f)) is not None:
        return _rebound(func)
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if type(call) is not types.FunctionType:
        return f
    proxy = _proxy_of(f, _plan_of(f))
    if proxy is not f:
        return proxy
    copy = _rebound(call)
    return f if copy is call else types.MethodType(copy, f)


def _replaced(value):
    """Replacement of an object met in an argument of a partial or in an attribute."""
    plan = running_plan.get()
    if plan is not None and id(value) in plan.changed:
        return plan.build(value, plan.memo)
    if type(value) in TABLES:
        return registration.stand_in(value) if follow.is_table(value) else value
    if is_constant(value):
        return registration.constant(value)
    if follow.is_followed_module(value):
        return module_proxy(value)
    if isinstance(value, type) or is_differentiated(value) or not is_followed(value):
        return REGISTERED[id(value)][1] if is_registered(value) and id(value) not in registration.CLASSES else value
    if type(value) in (types.FunctionType, *follow.WRAPPERS):
        return _rebound(value)
    return _rebound(f) if (f := follow.py_func_of(value)) else _proxy_of(value, _plan_of(value))


def _callee(value):
    """Replacement of the value of a variable that is called: a class, a registered function, or a function of a module.

    Other functions are copies already, or were made by followed code.
    """
    if type(value) is types.FunctionType:
        is_of_module = value.__globals__.get(value.__name__) is value
        return _rebound(value) if is_of_module and is_followed_function(value) else value
    if isinstance(value, type):
        return value if hasattr(value, "_wengert_original") else in_use(value)
    return REGISTERED[id(value)][1] if id(value) in REGISTERED else value


lookup.in_use, lookup.replaced, lookup.resolved = in_use, _replaced, _resolved
BUILTINS[CALLEE], BUILTINS[SEEN] = _callee, _replaced
BUILTINS[COMPARED], BUILTINS[CONTAINED] = compared, contained
BUILTINS[ASSIGNED], BUILTINS[CELL_ASSIGNED] = note_assignment, note_cell_assignment
