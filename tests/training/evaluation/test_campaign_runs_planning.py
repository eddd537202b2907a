"""The campaigns that an evaluation is made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.campaign.file.proposers import EvolveSpec, LlmSpec, PluginSpec
from sciagent.errors import SpecError, UsageError
from sciagent.training.evaluation.campaign_runs import PlannedCampaign, planned
from sciagent.training.evaluation.evaluation_spec import load_evaluation


def first(recipe: Path, arm: str, version: str = "") -> PlannedCampaign:
    spec = load_evaluation(recipe)
    return next(iter(planned(spec, recipe.parent, arm, spec.arms[arm], version)))


def test_a_campaign_is_the_task_with_the_budget_of_all(recipe: Path) -> None:
    spec = load_evaluation(recipe)
    campaigns = list(planned(spec, recipe.parent, "evolve", spec.arms["evolve"]))
    assert [(each.task, each.seed) for each in campaigns] == [("low", 1), ("low", 2), ("high", 1), ("high", 2)]
    made = parse_spec(campaigns[1].text, base=campaigns[1].base)
    assert made.goal.count is None and made.budget.verifications == 5 and made.seed == 2 and made.workers == 1
    assert isinstance(made.proposer, EvolveSpec) and made.proposer.seeds == "seeds.csv", "the seeds of the task"


def test_the_name_tells_what_decides_the_results(recipe: Path) -> None:
    one, changed = first(recipe, "random"), first(recipe, "random", "another hash")
    assert one.name.startswith("random-low-1-") and one.name != changed.name
    assert first(recipe, "random") == one


def test_a_model_proposes_as_the_task_says(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8") + "    trained: {model: mine}\n"
    recipe.write_text(text, encoding="utf-8")
    of_model = first(recipe, "trained")
    proposer = parse_spec(of_model.text, base=of_model.base).proposer
    assert isinstance(proposer, LlmSpec)
    assert (proposer.model, proposer.turns, proposer.tools) == ("mine", 4, ("modify",))


def test_a_task_without_a_model_needs_to_be_told_how_one_proposes(recipe: Path) -> None:
    task = recipe.parent / "low.yaml"
    text = task.read_text(encoding="utf-8")
    start = text.index("proposer:")
    task.write_text(text[:start] + "proposer: {kind: evolve, seeds: seeds.csv}\n" + text[text.index("scheduler") :])
    recipe.write_text(recipe.read_text(encoding="utf-8") + "    trained: {model: mine}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="how a model proposes"):
        first(recipe, "trained")
    proposer = parse_spec(first(recipe, "random").text, base=recipe.parent).proposer
    assert isinstance(proposer, LlmSpec) and proposer.seeds == "seeds.csv"


def test_mistakes_of_the_recipe_are_named_by_line(tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(
        "evaluate:\n  tasks: [a, a]\n  verifications: 1\n  arms: {a: {}, b: {model: 1}}"
    )
    with pytest.raises(SpecError, match=r"(?s):2:14.*twice.*:4:.*states nothing.*:4:.*must be text"):
        load_evaluation(tmp_path / "wrong.yaml")


def test_a_proposer_of_another_package_takes_the_seeds_of_the_task_and_its_own_file(recipe: Path) -> None:
    text = (
        recipe.read_text(encoding="utf-8") + "    mine: {proposer: {kind: plugin, name: mine.search, file: m.json}}\n"
    )
    recipe.write_text(text, encoding="utf-8")
    made = first(recipe, "mine")
    proposer = parse_spec(made.text, base=made.base, candidates=False).proposer
    assert isinstance(proposer, PluginSpec)
    assert (proposer.seeds, proposer.file) == ("seeds.csv", str(recipe.parent / "m.json"))
