"""The tools of a campaign for an MCP client. Each call is a turn that is written under the lock of the campaign's row,
so that a driver may run at the same time."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from typing import Any

from sciagent.agent.messages_sampling_and_policy_client import Message, to_json
from sciagent.agent.tools.showing_tools_and_tools_of_subject import tools_of
from sciagent.agent.tools.tool_contract_and_calls import Observation, Registry
from sciagent.agent.tools.toolbox import Toolbox, call_record
from sciagent.campaign.core.built_campaign_and_derived_values import Built, prepare
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.briefing_and_workbench import FULL_TURN, NONE_LEFT, AgentWorkbench
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.law_filter import filter_of_one_by_one
from sciagent.campaign.proposing.source_contract_and_scripts import next_episode, turn_seed
from sciagent.campaign.proposing.write_turns import MadeTurn, TurnWriter
from sciagent.store.campaign_state import campaigns, note_and_take_watermarks, proposer_trajectories
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.learning import policies_and_roles
from sciagent.verification.sandbox.host import Worker

MAX_PROPOSALS = 8  # most candidates that one call may propose
MAX_CLIENT = 100  # characters stored of the client's name
PROPOSER = "mcp"  # name of the proposer of all clients in the ledger
MAX_TOOL = 64  # characters stored of a tool's name


class McpEpisode:
    """The episode of one client, used as a context manager. client: the client's own name for itself."""

    def __init__(self, built: Built, client: str) -> None:
        self._built = built
        self._client = client[:MAX_CLIENT]
        self._writer = TurnWriter(built, campaigns.new_owner())
        self._offered = tools_of(built.subject)
        self._tools = Registry(self._offered)
        self._turns = 0  # number of turns so far
        self._lock = threading.Lock()
        with built.ledger.read() as connection:
            learned = briefing_and_workbench.digest(connection, built)
            left = briefing_and_workbench.remaining_budget(connection, built)
            remaining = briefing_and_workbench.remaining_budget_text(left)
            self._numbered = briefing_and_workbench.numbered_notations(connection, built)
        self.instructions = f"{briefing_and_workbench.goal(built)}\n\nLeft to spend: {remaining}.\n\n{learned}"
        with built.ledger.begin() as connection:
            note_and_take_watermarks.lock(connection, built.row.id)
            self._number = next_episode(connection, built)
            seed = turn_seed(built, self._number, number=0)
            self._filter = filter_of_one_by_one(connection, built, built.spec.filter_of_clients, PROPOSER)
            settings = {"client": self._client}
            self._id = proposer_trajectories.open_(
                connection, built.row.id, self._number, proposer=PROPOSER, settings=settings, seed=seed
            )
            offered = Toolbox([tool.name for tool in self._offered], built.edit_limits(), subject=built.subject)
            self._tool_set_id = policies_and_roles.enter_tool_set(connection, offered.content(required=True))

    def __enter__(self) -> McpEpisode:
        fast = self._built.fast
        prepare(fast)
        self._worker = Worker(self._built.scratch(), preload=[rung.verifier.name for rung in fast])
        return self

    def __exit__(self, *error: object) -> None:
        self._worker.close()
        with self._built.ledger.begin() as connection:
            proposer_trajectories.end(connection, self._id, "the client left")

    def schemas(self) -> list[Mapping[str, Any]]:
        """Returns name, description and JSON schema of each tool."""
        return [tool.schema["function"] for tool in self._offered]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carries out one call. Mistakes in the arguments are reported in the observation, not raised."""
        built = self._built
        text = json.dumps(arguments)
        with self._lock:
            with built.ledger.read() as connection:
                asked = proposer_trajectories.asked_now(connection)  # the moment whose results the client may know
                left = briefing_and_workbench.remaining_budget(connection, built).get("proposals", MAX_PROPOSALS)
            number = self._turns
            full = FULL_TURN if left >= MAX_PROPOSALS else NONE_LEFT
            room = min(MAX_PROPOSALS, int(left))
            bench = AgentWorkbench(
                built, self._worker, room=room, trajectory=self._number, full=full, law_filter=self._filter
            )
            seed = turn_seed(built, self._number, number)
            observation = self._tools.call(
                name, text, bench, seed=seed, limits=built.edit_limits(), numbered=self._numbered, subject=built.subject
            )
            with built.ledger.begin() as connection:
                note_and_take_watermarks.lock(connection, built.row.id)
                left = briefing_and_workbench.remaining_budget(connection, built).get("proposals", math.inf)
                # another client or the driver may have proposed meanwhile
                is_too_late = bench.n_proposals > left
                if is_too_late:
                    observation = Observation(ok=False, text=f"error: {NONE_LEFT} by others meanwhile")
                calls = [call_record(name, text, observation)]
                observations = [to_json(Message("tool", observation.text, name=name[:MAX_TOOL]))]
                row = NewTurn(
                    number,
                    cursor={},  # the client keeps its own state
                    calls=calls,
                    observations=observations,
                    cost=bench.cost,
                    policy_version=self._client,
                    asked=asked,
                    tool_set_id=self._tool_set_id,
                )
                written = CampaignWorkbench(built, self._worker) if is_too_late else bench  # an empty one if too late
                self._writer.write(connection, [MadeTurn(self._id, row, written)])
            self._turns += 1
            return observation
