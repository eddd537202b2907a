"""The list, a task, and what people do with it: as browsers without scripts do."""

from __future__ import annotations

import csv
import html
import io
import re
from datetime import date, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.domain.people import Role
from sciagent.domain.properties_and_levels import properties
from sciagent.lab import claims_costs_and_vials, review_and_sign_answers
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.lab import submissions, tasks
from sciagent.store.people import audit
from tests.lab.conftest import CAMPAIGN, Make, drive
from tests.lab.test_record_answers import place, task_ids
from tests.support.served_pages import Browser, Serve, Server, every_page

GAP = "homo_lumo_gap"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"


def answered(said: dict[str, str] | str, **more: str) -> dict[str, str]:
    """The fields of the form for a gap."""
    fields = said if isinstance(said, dict) else {f"value.{GAP}": said, f"unit.{GAP}": "eV"}
    return {"key": f"key-{abs(hash(str(fields) + str(more)))}", **fields, **more}


def shown(browser: Browser, path: str) -> str:
    reply = browser.client.get(path)
    assert reply.status_code == 200, reply.text
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<svg.*?</svg>|<[^>]+>", " ", reply.text, flags=re.DOTALL)))


def count(server: Server, table: sa.Table) -> int:
    with server.ledger.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def test_an_answer_is_evidence_and_the_next_task_of_the_person_follows(serve: Serve) -> None:
    server = serve()
    anna, [first, second, _] = server.person("anna"), task_ids(server.built)
    listed = shown(anna, "/tasks")
    assert "Next, the most valuable first Why: next in order homo lumo gap Oc1ccccc1 Task 1" in listed
    assert "exhaustive:" not in listed, "the reason without the name of the scheduler"
    assert properties()[GAP].description in shown(anna, f"/tasks/{first}")
    anna.post(f"/tasks/{second}/claim")
    reply = anna.post(f"/tasks/{first}/enter", answered("4.310", **{f"spread.{GAP}": "0.1"}))
    assert (reply.status_code, reply.headers["location"]) == (303, f"/tasks/{second}?saved={first}")
    assert place(server.built, first) == ("settled", "pass", True)
    with server.ledger.read() as connection:
        [submission] = submissions.of_job(connection, first)
    assert submission.said["values"] == {GAP: "4.310 eV"} and submission.person_id == anna.person_id
    text = shown(anna, f"/tasks/{first}")
    assert "homo lumo gap 4.310 eV ± 0.1" in text and "Correct the answer" in text


@pytest.mark.parametrize(
    ("fields", "value", "uncertainty", "censoring", "n"),
    [
        ({"spread": "0.2", "means": "standard"}, 4.31, 0.2, "none", 1),
        ({"spread": "0.196", "means": "interval_95"}, 4.31, 0.1, "none", 1),
        ({"spread": "0.1732", "means": "tolerance"}, 4.31, 0.1, "none", 1),
        ({"limit": "<"}, 4.31, None, "below", 1),
        ({"value": ">4.31"}, 4.31, None, "above", 1),
        ({"value": "4.31 ± 0.2 eV"}, 4.31, 0.2, "none", 1),
        ({"value": "", "readings": "4.30 4.31\n4.32"}, 4.31, 0.01 / 3**0.5, "none", 3),
        ({"value": "4310 meV", "spread": "10"}, 4.31, 0.01, "none", 1),
    ],
)
def test_the_form_takes_what_was_measured(
    serve: Serve, fields: dict[str, str], value: float, uncertainty: float | None, censoring: str, n: int
) -> None:
    server = serve()
    first = task_ids(server.built)[0]
    said = {f"{name}.{GAP}": text for name, text in ({"value": "4.31", "unit": "eV"} | fields).items()}
    reply = server.person("anna").post(f"/tasks/{first}/enter", answered(said))
    assert reply.status_code == 303, reply.text
    q = t.quantity.c
    query = sa.select(q.value, q.uncertainty, q.censoring, q.n).join(t.evidence, t.evidence.c.id == q.evidence_id)
    with server.ledger.read() as connection:
        row = connection.execute(query.where(t.evidence.c.verifier == "lab.measurement")).one()
    assert (row.value, row.censoring, row.n) == (pytest.approx(value, rel=1e-3), censoring, n)
    assert row.uncertainty == (None if uncertainty is None else pytest.approx(uncertainty, rel=1e-2))


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"value": "4,31"}, "write a decimal point: 4.31"),
        ({"value": "n.d."}, "where there is no value, say why"),
        ({"value": ""}, "No value was given"),
        ({"value": "4.31", "readings": "4.3 4.4"}, "give the readings, or a value with its ±; not both"),
        ({"value": "", "readings": "4.3"}, "1 reading; give 2 to 1000"),
        (
            {"value": "", "readings": "-1,61\n-1,58\n-1,66"},
            'the reading "-1,61" is no number; write a decimal point: -1.61',
        ),
        ({"value": "12E4711"}, '"12E4711" is too large; no quantity is above'),
        ({"value": "4.31", "spread": "1e400"}, 'the uncertainty "1e400" is too large'),
        ({"value": "", "readings": "4.3 <4.4"}, 'the reading "<4.4" is no number'),
        ({"value": "4.31 V"}, 'is not given in "V"'),
        ({"value": "4.31", "spread": "-1"}, 'the uncertainty "-1" is no number'),
        ({"value": "4.31", "spread": "1", "means": "luck"}, '"luck" is no meaning of ±'),
        ({"value": HOSTILE}, "is no number with a unit"),
    ],
)
def test_what_is_refused_stays_in_the_form(serve: Serve, fields: dict[str, str], fault: str) -> None:
    server = serve()
    first = task_ids(server.built)[0]
    said = {f"{name}.{GAP}": text for name, text in ({"unit": "eV"} | fields).items()}
    reply = server.person("anna").post(f"/tasks/{first}/enter", answered(said, comment="kept"))
    assert reply.status_code == 400 and ">kept</textarea>" in reply.text
    [said_of_it] = re.findall(r'<p class="fault" role="alert">(.*?)</p>', html.unescape(reply.text))
    assert fault in said_of_it and GAP not in said_of_it, "the form says: homo lumo gap"
    for text in fields.values():
        assert html.escape(text) in reply.text.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    assert "<script>" not in reply.text and "<img" not in reply.text and count(server, t.submission) == 0


def test_the_same_answer_sent_twice_is_kept_once_and_another_with_its_key_refused(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    said = answered("4.31")
    for _ in range(3):
        assert anna.post(f"/tasks/{first}/enter", said).status_code == 303
    other = said | {f"value.{GAP}": "4.42", "why": "x"}
    reply = anna.post(f"/tasks/{first}/enter", other)
    assert reply.status_code == 409 and count(server, t.submission) == 1
    [key] = re.findall(r'name="key" value="(\w+)"', reply.text)
    assert anna.post(f"/tasks/{first}/enter", other | {"key": key}).status_code == 303, (
        "with a key of its own it is taken"
    )


def test_what_a_page_has_seen_is_a_number_or_nothing(serve: Serve) -> None:
    server = serve()
    said = answered("4.31", seen="\u00b2")
    assert server.person("anna").post(f"/tasks/{task_ids(server.built)[0]}/enter", said).status_code == 303


def test_the_second_of_two_people_gets_both_values(serve: Serve) -> None:
    server = serve()
    anna, ben, first = server.person("anna"), server.person("ben"), task_ids(server.built)[0]
    assert anna.post(f"/tasks/{first}/enter", answered("4.31", seen="0")).status_code == 303
    reply = ben.post(f"/tasks/{first}/enter", answered("4.42", seen="0"))
    assert reply.status_code == 409
    assert "anna entered" in reply.text and "4.31 eV" in reply.text and 'value="4.42"' in reply.text
    seen, *_ = re.findall(r'name="seen" value="(\d+)"', reply.text)
    said = answered("4.42", seen=seen, why="another lamp")
    assert ben.post(f"/tasks/{first}/enter", said).status_code == 303
    with server.ledger.read() as connection:
        assert [each.revision for each in submissions.of_job(connection, first)] == [0, 1]


def test_a_take_over_is_visible_and_the_first_person_can_no_longer_answer(serve: Serve) -> None:
    server = serve()
    anna, ben, first = server.person("anna"), server.person("ben"), task_ids(server.built)[0]
    anna.post(f"/tasks/{first}/claim")
    assert "anna has this task" in shown(ben, f"/tasks/{first}")
    assert ben.post(f"/tasks/{first}/claim").status_code == 400
    assert ben.post(f"/tasks/{first}/claim", {"take_over": "yes"}).status_code == 303
    reply = anna.post(f"/tasks/{first}/enter", answered("4.31"))
    assert reply.status_code == 400 and "is with ben since" in reply.text and 'value="4.31"' in reply.text
    assert count(server, t.submission) == 0


def test_a_task_is_given_back_or_not_obtained(serve: Serve) -> None:
    server = serve()
    anna, [first, second, _] = server.person("anna"), task_ids(server.built)
    anna.post(f"/tasks/{first}/claim")
    assert anna.post(f"/tasks/{first}/release", {"why": " "}).status_code == 400
    assert anna.post(f"/tasks/{first}/release", {"why": "the vial broke"}).status_code == 303
    with server.ledger.read() as connection:
        task = tasks.find(connection, first)
        assert task is not None and task.claimed_by is None
    assert anna.post(f"/tasks/{second}/enter", answered({"not_obtained": "decomposed"})).status_code == 303
    with server.ledger.read() as connection:
        task = tasks.find(connection, second)
        assert task is not None
        row = candidate_standings.get(connection, server.built.row.id, task.candidate_id)
    assert (row["verdict"], row["is_hit"]) == ("fail", False)


def test_a_vial_opens_its_task_and_the_wrong_one_is_refused(serve: Serve) -> None:
    server = serve()
    anna, [first, second, _] = server.person("anna"), task_ids(server.built)
    reply = anna.post(
        f"/tasks/{first}/sample", {"form": "HCl, 1 H2O", "source": "made", "purity": "98.5 %", "place": "shelf 3"}
    )
    code = reply.headers["location"].partition("codes=")[2]
    wrong = claims_costs_and_vials.register(server.built, second, "ben", "free base", "bought")
    for path in (f"/s/{code}", f"/scan?code={code}"):
        found = anna.get(path)
        assert found.headers["location"].startswith(f"/tasks/{first}?vial="), found.text
    refused = anna.post(f"/tasks/{first}/enter", answered("4.31", sample=wrong.code))
    assert refused.status_code == 409 and "This vial is another compound" in refused.text
    assert count(server, t.submission) == 0
    misread = anna.get(f"/scan?code={code[:-1]}{'A' if code[-1] != 'A' else 'B'}")
    assert misread.status_code == 400 and "was misread" in misread.text
    assert "autofocus" in misread.text, "a scanner can type again"
    both = f'href="/labels?codes={code}%2C{wrong.code}"'
    assert both in anna.client.get("/tasks").text, "the labels of several vials are one sheet"
    assert anna.post(f"/tasks/{first}/enter", answered("4.31", sample=code.lower())).status_code == 303
    label = anna.client.get(reply.headers["location"]).text
    assert "⚠" not in label, "phenol matches no safety rule"
    assert f"task {first}</strong>" in label and "shelf 3" in label and 'class="labels label"' in label
    often = anna.client.get("/labels?codes=" + ",".join([code, code.lower()] * 100)).text
    assert often == label, "a code that is given twice has one label"
    sheet = anna.client.get(f"{reply.headers['location']}&paper=sheet").text
    assert 'class="labels sheet"' in sheet and f'href="/labels?codes={code}">For a label printer' in sheet
    assert f'href="/s/{code}"' in label, "the way back to the task"
    assert code in label and "98.5 %" in label and 'class="qr"><svg' in label.replace("\n", "")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"purity": "1,234.5"}, "write it without commas between the thousands: 1234.5"),
        ({"purity": "1e400"}, "is too large"),
        ({"purity": "150"}, "The purity 150 % is not between 0 and 100 %"),
        ({"purity": "0,98"}, "The purity is in percent: if 0.98 is a fraction, type 98; if not, 0.98 %"),
        ({"lot": "x" * 900_000}, "The batch has 900,000 characters; 100 are the most"),
        ({"place": "x" * 201}, "The place has 201 characters; 200 are the most"),
        ({"form": "x" * 201}, "The form has 201 characters; 200 are the most"),
    ],
)
def test_a_vial_that_cannot_be_kept_is_refused(serve: Serve, fields: dict[str, str], fault: str) -> None:
    server = serve()
    said = {"form": "free base", "source": "made"} | fields
    reply = server.person("anna").post(f"/tasks/{task_ids(server.built)[0]}/sample", said)
    assert reply.status_code == 400 and fault in html.unescape(reply.text) and count(server, t.sample) == 0


def test_a_long_comment_is_refused_and_not_cut(serve: Serve) -> None:
    server = serve()
    said = answered("4.31", comment="x" * 4001)
    reply = server.person("anna").post(f"/tasks/{task_ids(server.built)[0]}/enter", said)
    assert reply.status_code == 400 and "The comment has 4,001 characters; 4,000 are the most" in reply.text
    readings = "4.31 " * 1000
    said = answered({f"readings.{GAP}": readings, f"unit.{GAP}": "eV"})
    assert server.person("anna").post(f"/tasks/{task_ids(server.built)[0]}/enter", said).status_code == 303
    with server.ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.max(t.quantity.c.n))).scalar_one() == 1000, "no reading is cut off"


def test_a_correction_is_in_the_unit_of_the_answer(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    assert (
        "selected"
        not in anna.get(f"/tasks/{first}").text.partition('id="unit-homo_lumo_gap"')[2].partition("</select>")[0]
    )
    anna.post(f"/tasks/{first}/enter", answered({"value.homo_lumo_gap": "415", "unit.homo_lumo_gap": "kJ/mol"}))
    assert '<option value="kJ/mol" selected>' in anna.get(f"/tasks/{first}").text


def test_the_list_and_the_form_say_when_the_slots_of_the_week_are_used(serve: Serve) -> None:
    server = serve(budget="{lab_slots: {amount: 1, per: week}}")
    anna, [first, second, *_] = server.person("anna"), task_ids(server.built)
    assert "no slot" not in shown(anna, "/tasks")
    anna.post(f"/tasks/{first}/claim")
    with server.ledger.read() as connection:
        now = db_now(connection)
    days = re.findall(r"no slot before (\S+)", shown(anna, "/tasks"))
    day = days[0]
    assert days == [day] * (len(task_ids(server.built)) - 1), "hers is claimed"
    assert date.fromisoformat(day) - now.date() in (timedelta(days=7), timedelta(days=8)), "a minute may pass midnight"
    form = shown(anna, f"/tasks/{second}")
    assert f"nobody can claim this task before {day}" in form and "Claim it" not in form
    assert "What is measured already is recorded all the same" in form
    assert "The slots of the week" not in shown(anna, f"/tasks/{first}")
    campaign_page = shown(server.person("carla", Role.CHEMIST), "/campaigns/gaps")
    assert re.search("1 of 1 lab slots? this week, more on 20", campaign_page)


def test_a_finished_measurement_is_recorded_although_the_slots_are_used(serve: Serve) -> None:
    server = serve(budget="{lab_slots: {amount: 1, per: week}}")
    anna, ben, [first, second, third] = server.person("anna"), server.person("ben"), task_ids(server.built)
    anna.post(f"/tasks/{first}/claim")
    reply = ben.post(f"/tasks/{second}/enter", answered("4.31"))
    assert reply.status_code == 303, reply.text
    assert place(server.built, second) == ("settled", "pass", True)
    text = shown(ben, reply.headers["location"])
    assert "is saved" in text and "counts on top of it, and the next claim waits" in text
    refused = ben.post(f"/tasks/{third}/claim")
    assert refused.status_code == 400 and "lab_slots: 2 of 1 in seven days" in refused.text
    sheet = f"task,value.{GAP}\n{third},4.2 eV\n"
    trial = ben.get(ben.post("/sheet", {"text": sheet}).headers["location"])
    assert trial.status_code == 200 and "evidence, beyond the budget" in trial.text
    reply = ben.post("/sheet", {"text": sheet, "write": "yes"})
    assert "counts on top of it" in shown(ben, reply.headers["location"])
    campaign_page = shown(server.person("carla", Role.CHEMIST), "/campaigns/gaps")
    assert re.search("3 of 1 lab slots? this week, more on 20", campaign_page)


def test_a_label_names_the_safety_rules_that_its_molecule_matches(serve: Serve) -> None:
    reason = "the group handles organic azides in a hood"
    server = serve(smiles=("[N-]=[N+]=NCc1ccccc1",), more=f"safety: {{allow: [azide], reason: {reason}}}\n")
    [task_id] = task_ids(server.built)
    reply = server.person("anna").post(f"/tasks/{task_id}/sample", {"form": "free base", "source": "bought"})
    assert "⚠ azide" in shown(server.person("anna"), reply.headers["location"])


def seen_by(browser: Browser, task: int) -> str:
    """The version of the answer that the page shows to its reviewer."""
    found = re.findall(r'name="seen" value="(\d+)"', browser.client.get(f"/tasks/{task}").text)
    return str(found[0]) if found else ""


def last_answer(server: Server, task: int) -> int:
    with server.ledger.read() as connection:
        return submissions.of_job(connection, task)[-1].id


@pytest.mark.parametrize("decision", ["accept", "back"])
def test_a_reviewer_decides_on_what_the_page_showed_or_is_told_what_changed(serve: Serve, decision: str) -> None:
    server = serve(lab="{ahead: 3, review: true}")
    anna, ben, first = server.person("anna"), server.person("ben"), task_ids(server.built)[0]
    anna.post(f"/tasks/{first}/enter", answered("4.31"))
    seen = seen_by(ben, first)
    anna.post(f"/tasks/{first}/enter", answered("5.90"))
    said = {"decision": decision, "why": "x"}
    reply = ben.post(f"/tasks/{first}/review", said)
    assert reply.status_code == 409 and 'homo lumo gap 5.90 eV" by anna' in html.unescape(reply.text)
    reply = ben.post(f"/tasks/{first}/review", said | {"seen": seen})
    assert reply.status_code == 409 and place(server.built, first)[0] == "pending"
    assert count(server, t.submission) == 2, "nothing was recorded"
    text = html.unescape(reply.text)
    assert "was changed since you read it" in text and "What was measured" not in text
    assert re.search(r"You read: anna entered on <time[^>]*>[^<]*</time>: <strong>\s*homo lumo gap 4.31 eV", text)
    assert re.search(r"Now: anna entered on <time[^>]*>[^<]*</time>: <strong>\s*homo lumo gap 5.90 eV", text)
    now = re.findall(r'name="seen" value="(\d+)"', text)[0]
    assert int(now) == last_answer(server, first)
    assert ben.post(f"/tasks/{first}/review", {"decision": decision, "why": "x", "seen": now}).status_code == 303
    assert count(server, t.submission) == 3


def test_an_answer_is_reviewed_and_signed(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, review: true}")
    anna, ben, first = server.person("anna"), server.person("ben"), task_ids(server.built)[0]
    reply = anna.post(f"/tasks/{first}/enter", answered("4.31"))
    assert f"task {first} is saved and waits for another person's review." in shown(anna, reply.headers["location"])
    assert "<h2>Waiting for your review</h2>" in ben.client.get("/tasks").text
    own = anna.post(f"/tasks/{first}/review", {"decision": "accept", "seen": str(last_answer(server, first))})
    assert own.status_code == 400
    back = {"decision": "back", "why": "which lamp?", "seen": seen_by(ben, first)}
    assert ben.post(f"/tasks/{first}/review", back).status_code == 303
    assert "sent it back: which lamp?" in shown(anna, f"/tasks/{first}")
    anna.post(f"/tasks/{first}/enter", answered("4.31", comment="lamp B"))
    accept = {"decision": "accept", "seen": seen_by(ben, first)}
    assert ben.post(f"/tasks/{first}/review", accept).status_code == 303
    assert place(server.built, first) == ("settled", "pass", True)
    with server.ledger.begin() as connection:
        from sciagent.store.people import persons
        from sciagent.web import visitors_and_passwords

        persons.set_password(
            connection, "ben", ben.person_id, visitors_and_passwords.hashed("a sentence of ben", "ben")
        )
        last = submissions.of_job(connection, first)[-1].id
    said = {"meaning": "reviewed", "seen": str(last), "password": "a sentence of anna"}
    refused = ben.post(f"/tasks/{first}/sign", said)
    assert refused.status_code == 400 and "The password does not fit; nothing was signed" in refused.text
    assert '<option value="reviewed" selected>reviewed it</option>' in refused.text, "what was chosen stays"
    assert re.search(r'id="sign-password"[^>]*aria-invalid="true"[^>]*autofocus', refused.text)
    assert "a sentence of anna" not in refused.text
    silent = ben.post(f"/tasks/{first}/sign", said | {"meaning": ""})
    assert silent.status_code == 400 and "Say what the signature means" in silent.text
    assert '<option value="">choose what you say</option>' in ben.client.get(f"/tasks/{first}").text
    assert "measured by Anna (anna)." in shown(ben, f"/tasks/{first}")
    assert ben.post(f"/tasks/{first}/sign", said | {"password": "a sentence of ben"}).status_code == 303
    assert "Signed by Ben" in shown(anna, f"/tasks/{first}")
    for _ in range(8):
        late = ben.post(f"/tasks/{first}/sign", said)
    assert late.status_code == 429 and int(late.headers["retry-after"]) > 0 and "You sign" in late.text
    with server.ledger.read() as connection:
        assert audit.check(connection).fault is None


def test_a_task_waits_for_a_chemist(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, approve: true}")
    anna, chemist, first = server.person("anna"), server.person("carla", Role.CHEMIST), task_ids(server.built)[0]
    assert "A chemist approves this task" in shown(anna, f"/tasks/{first}")
    assert "to be approved" in shown(anna, "/tasks"), "waiting says not for whom"
    assert anna.post(f"/tasks/{first}/approve").status_code == 403
    assert chemist.post(f"/tasks/{first}/approve").status_code == 303
    assert anna.post(f"/tasks/{first}/claim").status_code == 303


def test_texts_of_people_are_shown_as_texts(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    said = answered("4.31", comment=HOSTILE, instrument=HOSTILE)
    files = {"files": (HOSTILE + ".png", b"<svg onload=alert(3)>", "image/svg+xml")}
    assert anna.post(f"/tasks/{first}/enter", said, files=files).status_code == 303
    anna.post(f"/tasks/{first}/sample", {"form": HOSTILE, "source": "made", "lot": HOSTILE})
    anna.post(f"/tasks/{first}/enter", answered("4.32", why=HOSTILE))
    for path in (f"/tasks/{first}", "/tasks", "/campaigns/gaps", f"/scan?code={HOSTILE}"):
        text = anna.client.get(path).text
        assert "<script>alert" not in text and "<img" not in text, path


def test_two_experts_grade_a_molecule_without_seeing_each_other(make: Make, tmp_path: Path) -> None:
    """The question is a page with grades; the verdict is made of both."""
    text = CAMPAIGN.format(name="review", lab="{replicates: 2, blind: true}", budget="{lab_slots: 20}", high=4.6)
    text = text.replace("homo_lumo_gap, window: [4.0, 4.6], unit: eV", "expert_grade, min: 0.6")
    text = text.replace("lab.measurement", "expert.review")
    settings = "{quantities: [homo_lumo_gap], method: UV-vis onset, conditions: {temperature: 25 °C}}"
    text = text.replace(settings, "{question: can we make it in a week?}")
    ledger = make().ledger
    built = create_or_open(ledger, parse_spec(text, base=tmp_path), text, "test").built
    drive(built)
    server = Server(built, every_page(ledger))
    anna, ben = server.person("anna"), server.person("ben")
    with ledger.read() as connection:
        first = tasks.listed(connection, campaign_id=built.row.id)[0]
        both = sorted(tasks.of_candidate(connection, first.candidate_id), key=lambda task: task.id)
    one, two = [task for task in both if task.campaign == "review"]
    [other] = [task for task in both if task.campaign != "review"]
    assert f"Other tasks {two.id}: review, lab {one.id}: review, lab" in shown(anna, f"/tasks/{other.id}")
    assert "Other tasks" not in shown(anna, f"/tasks/{one.id}"), "the answer of the other expert stands there"
    assert "can we make it in a week?" in shown(anna, f"/tasks/{one.id}")
    assert "What is known so far" not in shown(anna, f"/tasks/{one.id}")
    assert "Register a vial" not in shown(anna, f"/tasks/{one.id}"), "nothing is weighed in for a judgement"
    rows = list(csv.DictReader(io.StringIO(anna.client.get("/sheet.csv").text.removeprefix("\ufeff"))))
    assert "grade.expert_grade" in rows[0] and "value.expert_grade" not in rows[0]
    offered = [int(row["task"]) for row in rows]
    assert (one.id in offered, two.id in offered) == (True, False), "the second blind judgement is another person's"
    assert anna.post(f"/tasks/{one.id}/enter", answered({"grade.expert_grade": "maybe"})).status_code == 400
    number = anna.post(f"/tasks/{one.id}/enter", answered({"value.expert_grade": "0.5"}))
    assert number.status_code == 400 and "it is judged, not measured; give a grade: no, hardly, " in number.text
    sheet = f"task,grade.expert_grade\n{one.id},yess\n".encode()
    trial = anna.post("/sheet", {}, files={"file": ("judged.csv", sheet, "text/csv")}).headers["location"]
    assert 'row 2, column "grade.expert_grade"' in html.unescape(anna.client.get(trial).text)
    assert anna.post(f"/tasks/{one.id}/enter", answered({"grade.expert_grade": "yes"})).status_code == 303
    assert "for another person" in html.unescape(anna.post(f"/tasks/{two.id}/claim").text)
    assert "yes" not in shown(ben, f"/tasks/{two.id}").partition("What was entered")[2]
    link = f"/campaigns/review/candidates/{one.key}"
    assert f'href="{link}"' in ben.client.get(f"/tasks/{two.id}").text
    assert "anna" not in shown(ben, link) and "expert grade" not in shown(ben, link).partition("Evidence")[2]
    assert ben.post(f"/tasks/{two.id}/enter", answered({"grade.expert_grade": "hardly"})).status_code == 303
    assert "anna" in shown(ben, link)
    assert place(built, one.id) == ("settled", "pass", True), "their mean is 0.625"


MELTING = "melting_point"
BOTH = f"{GAP}, {MELTING}"


def field(text: str, name: str) -> str:
    """The value of a text field of a page."""
    [found] = re.findall(rf'name="{re.escape(name)}" value="([^"]*)"', text)
    return html.unescape(found)


def chosen(text: str, name: str) -> list[str]:
    """The options of a select that the page has chosen."""
    [options] = re.findall(rf'<select id="[^"]*" name="{re.escape(name)}"[^>]*>(.*?)</select>', text, re.DOTALL)
    return re.findall(r'<option value="([^"]*)" selected>', html.unescape(options))


def test_half_an_answer_is_completed_and_corrected_in_a_form_that_begins_with_it(serve: Serve) -> None:
    server = serve(quantities=BOTH)
    anna = server.person("anna")
    first = task_ids(server.built)[0]
    half = {f"value.{GAP}": "<4.310", f"unit.{GAP}": "eV", f"spread.{GAP}": "0.05", f"means.{GAP}": "tolerance"}
    files = {"files": ("spectrum.txt", b"300 0.1", "text/plain")}
    reply = anna.post(f"/tasks/{first}/enter", half | {"key": "k" * 8, "comment": "lamp B", "seen": "0"}, files=files)
    assert reply.headers["location"] == f"/tasks?saved={first}&part=1"
    listed = anna.client.get(reply.headers["location"]).text
    assert "is saved in part" in listed and "still open: melting point" in listed and "partly answered" in listed
    page = anna.client.get(f"/tasks/{first}").text
    assert (field(page, f"value.{GAP}"), field(page, f"spread.{GAP}")) == ("4.310", "0.05")
    assert (chosen(page, f"limit.{GAP}"), chosen(page, f"means.{GAP}")) == (["<"], ["tolerance"])
    assert "lamp B</textarea>" in page and "spectrum.txt: attached already, and stays so." in page
    emptied = {f"value.{MELTING}": "57", f"unit.{MELTING}": "degC", "seen": "1"}
    refused = anna.post(f"/tasks/{first}/enter", emptied)
    assert "homo lumo gap: it is recorded, and the field is empty now" in refused.text
    rest = half | emptied | {f"reason.{MELTING}": "", "comment": "lamp B"}
    assert anna.post(f"/tasks/{first}/enter", rest).headers["location"] == f"/tasks?saved={first}"
    page = anna.client.get(f"/tasks/{first}").text
    assert (field(page, f"value.{MELTING}"), chosen(page, f"unit.{MELTING}")) == ("57", ["degC"])
    assert ") completed:" not in page and "(completed):" in page
    corrected = rest | {f"value.{MELTING}": "", f"reason.{MELTING}": "decomposed", "why": "brown", "seen": "2"}
    files = {"files": ("photo.png", b"\x89PNG\r\n\x1a\n", "image/png")}
    assert anna.post(f"/tasks/{first}/enter", corrected, files=files).status_code == 303
    page = anna.client.get(f"/tasks/{first}").text
    assert chosen(page, f"reason.{MELTING}") == ["decomposed"] and field(page, f"value.{MELTING}") == ""
    assert "spectrum.txt, photo.png: attached already" in page
    with server.ledger.read() as connection:
        kept = [[file["name"] for file in each.files] for each in submissions.of_job(connection, first)]
    assert kept == [["spectrum.txt"], ["spectrum.txt"], ["spectrum.txt", "photo.png"]]


def test_the_field_at_fault_is_marked_and_has_the_cursor_without_scripts(serve: Serve) -> None:
    server = serve(quantities=BOTH)
    anna = server.person("anna")
    said = {f"value.{GAP}": "4.31", f"unit.{GAP}": "eV", f"value.{MELTING}": "57", f"unit.{MELTING}": "degC"}
    for changed, at_fault in (
        ({f"value.{MELTING}": "5,7"}, f'id="value-{MELTING}"'),
        ({f"spread.{MELTING}": "-1"}, f'id="spread-{MELTING}"'),
        ({f"value.{GAP}": "4.31 K"}, f'id="value-{GAP}"'),
        ({f"value.{MELTING}": "", f"readings.{MELTING}": "57 5x"}, f'id="readings-{MELTING}"'),
    ):
        text = anna.post(f"/tasks/{task_ids(server.built)[0]}/enter", said | changed).text
        [marked] = [tag for tag in re.findall(r"<(?:input|textarea)[^>]*>", text) if "aria-invalid" in tag]
        assert at_fault in marked and "autofocus" in marked and text.count(" autofocus") == 1


def test_what_was_sent_back_is_marked_on_the_list_and_stands_in_the_form(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, review: true}")
    anna = server.person("anna")
    first = task_ids(server.built)[0]
    readings = {f"readings.{GAP}": "4.30 4.32", f"unit.{GAP}": "eV", "instrument": "UV 2", "measured_on": "2026-11-03"}
    assert anna.post(f"/tasks/{first}/enter", readings | {"seen": "0"}).status_code == 303
    review_and_sign_answers.send_back(server.built, first, "ben", "which lamp?")
    listed = anna.client.get("/tasks").text
    assert "sent back</span>" in listed and "by ben: which lamp?" in listed
    page = anna.client.get(f"/tasks/{first}").text
    assert ">4.30 4.32</textarea>" in page and field(page, f"value.{GAP}") == ""
    assert field(page, "instrument") == "UV 2" and 'value="2026-11-03"' in page
    assert 'name="seen" value="2"' in page, "the new answer follows what was sent back"


def test_a_page_names_at_most_eight_other_tasks_of_its_molecule(serve: Serve) -> None:
    server = serve(lab="{replicates: 10, ahead: 10}", budget="{lab_slots: 99}", smiles=["Oc1ccccc1"], count=1)
    numbers = task_ids(server.built)
    page = server.person("anna").client.get(f"/tasks/{numbers[0]}").text
    assert len(numbers) == 10 and len(re.findall(r'<a href="/tasks/\d+">\d+: gaps, lab</a>', page)) == 8
    [more] = re.findall(r'href="(/tasks\?find=\w+)"', page)
    listed = server.person("anna").client.get(more).text
    assert all(f'href="/tasks/{number}"' in listed for number in numbers)
