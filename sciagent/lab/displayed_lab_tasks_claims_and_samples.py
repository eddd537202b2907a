"""The answers of `sciagent lab` as models (tasks, claims, samples, reviews), and `TaskReader`, which reads the tasks.

A task says what is asked, why, and who has it or has answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.core.create_and_open import open_campaign_for_people, open_within
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structure_text
from sciagent.domain.answers.candidate_and_value_answers import AnswerModel, StructureText
from sciagent.domain.candidate_and_its_names_in_files import Names, identifier_text
from sciagent.domain.cost_and_budget import Budget
from sciagent.domain.lab_messages_and_codes import AskedQuantity, LabForm
from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.domain.people import Right
from sciagent.domain.states_and_needs import JobState
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab.blind_measurements import Viewer, blind_methods, unseen_answers, unseen_in
from sciagent.store.lab.task_groups import ListedRung
from sciagent.store.lab.tasks import LabTask, rungs_with_tasks
from sciagent.store.results import candidates
from sciagent.verification.verifier_contract import WorldVerifier

TaskState = Literal["waiting", "queued", "claimed", "part_answered", "in_review", "answered", "cancelled"]


class LabAsked(AnswerModel):
    """A quantity that a task asks for."""

    property: str
    """Name of the property."""
    units: tuple[str, ...]
    """Units in which it may be entered; forms and sheets begin with the first."""
    grades: tuple[str, ...] = ()
    """Words for the answer, from the worst to the best; empty for a number."""
    unit: str | None = omitted_if_unset(None)
    """The unit that the campaign states for entering it; left out if it states none."""


class LabTaskAnswer(StructureText):
    """A task for people."""

    task: int
    """Number of the task."""
    code: str | None
    """Code of its sample; null without one."""
    name: str = omitted_if_unset("")
    """Identifier of the candidate in the files of the campaign; left out if it has none."""
    campaign: str
    """Name of the campaign."""
    rung: str
    """Label of the rung."""
    key: str
    """Key of the candidate."""
    asks: tuple[LabAsked, ...]
    """Quantities that are to be measured."""
    method: str
    """Method of measurement, with its conditions."""
    question: str = ""
    """The question, where a person judges instead of measuring."""
    why: str
    """Reason of the scheduler for the measurement."""
    due_at: datetime | None
    """Deadline (UTC); null without one."""
    state: TaskState
    """`waiting`: for the word of a chemist; `queued`: on the list; `claimed`; `part_answered`: claimed, and a quantity
    is still open; `in_review`: for a second person; `answered`; `cancelled`."""
    claimed_by: str | None
    """The person who has claimed it; null without one, and where a blind task hides it."""
    blind: bool = False
    """Whether what is known of the candidate is hidden, and each measurement of it is another person's."""
    is_hidden: bool = omitted_if_unset(False)
    """Whether the answers of this blind task are hidden from the person who asks; left out if they are not."""
    price: float = omitted_if_unset(0.0)
    """Price of the measurement, in EUR; left out if the campaign states none."""
    slot_at: datetime | None = omitted_if_unset(None)
    """Time (UTC) at which a slot of the week is free for it; left out where it can be claimed now, or is claimed."""
    open_quantities: tuple[str, ...] = omitted_if_unset(())
    """Names of the quantities that the recorded answer leaves open; left out if it is complete, or there is none."""
    sent_back: str | None = omitted_if_unset(None)
    """The reason for which the last answer was sent back; left out if it was not."""
    sent_back_by: str | None = omitted_if_unset(None)
    """The person who sent it back; left out if nobody did."""
    is_unwanted: bool = False
    """Whether it is not wanted any more although somebody has claimed it; an answer still counts."""


class LabAnswerFile(AnswerModel):
    """A file that belongs to an answer."""

    name: str
    """Name of the file."""
    sha256: str
    """SHA-256 of its content, under which it is read."""
    size: int
    """Size in bytes."""
    type: str
    """Media type, by its first bytes."""


class LabGivenAnswer(AnswerModel):
    """An answer that a person entered, or a word in a review."""

    answer: int
    """Number of the answer."""
    kind: str
    """`result`, `not_obtained`, `returned`, `reviewed` or `sent_back`."""
    who: str
    """Person who entered it."""
    at: datetime
    """Time (UTC) at which it was entered."""
    revision: int
    """0, or the number of the correction."""
    text: str
    """The answer in words, with numbers and units as they were typed."""
    why: str | None
    """Reason of a correction, or of sending it back; null otherwise."""
    files: tuple[LabAnswerFile, ...]
    """Files that belong to it."""


class LabTaskWithAnswers(LabTaskAnswer):
    """A task with what was answered."""

    answers: tuple[LabGivenAnswer, ...]
    """Answers and reviews, oldest first."""


class LabTaskList(AnswerModel):
    """A page of the list of tasks."""

    tasks: tuple[LabTaskAnswer, ...]
    """The tasks. With a filter a page may have fewer than `limit`, and even none, before the last page."""
    next: str | None
    """Path of the next page; null on the last page."""


class LabClaimed(AnswerModel):
    """A claim of a task, or its end."""

    task: int
    """Number of the task."""
    state: TaskState
    """State of the task now."""
    claimed_by: str | None
    """The person who has claimed it."""
    cost_given_back: bool | None = None
    """After a release: whether its cost was given back, as it is within a day."""


class LabSampleAnswer(StructureText):
    """A vial of a candidate."""

    code: str
    """Code on its label: ten signs and a check sign."""
    task: int | None
    """Number of the task that it was registered for."""
    form: str
    """Salt form and solvates."""
    source: str
    """`made`, `bought` or `given`."""
    lot: str | None = None
    """Batch."""
    purity: float | None = None
    """Mass fraction, from 0 to 1."""
    purity_how: str | None = None
    """Method by which the purity was found."""
    made_by: str | None = None
    """Who made it."""
    place: str | None = None
    """Where it is kept."""
    state: str = "ok"
    """`ok`, `empty` or `bad`."""


class LabVialAnswer(LabSampleAnswer):
    """A vial with the tasks of its candidate."""

    tasks: tuple[LabTaskAnswer, ...]
    """Tasks of the candidate: first the one for which the vial was registered, then open ones, then the newest."""


class LabWaiting(AnswerModel):
    """An answer that waits for a second person."""

    task: int
    """Number of the task."""
    answer: int
    """Number of the answer, which the person who accepts it names."""
    who: str
    """Person who entered it."""
    at: datetime
    """Time (UTC) at which it was entered."""
    text: str
    """The answer in words, with numbers and units as they were typed."""
    why: str | None
    """Reason of a correction; null otherwise."""


class LabEntered(AnswerModel):
    """What became of an answer."""

    task: int
    """Number of the task."""
    state: TaskState
    """State of the task now."""
    evidence_key: str
    """Key of the evidence that was made of it; empty while it waits for its review."""
    revision: int
    """0, or the number of the correction."""
    overdrawn: str = omitted_if_unset("")
    """Message on the limit of the budget that the measurement exceeds; left out if it exceeds none."""
    open_quantities: tuple[str, ...] = omitted_if_unset(())
    """Names of the quantities that are still open; left out if the answer is complete."""
    converted: tuple[str, ...] = omitted_if_unset(())
    """Sentences on masses by volume, such as mg/L, that were converted into amounts, with the molar mass; left out
    without any."""


class TaskReader:
    """Reads tasks of several campaigns. The file of a campaign is read once, and again after an amendment."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._opened: dict[tuple[int, str], tuple[Built, dict[int, BuiltRung]]] = {}
        """{(campaign id, hash of its spec): (campaign, its rungs of people by id)}."""

    def built(self, campaign: str) -> Built:
        """Returns the campaign as people's commands see it."""
        return open_campaign_for_people(self._ledger, campaign)

    def shown(
        self, connection: Connection, listed: Sequence[LabTask], viewer: Viewer | None = None
    ) -> list[LabTaskAnswer]:
        """Returns the tasks in their order. viewer: the person for whom they are shown, without what blind tasks hide;
        None for the command line."""
        unseen = unseen_answers(connection, viewer, [task.candidate_id for task in listed])
        candidate_ids = [task.candidate_id for task in listed]
        loaded = candidates.load(connection, candidate_ids)
        names = _names_by_campaign(connection, listed)
        reasons = candidate_standings.last_reasons(connection, [(task.rung_id, task.candidate_id) for task in listed])
        blind_in = _blind_campaigns(connection, listed, viewer)
        answers = []
        budgets = dict[int, Budget]()
        for task in listed:
            built, rungs_by_id = self._campaign_of(connection, task.campaign_id, task.campaign, task.spec_hash)
            rung = rungs_by_id[task.rung_id]
            candidate = loaded[task.candidate_id]
            # only a budget with a rate per week says when a slot is free
            if built.spec.budget.rates() and task.campaign_id not in budgets:
                budgets[task.campaign_id] = BudgetTracker(built, connection)
            assert isinstance(rung.verifier, WorldVerifier)  # the registry checks it
            form = rung.verifier.form(candidate)
            reason = reasons.get((task.rung_id, task.candidate_id), "")
            why = reason.removeprefix(f"{built.spec.scheduler.kind}: ")  # the person need not know the scheduler's name
            if task.campaign_id in blind_in:  # a chance of another molecule tells what was measured
                why = "chosen by the scheduler"
            slot_at = None
            # the slot of a task that is answered in part is booked already
            if task.state is JobState.QUEUED and task.campaign_id in budgets and not task.open_quantities:
                slot_at = budgets[task.campaign_id].slot_at(rung.declared_cost(candidate) or {})
            answer = _answer(task, rung, form, why, structure_text(candidate), slot_at)
            name = identifier_text(names[task.campaign_id].get(task.candidate_id, {}))
            answer = answer.model_copy(update={"name": name, "blind": answer.blind or unseen.is_blind(task)})
            answers.append(_without_answers(answer) if unseen.hides(task) else answer)
        return answers

    def rungs(self, connection: Connection, viewer: Viewer) -> list[ListedRung]:
        """Returns the rungs with tasks on which people act, of the campaigns that a person may see."""
        listed = []
        budgets = dict[int, BudgetTracker]()
        for stored in rungs_with_tasks(connection):
            if not viewer.rights.may(Right.READ, stored.campaign_id):
                continue
            built, rungs_by_id = self._campaign_of(connection, stored.campaign_id, stored.campaign, stored.spec_hash)
            rung = rungs_by_id.get(stored.id)
            if rung is None:  # people do not do it
                continue
            slot_at = None
            if rung.spec.lab is not None and built.spec.budget.rates():
                if stored.campaign_id not in budgets:
                    budgets[stored.campaign_id] = BudgetTracker(built, connection)
                slot_at = budgets[stored.campaign_id].slot_at(rung.spec.lab.cost.total())
            listed.append(
                ListedRung(
                    id=stored.id,
                    campaign_id=stored.campaign_id,
                    campaign=stored.campaign,
                    name=stored.name,
                    properties=tuple(measure.property.name for measure in rung.verifier.measures),
                    needs_approval=rung.spec.lab is not None and rung.spec.lab.approve,
                    price=0.0 if rung.spec.lab is None else rung.spec.lab.cost.money,
                    slot_at=slot_at,
                )
            )
        return listed

    def _campaign_of(
        self, connection: Connection, campaign_id: int, name: str, spec_hash: str
    ) -> tuple[Built, dict[int, BuiltRung]]:
        """Returns a campaign, and its rungs of people by id."""
        key = (campaign_id, spec_hash)
        if key not in self._opened:
            built = open_within(connection, self._ledger, name)
            self._opened[key] = (built, {rung.id: rung for rung in built.asked})
        return self._opened[key]


def _blind_campaigns(connection: Connection, listed: Sequence[LabTask], viewer: Viewer | None) -> set[int]:
    """Returns the ids of the campaigns of tasks in which blind answers are hidden from a person."""
    if viewer is None or not blind_methods(connection):
        return set()
    campaign_ids = {task.campaign_id for task in listed}
    return {id_ for id_ in campaign_ids if unseen_in(connection, viewer, id_).by_candidate}


def _names_by_campaign(connection: Connection, listed: Sequence[LabTask]) -> dict[int, dict[int, Names]]:
    """Returns {campaign id: {candidate id: names in the files of the campaign}} of tasks."""
    ids_by_campaign: dict[int, list[int]] = {}
    for task in listed:
        ids_by_campaign.setdefault(task.campaign_id, []).append(task.candidate_id)
    return {
        campaign_id: candidates.names_of(connection, ids, [campaign_id]) for campaign_id, ids in ids_by_campaign.items()
    }


def _without_answers(task: LabTaskAnswer) -> LabTaskAnswer:
    """Returns a task without what was answered, and by whom."""
    hidden = {"is_hidden": True, "claimed_by": None, "open_quantities": (), "sent_back": None, "sent_back_by": None}
    return task.model_copy(update=hidden)


def _asked(asked: AskedQuantity, rung: BuiltRung) -> LabAsked:
    """Returns a quantity as a task asks for it; the unit that the campaign states for it comes first."""
    name = asked.property.name
    stated = None if rung.spec.lab is None else rung.spec.lab.units.get(name)
    units = asked.units
    if stated in units:
        units = (stated, *(unit for unit in units if unit != stated))
    else:  # such as a mass by volume of a candidate without a molar mass
        stated = None
    return LabAsked(property=name, units=units, grades=asked.grades, unit=stated)


def _answer(
    task: LabTask, rung: BuiltRung, form: LabForm, why: str, structure: StructureText, slot_at: datetime | None
) -> LabTaskAnswer:
    """Returns a task as people see it."""
    method = form.method
    if form.conditions:
        conditions = "; ".join(f"{name} {value}" for name, value in form.conditions.items())
        method = f"{method}, {conditions}"
    return LabTaskAnswer(
        task=task.id,
        code=task.code,
        campaign=task.campaign,
        rung=task.rung,
        key=task.key,
        kind=structure.kind,
        text=structure.text,
        drawn_from=structure.drawn_from,
        asks=tuple(_asked(asked, rung) for asked in form.asks),
        method=method,
        question=form.question,
        why=why,
        due_at=task.due_at,
        state=state_of(task, needs_approval=rung.spec.lab is not None and rung.spec.lab.approve),
        claimed_by=task.claimed_by,
        blind=rung.spec.lab is not None and rung.spec.lab.blind,
        price=0.0 if rung.spec.lab is None else rung.spec.lab.cost.money,
        slot_at=slot_at,
        open_quantities=task.open_quantities,
        sent_back=task.sent_back,
        sent_back_by=task.sent_back_by,
        is_unwanted=task.cancel_requested,
    )


def state_of(task: LabTask, *, needs_approval: bool) -> TaskState:
    """Returns the state of a task in the words of its list."""
    if task.in_review_id is not None:
        return "in_review"
    if task.state is JobState.RUNNING:
        return "part_answered" if task.open_quantities else "claimed"
    if task.state is JobState.DONE:
        return "answered"
    if task.state is not JobState.QUEUED:
        return "cancelled"
    return "waiting" if needs_approval and task.approved_by is None else "queued"
