"""Law entries: versions of a name, those that campaigns use, and what may be removed."""

from __future__ import annotations

import pytest

from sciagent.errors import LedgerError, UnknownNameError, UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import law_entries
from sciagent.store.learning.law_entries import NewEntry
from tests.support import rows


def entry(name: str, digit: str) -> NewEntry:
    return NewEntry(name, digit * 64, "molecule", {"quantities": []}, f"rows {digit}", "anna")


def test_the_newest_version_of_a_name_counts_and_knows_the_one_before(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        first = law_entries.enter(connection, entry("gaps", "a"))
        second = law_entries.enter(connection, entry("gaps", "b"))
        law_entries.enter(connection, entry("dipoles", "a"))
        assert law_entries.enter(connection, entry("gaps", "a")) == first, "it is written once"
        assert second.parent_hash == first.hash and first.parent_hash is None
        assert law_entries.find(connection, "gaps") == second
        assert law_entries.find(connection, "gaps@aaaa") == first and first.version == "gaps@aaaaaaaa"
        assert [row.version for row in law_entries.rows(connection)] == [
            "gaps@aaaaaaaa", "gaps@bbbbbbbb", "dipoles@aaaaaaaa",
        ]  # fmt: skip
        assert law_entries.content(connection, second.id) == "rows b"
        for unknown in ("gap", "gaps@c"):
            with pytest.raises(UnknownNameError):
                law_entries.find(connection, unknown)
        law_entries.enter(connection, entry("gaps", "b")._replace(hash="bc" + "b" * 62))
        with pytest.raises(UsageError, match="may be gaps@b"):
            law_entries.find(connection, "gaps@b")


def test_a_campaign_keeps_its_version_which_cannot_be_removed(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign = rows.campaign(connection)
        first = law_entries.enter(connection, entry("gaps", "a"))
        law_entries.pin(connection, campaign.id, "gaps", first)
        second = law_entries.enter(connection, entry("gaps", "b"))
        law_entries.pin(connection, campaign.id, "gaps", second)
        assert law_entries.pinned(connection, campaign.id, "gaps") == first
        assert law_entries.users(connection, first.id) == [campaign.name]
        with pytest.raises(LedgerError, match='no version of the law "dipoles"'):
            law_entries.pinned(connection, campaign.id, "dipoles")
        with pytest.raises(UsageError, match="is used by"):
            law_entries.remove(connection, first)
        law_entries.remove(connection, second)
        assert [row.hash for row in law_entries.rows(connection)] == [first.hash]


def test_changed_content_is_found(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        row = law_entries.enter(connection, entry("gaps", "a"))
    law_entries.require_hash(row, "a" * 64)
    with pytest.raises(LedgerError, match="content of gaps@aaaaaaaa has been changed"):
        law_entries.require_hash(row, "c" * 64)
