"""Recipe files: what they may say, and how their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import SpecError, UnknownNameError
from sciagent.training.recipes.recipe_file import (
    AnswersStage,
    EpisodesStage,
    LiveStage,
    RecipeSpec,
    load_recipe,
    stage_number,
)

WHOLE = """
recipe: small
model: {new: {hidden_size: 64, layers: 2}}
tasks: [one.yaml, {campaign: two.yaml, weight: 2}]
rewards: rewards.yaml
stages:
  - {kind: demonstrations, groups: 2, from: seeds}
  - {kind: sft, epochs: 4}
  - {kind: rollouts}
  - {kind: sft}
  - {name: last, kind: grpo, credit: rtg, guards: {control_gap: null}}
  - {kind: audit, tasks: [dear.yaml]}
evaluate:
  tasks: [held.yaml]
  verifications: 8
  arms: {scripted: {policy: scripted}}
"""


def read(tmp_path: Path, text: str) -> RecipeSpec:
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    return load_recipe(path)


def test_a_recipe_is_read_with_its_stages(tmp_path: Path) -> None:
    spec = read(tmp_path, WHOLE)
    assert spec.names == ["demonstrations", "sft", "rollouts", "sft-2", "last", "audit"]
    assert [type(stage) for stage in spec.stages[:2]] == [EpisodesStage, AnswersStage]
    first, live = spec.stages[0], spec.stages[4]
    assert isinstance(first, EpisodesStage) and first.begins == "seeds"
    assert isinstance(live, LiveStage) and live.guards is not None and live.guards.control_gap is None
    assert [(task.campaign, task.weight) for task in spec.task_specs] == [("one.yaml", 1.0), ("two.yaml", 2.0)]
    assert stage_number(spec, "sft-2") == 3
    with pytest.raises(UnknownNameError, match='did you mean "last"'):
        stage_number(spec, "lust")


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ("epochs: 4", "epoch: 4", r'recipe.yaml:8:17: stages\[1\].epoch: unknown key; did you mean "epochs"'),
        ("kind: rollouts", "kind: rollout", r'stages\[2\].kind: "rollout" is not known here; did you mean "rollouts"'),
        ("from: seeds", "from: tomorrow", r"stages\[0\].from"),
        ("rewards: rewards.yaml\n", "", "rewards: required for live training, and missing"),
        ("  - {kind: sft, epochs: 4}\n", "", r"stages\[1\]: a new model is first taught by a stage of kind sft"),
        ("kind: sft, epochs: 4", "kind: hinted", r"stages\[1\]: a new model is first taught by a stage of kind sft"),
        ("from: seeds", "form: seeds", 'unknown key; did you mean "from"'),
        ("kind: grpo, credit", "kind: ppo, credit", r"stages\[4\].credit: has no effect for ppo; it counts for grpo"),
        ("name: last", "name: sft", r"stages\[4\]: the name sft is taken by an earlier stage"),
        ("{kind: rollouts}", "{kind: rollouts, policy: scripted}", "rollouts are made by the policy so far"),
        ("  verifications: 8\n", "  verifications: 8\n  seeds: [1]\n", "evaluate: 1 campaigns of a policy give no"),
    ],
)
def test_mistakes_are_told_where_they_are(tmp_path: Path, was: str, becomes: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read(tmp_path, WHOLE.replace(was, becomes))


def test_an_audit_needs_its_own_seeds_where_nothing_is_evaluated(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="an audit without `evaluate` needs seeds and verifications"):
        read(tmp_path, WHOLE[: WHOLE.index("evaluate:")])
