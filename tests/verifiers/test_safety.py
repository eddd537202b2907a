"""The safety screen against a table of public structures: what is refused, what passes, however it is drawn."""

from __future__ import annotations

import csv
import json
import re
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.verification.contract import Context
from sciagent_verifiers.fast.hazards.drawing import Drawing
from sciagent_verifiers.fast.hazards.rule import GROUPS
from sciagent_verifiers.fast.hazards.screen import RULES, compiled, rule_names, screen
from sciagent_verifiers.fast.hazards.substances import SUBSTANCES
from sciagent_verifiers.fast.safety import MoleculeSafety

HERE = Path(__file__).parent
TABLE = list(csv.DictReader((HERE / "safety_structures.csv").read_text(encoding="utf-8").splitlines()))
HAZARDS = [row for row in TABLE if row["set"] == "hazard"]
HARMLESS = [row for row in TABLE if row["set"] != "hazard"]
DRUGS = [
    one
    for one in json.loads((HERE.parent / "chemistry" / "pinned_keys.json").read_text(encoding="utf-8"))
    if one["set"] == "drug"
]
# approved drugs that are refused all the same, and why
EXCEPTIONS = {
    "cyclophosphamide": "bis-haloethyl-amine",  # a nitrogen mustard on phosphorus, given against cancer
    "fentanyl": "fentanyl-class",  # fatal in small amounts
}
SCREEN = MoleculeSafety()


def blocked(smiles: str, **how: Any) -> bool:
    return SCREEN.accepts(parse_molecule(smiles, **how)) is not None


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_a_hazardous_structure_is_refused_with_its_group(row: dict[str, str]) -> None:
    refusal = SCREEN.accepts(parse_molecule(row["smiles"]))
    assert refusal is not None
    assert refusal.reason == row["expected"]
    assert refusal.detail.partition(":")[0] in rule_names()


@pytest.mark.parametrize("row", HARMLESS, ids=lambda row: row["name"])
def test_solvents_reagents_dyes_and_drugs_with_kindred_groups_pass(row: dict[str, str]) -> None:
    assert SCREEN.accepts(parse_molecule(row["smiles"])) is None


def test_approved_drugs_pass_but_for_the_listed_exceptions() -> None:
    found = {one["name"]: alerts[0].rule for one in DRUGS if (alerts := SCREEN.alerts(parse_molecule(one["smiles"])))}
    assert len(DRUGS) >= 200
    assert found == EXCEPTIONS


def test_the_table_is_as_large_as_it_says_and_names_its_sources() -> None:
    assert len(HAZARDS) >= 60
    assert sum(row["set"] == "solvent" for row in HARMLESS) >= 40
    assert {row["expected"] for row in HAZARDS} == {str(group) for group in GROUPS}
    assert all(row["source"] for row in TABLE)


def test_every_rule_is_met_by_a_structure_of_the_table() -> None:
    met = {alert.rule for row in HAZARDS for alert in SCREEN.alerts(parse_molecule(row["smiles"]))}
    assert met == set(rule_names())


def test_every_whole_structure_key_is_that_of_a_structure_in_the_table() -> None:
    there = {Drawing(parse_molecule(row["smiles"]).mol).key for row in HAZARDS} | {
        Drawing(Chem.MolFromSmiles("[C-]#[NH+]")).key
    }
    assert {one.key for one in SUBSTANCES} <= there


def test_names_are_unique_and_every_rule_has_a_reason_and_a_source() -> None:
    names = [rule.name for rule in RULES] + sorted({one.name for one in SUBSTANCES})
    assert len(names) == len(set(names))
    for one in (*RULES, *SUBSTANCES):
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{2,63}", one.name)
        assert len(one.reason) >= 5 and len(one.source) > 5, one.name


def test_what_is_counted_first_never_hides_a_match() -> None:
    drawings = {row["smiles"]: Drawing(parse_molecule(row["smiles"]).mol) for row in TABLE}
    hidden = []
    for rule in RULES:
        bare, whole = compiled(replace(rule, needs={}, first="")), compiled(rule)
        hidden += [(rule.name, text) for text, one in drawings.items() if bare.matches(one) != whole.matches(one)]
    assert hidden == []


# --- however it is drawn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_isotopes_do_not_hide_a_hazard(row: dict[str, str]) -> None:
    mol = Chem.AddHs(Chem.MolFromSmiles(row["smiles"]))
    heavier = {1: 2, 6: 13, 7: 15, 8: 18, 16: 34}
    for atom in mol.GetAtoms():
        atom.SetIsotope(heavier.get(atom.GetAtomicNum(), 0))
    assert blocked(Chem.MolToSmiles(mol))


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_protons_taken_or_given_do_not_hide_a_hazard(row: dict[str, str]) -> None:
    mol = parse_molecule(row["smiles"]).mol
    amine, acid = (
        Chem.MolFromSmarts("[NX3;!$(N-*=,#,:*);!$(N~[!#6;!#1])]"),
        Chem.MolFromSmarts("[O;H1;$(O-[#6,#15]=O)]"),
    )
    for pattern, charge in ((amine, 1), (acid, -1)):
        for (index,) in mol.GetSubstructMatches(pattern):
            changed = Chem.RWMol(mol)
            atom = changed.GetAtomWithIdx(index)
            atom.SetNumExplicitHs(atom.GetTotalNumHs() + charge)
            atom.SetNoImplicit(True)
            atom.SetFormalCharge(charge)
            assert blocked(Chem.MolToSmiles(changed)), Chem.MolToSmiles(changed)


@pytest.mark.parametrize(
    "smiles",
    [
        "CCOP(C)(=O)SCC[NH+](C(C)C)C(C)C.[Cl-]",
        "C[NH+](CCCl)CCCl.[Cl-]",
        "[Na+].[O-]C(=O)CF",
        "[K+].[C-]#N",
        "F[B-](F)(F)F.N#[N+]c1ccccc1",
        "[Na+].[N-]=[N+]=[N-]",
        "OC(=O)C(O)(c1ccccc1)c1ccccc1.O",
    ],
)
def test_salts_and_solvates_are_refused_by_their_hazardous_part(smiles: str) -> None:
    assert blocked(smiles, standardise="parent")
    assert screen(Chem.MolFromSmiles(smiles))


@pytest.mark.parametrize(
    "smiles", ["C[P+]([O-])(F)OC(C)C", "CC(C)OP(C)(F)=[OH+]", "ClCC[S]CCCl", "O=N(=O)OCCON(=O)=O", "CN=N#N",
               "[N-]=[N+]=NC", "C[N-][N+]#N", "[N-]=[NH+].[N-]=[N+]=NC", "[AsH2][H]", "C[P+](F)([O-])OC",
               "Cc1c(N(=O)=O)cc(cc1N(=O)=O)N(=O)=O"],
)  # fmt: skip
def test_charge_separated_and_hypervalent_drawings_are_refused(smiles: str) -> None:
    mol = Chem.MolFromSmiles(smiles)
    if "." not in smiles and mol.GetNumAtoms() and all(not a.GetNumRadicalElectrons() for a in mol.GetAtoms()):
        assert blocked(smiles)
    assert screen(mol)


@pytest.mark.parametrize("row", HAZARDS, ids=lambda row: row["name"])
def test_tautomers_between_nitrogen_oxygen_and_sulfur_are_refused(row: dict[str, str]) -> None:
    """Where no hydrogen moves to or from carbon; a keto form of an enol is another molecule to the screen."""
    mol = parse_molecule(row["smiles"]).mol
    enumerator = rdMolStandardize.TautomerEnumerator()
    enumerator.SetMaxTautomers(30)
    for tautomer in enumerator.Enumerate(mol):
        same = all(
            a.GetTotalNumHs() == b.GetTotalNumHs()
            for a, b in zip(mol.GetAtoms(), tautomer.GetAtoms(), strict=True)
            if a.GetAtomicNum() == 6
        )
        if same:
            assert screen(tautomer), Chem.MolToSmiles(tautomer)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(HAZARDS), st.integers(0, 2**31 - 1))
def test_the_order_of_atoms_does_not_matter(row: dict[str, str], seed: int) -> None:
    mol = Chem.MolFromSmiles(row["smiles"])
    (smiles,) = Chem.MolToRandomSmilesVect(mol, 1, seed)
    for text in (smiles, Chem.MolToSmiles(mol, kekuleSmiles=False, isomericSmiles=False)):
        assert {a.rule for a in SCREEN.alerts(parse_molecule(text))} == {a.rule for a in screen(mol)}


CHAINS = ("C", "CC", "CCC", "C(C)C", "CCCCCCCCCC", "C1CCCCC1", "CC(C)(C)C", "CCCCCCCCCCCC")


@pytest.mark.parametrize(
    ("template", "rule"),
    [
        ("CP(=O)(F)O{a}", "cwc-1a01-phosphonofluoridate"),
        ("{b}P(=O)(F)OC", "cwc-1a01-phosphonofluoridate"),
        ("{a}OP(=O)(C#N)N(C){b}", "cwc-1a02-phosphorocyanidate"),
        ("{a}OP(C)(=O)SCCN(C){b}", "cwc-1a03-phosphonothiolate"),
        ("ClCCN({a})CCCl", "cwc-1a06-nitrogen-mustard"),
        ("CP(=O)(F)N=C({a})N(C){b}", "cwc-1a13-amidine-phosphonofluoridate"),
    ],
)
def test_every_chain_of_a_scheduled_class_is_refused_under_the_name_of_the_class(template: str, rule: str) -> None:
    for a, b in product(CHAINS, ("C", "CC", "C(C)C")):
        # a group that opens the SMILES is written backwards by RDKit's reader of fragments; both ends are sp3 carbon
        mol = Chem.MolFromSmiles(template.format(a=a, b=b))
        assert mol is not None
        alerts = SCREEN.alerts(parse_molecule(Chem.MolToSmiles(mol)))
        assert rule in {alert.rule for alert in alerts}, Chem.MolToSmiles(mol)
        assert alerts[0].group is Reason.CHEMICAL_WEAPON


# --- the verifier -------------------------------------------------------------------------------------------------


def found(screen: MoleculeSafety, smiles: str, tmp_path: Path) -> Any:
    (finding,) = screen.verify([parse_molecule(smiles)], Context(tmp_path, tmp_path))
    return finding


def test_a_refusal_names_rule_reason_and_source_and_measures_nothing(tmp_path: Path) -> None:
    finding = found(SCREEN, "Cc1c(cc(cc1[N+](=O)[O-])[N+](=O)[O-])[N+](=O)[O-]", tmp_path)
    assert (finding.outcome, finding.reason, finding.measured) == (Outcome.REFUSED, Reason.EXPLOSIVE, ())
    assert finding.detail.startswith("polynitro: three or more nitro groups [UN Manual of Tests")
    assert finding.diagnostics == {"rules": ["polynitro"]}


def test_a_pass_counts_no_alerts(tmp_path: Path) -> None:
    finding = found(SCREEN, "CCO", tmp_path)
    assert finding.outcome is Outcome.OK
    assert [(m.property, m.quantity.value) for m in finding.measured] == [("safety_alerts", 0.0)]


def test_the_gravest_group_is_the_reason() -> None:
    alerts = SCREEN.alerts(parse_molecule("CC(C)OP(C)(=O)F"))
    assert [alert.group for alert in alerts] == sorted((a.group for a in alerts), key=GROUPS.index)
    refusal = SCREEN.accepts(parse_molecule("CC(C)OP(C)(=O)F"))
    assert refusal is not None and refusal.reason is Reason.CHEMICAL_WEAPON


def test_an_allowed_rule_does_not_refuse_but_is_counted(tmp_path: Path) -> None:
    lenient = MoleculeSafety({"allow": ["cwc-3b17-triethanolamine"]})
    finding = found(lenient, "OCCN(CCO)CCO", tmp_path)
    assert finding.outcome is Outcome.OK
    assert [m.quantity.value for m in finding.measured] == [1.0]
    assert finding.diagnostics == {"rules": ["cwc-3b17-triethanolamine"]}
    assert lenient.accepts(parse_molecule("ClC(Cl)=O")) is not None
    assert lenient.settings_hash != SCREEN.settings_hash


def test_patterns_of_ones_own_refuse_too(tmp_path: Path) -> None:
    own = {"name": "house-thiol", "smarts": "[SX2H]", "reason": "the neighbours complain of the smell"}
    finding = found(MoleculeSafety({"extra_smarts": [own]}), "CCCCS", tmp_path)
    assert (finding.reason, finding.detail) == (
        Reason.ACUTE_HAZARD,
        "house-thiol: the neighbours complain of the smell [settings]",
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"allow": ["polynitr"]}, 'no safety rule is named "polynitr"; did you mean "polynitro"'),
        ({"extra_smarts": [{"name": "a", "smarts": "C(", "reason": "no pattern at all"}]}, "not a SMARTS pattern"),
        ({"extra_smarts": [{"name": "azide", "smarts": "C", "reason": "a name that is taken"}]}, "name of another"),
        ({"extra_smarts": [{"name": "a", "smarts": "C", "reason": "short"}]}, "at least 10 characters"),
        ({"extra_smarts": [{"name": "A b", "smarts": "C", "reason": "a bad name, this"}]}, "match pattern"),
        ({"alow": []}, "Extra inputs"),
    ],
)
def test_wrong_settings_are_refused_with_the_way_out(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        MoleculeSafety(given)


def test_a_drug_like_molecule_costs_a_fraction_of_a_millisecond() -> None:
    molecules: list[Molecule] = [parse_molecule(one["smiles"]) for one in DRUGS]
    for molecule in molecules:
        SCREEN.alerts(molecule)  # patterns compiled, molecules read
    best = min(_seconds(molecules) for _ in range(3))
    assert best / len(molecules) < 0.5e-3  # 0.25 ms on an idle core; the test machine may be busy


def _seconds(molecules: list[Molecule]) -> float:
    start = time.process_time()
    for molecule in molecules:
        SCREEN.alerts(molecule)
    return time.process_time() - start
