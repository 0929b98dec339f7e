"""Initial state of a reaction from a few later measurements: 4D-Var under a memory budget.

A substance diffuses on a square plate with edges held at 0, and reacts (all quantities dimensionless):

    du/dt = D (d2u/dx2 + d2u/dy2) + r u (1 - u)

The state holds the values of n x n cells.  Sensors are in every eighth cell in both directions
and are read often, with noise.  The initial state u0 is the minimum of

    J(u0) = 1/2 sum over readings of ((u(sensor, time) - reading) / noise)^2 + weight / 2 sum over cells of |grad u0|^2

The gradient runs back through all time steps.  Recording all of them takes 230 MB; here some states are stored,
other steps are recomputed, and the memory stays within a budget.

The script checks that the memory stays within the budget; the number of executed steps equals the prediction; the
gradient equals that of forward mode, which records nothing; and the estimated state is much closer to the true one
than a surface through the sensor readings.  The exit status is 1 if a check fails.

    python tests/applications/heat_assimilation.py [--figure FILE] [--cells N] [--steps N] [--memory BYTES]
        [--iterations N]

Reference: Talagrand and Courtier (1987), Variational assimilation of meteorological observations with the adjoint
vorticity equation. doi:10.1002/qj.49711347812
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.ndimage import zoom
from scipy.optimize import minimize

import wengert
from wengert.checkpointing import measure, plan

SPACING = 8  # distance between sensors, in cells


class Plate:
    """The plate, and one time step of its state."""

    def __init__(self, cells, steps, duration=0.2, D=0.02, r=4.0):
        self.cells = cells
        self.steps = steps
        self.dt = duration / steps
        self.D = D * cells**2
        self.r = r
        self.runs = 0

    def step(self, u):
        """Return the state after a time step of forward Euler."""
        self.runs += 1
        p = np.zeros((self.cells + 2, self.cells + 2))
        p[1:-1, 1:-1] = u
        laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
        return u + self.dt * (self.D * laplacian + self.r * u * (1 - u))

    def truth(self):
        """Return a state of four spots with height, position and squared width."""
        y, x = np.mgrid[0 : self.cells, 0 : self.cells] / self.cells
        spots = [(0.8, 0.30, 0.35, 0.012), (0.6, 0.72, 0.30, 0.010), (0.7, 0.50, 0.72, 0.010), (0.5, 0.68, 0.77, 0.008)]
        return sum(height * np.exp(-((x - a) ** 2 + (y - b) ** 2) / width) for height, a, b, width in spots)


class Assimilation:
    """The measurements, and the misfit of a state."""

    noise = 0.002
    weight = 0.3
    readings = 20

    def __init__(self, plate, schedule):
        self.plate = plate
        self.schedule = schedule
        self.every = plate.steps // self.readings
        history = self.read(plate.truth())
        self.measured = history + self.noise * np.random.default_rng(7).standard_normal(history.shape)

    @staticmethod
    def sensors(u):
        return u[SPACING // 2 :: SPACING, SPACING // 2 :: SPACING]

    def read(self, u0):
        """Return the sensor readings without noise."""
        _, history = wengert.loop(
            self.plate.step, u0, self.plate.steps, checkpoints=self.schedule, collect=self.sensors
        )
        return history[self.every - 1 :: self.every]

    def cost(self, u0):
        misfit = (self.read(u0) - self.measured) / self.noise
        slopes = [np.sum((u0[1:] - u0[:-1]) ** 2), np.sum((u0[:, 1:] - u0[:, :-1]) ** 2)]
        return 0.5 * np.sum(misfit**2) + 0.5 * self.weight / self.noise * sum(slopes)

    def background(self):
        """Return a smooth surface through the first readings: an estimate without the model."""
        return zoom(self.measured[0], SPACING, order=1, mode="nearest", grid_mode=True)


def peak_memory():
    """Return the maximum resident memory of this process in bytes; None if the system does not report it."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return None
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def relative(u, truth):
    return np.linalg.norm(u - truth) / np.linalg.norm(truth)


def draw(plate, assimilation, found, path):
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    y, x = np.mgrid[SPACING // 2 : plate.cells : SPACING, SPACING // 2 : plate.cells : SPACING]
    states = {
        "true state at the beginning": plate.truth(),
        "interpolated from the first readings": assimilation.background(),
        "recovered from all readings": found,
    }
    for ax, (title, u) in zip(axes, states.items()):
        image = ax.imshow(u, vmin=0, vmax=1, cmap="inferno", origin="lower")
        ax.plot(x, y, ".", color="white", markersize=2)
        ax.set_title(title)
        ax.set_xlabel("x (cells)")
    axes[0].set_ylabel("y (cells)")
    figure.colorbar(image, ax=axes, label="u (dimensionless); dots: sensors")
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("heat_assimilation.png"), help="file the figure goes to")
    parser.add_argument("--cells", type=int, default=128, help="along each edge of the plate, a multiple of 8")
    parser.add_argument("--steps", type=int, default=400, help="time steps, a multiple of 20")
    parser.add_argument("--memory", type=float, default=50e6, help="bytes that the gradient may take")
    parser.add_argument("--iterations", type=int, default=30, help="of the minimiser, at most")
    options = parser.parse_args()

    plate = Plate(options.cells, options.steps)
    sizes = measure(plate.step, plate.truth())
    schedule = plan(options.steps, memory=int(options.memory), **sizes)
    assimilation = Assimilation(plate, schedule)
    u0 = assimilation.background()
    gradient = wengert.grad(assimilation.cost)

    # the first gradient imports modules; after it and one run, the additional memory is that of a gradient
    small = Assimilation(Plate(SPACING, 20), None)
    wengert.grad(small.cost, small.plate.truth())
    assimilation.cost(u0)
    before = peak_memory()
    plate.runs = 0
    slope = gradient(u0)
    taken = None if before is None else peak_memory() - before
    factor = plate.runs / plate.steps
    seen = f"{taken / 1e6:10.1f}" if taken is not None else f"{'unknown':>10}"
    recorded_at_once = plate.steps * sizes["tape_bytes"]
    print(f"{'':44}{'predicted':>10}{'measured':>10}")
    print(f"{'memory per gradient, MB':44}{schedule.peak_bytes / 1e6:10.1f}{seen}")
    print(f"{'steps run per gradient / time steps':44}{schedule.factor:10.2f}{factor:10.2f}")
    print(f"{'memory without checkpointing, MB':44}{recorded_at_once / 1e6:10.1f}")

    direction = np.random.default_rng(1).standard_normal(u0.shape)
    forward = wengert.jvp(assimilation.cost, u0, direction)[1]
    start = perf_counter()
    found = minimize(
        lambda x: assimilation.cost(x.reshape(u0.shape)),
        u0.ravel(),
        jac=lambda x: gradient(x.reshape(u0.shape)).ravel(),
        method="L-BFGS-B",
        options={"maxiter": options.iterations},
    )
    u = found.x.reshape(u0.shape)
    print(f"{'minimisation time, s':44}{'':10}{perf_counter() - start:10.1f}")
    print(f"{'gradient evaluations':44}{'':10}{found.njev:10}\n")

    truth = plate.truth()
    excess = 0.0 if taken is None else taken / options.memory
    claims = {
        "memory / budget": (excess, 1.0),
        "error of predicted steps / time steps": (abs(factor - schedule.factor), 2 / plate.steps),
        "relative error against forward mode": (abs(np.sum(slope * direction) / forward - 1), 1e-10),
        "budget / memory without checkpointing": (options.memory / recorded_at_once, 0.5),
        "final cost / initial cost": (found.fun / assimilation.cost(u0), 0.1),
        "state error / error of the interpolation": (relative(u, truth) / relative(u0, truth), 0.5),
    }
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:48}{error:10.1e}   bound {bound:7.1e}   {'FAIL' if name in failures else 'PASS'}")
    print()

    draw(plate, assimilation, u, options.figure)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
