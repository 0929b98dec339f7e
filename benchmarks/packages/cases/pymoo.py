"""Test problems of optimisation with several objectives."""

from pymoo.problems import get_problem

from benchmarks.packages.cases import Cases

PACKAGE = "pymoo"
cases = Cases()
zdt1, rosenbrock, dtlz2, truss = (
    get_problem("zdt1", n_var=4),
    get_problem("rosenbrock", n_var=4),
    get_problem("dtlz2", n_var=4, n_obj=3),
    get_problem("truss2d"),
)


@cases([0.3, 0.7, 0.4, 0.2])
def zdt1_objectives(x):
    return zdt1.evaluate(x)


@cases([0.3, 0.7, 0.4, 0.2])
def rosenbrock_objective(x):
    return rosenbrock.evaluate(x)


@cases([0.3, 0.7, 0.4, 0.2])
def dtlz2_objectives(x):
    return dtlz2.evaluate(x)


@cases([0.005, 0.006, 1.5])
def truss_objectives(x):
    return truss.evaluate(x, return_values_of=["F"])
