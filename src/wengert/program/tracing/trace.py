"""Traces a function of arrays and scalars to IR."""

from __future__ import annotations

from contextvars import ContextVar

import numpy as np

import wengert.numpy  # noqa: F401  (registers NumPy's names for the rebinding of code)
from wengert.core import levels
from wengert.core.modes.pullback import carried, independent
from wengert.core.operands.var import lost_searches, take_searches
from wengert.core.rebind.new_arrays import rerun_if_refused
from wengert.core.tape.memory import Level
from wengert.core.tape.tape import Tape
from wengert.program.ir.ir import Listing, dependent
from wengert.program.ir.reference import evaluated
from wengert.program.tracing.refusals import NotReplayable
from wengert.program.tracing.ssa import Definitions


class Recording:
    """A trace in progress, for callers that insert instructions which no tape entry records.

    Attributes
    ----------
    code : Definitions
    inputs : list
        Example values of the inputs: those of the function, then those of `unknowns`.
    unknowns : list
        Temporary inputs, such as the unknowns of equations during their trace. They and every value that depends on
        them are removed at the end.
    exact : bool
    disabled : frozenset of str
        Passes disabled for the traced program.
    warns : bool
        Whether to warn about what happens at the examples: they come from the user and are not arbitrary.
    """

    def __init__(self, tape, code, examples, exact, disabled, warns=True):
        self.tape, self.code, self.inputs = tape, code, list(examples)
        self.exact, self.disabled, self.warns = exact, disabled, warns
        self.unknowns: list[int] = []
        self._values: list = []

    def unknown(self, x):
        """Return an operand for a temporary input with this example value."""
        operand = independent(self.tape, x)
        self.code.take_input(operand, len(self.inputs))
        self.unknowns.append(self.code.listing.inputs.pop())
        self.inputs.append(x)
        return operand

    def value(self, v: int):
        """Return the value of IR value `v` at the example inputs."""
        if v >= len(self._values):
            evaluated(self.code.listing, self.inputs, v + 1, self._values)
        return self._values[v]

    def called(self, call, type: tuple, y):
        """Insert a call whose result `y` at the example inputs is known; return its operand."""
        listing = self.code.listing
        v = listing.call(call, type)
        if v:
            self.value(v - 1)
        self._values.append(y)
        operand = independent(self.tape, y)
        self.code.name(operand, v)
        return operand


#: the innermost active trace
recording: ContextVar[Recording | None] = ContextVar("wengert_program_recording", default=None)


@rerun_if_refused
def listed(
    function,
    examples: list,
    name: str,
    exact: bool = False,
    disabled: frozenset = frozenset(),
    on_search=None,
    warns: bool = True,
):
    """Trace a function of arrays and scalars to IR with one input per example.

    The function returns a list of operands; values from outside are recorded as constants.
    If comparisons of a loop contract, as in a search for a root, ``on_search()`` is called at the end.
    Without `warns`, the examples are arbitrary; see `Recording`.
    """
    tape = Tape(name, recording=True)
    token = None
    try:
        with levels.recording(tape), levels.until_recorded():
            inputs = [independent(tape, np.float64(x) if type(x) is float else x) for x in examples]
            code = Definitions(tape, exact)
            for number, x in enumerate(inputs):
                code.take_input(x, number)
            made = Recording(tape, code, examples, exact, disabled, warns)
            token = recording.set(made)
            tape.reader = code.process_new  # called periodically, so that the tape can free arrays during a long trace
            try:
                found = function(*inputs)
            except Exception as error:
                levels.explain(tape.level, error)
                raise
        _check_end(tape.level)
        if on_search is not None and take_searches(tape.level):
            on_search()
        code.run()
        code.listing.outputs = [code.output(y) for y in found]
        return _without_unknowns(code.listing, made.unknowns) if made.unknowns else code.listing
    finally:
        if token is not None:
            recording.reset(token)
        tape.reader = None
        tape.close()


def _check_end(level):
    """Raise if the function caught an error of the trace; f then runs eagerly, without that error."""
    if level.refused:
        error = levels.swallowed(level, level.name)
        error.runs_as_it_is = True
        raise error
    levels.check_end(level)


def searches_of(function, examples: list, varied: int, name: str) -> tuple:
    """Return file and line of loops that find a root but lose its derivative in the first `varied` examples.

    Calls the function in forward mode with an arbitrary direction; returns nothing if that fails.
    """
    level, rng = Level(name, 0, 1), np.random.default_rng(0)
    inputs = [np.float64(x) if type(x) is float else x for x in examples]
    for i, x in enumerate(inputs[:varied]):
        if np.asarray(x).dtype == np.float64:
            inputs[i] = carried(level, x, rng.uniform(0.5, 1.5, (1, *np.shape(x))))
    token = recording.set(None)
    try:
        with levels.outside(), levels.unnoted(), levels.recording(level):
            function(*inputs)
        return tuple(lost_searches(level))
    except Exception:
        return ()
    finally:
        recording.reset(token)
        level.close()


def _without_unknowns(code, unknowns):
    """Return the IR without values that depend on unknowns."""
    depends = dependent(code, unknowns, min(unknowns))
    if depends[code.outputs].any():
        raise NotReplayable(
            "a function passed to a solver writes a computed value into an array that it did not create, which a "
            "replay would skip; return the value instead"
        )
    found, of = Listing(), np.full(len(code), -1, dtype=np.int32)
    found.take(code, np.flatnonzero(~depends).astype(np.int32), of)
    found.inputs, found.outputs = [int(of[v]) for v in code.inputs], [int(of[v]) for v in code.outputs]
    return found
