"""Where attempts leave what can be gone on from."""

from __future__ import annotations

from pathlib import Path

from sciagent.execution.worker.read_claimed_jobs import folder_of, home_of


def test_an_attempt_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    first = folder_of(tmp_path, "a" * 64, 2), folder_of(tmp_path, "b" * 64, 1)
    assert first == (home_of(tmp_path, "a" * 64) / "fence-2", home_of(tmp_path, "b" * 64) / "fence-1")
    assert not any(one.exists() for one in first), "nobody has left anything"
    before = home_of(tmp_path, "a" * 64) / "fence-1"
    before.mkdir(parents=True)
    (before / "density").write_text("half way")
    assert folder_of(tmp_path, "a" * 64, 2) == first[0]
    assert (first[0] / "density").read_text() == "half way"
    assert not first[1].exists()
