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


def test_a_file_that_nobody_may_write_is_linked_and_only_the_last_two_folders_stay(tmp_path: Path) -> None:
    home = checkpoints_home(tmp_path, "c" * 64)
    for fence in (1, 2):
        (home / f"fence-{fence}").mkdir(parents=True)
    chunk, density = home / "fence-2" / "000.chunk", home / "fence-2" / "density"
    chunk.write_text("done")
    chunk.chmod(0o444)
    density.write_text("half way")
    third = attempt_folder(tmp_path, "c" * 64, 3)
    assert (third / "000.chunk").samefile(chunk) and not (third / "density").samefile(density)
    density.write_text("another attempt's")
    assert (third / "density").read_text() == "half way"
    assert sorted(each.name for each in home.iterdir()) == ["fence-2", "fence-3"]
