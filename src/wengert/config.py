"""Reports the installation: versions, optional packages, machine and settings, for bug reports."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Literal

from wengert.core.rebind.follow import CHOSEN
from wengert.program.codegen import disk_cache

#: distributions whose versions are reported, and what they are for
_REQUIRED = ("numpy", "scipy")
_OPTIONAL = {
    "llvmlite": "machine code",
    "numba": "functions compiled by Numba",
    "numba-cuda": "GPU kernels",
    "matplotlib": "plots",
    "graphviz": "graphs of programs",
    "tqdm": "progress bars",
    "cloudpickle": "local functions in other processes",
}
_VARIABLES = ("WENGERT_CACHE_DIR", "WENGERT_DISABLE", "WENGERT_NUM_THREADS", "WENGERT_VERIFY", "SCIPY_ARRAY_API")


def show_config(mode: Literal["stdout", "dicts"] = "stdout") -> dict[str, dict[str, str]] | None:
    """Print versions, optional packages, machine and settings, to include in a bug report.

    Parameters
    ----------
    mode : {"stdout", "dicts"}
        "stdout" prints the report, "dicts" returns it, as in `numpy.show_config`.

    Returns
    -------
    dict of dict of str, or None
        The sections "versions", "optional", "machine" and "settings", with ``mode="dicts"``.

    Raises
    ------
    ValueError
        If `mode` is neither.

    See Also
    --------
    wengert.cuda.why_not : Why GPU kernels cannot run.

    Examples
    --------
    >>> import wengert as wg
    >>> wg.show_config("dicts")["versions"]["wengert"] == wg.__version__
    True
    """
    if mode not in ("stdout", "dicts"):
        raise ValueError(f"show_config: mode is 'stdout' or 'dicts', not {mode!r}")
    found = {"versions": _versions(), "optional": _optional(), "machine": _machine(), "settings": _settings()}
    if mode == "dicts":
        return found
    width = max(len(name) for section in found.values() for name in section)
    for title, section in found.items():
        print(f"{title}:")
        for name, value in section.items():
            print(f"  {name:{width}}  {value}")
    return None


def _versions():
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    python = f"{platform.python_version()} {platform.python_implementation()}{'' if has_gil else ', free-threaded'}"
    required = {name: _version(name) or "missing" for name in _REQUIRED}
    return {"wengert": sys.modules["wengert"].__version__, "python": python, **required}


def _version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _optional():
    from wengert import cuda

    found = {name: f"{_version(name) or 'not installed'} ({use})" for name, use in _OPTIONAL.items()}
    return {**found, "GPU": cuda.why_not() or "available"}


def _machine():
    return {
        "system": platform.platform(),
        "processor": platform.processor() or platform.machine(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
    }


def _settings():
    variables = {name: os.environ.get(name, "not set") for name in _VARIABLES}
    chosen = ", ".join(f"{package}: {'yes' if on else 'no'}" for package, on in sorted(CHOSEN.items()))
    return {**variables, "cache": str(disk_cache.folder()), "followed": chosen or "by default"}
