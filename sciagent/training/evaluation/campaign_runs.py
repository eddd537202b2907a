"""Runs the campaigns of an evaluation in this process, one after another. The last model stays loaded.

The campaigns of an evaluation: the file of a task, with the proposer of an arm, a seed and one budget for all.

Reads what a campaign of an evaluation achieved, from the ledger.
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

from sciagent.agent.messages import EpisodeQuestion, Message, PolicyClient, PolicyError, Sampled, Sampling
from sciagent.agent.policies.batches import BatchPolicy
from sciagent.campaign.core.build import Built
from sciagent.campaign.core.opening import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec, parse_spec
from sciagent.campaign.file.sources import LlmSpec
from sciagent.campaign.proposing.sources import source_of, start_policy
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import content_hash
from sciagent.domain.policies import PolicyIdentity
from sciagent.domain.states import CampaignState
from sciagent.errors import UsageError
from sciagent.inputs.document import read, read_text
from sciagent.inputs.settings import user
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes
from sciagent.store.results import evidence
from sciagent.store.views.campaign_counts import asked_about
from sciagent.training.evaluation.spec import SCRIPTED, ArmSpec, EvaluatedCampaign, EvaluateSpec
from sciagent.training.rollouts.scripted import ScriptedPolicy

PROPOSALS = 50  # most proposals for each verification; an arm that needs more ends before its verifications are used
FILES = ("seeds", "file")
OF_OTHER_MODELS = ("endpoint", "api_key_env", "logprobs", "grammar", "strict", "tool_choice")
"""Keys of a task's proposer that are about its own model."""


@dataclass(frozen=True)
class PlannedCampaign:
    """One campaign of an evaluation."""

    arm: str
    task: str
    """Name of the task's campaign."""
    seed: int
    name: str
    """Name of the campaign, which tells arm, task and seed, and ends with a hash of all that decides its results."""
    text: str
    """Its campaign file."""
    base: Path
    """Folder from which relative paths in the text start."""


def planned(
    spec: EvaluateSpec, folder: Path, arm: str, stated: ArmSpec, version: str = ""
) -> Iterator[PlannedCampaign]:
    """Yields the campaigns of an arm.

    folder: of the file with the evaluation. stated: the arm, with a model in place of the role of a policy. version:
    hash of its weights.

    Raises UsageError or SpecError for a task or an arm that makes no campaign.
    """
    for task in spec.tasks:
        path = folder / task
        load_spec(path)  # raises all mistakes of the file
        data = read(read_text(path)).data
        proposer = _proposer(stated, data["proposer"], path, folder)
        for seed in spec.seeds:
            yield _campaign(data, path, arm, proposer, version, seed, spec.verifications)


def _campaign(
    task: Mapping[str, Any],
    path: Path,
    arm: str,
    proposer: Mapping[str, Any],
    version: str,
    seed: int,
    verifications: int,
) -> PlannedCampaign:
    keys = dict(task) | {"seed": seed, "proposer": dict(proposer)}
    keys |= {"goal": {"kind": task["goal"]["kind"]}}  # `count` would end it before its verifications are used
    keys |= {"budget": {"verifications": verifications, "proposals": PROPOSALS * verifications}}
    keys.setdefault("workers", 1)
    digest = content_hash([keys, version])[:8]
    name = _name(arm, task["campaign"], seed, digest)
    keys["campaign"] = name
    stream = io.StringIO()
    YAML(pure=True).dump(keys, stream)
    return PlannedCampaign(arm, task["campaign"], seed, name, stream.getvalue(), path.resolve().parent)


def _name(arm: str, task: str, seed: int, digest: str) -> str:
    end = f"-{seed}-{digest}"
    return re.sub(r"[^a-z0-9_-]", "-", f"{arm}-{task}".lower())[: 64 - len(end)] + end


def _proposer(arm: ArmSpec, of_task: Mapping[str, Any], path: Path, folder: Path) -> Mapping[str, Any]:
    """Returns the proposer of an arm on a task. path: the task's file."""
    seeds = next(({"seeds": of_task[key]} for key in FILES if key in of_task), {})
    if seeds and "column" in of_task:
        seeds["column"] = of_task["column"]
    if arm.proposer is not None:
        return _stated(arm.proposer, seeds, folder)
    model = arm.model or arm.policy
    here = {"model": model, "structured": False} if model == SCRIPTED else {"model": model}
    if of_task["kind"] == "llm":
        return {**{key: value for key, value in of_task.items() if key not in OF_OTHER_MODELS}, **here}
    if model == SCRIPTED:
        return {"kind": "llm", **seeds, **here, "tools": ["modify"]}
    raise UsageError(
        f"{path}: its proposer is {of_task['kind']}, so that it does not say how a model proposes; write "
        "proposer: {kind: llm, model: NAME, …} in the task, or in the arm"
    )


def _stated(proposer: Mapping[str, Any], seeds: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Returns the proposer that an arm states, with the seeds of the task if it states none."""
    stated = {key: str((folder / value).resolve()) if key in FILES else value for key, value in proposer.items()}
    if stated.get("kind") in ("evolve", "plugin", "llm") and "seeds" not in stated:
        return {**stated, **seeds}
    return stated


_CC = t.campaign_candidate.c
_D = t.decision.c


def measure(connection: Connection, built: Built, planned: PlannedCampaign) -> EvaluatedCampaign:
    """Returns the figures of a campaign that has ended. Seeds count nowhere."""
    rows = _verified(connection, built)
    hits = [(place, scaffold) for place, (is_hit, scaffold) in enumerate(rows, start=1) if is_hit]
    row = campaigns.get(connection, built.row.name)
    calls, valid = _calls(connection, built.row.id)
    return EvaluatedCampaign(
        arm=planned.arm,
        task=planned.task,
        seed=planned.seed,
        campaign=planned.name,
        state=str(row.state),
        stop_reason=row.stop_reason or "",
        verifications=len(rows),
        hits=len(hits),
        hits_at=tuple(place for place, _ in hits),
        scaffolds=len({scaffold for _, scaffold in hits}),
        core_seconds=round(_core_seconds(connection, built), 6),
        calls=calls,
        valid_calls=valid,
    )


def _verified(connection: Connection, built: Built) -> list[tuple[bool, str | None]]:
    """Whether a candidate is a hit, and its scaffold, for each candidate that the terminal rung was asked about, in the
    order of the questions."""
    terminal = built.rungs[built.terminal]
    asked = sa.select(sa.func.min(_D.id)).where(
        _D.campaign_id == _CC.campaign_id, _D.candidate_id == _CC.candidate_id, _D.rung_id == terminal.id
    )
    order = () if built.decides_at_once else (asked.scalar_subquery(),)
    query = (
        sa.select(_CC.is_hit, t.candidate.c.scaffold_hash)
        .select_from(t.campaign_candidate.join(t.candidate, t.candidate.c.id == _CC.candidate_id))
        .where(_CC.campaign_id == built.row.id, *asked_about(built.terminal))
        .order_by(*order, _CC.seq)
    )
    return [(bool(is_hit), scaffold) for is_hit, scaffold in connection.execute(query)]


def _core_seconds(connection: Connection, built: Built) -> float:
    """Core-seconds of the sampling, of all answers on candidates that are no seeds, whoever paid for them, and of this
    campaign's attempts that gave no answer."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == built.row.id, _CC.in_seeds.is_(False))
    ids = list(connection.execute(query).scalars())
    answers = [
        each.id
        for rung in built.rungs
        for each in evidence.find_reusable(connection, ids, rung.verifier.computation).values()
    ]
    verified = sum(Cost(share).get("core_seconds", 0.0) for share in episodes.shares(connection, answers).values())
    s = t.spend.c
    a = t.attempt.c
    mine = (s.campaign_id == built.row.id, s.resource == "core_seconds")
    sampled = sa.select(sa.func.coalesce(sa.func.sum(s.amount), 0.0)).where(*mine, s.attempt_id.is_(None))
    answered = sa.exists().where(t.evidence.c.attempt_id == a.id)
    failed = sa.select(sa.func.coalesce(sa.func.sum(s.amount), 0.0)).select_from(t.spend.join(t.attempt))
    failed = failed.where(*mine, a.id == s.attempt_id, ~answered)
    return verified + sum(float(connection.execute(each).scalar_one()) for each in (sampled, failed))


def _calls(connection: Connection, campaign_id: int) -> tuple[int, int]:
    """Returns the number of calls of a model, and of those that were carried out; of a script, the number of its
    proposals and of those that were molecules. An answer without a call counts as a call that was not carried out."""
    u = t.turn.c
    j = t.trajectory.c
    p = t.proposal.c
    turns = sa.select(u.calls, u.message).select_from(t.turn.join(t.trajectory, j.id == u.trajectory_id))
    rows = connection.execute(turns.where(j.campaign_id == campaign_id))
    made = [calls or [{"ok": False}] for calls, message in rows if message is not None]
    if made:
        oks = [bool(call["ok"]) for calls in made for call in calls]
        return len(oks), sum(oks)
    seeds = sa.func.coalesce(p.operation, "") == "seed"
    texts = sa.select(p.candidate_id).where(p.campaign_id == campaign_id, ~seeds)
    known = [id_ is not None for id_ in connection.execute(texts).scalars()]
    return len(known), sum(known)


ENDED = (CampaignState.FINISHED, CampaignState.BUDGET_SPENT)


class CampaignRuns:
    """The campaigns that one process runs. `stop` may be called from any thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: tuple[str, KeptPolicy] | None = None
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
        if built.row.state not in ENDED and self._drive(built) not in ENDED:
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
        if (driver := self._driver) is not None:
            if now:
                driver.abort()
            else:
                driver.request_stop()

    def close(self) -> None:
        """Frees the model."""
        if self._kept is not None:
            self._kept[1].end()
            self._kept = None

    def _start(self, spec: LlmSpec) -> PolicyClient:
        """Returns the model of an arm. A model of this machine is loaded once and kept until another one is asked."""
        if spec.endpoint is not None:
            return start_policy(spec)
        if spec.model == SCRIPTED:
            return OneByOne(ScriptedPolicy())
        if self._kept is None or self._kept[0] != spec.model:
            self.close()
            self._kept = spec.model, KeptPolicy(start_policy(spec))
        return self._kept[1]


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
    """A policy that answers many questions at once, as a client that is asked one."""

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
