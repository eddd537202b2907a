"""`sciagent lab`: the list of tasks that people do, and what they enter about them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sciagent.api.terminal_tables_and_signals import Line, Part, plain_table
from sciagent.cli import options
from sciagent.cli.output_logging_and_given_structures import open_ledger, put_answer
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.environment_variables import user

if TYPE_CHECKING:
    from rich.table import Table

    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader, TaskState
    from sciagent.lab.record_answers import Recorded
    from sciagent.store.database.ledger import Ledger
    from sciagent.store.lab.tasks import LabTask

app = typer.Typer(help="Work of people: what to measure next, and what was measured.", no_args_is_help=True)
STATES = {
    "waiting": "to be approved",
    "queued": "free",
    "part_answered": "partly answered",
}  # words for states of tasks; others stand as they are
MAX_KEY = 64  # characters of --key
COLUMNS = ("campaign", "candidate", "measure", "state", "due", "why")
Task = Annotated[
    int, typer.Argument(metavar="TASK", min=1, max=2**63 - 1, help="Number of the task in `sciagent lab list`.")
]


@app.command("list", epilog="Example: sciagent lab list --mine")
def list_(
    campaign: options.Campaign = None,
    mine: bool = typer.Option(False, "--mine", help="Only the tasks that you have claimed."),
    limit: int = typer.Option(20, "--limit", "-n", min=1, max=1000, help="Most tasks shown."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Show what to measure next, the most valuable first, and why."""
    from sciagent.domain.answers.status_and_comparison import elsewhere_text
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import TaskReader
    from sciagent.store.campaign_state import campaigns
    from sciagent.store.lab import tasks

    opened = open_ledger(ledger)
    claimed_by = (as_who or user()) if mine else None
    with opened.read() as connection:
        campaign_id = None if campaign is None else campaigns.get(connection, campaign).id
        listed = tasks.listed(connection, campaign_id=campaign_id, claimed_by=claimed_by, limit=limit)
        shown = TaskReader(opened).shown(connection, listed)
        elsewhere = {}
        if campaign_id is not None and claimed_by is None:
            elsewhere = tasks.asked_elsewhere(connection, campaign_id)
    parts: list[Part] = [_table(shown)] if shown else []
    for name, n in Counter(other.name for other in elsewhere.values()).items():
        parts.append(Line(f"{elsewhere_text(name, n)}, and count here, too: sciagent lab list --campaign {name}"))
    put_answer(shown, json, parts or [Line("nothing is to be measured now")])


def _table(shown: Sequence[LabTaskAnswer]) -> Table:
    table = plain_table("task", "campaign", "candidate", "measure", "state", "due", "why", left=COLUMNS)
    for each in shown:
        properties = ", ".join(asked.property for asked in each.asks)
        measure = f"{properties} ({each.method})"
        state = STATES.get(each.state, each.state.replace("_", " "))
        if each.claimed_by:
            state += f" by {each.claimed_by}"
        if each.open_quantities:
            state += f", still open: {', '.join(each.open_quantities)}"
        if each.sent_back:
            state += f", sent back by {each.sent_back_by}: {each.sent_back}"
        if each.slot_at:
            state += f", no slot before {each.slot_at:%Y-%m-%d}"
        due = f"{each.due_at:%Y-%m-%d}" if each.due_at else ""
        table.add_row(str(each.task), each.campaign, each.text, measure, state, due, each.why)
    return table


@app.command(epilog="Example: sciagent lab claim 4711")
def claim(
    task: Task,
    take_over: bool = typer.Option(False, "--take-over", help="Also if somebody else has it, whose claim ends."),
    give_back: str | None = typer.Option(
        None, "--give-back", metavar="WHY", help="Give the task back to the list, and why, such as a lost vial."
    ),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Take a task. It is yours until you enter a result or give it back; its cost counts from now on.

    Within a day, a task that is given back has its cost given back, too.
    """
    from sciagent.lab import claims_costs_and_vials
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabClaimed

    if take_over and give_back is not None:
        raise UsageError("--take-over and --give-back exclude each other")
    opened = open_ledger(ledger)
    who = as_who or user()
    reader, lab_task = _reader_and_task(opened, task)
    if give_back is not None:
        _give_back(reader, lab_task, who, give_back, json)
        return
    claims_costs_and_vials.claim(reader.built(lab_task.campaign), task, who, take_over=take_over)
    said = f"task {task} is yours: {lab_task.text}; then: sciagent lab enter {task} --value PROPERTY='VALUE UNIT'"
    put_answer(LabClaimed(task=task, state="claimed", claimed_by=who), json, [Line(said)])


def _give_back(reader: TaskReader, task: LabTask, who: str, why: str, json: bool) -> None:
    from sciagent.lab import claims_costs_and_vials
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabClaimed
    from sciagent.store.campaign_state import directives

    is_cost_given_back = claims_costs_and_vials.release(
        reader.built(task.campaign), task.id, who, directives.checked_reason(why)
    )
    cost_text = "its cost was given back" if is_cost_given_back else "its cost stays booked"
    answer = LabClaimed(task=task.id, state="queued", claimed_by=None, cost_given_back=is_cost_given_back)
    put_answer(answer, json, [Line(f"task {task.id} is on the list again; {cost_text}")])


@app.command(epilog="Example: sciagent lab sample 4711 --form 'HCl, 1 H2O' --purity 0.98 --purity-how 'HPLC, 254 nm'")
def sample(
    task: Task,
    form: str = typer.Option(..., "--form", help="Salt form and solvates, such as 'free base' or 'HCl, 1 H2O'."),
    source: str = typer.Option("made", "--source", help="made, bought or given."),
    lot: str | None = typer.Option(None, "--lot", help="Batch."),
    purity: float | None = typer.Option(None, "--purity", help="Mass fraction, from 0 to 1."),
    purity_how: str | None = typer.Option(None, "--purity-how", help="Method by which the purity was found."),
    made_by: str | None = typer.Option(None, "--made-by", help="Who made it."),
    place: str | None = typer.Option(None, "--place", help="Where it is kept."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Register the vial of a task. Its code goes on the label: ten signs and a check sign that finds misreading."""
    from sciagent.lab import claims_costs_and_vials
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabSampleAnswer

    opened = open_ledger(ledger)
    reader, lab_task = _reader_and_task(opened, task)
    if purity is not None and 1 < purity <= 100:
        raise UsageError(f"--purity is a fraction from 0 to 1: for {purity:g} %, give --purity {purity / 100:g}")
    about: dict[str, Any] = {"lot": lot, "purity": purity, "purity_how": purity_how, "made_by": made_by, "place": place}
    made = claims_costs_and_vials.register(
        reader.built(lab_task.campaign), task, as_who or user(), form, source, **about
    )
    answer = LabSampleAnswer(
        code=made.code, task=task, kind=lab_task.kind, text=lab_task.text, form=made.form, source=source, **about
    )
    put_answer(answer, json, [Line(f"{made.code}: {lab_task.text}, {made.form}, for task {task}")])


@app.command(epilog="Example: sciagent lab enter 4711 --value 'homo_lumo_gap=4.31 eV'")
def enter(
    task: Task,
    value: list[str] = typer.Option([], "--value", "-v", help="PROPERTY='VALUE UNIT', for each that is asked for."),
    uncertainty: list[str] = typer.Option(
        [], "--uncertainty", "-u", help="PROPERTY=VALUE: one standard deviation, in the unit of the value."
    ),
    below: bool = typer.Option(False, "--below", help="The values are limits: the true ones lie below them."),
    above: bool = typer.Option(False, "--above", help="The values are limits: the true ones lie above them."),
    grade: list[str] = typer.Option([], "--grade", help="PROPERTY='WORD', where the task asks for a judgement."),
    not_obtained: list[str] = typer.Option(
        [],
        "--not-obtained",
        help="There is no value, and why: synthesis_failed, decomposed, insoluble or impure. PROPERTY=REASON if other "
        "quantities have one.",
    ),
    why: str = typer.Option("", "--why", help="Of a correction: the reason, which is kept with your name."),
    sample: str | None = typer.Option(None, "--sample", help="Code of the vial; that of another compound is refused."),
    sure: bool = typer.Option(
        False, "--sure", help="The values are right, however improbable; without it such values are asked about."
    ),
    key: str | None = typer.Option(None, "--key", help="A text of your own; a second sending with it changes nothing."),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Enter what was measured. For a task that is answered this is a correction, and needs --why.

    A quantity that is not named stays as it was recorded, or open: the task is then yours until it is complete.
    """
    from sciagent.lab import record_answers
    from sciagent.lab.improbable_values import WHATEVER

    opened = open_ledger(ledger)
    reader, lab_task = _reader_and_task(opened, task)
    built = reader.built(lab_task.campaign)
    limit = ""
    if below:
        limit = "below"
    elif above:
        limit = "above"
    said: dict[str, Any] = {
        "values": _pairs("--value", value),
        "uncertainties": _pairs("--uncertainty", uncertainty),
        "limit": limit,
        "not_obtained": "",
    }
    if any("=" in text for text in not_obtained):
        said["reasons"] = _pairs("--not-obtained", not_obtained, form="PROPERTY=REASON")
    elif not_obtained:
        said["not_obtained"] = not_obtained[-1]
    if grade:
        said["grades"] = _pairs("--grade", grade)
    if below and above:
        raise UsageError("--below and --above exclude each other")
    key = uuid.uuid4().hex if key is None else key[:MAX_KEY]
    confirmed = WHATEVER if sure else ""
    entry = record_answers.LabEntry(
        said, as_who or user(), key=key, why=why or None, sample=sample, confirmed=confirmed
    )
    recorded = record_answers.enter(built, task, entry)
    _put_recorded(recorded, json, built.row.hosted, lab_task.campaign)


@app.command(epilog="Example: sciagent lab review 4711 --accept 12")
def review(
    task: Task,
    accept: int | None = typer.Option(None, "--accept", metavar="ANSWER", help="Number of the answer that you read."),
    send_back: str = typer.Option("", "--send-back", metavar="WHY", help="Give it back to who entered it, and why."),
    approve: bool = typer.Option(
        False, "--approve", help="Let the task go on the list, where a campaign asks for the word of a chemist."
    ),
    ledger: options.Ledger = None,
    as_who: options.Who = None,
    json: options.Json = False,
) -> None:
    """Show the answer that waits for a second person (`lab: {review: true}`); accept it, or send it back.

    With --approve a task that is waiting goes on the list (`lab: {approve: true}`).
    """
    from sciagent.lab import claims_costs_and_vials, review_and_sign_answers
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabClaimed
    from sciagent.store.campaign_state import directives
    from sciagent.store.lab import tasks

    acts = [accept is not None, bool(send_back), approve]
    if acts.count(True) > 1:
        raise UsageError("--accept, --send-back and --approve exclude each other")
    opened = open_ledger(ledger)
    who = as_who or user()
    reader, lab_task = _reader_and_task(opened, task)
    if approve:
        claims_costs_and_vials.approve(reader.built(lab_task.campaign), task, who)
        put_answer(LabClaimed(task=task, state="queued", claimed_by=None), json, [Line(f"task {task} is approved")])
        return
    if accept is None and not send_back:
        _put_waiting(opened, lab_task, json)
        return
    built = reader.built(lab_task.campaign)
    if accept is not None:
        recorded = review_and_sign_answers.accept(built, task, who, accept)
        _put_recorded(recorded, json, built.row.hosted, lab_task.campaign)
        return
    review_and_sign_answers.send_back(built, task, who, directives.checked_reason(send_back))
    with opened.read() as connection:
        task_now = tasks.find(connection, task) or lab_task
    state: TaskState = "claimed" if task_now.claimed_by else "answered"
    answer = LabClaimed(task=task, state=state, claimed_by=task_now.claimed_by)
    put_answer(answer, json, [Line(f"the answer of task {task} was sent back")])


def _put_waiting(ledger: Ledger, task: LabTask, json: bool) -> None:
    from sciagent.lab import review_and_sign_answers, typed_answers
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabWaiting

    with ledger.read() as connection:
        waiting = review_and_sign_answers.waiting_answer(connection, task)
    assert waiting.at is not None  # it was read from the ledger
    text = typed_answers.answer_in_words(waiting.said)
    answer = LabWaiting(task=task.id, answer=waiting.id, who=waiting.who, at=waiting.at, text=text, why=waiting.why)
    line = f"{waiting.who} entered on {waiting.at:%Y-%m-%d %H:%M} UTC for task {task.id}: {text}"
    if waiting.why:
        line += f" (a correction: {waiting.why})"
    note = f"accept it: sciagent lab review {task.id} --accept {waiting.id}"
    put_answer(answer, json, [Line(line)], note)


def _put_recorded(recorded: Recorded, json: bool, hosted: bool, campaign: str) -> None:
    from sciagent.lab.record_answers import entered

    answer = entered(recorded)
    what = f"revision {recorded.revision}" if recorded.revision else "answer"
    line = f"the {what} of task {recorded.task} was recorded"
    if recorded.was_known:
        line += " before; nothing is new"
    if recorded.open_quantities:
        line += f"; the task stays yours, since these are still open: {', '.join(recorded.open_quantities)}"
    for sentence in recorded.converted:
        line += f"; {sentence}"
    if recorded.overdrawn:
        line += f"; {recorded.overdrawn}"
    if recorded.in_review:
        put_answer(answer, json, [Line(f"{line}; it waits for another person: sciagent lab review {recorded.task}")])
    elif recorded.open_quantities:
        name = recorded.open_quantities[0]
        put_answer(
            answer, json, [Line(line)], f"add it with: sciagent lab enter {recorded.task} --value {name}='VALUE UNIT'"
        )
    else:
        put_answer(answer, json, [Line(line)], *next_step(hosted, campaign))


def next_step(hosted: bool, campaign: str) -> list[str]:
    """Returns the line that says how a campaign goes on. hosted: whether a dispatcher drives it anyway."""
    return [] if hosted else [f"the campaign goes on with: sciagent resume {campaign}"]


def _reader_and_task(ledger: Ledger, task_id: int) -> tuple[TaskReader, LabTask]:
    """Returns a reader and the task. Raises UsageError if there is no such task."""
    from sciagent.lab.displayed_lab_tasks_claims_and_samples import TaskReader
    from sciagent.store.lab import tasks

    with ledger.read() as connection:
        task = tasks.find(connection, task_id)
    if task is None:
        raise UsageError(f"there is no task {task_id}; see: sciagent lab list")
    return TaskReader(ledger), task


def _pairs(option: str, given: list[str], form: str = "PROPERTY='VALUE UNIT'") -> dict[str, str]:
    """Returns {property: text}. form: how the option is written. Raises UsageError for a text without `=`, or a
    property that is named twice."""
    pairs: dict[str, str] = {}
    for text in given:
        name, equals, typed_value = text.partition("=")
        name = name.strip()
        if not equals or not name or not typed_value.strip():
            raise UsageError(f'{option} "{text}": write it as {form}{did_you_mean(name, pairs)}')
        if name in pairs:
            raise UsageError(f"{option}: {name} is given twice")
        pairs[name] = typed_value.strip()
    return pairs
