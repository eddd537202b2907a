"""The gates by which a molecule is judged before it is proposed: those of fast rungs that need no calculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sciagent.campaign.core.derived_values import with_derived
from sciagent.campaign.core.judge import Answer, judge
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome, Verdict
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Verifier
from sciagent.verification.registry import OURS, provider

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltRung


class FreeGates:
    """The gates of the leading fast rungs whose verifier defines `glance`, such as `molecule.checks`.

    A refusal counts as a missed gate where the rung drops what it refuses. Limits of objectives are no gates.
    """

    def __init__(self, rungs: Sequence[BuiltRung]) -> None:
        """rungs: the leading fast rungs."""
        parts = [part for rung in rungs for prop in rung.spec.derived for part in prop.parts.values()]
        self._rungs = [
            (rung, {*rung.rules.gate, *(name for position, name in parts if position == rung.rules.position)})
            for rung in rungs
            if type(rung.verifier).glance is not Verifier.glance and provider(rung.verifier.name).split()[0] == OURS
        ]

    def missed(self, candidate: Candidate) -> str | None:
        """Returns in one line which gate the candidate misses, or why a rung refuses it; None if it misses none.

        A value that cannot be computed here misses nothing: the rung itself reports the error.
        """
        earlier: list[Answer] = []
        for rung, names in self._rungs:
            try:
                finding = rung.verifier.glance(candidate, names)
            except SimulatorError:
                continue
            if finding is None or (finding.outcome is not Outcome.OK and not rung.rules.drop_on_refusal):
                continue
            finding = with_derived(rung, finding, earlier)
            known = {m.property for m in finding.measured}
            gate = {name: window for name, window in rung.rules.gate.items() if name in known}
            judgement = judge(replace(rung.rules, accept={}, gate=gate), finding)
            earlier.append(Answer(rung.rules.position, judgement, finding.measured))
            if judgement.verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE):
                return f"{judgement.reason}: {judgement.detail}"
        return None
