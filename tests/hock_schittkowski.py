"""Problems of Hock and Schittkowski (1981), Test Examples for Nonlinear Programming Codes.

doi:10.1007/978-3-642-48320-2.

Each row has the number in the collection, objective, equations and inequalities (``>= 0``) as functions of x, bounds,
start, and the optimal value of the collection.  Problems 16 and 20 start nearer to the global minimum.
"""

from typing import Any, NamedTuple

import numpy as np

inf = np.inf
SQRT2, SQRT3 = 2**0.5, 3**0.5


class Problem(NamedTuple):
    """A problem: minimise f under ``eq == 0``, ``ineq >= 0`` and bounds."""

    f: Any
    eq: Any
    ineq: Any
    bounds: Any
    x0: list
    value: float


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def free(n):
    return [(-inf, inf)] * n


def on_78(x):
    return [x @ x - 10, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1]


def on_52(x):
    return [x[0] + 3 * x[1], x[2] + x[3] - 2 * x[4], x[1] - x[4]]


PROBLEMS = {
    1: Problem(rosenbrock, None, None, [(-inf, inf), (-1.5, inf)], [-2, 1], 0.0),
    2: Problem(rosenbrock, None, None, [(-inf, inf), (1.5, inf)], [2, 2], 0.0504261879),
    4: Problem(lambda x: (x[0] + 1) ** 3 / 3 + x[1], None, None, [(1, inf), (0, inf)], [1.125, 0.125], 8 / 3),
    5: Problem(
        lambda x: np.sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1,
        None, None, [(-1.5, 4), (-3, 3)], [0, 0], -SQRT3 / 2 - np.pi / 3,
    ),
    6: Problem(lambda x: (1 - x[0]) ** 2, lambda x: [10 * (x[1] - x[0] ** 2)], None, free(2), [-1.2, 1], 0.0),
    7: Problem(
        lambda x: np.log(1 + x[0] ** 2) - x[1], lambda x: [(1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4],
        None, free(2), [2, 2], -SQRT3,
    ),
    10: Problem(
        lambda x: x[0] - x[1], None, lambda x: [-3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1],
        free(2), [-10, 10], -1.0,
    ),
    11: Problem(
        lambda x: (x[0] - 5) ** 2 + x[1] ** 2 - 25, None, lambda x: [-(x[0] ** 2) + x[1]], free(2), [4.9, 0.1],
        -8.498464223,
    ),
    12: Problem(
        lambda x: x[0] ** 2 / 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1],
        None, lambda x: [25 - 4 * x[0] ** 2 - x[1] ** 2], free(2), [0, 0], -30.0,
    ),
    14: Problem(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, lambda x: [x[0] - 2 * x[1] + 1],
        lambda x: [1 - x[0] ** 2 / 4 - x[1] ** 2], free(2), [2, 2], 9 - 2.875 * 7**0.5,
    ),
    15: Problem(
        rosenbrock, None, lambda x: [x[0] * x[1] - 1, x[0] + x[1] ** 2], [(-inf, 0.5), (-inf, inf)], [-2, 1], 306.5
    ),
    16: Problem(
        rosenbrock, None, lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1]], [(-0.5, 0.5), (-inf, 1)], [0.4, 0.2], 0.25
    ),
    18: Problem(
        lambda x: 0.01 * x[0] ** 2 + x[1] ** 2, None, lambda x: [x[0] * x[1] - 25, x @ x - 25],
        [(2, 50), (0, 50)], [2, 2], 5.0,
    ),
    19: Problem(
        lambda x: (x[0] - 10) ** 3 + (x[1] - 20) ** 3, None,
        lambda x: [(x[0] - 5) ** 2 + (x[1] - 5) ** 2 - 100, 82.81 - (x[0] - 6) ** 2 - (x[1] - 5) ** 2],
        [(13, 100), (0, 100)], [20.1, 5.84], -6961.81381,
    ),
    20: Problem(
        rosenbrock, None, lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1], x @ x - 1],
        [(-0.5, 0.5), (-inf, inf)], [0.4, 0.9], 81.5 - 25 * SQRT3,
    ),
    21: Problem(
        lambda x: 0.01 * x[0] ** 2 + x[1] ** 2 - 100, None, lambda x: [10 * x[0] - x[1] - 10],
        [(2, 50), (-50, 50)], [-1, -1], -99.96,
    ),
    22: Problem(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, None, lambda x: [2 - x[0] - x[1], x[1] - x[0] ** 2],
        free(2), [2, 2], 1.0,
    ),
    24: Problem(
        lambda x: ((x[0] - 3) ** 2 - 9) * x[1] ** 3 / (27 * SQRT3), None,
        lambda x: [x[0] / SQRT3 - x[1], x[0] + SQRT3 * x[1], 6 - x[0] - SQRT3 * x[1]],
        [(0, inf)] * 2, [1, 0.5], -1.0,
    ),
    27: Problem(
        lambda x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2, lambda x: [x[0] + x[2] ** 2 + 1],
        None, free(3), [2, 2, 2], 0.04,
    ),
    28: Problem(
        lambda x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2, lambda x: [x[0] + 2 * x[1] + 3 * x[2] - 1],
        None, free(3), [-4, 1, 1], 0.0,
    ),
    29: Problem(
        lambda x: -np.prod(x), None, lambda x: [48 - x[0] ** 2 - 2 * x[1] ** 2 - 4 * x[2] ** 2],
        free(3), [1, 1, 1], -16 * SQRT2,
    ),
    31: Problem(
        lambda x: 9 * x[0] ** 2 + x[1] ** 2 + 9 * x[2] ** 2, None, lambda x: [x[0] * x[1] - 1],
        [(-10, 10), (1, 10), (-10, 1)], [1, 1, 1], 6.0,
    ),
    33: Problem(
        lambda x: (x[0] - 1) * (x[0] - 2) * (x[0] - 3) + x[2], None,
        lambda x: [x[2] ** 2 - x[0] ** 2 - x[1] ** 2, x @ x - 4], [(0, inf), (0, inf), (0, 5)], [0.1, 0.5, 3],
        SQRT2 - 6,
    ),
    34: Problem(
        lambda x: -x[0], None, lambda x: [x[1] - np.exp(x[0]), x[2] - np.exp(x[1])],
        [(0, 100), (0, 100), (0, 10)], [0, 1.05, 2.9], -np.log(np.log(10)),
    ),
    35: Problem(
        lambda x: 9 - 8 * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2
        + 2 * x[0] * x[1] + 2 * x[0] * x[2],
        None, lambda x: [3 - x[0] - x[1] - 2 * x[2]], [(0, inf)] * 3, [0.5] * 3, 1 / 9,
    ),
    36: Problem(
        lambda x: -np.prod(x), None, lambda x: [72 - x[0] - 2 * x[1] - 2 * x[2]],
        [(0, 20), (0, 11), (0, 42)], [10, 10, 10], -3300.0,
    ),
    37: Problem(
        lambda x: -np.prod(x), None, lambda x: [72 - x[0] - 2 * x[1] - 2 * x[2], x[0] + 2 * x[1] + 2 * x[2]],
        [(0, 42)] * 3, [10, 10, 10], -3456.0,
    ),
    38: Problem(
        lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 + 90 * (x[3] - x[2] ** 2) ** 2 + (1 - x[2]) ** 2
        + 10.1 * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2) + 19.8 * (x[1] - 1) * (x[3] - 1),
        None, None, [(-10, 10)] * 4, [-3, -1, -3, -1], 0.0,
    ),
    39: Problem(
        lambda x: -x[0], lambda x: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - x[3] ** 2], None,
        free(4), [2, 2, 2, 2], -1.0,
    ),
    40: Problem(
        lambda x: -np.prod(x), lambda x: [x[0] ** 3 + x[1] ** 2 - 1, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
        None, free(4), [0.8] * 4, -0.25,
    ),
    41: Problem(
        lambda x: 2 - x[0] * x[1] * x[2], lambda x: [x[0] + 2 * x[1] + 2 * x[2] - x[3]], None,
        [(0, 1)] * 3 + [(0, 2)], [2] * 4, 52 / 27,
    ),
    42: Problem(
        lambda x: (x[0] - 1) ** 2 + (x[1] - 2) ** 2 + (x[2] - 3) ** 2 + (x[3] - 4) ** 2,
        lambda x: [x[0] - 2, x[2] ** 2 + x[3] ** 2 - 2], None, free(4), [1] * 4, 28 - 10 * SQRT2,
    ),
    43: Problem(
        lambda x: x @ x + x[2] ** 2 - 5 * (x[0] + x[1]) - 21 * x[2] + 7 * x[3], None,
        lambda x: [
            8 - x @ x - x[0] + x[1] - x[2] + x[3],
            10 - x @ x - x[1] ** 2 - x[3] ** 2 + x[0] + x[3],
            5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3],
        ],
        free(4), [0] * 4, -44.0,
    ),
    48: Problem(
        lambda x: (x[0] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
        lambda x: [np.sum(x) - 5, x[2] - 2 * (x[3] + x[4]) + 3], None, free(5), [3, 5, -3, 2, -2], 0.0,
    ),
    51: Problem(
        lambda x: (x[0] - x[1]) ** 2 + (x[1] + x[2] - 2) ** 2 + (x[3] - 1) ** 2 + (x[4] - 1) ** 2,
        lambda x: [x[0] + 3 * x[1] - 4, x[2] + x[3] - 2 * x[4], x[1] - x[4]], None, free(5),
        [2.5, 0.5, 2, -1, 0.5], 0.0,
    ),
    52: Problem(
        lambda x: (4 * x[0] - x[1]) ** 2 + (x[1] + x[2] - 2) ** 2 + (x[3] - 1) ** 2 + (x[4] - 1) ** 2,
        on_52, None, free(5), [2] * 5, 1859 / 349,
    ),
    53: Problem(
        lambda x: (x[0] - x[1]) ** 2 + (x[1] + x[2] - 2) ** 2 + (x[3] - 1) ** 2 + (x[4] - 1) ** 2,
        on_52, None, [(-10, 10)] * 5, [2] * 5, 176 / 43,
    ),
    60: Problem(
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        lambda x: [x[0] * (1 + x[1] ** 2) + x[2] ** 4 - 4 - 3 * SQRT2], None, [(-10, 10)] * 3, [2] * 3, 0.03256820025,
    ),
    61: Problem(
        lambda x: 4 * x[0] ** 2 + 2 * x[1] ** 2 + 2 * x[2] ** 2 - 33 * x[0] + 16 * x[1] - 24 * x[2],
        lambda x: [3 * x[0] - 2 * x[1] ** 2 - 7, 4 * x[0] - x[2] ** 2 - 11], None, free(3), [4, -2, 2], -143.6461422,
    ),
    63: Problem(
        lambda x: 1000 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - x[0] * x[1] - x[0] * x[2],
        lambda x: [8 * x[0] + 14 * x[1] + 7 * x[2] - 56, x @ x - 25], None, [(0, inf)] * 3, [2] * 3, 961.7151721,
    ),
    65: Problem(
        lambda x: (x[0] - x[1]) ** 2 + (x[0] + x[1] - 10) ** 2 / 9 + (x[2] - 5) ** 2, None,
        lambda x: [48 - x @ x], [(-4.5, 4.5), (-4.5, 4.5), (-5, 5)], [-5, 5, 0], 0.9535288567,
    ),
    66: Problem(
        lambda x: 0.2 * x[2] - 0.8 * x[0], None, lambda x: [x[1] - np.exp(x[0]), x[2] - np.exp(x[1])],
        [(0, 100), (0, 100), (0, 10)], [0, 1.05, 2.9], 0.5181632741,
    ),
    71: Problem(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2], lambda x: [x @ x - 40], lambda x: [np.prod(x) - 25],
        [(1, 5)] * 4, [1, 5, 5, 1], 17.0140173,
    ),
    76: Problem(
        lambda x: x[0] ** 2 + 0.5 * x[1] ** 2 + x[2] ** 2 + 0.5 * x[3] ** 2 - x[0] * x[2] + x[2] * x[3]
        - x[0] - 3 * x[1] + x[2] - x[3],
        None,
        lambda x: [
            5 - x[0] - 2 * x[1] - x[2] - x[3], 4 - 3 * x[0] - x[1] - 2 * x[2] + x[3], x[1] + 4 * x[2] - 1.5,
        ],
        [(0, inf)] * 4, [0.5] * 4, -4.681818181,
    ),
    78: Problem(lambda x: np.prod(x), on_78, None, free(5), [-2, 1.5, 2, -1, -1], -2.91970041),
    79: Problem(
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 2 + (x[2] - x[3]) ** 4 + (x[3] - x[4]) ** 4,
        lambda x: [
            x[0] + x[1] ** 2 + x[2] ** 3 - 2 - 3 * SQRT2, x[1] - x[2] ** 2 + x[3] + 2 - 2 * SQRT2, x[0] * x[4] - 2,
        ],
        None, free(5), [2] * 5, 0.0787768209,
    ),
    80: Problem(
        lambda x: np.exp(np.prod(x)), on_78, None, [(-2.3, 2.3)] * 2 + [(-3.2, 3.2)] * 3, [-2, 2, 2, -1, -1],
        0.0539498478,
    ),
}  # fmt: skip
