"""Whether the best can be made, from what the rungs measured."""

from __future__ import annotations

from pathlib import Path

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.report.analysis.summary import synthesis
from sciagent.report.parts.best_candidate_cards_and_table import cards
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from tests.support.reported import Maker


def answered(made: Maker) -> tuple[str, list[str]]:
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        return synthesis(cards(connection, made.row, ladder, made.ledger.artifacts, 12))


def two_hits(ledger: Ledger, folder: Path, *values: dict[str, float]) -> Maker:
    """Three molecules with these values of properties; the third is no hit."""
    made = Maker(ledger, folder)
    made.enter(("CCO", "CCN", "CCF"))
    for i, own in enumerate(values):
        made.answer(i, 0, *(Measured(name, Level("RDKit"), Quantity(x, "1", 0.0)) for name, x in own.items()))
        made.place(i, Standing.SETTLED, 2, depth=2, expected=0.5, utility=0.5, is_hit=i < 2)
    return made


def test_without_a_rung_that_looks_at_it_the_report_says_so(told: Maker) -> None:
    figure, lines = answered(told)
    assert figure == "not asked" and "molecule.synthesis" in lines[-1]


def test_the_scores_of_the_hits_are_summed_up(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_hits(own_ledger, tmp_path, {"sa_score": 1.52}, {"sa_score": 3.0}, {"sa_score": 9.0})
    assert answered(made)[0] == "SA score 1.5 to 3.0"


def test_routes_and_purchases_of_the_hits_are_counted(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_hits(own_ledger, tmp_path, {"synthesis_steps": 2.0}, {"purchasable": 1.0}, {"purchasable": 1.0})
    figure, lines = answered(made)
    assert figure == "1 of 2 hits with a route" and "The shortest route has 2 steps." in lines
    assert "1 of 1 is in the file of what can be bought." in lines
