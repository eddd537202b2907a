"""Exports of data sets, read as Parquet; what the packages make of them is tested beside, in their own environments."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from sciagent.cli.dataset import ExportTo
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.exports.exporting import FORMATS, export
from sciagent.training.exports.read_dataset_and_write_trainer_rows import plain_message
from sciagent.training.settings import DATASET_KINDS, DatasetSettings
from tests.support.exported import four_siblings, write_datasets
from tests.support.rewarded import rewarded


def rows(folder: Path, name: str = "train.parquet") -> list[dict[str, Any]]:
    return pq.read_table(folder / name).to_pylist()


def head(folder: Path) -> Mapping[str, Any]:
    """The YAML with which the card begins."""
    return yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])


def test_messages_have_no_empty_keys_and_their_calls_objects(sets: Path, tmp_path: Path) -> None:
    assert export(sets / "sft", "trl-sft", tmp_path / "out").files == {"train.parquet": 3, "test.parquet": 0}
    exported, built = rows(tmp_path / "out"), rows(sets / "sft")
    assert built[0]["completion"][0]["reasoning_content"] is None, "a struct has every key"
    [completion] = map(json.loads, exported[0]["completion"])
    assert completion == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_0_0",
                "type": "function",
                "function": {"name": "propose", "arguments": {"smiles": "Oc1ccccc1", "rationale": "a small one"}},
            }
        ],
    }
    assert [json.loads(tool) for tool in exported[0]["tools"]] == json.loads(built[0]["tools"])
    prompt = [json.loads(message) for message in exported[1]["prompt"]]
    assert [set(message) for message in prompt[:2]] == [{"role", "content"}] * 2
    assert prompt[3] == {"role": "tool", "content": "new; open", "tool_call_id": "call_0_0", "name": "propose"}
    same = [name for name in built[0] if name not in ("prompt", "completion", "tools")]
    assert [{name: row[name] for name in same} for row in exported] == [
        {name: row[name] for name in same} for row in built
    ]


def test_arguments_that_are_no_json_stay_the_text_that_the_model_wrote() -> None:
    for written in ('{"smiles": "CCO"', "[1]", ""):
        call = {"id": "1", "type": "function", "function": {"name": "propose", "arguments": written}}
        message = {"role": "assistant", "content": None, "tool_calls": [call], "name": None}
        assert plain_message(message) == {"role": "assistant", "tool_calls": [call]}


def test_failed_answers_with_a_hint_are_not_imitated(sets: Path, tmp_path: Path) -> None:
    answer = export(sets / "hindsight", "trl-sft", tmp_path / "out")
    assert {row["how"] for row in rows(tmp_path / "out")} == {"relabelled"}
    assert answer.left_out == {"rows: a failed answer with a hint": 2}


def test_the_card_states_licence_origin_and_what_is_missing(sets: Path, tmp_path: Path) -> None:
    export(sets / "rows", "huggingface", tmp_path / "out", "sciagent dataset export rows")
    about, card = head(tmp_path / "out"), (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert about["license"] == "cc-by-4.0", "as the Hub names it"
    files = {each["config_name"]: each["data_files"] for each in about["configs"]}
    assert files["default"] == [{"split": "train", "path": "train.parquet"}], "an empty split cannot be loaded"
    assert files["evidence"] == [{"split": "train", "path": ["tables/gaps.evidence.parquet"]}]
    assert all((tmp_path / "out" / path).exists() for each in files.values() for path in each[0]["path"] if "/" in path)
    for part in (
        "sciagent dataset export rows",
        "from the evidence up to watermark",
        "| tiny@0 |",
        "#### What is missing",
    ):
        assert part in card, part


def test_a_campaign_without_tokens_still_has_its_tables(ledger: Ledger, tmp_path: Path) -> None:
    made = rewarded(ledger, tmp_path)
    made.episode(1, [["CCO"]])
    made.check("CCO")
    build(ledger, DatasetSettings(kind="rows", campaigns=["small"]), tmp_path / "rows")
    with pytest.raises(UsageError, match="has no row for trl-grpo"):
        export(tmp_path / "rows", "trl-grpo", tmp_path / "out")
    export(tmp_path / "rows", "huggingface", tmp_path / "out")
    assert [each["config_name"] for each in head(tmp_path / "out")["configs"]] == ["evidence", "trajectories"]


@pytest.mark.parametrize(
    ("licence", "stated"),
    [
        (None, {"license": "unknown"}),
        ("https://example.org/terms", {"license": "other", "license_link": "https://example.org/terms"}),
    ],
)
def test_a_licence_without_an_identifier_is_a_link(
    migrated_sqlite: Path, tmp_path: Path, licence: str | None, stated: dict[str, str]
) -> None:
    write_datasets(four_siblings(migrated_sqlite, tmp_path), tmp_path, licence)
    export(tmp_path / "sft", "trl-sft", tmp_path / "out")
    assert {key: value for key, value in head(tmp_path / "out").items() if key.startswith("license")} == stated


def test_every_kind_can_be_exported_and_every_format_be_typed() -> None:
    assert [each.value for each in ExportTo] == list(FORMATS)
    assert set(FORMATS["huggingface"]) == set(DATASET_KINDS)


def test_mistakes_are_named_and_leave_nothing_behind(sets: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"trl-dpo takes preference\. Formats for sft: trl-sft"):
        export(sets / "sft", "trl-dpo", out)
    with pytest.raises(UnknownNameError, match='did you mean "trl-sft"'):
        export(sets / "sft", "trl-stf", out)
    with pytest.raises(UsageError, match="`sciagent dataset build` makes such folders"):
        export(sets, "trl-sft", out)
    with pytest.raises(UsageError, match="is not empty"):
        export(sets / "sft", "trl-sft", sets)
    only_hints = tmp_path / "hints"
    only_hints.mkdir()
    table = pq.read_table(sets / "hindsight" / "train.parquet")
    for split in ("train", "test"):
        pq.write_table(
            table.filter([how == "hinted" for how in table["how"].to_pylist()]), only_hints / f"{split}.parquet"
        )
    with pytest.raises(UsageError, match=r"no row for trl-sft \(rows: a failed answer with a hint: 4\)"):
        export(only_hints, "trl-sft", out)
    pq.write_table(table.drop_columns("task"), only_hints / "train.parquet")
    with pytest.raises(UsageError, match="build it again"):
        export(only_hints, "trl-sft", out)
    (only_hints / "train.parquet").write_text("no Parquet")
    with pytest.raises(UsageError, match="cannot be read"):
        export(only_hints, "trl-sft", out)
    assert not out.exists() and not list(tmp_path.glob(".export-*"))
