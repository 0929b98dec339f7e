"""Time two callables against each other: in one process, strictly alternating, by medians."""

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Comparison(NamedTuple):
    """Medians of both times in seconds, and of second/first with its quartiles, over all pairs."""

    first: float
    second: float
    ratio: float
    low: float
    high: float


def seconds_per_call(call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def calls_for(call, seconds):
    """Return how many calls take about `seconds`; at least one."""
    calls = 1
    while True:
        taken = seconds_per_call(call, calls) * calls
        if taken >= seconds / 4:
            return max(1, round(calls * seconds / taken))
        calls *= 4


def alternate(first, second, pairs=11, seconds=0.03):
    """Compare two callables without arguments: A B A B, each sample of about `seconds`."""
    calls = calls_for(first, seconds), calls_for(second, seconds)
    samples = [(seconds_per_call(first, calls[0]), seconds_per_call(second, calls[1])) for _ in range(pairs)]
    return summary(samples)


def summary(samples):
    """Return the comparison of pairs of times."""
    ratios = sorted(second / first for first, second in samples)
    return Comparison(
        median(first for first, _ in samples),
        median(second for _, second in samples),
        median(ratios),
        ratios[len(ratios) // 4],
        ratios[(3 * len(ratios)) // 4],
    )


def difference(first, second, pairs=11):
    """Return the median of second() - first(), with one call of each per pair."""
    first(), second()
    return median(-seconds_per_call(first, 1) + seconds_per_call(second, 1) for _ in range(pairs))


def shown(seconds):
    """Format a time in a suitable unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1.0:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def environment():
    """Return the environment of measured processes, which keep bytecode as those of installed packages do."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run_python(code, *arguments):
    """Run `code` in a new interpreter with the same path, and return its output as floats."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=environment() | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return [float(word) for word in done.stdout.split()]


def peak_memory():
    """Return the maximum resident memory of this process in bytes."""
    try:
        # not ru_maxrss, which on Linux starts at what the parent process had
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def pin():
    """Pin this process and its children to one core; return its number, or None if that is impossible."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def malloc_setting():
    """Return the settings of glibc's allocator that decide whether freed buffers return to the kernel."""
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
    found = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return ", ".join(found) or "default"
