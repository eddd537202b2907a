"""Base classes of the verifiers that treat each candidate by itself: the loop over a batch, refusals, values and files.

One class is for single molecules, one for single crystals, and one for molecules that are computed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.isomers_and_tautomers import isomer_of_geometry, positions_of_xyz
from sciagent.chemistry.molecule import Molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.evidence_keys_and_pooled_replicates import (
    CLASS,
    MOLECULE,
    UNCERTAINTY_KIND,
    ArtifactFile,
    Measured,
    isomer_to_diagnostics,
)
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.quantities import Quantity
from sciagent.verification.verifier_contract import Context, Finding, Level, Property, Refusal, SimulatorError, Verifier
from sciagent_simulators.geometry_and_its_checks import Geometry, failure, spin_fault
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom, search_freedom
from sciagent_simulators.tblite_engine import HEAVIEST

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

    def exact_finding(self, candidate: C, values: Mapping[Property, float], diagnostics: Mapping[str, Any]) -> Finding:
        """Returns a finding with these values, in canonical units, whose uncertainty is 0."""
        measured = [
            Measured(m.property.name, m.level, Quantity(values[m.property], m.property.unit, uncertainty=0.0))
            for m in self.measures
            if m.property in values
        ]
        return Finding(candidate.key, Outcome.OK, tuple(measured), diagnostics=dict(diagnostics))


def refused(candidate: Candidate, refusal: Refusal, diagnostics: Mapping[str, Any] | None = None) -> Finding:
    """Returns the finding that the verifier refuses the candidate."""
    return Finding(
        candidate.key,
        Outcome.REFUSED,
        reason=refusal.reason,
        detail=refusal.detail,
        diagnostics=dict(diagnostics or {}),
    )


class MoleculeVerifier(SingleVerifier[Molecule]):
    """A verifier that treats each molecule separately."""


Spread = Mapping[Property, float]
"""{property: standard uncertainty, in canonical units}."""

Spreads = Mapping[SearchFreedom, Spread]
"""The standard uncertainties of each class of molecules."""


def rigid_or_flexible(rigid: Spread, flexible: Spread) -> Spreads:
    """Returns spreads that are the same for all classes that a conformer search has anything to settle for."""
    return dict.fromkeys(SearchFreedom, flexible) | {SearchFreedom.RIGID: rigid}


class Calculation(MoleculeVerifier):
    """A verifier by a molecular orbital method. Its settings have `max_atoms`."""

    settings: Any
    spreads: ClassVar[Spreads]
    """Standard uncertainties by class of molecule: the repeatability over conformer searches, k = 1."""

    @property
    @abstractmethod
    def level(self) -> Level:
        """The level of the values."""

    def accepts(self, candidate: Molecule) -> Refusal | None:
        if candidate.n_atoms > self.settings.max_atoms:
            return Refusal(Reason.TOO_LARGE, f"{candidate.n_atoms} atoms; the limit is {self.settings.max_atoms}")
        numbers = [atom.GetAtomicNum() for atom in candidate.mol.GetAtoms()]
        hydrogens = sum(atom.GetTotalNumHs() for atom in candidate.mol.GetAtoms())
        if not 0 < min(numbers) <= max(numbers) <= HEAVIEST:  # 0 is a dummy atom
            detail = f"atomic numbers {min(numbers)} to {max(numbers)}; the method has 1 to {HEAVIEST}"
            return Refusal(Reason.ELEMENT, detail)
        fault = spin_fault(sum(numbers) + hydrogens - candidate.charge, candidate.multiplicity)
        return Refusal(Reason.MULTIPLICITY, fault) if fault else None

    def measured(
        self,
        molecule: Molecule,
        values: Mapping[Property, float | None],
        spreads: Spreads | None = None,
        further: Spread | None = None,
        level: Level | None = None,
        molecule_spread: Spread | None = None,
    ) -> tuple[Measured, ...]:
        """Returns the values, in canonical units, with their uncertainties; values of None are left out.

        spreads, level: in place of the verifier's own. further: more standard uncertainties, added in quadrature.
        molecule_spread: the repeatability of this molecule, which is added in quadrature to the spread of rigid
        molecules. Without it the repeatability is the spread of the molecule's class.
        Raises SimulatorError implausible (implausible_value) for a value outside the property's bounds.
        """
        if molecule_spread is None:
            molecule_spread = self.spread_of_molecule(values)
        spread_by_class = spreads or self.spreads
        class_spread = spread_by_class[search_freedom(molecule.mol)]
        rigid = spread_by_class[SearchFreedom.RIGID]
        rows = []
        for prop, value in values.items():
            if value is None:
                continue
            low = -math.inf if prop.low is None else prop.low
            high = math.inf if prop.high is None else prop.high
            if not low <= value <= high:
                detail = f"{prop.name} = {value:.4g} {prop.unit}; plausible is {prop.low} to {prop.high}"
                raise failure(Reason.IMPLAUSIBLE_VALUE, detail)
            repeatability = class_spread[prop]
            if molecule_spread is not None and prop in molecule_spread:
                repeatability = math.hypot(rigid[prop], molecule_spread[prop])
            uncertainty = math.hypot(repeatability, (further or {}).get(prop, 0.0))
            rows.append(Measured(prop.name, level or self.level, Quantity(value, prop.unit, uncertainty)))
        return tuple(rows)

    def spread_of_molecule(self, values: Mapping[Property, float | None]) -> Spread | None:
        """Returns the repeatability of this molecule; None if the repeatability of its class holds."""
        return None

    def calculated(
        self,
        molecule: Molecule,
        context: Context,
        rows: tuple[Measured, ...],
        diagnostics: Mapping[str, Any],
        structures: Mapping[str, Geometry | str],
        detail: str = "",
        molecule_spread: Spread | None = None,
    ) -> Finding:
        """Returns the finding of a successful calculation.

        structures: geometries or XYZ texts by the suffix of their file's name, such as `cation`; "" for none.
        The first is the geometry that all others start from. molecule_spread: as in `measured`. The diagnostics state
        the kind of each uncertainty, by property, and the stereoisomer of the first geometry, if the molecule leaves
        its stereo partly undefined.
        """
        # CLASS: the usual spread of molecules like this one. MOLECULE: the spread of this molecule.
        kinds = {row.property: CLASS for row in rows}
        for prop in molecule_spread or ():
            if prop.name in kinds:
                kinds[prop.name] = MOLECULE
        isomer = None
        artifacts: list[ArtifactFile] = []
        for suffix, structure in structures.items():
            ending = f"-{suffix}.xyz" if suffix else ".xyz"
            file = context.scratch / f"{molecule.key[:16]}{ending}"
            text = structure if isinstance(structure, str) else structure.to_xyz(molecule.smiles)
            file.write_text(text, encoding="utf-8")
            if not artifacts:
                isomer = isomer_of_geometry(molecule.mol, positions_of_xyz(text))
            artifacts.append(ArtifactFile(file.name, str(file), "chemical/x-xyz"))
        facts = {**diagnostics, **isomer_to_diagnostics(isomer), UNCERTAINTY_KIND: kinds}
        return Finding(molecule.key, Outcome.OK, rows, detail=detail, diagnostics=facts, artifacts=tuple(artifacts))


class CrystalVerifier(SingleVerifier[Crystal]):
    """A verifier that treats each crystal separately."""

    kind = "crystal"


def refusal_of_other_kind(candidate: Crystal) -> Refusal | None:
    """Returns the refusal of a candidate of another kind; None for a crystal."""
    return None if candidate.kind == "crystal" else Refusal(Reason.WRONG_KIND, f"a {candidate.kind}, not a crystal")
