"""What a report says of single candidates: lineage and imported values."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.store.views.report_candidates import candidates_in_order, imported_answers, origin_of
from tests.support.reported import Maker, dyes


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Maker:
    return dyes(ledger, tmp_path)


def test_lineage_goes_back_four_generations_and_no_further(made: Maker) -> None:
    with made.ledger.read() as connection:
        last = candidates_in_order(connection, made.row, 10, 1)[0]
        origin = origin_of(connection, last)
    assert (origin.proposer, origin.turn, origin.rationale) == ("evolve", 3, "conjugation lowers the gap")
    assert len(origin.parents) == 4 and origin.parents[0][0][0] == "add_atom"


def test_imported_values_are_found_by_candidate(made: Maker) -> None:
    with made.ledger.read() as connection:
        found = imported_answers(connection, made.ids)
    assert list(found) == [made.ids[0]] and found[made.ids[0]][0].measured[0].quantity.as_typed == "4.40"
