"""Models of whole applications in plain NumPy and SciPy, with references by hand, for `test_applications`."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.ndimage import zoom
from scipy.optimize import BFGS, Bounds, NonlinearConstraint, brentq, minimize
from scipy.sparse.linalg import spsolve
from scipy.spatial.transform import Rotation
from scipy.special import erfc, ndtr

import wengert as wg
from wengert.checkpointing import measure, plan
from wengert.scipy.optimize import least_squares, newton


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function = function
        self.calls = 0

    def __call__(self, *args):
        self.calls += 1
        return self.function(*args)


# ---- options: Black and Scholes (1973), doi:10.1086/260062 ---------------------------------------

GREEKS = ["delta", "gamma", "theta", "rho", "vega"]

#: rows of the first argument of `price`
SPOT, TIME, RATE, VOLATILITY = range(4)


def price(x, strike):
    """Return prices of European calls; `x` holds spot price, years to expiry, interest rate and volatility."""
    s, t, r, sigma = x
    spread = sigma * np.sqrt(t)
    d1 = (np.log(s / strike) + (r + sigma**2 / 2) * t) / spread
    d2 = d1 - spread
    return s * normal(d1) - strike * np.exp(-r * t) * normal(d2)


def normal(d):
    """Return the cumulative distribution function of the normal distribution."""
    return erfc(-d / np.sqrt(2)) / 2


def some_options(n):
    """Return the two arguments of `price` for n options."""
    rng = np.random.default_rng(1973)
    low, high = np.array([[60, 0.1, 0.0, 0.1], [140, 2.0, 0.05, 0.6]])
    return rng.uniform(low, high, (n, 4)).T.copy(), rng.uniform(80, 120, n)


def named_greeks(first, second):
    """Return the greeks from first derivatives and those of delta; theta is per year that passes."""
    return dict(zip(GREEKS, [first[SPOT], second[SPOT], -first[TIME], first[RATE], first[VOLATILITY]]))


def greeks_by_kernel(x, strike):
    """Return the greeks from the price of one option as a CUDA kernel."""
    kernel = wg.record(price, x[:, 0], args=(strike[0],)).to_cuda()
    _, first = kernel.value_and_grad(x.T, strike)
    second = kernel.hvp(x.T, np.array([1.0, 0.0, 0.0, 0.0]), strike)
    return named_greeks(first.T, second.T)


def greeks_in_closed_form(x, strike):
    """Return the greeks and their scales: the sums of term magnitudes, without the factors that make them small."""
    s, t, r, sigma = x
    root = np.sqrt(t)
    d1 = (np.log(s / strike) + (r + sigma**2 / 2) * t) / (sigma * root)
    d2 = d1 - sigma * root
    density = np.exp(-(d1**2) / 2) / np.sqrt(2 * np.pi)
    paid = strike * np.exp(-r * t)
    greeks = {
        "delta": ndtr(d1),
        "gamma": density / (s * sigma * root),
        "theta": -s * density * sigma / (2 * root) - r * paid * ndtr(d2),
        "rho": t * paid * ndtr(d2),
        "vega": s * density * root,
    }
    scales = {
        "delta": np.ones_like(s),
        "gamma": 1 / (s * sigma * root),
        "theta": s * sigma / (2 * root) + r * paid,
        "rho": t * paid,
        "vega": s * root,
    }
    return greeks, scales


def greeks_by_differences(x, strike):
    """Return the greeks from central differences, whose steps balance truncation and rounding errors."""
    first = []
    for step in np.diag([6e-6] * 4):  # cube root of the rounding unit
        h = step[:, None] * x
        first.append((price(x + h, strike) - price(x - h, strike)) / (2 * h.sum(axis=0)))
    h = np.array([[1.2e-4], [0], [0], [0]]) * x  # fourth root
    second = (price(x + h, strike) - 2 * price(x, strike) + price(x - h, strike)) / h[SPOT] ** 2
    return named_greeks(first, [second])


def errors_of_greeks(greeks, x, strike):
    """Return the maximum error of each greek over its scale."""
    exact, scales = greeks_in_closed_form(x, strike)
    return {greek: np.max(np.abs(greeks[greek] - exact[greek]) / scales[greek]) for greek in GREEKS}


# ---- Bratu's problem and its fold: Bolstad and Keller (1986), doi:10.1137/0907074 ----------------

LAMBDA = 6.0
FOLD = 6.808124423  # of the continuous problem


def bratu(u, parameter):
    """Return Laplacian + parameter * exp(u) on n x n points of the unit square, with u = 0 at its edges."""
    n = int(np.sqrt(u.size))
    p = np.zeros((n + 2, n + 2))
    p[1:-1, 1:-1] = u.reshape(n, n)
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return ((around - 4 * p[1:-1, 1:-1]) * (n + 1) ** 2 + parameter * np.exp(p[1:-1, 1:-1])).ravel()


def bratu_jacobian_by_hand(u, parameter):
    n = int(np.sqrt(u.size))
    second = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) * (n + 1) ** 2
    return (sp.kronsum(second, second) + sp.diags_array(parameter * np.exp(u))).tocsr()


def branch(z, height):
    """Return the equations for z = (u, parameter) at which u has this height at the centre."""
    u = z[:-1]
    n = int(np.sqrt(u.size))
    return np.append(bratu(u, z[-1]), u[n // 2 * (n + 1)] - height)


def newton_steps(u, jacobian, limit=20):
    """Return the solution of Bratu's problem and the maximum change of u in each step of Newton's method."""
    steps = []
    while len(steps) < limit and (not steps or steps[-1] > 1e-11):
        step = spsolve(jacobian(u, LAMBDA).tocsc(), bratu(u, LAMBDA))
        u = u - step
        steps.append(np.max(np.abs(step)))
    return u, steps


def fold_of_bratu(n, jacobian):
    """Return the parameter at the fold, where its derivative by the height of the solution is zero."""

    def on_branch(z, height):
        for _ in range(20):
            step = spsolve(jacobian(z, height).tocsc(), branch(z, height))
            z = z - step
            if np.max(np.abs(step)) < 1e-10:
                break
        return z, spsolve(jacobian(z, height).tocsc(), np.eye(1, z.size, z.size - 1)[0])[-1]

    z, slope, height = np.zeros(n * n + 1), 1.0, 0.0
    while slope > 0:  # the branch rises to the fold
        height += 0.25
        z, slope = on_branch(z, height)
    top = brentq(lambda s: on_branch(z, s)[1], height - 0.25, height, xtol=1e-8)
    return on_branch(z, top)[0][-1]


# ---- steady Brusselator: Prigogine and Lefever (1968), doi:10.1063/1.1668896 ---------------------


class Tube:
    """The Brusselator in n cells of a closed tube, with loops; the unknowns are z = (u_1 ... u_n, v_1 ... v_n)."""

    def __init__(self, n=100, length=24.0, A=2.0, B=3.6, D_u=1.0, D_v=8.0):
        self.n = n
        self.h = length / n
        self.A = A
        self.B = B
        self.D_u = D_u
        self.D_v = D_v
        self.calls = 0

    def laplacian(self, u):
        d2u = np.zeros(self.n)
        for i in range(self.n):
            if i == 0:  # no flux through the ends
                d2u[i] = (u[1] - u[0]) / self.h**2
            elif i == self.n - 1:
                d2u[i] = (u[i - 1] - u[i]) / self.h**2
            else:
                d2u[i] = (u[i - 1] - 2 * u[i] + u[i + 1]) / self.h**2
        return d2u

    def residual(self, z):
        """Return the rates of change of u and v."""
        self.calls += 1
        u, v = z[: self.n], z[self.n :]
        d2u, d2v = self.laplacian(u), self.laplacian(v)
        F = np.zeros(self.n)
        G = np.zeros(self.n)
        for i in range(self.n):
            production = u[i] ** 2 * v[i]
            F[i] = self.A - (self.B + 1) * u[i] + production + self.D_u * d2u[i]
            G[i] = self.B * u[i] - production + self.D_v * d2v[i]
        return [*F, *G]

    def jacobian_by_hand(self, z):
        u, v = z[: self.n], z[self.n :]
        diagonal = np.full(self.n, -2.0)
        diagonal[[0, -1]] = -1.0
        L = (np.diag(diagonal) + np.eye(self.n, k=1) + np.eye(self.n, k=-1)) / self.h**2
        return np.block([
            [self.D_u * L + np.diag(2 * u * v - (self.B + 1)), np.diag(u**2)],
            [np.diag(self.B - 2 * u * v), self.D_v * L - np.diag(u**2)],
        ])  # fmt: skip

    def start(self):
        """Return the uniform state, which is steady and unstable, with two superimposed waves."""
        wave = np.cos(4 * np.pi * (np.arange(self.n) + 0.5) / self.n)
        return np.concatenate([self.A + wave, self.B / self.A - 0.3 * wave])


# ---- stiff Brusselator: Hairer and Wanner (1996), section IV.10, doi:10.1007/978-3-642-05221-7 ----

A, B, D = 1.0, 3.4, 0.001


def periodic_laplacian(u):
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return (around - 4 * u) * len(u) ** 2


def square_rates(t, z):
    """Return the rates of two substances in n x n cells of a periodic square."""
    n = int(np.sqrt(z.size / 2))
    u, v = z.reshape(2, n, n)
    production = u**2 * v
    du = A + production - (B + 1) * u + D * periodic_laplacian(u)
    dv = B * u - production + D * periodic_laplacian(v)
    return np.concatenate([du.ravel(), dv.ravel()])


def square_jacobian_by_hand(z):
    u, v = z.reshape(2, -1)
    n = int(np.sqrt(u.size))
    ring = sp.diags_array([1.0, 1.0, -2.0, 1.0, 1.0], offsets=[1 - n, -1, 0, 1, n - 1], shape=(n, n)) * n**2
    diffusion = D * sp.kronsum(ring, ring)
    reaction = sp.block_array([
        [sp.diags_array(2 * u * v - (B + 1)), sp.diags_array(u**2)],
        [sp.diags_array(B - 2 * u * v), sp.diags_array(-(u**2))],
    ])  # fmt: skip
    return (sp.block_diag([diffusion, diffusion]) + reaction).tocsc()


def square_start(n):
    """Return a hill of u, and v that rises and falls towards the other corner: no symmetry between the two."""
    y, x = (np.mgrid[0:n, 0:n] + 0.5) / n
    u = 0.5 + 2 * np.sin(np.pi * y) ** 4 * np.sin(np.pi * x) ** 4
    v = 2 + np.sin(2 * np.pi * (y + 0.1)) + np.cos(2 * np.pi * x)
    return np.concatenate([u.ravel(), v.ravel()])


# ---- optimal control: Bryson, Denham and Dreyfus (1963), doi:10.2514/3.2107 ----------------------

LIMIT = 1 / 9  # of the position; the minimum effort is 4 / (9 LIMIT)


def states_and_force(z):
    """Return x, v and w as rows at the ends of intervals, and the force at ends and midpoints alternately."""
    ends = (z.size + 1) // 5
    return z[: 3 * ends].reshape(3, ends), z[3 * ends :]


def control_rates(states, a):
    return np.stack([states[1], a, a**2 / 2])


def control_equations(z):
    """Return Hermite-Simpson defects of a mass that must return with speed -1 at t = 1, and boundary conditions."""
    y, a = states_and_force(z)
    h = 1 / (y.shape[1] - 1)
    at_ends = control_rates(y, a[::2])
    left, right = at_ends[:, :-1], at_ends[:, 1:]
    middle = control_rates((y[:, :-1] + y[:, 1:]) / 2 + h / 8 * (left - right), a[1::2])
    defects = y[:, 1:] - y[:, :-1] - h / 6 * (left + 4 * middle + right)
    (x, v, w) = y
    return np.concatenate([defects.ravel(), [x[0], x[-1], v[0] - 1, v[-1] + 1, w[0]]])


def effort(z):
    return states_and_force(z)[0][2, -1]


control_jacobian = wg.jacobian(control_equations, sparse=True)
control_hessian = wg.hessian(lambda z, multipliers: multipliers @ control_equations(z), sparse=True)


def control_hessian_by_hand(z, multipliers):
    """Return the diagonal: the equations for w have h/6 times a^2 / 2 at both ends, and four times that between."""
    _, a = states_and_force(z)
    n = a.size // 2
    diagonal = np.zeros(z.size)
    of_w = multipliers[2 * n : 3 * n]
    forces = diagonal[-a.size :]
    forces[1::2] = -4 / (6 * n) * of_w
    forces[:-1:2] -= of_w / (6 * n)
    forces[2::2] -= of_w / (6 * n)
    return diagonal


def least_effort(n, limit, exact=True):
    """Return the result of `minimize`, the calls of the equations, and the derivative of the effort by the limit."""
    t = np.linspace(0, 1, n + 1)
    start = np.concatenate([limit * np.sin(np.pi * t), 1 - 2 * t, 2 * t, np.full(2 * n + 1, -2.0)])
    upper = np.full(start.size, np.inf)
    upper[1:n] = limit
    counted = Counted(control_equations)
    if exact:
        derivatives = {"jac": control_jacobian, "hess": control_hessian}
    else:
        pattern = wg.sparsity(control_equations, start)
        derivatives = {"jac": "2-point", "hess": BFGS(), "finite_diff_jac_sparsity": pattern}
    found = minimize(
        effort,
        start,
        jac=wg.grad(effort),
        hess=wg.hessian(effort, sparse=True),  # no nonzeros: the effort is one of the unknowns
        method="trust-constr",
        bounds=Bounds(-np.inf, upper),
        constraints=NonlinearConstraint(counted, 0, 0, **derivatives),
        options={"gtol": 1e-10, "xtol": 1e-12, "barrier_tol": 1e-9, "maxiter": 200},
    )
    return found, counted.calls, -found.v[1].sum()


def position_in_closed_form(t):
    """Return the solution of the continuous problem: towards the limit, at the limit, and back."""
    return LIMIT * (1 - np.maximum(0, 1 - np.minimum(t, 1 - t) / (3 * LIMIT)) ** 3)


# ---- bundle adjustment: Triggs et al. (2000), doi:10.1007/3-540-44480-7_21 -----------------------

NOISE = 0.5  # standard deviation of picture coordinates, in pixels
OF_CAMERA = 9  # rotation vector, translation, focal length, two coefficients of distortion
GAUGE = 7  # undetermined by the pictures: position, attitude and size of the scene


def rotated(x, vectors):
    """Rotate each row of x by a nonzero rotation vector, by Rodrigues' formula."""
    angle = np.sqrt(np.sum(vectors**2, axis=1, keepdims=True))
    axis = vectors / angle
    along = np.sum(axis * x, axis=1, keepdims=True)
    return x * np.cos(angle) + np.cross(axis, x) * np.sin(angle) + axis * along * (1 - np.cos(angle))


def projected(cameras, points):
    """Return pixels, one row for each row of cameras and points."""
    p = rotated(points, cameras[:, :3]) + cameras[:, 3:6]
    xy = p[:, :2] / p[:, 2:]
    r2 = np.sum(xy**2, axis=1)
    return xy * (cameras[:, 6] * (1 + cameras[:, 7] * r2 + cameras[:, 8] * r2**2))[:, None]


class Scene:
    """Cameras in a ring around a cloud of points, and their pictures."""

    def __init__(self, cameras, points, share=0.4, seed=1999):
        rng = np.random.default_rng(seed)
        self.cameras = cameras
        truth = np.zeros((cameras, OF_CAMERA))
        around = 2 * np.pi * np.arange(cameras) / cameras + 0.1
        truth[:, :3] = Rotation.from_euler("yx", np.c_[around, rng.uniform(0.1, 0.4, cameras)]).as_rotvec()
        truth[:, 3:6] = [0, 0, 6]  # the cloud is in front of each camera, at this distance
        truth[:, 3:6] += 0.1 * rng.standard_normal((cameras, 3))
        truth[:, 6:] = [800, -0.2, 0.05]
        cloud = rng.uniform(-1.5, 1.5, (points, 3))
        seen = rng.uniform(size=(cameras, points)) < share
        seen[:4] |= ~seen.any(axis=0)  # no point without a picture
        self.camera_of, self.point_of = np.nonzero(seen)
        self.pixels = projected(truth[self.camera_of], cloud[self.point_of])
        self.pixels = self.pixels + NOISE * rng.standard_normal(self.pixels.shape)
        off = np.array([0.02] * 3 + [0.1] * 3 + [20, 0, 0]) * rng.standard_normal((cameras, OF_CAMERA))
        cloud = cloud + 0.1 * rng.standard_normal((points, 3))
        truth[:, 7:] = 0
        self.start = np.concatenate([(truth + off).ravel(), cloud.ravel()])

    def residuals(self, z):
        cameras = z[: OF_CAMERA * self.cameras].reshape(-1, OF_CAMERA)
        points = z[OF_CAMERA * self.cameras :].reshape(-1, 3)
        return (projected(cameras[self.camera_of], points[self.point_of]) - self.pixels).ravel()

    def growth(self, z):
        """Return the direction of growth: all positions of cameras and points scaled by one factor."""
        direction = z.copy()
        cameras = direction[: OF_CAMERA * self.cameras].reshape(-1, OF_CAMERA)
        cameras[:, :3] = cameras[:, 6:] = 0
        return direction


# ---- assimilation: Talagrand and Courtier (1987), doi:10.1002/qj.49711347812 ---------------------

SPACING = 8  # distance between sensors, in cells


class Plate:
    """A substance that diffuses on a square plate with edges held at 0, and reacts."""

    def __init__(self, cells, steps, duration=0.2, D=0.02, r=4.0):
        self.cells = cells
        self.steps = steps
        self.dt = duration / steps
        self.D = D * cells**2
        self.r = r
        self.runs = 0

    def step(self, u):
        """Return the state after a time step of forward Euler."""
        self.runs += 1
        p = np.zeros((self.cells + 2, self.cells + 2))
        p[1:-1, 1:-1] = u
        laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
        return u + self.dt * (self.D * laplacian + self.r * u * (1 - u))

    def truth(self):
        """Return a state of four spots with height, position and squared width."""
        y, x = np.mgrid[0 : self.cells, 0 : self.cells] / self.cells
        spots = [(0.8, 0.30, 0.35, 0.012), (0.6, 0.72, 0.30, 0.010), (0.7, 0.50, 0.72, 0.010), (0.5, 0.68, 0.77, 0.008)]
        return sum(height * np.exp(-((x - a) ** 2 + (y - b) ** 2) / width) for height, a, b, width in spots)


class Assimilation:
    """Noisy readings of sensors in every eighth cell, and the misfit of an initial state."""

    noise = 0.002
    weight = 0.3
    readings = 20

    def __init__(self, plate, schedule):
        self.plate = plate
        self.schedule = schedule
        self.every = plate.steps // self.readings
        history = self.read(plate.truth())
        self.measured = history + self.noise * np.random.default_rng(7).standard_normal(history.shape)

    @staticmethod
    def sensors(u):
        return u[SPACING // 2 :: SPACING, SPACING // 2 :: SPACING]

    def read(self, u0):
        """Return the sensor readings without noise."""
        _, history = wg.loop(self.plate.step, u0, self.plate.steps, checkpoints=self.schedule, collect=self.sensors)
        return history[self.every - 1 :: self.every]

    def cost(self, u0):
        misfit = (self.read(u0) - self.measured) / self.noise
        slopes = [np.sum((u0[1:] - u0[:-1]) ** 2), np.sum((u0[:, 1:] - u0[:, :-1]) ** 2)]
        return 0.5 * np.sum(misfit**2) + 0.5 * self.weight / self.noise * sum(slopes)

    def background(self):
        """Return a smooth surface through the first readings: an estimate without the model."""
        return zoom(self.measured[0], SPACING, order=1, mode="nearest", grid_mode=True)


def assimilated(cells=64, steps=100, memory=4_000_000):
    """Return the plate, its assimilation with a planned schedule, and the sizes of a step."""
    plate = Plate(cells, steps)
    sizes = measure(plate.step, plate.truth())
    return plate, Assimilation(plate, plan(steps, memory=memory, **sizes)), sizes


# ---- orbit of an eccentric planet: Naef et al. (2001), HD 80606 b, A&A 375, L27 ------------------

ORBIT = np.array([111.436, 55.2, 0.933, np.radians(300.6), 472.0, 3.8])
ORBIT_START = np.array([111.3, 54.5, 0.90, np.radians(290.0), 430.0, 0.0])


def kepler(E, e, M):
    return E - e * np.sin(E) - M


def mean_anomaly(elements, t):
    M = 2 * np.pi * (t - elements[1]) / elements[0]
    return M - 2 * np.pi * np.round(M / (2 * np.pi))


def velocity(elements, t):
    """Return radial velocities at the times t."""
    _, _, e, omega, K, gamma = elements
    M = mean_anomaly(elements, t)
    E = newton(kepler, np.pi * np.sign(M), args=(e, M))  # Newton's method converges from this start for every e and M
    r = 1 - e * np.cos(E)
    cos_nu, sin_nu = (np.cos(E) - e) / r, np.sqrt(1 - e**2) * np.sin(E) / r
    return gamma + K * (np.cos(omega) * (cos_nu + e) - np.sin(omega) * sin_nu)


def observe():
    """Return times, velocities and their standard errors, with more observations around one periastron."""
    random = np.random.default_rng(80606)
    seasons = [365.25 * year + random.uniform(0, 200, 9) for year in range(6)]
    campaign = ORBIT[1] + 5 * ORBIT[0] + random.uniform(-2.0, 2.0, 16)
    t = np.sort(np.concatenate([*seasons, campaign]))
    error = random.uniform(3.0, 8.0, t.size)
    return t, velocity(ORBIT, t) + error * random.standard_normal(t.size), error


def orbit_residuals(elements, t, v, error):
    return (velocity(elements, t) - v) / error


def fit_orbit(v, t, error, start=ORBIT_START):
    """Return the elements that best fit the velocities v."""
    options = {"x_scale": "jac", "xtol": 1e-14, "ftol": 1e-14, "gtol": 1e-12}
    return least_squares(orbit_residuals, start, args=(t, v, error), **options).x


def orbit_jacobian_by_hand(elements, t):
    """Return derivatives of the velocities by textbook formulas, with E found by bisection."""
    P, tau, e, omega, K, _ = elements
    M = mean_anomaly(elements, t)
    low, high = np.full(t.size, -np.pi), np.full(t.size, np.pi)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = kepler(middle, e, M) < 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    E = (low + high) / 2
    E -= kepler(E, e, M) / (1 - e * np.cos(E))
    r, root = 1 - e * np.cos(E), np.sqrt(1 - e**2)
    cos_nu, sin_nu = (np.cos(E) - e) / r, root * np.sin(E) / r
    slope = -K * (np.cos(omega) * sin_nu + np.sin(omega) * (cos_nu))  # dv/dnu
    nu_of_M, nu_of_e = root / r**2, sin_nu * (2 + e * cos_nu) / (1 - e**2)
    M_of_t = 2 * np.pi / P
    return np.stack([
        -slope * nu_of_M * M_of_t * (t - tau) / P,
        -slope * nu_of_M * M_of_t,
        slope * nu_of_e + K * np.cos(omega),
        -K * (np.sin(omega) * (cos_nu + e) + np.cos(omega) * sin_nu),
        np.cos(omega) * (cos_nu + e) - np.sin(omega) * sin_nu,
        np.ones(t.size),
    ], axis=1)  # fmt: skip
