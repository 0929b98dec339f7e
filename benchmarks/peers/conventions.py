"""Derivatives of installed packages at kinks and other special points: `python benchmarks/peers/conventions.py`.

Prints the table of the page "Coming from other tools".
"""

import importlib
import importlib.metadata
import importlib.util
import os
import warnings

import numpy

os.environ["JAX_PLATFORMS"] = "cpu"

#: the functions, with NumPy's functions in `np`, and the points
ROWS = {
    "`abs(x)` at 0": (lambda np: np.abs, 0.0),
    "`max(x)` at a tie of two": (lambda np: np.max, [1.0, 3.0, 3.0]),
    "`clip(x, 0, 1)` at 1": (lambda np: lambda x: np.clip(x, 0.0, 1.0), 1.0),
    "`sqrt(x)` at 0": (lambda np: np.sqrt, 0.0),
    "`x**0.0` at 0": (lambda np: lambda x: x**0.0, 0.0),
    "`linalg.norm(x)` at the origin": (lambda np: np.linalg.norm, [0.0, 0.0]),
    "`hypot(x, y)` at the origin": (lambda np: lambda x: np.hypot(x[0], x[1]), [0.0, 0.0]),
    "`arctan2(y, x)` at the origin": (lambda np: lambda x: np.arctan2(x[0], x[1]), [0.0, 0.0]),
    "`std(x)` of equal numbers": (lambda np: np.std, [1.0, 1.0]),
    "`sum(where(x > 0, sqrt(x), 0))` at 0": (lambda np: lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)), [0.0, 4.0]),
    "`x**2` at the integer 3": (lambda np: lambda x: x**2, 3),
}

#: package: module of the operator, and module of NumPy's functions
PACKAGES = {"wengert": "numpy", "autograd": "autograd.numpy", "jax": "jax.numpy"}


def gradients(package):
    """Return the gradient of each row as text."""
    grad, np = importlib.import_module(package).grad, importlib.import_module(PACKAGES[package])
    for make, x in ROWS.values():
        try:
            found = grad(make(np))(numpy.array(x) if isinstance(x, list) else x)
        except Exception as error:
            yield type(error).__name__
        else:
            yield ", ".join(f"{item:g}" for item in numpy.ravel(found))


def main():
    columns = {}
    for package in PACKAGES:
        if importlib.util.find_spec(package):
            columns[f"{package} {importlib.metadata.version(package)}"] = list(gradients(package))
    print("| gradient of | " + " | ".join(columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for i, name in enumerate(ROWS):
        print(f"| {name} | " + " | ".join(texts[i] for texts in columns.values()) + " |")


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
