"""The commands of a chemist, as they are typed: on one small finished campaign, copied for whoever changes it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from sciagent.campaign.spec.load import load_spec
from sciagent.cli.main import app
from sciagent.errors import UsageError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import sciagent, write_campaign

MOLECULES = ("C", "O", "CO", "C[CH2]")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that has ended (methane and water at DFT), and of another one with a wider window."""
    folder = tmp_path_factory.mktemp("people")
    file = write_campaign(folder, molecules=MOLECULES, scheduler="thresholds", dft=2, window=(1.0, 9.0))
    sciagent("run", str(file), "--quiet", cwd=folder, expect=None)
    wide = write_campaign(
        folder / "wide", name="wide", molecules=("C", "O", "N"), scheduler="exhaustive", dft=2, window=(1.0, 40.0)
    )
    sciagent("run", str(wide), "--quiet", "--ledger", str(folder / "sciagent.db"), cwd=folder, expect=None)
    (folder / "lab.csv").write_text("smiles,gap\nCO,9.1\n")
    value = ["--value", "gap=homo_lumo_gap[eV]", "--method", "experiment", "--uncertainty", "gap=0.2"]
    sciagent("import", "lab.csv", *value, cwd=folder)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to change; it is the working directory."""
    target = tmp_path / "copy"
    shutil.copytree(finished, target)
    monkeypatch.chdir(target)
    return target


def call(*arguments: str, width: int = 200) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"})


def told(*arguments: str, width: int = 200) -> str:
    result = call(*arguments, width=width)
    assert result.exit_code == 0, result.output
    return result.output


def data(*arguments: str) -> Any:
    result = call(*arguments, "--json")
    assert result.exit_code in (0, 1), result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


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


def test_explain_shows_values_from_files_and_so_does_best(folder: Path) -> None:
    line = "homo_lumo_gap = 9.1 ± 0.2 eV  [experiment]"
    assert f"{line}, from lab.csv by " in told("explain", "CO", "-c", "small")
    assert f"CO: {line} from lab.csv" in told("best", "small")
    [value] = next(r for r in data("best", "small") if r["smiles"] == "CO")["imported"]
    assert (value["value"], value["uncertainty"], value["unit"], value["level"]) == (9.1, 0.2, "eV", "experiment")
    assert "utility" in told("best", "small", width=80)


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


def test_a_word_is_kept_with_its_reason_and_its_speaker(folder: Path) -> None:
    assert "held: CO" in told("hold", "CO", "-c", "small", "--reason", "wait for the NMR", "--who", "ann")
    assert "1 held" in told("status", "small")
    assert "ann: hold: wait for the NMR" in told("explain", "CO", "-c", "small")
    found = data("release", "CO", "-c", "small", "-r", "it came", "--who", "bob")
    assert (found["verb"], found["standing"], found["rung"]) == ("release", "open", "dft")
    assert "vetoed: O" in told("veto", "O", "-c", "small", "-r", "too wet")
    assert data("status", "small")["hits"] == 0
    assert "Taken out by " in told("explain", "O", "-c", "small")


def test_what_is_missing_or_wrong_is_said(folder: Path) -> None:
    assert call("hold", "CO", "-c", "small").exit_code == 2  # no reason
    assert "--reason is empty" in refused("hold", "CO", "-c", "small", "-r", " ")
    assert "sciagent add 'CCC' --campaign small" in refused("veto", "CCC", "-c", "small", "-r", "no")
    assert "raise it first: sciagent amend small" in refused("promote", "CO", "-c", "small", "-r", "now")
    assert "name a campaign" in refused("hold", "CO", "-r", "x")
    assert "there is nothing to pause" in refused("pause", "small")
    assert "there is nothing to stop" in refused("stop", "small")
    assert "say what to change" in refused("amend", "small")
    assert "the same campaign twice" in refused("compare", "small", "small")


def test_add_amend_promote_and_resume_go_together(folder: Path) -> None:
    result = call("add", "CCO", "bogus(", "--campaign", "small", "--reason", "our own")
    assert result.exit_code == 1
    assert "new " in result.stdout and "refused    bogus(: unparsable" in result.stdout
    assert "budget.rungs.dft: 2 -> 3" in told("amend", "small", "--budget", "rungs.dft=3", "--dry-run")
    assert data("status", "small")["budget"]["rungs"] == {"dft": 2}
    assert data("amend", "small", "--budget", "rungs.dft=3", "-r", "one more")["written"]
    assert "it is the next at dft" in told(
        "promote", "CCO", "-c", "small", "--to", "dft", "-r", "our own", "--who", "ann"
    )
    sciagent("resume", "small", "--quiet", cwd=folder, expect=None)
    text = told("explain", "CCO", "-c", "small")
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


def test_compare_puts_side_by_side_only_what_may_be_compared(folder: Path) -> None:
    found = data("compare", "small", "wide")
    assert found["overlap"]["both"] == 2 and found["overlap"]["hits_of_both"] == 1
    assert [s["hits"] for s in found["status"]] == [1, 3]
    assert found["values"][0]["comparable"] and found["values"][0]["measured"][0][0]["n"] == 2
    assert found["hits_against_cost"][-1]["hits"] == [1, 3]
    assert any(line.startswith("objectives[homo_lumo_gap].accept") for line in found["differences"])
    text = told("compare", "small", "wide")
    assert "the objectives differ" in text and "costs of the later campaign are too low" in text
    finer = (folder / "small.yaml").read_text().replace("campaign: small", "campaign: finer")
    (folder / "finer.yaml").write_text(finer.replace("grid: 0", "grid: 1").replace("dft: 2", "dft: 1"))
    sciagent("run", "finer.yaml", "--quiet", cwd=folder, expect=None)
    other = data("compare", "small", "finer")
    assert not other["values"][0]["comparable"]
    assert "these numbers are not to be compared" in told("compare", "small", "finer")
    dft = next(r for r in other["rungs"] if r["rungs"] == ["dft", "dft"])
    assert not dft["same_calculation"]


def test_gc_shows_first_and_removes_when_told(folder: Path) -> None:
    assert "nothing to clear up" in call("gc").output
    found = data("gc", "--keep-days", "0")
    assert found["deleted"] is False and found["removed"] == 0


def test_init_writes_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "quickstart" in told("init", "--list")
    made = data("init", "mine", "--name", "my-dyes")["files"]
    spec = load_spec(tmp_path / "mine" / "my-dyes.yaml")
    assert spec.campaign == "my-dyes" and (tmp_path / "mine" / "README.md").read_text().startswith("# my-dyes")
    assert all((tmp_path / name).is_file() for name in made)
    assert "exists already" in refused("init", "mine", "--name", "my-dyes")
    assert 'did you mean "quickstart"' in refused("init", "other", "--template", "quikstart")
    assert "1 to 64 of a-z" in refused("init", "other", "--name", "My Dyes")
    assert "name the folder" in refused("init") and not (tmp_path / "other").exists()


def test_every_template_becomes_a_campaign_that_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for one in data("init", "--list"):
        data("init", one["name"], "--template", one["name"])
        assert load_spec(tmp_path / one["name"] / f"{one['name']}.yaml").campaign


def test_verifiers_tell_what_they_measure_cost_and_take() -> None:
    found = {one["name"]: one for one in data("verifiers")}
    xtb = found["xtb.singlepoint"]
    assert {"homo_lumo_gap", "dipole"} <= {m["property"] for m in xtb["measures"]}
    assert xtb["priors"][0]["source"] and xtb["cost"][0]["core_seconds"] > 0
    settings = {s["name"]: s for s in xtb["settings"]}
    assert settings["max_atoms"]["default"] == 200 and settings["geometry.conformers"]["default"] == 10
    assert not any(one["error"] for one in found.values() if one["package"].startswith("sciagent "))
    text = told("verifiers", "pyscf.scf")
    assert "functional: " in text and "default PBE0" in text and "Costs, as declared" in text
    assert 'did you mean "pyscf.scf"' in refused("verifiers", "pyscf.scv")


def test_a_verifier_that_does_not_load_is_shown_and_hides_no_other(misbehaving: Path) -> None:
    result = call("verifiers", "--json")
    found = {one["name"]: one for one in json.loads(result.stdout)}
    broken = [one for one in found.values() if one["error"]]
    assert broken and result.exit_code == 0 and found["xtb.singlepoint"]["error"] is None
    assert call("verifiers", broken[0]["name"]).exit_code == 1
