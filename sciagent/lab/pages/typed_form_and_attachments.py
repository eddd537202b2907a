"""The form of an answer: its fields as they were typed (`TypedForm`), and files that people attach (`keep_files`).

A file is stored under its hash, and a browser gets it only as a download.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from sqlalchemy.engine import Connection
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sciagent.domain.people import Right
from sciagent.domain.safe_text_and_durations import cut
from sciagent.errors import UsageError
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabAsked
from sciagent.lab.typed_answers import LIMIT_SIGNS, mean_of, read_number, typed
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import submissions
from sciagent.store.lab.blind_measurements import unseen_answers
from sciagent.store.lab.tasks import LabTask
from sciagent.web.route_rules_and_request_guards import FileNumber, Pages, RouteRule, TaskId
from sciagent.web.site_context_and_ticker import site_of, task_of, visitor
from sciagent.web.visitors_and_passwords import Visitor

MAX_FILE_BYTES = 25_000_000
MAX_FILES = 20  # files of an answer
# {first bytes of a file: its media type}
MEDIA_TYPES = {
    b"%PDF-": "application/pdf",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"PK\x03\x04": "application/zip",
}
pages = Pages()


def keep_files(ledger: Ledger, form: FormData) -> list[Mapping[str, object]]:
    """Stores the files in the field `files` of a form; returns name, sha256, size and media type of each. Raises
    UsageError for too many, or one that is too large."""
    files = [each for each in form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    if len(files) > MAX_FILES:
        raise UsageError(f"{len(files)} files; an answer has at most {MAX_FILES}")
    for each in files:
        if (each.size or 0) > MAX_FILE_BYTES:
            raise UsageError(f"{_name(each.filename)} has {each.size:,} bytes; {MAX_FILE_BYTES:,} are the most")
    return [_stored(ledger, each) for each in files]


def _stored(ledger: Ledger, file: UploadFile) -> Mapping[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        with path.open("wb") as copy:
            file.file.seek(0)
            shutil.copyfileobj(file.file, copy)
        with path.open("rb") as start:
            first = start.read(4096)
        sha256, size = ledger.artifacts.put(path)
    return {"name": _name(file.filename), "sha256": sha256, "size": size, "type": _sniffed(first)}


def _name(given: str | None) -> str:
    """Returns the last part of a name, without signs that no file has."""
    # a browser may send a path of either kind; category C has the control characters
    last = PureWindowsPath(PurePosixPath(given or "").name).name
    plain = "".join(letter for letter in last if unicodedata.category(letter)[0] != "C" and letter not in '<>:"/\\|?*')
    return plain.strip(" .")[:120] or "file"


def _sniffed(first: bytes) -> str:
    """Returns the media type by the first bytes; what the browser said of it does not count."""
    for first_bytes, media_type in MEDIA_TYPES.items():
        if first.startswith(first_bytes):
            return media_type
    try:
        first.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut_character = error.start >= len(first) - 4  # `first` may end inside a character
        if not is_cut_character:
            return "application/octet-stream"
    return "application/octet-stream" if b"\0" in first else "text/plain"


@pages.get("/tasks/{task}/files/{submission}/{number}", RouteRule(Right.READ, of="task"))
def attachment(request: Request, task: TaskId, submission: TaskId, number: FileNumber) -> Response:
    site = site_of(request)
    with site.ledger.read() as connection:
        is_hidden = hidden_task(connection, visitor(request), task_of(request))
        given = [] if is_hidden else submissions.of_job(connection, task)
    matching = [each for each in given if each.id == submission]
    if not matching or not 0 <= number < len(matching[0].files):
        return site.page(request, "message.html.j2", 404, title="No such file", text="This answer has no such file.")
    return download(site.ledger, matching[0].files[number])


def hidden_task(connection: Connection, who: Visitor, task: LabTask) -> bool:
    """Returns whether the answers of a blind task, with their files, are hidden from a visitor."""
    return unseen_answers(connection, who.viewer, [task.candidate_id]).hides(task)


def download(ledger: Ledger, file: Mapping[str, Any]) -> Response:
    """Returns the answer with a file of a submission, as a download. Raises UsageError if its content is missing."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file['name'])}"}
    path = ledger.artifacts.path(file["sha256"])
    if not path.exists():
        raise UsageError(f"the file {file['name']} is missing from the folder of artifacts")
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


# {limit that was chosen beside a value: its sign on the page}
LIMITS = {"": "=", "<": "<", ">": ">"}
ANSWER_FIELDS = ("value", "spread", "readings", "reason", "grade")  # fields that answer a quantity
NUMBER_FIELDS = ("value", "spread", "readings")  # fields of a quantity that is measured
OTHER_FIELDS = ("instrument", "measured_on", "comment")  # fields that are kept beside the values
MAX_TEXT = 4000  # characters of a field
MAX_READINGS_TEXT = 30_000  # characters of the field `readings`


@dataclass(frozen=True)
class TypedForm:
    """The fields of a form as they came, for showing them again, and what they say."""

    fields: Mapping[str, str]

    def of(self, field: str, property_: str = "") -> str:
        """Returns the text of a field, such as `value` of a property; empty without one. A longer text is cut."""
        return self._text(field, property_)[: _longest(field)]

    def _whole(self, field: str, property_: str = "") -> str:
        """Returns the text of a field as `of` does. Raises UsageError if it is longer than what is kept."""
        text = self._text(field, property_)
        if len(text) > _longest(field):
            where = f"{property_}: the {field}" if property_ else f"the {field}"
            raise UsageError(f"{where} has {len(text):,} characters; {_longest(field):,} are the most")
        return text

    def _text(self, field: str, property_: str) -> str:
        return self.fields.get(f"{field}.{property_}" if property_ else field, "").strip()

    def beginning_with(self, texts: Mapping[str, Any], asks: Sequence[LabAsked]) -> TypedForm:
        """Returns the form with what an earlier answer says of each quantity that is empty here, and in other empty
        fields. texts: what `typed_answer` read."""
        fields = dict(self.fields)
        for asked in asks:
            if not self._has_answer(asked.property):
                fields |= _fields_of(asked.property, texts, is_alone=len(asks) == 1)
        for name in OTHER_FIELDS:
            if not self.of(name):
                fields[name] = texts.get(name, "")
        return TypedForm(fields)

    def _has_answer(self, name: str) -> bool:
        """Whether something is typed or chosen for a quantity."""
        return bool(self.of("not_obtained")) or any(self.of(field, name) for field in ANSWER_FIELDS)

    def field_at_fault(self, fault: str, asks: Sequence[LabAsked]) -> str:
        """Returns the id of the field that a message is about, such as `spread-melting_point`; empty if it is about
        none. The message begins with the name of a quantity."""
        if fault.startswith(("measured on", "the day of the measurement")):
            return "measured_on"
        first_word = re.split(r"[: ]", fault, maxsplit=1)[0]
        if first_word not in {asked.property for asked in asks}:
            return ""
        name = first_word
        if fault.startswith(f"{name}: the uncertainty"):
            return f"spread-{name}"
        if self.of("readings", name) and not self.of("value", name):
            return f"readings-{name}"
        return f"value-{name}"

    def answer_texts(self, asks: Sequence[LabAsked]) -> Mapping[str, Any]:
        """Returns what `typed_answer` reads. Raises UsageError for a text that is no number, or longer than is kept."""
        # no limit for all values together, since each text in `values` has its own
        texts: dict[str, Any] = {"values": {}, "uncertainties": {}, "limit": ""}
        texts |= {"not_obtained": self._whole("not_obtained"), "means": {}, "readings": {}, "reasons": {}}
        grades = {}
        for asked in asks:
            grade = self._grade(asked)
            if grade:
                grades[asked.property] = grade
            self._add_quantity(asked, texts)
        if grades:
            texts["grades"] = grades
        for name in OTHER_FIELDS:
            text = self._whole(name)
            if text:
                texts[name] = text
        return texts

    def _grade(self, asked: LabAsked) -> str:
        """Returns the grade that was chosen for a quantity; empty without one. Raises UsageError for a grade of a
        quantity that is measured, and for a number where a grade is asked for."""
        name = asked.property
        grade = self._whole("grade", name)
        if grade and not asked.grades:
            raise UsageError(f"{name}: it is measured, not judged; give its value in place of a grade")
        if asked.grades and any(self.of(field, name) for field in NUMBER_FIELDS):
            raise UsageError(f"{name}: it is judged, not measured; give a grade: {', '.join(asked.grades)}")
        return grade

    def _add_quantity(self, asked: LabAsked, texts: dict[str, Any]) -> None:
        """Adds what is typed for one quantity to the texts of an answer. Raises the errors of `answer_texts`."""
        name = asked.property
        value = self._whole("value", name)
        spread = self._whole("spread", name)
        listed = self._whole("readings", name)
        reason = self._whole("reason", name)
        if reason and (value or spread or listed):
            raise UsageError(f"{name}: there is a value, and a reason why there is none; give one of the two")
        if reason:
            texts["reasons"][name] = reason
        if listed:
            if value or spread:
                raise UsageError(f"{name}: give the readings, or a value with its ±; not both")
            value, spread, _ = mean_of(name, listed)
            texts["readings"][name] = listed
        if spread and not value:
            raise UsageError(f"{name}: the uncertainty {cut(spread, 40)} has no value; type the value, too")
        if value:
            texts["values"][name] = self._with_unit(asked, value)
        if spread:
            texts["uncertainties"][name] = spread
            texts["means"][name] = "standard" if listed else self._whole("means", name)

    def _with_unit(self, asked: LabAsked, value: str) -> str:
        """Returns a value with the limit and the unit that were chosen beside it, unless the text has its own. The unit
        `1` of a plain number is written where the campaign states another one. Raises UsageError for a text that is no
        number."""
        name = asked.property
        number = read_number(name, value)
        limit = "" if number.sign else self.of("limit", name)
        if limit not in LIMITS:
            limit = ""
        unit = "" if number.unit else self.of("unit", name)
        is_understood = unit == "1" and asked.unit in (None, "1")
        if not unit or is_understood:
            return f"{limit}{value}"
        return f"{limit}{value} {unit}"


def _fields_of(name: str, texts: Mapping[str, Any], *, is_alone: bool) -> dict[str, str]:
    """Returns the fields of a form that say what an answer says of a quantity. is_alone: whether the task asks for
    nothing else, so that the reason of the whole answer is that of the quantity."""
    whole_reason = texts.get("not_obtained", "")
    reason = texts.get("reasons", {}).get(name, "") or whole_reason
    if reason:
        return {"not_obtained" if is_alone else f"reason.{name}": reason}
    if name in texts.get("grades", {}):
        return {f"grade.{name}": texts["grades"][name]}
    if name not in texts.get("values", {}):
        return {}
    text = texts["values"][name]
    number = read_number(name, text)
    fields = {f"unit.{name}": typed(name, text).unit, f"means.{name}": texts.get("means", {}).get(name, "")}
    readings = texts.get("readings", {}).get(name)
    if readings:
        return fields | {f"readings.{name}": readings}
    spread = number.spread or texts.get("uncertainties", {}).get(name, "")
    limit = number.sign or LIMIT_SIGNS.get(texts.get("limit", ""), "")
    return fields | {f"value.{name}": number.digits, f"spread.{name}": spread, f"limit.{name}": limit}


def _longest(field: str) -> int:
    return MAX_READINGS_TEXT if field == "readings" else MAX_TEXT
