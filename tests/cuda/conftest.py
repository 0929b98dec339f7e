"""A fake GPU, and the choice between it and the CPU."""

import os
import sys
import types

import pytest

from fake_cuda import Core, Cuda, DeviceArray, compiled, picking
from wengert.cuda import availability, device, kernels, points, toolkit


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Keep compiled test kernels out of the user's cache."""
    with pytest.MonkeyPatch.context() as changed:
        if "WENGERT_CACHE_DIR" not in os.environ:
            changed.setenv("WENGERT_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def core(monkeypatch):
    """Provide a fake cuda.core that runs the Python form of kernels."""
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
    """Provide a fake GPU."""
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
