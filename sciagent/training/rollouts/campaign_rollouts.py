"""Rolls out groups of episodes in a campaign: seeds first, then the groups in lock-step, then the ladder.

A training campaign proposes its seeds before the rollouts begin. After the rollouts it proposes nothing more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, get_args

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.proposers import LlmSpec, ScreenSpec
from sciagent.campaign.proposing.named_policies import named_model, with_model_name
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import Runs
from sciagent.campaign.proposing.source_contract_and_scripts import ProposerSlot, ScriptSource, Source, TurnResult
from sciagent.campaign.proposing.start_and_combine_sources import start_policy
from sciagent.errors import CampaignError, UsageError, did_you_mean
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.store.job_queue import attempts
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.store.learning.rollout_groups import GroupCounts
from sciagent.training.rollouts.campaign_snapshot_and_workbench import beginning
from sciagent.training.rollouts.lock_step import RolloutRunner, StepResult
from sciagent.training.rollouts.open_and_resume_groups import Group, RolledGroup, RolloutAnswer, RolloutPlan, Skills
from sciagent.training.rollouts.random_edit_policy import SCRIPTED, ScriptedPolicy
from sciagent.training.rollouts.tool_calls_across_episodes import WorkerTeam
from sciagent.verification.sandbox.host import Worker

if TYPE_CHECKING:
    from sciagent.agent.policies.batched_policies import BatchPolicy


class NoSource:
    """The source that proposes nothing. With it, a driver only verifies the candidates that are there."""

    is_busy = False
    is_ready = False
    patience = 1
    total: int | None = None
    fault: str | None = None

    def prepare(self) -> bool:
        return True

    def take(self, limit: int) -> TurnResult | None:
        return None

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def no_source(built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
    """Returns a source that proposes nothing, whatever the campaign."""
    return NoSource()


def seed_source(built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
    """Returns the source of the campaign's seeds: its file of molecules, each proposed once."""
    spec = _only_proposer(built)
    if isinstance(spec, LlmSpec) and spec.seeds is None:
        return NoSource()
    with built.ledger.begin() as connection:
        return ScriptSource(built, connection, lease, worker, ProposerSlot(name="", spec=spec, bell=bell))


def check_seeds(built: Built) -> None:
    """Raises CampaignError if a rung could verify no seed because this machine lacks what the verifier needs.

    Then no proposal could be verified either, and a model that is trained would learn from costs alone.
    """
    with built.ledger.read() as connection:
        fault = attempts.environment_fault(connection, built.row.id)
    if fault is not None:
        rung_id, reason = fault
        rung = next(rung.spec for rung in built.all_rungs if rung.id == rung_id)
        raise CampaignError(f'{built.row.name}: rung "{rung.rung}" ({rung.verifier}) could verify no seed: {reason}')


def model_spec(built: Built) -> LlmSpec:
    """Returns the settings of the campaign's model; if it has none, the settings of a script that calls tools.

    Raises UsageError for a campaign whose proposer is neither a model nor a file.
    """
    spec = _only_proposer(built)
    if isinstance(spec, LlmSpec):
        return spec
    return LlmSpec.model_validate({"kind": "llm", "model": SCRIPTED, "structured": False})


def _only_proposer(built: Built) -> LlmSpec | ScreenSpec:
    """Returns the campaign's proposer. Raises UsageError unless it is one model or one file."""
    proposers = [spec for _, spec in built.spec.proposers]
    if len(proposers) == 1 and isinstance(proposers[0], LlmSpec | ScreenSpec):
        return proposers[0]
    kinds = " and ".join(spec.kind for spec in proposers)
    raise UsageError(
        f"rollouts begin from the {built.subject.words.many} of a file, and this campaign's proposer is {kinds}; write "
        "proposer: {kind: llm, model: NAME, seeds: FILE}, or {kind: screen, file: FILE} for --policy scripted"
    )


PAUSE_SECONDS = 0.25  # between looks for the end of a pause
MAX_PLANNED = 1000  # groups, siblings or turns of a call
PURPOSES = ("rollout", "evaluation", "demonstration")


def plan_of(
    groups: int, siblings: int, turns: int, policy: str, purpose: Purpose, begins: str = "now", skills: Skills = "with"
) -> RolloutPlan:
    """Returns the plan of a call. Raises UsageError for a number out of range or an unknown purpose."""
    for name, number in (("groups", groups), ("siblings", siblings), ("turns", turns)):
        if not 1 <= number <= MAX_PLANNED:
            raise UsageError(f"{name}: {number} is not from 1 to {MAX_PLANNED}")
    if purpose not in PURPOSES:
        raise UsageError(f'purpose: "{purpose}" is none of {", ".join(PURPOSES)}{did_you_mean(purpose, PURPOSES)}')
    beginning(begins)  # raises UsageError for a wrong text
    if skills not in get_args(Skills):
        raise UsageError(f'skills: "{skills}" is none of {", ".join(get_args(Skills))}')
    return RolloutPlan(groups, siblings, turns, policy, purpose, begins=begins, skills=skills)


@contextmanager
def policy_of(built: Built, name: str | None) -> Iterator[BatchPolicy]:
    """Starts the policy of rollouts, and closes it at the end.

    name: `scripted`, a model of this machine, or a role or policy of the ledger whose weights are on this machine; None
    for the campaign's own model. Raises UsageError if the model or its extra is missing.
    """
    from sciagent.agent.policies.batched_policies import InProcessPolicy, ThreadedPolicy
    from sciagent.agent.policies.local_model import LocalPolicy

    spec = model_spec(built)
    if name is not None:
        model = SCRIPTED if name == SCRIPTED else named_model(built.ledger, name)
        # a model that is named is not asked at the campaign's own endpoint
        spec = spec.model_copy(update={"model": model, "policy": None, "endpoint": None, "api_key_env": None})
    else:
        spec = with_model_name(built, proposer="", spec=spec)
    if spec.model == SCRIPTED and spec.endpoint is None:
        policy: BatchPolicy = ScriptedPolicy(built.subject)
    else:
        client = start_policy(spec)
        policy = InProcessPolicy(client) if isinstance(client, LocalPolicy) else ThreadedPolicy(client)
    try:
        yield policy
    finally:
        policy.close()


def obstacle(driver: Driver) -> str | None:
    """Returns why no further turn of a rollout may begin; None if one may."""
    session = driver.session
    limit = driver.built.spec.budget.proposals
    if session.stopping.is_set():
        return session.stop_reason
    if limit is not None and driver.intake.n_proposals >= limit:
        return f"the budget of {limit} proposals is used"
    verifications = driver.built.spec.budget.verifications
    if verifications is not None:
        with driver.built.ledger.read() as connection:
            if session.verifications_left(connection) == 0:
                return f"the budget of {verifications} verifications is used"
    return session.budget.exhausted()


def obstacle_after_pause(driver: Driver) -> str | None:
    """Waits while the campaign is paused. Returns why no further turn may begin; None if it may."""
    driver.attend()  # a person may have paused or stopped the campaign
    session = driver.session
    while driver.mailbox.paused and not session.stopping.is_set():
        session.stopping.wait(PAUSE_SECONDS)
        driver.attend()
    return obstacle(driver)


def count_step(driver: Driver, done: StepResult) -> None:
    """Counts the proposals and the cost of a step against the budget, and its hits if the goal needs their number."""
    driver.intake.n_proposals += done.proposals
    driver.session.budget.spend(done.cost)
    if driver.built.spec.goal.kind == "hits":
        with driver.built.ledger.read() as connection:
            driver.session.count_hits(connection)


class RolloutDrive:
    """One call of rollouts in this process. `stop` may be called from any thread; a step is finished first."""

    def __init__(self, built: Built, policy: BatchPolicy, workers: int | None, say: Callable[[str], None]) -> None:
        """say: shows a line of progress."""
        self._built = built
        self._policy = policy
        self._workers = workers
        self._say = say
        self._driver: Driver | None = None
        self._is_stopped = False
        self._turns = 0
        self._seconds = 0.0
        self._why: str | None = None
        """Why no further turn may begin; None if one may."""

    def stop(self, now: bool = False) -> None:
        """Ends the call after the step that runs. now: whether to end paid rungs that run, too; they run again
        later."""
        self._is_stopped = True
        if self._driver is not None:
            if now:
                self._driver.abort()
            else:
                self._driver.request_stop()

    def run(self, plan: RolloutPlan) -> RolloutAnswer:
        """Proposes the seeds, rolls out the groups, and lets the ladder decide about all candidates."""
        with self._driving(Driver(self._built, self._workers, source=seed_source)) as driver:
            driver.run()  # until the seeds are verified
        groups: list[Group] = []
        if not self._is_stopped:
            check_seeds(self._built)
            with self._driving(Driver(self._built, self._workers, source=no_source)) as driver:
                cores = self._workers or self._built.spec.workers
                with WorkerTeam(driver.worker, self._built, cores) as team:
                    groups = self._roll_out(driver, plan, team)
                driver.run()  # until the ladder has decided
        return self._answer(groups)

    def _driving(self, driver: Driver) -> Driver:
        """Notes the driver, so that `stop` can stop it; returns it."""
        self._driver = driver
        return driver

    def _roll_out(self, driver: Driver, plan: RolloutPlan, worker: Runs) -> list[Group]:
        spec = model_spec(self._built)
        runner = RolloutRunner(self._built, driver.session.lease, worker, self._policy, spec)
        groups = runner.continued()
        if runner.broken:
            numbers = ", ".join(map(str, runner.broken))
            self._say(f"groups left open with another policy, other tools or another version are broken now: {numbers}")
        if groups:
            self._say(f"continuing {len(groups)} groups that were left open; no new ones are begun")
        else:
            groups = runner.opened(plan)
        began_at = time.monotonic()
        self._why = obstacle_after_pause(driver)
        while self._why is None:
            done = runner.step(groups)
            if done is None:
                break
            self._turns += done.turns
            count_step(driver, done)
            self._seconds = time.monotonic() - began_at
            self._say(_line(done, groups, self._seconds))
            self._why = obstacle_after_pause(driver)
        return groups

    def _answer(self, groups: Sequence[Group]) -> RolloutAnswer:
        with self._built.ledger.read() as connection:
            row = campaigns.get(connection, self._built.row.name)
            counts = group_rows.counts(connection, [group.row.id for group in groups])
        rows = tuple(_rolled(group, counts[group.row.id]) for group in groups)
        is_open = any(each.state == "open" for each in rows)
        return RolloutAnswer(
            campaign=row.name,
            state=str(row.state),
            policy=self._policy.name,
            groups=rows,
            turns=self._turns,
            seconds=round(self._seconds, 3),
            stopped=self._why if is_open else None,
        )


def _rolled(group: Group, counts: GroupCounts) -> RolledGroup:
    return RolledGroup(
        group=group.row.number,
        state=counts.state,
        siblings=group.row.size,
        turns=counts.turns,
        proposals=counts.proposals,
        new=counts.new,
        snapshot=group.row.snapshot_watermark,
    )


def _line(done: StepResult, groups: Sequence[Group], seconds: float) -> str:
    turn = max(len(each.episode.turns) for group in groups for each in group.siblings)
    return f"turn {turn}: {done.turns} episodes, {done.proposals} proposals, {done.new} of them new; {seconds:.1f} s"
