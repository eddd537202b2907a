from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.errors import SpecError
from sciagent.rewards.reward_spec import RewardSpec, load_rewards


def test_mistakes_in_a_file_are_named_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices:\n  core_second: 0.001\nunsetled: robust\n")
    with pytest.raises(SpecError) as caught:
        load_rewards(file)
    text = str(caught.value)
    assert "core_seconds" in text
    assert 'did you mean "unsettled"' in text
    file.write_text("prices: {core_seconds: 0.0}\n")
    with pytest.raises(SpecError, match="waste would cost nothing"):
        load_rewards(file)


def test_a_limit_on_promises_would_bias_the_robust_estimate(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices: {core_seconds: 0.001}\nunsettled: robust\nunsettled_limit: 0.5\n")
    with pytest.raises(SpecError, match="unsettled_limit: a limit would bias"):
        load_rewards(file)


def test_a_description_from_before_a_key_keeps_its_hash() -> None:
    before = "89b69f9749db3d5293a457e55061ba512739ca6241cc8fbd3f06d19ddda3baf5"
    assert RewardSpec(prices={"core_seconds": 0.001}).hash == before


@pytest.mark.parametrize(("text", "what"), [("", "the file is empty"), ("- settled\n", "the file holds a list")])
def test_a_file_of_another_shape_is_told_what_opens_one(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text(text)
    with pytest.raises(SpecError, match=f"{what}; a description of rewards is a mapping that opens with `unsettled: "):
        load_rewards(file)


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "rewards.yaml"
    file.write_text("prices: {core_seconds: 0.001}\n")
    spec = load_rewards(file)
    assert spec.hash == load_rewards(file).hash
    assert spec.model_copy(update={"unsettled": "robust"}).hash != spec.hash
