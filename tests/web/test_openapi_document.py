"""The description of the HTTP API is valid OpenAPI 3.1, and says of each route what the rules say."""

from __future__ import annotations

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from sciagent.domain.people import Right, Role
from sciagent.web.problem_answers import API, PROBLEM_TYPE
from sciagent.web.route_rules_and_request_guards import rules_of
from tests.support.served_pages import Serve, every_page


@pytest.fixture
def document(serve: Serve) -> dict[str, Any]:
    server = serve()
    server.person("hplc")
    content: dict[str, Any] = server.token("hplc", Right.READ).client.get(f"{API}/openapi.json").json()
    return content | {"rules": rules_of(every_page(server.ledger))}


def test_it_is_valid_and_has_every_route_of_the_api_and_no_page(document: dict[str, Any]) -> None:
    rules = document.pop("rules")
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {route for route in rules if route[1].startswith(API)}
    for method, path in described:
        operation = document["paths"][path][method.lower()]
        scopes = [str(rules[method, path].right)]
        by_token, by_session = operation["security"]
        assert by_token == {"token": scopes} and by_session["session"] == scopes
        assert ("csrf" in by_session) is (method == "POST")
        assert operation["description"] and "422" not in operation["responses"]
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                assert response["content"][PROBLEM_TYPE]["schema"] == {"$ref": "#/components/schemas/ProblemDetails"}


def test_bodies_are_closed_and_each_part_is_explained(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("ResultIn", "MeasuredIn", "ClaimIn", "ReleaseIn", "ProblemDetails"):
        assert schemas[name]["additionalProperties"] is False
    unexplained = [
        f"{name}.{field}"
        for name, schema in schemas.items()
        for field, about in schema.get("properties", {}).items()
        if "description" not in about and "$ref" not in about
    ]
    assert not unexplained
    body = document["paths"][f"{API}/tasks/{{task}}/results"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "multipart/form-data"}


def test_it_is_read_by_whoever_may_read_and_by_nobody_else(serve: Serve) -> None:
    server = serve()
    assert server.nobody().get(f"{API}/openapi.json").status_code == 401
    assert server.person("vera", Role.VIEWER).get(f"{API}/openapi.json").status_code == 200
