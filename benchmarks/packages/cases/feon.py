"""Finite elements of structures."""

import numpy as np
from feon.sa import Beam1D11, Link2D11, Node, Spring1D11, System

from benchmarks.packages.cases import Cases

PACKAGE = "feon"
cases = Cases()


@cases([2.0, 1.5])
def springs(k):
    nodes = [Node(0, 0), Node(0.1, 0), Node(0.2, 0)]
    system = System()
    system.add_nodes(nodes)
    system.add_elements([Spring1D11(nodes[:2], k[0]), Spring1D11(nodes[1:], k[1])])
    system.add_node_force(2, Fx=5.0)
    system.add_fixed_sup(0)
    system.solve()
    return np.array([node.disp["Ux"] for node in nodes])


@cases([3.0, 2.0, 10.0])
def truss(x):
    nodes = [Node(0.0, 0.0), Node(x[0], 0.0), Node(1.5, x[1])]
    system = System()
    system.add_nodes(nodes)
    system.add_elements([Link2D11((nodes[i], nodes[j]), 2.1e3, 1.0) for i, j in ((0, 1), (0, 2), (1, 2))])
    system.add_node_force(2, Fy=-x[2])
    system.add_fixed_sup(0)
    system.add_rolled_sup(1, "y")
    system.solve()
    return np.array([nodes[2].disp["Ux"], nodes[2].disp["Uy"]])


@cases([5.0, 210.0])
def beam(x):
    nodes = [Node(0.0, 0.0), Node(x[0], 0.0), Node(8.0, 0.0)]
    system = System()
    system.add_nodes(nodes)
    system.add_elements([Beam1D11(nodes[:2], x[1], 1.0, 0.5), Beam1D11(nodes[1:], x[1], 1.0, 0.5)])
    system.add_node_force(1, Fy=-7.0)
    system.add_fixed_sup(0, 2)
    system.solve()
    return np.array([nodes[1].disp["Uy"], nodes[1].disp["Phz"]])
