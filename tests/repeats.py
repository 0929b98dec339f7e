"""Repeat derivatives, and run them in threads: ``python -m tests.repeats [--times N]``; the suite runs a few.

A derivative that returns or raises must leave nothing behind: no objects, no references to operands, no memory.
"""

from __future__ import annotations

import argparse
import copy
import gc
import os
import sys
import tracemalloc
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np

import wengert as wg
from helpers import assert_same_bits, in_threads
from scenarios import TABLE

#: objects and bytes by which caches may still grow
OBJECTS, BYTES, RESIDENT = 10, 10_000, 2**21

ARRAYS = [s for s in TABLE if not s.containers and not s.writes_input]


class Interrupted(Exception):
    pass


BROKEN_OFF = {}


def interrupted(s):
    """Interrupt the program after its whole tape is recorded; one function object for each scenario, like s.f."""

    def f(*args):
        s.f(*args)
        raise Interrupted

    return BROKEN_OFF.setdefault(s.name, f)


def returned(s):
    wg.jacobian(s.f, s.x, args=s.args)


def raised(s):
    try:
        wg.jacobian(interrupted(s), s.x, args=s.args)
    except Interrupted:
        pass


def resident():
    """Return the resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if sys.platform == "linux" else 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def left(s, call, times, traced=True):
    """Return the growth over `times` calls: objects, references to the operand, bytes traced and resident."""
    for _ in range(5 if traced else 200):
        call(s)

    def now():
        gc.collect()
        memory = tracemalloc.get_traced_memory()[0] if traced else 0
        return np.array([len(gc.get_objects()), sys.getrefcount(s.x), memory, resident()])

    gc.freeze()  # exclude earlier objects from collection, which would take most of the time
    if traced:
        tracemalloc.start()
    try:
        call(s)
        before = now()
        for _ in range(times):
            call(s)
        return now() - before
    finally:
        gc.unfreeze()
        if traced:
            tracemalloc.stop()


def assert_nothing_left(s, call, times, traced=True):
    objects, references, traced_bytes, resident_bytes = left(s, call, times, traced)
    grown = f"{s.name}, {call.__name__}: {objects} objects, {references} references, {traced_bytes} bytes"
    assert objects < OBJECTS, grown
    assert references == 0, grown
    assert traced_bytes < BYTES, grown
    assert traced or resident_bytes < RESIDENT, f"{grown}, {resident_bytes} bytes resident"


def gradient(k):
    """Return one of many different gradients."""
    s = ARRAYS[k % len(ARRAYS)]
    x = np.asarray(copy.deepcopy(s.x), dtype=s.dtype)
    return wg.jacobian(s.f, (x * (1 + 1e-4 * (k % 97))).astype(s.dtype), args=s.args)


def assert_threads_agree(times, count=8):
    """Check that gradients computed in threads have the bits of those computed sequentially."""
    found = [[None] * times for _ in range(count)]

    def work(i):
        for k in range(times):
            found[i][k] = gradient(k * count + i)

    in_threads(work, count)
    for i in range(count):
        for k in range(times):
            assert_same_bits(found[i][k], gradient(k * count + i), f"gradient {k * count + i}")


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.repeats", description=__doc__)
    parser.add_argument("--times", type=int, default=10_000, metavar="N", help="repetitions of each derivative")
    times = parser.parse_args().times
    warnings.simplefilter("ignore", wg.MutatedInputWarning)
    failures = 0
    for s in TABLE:
        for call in (returned, raised):
            try:
                assert_nothing_left(s, call, times, traced=False)
            except AssertionError as failure:
                failures += 1
                print(failure, flush=True)
    assert_threads_agree(times // 10)
    print(f"{len(TABLE)} programs, {times} times each: {failures} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
