"""The term `prediction`: what a model predicted of its own candidates, scored against the verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from sciagent.errors import SpecError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec, load_rewards
from sciagent.rewards.show_and_compare_versions import RewardedTurn, show
from tests.support.rewarded import DFT, GAP, HIT, MISS, XTB, Rewarded

SCALE, WEIGHT = 2.0, 0.1
SPEC = RewardSpec(
    prices={"core_seconds": 1e-9},
    unsettled="settled",
    terms={"prediction": WEIGHT},
    prediction_scales={GAP: SCALE},
    terms_limit=0.5,
)


def gap(value: float, error: float) -> Mapping[str, Mapping[str, float]]:
    return {GAP: {"value": value, "error": error}}


def turns(made: Rewarded, spec: RewardSpec = SPEC) -> list[RewardedTurn]:
    """The turns of all episodes."""
    shown = show(made.ledger, publish(made.ledger, "small", spec).version)
    return [turn for episode in shown.episodes for turn in episode.turns]


def term(turn: RewardedTurn) -> float | None:
    value = turn.terms["prediction"]
    return None if value is None else value / WEIGHT


def crps_by_integration(value: float, error: float, answer: float) -> float:
    """The integral of the squared distance of the distribution function from the step at the answer."""
    below, _ = quad(lambda x: norm.cdf(x, value, error) ** 2, -np.inf, answer)
    above, _ = quad(lambda x: (1 - norm.cdf(x, value, error)) ** 2, answer, np.inf)
    return below + above


def test_a_prediction_scores_one_less_its_crps_in_units_of_the_scale(made: Rewarded) -> None:
    stated = {"CCO": gap(4.5, 0.7), "CCN": gap(HIT, 0.0), "CCC": gap(-40.0, 0.1)}
    made.episode(1, [["CCO"], ["CCN"], ["CCC"], ["CCF"]], predicted=stated)
    for smiles in ("CCO", "CCN", "CCC", "CCF"):
        made.settle(smiles, HIT)
    first, exact, wrong, silent = map(term, turns(made))
    assert first == pytest.approx(1 - crps_by_integration(4.5, 0.7, HIT) / SCALE, abs=1e-9)
    assert exact == pytest.approx(1.0)
    assert wrong == pytest.approx(-1.0), "no prediction costs more than the best one earns"
    assert silent == 0


def test_an_honest_error_earns_most_on_average(made: Rewarded) -> None:
    """Ten molecules whose gaps scatter by 1 eV: stating 1 eV beats stating almost nothing, or ten times as much."""
    answers = 6 + norm.ppf((np.arange(10) + 0.5) / 10)
    chains = ["C" * n + "O" for n in range(1, 11)]
    group = made.group(0, 3)
    for sibling, error in enumerate((0.01, 1.0, 10.0)):
        made.episode(sibling, [chains], group=group, sibling=sibling, predicted=dict.fromkeys(chains, gap(6.0, error)))
    for smiles, answer in zip(chains, answers, strict=True):
        made.settle(smiles, float(answer))
    scores = [term(turn) or 0.0 for turn in turns(made)]
    assert max(scores) == scores[1] > 0.6


def test_a_prediction_is_undecided_while_the_verdict_is_missing(made: Rewarded) -> None:
    made.episode(1, [["CCO"], ["CCN"]], predicted={"CCO": gap(HIT, 0.0)})
    made.check("CCO")
    made.order("CCO", XTB)
    made.answer("CCO", XTB, {GAP: 8.0})
    made.settle("CCN", HIT)
    waiting, later = turns(made)
    assert waiting.reward is None and waiting.terms["prediction"] is None
    assert later.reward is not None, "later turns stay trainable"
    made.order("CCO", DFT)
    made.answer("CCO", DFT, {GAP: HIT})
    assert term(turns(made)[0]) == pytest.approx(1.0), "DFT counts, not xTB, which said 8 eV"


def test_what_was_known_before_is_no_prediction(made: Rewarded) -> None:
    made.settle("CCO", HIT)
    begun = made.watermark()
    group = made.group(0, 2, watermark=begun)
    stated = {"CCO": gap(HIT, 0.0), "CCN": gap(HIT, 0.0)}
    for sibling in range(2):
        made.episode(sibling + 1, [["CCO"], ["CCN"]], group=group, sibling=sibling, predicted=stated)
    made.settle("CCN", HIT)
    assert [term(turn) for turn in turns(made)] == [0, pytest.approx(1.0)] * 2, "siblings do not spoil each other's"


def test_predicting_again_pays_nothing_and_takes_from_the_mean(made: Rewarded) -> None:
    made.episode(1, [["CCO", "CCO"], ["CCO"]], predicted={"CCO": gap(HIT, 0.0)})
    made.settle("CCO", HIT)
    assert [term(turn) for turn in turns(made)] == [pytest.approx(0.5), 0]


def test_a_prediction_of_a_refused_candidate_earns_nothing(made: Rewarded) -> None:
    made.episode(1, [["CCO"]], predicted={"CCO": gap(HIT, 0.0)})
    made.check("CCO")
    made.fail("CCO", XTB)
    [refused] = turns(made)
    assert term(refused) == pytest.approx(-1.0), "xTB refused it with a gap of 60 eV, which is the verdict"
    assert refused.terms["evidence"] == 0


def test_hiding_behind_a_prediction_does_not_leave_a_turn_undecided(made: Rewarded) -> None:
    """Nothing more is bought for the candidate; a law values it, and the prediction neither pays nor hides the cost."""
    for n, smiles in enumerate(("CCCO", "CCCCO", "CCCCCO", "CCN", "CCCN", "CCCCN", "CCF", "CCCF", "CCCCF", "CCCCCF")):
        made.episode(n + 10, [[smiles]])
        made.settle(smiles, HIT if n % 2 else MISS)
    made.episode(1, [["CCO"]], predicted={"CCO": gap(HIT, 0.0)})
    made.check("CCO")
    made.answer("CCO", XTB, {GAP: 8.0})
    unpaid = SPEC.model_copy(update={"unsettled": "posterior"})
    hidden = turns(made, unpaid)[0]
    assert hidden.reward is not None and term(hidden) == 0


def test_a_property_without_a_prediction_counts_as_nothing(made: Rewarded) -> None:
    both = SPEC.model_copy(update={"prediction_scales": {GAP: SCALE, "dipole": 1.0}})
    made.episode(1, [["CCO"]], predicted={"CCO": gap(HIT, 0.0)})
    made.settle("CCO", HIT)
    assert term(turns(made, both)[0]) == pytest.approx(0.5), "the easy one of two properties earns half"


def test_the_term_and_its_scales_need_each_other(tmp_path: Path) -> None:
    for text in ("terms: {prediction: 0.1}", "prediction_scales: {homo_lumo_gap: 0.5}"):
        (tmp_path / "rewards.yaml").write_text(f"prices: {{core_seconds: 1.0e-4}}\n{text}\n", encoding="utf-8")
        with pytest.raises(SpecError, match="need each other"):
            load_rewards(tmp_path / "rewards.yaml")


def test_descriptions_from_before_the_term_keep_their_hash() -> None:
    assert "prediction_scales" not in RewardSpec(prices={"core_seconds": 1e-4}).model_dump(mode="json")
