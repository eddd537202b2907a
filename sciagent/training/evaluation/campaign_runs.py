"""The campaigns of an evaluation: their files, their runs in this process, and their figures.

`planned` makes the campaign files: the file of a task, with the proposer of an arm, a seed and one budget for all.
`CampaignRuns` runs the campaigns one after another, and keeps the last model loaded. `measure` reads the figures of a
campaign from the ledger.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from ruamel.yaml import YAML
from sqlalchemy.engine import Connection

from sciagent.agent.messages_sampling_and_policy_client import (
    EpisodeQuestion,
    Message,
    PolicyClient,
    PolicyError,
    Sampled,
    Sampling,
)
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec, parse_spec
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing.start_and_combine_sources import source_of, start_policy
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.domain.states_and_needs import AttemptState, CampaignState
from sciagent.errors import UsageError
from sciagent.inputs.environment_variables import user
from sciagent.inputs.yaml_document import read, read_text
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import reward_inputs
from sciagent.store.results import evidence
from sciagent.store.views.campaign_counts_and_remarks import is_asked_about
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign
from sciagent.training.evaluation.evaluation_spec import SCRIPTED, ArmSpec, EvaluateSpec
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy

MAX_PROPOSALS = 50  # for each verification; an arm that needs more ends before its verifications are used
MAX_NAME_LENGTH = 64  # characters of a campaign's name
FILE_KEYS = ("seeds", "file")
"""Keys of a proposer that name a file."""
MODEL_KEYS = ("endpoint", "api_key_env", "logprobs", "grammar", "strict", "tool_choice")
"""Keys of a task's proposer that are about its own model."""


@dataclass(frozen=True)
class PlannedCampaign:
    """One campaign of an evaluation."""

    arm: str
    task: str
    """Name in the task's campaign file."""
    seed: int
    name: str
    """Name of the campaign: arm, task and seed, then a hash of all that decides its results."""
    text: str
    """Text of the campaign file."""
    base: Path
    """Folder from which relative paths in the text start."""


def planned(
    spec: EvaluateSpec, folder: Path, arm: str, stated: ArmSpec, version: str = ""
) -> Iterator[PlannedCampaign]:
    """Yields the campaigns of an arm.

    folder: of the file with the evaluation. stated: the arm, with a model in place of a role. version: hash of the
    model's weights.

    Raises UsageError or SpecError for a task or an arm that makes no campaign.
    """
    for task in spec.tasks:
        path = folder / task
        load_spec(path)  # raises SpecError for mistakes in the file
        data = read(read_text(path)).data
        proposer = dict(_proposer(stated, data["proposer"], path, folder))
        if stated.filter is not None:
            proposer["filter"] = stated.filter.model_dump(mode="json", by_alias=True)
        for seed in spec.seeds:
            yield _campaign(data, path, arm, proposer, version=version, seed=seed, verifications=spec.verifications)


def _campaign(
    task: Mapping[str, Any],
    path: Path,
    arm: str,
    proposer: Mapping[str, Any],
    *,
    version: str,
    seed: int,
    verifications: int,
) -> PlannedCampaign:
    """Returns one campaign. task: the content of the task's file, at `path`."""
    keys = dict(task)
    keys["seed"] = seed
    keys["proposer"] = dict(proposer)
    # without `count`, the number of hits at which the campaign would end before all verifications
    keys["goal"] = {"kind": task["goal"]["kind"]}
    keys["budget"] = {"verifications": verifications, "proposals": MAX_PROPOSALS * verifications}
    keys.setdefault("workers", 1)
    digest = content_hash([keys, version])[:8]
    name = _name(arm, task["campaign"], seed, digest)
    keys["campaign"] = name
    stream = io.StringIO()
    YAML(pure=True).dump(keys, stream)
    return PlannedCampaign(
        arm=arm, task=task["campaign"], seed=seed, name=name, text=stream.getvalue(), base=path.resolve().parent
    )


def _name(arm: str, task: str, seed: int, digest: str) -> str:
    """Returns the name of a campaign, in the characters and the length that names may have."""
    ending = f"-{seed}-{digest}"
    beginning = re.sub(r"[^a-z0-9_-]", "-", f"{arm}-{task}".lower())
    return beginning[: MAX_NAME_LENGTH - len(ending)] + ending


def _proposer(arm: ArmSpec, of_task: Mapping[str, Any], path: Path, folder: Path) -> Mapping[str, Any]:
    """Returns the proposer of an arm on a task. path: the task's file."""
    seeds = _seeds(of_task)
    if arm.proposer is not None:
        return _stated_proposer(arm.proposer, seeds, folder)
    model = arm.model or arm.policy
    model_keys: dict[str, Any] = {"model": model}
    if model == SCRIPTED:
        model_keys["structured"] = False
    if of_task["kind"] == "llm":
        kept_keys = {key: value for key, value in of_task.items() if key not in MODEL_KEYS}
        return {**kept_keys, **model_keys}
    if model == SCRIPTED:
        return {"kind": "llm", **seeds, **model_keys, "tools": ["modify"]}
    raise UsageError(
        f"{path}: its proposer is {of_task['kind']}, so that it does not say how a model proposes; write "
        "proposer: {kind: llm, model: NAME, …} in the task, or in the arm"
    )


def _seeds(proposer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the keys by which a proposer of kind `llm` reads the molecules of another proposer; empty without a
    file."""
    for key in FILE_KEYS:
        if key in proposer:
            seeds = {"seeds": proposer[key]}
            if "column" in proposer:
                seeds["column"] = proposer["column"]
            return seeds
    return {}


def _stated_proposer(proposer: Mapping[str, Any], seeds: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Returns the proposer that an arm states, with the seeds of the task if it states none."""
    stated = dict(proposer)
    for key in FILE_KEYS:
        if key in stated:
            stated[key] = str((folder / stated[key]).resolve())
    if stated.get("kind") in ("evolve", "law", "plugin", "llm") and "seeds" not in stated:
        return {**stated, **seeds}
    return stated


_CC = t.campaign_candidate.c
_D = t.decision.c


def measure(connection: Connection, built: Built, planned: PlannedCampaign) -> EvaluatedCampaign:
    """Returns the figures of a campaign that has ended. Seed candidates count in none of them."""
    verified = _verified(connection, built)
    hits_at = []
    scaffolds = set()
    for number, (is_hit, scaffold) in enumerate(verified, start=1):
        if is_hit:
            hits_at.append(number)
            scaffolds.add(scaffold)
    row = campaigns.get(connection, built.row.name)
    n_calls, n_valid = _count_calls(connection, built.row.id)
    return EvaluatedCampaign(
        arm=planned.arm,
        task=planned.task,
        seed=planned.seed,
        campaign=planned.name,
        state=str(row.state),
        stop_reason=row.stop_reason or "",
        verifications=len(verified),
        hits=len(hits_at),
        hits_at=tuple(hits_at),
        scaffolds=len(scaffolds),
        core_seconds=round(_core_seconds(connection, built), 6),
        calls=n_calls,
        valid_calls=n_valid,
    )


def _verified(connection: Connection, built: Built) -> list[tuple[bool, str | None]]:
    """Returns whether each candidate that the terminal rung was asked about is a hit, and its scaffold.

    The candidates are in the order in which the rung was asked about them.
    """
    terminal = built.rungs[built.terminal]
    first_decision = sa.select(sa.func.min(_D.id)).where(
        _D.campaign_id == _CC.campaign_id, _D.candidate_id == _CC.candidate_id, _D.rung_id == terminal.id
    )
    # a terminal rung that runs on each candidate at once has answered in the order of arrival
    order = () if built.decides_at_once else (first_decision.scalar_subquery(),)
    query = (
        sa.select(_CC.is_hit, t.candidate.c.scaffold_hash)
        .select_from(t.campaign_candidate.join(t.candidate, t.candidate.c.id == _CC.candidate_id))
        .where(_CC.campaign_id == built.row.id, *is_asked_about(built.terminal))
        .order_by(*order, _CC.seq)
    )
    return [(bool(is_hit), scaffold) for is_hit, scaffold in connection.execute(query)]


def _core_seconds(connection: Connection, built: Built) -> float:
    """Returns the core-seconds of a campaign: of sampling, of answers, and of attempts that gave no answer.

    All answers and failed attempts on candidates that are no seeds count: answers that the campaign has computed or
    reused, whichever campaign paid for them. What other campaigns have computed since does not count, nor does an
    answer that came after another campaign's: each campaign costs what it would have cost alone.
    """
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == built.row.id, _CC.in_seeds.is_(False))
    candidate_ids = list(connection.execute(query).scalars())
    answer_ids: list[int] = []
    for rung in built.rungs:
        answers = evidence.find_reusable(connection, candidate_ids, rung.verifier.computation)
        answer_ids += [answer.id for answer in answers.values()]
    used_ids = _used_answers(connection, built.row.id)
    shares = reward_inputs.shares(connection, [id_ for id_ in answer_ids if id_ in used_ids])
    answer_seconds = sum(Cost(share).get("core_seconds", 0.0) for share in shares.values())
    spend = t.spend.c
    attempt = t.attempt.c
    spend_sum = sa.select(sa.func.coalesce(sa.func.sum(spend.amount), 0.0))
    is_own = (spend.campaign_id == built.row.id, spend.resource == "core_seconds")
    sampling = spend_sum.where(*is_own, spend.attempt_id.is_(None))
    has_answer = sa.exists().where(t.evidence.c.attempt_id == attempt.id)
    is_of_seed = sa.exists().where(
        t.job.c.id == attempt.job_id,
        _CC.campaign_id == built.row.id,
        _CC.candidate_id == t.job.c.candidate_id,
        _CC.in_seeds,
    )
    failed = spend_sum.select_from(t.spend.join(t.attempt))
    came_second = attempt.state.in_((AttemptState.DONE, AttemptState.CANCELLED_LATE))
    failed = failed.where(*is_own, attempt.id == spend.attempt_id, ~has_answer, ~came_second, ~is_of_seed)
    sampling_seconds = float(connection.execute(sampling).scalar_one())
    failed_seconds = float(connection.execute(failed).scalar_one())
    return answer_seconds + (sampling_seconds + failed_seconds)


def _used_answers(connection: Connection, campaign_id: int) -> set[int]:
    """Returns the ids of the evidence that a campaign has computed or reused."""
    computed = sa.select(t.evidence.c.id).join(t.attempt, t.attempt.c.id == t.evidence.c.attempt_id)
    computed = computed.where(t.attempt.c.campaign_id == campaign_id)
    reused = sa.select(_D.evidence_id).where(_D.campaign_id == campaign_id, _D.evidence_id.is_not(None))
    return set(connection.execute(computed.union(reused)).scalars())


def _count_calls(connection: Connection, campaign_id: int) -> tuple[int, int]:
    """Returns the number of a model's tool calls, and how many of them were carried out. An answer without a call
    counts as a call that was not carried out.

    For a campaign without a model: the number of proposals, and how many of them were molecules.
    """
    turn = t.turn.c
    trajectory = t.trajectory.c
    proposal = t.proposal.c
    turns = t.turn.join(t.trajectory, trajectory.id == turn.trajectory_id)
    query = sa.select(turn.calls, turn.message).select_from(turns).where(trajectory.campaign_id == campaign_id)
    were_carried_out: list[bool] = []
    for calls, message in connection.execute(query):
        if message is None:
            continue
        if calls:
            were_carried_out += [bool(call["ok"]) for call in calls]
        else:
            were_carried_out.append(False)
    if were_carried_out:
        return len(were_carried_out), were_carried_out.count(True)
    is_seed = sa.func.coalesce(proposal.operation, "") == "seed"
    proposals = sa.select(proposal.candidate_id).where(proposal.campaign_id == campaign_id, ~is_seed)
    candidate_ids = list(connection.execute(proposals).scalars())
    n_molecules = len([id_ for id_ in candidate_ids if id_ is not None])  # a text that is no molecule has no id
    return len(candidate_ids), n_molecules


ENDED_STATES = (CampaignState.FINISHED, CampaignState.BUDGET_SPENT)


class CampaignRuns:
    """The campaigns that one process runs. `stop` may be called from any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._loaded_policy: tuple[str, KeptPolicy] | None = None
        """Name of the loaded model, and the model; None if none is loaded."""
        self._driver: Driver | None = None
        self._is_stopped = False

    def run(self, planned: PlannedCampaign) -> EvaluatedCampaign | None:
        """Runs a campaign to its end, or reads the figures of one that has ended; returns None if it was stopped.

        Raises SciagentError.
        """
        if self._is_stopped:
            return None
        spec = parse_spec(planned.text, f"{planned.arm} on {planned.task}", planned.base)
        built = create_or_open(self._ledger, spec, planned.text, user()).built
        if not built.row.has_limits:
            raise UsageError(f"{planned.task} has no hits: no objective of it has limits")
        if built.row.state not in ENDED_STATES:
            final_state = self._drive(built)
            if final_state not in ENDED_STATES:
                return None
        with self._ledger.read() as connection:
            return measure(connection, built, planned)

    def _drive(self, built: Built) -> CampaignState:
        driver = Driver(built, source=partial(source_of, start=self._start))
        self._driver = driver
        try:
            with driver:
                if self._is_stopped:
                    driver.request_stop()
                return driver.run()
        finally:
            self._driver = None

    def stop(self, now: bool = False) -> None:
        """Stops the campaign that runs; it goes on in the next run. now: jobs that run are ended, too."""
        self._is_stopped = True
        driver = self._driver
        if driver is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop()

    def close(self) -> None:
        """Frees the model."""
        if self._loaded_policy is not None:
            _, policy = self._loaded_policy
            policy.end()
            self._loaded_policy = None

    def _start(self, spec: LlmSpec) -> PolicyClient:
        """Returns the model of an arm. A model of this machine stays loaded until another one is asked."""
        if spec.endpoint is not None:
            return start_policy(spec)
        if spec.model == SCRIPTED:
            return OneByOne(ScriptedPolicy())
        if self._loaded_policy is not None:
            name, policy = self._loaded_policy
            if name == spec.model:
                return policy
        self.close()
        loaded = KeptPolicy(start_policy(spec))
        self._loaded_policy = (spec.model, loaded)
        return loaded


class KeptPolicy:
    """A model that outlives the campaign that asks it."""

    def __init__(self, policy: PolicyClient) -> None:
        self._policy = policy
        self.name = policy.name

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        return self._policy.sample(messages, tools, sampling)

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        """Does nothing: the next campaign asks the same model."""

    def end(self) -> None:
        """Closes the model."""
        self._policy.close()


class OneByOne:
    """Lets a policy that answers many questions at once be asked one question at a time."""

    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        self.name = policy.name

    def sample(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], sampling: Sampling) -> Sampled:
        [answer] = self._policy.answers([EpisodeQuestion(messages, tools, sampling)])
        if isinstance(answer, PolicyError):
            raise answer
        return answer

    def identity(self, served: str) -> PolicyIdentity:
        return self._policy.identity(served)

    def close(self) -> None:
        self._policy.close()


def fault_of(error: Exception) -> str:
    """Returns an error in one line."""
    return " ".join(str(error).split()) or repr(error)
