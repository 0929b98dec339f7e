"""Derivatives of SciPy's functions against closed forms with 30 digits."""

import pytest

pytest.importorskip("scipy", minversion="1.17")

import distribution_references as distributions
import scipy_references as references

NAMES = [(module, name) for module, cases in references.CASES.items() for name in cases]


def check(found):
    for method, (value, first, second) in found.items():
        assert value < 1e-12 and first < 2e-14 and second < 5e-14, (method, value, first, second)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=".".join)
def test_derivatives_are_exact_to_rounding(module, name):
    check({name: references.errors(module, name)})


@pytest.mark.parametrize("name", distributions.CONTINUOUS)
def test_continuous_distributions_are_exact_to_rounding(name):
    check(distributions.continuous_errors(name))


@pytest.mark.parametrize("name", distributions.DISCRETE)
def test_discrete_distributions_are_exact_to_rounding(name):
    check(distributions.discrete_errors(name))
