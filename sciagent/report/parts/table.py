"""The table of a campaign: one row per candidate, read page by page and never held whole in memory."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import Measured
from sciagent.domain.quantities import Censoring
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.views import report_candidates as ask
from sciagent.store.views.report_candidates import EvidenceAnswer, Ranked

PAGE = 500
FIXED = ("key", "smiles", "inchikey", "standing", "rung", "verdict", "reason", "detail", "hit", "utility", "in_seeds")


@dataclass(frozen=True)
class MeasuredColumn:
    """A property as a rung measured it."""

    rung: str
    property: str
    unit: str
    level: str
    name: str
    """The property, with `@level` where the rung has it at several levels."""
    description: str

    def heading(self) -> str:
        """`dft.homo_lumo_gap [eV]`"""
        return f"{self.rung}.{self.name} [{self.unit}]"


@dataclass(frozen=True)
class Entry:
    """A candidate with its answers."""

    candidate: Ranked
    answers: list[EvidenceAnswer]
    values: dict[tuple[str, str], Measured]
    """{(rung, column name): value}."""
    fixed: Mapping[str, Any]
    """The columns that every campaign has."""


def columns(connection: Connection, row: CampaignRow) -> list[MeasuredColumn]:
    """All properties measured by the campaign's rungs, in ladder order, then by property and level."""
    measured: list[MeasuredColumn] = []
    e, q, p, lv, cc = t.current_evidence.c, t.quantity.c, t.property_.c, t.level.c, t.campaign_candidate.c
    for rung in rungs(connection, row.id):
        query = (
            sa.select(p.name, p.unit, p.description, lv.label)
            .distinct()
            .select_from(t.quantity)
            .join(t.property_, p.id == q.property_id)
            .join(t.level, lv.id == q.level_id)
            .join(t.current_evidence, e.id == q.evidence_id)
            .join(t.campaign_candidate, cc.candidate_id == e.candidate_id)
            .where(
                cc.campaign_id == row.id,
                e.verifier == rung.verifier,
                e.verifier_version == rung.verifier_version,
                e.settings_hash == rung.settings_hash,
            )
            .order_by(p.name, lv.label)
        )
        rows = connection.execute(query).all()
        names = [row[0] for row in rows]
        for name, unit, description, level in rows:
            shown = name if names.count(name) == 1 else f"{name}@{level}"
            measured.append(MeasuredColumn(rung.name, name, unit, level, shown, description))
    return measured


def entries(
    connection: Connection, row: CampaignRow, wanted: Sequence[MeasuredColumn], last: int = -1
) -> Iterator[Entry]:
    """All candidates in order of arrival, from the one after sequence number `last`."""
    labels = {r.position: r.name for r in rungs(connection, row.id)}
    names = {(c.rung, c.property, c.level): c.name for c in wanted}
    while page := ask.arrived(connection, row, last, PAGE):
        answers = ask.answers(connection, row, [candidate.id for candidate in page])
        for candidate in page:
            mine = answers.get(candidate.id, [])
            values = {
                (a.rung, names[place]): m
                for a in mine
                for m in a.measured
                if (place := (a.rung, m.property, m.level.label)) in names
            }
            yield Entry(candidate, mine, values, _fixed(candidate, labels.get(candidate.position)))
        last = page[-1].seq


def _fixed(candidate: Ranked, rung: str | None) -> Mapping[str, Any]:
    return {
        "key": candidate.key,
        "smiles": candidate.text,
        "inchikey": candidate.inchikey,
        "standing": candidate.standing,
        "rung": rung,
        "verdict": candidate.verdict,
        "reason": candidate.reason,
        "detail": candidate.detail,
        "hit": candidate.hit,
        "utility": candidate.utility,
        "in_seeds": candidate.in_seeds,
    }


def as_value(m: Measured) -> Mapping[str, Any]:
    """A value with its uncertainty, unit and level, for JSON."""
    q = m.quantity
    value: dict[str, Any] = {"value": q.value, "uncertainty": q.uncertainty, "unit": q.unit, "level": m.level.label}
    if q.censoring is not Censoring.NONE:
        value["censoring"] = str(q.censoring)
    return value


def nested(entry: Entry) -> dict[str, dict[str, Any]]:
    """Values as rung -> property -> value."""
    by_rung: dict[str, dict[str, Any]] = {a.rung: {} for a in entry.answers}
    for (rung, name), m in entry.values.items():
        by_rung[rung][name] = as_value(m)
    return by_rung


def write_jsonl(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    """Write one line per candidate; returns the number of lines."""
    n = 0
    for n, entry in enumerate(entries(connection, row, columns(connection, row)), start=1):  # noqa: B007
        file.write(json.dumps({**entry.fixed, "values": nested(entry)}, ensure_ascii=False) + "\n")
    return n


def write_csv(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    """Write columns `rung.property [unit]`, each with uncertainty, censoring and level; returns the number of rows."""
    n, wanted, writer = 0, columns(connection, row), csv.writer(file)
    parts = ("", " uncertainty", " censoring", " level")
    writer.writerow([*FIXED, *(f"{column.heading()}{part}" for column in wanted for part in parts)])
    for n, entry in enumerate(entries(connection, row, wanted), start=1):  # noqa: B007
        cells = [entry.fixed[name] for name in FIXED]
        for column in wanted:
            m = entry.values.get((column.rung, column.name))
            cells += ["", "", "", ""] if m is None else _cells(m)
        writer.writerow([harmless(c) for c in cells])
    return n


def _cells(m: Measured) -> list[Any]:
    q = m.quantity
    return [q.value, q.uncertainty, "" if q.censoring is Censoring.NONE else str(q.censoring), m.level.label]


def harmless(cell: Any) -> Any:
    """The cell, quoted if it is a text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "@", "\t", "\r") else cell
