"""A controller."""

import numpy as np
import simple_pid

from benchmarks.packages.cases import Cases

PACKAGE = "simple-pid"
cases = Cases()


@cases([1.0, 0.1, 0.05])
def temperature(x):
    pid = simple_pid.PID(x[0], x[1], x[2], setpoint=1.0)
    state = 0.0
    for _ in range(20):
        state = state + 0.1 * (pid(state, dt=0.1) - 0.3 * state)
    return state


@cases([1.0, 0.1, 0.05])
def limited(x):
    pid = simple_pid.PID(*x, setpoint=2.0, output_limits=(-1.0, 1.0))
    states = [0.0]
    for _ in range(20):
        states.append(states[-1] + 0.1 * (pid(states[-1], dt=0.1) - 0.3 * states[-1]))
    return np.array(states[-3:])


@cases(1.5)
def setpoint(x):
    pid = simple_pid.PID(1.0, 0.2, 0.1)
    pid.setpoint = x
    return pid(0.3, dt=0.1) + pid(0.5, dt=0.1)
