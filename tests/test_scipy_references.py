"""Derivatives of SciPy's functions against closed forms with 40 digits."""

import numpy as np
import pytest

pytest.importorskip("scipy", minversion="1.17")

import scipy_references as references

NAMES = [
    (module, name, label)
    for module, functions in references.CASES.items()
    for name, rows in functions.items()
    for label in rows
]


@pytest.mark.parametrize(("module", "name", "label"), NAMES, ids=str)
def test_derivatives_are_exact_to_rounding(module, name, label):
    row = references.CASES[module][name][label]
    with np.errstate(all="ignore"):
        value, first, second = references.errors(row)
    first_limit, second_limit = references.limits(row, value)
    assert value < row.value and first < first_limit, (value, first)
    assert row.order < 2 or second < second_limit, second
