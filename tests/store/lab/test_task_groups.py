"""The groups of the list are read by indexes, whatever is asked for."""

from __future__ import annotations

from itertools import product

import pytest

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.domain.people import Rights, Role
from sciagent.store.database.ledger import Ledger
from sciagent.store.lab import blind_measurements
from sciagent.store.lab.blind_measurements import BlindMethod, Viewer
from sciagent.store.lab.task_groups import ListedRung, Searched, TaskGroup, TaskOrder, TaskQuery
from sciagent.store.lab.tasks import rungs_with_tasks
from tests.support import rows
from tests.support.query_plans import plan_of, scans

BEN = Viewer("ben", Rights(roles={None: Role.LAB}))
RUNG = ListedRung(
    id=1, campaign_id=1, campaign="toys", name="lab", properties=("gap",), needs_approval=True, price=4.0, slot_at=None
)
BLIND = BlindMethod(Computation("lab.measurement", "1", "0" * 64), {1: 1, 2: 1}, frozenset({1}))


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(("group", "order"), product(TaskGroup, TaskOrder))
def test_no_page_of_a_group_reads_a_whole_table(ledger: Ledger, group: TaskGroup, order: TaskOrder) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    for searched in (None, Searched(4, [1, 2])):
        query = TaskQuery(BEN, [RUNG], searched, order, [BLIND])
        plan = plan_of(ledger, lambda connection, asked=query: asked.page(connection, group, 0, 25))
        assert scans(plan) == [], plan


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_what_is_blind_is_found_by_indexes(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        rows.campaign(connection)
    plan = plan_of(ledger, lambda connection: blind_measurements.unseen_answers(connection, BEN, [1, 2]))
    plan += plan_of(ledger, rungs_with_tasks)
    # the rungs of the ledger are few
    assert [line for line in scans(plan) if line != "SCAN rung"] == [], plan
