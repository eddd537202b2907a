"""A task as its page shows it."""

from __future__ import annotations

import pytest

from sciagent.campaign.lab import answering, reviewing, sampling
from sciagent.errors import UsageError
from sciagent.web.lab.shown import read_task
from tests.campaign.lab import conftest as lab
from tests.campaign.lab.test_answering import entry, task_ids

make = lab.make


def test_a_page_has_what_is_known_and_what_was_answered(make: lab.Make) -> None:
    built = make(lab="{ahead: 3, review: true}")
    first = task_ids(built)[0]
    vial = sampling.register(built, first, "ben", "free base", "made")
    page = read_task(built.ledger, first)
    assert page.labels == {"homo_lumo_gap": "homo lumo gap"} and page.last == 0 and page.latest is None
    assert {each.rung for each in page.known} == {"molecule_safety", "checks"}, "not the rung that is asked"
    assert [each.code for each in page.vials] == [vial.code]
    answering.enter(built, first, entry("4.31 eV"))
    page = read_task(built.ledger, first)
    assert page.waiting is not None and page.waiting.who == "anna" and page.last == page.waiting.id
    reviewing.send_back(built, first, "ben", "which lamp?")
    page = read_task(built.ledger, first)
    assert page.waiting is None and page.latest is not None and page.latest.who == "anna" and page.last > page.latest.id


def test_there_is_no_page_without_a_task(make: lab.Make) -> None:
    with pytest.raises(UsageError, match="there is no task 999"):
        read_task(make().ledger, 999)
