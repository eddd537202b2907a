"""Tools that take predictions with an edit: what they hand to the bench, and what they refuse."""

from __future__ import annotations

import json

import pytest

from sciagent.agent.tools.showing_tools_and_tools_of_subject import predicting_tools_of
from sciagent.agent.tools.tool_contract_and_calls import Registry
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from tests.support.memory_bench import MemoryBench

TOOLS = Registry(predicting_tools_of(subject_of("molecule")))
GAP = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}
CALLS = {
    "modify": {"parent": "c1ccccc1", "edit": "add substituent", "what": "fluoro", "where": None},
    "crossover": {"first": "CCCOc1ccccc1", "second": "CCNC(=O)c1ccncc1"},
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_prediction_goes_with_the_proposal(name: str) -> None:
    bench = MemoryBench()
    seen = TOOLS.call(name, json.dumps({**CALLS[name], "predictions": [GAP]}), bench)
    assert seen.ok, seen.text
    assert bench.handed[-1].predicted == {"homo_lumo_gap": {"value": 4.2, "error": 0.5}}
    assert bench.handed[-1].parents


@pytest.mark.parametrize(
    ("wrong", "why"),
    [([GAP, GAP], "predicted twice"), ([{**GAP, "error": -1}], "predictions.0.error"), ([GAP] * 9, "predictions")],
)
def test_a_prediction_that_is_none_is_refused(wrong: list[object], why: str) -> None:
    bench = MemoryBench()
    seen = TOOLS.call("modify", json.dumps({**CALLS["modify"], "predictions": wrong}), bench)
    assert not seen.ok and why in seen.text
    assert not bench.handed


def test_tools_take_predictions_only_where_the_campaign_asks() -> None:
    plain, asked = (Toolbox(("modify", "best"), predict=predict) for predict in (False, True))
    of = [{tool["function"]["name"]: tool["function"]["parameters"] for tool in box.schemas} for box in (plain, asked)]
    assert "predictions" not in of[0]["modify"]["properties"] and "predictions" in of[1]["modify"]["required"]
    assert of[0]["best"] == of[1]["best"]
    assert plain.content(False) == Toolbox(("modify", "best")).content(False)
