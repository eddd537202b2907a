"""What a report asks of proposers and their episodes: it adds up to what was spent, on both databases; no scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.progress_and_comparisons import progress_by_proposer
from sciagent.store.views.report_candidates import campaign_members
from sciagent.store.views.report_episodes_and_proposers import (
    costs_of_jobs,
    episode_count,
    episode_numbers,
    episode_outcomes,
    episode_proposals,
    episodes_behind_the_best,
    episodes_page,
    latest_episodes,
    predictions_made,
    proposal_counts,
    results_by_proposer,
    turn_rows,
    turns_by_proposer,
)
from tests.support.query_plans import plan_of, scans
from tests.support.talked import Talker, talked


@pytest.fixture
def made(ledger: Ledger, tmp_path: Path) -> Talker:
    return talked(ledger, tmp_path, episodes=4)


def last_rung(connection: Any, row: Any) -> Any:
    return campaigns.rungs(connection, row.id)[-1]


def test_proposals_are_counted_by_who_made_them(made: Talker) -> None:
    with made.ledger.read() as connection:
        found = proposal_counts(connection, made.row)
        total = campaign_counts_and_remarks.counts(connection, made.row).proposals
    assert sum(one.n for one in found) == total == 12
    assert {(one.proposer, one.status, one.readable): one.n for one in found} == {
        ("alpha", "new", True): 4,
        ("beta", "new", True): 4,
        ("evolve", "new", True): 1,
        (None, "new", True): 1,
        ("evolve", "duplicate", True): 1,
        ("evolve", "refused", False): 1,
    }


def test_what_each_brought(made: Talker) -> None:
    made.place(0, "settled", 2, in_seeds=True)  # a hit of alpha that nobody discovered
    with made.ledger.read() as connection:
        found = {one.proposer: one[1:] for one in results_by_proposer(connection, made.row, 1)}
        hits = campaign_counts_and_remarks.hits(connection, made.row.id).hits
    assert {who: one[:3] for who, one in found.items()} == {
        "alpha": (4, 3, 1),
        "beta": (2, 0, 0),
        "evolve": (1, 1, 0),
        None: (0, 0, 0),
    }
    assert sum(one[1] for one in found.values()) == hits
    assert found[None][3] is None and found["evolve"][3] == pytest.approx(0.975)


def test_every_cost_of_jobs_and_turns_has_its_proposer(made: Talker) -> None:
    with made.ledger.read() as connection:
        jobs = costs_of_jobs(connection, made.row)
        turns = turns_by_proposer(connection, made.row)
        spent = campaign_counts_and_remarks.spent(connection, made.row.id)
    by = {(who, resource): amount for who, resource, amount in jobs}
    assert by["alpha", "core_seconds"] == pytest.approx(4 * 62.0)
    own = {one.proposer: one for one in turns}
    assert own["beta"].costs == pytest.approx({"llm_tokens": 600.0, "core_seconds": 2.0})
    assert (own["beta"].episodes, own["beta"].turns, own["evolve"].episodes) == (2, 4, 1)
    for resource in ("core_seconds", "llm_tokens"):
        all_ = sum(a for (_, r), a in by.items() if r == resource) + sum(one.costs.get(resource, 0.0) for one in turns)
        assert all_ == pytest.approx(spent[resource])


def test_only_predictions_are_looked_at(made: Talker) -> None:
    with made.ledger.read() as connection:
        found = list(predictions_made(connection, made.row))
        spans = episode_numbers(connection, made.row)
    assert len(found) == 8 and {one.proposer for one in found} == {"alpha", "beta"}
    assert [one.episode for one in found] == [1, 1, 2, 2, 3, 3, 4, 4]
    assert spans == {"alpha": (1, 3), "beta": (2, 4), "evolve": (0, 0)}


HOT: dict[str, Callable[[Any, Any], object]] = {
    "handed": proposal_counts,
    "brought": lambda c, r: results_by_proposer(c, r, 1),
    "costs_of_jobs": costs_of_jobs,
    "turns": turns_by_proposer,
    "progress": lambda c, r: progress_by_proposer(c, r, last_rung(c, r)),
    "predictions": lambda c, r: list(predictions_made(c, r)),
    "episode_numbers": episode_numbers,
    "count": episode_count,
    "page": lambda c, r: episodes_page(c, r, 0, 10),
    "latest": lambda c, r: latest_episodes(c, r, 10),
    "behind_the_best": lambda c, r: episodes_behind_the_best(c, r, 10),
    "outcomes": lambda c, r: episode_outcomes(c, r, [1, 2]),
    "turns of one": lambda c, r: turn_rows(c, 1, 10),
    "proposals of turns": lambda c, r: episode_proposals(c, 1, 10),
    "members": lambda c, r: campaign_members(c, r, [1, 2]),
}
IN_ORDER = {"page", "latest", "behind_the_best", "turns of one"}  # and nothing is left to sort


@pytest.fixture(scope="module")
def kept(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talker]:
    """The same on SQLite, made once, to be read only."""
    folder = tmp_path_factory.mktemp("talked")
    path = folder / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    ledger = Ledger(str(path), artifacts=folder / "artifacts")
    yield talked(ledger, folder, episodes=2)
    ledger.close()


@pytest.mark.parametrize("name", HOT)
def test_nothing_is_scanned(kept: Talker, name: str) -> None:
    plan = plan_of(kept.ledger, lambda connection: HOT[name](connection, kept.row))
    assert scans(plan) == [], plan
    if name in IN_ORDER:
        assert not any("TEMP B-TREE" in line for line in plan), plan
