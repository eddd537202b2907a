"""How values and wishes are written."""

from __future__ import annotations

import pytest

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.report.parts import wording


@pytest.mark.parametrize(
    ("quantity", "text"),
    [
        (Quantity(4.116, "eV", 0.05), "4.12 ± 0.05 eV"),
        (Quantity(4.116, "eV"), "4.116 eV (± ?)"),
        (Quantity(13.0, "1", 0.0), "13"),
        (Quantity(0.1, "eV", 0.01, Censoring.BELOW), "< 0.10 ± 0.01 eV"),
        (Quantity(34.14, "angstrom**2", 0.0), "34.14 Å²"),
    ],
)
def test_a_value_says_its_uncertainty_or_that_nobody_knows_it(quantity: Quantity, text: str) -> None:
    assert wording.value(Measured("homo_lumo_gap", Level("PBE0"), quantity)) == text


@pytest.mark.parametrize(
    ("subject", "kinds", "text"),
    [
        ("molecule", {"class"}, "over conformer searches"),
        ("molecule", {"simulation"}, "over replicas of the simulation"),
        ("crystal", {"relaxation", "class"}, "of the relaxation or over starting structures"),
    ],
)
def test_a_repeatability_says_what_was_repeated(subject: str, kinds: set[str], text: str) -> None:
    found = wording.uncertainties_text(kinds, subject_of(subject).words)
    assert found == f"± is the repeatability {text} (k = 1)"


def test_a_reason_names_properties_as_the_table_does() -> None:
    given = "homo_lumo_gap = 3.1 eV, gate 1 ≤ homo_lumo_gap ≤ 2.8 eV"
    assert wording.titled(given) == "HOMO-LUMO gap = 3.1 eV, gate 1 ≤ HOMO-LUMO gap ≤ 2.8 eV"
    assert wording.titled("tpsa was not measured; my_own = 3") == "TPSA was not measured; my_own = 3"
    assert wording.titled("the dipole of it") == "the dipole of it"


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        ({"direction": "window", "accept": [4.0, 4.6]}, "4 ≤ HOMO-LUMO gap ≤ 4.6 eV"),
        ({"direction": "limit", "accept": [None, 4.6]}, "HOMO-LUMO gap ≤ 4.6 eV"),
        (
            {"direction": "minimise", "accept": [None, 3.0], "ramp": [5.0, 1.0]},
            "minimise HOMO-LUMO gap, from 5 (worst) to 1 eV (best); HOMO-LUMO gap ≤ 3 eV",
        ),
    ],
)
def test_a_wish_in_words(objective: dict[str, object], text: str) -> None:
    assert wording.aim_sentence(objective | {"property": "homo_lumo_gap", "unit": "eV"}) == text


def test_costs_and_counts() -> None:
    assert [wording.cost(s) for s in (5.0, 90.0, 7200.0)] == ["5 core-seconds", "1.5 core-minutes", "2 core-hours"]
    assert wording.many(1, "hit") == "1 hit" and wording.many(12345, "hit") == "12\N{NARROW NO-BREAK SPACE}345 hits"


def test_amounts_have_names_and_money_its_unit() -> None:
    assert wording.amounts({"money": 0.5, "llm_tokens": 12345.4}) == "12\u202f345 LLM tokens, 0.50 EUR"
    lab = {"money": 240.0, "person_hours": 1.0, "lab_slots": 2.0, "wall_minutes": 0.0242, "verifications": 1.0}
    assert [wording.amount(name, booked) for name, booked in lab.items()] == [
        "240 EUR",
        "1 person-hour",
        "2 lab slots",
        "1.45 s",
        "1 verification",
    ]
    assert [wording.duration(3600.0 * hours) for hours in (0.25, 47, 72)] == ["15 minutes", "47 hours", "3 days"]
    assert [wording.amount("money", euros) for euros in (0.5, 12.25)] == ["0.50 EUR", "12.25 EUR"]
    assert [wording.amount_below_name(name, lab[name]) for name in ("money", "person_hours", "lab_slots")] == [
        "240 EUR",
        "1 h",
        "2",
    ]
    limits = {"money": (240.0, 1000.0), "core_seconds": (9.94, 3600.0), "wall_minutes": (0.634, 120.0)}
    assert [wording.used_of_limit(name, *limit) for name, limit in limits.items()] == [
        "240 of 1\u202f000 EUR",
        "0.166 of 60 core-minutes",
        "38 s of 2 h",
    ]
    assert wording.column_of_amounts("core_seconds", [9.94, 0.634, 0.0242, 0.001, 0.0]) == [
        "9.94 core-seconds",
        "0.63 core-seconds",
        "0.02 core-seconds",
        "<0.01 core-seconds",
        "–",
    ]
    assert wording.column_of_amounts("money", [240.0, 12.5]) == ["240 EUR", "12 EUR"]
    assert wording.column_of_amounts("lab_slots", [2.0, 14.0]) == ["2", "14"]
    assert wording.column_of_amounts("person_hours", [1.5, 12.0]) == ["1.5 h", "12.0 h"]
    assert wording.number(999.9) == "1\u202f000"
    assert (wording.number(0.1234), wording.number(999.4), wording.number(3120.4)) == ("0.123", "999", "3\u202f120")
