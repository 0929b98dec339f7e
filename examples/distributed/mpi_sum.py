"""The gradient of a sum over data in files, one per chunk, on the ranks of MPI.

Run it as ``mpiexec -n 4 python -m mpi4py.futures mpi_sum.py``: one rank adds up, the others compute.
"""

import tempfile
from pathlib import Path

import numpy as np
from mpi4py.futures import MPIPoolExecutor

import wengert as wg
from wengert.distributed import sum_over


def loss_of_chunk(theta, chunk):
    return np.sum((np.exp(-theta[0] * chunk["t"]) * theta[1] - chunk["y"]) ** 2)


def main():
    theta = np.array([2.0, 1.0])
    with tempfile.TemporaryDirectory() as folder:  # a folder that all ranks see
        files = [Path(folder) / f"{i}.npz" for i in range(8)]
        for i, file in enumerate(files):
            t = np.linspace(i, i + 1, 1000)
            np.savez(file, t=t, y=np.exp(-2.0 * t))
        with MPIPoolExecutor() as executor:
            loss = sum_over(loss_of_chunk, files, workers=executor)
            y, gradient = wg.value_and_grad(loss)(theta)
    print("loss", y, "gradient", gradient)
    assert y == 0.0 and np.all(gradient == 0.0)


if __name__ == "__main__":
    main()
