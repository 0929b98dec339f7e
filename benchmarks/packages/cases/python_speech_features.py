"""Features of speech."""

import numpy as np
import python_speech_features as features

from benchmarks.packages.cases import Cases

PACKAGE = "python_speech_features"
cases = Cases()
SIGNAL = np.random.default_rng(0).normal(size=800)


@cases([0.3, 0.1])
def cepstrum(x):
    return features.mfcc(SIGNAL * np.exp(-x[0] * np.arange(800) / 800) + x[1], 8000, numcep=4)[0]


@cases([1.2, 0.001])
def filter_bank(x):
    return features.logfbank(SIGNAL * x[0] + x[1] * np.arange(800), 8000)[0, :5]


@cases([1.2, 0.95])
def preemphasis(x):
    return features.sigproc.preemphasis(SIGNAL[:6] * x[0], x[1])


@cases(np.random.default_rng(0).normal(size=(6, 2)))
def differences(x):
    return features.delta(x, 2)
