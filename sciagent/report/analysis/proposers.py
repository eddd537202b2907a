"""The proposers of a campaign side by side: results, costs, and scores of their predictions.

A candidate belongs to the proposer that proposed it first. A proposer's cost is the cost of verifying its candidates
and that of its own turns: tokens, and the fast rungs that run at once. So the figures add up to what the campaign
spent, except for the fast rungs of candidates that people added.

Predictions are scored against the answers of paid rungs.

The score is the CRPS, in the unit of the property; 0 is best. For scale: predicting the answers' mean and standard
deviation every time scores 0.56 of that standard deviation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.proposing.prediction_scores import PredictionRecord, answered, read, stated_in
from sciagent.domain.answers.status import ProposerResults
from sciagent.domain.chosen_units import Units, unit_of
from sciagent.domain.ladder import Tier
from sciagent.domain.properties import properties
from sciagent.report.parts.wording import after_number, cost, many, words
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.views.episodes import (
    costs_of_jobs,
    episode_numbers,
    predictions_made,
    proposal_counts,
    results_by_proposer,
    turns_by_proposer,
)
from sciagent.store.views.progress import ProgressStep, progress_by_proposer

PEOPLE = "people"  # the proposer of proposals without a turn
DRAWN = 6  # lines of the chart
LISTED = 40


COUNTED = [name for name, field in ProposerResults.model_fields.items() if field.annotation is int]


def results(connection: Connection, row: CampaignRow) -> tuple[ProposerResults, ...]:
    """Returns the results of all proposers, sorted by hits, then best utility, then new candidates."""
    figures: dict[str, dict[str, Any]] = {}

    def of(who: str | None) -> dict[str, Any]:
        name = who or PEOPLE
        blank = {"proposer": name, "utility": None, "costs": Counter[str](), "hits_per_core_hour": None}
        return figures.setdefault(name, blank | dict.fromkeys(COUNTED, 0))

    for spent in turns_by_proposer(connection, row):
        of(spent.proposer).update(episodes=spent.episodes, turns=spent.turns)
        of(spent.proposer)["costs"].update(spent.costs)
    for group in proposal_counts(connection, row):
        kind = "duplicates" if group.status == "duplicate" else group.status
        for name in ("proposals", kind, *(["readable"] if group.readable else [])):
            of(group.proposer)[name] += group.n
    paid = next((r.position for r in rungs(connection, row.id) if r.tier != Tier.FAST), 0)
    for got in results_by_proposer(connection, row, paid):
        settled = {"hits": got.hits, "hits_in_seeds": got.hits_in_seeds, "utility": got.utility}
        of(got.proposer).update(settled, verified=got.paid)
    for who, resource, amount in costs_of_jobs(connection, row):
        of(who)["costs"].update({resource: amount})
    for totals in figures.values():
        if seconds := totals["costs"]["core_seconds"]:
            totals["hits_per_core_hour"] = 3600 * totals["hits"] / seconds
    listed = [ProposerResults(**totals) for totals in figures.values()]
    return tuple(sorted(listed, key=lambda m: (-m.hits, -(m.utility or 0.0), -m.new, m.proposer)))


def summary_sentence(figures: ProposerResults, row: CampaignRow) -> str:
    """Returns a sentence on the only proposer of a campaign."""
    hits = f", {many(figures.hits, 'hit')}" if row.has_limits else ""
    seconds = figures.costs.get("core_seconds")
    return (
        f"{many(figures.proposals, 'proposal')}: {figures.new} new, {many(figures.duplicates, 'duplicate')}, "
        f"{figures.refused} refused; {figures.verified} answered by a paid rung{hits}"
        + (f", {cost(seconds)} booked for its candidates and turns" if seconds else "")
    )


def progress(
    connection: Connection, row: CampaignRow, among: Sequence[ProposerResults]
) -> dict[str, list[ProgressStep]]:
    """Returns the chart's lines for at most `DRAWN` of these proposers, in their order; none for a single proposer."""
    if len(among) < 2:
        return {}
    terminal = next(rung for rung in rungs(connection, row.id) if rung.name == row.spec["terminal"])
    steps = {who or PEOPLE: own for who, own in progress_by_proposer(connection, row, terminal).items()}
    drawn = [figures.proposer for figures in among if figures.costs.get("core_seconds") and figures.proposer in steps]
    return {who: steps[who] for who in drawn[:DRAWN]}


BINS = 10  # number of bins over a proposer's episodes


def in_words(name: str, value: float, error: float, units: Units) -> str:
    """Returns a prediction, given in the canonical unit, as `HOMO-LUMO gap 4.2 ± 0.3 eV`, in the unit that the campaign
    chose."""
    value, error = stated_in(name, value, error, units)
    return f"{words(name)} {value:.4g} ± {error:.2g}{after_number(unit_of(name, units))}"


def listed(predicted: Any, units: Units) -> list[str]:
    """Returns the predictions of a proposal in words; those of unknown properties are left out."""
    known = properties()
    return [in_words(name, *stated, units) for name, stated in read(predicted).items() if name in known]


class Bin(NamedTuple):
    """Episodes from `first` to `last`, both included."""

    first: int
    last: int
    record: PredictionRecord


@dataclass
class PredictionAccuracy:
    """The predictions of a property at a rung by a proposer."""

    rung: str
    property: str
    unit: str
    proposer: str
    record: PredictionRecord = field(default_factory=PredictionRecord)
    bins: list[Bin] = field(default_factory=list)
    """The proposer's episodes that have an answer, in order."""


def prediction_scores(connection: Connection, row: CampaignRow) -> list[PredictionAccuracy]:
    """Returns the scores of all predictions, the terminal rung first, then from the highest rung down, by property and
    proposer. The bins of episodes show whether a proposer learns."""
    records: dict[tuple[bool, int, str, str], PredictionAccuracy] = {}
    bins: dict[tuple[tuple[bool, int, str, str], int], Bin] = {}
    spans = episode_numbers(connection, row)
    for rung, name, prediction, *numbers in answered(connection, row, predictions_made(connection, row)):
        who = prediction.proposer or PEOPLE
        key = (rung.name != row.spec["terminal"], -rung.position, name, who)
        if key not in records:
            records[key] = PredictionAccuracy(rung.name, name, unit_of(name, row.units), who)
        first, last = spans.get(who, (0, 0))
        width = math.ceil((last - first + 1) / BINS)
        begin = first if (n := prediction.episode) is None else n - (n - first) % width
        of_bin = bins.setdefault((key, begin), Bin(begin, min(begin + width - 1, last), PredictionRecord())).record
        for record in (records[key].record, of_bin):
            record.add(*numbers)
    for (key, _), episodes in sorted(bins.items()):
        records[key].bins.append(episodes)
    return [accuracy for _, accuracy in sorted(records.items())]
