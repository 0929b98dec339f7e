"""Weighted graphs: centralities, flows and spectra."""

import networkx as nx
import numpy as np

from benchmarks.packages.cases import Cases

PACKAGE = "networkx"
cases = Cases()
EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
WEIGHTS = [1.0, 2.0, 0.5, 1.5, 0.7]


def graph(weights, kind=nx.Graph):
    found = kind()
    found.add_weighted_edges_from([(*edge, w) for edge, w in zip(EDGES, weights)])
    return found


@cases(WEIGHTS)
def shortest_path(weights):
    return nx.dijkstra_path_length(graph(weights), 0, 3)


@cases(WEIGHTS, rtol=1e-5)
def pagerank(weights):
    found = nx.pagerank(graph(weights, nx.DiGraph), tol=1e-13)
    return np.array([found[k] for k in range(4)])


@cases(WEIGHTS)
def spectrum_of_laplacian(weights):
    return nx.laplacian_spectrum(graph(weights))[1:]


@cases(WEIGHTS)
def resistance(weights):
    return nx.resistance_distance(graph(weights), 0, 3, weight="weight")


@cases(WEIGHTS)
def closeness(weights):
    return nx.closeness_centrality(graph(weights), 0, distance="weight")


@cases(WEIGHTS)
def clustering(weights):
    return nx.clustering(graph(weights), 1, weight="weight")


@cases(WEIGHTS)
def maximum_flow(weights):
    return nx.maximum_flow_value(graph(weights, nx.DiGraph), 0, 3, capacity="weight")
