"""Times of sparse and dense factors of the Jacobians of implicit integrations.

``python -m benchmarks.sparse_factors`` prints for some patterns the multiplications of a factorisation relative to the
cube of the size, and microseconds for a factorisation and a solution.  `wengert.program.integration.pattern` chooses
sparse factors up to `MAX_PART` and `MAX_MULTIPLICATIONS`.
"""

from __future__ import annotations

import time

import numpy as np
from wengert.program.integration.factor import Dense, Sparse

from wengert.program.integration.pattern import Pattern


def patterns():
    """Return masks by name."""
    random, found = np.random.default_rng(0), {}
    for n in (3, 6, 9, 12, 20, 60, 200):
        found[f"dense {n}"] = np.ones((n, n), bool)
        for density in (0.05, 0.1, 0.2, 0.4):
            if n * density >= 2:
                found[f"scattered {n}, {density}"] = random.random((n, n)) < density
    i, j = np.indices((1000, 1000))
    return found | {"tridiagonal 1000": np.abs(i - j) <= 1}


def least(f, count=30):
    """Return the least microseconds of a call."""
    found = []
    for _ in range(count):
        start = time.perf_counter()
        f()
        found.append(time.perf_counter() - start)
    return 1e6 * min(found)


def time_of(kind, pattern):
    """Return the time of a factorisation and a solution."""
    factor, values, b = kind(pattern, False, 1), np.random.default_rng(1).random(pattern.count), np.ones((1, pattern.n))
    return least(lambda: factor.solution(values, 1e-2, 1.0, b))


def main():
    for name, mask in patterns().items():
        pattern = Pattern(len(mask), *np.nonzero(mask))
        sparse, dense = (time_of(kind, pattern) for kind in (Sparse, Dense))
        count, chosen = pattern.multiplications, "sparse" if pattern.is_sparse else "dense"
        share = count / pattern.n**3
        print(f"{name:22} {count:9} {share:7.3f} n^3  sparse {sparse:9.1f}  dense {dense:9.1f} us  chosen: {chosen}")


if __name__ == "__main__":
    main()
