"""The plan of a campaign as JSON."""

from __future__ import annotations

import json

import jsonschema

from sciagent.domain.answers.candidate_and_value_answers import json_schema
from sciagent.domain.answers.plan import Plan
from tests.docs.pages import ROOT, blocks


def test_the_example_in_the_docs_has_the_schema_of_a_plan() -> None:
    [block] = blocks("json plan", ROOT / "docs" / "cli.md")
    jsonschema.validate(json.loads(block.text), json_schema(Plan))
