"""What a container asks itself: whether the ledger answers, whether its worker speaks, whether an address answers."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers_and_capacity
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.docker.images import DOCKER


def load() -> ModuleType:
    """The script as a module: started by itself it takes a second to import what it needs."""
    spec = importlib.util.spec_from_file_location("docker_health", DOCKER / "health.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    script = load()

    def asked(*arguments: str, ledger: str = "nowhere.db") -> tuple[int, str]:
        monkeypatch.setenv("SCIAGENT_LEDGER", ledger)
        return script.main(list(arguments)), capsys.readouterr().err

    return asked


Ask = Callable[..., tuple[int, str]]


def test_a_ledger_at_the_revision_is_healthy_and_a_worker_while_it_speaks(
    ask: Ask, ledger: Ledger, ledger_url: str
) -> None:
    assert ask("ledger", ledger=ledger_url) == (0, "")
    assert ask("worker", ledger=ledger_url)[0] == 1
    with ledger.begin() as connection:
        workers_and_capacity.register(
            connection, NewWorker("one", socket.gethostname(), 1, "ledger", ("simulation",), 1)
        )
        workers_and_capacity.register(connection, NewWorker("two", "elsewhere", 1, "ledger", ("simulation",), 1))
    assert ask("worker", ledger=ledger_url) == (0, "")
    with ledger.begin() as connection:
        long_ago = sa.func.datetime("now", "-1 hour") if connection.dialect.name == "sqlite" else sa.func.now()
        connection.execute(sa.update(t.worker).where(t.worker.c.name == "one").values(until=long_ago))
    code, why = ask("worker", ledger=ledger_url)
    assert code == 1 and "no worker of this host" in why


def test_a_ledger_that_is_not_ready_is_not_healthy(ask: Ask, empty_url: str) -> None:
    code, why = ask("ledger", ledger=empty_url)
    assert code == 1 and ("needs" in why or "there is no ledger" in why)


def test_the_password_of_a_ledger_that_is_away_is_not_told(ask: Ask) -> None:
    code, why = ask("ledger", ledger="postgresql://me:hush@127.0.0.1:1/none")
    assert code == 1 and "does not answer" in why and "hush" not in why


def test_an_address_is_healthy_if_it_answers(ask: Ask) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 500)
            self.end_headers()
            self.wfile.write(b"up 1\n")

        def log_message(self, format: str, *arguments: object) -> None:
            return None

    server = HTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = f"http://127.0.0.1:{server.server_port}"
    try:
        assert ask("http", f"{at}/metrics") == (0, "")
        assert ask("http", f"{at}/else")[0] == 1
    finally:
        server.shutdown()
        server.server_close()
    assert ask("http", f"{at}/metrics")[0] == 1


def test_what_it_is_not_told_how_to_ask_is_a_mistake(ask: Ask) -> None:
    code, why = ask("everything")
    assert code == 2 and "health.py ledger" in why


def test_it_runs_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, DOCKER / "health.py", "ledger"],
        cwd=tmp_path,
        env=os.environ | {"SCIAGENT_LEDGER": "none.db"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1 and "there is no ledger at" in done.stderr
