"""The tools that make molecules from known ones, with predictions of what will be measured of the child."""

from __future__ import annotations

from dataclasses import replace

from sciagent.agent.tools import molecules
from sciagent.agent.tools.molecule_references import Reference
from sciagent.agent.tools.molecules import Edit, Predictions, What, Where, cases_of_modify, checked_predictions
from sciagent.agent.tools.registry import Observation, Tool, ToolContext


def modify(
    run: ToolContext,
    parent: Reference,
    edit: Edit,
    what: What = None,
    where: Where = None,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Make a new molecule from a known one by a named edit, propose it in the same call, and say what you expect to be
    measured of it: each prediction is scored when the answer comes. `inspect` lists the sites of a molecule; without a
    site, or without saying what to put in, chance chooses among all that fit."""
    run = replace(run, predicted=checked_predictions(predictions))
    return molecules.modify(run, parent, edit, what, where)


def crossover(
    run: ToolContext,
    first: Reference,
    second: Reference,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Join a part of one molecule to a part of another, propose the child in the same call, and say what you expect to
    be measured of it: each prediction is scored when the answer comes. Chance chooses where they are cut."""
    run = replace(run, predicted=checked_predictions(predictions))
    return molecules.crossover(run, first, second)


PREDICTION = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}
PREDICTING = (
    Tool(
        modify,
        {"parent": "#1", "edit": "add substituent", "what": "fluoro", "where": None, "predictions": [PREDICTION]},
        cases_of_modify,
    ),
    Tool(crossover, {"first": "#1", "second": "#2", "predictions": [PREDICTION]}),
)
