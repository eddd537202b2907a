"""A server in this process: a campaign that waits for people, accounts, and browsers without scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from fastapi import FastAPI
from httpx2 import Response
from starlette.testclient import TestClient

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.cockpit import pages_steering_and_cached_figures as cockpit
from sciagent.domain.people import Right, Role
from sciagent.lab import pages as lab_pages
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import persons, sessions_and_tokens
from sciagent.store.people.sessions_and_tokens import AccessKind
from sciagent.web.app import LOCK_AFTER, application
from sciagent.web.served_names import LOCAL_HOSTS, ServedNames
from tests.lab import conftest as lab

make = lab.make
HOST = "http://testserver"


@dataclass
class Browser:
    """The browser of a person, or of nobody."""

    client: TestClient
    csrf: str = ""
    person_id: int = 0

    def get(self, path: str, **more: object) -> Response:
        return self.client.get(path, follow_redirects=False, **more)  # type: ignore[arg-type]

    def post(self, path: str, said: dict[str, str] | None = None, **more: object) -> Response:
        headers = {"origin": HOST, **more.pop("headers", {})}  # type: ignore[dict-item]
        data = {"csrf": self.csrf, **(said or {})}
        return self.client.post(path, data=data, headers=headers, follow_redirects=False, **more)  # type: ignore[arg-type]


@dataclass
class Server:
    """A server with its campaign."""

    built: Built
    app: object

    @property
    def ledger(self) -> Ledger:
        return self.built.ledger

    def nobody(self) -> Browser:
        return Browser(TestClient(self.app, base_url=HOST))  # type: ignore[arg-type]

    def person(
        self, login: str, role: Role | None = Role.LAB, campaign_id: int | None = None, *, is_admin: bool = False
    ) -> Browser:
        """A browser in which a person has logged in."""
        browser = self.nobody()
        with self.ledger.begin() as connection:
            person = persons.by_login(connection, login) or persons.add(
                connection, "root", login, login.title(), is_admin=is_admin
            )
            if role is not None:
                persons.set_role(connection, "root", person.id, role, campaign_id)
            secret, _ = sessions_and_tokens.create(connection, login, person.id, AccessKind.SESSION)
            access = sessions_and_tokens.find(connection, secret, (AccessKind.SESSION,))
        assert access is not None and access.csrf is not None
        browser.client.cookies.set("sciagent", secret)
        browser.csrf, browser.person_id = access.csrf, person.id
        return browser

    def token(self, login: str, *scopes: Right) -> Browser:
        """A client that shows a token."""
        browser = self.nobody()
        with self.ledger.begin() as connection:
            person = persons.get(connection, login)
            secret, _ = sessions_and_tokens.create(connection, "root", person.id, AccessKind.TOKEN, scopes=scopes)
        browser.client.headers["authorization"] = f"Bearer {secret}"
        return browser


Serve = Callable[..., Server]


NAMES = ServedNames(frozenset({"testserver"}) | LOCAL_HOSTS)


def every_page(
    ledger: Ledger, *, secure: bool = False, names: ServedNames = NAMES, lock_after: timedelta | None = LOCK_AFTER
) -> FastAPI:
    """The application with the pages of all features, as `sciagent serve` makes it."""
    return application(ledger, (lab_pages.FEATURE, cockpit.FEATURE), secure=secure, names=names, lock_after=lock_after)


@pytest.fixture
def serve(make: lab.Make) -> Iterator[Serve]:
    """Makes a server with a campaign of three open tasks."""

    def served(**more: object) -> Server:
        built = make(**more)
        return Server(built, every_page(built.ledger))

    yield served
