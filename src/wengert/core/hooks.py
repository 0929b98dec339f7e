"""Every call from a module of `core` to one above it, or from `wengert.errors` and `wengert.registry` to `core`.

Imports point one way: levels < tape < operands < dispatch < modes.
Where a lower module has to call a higher one it declares a name, and this module sets it.
The package `wengert.core` imports this module, so all are set before any module of `core` is used.
"""

from __future__ import annotations

from wengert import errors, registry
from wengert.core import levels
from wengert.core.dispatch import arguments, checks, dispatch, matrices, methods
from wengert.core.modes import forward, nested
from wengert.core.operands import var
from wengert.core.tape import local_derivatives, tape

# An error of a traced value is noted at the running derivatives when it is made.
errors.Refusal.remember = staticmethod(levels.remember)

# The product in which 0 times inf is 0: of floats and vectors in C, of recorded operands one tape entry.
registry.strong_product = tape.strong_product
registry.record_strong = dispatch.record_strong

# A rule of one direction is transposed by recording and sweeping it.
local_derivatives.transposed = nested.transposed

# NumPy calls the protocols and methods of operands, which stand below the functions that answer them.
var.set_modules((arguments, checks, dispatch, forward, matrices, methods))
