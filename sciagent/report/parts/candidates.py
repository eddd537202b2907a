"""The best candidates: cards with structure, geometry, values, lineage and provenance; and rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.states import Standing
from sciagent.errors import SciagentError
from sciagent.report.parts.geometries import geometry
from sciagent.report.parts.wording import MISSED, value, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views import report_candidates as ask
from sciagent.store.views.report_candidates import EvidenceAnswer, Origin, Ranked, pooled_by_rung

CARDS = 12
ROWS = 1000
MAX_GEOMETRY = 100_000  # bytes of one XYZ file


@dataclass(frozen=True)
class Value:
    """One number with all that makes it one."""

    property: str
    label: str
    text: str
    level: str
    rung: str
    answer: EvidenceAnswer


@dataclass(frozen=True)
class Card:
    """One of the best. headline: of each objective its value at the highest rung; others: all further values."""

    rank: int
    one: Ranked
    status: str
    kind: str  # hit | verified | open | fallen
    drawing: str
    geometry: str | None
    geometry_format: str
    headline: list[Value]
    others: list[Value]
    imported: list[Value]
    origin: Origin
    answers: list[EvidenceAnswer]


def cards(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], artifacts: ArtifactStore, n: int
) -> list[Card]:
    found = [one for one in ask.best(connection, row, n) if one.hit or one.score is not None]
    ids = [one.id for one in found]
    answers, imported = ask.answers(connection, row, ids), ask.imported(connection, ids)
    return [
        _card(connection, row, ladder, artifacts, rank, one, answers.get(one.id, []), imported.get(one.id, []))
        for rank, one in enumerate(found, start=1)
    ]


def _card(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    artifacts: ArtifactStore,
    rank: int,
    one: Ranked,
    answers: list[EvidenceAnswer],
    imported: list[EvidenceAnswer],
) -> Card:
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    values = all_values(answers)
    highest = {v.property: v for v in values}
    headline = [highest[name] for name in wanted if name in highest]
    found = geometry(artifacts, answers, MAX_GEOMETRY)
    text, form = found[:2] if found else (None, "")
    return Card(
        rank,
        one,
        status(one, ladder),
        kind(one),
        depicted(one),
        text,
        form,
        headline,
        [v for v in values if v not in headline],
        all_values(imported),
        ask.origin(connection, one),
        [*answers, *imported],
    )


def all_values(answers: Sequence[EvidenceAnswer]) -> list[Value]:
    return [
        Value(m.property, words(m.property), value(m), m.level.label, a.rung, a) for a in answers for m in a.measured
    ]


def kind(one: Ranked) -> str:
    if one.hit:
        return "hit"
    if one.standing == Standing.SETTLED:
        return "verified"
    return "open" if one.standing in (Standing.OPEN, Standing.PENDING, Standing.HELD) else "fallen"


def status(one: Ranked, ladder: Sequence[RungRow]) -> str:
    """In words: a hit, what it missed, or how far it has come."""
    here = ladder[one.position].name if one.position < len(ladder) else ""
    if one.hit:
        return "hit"
    if one.standing in (Standing.HELD, Standing.VETOED):
        return f"{'held' if one.standing == Standing.HELD else 'taken out'} by a person at {here}"
    if one.reason:
        missed = (one.detail or "").partition(" = ")
        what = f"{words(missed[0])} {words(one.reason)}" if one.reason in MISSED and missed[1] else words(one.reason)
        return f"{'verified: ' if one.standing == Standing.SETTLED else f'fell at {here}: '}{what}"
    if one.standing == Standing.SETTLED:
        return "verified"
    return f"not verified yet: waits for {here}" if one.standing == Standing.OPEN else f"runs at {here}"


def depicted(one: Ranked) -> str:
    """The structure; empty for what has no drawing (a crystal, a text that this version does not read)."""
    if one.kind != "molecule":
        return ""
    from sciagent.chemistry.depiction import drawing
    from sciagent.chemistry.molecule import Molecule

    try:
        return drawing(Molecule.from_payload(one.payload))
    except (SciagentError, ValueError, RuntimeError):
        return ""


@dataclass(frozen=True)
class Table:
    """columns: (rung, property, unit, level). rows: JSON, see `table`. near_edge: hits that lie within one standard
    uncertainty of a limit."""

    columns: list[tuple[str, str, str, str]]
    rows: list[list[Any]]
    near_edge: int
    imported: list[tuple[Ranked, list[Value]]]


def table(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], n: int = ROWS) -> Table:
    """The n best, a row each: rank, text, status, kind, utility, score, in_seeds, inchikey, key, then of each column
    [value, text] or None. Columns are what objectives and gates name, at every rung that measured it."""
    found = ask.best(connection, row, n)
    ids = [one.id for one in found]
    answers, imported = ask.answers(connection, row, ids), ask.imported(connection, ids)
    sorted_columns = _columns(row, ladder, [answer for mine in answers.values() for answer in mine])
    rows = []
    for rank, one in enumerate(found, start=1):
        at = {(a.rung, m.property, m.level.label): m for a in answers.get(one.id, ()) for m in a.measured}
        cells = [_cell(at.get((rung, name, level))) for rung, name, _, level in sorted_columns]
        rows.append(
            [
                rank,
                one.text,
                status(one, ladder),
                kind(one),
                one.utility,
                one.score,
                one.in_seeds,
                one.inchikey or "",
                one.key[:12],
                *cells,
            ]
        )
    near = sum(_near_edge(row.spec, answers.get(one.id, ())) for one in found if one.hit)
    known = [(one, all_values(imported[one.id])) for one in found if one.id in imported]
    return Table(sorted_columns, rows, near, known)


def _columns(
    row: CampaignRow, ladder: Sequence[RungRow], answers: Sequence[EvidenceAnswer]
) -> list[tuple[str, str, str, str]]:
    """(rung, property, unit, level) of what objectives and gates name, the highest rung first; at most fourteen."""
    wanted, order = list(named_order(row.spec)), {r.name: r.position for r in ladder}
    measured = {
        (answer.rung, m.property, m.quantity.unit, m.level.label)
        for answer in answers
        for m in answer.measured
        if m.property in wanted
    }
    return sorted(measured, key=lambda c: (-order[c[0]], wanted.index(c[1]), c[3]))[:14]


def named_order(spec: Mapping[str, Any]) -> dict[str, None]:
    names = [o["property"] for o in spec.get("objectives", ())]
    return dict.fromkeys(names + [name for rung in spec.get("ladder", ()) for name in rung.get("gate", {})])


def _cell(m: Measured | None) -> list[Any] | None:
    return None if m is None else [m.quantity.value, value(m, unit=False)]


def _near_edge(spec: Mapping[str, Any], answers: Sequence[EvidenceAnswer]) -> bool:
    """Whether a value that decided lies within one standard uncertainty of a limit."""
    highest = at_highest_rung(pooled_by_rung(answers))
    for objective in spec.get("objectives", ()):
        if objective["property"] not in highest:
            continue
        quantity = highest[objective["property"]][1].quantity
        if not quantity.uncertainty:
            continue
        edges = [edge for edge in objective.get("accept") or () if edge is not None]
        if any(abs(quantity.value - edge) <= quantity.uncertainty for edge in edges):
            return True
    return False


def when(moment: datetime | None) -> str:
    return "" if moment is None else moment.strftime("%Y-%m-%d %H:%M:%S UTC")
