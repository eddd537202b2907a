"""The history of one candidate at each rung of a campaign.

Verdicts are computed again from evidence and the stored gates, so that they do not depend on a verifier whose package
has changed or is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.judge import RungRules, RungTerms, judge, ladder_rules
from sciagent.domain.answers.explanation import AttemptStory, DecisionStory, RungStory
from sciagent.domain.answers.values import PropertyValue
from sciagent.domain.calibration import Fits, calibrated
from sciagent.domain.chosen_units import show_window, shown
from sciagent.domain.derived import VERIFIER, VERSION
from sciagent.domain.evidence import Finding
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes import Outcome, Reason, Verdict
from sciagent.errors import UsageError
from sciagent.report import history
from sciagent.report.history import JobAttempt, StoredEvidence
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.verification.registry import verifier_class


def rung_stories(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    candidate_id: int,
    evidence: Sequence[StoredEvidence],
) -> list[RungStory]:
    """Returns one entry per rung, in ladder order. evidence: all evidence on the candidate."""
    decisions = history.decisions(connection, row, candidate_id)
    attempts = history.attempts(connection, row, candidate_id, [rung.id for rung in ladder])
    newest_first = [answer for answer in reversed(evidence) if answer.story.is_current]
    current = {(a.story.verifier, a.story.version, a.story.settings_hash): a for a in newest_first}  # keeps the oldest
    answers = [_with_derived(rung, current) for rung in ladder]
    return [
        _story(
            row,
            rung,
            rules,
            answer,
            decisions.get(rung.name, []),
            [each for each in attempts if each.rung == rung.name],
        )
        for rung, rules, answer in zip(ladder, _rules(row, ladder, answers), answers, strict=True)
    ]


def _with_derived(rung: RungRow, current: Mapping[tuple[str, str, str], StoredEvidence]) -> StoredEvidence | None:
    """Returns the evidence of a rung, with the values of the properties derived after it; None without evidence."""
    answer = current.get((rung.verifier, rung.verifier_version, rung.settings_hash))
    if answer is None:
        return None
    known = [current[key] for hash_ in rung.derived.values() if (key := (VERIFIER, VERSION, hash_)) in current]
    values = (*answer.story.values, *(value for more in known for value in more.story.values))
    measured = (*answer.measured, *(value for more in known for value in more.measured))
    return StoredEvidence(answer.story.model_copy(update={"values": values}), measured)


def _rules(
    row: CampaignRow, ladder: Sequence[RungRow], answers: Sequence[StoredEvidence | None]
) -> Sequence[RungRules]:
    """Returns the rules of the stored spec, in canonical units. answers: each rung's evidence on the candidate."""
    terms = []
    for stated, rung, answer in zip(row.spec["ladder"][: len(ladder)], ladder, answers, strict=True):
        gate = {name: Window(*limits) for name, limits in stated["gate"].items()}
        known = {m.property for m in answer.measured} if answer else set()
        declared = _declared(stated, rung)
        measured = frozenset({*known, *rung.derived, *(declared or ())})
        is_known = declared is not None
        terms.append(RungTerms(rung.tier, gate, stated["on_refusal"] == "drop", measured, is_known=is_known))
    accept = {o["property"]: Window(*o["accept"]) if o["accept"] else None for o in row.spec["objectives"]}
    terminal = [rung.name for rung in ladder].index(row.spec["terminal"])
    return ladder_rules(terms, accept, terminal, row.spec["scheduler"]["kind"], row.spec["goal"]["kind"], row.units)


def _declared(stated: Mapping[str, Any], rung: RungRow) -> set[str] | None:
    """Returns the properties that the rung's verifier declares; None if the verifier is missing."""
    try:
        return {m.property.name for m in verifier_class(rung.verifier)(stated["settings"]).measures}
    except (UsageError, ValueError, TypeError, OSError):
        return None


def _story(
    row: CampaignRow,
    rung: RungRow,
    rules: RungRules,
    answer: StoredEvidence | None,
    decisions: Sequence[DecisionStory],
    attempts: Sequence[JobAttempt],
) -> RungStory:
    story, tried = answer.shown(row.units) if answer else None, [attempt.story for attempt in attempts if attempt.story]
    reused = story is not None and story.campaign != row.name
    core_seconds = sum(attempt.core_seconds for attempt in tried)
    if story is not None and not attempts and not reused:
        core_seconds = story.core_seconds  # a fast rung has no job
    return RungStory(
        rung=rung.name,
        tier=rung.tier,
        verifier=rung.verifier,
        version=rung.verifier_version,
        settings=row.spec["ladder"][rung.position]["settings"],
        gate=tuple(show_window(name, window, row.units) for name, window in rules.gate.items()),
        objectives=tuple(show_window(name, window, row.units) for name, window in rules.accept.items()),
        is_terminal=rules.is_terminal,
        **(_by_attempts(tried) if answer is None else _by_evidence(rules, answer, rung.fits)),
        job=attempts[0].job if attempts else None,
        reused=reused,
        core_seconds=round(core_seconds, 3),
        attempts=tuple(tried),
        decisions=tuple(decisions),
        evidence=story,
        calibrated=_calibrated(row, rung, answer),
    )


def _calibrated(row: CampaignRow, rung: RungRow, answer: StoredEvidence | None) -> tuple[PropertyValue, ...]:
    """Returns the calibrated values of the rung, in the units of the campaign."""
    fitted = [rung.fits[m.property].measured(m) for m in (answer.measured if answer else ()) if m.property in rung.fits]
    return tuple(PropertyValue.of(shown(measured, row.units)) for measured in fitted)


def _by_evidence(rules: RungRules, answer: StoredEvidence, fits: Fits) -> Mapping[str, Any]:
    """Returns outcome, verdict, reason and detail by the evidence. fits: the rung's calibrations."""
    story = answer.story
    reason = Reason(story.reason) if story.reason else None
    judged = judge(rules, Finding("", Outcome(story.outcome), calibrated(answer.measured, fits), reason, story.detail))
    return {"outcome": story.outcome, **judged._asdict()}


def _by_attempts(attempts: Sequence[AttemptStory]) -> Mapping[str, Any]:
    """Returns outcome, verdict, reason and detail by the last attempt, for a rung without evidence."""
    last = next((attempt for attempt in reversed(attempts) if attempt.outcome), None)
    if last is None or last.outcome is None:
        return {"outcome": None, "verdict": None, "reason": None, "detail": ""}
    fixed = Outcome(last.outcome).rule.verdict
    verdict = fixed if fixed in (Verdict.INCONCLUSIVE, Verdict.ERROR) else None
    return {"outcome": last.outcome, "verdict": verdict, "reason": last.reason, "detail": last.detail}
