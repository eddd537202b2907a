"""What a report says of single candidates: the best, their answers with provenance, lineage, imported values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import Measured
from sciagent.domain.jobs.states import Standing
from sciagent.domain.pooling import pooled_measured
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import measured_of

_CC = t.campaign_candidate.c
CHUNK = 500
GENERATIONS = 4  # of a lineage that are shown
FILES = 20  # artifacts of one piece of evidence that are listed


@dataclass(frozen=True)
class Ranked:
    """A candidate of the campaign; `position` and `depth` are those of campaign_candidate."""

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
    depth: int
    verdict: str | None
    reason: str | None
    detail: str | None
    score: float | None
    utility: float | None
    hit: bool
    in_seeds: bool
    proposal_id: int | None


@dataclass(frozen=True)
class EvidenceAnswer:
    """What one rung said of a candidate, with its origin. campaign: the one that paid; None: `verify` or a file."""

    rung: str
    evidence_id: int
    key: str
    candidate_id: int
    verifier: str
    version: str
    outcome: str
    reason: str | None
    detail: str | None
    replicate: int
    revision: int
    source: str
    who: str
    at: datetime
    versions: Mapping[str, str]
    attempt_id: int | None
    wall_seconds: float | None
    campaign: str | None
    measured: tuple[Measured, ...] = ()
    files: tuple[tuple[str, str, int, str], ...] = ()


@dataclass(frozen=True)
class Origin:
    """How a candidate came to be proposed. parents: (operation, key, text), a generation a list, the nearest first."""

    proposer: str | None
    trajectory: int | None
    turn: int | None
    operation: str | None
    rationale: str | None
    predicted: Mapping[str, Any] | None
    at: datetime | None
    parents: tuple[tuple[tuple[str, str, str], ...], ...]


_COLUMNS = (
    t.candidate.c.id, t.candidate.c.key, t.candidate.c.kind, t.candidate.c.text, t.candidate.c.inchikey,
    t.candidate.c.formula, t.candidate.c.charge, t.candidate.c.multiplicity, t.candidate.c.payload, _CC.seq,
    _CC.standing, _CC.position, _CC.depth, _CC.verdict, _CC.reason, _CC.detail, _CC.score, _CC.utility, _CC.is_hit,
    _CC.in_seeds, _CC.proposal_id,
)  # fmt: skip


def _ranked(row: Any) -> Ranked:
    values: list[Any] = list(row)
    values[18:20] = [bool(v) for v in values[18:20]]
    return Ranked(*values)


def best(connection: Connection, row: CampaignRow, n: int, vetoed: bool = True) -> list[Ranked]:
    """The n best: hits first, then by depth reached and score. vetoed: whether vetoed candidates are among them."""
    query = (
        sa.select(*_COLUMNS)
        .join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        .where(_CC.campaign_id == row.id)
        .order_by(_CC.is_hit.desc(), _CC.depth.desc(), _CC.score.desc().nulls_last(), _CC.seq)
        .limit(n)
    )
    if not vetoed:
        query = query.where(_CC.standing != Standing.VETOED)
    return [_ranked(one) for one in connection.execute(query)]


def arrived(connection: Connection, row: CampaignRow, after: int, n: int) -> list[Ranked]:
    """A page of n candidates in order of arrival, those with a sequence number above `after`."""
    query = (
        sa.select(*_COLUMNS)
        .join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        .where(_CC.campaign_id == row.id, _CC.seq > after)
        .order_by(_CC.seq)
        .limit(n)
    )
    return [_ranked(one) for one in connection.execute(query)]


def members(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, Ranked]:
    """Those of these candidates that are of the campaign."""
    found: dict[int, Ranked] = {}
    for chunk in _chunks(ids):
        query = sa.select(*_COLUMNS).join(t.candidate, t.candidate.c.id == _CC.candidate_id)
        rows = connection.execute(query.where(_CC.campaign_id == row.id, _CC.candidate_id.in_(chunk)))
        found.update({one.id: one for one in map(_ranked, rows)})
    return found


def answers(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, list[EvidenceAnswer]]:
    """Current evidence under the campaign's own rungs, in ladder order, with values, files and origin."""
    rows: list[tuple[str, Any]] = []
    for rung in rungs(connection, row.id):
        rows += [(rung.name, one) for chunk in _chunks(ids) for one in connection.execute(_under(rung, chunk))]
    return _answers(connection, rows)


def pooled_by_rung(answers: Iterable[EvidenceAnswer]) -> list[EvidenceAnswer]:
    """One answer a rung, with the values of its replicates pooled. answers: of one candidate, in ladder order."""
    found = []
    for _, same in groupby(answers, key=lambda answer: answer.rung):
        first, *others = same
        found.append(replace(first, measured=pooled_measured(one.measured for one in (first, *others))))
    return found


def imported(connection: Connection, ids: Sequence[int]) -> dict[int, list[EvidenceAnswer]]:
    """Current values from files of these candidates, whoever imported them; `rung` is empty."""
    query = [_evidence().where(_CE.candidate_id.in_(chunk), _CE.verifier == "import") for chunk in _chunks(ids)]
    return _answers(connection, [("", one) for q in query for one in connection.execute(q)])


_CE = t.current_evidence.c


def _evidence() -> Any:
    a = t.attempt.c
    return (
        sa.select(
            _CE.id, _CE.key, _CE.candidate_id, _CE.verifier, _CE.verifier_version, _CE.outcome, _CE.reason, _CE.detail,
            _CE.replicate, _CE.revision, _CE.source, _CE.who, _CE.at, _CE.versions, _CE.attempt_id, a.wall_seconds,
            t.campaign.c.name,
        )
        .outerjoin(t.attempt, a.id == _CE.attempt_id)
        .outerjoin(t.campaign, t.campaign.c.id == a.campaign_id)
        .order_by(_CE.replicate, _CE.id)
    )  # fmt: skip


def _under(rung: RungRow, ids: Sequence[int]) -> Any:
    return _evidence().where(
        _CE.candidate_id.in_(ids),
        _CE.verifier == rung.verifier,
        _CE.verifier_version == rung.verifier_version,
        _CE.settings_hash == rung.settings_hash,
    )


def _answers(connection: Connection, rows: Sequence[tuple[str, Any]]) -> dict[int, list[EvidenceAnswer]]:
    ids = [int(one[0]) for _, one in rows]
    values, files = measured_of(connection, ids), _files(connection, ids)
    found: dict[int, list[EvidenceAnswer]] = {}
    for rung, one in rows:
        rest: list[Any] = [*one, values.get(one[0], ()), tuple(files.get(one[0], ())[:FILES])]
        made = EvidenceAnswer(rung, *rest)
        found.setdefault(made.candidate_id, []).append(made)
    return found


def _files(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, list[tuple[str, str, int, str]]]:
    a = t.artifact.c
    found: dict[int, list[tuple[str, str, int, str]]] = {}
    for chunk in _chunks(evidence_ids):
        query = sa.select(a.evidence_id, a.name, a.sha256, a.size, a.media_type).where(a.evidence_id.in_(chunk))
        for id_, *file in connection.execute(query.order_by(a.id)):
            found.setdefault(int(id_), []).append((str(file[0]), str(file[1]), int(file[2]), str(file[3])))
    return found


def origin(connection: Connection, one: Ranked) -> Origin:
    """Who proposed it, when and why, and its forebears, up to four generations."""
    p, u, j = t.proposal.c, t.turn.c, t.trajectory.c
    query = (
        sa.select(j.proposer, j.number, u.number, p.operation, p.rationale, p.predicted, p.at)
        .select_from(t.proposal)
        .outerjoin(t.turn, u.id == p.turn_id)
        .outerjoin(t.trajectory, j.id == u.trajectory_id)
        .where(p.id == one.proposal_id)
    )
    found = connection.execute(query).one_or_none()
    fields: list[Any] = list(found) if found is not None else [None] * 7
    fields.append(_forebears(connection, one))
    return Origin(*fields)


def _forebears(connection: Connection, one: Ranked) -> tuple[tuple[tuple[str, str, str], ...], ...]:
    """The generations before it: parents by the proposal that entered it into this campaign, further back by any."""
    cp, c = t.candidate_parent.c, t.candidate.c
    generations, ids, seen = [], [one.id], {one.id}
    for step in range(GENERATIONS):
        query = (
            sa.select(cp.operation, c.id, c.key, c.text)
            .select_from(t.candidate_parent)
            .join(t.candidate, c.id == cp.parent_id)
            .where(cp.candidate_id.in_(ids))
            .order_by(cp.id)
            .limit(8)
        )
        if step == 0 and one.proposal_id is not None:
            query = query.where(cp.proposal_id == one.proposal_id)
        rows = [r for r in connection.execute(query) if r[1] not in seen]
        if not rows:
            break
        ids = list(dict.fromkeys(int(r[1]) for r in rows))
        seen.update(ids)
        generations.append(tuple({r[1]: (r[0] or "", r[2], r[3]) for r in rows}.values()))
    return tuple(generations)


def _chunks(ids: Sequence[int]) -> list[Sequence[int]]:
    return [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
