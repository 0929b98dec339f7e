"""Frames in the plane."""

import numpy as np
from anastruct import SystemElements

from benchmarks.packages.cases import Cases

PACKAGE = "anastruct"
cases = Cases()


@cases([15000.0, 5000.0, -10.0])
def deflection_of_cantilever(x):
    system = SystemElements(EA=x[0], EI=x[1])
    system.add_element(location=[[0, 0], [5, 0]])
    system.add_support_fixed(node_id=1)
    system.point_load(node_id=2, Fy=x[2])
    system.solve()
    return system.get_node_displacements(node_id=2)["uy"]


@cases([15000.0, 5000.0, -10.0])
def moment_of_frame(x):
    system = SystemElements(EA=x[0], EI=x[1])
    system.add_element(location=[[0, 0], [0, 4]])
    system.add_element(location=[[0, 4], [3, 4]])
    system.add_support_fixed(node_id=1)
    system.add_support_hinged(node_id=3)
    system.q_load(q=x[2], element_id=2)
    system.solve()
    return np.asarray(system.get_element_results(element_id=2)["Mmax"])
