"""Groups: they begin alike, go on after a stop with what they began with, and keep to themselves."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import PLAN, let_go, runner_of, to_the_end

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_openings_are_equal_and_the_snapshot_is_frozen(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker)
    first = runner.opened(RolloutPlan(2, 3, 2, "scripted"))
    openings = [each.episode.opening for group in first for each in group.siblings]
    assert len({repr(opening) for opening in openings}) == 1
    to_the_end(runner, first)
    [later] = runner.opened(RolloutPlan(1, 2, 1, "scripted"))
    assert later.snapshot.seq > first[0].snapshot.seq and later.snapshot.watermark > first[0].snapshot.watermark
    with built.ledger.read() as connection:
        stored = group_rows.of_campaign(connection, built.row.id)
    assert [row.state for row in stored] == ["complete", "complete", "open"]
    assert [row.number for row in stored] == [1, 2, 3]
    assert stored[0].opening == stored[1].opening and stored[0].seed != stored[1].seed


def test_a_group_goes_on_where_it_was_left(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker)
    groups = runner.opened(PLAN)
    runner.step(groups)
    let_go(built)
    again = runner_of(built, worker)
    [restored] = again.continued()
    for old, new in zip(groups[0].siblings, restored.siblings, strict=True):
        assert new.episode.messages == old.episode.messages
        assert new.episode.numbered == old.episode.numbered and new.episode.numbered[:2] == ["CCO", "CO"]
        assert new.memory.proposals == old.memory.proposals
    assert any(len(sibling.episode.numbered) == 3 for sibling in restored.siblings)
    assert restored.snapshot == groups[0].snapshot and restored.snapshot.keys == groups[0].snapshot.keys
    assert to_the_end(again, [restored]) == PLAN.turns - 1


def test_a_group_with_another_policy_is_broken(built: Built, worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runner_of(built, worker)
    runner.opened(PLAN)
    let_go(built)
    monkeypatch.setattr("sciagent.training.rollouts.random_edit_policy.VERSION", "scripted@0")
    runner = runner_of(built, worker)
    assert runner.continued() == [] and runner.broken == [1]
    with built.ledger.read() as connection:
        [row] = group_rows.of_campaign(connection, built.row.id)
        siblings = group_rows.siblings(connection, row.id)
    assert row.state == "broken" and all("another policy" in (each.ended_why or "") for each in siblings)


def test_the_campaign_itself_does_not_go_on_with_episodes_of_rollouts(built: Built, worker: Worker) -> None:
    runner_of(built, worker).opened(PLAN)
    with built.ledger.read() as connection:
        assert [row.number for row in proposer_trajectories.running_trajectories(connection, built.row.id)] == [
            0
        ]  # of the seeds
