"""Checks of crystals: what is refused by name, and descriptors with their published values."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast.crystal_checks import CrystalChecks


def finding(crystal: str | Crystal, **settings: object) -> Finding:
    one = read_crystal(crystal) if isinstance(crystal, str) else crystal
    (found,) = CrystalChecks(settings).verify([one], Context(Path(), Path()))
    return found


def values(crystal: str | Crystal, **settings: object) -> dict[str, float]:
    found = finding(crystal, **settings)
    assert found.outcome is Outcome.OK, found.detail
    return {measured.property: measured.quantity.value for measured in found.measured}


@pytest.mark.parametrize(
    ("text", "settings", "reason", "words"),
    [
        ("rocksalt: Na Cl", {"elements": ["Na", "Br"]}, Reason.ELEMENT, "Cl; allowed: Na, Br"),
        ("rocksalt: Na Cl", {"forbid_elements": ["Cl"]}, Reason.ELEMENT, "forbidden"),
        ("rocksalt: Na Cl", {"require_elements": ["O"]}, Reason.ELEMENT, "lacks O"),
        ("spinel: Mg Al O", {"max_sites": 13}, Reason.TOO_LARGE, "14 atoms"),
        ("rocksalt: Na Cl", {"min_sites": 3}, Reason.TOO_SMALL, "2 atoms"),
        ("perovskite: Sr Ti O", {"max_elements": 2}, Reason.TOO_LARGE, "3 elements"),
        ("rocksalt: Na Cl", {"min_elements": 3}, Reason.TOO_SMALL, "2 elements"),
        ("fluorite: Na Cl", {}, Reason.CHARGE, "add up to zero"),
        ("rocksalt: S Cl", {"charge_balance": "allow"}, Reason.CHARGE, "electronegative"),
    ],
)
def test_what_a_campaign_does_not_want_is_refused(
    text: str, settings: dict[str, object], reason: Reason, words: str
) -> None:
    found = finding(text, **settings)
    assert (found.outcome, found.reason) == (Outcome.REFUSED, reason)
    assert words in found.detail


def test_atoms_that_are_too_near_are_refused() -> None:
    salt = read_crystal("rocksalt: Na Cl").structure
    small = Structure(Lattice(salt.lattice.matrix * 0.55), salt.species, salt.frac_coords)
    assert finding(crystal_from_structure(small)).reason is Reason.OVERLAPPING_ATOMS
    assert finding(crystal_from_structure(small), min_contact=0.5).outcome is Outcome.OK


@pytest.mark.parametrize(
    "text",
    [
        "half-Heusler: Ti Ni Sn", "CsCl: Ni Al", "fcc: Cu", "diamond: Si", "spinel: Fe Co O", "AlB2: Mg B",
        "skutterudite: Co Sb", "MoSi2: Mo Si", "rocksalt: Pb Te", "pyrite: Fe S", "MoS2: Mo S", "Bi2Te3: Bi Te",
    ],
)  # fmt: skip
def test_alloys_elements_and_mixed_valence_are_balanced(text: str) -> None:
    assert finding(text).outcome is Outcome.OK


def test_a_forbidden_element_is_refused_as_forbidden_even_if_it_is_listed() -> None:
    refusal = CrystalChecks({"elements": ["Fe", "S"], "forbid_elements": ["Fe"]}).accepts(read_crystal("pyrite: Fe S"))
    assert refusal is not None and refusal.detail == "Fe; it is forbidden"


def test_rock_salt_has_the_values_of_the_handbook() -> None:
    salt = Structure.from_spacegroup("Fm-3m", Lattice.cubic(5.6402), ["Na", "Cl"], [[0, 0, 0], [0.5, 0.5, 0.5]])
    found = values(crystal_from_structure(salt))
    assert found["density"] == pytest.approx(2.163, abs=0.003)  # CRC Handbook: 2.17
    assert (found["cell_sites"], found["elements"], found["unusual_oxidation_states"]) == (2, 2, 0)
    assert found["shortest_contact"] == pytest.approx(2.8201 / 2.80, abs=1e-3)
    assert "bartel_tau" not in found


def test_a_glance_gives_only_what_it_is_asked_for() -> None:
    glance = CrystalChecks().glance(read_crystal("perovskite: Sr Ti O"), {"bartel_tau"})
    assert [measured.property for measured in glance.measured] == ["bartel_tau"]


@pytest.mark.parametrize(
    "settings",
    [{"elements": ["Xx"]}, {"min_sites": 9, "max_sites": 8}, {"elements": ["Na"], "require_elements": ["Cl"]}],
)
def test_wrong_settings_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CrystalChecks(settings)


def test_open_shells_are_refused_only_if_asked_for() -> None:
    """Erbium of ErNiSn is an ion with 11 f electrons; the setting enters no hash while it is unset."""
    erbium = "half-Heusler: Er Ni Sn"
    assert finding(erbium).outcome is Outcome.OK
    refused = finding(erbium, open_shells="refuse")
    assert (refused.reason, refused.detail) == (Reason.ELEMENT, "open d or f shells: Er")
    assert finding("perovskite: Sr Ti O", open_shells="refuse").outcome is Outcome.OK
    assert CrystalChecks().settings_hash == CrystalChecks({"open_shells": "allow"}).settings_hash
