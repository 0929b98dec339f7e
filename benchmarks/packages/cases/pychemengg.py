"""Heat transfer in chemical engineering."""

from pychemengg.heattransfer import fins, heatexchangers, transient
from pychemengg.heattransfer.internalflow import CircularTube

from benchmarks.packages.cases import Cases

PACKAGE = "pychemengg"
cases = Cases()


@cases([20000.0, 5.0])
def dittus_boelter(x):
    return CircularTube().Nu_dittusboelter(Re=x[0], Pr=x[1], thermal_ID="heated")


@cases([20000.0, 5.0])
def gnielinski(x):
    return CircularTube().Nu_gnielinski(Re=x[0], Pr=x[1])


@cases([0.05, 0.04, 0.002, 50.0, 180.0])
def efficiency_of_fin(x):
    fin = fins.Fin(length=x[0], width=x[1], thickness=x[2], heattransfercoefficient=x[3], thermalconductivity=x[4])
    fin.rectangular()
    return fin.efficiency


@cases([0.8, 2.0])
def counterflow(x):
    unit = heatexchangers.EffNTU(Cmin=x[0], Cmax=1.6, NTU=x[1], effectiveness="?")
    unit.doublepipe_counterflow()
    return unit.effectiveness


@cases([50.0, 400.0, 30.0])
def lumped_temperature(x):
    body = transient.LumpedSystem(
        surfacearea=0.01,
        volume=1e-5,
        density=8000.0,
        specificheat=450.0,
        thermalconductivity=50.0,
        heattransfercoefficient=x[0],
        T_infinity=20.0,
        T_initial=x[1],
    )
    return body.calc_temperature_of_solid_at_time_t(time=x[2])


@cases([300.0, 60.0], rtol=1e-5)
def temperature_of_slab(x):
    slab = transient.NonLumpedSlab(
        thickness=0.1,
        surfacearea=1.0,
        volume=0.1,
        density=7800.0,
        specificheat=480.0,
        thermalconductivity=40.0,
        thermaldiffusivity=1.07e-5,
        heattransfercoefficient=x[0],
        T_infinity=20.0,
        T_initial=400.0,
    )
    slab.calc_Bi()
    slab.calc_Fo(time=x[1])
    slab.calc_eigenvalues(numberof_eigenvalues_desired=5)
    return slab.calc_temperature_of_solid_at_time_t(time=x[1], xposition_tofindtemp=0.02)
