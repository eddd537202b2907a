"""The standing of each candidate in a campaign, such as open, dropped or settled. All queries are bounded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.outcomes_verdicts_and_reasons import Verdict
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import Basis, Worth
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many
from sciagent.store.database.condition_for_part_of_candidates import WHOLE, CandidatePart
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import reusable_query

_CC = t.campaign_candidate.c
_UPDATE_ONE = sa.update(t.campaign_candidate).where(
    _CC.campaign_id == sa.bindparam("in_campaign"), _CC.candidate_id == sa.bindparam("updated_id")
)


def members(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> set[int]:
    """Returns the ids of the candidates that already belong to the campaign."""
    query = sa.select(_CC.candidate_id).where(
        _CC.campaign_id == campaign_id, among(connection, _CC.candidate_id, candidate_ids)
    )
    return set(connection.execute(query).scalars())


def seeds_among(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> set[int]:
    """Ids of the candidates that were proposed as seeds of the campaign."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.in_seeds)
    return set(connection.execute(query.where(among(connection, _CC.candidate_id, candidate_ids))).scalars())


def add(connection: Connection, campaign_id: int, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add candidates to the campaign, with sequence numbers in the order of the rows.

    rows: candidate_id, proposal_id, in_seeds and further columns.
    """
    if not rows:
        return
    last_seq = connection.execute(sa.select(sa.func.max(_CC.seq)).where(_CC.campaign_id == campaign_id)).scalar()
    first_new_seq = 0 if last_seq is None else last_seq + 1
    shared = {
        "campaign_id": campaign_id,
        "standing": Standing.OPEN,
        "position": 0,
        "depth": -1,  # no rung has answered
        "is_hit": False,
        "updated_at": db_now(connection),
    }
    numbered = [{**shared, "seq": seq, **row} for seq, row in enumerate(rows, start=first_new_seq)]
    connection.execute(sa.insert(t.campaign_candidate), numbered)


def update(connection: Connection, campaign_id: int, candidate_id: int, **values: Any) -> None:
    """Set columns of one candidate's standing."""
    update_many(connection, campaign_id, {candidate_id: values})


def update_many(connection: Connection, campaign_id: int, values: Mapping[int, Mapping[str, Any]]) -> None:
    """Set columns of several candidates. values: {candidate id: columns}, with the same column names for each."""
    rows = [{"updated_id": id_, **columns} for id_, columns in values.items()]
    execute_many(connection, _UPDATE_ONE, rows, {"in_campaign": campaign_id, "updated_at": db_now(connection)})


def update_alike(connection: Connection, campaign_id: int, candidate_ids: Sequence[int], **values: Any) -> None:
    """Set the same values for several candidates."""
    update = sa.update(t.campaign_candidate).where(_CC.campaign_id == campaign_id)
    update = update.where(among(connection, _CC.candidate_id, candidate_ids))
    connection.execute(update.values(**values, updated_at=db_now(connection)))


def decide(connection: Connection, campaign_id: int, decisions: Sequence[Mapping[str, Any]]) -> None:
    """Record decisions. decisions: rows of the decision table without campaign_id, watermark and at."""
    shared = {
        "campaign_id": campaign_id,
        "watermark": note_and_take_watermarks.note(connection, campaign_id),
        "at": db_now(connection),
    }
    execute_many(connection, t.decision, decisions, shared)


def get(connection: Connection, campaign_id: int, candidate_id: int) -> Any:
    """The candidate's row of campaign_candidate, as a mapping; None if the campaign lacks the candidate."""
    query = sa.select(t.campaign_candidate).where(_CC.campaign_id == campaign_id, _CC.candidate_id == candidate_id)
    return connection.execute(query).mappings().one_or_none()


def depths(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> dict[int, int]:
    """Returns {candidate id: position of the highest rung that has answered in the campaign; -1 without one}."""
    query = sa.select(_CC.candidate_id, _CC.depth).where(
        _CC.campaign_id == campaign_id, among(connection, _CC.candidate_id, candidate_ids)
    )
    return {id_: depth for id_, depth in connection.execute(query)}


def dropped_with_error(connection: Connection, campaign_id: int, position: int, limit: int) -> list[int]:
    """Returns ids of at most `limit` candidates that an error at the rung at this position has dropped."""
    query = sa.select(_CC.candidate_id).where(
        _CC.campaign_id == campaign_id,
        _CC.position == position,
        _CC.standing == Standing.DROPPED,
        _CC.verdict == Verdict.ERROR,
    )
    # ordered in Python, since the order would make the database read all candidates of the campaign
    return sorted(connection.execute(query.limit(limit)).scalars())


def ids_with_imports_since(connection: Connection, campaign_id: int, watermark: int) -> list[int]:
    """Ids of the campaign's candidates with imported evidence above a watermark."""
    e = t.evidence.c
    query = (
        sa.select(e.candidate_id)
        .distinct()
        .select_from(t.campaign_candidate)
        # a literal, so that SQLite uses the index of imports
        .join(t.evidence, sa.and_(e.candidate_id == _CC.candidate_id, e.verifier == sa.literal_column("'import'")))
        .where(_CC.campaign_id == campaign_id, e.watermark > watermark)
    )
    return list(connection.execute(query).scalars())


class CandidateStanding(NamedTuple):
    """The standing of one candidate."""

    candidate_id: int
    seq: int
    """Sequence number in the campaign."""
    standing: Standing
    position: int
    """Position of the candidate's present rung."""
    depth: int
    """Position of the highest rung with an answer; -1 if there is none."""
    chance: int | None
    """Chance to be a hit in percent, expected utility, margin and P(hit): see `Worth`; None without evidence."""
    expected_utility: float | None
    margin: float | None
    p_hit: float | None
    basis: Basis | None
    """Weakest source of the beliefs behind the worth; None without evidence."""


WORTH_COLUMNS = tuple(_CC[name] for name in Worth.__dataclass_fields__)
_STANDING_QUERY = sa.select(*(_CC[name] for name in CandidateStanding._fields))


def arrivals(connection: Connection, campaign_id: int, first: int, limit: int) -> list[CandidateStanding]:
    """Candidates whose sequence number is at least `first`, in order."""
    query = _STANDING_QUERY.where(_CC.campaign_id == campaign_id, _CC.seq >= first).order_by(_CC.seq).limit(limit)
    return _standings(connection, query)


def standings_of(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> list[CandidateStanding]:
    """Standings of the candidates that belong to the campaign; other candidates are left out."""
    is_asked_for = among(connection, _CC.candidate_id, candidate_ids)
    return _standings(connection, _STANDING_QUERY.where(_CC.campaign_id == campaign_id, is_asked_for))


def _standings(connection: Connection, query: sa.Select[Any]) -> list[CandidateStanding]:
    standings = []
    for row in connection.execute(query):
        basis = None if row.basis is None else Basis(row.basis)
        standings.append(CandidateStanding(*row)._replace(standing=Standing(row.standing), basis=basis))
    return standings


def ids_with_answers(connection: Connection, campaign_id: int, limit: int) -> list[int]:
    """Ids of candidates with an answer from any rung: the best first."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.depth >= 0)
    return list(connection.execute(query.order_by(*t.BEST_FIRST).limit(limit)).scalars())


KEYS_AT_A_TIME = 10_000  # rows in memory


def answered_keys(connection: Connection, campaign_id: int, position: int) -> Iterator[tuple[int, str]]:
    """Yields (id, key) of the candidates that the rung at a position has answered, or one above it, in no order.

    It reads these candidates alone, by the index of places."""
    waits_for_it = sa.and_(_CC.position == position, _CC.standing == Standing.OPEN)
    query = (
        sa.select(_CC.candidate_id, t.candidate.c.key)
        .join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        .where(_CC.campaign_id == campaign_id, _CC.position >= position, ~waits_for_it, _CC.depth >= position)
    )
    rows = connection.execute(query, execution_options={"yield_per": KEYS_AT_A_TIME})
    yield from ((candidate_id, key) for candidate_id, key in rows)


def latest_ended(connection: Connection, campaign_id: int, position: int, n: int) -> list[int]:
    """Returns the sequence numbers of the n latest candidates that ended at the rung at a position, latest first."""
    latest = list[int]()
    for standing in (Standing.SETTLED, Standing.DROPPED):
        query = sa.select(_CC.seq).where(
            _CC.campaign_id == campaign_id, _CC.standing == standing, _CC.position == position
        )
        latest += connection.execute(query.order_by(_CC.seq.desc()).limit(n)).scalars()
    return sorted(latest, reverse=True)[:n]


def settled_ids(connection: Connection, campaign_id: int) -> list[int]:
    """Ids of the settled candidates, in order of arrival."""
    query = sa.select(_CC.candidate_id).where(_CC.campaign_id == campaign_id, _CC.standing == Standing.SETTLED)
    return list(connection.execute(query.order_by(_CC.position, _CC.seq)).scalars())


def ids_decided_on(connection: Connection, rung_id: int) -> set[int]:
    """Ids of the candidates for which a rung was started or its evidence reused."""
    d = t.decision.c
    query = sa.select(d.candidate_id).where(d.rung_id == rung_id, d.action.in_(("run", "reuse")))
    return set(connection.execute(query).scalars())


def waiting_candidates(connection: Connection, campaign_id: int, position: int, limit: int) -> list[int]:
    """Ids of open candidates at a rung, the best first."""
    conditions = (_CC.campaign_id == campaign_id, _CC.standing == Standing.OPEN, _CC.position == position)
    query = sa.select(_CC.candidate_id).where(*conditions).order_by(*t.BEST_FIRST).limit(limit)
    return list(connection.execute(query).scalars())


def waiting_with_answer(
    connection: Connection, campaign_id: int, rung_id: int, position: int, computation: Computation, limit: int
) -> list[int]:
    """Ids of open candidates at a rung whose reusable evidence in the ledger was not taken up, the best first."""
    has_answer = reusable_query(computation).where(t.current_evidence.c.candidate_id == _CC.candidate_id)
    d = t.decision.c
    taken_up = sa.exists().where(d.candidate_id == _CC.candidate_id, d.rung_id == rung_id, d.action == "reuse")
    taken_up = taken_up.where(d.campaign_id == campaign_id)
    conditions = (_CC.campaign_id == campaign_id, _CC.standing == Standing.OPEN, _CC.position == position)
    query = sa.select(_CC.candidate_id).where(*conditions, has_answer.exists(), ~taken_up)
    query = query.order_by(*t.BEST_FIRST).limit(limit)
    return list(connection.execute(query).scalars())


def count_at(connection: Connection, campaign_id: int, positions: Sequence[int], at_most: int) -> int:
    """Number of candidates that are open or pending at one of these rungs; counting stops at `at_most`."""
    undecided = _CC.standing.in_([Standing.OPEN, Standing.PENDING])
    return count_up_to(connection, at_most, _CC.campaign_id == campaign_id, undecided, _CC.position.in_(positions))


def has_waiting_seeds(
    connection: Connection, campaign_id: int, standings: Sequence[Standing] = (Standing.OPEN, Standing.PENDING)
) -> bool:
    """Returns whether a seed of the campaign has one of these standings. It reads what waits in order of arrival, which
    begins with the seeds."""
    for standing in standings:
        conditions = (_CC.campaign_id == campaign_id, _CC.standing == standing, _CC.in_seeds)
        if count_up_to(connection, 1, *conditions):
            return True
    return False


def count_up_to(connection: Connection, at_most: int, *conditions: sa.ColumnElement[bool]) -> int:
    """Number of standings that meet the conditions; counting stops at `at_most`."""
    query = sa.select(sa.literal(1)).select_from(t.campaign_candidate).where(*conditions).limit(at_most)
    return int(connection.execute(sa.select(sa.func.count()).select_from(query.subquery())).scalar_one())


def best_with_worth(connection: Connection, campaign_id: int, n: int, part: CandidatePart = WHOLE) -> list[Any]:
    """The n best candidates that have a worth: rows with candidate_id, key, text, standing, depth, in_seeds, seq,
    operation and the columns of `Worth`.

    part: the part of the campaign to which they belong.
    """
    c = t.candidate.c
    p = t.proposal.c
    query = (
        sa.select(_CC.candidate_id, c.key, c.text, _CC.standing, _CC.depth, _CC.in_seeds, _CC.seq, p.operation)
        .add_columns(*WORTH_COLUMNS)
        .join(t.candidate, c.id == _CC.candidate_id)
        .outerjoin(t.proposal, p.id == _CC.proposal_id)
        .where(_CC.campaign_id == campaign_id, _CC.chance.is_not(None), part.condition)
        .order_by(*t.BEST_FIRST)
        .limit(n)
    )
    return list(connection.execute(query).mappings())


def last_reasons(connection: Connection, chosen: Sequence[tuple[int, int]]) -> dict[tuple[int, int], str]:
    """{(rung id, candidate id): reason of the last decision to run the rung on the candidate, or to keep it listed}."""
    if not chosen:
        return {}
    d = t.decision.c
    rung_ids = sorted({rung_id for rung_id, _ in chosen})
    candidate_ids = sorted({candidate_id for _, candidate_id in chosen})
    query = (
        sa.select(d.rung_id, d.candidate_id, d.why)
        .where(among(connection, d.rung_id, rung_ids), d.action.in_(("run", "reprice")))
        .where(among(connection, d.candidate_id, candidate_ids))
        .order_by(d.id)
    )
    # in order of id, so that the last decision replaces the others
    return {(rung_id, candidate_id): why or "" for rung_id, candidate_id, why in connection.execute(query)}
