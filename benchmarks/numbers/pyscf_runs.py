"""One molecule through one verifier, outside of any campaign."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.verification.verifier_contract import Context, Finding, Outcome, Verifier


def one(verifier: Verifier[Molecule], smiles: str, multiplicity: int | None = None) -> tuple[Finding, float]:
    """The finding, a refusal among them, and its core-seconds."""
    molecule = parse_molecule(smiles, multiplicity=multiplicity)
    refused = verifier.accepts(molecule)
    if refused is not None:
        return Finding(molecule.key, Outcome.REFUSED, reason=refused.reason, detail=refused.detail), 0.0
    with tempfile.TemporaryDirectory() as folder:
        context = Context(scratch=Path(folder), checkpoint=Path(folder))
        start = time.process_time()
        found = next(iter(verifier.verify([molecule], context)))
        return found, round(time.process_time() - start, 1)


def finding(verifier: Verifier[Molecule], smiles: str, multiplicity: int | None = None) -> tuple[dict[str, Any], float]:
    """Values by property, censored ones as text; {"reason": ...} where there is none."""
    found, seconds = one(verifier, smiles, multiplicity=multiplicity)
    if not found.measured:
        return {"reason": str(found.reason)}, seconds
    return {
        m.property: round(m.quantity.value, 4) if m.quantity.censoring == "none" else str(m.quantity)
        for m in found.measured
    }, seconds
