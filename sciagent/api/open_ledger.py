"""Opens a ledger by its path, URL or object, and picks a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from sqlalchemy.engine import Connection

from sciagent.errors import UsageError
from sciagent.inputs import environment_variables
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import ledger_url
from sciagent.store.database.ledger import Ledger


@runtime_checkable
class HasStore(Protocol):
    """An object that holds an open ledger, such as `sciagent.Ledger`."""

    @property
    def store(self) -> Ledger: ...


LedgerLike = str | Path | Ledger | HasStore | None
"""The type of `ledger=`: a file, a URL, an open ledger, or None for the default."""


def open_ledger(given: LedgerLike = None, create: bool = False, idle_seconds: float | None = None) -> Ledger:
    """Opens a ledger by path or URL, by default SCIAGENT_LEDGER or ./sciagent.db; returns an open ledger unchanged.

    create: whether a missing SQLite file is created. idle_seconds: longest idle time of a transaction on PostgreSQL.
    Raises UsageError if the file does not exist.
    """
    if isinstance(given, Ledger):
        return given
    if isinstance(given, HasStore):
        return given.store
    address = environment_variables.ledger_address(None if given is None else str(given))
    url = ledger_url(address)
    is_missing = url.get_backend_name() == "sqlite" and not Path(str(url.database)).exists()
    if is_missing and not create:
        raise UsageError(f"no ledger at {url.database}; name it with --ledger, or start with: sciagent run FILE")
    return Ledger(address, environment_variables.path("SCIAGENT_ARTIFACTS"), idle_seconds)


def pick_campaign(connection: Connection, name: str | None) -> campaigns.CampaignRow:
    """Returns the campaign of that name; without a name, the only campaign. Raises UnknownNameError or UsageError."""
    if name is not None:
        return campaigns.get(connection, name)
    names = campaigns.names(connection)
    if len(names) != 1:
        raise UsageError(f"name a campaign; this ledger has: {', '.join(names) or 'none'}")
    return campaigns.get(connection, names[0])
