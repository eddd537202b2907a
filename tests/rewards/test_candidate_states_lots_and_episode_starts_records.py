"""With the goal `best` a candidate is worth what it improves on the record of the moment in which its episode began."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.show_and_compare_versions import ShownRewards, show
from sciagent.store.database.ledger import Ledger
from tests.support.rewarded import DFT, XTB, Rewarded, rewarded

SPEC = RewardSpec(prices={"llm_tokens": 1e-5}, unsettled="settled", scaffold_decay=0.0)
GAP = "homo_lumo_gap"
LOW = 3.0  # eV; the window of the campaigns begins here, and their scale is half of its width
SCALE = 3.0


def verified(made: Rewarded, smiles: str, gap: float) -> None:
    made.check(smiles)
    for position, value in ((XTB, 8.0), (DFT, gap)):
        made.order(smiles, position)
        made.answer(smiles, position, {GAP: value}, seconds=0.0)


def utility(gap: float) -> float:
    return math.exp(-max(LOW - gap, 0.0) / SCALE)


def worths(shown: ShownRewards) -> dict[int, list[list[float | None]]]:
    """By episode, the values of each turn's candidates."""
    return {e.episode: [[c.value for c in turn.candidates] for turn in e.turns] for e in shown.episodes}


def published(made: Rewarded) -> dict[int, list[list[float | None]]]:
    return worths(show(made.ledger, publish(made.ledger, "small", SPEC).version))


def best(ledger: Ledger, folder: Path, goal: str = "{kind: best}") -> Rewarded:
    made = rewarded(ledger, folder, goal=goal)
    assert made.built.objectives[0].scale == SCALE
    return made


def test_a_group_is_paid_for_what_it_improves_on_the_record_of_its_snapshot(ledger: Ledger, tmp_path: Path) -> None:
    made = best(ledger, tmp_path)
    made.episode(1, [["CCO"], ["CCN"]], group=made.group(1, 1))
    verified(made, "CCO", 1.0)
    verified(made, "CCN", 0.5)
    made.episode(2, [["CCS"], ["CCF", "CCCl"]], group=made.group(2, 1, watermark=made.watermark(), seq=2))
    verified(made, "CCS", 2.0)
    verified(made, "CCF", 0.75)
    made.check("CCCl")  # nothing more is known of it
    found = published(made)
    assert found[1] == [[pytest.approx(utility(1.0))], [pytest.approx(utility(0.5))]], "nothing was known before"
    assert found[2] == [[pytest.approx(utility(2.0) - utility(1.0))], [0.0, None]], "undecided is not 0"


def test_a_late_answer_is_no_record_and_a_correction_of_the_record_is(ledger: Ledger, tmp_path: Path) -> None:
    made = best(ledger, tmp_path)
    made.episode(1, [["CCO"], ["CCN"]], group=made.group(1, 1))
    verified(made, "CCO", 1.0)
    made.episode(2, [["CCS"]], group=made.group(2, 1, watermark=made.watermark(), seq=2))
    verified(made, "CCS", 2.0)
    first = published(made)[2]
    assert first == [[pytest.approx(utility(2.0) - utility(1.0))]]
    verified(made, "CCN", 2.5)  # it was proposed before the snapshot, and answered after it
    assert published(made)[2] == first
    wrong = made.known("CCO", DFT)
    made.answer("CCO", DFT, {GAP: 1.5}, seconds=0.0, supersedes=wrong, revision=1)
    assert published(made)[2] == [[pytest.approx(utility(2.0) - utility(1.5))]]


def test_of_several_best_ones_the_last_is_the_record(ledger: Ledger, tmp_path: Path) -> None:
    made = best(ledger, tmp_path, "{kind: best, count: 2}")
    made.episode(1, [["CCO"], ["CCN"]], group=made.group(1, 1))
    verified(made, "CCO", 2.0)
    one = made.watermark()
    verified(made, "CCN", 1.0)
    made.episode(2, [["CCS"]], group=made.group(2, 1, watermark=one, seq=2))
    made.episode(3, [["CCF"]], group=made.group(3, 1, watermark=made.watermark(), seq=2))
    verified(made, "CCS", 1.5)
    verified(made, "CCF", 1.5)
    found = published(made)
    assert found[2] == [[pytest.approx(utility(1.5))]], "only one candidate was known, and two are wanted"
    assert found[3] == [[pytest.approx(utility(1.5) - utility(1.0))]]


def test_an_episode_of_a_campaign_is_compared_with_what_was_known_when_it_was_asked(
    ledger: Ledger, tmp_path: Path
) -> None:
    made = best(ledger, tmp_path)
    made.episode(1, [["CCO"]])
    verified(made, "CCO", 1.0)
    made.check("CCS")
    made.episode(2, [["CCS"]])
    verified(made, "CCS", 2.0)
    found = published(made)
    assert found[1] == [[pytest.approx(utility(1.0))]]
    assert found[2] == [[pytest.approx(utility(2.0) - utility(1.0))]]
