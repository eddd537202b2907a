"""The tools that make candidates from known ones, with predictions of what will be measured of the child."""

from __future__ import annotations

from dataclasses import replace

from sciagent.agent.tools import making
from sciagent.agent.tools.making import Where
from sciagent.agent.tools.predictions import Predictions, checked_predictions
from sciagent.agent.tools.registry import Observation, ToolContext


def modify(
    run: ToolContext,
    parent: str,
    edit: str,
    what: str | None = None,
    where: Where = None,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Make a new {one} from a known one by a named edit, propose it in the same call, and say what you expect to be
    measured of it: each prediction is scored when the answer comes. `inspect` lists the sites of a {one}; without a
    site, or without saying what to put in, chance chooses among all that fit."""
    run = replace(run, predicted=checked_predictions(predictions))
    return making.modify(run, parent, edit, what, where)


def crossover(
    run: ToolContext,
    first: str,
    second: str,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Join a part of one {one} to a part of another, propose the child in the same call, and say what you expect to
    be measured of it: each prediction is scored when the answer comes. Chance chooses where they are cut."""
    run = replace(run, predicted=checked_predictions(predictions))
    return making.crossover(run, first, second)
