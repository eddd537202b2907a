"""The OpenAPI 3.1 document of the HTTP API, and the route that returns it.

FastAPI makes it from the routes with a tag. Added here are what a rule says: the right that each route needs, the ways
to log in, and the refusals, which are problem details.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema
from starlette.requests import Request

from sciagent import __version__
from sciagent.domain.people import Right
from sciagent.store.database.ledger import Ledger
from sciagent.web.problem_answers import PROBLEM_TYPE, ProblemDetails
from sciagent.web.route_rules_and_request_guards import READING, ApiRoute, Pages, RouteRule, rules_of
from sciagent.web.site_context_and_ticker import site_of

REFERENCE = "#/components/schemas/{model}"
TAGS = (
    {"name": "laboratory", "description": "Tasks, their claims, results with files, and vials."},
    {"name": "campaigns", "description": "Campaigns and their candidates, read only."},
    {"name": "description", "description": "This document."},
)
DESCRIPTION = (
    "For instruments and scripts. A client shows a token: `Authorization: Bearer TOKEN`. A page of this server may use "
    "the routes with its session; a request that changes something then has the header `X-CSRF-Token`, too. "
    "A request that is refused or fails is answered with problem details (RFC 9457), and nothing was recorded."
)
SECURITY_SCHEMES = {
    "token": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `sciagent person token`. The words beside it are the scopes of which it needs one.",
    },
    "session": {"type": "apiKey", "in": "cookie", "name": "sciagent", "description": "The session of a browser."},
    "csrf": {"type": "apiKey", "in": "header", "name": "X-CSRF-Token", "description": "The text of the session."},
}
REFUSALS = {
    400: "The request does not fit.",
    401: "Nobody has logged in, or the token is not valid.",
    403: "The account or the token may not do this.",
    500: "A fault of the server, which is in its log.",
    503: "The ledger does not answer; send the request again.",
}
NOT_FOUND_REFUSAL = {404: "There is no such thing, or the account may not see it."}
CHANGING_REFUSALS = {
    409: "The request does not fit the present state; `type` says why.",
    413: "The request is too large.",
    415: "The content type is another one.",
}
pages = Pages(tag="description")


@pages.get("/openapi.json", RouteRule(Right.READ), dict[str, Any])
def read_openapi_document(request: Request) -> Mapping[str, Any]:
    """Returns this document."""
    return site_of(request).shared(_Documents).of(request.app)


class _Documents:
    """The document, which is made at the first call, since that takes a second or two."""

    def __init__(self, ledger: Ledger) -> None:
        self._document: Mapping[str, Any] | None = None

    def of(self, app: FastAPI) -> Mapping[str, Any]:
        if self._document is None:
            self._document = openapi_document(app)
        return self._document


def openapi_document(app: FastAPI) -> Mapping[str, Any]:
    """Returns the OpenAPI 3.1 document of an application's HTTP API."""
    document: dict[str, Any] = get_openapi(
        title="sciagent",
        version=__version__,
        openapi_version="3.1.0",
        description=DESCRIPTION,
        routes=app.routes,
        tags=list(TAGS),
    )
    schemas = document["components"]["schemas"]
    for unused in ("HTTPValidationError", "ValidationError"):  # FastAPI adds its own model of a fault
        schemas.pop(unused, None)
    own_bodies = [route.own_body for route in app.routes if isinstance(route, ApiRoute) and route.own_body is not None]
    models = [(model, "validation") for model in (ProblemDetails, *own_bodies)]
    _, definitions = models_json_schema(models, ref_template=REFERENCE)  # type: ignore[arg-type]
    schemas.update(definitions["$defs"])
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    rules = rules_of(app)
    for method, path, operation in _operations(document):
        rule = rules[method, path]
        scopes = [str(rule.right)]
        is_changing = method not in READING
        by_session = {"session": scopes, "csrf": []} if is_changing else {"session": scopes}
        operation["security"] = [{"token": scopes}, by_session]
        operation["description"] = f"{operation['description']} Scope: `{rule.right}`."
        operation["responses"].pop("422", None)  # a request that does not fit is answered with 400
        operation["responses"] |= dict(_refusals(path, is_changing=is_changing))
    return document


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yields method, path and description of each route."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _refusals(path: str, *, is_changing: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields (status, description) of the refusals of a route."""
    refusals = dict(REFUSALS)
    if "{" in path:
        refusals |= NOT_FOUND_REFUSAL
    if is_changing:
        refusals |= CHANGING_REFUSALS
    schema = {"$ref": REFERENCE.format(model=ProblemDetails.__name__)}
    for status, words in sorted(refusals.items()):
        yield str(status), {"description": words, "content": {PROBLEM_TYPE: {"schema": schema}}}
