"""A Dask cluster of two hosts, which are network namespaces of this machine: bits of sums, lost workers, and times.

Run as root on Linux, with iproute2 and dask.distributed: ``python -m benchmarks.two_hosts``.
Each namespace has a loopback device and one end of a virtual Ethernet cable; the hosts share no address.
"""

import functools
import os
import signal
import subprocess
import sys
import time

import numpy as np

import wengert as wg
from wengert.distributed import sum_over

HOSTS = {"wengert-a": "10.199.0.1", "wengert-b": "10.199.0.2"}
PORT = 8799
CHUNKS, ROWS = 64, 50_000


def ip(*words, check=True):
    subprocess.run(["ip", *words], check=check, capture_output=not check)


def connect():
    """Create both hosts and the cable between them."""
    remove()
    for host in HOSTS:
        ip("netns", "add", host)
        ip("-n", host, "link", "set", "lo", "up")
    a, b = HOSTS
    ip("link", "add", "cable", "netns", a, "type", "veth", "peer", "name", "cable", "netns", b)
    for host, address in HOSTS.items():
        ip("-n", host, "address", "add", f"{address}/24", "dev", "cable")
        ip("-n", host, "link", "set", "cable", "up")


def remove():
    for host in HOSTS:
        ip("netns", "delete", host, check=False)


def start(host, *words):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    command = ["ip", "netns", "exec", host, sys.executable, *words]
    return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)


def load(seed):
    """Make one chunk of data in a worker."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(ROWS, 5))
    return x, random.random(ROWS) < 1 / (1 + np.exp(-np.sum(x, axis=1)))


def loss_of_chunk(theta, chunk):
    x, y = chunk
    z = x @ theta
    return np.sum(np.logaddexp(0.0, z) - y * z)


def main():
    """Build the cluster and run this file on host a."""
    address = f"tcp://{HOSTS['wengert-a']}:{PORT}"
    connect()
    processes = []
    try:
        scheduler = ["-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        processes.append(start("wengert-a", *scheduler, "--host", HOSTS["wengert-a"], "--port", str(PORT)))
        time.sleep(5)
        worker = ["-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
        processes += [start(host, *worker, "--host", own) for host, own in HOSTS.items()]
        driver = ["ip", "netns", "exec", "wengert-a", sys.executable, "-m", "benchmarks.two_hosts", address]
        subprocess.run([*driver, str(processes[-1].pid)], check=True, timeout=300)
    finally:
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        remove()


def drive(address, victim):
    """Compare sums by the cluster with those of one process; kill the worker of the other host in the last one."""
    from dask.distributed import Client

    chunks = [functools.partial(load, seed) for seed in range(CHUNKS)]
    theta = np.linspace(-1.0, 1.0, 5)
    here = wg.value_and_grad(sum_over(loss_of_chunk, chunks))(theta)
    with Client(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        client.upload_file(__file__)
        print("workers", sorted({w["host"] for w in client.scheduler_info()["workers"].values()}))
        there = wg.value_and_grad(sum_over(loss_of_chunk, chunks, workers=client))
        for word in ("first", "second"):
            begin = time.perf_counter()
            found = there(theta)
            print(f"{word} sum {time.perf_counter() - begin:.2f} s, same bits {same(found, here)}")
        killer = subprocess.Popen([sys.executable, "-c", f"import time, os; time.sleep(1); os.killpg({victim}, 9)"])
        found = there(theta)
        killer.wait()
        left = len(client.scheduler_info()["workers"])
        print(f"with a lost worker: same bits {same(found, here)}, workers left {left}")


def same(found, expected):
    return all(np.array_equal(x, y) for x, y in zip(found, expected))


if __name__ == "__main__":
    main() if len(sys.argv) == 1 else drive(sys.argv[1], int(sys.argv[2]))
