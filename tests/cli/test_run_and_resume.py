"""`sciagent run`: mistakes are named before anything starts, and who proposes is said."""

from __future__ import annotations

from pathlib import Path

from sciagent.campaign.driving.dispatcher_of_driver_processes import ENDS
from sciagent.cli.output_logging_and_given_structures import Exit
from tests.support.campaigns import sciagent, write_campaign
from tests.support.chat_server import ChatServer
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


def test_a_campaign_whose_model_does_not_answer_has_failed_with_exit_code_5(tmp_path: Path, server: ChatServer) -> None:
    server.respond = lambda body, n: (400, {"error": {"message": "Unsupported parameter: top_p"}})
    file = write_campaign(tmp_path, molecules=("C",))
    screen = "{kind: screen, file: molecules.csv, batch: 5}"
    text = file.read_text()
    assert screen in text
    file.write_text(text.replace(screen, f'{{kind: llm, model: m, endpoint: "{server.url}"}}'))
    for arguments in (("run", str(file), "--no-report"), ("resume", "small", "--no-report", "--quiet")):
        done = sciagent(*arguments, cwd=tmp_path, expect=5)
        assert "small has failed: the model failed 5 times in a row: m answered 400: " in done.stderr
        assert "Unsupported parameter: top_p" in done.stderr and "sciagent resume small" in done.stderr
    status = sciagent("status", "small", "--json", cwd=tmp_path)
    assert status["state"] == "failed" and "Unsupported parameter: top_p" in status["stop_reason"]
    assert set(ENDS) == {Exit.OK, Exit.NO_HIT, Exit.CAMPAIGN_FAILED, Exit.INTERRUPTED}, "a dispatcher lets it rest, too"
