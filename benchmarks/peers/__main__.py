"""Derivatives by wengert and by other packages, side by side: `python -m benchmarks.peers`.

Each package has a process of its own, with one thread on one core; packages take turns.  A derivative is checked
against one by hand or by complex steps before it is timed.  The tables are written into docs/performance.md.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks import measure
from benchmarks.peers import table
from benchmarks.peers.packages import DISTRIBUTIONS, PACKAGES, TITLES
from benchmarks.peers.rows import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- peers -->\n", "<!-- /peers -->\n"
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


def run_cell(python, seconds, *arguments):
    """What `benchmarks.peers.cell` finds, or why it finds nothing."""
    command = [python, "-m", "benchmarks.peers.cell", *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=os.environ | ONE_THREAD,
            cwd=ROOT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"fails": f"over {seconds:g} s"}
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        return {"fails": f"exit status {done.returncode}: {last}"}
    return json.loads(done.stdout.splitlines()[-1])


def run_row(row, pythons, options):
    """The cell of each package; one that fails is not tried again."""
    cells = {package: [] for package in pythons}
    for _ in range(options.repeats):
        for package, python in pythons.items():
            if all("cold" in cell for cell in cells[package]):
                cells[package].append(run_cell(python, options.limit, package, row.key))
                print(f"{row.key:36} {package:12} {cells[package][-1]}", file=sys.stderr, flush=True)
    return {package: table.summary(found) for package, found in cells.items()}


def processor():
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def setting(versions, missing, options):
    """Sentences on where the figures come from, one a line."""
    named = ", ".join(dict.fromkeys(f"{DISTRIBUTIONS.get(name, name)} {number}" for name, number in versions.items()))
    malloc = measure.malloc_setting()
    lines = [
        f"Written by `python -m benchmarks.peers` on {date.today().isoformat()}.",
        f"One core of {os.cpu_count()} of this machine: {processor()}; one thread; malloc settings: {malloc}.",
        f"Python {platform.python_version()}, NumPy {version('numpy')}, {named}.",
        f"Medians of so many processes: {options.repeats}; each takes at most {options.limit:g} s.",
        "Functions are written once, for NumPy; `benchmarks/peers/rewrites.py` has what a package needed otherwise.",
        "jax is compiled and in double precision, torch is eager.",
        "casadi has an SX for each element in scalar code, else an MX, and is called through its buffers.",
        "Finite differences are two-point ones and may be wrong by 1 %; all else is exact to 1e-10.",
        "seidel_2d is linear in x: casadi's gradient of it is a constant.",
    ]
    return lines + [f"{TITLES.get(name, name)} was left out: {why}." for name, why in missing.items()]


def chosen(names, known, what, parser):
    """The known names that contain one of those given; all of them if none is given."""
    for name in names or ():
        if not any(name in other for other in known):
            parser.error(f"no {what} is called {name!r}; there are {', '.join(known)}")
    return [other for other in known if not names or any(name in other for name in names)]


def interpreters(given, packages, parser):
    """The interpreter of each package, from `PATH` and `PACKAGE=PATH`; wengert's is this one unless named."""
    pythons = dict.fromkeys(packages, sys.executable)
    for one in given:
        name, named, path = one.rpartition("=")
        if named and name not in PACKAGES:
            parser.error(f"no package is called {name!r}; there are {', '.join(PACKAGES)}")
        for package in [name] if named else [package for package in packages if package not in table.OURS]:
            pythons[package] = path
    return {package: pythons[package] for package in packages}


def write(text):
    """Put the text between its markers in the page."""
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no lines {BEGIN.strip()} and {END.strip()}")
    PAGE.write_text(f"{before}{begin}\n{text}\n\n{end}{after}", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--rows", nargs="+", metavar="PART", help="rows whose key contains this (see --list)")
    parser.add_argument("--peers", nargs="+", metavar="PART", help=f"packages, of {', '.join(PACKAGES)}")
    parser.add_argument("--list", action="store_true", help="print the keys of the rows")
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables instead of writing them to the docs"
    )
    parser.add_argument(
        "--json", metavar="PATH", type=Path, help="write the figures there; rows found there are kept"
    )
    parser.add_argument("--repeats", type=int, default=3, help="processes a figure (default: 3)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a process may take (default: 60)")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="[PACKAGE=]PATH",
        help="interpreter of the other packages, or of one",
    )
    options = parser.parse_args()
    keys = chosen(options.rows, [row.key for row in ROWS], "row", parser)
    packages = chosen(options.peers, list(PACKAGES), "package", parser)
    if options.list:
        return print("\n".join(keys))
    if not options.markdown and (options.rows or options.peers):
        parser.error("the docs have all rows and packages: add --markdown to see some of them")
    pythons = interpreters(options.python, packages, parser)
    found = {package: run_cell(python, options.limit, package) for package, python in pythons.items()}
    versions = {package: cell["version"] for package, cell in found.items() if "version" in cell}
    missing = {package: table.reason(cell) for package, cell in found.items() if package not in versions}
    figures = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    rows = [row for row in ROWS if row.key in keys]
    for row in rows:
        if not set(versions) <= set(figures.get(row.key, ())):
            figures[row.key] = run_row(row, {package: pythons[package] for package in versions}, options)
            if options.json:
                options.json.write_text(json.dumps(figures, indent=1) + "\n")
    text = table.markdown(rows, figures, list(versions), setting(versions, missing, options))
    return print(text) if options.markdown else write(text)


if __name__ == "__main__":
    main()
