"""What each rung of a campaign has to do with one candidate.

Verdicts are worked out again from gates and evidence, with the campaign's own rules as they are stored, so a verifier
whose package is gone or has changed since does not stand in the way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.judge import RungRules, RungTerms, judge, ladder_rules, show_window
from sciagent.domain.answers.explanation import AttemptStory, DecisionStory, EvidenceStory, RungStory
from sciagent.domain.answers.values import EvidenceValue
from sciagent.domain.evidence import Finding
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.views import history
from sciagent.store.views.history import JobAttempt, StoredEvidence


def rung_stories(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    candidate_id: int,
    evidence: Sequence[StoredEvidence],
) -> list[RungStory]:
    """One entry a rung, in ladder order. evidence: all there is on the candidate."""
    decisions = history.decisions(connection, row, candidate_id)
    attempts = history.attempts(connection, row, candidate_id, [rung.id for rung in ladder])
    return [
        _story(
            row,
            rung,
            rules,
            next((answer for answer in evidence if _is_of(answer, rung)), None),
            decisions.get(rung.name, []),
            [attempt for attempt in attempts if attempt.rung == rung.name],
        )
        for rung, rules in zip(ladder, _rules(row, ladder, evidence), strict=True)
    ]


def evidence_story(answer: StoredEvidence) -> EvidenceStory:
    return EvidenceStory(
        key=answer.key,
        verifier=answer.verifier,
        version=answer.verifier_version,
        settings_hash=answer.settings_hash,
        outcome=answer.outcome,
        reason=answer.reason,
        detail=answer.detail or "",
        values=tuple(map(EvidenceValue.of, answer.measured)),
        versions=answer.versions,
        source=answer.source,
        who=answer.who,
        why=answer.why,
        at=answer.at,
        revision=answer.revision,
        is_current=answer.is_current,
        watermark=answer.watermark,
        campaign=answer.campaign,
        core_seconds=round(answer.core_seconds, 3),
        files=answer.files,
    )


def _rules(row: CampaignRow, ladder: Sequence[RungRow], evidence: Sequence[StoredEvidence]) -> Sequence[RungRules]:
    """The rules as the spec in the ledger states them, in canonical units."""
    terms = [
        RungTerms(
            rung.tier,
            {name: Window(*limits) for name, limits in stated["gate"].items()},
            stated.get("on_refusal") == "drop",
            frozenset(_measures(stated, rung, evidence)),
        )
        for stated, rung in zip(row.spec["ladder"], ladder, strict=True)
    ]
    accept = {o["property"]: Window(*o["accept"]) if o.get("accept") else None for o in row.spec["objectives"]}
    terminal = [rung.name for rung in ladder].index(row.spec["terminal"])
    return ladder_rules(terms, accept, terminal, row.spec["scheduler"]["kind"])


def _measures(stated: Mapping[str, Any], rung: RungRow, evidence: Sequence[StoredEvidence]) -> set[str]:
    """What the rung can measure: by its verifier, or, where that is gone, what it has measured here."""
    from sciagent.errors import UsageError
    from sciagent.verification.registry import verifier_class

    seen = {measured.property for answer in evidence if _is_of(answer, rung) for measured in answer.measured}
    try:
        return seen | {m.property.name for m in verifier_class(rung.verifier)(stated["settings"]).measures}
    except (UsageError, ValueError, TypeError, OSError):
        return seen


def _is_of(answer: StoredEvidence, rung: RungRow) -> bool:
    calculation = (rung.verifier, rung.verifier_version, rung.settings_hash)
    return (answer.verifier, answer.verifier_version, answer.settings_hash) == calculation and answer.is_current


class _Result(NamedTuple):
    """How a rung ended for a candidate."""

    outcome: str | None = None
    verdict: str | None = None
    reason: str | None = None
    detail: str = ""


def _story(
    row: CampaignRow,
    rung: RungRow,
    rules: RungRules,
    answer: StoredEvidence | None,
    decisions: Sequence[DecisionStory],
    attempts: Sequence[JobAttempt],
) -> RungStory:
    reused = answer is not None and answer.campaign != row.name
    result = _by_attempts(attempts) if answer is None else _by_evidence(rules, answer)
    return RungStory(
        rung=rung.name,
        tier=rung.tier,
        verifier=rung.verifier,
        version=rung.verifier_version,
        settings=row.spec["ladder"][rung.position]["settings"],
        gate=tuple(show_window(name, window) for name, window in rules.gate.items()),
        objectives=tuple(show_window(name, window) for name, window in rules.accept.items()),
        is_terminal=rules.is_terminal,
        outcome=result.outcome,
        verdict=result.verdict,
        reason=result.reason,
        detail=result.detail,
        job=attempts[0].job if attempts else None,
        reused=reused,
        core_seconds=round(_core_seconds(answer, attempts, reused), 3),
        attempts=tuple(_attempt(attempt) for attempt in attempts if attempt.state),
        decisions=tuple(decisions),
        evidence=None if answer is None else evidence_story(answer),
    )


def _by_evidence(rules: RungRules, answer: StoredEvidence) -> _Result:
    reason = Reason(answer.reason) if answer.reason else None
    judged = judge(rules, Finding("", Outcome(answer.outcome), answer.measured, reason, answer.detail or ""))
    return _Result(answer.outcome, str(judged.verdict), str(judged.reason) if judged.reason else None, judged.detail)


def _by_attempts(attempts: Sequence[JobAttempt]) -> _Result:
    """What the last attempt alone says: a limit that was hit, a crash."""
    last = next((attempt for attempt in reversed(attempts) if attempt.outcome), None)
    if last is None or last.outcome is None:
        return _Result()
    verdict = Outcome(last.outcome).rule.verdict
    said = str(verdict) if verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR) else None
    return _Result(last.outcome, said, last.reason, last.detail or "")


def _core_seconds(answer: StoredEvidence | None, attempts: Sequence[JobAttempt], reused: bool) -> float:
    """What the campaign paid: for its attempts, or, for a rung that runs at once, for the evidence."""
    if answer is not None and not attempts and not reused:
        return answer.core_seconds
    return sum(attempt.core_seconds for attempt in attempts)


def _attempt(attempt: JobAttempt) -> AttemptStory:
    return AttemptStory(
        state=attempt.state or "",
        outcome=attempt.outcome,
        reason=attempt.reason,
        detail=attempt.detail or "",
        core_seconds=attempt.core_seconds,
        wall_seconds=attempt.wall_seconds,
        started_at=attempt.started_at,
        host=(attempt.owner or "").rsplit(":", 3)[0],
    )
