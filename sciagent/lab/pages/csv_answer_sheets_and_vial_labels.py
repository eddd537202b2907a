"""Sheets of the lab: a CSV template for the answers to many tasks, and labels of vials for the printer.

A trial run marks each cell of an answered sheet; then all is written, or nothing. A label has the code, a QR code of
the task's address, and the structure.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Annotated

import segno
from fastapi import Query
from markupsafe import Markup
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import structure_text, subject_of
from sciagent.domain.lab_messages_and_codes import NOT_OBTAINED, read_code
from sciagent.domain.people import Actor, Right, Rights
from sciagent.domain.safe_text_and_durations import read_id
from sciagent.errors import SciagentError, UsageError, did_you_mean
from sciagent.lab import claims_costs_and_vials, record_and_review_answers
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabTaskAnswer, TaskReader
from sciagent.lab.pages.typed_form_and_attachments import TypedForm
from sciagent.lab.record_and_review_answers import LabEntry, Recorded
from sciagent.lab.typed_answers import typed_answer
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import samples, tasks
from sciagent.store.results import candidates
from sciagent.web.route_rules_and_request_guards import Pages, RouteRule
from sciagent.web.site_context_and_ticker import link_to, redirect_to, site_of, visitor

MAX_ROWS = 500
MAX_BYTES = 2_000_000
NEXT_TASKS = 25  # tasks of the template for a person who has claimed none
FIXED_COLUMNS = ("task", "code", "smiles")
TEXT_COLUMNS = ("not_obtained", "why", "comment")
VALUE_PARTS = ("value", "unit", "spread")
MANY_CELLS = "it has more cells than the head; write a decimal point, and put texts with commas in quotation marks"
pages = Pages()


class UndoError(Exception):
    """Undoes the transaction of a trial run, or of a sheet with a fault."""


@dataclass
class SheetRow:
    """A row of a sheet: its cells as typed, and what is wrong with it."""

    line: int
    """Number of the line in the file, from 1."""
    cells: Mapping[str, str]
    fault: str = ""
    """The message on the fault; empty without one."""
    fault_in: str = ""
    """The column that is at fault; empty for the whole row."""
    result: str = ""
    """`evidence` with the quantities that are still open, `for review`, or `known` for an answer that was recorded
    before; empty until it is written."""
    is_beyond: bool = False
    """Whether the measurement overdraws the budget."""


@dataclass
class AnswerSheet:
    """A sheet as it was read."""

    columns: Sequence[str]
    rows: list[SheetRow]
    text: str = ""
    """The text of the sheet."""
    fault: str = ""
    """The message on a fault of the whole sheet; empty without one."""
    written: bool = field(default=False)

    @property
    def is_right(self) -> bool:
        return not self.fault and bool(self.rows) and not any(row.fault for row in self.rows)


@pages.get("/sheet.csv", RouteRule(Right.WORK))
def template(request: Request) -> Response:
    """Returns a CSV with the tasks of the person, or those that are next, and empty columns for their values."""
    site = site_of(request)
    who = visitor(request)
    reader = site.shared(TaskReader)
    with site.ledger.read() as connection:
        among = who.rights.campaigns(Right.WORK)
        own = tasks.listed(connection, among=among, claimed_by=str(who.who), limit=MAX_ROWS)
        shown = reader.shown(connection, own or tasks.listed(connection, among=among, limit=NEXT_TASKS))
    units: dict[str, str] = {}
    for task in shown:
        for question in task.asks:
            units[question.property] = question.units[0]
    value_parts: Sequence[str] = VALUE_PARTS
    if any(len(task.asks) > 1 for task in shown):
        value_parts = (*VALUE_PARTS, "reason")  # a quantity of several may have no value
    columns = list(product(units, value_parts))  # (property, part)
    names = [f"{part}.{name}" for name, part in columns]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([*FIXED_COLUMNS, *names, *TEXT_COLUMNS])
    for task in shown:
        asked = {each.property for each in task.asks}
        cells = [units[name] if part == "unit" and name in asked else "" for name, part in columns]
        empty_texts = [""] * len(TEXT_COLUMNS)
        writer.writerow([task.task, task.code or "", task.text, *cells, *empty_texts])
    headers = {"content-disposition": 'attachment; filename="tasks.csv"'}
    # with this first character Excel reads the file as UTF-8
    return Response("\ufeff" + out.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@pages.get("/sheet", RouteRule(Right.WORK))
def sheet_form(request: Request) -> Response:
    return _page(request, sheet=None)


@pages.post("/sheet", RouteRule(Right.WORK))
def sheet(request: Request) -> Response:
    """Tries a sheet and shows what is wrong. If the form says `write=yes`, all rows are written, or none if one has a
    fault."""
    site = site_of(request)
    who = visitor(request)
    form = request.state.form
    given = form.get("file")
    try:
        text = _decoded(given) if isinstance(given, UploadFile) and given.filename else str(form.get("text", ""))
        answers = read_sheet(text)
    except UsageError as error:
        answers = AnswerSheet(columns=(), rows=[], fault=str(error))
    if not answers.fault:
        write_sheet(site.ledger, answers, who.who, who.rights, is_trial=form.get("write") != "yes")
    if answers.written:
        is_beyond = any(row.is_beyond for row in answers.rows)
        return redirect_to("/tasks", sheet=len(answers.rows), beyond=1 if is_beyond else None)
    return _page(request, answers, status=200 if answers.is_right else 400)


def _page(request: Request, sheet: AnswerSheet | None, status: int = 200) -> Response:
    return site_of(request).page(request, "sheet.html.j2", status, sheet=sheet, reasons=list(NOT_OBTAINED))


def _decoded(file: UploadFile) -> str:
    content = file.file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UsageError(f"the sheet has more than {MAX_BYTES:,} bytes; split it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError("the sheet is not UTF-8 text; save it as: CSV UTF-8 (with commas)") from None


def read_sheet(text: str) -> AnswerSheet:
    """Returns the rows of a sheet; rows without an answer are left out."""
    lines = text.removeprefix("\ufeff").splitlines()
    head = lines[0] if lines else ""
    reader = csv.DictReader(io.StringIO("\n".join(lines)), strict=True)
    columns = [name.strip() for name in reader.fieldnames or ()]
    reader.fieldnames = columns
    fault = _fault_of_head(head, columns)
    if fault:
        return AnswerSheet(columns, rows=[], text=text, fault=fault)
    answer_columns = [name for name in columns if name.startswith(("value.", "reason.")) or name == "not_obtained"]
    try:
        rows = [_row(reader.line_num, cells) for cells in reader]
    except csv.Error:
        longest = f"{csv.field_size_limit():,}"
        fault = (
            f"near line {reader.line_num + 1} a cell has more than {longest} characters, or a quotation mark is "
            "missing or too many"
        )
        return AnswerSheet(columns, rows=[], text=text, fault=fault)
    rows = [row for row in rows if any(row.cells.get(name) for name in answer_columns)]
    _mark_repeated(rows)
    fault = "" if rows else "no row has a value, or a reason why there is none"
    if len(rows) > MAX_ROWS:
        fault = f"{len(rows)} rows; {MAX_ROWS} are the most"
    return AnswerSheet(columns, rows, text, fault)


def _mark_repeated(rows: Sequence[SheetRow]) -> None:
    """Notes a fault of each row whose task has an answer in an earlier row."""
    lines: dict[str, int] = {}
    for row in rows:
        task = row.cells.get("task", "")
        if task in lines and not row.fault:
            row.fault = f"task {task[:20]} has an answer in line {lines[task]} already; leave one of them out"
            row.fault_in = "task"
        lines.setdefault(task, row.line)


def _row(line: int, cells: Mapping[str, str | None]) -> SheetRow:
    kept = {name: (value or "").strip() for name, value in cells.items() if isinstance(name, str)}
    has_extra = None in cells  # DictReader puts surplus cells there
    return SheetRow(line, kept, MANY_CELLS if has_extra else "")


def _fault_of_head(head: str, columns: Sequence[str]) -> str:
    """Returns what is wrong with the first line of a sheet; empty if nothing is."""
    if ";" in head and "," not in head:
        fix = "save it as CSV with commas, and numbers with a decimal point"
        return f"the sheet has semicolons between its cells, as a German Excel writes; {fix}"
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        return f"the sheet has the column `{repeated[0][:40]}` twice; leave one of them out"
    return "" if "task" in columns else "the sheet has no column `task`; take the template"


def write_sheet(ledger: Ledger, sheet: AnswerSheet, who: Actor, rights: Rights, *, is_trial: bool) -> None:
    """Writes all rows in one transaction, or none if one has a fault. is_trial: undo it in any case."""
    reader = TaskReader(ledger)
    ready = []  # (row, campaign, task, answer)
    for row in sheet.rows:
        entry_of_row = _ready(ledger, reader, sheet, row, who, rights)
        if entry_of_row is not None:
            ready.append((row, *entry_of_row))
    try:
        with ledger.begin() as connection:
            claims_costs_and_vials.lock_all(connection, [(built, task_id) for _, built, task_id, _ in ready])
            for row, built, task_id, entry in ready:
                try:
                    with connection.begin_nested():  # a fault undoes this row only, so that the others are tried, too
                        done = record_and_review_answers.enter_here(connection, built, task_id, entry)
                except SciagentError as error:
                    row.fault = str(error)
                    continue
                row.is_beyond = bool(done.overdrawn)
                row.result = _result(done)
            if is_trial or not sheet.is_right:
                raise UndoError
    except UndoError:
        return
    sheet.written = True


def _result(done: Recorded) -> str:
    """Returns the result of a row; see `SheetRow`."""
    if done.was_known:
        return "known"
    if done.in_review:
        return "for review"
    return f"evidence; still open: {', '.join(done.open_quantities)}" if done.open_quantities else "evidence"


def _ready(
    ledger: Ledger, reader: TaskReader, sheet: AnswerSheet, row: SheetRow, who: Actor, rights: Rights
) -> tuple[Built, int, LabEntry] | None:
    """Returns (campaign, task, answer) that a row would write; None if it has a fault, which is noted with its
    column."""
    if row.fault:
        return None
    try:
        task = _task(ledger, reader, row, rights)
        typed_texts = _answer_texts(sheet, row, task)
        typed_answer(typed_texts)  # a fault of what was typed belongs to its column
    except SciagentError as error:
        row.fault = str(error)
        row.fault_in = row.fault_in or _column_of(row.fault, sheet.columns)
        return None
    # the same row sent again writes nothing
    key = hashlib.sha256(f"{who}\n{sorted(row.cells.items())}".encode()).hexdigest()
    built = reader.built(task.campaign)
    why = row.cells.get("why") or None
    sample = row.cells.get("code") or None
    return built, task.task, LabEntry(typed_texts, who, key=key, why=why, sample=sample)


def _column_of(fault: str, columns: Sequence[str]) -> str:
    """Returns the column of an answer that is at fault, by what is said of it; empty for the whole row."""
    name = fault.partition(":")[0]
    if "is no reason" in fault:
        return f"reason.{name}" if f"reason.{name}" in columns else "not_obtained"
    part = "spread" if "uncertainty" in fault else "value"
    column = f"{part}.{name}"
    return column if column in columns else ""


def _task(ledger: Ledger, reader: TaskReader, row: SheetRow, rights: Rights) -> LabTaskAnswer:
    """Returns the task of a row. Raises UsageError for an unknown task or another structure; `fault_in` then has the
    column."""
    number = row.cells["task"]
    row.fault_in = "task"
    with ledger.read() as connection:
        task_id = read_id(number)
        task = None if task_id is None else tasks.find(connection, task_id)
        if task is None or not rights.may(Right.WORK, task.campaign_id):
            raise UsageError(f'there is no task "{number[:20]}"')
        [shown] = reader.shown(connection, [task])
    smiles = row.cells.get("smiles")
    if smiles and smiles != shown.text:
        row.fault_in = "smiles"
        raise UsageError(f"task {number} is {shown.text}; rows were moved against each other")
    row.fault_in = ""
    return shown


def _answer_texts(sheet: AnswerSheet, row: SheetRow, task: LabTaskAnswer) -> Mapping[str, object]:
    """Returns what `typed_answer` reads. Raises UsageError for a value that the task does not ask for."""
    asked = {each.property for each in task.asks}
    for column in sheet.columns:
        part, _, name = column.partition(".")
        is_value = part in ("value", "spread", "reason")
        if is_value and name and name not in asked and row.cells.get(column):
            row.fault_in = column
            raise UsageError(f"task {task.task} does not ask for {name}{did_you_mean(name, sorted(asked))}")
    return TypedForm(row.cells).answer_texts(task.asks)


MAX_LABELS = 200
Codes = Annotated[str, Query(max_length=20 * MAX_LABELS)]


@pages.get("/labels", RouteRule(Right.READ))
def labels(request: Request, codes: Codes = "") -> Response:
    """Shows the labels of vials as a page to print. codes: with commas between them."""
    site = site_of(request)
    who = visitor(request)
    shown = []
    with site.ledger.read() as connection:
        filled = [code for code in codes.split(",") if code.strip()]
        for code in filled[:MAX_LABELS]:
            sample = samples.find(connection, read_code(code))
            if sample is None:
                raise UsageError(f"no vial has the code {code[:20]}")
            of_candidate = tasks.of_candidate(connection, sample.candidate_id)
            if not any(who.rights.may(Right.READ, task.campaign_id) for task in of_candidate):
                raise UsageError(f"the vial {sample.code} is of a campaign that you may not see")
            candidate = candidates.load(connection, [sample.candidate_id])[sample.candidate_id]
            structure = structure_text(candidate)
            address = link_to(request, f"/s/{sample.code}")
            alerts = samples.alerts(connection, sample.candidate_id, subject_of(candidate.kind).screen or "")
            shown.append({
                "vial": sample, "structure": structure, "qr": qr(address), "formula": candidate.formula,
                "alerts": alerts,
            })  # fmt: skip
    return site.page(request, "labels.html.j2", labels=shown)


def qr(text: str) -> Markup:
    """Returns a QR code as SVG. Its error correction is M (15 %), since labels are wiped."""
    out = io.BytesIO()
    segno.make(text, error="m", micro=False).save(out, kind="svg", xmldecl=False, svgns=False, omitsize=True, border=2)
    return Markup(out.getvalue().decode())
