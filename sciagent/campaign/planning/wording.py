"""A plan in words, and the parts of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sciagent.campaign.planning.inputs import OTHER, SURE, UNKNOWN, Step, asked
from sciagent.campaign.pricing.numeraire import Allowance
from sciagent.campaign.pricing.observations import KNOWN, ObservationSchema
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.domain.answers.plan import Plan, PlanCase, PlanLimit, PlannedRung, RunCost, RungGain, RungTells
from sciagent.domain.cost import RESOURCE_UNITS

LITTLE = 0.02  # of the hits: a rung that brings less looks worthless


class Gain(NamedTuple):
    """Hits with a rung less hits without it, over the range of its correlation."""

    hit_rate: float
    low: float | None
    middle: float | None
    high: float | None
    without: float
    """Hits without the rung."""


def limit_name(allowance: Allowance, spec: CampaignSpec) -> str:
    """As in the YAML."""
    if allowance.rung is not None:
        return f"rungs.{spec.ladder[int(allowance.name.split()[1])].label}"
    return "wall_minutes" if allowance.name == "wall_seconds" else allowance.name


def planned_limit(allowance: Allowance, spec: CampaignSpec) -> PlanLimit:
    unit = "runs" if allowance.rung is not None else RESOURCE_UNITS.get(allowance.resource or "", "1")
    return PlanLimit(name=limit_name(allowance, spec), limit=allowance.limit, unit=unit)


def planned_rung(step: Step, wanted: Sequence[str], gains: Sequence[Gain] | None, is_weighed: bool) -> PlannedRung:
    """wanted: property of each objective. gains: None for the terminal rung."""
    is_terminal = step.rung.rules.is_terminal
    costs = {
        name: RunCost(median=float(np.median(amounts)), p90=float(np.quantile(amounts, 0.9)), unit=RESOURCE_UNITS[name])
        for name, amounts in step.costs.items()
        if len(amounts)
    }
    tells = () if is_terminal else zip(wanted, step.tells, strict=True)
    return PlannedRung(
        rung=step.label,
        verifier=step.rung.verifier.name,
        tier=str(step.rung.verifier.tier),
        is_terminal=is_terminal,
        costs=costs,
        cost_is="declared" if step.factor is None else "learnt",
        cost_ratio=step.factor,
        refuses=step.refuses,
        tells=tuple(
            RungTells(property=name, low=x.low, middle=x.middle, high=x.high, kind=x.kind, why=x.why)
            for name, x in tells
        ),
        delta=tuple(
            RungGain(hit_rate=gain.hit_rate, low=gain.low, middle=gain.middle, high=gain.high) for gain in gains or ()
        ),
        verdict=None if is_terminal else _verdict(step, gains or (), is_weighed),
    )


def _verdict(step: Step, gains: Sequence[Gain], is_weighed: bool) -> str:
    if step.is_needed:
        return "is needed"
    known = [
        (gain.without, gain.low, gain.high)
        for gain in gains
        if gain.middle is not None and gain.low is not None and gain.high is not None
    ]
    known = [(without, low, high) for without, low, high in known if without + high > 0]
    if not is_weighed or not known:
        return "cannot be said"
    if max(_share(high, without) for without, _, high in known) <= LITTLE:
        return "looks worthless"
    return "pays for itself" if min(_share(low, without) for without, low, _ in known) > LITTLE else "cannot be said"


def _share(gain: float, without: float) -> float:
    """The share that a rung's hits are of all hits with it."""
    return gain / (without + gain) if without + gain > 0 else 0.0


def assumptions(plan: Plan, spec: CampaignSpec, schema: ObservationSchema, has_ledger: bool) -> list[str]:
    """What was assumed, a sentence each."""
    return [
        *_of_the_sample(plan, spec),
        *_of_the_rungs(plan, spec, schema),
        *_of_the_campaign(spec, schema, has_ledger),
    ]


def _of_the_sample(plan: Plan, spec: CampaignSpec) -> Iterator[str]:
    rates = " %, ".join(f"{100 * case.hit_rate:g}" for case in plan.cases if case.hit_rate_is == "assumed")
    yield f"The share of candidates that are hits is not known before a start: {rates} % are taken."
    which = "pass the fast rungs" if plan.sample.through_fast_rungs else "can be read; not all fast rungs were asked"
    breeds = any(proposer.kind != "screen" for _, proposer in spec.proposers)
    end = "; what is bred from them may be larger." if breeds else "."
    yield f"Costs are those of the first {plan.sample.molecules} molecules of {plan.sample.source} that {which}{end}"


def _of_the_rungs(plan: Plan, spec: CampaignSpec, schema: ObservationSchema) -> Iterator[str]:
    yield "Rungs and truth are a joint Gaussian, rungs err independently of each other, and no rung fails."
    if plan.first > 0:
        yield f"The first {plan.first:.3g} candidates go up the whole ladder, for the law to learn from."
    if {"unknown", "other"} & {tells.kind for rung in plan.rungs for tells in rung.tells}:
        yield (
            f"Where no correlation is declared, {UNKNOWN[0]:g} to {UNKNOWN[1]:g} is taken for a rung that measures the "
            f"same property, {OTHER[0]:g} to {OTHER[1]:g} for another."
        )
    if any(column.at == KNOWN for column in schema.columns):
        yield "What fast rungs say of the objectives, or decide, is not counted."
    below = enumerate(spec.ladder[: spec.terminal_position])
    if any(rung.window_gates() for position, rung in below if position in schema.paid):
        yield "Gates of paid rungs are not counted: they spare what they drop, and may drop a hit."


def _of_the_campaign(spec: CampaignSpec, schema: ObservationSchema, has_ledger: bool) -> Iterator[str]:
    if len(asked(schema)) > 1:
        yield "The objectives are independent of each other and equally hard to meet."
    if schema.aims.kind != "hits":
        yield "The goal is not a number of hits: a hit stands for a candidate of the best so many per cent."
    if spec.scheduler.kind != "priced":
        yield f"This is what the scheduler priced would buy; the campaign is scheduled by {spec.scheduler.kind}."
    if not has_ledger:
        yield "There is no ledger to learn costs or correlations from."


def sentences(plan: Plan, spec: CampaignSpec) -> list[str]:
    """What follows, a sentence each."""
    if any(case.runs is None for case in plan.cases):
        return ["Nothing in the budget limits what is bought, so nothing can be said of how far it goes."]
    scarce = [
        limit.name
        for limit in plan.limits
        if any(case.used.get(limit.name, 0.0) > SURE * limit.limit for case in plan.cases)
    ]
    end = "The budget holds all that is worth buying for the candidates there will be."
    return [
        *(_case_sentence(case, spec) for case in plan.cases),
        *(_rung_sentence(rung) for rung in plan.rungs if rung.verdict not in (None, "is needed")),
        f"What runs out first: {', '.join(scarce)}." if scarce else end,
    ]


def _case_sentence(case: PlanCase, spec: CampaignSpec) -> str:
    runs, hits, terminal = case.runs or {}, case.hits, spec.terminal
    rate = f"{100 * case.hit_rate:.3g} %" + (" (learnt)" if case.hit_rate_is == "learnt" else "")
    text = (
        f"If {rate} of the candidates are hits: about {_count(hits.middle)} hits "
        f"({_count(hits.low)} to {_count(hits.high)}) from {_count(runs[terminal])} runs of {terminal}"
    )
    others = [f"{_count(n)} of {label}" for label, n in runs.items() if label != terminal]
    text += f" and {', '.join(others)}" if others else ""
    text += f"; {terminal} alone would find {_count(case.terminal_alone)}." if others else "."
    if spec.goal.kind == "hits" and spec.goal.count and (hits.middle or 0.0) >= spec.goal.count:
        text += f" The goal of {spec.goal.count} is then reached before the budget is spent."
    return text


def _rung_sentence(rung: PlannedRung) -> str:
    range_ = extremes(rung.delta)
    if range_ is None:
        return f"{rung.rung}: whether it pays cannot be said."
    low, high = range_
    unsure = rung.verdict == "cannot be said"
    what = f"Whether {rung.rung} pays {rung.verdict}" if unsure else f"{rung.rung} {rung.verdict}"
    return f"{what}: {signed(low)} to {signed(high)} hits, by what it tells and by how many there are."


def _count(n: float | None) -> str:
    return "–" if n is None else f"{n:.2g}" if n < 10 else f"{n:.0f}"


def extremes(gains: Sequence[RungGain]) -> tuple[float, float] | None:
    """Least and most hits that a rung brings; None where that is not known."""
    known = [
        n for gain in gains if gain.middle is not None for n in (gain.low, gain.middle, gain.high) if n is not None
    ]
    return (min(known), max(known)) if known else None


def signed(n: float) -> str:
    """With its sign; what is too small to be anything is 0."""
    return "0" if abs(n) < 0.005 else f"{n:+.2g}" if abs(n) < 10 else f"{n:+.0f}"
