"""What `sciagent explain` says of each rung."""

from __future__ import annotations

from pathlib import Path

from tests.support.typed import told


def test_explain_tells_the_whole_story_of_a_hit(folder: Path) -> None:
    text = told("explain", "O", "--campaign", "small")
    for part in (
        "H2O",
        "In campaign small: a hit",
        "Proposed by the proposer screen in turn 0",
        "checks (molecule.checks",
        "xtb (xtb.singlepoint 1): pass",
        "gate 1 ≤ homo_lumo_gap ≤ 40 eV",
        "dft (pyscf.scf",
        "decides): pass",
        "at PBE/def2-SVP//GFN2-xTB//ETKDGv3x1:",
        "homo_lumo_gap = ",
        " ± ",
        " eV",
        "core-seconds",
        "chosen by thresholds",
    ):
        assert part in text, part
    assert "settings" not in text and "functional=PBE" in told("explain", "O", "-c", "small", "--full")


def test_explain_says_why_one_fell_why_one_waits_and_what_was_reused(folder: Path) -> None:
    assert "Dropped: checks said no: radical" in told("explain", "C[CH2]", "-c", "small")
    fell = told("explain", "C", "-c", "small")
    assert (
        "Settled: dft, which decides, has answered: above_window" in fell
        and "objective 1 ≤ homo_lumo_gap ≤ 9 eV" in fell
    )
    waits = told("explain", "CO", "-c", "small")
    assert "Open: it waits for dft" in waits and "2 of 2 places of dft are used" in waits
    again = told("explain", "O", "-c", "wide")
    assert "known before from campaign small" in again and "it cost this campaign nothing" in again.lower()
