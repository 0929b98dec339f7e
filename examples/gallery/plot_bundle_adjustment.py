"""
Bundle adjustment
=================

Positions of cameras and of points are found together from images.  Each residual depends on one camera and one point,
so the Jacobian is sparse; its pattern and its values come from the function.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

import wengert as wg

rng = np.random.default_rng(4)
cameras, points = 8, 60
camera, point = np.nonzero(rng.uniform(size=(cameras, points)) < 0.6)  # who sees what


def project(p):
    poses, places = p[: 6 * cameras].reshape(cameras, 6), p[6 * cameras :].reshape(points, 3)
    turned = Rotation.from_rotvec(poses[camera, :3]).apply(places[point]) + poses[camera, 3:]
    return turned[:, :2] / turned[:, 2:]


truth = np.concatenate([
    np.ravel(np.hstack([0.2 * rng.normal(size=(cameras, 3)), [0, 0, 6] + 0.5 * rng.normal(size=(cameras, 3))])),
    rng.normal(size=3 * points),
])
images = project(truth) + 1e-3 * rng.normal(size=(camera.size, 2))


def residual(p):
    return np.ravel(project(p) - images) / 1e-3


start = truth + 0.05 * rng.normal(size=truth.size)
fit = least_squares(residual, start, jac=wg.jacobian(residual, sparse=True), tr_solver="lsmr", x_scale="jac")
pixels = np.sqrt(np.mean(fit.fun**2))
print(f"{fit.jac.nnz} nonzeros of {fit.jac.shape[0] * fit.jac.shape[1]}")
print(f"reprojection error: {np.sqrt(np.mean(residual(start) ** 2)):.0f} deviations before, {pixels:.2f} after")

plt.spy(fit.jac, markersize=0.4, aspect="auto", color="C0")
plt.xlabel("camera parameters, then points")
plt.ylabel("residual")
plt.show()

# %%
# Nonzeros of the Jacobian: six parameters of each camera on the left, three coordinates of each point on the right.
