"""A few hundred of the fuzzer's programs, and what its tables promise."""

import numpy as np
import pytest

from fuzz import programs, table, twins
from fuzz.check import Failure, check


@pytest.mark.parametrize("part", range(2))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_have_one_derivative_in_every_mode(part):
    failures, compared = [], 0
    for index in range(80 * part, 80 * part + 80):
        program = programs.draw(2026, index)
        try:
            compared += not check(program, second=index % 10 == 0, replay=index % 5 == 0).skipped
        except Failure as failure:
            failures.append(f"program {index}: {failure}\n{program.text()}")
    assert not failures, "\n\n".join(failures)
    assert compared > 60


def test_every_row_with_a_derivative_is_drawn():
    assert not table.rows_to_draw() - set(table.ROWS)


def test_a_program_that_fails_shrinks_to_the_statements_that_matter():
    drawn = next(p for p in (programs.draw(1, i) for i in range(100)) if len(p.statements) > 12)
    wanted = drawn.statements[3].text
    shrunk = programs.shrunk(drawn, lambda p: wanted in p.source())
    assert wanted in shrunk.source()
    assert len(shrunk.statements) < len(drawn.statements)
    with np.errstate(all="ignore"):
        assert np.all(np.isfinite(shrunk.f(shrunk.x.copy())))


def test_the_comparison_finds_a_wrong_derivative(monkeypatch):
    right = twins.numpy.sin
    monkeypatch.setattr(twins.numpy, "sin", lambda z, **kwargs: right(z, **kwargs) + 1e-9j * np.imag(z))
    drawn = (programs.draw(3, i) for i in range(100))
    program = next(p for p in drawn if "np.sin(" in p.source() and p.x.dtype == float and not p.is_complex)
    with pytest.raises(Failure):
        check(program, second=False)
