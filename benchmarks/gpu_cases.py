"""Kernels at many points: checked against NumPy, and timed against a lower bound, JAX, and hand-written CUDA C.

    python -m benchmarks.gpu_cases environment|reports|checks|ceilings|times|once [options]

Each result is a line of JSON.  Without a GPU, `environment --dry-run`, `reports` and `checks --dry-run` work.

The lower bound of a case is the larger of two times: moving its arrays to and from memory once, at the measured copy
rate of the device; and its floating-point instructions, counted in the emitted statements, at the rate of its units.
All rivals read their input and leave their result on the device, after warming up; the time of the first call,
compilation included, is reported separately.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from importlib import metadata
from statistics import median

import numpy as np

import wengert as wg
import wengert.cuda

REPEATS = 20

PACKAGES = "wengert numpy scipy numba numba-cuda cuda-core nvidia-nvvm nvidia-nvjitlink jax jaxlib cupy-cuda13x".split()

#: floating-point units of a multiprocessor, double and single, by compute capability; one instruction per cycle each
UNITS = {(7, 5): (2, 64), (8, 0): (32, 64), (8, 6): (2, 128), (8, 9): (2, 128), (9, 0): (64, 128), (10, 0): (64, 128)}


# ---- the cases: functions of one point, in NumPy or a module with its names -----------------------


class Case:
    """A function of one point, the derivative to compute, and the memory layout of its points."""

    def __init__(self, name, f, low, high, mode, points=(10**3, 10**5, 10**7), by_hand=None):
        self.name, self.mode, self.points, self.by_hand = name, mode, points, by_hand
        self.low, self.high = np.broadcast_arrays(low, high)
        self.f = f

    def inputs(self, n, dtype="float64"):
        rng = np.random.default_rng(11)
        return rng.uniform(self.low, self.high, (n, self.low.size)).astype(dtype)

    def program(self):
        return wg.record(lambda x: self.f(x, np, _special()), self.inputs(1)[0])

    def kernel(self, dtype="float64", **options):
        return self.program().to_cuda(dtype, **options)

    def call(self, kernel):
        """Return value and derivative as a callable of points."""
        return getattr(kernel, self.mode)


def _special():
    import scipy.special

    return scipy.special


def forty(x, np, special):
    """The function of 40 operations in the scenario table."""
    a, b, c, d, e, g = x
    r = np.sqrt(a * a + b * b)
    s = np.sin(r) * np.cos(c - b)
    p = np.exp(-d * d / (1.0 + e * e))
    q = special.erf((g - a) / r)
    t = np.log(1.0 + p * p + s * s)
    u = np.sqrt(1.0 + q * q) * np.exp(-0.5 * c * c)
    w = np.sin(e * g)
    z = np.log(2.0 + w * w) * p
    return u * s - t * q + z - r


def black_scholes(x, np, special):
    s, strike, t, r, sigma = x
    spread = sigma * np.sqrt(t)
    d1 = (np.log(s / strike) + (r + sigma * sigma / 2) * t) / spread
    d2 = d1 - spread
    normal = lambda d: special.erfc(-d * 0.7071067811865476) / 2
    return s * normal(d1) - strike * np.exp(-r * t) * normal(d2)


def lorenz(steps):
    """Return the state after some Runge-Kutta steps, as a function of the state and three parameters."""

    def f(x, np, special):
        u, v, w, sigma, rho, beta = x
        h = 0.01

        def slope(u, v, w):
            return sigma * (v - u), u * (rho - w) - v, u * v - beta * w

        def moved(state, by, step):
            return [a + step * b for a, b in zip(state, by)]

        state = [u, v, w]
        for _ in range(steps):
            k1 = slope(*state)
            k2 = slope(*moved(state, k1, h / 2))
            k3 = slope(*moved(state, k2, h / 2))
            k4 = slope(*moved(state, k3, h))
            state = [a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip(state, k1, k2, k3, k4)]
        return np.stack(state)

    return f


def decay(x, np, special):
    """Residuals of a fit of one pixel: amplitude, rate and offset at twelve times."""
    return np.stack([x[0] * np.exp(-x[1] * k / 4.0) + x[2] for k in range(12)])


def chain(length):
    """Return a function of eight variables with `length` operations, one in twenty of which is a sine."""

    def f(x, np, special):
        values = [x[i] for i in range(8)]
        for i in range(length):
            a, b = values[-1 - (5 * i) % 7], values[-1 - (3 * i) % 5]
            values.append(np.sin(a) if i % 20 == 19 else 0.6 * a + 0.4 * b if i % 3 else 1.1 - a * b)
        return values[-1] + values[-2]

    return f


def branches(x, np, special):
    y = x[0] * x[1] if x[0] > 0.5 else x[1] ** 2
    return y * np.exp(x[2]) if x[2] > 0.5 else y


FORTY_BY_HAND = """
extern "C" __global__
void by_hand(const REAL* __restrict__ X, REAL* __restrict__ Y, REAL* __restrict__ G, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    REAL a = X[6*i], b = X[6*i+1], c = X[6*i+2], d = X[6*i+3], e = X[6*i+4], g = X[6*i+5];
    REAL r = sqrt(a*a + b*b), sr, cr, sc, cc;
    sincos(r, &sr, &cr);
    sincos(c - b, &sc, &cc);
    REAL s = sr * cc, v = 1 / (1 + e*e), p = exp(-d*d*v), h = (g - a) / r, q = erf(h);
    REAL T = 1 + p*p + s*s, t = log(T), k = sqrt(1 + q*q), m = exp(REAL(-0.5)*c*c), u = k * m, w, cw;
    sincos(e*g, &w, &cw);
    REAL L = 2 + w*w, l = log(L);
    Y[i] = u*s - t*q + l*p - r;
    REAL t_ = -q / T, s_ = u + 2*t_*s, p_ = 2*t_*p + l, q_ = s*m*q/k - t;
    REAL h_ = q_ * REAL(1.1283791670955126) * exp(-h*h), r_ = s_*cr*cc - 1 - h_*h/r, x_ = -s_*sr*sc, w_ = 2*p*w/L*cw;
    G[6*i] = r_*a/r - h_/r;
    G[6*i+1] = r_*b/r - x_;
    G[6*i+2] = x_ - s*u*c;
    G[6*i+3] = -2*p_*p*d*v;
    G[6*i+4] = p_*p*d*d*v*v*2*e + w_*g;
    G[6*i+5] = h_/r + w_*e;
}
"""

BLACK_SCHOLES_BY_HAND = """
extern "C" __global__
void by_hand(const REAL* __restrict__ X, REAL* __restrict__ Y, REAL* __restrict__ G, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    REAL s = X[5*i], k = X[5*i+1], t = X[5*i+2], r = X[5*i+3], v = X[5*i+4];
    REAL q = sqrt(t), w = v*q, d1 = (log(s/k) + (r + v*v/2)*t) / w, d2 = d1 - w;
    REAL c = REAL(-0.7071067811865476), n1 = erfc(c*d1)/2, n2 = erfc(c*d2)/2, pv = k*exp(-r*t);
    REAL density = s * REAL(0.3989422804014327) * exp(-d1*d1/2);
    Y[i] = s*n1 - pv*n2;
    G[5*i] = n1;
    G[5*i+1] = -pv*n2/k;
    G[5*i+2] = density*v/(2*q) + r*pv*n2;
    G[5*i+3] = t*pv*n2;
    G[5*i+4] = density*q;
}
"""

MARKET = [60, 80, 0.1, 0.0, 0.1], [140, 120, 2.0, 0.05, 0.6]
CHAOS = [-10, -10, 10, 8, 20, 2], [10, 10, 30, 12, 35, 3]

CASES = {
    case.name: case
    for case in (
        Case("forty", forty, np.full(6, 0.3), 1.5, "value_and_grad", by_hand=FORTY_BY_HAND),
        Case("black_scholes", black_scholes, *MARKET, "value_and_grad", by_hand=BLACK_SCHOLES_BY_HAND),
        Case("lorenz_1", lorenz(1), *CHAOS, "value_and_jacobian", (10**5, 10**7)),
        Case("lorenz_10", lorenz(10), *CHAOS, "value_and_jacobian", (10**5, 10**6)),
        Case("decay", decay, [0.5, 0.5, 0.0], [2.0, 2.0, 1.0], "value_and_jacobian", (10**5, 10**6)),
        Case("chain_100", chain(100), np.full(8, 0.2), 0.9, "value_and_grad", (10**5, 10**6)),
        Case("chain_1000", chain(1000), np.full(8, 0.2), 0.9, "value_and_grad", (10**5, 10**6)),
        Case("chain_10000", chain(10000), np.full(8, 0.2), 0.9, "value_and_grad", (10**5,)),
    )
}
BRANCHES = Case("branches", branches, np.zeros(3), 1.0, "value_and_grad")

#: cases that take JAX and compilers minutes, left out of the checks without a GPU
LONG = {"chain_10000"}


# ---- rivals: name, and a function that returns a callable of a device array -----------------------


def ours(case, n, dtype, **options):
    from numba import cuda

    x = cuda.to_device(case.inputs(n, dtype))
    kernel = case.kernel(dtype, **options)
    shapes = kernel._shapes_of(case.mode)
    out = tuple(cuda.device_array((n, *shape), dtype) for shape in shapes)
    run = lambda: case.call(kernel)(x, out=out)
    return run, cuda.synchronize, lambda: [y.copy_to_host() for y in out]


def interpreted(case, n, dtype):
    return ours(case, n, dtype, compile="never")


def from_host(case, n, dtype):
    """NumPy arrays in, NumPy arrays out."""
    x, kernel = case.inputs(n, dtype), case.kernel(dtype)
    found = []

    def run():
        found[:] = case.call(kernel)(x)

    return run, lambda: None, lambda: found


def jax(case, n, dtype):
    import jax
    import jax.numpy as jnp
    import jax.scipy.special as special

    f = lambda x: case.f(x, jnp, special)
    if case.mode == "value_and_grad":
        one = jax.value_and_grad(f)
    else:
        wide = case.low.size > 2 * jax.eval_shape(f, case.inputs(1, dtype)[0]).size
        one = lambda x: (f(x), (jax.jacrev if wide else jax.jacfwd)(f)(x))
    many = jax.jit(jax.vmap(one))
    x = jax.device_put(case.inputs(n, dtype))
    found = []

    def run():
        found[:] = many(x)

    return run, lambda: jax.block_until_ready(found), lambda: [np.asarray(y) for y in found]


def by_hand(case, n, dtype):
    import cupy

    real = "double" if dtype == "float64" else "float"
    kernel = cupy.RawKernel(case.by_hand.replace("REAL", real), "by_hand")
    x = cupy.asarray(case.inputs(n, dtype))
    y, gradient = cupy.empty(n, dtype), cupy.empty(x.shape, dtype)
    run = lambda: kernel((-(-n // 128),), (128,), (x, y, gradient, np.int64(n)))
    return run, cupy.cuda.Device().synchronize, lambda: [cupy.asnumpy(y), cupy.asnumpy(gradient)]


RIVALS = {"wengert": ours, "wengert, interpreted": interpreted, "jax": jax, "by hand": by_hand, "from host": from_host}


def does(rival, case, n):
    """Return whether a rival takes part in a case."""
    if rival == "by hand":
        return case.by_hand is not None
    if rival == "from host":
        return case.name == "forty" and n == max(case.points)
    return not (rival == "wengert, interpreted" and n < 10**5)


# ---- commands ------------------------------------------------------------------------------------


class Lines:
    """Results, one per line, in a file and on the screen."""

    def __init__(self, path):
        self.path = path

    def write(self, **entries):
        line = json.dumps(entries)
        print(line, flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")


def environment(given, lines):
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
        device = subprocess.run(query, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        device = f"none: {error}"
    lines.write(kind="environment", python=sys.version.split()[0], versions=versions, device=device,
                why_not=wengert.cuda.why_not())  # fmt: skip
    return given.dry_run or wengert.cuda.is_available()


def reports(given, lines):
    """Report registers and spills, which needs no GPU."""
    is_good = True
    for name, case in CASES.items():
        if name in LONG:
            continue
        for dtype in ("float64", "float32"):
            for report in case.kernel(dtype).report(case.mode):
                lines.write(kind="report", case=name, dtype=dtype, registers=report.registers,
                            spill_bytes=report.spill_bytes, statements=report.statements, cost=report.cost,
                            bytes=bytes_a_point(case, dtype), seconds=round(report.seconds, 3))  # fmt: skip
                is_good &= report.spill_bytes == 0 or name not in ("forty", "black_scholes")
    return is_good


def bytes_a_point(case, dtype):
    kernel = case.kernel(dtype)
    elements = case.low.size + sum(math.prod(shape) for shape in kernel._shapes_of(case.mode))
    return elements * np.dtype(dtype).itemsize


def exact(case, x):
    """Return value and derivative at some points, by the derivative programs on the CPU."""
    program = case.program()
    derived = program.grad() if case.mode == "value_and_grad" else program.jacobian()
    return [np.array([p(point) for point in x]) for p in (program, derived)]


def agreement(found, expected):
    """Return the largest difference relative to the largest magnitude at its point."""
    worst = 0.0
    for y, z in zip(found, expected):
        size = max(1, y.ndim - 1)
        scale = np.maximum(np.abs(z).max(axis=tuple(range(1, size + 1)) if z.ndim > 1 else None, keepdims=True), 1e-300)
        worst = max(worst, float(np.max(np.abs(y - z) / scale)))
    return worst


def checks(given, lines):
    """Compare kernels on the GPU, or compiled for the CPU without one, with programs on the CPU."""
    target = "cpu" if given.dry_run else "cuda"
    is_good = True
    for case in [*CASES.values(), BRANCHES]:
        if case.name in LONG and given.dry_run:
            continue
        for dtype, most in (("float64", 1e-11), ("float32", 2e-3)):
            x = case.inputs(200)
            if case is BRANCHES:
                f = wg.value_and_grad(lambda x, case=case: case.f(x, np, _special()))
                found = wengert.cuda.vmap(f, target=target, dtype=dtype)(x)
                one = [f(point) for point in x]
                expected = [np.array([y for y, _ in one]), np.array([g for _, g in one])]
            else:
                found = case.call(case.kernel(dtype, target=target))(x)
                expected = exact(case, x.astype(dtype).astype(float))
            worst = agreement(found, expected)
            lines.write(kind="check", case=case.name, dtype=dtype, target=target, difference=worst)
            is_good &= worst <= most
    return is_good


def ceilings(given, lines):
    """Measure the limits of the device: copies, launches, floating-point instructions."""
    from numba import cuda

    n = 1 << 27
    a, b = cuda.device_array(n), cuda.device_array(n)
    seconds = timed(lambda: b.copy_to_device(a), cuda.synchronize)[0]
    case = CASES["forty"]
    run, wait, _ = ours(case, 1, "float64")
    launch = timed(run, wait, repeats=200)[0]
    device = cuda.get_current_device()
    clock = device.CLOCK_RATE * 1e3
    units = UNITS.get(tuple(device.compute_capability), (math.nan, math.nan))
    rates = [device.MULTIPROCESSOR_COUNT * count * clock for count in units]
    lines.write(kind="ceilings", bytes_per_second=2 * 8 * n / seconds, call_seconds=launch,
                double_per_second=rates[0], single_per_second=rates[1])  # fmt: skip
    return True


def timed(run, wait, repeats=REPEATS):
    """Return median and minimum seconds of a call, after three calls to warm up."""
    for _ in range(3):
        run()
    wait()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        wait()
        times.append(time.perf_counter() - start)
    return median(times), min(times)


def floor(case, n, dtype, path):
    """Return the minimum time for arrays and instructions, from the results of `ceilings` and `reports`."""
    found = [json.loads(line) for line in open(path, encoding="utf-8")] if path else []
    rates = next((line for line in found if line.get("kind") == "ceilings"), None)
    if rates is None:
        return None
    costs = [line["cost"] for line in found if line.get("kind") == "report" and line["case"] == case.name
             and line["dtype"] == dtype]  # fmt: skip
    rate = rates["double_per_second" if dtype == "float64" else "single_per_second"]
    return max(bytes_a_point(case, dtype) * n / rates["bytes_per_second"], sum(costs) * n / rate)


def times(given, lines):
    """Time every rival on every case, each in a separate process, until the time budget is spent."""
    until = time.monotonic() + given.budget
    rounds = [(case, n, dtype) for case in CASES.values() for n in reversed(case.points)
              for dtype in ("float64", "float32")]  # fmt: skip
    rounds.sort(key=lambda each: (each[0].name in LONG, each[2] == "float32"))
    for case, n, dtype in rounds:
        for rival in RIVALS:
            left = until - time.monotonic()
            if left < 5:
                lines.write(kind="time", error="out of budget", case=case.name, n=n, dtype=dtype)
                return True
            if not does(rival, case, n):
                continue
            command = [sys.executable, "-m", "benchmarks.gpu_cases", "one", "--case", case.name, "--rival", rival]
            command += ["--points", str(n), "--dtype", dtype, *(["--floors", given.out] if given.out else [])]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=min(left, 120))
            except subprocess.TimeoutExpired:
                lines.write(kind="time", case=case.name, n=n, dtype=dtype, rival=rival, error="took too long")
                continue
            if done.returncode:
                error = (done.stderr.strip().splitlines() or ["?"])[-1]
                lines.write(kind="time", case=case.name, n=n, dtype=dtype, rival=rival, error=error)
            else:
                lines.write(**json.loads(done.stdout.strip().splitlines()[-1]))
    return True


def one(given, lines):
    """Check one rival on one case at some points, then time it."""
    case, n, dtype = CASES[given.case], given.points, given.dtype
    start = time.perf_counter()
    run, wait, results = RIVALS[given.rival](case, n, dtype)
    run()
    wait()
    first = time.perf_counter() - start
    some = np.random.default_rng(5).integers(0, n, 50)
    worst = agreement([y[some] for y in results()], exact(case, case.inputs(n, dtype)[some].astype(float)))
    middle, least = timed(run, wait)
    at_least = floor(case, n, dtype, given.floors)
    lines.write(kind="time", case=case.name, n=n, dtype=dtype, rival=given.rival, first=first, seconds=middle,
                least=least, floor=at_least, ratio=None if not at_least else middle / at_least,
                difference=worst)  # fmt: skip
    return worst < (1e-9 if dtype == "float64" else 1e-2)


def once(given, lines):
    """Launch a few kernels, for profilers."""
    case = BRANCHES if given.case == "branches" else CASES[given.case]
    if case is BRANCHES:
        f = wg.value_and_grad(lambda x: case.f(x, np, _special()))
        wengert.cuda.vmap(f)(case.inputs(1000))
    else:
        run, wait, _ = ours(case, 10**6, "float64")
        for _ in range(3):
            run()
        wait()
    return True


def main():
    commands = [environment, reports, checks, ceilings, times, one, once]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=[command.__name__ for command in commands])
    parser.add_argument("--case", default="forty", choices=[*CASES, "branches"])
    parser.add_argument("--rival", default="wengert", choices=list(RIVALS))
    parser.add_argument("--points", type=int, default=10**5)
    parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for all timings")
    parser.add_argument("--out", help="file to which lines are added")
    parser.add_argument("--floors", help="file with lines of reports and ceilings")
    parser.add_argument("--dry-run", action="store_true", help="without a GPU")
    given = parser.parse_args()
    command = next(command for command in commands if command.__name__ == given.command)
    return 0 if command(given, Lines(given.out)) else 1


if __name__ == "__main__":
    sys.exit(main())
