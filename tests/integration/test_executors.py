"""The same campaign wherever its jobs run: in this process, by workers, woken by a broker, on a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import environment, sciagent, write_campaign
from tests.support.servers.valkey import own_valkey
from tests.support.slurm_cluster import running_slurm

CAMPAIGNS = Path(__file__).parents[2] / "campaigns"
MOLECULES = ("C", "CO", "C=O", "CC#N", "C=C", "O=C=O")
SITE = """
site: tests
partitions:
  - {{name: short, max_minutes: 60, max_memory_mb: {memory_mb}, max_cores: 4}}
python: {python}
spool: {folder}/spool
slurm_conf: {conf}
wall: {{minimum_minutes: 1, warning_seconds: 10}}
memory: {{margin: 1, minimum_mb: 50}}
max_running: 2
poll_seconds: 0.5
"""


@contextmanager
def served(executor: str, folder: Path, memory_mb: int = 4000) -> Iterator[dict[str, str]]:
    """Whoever runs the jobs; what `run` finds in its environment."""
    if executor == "slurm":
        with running_slurm(memory_mb) as cluster:
            text = SITE.format(python=sys.executable, folder=folder, conf=cluster.conf, memory_mb=memory_mb)
            if "PYTHONPATH" in os.environ:  # where these tests have sciagent from
                text += "pass_environment: [PYTHONPATH]\n"
            (folder / "site.yaml").write_text(text)
            yield {"SCIAGENT_SLURM_SITE": "site.yaml"}
        return
    with own_valkey() as valkey:
        broker = {"SCIAGENT_BROKER": valkey.url}
        command = [sys.executable, "-m", "sciagent", "worker", "--executor", executor, "--slots", "2"]
        sciagent("db", "upgrade", cwd=folder, SCIAGENT_LEDGER="ledger.db")
        with (folder / "worker.log").open("wb") as log:
            worker = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(SCIAGENT_LEDGER="ledger.db", **broker),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield broker
        finally:
            worker.terminate()
            worker.wait(timeout=60)
        assert '"event": "ended"' in (folder / "worker.log").read_text()


def run(executor: str, folder: Path, **more: str) -> dict[str, Any]:
    """Evidence by key: outcome, and values by property; and what the campaign says of its candidates."""
    path = write_campaign(folder, molecules=MOLECULES, dft=3)
    text = path.read_text()
    for verifier in ("xtb.singlepoint", "pyscf.scf"):  # what the node of the tests has
        text = text.replace(f"verifier: {verifier}\n", f"verifier: {verifier}\n    limits: {{memory_mb: 2500}}\n")
    path.write_text(text)
    done = sciagent(
        "run",
        str(path),
        "--executor",
        executor,
        "--quiet",
        "--no-report",
        cwd=folder,
        expect=None,
        SCIAGENT_LEDGER="ledger.db",
        **more,
    )
    assert done.returncode in (0, 3), done.stderr
    return found_in(folder)


def found_in(folder: Path) -> dict[str, Any]:
    """Evidence by key, and under "places" what the campaign says of its candidates."""
    ledger = Ledger(str(folder / "ledger.db"))
    e, q = t.evidence.c, t.quantity.c
    found: dict[str, Any] = {}
    with ledger.read() as connection:
        for key, outcome, reason in connection.execute(sa.select(e.key, e.outcome, e.reason)):
            found[key] = (outcome, reason, {})
        query = sa.select(e.key, t.property_.c.name, q.value).join(t.quantity, q.evidence_id == e.id)
        for key, name, value in connection.execute(query.join(t.property_, t.property_.c.id == q.property_id)):
            found[key][2][name] = value
        places = sa.select(
            t.candidate.c.text,
            t.campaign_candidate.c.standing,
            t.campaign_candidate.c.verdict,
            t.campaign_candidate.c.is_hit,
        ).join(t.campaign_candidate, t.campaign_candidate.c.candidate_id == t.candidate.c.id)
        found["places"] = sorted(map(tuple, connection.execute(places)))
    ledger.close()
    return found


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the local pool finds."""
    return run("local", tmp_path_factory.mktemp("local"))


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["ledger", "celery", "slurm"])
def test_a_screen_gives_the_same_evidence_on_every_executor(
    executor: str, here: dict[str, Any], tmp_path: Path
) -> None:
    with served(executor, tmp_path) as more:
        found = run(executor, tmp_path, **more)
    assert found.keys() == here.keys() and len(found) > 2 * len(MOLECULES)
    assert found["places"] == here["places"]
    alike(found, here)


def alike(found: dict[str, Any], here: dict[str, Any]) -> int:
    """Evidence under the same key says the same; under how many."""
    common = (here.keys() & found.keys()) - {"places"}
    for key in common:
        assert found[key][:2] == here[key][:2]
        assert found[key][2] == pytest.approx(here[key][2], rel=1e-9, abs=1e-9)
    return len(common)


def quickstart(executor: str, folder: Path, **more: str) -> dict[str, Any]:
    """The campaign as it is, to its end. Which candidates are bred and chosen depends on the order of the answers."""
    arguments = ("run", str(CAMPAIGNS / "quickstart.yaml"), "--executor", executor, "--quiet", "--no-report")
    done = sciagent(*arguments, cwd=folder, expect=None, timeout=1500, SCIAGENT_LEDGER="ledger.db", **more)
    assert done.returncode in (0, 3), done.stderr
    status = sciagent("status", "--json", cwd=folder, SCIAGENT_LEDGER="ledger.db")
    assert status["state"] in ("finished", "budget_spent") and status["trouble"] is None
    *_, xtb, dft = status["rungs"]
    assert xtb["done"] >= 40 and dft["done"] >= 1 and (xtb["errors"], dft["errors"]) == (0, 0)
    with Ledger(str(folder / "ledger.db")).read() as connection:
        states = sa.select(t.job.c.state, t.job.c.kills, t.job.c.losses).distinct()
        assert {tuple(one) for one in connection.execute(states)} <= {("done", 0, 0), ("queued", 0, 0)}
    return found_in(folder)


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the quickstart finds in the local pool."""
    return quickstart("local", tmp_path_factory.mktemp("quickstart"))


@pytest.mark.slow  # nine minutes each
@pytest.mark.parametrize("executor", ["celery", "slurm"])
def test_the_quickstart_runs_unchanged_on_every_executor(
    executor: str, at_home: dict[str, Any], tmp_path: Path
) -> None:
    with served(executor, tmp_path, memory_mb=24000) as more:
        found = quickstart(executor, tmp_path, **more)
    assert alike(found, at_home) >= 100
