"""`sciagent serve` as a process: killed while ten clients send, and started again, it has each result once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.people import Right, Role
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons, sessions_and_tokens
from tests.lab.conftest import CAMPAIGN, drive
from tests.support.campaigns import environment
from tests.support.elsewhere import list_of_folder, until
from tests.support.servers.process import free_port

backends = [pytest.param("sqlite", marks=pytest.mark.long), pytest.param("postgresql", marks=pytest.mark.slow)]
pytestmark = pytest.mark.parametrize("backend", backends, indirect=True)
CLIENTS, RESULTS = 10, 200


@contextmanager
def served(url: str, artifacts: Path, port: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "sciagent", "serve", "--port", str(port), "--ledger", url, *options]
    variables = {"SCIAGENT_ARTIFACTS": str(artifacts)}
    if url.startswith("postgresql"):
        variables |= list_of_folder(artifacts.parent)
    process = subprocess.Popen(command, env=environment(**variables), stderr=subprocess.DEVNULL, cwd=artifacts.parent)
    try:
        until(lambda: answers(port))
        yield process
    finally:
        beside = psutil.Process(process.pid).children() if process.poll() is None else []
        process.terminate()
        process.wait(timeout=90)
        assert not psutil.wait_procs(beside, timeout=30)[1], "the dispatcher ends with its server"


def answers(port: int) -> bool:
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/login").status_code == 200
    except httpx2.HTTPError:
        return False


def test_two_hundred_results_survive_a_killed_server(ledger: Ledger, tmp_path: Path) -> None:
    ends = ("O", "N", "F", "Cl", "C=O", "C#N", "C(=O)O", "C(N)=O", "c1ccccc1", "OC")
    smiles = [f"{'C' * n}{end}" for end in ends for n in range(2, 23)][: RESULTS + 5]
    (tmp_path / "molecules.csv").write_text("smiles\n" + "\n".join(smiles) + "\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab="{ahead: 300}", budget="{lab_slots: 500}", high=4.6)
    text = text.replace("count: 2", "count: 500")
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    drive(built)
    with ledger.begin() as connection:
        person = persons.add(connection, "root", "balance", "Balance")
        persons.set_role(connection, "root", person.id, Role.LAB, None)
        scopes = (Right.READ, Right.WORK)
        token, _ = sessions_and_tokens.create(
            connection, "root", person.id, sessions_and_tokens.AccessKind.TOKEN, scopes=scopes
        )
        job = t.job.c
        query = sa.select(job.id).where(job.queue == "world").order_by(job.id).limit(RESULTS)
        task_ids = list(connection.execute(query).scalars())
    assert len(task_ids) == RESULTS
    url = ledger.url.render_as_string(hide_password=False) if ledger.url.host else str(ledger.url.database)
    port, done, lock = free_port(), [], threading.Lock()
    address = f"http://127.0.0.1:{port}/api/v1/tasks"

    def send(mine: list[int]) -> None:
        client = httpx2.Client(headers={"authorization": f"Bearer {token}"}, timeout=30)
        for task in mine:
            value = f"{3.5 + task % 20 / 10:.2f} eV"
            result = {"values": {"homo_lumo_gap": value}}
            headers = {"idempotency-key": f"balance-{task:08d}"}
            while True:
                try:
                    reply = client.post(f"{address}/{task}/results", json=result, headers=headers)
                except httpx2.HTTPError:
                    time.sleep(0.2)
                    continue
                if reply.status_code < 500:
                    with lock:
                        done.append((task, reply.status_code))
                    break
                time.sleep(0.2)

    threads = [threading.Thread(target=send, args=(task_ids[n::CLIENTS],)) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for share in (0.25, 0.6, 1.0):
        with served(url, ledger.artifacts.root, port, "--no-dispatcher") as process:
            until(lambda share=share: len(done) >= share * RESULTS, seconds=90)  # type: ignore[misc]
            process.kill()
    for thread in threads:
        thread.join(timeout=10)
    assert sorted(done) == [(task, 200) for task in sorted(task_ids)]
    with ledger.read() as connection:
        s, e = t.submission.c, t.evidence.c
        assert sorted(connection.execute(sa.select(s.job_id)).scalars()) == sorted(task_ids)
        measured = sa.select(sa.func.count()).where(e.verifier == "lab.measurement")
        assert connection.execute(measured).scalar() == RESULTS
        assert audit.check(connection).fault is None


def test_the_dispatcher_beside_the_pages_goes_on_after_an_answer(ledger: Ledger, tmp_path: Path) -> None:
    """A person logs in through the form and answers; the campaign ends by itself."""
    from tests.browser.lab_server import password

    (tmp_path / "molecules.csv").write_text("smiles\nOc1ccccc1\nCCO\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab="{ahead: 9}", budget="{lab_slots: 9}", high=4.6)
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with ledger.begin() as connection:
        from sciagent.store.campaign_state import campaigns
        from sciagent.web import visitors_and_passwords

        campaigns.set_hosted(connection, built.row.id, True)
        person = persons.add(connection, "root", "anna", "Anna")
        persons.set_role(connection, "root", person.id, Role.LAB, None)
        persons.set_password(connection, "anna", person.id, visitors_and_passwords.hashed(password("anna"), "anna"))
    url = ledger.url.render_as_string(hide_password=False) if ledger.url.host else str(ledger.url.database)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    with served(url, ledger.artifacts.root, port), httpx2.Client(base_url=address, headers={"origin": address}) as anna:
        said = {"login": "anna", "password": password("anna")}
        csrf = anna.post("/login", data=said, headers={"accept": "application/json"}).json()["csrf"]
        listed = until(
            lambda: (found := anna.get("/api/v1/tasks").json()["tasks"]) and len(found) == 2 and found, seconds=120
        )
        for task in listed:
            fields = {"csrf": csrf, "key": f"key-{task['task']}-0001", "value.homo_lumo_gap": "4.3 eV"}
            assert anna.post(f"/tasks/{task['task']}/enter", data=fields).status_code == 303

        def state() -> str:
            with ledger.read() as connection:
                return str(connection.execute(sa.select(t.campaign.c.state)).scalar_one())

        until(lambda: state() == "finished", seconds=120)
        assert '<dd id="hits">2</dd>' in until(lambda: (p := anna.get("/campaigns/gaps").text) and "2</dd>" in p and p)
