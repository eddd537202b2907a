"""Where a driver's candidates come from: turns of a proposer, each written whole or not at all."""

from __future__ import annotations

import importlib.util
import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sqlalchemy.engine import Connection

from sciagent.agent.messages import PolicyClient
from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing.workbench import CampaignWorkbench
from sciagent.campaign.spec.campaign_spec import LlmSpec
from sciagent.campaign.spec.sources import OneProposerSpec
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import content_hash
from sciagent.domain.ports import Turn
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.campaign_state import campaigns, trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.trajectories import NewTurn
from sciagent.verification.sandbox.host import Worker

if TYPE_CHECKING:
    from sciagent.agent.foreign.servers import Servers


class Taken(NamedTuple):
    """What a turn brought. n_proposals: all that were made. barren: it might have brought something new and did not."""

    n_proposals: int
    cost: Cost
    barren: bool


@dataclass(frozen=True)
class Seat:
    """The place of a proposer in its campaign. name: empty where it is alone. number: of the trajectory of its script.
    bell: set whenever a model has answered."""

    name: str
    spec: OneProposerSpec
    number: int = 0
    bell: threading.Event = field(default_factory=threading.Event)

    def settings(self) -> dict[str, Any]:
        """What its trajectories keep of it."""
        return self.spec.model_dump(mode="json") | ({"name": self.name} if self.name else {})


class Source(Protocol):
    """Of one driver. It is asked whenever fewer candidates wait than are wanted."""

    @property
    def patience(self) -> int:
        """Barren turns in a row after which it has nothing left."""

    @property
    def total(self) -> int | None:
        """How many it will propose in all; None if it cannot say."""

    @property
    def is_busy(self) -> bool:
        """Whether a turn will come of itself, though none can be taken now: a model is at work."""

    @property
    def is_ready(self) -> bool:
        """Whether asking it again brings it on now: a model has answered, or could be asked something."""

    def prepare(self) -> bool:
        """More are wanted. Whether a turn can be taken now, without waiting."""

    def take(self, limit: int) -> Taken | None:
        """The next turn, with at most `limit` proposals, written down; None when there is nothing left.

        Raises StaleLeaseError, and writes nothing, if another process drives the campaign now."""

    def close(self) -> None: ...


class Scripted:
    """Turns of `evolve` and `screen`, which take no time of their own: one trajectory for the whole campaign."""

    is_busy = is_ready = False
    patience = 25

    def __init__(self, built: Built, connection: Connection, lease: DriverLease, worker: Worker, seat: Seat) -> None:
        self._built, self._lease, self._worker, self._seat = built, lease, worker, seat
        self._proposer = built.make_script(seat.spec)
        self._trajectory_id = trajectories.open_(
            connection,
            built.row.id,
            seat.number,
            proposer=seat.name or self._proposer.name,
            settings=seat.settings(),
            seed=built.spec.seed,
        )
        self._number, self._cursor = trajectories.last_turn(connection, self._trajectory_id)

    @property
    def total(self) -> int | None:
        return self._proposer.total

    def prepare(self) -> bool:
        return True

    def take(self, limit: int) -> Taken | None:
        built, number = self._built, self._number + 1
        bench = CampaignWorkbench(built, self._worker, self._lease.owner)
        cursor = self._proposer.turn(
            bench, Turn(number, turn_seed(built, self._seat.number, number), self._cursor), limit
        )
        if cursor is None:
            return None
        with built.ledger.begin() as connection:
            campaigns.check_driver(connection, self._lease)
            new = NewTurn(number, cursor, bench.calls, bench.observations, bench.cost, self._proposer.name)
            bench.commit(connection, trajectories.write_turn(connection, self._trajectory_id, new))
        self._number, self._cursor = number, cursor
        return Taken(bench.n_proposals, bench.cost, not bench.n_new)

    def close(self) -> None:
        """Nothing is held."""


def turn_seed(built: Built, trajectory: int, number: int) -> int:
    """Of a turn: from the campaign's name and seed, the trajectory and the turn."""
    return int(content_hash([built.spec.campaign, built.spec.seed, trajectory, number])[:12], 16)


def source_of(built: Built, lease: DriverLease, worker: Worker, bell: threading.Event) -> Source:
    """Of the campaign's proposer, or of all that it names. bell: set whenever a model has answered. Who calls it holds
    the driver lease. Raises UsageError for a model that is not there."""
    seats = [Seat(name, spec, number, bell) for number, (name, spec) in enumerate(built.spec.proposers)]
    if len(seats) == 1:
        return _one(built, lease, worker, seats[0])
    from sciagent.campaign.proposing.side_by_side import SideBySide

    with ExitStack() as undo:
        sources = {}
        for seat in seats:
            sources[seat.name] = _one(built, lease, worker, seat)
            undo.callback(sources[seat.name].close)
        undo.pop_all()
    return SideBySide(built, sources)


def _one(built: Built, lease: DriverLease, worker: Worker, seat: Seat) -> Source:
    spec = seat.spec
    if not isinstance(spec, LlmSpec):
        with built.ledger.begin() as connection:
            return Scripted(built, connection, lease, worker, seat)
    from sciagent.campaign.proposing.conversing import Conversing  # and what it needs, where a model is asked

    with ExitStack() as undo:
        foreign = servers_of(spec, built.spec.base)  # neither servers nor a model, which take seconds to start, are
        if foreign is not None:
            undo.callback(foreign.close)
        policy = policy_of(spec)  # waited for in a transaction, for others write to the ledger
        undo.callback(policy.close)
        with built.ledger.begin() as connection:
            source = Conversing(built, connection, lease, worker, policy, seat, spec, foreign)
        undo.pop_all()
        return source


def servers_of(spec: LlmSpec, folder: Path) -> Servers | None:
    """The MCP servers that the model may ask, started; None where there are none. folder: of the campaign file. Raises
    UsageError for one that cannot be used, and where the extra is not installed."""
    if not spec.mcp:
        return None
    if importlib.util.find_spec("mcp") is None:
        raise UsageError("tools of MCP servers need an extra: pip install 'sciagent[llm]'")
    from sciagent.agent.foreign.link import Server
    from sciagent.agent.foreign.servers import Servers

    servers = []
    for name, one in spec.mcp.items():
        secret = {one.token_env: _secret(one.token_env, f"token_env of {name}")} if one.token_env else {}
        if one.command is not None:
            servers.append(Server(name, one.tools, one.timeout, one.command, folder, extra=secret))
        else:
            token = next(iter(secret.values()), None)
            servers.append(Server(name, one.tools, one.timeout, url=one.url or "", token=token))
    return Servers(servers)


def _secret(variable: str, where: str) -> str:
    """Raises UsageError."""
    if not (found := os.environ.get(variable)):
        raise UsageError(f"the environment variable {variable}, which {where} names, is not set")
    return found


def next_episode(connection: Connection, built: Built) -> int:
    """The number of the next trajectory: the first ones are kept for scripts, of each proposer one."""
    return max(trajectories.last_number(connection, built.row.id), len(built.spec.proposers) - 1) + 1


def policy_of(spec: LlmSpec) -> PolicyClient:
    """Raises UsageError for a model that is not there, and where its extra is not installed."""
    if spec.endpoint is not None:
        from sciagent.agent.policies.endpoint import EndpointPolicy

        key = _secret(spec.api_key_env, "api_key_env") if spec.api_key_env else None
        return EndpointPolicy(spec.model, spec.endpoint, key, spec.timeout, spec.logprobs, spec.answer_mb)
    from sciagent.agent.policies.local import LocalPolicy

    try:
        return LocalPolicy(spec.model)
    except UnknownNameError as error:
        what = spec.model if spec.model == "smollm2" else f"PATH --name {spec.model}"
        raise UsageError(f"{error}; bring it with: sciagent models add {what}") from None
