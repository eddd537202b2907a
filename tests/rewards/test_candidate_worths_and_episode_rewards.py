"""Rewards of episodes from evidence that is written by the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.people.import_values import import_file
from sciagent.domain.display_units import Column
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.rung_calibration_on_measurements import Fit, FitKind
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.campaign_state import note_and_take_watermarks
from tests.support.rewarded import DFT, GAP, HIT, MISS, PRICE, SPEC, XTB, Rewarded, returns


def test_turns_pay_for_what_they_cost_and_a_shared_candidate_is_credited_and_paid_twice(made: Rewarded) -> None:
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCN"]], group=group, sibling=0, tokens=200.0)
    made.episode(2, [["CCO"]], group=group, sibling=1, tokens=100.0)
    made.settle("CCO", HIT)
    made.settle("CCN", MISS, seconds=300.0)
    answer = publish(made.ledger, "small", SPEC)
    assert (answer.episodes, answer.rewarded, answer.undecided, answer.changed) == (2, 2, 0, ())
    first, second = 1 - 101 * PRICE - 0.002, -301 * PRICE - 0.002
    found = returns(show(made.ledger, answer.version))
    assert found == {1: [pytest.approx(first + second), pytest.approx(second)], 2: [pytest.approx(1 - 0.101 - 0.001)]}
    assert publish(made.ledger, "small", SPEC) == answer, "the same description at the same watermark"


def test_what_is_pending_crashed_or_not_bought_is_undecided_and_never_zero(made: Rewarded) -> None:
    group = made.group(0, 2)
    made.episode(1, [["CCO"], ["CCN"], ["CCS"], ["CCC"], ["CCF"], ["CCCl"]], group=group, sibling=0)
    made.episode(2, [["CO"]] * 6, group=group, sibling=1)
    for smiles in ("CCO", "CCN", "CCC", "CCF", "CCCl"):
        made.settle(smiles, HIT, seconds=0.0)
    made.check("CCS", "CO")
    made.order("CCS", XTB)  # and no answer ever came
    made.fail("CO", XTB)
    shown = show(
        made.ledger, publish(made.ledger, "small", SPEC.model_copy(update={"prices": {"core_seconds": 1e-9}})).version
    )
    [crashed, whole] = shown.episodes
    assert crashed.outcome is None
    assert [turn.to_go for turn in crashed.turns[:3]] == [None] * 3
    assert all(turn.to_go is not None and turn.advantage is not None for turn in crashed.turns[3:])
    assert whole.outcome == pytest.approx(0.0, abs=1e-6), "refused by a gate"


def test_an_imported_value_costs_what_its_import_stated_where_a_calibration_uses_it(
    made: Rewarded, tmp_path: Path
) -> None:
    made.episode(1, [["CCO"], ["CCN"]], group=made.group(0, 1))
    made.settle("CCO", HIT, seconds=0.0)
    made.settle("CCN", HIT, seconds=0.0)
    spec = SPEC.model_copy(update={"prices": {"money": 0.01}})
    file, level, columns = tmp_path / "lab.csv", Level("experiment"), [Column("gap", GAP)]
    file.write_text("smiles,gap,eur\nCCO,5.1,25\nCCN,5.2,\n")
    import_file(made.ledger, file, columns=columns, level=level, costs={"money": "eur"})

    def costs() -> list[float]:
        shown = show(made.ledger, publish(made.ledger, "small", spec).version)
        return [turn.candidates[0].cost for turn in shown.episodes[0].turns]

    assert costs() == [0.0, 0.0], "no rung is calibrated on it, so that it decides nothing"
    with made.ledger.begin() as connection:
        fit = Fit(GAP, FitKind.OFFSET, level.label, 1.0, 0.0, 20, 0.1, 0.1, 2.0)
        note_and_take_watermarks.write_fits(connection, made.built.row.id, {made.built.rungs[DFT].id: {GAP: fit}})
    assert costs() == [pytest.approx(0.25), 0.0]
    file.write_text("smiles,gap,eur\nCCO,5.3,25\nCCN,5.2,\n")
    import_file(made.ledger, file, columns=columns, level=level, costs={"money": "eur"}, revise="a typing error")
    assert costs() == [pytest.approx(0.25), 0.0], "a correction is no second measurement"
