"""The contract of a source of candidates, the slot of a proposer, and scripts as sources of candidates.

A trajectory is the ledger's record of the turns of one proposer's script, or of one episode (conversation) of a model.
The seed of a turn and the number of the next episode are made here, too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from sqlalchemy.engine import Connection

from sciagent.agent.proposers.list_proposers import SEED
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.file.proposers import LawSearchSpec, LlmSpec, OneProposerSpec
from sciagent.campaign.proposing.campaign_workbench import CampaignWorkbench
from sciagent.campaign.proposing.law_filter import MOST_ASKED, filter_of_batches
from sciagent.campaign.proposing.write_turns import MadeTurn, TurnWriter
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.proposer_interfaces import Turn
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.campaign_state.campaigns import DriverLease
from sciagent.store.campaign_state.proposer_trajectories import NewTurn
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.verification.sandbox.host import Worker

SEED_DIGITS = 12  # hexadecimal digits of a hash that make a seed


class TurnResult(NamedTuple):
    """The result of a turn."""

    n_proposals: int
    """Number of proposals, including refused ones and duplicates, without those that a filter dropped."""
    cost: Cost
    barren: bool
    """Whether the turn brought no new candidate; a turn that could not bring any is not barren."""
    own_core_seconds: float = 0.0
    """Part of the cost that this thread has computed itself, in core-seconds; the rest ran in other processes."""


@dataclass(frozen=True)
class ProposerSlot:
    """One proposer of a campaign."""

    name: str
    """Name of the proposer; empty if it is the only one."""
    spec: OneProposerSpec
    number: int = 0
    """Number of the trajectory of the proposer's script."""
    bell: threading.Event = field(default_factory=threading.Event)
    """Set whenever a model has answered."""

    def settings(self) -> Mapping[str, Any]:
        """Returns the settings that are stored with the trajectories."""
        settings = self.spec.model_dump(mode="json")
        if self.name:
            settings["name"] = self.name
        return settings


class Source(Protocol):
    """A source of candidates; the driver calls it when too few candidates are waiting."""

    @property
    def patience(self) -> int:
        """Number of successive barren turns after which the source counts as exhausted."""

    @property
    def total(self) -> int | None:
        """Total number of proposals; None if unknown."""

    @property
    def fault(self) -> str | None:
        """Why a source that is exhausted has failed; None if it has no more candidates."""

    @property
    def is_busy(self) -> bool:
        """Whether a model is answering, so that a turn will be ready later."""

    @property
    def is_ready(self) -> bool:
        """Whether `prepare` should be called now, since a model has answered or can be asked."""

    def prepare(self) -> bool:
        """Prepares more proposals; returns whether a turn can be taken now without waiting."""

    def take(self, limit: int) -> TurnResult | None:
        """Makes and writes the next turn, with at most `limit` proposals; returns None if the source is exhausted.

        Raises StaleLeaseError, and writes nothing, if another process drives the campaign now.
        """

    def close(self) -> None: ...


class ScriptSource:
    """The source for `evolve` and `screen`. All turns of a campaign belong to one trajectory."""

    is_busy = False
    is_ready = False
    patience = 25
    fault: str | None = None

    def __init__(
        self, built: Built, connection: Connection, lease: DriverLease, worker: Worker, slot: ProposerSlot
    ) -> None:
        self._built = built
        self._writer = TurnWriter(built, lease.owner, lease)
        self._worker = worker
        self._slot = slot
        self._proposer = built.make_script(slot.spec)
        name = slot.name or self._proposer.name
        settings = slot.settings()
        self._trajectory_id = proposer_trajectories.open_(
            connection, built.row.id, slot.number, proposer=name, settings=settings, seed=built.spec.seed
        )
        self._number, self._cursor = proposer_trajectories.last_turn(connection, self._trajectory_id)
        # the script of a model brings its seeds, which are not filtered
        stated = None if isinstance(slot.spec, LawSearchSpec | LlmSpec) else slot.spec.filter
        self._filter = filter_of_batches(built, stated)
        # a script is asked for more than a batch only after its seeds, which all go on
        self._may_be_seeding = proposer_trajectories.last_turn_brought_seeds(connection, self._trajectory_id)

    @property
    def total(self) -> int | None:
        return self._proposer.total

    def prepare(self) -> bool:
        return True

    def take(self, limit: int) -> TurnResult | None:
        built = self._built
        number = self._number + 1
        bench = CampaignWorkbench(built, self._worker, self._filter)
        with built.ledger.read() as connection:
            asked = proposer_trajectories.asked_now(connection)
        seed = turn_seed(built, self._slot.number, number)
        # a text may become several candidates, and all of them count as proposals
        most_texts = max(1, limit // built.spec.standardisation.most_forms)
        began = time.thread_time()
        if self._filter is not None and not self._may_be_seeding:
            most_texts = max(most_texts, min(self._filter.wanted(bench, most_texts), self._most_texts_left()))
        cursor = self._proposer.turn(bench, Turn(number, seed, self._cursor), most_texts)
        if cursor is None:
            return None
        own_core_seconds = time.thread_time() - began
        bench.charged += Cost(core_seconds=own_core_seconds)
        proposer = self._proposer.name
        row = NewTurn(number, cursor, bench.calls, bench.observations, bench.cost, proposer, asked=asked)
        with built.ledger.begin() as connection:
            self._writer.write(connection, [MadeTurn(self._trajectory_id, row, bench)])
        self._number = number
        self._cursor = cursor
        self._may_be_seeding = any(entry.given.operation == SEED for entry in bench.entries)
        return TurnResult(bench.n_proposals, bench.cost, bench.is_barren, own_core_seconds)

    def _most_texts_left(self) -> int:
        """Returns the number of texts that fit the budget even if the filter drops none of them."""
        of_budget = self._built.spec.budget.proposals
        if of_budget is None:
            return MOST_ASKED
        with self._built.ledger.read() as connection:
            n_made = campaign_counts_and_remarks.proposals(connection, self._built.row.id)
        return (of_budget - n_made) // self._built.spec.standardisation.most_forms

    def close(self) -> None:
        """Does nothing: a script holds no resources."""


def turn_seed(built: Built, trajectory: int, number: int) -> int:
    """Returns the seed of a turn, from the campaign's seed, the trajectory's number and the turn's number."""
    digest = content_hash([built.spec.seed, trajectory, number])
    return int(digest[:SEED_DIGITS], 16)


def next_episode(connection: Connection, built: Built) -> int:
    """Returns the number of the next trajectory. The first numbers are reserved for scripts, one per proposer."""
    last_reserved = len(built.spec.proposers) - 1
    last_used = proposer_trajectories.last_number(connection, built.row.id)
    return max(last_used, last_reserved) + 1
