"""Sheets of the lab: a template for the answers to many tasks, and labels of vials for the printer.

A trial run says what is wrong with each row of an answered sheet. Then the rows without a fault are recorded, each in a
transaction of its own. A trial run is kept for an hour, so that nobody chooses the file again. A label has the code, a
QR code of the task's address, and the structure.
"""

from __future__ import annotations

import csv
import hashlib
import io
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import PurePath
from typing import Annotated, Literal

import segno
from fastapi import Query
from markupsafe import Markup
from sqlalchemy.engine import Connection
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structure_text, subject_of
from sciagent.domain.candidate_and_its_names_in_files import identifier_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED, read_code
from sciagent.domain.people import Actor, Right, Rights
from sciagent.domain.safe_text_and_durations import cut, read_id
from sciagent.errors import SciagentError, UsageError, did_you_mean
from sciagent.inputs.saved_tables import TableRow, open_table
from sciagent.lab import record_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader
from sciagent.lab.improbable_values import WHATEVER
from sciagent.lab.pages.typed_form_and_attachments import TypedForm
from sciagent.lab.record_answers import LabEntry, Recorded
from sciagent.lab.typed_answers import typed_answer
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import samples, tasks
from sciagent.store.lab.blind_measurements import Viewer, blind_methods, unseen_answers
from sciagent.store.lab.task_groups import TaskGroup, TaskQuery
from sciagent.store.lab.tasks import LabTask
from sciagent.store.results import candidates
from sciagent.web.route_rules_and_request_guards import Pages, QueryText, RouteRule
from sciagent.web.site_context_and_ticker import link_to, redirect_to, site_of, visitor
from sciagent.web.visitors_and_passwords import Visitor

MAX_ROWS = 500
MAX_BYTES = 2_000_000  # bytes of a file
MAX_UNPACKED = 20_000_000  # bytes of an unpacked workbook, ten times those of `MAX_ROWS` rows with 30 texts each
MAX_KEPT = 900_000  # bytes of the rows that the page of a trial run keeps
MAX_KEPT_SHEETS = 40  # trial runs of all people together
KEPT_SECONDS = 3600.0  # time for which a trial run is kept
MAX_TASKS_TEXT = 6_000  # characters of the numbers of tasks in an address
NEXT_TASKS = 25  # tasks of the template for a person who has claimed none
FIXED_COLUMNS = ("task", "code", "smiles")
TEXT_COLUMNS = ("not_obtained", "why", "comment")
VALUE_PARTS = ("value", "unit", "spread")
NUMBER_PARTS = ("value", "spread")
ROW = "row"
"""Column with the number of a row in the file that a person chose, where rows of it are sent again."""
FAULT = "fault"
"""Column of a sheet of faulty rows with what is wrong; it is not read."""
MANY_CELLS = "it has more cells than the head; put texts with commas in quotation marks"
Numbers = Annotated[str, Query(max_length=MAX_TASKS_TEXT)]
pages = Pages()


@dataclass
class SheetRow:
    """A row of a sheet: its cells as typed, and what is wrong with it."""

    number: int
    """Number of the row in the file, from 1."""
    cells: Mapping[str, str]
    fault: str = ""
    """The message on the fault; empty without one."""
    fault_in: str = ""
    """The column that is at fault; empty for the whole row."""
    addresses: Mapping[str, str] = field(default_factory=dict)
    """{column: its address in the file, such as `B7`}; the empty name stands for the whole row."""
    result: str = ""
    """`evidence` with the quantities that are still open, `for review`, or `known` for an answer that was recorded
    before; then the masses by volume that are converted. Empty for a row with a fault."""
    is_beyond: bool = False
    """Whether the measurement overdraws the budget."""
    odd: Sequence[str] = ()
    """Sentences on what is improbable in it; it is recorded only if the person says so."""

    @property
    def place(self) -> str:
        """The place of the fault, such as `B7`, or `row 7, column "comment"`."""
        return self.addresses.get(self.fault_in, f"row {self.number}")

    @property
    def task(self) -> str:
        """Number of the task, as typed."""
        return self.cells.get("task", "")

    @property
    def words(self) -> str:
        """The filled cells of the answer, with their columns."""
        named = [f"{name} {text}" for name, text in self.cells.items() if text and name not in FIXED_COLUMNS]
        return "; ".join(named)


@dataclass
class AnswerSheet:
    """A sheet as it was read."""

    columns: Sequence[str]
    rows: list[SheetRow]
    fault: str = ""
    """The message on a fault of the whole sheet; empty without one."""

    @property
    def good(self) -> list[SheetRow]:
        return [row for row in self.rows if not row.fault]

    @property
    def odd(self) -> list[SheetRow]:
        """The rows without a fault that are improbable."""
        return [row for row in self.good if row.odd]

    @property
    def bad(self) -> list[SheetRow]:
        return [row for row in self.rows if row.fault]

    def text(self, rows: Sequence[SheetRow], with_faults: bool = False) -> str:
        """Returns rows as a CSV with their numbers in the file. with_faults: with a column of what is wrong."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([ROW, *self.columns, *([FAULT] if with_faults else [])])
        for row in rows:
            cells = [row.cells.get(name, "") for name in self.columns]
            last = [f"{row.place}: {row.fault}"] if with_faults else []
            writer.writerow([row.number, *cells, *last])
        return out.getvalue()


class KeptSheets:
    """Keeps the sheets of trial runs in memory for an hour, so that the page of a trial run has an address of its own
    that a browser can go back to. The oldest goes when there are too many."""

    def __init__(self, ledger: Ledger) -> None:
        self._sheets: dict[str, tuple[str, float, AnswerSheet]] = {}
        """{key: (person, time in seconds, sheet as it was read)}, oldest first."""
        self._lock = threading.Lock()

    def keep(self, who: Actor, sheet: AnswerSheet) -> str:
        """Returns the key under which the sheet is kept."""
        key = secrets.token_urlsafe(12)
        with self._lock:
            self._sheets[key] = (str(who), time.monotonic(), sheet)
            while len(self._sheets) > MAX_KEPT_SHEETS:
                del self._sheets[next(iter(self._sheets))]
        return key

    def find(self, who: Actor, key: str) -> AnswerSheet | None:
        """Returns a copy of a sheet that the person has tried; None if it is not kept any more."""
        with self._lock:
            person, kept_at, sheet = self._sheets.get(key, ("", 0.0, None))
        if sheet is None or person != str(who) or time.monotonic() - kept_at > KEPT_SECONDS:
            return None
        return replace(sheet, rows=[replace(row) for row in sheet.rows])


@dataclass
class RecordedSheet:
    """The numbers of the tasks of a sheet's rows, by what became of them."""

    recorded: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    """Tasks whose state has changed since the trial run, so that the answer was not recorded."""
    is_beyond: bool = False
    """Whether a measurement overdraws the budget."""


@pages.get("/sheet.csv", RouteRule(Right.WORK))
def csv_template(request: Request, separator: Literal["comma", "semicolon"] = "comma") -> Response:
    """Returns a CSV with the tasks of the person, or those that are next, and empty columns for their values."""
    out = io.StringIO()
    delimiter = {"comma": ",", "semicolon": ";"}[separator]
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerows(_template_rows(request))
    # with this first character Excel reads the file as UTF-8
    return _downloaded(("\ufeff" + out.getvalue()).encode(), "text/csv; charset=utf-8", "tasks.csv")


@pages.get("/sheet.xlsx", RouteRule(Right.WORK))
def workbook_template(request: Request) -> Response:
    """Returns the template as an Excel workbook, whose header stays in view."""
    import xlsxwriter

    header, *rows = _template_rows(request)
    out = io.BytesIO()
    # a text that begins like a formula stays a text
    with xlsxwriter.Workbook(out, {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}) as book:
        sheet = book.add_worksheet("tasks")
        bold = book.add_format({"bold": True})
        as_text = book.add_format({"num_format": "@"})
        as_number = book.add_format({"num_format": "General"})
        names = [str(name) for name in header]
        for place, name in enumerate(names):
            is_number = name == "task" or name.partition(".")[0] in NUMBER_PARTS
            width = 30 if name == "smiles" else max(10, len(name) + 2)
            sheet.set_column(place, place, width, as_number if is_number else as_text)
        sheet.write_row(0, 0, names, bold)
        for number, cells in enumerate(rows, start=1):
            for place, cell in enumerate(cells):
                if cell != "":
                    sheet.write(number, place, cell)
        sheet.freeze_panes(1, 1)
    media_type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    return _downloaded(out.getvalue(), media_type, "tasks.xlsx")


def _downloaded(content: bytes, media_type: str, name: str) -> Response:
    return Response(content, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})


def _template_rows(request: Request) -> list[list[str | int]]:
    """Returns the header, and a row for each task that `_offered` names."""
    site = site_of(request)
    who = visitor(request)
    reader = site.shared(TaskReader)
    with site.ledger.read() as connection:
        shown = reader.shown(connection, _offered(connection, reader, who), who.viewer)
    units_by_task = [_first_units(task) for task in shown]
    judged = dict.fromkeys(asked.property for task in shown for asked in task.asks if asked.grades)
    measured = dict.fromkeys(asked.property for task in shown for asked in task.asks if not asked.grades)
    value_parts: Sequence[str] = VALUE_PARTS
    grade_parts: Sequence[str] = ("grade",)
    if any(len(task.asks) > 1 for task in shown):  # a quantity of several may have no value
        value_parts = (*VALUE_PARTS, "reason")
        grade_parts = ("grade", "reason")
    columns = [*product(measured, value_parts), *product(judged, grade_parts)]  # (property, part)
    names = [f"{part}.{name}" for name, part in columns]
    rows: list[list[str | int]] = [[*FIXED_COLUMNS, *names, *TEXT_COLUMNS]]
    for task, units in zip(shown, units_by_task, strict=True):
        cells = [units.get(name, "") if part == "unit" else "" for name, part in columns]
        empty_texts = [""] * len(TEXT_COLUMNS)
        rows.append([task.task, task.code or "", task.text, *cells, *empty_texts])
    return rows


def _offered(connection: Connection, reader: TaskReader, who: Visitor) -> list[LabTask]:
    """Returns the tasks of the template: those of the person, and for a person without any the first ones that can be
    begun now. Of the blind measurements of one candidate only the first is offered, since the others are for others."""
    rungs = [rung for rung in reader.rungs(connection, who.viewer) if who.rights.may(Right.WORK, rung.campaign_id)]
    query = TaskQuery(who.viewer, rungs, blind=blind_methods(connection))
    own = [
        task
        for group in (TaskGroup.SENT_BACK, TaskGroup.OWN)
        for task in query.page(connection, group, skip=0, limit=MAX_ROWS)
    ]
    if own:
        return own[:MAX_ROWS]
    free = query.page(connection, TaskGroup.FREE, skip=0, limit=NEXT_TASKS)
    unseen = unseen_answers(connection, who.viewer, [task.candidate_id for task in free])
    offered = dict[tuple[Computation, int, int], LabTask]()
    for task in free:
        replicate = 0 if unseen.is_blind(task) else task.replicate
        offered.setdefault((task.computation, task.candidate_id, replicate), task)
    return list(offered.values())


def _first_units(task: LabTaskAnswer) -> dict[str, str]:
    """Returns {quantity that a task asks for: the unit that forms begin with, empty for a plain number}."""
    return {asked.property: "" if asked.units[0] == "1" else asked.units[0] for asked in task.asks}


@pages.get("/sheet", RouteRule(Right.WORK))
def sheet_form(request: Request, kept: QueryText = "") -> Response:
    """Shows the form, and the trial run of a sheet. kept: the key of the sheet."""
    if not kept:
        return _page(request, sheet=None)
    site = site_of(request)
    who = visitor(request)
    answers = site.shared(KeptSheets).find(who.who, kept)
    if answers is None:
        gone = "the rows of this trial run are not kept any more; choose the file again"
        return _page(request, AnswerSheet(columns=(), rows=[], fault=gone), status=404)
    try_sheet(site.ledger, site.shared(TaskReader), answers, who.who, who.rights)
    return _page(request, answers, status=400 if answers.fault else 200)


@pages.post("/sheet", RouteRule(Right.WORK))
def sheet(request: Request) -> Response:
    """Keeps a sheet and sends the browser to its trial run. If the form says `write=yes`, each row
    without a fault is recorded, and the browser goes to the page of what was saved; `write=faults` returns the rows
    with a fault as a sheet."""
    site = site_of(request)
    who = visitor(request)
    form = request.state.form
    answers = _given_sheet(form)
    wish = form.get("write")
    if answers.fault or wish not in ("yes", "faults"):
        return redirect_to("/sheet", kept=site.shared(KeptSheets).keep(who.who, answers))
    entries = try_sheet(site.ledger, site.shared(TaskReader), answers, who.who, who.rights)
    if wish == "faults" and answers.bad:
        text = "\ufeff" + answers.text(answers.bad, with_faults=True)
        return _downloaded(text.encode(), "text/csv; charset=utf-8", "faults.csv")
    if wish == "faults" or not entries:
        return redirect_to("/sheet", kept=site.shared(KeptSheets).keep(who.who, answers))
    left_out = [] if form.get("odd") == "yes" else _task_ids(answers.odd)
    saved = record_rows([entry for entry in entries if entry[1] not in left_out])
    return redirect_to(
        "/sheet/saved",
        tasks=_ranges(saved.recorded) or None,
        failed=_ranges([*saved.failed, *_task_ids(answers.bad)]) or None,
        odd=_ranges(left_out) or None,
        beyond=1 if saved.is_beyond else None,
    )


def _given_sheet(form: FormData) -> AnswerSheet:
    """Returns the sheet in a form, from its file or from its text; one that cannot be read has a fault."""
    given = form.get("file")
    name = "sheet"
    content = str(form.get("text", "")).encode()
    if isinstance(given, UploadFile) and given.filename:
        name = cut(PurePath(given.filename.replace("\\", "/")).name, 80)
        content = given.file.read(MAX_BYTES + 1)
    try:
        return read_sheet(content, name)
    except UsageError as error:
        return AnswerSheet(columns=(), rows=[], fault=error.text)


def _task_ids(rows: Iterable[SheetRow]) -> list[int]:
    """Returns the numbers of the tasks that rows name."""
    return [task_id for row in rows if (task_id := read_id(row.task)) is not None]


@pages.get("/sheet/saved", RouteRule(Right.WORK))
def saved_sheet(
    request: Request, tasks: Numbers = "", failed: Numbers = "", odd: Numbers = "", beyond: bool = False
) -> Response:
    """Shows what a sheet did: the tasks that it answered, and what each waits for now. tasks, failed, odd: numbers of
    tasks, such as `3-7,12`; those of `odd` were left out, since the person did not say that they are right."""
    site = site_of(request)
    who = visitor(request)
    with site.ledger.read() as connection:
        numbers = [*_numbers(tasks), *_numbers(failed), *_numbers(odd)]
        found = _tasks_by_number(connection, numbers, who.rights)
        answers = site.shared(TaskReader).shown(connection, list(found.values()), who.viewer)
        shown = {task.task: task for task in answers}
    recorded = [shown[number] for number in _numbers(tasks) if number in shown]
    left = [shown[number] for number in _numbers(failed) if number in shown]
    left_out = [shown[number] for number in _numbers(odd) if number in shown]
    return site.page(request, "saved_sheet.html.j2", recorded=recorded, left=left, left_out=left_out, beyond=beyond)


def _ranges(numbers: Iterable[int]) -> str:
    """Returns numbers as a short text, such as `3-7,12`."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _numbers(text: str) -> list[int]:
    """Returns the numbers of a text such as `3-7,12`: at most MAX_ROWS, and none of a text that is none."""
    numbers: list[int] = []
    for part in text[:MAX_TASKS_TEXT].split(","):
        first_text, _, last_text = part.partition("-")
        first = read_id(first_text)
        last = read_id(last_text or first_text)
        if first is not None and last is not None:
            numbers.extend(range(first, min(last, first + MAX_ROWS) + 1))
    return numbers[:MAX_ROWS]


def _tasks_by_number(connection: Connection, numbers: Iterable[int], rights: Rights) -> dict[int, LabTask]:
    """Returns the tasks on which a person may work, by number."""
    found = {}
    for number in numbers:
        task = tasks.find(connection, number)
        if task is not None and rights.may(Right.WORK, task.campaign_id):
            found[number] = task
    return found


def _page(request: Request, sheet: AnswerSheet | None, status: int = 200) -> Response:
    return site_of(request).page(request, "sheet.html.j2", status, sheet=sheet, reasons=list(NOT_OBTAINED))


def read_sheet(content: bytes, name: str) -> AnswerSheet:
    """Returns the rows of a sheet; rows without an answer are left out. name: of the file.

    Raises UsageError if it cannot be read as a table."""
    if len(content) > MAX_BYTES:
        raise UsageError(f"the sheet has more than {MAX_BYTES:,} bytes; split it")
    table = open_table(content, name, wanted=("task",), max_unpacked=MAX_UNPACKED)
    columns = [column for column in table.header if column not in (ROW, FAULT)]
    if "task" not in columns:
        return AnswerSheet(columns, rows=[], fault="the sheet has no column `task`; take the template")
    answer_columns = [
        column for column in columns if column.startswith(("value.", "grade.", "reason.")) or column == "not_obtained"
    ]
    rows = []
    numbers = [column for column in columns if column.partition(".")[0] in NUMBER_PARTS]
    for table_row in table.rows(numbers):
        if _has_answer(table_row, answer_columns):
            rows.append(_row(table_row, columns))
        if len(rows) > MAX_ROWS:
            return AnswerSheet(columns, rows=[], fault=f"more than {MAX_ROWS} rows have an answer; split the sheet")
    _mark_repeated(rows)
    answers = AnswerSheet(columns, rows)
    if not rows:
        answers.fault = "no row has a value, or a reason why there is none"
    elif len(answers.text(rows).encode()) > MAX_KEPT:
        return AnswerSheet(columns, rows=[], fault=f"the rows have more than {MAX_KEPT:,} bytes; split the sheet")
    return answers


def _has_answer(table_row: TableRow, answer_columns: Sequence[str]) -> bool:
    """Whether a cell of an answer is filled, or holds something that cannot be read."""
    return any(table_row.cells[column] or column in table_row.faults for column in answer_columns)


def _row(table_row: TableRow, columns: Sequence[str]) -> SheetRow:
    """Returns a row of a sheet, with a fault of one of its cells."""
    number = read_id(table_row.cells.get(ROW, "")) or table_row.number
    row = SheetRow(number, {name: table_row.cells[name] for name in columns})
    if table_row.surplus is not None:
        row.fault = MANY_CELLS
    for name in columns:
        if name in table_row.faults and not row.fault:
            row.fault = table_row.faults[name]
            row.fault_in = name
    if number == table_row.number:
        row.addresses = {name: table_row.address(name) for name in ("", *columns)}
    else:  # the rows were sent again, and the file is not at hand
        row.addresses = {name: f'row {number}, column "{name[:40]}"' for name in columns}
    return row


def _mark_repeated(rows: Sequence[SheetRow]) -> None:
    """Notes a fault of each row whose task has an answer in an earlier row."""
    first: dict[str, int] = {}
    for row in rows:
        if row.task in first and not row.fault:
            row.fault = f"task {row.task[:20]} has an answer in row {first[row.task]} already; leave one of them out"
            row.fault_in = "task"
        first.setdefault(row.task, row.number)


def try_sheet(
    ledger: Ledger, reader: TaskReader, sheet: AnswerSheet, who: Actor, rights: Rights
) -> list[tuple[Built, int, LabEntry]]:
    """Notes what would become of each row, and writes nothing. Returns (campaign, task, answer) of the good rows."""
    campaigns: dict[str, Built] = {}
    blind_rows: dict[tuple[Computation, int], int] = {}  # {(measurement, candidate id): number of its row}
    ready = []
    with ledger.read() as connection:
        numbers = [number for row in sheet.rows if (number := read_id(row.task)) is not None]
        found = _tasks_by_number(connection, numbers, rights)
        viewer = Viewer(str(who), rights)
        shown = {task.task: task for task in reader.shown(connection, list(found.values()), viewer)}
        for row in sheet.rows:
            if row.fault:
                continue
            try:
                task = _task(row, shown)
                typed_texts = _answer_texts(sheet, row, task)
                typed_answer(typed_texts)  # a fault of what was typed belongs to its column
                if task.campaign not in campaigns:
                    campaigns[task.campaign] = reader.built(task.campaign)
                built = campaigns[task.campaign]
                entry = _entry(row, typed_texts, who)
                done = record_answers.would_record(connection, built, task.task, entry)
                if task.blind:
                    place = (found[task.task].computation, found[task.task].candidate_id)
                    _refuse_second_blind(row, blind_rows.setdefault(place, row.number))
            except SciagentError as error:
                row.fault = error.text if isinstance(error, UsageError) else str(error)
                row.fault_in = row.fault_in or _column_of(row.fault, sheet.columns)
                continue
            row.result = _result(done)
            row.odd = done.odd
            row.is_beyond = task.slot_at is not None
            ready.append((built, task.task, entry))
    return ready


def _refuse_second_blind(row: SheetRow, first: int) -> None:
    """Raises UsageError for a second blind measurement of one candidate. first: number of the row of the first."""
    if first != row.number:
        row.fault_in = "task"
        raise UsageError(f"it is for another person: row {first} is your measurement of this molecule")


def _entry(row: SheetRow, typed_texts: Mapping[str, object], who: Actor) -> LabEntry:
    """Returns the answer of a row. The same row sent again has the same key, and writes nothing."""
    key = hashlib.sha256(f"{who}\n{sorted(row.cells.items())}".encode()).hexdigest()
    why = row.cells.get("why") or None
    sample = row.cells.get("code") or None
    # a row that is improbable is recorded only if the person has ticked it
    return LabEntry(typed_texts, who, key=key, why=why, sample=sample, confirmed=WHATEVER)


def record_rows(entries: Sequence[tuple[Built, int, LabEntry]]) -> RecordedSheet:
    """Records each answer in a transaction of its own. entries: (campaign, task, answer)."""
    saved = RecordedSheet()
    for built, task_id, entry in entries:
        try:
            done = record_answers.enter(built, task_id, entry)
        except SciagentError:  # the page of the task says what happened since the trial run
            saved.failed.append(task_id)
            continue
        saved.recorded.append(task_id)
        saved.is_beyond = saved.is_beyond or bool(done.overdrawn)
    return saved


def _result(done: Recorded) -> str:
    """Returns the result of a row; see `SheetRow`."""
    if done.was_known:
        return "known"
    parts = ["for review" if done.in_review else "evidence", *done.converted]
    if done.open_quantities:
        parts.insert(1, f"still open: {', '.join(done.open_quantities)}")
    return "; ".join(parts)


def _column_of(fault: str, columns: Sequence[str]) -> str:
    """Returns the column of an answer that is at fault, by what is said of it; empty for the whole row."""
    name = fault.partition(":")[0]
    if "is no reason" in fault:
        return f"reason.{name}" if f"reason.{name}" in columns else "not_obtained"
    parts = ("spread",) if "uncertainty" in fault else ("value", "grade")
    named = [f"{part}.{name}" for part in parts if f"{part}.{name}" in columns]
    return named[0] if named else ""


def _task(row: SheetRow, shown: Mapping[int, LabTaskAnswer]) -> LabTaskAnswer:
    """Returns the task of a row. Raises UsageError for an unknown task or another structure; `fault_in` then has the
    column."""
    row.fault_in = "task"
    task_id = read_id(row.task)
    if task_id is None or task_id not in shown:
        raise UsageError(f'there is no task "{row.task[:20]}"')
    task = shown[task_id]
    smiles = row.cells.get("smiles")
    if smiles and smiles != task.text:
        row.fault_in = "smiles"
        raise UsageError(f"task {task_id} is {task.text}; rows were moved against each other")
    row.fault_in = ""
    return task


def _answer_texts(sheet: AnswerSheet, row: SheetRow, task: LabTaskAnswer) -> Mapping[str, object]:
    """Returns what `typed_answer` reads. Raises UsageError for a value that the task does not ask for."""
    asked = {each.property for each in task.asks}
    for column in sheet.columns:
        part, _, name = column.partition(".")
        is_value = part in ("value", "spread", "grade", "reason")
        if is_value and name and name not in asked and row.cells.get(column):
            row.fault_in = column
            raise UsageError(f"task {task.task} does not ask for {name}{did_you_mean(name, sorted(asked))}")
    return TypedForm(row.cells).answer_texts(task.asks)


MAX_LABELS = 200
Codes = Annotated[str, Query(max_length=20 * MAX_LABELS)]


@pages.get("/labels", RouteRule(Right.READ))
def labels(request: Request, codes: Codes = "", paper: Literal["label", "sheet"] = "label") -> Response:
    """Shows the labels of vials as a page to print. codes: with commas between them. paper: `label` prints each label
    on a page of its own size, for a label printer; `sheet` prints them together. A code that is given twice has one
    label. The task and the names of a campaign that the person may not see are left out."""
    site = site_of(request)
    who = visitor(request)
    shown = []
    with site.ledger.read() as connection:
        distinct = dict.fromkeys(read_code(code) for code in codes.split(",") if code.strip())
        for code in list(distinct)[:MAX_LABELS]:
            sample = samples.find(connection, code)
            of_candidate = [] if sample is None else tasks.of_vial(connection, sample)
            visible = [task for task in of_candidate if who.rights.may(Right.READ, task.campaign_id)]
            if sample is None or not visible:
                raise UsageError(f"no vial has the code {code[:20]}, or you may not see it")
            campaign_ids = [task.campaign_id for task in visible]
            names = candidates.names_of(connection, [sample.candidate_id], campaign_ids)
            registered_for = next((task.id for task in visible if task.id == sample.job_id), None)
            candidate = candidates.load(connection, [sample.candidate_id])[sample.candidate_id]
            structure = structure_text(candidate)
            address = link_to(request, f"/s/{sample.code}")
            alerts = samples.alerts(connection, sample.candidate_id, subject_of(candidate.kind).screen or "")
            shown.append({
                "vial": sample, "structure": structure, "qr": qr(address), "formula": candidate.formula,
                "alerts": alerts, "task": registered_for, "name": identifier_text(names.get(sample.candidate_id, {})),
            })  # fmt: skip
    return site.page(request, "labels.html.j2", labels=shown, paper=paper, codes=",".join(distinct))


def qr(text: str) -> Markup:
    """Returns a QR code as SVG. Its error correction is M (15 %), since labels are wiped."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(out, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=2)
    return Markup(out.getvalue().decode())
