"""Groups of rollouts: their plan, their episodes, and the answers about them.

`open_groups` opens new groups. `continue_open_groups` continues the groups that a kill or a stop has left open. The
classes at the end are answers: those of calls of rollouts, and those of an environment on its tasks, episodes and
turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.agent.conversation_and_asking import Episode, EpisodeLimits, opening
from sciagent.agent.messages_sampling_and_policy_client import Message, from_json, to_json
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.agent.turns_to_token_rows import calls_of
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.source_contract_and_scripts import next_episode
from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.inputs.environment_variables import code_version
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.store.learning import rollout_groups as groups
from sciagent.store.learning.rollout_groups import GroupRow, GroupState
from sciagent.training.rollouts import campaign_snapshot_and_workbench as snapshot
from sciagent.training.rollouts.campaign_snapshot_and_workbench import EpisodeMemory, Snapshot, beginning

Skills = Literal["with", "without", "paired"]


class GroupMark(NamedTuple):
    """The seed of a new group, and what is noted with its task."""

    seed: int
    noted: Mapping[str, Any]


@dataclass(frozen=True)
class RolloutPlan:
    """The rollouts of a campaign that a person asks for."""

    groups: int
    """Number of new groups."""
    siblings: int
    """Number of episodes in a group."""
    turns: int
    """Largest number of turns of an episode."""
    policy: str
    """Name of the policy, as the ledger keeps it with the trajectories."""
    purpose: Purpose = "rollout"
    seed: int | None = None
    """Seed of the groups; None: one for each group, from the campaign's seed and the group's number."""
    client: str | None = None
    """Name that a client gave to the group; None for rollouts of this process."""
    begins: str = "now"
    """The candidates that groups see, as `campaign_snapshot.beginning` reads it. Each group draws its own
    candidates."""
    skills: Skills = "with"
    """Whether the openings have the texts of the proposer's skills. `paired`: of two groups with the same seeds, on the
    same snapshot, the first has them and the second has not."""
    marks: Sequence[GroupMark] = ()
    """Seed and notes of each group; empty: the seeds are as `seed` says."""

    def mark(self, built: Built, place: int, number: int) -> GroupMark:
        """Returns the seed and the notes of a group. place: its place among the new groups, from 0. number: its number
        in the campaign."""
        if self.marks:
            return self.marks[place]
        seed = self.seed
        if seed is None:
            seed = int(content_hash([built.spec.seed, "group", number])[:12], 16)
        return GroupMark(seed, {})


class Pins(NamedTuple):
    """The tool set and the policy of a group. They are the same for all its turns; otherwise the group is broken."""

    tool_set_id: int
    policy_id: int


@dataclass
class Sibling:
    """One episode of a group."""

    id: int
    """Id of the trajectory in the ledger."""
    number: int
    """Number in the group, from 0."""
    episode: Episode
    memory: EpisodeMemory
    ended: str | None = None
    """Why the episode ended; None while it goes on."""
    is_abandoned: bool = False
    """Whether the policy left the episode unfinished; its group is then not complete."""


@dataclass
class Group:
    """A group whose episodes go on."""

    row: GroupRow
    snapshot: Snapshot
    siblings: list[Sibling]
    policy_id: int | None = None
    """Id in the ledger of the policy that has answered so far; None before the first answer."""
    fault: str | None = None
    """Why the group is broken; None if it is not."""

    @property
    def is_over(self) -> bool:
        return all(sibling.ended is not None for sibling in self.siblings)

    @property
    def final_state(self) -> GroupState:
        """The state of the group once it is over."""
        is_broken = any(sibling.is_abandoned for sibling in self.siblings)
        return "broken" if is_broken else "complete"


def turn_seed(group_seed: int, sibling: int, turn: int) -> int:
    """Returns the seed of a turn. It does not depend on other episodes, nor on the number of the trajectory."""
    return int(content_hash([group_seed, sibling, turn])[:12], 16)


def open_groups(
    connection: Connection, built: Built, tools: Toolbox, spec: LlmSpec, structured: bool, pins: Pins, plan: RolloutPlan
) -> list[Group]:
    """Opens groups on a snapshot of the campaign, and writes them with their episodes."""
    words = built.subject.words
    first = groups.last_number(connection, built.row.id) + 1
    limits = episode_limits(spec, plan.turns)
    marks = [plan.mark(built, place, first + place) for place in range(plan.groups)]
    draws_candidates = beginning(plan.begins).drawn is not None  # each group then has a snapshot of its own
    shared_snapshot = None if draws_candidates else snapshot.take(connection, built, plan.begins)
    opened_groups = []
    for mark in marks:
        frozen = shared_snapshot or snapshot.take(connection, built, plan.begins, mark.seed)
        budget_text = briefing_and_workbench.remaining_budget_text(frozen.left)
        for proposer in _with_skills(spec, plan.skills):
            skills = [skill.prompt_text for skill in proposer.skills]
            messages = opening(frozen.goal, frozen.digest, budget_text, tools.listed, structured, skills, words.many)
            opened_groups.append(_open(connection, built, frozen, messages, limits, proposer, pins, plan, mark))
    return opened_groups


def _with_skills(spec: LlmSpec, skills: Skills) -> list[LlmSpec]:
    """Returns the proposer of each group of one mark: with its skills, without them, or one of both."""
    without_skills = spec.model_copy(update={"skills": ()})
    match skills:
        case "with":
            return [spec]
        case "without":
            return [without_skills]
        case "paired":
            return [spec, without_skills]


def _open(
    connection: Connection,
    built: Built,
    frozen: Snapshot,
    messages: tuple[Message, ...],
    limits: EpisodeLimits,
    spec: LlmSpec,
    pins: Pins,
    plan: RolloutPlan,
    mark: GroupMark,
) -> Group:
    """Opens one group, and writes it with its episodes. messages: the opening of all its episodes."""
    first_messages = [to_json(message) for message in messages]
    task: dict[str, Any] = {"goal": frozen.goal, "turns": plan.turns}
    if plan.client is not None:
        task["client"] = plan.client
    if plan.begins != "now":
        task["begins"] = plan.begins
    row = groups.open_(
        connection,
        built.row.id,
        task={**task, **mark.noted},
        snapshot=frozen.to_json(),
        watermark=frozen.watermark,
        seq=frozen.seq,
        opening=first_messages,
        tool_set_id=pins.tool_set_id,
        policy_id=pins.policy_id,
        seed=mark.seed,
        size=plan.siblings,
        purpose=plan.purpose,
    )
    settings: dict[str, Any] = {**spec.model_dump(mode="json"), "turns": plan.turns, "opening": first_messages}
    episodes = []
    for sibling in range(plan.siblings):
        number = next_episode(connection, built)
        first_seed = turn_seed(row.seed, sibling, 0)
        id_ = proposer_trajectories.open_(
            connection,
            built.row.id,
            number,
            proposer=plan.policy,
            settings=settings,
            seed=first_seed,
            purpose=plan.purpose,
            group_id=row.id,
            sibling=sibling,
        )
        episode = Episode(number, first_seed, messages, limits, frozen.numbered)
        episodes.append(Sibling(id_, sibling, episode, EpisodeMemory()))
    return Group(row, frozen, episodes)


def continue_open_groups(connection: Connection, built: Built, spec: LlmSpec, pins: Pins) -> list[Group]:
    """Returns the groups that are open in the ledger, with their episodes as of the last turn.

    A group that began with other tools, another policy or another version of sciagent is marked as broken and left
    out.
    """
    continued_groups = []
    for row in groups.of_campaign(connection, built.row.id, "open"):
        has_same_pins = row.tool_set_id == pins.tool_set_id and row.policy_id == pins.policy_id
        if has_same_pins and row.code_version == code_version():
            continued_groups.append(continued_group(connection, built, row, spec))
        else:
            break_group(connection, row, "it began with other tools, another policy or another version of sciagent")
    return continued_groups


def break_group(connection: Connection, row: GroupRow, why: str) -> None:
    """Marks a group as broken, and ends those of its episodes that go on."""
    for sibling in groups.siblings(connection, row.id):
        if sibling.ended_why is None:
            proposer_trajectories.end(connection, sibling.id, f"its group is broken: {why}")
    groups.set_state(connection, row.id, "broken")


def continued_group(connection: Connection, built: Built, row: GroupRow, spec: LlmSpec) -> Group:
    """Returns a group of the ledger with its episodes as of the last turn."""
    frozen = snapshot.restored(connection, built.row.id, row)
    messages = tuple(map(from_json, row.opening))
    limits = episode_limits(spec, int(row.task["turns"]))
    episodes = list[Sibling]()
    policy_ids = list[int]()  # of the policies that answered, by turn
    for stored in groups.siblings(connection, row.id):
        episode = Episode(stored.number, stored.seed, messages, limits, frozen.numbered)
        memory = EpisodeMemory()
        turns = proposer_trajectories.turns(connection, stored.id)
        _replay(episode, memory, turns)
        policy_ids += [turn["policy_id"] for turn in turns]
        episodes.append(Sibling(stored.id, stored.sibling, episode, memory, stored.ended_why))
    return Group(row, frozen, episodes, policy_id=policy_ids[0] if policy_ids else None)


def _replay(episode: Episode, memory: EpisodeMemory, turns: Sequence[Any]) -> None:
    """Restores an episode from its turns in the ledger."""
    for turn in turns:
        cursor = dict(turn["cursor"] or {})
        memory.restore(cursor.pop("proposed", ()))
        answer = from_json(turn["message"])
        observations = map(from_json, turn["observations"])
        episode.restore((answer, *observations), cursor)
    # the next prompt extends the tokens of the last answer; an answer that was sampled elsewhere has no known tokens
    if turns and turns[-1]["output_ids"] is not None:
        last_call = calls_of(turns)[-1]
        episode.held = (*last_call.prompt_ids, *last_call.output_ids)


def episode_limits(spec: LlmSpec, turns: int) -> EpisodeLimits:
    return EpisodeLimits(
        turns=turns, tokens=spec.tokens, context=spec.context, seconds=60 * spec.minutes, thinking=spec.thinking
    )


Messages = tuple[Mapping[str, Any], ...]
"""Messages in OpenAI's format."""


class EnvironmentTask(AnswerModel):
    """A task of an environment. The tasks of a campaign have one goal and differ by their seed."""

    task: int
    """Number of the task, from 0."""
    campaign: str
    goal: str
    """Goal, ladder and budget of the campaign, in words."""
    seed: int
    """Seed of the random choices of the tools in the task's episodes."""
    turns: int
    """Largest number of turns of an episode."""


class OpenedEpisode(AnswerModel):
    """An episode that a client has opened."""

    episode: int
    """Number of the episode in its campaign."""
    group: int
    """Number of its group: the episodes that began alike."""
    sibling: int
    """Number of the episode in its group, from 0."""
    siblings: int
    """Number of episodes of the group."""
    turns: int
    """Largest number of turns."""
    messages: Messages
    """The messages with which the conversation begins: system and user."""
    tools: tuple[Mapping[str, Any], ...]
    """Schemas of the tools in OpenAI's format."""


class EpisodeReply(AnswerModel):
    """The reply of the environment to one turn."""

    episode: int
    turn: int
    """Number of the turn in its episode, from 0."""
    messages: Messages
    """The answers of the tools."""
    reward: float | None
    """The turn's reward by the evidence so far, in hits or utility; None if it is undecided yet."""
    done: bool
    """Whether the episode has ended."""
    ended: str | None
    """Why the episode has ended; None while it goes on."""


class RolledGroup(AnswerModel):
    """A group of episodes that began alike."""

    group: int
    """Number of the group in its campaign, from 1."""
    state: str
    """`open`, `complete` or `broken`."""
    siblings: int
    """Number of episodes."""
    turns: int
    proposals: int
    new: int
    """Proposals that were new to their episode and to the snapshot that it saw."""
    snapshot: int
    """Watermark of the snapshot: later evidence had no influence on the episodes."""


class RolloutAnswer(AnswerModel):
    """The rollouts of a campaign."""

    campaign: str
    state: str
    """State of the campaign."""
    policy: str
    """Name of the policy, with its version."""
    groups: tuple[RolledGroup, ...]
    """The groups that this call began or continued."""
    turns: int
    """Turns that this call has added."""
    seconds: float
    """Elapsed time of these turns, in seconds."""
    stopped: str | None
    """Why groups are left open; None if none is."""
