"""Predictions of fitted laws for the candidates of a campaign, and their texts.

A law is read as its entry holds it. Answers that the campaign got later do not count, so that a measured candidate has
its prediction beside its value; of a candidate whose own answer the law was fitted to, nothing is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.engine import Connection

from sciagent.campaign.core.value_sources import ValueSource, stored_sources
from sciagent.campaign.law.kept_predictors import KEPT
from sciagent.campaign.law.predictions import AskedStructure, PredictedQuantity
from sciagent.domain.answers.candidate_and_value_answers import PropertyValue
from sciagent.domain.answers.explanation import LawPrediction, LawStory, NearestMeasured, RungStory
from sciagent.domain.display_units import Units, chosen_unit_of, limit_in_chosen_unit, quantity_in_chosen_unit
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.quantities import Quantity
from sciagent.errors import LedgerError
from sciagent.report.parts.rung_and_judge_agreement import stated_objective
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.learning import law_entries
from sciagent.store.learning.law_entries import EntryRow


@dataclass(frozen=True)
class LawReading:
    """The rules by which laws are read for an answer."""

    patience: float | None = None
    """Longest time in seconds for which an answer waits for a law; None: for as long as it takes."""
    hidden: frozenset[Computation] = frozenset()
    """Computations of which the reader must not see values; a law of them is left out."""


READ_ALL = LawReading()
"""All laws are read, as at the command line, where whoever types has the whole ledger."""


@dataclass(frozen=True)
class LawOfCampaign:
    """A law entry whose predictions belong to a campaign."""

    entry: EntryRow
    is_of_campaign: bool
    """Whether a proposer or a filter of the campaign uses it."""
    properties: frozenset[str]
    """Properties of objectives that it predicts at the level that decides them."""


def laws_of(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow]) -> list[LawOfCampaign]:
    """Returns the laws that a campaign uses; if it uses none, the newest of the ledger for each objective, at the level
    that decides it."""
    deciding = stored_sources(ladder)
    used = law_entries.of_campaign(connection, row.id)
    if used:
        return [LawOfCampaign(entry, True, _shared(entry, deciding)) for entry in used]
    found = []
    missing = set(deciding)
    for entry in reversed(law_entries.rows(connection)):
        properties = _shared(entry, deciding) & missing if entry.kind == row.spec["subject"] else frozenset()
        if properties:
            found.append(LawOfCampaign(entry, False, properties))
            missing -= properties
    return found


def _shared(entry: EntryRow, deciding: Mapping[str, ValueSource]) -> frozenset[str]:
    """Returns the properties whose values an entry has from the same computation as a campaign."""
    of_entry = {each["name"]: ValueSource(**each["source"]) for each in entry.summary["quantities"]}
    return frozenset(name for name, source in deciding.items() if of_entry.get(name) == source)


def law_stories(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    asked: AskedStructure,
    rungs: Sequence[RungStory],
    reading: LawReading,
) -> tuple[LawStory, ...]:
    """Returns the predictions of a campaign's laws for a candidate. rungs: its history at each rung."""
    stories = []
    for law in laws_of(connection, row, ladder):
        sources = [ValueSource(**each["source"]) for each in law.entry.summary["quantities"]]
        if any(source.computation in reading.hidden for source in sources):
            continue
        stories.append(_story(connection, row, ladder, law, asked, rungs, reading.patience))
    return tuple(stories)


def _story(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    law: LawOfCampaign,
    asked: AskedStructure,
    rungs: Sequence[RungStory],
    patience: float | None,
) -> LawStory:
    story = LawStory(
        law=law.entry.version, is_of_campaign=law.is_of_campaign, is_ready=False, fault=None, p_hit=None, predictions=()
    )
    try:
        predictor = KEPT.of(connection, law.entry, patience)
    except LedgerError as error:
        return story.model_copy(update={"fault": str(error)})
    if predictor is None:
        return story
    objectives = [stated_objective(each) for each in row.spec["objectives"]]
    [predicted] = predictor.predict([asked], objectives)
    measured = _measured(ladder, rungs)
    shown = [quantity for quantity in predicted.quantities if quantity.name in law.properties]
    is_open = not measured and all(quantity.known is None for quantity in shown)
    predictions = tuple(_prediction(each, row.units, measured.get(each.name)) for each in shown)
    p_hit = predicted.p_hit if is_open else None
    return story.model_copy(update={"is_ready": True, "p_hit": p_hit, "predictions": predictions})


def _measured(ladder: Sequence[RungRow], rungs: Sequence[RungStory]) -> dict[str, PropertyValue]:
    """Returns the values of objectives by the rungs that decide them, in the units of the campaign."""
    stories = {story.rung: story for story in rungs}
    values = {}
    for rung in ladder:
        story = stories.get(rung.name)
        if story is None or story.evidence is None:
            continue
        for value in (*story.evidence.values, *story.calibrated):  # a calibrated value takes the place of its raw one
            if value.property in rung.decides:
                values[value.property] = value
    return values


def _prediction(quantity: PredictedQuantity, units: Units, measured: PropertyValue | None) -> LawPrediction:
    """Returns a prediction in the units of a campaign."""
    name = quantity.name
    is_own_answer = quantity.known is not None
    predicted = quantity_in_chosen_unit(name, Quantity(quantity.value, quantity.unit, quantity.uncertainty), units)
    ends = [limit_in_chosen_unit(name, end, units) for end in (quantity.low, quantity.high)]
    nearest = [
        NearestMeasured(
            structure=each.structure, similarity=each.similarity, value=limit_in_chosen_unit(name, each.value, units)
        )
        for each in quantity.nearest
    ]
    return LawPrediction(
        property=name,
        level=quantity.level,
        unit=chosen_unit_of(name, units),
        is_own_answer=is_own_answer,
        value=None if is_own_answer else predicted.value,
        uncertainty=None if is_own_answer else predicted.uncertainty,
        low=None if is_own_answer else min(ends),
        high=None if is_own_answer else max(ends),
        held=None if quantity.held is None else quantity.held.covered,
        n_held=None if quantity.held is None else quantity.held.n,
        caveat=quantity.caveat,
        nearest=tuple(nearest),
        measured=measured,
    )


def predicted_text(value: float, uncertainty: float, unit: str) -> str:
    """Returns a predicted value with its error, such as `4.21 ± 0.12 eV`.

    The error has two digits: that of a prediction is large, and the interval beside it has more.
    """
    tail = "" if unit == "1" else f" {unit}"
    places = max(1 - math.floor(math.log10(uncertainty)), 0) if uncertainty > 0 else 2
    return f"{value:.{places}f} ± {uncertainty:.{places}f}{tail}"


def interval_text(low: float, high: float) -> str:
    """Returns an interval, such as `3.98 to 4.44`."""
    return f"{low:.3g} to {high:.3g}"


def held_text(covered: float | None, n: int | None, caveat: str | None) -> str:
    """Returns how the intervals of structures as far from all that was measured held, such as `88 % of 120`.

    covered: share of left-out answers in their intervals. n: their number; None if none was left out.
    """
    if n is None:
        return "not calibrated" if caveat is None else "may not hold"
    return "not counted yet" if covered is None else f"{100 * covered:.0f} % of {n}"


def story_texts(story: LawStory, most_nearest: int | None = None) -> list[tuple[str, list[str]]]:
    """Returns for each prediction a text such as `homo_lumo_gap 4.21 ± 0.12 eV, 90 % interval 3.98 to 4.44`, with
    further texts on it. most_nearest: largest number of nearest structures; None for all."""
    texts = []
    for each in story.predictions:
        further = [] if each.is_own_answer else [_held_sentence(each)]
        if each.nearest:
            further.append(f"nearest measured: {nearest_text(each, most_nearest)}")
        texts.append((_prediction_text(each), further))
    return texts


def _prediction_text(each: LawPrediction) -> str:
    """Returns a prediction beside the value that was measured since."""
    if each.value is None or each.uncertainty is None or each.low is None or each.high is None:
        return f"{each.property}: its own answer is among those to which the law was fitted: nothing is predicted"
    predicted = predicted_text(each.value, each.uncertainty, each.unit)
    text = f"{each.property} {predicted}, 90 % interval {interval_text(each.low, each.high)}"
    if each.measured is None:
        return text
    return f"{text}; measured {each.measured}, {_side(each.low, each.measured.value, each.high)}"


def _held_sentence(each: LawPrediction) -> str:
    """Returns how the intervals of such structures held, and why this one may not."""
    held = held_text(each.held, each.n_held, each.caveat)
    if each.held is not None:
        return f"intervals of structures as far from all measured ones held of {held} left-out answers"
    return f"intervals of such structures: {held}{f': {each.caveat}' if each.caveat else ''}"


def nearest_text(prediction: LawPrediction, most: int | None = None) -> str:
    """Returns the nearest measured structures, such as `CCO (0.83): 4.1 eV`. most: their largest number."""
    tail = "" if prediction.unit == "1" else f" {prediction.unit}"
    named = [f"{each.structure} ({each.similarity:.2f}): {each.value:.3g}{tail}" for each in prediction.nearest[:most]]
    return "; ".join(named)


def _side(low: float, value: float, high: float) -> str:
    """Returns on which side of an interval a value lies."""
    if low <= value <= high:
        return "inside"
    return "below" if value < low else "above"
