"""The gates that a proposal can be held against before it counts: those of fast rungs that answer at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sciagent.campaign.core.judge import RungRules, judge
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome, Verdict
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Verifier
from sciagent.verification.registry import OURS, provider


class FreeGates:
    """The leading fast rungs whose verifier answers at a glance, such as `molecule.checks`.

    A refusal counts as a missed gate where the rung drops what it refuses. Limits of objectives are no gates.
    """

    def __init__(self, rungs: Sequence[tuple[Verifier[Any], RungRules]]) -> None:
        """rungs: the verifiers and the rules of the leading fast rungs."""
        self._rungs = [
            (verifier, replace(rules, accept={}))
            for verifier, rules in rungs
            if type(verifier).glance is not Verifier.glance and provider(verifier.name).split()[0] == OURS
        ]

    def missed(self, candidate: Candidate) -> str | None:
        """Returns in one line which gate the candidate misses, or why a rung refuses it; None if it misses none.

        A value that cannot be computed here misses nothing: the rung itself reports the error.
        """
        for verifier, rules in self._rungs:
            try:
                finding = verifier.glance(candidate, rules.gate)
            except SimulatorError:
                continue
            if finding is None or (finding.outcome is not Outcome.OK and not rules.drop_on_refusal):
                continue
            judgement = judge(rules, finding)
            if judgement.verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE):
                return f"{judgement.reason}: {judgement.detail}"
        return None
