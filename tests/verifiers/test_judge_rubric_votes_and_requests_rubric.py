"""A rubric file: what it must be, and that its content is what counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from sciagent.inputs.yaml_document import MAX_BYTES
from sciagent_verifiers.simulation.judge_rubric_votes_and_requests import Rubric, RubricFile

GOOD = """\
name: additive
goal: A plasticiser that stays where it is.
criteria:
  - name: stable
    question: Does it stand 200 °C in air?
    weight: 2
    scale: {0: "no", 1: "maybe", 2: "yes"}
    gate: 1
  - name: cheap
    question: Could it be made by the ton?
    scale:
      0: "no"
      1: "yes"
"""


class Holder(BaseModel):
    rubric: RubricFile


def read(text: str, folder: Path) -> Rubric:
    (folder / "rubric.yaml").write_text(text, encoding="utf-8")
    return Holder.model_validate({"rubric": "rubric.yaml"}, context={"base": folder}).rubric


def test_it_is_read_whole(tmp_path: Path) -> None:
    rubric = read(GOOD, tmp_path)
    assert [(one.name, one.weight, one.top, one.gate) for one in rubric.criteria] == [
        ("stable", 2.0, 2, 1),
        ("cheap", 1.0, 1, None),
    ]
    assert [one.name for one in rubric.gated] == ["stable"]


def test_what_counts_is_the_content_and_not_the_file(tmp_path: Path) -> None:
    first = read(GOOD, tmp_path)
    again = read(
        "# a remark\n" + GOOD.replace('{0: "no", 1: "maybe", 2: "yes"}', '{2: "yes", 0: "no", 1: "maybe"}'), tmp_path
    )
    assert first.sha256 == again.sha256
    assert read(GOOD.replace("200 °C", "250 °C"), tmp_path).sha256 != first.sha256
    written = first.model_dump(mode="json")
    assert Holder.model_validate({"rubric": written}).rubric == first


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("weight: 2", "weight: 0", "greater than 0"),
        ("weight: 2", "weight: .inf", "finite"),
        ("weight: 2", "wait: 2", "Extra inputs"),
        ("gate: 1", "gate: 3", "its scale ends at 2"),
        ("gate: 1", "gate: 0", "greater than or equal to 1"),
        ('0: "no", 1: "maybe"', '0: "no", 5: "maybe"', "without a gap"),
        ('{0: "no", 1: "maybe", 2: "yes"}', '{0: "no"}', "without a gap"),
        ("name: cheap", "name: stable", 'two criteria are called "stable"'),
        ("name: cheap", "name: Cheap!", "pattern"),
        ("Does it stand 200 °C in air?", "x" * 1001, "at most 1000"),
        ('"maybe"', '"' + "x" * 301 + '"', "at most 300"),
        ("name: additive", "name: [", "rubric.yaml:"),
        ("goal: A", "goal: &a A", "anchors"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, said: str, tmp_path: Path) -> None:
    text = GOOD.replace(old, new)
    assert text != GOOD
    with pytest.raises(ValidationError, match=said):
        read(text, tmp_path)


def test_a_file_that_grows_when_it_is_read_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(ValidationError, match="aliases"):
        read("\n".join(lines), tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"name: " + b"x" * MAX_BYTES, "it may have"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"- a\n- b\n", "a rubric is a mapping"),
        (b"!!python/object/apply:os.system ['true']", "tag"),
        (b"[" * 5000, ":1:1: .*levels deep"),
    ],
)
def test_what_is_no_rubric_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "rubric.yaml").write_bytes(content)
    with pytest.raises(ValidationError, match=said):
        Holder.model_validate({"rubric": "rubric.yaml"}, context={"base": tmp_path})


@pytest.mark.parametrize("path", ["none.yaml", "."])
def test_a_file_that_is_none(path: Any, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="relative paths start at the folder"):
        Holder.model_validate({"rubric": path}, context={"base": tmp_path})
