"""``python -m tests.fuzz --programs N --seed S``: compare N random programs; exit with status 1 if one fails."""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


from fuzz import programs, table
from fuzz.check import Failure, check

#: with this number of programs each rule has about 20 hits, and each form 200
ENOUGH = 20_000


def fails_in_same_way(kind, second):
    def fails(program):
        try:
            check(program, second)
        except Failure as failure:
            return failure.kind == kind
        return False

    return fails


def failure_of(program, second):
    try:
        check(program, second)
    except Failure as failure:
        return failure


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, metavar="N", help="how many to draw")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which ones")
    parser.add_argument("--first", type=int, default=0, metavar="I", help="number of the first, to repeat a failure")
    parser.add_argument("--second", type=int, default=2, metavar="K", help="second derivatives of every K-th program")
    parser.add_argument("--whole", action="store_true", help="print failing programs as drawn, not shrunk")
    options = parser.parse_args()

    faulthandler.enable()
    start = time.perf_counter()
    hits, results, failures = collections.Counter(), collections.Counter(), []
    with contextlib.suppress(KeyboardInterrupt):
        for index in range(options.first, options.first + options.programs):
            compare(index, options, hits, results, failures)
    print(f"\n{results['programs']} programs of seed {options.seed} in {time.perf_counter() - start:.0f} s")
    print(f"{len(failures)} failures: {failures}")
    print_report(hits, results)
    return bool(failures)


def compare(index, options, hits, results, failures):
    """Compare one program, and count its calls."""
    program = programs.draw(options.seed, index)
    second = index % options.second == 0
    try:
        report = check(program, second)
    except Failure as failure:
        failures.append(index)
        print(f"\n---- seed {options.seed}, program {index}: {failure}\n")
        shrunk = program if options.whole else programs.shrunk(program, fails_in_same_way(failure.kind, second))
        print(f"{shrunk.text()}\n# {failure_of(shrunk, second)}", flush=True)
    else:
        results[report.skipped or ("scaled" if report.scaled else "sharp")] += 1
        if not report.skipped:
            results["replay met another branch"] += not report.moved
            results[f"second order: {report.second}"] += second
    results["programs"] += 1
    hits.update(program.hits)


def print_report(hits, results):
    """Print the number of comparisons, and how often each rule and form was drawn."""
    for name, count in sorted(results.items()):
        print(f"  {count:7} {name}")
    wanted = dict.fromkeys(sorted(table.rows_to_draw()), 20)
    wanted.update({f"form: {name}": 200 for name in (*table.FORMS, *table.CALLED)})
    print("hits:")
    for name in wanted:
        print(f"  {hits[name]:7} {name}")
    if results["programs"] >= ENOUGH:
        short = [name for name, least in wanted.items() if hits[name] < least]
        print(f"{len(short)} hit less often than they should be: {short}")


if __name__ == "__main__":
    sys.exit(main())
