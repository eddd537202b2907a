"""Evaluations in several processes, and several evaluations on one ledger."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import new_owner
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation import run_evaluation
from sciagent.training.evaluation.campaign_runs import PlannedCampaign
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign
from sciagent.training.evaluation.evaluation_spec import load_evaluation
from sciagent.training.evaluation.run_evaluation import Evaluation, in_turn
from tests.training.evaluation.test_run_evaluation import evaluated


@pytest.mark.long
def test_several_processes_find_what_one_finds(recipe: Path, tmp_path: Path) -> None:
    answer, told = evaluated(recipe, workers=2)
    assert len(told) == 8 and not answer.failed
    (tmp_path / "sciagent.db").rename(tmp_path / "other.db")
    alone, _ = evaluated(recipe)
    assert [each.hits_at for each in alone.campaigns] == [each.hits_at for each in answer.campaigns]


def test_a_worker_ends_with_its_stdin(tmp_path: Path) -> None:
    told = json.dumps({"url": str(Ledger(str(tmp_path / "sciagent.db")).url), "artifacts": str(tmp_path)})
    command = [sys.executable, "-m", "sciagent.training.evaluation.evaluation_worker"]
    done = subprocess.run(command, input=told + "\n", text=True, capture_output=True, timeout=60, check=True)
    assert done.stdout == ""


def test_a_stopped_pool_starts_nothing(recipe: Path) -> None:
    evaluation = Evaluation(load_evaluation(recipe), recipe.parent, Ledger(str(recipe.parent / "s.db")), workers=2)
    evaluation.stop()
    answer = evaluation.run(lambda campaign, done, of: None)
    assert answer.campaigns == () and answer.stopped is not None


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_campaign_that_another_process_runs_is_asked_for_again(
    recipe: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(run_evaluation, "PAUSE_SECONDS", 0.1)
    place = str(recipe.parent / "s.db")
    spec = load_evaluation(recipe).model_copy(update={"tasks": ("low.yaml",), "seeds": (1,)})
    evaluation = Evaluation(spec, recipe.parent, Ledger(place), workers=workers)
    first, other = evaluation._plan[0], Ledger(place)
    built = create_or_open(other, parse_spec(first.text, "first", first.base), first.text, "other").built
    with other.begin() as connection:
        lease = campaigns.take_driver(connection, built.row.id, new_owner())
    told = list[str]()

    def tell(campaign: EvaluatedCampaign, done: int, of: int) -> None:
        told.append(campaign.campaign)
        if done == of - 1:
            with other.begin() as connection:
                campaigns.release_driver(connection, lease.campaign_id, lease.owner)

    answer = evaluation.run(tell)
    assert not answer.failed and len(told) == len(evaluation._plan) and told[-1] == first.name


def test_arms_take_turns_but_for_those_that_load_a_model() -> None:
    def of(arm: str, n: int) -> list[PlannedCampaign]:
        return [PlannedCampaign(arm, "task", seed, f"{arm}{seed}", "", Path()) for seed in range(1, n + 1)]

    order = in_turn({"model": of("model", 2), "evolve": of("evolve", 2), "law": of("law", 3)}, {"model"})
    assert [campaign.name for campaign in order] == ["evolve1", "law1", "evolve2", "law2", "law3", "model1", "model2"]
