"""
Sensitivities of an option price
================================

The price of a call by Black and Scholes, written with ``scipy.stats.norm``, and its "Greeks" of first, second and third
order for a whole range of spot prices.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import wengert as wg

strike, rate, volatility, maturity = 100.0, 0.03, 0.25, 0.5


def call(spot, volatility, maturity):
    total = volatility * np.sqrt(maturity)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * maturity) / total
    return spot * norm.cdf(d1) - strike * np.exp(-rate * maturity) * norm.cdf(d1 - total)


spot = np.linspace(60, 140, 200)
delta = wg.derivative(call, spot, args=(volatility, maturity))
gamma = wg.derivative(call, spot, args=(volatility, maturity), order=2)
speed = wg.derivative(call, spot, args=(volatility, maturity), order=3)
vega = wg.grad(call, argnums=1)(100.0, volatility, maturity)
theta = -wg.grad(call, argnums=2)(100.0, volatility, maturity)
print(f"at the money: price {call(100.0, volatility, maturity):.3f}, vega {vega:.3f}, theta {theta:.3f}")

figure, axes = plt.subplots(3, 1, sharex=True, figsize=(4.8, 5), layout="constrained")
for axis, values, name in zip(axes, (delta, gamma, speed), ("delta", "gamma (1/EUR)", "speed (1/EUR$^2$)")):
    axis.plot(spot, values)
    axis.set_ylabel(name)
axes[-1].set_xlabel("spot price (EUR)")
plt.show()

# %%
# First, second and third derivative of the price with respect to the spot price, half a year before maturity.
