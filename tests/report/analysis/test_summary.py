"""The answers to a chemist's questions at the head of the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.domain.states_and_needs import Standing
from sciagent.report.analysis.summary import certainty_sentence
from sciagent.report.parts.best_candidate_cards_and_table import HitsInDoubt
from sciagent.report.parts.margins_and_method_errors import Certainty
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed, rendered
from tests.support.reported import GFN2, Maker, gap


def test_a_chemists_questions_are_answered(parsed: Parsed) -> None:
    for needed in (
        "2 hits",
        "12 candidates from 14 proposals; 5 verified, 1 left: neither verified nor dropped.",
        "Best: c1ccccc1 with HOMO-LUMO gap 4.30 ± 0.03 eV.",
        "(P(limits) < 80 %); the method's error is unknown for 1.",
        "PBE0/def2-SVP",
        "orbital gap, not optical",
        "6.3 core-minutes",
        "13% of the core time was wasted",
        "3.15 core-minutes a hit",
        "9 candidates",
        "1 proposal could not be read or taken.",
        "what is left of the budget holds no further job",
        "Gaps of small molecules.",
    ):
        assert needed in parsed.text, needed


@pytest.mark.parametrize(
    ("doubts", "sentence"),
    [
        (
            HitsInDoubt(by_method=8, by_method_near=2, unknown=3),
            "8 of 13 hits could be misses by the method's error (P(limits) < 80 %), 2 of them also by repeatability "
            "alone; the method's error is unknown for 3.",
        ),
        (HitsInDoubt(), "None of 13 hits could be misses by the method's error (P(limits) < 80 %)."),
        (
            HitsInDoubt(unknown=13, unknown_near=1),
            "The method's error is unknown for all 13 hits, 1 of which could be a miss by repeatability alone.",
        ),
        (
            HitsInDoubt(by_method=2, by_measurement=1, unknown=3, unknown_measured=1),
            "2 of 13 hits could be misses by the method's error or their measured values (P(limits) < 80 %); "
            "the error of the method, or of the measured value, is unknown for 3.",
        ),
    ],
)
def test_one_sentence_says_how_many_hits_may_be_misses(doubts: HitsInDoubt, sentence: str) -> None:
    assert certainty_sentence(doubts, 13) == sentence


def test_a_hit_is_in_doubt_below_80_percent() -> None:
    doubts = HitsInDoubt()
    for chance in (0.78, 0.81, 1.0, None):
        doubts.add(Certainty((), chance, ()))
    assert doubts == HitsInDoubt(by_method=1, unknown=1)
    doubts.add(Certainty((), 0.02, (), ("gap",)))
    doubts.add(Certainty((), None, ("gap",), ("gap",)))
    assert doubts == HitsInDoubt(by_method=2, by_measurement=1, unknown=2, unknown_measured=1)


def test_a_campaign_for_the_best_shows_utility_and_no_hits(own_ledger: Ledger, tmp_path: Path) -> None:
    ramp = {
        "property": "homo_lumo_gap",
        "direction": "maximise",
        "unit": "eV",
        "accept": None,
        "ramp": [2, 6],
        "weight": 1,
    }
    made = Maker(own_ledger, tmp_path, objectives=[ramp], goal={"kind": "best", "count": 3})
    made.enter(("C", "CC", "CCC"))
    for i in range(3):
        made.answer(i, 2, gap(3.0 + i, GFN2), seconds=10)
        made.place(i, Standing.SETTLED, 2, verdict="pass", depth=2, expected=0.3 + i / 10, utility=0.25 * (i + 1))
    found = Parsed(rendered(made))
    assert "3 verified" in found.text and "Its utility is 0.75; 1 is best." in found.text
    assert "maximise HOMO-LUMO gap, from 2 (worst) to 6 eV (best)" in found.text
    assert "Best utility so far against core time" in found.text and "hit" not in found.text.split("What was asked")[0]
