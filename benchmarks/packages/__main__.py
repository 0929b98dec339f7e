"""Table of derivatives of published packages: `python -m benchmarks.packages [names] [--compiled] [--markdown]`.

Each package runs in a process of its own; a function that ends the process or exceeds the time limit does not stop
the others.  Verdicts: `right`; `wrong`, beyond the tolerance; `nan`, where it is not right; `warned`, wrong with a
warning that says so; `refused`, by an error of wengert; `error`, another exception; `crash`, the process ended; `slow`,
over the time limit; `unchecked`, the differences are inaccurate.
"""

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.packages import report

ROOT = Path(__file__).resolve().parents[2]
NAMES = sorted(path.stem for path in (Path(__file__).parent / "cases").glob("[!_]*.py"))
PAGE = ROOT / "docs" / "reference" / "packages.md"
IMPORT_SECONDS = 120
MODES = ("eager", "compiled")


def package_results(module, modes, limit):
    """Return the version of a package and its outcomes by mode and function, or why it is skipped."""
    found = {}
    for mode in modes:
        result = results(module, mode, limit)
        if "skipped" in result:
            return result
        outcomes = result.pop("outcomes")
        found |= {**result, mode: outcomes}
    print(module, file=sys.stderr, flush=True)
    return found


def results(module, mode, limit):
    """Return the version of a package and its outcomes by function; a worker that ends early is started again."""
    outcomes = {}
    while True:
        process, lines = started(module, mode, len(outcomes))
        try:
            head = read(lines, IMPORT_SECONDS) or {"skipped": "its import does not end"}
            if "skipped" in head:
                return head
            for case in head["cases"][len(outcomes) :]:
                outcomes[case] = read(lines, limit)
                if outcomes[case] is None:
                    is_running = process.poll() is None
                    outcomes[case] = {"verdict": "slow" if is_running else "crash"}
                    break
        finally:
            process.kill()
            process.wait()
        if len(outcomes) == len(head["cases"]):
            return {"package": head["package"], "version": head["version"], "outcomes": outcomes}


def started(module, mode, index):
    """Start a worker, and return it with a queue of its lines, which ends with None."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.packages.worker", module, mode, str(index)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    lines = queue.Queue()

    def fill():
        with process.stdout:
            for line in process.stdout:
                lines.put(line)
        process.wait()
        lines.put(None)

    threading.Thread(target=fill, daemon=True).start()
    return process, lines


def read(lines, seconds):
    """Return the next line as an object, or None if the process ended or there is no line in time."""
    try:
        line = lines.get(timeout=seconds)
    except queue.Empty:
        return None
    return None if line is None else json.loads(line)


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.packages", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"packages, all by default: {', '.join(NAMES)}")
    parser.add_argument("--compiled", action="store_true", help="judge compiled derivatives as well")
    parser.add_argument("--markdown", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all results to a file")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each function (default: 60)")
    parser.add_argument("--jobs", type=int, default=1, help="packages at a time (default: 1)")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"no cases for {', '.join(sorted(unknown))}")
    modes = MODES if options.compiled else MODES[:1]
    names = options.names or NAMES

    def judged(name):
        return package_results(f"benchmarks.packages.cases.{name}", modes, options.limit)

    with ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(names, pool.map(judged, names)))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for mode in modes:
        print("\n".join(report.text_table(found, mode)))
    if options.markdown:
        PAGE.write_text("\n".join(report.page(found, modes)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
