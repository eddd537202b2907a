"""What was thrown away, blocked or said by people, and why."""

from __future__ import annotations

from pathlib import Path

from sciagent.domain.states_and_needs import Standing
from sciagent.store.database.ledger import Ledger
from tests.support.pages import Parsed, rendered
from tests.support.reported import Maker


def test_losses_reuse_imports_blocks_and_words_of_people_are_told(parsed: Parsed) -> None:
    for needed in (
        "HOMO-LUMO gap above window 2",
        "scf not converged",
        "wall limit",
        "kills workers",
        "unparsable",
        "C1CC",
        "explosive",
        "this campaign, earlier",
        "4.40 ± 0.10 eV",
        "lab.csv",
        "ask Grace first",
        "hold Oc1ccccc1",
    ):
        assert needed in parsed.text, needed


def test_a_campaign_of_failures_only(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("C", "CC"))
    for i in range(2):
        made.place(i, Standing.DROPPED, 0, verdict="fail", reason="too_small", detail="1 heavy atom")
    text = Parsed(rendered(made)).text
    assert "2 at r0: too small." in text and "Nothing has been measured at a paid rung yet." in text
