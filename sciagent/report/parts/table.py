"""The table of a campaign: one row a candidate, paged through, never whole in memory."""

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
    """A property as one rung measured it. name: the property, with `@level` where the rung has it at several levels."""

    rung: str
    property: str
    unit: str
    level: str
    name: str
    description: str

    def heading(self) -> str:
        """`dft.homo_lumo_gap [eV]`"""
        return f"{self.rung}.{self.name} [{self.unit}]"


@dataclass(frozen=True)
class Entry:
    """One candidate with its answers. values: by (rung, column name)."""

    one: Ranked
    answers: list[EvidenceAnswer]
    values: dict[tuple[str, str], Measured]
    fixed: Mapping[str, Any]


def columns(connection: Connection, row: CampaignRow) -> list[MeasuredColumn]:
    """Everything that was measured under the campaign's rungs, in ladder order, by property and level."""
    found: list[MeasuredColumn] = []
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
        names = [one[0] for one in rows]
        for name, unit, description, level in rows:
            shown = name if names.count(name) == 1 else f"{name}@{level}"
            found.append(MeasuredColumn(rung.name, name, unit, level, shown, description))
    return found


def entries(
    connection: Connection, row: CampaignRow, wanted: Sequence[MeasuredColumn], last: int = -1
) -> Iterator[Entry]:
    """Every candidate in order of arrival. last: the sequence number of the candidate after which to begin."""
    labels = {r.position: r.name for r in rungs(connection, row.id)}
    names = {(c.rung, c.property, c.level): c.name for c in wanted}
    while page := ask.arrived(connection, row, last, PAGE):
        answers = ask.answers(connection, row, [one.id for one in page])
        for one in page:
            mine = answers.get(one.id, [])
            values = {
                (a.rung, names[place]): m
                for a in mine
                for m in a.measured
                if (place := (a.rung, m.property, m.level.label)) in names
            }
            yield Entry(one, mine, values, _fixed(one, labels.get(one.position)))
        last = page[-1].seq


def _fixed(one: Ranked, rung: str | None) -> Mapping[str, Any]:
    return {
        "key": one.key,
        "smiles": one.text,
        "inchikey": one.inchikey,
        "standing": one.standing,
        "rung": rung,
        "verdict": one.verdict,
        "reason": one.reason,
        "detail": one.detail,
        "hit": one.hit,
        "utility": one.utility,
        "in_seeds": one.in_seeds,
    }


def as_value(m: Measured) -> Mapping[str, Any]:
    """A value with all that makes it one, for JSON."""
    q = m.quantity
    found: dict[str, Any] = {"value": q.value, "uncertainty": q.uncertainty, "unit": q.unit, "level": m.level.label}
    if q.censoring is not Censoring.NONE:
        found["censoring"] = str(q.censoring)
    return found


def nested(entry: Entry) -> dict[str, dict[str, Any]]:
    """Values as rung -> property -> value."""
    found: dict[str, dict[str, Any]] = {a.rung: {} for a in entry.answers}
    for (rung, name), m in entry.values.items():
        found[rung][name] = as_value(m)
    return found


def write_jsonl(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    """A candidate a line; returns how many."""
    n = 0
    for n, entry in enumerate(entries(connection, row, columns(connection, row)), start=1):  # noqa: B007
        file.write(json.dumps({**entry.fixed, "values": nested(entry)}, ensure_ascii=False) + "\n")
    return n


def write_csv(connection: Connection, row: CampaignRow, file: IO[str]) -> int:
    """Columns `rung.property [unit]`, each with its uncertainty, censoring and level; returns the number of rows."""
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
    """A text that a spreadsheet would run as a formula is quoted."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "@", "\t", "\r") else cell
