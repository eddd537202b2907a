"""The base class of the verifiers of single molecules, with the loop over a batch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence import Measured
from sciagent.domain.outcomes import Outcome
from sciagent.domain.quantities import Quantity
from sciagent.verification.contract import Context, Finding, Property, Refusal, SimulatorError, Verifier


class MoleculeVerifier(Verifier[Molecule]):
    """A verifier that treats each molecule separately. An engine's error becomes a finding with its reason."""

    @abstractmethod
    def finding(self, molecule: Molecule, context: Context) -> Finding:
        """Returns the finding on one molecule. Raises SimulatorError."""

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for molecule in batch:
            try:
                yield self.finding(molecule, context)
            except SimulatorError as error:
                yield self.failed(molecule, error)

    def exact(self, molecule: Molecule, values: Mapping[Property, float], diagnostics: Mapping[str, Any]) -> Finding:
        """Returns a finding with these values, in canonical units, whose uncertainty is 0."""
        measured = [
            Measured(m.property.name, m.level, Quantity(values[m.property], m.property.unit, uncertainty=0.0))
            for m in self.measures
            if m.property in values
        ]
        return Finding(molecule.key, Outcome.OK, tuple(measured), diagnostics=dict(diagnostics))


def refused(molecule: Molecule, refusal: Refusal, diagnostics: Mapping[str, Any] | None = None) -> Finding:
    """Returns the finding that the verifier refuses the molecule."""
    return Finding(molecule.key, Outcome.REFUSED, (), refusal.reason, refusal.detail, dict(diagnostics or {}))
