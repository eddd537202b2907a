"""Every candidate of a campaign, read in pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from sciagent.api import answers
from sciagent.api.tables import ResultQuery
from sciagent.api.values import CandidateRow, MeasuredValue
from sciagent.report.export import parquet
from sciagent.report.parts import table
from sciagent.report.parts.table import Entry
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import queries


def query(store: Ledger, name: str, shown: Sequence[str]) -> ResultQuery[CandidateRow]:
    """The candidates of the campaign of that name, in order of arrival. shown: properties that are shown in HTML."""
    return ResultQuery(
        f"Candidates of {name}",
        lambda: _pages(store, name),
        lambda: _count(store, name),
        lambda: _columns(store, name),
        answers.candidates_layout(shown),
    )


def _pages(store: Ledger, name: str) -> Iterator[list[CandidateRow]]:
    """A read transaction each, so that a reader who stops half way holds nothing."""
    last = -1
    while True:
        with store.read() as connection:
            row = campaigns.get(connection, name)
            entries = table.entries(connection, row, table.columns(connection, row), last)
            page = list(islice(entries, table.PAGE))
        if not page:
            return
        yield [_row(entry) for entry in page]
        last = page[-1].candidate.seq


def _count(store: Ledger, name: str) -> int:
    with store.read() as connection:
        return queries.members(connection, campaigns.get(connection, name).id)


@contextmanager
def _columns(store: Ledger, name: str) -> Iterator[parquet.ArrowRows]:
    with store.read() as connection:
        yield parquet.candidate_rows(connection, campaigns.get(connection, name))


def _row(entry: Entry) -> CandidateRow:
    values = (
        MeasuredValue(
            name,
            measured.quantity.value,
            measured.quantity.uncertainty,
            measured.quantity.unit,
            measured.level.label,
            rung,
            str(measured.quantity.censoring),
        )
        for (rung, name), measured in entry.values.items()
    )
    return CandidateRow(**entry.fixed, values=tuple(values))
