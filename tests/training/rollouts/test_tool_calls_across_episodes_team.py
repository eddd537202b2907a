"""Several processes answer a batch of an inline rung as one does."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.store.database.ledger import Ledger
from sciagent.training.rollouts.tool_calls_across_episodes import WorkerTeam
from sciagent.verification.sandbox.host import Request, Worker
from tests.training.rollouts.rolled import TEXT, seeded

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
QUICK = TEXT.replace(
    "goal: {kind: graded}", "  - {rung: quick, verifier: bad.quick, inline: true}\ngoal: {kind: graded}"
)


def test_the_results_come_in_order_from_as_many_processes_as_there_are_cores(ledger: Ledger, tmp_path: Path) -> None:
    built = seeded(ledger, tmp_path, text=QUICK)
    candidates = tuple(parse_molecule("C" * n) for n in range(1, 8))
    checks, quick = (
        Request(rung.verifier.name, rung.verifier.request_settings, candidates, rung.limits) for rung in built.fast
    )
    with Worker(built.scratch()) as first, WorkerTeam(first, built, cores=3) as team:
        found = team.run(quick)
        assert [each.finding.candidate_key for each in found] == [candidate.key for candidate in candidates]
        assert all(each.finding.outcome is Outcome.OK and each.cost for each in found)
        assert len({each.finding.diagnostics["pid"] for each in found}) == 3
        assert [each.finding.candidate_key for each in team.run(checks)] == [each.key for each in candidates]
        folders = [path for path in built.scratch().iterdir() if path.name.startswith("worker-")]
        assert len(folders) == 3
    assert not [path for path in built.scratch().iterdir() if path.name.startswith("worker-")]
