"""A ledger as a notebook sees it: its campaigns, and every value in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sciagent import settings
from sciagent.api import html
from sciagent.api.tables import Layout, ResultQuery, ResultTable
from sciagent.api.values import SIGNS
from sciagent.domain.quantities import show
from sciagent.errors import UsageError
from sciagent.report.export.parquet import ArrowRows
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import ledger_url
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import IMPORT
from sciagent.store.views import queries, values
from sciagent.store.views.values import LedgerValue, ValueFilter

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign


def open_ledger(url: str | Path | None = None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """The ledger at a path or URL; by default the one that SCIAGENT_LEDGER names, then ./sciagent.db.

    create: whether a SQLite file that does not exist is made. idle_seconds: how long a transaction may be silent on
    PostgreSQL. Raises UsageError where there is no such file.
    """
    wanted = settings.load(None if url is None else str(url))
    place = ledger_url(wanted.ledger)
    if not create and place.get_backend_name() == "sqlite" and not Path(str(place.database)).exists():
        raise UsageError(f"no ledger at {place.database}; name one with --ledger, or start with: sciagent run FILE")
    return Ledger(wanted.ledger, wanted.artifacts, idle_seconds)


def ledger_of(given: LedgerLike, create: bool = False) -> Ledger:
    """What `ledger=` means: a path, a URL, an open ledger, or the default."""
    if isinstance(given, Ledger):
        return given
    if isinstance(given, LedgerView):
        return given.store
    return open_ledger(given, create)


def pick_campaign(connection: Any, name: str | None) -> campaigns.CampaignRow:
    """The campaign of that name, or the only one there is. Raises UnknownNameError, or UsageError without a name."""
    if name is not None:
        return campaigns.get(connection, name)
    names = campaigns.names(connection)
    if len(names) != 1:
        raise UsageError(f"name a campaign; this ledger has: {', '.join(names) or 'none'}")
    return campaigns.get(connection, names[0])


@dataclass(frozen=True)
class LedgerCampaign:
    """A campaign in a ledger, in one line."""

    name: str
    """Its name, unique in the ledger."""
    state: str
    """`created`, `running`, `paused`, `interrupted`, `finished`, `budget_spent` or `failed`."""
    candidates: int
    """How many candidates it has."""
    hits: int
    """How many of them are hits."""
    stop_reason: str | None
    """Why it ended."""


def _shown(row: LedgerValue) -> str:
    return SIGNS.get(row.censoring, "") + show(row.value, row.uncertainty, row.unit)


class LedgerView:
    """A ledger: evidence of every campaign, on SQLite or PostgreSQL.

        Ledger("sciagent.db").evidence(property="homo_lumo_gap").to_pandas()

    url: a file, or a URL such as postgresql://sciagent@db/sciagent; by default what SCIAGENT_LEDGER names, then
    ./sciagent.db. create: make a SQLite file that is not there. Raises UsageError where there is none.
    """

    def __init__(self, url: str | Path | None = None, *, create: bool = False) -> None:
        self.store = open_ledger(url, create)

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self.store.url.render_as_string()

    def campaigns(self) -> ResultTable[LedgerCampaign]:
        """All campaigns of the ledger, in the order they began."""
        with self.store.read() as connection:
            rows = [campaigns.get(connection, name) for name in campaigns.names(connection)]
            found = [
                LedgerCampaign(
                    row.name,
                    str(row.state),
                    queries.members(connection, row.id),
                    queries.hits(connection, row.id),
                    row.stop_reason,
                )
                for row in rows
            ]
        return ResultTable(found, "Campaigns", CAMPAIGNS)

    def campaign(self, name: str | None = None) -> Campaign:
        """A campaign of the ledger; the name may be left out if there is only one. Raises UnknownNameError."""
        from sciagent.api.campaign import Campaign

        return Campaign.open(name, ledger=self)

    def evidence(
        self,
        property: str | None = None,
        *,
        campaign: str | None = None,
        verifier: str | None = None,
        key: str | None = None,
    ) -> ResultQuery[LedgerValue]:
        """Every value with its unit, uncertainty, level and origin, in the order they came.

        campaign: values of its candidates, whoever paid for them. verifier: `import` finds values from files.
        key: of one candidate. Raises UnknownNameError for a property or campaign that the ledger does not have.
        """
        wanted = ValueFilter(property, campaign, verifier, key)
        with self.store.read() as connection:
            values.check(connection, wanted)
        return ResultQuery(
            f"Evidence in {Path(str(self.store.url.database)).name}",
            lambda: _pages(self.store, wanted),
            lambda: _count(self.store, wanted),
            lambda: _arrow(self.store, wanted),
            EVIDENCE,
        )

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def __enter__(self) -> LedgerView:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.url!r})\n{self.campaigns()!r}"

    def _repr_html_(self) -> str:
        return html.box(html.heading(f"Ledger {self.url}")) + self.campaigns()._repr_html_()


LedgerLike = str | Path | Ledger | LedgerView | None
"""What `ledger=` takes: a file, a URL, an open ledger, or None for the default."""


def _pages(store: Ledger, wanted: ValueFilter) -> Iterator[list[LedgerValue]]:
    """A read transaction each, so that a reader who stops half way holds nothing."""
    after = 0
    while True:
        with store.read() as connection:
            rows, after = values.page(connection, wanted, after)
        if not rows:
            return
        yield rows


def _count(store: Ledger, wanted: ValueFilter) -> int:
    with store.read() as connection:
        return values.count(connection, wanted)


@contextmanager
def _arrow(store: Ledger, wanted: ValueFilter) -> Iterator[ArrowRows]:
    import pyarrow as pa

    kinds = {
        "value": pa.float64(),
        "uncertainty": pa.float64(),
        "replicate": pa.int64(),
        "at": pa.timestamp("us", tz="UTC"),
    }
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in LedgerValue.__dataclass_fields__])
    with store.read() as connection:
        yield ArrowRows(schema, (vars(row) for page in values.all_pages(connection, wanted) for row in page))


def _evidence_html(rows: Sequence[LedgerValue]) -> str:
    heads = [
        ("", False),
        ("candidate", False),
        ("property", False),
        ("value", True),
        ("level", False),
        ("verifier", False),
        ("paid by", False),
        ("when", False),
    ]
    cells = [
        [
            html.structure(row.text),
            f"<code>{escape(row.text)}</code>",
            escape(row.property.replace("_", " ")),
            escape(_shown(row)),
            f'<span title="{escape(row.level)}">{escape(row.level.split("//")[0])}</span>',
            escape(f"{row.verifier} {row.version}"),
            escape(_paid_by(row)),
            row.at.strftime("%Y-%m-%d %H:%M"),
        ]
        for row in rows
    ]
    return html.box(html.rows_html(heads, cells) if cells else html.paragraph("no values", soft=True))


def _paid_by(row: LedgerValue) -> str:
    return row.campaign or (row.source.split(" sha256")[0] if row.verifier == IMPORT else "verify")


def _brief(row: LedgerValue) -> dict[str, object]:
    return {
        "candidate": row.text,
        "property": row.property,
        "value": _shown(row),
        "level": row.level.split("//")[0],
        "paid by": _paid_by(row),
    }


EVIDENCE = Layout[LedgerValue](asdict, _brief, _evidence_html)
CAMPAIGNS = Layout[LedgerCampaign](asdict, asdict, lambda rows: html.table([asdict(row) for row in rows], "Campaigns"))
