"""The charts of the objectives of a campaign: which rungs they show, in which unit, with which limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.report.analysis.distributions_and_front import objective_charts, thinned
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.views.progress_and_comparisons import ObjectiveValues, objective_values
from tests.support.pages import Parsed, rendered
from tests.support.reported import GFN2, Maker, gap

GAP = {"property": "homo_lumo_gap", "direction": "window", "unit": "eV", "accept": [4, 4.6], "ramp": None, "weight": 1}
DIPOLE = {"property": "dipole", "direction": "limit", "unit": "D", "accept": [None, 2], "ramp": None, "weight": 1}


def two_objectives(ledger: Ledger, folder: Path, **changed: object) -> Maker:
    """Four molecules with gap and dipole at two rungs: a hit, two verified, one open."""
    made = Maker(ledger, folder, objectives=[GAP, DIPOLE], **changed)
    made.enter(("CCO", "CCN", "CCF", "CCCl"))
    for i in range(4):
        dipole = Measured("dipole", GFN2, Quantity(1.0 + i, "D", 0.1))
        made.answer(i, 1, gap(2.0 + i / 10, GFN2), dipole)
        if i < 3:
            made.answer(i, 2, gap(4.0 + i, GFN2), dipole)
        settled = {"verdict": "pass", "is_hit": i == 0, "utility": 0.5}
        more = settled if i < 3 else {}
        made.place(i, Standing.SETTLED if i < 3 else Standing.OPEN, 2, depth=2 if i < 3 else 1, expected=0.5, **more)
    with ledger.begin() as connection:
        candidates.enter_names(
            connection, made.row.id, [(made.ids[0], {"id": "CPD-1"}), (made.ids[0], {"id": "CPD-9"})]
        )
    return made


def test_a_chart_for_each_objective_at_the_terminal_rung_and_the_one_below(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_objectives(own_ledger, tmp_path)
    with made.ledger.read() as connection:
        charts = objective_charts(connection, made.row, campaigns.rungs(connection, made.row.id))
    assert [(c.rung, c.title, c.n) for c in charts.distributions] == [
        ("r2", "HOMO-LUMO gap", 3),
        ("r2", "dipole moment", 3),
        ("r1", "HOMO-LUMO gap", 4),
        ("r1", "dipole moment", 4),
    ]
    assert [(c.rung, c.n) for c in charts.fronts] == [("r2", 3), ("r1", 4)]
    assert "CCO (CPD-1; CPD-9): 4, 1" in charts.fronts[0].chart and "CCCl: 2.3, 4" in charts.fronts[1].chart


def test_values_are_in_the_unit_that_the_campaign_chose(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_objectives(own_ledger, tmp_path, units={"homo_lumo_gap": "meV"})
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        found = objective_values(connection, made.row, ladder[2], ["homo_lumo_gap"])
        [first, *_] = objective_charts(connection, made.row, ladder).distributions
    assert [(round(f.values["homo_lumo_gap"]), f.kind) for f in found] == [
        (4000, "hit"),
        (5000, "verified"),
        (6000, "verified"),
    ]
    assert "HOMO-LUMO gap / meV at r2" in first.chart and properties()["homo_lumo_gap"].unit == "eV"


def test_the_table_shows_names_and_pictures(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_objectives(own_ledger, tmp_path)
    page = rendered(made)
    found = Parsed(page)
    assert "CPD-1; CPD-9" in found.text and "Distribution of HOMO-LUMO gap / eV at r2" in page
    table = page[page.index('<table id="candidates"') :]
    assert table[: table.index("</table>")].count('<svg class="molecule"') == 4


def test_of_many_points_the_best_and_some_of_all_others_are_drawn() -> None:
    many = [ObjectiveValues(i, "verified", {}) for i in range(7000)]
    ids = [candidate.candidate_id for candidate in thinned(many, 600)]
    assert len(set(ids)) == 600 and ids[:100] == list(range(100)) and ids == sorted(ids)
    assert max(b - a for a, b in pairwise(ids)) <= 14 and ids[-1] >= 6980
    assert thinned(many[:600], 600) == many[:600]


def test_where_no_objective_has_limits_nothing_is_called_a_miss(own_ledger: Ledger, tmp_path: Path) -> None:
    made = two_objectives(own_ledger, tmp_path)
    free = [objective | {"accept": None, "direction": "minimise"} for objective in (GAP, DIPOLE)]
    with made.ledger.read() as connection:
        ladder = campaigns.rungs(connection, made.row.id)
        limited = objective_charts(connection, made.row, ladder).distributions[0]
        shown = objective_charts(connection, replace(made.row, spec=made.row.spec | {"objectives": free}), ladder)
    assert "verified, no hit" in limited.chart and limited.limited
    assert not any("no hit" in chart.chart for chart in [*shown.distributions, *shown.fronts])
    assert not shown.distributions[0].limited
