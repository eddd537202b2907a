"""The sources of a driver's candidates: scripts, models, or several of them side by side.

Each turn of a proposer is written completely or not at all.
"""

from __future__ import annotations

import importlib.util
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sciagent.agent.messages_sampling_and_policy_client import PolicyClient
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LlmSpec, OneProposerSpec, SeveralSpec
from sciagent.campaign.proposing.named_policies import with_model_name
from sciagent.domain.cost_and_budget import Cost
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.verification.sandbox.host import Worker

if TYPE_CHECKING:
    from sciagent.agent.tools.mcp_client import Servers
from sciagent.campaign.proposing.source_contract_and_scripts import ProposerSlot, ScriptSource, Source, TurnResult


@dataclass
class _Member:
    """One proposer of the campaign, in `SideBySide`."""

    source: Source
    spec: OneProposerSpec
    made: int
    """Number of proposals so far; a turn without proposals counts as one."""
    barren: int = 0
    """Number of successive turns without a new candidate."""
    is_done: bool = False
    """Whether the proposer is exhausted."""


class SideBySide:
    """The source that combines several proposers. sources: by the proposer's name.

    The proposer with the fewest proposals has the next turn. A fast proposer waits for slower ones, so that each gets
    its share of the budget.
    """

    patience = 1  # barren turns are counted per proposer here; no turn is reported as barren

    def __init__(self, built: Built, sources: Mapping[str, Source]) -> None:
        chosen = built.spec.proposer
        assert isinstance(chosen, SeveralSpec)
        with built.ledger.read() as connection:
            counts = proposer_trajectories.proposals_by_proposer(connection, built.row.id)
        self._lead = chosen.lead
        self._sources = sources
        self._members = [
            _Member(source, chosen.proposers[name], counts.get(name, 0)) for name, source in sources.items()
        ]
        self._next: _Member | None = None

    def _open(self) -> list[_Member]:
        """Returns the proposers that are not exhausted."""
        return [member for member in self._members if not member.is_done]

    @property
    def total(self) -> int | None:
        total = 0
        for member in self._members:
            if member.source.total is None:
                return None
            total += member.source.total
        return total

    @property
    def fault(self) -> str | None:
        """The reasons of all proposers that failed; None if none has failed."""
        faults = [f"{name}: {source.fault}" for name, source in self._sources.items() if source.fault is not None]
        return "; ".join(faults) or None

    @property
    def is_busy(self) -> bool:
        return any(member.source.is_busy for member in self._open())

    @property
    def is_ready(self) -> bool:
        return any(member.source.is_ready for member in self._open())

    def prepare(self) -> bool:
        open_members = self._open()
        fewest_made = min((member.made for member in open_members), default=0)
        ready = []
        for member in open_members:
            is_too_far_ahead = member.made >= fewest_made + self._lead
            if not is_too_far_ahead and member.source.prepare():
                ready.append(member)
        self._next = min(ready, key=lambda member: member.made, default=None)
        return self._next is not None or not open_members

    def take(self, limit: int) -> TurnResult | None:
        """Runs the turn of the next proposer; returns None if all proposers are exhausted."""
        while self._next is not None:
            member = self._next
            taken = member.source.take(min(limit, member.spec.batch))
            if taken is not None:
                member.made += max(taken.n_proposals, 1)
                member.barren = member.barren + 1 if taken.barren else 0
                member.is_done = member.barren >= member.source.patience
                return taken._replace(barren=False)
            member.is_done = True
            if not self.prepare():
                return TurnResult(0, Cost(), barren=False)  # other proposers are busy
        return None

    def close(self) -> None:
        for member in self._members:
            member.source.close()


MakeSource = Callable[[Built, DriverLease, Worker, threading.Event], Source]
"""A function that makes the source of a driver's candidates; its arguments are those of `source_of`."""


def source_of(
    built: Built,
    lease: DriverLease,
    worker: Worker,
    bell: threading.Event,
    start: Callable[[LlmSpec], PolicyClient] | None = None,
) -> Source:
    """Returns the source for the campaign's proposers. bell: event that is set whenever a model has answered. start:
    starts the model of a proposer; default: `start_policy`.

    The caller holds the driver lease. Raises UsageError if a model is missing.
    """
    slots = [ProposerSlot(name, spec, number, bell) for number, (name, spec) in enumerate(built.spec.proposers)]
    if len(slots) == 1:
        return _slot_source(built, lease, worker, slots[0], start or start_policy)
    with ExitStack() as undo:
        sources = {}
        for slot in slots:
            sources[slot.name] = _slot_source(built, lease, worker, slot, start or start_policy)
            undo.callback(sources[slot.name].close)
        undo.pop_all()  # all sources were made, so that none is closed
    return SideBySide(built, sources)


def _slot_source(
    built: Built, lease: DriverLease, worker: Worker, slot: ProposerSlot, start: Callable[[LlmSpec], PolicyClient]
) -> Source:
    spec = slot.spec
    if not isinstance(spec, LlmSpec):
        with built.ledger.begin() as connection:
            return ScriptSource(built, connection, lease, worker, slot)
    from sciagent.campaign.proposing.model_source import ModelSource  # imported only if a model is used

    with ExitStack() as undo:
        # servers and models take seconds to start; within the transaction they would block other writers
        is_restricted = built.spec.allowed is not None
        # in the campaign's own folder, a registered command could load what others have put there
        foreign = start_servers(spec, Path(os.sep) if is_restricted else built.spec.base)
        if foreign is not None:
            undo.callback(foreign.close)
        policy = start(with_model_name(built, slot.name, spec))
        undo.callback(policy.close)
        with built.ledger.begin() as connection:
            source = ModelSource(built, connection, lease, worker, policy, slot, spec, foreign)
        undo.pop_all()  # from now on the source closes the servers and the model
        return source


def start_servers(spec: LlmSpec, folder: Path) -> Servers | None:
    """Starts the MCP servers that the model may call; returns None if there are none.

    folder: where commands run: the folder of the campaign file, or for a restricted file the root of the disk.

    Raises UsageError if a server cannot be used, or if the extra is not installed.
    """
    if not spec.mcp:
        return None
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("tools of MCP servers need an extra: pip install 'sciagent[llm]'")
    from sciagent.agent.tools.mcp_client import Server, Servers

    servers = []
    for name, server in spec.mcp.items():
        secret = _secret(server.token_env, f"token_env of {name}")
        variables = {}
        if server.command and server.token_env and secret:
            variables[server.token_env] = secret
        servers.append(
            Server(
                name,
                server.tools,
                server.timeout,
                command=server.command,
                folder=folder,
                variables=variables,
                url=server.url or "",
                token=None if server.command else secret,
            )
        )
    return Servers(servers)


def _secret(variable: str | None, where: str) -> str | None:
    """Returns the value of an environment variable; None if variable is None. Raises UsageError if it is not set."""
    if variable is not None and not os.environ.get(variable):
        raise UsageError(f"the environment variable {variable}, which {where} names, is not set")
    return None if variable is None else os.environ[variable]


def start_policy(spec: LlmSpec) -> PolicyClient:
    """Returns a client of the model. Raises UsageError if the model is missing or its extra is not installed."""
    if spec.endpoint is not None:
        from sciagent.agent.policies.endpoint_requests_and_answers import EndpointPolicy

        key = _secret(spec.api_key_env, "api_key_env")
        return EndpointPolicy(
            spec.model,
            spec.endpoint,
            api_key=key,
            timeout=spec.timeout,
            logprobs=spec.logprobs,
            answer_mb=spec.answer_mb,
            grammar=spec.grammar,
        )
    from sciagent.agent.policies.local_model import LocalPolicy

    try:
        return LocalPolicy(spec.model)
    except UnknownNameError as error:
        # `sciagent models` knows smollm2 by name; any other model is added from a folder
        what = spec.model if spec.model == "smollm2" else f"PATH --name {spec.model}"
        raise UsageError(f"{error}; bring it with: sciagent models {what}") from None
