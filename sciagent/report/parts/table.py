"""The rows of exports (candidates with values, and proposals), read in pages; never all rows are in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.candidates import identifier_text, name_cells, smiles_of
from sciagent.domain.evidence import Measured
from sciagent.domain.quantities import Censoring
from sciagent.errors import SciagentError
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.results.candidates import name_fields, names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER
from sciagent.store.views import queries
from sciagent.store.views.candidates import (
    EvidenceAnswer,
    RankedCandidate,
    candidate_pages,
    fits_by_rung,
    imported_answers,
    is_of_rung,
    pooled_by_rung,
    rung_answers,
)

PAGE = 500
IMPORTED = "imported"  # label of imported values, where those of a rung have the rung's label
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of what spreadsheets take for a formula
FORMATS = {"chemical/x-xyz": "xyz", "chemical/x-cif": "cif"}
MAX_GEOMETRY = 2_000_000  # bytes of a geometry file
FATE = ("status", "reason", "detail", "text", "candidate", "operation", "rationale", "predicted")
PROPOSAL = ("id", "at", "turn", "proposer", *FATE, "name")
STRUCTURE = ("kind", "text", "smiles", "formula")
FIXED = ("key", *STRUCTURE, "inchikey", "standing", "rung", "verdict", "reason", "detail", "hit", "utility", "in_seeds")


@dataclass(frozen=True)
class MeasuredColumn:
    """A property as a rung measured it, or as it was imported."""

    rung: str
    """Label of the rung; `imported` for imported values."""
    property: str
    unit: str
    level: str
    name: str
    """Name of the property, with `@level` if the rung measured it at several levels."""
    description: str


@dataclass(frozen=True)
class Entry:
    """A candidate with its answers."""

    candidate: RankedCandidate
    answers: list[EvidenceAnswer]
    """All evidence of the candidate from the campaign's rungs, then from files, with separate replicates, not
    calibrated."""
    values: dict[tuple[str, str], Measured]
    """{(rung, column name): value}; replicates are pooled, and values of calibrated rungs are calibrated."""
    named: Mapping[str, str]
    """Cells of the columns `name_columns`; empty texts for a candidate without names."""
    fixed: Mapping[str, Any]
    """Cells of the columns that every campaign has."""


def name_columns(connection: Connection, row: CampaignRow) -> list[str]:
    """Returns the columns with the names of input files; none if no candidate of the campaign has a name."""
    return list(name_cells({}, name_fields(connection, row.id)))


def columns(connection: Connection, row: CampaignRow) -> list[MeasuredColumn]:
    """Returns all properties measured by the campaign's rungs, in ladder order, then imported ones; each by property
    and level."""
    measured: list[MeasuredColumn] = []
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    lv = t.level.c
    cc = t.campaign_candidate.c
    sources = [(rung.name, rung.fits, is_of_rung(rung)) for rung in rungs(connection, row.id)]
    for label, fits, condition in [*sources, (IMPORTED, {}, e.verifier == IMPORT_VERIFIER)]:
        query = (
            sa.select(p.name, p.unit, p.description, lv.label)
            .distinct()
            .select_from(t.quantity)
            .join(t.property_, p.id == q.property_id)
            .join(t.level, lv.id == q.level_id)
            .join(t.current_evidence, e.id == q.evidence_id)
            .join(t.campaign_candidate, cc.candidate_id == e.candidate_id)
            .where(cc.campaign_id == row.id, condition)
            .order_by(p.name, lv.label)
        )
        rows = connection.execute(query).all()
        names = [row[0] for row in rows]
        for name, unit, description, raw_level in rows:
            level = fits[name].level_of(raw_level) if name in fits else raw_level
            shown = name if names.count(name) == 1 else f"{name}@{level}"
            measured.append(MeasuredColumn(label, name, row.units.get(name, unit), level, shown, description))
    return measured


def entries(
    connection: Connection, row: CampaignRow, wanted: Sequence[MeasuredColumn], last: int = -1, hits: bool = False
) -> Iterator[Entry]:
    """Yields the candidates in order of arrival; the hits alone come in the order of `best`.

    last: sequence number after which to start, unless hits are wanted; -1 for all. hits: whether only hits are wanted.
    """
    ladder = rungs(connection, row.id)
    labels = {r.position: r.name for r in ladder}
    names = {(c.rung, c.property, c.level): c.name for c in wanted}
    fields = name_fields(connection, row.id)
    fits = fits_by_rung(ladder)
    for page in candidate_pages(connection, row, PAGE, hits, last):
        ids = [candidate.id for candidate in page]
        answers = rung_answers(connection, row, ladder, ids)
        imported = imported_answers(connection, ids, row.units)
        for candidate in page:
            from_files = (answer._replace(rung=IMPORTED) for answer in imported.get(candidate.id, ()))
            own_answers = [*answers.get(candidate.id, ()), *from_files]
            values = {}
            for answer in pooled_by_rung(own_answers, fits):
                for measured in answer.measured:
                    source = (answer.rung, measured.property, measured.level.label)
                    if source in names:
                        values[answer.rung, names[source]] = measured
            fixed = {name: getattr(candidate, name, None) for name in FIXED}
            fixed |= {"smiles": smiles_of(candidate.kind, candidate.text), "rung": labels.get(candidate.position)}
            yield Entry(candidate, own_answers, values, name_cells(candidate.names, fields), fixed)


def nested(entry: Entry) -> dict[str, dict[str, Any]]:
    """Returns {rung: {property: value with uncertainty, unit and level}} for JSON."""
    by_rung: dict[str, dict[str, Any]] = {a.rung: {} for a in entry.answers}
    for (rung, name), m in entry.values.items():
        q = m.quantity
        cell = {"value": q.value, "uncertainty": q.uncertainty, "unit": q.unit, "level": m.level.label}
        cell |= {} if q.as_typed is None else {"as_typed": q.as_typed}
        by_rung[rung][name] = cell if q.censoring is Censoring.NONE else cell | {"censoring": str(q.censoring)}
    return by_rung


def write_jsonl(
    connection: Connection, row: CampaignRow, file: IO[str], proposed: bool = False, hits: bool = False
) -> int:
    """Writes a line per candidate, or per proposal. Returns the number of lines."""
    candidates = (
        {**entry.fixed, "names": entry.candidate.names, "values": nested(entry)}
        for entry in entries(connection, row, columns(connection, row), hits=hits)
    )
    n = 0
    for n, line in enumerate(proposals(connection, row) if proposed else candidates, start=1):  # noqa: B007
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return n


def harmless(cell: Any) -> Any:
    """Returns the cell, quoted if it is a text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in FORMULA else cell


def geometry(
    artifacts: ArtifactStore, answers: Sequence[EvidenceAnswer], max_bytes: int = MAX_GEOMETRY
) -> tuple[str, str, EvidenceAnswer] | None:
    """Returns (text, `xyz` or `cif`, answer) of the last stored geometry; None without one or if its file is gone."""
    for answer in reversed(answers):
        for _, sha256, size, media_type in answer.files:
            if media_type not in FORMATS or size > max_bytes:
                continue
            try:
                return artifacts.get(sha256).decode("utf-8", errors="replace"), FORMATS[media_type], answer
            except SciagentError:
                continue
    return None


def proposals(connection: Connection, row: CampaignRow) -> Iterator[Mapping[str, Any]]:
    """Yields the proposals by status, then by arrival.

    candidate: the candidate's key. predicted: JSON text. name: the identifiers that the candidate has in the campaign's
    files; a refused text has its names in `detail`."""
    rows = queries.proposals(connection, row)
    while page := list(islice(rows, PAGE)):
        known = names_of(connection, [candidate_id for candidate_id, *_ in page if candidate_id is not None], [row.id])
        for candidate_id, *values in page:
            proposal = dict(zip(PROPOSAL, [*values, identifier_text(known.get(candidate_id, {}))], strict=True))
            proposal["at"] = proposal["at"].isoformat()
            predicted = proposal["predicted"]
            proposal["predicted"] = json.dumps(predicted, ensure_ascii=False) if predicted else None
            yield proposal
