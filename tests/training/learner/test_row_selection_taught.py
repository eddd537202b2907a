"""Distillation: rows that teachers look at, and runs on them."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from sciagent.agent.install_and_find_models import add_folder
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner import training_run
from sciagent.training.learner.learner_rows_and_rendered_conversations import Conversations, TrainingRow
from sciagent.training.learner.row_selection import DatasetRows
from sciagent.training.learner.training_step import Learner, Teacher
from sciagent.training.settings import LearnerSettings, TrainingSettings
from tests.support.conversing import Conversing
from tests.training.learner.test_row_selection_dataset_rows import conversations as conversations
from tests.training.learner.test_row_selection_dataset_rows import folder
from tests.training.learner.test_row_selection_dataset_rows import made as made


def trained(run_settings: TrainingSettings) -> list[float]:
    """The losses of a run."""
    losses: list[float] = []
    answer = training_run.train(run_settings, None, lambda step, of: losses.append(step.loss))
    assert answer.stopped_by == "rows" and answer.steps == len(losses)
    return losses


@pytest.fixture(scope="module")
def others(tiny: str, tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A model with other weights than the tiny one, and one with a token more."""
    base = tmp_path_factory.mktemp("others")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_folder), AutoTokenizer.from_pretrained(tiny_folder)
    with torch.no_grad():
        for number, weights in enumerate(model.parameters()):
            weights.add_(0.2 * torch.randn(weights.shape, generator=torch.Generator().manual_seed(number)))
    for name in ("wise", "foreign"):
        model.save_pretrained(base / name)
        tokenizer.save_pretrained(base / name)
        tokenizer.add_tokens(["carbon"])
        add_folder(base / name, name, lambda text: None)
    return "wise", "foreign"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_divergence_from_the_teachers_falls(
    made: Conversing, tmp_path: Path, tiny: str, others: tuple[str, str]
) -> None:
    path, cells = folder(made, "rows", tmp_path / "rows")
    wise, foreign = others
    teachers = {wise: 0.75, tiny: 0.25}
    name = f"distill-{tmp_path.name}"[:60]
    run_settings = TrainingSettings(
        training="distill",
        teachers=teachers,
        rows=path,
        model=tiny,
        out=tmp_path / "out",
        name=name,
        learning_rate=3e-3,
        epochs=20,
        threads=1,
    )
    losses = trained(run_settings)
    assert len(cells) == 4 and losses[-1] < 0.5 * losses[0]
    assert training_run.train(run_settings, None, lambda step, of: None).steps == 20
    with pytest.raises(UsageError, match="another teachers"):
        trained(run_settings.with_changes(teachers={wise: 0.75}))
    with pytest.raises(UsageError, match="foreign cannot teach tiny: 1 tokens of their vocabularies differ"):
        trained(run_settings.with_changes(teachers={foreign: 1.0}))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_teacher_sees_the_hint_before_the_sampled_tokens(
    made: Conversing, tmp_path: Path, conversations: Conversations, tiny: str, ledger: Ledger
) -> None:
    path, cells = folder(made, "hindsight", tmp_path / "hindsight")
    data = DatasetRows(path, "hindsight", conversations, 4096)
    hinted = [cell for cell in cells if cell["how"] == "hinted"]
    rows = data.rows(data.units)
    assert len(rows) == len(hinted) > 0
    assert data.left_out == {"rows: goals that were achieved, for `train sft`": len(cells) - len(hinted)}
    for row, cell in zip(rows, hinted, strict=True):
        assert list(row.ids) == cell["prompt_ids"] + cell["answer_ids"] and row.behaviour is None
        assert [row.ids[place] for place, used in enumerate(row.mask) if used] == cell["answer_ids"][1:], (
            "one is forced"
        )
        assert row.teacher_context is not None
        shown = conversations._tokenizer.decode(row.teacher_context)
        assert cell["hint"] in shown and "<|im_start|>assistant\n" in shown
        assert row.teacher_context[-1] == cell["answer_ids"][0]
    longest = max(len(row.teacher_context or ()) for row in rows)
    assert DatasetRows(path, "hindsight", conversations, longest).left_out[f"rows: more than {longest} tokens"] > 0
    name = f"hindsight-{tmp_path.name}"[:60]
    run_settings = TrainingSettings(
        training="hindsight",
        rows=path,
        model=tiny,
        out=tmp_path / "out",
        name=name,
        learning_rate=3e-3,
        epochs=20,
        threads=1,
    )
    losses = trained(run_settings)
    assert losses[-1] < 0.5 * losses[0]


def test_a_hint_moves_the_model_toward_what_the_hint_says(model: Any) -> None:
    question, hint, first, better = (5, 6, 7), (20, 21), 40, 50

    def row(context: tuple[int, ...], answer: int, **more: Any) -> TrainingRow:
        n = len(context)
        return TrainingRow((*context, answer), (*[False] * n, True), (*[0.0] * n, 1.0), **more)

    def chance(of: Any, context: tuple[int, ...], answer: int) -> float:
        with torch.no_grad():
            return float(torch.softmax(of(input_ids=torch.tensor([context])).logits[0, -1], -1)[answer])

    taught = Learner(model, LearnerSettings(learning_rate=0.003))
    for _ in range(30):  # a model that answers otherwise where it reads the hint
        taught.step([row(question, first), row((*question, *hint), better)])
    teacher = copy.deepcopy(model)
    assert chance(model, question, better) < 0.1 and chance(teacher, (*question, *hint), better) > 0.8
    sampled = replace(row(question, first, teacher_context=(*question, *hint)), advantages=(0.0,) * 4)
    learner = Learner(model, LearnerSettings(learning_rate=3e-3, distillation=1.0), teachers=[Teacher(teacher)])
    for _ in range(20):
        learner.step([sampled])
    assert chance(model, question, better) > 0.5
