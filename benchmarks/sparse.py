"""Functions with sparse Jacobians and Hessians, in plain NumPy.

Each states its pattern, as for SciPy's finite differences; objectives have hand-written gradients.
"""

import numpy as np
import scipy.sparse as sp


def band(n, *offsets):
    """Return a boolean matrix with these diagonals."""
    return sp.diags_array([1.0] * len(offsets), offsets=offsets, shape=(n, n)).astype(bool).tocsr()


class Brusselator:
    """Rates of two substances that react and diffuse on a periodic square of n x n cells.

    References
    ----------
    Hairer and Wanner (1996), Solving ordinary differential equations II, section IV.10.
    doi:10.1007/978-3-642-05221-7
    """

    A, B, D = 1.0, 3.4, 0.001

    def __init__(self, n):
        self.n = n
        self.start = 1.5 + 0.5 * np.sin(np.arange(2 * n * n))

    def laplacian(self, u):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        return (around - 4.0 * u) * self.n**2

    def loss(self, z):
        n = self.n
        cells = np.reshape(z, (2, n, n))
        u, v = cells[0], cells[1]
        production = u**2 * v
        du = self.A + production - (self.B + 1.0) * u + self.D * self.laplacian(u)
        dv = self.B * u - production + self.D * self.laplacian(v)
        return np.concatenate([np.ravel(du), np.ravel(dv)])

    def pattern(self):
        ring = band(self.n, 1 - self.n, -1, 0, 1, self.n - 1)
        both = sp.eye_array(self.n**2)
        grid = sp.kronsum(ring, ring)
        return sp.block_array([[grid, both], [both, grid]]).astype(bool).tocsr()


class Chained:
    """An objective that couples neighbours."""

    def __init__(self, n):
        self.n = n
        self.start = 1.0 + 0.5 * np.sin(np.arange(n))

    def loss(self, x):
        return np.sum((x[1:] - x[:-1] ** 2) ** 2 + np.exp(-x[1:] * x[:-1]))

    def gradient(self, x):
        a, b = x[:-1], x[1:]
        inner, decay = b - a**2, np.exp(-a * b)
        found = np.zeros_like(x)
        found[:-1] = -4.0 * a * inner - b * decay
        found[1:] += 2.0 * inner - a * decay
        return found

    def pattern(self):
        return band(self.n, -1, 0, 1)


class ArrowHead:
    """An objective that couples each variable with the first."""

    def __init__(self, n):
        self.n = n
        self.start = 1.0 + 0.5 * np.sin(np.arange(n))

    def loss(self, x):
        return np.sum((x[1:] - x[0] ** 2) ** 2 + np.exp(-x[1:] * x[0]))

    def gradient(self, x):
        a, b = x[0], x[1:]
        inner, decay = b - a**2, np.exp(-a * b)
        found = np.zeros_like(x)
        found[0] = np.sum(-4.0 * a * inner - b * decay)
        found[1:] = 2.0 * inner - a * decay
        return found

    def pattern(self):
        rest = np.arange(1, self.n)
        first = np.zeros_like(rest)
        rows = np.concatenate([first, rest, np.arange(self.n)])
        columns = np.concatenate([rest, first, np.arange(self.n)])
        return sp.csr_array((np.ones(rows.size, bool), (rows, columns)), (self.n, self.n))


class BundleAdjustment:
    """Reprojection errors of observed points: nine unknowns per camera, three per point.

    References
    ----------
    Triggs, McLauchlan, Hartley and Fitzgibbon (2000), Bundle adjustment: a modern synthesis.
    doi:10.1007/3-540-44480-7_21
    """

    def __init__(self, cameras, points, observations, seed=0):
        rng = np.random.default_rng(seed)
        self.cameras, self.points = cameras, points
        self.camera_of = rng.integers(cameras, size=observations)
        self.point_of = np.concatenate([np.arange(points), rng.integers(points, size=observations - points)])
        self.seen = rng.normal(size=(observations, 2))
        ring = 0.3 * rng.normal(size=(cameras, 9))
        ring[:, 5] += 6.0
        ring[:, 6:] = [800.0, -0.2, 0.05]
        self.start = np.concatenate([ring.ravel(), rng.uniform(-1.5, 1.5, 3 * points)])

    def rotated(self, x, vectors):
        """Rotate each row of x by a rotation vector, by Rodrigues' formula."""
        angle = np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))
        axis = vectors / angle
        along = np.sum(axis * x, axis=1, keepdims=True)
        return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along * (1.0 - np.cos(angle))

    def loss(self, z):
        cameras = z[: 9 * self.cameras].reshape(-1, 9)[self.camera_of]
        points = z[9 * self.cameras :].reshape(-1, 3)[self.point_of]
        p = self.rotated(points, cameras[:, :3]) + cameras[:, 3:6]
        xy = p[:, :2] / p[:, 2:]
        r2 = np.sum(xy**2, axis=1)
        scale = cameras[:, 6] * (1.0 + cameras[:, 7] * r2 + cameras[:, 8] * r2**2)
        return (xy * scale[:, None] - self.seen).ravel()

    def pattern(self):
        of_camera = 9 * self.camera_of[:, None] + np.arange(9)
        of_point = 9 * self.cameras + 3 * self.point_of[:, None] + np.arange(3)
        columns = np.repeat(np.concatenate([of_camera, of_point], axis=1), 2, axis=0)
        rows = np.repeat(np.arange(len(columns)), 12)
        shape = len(columns), self.start.size
        return sp.csr_array((np.ones(rows.size, bool), (rows, columns.ravel())), shape)


class Collocation:
    """Defects of a cart-pole under Hermite-Simpson collocation in n steps: four states and a force per node.

    References
    ----------
    Kelly (2017), An introduction to trajectory optimization. doi:10.1137/16M1062569
    """

    def __init__(self, n):
        self.n, self.h = n, 2.0 / n
        nodes = np.arange(n + 1)[:, None]
        self.start = (0.5 * np.sin(0.01 * nodes + np.arange(5))).ravel()

    def rate(self, s, force):
        angle, speed, turning = s[:, 1], s[:, 2], s[:, 3]
        sine, cosine = np.sin(angle), np.cos(angle)
        mass = 1.0 + 0.3 * sine**2
        push = (0.15 * sine * turning**2 + force + 2.943 * cosine * sine) / mass
        turn = -(0.15 * cosine * sine * turning**2 + force * cosine + 12.753 * sine) / (0.5 * mass)
        return np.stack([speed, turning, push, turn], axis=1)

    def loss(self, z):
        nodes, h = z.reshape(-1, 5), self.h
        states, force = nodes[:, :4], nodes[:, 4]
        rates = self.rate(states, force)
        a, b, ra, rb = states[:-1], states[1:], rates[:-1], rates[1:]
        middle = self.rate(0.5 * (a + b) + h / 8.0 * (ra - rb), 0.5 * (force[:-1] + force[1:]))
        return (b - a - h / 6.0 * (ra + 4.0 * middle + rb)).ravel()

    def pattern(self):
        n = self.n
        steps = sp.diags_array([1.0, 1.0], offsets=[0, 1], shape=(n, n + 1))
        return sp.kron(steps, np.ones((4, 5))).astype(bool).tocsr()


class Diffusion3D:
    """Steady heat conduction in n^3 cells with zero boundary, with a conductivity that grows with temperature."""

    def __init__(self, n):
        self.n = n
        self.start = 1.0 + 0.5 * np.sin(np.arange(n**3))

    def loss(self, x):
        u = np.pad(x.reshape(self.n, self.n, self.n), 1)
        k = 1.0 + u**2
        total = np.exp(-u[1:-1, 1:-1, 1:-1])
        for axis in range(3):
            cut = [slice(1, -1)] * 3
            cut[axis] = slice(None)
            s, c = np.moveaxis(u[tuple(cut)], axis, 0), np.moveaxis(k[tuple(cut)], axis, 0)
            flow = 0.5 * (c[1:] + c[:-1]) * (s[1:] - s[:-1])
            total = total + np.moveaxis(flow[1:] - flow[:-1], 0, axis)
        return total.ravel()

    def pattern(self):
        line = band(self.n, -1, 0, 1)
        return sp.kronsum(sp.kronsum(line, line), line).astype(bool).tocsr()
