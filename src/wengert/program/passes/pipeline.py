"""The pass pipeline: a table with one row per pass, in execution order.

A pass is a function from a program to an equivalent one; it returns the same object if there is nothing to do.
Programs, loop bodies, the VM and `wengert.viz` run passes from this table only, by the name of a stage:

    trace        a recorded program
    derivative   the result of source transformation
    value        loops and small arrays, before a program is run or differentiated
    jacobian     the choice of a Jacobian algorithm, and of the program that it starts from
    direction    a derivative in one direction, without the value
    batch        the same derivative in several directions at once
    run          last stage before the VM
    run batch    last stage for a batch of directions
    loop body    last stage for a loop body
    step         the body of a newly rolled loop over small arrays, before it is differentiated
    llvm         a program for the LLVM back end

To add a pass, write a module next to this one and a row in `PASSES`.
Rows can be disabled with `disable=` of `wengert.compile` and `wengert.record`, or with ``WENGERT_DISABLE``;
`wengert.testing.bisect_passes` uses this to find the row that broke a program.
With ``WENGERT_VERIFY=1`` the verifier runs after each pass, and its error names the pass.

Reference: a pass manager that separates passes from their order, as in Lattner and Adve (2004), LLVM: a compilation
framework for lifelong program analysis and transformation, section 3. doi:10.1109/CGO.2004.1281665
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

from wengert.core.tape.tape import clear_caches
from wengert.program.ir import verify
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcodes import Op
from wengert.program.passes import (
    batching,
    expand_dots,
    inline_calls,
    join_dots,
    join_products,
    loop_recovery,
    reassociate,
    scalarise,
    simplify,
    stencil_fusion,
    unroll_loops,
    vectorise,
)

__all__ = ["PASSES", "STAGES", "Options", "Pass", "Run", "disabled_names", "names", "observed", "run", "verify_each"]

STAGES = (
    "trace", "derivative", "value", "jacobian", "direction", "batch", "run", "run batch", "loop body", "step", "llvm",
)  # fmt: skip

#: whether the verifier runs after each pass
VERIFY = os.environ.get("WENGERT_VERIFY", "0") not in ("", "0")

#: programs of this length or more return idle memory to the system before a stage, whose passes need as much again
LARGE = 1 << 18

#: scalar code replaces small arrays if its estimated time is below this fraction of the time with arrays
SCALAR_GAIN = 0.9


class Options(NamedTuple):
    """Properties of a program on which passes depend.

    Attributes
    ----------
    exact : bool
        Values must be bit-identical to NumPy's: only rows that allow `exact` run.
    finds_loops : bool
        Whether scalars may be packed into arrays, and sums reordered.
    keeps_arrays : bool
        Scalar replacement was slower for the function, so it is not tried for its derivatives.
    has_adjoints : bool
        Whether sums of shifted slices may occur, as in reverse mode.
    is_compiled : bool
        Whether LLVM compiles the program.
    runs : int
        Number of runs per call.
    disabled : frozenset of str
        Names of the disabled rows.
    rolls_small : bool
        Whether loops over small arrays are rolled, which speeds up later passes.
    unrolls : bool
        Whether short loops are unrolled before the program runs.
    rolls_scalars : bool
        Whether loops over scalars are rolled, too.
    """

    exact: bool = False
    finds_loops: bool = True
    keeps_arrays: bool = False
    has_adjoints: bool = True
    is_compiled: bool = False
    runs: int = 1
    disabled: frozenset = frozenset()
    rolls_small: bool = False
    unrolls: bool = True
    rolls_scalars: bool = False


_DEFAULT = Options()


class Run:
    """The state of one stage on one program, shared by its passes.

    Attributes
    ----------
    stage : str
    options : Options
    start, code : Listing
        The program before the first pass, and after the last one so far.
    batch : tuple
        Arguments of `batching.batch_program` after the program.
    keeps_arrays : bool
        As in `Options`; set by `scalarise`.
    log : list of (str, str, int, int)
        Stage, pass, and instruction counts before and after, for each pass that ran.
    """

    def __init__(self, stage: str, code: Listing, options: Options, scalars: Listing | None = None, batch: tuple = ()):
        self.stage, self.options = stage, options
        self.start = self.code = code
        self._scalars = scalars
        self.batch, self.keeps_arrays = batch, options.keeps_arrays
        self.log: list[tuple[str, str, int, int]] = []
        self._vectorised: list[tuple[Listing, Listing]] = []

    def has(self, name: str) -> bool:
        return name not in self.options.disabled

    @property
    def scalars(self) -> Listing:
        """The program before `vectorise`; if that is off, the current program."""
        return self.code if self._scalars is None else self._scalars

    @property
    def keeps_zero_signs(self) -> bool:
        """Whether ``x + 0`` must be kept, because it turns -0.0 into 0.0."""
        return self.stage in ("trace", "direction", "batch") or not self.options.finds_loops or self.options.exact

    def vectorised(self, code: Listing) -> Listing:
        """Return the program after `vectorise`, cached, because `scalarise` compares its cost before that pass runs."""
        if not self.has("vectorise"):
            return code
        for before, after in self._vectorised:
            if before is code:
                return after
        after = vectorise.vectorise_scalars(code)
        self._vectorised.append((code, after))
        return after


class Pass(NamedTuple):
    """A row of the table.

    Attributes
    ----------
    name : str
        Name to disable it by. Rows of equal name are one pass, applied at several points.
    function : callable or None
        ``function(code, run)`` returns a program. None for the Jacobian algorithms, among which `Program` chooses.
    stages : tuple of str
    description : str
        The transformation, in a few words.
    reference : str
        Paper or textbook.
    exact : bool
        Whether it may run on `exact` programs.
    applies : callable or None
        Precondition on the `Options`.
    parts : tuple of str
        Transformations that it combines in one traversal, each of which can be disabled.
    is_optional : bool
        False if the VM requires the pass.
    """

    name: str
    function: Callable[[Listing, Run], Listing] | None
    stages: tuple[str, ...]
    description: str
    reference: str
    exact: bool = False
    applies: Callable[[Options], bool] | None = None
    parts: tuple[str, ...] = ()
    is_optional: bool = True


# ---------------------------------------------------------------------------------------------- preconditions


_finds_loops, _has_adjoints, _is_exact = map(operator.attrgetter, ("finds_loops", "has_adjoints", "exact"))


def _rolls_small(options):
    """Return whether loops over small arrays are rolled."""
    return options.finds_loops and options.rolls_small


def _unrolls(options):
    return _rolls_small(options) and options.unrolls


# ---------------------------------------------------------------------------------------------- rows


def _simplify(code, run):
    return simplify.simplified(code, run.keeps_zero_signs, run.has("fold"), run.has("cse"), run.has("dce"))


def _forward_stores(code, run):
    """Forward stores to loads, unless a program has no stores and no pass has changed it: it is simplified already."""
    is_new = code is not run.start
    if not (is_new or simplify.contains(code, Op.PLACE)):
        return code
    found = _simplify(code, run)
    return found if is_new or len(found) != len(code) else code


def _expand_dots(code, run):
    # up to the stage "value", guards of derivative rules are recognised by their dot products, which must be kept
    return expand_dots.expand_dot_products(code, run.stage not in ("value", "step"))


def _scalarise(code, run):
    """Return scalar code if it is estimated to be faster after vectorisation."""
    if run.keeps_arrays:
        return code
    found = scalarise.replace_small_arrays(code, SCALAR_GAIN)
    if found is code:
        return code
    times = [scalarise.nanoseconds(run.vectorised(each)) for each in (found, code)]
    run.keeps_arrays = times[0] >= SCALAR_GAIN * times[1]
    return code if run.keeps_arrays else found


def _scalarise_calls(code, run):
    """Expand calls that had to stay whole until all differentiation was done."""
    if not any(map(scalarise.is_expanded_late, code.calls)):
        return code
    found = run.vectorised(scalarise.replace_small_arrays(run.scalars, to_run=True))
    return found if scalarise.nanoseconds(found) < scalarise.nanoseconds(code) else code


def _vectorise(code, run):
    run._scalars = code
    return run.vectorised(code)


def _recover_small_loops(code, state):
    optimised = lambda body: run("step", body, state.options).code
    return loop_recovery.recover_small_loops(code, optimised, state.options.rolls_scalars)


def _with_expanded_calls(code, run):
    """Expand the same calls as `_scalarise_calls`, but before unrolling, so that each is expanded only once."""
    if not (run.has("scalarise") and any(map(scalarise.is_expanded_late, code.calls))):
        return code
    found = scalarise.replace_small_arrays(code, to_run=True)
    return found if scalarise.nanoseconds(found) < scalarise.nanoseconds(code) else code


def _unroll_short_loops(code, run):
    found = unroll_loops.unroll_short_loops(code, lambda part: _with_expanded_calls(part, run))
    if found is code:
        return code
    if _with_expanded_calls(code, run) is not code:  # calls outside the loops
        expanded = scalarise.replace_small_arrays(found, to_run=True)  # also simplifies
        if expanded is not found:
            run._scalars = expanded
            return run.vectorised(expanded)
    run._scalars = _simplify(found, run)
    return run._scalars


def _inline_calls(code, state):
    simplified = lambda body: body if state.options.exact else run("trace", body, state.options).code
    return inline_calls.inline_calls(code, state.options.exact, simplified)


def _fuse_stencils(code, run):
    return stencil_fusion.fuse_stencils(code, run.options.is_compiled or run.stage == "llvm", run.options.runs)


_SIMPLIFY = (
    "constant folding, CSE and DCE in one traversal",
    "Click and Cooper (1995), Combining analyses, combining optimizations. doi:10.1145/201059.201061",
)
_SCALARISE = (
    "scalar replacement of small arrays",
    "Muchnick (1997), Advanced compiler design and implementation, section 12.2",
)
_EXPAND_DOTS = (
    "dot products of short vectors expanded to sums of products",
    "Muchnick (1997), Advanced compiler design and implementation, chapter 15",
)
_ROLLING = (
    "Rocha, Petoumenos, Franke, Bhatotia and O'Boyle (2022), Loop rolling for code size reduction. "
    "doi:10.1109/CGO53902.2022.9741256"
)
_PARTS = ("fold", "cse", "dce")

PASSES: tuple[Pass, ...] = (
    Pass("simplify", _simplify, ("trace", "derivative", "direction"), *_SIMPLIFY, parts=_PARTS),
    Pass(
        "dce", lambda code, run: simplify.live(code), ("derivative", "direction"),
        "dead code elimination for exact programs",
        "Muchnick (1997), Advanced compiler design and implementation, section 18.10", True, _is_exact,
    ),
    Pass(
        "join_products", lambda code, run: join_products.join_products(join_dots.join_dots(code)), ("trace",),
        "products of vectors with parts of one matrix joined into one product",
        "Dongarra, Du Croz, Hammarling and Duff (1990), A set of level 3 basic linear algebra subprograms. "
        "doi:10.1145/77626.79170",
        applies=_finds_loops,
    ),
    Pass(
        "guards", lambda code, run: simplify.without_implied_guards(code), ("derivative",),
        "guards against NaN that others imply removed",
        "Gupta (1993), Optimizing array bound checks using flow analysis. doi:10.1145/176454.176507",
        applies=_finds_loops,
    ),
    Pass(
        "loop_recovery", _recover_small_loops, ("value",),
        "repeated code on small arrays rolled, so that other passes see it once", _ROLLING, applies=_rolls_small,
    ),
    Pass("expand_dots", _expand_dots, ("value", "step"), *_EXPAND_DOTS, applies=_finds_loops),
    Pass("simplify", _forward_stores, ("value", "step"), *_SIMPLIFY, applies=_finds_loops, parts=_PARTS),
    Pass("scalarise", _scalarise, ("value", "step"), *_SCALARISE, applies=_finds_loops),
    Pass(
        "scalarise", lambda code, run: scalarise.replace_small_arrays(code, SCALAR_GAIN), ("jacobian",),
        *_SCALARISE, applies=_finds_loops,
    ),
    Pass(
        "loop_recovery", _unroll_short_loops, ("run",),
        "loops with short bodies unrolled again",
        "Muchnick (1997), Advanced compiler design and implementation, section 17.4.3", applies=_unrolls,
    ),
    Pass("scalarise", _scalarise_calls, ("run", "loop body"), *_SCALARISE, applies=_finds_loops),
    Pass(
        "inline_calls", _inline_calls, ("run", "run batch", "loop body"),
        "calls of functions in array code inlined",
        "Muchnick (1997), Advanced compiler design and implementation, chapter 15", True,
    ),
    Pass(
        "vectorise", _vectorise, ("value", "loop body"),
        "SLP vectorisation of isomorphic scalar code",
        "Larsen and Amarasinghe (2000), Exploiting superword level parallelism. doi:10.1145/349299.349320",
        applies=_finds_loops,
    ),
    Pass(
        "loop_recovery", lambda code, run: loop_recovery.recover_loops(code), ("value",),
        "repeated code on large arrays re-rolled into loops", _ROLLING, applies=_finds_loops,
    ),
    Pass(
        "unroll", None, ("jacobian",),
        "Jacobian accumulation on unrolled scalar code",
        "Griewank and Walther (2008), Evaluating derivatives, chapter 10. doi:10.1137/1.9780898717761", True,
    ),
    Pass(
        "accumulate", None, ("jacobian",),
        "Jacobian accumulation of nonzeros on array code",
        "Griewank and Walther (2008), Evaluating derivatives, chapter 10. doi:10.1137/1.9780898717761",
    ),
    Pass(
        "batching", lambda code, run: batching.batch_program(code, *run.batch), ("batch",),
        "directions vectorised along a leading axis",
        "Frostig, Johnson and Leary (2018), Compiling machine learning programs via high-level tracing, SysML",
    ),
    Pass("simplify", _simplify, ("batch",), *_SIMPLIFY, parts=_PARTS),
    Pass("simplify", _simplify, ("run",), *_SIMPLIFY, exact=True, applies=_is_exact, parts=_PARTS),
    Pass(
        "lower", lambda code, run: simplify.lowered(code, run.options.exact), ("run", "run batch", "loop body"),
        "differentiation barriers (STOP) removed, arithmetic on reduced rows moved behind broadcasts",
        "Muchnick (1997), Advanced compiler design and implementation, section 4.2", True, is_optional=False,
    ),
    Pass(
        "reassociate", lambda code, run: reassociate.reassociate_products(code), ("run", "run batch", "loop body"),
        "matrix products of adjoints reassociated to fewer multiplications",
        "Briggs and Cooper (1994), Effective partial redundancy elimination. doi:10.1145/178243.178257",
        applies=_finds_loops,
    ),
    Pass(
        "guards", lambda code, run: simplify.with_one_guard(code), ("run", "run batch", "loop body"),
        "guards against NaN merged into one",
        "Gupta (1993), Optimizing array bound checks using flow analysis. doi:10.1145/176454.176507",
        applies=_finds_loops,
    ),
    Pass("expand_dots", _expand_dots, ("run", "run batch", "loop body"), *_EXPAND_DOTS, applies=_finds_loops),
    Pass(
        "stencil_fusion", _fuse_stencils, ("run", "run batch", "loop body", "llvm"),
        "chains of slice additions fused into one expression per region",
        "Hückelheim, Kukreja, Narayanan, Luporini, Gorman and Hovland (2019), Automatic differentiation for adjoint "
        "stencil loops. doi:10.1145/3337821.3337906",
        applies=_has_adjoints,
    ),
)  # fmt: skip


# ---------------------------------------------------------------------------------------------- disabling


def names() -> list[str]:
    """Return the names that can be disabled, without duplicates, in table order."""
    found = [name for row in PASSES if row.is_optional for name in (row.name, *row.parts)]
    return [*dict.fromkeys(found)]


def disabled_names(disable: str | Collection[str], name: str) -> frozenset[str]:
    """Return the names disabled by the argument `disable` of the function `name` and by the environment.

    Raises
    ------
    ValueError
        If a name is unknown; the message lists the valid ones.
    """
    given = (disable,) if isinstance(disable, str) else tuple(disable)
    text = os.environ.get("WENGERT_DISABLE", "")
    found = _checked_names(given, f"{name}: disable={disable!r}") if given else frozenset()
    if text:
        found |= _checked_names([word.strip() for word in text.split(",") if word.strip()], f"WENGERT_DISABLE={text}")
    return found


def _checked_names(given, where):
    unknown = [word for word in given if word not in names()]
    if unknown:
        raise ValueError(f"{where}: no pass {unknown[0]!r} can be disabled; choose from {', '.join(names())}")
    found = frozenset(given)
    return found | frozenset(_PARTS) if "simplify" in found else found


# ---------------------------------------------------------------------------------------------- running

#: called with the run, the name of the row ("" before the first one) and the program
_observer: ContextVar[Callable[[Run, str, Listing], Any] | None] = ContextVar("wengert_pipeline_observer", default=None)


@contextlib.contextmanager
def observed(see: Callable[[Run, str, Listing], Any]) -> Iterator[None]:
    """Call `see` at the start of each stage and after each pass that runs in this context."""
    token = _observer.set(see)
    try:
        yield
    finally:
        _observer.reset(token)


def run(stage: str, code: Listing, options: Options = _DEFAULT, **given: Any) -> Run:
    """Apply the passes of a stage, in table order.

    Parameters
    ----------
    stage : str
    code : Listing
        Not changed.
    options : Options
    **given
        `scalars` and `batch` of `Run`.

    Raises
    ------
    MalformedProgram
        With ``WENGERT_VERIFY=1``, if the verifier rejects the program that a pass returned.
    """
    state, see = Run(stage, code, options, **given), _observer.get()
    release_idle_memory(code)
    off, exact = options.disabled, options.exact
    if VERIFY:
        verify_each(state, "", code)
    if see is not None:
        see(state, "", code)
    size = len(code)
    for row in _rows(stage):
        is_off = (exact and not row.exact) or (off and _is_off(row, off))
        if is_off or not (row.applies is None or row.applies(options)):
            continue
        found, before = row.function(code, state), size
        if found is not code:
            if VERIFY:
                verify_each(state, row.name, found)
            state.code, code, size = found, found, len(found)
        state.log.append((stage, row.name, before, size))
        if see is not None:
            see(state, row.name, found)
    state._vectorised.clear()
    return state


def release_idle_memory(code: Listing) -> None:
    """Return idle memory to the system if the program is large: the next step needs blocks of other sizes."""
    if len(code) >= LARGE:
        clear_caches()


_indexed: tuple = ((), {})


def _rows(stage):
    """Return the rows of a stage that have a function, in order."""
    global _indexed
    if _indexed[0] is not PASSES:
        found: dict = {stage: [] for stage in STAGES}
        for row in PASSES:
            if row.function is not None:
                for each in row.stages:
                    found[each].append(row)
        _indexed = PASSES, found
    return _indexed[1][stage]


def _is_off(row, disabled):
    return row.is_optional and (row.name in disabled or (bool(row.parts) and disabled.issuperset(row.parts)))


def verify_each(run: Run, name: str, code: Listing) -> None:
    """Verify a program; the error names the pass that returned it."""
    try:
        verify.check(code)
    except verify.MalformedProgram as error:
        what = f"pass {name!r} of stage {run.stage!r} returned" if name else f"stage {run.stage!r} begins with"
        raise verify.MalformedProgram(f"{what} a malformed program: {error}") from None
