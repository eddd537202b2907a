"""What `sciagent explain` and `sciagent best` print of candidates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.campaigns import sciagent, write_campaign
from tests.support.typed import data, told

SLOW = {
    *("numpy", "scipy", "rdkit", "pyscf", "tblite", "ase", "matplotlib", "pint", "alembic"),
    *(
        "sciagent.api.campaign",
        "sciagent.campaign.core.built_campaign_and_derived_values",
        "sciagent.campaign.file.campaign_spec",
    ),
}
"""Modules that take long to import, and which a question about a campaign does not need."""


@pytest.mark.parametrize(("command", "needed"), [("status", set()), ("best", {"numpy"})])
def test_a_question_imports_nothing_slow(folder: Path, command: str, needed: set[str]) -> None:
    """`best` shows the errors that verifiers state, and their modules import NumPy."""
    words = [sys.executable, "-X", "importtime", "-m", "sciagent", command, "small"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "sciagent.report.status_best_trace" in imported and not imported & SLOW - needed


def test_explain_shows_values_from_files_and_so_does_best(folder: Path) -> None:
    line = "homo_lumo_gap = 9.1 ± 0.2 eV  [experiment]"
    assert f"{line}, from lab.csv by " in told("explain", "CO", "-c", "small")
    assert "measured homo_lumo_gap: experiment, from lab.csv" in told("best", "small")
    assert "measured [eV]\tmeasured uncertainty [eV]" in told("best", "small")
    [value] = next(r for r in data("best", "small") if r["smiles"] == "CO")["imported"]
    assert (value["value"], value["uncertainty"], value["unit"], value["level"]) == (9.1, 0.2, "eV", "experiment")
    assert "utility" in told("best", "small", width=80)


def test_the_json_of_explain_is_whole(folder: Path) -> None:
    found = data("explain", "O")
    assert [c["campaign"] for c in found["campaigns"]] == ["small", "wide"]
    small = found["campaigns"][0]
    assert {r["rung"]: r["verdict"] for r in small["rungs"]}["dft"] == "pass"
    dft = next(r for r in small["rungs"] if r["rung"] == "dft")
    assert dft["evidence"]["versions"]["pyscf"] and dft["settings"]["functional"] == "PBE"
    assert dft["decisions"][0]["action"] == "run" and dft["attempts"][0]["outcome"] == "ok"
    assert small["core_seconds"] == pytest.approx(sum(r["core_seconds"] for r in small["rungs"]), abs=2e-3)
    assert all({"value", "unit", "uncertainty", "level"} <= set(v) for v in dft["evidence"]["values"])


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
        "PBE/def2-SVP//GFN2-xTB//ETKDGv3x1",
        "homo_lumo_gap = ",
        " ± ",
        " eV",
        "core-seconds",
        "chosen by thresholds",
    ):
        assert part in text, part
    assert "functional=PBE" not in text and "functional=PBE" in told("explain", "O", "-c", "small", "--verbose")


@pytest.mark.parametrize("smiles", ["O", "C", "CO"])
def test_explain_fits_one_screen_unless_more_is_asked_for(folder: Path, smiles: str) -> None:
    brief = told("explain", smiles, "-c", "small", width=100).splitlines()
    verbose = told("explain", smiles, "-c", "small", "--verbose", width=100).splitlines()
    assert len(brief) <= 40 < len(verbose)


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


def test_status_says_how_to_go_on_and_after_an_amendment_only_to_resume(folder: Path) -> None:
    text = told("status", "small")
    command = "sciagent amend small --budget KEY=NUMBER --reason WHY"
    assert f"{command}), also --goal-count NUMBER if that is reached, then: sciagent resume small" in text
    assert data("status", "small")["amended"] is False
    told("amend", "small", "--budget", "rungs.dft=3", "-r", "one more")
    text = told("status", "small")
    assert "it was amended since it ended; go on with: sciagent resume small" in text and "raise" not in text
    assert data("status", "small")["amended"] is True


def test_status_asks_for_more_molecules_only_where_none_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_campaign(tmp_path, molecules=("C[CH2]",), scheduler="thresholds")
    sciagent("run", str(file), "--quiet", "--no-report", cwd=tmp_path, expect=None)
    monkeypatch.chdir(tmp_path)
    ended = told("status", "small")
    assert "nothing is left to do" in ended and data("status", "small")["waiting"] == 0
    assert "to go on, add molecules (sciagent add SMILES --campaign small --reason WHY), then: sciagent resume" in ended
    told("add", "CCO", "N", "--campaign", "small", "--reason", "to see")
    waits = told("status", "small")
    assert data("status", "small")["waiting"] == 2
    assert "2 candidates wait; go on with: sciagent resume small" in waits and "to go on, add" not in waits


def test_the_episode_of_a_script_is_stopped_with_its_campaign(folder: Path) -> None:
    [episode] = data("trace", "small")
    assert episode["state"] == "stopped" and episode["why"].startswith("its campaign ended: ")
    assert "0\tscreen\tstopped" in told("trace", "small")
