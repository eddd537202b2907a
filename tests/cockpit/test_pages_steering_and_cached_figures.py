"""The window of the chemist: the same numbers as the command line, and decisions."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa

from sciagent.campaign.law import law_commands
from sciagent.campaign.law.kept_predictors import KEPT
from sciagent.domain.people import Role
from sciagent.domain.states_and_needs import CampaignState, ReportedProgress
from sciagent.lab import claims_costs_and_vials, record_answers, review_and_sign_answers
from sciagent.lab.record_answers import LabEntry
from sciagent.report.status_best_trace import status
from sciagent.store.campaign_state import campaigns, directives
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from sciagent.store.lab import tasks
from sciagent.store.learning import law_entries
from sciagent.store.people import audit
from sciagent.store.views.report_candidates import candidates_in_order
from sciagent.web.site_context_and_ticker import Ticker
from tests.campaign.law import conftest as law_ledger
from tests.lab.conftest import drive
from tests.lab.pages.test_task_pages import shown
from tests.lab.test_record_answers import entry, place, task_ids
from tests.lab.test_review_and_sign_answers import waiting
from tests.support.served_pages import Browser, Serve, Server, every_page


def test_a_campaign_shows_the_numbers_of_its_status(serve: Serve) -> None:
    server = serve()
    [first, second, _] = task_ids(server.built)
    record_answers.enter(server.built, first, entry("4.31 eV"))
    record_answers.enter(server.built, second, entry("5.9 eV"))
    with server.ledger.read() as connection:
        told = status(connection, campaigns.get(connection, "gaps"))
    viewer = server.person("vera", Role.VIEWER)
    page = viewer.client.get("/campaigns/gaps").text
    assert told.tasks is not None and f'<dd id="hits">{told.hits}</dd>' in page and told.hits == 1
    assert f'<span id="answered">{told.tasks.answered}</span> answered' in page
    rows = re.findall(r'<th scope="row">(\w+)</th>((?:<td>[\d.]+</td>)+)', page.partition('id="cost"')[0])
    found = {rung: [float(cell) for cell in re.findall(r"<td>([\d.]+)", cells)][:6] for rung, cells in rows}
    wanted = {r.rung: [r.running, r.done, r.passed, r.failed, r.inconclusive, r.errors] for r in told.rungs}
    assert found == wanted
    assert re.findall(r'class="smiles">(.*?)<', page) == ["Oc1ccccc1", "Cc1ccccc1O"], "those with a value alone"
    gallery = page.partition('class="gallery"')[2]
    assert [gallery.count(words) for words in (">hit<", ">no hit<", "P(hit)")] == [1, 1, 0]
    assert "Pause" not in page, "a viewer decides nothing"
    assert "gaps waiting" in shown(viewer, "/campaigns")


def test_a_running_job_shows_how_far_it_is_and_open_pages_hear_of_it(serve: Serve) -> None:
    server = serve()
    viewer = server.person("vera", Role.VIEWER)
    assert "<progress" not in viewer.client.get("/campaigns/gaps").text
    first = task_ids(server.built)[0]
    claims_costs_and_vials.claim(server.built, first, "anna")
    ticker = Ticker(server.ledger)
    ticker.look()
    before = ticker.tick
    ticker.look()
    assert ticker.tick == before
    with server.ledger.begin() as connection:
        running = sa.select(t.attempt.c.id).where(t.attempt.c.state == "running", t.attempt.c.job_id.is_not(None))
        progress = ReportedProgress(1.0, 4.0, "<b>chunk 2", remaining_seconds=600.0)
        leases.report_progress(connection, {connection.execute(running).scalar_one(): progress})
    ticker.look()
    assert ticker.tick == before + 1
    page = viewer.client.get("/campaigns/gaps").text
    assert '<progress max="1" value="0.25"' in page and "25 %, 10 min left: &lt;b&gt;chunk 2" in page


def test_a_candidate_shows_its_evidence_with_revisions(serve: Serve) -> None:
    server = serve()
    first = task_ids(server.built)[0]
    record_answers.enter(server.built, first, entry("4.31 eV"))
    record_answers.enter(server.built, first, entry("4.41 eV", who="ben", why="read again"))
    viewer = server.person("vera", Role.VIEWER)
    text = shown(viewer, "/campaigns/gaps/candidates/Oc1ccccc1")
    assert "4.31 eV" in text and "4.41 eV" in text and "replaced" in text and "read again" in text and "A hit" in text
    page = viewer.client.get("/campaigns/gaps/candidates/Oc1ccccc1").text
    assert page.count('<th scope="row">lab</th>') == page.count(f'<a class="target" href="/tasks/{first}">') == 2
    assert "homo_lumo_gap" not in text
    assert viewer.get("/campaigns/gaps/candidates/CCCCCC").status_code == 400
    listed = shown(viewer, "/campaigns/gaps/candidates?hits=1")
    assert "Oc1ccccc1" in listed and "CCO" not in listed


def test_a_candidate_has_its_name_and_the_reasons_of_single_quantities(serve: Serve) -> None:
    server = serve(
        lab="{ahead: 3, review: true}",
        quantities="homo_lumo_gap, melting_point",
        wanted="  - {property: melting_point, window: [250, 400], unit: K}\n",
        header="smiles,name",
        smiles=("Oc1ccccc1,phenol", "CCO,ethanol"),
    )
    first = task_ids(server.built)[0]
    typed = {"values": {"homo_lumo_gap": "4.31 eV"}, "uncertainties": {}, "limit": "", "not_obtained": ""}
    record_answers.enter(server.built, first, LabEntry(typed | {"reasons": {"melting_point": "decomposed"}}, "anna"))
    viewer = server.person("vera", Role.VIEWER)
    assert "1 on the list, 0 claimed, 1 in review, 0 answered" in shown(viewer, "/campaigns/gaps")
    review_and_sign_answers.accept(server.built, first, "ben", waiting(server.built, first))
    page = viewer.client.get("/campaigns/gaps/candidates/Oc1ccccc1").text
    assert "<h1>phenol</h1>" in page and "<title>phenol" in page
    assert "melting point: no value (decomposed)<br>" in page, "the table of the evidence"
    text = shown(viewer, "/campaigns/gaps/candidates/Oc1ccccc1")
    assert "Worth nothing, since" in text and "could not decide" not in text


def test_hits_have_their_curve_against_what_people_cost(serve: Serve) -> None:
    server = serve(lab="{ahead: 3, cost: {lab_slots: 1, person_hours: 1.5, money: 40}}", name="priced")
    [first, second, _] = task_ids(server.built)
    record_answers.enter(server.built, first, entry("4.31 eV"))
    record_answers.enter(server.built, second, entry("4.4 eV"))
    viewer = server.person("vera", Role.VIEWER)
    text = shown(viewer, "/campaigns/priced")
    assert "Hits 2" in text and "Money 80 EUR" in text and "Person-hours 3 h" in text
    assert "Hits against money ; lab decides." in text and "No hit yet" not in text
    assert "lab 80 EUR 3 h 2 –" in text
    page = viewer.client.get("/campaigns/priced?by=person_hours").text
    assert re.findall(r'href="\?by=(\w+)"', page) == ["money", "person_hours", "lab_slots", "core_seconds", "time"]
    assert 'href="?by=person_hours" aria-current="true"' in page and "Hits against person-hours booked" in page
    assert "Hits over time" in shown(viewer, "/campaigns/priced?by=time")
    assert "Hits against money" in shown(viewer, "/campaigns/priced?by=nonsense")
    assert page.partition('<dl class="figures">')[2].partition("</dl>")[0].count("<dt>") == 4, "no tile wraps alone"


def verbs(person: Browser, path: str) -> list[str]:
    """The decisions that a page offers."""
    return re.findall(r'name="verb" value="(\w+)"', person.get(path).text)


def test_a_chemist_decides_and_the_trail_names_the_account(serve: Serve) -> None:
    server = serve()
    carla, first = server.person("carla", Role.CHEMIST), task_ids(server.built)[0]
    with server.ledger.read() as connection:
        task = tasks.find(connection, first)
    assert task is not None
    path = f"/campaigns/gaps/candidates/{task.key}"
    assert verbs(carla, path) == ["hold", "release", "promote", "veto"]
    empty = carla.post(path, {"verb": "veto", "why": " "})
    assert empty.status_code == 400 and "The reason is empty" in empty.text
    assert re.search(r'id="why"[^>]*aria-invalid="true"[^>]*autofocus', empty.text)
    refused = carla.post(path, {"verb": "explode", "why": 'too "wet"'})
    assert refused.status_code == 400 and "Say whether to hold" in refused.text
    assert 'name="why" value="too &#34;wet&#34;"' in refused.text and "aria-invalid" not in refused.text
    script = carla.post(path, {"verb": "explode", "why": "x"}, headers={"accept": "application/json"})
    assert script.status_code == 400 and script.json()["detail"].startswith("Say whether to hold")
    assert carla.post(path, {"verb": "veto", "why": "not stable in air"}).status_code == 303
    assert place(server.built, first)[0] == "vetoed" and first not in task_ids(server.built)
    with server.ledger.read() as connection:
        [said] = directives.directives_on(connection, server.built.row.id, task.candidate_id)
        last = audit.head(connection)
    assert (said.who, said.why) == ("carla", "not stable in air")
    assert verbs(carla, path) == ["release"]
    assert last is not None and (last.what, last.person_id) == ("veto", carla.person_id)


def test_a_campaign_without_a_driver_is_handed_to_the_dispatcher(serve: Serve) -> None:
    server = serve()
    carla = server.person("carla", Role.CHEMIST)
    assert carla.post("/campaigns/gaps/state", {"verb": "resume"}).status_code == 303
    with server.ledger.read() as connection:
        assert campaigns.get(connection, "gaps").hosted
    assert carla.post("/campaigns/gaps/state", {"verb": "stop", "why": "enough"}).status_code == 303
    with server.ledger.read() as connection:
        assert not campaigns.get(connection, "gaps").hosted
    refused = carla.post("/campaigns/gaps/state", {"verb": "pause", "why": " "})
    assert refused.status_code == 400 and "The reason is empty" in refused.text and "What it cost" in refused.text


def test_a_promotion_without_a_slot_says_what_is_used_and_until_when(serve: Serve) -> None:
    server = serve(lab="{ahead: 1}", budget="{lab_slots: {amount: 1, per: week}}")
    carla, [first] = server.person("carla", Role.CHEMIST), task_ids(server.built)
    record_answers.enter(server.built, first, entry("4.31 eV"))
    key = re.findall(r"/campaigns/gaps/candidates/(\w{64})", carla.client.get("/campaigns/gaps/candidates").text)[-1]
    refused = carla.post(f"/campaigns/gaps/candidates/{key}", {"verb": "promote", "why": "our own idea"})
    assert refused.status_code == 400 and 'value="our own idea"' in refused.text
    text = html.unescape(refused.text)
    assert (
        "The budget is in the way: the measurement slots of the week are used (lab_slots: 1 of 1 in seven days; "
        in text
    )
    assert "promote it when some are free" in text and "sciagent amend" not in text and "core_seconds=N" not in text


def test_a_campaign_that_waits_for_people_is_paused_without_a_driver(serve: Serve) -> None:
    server = serve()
    carla = server.person("carla", Role.CHEMIST)
    carla.post("/campaigns/gaps/state", {"verb": "resume"})
    assert carla.post("/campaigns/gaps/state", {"verb": "pause", "why": "the HPLC is serviced"}).status_code == 303
    assert "Paused by carla: the HPLC is serviced." in shown(carla, "/campaigns/gaps")
    with server.ledger.read() as connection:
        row = campaigns.get(connection, "gaps")
        assert row.state is CampaignState.PAUSED and not row.hosted and not tasks.listed(connection)
    assert carla.post("/campaigns/gaps/state", {"verb": "pause", "why": "again"}).status_code == 400
    carla.post("/campaigns/gaps/state", {"verb": "resume"})
    assert drive(server.built) is CampaignState.WAITING and len(task_ids(server.built)) == 3


def test_campaigns_of_others_are_neither_listed_nor_shown(serve: Serve) -> None:
    server = serve()
    eve = server.person("eve", Role.CHEMIST, serve(name="others").built.row.id)
    assert "gaps" not in shown(eve, "/campaigns") and "gaps" not in shown(eve, "/tasks")
    assert eve.get("/campaigns/gaps").status_code == 404
    assert eve.get("/campaigns/nothing").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/tasks/x",
        "/tasks/99999999999999999999",
        "/tasks/-1",
        "/tasks/\u00b2",
        "/tasks/\u0662",
        "/campaigns?after=-1",
        "/campaigns?after=9999999999999999999999999",
        "/campaigns/gaps/candidates?after=x",
        "/campaigns/gaps/candidates?after=2147483648",
        "/campaigns/gaps/candidates?after=9999999999999999999999999",
    ],
)
def test_an_address_that_makes_no_sense_says_so(serve: Serve, path: str) -> None:
    reply = serve().person("anna").get(path)
    assert reply.status_code in (400, 404) and '<p role="alert">' in reply.text, "a page with a sentence"


def test_a_page_of_faults_needs_no_address_to_go_back_to(serve: Serve) -> None:
    server = serve()
    for browser in (server.person("anna"), server.nobody()):
        for referer in ("http://[", "http://[::1", "\u00b2"):
            reply = browser.get("/welcome/used", headers={"referer": referer.encode()})
            assert reply.status_code == 404 and 'href="/"' in reply.text
            reply = browser.get("/nowhere", headers={"referer": referer.encode()})
            assert reply.status_code == 404 and "Back to the start" in reply.text


def test_a_candidate_is_found_by_its_text(serve: Serve) -> None:
    viewer = serve().person("vera", Role.VIEWER)
    reply = viewer.client.get("/campaigns/gaps/candidates", params={"find": " Oc1ccccc1 "}, follow_redirects=False)
    key = reply.headers["location"].rpartition("/")[2]
    assert reply.status_code == 303 and len(key) == 64
    assert "Oc1ccccc1" in shown(viewer, reply.headers["location"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nothing", "No candidate of this campaign has this name, SMILES, InChIKey or key."),
        ("c1ccccc1C#N", "No candidate of this campaign has this name, SMILES, InChIKey or key."),
        ("CCCCO", "It is known, but is no candidate of this campaign."),
        ("LIB-7", "2 candidates have this name."),
    ],
)
def test_a_search_that_leads_to_no_page_says_so_without_commands(serve: Serve, text: str, words: str) -> None:
    server = serve()
    serve(name="other", smiles=("CCCCO",))
    with server.ledger.begin() as connection:
        members = candidates_in_order(connection, server.built.row, -1, 2)
        for member in members:
            row = {"candidate_id": member.id, "campaign_id": server.built.row.id, "row_hash": "0" * 16}
            connection.execute(sa.insert(t.candidate_name).values(**row, field="ID", text="LIB-7"))
    viewer = server.person("vera", Role.VIEWER)
    page = shown(viewer, f"/campaigns/gaps/candidates?find={quote(text)}")
    assert words in page and "sciagent add" not in page and "--" not in page
    assert page.count("LIB-7") == (2 if text == "LIB-7" else 0)


def test_evidence_of_another_campaign_names_the_campaign(serve: Serve) -> None:
    server = serve()
    serve(name="other", quantities="homo_lumo_gap, melting_point")
    task_id = task_ids(server.built)[0]
    record_answers.enter(server.built, task_id, entry("4.31 eV"))
    with server.ledger.read() as connection:
        task = tasks.find(connection, task_id)
    assert task is not None
    text = server.person("vera", Role.VIEWER).client.get(f"/campaigns/other/candidates/{task.key}").text
    assert '<th scope="row">gaps, another rung</th>' in text and '<th scope="row"></th>' not in text


def test_a_candidate_shows_what_a_law_predicts_beside_what_was_measured(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "l.db"))
    built = law_ledger.measured(ledger, tmp_path, "alcohols", law_ledger.PARTS[0])
    law_ledger.measured(ledger, tmp_path, "acids", law_ledger.PARTS[1])
    law_commands.fit(ledger, "qeds", ["acids"], who="me")
    viewer = Server(built, every_page(ledger)).person("vera", Role.VIEWER)
    shown(viewer, "/campaigns/alcohols/candidates/CCCCCO")  # a slow machine may still read the law
    with ledger.read() as connection:
        assert KEPT.of(connection, law_entries.find(connection, "qeds")) is not None
    text = shown(viewer, "/campaigns/alcohols/candidates/CCCCCO")
    assert "the newest of the ledger at this level, predicts" in text and text.count("What a law predicts") == 1
    assert text.count("not counted yet") == 1 and " alike" in text
    own = shown(viewer, "/campaigns/acids/candidates/CCCC(=O)O")
    assert "nothing: its own answer is among those to which the law was fitted" in own
