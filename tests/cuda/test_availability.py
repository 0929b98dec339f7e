"""Reasons for a missing GPU: each cause is reported with a remedy.  Numba and the driver are faked."""

import importlib
import importlib.util
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

import wengert as wg
from fake_cuda import Cuda, DriverError
from wengert.cuda import availability, toolkit


class LinkerError(RuntimeError):
    pass


class Devices:
    """The list of devices if the driver does not start."""

    def __init__(self, error):
        self.error = error

    def __len__(self):
        raise self.error


def at_start(text):
    return ImportError(f"Error at driver init: {text}")


NOT_FOUND = at_start("\n\nCUDA driver library cannot be found.\nEnsure that a compatible NVIDIA driver is installed")
NO_DEVICE = at_start("Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)")
DISABLED = at_start("\nCUDA is disabled due to setting NUMBA_DISABLE_CUDA=1 in the environment")
BROKEN = at_start("Call to cuInit results in CUDA_ERROR_SYSTEM_NOT_READY (802)")
PIN = 'pip install "cuda-toolkit==13.0.*" "nvidia-nvjitlink==13.0.*", or a newer driver'

#: a fake numba.cuda, the error raised by launching a kernel, the reason and the remedy
CASES = {
    "simulator": (Cuda(simulator=True), None, "simulator", "unset NUMBA_ENABLE_CUDASIM"),
    "disabled": (Cuda(devices=Devices(DISABLED)), None, "is disabled", "unset it"),
    "no driver": (Cuda(devices=Devices(NOT_FOUND)), None, "driver library .* is missing", "--gpus all"),
    "no device": (Cuda(devices=Devices(NO_DEVICE)), None, "no GPU that this process may use", "CUDA_VISIBLE_DEVICES"),
    "none listed": (Cuda(devices=()), None, "no GPU that this process may use", "CUDA_VISIBLE_DEVICES"),
    "broken driver": (Cuda(devices=Devices(BROKEN)), None, "does not start .*802", "nvidia-smi"),
    "too old": (Cuda(capability=(7, 0)), None, "compute capability 7.0", "7.5 or higher"),
    "newer PTX": (Cuda(), DriverError("UNSUPPORTED_PTX_VERSION"), "CUDA 13.0 and .* CUDA 13.4 compilers", PIN),
    "driver of 12": (Cuda(driver=(12, 8)), DriverError("INVALID_IMAGE"), "supports CUDA 12.8", "wengert[cuda12]"),
    "linker": (Cuda(), LinkerError("nvJitLink: unsupported"), "driver supports CUDA 13.0", PIN),
    "other": (Cuda(), DriverError("UNKNOWN"), "a kernel does not run .*UNKNOWN", "pip install"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_reported_with_a_remedy(name, core):
    module, core.error, reason, fix = CASES[name]
    with pytest.raises(wg.errors.CudaUnavailable, match=reason) as caught:
        availability._check(module)
    assert fix in caught.value.fix
    assert str(caught.value) == f"{caught.value.reason}: {caught.value.fix}"


def test_nothing_is_raised_if_a_kernel_runs(core):
    availability._check(Cuda())
    assert core.launches == [1]


@pytest.mark.parametrize(
    ("installed", "reason"),
    [((), "numba-cuda is not installed"), (("numba",), "only the old numba.cuda that is part of numba")],
)
def test_missing_package_is_named(installed, reason, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)
    with pytest.raises(wg.errors.CudaUnavailable, match=reason) as caught:
        toolkit.numba_cuda()
    assert 'pip install "wengert[cuda]"' in caught.value.fix


def test_shadowed_numba_cuda_is_reported(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace())
    with pytest.raises(wg.errors.CudaUnavailable, match="finds the old one") as caught:
        toolkit.numba_cuda()
    assert ".pth" in caught.value.fix


def test_failed_import_of_numba_cuda_states_reason(monkeypatch):
    def fail(name):
        raise ImportError("NVIDIA CUDA Python bindings not found")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(wg.errors.CudaUnavailable, match="bindings not found"):
        toolkit.numba_cuda()


def test_is_available_and_why_not_agree(monkeypatch):
    import wengert.cuda

    for found in (None, wg.errors.CudaUnavailable("no GPU", "buy one")):
        monkeypatch.setattr(availability, "_obstacle", lambda found=found: found)
        assert wengert.cuda.is_available() == (found is None)
        assert wengert.cuda.why_not() == (None if found is None else "no GPU: buy one")
        if found is None:
            availability.require()
        else:
            with pytest.raises(wengert.cuda.CudaUnavailable, match="no GPU: buy one"):
                availability.require()


def test_the_error_survives_pickling():
    error = pickle.loads(pickle.dumps(wg.errors.CudaUnavailable("no GPU", "buy one")))
    assert (error.reason, error.fix) == ("no GPU", "buy one")


def test_numba_is_not_imported_before_it_is_needed():
    code = (
        "import sys, wengert, wengert.cuda\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('numba', 'llvmlite', 'cuda')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
