"""Evaluations in several processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.evaluating import Evaluation
from sciagent.training.evaluation.spec import load_evaluation
from tests.training.evaluation.test_evaluating import evaluated


@pytest.mark.long
def test_several_processes_find_what_one_finds(recipe: Path, tmp_path: Path) -> None:
    answer, told = evaluated(recipe, workers=2)
    assert len(told) == 8 and not answer.failed
    (tmp_path / "sciagent.db").rename(tmp_path / "other.db")
    alone, _ = evaluated(recipe)
    assert [each.hits_at for each in alone.campaigns] == [each.hits_at for each in answer.campaigns]


def test_a_worker_ends_with_its_stdin(tmp_path: Path) -> None:
    told = json.dumps({"url": str(Ledger(str(tmp_path / "sciagent.db")).url), "artifacts": str(tmp_path)})
    command = [sys.executable, "-m", "sciagent.training.evaluation.worker"]
    done = subprocess.run(command, input=told + "\n", text=True, capture_output=True, timeout=60, check=True)
    assert done.stdout == ""


def test_a_stopped_pool_starts_nothing(recipe: Path) -> None:
    evaluation = Evaluation(load_evaluation(recipe), recipe.parent, Ledger(str(recipe.parent / "s.db")), workers=2)
    evaluation.stop()
    answer = evaluation.run(lambda campaign, done, of: None)
    assert answer.campaigns == () and answer.stopped is not None
