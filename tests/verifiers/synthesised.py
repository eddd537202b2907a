"""Routes to a molecule from the shelf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast.molecule_synthesis import MoleculeSynthesis

PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"


def verify(folder: Path, smiles: str, **settings: Any) -> Finding:
    verifier = MoleculeSynthesis({"building_blocks": ["blocks.csv"], **settings}, folder)
    [finding] = verifier.verify([parse_molecule(smiles)], Context(folder, folder))
    declared = {(one.property.name, one.level) for one in verifier.measures}
    assert {(m.property, m.level) for m in finding.measured} <= declared
    return finding


def values(finding: Finding) -> dict[str, float]:
    return {one.property: one.quantity.value for one in finding.measured}
