"""`sciagent run`: mistakes are named before anything starts, and who proposes is said."""

from __future__ import annotations

from pathlib import Path

from tests.support.campaigns import sciagent, write_campaign
from tests.support.typed import call


def test_the_start_names_the_proposer_and_the_end_the_exit_code(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C",), dft=0)
    started = sciagent("run", str(file), cwd=tmp_path, expect=3).stderr
    assert "candidates are proposed by screen, a script; a language model does it with" in started
    assert "no hit: see the report" in started


def test_no_report_is_written_if_none_is_wanted(folder: Path) -> None:
    assert (folder / "sciagent.db").exists() and not list(folder.rglob("*.html")), "its campaigns ran with --no-report"
    refused = call("run", "small.yaml", "--report", "small.html", "--no-report")
    assert str(refused.exception) == "--report and --no-report exclude each other"


def test_a_report_that_cannot_be_written_is_said_before_the_start(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C",), dft=0)
    done = sciagent("run", str(file), "--report", str(tmp_path / "nowhere" / "r.html"), cwd=tmp_path, expect=2)
    assert "does not exist" in done.stderr


def test_a_table_with_semicolons_is_named(tmp_path: Path) -> None:
    file = write_campaign(tmp_path, molecules=("C",), dft=0)
    (tmp_path / "molecules.csv").write_text("name;smiles\nmethane;C\n")
    done = sciagent("run", str(file), cwd=tmp_path, expect=2)
    assert "semicolons" in done.stderr


def test_an_executor_that_lacks_something_leaves_no_campaign_behind(tmp_path: Path) -> None:
    path = write_campaign(tmp_path)
    for executor, missing in (("celery", "SCIAGENT_BROKER"), ("slurm", "SCIAGENT_SLURM_SITE")):
        done = sciagent("run", str(path), "--executor", executor, cwd=tmp_path, expect=2)
        assert missing in done.stderr
    assert "this ledger has: none" in sciagent("status", cwd=tmp_path, expect=2).stderr
