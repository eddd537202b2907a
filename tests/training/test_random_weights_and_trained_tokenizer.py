"""Small models with random weights: their tokens are learned from conversations, and each kind of text has its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sciagent.agent import install_and_find_models
from sciagent.agent.messages_sampling_and_policy_client import Message, ToolCall
from sciagent.errors import UsageError
from sciagent.training.dataset_columns import TableColumn, chat, schema
from sciagent.training.learner.load_and_publish import load
from sciagent.training.learner.row_selection import DatasetRows
from sciagent.training.random_weights_and_trained_tokenizer import TAGS, ModelShape, add_random_model, conversations

TOOLS = [{"type": "function", "function": {"name": "modify", "description": "Edits a molecule.", "parameters": {}}}]
COLUMNS = [TableColumn(name, kind, "") for name, kind in {"prompt": "messages", "completion": "messages"}.items()]
SHAPE = ModelShape(hidden_size=64, layers=1, vocabulary=400, context=256)


def data_set(folder: Path, wanted: str = "a wide gap", kind: str = "sft") -> Path:
    call = ToolCall("call_0", "modify", '{"parent": "#1", "edit": "add C", "n": 28}')
    prompt = [Message("system", f"Find {wanted}, 4.306 eV."), Message("user", "Begin with <|im_end|>.")]
    cells = {"prompt": chat(prompt), "completion": chat([Message("assistant", "", calls=(call,))])}
    folder.mkdir()
    table = pa.Table.from_pylist(
        [cells | {"tools": json.dumps(TOOLS)}] * 3,
        schema=schema([*COLUMNS, TableColumn("tools", "text", "")], {"dataset": kind}),
    )
    pq.write_table(table, folder / "train.parquet")
    return folder


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    return data_set(tmp_path / "sft")


def made(name: str, *folders: Path, seed: int = 0) -> install_and_find_models.Model:
    return add_random_model(name, folders, SHAPE, seed, lambda text: None)


def test_the_conversations_are_read_back_from_its_tokens(texts: Path) -> None:
    made("tiny", texts)
    loaded = load("tiny")
    [text, *_] = conversations(texts)
    ids = loaded.tokenizer(text, add_special_tokens=False)["input_ids"]
    assert loaded.tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
    assert len(ids) < len(text) / 2, "words of the texts are tokens"
    spelled = loaded.tokenizer.convert_ids_to_tokens(ids)
    assert not [token for token in spelled if len(token) > 1 and any(letter.isdigit() for letter in token)]
    assert all(len(loaded.tokenizer(tag, add_special_tokens=False)["input_ids"]) == 1 for tag in TAGS)
    assert spelled.count("<|im_end|>") == 3, "what a user writes ends no message"


def test_it_is_as_large_as_was_asked_and_can_be_trained_on_them(texts: Path) -> None:
    made("tiny", texts)
    loaded = load("tiny")
    assert (loaded.context, loaded.model.config.hidden_size, loaded.model.config.num_hidden_layers) == (256, 64, 1)
    assert loaded.model.config.vocab_size == len(loaded.tokenizer) <= 400
    data = DatasetRows(texts, "sft", loaded.conversations, loaded.context)
    [first, *_] = data.rows(data.units)
    answer = [token for token, trained in zip(first.ids, first.mask, strict=True) if trained]
    assert loaded.tokenizer.decode(answer).startswith("<tool_call>") and answer[-1] in loaded.ends


def test_the_same_texts_and_seed_make_the_same_weights_and_others_do_not(texts: Path, tmp_path: Path) -> None:
    first = made("first", texts)
    assert made("first", texts) == first, "made again, nothing changes"
    shutil.rmtree(first.folder)
    assert made("first", texts).sha256 == first.sha256
    other = data_set(tmp_path / "other", "a strong dipole")
    assert len({first.sha256, made("second", texts, seed=1).sha256, made("third", other).sha256}) == 3
    with pytest.raises(UsageError, match="there is a model first"):
        made("first", other)


def test_folders_and_shapes_that_do_not_fit_are_refused(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no data set of conversations"):
        made("tiny", data_set(tmp_path / "rows", kind="rows"))
    with pytest.raises(UsageError, match="no data set of conversations"):
        made("tiny", tmp_path / "nowhere")
    with pytest.raises(UsageError, match="multiple of 32, not 100"):
        ModelShape(hidden_size=100)
    with pytest.raises(UsageError, match="at least 265 tokens"):
        ModelShape(vocabulary=100)
