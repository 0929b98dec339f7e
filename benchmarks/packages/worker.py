"""Judge the cases of one package, in a process of its own: `python -m benchmarks.packages.worker NAME MODE INDEX`.

Prints a line of JSON for each case from INDEX on; the parent process enforces the time limit.
"""

import importlib
import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version

from benchmarks.packages.verdict import judge


def main(name, mode, index):
    # results stand alone on the real standard output: packages print
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        module = importlib.import_module(f"{CASES}.{name}")
    except ImportError as error:
        print(json.dumps({"skipped": f"{type(error).__name__}: {error}"}), file=out)
        return
    print(json.dumps({"cases": [case.name for case in module.cases], "version": installed(module.PACKAGE)}), file=out)
    for case in module.cases[int(index) :]:
        print(json.dumps(judge(case, mode == "compiled")._asdict()), file=out)


def installed(distribution):
    """Return the version of a distribution, or an empty string for one that is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


CASES = os.environ.get("WENGERT_PACKAGE_CASES", "benchmarks.packages.cases")

if __name__ == "__main__":
    main(*sys.argv[1:])
