"""What the verifiers of single molecules share: the loop over a batch, and the findings that they end with."""

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
    """A verifier that looks at each molecule by itself; an engine's failure becomes a finding with its reason."""

    @abstractmethod
    def finding(self, molecule: Molecule, context: Context) -> Finding:
        """What it finds. Raises SimulatorError."""

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for molecule in batch:
            try:
                yield self.finding(molecule, context)
            except SimulatorError as error:
                yield self.failed(molecule, error)

    def exact(self, molecule: Molecule, values: Mapping[Property, float], diagnostics: Mapping[str, Any]) -> Finding:
        """The finding with these values, in canonical units, which have no uncertainty."""
        measured = [
            Measured(m.property.name, m.level, Quantity(values[m.property], m.property.unit, uncertainty=0.0))
            for m in self.measures
            if m.property in values
        ]
        return Finding(molecule.key, Outcome.OK, tuple(measured), diagnostics=dict(diagnostics))


def refused(molecule: Molecule, refusal: Refusal, diagnostics: Mapping[str, Any] | None = None) -> Finding:
    """The finding that the verifier does not apply to the molecule."""
    return Finding(molecule.key, Outcome.REFUSED, (), refusal.reason, refusal.detail, dict(diagnostics or {}))
