"""The columns of a table of candidates, objectives first, and the table as CSV; a spreadsheet has the same columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.quantities import Censoring
from sciagent.errors import UsageError, did_you_mean
from sciagent.report.parts.table import (
    FIXED,
    IMPORTED,
    PROPOSAL,
    Entry,
    MeasuredColumn,
    columns,
    entries,
    harmless,
    name_columns,
    proposals,
)
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t

ALL = "all"
FIRST = ("smiles", "hit", "utility")
SHORT = ("rung", "reason", "inchikey")
PARTS = ("", " uncertainty", " censoring", " level")


@dataclass(frozen=True)
class SheetColumn:
    """A column of a table of candidates."""

    heading: str
    """Name of the column, with the unit."""
    about: str
    """What the column holds: the level of measured values, else a description."""
    cell: Callable[[Entry], Any]
    """Returns the cell of a candidate: a number, a text, a truth value or None."""


def chosen_columns(connection: Connection, row: CampaignRow, asked: str | None) -> list[SheetColumn]:
    """Returns the columns of a campaign's table, objectives first.

    asked: None for the names, the structure, the objectives and what became of the candidate; `all`; or names with
    commas, such as `smiles,dft.homo_lumo_gap,logp`. A property stands for all rungs that measured it. Raises UsageError
    for an unknown name.
    """
    named, measured = name_columns(connection, row), _objectives_first(row, columns(connection, row))
    complete = asked is not None and asked.strip() == ALL
    if asked is None or complete:
        names = _all_names(row, named, measured) if complete else _short_names(row, named, measured)
    else:
        names = [name.strip() for name in asked.split(",") if name.strip()]
    made: dict[str, SheetColumn] = {}
    for name in names:
        made |= {column.heading: column for column in _of(connection, row, name, named, measured, complete)}
    return list(made.values())


def _short_names(row: CampaignRow, named: Sequence[str], measured: Sequence[MeasuredColumn]) -> list[str]:
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    return [*named, *FIRST, *(f"{c.rung}.{c.name}" for c in measured if c.property in wanted), *SHORT]


def _all_names(row: CampaignRow, named: Sequence[str], measured: Sequence[MeasuredColumn]) -> list[str]:
    first = _short_names(row, named, measured)[: -len(SHORT)]
    return [*first, *(name for name in FIXED if name not in FIRST), *(f"{c.rung}.{c.name}" for c in measured)]


def _objectives_first(row: CampaignRow, measured: Sequence[MeasuredColumn]) -> list[MeasuredColumn]:
    """Returns the columns of objectives' properties, the highest rung first and imported values last, then the others
    in ladder order."""
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    order = sorted(reversed(measured), key=lambda column: column.rung == IMPORTED)
    first = [c for name in wanted for c in order if c.property == name]
    return [*first, *(c for c in measured if c not in first)]


def _of(
    connection: Connection,
    row: CampaignRow,
    name: str,
    named: Sequence[str],
    measured: Sequence[MeasuredColumn],
    complete: bool,
) -> Iterator[SheetColumn]:
    """Yields the columns that a name stands for. complete: whether measured values always have all of PARTS."""
    if name in named:
        yield SheetColumn(name, "name in the input file", lambda entry: entry.named.get(name) or None)
    elif name in FIXED:
        yield SheetColumn(name, _FIXED_ABOUT.get(name, ""), lambda entry: entry.fixed[name])
    elif found := [c for c in measured if name in (f"{c.rung}.{c.name}", f"{c.rung}.{c.property}", c.property)]:
        for column in found:
            yield from _measured(column, complete or _is_censored(connection, row, column))
    else:
        known = [*named, *FIXED, *(f"{c.rung}.{c.name}" for c in measured), *(c.property for c in measured)]
        listed = ", ".join(dict.fromkeys(known))
        raise UsageError(f'--columns: there is no "{name}"{did_you_mean(name, known)}; there are: {listed}')


def _measured(column: MeasuredColumn, with_censoring: bool) -> Iterator[SheetColumn]:
    heading = f"{column.rung}.{column.name} [{column.unit}]"
    about = (column.level, f"standard uncertainty (k = 1) / {column.unit}", "below or above where it is a limit", "")
    for place, part in enumerate(PARTS):
        if part != " censoring" or with_censoring:
            yield SheetColumn(heading + part, about[place], _part_of(column, place))


def _part_of(column: MeasuredColumn, place: int) -> Callable[[Entry], Any]:
    def cell(entry: Entry) -> Any:
        if (m := entry.values.get((column.rung, column.name))) is None:
            return None
        q = m.quantity
        return (q.value, q.uncertainty, None if q.censoring is Censoring.NONE else str(q.censoring), m.level.label)[
            place
        ]

    return cell


def _is_censored(connection: Connection, row: CampaignRow, column: MeasuredColumn) -> bool:
    """Returns whether a value of the property, of any source, is only a limit for a candidate of the campaign."""
    e, q, p, cc = t.current_evidence.c, t.quantity.c, t.property_.c, t.campaign_candidate.c
    query = (
        sa.select(q.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == column.property))
        .join(t.current_evidence, e.id == q.evidence_id)
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == e.candidate_id, cc.campaign_id == row.id))
        .where(q.censoring != Censoring.NONE)
        .limit(1)
    )
    return connection.execute(query).first() is not None


_FIXED_ABOUT = {
    "smiles": "structure",
    "hit": "whether every objective is met at the terminal rung",
    "utility": "geometric mean of the desirabilities; 1 is best",
    "rung": "the last rung",
    "reason": "why it is not a hit",
}


def write_csv(
    connection: Connection,
    row: CampaignRow,
    file: IO[str],
    proposed: bool = False,
    asked: str | None = ALL,
    hits: bool = False,
) -> int:
    """Writes a row per candidate in order of arrival, or per proposal. Returns the number of rows.

    asked: see `chosen_columns`. hits: whether only hits are written. A measured value has a column
    `rung.property [unit]`, followed by its uncertainty, censoring and level.
    """
    of_proposals = chain([PROPOSAL], ([*proposal.values()] for proposal in proposals(connection, row)))
    n, writer = 0, csv.writer(file)
    for n, line in enumerate(of_proposals if proposed else _lines(connection, row, asked, hits)):  # noqa: B007
        writer.writerow([harmless(cell) for cell in line])
    return n


def _lines(connection: Connection, row: CampaignRow, asked: str | None, hits: bool) -> Iterator[Sequence[Any]]:
    """Yields the headings, then the cells of each candidate."""
    wanted = chosen_columns(connection, row, asked)
    yield [column.heading for column in wanted]
    for entry in entries(connection, row, columns(connection, row), hits=hits):
        yield [column.cell(entry) for column in wanted]
