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
        np.full(6, 1 / 6), bounds=[(0, 1)] * 6, options={"ftol": 1e-12},
        constraints=[
            {"type": "eq", "fun": lambda w: np.sum(w) - 1},
            {"type": "eq", "fun": lambda w: w @ expected - wanted},
        ],
    )
    return found.x


wanted = np.linspace(3.1, 10.5, 40)
held = np.array([weights(expected, r) for r in wanted])
slopes = wg.jacobian(weights)(expected, 6.0)
for name, weight, slope in zip(names, weights(expected, 6.0), np.diagonal(slopes)):
    print(f"{name:10} {100 * abs(weight):5.1f} %, {100 * slope:+6.1f} points for 1 % more return")

fig, (above, below) = plt.subplots(2, 1, figsize=(4.8, 7.4), layout="constrained")
above.stackplot(wanted, 100 * held.T, labels=names, alpha=0.8)
above.axvline(6.0, color="black", linestyle="--")
above.set(xlabel="wanted return (% a year)", ylabel="share (%)", ylim=(0, 100), xlim=(3.1, 10.5))
above.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)
shown = below.imshow(100 * slopes, cmap="RdBu_r", vmin=-40, vmax=40)
below.set_xticks(range(6), names, rotation=45, ha="right")
below.set_yticks(range(6), names)
below.set(xlabel="expected return of", ylabel="share of", title="at a wanted return of 6 %")
fig.colorbar(shown, ax=below, label="change (points per %)")
plt.show()
# %%
# Above: the portfolio for each wanted return.  Below: its derivatives at the dashed line.
