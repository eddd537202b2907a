"""Where attempts leave what can be gone on from."""

from __future__ import annotations

from pathlib import Path

from sciagent.execution.worker.read_claimed_jobs import (
    attempt_folder,
    checkpoints_home,
    direct_checkpoint,
    drop_direct_checkpoint,
)


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


def test_one_run_without_a_job_has_the_checkpoint_at_a_time(tmp_path: Path) -> None:
    with direct_checkpoint(tmp_path, "d" * 64) as first:
        assert len(first) == 1
        first[0].mkdir()
        (first[0] / "density").write_text("half way")
        with direct_checkpoint(tmp_path, "d" * 64) as second:
            assert second == ()
    with direct_checkpoint(tmp_path, "d" * 64) as later:
        assert (later[0] / "density").read_text() == "half way"
        (checkpoints_home(tmp_path, "d" * 64) / "fence-1").mkdir()
        drop_direct_checkpoint(tmp_path, "d" * 64)
    assert [each.name for each in checkpoints_home(tmp_path, "d" * 64).iterdir()] == ["fence-1"], "that of a job stays"
