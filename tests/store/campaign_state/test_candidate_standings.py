"""Where candidates stand: order, bounds, and what is still undecided."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import Standing
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from tests.support import rows
from tests.support.query_plans import plan_of, scans
from tests.support.worths import worth_columns

EXPECTED = (0.2, None, 0.9, 0.9, None, 0.5)


@pytest.fixture
def ids(ledger: Ledger, row: CampaignRow) -> list[int]:
    """Six candidates, open at rung 1, with EXPECTED."""
    with ledger.begin() as connection:
        found = rows.entered(connection, row, len(EXPECTED), position=1, depth=0)
        for id_, expected in zip(found, EXPECTED, strict=True):
            candidate_standings.update(connection, row.id, id_, **worth_columns(expected))
    return found


def test_members_keep_the_order_they_came_in(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    with ledger.begin() as connection:
        assert candidate_standings.members(connection, row.id, [*ids, 10**6]) == set(ids)
        assert candidate_standings.members(connection, row.id + 1, ids) == set()
        assert [candidate_standings.get(connection, row.id, i)["seq"] for i in ids] == list(range(6))
        assert candidate_standings.get(connection, row.id, 10**6) is None
        candidate_standings.add(connection, row.id, [])


def test_one_candidate_stands_in_several_campaigns(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    with ledger.begin() as connection:
        other = rows.campaign(connection, "other")
        assert rows.entered(connection, other, 6) == ids
        candidate_standings.update(connection, other.id, ids[0], standing=Standing.DROPPED)
        assert candidate_standings.get(connection, row.id, ids[0])["standing"] == Standing.OPEN
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            candidate_standings.add(connection, row.id, [{"candidate_id": ids[0], "in_seeds": False}])


def test_who_waits_is_listed_best_first(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    a, b, c, d, e, f = ids
    best_first = [c, d, f, a, b, e]  # equal worths and no worth: first come first
    with ledger.begin() as connection:
        for n in (0, 1, 3, 5, 6, 100):
            assert candidate_standings.waiting_candidates(connection, row.id, 1, n) == best_first[:n]
        candidate_standings.update(connection, row.id, c, standing=Standing.PENDING)
        candidate_standings.update(connection, row.id, f, position=2)
        assert candidate_standings.waiting_candidates(connection, row.id, 1, 9) == [d, a, b, e]
        assert candidate_standings.waiting_candidates(connection, row.id, 0, 9) == []


def test_the_best_have_a_worth(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    with ledger.begin() as connection:
        found = candidate_standings.best_with_worth(connection, row.id, 3)
        assert [(r["candidate_id"], r["expected_utility"]) for r in found] == [
            (ids[2], 0.9),
            (ids[3], 0.9),
            (ids[5], 0.5),
        ]
        assert (found[0]["key"], found[0]["text"], found[0]["seq"]) == (rows.alkanes(3)[2].key, "CCC", 2)
        assert len(candidate_standings.best_with_worth(connection, row.id, 100)) == 4, (
            "without a worth nobody is among the best"
        )
        candidate_standings.update(connection, row.id, ids[0], **worth_columns(0.2, hit=True))
        candidate_standings.update(connection, row.id, ids[2], **worth_columns(0.9, hit=False))
        candidate_standings.update(connection, row.id, ids[3], margin=-1.0)
        candidate_standings.update(connection, row.id, ids[5], expected_utility=0.9)
        found = candidate_standings.best_with_worth(connection, row.id, 4)
        hit, open_and_inside, open_and_outside, miss = [r["candidate_id"] for r in found]
        assert (hit, open_and_inside, open_and_outside, miss) == (ids[0], ids[5], ids[3], ids[2])


def test_counting_stops_where_it_is_told(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    with ledger.begin() as connection:
        candidate_standings.update(connection, row.id, ids[0], standing=Standing.PENDING)
        candidate_standings.update(connection, row.id, ids[1], standing=Standing.DROPPED)
        candidate_standings.update(connection, row.id, ids[2], position=2)
        for positions, at_most, n in (
            ([1], 100, 4),
            ([1, 2], 100, 5),
            ([1, 2], 3, 3),
            ([2], 100, 1),
            ([], 9, 0),
            ([1], 0, 0),
        ):
            assert candidate_standings.count_at(connection, row.id, positions, at_most) == n


def test_the_same_is_written_of_several_and_of_nobody_else(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    with ledger.begin() as connection:
        candidate_standings.update_alike(connection, row.id, ids[:3], standing=Standing.PENDING, position=2)
        candidate_standings.update_alike(connection, row.id, [], standing=Standing.DROPPED)
        found = {
            one.candidate_id: (one.standing, one.position)
            for one in candidate_standings.standings_of(connection, row.id, ids)
        }
    assert [found[id_] for id_ in ids[:3]] == [(Standing.PENDING, 2)] * 3
    assert not any(found[id_] == (Standing.PENDING, 2) for id_ in ids[3:])


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_a_rung_has_answered_is_read_by_an_index(ledger: Ledger, row: CampaignRow, ids: list[int]) -> None:
    ended = {ids[0]: (Standing.SETTLED, 1, 1), ids[1]: (Standing.DROPPED, 1, 1), ids[2]: (Standing.OPEN, 2, 1)}
    with ledger.begin() as connection:
        for id_, (standing, position, depth) in ended.items():
            candidate_standings.update(connection, row.id, id_, standing=standing, position=position, depth=depth)
        answered = dict(candidate_standings.answered_keys(connection, row.id, 1))
        latest = candidate_standings.latest_ended(connection, row.id, 1, 5)
        assert candidate_standings.latest_ended(connection, row.id, 1, 1) == [1]
        assert not list(candidate_standings.answered_keys(connection, row.id + 1, 1))
    assert set(answered) == set(ended) and all(len(key) == 64 for key in answered.values())
    assert latest == [1, 0], "those that wait for another rung have not ended"

    def ask(connection: sa.Connection) -> None:
        list(candidate_standings.answered_keys(connection, row.id, 1))
        candidate_standings.latest_ended(connection, row.id, 1, 5)

    plan = plan_of(ledger, ask)
    assert not scans(plan) and any("ix_campaign_candidate_places" in line for line in plan)
    assert sum("ix_campaign_candidate_open" in line for line in plan) == 2 and not any("TEMP" in line for line in plan)
