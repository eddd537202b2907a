"""The gates that a proposal can be held against before it counts: those of fast rungs that answer at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sciagent.campaign.core.judge import judge
from sciagent.domain.campaigns.derived import Part
from sciagent.domain.candidates import Candidate
from sciagent.domain.outcomes import Outcome, Verdict
from sciagent.domain.quantities import Quantity
from sciagent.errors import SimulatorError
from sciagent.verification.contract import Verifier
from sciagent.verification.registry import OURS, provider

if TYPE_CHECKING:
    from sciagent.campaign.core.build import BuiltRung


class FreeGates:
    """The leading fast rungs whose verifier answers at a glance, such as `molecule.checks`.

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
        values: dict[Part, Quantity] = {}
        for rung, names in self._rungs:
            try:
                finding = rung.verifier.glance(candidate, names)
            except SimulatorError:
                continue
            if finding is None or (finding.outcome is not Outcome.OK and not rung.rules.drop_on_refusal):
                continue
            values |= {(rung.rules.position, m.property): m.quantity for m in finding.measured}
            added = [value for prop in rung.spec.derived if (value := prop.measured(values)) is not None]
            known = {m.property for m in (*finding.measured, *added)}
            gate = {name: window for name, window in rung.rules.gate.items() if name in known}
            finding = replace(finding, measured=(*finding.measured, *added))
            judgement = judge(replace(rung.rules, accept={}, gate=gate), finding)
            if judgement.verdict in (Verdict.FAIL, Verdict.NOT_APPLICABLE):
                return f"{judgement.reason}: {judgement.detail}"
        return None
