"""Builds answers of `sciagent.domain.answers` from the ledger: status, best candidates, episodes, and comparisons.

Two campaigns are compared in specs, outcomes, costs, and common candidates. Values are compared only if the same
version of the same verifier measured both with the same settings. A GFN2 gap is never compared with a PBE0 gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.file.campaign_spec import spec_differences, stated_units
from sciagent.domain.answers.status import (
    CampaignCounts,
    Comparison,
    HitsAtCost,
    RungCounts,
    RungPair,
    Status,
    ValueComparison,
)
from sciagent.domain.answers.values import BestCandidate, ImportedValue, LimitMargin, RungValue
from sciagent.domain.evidence import at_highest_rung
from sciagent.domain.states import CampaignState, Standing
from sciagent.errors import UnknownNameError, UsageError
from sciagent.report.analysis import proposers
from sciagent.report.parts import agreement, margins
from sciagent.report.parts.margins import contradiction
from sciagent.store.campaign_state import campaigns, trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views import campaign_counts
from sciagent.store.views.candidates import (
    EvidenceAnswer,
    best_candidates,
    campaign_members,
    fits_by_rung,
    imported_answers,
    pooled_by_rung,
    rung_answers,
)
from sciagent.store.views.episodes import EpisodeOutcome, episode_outcomes, episode_proposals
from sciagent.store.views.progress import ProgressStep, progress, shared_candidates, value_spreads

CHUNK = 500
DECIDED = (Standing.SETTLED, Standing.DROPPED)


def status(connection: Connection, row: CampaignRow) -> Status:
    """Returns the answer of `sciagent status`; for a large campaign it takes longer than `campaign_counts.counts`."""
    counts = campaign_counts.counts(connection, row)
    is_priced = row.spec["scheduler"]["kind"] == "priced"
    if is_priced:
        from sciagent.report.analysis import audit, ladder  # slow to import
    return Status(
        **dict(counts),
        audit=audit.audit(connection, row) if is_priced else None,
        value=ladder.value_of_rungs(connection, row) if is_priced else None,
        proposers=proposers.results(connection, row),
        opinions=agreement.opinions(connection, row),
    )


def best(connection: Connection, row: CampaignRow, n: int) -> list[BestCandidate]:
    """Returns the n best candidates: hits first, then by utility, depth and score. Vetoed candidates are left out.

    `p_hit` is 1 or 0 once a candidate is settled or dropped; None before, and where no objective has limits.
    """
    ranked = best_candidates(connection, row, n, vetoed=False)
    ids = [candidate.id for candidate in ranked]
    ladder = campaigns.rungs(connection, row.id)
    imported = imported_answers(connection, ids)
    answers = rung_answers(connection, row, ladder, ids)
    errors = margins.method_errors(connection, row, ladder)
    found = []
    fits = fits_by_rung(ladder)
    limits = row.has_limits
    for candidate in ranked:
        highest = at_highest_rung(pooled_by_rung(answers.get(candidate.id, ()), fits))
        same = (
            "key",
            "kind",
            "text",
            "drawn_from",
            "formula",
            "names",
            "inchikey",
            "utility",
            "hit",
            "in_seeds",
            "score",
            "reason",
            "detail",
        )
        found.append(
            BestCandidate(
                **{name: getattr(candidate, name) for name in same},
                p_hit=float(candidate.hit) if limits and candidate.standing in DECIDED else None,
                verified=candidate.standing == Standing.SETTLED,
                values={name: RungValue.of(measured, rung=a.rung) for name, (a, measured) in highest.items()},
                imported=imported_values(imported.get(candidate.id, ())),
                contradicted=contradiction(row, candidate, candidate.hit, imported.get(candidate.id, ())),
                margins=margins.margins(row, highest, errors),
            )
        )
    return found


def candidate_margins(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], candidate_id: int
) -> tuple[LimitMargin, ...]:
    """Returns the distance of each objective's value of a candidate from its limits."""
    answers = rung_answers(connection, row, ladder, [candidate_id]).get(candidate_id, ())
    highest = at_highest_rung(pooled_by_rung(answers, fits_by_rung(ladder)))
    return margins.margins(row, highest, margins.method_errors(connection, row, ladder))


def imported_values(answers: Sequence[EvidenceAnswer]) -> tuple[ImportedValue, ...]:
    """Returns the imported values of a candidate, oldest first."""
    values = []
    for answer in sorted(answers, key=lambda answer: answer.evidence_id):
        for measured in answer.measured:
            value = ImportedValue.of(measured, source=answer.source, who=answer.who, at=answer.at, cost=answer.cost)
            values.append(value)
    return tuple(values)


def listed_episodes(connection: Connection, row: CampaignRow) -> Sequence[Mapping[str, Any]]:
    """Returns the campaign's episodes: number, proposer, state, times, reason of the end, turns and new candidates."""
    j = t.trajectory
    rows = connection.execute(sa.select(j).where(j.c.campaign_id == row.id).order_by(j.c.number)).mappings().all()
    outcomes: dict[int, EpisodeOutcome] = {}
    for start in range(0, len(rows), CHUNK):
        ids = [trajectory["id"] for trajectory in rows[start : start + CHUNK]]
        outcomes |= episode_outcomes(connection, row, ids)
    answers = []
    for trajectory in rows:
        outcome = outcomes.get(trajectory["id"], EpisodeOutcome(0, 0, 0))
        answer = {name: trajectory[name] for name in ("number", "proposer", "started_at", "ended_at")}
        answer |= {"turns": outcome.turns, "new": outcome.new}
        answers.append({**answer, **_end_of(row, trajectory)})
    return answers


def episode(connection: Connection, row: CampaignRow, number: int) -> Mapping[str, Any]:
    """Returns a whole episode. Raises UnknownNameError for a number that the campaign does not have."""
    j = t.trajectory.c
    query = sa.select(t.trajectory).where(j.campaign_id == row.id, j.number == number)
    trajectory = connection.execute(query).mappings().one_or_none()
    if trajectory is None:
        there = [str(trajectory["number"]) for trajectory in listed_episodes(connection, row)]
        raise UnknownNameError(f"episode of {row.name}", str(number), there)
    proposals = _proposals(connection, row, trajectory["id"])
    return {
        "campaign": row.name,
        "number": number,
        "proposer": trajectory["proposer"],
        **_end_of(row, trajectory),
        "opening": trajectory["settings"].get("opening", []),
        "turns": [
            {name: turn[name] for name in ("number", "message", "calls", "observations", "sampling", "cost", "at")}
            | {
                "policy": turn["policy_version"],
                "trainable": trajectories.untrainable(turn) is None,
                "untrainable": trajectories.untrainable(turn),
                "proposals": proposals.get(turn["id"], []),
            }
            for turn in trajectories.turns(connection, trajectory["id"])
        ],
    }


def _end_of(row: CampaignRow, trajectory: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Returns the state of an episode and the reason of its end.

    An episode that goes on with its campaign is `stopped` while nothing drives the campaign.
    """
    state = trajectory["state"]
    why = trajectories.why_ended(trajectory["ended_why"], trajectory["settings"])
    if state == trajectories.RUNNING and row.state not in (CampaignState.RUNNING, CampaignState.PAUSED):
        return {"state": "stopped", "why": f"its campaign ended: {row.stop_reason or row.state.replace('_', ' ')}"}
    return {"state": state, "why": why}


def _proposals(connection: Connection, row: CampaignRow, trajectory_id: int) -> dict[int, list[Mapping[str, Any]]]:
    """Returns {turn id: its proposals with their status}."""
    proposed = episode_proposals(connection, trajectory_id)
    members = campaign_members(connection, row, [p.candidate_id for p in proposed if p.candidate_id])
    by_turn: dict[int, list[Mapping[str, Any]]] = {}
    for proposal in proposed:
        member = members.get(proposal.candidate_id or 0)
        by_turn.setdefault(proposal.turn_id, []).append(
            {name: getattr(proposal, name) for name in ("text", "status", "reason", "operation")}
            | {name: getattr(member, name, None) for name in ("standing", "score")}
            | {"hit": member is not None and member.hit}
        )
    return by_turn


MARKS = (0.1, 0.25, 0.5, 0.75, 1.0)  # shares of the cheaper campaign's cost at which hits are compared


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
    first = _side(connection, left)
    second = _side(connection, right)
    return Comparison(
        campaigns=(left.name, right.name),
        differences=tuple(d for d in spec_differences(left.spec, right.spec) if not d.startswith("campaign:")),
        status=(first.counts, second.counts),
        rungs=tuple(_rung_pairs(first, second)),
        overlap=shared_candidates(connection, left, right),
        values=tuple(_values(connection, first, second)),
        hits_against_cost=tuple(_hits_against_cost(first.steps, second.steps)),
        cost_of_first_hit=(_cost_of_first_hit(first.steps), _cost_of_first_hit(second.steps)),
        same_objectives=left.spec["objectives"] == right.spec["objectives"],
    )


def _side(connection: Connection, row: CampaignRow) -> _Side:
    ladder = campaigns.rungs(connection, row.id)
    terminal = next(rung for rung in ladder if rung.name == row.spec["terminal"])
    counts = campaign_counts.counts(connection, row)
    return _Side(row, ladder, terminal, counts, progress(connection, row, terminal))


def _rung_pairs(first: _Side, second: _Side) -> list[RungPair]:
    """Returns one entry per pair of rungs with the same calculation or label, and one per unmatched rung."""
    unmatched = list(second.ladder)
    pairs: list[tuple[RungRow | None, RungRow | None]] = []
    for rung in first.ladder:
        same = [other for other in unmatched if other.computation == rung.computation]
        partner = next(iter([*same, *(other for other in unmatched if other.name == rung.name)]), None)
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
    """Returns the common objectives, as each campaign's terminal rung measured them, in the second one's units."""
    mine, theirs = ([objective["property"] for objective in side.row.spec["objectives"]] for side in (first, second))
    compared = []
    same = first.terminal.computation == second.terminal.computation
    units = stated_units(first.row.spec) | stated_units(second.row.spec)
    for name in (name for name in mine if name in theirs):
        a, b = (value_spreads(connection, side.row, side.terminal, name, units) for side in (first, second))
        levels = [{(spread.level, spread.unit) for spread in spreads} for spreads in (a, b)]
        compared.append(
            ValueComparison(
                property=name,
                rungs=(first.terminal.name, second.terminal.name),
                comparable=same and levels[0] == levels[1] and bool(levels[0]),
                measured=(a, b),
            )
        )
    return compared


def _hits_against_cost(first: Sequence[ProgressStep], second: Sequence[ProgressStep]) -> list[HitsAtCost]:
    """Returns the hits of both campaigns at equal cost, up to the total of the cheaper one; last, their final hits."""
    least = min(first[-1].core_seconds, second[-1].core_seconds)
    marks = [least * share for share in MARKS if least > 0]
    at = [
        HitsAtCost(core_seconds=round(mark, 3), hits=(_hits_at(first, mark), _hits_at(second, mark))) for mark in marks
    ]
    return [*at, HitsAtCost(core_seconds=None, hits=(first[-1].hits, second[-1].hits))]


def _hits_at(steps: Sequence[ProgressStep], cost: float) -> int:
    return max((step.hits for step in steps if step.core_seconds <= cost * (1 + 1e-9)), default=0)


def _cost_of_first_hit(steps: Sequence[ProgressStep]) -> float | None:
    return next((step.core_seconds for step in steps if step.hits > 0), None)
