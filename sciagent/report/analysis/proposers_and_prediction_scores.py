"""The proposers of a campaign side by side: results, costs, and scores of their predictions.

A candidate belongs to the proposer that proposed it first. A proposer's cost is the cost of verifying its candidates
and of its own turns: tokens, and the fast rungs that run at once. So the costs of all proposers add up to what the
campaign spent, except for the fast rungs of candidates that people added.

Predictions are scored against the answers of paid rungs. The score is the CRPS, in the unit of the property; 0 is best.
For scale: to predict the answers' mean and standard deviation every time scores 0.56 of that standard deviation.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.proposing.prediction_scores import PredictionRecord, answered, read_predictions, stated_in
from sciagent.domain.answers.figures import Figure
from sciagent.domain.answers.status_and_comparison import ProposerResults
from sciagent.domain.display_units import Units, chosen_unit_of
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.report.parts.campaign_figures import reached_against, terminal_of
from sciagent.report.parts.wording import after_number, amounts, many, words
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.engine import db_now
from sciagent.store.views.progress_and_comparisons import progress_by_proposer
from sciagent.store.views.report_episodes_and_proposers import (
    ProposalCount,
    costs_of_jobs,
    episode_numbers,
    predictions_made,
    proposal_counts,
    results_by_proposer,
    turns_by_proposer,
)

PEOPLE = "people"  # the proposer of proposals without a turn
MAX_LINES = 6  # lines of the chart
LISTED = 40  # largest number of proposers that a report lists
COUNT_FIELDS = [name for name, field in ProposerResults.model_fields.items() if field.annotation is int]
"""The fields of `ProposerResults` that are numbers of something."""


def results(connection: Connection, row: CampaignRow) -> tuple[ProposerResults, ...]:
    """Returns the results of all proposers, sorted by hits, then best utility, then new candidates."""
    fields_by_proposer: dict[str, dict[str, Any]] = {}

    def fields_of(proposer: str | None) -> dict[str, Any]:
        """Returns the fields of a proposer, which are 0 at first. proposer: None for people."""
        name = proposer or PEOPLE
        if name not in fields_by_proposer:
            empty = {"proposer": name, "utility": None, "costs": Counter[str](), "hits_per_core_hour": None}
            fields_by_proposer[name] = empty | dict.fromkeys(COUNT_FIELDS, 0)
        return fields_by_proposer[name]

    for turns in turns_by_proposer(connection, row):
        fields = fields_of(turns.proposer)
        fields.update(episodes=turns.episodes, turns=turns.turns)
        fields["costs"].update(turns.costs)
    for group in proposal_counts(connection, row):
        fields = fields_of(group.proposer)
        for name, n in _counted(group).items():
            fields[name] += n
    paid_positions = [rung.position for rung in rungs(connection, row.id) if rung.tier != Tier.FAST]
    first_paid = paid_positions[0] if paid_positions else 0
    for result in results_by_proposer(connection, row, first_paid):
        fields = fields_of(result.proposer)
        fields.update(hits=result.hits, hits_in_seeds=result.hits_in_seeds, utility=result.utility)
        fields["verified"] = result.paid
    for proposer, resource, amount in costs_of_jobs(connection, row):
        fields_of(proposer)["costs"].update({resource: amount})
    for fields in fields_by_proposer.values():
        fields["hits_per_core_hour"] = _per_core_hour(fields["hits"], fields["costs"]["core_seconds"])
    listed = [ProposerResults(**fields) for fields in fields_by_proposer.values()]
    return tuple(
        sorted(listed, key=lambda result: (-result.hits, -(result.utility or 0.0), -result.new, result.proposer))
    )


def _counted(group: ProposalCount) -> Counter[str]:
    """Returns the numbers that proposals of one status add to fields of `ProposerResults`."""
    # the other statuses are names of fields
    counted = Counter({"duplicates" if group.status == "duplicate" else group.status: group.n})
    if group.status != FILTERED:
        counted["proposals"] += group.n
        counted["readable"] += group.n if group.readable else 0
    return counted


def _per_core_hour(hits: int, core_seconds: float) -> float | None:
    """Returns the hits per core-hour; None without a cost."""
    return 3600 * hits / core_seconds if core_seconds else None


def summary_sentence(figures: ProposerResults, row: CampaignRow) -> str:
    """Returns a sentence on the only proposer of a campaign."""
    hits = f", {many(figures.hits, 'hit')}" if row.has_limits else ""  # without limits nothing is a hit
    dropped = f", and {figures.filtered} filtered by the law" if figures.filtered else ""
    costs = amounts({resource: booked for resource, booked in figures.costs.items() if booked})
    booked = f", {costs} booked for its candidates and turns" if costs else ""
    return (
        f"{many(figures.proposals, 'proposal')}: {figures.new} new, {many(figures.duplicates, 'duplicate')}, "
        f"{figures.refused} refused{dropped}; {figures.verified} answered by a paid rung{hits}{booked}"
    )


def figure_by_proposer(
    connection: Connection, row: CampaignRow, among: Sequence[ProposerResults], resource: str
) -> list[Figure]:
    """Returns the figure of what at most `MAX_LINES` of these proposers found against a resource, in their order; none
    for a single proposer."""
    if len(among) < 2:
        return []
    terminal = terminal_of(row, rungs(connection, row.id))
    found = progress_by_proposer(connection, row, terminal, resource)
    steps_by_proposer = {proposer or PEOPLE: steps for proposer, steps in found.items()}
    with_cost = [figures.proposer for figures in among if figures.costs.get(resource)]
    drawn = [proposer for proposer in with_cost if proposer in steps_by_proposer][:MAX_LINES]
    lines = {proposer: steps_by_proposer[proposer] for proposer in drawn}
    return reached_against(resource, row, terminal, lines, db_now(connection), of_what=" for the proposer")


MAX_BINS = 10  # bins over a proposer's episodes


def in_words(name: str, value: float, error: float, units: Units) -> str:
    """Returns a prediction, given in the canonical unit, as `HOMO-LUMO gap 4.2 ± 0.3 eV`, in the unit that the campaign
    chose."""
    value, error = stated_in(name, value, error, units)
    return f"{words(name)} {value:.4g} ± {error:.2g}{after_number(chosen_unit_of(name, units))}"


def listed(predicted: Any, units: Units) -> list[str]:
    """Returns the predictions of a proposal in words; those of unknown properties are left out."""
    known = properties()
    texts = []
    for name, (value, error) in read_predictions(predicted).items():
        if name in known:
            texts.append(in_words(name, value, error, units))
    return texts


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
    """The bins of the proposer's episodes that have an answer, in order."""


SortKey = tuple[bool, int, str, str]
"""(whether the rung is not the terminal one, its position with a minus sign, property, proposer). Sorted by it, the
scores of the terminal rung come first, then those of the highest rung."""


def prediction_scores(connection: Connection, row: CampaignRow) -> list[PredictionAccuracy]:
    """Returns the scores of all predictions, the terminal rung first, then from the highest rung down, by property and
    proposer. The bins of episodes show whether a proposer learns."""
    accuracies: dict[SortKey, PredictionAccuracy] = {}
    bins: dict[tuple[SortKey, int], Bin] = {}
    episode_ranges = episode_numbers(connection, row)
    predictions = predictions_made(connection, row)
    for rung, name, prediction, value, error, answer in answered(connection, row, predictions):
        proposer = prediction.proposer or PEOPLE
        key = (rung.name != row.spec["terminal"], -rung.position, name, proposer)
        if key not in accuracies:
            accuracies[key] = PredictionAccuracy(rung.name, name, chosen_unit_of(name, row.units), proposer)
        first, last = episode_ranges.get(proposer, (0, 0))  # numbers of the proposer's first and last episode
        width = math.ceil((last - first + 1) / MAX_BINS)
        bin_first = first
        if prediction.episode is not None:
            bin_first = prediction.episode - (prediction.episode - first) % width
        if (key, bin_first) not in bins:
            bin_last = min(bin_first + width - 1, last)
            bins[key, bin_first] = Bin(bin_first, bin_last, PredictionRecord())
        accuracies[key].record.add(value, error, answer)
        bins[key, bin_first].record.add(value, error, answer)
    for key, bin_first in sorted(bins):
        accuracies[key].bins.append(bins[key, bin_first])
    return [accuracies[key] for key in sorted(accuracies)]
