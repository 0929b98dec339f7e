"""If a function catches an error that only a derivative causes, the derivative raises when the function returns."""

import array
import base64
import collections
import copy
import datetime
import decimal
import fractions
import functools
import hashlib
import io
import json
import logging
import math
import pickle
import statistics
import struct
import threading
import time
import types
import warnings
import zlib
from datetime import datetime as Moment
from datetime import timedelta
from decimal import Decimal
from time import sleep

import numpy as np
import pytest
import scipy.linalg.interpolative
import scipy.optimize

import wengert as wg
from wengert.core import levels

X = np.array([0.5, 2.0])
REFUSED = (wg.TracedValueError, wg.UnsupportedFunctionError)
SAID = "the function caught an error that only traced values raise, and continued without the derivative"
plain = np.zeros(2)
# functions in it are not followed, nor are partials
UNSEEN = types.MappingProxyType({"exp": functools.partial(math.exp), "sin": functools.partial(math.sin)})


def weight(x):
    """Return exp(-x), or 1 if that fails: a silent constant in a derivative."""
    try:
        return UNSEEN["exp"](-x)
    except (TypeError, ValueError):
        return 1.0


def caught(x):
    return weight(x[0]) * np.sum(x)


def caught_in_array(x):
    return weight(x[0]) * x


class Model:
    """Third-party code whose property has a fallback."""

    def __init__(self, x):
        self.x = x

    @property
    def rate(self):
        return UNSEEN["exp"](self.x)

    @property
    def safe(self):
        try:
            return self.rate
        except Exception:
            return 1.0


def through_generator(x):
    def terms():
        for item in x:
            try:
                yield UNSEEN["sin"](item)
            except TypeError:
                yield 1.0

    return sum(terms()) * x[0]


def through_thread(x):
    found = []

    def run():
        found.append(weight(x[0]))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0] * x[1]


def through_store(x):
    try:
        plain[0] = x[0]
    except Exception:
        pass
    return plain.sum() + x.sum()


def through_compression(x):
    try:
        return scipy.linalg.interpolative.svd(np.outer(x, x), 1)[1].sum()
    except ValueError:
        return x.sum()


def through_full_output(x):
    try:
        return scipy.optimize.fmin_bfgs(lambda t: (t[0] - x[0]) ** 2, [0.0], full_output=True, disp=False)[0][0]
    except Exception:
        return x.sum()


def through_missing_rule(x):
    try:
        return np.setdiff1d(x, [1.0]).sum()
    except TypeError:
        return x.sum()


def through_attribute(x):
    try:
        return x.tobytes() and x.sum()
    except TypeError:
        return x.sum()


def through_ended_value(x):
    kept = []
    wg.grad(lambda y: kept.append(y) or y * y, 2.0)
    try:
        return x[0] * kept[0]
    except ValueError:
        return x.sum()


def through_inner_derivative(x):
    try:
        return wg.grad(weight)(x[0]) * x[1]
    except TypeError:
        return x.sum()


def in_finally(x):
    total = x.sum()
    try:
        total = total * UNSEEN["exp"](x[0])
    finally:
        return total  # noqa: B012


def in_hash(x):
    try:
        return {x[0]: 1.0}[x[0]] * x[1]
    except TypeError:
        return x[1]


FUNCTIONS = [
    caught,
    lambda x: Model(x[0]).safe * x[1],
    through_generator,
    through_thread,
    through_store,
    through_compression,
    through_full_output,
    through_missing_rule,
    through_attribute,
    through_ended_value,
    through_inner_derivative,
    in_hash,
    in_finally,
    lambda x: wg.loop(caught_in_array, x, 3).sum(),
    lambda x: wg.loop(caught_in_array, x, 30, checkpoints=3).sum(),
    lambda x: wg.checkpoint(caught_in_array)(x).sum(),
    lambda x: wg.implicit.root(lambda z: z * weight(x[0]) - 1, 0.5) * x[1],
    lambda x: wg.implicit.root(lambda z: z * weight(x[0]) - x[1], 0.5),
    lambda x: wg.implicit.fixed_point(lambda z: weight(x[0]) * np.cos(z), 0.5) * x[1],
    lambda x: wg.scipy.optimize.root(lambda z: z * weight(x[0]) - 1, [0.5]).x[0] * x[1],
    lambda x: wg.scipy.optimize.minimize(lambda z: np.sum((z - weight(x[0])) ** 2), [0.5]).x[0] * x[1],
]

MODES = {
    "grad": lambda f: wg.grad(f, X),
    "value and aux": lambda f: wg.grad(lambda x: (f(x), 1.0), X, value=True, has_aux=True),
    "container": lambda f: wg.grad(lambda tree: f(tree["x"]), {"x": X}),
    "forward": lambda f: wg.jacobian(f, X, mode="forward"),
    "reverse": lambda f: wg.jacobian(f, X, mode="reverse"),
    "shared": lambda f: wg.jacobian(f).fun(X),
    "jvp": lambda f: wg.jvp(f, X, X),
    "vjp": lambda f: wg.vjp(f, X),
    "hvp": lambda f: wg.hvp(f, X, X),
    "hessian": lambda f: wg.hessian(f, X),
    "hessian, forward": lambda f: wg.hessian(f, X, mode="forward"),
    "linearize": lambda f: wg.linearize(lambda x: np.stack([f(x), x[0]]), X),
    "nested": lambda f: wg.grad(lambda x: wg.grad(f)(x).sum(), X),
    "batch of gradients": lambda f: wg.vmap(wg.grad(f))(np.stack([X, X])),
    "recorded": lambda f: wg.record(f, X).grad()(X),
    "compiled": lambda f: wg.grad(wg.compile(f))(X),
    "sparse": lambda f: wg.jacobian(lambda x: np.stack([f(x), x[0]]), X, sparse=True),
    "watched": lambda f: under_watch(f),
}


def under_watch(f):
    with wg.detect_nan():
        return wg.grad(f, X)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_caught_error_makes_the_derivative_raise(f, mode):
    with pytest.raises((*REFUSED, wg.LevelError)):
        MODES[mode](f)


class Money(Decimal):
    """Its constructor is in C."""


class Wait(timedelta):
    pass


class Weighted(Decimal):
    """Its constructor is in Python, and may receive traced values."""

    def __new__(cls, value, weight):
        made = super().__new__(cls, value)
        made.weight = weight
        return made


#: calls of the standard library, mostly in C, that accept plain values
CALLS = {
    "memoryview": lambda x: memoryview(x)[0],
    "memoryview of a number": lambda x: memoryview(x[0]).nbytes,
    "bytes": lambda x: bytes(x)[0],
    "bytes of a number": lambda x: bytes(x[0])[0],
    "bytearray": lambda x: bytearray(x)[0],
    "bytes that are joined": lambda x: b"".join([x])[0],
    "bytes that are added": lambda x: (b"" + x[0])[0],
    "BytesIO": lambda x: io.BytesIO(x).read()[0],
    "crc32": lambda x: zlib.crc32(x),
    "sha1": lambda x: hashlib.sha1(x).digest()[0],
    "update": lambda x: hashlib.sha1().update(x) or 1.0,
    "b64encode": lambda x: base64.b64encode(x)[0],
    "unpack": lambda x: struct.unpack("dd", x)[0],
    "frombytes": lambda x: array.array("d").frombytes(x) or 1.0,
    "a buffer of ndarray": lambda x: np.ndarray(2, float, x)[0],
    "PickleBuffer": lambda x: bytes(pickle.PickleBuffer(x))[0],
    "__array_interface__": lambda x: x.__array_interface__["data"][0] and 1.0,
    "__array_struct__": lambda x: x[0].__array_struct__ and 1.0,
    "as_ctypes": lambda x: np.ctypeslib.as_ctypes(x)[0],
    "tobytes": lambda x: x.tobytes()[0],
    "Decimal": lambda x: float(Decimal(x[0])),
    "Decimal of its module": lambda x: float(decimal.Decimal(x[0])),
    "Decimal, mapped": lambda x: float(sum(map(Decimal, x))),
    "Decimal of its module, mapped": lambda x: float(sum(map(decimal.Decimal, x))),
    "from_float": lambda x: float(Decimal.from_float(x[0])),
    "from_float of the module": lambda x: float(decimal.Decimal.from_float(x[0])),
    "timedelta": lambda x: timedelta(seconds=x[0]).total_seconds(),
    "timedelta of its module": lambda x: datetime.timedelta(x[0]).total_seconds(),
    "sleep": lambda x: sleep(x[0] * 1e-9) or 1.0,
    "sleep of its module": lambda x: time.sleep(x[0] * 1e-9) or 1.0,
    "gmtime": lambda x: time.gmtime(x[0]).tm_year * 1.0,
    "fromtimestamp": lambda x: Moment.fromtimestamp(x[0]).microsecond,
    "fromtimestamp of the module": lambda x: datetime.datetime.fromtimestamp(x[0], datetime.UTC).microsecond,
    "fromtimestamp of dates": lambda x: datetime.date.fromtimestamp(x[0]).year,
    "a subclass of Decimal": lambda x: float(Money(x[0])),
    "from_float of a subclass": lambda x: float(Money.from_float(x[0])),
    "a subclass of timedelta": lambda x: Wait(x[0]).total_seconds(),
    "a subclass of timedelta, mapped": lambda x: sum(part.total_seconds() for part in map(Wait, x)),
    "timedelta times a number": lambda x: (timedelta(seconds=1) * x[0]).total_seconds(),
    "timedelta over a number": lambda x: (timedelta(seconds=1) / x[0]).total_seconds(),
    "a number times timedelta": lambda x: (x[0] * timedelta(seconds=1)).total_seconds(),
    "float.hex": lambda x: float.fromhex(float.hex(x[0])),
    "float.hex, mapped": lambda x: float.fromhex(next(map(float.hex, x))),
    "float.as_integer_ratio": lambda x: float.as_integer_ratio(x[0])[0] * 1.0,
    "complex.__abs__": lambda x: complex.__abs__(x[0] + 1j),
    "Fraction": lambda x: float(fractions.Fraction(x[0])),
    "dumps": lambda x: json.loads(json.dumps(x[0])),
    "dumps of a list": lambda x: json.loads(json.dumps([x[0], 1]))[0],
    "dumps of a dict in lines": lambda x: json.loads(json.dumps({"x": x[0]}, indent=1))["x"],
    "JSONEncoder": lambda x: json.loads(json.JSONEncoder().encode([x[0]]))[0],
    "a class of encoders": lambda x: json.loads(json.dumps(x, cls=Encoder))[0],
    "pack": lambda x: struct.unpack("d", struct.pack("d", x[0]))[0],
    "array": lambda x: array.array("d", x)[0],
    "mode": lambda x: statistics.mode(list(x)),
    "a key": lambda x: {x[0]: 1.0}[x[0]],
    "in a set": lambda x: 1.0 if x[0] in {0.5} else 2.0,
    "Counter": lambda x: collections.Counter(x).total() * 1.0,
    "pickle": lambda x: pickle.loads(pickle.dumps(x))[0],
    "hex": lambda x: float.fromhex(x[0].hex()),
    "array2string": lambda x: float(np.array2string(x, precision=17)[1:-1].split()[0]),
    "a record": lambda x: np.array([(x[0], 1)], dtype=[("a", "f8"), ("b", "i4")])["a"][0],
}
OF_CALLS = {
    **{name: MODES[name] for name in ("grad", "forward", "hessian", "hessian, forward", "recorded", "compiled")},
    "compiled gradient": lambda f: wg.compile(wg.grad(f))(X),
    "taylor": lambda f: wg.taylor(f, X, X, 1),
}


def local_class(x):
    from decimal import Decimal as D
    from decimal import getcontext

    return float(sum(D(item) for item in x)) + 0 * getcontext().prec


def local_module(x):
    import decimal as d

    return float(sum(map(d.Decimal, x)) + d.Decimal.from_float(x[0]))


def local_method(x):
    from decimal import Decimal

    def made(item):
        return [Decimal.from_float(part) for part in item]

    return float(made(x)[0])


def local_function(x):
    from time import sleep

    return sleep(x[0] * 1e-9) or 1.0


CALLS |= {f.__name__: f for f in (local_class, local_module, local_method, local_function)}


class Encoder(json.JSONEncoder):
    def default(self, o):
        return list(o) if isinstance(o, np.ndarray) else super().default(o)


def swallowing(call):
    """Return the value of a call, or a default if it fails."""

    def f(x):
        try:
            return call(x) * x[0]
        except Exception:
            return x.sum()

    return f


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("mode", OF_CALLS)
@pytest.mark.parametrize("call", CALLS)
def test_caught_error_of_library_makes_the_derivative_raise(call, mode):
    f = swallowing(CALLS[call])
    assert np.isfinite(f(X))
    with pytest.raises((wg.TracedValueError, wg.UnsupportedFunctionError), match=SAID):
        OF_CALLS[mode](f)


@pytest.mark.parametrize("call", CALLS)
def test_batch_with_library_calls_runs_element_by_element(call):
    f, points = swallowing(CALLS[call]), np.stack([X, X + 1])
    assert np.array_equal(wg.vmap(f)(points), [f(x) for x in points], equal_nan=True)


def of_constants(x):
    """Make the same calls on constants."""
    zeros, one = np.zeros(2), np.ones(2).sum() / 2
    assert bytes(zeros) == bytes(16) and memoryview(zeros)[1] == 0 and zlib.crc32(zeros)
    assert Decimal(one) == decimal.Decimal(1) == Decimal.from_float(one) and [*map(Decimal, [one])] == [1]
    assert timedelta(seconds=one) == datetime.timedelta(0, 1) and sleep(one * 1e-9) is None
    assert json.dumps([one, {"a": 1}]) == '[1.0, {"a": 1}]' and json.loads(json.dumps(one, indent=1)) == 1
    assert copy.copy(x)[0] == x[0]
    return np.sum(x**2)


def of_classes(x):
    """Classes that are replaced where they are called are unchanged everywhere else."""
    d, t = Decimal(3), datetime.timedelta(seconds=3)
    assert type(d) is Decimal is decimal.Decimal and type(t) is timedelta is datetime.timedelta
    assert isinstance(d, decimal.Decimal) and isinstance(t, (Decimal, timedelta)) and {Decimal: 1}[decimal.Decimal]

    class Pay(decimal.Decimal):
        pass

    class Pause(timedelta):
        pass

    assert type(Pay(2)) is Pay and isinstance(Pause(1), timedelta) and issubclass(Pause, datetime.timedelta)
    assert type(Money(2)) is Money and isinstance(Money("2"), Decimal) and type(Wait(1)) is Wait
    assert Moment.now() > Moment(2020, 1, 1) and isinstance(Moment.fromtimestamp(0), datetime.date)
    assert 0.5.hex() == float.hex(0.5) and [*map(float.is_integer, [1.0, 0.5])] == [True, False]
    assert np.zeros(2, dtype=float).dtype == float and float.__name__ == "float"
    assert timedelta.max is datetime.timedelta.max and datetime.datetime(2020, 1, 1).year == 2020
    with decimal.localcontext() as context:
        context.prec = 3
        assert str(decimal.Decimal(1) / 3) == "0.333"
    try:
        Decimal("no number")
    except decimal.InvalidOperation:
        pass
    match d:
        case Decimal():
            return np.sum(x**2)


def of_constructors(x):
    """A class with a constructor in Python accepts the same arguments."""
    return np.sum(x * Weighted(2, x).weight) * 1.0


def of_local_class(x):
    from decimal import Decimal

    class Money(Decimal):
        pass

    d = Decimal(3)
    assert type(d) is Decimal and isinstance(d, Decimal) and type(Money(2)) is Money
    return np.sum(x**2)


def of_local_module(x):
    import datetime
    import decimal

    d, t = decimal.Decimal(3), datetime.timedelta(1)
    assert type(d) is decimal.Decimal and isinstance(d, decimal.Decimal) and t == datetime.timedelta(hours=24)
    return np.sum(x**2)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("f", [of_constants, of_classes, of_constructors, of_local_class, of_local_module])
def test_library_calls_without_traced_values_are_unchanged(f):
    assert np.array_equal(wg.grad(f, X), 2 * X)
    assert np.array_equal(wg.jacobian(f, X, mode="forward"), 2 * X)
    assert np.array_equal(wg.grad(wg.compile(f))(X), 2 * X)
    assert np.array_equal(wg.vmap(f)(np.stack([X, X])), [np.sum(X**2)] * 2)


def test_patched_module_function_is_called(monkeypatch):
    wg.grad(lambda x: x * (time.time() > 0), 1.0)  # meets the module, whose own functions other tests need
    monkeypatch.setattr(time, "sleep", lambda s: 2 * s)
    assert wg.grad(lambda x: time.sleep(x), 1.0) == 2


@pytest.mark.parametrize("derive", [lambda f: wg.compile(f), lambda f: wg.compile(wg.grad(f))])
def test_time_sleep_prevents_compilation(derive):
    def f(x):
        time.sleep(0)
        return x * x

    with pytest.warns(wg.CompileWarning, match=r"it calls time\.sleep"):
        derive(f)(2.0)


def test_exported_buffer_accepts_no_traced_values():
    def f(x):
        made = np.zeros(2)
        with memoryview(made) as memory:
            made[0] = x[0]
            return memory[0] + x[0]

    with pytest.raises(wg.TracedValueError, match="its memory was passed to code that wengert cannot trace"):
        wg.grad(f, X)


def test_buffer_export_equals_plain_array():
    kept = []
    wg.grad(lambda x: kept.extend([x, x[0]]) or x.sum(), X)
    assert bytes(kept[0]) == X.tobytes()
    assert memoryview(kept[1])[()] == X[0]
    with pytest.raises(wg.TracedValueError):
        wg.grad(lambda x: zlib.crc32(x) * x[0], X)
    assert np.array_equal(wg.grad(lambda x: zlib.crc32(wg.stop_gradient(x)) * x[0], X), [zlib.crc32(X), 0])


def test_caught_error_makes_taylor_raise():
    with pytest.raises(wg.TracedValueError, match=SAID):
        wg.taylor(caught, X, X, 2)


def test_message_names_line_of_original_error():
    with pytest.raises(wg.TracedValueError) as error:
        wg.grad(caught, X)
    line = weight.__code__.co_firstlineno + 3
    assert str(error.value) == (
        f"grad(caught): {SAID}. Let it propagate: catch only errors that plain code raises, or try the differentiable "
        "version first. The error was: a traced value cannot become a Python "
        f"float ({__file__}:{line}): its derivative would be lost. Call float(x) or math.sin(x) by its name in the "
        "function itself, or the NumPy function np.sin(x). Use wengert.stop_gradient(x) where a constant is meant"
    )


def test_batch_with_caught_error_runs_element_by_element():
    assert np.array_equal(wg.vmap(weight)(X), [weight(x) for x in X])


@pytest.mark.filterwarnings("ignore:compile")
def test_compiled_function_without_derivatives_falls_back_to_eager():
    f = wg.compile(caught)
    for _ in range(3):
        assert f(X) == caught(X)


def test_caught_error_makes_record_raise():
    with pytest.raises(wg.TracedValueError, match=SAID):
        wg.record(caught, X)


def probes(x):
    """Operations that plain arrays reject as well, or that return without an error."""
    assert not hasattr(x, "columns")
    assert getattr(x, "units", None) is None
    try:
        hash(x)
    except TypeError:
        pass
    try:
        len(x[0])
    except TypeError:
        pass
    try:
        x @ np.ones(3)
    except ValueError:
        pass
    try:
        x.unknown  # noqa: B018
    except AttributeError:
        pass
    return np.sum(x**2)


def inner_of_constants(x):
    """An inner derivative raises for its own values, none of which are ours."""
    with pytest.raises(wg.TracedValueError):
        wg.jvp(lambda y: UNSEEN["exp"](y), 1.0, 1.0)
    return np.sum(x**2)


def logs(x):
    logger = logging.Logger("derivative")
    logger.addHandler(logging.NullHandler())
    logger.warning("%s %.3f %g", x, x[0], x[1])
    record = logging.LogRecord("derivative", logging.INFO, __file__, 1, "%s %.3f", (x, x[0]), None)
    assert record.getMessage().endswith("0.500")
    return np.sum(x**2)


RIGHT = {
    "probes": probes,
    "logging": logs,
    "passive": lambda x: np.sum(x**2) + 0 * weight(wg.stop_gradient(x[0])),
    "histogram": lambda x: np.sum(x**2) + 0 * np.histogram([1.0, 2.0], weights=x)[0].sum(),
    "sparse operators": lambda x: np.sum(x**2) + 0 * (scipy.sparse.eye_array(2, format="csr") @ x).sum(),
    "custom rule of compiled code": lambda x: np.sum(x**2) + 0 * compiled_rule(x[0]),
    "recorded solver": lambda x: np.sum(x**2) + 0 * wg.scipy.optimize.brentq(lambda z: z - x[0], 0.0, 1.0),
    "hidden values": lambda x: np.sum(x**2) + 0 * wg.implicit.root(Hidden([[x[0]]] * 3), 1.0),
    "batch that loops": lambda x: np.sum(x**2) + 0 * wg.vmap(lambda z: z if z > 1 else -z)(x).sum(),
    "compiled part": lambda x: np.sum(x**2) + 0 * compiled_part(x),
    "inner derivative that fails": lambda x: np.sum(x**2) + 0 * failing(2.0),
}


def failing(value):
    """Fall back to other means if a derivative fails, outside any other derivative."""
    with levels.outside(), levels.unnoted():
        try:
            return wg.grad(weight)(value)
        except TypeError:
            return 0.0


class Hidden:
    """Holds traced values where they are not searched for at first."""

    def __init__(self, held):
        self.held = iter([held])
        self.rows = None

    def __call__(self, z):
        self.rows = self.rows or next(self.held)
        return z * z - self.rows[0][0]


@wg.primitive(jvp=lambda t, y, x: UNSEEN["exp"](x) * float(t))
def compiled_rule(x):
    return UNSEEN["exp"](x)


@wg.compile
def compiled_part(x):
    return np.sum(np.sin(x))


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("name", RIGHT)
def test_harmless_code_raises_no_alarm(name):
    f = RIGHT[name]
    assert np.allclose(wg.grad(f, X), 2 * X)
    assert np.allclose(wg.jacobian(f, X, mode="forward"), 2 * X)


def test_caught_error_of_inner_derivative_makes_the_outer_raise():
    with pytest.raises(wg.TracedValueError, match=SAID):
        wg.grad(inner_of_constants, X)


def test_next_derivative_is_unaffected():
    with pytest.raises(wg.TracedValueError):
        wg.grad(caught, X)
    assert np.allclose(wg.grad(lambda x: np.sum(x**2), X), 2 * X)


def test_uncaught_error_propagates_unchanged():
    with pytest.raises(wg.TracedValueError, match=r"^a traced value cannot become a Python float"):
        wg.grad(lambda x: UNSEEN["exp"](x[0]), X)


def test_caught_error_takes_precedence_over_a_later_one():
    def f(x):
        try:
            return UNSEEN["exp"](x[0])
        except TypeError:
            raise RuntimeError("no value") from None

    with pytest.raises(wg.TracedValueError, match=r"^a traced value cannot become a Python float") as error:
        wg.grad(f, X)
    assert isinstance(error.value.__cause__, RuntimeError)


def test_threads_do_not_share_caught_errors():
    failed, right = [], []

    def lose():
        for _ in range(30):
            with pytest.raises(wg.TracedValueError):
                wg.grad(caught, X)
            failed.append(1)

    def keep():
        for _ in range(30):
            right.append(np.allclose(wg.grad(lambda x: np.sum(x**2), X), 2 * X))

    threads = [threading.Thread(target=target) for target in (lose, keep, lose, keep)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failed) == 60
    assert all(right)
    assert len(right) == 60


# ---- text of traced values


LABELLED = "%-5s%13.3f eV"


def helper(text):
    return float(text)


def kept(x):
    text = f"{x}"
    return float(text) * x


def kept_digits(x):
    text = f"{x:.17g}"
    return float(text) * x


READ = [
    lambda x: float(f"{x}") * x,
    lambda x: float(repr(x)) * x,
    lambda x: float(str(x)) * x,
    lambda x: eval(repr(x), {"np": np}) * x,
    lambda x: float(f"{x:.17g}") * x,
    lambda x: float("{:.16f}".format(x)) * x,  # noqa: UP032
    lambda x: float("%s" % x) * x,  # noqa: UP031
    lambda x: np.float64(str(x)) * x,
    lambda x: np.array(str(x), dtype=float) * x,
    lambda x: float(format(x, ".15e").strip()) * x,
    lambda x: float(x.__str__()) * x,
    lambda x: np.fromstring(np.array2string(np.stack([x, x]))[1:-1], sep=" ").sum() * x,
]
KEPT = [
    kept,
    kept_digits,
    lambda x: helper(str(x)) * x,
    lambda x: {"text": repr(x)} and x * x,
    lambda x: io.StringIO().write(f"{x}") * x,
    lambda x: print(x, file=io.StringIO()) or x,
]
SHOWN = [
    lambda x: print(x) or x * x,
    lambda x: print(f"{x}", repr(x), str(x), f"x={x!r}") or x * x,
    lambda x: logging.getLogger("derivative").info("%s", x) or x * x,
    lambda x: logging.getLogger("derivative").debug(f"{x}") or x * x,
    lambda x: x * x if x < 100 else raise_error(f"{x} is too large"),
    lambda x: helper(f"{x:.6g}") * 0 + x * x,
    lambda x: helper(f"{x:10.3f}") * 0 + x * x,
    lambda x: helper("%.6g" % x) * 0 + x * x,  # noqa: UP031
    lambda x: LABELLED % ("x", x) and x * x,
    lambda x: print("%(x).17g" % {"x": x}) or x * x,  # noqa: UP031
]
EXACT_BY_PERCENT = [
    lambda x: float("%.17g" % x) * x,  # noqa: UP031
    lambda x: helper("%.*f" % (17, x)) * x,  # noqa: UP031
    lambda x: helper(("%.6" + "f") % x) * x,
]
EACH = {
    "grad": lambda f: wg.grad(f, 2.0),
    "jvp": lambda f: wg.jvp(f, 2.0, 1.0)[1],
    "nested": lambda f: wg.grad(lambda x: wg.jvp(f, x, 1.0)[0], 2.0),
    "taylor": lambda f: wg.taylor(f, 2.0, 1.0, 1)[1],
}


def raise_error(text):
    raise ValueError(text)


@pytest.fixture
def told_anew():
    levels._warned.clear()


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("f", READ)
def test_float_from_text_of_traced_value_raises(f, mode):
    with pytest.raises(wg.TracedValueError, match="a number made from the text of a traced value"):
        EACH[mode](f)


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("f", KEPT)
def test_stored_text_of_traced_value_warns(f, mode, told_anew):
    with pytest.warns(wg.TextWarning, match="was converted to text at full precision"):
        EACH[mode](f)


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("f", SHOWN)
def test_printed_text_of_traced_value_does_not_warn(f, mode, capsys):
    assert EACH[mode](f) == 4


@pytest.mark.parametrize("mode", EACH)
@pytest.mark.parametrize("f", EXACT_BY_PERCENT)
def test_percent_format_that_may_keep_all_digits_raises(f, mode):
    with pytest.raises(wg.TracedValueError, match="a Python float"):
        EACH[mode](f)


def test_text_warning_is_shown_once_and_names_the_line(told_anew):
    derivative = wg.grad(kept)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        derivative(2.0)
        derivative(3.0)
    line = kept.__code__.co_firstlineno + 1
    assert [str(warning.message) for warning in told] == [
        f"grad(kept): a traced value was converted to text at full precision ({__file__}:{line}), and a number parsed "
        'from that text has no derivative: use the value itself, or show fewer digits, such as f"{x:.6g}"'
    ]
    assert told[0].lineno == line


def test_text_error_names_the_line():
    with pytest.raises(wg.TracedValueError) as error:
        wg.grad(READ[0], 2.0)
    line = READ[0].__code__.co_firstlineno
    assert str(error.value) == (
        f"a number made from the text of a traced value ({__file__}:{line}) has no derivative: use the value as it is, "
        "or wengert.stop_gradient(x) where a constant is meant"
    )


#: bodies of functions without source, and what the analysis finds in them
WITHOUT_SOURCE = {
    "return float(f'{x}') * x": "read",
    "return float(str(x).strip()) * x": "read",
    "return eval('1.0 * ' + repr(x)) * x": "read",
    "text = str(x); return x * x": "kept",
    "return dict(text=str(x)) and x * x": "kept",
    "print(x); return x * x": "shown",
    "print(f'{x} is x', end=''); return x * x": "shown",
    "assert str(x) == '2.0'; return x * x": "shown",
    "return x * x if x < 9 else float(ValueError(f'{x}'))": "shown",
}


@pytest.mark.parametrize("body", WITHOUT_SOURCE)
def test_code_without_source_is_analysed_by_bytecode(body, told_anew, capsys):
    space = {}
    exec(f"def f(x):\n    {body}\n", space)
    if WITHOUT_SOURCE[body] == "read":
        with pytest.raises(wg.TracedValueError, match="a number made from the text"):
            wg.grad(space["f"], 2.0)
    elif WITHOUT_SOURCE[body] == "kept":
        with pytest.warns(wg.TextWarning):
            wg.grad(space["f"], 2.0)
    else:
        assert wg.grad(space["f"], 2.0) == 4
