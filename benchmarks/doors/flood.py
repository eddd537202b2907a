"""A person's page beside attackers: `python -m benchmarks.doors.flood -o benchmarks/doors/results/flood.json`.

A server runs in a process of its own, the attackers in another one, and a person asks for a page every 50 ms. Windows
with and without attackers alternate, so that other work on the machine meets both.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.doors.fuzz import made_ledger
from sciagent.domain.people import Role
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import persons, sessions_and_tokens
from tests.support.servers.process import free_port

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = 24
HALF_OPEN = 1500
PAUSE_SECONDS = 0.05
FACTOR = 3.0
"""The person's p95 with attackers may be this many times its value without."""


def log_in(port: int, number: int, done: threading.Event, statuses: Counter[int]) -> None:
    """Sends one wrong login after the other, from an address of its own if several are told apart."""
    attempt = 0
    address = f"127.0.0.{number + 2}"
    while not done.is_set():
        attempt += 1
        body = urlencode({"login": f"nobody{number}x{attempt}", "password": f"wrong {attempt} password"})
        headers = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://127.0.0.1:{port}"}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0))
        try:
            connection.request("POST", "/login", body, headers)
            reply = connection.getresponse()
            reply.read()
            statuses[reply.status] += 1
        except (OSError, http.client.HTTPException):
            statuses[0] += 1
        finally:
            connection.close()


def half_open(port: int, number: int, done: threading.Event, statuses: Counter[int]) -> None:
    """Holds many connections with half a request each, and opens those anew that the server ends."""
    count = HALF_OPEN // CLIENTS + (number < HALF_OPEN % CLIENTS)
    held: list[socket.socket] = []
    while not done.wait(0.02):
        alive = []
        for client in held:
            try:
                ended = client.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            if ended:
                client.close()
            else:
                alive.append(client)
        held = alive
        while len(held) < count and not done.is_set():
            with suppress(OSError):
                client = socket.create_connection(("127.0.0.1", port), timeout=5)
                client.sendall(b"GET /login HTTP/1.1\r\nHost: local")
                held.append(client)
                statuses[1] += 1
    for client in held:
        client.close()


ATTACKS: Mapping[str, Callable[[int, int, threading.Event, Counter[int]], None]] = {
    "log-in": log_in,
    "half-open": half_open,
}


def attack(name: str, port: int) -> None:
    """Attacks in the windows that stdin names: `on`, `off`; writes what came of a window as JSON."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    while sys.stdin.readline().strip() == "on":
        done = threading.Event()
        statuses = Counter[int]()
        arguments = [(port, number, done, statuses) for number in range(CLIENTS)]
        threads = [threading.Thread(target=ATTACKS[name], args=each) for each in arguments]
        for thread in threads:
            thread.start()
        sys.stdin.readline()
        done.set()
        for thread in threads:
            thread.join()
        sys.stdout.write(json.dumps(statuses) + "\n")
        sys.stdout.flush()


@contextmanager
def serving(folder: Path) -> Iterator[int]:
    """The port of `sciagent serve` on the ledger of a folder."""
    port = free_port()
    command = [sys.executable, "-m", "sciagent", "serve", "--no-dispatcher", "--port", str(port)]
    environment = os.environ | {"SCIAGENT_ARTIFACTS": str(folder / "artifacts")}
    command += ["--ledger", str(folder / "ledger.db")]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, env=environment, stderr=log, cwd=ROOT)
    try:
        for _ in range(300):
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


def session(folder: Path) -> str:
    """Returns the cookie of a person."""
    ledger = Ledger(str(folder / "ledger.db"), artifacts=folder / "artifacts")
    with ledger.begin() as connection:
        person = persons.add(connection, "root", "anna", "Anna")
        persons.set_role(connection, "root", person.id, Role.LAB, None)
        secret, _ = sessions_and_tokens.create(connection, "anna", person.id, sessions_and_tokens.AccessKind.SESSION)
    ledger.close()
    return secret


def looked(port: int, cookie: str, seconds: float) -> list[float]:
    """Returns the seconds of each page that a person opens; a page that does not come counts 60."""
    times = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begun = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/tasks", headers={"cookie": f"sciagent={cookie}"})
            reply = connection.getresponse()
            reply.read()
            times.append(time.monotonic() - begun if reply.status == 200 else 60.0)
        except (OSError, http.client.HTTPException):
            times.append(60.0)
        finally:
            connection.close()
        time.sleep(PAUSE_SECONDS)
    return times


def p95(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=20)[-1]


def measured(name: str, pairs: int, seconds: float) -> Mapping[str, Any]:
    """The times of a page with and without attackers."""
    with tempfile.TemporaryDirectory() as folder_name, ExitStack() as stack:
        folder = Path(folder_name)
        made_ledger(folder)
        cookie = session(folder)
        port = stack.enter_context(serving(folder))
        command = [sys.executable, "-m", "benchmarks.doors.flood", "--attack", name, "--port", str(port)]
        attackers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert attackers.stdin is not None
        assert attackers.stdout is not None
        looked(port, cookie, 5.0)  # a server that has been up for a while
        idle: list[float] = []
        attacked: list[float] = []
        answers = Counter[str]()
        for _ in range(pairs):
            idle += looked(port, cookie, seconds)
            attackers.stdin.write("on\n")
            attackers.stdin.flush()
            time.sleep(1.0)
            attacked += looked(port, cookie, seconds)
            attackers.stdin.write("off\n")
            attackers.stdin.flush()
            answers.update(json.loads(attackers.stdout.readline()))
        attackers.stdin.close()
        attackers.wait()
        log_bytes = (folder / "log.txt").stat().st_size
    return {
        "clients": CLIENTS if name == "log-in" else HALF_OPEN,
        "windows": pairs,
        "window_seconds": seconds,
        "idle": {"pages": len(idle), "p50": round(statistics.median(idle), 4), "p95": round(p95(idle), 4)},
        "attacked": {
            "pages": len(attacked), "p50": round(statistics.median(attacked), 4), "p95": round(p95(attacked), 4),
            "max": round(max(attacked), 3), "not_answered": sum(each >= 60 for each in attacked),
        },
        "ratio_of_p95": round(p95(attacked) / p95(idle), 2),
        "answers_to_attackers": dict(answers),
        "log_bytes": log_bytes,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=6, help="windows of each kind")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a window")
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append", help="by default all")
    parser.add_argument("--attack", choices=sorted(ATTACKS), help="used by itself")
    parser.add_argument("--port", type=int, help="used by itself")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    if given.attack:
        attack(given.attack, given.port)
        return 0
    result: dict[str, Any] = {"python": platform.python_version(), "processors": os.cpu_count()}
    for name in given.only or ATTACKS:
        result[name] = measured(name, given.pairs, given.seconds)
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    if given.output:
        given.output.write_text(text + "\n", encoding="utf-8")
    is_met = True
    if "log-in" in result:
        is_met = result["log-in"]["ratio_of_p95"] <= FACTOR
    if "half-open" in result:
        is_met = is_met and result["half-open"]["attacked"]["not_answered"] == 0
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
