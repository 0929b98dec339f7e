"""
Bouncing ball
=============

The restitution of a ball is estimated from the times at which it was heard to hit the ground.  Each flight ends at an
event, and the next one starts there with a new velocity; times of events are differentiated like all other results.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import wengert as wg


def fall(t, state):
    _, speed = state
    return np.stack([speed, -9.81 - 0.02 * speed * np.abs(speed)])  # with drag


def hits_ground(t, state):
    return state[0]


hits_ground.terminal, hits_ground.direction = True, -1


def flights(drop, restitution, count=6):
    t, state, found = 0.0, np.stack([drop, 0.0]), []
    for _ in range(count):
        found.append(solve_ivp(fall, (t, t + 10.0), state, events=hits_ground, rtol=1e-9, dense_output=True))
        t, state = found[-1].t[-1], np.stack([0.0, -restitution * found[-1].y[1, -1]])
    return found


def impacts(p):
    return np.stack([flight.t[-1] for flight in flights(*p)])


heard = impacts([1.5, 0.8]) + 0.003 * np.random.default_rng(0).normal(size=6)
fit = least_squares(lambda p: (impacts(p) - heard) / 0.003, [1.0, 0.6], jac=wg.jacobian(lambda p: impacts(p) / 0.003))
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
for name, value, deviation in zip(("drop (m)", "restitution"), fit.x, error):
    print(f"{name:12} {value:.3f} +- {deviation:.3f}")

for flight in flights(*fit.x):
    t = np.linspace(flight.t[0], flight.t[-1], 50)
    plt.plot(t, flight.sol(t)[0], color="C0")
plt.plot(heard, 0 * heard, "o", color="C1", label="heard")
plt.xlabel("time (s)")
plt.ylabel("height (m)")
plt.legend()
plt.show()

# %%
# Height of the ball for the fitted values; dots mark the impacts that were heard.
