"""Compares two campaigns: specs, outcomes, costs, and the candidates of both.

Values are compared only if both were measured by the same version of the same verifier under the same settings: a GFN2
gap is never compared with a PBE0 gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.spec.diff import differences
from sciagent.domain.answers.model import plain
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import overlap, queries
from sciagent.store.views.report_queries import Step, progress

MARKS = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the smaller cost


def compare(connection: Connection, first: CampaignRow, other: CampaignRow) -> dict[str, Any]:
    """The JSON of `sciagent compare`. Raises UsageError if both are the same campaign."""
    if first.id == other.id:
        raise UsageError(f'"{first.name}" is the same campaign twice; name two')
    rows = (first, other)
    status = [plain(queries.counts(connection, row)) for row in rows]
    ladders = [campaigns.rungs(connection, row.id) for row in rows]
    steps = [progress(connection, row, _terminal(row, ladder)) for row, ladder in zip(rows, ladders, strict=True)]
    return {
        "campaigns": [row.name for row in rows],
        "differences": [d for d in differences(first.spec, other.spec) if not d.startswith("campaign:")],
        "status": status,
        "rungs": _side_by_side(ladders, status),
        "overlap": overlap.candidates(connection, first, other),
        "values": _values(connection, rows, ladders),
        "hits_against_cost": _hits_against_cost(steps),
        "cost_of_first_hit": [next((s.core_seconds for s in one_ if s.hits > 0), None) for one_ in steps],
        "same_objectives": first.spec["objectives"] == other.spec["objectives"],
    }


def _terminal(row: CampaignRow, ladder: Sequence[RungRow]) -> RungRow:
    return next(r for r in ladder if r.name == row.spec["terminal"])


def _identity(rung: RungRow) -> tuple[str, str, str]:
    return rung.verifier, rung.verifier_version, rung.settings_hash


def _side_by_side(ladders: Sequence[Sequence[RungRow]], status: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per pair of rungs with the same calculation or the same name, and one per unmatched rung."""
    counted = [{r["rung"]: r for r in counts["rungs"]} for counts in status]
    first, second = ladders
    lines, used = [], set()
    for rung in first:
        twin = next((r for r in second if _identity(r) == _identity(rung) and r.id not in used), None)
        named = twin or next((r for r in second if r.name == rung.name and r.id not in used), None)
        if named is not None:
            used.add(named.id)
        lines.append(_line(rung, named, twin is not None, counted))
    return lines + [_line(None, rung, False, counted) for rung in second if rung.id not in used]


def _line(
    first: RungRow | None, second: RungRow | None, same: bool, counted: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "rungs": [None if first is None else first.name, None if second is None else second.name],
        "same_calculation": same,
        "counts": [
            None if rung is None else counts[rung.name] for rung, counts in zip((first, second), counted, strict=True)
        ],
    }


def _values(
    connection: Connection, rows: Sequence[CampaignRow], ladders: Sequence[Sequence[RungRow]]
) -> list[dict[str, Any]]:
    """The objectives that both campaigns have, as each terminal rung measured them."""
    ends = [_terminal(row, ladder) for row, ladder in zip(rows, ladders, strict=True)]
    named = [o["property"] for o in rows[0].spec["objectives"]]
    shared = [name for name in named if name in {o["property"] for o in rows[1].spec["objectives"]}]
    values = []
    for name in shared:
        sides = [overlap.spreads(connection, row, end, name) for row, end in zip(rows, ends, strict=True)]
        levels = [{(s.level, s.unit) for s in side} for side in sides]
        comparable = _identity(ends[0]) == _identity(ends[1]) and levels[0] == levels[1] and bool(levels[0])
        values.append(
            {
                "property": name,
                "rungs": [end.name for end in ends],
                "comparable": comparable,
                "measured": [[asdict(s) for s in side] for side in sides],
            }
        )
    return values


def _hits_against_cost(steps: Sequence[Sequence[Step]]) -> list[dict[str, Any]]:
    """Hits of both campaigns at equal costs, up to the total cost of the cheaper one."""
    least = min(line[-1].core_seconds for line in steps)
    marks = [least * share for share in MARKS] if least > 0 else []
    return [{"core_seconds": round(mark, 3), "hits": [_hits_at(line, mark) for line in steps]} for mark in marks] + [
        {"core_seconds": None, "hits": [line[-1].hits for line in steps]}
    ]


def _hits_at(steps: Sequence[Step], cost: float) -> int:
    return max((s.hits for s in steps if s.core_seconds <= cost * (1 + 1e-9)), default=0)
