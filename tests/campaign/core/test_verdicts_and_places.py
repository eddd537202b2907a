"""The place of a candidate follows from its answers, in ladder order, and from what people decided."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sciagent.campaign.core.verdicts_and_places import Answer, Place, RungTerms, judge, ladder_rules, place
from sciagent.domain.evidence_keys_and_pooled_replicates import Finding, Measured
from sciagent.domain.objectives import Direction, Objective, Window, decisive
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason, Verdict
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import Standing, SteeringState
from sciagent.domain.worth import UNKNOWN_DESIRABILITY, Basis, LineToDecidingRung
from sciagent.store.campaign_state.same_structures import Likeness
from tests.support.rows import gap

OBJECTIVES = (Objective("homo_lumo_gap", Direction.LIMIT, Window(4.0, None), 0.4, None, 1.0),)
TERMS = (
    RungTerms("fast", {}, True, frozenset()),
    RungTerms("simulation", {"homo_lumo_gap": Window(3.0, 7.0)}, False, frozenset({"homo_lumo_gap"})),
    RungTerms("high_fidelity", {}, False, frozenset({"homo_lumo_gap"})),
)
RULES = ladder_rules(TERMS, {o.property: o.accept for o in OBJECTIVES}, 2, "priced", "hits")
TIMEOUT = Finding("a", Outcome.TIMEOUT, (), Reason.WALL_LIMIT)
REFUSED = Finding("a", Outcome.REFUSED, (), Reason.TOO_LARGE)


def ok(*measured: Measured) -> Finding:
    return Finding("a", Outcome.OK, measured)


def placed(*findings: Finding, steering: SteeringState | None = None, likeness: Likeness | None = None) -> Place:
    answers = [Answer(Position(i), judge(RULES[i], finding), finding.measured) for i, finding in enumerate(findings)]
    return place(RULES, OBJECTIVES, answers, steering, likeness)


@pytest.mark.parametrize(
    ("findings", "standing", "position", "verdict"),
    [
        ((), Standing.OPEN, 0, None),
        ((REFUSED,), Standing.DROPPED, 0, Verdict.NOT_APPLICABLE),
        ((ok(), ok(gap(5.0))), Standing.OPEN, 2, None),
        ((ok(), ok(gap(2.0))), Standing.DROPPED, 1, Verdict.FAIL),
        ((ok(), REFUSED), Standing.OPEN, 2, None),
        ((ok(), TIMEOUT), Standing.OPEN, 2, None),  # the terminal rung measures the gap again
        ((ok(), ok(gap(5.0)), TIMEOUT), Standing.DROPPED, 2, Verdict.INCONCLUSIVE),
        ((ok(), ok(gap(5.0)), ok(gap(3.9))), Standing.SETTLED, 2, Verdict.FAIL),
        ((ok(), ok(gap(5.0)), ok(gap(4.1))), Standing.SETTLED, 2, Verdict.PASS),
    ],
)
def test_the_first_rung_that_stops_a_candidate_decides(
    findings: tuple[Finding, ...], standing: Standing, position: int, verdict: Verdict | None
) -> None:
    where = placed(*findings)
    assert (where.standing, where.position, where.verdict) == (standing, position, verdict)
    assert where.is_hit == (verdict is Verdict.PASS)


def test_a_value_that_is_censored_at_the_edge_decides_nothing() -> None:
    above = Measured("homo_lumo_gap", Level("PBE0"), Quantity(3.5, "eV", censoring=Censoring.ABOVE))
    judgement = judge(RULES[2], ok(above))
    assert (judgement.verdict, judgement.reason) == (Verdict.INCONCLUSIVE, Reason.NOT_MEASURED)
    assert judgement.detail.endswith("is censored at the objective's edge")


def test_a_promotion_waives_the_gates_below_and_a_veto_takes_the_hit_away() -> None:
    failed = (ok(), ok(gap(2.0)))
    assert placed(*failed, steering=SteeringState(promoted_to=2)).standing is Standing.OPEN
    hit = (ok(), ok(gap(5.0)), ok(gap(4.1)))
    vetoed = placed(*hit, steering=SteeringState(vetoed=True, who="ann", why="smells"))
    assert (vetoed.standing, vetoed.is_hit, vetoed.detail) == (Standing.VETOED, False, "by ann: smells")
    held = placed(ok(), steering=SteeringState(held=True, who="ann", why="wait"))
    assert (held.standing, held.position) == (Standing.HELD, 1)


def test_the_worth_below_the_deciding_rung_follows_the_line_to_it() -> None:
    assert placed(ok()).worth is None
    near = placed(ok(), ok(gap(5.0))).worth  # without a prior or a telling gate: its own value, give or take two scales
    assert near is not None and near.basis is Basis.LINE
    assert near.p_hit == pytest.approx(NormalDist(5.0, 0.8).cdf(math.inf) - NormalDist(5.0, 0.8).cdf(4.0))
    assert near.margin == pytest.approx((5.0 - 4.0) / 0.4)
    shifted = [{}, {"homo_lumo_gap": LineToDecidingRung(1.0, -0.5, 0.1)}, {}]
    rules = ladder_rules(TERMS, {o.property: o.accept for o in OBJECTIVES}, 2, "priced", "hits", lines=shifted)
    by_line = place(rules, OBJECTIVES, [Answer(Position(1), judge(rules[1], ok(gap(4.6))), (gap(4.6),))]).worth
    assert by_line is not None and by_line.p_hit == pytest.approx(1 - NormalDist(4.1, 0.1).cdf(4.0), abs=1e-6)
    decided = placed(ok(), ok(gap(5.0)), ok(gap(3.6))).worth
    assert decided is not None and (decided.p_hit, decided.chance, decided.basis) == (0.0, 0, Basis.ANSWERED)
    assert decided.expected_utility == pytest.approx(OBJECTIVES[0].desirability(3.6), abs=1e-6)


DECIDED_BELOW = (
    Objective("homo_lumo_gap", Direction.WINDOW, Window(2.0, 3.0), 0.4, None, 1.0),
    Objective("dipole", Direction.LIMIT, Window(None, 4.0), 1.0, None, 1.0),
)
"""The gap is measured by the second rung alone, so that it decides; the third, terminal rung measures the dipole."""
LADDER = (
    RungTerms("fast", {}, True, frozenset()),
    RungTerms("simulation", {"homo_lumo_gap": Window(None, 6.0)}, False, frozenset({"homo_lumo_gap"})),
    RungTerms("simulation", {}, False, frozenset({"homo"})),
    RungTerms("high_fidelity", {}, False, frozenset({"dipole"})),
)


def placed_in(goal: str, findings: list[Finding], scheduler: str = "thresholds", promoted_to: int = 0) -> Place:
    """The place in a campaign whose objective on the gap is decided below the terminal rung."""
    rules = ladder_rules(LADDER, {o.property: o.accept for o in DECIDED_BELOW}, 3, scheduler, goal)
    answers = [Answer(Position(i), judge(rules[i], finding), finding.measured) for i, finding in enumerate(findings)]
    return place(rules, DECIDED_BELOW, answers, SteeringState(promoted_to=promoted_to))


def dipole(value: float) -> Measured:
    return Measured("dipole", Level("PBE0"), Quantity(value, "D", 0.05))


@given(
    st.floats(0, 5.9),
    st.sampled_from(["priced", "thresholds", "exhaustive", "random", "halving", "best_rung", "lottery"]),
    st.integers(2, 3),
    st.integers(0, 3),
)
def test_a_candidate_that_missed_a_decided_objective_waits_for_no_rung(
    value: float, scheduler: str, answered: int, promoted_to: int
) -> None:
    findings = [ok(), ok(gap(value)), ok()][:answered]
    where = placed_in("hits", findings, scheduler, promoted_to)
    if 2.0 <= value <= 3.0 or promoted_to > 1:
        assert where.standing is Standing.OPEN
    else:
        assert (where.standing, where.position, where.verdict) == (Standing.DROPPED, 1, Verdict.FAIL)
        assert where.reason in ("below_window", "above_window") and "objective 2 ≤ homo_lumo_gap ≤ 3" in where.detail
    if answered == 2:  # the other goals count what lies outside, too
        assert placed_in("best", findings).standing is placed_in("graded", findings).standing is Standing.OPEN


def test_a_promoted_candidate_runs_the_ladder_and_is_no_hit() -> None:
    where = placed_in("hits", [ok(), ok(gap(3.6)), ok(), ok(dipole(1.0))], promoted_to=2)
    assert (where.standing, where.is_hit, where.reason) == (Standing.SETTLED, False, "above_window")


def test_a_bound_at_the_edge_of_a_decided_objective_decides_nothing() -> None:
    above = Measured("homo_lumo_gap", Level("GFN2-xTB"), Quantity(2.5, "eV", censoring=Censoring.ABOVE))
    where = placed_in("hits", [ok(), ok(above)])
    assert (where.standing, where.verdict) == (Standing.DROPPED, Verdict.INCONCLUSIVE)


def test_a_decided_objective_is_held_against_its_own_limits() -> None:
    inside, outside = (placed_in("graded", [ok(), ok(gap(value))]).worth for value in (2.5, 5.0))
    assert inside is not None and outside is not None
    assert (inside.p_hit, inside.chance) == (None, 1), "nothing is known of the dipole yet"
    assert (outside.p_hit, outside.chance) == (0.0, 0)
    unknown = UNKNOWN_DESIRABILITY**0.5
    assert inside.expected_utility == pytest.approx(unknown, abs=1e-6)
    assert outside.expected_utility == pytest.approx(DECIDED_BELOW[0].desirability(5.0) ** 0.5 * unknown, abs=1e-6)


def test_of_two_hits_with_equal_utility_the_one_farther_inside_comes_first() -> None:
    near, far = (placed_in("hits", [ok(), ok(gap(2.5)), ok(), ok(dipole(value))]) for value in (3.9, 1.0))
    assert near.utility == far.utility == 1.0
    assert near.worth is not None and far.worth is not None
    assert near.worth.chance == far.worth.chance == 100
    assert near.worth.order < far.worth.order


def test_what_people_could_not_obtain_is_worth_nothing_whatever_else_was_measured() -> None:
    """Otherwise the gap alone would give an expected utility of 0.707 with the unknown dipole."""
    decomposed = Finding("a", Outcome.OK, (gap(2.5),), unobtained={"dipole": Reason.DECOMPOSED})
    for goal in ("hits", "graded"):
        where = placed_in(goal, [ok(), ok(gap(2.5)), ok(), decomposed])
        assert (where.standing, where.verdict, where.reason) == (Standing.SETTLED, Verdict.FAIL, "decomposed")
        assert where.worth is not None and where.utility is None
        assert (where.worth.p_hit, where.worth.chance, where.worth.expected_utility) == (0.0, 0, 0.0)


LIKENESS = Likeness(Position(1), "NaCl Fm-3m (0e1152553fcc)")


@pytest.mark.parametrize("findings", [(ok(), ok(gap(5.0))), (ok(), ok(gap(5.0)), ok(gap(4.1)))])
def test_what_relaxed_to_the_structure_of_another_is_dropped_at_that_rung(findings: tuple[Finding, ...]) -> None:
    where = placed(*findings, likeness=LIKENESS)
    assert (where.standing, where.position, where.verdict) == (Standing.DROPPED, 1, Verdict.FAIL)
    assert (where.reason, where.detail) == ("same_structure", LIKENESS.detail)
    assert (where.worth, where.utility, where.is_hit) == (None, None, False), "neither a hit nor a parent"


def test_a_candidate_that_the_rung_stops_falls_for_what_the_rung_says() -> None:
    assert placed(ok(), ok(gap(2.0)), likeness=LIKENESS) == placed(ok(), ok(gap(2.0)))


def test_of_the_terminal_rung_it_stops_what_has_passed() -> None:
    last = Likeness(Position(2), "another")
    assert placed(ok(), ok(gap(5.0)), ok(gap(4.1)), likeness=last).reason == "same_structure"
    assert placed(ok(), ok(gap(5.0)), ok(gap(3.9)), likeness=last).reason == "below_window"


def test_a_promotion_waives_it_and_a_veto_goes_before_it() -> None:
    promoted = placed(ok(), ok(gap(5.0)), ok(gap(4.1)), steering=SteeringState(promoted_to=2), likeness=LIKENESS)
    assert (promoted.standing, promoted.is_hit) == (Standing.SETTLED, True)
    vetoed = placed(ok(), ok(gap(5.0)), steering=SteeringState(vetoed=True, who="me", why="no"), likeness=LIKENESS)
    assert (vetoed.standing, vetoed.reason) == (Standing.VETOED, "vetoed")


GAP = "homo_lumo_gap"
SPARING = ladder_rules(
    TERMS,
    {o.property: o.accept for o in OBJECTIVES},
    2,
    "thresholds",
    "hits",
    spared_by=[frozenset(), frozenset({GAP}), frozenset({GAP})],
)


def with_measured(value: float, *findings: Finding, steering: SteeringState | None = None) -> Place:
    experimental = {GAP: Quantity(value, "eV", 0.1)}
    answers = []
    for i, finding in enumerate(findings):
        answers.append(Answer(Position(i), judge(SPARING[i], finding, experimental), finding.measured))
    return place(SPARING, OBJECTIVES, answers, steering, experimental=experimental)


@given(
    st.floats(1, 8).filter(lambda value: abs(value - 4.0) > 1e-6),
    st.lists(st.one_of(st.floats(0.5, 9), st.sampled_from([TIMEOUT, REFUSED])), max_size=2),
)
def test_a_measured_value_decides_whatever_the_rungs_have_answered(
    value: float, answered: list[float | Finding]
) -> None:
    findings = [finding if isinstance(finding, Finding) else ok(gap(finding)) for finding in answered]
    where = with_measured(value, ok(), *findings)
    assert where.is_hit == (value >= 4.0)
    assert where.standing is (Standing.SETTLED if where.is_hit else Standing.DROPPED)
    assert where.worth is not None and where.worth.basis is Basis.MEASURED
    assert (where.worth.p_hit, where.worth.chance) == ((1.0, 100) if where.is_hit else (0.0, 0))
    if not where.is_hit:
        assert where.reason == Reason.BELOW_WINDOW and " measured, objective 4 ≤ homo_lumo_gap eV" in where.detail


def test_a_measured_value_waits_for_the_fast_rungs_and_a_promotion_waives_it() -> None:
    assert with_measured(2.0).standing is Standing.OPEN
    assert with_measured(5.0, REFUSED).standing is Standing.DROPPED, "a refusal of a fast rung stands"
    assert with_measured(5.0, REFUSED).worth is None
    promoted = with_measured(2.0, ok(), steering=SteeringState(promoted_to=2))
    assert (promoted.standing, promoted.position) == (Standing.OPEN, 2)
    again = with_measured(2.0, ok(), ok(gap(5.0)), ok(gap(5.0)), steering=SteeringState(promoted_to=2))
    assert (again.standing, again.is_hit) == (Standing.SETTLED, False), "the measured value decides all the same"


def test_a_bound_decides_only_on_one_side_of_the_limits() -> None:
    limits = {GAP: Window(4.0, None)}
    below = Quantity(3.0, "eV", censoring=Censoring.BELOW)
    assert decisive(limits, {GAP: below}) == {GAP: below}
    assert decisive(limits, {GAP: Quantity(3.0, "eV", censoring=Censoring.ABOVE)}) == {}
    assert decisive({"logp": None}, {"logp": Quantity(3.0, "1", censoring=Censoring.ABOVE)}) == {}
