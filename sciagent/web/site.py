"""The parts that all pages share: the ledger, the templates, the drawings of candidates, and who visits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import jinja2
from fastapi.responses import HTMLResponse, RedirectResponse
from markupsafe import Markup
from starlette.datastructures import FormData
from starlette.requests import Request

from sciagent import __version__
from sciagent.chemistry.subjects.drawing import drawn
from sciagent.cockpit.figures import Figures
from sciagent.domain.people import Right
from sciagent.domain.units import unit_words
from sciagent.lab.listing import TaskReader
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab.tasks import LabTask
from sciagent.web.visitors import Visitor
from sciagent.web.window.live import Ticker
from sciagent.web.words import in_words


class WebSite:
    """A server's ledger and templates."""

    def __init__(self, ledger: Ledger, *, secure: bool = False) -> None:
        """secure: whether the browser speaks TLS with it, or with a proxy before it."""
        self.ledger, self.secure = ledger, secure
        self.ticker, self.figures, self.reader = Ticker(ledger), Figures(ledger), TaskReader(ledger)
        loader = jinja2.PackageLoader("sciagent.web", "templates")
        self._templates = jinja2.Environment(
            loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters |= {
            "day": _day,
            "moment": _moment,
            "drawing": drawing,
            "number": _number,
            "words": in_words,
        }
        self._templates.globals |= {"version": __version__, "Right": Right, "quote": quote, "unit_words": unit_words}

    def page(self, request: Request, name: str, status: int = 200, /, **values: object) -> HTMLResponse:
        """Returns a page from a template."""
        template = self._templates.get_template(name)
        visitor: Visitor = getattr(request.state, "visitor", Visitor())
        shared = {"visitor": visitor, "path": request.url.path, "query": request.url.query, "tick": self.ticker.tick}
        return HTMLResponse(template.render(shared | values), status)


def site_of(request: Request) -> WebSite:
    """Returns the site that a request came to."""
    site: WebSite = request.app.state.site
    return site


def visitor(request: Request) -> Visitor:
    """Returns who sent a request; the rule of the route has looked."""
    found: Visitor = request.state.visitor
    return found


def campaign_of(request: Request) -> CampaignRow:
    """Returns the campaign that the path names, as the rule of the route found it."""
    found: CampaignRow = request.state.named
    return found


def task_of(request: Request) -> LabTask:
    """Returns the task that the path names, as the rule of the route found it."""
    found: LabTask = request.state.named
    return found


def texts(request: Request) -> dict[str, str]:
    """Returns the texts of a form by field; of a field that comes twice, the last."""
    form: FormData = request.state.form
    return {name: value for name, value in form.multi_items() if isinstance(value, str)}


def to(path: str, **query: object) -> RedirectResponse:
    """Returns the answer that sends a browser to another page after a form was read. path: one of this server."""
    shown = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items() if value is not None)
    return RedirectResponse(path + (f"?{shown}" if shown else ""), 303)


def own_path(text: str, otherwise: str = "/") -> str:
    """Returns a path of this server as it came in a query; `otherwise` for any other text, such as another host."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and len(text) < 500
    return text if is_own else otherwise


def path_of(address: str) -> str:
    """Returns the path of an address as a browser sends it; the start for a text that is no address."""
    try:
        return own_path(urlsplit(address).path)
    except ValueError:
        return own_path("")


def wants_json(request: Request) -> bool:
    """Returns whether a script asks, not a person."""
    return "application/json" in request.headers.get("accept", "") or request.url.path.startswith("/api/")


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


def _day(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d}"


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def _number(value: float | Mapping[str, Any] | None) -> str:
    return "" if not isinstance(value, int | float) else f"{value:,.10g}" if abs(value) < 1e6 else f"{value:,.4g}"
