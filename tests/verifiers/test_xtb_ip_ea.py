"""Against experiment: adiabatic values of the NIST Chemistry WebBook, as in benchmarks/numbers/ionisation.csv."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome, Reason
from sciagent_verifiers.simulation.xtb_ip_ea import RIGID, XtbIpEa

IONISATION = {
    "c1ccccc1": 9.24,
    "c1ccc2ccccc2c1": 8.14,
    "Oc1ccccc1": 8.49,
    "c1ccncc1": 9.12,
    "c1ccsc1": 8.86,
    "Nc1ccccc1": 7.72,
    "C=CC=C": 9.07,
    "CC(C)=O": 9.70,
    "CC#N": 12.20,
    "CO": 10.84,
}
AFFINITY = {
    "O=C1C=CC(=O)C=C1": 1.86,
    "O=[N+]([O-])c1ccccc1": 1.00,
    "N#CC(C#N)=C(C#N)C#N": 3.17,
    "O=C1C=CC(=O)O1": 1.44,
    "c1ccc2cc3ccccc3cc2c1": 0.53,
    "N#C/C=C/C#N": 1.21,
}


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None, multiplicity=None):
    return next(iter(XtbIpEa(settings).verify([parse_molecule(smiles, multiplicity=multiplicity)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}


def errors(measured, ion, name, context):
    settings = {"ions": ion, "adiabatic": True, "geometry": {"conformers": 2}}
    return [values(finding(smiles, context, settings))[name] - value for smiles, value in measured.items()]


def test_ionisation_energies_lie_near_experiment(context):
    error = np.abs(errors(IONISATION, "cation", "adiabatic_ionization_energy", context))
    assert error.mean() < 0.25 and error.max() < 0.45


def test_electron_affinities_lie_near_experiment(context):
    error = np.abs(errors(AFFINITY, "anion", "adiabatic_electron_affinity", context))
    assert error.mean() < 0.45 and error.max() < 0.7


def test_a_finding_holds_what_was_asked_for_at_its_level(context):
    found = finding("C=O", context)
    assert found.outcome is Outcome.OK
    assert [m.property for m in found.measured] == ["vertical_ionization_energy", "vertical_electron_affinity"]
    assert {m.level.label for m in found.measured} == {"IPEA1-xTB//GFN2-xTB//ETKDGv3x10"}
    assert {m.property for m in found.measured} == {p.property.name for p in XtbIpEa().measures}
    assert found.diagnostics["anion_bound"] is False  # -0.86 eV by electron transmission
    both = finding("C=O", context, {"ions": "cation", "adiabatic": True, "solvent": "acetonitrile"})
    assert {m.level.label for m in both.measured} == {"IPEA1-xTB+ALPB(acetonitrile)//GFN2-xTB//ETKDGv3x10"}
    assert [Path(a.path).name[16:] for a in both.artifacts] == [".xyz", "-cation.xyz"]
    assert values(both)["adiabatic_ionization_energy"] < values(found)["vertical_ionization_energy"] - 1


def test_a_solvent_lowers_what_it_costs_to_charge(context):
    """Born: an ion of either sign is stabilised by more than an electronvolt in water."""
    gas, water = (values(finding("c1ccccc1", context, {"solvent": s})) for s in (None, "water"))
    assert gas["vertical_ionization_energy"] - water["vertical_ionization_energy"] > 1
    assert water["vertical_electron_affinity"] - gas["vertical_electron_affinity"] > 1


def test_dioxygen_is_a_triplet_and_its_anion_is_bound(context):
    """Adiabatic 0.45 eV and 12.07 eV by experiment; tight binding has no exchange and is a poor judge of it."""
    found = finding("[O][O]", context, {"adiabatic": True}, multiplicity=3)
    assert found.diagnostics["anion_bound"] is True
    assert values(found)["adiabatic_ionization_energy"] == pytest.approx(12.07, abs=1.5)


@pytest.mark.parametrize(
    ("smiles", "outcome", "reason"),
    [("CI", Outcome.UNSTABLE, Reason.ANION_DISSOCIATED), ("C", Outcome.IMPLAUSIBLE, Reason.IMPLAUSIBLE_VALUE)],
)
def test_an_anion_that_is_none_ends_with_its_reason(context, smiles, outcome, reason):
    found = finding(smiles, context, {"adiabatic": True, "ions": "anion"})
    assert (found.outcome, found.reason, found.measured) == (outcome, reason, ())


def test_a_rigid_molecule_repeats_within_its_stated_uncertainty(tmp_path):
    prop = XtbIpEa().measures[0].property
    found = [
        values(finding("c1ccoc1", Context(scratch=tmp_path, checkpoint=tmp_path, replicate=k)))[prop.name]
        for k in range(3)
    ]
    assert np.std(found, ddof=1) < 2 * RIGID[prop]


@pytest.mark.parametrize("settings", [{"ions": "dication"}, {"solvent": "mercury"}, {"method": "GFN1-xTB"}])
def test_unknown_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        XtbIpEa(settings)
