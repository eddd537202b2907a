"""The guards of a run: `GuardWatch` has all of them check each step, and keeps the facts of the steps in a file.

With the facts in the folder of the run, the guards can go on after a crash. `episode_facts` reads the facts of episodes
from the ledger. A law is the fitted model that values candidates without an answer. The control is a rung that decides
nothing; it checks the rewards. A lot draws candidates at random, to be verified whatever the law says of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.rewards.guard_report import CheckedCandidate, CheckedEpisode, EpisodeReader, payoff_of
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import Settlement
from sciagent.store.learning.versioned_rewards import RewardRow
from sciagent.training.settings import GuardSettings
from sciagent.training.stopping_guards import (
    ControlGapGuard,
    EpisodeFacts,
    ExploitationGuard,
    Guard,
    KlBudgetGuard,
    StepFacts,
    StopReason,
    UnsettledGuard,
)

FILE = "guards.jsonl"
PATIENCE = 5  # steps after which a guard that can compute nothing says so
UNKNOWN_PROMISE: tuple[float | None, float] = (None, -1.0)  # no mean, and the default of `EpisodeFacts.least_promise`


def guards_of(settings: GuardSettings) -> Iterator[Guard]:
    """Yields the guards that are not off."""
    if settings.control_gap is not None:
        yield ControlGapGuard(settings.control_gap, settings.level)
    if settings.exploitation is not None:
        yield ExploitationGuard(settings.exploitation, settings.level)
    if settings.kl_budget is not None:
        yield KlBudgetGuard(settings.kl_budget)
    if settings.unsettled is not None:
        yield UnsettledGuard(settings.unsettled)


class GuardWatch:
    """Checks the steps of a run. When a run goes on, the guards check its earlier steps again, from the file."""

    def __init__(self, settings: GuardSettings, folder: Path, done: int = 0) -> None:
        """folder: of the run. done: the step of the checkpoint from which it goes on; facts of later steps are
        removed."""
        self._guards = list(guards_of(settings))
        self._path = folder / FILE
        self.stopped: StopReason | None = None
        """Why a guard has stopped the run already; None if none has."""
        kept = [facts for facts in _read(self._path) if facts.step <= done]
        for facts in kept:
            self.stopped = self._first_reason(facts) or self.stopped
        part = self._path.with_suffix(".part")
        part.write_text("".join(f"{facts.model_dump_json()}\n" for facts in kept), encoding="utf-8")
        part.replace(self._path)

    def check(self, facts: StepFacts) -> StopReason | None:
        """Returns why the run has to stop after this step; None if it may go on. Runs before the step's checkpoint."""
        with self._path.open("a", encoding="utf-8") as lines:
            lines.write(f"{facts.model_dump_json()}\n")
            lines.flush()
            os.fsync(lines.fileno())
        self.stopped = self._first_reason(facts)
        return self.stopped

    def idle_guards(self, step: int) -> tuple[str, ...]:
        """Returns, at the step `PATIENCE` only, a sentence for each guard that could not compute anything so far."""
        if step != PATIENCE:
            return ()
        return tuple(
            f"guard {guard.name} is not at work: {guard.idle_reason}" for guard in self._guards if guard.idle_reason
        )

    def _first_reason(self, facts: StepFacts) -> StopReason | None:
        """Has every guard check a step; returns the reason of the first guard that wants to stop the run."""
        reasons = [guard.check(facts) for guard in self._guards]  # a guard needs every step, also after a reason
        for reason in reasons:
            if reason is not None:
                return reason
        return None


def _read(path: Path) -> Iterator[StepFacts]:
    """Yields the facts of the steps in a file. A last line that a crash has cut is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            yield StepFacts.model_validate_json(line)


def episode_facts(
    built: Built,
    connection: Connection,
    rows: Sequence[RewardRow],
    spec: RewardSpec,
    as_of: int,
    policies: Mapping[int, int],
) -> tuple[EpisodeFacts, ...]:
    """Returns the facts of episodes of a campaign, in their order.

    rows: the rewards of these episodes, of one version. spec, as_of: its description and watermark. policies: by id of
    the episode, the number of steps that its policy had been trained for.
    """
    reader = EpisodeReader(built, connection, rows, spec, as_of)
    ids = sorted(reader.rewards)
    checked = reader.read(ids)
    return tuple(_facts(checked[id_], policies[id_], spec) for id_ in ids)


def has_promises(built: Built, spec: RewardSpec) -> bool:
    """Returns whether a law promises rewards that a lot can check."""
    scheduler = built.spec.scheduler
    draws_lots = scheduler.knows_chance or scheduler.kind == "priced"  # the audit of `priced` draws, too
    return spec.unsettled == "posterior" and draws_lots


def _facts(episode: CheckedEpisode, policy: int, spec: RewardSpec) -> EpisodeFacts:
    promise, least_promise = UNKNOWN_PROMISE
    if spec.unsettled == "posterior":
        promise, least_promise = _promise(episode.candidates)
    earned = [max(each.worth or 0.0, 0.0) for each in episode.candidates]
    unsettled = [max(each.worth or 0.0, 0.0) for each in episode.candidates if not each.settled]
    return EpisodeFacts(
        episode=episode.id,
        policy=policy,
        gap=_gap(episode.candidates),
        promise=promise,
        least_promise=least_promise,
        earned=sum(earned),
        unsettled=sum(unsettled),
    )


def _gap(candidates: Sequence[CheckedCandidate]) -> float | None:
    """Returns the mean over candidates of the payoff less the control's score; None if the control answered on none."""
    gaps = []
    for each in candidates:
        payoff = None if each.state is None else payoff_of(each.state)
        if payoff is not None and each.score is not None:
            gaps.append(payoff - each.score)
    return float(np.mean(gaps)) if gaps else None


def _promise(candidates: Sequence[CheckedCandidate]) -> tuple[float | None, float]:
    """Returns the mean of what a law promises less what a lot finds, and the smallest value that it can have.

    Let π be the chance with which the lot draws a candidate. A candidate that was not drawn adds its expected payoff /
    (1 - π), and a drawn one subtracts its payoff / π. So the candidates of either kind stand for all of them (Horvitz
    and Thompson 1952). The mean is None while one of these numbers is not known.
    """
    values = list[float]()
    chances = list[float]()
    for each in candidates:
        if each.lot is None or each.state is None:
            continue
        chance = each.lot.chance
        if each.lot.is_drawn:
            payoff = payoff_of(each.state)
            if payoff is None:
                return UNKNOWN_PROMISE
            values.append(-payoff / chance)
        else:
            if each.state.settlement is not Settlement.OPEN or each.expected is None:
                return UNKNOWN_PROMISE
            values.append(each.expected / (1 - chance))
        chances.append(chance)
    if not values:
        return UNKNOWN_PROMISE
    return float(np.mean(values)), -1 / min(chances)  # no payoff is above 1
