"""From host results to the ledger: evidence once, artifacts, spend, and the candidate's new place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.build import Built, BuiltRung
from sciagent.campaign.judge import Answer, Judgement, Place, judge, place
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome, Verdict
from sciagent.store import evidence, jobs, standings
from sciagent.store.evidence import NewEvidence, Recorded
from sciagent.store.ledger import Ledger
from sciagent.verification.host import HostResult


def store_files(ledger: Ledger, results: Sequence[HostResult]) -> list[tuple[tuple[str, str, int, str], ...]]:
    """Put every artifact into the store (before the transaction that names it); the spooled files are removed."""
    stored = []
    for result in results:
        rows = []
        for file in result.files:
            sha256, size = ledger.artifacts.put(file.path)
            rows.append((file.name, sha256, size, file.media_type))
            file.path.unlink(missing_ok=True)
        stored.append(tuple(rows))
    return stored


@dataclass(frozen=True)
class Result:
    """What the host brought back of one candidate, with the artifacts already in the store."""

    candidate: Candidate
    candidate_id: int
    result: HostResult
    artifacts: tuple[tuple[str, str, int, str], ...]


def record_results(connection: Connection, rung: BuiltRung, attempt_id: int, found: Sequence[Result]) -> None:
    """Evidence of those whose outcome is evidence, and what they cost. Who comes second under one key (another
    campaign was faster) is dropped: the first stands, and was computed under the same settings."""
    v = rung.verifier
    good = [f for f in found if f.result.finding.outcome.rule.is_evidence]
    evidence.record_or_keep(
        connection,
        [
            NewEvidence(
                f.result.finding, v.evidence_key(f.candidate), f.candidate_id, attempt_id=attempt_id,
                versions=f.result.versions, artifacts=f.artifacts, reusable=v.reusable,
            )
            for f in good
        ],
    )  # fmt: skip
    for f in good if not rung.is_fast else ():
        declared = v.cost(f.candidate)
        jobs.observe_cost(
            connection, verifier=v.name, version=v.version, settings_hash=v.settings_hash, candidate_id=f.candidate_id,
            attempt_id=attempt_id, declared=declared, actual=f.result.cost,
        )  # fmt: skip
        rung.cost_model.observe(declared, f.result.cost)


def answer_of(rung: BuiltRung, found: Recorded) -> Answer:
    judgement = judge(rung.rules, found.outcome, found.reason, found.detail, found.measured)
    return Answer(rung.rules.position, judgement, found.measured if found.outcome is Outcome.OK else ())


def answers_so_far(connection: Connection, built: Built, candidate_id: int) -> list[Answer]:
    """What every rung of the campaign has said of the candidate, from current evidence, in ladder order."""
    answers = []
    for rung in built.rungs:
        v = rung.verifier
        found = evidence.find_reusable(connection, [candidate_id], v.name, v.version, v.settings_hash)
        if candidate_id not in found:
            break
        answers.append(answer_of(rung, found[candidate_id]))
    return answers


def settle(
    connection: Connection, built: Built, candidate_id: int, position: int, failed: HostResult | None = None,
    gave_up: Judgement | None = None,
) -> Place:  # fmt: skip
    """Work out again where the candidate stands now that rung `position` has answered, and write it.

    failed: a result that is no evidence (a limit was hit). gave_up: what to say if the rung will not be tried again.
    """
    answers = [a for a in answers_so_far(connection, built, candidate_id) if a.position <= position]
    if failed is not None and not any(a.position == position for a in answers):
        f = failed.finding
        judgement = gave_up or judge(built.rungs[position].rules, f.outcome, f.reason, f.detail, ())
        answers.append(Answer(position, judgement))
    where = place(built.rules, built.objectives, answers)
    write_place(connection, built.row.id, candidate_id, where)
    return where


def write_place(connection: Connection, campaign_id: int, candidate_id: int, where: Place) -> None:
    standings.update(connection, campaign_id, candidate_id, **columns(where))


def columns(where: Place) -> Mapping[str, Any]:
    return {
        "standing": where.standing, "position": where.position, "verdict": where.verdict, "reason": where.reason,
        "detail": where.detail[:2000], "depth": where.depth, "score": where.score, "utility": where.utility,
        "is_hit": where.is_hit, "hit_tier": where.hit_tier,
    }  # fmt: skip


def error(reason: Any, detail: str) -> Judgement:
    return Judgement(Verdict.ERROR, reason, detail)
