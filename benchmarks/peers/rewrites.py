"""Functions of `workloads`, `equations` and `unseen` that a package cannot take as they are written, written for it.

Each takes the object whose method `loss` it stands for, and computes the same of x; its package is imported when
it is called.  What is not here runs unchanged, or fails.
"""

import functools


def jax_steps(relaxed, inner):
    """Two arrays that overwrite each other's inner part in turn."""

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
    """Each row from the one above, which is new, by a scan along it."""
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
    """A step of `ReactionDiffusion`: u is c with zeros around it."""
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return c + 0.1 * (around - 4.0 * c) + 0.01 * (c - c * c * c)


def jax_reaction_diffusion(model, inner=50):
    """Of each `inner` steps only the first state is kept for the way back."""
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
    """Newton's method, which is not followed: jax is told what is solved."""
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
    """Newton's method, followed."""
    import torch

    def solution(p):
        x = -torch.ones(model.n)
        for _ in range(steps):
            x = x - torch.linalg.solve(torch.func.jacfwd(model.residual)(x, p), model.residual(x, p))
        return x

    return solution


def autograd_root(model):
    """The root by SciPy from plain numbers, then a step of Newton's method, which has the derivative of the root."""
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
    """casadi's own solver, whose derivative it knows."""
    import casadi
    import numpy as np

    n = model.n
    x, p = casadi.SX.sym("x", n), casadi.SX.sym("p", 3)
    left, right = casadi.vertcat(0, x[:-1]), casadi.vertcat(x[1:], 0)
    residual = (3.0 + p[0] - 2.0 * p[1] * x) * x - left - 2.0 * right + p[2]
    solver = casadi.rootfinder("root", "newton", {"x": x, "p": p, "g": residual}, {"abstol": 1e-12})
    return lambda p: solver(-np.ones(n), p)


def torch_reaction_diffusion(model):
    """Without stores: they overwrite what the backward pass needs."""
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
        # casadi's columns are NumPy's rows: all of it transposed
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


REWRITES = {
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
