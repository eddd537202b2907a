"""Options that are the fields of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from sciagent.cli.training_options import RowsOptions, RunOptions, teacher_share, with_options
from sciagent.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Size:
    width: Annotated[int, typer.Option("--width", min=1)]
    colour: Annotated[str | None, typer.Option("--colour")] = None


def test_a_command_has_an_option_for_each_field() -> None:
    app, given = typer.Typer(), []

    @app.command()
    @with_options
    def draw(name: str, *, size: Size, twice: bool = False) -> None:
        """Draw it."""
        given.append((name, size, twice))

    runner = CliRunner()
    assert runner.invoke(app, ["box", "--width", "3", "--twice"]).exit_code == 0
    assert given == [("box", Size(width=3), True)]
    assert "Draw it." in (shown := runner.invoke(app, ["--help"]).output) and "--colour" in shown
    assert runner.invoke(app, ["box"]).exit_code == runner.invoke(app, ["box", "--width", "0"]).exit_code == 2


@pytest.mark.parametrize(("given", "expected"), [(None, 2e-5), (0.1, 0.1), (0.0, 0.0)])
def test_a_run_has_the_learning_rate_of_its_training_unless_one_is_stated(given: float | None, expected: float) -> None:
    assert RunOptions(model="m", out=Path("o"), learning_rate=given).step_settings(2e-5).learning_rate == expected


def test_the_new_model_is_named_after_the_folder() -> None:
    run = RowsOptions(model="m", out=Path("runs/first"), lora=4)
    wish = run.wish("grpo", Path("rows"), run.step_settings(1e-6), kl_budget=0.5)
    assert (wish.name, wish.rank, wish.kl_budget, wish.rows) == ("first", 4, 0.5, Path("rows"))


def test_a_teacher_may_have_a_weight() -> None:
    assert teacher_share("large") == ("large", 1.0) and teacher_share("large=0.25") == ("large", 0.25)
    for text in ("=1", "large=0", "large=much", "large=nan"):
        with pytest.raises(UsageError, match="NAME=WEIGHT"):
            teacher_share(text)
