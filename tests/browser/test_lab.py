"""The form of the laboratory in a real browser: by touch, by keyboard alone, without scripts, without a network."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.database import tables as t
from sciagent.store.lab import submissions, tasks
from tests.browser.lab_server import LabServer, context_of, faults_of, password, running, scrolls_by
from tests.lab.test_record_answers import entry, task_ids

pytestmark = pytest.mark.long
GAP = "homo_lumo_gap"
MELTING = "melting_point"
VALUE = f"#value-{GAP}"
PICTURES = Path(__file__).resolve().parents[2] / "docs"
TABLET = {"width": 820, "height": 1180}


@pytest.fixture
def served(migrated_sqlite: Path, tmp_path: Path) -> Iterator[LabServer]:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    with running(str(path), tmp_path, "{ahead: 9, due_days: 14, review: false}") as server:
        yield server


@pytest.fixture
def served_pair(migrated_sqlite: Path, tmp_path: Path) -> Iterator[LabServer]:
    """A campaign that asks for two quantities of each molecule."""
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    with running(str(path), tmp_path, "{ahead: 9, due_days: 14}", f"{GAP}, {MELTING}") as server:
        yield server


@pytest.fixture
def anna(browser: Browser, served: LabServer) -> Iterator[Page]:
    context = context_of(browser, served, "anna", viewport=TABLET)
    yield watched(context)
    context.close()


def watched(context: BrowserContext) -> Page:
    """A page that fails its test if a script fails, or the policy of the page blocks something."""
    context.set_default_timeout(90_000)  # ms
    page = context.new_page()
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.on("console", lambda message: _complain(message.type, message.text))
    return page


AFTER_THE_SESSION = ("Failed to load resource", "EventSource's response has a MIME type")
"""Beginnings of what a browser says of requests, and of a stream, that a session no longer answers."""


def _complain(kind: str, text: str) -> None:
    assert kind != "error" or any(each in text for each in AFTER_THE_SESSION), text


def picture(page: Page, name: str) -> None:
    """Keeps a picture for docs/lab.md if SCIAGENT_PICTURES is set."""
    if os.environ.get("SCIAGENT_PICTURES"):
        page.screenshot(path=PICTURES / f"{name}.png")


def values(served: LabServer, task: int) -> list[str]:
    with served.ledger.read() as connection:
        found = submissions.of_job(connection, task)
    return [str(each.said.get("values", {}).get(GAP, each.said.get("not_obtained"))) for each in found]


def test_a_shift_in_the_laboratory(browser: Browser, served: LabServer) -> None:
    """Log in, scan, type, Enter; readings, a limit, a correction, a conflict, a sheet, a signature; log out."""
    [first, second, third, *rest] = task_ids(served.built)
    vial = claims_costs_and_vials.register(served.built, first, "ben", "HCl, 1 H2O", "made", purity=0.985, lot="AB-12")
    context = browser.new_context(locale="en-US", base_url=served.url, viewport=TABLET)
    page = watched(context)
    page.goto("/")
    page.fill("#login", "anna")
    page.fill("#password", password("anna"))
    page.click("text=Log in >> nth=-1")
    page.wait_for_url("**/tasks")
    picture(page, "lab_list")
    expect(page.locator("#code")).to_be_focused()
    page.keyboard.type(f"{served.url}/s/{vial.code}")  # as a scanner does: the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{first}?vial=**")
    expect(page.locator("#sample")).to_have_value(vial.code)
    expect(page.locator(VALUE)).to_be_focused()
    page.keyboard.type("4.310")
    page.fill(f"#spread-{GAP}", "0.05")
    picture(page, "lab_task")
    page.focus(VALUE)
    page.keyboard.press("Enter")
    page.wait_for_url("**saved=**")
    assert values(served, first) == ["4.310 eV"]
    page.goto(f"/tasks/{second}")
    expect(page.locator(f"#unit-{GAP}")).to_have_value("eV")
    page.click("text=Several readings")
    page.fill(f"#readings-{GAP}", "4.20 4.22\n4.24")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    page.goto(f"/tasks/{third}")
    expect(page.locator(VALUE)).to_be_focused()
    page.keyboard.type("<3.9")
    page.keyboard.press("Enter")
    page.wait_for_url("**saved=**")
    assert values(served, second) == ["4.220 eV"] and values(served, third) == ["<3.9 eV"]
    page.goto(f"/tasks/{first}")
    page.fill(VALUE, "4.13")
    page.fill("#why", "digits were swapped")
    page.click("text=Save the correction")
    page.wait_for_url("**saved=**")
    page.goto(f"/tasks/{rest[0]}")
    page.fill(VALUE, "4.40")
    record_answers.enter(served.built, rest[0], entry("4.44 eV", who="ben"))
    page.click("text=Save, and next")
    page.wait_for_selector("text=ben entered")
    expect(page.locator(VALUE)).to_have_value("4.40")
    picture(page, "lab_conflict")
    page.fill("#why", "my lamp is newer")
    page.click("text=Save the correction")
    page.wait_for_url("**saved=**")
    assert values(served, rest[0]) == ["4.44 eV", "4.40 eV"]
    page.goto("/sheet")
    text = f"task;value.{GAP};unit.{GAP}\n{rest[1]};4,5;eV\n{rest[2]};1.5;eV\n{first};high;eV\n"
    page.set_input_files("#file", {"name": "tasks.csv", "mimeType": "text/csv", "buffer": text.encode()})
    page.set_viewport_size({"width": 1024, "height": 768})
    page.click("text=Try it")
    page.wait_for_selector("text=2 of 3 rows have a fault")
    for cell in page.locator("td.bad-cell").all():
        box = cell.bounding_box()
        assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 1024
    page.dblclick("text=Record the 1 good row")
    page.wait_for_url("**/sheet/saved?tasks=**")
    expect(page.locator("main")).to_contain_text("1 answer of the sheet is saved")
    page.go_back()
    page.wait_for_url("**/sheet?kept=**")
    expect(page.locator("main")).to_contain_text("known")
    assert values(served, rest[2]) == []
    assert values(served, rest[1]) == ["4.5 eV"]
    page.goto(f"/tasks/{first}")
    page.click("summary:has-text('Sign')")
    page.select_option("#meaning", "measured")
    page.fill("#sign-password", password("anna"))
    page.click("text=Sign as Anna Berg")
    page.wait_for_selector("text=Signed by Anna Berg")
    page.click("text=Log out")
    page.wait_for_url("**/login")
    context.close()


def test_half_an_answer_is_completed_by_one_person_and_corrected_by_another(
    browser: Browser, served_pair: LabServer
) -> None:
    task = task_ids(served_pair.built)[0]
    anna_context = context_of(browser, served_pair, "anna", viewport=TABLET)
    page = watched(anna_context)
    page.goto(f"/tasks/{task}")
    page.fill(VALUE, "4.310")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**part=1**")
    expect(page.locator(f"li:has(a[href='/tasks/{task}'])")).to_contain_text("still open: melting point")
    page.click(f"li a[href='/tasks/{task}']")
    expect(page.locator(VALUE)).to_have_value("4.310")
    page.fill(f"#value-{MELTING}", "5,7")
    page.click("text=Save, and next")
    page.wait_for_selector("text=write a decimal point: 5.7")
    expect(page.locator(f"#value-{MELTING}")).to_be_focused()
    expect(page.locator(f"#value-{MELTING}")).to_have_attribute("aria-invalid", "true")
    assert page.locator("[aria-invalid]").count() == 1
    page.fill(f"#value-{MELTING}", "57")
    page.select_option(f"#unit-{MELTING}", "degC")
    page.reload()
    expect(page.locator(f"#value-{MELTING}")).to_have_value("57")  # what was typed over the answer is kept, too
    expect(page.locator(VALUE)).to_have_value("4.310")
    assert not faults_of(page) and scrolls_by(page) == 0
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    anna_context.close()
    ben_context = context_of(browser, served_pair, "ben", viewport=TABLET)
    page = watched(ben_context)
    page.goto(f"/tasks/{task}")
    expect(page.locator(f"#unit-{MELTING}")).to_have_value("degC")
    page.fill(f"#value-{MELTING}", "")
    page.locator("fieldset", has=page.locator(f"#value-{MELTING}")).get_by_text("There is no value").click()
    page.select_option(f"#reason-{MELTING}", "decomposed")
    page.fill("#why", "it had turned brown")
    page.click("text=Save the correction")
    page.wait_for_url("**saved=**")
    ben_context.close()
    with served_pair.ledger.read() as connection:
        people = [(each.who, each.revision, each.why) for each in submissions.of_job(connection, task)]
        made = connection.execute(sa.select(t.evidence).where(t.evidence.c.verifier == "lab.measurement")).all()
        n_quantities = connection.execute(sa.select(sa.func.count()).select_from(t.quantity)).scalar()
    assert people == [("anna", 0, None), ("anna", 1, None), ("ben", 2, "it had turned brown")]
    assert [(row.reusable, row.unobtained) for row in made] == [
        (False, None),
        (True, None),
        (True, {MELTING: "decomposed"}),
    ]
    assert made[1].supersedes_id == made[0].id and made[2].supersedes_id == made[1].id
    assert n_quantities is not None


def tab_to(page: Page, target: Locator, most: int = 20) -> None:
    """Presses Tab until the target has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    pytest.fail(f"{most} times Tab do not lead to {target}")


def test_by_keyboard_alone(anna: Page, served: LabServer) -> None:
    first = task_ids(served.built)[0]
    anna.goto("/tasks")
    expect(anna.locator("#code")).to_be_focused()  # the browser gives it the focus some time after the page is loaded
    tab_to(anna, anna.locator("a.task").first)
    anna.keyboard.press("Enter")
    anna.wait_for_url(f"**/tasks/{first}")
    expect(anna.locator(VALUE)).to_be_focused()
    anna.keyboard.type("4.2")
    tab_to(anna, anna.locator(f"#spread-{GAP}"))
    anna.keyboard.type("0.1")
    anna.keyboard.press("Enter")
    anna.wait_for_url("**saved=**")
    assert values(served, first) == ["4.2 eV"]
    second = task_ids(served.built)[0]
    anna.goto(f"/tasks/{second}")
    expect(anna.locator(VALUE)).to_be_focused()
    tab_to(anna, anna.locator("summary:has-text('There is no value')"))
    anna.keyboard.press("Enter")
    tab_to(anna, anna.locator("#not_obtained"))
    for _ in range(8):
        if anna.locator("#not_obtained").input_value() == "decomposed":
            break
        anna.keyboard.press("ArrowDown")  # the letters of a word would have to follow each other within a second
    tab_to(anna, anna.locator("button:has-text('Save, and next')"))
    anna.keyboard.press("Enter")
    anna.wait_for_url(f"**saved={second}")
    with served.ledger.read() as connection:
        kinds = connection.execute(sa.select(t.submission.c.kind).order_by(t.submission.c.id)).scalars().all()
    assert kinds == ["result", "not_obtained"]


def test_a_scan_into_a_number_opens_its_vial_and_loses_nothing(anna: Page, served: LabServer) -> None:
    first, second, *_ = task_ids(served.built)
    code = claims_costs_and_vials.register(served.built, first, "anna", "free base", "made").code
    anna.goto(f"/tasks/{second}")
    expect(anna.locator(VALUE)).to_be_focused()
    anna.keyboard.type("4.2")
    anna.keyboard.type(f"{served.url}/s/{code}\n")
    anna.wait_for_selector("text=a vial was scanned before this answer was saved")
    expect(anna.locator(VALUE)).to_have_value("4.2")
    anna.fill(VALUE, "127.5")
    anna.keyboard.type(f"{code}\n")  # the code alone
    expect(anna.locator(VALUE)).to_have_value("127.5")
    anna.wait_for_selector("text=a vial was scanned before this answer was saved")
    anna.fill(VALUE, "")
    anna.keyboard.type(f"{code}\n")
    anna.wait_for_url(f"**/tasks/{first}?vial={code}")
    anna.fill("#sample", f"{served.url}/s/{code}")
    anna.keyboard.press("Enter")
    expect(anna.locator("#sample")).to_have_value(code)
    expect(anna.locator(VALUE)).to_be_focused()
    assert values(served, first) == values(served, second) == []


def test_the_unit_of_the_last_answer_stands_in_the_next_form(anna: Page, served: LabServer) -> None:
    first, second, *_ = task_ids(served.built)
    anna.goto(f"/tasks/{first}")
    anna.fill(VALUE, "415")
    anna.select_option(f"#unit-{GAP}", "kJ/mol")
    anna.click("text=Save, and next")
    anna.wait_for_url("**saved=**")
    anna.goto(f"/tasks/{second}")
    expect(anna.locator(f"#unit-{GAP}")).to_have_value("kJ/mol")
    anna.fill(VALUE, "4,2")
    anna.select_option(f"#unit-{GAP}", "eV")
    anna.click("text=Save, and next")
    anna.wait_for_selector("text=write a decimal point")
    expect(anna.locator(f"#unit-{GAP}")).to_have_value("eV")
    assert values(served, first) == ["415 kJ/mol"]


def test_without_scripts(browser: Browser, served: LabServer) -> None:
    context = context_of(browser, served, "anna", java_script_enabled=False, viewport={"width": 360, "height": 740})
    page, first = context.new_page(), task_ids(served.built)[0]
    page.goto("/tasks")
    page.click(f"a[href='/tasks/{first}']")
    page.fill(VALUE, "4,2")
    page.click("text=Save, and next")
    page.wait_for_selector("text=write a decimal point")
    expect(page.locator(VALUE)).to_have_value("4,2")
    page.fill(VALUE, "4.2")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    page.click("text=Log out")
    page.wait_for_url("**/login")
    assert values(served, first) == ["4.2 eV"]
    context.close()


def test_no_typed_digit_is_lost(anna: Page, served: LabServer) -> None:
    """A reload, a cut network, a session that ended: what was typed is sent once, when it can be."""
    [first, second, third, *_] = task_ids(served.built)
    anna.goto(f"/tasks/{first}")
    anna.fill(VALUE, "4.31")
    anna.reload()
    expect(anna.locator(VALUE)).to_have_value("4.31")
    expect(anna.locator(VALUE)).to_be_focused()
    anna.keyboard.type("4.31")
    expect(anna.locator(VALUE)).to_have_value("4.31")  # what is typed again replaces it
    anna.context.set_offline(True)
    anna.click("text=Save, and next")
    anna.wait_for_selector("text=kept on this device; trying again")
    picture(anna, "lab_offline")
    assert values(served, first) == []
    anna.context.set_offline(False)
    anna.wait_for_url("**saved=**")
    assert values(served, first) == ["4.31 eV"]
    anna.goto(f"/tasks/{second}")
    anna.fill(VALUE, "4.32")
    with served.ledger.begin() as connection:
        connection.execute(sa.update(t.access).values(revoked_at=sa.func.current_timestamp()))
    anna.click("text=Save, and next")
    anna.wait_for_selector("text=Your session has ended")
    anna.fill("#again-password", "not the password")
    anna.click("text=Log in, and send")
    anna.wait_for_selector("text=ogin and password do not fit")
    anna.fill("#again-password", password("anna"))
    anna.click("text=Log in, and send")
    anna.wait_for_url("**saved=**")
    assert values(served, second) == ["4.32 eV"]
    anna.goto(f"/tasks/{third}")
    anna.fill(VALUE, "4.33")
    anna.context.set_offline(True)
    anna.click("text=Save, and next")
    anna.wait_for_selector("text=kept on this device; trying again")
    anna.close()  # the tablet sleeps; the queue is sent from whatever page is opened next
    page = anna.context.new_page()
    anna.context.set_offline(False)
    page.goto("/tasks")
    page.wait_for_function("() => !localStorage.getItem('queue:anna') || localStorage.getItem('queue:anna') === '[]'")
    assert values(served, third) == ["4.33 eV"]


def test_the_window_shows_an_answer_of_another_browser(browser: Browser, served: LabServer) -> None:
    window = {"width": 1280, "height": 900}
    context = context_of(browser, served, "carla", viewport=window, timezone_id="Asia/Tokyo")
    page, first = watched(context), task_ids(served.built)[0]
    page.goto("/campaigns/gaps")
    expect(page.locator("#answered")).to_have_text("0")
    as_of = page.locator("#as-of time")
    utc = datetime.fromisoformat(as_of.get_attribute("datetime") or "")
    expect(as_of).to_have_text(f"{utc + timedelta(hours=9):%H:%M:%S}")
    waited = []
    for n, task_id in enumerate(task_ids(served.built)[:3], 1):
        record_answers.enter(served.built, task_id, entry("4.31 eV"))
        began = time.monotonic()
        expect(page.locator("#answered")).to_have_text(str(n), timeout=30_000)
        expect(page.locator("#hits")).to_have_text(str(n), timeout=30_000)
        waited.append(time.monotonic() - began)
    assert datetime.fromisoformat(as_of.get_attribute("datetime") or "") > utc
    assert min(waited) < 3, waited  # the quickest, since other tests may take the processor for some seconds
    picture(page, "lab_window")
    with served.ledger.read() as connection:
        task = tasks.find(connection, first)
    assert task is not None
    page.goto(f"/campaigns/gaps/candidates/{task.key}")
    record_answers.enter(served.built, first, entry("5.9 eV", why="wrong lamp"))
    expect(page.locator("#candidate")).to_contain_text("wrong lamp", timeout=30_000)
    context.close()


AUDITED = {"light": (360, 1280), "dark": (1280,)}  # widths at which axe looks; dark pages differ by colours alone


@pytest.mark.parametrize("scheme", list(AUDITED))
def test_all_pages_are_accessible_and_fit(browser: Browser, served: LabServer, scheme: str) -> None:
    first, second, *_ = task_ids(served.built)
    record_answers.enter(served.built, first, entry("4.31 eV"))
    vial = claims_costs_and_vials.register(served.built, second, "ben", "free base", "bought")
    paths = ["/login", "/tasks", f"/tasks/{first}", f"/tasks/{second}", "/sheet", "/campaigns", "/campaigns/gaps"]
    paths += [
        "/campaigns/gaps/candidates",
        "/campaigns/gaps/candidates/CCO",
        f"/labels?codes={vial.code}",
        "/people",
        "/pin",
    ]
    faults = []
    for width in (360, 768, 1280):
        context = context_of(browser, served, "carla", viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = context.new_page()
        for path in paths:
            page.goto(path)
            for summary in page.locator("summary").all():
                summary.click()
            faults += [f"{path} is {scrolls_by(page)} px too wide at {width}"] if scrolls_by(page) > 0 else []
            faults += faults_of(page) if width in AUDITED[scheme] else []
        context.close()
    assert not faults, "\n".join(sorted(set(faults)))
