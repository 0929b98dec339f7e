"""Versions of functions of `workloads`, `equations` and `unseen` for packages that cannot differentiate the originals.

Each takes the object whose method `loss` it replaces, and computes the same function of x; its package is imported
when it is called.  Functions without a version here run unchanged, or fail.
"""

import functools


def jax_steps(relaxed, inner):
    """Alternate two arrays, each of which overwrites the other's interior."""

    def make(model):
        import jax
        import jax.numpy as jnp

        def step(_, arrays):
            A, B = arrays
            B = B.at[inner].set(relaxed(A))
            return A.at[inner].set(relaxed(B)), B

        def loss(x):
            return jnp.sum(model.weights * jax.lax.fori_loop(0, model.steps, step, (x, x))[0])

        return loss

    return make


jax_jacobi_1d = jax_steps(lambda A: 0.33333 * (A[:-2] + A[1:-1] + A[2:]), slice(1, -1))
jax_jacobi_2d = jax_steps(
    lambda A: 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]),
    (slice(1, -1), slice(1, -1)),
)


def jax_seidel_2d(model):
    """Compute each row from the updated one above by a scan along it."""
    import jax
    import jax.numpy as jnp

    def row(above, rows):
        here, below = rows
        known = above[:-2] + above[1:-1] + above[2:] + here[1:-1] + here[2:] + below[:-2] + below[1:-1] + below[2:]

        def element(left, rest):
            new = (left + rest) / 9.0
            return new, new

        new = here.at[1:-1].set(jax.lax.scan(element, here[0], known)[1])
        return new, new

    def sweep(_, A):
        return A.at[1:-1].set(jax.lax.scan(row, A[0], (A[1:-1], A[2:]))[1])

    def loss(x):
        return jnp.sum(model.weights * jax.lax.fori_loop(0, model.steps, sweep, x))

    return loss


def diffused(c, u):
    """One step of `ReactionDiffusion`: u is c with a zero border."""
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return c + 0.1 * (around - 4.0 * c) + 0.01 * (c - c * c * c)


def jax_reaction_diffusion(model, inner=50):
    """Only the first state of each `inner` steps is stored for the backward pass."""
    import jax
    import jax.numpy as jnp

    @jax.checkpoint
    def block(c, _):
        return jax.lax.fori_loop(0, inner, lambda _, c: diffused(c, jnp.pad(c, 1)), c), None

    def loss(x):
        return jnp.sum(model.weights * jax.lax.scan(block, x, length=model.steps // inner)[0])

    return loss


def jax_lorenz(model):
    import jax
    import jax.numpy as jnp

    def rate(x):
        return (jnp.roll(x, -1) - jnp.roll(x, 2)) * jnp.roll(x, 1) - x + model.force

    def loss(x):
        return jnp.sum(jax.lax.fori_loop(0, model.steps, lambda _, x: runge_kutta(rate, x, model.h), x) ** 2)

    return loss


def jax_bodies(model):
    import jax.numpy as jnp
    import numpy as np

    i, j = np.tril_indices(model.n, -1)

    def loss(x):
        d = x[i] - x[j]
        return -jnp.sum(model.masses[i] * model.masses[j] / jnp.sqrt(jnp.sum(d * d, axis=1) + 0.01))

    return loss


def jax_enzyme_fit(model):
    import jax
    import jax.numpy as jnp

    def loss(p):
        def step(_, y):
            return runge_kutta(lambda y: model.rate(y, p), y, model.h)

        def until(y, seen):
            y = jax.lax.fori_loop(0, model.steps, step, y)
            return y, jnp.sum((y - seen) ** 2)

        return jnp.sum(jax.lax.scan(until, model.first, model.seen)[1])

    return loss


def runge_kutta(rate, y, h):
    k1 = rate(y)
    k2 = rate(y + 0.5 * h * k1)
    k3 = rate(y + 0.5 * h * k2)
    k4 = rate(y + h * k3)
    return y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def jax_root(model):
    """Newton's method, which jax does not trace: it uses the implicit equation."""
    import jax
    import jax.numpy as jnp

    def newton(residual, start):
        def step(state):
            x, _ = state
            change = jnp.linalg.solve(jax.jacfwd(residual)(x), residual(x))
            return x - change, jnp.max(jnp.abs(change))

        return jax.lax.while_loop(lambda state: state[1] > 1e-9, step, (start, jnp.inf))[0]

    def tangent(linear, y):
        return jnp.linalg.solve(jax.jacfwd(linear)(y), y)

    def solution(p):
        return jax.lax.custom_root(lambda x: model.residual(x, p), -jnp.ones(model.n), newton, tangent)

    return solution


def torch_root(model, steps=6):
    """Trace Newton's method."""
    import torch

    def solution(p):
        x = -torch.ones(model.n)
        for _ in range(steps):
            x = x - torch.linalg.solve(torch.func.jacfwd(model.residual)(x, p), model.residual(x, p))
        return x

    return solution


def autograd_root(model):
    """Find the root by SciPy on plain values, then trace one Newton step, which has the derivative of the root."""
    import autograd.numpy as anp
    from autograd import jacobian
    from autograd.tracer import getval
    from scipy.optimize import root

    def solution(p):
        constants = getval(p)
        x = root(model.residual, -anp.ones(model.n), args=(constants,), tol=1e-12).x
        return x - anp.linalg.solve(jacobian(model.residual)(x, constants), model.residual(x, p))

    return solution


def casadi_root(model):
    """Use casadi's own solver, which is differentiable."""
    import casadi
    import numpy as np

    n = model.n
    x, p = casadi.SX.sym("x", n), casadi.SX.sym("p", 3)
    left, right = casadi.vertcat(0, x[:-1]), casadi.vertcat(x[1:], 0)
    residual = (3.0 + p[0] - 2.0 * p[1] * x) * x - left - 2.0 * right + p[2]
    solver = casadi.rootfinder("root", "newton", {"x": x, "p": p, "g": residual}, {"abstol": 1e-12})
    return lambda p: solver(-np.ones(n), p)


def torch_reaction_diffusion(model):
    """Avoid stores, which would overwrite values that the backward pass needs."""
    import torch

    def loss(x):
        for _ in range(model.steps):
            x = diffused(x, torch.nn.functional.pad(x, (1, 1, 1, 1)))
        return torch.sum(model.weights * x)

    return loss


def casadi_reaction_diffusion(model):
    import casadi

    n = model.n

    def loss(x):
        for _ in range(model.steps):
            u = casadi.MX(n + 2, n + 2)
            u[1:-1, 1:-1] = x
            x = diffused(x, u)
        return casadi.sum1(casadi.sum2(model.weights * x))

    return loss


def casadi_gemver(model):
    import casadi

    def loss(A):
        A = A + casadi.DM(model.u1) @ casadi.DM(model.v1).T + casadi.DM(model.u2) @ casadi.DM(model.v2).T
        x = model.x + 1.2 * (A.T @ model.y) + model.z
        return casadi.dot(model.weights, 1.5 * (A @ x))

    return loss


def casadi_softmax(model):
    import casadi

    def loss(x):
        largest = functools.reduce(casadi.fmax, casadi.horzsplit(x))
        e = casadi.exp(x - casadi.repmat(largest, 1, x.shape[1]))
        return casadi.dot(model.weights, e / casadi.repmat(casadi.sum2(e), 1, x.shape[1]))

    return loss


def casadi_mlp(model):
    import casadi

    n, h, batch = model.n, model.h, len(model.X)

    def loss(w):
        # casadi's columns are NumPy's rows, so everything is transposed
        W1, b1, W2, b2, W3 = casadi.vertsplit(w, [0, *model.cuts, w.numel()])
        a = casadi.tanh(casadi.reshape(W1, h, n) @ model.X.T + casadi.repmat(b1, 1, batch))
        b = casadi.tanh(casadi.reshape(W2, h, h) @ a + casadi.repmat(b2, 1, batch))
        return casadi.sumsqr(W3.T @ b - model.Y.T) / batch

    return loss


def casadi_mixture(model):
    import casadi

    d, k, n = model.d, model.k, model.n

    def loss(x):
        weights, means, logs, below = casadi.vertsplit(x, [0, *model.cuts, x.numel()])
        means, logs, below = (casadi.reshape(part, -1, k) for part in (means, logs, below))
        padded = casadi.vertcat(casadi.exp(logs), below, casadi.MX(1, k))
        terms = []
        for j in range(k):
            factor = casadi.reshape(padded[model.places.ravel(order="F").tolist(), j], d, d)
            scaled = factor @ (model.X.T - casadi.repmat(means[:, j], 1, n))
            terms.append(weights[j] + casadi.sum1(logs[:, j]) - 0.5 * casadi.sum1(scaled**2))
        largest = functools.reduce(casadi.fmax, terms)
        summed = sum(casadi.exp(term - largest) for term in terms)
        likelihood = casadi.sum2(largest + casadi.log(summed)) - n * casadi.logsumexp(weights)
        return model.constant + likelihood + 0.5 * (casadi.sumsqr(casadi.exp(logs)) + casadi.sumsqr(below))

    return loss


def casadi_rolled(a, k, axis):
    import casadi

    if axis:
        return casadi.horzcat(a[:, -k:], a[:, :-k])
    return casadi.vertcat(a[-k:, :], a[:-k, :])


def casadi_brusselator(model):
    """Go column by column, which is equivalent for a square."""
    import casadi

    n = model.n

    def laplacian(u):
        around = sum(casadi_rolled(u, k, axis) for axis in (0, 1) for k in (1, -1))
        return (around - 4.0 * u) * n**2

    def loss(z):
        u, v = casadi.reshape(z[: n * n], n, n), casadi.reshape(z[n * n :], n, n)
        production = u**2 * v
        du = model.A + production - (model.B + 1.0) * u + model.D * laplacian(u)
        dv = model.B * u - production + model.D * laplacian(v)
        return casadi.vertcat(casadi.vec(du), casadi.vec(dv))

    return loss


def casadi_objective(coupled):
    """Objective of the chain or of the arrow head."""

    def make(model):
        import casadi

        def loss(x):
            a, b = coupled(x), x[1:]
            return casadi.sum1((b - a**2) ** 2 + casadi.exp(-b * a))

        return loss

    return make


def casadi_bundle_adjustment(model):
    """One column per picture."""
    import casadi

    split = 9 * model.cameras

    def loss(z):
        camera = casadi.reshape(z[:split], 9, model.cameras)[:, model.camera_of.tolist()]
        point = casadi.reshape(z[split:], 3, model.points)[:, model.point_of.tolist()]
        angle = casadi.sqrt(sum(camera[k, :] ** 2 for k in range(3)))
        axis, x = [camera[k, :] / angle for k in range(3)], [point[k, :] for k in range(3)]
        sine, cosine = casadi.sin(angle), casadi.cos(angle)
        along = sum(a * b for a, b in zip(axis, x)) * (1.0 - cosine)
        p = []
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            cross = axis[i] * x[j] - axis[j] * x[i]
            p.append(x[k] * cosine + cross * sine + axis[k] * along + camera[3 + k, :])
        a, b = p[0] / p[2], p[1] / p[2]
        r2 = a**2 + b**2
        scale = camera[6, :] * (1.0 + camera[7, :] * r2 + camera[8, :] * r2**2)
        return casadi.vec(casadi.vertcat(a * scale, b * scale) - model.seen.T)

    return loss


def casadi_collocation(model):
    """One column per node."""
    import casadi

    h = model.h

    def rate(s, force):
        angle, speed, turning = s[1, :], s[2, :], s[3, :]
        sine, cosine = casadi.sin(angle), casadi.cos(angle)
        mass = 1.0 + 0.3 * sine**2
        push = (0.15 * sine * turning**2 + force + 2.943 * cosine * sine) / mass
        turn = -(0.15 * cosine * sine * turning**2 + force * cosine + 12.753 * sine) / (0.5 * mass)
        return casadi.vertcat(speed, turning, push, turn)

    def loss(z):
        nodes = casadi.reshape(z, 5, model.n + 1)
        states, force = nodes[:4, :], nodes[4, :]
        rates = rate(states, force)
        a, b, ra, rb = states[:, :-1], states[:, 1:], rates[:, :-1], rates[:, 1:]
        middle = rate(0.5 * (a + b) + h / 8.0 * (ra - rb), 0.5 * (force[:-1] + force[1:]))
        return casadi.vec(b - a - h / 6.0 * (ra + 4.0 * middle + rb))

    return loss


def casadi_diffusion_3d(model):
    """Use indices of the six neighbours of each cell; those outside refer to the last element."""
    import casadi
    import numpy

    n = model.n
    places = numpy.pad(numpy.arange(n**3).reshape(n, n, n), 1, constant_values=n**3)
    inner = slice(1, -1)

    def loss(x):
        u = casadi.vertcat(x, 0.0)
        k = 1.0 + u**2
        total = casadi.exp(-x)
        for axis in range(3):
            for step in (-1, 1):
                next = numpy.roll(places, step, axis)[inner, inner, inner].ravel().tolist()
                total = total + 0.5 * (k[next] + k[:-1]) * (u[next] - x)
        return total

    return loss


REWRITES = {
    ("casadi", "Brusselator"): casadi_brusselator,
    ("casadi", "Chained"): casadi_objective(lambda x: x[:-1]),
    ("casadi", "ArrowHead"): casadi_objective(lambda x: x[0]),
    ("casadi", "BundleAdjustment"): casadi_bundle_adjustment,
    ("casadi", "Collocation"): casadi_collocation,
    ("casadi", "Diffusion3D"): casadi_diffusion_3d,
    ("jax", "Jacobi1D"): jax_jacobi_1d,
    ("jax", "Jacobi2D"): jax_jacobi_2d,
    ("jax", "Seidel2D"): jax_seidel_2d,
    ("jax", "ReactionDiffusion"): jax_reaction_diffusion,
    ("jax", "Lorenz96"): jax_lorenz,
    ("jax", "Bodies"): jax_bodies,
    ("jax", "EnzymeFit"): jax_enzyme_fit,
    ("jax", "Root"): jax_root,
    ("torch", "Root"): torch_root,
    ("autograd", "Root"): autograd_root,
    ("casadi", "Root"): casadi_root,
    ("torch", "ReactionDiffusion"): torch_reaction_diffusion,
    ("casadi", "ReactionDiffusion"): casadi_reaction_diffusion,
    ("casadi", "Gemver"): casadi_gemver,
    ("casadi", "Softmax"): casadi_softmax,
    ("casadi", "MLP"): casadi_mlp,
    ("casadi", "Mixture"): casadi_mixture,
}
