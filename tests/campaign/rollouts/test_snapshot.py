"""The snapshot that groups see: of the whole campaign, or of its seeds alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sciagent.campaign.core.build import Built
from sciagent.campaign.rollouts import snapshot
from sciagent.verification.sandbox.host import Worker
from tests.campaign.rollouts.rolled import PLAN, let_go, runner_of, to_the_end

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def test_groups_from_the_seeds_see_the_same_however_much_the_campaign_has_found(built: Built, worker: Worker) -> None:
    with built.ledger.read() as connection:
        now = snapshot.take(connection, built)
        seeds = snapshot.take(connection, built, "seeds")
    assert replace(seeds, left={}) == replace(now, left={}), "there are only seeds so far"
    assert seeds.keys == now.keys and seeds.left == {"llm_tokens": 1e6}
    runner = runner_of(built, worker)
    to_the_end(runner, runner.opened(PLAN))
    let_go(built)
    with built.ledger.read() as connection:
        grown = snapshot.take(connection, built)
        again = snapshot.take(connection, built, "seeds")
    assert replace(again, watermark=seeds.watermark) == seeds and again.keys == seeds.keys
    assert grown.seq > now.seq and grown.digest != now.digest
    runner = runner_of(built, worker)
    [group] = runner.opened(replace(PLAN, begins="seeds"))
    assert group.row.task["begins"] == "seeds" and group.row.snapshot == seeds.to_json()
    assert [row.id for row in (each.row for each in runner.continued())] == [group.row.id]
