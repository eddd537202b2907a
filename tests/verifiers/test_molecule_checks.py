"""What the first rung refuses, and what it measures."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast import molecule_descriptor_functions
from sciagent_verifiers.fast.molecule_checks import MoleculeChecks


@pytest.fixture
def check(tmp_path: Path):
    def run(smiles: str, **settings) -> Finding:
        [finding] = MoleculeChecks(settings).verify([parse_molecule(smiles)], Context(tmp_path, tmp_path))
        return finding

    return run


def values(finding: Finding) -> dict[str, float]:
    return {one.property: one.quantity.value for one in finding.measured}


def test_aspirin_has_the_published_numbers(check):
    finding = check("CC(=O)Oc1ccccc1C(=O)O")
    found = values(finding)
    assert finding.outcome is Outcome.OK
    assert found["molecular_weight"] == pytest.approx(180.16, abs=0.01)  # PubChem
    assert found["tpsa"] == pytest.approx(63.6, abs=0.05)  # PubChem; Ertl 2000
    assert found["qed"] == pytest.approx(0.55, abs=0.01)  # Bickerton 2012
    assert found["logp"] == pytest.approx(1.31, abs=0.01)
    assert found["sa_score"] == pytest.approx(1.58, abs=0.05)
    counts = {"heavy_atoms": 13, "net_charge": 0, "rings": 1, "rotatable_bonds": 2}
    assert {name: found[name] for name in counts} == counts


def test_findings_are_as_declared_and_exact(check):
    verifier = MoleculeChecks({"alerts": ["BRENK"]})
    finding = check("c1ccccc1", alerts=["BRENK"])
    assert {(m.property, m.level) for m in finding.measured} == {(p.property.name, p.level) for p in verifier.measures}
    for one in finding.measured:
        assert one.quantity.unit == properties()[one.property].unit
        assert one.quantity.uncertainty == 0.0
    assert (verifier.name, verifier.tier, verifier.kind) == ("molecule.checks", Tier.FAST, "molecule")
    assert 0 < verifier.cost(parse_molecule("c1ccccc1"))["core_seconds"] < 0.1


@pytest.mark.parametrize(
    ("smiles", "settings", "reason"),
    [
        ("C[Se]C", {}, Reason.ELEMENT),
        ("CCl", {"elements": ["H", "C"]}, Reason.ELEMENT),
        ("CC", {"elements": ["C"]}, Reason.ELEMENT),
        ("c1ccccc1", {"min_heavy_atoms": 7}, Reason.TOO_SMALL),
        ("c1ccccc1", {"max_heavy_atoms": 5}, Reason.TOO_LARGE),
        ("c1ccc2ccccc2c1", {"max_rings": 1}, Reason.TOO_LARGE),
        ("C1CCCCCCCC1", {"max_ring_size": 8}, Reason.RING),
        ("C1CC1", {"min_ring_size": 4}, Reason.RING),
        ("C1CC2=CC1CC2", {}, Reason.RING),
        ("c1ccccc1N=Nc1ccccc1", {"refuse_alerts": ["PAINS", "BRENK"]}, Reason.STRUCTURAL_ALERT),
        ("[NH4+]", {}, Reason.CHARGE),
        ("C", {"charges": [1]}, Reason.CHARGE),
        ("[CH3]", {}, Reason.RADICAL),
        ("[O][O]", {}, Reason.RADICAL),
        ("[2H]C", {}, Reason.ISOTOPE),
        ("CC(F)Cl", {"undefined_stereo": "refuse"}, Reason.UNDEFINED_STEREO),
        ("CC=CC", {"undefined_stereo": "refuse"}, Reason.UNDEFINED_STEREO),
        ("CC=O", {"forbid_smarts": ["[CX3H1]=O"]}, Reason.FORBIDDEN_PATTERN),
        ("CC=O", {"require_smarts": ["C=O", "[#7]"]}, Reason.MISSING_PATTERN),
    ],
)
def test_refusals_name_their_reason_and_come_first(check, smiles, settings, reason):
    finding = check(smiles, **settings)
    assert (finding.outcome, finding.reason, finding.measured) == (Outcome.REFUSED, reason, ())
    assert finding.detail
    refusal = MoleculeChecks(settings).accepts(parse_molecule(smiles))
    assert refusal is not None and refusal.reason is reason


@pytest.mark.parametrize(
    ("smiles", "settings"),
    [
        ("[NH4+]", {"charges": [0, 1]}),
        ("[CH3]", {"allow_radicals": True}),
        ("[2H]C", {"allow_isotopes": True}),
        ("CC=CC", {}),
        ("C/C=C/C", {"undefined_stereo": "refuse"}),
        ("C[C@H](F)Cl", {"undefined_stereo": "refuse"}),
        ("C1CC2=CC1CC2", {"strained_rings": "allow"}),
        ("CC(C)Cc1ccc(C(C)C(=O)O)cc1", {"refuse_alerts": ["PAINS", "BRENK"]}),
        ("CC(=O)C", {"forbid_smarts": ["[CX3H1]=O"]}),
        ("CC(=O)N", {"require_smarts": ["C=O", "[#7]"]}),
    ],
)
def test_what_is_allowed_is_measured(check, smiles, settings):
    assert check(smiles, **settings).outcome is Outcome.OK


def test_a_refused_molecule_costs_no_descriptor(check, monkeypatch):
    def never(mol):
        raise AssertionError("a descriptor of a refused molecule")

    monkeypatch.setattr("sciagent_verifiers.fast.molecule_checks.descriptor_functions", never)
    assert check("[NH4+]").outcome is Outcome.REFUSED


def test_a_refusal_by_catalogue_names_the_catalogue_and_the_alert(check):
    assert check("c1ccccc1N=Nc1ccccc1", refuse_alerts=["PAINS", "BRENK"]).detail == "PAINS: azo_A(324)"
    assert check("CCC=O", refuse_alerts=["PAINS", "BRENK"]).detail == "BRENK: aldehyde"


def test_atorvastatin_has_the_counts_that_pubchem_gives(check):
    smiles = "CC(C)c1c(C(=O)Nc2ccccc2)c(-c2ccccc2)c(-c2ccc(F)cc2)n1CC[C@@H](O)C[C@@H](O)CC(=O)O"
    found = values(check(smiles))
    names = ("hydrogen_bond_donors", "aromatic_rings", "rings", "largest_ring", "stereocentres", "heavy_atoms")
    assert [found[name] for name in names] == [4, 4, 4, 6, 2, 41]  # PubChem CID 60823
    assert found["hydrogen_bond_acceptors"] == 7  # Lipinski's: five O and two N
    assert found["fraction_sp3"] == pytest.approx(9 / 33)
    assert found["molecular_weight"] == pytest.approx(558.6, abs=0.1)


def test_alerts_are_counted_at_a_level_that_names_the_catalogue(check):
    [one] = [m for m in check("O=CC=CC=O", alerts=["PAINS", "BRENK"]).measured if m.property == "structural_alerts"]
    assert one.quantity.value >= 1
    assert one.level.method == "RDKit BRENK+PAINS"
    assert values(check("CCO", alerts=["BRENK"]))["structural_alerts"] == 0
    assert "structural_alerts" not in values(check("CCO"))


def test_only_the_descriptors_asked_for_are_computed(check):
    assert set(values(check("CCO", descriptors=["qed", "logp"]))) == {"qed", "logp"}


@pytest.mark.parametrize("smiles", ["[H][H]", "C", "N", "S", "I", "C[Si](C)(C)C", "C" * 90, "FC(F)(F)F"])
def test_odd_molecules_have_finite_numbers(check, smiles):
    assert check(smiles, min_heavy_atoms=0).outcome is Outcome.OK


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"forbid_smarts": ["[c"]}, "not a SMARTS"),
        ({"forbid_smarts": [""]}, "not a SMARTS"),
        ({"require_smarts": ["[c"]}, "not a SMARTS"),
        ({"elements": ["C", "Xx"]}, "not an element: Xx"),
        ({"min_heavy_atoms": 9, "max_heavy_atoms": 3}, "exceeds max_heavy_atoms"),
        ({"alerts": ["PAIN"]}, "PAINS"),
        ({"refuse_alerts": ["BRENKS"]}, "BRENK"),
        ({"min_ring_size": 7, "max_ring_size": 5}, "exceeds max_ring_size"),
        ({"descriptors": ["mass"]}, "molecular_weight"),
        ({"max_heavy_atom": 3}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        MoleculeChecks(settings)


def test_a_batch_is_answered_in_order(tmp_path):
    molecules = [parse_molecule(s) for s in ("CCO", "[NH4+]", "c1ccccc1")]
    findings = list(MoleculeChecks().verify(molecules, Context(tmp_path, tmp_path)))
    assert [f.candidate_key for f in findings] == [m.key for m in molecules]
    assert [f.outcome for f in findings] == [Outcome.OK, Outcome.REFUSED, Outcome.OK]


def test_the_settings_hash_sees_every_setting():
    hashes = {MoleculeChecks(s).settings_hash for s in ({}, {"alerts": ["NIH"]}, {"max_rings": 9}, {"charges": [0, 1]})}
    assert len(hashes) == 4
    assert MoleculeChecks().settings_hash == MoleculeChecks({"max_heavy_atoms": 100}).settings_hash


def test_a_crystal_is_the_wrong_kind():
    class Salt:
        kind = "crystal"

    refusal = MoleculeChecks().accepts(Salt())
    assert refusal is not None and refusal.reason is Reason.WRONG_KIND


def test_an_rdkit_without_its_contrib_folder_is_a_bad_environment(check, monkeypatch, tmp_path):
    from rdkit.Chem import RDConfig

    molecule_descriptor_functions._scorer.cache_clear()
    monkeypatch.setattr(RDConfig, "RDContribDir", str(tmp_path))
    finding = check("CCO")
    molecule_descriptor_functions._scorer.cache_clear()
    assert (finding.outcome, finding.reason) == (Outcome.BAD_ENVIRONMENT, Reason.IMPORT_FAILED)
    assert "sa_score" in finding.detail


@pytest.mark.parametrize(("wanted", "loaded"), [(["heavy_atoms", "logp"], False), (["sa_score"], True)])
def test_the_table_of_the_sa_score_is_loaded_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, wanted: list[str], loaded: bool
) -> None:
    called = []
    monkeypatch.setattr(molecule_descriptor_functions, "_scorer", lambda: called.append(1) or Scorer)
    MoleculeChecks.warm()
    assert not called
    MoleculeChecks({"descriptors": wanted}).attach()
    assert bool(called) is loaded


class Scorer:
    @staticmethod
    def calculateScore(mol: object) -> float:
        return 1.0
