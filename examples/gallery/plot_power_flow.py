"""
Optimal power flow
==================

Five generators supply the 14-bus test grid of the IEEE at least cost.  The Lagrange multipliers of the power balance
are the prices of power at the buses, and their derivatives show how a load raises the prices everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np

import wengert as wg

# lines: from, to, resistance, reactance, charging, tap ratio; loads: bus, MW, MVAr; both in the units of the test case
lines = np.array("""
 1 2 .01938 .05917 .0528 1   1 5 .05403 .22304 .0492 1   2 3 .04699 .19797 .0438 1   2 4 .05811 .17632 .0340 1
 2 5 .05695 .17388 .0346 1   3 4 .06701 .17103 .0128 1   4 5 .01335 .04211 0 1       4 7 0 .20912 0 .978
 4 9 0 .55618 0 .969         5 6 0 .25202 0 .932         6 11 .09498 .19890 0 1      6 12 .12291 .25581 0 1
 6 13 .06615 .13027 0 1      7 8 0 .17615 0 1            7 9 0 .11001 0 1            9 10 .03181 .08450 0 1
 9 14 .12711 .27038 0 1      10 11 .08205 .19207 0 1     12 13 .22092 .19988 0 1     13 14 .17093 .34802 0 1
""".split(), dtype=float).reshape(-1, 6)  # fmt: skip
loads = np.zeros((14, 2))
for bus, p, q in [(2, 21.7, 12.7), (3, 94.2, 19), (4, 47.8, -3.9), (5, 7.6, 1.6), (6, 11.2, 7.5), (9, 29.5, 16.6),
                  (10, 9, 5.8), (11, 3.5, 1.8), (12, 6.1, 1.6), (13, 13.5, 5.8), (14, 14.9, 5)]:  # fmt: skip
    loads[bus - 1] = p, q
plants = np.array([1, 2, 3, 6, 8]) - 1
cost = np.array([[0.0430293, 20], [0.25, 20], [0.01, 40], [0.01, 40], [0.01, 40]])  # $/h for P in MW: a P^2 + b P

start, end = lines[:, :2].T.astype(int) - 1
y, tap = 1 / (lines[:, 2] + 1j * lines[:, 3]), lines[:, 5]
Y = np.zeros((14, 14), dtype=complex)
np.add.at(Y, (start, start), (y + 0.5j * lines[:, 4]) / tap**2)
np.add.at(Y, (end, end), y + 0.5j * lines[:, 4])
np.add.at(Y, (start, end), -y / tap)
np.add.at(Y, (end, start), -y / tap)
Y[8, 8] += 0.19j  # a capacitor


def balance(x, demand):
    """Power that flows into the grid at each bus, minus what is generated there, plus the load; then the reference."""
    v, angle, p, q = x[:14], x[14:28], x[28:33], x[33:]
    voltage = v * np.exp(1j * angle)
    power = voltage * np.conj(Y @ voltage)
    active, reactive = power.real + demand / 100, power.imag + loads[:, 1] / 100
    active[plants] -= p
    reactive[plants] -= q
    return np.concatenate([active, reactive, angle[:1]])


def prices(demand):
    """Locational prices in $/MWh."""
    limits = [(0.94, 1.06)] * 14 + [(-1, 1)] * 14 + [(0, 3.324), (0, 1.4), (0, 1), (0, 1), (0, 1)]
    limits += [(0, 0.1), (-0.4, 0.5), (0, 0.4), (-0.06, 0.24), (-0.06, 0.24)]
    x0 = np.concatenate([np.ones(14), np.zeros(14), [2.0, 0.4, 0, 0, 0], np.zeros(5)])
    x, multipliers = wg.implicit.kkt(
        lambda x, _: np.sum(cost[:, 0] * (100 * x[28:33]) ** 2 + cost[:, 1] * 100 * x[28:33]) / 1000,
        x0, eq=balance, bounds=limits, args=(demand,),
    )  # fmt: skip
    return -10 * multipliers.eq[:14], x


price, x = prices(loads[:, 0])
slopes = wg.jacobian(lambda demand: prices(demand)[0])(loads[:, 0])
print(f"cost {np.sum(cost[:, 0] * (100 * x[28:33]) ** 2 + cost[:, 1] * 100 * x[28:33]):.2f} $/h")
print("generation", (100 * x[28:33]).round(1), "MW")

fig, (left, right) = plt.subplots(2, 1, figsize=(6, 6.5), layout="constrained", height_ratios=(1, 1.6))
left.bar(np.arange(1, 15), price)
left.set(ylabel="price ($/MWh)", xlabel="bus", ylim=(0.98 * price.min(), 1.01 * price.max()), xticks=np.arange(1, 15))
shown = right.imshow(slopes, cmap="viridis", extent=(0.5, 14.5, 14.5, 0.5), aspect="auto")
right.set(xlabel="load at bus", ylabel="price at bus", xticks=np.arange(1, 15), yticks=np.arange(1, 15))
fig.colorbar(shown, label="change of price ($/MWh per MW)")
plt.show()
