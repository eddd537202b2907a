"""Keys of candidates, evidence and campaign files, and the JSON of answers, are those that were agreed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.interfaces import SCHEMAS, candidate_keys, evidence_keys
from tests.support.typed import invoked

AGREED = json.loads(Path(__file__).with_name("interfaces.json").read_text(encoding="utf-8"))
"""What `python -m tests.support.interfaces` printed when it was last changed on purpose."""


def test_candidates_have_the_keys_that_ledgers_hold() -> None:
    assert candidate_keys() == AGREED["candidates"]


def test_evidence_has_the_keys_that_ledgers_hold() -> None:
    assert evidence_keys() == AGREED["evidence"]


@pytest.mark.parametrize("what", SCHEMAS)
def test_files_and_answers_have_the_schema_that_others_rely_on(what: str) -> None:
    assert json.loads(invoked(["schema", what]).stdout) == AGREED["schemas"][what]
