"""Programs with data-dependent sizes: masks, gathers, stores and sorts, at small and large sizes, in both tiers."""

import copy
import gc
import itertools
import math
import pickle
import re
import zlib

import numpy as np
import pytest
from scipy import sparse
from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcodes import Op

import wengert as wg
from fuzz import damage
from helpers import at_the_end_of_memory, loops_of
from wengert.program.ir import verify
from wengert.program.ir.call import static
from wengert.program.ir.printer import name_of
from wengert.program.signature import Form, Result, Slot


def binned(n):
    def f(d, r):
        s = 0.0
        for i in range(n):
            s = s + d[(i / n <= r) & (r < (i + 1) / n)].sum() * (i + 1.0)
        return s

    return f


@pytest.mark.parametrize(("size", "n"), [(1_000, 100), (10_000, 100), (100_000, 20)])
def test_masks_of_varying_length_gather_correct_elements(size, n):
    rng = np.random.default_rng(0)
    d, r = rng.random(size), rng.random(size)
    f = binned(n)
    verify.check(wg.record(f, d, args=(r,)))
    g = wg.compile(f)
    for _ in range(3):
        assert g(d, r) == pytest.approx(f(d, r), rel=1e-12)
    assert np.array_equal(wg.grad(g)(d, r), wg.grad(f)(d, r))


def test_cache_keys_keep_arrays_compared_by_identity_alive():
    known = {static(np.full(100, k)) for k in range(50)}  # each array would reuse the address of the one before
    gc.collect()
    assert len(known) == 50


# ---- masks, gathers, stores and sorts in both tiers


def masks(x, r):
    y = np.zeros(x.size)
    y[r > 0.5] = x[r > 0.5] ** 2
    y[x > 0.3] += np.compress(r > 0.2, x)[0]
    return np.sum(y * np.where((x > 0) & (r < 0.9), x, r)) + x[np.nonzero(x > 0.1)[0]].sum()


def gathers(x, r):
    places = (r * x.size).astype(int)
    y = x[places] * x[-1 - places] + np.take(x, np.argsort(r))
    np.add.at(y, places, x)
    y[np.flatnonzero(r > 0.7) - x.size] = 0.5
    return np.sum(y * y)


def sorts(x, r):
    order = np.argsort(x)[:: 1 + x.size // 1000]
    return np.sum(np.sort(x)[::2]) + np.sum(x[order] * r[order]) + np.cumsum(x)[-1] * np.median(x)


def repeats(x, r):
    y = np.repeat(x[:50], (5 * r[:50]).astype(int))
    return np.sum(y**2) + np.sum(np.unique(x)[:3]) + np.sum(x[np.searchsorted(np.sort(r), r) % x.size] * r)


def steps(x, r):
    s = 0.0
    for i in range(12):
        s = s + np.sum(x[(12 * r).astype(int) == i] ** 2) * (i + 1)
    return s


PROGRAMS = [masks, gathers, sorts, repeats, steps]


@pytest.mark.parametrize("tier", ["vm", "llvm"])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients_equal_eager_mode_at_each_size(f, tier):
    if tier == "llvm":
        pytest.importorskip("llvmlite")
    for size in (20, 513, 40_000) if tier == "vm" else (513,):
        g = wg.compile(f, tier=tier)
        for seed in (0, 1, 0):
            rng = np.random.default_rng(seed)
            x, r = rng.uniform(-1, 1, size), rng.random(size)
            assert g(x, r) == pytest.approx(f(x, r), rel=1e-10)
            np.testing.assert_allclose(wg.grad(g)(x, r), wg.grad(f)(x, r), rtol=1e-9, atol=1e-9)


def test_index_out_of_bounds_raises_index_error_at_replay():
    f = wg.compile(lambda x, r: np.sum(x[(r * x.size).astype(int)]))
    x, r = np.linspace(0, 1, 200), np.linspace(0, 0.99, 200)
    f(x, r)
    for wrong in (1.1 * r, 2 * r, -3 * r):
        with pytest.raises(IndexError):
            f(x, wrong)
    assert f(x, r) == pytest.approx(np.sum(x[(r * 200).astype(int)]), rel=1e-13)


def test_index_array_changed_in_place_is_read_as_it_was():
    def f(x):
        places = np.arange(100)
        y = x[places]
        places[:] = places[::-1].copy()
        return np.sum(y * x[places] * np.arange(100.0))

    x = np.random.default_rng(0).random(100)
    assert wg.compile(f)(x) == pytest.approx(f(x), rel=1e-12)
    np.testing.assert_allclose(wg.grad(wg.compile(f))(x), wg.grad(f)(x), rtol=1e-12)


# ---- damaged programs


@pytest.mark.parametrize("seed", range(2))
def test_damaged_programs_raise_or_run(seed):
    found, error, last = damage.batch(seed, 0, 100)
    assert not error, f"try {last}: {error}"
    assert len(found) == 100


def test_programs_are_well_formed_in_pickles_and_between_passes():
    for program, args in damage.programs():
        loaded = pickle.loads(pickle.dumps(program))
        verify.check(loaded)
        verify.check(loaded._lowered_ir())
        loaded, expected = (re.sub("at 0x[0-9a-f]*", "", str(p(*args))) for p in (loaded, program))
        assert loaded == expected


def test_operands_read_by_a_partial_exist():
    """Operands that a partial does not read may be missing."""
    for _, opcode, count, *reads in kernel_rows():
        for side, wanted in itertools.product(range(count), [None, *range(3)]):
            code, name = Listing(), re.escape(name_of(Op.PARTIAL + 2 * opcode + side))
            values = [code.add(Op.INPUT, (np.dtype(float), (), None), k) for k in range(3)]
            operands = [v if reads[side] >> k & 1 and k != wanted else -1 for k, v in enumerate(values)]
            code.inputs = values
            code.outputs = [code.add(Op.PARTIAL + 2 * opcode + side, (np.dtype(float), (), None), *operands)]
            if wanted is None or not reads[side] >> wanted & 1:
                verify.check(code)
            else:
                with pytest.raises(verify.MalformedProgram, match=rf"\({name}\) lacks a required operand"):
                    verify.check(code)


STATES = {
    "no list": ({"_listing": None}, "_listing is a NoneType"),
    "no result": ({"_result": 3}, "_result is a int"),
    "a string for a flag": ({"_exact": "no"}, "_exact is a str"),
    "another tier": ({"_tier": "vn"}, "_tier is a str"),
    "too many arguments": ({"_floats": 7}, "fewer arguments"),
    "a missing output": ({"_result": Result(Slot(3))}, "leaf 3, but has 1"),
    "an example of another shape": ({"_example": [damage.X[1:]]}, "example values have other types"),
    "a key of other arguments": ({"_form": Form((damage.X, damage.X), {})}, "fewer inputs"),
}


@pytest.mark.parametrize("what", STATES)
def test_invalid_program_state_raises(what):
    changes, message = STATES[what]
    state = {**wg.record(damage.elementwise, damage.X).__getstate__(), **changes}
    with pytest.raises(verify.MalformedProgram, match=f"this program is damaged: .*{message}.* Record it again"):
        wg.Program.__new__(wg.Program).__setstate__(state)


def test_error_names_the_instruction_and_its_operand():
    def to(columns):
        columns[-1] = 4711
        return columns

    with pytest.raises(verify.MalformedProgram, match=r"instruction 11 \(sum\) reads v4711 before it is defined"):
        damaged(wg.record(damage.elementwise, damage.X), 1, to)


@pytest.mark.parametrize("opcode", [b"\x96", b"r"])
def test_pickle_requesting_excessive_memory_raises(opcode):
    """The checksum is valid; the pickle then states a length, or an index into the unpickler's memo."""
    unpickled, (form, _, content) = wg.record(damage.elementwise, damage.X).__reduce__()
    at = content.index(b"\x94")  # after the first object
    content = content[:at] + opcode + bytes([0, 255, 255, 63, 0, 0, 0, 0]) + content[at:]
    with pytest.raises(verify.MalformedProgram, match="damaged"):
        unpickled(form, zlib.crc32(content), content)


def test_recursive_program_raises():
    code = wg.record(damage.in_time, damage.BIG).vjp()._listing
    loop, *_ = loops_of(code)
    body = copy.copy(loop)
    body.body = code
    (call,) = [call for call in code.calls if call.compute is loop]
    call.compute = body
    with pytest.raises(verify.MalformedProgram, match="contains itself"):
        verify.check(code)


SPARSE = {
    "csr": lambda m: m.indices.__setitem__(0, 99),
    "coo": lambda m: m.coords[0].__setitem__(0, 99),
    "dia": lambda m: setattr(m, "offsets", m.offsets[1:]),
}


@pytest.mark.parametrize("format", SPARSE)
def test_sparse_matrix_with_invalid_indices_raises(format):
    matrix = sparse.csr_array(np.eye(4)).asformat(format)
    program = wg.record(lambda x: matrix @ x, np.ones(4))
    (call,) = program._listing.calls
    (found,) = [x for x in call.args if hasattr(x, "nnz")]
    verify.check(program)
    SPARSE[format](found)
    with pytest.raises(verify.MalformedProgram, match="a sparse matrix is not well-formed"):
        verify.check(program)


LOOPS = {"steps": 0, "carried": 10**6, "kept": -1, "results": (("entry", 99),), "body": None}


@pytest.mark.parametrize("word", LOOPS)
def test_damaged_loop_raises(word):
    code = wg.record(damage.in_time, damage.BIG).vjp()._listing
    loop, *_ = loops_of(code)
    (call,) = [call for call in code.calls if call.compute is loop]
    verify.check(code)
    call.compute = copy.copy(loop)
    setattr(call.compute, word, LOOPS[word])
    with pytest.raises(verify.MalformedProgram):
        verify.check(code)


def damaged(program, k, change):
    """Return the program with one part of its pickled state changed."""
    state = program.__getstate__()
    restore, parts = state["_listing"].__reduce__()
    parts = [part.copy() if isinstance(part, np.ndarray) else part for part in parts]
    parts[k] = change(parts[k])
    state["_listing"] = restore(*parts)
    made = type(program).__new__(type(program))
    made.__setstate__(state)
    return made


TYPES, ARRAYS, VIEWS, INPUTS = 5, 7, 9, 12
DAMAGE = {
    "a shape too large": (TYPES, lambda types: [*types[:2], *[(t[0], (10**15,), t[2]) for t in types[2:]]]),
    "objects": (TYPES, lambda types: [*types[:2], *[(np.dtype(object), *t[1:]) for t in types[2:]]]),
    "a negative size": (TYPES, lambda types: [*types[:2], *[(t[0], (-1,), t[2]) for t in types[2:]]]),
    "an index out of bounds": (ARRAYS, lambda arrays: [a + 10**6 if a.dtype == np.int32 else a for a in arrays]),
    "a view outside": (VIEWS, lambda views: [(offset + 4000, *rest) for offset, *rest in views]),
    "a missing input": (INPUTS, lambda inputs: [10**6]),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_view_outside_its_buffer_raises(what):
    def f(x):
        y = x[x > 0.1]
        return np.sum(y * y[0]) + np.sum(x[3:9] * x[:6])

    program = wg.record(f, np.random.default_rng(0).random(200))
    damaged(program, TYPES, lambda types: types)
    with pytest.raises(ValueError, match=r"."):
        damaged(program, *DAMAGE[what])


def test_flipped_bit_of_pickle_fails_the_checksum():
    content = bytearray(pickle.dumps(wg.record(masks, np.ones(9), args=(np.linspace(0, 1, 9),))))
    content[len(content) // 2] ^= 4
    with pytest.raises(ValueError, match=r"damaged: .* Record the program again"):
        pickle.loads(bytes(content))


# Every version passes format, checksum and content; content of another format is not read.
OF_EARLIER_FORM = b"cwengert.program.program\n_unpickled\n(V2-1a2b3c4d\nI0\nC\x07contenttR."


def test_pickle_of_earlier_format_raises():
    form = verify.form()
    expected = f"this program was saved in format 2-1a2b3c4d, but this version reads format {form}: record it again"
    with pytest.raises(ValueError, match=f"^{re.escape(expected)}$"):
        pickle.loads(OF_EARLIER_FORM)


@pytest.mark.parametrize("entry", [(), (np.zeros(1, dtype=np.int32),), None, [np.zeros(1, dtype=np.int32)] * 2])
def test_pack_of_wrong_form_raises(entry):
    program = wg.record(damage.guarded, damage.X)
    with pytest.raises(verify.MalformedProgram):
        damaged(program, 10, lambda packs: [entry for _ in packs])


@pytest.mark.parametrize("fun", [np.sum, np.max, np.min, np.sort, np.cumsum])
@pytest.mark.parametrize("shape", [(64, 8), (40, 16), (512,), (9, 7)])
def test_nothing_is_read_past_the_end_of_an_argument(shape, fun):
    x = at_the_end_of_memory(np.linspace(-1.0, 2.0, math.prod(shape)).reshape(shape))
    compiled = wg.compile(lambda x: fun(x, axis=-1) * 1.0, tier="vm")
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), fun(x, axis=-1), rtol=1e-14)
        np.testing.assert_allclose(wg.jvp(compiled)(x, x)[1], fun(x, axis=-1), rtol=1e-14)  # homogeneous
