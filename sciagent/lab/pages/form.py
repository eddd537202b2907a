"""Files that people attach to an answer: kept by their hash, and only ever handed out as downloads."""

from __future__ import annotations

import shutil
import tempfile
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from urllib.parse import quote

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from sciagent.domain.people import Right
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import submissions
from sciagent.web.rules import Pages, RouteRule
from sciagent.web.site import site_of

LARGEST, MOST = 25_000_000, 20  # bytes of a file; files of an answer
SNIFFED = {
    b"%PDF-": "application/pdf",
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"PK\x03\x04": "application/zip",
}
pages = Pages()


def kept(ledger: Ledger, form: FormData) -> list[Mapping[str, object]]:
    """Stores the files of a form; returns name, sha256, size and media type of each. Raises UsageError for too many, or
    one that is too large."""
    files = [each for each in form.getlist("files") if isinstance(each, UploadFile) and each.filename]
    if len(files) > MOST:
        raise UsageError(f"{len(files)} files; an answer has at most {MOST}")
    for each in files:
        if (each.size or 0) > LARGEST:
            raise UsageError(f"{_name(each.filename)} has {each.size:,} bytes; {LARGEST:,} are the most")
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
    last = PureWindowsPath(PurePosixPath(given or "").name).name
    plain = "".join(letter for letter in last if unicodedata.category(letter)[0] != "C" and letter not in '<>:"/\\|?*')
    return plain.strip(" .")[:120] or "file"


def _sniffed(first: bytes) -> str:
    """Returns the media type by the first bytes; what the browser said of it does not count."""
    known = next((kind for sign, kind in SNIFFED.items() if first.startswith(sign)), None)
    if known is not None:
        return known
    try:
        first.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(first) - 4:
            return "application/octet-stream"
    return "application/octet-stream" if b"\0" in first else "text/plain"


@pages.get("/tasks/{task}/files/{submission}/{number}", RouteRule(Right.READ, of="task"))
def attachment(request: Request, task: int, submission: int, number: int) -> Response:
    site = site_of(request)
    with site.ledger.read() as connection:
        about = [each for each in submissions.of_job(connection, task) if each.id == submission]
    if not about or not 0 <= number < len(about[0].files):
        return site.page(request, "message.html.j2", 404, title="No such file", text="This answer has no such file.")
    file = about[0].files[number]
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{quote(file['name'])}"}
    path = site.ledger.artifacts.path(file["sha256"])
    if not path.exists():
        raise UsageError(f"the file {file['name']} is missing from the folder of artifacts")
    return FileResponse(path, media_type="application/octet-stream", headers=headers)
