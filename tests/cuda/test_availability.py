"""Why there is no GPU: each cause is told apart, and says what to do.  Numba and the driver are stood in for."""

import importlib
import importlib.util
import pickle
import subprocess
import sys
from types import SimpleNamespace

import pytest

import wengert as wg
from wengert.cuda import availability


class DriverError(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code

    def __str__(self):
        return f"[{self.code}] {self.args[1]}"


class LinkerError(RuntimeError):
    pass


class Devices:
    """The list of devices, which starts the driver."""

    def __init__(self, count=1, error=None):
        self.count, self.error = count, error

    def __len__(self):
        if self.error is not None:
            raise self.error
        return self.count


def numba(devices=Devices(), capability=(9, 0), launch=None, simulator=False):
    """A module in place of numba.cuda."""

    def jit(kernel):
        def run(x):
            kernel(x)
            if launch is not None:
                raise launch

        return {(1, 1): run}

    return SimpleNamespace(
        implementation="NVIDIA",
        config=SimpleNamespace(ENABLE_CUDASIM=simulator),
        gpus=devices,
        get_current_device=lambda: SimpleNamespace(compute_capability=capability),
        device_array=lambda n: [0.0] * n,
        jit=jit,
        synchronize=lambda: None,
        runtime=SimpleNamespace(get_version=lambda: (13, 4)),
        cudadrv=SimpleNamespace(driver=SimpleNamespace(get_version=lambda: (13, 0))),
    )


def at_start(text):
    return ImportError(f"Error at driver init: {text}")


NOT_FOUND = at_start("\n\nCUDA driver library cannot be found.\nEnsure that a compatible NVIDIA driver is installed")
NO_DEVICE = at_start("Call to cuInit results in CUDA_ERROR_NO_DEVICE (100)")
DISABLED = at_start("\nCUDA is disabled due to setting NUMBA_DISABLE_CUDA=1 in the environment")
BROKEN = at_start("Call to cuInit results in CUDA_ERROR_SYSTEM_NOT_READY (802)")
NEWER_PTX = DriverError(222, "Call to cuLibraryLoadData results in CUDA_ERROR_UNSUPPORTED_PTX_VERSION")
PIN = 'pip install "cuda-toolkit==13.0.*" "nvidia-nvjitlink==13.0.*", or a newer driver'

CASES = {
    "simulator": (numba(simulator=True), "simulator", "unset NUMBA_ENABLE_CUDASIM"),
    "switched off": (numba(Devices(error=DISABLED)), "switched off", "unset it"),
    "no driver": (numba(Devices(error=NOT_FOUND)), "driver library .* is missing", "--gpus all"),
    "no device": (numba(Devices(error=NO_DEVICE)), "no GPU that this process may use", "CUDA_VISIBLE_DEVICES"),
    "none listed": (numba(Devices(0)), "no GPU that this process may use", "CUDA_VISIBLE_DEVICES"),
    "broken driver": (numba(Devices(error=BROKEN)), "does not start .*802", "nvidia-smi"),
    "too old": (numba(capability=(7, 0)), "compute capability 7.0", "7.5 or higher"),
    "newer PTX": (numba(launch=NEWER_PTX), "driver is of CUDA 13.0 .* of CUDA 13.4", PIN),
    "linker": (numba(launch=LinkerError("[222] nvJitLink: unsupported")), "driver is of CUDA 13.0", PIN),
    "other": (numba(launch=DriverError(999, "unknown")), "a kernel does not run .*999", "pip install"),
}


@pytest.mark.parametrize("name", CASES)
def test_each_cause_is_told_apart_and_says_what_to_do(name):
    module, reason, fix = CASES[name]
    with pytest.raises(wg.errors.CudaUnavailable, match=reason) as caught:
        availability._check(module)
    assert fix in caught.value.fix
    assert str(caught.value) == f"{caught.value.reason}: {caught.value.fix}"


def test_nothing_is_raised_where_a_kernel_runs():
    availability._check(numba())


@pytest.mark.parametrize(
    ("installed", "reason"),
    [((), "numba-cuda is not installed"), (("numba",), "only the old numba.cuda that is built into numba")],
)
def test_the_package_is_asked_for_where_it_is_missing(installed, reason, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in installed else None)
    with pytest.raises(wg.errors.CudaUnavailable, match=reason) as caught:
        availability.numba_cuda()
    assert 'pip install "wengert[cuda]"' in caught.value.fix


def test_a_numba_cuda_that_does_not_come_first_is_told_apart(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib, "import_module", lambda name: SimpleNamespace())
    with pytest.raises(wg.errors.CudaUnavailable, match="is the old one") as caught:
        availability.numba_cuda()
    assert ".pth" in caught.value.fix


def test_a_numba_cuda_that_cannot_be_imported_says_why(monkeypatch):
    def fail(name):
        raise ImportError("NVIDIA CUDA Python bindings not found")

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(wg.errors.CudaUnavailable, match="bindings not found"):
        availability.numba_cuda()


def test_the_public_answers_agree(monkeypatch):
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
