"""Times of sums over chunks on several processes: efficiency, overhead of a chunk, memory of the driver.

``python -m benchmarks.distributed [rows] [--figure PATH]`` prints the tables of docs/how-to/distributed.md.
Other users of a shared machine distort wall times, so the efficiency is computed from CPU times: that of one process
for all chunks, divided by that of the workers and the driver together, times the balance of the workers, which is
their mean time divided by the longest.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import multiprocessing
import os
import resource
import time

import numpy as np

import wengert as wg
from wengert.distributed import sum_over

#: coefficients of the model, and rows in a chunk
SIZE, ROWS = 10, 250_000


def logistic(theta, chunk):
    x, y = chunk
    z = x @ theta
    return np.sum(np.logaddexp(0.0, z) - y * z)


def generated(seed, rows=ROWS):
    """Make the data of a chunk."""
    random = np.random.default_rng(seed)
    x = random.random((rows, SIZE)) - 0.5
    return x, (random.random(rows) < 0.5).astype(float)


def nothing(theta, chunk):
    return theta


def cpu_of_worker(barrier_seconds):
    """CPU time of this worker; it waits, so that each worker answers once."""
    time.sleep(barrier_seconds)
    return os.getpid(), time.process_time()


def cpu_times(pool, count):
    found = {}
    while len(found) < count:
        found.update(pool.map(cpu_of_worker, [0.2] * count))
    return found


def efficiency(rows, counts=(1, 2)):
    """Print CPU and wall time of the value and gradient of a logistic regression."""
    chunks = [functools.partial(generated, seed) for seed in range(rows // ROWS)]
    theta = np.linspace(-1.0, 1.0, SIZE)
    print(f"logistic regression, {len(chunks) * ROWS:.3g} rows in {len(chunks)} chunks, value and gradient")
    alone = None
    found = []
    for count in counts:
        with concurrent.futures.ProcessPoolExecutor(count, multiprocessing.get_context("forkserver")) as pool:
            gradient = wg.value_and_grad(sum_over(wg.compile(logistic), chunks, workers=pool))
            wg.value_and_grad(sum_over(wg.compile(logistic), chunks[: 4 * count], workers=pool))(
                theta
            )  # start and warm
            before, driver, start = cpu_times(pool, count), time.process_time(), time.perf_counter()
            y, _ = gradient(theta)
            wall, driver = time.perf_counter() - start, time.process_time() - driver
            spent = [after - before[pid] for pid, after in cpu_times(pool, count).items()]
        total = sum(spent) + driver
        alone = alone or total
        balance = np.mean(spent) / max(spent)
        found.append((count, total, driver, wall, balance * alone / total))
        print(
            f"  {count} processes: CPU {total:8.2f} s, of which the driver {driver:6.3f} s; wall {wall:8.2f} s; "
            f"balance {balance:.3f}; efficiency {balance * alone / total:.3f}   (loss {y:.12g})",
            flush=True,
        )
    return found


def overhead(counts=(200, 2000)):
    """Print the time of an empty chunk, beside that of an empty task of the same pool."""
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("forkserver")) as pool:
        theta = np.zeros(SIZE)
        for count in counts:
            for per_task in (1, None):
                loss = sum_over(nothing, range(count), workers=pool)
                if per_task:
                    loss._engine = OneByOne(pool)
                loss(theta)
                start, cpu = time.perf_counter(), time.process_time()
                loss(theta)
                ours = (time.perf_counter() - start) / count, (time.process_time() - cpu) / count
                start = time.perf_counter()
                for future in [pool.submit(nothing, theta, i) for i in range(count)]:
                    future.result()
                engine = (time.perf_counter() - start) / count
                word = "one chunk a task" if per_task else "adapted tasks"
                print(
                    f"  {count} empty chunks, {word}: {1e3 * ours[0]:.3f} ms a chunk ({1e3 * ours[1]:.3f} ms CPU of "
                    f"the driver), the engine alone {1e3 * engine:.3f} ms"
                )


def start(repeats=3):
    """Print the time until processes of our own have started."""
    for _ in range(repeats):
        with sum_over(nothing, range(2), workers=2) as loss:
            begin = time.perf_counter()
            loss(np.zeros(SIZE))
            first, begin = time.perf_counter() - begin, time.perf_counter()
            loss(np.zeros(SIZE))
            print(f"  two processes: first sum {first:.2f} s, second sum {1e3 * (time.perf_counter() - begin):.1f} ms")


class OneByOne(wg.distributed.engines.Submitted):
    """An engine with so many workers that no task has more than one chunk."""

    count = 1000


def memory(counts=(100, 10_000)):
    """Print the largest resident memory of a driver, for sums of more and more chunks."""
    for count in counts:
        with multiprocessing.get_context("spawn").Pool(1) as fresh:
            print(f"  {count} chunks: peak of the driver {fresh.apply(_peak, (count,)) / 1024:.1f} MB")


def _peak(count):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        loss = sum_over(nothing, range(count), workers=pool)
        loss(np.zeros(100_000))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=float, nargs="?", default=1e7)
    rows = int(parser.parse_args().rows)
    efficiency(rows)
    start()
    overhead()
    memory()


if __name__ == "__main__":
    main()
