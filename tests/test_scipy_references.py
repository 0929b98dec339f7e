"""Derivatives of SciPy's functions against closed forms with 30 digits."""

import pytest

pytest.importorskip("scipy", minversion="1.17")

import distribution_references as distributions
import scipy_references as references

NAMES = [(module, name) for module, cases in references.CASES.items() for name in cases]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=".".join)
def test_derivatives_are_exact_to_rounding(module, name):
    value, first, second = references.errors(module, name)
    assert value < 1e-12 and first < 1e-14 and second < 1e-14, (value, first, second)


def check(found):
    for method, (value, first, second) in found.items():
        assert value < 1e-12 and first < 2e-14 and second < 2e-13, (method, value, first, second)


@pytest.mark.parametrize("name", distributions.CONTINUOUS)
def test_continuous_distributions_are_exact_to_rounding(name):
    check(distributions.continuous_errors(name))


@pytest.mark.parametrize("name", distributions.DISCRETE)
def test_discrete_distributions_are_exact_to_rounding(name):
    check(distributions.discrete_errors(name))
