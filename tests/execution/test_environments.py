"""A worker without the engine leaves its jobs to others; workers of two environments serve one campaign."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.errors import UsageError
from sciagent.inputs import engine_environments
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support import bare_environments
from tests.support.elsewhere import counts, driver, molecules, until, worker, working, written

TEXT = """
campaign: two
subject: molecule
objectives: [{property: logp, max: 5}]
ladder:
  - {rung: here, verifier: bad.remote, limits: {wall_seconds: 60}}
  - {rung: there, verifier: bad.elsewhere, limits: {wall_seconds: 60}}
goal: {kind: graded}
budget: {core_seconds: 100000}
proposer: {kind: screen, file: molecules.smi, batch: 100}
scheduler: {kind: exhaustive}
workers: 2
"""


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The list of environments of this process: an empty one."""
    monkeypatch.setenv("SCIAGENT_ENGINES", str(tmp_path / "none.toml"))
    return tmp_path / "none.toml"


@pytest.fixture
def has_engine(tmp_path: Path, listed: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list with an environment that has the engine of `bad.elsewhere`."""
    python = bare_environments.made(tmp_path / "there", (*bare_environments.NEEDED, "rdkit", "pillow"))
    bare_environments.put_engine(bare_environments.site_of(tmp_path / "there"))
    with monkeypatch.context() as patch:
        patch.setenv("SCIAGENT_ENGINES", str(tmp_path / "engines.toml"))
        engine_environments.add("there", python)
    return tmp_path / "engines.toml"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_two_environments_serve_one_campaign(ledger: Ledger, tmp_path: Path, has_engine: Path) -> None:
    (tmp_path / "molecules.smi").write_text("\n".join(molecules(4)) + "\n")
    built = create_or_open(ledger, parse_spec(TEXT, base=tmp_path), TEXT, "test").built
    j, e = t.job.c, t.evidence.c
    with working(ledger, tmp_path, 1, "plain"), driver(built) as one:
        until(lambda: one.step() or cannot(ledger), 60)
        until(lambda: one.step() or counts(ledger, j.state) == {"done": 4, "queued": 4}, 60)
        assert counts(ledger, e.verifier, e.verifier.like("bad%")) == {"bad.remote": 4}, "the others wait"
        rich = worker(ledger, tmp_path, SCIAGENT_ENGINES=str(has_engine))
        try:
            until(lambda: one.step() is not None, 90)
        finally:
            rich.terminate()
            rich.wait(60)
    (event,) = cannot(ledger)
    assert event["worker"].startswith("plain") and "sciagent engines there --python PATH" in event["why"]
    assert counts(ledger, j.state) == {"done": 8} and counts(ledger, j.losses) == {"0": 8}
    with ledger.read() as connection:
        found = connection.execute(
            sa.select(e.verifier, e.versions, e.diagnostics).where(e.verifier.like("bad%"))
        ).all()
    for verifier, versions, diagnostics in found:
        assert versions["misbehaving-verifiers"] and versions["sciagent"]
        assert (versions.get("environment"), versions.get("only-there")) == (
            ("there", "3.1") if verifier == "bad.elsewhere" else (None, None)
        )
        if verifier == "bad.elsewhere":
            assert diagnostics["python"] == str(tmp_path / "there" / "bin" / "python")


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_local_run_says_what_is_missing_before_it_starts(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), verifier="bad.absent")
    with pytest.raises(UsageError, match=r'rung "remote" \(bad.absent\): .*pip install no-such-engine'), Driver(built):
        pass
    assert counts(ledger, t.job.c.state) == {}


def cannot(ledger: Ledger) -> list[dict[str, str]]:
    query = sa.select(t.event.c.payload).where(t.event.c.kind == "worker_cannot")
    with ledger.read() as connection:
        return list(connection.scalars(query))
