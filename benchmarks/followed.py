"""First and later calls of a derivative that follows a package of 1000 functions.

    python -m benchmarks.followed

The package is generated into a folder `site-packages`.  Each function stores traced values in a new array and names
five others; `few` reaches all of them and calls one, `all` calls every function once.
"""

import importlib
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COUNT = 1000
FUNCTION = """
def fun{k}(x, calls=False):
    w = np.zeros(3)
    for i in range(3):
        w[i] = x * {k}.0 + np.sin(x)
    return w.sum() + ({callees} if calls else 0.0)
"""


def source():
    """Source of the module: function k calls functions 5 k + 1 to 5 k + 5, a tree."""
    parts = ["import numpy as np\n"]
    for k in range(COUNT):
        callees = [f"fun{j}(x, True)" for j in range(5 * k + 1, 5 * k + 6) if j < COUNT]
        parts.append(FUNCTION.format(k=k, callees=" + ".join(callees) or "0.0"))
    return "".join(parts)


def seconds(call, repeats=20):
    """Processor time of the first call, and the shortest of later ones."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return found[0], min(found[1:])


def main():
    import wengert as wg

    wg.grad(np.sin, 1.0)  # loads the package
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "site-packages")
        home.mkdir()
        sys.path.insert(0, str(home))
        for name, calls in (("few", False), ("all", True)):
            Path(home, f"generated_{name}.py").write_text(source())
            importlib.invalidate_caches()
            module = importlib.import_module(f"generated_{name}")
            first, later = seconds(lambda module=module, calls=calls: wg.grad(lambda x: module.fun0(x, calls), 2.0))
            print(f"{name:4} {1e3 * first:8.2f} ms first, {1e6 * later:9.1f} us later")


if __name__ == "__main__":
    main()
