"""Repeated derivatives leak nothing and threads agree bit for bit: a short run of ``tests.repeats``."""

import pytest

import wengert as wg
from repeats import assert_nothing_left, assert_threads_agree, raised, returned
from scenarios import TABLE


@pytest.mark.filterwarnings(f"ignore::{wg.MutatedInputWarning.__module__}.{wg.MutatedInputWarning.__name__}")
@pytest.mark.parametrize("s", TABLE, ids=[s.name.replace(" ", "_") for s in TABLE])
def test_derivative_that_returns_or_raises_leaks_nothing(s):
    for call in (returned, raised):
        assert_nothing_left(s, call, 25)


def test_eight_threads_compute_same_bits_as_one():
    assert_threads_agree(25)
