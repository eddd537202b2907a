"""Restores candidates from the payloads of the ledger and from the records that processes exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sciagent.chemistry.subjects.registry import subject_names, subject_of
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError


def candidate_from_payload(kind: str, payload: Mapping[str, Any]) -> Candidate:
    """Returns the candidate with this `payload()`. Raises InvalidCandidateError for any other mapping."""
    if kind not in subject_names():
        raise InvalidCandidateError(Reason.WRONG_KIND, f'kind "{kind}"; known: {", ".join(subject_names())}')
    return subject_of(kind).restored(payload)


def record_of(candidate: Candidate) -> Mapping[str, Any]:
    """Returns all fields of a candidate as JSON for `candidate_from_record`, so that nothing is computed again."""
    return subject_of(candidate.kind).record(candidate)


def candidate_from_record(kind: str, record: Mapping[str, Any]) -> Candidate:
    """Returns the candidate of a record. Its identity is not computed again; callers compare keys afterwards."""
    return subject_of(kind).from_record(record)
