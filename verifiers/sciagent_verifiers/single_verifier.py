"""The base class of verifiers that treat each candidate separately, with the loop over a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from sciagent.domain.candidates import Candidate
from sciagent.domain.evidence import Measured
from sciagent.domain.outcomes import Outcome
from sciagent.domain.quantities import Quantity
from sciagent.verification.contract import Context, Finding, Property, Refusal, SimulatorError, Verifier

C = TypeVar("C", bound=Candidate)


class SingleVerifier(Verifier[C]):
    """A verifier that treats each candidate separately. An engine's error becomes a finding with its reason."""

    @abstractmethod
    def finding(self, candidate: C, context: Context, /) -> Finding:
        """Returns the finding on one candidate. Raises SimulatorError."""

    def verify(self, batch: Sequence[C], context: Context) -> Iterator[Finding]:
        for candidate in batch:
            try:
                yield self.finding(candidate, context)
            except SimulatorError as error:
                yield self.failed(candidate, error)

    def exact(self, candidate: C, values: Mapping[Property, float], diagnostics: Mapping[str, Any]) -> Finding:
        """Returns a finding with these values, in canonical units, whose uncertainty is 0."""
        measured = [
            Measured(m.property.name, m.level, Quantity(values[m.property], m.property.unit, uncertainty=0.0))
            for m in self.measures
            if m.property in values
        ]
        return Finding(candidate.key, Outcome.OK, tuple(measured), diagnostics=dict(diagnostics))


def refused(candidate: Candidate, refusal: Refusal, diagnostics: Mapping[str, Any] | None = None) -> Finding:
    """Returns the finding that the verifier refuses the candidate."""
    return Finding(candidate.key, Outcome.REFUSED, (), refusal.reason, refusal.detail, dict(diagnostics or {}))
