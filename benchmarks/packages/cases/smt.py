"""Test problems of the surrogate modelling toolbox."""

import numpy as np
from smt import problems

from benchmarks.packages.cases import Cases

PACKAGE = "smt"
cases = Cases()
PROBLEMS = {
    "Branin": {},
    "Rosenbrock": {"ndim": 3},
    "WaterFlow": {},
    "TorsionVibration": {},
    "WeldedBeam": {"ndim": 3},
    "RobotArm": {"ndim": 4},
    "TensorProduct": {"ndim": 3, "func": "tanh"},
    "CantileverBeam": {"ndim": 3},
}


def of_problem(name, problem):
    def f(x):
        return problem(np.atleast_2d(x))[0, 0]

    f.__name__ = name
    return f


for name, options in PROBLEMS.items():
    problem = getattr(problems, name)(**options)
    low, high = problem.xlimits.T
    cases(low + 0.55 * (high - low))(of_problem(name, problem))
