"""Forms beside the measurement that are refused, such as that of a vial: what was typed stays, with the fault there."""

from __future__ import annotations

import html
import re

import pytest

from sciagent.store.database import tables as t
from tests.lab.pages.test_task_pages import answered, count, last_answer
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import Serve

JSON = {"accept": "application/json"}


def field(page: str, id_: str) -> str:
    """The tag of a field."""
    [tag] = re.findall(rf'<(?:input|select) id="{id_}"[^>]*>', page)
    return html.unescape(tag)


def test_a_vial_is_refused_on_its_page_with_what_was_typed(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    typed = {"form": 'HCl, "1" H2O', "source": "bought", "lot": "AB-12", "purity": "150", "place": "fridge"}
    refused = anna.post(f"/tasks/{first}/sample", typed)
    assert refused.status_code == 400 and "The purity 150 % is not between 0 and 100 %" in refused.text
    for name in ("form", "lot", "purity", "place"):
        assert f'value="{typed[name]}"' in field(refused.text, name)
    assert "<option selected>bought</option>" in refused.text
    marked = re.findall(r'id="(\w+)"[^>]*aria-invalid="true"[^>]*autofocus', refused.text)
    assert marked == ["purity"] and refused.text.count("autofocus") == 1
    script = anna.post(f"/tasks/{first}/sample", typed, headers=JSON)
    assert script.status_code == 400 and script.json()["field"] == "purity"
    assert count(server, t.sample) == 0
    taken = anna.post(f"/tasks/{first}/sample", typed | {"purity": "98,5"}, headers=JSON)
    assert taken.json()["next"].startswith("/labels?codes=")
    with server.ledger.read() as connection:
        [vial] = connection.execute(t.sample.select()).all()
    assert (vial.purity, vial.form) == (pytest.approx(0.985), 'HCl, "1" H2O')


@pytest.mark.parametrize("headers", [{}, JSON])
def test_a_reason_that_is_missing_is_marked(serve: Serve, headers: dict[str, str]) -> None:
    server = serve(lab="{ahead: 3, review: true}")
    anna, ben, [first, second, _] = server.person("anna"), server.person("ben"), task_ids(server.built)
    anna.post(f"/tasks/{first}/enter", answered("4.31"))
    anna.post(f"/tasks/{second}/claim")
    seen = str(last_answer(server, first))
    for browser, path, form, id_ in (
        (ben, f"/tasks/{first}/review", {"decision": "back", "seen": seen}, "back-why"),
        (anna, f"/tasks/{second}/release", {}, "release-why"),
    ):
        refused = browser.post(path, form | {"why": " "}, headers=headers)
        assert refused.status_code == 400
        if headers:
            assert refused.json()["field"] == "why" and refused.json()["detail"].startswith("The reason is empty")
        else:
            assert "aria-invalid" in field(refused.text, id_) and "The reason is empty" in refused.text
        assert browser.post(path, form | {"why": "the vial broke"}, headers=headers).status_code in (200, 303)


def test_a_form_that_is_gone_leaves_its_fault_on_the_page(serve: Serve) -> None:
    server = serve()
    anna, first = server.person("anna"), task_ids(server.built)[0]
    refused = anna.post(f"/tasks/{first}/release", {"why": "the vial broke"})
    assert refused.status_code == 400 and f"Task {first} is not claimed by anna" in refused.text
