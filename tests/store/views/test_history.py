"""The history of a candidate: its proposals, decisions, attempts and evidence, oldest first."""

from __future__ import annotations

from pathlib import Path

from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import history, report_candidates
from tests.support.reported import dyes


def test_a_candidate_has_its_proposals_attempts_and_evidence(ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(ledger, tmp_path)
    with ledger.read() as connection:
        best = report_candidates.best(connection, made.row, 1)[0]
        ladder = campaigns.rungs(connection, made.row.id)
        assert history.campaigns_of(connection, best.id) == [made.row.name]
        proposals = history.proposals(connection, made.row, best.id)
        attempts = history.attempts(connection, made.row, best.id, [rung.id for rung in ladder])
        evidence = history.evidence(connection, best.id)
    assert [proposal.status for proposal in proposals] == ["new", "duplicate"] and proposals[0].text == best.text
    assert {attempt.job for attempt in attempts} == {"done"}
    assert [row.at for row in evidence] == sorted(row.at for row in evidence)
    assert sum(row.core_seconds for row in evidence) > 0 and all(row.is_current for row in evidence)
