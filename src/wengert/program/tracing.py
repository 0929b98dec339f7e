"""A function of arrays and numbers to a list of instructions."""

from __future__ import annotations

import numpy as np

import wengert.numpy  # noqa: F401  (makes the names of NumPy known to the rebinding of code)
from wengert.core import levels
from wengert.core.pullback import independent
from wengert.core.tape import Tape
from wengert.program.definitions import Definitions


def listed(function, examples: list, name: str, exact: bool = False):
    """What a function of arrays and numbers does, as a list with one input for each example.

    The function returns a list of operands; what else it touches is recorded as constants.
    """
    tape = Tape(name, recording=True)
    try:
        with levels.recording(tape):
            inputs = [independent(tape, np.float64(x) if type(x) is float else x) for x in examples]
            code = Definitions(tape, exact)
            for number, x in enumerate(inputs):
                code.take_input(x, number)
            tape.reader = code.keep_up  # from time to time, so that a long list needs no memory for its arrays
            found = function(*inputs)
        code.run()
        code.listing.outputs = [code.output(y) for y in found]
        return code.listing
    finally:
        tape.reader = None
        tape.close()
