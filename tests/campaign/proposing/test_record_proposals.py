"""A turn's proposals go through the fast rungs at once and into the ledger together."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.proposing.record_proposals import CampaignWorkbench
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.store.database import tables as t
from sciagent.verification.sandbox.host import Worker
from tests.campaign.proposing.opened import built, worker

__all__ = ["built", "worker"]
pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def rows(built: Built, table: sa.Table) -> list[Any]:
    with built.ledger.read() as connection:
        return list(connection.execute(sa.select(table)).mappings())


def commit(built: Built, bench: CampaignWorkbench) -> None:
    with built.ledger.begin() as connection:
        bench.commit(connection, None)


def test_a_candidate_is_new_once_and_what_cannot_be_read_is_refused(built: Built, worker: Worker) -> None:
    bench = CampaignWorkbench(built, worker, "test")
    answers = bench.propose([ProposalIn(text) for text in ("CCO", "OCC", "C((")])
    assert [answer.status for answer in answers] == ["new", "duplicate", "refused"]
    assert answers[0].standing and answers[0].key == answers[1].key and answers[2].reason == "unparsable"
    assert rows(built, t.proposal) == [], "nothing is written before the commit"
    assert bench.known(parse_molecule("OCC")) and (bench.n_proposals, bench.n_new) == (3, 1)
    commit(built, bench)
    assert [row["status"] for row in rows(built, t.proposal)] == ["new", "duplicate", "refused"]
    assert [row["novelty"] and row["novelty"]["candidate"] for row in rows(built, t.proposal)] == [True, False, None]
    assert len(rows(built, t.campaign_candidate)) == len(rows(built, t.evidence)) == 1


def test_a_candidate_that_came_between_is_a_duplicate(built: Built, worker: Worker) -> None:
    first, second = (CampaignWorkbench(built, worker, "test") for _ in range(2))
    for bench in (first, second):
        assert bench.propose([ProposalIn("CCO")])[0].status == "new"
    commit(built, first)
    commit(built, second)
    assert [row["status"] for row in rows(built, t.proposal)] == ["new", "duplicate"]
    assert len(rows(built, t.campaign_candidate)) == 1


def test_a_child_is_written_with_its_known_parents(built: Built, worker: Worker) -> None:
    bench = CampaignWorkbench(built, worker, "test")
    bench.propose(
        [
            ProposalIn("CCO"),
            ProposalIn("CCN", parents=(parse_molecule("OCC").key, "C((", parse_molecule("CCC").key), operation="swap"),
        ]
    )
    commit(built, bench)
    ethanol, amine = (row["id"] for row in rows(built, t.candidate))
    [parent] = rows(built, t.candidate_parent)
    assert (parent["candidate_id"], parent["parent_id"], parent["operation"]) == (amine, ethanol, "swap")
