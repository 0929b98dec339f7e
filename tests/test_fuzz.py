"""Run a few hundred programs of the fuzzer, and check that its tables are complete."""

import numpy as np
import pytest

import wengert as wg
from fuzz import objects, programs, sizes, table, twins
from fuzz.check import Failure, check
from helpers import central_differences


@pytest.mark.parametrize("part", range(2))
@pytest.mark.filterwarnings("ignore")
def test_derivatives_of_random_programs_agree_in_every_mode(part):
    failures, compared = [], 0
    for index in range(80 * part, 80 * part + 80):
        program = programs.draw(2026, index)
        try:
            compared += not check(program, second=index % 10 == 0, replay=index % 5 == 0).skipped
        except Failure as failure:
            failures.append(f"program {index}: {failure}\n{program.text()}")
    assert not failures, "\n\n".join(failures)
    assert compared > 60


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
def test_compiled_functions_see_changes_of_objects(seed):
    rng = np.random.default_rng(seed)
    tree, x = objects.draw(rng, 3), np.array([1.3, 0.7])
    f = tree.value if seed % 2 else lambda x: tree.value(x)
    value, gradient = wg.compile(f), wg.grad(wg.compile(f))
    for _ in range(8):
        for _ in range(rng.integers(1, 4)):
            np.testing.assert_allclose(value(x), f(x), rtol=1e-12)
            np.testing.assert_allclose(gradient(x), central_differences(f, x), rtol=1e-5, atol=1e-7)
        objects.change(rng, tree)


def test_every_rule_with_a_derivative_is_drawn():
    assert not table.rows_to_draw() - set(table.ROWS)


def test_failing_program_shrinks_to_relevant_statements():
    drawn = next(p for p in (programs.draw(1, i) for i in range(100)) if len(p.statements) > 12)
    wanted = drawn.statements[3].text
    shrunk = programs.shrunk(drawn, lambda p: wanted in p.source())
    assert wanted in shrunk.source()
    assert len(shrunk.statements) < len(drawn.statements)
    with np.errstate(all="ignore"):
        assert np.all(np.isfinite(shrunk.f(shrunk.x.copy())))


def test_comparison_finds_a_wrong_derivative(monkeypatch):
    right = twins.numpy.sin
    monkeypatch.setattr(twins.numpy, "sin", lambda z, **kwargs: right(z, **kwargs) + 1e-9j * np.imag(z))
    drawn = (programs.draw(3, i) for i in range(100))
    program = next(p for p in drawn if "np.sin(" in p.source() and p.x.dtype == float and not p.is_complex)
    with pytest.raises(Failure):
        check(program, second=False)


# ---- programs with data-dependent sizes


def small_programs(seed, count):
    drawn = (sizes.Drawn(seed, index) for index in range(sizes.LARGE - 1))
    return [program for program in drawn if program.n <= 600][:count]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("tier", "count"), [("vm", 12), ("llvm", 3)])
def test_compiled_programs_of_any_size_agree_with_eager_mode(tier, count):
    if tier == "llvm":
        pytest.importorskip("llvmlite")
    found = [(sizes.check(program, (tier,)), program.source()) for program in small_programs(2026, count)]
    assert not [pair for pair in found if pair[0]]
    assert sum(wrong is not None for wrong, _ in found) > count // 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "replacement", "message"),
    [
        ("compile", lambda f, tier: lambda x, r: (1 + 1e-6) * f(x, r), "value at point 0"),
        ("gradient", lambda f, grad=wg.grad: lambda x, r: 1.001 * grad(f)(x, r), "not that of differences"),
    ],
)
def test_comparison_of_sizes_finds_differences(monkeypatch, name, replacement, message):
    if name in sizes.NUMBERS:
        monkeypatch.setitem(sizes.NUMBERS, name, replacement)
    else:
        monkeypatch.setattr(wg, name, replacement)
    found = [sizes.check(program, ("vm",)) for program in small_programs(2026, 6)]
    assert any(message in (wrong or "") for wrong in found)
