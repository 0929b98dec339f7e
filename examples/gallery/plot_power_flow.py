"""
Optimal power flow
==================

Five generators supply the 14-bus test grid of the IEEE at least cost.  The Lagrange multipliers of the power balance
are the prices of power at the buses, and their derivatives show how a load raises the prices everywhere.
"""

import matplotlib.pyplot as plt
import numpy as np

import wengert as wg

# lines: from, to, resistance, reactance, charging, tap ratio; loads by bus in MW and MVAr; costs a P^2 + b P in $/h
lines = np.array("""
 1 2 .01938 .05917 .0528 1   1 5 .05403 .22304 .0492 1   2 3 .04699 .19797 .0438 1   2 4 .05811 .17632 .0340 1
 2 5 .05695 .17388 .0346 1   3 4 .06701 .17103 .0128 1   4 5 .01335 .04211 0 1       4 7 0 .20912 0 .978
 4 9 0 .55618 0 .969         5 6 0 .25202 0 .932         6 11 .09498 .19890 0 1      6 12 .12291 .25581 0 1
 6 13 .06615 .13027 0 1      7 8 0 .17615 0 1            7 9 0 .11001 0 1            9 10 .03181 .08450 0 1
 9 14 .12711 .27038 0 1      10 11 .08205 .19207 0 1     12 13 .22092 .19988 0 1     13 14 .17093 .34802 0 1
""".split(), dtype=float).reshape(-1, 6)  # fmt: skip
active = np.array([0, 21.7, 94.2, 47.8, 7.6, 11.2, 0, 0, 29.5, 9, 3.5, 6.1, 13.5, 14.9])
reactive = np.array([0, 12.7, 19, -3.9, 1.6, 7.5, 0, 0, 16.6, 5.8, 1.8, 1.6, 5.8, 5])
plants, a, b = np.array([0, 1, 2, 5, 7]), np.array([0.0430293, 0.25, 0.01, 0.01, 0.01]), np.array([20, 20, 40, 40, 40])
limits = [(0.94, 1.06)] * 14 + [(-1, 1)] * 14 + [(0, 3.324), (0, 1.4), (0, 1), (0, 1), (0, 1)]
limits += [(0, 0.1), (-0.4, 0.5), (0, 0.4), (-0.06, 0.24), (-0.06, 0.24)]
start, end = lines[:, :2].T.astype(int) - 1
y, tap = 1 / (lines[:, 2] + 1j * lines[:, 3]), lines[:, 5]
Y = np.diag([0j] * 8 + [0.19j] + [0j] * 5)  # admittances; a capacitor at bus 9
for i, j, value in [(start, start, (y + 0.5j * lines[:, 4]) / tap**2), (end, end, y + 0.5j * lines[:, 4]),
                    (start, end, -y / tap), (end, start, -y / tap)]:  # fmt: skip
    np.add.at(Y, (i, j), value)


def balance(x, load):  # power that leaves each bus, in units of 100 MW, and the reference of the angles
    voltage, p, q = x[:14] * np.exp(1j * x[14:28]), np.zeros(14), np.zeros(14)
    p[plants], q[plants] = x[28:33], x[33:]
    power = voltage * np.conj(Y @ voltage) + (load + 1j * reactive) / 100 - p - 1j * q
    return np.concatenate([power.real, power.imag, x[14:15]])


def prices(load):  # in $/MWh, with the generation in MW
    x0 = np.concatenate([np.ones(14), np.zeros(14), [2.0, 0.4, 0, 0, 0], np.zeros(5)])
    cost = lambda x, _: np.sum(a * (100 * x[28:33]) ** 2 + b * 100 * x[28:33]) / 1000
    x, multipliers = wg.implicit.kkt(cost, x0, eq=balance, bounds=limits, args=(load,))
    return -10 * multipliers.eq[:14], 100 * x[28:33]


price, generation = prices(active)
slopes = wg.jacobian(lambda load: prices(load)[0])(active)
print("generation", generation.round(1), f"MW for {np.sum(a * generation**2 + b * generation):.2f} $/h")
fig, (above, below) = plt.subplots(2, 1, figsize=(4.8, 6.8), layout="constrained", height_ratios=(1, 1.6))
above.bar(np.arange(1, 15), price)
above.set(ylabel="price ($/MWh)", xlabel="bus", ylim=(36, 42), xticks=np.arange(2, 15, 2))
shown = below.imshow(slopes, cmap="viridis", extent=(0.5, 14.5, 14.5, 0.5), aspect="auto")
below.set(xlabel="load at bus", ylabel="price at bus", xticks=np.arange(2, 15, 2), yticks=np.arange(2, 15, 2))
fig.colorbar(shown, ax=below, label="change of price ($/MWh per MW)")
plt.show()
# %%
# Above: the price at each bus.  Below: how a load at one bus changes the price at another.
