"""Records the answers of people: a submission as it was typed, and the evidence that is made from it, in one
transaction.

`enter` records an answer or a correction, which counts in every campaign that asks for the same. An answer that leaves
quantities open becomes evidence, too, but no verdict follows from it, and its task stays open; what completes it is a
revision of that evidence. Where the rung asks for a review, the answer waits for a second person
(`review_and_sign_answers`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import open_within
from sciagent.campaign.core.record_results_and_place import Settling, is_verdict_due, settle, settle_again
from sciagent.chemistry.mass_concentrations import conversions
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, EvidenceKey, Finding
from sciagent.domain.lab_messages_and_codes import LabAnswer, read_code
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.errors import (
    AnsweredMeanwhileError,
    EvidenceConflictError,
    ImprobableValuesError,
    SciagentError,
    TaskStateError,
    UsageError,
)
from sciagent.lab.claims_costs_and_vials import (
    claim_finished,
    claim_of,
    cost_of_claim,
    locked,
    refuse_if_blind,
    refuse_unless_free,
    task_and_rung,
    usable_vial,
)
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabEntered, TaskState
from sciagent.lab.improbable_values import WHATEVER, digest_of, odd_things
from sciagent.lab.typed_answers import KEPT, typed_answer, with_earlier
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, leases
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import JobEnd
from sciagent.store.lab import samples, submissions, tasks
from sciagent.store.lab.submissions import REVIEWED, SENT_BACK, NewSubmission, Submission
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence, RecordedEvidence
from sciagent.verification.verifier_contract import WorldVerifier


def answer_equal_tasks(
    connection: Connection, ledger: Ledger, asking: Sequence[LabTask], evidence_id: int, chooser: str, why: str
) -> None:
    """Gives an answer to the tasks that ask for the same: a task that nobody has claimed goes off the list, and its
    candidate is placed. chooser, why: fields of the decision. The caller holds the locks of all the campaigns."""
    for other in asking:
        try:
            built = open_within(connection, ledger, other.campaign)
        except SciagentError:
            # such as a campaign with a rung that was defined in another notebook; its own driver reuses the evidence
            continue
        rungs_by_id = {rung.id: rung for rung in built.asked}
        rung = rungs_by_id.get(other.rung_id)
        if rung is None:
            continue
        is_off_the_list = bool(jobs.cancel_queued(connection, [other.id]))
        if not is_off_the_list:  # somebody has claimed it, and answers it
            continue
        decision = {
            "candidate_id": other.candidate_id,
            "rung_id": rung.id,
            "action": "reuse",
            "chooser": chooser[:100],
            "why": why,
            "propensity": 1.0,
            "evidence_id": evidence_id,
        }
        candidate_standings.decide(connection, built.row.id, [decision])
        settle_again(connection, built, other.candidate_id, answered=rung.rules.position)
        campaigns.wake(connection, built.row.id)


def place_again(
    connection: Connection,
    built: Built,
    candidate_id: int,
    computation: Computation,
    why: str,
    judged_elsewhere: bool = False,
) -> list[str]:
    """Places a candidate again in all campaigns whose ladder has the computation; returns their names.

    judged_elsewhere: only in other campaigns than `built` in which a verdict rests on the computation. The caller holds
    the locks of these campaigns. A campaign that this process cannot open, such as one with a rung that was defined in
    another notebook, gets an event that says so, and the candidate stays at its place there.
    """
    names = []
    for campaign_id, name in campaigns.campaigns_with_rung(connection, candidate_id, computation):
        try:
            other = built if campaign_id == built.row.id else open_within(connection, built.ledger, name)
        except SciagentError as error:
            payload = {"candidate_id": candidate_id, "why": why, "error": str(error)[:500]}
            campaigns.log_event(connection, campaign_id, "not_restated", payload)
            continue
        before = candidate_standings.get(connection, campaign_id, candidate_id)
        if judged_elsewhere and (campaign_id == built.row.id or not _is_judged(other, before, computation)):
            continue
        settle_again(connection, other, candidate_id)
        after = candidate_standings.get(connection, campaign_id, candidate_id)
        payload = {"candidate_id": candidate_id, "why": why}
        payload |= {"verdict": [before["verdict"], after["verdict"]], "is_hit": [before["is_hit"], after["is_hit"]]}
        campaigns.log_event(connection, campaign_id, "restated", payload)
        campaigns.wake(connection, campaign_id)
        names.append(name)
    return names


def _is_judged(built: Built, standing: Mapping[str, Any], computation: Computation) -> bool:
    """Returns whether the place of a candidate rests on the answers of a computation."""
    [position] = [rung.rules.position for rung in built.rungs if rung.verifier.computation == computation][:1]
    at = int(standing["position"])
    return at > position or (at == position and standing["verdict"] is not None)


@dataclass(frozen=True)
class LabEntry:
    """An answer as it was typed."""

    typed_texts: Mapping[str, Any]
    """Texts that `typed_answer` reads; they are kept as they are. A quantity that they do not name, and that has been
    recorded, stays as it is."""
    who: str
    """The person who enters it."""
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The sender makes it, so that an answer that is sent twice is recorded once."""
    why: str | None = None
    """Reason of a correction; None for a first answer, and for one that only completes it."""
    sample: str | None = None
    """Scanned code of the vial that was measured; None without a vial."""
    files: Sequence[Mapping[str, Any]] = ()
    """Name, sha256, size and media type of each file that is added. Those of earlier answers stay attached."""
    seen: int | None = None
    """Id of the last submission that the person saw, 0 for none; None: not compared."""
    confirmed: str = ""
    """`digest_of` the improbable things of which the person says that they are right; WHATEVER for all of them."""


@dataclass(frozen=True)
class Recorded:
    """What became of an answer."""

    task: int
    """Number of the task."""
    state: str
    """State of the task's job."""
    evidence_key: str
    """Key of the evidence; empty while the answer waits for its review."""
    revision: int
    """0, or the number of the correction."""
    was_known: bool = False
    """Whether the same answer had been recorded before."""
    in_review: bool = False
    """Whether a second person has to accept it before it becomes evidence."""
    overdrawn: str = ""
    """Message on the limit of the budget that the measurement exceeds; empty if it exceeds none."""
    open_quantities: tuple[str, ...] = ()
    """Names of the quantities that are still open; empty for an answer that is complete."""
    converted: tuple[str, ...] = ()
    """Sentences on the masses by volume that were converted into amounts by volume; see `conversions`."""
    odd: tuple[str, ...] = ()
    """Sentences on what is improbable; of an answer that would be recorded, those that are to be confirmed."""


@dataclass(frozen=True)
class ReadAnswer:
    """An answer as it is understood for the molecule of a task."""

    finding: Finding
    open_quantities: tuple[str, ...]
    """Names of the quantities without a value, a grade or a reason."""
    converted: tuple[str, ...]
    """Sentences on masses by volume; see `conversions`."""
    answer: LabAnswer
    """The answer as it was typed."""
    unchanged: tuple[str, ...] = ()
    """Names of the quantities of which the recorded answer says the same."""


@dataclass(frozen=True)
class Revised:
    """The evidence of a task that an answer revises."""

    evidence: RecordedEvidence
    revision: int
    typed_texts: Mapping[str, Any]
    """Texts of the submission that it was made from; empty for an imported value."""

    def recorded(self, asked: Sequence[str]) -> list[str]:
        """Returns the names of the quantities of which the recorded answer says something. asked: as for `changed`."""
        if not self.typed_texts:
            return []
        earlier = typed_answer(self.typed_texts)
        return [name for name in asked if _statement(earlier, name) is not None]

    def changed(self, answer: LabAnswer, asked: Sequence[str]) -> list[str]:
        """Returns the names of the quantities that are recorded, and of which an answer says something else. asked:
        names of the quantities that the task asks for."""
        if not self.typed_texts:
            return []
        earlier = typed_answer(self.typed_texts)
        changed = []
        for name in asked:
            statement = _statement(earlier, name)
            if statement is not None and statement != _statement(answer, name):
                changed.append(name)
        return changed


def _statement(answer: LabAnswer, name: str) -> object:
    """Returns what an answer says of a quantity; None if it is open."""
    reason: Reason | None = answer.not_obtained or answer.reasons.get(name)
    return answer.values.get(name) or answer.grades.get(name) or reason


def enter(built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Records an answer. A task that nobody has is claimed first, even if the budget does not hold it. The task stays
    with the person while a quantity is open. The answer to a task that is done is a correction, which needs a reason,
    as does another value of a quantity that is recorded. Where the rung asks for a review, a second person decides
    whether the answer becomes evidence.

    Raises UsageError if the answer does not fit the form, another person has the task, or the task was cancelled;
    AnsweredMeanwhileError if somebody answered after `entry.seen`; EvidenceConflictError if another answer was sent
    with the same key."""
    with locked(built, task_id) as (connection, _, _):
        return enter_here(connection, built, task_id, entry)


def enter_here(connection: Connection, built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Records an answer in a transaction that has locked the campaigns. Raises the errors of `enter`."""
    task, rung = task_and_rung(connection, built, task_id)
    earlier = submissions.with_key(connection, entry.key)
    if earlier is not None:
        return _known_answer(connection, task, entry, earlier)
    refuse_if_blind(connection, task, entry.who)
    sample_id = _checked_sample(connection, task, entry)
    overdrawn = ""
    if task.state is JobState.QUEUED:
        overdrawn = claim_finished(connection, built, task, rung, entry.who)
        task = tasks.find(connection, task_id) or task  # with the claim
    _refuse_unless_open_for(connection, task, rung, entry.who)
    revised = _revised(connection, task, rung)
    typed_texts, read = _read_beside(connection, task, rung, entry, revised)
    odd = _odd_things(connection, built, task, read, typed_texts)
    if odd and entry.confirmed not in (WHATEVER, digest_of(odd)):
        raise ImprobableValuesError(odd)
    if odd:
        typed_texts = {**typed_texts, CONFIRMED: list(odd)}
    earlier_files = _attached_files(connection, task)
    if earlier_files:
        typed_texts = {**typed_texts, KEPT_FILES: len(earlier_files)}
    new = NewSubmission(
        key=entry.key,
        job_id=task.id,
        fence=0,  # the fence of the claim replaces it
        kind=_kind(read.finding),
        who=entry.who,
        said=typed_texts,
        sample_id=sample_id,
        files=(*earlier_files, *entry.files),
        why=None if revised is None and task.in_review_id is None else entry.why,
    )
    if rung.spec.lab is not None and rung.spec.lab.review:
        recorded = _await_review(connection, task, revised, new)
        recorded = replace(recorded, open_quantities=read.open_quantities)
    else:
        recorded = record(connection, built, task, rung, read, new)
    return replace(recorded, overdrawn=overdrawn, converted=read.converted)


def would_record(connection: Connection, built: Built, task_id: int, entry: LabEntry) -> Recorded:
    """Returns what would become of an answer if it were entered now, and writes nothing. Raises the errors of
    `enter`. The budget is not looked at, since it holds no answer back."""
    task, rung = task_and_rung(connection, built, task_id)
    earlier = submissions.with_key(connection, entry.key)
    if earlier is not None:
        return _known_answer(connection, task, entry, earlier)
    refuse_if_blind(connection, task, entry.who)
    _checked_sample(connection, task, entry)
    if task.state is JobState.QUEUED:
        refuse_unless_free(connection, task, rung, entry.who)
    else:
        _refuse_unless_open_for(connection, task, rung, entry.who)
    typed_texts, read = _read_beside(connection, task, rung, entry, _revised(connection, task, rung))
    in_review = rung.spec.lab is not None and rung.spec.lab.review
    return Recorded(
        task.id,
        task.state,
        evidence_key="",
        revision=0,
        in_review=in_review,
        open_quantities=read.open_quantities,
        converted=read.converted,
        odd=_odd_things(connection, built, task, read, typed_texts),
    )


def _checked_sample(connection: Connection, task: LabTask, entry: LabEntry) -> int | None:
    """Returns the id of the vial that an answer names; None without one. Raises the errors of `enter` that need no
    claim."""
    _refuse_if_answered_since(connection, task, entry)
    sample_id = None if entry.sample is None else usable_vial(connection, task, entry.sample).id
    if task.state is JobState.DONE and not entry.why:
        raise TaskStateError(f"task {task.id} is answered; a correction needs a reason", "give it with --why")
    return sample_id


def _refuse_unless_open_for(connection: Connection, task: LabTask, rung: BuiltRung, who: str) -> None:
    """Raises TaskStateError unless the person has the task, or may correct its answer."""
    if task.state not in (JobState.RUNNING, JobState.DONE):
        raise TaskStateError(f"task {task.id} is over: {task.state}; nothing was recorded")
    if task.state is JobState.RUNNING and task.claimed_by != who:
        refuse_unless_free(connection, task, rung, who)


def _read_beside(
    connection: Connection, task: LabTask, rung: BuiltRung, entry: LabEntry, revised: Revised | None
) -> tuple[Mapping[str, Any], ReadAnswer]:
    """Returns the texts of an answer with the quantities that it takes over from the evidence that it revises, and what
    they say. Raises UsageError if they do not fit the form, or change a recorded quantity without a reason."""
    stated_units = {} if rung.spec.lab is None else rung.spec.lab.units
    typed_answer(entry.typed_texts, stated_units)  # a fault of what was typed comes before one of what is added
    asked = _asked(connection, rung, task)
    typed_texts = entry.typed_texts
    in_review = _own_in_review(connection, task, entry.who)
    if in_review is not None:
        typed_texts = with_earlier(typed_texts, in_review.said, asked)
    elif revised is not None:
        typed_texts = with_earlier(typed_texts, revised.typed_texts, asked)
    answer = typed_answer(typed_texts)
    read = read_answer(connection, rung, task, answer)
    _refuse_silent_change(task, entry, revised, read, answer, asked)
    if revised is not None:
        changed = revised.changed(answer, asked)
        recorded = revised.recorded(asked)
        read = replace(read, unchanged=tuple(name for name in recorded if name not in changed))
    return typed_texts, read


def _own_in_review(connection: Connection, task: LabTask, who: str) -> Submission | None:
    """Returns the answer of the same person that waits for its review, which a later one completes or replaces; None if
    none waits. It has taken over what is recorded."""
    if task.in_review_id is None:
        return None
    waiting = submissions.by_id(connection, task.in_review_id)
    return waiting if waiting.who == who else None


def _odd_things(
    connection: Connection, built: Built, task: LabTask, read: ReadAnswer, typed_texts: Mapping[str, Any]
) -> tuple[str, ...]:
    """Returns a sentence on each improbable thing that an answer adds or changes; see `odd_things`."""
    typed = {name: quantity for name, quantity in read.answer.values.items() if name not in read.unchanged}
    added = [value for value in read.finding.measured if value.property in typed]
    return odd_things(connection, built, task, added, typed, measured_on=typed_texts.get("measured_on", ""))


KEPT_FILES = "kept_files"
"""The entry of a submission's texts with the number of its first files, which an earlier answer brought."""
CONFIRMED = "confirmed"
"""The entry of a submission's texts with the improbable things of which the person has said that they are right."""


def _refuse_silent_change(
    task: LabTask, entry: LabEntry, revised: Revised | None, read: ReadAnswer, answer: LabAnswer, asked: Sequence[str]
) -> None:
    """Raises UsageError for an answer that changes a recorded quantity without a reason, or leaves a quantity of a task
    that is done open."""
    if revised is None:
        return
    changed = revised.changed(answer, asked)
    if changed and not entry.why:
        raise UsageError(
            f"{', '.join(changed)} of task {task.id} is recorded already; another value is a correction, which needs a "
            "reason",
            "give it with --why",
        )
    if task.state is JobState.DONE and read.open_quantities:
        raise UsageError(f"no value for {', '.join(read.open_quantities)}; or say why it was not obtained")


def _revised(connection: Connection, task: LabTask, rung: BuiltRung) -> Revised | None:
    """Returns the evidence that an answer revises: that of a task that is done, or of an answer that left a quantity
    open; None if there is none."""
    computation = rung.verifier.computation
    candidate_ids = [task.candidate_id]
    latest = evidence.latest_with_revision(connection, candidate_ids, computation, task.replicate)
    if task.candidate_id not in latest:
        return None
    current, revision = latest[task.candidate_id]
    is_complete = task.candidate_id in evidence.find_reusable(connection, candidate_ids, computation, task.replicate)
    if is_complete and task.state is not JobState.DONE:
        return None  # another task or a file has brought it since; `_complete` records nothing beside it
    submission = submissions.of_evidence(connection, current.id)
    return Revised(current, revision, {} if submission is None else submission.said)


def _asked(connection: Connection, rung: BuiltRung, task: LabTask) -> list[str]:
    """Returns the names of the quantities that a task asks for."""
    verifier = rung.verifier
    assert isinstance(verifier, WorldVerifier)  # the registry checks it
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    return [asked.property.name for asked in verifier.form(candidate).asks]


def _attached_files(connection: Connection, task: LabTask) -> Sequence[Mapping[str, Any]]:
    """Returns the files of the last answer of a task."""
    answers = [each for each in submissions.of_job(connection, task.id) if each.kind != SENT_BACK]
    return answers[-1].files if answers else ()


def record(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, read: ReadAnswer, new: NewSubmission
) -> Recorded:
    """Makes evidence of an answer: the first evidence of a task that is claimed, or a revision."""
    if task.state is JobState.DONE:
        return _correct(connection, built, task, rung, read.finding, new)
    if read.open_quantities:
        return _record_part(connection, built, task, rung, read, new)
    return _complete(connection, built, task, rung, read.finding, new)


def _record_part(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, read: ReadAnswer, new: NewSubmission
) -> Recorded:
    """Records the answer of a claimed task that leaves quantities open. The evidence answers no question for now, so
    that no verdict follows from it, and the task stays claimed."""
    claim, _ = claim_of(connection, task)
    made = _evidence_of(connection, task, rung, read.finding, new, claim.attempt_id)
    made = replace(made, reusable=False)
    [recorded] = evidence.record_once(connection, [made])
    if isinstance(recorded, int):  # a file has brought all quantities since
        return _complete(connection, built, task, rung, read.finding, new)
    new = replace(new, fence=claim.fence, revision=made.key.revision, evidence_id=recorded.id)
    submissions.write(connection, new, task.campaign_id, _act(new, "entered in part"))
    _note_answer(connection, task, new, read.open_quantities)
    return Recorded(task.id, JobState.RUNNING, made.key.hash, made.key.revision, open_quantities=read.open_quantities)


def _evidence_of(
    connection: Connection, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission, attempt_id: int
) -> NewEvidence:
    """Returns the evidence of an answer to a claimed task; it revises that of an answer that left a quantity open.
    attempt_id: the attempt of the claim."""
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    key: EvidenceKey = rung.verifier.evidence_key(candidate, task.replicate)
    source = f"task {task.id}"
    revised = _revised(connection, task, rung)
    if revised is None:
        return NewEvidence(finding, key, task.candidate_id, attempt_id=attempt_id, source=source, who=_measured_by(new))
    bearer = submissions.bearing_attempt(connection, task.id)
    return NewEvidence(
        finding,
        replace(key, revision=revised.revision + 1),
        task.candidate_id,
        attempt_id=attempt_id if bearer is None else bearer,
        source=source,
        who=_measured_by(new),
        why=new.why or "a quantity that was open was added",
        supersedes=revised.evidence.id,
    )


def _note_answer(
    connection: Connection, task: LabTask, new: NewSubmission, open_quantities: Sequence[str] = ()
) -> None:
    """Writes what a recorded answer leaves open, and its vial, into the row of a task."""
    changes: dict[str, object] = {"open_quantities": " ".join(open_quantities) or None, "sent_back_id": None}
    if new.sample_id is not None:  # without a vial the task keeps the one that it has
        changes["sample_id"] = new.sample_id
    tasks.write_change(connection, task.id, **changes)


def _complete(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission
) -> Recorded:
    """Records the answer of a claimed task: it ends the attempt and the job, makes evidence, and places the
    candidate."""
    claim, claimed_at = claim_of(connection, task)
    made = _evidence_of(connection, task, rung, finding, new, claim.attempt_id)
    key = made.key
    state = AttemptState.CANCELLED_LATE if task.cancel_requested else AttemptState.DONE
    seconds = (db_now(connection) - claimed_at).total_seconds()
    cost = cost_of_claim(connection, rung, task, claim)  # booked when the task was claimed
    attempts.end_many(connection, [AttemptEnd(claim.attempt_id, state, cost, seconds, finding.outcome, finding.reason)])
    leases.end_held(connection, [JobEnd(claim, JobState.DONE, finding.outcome)])
    [recorded] = evidence.record_once(connection, [made])
    if isinstance(recorded, int):  # the id of evidence that exists already
        evidence_id = recorded
        watermark = None
    else:
        evidence_id = recorded.id
        watermark = recorded.watermark
    attempts.mark_end(connection, [claim.attempt_id], watermark)
    new = replace(new, fence=claim.fence, revision=key.revision, evidence_id=evidence_id)
    submissions.write(connection, new, task.campaign_id, _act(new, "entered"))
    _note_answer(connection, task, new)
    if is_verdict_due(connection, rung, task.candidate_id):
        settle(connection, built, [Settling(task.candidate_id, rung.rules.position)])
    why = f"{task.campaign} asked for the same, and was answered"
    asking = tasks.asking_for(connection, task.evidence_key)
    answer_equal_tasks(connection, built.ledger, asking, evidence_id, f"task {task.id}", why)
    if watermark is not None:
        why = f"task {task.id} of {task.campaign} is one more measurement"
        place_again(connection, built, task.candidate_id, rung.verifier.computation, why, judged_elsewhere=True)
    campaigns.wake(connection, built.row.id)
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def read_answer(connection: Connection, rung: BuiltRung, task: LabTask, answer: LabAnswer) -> ReadAnswer:
    """Returns what an answer says of the task's molecule. Raises UsageError if it does not fit the form."""
    verifier = rung.verifier
    assert isinstance(verifier, WorldVerifier)  # the registry checks it
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    finding = verifier.read(candidate, answer)
    open_quantities = verifier.form(candidate).open_quantities(answer)
    return ReadAnswer(finding, open_quantities, converted=conversions(answer.values, candidate), answer=answer)


def _await_review(connection: Connection, task: LabTask, revised: Revised | None, new: NewSubmission) -> Recorded:
    """Records an answer that waits for a second person. revised: the evidence that it will revise."""
    earlier = submissions.of_job(connection, task.id)
    revision = 0 if revised is None else revised.revision + 1
    if task.state is JobState.DONE:
        fence = earlier[-1].fence
    else:
        claim, _ = claim_of(connection, task)
        fence = claim.fence
    of_id = earlier[-1].id if earlier else None
    new = replace(new, fence=fence, revision=revision, of_id=of_id)
    submission_id = submissions.write(connection, new, task.campaign_id, "entered for review")
    tasks.write_change(connection, task.id, in_review_id=submission_id, sent_back_id=None)
    return Recorded(task.id, task.state, evidence_key="", revision=revision, in_review=True)


def _refuse_if_answered_since(connection: Connection, task: LabTask, entry: LabEntry) -> None:
    """Raises AnsweredMeanwhileError if somebody answered after the submission that the person saw last."""
    if entry.seen is None:
        return
    unseen = [submission for submission in submissions.of_job(connection, task.id) if submission.id > entry.seen]
    if unseen:
        raise AnsweredMeanwhileError(task.id, unseen[-1].who)


def _known_answer(connection: Connection, task: LabTask, entry: LabEntry, before: Submission) -> Recorded:
    """Returns what became of an answer that was sent before. Raises EvidenceConflictError if its key was used for
    another answer. before: the submission with the same key."""
    n_kept = before.said.get(KEPT_FILES, 0)
    has_same_texts = _own_texts(before.said) == _own_texts(entry.typed_texts)
    has_same_files = [dict(file) for file in before.files[n_kept:]] == [dict(file) for file in entry.files]
    has_same_vial = (entry.sample and read_code(entry.sample)) == _code_of(connection, before.sample_id)
    if before.job_id != task.id or not (has_same_texts and has_same_files and has_same_vial):
        raise EvidenceConflictError(
            f"the key {entry.key} was used for another answer, which is recorded; this one is not. "
            "Load the task again to see the first one, and correct it there"
        )
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    known = Recorded(
        task.id,
        task.state,
        evidence_key="",
        revision=before.revision,
        was_known=True,
        converted=conversions(typed_answer(before.said).values, candidate),
    )
    if before.evidence_id is None:
        return replace(known, in_review=True)
    evidence_key = submissions.evidence_key(connection, before.evidence_id)
    return replace(known, evidence_key=evidence_key, open_quantities=task.open_quantities)


def entered(recorded: Recorded) -> LabEntered:
    """Returns what became of an answer, for the command line and for instruments."""
    state: TaskState = "answered"
    if recorded.in_review:
        state = "in_review"
    elif recorded.open_quantities:
        state = "part_answered"
    return LabEntered(
        task=recorded.task,
        state=state,
        evidence_key=recorded.evidence_key,
        revision=recorded.revision,
        overdrawn=recorded.overdrawn,
        open_quantities=recorded.open_quantities,
        converted=recorded.converted,
    )


def _own_texts(typed_texts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the texts of an answer without the quantities that it took over from an earlier one."""
    kept = typed_texts.get(KEPT, ())
    own = dict[str, Any]()
    for part, entry in typed_texts.items():
        if isinstance(entry, Mapping):
            entry = {name: text for name, text in entry.items() if name not in kept}
        if entry and part not in (KEPT, KEPT_FILES, CONFIRMED):
            own[part] = entry
    return own


def _code_of(connection: Connection, sample_id: int | None) -> str | None:
    """Returns the code of the vial that a submission names; None if it names none."""
    return None if sample_id is None else samples.by_id(connection, sample_id).code


def _correct(
    connection: Connection, built: Built, task: LabTask, rung: BuiltRung, finding: Finding, new: NewSubmission
) -> Recorded:
    """Records a revision of a task that is done, and places its candidate again in every campaign with the rung."""
    candidate = candidates.load(connection, [task.candidate_id])[task.candidate_id]
    revised = _revised(connection, task, rung)
    assert revised is not None  # the task is done
    current = revised.evidence
    key = replace(rung.verifier.evidence_key(candidate, task.replicate), revision=revised.revision + 1)
    attempt_id = submissions.attempt_of(connection, current.id)
    made = NewEvidence(
        finding, key, task.candidate_id, attempt_id=attempt_id, source=f"task {task.id}", who=_measured_by(new),
        why=new.why, supersedes=current.id,
    )  # fmt: skip
    [evidence_id] = evidence.record(connection, [made])
    last = submissions.of_job(connection, task.id)[-1]
    new = replace(new, fence=last.fence, revision=key.revision, of_id=last.id, evidence_id=evidence_id)
    submissions.write(connection, new, task.campaign_id, _act(new, "corrected"))
    _note_answer(connection, task, new)
    place_again(connection, built, task.candidate_id, rung.verifier.computation, f"task {task.id} was corrected")
    return Recorded(task.id, JobState.DONE, key.hash, key.revision)


def _kind(finding: Finding) -> str:
    """Returns the kind of the submission."""
    return "result" if finding.outcome is Outcome.OK else "not_obtained"


def _act(new: NewSubmission, act_of_author: str) -> str:
    """Returns the act for the audit trail: `accepted` for the submission of a reviewer, else `act_of_author`."""
    return "accepted" if new.kind == REVIEWED else act_of_author


def _measured_by(new: NewSubmission) -> str:
    """Returns who measured; a reviewer's submission names that person among its texts."""
    return str(new.said["measured_by"]) if new.kind == REVIEWED else str(new.who)
