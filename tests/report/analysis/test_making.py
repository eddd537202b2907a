"""Whether the best can be made, from what the rungs measured."""

from __future__ import annotations

from pathlib import Path

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.report.analysis.making import synthesis
from sciagent.report.parts.candidates import cards
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from tests.support.reported import Maker, dyes


def answered(made: Maker, *values: tuple[int, str, float]) -> tuple[str, list[str]]:
    for i, name, value in values:
        made.answer(i, 0, Measured(name, Level("RDKit"), Quantity(value, "1", 0.0)), job=False)
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        return synthesis(cards(connection, made.row, ladder, made.ledger.artifacts, 12))


def test_without_a_rung_that_looks_at_it_the_report_says_so(told: Maker) -> None:
    figure, lines = answered(told)
    assert figure == "not asked" and "molecule.synthesis" in lines[-1]


def test_scores_and_routes_of_the_hits_are_summed_up(own_ledger: Ledger, tmp_path: Path) -> None:
    made = dyes(own_ledger, tmp_path)
    first = [(0, "sa_score", 1.52), (2, "sa_score", 3.0), (1, "sa_score", 9.0)]  # the last one is no hit
    assert answered(made, *first)[0] == "SA score 1.5 to 3.0"
    figure, lines = answered(made, (0, "synthesis_steps", 2.0), (2, "purchasable", 1.0))
    assert figure == "1 of 2 hits with a route"
    assert "The shortest route has 2 steps." in lines
    assert "1 of 1 is in the file of what can be bought." in lines
