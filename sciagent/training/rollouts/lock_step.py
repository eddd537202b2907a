"""Runs groups of rollouts in lock-step: all episodes are asked, then all their fast rungs run, then all turns are
written, in one transaction. After a kill the ledger has the whole step or nothing of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled, Sampling
from sciagent.agent.policies.batched_policies import BatchPolicy
from sciagent.agent.tools.toolbox import Toolbox, ToolResults
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing.model_source import answered_turn
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import Runs
from sciagent.campaign.proposing.write_turns import MadeTurn, TurnWriter
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.policy_identity import SCRIPT
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns, proposer_trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import NOT_SAMPLED, NOT_SAMPLED_HERE, Asked
from sciagent.store.learning import policies_and_roles
from sciagent.store.learning import rollout_groups as group_rows
from sciagent.store.learning.rollout_groups import GroupRow
from sciagent.training.rollouts.campaign_snapshot_and_workbench import SnapshotBench, stored
from sciagent.training.rollouts.open_and_resume_groups import (
    Group,
    Pins,
    RolloutPlan,
    Sibling,
    break_group,
    continue_open_groups,
    continued_group,
    open_groups,
    turn_seed,
)
from sciagent.training.rollouts.tool_calls_across_episodes import FastRungs

MAX_REASON_LENGTH = 1000  # characters of the reason for which an episode ended


class StepResult(NamedTuple):
    """The results of one step of all episodes."""

    turns: int
    proposals: int
    new: int
    """Number of proposals that were new to their episode and its snapshot."""
    cost: Cost


class NextTurn(NamedTuple):
    """The questions of the next turn of all episodes that go on."""

    groups: Sequence[Group]
    going: Sequence[tuple[Group, Sibling]]
    """The episodes that go on, each with its group."""
    questions: Sequence[EpisodeQuestion]
    """One question for each episode of `going`."""
    asked: Asked
    """The moment at which the episodes are asked."""


class CarriedOut(NamedTuple):
    """A turn of episodes whose calls were carried out, and that is not written yet."""

    groups: Sequence[Group]
    going: Sequence[Sibling]
    """The episodes that were asked. The turn may have ended some of them."""
    turns: Sequence[MadeTurn]
    """The turns of the episodes that were answered."""

    @property
    def result(self) -> StepResult:
        """The numbers of turns and proposals, and their cost."""
        proposals = [entry for turn in self.turns for entry in turn.bench.entries]
        n_new = sum(1 for entry in proposals if entry.status == "new")
        cost = sum((turn.bench.charged for turn in self.turns), Cost())
        for entry in proposals:
            for _, rung_result in entry.computed:
                cost = cost + rung_result.actual
        return StepResult(len(self.turns), len(proposals), n_new, cost)


class RolloutRunner:
    """The runner of a campaign's rollouts. The caller drives the campaign."""

    broken: Sequence[int] = ()
    """Numbers of the open groups that could not continue, and were marked as broken."""

    def __init__(self, built: Built, lease: DriverLease, worker: Runs, policy: BatchPolicy, spec: LlmSpec) -> None:
        """Raises UsageError for a proposer with MCP servers, whose answers no snapshot can freeze."""
        if spec.mcp:
            raise UsageError(f"rollouts call no MCP servers ({', '.join(spec.mcp)}): their answers cannot be frozen")
        self._built = built
        self._lease = lease
        self._writer = TurnWriter(built, lease.owner, lease, are_siblings=True)
        self._worker = worker
        self._policy = policy
        self._spec = spec
        if spec.structured is None:  # the default: a JSON schema restricts the answers of models of this machine
            self._structured = spec.endpoint is None
        else:
            self._structured = spec.structured
        tool_names = [name for name in spec.tools if name != "note"]  # a note is for people who read the campaign
        self._strict = spec.strict is not False  # None is the default
        self._tools = Toolbox(
            tool_names,
            limits=built.edit_limits(),
            structured=self._structured,
            ranks=spec.ranks,
            strict=self._strict,
            predict=bool(spec.predict),
            turns=spec.turns,
            subject=built.subject,
        )
        # a structured answer is a call anyway
        self._must_call = spec.tool_choice == "required" and not self._structured
        self._rungs = FastRungs(built, worker)
        identity = policy.identity(policy.name)
        self._is_script = identity.source == SCRIPT
        self._has_known_weights = identity.base_sha256 is not None
        self._policy_ids = dict[str, int]()
        """Ids of policies in the ledger, by their name in the answers."""
        with built.ledger.begin() as connection:
            tool_set_id = policies_and_roles.enter_tool_set(connection, self._tools.content(self._must_call))
            policy_id = policies_and_roles.enter(connection, identity)
        self._pins = Pins(tool_set_id, policy_id)

    @property
    def verified_seconds(self) -> float:
        """The time, in seconds, for which this runner's episodes have waited for fast and inline rungs."""
        return self._rungs.seconds

    @property
    def schemas(self) -> Sequence[Mapping[str, Any]]:
        """Schemas of the tools in OpenAI's format; empty if answers are structured."""
        return self._tools.schemas

    def continued(self) -> list[Group]:
        """Returns the groups that an earlier run left open. Those that cannot continue are marked as broken."""
        with self._built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            open_rows = group_rows.of_campaign(connection, self._built.row.id, "open")
            groups = continue_open_groups(connection, self._built, self._spec, self._pins)
        continued_numbers = {group.row.number for group in groups}
        self.broken = [row.number for row in open_rows if row.number not in continued_numbers]
        return groups

    def opened(self, plan: RolloutPlan) -> list[Group]:
        """Opens new groups on one snapshot of the campaign."""
        with self._built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            return open_groups(connection, self._built, self._tools, self._spec, self._structured, self._pins, plan)

    def restored(self, rows: Sequence[GroupRow]) -> list[Group]:
        """Returns groups of the ledger with their episodes as of the last turn, whether they are over or not."""
        with self._built.ledger.read() as connection:
            return [continued_group(connection, self._built, row, self._spec) for row in rows]

    def step(self, groups: Sequence[Group]) -> StepResult | None:
        """Takes the next turn of every episode that goes on; returns None if there is none.

        Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
        """
        turn = self.next_turn(groups)
        if turn is None:
            return None
        answers = self._policy.answers(turn.questions)
        return self._write_step(self.carry_out(turn, answers))

    def next_turn(self, groups: Sequence[Group]) -> NextTurn | None:
        """Returns the questions of the next turn of every episode that goes on; None if there is none."""
        going = [(group, sibling) for group in groups for sibling in group.siblings if sibling.ended is None]
        if not going:
            return None
        with self._built.ledger.read() as connection:
            asked = proposer_trajectories.asked_now(connection)
        questions = []
        for group, sibling in going:
            episode = sibling.episode
            sampling = self._sampling(group, sibling)
            questions.append(EpisodeQuestion(episode.messages, self._tools.schemas, sampling, episode.held))
        return NextTurn(groups, going, questions, asked)

    def carry_out(self, turn: NextTurn, answers: Sequence[Sampled | PolicyError]) -> CarriedOut:
        """Carries out the answers to the questions of a turn. `write` has to follow: nothing is in the ledger yet."""
        answered = [
            (answer, question.sampling, turn.asked) for answer, question in zip(answers, turn.questions, strict=True)
        ]
        return self._carried_out(turn.groups, turn.going, answered)

    def take(self, groups: Sequence[Group], answers: Mapping[int, tuple[Sampled, Asked]]) -> StepResult:
        """Takes a turn of the episodes that were answered elsewhere.

        answers: by the id of the trajectory, each with the moment of the last message to the episode.
        Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
        """
        going = [(group, sibling) for group in groups for sibling in group.siblings if sibling.id in answers]
        answered = []
        sampling = None  # it is not known how another process has sampled the answers
        for _, sibling in going:
            sampled, asked = answers[sibling.id]
            answered.append((sampled, sampling, asked))
        return self._write_step(self._carried_out(groups, going, answered))

    def _carried_out(
        self,
        groups: Sequence[Group],
        going: Sequence[tuple[Group, Sibling]],
        answers: Sequence[tuple[Sampled | PolicyError, Sampling | None, Asked]],
    ) -> CarriedOut:
        """Carries out the answers of episodes. An episode whose policy failed ends, and breaks its group.

        answers: for each episode of `going`, with the settings of sampling and the moment at which it was asked.
        """
        answered = []
        tool_runs = []
        for (group, sibling), (sampled, sampling, asked) in zip(going, answers, strict=True):
            if isinstance(sampled, PolicyError):
                sibling.ended = f"the model failed: {sampled}"[:MAX_REASON_LENGTH]
                group.fault = group.fault or f"episode {sibling.number}: {sibling.ended}"
                continue
            bench = self._bench(group, sibling)
            answered.append((group, sibling, sampled, sampling, asked, bench))
            seed = self._seed(group, sibling)
            numbered = sibling.episode.numbered
            run = partial(self._tools.run, sampled.message, bench, seed, numbered=numbered, cut_at=sampled.cut_at)
            tool_runs.append(run)
        tool_results = self._rungs.run_all(tool_runs)
        # changes the episodes in memory; the ledger gets them by `write`
        turns = [self._made(*answer, results) for answer, results in zip(answered, tool_results, strict=True)]
        return CarriedOut(groups, [sibling for _, sibling in going], turns)

    def _write_step(self, done: CarriedOut) -> StepResult:
        """Writes a step in one transaction; returns its result."""
        with self._built.ledger.begin() as connection:
            self.write(connection, done)
        return done.result

    def end(self, group: Group, sibling: Sibling, why: str, *, is_abandoned: bool = False) -> None:
        """Ends an episode that goes on. is_abandoned: whether its policy left it unfinished."""
        sibling.ended = why
        sibling.is_abandoned = is_abandoned
        with self._built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            proposer_trajectories.end(connection, sibling.id, why)
            self._close(connection, group)

    def _seed(self, group: Group, sibling: Sibling) -> int:
        return turn_seed(group.row.seed, sibling.number, len(sibling.episode.turns))

    def _sampling(self, group: Group, sibling: Sibling) -> Sampling:
        schema = self._tools.answer_schema if self._structured else None
        seed = self._seed(group, sibling) % (1 << 31)  # servers take seeds of 31 bits
        return Sampling(
            temperature=self._spec.temperature,
            max_tokens=self._spec.max_tokens,
            seed=seed,
            schema=schema,
            call=self._must_call,
            strict=self._strict,
        )

    def _bench(self, group: Group, sibling: Sibling) -> SnapshotBench:
        return SnapshotBench(
            self._built,
            self._worker,
            self._rungs,
            group.snapshot,
            sibling.memory,
            room=self._spec.batch,
            trajectory=sibling.episode.number,
        )

    def write(self, connection: Connection, done: CarriedOut) -> None:
        """Writes the turns, and ends the episodes and groups that end by them.

        Raises StaleLeaseError if another process drives the campaign now.
        """
        self._writer.write(connection, done.turns)
        for sibling in done.going:
            if sibling.ended is not None:
                proposer_trajectories.end(connection, sibling.id, sibling.ended)
        for group in done.groups:
            self._close(connection, group)

    def _made(
        self,
        group: Group,
        sibling: Sibling,
        sampled: Sampled,
        sampling: Sampling | None,
        asked: Asked,
        bench: SnapshotBench,
        results: ToolResults,
    ) -> MadeTurn:
        """Adds a turn to its episode, which may end it, and returns the turn.

        sampling: None for an answer that was sampled elsewhere. asked: the moment at which the episode was asked.
        results: the answers of the tools to the calls.
        """
        own_proposals = bench.learned()
        sibling.memory.extend(own_proposals)
        row = answered_turn(
            sibling.episode,
            sampled,
            results,
            bench,
            sampling=sampling,
            asked=asked,
            tool_set_id=self._pins.tool_set_id,
            policy_id=self._policy_id(group, sampled.policy),
            untrainable=self._untrainable(sampled, sampling),
        )
        sibling.ended = "finished by the model" if results.finished else sibling.episode.ended
        row = replace(row, cursor={**row.cursor, "proposed": stored(own_proposals)})
        return MadeTurn(sibling.id, row, bench)

    def _untrainable(self, sampled: Sampled, sampling: Sampling | None) -> str | None:
        """Returns why no policy gradient may use the turn; None if one may."""
        if sampling is None:
            return NOT_SAMPLED_HERE
        if self._is_script:
            return NOT_SAMPLED
        return sampled.untrainable

    def _policy_id(self, group: Group, served: str) -> int:
        """Returns the ledger's id of the policy that answered. A second policy in a group breaks the group.

        served: the policy's name in the answer, which may be more exact than the name that was asked for.
        """
        if served not in self._policy_ids:
            with self._built.ledger.begin() as connection:
                self._policy_ids[served] = policies_and_roles.enter(connection, self._policy.identity(served))
        id_ = self._policy_ids[served]
        if not group.policy_id:
            # known weights are the policy of the run, whatever name an answer states; others are known by that name
            group.policy_id = self._pins.policy_id if self._has_known_weights else id_
        if id_ != group.policy_id:
            group.fault = group.fault or f"another policy answered: {served}"
        return id_

    def _close(self, connection: Connection, group: Group) -> None:
        """Marks a group as broken if something went wrong, or as complete if all its episodes have ended."""
        if group.fault is not None:
            break_group(connection, group.row, group.fault)
            for sibling in group.siblings:
                sibling.ended = sibling.ended or f"its group is broken: {group.fault}"
        elif group.is_over:
            group_rows.set_state(connection, group.row.id, group.final_state)
