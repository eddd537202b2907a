"""Builds answers of `sciagent.domain.answers` from the ledger: status, best candidates, and the episodes of `trace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import BestCandidate, ImportedValue, RungValue
from sciagent.domain.answers.status_and_comparison import CampaignCounts, Status
from sciagent.domain.states_and_needs import CampaignState, Standing
from sciagent.errors import UnknownNameError
from sciagent.report.analysis import proposers_and_prediction_scores
from sciagent.report.parts import rung_and_judge_agreement
from sciagent.report.parts.candidate_stories import CandidateStories
from sciagent.store.campaign_state import campaigns, proposer_trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.lab.blind_measurements import ALL_SEEN, UnseenAnswers
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.report_candidates import EvidenceAnswer, RankedCandidate, best_candidates, campaign_members
from sciagent.store.views.report_episodes_and_proposers import EpisodeOutcome, episode_outcomes, episode_proposals

CHUNK = 500  # episodes whose outcomes are read by one query
DECIDED = (Standing.SETTLED, Standing.DROPPED)
COPIED_FIELDS = (
    "key", "kind", "text", "drawn_from", "formula", "names", "inchikey",
    "utility", "p_hit", "expected_utility", "basis", "hit", "in_seeds", "standing", "reason", "detail",
)  # fmt: skip
"""The fields that `BestCandidate` has from `RankedCandidate`."""


def status(connection: Connection, row: CampaignRow, unseen: UnseenAnswers = ALL_SEEN) -> Status:
    """Returns the answer of `sciagent status`; for a large campaign it takes longer than `campaign_counts.counts`.

    unseen: answers that are left out, with all that is made of measured values."""
    counts = counts_seen(connection, row, unseen)
    if unseen.by_candidate:
        return Status(**dict(counts), audit=None, value=None, proposers=(), opinions=())
    is_priced = row.spec["scheduler"]["kind"] == "priced"
    if is_priced:
        from sciagent.report.analysis import audit_results  # slow to import
        from sciagent.report.analysis import rung_spending_comparisons_and_worth as ladder
    return Status(
        **dict(counts),
        audit=audit_results.audit(connection, row) if is_priced else None,
        value=ladder.value_of_rungs(connection, row) if is_priced else None,
        proposers=proposers_and_prediction_scores.results(connection, row),
        opinions=rung_and_judge_agreement.judge_agreements(connection, row),
    )


def counts_seen(connection: Connection, row: CampaignRow, unseen: UnseenAnswers) -> CampaignCounts:
    """Returns the counts of a campaign in which candidates wait at the rungs whose answers on them are left out."""
    positions = {rung.computation: rung.position for rung in reversed(campaigns.rungs(connection, row.id))}
    hidden = {}
    for candidate_id, computations in unseen.by_candidate.items():
        of_campaign = [positions[computation] for computation in computations if computation in positions]
        if of_campaign:
            hidden[candidate_id] = min(of_campaign)
    return campaign_counts_and_remarks.counts(connection, row, hidden)


def best(connection: Connection, row: CampaignRow, n: int) -> list[BestCandidate]:
    """Returns the n best candidates. Vetoed candidates are left out."""
    return with_values(connection, row, best_candidates(connection, row, n, vetoed=False))


def with_values(
    connection: Connection, row: CampaignRow, ranked: Sequence[RankedCandidate], unseen: UnseenAnswers = ALL_SEEN
) -> list[BestCandidate]:
    """Returns candidates of the campaign, in their order, with their values as `sciagent best` shows them. unseen:
    answers that are left out."""
    ladder = campaigns.rungs(connection, row.id)
    found = []
    for story in CandidateStories(connection, row, ladder, unseen).of(ranked):
        candidate = story.candidate
        values = {name: RungValue.of(measured, rung=answer.rung) for name, (answer, measured) in story.values.items()}
        found.append(
            BestCandidate(
                **{name: getattr(candidate, name) for name in COPIED_FIELDS},
                verified=candidate.standing == Standing.SETTLED,
                values=values,
                imported=imported_values(story.imported),
                contradicted=story.contradicted,
                p_limits=story.certainty.p_limits,
                p_limits_unknown=story.certainty.unknown,
                p_limits_measured=story.certainty.measured,
                margins=story.certainty.margins,
                same_compound=tuple(story.same_compound),
            )
        )
    return found


def imported_values(answers: Sequence[EvidenceAnswer]) -> tuple[ImportedValue, ...]:
    """Returns the imported values of a candidate, oldest first."""
    values = []
    for answer in sorted(answers, key=lambda answer: answer.evidence_id):
        for measured in answer.measured:
            origin = {"source": answer.source, "who": answer.who, "why": answer.why, "at": answer.at}
            value = ImportedValue.of(measured, **origin, cost=answer.cost)
            values.append(value)
    return tuple(values)


def listed_episodes(connection: Connection, row: CampaignRow) -> Sequence[Mapping[str, Any]]:
    """Returns the campaign's episodes: number, proposer, state, times, reason of the end, turns and new candidates."""
    trajectory_columns = t.trajectory.c
    is_of_campaign = trajectory_columns.campaign_id == row.id
    query = sa.select(t.trajectory).where(is_of_campaign).order_by(trajectory_columns.number)
    rows = connection.execute(query).mappings().all()
    outcomes: dict[int, EpisodeOutcome] = {}
    for start in range(0, len(rows), CHUNK):
        ids = [trajectory["id"] for trajectory in rows[start : start + CHUNK]]
        outcomes |= episode_outcomes(connection, row, ids)
    answers = []
    for trajectory in rows:
        outcome = outcomes.get(trajectory["id"], EpisodeOutcome(turns=0, new=0, hits=0))
        answer = {name: trajectory[name] for name in ("number", "proposer", "started_at", "ended_at")}
        answer |= {"turns": outcome.turns, "new": outcome.new}
        answers.append({**answer, **_end_of(row, trajectory)})
    return answers


def episode(connection: Connection, row: CampaignRow, number: int) -> Mapping[str, Any]:
    """Returns a whole episode. Raises UnknownNameError for a number that the campaign does not have."""
    trajectory_columns = t.trajectory.c
    query = sa.select(t.trajectory).where(trajectory_columns.campaign_id == row.id, trajectory_columns.number == number)
    trajectory = connection.execute(query).mappings().one_or_none()
    if trajectory is None:
        known_numbers = [str(listed["number"]) for listed in listed_episodes(connection, row)]
        raise UnknownNameError(f"episode of {row.name}", str(number), known_numbers)
    proposals = _proposals(connection, row, trajectory["id"])
    copied = ("number", "message", "calls", "observations", "sampling", "cost", "at")
    turns = list[Mapping[str, Any]]()
    for turn in proposer_trajectories.turns(connection, trajectory["id"]):
        shown = {name: turn[name] for name in copied}
        shown["policy"] = turn["policy_version"]
        shown["trainable"] = turn["untrainable"] is None
        shown["untrainable"] = turn["untrainable"]
        shown["proposals"] = proposals.get(turn["id"], [])
        turns.append(shown)
    return {
        "campaign": row.name,
        "number": number,
        "proposer": trajectory["proposer"],
        **_end_of(row, trajectory),
        "opening": trajectory["settings"].get("opening", []),
        "turns": turns,
    }


def _end_of(row: CampaignRow, trajectory: Mapping[Any, Any]) -> Mapping[str, Any]:
    """Returns the state of an episode and the reason of its end.

    An episode that goes on with its campaign is `stopped` while nothing drives the campaign.
    """
    state = trajectory["state"]
    why = trajectory["ended_why"]
    if state == proposer_trajectories.RUNNING and row.state not in (CampaignState.RUNNING, CampaignState.PAUSED):
        return {"state": "stopped", "why": f"its campaign ended: {row.stop_reason or row.state.replace('_', ' ')}"}
    return {"state": state, "why": why}


def _proposals(connection: Connection, row: CampaignRow, trajectory_id: int) -> dict[int, list[Mapping[str, Any]]]:
    """Returns {turn id: its proposals with their status}."""
    proposed = episode_proposals(connection, trajectory_id)
    members = campaign_members(connection, row, [p.candidate_id for p in proposed if p.candidate_id])
    by_turn: dict[int, list[Mapping[str, Any]]] = {}
    for proposal in proposed:
        shown = {name: getattr(proposal, name) for name in ("text", "status", "reason", "operation")}
        member = None if proposal.candidate_id is None else members.get(proposal.candidate_id)
        shown["standing"] = None if member is None else member.standing
        shown["worth"] = None if member is None else member.worth_words
        shown["hit"] = member is not None and member.hit
        by_turn.setdefault(proposal.turn_id, []).append(shown)
    return by_turn
