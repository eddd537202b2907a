"""The guards of a run on facts of simulated steps: who is stopped, when, and what a restart knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sciagent.training.guard_watch_and_episode_facts import FILE, PATIENCE, GuardWatch
from sciagent.training.settings import GuardSettings, read_guards
from sciagent.training.stopping_guards import EpisodeFacts, StepFacts, StopReason

EPISODES = 24  # of a step
CHECKED = 3  # candidates of an episode that the control has answered


def step(number: int, hits: float, unconfirmed: float, rng: np.random.Generator, **more: object) -> StepFacts:
    """A step whose candidates are hits with one probability, which the control does not confirm with another."""
    episodes = []
    for place in range(EPISODES):
        paid = rng.random(CHECKED) < hits
        gap = float((paid & (rng.random(CHECKED) < unconfirmed)).mean())
        id_ = number * EPISODES + place
        episodes.append(EpisodeFacts(episode=id_, policy=number - 1, gap=gap, earned=float(paid.sum())))
    return StepFacts(step=number, has_control=True, episodes=tuple(episodes), **more)


def stopped_at(folder: Path, hits: np.ndarray, unconfirmed: np.ndarray, seed: int) -> tuple[int, StopReason] | None:
    folder.mkdir()
    watch, rng = GuardWatch(GuardSettings(), folder), np.random.default_rng(seed)
    for number, (hit, lost) in enumerate(zip(hits, unconfirmed, strict=True), start=1):
        if (reason := watch.check(step(number, hit, lost, rng))) is not None:
            return number, reason
    return None


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_games_the_reward_is_stopped_within_ten_steps(tmp_path: Path, seed: int) -> None:
    found = stopped_at(tmp_path / "run", np.linspace(0.3, 0.9, 10), np.linspace(0.1, 1.0, 10), seed)
    assert found is not None
    number, reason = found
    assert number <= 10
    assert reason.name == "control_gap" and reason.number > reason.limit == 0.1
    assert "the control does not confirm" in reason.sentence


def test_an_honest_policy_is_not_stopped_in_a_hundred_steps(tmp_path: Path) -> None:
    """It earns more and more, and of what it earns the control confirms 85 %, as of the first policy."""
    for seed in range(4):
        hits, unconfirmed = np.linspace(0.2, 0.8, 100), np.full(100, 0.15)
        assert stopped_at(tmp_path / str(seed), hits, unconfirmed, seed) is None


def test_promises_that_are_not_kept_stop_a_run_and_kept_ones_do_not(tmp_path: Path) -> None:
    def run(folder: Path, worth: float) -> int | None:
        folder.mkdir()
        watch, rng = GuardWatch(read_guards(["control_gap=off", "unsettled=off"]), folder), np.random.default_rng(0)
        for number in range(1, 101):
            drawn, paid = rng.random(EPISODES) < 0.25, rng.random(EPISODES) < worth
            promises = np.where(drawn, paid / -0.25, 0.6 / 0.75)
            episodes = tuple(
                EpisodeFacts(episode=number * EPISODES + i, policy=number, promise=promise, least_promise=-4.0)
                for i, promise in enumerate(promises)
            )
            reason = watch.check(StepFacts(step=number, has_promises=True, episodes=episodes))
            if reason is not None:
                assert reason.name == "exploitation"
                return number
        return None

    assert run(tmp_path / "kept", 0.6) is None
    broken = run(tmp_path / "broken", 0.1)
    assert broken is not None and broken <= 20


def test_each_version_of_rewards_has_a_kl_budget_of_its_own(tmp_path: Path) -> None:
    watch = GuardWatch(read_guards(["kl_budget=0.3"]), tmp_path)
    assert watch.check(StepFacts(step=1, kl=0.2, rewards="a")) is None
    assert watch.check(StepFacts(step=2, kl=0.4, rewards="b")) is None
    assert watch.check(StepFacts(step=3, kl=0.5, rewards="b")) is None
    reason = watch.check(StepFacts(step=4, kl=0.6, rewards="b"))
    assert reason is not None and (reason.name, reason.limit) == ("kl_budget", 0.3)
    assert reason.number == pytest.approx(0.4) and "the last change of the rewards" in reason.sentence


def test_a_run_that_lives_on_unsettled_reward_is_stopped(tmp_path: Path) -> None:
    watch = GuardWatch(GuardSettings(), tmp_path)
    for number in range(1, 6):
        paid = EpisodeFacts(episode=number, policy=number, earned=1.0, unsettled=0.75)
        reason = watch.check(StepFacts(step=number, episodes=(paid,)))
        assert (reason is None) == (number < 5)
    assert reason is not None and (reason.name, reason.number) == ("unsettled", 0.75)


def test_a_guard_that_sees_nothing_says_so_once(tmp_path: Path) -> None:
    watch, said = GuardWatch(GuardSettings(), tmp_path), list[str]()
    for number in range(1, 11):
        assert watch.check(StepFacts(step=number)) is None
        said += watch.idle_guards(number)
    assert [line.split()[1] for line in said] == ["control_gap", "exploitation", "kl_budget"]
    assert "control: true" in said[0] and PATIENCE < 10


def test_a_run_that_goes_on_decides_as_if_it_had_never_ended(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    steps = [step(n, 0.4 + 0.05 * n, 0.06 * n, rng, kl=0.01 * n) for n in range(1, 13)]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    whole.mkdir(), cut.mkdir()
    watch = GuardWatch(GuardSettings(), whole)
    told = [watch.check(facts) for facts in steps]
    assert any(told)
    first = GuardWatch(GuardSettings(), cut)
    again = [first.check(facts) for facts in steps[:4]]
    with (cut / FILE).open("a") as lines:
        lines.write('{"step": 5, "kl"')  # killed here; the checkpoint is of step 3
    resumed = GuardWatch(GuardSettings(), cut, done=3)
    assert again[:3] + [resumed.check(facts) for facts in steps[3:]] == told
    assert (cut / FILE).read_text() == (whole / FILE).read_text()
    assert GuardWatch(GuardSettings(), cut, done=12).stopped is not None
