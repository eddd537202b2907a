"""What a model is told of a campaign before its first turn."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.verification.sandbox.host import Worker
from tests.campaign.proposing.opened import built, worker

__all__ = ["built", "worker"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_the_goal_names_objectives_and_rungs(built: Built) -> None:
    lines = briefing_and_workbench.goal(built).splitlines()
    assert lines[0] == "Alcohols of any length." and lines[1].startswith("Wanted: logp")
    assert lines[-1] == "Rung quick (bad.quick): costs the budget, decides"


def test_a_digest_holds_the_classes_the_refusals_and_the_notes(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        assert briefing_and_workbench.digest(connection, built) == ""
        assert (
            briefing_and_workbench.remaining_budget_text(briefing_and_workbench.remaining_budget(connection, built))
            == "core_seconds: 50 s"
        )
    bench = AgentWorkbench(built, worker, "test", room=3, trajectory=1)
    answers = bench.propose([ProposalIn(text) for text in ("CCO", "C((", "CCN", "CCC")])
    assert answers[-1].reason == "too_many"
    bench.note("alcohols are fine")
    with built.ledger.begin() as connection:
        bench.commit(connection, None)
    with built.ledger.read() as connection:
        digest = briefing_and_workbench.digest(connection, built)
        assert 0 < briefing_and_workbench.remaining_budget(connection, built)["core_seconds"] < 50
    assert "no ring: 2" in digest and "Turned down so far: 1 x unparsable." in digest
    assert digest.endswith("Note of an earlier episode: alcohols are fine")
    assert bench.results_of(answers[0].key or "") == [], "no paid rung has answered yet"
