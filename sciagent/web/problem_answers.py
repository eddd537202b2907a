"""Answers of the HTTP API to requests that are refused or that fail: problem details after RFC 9457.

Source: Nottingham, Wilde, Dalal, RFC 9457 (2023), https://www.rfc-editor.org/rfc/rfc9457
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import quote

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from sciagent.domain.safe_text_and_durations import cut
from sciagent.errors import (
    AnsweredMeanwhileError,
    EvidenceConflictError,
    ImprobableValuesError,
    TaskStateError,
    WrongVialError,
)

API = "/api/v1"
"""Beginning of the paths of the HTTP API."""
PROBLEM_TYPE = "application/problem+json"
"""Content type of an error of the HTTP API."""
ORDINARY = "about:blank"
"""The type of a problem of which its status says the kind."""
PROBLEM_KINDS: dict[type[Exception], str] = {
    EvidenceConflictError: "urn:sciagent:problem:key-was-used",
    AnsweredMeanwhileError: "urn:sciagent:problem:answered-meanwhile",
    WrongVialError: "urn:sciagent:problem:wrong-vial",
    TaskStateError: "urn:sciagent:problem:task-state",
    ImprobableValuesError: "urn:sciagent:problem:improbable",
}
"""{error: type of its problem}; other errors are `ORDINARY`."""
MAX_INSTANCE = 300  # characters of the path in a problem
MAX_FIELD = 200  # characters of the name of a part
MAX_DETAIL = 4000  # characters of the explanation in a problem


class ProblemDetails(BaseModel):
    """A request was refused, or failed. Nothing was recorded."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: str
    """`about:blank`, or the kind of a conflict: `urn:sciagent:problem:key-was-used` (the idempotency key was used for
    another answer), `…:answered-meanwhile` (somebody answered after the answer that was named as seen), `…:wrong-vial`
    (the vial is of another compound, empty or bad), `…:task-state` (another person has the task, it is over, or no slot
    is left), `…:improbable` (the result is improbable; `confirm` says why)."""
    title: str
    """The meaning of the status."""
    status: int
    """The HTTP status."""
    detail: str
    """What is wrong, and what would be right."""
    instance: str
    """Path of the request."""
    field: str | None = None
    """The part of the request that is at fault, such as `values.log_molar_solubility` or `Idempotency-Key`; left out
    where no single one is."""
    confirm: tuple[str, ...] | None = None
    """A sentence on each improbable thing in a result. The same result with `confirmed` is recorded. Left out for other
    problems."""


class FieldFaultError(HTTPException):
    """A part of the request is at fault."""

    def __init__(self, status: int, detail: str, field: str) -> None:
        """field: as in `ProblemDetails`."""
        super().__init__(status, detail)
        self.field = field


def is_of_api(path: str) -> bool:
    """Returns whether a path is one of the HTTP API, whose errors are problem details."""
    return path == "/api" or path.startswith("/api/")


def problem_answer(
    path: str, status: int, detail: str, error: Exception | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Returns the answer to a request that is refused. error: the reason of the refusal; None without an exception."""
    kind = ORDINARY if error is None else PROBLEM_KINDS.get(type(error), ORDINARY)
    problem = ProblemDetails(
        type=kind,
        title=HTTPStatus(status).phrase,
        status=status,
        detail=cut(detail, MAX_DETAIL),
        instance=quote(path[:MAX_INSTANCE]),
        field=_field_at_fault(error),
        confirm=error.odd if isinstance(error, ImprobableValuesError) else None,
    )
    content = problem.model_dump(exclude_none=True)
    return JSONResponse(content, status, headers, media_type=PROBLEM_TYPE)


def _field_at_fault(error: Exception | None) -> str | None:
    """Returns the part of a request that an error is about; None without a single one."""
    if isinstance(error, FieldFaultError):
        return error.field
    if isinstance(error, RequestValidationError):
        [first, *_] = error.errors()
        return field_at_fault(first["loc"], first["type"]) or None
    return None


def field_at_fault(place: tuple[int | str, ...], kind: str) -> str:
    """Returns the name of a part of a request, such as `values.homo_lumo_gap`; empty for the request as a whole.

    place, kind: location and type of a fault as pydantic states them; the place begins with `body`, `query`, `header`
    or `path`.
    """
    if kind == "json_invalid":  # the place is a number of characters
        return ""
    return cut(".".join(str(part) for part in place[1:]), MAX_FIELD)


def too_large_answer(path: str, limit: int) -> Response:
    """Returns the answer to a request that sends more than `limit` bytes."""
    return plain_answer(path, 413, f"a request may send {limit:,} bytes")


def plain_answer(path: str, status: int, detail: str) -> Response:
    """Returns the answer to a request that is refused before its route is looked for."""
    if is_of_api(path):
        return problem_answer(path, status, detail)
    return PlainTextResponse(detail, status)
