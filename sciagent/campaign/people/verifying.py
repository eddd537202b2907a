"""Runs one candidate up a ladder outside of any campaign, for `sciagent verify`."""

from __future__ import annotations

from sciagent.campaign.core.build import BuiltRung, built_ladder, check_engines, prepare
from sciagent.campaign.core.calibrating import fits_of
from sciagent.campaign.core.judge import Answer, place
from sciagent.campaign.core.record import answer_of, known_or_run, log_blocked
from sciagent.campaign.file.campaign_spec import CampaignSpec
from sciagent.domain.answers.values import LadderAnswer, RungAnswer, ShownValue
from sciagent.domain.calibration import calibrated
from sciagent.domain.candidates import smiles_of
from sciagent.domain.chosen_units import Units, all_shown
from sciagent.domain.evidence import Finding
from sciagent.domain.outcomes import Verdict
from sciagent.domain.states import Standing
from sciagent.errors import InvalidCandidateError
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.store.campaign_state.campaigns import log_event
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from sciagent.store.results.evidence import RecordedEvidence
from sciagent.verification.sandbox.host import Worker

MAX_TEXT = 4000  # characters kept of a text that could not be read


def verify_one(ledger: Ledger, spec: CampaignSpec, given: str, who: str = "") -> LadderAnswer:
    """Returns the ladder's answers on a candidate. Evidence in the ledger is reused; new evidence is recorded there.

    given: any notation of it.
    A candidate that the safety screen refuses goes no further and is logged. A spec without the screen is logged with
    its reason.
    """
    try:
        candidate = spec.standardisation.apply(given).candidate
    except InvalidCandidateError as error:
        about = {"kind": spec.subject, "text": given[:MAX_TEXT], "reason": error.reason, "detail": error.detail}
        return LadderAnswer(key=None, verdict=Verdict.FAIL, rungs=(), **about)
    with ledger.begin() as connection:
        fits = fits_of(connection, spec)
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
        if not spec.safety.screen:
            payload = {"key": candidate.key, "text": given[:500], "reason": spec.safety.reason, "who": who}
            log_event(connection, None, "safety_off", payload)
    ladder = built_ladder(spec, fits)
    for rung in ladder.rungs:
        check_engines(rung)
    prepare(ladder.rungs)
    answers: list[Answer] = []
    rows: list[RungAnswer] = []
    with Worker(scratch_of(ledger.artifacts)) as worker:
        for rung in ladder.rungs:
            result, core_seconds = known_or_run(ledger, worker, rung, candidate, candidate_id)
            rows.append(_row(rung, result, core_seconds, ladder.spec.chosen_units()))
            answers.append(answer_of(rung, result))
            current_place = place(ladder.rules, ladder.objectives, answers)
            if current_place.standing is not Standing.OPEN:
                break
    verdict, reason, detail = current_place.verdict or Verdict.PASS, current_place.reason, current_place.detail
    if verdict is Verdict.NOT_APPLICABLE:
        verdict = Verdict.FAIL if ladder.rules[current_place.position].drop_on_refusal else Verdict.INCONCLUSIVE
        if ladder.rungs[current_place.position].verifier.name == spec.screen:
            blocked = {"key": candidate.key, "text": given[:MAX_TEXT], "reason": reason or "", "detail": detail}
            with ledger.begin() as connection:
                log_blocked(connection, None, **blocked, operation="verify")
    return LadderAnswer(
        key=candidate.key,
        kind=candidate.kind,
        text=candidate.text,
        formula=candidate.formula,
        smiles=smiles_of(candidate.kind, candidate.text),
        drawn_from=ladder.subject.notation(candidate),
        verdict=verdict,
        reason=reason,
        detail=detail,
        rungs=tuple(rows),
    )


def _row(rung: BuiltRung, result: Finding | RecordedEvidence, core_seconds: float | None, units: Units) -> RungAnswer:
    """Returns a rung's answer. core_seconds: cost of the run; None for reused evidence."""
    return RungAnswer(
        rung=rung.spec.rung,
        tier=rung.rules.tier,
        outcome=result.outcome,
        **answer_of(rung, result).judgement._asdict(),
        reused=core_seconds is None,
        core_seconds=round(core_seconds or 0.0, 3),
        values={
            measured.property: ShownValue.of(measured)
            for measured in all_shown(calibrated(result.measured, rung.fits), units)
        },
    )
