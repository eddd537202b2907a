"""One candidate up the ladder, outside of any campaign: `sciagent verify`."""

from __future__ import annotations

from sciagent.campaign.core import safety
from sciagent.campaign.core.build import BuiltRung, built_rungs
from sciagent.campaign.core.judge import Answer, judge, place
from sciagent.campaign.core.prepare import prepare
from sciagent.campaign.core.record import answer_of, direct_result
from sciagent.campaign.spec.campaign_spec import CampaignSpec
from sciagent.campaign.spec.safety import SCREEN
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.answers.values import ShownValue
from sciagent.domain.answers.verification import LadderAnswer, RungAnswer
from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import Measured
from sciagent.domain.jobs.states import Standing
from sciagent.domain.outcomes import Outcome, Verdict
from sciagent.errors import InvalidCandidateError
from sciagent.execution.worker.completing import complete_direct, store_files
from sciagent.store.campaign_state.campaigns import log_event, new_owner
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from sciagent.verification.sandbox.host import Request, Worker


def verify_one(ledger: Ledger, spec: CampaignSpec, smiles: str, who: str = "") -> LadderAnswer:
    """The ladder's answers on one molecule; evidence is reused from the ledger and new evidence kept in it.

    What the safety screen refuses goes no further, and is logged; so is that a spec has none, with its reason.
    """
    try:
        candidate = parse_molecule(smiles, standardise=spec.standardise)
    except InvalidCandidateError as error:
        return LadderAnswer(
            key=None, smiles=None, verdict=Verdict.FAIL, reason=error.reason, detail=error.detail, rungs=()
        )
    with ledger.begin() as connection:
        candidate_id = candidates.enter(connection, [candidate])[candidate.key]
        if not spec.safety.screen:
            payload = {"key": candidate.key, "text": smiles[:500], "reason": spec.safety.reason, "who": who}
            log_event(connection, None, safety.OFF, payload)
    ladder = built_rungs(spec)
    prepare(ladder)
    rules, objectives = tuple(r.rules for r in ladder), spec.domain_objectives()
    scratch = ledger.artifacts.root.with_name(f"{ledger.artifacts.root.name.removesuffix('-artifacts')}-scratch")
    answers: list[Answer] = []
    shown: list[RungAnswer] = []
    where = place(rules, objectives, answers)
    with Worker(scratch) as worker:
        for rung in ladder:
            answer, row = _one_rung(ledger, worker, rung, candidate, candidate_id)
            answers.append(answer)
            shown.append(row)
            where = place(rules, objectives, answers)
            if where.standing is not Standing.OPEN:
                break
    screen = ladder[where.position].verifier.name if where.position < len(ladder) else ""
    if screen == SCREEN and where.verdict is Verdict.NOT_APPLICABLE:
        with ledger.begin() as connection:
            safety.log_blocked(
                connection,
                None,
                key=candidate.key,
                text=smiles,
                reason=where.reason or "",
                detail=where.detail,
                operation="verify",
            )
    verdict = where.verdict or Verdict.PASS
    if verdict is Verdict.NOT_APPLICABLE:
        verdict = Verdict.FAIL if rules[where.position].drop_on_refusal else Verdict.INCONCLUSIVE
    return LadderAnswer(
        key=candidate.key,
        smiles=candidate.smiles,
        verdict=verdict,
        reason=where.reason,
        detail=where.detail,
        rungs=tuple(shown),
    )


def _one_rung(
    ledger: Ledger, worker: Worker, rung: BuiltRung, candidate: Candidate, candidate_id: int
) -> tuple[Answer, RungAnswer]:
    v = rung.verifier
    with ledger.read() as connection:
        known = evidence.find_reusable(connection, [candidate_id], v.name, v.version, v.settings_hash)
    if candidate_id in known:
        found = known[candidate_id]
        return answer_of(rung, found), _row(rung, answer_of(rung, found), found.outcome, found.measured, True, 0.0)
    request = Request(v.name, v.request_settings, (candidate,), rung.limits)
    result = worker.run(request)[0]
    files = store_files(ledger, [result])[0]
    f = result.finding
    with ledger.begin() as connection:
        made = direct_result(rung, candidate_id, candidate, result, files, rung.declared(candidate))
        complete_direct(connection, new_owner(), [made], campaign_id=None, rung_id=None)
    judgement = judge(rung.rules, f.outcome, f.reason, f.detail, f.measured)
    answer = Answer(rung.rules.position, judgement, f.measured if f.outcome is Outcome.OK else ())
    return answer, _row(rung, answer, f.outcome, f.measured, False, result.cost.get("core_seconds", 0.0))


def _row(
    rung: BuiltRung, answer: Answer, outcome: Outcome, measured: tuple[Measured, ...], reused: bool, core_seconds: float
) -> RungAnswer:
    judgement = answer.judgement
    return RungAnswer(
        rung=rung.spec.rung,
        tier=rung.rules.tier,
        outcome=outcome,
        verdict=judgement.verdict,
        reason=judgement.reason,
        detail=judgement.detail,
        reused=reused,
        core_seconds=round(core_seconds, 3),
        values={m.property: ShownValue.of(m) for m in measured},
    )
