"""Frontier orbitals, dipole and total energy of a molecule by extended tight binding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.verification.contract import (
    ArtifactFile,
    Context,
    Cost,
    Finding,
    Level,
    Measured,
    Outcome,
    Prior,
    Property,
    PropertyAtLevel,
    Quantity,
    Reason,
    Refusal,
    Settings,
    SimulatorError,
    Tier,
    Verifier,
    at,
)
from sciagent_simulators.geometry import Geometry, GeometryProtocol, failure, prepare, spin_fault
from sciagent_simulators.tblite_engine import HEAVIEST, single_point

RIGID = {HOMO: 0.001, LUMO: 0.001, HOMO_LUMO_GAP: 0.001, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {HOMO: 0.05, LUMO: 0.06, HOMO_LUMO_GAP: 0.06, DIPOLE: 0.5, TOTAL_ENERGY: 0.016}


class XtbSettings(Settings):
    """max_atoms: hydrogens included; larger molecules are refused."""

    method: Literal["GFN2-xTB", "GFN1-xTB"] = "GFN2-xTB"
    geometry: GeometryProtocol = GeometryProtocol()
    max_atoms: int = Field(200, ge=1)


class XtbSinglepoint(Verifier[Molecule]):
    """Frontier orbitals, dipole and total energy by GFN2-xTB in the gas phase.

    One calculation, five properties. The gap is an orbital-energy difference, not an optical gap: against
    PBE0/def2-SVP it ranks well (Spearman 0.93, 16 organics) and lies about 2 eV low, so gates are in its own scale.
    The dipole of an ion is about its centre of mass. A single atom without empty orbitals has no LUMO and no gap.

    Uncertainty is repeatability (k = 1) over the seed of the conformer search: 8 seeds, 10 conformers, 14 molecules.
    Without rotatable bonds values repeat within 0.001 eV; with them the root mean square over molecules is given.

    Source: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019).
    """

    name = "xtb.singlepoint"
    version = "1"
    tier = Tier.SIMULATION
    Settings = XtbSettings
    settings: XtbSettings
    engines = ("tblite", "ase")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")
    priors = (
        Prior(
            property="homo_lumo_gap", level="PBE0/def2-SVP", spearman=0.93, residual=0.86, n=16,
            source="16 hand-picked organics, GFN2 geometries; 0.89 and 0.49 eV without the two saturated ones",
        ),
    )  # fmt: skip

    @property
    def level(self) -> Level:
        return Level(method=self.settings.method, phase="gas", geometry=self.settings.geometry.label)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        return refusal(candidate, HEAVIEST, self.settings.max_atoms)

    def cost(self, candidate: Molecule) -> Cost:
        """Embedding, force field, ranking and relaxation; fitted to 12 to 68 atoms, 10 conformers."""
        share = 0.6 + 0.4 * self.settings.geometry.conformers / 10
        return Cost(core_seconds=0.02 + 4e-5 * share * candidate.n_atoms**2.8)

    def verify(self, batch: Sequence[Molecule], context: Context) -> Iterator[Finding]:
        for molecule in batch:
            try:
                yield self._one(molecule, context)
            except SimulatorError as error:
                yield self.failed(molecule, error)

    def _one(self, molecule: Molecule, context: Context) -> Finding:
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        geometry, diagnostics = prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)
        result = single_point(geometry, self.settings.method)
        values = {
            HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap, DIPOLE: result.dipole,
            TOTAL_ENERGY: result.energy,
        }  # fmt: skip
        return Finding(
            molecule.key,
            Outcome.OK,
            measured=measured(molecule, self.level, values, RIGID, FLEXIBLE),
            diagnostics=diagnostics | {"scf_step": result.recovery, "fmax": result.fmax},
            artifacts=(geometry_artifact(geometry, molecule, context),),
        )


def refusal(molecule: Molecule, heaviest: int, max_atoms: int) -> Refusal | None:
    """What any molecular orbital calculation refuses: elements, size, and a spin that does not fit the electrons."""
    if molecule.n_atoms > max_atoms:
        return Refusal(Reason.TOO_LARGE, f"{molecule.n_atoms} atoms; the limit is {max_atoms}")
    numbers = [atom.GetAtomicNum() for atom in molecule.mol.GetAtoms()]
    hydrogens = sum(atom.GetTotalNumHs() for atom in molecule.mol.GetAtoms())
    if not 0 < min(numbers) <= max(numbers) <= heaviest:
        return Refusal(
            Reason.ELEMENT, f"atomic numbers {min(numbers)} to {max(numbers)}; the method has 1 to {heaviest}"
        )
    fault = spin_fault(sum(numbers) + hydrogens - molecule.charge, molecule.multiplicity)
    return Refusal(Reason.MULTIPLICITY, fault) if fault else None


def measured(
    molecule: Molecule,
    level: Level,
    values: dict[Property, float | None],
    rigid: dict[Property, float],
    flexible: dict[Property, float],
) -> tuple[Measured, ...]:
    """Values in canonical units with the uncertainty of the molecule's class; None is left out.

    Raises SimulatorError implausible (implausible_value) for a value outside the property's bounds.
    """
    from rdkit.Chem.rdMolDescriptors import CalcNumRotatableBonds

    spread = flexible if CalcNumRotatableBonds(molecule.mol) else rigid
    found = []
    for prop, value in values.items():
        if value is None:
            continue
        low, high = prop.low, prop.high
        if not (float("-inf") if low is None else low) <= value <= (float("inf") if high is None else high):
            raise failure(
                Outcome.IMPLAUSIBLE, Reason.IMPLAUSIBLE_VALUE,
                f"{prop.name} = {value:.4g} {prop.unit}; plausible is {low} to {high}",
            )  # fmt: skip
        found.append(Measured(prop.name, level, Quantity(value, prop.unit, spread[prop])))
    return tuple(found)


def geometry_artifact(geometry: Geometry, molecule: Molecule, context: Context) -> ArtifactFile:
    """The geometry as XYZ in the scratch folder."""
    name = f"{molecule.key[:16]}.xyz"
    return ArtifactFile(name, str(geometry.write_xyz(context.scratch / name, molecule.smiles)), "chemical/x-xyz")
