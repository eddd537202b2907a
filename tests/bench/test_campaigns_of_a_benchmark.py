"""The proposers of a benchmark come by name or from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import UsageError
from sciagent_bench.campaigns_of_a_benchmark import proposer_keys
from sciagent_bench.pmo.task_runs import PROPOSERS


def test_a_file_gives_the_keys_of_a_proposer(tmp_path: Path) -> None:
    file = tmp_path / "My law.yaml"
    file.write_text("kind: law\nbatch: 50\n", encoding="utf-8")
    assert proposer_keys(str(file), PROPOSERS) == ("my-law", {"kind": "law", "batch": 50})
    assert proposer_keys("random", PROPOSERS)[1]["kind"] == "screen"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("batch: 50\n", "needs the keys of a proposer"),
        ("kind: law\nseeds: mine.csv\n", "neither seeds nor file"),
        ("kind: [law\n", r"file\.yaml:1:7: the \[ that opens here"),
        ("- law\n", "mapping"),
    ],
)
def test_a_file_that_gives_none_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=fault):
        proposer_keys(str(file), PROPOSERS)


def test_a_name_that_is_no_proposer_is_refused() -> None:
    with pytest.raises(UsageError, match="takes evolve, law, random or a YAML file"):
        proposer_keys("genetic", PROPOSERS)
