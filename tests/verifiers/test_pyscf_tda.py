from __future__ import annotations

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Outcome, Reason
from sciagent_verifiers.high_fidelity.pyscf_tda import PyscfTda

QUICK = {"grid": 0, "states": 2, "geometry": {"method": "gfn2", "conformers": 1}}


@pytest.fixture
def context(tmp_path) -> Context:
    return Context(scratch=tmp_path, checkpoint=tmp_path)


def finding(smiles, context, settings=None):
    return next(iter(PyscfTda(QUICK | (settings or {})).verify([parse_molecule(smiles)], context)))


def values(found):
    return {one.property: one.quantity.value for one in found.measured}


def test_formaldehyde_lies_near_the_best_estimate(context):
    """QUEST, TBE/aug-cc-pVTZ: S1 3.966 eV, forbidden; T1 3.572. Wavelength and energy are one number."""
    found = finding("C=O", context, {"triplet": True})
    got = values(found)
    assert got["s1_energy"] == pytest.approx(3.966, abs=0.25)
    assert got["s1_oscillator_strength"] == pytest.approx(0.0, abs=1e-3)
    assert got["t1_energy"] == pytest.approx(3.572, abs=0.3)
    assert got["s1_wavelength"] * got["s1_energy"] == pytest.approx(1239.84, abs=0.1)
    assert found.measured[0].level.method == "TDA-CAM-B3LYP"
    assert len(found.diagnostics["singlets"]) == 2


def test_a_polymethine_dye_absorbs_strongly(context):
    """Streptocyanine-1, QUEST: 7.115 eV, f = 0.347. TDDFT lies too high for cyanines (Send, Valsson, Filippi, J. Chem.
    Theory Comput. 7, 444 (2011)), more so without diffuse functions and in the TDA, by 1.4 eV here."""
    got = values(finding("NC=[NH2+]", context, {"states": 1, "spin_check": "off"}))
    assert got["s1_energy"] == pytest.approx(7.115, abs=1.6)
    assert got["s1_oscillator_strength"] == pytest.approx(0.347, abs=0.25)


def test_water_shifts_the_excitation_of_formaldehyde_to_the_blue(context):
    """n > pi*: by 0.1 to 0.2 eV in continuum models (Mennucci, Cammi, Tomasi, J. Chem. Phys. 109, 2798 (1998))."""
    gas, wet = (finding("C=O", context, {"solvent": s, "solvent_model": "IEF-PCM"}) for s in (None, "water"))
    assert 0.03 < values(wet)["s1_energy"] - values(gas)["s1_energy"] < 0.3
    assert (wet.measured[0].level.method, wet.measured[0].level.phase) == ("TDA-CAM-B3LYP+IEF-PCM", "water")


@pytest.mark.parametrize(("smiles", "reason"), [("[O-][O+]=O", Reason.NEAR_DEGENERATE), ("N=O", Reason.SCF_UNSTABLE)])
def test_no_excitation_is_given_where_the_ground_state_is_none(context, smiles, reason):
    found = finding(smiles, context, {"functional": "PBE0"})
    assert (found.outcome, found.reason) == (Outcome.UNSTABLE, reason)


def test_open_shells_are_refused():
    refused = PyscfTda().accepts(parse_molecule("[CH3]"))
    assert refused is not None and refused.reason is Reason.RADICAL


@pytest.mark.parametrize("settings", [{"states": 0}, {"states": 21}, {"functional": "B2PLYP"}, {"tripelt": True}])
def test_wrong_settings_are_refused(settings):
    with pytest.raises(ValidationError):
        PyscfTda(settings)


def test_what_is_measured_follows_the_settings():
    names = [m.property.name for m in PyscfTda({"triplet": True}).measures]
    assert names == ["s1_energy", "s1_wavelength", "s1_oscillator_strength", "t1_energy"]
    assert len(PyscfTda().measures) == 3
    molecule = parse_molecule("c1ccncc1")
    assert PyscfTda({"full": True}).cost(molecule)["core_seconds"] > PyscfTda().cost(molecule)["core_seconds"]
