"""What compose starts, started here with its own command lines and variables, from what the image holds: PostgreSQL,
the broker with its secret, migrate, dispatcher, workers, metrics. A campaign is handed in and ends."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from tests.docker.images import DOCKER, compose
from tests.docker.place import Image
from tests.docker.test_compose import SECRETS, setup
from tests.support.servers.process import free_port
from tests.support.servers.valkey import binaries

pytestmark = pytest.mark.slow

SERVICES = compose()["services"]
STAY = ("dispatcher", "simulation", "high_fidelity", "metrics")
CAMPAIGN = """\
campaign: by-compose
subject: molecule
objectives:
  - {property: homo_lumo_gap, window: [1.0, 4.0], unit: eV}
ladder:
  - {rung: checks, verifier: molecule.checks, settings: {max_heavy_atoms: 20}}
  - {rung: xtb, verifier: xtb.singlepoint}
goal: {kind: hits}
budget: {core_seconds: 600}
proposer: {kind: screen, file: molecules.csv}
"""


class Stack:
    """Services as processes of this machine, which share `port` for the metrics."""

    def __init__(self, place: Image, port: int) -> None:
        self.place, self._port = place, port
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def _words(self, words: list[str]) -> list[str]:
        return [
            word.replace("0.0.0.0:9464", f"127.0.0.1:{self._port}").replace("127.0.0.1:9464", f"127.0.0.1:{self._port}")
            for word in words
        ]

    def start(self, name: str) -> None:
        words = ["sciagent", *self._words(SERVICES[name]["command"])]
        log = self.place.base / "tmp" / f"{name}.log"
        self.processes[name] = self.place.start(words, SERVICES[name]["environment"], log)

    def once(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = words or tuple(SERVICES[name]["command"])
        return self.place.run("sciagent", *command, more=SERVICES[name]["environment"])

    def healthy(self, name: str) -> bool:
        kind, *words = self._words(SERVICES[name]["healthcheck"]["test"])
        assert kind == "CMD"
        return self.place.run(*words, more=SERVICES[name]["environment"]).returncode == 0

    def said(self, name: str) -> str:
        return (self.place.base / "tmp" / f"{name}.log").read_text(encoding="utf-8")[-3000:]

    def wait(self, name: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while not self.healthy(name):
            assert self.processes[name].poll() is None and time.monotonic() < end, self.said(name)
            time.sleep(1)


@pytest.fixture
def stack(installed: Image, postgres_url: str, tmp_path: Path) -> Iterator[Stack]:
    """All is up and healthy."""
    made = tmp_path / "docker"
    shutil.copytree(DOCKER, made, ignore=shutil.ignore_patterns(".env", "allow.yaml", *SECRETS))
    assert setup(made).returncode == 0
    secrets, port = installed.base / "run" / "secrets", free_port()
    shutil.copytree(made / "secrets", secrets)
    listed = (made / "allow" / "allow.yaml").read_text(encoding="utf-8")
    allow = installed.base / "etc" / "sciagent" / "allow.yaml"
    allow.parent.mkdir(parents=True)
    allow.write_text(listed.replace("[/campaigns]", f"[{installed.base / 'campaigns'}]"), encoding="utf-8")
    allow.chmod(0o644)
    plain = make_url(postgres_url).set(drivername="postgresql").render_as_string(hide_password=False)
    (secrets / "ledger_url").write_text(plain + "\n", encoding="utf-8")
    broker = (secrets / "broker_url").read_text(encoding="utf-8")
    (secrets / "broker_url").write_text(broker.replace("valkey:6379", f"127.0.0.1:{port}"), encoding="utf-8")
    (installed.base / "campaigns" / "small.yaml").write_text(CAMPAIGN, encoding="utf-8")
    molecules = "smiles\nc1ccccc1C=O\nC1=CC=CC=C1C=CC=O\nCCO\nO=C1C=CC(=O)C=C1\n"
    (installed.base / "campaigns" / "molecules.csv").write_text(molecules, encoding="utf-8")
    found = Stack(installed, free_port())
    with ExitStack() as ending:
        valkey = [binaries()[0], secrets / "valkey.conf", "--port", f"{port}", "--bind", "127.0.0.1", "--dir", tmp_path]
        server = subprocess.Popen(valkey, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ending.callback(server.wait, 30)
        ending.callback(server.terminate)
        migrated = found.once("migrate")
        assert migrated.returncode == 0, migrated.stderr
        for name in STAY:
            found.start(name)
            ending.callback(found.processes[name].kill)
        for name in STAY:
            found.wait(name)
        yield found


def test_a_campaign_handed_in_is_driven_to_its_end_and_all_leave_when_told(stack: Stack) -> None:
    submitted = stack.once("cli", "run", "/campaigns/small.yaml", "--submit")
    assert submitted.returncode == 0, submitted.stderr
    end = time.monotonic() + 240
    while (status := json.loads(stack.once("cli", "status", "by-compose", "--json").stdout))["state"] != "finished":
        assert time.monotonic() < end, "\n".join(map(stack.said, STAY))
        time.sleep(2)
    (xtb,) = [one for one in status["rungs"] if one["rung"] == "xtb"]
    assert (xtb["done"], xtb["errors"]) == (4, 0)
    for name in STAY:
        stack.processes[name].send_signal(signal.SIGTERM)
    assert {name: stack.processes[name].wait(timeout=60) for name in STAY} == dict.fromkeys(STAY, 0)
    assert (stack.place.base / "data" / "reports" / "by-compose.report.html").exists()
