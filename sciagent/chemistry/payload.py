"""Restores candidates from the payloads of the ledger and from the records that processes exchange."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError

_HYDROGENS = re.compile(r"H(?![a-z])(\d*)")


def candidate_from_payload(kind: str, payload: Mapping[str, Any]) -> Candidate:
    """Returns the candidate with this `payload()`. Raises InvalidCandidateError for any other mapping."""
    if kind == "molecule":
        return Molecule.from_payload(payload)
    if kind == "crystal":
        from sciagent.chemistry.crystal import Crystal

        return Crystal.from_payload(payload)
    raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; a candidate is a molecule or a crystal')


def record_of(candidate: Candidate) -> Mapping[str, Any]:
    """Returns all fields of a molecule as JSON for `candidate_from_record`, so that nothing is computed again."""
    return asdict(candidate) if isinstance(candidate, Molecule) else candidate.payload()


def candidate_from_record(kind: str, record: Mapping[str, Any]) -> Candidate:
    """Returns the candidate of a record. A molecule's identity (4 ms for InChI) is not computed again. Callers that
    compare keys afterwards check identity, charge and spin."""
    return Molecule(**record) if kind == "molecule" and "identity" in record else candidate_from_payload(kind, record)


def molecule_from_columns(
    text: str, identity: str, charge: int, multiplicity: int, formula: str, n_atoms: int, inchikey: str | None
) -> Candidate:
    """Returns the molecule of a ledger row that the same chemistry libraries wrote. The row lacks the number of heavy
    atoms; it is the number of atoms minus the hydrogens of the formula, which counts deuterium as H."""
    hydrogens = sum(int(digits or 1) for digits in _HYDROGENS.findall(formula))
    return Molecule(text, identity, charge, multiplicity, formula, n_atoms, n_atoms - hydrogens, inchikey)
