"""Continuous beams."""

import pycba

from benchmarks.packages.cases import Cases

PACKAGE = "pycba"
cases = Cases()


@cases([7.5, 7.0])
def moments(lengths):
    beam = pycba.BeamAnalysis(lengths, 30 * 600e7 * 1e-6, [-1, 0, -1, 0, -1, 0])
    beam.add_udl(1, w=20)
    beam.analyze()
    return beam.beam_results.results.M[::40]


@cases([20.0, 50.0])
def reactions(x):
    beam = pycba.BeamAnalysis([7.5, 7.0], 30 * 600e7 * 1e-6, [-1, 0, -1, 0, -1, 0])
    beam.add_udl(1, w=x[0])
    beam.add_pl(2, p=x[1], a=3.0)
    beam.analyze()
    return beam.beam_results.R


@cases([1.2e5, 1.5e5])
def deflections(ei):
    beam = pycba.BeamAnalysis([7.5, 7.0], ei, [-1, 0, -1, 0, -1, 0])
    beam.add_udl(1, w=20)
    beam.analyze()
    return beam.beam_results.D
