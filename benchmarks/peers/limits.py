"""Hand-written derivatives, in Numba for loops: the remaining potential for speed.

Each function takes a problem and returns its derivative as a callable of x; its name is that of the function and of
the kind of derivative.  Linear kernels are not run forwards.
"""

import numpy as np
from numba import njit
from scipy.sparse import csr_array

# ---------------------------------------------------------------------------------------- scalar code


@njit
def rosenbrock_slopes(x):
    gradient = np.empty_like(x)
    carried = 0.0
    for i in range(x.size - 1):
        inner = x[i + 1] - x[i] * x[i]
        gradient[i] = carried - 400.0 * inner * x[i] - 2.0 * (1.0 - x[i])
        carried = 200.0 * inner
    gradient[-1] = carried
    return gradient


@njit
def rosenbrock_curvature(x):
    n = x.size
    hessian = np.zeros((n, n))
    for i in range(n - 1):
        hessian[i, i] += 1200.0 * x[i] * x[i] - 400.0 * x[i + 1] + 2.0
        hessian[i + 1, i + 1] = 200.0
        hessian[i, i + 1] = hessian[i + 1, i] = -400.0 * x[i]
    return hessian


def rosenbrock_loop_gradient(problem):
    return rosenbrock_slopes


def rosenbrock_loop_hessian(problem):
    return rosenbrock_curvature


rosenbrock_sliced_gradient, rosenbrock_sliced_hessian = rosenbrock_loop_gradient, rosenbrock_loop_hessian


@njit
def robertson_slopes(y):
    b, c = y[1], y[2]
    J = np.empty((3, 3))
    J[0, 0], J[0, 1], J[0, 2] = -0.04, 1e4 * c, 1e4 * b
    J[1, 0], J[1, 1], J[1, 2] = 0.04, -1e4 * c - 6e7 * b, -1e4 * b
    J[2, 0], J[2, 1], J[2, 2] = 0.0, 6e7 * b, 0.0
    return J


def robertson_jacobian(problem):
    return robertson_slopes


def pollu_jacobian(problem):
    """Use the stoichiometry: rates are quadratic, so values at a few points determine them."""
    n = problem.x.size
    units = np.eye(n)

    def f(y):
        return np.array(problem.f(y))

    constant = np.stack([4.0 * f(0.5 * e) - f(e) for e in units], axis=1)
    squares = np.stack([f(e) for e in units], axis=1) - constant
    places, factors = [], []
    for i in range(n):
        for j in range(i, n):
            mixed = squares[:, i] if i == j else f(units[i] + units[j]) - f(units[i]) - f(units[j])
            # rounding errors of sums that are zero are not reactions
            for k in np.flatnonzero(np.abs(mixed) > 1e-3):
                places.append((k, i, j))
                factors.append(mixed[k])
    places, factors = np.array(places), np.array(factors)
    return lambda y: quadratic_slopes(y, constant, places, factors)


@njit
def quadratic_slopes(y, constant, places, factors):
    J = constant.copy()
    for m in range(factors.size):
        k, i, j = places[m]
        J[k, i] += factors[m] * y[j]
        J[k, j] += factors[m] * y[i]
    return J


@njit
def energy_slopes(x, masses):
    gradient = np.zeros_like(x)
    for i in range(x.shape[0]):
        for j in range(i):
            dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            squares = dx * dx + dy * dy + dz * dz + 0.01
            pull = masses[i] * masses[j] / (squares * np.sqrt(squares))
            for k, d in enumerate((dx, dy, dz)):
                gradient[i, k] += pull * d
                gradient[j, k] -= pull * d
    return gradient


def bodies_gradient(problem):
    return lambda x: energy_slopes(x, problem.model.masses)


# ------------------------------------------------------------------------------------- equations and simulations


@njit
def tridiagonal_root(p, n):
    """Newton's method and the derivative of the root, by elimination in tridiagonal matrices."""
    x = -np.ones(n)
    diagonal, right = np.empty(n), np.empty((n, 4))
    change = 1.0
    while True:
        last = change <= 1e-9
        for i in range(n):
            left = x[i - 1] if i else 0.0
            next = x[i + 1] if i < n - 1 else 0.0
            right[i, 0] = (3.0 + p[0] - 2.0 * p[1] * x[i]) * x[i] - left - 2.0 * next + p[2]
            right[i, 1], right[i, 2], right[i, 3] = -x[i], 2.0 * x[i] * x[i], -1.0
            diagonal[i] = 3.0 + p[0] - 4.0 * p[1] * x[i]
        for i in range(1, n):
            factor = -1.0 / diagonal[i - 1]
            diagonal[i] += 2.0 * factor
            for k in range(4):
                right[i, k] -= factor * right[i - 1, k]
        for i in range(n - 1, -1, -1):
            for k in range(4):
                right[i, k] = (right[i, k] + (2.0 * right[i + 1, k] if i < n - 1 else 0.0)) / diagonal[i]
        if last:
            return right[:, 1:].copy()
        x -= right[:, 0]
        change = np.max(np.abs(right[:, 0]))


def root_jacobian(problem):
    n = problem.model.n
    return lambda p: tridiagonal_root(p, n)


@njit
def lorenz_rate(x, force):
    n = x.size
    rate = np.empty(n)
    for i in range(n):
        rate[i] = (x[i + 1 if i < n - 1 else 0] - x[i - 2]) * x[i - 1] - x[i] + force
    return rate


@njit
def lorenz_pullback(x, k_bar):
    n = x.size
    x_bar = -k_bar
    for i in range(n):
        after = i + 1 if i < n - 1 else 0
        x_bar[after] += x[i - 1] * k_bar[i]
        x_bar[i - 2] -= x[i - 1] * k_bar[i]
        x_bar[i - 1] += (x[after] - x[i - 2]) * k_bar[i]
    return x_bar


@njit
def lorenz_slopes(x, steps, h, force):
    stages = np.empty((steps, 4, x.size))
    for t in range(steps):
        stages[t, 0] = x
        k1 = lorenz_rate(x, force)
        stages[t, 1] = x + 0.5 * h * k1
        k2 = lorenz_rate(stages[t, 1], force)
        stages[t, 2] = x + 0.5 * h * k2
        k3 = lorenz_rate(stages[t, 2], force)
        stages[t, 3] = x + h * k3
        k4 = lorenz_rate(stages[t, 3], force)
        x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    x_bar = 2.0 * x
    for t in range(steps - 1, -1, -1):
        fourth = lorenz_pullback(stages[t, 3], h / 6.0 * x_bar)
        third = lorenz_pullback(stages[t, 2], h / 3.0 * x_bar + h * fourth)
        second = lorenz_pullback(stages[t, 1], h / 3.0 * x_bar + 0.5 * h * third)
        first = lorenz_pullback(stages[t, 0], h / 6.0 * x_bar + 0.5 * h * second)
        x_bar = x_bar + first + second + third + fourth
    return x_bar


def lorenz96_gradient(problem):
    model = problem.model
    return lambda x: lorenz_slopes(x, model.steps, model.h, model.force)


@njit
def enzyme_rate(y, p, out, at):
    first, second = p[0] * y[0] / (p[1] + y[0]), p[2] * y[1] / (p[3] + y[1])
    out[0], out[1], out[2] = -first, first - second, second - p[4] * y[2]
    at[0], at[1], at[2] = y[0], y[1], y[2]


@njit
def enzyme_pullback(y, p, k_bar, y_bar, p_bar):
    """Add to `p_bar`; `y_bar` is overwritten."""
    first_bar, second_bar = k_bar[1] - k_bar[0], k_bar[2] - k_bar[1]
    a, b = 1.0 / (p[1] + y[0]), 1.0 / (p[3] + y[1])
    p_bar[0] += y[0] * a * first_bar
    p_bar[1] -= p[0] * y[0] * a * a * first_bar
    p_bar[2] += y[1] * b * second_bar
    p_bar[3] -= p[2] * y[1] * b * b * second_bar
    p_bar[4] -= y[2] * k_bar[2]
    y_bar[0] = p[0] * p[1] * a * a * first_bar
    y_bar[1] = p[2] * p[3] * b * b * second_bar
    y_bar[2] = -p[4] * k_bar[2]


@njit
def enzyme_slopes(p, first, seen, steps, h):
    total = seen.shape[0] * steps
    at, ends, k = np.empty((total, 4, 3)), np.empty(seen.shape), np.empty((4, 3))
    y, z = first.copy(), np.empty(3)
    for t in range(total):
        enzyme_rate(y, p, k[0], at[t, 0])
        for s, part in ((1, 0.5), (2, 0.5), (3, 1.0)):
            for i in range(3):
                z[i] = y[i] + part * h * k[s - 1, i]
            enzyme_rate(z, p, k[s], at[t, s])
        for i in range(3):
            y[i] += h / 6.0 * (k[0, i] + 2.0 * k[1, i] + 2.0 * k[2, i] + k[3, i])
        if (t + 1) % steps == 0:
            ends[t // steps] = y
    y_bar, p_bar = np.zeros(3), np.zeros(5)
    stage, k_bar, total_bar = np.zeros(3), np.empty(3), np.empty(3)
    for t in range(total - 1, -1, -1):
        if (t + 1) % steps == 0:
            y_bar += 2.0 * (ends[t // steps] - seen[t // steps])
        total_bar[:] = y_bar
        stage[:] = 0.0
        for s, weight, part in ((3, 1.0, 0.0), (2, 2.0, 1.0), (1, 2.0, 0.5), (0, 1.0, 0.5)):
            for i in range(3):
                k_bar[i] = weight * h / 6.0 * y_bar[i] + part * h * stage[i]
            enzyme_pullback(at[t, s], p, k_bar, stage, p_bar)
            total_bar += stage
        y_bar[:] = total_bar
    return p_bar


def enzymefit_gradient(problem):
    model = problem.model
    return lambda p: enzyme_slopes(p, model.first, model.seen, model.steps, model.h)


@njit
def diffusion_slopes(x, weights, steps):
    n = x.shape[0]
    states = np.zeros((steps + 1, n + 2, n + 2))
    states[0, 1:-1, 1:-1] = x
    for t in range(steps):
        u, new = states[t], states[t + 1]
        for i in range(1, n + 1):
            for j in range(1, n + 1):
                c = u[i, j]
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                new[i, j] = c + 0.1 * (around - 4.0 * c) + 0.01 * (c - c * c * c)
    bar, before = np.zeros((n + 2, n + 2)), np.zeros((n + 2, n + 2))
    bar[1:-1, 1:-1] = weights
    for t in range(steps - 1, -1, -1):
        u = states[t]
        for i in range(1, n + 1):
            for j in range(1, n + 1):
                around = bar[i - 1, j] + bar[i + 1, j] + bar[i, j - 1] + bar[i, j + 1]
                before[i, j] = 0.1 * around + (0.61 - 0.03 * u[i, j] * u[i, j]) * bar[i, j]
        bar, before = before, bar
    return bar[1:-1, 1:-1].copy()


def reactiondiffusion_gradient(problem):
    model = problem.model
    return lambda x: diffusion_slopes(x, model.weights, model.steps)


# ------------------------------------------------------------------------------------------------ linear kernels


@njit
def jacobi_1d_slopes(weights, steps):
    A, B = weights.copy(), np.zeros_like(weights)
    for _ in range(2 * steps):
        for i in range(1, A.size - 1):
            part = 0.33333 * A[i]
            A[i] = 0.0
            B[i - 1] += part
            B[i] += part
            B[i + 1] += part
        A, B = B, A
    return A + B


@njit
def jacobi_2d_slopes(weights, steps):
    A, B = weights.copy(), np.zeros_like(weights)
    n = weights.shape[0]
    for _ in range(2 * steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                part = 0.2 * A[i, j]
                A[i, j] = 0.0
                B[i, j] += part
                B[i - 1, j] += part
                B[i + 1, j] += part
                B[i, j - 1] += part
                B[i, j + 1] += part
        A, B = B, A
    return A + B


@njit
def seidel_2d_slopes(weights, steps):
    A = weights.copy()
    n = weights.shape[0]
    for _ in range(steps):
        for i in range(n - 2, 0, -1):
            for j in range(n - 2, 0, -1):
                part = A[i, j] / 9.0
                A[i, j] = 0.0
                for k in range(-1, 2):
                    for m in range(-1, 2):
                        A[i + k, j + m] += part
    return A


def jacobi1d_gradient(problem):
    return lambda x: jacobi_1d_slopes(problem.model.weights, problem.model.steps)


def jacobi2d_gradient(problem):
    return lambda x: jacobi_2d_slopes(problem.model.weights, problem.model.steps)


def seidel2d_gradient(problem):
    return lambda x: seidel_2d_slopes(problem.model.weights, problem.model.steps)


# ------------------------------------------------------------------------------------------------- whole arrays


def gemver_gradient(problem):
    m = problem.model

    def gradient(A):
        A = A + np.outer(m.u1, m.v1) + np.outer(m.u2, m.v2)
        x = m.x + 1.2 * (m.y @ A) + m.z
        found = np.outer(1.5 * m.weights, x)
        found += np.outer(1.2 * m.y, 1.5 * (m.weights @ A))
        return found

    return gradient


def softmax_gradient(problem):
    weights = problem.model.weights

    def gradient(x):
        e = x - np.max(x, axis=-1, keepdims=True)
        np.exp(e, out=e)
        e /= np.sum(e, axis=-1, keepdims=True)
        return e * (weights - np.einsum("ij,ij->i", e, weights)[:, None])

    return gradient


def gaussianprocess_gradient(problem):
    return problem.model.gradient


def logisticregression_hessian(problem):
    A = problem.model.A

    def hessian(w):
        s = 1.0 / (1.0 + np.exp(A @ w))
        found = A.T @ ((s * (1.0 - s))[:, None] * A)
        np.fill_diagonal(found, found.diagonal() + 1.0)
        return found

    return hessian


def mixture_gradient(problem):
    m = problem.model
    rows, columns = np.triu_indices(m.d, 1)[::-1]  # the elements below the diagonal, column by column
    diagonal = np.arange(m.d)

    def gradient(x):
        weights, means, logs, below = np.split(x, m.cuts)
        logs, below = logs.reshape(m.k, m.d), below.reshape(m.k, -1)
        diagonals = np.exp(logs)
        factors = np.zeros((m.k, m.d, m.d))
        factors[:, diagonal, diagonal] = diagonals
        factors[:, rows, columns] = below
        centred = m.X - means.reshape(m.k, 1, m.d)
        scaled = centred @ np.swapaxes(factors, 1, 2)
        terms = (weights + np.sum(logs, axis=1))[:, None] - 0.5 * np.einsum("kni,kni->kn", scaled, scaled)
        shares = np.exp(terms - np.max(terms, axis=0))
        shares /= np.sum(shares, axis=0)
        of_each = np.sum(shares, axis=1)
        scaled *= shares[:, :, None]
        in_factors = -np.swapaxes(scaled, 1, 2) @ centred
        in_means = (np.sum(scaled, axis=1)[:, None] @ factors)[:, 0]
        prior = np.exp(weights - np.max(weights))
        in_logs = of_each[:, None] + in_factors[:, diagonal, diagonal] * diagonals + diagonals**2
        in_below = in_factors[:, rows, columns] + below
        in_weights = of_each - m.n * prior / np.sum(prior)
        return np.concatenate([in_weights, in_means.ravel(), in_logs.ravel(), in_below.ravel()])

    return gradient


def mlp_hvp(problem):
    m, v = problem.model, problem.v

    def product(w):
        W1, b1, W2, b2, W3 = m.parts(w)
        V1, c1, V2, c2, V3 = m.parts(v)
        a = np.tanh(m.X @ W1 + b1)
        b = np.tanh(a @ W2 + b2)
        a_slope, b_slope = 1.0 - a * a, 1.0 - b * b
        a_dot = a_slope * (m.X @ V1 + c1)
        b_dot = b_slope * (a_dot @ W2 + a @ V2 + c2)
        factor = 2.0 / len(m.Y)
        e, e_dot = factor * (b @ W3 - m.Y), factor * (b_dot @ W3 + b @ V3)
        b_bar, b_bar_dot = e @ W3.T, e_dot @ W3.T + e @ V3.T
        db, db_dot = b_bar * b_slope, b_bar_dot * b_slope - 2.0 * b_bar * b * b_dot
        a_bar, a_bar_dot = db @ W2.T, db_dot @ W2.T + db @ V2.T
        da_dot = a_bar_dot * a_slope - 2.0 * a_bar * a * a_dot
        parts = (
            m.X.T @ da_dot,
            da_dot.sum(axis=0),
            a_dot.T @ db + a.T @ db_dot,
            db_dot.sum(axis=0),
            b_dot.T @ e + b.T @ e_dot,
        )
        return np.concatenate([part.ravel() for part in parts])

    return product


# ---------------------------------------------------------------------------------------------- sparse matrices


def in_rows(columns, n, kernel):
    """Return a sparse matrix whose data `kernel` computes from x; `columns` of each row, -1 for none."""
    counts = np.sum(columns >= 0, axis=1)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    matrix = csr_array((np.zeros(starts[-1]), columns[columns >= 0].astype(np.int32), starts), (len(columns), n))

    def derivative(x):
        matrix.data = kernel(x)
        return matrix

    return derivative


@njit
def brusselator_entries(z, n, A, B, D):
    cells = n * n
    found = np.empty((2, cells, 6))
    near = D * n * n
    for i in range(cells):
        u, v = z[i], z[cells + i]
        for k in range(4):
            found[0, i, k] = found[1, i, k] = near
        found[0, i, 4] = 2.0 * u * v - (B + 1.0) - 4.0 * near
        found[0, i, 5] = u * u
        found[1, i, 4] = -u * u - 4.0 * near
        found[1, i, 5] = B - 2.0 * u * v
    return found.ravel()


def brusselator_sparse_jacobian(problem):
    m = problem.model
    places = np.arange(m.n**2).reshape(m.n, m.n)
    around = [np.roll(places, k, axis).ravel() for axis in (0, 1) for k in (1, -1)]
    own, cells = places.ravel(), m.n**2
    first = np.stack([*around, own, own + cells], axis=1)
    second = np.stack([*(a + cells for a in around), own + cells, own], axis=1)
    return in_rows(np.concatenate([first, second]), 2 * cells, lambda z: brusselator_entries(z, m.n, m.A, m.B, m.D))


@njit
def chained_entries(x):
    n = x.size
    found = np.zeros(3 * n - 2)
    for i in range(n - 1):
        a, b = x[i], x[i + 1]
        decay = np.exp(-a * b)
        found[3 * i] += 12.0 * a * a - 4.0 * b + b * b * decay
        found[3 * i + 1] = found[3 * i + 2] = (a * b - 1.0) * decay - 4.0 * a
        found[3 * i + 3] = 2.0 + a * a * decay
    return found


def chained_sparse_hessian(problem):
    n = problem.x.size
    columns = np.arange(n)[:, None] + np.arange(-1, 2)
    return in_rows(np.where(columns < n, columns, -1), n, chained_entries)


@njit
def arrow_entries(x):
    n = x.size
    found = np.zeros(3 * n - 2)
    a = x[0]
    for i in range(1, n):
        b = x[i]
        decay = np.exp(-a * b)
        found[0] += 12.0 * a * a - 4.0 * b + b * b * decay
        found[i] = found[n + 2 * i - 2] = (a * b - 1.0) * decay - 4.0 * a
        found[n + 2 * i - 1] = 2.0 + a * a * decay
    return found


def arrowhead_sparse_hessian(problem):
    n = problem.x.size
    rest = np.arange(1, n)
    columns = np.concatenate([np.arange(n), np.stack([np.zeros_like(rest), rest], axis=1).ravel()])
    starts = np.concatenate([[0], n + 2 * np.arange(n)])
    matrix = csr_array((np.zeros(3 * n - 2), columns, starts), (n, n))

    def hessian(x):
        matrix.data = arrow_entries(x)
        return matrix

    return hessian


@njit
def diffusion_entries(x, n, count):
    found = np.empty(count)
    at = 0
    for i in range(n):
        for j in range(n):
            for k in range(n):
                here = x[(i * n + j) * n + k]
                own = -np.exp(-here)
                for di, dj, dk in ((-1, 0, 0), (0, -1, 0), (0, 0, -1), (0, 0, 1), (0, 1, 0), (1, 0, 0)):
                    p, q, r = i + di, j + dj, k + dk
                    inside = 0 <= p < n and 0 <= q < n and 0 <= r < n
                    next = x[(p * n + q) * n + r] if inside else 0.0
                    mean = 1.0 + 0.5 * (next * next + here * here)
                    own += here * (next - here) - mean
                    if inside:
                        found[at] = next * (next - here) + mean
                        at += 1
                found[at] = own
                at += 1
    return found


def diffusion3d_sparse_jacobian(problem):
    n = problem.model.n
    places = np.pad(np.arange(n**3).reshape(n, n, n), 1, constant_values=-1)
    inner = slice(1, -1)
    shifts = [(1, 0), (1, 1), (1, 2), (-1, 2), (-1, 1), (-1, 0), (0, 0)]
    columns = np.stack([np.roll(places, *s)[inner, inner, inner].ravel() for s in shifts], axis=1)
    count = int(np.sum(columns >= 0))
    return in_rows(columns, n**3, lambda x: diffusion_entries(x, n, count))
