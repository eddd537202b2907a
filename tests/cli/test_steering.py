"""The commands of a chemist, as they are typed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import sciagent
from tests.support.typed import call, data, refused, told


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "words", [("explain", "O"), ("status", "small"), ("best", "small"), ("compare", "small", "wide"), ("verifiers",)]
)
def test_nothing_is_cut_off_or_runs_over_the_edge(folder: Path, width: int, words: tuple[str, ...]) -> None:
    text = told(*words, width=width)
    assert "…" not in text
    assert (
        max(len(line.rstrip()) for line in text.splitlines() if not re.search("sciagent resume|does not load", line))
        <= width
    )


def test_the_distance_from_limits_is_told_of_the_rung_that_decides_alone(folder: Path) -> None:
    listed = {one["text"]: one["margins"] for one in data("best", "small")}
    assert [margin["rung"] for margin in listed["C"]] == ["dft"]
    assert listed["CO"] == [], "GFN2-xTB's gap is on another scale"


def test_a_word_is_kept_with_its_reason_and_its_speaker(folder: Path) -> None:
    assert "held: CO" in told("hold", "CO", "-c", "small", "--reason", "wait for the NMR", "--who", "ann")
    assert "1 held" in told("status", "small")
    assert "ann: hold: wait for the NMR" in told("explain", "CO", "-c", "small")
    found = data("hold", "CO", "--undo", "-c", "small", "-r", "it came", "--who", "bob")
    assert (found["verb"], found["standing"], found["rung"]) == ("release", "open", "dft")
    assert "vetoed: O" in told("veto", "O", "-c", "small", "-r", "too wet")
    assert data("status", "small")["hits"] == 0
    assert "Taken out by " in told("explain", "O", "-c", "small")


def test_what_is_missing_or_wrong_is_said(folder: Path) -> None:
    assert call("hold", "CO", "-c", "small").exit_code == 2  # no reason
    assert "the reason is empty" in refused("hold", "CO", "-c", "small", "-r", " ")
    assert "sciagent add 'CCC' --campaign small" in refused("veto", "CCC", "-c", "small", "-r", "no")
    assert "raise it first: sciagent amend small" in refused("promote", "CO", "-c", "small", "-r", "now")
    assert "name a campaign" in refused("hold", "CO", "-r", "x")
    assert "there is nothing to pause" in refused("pause", "small")
    assert "there is nothing to stop" in refused("stop", "small")
    assert "say what to change" in refused("amend", "small")
    assert "the same campaign twice" in refused("compare", "small", "small")


def test_add_amend_promote_and_resume_go_together(folder: Path) -> None:
    result = call("add", "CF", "bogus(", "--campaign", "small", "--reason", "our own")
    assert result.exit_code == 1
    assert "new " in result.stdout and "refused    bogus(: unparsable" in result.stdout
    assert "budget.rungs.dft: 2 -> 3" in told("amend", "small", "--budget", "rungs.dft=3", "--dry-run")
    assert data("status", "small")["budget"]["rungs"] == {"dft": 2}
    assert data("amend", "small", "--budget", "rungs.dft=3", "-r", "one more")["written"]
    assert "it is the next at dft" in told(
        "promote", "CF", "-c", "small", "--to", "dft", "-r", "our own", "--who", "ann"
    )
    sciagent("resume", "small", "--quiet", "--no-report", cwd=folder, expect=None)
    text = told("explain", "CF", "-c", "small")
    assert (
        "promoted by ann: our own" in text and "dft (pyscf.scf" in text and "xtb (xtb.singlepoint 1): not run" in text
    )
    assert "Proposed by " in text and "“our own”" in text
    assert data("status", "small")["rungs"][-1]["jobs"] == 3


def test_status_says_when_a_driver_is_dead(folder: Path) -> None:
    ledger = Ledger(str(folder / "sciagent.db"))
    with ledger.begin() as connection:
        row = campaigns.get(connection, "small")
        values = {"state": "running", "driver": campaigns.new_owner().replace(":", ":9999", 1)}
        lease = sa.func.datetime("now", "+1 minute")
        connection.execute(sa.update(t.campaign).where(t.campaign.c.id == row.id).values(**values, driver_until=lease))
    ledger.close()
    text = told("status", "small")
    assert "died: nothing is running" in text and "sciagent resume small" in text
    assert data("status", "small")["driver"]["alive"] is False
    assert "its driver on" in refused("pause", "small")
