"""The functions of GradBench's evals in plain NumPy, written from their definitions.

They contain no code for differentiation; the nested ones are given the gradients that their definitions contain.
The first argument of each is what the eval differentiates.
"""

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.special import multigammaln

# --------------------------------------------------------------------------------------------------- scalars


def square(x):
    return x * x


# -------------------------------------------------------------------------------------------- linear algebra


def minors(n):
    """Return, for k = 2 ... n: columns of each k-subset, and the indices of its subsets without one of them."""
    number, found = {(j,): j for j in range(n)}, []
    for k in range(2, n + 1):
        subsets = list(combinations(range(n), k))
        rest = [[number[s[:i] + s[i + 1 :]] for i in range(k)] for s in subsets]
        number = {s: i for i, s in enumerate(subsets)}
        found.append((np.array(subsets), np.array(rest)))
    return found


def determinant(A):
    """Expand the determinant by minors, each of which is computed once."""
    n = len(A)
    minor = A[n - 1]
    for columns, rest in minors(n):
        k = columns.shape[1]
        minor = np.sum((-1.0) ** np.arange(k) * A[n - k, columns] * minor[rest], axis=1)
    return minor[0]


def polynomial_misfit(x, n):
    """Half the sum of squares of sign(t) - x_0 - x_1 t - x_2 t^2 - ... at n equidistant points of [-1, 1]."""
    t = np.linspace(-1.0, 1.0, n)
    value = np.zeros(n)
    for coefficient in x[::-1]:
        value = value * t + coefficient
    return np.sum((np.sign(t) - value) ** 2) / 2


# ------------------------------------------------------------------------------------------------ statistics


def logsumexp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def clustering_cost(centroids, points):
    """Sum of the squared distances of the points, shape (n, d), to their nearest centroids, shape (k, d)."""
    squares = np.sum(points**2, axis=1)[:, None] + np.sum(centroids**2, axis=1)
    return np.sum(np.min(squares - 2 * points @ centroids.T, axis=1))


def mixture_log_posterior(variables, x, m, gamma):
    """Log posterior of a Gaussian mixture with a Wishart prior on the precision matrices Q^T Q.

    `variables` are the logits of the weights, shape (K,), the means, (K, D), and of the K matrices Q the logarithms of
    the diagonals, (K, D), and the columns of the strictly lower triangles, (K, D (D - 1) / 2).
    """
    alpha, mu, q, l = variables
    N, D = x.shape
    K = len(alpha)
    Q = np.zeros((K, D, D))
    columns, rows = np.triu_indices(D, 1)
    Q[:, rows, columns] = l
    Q[:, np.arange(D), np.arange(D)] = np.exp(q)

    whitened = (x - mu[:, None]) @ np.swapaxes(Q, 1, 2)
    exponents = (alpha + np.sum(q, axis=1))[:, None] - np.sum(whitened**2, axis=2) / 2
    top = np.max(exponents, axis=0)
    likelihood = np.sum(top + np.log(np.sum(np.exp(exponents - top), axis=0)))
    likelihood = likelihood - N * (logsumexp(alpha) + D * math.log(2 * math.pi) / 2)

    freedom = D + m + 1
    normalisation = freedom * D * math.log(gamma / math.sqrt(2)) - multigammaln(freedom / 2, D)
    return likelihood + K * normalisation + m * np.sum(q) - gamma**2 / 2 * np.sum(Q**2)


# ------------------------------------------------------------------------------------------------- recurrences


def runge_kutta(x, steps):
    """Solution at t = 2 of y_0' = x_0, y_i' = x_i y_{i-1}, y(0) = 0, by the classical method of order 4."""

    def rate(y):
        return np.concatenate((x[:1], x[1:] * y[:-1]))

    h = 2.0 / steps
    y = np.zeros(len(x))
    for _ in range(steps):
        k1 = rate(y)
        k2 = rate(y + h / 2 * k1)
        k3 = rate(y + h / 2 * k2)
        k4 = rate(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def memory_cell(weights, biases, hidden, cell, signal):
    """Return the next hidden and cell states of a layer whose weight matrices are diagonal."""
    forget = sigmoid(signal * weights[0] + biases[0])
    ingate = sigmoid(hidden * weights[1] + biases[1])
    outgate = sigmoid(signal * weights[2] + biases[2])
    change = np.tanh(hidden * weights[3] + biases[3])
    cell = cell * forget + ingate * change
    return outgate * np.tanh(cell), cell


def sequence_loss(variables, state, sequence):
    """Mean loss of an LSTM that predicts each row of `sequence` from the rows before.

    `variables` are the weights and biases of the layers, shape (L, 2, 4, b), and of input and output, (3, b);
    the state, shape (L, 2, b), holds hidden and cell states.
    """
    layers, (scale, out_weight, out_bias) = variables
    states = [(hidden, cell) for hidden, cell in state]
    total = 0.0
    for t in range(len(sequence) - 1):
        signal = sequence[t] * scale
        for i, (weights, biases) in enumerate(layers):
            states[i] = memory_cell(weights, biases, *states[i], signal)
            signal = states[i][0]
        prediction = signal * out_weight + out_bias
        total = total + np.sum(sequence[t + 1] * (prediction - np.log(2 + np.sum(np.exp(prediction)))))
    return -total / sequence[1:].size


# -------------------------------------------------------------------------------------------- computer vision


class Projections(NamedTuple):
    """Which camera sees which point, and where, in an adjustment of so many cameras and points."""

    camera: np.ndarray
    point: np.ndarray
    feature: np.ndarray
    cameras: int
    points: int


def bundle_errors(variables, projections):
    """Weighted errors of projected points, flat, and the errors of the weights.

    `variables` holds the cameras, each a rotation vector, a centre, a focal length, a principal point and two
    coefficients of radial distortion, then the points, then a weight for each projection.
    """
    camera, point, feature, n, m = projections
    cameras, points, w = np.split(variables, (11 * n, 11 * n + 3 * m))
    a, b, c, cx, cy, cz, focal, u, v, k1, k2 = cameras.reshape(n, 11)[camera].T
    x, y, z = points.reshape(m, 3)[point].T
    x, y, z = x - cx, y - cy, z - cz
    angle = np.sqrt(a * a + b * b + c * c)
    a, b, c = a / angle, b / angle, c / angle
    cosine, sine = np.cos(angle), np.sin(angle)
    along = (a * x + b * y + c * z) * (1 - cosine)
    depth = z * cosine + (a * y - b * x) * sine + c * along
    px = (x * cosine + (b * z - c * y) * sine + a * along) / depth
    py = (y * cosine + (c * x - a * z) * sine + b * along) / depth
    r2 = px * px + py * py
    scale = focal * (1 + k1 * r2 + k2 * r2 * r2)
    errors = np.stack((w * (px * scale + u - feature[:, 0]), w * (py * scale + v - feature[:, 1])), axis=1)
    return np.concatenate((errors.ravel(), 1 - w * w))


def bundle_pattern(projections):
    """Pattern of the Jacobian of `bundle_errors`: of each projection, its camera, its point and its weight."""
    camera, point, _, n, m = projections
    p = len(camera)
    weight = 11 * n + 3 * m + np.arange(p)
    own = np.column_stack((11 * camera[:, None] + np.arange(11), 11 * n + 3 * point[:, None] + np.arange(3), weight))
    columns = np.concatenate((np.repeat(own, 2, axis=0).ravel(), weight))
    starts = np.concatenate((15 * np.arange(2 * p), 30 * p + np.arange(p + 1)))
    return scipy.sparse.csr_array((np.ones(len(columns), bool), columns, starts))


def rotation_matrix(vector):
    """Rotation by the length of a vector about its direction."""
    angle = np.sqrt(np.sum(vector**2))
    if angle < 1e-4:
        return np.eye(3)
    x, y, z = vector / angle
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * (K @ K)


def bone_rotations(angles, count):
    """Rotations, shape (count, 4, 4), of the bones of a hand by four angles of each of five fingers.

    Bones 0 and 1 are rigid, and so is the tip of each finger: each has a joint with two angles and two with one.
    """
    joints = 2 + 4 * np.arange(5)
    bend, spread = np.zeros(count), np.zeros(count)
    bend[joints], spread[joints], bend[joints + 1], bend[joints + 2] = angles.T
    about_x, about_z = np.zeros((2, count, 4, 4))
    about_x[:, 0, 0] = about_z[:, 2, 2] = about_x[:, 3, 3] = about_z[:, 3, 3] = 1.0
    about_x[:, 1, 1] = about_x[:, 2, 2] = np.cos(bend)
    about_x[:, 2, 1], about_x[:, 1, 2] = np.sin(bend), -np.sin(bend)
    about_z[:, 0, 0] = about_z[:, 1, 1] = np.cos(spread)
    about_z[:, 1, 0], about_z[:, 0, 1] = np.sin(spread), -np.sin(spread)
    return about_z @ about_x


def hand_vertices(theta, hand):
    """Positions, shape (n, 3), of the vertices of a hand: global rotation and translation, then 20 angles."""
    relative = hand.base_relatives @ bone_rotations(theta[6:].reshape(5, 4), len(hand.parents))
    absolute = []
    for i, parent in enumerate(hand.parents):
        absolute.append(relative[i] if parent < 0 else absolute[parent] @ relative[i])
    transforms = (np.stack(absolute) @ hand.inverse_base_absolutes)[:, :3]
    blended = np.tensordot(hand.weights, transforms, 1)
    positions = np.sum(blended * hand.base_positions[:, None, :], axis=2)
    if hand.is_mirrored:
        positions = positions * np.array([-1.0, 1.0, 1.0])
    return positions @ rotation_matrix(theta[:3]).T + theta[3:6]


def hand_errors(variables, hand, us=None):
    """Flat differences of observed points and the points of a hand that correspond to them.

    These are vertices, or points of triangles with barycentric coordinates `us`; `variables` then begins with a shift
    of all coordinates.  Each point depends on its own coordinates only, so that the derivatives in the shift are those
    in the coordinates.
    """
    if us is None:
        return (hand.points - hand_vertices(variables, hand)[hand.correspondences]).ravel()
    u = us + variables[:2]
    first, second, third = hand_vertices(variables[2:], hand)[hand.triangles[hand.correspondences].T]
    inside = u[:, :1] * first + u[:, 1:] * second + (1 - u[:, :1] - u[:, 1:]) * third
    return (hand.points - inside).ravel()


# ----------------------------------------------------------------------------------------- nested derivatives


def descend(f, gradient, x):
    """Minimise by steps down the gradient that double after ten successes, and halve after a failure."""
    value, slope = f(x), gradient(x)
    rate, successes = 1e-5, 0
    while np.sqrt(np.sum(slope**2)) > 1e-5:
        if successes == 10:
            rate, successes = 2 * rate, 0
            continue
        new = x - rate * slope
        if np.sqrt(np.sum((x - new) ** 2)) <= 1e-5:
            break
        new_value = f(new)
        if new_value < value:
            x, value, slope, successes = new, new_value, gradient(new), successes + 1
        else:
            rate, successes = rate / 2, 0
    return x


def potential(x, charges):
    """Potential of unit charges at the rows of `charges`."""
    return np.sum(1 / np.sqrt(np.sum((x - charges) ** 2, axis=1)))


def particle_miss(w, field):
    """Square of where a particle in a field crosses the axis, by Euler's method; `field` differentiates `potential`."""
    charges = np.stack((np.array([10.0, 0.0]), np.array([10.0, 10.0]) - w * np.array([0.0, 1.0])))
    x, v, dt = np.array([0.0, 8.0]), np.array([0.75, 0.0]), 0.1
    while True:
        force = -field(x, charges)
        x = x + dt * v
        if x[1] <= 0:
            break
        v = v + dt * force
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def saddle(x, y):
    return np.sum(x**2) - np.sum(y**2)


def highest(x, start, slope):
    """Where `saddle` is largest in y, by `slope`, its gradient in y."""
    return descend(lambda y: -saddle(x, y), lambda y: -slope(x, y), start)


def saddle_along(x, start, slope):
    """The largest value of `saddle` in y."""
    return saddle(x, highest(x, start, slope))
