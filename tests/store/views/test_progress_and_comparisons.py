"""Hits and utility against cost: they rise with the booked cost, end where the campaign stands, and stay short."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import progress_and_comparisons as views
from sciagent.store.views.report_episodes_and_proposers import results_by_proposer
from tests.support.reported import Maker, dyes
from tests.support.talked import Talker, talked


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Maker:
    return dyes(ledger, tmp_path)


@pytest.fixture
def talk(ledger: Ledger, tmp_path: Path) -> Talker:
    return talked(ledger, tmp_path, episodes=4)


def last_rung(connection: Any, row: Any) -> Any:
    return campaigns.rungs(connection, row.id)[-1]


def test_hits_and_utility_rise_with_the_cost_of_their_answers(made: Maker) -> None:
    with made.ledger.read() as connection:
        terminal = campaigns.rungs(connection, made.row.id)[2]
        steps = views.progress(connection, made.row, terminal).steps
    fast_and_xtb = 12 * 0.01 + 9 * 2.0
    assert [(s.hits, s.utility) for s in steps] == [(0, None), (1, 0.9), (2, 0.9), (2, 0.9)]
    assert [s.costs.get("core_seconds", 0.0) for s in steps] == pytest.approx(
        [0, fast_and_xtb + 60, fast_and_xtb + 60 + 61 + 62, fast_and_xtb + sum(60 + i for i in range(5)) + 50]
    )


def test_a_long_curve_is_thinned_and_keeps_its_end(made: Maker) -> None:
    with made.ledger.read() as connection:
        terminal = campaigns.rungs(connection, made.row.id)[2]
        whole = views.progress(connection, made.row, terminal).steps
        thin = views.progress(connection, made.row, terminal, points=1).steps
    assert len(thin) <= 4 and thin[0] == whole[0] and thin[-1] == whole[-1]


def test_lines_end_at_what_each_cost_and_found(talk: Talker) -> None:
    with talk.ledger.read() as connection:
        found = views.progress_by_proposer(connection, talk.row, last_rung(connection, talk.row))
        whole = {one.proposer: one for one in results_by_proposer(connection, talk.row, 1)}
    assert set(found) == {"alpha", "beta", "evolve"}
    assert found["alpha"][-1].costs["core_seconds"] == pytest.approx(4 * 62.0 + 2.0)
    for who, steps in found.items():
        assert steps[-1].hits == whole[who].hits and steps[-1].utility == whole[who].utility
        assert all(
            a.costs.get("core_seconds", 0) <= b.costs["core_seconds"] and a.hits <= b.hits for a, b in pairwise(steps)
        )


def test_a_line_stays_short_however_much_was_found(talk: Talker) -> None:
    with talk.ledger.read() as connection:
        found = views.progress_by_proposer(connection, talk.row, last_rung(connection, talk.row), points=1)
    assert max(map(len, found.values())) <= 4 and found["alpha"][-1].hits == 3
