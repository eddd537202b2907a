"""Each rung of a campaign and one candidate: verdict, cost and evidence, worked out again from the ledger."""

from __future__ import annotations

import pytest

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.report import candidate_history
from sciagent.report.explain_candidate import rung_stories
from sciagent.store.campaign_state import campaigns
from sciagent.store.results import candidates
from sciagent.verification import verifier_registry
from tests.report.test_explain_candidate import built  # noqa: F401
from tests.support.rows import alkanes


def stories(built: Built):  # type: ignore[no-untyped-def]  # noqa: F811
    with built.ledger.read() as connection:
        ladder = campaigns.rungs(connection, built.row.id)
        key = alkanes(1)[0].key
        id_ = candidates.ids_of(connection, [key])[key]
        return rung_stories(connection, built.row, ladder, id_, candidate_history.evidence(connection, id_))


def test_a_rung_is_told_with_its_verdict_and_its_evidence(built: Built) -> None:  # noqa: F811
    low, top = stories(built)
    assert (low.rung, low.outcome, low.verdict, low.reason) == ("low", "ok", "fail", "below_window")
    assert low.gate == ("1 ≤ homo_lumo_gap eV",) and not low.reused and low.core_seconds == 2.0
    assert low.evidence is not None and [value.value for value in low.evidence.values] == [0.5]
    assert (top.outcome, top.verdict, top.evidence, top.is_terminal) == (None, None, None, True)
    assert top.objectives == ("4 ≤ homo_lumo_gap eV",)


def test_a_verifier_that_is_gone_does_not_stand_in_the_way(
    built: Built,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = stories(built)
    monkeypatch.setattr(verifier_registry, "_points", dict)
    verifier_registry.verifier_class.cache_clear()
    after = stories(built)
    assert after[0] == before[0]
    assert after[1].objectives == (), "nobody knows what the terminal rung measures"
