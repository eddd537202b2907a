"""The place of a candidate follows from its answers, in ladder order, and from what people decided."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.judge import Answer, Place, RungTerms, centrality, judge, ladder_rules, place
from sciagent.domain.campaigns.directives import SteeringState
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.evidence import Finding, Measured
from sciagent.domain.jobs.states import Standing
from sciagent.domain.objectives import Direction, Objective, Window
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Censoring, Quantity
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


def placed(*findings: Finding, steering: SteeringState | None = None) -> Place:
    answers = [Answer(Position(i), judge(RULES[i], finding), finding.measured) for i, finding in enumerate(findings)]
    return place(RULES, OBJECTIVES, answers, steering)


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


def test_the_score_below_the_terminal_rung_is_how_central_a_value_lies_in_the_gate() -> None:
    assert placed(ok()).score is None
    assert placed(ok(), ok(gap(5.0))).score == pytest.approx(1.0)
    assert placed(ok(), ok(gap(6.9))).score == pytest.approx(centrality(Window(3.0, 7.0), 6.9))
    assert placed(ok(), ok(gap(5.0)), ok(gap(3.6))).score == pytest.approx(OBJECTIVES[0].desirability(3.6))
