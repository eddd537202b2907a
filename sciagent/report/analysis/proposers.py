"""The proposers of a campaign side by side: results and costs.

A candidate belongs to the proposer that proposed it first. A proposer's cost is the cost of verifying its candidates
and that of its own turns: tokens, and the fast rungs that run at once. So the figures add up to what the campaign
spent, except for the fast rungs of candidates that people added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import ProposerResults
from sciagent.domain.tiers import Tier
from sciagent.report.analysis.summary import has_limits
from sciagent.report.parts.wording import cost, many
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.views import report_proposers as ask
from sciagent.store.views.report_progress import ProgressStep, progress_by_proposer

PEOPLE = "people"  # the proposer of proposals without a turn
DRAWN = 6  # lines of the chart
LISTED = 40


COUNTED = (
    "episodes",
    "turns",
    "proposals",
    "readable",
    "new",
    "duplicates",
    "refused",
    "verified",
    "hits",
    "hits_in_seeds",
)


def results(connection: Connection, row: CampaignRow) -> tuple[ProposerResults, ...]:
    """Returns the results of all proposers, sorted by hits, then best utility, then new candidates."""
    figures: dict[str, dict[str, Any]] = {}
    costs: dict[str, dict[str, float]] = {}

    def book(who: str, booked: Mapping[str, float]) -> None:
        for name, amount in booked.items():
            costs[who][name] = costs[who].get(name, 0.0) + amount

    def of(who: str | None) -> dict[str, Any]:
        name = PEOPLE if who is None else who
        costs.setdefault(name, {})
        return figures.setdefault(name, {"proposer": name, "utility": None} | dict.fromkeys(COUNTED, 0))

    for spent in ask.turns(connection, row):
        of(spent.proposer).update(episodes=spent.episodes, turns=spent.turns)
        book(spent.proposer, spent.costs)
    for group in ask.handed(connection, row):
        totals = of(group.proposer)
        kind = "duplicates" if group.status == "duplicate" else group.status
        for name, counts in (("proposals", True), ("readable", group.readable), (kind, True)):
            totals[name] += group.n * counts
    paid = next((r.position for r in rungs(connection, row.id) if r.tier != Tier.FAST), 0)
    for got in ask.brought(connection, row, paid):
        settled = {"hits": got.hits, "hits_in_seeds": got.hits_in_seeds, "utility": got.utility}
        of(got.proposer).update(settled, verified=got.paid)
    for who, resource, amount in ask.costs_of_jobs(connection, row):
        book(of(who)["proposer"], {resource: amount})
    listed = [
        ProposerResults(
            **totals,
            costs=costs[who],
            hits_per_core_hour=3600 * totals["hits"] / seconds if (seconds := costs[who].get("core_seconds")) else None,
        )
        for who, totals in figures.items()
    ]
    return tuple(sorted(listed, key=lambda m: (-m.hits, -(m.utility or 0.0), -m.new, m.proposer)))


def summary_sentence(figures: ProposerResults, row: CampaignRow) -> str:
    """Returns a sentence on the only proposer of a campaign."""
    parts = [
        f"{many(figures.proposals, 'proposal')}: {figures.new} new, {many(figures.duplicates, 'duplicate')}, "
        f"{figures.refused} refused; {figures.verified} answered by a paid rung"
    ]
    if has_limits(row):
        parts.append(many(figures.hits, "hit"))
    if seconds := figures.costs.get("core_seconds"):
        parts.append(f"{cost(seconds)} booked for its candidates and turns")
    return ", ".join(parts)


def progress(
    connection: Connection, row: CampaignRow, among: Sequence[ProposerResults]
) -> dict[str, list[ProgressStep]]:
    """Returns the chart's lines for at most `DRAWN` of these proposers, in their order; empty without any progress."""
    terminal = next((r for r in rungs(connection, row.id) if r.name == row.spec.get("terminal")), None)
    if terminal is None:
        return {}
    steps = {
        PEOPLE if who is None else who: own for who, own in progress_by_proposer(connection, row, terminal).items()
    }
    drawn = {
        figures.proposer: steps[figures.proposer]
        for figures in among
        if figures.proposer in steps and figures.costs.get("core_seconds")
    }
    if not any(own[-1].hits or own[-1].utility is not None for own in drawn.values()):
        return {}
    return dict(list(drawn.items())[:DRAWN])
