"""Explains one candidate from the ledger: its history at each rung, and the reason for its standing in each campaign.

`explain_named` and `explain` return the whole explanation, `rung_stories` the part about the ladder, and `refused` the
answer for a proposed text that did not become a candidate.

Verdicts are computed again from the evidence and the stored gates, so that they do not depend on a verifier whose
package has changed or is missing. Only the outlook of an open candidate in a priced campaign needs the verifiers; see
`pricing.explain_outlook`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.verdicts_and_places import RungRules, RungTerms, judge, ladder_rules
from sciagent.campaign.file.lab_rung import LabSpec
from sciagent.campaign.law.predictions import AskedStructure
from sciagent.campaign.people.find_candidate import matching_ids, resolve
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import CandidateName, EvidenceValue, PropertyValue
from sciagent.domain.answers.explanation import (
    AttemptStory,
    CampaignStory,
    Children,
    DecisionStory,
    EvidenceStory,
    Explanation,
    FilterStory,
    Outlook,
    PersonWord,
    ProposalStory,
    RefusedProposal,
    RefusedText,
    RungStory,
)
from sciagent.domain.candidate_and_its_names_in_files import Names
from sciagent.domain.derived_properties import DERIVED_VERIFIER, VERSION
from sciagent.domain.display_units import beside_limits, in_chosen_units, window_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, Finding, pooled_measured
from sciagent.domain.objectives import Window
from sciagent.domain.outcomes_verdicts_and_reasons import LIKE_ANOTHER, Outcome, Reason, Verdict
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.domain.rung_calibration_on_measurements import Fits, calibrated
from sciagent.domain.states_and_needs import CampaignState, JobState, Standing, Verb
from sciagent.errors import UsageError
from sciagent.report import candidate_history
from sciagent.report.candidate_history import JobAttempt, StoredEvidence
from sciagent.report.parts.candidate_stories import CandidateStories, as_seen, hidden_rungs
from sciagent.report.parts.law_predictions import READ_ALL, LawReading, law_stories
from sciagent.report.parts.wording import is_by_measurement
from sciagent.report.status_best_trace import imported_values
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.lab.blind_measurements import ALL_SEEN, UnseenAnswers, Viewer, blind_methods, unseen_answers
from sciagent.store.results.candidates import names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER, register_ledger_properties
from sciagent.store.results.pooled_replicates import answered_replicates
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.report_candidates import (
    EvidenceAnswer,
    RankedCandidate,
    campaign_members,
    deciding_measurements,
    imported_answers,
)
from sciagent.store.views.report_queries import with_proposer
from sciagent.verification.verifier_registry import verifier_class

COPIED_COLUMNS = ("standing", "verdict", "reason", "utility", "p_hit", "expected_utility", "basis")
"""Columns of `campaign_candidate` that the story of a candidate copies."""


def rung_stories(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    candidate_id: int,
    evidence: Sequence[StoredEvidence],
    charge: int | None = None,
    decided_by_measurement: Collection[str] = (),
) -> list[RungStory]:
    """Returns one entry per rung, in ladder order. evidence: all evidence on the candidate. charge: its total charge.
    decided_by_measurement: properties whose experimental values decide, so that no limit applies to what the rungs say
    of them."""
    decisions = candidate_history.decisions(connection, row, candidate_id)
    attempts = candidate_history.attempts(connection, row, candidate_id, [rung.id for rung in ladder])
    replicates = _current_replicates(evidence)
    current = {computation: _pooled(each) for computation, each in replicates.items()}
    answers = [_with_derived(row, rung, current) for rung in ladder]
    stories = []
    for rung, rules, answer in zip(ladder, _rules(row, ladder, answers), answers, strict=True):
        own_decisions = decisions.get(rung.name, [])
        own_attempts = [attempt for attempt in attempts if attempt.rung == rung.name]
        own_rules = _without(rules, decided_by_measurement)
        story = _story(row, rung, own_rules, answer, own_decisions, own_attempts, charge)
        awaited = _awaited_measurements(connection, row, rung, candidate_id)
        if answer is not None and answer.is_part:
            awaited = awaited or "a quantity is open"
        stories.append(_of_several(story, row, replicates.get(rung.computation, ()), awaited))
    return stories


def _current_replicates(evidence: Sequence[StoredEvidence]) -> dict[Computation, list[StoredEvidence]]:
    """Returns {computation: its current evidence, one entry for each replicate}."""
    replicates: dict[Computation, list[StoredEvidence]] = {}
    for stored in evidence:
        if stored.story.is_current:
            replicates.setdefault(stored.computation, []).append(stored)
    return replicates


def _without(rules: RungRules, decided: Collection[str]) -> RungRules:
    """Returns the rules of a rung without those on properties that experimental values decide."""
    gate = {name: window for name, window in rules.gate.items() if name not in decided}
    accept = {name: window for name, window in rules.accept.items() if name not in decided}
    return replace(rules, gate=gate, accept=accept, decides=rules.decides.difference(decided))


def _of_several(story: RungStory, row: CampaignRow, measured: Sequence[StoredEvidence], awaited: str) -> RungStory:
    """Returns the entry of a rung with each of several measurements. awaited: words on the missing ones, for which the
    verdict waits; empty if it does not."""
    update: dict[str, object] = {}
    measured = _counting(measured)
    if len(measured) > 1:
        update["replicates"] = tuple(stored.shown(row.units, row.limits) for stored in measured)
    if awaited:
        update |= {"verdict": None, "reason": None, "detail": awaited}
    return story.model_copy(update=update)


def _counting(replicates: Sequence[StoredEvidence]) -> Sequence[StoredEvidence]:
    """Returns the measurements that count: a part of an answer does only where nothing else is there."""
    return [stored for stored in replicates if not stored.is_part] or replicates


def _pooled(replicates: Sequence[StoredEvidence]) -> StoredEvidence:
    """Returns the evidence by which a rung judges, with the values of all replicates that have an answer."""
    replicates = _counting(replicates)
    answered = [stored for stored in replicates if stored.story.outcome == Outcome.OK]
    first = answered[0] if answered else replicates[0]
    if len(answered) < 2:
        return first
    measured = pooled_measured(stored.measured for stored in answered)
    people = " and ".join(dict.fromkeys(stored.story.who for stored in answered))
    values = tuple(map(EvidenceValue.of, measured))
    # the verdict is that of the first answer, so its reasons count, and of those the ones without a value
    has_value = {value.property for value in measured}
    unobtained = {name: reason for name, reason in first.story.unobtained.items() if name not in has_value}
    update = {"who": people, "values": values, "unobtained": unobtained}
    return StoredEvidence(first.story.model_copy(update=update), measured)


def _awaited_measurements(connection: Connection, row: CampaignRow, rung: RungRow, candidate_id: int) -> str:
    """Returns how many measurements of several are in, if the verdict waits for more; else an empty text."""
    stated = row.spec["ladder"][rung.position].get("lab")
    if not stated or stated.get("replicates", 1) == 1:
        return ""
    answered = answered_replicates(connection, [candidate_id], rung.computation)
    n_answered = len(answered.get(candidate_id, {}))
    n_own, n_open = jobs.answered_and_open(connection, rung.id, candidate_id)
    lab = LabSpec.model_validate(stated)
    if not n_answered or lab.is_verdict_due(n_answered, n_own, n_open):
        return ""
    return f"{n_answered} of {lab.decide_after or lab.replicates} measurements are in"


def _with_derived(
    row: CampaignRow, rung: RungRow, current: Mapping[Computation, StoredEvidence]
) -> StoredEvidence | None:
    """Returns the evidence of a rung, with the values of the properties derived after it; None without evidence.

    A derived value cannot be obtained if a part of it was not. current: current evidence, replicates pooled.
    """
    answer = current.get(rung.computation)
    if answer is None:
        return None
    values = list(answer.story.values)
    measured = list(answer.measured)
    for settings_hash in rung.derived.values():
        derived = current.get(Computation(DERIVED_VERIFIER, VERSION, settings_hash))
        if derived is not None:
            values += derived.story.values
            measured += derived.measured
    unobtained = dict(answer.story.unobtained)
    has_value = {value.property for value in measured}
    for stated in row.spec.get("derived", ()):
        if stated["property"] in rung.derived and stated["property"] not in has_value:
            for label, part in stated["parts"].values():
                if label == rung.name and part in answer.story.unobtained:
                    unobtained[stated["property"]] = answer.story.unobtained[part]
    update = {"values": tuple(values), "unobtained": unobtained}
    return StoredEvidence(answer.story.model_copy(update=update), tuple(measured), answer.is_part)


def _rules(
    row: CampaignRow, ladder: Sequence[RungRow], answers: Sequence[StoredEvidence | None]
) -> Sequence[RungRules]:
    """Returns the rules of the stored spec, in canonical units. answers: each rung's evidence on the candidate."""
    terms = []
    for stated, rung, answer in zip(row.spec["ladder"][: len(ladder)], ladder, answers, strict=True):
        gate = {name: Window(*limits) for name, limits in stated["gate"].items()}
        measured = set(rung.derived)
        if answer is not None:
            measured.update(value.property for value in answer.measured)
        declared = _declared(stated, rung)
        if declared is not None:
            measured |= declared
        drops_refused = stated["on_refusal"] == "drop"
        is_known = declared is not None
        terms.append(RungTerms(rung.tier, gate, drops_refused, frozenset(measured), is_known=is_known))
    accept = dict[str, Window | None]()
    for objective in row.spec["objectives"]:
        limits = objective["accept"]
        accept[objective["property"]] = Window(*limits) if limits else None
    return ladder_rules(
        terms,
        accept,
        terminal=[rung.name for rung in ladder].index(row.spec["terminal"]),
        scheduler=row.spec["scheduler"]["kind"],
        goal=row.spec["goal"]["kind"],
        units=row.units,
    )


def _declared(stated: Mapping[str, Any], rung: RungRow) -> set[str] | None:
    """Returns the properties that the rung's verifier declares; None if the verifier is missing."""
    try:
        verifier = verifier_class(rung.verifier)(stated["settings"])
        return {measure.property.name for measure in verifier.measures}
    except (UsageError, ValueError, TypeError, OSError):
        return None


def _story(
    row: CampaignRow,
    rung: RungRow,
    rules: RungRules,
    answer: StoredEvidence | None,
    decisions: Sequence[DecisionStory],
    attempts: Sequence[JobAttempt],
    charge: int | None,
) -> RungStory:
    """Returns the entry of a rung. answer: its evidence; None without evidence. attempts: of the rung's jobs. charge:
    of the candidate."""
    story = answer.shown(row.units, row.limits) if answer else None
    tried = [attempt.story for attempt in attempts if attempt.story]
    reused = story is not None and story.campaign != row.name
    core_seconds = sum(attempt.core_seconds for attempt in tried)
    if story is not None and not attempts and not reused:
        core_seconds = story.core_seconds  # a fast rung has no job
    end = _by_attempts(tried) if answer is None else _by_evidence(rules, answer, rung.fits)
    return RungStory(
        rung=rung.name,
        tier=rung.tier,
        verifier=rung.verifier,
        version=rung.verifier_version,
        settings=row.spec["ladder"][rung.position]["settings"],
        gate=tuple(window_text(name, window, row.units) for name, window in rules.gate.items()),
        objectives=tuple(window_text(name, window, row.units) for name, window in rules.accept.items()),
        is_terminal=rules.is_terminal,
        **end._asdict(),
        job=attempts[0].job if attempts else None,
        reused=reused,
        core_seconds=round(core_seconds, 3),
        attempts=tuple(tried),
        decisions=tuple(decisions),
        evidence=story,
        calibrated=_calibrated(row, rung, answer, charge),
        replicates=(),
    )


def _calibrated(
    row: CampaignRow, rung: RungRow, answer: StoredEvidence | None, charge: int | None
) -> tuple[PropertyValue, ...]:
    """Returns the calibrated values of the rung, in the units of the campaign; none without evidence. charge: of the
    candidate."""
    if answer is None:
        return ()
    fitted = [value for value in answer.measured if value.property in rung.fits]
    in_units = in_chosen_units(calibrated(fitted, rung.fits, charge), row.units)
    return tuple(PropertyValue.of(beside_limits(measured, row.limits)) for measured in in_units)


class RungEnd(NamedTuple):
    """The end of a candidate at a rung; each field but `detail` is None where there is none yet."""

    outcome: str | None
    verdict: str | None
    reason: str | None
    detail: str


def _by_evidence(rules: RungRules, answer: StoredEvidence, fits: Fits) -> RungEnd:
    """Returns outcome, verdict, reason and detail by the evidence. fits: the rung's calibrations."""
    story = answer.story
    reason = Reason(story.reason) if story.reason else None
    finding = Finding(
        candidate_key="",  # plays no part in the verdict
        outcome=Outcome(story.outcome),
        measured=calibrated(answer.measured, fits),
        reason=reason,
        detail=story.detail,
        unobtained={name: Reason(text) for name, text in story.unobtained.items()},
    )
    judged = judge(rules, finding)
    return RungEnd(story.outcome, judged.verdict, judged.reason, judged.detail)


def _by_attempts(attempts: Sequence[AttemptStory]) -> RungEnd:
    """Returns outcome, verdict, reason and detail by the last attempt, for a rung without evidence."""
    for attempt in reversed(attempts):
        if attempt.outcome:
            verdict = Outcome(attempt.outcome).rule.verdict
            # the other verdicts need evidence
            shown_verdict = verdict if verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR) else None
            return RungEnd(attempt.outcome, shown_verdict, attempt.reason, attempt.detail)
    return RungEnd(outcome=None, verdict=None, reason=None, detail="")


WAITING_STANDINGS = (Standing.OPEN, Standing.HELD)
DRIVEN_STATES = (CampaignState.RUNNING, CampaignState.PAUSED)
MAX_TEXT = 4000  # characters that the ledger keeps of a refused text


def explain_named(
    ledger: Ledger,
    candidate: str,
    campaign: CampaignRow | str | None = None,
    viewer: Viewer | None = None,
    patience: float | None = None,
) -> Explanation | RefusedText:
    """Returns the explanation of a candidate, or of the refusal of a proposed text.

    candidate: a text as `resolve` takes it. campaign: the only campaign to cover, or its name; None: all campaigns with
    the candidate. viewer: the person who does not see what blind measurements hide, nor laws of them; None: everything
    is shown. patience: longest time in seconds to wait for a law; None: for as long as it takes. Raises UsageError if
    the ledger has neither.
    """
    with ledger.read() as connection:
        register_ledger_properties(connection)
        row = campaigns.get(connection, campaign) if isinstance(campaign, str) else campaign
        try:
            named = resolve(connection, row, candidate)
        except UsageError:
            campaign_name = None if row is None else row.name
            refused_text = refused(connection, candidate, campaign_name, matching_ids(connection, candidate))
            if refused_text is not None:
                return refused_text
            raise
        if row is not None:
            covered = [row]
        else:
            covered = [campaigns.get(connection, name) for name in candidate_history.campaigns_of(connection, named.id)]
            filtered_text = None if covered else refused(connection, candidate, None, [named.id])
            if filtered_text is not None:
                return filtered_text
        unseen = unseen_answers(connection, viewer, [named.id])
        blind = [] if viewer is None else [method.computation for method in blind_methods(connection)]
        return explain(connection, named.id, covered, ledger, unseen, LawReading(patience, frozenset(blind)))


def explain(
    connection: Connection,
    candidate_id: int,
    rows: Sequence[CampaignRow],
    ledger: Ledger,
    unseen: UnseenAnswers = ALL_SEEN,
    reading: LawReading = READ_ALL,
) -> Explanation:
    """Returns the answer of `sciagent explain`. rows: campaigns to cover. unseen: answers of others that are left out,
    as if they had not been given. reading: how laws are read."""
    candidate = candidate_history.candidate(connection, candidate_id)
    hidden = unseen.of(candidate_id)
    evidence = [
        stored
        for stored in candidate_history.evidence(connection, candidate_id)
        if stored.computation not in hidden or stored.story.who == unseen.login
    ]
    n_children, first_children = candidate_history.children(connection, candidate_id)
    child_ids = [child_id for child_id, _, _ in first_children]
    names = names_of(connection, [candidate_id, *child_ids], [row.id for row in rows])
    named_children = []
    for child_id, key, text in first_children:
        named_children.append(_named(names, candidate["kind"], child_id, key, text))
    other_texts = [text for text in candidate_history.aliases(connection, candidate_id) if text != candidate["text"]]
    from_files = imported_answers(connection, [candidate_id]).get(candidate_id, [])
    notation = subject_of(candidate["kind"]).notation_of(candidate["text"], candidate["payload"])
    asked = AskedStructure(notation, candidate["charge"])
    stories = []
    for row in rows:
        ladder = campaigns.rungs(connection, row.id)
        story = _campaign(connection, row, ladder, candidate_id, evidence, from_files, ledger, unseen)
        laws = law_stories(connection, row, ladder, asked, story.rungs, reading)
        stories.append(story.model_copy(update={"laws": laws}))
    return Explanation(
        **{name: candidate[name] for name in ("key", "kind", "inchikey", "formula", "charge", "multiplicity")},
        text=candidate["text"],
        drawn_from=notation,
        names=names.get(candidate_id, {}),
        atoms=candidate["n_atoms"],
        first_seen=candidate["created_at"],
        also_given_as=tuple(other_texts),
        children=Children(n=n_children, first=tuple(named_children)),
        campaigns=tuple(stories),
        imported=imported_values(from_files),
        other_evidence=tuple(_other_evidence(evidence, stories, rows)),
    )


def _other_evidence(
    evidence: Sequence[StoredEvidence], stories: Sequence[CampaignStory], rows: Sequence[CampaignRow]
) -> Iterator[EvidenceStory]:
    """Yields the computed evidence that no rung of the stories shows.

    A value is in the unit of the first campaign in `rows` that chose a unit for the property.
    """
    shown_keys = set()
    for story in stories:
        for rung in story.rungs:
            if rung.evidence:
                shown_keys.add(rung.evidence.key)
            shown_keys.update(replicate.key for replicate in rung.replicates)
    units = dict[str, str]()
    for row in reversed(rows):  # the first campaign comes last, so that its units win
        units.update(row.units)
    for stored in evidence:
        is_computed = stored.story.verifier not in (IMPORT_VERIFIER, DERIVED_VERIFIER)
        if is_computed and stored.story.key not in shown_keys:
            yield stored.shown(units, {})


def _campaign(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    candidate_id: int,
    evidence: Sequence[StoredEvidence],
    from_files: Sequence[EvidenceAnswer],
    ledger: Ledger,
    unseen: UnseenAnswers,
) -> CampaignStory:
    """Returns the story of a candidate in a campaign, without laws. evidence: what is shown of it. from_files: its
    imported values. unseen: answers that are left out."""
    member = as_seen(campaign_members(connection, row, [candidate_id])[candidate_id], ladder, unseen)
    people = directives.directives_on(connection, row.id, candidate_id)
    deciding = deciding_measurements(row, ladder, from_files)
    rungs = rung_stories(connection, row, ladder, candidate_id, evidence, member.charge, deciding)
    hidden_labels = hidden_rungs(candidate_id, ladder, unseen)
    if hidden_labels:
        rungs = [_without_attempts(story) if story.rung in hidden_labels else story for story in rungs]
    scheduler = row.spec["scheduler"]["kind"]
    outlook = None
    known_elsewhere = _known_elsewhere(member, ladder, rungs)
    [story] = CandidateStories(connection, row, ladder, unseen).of([member])
    if scheduler == "priced" and Standing(member.standing) in WAITING_STANDINGS and not known_elsewhere:
        from sciagent.campaign.pricing.explain_outlook import outlook_of  # takes a second to import

        outlook = outlook_of(ledger, connection, row, candidate_id)
    return CampaignStory(
        **{name: getattr(member, name) for name in COPIED_COLUMNS},
        campaign=row.name,
        state=row.state,
        scheduler=scheduler,
        rung=_rung_of(member, ladder).name,
        detail=member.detail or "",
        hit=member.hit,
        in_seeds=member.in_seeds,
        proposed=_proposals(connection, row, candidate_id, people),
        rungs=tuple(rungs),
        people=tuple(PersonWord(verb=d.verb, rung=d.rung, who=d.who, why=d.why, at=d.at) for d in people),
        core_seconds=round(sum(rung.core_seconds for rung in rungs), 3),
        costs=_costs(rungs),
        outlook=outlook,
        laws=(),
        p_limits=story.certainty.p_limits,
        p_limits_unknown=story.certainty.unknown,
        p_limits_measured=story.certainty.measured,
        margins=story.certainty.margins,
        same_compound=tuple(story.same_compound),
        contradicted=story.contradicted,
        decided_by_measurement=tuple(PropertyValue.of(measured) for _, measured in deciding.values()),
        known_elsewhere=known_elsewhere,
        why=_why(connection, row, ladder, member, rungs, outlook, known_elsewhere, people),
    )


def _without_attempts(rung: RungStory) -> RungStory:
    """Returns the story of a rung as if it still waited: without the people who worked on it, their answers and the
    verdict."""
    hidden: dict[str, object] = {"attempts": (), "outcome": None, "verdict": None, "reason": None, "detail": ""}
    hidden |= {"calibrated": (), "reused": False, "job": str(JobState.QUEUED)}
    hidden["decisions"] = tuple(decision for decision in rung.decisions if decision.action != "reuse")
    return rung.model_copy(update=hidden)


def _known_elsewhere(member: RankedCandidate, ladder: Sequence[RungRow], rungs: Sequence[RungStory]) -> tuple[str, ...]:
    """Returns the labels of the rungs whose answers on a waiting candidate the campaign has not taken up yet."""
    if Standing(member.standing) not in WAITING_STANDINGS:
        return ()
    labels = []
    for rung, story in zip(ladder, rungs, strict=True):
        if story.evidence is not None and rung.position > member.depth:
            labels.append(rung.name)
    return tuple(labels)


def _named(names: Mapping[int, Names], kind: str, id_: int, key: str, text: str) -> CandidateName:
    return CandidateName(key=key, kind=kind, text=text, names=names.get(id_, {}))


def _rung_of(member: RankedCandidate, ladder: Sequence[RungRow]) -> RungRow:
    """Returns the rung at which a candidate stands; the last rung for one that has passed the whole ladder."""
    return ladder[min(member.position, len(ladder) - 1)]


def _proposals(
    connection: Connection, row: CampaignRow, candidate_id: int, people: Sequence[directives.Directive]
) -> tuple[ProposalStory, ...]:
    """Returns the proposals of a candidate. people: directives on it; each `add` belongs to one proposal of a person,
    in the same order."""
    proposals = candidate_history.proposals(connection, row, candidate_id)
    parents = candidate_history.parents(connection, [proposal["id"] for proposal in proposals], candidate_id)
    names = names_of(connection, [parent_id for parent_id, *_ in parents], [row.id])
    parents_by_proposal: dict[int, list[CandidateName]] = {}
    for parent_id, key, text, proposal_id in parents:
        parent = _named(names, row.spec["subject"], parent_id, key, text)
        parents_by_proposal.setdefault(proposal_id, []).append(parent)
    names_of_people = iter([directive.who for directive in people if directive.verb == "add"])
    stories = []
    for proposal in proposals:
        proposal_id = proposal.pop("id")
        proposer = proposal.pop("proposer")
        by = next(names_of_people, "a person") if proposer is None else proposer
        fields = proposal | {
            "detail": proposal["detail"] or "",
            "filtered": FilterStory.of(proposal["filter_decision"]),
            "predicted": proposal["predicted"] or {},
            "parents": tuple(parents_by_proposal.get(proposal_id, ())),
        }
        del fields["filter_decision"]
        stories.append(ProposalStory(**fields, by=by, is_person=proposer is None))
    return tuple(stories)


def _why_hit(rung: str, rungs: Sequence[RungStory]) -> str:
    """Explains a hit. rung: the candidate's present rung."""
    deciding = next(story for story in rungs if story.is_terminal)
    if deciding.evidence is None:
        return f"A hit: imported values decide in place of {deciding.rung}, and it meets every objective."
    return f"A hit: it passed {rung}, which decides, and meets every objective."


def _costs(rungs: Sequence[RungStory]) -> dict[str, float]:
    """Returns {resource: amount} of a candidate. A fast rung has no attempts, and takes core-seconds alone."""
    costs = dict[str, float]()
    for rung in rungs:
        for attempt in rung.attempts:
            for resource, amount in attempt.cost.items():
                costs[resource] = costs.get(resource, 0.0) + amount
    core_seconds = sum(rung.core_seconds for rung in rungs)
    costs["core_seconds"] = core_seconds
    return {resource: round(amount, 3) for resource, amount in costs.items() if amount}


def _why(
    connection: Connection,
    row: CampaignRow,
    ladder: Sequence[RungRow],
    member: RankedCandidate,
    rungs: Sequence[RungStory],
    outlook: Outlook | None,
    known_elsewhere: Sequence[str],
    people: Sequence[directives.Directive],
) -> str:
    """Explains the candidate's standing in one or two sentences. people: directives on it, oldest first."""
    rung = _rung_of(member, ladder).name
    detail = member.detail or ""
    standing = Standing(member.standing)
    if member.hit:
        return _why_hit(rung, rungs)
    if standing is Standing.OPEN:
        if known_elsewhere:
            text = f"Open: the ledger has the answer of {' and '.join(known_elsewhere)} from elsewhere, which this "
            text += "campaign has not taken up. It does so at no cost while it runs and has a place for it."
        else:
            text = f"Open: it waits. {outlook.text}" if outlook else _queue(connection, row, ladder, member)
        return text if row.state in DRIVEN_STATES else f"{text} The campaign is not running ({row.state})."
    if member.reason in LIKE_ANOTHER:
        way_out = "" if rung == row.spec["terminal"] else " sciagent promote lets it go on."
        return f"Dropped after {rung}: it {detail}.{way_out}"
    because = member.reason or member.verdict
    if is_by_measurement(detail) and standing is Standing.DROPPED:
        return f"Dropped: a measured value decides: {because}. {detail}"
    how = "could not decide" if member.verdict in ("inconclusive", "error") else "said no"
    texts = {
        Standing.VETOED: f"Taken out {detail}. Its evidence is kept, and it is neither a hit nor a parent.",
        Standing.HELD: f"Held {detail}. It would wait for {rung}; sciagent hold --undo lets it go on.",
        Standing.PENDING: f"{_job_state(rung, rungs)}{_hold_after_job(people)}",
        Standing.SETTLED: f"Settled: {rung}, which decides, has answered: {because}. {detail}".strip(),
        Standing.DROPPED: f"Dropped: {rung} {how}: {because}. {detail}".strip(),
    }
    return texts[standing]


def _hold_after_job(people: Sequence[directives.Directive]) -> str:
    """Returns a sentence on the hold of a candidate whose job is out; empty without one. people: directives on it."""
    last = None
    for directive in people:
        if directive.verb in (Verb.HOLD, Verb.RELEASE, Verb.VETO):
            last = directive
    if last is None or last.verb != Verb.HOLD:
        return ""
    return f" {last.who} holds it: {last.why}. After this answer it waits; sciagent hold --undo lets it go on."


def _job_state(rung: str, rungs: Sequence[RungStory]) -> str:
    """Returns a sentence on the job of a candidate at a rung. rung: label of the rung."""
    for story in rungs:
        if story.rung == rung and any(attempt.state == "running" for attempt in story.attempts):
            return f"{rung} is at work on it."
    return f"A job at {rung} is decided and waits for a worker or a person."


def _queue(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], member: RankedCandidate) -> str:
    """States the rung that an open candidate waits for, and the number of candidates before it."""
    position = member.position
    rung = _rung_of(member, ladder)
    worth = member.worth
    n_ahead = candidate_history.count_ahead(connection, row, position, worth, member.seq)
    condition = "that promise more" if worth is not None else "before it"
    if n_ahead >= candidate_history.MAX_AHEAD:
        waiting = f"{candidate_history.MAX_AHEAD} or more wait"
    elif n_ahead == 1:
        waiting = "one waits"
    else:
        waiting = f"{n_ahead or 'none'} wait"
    text = f"Open: it waits for {rung.name}; {waiting} there {condition}."
    limit = row.spec.get("budget", {}).get("rungs", {}).get(rung.name)
    if limit is None:
        return text
    used = campaign_counts_and_remarks.jobs_by_rung(connection, row.id).get(rung.id, 0)
    return f"{text} {used} of {limit} places of {rung.name} are used."


def refused(
    connection: Connection, text: str, name: str | None, candidate_ids: Collection[int] = ()
) -> RefusedText | None:
    """Returns the refused proposals with exactly this text, or else with this name in an input file, and those of these
    candidates that a filter dropped.

    Returns None if there are none. name: of the campaign; None: all campaigns.
    """
    p = t.proposal.c
    c = t.campaign.c
    turn = t.turn.c
    trajectory = t.trajectory.c
    stored_texts = [text[:MAX_TEXT], text.strip()[:MAX_TEXT]]
    by = sa.func.coalesce(trajectory.proposer, "a person")
    detail = sa.func.coalesce(p.detail, "")
    labelled = (c.name.label("campaign"), turn.number.label("turn"), by.label("by"), detail.label("detail"))
    is_unread = p.candidate_id.is_(None)
    was_filtered = sa.and_(p.status == FILTERED, p.candidate_id.in_(candidate_ids))
    query = (
        sa.select(*labelled, p.text, p.reason, p.operation, p.rationale, p.at, p.filter_decision.label("filtered"))
        .select_from(with_proposer(t.proposal.join(t.campaign, c.id == p.campaign_id)))
        .order_by(p.id)
        .limit(candidate_history.MAX_ROWS)
    )
    if name is not None:
        query = query.where(c.name == name)
    with_text = sa.and_(is_unread, p.text.in_(stored_texts))
    refused_rows = connection.execute(query.where(sa.or_(with_text, was_filtered))).mappings().all()
    if not refused_rows and text.strip():
        name_at_end = f" {text.strip()}"
        rows = connection.execute(query.where(is_unread, p.detail.contains(name_at_end, autoescape=True))).mappings()
        refused_rows = [row for row in rows if _has_name(row["detail"], name_at_end)]
    proposals = tuple(RefusedProposal(**{**row, "filtered": FilterStory.of(row["filtered"])}) for row in refused_rows)
    return RefusedText(text=text, refused=proposals) if proposals else None


def _has_name(detail: str, name_at_end: str) -> bool:
    """Returns whether the detail of a refused row has a name. The workbench puts the names behind the reason, each
    after a semicolon. name_at_end: the name after a space."""
    _, *names = detail.split("; ")
    return any(name.endswith(name_at_end) for name in names)
