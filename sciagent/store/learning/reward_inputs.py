"""Episodes as rewards see them: turns in order, their new candidates, and the cost of candidates.

The cost of a candidate is what the computation of its evidence cost, whichever campaign paid. The watermark counts the
pieces of evidence in the ledger, and so serves as its clock. Evidence and attempts take a number of their own: those up
to a watermark count (`<=`). Turns and groups only note the number that is reached: those below a watermark count (`<`),
since later ones may still note the watermark itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost_and_budget import RESOURCE_UNITS, Cost
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, content_hash
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.results.evidence import IMPORT_VERIFIER, evidence_as_of

_T = t.trajectory.c
_U = t.turn.c
_P = t.proposal.c
_A = t.attempt.c
_E = t.evidence.c


class EpisodeRow(NamedTuple):
    """A trajectory that rewards can be given to."""

    id: int
    number: int
    group_id: int | None
    sibling: int | None
    policy: str | None
    """Version of the policy of its first turn."""


class ProposalRow(NamedTuple):
    """A proposal of a turn."""

    candidate_id: int | None
    """None for a text that is no molecule."""
    status: str
    """`new`, `duplicate`, `refused` or `filtered`."""


@dataclass(frozen=True)
class EpisodeTurn:
    """A turn with its proposals."""

    id: int
    number: int
    cost: Cost
    """Cost of sampling, and of fast rungs that ran during the turn."""
    state: str
    """Hash of all that the model had seen before the turn; equal for equal conversations."""
    proposals: tuple[ProposalRow, ...]

    @property
    def new_candidates(self) -> list[int]:
        """The ids of the candidates that were new in the turn, each once, in the order of their proposals."""
        ids = [proposal.candidate_id for proposal in self.proposals if proposal.status == "new"]
        return list(dict.fromkeys(id_ for id_ in ids if id_ is not None))

    @property
    def was_filtered(self) -> bool:
        """Whether a filter dropped a proposal of the turn, of which nothing is known then but what a law said."""
        return any(proposal.status == FILTERED for proposal in self.proposals)


def episodes(
    connection: Connection, campaign_id: int, as_of: int, only: Collection[int] | None = None
) -> list[EpisodeRow]:
    """The trajectories in which a model made a turn before the watermark `as_of`, and all trajectories of groups that
    began before it, in order of group, sibling and number. only: ids of trajectories; None: all."""
    # a turn of a script has no message
    has_model_turn = sa.exists().where(_U.trajectory_id == _T.id, _U.message.is_not(None), _U.watermark < as_of)
    g = t.rollout_group.c
    is_of_group = sa.exists().where(g.id == _T.group_id, g.snapshot_watermark < as_of)
    query = _of_campaign(campaign_id)
    query = query if only is None else query.where(among(connection, _T.id, list(only)))
    rows = connection.execute(query.where(sa.or_(has_model_turn, is_of_group)).order_by(_T.number)).all()
    trajectories = [EpisodeRow(*row) for row in rows]
    return sorted(trajectories, key=lambda episode: (episode.group_id or 0, episode.sibling or 0, episode.number))


def _of_campaign(campaign_id: int) -> sa.Select[Any]:
    policy = sa.select(_U.policy_version).where(_U.trajectory_id == _T.id, _U.number == 0).scalar_subquery()
    return sa.select(_T.id, _T.number, _T.group_id, _T.sibling, policy).where(_T.campaign_id == campaign_id)


def by_number(connection: Connection, campaign_id: int, number: int) -> EpisodeRow | None:
    """The trajectory of a campaign with this number; None if there is none."""
    row = connection.execute(_of_campaign(campaign_id).where(_T.number == number)).one_or_none()
    return None if row is None else EpisodeRow(*row)


def turns_of(connection: Connection, trajectory_ids: Sequence[int], as_of: int) -> dict[int, list[EpisodeTurn]]:
    """{trajectory id: its turns before a watermark, in order}."""
    columns = (_U.id, _U.trajectory_id, _U.number, _U.cost, _U.calls, _U.observations, _T.settings)
    query = sa.select(*columns).select_from(t.turn.join(t.trajectory, _T.id == _U.trajectory_id))
    query = query.where(among(connection, _U.trajectory_id, trajectory_ids), _U.watermark < as_of)
    rows = connection.execute(query.order_by(_U.trajectory_id, _U.number)).all()
    proposals = _proposals(connection, [row[0] for row in rows])
    turns: dict[int, list[EpisodeTurn]] = {id_: [] for id_ in trajectory_ids}
    states: dict[int, str] = {}
    for id_, trajectory_id, number, cost, calls, observations, settings in rows:
        state = states.get(trajectory_id) or content_hash({"opening": settings.get("opening")})
        turns[trajectory_id].append(EpisodeTurn(id_, number, _with_units(cost), state, proposals.get(id_, ())))
        # the next turn of the trajectory begins in the state that this turn leaves
        states[trajectory_id] = content_hash({"before": state, "calls": calls, "observations": observations})
    return turns


def _proposals(connection: Connection, turn_ids: Sequence[int]) -> dict[int, tuple[ProposalRow, ...]]:
    query = sa.select(_P.turn_id, _P.candidate_id, _P.status).where(among(connection, _P.turn_id, turn_ids))
    by_turn: dict[int, list[ProposalRow]] = {}
    for turn_id, candidate_id, status in connection.execute(query.order_by(_P.id)):
        by_turn.setdefault(int(turn_id), []).append(ProposalRow(candidate_id, status))
    return {turn_id: tuple(proposals) for turn_id, proposals in by_turn.items()}


def _with_units(cost: Mapping[str, float]) -> Cost:
    """The part of a cost in resources that have a unit."""
    return Cost({resource: amount for resource, amount in cost.items() if resource in RESOURCE_UNITS})


def costs_of(
    connection: Connection,
    campaign_id: int,
    paid: Sequence[Computation],
    candidate_ids: Sequence[int],
    as_of: int,
    imported: Collection[tuple[str, str]] = (),
) -> dict[int, Cost]:
    """{candidate id: all that was booked for it on paid rungs up to a watermark}, each attempt once.

    The campaign's own attempts count, also failed ones, and so do the attempts of other campaigns whose evidence is
    used here. imported: (property, label of the level) of the imported values that count here; they cost what their
    import stated. The control, a rung that decides nothing, is not charged.
    """
    by_attempt: dict[int, dict[int, Cost]] = {id_: {} for id_ in candidate_ids}
    of_rungs = _attempts(connection, campaign_id, paid, candidate_ids, as_of)
    of_imports = _imports(connection, imported, candidate_ids, as_of) if imported else ()
    for candidate_id, attempt_id, cost, n_sharing in chain(of_rungs, of_imports):
        share = Cost({resource: amount / n_sharing for resource, amount in _with_units(cost).items()})
        by_attempt[candidate_id][attempt_id] = share
    return {id_: sum(shares.values(), Cost()) for id_, shares in by_attempt.items()}


def _attempts(
    connection: Connection, campaign_id: int, paid: Sequence[Computation], candidate_ids: Sequence[int], as_of: int
) -> Iterator[tuple[int, int, Mapping[str, float], int]]:
    """Yields candidate id, attempt id, cost and number of candidates that share the cost."""
    job = t.job.c
    # the worker of an attempt that was lost may report later; before that, the attempt cost what was booked at the loss
    cost = sa.case((_A.late_watermark > as_of, _A.cost_at_loss), else_=_A.cost)
    # an attempt with a job is of a paid rung: batches of fast rungs have no job
    own_attempts = sa.select(job.candidate_id, _A.id, cost, _A.n_candidates).select_from(
        t.attempt.join(t.job, job.id == _A.job_id).join(t.rung, t.rung.c.id == job.rung_id)
    )
    own_attempts = own_attempts.where(
        job.campaign_id == campaign_id, _A.watermark <= as_of, t.rung.c.control == sa.false()
    )
    with_used_evidence = sa.select(_E.candidate_id, _A.id, cost, _A.n_candidates).select_from(
        t.evidence.join(t.attempt, _A.id == _E.attempt_id)
    )
    with_used_evidence = with_used_evidence.where(_E.watermark <= as_of, _is_of_computations(paid))
    for query, candidate in ((own_attempts, job.candidate_id), (with_used_evidence, _E.candidate_id)):
        rows = connection.execute(query.where(among(connection, candidate, candidate_ids)).order_by(_A.id))
        for candidate_id, attempt_id, attempt_cost, n_candidates in rows:
            yield int(candidate_id), int(attempt_id), attempt_cost, max(int(n_candidates), 1)


def _is_of_computations(computations: Sequence[Computation]) -> sa.ColumnElement[bool]:
    """A condition that selects evidence of these computations; none is selected if there are none."""
    e = t.evidence.c
    conditions = (
        sa.and_(e.verifier == c.verifier, e.verifier_version == c.version, e.settings_hash == c.settings_hash)
        for c in computations
    )
    return sa.or_(sa.false(), *conditions)


def _imports(
    connection: Connection, imported: Collection[tuple[str, str]], candidate_ids: Sequence[int], as_of: int
) -> Iterator[tuple[int, int, Mapping[str, float], int]]:
    """Yields the same as `_attempts` for imported values.

    A corrected value counts once, as it stands at the watermark.
    """
    current = evidence_as_of(as_of)
    q = t.quantity.c
    p = t.property_.c
    level = t.level.c
    e = current.c
    query = (
        sa.select(e.candidate_id, _A.id, _A.cost, _A.n_candidates)
        .select_from(current)
        .join(t.attempt, _A.id == e.attempt_id)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, p.id == q.property_id)
        .join(t.level, level.id == q.level_id)
        .where(e.verifier == IMPORT_VERIFIER, among(connection, e.candidate_id, candidate_ids))
        .where(sa.or_(*(sa.and_(p.name == name, level.label == label) for name, label in sorted(imported))))
    )
    for candidate_id, attempt_id, cost, n_candidates in connection.execute(query.order_by(_A.id)):
        yield int(candidate_id), int(attempt_id), cost, int(n_candidates)


def shares(connection: Connection, evidence_ids: Sequence[int]) -> Mapping[int, Mapping[str, float]]:
    """{evidence id: {resource: its share of the cost of the attempt that computed it}}. Evidence that has no attempt is
    left out."""
    a = t.attempt.c
    e = t.evidence.c
    query = sa.select(e.id, a.cost, a.n_candidates).select_from(t.evidence.join(t.attempt, a.id == e.attempt_id))
    rows = connection.execute(query.where(among(connection, e.id, evidence_ids))).all() if evidence_ids else ()
    return {int(id_): {name: amount / max(n, 1) for name, amount in cost.items()} for id_, cost, n in rows}


class EvidenceCost(NamedTuple):
    """The cost of one answer on a candidate."""

    turn_id: int | None
    """The turn within which the answer was computed; None outside of turns."""
    cost: Cost


def of_computations(
    connection: Connection, computations: Sequence[Computation], candidate_ids: Sequence[int], as_of: int
) -> Mapping[int, list[EvidenceCost]]:
    """{candidate id: the cost of each answer of these computations up to a watermark}."""
    a = t.attempt.c
    e = t.evidence.c
    query = sa.select(e.candidate_id, a.turn_id, a.cost, a.n_candidates, e.id).select_from(
        t.evidence.join(t.attempt, a.id == e.attempt_id)
    )
    query = query.where(
        e.watermark <= as_of, _is_of_computations(computations), among(connection, e.candidate_id, candidate_ids)
    )
    costs: dict[int, list[EvidenceCost]] = {}
    if not computations:
        return costs
    for candidate_id, turn_id, cost, n, _ in connection.execute(query.order_by(e.id)):
        share = Cost({name: amount / max(n, 1) for name, amount in cost.items() if name in RESOURCE_UNITS})
        costs.setdefault(int(candidate_id), []).append(EvidenceCost(turn_id, share))
    return costs
