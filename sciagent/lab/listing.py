"""The list of tasks as people see it: what is asked, why, and who has it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built, BuiltRung, open_for_people, open_within
from sciagent.chemistry.subjects.drawing import structure_text
from sciagent.domain.answers.lab import LabAsked, LabTaskAnswer, TaskState
from sciagent.domain.answers.values import StructureText
from sciagent.domain.budget import Budget
from sciagent.domain.lab import LabForm
from sciagent.domain.states import JobState
from sciagent.store.campaign_state import standings
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates
from sciagent.verification.contract import WorldVerifier


class TaskReader:
    """Reads tasks of several campaigns. The file of a campaign is read once, and again after an amendment."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[tuple[int, str], tuple[Built, dict[int, BuiltRung]]] = {}

    def built(self, campaign: str) -> Built:
        """Returns the campaign as people's commands see it."""
        return open_for_people(self._ledger, campaign)

    def shown(self, connection: Connection, listed: Sequence[LabTask]) -> list[LabTaskAnswer]:
        """Returns the tasks in their order."""
        loaded = candidates.load(connection, [task.candidate_id for task in listed])
        why = standings.last_reasons(connection, [(task.rung_id, task.candidate_id) for task in listed])
        answers, budgets = [], dict[int, Budget]()
        for task in listed:
            at = task.campaign_id, task.spec_hash
            if at not in self._known:
                built = open_within(connection, self._ledger, task.campaign)
                self._known[at] = built, {rung.id: rung for rung in built.asked}
            built, asked = self._known[at]
            rung = asked[task.rung_id]
            if built.spec.budget.rates() and task.campaign_id not in budgets:
                budgets[task.campaign_id] = BudgetTracker(built, connection)
            assert isinstance(rung.verifier, WorldVerifier)  # the registry checks it
            form = rung.verifier.form(loaded[task.candidate_id])
            said = why.get((task.rung_id, task.candidate_id), "").removeprefix(f"{built.spec.scheduler.kind}: ")
            budget = budgets.get(task.campaign_id) if task.state is JobState.QUEUED else None
            slot_at = budget.slot_at(rung.declared(loaded[task.candidate_id]) or {}) if budget else None
            answers.append(_answer(task, rung, form, said, structure_text(loaded[task.candidate_id]), slot_at))
        return answers


def _answer(
    task: LabTask, rung: BuiltRung, form: LabForm, why: str, structure: StructureText, slot_at: datetime | None
) -> LabTaskAnswer:
    stated = "; ".join(f"{key} {value}" for key, value in form.conditions.items())
    return LabTaskAnswer(
        task=task.id,
        code=task.code,
        campaign=task.campaign,
        rung=task.rung,
        key=task.key,
        kind=structure.kind,
        text=structure.text,
        drawn_from=structure.drawn_from,
        asks=tuple(
            LabAsked(property=asked.property.name, units=asked.units, grades=asked.grades) for asked in form.asks
        ),
        method=form.method + (f", {stated}" if stated else ""),
        question=form.question,
        why=why,
        due_at=task.due_at,
        state=state_of(task, needs_approval=rung.spec.lab is not None and rung.spec.lab.approve),
        claimed_by=task.claimed_by,
        blind=rung.spec.lab is not None and rung.spec.lab.blind,
        slot_at=slot_at,
        is_unwanted=task.cancel_requested,
    )


def state_of(task: LabTask, *, needs_approval: bool) -> TaskState:
    """Returns the state of a task in the words of its list."""
    if task.in_review_id is not None:
        return "in_review"
    if task.state is JobState.RUNNING:
        return "claimed"
    if task.state is JobState.DONE:
        return "answered"
    if task.state is not JobState.QUEUED:
        return "cancelled"
    return "waiting" if needs_approval and task.approved_by is None else "queued"
