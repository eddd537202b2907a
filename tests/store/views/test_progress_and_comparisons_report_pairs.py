"""Pairs of values that two rungs, or a file and a rung, know of the same candidates."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views.progress_and_comparisons import replicate_pairs
from sciagent.store.views.report_queries import has_measured
from tests.support import rows
from tests.support.reported import HIGH, LOW, Maker, dyes


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Maker:
    return dyes(ledger, tmp_path)


def test_pairs_are_those_that_both_rungs_measured(made: Maker) -> None:
    with made.ledger.read() as connection:
        _, low, high = campaigns.rungs(connection, made.row.id)
        found = list(replicate_pairs(connection, made.row, low, high, "homo_lumo_gap"))
        assert has_measured(connection, low, "homo_lumo_gap")
        assert not has_measured(connection, low, "dipole")
    values = [(x.values[0][0], y.values[0][0]) for x, y, _ in found]
    assert sorted(values) == sorted(zip(LOW, HIGH, strict=False))
    assert sum(hit for *_, hit in found) == 2 and not any(x.is_censored or y.is_censored for x, y, _ in found)
    assert [y.values for _, y, _ in found if y.values[0][0] == 4.55] == [[(4.55, None)]]


def test_pairs_use_the_revision_that_stands(made: Maker) -> None:
    from sciagent.store.results import evidence
    from tests.support.reported import PBE0, gap

    with made.ledger.begin() as connection:
        e = t.evidence.c
        old = connection.execute(
            sa.select(e.id).where(e.candidate_id == made.ids[0], e.verifier == "toy2")
        ).scalar_one()
        revised = rows.new_evidence(
            made.ids[0], gap(4.2, PBE0), verifier="toy2", subject="0", revision=1, supersedes=old, why="a finer grid"
        )
        evidence.record(connection, [revised])
        _, low, high = campaigns.rungs(connection, made.row.id)
        found = list(replicate_pairs(connection, made.row, low, high, "homo_lumo_gap"))
    values = [y.values[0][0] for _, y, _ in found]
    assert len(found) == 5 and 4.2 in values and 4.3 not in values
