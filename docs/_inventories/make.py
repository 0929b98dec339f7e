"""Write the inventories of NumPy and SciPy that the site links to: ``python docs/_inventories/make.py``.

They hold only the names below, so that a build needs no network.  Both projects have one page per function, with the
function's name in its address.
"""

import zlib
from pathlib import Path

FUNCTIONS = {
    "numpy": """
        numpy.errstate numpy.frompyfunc numpy.linalg.norm numpy.linalg.solve numpy.logaddexp numpy.where
    """,
    "scipy": """
        scipy.differentiate.jacobian scipy.integrate.quad scipy.integrate.solve_bvp scipy.integrate.solve_ivp
        scipy.linalg.expm scipy.optimize.approx_fprime scipy.optimize.curve_fit scipy.optimize.fsolve
        scipy.optimize.least_squares scipy.optimize.minimize scipy.optimize.root scipy.optimize.root_scalar
        scipy.special.logsumexp scipy.special.log_softmax scipy.special.expit
    """,
}
CLASSES = {"numpy": ["numpy.ndarray"], "scipy": ["scipy.sparse.csr_array", "scipy.sparse.linalg.LinearOperator"]}
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
