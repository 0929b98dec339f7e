"""Frames."""

from Pynite import FEModel3D

from benchmarks.packages.cases import Cases

PACKAGE = "PyNiteFEA"
cases = Cases()


def beam(elasticity, inertia, load, length=10.0):
    model = FEModel3D()
    model.add_node("N1", 0, 0, 0)
    model.add_node("N2", length, 0, 0)
    model.add_material("Steel", elasticity, 11200.0, 0.3, 2.836e-4)
    model.add_section("Section", 20.0, 100.0, inertia, 250.0)
    model.add_member("M1", "N1", "N2", "Steel", "Section")
    model.def_support("N1", True, True, True, True, True, True)
    model.def_support("N2", False, False, False, False, False, False)
    model.add_node_load("N2", "FY", load)
    return model


@cases([29000.0, 150.0, -5.0])
def deflection_of_cantilever(x):
    model = beam(x[0], x[1], x[2])
    model.analyze(check_stability=False)
    return model.nodes["N2"].DY["Combo 1"]


@cases([29000.0, 150.0, -5.0])
def moment_without_sparse_solver(x):
    model = beam(x[0], x[1], x[2])
    model.analyze_linear(check_stability=False, sparse=False)
    return model.members["M1"].max_moment("Mz", "Combo 1")


@cases([29000.0, 150.0])
def stiffness_of_frame(x):
    model = beam(x[0], x[1], -5.0)
    model.analyze_linear(check_stability=False, sparse=False)
    return model.Ke(sparse=False, check_stability=False)
