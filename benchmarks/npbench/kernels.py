"""Kernels of a checkout of NPBench: their functions, arguments and scalar losses.

A loss is the sum of the squares of all results, each multiplied by a constant array, so that the gradients of linear
kernels depend on the point; the results of a kernel that returns nothing are the arrays into which it writes.
"""

import importlib.util
import inspect
import json
from pathlib import Path

import numpy as np

#: sizes in place of those of the preset S, for functions of a few to some tens of milliseconds
SIZES = {
    "atax": {"M": 2000, "N": 2500},
    "bicg": {"M": 2000, "N": 2500},
    "azimint_naive": {"N": 20000, "npt": 200},
    "cholesky2": {"N": 500},
    "floyd_warshall": {"N": 120},
    "gemm": {"NI": 500, "NJ": 550, "NK": 600},
    "gesummv": {"N": 1400},
    "k2mm": {"NI": 400, "NJ": 425, "NK": 450, "NL": 475},
    "k3mm": {"NI": 400, "NJ": 425, "NK": 450, "NL": 475, "NM": 500},
    "mlp": {"C_in": 3, "N": 8, "S0": 3000, "S1": 1000, "S2": 1000},
    "mvt": {"N": 2000},
    "softmax": {"N": 16, "H": 16, "SM": 64},
    "trisolv": {"N": 1000},
}
#: the argument of the timed gradient, where it is not the first array
MAIN = {"contour_integral": "Y", "gemm": "A", "symm": "A", "syr2k": "A", "syrk": "A", "scattering_self_energies": "G"}

#: relative distance of the timed points, where it is not 1e-4: these matrices are hardly positive definite
NOISE = {"cholesky": 1e-9, "cholesky2": 1e-9}


class Kernel:
    """A kernel with arguments: `values` by name, in the order of its parameters."""

    def __init__(self, root, description, sizes=None):
        self.root = Path(root)
        self.name = description["relative_path"].rpartition("/")[2]
        self.function_name = description["func_name"]
        self.folder = self.root / "npbench" / "benchmarks" / description["relative_path"]
        self.module_name, self.outputs = description["module_name"], description["output_args"]
        self.parameters = {**description["parameters"]["S"], **SIZES.get(self.name, {}), **(sizes or {})}
        self.function = getattr(self.module("numpy"), self.function_name)
        self.values = self.arguments(description)
        self.arrays = [name for name, value in self.values.items() if is_float_array(value)]
        self.main = MAIN.get(self.name, self.arrays[0] if self.arrays else None)

    def module(self, kind):
        """Import the module of the kernel for NumPy or JAX from its file, as it is."""
        path = self.folder / f"{self.module_name}_{kind}.py"
        spec = importlib.util.spec_from_file_location(f"npbench_{self.module_name}_{kind}", path)
        found = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found)
        return found

    def arguments(self, description):
        """Return the arguments by the names of the description, in the order of a call."""
        known, start = dict(self.parameters), description.get("init")
        if start:
            path = self.folder / f"{self.module_name}.py"
            spec = importlib.util.spec_from_file_location(f"npbench_{self.module_name}", path)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            made = getattr(module, start["func_name"])(*[known[name] for name in start["input_args"]])
            names = start["output_args"]
            known.update(zip(names, made if len(names) > 1 or isinstance(made, tuple) else (made,)))
        return {name: known[name] for name in description["input_args"]}

    def fresh(self):
        """Return the arguments of a call that may write into them."""
        return [np.copy(value) if isinstance(value, np.ndarray) else value for value in self.values.values()]

    def results(self):
        """Return the results of a plain call, and None or the indices of the arguments that are the results."""
        given = self.fresh()
        found = self.function(*given)
        if found is not None:
            return found if isinstance(found, tuple) else (found,), None
        indices = [
            i
            for i, (name, new, old) in enumerate(zip(self.values, given, self.values.values()))
            if is_float_array(old) and (name in self.outputs or not np.array_equal(new, old, equal_nan=True))
        ]
        return tuple(given[i] for i in indices), indices

    def loss(self, results, indices=None, function=None):
        """Return the function of the kernel's arguments whose value is the weighted sum of squared results.

        `indices` are those of the arguments that are the results, or None if the function returns them.
        """
        rng = np.random.default_rng(1)
        weights = [_weights(rng, y) for y in results]
        names = [f"x{i}" for i in range(len(self.values))]
        given = ", ".join(names)
        parts = "y" if indices is None else "(" + "".join(f"{names[i]}, " for i in indices) + ")"
        source = f"def {self.name}({given}):\n    y = kernel({given})\n    return total({parts})\n"
        space = {"kernel": function or self.function}

        def total(y):
            parts = zip(weights, y if isinstance(y, tuple) else (y,))
            return sum((w * part * part).real.sum() for w, part in parts if w is not None)

        space["total"] = total
        exec(source, space)
        return space[self.name]

    def points(self, count):
        """Return arguments at points near the given ones: all arrays of floats differ from call to call."""
        rng = np.random.default_rng(2)
        found = []
        for _ in range(count):
            given = self.fresh()
            for value in given:
                if is_float_array(value):
                    value *= 1 + NOISE.get(self.name, 1e-4) * rng.uniform(-1, 1, value.shape).astype(value.real.dtype)
            found.append(given)
        return found


def is_float_array(value):
    return isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.ndim > 0


def _weights(rng, y):
    y = np.asarray(y)
    if y.dtype.kind not in "fc":
        return None
    w = rng.uniform(0.5, 1.5, y.shape).astype(y.real.dtype)
    return w * np.exp(1j * w).astype(y.dtype) if y.dtype.kind == "c" else w


def described(root):
    """Return the descriptions of all kernels of a checkout by name."""
    found = [json.loads(path.read_text())["benchmark"] for path in sorted((Path(root) / "bench_info").glob("*.json"))]
    return {each["relative_path"].rpartition("/")[2]: each for each in found}


def jax_loss(kernel, results):
    """Return the loss of the kernel's own version for JAX, or None if there is none with these results."""
    if not (kernel.folder / f"{kernel.module_name}_jax.py").exists():
        return None
    function = getattr(kernel.module("jax"), kernel.function_name, None)
    if function is None or len(inspect.signature(function).parameters) != len(kernel.values):
        return None
    found = function(*kernel.fresh())
    found = found if isinstance(found, tuple) else (found,)
    order = [next((i for i, y in enumerate(found) if _agree(y, expected)), None) for expected in results]
    return None if None in order else kernel.loss(results, None, lambda *args: _chosen(function(*args), order))


def _chosen(y, order):
    return tuple(y[i] for i in order) if isinstance(y, tuple) else y


def _agree(y, expected):
    y, expected = np.asarray(y), np.asarray(expected)
    tolerance = 1e-3 if np.finfo(expected.dtype).eps > 1e-10 else 1e-8
    return y.shape == expected.shape and np.linalg.norm(y - expected) <= tolerance * np.linalg.norm(expected)
