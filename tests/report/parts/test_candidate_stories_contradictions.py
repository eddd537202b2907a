"""Hits and misses that an imported value contradicts, in every answer that shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.api.best_table import best_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.states_and_needs import Standing
from sciagent.report import status_best_trace
from sciagent.report.explain_candidate import explain
from sciagent.report.explanation_text import paragraphs
from sciagent.report.parts import best_candidate_cards_and_table
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support.pages import Parsed, rendered
from tests.support.reported import PBE0, Maker, gap
from tests.support.rows import new_evidence

EXPERIMENT = Level("experiment")


@pytest.fixture
def hit(own_ledger: Ledger, tmp_path: Path) -> Maker:
    return a_hit(own_ledger, tmp_path, PBE0)


def a_hit(ledger: Ledger, folder: Path, level: Level) -> Maker:
    """One hit: its gap of 4.3 eV lies in the window from 4.0 to 4.6 eV. level: of the gap."""
    made = Maker(ledger, folder)
    made.enter(("c1ccccc1",))
    made.answer(0, 2, gap(4.3, level))
    made.place(0, Standing.SETTLED, 2, verdict="pass", depth=2, utility=0.9, is_hit=True, hit_tier="x")
    return made


def write(made: Maker, *values: Quantity, level: Level = EXPERIMENT) -> None:
    new = [
        new_evidence(
            made.ids[0],
            Measured("homo_lumo_gap", level, value),
            verifier="import",
            source="lab.csv sha256:12",
            replicate=i,
        )
        for i, value in enumerate(values)
    ]
    with made.ledger.begin() as connection:
        evidence.record(connection, new)


def against(made: Maker) -> str | None:
    with made.ledger.read() as connection:
        [found] = status_best_trace.best(connection, made.row, 1)
    return found.contradicted


@pytest.mark.parametrize(
    ("value", "contradicts"),
    [
        (Quantity(4.7, "eV", 0.05), True),
        (Quantity(4.7, "eV", 0.2), False),
        (Quantity(4.7, "eV"), True),
        (Quantity(3.5, "eV", 0.1), True),
        (Quantity(4.2, "eV", 0.01), False),
        (Quantity(3.5, "eV", censoring=Censoring.BELOW), True),
        (Quantity(3.5, "eV", censoring=Censoring.ABOVE), False),
    ],
)
def test_a_value_outside_the_limits_by_more_than_its_uncertainty_contradicts_a_hit(
    hit: Maker, value: Quantity, contradicts: bool
) -> None:
    write(hit, value)
    assert (against(hit) is not None) is contradicts


def test_replicates_contradict_together_or_not_at_all(hit: Maker) -> None:
    write(hit, Quantity(4.7, "eV"), Quantity(4.3, "eV"))
    assert against(hit) is None  # their mean is 4.5 eV


def test_a_gap_at_another_level_of_theory_does_not_contradict(hit: Maker) -> None:
    write(hit, Quantity(5.7, "eV", 0.0), level=Level("HF", "def2-SVP"))
    assert against(hit) is None


def test_a_value_in_another_solvent_does_not_contradict(own_ledger: Ledger, tmp_path: Path) -> None:
    hit = a_hit(own_ledger, tmp_path, Level("PBE0", "def2-SVP", "hexane", "GFN2-xTB"))
    write(hit, Quantity(5.2, "eV", 0.1), level=Level("experiment", phase="water"))
    assert against(hit) is None


def test_a_value_in_the_same_solvent_contradicts(own_ledger: Ledger, tmp_path: Path) -> None:
    hit = a_hit(own_ledger, tmp_path, Level("PBE0", "def2-SVP", "hexane", "GFN2-xTB"))
    write(hit, Quantity(5.2, "eV", 0.1), level=Level("experiment", phase="hexane"))
    assert against(hit) is not None


def test_the_badge_the_card_and_the_answer_say_so(hit: Maker) -> None:
    write(hit, Quantity(5.2, "eV", 0.1, as_typed="5.20 eV"))
    told = "homo_lumo_gap = 5.20 eV ± 0.1 (lab.csv, experiment) lies above the limit of the objective"
    assert against(hit) == told
    with hit.ledger.read() as connection:
        ladder = campaigns.rungs(connection, hit.row.id)
        [row] = best_candidate_cards_and_table.table(connection, hit.row, ladder).rows
    assert row[2:4] == ["hit, contradicted by a measurement", "contradicted"]
    page = Parsed(rendered(hit)).text
    assert f"A measurement contradicts this hit: {told}." in page and "⚠ hit, contradicted by a measurement" in page


@pytest.fixture
def miss(own_ledger: Ledger, tmp_path: Path) -> Maker:
    """One candidate that fell at the gap: 4.9 eV lies outside the window from 4.0 to 4.6 eV."""
    made = Maker(own_ledger, tmp_path)
    made.enter(("c1ccccc1",))
    made.answer(0, 2, gap(4.9, PBE0))
    detail = "homo_lumo_gap = 4.90 ± 0.05 eV, objective 4 ≤ homo_lumo_gap ≤ 4.6 eV"
    made.place(0, Standing.SETTLED, 2, verdict="fail", reason="above_window", detail=detail, depth=2, expected=0.5)
    return made


@pytest.mark.parametrize(
    ("value", "contradicts"),
    [
        (Quantity(4.2, "eV", 0.05), True),
        (Quantity(4.7, "eV", 0.2), False),
        (Quantity(3.5, "eV", 0.2), False),
        (Quantity(4.3, "eV", censoring=Censoring.BELOW), False),
    ],
)
def test_a_value_inside_the_missed_limits_contradicts_a_miss(miss: Maker, value: Quantity, contradicts: bool) -> None:
    write(miss, value)
    assert (against(miss) is not None) is contradicts


def test_a_contradicted_miss_is_said_by_best_explain_and_the_report(miss: Maker) -> None:
    write(miss, Quantity(4.2, "eV", 0.1, as_typed="4.20 eV"))
    told = "homo_lumo_gap = 4.20 eV ± 0.1 (lab.csv, experiment) lies inside the limits that were missed"
    with miss.ledger.read() as connection:
        ladder = campaigns.rungs(connection, miss.row.id)
        table = best_candidate_cards_and_table.table(connection, miss.row, ladder)
        best = best_of(connection, miss.row, 5)
        explanation = explain(connection, miss.ids[0], [miss.row], miss.ledger)
    [row] = table.rows
    assert row[2].endswith("above window, contradicted by a measurement") and row[3] == "verified"
    assert best[0].contradicted == told
    words = str(best).split()  # the cell may be broken after the comma
    assert {"above", "window,", "contradicted", "-0.30"} <= set(words), "outside by .3 eV, without a known method error"
    assert any(
        line.startswith("contradicted by a measurement: c1ccccc1 (homo_lumo_gap = 4.90") for line in best.notes()
    )
    assert explanation.campaigns[0].contradicted == told
    assert f"A measurement contradicts this: {told}." in [paragraph.text for paragraph in paragraphs(explanation)]
    page = Parsed(rendered(miss)).text
    assert f"A measurement contradicts this verdict: {told}." in page
    assert "1 candidate missed a limit although a measured value lies inside it." in page


def test_what_was_measured_for_a_tautomer_contradicts_a_hit_without_values_of_its_own(
    own_ledger: Ledger, tmp_path: Path
) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("Oc1ccccn1", "O=c1cccc[nH]1"))
    made.answer(1, 2, gap(4.3, PBE0))
    made.place(1, Standing.SETTLED, 2, verdict="pass", depth=2, utility=0.9, is_hit=True, hit_tier="x")
    write(made, Quantity(5.2, "eV", 0.1))
    told = against(made)
    assert told is not None and "5.2 ± 0.1 eV (lab.csv, experiment) lies above the limit" in told
    assert told.endswith("as measured for Oc1ccccn1, which is the same compound")
    melting_point = Measured("melting_point", EXPERIMENT, Quantity(380.0, "K", 1.0))
    own = new_evidence(made.ids[1], melting_point, verifier="import", source="mp.csv")
    with made.ledger.begin() as connection:
        evidence.record(connection, [own])
    assert against(made) == told, "a value of another property says nothing of it"
    own = new_evidence(made.ids[1], gap(4.4, EXPERIMENT), verifier="import", source="own.csv", replicate=1)
    with made.ledger.begin() as connection:
        evidence.record(connection, [own])
    assert against(made) is None, "its own value counts"
