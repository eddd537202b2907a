"""The plan of a campaign before it starts: expected hits within the budget, and the worth of each rung, with ranges.

A rung's correlation with an objective is taken from the law of an earlier campaign with the same rungs, or from the
verifier's declaration; otherwise it is a wide range. `planning.buying` computes the purchases. The worth of a rung is
the number of hits with it minus the number without it, for the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sciagent.campaign.core.build import BuiltLadder, built_ladder
from sciagent.campaign.core.calibrating import LedgerFits, fit_lines, fits_of
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.planning.buying import BudgetProblem, Purchases, buy, warm_up
from sciagent.campaign.planning.inputs import Sample, Step, from_ledger, sample_of, step_of
from sciagent.campaign.planning.wording import assumptions, planned_limit, planned_rung, sentences
from sciagent.campaign.pricing.observations import ObservationSchema, observation_schema
from sciagent.campaign.pricing.priced_campaign import Allowance, allowances
from sciagent.domain.answers.plan import ExpectedHits, Plan, PlanCase, PlanGoal, RungGain
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

RATES = (0.01, 0.05, 0.20)  # assumed shares of hits among the candidates
MOST_RUNGS = 5  # most rungs below the terminal one that are weighed at once


def plan(spec: CampaignSpec, ledger: Ledger | None = None) -> Plan:
    """Returns the answer of `sciagent plan`. ledger: read for learnt costs and laws, never written.

    Raises UsageError if no paid rung measures an objective, or if no molecule can be read.
    """
    fits: LedgerFits = {}
    if ledger is not None:
        with ledger.read() as connection:
            fits = fits_of(connection, spec)
    ladder = built_ladder(spec, fits)
    schema = _schema_of(ladder)
    sample = sample_of(ladder)
    ratios, learnt, rate, source = from_ledger(ledger, ladder, schema)
    steps = tuple(step_of(ladder, schema, i, sample, ratios[p], learnt) for i, p in enumerate(schema.paid))
    problem = _problem(spec, schema, sample, steps)
    limits = tuple(planned_limit(allowance, spec) for allowance in problem.limits)
    shares = [(share, "assumed") for share in RATES] + ([] if rate is None else [(rate, "learnt")])
    bought = [_case(problem, [limit.name for limit in limits], *share) for share in shares]
    gains = {step.label: [_gain(problem, step, *case) for case in bought] for step in problem.steps[:-1]}
    cases = tuple(case for case, _ in bought)
    answer = Plan(
        campaign=spec.campaign,
        scheduler=spec.scheduler.kind,
        goal=PlanGoal(kind=spec.goal.kind, count=spec.goal.count),
        candidates=None if math.isinf(problem.candidates) else problem.candidates,
        sample=sample.about,
        limits=limits,
        first=warm_up(problem),
        rungs=tuple(planned_rung(step, gains.get(step.label, ()), cases) for step in steps),
        cases=cases,
        learnt_from=source,
        calibrations=tuple(fit_lines(spec, fits)),
    )
    assumed = assumptions(answer, spec, schema, ledger is not None)
    return answer.model_copy(update={"assumptions": tuple(assumed), "sentences": tuple(sentences(answer, spec))})


def _schema_of(ladder: BuiltLadder) -> ObservationSchema:
    """Returns the columns that the law would observe. Raises UsageError if no paid rung decides an objective."""
    spec, schema = ladder.spec, observation_schema(ladder)
    if schema is None:
        raise UsageError(
            f'campaign "{spec.campaign}": no paid rung up to "{spec.terminal}" measures an objective; there is nothing '
            "to plan"
        )
    if spec.terminal_position not in schema.paid:
        raise UsageError(f'campaign "{spec.campaign}": its terminal rung answers inside the turn; nothing is bought')
    return schema


def _problem(spec: CampaignSpec, schema: ObservationSchema, sample: Sample, steps: tuple[Step, ...]) -> BudgetProblem:
    """Returns the problem to solve. Of more than `MOST_RUNGS` lower rungs, the lowest unneeded ones are left out."""
    left_out = steps[:-1][: max(0, len(steps) - 1 - MOST_RUNGS)]
    kept = tuple(step for step in steps if step not in left_out or step.is_needed)
    places = [steps.index(step) for step in kept]
    limits = allowances(spec, schema.paid)
    amounts = [[_amount(allowance, steps[place], place) for place in places] for allowance in limits]
    known = schema.trusted | {schema.columns[hint.column].at for hint in schema.aims.hints}
    return BudgetProblem(
        steps=kept,
        limits=limits,
        amounts=np.array(amounts).reshape(-1, len(kept)),
        candidates=math.inf if sample.total is None else sample.total * sample.about.passed,
        trusted=frozenset(places.index(place) for place in known if place in places),
        has_hints=bool(schema.aims.hints),
    )


def _amount(allowance: Allowance, step: Step, place: int) -> float:
    """Returns the mean amount of a limit that one run of a rung takes."""
    if allowance.rung is not None:
        return float(allowance.rung == place)
    amounts = step.costs.get(allowance.resource or "")
    return 0.0 if amounts is None or not len(amounts) else float(amounts.mean())


def _case(problem: BudgetProblem, names: Sequence[str], rate: float, rate_is: str) -> tuple[PlanCase, Purchases | None]:
    """Returns the answer at one share of hits, and the purchases with middle correlations. names: of the limits."""
    low, middle, high = (
        buy(problem, rate, dict.fromkeys(range(len(problem.steps)), end)) for end in ("low", "middle", "high")
    )
    alone = buy(problem.without([step for step in problem.steps[:-1] if not step.is_needed]), rate)
    used = np.zeros(len(names)) if middle is None else problem.amounts @ middle.runs
    prices = [0.0 if middle is None else middle.prices[allowance.name] for allowance in problem.limits]
    labels = [step.label for step in problem.steps]
    case = PlanCase(
        hit_rate=rate,
        hits=ExpectedHits(low=_hits(low), middle=_hits(middle), high=_hits(high)),
        terminal_alone=_hits(alone),
        runs=None if middle is None else dict(zip(labels, map(float, middle.runs), strict=True)),
        used=dict(zip(names, map(float, used), strict=True)),
        price=dict(zip(names, prices, strict=True)),
        hit_rate_is=rate_is,
    )
    return case, middle


def _hits(bought: Purchases | None) -> float | None:
    return None if bought is None else bought.hits


def _gain(problem: BudgetProblem, step: Step, case: PlanCase, bought: Purchases | None) -> RungGain:
    """Returns the hits with a rung minus the hits without it, over the range of its correlation; None if it cannot be
    left out or no limit restricts the purchases. bought: the purchases with middle correlations."""
    place, rate = problem.steps.index(step), case.hit_rate
    without = None if step.is_needed else buy(problem.without([step]), rate)
    if without is None:
        return RungGain(hit_rate=rate, low=None, middle=None, high=None)
    with_it = (buy(problem, rate, {place: "low"}), bought, buy(problem, rate, {place: "high"}))
    low, middle, high = (None if found is None else found.hits - without.hits for found in with_it)
    return RungGain(hit_rate=rate, low=low, middle=middle, high=high)
