"""The novelty of a molecule against the shelf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import parse_molecule
from sciagent.verification.verifier_contract import Context, Finding
from sciagent_verifiers.fast.novelty_verifiers import MoleculeNovelty

PARACETAMOL = "CC(=O)Nc1ccc(O)cc1"


def verify(folder: Path, smiles: str, **settings: Any) -> Finding:
    verifier = MoleculeNovelty({"references": ["blocks.csv"], **settings}, folder)
    [finding] = verifier.verify([parse_molecule(smiles)], Context(folder, folder))
    return finding


def similarity(finding: Finding) -> float:
    [one] = finding.measured
    return one.quantity.value
