"""Answers that a tablet could not send: each is sent by itself, and none is lost, jammed, or sent by somebody else."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize, expect

from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.lab import submissions
from tests.browser import test_lab
from tests.browser.lab_server import LabServer, context_of, faults_of, password, scrolls_by
from tests.browser.test_lab import GAP, VALUE, values, watched
from tests.lab.test_record_answers import entry, task_ids

pytestmark = pytest.mark.long
TABLET: ViewportSize = {"width": 1024, "height": 768}
served = test_lab.served


def save(page: Page, value: str = "", readings: str = "") -> None:
    """Types an answer, and saves it."""
    if readings:
        page.click("text=Several readings")
        page.fill(f"#readings-{GAP}", readings)
    else:
        page.fill(VALUE, value)
    page.click("text=Save, and next")


def log_in(page: Page, login: str) -> None:
    page.fill("#login", login)
    page.fill("#password", password(login))
    page.click("text=Log in >> nth=-1")
    page.wait_for_url("**/tasks**")


def without_sending(context: BrowserContext) -> None:
    """Cuts the network for answers alone, so that pages still load."""
    context.route("**/tasks/*/enter", lambda route: route.abort())


def queue(page: Page, login: str = "anna") -> list[dict[str, str]]:
    """The answers that wait on the tablet."""
    found: list[dict[str, str]] = json.loads(page.evaluate(f"localStorage.getItem('queue:{login}') || '[]'"))
    return found


def test_two_answers_that_are_refused_hold_up_no_other(browser: Browser, served: LabServer) -> None:
    """Six answers without a network: the first has readings with decimal commas, and one is out of all bounds."""
    context = context_of(browser, served, "anna", viewport=TABLET)
    numbers = task_ids(served.built)[:6]
    comma, first, second, huge, third, fourth = numbers
    pages = {number: watched(context) for number in numbers}
    for number, page in pages.items():
        page.goto(f"/tasks/{number}")
        expect(page.locator(VALUE)).to_be_focused()
    context.set_offline(True)
    save(pages[comma], readings="-1,61\n-1,58\n-1,66")
    pages[comma].wait_for_selector("text=your answer is kept on this device; trying again")
    for number, value in ((first, "4.31"), (second, "4.32"), (huge, "12E4711"), (third, "4.33"), (fourth, "4.34")):
        save(pages[number], value)
    last = pages[fourth]
    last.wait_for_selector("text=6 answers are kept on this device; trying again")
    expect(last.locator("#unsent li a")).to_have_count(6)
    expect(last.locator("#unsent")).to_contain_text("6 answers are not sent yet")
    assert [values(served, number) for number in numbers] == [[]] * 6
    context.set_offline(False)
    for number in (first, second, third, fourth):
        pages[number].wait_for_url("**saved=**")
    assert [values(served, number) for number in (first, second, third, fourth)] == [
        ["4.31 eV"], ["4.32 eV"], ["4.33 eV"], ["4.34 eV"]
    ]  # fmt: skip
    words = {
        comma: 'the reading "-1,61" is no number; write a decimal point: -1.61',
        huge: '"12E4711" is too large; no quantity is above',
    }
    for number, text in words.items():
        expect(pages[number].locator("#fault .fault")).to_contain_text(text)  # it stands on its task
        assert values(served, number) == []
    for shown in pages.values():
        shown.close()  # a browser has six connections to a server, and each open page may hold one
    page = context.new_page()
    page.goto("/tasks")
    expect(page.locator("#unsent")).to_contain_text("2 answers were not taken")
    for number, text in words.items():
        expect(page.locator("#unsent li", has_text=f"Task {number}")).to_contain_text(text)
    assert faults_of(page) == [] and scrolls_by(page) <= 0
    page.click(f"#unsent a[href='/tasks/{comma}']")
    expect(page.locator("#fault .fault")).to_contain_text(words[comma])
    expect(page.locator(f"#readings-{GAP}")).to_have_value("-1,61\n-1,58\n-1,66")
    expect(page.locator(f"#readings-{GAP}")).to_be_focused()
    expect(page.locator(f"#readings-{GAP}")).to_have_attribute("aria-invalid", "true")
    assert faults_of(page) == [] and scrolls_by(page) <= 0
    page.fill(f"#readings-{GAP}", "4.31\n4.33\n4.32")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    assert values(served, comma) == ["4.3200 eV"]
    page.goto(f"/tasks/{huge}")
    expect(page.locator(VALUE)).to_have_value("12E4711")
    page.click("text=Discard what I typed")
    page.click("dialog >> text=Keep it")
    page.click("text=Discard what I typed")
    expect(page.locator("dialog")).to_contain_text("12E4711 eV")
    page.click("dialog >> button:has-text('Discard it')")
    expect(page.locator(VALUE)).to_have_value("")
    expect(page.locator("#unsent")).to_be_hidden()
    assert queue(page) == [] and values(served, huge) == []
    context.close()


def test_a_fault_of_the_server_belongs_to_its_answer(browser: Browser, served: LabServer) -> None:
    """A 500 stands on its task; a server that is away, or a page of somebody else's network, is tried again."""
    context = context_of(browser, served, "anna", viewport=TABLET)
    broken, away, portal, *_ = task_ids(served.built)
    replies = {
        broken: (500, '{"detail": "a fault"}', "application/json"),
        away: (503, '{"detail": "wait"}', "application/json"),
        portal: (200, "<p>Welcome to the hotel</p>", "text/html"),
    }
    asked = list[int]()

    def answer(route: Route) -> None:
        [number] = map(int, re.findall(r"/tasks/(\d+)/enter", route.request.url))
        asked.append(number)
        if asked.count(number) > 1:
            route.continue_()
            return
        status, text, kind = replies[number]
        route.fulfill(status=status, body=text, content_type=kind)

    context.route("**/tasks/*/enter", answer)
    page = watched(context)
    page.goto(f"/tasks/{broken}")
    save(page, "4.31")
    expect(page.locator("#fault .fault")).to_have_text("a fault")
    for number in (away, portal):
        page.goto(f"/tasks/{number}")
        save(page, "4.32")
        page.wait_for_url("**saved=**")
        assert values(served, number) == ["4.32 eV"] and asked.count(number) == 2
    expect(page.locator("#unsent")).to_contain_text("a fault")
    page.goto(f"/tasks/{broken}")
    expect(page.locator(VALUE)).to_have_value("4.31")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    assert values(served, broken) == ["4.31 eV"] and queue(page) == []
    context.close()


def test_somebody_else_answered_while_there_was_no_network(browser: Browser, served: LabServer) -> None:
    context = context_of(browser, served, "anna", viewport=TABLET)
    first, taken, *_ = task_ids(served.built)
    without_sending(context)
    page = watched(context)
    for number in (first, taken):
        page.goto(f"/tasks/{number}")
        save(page, "4.31")
        page.wait_for_selector("text=kept on this device; trying again")
    record_answers.enter(served.built, first, entry("4.44 eV", who="ben"))
    claims_costs_and_vials.claim(served.built, taken, "ben")
    context.unroute("**/tasks/*/enter")
    page.goto("/tasks")
    expect(page.locator("#unsent")).to_contain_text("2 answers were not taken")
    page.goto(f"/tasks/{taken}")  # its page has no form for her
    expect(page.locator("main")).to_contain_text("Your answer was not taken")
    expect(page.locator("main")).to_contain_text("You typed: 4.31 eV")
    page.click("text=Discard what I typed")
    page.click("dialog >> button:has-text('Discard it')")
    expect(page.locator("main")).not_to_contain_text("Your answer was not taken")
    page.goto(f"/tasks/{first}")
    expect(page.locator("#fault")).to_contain_text("was answered by ben")
    page.click("text=Show both answers")
    page.wait_for_selector("text=ben entered")
    expect(page.locator(VALUE)).to_have_value("4.31")
    page.fill("#why", "my lamp is newer")
    page.click("text=Save the correction")
    page.wait_for_url("**saved=**")
    assert values(served, first) == ["4.44 eV", "4.31 eV"] and queue(page) == []
    context.close()


def test_who_logs_out_is_asked_and_nobody_else_sees_or_sends_the_answers(browser: Browser, served: LabServer) -> None:
    first, second, third, *_ = task_ids(served.built)
    context = browser.new_context(locale="en-US", base_url=served.url, viewport=TABLET)
    page = watched(context)
    page.goto("/")
    log_in(page, "anna")
    without_sending(context)
    page.goto(f"/tasks/{first}")
    page.select_option(f"#unit-{GAP}", "kJ/mol")
    save(page, "415")
    page.wait_for_selector("text=kept on this device; trying again")
    page.goto(f"/tasks/{second}")
    page.fill(VALUE, "4.32")
    page.click("text=Log out")
    dialog = page.locator("dialog")
    expect(dialog).to_contain_text("2 answers of yours are not recorded")
    expect(dialog).to_contain_text("Nobody else sees or sends them")
    expect(dialog.locator("li", has_text=f"Task {first}")).to_contain_text("not sent yet")
    expect(dialog.locator("li", has_text=f"Task {second}")).to_contain_text("typed, and not saved")
    expect(dialog.locator("button", has_text="Stay")).to_be_focused()
    assert faults_of(page) == []
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    page.click("text=Log out")
    page.click("dialog >> text=Log out, and keep them here")
    page.wait_for_url("**/login**")
    assert "Task" not in page.inner_text("body")
    context.unroute("**/tasks/*/enter")
    log_in(page, "ben")
    sent = list[str]()
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    for path in ("/tasks", f"/tasks/{first}", f"/tasks/{second}"):
        page.goto(path)
        expect(page.locator("#unsent")).to_be_hidden()
    expect(page.locator(VALUE)).to_have_value("")
    expect(page.locator(f"#unit-{GAP}")).to_have_value("eV")  # her last unit is not his
    assert sent == [] and values(served, first) == []
    page.goto(f"/tasks/{third}")
    save(page, "4.33")
    page.wait_for_url("**saved=**")
    page.click("text=Log out")  # he has nothing that is not sent
    page.wait_for_url("**/login**")
    log_in(page, "anna")
    page.wait_for_selector(f"text=sent: the answer of task {first}")
    assert values(served, first) == ["415 kJ/mol"] and values(served, third) == ["4.33 eV"]
    with served.ledger.read() as connection:
        assert [each.who for each in submissions.of_job(connection, first)] == ["anna"]
    page.goto(f"/tasks/{second}")
    expect(page.locator(VALUE)).to_have_value("4.32")
    context.close()


def test_a_page_that_was_left_open_sends_nothing_under_another_login(browser: Browser, served: LabServer) -> None:
    first = task_ids(served.built)[0]
    context = browser.new_context(locale="en-US", base_url=served.url, viewport=TABLET)
    old = watched(context)
    old.goto("/")
    log_in(old, "anna")
    old.goto(f"/tasks/{first}")
    new = watched(context)
    context.clear_cookies()
    new.goto("/login")
    log_in(new, "ben")
    save(old, "4.31")
    old.wait_for_selector("text=Somebody else has logged in on this device")
    assert values(served, first) == [] and [each["task"] for each in queue(old)] == [str(first)]
    new.click("text=Log out")
    new.wait_for_url("**/login**")
    log_in(new, "anna")
    new.wait_for_selector(f"text=sent: the answer of task {first}")
    old.wait_for_url(f"**/tasks?saved={first}")
    assert values(served, first) == ["4.31 eV"]
    context.close()
