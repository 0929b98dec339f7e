"""``scipy.signal`` with functions that accept traced values.

Most functions are SciPy's Python code with rules in place of the compiled functions.
"""

import importlib as _importlib
import inspect as _inspect

from wengert import registry as _registry
from wengert.rules.scipy import signal as _rules
from wengert.scipy import copies, fft, linalg, namespace, ndimage, objects  # noqa: F401  (copies of signal use their rules)

_signal = _rules.signal
_registry.by_formula(_signal.lfilter, _rules._lfilter, on_complex=True)
_registry.by_formula(_signal.sosfilt, _rules._sosfilt, on_complex=True)
_registry.by_formula(_signal.upfirdn, _rules._upfirdn, on_complex=True)
_registry.composed(_signal.find_peaks, _rules._find_peaks)
_registry.by_formula(_signal.peak_prominences, _rules._peak_prominences)
_registry.by_formula(_signal.peak_widths, _rules._peak_widths)
_registry.by_formula(_signal.unique_roots, _rules.unique_roots)


def _declare(module):
    """Declare the public functions of a SciPy module by those of its second copy, which is made at the first call."""
    original = _importlib.import_module(module)
    proxies = _rules.Functions(module)
    for name in namespace.public_names(original):
        value = getattr(original, name)
        if isinstance(value, type) or not callable(value):
            continue
        proxy = getattr(proxies, name)
        if proxy in _registry.rows:
            continue
        is_copied = copies.is_planned(_inspect.unwrap(value).__module__)
        if name in _rules.REFUSED:
            _registry.refuse(proxy, _rules.REFUSED[name])
        elif name in _rules.CONSTANT:
            _registry.constant(proxy)
        elif is_copied:
            _registry.by_formula(proxy, copies.followed(value), on_complex=True)


_compiled = {"_sigtools": _rules.Compiled}
copies.copy_later("scipy.signal.windows._windows")
_declare("scipy.signal.windows")
_own = {"lfilter": _signal.lfilter, "sosfilt": _signal.sosfilt, "unique_roots": _rules.unique_roots}
for _name in (
    "_arraytools _czt _filter_design _lti_conversion _ltisys _polyutils _savitzky_golay _short_time_fft _spectral_py "
    "_spline_filters _waveforms"
).split():
    copies.copy_later(f"scipy.signal.{_name}")
copies.copy_later("scipy.signal._fir_filter_design", **_compiled)
copies.copy_later("scipy.signal._signaltools", **_compiled, **_own)
_declare("scipy.signal")
lti, dlti, StateSpace, TransferFunction, ZerosPolesGain, ShortTimeFFT = (
    copies.LazyClass(getattr(_importlib.import_module("scipy.signal"), name))
    for name in "lti dlti StateSpace TransferFunction ZerosPolesGain ShortTimeFFT".split()
)
objects.register_objects(
    "scipy.signal._short_time_fft.ShortTimeFFT",
    *(
        f"scipy.signal._ltisys.{kind}{time}"
        for kind in ("StateSpace", "TransferFunction", "ZerosPolesGain")
        for time in ("Continuous", "Discrete")
    ),
)

#: chirp z-transforms with plain parameters; `czt` and `zoom_fft` create and call them
_PLAIN = frozenset(("BadCoefficients", "CZT", "ZoomFFT"))

from wengert.scipy.signal import windows  # noqa: E402, F401

namespace.install("signal")
