"""What was thrown away, blocked or said by people, and why."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.states_and_needs import Standing
from sciagent.report.analysis.rejections_and_sessions import fruitless_proposals
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
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


def test_a_refused_crystal_is_shown_by_its_formula_and_space_group(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path, subject="crystal", script=False)
    crystals = subject_of("crystal")
    notation = crystals.notation(crystals.read("rocksalt: Na Cl"))
    with own_ledger.begin() as connection:
        refused = {"campaign_id": made.row.id, "status": "refused", "reason": "too_large", "at": db_now(connection)}
        connection.execute(sa.insert(t.proposal).values(**refused, text=notation))
        [shown] = fruitless_proposals(connection, made.row)
    assert notation.startswith("{") and shown.example == "NaCl Fm-3m"
