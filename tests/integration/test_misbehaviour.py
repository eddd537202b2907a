"""Engines that hang, eat memory, crash, keep silent, write rubbish or fork: each gets its outcome; campaigns go on."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.states_and_needs import CampaignState
from sciagent.errors import CampaignError
from sciagent.store.campaign_state.campaigns import get
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.verification.sandbox.nursery_pool_and_links import nurseries

LADDER = """
campaign: bad
subject: molecule
objectives: [{{property: logp, max: 5}}]
ladder:
{ladder}
goal: {{kind: hits}}
budget: {{core_seconds: 1000}}
proposer: {{kind: screen, file: molecules.smi}}
scheduler: {{kind: exhaustive}}
workers: 2
"""
CHECKS = "  - {verifier: molecule.checks, settings: {descriptors: [heavy_atoms]}}"
PAID = "  - {rung: paid, verifier: bad.quick}"
BAD = "  - {{rung: bad, verifier: {name}, settings: {settings}, limits: {{wall_seconds: {wall}, memory_mb: 400}}}}"

CASES = [
    ("bad.hang", "{at: C=C}", "timeout", "wall_limit", "inconclusive"),
    ("bad.poison", "{}", "crashed", "signal", "error"),
    ("bad.memory", "{}", "out_of_memory", "memory_limit", "inconclusive"),
    ("bad.segfault", "{}", "crashed", "signal", "error"),
    ("bad.silent", "{}", "crashed", "no_result", "error"),
    ("bad.rubbish", "{pipes: true}", "crashed", "bad_result", "error"),
    ("bad.forks", "{}", "ok", None, "pass"),
    ("bad.notconverged", "{}", "not_converged", "scf_not_converged", "inconclusive"),
    ("bad.raises", "{}", "crashed", "exception", "error"),
    ("bad.wrongkey", "{}", "crashed", "bad_result", "error"),
]


def run(folder: Path, ladder: str, molecules: tuple[str, ...]) -> tuple[Ledger, CampaignState]:
    (folder / "molecules.smi").write_text("\n".join(molecules) + "\n")
    text = LADDER.format(ladder=ladder)
    ledger = Ledger(str(folder / "sciagent.db"))
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    with Driver(built) as driver:
        return ledger, driver.run()


def outcomes(ledger: Ledger) -> dict[str, tuple[str | None, str | None]]:
    """SMILES to verdict and reason at the end."""
    with ledger.read() as connection:
        cc = t.campaign_candidate.c
        query = sa.select(t.candidate.c.text, cc.verdict, cc.reason).join(
            t.candidate, t.candidate.c.id == cc.candidate_id
        )
        return {text: (verdict, reason) for text, verdict, reason in connection.execute(query)}


@pytest.fixture(scope="module")
def mark() -> Iterator[str]:
    """Stands in the environment of every process below this one that is started meanwhile, nurseries included."""
    nurseries.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIAGENT_TEST_MARK", value := uuid.uuid4().hex)
        yield value
        nurseries.close()


@pytest.mark.parametrize(("name", "settings", "outcome", "reason", "verdict"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("place", ["fast", pytest.param("job", marks=pytest.mark.long)])
def test_is_caught_with_the_right_outcome_and_the_campaign_goes_on(
    tmp_path: Path,
    mark: str,
    misbehaving: Path,
    place: str,
    name: str,
    settings: str,
    outcome: str,
    reason: str | None,
    verdict: str,
) -> None:
    settings = settings if name != "bad.poison" else "{smiles: C=C}"
    bad = BAD.format(name=name, settings=settings, wall=1.5 if name == "bad.hang" else 20)
    ladder = "\n".join([CHECKS, bad] if place == "fast" else [CHECKS, PAID, bad])
    if (place, name) == ("fast", "bad.segfault"):  # it takes down a process with every candidate
        with pytest.raises(CampaignError, match=r"bad: the process of bad.segfault dies under every molecule"):
            run(tmp_path, ladder, ("C=C", "CC", "CO"))
        nothing_left(mark)
        return
    some_are_spared = name in ("bad.hang", "bad.poison")
    ledger, state = run(tmp_path, ladder, ("C=C", "CC", "CO"))
    assert state is CampaignState.FINISHED
    found = outcomes(ledger)
    expected_reason = "kills_workers" if reason == "signal" else reason
    tries = 2 if outcome == "crashed" and reason != "bad_result" else 1
    assert found["C=C"] == (verdict, expected_reason)
    others = {found["CC"], found["CO"]}
    assert others == ({("pass", None)} if some_are_spared else {(verdict, expected_reason)})
    with ledger.read() as connection:
        a = t.attempt.c
        if place == "job":
            attempts = connection.execute(
                sa.select(a.outcome, a.reason).join(t.rung, t.rung.c.id == a.rung_id).where(t.rung.c.name == "bad")
            ).all()
            assert (outcome, reason) in {tuple(one) for one in attempts}
            assert len(attempts) == (1 if some_are_spared else 3) * tries + 2 * some_are_spared
        kept = campaign_counts_and_remarks.count(connection, t.evidence, t.evidence.c.verifier == name)
        assert kept == (3 if outcome in ("ok", "not_converged") else 2 if some_are_spared else 0)
        assert get(connection, "bad").state is CampaignState.FINISHED
    ledger.close()
    nothing_left(mark)


@pytest.mark.parametrize("how", ["negative", "none", "exit"])
def test_a_cost_that_is_none_is_an_error_of_the_candidate_and_the_campaign_goes_on(
    tmp_path: Path, misbehaving: Path, how: str
) -> None:
    bad = BAD.format(name="bad.cost", settings=f"{{how: {how}, at: C=C}}", wall=20)
    ledger, state = run(tmp_path, f"{CHECKS}\n{bad}", ("C=C", "CC", "CO"))
    assert state is CampaignState.FINISHED
    found = outcomes(ledger)
    assert found["C=C"] == ("error", "no_result" if how == "exit" else "exception")
    assert found["CC"] == found["CO"] == ("pass", None)
    with ledger.read() as connection:
        query = sa.select(t.campaign_candidate.c.detail).where(t.campaign_candidate.c.verdict == "error")
        assert how == "exit" or "bad.cost in cost: " in str(connection.execute(query).scalar_one())
        assert reservations_and_bookings.reserved(connection, get(connection, "bad").id) == {}
    ledger.close()


def nothing_left(mark: str) -> None:
    """But for what serves the next campaign too: the nurseries, and the process that is asked for declarations."""
    end = time.monotonic() + 5
    spared = {os.getpid(), *nurseries.pids()}
    while True:
        left = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get("SCIAGENT_TEST_MARK") == mark and process.pid not in spared
                if marked and not any(part.endswith(".declaration_process") for part in process.cmdline()):
                    left.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        if not left:
            return
        assert time.monotonic() < end, f"still running: {left}"
        time.sleep(0.1)
