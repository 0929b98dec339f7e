"""Compare wengert with tools of a checkout of GradBench: ``python -m benchmarks.gradbench compare PATH``.

The evals of the checkout send the inputs, and check the results with its `manual` tool, which must have been built by
``make -C cpp && make -C tools/manual`` in the checkout; they run in the interpreter `--python`, with jax and torch.
All processes run on one core, and tools take turns.  Times are those of the derivatives, the least of first and of
later calls; for wengert the points of all calls differ, so that no result is remembered.  A result that is not valid
has no time.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import geometric_mean
from typing import NamedTuple

from benchmarks.measure import shown

ROOT = Path(__file__).resolve().parents[2]
#: arguments of each eval, and its functions that are derivatives
CASES = {
    "hello": ("", ("double",)),
    "det": ("-l 5 7 9", ("gradient",)),
    "kmeans": ("-k 10 100 -n 1000 10000 -d 8", ("dir",)),
    "llsq": ("-n 16 1024 16392", ("gradient",)),
    "lse": ("-n 2500 20000 160000", ("gradient",)),
    "lstm": ("-l 2 4 -c 1024", ("jacobian",)),
    "gmm": ("-d 2 10 20 -k 5 25", ("jacobian",)),
    "ht": ("--max 4 --model small", ("jacobian",)),
    "ba": ("--max 2", ("jacobian",)),
    "ode": ("-n 1000 10000 -s 10 100", ("gradient",)),
    "particle": ("", ("rr", "ff", "fr", "rf")),
    "saddle": ("", ("rr", "ff", "fr", "rf")),
}
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_X64": "true",  # the tool computes some evals in single precision
}
#: jax returns before it has computed, so that the tool would time less than the computation
WAITING_JAX = """
import runpy, sys, jax
def jit(f, jit=jax.jit, **options):
    call = jit(f, **options)
    return lambda *args, **kwargs: jax.block_until_ready(call(*args, **kwargs))
jax.jit, sys.argv = jit, sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


#: rows that are not averaged: our determinant computes each minor once, others as often as it occurs; the gradient of
#: `ode` by the manual tool is a closed form, without steps
OTHER_ALGORITHM = {("det", "manual"), ("ode", "manual")}


class Tool(NamedTuple):
    """How to start a process, and the file with the evals of a tool, if it does not have all."""

    command: list[str]
    folder: Path
    path: list[str]
    evals: Path | None = None

    def takes(self, name):
        # after a name may stand how the tool is known to fail
        return self.evals is None or name in self.evals.read_text().splitlines()

    def start(self, arguments=()):
        path = os.pathsep.join(filter(None, [*self.path, os.environ.get("PYTHONPATH")]))
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=os.environ | ONE_THREAD | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class Line(NamedTuple):
    """Result of a tool for one input."""

    case: str
    valid: bool
    nanoseconds: list[int]


def tools(checkout, python):
    source = checkout / "python/gradbench/gradbench"

    def theirs(name, *command):
        path = [str(checkout / "python/gradbench"), str(source / "tools" / name)]
        return Tool([python, *map(str, command)], checkout, path, checkout / f"tools/{name}/evals.txt")

    return {
        "wengert": Tool([sys.executable, "-m", "benchmarks.gradbench"], ROOT, [entry for entry in sys.path if entry]),
        "jax": theirs("jax", "-c", WAITING_JAX, source / "tools/jax/run.py"),
        "pytorch": theirs("pytorch", source / "tools/pytorch/run.py"),
        "manual": theirs("manual", source / "cpp.py", "manual"),
    }


def session(driver, tool, functions):
    """Pass messages between an eval and a tool until the eval ends; return the lines of the given functions."""
    asked, answered, lines = None, None, []
    for text in driver.stdout:
        message = json.loads(text)
        if message["kind"] == "define" and tool.args[-1] == "manual":
            reply = json.dumps({"id": message["id"], "success": True}) + "\n"  # the tool would be built again
        else:
            tool.stdin.write(text)
            tool.stdin.flush()
            reply = tool.stdout.readline()
        if message["kind"] == "evaluate":
            asked, answered = message, json.loads(reply)
            if not answered["success"] and asked["function"] in functions:
                lines.append(Line(label(asked), False, []))
        elif message["kind"] == "analysis" and asked["function"] in functions:
            times = [t["nanoseconds"] for t in answered["timings"] if t["name"] == "evaluate"]
            lines.append(Line(label(asked), message["valid"], times))
        driver.stdin.write(reply)
        driver.stdin.flush()
    return lines


def label(message):
    case = message.get("description", "").replace("_", " ")
    return message["function"] if len(message["function"]) == 2 else case


def run(name, tool, evaluator, seconds):
    """Run an eval on a tool, and return a line for each input."""
    arguments, functions = CASES[name]
    limits = [] if name == "hello" else ["--min-runs", "3", "--min-seconds", str(seconds)]
    with evaluator.start([*arguments.split(), *limits]) as driver, tool.start() as process:
        return session(driver, process, functions)


class Cell(NamedTuple):
    """Seconds of the first and of later derivatives by a tool; infinite if the result is not valid."""

    first: float
    later: float


def cell(lines):
    """Return the least time of first and of later calls: other work on the machine only adds to it."""
    if not all(line.valid for line in lines):
        return Cell(math.inf, math.inf)
    first = min(line.nanoseconds[0] for line in lines)
    later = min(min(line.nanoseconds[1:] or line.nanoseconds) for line in lines)
    return Cell(first / 1e9, later / 1e9)


def measured(names, options):
    """Return a cell for each eval, case and tool; tools take turns."""
    python = options.python
    found = {}
    for name in names:
        source = options.checkout / f"python/gradbench/gradbench/evals/{name}/run.py"
        evaluator = Tool([python, str(source)], options.checkout, [str(options.checkout / "python/gradbench")])
        lines = defaultdict(list)
        taking = {key: tool for key, tool in tools(options.checkout, python).items() if key in options.tools}
        taking = {key: tool for key, tool in taking.items() if tool.takes(name)}
        for _ in range(options.rounds):
            for key, tool in taking.items():
                for i, line in enumerate(run(name, tool, evaluator, options.seconds)):
                    lines[f"{line.case} ({i + 1})" if name == "hello" else line.case, key].append(line)
        found[name] = {pair: cell(group) for pair, group in lines.items()}
        print("\n".join(rows(name, found[name])), flush=True)
    return found


def rows(name, cells):
    """Return the rows of an eval in a table; a star marks times that are not averaged."""
    found = []
    for case in dict.fromkeys(case for case, _ in cells):
        first = [text(cells.get((case, key)), "first") for key in TOOLS[:3]]
        later = [text(cells.get((case, key)), "later") + "*" * ((name, key) in OTHER_ALGORITHM) for key in TOOLS]
        found.append(f"| {' | '.join([name, case, *first, *later])} |")
    return found


def text(found, field):
    if found is None:
        return ""
    return shown(getattr(found, field)) if math.isfinite(found.later) else "not valid"


def ratios(name, cells, others):
    """Return our later times over the least of other tools, one for each case that any of them computes."""
    found = []
    for case in dict.fromkeys(case for case, key in cells if key == "wengert"):
        taking = [key for key in others if (case, key) in cells and (name, key) not in OTHER_ALGORITHM]
        best = min((cells[case, key].later for key in taking), default=math.inf)
        if math.isfinite(best):
            found.append(cells[case, "wengert"].later / best)
    return found


def summary(found):
    """Return geometric means of our times over those of other tools."""
    for title, others in (("the fastest Python tool", TOOLS[1:3]), ("the manual tool", TOOLS[3:])):
        values = {name: ratios(name, cells, others) for name, cells in found.items()}
        # the times of hello mean nothing: each call has another input, and none is repeated
        means = {name: geometric_mean(value) for name, value in values.items() if value and name != "hello"}
        if means:
            listed = ", ".join(f"{name} {value:.2g}" for name, value in means.items())
            yield f"Time over that of {title}: geometric mean {geometric_mean(means.values()):.2g}; {listed}."


TOOLS = ("wengert", "jax", "pytorch", "manual")


def main(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gradbench compare", description=__doc__)
    parser.add_argument("checkout", type=Path, help="folder of a checkout of GradBench")
    parser.add_argument("--python", default=sys.executable, help="interpreter with jax, torch and pydantic")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each tool")
    parser.add_argument("--seconds", type=float, default=0.3, help="least time of the calls at one input")
    parser.add_argument("--evals", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS)
    options = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})  # where the tool of jax pins itself
    print("| eval | case | first " + " | first ".join(TOOLS[:3]) + " | " + " | ".join(TOOLS) + " |")
    print("|---|---|" + "---:|" * 7)
    print("", *summary(measured(options.evals, options)), sep="\n")
