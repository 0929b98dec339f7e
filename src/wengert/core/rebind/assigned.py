"""Puts the user's objects back into globals and cells to which followed code assigned what stands for them.

While a derivative runs, ``global current; current = self`` keeps the proxy of the object, so that the methods that
other code calls on it are followed.  When the outermost derivative ends, the object itself is assigned.
"""

import functools
import sys
import types
import weakref

from wengert.core.levels import at_end
from wengert.core.rebind.follow import DATA, REGISTERED, assigned_cells, content_of
from wengert.core.rebind.identity import whole
from wengert.core.rebind.rename import read

_closures = weakref.WeakSet()  # functions that assign variables of enclosing functions, as far as they have copies


def note_closure(f):
    """Note that a copy of a function may assign variables of functions that enclose it."""
    _closures.add(f)


def note_cell_assignment():
    """Note that such a variable has been assigned."""
    at_end("cells", _put_back_cells)


def _put_back_cells():
    for f in [*_closures]:
        for cell in assigned_cells(f):
            value = content_of(cell)
            if type(value) not in DATA and (own := own_object(value)) is not value:
                cell.cell_contents = own


def note_assignment():
    """Note that the calling code has assigned a global."""
    frame = sys._getframe(1)
    space, code = frame.f_globals, frame.f_code
    at_end((id(space), id(code)), functools.partial(_put_back, space, code))


def _put_back(space, code):
    """Assign the user's own objects to the globals that a code object assigns."""
    for name in read(code).assigned.intersection(space):
        value = space[name]
        if type(value) not in DATA and (own := own_object(value)) is not value:
            space[name] = own


def own_object(value):
    """Return the user's object for its proxy, stand-in, copy or replacement, and other values unchanged."""
    if type(value) is types.FunctionType:
        f = value.__globals__.get(value.__name__)
        if f is not value and type(f) is types.FunctionType and f.__dict__ is value.__dict__:
            return f
    if (found := whole(value)) is not value or not (callable(value) or isinstance(value, types.ModuleType)):
        return found
    return next((own for own, replacement, _ in REGISTERED.values() if replacement is value), value)
