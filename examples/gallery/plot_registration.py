"""
Registration of two images
==========================

An image is shifted, turned and scaled until it matches another.  ``scipy.ndimage.map_coordinates`` interpolates it, and
is differentiated in the coordinates.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from scipy.optimize import least_squares

import wengert as wg

rng = np.random.default_rng(12)
image = gaussian_filter(rng.normal(size=(80, 80)), 4)
grid = np.indices(image.shape) - 39.5


def moved(p):
    shift, (angle, scale) = p[:2], p[2:]
    turn = scale * np.stack([np.stack([np.cos(angle), -np.sin(angle)]), np.stack([np.sin(angle), np.cos(angle)])])
    places = np.tensordot(turn, grid, 1) + 39.5 + np.reshape(shift, (2, 1, 1))
    return map_coordinates(image, places, order=3, mode="nearest")


truth = np.array([3.0, -2.0, 0.15, 1.05])
reference = moved(truth) + 0.005 * rng.normal(size=image.shape)


def residual(p):
    return np.ravel(moved(p) - reference)


fit = least_squares(residual, [0.0, 0.0, 0.0, 1.0], jac=wg.jacobian(residual))
print(f"shift {fit.x[0]:.3f}, {fit.x[1]:.3f} pixels; angle {fit.x[2]:.4f} rad; scale {fit.x[3]:.4f}")

figure, axes = plt.subplots(1, 2, sharey=True, layout="constrained")
for axis, p, name in zip(axes, ([0.0, 0.0, 0.0, 1.0], fit.x), ("before", "after")):
    shown = axis.imshow(residual(np.array(p)).reshape(80, 80), vmin=-0.2, vmax=0.2, cmap="coolwarm")
    axis.set_title(f"difference {name}")
    axis.set_xlabel("pixel")
plt.show()

# %%
# Differences from the reference image, on the same scale of colours: after the fit only noise is left.
