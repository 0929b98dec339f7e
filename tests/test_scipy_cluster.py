"""``scipy.cluster`` and ``scipy.constants``."""

import numpy as np
import pytest
from scipy import constants
from scipy.cluster import hierarchy, vq

import wengert as wg
from scipy_cases import check
from wengert.errors import UnsupportedFunctionError

X = np.array([[0.1, 0.5], [1.2, 0.3], [0.9, 1.4], [2.0, 0.2]])
CENTRES = np.array([[0.0, 0.4], [1.5, 0.6]])
CASES = {
    "whiten": (vq.whiten, X),
    "vq": (lambda x, c: vq.vq(x, c)[1], X, CENTRES),
    "convert_temperature": (lambda x: constants.convert_temperature(x, "C", "F"), X),
    "lambda2nu": (lambda x: constants.lambda2nu(x) / constants.c, X),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands, batches=False)


@pytest.mark.parametrize("f", [lambda x: hierarchy.linkage(x)[:, 2], lambda x: vq.kmeans(x, CENTRES)[0]])
def test_searches_for_clusters_are_refused(f):
    with pytest.raises(UnsupportedFunctionError, match=r"scipy\.cluster\..*stop_gradient"):
        wg.grad(lambda x: np.sum(f(x)))(X)
