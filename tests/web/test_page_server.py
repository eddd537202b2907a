"""A real server ends what is too slow, and answers while others hold connections half open."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sciagent.web import open_connections, page_server
from sciagent.web.page_server import PageServer


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


async def count(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


async def much(request: Request) -> Response:
    return PlainTextResponse("x" * 50_000_000)


APP = Starlette(routes=[Route("/", hello), Route("/count", count, methods=["POST"]), Route("/much", much)])


@contextlib.contextmanager
def serving(**more: Path) -> Iterator[PageServer]:
    server = PageServer(APP, "127.0.0.1", 0, **more)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        with contextlib.suppress(httpx2.HTTPError):
            httpx2.get(server.url)  # it has begun to listen
        yield server
    finally:
        server.stop()
        thread.join(10)


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serving() as running:
        yield running


def connected(server: PageServer, sent: bytes = b"", receive_buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(30)  # a full queue of connections is asked again after 1, 3 and 7 seconds
    client.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
    client.settimeout(10)
    client.sendall(sent)
    return client


def is_ended(client: socket.socket) -> bool:
    """Whether the server ends the connection in the next seconds."""
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: localh", b"\x16\x03\x01"])
def test_half_a_request_is_ended(server: PageServer, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(page_server, "HEADER_SECONDS", 0.5)
    assert is_ended(connected(server, sent))


def test_a_second_request_that_is_half_sent_is_ended(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "HEADER_SECONDS", 0.5)
    client = connected(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET /")
    assert client.recv(65536).startswith(b"HTTP/1.1 200")
    assert is_ended(client)


def test_a_body_that_does_not_come_is_ended(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "BODY_GRACE_SECONDS", 0.5)
    head = b"POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
    assert is_ended(connected(server, head + b"x"))


def test_a_slow_body_passes_if_it_keeps_coming(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "BODY_GRACE_SECONDS", 1.5)
    client = connected(server, b"POST /count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(20):
        client.sendall(b"x" * 5000)  # 25 kB a second, for longer than the grace
        time.sleep(0.2)
    assert client.recv(65536).endswith(b"100000")


def test_a_client_that_does_not_read_is_ended(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "READ_SECONDS", 0.5)
    client = connected(server, b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n", receive_buffer=4096)
    time.sleep(3)
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1_000_000):
            received += len(part)
    assert 0 < received < 40_000_000


def test_a_client_that_reads_slowly_gets_the_whole_answer(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "HEADER_SECONDS", 1)
    monkeypatch.setattr(page_server, "READ_SECONDS", 2.5)
    head = b"GET /much HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    client = connected(server, head, receive_buffer=65536)
    received = 0
    for _ in range(22):
        received += len(client.recv(65536))
        time.sleep(0.2)
    while part := client.recv(1_000_000):
        received += len(part)
    assert received > 50_000_000


@pytest.mark.parametrize(("size", "status"), [(30_000, b"200"), (34_000, b"400"), (60_000, b"400"), (200_000, b"400")])
def test_headers_beyond_32_kib_are_refused_however_they_come(server: PageServer, size: int, status: bytes) -> None:
    """With a body beside them, which is read as one piece."""
    start = b"POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 20000\r\nX-Long: "
    with connected(server, start + b"a" * size + b"\r\n\r\n" + b"b" * 20_000) as client:
        answer = client.recv(65536)
        while status == b"200" and not answer.endswith(b"20000"):
            answer += client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 " + status)


def test_half_a_tls_handshake_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = tmp_path / "lab.pem"
    key = tmp_path / "lab.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    monkeypatch.setattr(open_connections, "HANDSHAKE_SECONDS", 0.5)
    with serving(tls_cert=certificate, tls_key=key) as server:
        half_open = [connected(server, sent) for sent in (b"", b"\x16\x03\x01")]
        assert all(is_ended(client) for client in half_open)
        trusted = ssl.create_default_context(cafile=str(certificate))
        assert httpx2.get(server.url.replace("127.0.0.1", "localhost"), verify=trusted).text == "hello"


def test_the_page_answers_beside_1500_half_open_connections() -> None:
    """In a process of its own, since both ends of a connection are files of this one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with serving() as server, contextlib.ExitStack() as stack:
        before = httpx2.get(server.url).text
        for _ in range(1500):
            stack.enter_context(contextlib.closing(connected(server, b"GET / HT")))
        # sooner than the half-open connections end by themselves
        assert httpx2.get(server.url, timeout=9).text == before == "hello"
        assert len(server.connections) <= open_connections.MOST_OF_ADDRESS


FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from sciagent.web import open_connections
from tests.web.test_page_server import APP
from sciagent.web.page_server import PageServer
open_connections.FEWEST_CONNECTIONS = 1000  # more than there are files
server = PageServer(APP, "127.0.0.1", 0)
print(server.url, flush=True)
server.run()
"""


def test_a_full_table_of_files_neither_ends_the_service_nor_fills_the_log(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", FULL], stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    port = int(process.stdout.readline().strip().rpartition(":")[2])
    clients: list[socket.socket] = []
    try:
        while not clients:  # it takes a moment until it listens
            with contextlib.suppress(ConnectionRefusedError):
                clients.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        for _ in range(300):
            client = socket.create_connection(("127.0.0.1", port), timeout=10)
            clients.append(client)
            with contextlib.suppress(OSError):
                client.sendall(b"GET / HT")
        time.sleep(2)
        answers = []
        for _ in range(3):
            with contextlib.suppress(httpx2.HTTPError):
                answers.append(httpx2.get(f"http://127.0.0.1:{port}/", timeout=5).text)
        assert "hello" in answers
        assert process.poll() is None
    finally:
        for client in clients:
            client.close()
        process.terminate()
        process.wait(10)
    written = (tmp_path / "log").read_text()
    assert len(written) < 5000, written[:2000]
