"""Summarises a program: instruction counts, costs, guards, and the effect of the compiler passes."""

from __future__ import annotations

import dataclasses
from collections import Counter

from wengert.core.rebind.choose import survey
from wengert.program.ir.ir import kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies
from wengert.program.passes import vectorise
from wengert.program.report.schedule import Kernel, peak_bytes, schedule
from wengert.transforms.explain import counted, following, size_of

#: limit on the kernels shown, those with the largest shares, and on the guards shown
_MAX_SHOWN = 8
#: minimum length of a dependence chain of scalars that is reported
_MIN_CHAIN = 16
#: width of the column of row titles
_TITLE_WIDTH = 12


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """Summary of a program; its repr is the report.

    Attributes
    ----------
    name : str
    inputs, captured, outputs : list of (dtype, shape)
        `captured` are variables of enclosing scopes, re-read in each call.
    instructions : dict
        Number of instructions by opcode; elementwise opcodes and their partials are summed up.
    operations : int
        Scalar operations per call, without those inside NumPy functions.
    guards : list of (value, location)
        Values that control flow depended on during recording, with source locations.
    constant_bytes : int
        Bytes of constant arrays.
    peak_bytes : int
        Peak bytes of live values if instructions run in sequence, without fusion.
    vectorised : int
        Number of instructions after vectorisation.
    loops : list of str
        Remarks of vectorisation and loop recovery.
    passes : list of (stage, pass, int, int)
        Number of instructions before and after each compiler pass, in order.
    disabled : frozenset of str
        Disabled passes.
    kernels : list of Kernel
        VM kernels, in order of execution.
    runs : int
        Runs of the program per call; a Jacobian may take one per batch of rows.
    workspace_bytes : int
        Bytes allocated for a run besides inputs, constants and outputs.
    integrations : list
        How differential equations are solved and differentiated; see `wengert.program.integration.report.Report`.
    tier : list of str
        The tier that runs the program, with reasons.
    followed, unfollowed : dict
        See `wengert.transforms.explain.Explanation`; empty for a program that was loaded.
    """

    name: str
    inputs: list
    captured: list
    outputs: list
    instructions: dict
    operations: int
    guards: list
    constant_bytes: int
    peak_bytes: int
    vectorised: int
    loops: list
    passes: list
    disabled: frozenset
    kernels: list[Kernel]
    runs: int
    workspace_bytes: int
    integrations: list
    tier: list
    followed: dict
    unfollowed: dict

    def __repr__(self):
        counts = sorted(self.instructions.items(), key=lambda item: -item[1])
        rows = [("inputs", _types(self.inputs))]
        if self.captured:
            rows.append(("captured", f"{_types(self.captured)}, re-read in each call"))
        rows += [
            ("outputs", _types(self.outputs)),
            ("opcodes", ", ".join(f"{count} {kind}" for kind, count in counts)),
            ("operations", f"{self.operations} per call{self._calls()}"),
            ("passes", self._passes()),
            *[("loops", text) for text in self.loops],
            *[("kernels", text) for text in self._kernels()],
            ("memory", f"workspace {size_of(self.workspace_bytes)}, constants {size_of(self.constant_bytes)}"),
            *[("solves", str(report)) for report in self.integrations],
            *[("tier", text) for text in self.tier],
            *[("guards", text) for text in self._guards()],
            *[("follows", text) for text in following(self.followed, self.unfollowed)],
        ]
        lines = [f"{self.name}: {counted(sum(self.instructions.values()), 'instruction')}"]
        titles = ["", *[title for title, _ in rows]]
        for before, (title, text) in zip(titles, rows):
            lines.append(f"  {'' if title == before else title:{_TITLE_WIDTH}}{text}")
        return "\n".join(lines)

    def _calls(self):
        """Return text that states the number of calls, whose operations are not counted."""
        native = sum(kernel.kind == "native" and kernel.name not in ("guard", "pack") for kernel in self.kernels)
        calls = (native, "native call"), (self.instructions.get("call", 0) - native, "Python call")
        texts = [counted(count, name) for count, name in calls if count]
        return f", and {' and '.join(texts)}" if texts else ""

    def _passes(self):
        """List the passes that changed the number of instructions."""
        texts = [f"{name} {before} -> {after}" for _, name, before, after in self.passes if before != after]
        found = ", ".join(texts) or "no change"
        return f"{found}; disabled: {', '.join(sorted(self.disabled))}" if self.disabled else found

    def _guards(self):
        """Yield the distinct guards with their counts."""
        counts = Counter(f"{value} at {place}" for value, place in self.guards)
        for text, count in [*counts.items()][:_MAX_SHOWN]:
            yield text if count == 1 else f"{text}, {count} times"
        if len(counts) > _MAX_SHOWN:
            yield f"... {len(counts) - _MAX_SHOWN} more"

    def _kernels(self):
        """Yield the kernels with the largest shares of the estimated time, in order of execution."""
        runs = f", {self.runs} runs per call" if self.runs > 1 else ""
        yield f"{len(self.kernels)}{runs}, with share of estimated time"
        shares = sorted((1.0 if kernel.share is None else kernel.share for kernel in self.kernels), reverse=True)
        least = shares[_MAX_SHOWN - 1] if len(shares) > _MAX_SHOWN else 0.0
        shown = [kernel for kernel in self.kernels if kernel.share is None or kernel.share >= least][:_MAX_SHOWN]
        for kernel in shown:
            yield f"  {'   ?' if kernel.share is None else f'{kernel.share:4.0%}'} {kernel}"
        if len(shown) < len(self.kernels):
            yield f"       ... {len(self.kernels) - len(shown)} more"


def summary(program) -> Summary:
    """Return the summary of a program."""
    code = program._listing
    ops = code.op.tolist()
    lowering = program._lowering()
    run = schedule(lowering.code, program._exact)
    types = [kind_of(code, v)[:2] for v in code.inputs]
    arguments = program._form.count
    return Summary(
        program._name,
        types[:arguments],
        types[arguments:],
        [kind_of(code, v)[:2] for v in code.outputs],
        dict(Counter(_kind(code, op, a) for op, a in zip(ops, code.a.tolist()))),
        program._operation_count,
        [code.guards[b] for b, op in zip(code.b.tolist(), ops) if op == Op.GUARD],
        sum(code.arrays[a].nbytes for a, op in zip(code.a.tolist(), ops) if op == Op.ARRAY),
        peak_bytes(code),
        len(program._vectorised_ir()),
        loop_remarks(program),
        [*program._applied_passes, *lowering.log],
        program._disabled,
        run.kernels,
        program._runs_per_call,
        run.nbytes,
        [*integrations(code)],
        tier(program),
        *survey(program._source()),
    )


def integrations(code) -> dict:
    """Return the reports of the integrations in a program, in order, as keys."""
    found: dict = {}
    for call in code.calls:
        for _, body in bodies(call):
            found |= integrations(body)
        if hasattr(call.compute, "integration_report"):
            found[call.compute.integration_report()] = None
    return found


def tier(program) -> list[str]:
    """Return lines on the tier that runs a program and on its loop bodies, with reasons."""
    machine = program._vm
    cached = ["result cached until an input that it depends on changes"]
    return [*_tiers(machine), *(cached if machine.keeps else [])]


def _tiers(machine):
    bodies = [line for body in machine.bodies for line in _tiers(body)]
    return [*_tier(machine), *[f"loop body: {line}" for line in dict.fromkeys(bodies)]]


def _tier(machine):
    report = machine.report
    if report is None:
        return [f"vm; llvm after {machine.due:.0e} runs if llvmlite is installed" if machine.due else "vm"]
    if not report.compiled:
        return ["vm", *[f"llvm not used: {reason}" for reason in report.refused or ["no kernels to compile"]]]
    source = "loaded from the disk cache" if report.is_from_disk else "compiled"
    first = f"llvm: {report.compiled} of {counted(machine.count, 'kernel')}, {source} in {report.seconds:.2f} s"
    return [first, *[f"not compiled: {reason}" for reason in report.refused]]


def loop_remarks(program) -> list[str]:
    """Return remarks on scalar replacement, vectorisation and loop recovery: what they did, or why they did nothing."""
    code, run = program._scalar_ir(), program._vectorised_ir()
    if "vectorise" in program._disabled:
        return ["not vectorised: the pass is disabled"]
    if not program._may_vectorise:
        return ["not vectorised: exact programs keep the order of sums"]
    remarks = _vectorisation_remarks(code, run)
    if code is not program._listing:
        return [f"small arrays scalarised: {len(program._listing)} -> {len(code)} instructions", *remarks]
    return remarks


def _vectorisation_remarks(code, run):
    vectorised = f"vectorised: {len(code)} -> {counted(len(run), 'instruction')}"
    loops = [loop for call in run.calls for loop in bodies(call)]
    if loops:
        texts = [
            f"loop recovered: {counted(times, 'iteration')} of {counted(len(body), 'instruction')}"
            for times, body in loops
        ]
        return texts if run is code else [*texts, vectorised]
    arrays, found, in_sums = vectorise.classes(code)
    sizes = [len(members) for members, value in found if value >= 0]
    small = [members for members, value in found if value < 0]
    summed, left = int(in_sums.sum()), sum(map(len, small))
    if not (sizes or summed) and left < vectorise.MIN_CLASS_SIZE:
        return ["no loops over scalars"]
    texts = []
    if sizes or summed:
        what = []
        if sizes:
            count = counted(len(sizes), "isomorphism class", "isomorphism classes")
            what.append(f"{count} of {_span(sizes)} scalars")
        if summed:
            what.append(f"{counted(summed, 'addition')} in reductions")
        texts.append(", ".join(what))
        if run is not code:
            texts.append(vectorised)
        elif len(code) < vectorise.MIN_INSTRUCTIONS:
            texts.append(f"not vectorised: fewer than {vectorise.MIN_INSTRUCTIONS} instructions")
        else:
            before, after = (sum(vectorise.costs(listing)) / 1000 for listing in (code, arrays))
            texts.append(f"not vectorised: estimated {after:.3g} us as array code, {before:.3g} us as scalar code")
    if left >= vectorise.MIN_CLASS_SIZE:
        texts.append(f"{left} scalars not vectorised: isomorphism classes smaller than {vectorise.MIN_CLASS_SIZE}")
        chain = _longest_chain(code, small)
        if chain >= _MIN_CHAIN:
            texts.append(f"longest dependence chain among them: {counted(chain, 'instruction')}")
    return texts


def _span(sizes):
    return str(sizes[0]) if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"


def _longest_chain(code, classes):
    """Return the length of the longest chain of dependent values."""
    depth = dict.fromkeys((v for members in classes for v in members.tolist()), 0)
    for v in sorted(depth):
        depth[v] = 1 + max((depth.get(u, 0) for u in operands(code, v)), default=0)
    return max(depth.values(), default=0)


def _types(found):
    return ", ".join(f"{dtype}{list(shape) if shape else ''}" for dtype, shape in found)


def _kind(code, op, a):
    if op == Op.CALL and bodies(code.calls[a]):
        return "loop"
    if op >= Op.INPUT:
        return Op(op).name.lower()
    return "partial" if op >= Op.PARTIAL else "elementwise"
