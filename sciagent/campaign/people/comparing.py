"""Two campaigns side by side: what was asked, what became of it, what it cost, what both found.

Values are put side by side only where both were measured by the same verifier, of the same version, under the same
settings: a GFN2 gap and a PBE0 gap are never compared as numbers.
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


def compare(connection: Connection, one: CampaignRow, other: CampaignRow) -> dict[str, Any]:
    """The JSON of `sciagent compare`. Raises UsageError for a campaign and itself."""
    if one.id == other.id:
        raise UsageError(f'"{one.name}" is the same campaign twice; name two')
    rows = (one, other)
    status = [plain(queries.counts(connection, row)) for row in rows]
    ladders = [campaigns.rungs(connection, row.id) for row in rows]
    steps = [progress(connection, row, _terminal(row, ladder)) for row, ladder in zip(rows, ladders, strict=True)]
    return {
        "campaigns": [row.name for row in rows],
        "differences": [d for d in differences(one.spec, other.spec) if not d.startswith("campaign:")],
        "status": status,
        "rungs": _side_by_side(ladders, status),
        "overlap": overlap.candidates(connection, one, other),
        "values": _values(connection, rows, ladders),
        "hits_against_cost": _hits_against_cost(steps),
        "cost_of_first_hit": [next((s.core_seconds for s in one_ if s.hits > 0), None) for one_ in steps],
        "same_objectives": one.spec["objectives"] == other.spec["objectives"],
    }


def _terminal(row: CampaignRow, ladder: Sequence[RungRow]) -> RungRow:
    return next(r for r in ladder if r.name == row.spec["terminal"])


def _identity(rung: RungRow) -> tuple[str, str, str]:
    return rung.verifier, rung.verifier_version, rung.settings_hash


def _side_by_side(ladders: Sequence[Sequence[RungRow]], status: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rungs that do the same stand in one line; others are alone in theirs."""
    counted = [{r["rung"]: r for r in one["rungs"]} for one in status]
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
    """Objectives of both, as each campaign's terminal rung measured them."""
    ends = [_terminal(row, ladder) for row, ladder in zip(rows, ladders, strict=True)]
    named = [o["property"] for o in rows[0].spec["objectives"]]
    shared = [name for name in named if name in {o["property"] for o in rows[1].spec["objectives"]}]
    found = []
    for name in shared:
        sides = [overlap.spreads(connection, row, end, name) for row, end in zip(rows, ends, strict=True)]
        levels = [{(s.level, s.unit) for s in side} for side in sides]
        comparable = _identity(ends[0]) == _identity(ends[1]) and levels[0] == levels[1] and bool(levels[0])
        found.append(
            {
                "property": name,
                "rungs": [end.name for end in ends],
                "comparable": comparable,
                "measured": [[asdict(s) for s in side] for side in sides],
            }
        )
    return found


def _hits_against_cost(steps: Sequence[Sequence[Step]]) -> list[dict[str, Any]]:
    """Hits of each at equal cost, up to what the cheaper one spent."""
    least = min(one[-1].core_seconds for one in steps)
    marks = [least * share for share in MARKS] if least > 0 else []
    return [{"core_seconds": round(mark, 3), "hits": [_hits_at(one, mark) for one in steps]} for mark in marks] + [
        {"core_seconds": None, "hits": [one[-1].hits for one in steps]}
    ]


def _hits_at(steps: Sequence[Step], cost: float) -> int:
    return max((s.hits for s in steps if s.core_seconds <= cost * (1 + 1e-9)), default=0)
