"""A campaign's best candidates: their order, their chance of being a hit, and which values are shown."""

from __future__ import annotations

import json

import pytest

from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from tests.support import rows


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    return rows.campaign_at_every_place(ledger)


def test_best(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        found = best(connection, row, 10)
        assert best(connection, row, 2) == found[:2] and best(connection, row, 0) == []
    assert all(json.loads(json.dumps(plain(candidate)))["key"] == candidate.key for candidate in found)
    # hits first, then what may still be one, then misses, each by expected utility; one without a worth comes last
    assert [candidate.smiles for candidate in found] == ["CC", "C", "CCCCCC", "CCC", "CCCC", "CCCCC"]
    assert [candidate.hit for candidate in found] == [True, True, False, False, False, False]
    assert [candidate.p_hit for candidate in found] == [1.0, 1.0, 0.5, 0.0, 0.0, None]
    assert [candidate.verified for candidate in found] == [True, True, False, True, False, False]


def test_best_shows_the_highest_rung_that_measured(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.read() as connection:
        shown = best(connection, row, 1)[0].values
    assert {name: plain(value) for name, value in shown.items()} == {
        "homo_lumo_gap": {
            "value": 3.5,
            "unit": "eV",
            "uncertainty": 0.1,
            "level": "PBE0/def2-SVP//GFN2-xTB",
            "uncertainty_kind": None,
            "isomer": None,
            "rung": "r2",
        }
    }
