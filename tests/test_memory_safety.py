"""Programs whose sizes depend on data: masks, gathers, stores and sorts, at small and large sizes, in both tiers."""

import gc

import numpy as np
import pytest

import wengert as wg
from wengert.program import spec
from wengert.program.calls import static


def binned(n):
    def f(d, r):
        s = 0.0
        for i in range(n):
            s = s + d[(i / n <= r) & (r < (i + 1) / n)].sum() * (i + 1.0)
        return s

    return f


@pytest.mark.parametrize(("size", "n"), [(1_000, 100), (10_000, 100), (100_000, 20)])
def test_masks_of_other_lengths_at_each_step_gather_their_own_places(size, n):
    rng = np.random.default_rng(0)
    d, r = rng.random(size), rng.random(size)
    f = binned(n)
    spec.check(wg.record(f, d, args=(r,)))
    g = wg.compile(f)
    for _ in range(3):
        assert g(d, r) == pytest.approx(f(d, r), rel=1e-12)
    assert np.array_equal(wg.grad(g)(d, r), wg.grad(f)(d, r))


def test_keys_keep_the_arrays_that_they_tell_apart_by_identity():
    known = {static(np.full(100, k)) for k in range(50)}  # each would get the memory of the one before
    gc.collect()
    assert len(known) == 50
