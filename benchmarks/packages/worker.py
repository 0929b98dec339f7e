"""Judge the cases of a module, in a process of its own: `python -m benchmarks.packages.worker MODULE MODE INDEX`.

Prints a line of JSON for each case from INDEX on; the parent process enforces the time limit.
"""

import importlib
import json
import os
import sys
from importlib.metadata import PackageNotFoundError, version

from benchmarks.packages.verdict import judge


def main(name, mode, index):
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # packages print to the standard output, which belongs to the results
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        print(json.dumps({"skipped": f"{type(error).__name__}: {error}"}), file=out)
        return
    names = [case.name for case in module.cases]
    print(json.dumps({"cases": names, "package": module.PACKAGE, "version": installed(module.PACKAGE)}), file=out)
    for case in module.cases[int(index) :]:
        print(json.dumps(judge(case, mode == "compiled")._asdict()), file=out)


def installed(distribution):
    """Return the version of a distribution, or an empty string if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
