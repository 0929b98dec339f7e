"""``python -m benchmarks.colour_counts``: number of colours of random patterns, and the time to find them.

`wengert.colouring` tries several orders and keeps the best; it is compared with single orders, and with asdex's
largest-first if installed.
The exit status is 1 if another order needs fewer colours.
"""

import argparse
import sys
import time

import numpy as np
import scipy.sparse as sp

import wengert as wg
from benchmarks import measure

#: rows, columns, nonzeros per row
SIZES = [(1000, 1000, 5), (1000, 1000, 11), (2000, 1000, 20), (10_000, 10_000, 10), (100_000, 100_000, 5)]
SIZES += [(20_000, 50_000, 15), (50_000, 50_000, 14), (200_000, 20_000, 6)]
SINGLE = ("largest_first", "dsatur")


def uniform(m, n, k, rng):
    """Distribute the nonzeros of each row uniformly."""
    rows = np.repeat(np.arange(m), k)
    return sp.csr_array((np.ones(rows.size, bool), (rows, rng.integers(n, size=rows.size))), (m, n))


def skewed(m, n, k, rng):
    """Give some columns many more nonzeros than others."""
    rows = np.repeat(np.arange(m), k)
    columns = (n * rng.uniform(size=rows.size) ** 1.3).astype(int)
    return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), (m, n))


def edges(pattern):
    """Return the pairs of columns that share a row."""
    ones = pattern.astype(np.int32)
    return ((ones.T @ ones).nnz - np.count_nonzero(np.diff(pattern.tocsc().indptr))) // 2


def asdex_count(pattern):
    """Return the number of colours by asdex, or None."""
    try:
        from asdex import SparsityPattern, color_cols
    except ImportError:
        return None
    rows, columns = pattern.tocoo().coords
    return color_cols(SparsityPattern.from_coo(rows, columns, pattern.shape))[1]


def timed(call, pattern):
    start = time.perf_counter()
    return call(pattern), time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.colour_counts", description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=float, default=5e6, help="pairs of columns that share a row, at most")
    options = parser.parse_args()
    measure.pin()
    wg.colouring(uniform(10, 10, 2, np.random.default_rng(0)))
    asdex_count(uniform(10, 10, 2, np.random.default_rng(0)))  # import asdex
    titles = ["pattern", "size", "pairs in conflict", "at least", "auto", "its time", "largest first", "DSATUR"]
    print(f"| {' | '.join([*titles, 'asdex', 'its time'])} |")
    print("|---|" + "---:|" * 9)
    worse = 0
    for kind in (uniform, skewed):
        for m, n, k in SIZES:
            pattern = kind(m, n, k, np.random.default_rng(m + k))
            pairs = edges(pattern)
            if pairs > options.most:
                continue
            found, taken = timed(wg.colouring, pattern)
            others = [wg.colouring(pattern, method=method).count for method in SINGLE]
            theirs, their_time = timed(asdex_count, pattern)
            worse += found.count > min([*others, *([theirs] if theirs else [])])
            columns = [f"{kind.__name__}, {k} a row", f"{m} x {n}", f"{pairs:.2g}", found.lower_bound, found.count]
            columns += [measure.shown(taken), *others]
            columns += [theirs, measure.shown(their_time)] if theirs else ["", ""]
            print(f"| {' | '.join(map(str, columns))} |", flush=True)
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
