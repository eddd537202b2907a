"""Rungs that answer inside the turn of an ordinary campaign: their cost, their evidence, and what was lost."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

import sciagent
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.people.cancel_and_retry import retry_dropped
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.states_and_needs import MAX_LOSSES, CampaignState
from sciagent.errors import CampaignError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import reservations_and_bookings

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
TEXT = """
campaign: inline
subject: molecule
seed: 1
objectives: [{property: heavy_atoms, min: 3}]
ladder:
  - {rung: checks, verifier: molecule.checks}
  - {rung: weigh, verifier: fn.weigh, settings: {marker: MARKER}, inline: true}
goal: {kind: hits, count: 2}
budget: {proposals: 9, core_seconds: 50}
proposer: {kind: screen, file: molecules.csv, batch: 3}
safety: {screen: false, reason: molecules of a test}
"""


@sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.weigh", cost=0.01)
def weigh(molecule: Any, marker: str = "") -> float:
    """The number of heavy atoms. The first COC takes the process down that all verifications come from."""
    if molecule.smiles == "COC" and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getppid(), signal.SIGKILL)
    return float(molecule.heavy_atoms)


def opened(ledger: Ledger, folder: Path, *molecules: str) -> Built:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n")
    text = TEXT.replace("MARKER", str(folder / "marker"))
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def test_a_campaign_ends_with_the_hits_that_its_inline_rung_has_found(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path, "C", "CCN", "CO", "CCO", "CCF", "CCCO")
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED
    cc, a, s = t.campaign_candidate.c, t.attempt.c, t.spend.c
    with ledger.read() as connection:
        found = list(connection.execute(sa.select(cc.standing, cc.is_hit).order_by(cc.seq)))
        assert [tuple(row) for row in found] == [("settled", hit) for hit in (False, True, False, True, True, True)]
        attempts = connection.execute(
            sa.select(a.id, a.turn_id, a.cost, a.n_candidates).where(a.rung_id == built.rungs[-1].id)
        )
        rows = attempts.all()
        assert len(rows) == 6 and all(row.n_candidates == 1 and row.turn_id for row in rows), "one for each candidate"
        booked = dict(connection.execute(sa.select(s.attempt_id, s.amount).where(s.attempt_id.is_not(None))).all())
        assert all(booked[row.id] == row.cost["core_seconds"] for row in rows)
        of_turns = connection.execute(sa.select(t.turn.c.cost)).scalars()
        by_script = connection.execute(sa.select(s.amount).where(s.rung_id.is_(None), s.resource == "core_seconds"))
        in_all = sum(booked.values()) + sum(by_script.scalars())
        assert sum(cost["core_seconds"] for cost in of_turns) == pytest.approx(in_all)
        assert connection.execute(sa.select(sa.func.count()).select_from(t.job)).scalar() == 0, "nothing was bought"
        assert len(reservations_and_bookings.cost_ratios(connection, *built.rungs[-1].verifier.computation)) == 6, (
            "costs are learnt"
        )


def test_candidates_that_were_lost_with_the_process_of_another_are_tried_again(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path, "CCN", "COC", "CCF")
    with Driver(built) as driver:
        driver.run()
    with ledger.read() as connection:
        assert set(connection.execute(sa.select(t.campaign_candidate.c.standing)).scalars()) == {"settled"}
    assert (tmp_path / "marker").exists()


KILLING = """
campaign: killing
subject: molecule
seed: 1
objectives: [{property: heavy_atoms, min: 3}]
ladder:
  - {rung: weigh, verifier: fn.weigh_or_kill, settings: SETTINGS}
goal: {kind: graded}
budget: {proposals: 100, core_seconds: 50}
proposer: {kind: screen, file: molecules.csv, batch: 100}
safety: {screen: false, reason: molecules of a test}
"""


@sciagent.verifier(measures="heavy_atoms", unit="1", name="fn.weigh_or_kill", tier="fast")
def weigh_or_kill(molecule: Any, victim: str = "zygote", at: int = 0, mended: str = "", ill: str = "") -> float:
    """The number of heavy atoms. A molecule with `at` of them kills its own process, the child, or the zygote that
    holds it; with 0 every molecule does. The first to kill makes the file `ill`, and then all molecules kill. None does
    once the file `mended` exists."""
    is_killer = at in (0, molecule.heavy_atoms) or bool(ill and Path(ill).exists())
    if is_killer and not Path(mended).exists():
        if ill:
            Path(ill).touch()
            time.sleep(0.1)  # meanwhile the findings of the earlier molecules arrive
        os.kill(os.getpid() if victim == "child" else os.getppid(), signal.SIGKILL)
    return float(molecule.heavy_atoms)


def killing(ledger: Ledger, folder: Path, molecules: list[str], **settings: Any) -> Built:
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(molecules) + "\n")
    settings["mended"] = str(folder / "mended")
    text = KILLING.replace("SETTINGS", json.dumps(settings))
    return create_or_open(ledger, parse_spec(text, base=folder), text, "test").built


def standings_of(ledger: Ledger) -> list[tuple[Any, ...]]:
    cc = t.campaign_candidate.c
    with ledger.read() as connection:
        rows = connection.execute(sa.select(cc.standing, cc.verdict, cc.reason).order_by(cc.seq))
        return [tuple(row) for row in rows]


def alkanes(n: int) -> list[str]:
    return ["C" * length for length in range(1, n + 1)]


@pytest.mark.parametrize("victim", ["child", "zygote"])
def test_only_a_candidate_that_ends_its_process_five_times_is_dropped_until_a_retry_succeeds(
    ledger: Ledger, tmp_path: Path, victim: str
) -> None:
    built = killing(ledger, tmp_path, alkanes(12), victim=victim, at=7)
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED
    standings = standings_of(ledger)
    assert standings.pop(6) == ("dropped", Verdict.ERROR, "kills_workers")
    assert {standing for standing, *_ in standings} == {"settled"}
    cc = t.campaign_candidate.c
    with ledger.read() as connection:
        detail = connection.execute(sa.select(cc.detail).where(cc.reason == "kills_workers")).scalar_one()
    assert detail.startswith(f"{MAX_LOSSES} processes were lost with it")
    (again,) = retry_dropped(built, "ann", limit=100)
    assert (again.standing, again.verdict, again.reason) == ("dropped", "error", "kills_workers")
    (tmp_path / "mended").touch()
    (again,) = retry_dropped(built, "ann", limit=100)
    assert (again.candidate, again.rung, again.standing, again.reason) == ("CCCCCCC", "weigh", "settled", None)
    assert {standing for standing, *_ in standings_of(ledger)} == {"settled"}
    assert list(retry_dropped(built, "ann", limit=100)) == []
    with ledger.read() as connection:
        events = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == "retried")).scalars().all()
        by_rungs = t.spend.c.rung_id.is_not(None)
        booked = connection.execute(sa.select(sa.func.sum(t.spend.c.amount)).where(by_rungs)).scalar_one()
        costs = connection.execute(sa.select(t.attempt.c.cost)).scalars().all()
    assert [(event["who"], event["n"]) for event in events] == [("ann", 1)] * 2
    assert booked == pytest.approx(sum(cost.get("core_seconds", 0.0) for cost in costs))


def test_a_candidate_that_kills_its_process_is_blamed_although_it_was_proposed_alone(
    ledger: Ledger, tmp_path: Path
) -> None:
    with Driver(killing(ledger, tmp_path, ["CCCC"], at=4)) as driver:
        assert driver.run() is CampaignState.FINISHED
    assert standings_of(ledger) == [("dropped", Verdict.ERROR, "kills_workers")]


@pytest.mark.parametrize(
    ("settings", "control"),
    [
        ({"victim": "child"}, "the sample c1ccccc1"),
        ({"victim": "zygote"}, "the sample c1ccccc1"),
        ({"victim": "zygote", "at": 7, "ill": "ill"}, r"C+, which it had survived before"),
    ],
    ids=["child", "zygote", "from the middle of the batch"],
)
def test_if_every_process_dies_the_turn_is_not_written_and_the_campaign_goes_on_later(
    ledger: Ledger, tmp_path: Path, settings: dict[str, Any], control: str
) -> None:
    if "ill" in settings:
        settings = settings | {"ill": str(tmp_path / "ill")}
    built = killing(ledger, tmp_path, alkanes(12), **settings)
    fault = f"weigh: the process of fn.weigh_or_kill dies under every molecule, also under {control}"
    with pytest.raises(CampaignError, match=fault), Driver(built) as driver:
        driver.run()
    with ledger.read() as connection:
        state, reason = connection.execute(sa.select(t.campaign.c.state, t.campaign.c.stop_reason)).one()
        n_turns = connection.execute(sa.select(sa.func.count()).select_from(t.turn)).scalar_one()
    assert state == CampaignState.FAILED and "repeat the command" in reason
    assert n_turns == 0 and standings_of(ledger) == []
    (tmp_path / "mended").touch()
    with Driver(built) as driver:
        assert driver.run() is CampaignState.FINISHED
    assert [standing for standing, *_ in standings_of(ledger)] == ["settled"] * 12
