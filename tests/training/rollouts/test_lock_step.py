"""Groups of rollouts: what an episode sees and gets does not depend on its siblings, and a step is written whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.errors import StaleLeaseError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import PLAN, copied, episodes, let_go, runner_of, to_the_end

sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@sqlite
def test_an_episode_is_the_same_alone_in_any_order_and_beside_its_siblings(
    built: Built, worker: Worker, tmp_path: Path
) -> None:
    runner_of(built, worker).opened(PLAN)
    let_go(built)

    def rolled_out(name: str, order: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
        with copied(built, tmp_path / name) as other:
            runner = runner_of(other, worker)
            [group] = runner.continued()
            group.siblings = [group.siblings[number] for number in order]
            assert to_the_end(runner, [group]) == PLAN.turns
            return episodes(other)

    together = rolled_out("together", range(PLAN.siblings))
    assert rolled_out("backwards", range(PLAN.siblings)[::-1]) == together
    for number in range(PLAN.siblings):
        assert rolled_out(f"alone{number}", [number]) == {number: together[number]}
    shared = Counter(
        key
        for turns in together.values()
        for key in {key for turn in turns for *_, key in turn["proposals"] if key is not None}
    )
    assert max(shared.values()) > 1, "no candidate was proposed by two siblings, so nothing was tested"


def test_two_siblings_with_one_candidate_are_both_credited_and_both_pay(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker)
    to_the_end(runner, runner.opened(PLAN))
    p, u, j = t.proposal.c, t.turn.c, t.trajectory.c
    query = sa.select(p.candidate_id, j.sibling, p.status, u.cost, u.id).select_from(
        t.proposal.join(t.turn, u.id == p.turn_id).join(t.trajectory, j.id == u.trajectory_id)
    )
    with built.ledger.read() as connection:
        rows = connection.execute(query.where(j.sibling.is_not(None), p.status == "new")).all()
        members = list(connection.execute(sa.select(t.campaign_candidate.c.candidate_id)).scalars())
        answered = connection.execute(sa.select(t.evidence.c.candidate_id, t.evidence.c.verifier)).all()
    per_candidate = Counter(row.candidate_id for row in rows)
    assert max(per_candidate.values()) > 1
    assert len(members) == len(set(members)), "a candidate is in the campaign once"
    assert len(answered) == len(set(answered)), "a rung answers once on a candidate"
    assert all(row.cost.get("core_seconds", 0) > 0 for row in rows), "each turn is charged with what its checks cost"


def test_a_driver_that_lost_its_lease_writes_nothing(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker)
    groups = runner.opened(PLAN)
    let_go(built)
    with built.ledger.begin() as connection:
        campaigns.take_driver(connection, built.row.id, campaigns.new_owner())
    with pytest.raises(StaleLeaseError):
        runner.step(groups)
    assert episodes(built) == {}


class _Failing(ScriptedPolicy):
    """Fails on the third question of each step."""

    def answers(self, questions: list[EpisodeQuestion]) -> list[Sampled | PolicyError]:  # type: ignore[override]
        answers = super().answers(questions)
        return [*answers[:2], PolicyError("it is away"), *answers[3:]]


@sqlite
def test_a_failed_model_ends_its_episode_and_breaks_its_group_alone(built: Built, worker: Worker) -> None:
    runner = runner_of(built, worker, _Failing())
    groups = runner.opened(RolloutPlan(2, 4, 2, "scripted"))
    runner.step(groups)
    with built.ledger.read() as connection:
        states = [row.state for row in group_rows.of_campaign(connection, built.row.id)]
        broken = group_rows.siblings(connection, groups[0].row.id)
    assert states == ["broken", "open"]
    assert [each.ended_why for each in broken] == [
        "its group is broken: episode 2: the model failed: it is away",
        "its group is broken: episode 2: the model failed: it is away",
        "the model failed: it is away",
        "its group is broken: episode 2: the model failed: it is away",
    ]
    assert all(each.ended is None for each in groups[1].siblings)
