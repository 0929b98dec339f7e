"""SciPy's solvers with exact derivatives supplied, and derivatives of their solutions."""

import numpy as np
import scipy.integrate
import scipy.optimize

import wengert as wg
from benchmarks import measure, sparse, workloads
from wengert.scipy import optimize


class Calls:
    """Number of calls of the user's function: exact derivatives against SciPy's differences."""

    params = [["broyden tridiagonal, n=500", "rosenbrock by BFGS, n=100"]]
    param_names = ["problem"]

    def setup(self, problem):
        self.calls = 0
        if problem.startswith("broyden"):
            self.solve = lambda module: module.root(self.broyden, np.full(500, -1.0))
        else:
            self.solve = lambda module: module.minimize(self.rosenbrock, np.tile([-1.2, 1.0], 50), method="BFGS")
        if not self.solve(optimize).success:
            raise AssertionError("not converged")

    def broyden(self, x):
        self.calls += 1
        F = (3 - 2 * x) * x + 1
        F[1:] -= x[:-1]
        F[:-1] -= 2 * x[1:]
        return F

    def rosenbrock(self, x):
        self.calls += 1
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def count(self, module):
        self.calls = 0
        self.solve(module)
        return self.calls

    def track_exact(self, problem):
        return self.count(optimize)

    def track_scipy(self, problem):
        return self.count(scipy.optimize)

    track_exact.unit = track_scipy.unit = "calls of f"

    def track_time(self, problem):
        pair = measure.alternate(lambda: self.solve(scipy.optimize), lambda: self.solve(optimize), pairs=3)
        return pair.ratio

    track_time.unit = "time with exact derivatives / without"


class SparseJacobians:
    """SciPy's solvers with an exact sparse Jacobian, and with differences on the same pattern."""

    params = [["solve_ivp, Brusselator", "least_squares, bundle adjustment"]]
    param_names = ["problem"]
    timeout = 120

    def setup(self, problem):
        self.calls = 0
        if problem.startswith("solve_ivp"):
            self.model = sparse.Brusselator(22)
            self.jacobian = wg.jacobian(lambda t, z: self.model.loss(z), argnums=1, sparse=True, format="csc")
            self.solve = self.integrate
        else:
            self.model = sparse.BundleAdjustment(20, 500, 4000)
            self.jacobian = wg.jacobian(self.model.loss, sparse=True)
            self.solve = self.fit
        self.solve(jac=self.jacobian)

    def counted(self, z):
        self.calls += 1
        return self.model.loss(z)

    def integrate(self, **options):
        tolerances = {"rtol": 1e-5, "atol": 1e-7}
        rates = lambda t, z: self.counted(z)
        return scipy.integrate.solve_ivp(rates, (0.0, 6.0), self.model.start, "BDF", **tolerances, **options)

    def fit(self, **options):
        settings = {"x_scale": "jac", "tr_solver": "lsmr", "max_nfev": 10}
        return scipy.optimize.least_squares(self.counted, self.model.start, **settings, **options)

    def count(self, **options):
        self.calls = 0
        self.solve(**options)
        return self.calls

    def track_exact(self, problem):
        return self.count(jac=self.jacobian)

    def track_scipy(self, problem):
        return self.count(jac_sparsity=self.model.pattern())

    track_exact.unit = track_scipy.unit = "calls of f"

    def track_time(self, problem):
        pattern = self.model.pattern()
        return measure.alternate(
            lambda: self.solve(jac_sparsity=pattern), lambda: self.solve(jac=self.jacobian), pairs=3
        ).ratio

    track_time.unit = "time with exact derivatives / without"


class Solutions:
    """Time of the gradient of a solution, relative to the time of the solution."""

    params = [["brentq", "newton, 1000 equations", "root, n=20", "minimize, n=20"]]
    param_names = ["solver"]

    def setup(self, solver):
        n = 20
        self.p = np.linspace(1.0, 2.0, 1000 if "1000" in solver else n)
        matrix = np.eye(n) + 0.1 * np.cos(np.arange(n * n)).reshape(n, n)
        self.solution, slope = {
            "brentq": (
                lambda p: optimize.brentq(lambda x: x**3 - p[3], 0.0, 3.0),
                lambda p: np.where(np.arange(n) == 3, 1 / (3 * p[3] ** (2 / 3)), 0.0),
            ),
            "newton, 1000 equations": (
                lambda p: optimize.newton(lambda x, p: x**3 - p, np.ones(1000), args=(p,)).sum(),
                lambda p: 1 / (3 * p ** (2 / 3)),
            ),
            "root, n=20": (
                lambda p: optimize.root(lambda x: matrix @ x + 0.1 * x**3 - p, np.zeros(n)).x.sum(),
                lambda p: np.linalg.solve(matrix.T + np.diag(0.3 * root_of(matrix, p) ** 2), np.ones(n)),
            ),
            "minimize, n=20": (
                lambda p: optimize.minimize(lambda x: 0.5 * x @ x + np.sum(np.cosh(x) - x * p), np.zeros(n)).x.sum(),
                lambda p: 1 / (1 + np.cosh(stationary(p))),
            ),
        }[solver]
        self.gradient = wg.grad(self.solution)
        workloads.check(self.gradient(self.p), slope(self.p), rtol=1e-6)

    def time_gradient(self, solver):
        self.gradient(self.p)

    def track_ratio(self, solver):
        return measure.alternate(lambda: self.solution(self.p), lambda: self.gradient(self.p)).ratio

    track_ratio.unit = "gradient / solution"


def root_of(matrix, p):
    x = np.zeros(p.size)
    for _ in range(50):
        x -= np.linalg.solve(matrix + np.diag(0.3 * x**2), matrix @ x + 0.1 * x**3 - p)
    return x


def stationary(p):
    x = np.zeros(p.size)
    for _ in range(50):
        x -= (x + np.sinh(x) - p) / (1 + np.cosh(x))
    return x
