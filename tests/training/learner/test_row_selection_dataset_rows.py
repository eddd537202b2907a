"""Training rows from the folders that `dataset build` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sciagent.agent.policies.local_model import LocalPolicy
from sciagent.errors import UsageError
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.dataset_building import build
from sciagent.training.learner.learner_rows_and_rendered_conversations import Conversations
from sciagent.training.learner.row_selection import DatasetRows
from sciagent.training.learner.training_run import planned
from sciagent.training.settings import DatasetKind, DatasetSettings
from tests.support.conversing import Conversing, conversing

SPEC = RewardSpec(prices={"core_seconds": 0.001}, unsettled="settled")


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Conversing:
    """A group with a hit and a miss; a group of two misses alike; a sibling that waits for an answer."""
    made = conversing(ledger, tmp_path / "campaign")
    one, alike = made.group(0, 2), made.group(1, 2)
    made.talk(1, ["CCO"], group=one, sibling=0)
    made.talk(2, ["CCS", "C1CC"], group=one, sibling=1)
    made.talk(3, ["CCN"], group=alike, sibling=0)
    made.talk(4, ["CCC"], group=alike, sibling=1)
    for smiles, gap in (("CCO", 5.0), ("CCS", 12.0), ("CCN", 12.0), ("CCC", 12.0)):
        made.verify(smiles, gap)
    publish(made.ledger, "small", SPEC)
    return made


@pytest.fixture(scope="module")
def conversations(tiny: str) -> Conversations:
    policy = LocalPolicy(tiny, device="cpu")
    assert policy.decoder is not None
    return Conversations(policy.tokenizer, policy.decoder.ends)


def folder(made: Conversing, kind: DatasetKind, path: Path) -> tuple[Path, list[dict[str, Any]]]:
    build(made.ledger, DatasetSettings(kind=kind, campaigns=[made.built.row.name]), path)
    return path, pq.read_table(path / "train.parquet").to_pylist()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_sampled_rows_are_those_of_the_file(made: Conversing, tmp_path: Path, conversations: Conversations) -> None:
    path, cells = folder(made, "rows", tmp_path / "rows")
    data = DatasetRows(path, "grpo", conversations, 4096)
    [unit] = data.units
    rows = data.rows([unit])
    assert [cells[number]["episode"] for number in unit.numbers] == [1, 2]
    assert data.left_out == {"rows: belong to siblings that earned the same": 2}
    for row, number in zip(rows, unit.numbers, strict=True):
        cell = cells[number]
        assert (list(row.ids), list(row.mask)) == (cell["ids"], cell["gradient"])
        for place, used in enumerate(row.mask):
            assert row.advantages[place] == (cell["advantages"][place] if used else 0)
            assert row.behaviour is not None and row.behaviour[place] == (cell["behaviour"][place] if used else 0)
        answers = [
            [place for place, turn in enumerate(cell["turns"]) if turn == n] for n in sorted({*cell["turns"]} - {-1})
        ]
        assert [(span.begin, span.end) for span in row.spans] == [(each[0], each[-1] + 1) for each in answers]
        assert {span.temperature for span in row.spans} == {1.0} and {span.schema for span in row.spans} == {None}
        assert row.reward == pytest.approx(cell["outcome"])
    assert DatasetRows(path, "grpo", conversations, 10).left_out["rows: more than 10 tokens"] == 1


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_verified_answer_is_tokenised_as_the_model_would_write_it(
    made: Conversing, tmp_path: Path, conversations: Conversations, tiny: str
) -> None:
    path, _ = folder(made, "sft", tmp_path / "sft")
    data = DatasetRows(path, "sft", conversations, 4096)
    [row] = data.rows(data.units)
    tokenizer = conversations._tokenizer
    answer = [token for token, used in zip(row.ids, row.mask, strict=True) if used]
    assert tokenizer.decode(row.ids[: row.mask.index(True)]).endswith("<|im_start|>assistant\n")
    text = tokenizer.decode(answer)
    assert text.startswith('<tool_call>\n{"name": "propose"') and text.endswith("</tool_call><|im_end|>")
    assert json.loads(text.split("\n")[1])["arguments"]["smiles"] == "CCO"
    assert row.behaviour is None and {a for a, used in zip(row.advantages, row.mask, strict=True) if used} == {1.0}
    with pytest.raises(UsageError, match="`train grpo` takes rows: sciagent dataset build rows"):
        DatasetRows(path, "grpo", conversations, 4096)
    with pytest.raises(UsageError, match=r"has no train\.parquet"):
        DatasetRows(tmp_path / "nowhere", "sft", conversations, 4096)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_hints_are_not_shown_to_the_model_itself(
    made: Conversing, tmp_path: Path, conversations: Conversations
) -> None:
    path, cells = folder(made, "hindsight", tmp_path / "hindsight")
    data = DatasetRows(path, "sft", conversations, 4096)
    hinted = [cell for cell in cells if cell["how"] == "hinted"]
    assert data.left_out == {"rows: hints, which only a teacher may see": len(hinted)} and hinted
    assert [cells[unit.numbers[0]]["how"] for unit in data.units] == ["relabelled"] * (len(cells) - len(hinted))


def test_every_row_is_trained_once_an_epoch_and_groups_stay_whole() -> None:
    from sciagent.training.learner.row_selection import Unit

    units = [Unit((0, 1, 2)), Unit((3,)), Unit((4, 5)), Unit((6,)), Unit((7,))]
    steps = list(planned(units, 3, 2, seed=5))
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    epochs = [[unit for step in steps if step.epoch == epoch for unit in step.units] for epoch in (1, 2)]
    assert all(sorted(epoch) == units for epoch in epochs) and epochs[0] != epochs[1]
    sizes = [sum(len(unit.numbers) for unit in step.units) for step in steps]
    last = [place for place, step in enumerate(steps) if place + 1 == len(steps) or steps[place + 1].epoch > step.epoch]
    assert all(size >= 3 for place, size in enumerate(sizes) if place not in last)
    assert list(planned(units, 3, 2, seed=5)) == steps != list(planned(units, 3, 2, seed=6))
