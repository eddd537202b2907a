"""Campaigns and candidates over HTTP are what the commands print as JSON."""

from __future__ import annotations

import json

import pytest

from sciagent.domain.answers.candidate_and_value_answers import plain
from sciagent.domain.people import Right, Role
from sciagent.lab import record_answers
from sciagent.report import status_best_trace
from sciagent.report.explain_candidate import explain_named
from sciagent.store.campaign_state import campaigns
from tests.lab.test_record_answers import entry, task_ids
from tests.support.served_pages import Serve


def as_json(answer: object) -> object:
    """The JSON of an answer as commands print it, with times as the HTTP API writes them."""
    return json.loads(json.dumps(plain(answer), default=lambda at: at.isoformat().replace("+00:00", "Z")))


@pytest.fixture
def api(serve: Serve):  # type: ignore[no-untyped-def]
    server = serve()
    for task in task_ids(server.built)[:2]:
        record_answers.enter(server.built, task, entry("4.31 eV"))
    server.person("script")
    client = server.token("script", Right.READ).client
    client.base_url = "http://testserver/api/v1"
    return server, client


def test_a_campaign_has_the_figures_of_the_status_command(api) -> None:  # type: ignore[no-untyped-def]
    server, client = api
    with server.ledger.read() as connection:
        status = status_best_trace.status(connection, campaigns.get(connection, "gaps"))
    assert client.get("/campaigns/gaps").json() == as_json(status)
    [listed] = client.get("/campaigns").json()["campaigns"]
    assert (listed["campaign"], listed["state"], listed["subject"]) == ("gaps", status.state, "molecule")
    assert client.get("/campaigns/none").status_code == 404


def test_candidates_come_page_by_page_and_each_is_explained(api) -> None:  # type: ignore[no-untyped-def]
    server, client = api
    keys = []
    path = "/campaigns/gaps/candidates?limit=3"
    while path:
        page = client.get(path.removeprefix("/api/v1")).json()
        keys += [candidate["key"] for candidate in page["candidates"]]
        path = page["next"]
    assert len(keys) == len(set(keys)) == 4
    first, second = (
        client.get(f"/campaigns/gaps/candidates?hits=true&limit=1&cursor={skip}").json() for skip in (0, 1)
    )
    assert first["next"] and second["next"] is None
    with server.ledger.read() as connection:
        best = status_best_trace.best(connection, campaigns.get(connection, "gaps"), 2)
    assert [*first["candidates"], *second["candidates"]] == as_json(best)
    explained = client.get(f"/campaigns/gaps/candidates/{best[0].key}").json()
    assert explained == as_json(explain_named(server.ledger, best[0].key, "gaps"))
    assert client.get(f"/campaigns/gaps/candidates/{best[0].key[:8]}").json()["key"] == best[0].key
    missing = client.get("/campaigns/gaps/candidates/ffffffffff")
    assert missing.status_code == 404 and "no candidate" in missing.json()["detail"]


def test_a_campaign_that_one_may_not_see_is_not_named(serve: Serve) -> None:
    """The tasks of the older campaign go first."""
    serve(name="older")
    server = serve()
    server.person("ben", campaign_id=server.built.row.id)
    server.person("vera", Role.VIEWER)
    tasks = {
        login: server.token(login, Right.READ).client.get("/api/v1/campaigns/gaps").json()["tasks"]
        for login in ("ben", "vera")
    }
    assert tasks["vera"]["elsewhere"] == {"older": 3} and not tasks["ben"].get("elsewhere")
