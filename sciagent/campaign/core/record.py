"""From what rungs have answered to the place of a candidate in its campaign."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.core.judge import Answer, Judgement, Place, judge, place, under
from sciagent.domain.campaigns.directives import NOWHERE
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.evidence import Finding
from sciagent.domain.jobs.job_rules import DEATHS
from sciagent.domain.jobs.states import JobState, Standing
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.execution.worker.completing import DirectResult, Stored
from sciagent.store.campaign_state import directives, standings
from sciagent.store.job_queue import jobs
from sciagent.store.results import pooled
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.sandbox.host import HostResult


def direct_result(
    rung: BuiltRung,
    candidate_id: int,
    candidate: Candidate,
    result: HostResult,
    artifacts: Stored,
    declared: Cost | None = None,
) -> DirectResult:
    """A verification by this rung that had no job."""
    key = rung.verifier.evidence_key(candidate)
    return DirectResult(rung.verifier, candidate_id, key, result, artifacts, declared)


def answer_of(rung: BuiltRung, found: RecordedEvidence) -> Answer:
    judgement = judge(rung.rules, found.outcome, found.reason, found.detail, found.measured)
    return Answer(rung.rules.position, judgement, found.measured if found.outcome is Outcome.OK else ())


def answers_so_far(connection: Connection, built: Built, candidate_id: int, promoted_to: int = NOWHERE) -> list[Answer]:
    """What every rung of the campaign has said of the candidate, from current evidence, in ladder order, up to the
    first that has said nothing and was not jumped by a promotion."""
    return _answers(connection, built, {candidate_id: promoted_to})[candidate_id]


def _answers(connection: Connection, built: Built, promoted_to: Mapping[int, int]) -> dict[int, list[Answer]]:
    """`answers_so_far` of several candidates: {candidate id: position it was promoted to}."""
    answers: dict[int, list[Answer]] = {id_: [] for id_ in promoted_to}
    going = list(promoted_to)
    for rung in built.rungs:
        v = rung.verifier
        found = pooled.pooled_answers(connection, going, v.name, v.version, v.settings_hash)
        for id_, one in found.items():
            answers[id_].append(answer_of(rung, one))
        going = [id_ for id_ in going if id_ in found or rung.rules.position < promoted_to[id_]]
    return answers


class Settling(NamedTuple):
    """A candidate of which rung `position` has answered. failed: a result that is no evidence (a limit was hit).
    gave_up: what to say if the rung will not be tried again. said: the answer, where this transaction has recorded it;
    else it is looked for."""

    candidate_id: int
    position: Position
    failed: Finding | None = None
    gave_up: Judgement | None = None
    said: RecordedEvidence | None = None


def settling_of(
    candidate_id: int,
    position: Position,
    state: JobState,
    finding: Finding | None,
    kills: int,
    losses: int = 0,
    recorded: RecordedEvidence | None = None,
) -> Settling:
    """How a candidate is placed whose job is over. finding: None where its evidence is in the ledger."""
    if finding is None or state is JobState.CANCELLED:
        return Settling(candidate_id, position)
    gave_up = None
    if state is JobState.QUARANTINED:
        gave_up = given_up(finding.outcome, finding.reason, finding.detail, kills, losses)
    return Settling(candidate_id, position, finding, gave_up, recorded)


def settle(connection: Connection, built: Built, settlings: Sequence[Settling]) -> None:
    """Work out again where the candidates stand, and write it."""
    words = directives.steering_of_many(connection, built.row.id, [one.candidate_id for one in settlings])
    said = _answers_up_to(connection, built, settlings)
    places = {}
    for one in settlings:
        answers = said[one.candidate_id]
        if one.failed is not None and not any(a.position == one.position for a in answers):
            f = one.failed
            judgement = one.gave_up or judge(built.rungs[one.position].rules, f.outcome, f.reason, f.detail, ())
            answers.append(Answer(one.position, judgement))
        places[one.candidate_id] = columns(place(built.rules, built.objectives, answers, words[one.candidate_id]))
    standings.update_many(connection, built.row.id, places)


def _answers_up_to(connection: Connection, built: Built, settlings: Sequence[Settling]) -> dict[int, list[Answer]]:
    """What the rungs up to each one's own have said, in ladder order; a rule may have sent it there past rungs that it
    does not run."""
    answers: dict[int, list[Answer]] = {one.candidate_id: [] for one in settlings}
    for rung in built.rungs:
        v, position = rung.verifier, rung.rules.position
        here = [one for one in settlings if one.position >= position]
        in_hand = {one.candidate_id: one.said for one in here if one.position == position and one.said is not None}
        identity = (v.name, v.version, v.settings_hash)
        for id_ in pooled.replicated(connection, list(in_hand), *identity) if in_hand else ():
            del in_hand[id_]  # the answer is one of several, which are pooled
        asked = [one.candidate_id for one in here if one.candidate_id not in in_hand]
        found = pooled.pooled_answers(connection, asked, *identity) if asked else {}
        for id_, one in (in_hand | found).items():
            answers[id_].append(answer_of(rung, one))
    return answers


def settle_again(
    connection: Connection,
    built: Built,
    candidate_id: int,
    before: Mapping[str, Any] | None = None,
    answered: int | None = None,
) -> Place:
    """The same after a person's word, from the answers the campaign has had so far: what other campaigns have computed
    since counts only when the rule comes to it.

    answered: position of a rung whose known answer counts from now on. before: where the candidate stood when it was
    vetoed, which counts if what it rested on is no evidence (a limit that was hit) and cannot be worked out again.
    """
    stands = standings.get(connection, built.row.id, candidate_id)
    below = int(stands["position"]) + (stands["verdict"] is not None)
    if answered is not None:
        below = max(below, answered + 1)
    word = directives.steering_of(connection, built.row.id, candidate_id)
    found = answers_so_far(connection, built, candidate_id, word.promoted_to)
    where = place(built.rules, built.objectives, [a for a in found if a.position < below], word)
    if before is not None and where.standing in (Standing.OPEN, Standing.HELD):
        rung = built.rungs[min(where.position, len(built.rungs) - 1)]
        if rung in built.fast or jobs.gave_up(connection, built.row.id, rung.id, candidate_id):
            where = under(Place(**{**before, "standing": Standing(before["standing"])}), word)
    write_place(connection, built.row.id, candidate_id, where)
    return where


def write_place(connection: Connection, campaign_id: int, candidate_id: int, where: Place) -> None:
    standings.update(connection, campaign_id, candidate_id, **columns(where))


def columns(where: Place) -> Mapping[str, Any]:
    return {
        "standing": where.standing,
        "position": where.position,
        "verdict": where.verdict,
        "reason": where.reason,
        "detail": where.detail[:2000],
        "depth": where.depth,
        "score": where.score,
        "utility": where.utility,
        "is_hit": where.is_hit,
        "hit_tier": where.hit_tier,
    }


def given_up(outcome: Outcome, reason: Reason | None, detail: str, kills: int, losses: int = 0) -> Judgement:
    """What stands of a candidate whose job was quarantined: that it kills workers where processes died, else the reason
    of the last attempt."""
    if losses:
        killed = f"{kills} killed theirs; " if kills else ""
        told = f"{killed}{losses} attempts were lost with their workers; the last: {outcome} ({reason}): {detail}"
        return error(Reason.KILLS_WORKERS, told)
    if reason not in DEATHS:
        return error(reason, detail + (f"; so {kills} times" if kills > 1 else ""))
    return error(Reason.KILLS_WORKERS, f"{kills} attempts ended in {outcome} ({reason}): {detail}")


def error(reason: Any, detail: str) -> Judgement:
    return Judgement(Verdict.ERROR, reason, detail)
