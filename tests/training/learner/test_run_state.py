"""The folder of a training run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent.training.learner.run_state import METRICS, RunFolder


def test_a_folder_takes_the_same_run_again_and_no_other(tmp_path: Path) -> None:
    asked = {"seed": 1, "settings": {"learning_rate": 1e-5}}
    RunFolder(tmp_path / "run", asked)
    (tmp_path / "run" / ".checkpoint.pt.part").write_text("cut by a kill")
    (tmp_path / "run" / ".policy.part").mkdir()
    (tmp_path / "run" / ".policy.part" / "config.json").touch()
    RunFolder(tmp_path / "run", {"settings": {"learning_rate": 1e-5}, "seed": 1})
    assert not list((tmp_path / "run").glob(".*")), "what a kill left half written is removed"
    with pytest.raises(UsageError, match="with another seed;"):
        RunFolder(tmp_path / "run", asked | {"seed": 2})
    RunFolder(tmp_path / "limited", asked | {"steps": 2})
    for more in (3, None):
        RunFolder(tmp_path / "limited", asked | {"steps": more})
    with pytest.raises(UsageError, match="with another seed;"):
        RunFolder(tmp_path / "limited", asked | {"steps": None, "seed": 2})
    with pytest.raises(UsageError, match="with another steps;"):
        RunFolder(tmp_path / "limited", asked | {"steps": 3})
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        RunFolder(tmp_path / "file", asked)


def test_a_line_of_metrics_that_a_kill_cut_is_left_out(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run", {})
    folder.add_metrics({"step": 1, "loss": 2.0})
    with (tmp_path / "run" / METRICS).open("a") as stream:
        stream.write('{"step": 2, "lo')
    assert folder.metrics() == [{"step": 1, "loss": 2.0}]
