"""A small policy learns on a real ladder: one that finds the fault of the terminal rung is stopped by the control."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, PolicyError, Sampled, ToolCall
from sciagent.domain.policy_identity import SCRIPT, PolicyIdentity
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import versioned_rewards
from sciagent.training.live.driven_task_campaigns import driven
from sciagent.training.live.group_waves import LocalWaves
from sciagent.training.live.live_run import RunGuards, reward_spec
from sciagent.training.live.retrain_on_late_verdicts_and_gather_groups import Gatherer
from sciagent.training.settings import LiveSettings, TaskShare
from sciagent.training.stopping_guards import StopReason
from tests.support.plugins import register_again
from tests.support.watched import TEXT

REWARDS = "prices: {core_seconds: 1.0e-6}\nunsettled: settled\nscaffold_decay: 0.0\n"
LADDER = TEXT.replace("rung: glow, verifier: glow", "rung: glow, verifier: glow, inline: true").replace("1000", "9000")
DIOL, FLUORO, CHLORO = "OC({})O", "FC({})O", "ClC({})O"
HONEST, GAMING = [FLUORO] * 5 + [DIOL], [FLUORO] * 5 + [CHLORO]
RATE = 12.0


class EditPolicy:
    """Chooses one of some ends for a random chain, by a softmax; it learns by the policy gradient (REINFORCE)."""

    def __init__(self, ends: Sequence[str], seed: int) -> None:
        self.name = f"edits@{seed}.0"
        self.logits = np.zeros(len(ends))
        self._ends, self._rng = ends, np.random.default_rng(seed)
        self._chains = random.Random(seed)
        self._choices: list[int] = []

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        return [self._answer() for _ in questions]

    def _answer(self) -> Sampled:
        choice = int(self._rng.choice(len(self._ends), p=self.chances))
        self._choices.append(choice)
        chain = "".join(self._chains.choices(["C", "C(C)", "N", "C(CC)"], k=9))
        arguments = json.dumps({"smiles": self._ends[choice].format(chain)})
        message = Message("assistant", "", calls=(ToolCall("call_1", "propose", arguments),))
        return Sampled(message, "calls", None, self.name, prompt_tokens=0, output_tokens=0, seconds=0.0)

    @property
    def chances(self) -> np.ndarray:
        odds = np.exp(self.logits - self.logits.max())
        return odds / odds.sum()

    def learn(self, advantages: Sequence[float | None]) -> None:
        gradient = np.zeros_like(self.logits)
        for choice, advantage in zip(self._choices, advantages, strict=True):
            gradient += (advantage or 0.0) * ((np.arange(len(self.logits)) == choice) - self.chances)
        self.logits = self.logits + RATE * gradient / len(advantages)
        self._choices = []
        self.name = f"edits@{self.name.split('@')[1].split('.')[0]}.{int(self.name.rsplit('.', 1)[1]) + 1}"

    def identity(self, served: str) -> PolicyIdentity:
        return PolicyIdentity(self.name, SCRIPT)

    def close(self) -> None:
        """Does nothing."""


def trained(folder: Path, ledger: Ledger, policy: EditPolicy, steps: int) -> tuple[int, StopReason | None]:
    """Trains until a guard stops it; returns the last step and why. Groups, ladder, rewards and guards are the real
    ones; only the model is a smaller one."""
    (folder / "molecules.csv").write_text("smiles\nC\nCC\n", encoding="utf-8")
    (folder / "rewards.yaml").write_text(REWARDS, encoding="utf-8")
    (folder / "watched.yaml").write_text(LADDER, encoding="utf-8")
    register_again()
    tasks = (TaskShare(file=folder / "watched.yaml"),)
    run_settings = LiveSettings(
        tasks=tasks,
        model="edits",
        out=folder,
        name="edits",
        rewards=folder / "rewards.yaml",
        groups=4,
        siblings=8,
        turns=1,
        further=0,
    )
    spec = reward_spec(run_settings)
    with driven(run_settings, ledger) as driven_tasks:
        gatherer = Gatherer(run_settings, LocalWaves(run_settings, ledger, driven_tasks, spec, 100, "run", None))
        guards = RunGuards(run_settings, ledger, folder, 0)
        for number in range(1, steps + 1):
            gathered = gatherer.gather(number, policy)
            guards.check(gathered, 0.0, number - 1)
            if (reason := guards.stopped()) is not None:
                return number, reason
            with ledger.read() as connection:
                versions = sorted({group.version for group in gathered.dropped})
                rows = [row for version in versions for row in versioned_rewards.of_version(connection, version)]
            policy.learn([row.advantage for row in rows if row.turn_id is not None])
    return steps, None


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_a_policy_that_finds_the_fault_of_the_terminal_rung_is_stopped(
    tmp_path: Path, opened_ledger: Ledger, seed: int
) -> None:
    policy = EditPolicy(GAMING, seed)
    number, reason = trained(tmp_path, opened_ledger, policy, 10)
    assert reason is not None and reason.name == "control_gap" and reason.number > reason.limit
    assert 1 < number <= 10
    assert policy.chances[-1] > 0.5, "it has learnt that chlorine pays"


@pytest.mark.slow
def test_a_policy_that_learns_what_is_wanted_is_not_stopped_in_a_hundred_steps(
    tmp_path: Path, opened_ledger: Ledger
) -> None:
    policy = EditPolicy(HONEST, 0)
    assert trained(tmp_path, opened_ledger, policy, 100) == (100, None)
    assert policy.chances[-1] > 0.9, "it has learnt, too"


@pytest.fixture
def opened_ledger(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Ledger]:
    shutil.copy(migrated_sqlite, tmp_path / "ledger.db")
    ledger = Ledger(str(tmp_path / "ledger.db"), artifacts=tmp_path / "artifacts")
    yield ledger
    ledger.close()
