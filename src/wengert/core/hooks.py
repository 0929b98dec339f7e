"""Installs the calls from modules of `core` to modules above them, and from `errors` and `registry` to `core`.

Imports point one way: levels < tape < operands < dispatch < modes.
A lower module that calls a higher one declares a name, which this module sets.
The package `wengert.core` imports this module, so all names are set before any module of `core` is used.
"""

from __future__ import annotations

from wengert import errors, registry
from wengert.core import frames, levels
from wengert.core.dispatch import arguments, checks, dispatch, instances, methods, repeated, subclasses
from wengert.core.modes import forward
from wengert.core.operands import var
from wengert.core.tape import local_derivatives, products, tape
from wengert.deferred import deferred

matrices = deferred("wengert.core.dispatch.matrices")
nested = deferred("wengert.core.modes.nested")
sparse_callers = deferred("wengert.core.dispatch.sparse_callers")
subclass_interface = deferred("wengert.core.dispatch.subclass_interface")
text = deferred("wengert.core.dispatch.text")

# When the error of a traced value is created, the running derivatives note it.
errors.Refusal.remember = staticmethod(levels.remember)

# Products in which 0 times inf is 0: in C for floats and arrays of them, one tape entry for traced operands.
registry.strong_product = products.strong_product
registry.strong_matmul_product = products.strong_matmul
registry.record_strong = dispatch.record_strong

# Stores into an array update its windows.
registry.note_windows = var.note_windows
registry.is_passive = var.is_passive

# A linear rule is transposed by recording and sweeping it.
local_derivatives.transposed = lambda *args: nested.transposed(*args)

# Pullbacks that are computed repeatedly are replaced by programs.
tape.set_repeated_pullback(repeated.pulled)

# NumPy calls protocols and methods of operands; their implementations are in modules above the operands.
var.set_modules((arguments, checks, dispatch, forward, matrices, methods, sparse_callers, subclasses, instances))
dispatch.subclasses = methods.subclasses = subclasses
dispatch.instances = methods.instances = instances
instances.define_interface = lambda: subclass_interface.define()

# The text operator % converts values to floats in C.
frames.shows_text = lambda frame: text.is_shown_by_percent(frame)
