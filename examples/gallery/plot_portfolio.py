"""
Sensitivity of a portfolio
==========================

The portfolio of least risk for a wanted return holds no short positions, so most assets are at their bound.  The
weights are differentiated through the constrained problem: how do they react to each expected return?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

names = ["bonds", "property", "utilities", "retail", "energy", "chips"]
expected = np.array([2.0, 4.2, 4.0, 6.3, 7.1, 11.0])  # per cent a year
deviation = np.array([3.0, 11.0, 8.0, 15.0, 20.0, 28.0])
correlation = np.array([
    [1.0, 0.1, 0.2, 0.0, -0.1, -0.1],
    [0.1, 1.0, 0.4, 0.5, 0.3, 0.3],
    [0.2, 0.4, 1.0, 0.4, 0.4, 0.2],
    [0.0, 0.5, 0.4, 1.0, 0.4, 0.6],
    [-0.1, 0.3, 0.4, 0.4, 1.0, 0.3],
    [-0.1, 0.3, 0.2, 0.6, 0.3, 1.0],
])  # fmt: skip
covariance = correlation * np.outer(deviation, deviation)


def weights(expected, wanted):
    found = minimize(
        lambda w: w @ covariance @ w / 100,
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints=[
            {"type": "eq", "fun": lambda w: np.sum(w) - 1},
            {"type": "eq", "fun": lambda w: w @ expected - wanted},
        ],
        options={"ftol": 1e-12},
    )
    return found.x


wanted = np.linspace(3.1, 10.5, 40)
held = np.array([weights(expected, r) for r in wanted])
slopes = wg.jacobian(weights)(expected, 6.0)
w = weights(expected, 6.0)
for name, weight, slope in zip(names, w, np.diagonal(slopes)):
    print(f"{name:10} {100 * abs(weight):5.1f} %, {100 * slope:+6.1f} points for 1 % more return")

fig, (left, right) = plt.subplots(2, 1, figsize=(6, 7), layout="constrained")
left.stackplot(wanted, 100 * held.T, labels=names, alpha=0.8)
left.axvline(6.0, color="black", linestyle="--")
left.set(xlabel="wanted return (% a year)", ylabel="share (%)", ylim=(0, 100), xlim=(3.1, 10.5))
left.legend(loc="center left", bbox_to_anchor=(1, 0.5))
shown = right.imshow(100 * slopes, cmap="RdBu_r", vmin=-40, vmax=40)
right.set_xticks(range(6), names, rotation=45, ha="right")
right.set_yticks(range(6), names)
right.set(xlabel="expected return of", ylabel="share of", title="at a wanted return of 6 %")
fig.colorbar(shown, label="change (points per %)")
plt.show()
