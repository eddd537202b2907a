"""Groups of episodes that clients open by name, and the numbers of episodes that may be open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sciagent.errors import EpisodeError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.checked_client_input import ClientPolicy
from sciagent.training.environment.environment import Environment
from sciagent.training.rollouts.campaign_rollouts import model_spec
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.rollouts.open_and_resume_groups import RolloutPlan
from sciagent.verification.sandbox.host import Worker
from tests.training.environment.served import proposing, texts, trajectories
from tests.training.rollouts.rolled import let_go

Serve = Callable[..., Environment]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_a_name_begins_a_new_group_once_all_siblings_are_taken(serve: Serve) -> None:
    with serve() as environment:
        opened = [environment.open(2, group="g", siblings=2).opened for _ in range(5)]
        assert [(each.group, each.sibling) for each in opened] == [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0)]
        assert len({each.episode for each in opened}) == 5
        assert environment.open(group="other").opened.group == 4


def test_a_task_has_one_seed_and_a_group_one_policy(serve: Serve) -> None:
    with serve() as environment:
        task = environment.tasks(3)[2]
        environment.open(2, group="g", siblings=3, policy="a@1")
        for request, fault in (
            ({"task": 3}, "task 2, not 3"),
            ({"siblings": 4}, "siblings 3, not 4"),
            ({"policy": "b@1"}, "policy 'a@1', not 'b@1'"),
        ):
            with pytest.raises(EpisodeError, match=fault) as refused:
                environment.open(**({"task": 2, "group": "g", "siblings": 3, "policy": "a@1"} | request))  # type: ignore[arg-type]
            assert refused.value.status == 409
        modify = {"parent": "#1", "edit": "add substituent", "what": None, "where": None}
        by_task, by_seed, other = environment.open(2), environment.open(seed=task.seed), environment.open(3)
        seen = [texts([episode.call("modify", modify)]) for episode in (by_task, by_seed, other)]
        assert seen[0][0].startswith("new #3: ") and seen[0] == seen[1] != seen[2]


def test_so_many_episodes_may_be_open_and_no_more(serve: Serve) -> None:
    with serve(most=3) as environment:
        first = environment.open()
        environment.open(group="g", siblings=2)
        with pytest.raises(EpisodeError, match="3 episodes are open, and at most 3 may be") as refused:
            environment.open()
        assert refused.value.status == 429
        first.end()
        environment.open()


@pytest.mark.long
def test_episodes_of_several_policies_go_on_side_by_side(serve: Serve, ledger: Ledger) -> None:
    with serve(turns=1) as environment:
        opened = [environment.open(policy=f"p@{n}") for n in range(10)]  # more than are kept ready
        for n, episode in enumerate(opened):
            [reply] = [episode.call(name, arguments) for name, arguments in proposing("C" * (n + 3) + "O")]
            assert reply.done
    assert {state for state, _ in trajectories(ledger).values()} == {"complete"}


def test_what_a_killed_environment_left_open_is_broken_and_a_rollout_is_not(serve: Serve, ledger: Ledger) -> None:
    environment = serve()
    built = environment.built
    with Worker(built.scratch()) as worker, ledger.begin() as connection:
        lease = campaigns.take_driver(connection, built.row.id, campaigns.new_owner())
    for client in (None, "g"):
        runner = RolloutRunner(built, lease, worker, ClientPolicy("p"), model_spec(built))
        runner.opened(RolloutPlan(1, 1, 3, "p", client=client))
    let_go(built)
    with environment:
        assert environment.open().opened.group == 3
    assert [state for state, _ in trajectories(ledger).values()] == ["open", "broken", "broken"]
