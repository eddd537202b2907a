"""The table of hazardous and harmless structures, and the screen."""

from __future__ import annotations

import csv
from pathlib import Path

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_verifiers.fast.hazards.molecule_hazards import rule_names
from sciagent_verifiers.fast.molecule_and_crystal_safety import MoleculeSafety

HERE = Path(__file__).parent
TABLE = list(csv.DictReader((HERE / "safety_structures.csv").read_text(encoding="utf-8").splitlines()))
HAZARDS = [row for row in TABLE if row["set"] == "hazard"]
SCREEN = MoleculeSafety()


def of_group(reason: Reason) -> list[dict[str, str]]:
    """The hazardous structures of the table that are refused for this reason."""
    return [row for row in HAZARDS if row["expected"] == reason]


def refused_as_expected(row: dict[str, str]) -> bool:
    """Whether the structure is refused for its own reason, in the name of a rule."""
    refusal = SCREEN.accepts(parse_molecule(row["smiles"]))
    return (
        refusal is not None and refusal.reason == row["expected"] and refusal.detail.partition(":")[0] in rule_names()
    )
