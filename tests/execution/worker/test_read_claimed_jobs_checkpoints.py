"""Where attempts leave what can be gone on from."""

from __future__ import annotations

from pathlib import Path

from sciagent.execution.worker.read_claimed_jobs import attempt_folder, checkpoints_home


def test_an_attempt_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    first = attempt_folder(tmp_path, "a" * 64, 2), attempt_folder(tmp_path, "b" * 64, 1)
    assert first == (checkpoints_home(tmp_path, "a" * 64) / "fence-2", checkpoints_home(tmp_path, "b" * 64) / "fence-1")
    assert not any(one.exists() for one in first), "nobody has left anything"
    before = checkpoints_home(tmp_path, "a" * 64) / "fence-1"
    before.mkdir(parents=True)
    (before / "density").write_text("half way")
    assert attempt_folder(tmp_path, "a" * 64, 2) == first[0]
    assert (first[0] / "density").read_text() == "half way"
    assert not first[1].exists()
