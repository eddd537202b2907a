"""Names of candidates from input files, on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from sqlalchemy.engine import Connection

from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.candidate_and_its_names_in_files import MISSING, Names
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support import rows


@dataclass
class Named:
    """Ethanol in a campaign; another campaign has ethanol, too."""

    ledger: Ledger
    ethanol: int
    """Ledger id."""
    campaign: int
    """Ledger id."""
    other: int
    """Ledger id of the other campaign."""

    def enter(self, campaign: int | None, *texts: Mapping[str, str]) -> None:
        with self.ledger.begin() as connection:
            candidates.enter_names(connection, campaign, [(self.ethanol, row) for row in texts])

    def names(self, *campaigns: int) -> Names:
        with self.ledger.read() as connection:
            return candidates.names_of(connection, [self.ethanol], campaigns or [self.campaign])[self.ethanol]

    def fields(self) -> list[str]:
        with self.ledger.read() as connection:
            return candidates.name_fields(connection, self.campaign)


@pytest.fixture
def named(ledger: Ledger) -> Named:
    with ledger.begin() as connection:
        campaign, other = (rows.campaign(connection, name).id for name in ("ours", "theirs"))
        ethanol = next(iter(candidates.enter(connection, [parse_molecule("CCO")]).values()))
        _join(connection, campaign, ethanol)
    return Named(ledger, ethanol, campaign, other)


def _join(connection: Connection, campaign: int, candidate: int) -> None:
    now = db_now(connection)
    row = {"campaign_id": campaign, "candidate_id": candidate, "seq": 0, "standing": "waiting", "position": 0}
    connection.execute(t.campaign_candidate.insert(), {**row, "created_at": now, "updated_at": now})


def found(named: Named, text: str, campaign: int | None = None) -> list[int]:
    with named.ledger.read() as connection:
        return [candidate.id for candidate in candidates.find(connection, text, campaign)]


def test_a_candidate_keeps_all_names_of_its_campaign_and_is_found_by_each(named: Named) -> None:
    named.enter(named.campaign, {"id": "A-1", "supplier": "Acme"}, {"id": "A-9"})
    named.enter(named.campaign, {"id": "A-1", "remark": ""})
    named.enter(named.other, {"id": "secret"})
    for _ in range(2):
        named.enter(None, {"code": "M-3"})
    assert named.names() == {"id": ("A-1", "A-9"), "supplier": ("Acme", MISSING), "imported.code": ("M-3",)}
    assert named.fields() == ["id", "supplier", "imported.code"]
    for text in ("A-9", "M-3"):
        assert found(named, text) == [named.ethanol]


def test_the_columns_of_merged_rows_stay_together(named: Named) -> None:
    named.enter(named.campaign, {"id": "A1", "price": "10"}, {"id": "A2", "price": ""}, {"id": "A3", "price": "10"})
    assert named.names() == {"id": ("A1", "A2", "A3"), "price": ("10", MISSING, "10")}


def test_later_rows_are_appended_and_known_ones_are_not_stored_again(named: Named) -> None:
    first = {"id": "A1", "price": "10"}
    named.enter(named.campaign, first)
    for _ in range(2):  # a campaign that is resumed reads the file again
        named.enter(named.campaign, {"price": "10", "id": "A1"}, {"id": "A4", "price": "7"})
    assert named.names() == {"id": ("A1", "A4"), "price": ("10", "7")}
    named.enter(named.other, first, {"id": "B1", "solvent": "water"})
    assert named.names(named.campaign, named.other) == {
        "id": ("A1", "A4", "B1"), "price": ("10", "7", MISSING), "solvent": (MISSING, MISSING, "water")
    }  # fmt: skip


def test_names_of_files_with_values_are_remarks_unless_the_campaign_has_them(named: Named) -> None:
    named.enter(None, {"id": "A1"}, {"id": "77"}, {"id": "A1", "batch": "3"}, {"id": "A1", "price": "10"})
    assert named.names() == {
        "imported.id": ("77", "A1", "A1"),
        "imported.batch": (MISSING, "3", MISSING),
        "imported.price": (MISSING, MISSING, "10"),
    }
    named.enter(named.campaign, {"id": "A1", "price": "10"})
    ours = {"id": ("A1",), "price": ("10",)}
    assert named.names() == {**ours, "imported.id": ("77", "A1"), "imported.batch": (MISSING, "3")}
    assert named.fields() == ["id", "price", "imported.id", "imported.batch"]


@pytest.mark.parametrize("again", [{"id": "A1"}, {"id": "A1", "price": "10"}, {"sample": "A1"}])
def test_an_import_that_only_repeats_a_name_adds_no_column(named: Named, again: Mapping[str, str]) -> None:
    named.enter(named.campaign, {"id": "A1", "price": "10"})
    named.enter(None, again)
    assert named.names() == {"id": ("A1",), "price": ("10",)} and named.fields() == ["id", "price"]
    named.enter(None, {"batch": "3", "place": "9"})
    assert named.fields() == ["id", "price", "imported.batch", "imported.place"]


def test_the_name_in_the_campaigns_file_is_found_before_the_same_text_elsewhere(named: Named) -> None:
    with named.ledger.begin() as connection:
        ethane = next(iter(candidates.enter(connection, [parse_molecule("CC")]).values()))
        candidates.enter_names(connection, None, [(ethane, {"id": "A1"})])
        assert [match.id for match in candidates.find(connection, "A1")] == [ethane]
    named.enter(named.campaign, {"id": "A1"})
    assert found(named, "A1") == found(named, "A1", named.campaign) == [named.ethanol]
    assert set(found(named, "A1", named.other)) == {named.ethanol, ethane}


def test_a_name_is_found_without_regard_to_capitals_and_the_same_capitals_go_first(named: Named) -> None:
    named.enter(named.campaign, {"id": "Spirit of Wine"})
    assert found(named, "spirit of WINE") == found(named, "Spirit of Wine", named.campaign) == [named.ethanol]
    with named.ledger.begin() as connection:
        ethane = next(iter(candidates.enter(connection, [parse_molecule("CC")]).values()))
        candidates.enter_names(connection, named.campaign, [(ethane, {"id": "SPIRIT of wine"})])
    assert found(named, "SPIRIT of wine") == [ethane]
    assert found(named, "Spirit of Wine") == [named.ethanol]
    assert set(found(named, "spirit of wine", named.campaign)) == {named.ethanol, ethane}
