"""The new candidates of episodes with what the ladder, the lot and the control say of them."""

from __future__ import annotations

from pathlib import Path

from sciagent.rewards.candidate_worths_and_episode_rewards import reward_rows
from sciagent.rewards.guard_report import EpisodeReader
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.campaign_state import note_and_take_watermarks
from sciagent.store.database.ledger import Ledger
from tests.support.watched import BETTER, opened, roll_out


def test_the_control_has_answered_for_those_that_its_lot_drew(ledger: Ledger, tmp_path: Path) -> None:
    built = opened(ledger, tmp_path)
    roll_out(built, "better@1", BETTER, 1, 2, 4)
    spec = RewardSpec(prices={"core_seconds": 1e-6}, unsettled="settled")
    with built.ledger.begin() as connection:
        as_of = note_and_take_watermarks.take(connection, [built.row.id])
        rows = reward_rows(built, connection, spec, None, as_of)
        reader = EpisodeReader(built, connection, rows, spec, as_of)
        checked = reader.read(sorted(reader.rewards))
    found = [each for episode in checked.values() for each in episode.candidates]
    assert len(found) == 8 and all(len(episode.turns) == 4 for episode in checked.values())
    scored = [each for each in found if each.score is not None]
    assert 0 < len(scored) < 8
    assert all(each.score == 1.0 and each.state is not None and each.state.payoff == 1.0 for each in scored)
    assert all(each.state is None for each in found if each.score is None), "nobody asks for the others"
    assert all(each.worth == 1.0 and each.settled and each.lot is None for each in found)
