"""Where a number of the report comes from."""

from __future__ import annotations

import re

from tests.support.pages import Parsed


def test_lineage_and_provenance_stand_with_the_number(parsed: Parsed) -> None:
    assert "add atom of CCO , by evolve, turn 3" in parsed.text
    assert "conjugation lowers the gap" in parsed.text
    assert re.search(
        r"Evidence \d+ \([0-9a-f]{12}\), revision 0, replicate 0; \d{4}-\d\d-\d\d .* engine 1\.2", parsed.text
    )
