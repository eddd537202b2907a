"""Single candidates of a report: the best, their answers with provenance, lineage, imported values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.states import Standing
from sciagent.domain.pooling import pooled_measured
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.evidence import IMPORT
from sciagent.store.views.history import ProposedOnce, StoredEvidence, proposed, stored_evidence

_CC, _CE = t.campaign_candidate.c, t.current_evidence.c
GENERATIONS = 4  # generations of a lineage that are shown
BEST_FIRST = (_CC.is_hit.desc(), _CC.depth.desc(), _CC.score.desc().nulls_last(), _CC.seq)


class Ranked(NamedTuple):
    """A candidate of the campaign, with columns of the tables candidate and campaign_candidate."""

    id: int
    key: str
    kind: str
    text: str
    inchikey: str | None
    formula: str
    charge: int
    multiplicity: int
    payload: Mapping[str, Any]
    seq: int
    standing: str
    position: int
    verdict: str | None
    reason: str | None
    detail: str | None
    score: float | None
    utility: float | None
    hit: bool
    in_seeds: bool
    proposal_id: int | None


_CANDIDATES = sa.select(
    *(t.candidate.c[name] for name in Ranked._fields[:9]),
    *(_CC["is_hit" if name == "hit" else name] for name in Ranked._fields[9:]),
).join(t.candidate, t.candidate.c.id == _CC.candidate_id)


class Origin(NamedTuple):
    """The origin of a candidate."""

    proposal: ProposedOnce | None
    parents: tuple[tuple[tuple[str, str, str], ...], ...]
    """(operation, key, text) of the ancestors, a tuple for each generation, nearest first."""


def best(connection: Connection, row: CampaignRow, n: int, vetoed: bool = True) -> list[Ranked]:
    """The n best candidates: hits first, then by depth and score. vetoed: whether to include vetoed candidates."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id).order_by(*BEST_FIRST).limit(n)
    query = query if vetoed else query.where(_CC.standing != Standing.VETOED)
    return [Ranked(*candidate) for candidate in connection.execute(query)]


def arrived(connection: Connection, row: CampaignRow, after: int, n: int) -> list[Ranked]:
    """The next n candidates in order of arrival, with a sequence number above `after`."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id, _CC.seq > after).order_by(_CC.seq).limit(n)
    return [Ranked(*candidate) for candidate in connection.execute(query)]


def members(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, Ranked]:
    """Those of the candidates that belong to the campaign, by id."""
    query = _CANDIDATES.where(_CC.campaign_id == row.id, among(connection, _CC.candidate_id, ids))
    return {candidate.id: Ranked(*candidate) for candidate in connection.execute(query)}


def answers(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, list[StoredEvidence]]:
    """Current evidence of the campaign's own rungs by candidate, in ladder order."""
    by_candidate: dict[int, list[StoredEvidence]] = {}
    for rung in rungs(connection, row.id):
        for answer in _current(connection, ids, *of_rung(rung)):
            by_candidate.setdefault(answer.candidate_id, []).append(answer._replace(rung=rung.name))
    return by_candidate


def imported(connection: Connection, ids: Sequence[int]) -> dict[int, list[StoredEvidence]]:
    """Current imported values by candidate, whichever person imported them."""
    by_candidate: dict[int, list[StoredEvidence]] = {}
    for answer in _current(connection, ids, _CE.verifier == IMPORT):
        by_candidate.setdefault(answer.candidate_id, []).append(answer)
    return by_candidate


def _current(connection: Connection, ids: Sequence[int], *conditions: sa.ColumnElement[bool]) -> list[StoredEvidence]:
    mine = among(connection, _CE.candidate_id, ids)
    return stored_evidence(connection, t.current_evidence, mine, *conditions)


def pooled_by_rung(answers: Iterable[StoredEvidence]) -> list[StoredEvidence]:
    """One answer per rung, with the values of its replicates pooled. answers: of one candidate, in ladder order."""
    by_rung = [list(same) for _, same in groupby(answers, key=lambda answer: answer.rung)]
    return [same[0]._replace(measured=pooled_measured(answer.measured for answer in same)) for same in by_rung]


def of_rung(rung: RungRow) -> tuple[sa.ColumnElement[bool], ...]:
    """Conditions that select the current evidence of this rung."""
    version = _CE.verifier_version == rung.verifier_version
    return _CE.verifier == rung.verifier, version, _CE.settings_hash == rung.settings_hash


def origin(connection: Connection, candidate: Ranked) -> Origin:
    """The candidate's proposal to the campaign, and its ancestors."""
    proposals = proposed(connection, t.proposal.c.id == candidate.proposal_id)
    return Origin(next(iter(proposals), None), _ancestors(connection, candidate))


def _ancestors(connection: Connection, candidate: Ranked) -> tuple[tuple[tuple[str, str, str], ...], ...]:
    """Ancestors by generation: parents in the candidate's own proposal to the campaign, then in any proposal."""
    cp, c = t.candidate_parent.c, t.candidate.c
    generations, ids, seen = [], [candidate.id], {candidate.id}
    for generation in range(GENERATIONS):
        query = (
            sa.select(cp.operation, c.id, c.key, c.text)
            .select_from(t.candidate_parent)
            .join(t.candidate, c.id == cp.parent_id)
            .where(cp.candidate_id.in_(ids))
            .order_by(cp.id)
            .limit(8)
        )
        if generation == 0 and candidate.proposal_id is not None:
            query = query.where(cp.proposal_id == candidate.proposal_id)
        parents = {id_: (operation or "", key, text) for operation, id_, key, text in connection.execute(query)}
        ids = [id_ for id_ in parents if id_ not in seen]
        if not ids:
            break
        seen.update(ids)
        generations.append(tuple(parents[id_] for id_ in ids))
    return tuple(generations)
