"""Who found what, at what cost: the proposers of a campaign side by side.

A candidate belongs to who proposed it first. What it cost is all that was booked for verifying it; to that comes what
the proposer's own turns took: tokens, and the fast rungs that run at once. So what stands here adds up to what the
campaign spent, but for the fast rungs of what people added.
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
from sciagent.store.views.report_queries import ProgressStep

PEOPLE = "people"  # who stands behind proposals without a turn
DRAWN = 6  # lines of the chart
LISTED = 40


@dataclass
class ProposerFigures:
    """readable: proposals of which a structure could be made; new: those that were the first of their structure.
    verified: candidates with an answer of a paid rung. hits_in_seeds: hits that stood in a file, which nobody
    discovered. utility: the best that is settled. costs: by resource, of its candidates and its own turns."""

    proposer: str
    episodes: int = 0
    turns: int = 0
    proposals: int = 0
    readable: int = 0
    new: int = 0
    duplicates: int = 0
    refused: int = 0
    verified: int = 0
    hits: int = 0
    hits_in_seeds: int = 0
    utility: float | None = None
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def core_seconds(self) -> float:
        return self.costs.get("core_seconds", 0.0)

    @property
    def others(self) -> dict[str, float]:
        """What it cost beside core-seconds."""
        return {name: amount for name, amount in self.costs.items() if name != "core_seconds"}

    @property
    def hits_per_core_hour(self) -> float | None:
        """None where nothing was booked."""
        return 3600 * self.hits / self.core_seconds if self.core_seconds else None

    def book(self, costs: Mapping[str, float]) -> None:
        for name, amount in costs.items():
            self.costs[name] = self.costs.get(name, 0.0) + amount


def figures_by_proposer(connection: Connection, row: CampaignRow) -> list[ProposerFigures]:
    """By hits, then best utility, then candidates; the most successful first. Who did nothing yet is there, too."""
    found: dict[str | None, ProposerFigures] = {}

    def of(who: str | None) -> ProposerFigures:
        return found.setdefault(who, ProposerFigures(PEOPLE if who is None else who))

    for one in ask.turns(connection, row):
        mine = of(one.proposer)
        mine.episodes, mine.turns = one.episodes, one.turns
        mine.book(one.costs)
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
    return sorted(found.values(), key=lambda one: (-one.hits, -(one.utility or 0.0), -one.new, one.proposer))


def results(connection: Connection, row: CampaignRow) -> tuple[ProposerResults, ...]:
    """The same as an answer."""
    return tuple(
        ProposerResults(**asdict(figures), hits_per_core_hour=figures.hits_per_core_hour)
        for figures in figures_by_proposer(connection, row)
    )


def words(one: ProposerFigures, row: CampaignRow) -> str:
    """A campaign's only proposer, in a sentence."""
    parts = [
        f"{many(one.proposals, 'proposal')}: {one.new} new, {many(one.duplicates, 'duplicate')}, "
        f"{one.refused} turned away; {one.verified} with a paid answer"
    ]
    if has_limits(row):
        parts.append(many(one.hits, "hit"))
    if one.core_seconds:
        parts.append(f"{cost(one.core_seconds)} booked for its candidates and turns")
    return ", ".join(parts)


def progress(connection: Connection, row: CampaignRow, among: list[ProposerFigures]) -> dict[str, list[ProgressStep]]:
    """The lines of the chart, of at most `DRAWN` of them, in their order; empty where there is nothing to see."""
    terminal = next((r for r in rungs(connection, row.id) if r.name == row.spec.get("terminal")), None)
    if terminal is None:
        return {}
    steps = {PEOPLE if who is None else who: mine for who, mine in ask.progress(connection, row, terminal).items()}
    drawn = {one.proposer: steps[one.proposer] for one in among if one.proposer in steps and one.core_seconds}
    if not any(mine[-1].hits or mine[-1].utility is not None for mine in drawn.values()):
        return {}
    return dict(list(drawn.items())[:DRAWN])
