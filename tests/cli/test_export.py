"""`sciagent export` and `sciagent report` from the command line: endings, and calls that cannot be meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rdkit import Chem
from typer.testing import Result

from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from tests.support.reported import dyes
from tests.support.typed import invoked


@pytest.fixture(scope="module")
def folder(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("dyes")
    path = made / "sciagent.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path))
    dyes(ledger, made)
    ledger.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        patch.delenv("SCIAGENT_LEDGER", raising=False)
        patch.delenv("SCIAGENT_ARTIFACTS", raising=False)
        yield made


def call(*arguments: str) -> Result:
    return invoked(arguments)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.sdf", "a.parquet", "a.db"])
def test_the_ending_says_the_format_and_nothing_else_is_left(folder: Path, name: str) -> None:
    before = set(folder.iterdir())
    result = call("export", "dyes", "-o", name)
    assert result.exit_code == 0, result.output
    made = {p.name for p in set(folder.iterdir()) - before if not p.name.startswith("sciagent.db-")}
    assert made == {name} and (folder / name).stat().st_size > 0


def test_sdf_goes_to_a_pipe_too(folder: Path) -> None:
    supplier = Chem.SDMolSupplier()
    supplier.SetData(call("export", "dyes", "--format", "sdf").stdout)
    assert len([m for m in supplier if m is not None]) == 12


def test_a_crate_needs_a_licence_and_takes_authors(folder: Path) -> None:
    refused = call("export", "dyes", "-o", "dyes.zip")
    assert isinstance(refused.exception, UsageError) and "--license" in str(refused.exception)
    made = call("export", "dyes", "-o", "dyes.zip", "--license", "CC-BY-4.0", "--author", "Ada", "--author", "Grace")
    assert made.exit_code == 0 and (folder / "dyes.zip").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--format", "parquet"), "--output"),
        (("--format", "ase"), "--output"),
        (("--what", "proposals", "-o", "p.sdf"), "csv, jsonl, parquet"),
        (("-o", "nowhere/a.csv"), "does not exist"),
        (("-o", "a.xml"), 'no format is known by the ending ".xml"'),
        (("-o", "a.json"), "entries are crystals"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    result = call("export", "dyes", *arguments)
    assert isinstance(result.exception, UsageError) and says in str(result.exception)


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    result = call("export", "dyes", "-o", str(folder / "pipe.csv"))
    assert isinstance(result.exception, UsageError) and "no regular file" in str(result.exception)
    assert (folder / "pipe.csv").is_fifo()


def test_proposals_go_to_stdout(folder: Path) -> None:
    lines = call("export", "dyes", "--what", "proposals").stdout.splitlines()
    assert len(lines) == 15 and lines[0].startswith("id,at,turn,proposer,status")


def test_the_report_prints_its_name(folder: Path) -> None:
    result = call("report", "dyes", "--top", "1")
    assert result.stdout.strip() == "dyes.report.html"
    text = (folder / "dyes.report.html").read_text(encoding="utf-8")
    assert text.count('<article class="card') == 1
    refused = call("report", "dyes", "-o", "dyes.md")
    assert isinstance(refused.exception, UsageError)


def test_a_report_may_have_a_page_for_every_episode_besides(folder: Path) -> None:
    result = call("report", "dyes", "-o", "r.html", "--episodes", "pages")
    assert result.exit_code == 0 and result.output.split() == ["r.html", str(Path("pages") / "index.html")]
    assert (folder / "pages" / "index.html").is_file()
    refused = call("report", "dyes", "-o", "other.html", "--episodes", "r.html")
    assert isinstance(refused.exception, UsageError) and not (folder / "other.html").exists()


def test_series_go_into_a_new_folder(folder: Path) -> None:
    made = call("export", "dyes", "--what", "series", "-o", "patterns")
    assert made.exit_code == 0 and "0 series in patterns" in made.output, made.output
    assert list((folder / "patterns").iterdir()) == []
    for arguments in (["-o", "patterns"], ["-o", "patterns.xlsx"], []):  # it exists; no csv; no folder
        refused = call("export", "dyes", "--what", "series", *arguments)
        assert isinstance(refused.exception, UsageError) and "a new folder" in str(refused.exception)
