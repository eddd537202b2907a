"""An environment over HTTP: requests and replies are JSON, and a refused request says why.

`application` makes the ASGI application, `guarded` puts a check of tokens, hosts and origins before it, and
`EnvironmentServer` serves it beside the main thread, until it is stopped or its environment ends.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.safe_text_and_durations import read_id
from sciagent.errors import EpisodeError, SciagentError, UsageError, did_you_mean
from sciagent.training.environment.checked_client_input import shown
from sciagent.training.environment.environment import Environment

MAX_BODY = 1_000_000  # bytes of a request
EXTRA_THREADS = 64  # for requests, beside one thread for each open episode
OPEN_KEYS = ("task", "seed", "group", "siblings", "policy", "purpose")
"""Keys of a request that opens an episode."""
JSON_TYPE = "application/json"
"""Content type of requests that change something. A form of a web page cannot send it to another server."""
READING_METHODS = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
POLICY_VIOLATION = 1008  # code with which a websocket closes if its request is refused
MAX_CLOSE_REASON = 100  # characters; the protocol allows 123 bytes
ORIGIN = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?/?")
USUAL_PORTS = {"http": "80", "https": "443"}
"""Ports that browsers leave out of an origin, by its scheme."""
Handler = Callable[[Request], Awaitable[Any]]
"""Returns the answer to a request, as values that can be written as JSON."""


def application(environment: Environment) -> ASGIApp:
    """Returns the ASGI application of an environment."""
    app = _Application(environment)
    routes = [
        Route("/health", app.health),
        Route("/tasks", app.with_json(app.tasks)),
        Route("/episodes", app.with_json(app.open), methods=["POST"]),
        Route("/episodes/{number}/turns", app.with_json(app.turn), methods=["POST"]),
        Route("/episodes/{number}/calls", app.with_json(app.call), methods=["POST"]),
        Route("/episodes/{number}/end", app.with_json(app.end), methods=["POST"]),
        Route("/episodes/{number}/rewards", app.with_json(app.rewards)),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})


def guarded(app: ASGIApp, token: str | None, hosts: Sequence[str], origins: Sequence[str] = ()) -> ASGIApp:
    """Returns an application that answers only permitted clients. Without this check, any web page could send requests
    to a server of this machine.

    token: text that clients have to show; None: they need not show one. hosts: names under which clients may reach the
    server; empty: any name. origins: other servers whose pages may ask, as `checked_origin` returns them.
    """
    guard = _Guard(app, token, hosts, origins)
    if not origins:
        return guard
    # before a page of another server sends JSON, the browser asks without the token whether the page may do so
    return CORSMiddleware(guard, origins, ("GET", "POST"), allow_headers=("Authorization", "Content-Type"))


def checked_origin(text: str) -> str:
    """Returns an origin as a browser writes it. Raises UsageError."""
    match = ORIGIN.fullmatch(text.strip().lower())
    if match is None:
        raise UsageError(
            f"--allow-origin {shown(text)}: name a scheme, a host and, if it is not the usual one, a port, as in "
            "https://lab.example.org or http://localhost:3000"
        )
    scheme, host, port = match.groups()
    if port in (None, USUAL_PORTS[scheme]):
        return f"{scheme}://{host}"
    return f"{scheme}://{host}:{port}"


class _Application:
    """The handlers of the routes. Each runs in a thread, since a turn waits for the ladder."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._threads = ThreadPoolExecutor(environment.most + EXTRA_THREADS, thread_name_prefix="client")

    def with_json(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Returns a handler that sends the answer of `handler` as JSON, and its errors as refusals."""

        async def respond(request: Request) -> Response:
            try:
                return _json(200, plain(await handler(request)))
            except EpisodeError as error:
                return refusal(error.status, str(error))
            except SciagentError as error:
                return refusal(500, str(error))
            except ClientDisconnect:
                return refusal(400, "the client left before its request was complete")

        return respond

    async def health(self, request: Request) -> Response:
        why_closed = self._environment.why_closed
        if why_closed is not None:
            return _json(503, {"status": why_closed})
        return _json(200, {"status": "ok"})

    async def tasks(self, request: Request) -> Any:
        n = _number(request, "n", default=1, read=int)
        return {"campaign": self._environment.campaign, "tasks": await self._run(self._environment.tasks, n)}

    async def open(self, request: Request) -> Any:
        body = await _body(request, OPEN_KEYS)
        episode = await self._run(self._environment.open, **body)
        return episode.opened

    async def turn(self, request: Request) -> Any:
        body = await _body(request, ("message", "usage", "turn"), required=("message",))
        return await self._run(self._environment.turn, _episode_number(request), **body)

    async def call(self, request: Request) -> Any:
        body = await _body(request, ("name", "arguments", "turn"), required=("name",))
        return await self._run(self._environment.call, _episode_number(request), **{"arguments": {}, **body})

    async def end(self, request: Request) -> Any:
        wait = _number(request, "wait", default=0.0, read=float)
        return await self._run(self._environment.end, _episode_number(request), wait)

    async def rewards(self, request: Request) -> Any:
        wait = _number(request, "wait", default=0.0, read=float)
        return await self._run(self._environment.rewards, _episode_number(request), wait)

    async def _run(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Calls a method in a thread; returns its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(method, *arguments, **named))


class _Guard:
    """Lets a request through if it shows the token, names a known host, comes from no page of an unknown server, and
    sends JSON if it changes something."""

    def __init__(self, app: ASGIApp, token: str | None, hosts: Sequence[str], origins: Sequence[str]) -> None:
        self._app = app
        self._token = token
        self._hosts = hosts
        self._origins = origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = None
        if "headers" in scope:
            fault = self._fault(Headers(scope=scope), scope.get("method", "GET"))
        if fault is None:
            await self._app(scope, receive, send)
            return
        status, reason = fault
        if scope["type"] == "http":
            await refusal(status, reason)(scope, receive, send)
        else:
            short_reason = reason[:MAX_CLOSE_REASON]
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": short_reason})

    def _fault(self, headers: Headers, method: str) -> tuple[int, str] | None:
        """Returns the status and the reason of a refusal; None if the request is served."""
        address = headers.get("host", "")
        host = _without_port(address)
        if self._hosts and host.strip("[]") not in self._hosts:
            return 403, f"the host {shown(host)} is not served here; it is {' or '.join(self._hosts)}"
        for origin in headers.getlist("origin"):
            is_own = origin in (f"http://{address}", f"https://{address}")
            if not is_own and origin not in self._origins:
                return 403, (
                    f"pages of {shown(origin)} may not ask here; the option --allow-origin of `sciagent environment "
                    "serve` names servers whose pages may"
                )
        given = headers.get("authorization", "").encode("latin-1")
        if self._token is not None and not hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return 401, "show the token of this environment, as in: Authorization: Bearer TOKEN"
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if method not in READING_METHODS and content_type != JSON_TYPE:
            return 415, f"send JSON, with the header Content-Type: {JSON_TYPE}; this is {shown(content_type)}"
        return None


def _without_port(address: str) -> str:
    """Returns the host of a header `Host`; an IPv6 address keeps its brackets, and its colons begin no port."""
    if address.endswith("]"):
        return address
    return address.rpartition(":")[0] or address


def refusal(status: int, message: str) -> Response:
    """Returns the response to a request that is refused."""
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return _json(status, {"error": message}, headers)


def _json(status: int, content: Any, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse(content, status, headers)


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        return refusal(405, f"{request.url.path} does not take {request.method}")
    return refusal(error.status_code, f"there is no {request.url.path} here; see docs/environments.md")


async def _body(request: Request, known: Sequence[str], required: Sequence[str] = ()) -> Mapping[str, Any]:
    """Returns the JSON object of a request. Raises EpisodeError."""
    text = bytearray()
    async for part in request.stream():
        text += part
        if len(text) > MAX_BODY:
            raise EpisodeError(413, f"the request has over {MAX_BODY} bytes")
    try:
        body = json.loads(bytes(text) or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise EpisodeError(400, f"the request is no JSON: {error}") from None
    if not isinstance(body, dict):
        raise EpisodeError(400, "the request must be a JSON object")
    for name in body:
        if name not in known:
            near = did_you_mean(name, known)
            raise EpisodeError(400, f"unknown key {shown(name)}{near}; this request takes: {', '.join(known)}")
    for name in required:
        if name not in body:
            raise EpisodeError(400, f"{name}: missing; this request needs it")
    return body


def _refuse_constant(text: str) -> float:
    """Raises ValueError, since `NaN` and `Infinity` are no JSON."""
    raise ValueError(f"{text} is no JSON number")


def _episode_number(request: Request) -> int:
    """Returns the number of the episode in the address. Raises EpisodeError with 404 for a text that is none."""
    text = request.path_params["number"]
    number = read_id(text)
    if number is None:
        raise EpisodeError(404, f"no episode with the number {shown(text)} is open here")
    return number


def _number(request: Request, name: str, *, default: Any, read: Callable[[str], Any]) -> Any:
    """Returns a number of the query, or the default. read: makes it from its text. Raises EpisodeError."""
    given = request.query_params.get(name)
    try:
        return default if given is None else read(given)
    except ValueError:
        raise EpisodeError(400, f"{name}: {shown(given)} is no number") from None


LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
"""Hosts under which only clients of this machine reach a server."""
MAX_WAITING_CLIENTS = 2048  # clients that may connect before the server answers
SHUTDOWN_SECONDS = 10  # time in which running requests may end
LOOK_SECONDS = 0.2  # time between two looks whether the environment has ended


class EnvironmentServer:
    """A server of an ASGI application. The port is taken at once, so that the address is known before it starts."""

    def __init__(self, host: str, port: int) -> None:
        """port: 0 for any free port. Raises UsageError if it cannot be opened."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(MAX_WAITING_CLIENTS)
        except OSError as error:
            self._socket.close()
            raise UsageError(f"cannot listen at {host}:{port}: {error.strerror or error}; name another port") from error
        self._stopping = threading.Event()
        url_host = f"[{host}]" if ":" in host else host
        self.url = f"http://{url_host}:{self._socket.getsockname()[1]}"

    def serve(self, app: Any, environment: Environment) -> None:
        """Serves until the environment ends, or `stop` is called."""
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=SHUTDOWN_SECONDS, lifespan="off")
        server = uvicorn.Server(config)
        # the server has a thread of its own, since uvicorn would take over the signals in the main thread
        thread = threading.Thread(target=server.run, kwargs={"sockets": [self._socket]}, name="server")
        thread.start()
        while environment.why_closed is None and thread.is_alive() and not self._stopping.wait(LOOK_SECONDS):
            pass
        server.should_exit = True
        thread.join()
        self._socket.close()

    def stop(self) -> None:
        """Ends the server and leaves its environment open. May be called from any thread."""
        self._stopping.set()

    def close(self) -> None:
        """Gives back the port of a server that has not served."""
        self._socket.close()


def hosts_of(host: str, token: str | None) -> Sequence[str]:
    """Returns the names under which clients may reach a server. With a token, any name may, and the answer is empty.

    host: the address at which the server listens. Raises UsageError if other machines reach it and there is no token.
    """
    if token is not None:
        return ()
    if host not in LOCAL_HOSTS:
        raise UsageError(f"others reach {host}: set SCIAGENT_ENVIRONMENT_TOKEN to a token that clients must show")
    return LOCAL_HOSTS
