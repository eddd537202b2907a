"""The parts that all pages share: the ledger and the templates (`WebSite`), the drawings of candidates, the visitor,
the form and the campaign of a request, and the words and HTTP status of each error.

Open pages learn by a stream that something has changed. One `Ticker` a server asks the ledger once a second, however
many pages are open. It streams ticks, not events: a page fetches itself again, so that nothing can be missed, and no
stream holds a connection to the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import jinja2
import sqlalchemy as sa
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from markupsafe import Markup, escape
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from sciagent import __version__
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import drawn, subject_of
from sciagent.domain.lab_messages_and_codes import MEANING_WORDS
from sciagent.domain.people import Right
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.safe_text_and_durations import cut
from sciagent.domain.units import unit_words, with_powers
from sciagent.domain.worth import percent_of
from sciagent.errors import (
    AnswerChangedError,
    AnsweredMeanwhileError,
    EvidenceConflictError,
    ImprobableValuesError,
    LedgerAwayError,
    SciagentError,
    UsageError,
    WrongVialError,
)
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab.tasks import LabTask
from sciagent.web.offline_copies import copy_headers, lock_seconds, shell
from sciagent.web.password_checks import PasswordChecks, TryLaterError
from sciagent.web.problem_answers import field_at_fault
from sciagent.web.route_rules_and_request_guards import Pages, RouteRule
from sciagent.web.visitors_and_passwords import Visitor

Shared = TypeVar("Shared")
_FIRST_WORD = re.compile(r"[a-z]+(?=[ ,;:]|$)")
_NAME = re.compile(r"\w*_\w*")  # a word with an underscore, as the names of properties have it


def in_words(text: str) -> str:
    """Returns a text with spaces in the names of properties, and with powers of units, as pages write them."""
    known = properties()

    def with_spaces(match: re.Match[str]) -> str:
        name = match[0]
        return name.replace("_", " ") if name in known else name

    return with_powers(_NAME.sub(with_spaces, text))


def sentence(text: str) -> str:
    """Returns a message as a page shows it: its first letter is a capital. A message that begins with the label of a
    field, such as `melting point: ...`, or with anything but a word, such as the name of a file, stays as it is."""
    label, colon, _ = text.partition(":")
    is_about_field = bool(colon) and label.replace(" ", "_") in properties()
    if is_about_field or not _FIRST_WORD.match(text):
        return text
    return text[0].upper() + text[1:]


LOOK_SECONDS = 1.0  # time between two questions to the ledger
MAX_SHOWN = 4000  # characters of a field that is shown again
MAX_PATH = 500  # a path in a query is shorter, in characters
BEAT_SECONDS = 15.0  # silence after which a stream sends a comment, so that a proxy leaves it open
pages = Pages()


class Ticker:
    """A number that grows when the ledger has changed."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.tick = 0
        self._last_state: tuple[object, ...] = ()
        """The numbers of `look`, as it has read them last."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    @property
    def has_stopped(self) -> bool:
        return self._stopping.is_set()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            # the database may restart; the next look finds the change
            with contextlib.suppress(sa.exc.SQLAlchemyError):
                self.look()

    def look(self) -> None:
        """Increases the tick if evidence, acts of people, decisions, states of campaigns or the progress of jobs have
        changed."""
        newest_ids = [
            sa.select(sa.func.max(table.c.id)).scalar_subquery() for table in (t.event, t.decision, t.attempt)
        ]
        last_update = sa.select(sa.func.max(t.campaign.c.updated_at)).scalar_subquery()
        progress_at = t.attempt.c.progress_at
        last_progress = sa.select(sa.func.max(progress_at)).where(progress_at.is_not(None)).scalar_subquery()
        with self._ledger.read() as connection:
            counters = connection.execute(sa.select(t.watermark.c.value).order_by(t.watermark.c.id)).scalars().all()
            newest = connection.execute(sa.select(*newest_ids, last_update, last_progress)).one()
        state = (*counters, *newest)
        if state != self._last_state:
            self._last_state = state
            self.tick += 1


@pages.get("/live", RouteRule(Right.READ))
async def live(request: Request) -> StreamingResponse:
    """Streams the tick as server-sent events."""
    ticker: Ticker = request.app.state.site.ticker

    async def ticks() -> AsyncIterator[str]:
        last_sent: int | None = None
        silent_seconds = 0.0
        pause = LOOK_SECONDS / 4
        while not ticker.has_stopped:
            if ticker.tick != last_sent:
                last_sent = ticker.tick
                silent_seconds = 0.0
                yield f"data: {last_sent}\n\n"
            elif silent_seconds >= BEAT_SECONDS:
                silent_seconds = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(pause)
            silent_seconds += pause

    return StreamingResponse(ticks(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


class WebSite:
    """A server's ledger and templates."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        secure: bool = False,
        public_url: str | None = None,
        lock_after: timedelta | None = None,
    ) -> None:
        """secure: whether the browser speaks TLS with it, or with a proxy before it. public_url: begins each link that
        leaves the page; None: the address by which the browser came. lock_after: time without a touch after which the
        session of a person with a PIN is locked; None: never."""
        self.ledger = ledger
        self.secure = secure
        self.public_url = public_url
        self.lock_after = lock_after
        self.ticker = Ticker(ledger)
        self.passwords = PasswordChecks(ledger)
        self._shared: dict[Callable[[Ledger], Any], Any] = {}
        self._lock = threading.Lock()
        loader = jinja2.PackageLoader("sciagent.web", "templates")
        self._templates = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters |= {
            "day": _day,
            "moment": _moment,
            "clock": _clock,
            "moments": _with_moments,
            "drawing": drawing,
            "sentence": sentence,
            "number": _number,
            "percent": percent_of,
            "words": in_words,
        }
        self._templates.globals |= {"version": __version__, "Right": Right, "quote": quote, "unit_words": unit_words}
        self._templates.globals["meaning_words"] = MEANING_WORDS

    def shared(self, make: Callable[[Ledger], Shared]) -> Shared:
        """Returns the object that all pages of this server share. make: makes it from the ledger at the first call."""
        with self._lock:
            if make not in self._shared:
                self._shared[make] = make(self.ledger)
            made: Shared = self._shared[make]
            return made

    def page(self, request: Request, name: str, status: int = 200, /, **values: object) -> HTMLResponse:
        """Returns a page from a template. values: for the template."""
        template = self._templates.get_template(name)
        visitor: Visitor = getattr(request.state, "visitor", Visitor())
        shared = {
            "visitor": visitor,
            "path": request.url.path,
            "query": request.url.query,
            "tick": self.ticker.tick,
            "shell": shell(),
            "lock_seconds": lock_seconds(visitor, self.lock_after),
        }
        headers = copy_headers(visitor, self.lock_after)
        return HTMLResponse(template.render(shared | values), status, headers)


def site_of(request: Request) -> WebSite:
    """Returns the site that a request came to."""
    site: WebSite = request.app.state.site
    return site


def visitor(request: Request) -> Visitor:
    """Returns who sent a request, as the rule of the route found out."""
    found: Visitor = request.state.visitor
    return found


def address_of(request: Request) -> str | None:
    """Returns the address from which a request came; behind a proxy, the one that the proxy names."""
    return None if request.client is None else request.client.host


def campaign_of(request: Request) -> CampaignRow:
    """Returns the campaign that the path names, as the rule of the route found it."""
    found: CampaignRow = request.state.named
    return found


def task_of(request: Request) -> LabTask:
    """Returns the task that the path names, as the rule of the route found it."""
    found: LabTask = request.state.named
    return found


def texts(request: Request) -> dict[str, str]:
    """Returns the texts of a form by field; for a field that comes twice, its last text."""
    form: FormData = request.state.form
    return {name: value for name, value in form.multi_items() if isinstance(value, str)}


def link_to(request: Request, path: str) -> str:
    """Returns the whole address of a page, for a link that leaves the page, such as one that is printed."""
    base = site_of(request).public_url or str(request.base_url)
    return base.rstrip("/") + path


def redirect_to(path: str, **query: object) -> RedirectResponse:
    """Returns the answer that sends a browser to another page after a form was read. path: one of this server."""
    stated = [f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value is not None]
    address = f"{path}?{'&'.join(stated)}" if stated else path
    return RedirectResponse(address, 303)  # the browser then asks by GET


def next_page(request: Request, path: str, **query: object) -> Response:
    """Returns the answer after a form was taken: the browser goes to a path of this server; a script gets the address
    as `next`."""
    redirect = redirect_to(path, **query)
    return JSONResponse({"next": redirect.headers["location"]}) if wants_json(request) else redirect


@dataclass(frozen=True)
class RefusedForm:
    """A form that was refused, as it came, for showing it again; empty where none was."""

    name: str = ""
    """Name of the form on its page."""
    fields: Mapping[str, str] = field(default_factory=dict)
    fault: str = ""
    """The message on the fault."""
    at_fault: str = ""
    """The field that is at fault; empty for the whole form."""

    def of(self, form: str, name: str) -> str:
        """Returns the text of a field; empty for another form than the one that was refused."""
        return self.fields.get(name, "") if form == self.name else ""

    def fault_of(self, form: str) -> str:
        """Returns the message on the fault of a form; empty for another one."""
        return self.fault if form == self.name else ""

    def is_at_fault(self, form: str, name: str) -> bool:
        """Whether a field of a form is at fault."""
        return (form, name) == (self.name, self.at_fault)

    def as_answer(self, status: int) -> JSONResponse:
        """Returns the answer for a script of the page, which keeps the form. status: of HTTP."""
        return JSONResponse({"detail": self.fault, "field": self.at_fault}, status)


NOTHING_REFUSED = RefusedForm()


def refused(request: Request, error: Exception, form: str, field_at_fault: str) -> tuple[int, RefusedForm]:
    """Returns (HTTP status, the form of a request with the fault that refuses it), for showing it on its page. form:
    name of the form there. Passwords are left out."""
    status, text = said_of(error)
    kept = {name: value for name, value in texts(request).items() if name not in ("csrf", "password")}
    shown = {name: cut(value, MAX_SHOWN) for name, value in kept.items()}
    if field_at_fault == "why" and not text.startswith("the reason"):
        field_at_fault = ""  # the reason is given, and something else stands in the way
    return status, RefusedForm(form, shown, sentence(in_words(text)), field_at_fault)


def next_path(request: Request, cursor: int | None) -> str | None:
    """Returns the path of the next page of a list of the HTTP API; None on the last page. cursor: where it begins."""
    if cursor is None:
        return None
    query = dict(request.query_params) | {"cursor": str(cursor)}
    return f"{request.url.path}?{urlencode(query)}"


def own_path(text: str, otherwise: str = "/") -> str:
    """Returns a path of this server as it came in a query; `otherwise` for any other text, such as another host."""
    is_other_host = text.startswith(("//", "/\\"))
    is_short = text.isprintable() and len(text) < MAX_PATH
    return text if text.startswith("/") and not is_other_host and is_short else otherwise


def path_of(address: str) -> str:
    """Returns the path of an address as a browser sends it, with its query; the start for a text that is no address."""
    try:
        parts = urlsplit(address)
        return own_path(f"{parts.path}?{parts.query}" if parts.query else parts.path)
    except ValueError:
        return own_path("")


def wants_json(request: Request) -> bool:
    """Returns whether a script asks, not a person."""
    return "application/json" in request.headers.get("accept", "")


class Drawable(Protocol):
    """A candidate as an answer or a row of the ledger has it."""

    @property
    def kind(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def drawn_from(self) -> str:
        """Its notation; empty where it is the text."""


def drawing(shown: Drawable) -> Markup:
    """Returns a drawing of a candidate; empty if it cannot be drawn."""
    return Markup(drawn(shown.kind, shown.drawn_from or shown.text))


def notation_of(kind: str) -> str:
    """Returns what the notation of a candidate is called, such as SMILES. kind: name of the subject."""
    return subject_of(kind).words.notation


def _day(at: datetime | None) -> Markup:
    """Returns a day; a script shows that of the person's own time zone."""
    return Markup() if at is None else _time(at, "%Y-%m-%d", "day")


def _moment(at: datetime | None) -> Markup:
    """Returns a time to the minute, in UTC; a script shows it in the person's own time zone."""
    return Markup() if at is None else _time(at, "%Y-%m-%d %H:%M UTC", "minute")


def _clock(at: datetime) -> Markup:
    """Returns the time of a day to the second, as `_moment` does."""
    return _time(at, "%H:%M:%S UTC", "second")


def _time(at: datetime, form: str, shows: str) -> Markup:
    """Returns the element of a time. form: of the text without scripts. shows: `day`, `minute` or `second`."""
    utc = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    address = f"{utc:%Y-%m-%dT%H:%M:%S}.{utc.microsecond // 1000:03d}Z"
    return Markup('<time datetime="{}" data-shows="{}">{}</time>').format(address, shows, utc.strftime(form))


_MOMENT_IN_TEXT = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d) UTC\b")


def _with_moments(text: str) -> Markup:
    """Returns a text of the program in which each time is the element of `_moment`."""
    parts = _MOMENT_IN_TEXT.split(text)
    shown = []
    for place, part in enumerate(parts):
        is_time = place % 2 == 1
        try:
            shown.append(_moment(datetime.fromisoformat(part)) if is_time else escape(part))
        except ValueError:  # a person may have written of the 99th of a month
            shown.append(escape(f"{part} UTC"))
    return Markup().join(shown)


def _number(value: object) -> str:
    if not isinstance(value, int | float):
        return ""
    is_long = abs(value) >= 1e6  # such numbers are rounded
    return f"{value:,.4g}" if is_long else f"{value:,.10g}"


CONFLICTS = (AnsweredMeanwhileError, AnswerChangedError, EvidenceConflictError, WrongVialError)
"""The errors of a form that is valid in itself, but does not fit the present state of the ledger."""


def said_of(error: Exception) -> tuple[int, str]:
    """Returns (HTTP status, text) of an error. An error that is not raised on purpose gets a general text."""
    if isinstance(error, HTTPException):
        return error.status_code, str(error.detail)
    if isinstance(error, RequestValidationError):
        faults = []
        for fault in error.errors()[:5]:
            field = field_at_fault(fault["loc"], fault["type"])
            faults.append(f"{field}: {fault['msg']}" if field else fault["msg"])
        return 400, f"that does not fit: {'; '.join(faults)}"
    if isinstance(error, TryLaterError):
        return error.status, error.text
    if isinstance(error, CONFLICTS):
        return 409, str(error)
    if isinstance(error, ImprobableValuesError):
        return 409, error.text
    if isinstance(error, LedgerAwayError):
        return 503, "the ledger does not answer; nothing was recorded. Try again in a moment"
    if isinstance(error, SciagentError):
        if isinstance(error, UsageError):
            return 400, error.text
        return 500, str(error)
    return 500, "this is a fault of the program, and it is in the server's log; what was saved before is safe"
