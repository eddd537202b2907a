"""Turns come back with the prompts that the model answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.training.read_turns import AnsweredTurn, TrainingCampaign
from tests.support.conversing import conversing
from tests.support.rewarded import rewarded


@pytest.fixture
def backend() -> str:
    return "sqlite"


def turns_of(ledger: Ledger, name: str, as_of: int = 10**6) -> list[AnsweredTurn]:
    campaign = TrainingCampaign(ledger, name, as_of)
    with ledger.read() as connection:
        episodes = [campaign.episode(connection, row) for row in campaign.episode_rows(connection)]
        return [turn for episode in episodes for turn in campaign.turns(connection, episode)]


def test_a_prompt_is_the_opening_and_all_that_was_said_since(ledger: Ledger, tmp_path: Path) -> None:
    made = conversing(ledger, tmp_path)
    made.talk(1, ["CCO", "C1CC", "CCN"])
    made.verify("CCO", 5.0)
    first, second, third = turns_of(ledger, "small", made.watermark())
    assert [len(turn.prompt) for turn in (first, second, third)] == [2, 4, 6]
    assert third.prompt[:4] == second.prompt and third.prompt[4] == second.answer
    assert "Wanted: 3 ≤ homo_lumo_gap ≤ 9 eV." in first.prompt[1].content
    assert [len(turn.new) for turn in (first, second, third)] == [1, 0, 1]
    assert second.proposals[0].reason == "unparsable"


def test_siblings_share_a_state_until_they_answer(ledger: Ledger, tmp_path: Path) -> None:
    made = conversing(ledger, tmp_path)
    for sibling, text in enumerate(("CCO", "CCN")):
        made.talk(sibling + 1, [text, "CCS"], group=made.group(0, 2) if not sibling else 1, sibling=sibling)
    one, after_one, other, after_other = turns_of(ledger, "small")
    assert one.state == other.state and after_one.state != after_other.state


def test_later_turns_are_not_read(ledger: Ledger, tmp_path: Path) -> None:
    made = conversing(ledger, tmp_path)
    made.talk(1, ["CCO"])
    made.verify("CCO", 5.0)
    then = made.watermark()
    made.talk(2, ["CCN"])
    made.verify("CCN", 5.0)
    assert len(turns_of(ledger, "small", then)) == 1 and len(turns_of(ledger, "small", made.watermark())) == 2


def test_equal_goals_are_one_task(ledger: Ledger, tmp_path: Path) -> None:
    tasks = []
    for name, window in (("one", (3.0, 9.0)), ("two", (3.0, 9.0)), ("three", (3.0, 8.0))):
        conversing(ledger, tmp_path / name, name, window).talk(1, ["CCO"])
        [turn] = turns_of(ledger, name)
        tasks.append(turn.episode.task)
    assert tasks[0] == tasks[1] != tasks[2]


def test_a_campaign_of_scripts_has_no_turns(ledger: Ledger, tmp_path: Path) -> None:
    rewarded(ledger, tmp_path)
    assert turns_of(ledger, "small") == []
