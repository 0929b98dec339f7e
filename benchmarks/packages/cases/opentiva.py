"""Pharmacokinetics of anaesthetics."""

import numpy as np
from opentiva import biometrics, propofol, remifentanil

from benchmarks.packages.cases import Cases

PACKAGE = "opentiva"
cases = Cases()


@cases([40.0, 80.0, 175.0])
def marsh(x):
    model = propofol.MarshDiprifusor(sex=0, age=x[0], weight=x[1], height=x[2])
    return np.array([model.v1, model.k10, model.k12, model.k21])


@cases([40.0, 80.0, 175.0])
def schnider(x):
    model = propofol.Schnider(sex=0, age=x[0], weight=x[1], height=x[2])
    return np.array([model.v1, model.v2, model.k10, model.k12])


@cases([40.0, 80.0, 175.0])
def minto(x):
    model = remifentanil.Minto(sex=0, age=x[0], weight=x[1], height=x[2])
    return np.array([model.v1, model.v2, model.k10, model.ke0])


@cases([80.0, 175.0])
def fat_free_mass(x):
    return biometrics.ffm_janmahasation(sex=0, weight=x[0], height=x[1])


@cases([80.0, 175.0])
def surface_of_body(x):
    return biometrics.bsa_dubois(weight=x[0], height=x[1])
