"""Fit a logistic regression to data that the workers of a Dask cluster generate; they could read it from files.

Run it as ``python dask_sum.py``, or replace ``LocalCluster`` by a cluster of machines.
"""

import functools

import numpy as np
from dask.distributed import Client, LocalCluster
from scipy.optimize import minimize

import wengert as wg
from wengert.distributed import sum_over

TRUTH = np.array([1.0, -2.0, 0.5])


def load(seed, rows=20_000):
    """Make one chunk of the data; called in a worker."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, TRUTH.size))
    return x, random.random(rows) < 1 / (1 + np.exp(-(x @ TRUTH)))


def loss_of_chunk(theta, chunk):
    x, y = chunk
    z = x @ theta
    return np.sum(np.logaddexp(0.0, z) - y * z)


def main():
    chunks = [functools.partial(load, seed) for seed in range(20)]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        loss = sum_over(loss_of_chunk, chunks, workers=client)
        found = minimize(wg.value_and_grad(loss), np.zeros(3), jac=True, method="BFGS", options={"gtol": 1e-2})
        error_bars = np.sqrt(np.diag(np.linalg.inv(wg.hessian(loss, found.x))))
    print("estimate", found.x.round(3), "error bars", error_bars.round(4))
    assert np.all(np.abs(found.x - TRUTH) < 5 * error_bars)


if __name__ == "__main__":
    main()
