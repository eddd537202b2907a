"""The options of training come from the fields of its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from sciagent.cli import dataset, train
from sciagent.cli.options_from_settings import options_of, settings_of, with_options
from sciagent.errors import UsageError
from sciagent.training.recipes.recipe_file import AnswersStage, DistillStage, HintedStage, LiveStage, RowsStage
from sciagent.training.recipes.run_stage import StageRun, live_settings, rows_settings
from sciagent.training.settings import DatasetSettings, LiveSettings, TaskShare, TrainingSettings

RUN = StageRun("tiny", Path("run"), "new", 3, 1)
OF_RUN = ("--model", "tiny", "--out", "run", "--name", "new", "--seed", "3", "--threads", "1")
IN_PYTHON = {"model": "tiny", "out": Path("run"), "name": "new", "seed": 3, "threads": 1}
PYTHON_ONLY = {"training", "rows", "constants", "kind", "groups", "command"}


def stated_by(arguments: tuple[str, ...], *models: Any, kind: str) -> Mapping[str, Any]:
    """Returns what options state for a command that has those of the models."""
    app = typer.Typer()
    found: list[Mapping[str, Any]] = []

    @app.command()
    @with_options(*models, kind=kind)
    def command(*, stated: Mapping[str, Any]) -> None:
        found.append(stated)

    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return found[0]


@pytest.mark.parametrize("model", [TrainingSettings, LiveSettings, DatasetSettings])
def test_every_setting_has_an_option(model: Any) -> None:
    commands = [*get_command(train.app).commands.values(), *get_command(dataset.app).commands.values()]  # type: ignore[attr-defined]
    typed = {name for command in commands for option in command.params for name in option.opts}
    assert {name for option in options_of(model) for name in option.names} <= typed
    with_option = {option.path[0] for option in options_of(model)}
    assert set(model.model_fields) - with_option <= PYTHON_ONLY


ROWS_VALUES: dict[str, Any] = {"learning_rate": 1e-3, "lora": 4, "epochs": 2, "rows_per_step": 8, "save_every": 5}
ROWS_OPTIONS = ("--learning-rate", "1e-3", "--lora", "4", "--epochs", "2", "--rows-per-step", "8", "--save-every", "5")
TAUGHT: dict[str, Any] = {"kl": 0.1, "kl_budget": 0.5, "teachers": {"large": 1.0, "small": 0.5}}
TAUGHT_OPTIONS = ("--kl", "0.1", "--kl-budget", "0.5", "--teacher", "large", "--teacher", "small=0.5")


@pytest.mark.parametrize(
    ("stage", "training", "values", "options"),
    [
        (AnswersStage, "sft", ROWS_VALUES, ROWS_OPTIONS),
        (HintedStage, "hindsight", {"steps": 3, "kl": 0.1}, ("--steps", "3", "--kl", "0.1")),
        (DistillStage, "distill", ROWS_VALUES | TAUGHT, (*ROWS_OPTIONS, *TAUGHT_OPTIONS)),
    ],
)
def test_recipe_options_and_python_give_equal_settings_of_rows(
    stage: type[RowsStage], training: Any, values: dict[str, Any], options: tuple[str, ...]
) -> None:
    kind = {"hindsight": "hinted"}.get(training, training)
    by_recipe = rows_settings(stage.model_validate({"kind": kind, **values}), Path("rows"), RUN)
    in_python = TrainingSettings(training=training, rows=Path("rows"), **IN_PYTHON, **values)
    stated = stated_by((*OF_RUN, *options), TrainingSettings, kind=training)
    by_options = settings_of(TrainingSettings, stated, training=training, rows=Path("rows"))
    assert by_recipe == in_python == by_options
    assert by_recipe.model_fields_set == in_python.model_fields_set == by_options.model_fields_set


LIVE_VALUES: dict[str, Any] = {
    "steps": 5,
    "groups": 2,
    "siblings": 3,
    "turns": 4,
    "from": "seeds:8",
    "further": 0,
    "patience": 60.0,
    "guards": {"control_gap": 0.2, "unsettled": None},
    "endpoint": "http://localhost:8000/v1",
    "lora": 4,
    "ray": {"actors": 2, "address": "10.0.0.1:6379"},
    "entropy": 0.01,
}
LIVE_OPTIONS = (
    *("--steps", "5", "--groups", "2", "-s", "3", "--turns", "4", "--from", "seeds:8", "--further", "0"),
    *("--patience", "60", "--guard", "control_gap=0.2", "--guard", "unsettled=off", "--entropy", "0.01"),
    *("--endpoint", "http://localhost:8000/v1", "--lora", "4", "--actors", "2", "--ray-address", "10.0.0.1:6379"),
)
GRPO: dict[str, Any] = {"credit": "outcome", "lag": 2, "ahead": 1}
GRPO_OPTIONS = ("--credit", "outcome", "--lag", "2", "--ahead", "1")
PPO: dict[str, Any] = {
    "critic": {"passes": 2, "decay": 0.5, "discount": 0.9, "learning_rate": 0.01, "warmup": 50, "clip": 0.5}
}
PPO_OPTIONS = (
    *("--passes", "2", "--decay", "0.5", "--discount", "0.9"),
    *("--value-learning-rate", "0.01", "--critic-warmup", "50", "--value-clip", "0.5"),
)


@pytest.mark.parametrize(
    ("training", "values", "options"),
    [("grpo", LIVE_VALUES | GRPO, LIVE_OPTIONS + GRPO_OPTIONS), ("ppo", LIVE_VALUES | PPO, LIVE_OPTIONS + PPO_OPTIONS)],
)
def test_recipe_options_and_python_give_equal_settings_of_a_live_run(
    training: Any, values: dict[str, Any], options: tuple[str, ...]
) -> None:
    tasks = [TaskShare(file=Path("a.yaml")), TaskShare(file=Path("b.yaml"), weight=2.0)]
    rewards = Path("rewards.yaml")
    by_recipe = live_settings(LiveStage.model_validate({"kind": training, **values}), tasks, rewards, RUN)
    in_python = LiveSettings(training=training, tasks=tasks, rewards=rewards, **IN_PYTHON, **values)
    typed = (*OF_RUN, *options, "--rewards", "rewards.yaml", "--task", "b.yaml=2")
    stated = stated_by(typed, TrainingSettings, LiveSettings, kind=training)
    sources = [tasks[0], *stated["tasks"]]
    by_options = settings_of(LiveSettings, stated, TrainingSettings, training=training, tasks=sources)
    assert by_recipe == in_python == by_options
    assert by_recipe.model_fields_set == in_python.model_fields_set == by_options.model_fields_set


@pytest.mark.parametrize(
    ("training", "options", "message"),
    [
        ("ppo", ("--credit", "rtg"), "--credit: has no effect for ppo; it counts for grpo"),
        ("ppo", ("--lag", "2"), "--lag: has no effect for ppo; it counts for grpo"),
        ("grpo", ("--passes", "2", "--decay", "0.5"), "--passes, --decay: has no effect for grpo; it counts for ppo"),
        ("grpo", ("--epochs", "2"), "--epochs is for a folder of rows, and has no effect on campaigns"),
        ("grpo", ("--ray-address", "10.0.0.1:6379"), "--actors: required, and missing"),
        ("grpo", ("--from", "tomorrow"), "--from: "),
        ("grpo", ("--endpoint", "http://localhost:8000/v1"), "--endpoint: it samples from adapters"),
    ],
)
def test_a_wrong_option_is_named_as_it_was_typed(training: Any, options: tuple[str, ...], message: str) -> None:
    stated = stated_by((*OF_RUN, *options, "--rewards", "r.yaml"), TrainingSettings, LiveSettings, kind=training)
    with pytest.raises(UsageError, match=message):
        settings_of(LiveSettings, stated, TrainingSettings, training=training, tasks=[TaskShare(file=Path("a.yaml"))])


def test_campaigns_need_a_description_of_the_rewards() -> None:
    stated = stated_by(OF_RUN, TrainingSettings, LiveSettings, kind="grpo")
    with pytest.raises(UsageError, match="--rewards: required, and missing"):
        settings_of(LiveSettings, stated, TrainingSettings, tasks=[TaskShare(file=Path("a.yaml"))])


def test_an_option_has_the_bounds_and_the_description_of_its_field() -> None:
    app = typer.Typer()

    @app.command()
    @with_options(TrainingSettings, LiveSettings, kind="ppo")
    def draw(shape: Annotated[str, typer.Argument()], *, stated: Mapping[str, Any]) -> None:
        """Draw it."""

    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "Draw it." in shown and "Longest wait of a step for paid rungs, in seconds. [default: 3600.0]" in shown
    assert "For campaigns: Number of steps. (default: 20)" in shown and "2<=x<=1000" in shown
    assert "--passes" in shown and "--credit" not in shown, "an option that does not count is hidden"
    assert CliRunner().invoke(app, ["box", *OF_RUN, "--siblings", "1"]).exit_code == 2
    assert CliRunner().invoke(app, ["box", *OF_RUN[2:]]).exit_code == 2, "the model is required"
