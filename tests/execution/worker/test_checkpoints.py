"""Where attempts leave what can be gone on from."""

from __future__ import annotations

from pathlib import Path

from sciagent.execution.worker.checkpoints import folders_of, home_of


def test_an_attempt_begins_with_what_the_one_before_it_left(tmp_path: Path) -> None:
    attempts = [("a" * 64, 2), ("b" * 64, 1)]
    first = folders_of(tmp_path, attempts)
    assert first == (home_of(tmp_path, "a" * 64) / "fence-2", home_of(tmp_path, "b" * 64) / "fence-1")
    assert not any(one.exists() for one in first), "nobody has left anything"
    before = home_of(tmp_path, "a" * 64) / "fence-1"
    before.mkdir(parents=True)
    (before / "density").write_text("half way")
    assert folders_of(tmp_path, attempts) == first
    assert (first[0] / "density").read_text() == "half way"
    assert not first[1].exists()
