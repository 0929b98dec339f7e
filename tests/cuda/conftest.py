"""A make-believe GPU, and the choice between it and the CPU."""

import os
import sys
import types

import pytest

from fake_cuda import Core, Cuda, DeviceArray, compiled, picking
from wengert.cuda import availability, device, kernels, points, toolkit


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Kernels that tests compile are not kept among the user's."""
    with pytest.MonkeyPatch.context() as changed:
        if "WENGERT_CACHE_DIR" not in os.environ:
            changed.setenv("WENGERT_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def core(monkeypatch):
    """A make-believe cuda.core, whose kernels are the Python form of real ones."""
    module = Core()
    binary = lambda body, cc, layouts: types.SimpleNamespace(code=compiled(body, layouts), entry="kernel")
    monkeypatch.setattr(kernels, "binary", binary)
    picked = lambda name, dtype, cc: types.SimpleNamespace(code=picking(name, dtype), entry=name)
    monkeypatch.setattr(points, "binary", picked)
    monkeypatch.setattr(device, "_POINT_KERNELS", {})
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.core", module)
    return module


@pytest.fixture
def cuda(monkeypatch, core):
    """A make-believe GPU."""
    module = Cuda()
    monkeypatch.setattr(availability, "require", lambda: None)
    monkeypatch.setattr(toolkit, "numba_cuda", lambda: module)
    yield module
    DeviceArray.kept.clear()


@pytest.fixture(params=["cpu", "cuda"])
def target(request):
    if request.param == "cpu":
        pytest.importorskip("numba", reason="numba is not installed: pip install '.[cuda]'")
    else:
        request.getfixturevalue("cuda")
    return request.param
