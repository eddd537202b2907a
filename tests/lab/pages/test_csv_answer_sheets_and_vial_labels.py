"""Sheets: templates, a trial run that names each faulty cell, and the good rows recorded once."""

from __future__ import annotations

import csv
import html
import io
import re

import openpyxl
import pytest

from sciagent.domain.people import Role
from sciagent.lab import claims_costs_and_vials
from sciagent.store.database import tables as t
from tests.inputs.test_excel_workbooks import with_part, workbook
from tests.lab.pages.test_task_pages import count
from tests.lab.test_record_answers import place, task_ids
from tests.support.served_pages import Browser, Serve

GAP = "homo_lumo_gap"


def sent(browser: Browser, text: str | bytes, write: str = "", name: str = "tasks.csv") -> tuple[int, str]:
    content = text if isinstance(text, bytes) else text.encode()
    reply = browser.post("/sheet", {"write": write}, files={"file": (name, content, "text/csv")})
    if reply.status_code == 303:
        reply = browser.get(reply.headers["location"])
    return reply.status_code, html.unescape(reply.text)


def kept(page: str) -> list[str]:
    """The rows in the forms of a page: first those with a fault, then the others."""
    return re.findall(r'name="text" value="([^"]*)"', page)


def test_a_workbook_much_larger_than_a_sheet_of_answers_is_refused(serve: Serve) -> None:
    anna = serve().person("anna")
    content = with_part(workbook(["task"], [1]), "xl/media/image1.png", bytes(20_000_000))
    assert len(content) < 30_000
    status, page = sent(anna, content, name="tasks.xlsx")
    assert status == 400 and "the workbook unpacks to more than 20,000,000 bytes" in page


def test_the_templates_have_the_same_rows(serve: Serve) -> None:
    server = serve()
    anna, ids = server.person("anna"), task_ids(server.built)
    template = anna.client.get("/sheet.csv")
    assert template.headers["content-disposition"] == 'attachment; filename="tasks.csv"'
    rows = list(csv.reader(io.StringIO(template.text.removeprefix("\ufeff"))))
    assert [int(row[0]) for row in rows[1:]] == ids and rows[1][rows[0].index(f"unit.{GAP}")] == "eV"
    german = anna.client.get("/sheet.csv?separator=semicolon").text.removeprefix("\ufeff")
    assert list(csv.reader(io.StringIO(german), delimiter=";")) == rows
    sheet = openpyxl.load_workbook(io.BytesIO(anna.client.get("/sheet.xlsx").content)).active
    assert sheet.freeze_panes == "B2"
    assert [[str(cell or "") for cell in row] for row in sheet.iter_rows(values_only=True)] == rows


def test_the_template_begins_with_the_units_of_the_campaign(serve: Serve) -> None:
    server = serve(
        quantities=f"{GAP}, melting_point, logp", lab="{ahead: 3, units: {melting_point: degC, homo_lumo_gap: meV}}"
    )
    text = server.person("anna").client.get("/sheet.csv").text.removeprefix("\ufeff")
    for row in csv.DictReader(io.StringIO(text)):
        units = {name: row[f"unit.{name}"] for name in (GAP, "melting_point", "logp")}
        assert units == {GAP: "meV", "melting_point": "degC", "logp": ""}


def test_a_cell_without_the_unit_that_the_campaign_states_is_refused(serve: Serve) -> None:
    name = "log_molar_solubility"
    server = serve(quantities=f"{GAP}, {name}", lab=f"{{ahead: 3, units: {{{name}: mmol/L}}}}")
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    rows = (f"{first};0,9;", f"{second};0,9;1", f"{third};0,9;mmol/L")
    _, page = sent(anna, "\n".join((f"task;value.{name};unit.{name}", *rows, "")))
    assert page.count("the number has no unit; one of: mmol/L, ") == 1 and "2 rows without a fault" in page
    form = {"key": "k" * 32, f"value.{name}": "0.9"}
    refused = anna.post(f"/tasks/{first}/enter", form)
    assert refused.status_code == 400 and "the number has no unit; one of: mmol/L, " in refused.text
    assert anna.post(f"/tasks/{first}/enter", form | {f"unit.{name}": "1", "sure": "yes"}).status_code == 303


def test_a_filled_workbook_is_tried_and_recorded_once(serve: Serve) -> None:
    server = serve()
    anna, [first, second, _] = server.person("anna"), task_ids(server.built)
    book = openpyxl.load_workbook(io.BytesIO(anna.client.get("/sheet.xlsx").content))
    columns = {cell.value: cell.column_letter for cell in book.active[1]}
    book.active[f"{columns[f'value.{GAP}']}2"] = 4.31
    book.active[f"{columns[f'spread.{GAP}']}2"] = "0,05"
    book.active[f"{columns['not_obtained']}3"] = "insoluble"
    out = io.BytesIO()
    book.save(out)
    reply = anna.post("/sheet", {}, files={"file": ("tasks.xlsx", out.getvalue(), "application/octet-stream")})
    trial = reply.headers["location"]
    reply = anna.get(trial)
    assert reply.status_code == 200 and "2 rows without a fault. Nothing is written yet." in reply.text
    assert (count(server, t.submission), count(server, t.audit_entry)) == (0, 3), "a trial run leaves nothing behind"
    [text] = kept(reply.text)
    for _ in range(2):  # the same rows again write nothing
        reply = anna.post("/sheet", {"text": html.unescape(text), "write": "yes"})
        assert reply.status_code == 303 and count(server, t.submission) == 2
    page = anna.client.get(reply.headers["location"])
    assert page.status_code == 200 and "2 answers of the sheet are saved." in page.text
    assert place(server.built, first) == ("settled", "pass", True) and place(server.built, second)[1] == "fail"
    assert "<td>known</td>" in anna.get(trial).text, "whoever goes back sees that the rows are recorded"
    assert "not kept any more" in server.person("ben").get(trial).text


def test_bad_rows_do_not_hold_the_good_ones(serve: Serve) -> None:
    server = serve()
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    sheet = (
        f"task;smiles;value.{GAP};unit.{GAP}\n{second};CCCCC;4,2;eV\n{first};;4,31;eV\n{third};;high;eV\n999;;4,2;eV\n"
    )
    status, page = sent(anna, sheet)
    assert status == 200 and "3 of 4 rows have a fault. Nothing is written yet." in page
    assert page.index("Rows with a fault") < page.index("Rows without a fault")
    assert "rows were moved against each other" in page and 'There is no task "999"' in page
    assert f'row 4, column "value.{GAP}"' in page and "Record the 1 good row" in page
    assert page.count('class="bad-cell"') == 3 and count(server, t.submission) == 0
    bad, good = kept(page)
    faults = anna.post("/sheet", {"text": html.unescape(bad), "write": "faults"})
    rows = list(csv.DictReader(io.StringIO(faults.text.removeprefix("\ufeff"))))
    assert [row["row"] for row in rows] == ["2", "4", "5"] and "moved against each other" in rows[0]["fault"]
    reply = anna.post("/sheet", {"text": html.unescape(good), "write": "yes"})
    assert reply.status_code == 303 and count(server, t.submission) == 1
    assert place(server.built, first) == ("settled", "pass", True)
    mended = faults.text.replace(",CCCCC,", ",,")
    assert "Record the 1 good row" in sent(anna, mended)[1], "the mended sheet is read again"


def test_a_person_has_one_row_for_the_blind_measurements_of_a_molecule(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, replicates: 3, blind: true}", budget="{lab_slots: 9}", smiles=("CCO",))
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    offered = anna.client.get("/sheet.csv").text.removeprefix("\ufeff")
    assert [int(row["task"]) for row in csv.DictReader(io.StringIO(offered))] == [first]
    rows = "".join(f"{task};4,31;eV\n" for task in (second, first, third))
    _, page = sent(anna, f"task;value.{GAP};unit.{GAP}\n{rows}")
    assert "2 of 3 rows have a fault" in page
    assert page.count("It is for another person: row 2 is your measurement of this molecule") == 2


def test_an_answer_that_waits_for_a_review_is_said_to(serve: Serve) -> None:
    server = serve(lab="{review: true}")
    anna, [first, *_] = server.person("anna"), task_ids(server.built)
    reply = anna.post("/sheet", {"text": f"task,value.{GAP}\n{first},4.2 eV\n", "write": "yes"})
    page = anna.client.get(reply.headers["location"]).text
    assert "1 answer of the sheet is saved; 1 of them waits for a review" in page


def test_a_task_that_changes_after_the_trial_run_is_named(serve: Serve) -> None:
    server = serve()
    anna, [first, second, _] = server.person("anna"), task_ids(server.built)
    [text] = kept(sent(anna, f"task,value.{GAP}\n{first},4.2 eV\n{second},4.3 eV\n")[1])
    claims_costs_and_vials.claim(server.built, first, "ben")
    reply = anna.post("/sheet", {"text": html.unescape(text), "write": "yes"})
    page = anna.client.get(reply.headers["location"]).text
    assert "1 answer of the sheet is saved" in page and "1 row was not recorded" in page
    assert f'href="/tasks/{first}">task {first}</a>' in page and count(server, t.submission) == 1


@pytest.mark.parametrize(
    ("cells", "at_fault"),
    [
        ("4.2,abc,", ">abc<"),
        (",,exploded", ">exploded<"),
        ('"4,2",0.1,', ">4,2<"),
        ("12E4711,,", ">12E4711<"),
        ("4.2,1e400,", ">1e400<"),
    ],
)
def test_the_cell_at_fault_is_shown(serve: Serve, cells: str, at_fault: str) -> None:
    server = serve()
    sheet = f"task,value.{GAP},spread.{GAP},not_obtained,unit.{GAP}\n{task_ids(server.built)[0]},{cells},eV\n"
    assert f'<td class="bad-cell"{at_fault}' in sent(server.person("anna"), sheet)[1]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("number,value\n1,2\n", "no column `task`"),
        ("task,value.homo_lumo_gap\n", "No row has a value"),
        ("", "no column `task`"),
        (b"task,value\n\x81", "neither UTF-8 nor Windows-1252"),
        ("task,value.logd\n{first},2\n", "does not ask for logd"),
        ("task,value.homo_lumo_gap\n\u00b2,4.2 eV\n", 'There is no task "\u00b2"'),
        ("task,value.homo_lumo_gap\n{first}," + "4" * 200_000 + "\n", "a cell has more than 131,072 characters"),
        ("task,value.homo_lumo_gap\n{first},4,2\n", "more cells than the head"),
        ("task;value.homo_lumo_gap\n{first};1,234 eV\n", '"1,234" is 1234 or 1.234'),
        ("task,value.homo_lumo_gap\n{first},4.2 eV\n{first},4.3 eV\n", "has an answer in row 2 already"),
        ("task,value.homo_lumo_gap,value.homo_lumo_gap\n{first},4.2 eV,4.3 eV\n", "two columns have the same name"),
        ('task,value.homo_lumo_gap,comment\n{first},4.2 eV,"bottle 3\n', "is not closed"),
    ],
)
def test_a_sheet_that_cannot_be_read_says_why(serve: Serve, text: str | bytes, fault: str) -> None:
    server = serve()
    first = task_ids(server.built)[0]
    given = text.replace("{first}", str(first)) if isinstance(text, str) else text
    _, page = sent(server.person("anna"), given)
    assert fault in page and count(server, t.submission) == 0
    assert "Try it" in page, "the next file can be tried at once"


def test_other_spreadsheets_are_refused_with_the_way_out(serve: Serve) -> None:
    status, page = sent(serve().person("anna"), b"x", name="tasks.ods")
    assert status == 400 and "a spreadsheet of LibreOffice is not read; save the table as Excel workbook" in page


def test_rows_of_a_campaign_in_which_one_may_not_work_are_refused(serve: Serve) -> None:
    server = serve()
    eve = server.person("eve", Role.LAB, serve(name="others").built.row.id)
    status, text = sent(eve, f"task,value.{GAP}\n{task_ids(server.built)[0]},4.2 eV\n", write="yes")
    assert status == 200 and "There is no task" in text


def test_a_row_may_leave_a_quantity_open_and_a_later_sheet_says_why_it_has_none(serve: Serve) -> None:
    server = serve(quantities=f"{GAP}, melting_point")
    anna, first = server.person("anna"), task_ids(server.built)[0]
    assert "reason.melting_point" in anna.client.get("/sheet.csv").text.splitlines()[0]
    half = f"task,value.{GAP},unit.{GAP},value.melting_point\n{first},4.31,eV,\n"
    assert "evidence; still open: melting point" in sent(anna, half)[1]
    assert anna.post("/sheet", {"text": half, "write": "yes"}).status_code == 303
    wrong = f"task,reason.melting_point\n{first},lost\n"
    assert '<td class="bad-cell">lost' in sent(anna, wrong)[1]
    rest = f"task,reason.melting_point\n{first},decomposed\n"
    assert anna.post("/sheet", {"text": rest, "write": "yes"}).status_code == 303
    assert place(server.built, first) == ("settled", "pass", True) and count(server, t.submission) == 2
