"""Compares two campaigns: specs, outcomes, costs, and common candidates.

Values are compared only if the same version of the same verifier measured both with the same settings. A GFN2 gap is
never compared with a PBE0 gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.file.spec_differences import spec_differences, stated_units
from sciagent.domain.answers.status_and_comparison import (
    CampaignCounts,
    Comparison,
    HitsAtCost,
    RungCounts,
    RungPair,
    ValueComparison,
    ValueSpread,
)
from sciagent.domain.display_units import Units
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.results.evidence import register_ledger_properties
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.progress_and_comparisons import ProgressStep, progress, shared_candidates, value_spreads

COST_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the cheaper campaign's cost at which hits are compared


class _Side(NamedTuple):
    """The data of one of the two campaigns."""

    row: CampaignRow
    ladder: list[RungRow]
    terminal: RungRow
    counts: CampaignCounts
    steps: list[ProgressStep]
    """Number of hits against cost, in order of cost."""


def compare(connection: Connection, left: CampaignRow, right: CampaignRow) -> Comparison:
    """Returns the answer of `sciagent compare`. Raises UsageError if both are the same campaign."""
    if left.id == right.id:
        raise UsageError(f'"{left.name}" is the same campaign twice; name two')
    register_ledger_properties(connection)  # an objective may be of a property that a function of a notebook defines
    first = _side(connection, left)
    second = _side(connection, right)
    return Comparison(
        campaigns=(left.name, right.name),
        differences=tuple(d for d in spec_differences(left.spec, right.spec) if not d.startswith("campaign:")),
        status=(first.counts, second.counts),
        rungs=tuple(_rung_pairs(first, second)),
        overlap=shared_candidates(connection, left, right),
        values=tuple(_values(connection, first, second)),
        hits_against_cost=tuple(_hits_against_cost(first, second)),
        cost_of_first_hit=(_cost_of_first_hit(first.steps), _cost_of_first_hit(second.steps)),
        same_objectives=left.spec["objectives"] == right.spec["objectives"],
    )


def _side(connection: Connection, row: CampaignRow) -> _Side:
    ladder = campaigns.rungs(connection, row.id)
    terminal = next(rung for rung in ladder if rung.name == row.spec["terminal"])
    counts = campaign_counts_and_remarks.counts(connection, row)
    return _Side(row, ladder, terminal, counts, progress(connection, row, terminal).steps)


def _rung_pairs(first: _Side, second: _Side) -> list[RungPair]:
    """Returns one entry per pair of rungs with the same calculation or label, and one per unmatched rung."""
    unmatched = list(second.ladder)
    pairs: list[tuple[RungRow | None, RungRow | None]] = []
    for rung in first.ladder:
        with_same_calculation = [other for other in unmatched if other.computation == rung.computation]
        with_same_label = [other for other in unmatched if other.name == rung.name]
        partners = [*with_same_calculation, *with_same_label]
        partner = partners[0] if partners else None
        if partner is not None:
            unmatched.remove(partner)
        pairs.append((rung, partner))
    pairs += [(None, rung) for rung in unmatched]
    return [
        RungPair(
            rungs=(None if a is None else a.name, None if b is None else b.name),
            same_calculation=a is not None and b is not None and a.computation == b.computation,
            counts=(_counts_at(first, a), _counts_at(second, b)),
        )
        for a, b in pairs
    ]


def _counts_at(side: _Side, rung: RungRow | None) -> RungCounts | None:
    if rung is None:
        return None
    return next(counts for counts in side.counts.rungs if counts.rung == rung.name)


def _values(connection: Connection, first: _Side, second: _Side) -> list[ValueComparison]:
    """Returns the common objectives, as each campaign's highest rung measured them, in the second one's units."""
    first_names = [objective["property"] for objective in first.row.spec["objectives"]]
    second_names = [objective["property"] for objective in second.row.spec["objectives"]]
    compared = []
    units = stated_units(first.row.spec) | stated_units(second.row.spec)
    for name in first_names:
        if name not in second_names:
            continue
        first_rung, first_spreads = _measured(connection, first, name, units)
        second_rung, second_spreads = _measured(connection, second, name, units)
        same_calculation = first_rung.computation == second_rung.computation
        first_levels = {(spread.level, spread.unit) for spread in first_spreads}
        second_levels = {(spread.level, spread.unit) for spread in second_spreads}
        compared.append(
            ValueComparison(
                property=name,
                rungs=(first_rung.name, second_rung.name),
                comparable=same_calculation and first_levels == second_levels and bool(first_levels),
                measured=(first_spreads, second_spreads),
            )
        )
    return compared


def _measured(connection: Connection, side: _Side, name: str, units: Units) -> tuple[RungRow, tuple[ValueSpread, ...]]:
    """Returns the highest rung that has measured a property, with its values; the terminal rung if none has."""
    up_to_terminal = [rung for rung in side.ladder if rung.position <= side.terminal.position]
    for rung in sorted(up_to_terminal, key=lambda rung: rung.position, reverse=True):
        spreads = value_spreads(connection, side.row, rung, name, units)
        if spreads:
            return rung, spreads
    return side.terminal, ()


def _hits_against_cost(first: _Side, second: _Side) -> list[HitsAtCost]:
    """Returns the hits of both campaigns at equal cost, up to the total of the cheaper one.

    The last entry has all hits of both, also those that measured values decided, which cost nothing.
    """
    least = min(_core_seconds(first.steps[-1]), _core_seconds(second.steps[-1]))
    marks = [least * share for share in COST_SHARES if least > 0]
    hits_at_marks = []
    for mark in marks:
        hits = (_hits_at(first.steps, mark), _hits_at(second.steps, mark))
        hits_at_marks.append(HitsAtCost(core_seconds=round(mark, 3), hits=hits))
    return [*hits_at_marks, HitsAtCost(core_seconds=None, hits=(first.counts.hits, second.counts.hits))]


def _hits_at(steps: Sequence[ProgressStep], cost: float) -> int:
    """Returns the number of hits up to a cost. Sums of costs may differ by rounding."""
    highest_cost = cost * (1 + 1e-9)
    return max((step.hits for step in steps if _core_seconds(step) <= highest_cost), default=0)


def _cost_of_first_hit(steps: Sequence[ProgressStep]) -> float | None:
    """Returns the core-seconds booked up to the first hit; None without a hit."""
    for step in steps:
        if step.hits > 0:
            return _core_seconds(step)
    return None


def _core_seconds(step: ProgressStep) -> float:
    return step.costs.get("core_seconds", 0.0)
