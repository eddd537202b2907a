"""The safety screen against a table of public structures: what is refused, what passes, however it is drawn."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.verification.verifier_contract import Context
from sciagent_verifiers.fast.hazards.molecule_hazards import GROUPS
from sciagent_verifiers.fast.molecule_and_crystal_safety import MoleculeSafety
from tests.verifiers.safety_table import HAZARDS, HERE, SCREEN, TABLE

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


@pytest.mark.parametrize("row", HARMLESS, ids=lambda row: row["name"])
def test_solvents_reagents_dyes_and_drugs_with_kindred_groups_pass(row: dict[str, str]) -> None:
    assert SCREEN.accepts(parse_molecule(row["smiles"])) is None


def test_approved_drugs_pass_but_for_the_listed_exceptions() -> None:
    found = {one["name"]: alerts[0].name for one in DRUGS if (alerts := SCREEN.alerts(parse_molecule(one["smiles"])))}
    assert len(DRUGS) >= 200
    assert found == EXCEPTIONS


def test_the_table_is_as_large_as_it_says_and_names_its_sources() -> None:
    assert len(HAZARDS) >= 60
    assert sum(row["set"] == "solvent" for row in HARMLESS) >= 40
    assert {row["expected"] for row in HAZARDS} == {str(group) for group in GROUPS}
    assert all(row["source"] for row in TABLE)


# --- however it is drawn ------------------------------------------------------------------------------------------


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
