"""Every value of a ledger, in pages, on both databases."""

from __future__ import annotations

import pytest

from sciagent.errors import UnknownNameError
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from sciagent.store.views import property_value_pages
from sciagent.store.views.property_value_pages import ValueFilter
from tests.support.query_plans import plan_of, scans
from tests.support.rows import alkanes, gap, new_evidence


@pytest.fixture
def filled(ledger: Ledger) -> Ledger:
    """Five alkanes with a gap each."""
    molecules = alkanes(5)
    with ledger.begin() as connection:
        ids = candidates.enter(connection, molecules)
        for n, one in enumerate(molecules):
            evidence.record_once(connection, [new_evidence(ids[one.key], gap(float(n)), subject=one.key)])
    return ledger


def test_pages_follow_each_other_without_a_gap(filled: Ledger) -> None:
    with filled.read() as connection:
        first, cursor = property_value_pages.page(connection, ValueFilter(), n=2)
        second, cursor = property_value_pages.page(connection, ValueFilter(), cursor, n=2)
        third, cursor = property_value_pages.page(connection, ValueFilter(), cursor, n=2)
        assert [row.value for row in [*first, *second, *third]] == [0, 1, 2, 3, 4]
        assert property_value_pages.page(connection, ValueFilter(), cursor, n=2) == ([], cursor)


def test_a_filter_finds_what_it_names(filled: Ledger) -> None:
    with filled.read() as connection:
        [first], _ = property_value_pages.page(connection, ValueFilter(), n=1)
        [same], _ = property_value_pages.page(connection, ValueFilter(property=first.property, key=first.key))
        assert same == first
        assert property_value_pages.count(connection, ValueFilter(verifier="nobody")) == 0
        with pytest.raises(UnknownNameError):
            property_value_pages.require_known_names(connection, ValueFilter(campaign="nobody"))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_no_table_is_read_whole_for_a_page(filled: Ledger) -> None:
    for wanted in (ValueFilter(property="homo_lumo_gap"), ValueFilter(verifier="import"), ValueFilter(campaign="x")):
        plan = plan_of(filled, lambda connection, wanted=wanted: property_value_pages.page(connection, wanted, 3, 10))
        assert scans(plan) == []
