"""A tablet without a network, and a tablet that several people share: what opens, what waits, and what nobody sees."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize, expect

from sciagent.lab import claims_costs_and_vials
from sciagent.store.lab import submissions
from sciagent.store.people import audit, persons, sessions_and_tokens
from sciagent.web import visitors_and_passwords
from tests.browser import test_lab
from tests.browser.lab_server import LabServer, context_of, faults_of, password, running, scrolls_by
from tests.browser.test_lab import GAP, PICTURES, VALUE, values, watched
from tests.browser.test_unsent import log_in, queue, save, without_sending
from tests.integration import test_serve
from tests.lab.test_record_answers import task_ids

pytestmark = pytest.mark.long
TABLET: ViewportSize = {"width": 1024, "height": 768}
COPIES = """async () => {
  const found = {};
  for (const name of await caches.keys()) for (const key of await (await caches.open(name)).keys())
    found[new URL(key.url).pathname] = await (await (await caches.open(name)).match(key)).text();
  return found;
}"""
served = test_lab.served


def copies(page: Page) -> dict[str, str]:
    """What the browser keeps for pages without a network: {path: text}."""
    found: dict[str, str] = page.evaluate(COPIES)
    return found


def until(page: Page, holds: Callable[[], object]) -> None:
    """Waits until a condition holds."""
    for _ in range(150):
        if holds():
            return
        page.wait_for_timeout(200)
    pytest.fail(f"it did not come to hold within 30 s: {sorted(copies(page))}")


def cut(served: LabServer, context: BrowserContext, how: str) -> None:
    if how == "network":
        context.set_offline(True)
    else:
        served.stop()


def mend(served: LabServer, context: BrowserContext, how: str) -> None:
    if how == "network":
        context.set_offline(False)
    else:
        served.start()


@pytest.mark.parametrize("how", ["network", "server"])
def test_the_list_and_tasks_open_without_a_network_and_an_answer_arrives_once(
    browser: Browser, served: LabServer, how: str
) -> None:
    claimed, opened, unseen, *_ = task_ids(served.built)
    claims_costs_and_vials.claim(served.built, claimed, "anna")
    context = context_of(browser, served, "anna", viewport=TABLET)
    page = watched(context)
    page.goto(f"/tasks/{opened}")
    until(page, lambda: page.evaluate("Boolean(navigator.serviceWorker.controller)"))
    page.goto("/tasks")
    until(page, lambda: {"/tasks", f"/tasks/{claimed}", f"/tasks/{opened}"} <= set(copies(page)))
    assert "/people" not in copies(page) and f"/tasks/{unseen}" not in copies(page)
    cut(served, context, how)
    page.goto("/tasks")
    expect(page.locator("#network")).to_contain_text("Without a network, as of ")
    expect(page.locator("h1")).to_have_text("Tasks")
    assert faults_of(page) == [] and scrolls_by(page) <= 0
    page.goto(f"/tasks/{unseen}")
    expect(page.locator("h1")).to_have_text("This page is not kept on this device")
    page.goto("/campaigns")
    expect(page.locator("h1")).to_have_text("No network, or the server does not answer")
    page.goto("/")
    page.click(f"a[href='/tasks/{claimed}']")
    expect(page.locator("#network")).to_contain_text("Without a network, as of ")
    save(page, "4.31")
    page.wait_for_selector("text=your answer is kept on this device; trying again")
    page.goto(f"/tasks/{opened}")
    save(page, "4.32")
    page.wait_for_selector("text=2 answers are kept on this device; trying again")
    page.goto("/tasks")
    expect(page.locator("#unsent li")).to_have_count(2)
    assert values(served, claimed) == values(served, opened) == []
    mend(served, context, how)
    expect(page.locator("#network")).to_be_hidden()  # the list loads itself again
    expect(page.locator("#unsent")).to_be_hidden()
    assert values(served, claimed) == ["4.31 eV"] and values(served, opened) == ["4.32 eV"]
    with served.ledger.read() as connection:
        assert [len(submissions.of_job(connection, task)) for task in (claimed, opened)] == [1, 1]
    until(page, lambda: "What was entered" in copies(page).get(f"/tasks/{claimed}", ""))
    assert queue(page) == []
    context.close()


def test_an_answer_whose_reply_was_lost_is_recorded_once(browser: Browser, served: LabServer) -> None:
    """The server records it and is gone before it says so; the session ends before the next try."""
    task, *_ = task_ids(served.built)
    context = context_of(browser, served, "anna", viewport=TABLET)
    page = watched(context)
    page.goto(f"/tasks/{task}")

    def record_and_go(route: Route) -> None:
        route.fetch()
        route.abort()

    context.route("**/tasks/*/enter", record_and_go, times=1)
    save(page, "4.31")
    page.wait_for_selector("text=your answer is kept on this device; trying again")
    assert values(served, task) == ["4.31 eV"]
    with served.ledger.begin() as connection:
        sessions_and_tokens.revoke_all(connection, persons.get(connection, "anna").id)
    page.fill("#again-password", password("anna"))
    page.click("text=Log in, and send")
    page.wait_for_url("**saved=**")
    assert values(served, task) == ["4.31 eV"] and queue(page) == []
    context.close()


def test_a_server_that_is_killed_while_it_saves_has_each_answer_once(browser: Browser, served: LabServer) -> None:
    """SIGKILL once before the server can write, since another process holds the ledger, and once right after."""
    before, after, *_ = task_ids(served.built)
    served.stop()
    path = str(served.ledger.url.database)
    port = int(served.url.rpartition(":")[2])
    context = context_of(browser, served, "anna", viewport=TABLET)
    page = watched(context)

    def serving() -> AbstractContextManager[subprocess.Popen[bytes]]:
        return test_serve.served(path, served.ledger.artifacts.root, port, "--no-dispatcher")

    with serving() as process:
        page.goto(f"/tasks/{before}")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with page.expect_request("**/tasks/*/enter"):
                save(page, "4.31")
            page.wait_for_timeout(1000)  # ms, for the server to wait at the ledger
            assert values(served, before) == []
            process.kill()
        page.wait_for_selector("text=your answer is kept on this device; trying again")
        assert values(served, before) == []
    with serving() as process:
        page.wait_for_url("**saved=**")
        assert values(served, before) == ["4.31 eV"]
        page.goto(f"/tasks/{after}")
        page.fill(VALUE, "4.32")
        page.evaluate("setTimeout(() => document.querySelector('#enter button.main').click(), 200)")
        while not values(served, after):
            time.sleep(0.001)
        process.kill()
    page.close()
    with serving():
        page = watched(context)
        page.goto("/tasks")
        until(page, lambda: queue(page) == [])
        with served.ledger.read() as connection:
            assert [len(submissions.of_job(connection, task)) for task in (before, after)] == [1, 1]
            assert audit.check(connection).fault is None
        assert values(served, after) == ["4.32 eV"]
    context.close()
    served.start()


def kept_of(page: Page, login: str) -> list[str]:
    """The names under which the browser still keeps something of a login."""
    names: list[str] = page.evaluate("Object.keys(localStorage)")
    return sorted(name for name in names if f":{login}" in name)


def test_who_comes_after_finds_nothing_of_the_one_before_but_the_unsent_answers(
    browser: Browser, served: LabServer
) -> None:
    first, second, third, *_ = task_ids(served.built)
    context = browser.new_context(locale="en-US", base_url=served.url, viewport=TABLET)
    page = watched(context)
    page.goto("/")
    log_in(page, "anna")
    until(page, lambda: page.evaluate("Boolean(navigator.serviceWorker.controller)"))
    page.goto(f"/tasks/{second}")
    page.select_option(f"#unit-{GAP}", "kJ/mol")  # a form that holds nothing else
    without_sending(context)
    page.goto(f"/tasks/{first}")
    save(page, "4.31")
    page.wait_for_selector("text=your answer is kept on this device; trying again")
    until(page, lambda: {"/tasks", f"/tasks/{first}", f"/tasks/{second}"} <= set(copies(page)))
    assert kept_of(page, "anna") == [
        f"draft:anna:{first}", f"draft:anna:{second}", "last:anna:instrument", f"last:anna:unit.{GAP}", "queue:anna"
    ]  # fmt: skip
    page.click("text=Log out")
    expect(page.locator("dialog")).to_contain_text("Everything else of yours is wiped here")
    page.click("dialog >> text=Log out, and keep it here")
    page.wait_for_url("**/login**")
    nothing = [f"draft:anna:{first}", "queue:anna"]
    until(page, lambda: kept_of(page, "anna") == nothing)
    assert not [path for path, text in copies(page).items() if path.startswith("/tasks") or "Anna" in text]
    log_in(page, "ben")
    page.goto(f"/tasks/{third}")
    until(page, lambda: {"/tasks", f"/tasks/{third}"} <= set(copies(page)))
    assert kept_of(page, "anna") == nothing
    assert not [path for path, text in copies(page).items() if "Anna" in text or "anna" in text]
    context.set_offline(True)
    page.goto(f"/tasks/{first}")
    expect(page.locator("h1")).to_have_text("This page is not kept on this device")
    page.goto(f"/tasks/{third}")
    expect(page.locator("#network")).to_contain_text("Without a network")
    expect(page.locator("#unsent")).to_be_hidden()
    page.click("text=Log out")
    expect(page.locator("h1")).to_have_text("You are not logged out yet")
    assert not [path for path in copies(page) if path.startswith("/tasks")]
    context.set_offline(False)
    page.wait_for_url("**/tasks")
    until(page, lambda: "/tasks" in copies(page))
    with served.ledger.begin() as connection:
        sessions_and_tokens.revoke_all(connection, persons.get(connection, "ben").id)
    page.goto("/tasks")  # his session has ended
    page.wait_for_url("**/login**")
    assert not [path for path in copies(page) if path.startswith("/tasks")]
    context.unroute("**/tasks/*/enter")
    log_in(page, "anna")
    page.wait_for_selector(f"text=sent: the answer of task {first}")
    assert values(served, first) == ["4.31 eV"]
    context.close()


def test_a_page_without_a_trusted_certificate_says_once_what_it_cannot(browser: Browser, served: LabServer) -> None:
    address = served.url.replace("127.0.0.1", "tablet.test")  # as plain http to another machine
    context = context_of(browser, served, "anna", viewport=TABLET)
    [cookie] = context.cookies()
    context.add_cookies([{"name": "sciagent", "value": cookie["value"], "url": address, "httpOnly": True}])
    page = context.new_page()  # the browser complains on the console about plain http
    page.goto(f"{address}/tasks")
    line = page.locator(
        "text=Pages do not open without a network on this device: the address of this server is not https"
    )
    expect(line).to_be_visible()
    assert faults_of(page) == []
    page.goto(f"{address}/tasks")
    expect(page.locator("h1")).to_have_text("Tasks")
    expect(line).to_have_count(0)
    context.close()


@pytest.fixture
def locking(migrated_sqlite: Path, tmp_path: Path) -> Iterator[LabServer]:
    """A server that locks the session of anna, who has the PIN 7391, after some seconds."""
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    with running(str(path), tmp_path, lock_after=timedelta(seconds=8)) as server:
        with server.ledger.begin() as connection:
            pin_hash = visitors_and_passwords.hashed_pin("7391")
            persons.set_pin(connection, "anna", persons.get(connection, "anna").id, pin_hash)
        yield server


def test_the_lock_comes_by_itself_and_the_pin_brings_the_form_back(browser: Browser, locking: LabServer) -> None:
    first, *_ = task_ids(locking.built)
    context = context_of(browser, locking, "anna", viewport=TABLET, has_touch=True)
    page = watched(context)
    page.goto(f"/tasks/{first}")
    page.fill(VALUE, "4.3")
    for _ in range(6):
        page.wait_for_timeout(2000)
        page.keyboard.type("1")  # who types is not locked out
    expect(page.locator(VALUE)).to_have_value("4.3111111")
    expect(page.locator("h1")).to_have_text("Locked: Anna Berg")
    schemes: tuple[Literal["light", "dark"], ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        assert faults_of(page) == [] and scrolls_by(page) <= 0
        if os.environ.get("SCIAGENT_PICTURES"):
            page.screenshot(path=PICTURES / f"lab_lock_{scheme}.png")
    for target in page.locator(".locked button, .locked a, .locked input:not([type=hidden])").all():
        box = target.bounding_box()
        assert box is not None and box["height"] >= 48 and box["width"] >= 48
    assert "/tasks" not in copies(page) and "C1" not in page.content()
    assert page.request.get("/tasks").status == 423  # whatever the scripts do
    for digit in "7390":
        page.tap(f"[data-digit='{digit}']")
    page.click("text=Unlock")
    expect(page.locator(".fault")).to_contain_text("This PIN is wrong. 4 more")
    for digit in "7390":
        page.tap(f"[data-digit='{digit}']")
    page.tap("[aria-label='Remove the last digit']")
    page.tap("[data-digit='1']")
    page.click("text=Unlock")
    page.wait_for_url(f"**/tasks/{first}")
    expect(page.locator(VALUE)).to_have_value("4.3111111")
    without_sending(context)
    save(page, "4.31")
    page.wait_for_selector("text=your answer is kept on this device; trying again")
    context.set_offline(True)
    expect(page.locator("h1")).to_have_text("This device is locked")
    assert "4.31" not in page.content() and "/tasks" not in copies(page)
    page.goto(f"/tasks/{first}")
    expect(page.locator("main")).not_to_contain_text("gap")
    context.set_offline(False)
    expect(page.locator("h1")).to_have_text("Locked: Anna Berg")
    page.click("text=Another person")
    log_in(page, "ben")
    context.unroute("**/tasks/*/enter")
    page.goto(f"/tasks/{first}")
    expect(page.locator("#unsent")).to_be_hidden()
    expect(page.locator(VALUE)).to_have_value("")
    assert values(locking, first) == []
    page.click("text=Log out")
    log_in(page, "anna")
    page.wait_for_selector(f"text=sent: the answer of task {first}")
    assert values(locking, first) == ["4.31 eV"]
    context.close()
