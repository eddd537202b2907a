"""The cost of a structure: as declared, and after three jobs that took twice as much."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.campaign.people.declared_and_learnt_costs import costs_of
from sciagent.campaign.people.verify_calculate_and_add import rungs_for
from sciagent.chemistry.molecule import parse_molecule
from sciagent.store.database.ledger import Ledger


def test_three_jobs_teach_what_the_next_one_costs(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """With three jobs at twice the declared cost, the next one is expected within a tenth of that."""
    rung = rungs_for("xtb.singlepoint", {}, Path())[-1]
    [before] = costs_of(rung, ["CCO"], ledger)
    declared = rung.verifier.cost(parse_molecule("CCO"))["core_seconds"]
    assert before.declared["core_seconds"] == before.expected_core_seconds == declared
    assert (before.earlier_jobs, before.ratio) == (0, 1.0)
    seen: list[tuple[object, ...]] = []

    def ratios(connection: object, *computation: object) -> list[float]:
        seen.append(computation)
        return [2.0, 2.0, 2.0]

    monkeypatch.setattr("sciagent.campaign.people.declared_and_learnt_costs.cost_ratios", ratios)
    [after] = costs_of(rung, ["CCO"], ledger)
    assert after.earlier_jobs == 3
    assert after.expected_core_seconds == pytest.approx(2 * declared, rel=0.1)
    verifier = rung.verifier
    assert seen == [(verifier.name, verifier.version, verifier.settings_hash)]
    assert costs_of(rung, ["CCO"], None)[0].ratio == 1.0
