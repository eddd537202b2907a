"""A server on a port of its own, with a campaign that waits for people, for tests in a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.people import Role
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import persons, sessions_and_tokens
from sciagent.web import visitors_and_passwords
from sciagent.web.app import LOCK_AFTER
from sciagent.web.page_server import PageServer
from sciagent.web.served_names import LOCAL_HOSTS, ServedNames
from tests.lab.conftest import CAMPAIGN, drive
from tests.support.served_pages import every_page

MOLECULES = "Oc1ccccc1 Cc1ccccc1O CCO Nc1ccccc1 COc1ccccc1 c1ccsc1 Oc1ccc2ccccc2c1 Nc1ccccc1C(=O)O CC(=O)Nc1ccc(O)cc1"
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
NAMES = ServedNames(LOCAL_HOSTS | {"tablet.test"})
ROLES = {"anna": Role.LAB, "ben": Role.LAB, "carla": Role.CHEMIST, "vera": Role.VIEWER}


@dataclass
class LabServer:
    """The server, its campaign, and its address."""

    built: Built
    url: str
    lock_after: timedelta | None
    _server: PageServer
    _thread: threading.Thread

    @property
    def ledger(self) -> Ledger:
        return self.built.ledger

    def stop(self) -> None:
        """Ends the server; its port is free then."""
        self._server.stop()
        self._thread.join(timeout=30)

    def start(self) -> None:
        """Starts the server again at the same address."""
        port = int(self.url.rpartition(":")[2])
        self._server, self._thread = started(self.ledger, port, self.lock_after)


def password(login: str) -> str:
    return f"a sentence of {login}"


def started(ledger: Ledger, port: int, lock_after: timedelta | None) -> tuple[PageServer, threading.Thread]:
    """Serves the pages of a ledger. port: 0 for any free one."""
    server = PageServer(every_page(ledger, names=NAMES, lock_after=lock_after), "127.0.0.1", port)
    thread = threading.Thread(target=server.run, name="pages")
    thread.start()
    return server, thread


@contextmanager
def running(
    url: str,
    folder: Path,
    lab: str = "{ahead: 9, due_days: 14}",
    quantities: str = "homo_lumo_gap",
    lock_after: timedelta | None = LOCK_AFTER,
) -> Iterator[LabServer]:
    """Serves a new campaign of nine molecules. url: of an empty ledger. quantities: what is measured."""
    ledger = Ledger(url, artifacts=folder / "artifacts")
    (folder / "molecules.csv").write_text("smiles\n" + MOLECULES.replace(" ", "\n") + "\n", encoding="utf-8")
    text = CAMPAIGN.format(name="gaps", lab=lab, budget="{lab_slots: 99}", high=4.6).replace("count: 2", "count: 9")
    text = text.replace("quantities: [homo_lumo_gap]", f"quantities: [{quantities}]")
    built = create_or_open(ledger, parse_spec(text, base=folder), text, "test").built
    drive(built)
    with ledger.begin() as connection:
        for login, role in ROLES.items():
            person = persons.add(connection, "root", login, f"{login.title()} Berg")
            persons.set_role(connection, "root", person.id, role, None)
            persons.set_password(connection, login, person.id, visitors_and_passwords.hashed(password(login), login))
    server, thread = started(ledger, 0, lock_after)
    served = LabServer(built, server.url, lock_after, server, thread)
    try:
        yield served
    finally:
        served.stop()
        ledger.close()


def context_of(browser: Browser, served: LabServer, login: str, **more: object) -> BrowserContext:
    """A browser in which a person has a session already."""
    with served.ledger.begin() as connection:
        person = persons.get(connection, login)
        secret, _ = sessions_and_tokens.create(connection, login, person.id, sessions_and_tokens.AccessKind.SESSION)
    context = browser.new_context(locale="en-US", base_url=served.url, **more)  # type: ignore[arg-type]
    context.add_cookies([{"name": "sciagent", "value": secret, "url": served.url, "httpOnly": True}])
    return context


def faults_of(page: Page) -> list[str]:
    """What axe-core finds on a page, by the rules of WCAG 2.2 AA."""
    page.evaluate(AXE)
    tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    found = page.evaluate("tags => axe.run({runOnly: tags})", tags)
    return [f"{page.url}: {each['id']}: {each['nodes'][0]['html'][:200]}" for each in found["violations"]]


def scrolls_by(page: Page) -> int:
    """Pixels by which a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
