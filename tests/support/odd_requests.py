"""Requests made from the types of an application's routes: valid ones, ones at the bounds, and odd ones.

The routes' parameters and JSON bodies are read from the OpenAPI document that FastAPI makes of each, so that a new
route is asked at once, whether the document of the application names it or not. Fields of HTML forms stand in no
document; their names and choices are read from the templates.
"""

from __future__ import annotations

import json
import random
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from httpx2 import Response
from starlette.testclient import TestClient

import sciagent.web
from sciagent.web.route_rules_and_request_guards import ApiRoute

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
TEMPLATES = Path(sciagent.web.__file__).parent / "templates"
ENDLESS = "/live"
"""A stream; whoever may see it would wait for ever."""
LOG_OUT = "/logout"
"""Ends the session of later requests, so it is sent without the text of the session."""
ODD_TEXTS = (
    "", " ", "0", "-1", "1", "2", "²", "٣", "1_0", "0x10", "1e400", "-1e400", "1e-400", "NaN", "inf", "12E4711", "1,61",
    "1.234,5", "9" * 25, "9" * 5000, str(2**31), str(2**63), str(-(2**63) - 1), "true", "null", "[]", "{}", "<5", ">",
    "±", "1 ± ", "4.3 eV", "4.3 eV ± 0.1", "-2 °C", "1 2 3", "\x00", "a\x00b", "\ud800", "\u202e", "\ufeff", "é" * 3000,
    "x" * 300, "x" * 70_000, "../../etc/passwd", "..%2f", "%", "%00", "%zz", "' OR 1=1 --", "'; DROP TABLE person;",
    "<script>alert(1)</script>", "{{7*7}}", "{% x %}", "${jndi:ldap://x}", "http://[", "//evil.example", "http://[::1",
    "\r\nSet-Cookie: a=b", "=1+1", "C" * 3000, "C1CC", "[" * 500, "(" * 5000, "c1ccccc1", "InChI=1S/H2O/h1H2", "☃",
    "task,value.homo_lumo_gap\n1,4.2", '"', '""', "a;b;c", "\t", "2031-01-01", "2026-02-30", "T00:00:00Z", "yes", "no",
)  # fmt: skip
ODD_JSON: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**400, [], {}, "", [[]], {"": ""}, [None] * 1000, {"a": {"a": {"a": {}}}}, "x" * 100_000,
    "\x00", "\ud800",
)  # fmt: skip
ODD_BODIES = (
    b"", b"{", b"null", b"[" * 100_000, b'{"a":1e999}', b"NaN", b"\xff\xfe", b"--x\r\n", b"a=%ff&b=%zz", b"&" * 5000,
    b"csrf", b"\x00" * 1000,
)  # fmt: skip
CONTENT_TYPES = (
    "application/x-www-form-urlencoded", "application/json", "multipart/form-data", "multipart/form-data; boundary=x",
    "multipart/form-data; boundary=", "text/plain", "application/json; charset=utf-7", "\xff", "", "a" * 5000,
)  # fmt: skip
ODD_HEADERS: Mapping[str, Sequence[str]] = {
    "referer": ("http://[", "http://testserver/tasks?x=1", "", "\xff", "javascript:1", "//x", "x" * 5000),
    "accept": ("application/json", "text/html", "", "*/*;q=x", "\xff"),
    "origin": ("http://testserver", "null", "http://[", "http://evil.example", ""),
    "sec-fetch-site": ("same-origin", "cross-site", "none", "\xff"),
    "x-csrf-token": ("", "x", "\xff" * 64),
    "authorization": ("", "Bearer", "Bearer x", "Bearer \xff", "Basic eA==", "Bearer " + "x" * 5000),
    "cookie": ("sciagent=", "sciagent=\xff", "a" * 9000, ";;;=", 'sciagent="'),
    "if-none-match": ('"x"', "*", "\xff"),
    "if-modified-since": ("x", "Thu, 01 Jan 1970 00:00:00 GMT", "Mon, 99 Foo 99999 99:99:99 GMT"),
    "range": ("bytes=0-", "bytes=9-1", "bytes=-", "bytes=0-0,1-1", "x=1", "bytes=" + "9" * 50 + "-"),
    "if-range": ("x",),
    "content-length": ("-1", "x", "1" * 30),
    "transfer-encoding": ("chunked",),
    "accept-encoding": ("br;q=x", ""),
    "idempotency-key": ("", "x", "\xff", "x" * 300, '"12345678"'),
    "x-forwarded-for": ("x", "1.2.3.4, ::1"),
    "host": ("testserver", "evil.example", "[::1", ""),
}


@dataclass(frozen=True)
class Operation:
    """What a path takes with one method."""

    method: str
    path: str
    parameters: Sequence[Mapping[str, Any]] = ()
    body: Mapping[str, Any] | None = None
    """JSON schema of its body; None if it has none, or is a form."""


@dataclass
class Sender:
    """A visitor, with the texts that requests of theirs carry."""

    name: str
    client: TestClient
    csrf: str = ""
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """{parameter or field: values that name something}."""


@dataclass(frozen=True)
class OddRequest:
    """A request."""

    method: str
    address: str
    headers: Mapping[str, str]
    content: bytes | None
    files: Sequence[tuple[str, Any]] | None


@dataclass(frozen=True)
class Outcome:
    """The answer to a request: its status, and where the program failed."""

    status: int
    cause: str | None


def operations_by_path(app: FastAPI) -> Mapping[str, Sequence[Operation]]:
    """Returns {path: what it takes}, of all routes."""
    found: dict[str, list[Operation]] = {}
    for route in app.routes:
        if not isinstance(route, APIRoute):
            continue
        # the same route again, since that of a page is in no document
        described = APIRoute(route.path, route.endpoint, methods=list(route.methods or ()), response_model=None)
        document = get_openapi(title="one", version="1", routes=[described])
        [methods] = document["paths"].values()
        schemas = document.get("components", {}).get("schemas", {})
        own_body = route.own_body if isinstance(route, ApiRoute) else None
        for method, stated in methods.items():
            body = stated.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            if own_body is not None:
                body = own_body.model_json_schema()
                schemas = schemas | body.get("$defs", {})
            resolved = None if body is None else _resolved(body, schemas)
            operation = Operation(method.upper(), route.path, stated.get("parameters", ()), resolved)
            found.setdefault(route.path, []).append(operation)
    return found


def _resolved(schema: Any, schemas: Mapping[str, Any], depth: int = 0) -> Any:
    """Returns a schema with the schemas that it names in their places."""
    if isinstance(schema, list):
        return [_resolved(part, schemas, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return {} if depth > 5 else _resolved(schemas[name], schemas, depth + 1)
    return {key: _resolved(part, schemas, depth) for key, part in schema.items()}


def form_fields() -> Mapping[str, Sequence[str]]:
    """Returns {name: values} of the fields of all forms, with the values of their choices."""
    found: dict[str, list[str]] = {}
    for template in TEMPLATES.glob("*.j2"):
        text = template.read_text(encoding="utf-8")
        for element in re.findall(r"<(?:input|select|textarea|button)\b[^>]*>", text):
            name = re.search(r'\bname="([^"{]+)"', element)
            if name is not None:
                value = re.search(r'\bvalue="([^"{]*)"', element)
                found.setdefault(name[1], []).extend([value[1]] if value else [])
    return found


FIELDS = form_fields()


class Generator:
    """Makes requests for the operations of one path. Equal seeds make equal requests."""

    def __init__(self, operations: Sequence[Operation], sender: Sender, seed: str) -> None:
        self._random = random.Random(seed)
        self._operations = operations
        self._sender = sender
        self._path = operations[0].path

    def request(self) -> OddRequest:
        """Returns the next request; three of four have a method that the path takes."""
        draw = self._random
        operation = draw.choice(self._operations)
        method = operation.method
        if draw.random() < 0.25:
            method = draw.choice(METHODS)
        n_odd = draw.choice((0, 1, 1, 2, 5))  # parts of the request that are odd; with many, the first ends it
        headers = self._headers(method, n_odd)
        address = self._address(operation, n_odd, headers)
        content = None
        files = None
        if method not in ("GET", "HEAD", "TRACE"):
            content, files, content_type = self._body(operation, n_odd)
            if content_type is not None:
                headers.setdefault("content-type", content_type)
        return OddRequest(method, address, headers, content, files)

    def _is_odd(self, n_odd: int) -> bool:
        return self._random.random() < 0.15 * n_odd

    def _text(self, name: str, schema: Mapping[str, Any], n_odd: int) -> str:
        draw = self._random
        if self._is_odd(n_odd):
            return draw.choice(ODD_TEXTS)
        known = self._sender.known.get(name)
        if known and draw.random() < 0.8:
            return draw.choice(known)
        value = self._json(schema, 0)
        return value if isinstance(value, str) else json.dumps(value)

    def _address(self, operation: Operation, n_odd: int, headers: dict[str, str]) -> str:
        """Returns path and query, and sets the headers that are parameters."""
        draw = self._random
        path = operation.path
        query = []
        for parameter in operation.parameters:
            name = parameter["name"]
            schema = parameter.get("schema", {})
            if parameter["in"] == "path":
                path = path.replace("{" + name + "}", _quoted(self._text(name, schema, n_odd)))
            elif parameter["in"] == "header" and draw.random() < 0.9:
                headers[name.lower()] = self._text(name, schema, n_odd).encode("utf-8", "replace").decode("latin-1")
            elif parameter["in"] == "query" and draw.random() < 0.6:
                query.append(f"{_quoted(name)}={_quoted(self._text(name, schema, n_odd))}")
        for name in re.findall(r"{(\w+)}", path):  # parameters that only the rule of the route reads
            path = path.replace("{" + name + "}", _quoted(self._text(name, {"type": "string"}, n_odd)))
        if self._is_odd(n_odd):
            query.append(draw.choice(("&&&", "a[]=1", "%ff=%zz", "=", "after=1&after=2", "x" * 9000, "next=//x")))
        address = path + ("?" + "&".join(query) if query else "")
        return address[:MAX_ADDRESS].rstrip("%0123456789ABCDEF") if len(address) > MAX_ADDRESS else address

    def _headers(self, method: str, n_odd: int) -> dict[str, str]:
        draw = self._random
        # a refusal as JSON needs no page to be rendered
        headers = {"accept": "application/json"} if draw.random() < 0.8 else {}
        if method not in ("GET", "HEAD"):
            headers["origin"] = "http://testserver"
            if draw.random() < 0.9 and self._path != LOG_OUT:
                headers["x-csrf-token"] = self._sender.csrf
        while self._is_odd(n_odd):
            name = draw.choice(tuple(ODD_HEADERS))
            headers[name] = draw.choice(ODD_HEADERS[name])
        return headers

    def _body(
        self, operation: Operation, n_odd: int
    ) -> tuple[bytes | None, Sequence[tuple[str, Any]] | None, str | None]:
        """Returns the content, or the parts of a form with files, and the content type."""
        draw = self._random
        if self._is_odd(n_odd):
            return draw.choice(ODD_BODIES), None, draw.choice(CONTENT_TYPES)
        if operation.body is not None:
            value = self._json(operation.body, n_odd)
            return json.dumps(value).encode("utf-8", "replace"), None, "application/json"
        names = draw.sample(sorted(FIELDS), draw.randint(0, min(12, len(FIELDS))))
        texts = [(name, self._field(name, n_odd)) for name in names]
        if draw.random() < 0.2:
            content = draw.choice((b"", b"%PDF-1.7", b"\x89PNG", b"\x00" * 5000, b"task,value.x\n1,2", b"\xff\xfe"))
            name = draw.choice(("file", "files", "files", "x"))
            file_name = draw.choice(("a.pdf", "", "../../x", "a" * 500, "\u202e.csv"))
            parts: list[tuple[str, Any]] = [(each, (None, text.encode("utf-8", "replace"))) for each, text in texts]
            return None, [*parts, (name, (file_name, content, "text/csv"))], None
        pairs = [f"{_quoted(name)}={_quoted(text)}" for name, text in texts]
        return "&".join(pairs).encode(), None, "application/x-www-form-urlencoded"

    def _field(self, name: str, n_odd: int) -> str:
        draw = self._random
        known = (*FIELDS[name], *self._sender.known.get(name, ()))
        if known and not self._is_odd(n_odd):
            return draw.choice(known)
        return draw.choice(ODD_TEXTS)

    def _json(self, schema: Mapping[str, Any], n_odd: int) -> Any:
        """Returns a value of a JSON schema, or an odd one."""
        draw = self._random
        if self._is_odd(n_odd):
            return draw.choice(ODD_JSON)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if choices:
            return self._json(draw.choice(choices), n_odd)
        if "enum" in schema:
            return draw.choice(schema["enum"])
        if "const" in schema:
            return schema["const"]
        match schema.get("type"):
            case "object":
                return self._object(schema, n_odd)
            case "array":
                return [self._json(schema.get("items", {}), n_odd) for _ in range(draw.choice((0, 1, 3)))]
            case "integer" | "number":
                lowest = schema.get("minimum", schema.get("exclusiveMinimum", -5))
                highest = schema.get("maximum", schema.get("exclusiveMaximum", 10**9))
                return draw.choice((lowest, highest, lowest + 1, 1, 0))
            case "boolean":
                return draw.random() < 0.5
            case "null":
                return None
            case _:
                longest = schema.get("maxLength", 100)
                shortest = schema.get("minLength", 0)
                return draw.choice(("x" * shortest, "x" * longest, "1 eV", "x" * (longest + 1)))

    def _object(self, schema: Mapping[str, Any], n_odd: int) -> dict[str, Any]:
        draw = self._random
        value = {}
        for name, part in schema.get("properties", {}).items():
            if name in schema.get("required", ()) or draw.random() < 0.6:
                value[name] = self._json(part, n_odd)
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            names = self._sender.known.get("property", ())
            texts = ODD_TEXTS if draw.random() < 0.5 else ("4.2 eV", "0.1")
            value |= {name: draw.choice(texts) for name in names}
        if self._is_odd(n_odd):
            value[draw.choice(ODD_TEXTS)] = draw.choice(ODD_JSON)
        return value


MAX_ADDRESS = 60_000  # the client sends no longer one


def _quoted(text: str) -> str:
    # the client refuses longer addresses by itself, and so does the server, whose headers end at 32 KiB
    return quote(text.encode("utf-8", "surrogatepass")[:10_000], safe="")


def answer(sender: Sender, request: OddRequest) -> Outcome:
    """Sends a request, and returns what came of it."""
    named: dict[str, Any] = {"content": request.content} if request.files is None else {"files": request.files}
    headers = {name.encode(): value.encode("latin-1") for name, value in request.headers.items()}
    try:
        reply: Response = sender.client.request(
            request.method,
            request.address,
            headers=headers,  # type: ignore[arg-type]
            follow_redirects=False,
            **named,
        )
    except Exception as error:  # noqa: BLE001  the client raises what the application raises
        return Outcome(500, cause_of(error))
    return Outcome(reply.status_code, f"status {reply.status_code}" if reply.status_code >= 500 else None)


def cause_of(error: Exception) -> str:
    """Returns the kind of an error, and the last line of the product that it passed."""
    where = "elsewhere"
    for frame in traceback.extract_tb(error.__traceback__):
        if "/sciagent/" in frame.filename:
            where = f"{frame.filename.rpartition('/sciagent/')[2]}:{frame.lineno}"
        elif where == "elsewhere":
            where = f"{frame.filename.rpartition('/site-packages/')[2]}:{frame.lineno}"
    return f"{type(error).__name__} at {where}: {str(error)[:120]}"


def is_sendable(sender: Sender, request: OddRequest) -> bool:
    """Returns whether the answer ends: the stream of a person who may see it does not."""
    return not (sender.csrf and request.address.startswith(ENDLESS) and request.method in ("GET", "HEAD"))
