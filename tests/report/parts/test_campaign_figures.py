"""Hits against the cost in real campaigns of a laboratory: every hit that stands is on the curve."""

from __future__ import annotations

from pathlib import Path

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.people.import_values import import_file
from sciagent.domain.answers.figures import Figure
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.report.explain_candidate import explain_named
from sciagent.report.explanation_text import VERBOSE, paragraphs
from sciagent.report.page.html_page import page
from sciagent.report.parts.campaign_figures import campaign_figures
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import tasks
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views import campaign_counts_and_remarks
from tests.lab import conftest as lab
from tests.lab.conftest import Make
from tests.lab.test_historical_values import loaded
from tests.lab.test_record_answers import entry, task_ids
from tests.support.pages import Parsed

make = lab.make
PRICED = "{ahead: 3, cost: {lab_slots: 1, person_hours: 1.5, money: 40}}"
DENIALS = ("No hit yet", "no hit yet", "Nothing has been verified", "has measured nothing", "Nothing has been measured")


def figures_of(built: Built) -> dict[str, Figure]:
    """The figures by name; the last height of each curve is the number of hits of `sciagent status`."""
    with built.ledger.read() as connection:
        row = campaigns.get(connection, built.row.name)
        register_ledger_properties(connection)
        found = {figure.name: figure for figure in campaign_figures(connection, row)}
        hits = campaign_counts_and_remarks.counts(connection, row).hits
    for name, figure in found.items():
        if name.startswith("hits"):
            assert figure.series[0].y[-1] == hits, name
    assert bool(hits) == ("hits_over_time" in found)
    return found


def report_of(built: Built) -> str:
    with built.ledger.read() as connection:
        row = campaigns.get(connection, built.row.name)
        return Parsed(page(connection, row, built.ledger.artifacts)).text


def points(figure: Figure) -> list[tuple[float, float]]:
    [line] = figure.series
    return list(zip(line.x, line.y, strict=True))


def test_measured_hits_are_counted_against_money_hours_slots_and_time(make: Make) -> None:
    built = make(lab=PRICED)
    first, second, third = task_ids(built)
    record_answers.enter(built, first, entry("5.9 eV"))
    record_answers.enter(built, second, entry("4.31 eV"))
    claims_costs_and_vials.claim(built, third, "ben")
    found = figures_of(built)
    assert points(found["hits_against_money"]) == [(0, 0), (80, 1), (120, 1)], "a claimed task is booked"
    assert points(found["hits_against_person_hours"]) == [(0, 0), (3, 1), (4.5, 1)]
    assert points(found["hits_against_lab_slots"]) == [(0, 0), (2, 1), (3, 1)]
    axes = {name: figure.x_axis.unit for name, figure in found.items() if name.startswith("hits_against")}
    assert axes == {
        "hits_against_money": "EUR",
        "hits_against_person_hours": "h",
        "hits_against_lab_slots": "1",
        "hits_against_core_seconds": "core-seconds",
    }
    [line] = found["money_over_time"].series
    assert (line.name, line.y[0], line.y[-1]) == ("lab", 0, 120)
    assert {one.name for one in found["core_seconds_over_time"].series} >= {"checks", "proposers"}
    text = report_of(built)
    assert "120 EUR, 4.5 person-hours And 3 lab slots, " in text and "120 EUR and 4.5 person-hours a hit." in text
    assert "lab took 100% of the money, 100% of the person-hours and 100% of the lab slots." in text
    assert "Hits against money" in text and not any(denial in text for denial in DENIALS)
    assert "wasted on" not in text, "a claimed task is no waste"


def test_a_campaign_without_a_hit_says_so_and_shows_its_spending(make: Make) -> None:
    built = make(lab=PRICED)
    record_answers.enter(built, task_ids(built)[0], entry("5.9 eV"))
    spent = ("money", "person_hours", "lab_slots", "core_seconds")
    assert set(figures_of(built)) == {f"{name}_over_time" for name in spent}
    text = report_of(built)
    assert "No hit yet, so there is no curve of hits against cost." in text and "40 EUR" in text


def test_a_correction_moves_the_hits_from_the_moment_it_was_made(make: Make) -> None:
    built = make(lab=PRICED)
    first, second, _ = task_ids(built)
    record_answers.enter(built, first, entry("5.9 eV"))
    record_answers.enter(built, second, entry("4.31 eV"))
    record_answers.enter(built, first, entry("4.2 eV", why="digits were swapped"))
    into = figures_of(built)
    assert points(into["hits_against_money"]) == [(0, 0), (80, 1), (80, 2)], "known as a hit when 80 EUR were spent"
    record_answers.enter(built, second, entry("5.1 eV", why="wrong lamp"))
    record_answers.enter(built, first, entry("4.25 eV", why="read again"))
    assert points(figures_of(built)["hits_against_money"])[-1] == (80, 1)
    record_answers.enter(built, first, entry("6 eV", why="wrong vial"))
    assert "hits_over_time" not in figures_of(built)


def test_an_answer_in_review_is_no_hit_yet(make: Make) -> None:
    built = make(lab=PRICED.replace("ahead: 3", "ahead: 3, review: true"))
    first = task_ids(built)[0]
    record_answers.enter(built, first, entry("4.31 eV"))
    assert "hits_over_time" not in figures_of(built) and "No hit yet" in report_of(built)
    with built.ledger.read() as connection:
        task = tasks.find(connection, first)
        assert task is not None
        waiting = review_and_sign_answers.waiting_answer(connection, task)
    review_and_sign_answers.accept(built, first, "ben", waiting.id)
    assert points(figures_of(built)["hits_against_money"]) == [(0, 0), (40, 1)]


def test_hits_by_measured_values_are_on_the_curve_though_the_lab_measured_nothing(
    ledger: Ledger, make: Make, tmp_path: Path
) -> None:
    file = tmp_path / "known.csv"
    file.write_text("smiles,gap\nOc1ccccc1,4.3\nCCO,4.2\nNc1ccccc1,7.1\n", encoding="utf-8")
    import_file(ledger, file, columns=[Column("gap", "homo_lumo_gap", "eV", "0.1")], level=Level("experiment"))
    built = make(lab=PRICED, count=9, more="measured: decide\n")
    found = figures_of(built)
    assert points(found["hits_over_time"])[-1][1] == 2
    assert points(found["hits_against_core_seconds"])[-1][1] == 2
    text = report_of(built)
    assert "2 hits" in text and not any(denial in text for denial in DENIALS)
    with built.ledger.read() as connection:
        shown = best(connection, campaigns.get(connection, "gaps"), 5)
    assert [candidate.hit for candidate in shown[:2]] == [True, True]
    explained = " ".join(part.text for part in paragraphs(explain_named(built.ledger, "CCO", built.row), VERBOSE))
    assert "A hit" in explained


def test_old_values_are_hits_at_no_cost(make: Make, tmp_path: Path) -> None:
    built = make(lab=PRICED, count=3)
    loaded(built, tmp_path / "old.csv", "Oc1ccccc1,4.31,0.02\nCCO,5.9,0.02")
    record_answers.enter(built, task_ids(built)[0], entry("4.4 eV"))
    found = figures_of(built)
    assert points(found["hits_against_money"]) == [(0, 0), (0, 1), (40, 2)]
    assert "1 hit was known before anything was booked" in found["hits_against_money"].notes[1]
