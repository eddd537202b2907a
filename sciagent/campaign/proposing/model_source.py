"""A language model as a source of candidates.

An episode is one conversation with the model; its trajectory is what the ledger keeps of it. Several episodes run at
once; each turn of an episode is written before the next.

Threads sample the model's answers and call MCP servers while the driver goes on. Sciagent's own tools run in the
driver: turn, tokens, proposals and results of fast rungs are written in one transaction. An answer that was not written
before a crash is sampled again, and its calls to MCP servers are repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from sciagent.agent.conversation_and_asking import Asking, Episode, EpisodeLimits, ModelAnswer, opening
from sciagent.agent.messages_sampling_and_policy_client import (
    PolicyClient,
    Sampled,
    Sampling,
    from_json,
    shared_prefix,
    to_json,
)
from sciagent.agent.tools.toolbox import Toolbox, ToolResults
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LlmSpec
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.briefing_and_workbench import FULL_TURN, NONE_LEFT, AgentWorkbench
from sciagent.campaign.proposing.law_filter import filter_of_one_by_one
from sciagent.campaign.proposing.source_contract_and_scripts import (
    ProposerSlot,
    ScriptSource,
    TurnResult,
    next_episode,
    turn_seed,
)
from sciagent.campaign.proposing.write_turns import MadeTurn, TurnWriter
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.safe_text_and_durations import storable
from sciagent.store.campaign_state import campaigns, proposer_trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import Asked, NewTurn, SampledRow
from sciagent.store.learning import policies_and_roles
from sciagent.verification.sandbox.host import Worker

if TYPE_CHECKING:
    from sciagent.agent.tools.mcp_client import Servers

EMPTY_EPISODES = 4  # episodes without a new candidate after which the model is not asked again
SEED_LIMIT = 1 << 31  # seeds of requests are below this number
MAX_FAULT_TEXT = 500  # characters of the reason why the model is not asked any more
MAX_FAULTS = 5  # number of successive failed episodes after which the model is not asked again


class ModelSource:
    """The source for a language model."""

    total: int | None = None
    fault: str | None = None
    """Reason why the model is not asked any more; None while it is asked."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        lease: DriverLease,
        worker: Worker,
        policy: PolicyClient,
        slot: ProposerSlot,
        spec: LlmSpec,
        foreign: Servers | None = None,
    ) -> None:
        self._built = built
        self._lease = lease
        self._writer = TurnWriter(built, lease.owner, lease)
        self._worker = worker
        self._slot = slot
        self._spec = spec
        # the source of the seed candidates, which are proposed before the model is asked; None once they are used up
        self._seeds = ScriptSource(built, connection, lease, worker, slot) if spec.seeds else None
        is_structured_by_default = spec.endpoint is None
        self._structured = is_structured_by_default if spec.structured is None else spec.structured
        self._foreign = foreign
        self._strict = spec.strict is not False
        self._tools = Toolbox(
            spec.tools,
            built.edit_limits(),
            structured=self._structured,
            foreign=foreign,
            ranks=spec.ranks,
            strict=self._strict,
            predict=bool(spec.predict),
            turns=spec.turns,
            subject=built.subject,
        )
        self._asking = Asking(policy, at_once=spec.episodes, bell=slot.bell, fetch=self._tools.fetch)
        if foreign is not None:
            payload = {"proposer": slot.name, "tools": list(foreign.tools)}
            campaigns.log_event(connection, built.row.id, "mcp_tools", payload)
        self._tool_set_id = policies_and_roles.enter_tool_set(connection, self._tools.content(self._must_call))
        self._policy_ids: dict[str, int] = {}  # ledger ids by the model's name in its answers
        name = slot.name or policy.name
        self._filter = filter_of_one_by_one(connection, built, spec.filter, name)
        limit_seconds = 60 * spec.minutes
        self._limits = EpisodeLimits(
            turns=spec.turns, tokens=spec.tokens, context=spec.context, seconds=limit_seconds, thinking=spec.thinking
        )
        self._idle = list[Episode]()  # episodes that wait to be asked
        self._trajectory_ids = dict[int, int]()  # ledger ids by the episode's number
        self._faults = 0  # number of successive failed episodes
        self._is_in_trouble = False  # whether a limit or a failure was logged since the last answer
        self._refused: set[str] = set()  # options of requests that the server refused and that were logged
        for row in proposer_trajectories.running_trajectories(connection, built.row.id):
            is_of_this_proposer = row.settings.get("name", "") == slot.name
            if "opening" in row.settings and is_of_this_proposer:  # a script's trajectory has no opening
                self._idle.append(self._resumed(connection, row))

    def _resumed(self, connection: Connection, row: proposer_trajectories.TrajectoryRow) -> Episode:
        """Returns a running episode with the turns that the ledger has."""
        self._trajectory_ids[row.number] = row.id
        opening_messages = tuple(map(from_json, row.settings["opening"]))
        numbered = list(row.settings.get("numbered", ()))  # notations of the candidates shown, from #1
        episode = Episode(row.number, row.seed, opening_messages, self._limits, numbered)
        for turn in proposer_trajectories.turns(connection, row.id):
            messages = (from_json(turn["message"]), *map(from_json, turn["observations"]))
            episode.restore(messages, dict(turn["cursor"] or {}))
        return episode

    @property
    def patience(self) -> int:
        """Number of successive turns without a new candidate after which the model is not asked again.

        These are the turns of all conversations at the same time and of three more, one after the other. Of a long
        conversation as many count as a script has.
        """
        turns_per_episode = min(self._spec.turns, ScriptSource.patience)
        return max(ScriptSource.patience, turns_per_episode * (self._spec.episodes + EMPTY_EPISODES - 1))

    @property
    def is_busy(self) -> bool:
        return self._asking.unanswered > 0

    @property
    def is_ready(self) -> bool:
        return bool(self._idle) or self._asking.is_ready()

    def prepare(self) -> bool:
        self._log_limit()
        if self._seeds is not None or self._faults >= MAX_FAULTS:
            return True
        while self._idle:
            self._ask_model(self._idle.pop(0))
        while self._asking.unanswered < self._spec.episodes:
            self._ask_model(self._opened_episode())
        return self._asking.is_ready()

    def _log_limit(self) -> None:
        """Logs that the server takes no more requests for a time, if it has said so since the last call."""
        limit = self._asking.new_limit()
        if limit is None:
            return
        self._is_in_trouble = True
        payload = {"model": self._name, "until": limit.until.isoformat(), "why": storable(limit.why)[:MAX_FAULT_TEXT]}
        with self._built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            campaigns.log_event(connection, self._built.row.id, campaigns.MODEL_LIMITED, payload)

    @property
    def _name(self) -> str:
        """The name of the proposer, or of its model if it has none."""
        return self._slot.name or self._asking.policy.name

    @property
    def _must_call(self) -> bool:
        """Whether the server must restrict every answer to a call."""
        return self._spec.tool_choice == "required" and not self._structured

    def _ask_model(self, episode: Episode) -> None:
        with self._built.ledger.read() as connection:
            asked = proposer_trajectories.asked_now(connection)
        self._asking.ask(episode, self._tools.schemas, self._sampling(episode), asked)

    def _sampling(self, episode: Episode) -> Sampling:
        seed = turn_seed(self._built, episode.number, len(episode.turns)) % SEED_LIMIT
        schema = self._tools.answer_schema if self._structured else None
        return Sampling(
            self._spec.temperature,
            max_tokens=self._spec.max_tokens,
            seed=seed,
            schema=schema,
            call=self._must_call,
            strict=self._strict,
        )

    def _opened_episode(self) -> Episode:
        """Opens a new episode; its opening messages contain a digest of the campaign's results."""
        built = self._built
        with built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            number = next_episode(connection, built)  # an MCP client may have taken the previous one
            goal = briefing_and_workbench.goal(built)
            digest = briefing_and_workbench.digest(connection, built)
            left = briefing_and_workbench.remaining_budget_text(
                briefing_and_workbench.remaining_budget(connection, built)
            )
            skills = [skill.prompt_text for skill in self._spec.skills]
            messages = opening(
                goal,
                learned=digest,
                left=left,
                tools=self._tools.listed,
                structured=self._structured,
                skills=skills,
                many=built.subject.words.many,
            )
            seed = turn_seed(built, number, 0)
            numbered = briefing_and_workbench.numbered_notations(connection, built)
            settings = {
                **self._slot.settings(),
                "opening": [to_json(message) for message in messages],
                "numbered": numbered,
            }
            self._trajectory_ids[number] = proposer_trajectories.open_(
                connection,
                built.row.id,
                number,
                settings=settings,
                proposer=self._name,
                seed=seed,
                policy_version=self._asking.policy.name,
            )
        return Episode(number, seed, messages, self._limits, numbered)

    def take(self, limit: int) -> TurnResult | None:
        if self._seeds is not None:
            taken = self._seeds.take(limit)
            if taken is not None:
                return taken
            self._seeds = None
            return TurnResult(0, Cost(), barren=False)  # the seeds are used up; the model is asked next
        if self._faults >= MAX_FAULTS:
            return None
        answered = self._asking.next()
        if answered.sampled is None:
            return self._failed(answered)
        self._faults = 0
        return self._write_turn(answered, answered.sampled, limit)

    def _failed(self, answered: ModelAnswer) -> TurnResult:
        """Ends an episode in which the model failed; its proposals are kept."""
        self._faults += 1
        self._is_in_trouble = True
        with self._built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            why = storable(answered.fault)
            payload = {"model": self._name, "trajectory": answered.episode.number, "why": why}
            campaigns.log_event(connection, self._built.row.id, campaigns.MODEL_FAILED, payload)
            trajectory_id = self._trajectory_ids.pop(answered.episode.number)
            proposer_trajectories.end(connection, trajectory_id, f"the model failed: {answered.fault}")
        if self._faults >= MAX_FAULTS:
            self.fault = storable(f"the model failed {MAX_FAULTS} times in a row: {answered.fault}")[:MAX_FAULT_TEXT]
        return TurnResult(0, Cost(), barren=False)

    def _write_turn(self, answered: ModelAnswer, sampled: Sampled, limit: int) -> TurnResult:
        """Runs the calls of a model's answer and writes the turn. limit: most proposals of the turn."""
        built = self._built
        episode = answered.episode
        number = len(episode.turns)
        room = min(limit, self._spec.batch)
        full = NONE_LEFT if room < self._spec.batch and built.spec.budget.proposals is not None else FULL_TURN
        bench = AgentWorkbench(
            built, self._worker, room=room, trajectory=episode.number, full=full, law_filter=self._filter
        )
        self._log_refused(bench, sampled)
        seed = turn_seed(built, episode.number, number)
        if self._is_in_trouble:
            self._is_in_trouble = False
            bench.events.append((campaigns.MODEL_ANSWERS, {"model": self._name}))
        answer = self._tools.run(
            sampled.message, bench, seed, fetched=answered.fetched, numbered=episode.numbered, cut_at=sampled.cut_at
        )
        row = answered_turn(
            episode,
            sampled,
            answer,
            bench,
            sampling=self._sampling(episode),
            asked=answered.asked,
            tool_set_id=self._tool_set_id,
            policy_id=self._policy_id(sampled.policy),
            untrainable=sampled.untrainable,
        )
        ended = "finished by the model" if answer.finished else episode.ended
        with built.ledger.begin() as connection:
            self._writer.write(connection, [MadeTurn(self._trajectory_ids[episode.number], row, bench)])
            if ended is None:
                self._idle.append(episode)
            else:
                proposer_trajectories.end(connection, self._trajectory_ids.pop(episode.number), ended)
        return TurnResult(bench.n_proposals, bench.cost, bench.is_barren, bench.filter_core_seconds)

    def _log_refused(self, bench: AgentWorkbench, sampled: Sampled) -> None:
        """Logs an event for each option that the server refused for the first time."""
        for option, words in sampled.refused.items():
            if option not in self._refused:
                self._refused.add(option)
                payload = {"model": sampled.policy, "option": option, "why": words}
                bench.events.append((campaigns.OPTION_REFUSED, payload))

    def _policy_id(self, served: str) -> int:
        """Returns the ledger's id of the model that answered. served: its name in the answer."""
        if served not in self._policy_ids:
            with self._built.ledger.begin() as connection:
                self._policy_ids[served] = policies_and_roles.enter(connection, self._asking.policy.identity(served))
        return self._policy_ids[served]

    def close(self) -> None:
        if self._foreign is not None:
            self._foreign.close()  # first, since the sampling threads wait for it
        self._asking.close()


def answered_turn(
    episode: Episode,
    sampled: Sampled,
    results: ToolResults,
    bench: AgentWorkbench,
    *,
    sampling: Sampling | None,
    asked: Asked | None,
    tool_set_id: int,
    policy_id: int,
    untrainable: str | None,
) -> NewTurn:
    """Adds an answer to its episode, which may end it, and its cost to the bench; returns the row of the turn.

    sampling: as in `sampled_row`.
    """
    number = len(episode.turns)
    row = sampled_row(sampled, episode.held, sampling)  # before `observe`, after which `held` is that of the next turn
    episode.observe(sampled, results.messages, results.numbered)
    tokens = float(sampled.prompt_tokens + sampled.output_tokens)
    bench.charged += Cost(llm_tokens=tokens, core_seconds=sampled.core_seconds)
    return NewTurn(
        number,
        cursor=episode.cursor,
        calls=results.calls,
        observations=[to_json(message) for message in results.messages],
        cost=bench.cost,
        policy_version=sampled.policy,
        sampled=row,
        asked=asked,
        tool_set_id=tool_set_id,
        policy_id=policy_id,
        untrainable=untrainable,
    )


def sampled_row(sampled: Sampled, held: tuple[int, ...], sampling: Sampling | None) -> SampledRow:
    """Returns the row of a sampled answer.

    held: tokens that earlier turns have stored; of the prompt, only the tokens after the shared beginning are stored.
    sampling: None for an answer that was sampled elsewhere, by unknown settings.
    """
    settings: dict[str, Any] = {}
    if sampling is not None:
        settings = {"temperature": sampling.temperature, "seed": sampling.seed, "max_tokens": sampling.max_tokens}
        for option in sampled.refused:
            if option != "max_tokens":  # a server that refuses this name takes the value under another name
                settings.pop(option, None)
    used: dict[str, Any] = settings | {
        "grammar": sampled.grammar,
        "finish": sampled.finish,
        "prompt_tokens": sampled.prompt_tokens,
        "output_tokens": sampled.output_tokens,
        "seconds": sampled.seconds,
    }
    if sampled.cached_tokens is not None:
        used["cached_tokens"] = sampled.cached_tokens
    if sampled.reasoning_tokens is not None:
        used["reasoning_tokens"] = sampled.reasoning_tokens
    message = to_json(sampled.message)
    tokens = sampled.tokens
    if tokens is None:
        return SampledRow(message, used)
    n_held = shared_prefix(held, tokens.prompt_ids)  # first tokens of the prompt that earlier turns have stored
    used |= {"logprobs": tokens.mode}
    if tokens.template_checked is not None:
        used["template_checked"] = tokens.template_checked
    return SampledRow(
        message,
        used,
        kept=n_held,
        prompt_ids=tokens.prompt_ids[n_held:],
        output_ids=tokens.output_ids,
        logprobs=tokens.logprobs,
        behaviour=tokens.behaviour,
        forced=tokens.forced,
        template_hash=tokens.template_hash,
    )
