"""What is said of an error, and the status of HTTP that says it."""

from __future__ import annotations

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sciagent.errors import AnsweredMeanwhileError, EvidenceConflictError, LedgerAwayError, UsageError, WrongVialError

CONFLICTS = AnsweredMeanwhileError, EvidenceConflictError, WrongVialError


def said_of(error: Exception) -> tuple[int, str]:
    """Returns (status, text) of an error that is raised on purpose."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        fields = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()[:5])
        return 400, f"that does not fit: {fields}"
    if isinstance(error, CONFLICTS):
        return 409, str(error)
    if isinstance(error, LedgerAwayError):
        return 503, "the ledger does not answer; nothing was recorded. Try again in a moment"
    return (400 if isinstance(error, UsageError) else 500), str(error)
