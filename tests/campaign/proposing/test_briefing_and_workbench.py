"""What a model is told of a campaign before its first turn."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.people import hold_release_veto_and_promote
from sciagent.campaign.people.find_candidate import resolve
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import Worker
from tests.campaign.proposing.opened import TEXT, built, commit, worker

__all__ = ["built", "worker"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_the_goal_names_objectives_and_rungs(built: Built) -> None:
    lines = briefing_and_workbench.goal(built).splitlines()
    assert lines[0] == "Alcohols of any length." and lines[1].startswith("Wanted: logp")
    assert lines[-1] == "Rung quick (bad.quick): costs the budget, decides"


def test_what_is_left_names_each_limit_that_can_end_the_campaign(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "molecules.csv").write_text("smiles\nC\n")
    text = TEXT.replace("proposals: 9,", "proposals: 9, verifications: 3, wall_minutes: 5,")
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    with Driver(built) as driver:
        driver.run()
    with ledger.begin() as connection:
        connection.execute(sa.update(t.campaign).values(wall_seconds=70.0))  # as the driver's heart does
    with ledger.read() as connection:
        left = briefing_and_workbench.remaining_budget(connection, built)
        whole = briefing_and_workbench.whole_budget(built, connection)
    assert left.pop("core_seconds") < 50
    assert left == {"wall_seconds": pytest.approx(230, abs=1), "proposals": 8.0, "verifications": 2.0}
    assert whole == {"core_seconds": 50.0, "wall_seconds": 300.0, "proposals": 9.0, "verifications": 3.0}


def test_an_amendment_is_told_by_a_workbench_from_before(built: Built, worker: Worker, tmp_path: Path) -> None:
    bench = AgentWorkbench(built, worker, room=3, trajectory=1)
    assert bench.left()["proposals"] == 9.0
    bench.propose([ProposalIn("CCO")])
    assert bench.left()["proposals"] == 8.0, "it is proposed, though not in the ledger yet"
    text = TEXT.replace("proposals: 9", "proposals: 20")
    create_or_open(built.ledger, parse_spec(text, base=tmp_path), text, "ann", "more")
    assert bench.left() == {"core_seconds": 50.0, "proposals": 19.0}


def test_nothing_is_bred_from_a_vetoed_candidate(built: Built, worker: Worker) -> None:
    bench = AgentWorkbench(built, worker, room=3, trajectory=1)
    [entered] = bench.propose([ProposalIn("CCO")])
    commit(built, bench)
    candidate = built.subject.read("CCO")
    assert bench.barred(candidate) is None
    with built.ledger.read() as connection:
        found = resolve(connection, built.row, entered.key or "")
    hold_release_veto_and_promote.veto(built, found, "ann", "smells")
    assert bench.barred(candidate) == "vetoed by ann: smells"


def test_a_digest_holds_the_classes_the_refusals_and_the_notes(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        assert briefing_and_workbench.digest(connection, built) == ""
        assert (
            briefing_and_workbench.remaining_budget_text(briefing_and_workbench.remaining_budget(connection, built))
            == "core_seconds: 50 s; proposals: 9"
        )
    bench = AgentWorkbench(built, worker, room=3, trajectory=1)
    answers = bench.propose([ProposalIn(text) for text in ("CCO", "C((", "CCN", "CCC")])
    assert answers[-1].reason == "too_many"
    bench.note("alcohols are fine")
    commit(built, bench)
    with built.ledger.read() as connection:
        digest = briefing_and_workbench.digest(connection, built)
        assert 0 < briefing_and_workbench.remaining_budget(connection, built)["core_seconds"] < 50
    assert "no ring: 2" in digest and "Turned down so far: 1 x unparsable." in digest
    assert digest.endswith("Note of an earlier episode: alcohols are fine")
    assert bench.results_of(answers[0].key or "") == [], "no paid rung has answered yet"
