"""A plan in words, and as the JSON of `sciagent plan`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sciagent.campaign.planning.inputs import OTHER, SURE, UNKNOWN, Step, asked
from sciagent.campaign.pricing.numeraire import Allowance
from sciagent.campaign.pricing.observations import KNOWN, Reading
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.domain.cost import RESOURCE_UNITS

LITTLE = 0.02  # of the hits: a rung that brings less looks worthless


def _name(one: Allowance, spec: CampaignSpec) -> str:
    """As in the YAML."""
    if one.rung is not None:
        return f"rungs.{spec.ladder[int(one.name.split()[1])].label}"
    return "wall_minutes" if one.name == "wall_seconds" else one.name


def case_row(case: Mapping[str, Any], limits: Sequence[Allowance], spec: CampaignSpec) -> dict[str, Any]:
    by_name = {one.name: _name(one, spec) for one in limits}
    renamed = {key: {by_name[k]: v for k, v in case[key].items()} for key in ("used", "price")}
    return {k: renamed.get(k, v) for k, v in case.items() if k != "bought"}


def limit_row(one: Allowance, spec: CampaignSpec) -> dict[str, Any]:
    unit = "runs" if one.rung is not None else RESOURCE_UNITS.get(one.resource or "", "1")
    return {"name": _name(one, spec), "limit": one.limit, "unit": unit}


def rung_row(
    step: Step, wanted: Sequence[str], deltas: Sequence[Mapping[str, Any]] | None, is_weighed: bool
) -> dict[str, Any]:
    """wanted: property of each objective."""
    costs = {
        name: {
            "median": float(np.median(amounts)),
            "p90": float(np.quantile(amounts, 0.9)),
            "unit": RESOURCE_UNITS[name],
        }
        for name, amounts in step.costs.items()
        if len(amounts)
    }
    return {
        "rung": step.label,
        "verifier": step.rung.verifier.name,
        "tier": str(step.rung.verifier.tier),
        "is_terminal": step.rung.rules.is_terminal,
        "costs": costs,
        "cost_is": "declared" if step.factor is None else "learnt",
        "cost_ratio": step.factor,
        "refuses": step.refuses,
        "tells": []
        if step.rung.rules.is_terminal
        else [
            {"property": of, "low": x.low, "middle": x.middle, "high": x.high, "kind": x.kind, "why": x.why}
            for of, x in zip(wanted, step.tells, strict=True)
        ],
        "delta": [{k: v for k, v in one.items() if k != "without"} for one in deltas or ()],
        "verdict": None if step.rung.rules.is_terminal else _verdict(step, deltas, is_weighed),
    }


def _verdict(step: Step, deltas: Sequence[Mapping[str, Any]] | None, is_weighed: bool) -> str:
    if step.is_needed:
        return "is needed"
    known = [one for one in deltas or () if one["middle"] is not None and one["without"] + one["high"] > 0]
    if not is_weighed or not known:
        return "cannot be said"
    share = {
        end: [one[end] / (one["without"] + one[end]) if one["without"] + one[end] > 0 else 0.0 for one in known]
        for end in ("low", "high")
    }
    if max(share["high"]) <= LITTLE:
        return "looks worthless"
    return "pays for itself" if min(share["low"]) > LITTLE else "cannot be said"


def assumptions(found: Mapping[str, Any], spec: CampaignSpec, reading: Reading, has_ledger: bool) -> list[str]:
    sample, kinds = found["sample"], {t["kind"] for r in found["rungs"] for t in r["tells"]}
    rates = " %, ".join(f"{100 * c['hit_rate']:g}" for c in found["cases"] if c["hit_rate_is"] == "assumed")
    said = [
        f"The share of candidates that are hits is not known before a start: {rates} % are taken.",
        f"Costs are those of the first {sample['molecules']} molecules of {sample['from']} that "
        + ("pass the fast rungs" if sample["through_fast_rungs"] else "can be read; not all fast rungs were asked")
        + (
            "; what is bred from them may be larger." if any(one.kind != "screen" for _, one in spec.proposers) else "."
        ),
        "Rungs and truth are a joint Gaussian, rungs err independently of each other, and no rung fails.",
    ]
    if found["first"] > 0:
        said.append(f"The first {found['first']:.3g} candidates go up the whole ladder, for the law to learn from.")
    if "unknown" in kinds or "other" in kinds:
        said.append(
            f"Where no correlation is declared, {UNKNOWN[0]:g} to {UNKNOWN[1]:g} is taken for a rung that measures the "
            f"same property, {OTHER[0]:g} to {OTHER[1]:g} for another."
        )
    if len(asked(reading)) > 1:
        said.append("The objectives are independent of each other and equally hard to meet.")
    if reading.aims.kind != "hits":
        said.append("The goal is not a number of hits: a hit stands for a candidate of the best so many per cent.")
    if any(c.at == KNOWN for c in reading.columns):
        said.append("What fast rungs say of the objectives, or decide, is not counted.")
    if any(r.window_gates() for i, r in enumerate(spec.ladder[: spec.terminal_position]) if i in reading.paid):
        said.append("Gates of paid rungs are not counted: they spare what they drop, and may drop a hit.")
    if spec.scheduler.kind != "priced":
        said.append(f"This is what the scheduler priced would buy; the campaign is scheduled by {spec.scheduler.kind}.")
    if not has_ledger:
        said.append("There is no ledger to learn costs or correlations from.")
    return said


def sentences(found: Mapping[str, Any], spec: CampaignSpec) -> list[str]:
    said = []
    terminal = spec.terminal
    for case in found["cases"]:
        rate = f"{100 * case['hit_rate']:.3g} %" + (" (learnt)" if case["hit_rate_is"] == "learnt" else "")
        if case["runs"] is None:
            return ["Nothing in the budget limits what is bought, so nothing can be said of how far it goes."]
        hits, runs = case["hits"], case["runs"]
        text = (
            f"If {rate} of the candidates are hits: about {_count(hits['middle'])} hits "
            f"({_count(hits['low'])} to {_count(hits['high'])}) from {_count(runs[terminal])} runs of {terminal}"
        )
        others = [f"{_count(n)} of {label}" for label, n in case["runs"].items() if label != terminal]
        text += f" and {', '.join(others)}" if others else ""
        text += f"; {terminal} alone would find {_count(case['terminal_alone'])}." if others else "."
        if spec.goal.kind == "hits" and spec.goal.count and hits["middle"] >= spec.goal.count:
            text += f" The goal of {spec.goal.count} is then reached before the budget is spent."
        said.append(text)
    for rung in found["rungs"]:
        if rung["verdict"] in (None, "is needed"):
            continue
        delta = [d for d in rung["delta"] if d["middle"] is not None]
        if not delta:
            said.append(f"{rung['rung']}: whether it pays cannot be said.")
            continue
        low, high = extremes(delta)
        verdict = rung["verdict"]
        what = f"Whether {rung['rung']} pays {verdict}" if verdict == "cannot be said" else f"{rung['rung']} {verdict}"
        said.append(f"{what}: {signed(low)} to {signed(high)} hits, by what it tells and by how many there are.")
    scarce = [
        one["name"]
        for one in found["limits"]
        if any(c["used"].get(one["name"], 0.0) > SURE * one["limit"] for c in found["cases"])
    ]
    said.append(
        f"What runs out first: {', '.join(scarce)}."
        if scarce
        else "The budget holds all that is worth buying for the candidates there will be."
    )
    return said


def _count(n: float | None) -> str:
    return "–" if n is None else f"{n:.2g}" if n < 10 else f"{n:.0f}"


def extremes(deltas: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Least and most hits that a rung brings."""
    known = [one[end] for one in deltas for end in ("low", "middle", "high") if one[end] is not None]
    return min(known), max(known)


def signed(n: float) -> str:
    """With its sign; what is too small to be anything is 0."""
    return "0" if abs(n) < 0.005 else f"{n:+.2g}" if abs(n) < 10 else f"{n:+.0f}"
