"""The class `LedgerView`, the ledger of notebooks: its campaigns and all of its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy.engine import Connection

from sciagent.api import html
from sciagent.api.tables import ResultQuery, ResultTable
from sciagent.domain.evidence import file_of
from sciagent.domain.quantities import Censoring, show
from sciagent.errors import UsageError
from sciagent.inputs import settings
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import ledger_url
from sciagent.store.database.ledger import Ledger
from sciagent.store.results.evidence import IMPORT
from sciagent.store.views import campaign_counts, values
from sciagent.store.views.values import LedgerValue, ValueFilter

if TYPE_CHECKING:
    from sciagent.api.campaign import Campaign
    from sciagent.domain.answers.evaluation import ListedPolicy, ShownPolicy
    from sciagent.domain.answers.guards import ShownGuards
    from sciagent.domain.answers.values import CalculatedCandidate
    from sciagent.report.export.parquet import ArrowRows


def open_ledger(given: LedgerLike = None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """Opens a ledger by path or URL, by default SCIAGENT_LEDGER or ./sciagent.db; returns an open ledger unchanged.

    create: whether a missing SQLite file is created. idle_seconds: longest idle time of a transaction on PostgreSQL.
    Raises UsageError if the file does not exist.
    """
    if isinstance(given, Ledger):
        return given
    if isinstance(given, LedgerView):
        return given.store
    address = settings.ledger_address(None if given is None else str(given))
    place = ledger_url(address)
    if not create and place.get_backend_name() == "sqlite" and not Path(str(place.database)).exists():
        raise UsageError(f"no ledger at {place.database}; name it with --ledger, or start with: sciagent run FILE")
    return Ledger(address, settings.path("SCIAGENT_ARTIFACTS"), idle_seconds)


def pick_campaign(connection: Connection, name: str | None) -> campaigns.CampaignRow:
    """Returns the campaign of that name; without a name, the only campaign. Raises UnknownNameError or UsageError."""
    if name is not None:
        return campaigns.get(connection, name)
    names = campaigns.names(connection)
    if len(names) != 1:
        raise UsageError(f"name a campaign; this ledger has: {', '.join(names) or 'none'}")
    return campaigns.get(connection, names[0])


@dataclass(frozen=True)
class LedgerCampaign:
    """A line of the list of campaigns."""

    name: str
    """Name of the campaign, unique in the ledger."""
    state: str
    """`created`, `running`, `paused`, `interrupted`, `finished`, `budget_spent` or `failed`."""
    candidates: int
    """Number of candidates."""
    hits: int
    """Number of hits."""
    stop_reason: str | None
    """Reason why the campaign ended."""


class LedgerView:
    """A ledger on SQLite or PostgreSQL, with the evidence of all its campaigns.

        Ledger("sciagent.db").evidence(property="homo_lumo_gap").to_pandas()

    url: a file, or a URL such as postgresql://sciagent@db/sciagent; by default SCIAGENT_LEDGER, then ./sciagent.db.
    create: whether a missing SQLite file is created. Raises UsageError if the file does not exist.
    """

    def __init__(self, url: LedgerLike = None, *, create: bool = False) -> None:
        self.store = open_ledger(url, create)

    @property
    def url(self) -> str:
        """URL of the ledger, without a password."""
        return self.store.url.render_as_string()

    def campaigns(self) -> ResultTable[LedgerCampaign]:
        """Returns all campaigns of the ledger, in the order of their start."""
        n, hits = campaign_counts.members, campaign_counts.hits
        with self.store.read() as connection:
            rows = [campaigns.get(connection, name) for name in campaigns.names(connection)]
            listed = [
                LedgerCampaign(row.name, row.state, n(connection, row.id), hits(connection, row.id), row.stop_reason)
                for row in rows
            ]
        return ResultTable(listed, "Campaigns")

    def campaign(self, name: str | None = None) -> Campaign:
        """Returns a campaign of the ledger; without a name, the only campaign. Raises UnknownNameError."""
        from sciagent.api.campaign import Campaign

        return Campaign.open(name, ledger=self)

    def policies(self) -> ResultTable[ListedPolicy]:
        """Returns the policies of the ledger, oldest first, with their parents and roles."""
        from sciagent.training.evaluation.policies import listed

        return ResultTable(listed(self.store), "Policies")

    def policy(self, name: str) -> ShownPolicy:
        """Returns what the ledger knows of a policy: parents, recipe, evaluations, rewards and roles.

        name: of a policy, with its hash or without, or a role. Raises UnknownNameError.
        """
        from sciagent.training.evaluation.policies import show

        return show(self.store, name)

    def guards(self, version: int) -> ShownGuards:
        """Returns, by policy, whether the rewards of a version are exploited. Raises UnknownNameError."""
        from sciagent.campaign.rewarding.guarding import show_guards

        return show_guards(self.store, version)

    def evidence(
        self,
        property: str | None = None,
        *,
        campaign: str | None = None,
        verifier: str | None = None,
        key: str | None = None,
    ) -> ResultQuery[LedgerValue]:
        """Returns a query of all values with unit, uncertainty, level and origin, oldest first.

        campaign: only values of its candidates, also if another campaign paid. verifier: only values of this verifier;
        `import` for values from files. key: only values of this candidate. Raises UnknownNameError for a property or
        campaign that the ledger does not have.
        """
        wanted = ValueFilter(property, campaign, verifier, key)
        with self.store.read() as connection:
            values.check(connection, wanted)
        return ResultQuery(
            f"Evidence in {Path(str(self.store.url.database)).name}",
            self.store,
            lambda connection, after: values.page(connection, wanted, after or 0),
            lambda connection: values.count(connection, wanted),
            lambda connection: _arrow(connection, wanted),
            _brief,
        )

    def calc(self, verifier: str, smiles: str | Iterable[str] = (), **more: Any) -> ResultTable[CalculatedCandidate]:
        """Runs one verifier on molecules; known evidence is reused. more: the arguments of `sciagent.calc`."""
        from sciagent.api.calculating import calc

        return calc(verifier, smiles, ledger=self, **more)

    def close(self) -> None:
        """Closes the connections to the database."""
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
"""The type of `ledger=`: a file, a URL, an open ledger, or None for the default."""


def _arrow(connection: Connection, wanted: ValueFilter) -> ArrowRows:
    import pyarrow as pa

    from sciagent.report.export.parquet import ArrowRows

    numbers = dict.fromkeys(("value", "uncertainty"), pa.float64())
    kinds = numbers | {"replicate": pa.int64(), "at": pa.timestamp("us", tz="UTC")}
    schema = pa.schema([pa.field(name, kinds.get(name, pa.string())) for name in LedgerValue.__dataclass_fields__])
    return ArrowRows(schema, (vars(row) for page in values.all_pages(connection, wanted) for row in page))


def _brief(row: LedgerValue) -> Mapping[str, Any]:
    paid_by = row.campaign or (file_of(row.source) if row.verifier == IMPORT else "verify")
    return {
        "candidate": row.text,
        "property": row.property,
        "value": Censoring(row.censoring).sign + show(row.value, row.uncertainty, row.unit),
        "level": row.level.split("//")[0],
        "paid by": paid_by,
    }
