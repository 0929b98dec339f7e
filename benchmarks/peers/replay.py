"""Replayed programs against casadi's VM and jax's compiler: `python -m benchmarks.peers.replay`.

Everything runs in this process, on one core, strictly alternating; a derivative is checked before it is timed.
casadi is called through its buffers, with the memory of x passed at each call, and with it passed once.
"""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

from functools import partial
from importlib.util import module_from_spec

import casadi
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

import wengert as wg
from benchmarks import measure, workloads

CALLS = 100  # before timing, so that the next comparisons of a compiled function with f are far off


def shown(name, theirs, ours, peer):
    found = measure.alternate(theirs, ours, pairs=15)
    spread = f"{found.low:.2f} to {found.high:.2f}"
    times = f"{measure.shown(found.first)} | {measure.shown(found.second)}"
    print(f"| {name} | {peer} | {times} | {found.ratio:.2f} | {spread} |", flush=True)


def beside_casadi(name, f, x, kind):
    """Compare a gradient or Jacobian of scalar code."""
    symbol = casadi.SX.sym("x", x.size)
    elements = np.empty(x.size, dtype=object)
    elements[:] = casadi.vertsplit(symbol)
    y = f(elements)
    made = casadi.gradient(y, symbol) if kind == "grad" else casadi.jacobian(casadi.vertcat(*list(y)), symbol)
    function = casadi.Function("derivative", [symbol], [casadi.densify(made)])
    buffer, run = function.buffer()
    result = np.zeros(made.numel())
    buffer.set_res(0, memoryview(result))

    def with_argument():
        buffer.set_arg(0, memoryview(x))
        run()

    operator = getattr(wg, kind)
    compiled, program = operator(wg.compile(f)), getattr(wg.record(f, x), kind)()
    for _ in range(CALLS):
        found = compiled(x)
    out = np.empty_like(found)
    with_argument()
    workloads.check(found, result.reshape(found.shape, order="F"))
    ways = {
        "compiled": lambda: compiled(x),
        "program": lambda: program(x),
        "program, `out=`": lambda: program(x, out=out),
    }
    for way, ours in ways.items():
        ours()
        shown(f"{name}, {way}", with_argument, ours, "casadi")
        shown(f"{name}, {way}", run, ours, "casadi, x given once")
        workloads.check(ours(), result.reshape(found.shape, order="F"))


def beside_jax(name, x):
    """Compare values and derivatives of an elementwise function."""
    module = module_from_spec(workloads.__spec__)
    module.__spec__.loader.exec_module(module)
    module.np, module.erf = jnp, erf
    f, g = getattr(workloads, name), getattr(module, name)
    pairs = {
        "value": (jax.jit(g), wg.compile(f)),
        "gradient": (jax.jit(jax.grad(lambda x: jnp.sum(g(x)))), wg.grad(wg.compile(lambda x: np.sum(f(x))))),
    }
    given = jnp.asarray(x)
    for kind, (theirs, ours) in pairs.items():
        for _ in range(5):
            workloads.check(theirs(given), ours(x))
        wait = partial(lambda call: call(given).block_until_ready(), theirs)
        shown(f"{name}, {kind}, {x.size:.0e}", wait, partial(ours, x), "jax-jit")


def preparation(name, f, x):
    """Time the first compiled gradient relative to one call of f."""

    def first():
        return wg.grad(wg.compile(f))(x)

    workloads.check(first(), wg.grad(f)(x))
    shown(f"{name}, first call", lambda: f(x), first, "f")


def main():
    measure.pin()
    jax.config.update("jax_enable_x64", True)
    casadi.GlobalOptions.setNumpyMode(-1)
    print("| what | beside | theirs | ours | ratio | quartiles |\n|---|---|---:|---:|---:|---|")
    beside_casadi("Rosenbrock by a loop, 1000", workloads.rosenbrock_loop, workloads.points(1000), "grad")
    beside_casadi("Robertson, 3", workloads.robertson, workloads.ROBERTSON_START, "jacobian")
    beside_casadi("POLLU, 20", workloads.pollu, workloads.POLLU_START, "jacobian")
    beside_jax("black_scholes", np.linspace(0.6, 1.6, 10**6))
    beside_jax("waves", np.linspace(0.1, 1.2, 10**6))
    preparation("10^5 scalar operations", workloads.scalar_ops(10**5), workloads.SCALARS)
    preparation("Rosenbrock by a loop, 12500", workloads.rosenbrock_loop, workloads.points(12_500))
    preparation("assembly loop, 25000", workloads.assembly, workloads.points(25_000))


if __name__ == "__main__":
    main()
