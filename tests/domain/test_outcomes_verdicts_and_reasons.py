"""The one table that says what each outcome means."""

from __future__ import annotations

import pytest

from sciagent.domain.outcomes_verdicts_and_reasons import OUTCOME_RULES, Outcome, OutcomeRule, Reason, Verdict

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
    "not_obtained": ("fail", True),
}


@pytest.mark.parametrize("outcome", Outcome)
def test_the_table(outcome: Outcome) -> None:
    verdict, is_evidence = TABLE[outcome]
    teaches_cost = outcome in (Outcome.OK, Outcome.NOT_CONVERGED, Outcome.IMPLAUSIBLE, Outcome.UNSTABLE)
    assert outcome.rule == OutcomeRule(Verdict(verdict) if verdict else None, is_evidence, teaches_cost)


def test_the_table_is_whole() -> None:
    assert set(TABLE) == set(Outcome) == set(OUTCOME_RULES)


def test_only_the_gate_passes_and_fails_unless_people_could_not_obtain_it() -> None:
    for outcome, rule in OUTCOME_RULES.items():
        assert rule.verdict is not Verdict.PASS
        assert (rule.verdict is Verdict.FAIL) == (outcome is Outcome.NOT_OBTAINED)


def test_reasons_are_names_that_fit_their_column() -> None:
    assert all(r.isidentifier() and r == r.lower() and len(r) <= 60 for r in Reason)
    assert not set(Reason) & set(Outcome)
