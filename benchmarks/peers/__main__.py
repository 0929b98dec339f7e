"""Derivatives by wengert and by other packages, side by side: `python -m benchmarks.peers`.

Each package runs in a separate process, with one thread on one core; packages take turns.  A derivative is checked
against a hand-written one or complex steps before it is timed.  Results are saved at once, so that an interrupted run
can be continued.  The tables are written into docs/performance/tables.md.
"""

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from importlib.metadata import version
from pathlib import Path

from benchmarks import measure
from benchmarks.peers import table
from benchmarks.peers.packages import DISTRIBUTIONS, OURS, PACKAGES, SCALAR_CODE, TITLES, takes
from benchmarks.peers.rows import ROWS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "performance" / "tables.md"
#: tables of the page, by the markers around them
TABLES = {
    "peers": [row for row in ROWS if not row.is_sparse],
    "sparse peers": [row for row in ROWS if row.is_sparse],
}
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}
RAISED = dict.fromkeys(("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(2**32))
#: rows with large arrays, which run with both settings of malloc
BOTH_SETTINGS = (*OURS, "torch", "jax")


def run_cell(python, seconds, *arguments, **settings):
    """Return the results of `benchmarks.peers.cell`, or the reason why there are none."""
    command = [python, "-m", "benchmarks.peers.cell", *arguments]
    inherited = {name: value for name, value in measure.environment().items() if name not in RAISED}
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory() as folder:  # for caches, and for files left by casadi's compilers
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=inherited | ONE_THREAD | settings | {"WENGERT_CACHE_DIR": folder, "PYTHONPATH": path},
            cwd=folder,
            start_new_session=True,
        )
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            end(process)
            return {"fails": f"over {seconds:g} s"}
        except BaseException:
            end(process)
            raise
    if process.returncode:
        last = errors.strip().rpartition("\n")[2]
        return {"fails": f"exit status {process.returncode}: {last}"}
    return json.loads(out.splitlines()[-1])


def compile_modules(python):
    """Compile the modules of wengert to bytecode, as an installation does: else first calls would include it."""
    code = "import compileall, wengert; compileall.compile_dir(wengert.__path__[0], quiet=1)"
    subprocess.run([python, "-c", code], check=True, env=measure.environment())


def end(process):
    """Terminate a process and the compilers that it has started."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.communicate()


class Figures:
    """Results in a file: for each setting of malloc, row and package a list of cells."""

    def __init__(self, path):
        self.path = path
        self.kept = json.loads(path.read_text()) if path.exists() else {}

    def of(self, setting):
        return self.kept.setdefault(setting, {})

    def cells(self, setting, row, package):
        return self.of(setting).setdefault(row.key, {}).setdefault(package, [])

    def drop(self, packages, rows):
        for setting in ("default", "raised"):
            for row in rows:
                for package in packages:
                    self.cells(setting, row, package).clear()

    def save(self):
        """Write the file atomically, so that an interrupted run leaves it intact."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        written = self.path.with_suffix(".new")
        written.write_text(json.dumps(self.kept, indent=1) + "\n")
        written.replace(self.path)


def run_row(row, setting, pythons, figures, options):
    """Fill the cells of a row; failed cells and cells that exceeded the time limit are not retried."""
    for turn in range(options.repeats):
        for package, python in pythons.items():
            cells = figures.cells(setting, row, package)
            spent = sum(cell["took"] for cell in cells)
            if len(cells) > turn or spent > options.budget or not all("cold" in cell for cell in cells):
                continue
            start = time.perf_counter()
            found = run_cell(python, options.limit, package, row.key, **(RAISED if setting == "raised" else {}))
            cells.append(found | {"took": time.perf_counter() - start})
            figures.save()
            print(f"{setting:8} {row.key:36} {package:12} {found}", file=sys.stderr, flush=True)


def processor():
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def conditions(versions, missing, options):
    """Return sentences on how the figures were measured, one per line."""
    named = ", ".join(dict.fromkeys(f"{DISTRIBUTIONS.get(name, name)} {number}" for name, number in versions.items()))
    processes = "One process" if options.repeats == 1 else f"Medians of up to {options.repeats} processes"
    lines = [
        f"Generated by `python -m benchmarks.peers`; last measurement on {date.today().isoformat()}.",
        f"One of {os.cpu_count()} cores, {processor()}; one thread; default malloc settings.",
        f"Python {platform.python_version()}, NumPy {version('numpy')}, {named}.",
        f"{processes} per cell, time limit {options.limit:g} s per process; "
        f"no further process is started after {options.budget:g} s.",
        *options.note,
    ]
    reasons = {name: re.sub(r" \(/.*\)$", "", why) for name, why in missing.items()}  # without the path of a module
    return lines + [f"{TITLES.get(name, name)} omitted: {why}." for name, why in reasons.items()]


def chosen(names, known, what, parser):
    """Return the known names that contain one of the given ones; all of them if none is given."""
    for name in names or ():
        if not any(name in other for other in known):
            parser.error(f"no {what} is called {name!r}; there are {', '.join(known)}")
    return [other for other in known if not names or any(name in other for name in names)]


def interpreters(given, packages, parser):
    """Return the interpreter of each package, from `PATH` and `PACKAGE=PATH`; wengert's default is the current one."""
    pythons = dict.fromkeys(packages, sys.executable)
    for one in given:
        name, named, path = one.rpartition("=")
        if named and name not in PACKAGES:
            parser.error(f"no package is called {name!r}; there are {', '.join(PACKAGES)}")
        for package in [name] if named else [package for package in packages if package not in OURS]:
            pythons[package] = path
    return {package: pythons[package] for package in packages}


def write(text, name):
    """Replace the text between its markers in the page."""
    first, last = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise SystemExit(f"{PAGE} has no lines {first.strip()} and {last.strip()}")
    PAGE.write_text(f"{before}{begin}\n{text}\n\n{end}{after}", encoding="utf-8")


def has_large_arrays(row):
    small = row.name == "Root" or (row.name == "rosenbrock_sliced" and row.arguments[0] <= 1000)
    return row.name not in SCALAR_CODE and not small


def options_given():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--rows", nargs="+", metavar="PART", help="rows whose key contains this (see --list)")
    add("--peers", nargs="+", metavar="NAME", choices=list(PACKAGES), help=f"packages, of {', '.join(PACKAGES)}")
    add("--list", action="store_true", help="print the keys of the rows")
    add("--again", action="store_true", help="forget the figures of these rows and packages first")
    add("--tables", action="store_true", help="measure nothing, make the tables of what there is")
    add("--markdown", action="store_true", help="print the tables instead of writing them to the docs")
    kept = ROOT / "build" / "peers.json"
    add("--json", metavar="PATH", type=Path, default=kept, help=f"where figures are kept (default: {kept})")
    add("--repeats", type=int, default=3, help="processes a figure, at most (default: 3)")
    add("--budget", type=float, default=4.0, help="seconds after which a figure has no other process (default: 4)")
    add("--limit", type=float, default=60.0, help="seconds a process may take (default: 60)")
    add("--note", action="append", default=[], help="a sentence that is written above the tables")
    name = "[PACKAGE=]PATH"
    add("--python", action="append", default=[], metavar=name, help="interpreter of the other packages, or of one")
    options = parser.parse_args()
    options.keys = chosen(options.rows, [row.key for row in ROWS], "row", parser)
    options.chosen = [row for row in ROWS if row.key in options.keys]
    packages = [name for name in options.peers or PACKAGES if any(takes(name, row) for row in options.chosen)]
    options.pythons = interpreters(options.python, packages, parser)
    return options


def main():
    options = options_given()
    if options.list:
        return print("\n".join(options.keys))
    figures = Figures(options.json)
    if not options.tables:
        run(figures, options)
    for name, of_table in TABLES.items():
        rows = [row for row in of_table if row in options.chosen]
        if not rows:
            continue
        text = table_of(rows, figures, options)
        if len(rows) < len(of_table) or options.peers or options.markdown:  # the docs need all rows and packages
            print(text)
        else:
            write(text, name)


def run(figures, options):
    """Fill the cells of the chosen rows."""
    for python in {options.pythons[package] for package in OURS if package in options.pythons}:
        compile_modules(python)
    found = {package: run_cell(python, options.limit, package) for package, python in options.pythons.items()}
    known = figures.kept.setdefault("versions", {})
    known |= {package: cell["version"] for package, cell in found.items() if "version" in cell}
    missing = {package: table.reason(cell) for package, cell in found.items() if "version" not in cell}
    figures.kept["missing"] = missing
    if options.again:
        figures.drop(options.pythons, options.chosen)
    for row in options.chosen:
        pythons = {
            package: python
            for package, python in options.pythons.items()
            if package not in missing and takes(package, row)
        }
        run_row(row, "default", pythons, figures, options)
        if has_large_arrays(row):
            both = {package: pythons[package] for package in BOTH_SETTINGS if package in pythons}
            run_row(row, "raised", both, figures, options)


def table_of(rows, figures, options):
    """Return the Markdown table of rows that are supported by the same packages."""
    packages = [name for name in options.pythons if takes(name, rows[0])]
    versions = {name: figures.kept["versions"][name] for name in packages if name in figures.kept["versions"]}
    missing = {name: why for name, why in figures.kept["missing"].items() if name in packages}
    return table.markdown(
        rows,
        figures.of("default"),
        figures.of("raised"),
        list(versions),
        conditions(versions, missing, options),
    )


if __name__ == "__main__":
    main()
