"""What is said of recall: against campaigns of which everything is known."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.answers.status_and_comparison import RungAgreement
from sciagent.report.analysis.audit_results import Population, _in_chosen_unit, missed, scored
from sciagent.store.results.laws_and_audits import AuditLog


def them(
    lot: np.ndarray, pi: np.ndarray, hit: np.ndarray, turned: np.ndarray, done: np.ndarray | None = None
) -> Population:
    """turned: those that the law turned back to; done: of those drawn, who is."""
    n = len(lot)
    drawn = lot < pi
    done = np.ones(n, dtype=bool) if done is None else done
    known = drawn & done | turned
    share = max(float((drawn & known).sum()), 0.5) / max(int(drawn.sum()), 1) if drawn.any() else 1.0
    waiting = int((drawn & ~known).sum())
    return Population(list(range(n)), np.full(n, 0.1), share * pi, drawn & known, known, hit & known, waiting, 0)


@pytest.mark.parametrize("waiting", [0.0, 0.2])
def test_the_interval_holds_although_the_law_turns_back_to_many_and_some_still_wait(waiting: float) -> None:
    rng = np.random.default_rng(5)
    n, held, off, given = 400, 0, [], 0
    for _ in range(400):
        hit = rng.random(n) < 0.15
        pi = np.where(rng.random(n) < 0.5, 0.15, 0.3)
        # hits are turned back to more often; whoever is drawn first is not
        lot = rng.random(n)
        turned = (rng.random(n) < np.where(hit, 0.5, 0.1)) & (lot >= pi)
        one = them(lot, pi, hit, turned, rng.random(n) >= waiting)
        own = 30 + int((hit & turned).sum())
        known = 30 + int(one.hit.sum())
        found = missed(one, known, own, 0)
        if found.recall is None:
            continue
        given += 1
        truth = known / (30 + int(hit.sum()))
        held += found.with_audit.low <= truth <= found.with_audit.high
        off.append(found.missed.estimate - int((hit & ~one.known).sum()))
    assert given > 350 and held / given > 0.94
    assert abs(np.mean(off)) < 4 * np.std(off) / np.sqrt(given) + 0.5


def test_where_all_are_verified_nothing_was_missed() -> None:
    hit = np.array([True, False, True])
    one = them(np.array([0.5, 0.1, 0.9]), np.array([0.2, 0.3, 0.1]), hit, np.array([True, False, True]))
    found = missed(one, 6, 6, 0)
    assert plain(found.recall) == {"low": 1.0, "estimate": 1.0, "high": 1.0}
    assert found.missed is not None and found.missed.high == 0
    assert found.words.startswith("recall 1.00 (95 % interval 1.00 to 1.00): 6 hits by choice, 0 among 1 drawn of 3")


def test_it_says_why_there_is_no_estimate() -> None:
    none = them(*(np.zeros(0) for _ in range(2)), *(np.zeros(0, dtype=bool) for _ in range(2)))
    assert missed(none, 0, 0, 7).words == (
        "recall cannot be estimated: no candidate was passed over yet; 7 other candidates are open and not counted"
    )
    few = them(np.array([0.1, 0.9]), np.array([0.5, 0.5]), np.array([True, False]), np.zeros(2, dtype=bool))
    assert missed(few, 1, 0, 0).words == "recall cannot be estimated: n = 1 audited hit, 5 are needed"
    sure = them(np.array([0.1]), np.array([0.5]), np.array([False]), np.zeros(1, dtype=bool))
    assert missed(sure, 0, 0, 0).words == "recall cannot be estimated: there is no hit"


def test_hits_by_choice_count_whole_and_audited_ones_by_their_propensity() -> None:
    hit = np.array([True, True, False])
    one = them(np.array([0.1, 0.9, 0.9]), np.array([0.2, 0.2, 0.2]), hit, np.array([False, True, False]))
    log = AuditLog(ids=[0, 1, 2], p=[0.1, 0.2, 0.3], chosen={1: 0.6, 8: 0.7, 9: 0.8})
    scores, pi = scored(one, log, {1, 8, 77})
    assert scores.tolist() == [0.2, 0.7, 0.1], "as believed when first passed over; of 77 nothing is known"
    assert pi.tolist() == [1, 1, 0.2]


def test_bias_and_rmse_are_in_the_unit_of_the_campaign() -> None:
    found = RungAgreement(
        property="solvation_free_energy", lower="alpb", upper="smd", n=9, effective=9, bias=-0.1, rmse=0.2, spearman=0.9
    )
    shown = _in_chosen_unit(found, {"solvation_free_energy": "kcal/mol"})
    assert (shown.bias, shown.rmse, shown.unit) == (
        pytest.approx(-2.306, abs=1e-3),
        pytest.approx(4.612, abs=1e-3),
        "kcal/mol",
    )
    assert _in_chosen_unit(found, {}).unit == "eV"
    ranked = found.model_copy(update={"bias": None, "rmse": None})
    assert _in_chosen_unit(ranked, {"solvation_free_energy": "kcal/mol"}) == ranked
