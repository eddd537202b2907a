"""From what the ledger stores of a candidate back to the candidate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError


def candidate_from_payload(kind: str, payload: Mapping[str, Any]) -> Candidate:
    """The candidate whose `payload()` this is. Raises InvalidCandidateError for any other mapping."""
    if kind == "molecule":
        from sciagent.chemistry.molecule import Molecule

        return Molecule.from_payload(payload)
    if kind == "crystal":
        from sciagent.chemistry.crystal import Crystal

        return Crystal.from_payload(payload)
    raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; a candidate is a molecule or a crystal')
