"""Positions on the earth by n-vectors."""

import numpy as np
import nvector as nv

from benchmarks.packages.cases import Cases

PACKAGE = "nvector"
cases = Cases()


@cases([0.7, -1.4])
def n_vector(x):
    return nv.lat_lon2n_E(x[0], x[1])


@cases([0.7, -1.4, 100.0])
def position(x):
    return nv.n_EB_E2p_EB_E(nv.lat_lon2n_E(x[0], x[1]), depth=x[2])


@cases([6e6, 1e5, 2e6])
def latitude_and_longitude(x):
    n_vector, depth = nv.p_EB_E2n_EB_E(x.reshape(3, 1))
    latitude, longitude = nv.n_E2lat_lon(n_vector)
    return np.concatenate([latitude, longitude, depth])


@cases([0.7, -1.4, 0.72, -1.2])
def distance_on_sphere(x):
    return nv.great_circle_distance(nv.lat_lon2n_E(x[0], x[1]), nv.lat_lon2n_E(x[2], x[3]))


@cases([0.7, -1.4, 0.72, -1.2])
def delta_in_north_east_down(x):
    return nv.n_EA_E_and_n_EB_E2p_AB_N(nv.lat_lon2n_E(x[0], x[1]), nv.lat_lon2n_E(x[2], x[3]))


@cases([40.0, -80.0, 41.0, -79.0], step=1e-3)
def distance_of_geo_points(x):
    frame = nv.FrameE(name="WGS84")
    start = frame.GeoPoint(latitude=x[0], longitude=x[1], degrees=True)
    end = frame.GeoPoint(latitude=x[2], longitude=x[3], degrees=True)
    return start.delta_to(end).length
