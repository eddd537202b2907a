"""Converts what the ledger stores of a candidate, or what a process was sent, back to the candidate."""

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
    """The candidate whose `payload()` this is. Raises InvalidCandidateError for any other mapping."""
    if kind == "molecule":
        return Molecule.from_payload(payload)
    if kind == "crystal":
        from sciagent.chemistry.crystal import Crystal

        return Crystal.from_payload(payload)
    raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; a candidate is a molecule or a crystal')


def record_of(candidate: Candidate) -> Mapping[str, Any]:
    """The argument of `candidate_from_record`, as JSON: all fields of a molecule, so that nothing is computed again."""
    return asdict(candidate) if isinstance(candidate, Molecule) else candidate.payload()


def candidate_from_record(kind: str, record: Mapping[str, Any]) -> Candidate:
    """The candidate whose record this is. The identity of a molecule (4 ms for InChI) is not computed again; a caller
    that compares keys afterwards sees whether identity, charge and spin arrived."""
    return Molecule(**record) if kind == "molecule" and "identity" in record else candidate_from_payload(kind, record)


def molecule_from_columns(
    text: str, identity: str, charge: int, multiplicity: int, formula: str, n_atoms: int, inchikey: str | None
) -> Candidate:
    """The molecule behind a row that these chemistry libraries wrote. The number of heavy atoms, which the row lacks,
    is that of all atoms less the hydrogens of the formula (deuterium stands there as H)."""
    hydrogens = sum(int(digits or 1) for digits in _HYDROGENS.findall(formula))
    return Molecule(text, identity, charge, multiplicity, formula, n_atoms, n_atoms - hydrogens, inchikey)
