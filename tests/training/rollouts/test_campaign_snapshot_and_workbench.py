"""The snapshot that groups see: of the whole campaign, or of its seeds alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.errors import UsageError
from sciagent.training.rollouts import campaign_snapshot_and_workbench
from sciagent.verification.sandbox.host import Worker
from tests.training.rollouts.rolled import PLAN, let_go, runner_of, to_the_end

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_groups_from_the_seeds_see_the_same_however_much_the_campaign_has_found(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        now = campaign_snapshot_and_workbench.take(connection, built)
        seeds = campaign_snapshot_and_workbench.take(connection, built, "seeds")
    assert replace(seeds, left={}) == replace(now, left={}), "there are only seeds so far"
    assert seeds.keys == now.keys and seeds.left == {"llm_tokens": 1e6, "proposals": 1000.0}
    runner = runner_of(built, worker)
    to_the_end(runner, runner.opened(PLAN))
    let_go(built)
    with built.ledger.read() as connection:
        grown = campaign_snapshot_and_workbench.take(connection, built)
        again = campaign_snapshot_and_workbench.take(connection, built, "seeds")
    assert replace(again, watermark=seeds.watermark) == seeds and again.keys == seeds.keys
    assert grown.seq > now.seq and grown.digest != now.digest
    runner = runner_of(built, worker)
    [group] = runner.opened(replace(PLAN, begins="seeds"))
    assert group.row.task["begins"] == "seeds" and group.row.snapshot == seeds.to_json()
    assert [(each.row.id, each.snapshot) for each in runner.continued()] == [(group.row.id, group.snapshot)]


def test_groups_see_some_of_the_seeds_by_their_own_seed(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        whole, drawn, again, other = (
            campaign_snapshot_and_workbench.take(connection, built, begins, seed)
            for begins, seed in (("seeds", 0), ("seeds:1", 0), ("seeds:1", 0), ("seeds:1", 1))
        )
    assert drawn == again and drawn.drawn != other.drawn and len(drawn.keys) == len(drawn.board) == 1
    assert {row.key for row in drawn.board} == drawn.keys < whole.keys
    assert {past["key"] for past in drawn.recent} == drawn.keys, "the others are not in the history"
    missing = next(row for row in whole.board if row.key not in drawn.keys)
    assert f" {missing.text}:" not in drawn.digest
    runner = runner_of(built, worker)
    groups = runner.opened(replace(PLAN, groups=6, begins="seeds:1"))
    assert len({group.snapshot.drawn for group in groups}) == 2
    assert [each.snapshot for each in runner.continued()] == [each.snapshot for each in groups]


@pytest.mark.parametrize("text", ["later", "seeds:0", "seeds:1000", "seeds:x", "8"])
def test_a_beginning_that_is_none_is_an_error(built: Built, text: str) -> None:
    with built.ledger.read() as connection, pytest.raises(UsageError, match="seeds:N"):
        campaign_snapshot_and_workbench.take(connection, built, text)
