"""What is said of an error, and the status of HTTP that says it."""

from __future__ import annotations

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sciagent.errors import (
    AnswerChangedError,
    AnsweredMeanwhileError,
    EvidenceConflictError,
    LedgerAwayError,
    SciagentError,
    UsageError,
    WrongVialError,
)

CONFLICTS = AnsweredMeanwhileError, AnswerChangedError, EvidenceConflictError, WrongVialError


def said_of(error: Exception) -> tuple[int, str]:
    """Returns (status, text) of an error. The text of one that is not raised on purpose stays in the log."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        fields = "; ".join(f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}" for each in error.errors()[:5])
        return 400, f"that does not fit: {fields}"
    if isinstance(error, CONFLICTS):
        return 409, str(error)
    if isinstance(error, LedgerAwayError):
        return 503, "the ledger does not answer; nothing was recorded. Try again in a moment"
    if isinstance(error, SciagentError):
        return (400, error.text) if isinstance(error, UsageError) else (500, str(error))
    return 500, "this is a fault of the program, and it is in the server's log; what was saved before is safe"
