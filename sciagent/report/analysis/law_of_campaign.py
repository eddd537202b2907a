"""The law of a campaign in its report: predictions beside what was measured after them, and what drives the law.

A law entry that the campaign uses was there before its answers, so that its predictions are those that were said. The
proposer `law` without an entry fits its law anew in each turn and keeps no chance; the report then fits it once more to
the answers as they stand, and says so. A filter keeps the chance of each proposal, which is compared with its hits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.value_sources import stored_sources
from sciagent.campaign.law.fit_law import CampaignValues, fit_law
from sciagent.campaign.law.kept_predictors import KEPT
from sciagent.campaign.law.law_entries import QuantityLaw
from sciagent.campaign.law.predictions import CheckedValue, LawPredictor, QuantityCheck
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.display_units import Units, chosen_unit_of, limit_in_chosen_unit
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.units import with_powers
from sciagent.errors import LedgerError, UsageError
from sciagent.report.parts.campaign_figures import terminal_of
from sciagent.report.parts.law_charts import drawn_chances, drawn_values
from sciagent.report.parts.law_predictions import LawOfCampaign, laws_of
from sciagent.report.parts.rung_and_judge_agreement import exact_values, stated_objective
from sciagent.report.parts.wording import many, words
from sciagent.scheduling.law.law_drivers import EnvironmentWeight, at_the_middle, environment_weights, with_and_without
from sciagent.scheduling.law.left_out_calibration import chance_bins
from sciagent.scheduling.law.structure_process import StructureMemory
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results import candidates, laws_and_audits, pooled_replicates
from sciagent.store.views.campaign_counts_and_remarks import has_filter
from sciagent.store.views.report_queries import said_chances

MOST_READ = 1000  # candidates whose answers are compared, and to which a law is fitted: the first ones
MOST_DRAWN = 6  # answers and environments of a quantity that are drawn
BIN_SIZE = 50  # candidates of a bin of chances


@dataclass(frozen=True)
class DrawnCheck:
    """The predictions of a quantity beside its measured values."""

    property: str
    n: int
    chart: str
    """An `svg` element."""
    words: str
    """A sentence that says how the intervals held, with the median error."""


@dataclass(frozen=True)
class LawDriver:
    """A structure that drives a law, or one in which an atom environment is marked that does."""

    picture: str
    """An `svg` element; empty if it cannot be drawn."""
    text: str
    """The structure, as people read it."""
    effect: str
    """The part of a prediction that comes from it, such as `+0.42 eV`: for an answer, of its own structure; for an atom
    environment, of a structure that has it once."""
    detail: str


@dataclass(frozen=True)
class QuantityDrivers:
    """The answers and atom environments that drive the law of a quantity."""

    property: str
    answers: tuple[LawDriver, ...]
    environments: tuple[LawDriver, ...]


@dataclass(frozen=True)
class LawSection:
    """The section of a report on a law that the campaign used."""

    title: str
    notes: tuple[str, ...]
    checks: tuple[DrawnCheck, ...]
    drivers: tuple[QuantityDrivers, ...]


@dataclass(frozen=True)
class SaidChances:
    """The chances that a filter said of what it let through, beside its hits."""

    chart: str
    words: str


def uses_law(proposer: object) -> bool:
    """Returns whether a proposer is `law`, or has a filter, or one of several. proposer: as the stored spec has it."""
    if not isinstance(proposer, Mapping):
        return False
    parts = proposer.get("proposers")
    if isinstance(parts, Mapping):
        return any(uses_law(part) for part in parts.values())
    return proposer.get("kind") == "law" or has_filter(proposer)


def law_sections(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[LawSection]:
    """Returns a section for each law entry that a campaign uses; for one that fits its own law, the section of a law
    that is fitted to its present answers. ladder: without the control."""
    laws = [law for law in laws_of(connection, row, ladder) if law.is_of_campaign]
    if laws:
        return [_of_entry(connection, row, ladder, law) for law in laws]
    if not uses_law(row.spec.get("proposer")):
        return []
    return [_of_own_answers(connection, row, ladder)]


def _ids(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[int]:
    """Returns the ids of the first candidates that a deciding rung has answered."""
    lowest = min(rung.position for rung in ladder if rung.decides)
    return laws_and_audits.ids_with_answers_at(connection, row.id, lowest, MOST_READ)


def stored_values(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], ids: Sequence[int]
) -> CampaignValues:
    """Returns the values of some candidates as `fit_law.campaign_values` does, but from the rows of the ledger alone:
    no verifier needs to be installed."""
    subject = subject_of(row.spec["subject"])
    known = candidates.load(connection, ids)
    values: dict[str, dict[str, tuple[str, float]]] = {}
    levels = dict[str, tuple[str, str]]()
    for rung in ladder:
        of_rung = exact_values(connection, rung, ids) if rung.decides else {}
        for name in rung.decides:
            levels[name] = (properties()[name].unit, rung.name)
            values[name] = {
                known[id_].key: (subject.notation(known[id_]), of_candidate[name])
                for id_, of_candidate in of_rung.items()
                if name in of_candidate
            }
    charges = {candidate.key: candidate.charge for candidate in known.values()}
    sources = stored_sources(ladder)
    return CampaignValues(row.name, subject.name, row.created_at, sources, levels, values, charges)


def _of_entry(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], law: LawOfCampaign) -> LawSection:
    title = f"The law {law.entry.version}"
    try:
        predictor = KEPT.of(connection, law.entry)
    except LedgerError as error:
        return LawSection(title, (f"It cannot be read: {error}.",), (), ())
    assert predictor is not None  # there is time to wait for it
    ids = _ids(connection, row, ladder)
    old = set[int]()
    for rung in ladder:
        if rung.decides:
            old |= set(pooled_replicates.answered_until(connection, ids, rung.computation, row.created_at))
    new = [id_ for id_ in ids if id_ not in old]
    values = stored_values(connection, row, ladder, new)
    found = predictor.check([(values, [stated_objective(each) for each in row.spec["objectives"]])])
    checks = [_drawn_check(check, row.units, law.entry.hash) for check in found.quantities]
    notes = [
        "Its predictions are those of the entry that the campaign began with; the campaign's own answers do not count."
    ]
    if old or found.known:
        left_out = many(len(old) + found.known, "candidate")
        notes.append(f"Left out: {left_out} with an answer before, or to whose answer the law was fitted.")
    if not checks:
        notes.append("Nothing has been measured yet that it predicted.")
    return LawSection(title, tuple(notes), tuple(checks), _drivers(predictor, row))


def _of_own_answers(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> LawSection:
    title = "The law, fitted to the present answers"
    ids = _ids(connection, row, ladder)
    notes = [
        "The law of a turn is not kept, nor are its chances. Here it is fitted once more to the campaign's own answers "
        "as they stand, without those of other campaigns that it may remember, so that it knows more than it did."
    ]
    try:
        entry = fit_law([stored_values(connection, row, ladder, ids)])
    except UsageError as error:
        return LawSection(title, (*notes, f"No law can be fitted: {error.text}."), (), ())
    checks = [_left_out_words(law) for law in entry.quantities if law.calibration.groups]
    notes += checks
    return LawSection(title, tuple(notes), (), _drivers(LawPredictor(entry, subject_of(entry.kind)), row))


def _left_out_words(law: QuantityLaw) -> str:
    held = law.calibration
    covered = "too few to count" if held.covered is None else f"{100 * held.covered:.0f} %"
    unit = "" if law.unit == "1" else f" {law.unit}"
    error = "" if held.median_error is None else f", median error {held.median_error:.2g}{unit}"
    return (
        f"{words(law.name)}: each family of structures foretold by the others: {covered} of {held.n} answers in their "
        f"90 % intervals{error}."
    )


def _drawn_check(check: QuantityCheck, units: Units, salt: str) -> DrawnCheck:
    """Returns the chart of a quantity in the unit of the campaign."""

    def converted(value: float) -> float:
        return limit_in_chosen_unit(check.name, value, units)

    points = []
    for each in check.values:
        ends = sorted((converted(each.low), converted(each.high)))
        points.append(CheckedValue(each.structure, converted(each.measured), converted(each.value), *ends))
    unit = chosen_unit_of(check.name, units)
    shown = replace(check, name=words(check.name), unit=unit, values=tuple(points))
    n_inside = sum(each.low <= each.measured <= each.high for each in points)
    error = float(np.median([abs(each.measured - each.value) for each in points]))
    tail = "" if unit == "1" else f" {with_powers(unit)}"
    text = f"{n_inside} of {len(points)} values lie in their 90 % intervals, median error {error:.2g}{tail}"
    return DrawnCheck(words(check.name), len(points), drawn_values(shown, f"law-{salt[:8]}-{check.name}"), text)


def _drivers(predictor: LawPredictor, row: CampaignRow) -> tuple[QuantityDrivers, ...]:
    """Returns what drives the law of each quantity that is an objective of the campaign."""
    wanted = {each["property"] for each in row.spec["objectives"]}
    subject = subject_of(predictor.entry.kind)
    drivers = []
    for law in predictor.entry.quantities:
        if law.name in wanted:
            memory = law.memory(subject)
            drivers.append(_quantity_drivers(law, memory, subject, row.units))
    return tuple(drivers)


def _quantity_drivers(law: QuantityLaw, memory: StructureMemory, subject: Subject, units: Units) -> QuantityDrivers:
    with_it, without_it = with_and_without(memory)
    change = np.abs(memory.fresh.transform(with_it) - memory.fresh.transform(without_it))
    order = np.argsort(-np.round(change, 9), kind="stable")[:MOST_DRAWN]
    answers = []
    for place in order.tolist():
        candidate = law.rows[place]
        without = _amount(law, float(without_it[place]), units)
        predicted = _amount(law, float(with_it[place]), units)
        answers.append(
            LawDriver(
                picture=subject.drawing(candidate.notation),
                text=subject.shown(candidate.notation),
                effect=f"{without} → {predicted}",
                detail=f"measured {_amount(law, candidate.value, units)}",
            )
        )
    structures = [subject.structure(candidate.notation) for candidate in law.rows]
    environments = list[LawDriver]()
    shown = set[tuple[int, int]]()  # environments in the same structures tell the same
    for each in environment_weights(memory, structures):
        if len(environments) == MOST_DRAWN:
            break
        environment = None if (each.n, each.example) in shown else _environment(law, memory, subject, each, units)
        if environment is not None:
            shown.add((each.n, each.example))
            environments.append(environment)
    return QuantityDrivers(words(law.name), tuple(answers), tuple(environments))


def _environment(
    law: QuantityLaw, memory: StructureMemory, subject: Subject, found: EnvironmentWeight, units: Units
) -> LawDriver | None:
    """Returns an atom environment in the first structure that has it; None if it cannot be drawn."""
    notation = law.rows[found.example].notation
    picture = subject.fragment_drawing(notation, found.feature)
    if not picture:
        return None
    middle, moved = (limit_in_chosen_unit(law.name, each, units) for each in at_the_middle(memory, found.weight))
    effect = f"{moved - middle:+.2g}{_tail(law, units)}"
    detail = f"in {found.n} of {len(law.rows)} structures, here in {subject.shown(notation)}"
    return LawDriver(picture, "", effect, detail)


def _amount(law: QuantityLaw, value: float, units: Units) -> str:
    """Returns a value of a law with the unit of the campaign."""
    return f"{limit_in_chosen_unit(law.name, value, units):.3g}{_tail(law, units)}"


def _tail(law: QuantityLaw, units: Units) -> str:
    unit = chosen_unit_of(law.name, units)
    return "" if unit == "1" else f" {with_powers(unit)}"


def chances_of_filter(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> SaidChances | None:
    """Returns the chances that filters said of what they let through, beside the hits; None without any answered, and
    without limits."""
    if not row.has_limits or not has_filter(row.spec.get("proposer")):
        return None
    said = said_chances(connection, row, terminal_of(row, ladder).position)
    if not said:
        return None
    bins = chance_bins(np.array([chance for chance, _ in said]), np.array([hit for _, hit in said]), BIN_SIZE)
    mean = float(np.mean([chance for chance, _ in said]))
    n_hits = sum(hit for _, hit in said)
    text = f"{many(len(said), 'answered candidate')}: mean chance {mean:.2f}, share of hits {n_hits / len(said):.2f}"
    return SaidChances(drawn_chances(bins, "law-said"), text)
