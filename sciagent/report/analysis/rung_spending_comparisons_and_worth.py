"""Figures of the ladder: the cost, value and provenance of each rung, and the agreement of neighbouring rungs.

The value of a rung is the value of the open candidates with the rung, minus their value without it. A value of
candidates is their payoff minus their cost, by the scheduler's model and its price of cost at the last fit. A rung that
every candidate has passed or that an objective needs is not valued.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status_and_comparison import LadderWorth, RungWorth
from sciagent.domain.display_units import Units, chosen_unit_of
from sciagent.domain.evidence_keys_and_pooled_replicates import pooled
from sciagent.domain.properties_and_levels import phases_agree, properties
from sciagent.domain.quantities import Quantity, from_canonical
from sciagent.report.parts import campaign_charts
from sciagent.report.parts.best_candidate_cards_and_table import properties_of_spec
from sciagent.report.parts.campaign_figures import ordered_resources, terminal_of
from sciagent.report.parts.rung_and_judge_agreement import PROPERTIES_ON_METHOD_SCALE, Pair, RankAgreement, agreement
from sciagent.report.parts.wording import window, with_unit, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results import laws_and_audits
from sciagent.store.results.evidence import levels_of
from sciagent.store.views import progress_and_comparisons
from sciagent.store.views.progress_and_comparisons import Replicates
from sciagent.store.views.report_queries import booked_costs, has_measured, measured_by, reused_answers
from sciagent.verification.verifier_contract import ChargeClass

MAX_RUNG_CHARTS = 8  # charts of rung against rung
MAX_IMPORTED_CHARTS = 24  # charts of imported values against a rung
WORTHLESS_SHARE = 0.01  # share of the value below which a rung is called worthless
WASTED_FATES = ("no_answer", "inconclusive")


@dataclass(frozen=True)
class Spending:
    """The spending of a campaign, of every resource."""

    by_resource: Mapping[str, Mapping[str, Mapping[str, float]]]
    """{resource: {rung or `proposer`: {fate: amount}}}; a fate is what the cost brought, such as `passed` or
    `no_answer`. Each resource has every rung of the ladder, and nothing is left out but resources without a cost."""

    @property
    def resources(self) -> list[str]:
        """Names of the resources that were spent, the most telling for this campaign first."""
        return list(self.by_resource)

    @property
    def rungs(self) -> list[str]:
        """Labels of the rungs, in ladder order, and `proposer` if the proposers have spent anything."""
        labels: dict[str, None] = {}
        for by_rung in self.by_resource.values():
            labels |= dict.fromkeys(by_rung)
        return list(labels)

    def by_rung(self, resource: str) -> Mapping[str, Mapping[str, float]]:
        """Returns {rung or `proposer`: {fate: amount}} of a resource."""
        return self.by_resource.get(resource, {})

    def total(self, resource: str) -> float:
        """Returns the amount of all rungs and the proposers."""
        return sum(self.cost(rung, resource) for rung in self.by_rung(resource))

    def wasted(self, resource: str) -> float:
        """Returns the amount for jobs that brought no verdict or an inconclusive one."""
        return sum(self.wasted_at(rung, resource) for rung in self.by_rung(resource))

    def cost(self, rung: str, resource: str) -> float:
        """Returns the amount of a rung."""
        return sum(self.by_rung(resource).get(rung, {}).values())

    def wasted_at(self, rung: str, resource: str) -> float:
        """Returns the amount for a rung's jobs that brought no verdict or an inconclusive one."""
        fates = self.by_rung(resource).get(rung, {})
        return sum(fates.get(fate, 0.0) for fate in WASTED_FATES)

    def dearest(self, resource: str) -> str:
        """Returns the rung, or `proposer`, that took most of a resource."""
        return max(self.by_rung(resource), key=lambda rung: self.cost(rung, resource))


def spending(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> Spending:
    """Returns the spending of a campaign. ladder: its rungs, with the control if there is one."""
    names: dict[int | None, str] = {rung.id: rung.name for rung in ladder}
    totals = defaultdict[str, float](float)
    booked = dict[str, dict[str, dict[str, float]]]()
    for rung_id, resource, fate, amount in booked_costs(connection, row):
        name = names.get(rung_id, "proposer")
        by_rung = booked.setdefault(resource, {rung.name: {} for rung in ladder})
        fates = by_rung.setdefault(name, {})
        fates[fate] = fates.get(fate, 0.0) + amount
        totals[resource] += amount
    ordered = ordered_resources(totals, terminal_of(row, ladder))
    return Spending({resource: booked[resource] for resource in ordered})


@dataclass(frozen=True)
class Compared:
    """The comparison of two rungs that measured the same property."""

    property: str
    """The property in words."""
    lower: str
    """Label of the lower rung, or `imported values`."""
    upper: str
    """Label of the upper rung."""
    molecules: str
    """`ions`, or `neutral molecules` where the rungs have measured ions, too; else empty."""
    x_level: str
    """Level of the lower rung's values."""
    y_level: str
    """Level of the upper rung's values."""
    unit: str
    seen: int
    """Number of pairs without a censored value."""
    drawn: int
    """Number of points of the chart."""
    censored: int
    """Number of pairs left out because a value is censored."""
    figures: RankAgreement
    shared_scale: bool
    """Whether values at the two levels can be subtracted."""
    left_out_error: float | None
    """Mean absolute leave-one-out error of the fit, in `unit`, of imported values against a calibrated rung; else None.
    The figures are then of the molecules to which the rung was fitted."""
    chart: str
    """SVG."""


def compared(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Compares each rung with the next that measured the same property, for properties of objectives and gates."""

    def comparisons() -> Iterator[Compared]:
        for name in properties_of_spec(row.spec):
            measuring = [rung for rung in ladder if has_measured(connection, rung, name)]
            for lower, upper in pairwise(measuring):
                yield from _compare(connection, row, lower, upper, name)

    return list(islice(comparisons(), MAX_RUNG_CHARTS))


def compared_with_imports(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[Compared]:
    """Compares imported values with every rung that measured the same property, over candidates that have both."""
    known = progress_and_comparisons.imported_properties(connection, row)
    named_first = [name for name in properties_of_spec(row.spec) if name in known]

    def comparisons() -> Iterator[Compared]:
        for name in dict.fromkeys([*named_first, *known]):
            for rung in ladder:
                yield from _compare(connection, row, lower=None, upper=rung, name=name)

    return list(islice(comparisons(), MAX_IMPORTED_CHARTS))


def _compare(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, name: str
) -> Iterator[Compared]:
    """Yields a comparison for each pair of levels and each class of charge, with replicates pooled. Values in two
    solvents are not compared. lower: None for imported values."""
    unit = chosen_unit_of(name, row.units)
    pairs_by_levels = defaultdict[tuple[int, int], list[tuple[int, Pair | None]]](list)  # None: a value is censored
    for x, y, hit in progress_and_comparisons.replicate_pairs(connection, row, lower, upper, name):
        pair: Pair | None = None
        if not x.is_censored and not y.is_censored:
            x_and_uncertainty = _calibrated(_pooled(x), lower, name, unit)
            y_and_uncertainty = _calibrated(_pooled(y), upper, name, unit)
            pair = Pair(*x_and_uncertainty, *y_and_uncertainty, hit)
        pairs_by_levels[x.level_id, y.level_id].append((x.candidate_id, pair))
    levels = levels_of(connection, set(chain.from_iterable(pairs_by_levels)))
    labels = {id_: level.label for id_, level in levels.items()}
    for (x_level_id, y_level_id), pairs in pairs_by_levels.items():
        if not phases_agree(levels[x_level_id].phase, levels[y_level_id].phase):
            continue
        by_class = _by_charge(connection, pairs)
        for charge, of_class in by_class.items():
            is_named = len(by_class) > 1 or charge is ChargeClass.ION
            known_pairs = [pair for pair in of_class if pair is not None]
            if known_pairs:
                yield _comparison(
                    row,
                    lower,
                    upper,
                    name,
                    molecules=charge.many if is_named else "",
                    x_level=_level(labels[x_level_id], lower, name),
                    y_level=_level(labels[y_level_id], upper, name),
                    pairs=known_pairs,
                    censored=len(of_class) - len(known_pairs),
                    salt=f"{x_level_id}-{y_level_id}-{charge}",
                )


def _by_charge(
    connection: Connection, pairs: Sequence[tuple[int, Pair | None]]
) -> dict[ChargeClass, list[Pair | None]]:
    """Returns the pairs of the neutral molecules, then those of the ions; a class without any is left out.

    pairs: (candidate id, pair).
    """
    charges = progress_and_comparisons.charges(connection, [candidate_id for candidate_id, _ in pairs])
    by_class: dict[ChargeClass, list[Pair | None]] = {ChargeClass.NEUTRAL: [], ChargeClass.ION: []}
    for candidate_id, pair in pairs:
        by_class[ChargeClass.of(charges[candidate_id])].append(pair)
    return {charge: of_class for charge, of_class in by_class.items() if of_class}


def _comparison(
    row: CampaignRow,
    lower: RungRow | None,
    upper: RungRow,
    name: str,
    molecules: str,
    x_level: str,
    y_level: str,
    pairs: Sequence[Pair],
    censored: int,
    salt: str,
) -> Compared:
    """Returns the comparison of the values of one property at two levels. salt: of the levels and the molecules."""
    unit = chosen_unit_of(name, row.units)
    shared = name not in PROPERTIES_ON_METHOD_SCALE
    quantity = with_unit(name, unit)
    lower_name = "imported values" if lower is None else lower.name
    x_label = f"{quantity}, imported" if lower is None else f"{quantity} at {lower.name}"
    return Compared(
        property=words(name),
        lower=lower_name,
        upper=upper.name,
        molecules=molecules,
        x_level=x_level,
        y_level=y_level,
        unit=unit,
        seen=len(pairs),
        drawn=min(len(pairs), campaign_charts.MAX_POINTS),
        censored=censored,
        figures=agreement(np.array([pair.x for pair in pairs]), np.array([pair.y for pair in pairs]), shared),
        shared_scale=shared,
        left_out_error=_left_out_error(upper, name, unit) if lower is None else None,
        chart=campaign_charts.scatter(
            pairs,
            x_label=f"{x_label}, {molecules}" if molecules else x_label,
            y_label=f"{quantity} at {upper.name}",
            x_window=None if lower is None else limits(row, lower, name),
            y_window=limits(row, upper, name),
            # keeps the ids of this chart apart from those of the other charts on the page
            salt=f"{lower_name}-{upper.name}-{name}-{salt}".replace(" ", "-"),
            shared=shared,
        ),
    )


def _left_out_error(rung: RungRow, name: str, unit: str) -> float | None:
    """Returns the mean absolute leave-one-out error of a rung's calibration, in `unit`; None without one."""
    if name not in rung.fits:
        return None
    prop = properties()[name]
    of_fit = Quantity(rung.fits[name].mean_absolute_error, prop.unit)
    return None if prop.conversion(unit) is not None else from_canonical(of_fit, prop, unit).value


def _pooled(replicates: Replicates) -> tuple[float, float | None]:
    """Returns the mean of replicates with its uncertainty."""
    values = [value for value, _ in replicates.values]
    uncertainties = [uncertainty for _, uncertainty in replicates.values]
    return pooled(values, uncertainties)


def _calibrated(
    value: tuple[float, float | None], rung: RungRow | None, name: str, unit: str
) -> tuple[float, float | None]:
    """Returns a rung's (value, uncertainty) of a property in `unit`, calibrated where the rung has a fit.

    rung: None for imported values.
    """
    if rung is None or name not in rung.fits:
        return value
    amount, uncertainty = value
    quantity = rung.fits[name].calibrated_quantity(Quantity(amount, unit, uncertainty))
    return quantity.value, quantity.uncertainty


def _level(label: str, rung: RungRow | None, name: str) -> str:
    """Returns the level of a rung's values of a property; a calibrated rung has a level of its own."""
    if rung is None or name not in rung.fits:
        return label
    return rung.fits[name].level_of(label)


def limits(row: CampaignRow, rung: RungRow, name: str) -> tuple[float | None, float | None] | None:
    """Returns the limits by which a rung judges a property, in the campaign's unit: those of the objective at the rung
    that decides it, else the rung's gate. Returns None without either."""
    spec = row.shown_spec
    accepted = {objective["property"]: objective["accept"] for objective in spec["objectives"]}
    decides = name in rung.decides or rung.name == spec["terminal"]
    edges = accepted.get(name) if decides else None
    if edges is None:
        edges = spec["ladder"][rung.position]["gate"].get(name)
    return None if edges is None else (edges[0], edges[1])


def value_of_rungs(connection: Connection, row: CampaignRow) -> LadderWorth | None:
    """Returns the value that each rung adds to the open candidates; None before a law is fitted."""
    law = laws_and_audits.last(connection, row.id)
    value = None if law is None else law.state.get("value")
    return ladder_worth(value, row.spec["goal"]["kind"]) if value else None


def ladder_worth(value: Mapping[str, Any], goal: str) -> LadderWorth:
    """Returns the value of each rung. value: from the law's state, with `worth` and `without` ({rung: worth})."""
    worth = float(value["worth"])
    brings = {name: max(worth - float(without), 0.0) for name, without in value["without"].items()}
    unit = "hits" if goal == "hits" else "payoff"
    text = f"the candidates ahead are worth {worth:.3g} {unit} beyond what they will cost"
    if brings and worth > 0:
        clauses = []
        for name, gain in brings.items():
            is_worthless = gain <= WORTHLESS_SHARE * worth
            clauses.append(f"{name} looks worthless for them" if is_worthless else f"{name} brings {gain:.2g} of it")
        text += f"; {', '.join(clauses)}"
    rungs = tuple(RungWorth(rung=name, brings=gain) for name, gain in brings.items())
    return LadderWorth(worth=worth, rungs=rungs, words=text)


@dataclass(frozen=True)
class RungProvenance:
    """The verifier of a rung with its settings and engines."""

    rung: RungRow
    given: Mapping[str, Any]
    """The rung of the campaign's spec, in its units: `settings`, `gate`, `on_refusal`."""
    units: Units
    """Units that the campaign chose, by property."""
    engines: dict[str, list[str]]
    """{engine: versions seen in the latest evidence of the rung}."""
    looked_at: int
    """Number of answers from which `engines` was read."""

    @property
    def calibrations(self) -> list[str]:
        """A sentence on each fit of the rung to measured values, also on fits by which no value is calibrated."""
        return [fit.sentence(self.rung.name, self.units.get(name)) for name, fit in self.rung.all_fits.items()]

    @property
    def gate(self) -> list[str]:
        """Windows of the gate as texts, such as `1.3 ≤ HOMO-LUMO gap ≤ 2.8 eV`."""
        return [window(edges, name, chosen_unit_of(name, self.units)) for name, edges in self.given["gate"].items()]


def rung_provenance(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[RungProvenance]:
    """Returns the provenance of each rung of the ladder."""
    provenance = []
    given = row.shown_spec["ladder"]
    for rung in ladder:
        engines = defaultdict[str, set[str]](set)
        evidence = measured_by(connection, rung)
        for versions, _ in evidence:
            for name, version in (versions or {}).items():
                engines[str(name)].add(str(version))
        by_name = {name: sorted(seen_versions) for name, seen_versions in sorted(engines.items())}
        provenance.append(RungProvenance(rung, given[rung.position], row.units, by_name, len(evidence)))
    return provenance


def reused_by_rung(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[tuple[str, str, int]]:
    """Returns (rung, origin, number) of the answers that cost this campaign nothing."""
    labels: dict[int | None, str] = {r.id: r.name for r in ladder}
    reused = []
    for rung_id, name, source, n in reused_answers(connection, row):
        origin = f"file {source}" if source != "computed" else "sciagent verify"
        if name is not None:
            origin = "this campaign, earlier" if name == row.name else f"campaign {name}"
        reused.append((labels.get(rung_id, ""), origin, n))
    return reused
