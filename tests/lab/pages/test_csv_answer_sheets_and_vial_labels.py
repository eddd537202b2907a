"""Sheets: a template, a trial run that marks each cell, all rows or none."""

from __future__ import annotations

import csv
import html
import io

import pytest

from sciagent.domain.people import Role
from sciagent.store.database import tables as t
from tests.lab.pages.test_task_pages import count
from tests.lab.test_record_and_review_answers import place, task_ids
from tests.support.served_pages import Browser, Serve

GAP = "homo_lumo_gap"


def sent(browser: Browser, text: str | bytes, write: str = "") -> tuple[int, str]:
    content = text if isinstance(text, bytes) else text.encode()
    reply = browser.post("/sheet", {"write": write}, files={"file": ("tasks.csv", content, "text/csv")})
    return reply.status_code, html.unescape(reply.text)


def test_the_template_comes_back_filled(serve: Serve) -> None:
    server = serve()
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    template = anna.client.get("/sheet.csv")
    assert template.headers["content-disposition"] == 'attachment; filename="tasks.csv"'
    rows = list(csv.DictReader(io.StringIO(template.text.removeprefix("\ufeff"))))
    assert [int(row["task"]) for row in rows] == [first, second, third] and rows[0][f"unit.{GAP}"] == "eV"
    rows[0] |= {f"value.{GAP}": "4.31", f"spread.{GAP}": "0.05", "comment": "lamp B"}
    rows[1]["not_obtained"] = "insoluble"
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    status, text = sent(anna, out.getvalue())
    assert status == 200 and "2 rows without a fault. Nothing is written yet." in text
    assert (count(server, t.submission), count(server, t.audit_entry)) == (0, 3), "a trial run leaves nothing behind"
    reply = anna.post("/sheet", {"text": out.getvalue(), "write": "yes"})
    assert reply.status_code == 303 and count(server, t.submission) == 2
    assert "2 answers of the sheet are saved." in anna.client.get(reply.headers["location"]).text
    assert place(server.built, first) == ("settled", "pass", True) and place(server.built, second)[1] == "fail"
    assert anna.post("/sheet", {"text": out.getvalue(), "write": "yes"}).status_code == 303
    assert count(server, t.submission) == 2, "the same sheet again writes nothing"


def test_one_fault_and_nothing_is_written(serve: Serve) -> None:
    server = serve()
    anna, [first, second, third] = server.person("anna"), task_ids(server.built)
    sheet = (
        f'task,smiles,value.{GAP},unit.{GAP}\n{first},,4.31,eV\n{second},CCCCC,4.2,eV\n{third},,"4,2",eV\n999,,4.2,eV\n'
    )
    status, text = sent(anna, sheet, write="yes")
    assert status == 400 and "3 of 4 rows have a fault; nothing was written" in text
    assert "rows were moved against each other" in text and "write a decimal point: 4.2" in text
    assert 'there is no task "999"' in text and text.count('class="bad-cell"') == 3
    assert count(server, t.submission) == 0


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
def test_the_cell_at_fault_is_marked(serve: Serve, cells: str, at_fault: str) -> None:
    server = serve()
    sheet = f"task,value.{GAP},spread.{GAP},not_obtained,unit.{GAP}\n{task_ids(server.built)[0]},{cells},eV\n"
    assert f'<td class="bad-cell"{at_fault}' in sent(server.person("anna"), sheet)[1]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("task;value\n1;4,2\n", "semicolons between its cells"),
        ("number,value\n1,2\n", "no column `task`"),
        ("task,value.homo_lumo_gap\n", "No row has a value"),
        ("", "no column `task`"),
        (b"task,value\n\xff\xfe", "is not UTF-8 text"),
        ("task,value.logd\n{first},2\n", "does not ask for logd"),
        ("task,value.homo_lumo_gap\n\u00b2,4.2 eV\n", 'there is no task "\u00b2"'),
        (
            "task,value.homo_lumo_gap\n{first}," + "4" * 200_000 + "\n",
            "Near line 2 a cell has more than 131,072 characters",
        ),
        ("task,value.homo_lumo_gap\n{first},4,2\n", "write a decimal point"),
        ("task,value.homo_lumo_gap\n{first},4.2 eV\n{first},4.3 eV\n", "has an answer in line 2 already"),
        ("task,value.homo_lumo_gap,value.homo_lumo_gap\n{first},4.2 eV,4.3 eV\n", "`value.homo_lumo_gap` twice"),
        ('task,value.homo_lumo_gap,comment\n{first},4.2 eV,"bottle 3\n', "a quotation mark is missing"),
    ],
)
def test_a_sheet_that_cannot_be_read_says_why(serve: Serve, text: str | bytes, fault: str) -> None:
    server = serve()
    first = task_ids(server.built)[0]
    given = text.replace("{first}", str(first)) if isinstance(text, str) else text
    status, said = sent(server.person("anna"), given, write="yes")
    assert status == 400 and fault in said and count(server, t.submission) == 0
    assert "Try it" in said, "the next file can be tried at once"


def test_rows_of_a_campaign_in_which_one_may_not_work_are_refused(serve: Serve) -> None:
    server = serve()
    eve = server.person("eve", Role.LAB, serve(name="others").built.row.id)
    status, text = sent(eve, f"task,value.{GAP}\n{task_ids(server.built)[0]},4.2 eV\n", write="yes")
    assert status == 400 and "there is no task" in text


def test_a_row_may_leave_a_quantity_open_and_a_later_sheet_says_why_it_has_none(serve: Serve) -> None:
    server = serve(quantities=f"{GAP}, melting_point")
    anna, first = server.person("anna"), task_ids(server.built)[0]
    assert "reason.melting_point" in anna.client.get("/sheet.csv").text.splitlines()[0]
    half = f"task,value.{GAP},unit.{GAP},value.melting_point\n{first},4.31,eV,\n"
    assert "evidence; still open: melting_point" in sent(anna, half)[1]
    assert anna.post("/sheet", {"text": half, "write": "yes"}).status_code == 303
    wrong = f"task,reason.melting_point\n{first},lost\n"
    assert '<td class="bad-cell">lost' in sent(anna, wrong)[1]
    rest = f"task,reason.melting_point\n{first},decomposed\n"
    assert anna.post("/sheet", {"text": rest, "write": "yes"}).status_code == 303
    assert place(server.built, first) == ("settled", "pass", True) and count(server, t.submission) == 2
