"""The script of demonstrations calls in the form that the tools ask for."""

from __future__ import annotations

import json

import pytest

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, Sampled, Sampling
from sciagent.agent.tools.toolbox import Toolbox
from sciagent.training.rollouts.random_edit_policy import ScriptedPolicy

OPENING = "#1 Cc1ccccc1: score 0.60; xtb: dipole 0.3 D\n#2 c1ccccc1: score 0.20; xtb: dipole 0 D"
FOUND = "new #3: Oc1ccccc1 (modify: add substituent hydroxy) [0a1b2c3d], settled; score 0.912; xtb: dipole 1.3 D"
MESSAGES = (Message("system", ""), Message("user", OPENING), Message("assistant", "{}"), Message("user", FOUND))


def answered(tools: Toolbox, seed: int) -> Message:
    schema = None if tools.schemas else tools.answer_schema
    [answer] = ScriptedPolicy().answers([EpisodeQuestion(MESSAGES, tools.schemas, Sampling(1.0, 100, seed, schema))])
    assert isinstance(answer, Sampled)
    return answer.message


def test_a_structured_answer_is_json_and_names_a_parent_by_its_number() -> None:
    tools = Toolbox(["modify"], structured=True)
    calls = [json.loads(answered(tools, seed).content) for seed in range(400)]
    assert {call["arguments"]["parent"] for call in calls} == {"#1", "#2", "#3"}
    replaced = {call["arguments"]["parent"] for call in calls if call["arguments"]["edit"] == "replace substituent"}
    assert replaced == {"#1", "#3"}, "the phenol has the best score and stays #3; #2 has no substituent"


@pytest.mark.parametrize(
    ("ranks", "parents"), [(False, {"Cc1ccccc1", "c1ccccc1", "Oc1ccccc1"}), (True, {"#1", "#2", "#3"})]
)
def test_a_call_names_a_parent_as_the_tools_take_it(ranks: bool, parents: set[str]) -> None:
    tools = Toolbox(["modify"], structured=False, ranks=ranks)
    found = {json.loads(answered(tools, seed).calls[0].arguments)["parent"] for seed in range(40)}
    assert found == parents
