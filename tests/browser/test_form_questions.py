"""Forms that ask back: an improbable value, a vial that cannot be kept, an ended session, a wrong password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from playwright.sync_api import Browser, Page, expect

from sciagent.store.database import tables as t
from sciagent.store.lab import samples, submissions
from tests.browser import test_lab
from tests.browser.lab_server import LabServer, context_of, faults_of, password, running, scrolls_by
from tests.browser.test_lab import GAP, MELTING, TABLET, watched
from tests.lab.test_record_answers import task_ids

pytestmark = pytest.mark.long
anna = test_lab.anna


@pytest.fixture(scope="module")
def served(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    folder = tmp_path_factory.mktemp("served")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    with running(str(path), folder, "{ahead: 9}", f"{GAP}, {MELTING}") as server:
        yield server


def said(served: LabServer, task: int) -> list[dict[str, object]]:
    with served.ledger.read() as connection:
        return [dict(each.said) for each in submissions.of_job(connection, task)]


def end_sessions(served: LabServer) -> None:
    with served.ledger.begin() as connection:
        connection.execute(sa.update(t.access).values(revoked_at=sa.func.current_timestamp()))


def test_an_improbable_value_is_confirmed_with_one_button(anna: Page, served: LabServer) -> None:
    first, second, *_ = task_ids(served.built)
    anna.goto(f"/tasks/{first}")
    anna.fill(f"#value-{MELTING}", "57")
    anna.click("text=Save, and next")
    expect(anna.locator("#fault .fault")).to_contain_text("57 °C would lie inside")
    expect(anna.locator(f"#value-{MELTING}")).to_be_focused()
    expect(anna.locator(f"#value-{MELTING}")).to_have_attribute("aria-invalid", "true")
    assert said(served, first) == [] and faults_of(anna) == [] and scrolls_by(anna) <= 0
    anna.reload()
    expect(anna.locator("#fault .fault")).to_contain_text("57 °C would lie inside")
    expect(anna.locator(f"#value-{MELTING}")).to_have_value("57")
    anna.click("#fault >> text=It is right: record it")
    anna.wait_for_url("**saved=**")
    [answer] = said(served, first)
    assert answer["values"] == {MELTING: "57 K"} and answer["confirmed"]
    anna.goto(f"/tasks/{second}")
    anna.fill(f"#value-{MELTING}", "58")
    anna.click("text=Files, instrument, comment")
    anna.set_input_files("#files", {"name": "run.csv", "mimeType": "text/csv", "buffer": b"1,2\n"})
    anna.click("text=Save, and next")
    anna.click("#fault >> text=It is right: record it")
    anna.wait_for_url("**saved=**")
    with served.ledger.read() as connection:
        [kept] = submissions.of_job(connection, second)
    assert [file["name"] for file in kept.files] == ["run.csv"] and kept.said["values"] == {MELTING: "58 K"}


def test_a_vial_and_a_reason_outlast_a_fault_and_the_session(anna: Page, served: LabServer) -> None:
    task = task_ids(served.built)[-1]
    anna.goto(f"/tasks/{task}")
    anna.fill(f"#value-{GAP}", "4.3")
    anna.click("summary:has-text('Register a vial')")
    anna.fill("#form", "HCl, 1 H2O")
    anna.fill("#lot", "AB-12")
    anna.fill("#purity", "150")
    anna.click("text=Register >> nth=-1")
    expect(anna.locator("#fault-here")).to_have_text("The purity 150 % is not between 0 and 100 %")
    expect(anna.locator("#purity")).to_be_focused()
    expect(anna.locator("#purity")).to_have_attribute("aria-invalid", "true")
    expect(anna.locator("#lot")).to_have_value("AB-12")
    expect(anna.locator(f"#value-{GAP}")).to_have_value("4.3")
    assert faults_of(anna) == [] and scrolls_by(anna) <= 0
    anna.fill("#purity", "98,5")
    anna.reload()
    expect(anna.locator("#lot")).to_have_value("AB-12")
    expect(anna.locator("#purity")).to_have_value("98,5")
    end_sessions(served)
    anna.click("text=Register >> nth=-1")
    anna.wait_for_selector("text=Your session has ended")
    anna.fill("#again-password", password("anna"))
    anna.click("text=Log in, and send")
    anna.wait_for_url("**/labels?codes=**")
    with served.ledger.read() as connection:
        candidate = connection.execute(sa.select(t.job.c.candidate_id).where(t.job.c.id == task)).scalar_one()
        [vial] = samples.of_candidate(connection, candidate, 5)
    assert (vial.form, vial.lot, vial.purity) == ("HCl, 1 H2O", "AB-12", pytest.approx(0.985))


def test_a_wrong_password_keeps_the_page_of_who_signs(browser: Browser, served: LabServer) -> None:
    task = task_ids(served.built)[-2]
    context = context_of(browser, served, "ben", viewport=TABLET)
    page = watched(context)
    page.goto(f"/tasks/{task}")
    page.fill(f"#value-{GAP}", "4.3")
    page.click("text=Save, and next")
    page.wait_for_url("**saved=**")
    page.goto(f"/tasks/{task}")
    page.fill(f"#value-{MELTING}", "400")
    page.click("summary:has-text('Sign')")
    expect(page.locator("#meaning")).to_have_value("")
    page.select_option("#meaning", "reviewed")
    page.fill("#sign-password", "not the password")
    page.click("text=Sign as Ben")
    expect(page.locator("#fault-here")).to_have_text("The password does not fit; nothing was signed")
    expect(page.locator("#sign-password")).to_be_focused()
    expect(page.locator("#meaning")).to_have_value("reviewed")
    expect(page.locator(f"#value-{MELTING}")).to_have_value("400")
    page.fill("#sign-password", password("ben"))
    page.click("text=Sign as Ben")
    page.wait_for_selector("text=Signed by Ben")
    expect(page.locator(f"#value-{MELTING}")).to_have_value("400")
    context.close()
