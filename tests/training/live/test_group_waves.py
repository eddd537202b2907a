"""Waves of groups: how they are shared among tasks, what replaces those that teach nothing, what a kill leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.agent.messages_sampling_and_policy_client import (
    EpisodeQuestion,
    Message,
    PolicyError,
    Sampled,
    Tokens,
    ToolCall,
)
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.live import driven_task_campaigns
from sciagent.training.live.group_waves import LocalWaves, Stopped
from sciagent.training.live.retrain_on_late_verdicts_and_gather_groups import Gatherer
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy
from sciagent.training.settings import LiveSettings, TaskShare

CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 1
objectives: [{{property: logp, window: [1, 2]}}]
ladder: [{{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}]
goal: {{kind: hits}}
budget: {{proposals: {budget}}}
proposer: {{kind: llm, model: tiny, seeds: molecules.csv, structured: false}}
"""
SPEC = RewardSpec(prices={"llm_tokens": 1e-6}, unsettled="settled")


class Stated(ScriptedPolicy):
    """Answers as if a model had sampled ten tokens: in some groups every sibling says the same."""

    name = "stated@1"

    def __init__(self, alike: int) -> None:
        """alike: of how many groups, the first ones, the siblings say the same."""
        self._alike, self.asked = alike, 0

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        places = range(self.asked, self.asked + len(questions))
        self.asked += len(questions)
        return [_said("CCN" if place // 2 < self._alike or place % 2 else "c1ccccc1C") for place in places]

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(self.name, "in process", "0" * 64)


def _said(smiles: str) -> Sampled:
    message = Message("assistant", "", calls=(ToolCall("call_1", "propose", json.dumps({"smiles": smiles})),))
    n = 10
    tokens = Tokens((1, 2, 3), tuple(range(n)), (-0.5,) * n, (False,) * n, "raw", "t", behaviour=(-0.5,) * n)
    return Sampled(message, "calls", tokens, Stated.name, prompt_tokens=3, output_tokens=n, seconds=0.0)


@pytest.fixture
def gatherer_of(tmp_path: Path) -> Iterator[Any]:
    opened: list[Any] = []

    def made(budget: int = 1000, **more: Any) -> Gatherer:
        (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
        file = tmp_path / "one.yaml"
        file.write_text(CAMPAIGN.format(name="one", budget=budget), encoding="utf-8")
        ledger: Ledger = Campaign.from_yaml(file, tmp_path / "ledger.db").ledger.store
        given: dict[str, Any] = {"groups": 2, "siblings": 2, "turns": 1, "begins": "seeds"} | more
        run_settings = LiveSettings(
            tasks=(TaskShare(file=file),),
            model="tiny",
            out=tmp_path / "run",
            name="x",
            rewards=tmp_path / "rewards.yaml",
            **given,
        )
        context = driven_task_campaigns.driven(run_settings, ledger)
        tasks = context.__enter__()
        opened.append(context)
        return Gatherer(run_settings, LocalWaves(run_settings, ledger, tasks, SPEC, 1000, "r"))

    yield made
    for context in opened:
        context.__exit__(None, None, None)


def test_groups_whose_siblings_earned_the_same_are_replaced_up_to_a_bound(gatherer_of: Any) -> None:
    gatherer = gatherer_of()
    step = gatherer.gather(1, Stated(alike=1))
    assert (len(step.trained), len(step.dropped)) == (2, 1)
    assert all(group.has_something_to_learn and len(group.turns) == 2 for group in step.trained)
    none = gatherer.gather(2, Stated(alike=99))
    assert (len(none.trained), len(none.dropped)) == (0, 4)


def test_what_an_ended_process_left_is_taken_up_and_not_done_again(gatherer_of: Any) -> None:
    gatherer = gatherer_of()
    step, policy = gatherer.gather(1, Stated(alike=0)), Stated(alike=0)
    gatherer._waves._begun_groups = gatherer._waves._read_begun_groups()
    again = gatherer.gather(1, policy)
    assert policy.asked == 0 and again.trained == step.trained
    assert [row.advantages for group in again.trained for row in group.rows]


def test_a_campaign_without_budget_ends_the_run(gatherer_of: Any) -> None:
    gatherer = gatherer_of(budget=5)
    gatherer.gather(1, Stated(alike=0))
    with pytest.raises(Stopped, match="one: the budget of 5 proposals is used") as stopped:
        gatherer.gather(2, Stated(alike=0))
    assert stopped.value.reason == "budget"
