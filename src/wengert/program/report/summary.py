"""Summarises a program: counts, costs, guards, and what the compiler did."""

from __future__ import annotations

import dataclasses
from collections import Counter

from wengert.core.rebind.choose import survey
from wengert.program.ir.ir import kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies
from wengert.program.passes import vectorise
from wengert.program.report.schedule import Step, peak_bytes, schedule
from wengert.transforms.explain import counted, following, size_of

#: VM instructions shown, those with the largest shares; also the limit for guards
_MAX_SHOWN = 8
#: length of a dependent chain of scalars from which it is mentioned
_MIN_CHAIN = 16
_TITLE = 11


@dataclasses.dataclass(frozen=True, repr=False)
class Summary:
    """Summary of a program; its repr is the report.

    Attributes
    ----------
    name : str
    inputs, captured, outputs : list of (dtype, shape)
        `captured` are variables that the function reads from enclosing scopes, read again in each call.
    instructions : dict
        Number of instructions by kind.
    operations : int
        Scalar operations per call, not counting those inside NumPy functions.
    guards : list of (value, place)
        Values that Python control flow depended on when the program was recorded, and where.
    constants : int
        Bytes of constant arrays.
    work : int
        Peak bytes of values, if instructions run one after another.
    rolled : int
        Number of instructions after vectorisation.
    rolling : list of str
        What vectorisation and loop recovery did, in words.
    passes : list of (stage, pass, int, int)
        Number of instructions before and after each compiler pass, in order.
    disabled : frozenset of str
        Passes that are switched off.
    steps : list of Step
        VM instructions.
    repeats : int
        Runs of the program per call: a Jacobian may be a loop over its rows.
    memory : int
        Bytes that a run needs besides inputs, constants and outputs.
    tier : list of str
        Which tier runs the program, in words.
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
    constants: int
    work: int
    rolled: int
    rolling: list
    passes: list
    disabled: frozenset
    steps: list[Step]
    repeats: int
    memory: int
    tier: list
    followed: dict
    unfollowed: dict

    def __repr__(self):
        counts = sorted(self.instructions.items(), key=lambda item: -item[1])
        rows = [("inputs", _types(self.inputs))]
        if self.captured:
            rows.append(("captured", f"{_types(self.captured)}, read in each call"))
        rows += [
            ("outputs", _types(self.outputs)),
            ("counts", ", ".join(f"{count} {kind}" for kind, count in counts)),
            ("does", f"{counted(self.operations, 'operation')} a call{self._calls()}"),
            ("passes", self._passes()),
            *[("rolling", text) for text in self.rolling],
            *[("runs", text) for text in self._runs()],
            ("memory", f"{size_of(self.memory)} beside inputs and outputs, constant arrays {size_of(self.constants)}"),
            *[("tier", text) for text in self.tier],
            *[("guard", text) for text in self._guards()],
            *[("follows", text) for text in following(self.followed, self.unfollowed)],
        ]
        lines = [f"{self.name}: {counted(sum(self.instructions.values()), 'instruction')}"]
        titles = ["", *[title for title, _ in rows]]
        for before, (title, text) in zip(titles, rows):
            lines.append(f"  {'' if title == before else title:{_TITLE - 2}}{text}")
        return "\n".join(lines)

    def _calls(self):
        """Mention the calls, which are not counted as operations."""
        calls = self.instructions.get("call", 0)
        return f", and {counted(calls, 'call')} of functions" if calls else ""

    def _passes(self):
        """List the passes that changed the number of instructions."""
        texts = [f"{name} {before} to {after}" for _, name, before, after in self.passes if before != after]
        found = ", ".join(texts) or "nothing to do"
        return f"{found}; without {', '.join(sorted(self.disabled))}" if self.disabled else found

    def _guards(self):
        """Yield the distinct guards with their counts."""
        counts = Counter(f"{value} at {place}" for value, place in self.guards)
        for text, count in [*counts.items()][:_MAX_SHOWN]:
            yield text if count == 1 else f"{text}, {count} times"
        if len(counts) > _MAX_SHOWN:
            yield f"and {len(counts) - _MAX_SHOWN} more"

    def _runs(self):
        """Yield the VM instructions with the largest shares, in program order."""
        yield f"{counted(len(self.steps), 'step')}{f', {self.repeats} times' if self.repeats > 1 else ''}"
        shares = sorted((1.0 if step.share is None else step.share for step in self.steps), reverse=True)
        least = shares[_MAX_SHOWN - 1] if len(shares) > _MAX_SHOWN else 0.0
        shown = [step for step in self.steps if step.share is None or step.share >= least][:_MAX_SHOWN]
        for step in shown:
            yield f"  {'   ?' if step.share is None else f'{step.share:4.0%}'} {step}"
        if len(shown) < len(self.steps):
            yield f"       and {len(self.steps) - len(shown)} more"


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
        rolling(program),
        [*program._applied_passes, *lowering.log],
        program._disabled,
        run.steps,
        program._runs_per_call,
        run.nbytes,
        tier(program),
        *survey(program._source()),
    )


def tier(program) -> list[str]:
    """What runs a program, and why, in lines."""
    machine = program._vm
    kept = ["no run while the inputs that are read stay bitwise the same: the result is cached"]
    return [*_tiers(machine), *(kept if machine.keeps else [])]


def _tiers(machine):
    bodies = [line for body in machine.bodies for line in _tiers(body)]
    return [*_tier(machine), *[f"loop: {line}" for line in dict.fromkeys(bodies)]]


def _tier(machine):
    report = machine.report
    if report is None:
        if not machine.due:
            return ["vm"]
        return [f"vm, and llvm after {machine.due:.0e} replays where it is installed"]
    if not report.compiled:
        return ["vm", *[f"no llvm: {reason}" for reason in report.refused or ["there are no instructions to compile"]]]
    source = "from disk" if report.is_from_disk else "made"
    first = f"llvm for {report.compiled} of {machine.count} steps, {source} in {report.seconds:.2f} s"
    return [first, *[f"left to vm: {reason}" for reason in report.refused]]


def rolling(program) -> list[str]:
    """What became of the loops of a program, in words."""
    code, run = program._scalar_ir(), program._vectorised_ir()
    if "vectorise" in program._disabled:
        return ["switched off"]
    if not program._may_vectorise:
        return ["not tried: the sums of an exact program keep their order"]
    if code is not program._listing:
        of_elements = f"small arrays are scalarised: {len(program._listing)} instructions become {len(code)}"
        return [of_elements, *_rolling(code, run)]
    return _rolling(code, run)


def _rolling(code, run):
    become = f"{counted(len(code), 'instruction')} become {len(run)}"
    loops = [loop for call in run.calls for loop in bodies(call)]
    if loops:
        texts = [f"{times} steps of {counted(len(body), 'instruction')} are a loop" for times, body in loops]
        return texts if run is code else [*texts, become]
    arrays, found, in_sums = vectorise.classes(code)
    sizes = [len(members) for members, value in found if value >= 0]
    small = [members for members, value in found if value < 0]
    summed, left = int(in_sums.sum()), sum(map(len, small))
    if not (sizes or summed) and left < vectorise.FEWEST:
        return ["nothing to do: there are no loops over scalars"]
    texts = []
    if sizes or summed:
        what = [f"{counted(len(sizes), 'class', 'classes')} of {_span(sizes)} isomorphic scalars"] if sizes else []
        what += [f"{counted(summed, 'addition')} of long sums"] if summed else []
        texts.append(", ".join(what))
        if run is not code:
            texts.append(become)
        elif len(code) < vectorise.SHORTEST:
            texts.append("not vectorised: the program is short")
        else:
            before, after = (sum(vectorise.costs(listing)) / 1000 for listing in (code, arrays))
            texts.append(f"not vectorised: arrays are estimated to take {after:.3g} us, scalars {before:.3g} us")
    if left >= vectorise.FEWEST:
        texts.append(f"{left} stay scalars: fewer than {vectorise.FEWEST} of each are isomorphic")
        chain = _longest_chain(code, small)
        if chain >= _MIN_CHAIN:
            texts.append(f"{chain} of them form a chain: each depends on the one before")
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
