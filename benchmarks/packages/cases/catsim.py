"""Item response theory: characteristic and information functions of test items."""

import numpy as np
from catsim import irt

from benchmarks.packages.cases import Cases

PACKAGE = "catsim"
cases = Cases()
ITEMS = np.array([[1.2, -0.5, 0.1, 0.95], [0.8, 0.3, 0.2, 1.0], [1.5, 1.0, 0.15, 0.9]])


@cases([0.4, 1.2, -0.5, 0.1, 0.95])
def characteristic(x):
    return irt.icc(*x)


@cases([0.4, 1.2, -0.5, 0.1, 0.95])
def information(x):
    return irt.inf(*x)


@cases([1.2, -0.5, 0.1, 0.95])
def most_informative_ability(x):
    return irt.max_info(*x)


@cases(0.4)
def information_of_test(theta):
    return irt.test_info(theta, ITEMS)


@cases(0.4)
def standard_error(theta):
    return irt.see(theta, ITEMS)


@cases(0.4)
def likelihood(theta):
    return irt.log_likelihood(theta, [True, False, True], ITEMS)
