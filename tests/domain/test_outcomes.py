"""The one table that says what each outcome means."""

from __future__ import annotations

import pytest

from sciagent.domain.outcomes import OUTCOME_RULES, Outcome, OutcomeRule, Reason, Verdict

#            outcome: verdict, evidence, reusable, failure of the rung
TABLE = {
    "ok": (None, True, True, False),
    "refused": ("not_applicable", True, True, False),
    "not_converged": ("inconclusive", True, True, True),
    "implausible": ("inconclusive", True, True, True),
    "unstable": ("inconclusive", True, True, True),
    "timeout": ("inconclusive", False, False, True),
    "out_of_memory": ("inconclusive", False, False, True),
    "crashed": ("error", False, False, False),
    "bad_environment": ("error", False, False, False),
    "lost": ("error", False, False, False),
}


@pytest.mark.parametrize("outcome", Outcome)
def test_the_table(outcome: Outcome) -> None:
    verdict, is_evidence, reusable, failure = TABLE[outcome]
    assert outcome.rule == OutcomeRule(Verdict(verdict) if verdict else None, is_evidence, reusable, failure)


def test_the_table_is_whole() -> None:
    assert set(TABLE) == set(Outcome) == set(OUTCOME_RULES)


def test_only_evidence_is_reused_and_only_the_gate_passes() -> None:
    for rule in OUTCOME_RULES.values():
        assert rule.is_evidence or not rule.reusable
        assert rule.verdict not in (Verdict.PASS, Verdict.FAIL)


def test_reasons_are_names_that_fit_their_column() -> None:
    assert all(r.isidentifier() and r == r.lower() and len(r) <= 60 for r in Reason)
    assert not set(Reason) & set(Outcome)
