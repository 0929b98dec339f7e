"""Camera positions and scene points from pictures alone: bundle adjustment with a sparse exact Jacobian.

Each camera has nine unknowns: a rotation vector, a translation, the focal length and two coefficients of radial
distortion.  Each point has three, and is seen by some of the cameras, in pixels and with noise.  The unknowns minimise
the sum of squared reprojection errors.

A reprojection depends on one camera and one point, so a row of the Jacobian has 12 nonzeros.  SciPy's
`least_squares(tr_solver="lsmr")` receives the sparse Jacobian, or the same pattern for finite differences.

The script checks that the derivative along the growth of the whole scene is zero, because pictures do not show its
size; in another direction it agrees with differences; both methods reach the same sum of squares, the exact one with
fewer calls of the residuals; and that sum is a chi-squared variable of the noise, within four standard
deviations.  The exit status is 1 if a check fails.

    python tests/applications/bundle_adjustment.py [--cameras N] [--points N] [--figure FILE]

Reference: Triggs, McLauchlan, Hartley and Fitzgibbon (2000), Bundle adjustment: a modern synthesis.
doi:10.1007/3-540-44480-7_21
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.optimize import least_squares
from scipy.optimize._numdiff import approx_derivative, group_columns  # least_squares calls these with jac_sparsity
from scipy.spatial.transform import Rotation

import wengert as wg

NOISE = 0.5  # standard deviation of picture coordinates, in pixels
OF_CAMERA = 9  # rotation vector, translation, focal length, two coefficients of distortion
GAUGE = 7  # undetermined by the pictures: position, attitude and size of the scene


# ---- the model, in plain NumPy -------------------------------------------------------------------


def rotated(x, vectors):
    """Rotate each row of x by a nonzero rotation vector, by Rodrigues' formula."""
    angle = np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))
    axis = vectors / angle
    along = np.sum(axis * x, axis=1, keepdims=True)
    return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along * (1 - np.cos(angle))


def projected(cameras, points):
    """Return pixels, one row for each row of cameras and points."""
    p = rotated(points, cameras[:, :3]) + cameras[:, 3:6]
    xy = p[:, :2] / p[:, 2:]
    r2 = np.sum(xy**2, axis=1)
    return xy * (cameras[:, 6] * (1 + cameras[:, 7] * r2 + cameras[:, 8] * r2**2))[:, None]


class Scene:
    """Cameras in a ring around a cloud of points, and their pictures."""

    def __init__(self, cameras, points, share=0.4, seed=1999):
        rng = np.random.default_rng(seed)
        self.cameras, self.points = cameras, points
        truth = np.zeros((cameras, OF_CAMERA))
        around = 2 * np.pi * np.arange(cameras) / cameras + 0.1
        truth[:, :3] = Rotation.from_euler("yx", np.c_[around, rng.uniform(0.1, 0.4, cameras)]).as_rotvec()
        truth[:, 3:6] = [0, 0, 6]  # the cloud is in front of each camera, at this distance
        truth[:, 3:6] += 0.1 * rng.standard_normal((cameras, 3))
        truth[:, 6:] = [800, -0.2, 0.05]
        cloud = rng.uniform(-1.5, 1.5, (points, 3))
        self.truth = np.concatenate([truth.ravel(), cloud.ravel()])
        seen = rng.uniform(size=(cameras, points)) < share
        seen[:4] |= ~seen.any(axis=0)  # no point without a picture
        self.camera_of, self.point_of = np.nonzero(seen)
        self.pixels = 0.0
        self.pixels = self.residuals(self.truth).reshape(-1, 2)
        self.pixels = self.pixels + NOISE * rng.standard_normal(self.pixels.shape)
        off = np.concatenate([
            (np.array([0.02] * 3 + [0.1] * 3 + [20, 0, 0]) * rng.standard_normal((cameras, OF_CAMERA))).ravel(),
            0.1 * rng.standard_normal(3 * points),
        ])  # fmt: skip
        self.start = self.truth + off
        self.start[: truth.size].reshape(truth.shape)[:, 7:] = 0

    def residuals(self, z):
        cameras = z[: OF_CAMERA * self.cameras].reshape(-1, OF_CAMERA)
        points = z[OF_CAMERA * self.cameras :].reshape(-1, 3)
        return (projected(cameras[self.camera_of], points[self.point_of]) - self.pixels).ravel()

    def growth(self, z):
        """Return the direction of growth: all positions of cameras and points scaled by one factor."""
        direction = z.copy()
        cameras = direction[: OF_CAMERA * self.cameras].reshape(-1, OF_CAMERA)
        cameras[:, :3] = cameras[:, 6:] = 0
        return direction


class Solution:
    """A solution by `least_squares`, with its calls of the residuals and its time."""

    def __init__(self, scene, **options):
        self.calls = 0

        def counted(z):
            self.calls += 1
            return scene.residuals(z)

        began = perf_counter()
        self.found = least_squares(
            counted, scene.start, x_scale="jac", tr_solver="lsmr", ftol=1e-9, xtol=1e-9, max_nfev=100, **options
        )
        self.seconds = perf_counter() - began


# ---- the report ----------------------------------------------------------------------------------


def median_time(function, z, repeats=7):
    """Median time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function(z)
        times.append(perf_counter() - start)
    return np.median(times)


def print_comparison(scene, exact, differences, seconds):
    def row(name, entries):
        print(f"{name:40}{entries[0]:>18}{entries[1]:>20}")

    both = exact, differences
    row("", ["sparse=True", "finite differences"])
    row("residual evaluations", [s.calls for s in both])
    row("Jacobian evaluations", [s.found.njev for s in both])
    row("time per later Jacobian, ms", [f"{1e3 * each:.1f}" for each in seconds])
    row("solution time, s", [f"{s.seconds:.2f}" for s in both])
    row("initial RMS error, pixels", [f"{rms(scene.residuals(scene.start)):.3f}"] * 2)
    row("final RMS error, pixels", [f"{rms(s.found.fun):.6f}" for s in both])
    print()


def rms(r):
    return np.sqrt(np.mean(r**2))


def draw(scene, z, pattern, path):
    figure = Figure(figsize=(12.5, 4.2), layout="constrained")
    errors, nonzeros = figure.subplots(1, 2, width_ratios=[1.6, 1])
    for name, at in ("before", scene.start), ("after", z):
        distance = np.linalg.norm(scene.residuals(at).reshape(-1, 2), axis=1)
        bins = np.geomspace(1e-2, 1e3, 101)
        errors.hist(distance, bins, histtype="stepfilled", alpha=0.6, label=f"{name}, median {np.median(distance):.2f}")
    errors.axvline(NOISE * np.sqrt(2), color="black", linestyle=":", label="RMS noise")
    errors.set(xscale="log", xlabel="reprojection error (pixels)", ylabel="number of reprojections")
    errors.set_title(f"{scene.cameras} cameras, {scene.points} points, {len(scene.pixels)} reprojections")
    figure.legend(loc="outside lower left", ncols=3, frameon=False)

    rows, columns = pattern.coords
    nonzeros.plot(columns, rows, ",", color="C0")
    nonzeros.axvline(OF_CAMERA * scene.cameras, color="black", linewidth=0.5)
    nonzeros.set(title=f"Jacobian, {pattern.nnz} nonzeros", xlabel="unknown: cameras | points", ylabel="residual")
    nonzeros.invert_yaxis()
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("bundle_adjustment.png"), help="file the figure goes to")
    parser.add_argument("--cameras", type=int, default=20)
    parser.add_argument("--points", type=int, default=500)
    options = parser.parse_args()

    scene = Scene(options.cameras, options.points)
    jacobian = wg.jacobian(scene.residuals, sparse=True)
    pattern = wg.sparsity(scene.residuals, scene.start)
    exact = Solution(scene, jac=jacobian)
    differences = Solution(scene, jac_sparsity=pattern)
    groups = group_columns(pattern)

    def difference_jacobian(z):
        return approx_derivative(scene.residuals, z, method="2-point", sparsity=(pattern, groups))

    seconds = [median_time(function, exact.found.x) for function in (jacobian, difference_jacobian)]
    print_comparison(scene, exact, differences, seconds)
    print(f"Jacobian: {jacobian.plan}\n")

    z = exact.found.x
    J = jacobian(z)
    growth = scene.growth(z)
    v = np.random.default_rng(2000).standard_normal(z.size) * np.abs(z)
    h = 1e-5
    across = (scene.residuals(z + h * v) - scene.residuals(z - h * v)) / (2 * h)
    freedom = exact.found.fun.size - z.size + GAUGE
    chi_squared = np.sum((exact.found.fun / NOISE) ** 2)
    claims = {
        "J @ (scaling of the scene), relative": (np.max(np.abs(J @ growth) / (abs(J) @ np.abs(growth))), 1e-14),
        "J @ v against differences, relative": (np.max(np.abs(J @ v - across)) / np.max(np.abs(across)), 1e-6),
        "relative difference of the two minima": (abs(differences.found.cost / exact.found.cost - 1), 1e-6),
        "ratio of residual evaluations": (exact.calls / differences.calls, 0.2),
        "chi squared, deviation / sigma": (abs(chi_squared - freedom) / np.sqrt(2 * freedom), 4.0),
    }
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:52}{error:10.1e}   bound {bound:7.1e}   {'FAIL' if name in failures else 'PASS'}")
    print()
    if not exact.found.success:
        failures.append(exact.found.message)

    draw(scene, z, jacobian.pattern.tocoo(), options.figure)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
