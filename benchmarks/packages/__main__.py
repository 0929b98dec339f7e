"""Table of derivatives of published packages: `python -m benchmarks.packages [names] [--compiled] [--markdown]`.

Each package runs in a process of its own; a case that ends the process or exceeds the time limit does not stop the
others.  Verdicts: `right`; `wrong`, beyond the tolerance; `refused`, by an error of wengert; `error`, another
exception; `crash`, the process ended; `slow`, over the time limit; `unchecked`, where the differences are inaccurate.
"""

import argparse
import json
import os
import platform
import queue
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from benchmarks.packages.verdict import VERDICTS

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (Path(__file__).parent / "cases").glob("[!_]*.py"))
PAGE = ROOT / "docs" / "reference" / "packages.md"
IMPORT_SECONDS = 120
MODES = ("eager", "compiled")


def results(name, mode, limit):
    """Return the version of a package and its outcomes by case, or why it is skipped."""
    outcomes, found = {}, {}
    while True:
        process, lines = started(name, mode, len(outcomes))
        try:
            found = read(lines, IMPORT_SECONDS) or {"skipped": "the import crashed or hangs"}
            if "skipped" in found:
                return found
            for case in found["cases"][len(outcomes) :]:
                outcome = read(lines, limit)
                if outcome is None:
                    process.kill()
                    status = process.wait()
                    outcome = {"verdict": "slow"} if status == -9 else {"verdict": "crash", "message": f"exit {status}"}
                    outcomes[case] = outcome
                    break
                outcomes[case] = outcome
        finally:
            process.kill()
            process.wait()
        if len(outcomes) == len(found["cases"]):
            return {"version": found["version"], "outcomes": outcomes}


def package_results(name, modes, limit):
    """Return the version of a package and its outcomes by mode and case, or why it is skipped."""
    found = {}
    for mode in modes:
        result = results(name, mode, limit)
        if "skipped" in result:
            return result
        found |= {"version": result["version"], mode: result["outcomes"]}
    print(name, file=sys.stderr, flush=True)
    return found


def started(name, mode, index):
    """Start a worker, and return it with a queue of its lines, which ends with None."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.packages.worker", name, mode, str(index)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    lines = queue.Queue()

    def fill():
        for line in process.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=fill, daemon=True).start()
    return process, lines


def read(lines, seconds):
    """Return the next line as an object, or None if there is none in time."""
    try:
        line = lines.get(timeout=seconds)
    except queue.Empty:
        return None
    return None if line is None else json.loads(line)


def text_table(found, mode):
    """Return lines of text: a row for each case, and counts by verdict and reason."""
    lines = []
    for name, result in found.items():
        if "skipped" in result:
            lines.append(f"{name}: skipped, {result['skipped']}")
            continue
        for case, outcome in result[mode].items():
            lines.append(f"{name:22} {case:36} {outcome['verdict']:10} {outcome.get('reason', '')}".rstrip())
            for key in ("where", "line", "message"):
                if outcome.get(key):
                    lines.append(f"    {key}: {outcome[key]}")
    return [*lines, "", *counts(found, mode)]


def counts(found, mode):
    """Return lines with the number of cases by verdict, and of refusals and errors by reason."""
    outcomes = [outcome for result in found.values() for outcome in result.get(mode, {}).values()]
    by_verdict = Counter(outcome["verdict"] for outcome in outcomes)
    packages = sum(mode in result for result in found.values())
    total = ", ".join(f"{by_verdict[verdict]} {verdict}" for verdict in VERDICTS if by_verdict[verdict])
    lines = [f"{mode}: {len(outcomes)} functions of {packages} packages: {total}"]
    for verdict in ("refused", "error"):
        reasons = Counter(outcome["reason"] for outcome in outcomes if outcome["verdict"] == verdict)
        lines += [f"  {verdict}: {reason}: {count}" for reason, count in reasons.most_common()]
    return lines


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"packages, all by default: {', '.join(NAMES)}")
    parser.add_argument("--compiled", action="store_true", help="judge compiled derivatives as well")
    parser.add_argument("--markdown", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each case (default: 60)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all results to a file")
    parser.add_argument("--jobs", type=int, default=1, help="packages at a time (default: 1)")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no cases for {', '.join(sorted(unknown))}")
    modes = MODES if options.compiled else MODES[:1]
    with ThreadPoolExecutor(options.jobs) as pool:
        names = options.names or NAMES
        found = dict(zip(names, pool.map(lambda name: package_results(name, modes, options.limit), names)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for mode in modes:
        print("\n".join(text_table(found, mode)))
    if options.markdown:
        PAGE.write_text("\n".join(page(found, modes)) + "\n", encoding="utf-8")


def page(found, modes):
    raise NotImplementedError


if __name__ == "__main__":
    main()
