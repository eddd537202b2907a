"""Two campaigns are compared by what is the same in both."""

from __future__ import annotations

import pytest

from sciagent.errors import UsageError
from sciagent.report.compare_campaigns import compare
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support import rows

SPEC = {
    "budget": {"core_seconds": 100},
    "terminal": "r2",
    "objectives": [{"property": "homo_lumo_gap", "direction": "window", "accept": [4.0, None]}],
}


def test_rungs_are_paired_by_calculation_and_else_by_label(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        first = rows.campaign(connection, "first", spec=SPEC)
        second = rows.campaign(connection, "second", rungs=4, spec=SPEC | {"seed": 2, "terminal": "r3"})
        with pytest.raises(UsageError, match="the same campaign twice"):
            compare(connection, first, first)
        answer = compare(connection, first, second)
    assert [(pair.rungs, pair.same_calculation) for pair in answer.rungs] == [
        (("r0", "r0"), True),
        (("r1", "r1"), True),
        (("r2", "r2"), True),
        ((None, "r3"), False),
    ]
    assert answer.differences == ('terminal: "r2" -> "r3"', "seed: nothing -> 2") and answer.same_objectives
    [gap] = answer.values
    assert gap.rungs == ("r2", "r3") and not gap.comparable
    assert answer.hits_against_cost[-1].hits == (0, 0) and answer.cost_of_first_hit == (None, None)


def test_an_objective_is_compared_at_the_highest_rung_that_measured_it(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        first = rows.campaign(connection, "first", spec=SPEC)
        second = rows.campaign(connection, "second", spec=SPEC)
        [id_] = rows.entered(connection, first, 1, depth=2)
        rows.entered(connection, second, 1, depth=2)
        evidence.record(connection, [rows.new_evidence(id_, rows.gap(3.5), verifier="toy1")])
        [gap] = compare(connection, first, second).values
    assert gap.rungs == ("r1", "r1") and gap.comparable
    assert [spread.mean for spreads in gap.measured for spread in spreads] == [3.5, 3.5]
