"""The query of all candidates of a campaign; it reads in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.api import html
from sciagent.api.best_table import levels_text
from sciagent.api.tables import ResultQuery
from sciagent.domain.answers.values import PropertyValue, StructureText
from sciagent.domain.candidate_names import Names, label
from sciagent.domain.candidate_names import cells as named
from sciagent.report.export import parquet
from sciagent.report.parts import table
from sciagent.report.parts.table import Entry
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts


class MeasuredValue(PropertyValue):
    """A value that a rung measured."""

    rung: str
    """Label of the rung."""

    def __repr__(self) -> str:
        return f"<{self.line()}>"


@dataclass(frozen=True, repr=False)
class CandidateRow:
    """A candidate of a campaign with its standing and all values that rungs measured."""

    key: str
    """Key of the candidate, the same in every ledger."""
    kind: str
    """Subject of the campaign: `molecule` or `crystal`."""
    text: str
    """Canonical SMILES of a molecule; reduced formula and space group of a crystal."""
    smiles: str | None
    """Canonical SMILES; None for a candidate that is no molecule."""
    formula: str
    """Sum formula."""
    inchikey: str | None
    """InChIKey; None for a candidate without one."""
    standing: str
    """`open`, `pending`, `dropped`, `settled`, `held` or `vetoed`."""
    rung: str | None
    """The rung that the candidate waits for, runs at, or ended at."""
    verdict: str | None
    """Verdict of that rung: `pass`, `fail`, `not_applicable`, `inconclusive` or `error`."""
    reason: str | None
    """Reason why the candidate did not pass."""
    detail: str | None
    """The reason in words."""
    hit: bool
    """Whether the candidate is a hit."""
    utility: float | None
    """Utility in (0, 1]; None until the terminal rung has answered."""
    in_seeds: bool
    """Whether a seed file contains the candidate."""
    names: Names = field(default_factory=dict)
    """Names and remarks in input files, by column."""
    drawn_from: str = ""
    """Notation from which it is drawn."""
    values: tuple[MeasuredValue, ...] = ()
    """Measured values, in ladder order of their rungs."""

    def value(self, property: str) -> MeasuredValue | None:
        """Returns the value of a property at the highest rung that measured it; None if no rung did."""
        return next((value for value in reversed(self.values) if value.property == property), None)

    def __repr__(self) -> str:
        return f"<{self.text}: {'hit' if self.hit else self.standing}, {len(self.values)} values>"


def candidates_of(store: Ledger, name: str, properties: Sequence[str]) -> ResultQuery[CandidateRow]:
    """Returns the query of a campaign's candidates, in order of arrival. properties: properties that are displayed."""

    def page(connection: Connection, last: int | None) -> tuple[list[CandidateRow], int | None]:
        row = campaigns.get(connection, name)
        entries = table.entries(connection, row, table.columns(connection, row), -1 if last is None else last)
        chunk = list(islice(entries, table.PAGE))
        return [_row(entry) for entry in chunk], chunk[-1].candidate.seq if chunk else last

    return ResultQuery(
        f"Candidates of {name}",
        store,
        page,
        lambda connection: campaign_counts.members(connection, campaigns.get(connection, name).id),
        lambda connection: parquet.candidate_rows(connection, campaigns.get(connection, name)),
        partial(_brief, properties=properties),
        _record,
    )


def _row(entry: Entry) -> CandidateRow:
    values = (MeasuredValue.of(measured, rung=rung, property=name) for (rung, name), measured in entry.values.items())
    shown = entry.candidate
    return CandidateRow(**entry.fixed, names=shown.names, drawn_from=shown.drawn_from, values=tuple(values))


def _brief(row: CandidateRow, properties: Sequence[str]) -> Mapping[str, Any]:
    values = {name: row.value(name) for name in properties}
    stands = "hit" if row.hit else row.standing
    structure = StructureText(kind=row.kind, text=row.text, drawn_from=row.drawn_from)
    return {
        "name": label(row.names),
        structure.column: html.cell(structure),
        **values,
        "level": levels_text(values),
        "stands": stands,
        "rung": row.rung,
        "reason": row.reason,
    }


def _record(row: CandidateRow) -> Mapping[str, Any]:
    cells = {name: cell for name, cell in vars(row).items() if name not in ("names", "drawn_from", "values")}
    cells = named(row.names, tuple(row.names)) | cells
    for value in row.values:
        name = f"{value.rung}.{value.property}"
        cells |= {name: value.value, f"{name}.uncertainty": value.uncertainty}
    return cells
