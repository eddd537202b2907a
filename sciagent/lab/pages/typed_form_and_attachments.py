"""The form of an answer: its fields as they were typed (`TypedForm`), and files that people attach (`keep_files`).

A file is stored under its hash, and a browser gets it only as a download.
"""

from __future__ import annotations

import shutil
import tempfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sciagent.domain.people import Right
from sciagent.errors import UsageError
from sciagent.lab.displayed_lab_tasks_claims_and_samples import LabAsked
from sciagent.lab.typed_answers import mean_of, read_number
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import submissions
from sciagent.web.route_rules_and_request_guards import FileNumber, Pages, RouteRule, TaskId
from sciagent.web.site_context_and_ticker import site_of

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
        matching = [each for each in submissions.of_job(connection, task) if each.id == submission]
    if not matching or not 0 <= number < len(matching[0].files):
        return site.page(request, "message.html.j2", 404, title="No such file", text="This answer has no such file.")
    return download(site.ledger, matching[0].files[number])


def download(ledger: Ledger, file: Mapping[str, Any]) -> Response:
    """Returns the answer with a file of a submission, as a download. Raises UsageError if its content is missing."""
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file['name'])}"}
    path = ledger.artifacts.path(file["sha256"])
    if not path.exists():
        raise UsageError(f"the file {file['name']} is missing from the folder of artifacts")
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


# {limit that was chosen beside a value: its sign on the page}
LIMITS = {"": "=", "<": "<", ">": ">"}
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

    def with_units(self, texts: Mapping[str, Any]) -> TypedForm:
        """Returns the form with the units of an answer. texts: what `typed_answer` read."""
        numbers = {name: read_number(name, text) for name, text in texts.get("values", {}).items()}
        units = {f"unit.{name}": number.unit or "1" for name, number in numbers.items()}
        return TypedForm(units | dict(self.fields))  # a unit that was chosen in the form stays

    def answer_texts(self, asks: Sequence[LabAsked]) -> Mapping[str, Any]:
        """Returns what `typed_answer` reads. Raises UsageError for a text that is no number, or longer than is kept."""
        values = {}
        spreads = {}
        means = {}
        readings = {}
        grades = {}
        for asked in asks:
            grade = self._whole("grade", asked.property) if asked.grades else ""
            if grade:
                grades[asked.property] = grade
        for asked in asks:
            name = asked.property
            spread = self._whole("spread", name)
            value = self._whole("value", name)
            listed = self._whole("readings", name)
            if listed:
                if value or spread:
                    raise UsageError(f"{name}: give the readings, or a value with its ±; not both")
                value, spread, _ = mean_of(name, listed)
                readings[name] = listed
            if not value:
                continue
            values[name] = self._with_unit(name, value)
            if spread:
                spreads[name] = spread
                means[name] = "standard" if listed else self._whole("means", name)
        # no limit for all values together, since each text in `values` has its own
        texts: dict[str, Any] = {"values": values, "uncertainties": spreads, "limit": ""}
        texts |= {"not_obtained": self._whole("not_obtained"), "means": means, "readings": readings}
        if grades:
            texts["grades"] = grades
        for name in OTHER_FIELDS:
            text = self._whole(name)
            if text:
                texts[name] = text
        return texts

    def _with_unit(self, name: str, value: str) -> str:
        """Returns a value with the limit and the unit that were chosen beside it, unless the text has its own. Raises
        UsageError for a text that is no number."""
        number = read_number(name, value)
        limit = "" if number.sign else self.of("limit", name)
        if limit not in LIMITS:
            limit = ""
        unit = "" if number.unit else self.of("unit", name)
        if unit in ("", "1"):
            return f"{limit}{value}"
        return f"{limit}{value} {unit}"


def _longest(field: str) -> int:
    return MAX_READINGS_TEXT if field == "readings" else MAX_TEXT
