"""Where a number of the report comes from."""

from __future__ import annotations

import re
from pathlib import Path

from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker


def test_lineage_and_provenance_stand_with_the_number(parsed: Parsed) -> None:
    assert "add atom of CCO , by evolve, turn 3" in parsed.text
    assert "conjugation lowers the gap" in parsed.text
    assert re.search(
        r"Evidence \d+ \([0-9a-f]{12}\), revision 0, replicate 0; \d{4}-\d\d-\d\d .* engine 1\.2", parsed.text
    )


def test_amendments_and_decisions_of_people_are_listed(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("CCO",))
    with made.ledger.begin() as connection:
        said = {"campaign_id": made.row.id, "who": "ada", "at": db_now(connection)}
        old, new = {"rungs": {"r2": 10}, "proposals": 9}, {"rungs": {"r2": 20}, "proposals": 9}
        change = {"path": "budget", "old": old, "new": new, "why": "two more hits wanted"}
        connection.execute(t.campaign_amendment.insert().values(said | change))
        promoted = {"candidate_id": made.ids[0], "verb": "promote", "payload": {"rung": "r2"}, "why": "worth a look"}
        connection.execute(t.directive.insert().values(said | promoted))
    text = Parsed(rendered(made)).text
    assert "ada budget.rungs.r2: 10 → 20 two more hits wanted" in text
    assert "ada promote CCO to r2 worth a look" in text
