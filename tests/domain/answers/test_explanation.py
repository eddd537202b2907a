"""The answer of `sciagent explain` as JSON."""

from __future__ import annotations

from sciagent.domain.answers.candidate_and_value_answers import RungAnswer, json_schema
from sciagent.domain.answers.explanation import Explanation, RefusedText, RungStory


def test_every_model_is_closed_and_every_field_explained() -> None:
    definitions = json_schema(Explanation | RefusedText)["$defs"]
    models = {name: model for name, model in definitions.items() if "properties" in model}
    for name, model in models.items():
        assert model["additionalProperties"] is False, name
        for field, about in model["properties"].items():
            assert about.get("description") or "$ref" in about, f"{name}.{field}"
    optional = {name for name, model in models.items() if set(model["properties"]) != set(model.get("required", ()))}
    assert optional == {"Outlook", "RefusedText"}, "all other fields are always there"


def test_a_rung_s_result_is_the_same_in_explain_and_verify() -> None:
    assert set(RungAnswer.model_fields) - {"values"} <= set(RungStory.model_fields)
