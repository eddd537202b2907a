"""The one table that says what each outcome means."""

from __future__ import annotations

import pytest

from sciagent.domain.outcomes import OUTCOME_RULES, Outcome, OutcomeRule, Reason, Verdict

#            outcome: verdict, evidence
TABLE = {
    "ok": (None, True),
    "refused": ("not_applicable", True),
    "not_converged": ("inconclusive", True),
    "implausible": ("inconclusive", True),
    "unstable": ("inconclusive", True),
    "timeout": ("inconclusive", False),
    "out_of_memory": ("inconclusive", False),
    "crashed": ("error", False),
    "bad_environment": ("error", False),
    "lost": ("error", False),
}


@pytest.mark.parametrize("outcome", Outcome)
def test_the_table(outcome: Outcome) -> None:
    verdict, is_evidence = TABLE[outcome]
    assert outcome.rule == OutcomeRule(Verdict(verdict) if verdict else None, is_evidence)


def test_the_table_is_whole() -> None:
    assert set(TABLE) == set(Outcome) == set(OUTCOME_RULES)


def test_only_the_gate_passes_and_fails() -> None:
    for rule in OUTCOME_RULES.values():
        assert rule.verdict not in (Verdict.PASS, Verdict.FAIL)


def test_reasons_are_names_that_fit_their_column() -> None:
    assert all(r.isidentifier() and r == r.lower() and len(r) <= 60 for r in Reason)
    assert not set(Reason) & set(Outcome)
