"""Write the inventories of NumPy and SciPy that the site links to: ``python docs/_inventories/make.py``.

They hold only the names below, so that a build needs no network.  Both projects have one page per function, with the
function's name in its address.
"""

import zlib
from pathlib import Path

FUNCTIONS = {
    "numpy": """
        numpy.angle numpy.apply_along_axis numpy.apply_over_axes numpy.arctan2 numpy.argmax numpy.clip
        numpy.cross numpy.errstate numpy.expm1 numpy.fft.fft numpy.fromiter numpy.frompyfunc numpy.heaviside
        numpy.hypot numpy.interp numpy.linalg.cholesky numpy.linalg.eig numpy.linalg.eigh
        numpy.linalg.eigvals numpy.linalg.eigvalsh numpy.linalg.lstsq numpy.linalg.norm numpy.linalg.pinv
        numpy.linalg.qr numpy.linalg.solve numpy.linalg.svd numpy.linalg.svdvals numpy.load numpy.log1p
        numpy.logaddexp numpy.may_share_memory numpy.maximum numpy.median numpy.minimum numpy.ndenumerate
        numpy.piecewise numpy.polynomial.legendre.leggauss numpy.remainder numpy.sort numpy.stack numpy.std
        numpy.vdot numpy.where
    """,
    "scipy": """
        scipy.differentiate.derivative scipy.differentiate.hessian scipy.differentiate.jacobian
        scipy.fft.fft scipy.integrate.cubature scipy.integrate.dblquad scipy.integrate.nquad
        scipy.integrate.odeint scipy.integrate.quad scipy.integrate.quad_vec scipy.integrate.solve_bvp
        scipy.integrate.solve_ivp scipy.integrate.tanhsinh scipy.integrate.tplquad
        scipy.interpolate.griddata scipy.interpolate.interpn scipy.interpolate.splrep scipy.linalg.expm
        scipy.linalg.solve scipy.linalg.solve_banded scipy.optimize.approx_fprime
        scipy.optimize.basinhopping scipy.optimize.bisect scipy.optimize.brenth scipy.optimize.brentq
        scipy.optimize.brute scipy.optimize.curve_fit scipy.optimize.differential_evolution
        scipy.optimize.direct scipy.optimize.dual_annealing scipy.optimize.fmin scipy.optimize.fsolve
        scipy.optimize.isotonic_regression scipy.optimize.least_squares scipy.optimize.leastsq
        scipy.optimize.linear_sum_assignment scipy.optimize.linprog scipy.optimize.lsq_linear
        scipy.optimize.milp scipy.optimize.minimize scipy.optimize.minimize_scalar scipy.optimize.newton
        scipy.optimize.nnls scipy.optimize.quadratic_assignment scipy.optimize.root
        scipy.optimize.root_scalar scipy.optimize.shgo scipy.sparse.diags_array scipy.sparse.eye_array
        scipy.sparse.linalg.cg scipy.sparse.linalg.eigsh scipy.sparse.linalg.gmres scipy.sparse.linalg.lsmr
        scipy.sparse.linalg.lsqr scipy.sparse.linalg.splu scipy.sparse.linalg.spsolve
        scipy.sparse.linalg.svds scipy.special.betainc scipy.special.cosm1 scipy.special.entr
        scipy.special.erf scipy.special.expit scipy.special.gammainc scipy.special.lambertw
        scipy.special.log_softmax scipy.special.logsumexp scipy.special.xlogy scipy.stats.zscore
    """,
}
CLASSES = {
    "numpy": ["numpy.memmap", "numpy.ndarray", "numpy.nditer", "numpy.vectorize"],
    "scipy": """
        scipy.integrate.BDF scipy.integrate.DOP853 scipy.integrate.LSODA scipy.integrate.RK23 scipy.integrate.RK45
        scipy.integrate.Radau scipy.interpolate.BSpline scipy.interpolate.CubicSpline scipy.optimize.Bounds
        scipy.optimize.LinearConstraint scipy.optimize.NonlinearConstraint scipy.sparse.csr_array
        scipy.sparse.linalg.LinearOperator
    """.split(),
}
EXCEPTIONS = {"numpy": ["numpy.linalg.LinAlgError"], "scipy": []}


def inventory(project):
    kinds = {"function": FUNCTIONS[project].split(), "class": CLASSES[project], "exception": EXCEPTIONS[project]}
    lines = [
        f"{name} py:{kind} 1 reference/generated/{name}.html#{name} -"
        for kind, names in kinds.items()
        for name in names
    ]
    header = f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
    header += "# The remainder of this file is compressed using zlib.\n"
    return header.encode() + zlib.compress("".join(f"{line}\n" for line in sorted(lines)).encode())


if __name__ == "__main__":
    for project in FUNCTIONS:
        (Path(__file__).parent / f"{project}.inv").write_bytes(inventory(project))
