"""A real campaign end to end, in small: GFN2 and PBE on molecules of two heavy atoms."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from rdkit import Chem

from tests.support.campaigns import SMALL, environment, sciagent, write_campaign

STATUS = {"campaign", "state", "spent", "budget", "proposals", "candidates", "hits", "hits_by_tier", "reused", "rungs"}
RUNG = {"rung", "tier", "done", "passed", "failed", "inconclusive", "errors", "core_seconds"}
BEST = {"key", "smiles", "utility", "p_hit", "verified", "in_seeds", "values"}
MOLECULES = ("C=C", "C=O", "C#C", "C", "C.C", "nonsense", "C[CH2]", "C=C", "[U]")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("campaign")
    file = write_campaign(folder, molecules=MOLECULES, dft=3)
    sciagent("run", str(file), "--quiet", cwd=folder)
    return folder


def test_status_tells_what_scripts_rely_on(finished: Path) -> None:
    status = sciagent("status", "small", "--json", cwd=finished)
    assert set(status) >= STATUS
    assert all(set(r) >= RUNG for r in status["rungs"])
    assert status["proposals"] == len(MOLECULES)
    assert status["candidates"] == 6  # not the salt, not the nonsense, not the duplicate
    safety, checks, xtb, dft = status["rungs"]
    assert (safety["done"], safety["passed"]) == (6, 6)
    assert (checks["done"], checks["passed"], checks["failed"]) == (6, 4, 2)  # a radical and uranium are refused
    assert (xtb["done"], xtb["passed"]) == (4, 4)
    assert dft["done"] == 3
    assert status["state"] == "budget_spent"
    by_rungs = sum(rung["core_seconds"] for rung in status["rungs"])
    assert by_rungs < status["spent"]["core_seconds"] < by_rungs + 1, "the script that proposes is booked, too"
    assert status["hits"] == status["hits_by_tier"]["high_fidelity"] >= 1


def test_best_gives_values_with_unit_level_and_uncertainty(finished: Path) -> None:
    best = sciagent("best", "small", "-n", "2", "--json", cwd=finished)
    assert len(best) == 2 and set(best[0]) >= BEST
    gap = best[0]["values"]["homo_lumo_gap"]
    assert gap["unit"] == "eV" and gap["rung"] == "dft" and gap["uncertainty"] > 0
    assert gap["level"].startswith("PBE/def2-SVP") and "GFN2" in gap["level"]
    assert best[0]["verified"] and best[0]["p_hit"] in (0.0, 1.0)


def test_the_report_says_what_the_gap_is_and_why_others_fell(finished: Path) -> None:
    text = (finished / "small.report.html").read_text()
    for needed in (
        "orbital gap, not optical",
        "multiple fragments",
        "unparsable",
        "radical",
        "element",
        "pyscf",
        "tblite",
    ):
        assert needed in text


def test_export_has_every_candidate_and_value(finished: Path) -> None:
    sciagent("export", "small", "-o", "all.csv", cwd=finished)
    sciagent("export", "small", "-o", "all.jsonl", cwd=finished)
    lines = (finished / "all.csv").read_text().splitlines()
    assert len(lines) == 1 + 6 and "dft.homo_lumo_gap [eV]" in lines[0]
    rows = [json.loads(line) for line in (finished / "all.jsonl").read_text().splitlines()]
    assert sum("dft" in r["values"] for r in rows) == 3


def test_an_sd_file_has_the_geometries_of_the_engines(finished: Path) -> None:
    sciagent("export", "small", "-o", "all.sdf", cwd=finished)
    mols = list(Chem.SDMolSupplier(str(finished / "all.sdf"), removeHs=False))
    solid = [m for m in mols if m.GetConformer().Is3D()]
    assert len(mols) == 6
    assert len(solid) == sum(m.HasProp("xtb.homo_lumo_gap [eV]") for m in mols) >= 3
    ethylene = next(m for m in solid if Chem.MolToSmiles(Chem.RemoveHs(m)) == "C=C")
    carbons = [ethylene.GetConformer().GetAtomPosition(i) for i in range(2)]
    assert carbons[0].Distance(carbons[1]) == pytest.approx(1.33, abs=0.03)  # experiment: 1.339 angstrom
    assert float(ethylene.GetProp("dft.homo_lumo_gap [eV]")) == pytest.approx(6.0, abs=0.3)


def test_running_the_same_file_again_computes_nothing(finished: Path) -> None:
    before = sciagent("status", "small", "--json", cwd=finished)
    sciagent("run", "small.yaml", "--quiet", "--no-report", cwd=finished)
    after = sciagent("status", "small", "--json", cwd=finished)
    assert after["spent"]["core_seconds"] == before["spent"]["core_seconds"]
    assert after["proposals"] == before["proposals"]


def test_another_window_pays_nothing_for_what_is_known_and_says_so(finished: Path) -> None:
    file = write_campaign(finished / "second", name="second", molecules=MOLECULES, dft=3, window=(5.0, 40.0))
    db = ["--ledger", str(finished / "sciagent.db")]
    done = sciagent("run", str(file), "--no-report", *db, cwd=finished)
    status = sciagent("status", "second", *db, "--json", cwd=finished)
    assert status["reused"] == 6 + 6 + 4 + 3  # safety, checks, GFN2, PBE
    paid = {r["rung"]: r["core_seconds"] for r in status["rungs"]}
    assert paid["checks"] == paid["xtb"] == 0
    assert "reused at no cost" in done.stderr


def test_a_changed_objective_is_refused_with_a_diff_and_a_budget_is_amended(finished: Path) -> None:
    folder = finished / "third"
    db = ["--ledger", str(finished / "sciagent.db"), "--quiet"]
    file = write_campaign(folder, name="third", molecules=("C",), dft=0)
    sciagent("run", str(file), "--no-report", *db, cwd=finished, expect=3)
    text = file.read_text()
    file.write_text(text.replace("window: [3.0, 9.0]", "window: [3.0, 8.0]"))
    refused = sciagent("run", str(file), "--no-report", *db, cwd=finished, expect=2)
    assert "homo_lumo_gap" in refused.stderr and "new name" in refused.stderr
    file.write_text(text.replace("dft: 0", "dft: 1"))
    amended = sciagent("run", str(file), "--no-report", *db, cwd=finished, expect=None)
    assert "amended: budget.rungs.dft: 0 -> 1" in amended.stderr
    assert sciagent("status", "third", *db[:2], "--json", cwd=finished)["rungs"][-1]["done"] == 1


@pytest.mark.parametrize(
    ("smiles", "exit_code", "verdict", "reason"),
    [("C=C", 0, "pass", None), ("C", 1, "fail", "above_window"), ("C.C", 1, "fail", "multiple_fragments")],
)
def test_verify_says_pass_or_fail(
    finished: Path, smiles: str, exit_code: int, verdict: str, reason: str | None
) -> None:
    found = sciagent("verify", smiles, "--campaign", "small.yaml", "--json", cwd=finished, expect=exit_code)
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    assert set(found) >= {"key", "smiles", "verdict", "reason", "rungs"}


def test_verify_that_cannot_decide_exits_with_4(finished: Path) -> None:
    text = (finished / "small.yaml").read_text() + "\n"
    text = text.replace("  - rung: dft\n", "  - rung: dft\n    limits: {wall_seconds: 0.05}\n").replace(
        "grid: 0", "grid: 2"
    )
    (finished / "hard.yaml").write_text(text.replace("campaign: small", "campaign: hard"))
    found = sciagent("verify", "C=O", "--campaign", "hard.yaml", "--json", cwd=finished, expect=4)
    assert (found["verdict"], found["reason"]) == ("inconclusive", "wall_limit")


def test_a_setting_with_another_value_does_not_reuse_old_evidence(finished: Path) -> None:
    text = (finished / "small.yaml").read_text().replace("grid: 0", "grid: 1")
    (finished / "finer.yaml").write_text(text)
    found = sciagent("verify", "C=C", "--campaign", "finer.yaml", "--json", cwd=finished, expect=0)
    assert [r["reused"] for r in found["rungs"]] == [True, True, True, False]


def wait_until_it_runs(folder: Path) -> None:
    """Until the driver has the campaign, and not longer: small campaigns are soon over."""
    path, deadline = folder / "sciagent.db", time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            if db.execute("SELECT state FROM campaign").fetchall() == [("running",)]:
                return
        time.sleep(0.1)
    raise AssertionError("the campaign did not start within a minute")


@pytest.mark.parametrize("presses", [1, pytest.param(2, marks=pytest.mark.long)])
def test_ctrl_c_ends_cleanly_and_resume_goes_on(tmp_path: Path, presses: int) -> None:
    file = write_campaign(tmp_path, molecules=SMALL[:10], dft=2, workers=2)
    process = subprocess.Popen(
        [sys.executable, "-m", "sciagent", "run", str(file), "--quiet"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_until_it_runs(tmp_path)
    begun = time.monotonic()
    for _ in range(presses):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.05)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130 and "sciagent resume small" in stderr, stderr
    assert time.monotonic() - begun < 20
    assert sciagent("status", "--json", cwd=tmp_path)["state"] == "interrupted"
    sciagent("resume", "--quiet", "--no-report", cwd=tmp_path, expect=3)  # methane and ethane are no hits
    assert sciagent("status", "--json", cwd=tmp_path)["rungs"][-1]["done"] == 2


def test_two_drivers_of_one_campaign_are_refused(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("c1ccccc1", "c1ccncc1", "Cc1ccccc1", "Oc1ccccc1"), dft=4)
    file.write_text(file.read_text().replace("grid: 0", "grid: 5"))  # long enough for a slow machine
    process = subprocess.Popen(
        [sys.executable, "-m", "sciagent", "run", str(file), "--quiet", "--no-report"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until_it_runs(tmp_path)
    second = sciagent("resume", "small", "--quiet", "--no-report", cwd=tmp_path, expect=1)
    assert "is being driven by" in second.stderr
    assert process.poll() is None, "the first went on"
    sciagent("stop", "small", "--now", "--reason", "seen enough", cwd=tmp_path)
    assert process.wait(timeout=60) == 130


@pytest.mark.parametrize("fate", ["deleted", pytest.param("replaced by another file", marks=pytest.mark.long)])
def test_a_run_whose_ledger_is_gone_ends_within_a_heartbeat_and_goes_on_from_the_copy(
    tmp_path: Path, fate: str
) -> None:
    file = write_campaign(tmp_path, molecules=("Cc1ccccc1",), dft=1)
    file.write_text(file.read_text().replace("grid: 0", "grid: 5"))  # long enough for a slow machine
    process = subprocess.Popen(
        [sys.executable, "-m", "sciagent", "run", str(file), "--quiet", "--no-report"],
        cwd=tmp_path,
        env=environment(SCIAGENT_LEASE_SECONDS="8"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until_dft_runs(tmp_path)
    ledger = tmp_path / "sciagent.db"
    for path in tmp_path.glob("sciagent.db*"):
        path.unlink()
    if fate != "deleted":
        ledger.touch()
    begun = time.monotonic()
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - begun < 2 + 15, "a heartbeat, the copy, and the end of the running job"
    assert process.returncode == 1, stderr
    copy = tmp_path / f"sciagent.db.rescued-{process.pid}"
    assert f"{ledger} was {fate}" in stderr and f"mv {copy} {ledger}" in stderr
    assert ledger.exists() is (fate != "deleted"), "no empty ledger was made in its place"
    copy.rename(ledger)
    sciagent("db", "check", cwd=tmp_path)
    rungs = sciagent("status", "--json", cwd=tmp_path)["rungs"]
    assert [rung["done"] for rung in rungs[:2]] == [1, 1], "nothing was lost"


def wait_until_dft_runs(folder: Path) -> None:
    """Until the last rung runs its first job; nothing but heartbeats is written then for seconds."""
    path, deadline = folder / "sciagent.db", time.monotonic() + 60
    query = (
        "SELECT count(*) FROM job JOIN rung ON rung.id = job.rung_id WHERE rung.name = 'dft' AND job.state = 'running'"
    )
    while time.monotonic() < deadline:
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            if db.execute(query).fetchone() == (1,):
                return
        time.sleep(0.1)
    raise AssertionError("no job of the last rung started within a minute")
