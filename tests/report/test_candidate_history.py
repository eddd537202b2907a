"""The history of a candidate: its proposals, decisions, attempts and evidence, oldest first."""

from __future__ import annotations

from pathlib import Path

from sciagent.report import candidate_history
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.report_candidates import best_candidates
from tests.support.reported import dyes


def test_a_candidate_has_its_proposals_attempts_and_evidence(ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(ledger, tmp_path)
    with ledger.read() as connection:
        best = best_candidates(connection, made.row, 1)[0]
        ladder = campaigns.rungs(connection, made.row.id)
        assert candidate_history.campaigns_of(connection, best.id) == [made.row.name]
        proposals = candidate_history.proposals(connection, made.row, best.id)
        attempts = candidate_history.attempts(connection, made.row, best.id, [rung.id for rung in ladder])
        evidence = candidate_history.evidence(connection, best.id)
    assert [row["status"] for row in proposals] == ["new", "duplicate"] and proposals[0]["text"] == best.text
    assert {attempt.job for attempt in attempts} == {"done"}
    assert [story.at for story, *_ in evidence] == sorted(story.at for story, *_ in evidence)
    assert sum(story.core_seconds for story, *_ in evidence) > 0 and all(story.is_current for story, *_ in evidence)
