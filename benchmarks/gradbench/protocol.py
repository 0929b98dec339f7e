"""GradBench's protocol: messages in JSON, one a line, from standard input to standard output."""

import json
import sys
import time
import traceback

import numpy as np

from benchmarks.gradbench.evals import EVALS


def serve(lines=None, out=None):
    """Answer messages until the input ends."""
    for line in sys.stdin if lines is None else lines:
        message = json.loads(line)
        print(json.dumps({"id": message["id"]} | answer(message)), file=out, flush=True)


def answer(message):
    match message["kind"]:
        case "start":
            return {"tool": "wengert"}
        case "define":
            return {"success": message["module"] in EVALS}
        case "evaluate":
            try:
                return evaluate(EVALS[message["module"]][message["function"]], message["input"])
            except Exception:
                return {"success": False, "error": traceback.format_exc()}
    return {}


def evaluate(function, given):
    """Run a function of an eval as often as its input demands, and return the first result and all times."""
    variable, *others = function.arguments(given)
    limits = given if isinstance(given, dict) else {}
    runs, seconds = limits.get("min_runs", 1), limits.get("min_seconds", 0.0)
    times, first = [], None
    while len(times) < runs or sum(times) < seconds * 1e9:
        point = moved(variable, len(times))
        start = time.perf_counter_ns()
        result = function.call(point, *others)
        times.append(time.perf_counter_ns() - start)
        first = function.output(result) if first is None else first
    timings = [{"name": "evaluate", "nanoseconds": taken} for taken in times]
    return {"success": True, "output": first, "timings": timings}


def moved(variable, steps):
    """Return `variable` moved by some ulps: each run is at a new point, so that no result can be a remembered one."""
    if isinstance(variable, tuple):
        return tuple(moved(part, steps) for part in variable)
    new = variable + steps * np.spacing(variable)
    return float(new) if isinstance(variable, float) else new
