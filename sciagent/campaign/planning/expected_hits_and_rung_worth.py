"""The plan of a campaign before it starts: expected hits within the budget, and the worth of each rung, with ranges.

A rung's correlation with an objective is taken from the law of an earlier campaign with the same rungs, or from the
verifier's declaration; otherwise it is a wide range. `planning.optimal_purchases` computes the purchases. The worth of
a rung is the number of hits with it minus the number without it, for the same budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from sciagent.campaign.core.built_campaign_and_derived_values import BuiltLadder, built_ladder
from sciagent.campaign.core.calibrate_to_imported_values import LedgerFits, fit_lines, fits_of
from sciagent.campaign.core.create_and_open import remembered_laws
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.campaign.planning.optimal_purchases import BudgetProblem, Purchases, buy, n_warm_up_candidates
from sciagent.campaign.planning.plan_inputs import (
    OTHER_CORRELATION,
    UNKNOWN_CORRELATION,
    Sample,
    Step,
    learnt_from_ledger,
    planned_objectives,
    sample_of,
    step_of,
)
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import KNOWN, ObservationSchema, observation_schema
from sciagent.campaign.pricing.pool_law_and_cost_unit import (
    VERIFICATIONS_ALLOWANCE,
    Allowance,
    allowances,
    verification_allowance,
)
from sciagent.domain.answers.plan import (
    ExpectedHits,
    Plan,
    PlanCase,
    PlanGoal,
    PlanLimit,
    PlannedRung,
    RunCost,
    RungGain,
)
from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

WORTHLESS_SHARE = 0.02  # share of all hits below which a rung looks worthless
ZERO_BELOW = 0.005  # numbers of hits that are smaller are shown as 0
SCARCE_SHARE = 0.995  # share of a limit from which it counts as used up
WHOLE_FROM = 10  # numbers of runs and hits that are larger are shown without decimals


def planned_limit(allowance: Allowance, spec: CampaignSpec) -> PlanLimit:
    """Returns a limit of the budget, named as in the YAML."""
    if allowance.name == VERIFICATIONS_ALLOWANCE:
        return PlanLimit(name=allowance.name, limit=allowance.limit, unit="runs")
    if allowance.rung is not None:
        _, position = allowance.name.split()  # the name is `rung POSITION`
        label = spec.ladder[int(position)].rung
        return PlanLimit(name=f"rungs.{label}", limit=allowance.limit, unit="runs")
    name = "wall_minutes" if allowance.name == "wall_seconds" else allowance.name
    return PlanLimit(name=name, limit=allowance.limit, unit=RESOURCE_UNITS.get(allowance.resource or "", "1"))


def planned_rung(step: Step, gains: Sequence[RungGain], cases: Sequence[PlanCase]) -> PlannedRung:
    """Returns the answer on one rung. gains: hits that the rung brings in each case; empty if it is not weighed."""
    rung = step.rung
    is_terminal = step.rung.rules.is_terminal
    costs = {}
    for name, amounts in step.costs.items():
        if len(amounts):
            median = float(np.median(amounts))
            p90 = float(np.quantile(amounts, 0.9)) * step.spread
            costs[name] = RunCost(median=median, p90=p90, unit=RESOURCE_UNITS[name])
    if is_terminal:
        verdict = None
    elif step.is_needed:
        verdict = "is needed"
    else:
        verdict = _verdict(gains, cases)
    return PlannedRung(
        rung=step.label,
        verifier=rung.verifier.name,
        tier=str(rung.verifier.tier),
        is_terminal=is_terminal,
        costs=costs,
        cost_is="declared" if step.factor is None else "learnt",
        cost_ratio=step.factor,
        refuses=step.refuses,
        too_long=step.too_long,
        wall_seconds=None if rung.spec.is_world else rung.limits.wall_seconds,
        tells=() if is_terminal else step.tells,
        delta=tuple(gains),
        verdict=verdict,
    )


def _verdict(gains: Sequence[RungGain], cases: Sequence[PlanCase]) -> str:
    """Returns the verdict on a rung, by the share of all hits that it brings. gains: one for each case, or none."""
    low_shares = []
    high_shares = []
    for gain, case in zip(gains, cases, strict=bool(gains)):
        if gain.low is None or gain.middle is None or gain.high is None or case.hits.middle is None:
            continue
        hits_without = case.hits.middle - gain.middle
        least_hits = hits_without + gain.low
        most_hits = hits_without + gain.high
        if most_hits > 0:
            low_shares.append(gain.low / least_hits if least_hits > 0 else 0.0)
            high_shares.append(gain.high / most_hits)
    if high_shares and max(high_shares) <= WORTHLESS_SHARE:
        return "looks worthless"
    if low_shares and min(low_shares) > WORTHLESS_SHARE:
        return "pays for itself"
    return "cannot be said"


def assumptions(plan: Plan, spec: CampaignSpec, schema: ObservationSchema, has_ledger: bool) -> list[str]:
    """Returns the assumptions of the plan, one sentence each."""
    stated = [*_sample_assumptions(plan, spec), *_rung_assumptions(plan, spec, schema)]
    if not has_ledger:
        stated.append("There is no ledger to learn costs or correlations from.")
    return stated


def _sample_assumptions(plan: Plan, spec: CampaignSpec) -> Iterator[str]:
    rates = " %, ".join(f"{100 * case.hit_rate:g}" for case in plan.cases if case.hit_rate_is == "assumed")
    yield f"The share of candidates that are hits is not known before a start: {rates} % are taken."
    which = "pass the fast rungs" if plan.sample.through_fast_rungs else "can be read; not all fast rungs were asked"
    breeds = any(proposer.kind not in ("screen", "enumerate") for _, proposer in spec.proposers)
    end = "; what is bred from them may be larger." if breeds else "."
    yield "Each row counts as a candidate, also if two are one compound. Answers in the ledger are not used."
    yield f"Costs are those of the first {plan.sample.molecules} candidates of {plan.sample.source} that {which}{end}"


def _rung_assumptions(plan: Plan, spec: CampaignSpec, schema: ObservationSchema) -> Iterator[str]:
    yield "Rungs and truth are a joint Gaussian, rungs err independently of each other, and no rung fails."
    if plan.first > 0:  # candidates that go up the whole ladder first
        yield f"The first {plan.first:.3g} candidates go up the whole ladder, for the law to learn from."
    kinds = {tells.kind for tells in chain.from_iterable(rung.tells for rung in plan.rungs)}
    if kinds & {"unknown", "other"}:
        same_low, same_high = UNKNOWN_CORRELATION
        other_low, other_high = OTHER_CORRELATION
        yield (
            f"Where no correlation is declared, {same_low:g} to {same_high:g} is taken for a rung that measures the "
            f"same property, {other_low:g} to {other_high:g} for another."
        )
    if any(column.at == KNOWN for column in schema.columns):
        yield "What fast rungs say of the objectives, or decide, is not counted."
    inline = [rung.rung for rung in spec.ladder if rung.inline]
    if inline:
        yield f"Inline rungs ({', '.join(inline)}) answer on every candidate; what they cost and drop is not counted."
    below = enumerate(spec.ladder[: spec.terminal_position])
    if any(rung.window_gates() for position, rung in below if position in schema.paid):
        yield "Gates of paid rungs are not counted: they spare what they drop, and may drop a hit."
    yield from _goal_assumptions(plan, spec, schema)


def _goal_assumptions(plan: Plan, spec: CampaignSpec, schema: ObservationSchema) -> Iterator[str]:
    deciding = [rung.rung for rung in plan.rungs if rung.verdict == "is needed"]
    if deciding and spec.goal.kind == "hits":
        yield f"A candidate that misses at {' or '.join(deciding)} gets no later run."
    if len(planned_objectives(schema)) > 1:
        yield "The objectives are independent of each other and equally hard to meet."
    if schema.aims.kind != "hits":
        yield "The goal is not a number of hits: a hit stands for a candidate of the best so many per cent."
    if spec.scheduler.kind != "priced":
        yield f"This is what the scheduler priced would buy; the campaign is scheduled by {spec.scheduler.kind}."


def sentences(plan: Plan, spec: CampaignSpec) -> list[str]:
    """Returns the conclusions of the plan, one sentence each."""
    if any(case.runs is None for case in plan.cases):
        return ["Nothing in the budget limits what is bought, so nothing can be said of how far it goes."]
    scarce = []
    for limit in plan.limits:
        most_used = max(case.used.get(limit.name, 0.0) for case in plan.cases)
        if most_used > SCARCE_SHARE * limit.limit:
            scarce.append(limit.name)
    optional = [rung.rung for rung in plan.rungs if rung.verdict not in (None, "is needed")]
    conclusions = [_case_sentence(case, spec, optional) for case in plan.cases]
    conclusions += [_rung_sentence(rung) for rung in plan.rungs if rung.verdict not in (None, "is needed")]
    if scarce:
        conclusions.append(f"What runs out first: {', '.join(scarce)}.")
    else:
        conclusions.append("The budget holds all that is worth buying for the candidates there will be.")
    return conclusions


def _case_sentence(case: PlanCase, spec: CampaignSpec, optional: Sequence[str]) -> str:
    """Returns the hits of a case. optional: labels of the rungs without which the terminal one could run."""
    runs = case.runs or {}
    hits = case.hits
    terminal = spec.terminal
    rate = f"{100 * case.hit_rate:.3g} %" + (" (learnt)" if case.hit_rate_is == "learnt" else "")
    hit_range = f"({_number_text(hits.low)} to {_number_text(hits.high)})"
    text = (
        f"If {rate} of the candidates are hits: about {_number_text(hits.middle)} hits "
        f"{hit_range} from {_number_text(runs[terminal])} runs of {terminal}"
    )
    others = [f"{_number_text(n)} of {label}" for label, n in runs.items() if label != terminal]
    text += f" and {', '.join(others)}" if others else ""
    text += f"; without {' and '.join(optional)}: {_number_text(case.terminal_alone)}." if optional else "."
    if spec.goal.kind == "hits" and spec.goal.count and (hits.middle or 0.0) >= spec.goal.count:
        text += f" The goal of {spec.goal.count} is then reached before the budget is spent."
    return text


def _rung_sentence(rung: PlannedRung) -> str:
    hits = gain_text(rung.delta)
    if hits is None:
        return f"{rung.rung}: whether it pays cannot be said."
    what = f"{rung.rung} {rung.verdict}"
    if rung.verdict == "cannot be said":
        what = f"Whether {rung.rung} pays {rung.verdict}"
    return f"{what}: {hits} hits, by what it tells and by how many there are."


def _number_text(n: float | None) -> str:
    """Returns a number of runs or hits as a text."""
    if n is None:
        return "–"
    return f"{n:.2g}" if n < WHOLE_FROM else f"{n:.0f}"


def gain_text(gains: Sequence[RungGain]) -> str | None:
    """Returns the least and the most hits that a rung brings, such as `-1 to +3`; None if unknown."""
    known = list[float]()
    for gain in gains:
        if gain.middle is not None:
            known.extend(hits for hits in (gain.low, gain.middle, gain.high) if hits is not None)
    return f"{_signed(min(known))} to {_signed(max(known))}" if known else None


def _signed(n: float) -> str:
    """Returns a number as a text with its sign."""
    if abs(n) < ZERO_BELOW:
        return "0"
    return f"{n:+.2g}" if abs(n) < WHOLE_FROM else f"{n:+.0f}"


ASSUMED_HIT_RATES = (0.01, 0.05, 0.20)  # assumed shares of hits among the candidates
MAX_WEIGHED_RUNGS = 5  # most rungs below the terminal one that are weighed at once


def plan(spec: CampaignSpec, ledger: Ledger | None = None) -> Plan:
    """Returns the answer of `sciagent plan`. ledger: read for learnt costs and laws, never written.

    Raises UsageError if no paid rung measures an objective, if no molecule can be read, or if a law that the campaign
    is to remember has values of another level.
    """
    fits: LedgerFits = {}
    if ledger is not None:
        with ledger.read() as connection:
            fits = fits_of(connection, spec)
    ladder = built_ladder(spec, fits)
    if ledger is not None:
        with ledger.read() as connection:
            remembered_laws(connection, spec, ladder.rungs)
    schema = _schema_of(ladder)
    sample = sample_of(ladder)
    ratios, correlations, rate, source = learnt_from_ledger(ledger, ladder, schema)
    all_steps = []
    for index, position in enumerate(schema.paid):
        all_steps.append(step_of(ladder, schema, index, sample, ratios=ratios[position], learnt=correlations))
    steps = tuple(all_steps)
    problem = _problem(spec, schema, sample, steps)
    limits = tuple(planned_limit(allowance, spec) for allowance in problem.limits)
    limit_names = [limit.name for limit in limits]
    cases_with_purchases = [_case(problem, limit_names, assumed_rate, "assumed") for assumed_rate in ASSUMED_HIT_RATES]
    if rate is not None:
        cases_with_purchases.append(_case(problem, limit_names, rate, "learnt"))
    gains: dict[str, list[RungGain]] = {}
    for step in problem.steps[:-1]:
        gains[step.label] = [_gain(problem, step, case, purchases) for case, purchases in cases_with_purchases]
    cases = tuple(case for case, _ in cases_with_purchases)
    answer = Plan(
        campaign=spec.campaign,
        scheduler=spec.scheduler.kind,
        goal=PlanGoal(kind=spec.goal.kind, count=spec.goal.count),
        candidates=None if math.isinf(problem.candidates) else problem.candidates,
        sample=sample.about,
        limits=limits,
        first=n_warm_up_candidates(problem),
        rungs=tuple(planned_rung(step, gains.get(step.label, ()), cases) for step in steps),
        cases=cases,
        learnt_from=source,
        calibrations=tuple(fit_lines(spec, fits)),
    )
    assumed = assumptions(answer, spec, schema, ledger is not None)
    stated = (*sentences(answer, spec), *_beyond_budget(steps, spec))
    return answer.model_copy(update={"assumptions": tuple(assumed), "sentences": stated})


def _beyond_budget(steps: Sequence[Step], spec: CampaignSpec) -> Iterator[str]:
    """Yields a sentence for each limit that does not hold the replicates of one candidate: such a rung is not begun."""
    stocks = spec.budget.stocks()
    for step in steps:
        n_jobs = step.rung.spec.tasks_per_candidate
        if n_jobs == 1:
            continue
        measurements = f"The budget does not hold the {n_jobs} measurements of one candidate by {step.label}"
        n_runs = spec.budget.rungs.get(step.label, n_jobs)
        if n_runs < n_jobs:
            yield f"{measurements}: it has {n_runs} runs."
        for name, amounts in step.costs.items():
            if name in stocks and len(amounts) and amounts.min() > stocks[name]:
                yield f"{measurements}: they take {amounts.min():g} {name}, and it has {stocks[name]:g}."


def _schema_of(ladder: BuiltLadder) -> ObservationSchema:
    """Returns the columns that the law would observe. Raises UsageError if no paid rung decides an objective."""
    spec = ladder.spec
    schema = observation_schema(ladder)
    if schema is None:
        raise UsageError(
            f'campaign "{spec.campaign}": no paid rung up to "{spec.terminal}" measures an objective; there is nothing '
            "to plan"
        )
    if spec.terminal_position not in schema.paid:
        raise UsageError(f'campaign "{spec.campaign}": its terminal rung answers inside the turn; nothing is bought')
    return schema


def _problem(spec: CampaignSpec, schema: ObservationSchema, sample: Sample, steps: tuple[Step, ...]) -> BudgetProblem:
    """Returns the problem to solve. Above `MAX_WEIGHED_RUNGS` lower rungs, the lowest unneeded ones are left out."""
    n_too_many = max(0, len(steps) - 1 - MAX_WEIGHED_RUNGS)
    lowest = steps[:n_too_many]
    weighed_steps = tuple(step for step in steps if step not in lowest or step.is_needed)
    places = [steps.index(step) for step in weighed_steps]
    limits = allowances(spec, schema.paid)
    verifications = verification_allowance(spec, schema.paid)
    if verifications is not None:
        limits = (*limits, verifications)
    amounts = []
    for allowance in limits:
        amounts.append([_amount(allowance, steps[place], place) for place in places])
    trusted = schema.trusted | {schema.columns[hint.column].at for hint in schema.aims.hints}
    return BudgetProblem(
        steps=weighed_steps,
        limits=limits,
        amounts=np.array(amounts).reshape(-1, len(weighed_steps)),
        candidates=math.inf if sample.total is None else sample.total * sample.about.passed,
        trusted=frozenset(places.index(place) for place in trusted if place in places),
        has_hints=bool(schema.aims.hints),
    )


def _amount(allowance: Allowance, step: Step, place: int) -> float:
    """Returns the mean amount of a limit that one run of a rung takes."""
    if allowance.rung is not None:
        return float(allowance.rung == place)
    amounts = step.costs.get(allowance.resource or "")
    return 0.0 if amounts is None or not len(amounts) else float(amounts.mean())


def _case(problem: BudgetProblem, names: Sequence[str], rate: float, rate_is: str) -> tuple[PlanCase, Purchases | None]:
    """Returns the answer at one share of hits, and the purchases with middle correlations.

    names: names of the limits.
    """
    places = range(len(problem.steps))
    low = buy(problem, rate, dict.fromkeys(places, "low"))
    middle = buy(problem, rate, dict.fromkeys(places, "middle"))
    high = buy(problem, rate, dict.fromkeys(places, "high"))
    unneeded_steps = [step for step in problem.steps[:-1] if not step.is_needed]
    alone = buy(problem.without(unneeded_steps), rate)
    used = np.zeros(len(names)) if middle is None else problem.amounts @ middle.runs
    prices = [0.0 if middle is None else middle.prices[allowance.name] for allowance in problem.limits]
    labels = [step.label for step in problem.steps]
    case = PlanCase(
        hit_rate=rate,
        hits=_expected(_hits(low), _hits(middle), _hits(high)),
        terminal_alone=_hits(alone),
        runs=None if middle is None else dict(zip(labels, map(float, middle.runs), strict=True)),
        used=dict(zip(names, map(float, used), strict=True)),
        price=dict(zip(names, prices, strict=True)),
        hit_rate_is=rate_is,
    )
    return case, middle


def _expected(low: float | None, middle: float | None, high: float | None) -> ExpectedHits:
    """Returns the expected hits, in order: the programmes are read on a grid, which may turn equal numbers around."""
    if low is None or middle is None or high is None:
        return ExpectedHits(low=low, middle=middle, high=high)
    return ExpectedHits(low=min(low, middle), middle=middle, high=max(middle, high))


def _hits(bought: Purchases | None) -> float | None:
    """Returns the expected hits of purchases; None if no limit restricts them."""
    return None if bought is None else bought.hits


def _gain(problem: BudgetProblem, step: Step, case: PlanCase, bought: Purchases | None) -> RungGain:
    """Returns the hits with a rung minus the hits without it, over the range of its correlation.

    The hits are None if the rung cannot be left out or no limit restricts the purchases. bought: the purchases with
    middle correlations.
    """
    place = problem.steps.index(step)
    rate = case.hit_rate
    without = None if step.is_needed else buy(problem.without([step]), rate)
    if without is None:
        return RungGain(hit_rate=rate, low=None, middle=None, high=None)
    low = buy(problem, rate, {place: "low"})
    high = buy(problem, rate, {place: "high"})
    return RungGain(
        hit_rate=rate,
        low=None if low is None else low.hits - without.hits,
        middle=None if bought is None else bought.hits - without.hits,
        high=None if high is None else high.hits - without.hits,
    )
