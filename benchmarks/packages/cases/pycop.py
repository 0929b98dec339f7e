"""Bivariate copulas."""

from pycop.bivariate import archimedean, gaussian, mixture, student

from benchmarks.packages.cases import Cases

PACKAGE = "pycop"
cases = Cases()


def of_family(family):
    def f(x):
        copula = archimedean.archimedean(family)
        return copula.get_pdf(x[0], x[1], [x[2]]) + copula.get_cdf(x[0], x[1], [x[2]])

    f.__name__ = family
    return f


for family in ("clayton", "gumbel", "frank", "joe", "galambos", "plackett"):
    cases([0.3, 0.6, 1.3])(of_family(family))


@cases([0.3, 0.6, 0.4])
def normal(x):
    return gaussian.gaussian().get_pdf(x[0], x[1], [x[2]])


@cases([0.3, 0.6, 0.4, 4.0])
def student_t(x):
    return student.student().get_pdf(x[0], x[1], [x[2], x[3]])


@cases([0.3, 0.6, 0.4, 1.4])
def mixed(x):
    return mixture.mixture(["clayton", "gumbel"]).get_pdf(x[0], x[1], [x[2], 1 - x[2], x[3], 2.0])
