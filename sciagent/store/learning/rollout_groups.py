"""Groups of rollouts: episodes of one task with one opening and one frozen snapshot of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.inputs.environment_variables import code_version
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.condition_for_part_of_candidates import CandidatePart
from sciagent.store.database.engine import db_now

_G = t.rollout_group.c
_T = t.trajectory.c
GroupState = Literal["open", "complete", "broken"]


class GroupRow(NamedTuple):
    """One row of the table `rollout_group`."""

    id: int
    number: int
    """Number in the campaign, from 1."""
    task: dict[str, Any]
    snapshot: dict[str, Any]
    snapshot_watermark: int
    """Number of the last piece of evidence in the snapshot, counted over the ledger."""
    snapshot_seq: int
    """The campaign's candidates with a lower sequence number are in the snapshot. If `snapshot` names candidates that
    were drawn, only they are."""
    opening: list[dict[str, Any]]
    tool_set_id: int | None
    policy_id: int | None
    seed: int
    size: int
    """Number of siblings."""
    purpose: str
    code_version: str
    state: GroupState

    @property
    def part(self) -> CandidatePart:
        """The candidates of the campaign that are in the snapshot."""
        drawn = self.snapshot.get("drawn")
        return CandidatePart(self.snapshot_seq, None if drawn is None else tuple(drawn))


class SiblingRow(NamedTuple):
    """The trajectory of one episode of a group."""

    id: int
    number: int
    """Number of the trajectory in the campaign."""
    sibling: int
    """Number in the group, from 0."""
    seed: int
    ended_why: str | None
    """None while the episode goes on."""


_ROW = sa.select(*(_G[name] for name in GroupRow._fields))


def open_(
    connection: Connection,
    campaign_id: int,
    *,
    task: Mapping[str, Any],
    snapshot: Mapping[str, Any],
    watermark: int,
    seq: int,
    opening: Sequence[Mapping[str, Any]],
    tool_set_id: int,
    policy_id: int,
    seed: int,
    size: int,
    purpose: str,
) -> GroupRow:
    """Writes a new group with the next number. watermark, seq: the limits of the evidence and of the candidates
    in the snapshot."""
    values = {
        "campaign_id": campaign_id,
        "number": last_number(connection, campaign_id) + 1,
        "task": dict(task),
        "snapshot": dict(snapshot),
        "snapshot_watermark": watermark,
        "snapshot_seq": seq,
        "opening": list(opening),
        "opening_hash": content_hash(list(opening)),
        "tool_set_id": tool_set_id,
        "policy_id": policy_id,
        "seed": seed,
        "size": size,
        "purpose": purpose,
        "code_version": code_version(),
        "state": "open",
        "at": db_now(connection),
    }
    id_ = connection.execute(sa.insert(t.rollout_group).values(values).returning(_G.id)).scalar_one()
    return by_id(connection, id_)


def last_number(connection: Connection, campaign_id: int) -> int:
    """The highest number of the campaign's groups; 0 if there is none."""
    query = sa.select(sa.func.max(_G.number)).where(_G.campaign_id == campaign_id)
    return int(connection.execute(query).scalar() or 0)


def of_campaign(connection: Connection, campaign_id: int, state: GroupState | None = None) -> list[GroupRow]:
    """The groups of a campaign in order. state: only groups in this state."""
    query = _ROW.where(_G.campaign_id == campaign_id).order_by(_G.number)
    query = query if state is None else query.where(_G.state == state)
    return [GroupRow(*row) for row in connection.execute(query)]


def by_id(connection: Connection, group_id: int) -> GroupRow:
    return GroupRow(*connection.execute(_ROW.where(_G.id == group_id)).one())


def siblings(connection: Connection, group_id: int) -> list[SiblingRow]:
    """The episodes of a group, in order."""
    query = sa.select(*(_T[name] for name in SiblingRow._fields)).where(_T.group_id == group_id).order_by(_T.sibling)
    return [SiblingRow(*row) for row in connection.execute(query)]


def of_ids(connection: Connection, group_ids: Sequence[int]) -> dict[int, GroupRow]:
    """{group id: the group}."""
    return {row[0]: GroupRow(*row) for row in connection.execute(_ROW.where(among(connection, _G.id, group_ids)))}


def trajectories_of(connection: Connection, group_ids: Sequence[int]) -> dict[int, int]:
    """{trajectory id: id of its group}."""
    query = sa.select(_T.id, _T.group_id).where(among(connection, _T.group_id, group_ids))
    return {int(id_): int(group_id) for id_, group_id in connection.execute(query)}


def set_state(connection: Connection, group_id: int, state: GroupState) -> None:
    connection.execute(sa.update(t.rollout_group).where(_G.id == group_id).values(state=state))


class GroupCounts(NamedTuple):
    """The state of a group, and the numbers of its turns and proposals."""

    state: GroupState
    turns: int
    proposals: int
    new: int
    """Number of proposals with the status `new`."""


def counts(connection: Connection, group_ids: Sequence[int]) -> dict[int, GroupCounts]:
    """{group id: its state, and the number of its turns and proposals}."""
    u = t.turn.c
    p = t.proposal.c
    of_groups = sa.select(_G.id, _G.state).where(among(connection, _G.id, group_ids))
    states = {id_: state for id_, state in connection.execute(of_groups)}
    is_of_groups = among(connection, _T.group_id, group_ids)
    of_turns = sa.select(_T.group_id, sa.func.count()).select_from(t.trajectory.join(t.turn, u.trajectory_id == _T.id))
    turns = {id_: n for id_, n in connection.execute(of_turns.where(is_of_groups).group_by(_T.group_id))}
    proposed = t.trajectory.join(t.turn, u.trajectory_id == _T.id).join(t.proposal, p.turn_id == u.id)
    of_status = sa.select(_T.group_id, p.status, sa.func.count()).select_from(proposed).where(is_of_groups)
    by_status: dict[int, dict[str, int]] = {}
    for id_, status, n in connection.execute(of_status.group_by(_T.group_id, p.status)):
        by_status.setdefault(id_, {})[status] = n
    counted = {}
    for id_, state in states.items():
        proposals = by_status.get(id_, {})
        counted[id_] = GroupCounts(state, turns.get(id_, 0), sum(proposals.values()), proposals.get("new", 0))
    return counted
