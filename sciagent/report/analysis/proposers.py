"""The proposers of a campaign side by side: results and costs.

A candidate belongs to the proposer that proposed it first. A proposer's cost is the cost of verifying its candidates
and that of its own turns: tokens, and the fast rungs that run at once. So the figures add up to what the campaign
spent, except for the fast rungs of candidates that people added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import ProposerResults
from sciagent.domain.tiers import Tier
from sciagent.report.analysis.summary import has_limits
from sciagent.report.parts.wording import cost, many
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.views import report_proposers as ask
from sciagent.store.views.report_progress import ProgressStep, progress_by_proposer

PEOPLE = "people"  # who stands behind proposals without a turn
DRAWN = 6  # lines of the chart
LISTED = 40


@dataclass
class ProposerFigures:
    """Results and costs of a proposer."""

    proposer: str
    episodes: int = 0
    turns: int = 0
    proposals: int = 0
    readable: int = 0
    """Proposals that gave a structure."""
    new: int = 0
    """Proposals that were the first with their structure."""
    duplicates: int = 0
    refused: int = 0
    verified: int = 0
    """Candidates with an answer of a paid rung."""
    hits: int = 0
    hits_in_seeds: int = 0
    """Hits that came from a file, which no proposer discovered."""
    utility: float | None = None
    """The best settled utility."""
    costs: dict[str, float] = field(default_factory=dict)
    """By resource, of its candidates and its own turns."""

    @property
    def core_seconds(self) -> float:
        return self.costs.get("core_seconds", 0.0)

    @property
    def others(self) -> dict[str, float]:
        """Its costs in resources other than core-seconds."""
        return {name: amount for name, amount in self.costs.items() if name != "core_seconds"}

    @property
    def hits_per_core_hour(self) -> float | None:
        """Hits per core-hour booked; None where nothing was booked."""
        return 3600 * self.hits / self.core_seconds if self.core_seconds else None

    def book(self, costs: Mapping[str, float]) -> None:
        for name, amount in costs.items():
            self.costs[name] = self.costs.get(name, 0.0) + amount


def figures_by_proposer(connection: Connection, row: CampaignRow) -> list[ProposerFigures]:
    """All proposers by hits, then best utility, then candidates; the most successful first."""
    by_proposer: dict[str | None, ProposerFigures] = {}

    def of(who: str | None) -> ProposerFigures:
        return by_proposer.setdefault(who, ProposerFigures(PEOPLE if who is None else who))

    for spent in ask.turns(connection, row):
        mine = of(spent.proposer)
        mine.episodes, mine.turns = spent.episodes, spent.turns
        mine.book(spent.costs)
    for group in ask.handed(connection, row):
        mine = of(group.proposer)
        mine.proposals += group.n
        mine.readable += group.n * group.readable
        mine.new += group.n * (group.status == "new")
        mine.duplicates += group.n * (group.status == "duplicate")
        mine.refused += group.n * (group.status == "refused")
    paid = next((r.position for r in rungs(connection, row.id) if r.tier != Tier.FAST), 0)
    for got in ask.brought(connection, row, paid):
        mine = of(got.proposer)
        mine.verified, mine.hits, mine.hits_in_seeds, mine.utility = got.paid, got.hits, got.hits_in_seeds, got.utility
    for who, resource, amount in ask.costs_of_jobs(connection, row):
        of(who).book({resource: amount})
    return sorted(
        by_proposer.values(),
        key=lambda figures: (-figures.hits, -(figures.utility or 0.0), -figures.new, figures.proposer),
    )


def results(connection: Connection, row: CampaignRow) -> tuple[ProposerResults, ...]:
    """`figures_by_proposer` as a typed answer."""
    return tuple(
        ProposerResults(**asdict(figures), hits_per_core_hour=figures.hits_per_core_hour)
        for figures in figures_by_proposer(connection, row)
    )


def summary_sentence(figures: ProposerFigures, row: CampaignRow) -> str:
    """A sentence on a campaign's only proposer."""
    parts = [
        f"{many(figures.proposals, 'proposal')}: {figures.new} new, {many(figures.duplicates, 'duplicate')}, "
        f"{figures.refused} refused; {figures.verified} answered by a paid rung"
    ]
    if has_limits(row):
        parts.append(many(figures.hits, "hit"))
    if figures.core_seconds:
        parts.append(f"{cost(figures.core_seconds)} booked for its candidates and turns")
    return ", ".join(parts)


def progress(connection: Connection, row: CampaignRow, among: list[ProposerFigures]) -> dict[str, list[ProgressStep]]:
    """The chart's lines for at most `DRAWN` of these proposers, in their order; empty if there is nothing to draw."""
    terminal = next((r for r in rungs(connection, row.id) if r.name == row.spec.get("terminal")), None)
    if terminal is None:
        return {}
    steps = {
        PEOPLE if who is None else who: mine for who, mine in progress_by_proposer(connection, row, terminal).items()
    }
    drawn = {
        figures.proposer: steps[figures.proposer]
        for figures in among
        if figures.proposer in steps and figures.core_seconds
    }
    if not any(mine[-1].hits or mine[-1].utility is not None for mine in drawn.values()):
        return {}
    return dict(list(drawn.items())[:DRAWN])
