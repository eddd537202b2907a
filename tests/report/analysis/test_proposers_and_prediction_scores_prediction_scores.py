"""Predictions against answers: the scores are those of the formula, and who learns is seen to learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.proposing.prediction_scores import crps, read_predictions
from sciagent.report.analysis.proposers_and_prediction_scores import MAX_BINS, listed, prediction_scores
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed
from tests.support.talked import Talker, talked


def test_each_proposer_is_scored_at_each_rung(several: Talker) -> None:
    with several.ledger.read() as connection:
        found = prediction_scores(connection, several.row)
    assert [(one.rung, one.proposer, one.record.n) for one in found] == [
        ("r2", "alpha", 12),
        ("r2", "beta", 10),
        ("r1", "alpha", 12),
        ("r1", "beta", 10),
    ]
    beta = found[1]
    assert beta.unit == "eV" and beta.record.crps == pytest.approx(crps(4.3, 0.2, 4.2))
    assert beta.record.bias == pytest.approx(0.1) and beta.record.within == 10


def test_who_learns_is_seen_to_learn(several: Talker) -> None:
    with several.ledger.read() as connection:
        alpha, beta, *_ = prediction_scores(connection, several.row)
    scores = [one.record.crps for one in alpha.bins]
    assert len(scores) == 6 and scores == sorted(scores, reverse=True) and scores[-1] < 0.6 * scores[0]
    assert max(b.record.crps for b in beta.bins) == pytest.approx(min(b.record.crps for b in beta.bins))
    assert [(one.first, one.last) for one in alpha.bins] == [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 11)]
    assert sum(one.record.n for one in alpha.bins) == alpha.record.n


def test_many_episodes_stand_in_few_bins(own_ledger: Ledger, tmp_path: Path) -> None:
    made = talked(own_ledger, tmp_path, episodes=43, turns=1)
    with made.ledger.read() as connection:
        found = prediction_scores(connection, made.row)
    for one in found:
        assert 1 < len(one.bins) <= MAX_BINS and sum(b.record.n for b in one.bins) == one.record.n
    assert found[0].bins[-1].last == 43


def test_the_report_has_the_scores_with_their_unit(parsed_talks: Parsed) -> None:
    text = parsed_talks.text
    for needed in (
        "Predictions that were answered",
        "r2 (decides) beta 10 0.0663 eV",
        "+0.1 eV 100 % 100 %",
        "mean CRPS / eV",
        "HOMO-LUMO gap at r2 : mean CRPS of the predictions along the episodes",
    ):
        assert needed in text, needed


def test_without_predictions_nothing_is_said(parsed: Parsed) -> None:
    assert "Predictions that were answered" not in parsed.text


def test_what_is_no_prediction_is_left_out(own_ledger: Ledger, tmp_path: Path) -> None:
    made = talked(own_ledger, tmp_path, episodes=1)
    before = len(made.ids)
    odd = [{"homo_lumo_gap": 4.0}, {"homo_lumo_gap": {"value": "4"}}, {"nothing": {"value": 1, "error": 1}}, {}, None]
    odd += [{"homo_lumo_gap": {"value": 4.0, "error": -1.0}}, {"dipole": {"value": 1.0, "error": 0.1}}]
    for n, predicted in enumerate(odd):
        made.enter(("O" + "C" * (n + 12),), predicted=predicted)
        made.settle(before + n, 4.4)
    with made.ledger.read() as connection:
        assert prediction_scores(connection, made.row) == []
    assert [read_predictions(one) for one in odd[:2]] == [{}, {}]


def test_a_prediction_is_shown_in_the_unit_of_the_campaign() -> None:
    predicted = {"homo_lumo_gap": {"value": 4.0, "error": 0.25}, "unheard_of": {"value": 1, "error": 1}}
    assert listed(predicted, {}) == ["HOMO-LUMO gap 4 ± 0.25 eV"]
    assert listed(predicted, {"homo_lumo_gap": "kcal/mol"}) == ["HOMO-LUMO gap 92.24 ± 5.8 kcal/mol"]  # 23.06 per eV
    assert listed(None, {}) == []
