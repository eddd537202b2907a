"""Blind means blind, on every page: the answers of others occur nowhere, for whoever may still measure.

The routes come from the application, so that a new one is asked at once.
"""

from __future__ import annotations

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pytest

from sciagent.domain.people import Actor, Role
from sciagent.errors import TaskStateError
from sciagent.lab import claims_costs_and_vials, record_answers
from sciagent.store.lab import blind_measurements, submissions, tasks
from sciagent.store.lab.tasks import LabTask
from sciagent.web.route_rules_and_request_guards import rules_of
from tests.lab.test_record_answers import entry, task_ids
from tests.support.served_pages import Browser, Serve, Server, every_page

CONTENT = b"300 nm 0.17"
HIDDEN = ("4.317", "lamp-of-hers", "zelda", "Zelda", "yorick", "Yorick", "trace-17.txt")
"""The value, the comment, the people and the file of the others."""
QUERIES = {
    "/tasks": ("", "?find={code}", "?find={text}", "?group=others", "?group=review", "?group=not_yours&sort=price"),
    "/campaigns/{campaign}": ("", "?by=time", "?by=lab_slots"),
    "/campaigns/{campaign}/candidates": ("", "?hits=1", "?find={text}", "?find={key}"),
    "/api/v1/campaigns/{campaign}/candidates": ("", "?hits=true"),
    "/api/v1/tasks": tuple(
        f"?state={state}" for state in ("waiting", "queued", "claimed", "part_answered", "in_review", "answered")
    ),
    "/scan": ("", "?code={code}"),
    "/labels": ("", "?codes={code}"),
    "/sheet/saved": ("", "?tasks=1-20&failed=1-20"),
}
"""{path: queries with which it is asked, too}."""


@dataclass
class BlindCampaign:
    """A campaign in which one molecule was measured by Zelda, is with Yorick, and waits for a third person."""

    server: Server
    three: list[LabTask]
    """The tasks of the molecule, in the order of their replicates."""
    code: str
    """Code of its vial."""


@pytest.fixture
def blind(serve: Serve) -> BlindCampaign:
    server = serve(lab="{ahead: 9, replicates: 3, decide_after: 1, blind: true}", budget="{lab_slots: 20}")
    with server.ledger.read() as connection:
        first = tasks.listed(connection)[0]
        three = sorted(tasks.of_candidate(connection, first.candidate_id), key=lambda task: task.replicate)
    vial = claims_costs_and_vials.register(server.built, three[0].id, "ben", "free base", "made")
    zelda = server.person("zelda")
    said = {"value.homo_lumo_gap": "4.317", "unit.homo_lumo_gap": "eV", "comment": "lamp-of-hers", "seen": "0"}
    file = {"files": ("trace-17.txt", CONTENT, "text/plain")}
    assert zelda.post(f"/tasks/{three[0].id}/enter", said | {"key": "k" * 8}, files=file).status_code == 303
    claims_costs_and_vials.claim(server.built, three[1].id, "yorick")
    # another campaign takes the value up, and is not blind
    serve(name="reuses", lab="{ahead: 9}", budget="{lab_slots: 20}")
    return BlindCampaign(server, three, vial.code)


def addresses(blind: BlindCampaign) -> Iterator[str]:
    """Every address that can be asked for by GET, with each name that the molecule's tasks and values have."""
    with blind.server.ledger.read() as connection:
        given = submissions.of_job(connection, blind.three[0].id)
    first = blind.three[0]
    fixed = {
        "key": first.key, "text": first.text, "code": blind.code, "submission": str(given[0].id), "number": "0",
        "sha256": hashlib.sha256(CONTENT).hexdigest(), "secret": "none",
    }  # fmt: skip
    for method, path in sorted(rules_of(every_page(blind.server.ledger))):
        if method != "GET" or path == "/live":  # a stream of ticks without an end
            continue
        for query, campaign, task in product(QUERIES.get(path, ("",)), ("gaps", "reuses"), blind.three):
            yield (path + query).format_map(fixed | {"campaign": campaign, "task": str(task.id)})


def disclosures(blind: BlindCampaign, browser: Browser) -> dict[str, list[str]]:
    """{address: what of `HIDDEN` its answer says}."""
    found = {}
    n_pages = 0
    for address in sorted(set(addresses(blind))):
        for accepts in ("text/html", "application/json"):
            reply = browser.client.get(address, headers={"accept": accepts})
            assert reply.status_code < 500, (address, reply.text[-300:])
            n_pages += reply.status_code == 200
            text = html.unescape(reply.text) + str(reply.headers)
            said = [each for each in (*HIDDEN, CONTENT.decode()) if each in text]
            if said:
                found[address] = said
    assert n_pages > 60
    return found


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)  # every page twice takes half a minute
def test_whoever_may_still_measure_sees_nothing_of_the_others_on_any_page(blind: BlindCampaign) -> None:
    ben = blind.server.person("ben")
    assert disclosures(blind, ben) == {}
    for campaign in ("gaps", "reuses"):
        answer = ben.get(f"/api/v1/campaigns/{campaign}/candidates/{blind.three[0].key}").json()
        [story] = [story for story in answer["campaigns"] if story["campaign"] == campaign]
        rung = story["rungs"][-1]
        told = (rung["outcome"], rung["verdict"], rung["evidence"], rung["job"], rung["reused"], rung["decisions"])
        assert told[:5] == (None, None, None, "queued", False), "nor whether there was a value"
        assert all(decision["action"] != "reuse" for decision in rung["decisions"])
    claims_costs_and_vials.claim(blind.server.built, blind.three[2].id, "ben")
    assert disclosures(blind, ben) == {}, "nor while it is on the bench"
    record_answers.enter(blind.server.built, blind.three[2].id, entry("4.5 eV", who="ben"))
    assert disclosures(blind, ben) == {}, "nor afterwards, since an answer can be corrected"
    own = ben.client.get(f"/campaigns/gaps/candidates/{blind.three[0].key}").text
    assert "4.5 eV" in own and ">hit<" not in own
    record_answers.enter(blind.server.built, blind.three[1].id, entry("4.5 eV", who="yorick"))
    assert "4.317" in ben.client.get(f"/campaigns/gaps/candidates/{blind.three[0].key}").text, "all are made"


def test_the_best_utility_from_which_the_value_follows_is_hidden_while_any_is_to_be_made(blind: BlindCampaign) -> None:
    ben = blind.server.person("ben")
    vera = blind.server.person("vera", Role.VIEWER)

    def utilities(person: Browser, campaign: str) -> list[float | None]:
        answer = person.get(f"/api/v1/campaigns/{campaign}").json()
        return [proposer["utility"] for proposer in answer["proposers"]]

    for campaign in ("gaps", "reuses"):
        assert any(utilities(vera, campaign))
        assert not any(utilities(ben, campaign))
        for person, n_hits in ((vera, 1), (ben, 0)):
            answer = person.get(f"/api/v1/campaigns/{campaign}").json()
            counted = (answer["hits"], answer["rungs"][-1]["passed"], answer["hits_by_tier"]["world"])
            assert counted == (n_hits, n_hits, n_hits), "a hit tells on which side of the limits the value lies"
            page = person.client.get(f"/campaigns/{campaign}").text
            assert ("?by=time" in page) is bool(n_hits), "a hit gives the axis of time"
            gallery = page.partition(">The best</h2>")[2].partition("All candidates")[0]
            assert (blind.three[0].key in gallery) is bool(n_hits), "the order of the best tells that of the values"
            assert f'id="hits">{n_hits}<' in page and (">Hits against" in page or not n_hits)
    carla = blind.server.person("carla", Role.CHEMIST)
    assert any(utilities(carla, "gaps")), "she measures nothing"
    reasons = [{task["why"] for task in each.get("/api/v1/tasks").json()["tasks"]} for each in (ben, carla)]
    assert reasons[0] == {"chosen by the scheduler"} != reasons[1], "a chance of another molecule tells the value"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.CHEMIST])
def test_whoever_measures_nothing_sees_all(blind: BlindCampaign, role: Role) -> None:
    found = disclosures(blind, blind.server.person("carla", role))
    said = {each for texts in found.values() for each in texts}
    signs = {"Zelda"} if role is Role.CHEMIST else set()  # whoever signs reads who measured; other pages have logins
    assert said == {*HIDDEN, CONTENT.decode()} - {"Yorick", "Zelda"} | signs
    first = blind.three[0]
    for address in (
        f"/tasks/{first.id}",
        f"/campaigns/gaps/candidates/{first.key}",
        f"/campaigns/reuses/candidates/{first.key}",
        "/api/v1/campaigns/gaps/candidates",
    ):
        assert "4.317" in found[address], address


def test_a_chemist_who_may_have_seen_an_answer_measures_none_of_the_others(blind: BlindCampaign) -> None:
    server = blind.server
    carla = server.person("carla", Role.CHEMIST)
    third = blind.three[2].id
    assert "a chemist of the campaign sees" in carla.client.get(f"/tasks/{third}").text
    with pytest.raises(TaskStateError, match="for another person: a chemist of the campaign sees"):
        claims_costs_and_vials.claim(server.built, third, Actor("carla", carla.person_id))
    with server.ledger.read() as connection:
        of_campaign = tasks.listed(connection, campaign_id=server.built.row.id)
    mine, sibling, *_ = [task for task in of_campaign if task.candidate_id != blind.three[0].candidate_id]
    assert mine.candidate_id == sibling.candidate_id
    claims_costs_and_vials.claim(server.built, mine.id, Actor("carla", carla.person_id))
    record_answers.enter(server.built, sibling.id, entry("4.4444 eV", who="ben"))
    for address in (f"/tasks/{sibling.id}", f"/campaigns/gaps/candidates/{sibling.key}"):
        assert "4.4444" not in carla.client.get(address).text, "one who has a part in it is blind, too"


def test_nobody_completes_or_corrects_the_blind_answer_of_another(blind: BlindCampaign) -> None:
    server = blind.server
    first = blind.three[0].id
    for person in ("ben", Actor("carla", server.person("carla", Role.CHEMIST).person_id)):
        with pytest.raises(TaskStateError, match="another person has answered it, who alone completes or corrects it"):
            record_answers.enter(server.built, first, entry("4.9 eV", who=person, why="I know better"))
    ben = server.person("ben")
    seen = {"seen": "1", "decision": "accept", "meaning": "measured", "password": "x", "why": "no"}
    for act in ("review", "sign"):
        reply = ben.post(f"/tasks/{first}/{act}", seen)
        assert reply.status_code == 403 and "see no answer of the others" in reply.text
    page = server.person("carla", Role.CHEMIST).client.get(f"/tasks/{first}").text
    assert "4.317" in page and "Correct the answer" not in page
    own = entry("4.32 eV", who="zelda", why="a digit")
    assert record_answers.enter(server.built, first, own).revision == 1


def test_the_same_measurement_is_blind_in_a_campaign_that_does_not_say_so(serve: Serve) -> None:
    """The tasks of the older campaign go first, and their answers are those of the blind one."""
    lab = "{{ahead: 9, replicates: 3{}}}"
    server = serve(name="open", lab=lab.format(""), budget="{lab_slots: 20}", smiles=("Oc1ccccc1",))
    blindly = serve(name="blindly", lab=lab.format(", blind: true"), budget="{lab_slots: 20}", smiles=("Oc1ccccc1",))
    first, second, third = task_ids(server.built)
    anna, ben = server.person("anna"), server.person("ben")
    assert '"blind":true' in anna.get("/api/v1/tasks?limit=1").text
    record_answers.enter(server.built, first, entry("4.31 eV", who="anna"))
    for task in (second, third, *task_ids(blindly.built)):
        with pytest.raises(TaskStateError, match="for another person: you have measured this molecule already"):
            claims_costs_and_vials.claim(server.built if task in (second, third) else blindly.built, task, "anna")
    assert "for another person" in html.unescape(anna.client.get(f"/tasks/{second}").text)
    with pytest.raises(TaskStateError, match="another person has answered it, who alone completes or corrects it"):
        record_answers.enter(server.built, first, entry("4.9 eV", who="ben", why="I know better"))
    for address in (f"/tasks/{first}", "/campaigns/open", "/campaigns/blindly", f"/tasks/{second}"):
        shown = ben.client.get(address).text
        assert not re.search(r"(?<![\d.])4\.31(?!\d)", shown), f"{address}: not even as a tick of a plot"
        assert "anna" not in shown, address
    listed = [task["task"] for task in ben.get("/api/v1/tasks").json()["tasks"]]
    assert listed == [second, third] and anna.get("/api/v1/tasks").json()["tasks"] == []


def test_a_ledger_without_blind_rungs_hides_nothing(serve: Serve) -> None:
    server = serve()
    ben = server.person("ben")
    with server.ledger.read() as connection:
        first = tasks.listed(connection)[0]
        viewer = blind_measurements.Viewer("ben", server_rights(ben))
        assert blind_measurements.unseen_answers(connection, viewer, [first.candidate_id]).by_candidate == {}
        assert blind_measurements.blind_methods(connection) == []


def server_rights(browser: Browser) -> blind_measurements.Rights:
    assert browser.person_id
    return blind_measurements.Rights(roles={None: Role.LAB})
